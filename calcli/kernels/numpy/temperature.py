"""Estimating equations of the one-temperature methods.

Functions here return a function of log beta (beta = 1/T) that gives the value and one
or two derivatives of a fit's estimating equation, for a root finder.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from typing import Any, Generic, TypeVar

import numpy as np

from calcli.block import Block
from calcli.fit_summary import Summary
from calcli.logits import to_logits
from calcli.numerics import AnyArray, FloatArray, IntArray, store, tile_rows
from calcli.records import Sums
from calcli.rows import AtOnce, Rows, part_blocks, rows_per_block
from calcli.solvers import Curve, Slope

FEWEST_ROWS = 1000
"""Rows processed at once, where there are as many: for fewer, Python takes longer than
NumPy.
"""
# up to so many classes rows lie side by side, so that sums over classes are vectorised
# too
FEW_CLASSES = 64


class TemperedRows:
    """Some rows, their gaps to the largest logit, and exp(beta d): buffers that are
    filled again and again.

    d = z - max z <= 0 and e = exp(beta d) are (k, b) where classes are few, else (b,
    k). Every moment of z under p = e / sum e is taken of d, which does not cancel when
    logits are large. y, d_y : (b,) labels and their gaps. top : (b,) class of the
    largest logit. label : (b,) predictions.
    """

    y: IntArray
    d_y: FloatArray
    top: IntArray
    label: IntArray

    def __init__(self, k: int) -> None:
        self.axis = 0 if k <= FEW_CLASSES else 1
        self.rows = tile_rows(k)
        shape = (k, self.rows) if self.axis == 0 else (self.rows, k)
        self._room = (np.empty(shape), np.empty(shape))
        self._here = np.arange(self.rows)
        self._classes = np.arange(k)

    def load(self, block: Block, here: slice) -> None:
        """Take in some rows of a block."""
        z = block.scores[here]
        if block.kind == "probs":
            z = to_logits(z, block.kind, block.zeros)
        n = len(z)
        self.y = block.labels[here]
        d, e = self._room
        if self.axis == 0:
            self.d, self.e = d[:, :n], e[:, :n]
            self.d[...] = z.T
            self.d -= self.d.max(axis=0)
            self.top = np.zeros(n, dtype=np.int64)
            # This takes a fifth of what argmax takes for few classes.
            for c in range(len(self.d) - 1, -1, -1):
                np.copyto(self.top, c, where=self.d[c] == 0.0)
        else:
            self.d, self.e = d[:n], e[:n]
            self.d[...] = z
            self.top = self.d.argmax(axis=1)
            self.d -= self.at(self.d, self.top)[:, None]
        self.d_y = self.at(self.d, self.y)
        self.label = self.top if block.assigned is None else block.assigned[here]

    def at(self, a: FloatArray, classes: IntArray) -> FloatArray:
        """One entry of every row, (b,)."""
        here = self._here[: len(classes)]
        return a[classes, here] if self.axis == 0 else a[here, classes]

    def tilt(self, beta: float) -> FloatArray:
        """Set e for this beta; returns its sums, (b,)."""
        scaled = self.d if beta == 1.0 else np.multiply(self.d, beta, out=self.e)
        return self.sum(np.exp(scaled, out=self.e))

    def sum(self, a: FloatArray) -> FloatArray:
        """Sum over the classes, (b,)."""
        # Along rows of many classes, einsum takes a fourth of what the method sum takes.
        if self.axis == 1:
            return np.einsum("ij->i", a)
        return a.sum(axis=0)

    def dot(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Sum over the classes of a b, (b,)."""
        return np.einsum(f"ij,ij->{'ji'[self.axis]}", a, b)

    def rank_of_label(self) -> IntArray:
        """Number of classes before the label, ties by lowest index, (b,)."""
        d_y = np.expand_dims(self.d_y, self.axis)
        y = np.expand_dims(self.y, self.axis)
        classes = np.expand_dims(self._classes, 1 - self.axis)
        before = (self.d > d_y) | ((self.d == d_y) & (classes < y))
        return before.sum(axis=self.axis)

    def power_sums(self, count: int) -> list[FloatArray]:
        """Sums over the classes of e d … e d^count, (b,) each.

        Leaves e d^(count - 1) where e was.
        """
        sums = []
        for _ in range(count - 1):
            self.e *= self.d
            sums.append(self.sum(self.e))
        return [*sums, self.dot(self.e, self.d)]


Values = Callable[..., Sequence[FloatArray]]
"""Function of a ``TemperedRows``: arrays (b,) of its rows; what can wait for about a
thousand rows waits.
"""


def weighted(block: Block, values: FloatArray) -> FloatArray:
    """Total weight of some rows, then the weighted sums of their values (m, b)."""
    if block.weight is None:
        return np.concatenate([[float(len(block))], values.sum(axis=1)])
    return np.concatenate([[block.weight.sum()], values @ block.weight])


Total = TypeVar("Total")


@dataclass(frozen=True)
class OfBlock(Generic[Total]):
    """Sum over a block of ``of_rows(rows, values)``, values (m, b) of some rows at a
    time.
    """

    k: int
    values: Values
    of_rows: Callable[[Block, FloatArray], Total]
    spare: list[TemperedRows] = field(default_factory=list)

    def __call__(self, block: Block) -> Total:
        return reduce(add, self.parts(block))

    def parts(self, block: Block, *along: FloatArray) -> list[Total]:
        """Results of ``of_rows``, for about a thousand rows at once or more."""
        try:
            some = self.spare.pop()
        except IndexError:
            some = TemperedRows(self.k)
        step = some.rows * -(-FEWEST_ROWS // some.rows)
        results = []
        for first in range(0, len(block), step):
            last = min(first + step, len(block))
            values = []
            for start in range(first, last, some.rows):
                here = slice(start, min(start + some.rows, last))
                some.load(block, here)
                columns = [column[here] for column in along]
                values.append(np.stack(self.values(some, *columns)))
            part = block.cut(first, last)
            results.append(self.of_rows(part, np.concatenate(values, axis=1)))
        self.spare.append(some)
        return results


MOST_BYTES = 1 << 24  # size, in float64, of the rows that are one block


def at_once(k: int) -> AtOnce:
    """Number of blocks taken as one, so that they have ``FEWEST_ROWS`` within
    ``MOST_BYTES`` and fit into parts.
    """
    counts: tuple[AtOnce, ...] = (1, 2, 4, 8, 16)
    most = max(1, MOST_BYTES // (8 * k * rows_per_block(k)))
    best: AtOnce = 1
    for count in counts:
        if count > most or part_blocks(k) % count:
            continue
        best = count
        if count * rows_per_block(k) >= FEWEST_ROWS:
            break
    return best


def over_rows(
    rows: Rows, values: Values, of_rows: Callable[[Block, FloatArray], Total]
) -> Total:
    """Sum over all rows of ``of_rows(rows, values)`` (see ``Rows.sum``)."""
    return rows.sum(OfBlock(rows.k, values, of_rows), at_once=at_once(rows.k))


def means_over(rows: Rows, terms: Values) -> list[float]:
    """Means over all rows of what ``terms`` gives of each."""
    mass, *totals = over_rows(rows, terms, weighted).tolist()
    return [total / mass for total in totals]


def nll_curve(rows: Rows) -> Curve:
    """d mean NLL / d log beta = beta mean(E_p[z] - z_y), and two derivatives.

    (Guo et al. 2017, equation 9, in beta = 1/T, where the NLL is convex.)
    """

    def curve(log_beta: float) -> tuple[float, float, float]:
        beta = float(np.exp(log_beta))
        first, second, third = means_over(rows, partial(_nll_terms, beta))
        value = beta * first
        slope = value + beta**2 * second
        return value, slope, slope + 2 * beta**2 * second + beta**3 * third

    return curve


def _nll_terms(beta: float, r: TemperedRows) -> Sequence[FloatArray]:
    """First three derivatives of the NLL by beta: cumulants of the gaps under p."""
    norm = r.tilt(beta)
    first, second, third = (total / norm for total in r.power_sums(3))
    variance = second - first**2
    return first - r.d_y, variance, third - first * (second + 2 * variance)


class TopMass:
    """Mean probability of the ``top`` largest classes minus top-n accuracy.

    (Clarte et al. 2023, equation 5.) A curve over log beta that never falls.

    accuracy : proportion of rows whose label is among the ``top`` largest logits, ties
    by lowest index; known from the first call on.
    """

    def __init__(self, rows: Rows, top: int) -> None:
        self.rows = rows
        self.top = top
        self.accuracy = float("nan")

    def __call__(self, log_beta: float) -> tuple[float, float, float]:
        beta = float(np.exp(log_beta))
        terms = partial(_top_mass_terms, beta, self.top, self.rows.k)
        right, mass, first, second = means_over(self.rows, terms)
        self.accuracy = right
        slope = beta * first
        return mass - right, slope, slope + beta**2 * second


def _top_mass_terms(
    beta: float, top: int, k: int, r: TemperedRows
) -> Sequence[FloatArray]:
    """Is the label among the largest; their probability, two derivatives in beta."""
    norm = r.tilt(beta)
    first, second = (total / norm for total in r.power_sums(2))
    if top == 1:
        # The largest logit has a gap of 0.
        p = 1.0 / norm
        right = (r.top == r.y).astype(np.float64)
        return right, p, -p * first, p * (2 * first**2 - second)
    d = np.moveaxis(np.partition(r.d, k - top, axis=r.axis), r.axis, 0)[k - top :]
    p = np.exp(beta * d) / norm
    gap = d - first
    variance = second - first**2
    slope = (p * gap).sum(axis=0)
    bend = (p * (gap**2 - variance)).sum(axis=0)
    right = (r.rank_of_label() < top).astype(np.float64)
    return right, p.sum(axis=0), slope, bend


def octaves(low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """Two ascending chains of log beta: whole octaves from low, and the same half an
    octave on.
    """
    half = np.log(2.0) / 2
    grid = low + half * np.arange(int((high - low) / half) + 1)
    return grid[::2], grid[1::2]


def brier_slope(
    rows: Rows, low: float, high: float
) -> tuple[tuple[float, float, float], Slope]:
    """Bracket (low, best, high) in log beta of the least mean squared error, and the
    error's slope.

    The squared error is not convex in beta. One pass scores a grid; the root of the
    slope between the neighbours of its best point is left to the caller. A row's error
    changes over log beta at the pace of a sigmoid, so points half an octave apart miss
    no valley that counts. An octave further, exp(beta d) is squared: no exponential is
    needed, and the sum of the squares that the error is made of is the next point's
    norm.
    """
    chains = octaves(low, high)
    errors = over_rows(rows, partial(_brier_errors, chains), weighted)[1:]
    grid = np.concatenate(chains)
    order = np.argsort(grid)
    x = [low, *grid[order].tolist(), high]
    best = 1 + int(np.argmin(errors[order]))

    def slope(log_beta: float) -> tuple[float, float]:
        beta = float(np.exp(log_beta))
        first, second = means_over(rows, partial(_brier_terms, beta))
        return beta * first, beta * first + beta**2 * second

    return (x[best - 1], x[best], x[best + 1]), slope


def _brier_errors(
    chains: tuple[FloatArray, FloatArray], r: TemperedRows
) -> Sequence[FloatArray]:
    """Squared error, less 1, at every point of chains of octaves."""
    errors = []
    for chain in chains:
        for j, log_beta in enumerate(chain.tolist()):
            if j == 0:
                norm = r.tilt(float(np.exp(log_beta)))
            else:
                r.e *= r.e
            squares = r.dot(r.e, r.e)
            errors.append(squares / norm**2 - 2 * r.at(r.e, r.y) / norm)
            norm = squares
    return errors


def _brier_terms(beta: float, r: TemperedRows) -> Sequence[FloatArray]:
    norm = r.tilt(beta)
    p_y = r.at(r.e, r.y) / norm
    pp = r.dot(r.e, r.e) / norm**2
    pp_d = np.einsum(f"ij,ij,ij->{'ji'[r.axis]}", r.e, r.e, r.d) / norm**2
    mean, second = (total / norm for total in r.power_sums(2))
    # Now e is e d; d p / d beta = p u with u = d - mean.
    variance = second - mean**2
    pp_dd = r.dot(r.e, r.e) / norm**2
    pp_u = pp_d - mean * pp
    u_y = r.d_y - mean
    pp_uu = pp_dd - mean * (pp_d + pp_u)
    slope = pp_u - p_y * u_y
    bend = 2 * pp_uu - pp * variance - p_y * (u_y**2 - variance)
    return 2 * slope, 2 * bend


# ---- summary of the rows at one temperature


def summary_at(rows: Rows, beta: float) -> Summary:
    """Summarise rows of logits or log-probabilities whose logits are multiplied by
    beta.
    """
    return over_rows(
        rows, partial(_summary_terms, beta), partial(_summary, rows.k, beta)
    )


@dataclass(frozen=True)
class BeforeAndAfter(Sums):
    """Summaries of the same rows as they are and with scaled logits. Adds."""

    before: Summary
    after: Summary


def summaries_at(rows: Rows, beta: float) -> BeforeAndAfter:
    """Summarise rows of logits or log-probabilities in one walk: as they are, and with
    logits that are multiplied by beta."""

    # Workers are sent these two, so that they are functions of the module.
    terms = partial(_terms_before_and_after, beta)
    summaries = partial(_summaries_before_and_after, rows.k, beta)
    return over_rows(rows, terms, summaries)


def _terms_before_and_after(beta: float, r: TemperedRows) -> Sequence[FloatArray]:
    return [*_summary_terms(1.0, r), *_summary_terms(beta, r)]


def _summaries_before_and_after(
    k: int, beta: float, block: Block, values: FloatArray
) -> BeforeAndAfter:
    before, after = np.split(values, 2)
    return BeforeAndAfter(
        _summary(k, 1.0, block, before), _summary(k, beta, block, after)
    )


def _summary_terms(beta: float, r: TemperedRows) -> Sequence[FloatArray]:
    """With e = exp(beta d): its sum, its entries at prediction and label, the sums of
    e^2 and e d; the label's d; correctness."""
    norm = r.tilt(beta)
    return (
        norm,
        r.at(r.e, r.label),
        r.at(r.e, r.y),
        r.dot(r.e, r.e),
        r.dot(r.e, r.d),
        r.d_y,
        r.label == r.y,
    )


def _summary(k: int, beta: float, block: Block, terms: FloatArray) -> Summary:
    norm, e_label, e_y, squares, products, d_y, correct = terms
    brier = squares / norm**2 - 2.0 * e_y / norm + 1.0
    nll = np.log(norm) - beta * d_y
    # The entropy is log(norm) - beta E_p[d].
    entropy_gap = beta * (products / norm - d_y)
    losses = np.maximum(nll, 0.0), np.maximum(brier, 0.0), entropy_gap
    confidence = np.minimum(e_label / norm, 1.0)
    return Summary.of(confidence, correct, losses, block.labels, k, block.weight)


# ---- probabilities at one temperature, in the type in which they will be written


def softmax_at(
    scores: AnyArray, beta: float, label: IntArray | None, dtype: np.dtype[Any]
) -> tuple[AnyArray, FloatArray, IntArray]:
    """softmax(beta z) of logits or log-probabilities, and the probability of one class
    of every row.

    scores : (b, k). label : (b,) that class, None for the largest. Computed in float64,
    row by row the same whatever the rows beside. Returns (b, k) ``dtype``, (b,)
    float64, (b,) classes.
    """
    n, k = scores.shape
    out = np.empty((n, k), dtype)
    confidence = np.empty(n)
    top = np.empty(n, dtype=np.int64)
    step = tile_rows(k)
    room = np.empty((min(step, n), k))
    for start in range(0, n, step):
        some = slice(start, min(start + step, n))
        z = scores[some]
        here = np.arange(len(z))
        e = room[: len(z)]
        e[...] = z
        top[some] = e.argmax(axis=1)
        e -= e[here, top[some]][:, None]
        e *= beta
        np.exp(e, out=e)
        norm = e.sum(axis=1)
        e /= norm[:, None]
        confidence[some] = e[here, top[some] if label is None else label[some]]
        store(out[some], e)
    np.minimum(confidence, 1.0, out=confidence)
    return out, confidence, top if label is None else label
