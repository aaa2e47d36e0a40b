"""Definitions of the terms of an evaluation, one line each, which reports and documentation quote."""

from collections.abc import Sequence

from calcli.evaluation.results import Result
from calcli.metrics.catalog import metric
from calcli.metrics.settings import MetricSettings, norm_text

REPORT = {
    "verdict": "whether the probabilities can be trusted, in which direction they are wrong, and what would help",
    "no miscalibration found": "an error that a perfectly calibrated model shows as well on as many samples",
    "overconfidence": "mean confidence minus accuracy; negative where the model is underconfident",
    "miscalibrated": "right on average, and significantly miscalibrated for some confidences, classes or groups",
    "confidence": "probability of the predicted class",
    "P(class 1)": "probability of the second of two classes; its error on average is a bias towards one of them",
    "±": "one standard error of a mean over samples",
    "p": "p-value (null: perfect calibration): the probability of an error at least as large under calibration",
    "[low, high]": "interval that covers the true value at the level given, 95 % unless --level says otherwise",
    "expected under calibration": "mean of the metric under perfect calibration, behind the value in brackets",
    "refinement": "refinement loss: what that recalibration leaves; lower where scores separate the classes better",
    "calibration": "calibration loss: how far recalibration could reduce the loss (cross-validated, method named)",
    "entropy": "NLL expected if the probabilities were right",
    "root-mean-square gap": "root of the mean squared distance of probability and frequency",
    "z": "a difference in units of its standard error under calibration; alone, beyond 2 is significant at 5 %",
}
"""Terms of the report, in order of appearance."""

BY_PART = {
    "rows, predicted": "samples with this label, and samples for which it is predicted",
    "share, mean p": "frequency of the label, and mean probability that it gets",
    "gap": "by class: mean probability minus frequency; by group: of the confidence or of P(class 1), as said above it",
    "precision, recall": "proportion of right answers among its predictions, and among its samples",
    "p, adjusted": "the p-value adjusted for the number of classes or groups (Benjamini, Hochberg)",
}
"""Terms of the tables by class and by group."""

OF = {
    "top": "confidence and accuracy",
    "positive": "P(class 1) and the frequency of class 1",
    "class": "each class's probability and its frequency",
    "all": "all probabilities and their frequencies, pooled",
}
"""The two quantities whose gap an error measures, by ``--label``."""


def meaning(name: str, settings: MetricSettings) -> str:
    """Short definition of a metric under its settings; may be empty."""
    gap = (
        "mean gap"
        if settings.norm == 1.0
        else f"norm {norm_text(settings.norm)} of the gaps"
    )
    bins = {"width": "equal-width bins", "mass": "bins of equally many rows"}[
        settings.scheme
    ]
    bins = bins if settings.compat is None else f"bins of {settings.compat}"
    return metric(name).meaning.format(gap=gap, of=OF[settings.label], bins=bins)


def explained(
    results: Sequence[Result], report: bool, settings: MetricSettings
) -> list[tuple[str, str]]:
    """Terms with definitions: the metrics shown, then the terms of the report and of its tables, if shown."""
    scores = {
        name: score for result in results for name, score in result.scores.items()
    }
    here = "" if settings.label == "top" else f"; here of {OF[settings.label]}"
    terms = []
    for name, score in scores.items():
        if metric(name).in_table or not report:
            terms.append(
                (
                    name,
                    metric(name).title
                    + here * (f"label:{settings.label}" in score.signature.split("|")),
                )
            )
    two = any(result.n_classes == 2 for result in results)
    if report:
        terms += [
            (term, words)
            for term, words in REPORT.items()
            if term != "P(class 1)" or two
        ]
    if any(result.per_class or result.per_group for result in results):
        terms += BY_PART.items()
    return terms
