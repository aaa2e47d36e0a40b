"""Findings: what a verdict has to say beside its headline, the most important first.

Each finding is one function of the facts and the verdict, marked ``finder``, and
returns the numbers to say or None. The functions stand in the order of what they cost
the reader, most first, and findings have that order; ``words`` has a sentence for each
kind.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calcli.evaluation.facts import LOSS_WORDS, Difference, Facts
from calcli.evaluation.levels import LEVEL
from calcli.evaluation.verdict import Verdict
from calcli.metrics.confidence_bins import ConfidenceBin
from calcli.statistics.intervals import ends_of, normal_p_value

FEWEST_IN_BIN = 20
"""Samples that a bin must hold to be named."""

LEAST_ODDS_RATIO = 2.0
"""Ratio of observed and predicted odds from which samples may be drawn by class."""

FEWEST_EVENTS = 20
"""Samples of the rarer class below which a fit of two parameters rests on few events:
ten a parameter (Peduzzi and others, 1996, Journal of Clinical Epidemiology 49)."""

RARE = 0.1
"""Largest share of a class that is called rare."""


@dataclass(frozen=True)
class Finding:
    """One finding. kind : its name. numbers : what is said of it, by name, for JSON."""

    kind: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


Finder = Callable[[Facts, Verdict], Finding | None]

FINDERS: list[Finder] = []
"""Functions marked ``finder``, in the order in which they stand below."""


def finder(function: Finder) -> Finder:
    """Add a function to those that look for findings."""
    FINDERS.append(function)
    return function


def find(facts: Facts, verdict: Verdict) -> list[Finding]:
    """All findings on one set of rows, the most important first."""
    findings = []
    for find_one in FINDERS:
        finding = find_one(facts, verdict)
        if finding is not None:
            findings.append(finding)
    return findings


def with_caveats(findings: Sequence[Finding], caveats: Sequence[str]) -> list[Finding]:
    """Findings with further doubts about the rows, which stand before all but labels.

    A caveat that repeats the doubt about the labels is left out.
    """
    known = set()
    doubts = []
    others = []
    for finding in findings:
        known.add(finding.numbers.get("words"))
        if finding.kind in DOUBTS:
            doubts.append(finding)
        else:
            others.append(finding)
    new = [Finding("data", {"words": words}) for words in caveats if words not in known]
    return [*doubts, *new, *others]


DOUBTS = ("labels", "too_good", "data")
"""Kinds of findings that are doubts about the data."""


# ---- doubts about the data


@finder
def doubtful_labels(facts: Facts, verdict: Verdict) -> Finding | None:
    """Labels that may not belong to the scores; where this is the verdict, its reason."""
    if not facts.doubts:
        return None
    return Finding("labels", {"words": facts.doubts[0]})


@finder
def too_good(facts: Facts, verdict: Verdict) -> Finding | None:
    """Scores that fit these rows better than calibrated scores would."""
    if not facts.too_good:
        return None
    return Finding("too_good")


@finder
def lacking_classes(facts: Facts, verdict: Verdict) -> Finding | None:
    """Classes that the scores expect and the samples lack."""
    classes = facts.classes
    if classes is None or not classes.lacking:
        return None
    worst, expected = classes.lacking[0]
    return Finding(
        "lacking",
        {
            "n_lacking": len(classes.lacking),
            "worst": worst,
            "name": facts.data.class_name(worst),
            "expected": expected,
        },
    )


@finder
def sampled_by_class(facts: Facts, verdict: Verdict) -> Finding | None:
    """Risks that are all too high, or too low, by one factor of the odds.

    The slope is right: only the frequency of class 1 differs from what the scores
    expect, as where samples were drawn by class.
    """
    one = facts.class_one
    if one is None or not facts.is_about_class_one or not verdict.has_findings:
        return None
    is_sloped = one.slope is None or not one.slope.interval.holds(1.0)
    if is_sloped or not one.gap.is_significant:
        return None
    if _odds_ratio(one.predicted, one.observed) < LEAST_ODDS_RATIO:
        return None
    return Finding("sampled", {"predicted": one.predicted, "observed": one.observed})


def _odds_ratio(a: float, b: float) -> float:
    """Larger odds of two shares over the smaller; infinite where one is 0 or 1."""
    low, high = sorted((a, b))
    if low <= 0.0 or high >= 1.0:
        return float("inf")
    return high / (1.0 - high) / (low / (1.0 - low))


@finder
def few_events(facts: Facts, verdict: Verdict) -> Finding | None:
    """Few samples of the rarer class of two, on which every fit would rest."""
    data = facts.data
    if not facts.is_about_class_one or not verdict.has_findings:
        return None
    events = data.rarer_count
    if not 0 < events < FEWEST_EVENTS or events > RARE * data.n:
        return None
    return Finding("few_events", {"events": events, "n": data.n})


# ---- where the scores are wrong


@finder
def miscalibrated_groups(facts: Facts, verdict: Verdict) -> Finding | None:
    """Groups of rows with a significant gap."""
    groups = verdict.groups
    if groups is None or "groups" not in verdict.significant:
        return None
    return Finding(
        "groups",
        {
            "n_significant": groups.n_significant,
            "n_groups": groups.n_groups,
            "worst": groups.worst,
            "n": groups.worst_n,
            "predicted": groups.worst_predicted,
            "observed": groups.worst_observed,
            "gap": groups.worst_gap,
            "of_positive": groups.of_positive,
        },
    )


@finder
def miscalibrated_classes(facts: Facts, verdict: Verdict) -> Finding | None:
    """Classes whose mean probability differs significantly from their frequency."""
    classes = verdict.classes
    if classes is None or "classes" not in verdict.significant:
        return None
    worst = classes.significant[0]
    return Finding(
        "classes",
        {
            "n_significant": len(classes.significant),
            "n_classes": facts.data.n_classes,
            "worst": worst,
            "name": facts.data.class_name(worst),
            "predicted": classes.predicted,
            "observed": classes.observed,
        },
    )


@finder
def worst_range(facts: Facts, verdict: Verdict) -> Finding | None:
    """The bin that miscalibration shows in most."""
    bin_ = facts.class_one_bin
    if facts.is_about_class_one:
        if bin_ is None or "confidence" not in verdict.significant:
            return None
        if not bin_.significant or bin_.n < FEWEST_IN_BIN:
            return None
        return _range_finding(bin_, of_positive=True)
    bin_ = worst_bin(verdict)
    if bin_ is None:
        return None
    return _range_finding(bin_, of_positive=False)


def worst_bin(verdict: Verdict) -> ConfidenceBin | None:
    """The significant bin with the largest number of samples times gap."""
    significant = []
    for bin_ in verdict.bins:
        if bin_.significant and bin_.n >= FEWEST_IN_BIN:
            significant.append(bin_)
    if not significant:
        return None
    return max(significant, key=lambda bin_: abs(bin_.gap) * bin_.n)


def _range_finding(bin_: ConfidenceBin, of_positive: bool) -> Finding:
    return Finding(
        "range",
        {
            "low": bin_.low,
            "high": bin_.high,
            "n": bin_.n,
            "predicted": bin_.confidence,
            "observed": bin_.accuracy,
            "observed_low": bin_.chosen_low,
            "observed_high": bin_.chosen_high,
            "gap": bin_.gap,
            "of_positive": of_positive,
        },
    )


@finder
def significant_errors(facts: Facts, verdict: Verdict) -> Finding | None:
    """Calibration errors that are significant where the joint test finds nothing."""
    if "errors" not in verdict.significant or "confidence" in verdict.significant:
        return None
    metrics = [name for name, p in facts.errors.items() if p <= LEVEL]
    return Finding("errors", {"metrics": metrics, "p": min(facts.errors.values())})


# ---- what recalibration could do, and what the fit left


@finder
def possible_gain(facts: Facts, verdict: Verdict) -> Finding | None:
    """Loss that recalibration could remove, by cross-validation on these rows."""
    decomposition = facts.decomposition
    if decomposition is None or not verdict.has_findings:
        return None
    if not decomposition.nll.is_detected:
        return None
    return Finding(
        "gain",
        {
            "nll": decomposition.nll.calibration,
            "at_least": decomposition.nll.at_least,
            "method": decomposition.method,
        },
    )


@finder
def left_by_the_fit(facts: Facts, verdict: Verdict) -> Finding | None:
    """What a fit to so many samples leaves, where only the exact test finds it.

    Its p-value is of errors in places where neither mean nor sharpness is significant.
    """
    if facts.fit is None or not verdict.is_limited_by_fit:
        return None
    gap = facts.main_gap
    low, high = ends_of(gap.interval if gap.interval.known else None)
    largest_z = max(abs(facts.test.gap.z), abs(facts.test.sharpness.z))
    # NLL that a wrong slope or bias with this z costs
    nll = largest_z**2 / (2.0 * facts.data.independent_rows)
    return Finding(
        "left_by_fit",
        {
            "gap": gap.value,
            "gap_low": low,
            "gap_high": high,
            "nll": nll,
            "in_places": normal_p_value(largest_z) >= LEVEL,
            "p": verdict.exact.p_overall,
            "n_fit": facts.fit.n,
            "n_to_halve": 4 * facts.fit.n,
        },
    )


def effect_finding(
    differences: "Mapping[str, Difference]", loss: str, counts: Mapping[str, int]
) -> Finding | None:
    """What a calibrator does to the loss and to the predictions.

    differences : to the baseline, by metric. loss : the metric that decides. counts :
    what the calibrator counted, as the predictions that it changes.
    """
    change = differences.get(loss)
    if change is None or change.p_value is None:
        return None
    low, high = ends_of(change.interval)
    accuracy = differences.get("accuracy")
    moved = 0
    if accuracy is not None and accuracy.answers is not None:
        moved = counts.get("predictions_changed", sum(accuracy.answers))
    return Finding(
        "effect",
        {
            "loss": LOSS_WORDS[loss],
            "change": change.value,
            "low": low,
            "high": high,
            "moved": moved,
            "accuracy": None if accuracy is None else accuracy.value,
        },
    )
