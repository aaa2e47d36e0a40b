"""The tables of an evaluation: versions, groups, and one line a bundle."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from calcli.cli.evaluation_headlines import name_words, version_name
from calcli.cli.render import (
    Column,
    Table,
    narrowing,
    number,
    table_lines,
    table_width,
    width_of_output,
    wrapped,
)
from calcli.evaluation.evaluation import Evaluation
from calcli.evaluation.facts import Difference
from calcli.evaluation.levels import LEVEL
from calcli.evaluation.results import GroupSummary, Judgement, Result
from calcli.evaluation.words import (
    LONGEST_NAME,
    change_with_interval,
    gap_words,
    percent,
    points,
    samples,
)
from calcli.statistics.p_values import p_cell

EXPECTED = "(expected)"
"""Head of the column of the calibration error expected under calibration."""


def version_table(results: Sequence[Result]) -> Table:
    """A line per version: the columns with a value that fit."""
    head = samples(results[0].n)
    columns = [Column(head, partial(version_name, results=results))]
    for column in version_columns(results[0]):
        cells = [str(column.cell(result)) for result in results]
        if any(cell.strip() != "-" for cell in cells):
            columns.append(column)
    return Table.fitting(columns, results)


def version_columns(result: Result) -> list[Column]:
    """Columns of the table: for two classes of P(class 1), else of the confidence."""
    columns = [Column("accuracy", partial(_value, "accuracy"))]
    if is_about_class_one(result):
        columns += [
            Column("predicted", _predicted),
            Column("slope", partial(_value, "slope"), drop_order=4),
            Column("ROC AUC", partial(_value, "roc_auc"), drop_order=3),
        ]
    else:
        columns.append(Column("confidence", partial(_value, "mean_confidence")))
    error = _error_name(result)
    columns.append(Column("ECE", partial(_error, error)))
    columns.append(Column(EXPECTED, partial(_expected, error), drop_order=2))
    brier = "brier_top"
    if result.n_classes is not None:
        columns.append(Column("NLL", partial(_value, "nll")))
        brier = "brier"
    columns.append(Column("Brier", partial(_value, brier), drop_order=1))
    return columns


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
    """A change with its interval, ``-0.2700 [-0.2990, -0.2430]``."""
    if change.interval is not None:
        interval = change.interval
        return change_with_interval(change.value, interval.low, interval.high)
    reason = change.reason or "no interval"
    return f"{change.value:+z.4f} ({reason})"


# ---- groups, before and after in one row


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
    by_name = [_lines_by_group(result) for result in shown]
    largest: dict[object, float] = {}
    for line in last.per_group:
        gaps = [abs(lines[line.group].gap) for lines in by_name]
        largest[line.group] = max(gaps)
    order = sorted(
        last.per_group, key=lambda line: (not line.margin, -largest[line.group])
    )
    kept = order if most is None else order[:most]
    columns = [
        Column("samples", lambda line: f"{line.n:,}", drop_order=1),
        Column(observed, lambda line: percent(line.observed), drop_order=2),
    ]
    for lines_of_version, result in zip(by_name, shown, strict=True):
        title = version_name(result, results) if len(shown) > 1 else ""
        columns += gap_columns(title, lines_of_version, of_positive)
    yield from wrapped(f"by group ({_words_on_groups(shown, kept, len(order))})")
    yield from table_lines(fitting_group_table(kept, columns))
    if len(kept) < len(order):
        yield f"{len(order) - len(kept)} more with --full"


def _words_on_groups(
    shown: Sequence[Result], kept: Sequence[GroupSummary], n_groups: int
) -> str:
    """What the p-values, stars and gaps of the table of groups are.

    A group is significant only where the verdict has found something, too.
    """
    words = [f"p adjusted for {n_groups} rows"]
    if shown[0].report is not None:
        words[0] += " and the verdict"
    for result in shown:
        lines = _lines_by_group(result)
        if any(lines[line.group].significant for line in kept):
            words.append("* significant")
            break
    return "; ".join([*words, "gap in points"])


def _lines_by_group(result: Result) -> dict[object, GroupSummary]:
    return {line.group: line for line in result.per_group or ()}


def gap_columns(
    title: str, lines_of_version: Mapping[object, GroupSummary], of_positive: bool
) -> list[Column]:
    """Mean score, gap and p-value of every group in one version.

    title : name of the version.
    """

    def predicted(line: GroupSummary) -> str:
        return percent(lines_of_version[line.group].predicted)

    def gap(line: GroupSummary) -> str:
        line_of_version = lines_of_version[line.group]
        star = "*" if line_of_version.significant else " "
        return f"{points(line_of_version.gap)}{star}"

    def p_value(line: GroupSummary) -> str:
        cell = p_cell(lines_of_version[line.group].p_adjusted)
        return cell.replace("< 0.", "<.").removeprefix("0")

    return [
        Column("predicted" if of_positive else "sure", predicted, title=title),
        Column("gap", gap),
        Column("p", p_value),
    ]


SHORTEST_GROUP = 16
"""Characters of a group's name that a narrow table keeps."""


def fitting_group_table(
    kept: Sequence[GroupSummary], columns: Sequence[Column]
) -> list[list[str]]:
    """The table of groups: shorter names, then fewer columns, where there is no room."""
    for left in narrowing(columns):
        for longest in (LONGEST_NAME, 24, SHORTEST_GROUP):
            lines = _group_table(kept, left, longest)
            if table_width(lines) <= width_of_output():
                return lines
    return lines


def _group_table(
    kept: Sequence[GroupSummary], columns: Sequence[Column], longest: int
) -> list[list[str]]:
    """Heads and lines of the table of groups. longest : characters of a name."""
    titles = ["", *(name_words(column.title, longest) for column in columns)]
    lines = [["group", *(column.head for column in columns)]]
    if any(titles):
        lines.insert(0, titles)
    for line in kept:
        cells = [str(column.cell(line)) for column in columns]
        lines.append([name_words(line.group, longest), *cells])
    return lines


# ---- one line a bundle


def overview_lines(evaluation: Evaluation) -> Iterator[str]:
    """A line per result; columns that do not fit are left out."""
    columns = [Column("bundle", lambda result: name_words(result.bundle, 36))]
    if len(evaluation.results) > len(evaluation.bundles):
        columns.append(Column("version", lambda result: name_words(result.title, 20)))
    columns += [
        Column("verdict", lambda result: verdict_word(result.report)),
        Column("samples", lambda result: f"{result.n:,}", drop_order=3),
        Column("accuracy", partial(_value, "accuracy"), drop_order=4),
        Column("gap in points", _gap),
        Column("ECE", _own_error, drop_order=2),
        Column("NLL", partial(_value, "nll"), drop_order=1),
    ]
    table = Table.fitting(columns, evaluation.results)
    yield from table_lines(table.lines)
    yield "* significant; more with --full"


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


# ---- layout


def side_by_side(table: Table, fixed: int = 1) -> Iterator[str]:
    """The columns of a table, as many beside each other as fit; more continue below.

    fixed : first columns that stand before all others.
    """
    part = list(range(fixed))
    for place in range(fixed, len(table.columns)):
        is_full = table.only([*part, place]).width > width_of_output()
        if is_full and len(part) > fixed:
            yield from table_lines(table.only(part).lines)
            part = list(range(fixed))
        part.append(place)
    if len(part) > fixed:
        yield from table_lines(table.only(part).lines)
