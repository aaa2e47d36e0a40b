"""Find the lowest confidence above which accuracy is at least A, with a guarantee.

Rows of at least that confidence are accepted; calcli apply --threshold marks them. The
rows must not be those of the calibrator's fit.

\b
calcli threshold logits.h5 -c logits.auto.json --accuracy 0.95 -o t.json
calcli apply logits.auto.json new.h5 --threshold t.json -o accepted.csv

\f
A log of decisions has a threshold for each of its questions, yes/no two: yes is accepted
above a P(yes), no below another. --precision asks for the cuts of some options alone,
--record for all answers of a record at once.

\b
calcli threshold log.jsonl -c log.by-question.json --accuracy 0.95 --record
calcli threshold log.jsonl:refund --precision yes=.9

Weighted rows are refused: the bound is exact for counts only. Where the bundle has a
dataset unit, rows of one unit belong together, and the guarantee is for units that are
drawn independently.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from msgspec import UNSET

from calcli.cli import options as o
from calcli.cli.context import CommandContext
from calcli.cli.decision_logs.threshold import is_by_question, threshold_log
from calcli.cli.render import fail, print_line
from calcli.errors import FitError, UsageError
from calcli.evaluation.caveats import not_held_out
from calcli.evaluation.selective_threshold import (
    AcceptedGroup,
    CoveragePoint,
    SearchedThreshold,
    ThresholdOutput,
    search_threshold,
)
from calcli.io.atomic import check_output, write_json
from calcli.io.question_artifact import load_for
from calcli.statistics.acceptance import Accepted

SHOWN_GROUPS = 20
"""Groups that are printed, the least accurate ones."""
EPILOG = (
    "Exit code 4: no threshold satisfies the bound on these rows; with --json its"
    " numbers are null."
)


@dataclass(frozen=True, kw_only=True)
class ThresholdArgs(o.ReadingSeveral, o.WorkerOptions, o.OutputOptions):
    accuracy: Annotated[
        float | None,
        typer.Option(
            "--accuracy", metavar="A", help="Accuracy that accepted rows must have."
        ),
    ] = None
    bundles: Annotated[
        list[str] | None,
        o.bundles(
            "Labelled rows, of several bundles together; group test when none is named."
        ),
    ] = None
    calibrator: o.OneCalibrator = None
    level: Annotated[
        float,
        typer.Option(
            "--level", metavar="P", help="Probability with which the guarantee holds."
        ),
    ] = 0.95
    precision: Annotated[
        list[str] | None,
        typer.Option(
            "--precision",
            metavar="OPTION=P",
            help="Log of decisions: precision of an option, such as yes=.9"
            " (repeatable).",
        ),
    ] = None
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Log of decisions: also of whole records, all answers right at once.",
        ),
    ] = False
    output: Annotated[
        str | None, o.output("OUT.json", "File for apply --threshold.")
    ] = None
    again: o.Again = False
    force: o.Force = False


def run(args: ThresholdArgs) -> int:
    """Find the threshold, write it, and say what it accepts."""
    if args.accuracy is None and not args.precision:
        raise UsageError("--accuracy: expected that of accepted rows, such as .95")
    if is_by_question(args):
        return threshold_log(args)
    assert args.accuracy is not None
    command = CommandContext(args)
    bundles = args.expanded
    if args.output is not None:
        check_output(Path(args.output), force=args.force)
    artifact = load_for(args.calibrator, bundles[0])
    with command, command.rows(bundles) as rows:
        command.check_fits(artifact, args.calibrator, rows)
        searched = search_threshold(
            rows, artifact, args.accuracy, args.level, args.calibrator
        )
        command.caveats(rows)
        in_sample = not_held_out(artifact, rows)
        if in_sample is not None:
            command.warn(
                f"{rows.name}: {in_sample} (on these the guarantee does not hold)"
            )
    best = searched.choice.best
    output = searched.output
    if best is None:
        return _none_found(searched, args, command)
    if args.output is not None:
        write_json(Path(args.output), output.to_dict(), force=args.force)
    if args.json or args.output is not None:
        command.written(args.output, output.to_dict())
    else:
        print_line(repr(best.threshold))
    _say_accepted(best, command)
    if in_sample is None:
        command.say(output.guarantee)
    else:
        command.say("No guarantee: these rows are those of the calibrator's fit.")
    _say_parts(output, command)
    return 0


def _say_accepted(best: Accepted, command: CommandContext) -> None:
    """Say the threshold, and what it accepts."""
    accepted = (
        f"{best.accepted} of {best.n} rows ({best.coverage:.1%}), of which"
        f" {best.accuracy:.2%} are right"
    )
    threshold = shown_confidence(best.threshold, ".6g")
    command.say(f"threshold {threshold} accepts {accepted}")


def _say_parts(output: ThresholdOutput, command: CommandContext) -> None:
    """Say the accuracy at several coverages, and of the first groups."""
    lines = [_coverage_line(point) for point in output.accuracy_at_coverage]
    # With many equal confidences, several coverages give one line.
    for line in dict.fromkeys(lines):
        command.say(line)
    groups = [] if output.groups is UNSET else output.groups
    for group in groups[:SHOWN_GROUPS]:
        command.say(_group_line(group))


def _none_found(
    searched: SearchedThreshold, args: ThresholdArgs, command: CommandContext
) -> int:
    """Say that no threshold guarantees the accuracy, and which accuracies have one."""
    if args.json:
        command.written(args.output, searched.output.to_dict())
    else:
        for accuracy, choice in searched.offered:
            command.say(
                f"accuracy {accuracy:g} can be guaranteed at coverage"
                f" {choice.coverage:.1%}"
            )
    return fail(searched.why_not, FitError.exit_code)


def _coverage_line(point: CoveragePoint) -> str:
    """What accuracy is reached at a coverage."""
    accuracy = f"accuracy {point.accuracy:.4f}"
    if point.accuracy_ci is not None:
        low, high = point.accuracy_ci
        accuracy += f" ({low:.4f} to {high:.4f})"
    least = shown_confidence(point.threshold, ".4f")
    return f"coverage {point.coverage:6.1%}: {accuracy}, confidence from {least}"


def _group_line(line: AcceptedGroup) -> str:
    """What is accepted in a group."""
    share = ""
    if line.accuracy is not None:
        share = f", of which {line.accuracy:.2%} are right"
    return (
        f"group {line.group}: {line.accepted} of {line.n} rows{share}"
        " (no guarantee by group)"
    )


def shown_confidence(value: float, digits: str) -> str:
    """Format a confidence.

    One that would round to 1 is written as its distance from it, 1 - 2.3e-07.
    """
    shown = format(value, digits)
    if value < 1.0 and float(shown) == 1.0:
        return f"1 - {1.0 - value:.2g}"
    return shown
