"""Compositions of methods: ``ft+svs+beta`` is a method like any other.

Each stage is fitted on, and applied to, the log-probabilities of the one before. Every composition is a class with its
own laws and options, built once from the classes of its stages; only the artifact, which nests the stages, treats
compositions differently from other methods.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from inspect import getdoc
from typing import Any, ClassVar, NamedTuple, Self, cast, get_args, get_type_hints

import msgspec
import numpy as np

from calcli.calibrator import (
    Calibrator,
    Context,
    Fit,
    Laws,
    Memory,
    Options,
    Prediction,
    Status,
    check_numbers,
    transforms_read_by,
    with_transforms_of,
)
from calcli.errors import DataError, UsageError
from calcli.numerics import AnyArray, FloatArray, IntArray, mixed_with_uniform
from calcli.parallel import available_memory
from calcli.rows import ArrayRows, AtOnce, Block, Result, Rows, Walk
from calcli.statistics.units import Units

# larger log-probabilities are not kept between stages, but recomputed in every pass
CACHED_BYTES = 1 << 27
LARGE_BYTES = 1 << 28  # up to this size they are kept where memory is plenty
STATUSES: tuple[Status, ...] = get_args(Status)  # from the best to the worst


class Stage(NamedTuple):
    """One fitted stage: the method's name, the options it was fitted with, the calibrator."""

    method: str
    options: Options
    calibrator: Calibrator


CHANGED = "predictions_changed"  # name of a count of rows
Prefix = tuple[tuple[str, Options], ...]


@dataclass
class FittedPrefixes:
    """Cache of prefixes of compositions, fitted to the same rows with the same context, and of the rows they map."""

    fits: dict[Prefix, Fit[Any]] = field(default_factory=dict)
    rows: dict[Prefix, Rows] = field(default_factory=dict)


@dataclass(frozen=True)
class Composition(Calibrator):
    """Fitted methods applied one after the other; see ``composition``. Every stage reads log-probabilities whose argmax
    is the prediction so far, so that its own rule for the prediction continues that of the stage before."""

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
        """Fit, reusing the prefixes in ``known`` that are fitted to these rows, and adding new ones to it."""
        cls.check_options(options)
        stages, warnings, details = list[Stage](), list[str](), list[dict[str, Any]]()
        options, done = cls.resolve_options(options, rows.k), Prefix()
        for i, (name, method, own) in enumerate(
            zip(cls.names, cls.classes, cls.split(options), strict=True)
        ):
            if i:
                if done not in known.rows:
                    known.rows[done] = rows_after(rows, known.fits[done])
                rows = known.rows[done]
            done = (*done, (name, own))
            if done not in known.fits:
                begin = (
                    context.start.stages[i].calibrator
                    if isinstance(context.start, Composition)
                    else None
                )
                told = partial(_told, context, name)
                known.fits[done] = method.fit(
                    rows, own, replace(context, progress=told, start=begin)
                )
            fitted = known.fits[done]
            stages.append(Stage(name, own, fitted.calibrator))
            warnings += [
                f"stage {i + 1} ({name}): {warning}" for warning in fitted.warnings
            ]
            details.append({"method": name, "status": fitted.status, **fitted.details})
        worst = max((d["status"] for d in details), key=STATUSES.index)
        return Fit(cls(tuple(stages)), worst, tuple(warnings), {"stages": details})

    def apply(self, block: Block) -> Prediction:
        counts = Counter[str]()
        *first, last = self.stages
        for stage in first:
            prediction = stage.calibrator.apply(block)
            counts.update(prediction.counts)
            block = block.calibrated(argmax_at_prediction(prediction))
        prediction = last.calibrator.apply(block)
        counts.update(prediction.counts)
        if self.laws.keeps_argmax:
            counts.pop(CHANGED, None)  # a later stage has restored them
        return replace(prediction, counts=dict(counts))

    @classmethod
    def takes_logarithms(cls) -> bool:
        return cls.classes[0].takes_logarithms()

    def marginals(self, block: Block) -> FloatArray:
        for stage in self.stages[:-1]:
            block = through(stage.calibrator, block)
        return self.stages[-1].calibrator.marginals(block)

    def __reduce__(self) -> tuple[Any, ...]:
        return _recomposed, (self.stages,), {"zeros": self.zeros}

    @property
    def required_transforms(self) -> Sequence[str]:
        return self.stages[0].calibrator.required_transforms

    @property
    def required_columns(self) -> Mapping[str, Sequence[str]]:
        return {
            name: known
            for stage in self.stages
            for name, known in stage.calibrator.required_columns.items()
        }

    def check_own(self, k: int) -> None:
        found = tuple(stage.method for stage in self.stages)
        if found != self.names:
            raise DataError(
                f"the stages are {'+'.join(found)}, expected {'+'.join(self.names)}"
            )
        for stage in self.stages:
            stage.calibrator.check(k)

    @classmethod
    def split(cls, options: Any) -> tuple[Options, ...]:
        """The options of every stage."""
        return tuple(
            method.Options(
                **{
                    f: getattr(options, attribute(i, f))
                    for f in method.Options.__struct_fields__
                }
            )
            for i, method in enumerate(cls.classes)
        )

    @classmethod
    def resolve_options(cls, options: Any, k: int) -> Any:
        changed: dict[str, Any] = {}
        for i, (method, own) in enumerate(
            zip(cls.classes, cls.split(options), strict=True)
        ):
            explicit = method.resolve_options(own, k)
            changed |= {
                attribute(i, f): getattr(explicit, f)
                for f in method.Options.__struct_fields__
            }
        return msgspec.structs.replace(options, **changed)

    @classmethod
    def moves_predictions(cls, options: Any) -> bool:
        first = last_restoring([method.laws for method in cls.classes])
        stages = list(zip(cls.classes, cls.split(options), strict=True))[first:]
        return any(method.moves_predictions(own) for method, own in stages)

    @classmethod
    def check_options(cls, options: Any) -> None:
        """Raise UsageError for a stage that cannot be composed, or that must be the last and is not."""
        stages, whole = (
            list(zip(cls.names, cls.classes, cls.split(options), strict=True)),
            "+".join(cls.names),
        )
        for name, method, own in stages:
            if not method.is_stage(own):
                raise UsageError(
                    f"method {whole!r}: {name} cannot be a stage of a composition"
                )
        for (name, method, own), following in zip(
            stages, cls.classes[1:], strict=False
        ):
            mode = getattr(own, "mode", None)
            if following.laws.restores_argmax:
                continue
            if method.laws.top_label_only and mode in (None, "auto", "top"):
                other = (
                    ""
                    if mode is None
                    else f", or set {name}.mode=ova, or {name}.mode=binary for two classes"
                )
                told = "calibrates only the confidence of the predicted class: it must come last"
                raise UsageError(f"{name} {told} in {whole}{other}")


def _recomposed(stages: tuple[Stage, ...]) -> Composition:
    return composition(
        tuple((stage.method, type(stage.calibrator)) for stage in stages)
    )(stages)


@cache
def composition(stages: tuple[tuple[str, type[Calibrator]], ...]) -> type[Composition]:
    """Build the class of a composition of two or more methods, in the order of application. stages : names and classes.
    Raises UsageError for an order that cannot work."""
    names, classes = zip(*stages, strict=True)
    for name, method in stages[1:]:
        if method.laws.needs_transforms:
            raise UsageError(
                f"{name} reads scores under transforms of the input: it must come first"
            )
    titles = ", then ".join(method.title for method in classes)
    parts = "\n\n".join(
        f"{name}: {(getdoc(method) or '').splitlines()[0]}" for name, method in stages
    )
    laws = [method.laws for method in classes]
    whole = ("equivariant", "improves_nll", "weights")
    promises: dict[str, Any] = {
        promise: all(getattr(law, promise) for law in laws) for promise in whole
    }
    last = laws[last_restoring(laws) :]
    promises |= {
        promise: all(getattr(law, promise) for law in last)
        for promise in ("keeps_argmax", "monotone")
    }
    # Later stages read normalised log-probabilities, where a row has no free constant. None is top_label_only: the
    # other classes keep their proportions after the stage before, not those of the input.
    promises |= {
        promise: getattr(laws[0], promise)
        for promise in ("shift_invariant", "needs_transforms")
    }
    settling = [law for law in laws if not law.restores_argmax]
    if settling:
        final = settling[-1]
        promises["class_shares"] = final.class_shares and not final.top_label_only
    promises["memory"] = max((law.memory for law in laws), key=get_args(Memory).index)
    words = f"Apply {titles}.\n\nEach stage is fitted on the log-probabilities of the one before.\n\n{parts}"
    facts = {
        "__doc__": words,
        "names": names,
        "classes": classes,
        "title": titles,
        "laws": Laws(**promises),
    }
    facts["Options"] = _options_struct(names, classes)
    return type(
        "Composition_" + "_".join(names).replace("-", "_"), (Composition,), facts
    )


def last_restoring(laws: Sequence[Laws]) -> int:
    """Index of the last stage that restores the prediction of the scores; 0 if none does."""
    places = [i for i, law in enumerate(laws) if law.restores_argmax]
    return places[-1] if places else 0


# ---- options


def attribute(stage: int, field: str) -> str:
    """Name of the attribute for a stage's option in the options of a composition."""
    return f"stage{stage}_{field}"


def joint_options(cls: type[Calibrator], stages: Sequence[Options]) -> Options:
    """Options of a composition from those of its stages."""
    values = {
        attribute(i, name): getattr(own, name)
        for i, own in enumerate(stages)
        for name in own.__struct_fields__
    }
    return cls.Options(**values)


def _options_struct(
    names: Sequence[str], classes: Sequence[type[Calibrator]]
) -> type[Options]:
    """Options of a composition: its stages' as ``stage.option``, numbered from the second stage of the same name on."""
    fields: list[tuple[str, Any, Any]] = []
    for i, (name, method) in enumerate(zip(names, classes, strict=True)):
        prefix = (
            name if name not in names[:i] else f"{name}{names[: i + 1].count(name)}"
        )
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
    """Options of a composition in another process, where its class cannot be imported by name."""
    return composition(stages).Options(**values)


def full_option_names(
    name: str, struct: type[Options], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Expand ``option`` to ``stage.option`` in a composition's settings, where only one stage has it. Unknown names are
    left unchanged. Raises UsageError for an option of several stages."""
    known = [option.encode_name for option in msgspec.structs.fields(struct)]
    full: dict[str, Any] = {}
    for key, value in settings.items():
        matches = (
            []
            if key in known
            else [option for option in known if option.partition(".")[2] == key]
        )
        if len(matches) > 1:
            raise UsageError(
                f"option {key} of {name!r} belongs to several stages: use {' or '.join(matches)}"
            )
        target = matches[0] if matches else key
        if target in full:
            raise UsageError(f"option {target} of {name!r} is set twice")
        full[target] = value
    return full


# ---- rows between stages


def _told(context: Context, name: str, what: str, done: int, total: int) -> None:
    context.progress(f"{name}: {what}", done, total)


def argmax_at_prediction(prediction: Prediction) -> FloatArray:
    """Log-probabilities whose argmax is the prediction. Where it is not, as rounding made the predicted class tie with
    one of lower index or the method predicts another class, the predicted class is raised above the rest by one unit
    in the last place."""
    log_p, label = prediction.log_probs, prediction.label
    off = np.flatnonzero(log_p.argmax(axis=1) != label)
    if len(off):
        log_p = log_p.copy()
        log_p[off, label[off]] = np.nextafter(log_p[off].max(axis=1), np.inf)
    return log_p


def through(calibrator: Calibrator, block: Block) -> Block:
    return block.calibrated(argmax_at_prediction(calibrator.apply(block)))


def _through(
    calibrator: Calibrator, work: Callable[..., Result], block: Block, *along: AnyArray
) -> Result:
    return work(through(calibrator, block), *along)


class MappedRows(Rows):
    """Rows mapped by a calibrator to log-probabilities, computed block by block in every pass."""

    def __init__(self, source: Rows, calibrator: Calibrator) -> None:
        self.source, self.calibrator = source, calibrator
        self.n, self.k = source.n, source.k
        self.kind = "log_probs"
        self.reads = source.places_of(calibrator.required_transforms)

    def blocks(
        self, transforms: Sequence[int] = (), at_once: AtOnce = 1
    ) -> Iterator[Block]:
        return map(
            partial(through, self.calibrator), self.source.blocks(self.reads, at_once)
        )

    def walked(self, walk: Walk) -> Iterator[Any]:
        work = partial(_through, self.calibrator, walk.work)
        return self.source.walked(
            replace(walk, work=work, transforms=tuple(self.reads))
        )

    def labels(self) -> IntArray:
        return self.source.labels()

    def weights(self) -> FloatArray | None:
        return self.source.weights()

    def units(self) -> Units | None:
        return self.source.units()


def rows_after(rows: Rows, fit: Fit[Any]) -> Rows:
    """Rows that the stage after a fit is fitted to: out of fold where the fit has such."""
    if fit.out_of_fold is not None:
        return fit.out_of_fold
    return mapped(rows, fit.calibrator)


def mapped(rows: Rows, calibrator: Calibrator) -> Rows:
    """Map rows by a calibrator, kept in memory when they are small."""
    lazy = MappedRows(rows, calibrator)
    size = 8 * rows.n * rows.k
    free = available_memory() or 0
    if size > CACHED_BYTES and not (size <= LARGE_BYTES and 12 * size <= free):
        return lazy
    scores = np.empty((rows.n, rows.k))
    original = np.empty(rows.n, dtype=np.int64)
    for block in lazy.blocks():
        to = slice(block.start, block.start + len(block))
        scores[to] = block.scores
        original[to] = block.original_prediction
    cached = ArrayRows(
        scores,
        lazy.labels(),
        "log_probs",
        weight=lazy.weights(),
        units=lazy.units(),
    )
    cached.original = original
    return cached


# ---- mixtures: weighted means of the probabilities of several fitted calibrators


class Member(NamedTuple):
    """One part of a mixture: the method's name, its options, the calibrator, its weight."""

    method: str
    options: Options
    calibrator: Calibrator
    weight: float


@dataclass(frozen=True)
class Mixture(Calibrator):
    """(1 - uniform) sum_j w_j p_j + uniform / k, the p_j from different calibrators.

    The prediction is the largest entry, or what it was where every member is accuracy-preserving. then : stages that
    follow the average, as in a composition. Of confidences the average is of the probability to be right.
    """

    members: tuple[Member, ...]
    uniform: float
    then: tuple[Stage, ...] = ()

    @property
    def members_keep_argmax(self) -> bool:
        """True if every member keeps the prediction and the argmax of the vector."""
        return all(
            m.calibrator.laws.keeps_argmax and m.calibrator.laws.monotone
            for m in self.members
        )

    @property
    def keeps_argmax(self) -> bool:
        """True if accuracy-preserving: predictions, and the argmax of the vector, are those of the scores."""
        laws = [stage.calibrator.laws for stage in self.then]
        last = laws[last_restoring(laws) :]
        stages_keep = all(law.keeps_argmax and law.monotone for law in last)
        restored = any(law.restores_argmax for law in laws)
        return stages_keep and (restored or self.members_keep_argmax)

    @property
    def required_transforms(self) -> Sequence[str]:
        return transforms_read_by(member.calibrator for member in self.members)

    def apply(self, block: Block) -> Prediction:
        if block.kind == "confidence":
            return Prediction.of_confidence(self.mean_confidence(block))
        prediction = self.mean(block)
        for stage in self.then:
            block = block.calibrated(argmax_at_prediction(prediction))
            prediction = stage.calibrator.apply(block)
        return prediction

    def mean(self, block: Block) -> Prediction:
        """Weighted mean of the members, without the stages that follow."""
        needed = self.required_transforms
        total: FloatArray | None = None
        for member in self.members:
            here = with_transforms_of(member.calibrator, block, needed)
            part = member.calibrator.apply(here).log_probs + np.log(member.weight)
            total = part if total is None else np.logaddexp(total, part, out=total)
        assert total is not None
        log_p = mixed_with_uniform(total, self.uniform)
        label = block.prediction if self.members_keep_argmax else log_p.argmax(axis=1)
        return Prediction(log_p, label)

    def mean_confidence(self, block: Block) -> FloatArray:
        """Weighted mean of the members' confidences, mixed with one half, (b,)."""
        total = np.zeros(len(block))
        for member in self.members:
            total += member.weight * member.calibrator.apply(block).confidence
        return np.asarray((1.0 - self.uniform) * total + 0.5 * self.uniform)

    def check_own(self, k: int) -> None:
        weights = np.array([member.weight for member in self.members])
        if not (
            len(weights) and np.all(weights > 0) and abs(weights.sum() - 1.0) <= 1e-9
        ):
            raise DataError(
                f"weights of the members are {weights.tolist()}, expected positive ones that sum to 1"
            )
        check_numbers("uniform", self.uniform, "share")
        for member in self.members:
            member.calibrator.check(k)
        for stage in self.then:
            stage.calibrator.check(k)
