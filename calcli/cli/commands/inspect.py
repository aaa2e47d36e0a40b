"""Show what a file of scores or a calibrator holds, and check all of it.

Every file that calcli evaluate reads is described: what was read as what, sizes, classes,
and what is odd.

\b
calcli inspect scores.npz
calcli inspect logits.auto.json

\f
\b
calcli inspect logits.h5:test --json
"""

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from msgspec import UNSET, Meta, UnsetType

from calcli.block import PADDING, Block
from calcli.cli import options as o
from calcli.cli.render import (
    Table,
    plain,
    print_json,
    print_line,
    print_sentence,
    print_table,
    width_of_output,
    wrapped,
)
from calcli.errors import CalcliError, DataError
from calcli.importers.evidence.looks import looks_like
from calcli.importers.formats import open_table
from calcli.importers.names.array_names import parse_names, real_names
from calcli.importers.open_any_file import expand, importing_once, open_rows
from calcli.importers.source_file import SourceFile
from calcli.importers.sources import settle_sources
from calcli.importers.table import unite
from calcli.io.artifact import Artifact, FitRecord, Link, load
from calcli.io.artifact_params import encode_params
from calcli.io.bundle import BundleRows
from calcli.io.locate import split_where
from calcli.io.question_artifact import QuestionsArtifact, read_questions
from calcli.io.validate import doubts
from calcli.items import are_all, has_any
from calcli.logits import ClassScoreKind
from calcli.output import Count, Number, Output, Proportion, one_of
from calcli.records import JsonObject, cached_property

LONGEST_WORD = 200
"""Characters of a text without a blank that are printed in full.

Longer ones are base64.
"""


class ClassSizes(Output, kw_only=True):
    """Rows of the classes."""

    min: Count
    median: float
    max: Count


class ColumnOutput(Output, kw_only=True):
    """Units or groups of the rows. largest : rows of the largest one."""

    name: str
    n: Annotated[int, Meta(ge=1)]
    largest: Annotated[int, Meta(ge=1)]


Ordered = Annotated[bool, Meta(extra_json_schema={"const": True})]
"""True, or left out."""


class ScoresOutput(Output, kw_only=True):
    """A bundle of scores.

    min, max : of the scores. tied_rows : in which two classes are the most likely.
    rows_per_class, absent_classes : where the rows have labels.
    """

    bundle: str
    kind: ClassScoreKind
    n: Count
    n_classes: Count
    dtype: str
    ignored: Count
    min: Number
    max: Number
    tied_rows: Count
    labels: bool
    weights: bool
    class_names: list[str] | None
    transforms: list[str]
    data_sha256: str | None
    calibrated_by: list[Link]
    source: Any
    corrupted_labels: str | None
    warnings: list[str]
    ordered: Ordered | UnsetType = UNSET
    units: ColumnOutput | UnsetType = UNSET
    groups: ColumnOutput | UnsetType = UNSET
    rows_per_class: ClassSizes | UnsetType = UNSET
    absent_classes: list[int] | UnsetType = UNSET


class ConfidencesOutput(Output, kw_only=True):
    """A bundle of confidences. correct : is it known which answers are right?"""

    bundle: str
    kind: Literal["confidence"]
    n: Count
    n_classes: None
    dtype: str
    ignored: Count
    min: Number
    max: Number
    weights: bool
    data_sha256: str | None
    calibrated_by: list[Link]
    source: Any
    corrupted_labels: str | None
    warnings: list[str]
    ordered: Ordered | UnsetType = UNSET
    units: ColumnOutput | UnsetType = UNSET
    groups: ColumnOutput | UnsetType = UNSET
    correct: bool
    mean_confidence: Proportion
    accuracy: Proportion | UnsetType = UNSET


class BundlesOutput(Output, kw_only=True):
    """The JSON of ``calcli inspect`` of a file of scores."""

    calcli_inspect: Literal[1]
    file: str
    notes: list[str] | UnsetType = UNSET
    bundles: list[Annotated[Any, one_of(ScoresOutput, ConfidencesOutput)]]


class ArtifactOutput(Output, kw_only=True):
    """A calibrator; long parameters are described. n_classes : null of confidences."""

    method: str
    options: JsonObject
    params: JsonObject
    n_classes: Count | None
    input_kind: str
    class_names: list[str] | None
    calcli_version: str
    fit: FitRecord


class QuestionMapOutput(Output, kw_only=True):
    """The calibrator of a question. confidence : formula of the log's own field."""

    type: str
    method: str
    params: JsonObject
    n_classes: Count | None
    confidence: str | None
    n: Count


class QuestionsArtifactOutput(Output, kw_only=True):
    """A calibrator of a log of decisions."""

    method: str
    questions: dict[str, QuestionMapOutput]
    calcli_version: str
    sha256: str
    fit: FitRecord


class CalibratorOutput(Output, kw_only=True):
    """The JSON of ``calcli inspect`` of a calibrator."""

    calcli_inspect: Literal[1]
    file: str
    artifact: Annotated[Any, one_of(ArtifactOutput, QuestionsArtifactOutput)]


InspectOutput = Annotated[Any, one_of(BundlesOutput, CalibratorOutput)]


@dataclass(frozen=True, kw_only=True)
class InspectArgs(o.Reading):
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="File of scores (FILE or FILE:GROUP) or artifact (JSON), - for stdin.",
        ),
    ]
    json: o.Json = False

    @cached_property
    def artifact(self) -> bool:
        """True if the file begins as JSON that calcli has written, so that it is read
        as an artifact.
        """
        if split_where(self.file)[1] is not None:
            return False
        # Its reader reports what is wrong with it.
        with suppress(DataError), ExitStack() as stack:
            source = SourceFile(settle_sources([Path(self.file)], stack).files[0])
            return source.is_json and b'"calcli_' in source.head
        return False

    @property
    def unused_options(self) -> dict[str, str]:
        why = f"{self.file} is read as an artifact, it says how bundles are read"
        return o.unused((self.artifact, " ".join(o.names_of(o.Reading)), why))


def run(args: InspectArgs) -> int:
    """Describe the file, as text or as JSON."""
    try:
        output = _calibrator(args.file) if args.artifact else _bundles(args)
    except CalcliError as problem:
        if args.artifact or "; it has " not in str(problem):
            raise
        if not args.json:
            _list_arrays(split_where(args.file)[0])
        commands = list(problem.commands)
        if commands:
            commands.append(("calcli", "inspect", commands[-1][-1]))
        raise problem.advising(*commands) from None
    content = output.to_dict()
    if args.json:
        print_json(content)
        return 0
    for note in content.get("notes", ()):
        print_sentence(note)
    for facts in content.get("bundles", [content.get("artifact")]):
        _print_facts(facts)
    return 0


def _calibrator(file: str) -> CalibratorOutput:
    by_question = read_questions(file)
    if by_question is not None:
        return CalibratorOutput(
            calcli_inspect=1, file=file, artifact=_by_question(by_question)
        )
    with ExitStack() as stack:  # keeps standard input, whose beginning was read before
        settled = settle_sources([Path(file)], stack)
        try:
            artifact = load(str(settled.files[0]))
        except DataError as problem:
            raise DataError(settled.translated(str(problem))) from None
    n_classes = None
    if artifact.input_kind != "confidence":
        n_classes = artifact.n_classes
    output = ArtifactOutput(
        method=artifact.method,
        options=artifact.options,
        params=_shown_params(artifact),
        n_classes=n_classes,
        input_kind=artifact.input_kind,
        class_names=artifact.class_names,
        calcli_version=artifact.calcli_version,
        fit=artifact.fit,
    )
    return CalibratorOutput(calcli_inspect=1, file=file, artifact=output)


def _shown_params(artifact: Artifact) -> dict[str, Any]:
    """Parameters of a calibrator; long ones are described."""
    params = encode_params(artifact.calibrator)
    for name, value in params.items():
        if isinstance(value, dict) and "base64" in value:
            params[name] = f"{value['dtype']} {tuple(value['shape'])}"
        elif isinstance(value, list) and len(str(value)) > 200:
            params[name] = f"list of {len(value)}"
    return params


def _by_question(artifact: QuestionsArtifact) -> QuestionsArtifactOutput:
    """What a calibrator by question holds: a line for each question."""
    questions = {}
    for name, entry in artifact.questions.items():
        questions[name] = QuestionMapOutput(
            type=entry.type,
            method=entry.method,
            params=entry.params,
            n_classes=entry.n_classes,
            confidence=entry.confidence,
            n=entry.fit.n,
        )
    return QuestionsArtifactOutput(
        method=artifact.method,
        questions=questions,
        calcli_version=artifact.calcli_version,
        sha256=artifact.answers.sha256,
        fit=artifact.fit,
    )


def _bundles(args: InspectArgs) -> BundlesOutput:
    path, group = split_where(args.file)
    name = args.file
    if group is None and args.scores is None:
        name = f"{path}:*"
    bundles = []
    notes: list[str] = []
    with importing_once():
        for bundle in expand(name, args.where, args.ignored):
            with open_rows(
                bundle, tell=notes.append, need_labels=False, **args.opening
            ) as rows:
                bundles.append(_bundle(rows))
    return BundlesOutput(
        calcli_inspect=1, file=args.file, notes=notes or UNSET, bundles=bundles
    )


def _list_arrays(path: Path) -> None:
    """Print the arrays of a file that is no bundle without more options."""
    table = []
    with suppress(CalcliError), ExitStack() as stack:
        files = settle_sources([path], stack).files
        entries = unite([open_table(file, stack) for file in files])
        for name in real_names(parse_names(entries)):
            array = entries[name].load()
            look = looks_like(name, entries[name])
            shape = " x ".join(map(str, getattr(array, "shape", ()))) or "1"
            dtype = str(getattr(array, "dtype", ""))
            table.append([plain(name), shape, dtype, f"{look}?" if look else ""])
    _print_table(["array", "shape", "type", "looks like"], table)


@dataclass
class _Extremes:
    """Smallest and largest score, and rows with a tie or with the value 1.

    Padding after the options of a row is no score.
    """

    low: float = np.inf
    high: float = -np.inf
    tied_rows: int = 0
    sure_rows: int = 0

    def add(self, block: Block) -> None:
        """Count a block of rows."""
        scores = block.scores
        of_options = scores[scores != PADDING] if block.of_options else scores
        self.low = min(self.low, float(of_options.min()))
        self.high = max(self.high, float(scores.max()))
        if block.kind == "confidence":
            self.sure_rows += int((scores == 1).sum())
            return
        is_largest = block.z == block.z.max(axis=1, keepdims=True)
        self.tied_rows += int((is_largest.sum(axis=1) > 1).sum())
        if block.kind == "probs":
            self.sure_rows += int((scores.max(axis=1) >= 1).sum())


def _bundle(rows: BundleRows) -> ScoresOutput | ConfidencesOutput:
    """What a bundle holds, and what is odd; walks over all of its rows."""
    extremes = _Extremes()
    for block in rows.blocks():
        extremes.add(block)
    for transform in range(len(rows.transforms)):
        for _ in rows.blocks([transform]):
            pass  # a complete pass checks every row
    if rows.kind == "confidence":
        return _confidences(rows, extremes)
    return _scores(rows, extremes)


def _scores(rows: BundleRows, extremes: _Extremes) -> ScoresOutput:
    rows_per_class: ClassSizes | UnsetType = UNSET
    absent_classes: list[int] | UnsetType = UNSET
    if rows.has_labels:
        counts = np.bincount(rows.labels(), minlength=rows.k)
        rows_per_class = ClassSizes(
            min=int(counts.min()),
            median=float(np.median(counts)),
            max=int(counts.max()),
        )
        absent_classes = np.flatnonzero(counts == 0).tolist()
    warnings = _warnings_of_weights(rows)
    warnings += doubts(rows)
    if extremes.sure_rows:
        warnings.append(
            f"{extremes.sure_rows} rows give their class probability 1: rounding has"
            " removed information"
        )
    assert rows.kind != "confidence"
    return ScoresOutput(
        bundle=rows.name,
        kind=rows.kind,
        n=rows.n,
        n_classes=rows.k,
        dtype=str(rows.dtype),
        ignored=rows.ignored,
        min=extremes.low,
        max=extremes.high,
        tied_rows=extremes.tied_rows,
        labels=rows.has_labels,
        weights=rows.given_weights is not None,
        class_names=rows.class_names,
        transforms=list(rows.transforms),
        data_sha256=rows.data_sha256,
        calibrated_by=list(rows.upstream),
        source=rows.source,
        corrupted_labels=rows.corrupted_labels,
        warnings=warnings,
        ordered=rows.ordered or UNSET,
        units=_column(rows, "unit"),
        groups=_column(rows, "group"),
        rows_per_class=rows_per_class,
        absent_classes=absent_classes,
    )


def _confidences(rows: BundleRows, extremes: _Extremes) -> ConfidencesOutput:
    accuracy: float | UnsetType = UNSET
    if rows.has_labels:
        accuracy = float(rows.labels().mean())
    warnings = _warnings_of_weights(rows)
    if extremes.sure_rows:
        warnings.append(
            f"{extremes.sure_rows} confidences are 1, which have no log-odds:"
            " venn-abers takes them"
        )
    return ConfidencesOutput(
        bundle=rows.name,
        kind="confidence",
        n=rows.n,
        n_classes=None,
        dtype=str(rows.dtype),
        ignored=rows.ignored,
        min=extremes.low,
        max=extremes.high,
        weights=rows.given_weights is not None,
        data_sha256=rows.data_sha256,
        calibrated_by=list(rows.upstream),
        source=rows.source,
        corrupted_labels=rows.corrupted_labels,
        warnings=warnings,
        ordered=rows.ordered or UNSET,
        units=_column(rows, "unit"),
        groups=_column(rows, "group"),
        correct=rows.has_labels,
        mean_confidence=float(rows.array().mean(dtype=np.float64)),
        accuracy=accuracy,
    )


def _warnings_of_weights(rows: BundleRows) -> list[str]:
    if rows.has_zero_weights_only:
        return ["all weights are 0: no row counts"]
    return []


def _column(rows: BundleRows, role: str) -> ColumnOutput | UnsetType:
    """Units or groups of the rows, if they have any."""
    values = rows.column(role)
    if values is None:
        return UNSET
    sizes = np.unique(values, return_counts=True)[1]
    return ColumnOutput(
        name=rows.own_name(role), n=len(sizes), largest=int(sizes.max())
    )


def _print_facts(facts: dict[str, Any], indent: str = "") -> None:
    """Print facts by name, nested ones beneath theirs."""
    width = max((len(plain(name)) for name in facts), default=0)
    for name, value in facts.items():
        if _is_nested(value):
            print_line(f"{indent}{name}:")
            _print_facts(value, indent + "  ")
        elif _is_table(value):
            print_line(f"{indent}{name}:")
            _print_rows(value)
        elif name == "warnings":
            for warning in value:
                print_sentence(f"{indent}warning: {warning}")
        else:
            shown = plain(name).replace("_", " ").ljust(width)
            _print_fact(f"{indent}{shown}  ", _words(value))


def _print_fact(name: str, value: str) -> None:
    """Print a fact, its further lines below the first word of its value.

    Where a word is too long for that, such as a hash, they begin further left.
    """
    hanging = " " * len(name)
    longest = max(map(len, value.split()), default=0)
    if len(hanging) + longest > width_of_output():
        hanging = "    "
    for line in wrapped(name + value, hanging=hanging):
        print_line(line)


def _is_nested(value: Any) -> bool:
    """True for a dictionary with lists or dictionaries in it."""
    if not isinstance(value, dict):
        return False
    return has_any(dict | list, value.values())


def _is_table(value: Any) -> bool:
    """True for several dictionaries."""
    if not isinstance(value, list) or len(value) < 2:
        return False
    return are_all(dict, value)


def _print_rows(rows: list[dict[str, Any]]) -> None:
    """Print dictionaries as a table, a column per key."""
    keys = list(dict.fromkeys(chain.from_iterable(rows)))
    body = []
    for row in rows:
        body.append([_words(row.get(key)) for key in keys])
    _print_table([key.replace("_", " ") for key in keys], body)


def _print_table(head: list[str], body: list[list[str]]) -> None:
    """Print a table; where it is too wide, every row as a sentence."""
    if Table(head, body).width <= width_of_output():
        print_table(head, body)
        return
    for row in body:
        named = zip(head, row, strict=True)
        print_sentence(", ".join(f"{name} {cell}" for name, cell in named if cell))


def _words(value: Any) -> str:
    """Format a value for people: numbers in six digits, long lists and texts without a
    blank cut.
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        parts = []
        for name, part in value.items():
            parts.append(f"{name.replace('_', ' ')} {_words(part)}")
        return ", ".join(parts) or "none"
    if isinstance(value, list):
        shown = ", ".join(map(_words, value[:12]))
        if len(value) > 12:
            return f"{shown}, … ({len(value)})"
        return shown or "none"
    text = str(value)
    if len(text) > LONGEST_WORD and " " not in text:
        return f"{text[:24]}… ({len(text)} characters)"
    return text
