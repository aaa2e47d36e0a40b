"""The words of a verdict: headline, findings and numbers, for every output.

A headline and the line of a finding have at most ``LONGEST`` characters. "sure" is mean
confidence, "right" is accuracy, points are percentage points.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from calcli.evaluation.facts import ClassOne, Estimate, Facts
from calcli.evaluation.findings import Finding, worst_bin
from calcli.evaluation.levels import WIDE
from calcli.evaluation.verdict import (
    TWO_SIDED,
    Verdict,
    gap_half_width,
    has_few_errors,
    has_too_few_rows,
    spread_sign,
)
from calcli.metrics.losses import CARRYING, rows_for_half_width
from calcli.number_words import count as count
from calcli.number_words import noun
from calcli.number_words import percent as percent
from calcli.number_words import points as points
from calcli.number_words import samples as samples
from calcli.statistics.intervals import Interval
from calcli.statistics.p_values import p_text

LONGEST = 100
"""Characters of a headline or of the line of a finding."""

LONGEST_NAME = 32
"""Characters of a name of a file, class or group inside a sentence."""

MOST_DECIMALS = 4

RARE_EVENTS = 0.05
"""Frequency of class 1 below which it is compared by a ratio, not in points."""


# ---- numbers


def decimals_for(*shares: float) -> int:
    """Decimals of percentages that show the smallest of these shares with a digit.

    A share that ``MOST_DECIMALS`` do not show counts as 0.
    """
    known = [abs(share) for share in shares if share and math.isfinite(share)]
    if not known:
        return 1
    percent = 100.0 * min(known)
    if percent >= 0.095 or percent < 0.5 * 10.0**-MOST_DECIMALS:
        return 1
    return min(MOST_DECIMALS, 1 - math.floor(math.log10(percent) + 1e-9))


def interval_points(interval: Interval, decimals: int) -> str:
    """An interval in percentage points, ``[13.0, 15.2]``; the reason where unknown."""
    if not interval.known:
        return "no interval"
    low = f"{100.0 * interval.low:z.{decimals}f}"
    high = f"{100.0 * interval.high:z.{decimals}f}"
    return f"[{low}, {high}]"


def gap_words(gap: Estimate, decimals: int | None = None) -> str:
    """A gap with its interval, ``+14.1 points [13.0, 15.2]``."""
    if decimals is None:
        decimals = decimals_for(gap.value)
    shown = f"{points(gap.value, decimals)} points"
    if not gap.interval.known:
        return f"{shown}, no interval"
    return f"{shown} {interval_points(gap.interval, decimals)}"


def small(x: float) -> str:
    """A loss or its change with digits that show it, ``0.071``, ``0.00042``."""
    if x == 0.0 or not math.isfinite(x):
        return f"{x:.3f}"
    decimals = max(3, 1 - math.floor(math.log10(abs(x))))
    return f"{x:.{min(decimals, 6)}f}"


def change_with_interval(change: float, low: float, high: float) -> str:
    """A change of a loss with its interval, ``-0.2700 [-0.2990, -0.2430]``."""
    return f"{change:+z.4f} [{low:z.4f}, {high:z.4f}]"


def shortened(text: str, longest: int = LONGEST) -> str:
    """A text of at most ``longest`` characters: whole clauses, else cut with ``…``."""
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    head = text[: longest + 1]
    for mark in ("; ", ": ", ", "):
        clause = head.rpartition(mark)[0]
        is_whole = clause.count("(") == clause.count(")")
        if is_whole and len(clause) > longest // 3:
            return clause
    return f"{text[: longest - 1].rstrip()}…"


def name_words(name: object, longest: int = LONGEST_NAME) -> str:
    """A name from a file, shortened in its middle."""
    text = str(name)
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    tail = longest - 1 - head
    return f"{text[:head]}…{text[-tail:]}"


# ---- the headline


def headline(facts: Facts, verdict: Verdict) -> str:
    """The verdict in one line, without the name of what it is about."""
    words = _HEADLINES[verdict.kind](facts, verdict)
    return shortened(words)


def _sure_and_right(facts: Facts, gap: float = 0.0) -> str:
    """Mean confidence and accuracy. gap : a difference between them to be seen."""
    decimals = decimals_for(gap, 1.0 - facts.confidence, 1.0 - facts.accuracy)
    sure = percent(facts.confidence, decimals)
    right = percent(facts.accuracy, decimals)
    return f"{sure} sure, {right} right"


def _predicted_and_observed(facts: Facts, gap: float = 0.0) -> str:
    """Predicted and observed frequency of class 1. gap : a difference to be seen."""
    assert facts.class_one is not None
    one = facts.class_one
    decimals = decimals_for(gap, one.predicted, one.observed)
    predicted = percent(one.predicted, decimals)
    observed = percent(one.observed, decimals)
    return f"{predicted} predicted, {observed} observed"


def _means(facts: Facts) -> str:
    """The two numbers that calibration makes equal."""
    if facts.is_about_class_one:
        return _predicted_and_observed(facts)
    return _sure_and_right(facts)


def _calibrated(facts: Facts, verdict: Verdict) -> str:
    if verdict.is_limited_by_fit:
        assert facts.fit is not None
        n_fit = facts.fit.n
        limit = f"{count(n_fit)} calibration {noun(n_fit, 'sample')}"
        return f"calibrated as far as {limit} can: {_means(facts)}"
    where = samples(facts.data.n)
    return f"calibrated: {_means(facts)}, no miscalibration found in {where}"


def _one_direction(facts: Facts, verdict: Verdict) -> str:
    if facts.is_about_class_one:
        return _risk_words(verdict.kind, facts)
    if verdict.by_nll_only:
        p = p_text(verdict.p_value, verdict.draws)
        gap = gap_words(facts.overconfidence, decimals=1)
        return f"{verdict.kind}: {_sure_and_right(facts)} ({gap}; by NLL {p})"
    gap = gap_words(facts.overconfidence)
    means = _sure_and_right(facts, facts.overconfidence.value)
    return f"{verdict.kind}: {means} ({gap})"


def _risk_words(kind: str, facts: Facts) -> str:
    """How P(class 1) is wrong: its spread, then its mean."""
    one = facts.class_one
    assert one is not None
    spread = _spread_words(one, spread_sign(facts, facts.judged))
    bias = facts.judged.gap.z
    if abs(bias) <= TWO_SIDED:
        means = f"({_predicted_and_observed(facts)})"
        spread = spread or "wrong in places"
        return f"{kind}: risks {spread}, right on average {means}"
    level = "too high" if bias > 0.0 else "too low"
    gap = abs(one.gap.value)
    means = _predicted_and_observed(facts, gap)
    size = f"{100.0 * gap:.{decimals_for(gap)}f} points {level}"
    details = means
    if one.observed < RARE_EVENTS and one.predicted > 0.0:
        # in points a difference would look small
        size = level
        details = f"O:E {one.observed / one.predicted:.2f}; {means}"
    if not spread:
        return f"{kind}: risks {size} ({details})"
    words = f"{kind}: risks {spread}, {size} ({details})"
    if len(words) > LONGEST:
        return f"{kind}: risks {spread} and {level} ({means})"
    return words


def _spread_words(one: ClassOne, sign: int) -> str:
    """Whether risks are too extreme or too moderate, empty for neither."""
    if not sign:
        return ""
    spread = "too extreme" if sign > 0 else "too moderate"
    if one.slope is None:
        return spread
    return f"{spread} (slope {one.slope.value:.2f})"


def _too_few(facts: Facts, verdict: Verdict) -> str:
    interval = facts.main_gap.interval
    if has_too_few_rows(facts) and facts.data.units is not None:
        n_units = facts.data.units
        units = f"{count(n_units)} {noun(n_units, 'unit')}"
        return f"too few units to test: {units}, {samples(facts.data.n)}"
    if has_few_errors(facts):
        what = "samples of one class" if facts.is_about_class_one else "errors"
        found = f"{round(facts.rarer_outcomes)} in {samples(facts.data.n)}"
        return f"too few {what} to cross-fit: {found}; {_means(facts)}"
    if not interval.known:
        return f"too few samples: {samples(facts.data.n)}, {interval.method}"
    low = round(100.0 * interval.low)
    high = round(100.0 * interval.high)
    needed = samples_needed(facts)
    reach = f"the gap is between {low:+d} and {high:+d} points"
    target = f"{samples(needed)} give ±{round(100 * WIDE)}"
    if needed <= facts.data.n:
        return (
            f"too few samples to be sure: {_means(facts)} ({gap_words(facts.main_gap)})"
        )
    return f"too few samples: {reach}; {target}"


def samples_needed(facts: Facts) -> int:
    """Samples like these that give the overconfidence to within ``WIDE``."""
    needed = _samples_needed(facts)
    rounded = 100 if needed < 10_000 else 1000
    return max(rounded, math.ceil(needed / rounded - 1e-9) * rounded)


def _samples_needed(facts: Facts) -> float:
    """Number of such samples, from the half width of the interval on these.

    That falls with the root of their number. Where fewer than ten independent rows are
    right, or wrong, it is one of few rows and falls faster: then it is Wilson's at the
    larger of the error rates that these rows show and that their scores expect. Too few
    rows know no rate.
    """
    data = facts.data
    half = gap_half_width(facts)
    if not math.isfinite(half):
        half = 0.98 / math.sqrt(data.units or data.independent_rows)  # of a rate of 1/2
    error_rate = max(1.0 - facts.accuracy, 1.0 - facts.confidence, 0.0)
    rarer = min(error_rate, max(1.0 - error_rate, 0.0))
    is_by_root = rarer * data.independent_rows >= CARRYING
    if data.units is not None or has_too_few_rows(facts) or is_by_root:
        return data.n * (half / WIDE) ** 2
    rows = rows_for_half_width(rarer, WIDE)
    return rows * data.n / data.independent_rows


def _mixed(facts: Facts, verdict: Verdict) -> str:
    place = _place(facts, verdict)
    if facts.is_about_class_one and "confidence" in verdict.significant:
        return _risk_words("miscalibrated", facts)
    return f"miscalibrated in places: {_means(facts)} overall; {place}"


def _place(facts: Facts, verdict: Verdict) -> str:
    """Where scores are wrong that are right overall, in a few words."""
    significant = verdict.significant
    if "groups" in significant and verdict.groups is not None:
        groups = verdict.groups
        return f"{groups.n_significant} of {groups.n_groups} groups"
    if "classes" in significant and verdict.classes is not None:
        n_significant = len(verdict.classes.significant)
        return f"{n_significant} of {facts.data.n_classes} classes"
    bin_ = worst_bin(verdict)
    if bin_ is not None:
        way = "overconfident" if bin_.gap > 0.0 else "underconfident"
        return f"{way} {range_words(bin_.low, bin_.high)}"
    if "split" in significant:
        return "by NLL"
    if "errors" in significant:
        return f"by {next(iter(facts.errors))}"
    return "at some confidences"


def range_words(low: float, high: float) -> str:
    """A range of confidence, ``above 90%`` or ``from 60% to 70%``."""
    if high >= 1.0:
        return f"above {100.0 * low:g}%"
    if low <= 0.0:
        return f"up to {100.0 * high:g}%"
    return f"from {100.0 * low:g}% to {100.0 * high:g}%"


def _check_labels(facts: Facts, verdict: Verdict) -> str:
    if facts.doubts:
        return f"check the labels: {shortened(facts.doubts[0], LONGEST - 18)}"
    return "check the samples: the scores seem to be fitted to these very rows"


_HEADLINES: Mapping[str, Callable[[Facts, Verdict], str]] = {
    "calibrated": _calibrated,
    "overconfident": _one_direction,
    "underconfident": _one_direction,
    "mixed": _mixed,
    "too_few": _too_few,
    "check_labels": _check_labels,
}


# ---- findings


def finding_line(finding: Finding) -> str:
    """The line of a finding."""
    return shortened(_LINES[finding.kind](finding.numbers))


def _quoted_words(numbers: Mapping[str, Any]) -> str:
    return str(numbers["words"])


def _labels_words(numbers: Mapping[str, Any]) -> str:
    """The question that a doubt asks: its reason stands in the headline."""
    words = str(numbers["words"])
    question = words.rpartition(": ")[2]
    return question if question.endswith("?") else words


def _too_good_words(numbers: Mapping[str, Any]) -> str:
    return (
        "errors are smaller than calibrated scores show:"
        " were they fitted to these rows?"
    )


def _lacking_words(numbers: Mapping[str, Any]) -> str:
    name = _worst_class(numbers)
    lack = f"class {name} has no sample, {numbers['expected']:.0f} expected"
    others = numbers["n_lacking"] - 1
    if others:
        lack = f"{lack}, {others} more likewise"
    return f"{lack}: add some before you fit class biases"


def _sampled_words(numbers: Mapping[str, Any]) -> str:
    predicted = numbers["predicted"]
    observed = numbers["observed"]
    decimals = decimals_for(predicted, observed)
    means = f"{percent(predicted, decimals)} predicted, {percent(observed, decimals)}"
    return f"{means} observed: were samples drawn by class? See calcli adapt --prior"


def _few_events_words(numbers: Mapping[str, Any]) -> str:
    events = count(numbers["events"])
    n = samples(numbers["n"])
    return f"only {events} of {n} are of the rarer class: a fit would rest on these"


def _groups_words(numbers: Mapping[str, Any]) -> str:
    head = f"groups: {numbers['n_significant']} of {numbers['n_groups']} miscalibrated"
    means = _two_means(numbers, numbers["of_positive"])
    return f"{head}, worst {name_words(numbers['worst'])}: {means}"


def _by_group_words(numbers: Mapping[str, Any]) -> str:
    command = _fit_by(numbers)
    if numbers["helps"]:
        gain = f"reduces {numbers['loss']} by {-numbers['change']:.4f}"
        if numbers["at_least"] is not None:
            gain += f" (at least {max(numbers['at_least'], 0.0):.4f})"
        return f"{command} {gain} beyond one map for all"
    change = f"{numbers['loss']} {numbers['change']:+.4f}"
    if numbers["low"] is not None:
        change = f"{change} [{numbers['low']:.4f}, {numbers['high']:.4f}]"
    return f"{command} is not shown to help: {change} beside one map for all"


def _by_group_untried_words(numbers: Mapping[str, Any]) -> str:
    return f"{_fit_by(numbers)} was not tried: it takes long on {samples(numbers['n'])}"


def _fit_by(numbers: Mapping[str, Any]) -> str:
    """The command that fits a calibrator by group, without its rows."""
    columns = [f"--by {name_words(column, 16)}" for column in numbers["by"]]
    return f"fit -m {numbers['method']} {' '.join(columns)}"


def _two_means(numbers: Mapping[str, Any], of_positive: bool) -> str:
    predicted = numbers["predicted"]
    observed = numbers["observed"]
    decimals = decimals_for(predicted - observed)
    words = ("predicted", "observed") if of_positive else ("sure", "right")
    first = f"{percent(predicted, decimals)} {words[0]}"
    return f"{first}, {percent(observed, decimals)} {words[1]}"


def _worst_class(numbers: Mapping[str, Any]) -> str:
    """Number of the class that is worst, and its name where it has one."""
    number = str(numbers["worst"])
    if numbers["name"] is None:
        return number
    return f"{number} ({name_words(numbers['name'], 24)})"


def _classes_words(numbers: Mapping[str, Any]) -> str:
    head = (
        f"classes: {numbers['n_significant']} of {numbers['n_classes']} miscalibrated"
    )
    means = _two_means(numbers, of_positive=True)
    return f"{head}, clearest {_worst_class(numbers)}: {means}"


def _range_line(numbers: Mapping[str, Any]) -> str:
    where = range_words(numbers["low"], numbers["high"])
    if numbers["of_positive"]:
        where = f"P(class 1) {where}"
    means = _two_means(numbers, numbers["of_positive"])
    decimals = decimals_for(numbers["gap"])
    gap = points(numbers["gap"], decimals)
    return f"{where}: {means} ({gap} points, {samples(numbers['n'])})"


def _errors_words(numbers: Mapping[str, Any]) -> str:
    names = ", ".join(numbers["metrics"])
    return f"{names}: above the expected value ({p_text(numbers['p'])}, adjusted)"


def _gain_words(numbers: Mapping[str, Any]) -> str:
    gain = f"recalibration could reduce NLL by about {small(numbers['nll'])}"
    return f"{gain}, at least {small(max(numbers['at_least'], 0.0))} (cross-validated)"


def _left_by_fit_words(numbers: Mapping[str, Any]) -> str:
    if numbers["in_places"]:
        found = f"an exact test finds errors in places ({p_text(numbers['p'])})"
        return f"{found}, which a fit to {samples(numbers['n_fit'])} may leave"
    left = (
        f"{points(numbers['gap'], decimals_for(numbers['gap']))} points left by the fit"
    )
    cost = f"about {small(numbers['nll'])} nats"
    more = f"{count(numbers['n_to_halve'])} calibration samples would halve it"
    return f"{left}, {cost}; {more}"


def _effect_words(numbers: Mapping[str, Any]) -> str:
    loss = numbers["loss"]
    change = numbers["change"]
    low = numbers["low"]
    high = numbers["high"]
    way = "reduces" if change < 0.0 else "raises"
    size = small(abs(change))
    if low is None:
        words = (
            f"{way} {loss} by {size} on these samples, which are too few for an"
            " interval"
        )
    elif low < 0.0 < high:
        return f"{loss} {change_with_interval(change, low, high)}: not significant"
    else:
        nearer, farther = sorted((abs(low), abs(high)))
        words = f"{way} {loss} by {size} [{small(nearer)}, {small(farther)}]"
    moved = numbers.get("moved")
    if moved:
        accuracy = points(numbers["accuracy"])
        words = (
            f"{words}; {count(moved)} predictions change, accuracy {accuracy} points"
        )
    return words


_LINES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "labels": _labels_words,
    "data": _quoted_words,
    "note": _quoted_words,
    "too_good": _too_good_words,
    "lacking": _lacking_words,
    "sampled": _sampled_words,
    "few_events": _few_events_words,
    "groups": _groups_words,
    "by_group": _by_group_words,
    "by_group_untried": _by_group_untried_words,
    "classes": _classes_words,
    "range": _range_line,
    "errors": _errors_words,
    "gain": _gain_words,
    "left_by_fit": _left_by_fit_words,
    "effect": _effect_words,
}
