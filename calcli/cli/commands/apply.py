"""Write calibrated bundles: probabilities, predictions, confidences.

Rows are streamed. Labels, ids and other columns are carried over.

\b
calcli apply logits.auto.json logits.h5:test -o calibrated.h5
calcli apply logits.auto.json monday.h5 tuesday.h5 -o calibrated/

\f
The artifact goes along as the attribute "calibrator". Scores keep the input's precision.
OUT's ending says the format; all of them can be read again by calcli extract.

\b
calcli apply logits.auto.json logits.h5:test -o - --format csv | head
calcli fit --method ec logits.h5 -o - | calcli apply - logits.h5:test -o out.h5
"""

import json
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from calcli.cli import options as o
from calcli.cli.apply_output import AppliedBundle, ApplyOutput
from calcli.cli.context import CommandContext
from calcli.cli.decision_logs.apply import apply_log
from calcli.cli.decision_logs.fit import is_whole_log
from calcli.cli.output_columns import columns_of_roles, output_columns
from calcli.cli.render import print_json, print_path
from calcli.cli.resumable import Shard, made
from calcli.errors import CalcliError, DataError, UsageError, check_choice
from calcli.fitting.apply import Calibrated, calibrated_blocks
from calcli.fitting.rows_of_fit import fitted_on
from calcli.importers.open_any_file import probe_all
from calcli.io.artifact import Artifact, dumps, is_artifact
from calcli.io.atomic import check_output, make_folder, refuse_input
from calcli.io.bundle import BundleRows, open_bundle
from calcli.io.bundle_group import OWN_NAMES
from calcli.io.inputs import read_document
from calcli.io.locate import split_where
from calcli.io.option_columns import COLUMNS, OPTIONS, padded_for_files
from calcli.io.provenance import chain_text, identity, link_to
from calcli.io.question_artifact import load, read_questions
from calcli.io.score_files import FORMATS, Place, format_of, names_format
from calcli.io.score_sheet import Sheet, SheetScores, Slab
from calcli.io.validate import doubts, score_kind
from calcli.items import duplicates
from calcli.records import cached_property
from calcli.rows import SCORE_KINDS, ScoreKind


@dataclass(frozen=True, kw_only=True)
class ApplyArgs(o.ReadingSeveral, o.WorkerOptions, o.OutputOptions):
    FOLDERS: ClassVar[bool] = True

    artifact: o.ArtifactPath
    output: Annotated[
        str,
        o.output(
            "OUT",
            f"File to write: .{', .'.join(FORMATS)} by its ending; a folder for"
            " several bundles; - for a pipe, with --format.",
        ),
    ]
    bundles: Annotated[
        list[str] | None,
        o.bundles(
            "FILE.h5 or FILE.h5:GROUP; group test when none is named. Labels are not"
            " needed."
        ),
    ] = None
    as_: Annotated[
        str,
        typer.Option("--as", metavar="probs|log_probs|logits", help="What to write."),
    ] = "probs"
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="|".join(FORMATS),
            help="How it is written.",
            show_default="OUT's ending",
            rich_help_panel="Output",
        ),
    ] = None
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="FILE|NUMBER",
            help="Mark rows of at least this confidence in a column accepted; FILE is"
            " from calcli threshold.",
        ),
    ] = None
    unknown: Annotated[
        str,
        typer.Option(
            "--unknown",
            metavar="error|keep",
            help="Of a log of decisions: questions that the calibrator does not know.",
        ),
    ] = "error"
    again: o.Again = False
    force: o.Force = False

    def __post_init__(self) -> None:
        check_choice("--as", self.as_, SCORE_KINDS)
        check_choice("--unknown", self.unknown, ("error", "keep"))
        n_bundles = 1 if self.is_log else len(self.expanded)
        if self.output == "-" and (self.json or n_bundles > 1):
            raise UsageError(
                "-o -: standard output takes the scores of one bundle, and no --json"
                " beside them"
            )

    @cached_property
    def is_log(self) -> bool:
        """True for a log of decisions, as a whole."""
        return is_whole_log(self.given, self.where)


# ---- the work on one bundle, in this process or in a worker


WORDS = {
    "argmax_conflicts": (
        "the prediction is kept, but another class now has a larger probability"
    ),
    "float16_zeros": (
        "a probability below 3e-8 is 0 in the input's float16; --as log_probs keeps it"
    ),
}
"""Count -> explanation, where its name says too little."""


def apply_one(
    command: CommandContext,
    artifact: Artifact,
    bundle: str,
    target: Path,
    least: float | None,
) -> AppliedBundle:
    """Write the calibrated rows of one bundle.

    least : confidence from which rows are accepted, None for no such column.
    """
    args: ApplyArgs = command.args
    place = Place(None if args.output == "-" else target, args.force)
    form = format_of(place.path, args.form)
    if place.path is not None:
        check_output(target, force=args.force)
    classes = artifact.class_names
    with command.rows([bundle], need_labels=False, known_classes=classes) as rows:
        assert isinstance(rows, BundleRows)  # a single bundle is never pooled
        rows.hashed = rows.n == artifact.fit.n  # they may be those of the fit
        command.check_fits(artifact, args.artifact, rows)
        kind = _kind_to_write(args.as_, rows, form.name)
        name = "<stdin>" if args.artifact == "-" else args.artifact
        sheet = _sheet(rows, artifact, name, kind)
        calibrator = artifact.calibrator
        transforms = rows.places_of(calibrator.required_transforms, rows.name)
        blocks = calibrated_blocks(calibrator, rows, kind, transforms, rows.dtype)
        counts = Counter[str]()
        slabs = _slabs(command, rows, blocks, kind, least, counts)
        form.write(sheet, slabs, place)
        command.clear()
        for doubt in doubts(rows):
            command.warn(f"{rows.name}: {doubt}")
        for event, count in sorted(counts.items()):
            if count:
                words = WORDS.get(event, event.replace("_", " "))
                command.say(f"{rows.name}: {count} of {rows.n} rows: {words}")
        return AppliedBundle(
            bundle=rows.name,
            output=str(target),
            n=rows.n,
            ignored=rows.ignored,
            counts=dict(counts),
        )


def _kind_to_write(as_: str, rows: BundleRows, form: str) -> ScoreKind:
    """The kind of the calibrated scores. as_ : of ``--as``. form : of the output.

    Raises UsageError for a kind that the rows or the output cannot have.
    """
    if rows.kind == "confidence":
        if as_ != "probs":
            raise UsageError(
                f"--as {as_}: {rows.name} holds confidences, which are calibrated as"
                " such"
            )
        return "confidence"
    kind = score_kind(as_)
    if rows.n_options is not None and kind != "probs" and form != "h5":
        raise UsageError(
            f"--as {as_}: columns of {rows.name} are options of the row, and {form}"
            " keeps no -inf for those that a row lacks; write .h5, or probs"
        )
    return kind


def _slabs(
    command: CommandContext,
    rows: BundleRows,
    blocks: Iterable[Calibrated],
    kind: ScoreKind,
    least: float | None,
    counts: "Counter[str]",
) -> Iterator[Slab]:
    """Yield slabs of calibrated rows; adds to ``counts``.

    least : as for ``apply_one``.
    """
    has_float16_probs = rows.dtype.itemsize == 2 and kind == "probs"
    n_options = rows.n_options_kept
    for start, scores, per_row, counts_of_block in blocks:
        stop = start + len(scores)
        if least is not None:
            confidence = scores if kind == "confidence" else per_row["confidence"]
            per_row["accepted"] = confidence >= least
            counts["accepted"] += int(per_row["accepted"].sum())
        if has_float16_probs:
            n_zeros = int((scores <= 2.0**-25).any(axis=1).sum())
            counts_of_block = {**counts_of_block, "float16_zeros": n_zeros}
        if n_options is not None and kind != "confidence":
            scores = padded_for_files(scores, n_options[start:stop], kind)
        yield start, scores, per_row
        counts.update(counts_of_block)
        command.progress("applying", stop, rows.n)


def _sheet(rows: BundleRows, artifact: Artifact, name: str, kind: ScoreKind) -> Sheet:
    """Everything that the output holds except scores.

    name : path of the artifact, as typed.
    """
    has_classes = kind != "confidence"
    class_names = None
    if has_classes:
        class_names = rows.class_names or artifact.class_names
    scores = SheetScores(
        n=rows.n,
        k=rows.k if has_classes else 0,
        kind=kind,
        dtype=rows.dtype,
        class_names=class_names,
    )
    by_role = columns_of_roles(rows)
    names_of_roles = {role: list(columns) for role, columns in by_role.items()}
    zeros = rows.zeros
    if zeros is not None and not zeros.is_rounded:
        zeros = None
    source = {
        "bundle": rows.name,
        "calibrator": name,
        "method": artifact.method,
        "from": rows.source,
    }
    return Sheet(
        scores=scores,
        columns=output_columns(rows, scores, by_role),
        has_labels=rows.has_labels and has_classes,
        label_name=rows.own_name("labels"),
        source=source,
        attributes=cache(partial(_attributes, rows, artifact, names_of_roles)),
        zeros=zeros,
    )


def _attributes(
    rows: BundleRows, artifact: Artifact, names_of_roles: Mapping[str, list[str]]
) -> dict[str, str]:
    """Attributes of the output: where it comes from, and what is odd about it.

    names_of_roles : names of the columns of a role in the source.
    """
    link = link_to(artifact, fitted_on(artifact, rows))
    attributes = {
        "calibrator": dumps(artifact),
        "calibrated_by": chain_text([*rows.upstream, link]),
    }
    own_names = {**names_of_roles, "labels": [rows.own_name("labels")]}
    renamed = {}
    for role, names in own_names.items():
        if names != [role]:
            renamed[role] = names
    if renamed:
        attributes[OWN_NAMES] = json.dumps(renamed, sort_keys=True)
    if rows.corrupted_labels is not None:
        attributes["corrupted_labels"] = rows.corrupted_labels
    if rows.ordered:
        attributes["ordered"] = "1"
    if rows.n_options is not None:
        attributes[COLUMNS] = OPTIONS
    return attributes


# ---- the command


def _refuse_swapped(args: ApplyArgs) -> None:
    """Refuse scores and calibrator in the wrong order. Raises UsageError."""
    bundles = args.bundles or []
    if len(bundles) != 1 or args.artifact.endswith(".json"):
        return
    bundle = bundles[0]
    if bundle.endswith(".json") and is_artifact(bundle):
        command = ["calcli", "apply", bundle, args.artifact, "-o", args.output]
        raise UsageError(
            f"{bundle}: is the calibrator, which comes first: {shlex.join(command)}"
        )


def _least_confidence(args: ApplyArgs, artifact: Artifact) -> float | None:
    """Lowest confidence that is accepted (``--threshold``); None where all are."""
    if args.threshold is None:
        return None
    question = None
    if len(args.expanded) == 1:
        question = split_where(args.expanded[0])[1]
    return read_threshold(args.threshold, artifact, question)


def _refuse_linked_inputs(args: ApplyArgs, targets: Sequence[Path]) -> None:
    """Refuse outputs that are files to which a bundle's links lead.

    Opening a bundle notes those files; its errors are reported later.
    """
    options = {"prefer": ("test",), "need_labels": False, **args.opening}
    for bundle in args.expanded:
        with suppress(CalcliError), open_bundle(bundle, **options):
            pass
    for target in targets:
        refuse_input(target)


def run(args: ApplyArgs) -> int:
    """Apply one artifact to every bundle.

    Of several, one that fails does not stop the others.
    """
    _refuse_swapped(args)
    if args.is_log:
        by_question = read_questions(args.artifact)
        if by_question is not None:
            return apply_log(args, by_question)
    artifact = load(args.artifact)
    least = _least_confidence(args, artifact)
    done: list[AppliedBundle] = []
    new_folder = not os.path.exists(args.output)
    targets = _targets(args)
    probe_all(args.expanded)
    if len(targets) > 1 and any(map(os.path.exists, targets)):
        _refuse_linked_inputs(args, targets)
    try:
        with CommandContext(args) as command:
            shards = _shards(command, artifact, targets, least)
            calls = made(shards, command, args.output)
            for target, applied in zip(targets, calls, strict=True):
                with command.trying(several=len(targets) > 1):
                    done.append(replace(applied(), output=str(target)))
                    if not args.json and args.output != "-":
                        print_path(target)
    finally:
        if new_folder and not done:
            with suppress(OSError):  # somebody else may have put something there
                Path(args.output).rmdir()
    if args.json:
        print_json(ApplyOutput(calcli_apply=1, results=done).to_dict())
    return command.code


def _shards(
    command: CommandContext,
    artifact: Artifact,
    targets: Sequence[Path],
    least: float | None,
) -> list[Shard]:
    """One shard per bundle.

    Workers get whole bundles if there are several, and ranges of rows of a single one.
    """
    args: ApplyArgs = command.args
    bundles = args.expanded
    executor = command.executor
    if executor is not None and executor.remote and len(targets) > 1:
        targets = [Path(os.path.abspath(target)) for target in targets]
    asked = (
        dumps(artifact),
        args.artifact,
        args.as_,
        args.form,
        least,
        args.where,
        args.ignored,
        args.again,
    )
    shards = []
    for bundle, target in zip(bundles, targets, strict=True):
        work = partial(
            apply_one, artifact=artifact, least=least, bundle=bundle, target=target
        )
        shards.append(Shard(bundle, target, work, args, (bundle, asked), (bundle,)))
    return shards


def _targets(args: ApplyArgs) -> list[Path]:
    """Output path of each bundle: the output itself, or files in that folder named
    after the bundles.
    """
    folder = Path(args.output)
    is_folder = os.path.isdir(folder) or args.output.endswith("/")
    if len(args.expanded) == 1 and not is_folder:
        return [folder]
    ending = format_of(Path("any.h5"), args.form).name
    targets = []
    for bundle in args.expanded:
        path, group = split_where(bundle)
        stem = path.stem
        if group:
            stem += "." + group.replace("/", ".")
        targets.append(folder / f"{stem}.{ending}")
    written_twice = duplicates(targets)
    if written_twice:
        raise UsageError(
            f"two bundles would be written to {written_twice[0]}; apply them one by one"
        )
    names_file = names_format(folder) and not args.output.endswith("/")
    is_file = os.path.exists(folder) or names_file
    if is_file and not os.path.isdir(folder):
        number = len(args.expanded)
        raise UsageError(
            f"{args.output}: is a file, expected a folder for {number} bundles"
            " (--format says how)"
        )
    make_folder(folder)
    return targets


def read_threshold(text: str, artifact: Artifact, question: str | None = None) -> float:
    """Read a threshold on confidence: a number, or a file that calcli threshold wrote
    for this calibrator.

    question : of the rows, whose threshold a file by question holds.
    """
    with suppress(ValueError):
        least = float(text)
        if 0 <= least <= 1:
            return least
        raise UsageError(
            f"--threshold {text}: expected a confidence from 0 to 1, or a file of"
            " calcli threshold"
        )
    try:
        what = "a number or a file of calcli threshold"
        content = json.loads(read_document(text, 1 << 24, what))
        if "questions" in content:
            content = _of_question(content["questions"], question, text)
        least = content["threshold"]
        chosen_with = content["calibrator_sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(
            f"{text}: is neither a number nor a file of calcli threshold"
        ) from None
    if type(least) not in (float, int) or not 0 <= least <= 1:
        raise DataError(
            f"{text}: holds no threshold (no confidence satisfied its bound)"
        )
    if chosen_with != identity(artifact):
        other = "another calibrator" if chosen_with else "uncalibrated scores"
        raise DataError(
            f"{text}: was chosen for {other}; run calcli threshold with this calibrator"
        )
    return least


def _of_question(
    questions: Mapping[str, Any], question: str | None, where: str
) -> dict[str, Any]:
    """Threshold of a question in a file that has one for each. Raises DataError."""
    if question is None or question not in questions:
        names = ", ".join(map(str, list(questions)[:5]))
        raise DataError(
            f"{where}: has a threshold for each question ({names}); apply them to one"
            " question at a time, LOG:QUESTION"
        )
    return dict(questions[question])
