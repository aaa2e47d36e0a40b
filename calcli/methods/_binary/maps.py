"""Calibrators made of maps of one probability.

Kinds of maps, and their fit and application.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, Field, dataclass, fields
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
import numpy as np
from msgspec import Meta

from calcli.block import Block
from calcli.calibrator import (
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
from calcli.methods._binary.marginals import logs, normalize, share_rest
from calcli.numerics import (
    TINY,
    FloatArray,
    in_column,
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
        weight = rows.effective_weights() if cls.laws.weights else None
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
