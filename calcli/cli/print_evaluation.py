"""Evaluation as text for people: headlines and findings, one table of versions, one of groups.

An answer has three levels: a headline, at most three findings, and the command to run next.
Everything else is behind ``--full`` and in the JSON.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from calcli.cli.render import (
    number,
    plain,
    print_line,
    table_lines,
    width_of_output,
    wrapped,
)
from calcli.evaluation.evaluation import Evaluation
from calcli.evaluation.facts import Difference, LossPart
from calcli.evaluation.levels import LEVEL
from calcli.evaluation.results import ClassLine, GroupLine, Judgement, Ranks, Result
from calcli.evaluation.scores import Score
from calcli.evaluation.subjects import Plan
from calcli.evaluation.term_meanings import meaning
from calcli.evaluation.words import (
    LONGEST_NAME,
    gap_words,
    percent,
    points,
    samples,
)
from calcli.evaluation.words import name_words as shortened_name
from calcli.importers.decision_logs import LOG_SUFFIXES
from calcli.io.locate import split_where
from calcli.metrics.catalog import metric
from calcli.rows import classes
from calcli.statistics.p_values import p_cell, p_text

MOST_FINDINGS = 3
"""Findings that are printed without ``--full``."""

LONGEST_FILE = 40
"""Characters of the name of a file before a headline."""

SHORTEST_FILE = 12
"""Characters to which that name is shortened so that the headline fits a line."""

MOST_TABLES = 3
"""Bundles up to which each has a table of its own; more are a line each."""

MOST_GROUPS = 12
"""Lines of the table of groups without ``--full``."""

GROUP_TABLE_LINES = 5
"""Lines around those of the groups: an empty one, title, two heads, count of the rest."""


def say(text: str = "") -> None:
    """Print a line, with names of files, classes and groups made harmless."""
    print_line(text)


def name_words(name: object, longest: int = LONGEST_NAME) -> str:
    """A name from a file as it is printed: harmless first, since this makes it longer."""
    return shortened_name(plain(str(name)), longest)


# ---- the whole


def print_report(
    evaluation: Evaluation,
    plan: Plan,
    *,
    full: bool = False,
    most_lines: int | None = None,
) -> None:
    """Print what was evaluated.

    full : everything. most_lines : lines to print at most, which shortens the table of
    groups; None for no limit but ``MOST_GROUPS``.
    """
    for line in report_lines(evaluation, plan, full=full, most_lines=most_lines):
        say(line)


def report_lines(
    evaluation: Evaluation, plan: Plan, *, full: bool, most_lines: int | None
) -> Iterator[str]:
    """The lines of ``print_report``."""
    step = next_command(evaluation)
    end = ["", f"next: {step}"] if step else []
    if not plan.report:
        for results in evaluation.bundles:
            yield from metrics_lines(results, plan.metrics)
            yield from changes_lines(results)
            yield from metrics_by_group_lines(results, None if full else MOST_GROUPS)
    elif len(evaluation.bundles) > MOST_TABLES and not full:
        yield from overview_lines(evaluation)
    else:
        for at, results in enumerate(evaluation.bundles):
            if at:
                yield ""
            left = None if most_lines is None else most_lines - len(end)
            yield from bundle_lines(results, full=full, most_lines=left)
    if full:
        for result in evaluation.results:
            yield ""
            yield from full_lines(result, plan)
    for result in evaluation.results:
        if result.per_class is not None:
            yield ""
            yield from class_lines(result, result.per_class)
    if evaluation.ranks is not None:
        yield ""
        yield from ranks_lines(evaluation.ranks)
    yield from end


def print_headlines(evaluation: Evaluation) -> None:
    """Print the headline of every result, a line each."""
    for results in evaluation.bundles:
        for result in by_interest(results):
            if result.report is not None:
                say(named_headline(result, results))


def next_command(evaluation: Evaluation) -> str:
    """The command to run next: of the first bundle that has one; empty for none.

    Of several questions of a log it is that of the whole log.
    """
    for results in evaluation.bundles:
        report = results[0].report
        if report is not None and report.next_step.command:
            command = report.next_step.command
            return _of_log(command) if len(evaluation.bundles) > 1 else command
    return ""


def _of_log(command: str) -> str:
    """A command ``calcli run LOG:QUESTION`` for the log as a whole; others stay."""
    words = shlex.split(command)
    if words[:2] != ["calcli", "run"]:
        return command
    path, question = split_where(words[2])
    if question is None or path.suffix.lower() not in LOG_SUFFIXES:
        return command
    return shlex.join([*words[:2], str(path), *words[3:]])


def named_headline(result: Result, results: Sequence[Result]) -> str:
    """The headline, headed by the file and, where there are several, the version."""
    return _headed(result, results, name_words(result.bundle, LONGEST_FILE))


def _headed(result: Result, results: Sequence[Result], file: str) -> str:
    """The headline, headed by a name of the file, and by the version where there are several.

    file : empty to leave it out.
    """
    assert result.report is not None
    name = file
    if len(results) > 1:
        version = version_name(result, results)
        name = f"{file}, {version}" if file else version
    return f"{name}: {result.report.headline}"


def fitting_headline(
    result: Result, results: Sequence[Result], *, is_first: bool
) -> str:
    """The named headline, in one line where that is possible.

    The name of the file is shortened for it. Below the first headline, which has it, it is
    left out.
    """
    whole = named_headline(result, results)
    excess = len(whole) - width_of_output()
    if excess <= 0:
        return whole
    if not is_first:
        return _headed(result, results, "")
    room = len(name_words(result.bundle, LONGEST_FILE)) - excess
    if room < SHORTEST_FILE:
        return whole
    return _headed(result, results, name_words(result.bundle, room))


def version_name(result: Result, results: Sequence[Result]) -> str:
    """Name of a version in tables: its method, or its file where methods repeat."""
    if result.calibrator is None:
        return name_words(result.given_name, 28)
    methods = [other.method for other in results if other.calibrator is not None]
    if methods.count(result.method) > 1:
        return name_words(result.calibrator, 28)
    return name_words(result.method, 28)


def recommended(results: Sequence[Result]) -> Result:
    """The version to speak of first: the recommended one, the only one, or the first."""
    report = results[0].report
    title = None if report is None else report.next_step.calibrator
    for result in results[1:]:
        if title is not None and result.title == title:
            return result
    return results[1] if len(results) == 2 else results[0]


def by_interest(results: Sequence[Result]) -> list[Result]:
    """The versions, the one to speak of first, the uncalibrated scores last."""
    first = recommended(results)
    ordered = [first]
    ordered += [result for result in results[1:] if result is not first]
    if results[0] is not first:
        ordered.append(results[0])
    return ordered


# ---- one bundle


def bundle_lines(
    results: Sequence[Result], *, full: bool, most_lines: int | None
) -> Iterator[str]:
    """Headlines, findings and tables of one bundle.

    full : all findings and groups. most_lines : as for ``print_report``.
    """
    first = recommended(results)
    columns = fitting_columns(results)
    lines = [*headline_lines(results, full=full), ""]
    lines += table_lines(version_lines(results, columns))
    lines += legend_lines(results, [column.head for column in columns])
    yield from lines
    if not first.per_group:
        return
    most = MOST_GROUPS
    if most_lines is not None:
        most = min(most, most_lines - len(lines) - GROUP_TABLE_LINES)
    if full:
        most = len(first.per_group)
    if most < 1:
        return
    shown = [results[0]] if first is results[0] else [results[0], first]
    yield ""
    yield from group_table_lines(shown, results, most)


def headline_lines(results: Sequence[Result], *, full: bool) -> Iterator[str]:
    """Headlines of all versions, findings of the first to speak of, or of all."""
    first, *others = by_interest(results)
    yield from wrapped(fitting_headline(first, results, is_first=True))
    yield from finding_lines(first, None if full else MOST_FINDINGS)
    for result in others:
        yield from wrapped(fitting_headline(result, results, is_first=False))
        if full:
            yield from finding_lines(result, None)


def finding_lines(result: Result, most: int | None) -> Iterator[str]:
    """The findings on a result, indented, each on a line where it fits."""
    report = result.report
    assert report is not None
    lines = report.lines
    shown = lines if most is None else lines[:most]
    for line in shown:
        yield from wrapped(line, "  ")
    left = len(lines) - len(shown)
    if left:
        yield f"  {left} more with --full"


# ---- the table of versions


EXPECTED = "(expected)"
"""Head of the column of the calibration error expected under calibration."""


@dataclass(frozen=True)
class VersionColumn:
    """A column of the table of versions."""

    head: str
    cell: Callable[[Result], str]


def fitting_columns(results: Sequence[Result]) -> list[VersionColumn]:
    """The columns with a value that fit, without the least important where there is no room."""
    columns = []
    for column in version_columns(results[0]):
        if any(column.cell(result).strip() != "-" for result in results):
            columns.append(column)
    for head in ("Brier", EXPECTED, "ROC AUC", "slope"):
        lines = version_lines(results, columns)
        if table_width(lines) <= width_of_output():
            break
        columns = [column for column in columns if column.head != head]
    return columns


def version_lines(
    results: Sequence[Result], columns: Sequence[VersionColumn]
) -> list[list[str]]:
    """The head of the table, then a line per version."""
    lines = [[samples(results[0].n), *(column.head for column in columns)]]
    for result in results:
        cells = [column.cell(result) for column in columns]
        lines.append([version_name(result, results), *cells])
    return lines


def version_columns(result: Result) -> list[VersionColumn]:
    """Columns of the table: for two classes of P(class 1), else of the confidence."""
    if is_about_class_one(result):
        about = [
            VersionColumn("predicted", _predicted),
            VersionColumn("slope", partial(_value, "slope")),
            VersionColumn("ROC AUC", partial(_value, "roc_auc")),
        ]
    else:
        about = [VersionColumn("confidence", partial(_value, "mean_confidence"))]
    error = _error_name(result)
    losses = [
        VersionColumn("NLL", partial(_value, "nll")),
        VersionColumn("Brier", partial(_value, "brier")),
    ]
    if result.n_classes is None:
        losses = [VersionColumn("Brier", partial(_value, "brier_top"))]
    return [
        VersionColumn("accuracy", partial(_value, "accuracy")),
        *about,
        VersionColumn("ECE", partial(_error, error)),
        VersionColumn(EXPECTED, partial(_expected, error)),
        *losses,
    ]


def is_about_class_one(result: Result) -> bool:
    """True if the table is about P(class 1), as the verdict is."""
    if result.report is None:
        return result.n_classes == 2
    return result.report.facts.is_about_class_one


def _error_name(result: Result) -> str:
    is_known = "ece_positive" in result.scores
    return "ece_positive" if is_known and is_about_class_one(result) else "ece"


def _value(name: str, result: Result) -> str:
    score = result.scores.get(name)
    return "-" if score is None else number(score.value)


def _predicted(result: Result) -> str:
    report = result.report
    if report is None or report.facts.class_one is None:
        return "-"
    return number(report.facts.class_one.predicted)


def _error(name: str, result: Result) -> str:
    """A calibration error, with a star where it is significant."""
    star = "*" if is_significant_error(name, result) else " "
    return f"{_value(name, result)}{star}"


def is_significant_error(name: str, result: Result) -> bool:
    """True if the verdict finds miscalibration, and this error shows it."""
    report = result.report
    if report is None or not report.verdict.has_findings:
        return False
    return report.facts.errors.get(name, 1.0) <= LEVEL


def _expected(name: str, result: Result) -> str:
    score = result.scores.get(name)
    if score is None or score.null is None:
        return "-"
    return f"({number(score.null.mean)})"


def legend_lines(results: Sequence[Result], heads: Sequence[str]) -> Iterator[str]:
    """What the signs mean, and the changes of the loss. heads : of the columns."""
    parts = []
    error = _error_name(results[0])
    if any(is_significant_error(error, result) for result in results):
        parts.append("* significant.")
    if EXPECTED in heads:
        parts.append(f"{EXPECTED}: under calibration.")
    changes = []
    for result in results[1:]:
        change = result.loss_change
        if change is not None:
            name = f"{version_name(result, results)}: " if len(results) > 2 else ""
            changes.append(f"{name}{loss_word(result)} {change_words(change)}")
    for result in results[1:]:
        if result.n_folds:
            name = version_name(result, results)
            yield f"{name}: cross-fitted, {result.n_folds} folds."
    legend = " ".join(parts)
    if len(changes) == 1:
        together = f"{legend} {changes[0]}".lstrip()
        if len(together) <= width_of_output():
            yield together
            return
    if legend:
        yield legend
    yield from changes


def loss_word(result: Result) -> str:
    """Name of the loss that decides, for people."""
    return "squared error" if result.n_classes is None else "NLL"


def change_words(change: Difference) -> str:
    """A change with its interval, ``-0.270 [-0.299, -0.243]``."""
    words = f"{change.value:+z.4f}"
    if change.interval is not None:
        low, high = change.interval.low, change.interval.high
        return f"{words} [{low:z.4f}, {high:z.4f}]"
    reason = change.reason or "no interval"
    return f"{words} ({reason})"


# ---- the table of groups


def group_table_lines(
    shown: Sequence[Result], results: Sequence[Result], most: int | None
) -> Iterator[str]:
    """A line per group, before and after in one line, single columns first.

    shown : the versions, at most two. most : lines; None prints all.
    """
    first = shown[0]
    last = shown[-1]
    assert first.per_group is not None and last.per_group is not None
    of_positive = first.per_group[0].of_positive
    observed = "observed" if of_positive else "right"
    by_name = [{line.group: line for line in r.per_group or ()} for r in shown]
    largest = {
        line.group: max(abs(lines[line.group].gap) for lines in by_name)
        for line in last.per_group
    }
    order = sorted(
        last.per_group, key=lambda line: (not line.margin, -largest[line.group])
    )
    kept = order if most is None else order[:most]
    columns = [GroupColumn("samples", lambda line: f"{line.n:,}")]
    columns.append(GroupColumn(observed, lambda line: percent(line.observed)))
    for lines_of_version, result in zip(by_name, shown, strict=True):
        title = version_name(result, results) if len(shown) > 1 else ""
        columns += gap_columns(title, lines_of_version, of_positive)
    yield f"by group (p adjusted for {len(order)} rows; gap in points)"
    yield from table_lines(fitting_group_table(kept, columns))
    if len(kept) < len(order):
        yield f"{len(order) - len(kept)} more with --full"


@dataclass(frozen=True)
class GroupColumn:
    """A column of the table of groups. title : of its version, above the head."""

    head: str
    cell: Callable[[GroupLine], str]
    title: str = ""


def gap_columns(
    title: str, lines_of_version: Mapping[object, GroupLine], of_positive: bool
) -> list[GroupColumn]:
    """Mean score, gap and p-value of every group in one version."""

    def predicted(line: GroupLine) -> str:
        return percent(lines_of_version[line.group].predicted)

    def gap(line: GroupLine) -> str:
        line_of_version = lines_of_version[line.group]
        star = "*" if line_of_version.significant else " "
        return f"{points(line_of_version.gap)}{star}"

    def p_value(line: GroupLine) -> str:
        cell = p_cell(lines_of_version[line.group].p_adjusted)
        return cell.replace("< 0.", "<.").removeprefix("0")

    return [
        GroupColumn("predicted" if of_positive else "sure", predicted, title),
        GroupColumn("gap", gap),
        GroupColumn("p", p_value),
    ]


SHORTEST_GROUP = 16
"""Characters of a group's name that a narrow table keeps."""


def fitting_group_table(
    kept: Sequence[GroupLine], columns: Sequence[GroupColumn]
) -> list[list[str]]:
    """The table of groups: shorter names, then fewer columns, where there is no room."""
    for without in ((), ("samples",), ("samples", "observed", "right")):
        left = [column for column in columns if column.head not in without]
        for longest in (LONGEST_NAME, 24, SHORTEST_GROUP):
            lines = _group_table(kept, left, longest)
            if table_width(lines) <= width_of_output():
                return lines
    return lines


def _group_table(
    kept: Sequence[GroupLine], columns: Sequence[GroupColumn], longest: int
) -> list[list[str]]:
    """Heads and lines of the table of groups. longest : characters of a name."""
    titles = ["", *(name_words(column.title, longest) for column in columns)]
    lines = [["group", *(column.head for column in columns)]]
    if any(titles):
        lines.insert(0, titles)
    for line in kept:
        cells = [column.cell(line) for column in columns]
        lines.append([name_words(line.group, longest), *cells])
    return lines


# ---- many bundles


def overview_lines(evaluation: Evaluation) -> Iterator[str]:
    """A line per result; columns that do not fit are left out."""
    several = len(evaluation.results) > len(evaluation.bundles)
    columns = [
        VersionColumn("bundle", lambda result: name_words(result.bundle, 36)),
        VersionColumn("verdict", lambda result: verdict_word(result.report)),
        VersionColumn("samples", lambda result: f"{result.n:,}"),
        VersionColumn("accuracy", partial(_value, "accuracy")),
        VersionColumn("gap in points", _gap),
        VersionColumn("ECE", _own_error),
        VersionColumn("NLL", partial(_value, "nll")),
    ]
    if several:
        version = VersionColumn("version", lambda r: name_words(r.title, 20))
        columns.insert(1, version)
    for head in ("NLL", "ECE", "samples", "accuracy"):
        lines = _overview_lines(evaluation, columns)
        if table_width(lines) <= width_of_output():
            break
        columns = [column for column in columns if column.head != head]
    yield from table_lines(_overview_lines(evaluation, columns))
    yield "* significant; more with --full"


def _overview_lines(
    evaluation: Evaluation, columns: Sequence[VersionColumn]
) -> list[list[str]]:
    lines = [[column.head for column in columns]]
    for result in evaluation.results:
        lines.append([column.cell(result) for column in columns])
    return lines


def _own_error(result: Result) -> str:
    return _error(_error_name(result), result)


def _gap(result: Result) -> str:
    assert result.report is not None
    return gap_words(result.report.facts.main_gap).replace(" points", "")


def verdict_word(report: Judgement | None) -> str:
    """The verdict in one or two words, for tables."""
    if report is None:
        return "-"
    words = {
        "mixed": "miscalibrated",
        "too_few": "too few samples",
        "check_labels": "check the labels",
    }
    return words.get(report.kind, report.kind)


# ---- metrics that were asked for


def metrics_lines(results: Sequence[Result], names: Sequence[str]) -> Iterator[str]:
    """A row per version with the metrics asked for, as many side by side as fit."""
    first = results[0]
    yield f"{first.bundle}: {samples(first.n)}, {classes(first.n_classes)}"
    if results[0].units is not None:
        yield results[0].units.sentence
    known = [name for name in names if name in results[0].scores]
    yield from side_by_side(known, partial(_metric_lines, results))
    yield from _reason_lines(results, names)
    yield from _sign_lines(results, names)


def _metric_lines(results: Sequence[Result], names: Sequence[str]) -> list[list[str]]:
    lines = [["version", *names]]
    for result in results:
        cells = [score_cell(result.scores[name]) for name in names]
        lines.append([version_name(result, results), *cells])
    return lines


def score_cell(score: Score) -> str:
    """A value with its error or interval, or its expected value and p-value."""
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
                yield f"{name}: undefined for {result.title}: {score.reason}"
            elif score.no_interval is not None:
                without.setdefault(score.no_interval, []).append(name)
        for reason, those in without.items():
            yield f"{', '.join(those)} of {result.title}: {reason}"


def _sign_lines(results: Sequence[Result], names: Sequence[str]) -> Iterator[str]:
    """What the signs in the cells mean."""
    cells = [
        score_cell(result.scores[name])
        for result in results
        for name in names
        if name in result.scores
    ]
    meanings = {
        "±": "±: one standard error",
        " (": "( ): expected under calibration",
        "[": "[ ]: interval",
        "p ": "p: p-value (null: perfect calibration)",
    }
    shown = []
    for sign, words in meanings.items():
        if any(sign in cell for cell in cells):
            shown.append(words)
    if shown:
        yield "; ".join(shown)


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
            yield f"{version_name(result, results)} minus {against}: {change_line}"
        nll = result.paired.differences.get("nll")
        if result.paired.baseline is not None and nll is not None:
            yield replacement_advice(result.title, against, nll)


def replacement_advice(new: str, old: str, change: Difference) -> str:
    """Advice on replacing the calibrator old by new, from the change in NLL."""
    if change.interval is None:
        return f"{new} instead of {old}: too few samples to tell which is better"
    low, high = change.interval.low, change.interval.high
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
    yield from table_lines(lines, left=(0, 2))
    yield from _reason_lines([result], result.shown)
    yield from _sign_lines([result], result.shown)
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


def evidence_lines(result: Result, report: Judgement) -> Iterator[str]:
    """The evidence behind a verdict, a line each."""
    facts, verdict = report.facts, report.verdict
    gap = f"overconfidence {gap_words(facts.overconfidence)} (z {facts.gap_z:+.1f})"
    entropy = f"{facts.entropy.gap:+.4f} (z {facts.entropy.z:+.1f})"
    yield f"{gap}; NLL minus entropy {entropy}; {report.p_text}"
    if facts.fit is not None:
        exact = p_text(verdict.exact.p_value)
        yield f"judged up to the error of a fit to {facts.fit.n:,} samples; exact: {exact}"
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
        low, high = number(debiased.interval.low), number(debiased.interval.high)
        square = number(debiased.more["signed_square"])
        reason = f": {debiased.end_words}" if debiased.end_words else ""
        value = number(debiased.value)
        yield f"tce2 {value} [{low}, {high}] (debiased squared error {square}){reason}"
    if facts.class_one is not None:
        one = facts.class_one
        yield f"P(class 1) minus frequency {gap_words(one.gap)} (z {one.z:+.1f})"
    elif verdict.classes is not None:
        each = verdict.classes
        error = f"root-mean-square error {number(each.value)}"
        found = f"{len(each.significant)} of {result.n_classes} significant"
        yield f"classes: {error}; {found} ({p_text(each.p_value)}, adjusted)"
    if verdict.groups is not None:
        groups = verdict.groups
        found = f"{groups.n_significant} of {groups.n_groups} significant"
        worst = f"clearest {groups.worst} ({samples(groups.worst_n)})"
        gap = f"{points(groups.worst_gap)} points"
        yield f"groups: {found}; {worst} {gap} ({p_text(groups.p_value)}, adjusted)"
    if facts.split is not None:
        yield _split_line("NLL", facts.split.nll, facts.split.method)
        yield _split_line("Brier score", facts.split.brier, facts.split.method)


def _split_line(loss: str, part: LossPart, method: str) -> str:
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
    shown = [results[0]] if len(results) == 1 else [results[0], results[1]]
    yield ""
    yield from group_table_lines(shown, results, most)
    for result in results:
        if result.per_group:
            yield from group_metrics_lines(result, result.per_group[:most])


def group_metrics_lines(result: Result, lines: Sequence[GroupLine]) -> Iterator[str]:
    """The metrics in every group, as many side by side as fit."""
    names = [name for name in lines[0].scores if metric(name).in_table]
    yield ""
    yield f"metrics by group: {result.bundle}, {result.title}"
    yield from side_by_side(names, partial(_group_metric_lines, lines))


def _group_metric_lines(
    lines: Sequence[GroupLine], names: Sequence[str]
) -> list[list[str]]:
    rows = [["group", "samples", *names]]
    for line in lines:
        cells = [score_cell(line.scores[name]) for name in names]
        rows.append([name_words(line.group), f"{line.n:,}", *cells])
    return rows


def class_lines(result: Result, lines: Sequence[ClassLine]) -> Iterator[str]:
    """A line per class."""
    yield ""
    adjusted = "p: adjusted for all classes and the verdict; * significant"
    yield f"{result.bundle}, {result.title}, by class ({adjusted})"
    named = lines[0].name is not None
    head = ["class", "samples", "predicted", "share", "mean p", "gap", "p"]
    rows = [[*head, "precision", "recall", "ECE"]]
    for line in lines:
        star = "*" if line.significant else " "
        called = f"{line.index} ({name_words(line.name, 16)})" if named else ""
        rows.append(
            [
                called or str(line.index),
                f"{line.n:,}",
                f"{line.predicted:,}",
                number(line.share),
                number(line.mean_probability),
                f"{line.gap:+.4f}{star}",
                p_cell(line.p_adjusted),
                number(line.precision),
                number(line.recall),
                number(line.ece),
            ]
        )
    yield from table_lines(rows)


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


# ---- tables of texts


def side_by_side(
    names: Sequence[str], lines_of: Callable[[Sequence[str]], list[list[str]]]
) -> Iterator[str]:
    """Tables of columns, as many beside each other as fit; more continue below.

    lines_of : makes the lines of the table of some columns.
    """
    left = list(names)
    while left:
        n_fitting = 1
        while n_fitting < len(left):
            wider = lines_of(left[: n_fitting + 1])
            if table_width(wider) > width_of_output():
                break
            n_fitting += 1
        yield from table_lines(lines_of(left[:n_fitting]))
        left = left[n_fitting:]


def table_width(lines: Sequence[Sequence[str]]) -> int:
    """Characters in a line of a printed table."""
    columns = zip(*lines, strict=True)
    return sum(max(map(len, column)) + 2 for column in columns) - 2
