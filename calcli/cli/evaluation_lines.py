"""Lines of an evaluation beyond headline and table: chosen metrics, and --full."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter

from calcli.cli.evaluation_headlines import name_words, version_name
from calcli.cli.evaluation_tables import change_words, group_table_lines, side_by_side
from calcli.cli.render import (
    Column,
    Table,
    folded,
    number,
    table_lines,
    wrapped,
)
from calcli.evaluation.facts import Difference, LossPart
from calcli.evaluation.requests import Plan
from calcli.evaluation.results import (
    ClassSummary,
    GroupSummary,
    Judgement,
    Ranks,
    Result,
)
from calcli.evaluation.scores import Score
from calcli.evaluation.term_meanings import meaning
from calcli.evaluation.words import (
    gap_words,
    percent,
    points,
    samples,
)
from calcli.metrics.catalog import metric
from calcli.rows import classes
from calcli.statistics.p_values import p_cell, p_text


def metrics_lines(results: Sequence[Result], names: Sequence[str]) -> Iterator[str]:
    """A row per version with the metrics asked for, as many side by side as fit."""
    first = results[0]
    yield f"{first.bundle}: {samples(first.n)}, {classes(first.n_classes)}"
    if results[0].units is not None:
        yield results[0].units.sentence
    known = [name for name in names if name in results[0].scores]
    columns = [Column("version", partial(version_name, results=results))]
    for name in known:
        columns.append(Column(name, partial(_score_cell, name)))
    yield from side_by_side(Table.of(columns, results))
    yield from _reason_lines(results, names)
    yield from _mark_lines(results, names)


def _score_cell(name: str, measured: Result | GroupSummary) -> str:
    return score_cell(measured.scores[name])


def score_cell(score: Score) -> str:
    """A value with its error or interval, or its expected value and p-value.

    Means of row losses have a standard error; metrics with a p-value are shown with
    their value under calibration, others with an interval.
    """
    if score.value is None:
        return "-"
    text = number(score.value)
    if score.se and score.no_interval is None:
        return f"{text} ±{number(score.se)}"
    if score.interval is not None and score.p_value is None:
        interval = score.interval
        return f"{text} [{number(interval.low)}, {number(interval.high)}]"
    if score.null is not None:
        text = f"{text} ({number(score.null.mean)})"
    if score.p_value is not None:
        text = f"{text} {p_text(score.p_value, score.draws)}"
    return text


def _reason_lines(results: Sequence[Result], names: Sequence[str]) -> Iterator[str]:
    """Why metrics are undefined, and why some have no interval."""
    for result in results:
        without: dict[str, list[str]] = {}
        for name in names:
            score = result.scores.get(name)
            if score is None:
                continue
            if score.reason is not None:
                yield from wrapped(
                    f"{name}: undefined for {result.title}: {score.reason}"
                )
            elif score.no_interval is not None:
                without.setdefault(score.no_interval, []).append(name)
        for reason, those in without.items():
            yield from wrapped(f"{', '.join(those)} of {result.title}: {reason}")


def _mark_lines(results: Sequence[Result], names: Sequence[str]) -> Iterator[str]:
    """What the marks in the cells mean."""
    cells = []
    for result in results:
        for name in names:
            if name in result.scores:
                cells.append(score_cell(result.scores[name]))
    meanings = {
        "±": "±: one standard error",
        " (": "( ): expected under calibration",
        "[": "[ ]: interval",
        "p ": "p: p-value (null: perfect calibration)",
    }
    shown = []
    for mark, words in meanings.items():
        if any(mark in cell for cell in cells):
            shown.append(words)
    if shown:
        yield from wrapped("; ".join(shown))


def changes_lines(results: Sequence[Result]) -> Iterator[str]:
    """The differences of the metrics to the baseline on the same rows."""
    for result in results[1:]:
        if result.paired is None:
            continue
        against = result.paired.baseline or results[0].given_name
        changes = []
        for name, change in result.paired.differences.items():
            if name in result.scores:
                changes.append(f"{name} {change_words(change)}")
        for change_line in changes:
            version = version_name(result, results)
            yield from wrapped(f"{version} minus {against}: {change_line}")
        nll = result.paired.differences.get("nll")
        if result.paired.baseline is not None and nll is not None:
            yield from wrapped(replacement_advice(result.title, against, nll))


def replacement_advice(new: str, old: str, change: Difference) -> str:
    """Advice on replacing the calibrator old by new, from the change in NLL."""
    if change.interval is None:
        return f"{new} instead of {old}: too few samples to tell which is better"
    low = change.interval.low
    high = change.interval.high
    size = f"{abs(change.value):.4f}"
    ends = f"[{min(abs(low), abs(high)):.4f}, {max(abs(low), abs(high)):.4f}]"
    if high < 0.0:
        return f"{new} instead of {old} helps: NLL is lower by {size} {ends}"
    if low > 0.0:
        return f"keep {old}: with {new} NLL is higher by {size} {ends}"
    changed = f"NLL changes by {change_words(change)}, which is not significant"
    return f"keep {old}: with {new} {changed}"


# ---- everything else, for --full


def full_lines(result: Result, plan: Plan) -> Iterator[str]:
    """All metrics of a result, and the evidence behind its verdict."""
    yield f"evidence: {result.bundle}, {result.title}"
    yield from wrapped(data_sentence(result), "  ")
    if result.units is not None:
        yield from wrapped(result.units.sentence, "  ")
    lines = [["metric", "value", "meaning"]]
    for name in result.shown:
        words = meaning(name, plan.settings)
        lines.append([name, score_cell(result.scores[name]), words])
    yield from table_lines(folded(lines), left=(0, 2))
    yield from _reason_lines([result], result.shown)
    yield from _mark_lines([result], result.shown)
    if result.report is not None:
        for line in evidence_lines(result, result.report):
            yield from wrapped(line, "  ")
    yield from wrapped(result.p_legend(result.shown), "  ")
    if result.paired is not None:
        against = result.paired.baseline or result.given_name
        yield f"  minus {against}:"
        for name, change in result.paired.differences.items():
            p = "" if change.p_value is None else f" {p_text(change.p_value)}"
            yield f"    {name} {change_words(change)}{p}"
    if result.per_group:
        yield from group_metrics_lines(result, result.per_group)


def data_sentence(result: Result) -> str:
    """The rows in a sentence: number, classes, kind, class frequencies."""
    parts = [f"{samples(result.n)}, {classes(result.n_classes)}"]
    if result.report is None:
        return parts[0]
    data = result.report.facts.data
    parts.append(data.kind)
    if data.class_1 is not None:
        parts.append(f"class 1 = {data.class_1}")
    if data.smallest_class_share is not None and data.largest_class_share is not None:
        low = percent(data.smallest_class_share, 2)
        high = percent(data.largest_class_share, 2)
        parts.append(f"class frequencies {low} to {high}")
    if data.absent_classes:
        plural = "class" if data.absent_classes == 1 else "classes"
        parts.append(f"{data.absent_classes} {plural} without a sample")
    if data.weighted:
        parts.append("weighted")
    if data.distinct_confidences < data.n // 2:
        distinct = data.distinct_confidences
        plural = "confidence" if distinct == 1 else "confidences"
        parts.append(f"only {distinct} distinct {plural}")
    return "; ".join(parts)


LARGEST_Z = 1000.0
"""Deviation beyond which its size says nothing more."""


def _z_words(z: float) -> str:
    """A deviation in standard errors, in brackets.

    Of certain confidences these are 0, or nearly.
    """
    if math.isnan(z):
        return ""
    if abs(z) > LARGEST_Z:
        side = "above " if z > 0.0 else "below -"
        return f" (z {side}{LARGEST_Z:.0f})"
    return f" (z {z:+.1f})"


def evidence_lines(result: Result, report: Judgement) -> Iterator[str]:
    """The evidence behind a verdict, a line each."""
    facts = report.facts
    verdict = report.verdict
    gap = f"overconfidence {gap_words(facts.overconfidence)}{_z_words(facts.gap_z)}"
    entropy = f"{facts.entropy.gap:+.4f}{_z_words(facts.entropy.z)}"
    yield f"{gap}; NLL minus entropy {entropy}; {report.p_text}"
    if facts.fit is not None:
        exact = p_text(verdict.exact.p_value)
        error = f"the error of a fit to {facts.fit.n:,} samples"
        yield f"judged up to {error}; exact: {exact}"
    for name in ("ece", "ece_positive", "ece_mass", "smece"):
        score = result.scores.get(name)
        if score is not None and score.null is not None:
            expected = f"{number(score.null.mean)}"
            high = f"{number(score.null.q95)}"
            p = p_text(score.null.p_value, score.draws)
            value = number(score.value)
            yield f"{name} {value} (expected {expected}, 95th percentile {high}, {p})"
    debiased = result.scores.get("tce2")
    if debiased is not None and debiased.interval is not None:
        low = number(debiased.interval.low)
        high = number(debiased.interval.high)
        square = number(debiased.more["signed_square"])
        reason = f": {debiased.end_words}" if debiased.end_words else ""
        value = number(debiased.value)
        yield f"tce2 {value} [{low}, {high}] (debiased squared error {square}){reason}"
    if facts.class_one is not None:
        one = facts.class_one
        yield f"P(class 1) minus frequency {gap_words(one.gap)}{_z_words(one.z)}"
    elif verdict.classes is not None:
        by_class = verdict.classes
        error = f"root-mean-square error {number(by_class.value)}"
        share = f"{len(by_class.significant)} of {result.n_classes} significant"
        yield f"classes: {error}; {share} ({p_text(by_class.p_value)}, adjusted)"
    if verdict.groups is not None:
        groups = verdict.groups
        share = f"{groups.n_significant} of {groups.n_groups} significant"
        worst = f"clearest {groups.worst} ({samples(groups.worst_n)})"
        gap = f"{points(groups.worst_gap)} points"
        yield f"groups: {share}; {worst} {gap} ({p_text(groups.p_value)}, adjusted)"
    if facts.decomposition is not None:
        yield _decomposition_line(
            "NLL", facts.decomposition.nll, facts.decomposition.method
        )
        yield _decomposition_line(
            "Brier score", facts.decomposition.brier, facts.decomposition.method
        )


def _decomposition_line(loss: str, part: LossPart, method: str) -> str:
    calibration = f"{number(part.calibration)} ±{number(part.se)}"
    by = f"(cross-validated {method})"
    if not part.is_detected:
        none = "no calibration loss detected"
        return f"{loss} {number(part.loss)}: {none} ({calibration} {by})"
    parts = f"refinement {number(part.refinement)} + calibration {calibration}"
    return f"{loss} {number(part.loss)} = {parts} {by}"


def metrics_by_group_lines(
    results: Sequence[Result], most: int | None
) -> Iterator[str]:
    """Gaps and metrics by group, where groups were asked for, beside no report."""
    if not results[0].per_group:
        return
    shown = results[:2]
    yield ""
    yield from group_table_lines(shown, results, most)
    for result in results:
        if result.per_group:
            yield from group_metrics_lines(result, result.per_group[:most])


def group_metrics_lines(result: Result, lines: Sequence[GroupSummary]) -> Iterator[str]:
    """The metrics in every group, as many side by side as fit."""
    columns = [
        Column("group", lambda line: name_words(line.group)),
        Column("samples", lambda line: f"{line.n:,}"),
    ]
    for name in lines[0].scores:
        if metric(name).in_table:
            columns.append(Column(name, partial(_score_cell, name)))
    yield ""
    yield f"metrics by group: {result.bundle}, {result.title}"
    yield from side_by_side(Table.of(columns, lines), fixed=2)


def class_lines(result: Result, lines: Sequence[ClassSummary]) -> Iterator[str]:
    """A line per class."""
    yield ""
    adjusted = "p: adjusted for all classes and the verdict; * significant"
    yield from wrapped(f"{result.bundle}, {result.title}, by class ({adjusted})")
    columns = [
        Column("class", _class_cell),
        Column("samples", lambda line: f"{line.n:,}"),
        Column("predicted", lambda line: f"{line.predicted:,}", drop_order=8),
        Column("share", attrgetter("share"), drop_order=7),
        Column("mean p", attrgetter("mean_probability"), drop_order=6),
        Column("gap", _class_gap, drop_order=5),
        Column("p", lambda line: p_cell(line.p_adjusted), drop_order=4),
        Column("precision", attrgetter("precision"), drop_order=3),
        Column("recall", attrgetter("recall"), drop_order=2),
        Column("ECE", attrgetter("ece"), drop_order=1),
    ]
    yield from table_lines(Table.fitting(columns, lines).lines)


def _class_gap(line: ClassSummary) -> str:
    """The gap of a class, with a star where it is significant."""
    star = "*" if line.significant else " "
    return f"{line.gap:+.4f}{star}"


def _class_cell(line: ClassSummary) -> str:
    if line.name is None:
        return str(line.index)
    return f"{line.index} ({name_words(line.name, 16)})"


def ranks_lines(ranks: Ranks) -> Iterator[str]:
    """The average ranks of calibrators over bundles."""
    yield ""
    yield f"average ranks over {ranks.n_bundles} bundles (1 is best), Friedman test"
    calibrators = [name_words(name, 20) for name in ranks.calibrators]
    rows = [["metric", *calibrators, "chi2", "p", "p (Iman-Davenport)"]]
    for name, test in ranks.tests.items():
        numbers = [f"{rank:.2f}" for rank in test.ranks]
        tests = [f"{test.chi2:.2f}", p_cell(test.p_value), p_cell(test.f_p_value)]
        rows.append([name, *numbers, *tests])
    yield from table_lines(rows)
