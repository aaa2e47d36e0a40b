"""The public Python API: the same core as the command line, for arrays, tensors and
bundles.
"""

from calcli.api.arguments import Scores
from calcli.api.calibrators import FittedCalibrator, export, fit, load
from calcli.api.comparisons import compare
from calcli.api.deployment import threshold, watch
from calcli.api.evaluations import evaluate, report
from calcli.api.imports import extract
from calcli.api.pictures import Picture, diagram
from calcli.evaluation.evaluation import Evaluation

__all__ = [
    "Evaluation",
    "FittedCalibrator",
    "Picture",
    "Scores",
    "compare",
    "diagram",
    "evaluate",
    "export",
    "extract",
    "fit",
    "load",
    "report",
    "threshold",
    "watch",
]
