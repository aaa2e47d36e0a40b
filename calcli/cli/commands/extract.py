"""Make a bundle of saved scores, or by running a model."""

from pathlib import Path
from typing import Annotated

import typer

from calcli.cli import extract_model as m
from calcli.cli import options as o

EPILOG = (
    "Splits: NAME=0.5 or NAME=50% is a share of the rows, NAME=5000 a number of rows, NAME=rest what is left,"
    " NAME=0:5000 a range of positions. Rows are dealt stratified by label: every group gets its share of each"
    " class to within a row; --no-stratify shuffles without regard to labels, --ordered takes the first rows"
    " for the first group and so on. Within a group rows keep the order of the source. A source that is split"
    " already (logits_val, logits_test; val/logits; a column named split) keeps its groups."
    " Labels may be whole numbers of any type, one-hot rows, or words that class_names (in tables the column"
    " names) list."
)


ORDER = 10


def extract(
    output: Annotated[str, typer.Option("-o", "--output", metavar="OUT.h5", help="HDF5 file to write.")],
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SOURCE…",
            help="npz, npy, pt, safetensors, csv, parquet, pickle or HDF5 files of saved scores;"
            " logits.npy labels.npy belong together.",
            show_default=False,
        ),
    ] = None,
    scores: Annotated[
        list[str] | None,
        typer.Option(
            "--scores", metavar="NAME", help="Array with the scores (repeatable: one group each).", show_default=False
        ),
    ] = None,
    all_scores: Annotated[
        bool, typer.Option("--all-scores", help="Take every array of scores, one group each, named after it.")
    ] = False,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--labels",
            metavar="NAME",
            help="Array with the labels (one for all, or one per --scores).",
            show_default=False,
        ),
    ] = None,
    no_labels: Annotated[bool, typer.Option("--no-labels", help="Accept scores without labels.")] = False,
    kind: o.Kind = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group", metavar="NAME", help="Take only this part of the source (repeatable).", show_default=False
        ),
    ] = None,
    split: Annotated[
        list[str] | None,
        typer.Option(
            "--split",
            metavar="NAME=SIZE",
            help="Deal the rows into groups (repeatable, see below).",
            show_default=False,
        ),
    ] = None,
    stratify: Annotated[bool, typer.Option("--stratify/--no-stratify", help="Split each class in proportion.")] = True,
    ordered: Annotated[bool, typer.Option("--ordered", help="Split without shuffling: first rows first.")] = False,
    seed: o.Seed = 0,
    ignore_label: o.IgnoreLabel = None,
    model: m.Model = None,
    inputs: m.Inputs = None,
    weights: m.Weights = None,
    layout: m.Layout = None,
    scale: m.Scale = None,
    resize: m.Resize = None,
    grey: m.Grey = False,
    transform: m.Transform = None,
    transforms: m.Transforms = 10,
    mean: m.Mean = None,
    std: m.Std = None,
    batch: m.Batch = 64,
    device: m.ModelDevice = "auto",
    amp: m.Amp = "off",
    dtype: m.Dtype = "float32",
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> int:
    """Make a bundle: import saved scores and labels, or run a model over inputs.

    Arrays are found by name: scores called logits, log_probs or probs (or starting so:
    logits_val, probas_cal), labels called labels, y, targets; class_names, ids, weights,
    group, and transformed_logits with transforms come along. The kind of scores is never
    guessed: other names need --kind. A model's outputs are logits unless --kind says
    otherwise. Prints the path of the bundle.

    \b
    calcli extract scores.npz -o logits.h5 --split cal=0.5 --split test=0.5
    calcli extract logits.npy labels.npy -o logits.h5 --split cal=5000 --split test=rest --ordered
    calcli extract table.csv --labels truth --kind probs -o probs.h5
    calcli extract --model net.pt2 --inputs images.npz --transform zoom:0.5:0.9 -o logits.h5
    """
    from calcli.cli.render import Talk, print_json
    from calcli.errors import UsageError
    from calcli.importers.ask import Ask
    from calcli.importers.import_scores import import_scores
    from calcli.importers.report import Splitting
    from calcli.io.split import parse_split
    from calcli.rows import SCORE_KINDS

    talk = Talk(quiet)
    if output == "-":
        raise UsageError("-o -: HDF5 cannot be written to a pipe, name a file")
    if kind is not None and kind not in SCORE_KINDS:
        raise UsageError(f"--kind {kind}: expected one of {', '.join(SCORE_KINDS)}")
    if (ordered or not stratify) and not split:
        raise UsageError("--ordered and --no-stratify say how to --split; add --split cal=0.5 --split test=0.5")
    splitting = Splitting(tuple(map(parse_split, split or ())), seed, stratify, ordered, tuple(split or ()))
    if model is None:
        if inputs or transform or weights:
            raise UsageError("--inputs, --weights and --transform belong to a --model to run; name one")
        if not sources:
            raise UsageError("no SOURCE of saved scores and no --model to run; see calcli extract --help")
        ask = Ask(tuple(scores or ()), tuple(labels or ()), kind, tuple(group or ()), all_scores, no_labels)
        ignore = tuple(ignore_label or ())
        report = import_scores(sources, Path(output), ask, splitting, ignore_labels=ignore, force=force)
    else:
        given = {
            f"SOURCE {sources[0] if sources else ''}": sources,
            "--scores": scores,
            "--all-scores": all_scores,
            "--group": group,
            "--ignore-label": ignore_label,
            "more than one --labels": len(labels or ()) > 1,
        }
        wrong = [name for name, value in given.items() if value]
        if wrong:
            raise UsageError(
                f"--model runs a model over --inputs, but {', '.join(wrong)} would import saved scores:"
                " do one or the other"
            )
        report = m.run(
            model, inputs, Path(output), splitting, talk, mean=mean, std=std, resize=resize, transform=transform,
            force=force, weights=weights, labels=labels[0] if labels else None, layout=layout, scale=scale, grey=grey,
            transforms=transforms, seed=seed, batch=batch, device=device, amp=amp, kind=kind or "logits", dtype=dtype,
        )  # fmt: skip
    for note in report.notes:
        talk.say(note)
    for bundle in report.bundles:
        talk.say(
            f"{Path(output).name}{':' + bundle.name if bundle.name else ''}: {bundle.n} x {bundle.k} {bundle.kind},"
            f" {bundle.dtype}{'' if bundle.labelled else ', no labels'}"
            f"{f', {bundle.transforms} transforms' if bundle.transforms else ''}"
        )
    if json:
        from dataclasses import asdict

        bundles = [asdict(bundle) for bundle in report.bundles]
        print_json({"calcli_extract": 1, "output": output, "bundles": bundles, "notes": report.notes})
    else:
        print(output)
    return 0
