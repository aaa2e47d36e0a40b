"""``threshold`` of a log of decisions: of each question, and of whole records."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
    Demand,
    Records,
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
from calcli.records import JsonObject

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
    demand = Demand(args.accuracy, precisions_of(args.precision), args.confidence)
    if args.record and demand.accuracy is None:
        raise UsageError("--record: needs --accuracy, the share of records to be right")
    command = CommandContext(args)
    content = _thresholds_of_log(args, demand, command)
    is_found = _has_any(content)
    if args.output is not None and is_found:
        write_json(Path(args.output), content, force=args.force)
    if args.json:
        print_json(content)
    else:
        _print(content, command)
        if args.output is not None and is_found:
            print_path(Path(args.output))
    return 0 if is_found else FitError.exit_code


def _thresholds_of_log(
    args: Any, demand: Demand, command: CommandContext
) -> JsonObject:
    """Thresholds of every question, and with --record of records, as JSON prints them.

    Raises UsageError for precisions of options that no question has.
    """
    questions: dict[str, JsonObject] = {}
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
            questions[answers.question] = {
                **thresholds(answers, demand),
                "calibrator_sha256": sha256,
            }
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
    content: JsonObject = {"calcli_threshold": 1, "questions": questions}
    if args.record:
        content["record"] = records.threshold(args.accuracy, args.confidence)
    return content


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


def _has_any(content: Mapping[str, Any]) -> bool:
    """True where any threshold was found."""
    all_thresholds = [content.get("record", {}).get("threshold")]
    for facts in content["questions"].values():
        all_thresholds.append(facts.get("threshold"))
        all_thresholds += [cut["threshold"] for cut in facts.get("cuts", {}).values()]
    return any(threshold is not None for threshold in all_thresholds)


# ---- for people


def _print(content: Mapping[str, Any], command: CommandContext) -> None:
    """Print the thresholds of confidence, the cuts, and what ties hide."""
    command.tell_warnings()
    questions = content["questions"]
    shown = dict(list(questions.items())[:MOST_LINES])
    by_confidence = [
        _confidence_row(name, facts)
        for name, facts in shown.items()
        if "threshold" in facts
    ]
    if "record" in content:
        by_confidence.append(_confidence_row(WHOLE_RECORD, content["record"]))
    head = ["question", "rows", "from", "confidence", "coverage", "right", "at least"]
    if by_confidence:
        print_table(head, by_confidence)
    cuts = []
    for name, facts in shown.items():
        for option, cut in facts.get("cuts", {}).items():
            cuts.append(_cut_row(name, option, cut))
    if cuts:
        head = ["question", "accept", "where P", "coverage", "right", "at least"]
        print_table(head, cuts)
    say_more(len(questions), command)
    searched = dict(shown)
    if "record" in content:
        searched[WHOLE_RECORD] = content["record"]
    for name, facts in searched.items():
        highest = facts.get("highest_accuracy")
        if highest is not None:
            command.say(
                f"{name}: no threshold guarantees this accuracy; at most {highest:g}"
                " can be guaranteed"
            )
    for name, facts in shown.items():
        for option, cut in facts.get("cuts", {}).items():
            if cut["threshold"] is None:
                command.say(
                    f"{name}: no threshold guarantees this precision of {option} (too"
                    " few samples, or too many wrong among the surest)"
                )
        if facts["ties"] is not None:
            command.say(_about_ties(name, facts["ties"], facts["n"]))
    left_out = content.get("record", {}).get("left_out", 0)
    if left_out:
        command.say(
            f"{left_out} {noun(left_out, 'record')} without an answer to every question"
            " left out"
        )


def _confidence_row(name: str, facts: Mapping[str, Any]) -> list[Cell]:
    """A line of the table of confidences."""
    keys = ("threshold", "confidence_threshold", "coverage", "accuracy")
    numbers = [facts.get(key) for key in (*keys, "accuracy_lower")]
    return [name, facts["n"], *numbers]


def _cut_row(question: str, option: str, cut: Mapping[str, Any]) -> list[Cell]:
    """A line of the table of cuts; no is accepted below a cut of P(yes)."""
    where = ""
    if cut["threshold"] is not None:
        where = f"P({option}) >= {cut['threshold']:.4f}"
        if option == NO:
            where = f"P(yes) <= {1.0 - cut['threshold']:.4f}"
    numbers = [cut[key] for key in ("coverage", "accuracy", "accuracy_lower")]
    return [question, option, where, *numbers]


def _about_ties(name: str, ties: Mapping[str, Any], n: int) -> str:
    """What is said of answers that share the highest confidence."""
    return (
        f"{name}: {ties['n']} of {n} answers share the highest confidence,"
        f" {ties['confidence']:.2f}, and {ties['accuracy']:.1%} of them are right; no"
        " threshold tells them apart"
    )
