"""Adapt a calibrator to class frequencies that changed (label shift).

The new class frequencies are estimated from unlabelled rows, or given with --prior. The
result is an ordinary calibrator.

\b
calcli adapt logits.auto.json october.h5 -o october.json
calcli adapt logits.auto.json --prior 0.9,0.1 -o rare.json

\f
The shares among the new rows are estimated by maximum likelihood. The calibrator is
changed only where the rows speak against the old shares (5 %), and refused where they
contradict the assumption that rows of a class are as they were (1 %); both tests are
simulated from labelled rows of the model before: those of the fit, which the calibrator
names, or --source.

\b
calcli adapt logits.svs.json october.h5 --source logits.h5:cal -o october.json
calcli apply october.json october.h5 -o calibrated.h5
"""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from calcli.adapt import Adapted, adapt
from calcli.calibrator import Context
from calcli.cli import options as o
from calcli.cli.context import CommandContext
from calcli.cli.render import Console
from calcli.errors import UsageError
from calcli.io.artifact import load, save
from calcli.io.atomic import check_output
from calcli.io.locate import split_where

EPILOG = "Exit code 4: the rows are too few, or not what other class frequencies would make of the source."


@dataclass(frozen=True, kw_only=True)
class AdaptArgs(o.Reading, o.OutputOptions):
    artifact: Annotated[
        str,
        typer.Argument(
            metavar="ART.json",
            help="Calibrator with class biases (svs, vs, auto; platt of two classes).",
        ),
    ]
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT.json",
            help="Calibrator to write, - for stdout.",
        ),
    ]
    bundle: Annotated[
        str | None,
        typer.Argument(
            metavar="NEW", help="Unlabelled rows of the model as it is used now."
        ),
    ] = None
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="BUNDLE",
            help="Labelled rows of the model before: those of the fit, or others.",
            show_default="those of the fit",
        ),
    ] = None
    prior: Annotated[
        str | None,
        typer.Option(
            "--prior",
            metavar="P,P,…",
            help="The shares of the classes now, if they are known.",
        ),
    ] = None
    force_shift: Annotated[
        bool,
        typer.Option(
            "--force-shift", help="Adapt even where the rows contradict the assumption."
        ),
    ] = False
    seed: o.Seed = 0
    force: o.Force = False

    def __post_init__(self) -> None:
        if self.bundle is None and self.prior is None:
            raise UsageError(
                "name unlabelled rows (NEW), or the shares of the classes (--prior P,P,…)"
            )


def run(args: AdaptArgs) -> int:
    command = CommandContext(args)
    try:
        shares = (
            None
            if args.prior is None
            else [float(part) for part in args.prior.split(",")]
        )
    except ValueError:
        raise UsageError(
            f"--prior {str(args.prior)[:40]}: expected numbers, e.g. --prior 0.9,0.1"
        ) from None
    artifact, named = load(args.artifact), args.source
    if (
        named is None and args.bundle is not None
    ):  # look for the rows of the fit here, then beside the calibrator
        fit = artifact.fit.source or ""
        places = [str(folder / fit) for folder in (Path(), Path(args.artifact).parent)]
        named = next(
            (place for place in places if fit and split_where(place)[0].is_file()), None
        )
        if named is None:
            told = f"and those of the fit ({fit or 'not recorded'}) are not here: --source BUNDLE"
            raise UsageError(
                f"{args.bundle}: the tests need labelled rows of the model before, {told}"
            )
    if args.output != "-":
        check_output(Path(args.output), force=args.force)
    new = (
        nullcontext()
        if args.bundle is None
        else command.rows([args.bundle], need_labels=False)
    )
    old = nullcontext() if named is None else command.rows([named], o.CALIBRATION)
    with new as rows, old as source:
        context = Context(args.seed, progress=command.progress)
        own = args.source is None
        found = adapt(
            artifact,
            args.artifact,
            rows,
            source,
            shares,
            context,
            args.force_shift,
            own,
        )
    command.clear()
    save(found.artifact, args.output, force=args.force)
    tell(found, command)
    command.written(
        args.output, {"calcli_adapt": 1, **found.to_dict(), "output": args.output}
    )
    return 0


def tell(found: Adapted, talk: Console) -> None:
    shift = found.shift
    if shift is not None:
        same = f"no change of the class frequencies: p = {shift.ratio_p:.3f}"
        talk.say(f"label shift: p = {shift.distance_p:.3f}; {same}")
    if not found.changed:
        talk.say(
            f"no significant change of the class frequencies (n = {found.n}): the calibrator is written unchanged"
        )
        return
    if not found.holds:
        talk.warn(
            "the rows contradict label shift; the calibrator was adapted because of --force-shift"
        )
    names = found.artifact.class_names or [
        f"class {c}" for c in range(len(found.source))
    ]
    order = sorted(
        range(len(names)), key=lambda c: -abs(found.target[c] - found.source[c])
    )
    for c in order[:10]:
        ci = "" if shift is None else f" [{shift.low[c]:.3f}, {shift.high[c]:.3f}]"
        talk.say(f"{names[c]}: {found.source[c]:.3f} -> {found.target[c]:.3f}{ci}")
