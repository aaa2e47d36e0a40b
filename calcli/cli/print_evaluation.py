"""Evaluation as text for people: headlines and findings, one table of versions, one of
groups.

An answer has three levels: a headline, at most three findings, and the command to run
next. Everything else is behind ``--full`` and in the JSON.
"""

from collections.abc import Iterator, Sequence

from calcli.cli.evaluation_headlines import (
    by_interest,
    fitting_headline,
    named_headline,
)
from calcli.cli.evaluation_lines import (
    changes_lines,
    class_lines,
    full_lines,
    metrics_by_group_lines,
    metrics_lines,
    ranks_lines,
)
from calcli.cli.evaluation_tables import (
    group_table_lines,
    legend_lines,
    overview_lines,
    version_table,
)
from calcli.cli.render import (
    print_line,
    table_lines,
    wrapped,
)
from calcli.evaluation.evaluation import Evaluation
from calcli.evaluation.requests import Plan
from calcli.evaluation.results import Result, focus

MOST_FINDINGS = 3
"""Findings that are printed without ``--full``."""

MOST_TABLES = 3
"""Bundles up to which each has a table of its own; more are a line each."""

MOST_GROUPS = 12
"""Lines of the table of groups without ``--full``."""

GROUP_TABLE_LINES = 5
"""Lines around those of the groups: an empty one, title, two heads, count of the rest."""


def print_report(
    evaluation: Evaluation,
    plan: Plan,
    *,
    full: bool,
    most_lines: int | None = None,
) -> None:
    """Print what was evaluated.

    full : everything. most_lines : lines to print at most, which shortens the table of
    groups; None for no limit but ``MOST_GROUPS``.
    """
    for line in report_lines(evaluation, plan, full=full, most_lines=most_lines):
        print_line(line)


def report_lines(
    evaluation: Evaluation, plan: Plan, *, full: bool, most_lines: int | None
) -> Iterator[str]:
    """The lines of ``print_report``."""
    step = next_command(evaluation)
    end = [] if step is None else ["", f"next: {step}"]
    if not plan.report:
        for results in evaluation.bundles:
            yield from metrics_lines(results, plan.metrics)
            yield from changes_lines(results)
            yield from metrics_by_group_lines(results, None if full else MOST_GROUPS)
    elif len(evaluation.bundles) > MOST_TABLES and not full:
        yield from overview_lines(evaluation)
    else:
        for number, results in enumerate(evaluation.bundles):
            if number:
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
                print_line(named_headline(result, results))


def next_command(evaluation: Evaluation) -> str | None:
    """The command to run next: of the first bundle that has one; None for none."""
    for results in evaluation.bundles:
        report = results[0].report
        if report is not None and report.next_step.command is not None:
            return report.next_step.command
    return None


def bundle_lines(
    results: Sequence[Result], *, full: bool, most_lines: int | None
) -> Iterator[str]:
    """Headlines, findings and tables of one bundle.

    full : all findings and groups. most_lines : as for ``print_report``.
    """
    first = results[focus(results)]
    table = version_table(results)
    lines = [*headline_lines(results, full=full), ""]
    lines += table_lines(table.lines)
    lines += legend_lines(results, table.columns)
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
