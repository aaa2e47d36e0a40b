"""calcli apply."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calcli.cli import options as o

if TYPE_CHECKING:
    from calcli.cli.render import Talk
    from calcli.io.artifact import Artifact
    from calcli.io.bundle import Layout
    from calcli.rows import ScoreKind


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("apply", short_help="Write calibrated bundles.")(apply)


def apply(
    artifact: Annotated[str, typer.Argument(metavar="ART.json", help="Artifact written by calcli fit, - for stdin.")],
    bundles: Annotated[
        list[str],
        typer.Argument(
            metavar="BUNDLE…", help="FILE.h5 or FILE.h5:GROUP; group test when none is named. Labels are not needed."
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="OUT", help="HDF5 file to write; a folder for several bundles.")
    ],
    as_: Annotated[
        str, typer.Option("--as", metavar="probs|log_probs|logits", help="Kind of the calibrated scores.")
    ] = "probs",
    force: o.Force = False,
    scores: o.Scores = None,
    labels: o.Labels = None,
    kind: o.Kind = None,
    ignore_label: o.IgnoreLabel = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Write calibrated bundles: probabilities, prediction and confidence of every row.

    Rows are streamed. Labels, ids and class names are carried over, and the artifact
    goes along as the attribute "calibrator". Scores keep the input's precision.

    \b
    calcli apply logits.ts.json logits.h5:test -o calibrated.h5
    calcli apply logits.ts.json monday.h5 tuesday.h5 -o calibrated/
    calcli fit --method ec logits.h5 -o - | calcli apply - logits.h5:test -o out.h5
    """
    from calcli.cli.render import Talk, print_json
    from calcli.errors import CalcliError, UsageError
    from calcli.io.artifact import load
    from calcli.io.bundle import Layout, split_where
    from calcli.io.validate import score_kind
    from calcli.rows import SCORE_KINDS

    talk = Talk(quiet)
    if as_ not in SCORE_KINDS:
        raise UsageError(f"--as {as_}: expected one of {', '.join(SCORE_KINDS)}")
    out_kind = score_kind(as_)
    layout = Layout(scores, labels, kind)
    calibrator = load(artifact)
    name = "<stdin>" if artifact == "-" else artifact
    inputs = [split_where(bundle)[0] for bundle in bundles] + ([] if artifact == "-" else [Path(artifact)])
    ignore = tuple(ignore_label or ())
    done: list[dict[str, object]] = []
    worst = 0
    new_folder = not Path(output).exists()
    for bundle, target in zip(bundles, _targets(bundles, output), strict=True):
        try:
            done.append(_apply_one(calibrator, name, bundle, target, out_kind, layout, ignore, inputs, force, talk))
            if not json:
                print(target)
        except CalcliError as error:
            if len(bundles) == 1:
                raise
            from calcli.cli.main import fail

            worst = max(worst, fail(str(error), error.exit_code))
    if new_folder and not done:
        with suppress(OSError):  # somebody else may have put something there
            Path(output).rmdir()
    if json:
        print_json({"calcli_apply": 1, "results": done})
    return worst


def _targets(bundles: list[str], output: str) -> list[Path]:
    """Where each bundle goes: the output itself, or files in it named after the bundles."""
    from calcli.errors import UsageError
    from calcli.io.atomic import make_folder
    from calcli.io.bundle import split_where

    folder = Path(output)
    if output == "-":
        raise UsageError("-o -: HDF5 cannot be written to a pipe; name a file")
    if not output:
        raise UsageError("-o '': expected the name of a file, or of a folder for several bundles")
    if len(bundles) == 1 and not folder.is_dir() and not output.endswith("/"):
        return [folder]
    targets = []
    for bundle in bundles:
        path, group = split_where(bundle)
        targets.append(folder / f"{path.stem}{'.' + group.replace('/', '.') if group else ''}.h5")
    if len(set(targets)) < len(targets):
        twice = next(str(t) for t in targets if targets.count(t) > 1)
        raise UsageError(f"two bundles would be written to {twice}; apply them one by one")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{output}: is a file, expected a folder for {len(bundles)} bundles")
    make_folder(folder)
    return targets


def _apply_one(
    artifact: "Artifact",
    name: str,
    bundle: str,
    target: Path,
    kind: "ScoreKind",
    layout: "Layout",
    ignore: tuple[int, ...],
    inputs: list[Path],
    force: bool,
    talk: "Talk",
) -> dict[str, object]:
    from calcli.io.artifact import dumps
    from calcli.io.atomic import check_output
    from calcli.io.bundle import open_bundle
    from calcli.io.writer import BundleWriter
    from calcli.workflow import calibrated_blocks, check_fits, checked_transforms

    check_output(target, force=force, inputs=inputs)
    with open_bundle(bundle, prefer=("test",), layout=layout, ignore_labels=ignore, need_labels=False) as rows:
        check_fits(artifact, name, rows)
        if artifact.class_names and rows.class_names and artifact.class_names != rows.class_names:
            first = next(
                i for i, (a, b) in enumerate(zip(artifact.class_names, rows.class_names, strict=True)) if a != b
            )
            talk.warn(
                f"{rows.name}: class {first} is {rows.class_names[first]!r}, the calibrator was fitted with"
                f" {artifact.class_names[first]!r}; check the class order"
            )
        transforms = checked_transforms(artifact.calibrator, rows, rows.name)
        columns = {c: v for c in ("ids", "weights", "group") if (v := rows.column(c)) is not None}
        counts: dict[str, int] = {}
        with BundleWriter(target, force=force, inputs=inputs) as writer:
            group = writer.create(
                n=rows.n,
                k=rows.k,
                kind=kind,
                dtype=rows.dtype,
                labels=rows.has_labels,
                class_names=rows.class_names or artifact.class_names,
                columns=columns,
                source={"bundle": rows.name, "calibrator": name, "method": artifact.method, "from": rows.source},
            )
            for start, scores, per_row, noted in calibrated_blocks(artifact.calibrator, rows, kind, transforms):
                group.write(start, scores, **per_row)
                for what, number in noted.items():
                    counts[what] = counts.get(what, 0) + number
                talk.progress("applying", start + len(scores), rows.n)
            group.attribute("calibrator", dumps(artifact))
        talk.clear()
        if rows.ignored:
            talk.say(f"{rows.name}: left out {rows.ignored} of {rows.total} rows by their label")
        for what, number in sorted(counts.items()):
            if number:
                talk.say(f"{rows.name}: {number} of {rows.n} rows: {what.replace('_', ' ')}")
        return {"bundle": rows.name, "output": str(target), "n": rows.n, "ignored": rows.ignored, "counts": counts}
