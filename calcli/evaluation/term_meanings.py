"""Definitions of the terms of an evaluation, one line each, which reports and documentation quote."""

from collections.abc import Sequence

from calcli.evaluation.results import Result
from calcli.evaluation.scores import Score
from calcli.metrics.catalog import metric
from calcli.metrics.settings import MetricSettings, norm_text

REPORT = {
    "verdict": (
        "whether the probabilities can be trusted, in which direction they are wrong,"
        " and what would help"
    ),
    "no miscalibration found": (
        "an error that a perfectly calibrated model shows as well on as many samples"
    ),
    "overconfidence": (
        "mean confidence minus accuracy; negative where the model is underconfident"
    ),
    "miscalibrated": (
        "right on average, and significantly miscalibrated for some confidences,"
        " classes or groups"
    ),
    "confidence": "probability of the predicted class",
    "P(class 1)": (
        "probability of the second of two classes;"
        " its error on average is a bias towards one of them"
    ),
    "±": "one standard error of a mean over samples",
    "p": (
        "p-value (null: perfect calibration):"
        " the probability of an error at least as large under calibration"
    ),
    "[low, high]": (
        "interval that covers the true value at the level given,"
        " 95 % unless --level says otherwise"
    ),
    "expected under calibration": (
        "mean of the metric under perfect calibration, behind the value in brackets"
    ),
    "refinement": (
        "refinement loss: what that recalibration leaves;"
        " lower where scores separate the classes better"
    ),
    "calibration": (
        "calibration loss: how far recalibration could reduce the loss"
        " (cross-validated, method named)"
    ),
    "entropy": "NLL expected if the probabilities were right",
    "root-mean-square gap": (
        "root of the mean squared distance of probability and frequency"
    ),
    "z": (
        "a difference in units of its standard error under calibration;"
        " alone, beyond 2 is significant at 5 %"
    ),
}
"""Terms of the report, in order of appearance."""

BY_PART = {
    "rows, predicted": "samples with this label, and samples for which it is predicted",
    "share, mean p": "frequency of the label, and mean probability that it gets",
    "gap": (
        "by class: mean probability minus frequency;"
        " by group: of the confidence or of P(class 1), as said above it"
    ),
    "precision, recall": (
        "proportion of right answers among its predictions, and among its samples"
    ),
    "p, adjusted": (
        "the p-value adjusted for the number of classes or groups (Benjamini, Hochberg)"
    ),
}
"""Terms of the tables by class and by group."""

OF = {
    "top": "confidence and accuracy",
    "positive": "P(class 1) and the frequency of class 1",
    "class": "each class's probability and its frequency",
    "all": "all probabilities and their frequencies, pooled",
}
"""The two quantities whose gap an error measures, by ``--label``."""


BINS = {"width": "equal-width bins", "mass": "bins of equally many rows"}


def meaning(name: str, settings: MetricSettings) -> str:
    """Short definition of a metric under its settings; may be empty."""
    gap = "mean gap"
    if settings.norm != 1.0:
        gap = f"norm {norm_text(settings.norm)} of the gaps"
    bins = BINS[settings.scheme]
    if settings.compat is not None:
        bins = f"bins of {settings.compat}"
    return metric(name).meaning.format(gap=gap, of=OF[settings.label], bins=bins)


def explained(
    results: Sequence[Result], report: bool, settings: MetricSettings
) -> list[tuple[str, str]]:
    """Terms with definitions: the metrics shown, then the terms of the report and of its tables, if shown."""
    scores: dict[str, Score] = {}
    has_two_classes = has_parts = False
    for result in results:
        scores |= result.scores
        has_two_classes = has_two_classes or result.n_classes == 2
        has_parts = has_parts or bool(result.per_class or result.per_group)
    terms = []
    for name, score in scores.items():
        if report and not metric(name).in_table:
            continue
        title = metric(name).title
        is_of_label = f"label:{settings.label}" in score.signature.split("|")
        if is_of_label and settings.label != "top":
            title += f"; here of {OF[settings.label]}"
        terms.append((name, title))
    if report:
        of_report = dict(REPORT)
        if not has_two_classes:
            of_report.pop("P(class 1)", None)
        terms += of_report.items()
    if has_parts:
        terms += BY_PART.items()
    return terms
