"""Calibrators made of maps of one probability.

Kinds of maps, and their fit and application.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, Field, dataclass, fields, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
import numpy as np
from msgspec import Meta

from calcli.block import Block
from calcli.calibrator import (
    C,
    Calibrator,
    Context,
    Curves,
    Fit,
    Laws,
    Options,
    Prediction,
    param,
)
from calcli.composition import STATUSES
from calcli.errors import DataError, FitError
from calcli.mapped_rows import mapped_block
from calcli.methods._binary import log_odds as odds
from calcli.methods._binary.log_odds import MapFit, Sample, log_sigmoid
from calcli.numerics import (
    TINY,
    FloatArray,
    IntArray,
    floored_log,
    in_column,
    log_softmax,
    overridable,
    sigmoid,
)
from calcli.records import cached_property
from calcli.rows import Rows
from calcli.zeros import OLD

EMPTY = np.empty(0)  # edges, values or knots of the identity


class ModeOptions(Options, frozen=True):
    """Option of every method of this family."""

    mode: Annotated[
        Literal["auto", "binary", "top", "ova", "marginal"],
        Meta(
            description=(
                "what is calibrated: auto (binary for two classes, else top), binary"
                " (the probability of class 1 of two), top (the predicted class's"
                " confidence; predictions stay), ova (one map per class against the"
                " rest, rows divided by their sum), marginal (the same maps; their"
                " values before the division are what Kumar et al. measure)"
            )
        ),
    ] = "auto"


TOP_LABEL = Laws(
    shift_invariant=True,
    equivariant=True,
    confidence=True,
    top_label_only=True,
    weights=True,
    class_shares=True,
    memory="row",
)
"""Laws of these methods under the default mode=auto: with two classes P(class 1) may
cross 1/2.
"""


@dataclass(frozen=True)
class BinaryCalibrator(Calibrator):
    """A calibrator made of maps of one probability.

    A subclass declares its maps' parameters as fields, either ``Curves`` (the array of
    the only map, or a tuple with one per class) or ``param("maps")`` (one number per
    map), and says how to fit (``fit_map``) and evaluate (``curve``) one map.

    mode : probabilities that are mapped. None in artifacts of calcli 0.1, whose maps
    are of the top label or of each class and take probabilities, or log-odds clipped
    ``clip`` away from certainty. sure : log-odds of confidences of exactly 1, and minus
    those of exactly 0, if the fit has met some.
    """

    _: KW_ONLY
    mode: str | None = param(
        optional=True, default=None, within="binary|top|ova|marginal"
    )
    sure: float | None = param(optional=True, default=None)

    # parameters of the identity, for classes that never occur
    identity: ClassVar[tuple[Any, ...]] = ()
    takes_log_odds: ClassVar[bool] = False  # maps take log-odds, not probabilities
    # only the order of log-odds counts, so infinite ones do no harm
    only_ranks: ClassVar[bool] = False
    clip: ClassVar[float] = 1e-12  # see ``mode``
    flexible: ClassVar[bool] = False  # a map can overfit few rows

    @classmethod
    @abstractmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        """Fit one map."""

    @staticmethod
    @abstractmethod
    def curve(x: FloatArray, *params: Any) -> FloatArray:
        """Evaluate a map at probabilities or log-odds x : (b,).

        Returns (b,) in [0, 1].
        """

    def log_curve(self, x: FloatArray, *params: Any) -> tuple[FloatArray, FloatArray]:
        """Logarithms of the map's value and of 1 minus it, (b,) each."""
        return logs(self.curve(x, *params))

    @classmethod
    def advice(cls, rows: Rows, options: Any) -> Iterator[str]:
        """Warnings that follow from numbers of rows, classes and options alone."""
        is_of_classes = getattr(options, "mode", "ova") in ("ova", "marginal")
        if cls.flexible and is_of_classes and rows.n < 50 * rows.k:
            yield (
                f"{rows.n} rows are {rows.n / rows.k:.3g} per class: one flexible map"
                " per class follows their noise; ts, vs or mode=top would serve better"
            )

    @classmethod
    def resolve_options(cls, options: Any, k: int) -> Any:
        mode = getattr(options, "mode", None)
        if k == 1 and mode not in (None, "auto", "top"):
            raise FitError(
                f"mode={mode} needs the scores of classes, these rows hold one"
                " confidence each: mode=top"
            )
        if mode == "binary" and k != 2:
            raise FitError(
                "mode=binary calibrates the probability of class 1 of two, these rows"
                f" have {k} classes"
            )
        if mode != "auto":
            return options
        return msgspec.structs.replace(options, mode="binary" if k == 2 else "top")

    @classmethod
    def moves_predictions(cls, options: Any) -> bool:
        return getattr(options, "mode", "ova") != "top"

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        return cls.fit_maps(rows, cls.resolve_options(options, rows.k), context)

    @classmethod
    def fit_maps(
        cls,
        rows: Rows,
        options: Any,
        context: Context,
        fit_map: Callable[..., MapFit] | None = None,
        **fields_beyond: Any,
    ) -> Fit[Self]:
        """Fit the one map of mode=binary or top, or one per class.

        Methods without that option have one per class. fields_beyond : further fields
        of the calibrator. A class without a positive row keeps the identity, with a
        warning. Details report the mean over rows of the sum of calibrated
        probabilities, by which rows are divided. Rows of weight 0 are left out; methods
        that do not use weights see none.
        """
        mode = getattr(options, "mode", "ova")
        weight = rows.weights() if cls.laws.weights else None
        counted = odds.counted_rows(rows.n, weight)
        sure, warnings = cls.certainty(rows)
        warnings = [*warnings, *cls.advice(rows, options)]
        if fit_map is None:
            fit_map = partial(cls.fit_map, options=options)
        build = partial(cls, mode=mode, sure=sure, **fields_beyond)
        if mode in ("binary", "top"):
            sample = odds.single_sample(rows, mode, weight).part(counted).within(sure)
            return cls.of_one_map(fit_map(sample), build, warnings)

        fits: list[MapFit] = []
        row_sum = np.zeros(rows.n)
        for c, sample in enumerate(odds.class_samples(rows, weight)):
            context.progress("fitting one map per class", c, rows.k)
            part = sample if len(counted) == rows.n else sample.part(counted)
            one = fit_map(part) if part.hit.any() else MapFit(cls.identity)
            fits.append(one)
            x = sample.s if cls.takes_log_odds else sample.p
            row_sum += cls.curve(x, *one.params)
        details: dict[str, Any] = {
            "row_sum_mean": float(row_sum.mean()),
            "zero_rows": int((row_sum < TINY).sum()),
        }
        for one in fits:
            for name, value in one.record.items():
                details[name] = max(value, details.get(name, value))
        params: dict[str, Any] = {}
        columns = zip(*(one.params for one in fits), strict=True)
        for field, values in zip(cls.map_fields(), columns, strict=True):
            are_numbers = isinstance(values[0], float)
            params[field.name] = np.array(values) if are_numbers else values
        status = max((one.status for one in fits), key=STATUSES.index)
        warnings = [*cls.notes_of_classes(rows, fits), *warnings]
        return Fit(build(**params), status, tuple(warnings), details)

    @classmethod
    def of_one_map(
        cls, one: MapFit, build: Callable[..., Self], warnings: list[str]
    ) -> Fit[Self]:
        """Make the fit of a calibrator that has one map."""
        params: dict[str, Any] = {}
        for field, value in zip(cls.map_fields(), one.params, strict=True):
            is_number = isinstance(value, float)
            params[field.name] = np.array([value]) if is_number else value
        if one.log_odds is not None:
            params["log_odds"] = one.log_odds
        if one.note:
            warnings = [one.note, *warnings]
        return Fit(build(**params), one.status, tuple(warnings), dict(one.record))

    @classmethod
    def notes_of_classes(cls, rows: Rows, fits: list[MapFit]) -> list[str]:
        """Warnings of the maps, equal ones once for all their classes."""
        classes_by_note: dict[str, list[int]] = {}
        for c, one in enumerate(fits):
            if one.note:
                classes_by_note.setdefault(one.note, []).append(c)
        warnings = []
        for note, classes in classes_by_note.items():
            noun = "class" if len(classes) == 1 else "classes"
            warnings.append(f"{note}: {noun} {rows.called(classes)}")
        absent = sum(one.params is cls.identity for one in fits)
        if absent:
            warnings.append(
                f"classes without calibration rows ({absent} of {rows.k}): each"
                " is left as it was"
            )
        return warnings

    @classmethod
    def takes_logarithms(cls) -> bool:
        return cls.takes_log_odds and not cls.only_ranks

    @classmethod
    def certainty(cls, rows: Rows) -> tuple[float | None, list[str]]:
        """Find ``sure`` where some confidences are exactly 0 or 1, and warnings.

        These enter half as far from certainty as the nearest other, as in ``floor``
        (Martín-Fernández et al. 2003). None where their rounding says how far.
        """
        if rows.kind != "confidence" or not cls.takes_logarithms():
            return None, []
        if rows.zeros is not None and rows.zeros.is_rounded:
            return None, []
        c = rows.array().astype(np.float64)
        distance = np.minimum(c, 1.0 - c)  # from certainty
        is_certain = distance == 0.0
        if not is_certain.any():
            return None, []
        nearest = distance.min(initial=0.5, where=~is_certain, keepdims=True)
        sure = -float(odds.confidence_log_odds(nearest / 2.0).item())
        return sure, [
            f"{int(is_certain.sum())} of {rows.n} confidences are exactly 0 or 1, whose"
            f" log-odds are infinite: they enter as {sure:.3g}; calcli fit --method"
            " venn-abers needs no log-odds"
        ]

    @property
    def upstream(self) -> Calibrator | None:
        """Calibrator of whole rows that comes before the maps, if there is one."""
        return None

    def seen(self, block: Block) -> Block:
        """Block behind ``upstream``, from which the maps take their inputs."""
        return block if self.upstream is None else mapped_block(self.upstream, block)

    @cached_property
    def maps(self) -> list[tuple[Any, ...]]:
        """Parameters of each map: one map, or one per class."""
        arrays = self._arrays()
        maps = []
        for number in range(len(arrays[0])):
            maps.append(tuple(array[number] for array in arrays))
        return maps

    @classmethod
    def map_fields(cls) -> list[Field[Any]]:
        """List the fields that hold parameters of the maps, as ``curve`` takes them."""
        chosen = []
        for one in fields(cls):
            if one.metadata["shape"] == ("maps",) or one.type == Curves:
                chosen.append(one)
        return chosen

    def _arrays(self) -> list[Any]:
        """Parameters of the maps, field by field, each indexed by the map."""
        arrays = []
        for one in self.map_fields():
            value = getattr(self, one.name)
            if value is None:
                continue
            is_indexed = one.metadata["shape"] or isinstance(value, tuple)
            arrays.append(value if is_indexed else (value,))
        return arrays

    def inputs(self, block: Block) -> FloatArray:
        """Compute the input of the maps: (b,) for one map, (b, k) for one per class.

        The block comes from ``seen``.
        """
        z = block.z
        many = len(self.maps) > 1
        if self.mode is None:
            p = odds.probabilities(z)
            if not many:
                p = in_column(p, block.prediction)
            return odds.clipped_log_odds(p, self.clip) if self.takes_log_odds else p
        if many:
            s = odds.one_vs_rest_log_odds(z, block.stored_zeros)
            return s if self.takes_log_odds else sigmoid(s)
        s = odds.single_log_odds(block, self.mode)
        has_log_odds = getattr(self, "log_odds", None) is not None
        return s if self.takes_log_odds or has_log_odds else sigmoid(s)

    def marginals(self, block: Block) -> FloatArray:
        if len(self.maps) == 1:
            return super().marginals(block)
        columns = np.ascontiguousarray(self.inputs(self.seen(block)).T)
        for c, params in enumerate(self.maps):
            columns[c] = self.curve(columns[c], *params)
        return np.ascontiguousarray(columns.T)

    def apply(self, block: Block) -> Prediction:
        if block.kind == "confidence":
            c = block.scores[:, 0].astype(np.float64)
            x = c
            if self.takes_log_odds:
                s = odds.confidence_log_odds(c, block.zeros or OLD)
                x = odds.within(s, self.sure)
            return Prediction.of_confidence(self.curve(x, *self.maps[0]))
        if len(self.maps) > 1:
            return normalize(self.marginals(block), block.z, block.prediction)
        inner = self.seen(block)
        log_q, log_rest = self.log_curve(self.inputs(inner), *self.maps[0])
        if self.mode == "binary":
            log_probs = np.stack([log_rest, log_q], axis=1)
            label = log_probs.argmax(axis=1)
        else:
            label = inner.prediction
            log_probs = share_rest(inner.z, label, log_q, log_rest)
        changed = {"predictions_changed": int((label != block.prediction).sum())}
        return Prediction(
            log_probs,
            label,
            changed,
            floored=self.mode is None or not self.takes_log_odds,
        )

    def check_own(self, k: int) -> None:
        counts = {len(v) for v in self._arrays()}
        expected = {
            None: (1, k),
            "binary": (1,),
            "top": (1,),
            "ova": (k,),
            "marginal": (k,),
        }[self.mode]
        if k == 1 and (self.mode != "top" or self.upstream is not None):
            raise DataError(
                "params are of scores of classes, but input_kind is confidence"
            )
        if self.mode == "binary" and k != 2:
            raise DataError(f"params.mode is 'binary' for {k} classes")
        if len(counts) > 1 or not counts <= set(expected):
            actual = " and ".join(map(str, sorted(counts)))
            wanted = str(expected[0])
            if self.mode is None:
                wanted = f"1 or one for each of {k} classes"
            raise DataError(f"there are {actual} maps, expected {wanted}")


class LogisticCalibrator(BinaryCalibrator):
    """Maps from log-odds to log-odds, so that both tails stay exact."""

    takes_log_odds = True

    @staticmethod
    @abstractmethod
    def logit(s: FloatArray, *params: Any) -> FloatArray:
        """Log-odds of the map's value at log-odds s : (b,)."""

    @classmethod
    def curve(cls, x: FloatArray, *params: Any) -> FloatArray:
        return sigmoid(cls.logit(x, *params))

    def log_curve(self, x: FloatArray, *params: Any) -> tuple[FloatArray, FloatArray]:
        if self.mode is None:
            return super().log_curve(x, *params)
        u = self.logit(x, *params)
        return log_sigmoid(u), log_sigmoid(-u)


# ---- maps that are tables


@dataclass(frozen=True)
class Table(BinaryCalibrator):
    """Base of maps that are tables over the probability.

    log_odds : log-odds of the knots, or of the inner edges, where calibration rows have
    different log-odds beyond 27.6, whose probabilities tie (``numerics.TIE``) or round
    to 1. The table is then over log-odds, with lines straight in them.
    """

    _: KW_ONLY
    log_odds: Curves | None = param(optional=True, default=None)

    identity = (EMPTY, EMPTY)
    flexible = True
    # raises DataError for invalid parameters of a map
    check_map: ClassVar[Callable[..., None]]

    def _arrays(self) -> list[Any]:
        arrays = super()._arrays()
        if self.log_odds is not None:
            is_indexed = isinstance(self.log_odds, tuple)
            arrays.append(self.log_odds if is_indexed else (self.log_odds,))
        return arrays

    def check_own(self, k: int) -> None:
        super().check_own(k)
        if self.log_odds is not None and (
            self.mode not in ("binary", "top") or len(self.maps) > 1 or k == 1
        ):
            raise DataError("params.log_odds is of one map of the log-odds of classes")
        for one in self.maps:
            self.check_map(*one)


@dataclass(frozen=True)
class Steps(Table):
    """Base of step functions: one value for each bin between the edges."""

    edges: Curves = param()
    values: Curves = param(within="0 to 1")

    @staticmethod
    def check_map(
        edges: FloatArray, values: FloatArray, log_odds: FloatArray | None = None
    ) -> None:
        """Raise DataError unless edges rise from 0 to 1 with one value per bin.

        So must the log-odds of the edges.
        """
        if len(edges) == len(values) == 0 and log_odds is None:
            return
        if len(edges) != len(values) + 1 or len(edges) < 2:
            raise DataError(
                f"there are {len(edges)} edges and {len(values)} values, expected one"
                " edge more than values"
            )
        rising = bool((np.diff(edges) > 0).all())
        if log_odds is not None:
            rising = are_log_odds(log_odds, edges[1:-1])
        if not (edges[0] == 0.0 and edges[-1] == 1.0 and rising):
            raise DataError("edges do not rise from 0 to 1")

    @staticmethod
    def curve(x: FloatArray, *params: Any) -> FloatArray:
        edges, values, log_odds = (*params, None)[:3]
        if log_odds is not None:
            edges = np.pad(log_odds, 1)
        return step(x, edges, values)


@dataclass(frozen=True)
class PiecewiseLinear(Table):
    """Base of piecewise linear maps through the knots (scores, values)."""

    scores: Curves = param()
    values: Curves = param(within="0 to 1")

    @staticmethod
    def check_map(
        x: FloatArray, y: FloatArray, log_odds: FloatArray | None = None
    ) -> None:
        """Raise DataError unless knots have rising scores and as many values.

        So must the log-odds of the scores.
        """
        if len(x) != len(y):
            raise DataError(
                f"there are {len(x)} scores and {len(y)} values, expected as many"
            )
        rising = bool((np.diff(x) > 0).all())
        if log_odds is not None:
            rising = are_log_odds(log_odds, x)
        if not rising:
            raise DataError("scores of the knots do not rise")

    @staticmethod
    def curve(x: FloatArray, *params: Any) -> FloatArray:
        scores, values, log_odds = (*params, None)[:3]
        return line(x, scores if log_odds is None else log_odds, values)


def behind(first: Fit[Any], fit: Fit[C]) -> Fit[C]:
    """Describe a fit to the output of a first fit.

    It has the warnings of both and the worse status.
    """
    status = max(first.status, fit.status, key=STATUSES.index)
    return replace(fit, status=status, warnings=(*first.warnings, *fit.warnings))


@overridable
def step(p: FloatArray, edges: FloatArray, values: FloatArray) -> FloatArray:
    """Value of the right-closed bin of each score; the identity without bins."""
    if not len(edges):
        return p
    value: FloatArray = values[np.searchsorted(edges[1:-1], p, side="left")]
    return value


STEEP_UNIT = 2.0**512
"""Factor for knots so close together that their slope would overflow."""


def line(p: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Draw straight lines between knots, constant beyond the ends.

    Without knots it is the identity.
    """
    if not len(x):
        return p
    # Knots a denormal apart make a slope that overflows. A power of two as the unit keeps
    # it finite and changes no digit. Traced graphs have no such knots.
    if isinstance(p, np.ndarray) and np.diff(x).min(initial=1.0) < TINY:
        p = p * STEEP_UNIT
        x = x * STEEP_UNIT
    return np.clip(np.interp(p, x, y), 0.0, 1.0)


def are_log_odds(s: FloatArray, p: FloatArray) -> bool:
    """True if s rises and holds the log-odds of p."""
    return (
        len(s) == len(p)
        and bool((np.diff(s) > 0).all())
        and np.allclose(sigmoid(s), p, rtol=1e-9, atol=0)
    )


# ---- from calibrated probabilities of single classes to rows of log-probabilities


def logs(q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithms of q and of 1 - q, floored."""
    return floored_log(q), floored_log(1.0 - q)


def share_rest(
    z: FloatArray, label: IntArray, log_q: FloatArray, log_rest: FloatArray
) -> FloatArray:
    """Give q to the label and share 1 - q among the others.

    The shares have softmax's proportions. z : (b, k) logits, label : (b,), log_q and
    log_rest : (b,) logarithms of q and 1 - q. The shares are taken among the other
    classes alone, so they stay exact where 1 - p has no digits left.
    """
    here = np.arange(len(z))
    rest = z.copy()
    rest[here, label] = -np.inf
    out = log_softmax(rest)
    out += log_rest[:, None]
    out[here, label] = log_q
    return out


def normalize(q: FloatArray, z: FloatArray, label: IntArray) -> Prediction:
    """Divide rows of probabilities (b, k) by their sums.

    Rows of zeros become softmax(z) with prediction label.
    """
    total = q.sum(axis=1)
    zero = total < TINY
    log_probs = floored_log(q) - np.log(np.where(zero, 1.0, total))[:, None]
    if not zero.any():
        return Prediction(log_probs, q.argmax(axis=1), {"zero_rows": 0}, floored=True)
    log_probs[zero] = log_softmax(z[zero])
    prediction = np.where(zero, label, q.argmax(axis=1))
    counts = {"zero_rows": int(zero.sum())}
    return Prediction(log_probs, prediction, counts, floored=True)
