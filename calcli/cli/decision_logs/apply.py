"""``apply`` of a calibrator by question to a log: the same records, calibrated."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calcli.cli.apply_output import AppliedBundle, ApplyOutput
from calcli.cli.context import CommandContext
from calcli.cli.render import print_json, print_path
from calcli.decisions.calibrate import AnswerCalibrator
from calcli.decisions.records import Numbered, records
from calcli.errors import UsageError
from calcli.io.atomic import check_output, new_file
from calcli.io.inputs import note
from calcli.io.question_artifact import QuestionsArtifact

LINES_BETWEEN = 1000
"""Records between two signs of progress."""


def apply_log(args: Any, artifact: QuestionsArtifact) -> int:
    """Write a log with calibrated answers; nothing of it if a record is bad."""
    path = Path(args.given[0])
    output = args.output
    if output != "-" and Path(output).suffix.lower() not in (".jsonl", ".ndjson"):
        raise UsageError(
            f"-o {output}: calibrated answers are written as the log is, expected a"
            f" name such as {Path(output).stem}.jsonl"
        )
    if args.threshold is not None or args.as_ != "probs":
        raise UsageError(
            f"--threshold and --as are for bundles; name a question: {path}:QUESTION"
        )
    calibrator = artifact.answers
    calibrator.name = Path(args.artifact).name
    note(path)
    with CommandContext(args) as command:
        # All records are calibrated once before any is written.
        n_records = sum(1 for _ in _calibrated(path, calibrator, args, command))
        if output == "-":
            for _, record in _calibrated(path, calibrator, args, command):
                sys.stdout.buffer.write(_line(record))
        else:
            target = Path(output)
            check_output(target, force=args.force, inputs=[path])
            with new_file(target, force=args.force, inputs=[path]) as out:
                for _, record in _calibrated(path, calibrator, args, command):
                    out.write(_line(record))
        command.clear()
        _say_left_out(calibrator, command)
    if args.json:
        applied = AppliedBundle(
            bundle=path.name, output=output, n=n_records, ignored=0, counts={}
        )
        print_json(ApplyOutput(calcli_apply=1, results=[applied]).to_dict())
    elif output != "-":
        print_path(Path(output))
    return 0


def _calibrated(
    path: Path, calibrator: AnswerCalibrator, args: Any, command: CommandContext
) -> Iterator[Numbered]:
    """The records of a log with calibrated answers. Raises DataError."""
    for number, record in records(path):
        made = calibrator.calibrated(
            record,
            keeps_unknown=args.unknown == "keep",
            where=f"{path}: line {number}",
            again=args.again,
        )
        if number % LINES_BETWEEN == 0:
            command.progress("records", number, 0)
        yield number, made


def _say_left_out(calibrator: AnswerCalibrator, command: CommandContext) -> None:
    """Say of which questions no confidence is written."""
    names = []
    for name, answer_map in calibrator.questions.items():
        has_formula = answer_map.type == "yes/no" or answer_map.confidence is not None
        if not has_formula and not answer_map.is_identity:
            names.append(name)
    if names:
        listing = ", ".join(name[:60] for name in names[:6])
        command.say(
            f"{listing}: 'confidence' is left out, as the fit has not proven how it is"
            " computed from the distribution"
        )


def _line(record: Mapping[str, Any]) -> bytes:
    """A record as a line; characters that UTF-8 does not have stay escapes."""
    try:
        return (json.dumps(record, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(record) + "\n").encode()
