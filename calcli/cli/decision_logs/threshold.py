"""``threshold`` of a log of decisions: of each question, and of whole records."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, UnsetType

from calcli.cli.context import CommandContext
from calcli.cli.decision_logs.fit import (
    MOST_LINES,
    are_logs,
    bundles_of,
    by_question,
    say_more,
)
from calcli.cli.render import Cell, print_json, print_path, print_table
from calcli.decisions.answers import NO
from calcli.errors import FitError, UsageError
from calcli.evaluation.caveats import not_held_out
from calcli.evaluation.question_thresholds import (
    Answers,
    CutOutput,
    Demand,
    LogThresholdOutput,
    QuestionOutput,
    RecordOutput,
    Records,
    TiesOutput,
    are_copies,
    thresholds,
)
from calcli.importers.open_any_file import is_log, logs_once
from calcli.io.artifact import Artifact
from calcli.io.atomic import check_output, write_json
from calcli.io.bundle import BundleRows
from calcli.io.locate import split_where
from calcli.io.provenance import identity
from calcli.io.question_artifact import load_for
from calcli.number_words import noun

WHOLE_RECORD = "whole record"
"""What the table calls the threshold of all questions of a record at once."""


def is_by_question(args: Any) -> bool:
    """True where every question gets a threshold of its own.

    So it is for whole logs, for bundles of several questions, and for what logs of
    decisions alone have. args : those of ``threshold``.
    """
    if args.record or args.precision or are_logs(args.given, args.where):
        return True
    are_parts = all(is_log(split_where(name)[0], args.where) for name in args.given)
    return are_parts and len(by_question(args.expanded)) > 1


def threshold_log(args: Any) -> int:
    """Find a threshold for every question of logs. args : those of ``threshold``.

    Returns 4 where nothing has a threshold.
    """
    if args.output is not None:
        check_output(Path(args.output), force=args.force)
    demand = Demand(args.accuracy, precisions_of(args.precision), args.level)
    if args.record and demand.accuracy is None:
        raise UsageError("--record: needs --accuracy, the share of records to be right")
    command = CommandContext(args)
    output = _thresholds_of_log(args, demand, command)
    is_found = _has_any(output)
    if args.output is not None and is_found:
        write_json(Path(args.output), output.to_dict(), force=args.force)
    if args.json:
        print_json(output.to_dict())
    else:
        _print(output, command)
        if args.output is not None and is_found:
            print_path(Path(args.output))
    return 0 if is_found else FitError.exit_code


def _thresholds_of_log(
    args: Any, demand: Demand, command: CommandContext
) -> LogThresholdOutput:
    """Thresholds of every question, and with --record of records.

    Raises UsageError for precisions of options that no question has.
    """
    questions: dict[str, QuestionOutput] = {}
    records = Records()
    unknown = set(demand.precisions)
    with logs_once(args.given, args.where), command:
        _refuse_logs_without_labels(args)
        parts = by_question(args.expanded)
        for number, bundles in enumerate(parts.values(), start=1):
            artifact = load_for(args.calibrator, bundles[0])
            of_logs = [_answers(bundle, artifact, args, command) for bundle in bundles]
            _warn_of_copies(bundles, of_logs, command)
            answers = Answers.joined(of_logs)
            sha256 = None if artifact is None else identity(artifact)
            questions[answers.question] = thresholds(answers, demand, sha256)
            unknown.difference_update(answers.classes or ())
            if args.record:
                records.add(answers)
            command.progress("questions", number, len(parts))
        command.clear()
    if unknown:
        listing = ", ".join(sorted(unknown))
        raise UsageError(
            f"--precision {listing}: no question has this option; of yes/no they are"
            " yes and no, and options that differ from row to row have none"
        )
    record: RecordOutput | UnsetType = UNSET
    if args.record:
        record = records.threshold(args.accuracy, args.level)
    return LogThresholdOutput(calcli_threshold=1, questions=questions, record=record)


def _refuse_logs_without_labels(args: Any) -> None:
    for name in args.given:
        if is_log(Path(name), args.where):
            bundles_of(name, args.where)  # raises for them


def precisions_of(texts: Sequence[str] | None) -> dict[str, float]:
    """Precision by option of texts such as ``yes=.9``. Raises UsageError."""
    precisions = {}
    for text in texts or ():
        option, equals, number = text.rpartition("=")
        try:
            precision = float(number)
        except ValueError:
            precision = 0.0
        if not option or not equals or not 0.0 < precision < 1.0:
            raise UsageError(
                f"--precision {text}: expected an option and a number between 0 and 1,"
                " such as yes=.9"
            )
        precisions[option] = precision
    return precisions


def _answers(
    bundle: str, artifact: Artifact | None, args: Any, command: CommandContext
) -> Answers:
    """Answers to a question, calibrated."""
    with command.rows([bundle]) as rows:
        assert isinstance(rows, BundleRows)
        command.check_fits(artifact, args.calibrator, rows)
        warning = not_held_out(artifact, rows)
        if warning is not None:
            text = f"{warning} (on these the guarantee does not hold)"
            command.warn(text, about=rows.name)
        return Answers.of(rows, artifact)


def _warn_of_copies(
    bundles: Sequence[str], of_logs: Sequence[Answers], command: CommandContext
) -> None:
    """Warn where two logs hold the same answers, which count twice."""
    for second in range(1, len(of_logs)):
        for first in range(second):
            if are_copies(of_logs[first], of_logs[second]):
                log = split_where(bundles[first])[0].name
                text = f"holds the answers of {log}, which count twice (the guarantee"
                text += " does not hold): name one of them"
                command.warn(text, about=bundles[second])


def _has_any(output: LogThresholdOutput) -> bool:
    """True where any threshold was found."""
    all_thresholds = []
    if output.record:
        all_thresholds.append(output.record.threshold)
    for question in output.questions.values():
        if question.threshold is not UNSET:
            all_thresholds.append(question.threshold)
        for cut in (question.cuts or {}).values():
            all_thresholds.append(cut.threshold)
    return any(threshold is not None for threshold in all_thresholds)


# ---- for people


def _print(output: LogThresholdOutput, command: CommandContext) -> None:
    """Print the thresholds of confidence, the cuts, and what ties hide."""
    command.tell_warnings()
    shown = dict(list(output.questions.items())[:MOST_LINES])
    searched: dict[str, QuestionOutput | RecordOutput] = dict(shown)
    if output.record:
        searched[WHOLE_RECORD] = output.record
    _print_tables(searched, shown)
    say_more(len(output.questions), command)
    for name, thresholds_of in searched.items():
        if isinstance(thresholds_of.highest_accuracy, float):
            command.say(
                f"{name}: no threshold guarantees this accuracy; at most"
                f" {thresholds_of.highest_accuracy:g} can be guaranteed"
            )
    for name, question in shown.items():
        _say_of_cuts(name, question, command)
        if question.ties is not None:
            command.say(_about_ties(name, question.ties, question.n))
    if output.record and output.record.left_out:
        n = output.record.left_out
        command.say(
            f"{n} {noun(n, 'record')} without an answer to every question left out"
        )


def _print_tables(
    searched: Mapping[str, QuestionOutput | RecordOutput],
    shown: Mapping[str, QuestionOutput],
) -> None:
    """Print the tables of the thresholds and of the cuts that there are."""
    by_confidence = []
    for name, question in searched.items():
        if question.threshold is not UNSET:
            by_confidence.append(_confidence_row(name, question))
    head = ["question", "rows", "from", "confidence", "coverage", "right", "at least"]
    if by_confidence:
        print_table(head, by_confidence)
    cuts = []
    for name, question in shown.items():
        for option, cut in (question.cuts or {}).items():
            cuts.append(_cut_row(name, option, cut))
    if cuts:
        head = ["question", "accept", "where P", "coverage", "right", "at least"]
        print_table(head, cuts)


def _say_of_cuts(name: str, question: QuestionOutput, command: CommandContext) -> None:
    """Say which precisions no threshold guarantees."""
    for option, cut in (question.cuts or {}).items():
        if cut.threshold is None:
            command.say(
                f"{name}: no threshold guarantees this precision of {option} (too"
                " few samples, or too many wrong among the surest)"
            )


def _confidence_row(name: str, question: QuestionOutput | RecordOutput) -> list[Cell]:
    """A line of the table of confidences."""
    own_threshold: float | UnsetType | None = None
    if isinstance(question, QuestionOutput):
        own_threshold = question.confidence_threshold
    cells: list[Cell] = [name, question.n]
    for number in (
        question.threshold,
        own_threshold,
        question.coverage,
        question.accuracy,
        question.accuracy_lower,
    ):
        cells.append(None if number is UNSET else number)
    return cells


def _cut_row(question: str, option: str, cut: CutOutput) -> list[Cell]:
    """A line of the table of cuts; no is accepted below a cut of P(yes)."""
    where = ""
    if cut.threshold is not None:
        where = f"P({option}) >= {cut.threshold:.4f}"
        if option == NO:
            where = f"P(yes) <= {1.0 - cut.threshold:.4f}"
    return [question, option, where, cut.coverage, cut.accuracy, cut.accuracy_lower]


def _about_ties(name: str, ties: TiesOutput, n: int) -> str:
    """What is said of answers that share the highest confidence."""
    return (
        f"{name}: {ties.n} of {n} answers share the highest confidence,"
        f" {ties.confidence:.2f}, and {ties.accuracy:.1%} of them are right; no"
        " threshold tells them apart"
    )
