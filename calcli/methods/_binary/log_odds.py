"""Binary outcomes of rows of scores, their exact log-odds, and regression on these."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from msgspec import Meta

from calcli.block import Block
from calcli.calibrator import Status
from calcli.errors import FitError
from calcli.logits import ClassLogits
from calcli.numerics import (
    TIE,
    BoolArray,
    FloatArray,
    IntArray,
    log_normalizer,
    row_max,
    row_weights,
    shares_of,
    sigmoid,
)
from calcli.records import cached_property
from calcli.rows import Rows
from calcli.solvers import BoxMinimum, minimise_box
from calcli.zeros import OLD, Zeros

# classes whose log-odds are computed at a time: the only memory needed beside the
# scores
WIDTH = 16
Loss = Literal["log", "brier"]
Smooth = Annotated[
    bool,
    Meta(
        description=(
            "fit to Platt's smoothed targets (n1+1)/(n1+2) and 1/(n0+2) instead of 1"
            " and 0"
        )
    ),
]
# largest entry of the mean gradient at an optimum, with features scaled to size 1
GRADIENT = 1e-12


def log_sigmoid(u: FloatArray) -> FloatArray:
    """Compute log(sigmoid(u)), exact even where the sigmoid rounds to 0 or 1."""
    return np.minimum(u, 0.0) - np.log1p(np.exp(-np.abs(u)))


@dataclass(frozen=True)
class Sample:
    """Scores and outcomes of one binary question, such as: is the label this class?"""

    s: FloatArray  # (n,) log-odds
    hit: FloatArray  # (n,) outcomes, 0.0 or 1.0
    weight: FloatArray | None = None  # (n,) all > 0
    # (n,) the probabilities, if these were given and not log-odds
    stated: FloatArray | None = None
    one_map: bool = False  # this is the only question, not one of one per class

    @cached_property
    def in_log_odds(self) -> bool:
        """Whether tables must be over log-odds.

        So it is where rows whose probabilities tie at 0 or 1 differ in them.
        """
        if not self.one_map or self.stated is not None:
            return False
        size = np.abs(self.s)
        sure = size[size > -np.log(TIE)]
        return len(sure) > 1 and bool((sure != sure[0]).any())

    @property
    def x(self) -> FloatArray:
        """Scores of a table: log-odds if ``in_log_odds``, else probabilities."""
        return self.s if self.in_log_odds else self.p

    @cached_property
    def p(self) -> FloatArray:
        """Probabilities of the log-odds, (n,)."""
        return sigmoid(self.s) if self.stated is None else self.stated

    def within(self, sure: float | None) -> "Sample":
        """Sample with log-odds clipped to [-sure, sure]; None for no bound."""
        return self if sure is None else replace(self, s=within(self.s, sure))

    def part(self, index: IntArray) -> "Sample":
        """Take some of the rows."""
        return Sample(
            s=self.s[index],
            hit=self.hit[index],
            weight=None if self.weight is None else self.weight[index],
            stated=None if self.stated is None else self.stated[index],
            one_map=self.one_map,
        )


class MapFit(NamedTuple):
    """One fitted map."""

    params: tuple[Any, ...]  # in the order of the calibrator's fields
    status: Status = "ok"
    # warning for the user, a phrase; equal notes of many classes are reported once
    note: str = ""
    # numbers to record; the largest over the classes is kept
    record: dict[str, float] = {}
    log_odds: FloatArray | None = None  # see ``Table``

    def rising(self, params: tuple[Any, ...]) -> "MapFit":
        """Make the fit of a regression with slopes >= 0, with these parameters.

        It is degenerate where all slopes are 0.
        """
        if self.status == "ok" and not any(self.params[:-1]):
            note = "the scores do not rise with the outcomes, so the map is a constant"
            return MapFit(params, "degenerate", note, self.record)
        return self._replace(params=params)

    @classmethod
    def table(
        cls,
        sample: Sample,
        places: FloatArray,
        values: FloatArray,
        record: dict[str, float],
    ) -> "MapFit":
        """Table of values at knots, or between edges, of ``sample.x``."""
        if not sample.in_log_odds:
            return cls((places, values), record=record)
        are_knots = len(places) == len(values)
        inner = places if are_knots else places[1:-1]
        return cls((sigmoid(places), values), record=record, log_odds=inner)


# ---- log-odds of logits z : (b, k), never by way of probabilities: 1 - p has no digits
# left near 1


# zero : mask of stored zeros (``Block.stored_zeros``). They are no part of the sum of a
# row, so that equal probabilities stay equal whatever was rounded beside them; but
# where nothing else is left, they are all.


def _stored(z: FloatArray, zero: BoolArray | None) -> FloatArray:
    """Logits, -inf for stored zeros."""
    return z if zero is None else np.where(zero, -np.inf, z)


def top_log_odds(
    z: FloatArray, label: IntArray, zero: BoolArray | None = None
) -> FloatArray:
    """Compute log-odds of one class per row against the rest, (b,).

    They are z_label - log sum of exp over the others.
    """
    here = np.arange(len(z))
    rest = z.copy()
    rest[here, label] = -np.inf
    if zero is not None:
        stored = _stored(rest, zero)
        is_left = np.isfinite(stored.max(axis=1))
        rest = np.where(is_left[:, None], stored, rest)
    return z[here, label] - log_normalizer(rest)


def single_log_odds(block: Block, mode: str) -> FloatArray:
    """Log-odds of class 1 (mode=binary) or of the prediction (mode=top), (b,)."""
    z = block.z
    if mode == "binary":
        return z[:, 1] - z[:, 0]
    return top_log_odds(z, block.prediction, block.stored_zeros)


def one_vs_rest_log_odds(z: FloatArray, zero: BoolArray | None = None) -> FloatArray:
    """Log-odds of every class against the rest, (b, k).

    Removing a term from the sum loses no digits unless the term is the largest; for
    that class the others are summed.
    """
    largest, total, top, s_top = _row_facts(z, zero)
    s = _below_top((z - largest[:, None]).T, total).T
    s[np.arange(len(z)), top] = s_top
    return s.copy()


def _row_facts(
    z: FloatArray, zero: BoolArray | None
) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
    """Compute what the log-odds of a row's classes need, (b,) each.

    Largest logit, sum of exp(z - largest), class of that logit and its log-odds.
    """
    top = z.argmax(axis=1)
    largest = row_max(z)
    total = np.exp(_stored(z, zero) - largest[:, None]).sum(axis=1)
    return largest, total, top, top_log_odds(z, top, zero)


def _below_top(d: FloatArray, total: FloatArray) -> FloatArray:
    """Compute log-odds of classes that are not a row's top class.

    d : (classes, b) z - largest.
    """
    rest = total - np.exp(d)
    # Only without the top class can the sum vanish; the caller puts in that class's
    # value.
    return d - np.log(np.where(rest > 0, rest, 1.0))


def probabilities(z: FloatArray, zero: BoolArray | None = None) -> FloatArray:
    """Softmax of (b, k) logits."""
    return np.exp(z - log_normalizer(_stored(z, zero))[:, None])


def confidence_log_odds(c: FloatArray, zeros: Zeros = OLD) -> FloatArray:
    """Compute log(c / (1 - c)).

    zeros : what a confidence of 0, or of 1 being wrong, counts as; 2e-308 unless given.
    """
    right, wrong = zeros.confidence_logs(c)
    return right - wrong


def within(s: FloatArray, sure: float | None) -> FloatArray:
    """Log-odds clipped to [-sure, sure]; None for no bound."""
    return s if sure is None else np.clip(s, -sure, sure)


def clipped_log_odds(p: FloatArray, clip: float) -> FloatArray:
    """Compute log(p / (1 - p)) with p clipped to [clip, 1 - clip].

    So did calcli 0.1, in fits and when applied.
    """
    p = np.clip(p, clip, 1.0 - clip)
    return np.log(p) - np.log1p(-p)


# ---- samples of labelled rows


def counted_rows(n: int, weight: FloatArray | None) -> IntArray:
    """Indices of the rows of positive weight. Raises FitError when there are none."""
    index = np.arange(n) if weight is None else np.flatnonzero(weight > 0)
    if not len(index):
        raise FitError("all sample weights are 0; at least one row must count")
    return index


def single_sample(rows: Rows, mode: str, weight: FloatArray | None) -> Sample:
    """Make the sample of the one question of mode=binary or mode=top.

    Is the label 1, or is the prediction right?
    """
    if rows.kind == "confidence":
        c = rows.array()[:, 0].astype(np.float64)
        return Sample(
            s=confidence_log_odds(c, rows.zeros or OLD),
            hit=rows.labels().astype(np.float64),
            weight=weight,
            stated=c,
        )
    s, hit = zip(*rows.each(partial(_single_question, mode)), strict=True)
    return Sample(np.concatenate(s), np.concatenate(hit), weight, one_map=True)


def _single_question(mode: str, block: Block) -> tuple[FloatArray, FloatArray]:
    """Log-odds and outcomes of a block's rows."""
    asked_class = 1 if mode == "binary" else block.prediction
    hit = (block.labels == asked_class).astype(np.float64)
    return single_log_odds(block, mode), hit


def _facts_of_block(
    block: Block,
) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
    return _row_facts(block.z, block.stored_zeros)


def class_samples(rows: Rows, weight: FloatArray | None) -> Iterator[Sample]:
    """Make the sample of each class in turn (is the label this class?).

    They are bit for bit those of ``one_vs_rest_log_odds``.
    """
    y = rows.labels()
    whole = rows.array()
    parts = list(rows.each(_facts_of_block))
    largest, total, top, s_top = map(np.concatenate, zip(*parts, strict=True))
    logits = ClassLogits(whole, rows.kind, rows.zeros)
    for first in range(0, rows.k, WIDTH):
        z = np.array(logits.of(slice(first, first + WIDTH)).T, order="C")
        for c, s in enumerate(_below_top(z - largest, total), first):
            log_odds = np.where(top == c, s_top, s)
            yield Sample(log_odds, (y == c).astype(np.float64), weight)


# ---- logistic regression with a few features, to the optimum, and substitutes where
# none exists


def fit_logistic(
    design: FloatArray,
    target: FloatArray,
    weight: FloatArray | None = None,
    *,
    low: FloatArray | float = -np.inf,
    loss: Loss = "log",
) -> BoxMinimum:
    """Minimise the mean loss of sigmoid(coef . design), with coef >= low.

    The loss is against target. design : (d, n) features, a row of ones among them for
    an intercept. target : (n,) in [0, 1]. weight : (n,) or None. low : (d,) of 0 and
    -inf. loss : ``log`` is convex: the result is the optimum if one exists (outcomes
    neither all alike nor separable). ``brier`` is not: the search goes downhill from
    the log loss's optimum.
    """
    n = design.shape[1]
    share = shares_of(weight, n)
    size = np.sqrt(design**2 @ share)
    size[size == 0] = 1.0
    scaled = design / size[:, None]

    def log_loss(coef: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        u = coef @ scaled
        t = np.exp(-np.abs(u))
        value = float(share @ (np.log1p(t) + np.maximum(u, 0.0) - target * u))
        gradient = scaled @ (share * (np.where(u >= 0, 1.0, t) / (1.0 + t) - target))
        return value, gradient, (scaled * (share * t / (1.0 + t) ** 2)) @ scaled.T

    def squared_loss(coef: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        u = coef @ scaled
        t = np.exp(-np.abs(u))
        p = np.where(u >= 0, 1.0, t) / (1.0 + t)
        slope = t / (1.0 + t) ** 2
        miss = p - target
        bend = slope * (slope + miss * (1.0 - 2.0 * p))
        value = float(share @ miss**2)
        gradient = scaled @ (2.0 * share * miss * slope)
        return value, gradient, (scaled * (2.0 * share * bend)) @ scaled.T

    start = np.zeros(len(design))
    minimum = minimise_box(log_loss, start, low=low, tolerance=GRADIENT)
    if loss == "brier":
        minimum = minimise_box(squared_loss, minimum.x, low=low, tolerance=GRADIENT)
    return minimum._replace(x=minimum.x / size)


def is_separable(s: FloatArray, hit: BoolArray) -> bool:
    """True if one threshold splits scores by outcome, up to ties at it."""
    above = s[hit]
    below = s[~hit]
    return bool(below.max() <= above.min() or above.max() <= below.min())


def regress(
    sample: Sample,
    features: list[FloatArray],
    *,
    low: float = -np.inf,
    intercept: bool = True,
    smooth: bool = False,
    loss: Loss = "log",
    constant_if_separable: bool,
) -> MapFit:
    """Fit log-odds of the outcomes linear in features.

    There is a slope >= ``low`` for each, then the intercept. Outcomes that are all
    alike, or scores that are, give the constant (n1 + 1) / (n + 2), as do separable
    scores, where the likelihood has no maximum; without ``constant_if_separable`` these
    get smoothed targets, whose optimum is finite. smooth : use those in any case.
    """
    hit = sample.hit > 0
    weight = row_weights(sample.weight, len(hit))
    ones = float(weight @ sample.hit)
    zeros = float(weight.sum()) - ones
    separable = False
    note = ""
    if hit.all() or not hit.any():
        note = "all outcomes are alike, so the map is a constant"
    elif sample.s.min() == sample.s.max():
        note = "all scores are equal, so the map is a constant"
    else:
        separable = is_separable(sample.s, hit)
        if separable and constant_if_separable and not smooth:
            note = SEPARABLE
    if note:
        flat = [0.0] * len(features)
        constant = (*flat, float(np.log((ones + 1.0) / (zeros + 1.0))))
        return MapFit(constant, "degenerate", note)
    target = sample.hit
    if smooth or separable:  # Platt (1999)
        target = np.where(hit, (ones + 1.0) / (ones + 2.0), 1.0 / (zeros + 2.0))
    columns = list(features)
    lowest = [low] * len(features)
    if intercept:
        columns.append(np.ones(len(hit)))
        lowest.append(-np.inf)
    minimum = fit_logistic(
        np.stack(columns), target, sample.weight, low=np.array(lowest), loss=loss
    )
    params = tuple(minimum.x.tolist())
    if not intercept:
        params = (*params, 0.0)
    record = {"gradient": minimum.gradient, "steps": float(minimum.evaluations)}
    if minimum.status != "ok":
        note = "the fit did not reach its optimum"
        return MapFit(params, "not_converged", note, record)
    if separable and not smooth:
        return MapFit(params, "degenerate", SMOOTHED, record)
    return MapFit(params, record=record)


SEPARABLE = (
    "the scores separate right from wrong perfectly, so no slope fits best and the map"
    " is a constant;"
    " more rows or smoothed targets (platt with smooth=true) would serve better"
)
SMOOTHED = (
    "where scores separate the classes perfectly no slope fits best, so the map was"
    " fitted to smoothed targets"
)
