"""What the methods that calibrate one probability at a time share.

Such a method knows how to fit a map to scores in [0, 1] with 0/1 outcomes and how to
evaluate it. Here is the rest, once: which scores and outcomes those are (the predicted
class's confidence and whether it is right, or every class's probability against the
rest), what happens to classes that never occur, and how a whole vector comes out.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from msgspec import Meta

from calcli.calibrator import Calibrator, Context, Fit, Laws, Options, Prediction, Status
from calcli.errors import DataError, FitError
from calcli.numerics import TINY, FloatArray, IntArray, floored_log, log_normalizer, log_softmax
from calcli.rows import Block, Rows

Mode = Literal["top", "ova", "marginal"]

PER_CLASS = (
    "ova (one map per class against the rest, rows divided by their sum), marginal (the same maps;"
    " their values before the division are what Kumar et al. measure)"
)


class ModeOptions(Options, frozen=True):
    """The option that every method of this family has."""

    mode: Annotated[
        Mode,
        Meta(description=f"what is calibrated: top (the predicted class's confidence; predictions stay), {PER_CLASS}"),
    ] = "top"


TOP_LAWS = Laws(
    keeps_argmax=True,
    monotone=False,
    shift_invariant=True,
    equivariant=True,
    improves_nll=False,
    top_label_only=True,
    weights=True,
    memory="row",
)
"""What these methods promise with their default, mode=top."""

PER_CLASS_LAWS = Laws(
    keeps_argmax=False,
    monotone=False,
    shift_invariant=True,
    equivariant=True,
    improves_nll=False,
    top_label_only=False,
    weights=True,
    memory="array",
)
"""What one-vs-all maps promise."""


@dataclass(frozen=True)
class Sample:
    """Scores of one binary question.

    p : (n,) probabilities. hit : (n,) outcomes, 0.0 or 1.0. weight : (n,) all > 0, or None.
    """

    p: FloatArray
    hit: FloatArray
    weight: FloatArray | None = None

    @property
    def positive(self) -> float:
        """Weight of the positive outcomes."""
        return float(self.hit.sum() if self.weight is None else self.weight @ self.hit)

    @property
    def mass(self) -> float:
        """Weight of all outcomes."""
        return float(len(self.p) if self.weight is None else self.weight.sum())

    def part(self, index: IntArray) -> "Sample":
        """Some of the rows."""
        return Sample(self.p[index], self.hit[index], None if self.weight is None else self.weight[index])


class MapFit(NamedTuple):
    """One fitted map.

    params : its parameters, in the order of the calibrator's fields. note : what the user
    should know, a phrase (equal phrases of many classes are told once). record : numbers
    worth recording; the largest over the classes is kept.
    """

    params: tuple[Any, ...]
    status: Status = "ok"
    note: str = ""
    record: dict[str, float] = {}


SEVERITY: tuple[Status, ...] = ("ok", "at_bound", "no_root", "degenerate", "not_converged")

FitMap = Callable[[Sample], MapFit]


@dataclass(frozen=True)
class BinaryCalibrator(Calibrator):
    """A calibrator made of maps of one probability.

    A subclass declares its maps' parameters as fields, either ``Curves`` (the array of the
    only map, or a tuple with one per class) or ``param("maps")`` (one number per map), and
    says how to fit (``fit_map``) and evaluate (``curve``) one map.
    """

    identity: ClassVar[tuple[Any, ...]] = ()
    """Parameters of the map that changes nothing, for classes that never occur."""

    @classmethod
    @abstractmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        """Fit one map."""

    @staticmethod
    @abstractmethod
    def curve(p: FloatArray, *params: Any) -> FloatArray:
        """Evaluate a map at probabilities p : (b,). Returns (b,) in [0, 1]."""

    @classmethod
    def advice(cls, rows: Rows, options: Any) -> Iterator[str]:
        """Warnings that follow from the sizes alone."""
        yield from ()

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        maps = fit_maps(cls, rows, options.mode, lambda sample: cls.fit_map(sample, options), context)
        return maps.finish(cls(*maps.params), cls.advice(rows, options))

    def tempered(self, z: FloatArray) -> FloatArray:
        """The logits whose probabilities the maps take."""
        return z

    @cached_property
    def maps(self) -> list[tuple[Any, ...]]:
        """Parameters of each map: one map in mode=top, otherwise one per class."""
        arrays = self._arrays()
        return [tuple(v[c] for v in arrays) for c in range(len(arrays[0]))]

    def _arrays(self) -> list[Any]:
        """The maps' parameters, field by field, each indexed by the map."""
        values = [(f.metadata.get("shape"), getattr(self, f.name)) for f in fields(self)]
        return [
            v if shape == ("maps",) or isinstance(v, tuple) else (v,)
            for shape, v in values
            if isinstance(v, tuple | np.ndarray)
        ]

    def marginals(self, block: Block) -> FloatArray:
        """Every class's calibrated probability before rows are normalised, (b, k) float64.

        What mode=marginal is about; of maps per class only.
        """
        p = np.ascontiguousarray(probabilities(self.tempered(block.z)).T)
        for c, params in enumerate(self.maps):
            p[c] = self.curve(p[c], *params)
        return np.ascontiguousarray(p.T)

    def apply(self, block: Block) -> Prediction:
        label = block.prediction
        if len(self.maps) > 1:
            return normalize(self.marginals(block), block.z, label)
        z = self.tempered(block.z)
        p_top = probabilities(z)[np.arange(len(z)), label]
        return Prediction(share_rest(z, label, self.curve(p_top, *self.maps[0])), label)

    def check(self, k: int) -> None:
        counts = {len(v) for v in self._arrays()}
        if counts not in ({1}, {k}):
            found = " and ".join(map(str, sorted(counts)))
            raise DataError(f"there are {found} maps, expected 1 or one for each of {k} classes")


# ---- scores and outcomes


def probabilities(z: FloatArray) -> FloatArray:
    """Softmax, bit by bit as ``Rows.probability_columns`` computes it. z : (b, k)."""
    return np.exp(z - log_normalizer(z)[:, None])


def top_sample(rows: Rows, weight: FloatArray | None, temperature: float) -> Sample:
    """Confidence of the predicted class, and whether it is the label."""
    p, hit = np.empty(rows.n), np.empty(rows.n)
    for block in rows.blocks():
        here = slice(block.start, block.start + len(block))
        label = block.prediction
        p[here] = probabilities(block.z / temperature)[np.arange(len(block)), label]
        hit[here] = label == block.labels
    return Sample(p, hit, weight)


def class_samples(rows: Rows, weight: FloatArray | None, temperature: float) -> Iterator[Sample]:
    """Probability of each class, class by class, and whether it is the label."""
    y = rows.labels()
    for first, columns in rows.probability_columns(temperature=temperature):
        for c, p in enumerate(columns, first):
            yield Sample(p, (y == c).astype(np.float64), weight)


def counted_rows(n: int, weight: FloatArray | None) -> IntArray:
    """Indices of the rows of positive weight. Raises FitError when there are none."""
    index = np.arange(n) if weight is None else np.flatnonzero(weight > 0)
    if not len(index):
        raise FitError("all sample weights are 0; at least one row must count")
    return index


# ---- fitting one map, or one per class


@dataclass
class Maps:
    """Fitted maps and what there is to say about them.

    params : one value per field of the calibrator, ready for its constructor.
    """

    params: list[Any]
    status: Status = "ok"
    warnings: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def before(self, stage: Fit[Any]) -> None:
        """Add what a fit that came before these maps had to say."""
        self.warnings[:0] = stage.warnings
        self.status = max(self.status, stage.status, key=SEVERITY.index)

    def finish(self, calibrator: Any, advice: Iterable[str]) -> Fit[Any]:
        """The fit, with further warnings."""
        return Fit(calibrator, self.status, (*self.warnings, *advice), self.details)


def fit_maps(
    cls: type[BinaryCalibrator],
    rows: Rows,
    mode: Mode,
    fit_map: FitMap,
    context: Context,
    temperature: float = 1.0,
) -> Maps:
    """Fit the one map of mode=top, or one per class.

    A class without a positive row keeps the identity, which is told, as is the mean sum
    over classes of the calibrated probabilities, that rows are divided by. Rows of weight
    0 are left out; methods that do not use weights see none.
    """
    weight = rows.weights() if cls.laws.weights else None
    counted = counted_rows(rows.n, weight)
    if mode == "top":
        one = fit_map(top_sample(rows, weight, temperature).part(counted))
        params = [np.array([v]) if isinstance(v, float) else v for v in one.params]
        return Maps(params, one.status, [one.note] if one.note else [], dict(one.record))

    fits: list[MapFit] = []
    absent: list[int] = []
    noted: dict[str, list[int]] = {}
    row_sum = np.zeros(rows.n)
    for c, sample in enumerate(class_samples(rows, weight, temperature)):
        context.progress("fitting one map per class", c, rows.k)
        part = sample if len(counted) == rows.n else sample.part(counted)
        if part.hit.any():
            fits.append(fit_map(part))
            if fits[-1].note:
                noted.setdefault(fits[-1].note, []).append(c)
        else:
            fits.append(MapFit(cls.identity))
            absent.append(c)
        row_sum += cls.curve(sample.p, *fits[-1].params)
    warnings = [f"{note}: {name_classes(classes)}" for note, classes in noted.items()]
    if absent:
        warnings.append(f"without a row in these data, and left as they were: {name_classes(absent)}")
    columns = zip(*(one.params for one in fits), strict=True)
    details: dict[str, Any] = {"row_sum_mean": float(row_sum.mean()), "zero_rows": int((row_sum < TINY).sum())}
    for one in fits:
        for name, value in one.record.items():
            details[name] = max(value, details.get(name, value))
    status = max((one.status for one in fits), key=SEVERITY.index)
    params = [np.array(v) if isinstance(v[0], float) else v for v in columns]
    return Maps(params, status, warnings, details)


def name_classes(classes: list[int]) -> str:
    """``class 3`` / ``classes 3, 5, 8 and 12 more``."""
    shown = ", ".join(map(str, classes[:8]))
    more = f" and {len(classes) - 8} more" if len(classes) > 8 else ""
    return f"{'class' if len(classes) == 1 else 'classes'} {shown}{more}"


def few_rows_per_class(rows: Rows, mode: Mode, enough: int = 50) -> Iterator[str]:
    """Advice against flexible maps per class on too few rows."""
    if mode != "top" and rows.n < enough * rows.k:
        yield (
            f"{rows.n} rows are {rows.n / rows.k:.3g} per class: one flexible map per class follows their noise;"
            " ts, vs or mode=top would serve better"
        )


# ---- from calibrated scores to vectors


def share_rest(z: FloatArray, label: IntArray, q: FloatArray) -> FloatArray:
    """Log-probabilities with q on the label and the rest shared in softmax's proportions.

    z : (b, k) logits, label : (b,), q : (b,) in [0, 1]. The shares are taken among the
    other classes alone, so they stay exact where 1 - p has no digits left.
    """
    at = np.arange(len(z))
    rest = z.copy()
    rest[at, label] = -np.inf
    out = log_softmax(rest)
    out += floored_log(1.0 - q)[:, None]
    out[at, label] = floored_log(q)
    return out


def normalize(q: FloatArray, z: FloatArray, label: IntArray) -> Prediction:
    """Rows of one-vs-all probabilities divided by their sums; rows of zeros stay uncalibrated.

    q : (b, k) in [0, 1]. z, label : uncalibrated logits (b, k) and predictions (b,).
    """
    total = q.sum(axis=1)
    zero = total < TINY
    log_probs = floored_log(q) - np.log(np.where(zero, 1.0, total))[:, None]
    if not zero.any():
        return Prediction(log_probs, q.argmax(axis=1), {"zero_rows": 0})
    log_probs[zero] = log_softmax(z[zero])
    return Prediction(log_probs, np.where(zero, label, q.argmax(axis=1)), {"zero_rows": int(zero.sum())})


# ---- maps as lists of numbers


def step(p: FloatArray, edges: FloatArray, values: FloatArray) -> FloatArray:
    """Value of the right-closed bin of each score; no bins at all is the identity."""
    if not len(edges):
        return p
    found: FloatArray = values[np.searchsorted(edges[1:-1], p, side="left")]
    return found


def line(p: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Straight lines between knots, constant beyond the ends; no knots are the identity."""
    if not len(x):
        return p
    # Knots a denormal apart make a slope that overflows: keep the range whatever happens.
    return np.clip(np.interp(p, x, y), 0.0, 1.0)


EMPTY = np.empty(0)


def check_steps(edges: FloatArray, values: FloatArray) -> None:
    """Raise DataError unless edges rise from 0 to 1 with one probability per bin between."""
    if len(edges) == len(values) == 0:
        return
    if len(edges) != len(values) + 1 or len(edges) < 2:
        raise DataError(f"there are {len(edges)} edges and {len(values)} values, expected one edge more than values")
    if not (edges[0] == 0.0 and edges[-1] == 1.0 and (np.diff(edges) > 0).all()):
        raise DataError("edges do not rise from 0 to 1")
    check_probabilities(values)


def check_line(x: FloatArray, y: FloatArray) -> None:
    """Raise DataError unless knots have rising scores and probabilities for values."""
    if len(x) != len(y):
        raise DataError(f"there are {len(x)} scores and {len(y)} values, expected as many")
    if not (np.diff(x) > 0).all():
        raise DataError("scores of the knots do not rise")
    check_probabilities(y)


def check_probabilities(values: FloatArray) -> None:
    """Raise DataError unless all values lie in [0, 1]."""
    if not ((values >= 0) & (values <= 1)).all():
        raise DataError("values are not all between 0 and 1")


def check_finite(**numbers: FloatArray) -> None:
    """Raise DataError unless all parameters are finite."""
    for name, array in numbers.items():
        if not np.isfinite(array).all():
            raise DataError(f"params.{name} holds a number that is not finite")
