"""Write a calibrator for a serving stack: ONNX, torch, or a Python file.

What was written is run at once beside calcli apply; a difference above 1e-6 fails the
export, and nothing is written.

\b
calcli export logits.auto.json -o calibrator.onnx --check logits.h5:test
calcli export logits.auto.json -o calibrator.py

\f
It is run on random and extreme rows and on the bundle of --check. The Python file needs
NumPy only.

\b
calcli export logits.auto.json --onto classifier.onnx -o calibrated.onnx
calcli export logits.auto.json -o calibrator.pt2
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from calcli.cli import options as o
from calcli.cli.context import CommandContext
from calcli.errors import DataError, UsageError
from calcli.exporting.exporting import (
    TARGETS,
    Export,
    check,
    export,
    export_output,
    target_of,
)
from calcli.exporting.verify import TOLERANCE, Agreement, compare, moved_by_zeros
from calcli.importers.open_any_file import expand
from calcli.io.artifact import Artifact
from calcli.io.atomic import check_output, write_bytes
from calcli.io.dataset import DataSet
from calcli.io.question_artifact import MOST_LISTED, load, read_questions
from calcli.number_words import count, noun
from calcli.output import Output

TEMPERATURES = "temperatures"
"""Target that is a list: the temperature of each question of a log of decisions."""


class TemperaturesOutput(Output, kw_only=True):
    """The JSON of ``calcli export --to temperatures``: a temperature per question."""

    calcli_export: Literal[1]
    output: str
    to: Literal["temperatures"]
    temperatures: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class ExportArgs(o.Reading, o.OutputOptions):
    artifact: o.ArtifactPath
    output: Annotated[str, o.output("OUT", "File to write.")]
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="|".join((*TARGETS, TEMPERATURES)),
            help="What the calibrator is written for.",
            show_default="by the ending of OUT",
        ),
    ] = None
    onto: Annotated[
        str | None,
        typer.Option(
            "--onto",
            metavar="MODEL.onnx",
            help="Classifier to join it to; needs --to onnx.",
        ),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="OUTPUT",
            help="Output of MODEL.onnx with the scores, or a tensor inside.",
        ),
    ] = None
    check: Annotated[
        str | None,
        typer.Option(
            "--check", metavar="BUNDLE", help="Compare with apply on these rows, too."
        ),
    ] = None
    again: o.Again = False
    force: o.Force = False

    def __post_init__(self) -> None:
        # Frozen, but for its default.
        object.__setattr__(self, "to", _target(self.output, self.to))
        if self.output == "-":
            raise UsageError("-o -: expected the name of a file to write")

    @property
    def unused_options(self) -> dict[str, str]:
        return o.unused(
            (
                not self.check,
                " ".join(o.names_of(o.Reading)),
                "it says how the rows of --check are read",
            ),
            (
                self.to != "onnx",
                "onto",
                f"it joins ONNX graphs and needs --to onnx, got --to {self.to}",
            ),
            (
                self.onto is None,
                "at",
                "it names an output of --onto MODEL.onnx, which is missing",
            ),
        )


def checked_on(
    rows: DataSet, artifact: Artifact, made: Export, command: CommandContext
) -> Agreement:
    """Agreement of an export with ``apply`` on rows as they are stored.

    Their zeros count as those of the fit: an export sees no other rows that would show
    how they were rounded.
    """
    agreement = Agreement(0, 0.0, 0)
    for block in rows.blocks():
        command.progress("comparing with apply", block.start, rows.n)
        agreement += compare(made.run, artifact, block.scores, block.columns)
    return agreement


def zeros_warning(rows: DataSet, artifact: Artifact, checked: str) -> str | None:
    """Warning of rows whose zeros ``apply`` of the whole file counts otherwise.

    checked : name of the file. None where there are no such rows.
    """
    of_fit = artifact.calibrator.zeros
    of_rows = rows.zeros
    if of_fit is None or of_rows is None:
        return None
    n_rows = 0
    largest = 0.0
    for block in rows.blocks():
        moves = moved_by_zeros(artifact, block)
        n_rows += int((moves > TOLERANCE).sum())
        largest = max(largest, float(moves.max()))
    if not n_rows:
        return None
    return (
        f"--check {checked}: in {count(n_rows)} {noun(n_rows, 'row')} calcli apply"
        f" differs by up to {largest:.2g}. It sees that the file's probabilities were"
        f" rounded, a zero counts as {of_rows.counts_as}; an export sees one row at a"
        " time, a zero"
        f" counts as {of_fit.counts_as}, as in the fit. Fit to probabilities that"
        " were rounded alike"
    )


def _target(output: str, to: str | None) -> str:
    """What the calibrator is written for. Raises UsageError."""
    if to == TEMPERATURES:
        return TEMPERATURES
    return target_of(output, to)


def export_temperatures(args: ExportArgs) -> int:
    """Write the temperatures of a calibrator by question, {question: T}.

    Raises DataError for another calibrator, UsageError for maps that have none.
    """
    check_output(Path(args.output), force=args.force)
    by_question = read_questions(args.artifact)
    if by_question is None:
        load(args.artifact)  # refuses what is no calibrator
        raise DataError(
            f"{args.artifact}: --to temperatures is for calibrators by question,"
            " which calcli fit LOG writes"
        )
    temperatures = {}
    for name, entry in by_question.questions.items():
        if entry.method == "ts":
            temperatures[name] = entry.params["temperature"]
        elif entry.method == "identity":
            temperatures[name] = 1.0
    command = CommandContext(args)
    others = [name for name in by_question.questions if name not in temperatures]
    if others:
        command.warn(
            f"{', '.join(others)[:200]}: left out, a line with an intercept is no"
            " temperature; --to python holds it"
        )
    text = json.dumps(temperatures, ensure_ascii=False, indent=2) + "\n"
    write_bytes(Path(args.output), text, force=args.force)
    output = TemperaturesOutput(
        calcli_export=1,
        output=args.output,
        to="temperatures",
        temperatures=temperatures,
    )
    command.written(args.output, output.to_dict())
    return 0


def _of_one_question(args: ExportArgs, questions: Sequence[str]) -> DataError:
    """The error for all questions at once, with the command for each of the first."""
    output = Path(args.output)
    n = len(questions)
    commands = []
    taken: set[str] = set()
    for number, question in enumerate(questions[:MOST_LISTED]):
        word = re.sub(r"[^\w-]+", "-", question).strip("-")
        if not word or word in taken:
            word = f"{word}{number}"
        taken.add(word)
        target = output.with_name(f"{output.stem}.{word}{output.suffix}")
        command = ["calcli", "export", f"{args.artifact}:{question}"]
        command += ["--to", str(args.to), "-o", str(target)]
        commands.append([*command, *(["--force"] if args.force else [])])
    first = f"; of the first {MOST_LISTED}" if n > MOST_LISTED else ""
    problem = DataError(
        f"{args.artifact}: holds a calibrator for each of {n} {noun(n, 'question')}; an"
        f" export holds one{first}"
    )
    return problem.advising(*commands)


def run(args: ExportArgs) -> int:
    """Trace, write, load again and compare; the file is kept only if it agrees."""
    if args.to == TEMPERATURES:
        return export_temperatures(args)
    command = CommandContext(args)
    bundles = expand(args.check, args.where, args.ignored) if args.check else []
    check_output(Path(args.output), force=args.force)
    by_question = read_questions(args.artifact)
    if by_question is not None:
        raise _of_one_question(args, list(by_question.questions))
    artifact = load(args.artifact)
    made = export(artifact, str(args.to), args.onto, args.at, name=args.artifact)
    for note in made.notes:
        command.warn(note)
    agreement = made.agreement
    if args.check:
        classes = artifact.class_names
        with command.rows(bundles, need_labels=False, known_classes=classes) as rows:
            command.check_fits(artifact, args.artifact, rows)
            if rows.kind != artifact.input_kind:
                raise UsageError(
                    f"--check {args.check}: holds {rows.kind}, the export takes"
                    f" {artifact.input_kind}"
                )
            checked = checked_on(rows, artifact, made, command)
            if not checked.holds and made.input_type == "float32" and not args.onto:
                # What tells rows apart may be lost in float32.
                made = export(artifact, str(args.to), name=args.artifact, wide=True)
                checked = checked_on(rows, artifact, made, command)
                command.warn(
                    f"--check {args.check}: the export takes float64, since float32"
                    " would calibrate these scores otherwise"
                )
            agreement = made.agreement + checked
            of_zeros = zeros_warning(rows, artifact, args.check)
            if of_zeros is not None:
                command.warn(of_zeros)
        command.clear()
    check(agreement, args.output)
    write_bytes(Path(args.output), made.data, force=args.force)
    output = export_output(args.output, str(args.to), artifact, made, agreement)
    command.written(args.output, output.to_dict())
    command.say(_export_sentence(args, artifact, made, agreement))
    return 0


def _export_sentence(
    args: ExportArgs, artifact: Artifact, made: Export, agreement: Agreement
) -> str:
    """What was written: its inputs, and how well it agrees with apply."""
    sentence = f"opset {made.opset}, " if made.opset else ""
    if made.scores:
        sentence += f"calibrates output {made.scores!r} as {artifact.input_kind}, "
    sentence += f"takes {artifact.input_kind} of {artifact.n_classes} classes"
    if not made.scores and args.to != "python":
        sentence += f" in {made.input_type}"
    for column in artifact.calibrator.required_columns:
        sentence += f" and the place of {column!r} among the groups"
    sentence += (
        f"; on {agreement.rows} {noun(agreement.rows, 'row')} the largest difference"
        f" to apply is {agreement.difference:.1e}, no prediction differs"
    )
    if agreement.on_jumps:
        sentence += (
            "; where the last bit decides, on the edge of a step:"
            f" {agreement.on_jumps} {noun(agreement.on_jumps, 'row')}"
        )
    return sentence
