"""What the words of an evaluation mean, a line each: the one place that reports and documentation quote."""

from collections.abc import Sequence

from calcli.metrics.catalog import metric

__all__ = ["REPORT", "explained"]

REPORT = {
    "verdict": "whether the probabilities can be trusted, in which direction they are wrong, and what would mend it",
    "calibrated within noise": "as far off as a perfectly calibrated model would be on as many rows, by chance alone",
    "overconfident": "the model says higher probabilities than the share of rows it gets right",
    "confidence": "probability of the predicted class",
    "±": "one standard error of a mean over rows",
    "p": "how often a perfectly calibrated model with the same confidences would show as much or more",
    "[low, high]": "interval that covers the true value at the level given, 95 % unless --level says otherwise",
    "calibrated model would show": "noise floor: the value that chance alone gives a perfectly calibrated model",
    "refinement": "part of the loss that no calibrator can remove: how well the scores tell the classes apart",
    "calibration": "part of the loss that the best calibrator would remove, estimated on rows held out from its fit",
    "z": "a difference in units of its standard error under calibration; beyond 2 is more than chance",
}
"""Terms of the report, in the order in which they come up."""


def explained(metrics: Sequence[str], report: bool) -> list[tuple[str, str]]:
    """Terms with their meaning: the metrics shown, then those of the report when it is shown."""
    return [*((name, metric(name).title) for name in metrics), *(REPORT.items() if report else ())]
