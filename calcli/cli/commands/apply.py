"""Write calibrated bundles: probabilities, predictions, confidences.

Rows are streamed. Labels, ids and class names are carried over, and the artifact
goes along as the attribute "calibrator". Scores keep the input's precision.
OUT's ending says the format; all of them can be read again by calcli extract.

\b
calcli apply logits.ts.json logits.h5:test -o calibrated.h5
calcli apply logits.ts.json monday.h5 tuesday.h5 -o calibrated/
calcli apply logits.ts.json logits.h5:test -o - --format csv | head
calcli fit --method ec logits.h5 -o - | calcli apply - logits.h5:test -o out.h5
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from calcli.cli import options as o
from calcli.cli.render import Talk, fail, print_json
from calcli.errors import CalcliError, DataError, UsageError
from calcli.importers.direct import open_rows
from calcli.io.artifact import Artifact, dumps, load
from calcli.io.atomic import check_output, make_folder
from calcli.io.bundle import BundleRows
from calcli.io.inputs import read_document
from calcli.io.locate import split_where
from calcli.io.provenance import chain_text, link_to
from calcli.io.score_files import Place, Sheet, Slab, format_of
from calcli.io.validate import score_kind
from calcli.rows import SCORE_KINDS
from calcli.workflow import calibrated_blocks, check_fits, checked_transforms

ORDER = 30
LARGEST_THRESHOLD = 1 << 24
"""Bytes of a file of calcli threshold."""


@dataclass(frozen=True)
class ApplyArgs(o.ReadingSeveral, o.Saying):
    """What was typed after ``calcli apply``."""

    artifact: Annotated[str, typer.Argument(metavar="ART.json", help="Artifact written by calcli fit, - for stdin.")]
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="File to write: .h5, .npz, .csv, .jsonl or .parquet by its ending; a folder for several bundles;"
            " - for a pipe, with --format.",
        ),
    ]
    bundles: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BUNDLE…",
            help="FILE.h5 or FILE.h5:GROUP; group test when none is named. Labels are not needed."
            " Quoted patterns are expanded.",
            show_default=False,
        ),
    ] = None
    as_: Annotated[
        str, typer.Option("--as", metavar="probs|log_probs|logits", help="Kind of the calibrated scores.")
    ] = "probs"
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="h5|npz|csv|jsonl|parquet", help="How it is written.", show_default="OUT's ending"
        ),
    ] = None
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="FILE|NUMBER",
            help="Mark rows of at least this confidence in a column accepted; FILE is from calcli threshold.",
        ),
    ] = None
    again: o.Again = False
    force: o.Force = False

    def __post_init__(self) -> None:
        if self.as_ not in SCORE_KINDS:
            raise UsageError(f"--as {self.as_}: expected one of {', '.join(SCORE_KINDS)}")
        if self.output == "-" and (self.json or len(self.expanded) > 1):
            raise UsageError("-o -: standard output takes the scores of one bundle, and no --json beside them")
        if not self.output:
            raise UsageError("-o '': expected the name of a file, or of a folder for several bundles")

    @property
    def inputs(self) -> list[Path]:
        """Files that are read, and so never written."""
        read = list(self.files)
        if self.threshold is not None and Path(self.threshold).is_file():
            read.append(Path(self.threshold))
        return read if self.artifact == "-" else [*read, Path(self.artifact)]


def run(args: ApplyArgs) -> int:
    """Apply one artifact to every bundle; of several, one that fails does not stop the others."""
    talk = Talk(args.quiet)
    artifact = load(args.artifact)
    least = None if args.threshold is None else read_threshold(args.threshold, artifact)
    done: list[dict[str, object]] = []
    worst = 0
    new_folder = not Path(args.output).exists()
    for bundle, target in zip(args.expanded, _targets(args), strict=True):
        try:
            done.append(_apply_one(args, artifact, bundle, target, talk, least))
            if not args.json and args.output != "-":
                print(target)
        except CalcliError as error:
            if len(args.expanded) == 1:
                raise
            worst = max(worst, fail(str(error), error.exit_code))
    if new_folder and not done:
        with suppress(OSError):  # somebody else may have put something there
            Path(args.output).rmdir()
    if args.json:
        print_json({"calcli_apply": 1, "results": done})
    return worst


def _targets(args: ApplyArgs) -> list[Path]:
    """Where each bundle goes: the output itself, or files in it named after the bundles."""
    folder = Path(args.output)
    if len(args.expanded) == 1 and not folder.is_dir() and not args.output.endswith("/"):
        return [folder]
    ending = format_of(Path("any.h5"), args.form).name
    targets = []
    for bundle in args.expanded:
        path, group = split_where(bundle)
        targets.append(folder / f"{path.stem}{'.' + group.replace('/', '.') if group else ''}.{ending}")
    if len(set(targets)) < len(targets):
        twice = next(str(t) for t in targets if targets.count(t) > 1)
        raise UsageError(f"two bundles would be written to {twice}; apply them one by one")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{args.output}: is a file, expected a folder for {len(args.expanded)} bundles")
    make_folder(folder)
    return targets


def read_threshold(given: str, artifact: Artifact) -> float:
    """A confidence given as a number, or in a file of calcli threshold for this very calibrator."""
    with suppress(ValueError):
        least = float(given)
        if 0 <= least <= 1:
            return least
        raise UsageError(f"--threshold {given}: expected a confidence from 0 to 1, or a file of calcli threshold")
    try:
        content = json.loads(read_document(given, LARGEST_THRESHOLD, "a number or a file of calcli threshold"))
        least, chosen_with = content["threshold"], content["calibrator_sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{given}: is neither a number nor a file of calcli threshold") from None
    if type(least) not in (float, int) or not 0 <= least <= 1:
        raise DataError(f"{given}: holds no threshold (no confidence satisfied its bound)")
    if chosen_with != link_to(artifact).sha256:
        raise DataError(f"{given}: was chosen for another calibrator; run calcli threshold with this one")
    return least


def _apply_one(
    args: ApplyArgs, artifact: Artifact, bundle: str, target: Path, talk: Talk, least: float | None
) -> dict[str, object]:
    name = "<stdin>" if args.artifact == "-" else args.artifact
    place = Place(None if args.output == "-" else target, args.force, args.inputs)
    form = format_of(place.path, args.form)
    if place.path is not None:
        check_output(target, force=args.force, inputs=args.inputs)
    with open_rows(
        bundle, prefer=("test",), layout=args.where, ignore_labels=args.ignored, need_labels=False, tell=talk.say
    ) as rows:
        rows.hashed = False  # nobody asks
        for note in check_fits(artifact, name, rows, again=args.again):
            talk.warn(note)
        _compare_names(artifact, rows, talk)
        alone = rows.kind == "confidence"
        if alone and args.as_ != "probs":
            raise UsageError(f"--as {args.as_}: {rows.name} holds confidences, which are calibrated as such")
        kind = "confidence" if alone else score_kind(args.as_)
        transforms = checked_transforms(artifact.calibrator, rows, rows.name)
        columns = {c: v for c in ("ids", "weights", "group") if (v := rows.column(c)) is not None}
        counts: dict[str, int] = {}
        sheet = Sheet(
            rows.n,
            rows.k,
            kind,
            rows.dtype,
            rows.has_labels and not alone,
            None if alone else rows.class_names or artifact.class_names,
            columns,
            source={"bundle": rows.name, "calibrator": name, "method": artifact.method, "from": rows.source},
            attributes={
                "calibrator": dumps(artifact),
                "calibrated_by": chain_text([*rows.upstream, link_to(artifact)]),
                **({} if rows.corrupted_labels is None else {"corrupted_labels": rows.corrupted_labels}),
            },
        )

        def slabs() -> Iterator[Slab]:
            for start, scores, per_row, noted in calibrated_blocks(
                artifact.calibrator, rows, kind, transforms, rows.dtype
            ):
                if least is not None:
                    per_row["accepted"] = (scores if kind == "confidence" else per_row["confidence"]) >= least
                    counts["accepted"] = counts.get("accepted", 0) + int(per_row["accepted"].sum())
                yield start, scores, per_row
                for what, number in noted.items():
                    counts[what] = counts.get(what, 0) + number
                talk.progress("applying", start + len(scores), rows.n)

        form.write(sheet, slabs(), place)
        talk.clear()
        if rows.ignored:
            talk.say(f"{rows.name}: left out {rows.ignored} of {rows.total} rows by their label")
        for what, number in sorted(counts.items()):
            if number:
                talk.say(f"{rows.name}: {number} of {rows.n} rows: {what.replace('_', ' ')}")
        return {"bundle": rows.name, "output": str(target), "n": rows.n, "ignored": rows.ignored, "counts": counts}


def _compare_names(artifact: Artifact, rows: BundleRows, talk: Talk) -> None:
    """Warn when the classes have other names than those of the fit."""
    fitted, found = artifact.class_names, rows.class_names
    if not fitted or not found or fitted == found:
        return
    first = next(i for i, (a, b) in enumerate(zip(fitted, found, strict=True)) if a != b)
    talk.warn(
        f"{rows.name}: class {first} is {found[first]!r}, the calibrator was fitted with"
        f" {fitted[first]!r}; check the class order"
    )
