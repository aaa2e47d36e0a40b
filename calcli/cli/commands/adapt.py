"""Adapt a calibrator to class frequencies that changed (label shift).

The new class frequencies are estimated from unlabelled rows, or given with --prior. The
result is an ordinary calibrator.

\b
calcli adapt logits.auto.json october.h5 -o october.json
calcli adapt logits.auto.json --prior 0.9,0.1 -o rare.json
calcli adapt --from 0.5,0.5 --prior 0.9,0.1 -o rare.json

\f
The shares among the new rows are estimated by maximum likelihood. The calibrator is
changed only where the rows speak against the old shares (5 %), and refused where they
contradict the assumption that rows of a class are as they were (1 %); both tests are
simulated from labelled rows of the model before: those of the fit, which the calibrator
names, or --source.

\b
calcli adapt logits.svs.json october.h5 --source logits.h5:cal -o october.json
calcli apply october.json october.h5 -o calibrated.h5

--from needs neither labels nor a calibrator: it corrects the probabilities of a model that
was trained on rows drawn by class (undersampled, say), from the shares there and now.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, cast

import typer
from msgspec import Meta

from calcli.adapt import Adapted, adapt, known_shift
from calcli.calibrator import Context
from calcli.cli import options as o
from calcli.cli.context import CommandContext
from calcli.cli.render import Console
from calcli.errors import CalcliError, UsageError, check_choice
from calcli.io.artifact import Artifact, save
from calcli.io.atomic import check_output
from calcli.io.dataset import DataSet
from calcli.io.locate import split_where
from calcli.io.question_artifact import load_for, split_question
from calcli.output import Count, Ends, Output, Proportion
from calcli.rows import SCORE_KINDS, ScoreKind
from calcli.settings import command_words, common_fields

EPILOG = (
    "Exit code 4: the rows are too few, or not what other class frequencies would make"
    " of the source."
)


class ClassOutput(Output, kw_only=True):
    """Frequency of a class."""

    index: Count
    name: str | None
    source: Annotated[Proportion, Meta(description="Class frequency before.")]
    target: Annotated[Proportion, Meta(description="Class frequency now.")]
    ci: Annotated[
        Ends | None,
        Meta(description="Interval of the frequency now; null where it was given."),
    ]


class AdaptOutput(Output, kw_only=True):
    """The JSON of ``calcli adapt``."""

    calcli_adapt: Literal[1]
    adapted: Annotated[
        bool,
        Meta(description="False where no change of the class frequencies was found."),
    ]
    method: str
    n: Annotated[Count, Meta(description="Number of unlabelled samples.")]
    no_shift_p_value: Proportion | None
    label_shift_p_value: Proportion | None
    classes: list[ClassOutput]
    output: str


@dataclass(frozen=True, kw_only=True)
class AdaptArgs(o.Reading, o.OutputOptions):
    output: Annotated[str, o.output("OUT.json", "Calibrator to write, - for stdout.")]
    artifact: Annotated[
        str | None,
        typer.Argument(
            metavar="ART.json",
            help="Calibrator with class biases (svs, vs, auto; platt of two classes).",
        ),
    ] = None
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
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="P,P,…",
            help="The shares of the classes in training, in place of a calibrator.",
        ),
    ] = None
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Go on although the rows contradict the assumption."
        ),
    ] = False
    seed: o.Seed = 0
    force: o.Force = False

    def __post_init__(self) -> None:
        if self.from_ is not None:
            if self.artifact is not None or self.prior is None:
                raise UsageError(
                    "--from P,P,… goes with --prior P,P,…, and in place of a calibrator"
                )
            if self.kind is not None:
                check_choice("--kind", self.kind, SCORE_KINDS)
            return
        if self.artifact is None:
            raise UsageError(
                "name a calibrator (ART.json), or the shares of the classes in training"
                " (--from P,P,…)"
            )
        if self.bundle is None and self.prior is None:
            raise UsageError(
                "name unlabelled rows (NEW), or the shares of the classes (--prior"
                " P,P,…)"
            )

    @property
    def unused_options(self) -> dict[str, str]:
        is_alone = self.from_ is not None
        reading = [name for name in o.names_of(o.Reading) if name != "kind"]
        return o.unused(
            (
                is_alone,
                " ".join([*reading, "source", "again", "seed"]),
                "--from reads no rows",
            ),
        )


def run(args: AdaptArgs) -> int:
    """Adapt the calibrator, save it, and say what changed."""
    command = CommandContext(args)
    if args.output != "-":
        check_output(Path(args.output), force=args.force)
    adapted = _adapted(args, command)
    command.clear()
    save(adapted.artifact, args.output, force=args.force)
    tell(adapted, args.prior is not None, command)
    shift = adapted.shift
    output = AdaptOutput(
        calcli_adapt=1,
        adapted=adapted.changed,
        method=adapted.artifact.method,
        n=adapted.n,
        no_shift_p_value=None if shift is None else shift.ratio_p,
        label_shift_p_value=None if shift is None else shift.distance_p,
        classes=_class_outputs(adapted),
        output=args.output,
    )
    command.written(args.output, output.to_dict())
    return 0


def _class_outputs(adapted: Adapted) -> list[ClassOutput]:
    """Frequency of every class before and now."""
    k = len(adapted.source)
    names: Sequence[str | None] = adapted.artifact.class_names or [None] * k
    shift = adapted.shift
    classes = []
    for c in range(k):
        interval = None
        if shift is not None:
            interval = [float(shift.low[c]), float(shift.high[c])]
        of_class = ClassOutput(
            index=c,
            name=names[c],
            source=float(adapted.source[c]),
            target=float(adapted.target[c]),
            ci=interval,
        )
        classes.append(of_class)
    return classes


def _adapted(args: AdaptArgs, command: CommandContext) -> Adapted:
    """The adapted calibrator, or one from the shares of the classes alone."""
    if args.artifact is not None:
        return _from_calibrator(args, args.artifact, command)
    before = _shares("--from", args.from_)
    now = _shares("--prior", args.prior)
    assert before is not None and now is not None
    return known_shift(before, now, cast(ScoreKind, args.kind or "probs"))


def _from_calibrator(args: AdaptArgs, name: str, command: CommandContext) -> Adapted:
    """Calibrator of the name given, adapted to unlabelled rows or known shares."""
    shares = _shares("--prior", args.prior)
    artifact = load_for(name, args.bundle or "")
    source_name = args.source
    if source_name is None and args.bundle is not None:
        source_name = _rows_of_fit(artifact, name, args.bundle)
    rows: DataSet | None = None
    source: DataSet | None = None
    with ExitStack() as stack:
        if args.bundle is not None:
            without_labels = replace(args, labels=None)
            new = command.rows(
                [args.bundle],
                need_labels=False,
                known_classes=artifact.class_names,
                opening=without_labels.opening,
            )
            rows = stack.enter_context(new)
        if source_name is not None:
            old = command.rows([source_name], o.CALIBRATION)
            with _told_of_both_files(args):
                source = stack.enter_context(old)
        context = Context(args.seed, progress=command.progress)
        return adapt(
            artifact,
            name,
            rows,
            source,
            shares,
            context,
            force=args.again,
            is_of_fit=args.source is None,
        )


@contextmanager
def _told_of_both_files(args: AdaptArgs) -> Iterator[None]:
    """Say, where the source lacks a column that an option names, how to keep the option
    for the new rows.
    """
    try:
        yield
    except CalcliError as problem:
        if args.bundle is None:
            raise
        for option in command_words(o.Columns(**common_fields(o.Columns, args))):
            if repr(option[-1]) not in problem.message:
                continue
            bundle = str(Path(args.bundle).with_suffix(".h5"))
            command = ["calcli", "extract", args.bundle, "--labels", "none", *option]
            raise problem.advising(
                [*command, "-o", bundle],
                more=f"; {option[0]} is about both files: for {args.bundle} alone make"
                f" {bundle} of it, and name that without {option[0]}",
            ) from None
        raise


def _shares(option: str, words: str | None) -> list[float] | None:
    """Shares of the classes from an option. Raises UsageError."""
    if words is None:
        return None
    try:
        return list(map(float, words.split(",")))
    except ValueError:
        raise UsageError(
            f"{option} {words[:40]}: expected numbers, e.g. {option} 0.9,0.1"
        ) from None


def _rows_of_fit(artifact: Artifact, artifact_name: str, bundle: str) -> str:
    """Name of the rows of the fit: here, or beside the calibrator.

    Raises UsageError where there are none.
    """
    fit = artifact.fit.source or ""
    if fit:
        file_of_artifact = split_question(artifact_name)[0]
        for folder in (Path(), Path(file_of_artifact).parent):
            place = str(folder / fit)
            if split_where(place)[0].is_file():
                return place
    raise UsageError(
        f"{bundle}: the tests need labelled rows of the model before, and those of the"
        f" fit ({fit or 'not recorded'}) are not here: --source BUNDLE"
    )


def tell(adapted: Adapted, is_prior_given: bool, talk: Console) -> None:
    """Say how the class frequencies changed, and whether the rows speak against it."""
    shift = adapted.shift
    if shift is not None:
        same = f"no change of the class frequencies: p = {shift.ratio_p:.3f}"
        talk.say(f"label shift: p = {shift.distance_p:.3f}; {same}")
    if not adapted.changed:
        talk.say(
            f"no significant change of the class frequencies (n = {adapted.n}): the"
            " calibrator is written unchanged"
        )
        return
    if not adapted.holds:
        talk.warn(
            "the rows contradict label shift; the calibrator was adapted because of"
            " --again"
        )
    source = adapted.source
    target = adapted.target
    names = adapted.artifact.class_names
    if not names:
        names = [f"class {c}" for c in range(len(source))]
    order = sorted(range(len(names)), key=lambda c: -abs(target[c] - source[c]))
    for c in order[:10]:
        interval = ""
        if shift is not None:
            interval = f" [{shift.low[c]:.3f}, {shift.high[c]:.3f}]"
        talk.say(f"{names[c]}: {source[c]:.3f} -> {target[c]:.3f}{interval}")
    if shift is None or not is_prior_given:
        return
    for c in adapted.contradicted[:1]:
        talk.warn(
            f"the rows contradict --prior: {names[c]} {target[c]:.3f}, where they"
            f" show {shift.shares[c]:.3f} [{shift.low[c]:.3f}, {shift.high[c]:.3f}]"
        )
