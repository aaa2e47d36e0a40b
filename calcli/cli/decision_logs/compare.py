"""``compare`` of two logs of decisions: question by question, on the same records."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from calcli import __version__
from calcli.cli.context import CommandContext
from calcli.cli.decision_logs.fit import MOST_LINES, by_question, say_more
from calcli.cli.render import Cell, Column, Table, print_table
from calcli.errors import DataError, UsageError
from calcli.evaluation.compare_logs import (
    ComparedQuestion,
    LogSettings,
    ModelAnswers,
    QuestionOutput,
    compare_question,
    comparison_of_logs,
)
from calcli.evaluation.leaderboard import CompareSettings
from calcli.importers.open_any_file import is_log, logs_once
from calcli.io.atomic import check_output, write_json
from calcli.io.bundle import BundleRows
from calcli.io.locate import split_where
from calcli.metrics.settings import MetricSettings
from calcli.number_words import noun
from calcli.statistics.p_values import p_cell

P_ACCURACY = "p (McNemar)"
P_NLL = "p NLL"
"""Heads of the columns with p-values."""


def are_two_logs(args: Any) -> bool:
    """True for a log, or a question of it, beside another one as the baseline."""
    if args.baseline_bundle is None or len(args.given) != 1:
        return False
    names = (args.given[0], args.baseline_bundle)
    return all(is_log(split_where(name)[0], args.where) for name in names)


def compare_log(args: Any) -> int:
    """Pair the answers, test every question, and print what became of them.

    args : those of ``compare``.
    """
    _refuse_options_of_bundles(args)
    if args.output is not None:
        check_output(args.output, force=args.force)
    command = CommandContext(args)
    new = args.given[0]
    baseline = args.baseline_bundle
    with command, logs_once([new, baseline], args.where):
        questions = _compared(args, command)
        command.clear()
    settings = LogSettings(
        level=args.level, baseline=baseline, calcli_version=__version__
    )
    new_log = split_where(new)[0]
    baseline_log = split_where(baseline)[0]
    output = comparison_of_logs(questions, new_log.name, baseline_log.name, settings)
    content = output.to_dict()
    if args.output is not None:
        write_json(args.output, content, force=args.force)
    table = _table(questions, output.questions)
    if not args.people:
        args.print("compare", [table], content["results"], content)
    elif not args.quiet:
        print_table(table.columns, _rows_in_words(table)[:MOST_LINES])
        say_more(len(questions), command)
        command.say(
            f"before: {baseline_log.name}; two-sided p-values{_adjustment(questions)};"
            " fixed against broken by McNemar's test"
        )
    return 0


def _refuse_options_of_bundles(args: Any) -> None:
    """Raise UsageError for options that logs do not have."""
    is_given = {
        "--methods": args.methods is not None,
        "--test": args.test is not None,
        "--diagram": args.diagram is not None,
        "--workers": args.workers is not None,
        "--cluster": args.cluster is not None,
        "--folds": args.folds != CompareSettings.folds,
        "--thorough": args.thorough,
    }
    for option, was_given in is_given.items():
        if was_given:
            raise UsageError(
                f"{option}: two logs are compared as they are; calcli extract LOG makes"
                " bundles, which have methods"
            )


def _compared(args: Any, command: CommandContext) -> list[ComparedQuestion]:
    """The questions of both logs. Raises DataError where there is none."""
    new_bundles = by_question(args.expanded)
    baseline_bundles = by_question(args.expand(args.baseline_bundle))
    new_question = split_where(args.given[0])[1]
    baseline_question = split_where(args.baseline_bundle)[1]
    if new_question in new_bundles and baseline_question in baseline_bundles:
        # Both were named, not by a pattern, so that they may have different names.
        baseline_bundles = {new_question: baseline_bundles[baseline_question]}
    shared = [question for question in new_bundles if question in baseline_bundles]
    if new_question is None and baseline_question is None:
        _say_missing(list(new_bundles), list(baseline_bundles), command)
    questions = []
    for number, question in enumerate(shared, start=1):
        new = _answers(new_bundles[question][0], command)
        baseline = _answers(baseline_bundles[question][0], command)
        settings = MetricSettings(level=args.level, seed=args.seed, interval="t")
        compared = compare_question(question, new, baseline, settings)
        if compared is None:
            command.say(f"{question}: no record is in both logs")
        else:
            questions.append(compared)
            _say_unpaired(compared, command)
        command.progress("questions", number, len(shared))
    if not questions:
        raise DataError(
            f"{args.given[0]} and {args.baseline_bundle}: no record answers a question"
            " of both; they are paired by id and question"
        )
    return questions


def _answers(bundle: str, command: CommandContext) -> ModelAnswers:
    with command.rows([bundle], prefer=()) as rows:
        assert isinstance(rows, BundleRows)
        return ModelAnswers.of(rows)


def _say_missing(
    new: Sequence[str], baseline: Sequence[str], command: CommandContext
) -> None:
    """Say which questions only one of the logs has."""
    only_new = [name for name in new if name not in baseline]
    only_baseline = [name for name in baseline if name not in new]
    for names, log in ((only_new, "new"), (only_baseline, "baseline")):
        if names:
            listing = ", ".join(names[:MOST_LINES])
            command.say(f"only in the {log} log: {listing}")


def _say_unpaired(compared: ComparedQuestion, command: CommandContext) -> None:
    """Say how many answers have no partner."""
    new, baseline = compared.unpaired
    if new or baseline:
        pairs = f"{compared.n} {noun(compared.n, 'pair')}"
        command.say(
            f"{compared.question}: {pairs}; without a partner: {new}"
            f" {noun(new, 'answer')} of the new log and {baseline} of the baseline"
        )


def _table(
    questions: Sequence[ComparedQuestion], outputs: Mapping[str, QuestionOutput]
) -> Table:
    """A line for each question. outputs : their JSON, with adjusted p-values."""
    columns = [
        Column("question", lambda compared: compared.question),
        Column("pairs", lambda compared: compared.n),
        Column("right", lambda compared: compared.new["accuracy"]["value"]),
        Column("right before", lambda compared: compared.baseline["accuracy"]["value"]),
        Column("fixed", lambda compared: compared.fixed),
        Column("broken", lambda compared: compared.broken),
        Column(P_ACCURACY, partial(_p_of_accuracy, outputs)),
        Column("NLL", lambda compared: compared.new["nll"]["value"]),
        Column("NLL before", lambda compared: compared.baseline["nll"]["value"]),
        Column(P_NLL, partial(_p_of_nll, outputs)),
    ]
    return Table.of(columns, questions)


def _p_of_accuracy(
    outputs: Mapping[str, QuestionOutput], compared: ComparedQuestion
) -> Cell:
    return outputs[compared.question].accuracy.p_adjusted


def _p_of_nll(
    outputs: Mapping[str, QuestionOutput], compared: ComparedQuestion
) -> Cell:
    return outputs[compared.question].nll.p_adjusted


def _rows_in_words(table: Table) -> list[list[Cell]]:
    """The rows, with p-values written for people."""
    rows = []
    for row in table.rows:
        cells = list(row)
        for head in (P_ACCURACY, P_NLL):
            place = table.columns.index(head)
            p_value = row[place]
            cells[place] = p_cell(p_value) if isinstance(p_value, float) else "-"
        rows.append(cells)
    return rows


def _adjustment(questions: Sequence[ComparedQuestion]) -> str:
    """Words on the adjustment of the p-values; none for one question."""
    if len(questions) < 2:
        return ""
    return f", adjusted for {len(questions)} questions (Holm)"
