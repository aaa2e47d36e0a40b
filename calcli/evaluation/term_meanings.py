"""What the words of an evaluation mean, a line each: the one place that reports and documentation quote."""

from collections.abc import Sequence

from calcli.evaluation.results import Result
from calcli.metrics.catalog import metric

REPORT = {
    "verdict": "whether the probabilities can be trusted, in which direction they are wrong, and what would mend it",
    "no significant miscalibration": "as far off as a perfectly calibrated model would be on as many rows, by chance",
    "overconfidence": "mean confidence minus accuracy; negative where the model is underconfident",
    "mixed": "right on average, and significantly wrong for some confidences, classes or groups",
    "confidence": "probability of the predicted class",
    "P(class 1)": "probability of the second of two classes; its error on average is a bias towards one of them",
    "±": "one standard error of a mean over rows",
    "p": "p-value (null: perfect calibration): how often a calibrated model would show as much or more",
    "[low, high]": "interval that covers the true value at the level given, 95 % unless --level says otherwise",
    "expected under calibration": "noise floor: the value that chance alone gives a perfectly calibrated model",
    "refinement": "part of the loss that no calibrator can remove: how well the scores tell the classes apart",
    "calibration": "part of the loss that the best calibrator would remove, estimated on rows held out from its fit",
    "entropy": "log loss that the probabilities promise: what it would be on average if they were right",
    "root-mean-square gap": "root of the mean squared distance of probability and frequency",
    "z": "a difference in units of its standard error under calibration; alone, beyond 2 is more than chance",
}
"""Terms of the report, in the order in which they come up."""


BY_PART = {
    "rows, predicted": "rows whose label it is, and rows for which it is predicted",
    "share, mean p": "share of the label, and mean probability that it gets",
    "gap": "by class: mean probability minus share; by group: mean confidence minus accuracy",
    "precision, recall": "share of right answers among its predictions, and among its rows",
    "p, all considered": "the same when every class or group is a chance to be off (Benjamini, Hochberg)",
}
"""Terms of the tables by class and by group."""


def explained(results: Sequence[Result], report: bool) -> list[tuple[str, str]]:
    """Terms with their meaning: the metrics shown, then those of the report and of its tables where they are shown."""
    names = dict.fromkeys(name for result in results for name in result.scores)
    terms = [(name, metric(name).title) for name in names if metric(name).in_table or not report]
    two = any(result.n_classes == 2 for result in results)
    if report:
        terms += [(term, words) for term, words in REPORT.items() if term != "P(class 1)" or two]
    if any(result.per_class or result.per_group for result in results):
        terms += BY_PART.items()
    return terms
