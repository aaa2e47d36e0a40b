"""The graph of an artifact: scores in, probabilities, prediction and confidence out."""

import numpy as np

from calcli.errors import UsageError
from calcli.export import functions
from calcli.export.calibrator_graph import lower
from calcli.export.graph import Graph, Operand
from calcli.export.maps import binary, hoki, networks
from calcli.io.artifact import Artifact
from calcli.numerics import FloatArray
from calcli.rows import Block

FAMILIES = (binary, functions, hoki, networks)
"""Methods whose ``apply`` no graph can follow: importing them registers how they are computed."""

PAIR = {"logits": ([[0.0, 1.0]], [[0.0, 0.0]]), "probs": ([[-1.0, 1.0]], [[1.0, 0.0]])}
"""From a binary model's one score s to two: (0, s) or (1 - s, s)."""


def trace(artifact: Artifact, *, one_column: bool = False, nudge: FloatArray | None = None) -> Graph:
    """Trace a calibrator. Raises UsageError for a method that no graph can hold.

    one_column : the scores are (rows, 1), a binary model's score of class 1. nudge : see ``Graph``.
    """
    graph = Graph(nudge=nudge)
    scores = graph.scores(1 if one_column else artifact.n_classes)
    if one_column:
        if artifact.n_classes != 2 or artifact.input_kind not in PAIR:
            raise UsageError(f"one column of scores is not what {artifact.n_classes} classes have")
        weight, bias = PAIR[artifact.input_kind]
        scores = scores @ np.array(weight) + np.array(bias)
    end: Operand = lower(artifact.calibrator, Block(0, scores, artifact.input_kind))
    probs = np.exp(end.log_probs)
    confidence = np.minimum(probs[np.arange(len(probs)), end.label], 1.0)
    outputs: dict[str, Operand] = {"probs": probs, "prediction": end.label, "confidence": confidence}
    graph.outputs = {name: value.place for name, value in outputs.items()}
    return graph
