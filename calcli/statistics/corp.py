"""CORP reliability curve by isotonic regression, its score decomposition, and its band
under calibration.

The curve is the isotonic regression of correctness on confidence (no bins to choose),
and the same fit splits a proper score into miscalibration, discrimination and
uncertainty. Every such curve is noisy, so its null is drawn beside it: the same rows
with outcomes drawn from their own confidences. Pure functions of arrays.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from calcli.isotonic import IsotonicFit, fit_isotonic, pool_adjacent_violators
from calcli.numerics import BoolArray, FloatArray, IntArray, floored_log, row_weights
from calcli.statistics.shared_outcomes import SharedOutcomes
from calcli.statistics.units import Units

Score = Literal["brier", "log"]

# default number of resamples: the 2.5 % point is then the tenth smallest
RESAMPLES = 400
# the band is drawn on about this many cells of merged confidences (see ``merge_cells``)
CELLS = 1000

ENDS = 100
"""Rows at either end that are not merged for the band: there the curve follows single
rows.
"""

FINE_CELLS = 50_000
"""Cells for the expected miscalibration of a calibrated model: merging lowers it (by a
tenth at ``CELLS``), because it takes freedom from the isotonic fit, so it is drawn
nearly unmerged.
"""

FINE_DRAWS = 500_000
"""Most cells times resamples for the mean of that miscalibration: its standard error
is then about 2 % of it or less, in a tenth of a second."""


@dataclass(frozen=True)
class Decomposition:
    """score = miscalibration - discrimination + uncertainty, for a proper score.

    score : mean Brier score (c - correct)^2 or log score of the confidence.
    miscalibration (MCB) : reduction by perfect recalibration. discrimination (DSC) :
    reduction of the recalibrated confidence against predicting the accuracy for every
    row. uncertainty (UNC) : score of predicting the accuracy. All >= 0.
    """

    kind: Score
    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


def decompose(
    confidence: FloatArray,
    correct: FloatArray,
    weight: FloatArray | None = None,
    *,
    kind: Score = "brier",
    fit: IsotonicFit | None = None,
    sure_miss: FloatArray | None = None,
) -> Decomposition:
    """Split the mean score of the confidences into MCB - DSC + UNC.

    Arguments as in ``fit_isotonic``; ``fit`` saves repeating it. The log score is in
    nats. sure_miss : (n,) log score of rows whose outcome had probability 0, so that it
    stays finite. The in-sample MCB is biased upwards; ``consistency_band`` has its mean
    under calibration. Reference: Dimitriadis, Gneiting, Jordan (2021), PNAS 118(8),
    equations 3 and 4.
    """
    fit = fit_isotonic(confidence, correct, weight) if fit is None else fit
    if kind == "brier":
        losses = (confidence - correct) ** 2
    else:
        chance = np.where(correct > 0.5, confidence, 1.0 - confidence)
        losses = -floored_log(chance)
        if sure_miss is not None:
            losses = np.where(chance > 0.0, losses, sure_miss)
    share = fit.weight / fit.weight.sum()
    rate = float(share @ fit.value)
    recalibrated = float(share @ _entropy(fit.value, kind))
    uncertainty = float(_entropy(np.array([rate]), kind)[0])
    score = float(np.average(losses, weights=weight))
    return Decomposition(
        kind, score, score - recalibrated, uncertainty - recalibrated, uncertainty
    )


def _entropy(rate: FloatArray, kind: Score) -> FloatArray:
    """Expected score of predicting the rate p where outcomes have rate p."""
    if kind == "brier":
        return rate * (1.0 - rate)
    return -(rate * floored_log(rate) + (1.0 - rate) * floored_log(1.0 - rate))


@dataclass(frozen=True)
class Cells:
    """Merged rows of almost equal confidence.

    confidence : (g,) mean confidence, increasing. weight : (g,). bin : (g,) the bin
    that the cell lies in. first : (g,) index of the cell's first row in ``order``.
    order : (n,) rows by confidence.
    """

    confidence: FloatArray
    weight: FloatArray
    bin: IntArray
    first: IntArray
    order: IntArray


def merge_cells(
    confidence: FloatArray,
    bin_of: IntArray,
    weight: FloatArray | None = None,
    cells: int = CELLS,
    ends: int = 0,
) -> Cells:
    """Merge neighbouring confidences into at most ``cells`` cells (plus the number of
    bins).

    A cell is at most 2 / cells wide, holds at most 2 n / cells rows (ties apart), and
    never crosses a bin, so a statistic of the bins is as if nothing had been merged.
    With no more distinct confidences than that, every distinct one is a cell of its
    own, and so are those of the first and last ``ends`` rows.

    confidence : (n,). bin_of : (n,) bin of every row, non-decreasing in the confidence.
    weight : (n,) > 0 or None.
    """
    if weight is None:
        order = np.argsort(confidence, kind="stable")
    else:  # rows of equal confidence are in one order, whatever that of the file
        order = np.lexsort((weight, confidence))
    x = confidence[order]
    bins = bin_of[order]
    new_value = distinct = np.concatenate([[True], np.diff(x) > 0])
    if np.count_nonzero(new_value) > cells:
        # Ties stay together: each row counts as the first of its ties.
        tie_start = np.maximum.accumulate(np.where(new_value, np.arange(len(x)), 0))
        by_width = np.minimum((x * (cells // 2)).astype(np.int64), cells // 2 - 1)
        by_mass = tie_start * (cells // 2) // len(x)
        new_value = np.concatenate(
            [
                [True],
                (np.diff(by_width) > 0) | (np.diff(by_mass) > 0) | (np.diff(bins) > 0),
            ]
        )
        new_value[:ends] |= distinct[:ends]
        new_value[len(x) - ends :] |= distinct[len(x) - ends :]
    first = np.flatnonzero(new_value)
    w = row_weights(weight, len(x))[order]
    weight = np.add.reduceat(w, first)
    return Cells(
        np.add.reduceat(w * x, first) / weight, weight, bins[first], first, order
    )


@dataclass(frozen=True)
class Band:
    """Band in which the curve of a calibrated model lies: x (g,), and its limits there."""

    x: FloatArray
    low: FloatArray
    high: FloatArray

    def contains(self, x: FloatArray, y: FloatArray) -> BoolArray:
        """Mask of the points (x, y) of a curve that lie inside, limits included."""
        # the curve and its limits are quotients of the same sums, rounded apart
        slack = 1e-12
        return (y >= np.interp(x, self.x, self.low) - slack) & (
            y <= np.interp(x, self.x, self.high) + slack
        )


@dataclass(frozen=True)
class ConsistencyBand(Band):
    """Band of the curve and of bin accuracies of the same confidences under
    calibration, from r resamples.

    x : (g,) confidences of the cells. low, high : (g,) simultaneous band of the
    isotonic curve. bin_low, bin_high : (bins,) band of the accuracies of all bins
    together, NaN where one is empty. mcb_mean : mean Brier miscalibration, from as many
    resamples as ``FINE_DRAWS`` allows (10 to r).
    """

    bin_low: FloatArray
    bin_high: FloatArray
    mcb_mean: float


@dataclass(frozen=True)
class UnitDraws:
    """Random generator and units of rows, to draw their outcomes.

    share : a^2 of ``statistics.shared_luck.SharedLuck``.
    """

    rng: np.random.Generator
    units: Units
    share: float


Source = np.random.Generator | UnitDraws


def consistency_band(
    confidence: FloatArray,
    bin_of: IntArray,
    bins: int,
    rng: Source,
    weight: FloatArray | None = None,
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    cells: int = CELLS,
) -> ConsistencyBand:
    """Consistency band by resampling: draw every outcome from its own confidence, and
    fit the curve again.

    The confidences stay as they are and outcomes are Bernoulli, so the band and the
    null values are conditional on the confidences of these rows. The band is
    simultaneous: a calibrated model's whole curve stays inside it with probability
    ``level``, and so do all bins inside theirs. Confidences are merged into ``cells``
    first (at most 0.002 wide by default), which moves the band by less than its
    sampling error; without weights the right outcomes of a cell are then one binomial
    draw. rng : ``UnitDraws`` for rows in units.

    Reference: Bröcker, Smith (2007), Weather and Forecasting 22; for the isotonic curve
    Dimitriadis, Gneiting, Jordan (2021).
    """
    if weight is not None:
        used = weight > 0
        confidence = confidence[used]
        bin_of = bin_of[used]
        weight = weight[used]
        if isinstance(rng, UnitDraws):
            rng = UnitDraws(rng.rng, Units.of(rng.units.code[used]), rng.share)
    merged = merge_cells(confidence, bin_of, weight, cells, ENDS)
    m = merged.weight
    c = merged.confidence
    right = _draw_right(confidence, merged, weight, resamples, rng)
    low, high = _together(_fit_each(right, m), level)

    occupied, first = np.unique(merged.bin, return_index=True)
    bin_weight = np.add.reduceat(m, first)
    bin_right = np.add.reduceat(right, first, axis=1)
    bin_low = np.full(bins, np.nan)
    bin_high = np.full(bins, np.nan)
    bin_low[occupied], bin_high[occupied] = _together(bin_right / bin_weight, level)

    fine = merge_cells(confidence, bin_of, weight, FINE_CELLS)
    draws = min(resamples, max(10, FINE_DRAWS // len(fine.weight)))
    rate = _draw_right(confidence, fine, weight, draws, rng) / fine.weight
    fitted = _fit_each(rate * fine.weight, fine.weight)
    mcb = (
        ((fine.confidence - rate) ** 2 - (fitted - rate) ** 2)
        @ fine.weight
        / fine.weight.sum()
    )
    return ConsistencyBand(c, low, high, bin_low, bin_high, float(mcb.mean()))


def _fit_each(right: FloatArray, weight: FloatArray) -> FloatArray:
    """Isotonic fit of every row of sums of right outcomes (r, g) with weights (g,), (r,
    g).
    """
    begins = np.zeros(right.size, dtype=np.bool_)
    begins[:: len(weight)] = True
    total = right.ravel()
    weights = np.tile(weight, len(right))
    first = pool_adjacent_violators(total, weights, begins)
    value = np.add.reduceat(total, first) / np.add.reduceat(weights, first)
    return np.repeat(value, np.diff(np.append(first, total.size))).reshape(right.shape)


def _draw_right(
    confidence: FloatArray,
    cells: Cells,
    weight: FloatArray | None,
    resamples: int,
    rng: Source,
) -> FloatArray:
    """Weighted number of right outcomes per cell under calibration, (resamples, g)."""
    p = np.clip(cells.confidence, 0.0, 1.0)
    if isinstance(rng, UnitDraws):
        index = np.empty(len(confidence), dtype=np.int64)
        index[cells.order] = np.repeat(
            np.arange(len(p)), np.diff(np.append(cells.first, len(confidence)))
        )
        weights = [] if weight is None else [weight]
        drawn = SharedOutcomes.drawn(
            confidence, rng.units, rng.share, resamples, rng.rng, drawn_with=weights
        )
        return drawn.by_bin(index, len(p), weight)
    if weight is None:
        return rng.binomial(
            cells.weight.astype(np.int64), p, size=(resamples, len(p))
        ).astype(np.float64)
    right = np.empty((resamples, len(p)))
    x = confidence[cells.order]
    w = weight[cells.order]
    for r in range(resamples):
        right[r] = np.add.reduceat(w * (rng.random(len(x)) < x), cells.first)
    return right


def _together(values: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Limits of columns (r, g) between which at least ``level`` of the draws lie in all
    columns at once.

    They are the central interval of each column, stretched about its mean by one factor
    for all: the quantile over the draws of the largest deviation, in units of that
    interval.
    """
    ordered = np.sort(values, axis=0)
    centre = values.mean(axis=0)
    outside = max(int(np.floor(0.5 * (1.0 - level) * (len(values) + 1))), 1)
    low = ordered[outside - 1]
    high = ordered[len(values) - outside]
    # Where nearly all draws are equal the central interval may have no width to a side.
    spread = values.std(axis=0) + 1e-12
    below = np.maximum(centre - low, spread)
    above = np.maximum(high - centre, spread)
    deviation = (values - centre) / np.where(values < centre, -below, above)
    largest = np.sort(deviation.max(axis=1))
    n_held = min(int(np.ceil(level * (len(values) + 1))), len(values))
    factor = largest[n_held - 1]
    limits = centre - factor * below, centre + factor * above
    return np.maximum(limits[0], 0.0), np.minimum(limits[1], 1.0)
