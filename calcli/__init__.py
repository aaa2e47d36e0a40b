"""Post-hoc confidence calibration of classifiers on saved logit files.

>>> import numpy as np, calcli
>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(0, 3, 500)
>>> logits = 3 * (rng.normal(size=(500, 3)) + 1.5 * np.eye(3)[labels])
>>> calibrator = calcli.fit(logits, labels, method="ts")
>>> calibrator.predict_proba(logits).shape
(500, 3)
>>> before, after = calcli.evaluate(logits, labels, calibrator, metrics=["nll"]).results
>>> after.scores["nll"].value < before.scores["nll"].value
True

What is listed in ``__all__`` is public, and ``calcli.sklearn``; everything else may change.
"""

# ruff: noqa: F403, F405  # what is public below is in calcli.api

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calcli.api import *

__version__ = "0.2.0"

__all__ = [
    "Evaluation",
    "FittedCalibrator",
    "Picture",
    "__version__",
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


def __getattr__(name: str) -> Any:
    """Load the API when it is used: a command line that shows help needs none of it."""
    if name not in __all__:
        raise AttributeError(
            f"module 'calcli' has no attribute {name!r}; public names:"
            f" {', '.join(__all__)}"
        )
    from calcli import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)
