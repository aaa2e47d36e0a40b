"""Calibrators made of maps of one probability: which maps there are, how they are fitted and applied."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, fields, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
import numpy as np
from msgspec import Meta

from calcli.cached import cached_property
from calcli.calibrator import C, Calibrator, Context, Curves, Fit, Laws, Options, Prediction, param
from calcli.composition import STATUSES, through
from calcli.errors import DataError, FitError
from calcli.fast_dataclass import dataclass
from calcli.methods._binary.curves import EMPTY, check_line, check_steps, line, logs, normalize, share_rest, step
from calcli.methods._binary.log_odds import (
    Sample,
    class_samples,
    clipped_log_odds,
    confidence_log_odds,
    counted_rows,
    log_sigmoid,
    one_vs_rest_log_odds,
    probabilities,
    single_sample,
    top_log_odds,
    within,
)
from calcli.methods._binary.logistic import MapFit
from calcli.numerics import TINY, FloatArray, sigmoid
from calcli.rows import Block, Rows


class ModeOptions(Options, frozen=True):
    """The option that every method of this family has."""

    mode: Annotated[
        Literal["auto", "binary", "top", "ova", "marginal"],
        Meta(
            description="what is calibrated: auto (binary for two classes, else top), binary (the probability of class"
            " 1 of two), top (the predicted class's confidence; predictions stay), ova (one map per class against the"
            " rest, rows divided by their sum), marginal (the same maps; their values before the division are what"
            " Kumar et al. measure)"
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
"""What these methods promise with their default, mode=auto: with two classes P(class 1) may cross 1/2."""


@dataclass(frozen=True)
class BinaryCalibrator(Calibrator):
    """A calibrator made of maps of one probability.

    A subclass declares its maps' parameters as fields, either ``Curves`` (the array of the
    only map, or a tuple with one per class) or ``param("maps")`` (one number per map), and
    says how to fit (``fit_map``) and evaluate (``curve``) one map.

    mode : what the maps are of. None in artifacts of calcli 0.1, whose maps are of the top
    label or of each class and take probabilities, or log-odds clipped ``clip`` away from
    certainty. sure : log-odds that stand for confidences of exactly 1, and less for 0, where the fit has met some.
    """

    _: KW_ONLY
    mode: str | None = param(optional=True, default=None, within="binary|top|ova|marginal")
    sure: float | None = param(optional=True, default=None)

    identity: ClassVar[tuple[Any, ...]] = ()  # parameters of the map that changes nothing, for classes that never occur

    takes_log_odds: ClassVar[bool] = False  # whether the maps take log-odds rather than probabilities

    only_ranks: ClassVar[bool] = False  # whether only the order of these counts, so that infinite ones do no harm

    clip: ClassVar[float] = 1e-12  # see ``mode``

    @classmethod
    @abstractmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        """Fit one map."""

    @staticmethod
    @abstractmethod
    def curve(x: FloatArray, *params: Any) -> FloatArray:
        """Evaluate a map at probabilities or log-odds x : (b,). Returns (b,) in [0, 1]."""

    def log_curve(self, x: FloatArray, *params: Any) -> tuple[FloatArray, FloatArray]:
        """Logarithms of the map's value and of its complement, (b,) each."""
        return logs(self.curve(x, *params))

    flexible: ClassVar[bool] = False  # whether a map follows the noise of few rows

    @classmethod
    def advice(cls, rows: Rows, options: Any) -> Iterator[str]:
        """Warnings that follow from the sizes alone."""
        if cls.flexible:
            yield from few_rows_per_class(rows, options.mode)

    @classmethod
    def resolve_options(cls, options: Any, k: int) -> Any:
        mode = getattr(options, "mode", None)
        if k == 1 and mode not in (None, "auto", "top"):
            raise FitError(f"mode={mode} needs the scores of classes, these rows hold one confidence each: mode=top")
        if mode == "binary" and k != 2:
            raise FitError(f"mode=binary calibrates the probability of class 1 of two, these rows have {k} classes")
        if mode != "auto":
            return options
        return msgspec.structs.replace(options, mode="binary" if k == 2 else "top")

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        options = cls.resolve_options(options, rows.k)
        sure, told = cls.certainty(rows)
        build = partial(cls, mode=options.mode, sure=sure)
        fit_map = lambda sample: cls.fit_map(sample.within(sure), options)  # noqa: E731
        return fit_maps(cls, rows, options.mode, fit_map, context, build, (*told, *cls.advice(rows, options)))

    @classmethod
    def takes_logarithms(cls) -> bool:
        return cls.takes_log_odds and not cls.only_ranks

    @classmethod
    def certainty(cls, rows: Rows) -> tuple[float | None, list[str]]:
        """``sure`` of confidences of which some are exactly 0 or 1, and what to know: they are taken to be half as far
        from certainty as the nearest other, as ``floor`` does (Martín-Fernández et al. 2003)."""
        if rows.kind != "confidence" or not cls.takes_logarithms():
            return None, []
        far = np.minimum(c := rows.array().astype(np.float64), 1.0 - c)
        if not (far == 0.0).any():
            return None, []
        sure = -float(confidence_log_odds(far.min(initial=0.5, where=far > 0.0, keepdims=True) / 2.0).item())
        return sure, [
            f"{int((far == 0.0).sum())} of {rows.n} confidences are exactly 0 or 1, whose log-odds are infinite: they"
            f" enter as {sure:.3g}; calcli fit --method venn-abers needs no log-odds"
        ]

    @property
    def upstream(self) -> Calibrator | None:
        """A calibrator of whole rows that comes before the maps, if there is one."""
        return None

    def seen(self, block: Block) -> Block:
        """The block as the maps see it."""
        return block if self.upstream is None else through(self.upstream, block)

    @cached_property
    def maps(self) -> list[tuple[Any, ...]]:
        """Parameters of each map: one map, or one per class."""
        arrays = self._arrays()
        return [tuple(v[c] for v in arrays) for c in range(len(arrays[0]))]

    def _arrays(self) -> list[Any]:
        """The maps' parameters, field by field, each indexed by the map."""
        values = [(f.metadata.get("shape"), getattr(self, f.name)) for f in fields(self)]
        return [
            v if shape == ("maps",) or isinstance(v, tuple) else (v,)
            for shape, v in values
            if isinstance(v, tuple) or (isinstance(v, np.ndarray) and shape in (("maps",), ()))
        ]

    def inputs(self, block: Block) -> FloatArray:
        """What the maps take: (b,) for one map, (b, k) for one per class. The block is one of ``seen``."""
        z, many = block.z, len(self.maps) > 1
        if self.mode is None:
            p = probabilities(z)
            p = p if many else p[np.arange(len(p)), block.prediction]
            return clipped_log_odds(p, self.clip) if self.takes_log_odds else p
        if many:
            s = one_vs_rest_log_odds(z)
        else:
            s = z[:, 1] - z[:, 0] if self.mode == "binary" else top_log_odds(z, block.prediction)
        return s if self.takes_log_odds or getattr(self, "log_odds", None) is not None else sigmoid(s)

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
            return Prediction.of_confidence(
                self.curve(within(confidence_log_odds(c), self.sure) if self.takes_log_odds else c, *self.maps[0])
            )
        if len(self.maps) > 1:
            return normalize(self.marginals(block), block.z, block.prediction)
        seen = self.seen(block)
        log_q, log_rest = self.log_curve(self.inputs(seen), *self.maps[0])
        if self.mode == "binary":
            log_probs = np.stack([log_rest, log_q], axis=1)
            label = log_probs.argmax(axis=1)
        else:
            label = seen.prediction
            log_probs = share_rest(seen.z, label, log_q, log_rest)
        changed = {"predictions_changed": int((label != block.prediction).sum())}
        return Prediction(log_probs, label, changed, floored=self.mode is None or not self.takes_log_odds)

    def check_own(self, k: int) -> None:
        counts = {len(v) for v in self._arrays()}
        expected = {None: (1, k), "binary": (1,), "top": (1,), "ova": (k,), "marginal": (k,)}[self.mode]
        if k == 1 and (self.mode != "top" or self.upstream is not None):
            raise DataError("params are of scores of classes, but input_kind is confidence")
        if self.mode == "binary" and k != 2:
            raise DataError(f"params.mode is 'binary' for {k} classes")
        if len(counts) > 1 or not counts <= set(expected):
            found = " and ".join(map(str, sorted(counts)))
            wanted = f"1 or one for each of {k} classes" if self.mode is None else str(expected[0])
            raise DataError(f"there are {found} maps, expected {wanted}")


class LogisticCalibrator(BinaryCalibrator):
    """Maps whose log-odds are a function of the log-odds, so that both tails stay exact."""

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


# ---- fitting one map, or one per class


@dataclass(frozen=True)
class Table(BinaryCalibrator):
    """Base of maps that are tables over the probability.

    log_odds : where the calibration rows hold log-odds beyond 27.6 that differ, which
    probabilities tie (``numerics.TIE``) or round to 1: those of the knots, or of the inner
    edges. The table is then over log-odds, and its lines are straight in them.
    """

    _: KW_ONLY
    log_odds: Curves | None = param(optional=True, default=None)

    identity = (EMPTY, EMPTY)
    flexible = True
    check_map: ClassVar[Callable[..., None]]  # raise DataError for parameters of a map that are none

    def _arrays(self) -> list[Any]:
        found = super()._arrays()
        return found if self.log_odds is None else [*found[1:], found[0]]  # the field of this class is the first

    def check_own(self, k: int) -> None:
        super().check_own(k)
        if self.log_odds is not None and (self.mode not in ("binary", "top") or len(self.maps) > 1 or k == 1):
            raise DataError("params.log_odds is of one map of the log-odds of classes")
        for one in self.maps:
            self.check_map(*one)


@dataclass(frozen=True)
class Steps(Table):
    """Base of maps that have one of the values in each bin between the edges."""

    edges: Curves = param()
    values: Curves = param(within="0 to 1")
    check_map = staticmethod(check_steps)

    @staticmethod
    def curve(x: FloatArray, *params: Any) -> FloatArray:
        edges, values, log_odds = (*params, None)[:3]
        return step(x, edges if log_odds is None else np.pad(log_odds, 1), values)


@dataclass(frozen=True)
class PiecewiseLinear(Table):
    """Base of maps that are straight lines between (scores, values)."""

    scores: Curves = param()
    values: Curves = param(within="0 to 1")
    check_map = staticmethod(check_line)

    @staticmethod
    def curve(x: FloatArray, *params: Any) -> FloatArray:
        scores, values, log_odds = (*params, None)[:3]
        return line(x, scores if log_odds is None else log_odds, values)


def fit_maps(
    cls: type[BinaryCalibrator],
    rows: Rows,
    mode: str,
    fit_map: Callable[[Sample], MapFit],
    context: Context,
    build: Callable[..., C],
    advice: Iterable[str],
) -> Fit[C]:
    """Fit the one map of mode=binary or top, or one per class; ``build`` makes the calibrator of a value per field.

    A class without a positive row keeps the identity, which is told, as is the mean sum over classes of the calibrated
    probabilities, that rows are divided by. Rows of weight 0 are left out; methods that do not use weights see none.
    """
    weight = rows.weights() if cls.laws.weights else None
    counted = counted_rows(rows.n, weight)
    if mode in ("binary", "top"):
        one = fit_map(single_sample(rows, mode, weight).part(counted))
        params = [np.array([v]) if isinstance(v, float) else v for v in one.params]
        more = {} if one.log_odds is None else {"log_odds": one.log_odds}
        told = [one.note] if one.note else []
        return Fit(build(*params, **more), one.status, (*told, *advice), dict(one.record))

    fits: list[MapFit] = []
    absent = 0
    noted: dict[str, list[int]] = {}
    row_sum = np.zeros(rows.n)
    for c, sample in enumerate(class_samples(rows, weight)):
        context.progress("fitting one map per class", c, rows.k)
        part = sample if len(counted) == rows.n else sample.part(counted)
        if part.hit.any():
            fits.append(fit_map(part))
            if fits[-1].note:
                noted.setdefault(fits[-1].note, []).append(c)
        else:
            fits.append(MapFit(cls.identity))
            absent += 1
        row_sum += cls.curve(sample.s if cls.takes_log_odds else sample.p, *fits[-1].params)
    warnings = [f"{note}: class{'es' * (len(c) > 1)} {rows.called(c)}" for note, c in noted.items()]
    if absent:
        warnings.append(f"classes without calibration rows ({absent} of {rows.k}): left as they were")
    details: dict[str, Any] = {"row_sum_mean": float(row_sum.mean()), "zero_rows": int((row_sum < TINY).sum())}
    for one in fits:
        for name, value in one.record.items():
            details[name] = max(value, details.get(name, value))
    columns = zip(*(one.params for one in fits), strict=True)
    calibrator = build(*(np.array(v) if isinstance(v[0], float) else v for v in columns))
    return Fit(calibrator, max((one.status for one in fits), key=STATUSES.index), (*warnings, *advice), details)


def behind(first: Fit[Any], fit: Fit[C]) -> Fit[C]:
    """A fit to what another has left of the rows: both have their say, the worse status counts."""
    status = max(first.status, fit.status, key=STATUSES.index)
    return replace(fit, status=status, warnings=(*first.warnings, *fit.warnings))


def few_rows_per_class(rows: Rows, mode: str, enough: int = 50) -> Iterator[str]:
    """Advice against flexible maps per class on too few rows."""
    if mode in ("ova", "marginal") and rows.n < enough * rows.k:
        yield (
            f"{rows.n} rows are {rows.n / rows.k:.3g} per class: one flexible map per class follows their noise;"
            " ts, vs or mode=top would serve better"
        )
