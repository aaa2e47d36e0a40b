"""``fit`` and ``run`` of a log of decisions: one calibrator with a map per question."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calcli.calibrator import Context
from calcli.cli.context import CommandContext, artifact_target
from calcli.cli.render import Cell, print_table
from calcli.errors import DataError, UsageError
from calcli.importers.open_any_file import expand_log, is_log, logs_once
from calcli.io.locate import Layout, split_where
from calcli.io.question_artifact import METHOD, save
from calcli.number_words import noun

if TYPE_CHECKING:
    from calcli.fit_questions import FittedLog

MOST_LINES = 12


def is_whole_log(names: Sequence[str], layout: Layout) -> bool:
    """True for one name that is a log of decisions, without a question."""
    return len(names) == 1 and is_log(Path(names[0]), layout)


def are_logs(names: Sequence[str], layout: Layout) -> bool:
    """True for logs of decisions without a question."""
    return bool(names) and all(is_log(Path(name), layout) for name in names)


def by_question(bundles: Sequence[str]) -> dict[str, list[str]]:
    """Bundles of logs by their question, in the order of the first of each."""
    questions: dict[str, list[str]] = {}
    for bundle in bundles:
        question = split_where(bundle)[1] or ""
        questions.setdefault(question, []).append(bundle)
    return questions


def bundles_of(name: str, layout: Layout) -> list[str]:
    """Bundles of the labelled questions of a log. Raises DataError for none."""
    bundles = expand_log(Path(name), layout)
    if not bundles:
        raise DataError(
            f"{name}: no question has labels, which a fit needs; add them to the"
            " records, or name another file: calcli extract --gold FILE"
        )
    return bundles


def default_name(name: str) -> str:
    """Name of the artifact where none is given."""
    return f"{Path(name).stem}.{METHOD}.json"


def say_more(n_questions: int, command: CommandContext) -> None:
    """Say how many questions a table leaves out."""
    n_more = n_questions - MOST_LINES
    if n_more > 0:
        command.say(f"and {n_more} more {noun(n_more, 'question')}: --json")


def fit_log_command(args: Any) -> int:
    """Fit, save and say what was done. args : those of ``fit``."""
    # Start-up: every ``fit`` imports this module, and few fit a log.
    from calcli.fit_questions import fit_questions, opened_questions

    name = args.given[0]
    if not args.by_default and args.method != METHOD:
        raise UsageError(
            f"--method {args.method}: a log has a map for each question, method"
            f" {METHOD}; name a question, {name}:QUESTION, for another method"
        )
    target = artifact_target(default_name(name), args.output, force=args.force)
    with logs_once([name], args.where), CommandContext(args) as command:
        context = Context(args.seed, progress=command.progress)
        with opened_questions(
            bundles_of(name, args.where),
            context,
            layout=args.where,
            tell=command.say,
            again=args.again,
        ) as questions:
            fitted = fit_questions(questions, context)
        command.clear()
        save(fitted.artifact, target, force=args.force)
        tell_fitted(fitted, command)
        command.written(target, fitted.output(target).to_dict())
    return 0


def tell_fitted(fitted: "FittedLog", command: CommandContext) -> None:
    """Say what the fit did, a line for each question."""
    if command.quiet:
        return
    n_questions = len(fitted.questions)
    command.say(
        f"Fitted {METHOD}: {n_questions} {noun(n_questions, 'question')}; NLL out of"
        " fold, 10 folds of records"
    )
    head = ["question", "type", "labels", "NLL raw", "NLL", "map"]
    table: list[list[Cell]] = []
    for question in fitted.questions[:MOST_LINES]:
        table.append(
            [
                question.name,
                question.type,
                question.n,
                question.nll_before,
                question.nll_after,
                question.change,
            ]
        )
    print_table(head, table, file=sys.stderr)
    n_more = n_questions - MOST_LINES
    if n_more > 0:
        command.say(f"and {n_more} more {noun(n_more, 'question')}")
    for warning in fitted.artifact.fit.warnings:
        command.warn(warning)
