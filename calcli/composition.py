"""Compositions of methods: ``ft+svs+beta`` is a method like any other.

Each stage is fitted on, and applied to, the log-probabilities of the one before. Every
composition is a class with its own laws and options, built once from the classes of its
stages; only the artifact, which nests the stages, treats compositions differently from
other methods.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from inspect import getdoc
from typing import Any, ClassVar, NamedTuple, Self, cast, get_args, get_type_hints

import msgspec

from calcli.block import Block
from calcli.calibrator import (
    C,
    Calibrator,
    Context,
    Fit,
    Laws,
    Memory,
    Options,
    Prediction,
    Status,
)
from calcli.errors import DataError, UsageError
from calcli.mapped_rows import argmax_at_prediction, mapped_block, rows_after
from calcli.numerics import FloatArray
from calcli.rows import Rows

STATUSES: tuple[Status, ...] = get_args(Status)  # from the best to the worst


class Stage(NamedTuple):
    """One fitted stage: the method's name, its options and the calibrator."""

    method: str
    options: Options
    calibrator: Calibrator


CHANGED = "predictions_changed"  # name of a count of rows
Prefix = tuple[tuple[str, Options], ...]


@dataclass
class FittedPrefixes:
    """Cache of fitted prefixes of compositions, and of the rows that they map.

    All are fitted to the same rows. Who fits a prefix first decides where its search
    starts, which changes a result within the search's tolerance.
    """

    fits: dict[Prefix, Fit[Any]] = field(default_factory=dict)
    rows: dict[Prefix, Rows] = field(default_factory=dict)


@dataclass(frozen=True)
class Composition(Calibrator):
    """Fitted methods applied one after the other; see ``composition``.

    Every stage reads log-probabilities whose argmax is the prediction so far, so that
    its own rule for the prediction continues that of the stage before.
    """

    stages: tuple[Stage, ...]

    names: ClassVar[tuple[str, ...]] = ()
    classes: ClassVar[tuple[type[Calibrator], ...]] = ()

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        return cls.fit_reusing(rows, options, context, FittedPrefixes())

    @classmethod
    def fit_reusing(
        cls, rows: Rows, options: Any, context: Context, known: FittedPrefixes
    ) -> Fit[Self]:
        """Fit, reusing the prefixes in ``known``, and adding new ones to it."""
        cls.check_options(options)
        options = cls.resolve_options(options, rows.k)
        stages: list[Stage] = []
        warnings: list[str] = []
        details: list[dict[str, Any]] = []
        prefix: Prefix = ()
        for i, (name, method, stage_options) in enumerate(cls.parts(options)):
            if prefix:
                if prefix not in known.rows:
                    known.rows[prefix] = rows_after(rows, known.fits[prefix])
                rows = known.rows[prefix]
            prefix = (*prefix, (name, stage_options))
            if prefix not in known.fits:
                stage_context = _context_of_stage(context, name, i)
                known.fits[prefix] = method.fit(rows, stage_options, stage_context)
            fit = known.fits[prefix]
            stages.append(Stage(name, stage_options, fit.calibrator))
            for warning in fit.warnings:
                warnings.append(f"stage {i + 1} ({name}): {warning}")
            details.append({"method": name, "status": fit.status, **fit.details})
        worst = max((part["status"] for part in details), key=STATUSES.index)
        return Fit(cls(tuple(stages)), worst, tuple(warnings), {"stages": details})

    def apply(self, block: Block) -> Prediction:
        counts = Counter[str]()
        before = block
        *first, last = self.stages
        for stage in first:
            prediction = stage.calibrator.apply(block)
            counts.update(prediction.counts)
            block = block.calibrated(argmax_at_prediction(prediction))
        prediction = last.calibrator.apply(block)
        counts.update(prediction.counts)
        if self.laws.keeps_argmax:
            counts.pop(CHANGED, None)  # a later stage has restored them
        elif CHANGED in counts:
            counts[CHANGED] = int((prediction.label != before.prediction).sum())
        return replace(prediction, counts=dict(counts))

    @classmethod
    def takes_logarithms(cls) -> bool:
        return cls.classes[0].takes_logarithms()

    def marginals(self, block: Block) -> FloatArray:
        for stage in self.stages[:-1]:
            block = mapped_block(stage.calibrator, block)
        return self.stages[-1].calibrator.marginals(block)

    def __reduce__(self) -> tuple[Any, ...]:
        return _recomposed, (self.stages,), {"zeros": self.zeros}

    @property
    def required_transforms(self) -> Sequence[str]:
        return self.stages[0].calibrator.required_transforms

    @property
    def required_columns(self) -> Mapping[str, Sequence[str]]:
        columns: dict[str, Sequence[str]] = {}
        for stage in self.stages:
            columns |= stage.calibrator.required_columns
        return columns

    def check_own(self, k: int) -> None:
        methods = tuple(stage.method for stage in self.stages)
        if methods != self.names:
            raise DataError(
                f"the stages are {'+'.join(methods)}, expected {'+'.join(self.names)}"
            )
        for stage in self.stages:
            stage.calibrator.check(k)

    @classmethod
    def split(cls, options: Any) -> tuple[Options, ...]:
        """The options of every stage."""
        split: list[Options] = []
        for i, method in enumerate(cls.classes):
            values = {}
            for name in method.Options.__struct_fields__:
                values[name] = getattr(options, attribute(i, name))
            split.append(method.Options(**values))
        return tuple(split)

    @classmethod
    def parts(cls, options: Any) -> list[tuple[str, type[Calibrator], Options]]:
        """Name, class and options of every stage."""
        return list(zip(cls.names, cls.classes, cls.split(options), strict=True))

    @classmethod
    def resolve_options(cls, options: Any, k: int) -> Any:
        explicit = []
        for _, method, stage_options in cls.parts(options):
            explicit.append(method.resolve_options(stage_options, k))
        return msgspec.structs.replace(options, **_by_attribute(explicit))

    @classmethod
    def moves_predictions(cls, options: Any) -> bool:
        first = last_restoring([method.laws for method in cls.classes])
        stages = cls.parts(options)[first:]
        return any(method.moves_predictions(own) for _, method, own in stages)

    @classmethod
    def check_options(cls, options: Any) -> None:
        """Refuse a stage that cannot be composed, or that must be the last and is not.

        Raises UsageError.
        """
        whole = "+".join(cls.names)
        parts = cls.parts(options)
        for name, method, stage_options in parts:
            if not method.is_stage(stage_options):
                raise UsageError(
                    f"method {whole!r}: {name} cannot be a stage of a composition"
                )
        stages = zip(parts[:-1], cls.classes[1:], strict=True)
        for (name, method, stage_options), following in stages:
            if following.laws.restores_argmax or not method.laws.top_label_only:
                continue
            mode = getattr(stage_options, "mode", None)
            if mode not in (None, "auto", "top"):
                continue
            message = (
                f"{name} calibrates only the confidence of the predicted class: it must"
                f" come last in {whole}"
            )
            if mode is not None:
                message += (
                    f", or set {name}.mode=ova, or {name}.mode=binary for two classes"
                )
            raise UsageError(message)


def _context_of_stage(context: Context, name: str, i: int) -> Context:
    """Context in which stage i is fitted: progress by its name, its own warm start."""
    progress = partial(_progress_of_stage, context, name)
    start = None
    if isinstance(context.start, Composition):
        start = context.start.stages[i].calibrator
    return replace(context, progress=progress, start=start)


def _progress_of_stage(
    context: Context, name: str, what: str, done: int, total: int
) -> None:
    context.progress(f"{name}: {what}", done, total)


def _recomposed(stages: tuple[Stage, ...]) -> Composition:
    return composition(
        tuple((stage.method, type(stage.calibrator)) for stage in stages)
    )(stages)


@cache
def composition(stages: tuple[tuple[str, type[Calibrator]], ...]) -> type[Composition]:
    """Build the class of a composition of two or more methods.

    stages : names and classes, in the order of application. Raises UsageError for an
    order that cannot work.
    """
    for name, method in stages[1:]:
        if method.laws.needs_transforms:
            raise UsageError(
                f"{name} reads scores under transforms of the input: it must come first"
            )
    names, classes = zip(*stages, strict=True)
    title = ", then ".join(method.title for method in classes)
    members = {
        "__doc__": _documentation(stages, title),
        "names": names,
        "classes": classes,
        "title": title,
        "laws": _laws_of_composition([method.laws for method in classes]),
        "Options": _options_struct(names, classes),
    }
    name = "Composition_" + "_".join(names).replace("-", "_")
    return type(name, (Composition,), members)


def _documentation(stages: Sequence[tuple[str, type[Calibrator]]], title: str) -> str:
    """Docstring of a composition: what it does, and the first line of every stage's."""
    paragraphs = [
        f"Apply {title}.",
        "Each stage is fitted on the log-probabilities of the one before.",
    ]
    for name, method in stages:
        first_line = (getdoc(method) or "").splitlines()[0]
        paragraphs.append(f"{name}: {first_line}")
    return "\n\n".join(paragraphs)


def _laws_of_composition(laws: Sequence[Laws]) -> Laws:
    """What a composition guarantees. laws : those of its stages, in order."""
    first = laws[0]
    # what a stage before the last one that restores the prediction does to it is undone
    last = laws[last_restoring(laws) :]
    class_shares = False
    settling = [law for law in laws if not law.restores_argmax]
    if settling:
        class_shares = settling[-1].class_shares and not settling[-1].top_label_only
    return Laws(
        equivariant=all(law.equivariant for law in laws),
        improves_nll=all(law.improves_nll for law in laws),
        weights=all(law.weights for law in laws),
        keeps_argmax=all(law.keeps_argmax for law in last),
        monotone=all(law.monotone for law in last),
        # Later stages read normalised log-probabilities: no row has a free constant.
        shift_invariant=first.shift_invariant,
        needs_transforms=first.needs_transforms,
        # The other classes keep their proportions after the stage before, not those of
        # the input.
        top_label_only=False,
        class_shares=class_shares,
        memory=max((law.memory for law in laws), key=get_args(Memory).index),
    )


def last_restoring(laws: Sequence[Laws]) -> int:
    """Index of the last stage that restores the prediction of the scores; 0 if none."""
    last = 0
    for i, law in enumerate(laws):
        if law.restores_argmax:
            last = i
    return last


# ---- options


def attribute(stage: int, field: str) -> str:
    """Name of the attribute for a stage's option in the options of a composition."""
    return f"stage{stage}_{field}"


def joint_options(cls: type[Calibrator], stages: Sequence[Options]) -> Options:
    """Options of a composition from those of its stages."""
    return cls.Options(**_by_attribute(stages))


def _by_attribute(stages: Sequence[Options]) -> dict[str, Any]:
    """Values of the stages' options by their attributes in those of a composition."""
    values: dict[str, Any] = {}
    for i, options in enumerate(stages):
        for name in options.__struct_fields__:
            values[attribute(i, name)] = getattr(options, name)
    return values


def _options_struct(
    names: Sequence[str], classes: Sequence[type[Calibrator]]
) -> type[Options]:
    """Options of a composition: its stages' as ``stage.option``.

    A second stage of the same name is ``stage2``, and so on.
    """
    fields: list[tuple[str, Any, Any]] = []
    for i, (name, method) in enumerate(zip(names, classes, strict=True)):
        prefix = name
        before = names[:i].count(name)
        if before:
            prefix = f"{name}{before + 1}"
        hints = get_type_hints(method.Options, include_extras=True)
        for option in msgspec.structs.fields(method.Options):
            declared = msgspec.field(
                default=option.default, name=f"{prefix}.{option.encode_name}"
            )
            fields.append((attribute(i, option.name), hints[option.name], declared))
    stages = tuple(zip(names, classes, strict=True))

    def by_stages(options: Options) -> tuple[Any, ...]:
        return _options_again, (stages, msgspec.structs.asdict(options))

    struct = msgspec.defstruct(
        "CompositionOptions",
        fields,
        bases=(Options,),
        namespace={"__reduce__": by_stages},
        frozen=True,
        kw_only=True,
    )
    return cast(type[Options], struct)


def _options_again(
    stages: tuple[tuple[str, type[Calibrator]], ...], values: dict[str, Any]
) -> Options:
    """Options of a composition in another process.

    Its class cannot be imported by name there.
    """
    return composition(stages).Options(**values)


def full_option_names(
    name: str, struct: type[Options], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Expand ``option`` to ``stage.option`` in a composition's settings.

    Done where only one stage has the option. Unknown names are left unchanged. Raises
    UsageError for an option of several stages.
    """
    known = [option.encode_name for option in msgspec.structs.fields(struct)]
    full: dict[str, Any] = {}
    for key, value in settings.items():
        matches = [key]
        if key not in known:
            matches = [option for option in known if option.partition(".")[2] == key]
        if len(matches) > 1:
            raise UsageError(
                f"option {key} of {name!r} belongs to several stages: use"
                f" {' or '.join(matches)}"
            )
        target = matches[0] if matches else key
        if target in full:
            raise UsageError(f"option {target} of {name!r} is set twice")
        full[target] = value
    return full


def behind(first: Fit[Any], fit: Fit[C]) -> Fit[C]:
    """Describe a fit to the output of a first fit.

    It has the warnings of both and the worse status.
    """
    status = max(first.status, fit.status, key=STATUSES.index)
    return replace(fit, status=status, warnings=(*first.warnings, *fit.warnings))
