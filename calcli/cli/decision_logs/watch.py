"""``watch`` of a log of decisions: all its questions in one state file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from calcli.cli.context import CommandContext
from calcli.cli.decision_logs.fit import MOST_LINES, by_question, say_more
from calcli.cli.render import Cell, print_json, print_sentence, print_table
from calcli.errors import LimitCrossed
from calcli.evaluation.watch import LabelledBatch
from calcli.evaluation.watch_log import LogState, QuestionBatch, watch_log
from calcli.evaluation.watch_state import BY_QUESTION
from calcli.importers.open_any_file import logs_once
from calcli.io.bundle import BundleRows
from calcli.io.bundle_group import QUESTION_TYPE
from calcli.io.question_artifact import load_for


def is_state_of_log(path: Path) -> bool:
    """True for a state file that has the evidence of questions."""
    return path.is_file() and BY_QUESTION in path.read_bytes()


def watch_log_command(args: Any, named: dict[str, Any]) -> int:
    """Take in a batch of all questions, and say whether the alarm is on.

    args : those of ``watch``. named : tolerance, level and label as far as named.
    """
    path = Path(args.state)
    command = CommandContext(args)
    with command, logs_once(args.given, args.where):
        batches = _batches(args, command) if args.given else None
        state = watch_log(
            path,
            " ".join(Path(name).name for name in args.given),
            batches,
            named,
            new_episode=args.reset,
            tell=command.say,
        )
        command.clear()
    if args.json:
        print_json(state.output().to_dict())
    else:
        print_sentence(state.sentence())
        if not args.quiet:
            _print_questions(state, command)
    return 0 if state.current.alarm_at is None else LimitCrossed.exit_code


def _batches(args: Any, command: CommandContext) -> Iterator[QuestionBatch]:
    """The questions of the logs, each opened while it is taken in."""
    questions = by_question(args.expanded)
    for number, (question, bundles) in enumerate(questions.items(), start=1):
        artifact = load_for(args.calibrator, bundles[0])
        with command.rows(bundles) as rows:
            command.check_fits(artifact, args.calibrator, rows)
            question_type = None
            if isinstance(rows, BundleRows):
                question_type = rows.text_attribute(QUESTION_TYPE)
            labelled = LabelledBatch(rows, artifact, command.say)
            yield QuestionBatch(question, question_type, labelled)
        command.progress("questions", number, len(questions))


def _print_questions(state: LogState, command: CommandContext) -> None:
    """Print a line for each question, those with the most evidence first."""
    table: list[list[Cell]] = []
    for name in state.by_evidence[:MOST_LINES]:
        facts = state.questions[name].facts
        mark = "alarm" if facts.alarm else ""
        gap = "-"
        if facts.overconfidence is not None:
            gap = f"{facts.overconfidence:+.4f}"
        table.append(
            [
                name,
                facts.rows,
                gap,
                f"{facts.e:.3g}",
                f"{facts.alarm_at_e:.3g}",
                mark,
            ]
        )
    head = ["question", "samples", "newest gap", "evidence", "alarm at", ""]
    print_table(head, table)
    say_more(len(state.questions), command)
