"""Estimating equations of the one-temperature methods.

Functions here return a function of log beta (beta = 1/T) that gives the value and the
derivative of a fit's estimating equation, for a root finder.
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial, reduce
from operator import add
from typing import Any, Generic, TypeVar

import numpy as np

from calcli.fast_dataclass import dataclass
from calcli.numerics import AnyArray, FloatArray, IntArray, store, tile_rows
from calcli.rows import AtOnce, Block, Rows, part_blocks, rows_per_block, to_logits

Slope = Callable[[float], tuple[float, float]]
FEWEST_ROWS = 1000
"""Rows processed at once, where there are as many: for fewer, Python takes longer than NumPy."""
FEW_CLASSES = 64  # up to so many classes rows lie side by side, so that sums over classes are vectorised too
VECDOT = getattr(
    np, "vecdot", None
)  # a product of rows in half the time of einsum, from NumPy 2 on
LONGEST_DOT = 10_000
"""Longer products BLAS may cut among its threads, on which the digits would depend: rows are cut before."""


def row_dots(a: FloatArray, b: FloatArray) -> FloatArray:
    """Products of rows, (n,). a : (n, k), its rows contiguous; b : (n, k) or (k,)."""
    assert VECDOT is not None
    k = a.shape[-1]
    if k <= LONGEST_DOT:
        return np.asarray(VECDOT(a, b))
    parts = -(-k // LONGEST_DOT)
    even = k // parts * parts
    cut_a, cut_b = (x[..., :even].reshape(*x.shape[:-1], parts, -1) for x in (a, b))
    return np.asarray(
        VECDOT(cut_a, cut_b).sum(axis=-1) + VECDOT(a[..., even:], b[..., even:])
    )


class TemperedRows:
    """Some rows, their gaps to the largest logit, and exp(beta d): buffers that are filled again and again.

    d = z - max z <= 0 and e = exp(beta d) are (k, b) where classes are few, else (b, k). Every
    moment of z under p = e / sum e is taken of d, which does not cancel when logits are
    large. y, d_y : (b,) labels and their gaps. top : (b,) class of the largest logit. label : (b,) predictions.
    """

    y: IntArray
    d_y: FloatArray
    top: IntArray
    label: IntArray

    def __init__(self, k: int) -> None:
        self.axis = 0 if k <= FEW_CLASSES else 1
        self.rows = tile_rows(k)
        self._room = [
            np.empty((k, self.rows) if self.axis == 0 else (self.rows, k))
            for _ in range(3)
        ]
        self._here = np.arange(self.rows)
        self._dot = row_dots if self.axis == 1 and VECDOT is not None else None
        self._ones = np.ones(k)

    def load(self, block: Block, here: slice) -> None:
        """Take in some rows of a block."""
        z = (
            to_logits(block.scores[here], block.kind, block.zeros)
            if block.kind == "probs"
            else block.scores[here]
        )
        n, self.y = len(z), block.labels[here]
        self.d, self.e, self._square = (
            a[:, :n] if self.axis == 0 else a[:n] for a in self._room
        )
        if self.axis == 0:
            self.d[...] = z.T
            self.d -= self.d.max(axis=0)
            self.top = np.zeros(n, dtype=np.int64)
            for c in range(
                len(self.d) - 1, -1, -1
            ):  # a fifth of what argmax takes for few classes
                np.copyto(self.top, c, where=self.d[c] == 0.0)
        else:
            self.d[...] = z
            self.top = self.d.argmax(axis=1)
            self.d -= self.at(self.d, self.top)[:, None]
        self.d_y = self.at(self.d, self.y)
        self.label = self.top if block.assigned is None else block.assigned[here]

    def at(self, a: FloatArray, classes: IntArray) -> FloatArray:
        """One entry of every row, (b,)."""
        here = self._here[: len(classes)]
        return np.asarray(a[classes, here] if self.axis == 0 else a[here, classes])

    def tilt(self, beta: float) -> FloatArray:
        """Set e for this beta; returns its sums, (b,)."""
        scaled = self.d if beta == 1.0 else np.multiply(self.d, beta, out=self.e)
        return self.sum(np.exp(scaled, out=self.e))

    def mean(self, norm: FloatArray) -> FloatArray:
        """E_p[d], (b,). Leaves e d where e was."""
        self.e *= self.d
        return self.sum(self.e) / norm

    def sum(self, a: FloatArray) -> FloatArray:
        """Sum over the classes, (b,)."""
        if self._dot is not None:
            return self._dot(a, self._ones)
        return np.asarray(a.sum(axis=self.axis))

    def dot(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Sum over the classes of a b, (b,)."""
        if self._dot is not None:
            return self._dot(a, b)
        return np.asarray(np.einsum(f"ij,ij->{'ji'[self.axis]}", a, b))

    def power_sums(self, count: int) -> tuple[FloatArray, ...]:
        """Sums over the classes of e d … e d^count, (b,) each; count is even. Leaves e d^(count - 2) where e was."""
        square = np.multiply(self.d, self.d, out=self._square)
        sums = [self.dot(self.e, self.d), self.dot(self.e, square)]
        while len(sums) < count:
            self.e *= square
            sums += self.dot(self.e, self.d), self.dot(self.e, square)
        return tuple(sums)


Values = Callable[..., Sequence[FloatArray]]
"""Function of a ``TemperedRows``: arrays (b,) of its rows; what can wait for about a thousand rows waits."""


def weighted(block: Block, values: FloatArray) -> FloatArray:
    """Total weight of some rows, then the weighted sums of their values (m, b)."""
    if block.weight is None:
        return np.concatenate([[float(len(block))], values.sum(axis=1)])
    return np.concatenate([[block.weight.sum()], values @ block.weight])


Sums = TypeVar("Sums")


@dataclass(frozen=True)
class OfBlock(Generic[Sums]):
    """Sum over a block of ``of_rows(rows, values)``, values (m, b) of some rows at a time."""

    k: int
    values: Values
    of_rows: Callable[[Block, FloatArray], Sums]
    spare: list[TemperedRows] = field(default_factory=list)

    def __call__(self, block: Block) -> Sums:
        return reduce(add, self.parts(block))

    def parts(self, block: Block, *along: FloatArray) -> list[Sums]:
        """Results of ``of_rows``, for about a thousand rows at once or more."""
        try:
            some = self.spare.pop()
        except IndexError:
            some = TemperedRows(self.k)
        step, made = some.rows * -(-FEWEST_ROWS // some.rows), []
        for first in range(0, len(block), step):
            last, found = min(first + step, len(block)), []
            for at in range(first, last, some.rows):
                here = slice(at, min(at + some.rows, last))
                some.load(block, here)
                found.append(np.stack(self.values(some, *(a[here] for a in along))))
            made.append(
                self.of_rows(block.cut(first, last), np.concatenate(found, axis=1))
            )
        self.spare.append(some)
        return made


MOST_BYTES = 1 << 24  # size, in float64, of the rows that are one block


def at_once(k: int) -> AtOnce:
    """Number of blocks taken as one, so that they have ``FEWEST_ROWS`` within ``MOST_BYTES`` and fit into parts."""
    counts: tuple[AtOnce, ...] = (1, 2, 4, 8, 16)
    most = max(1, MOST_BYTES // (8 * k * rows_per_block(k)))
    whole = [count for count in counts if count <= most and part_blocks(k) % count == 0]
    return next(
        (count for count in whole if count * rows_per_block(k) >= FEWEST_ROWS),
        whole[-1],
    )


def over_rows(
    rows: Rows, values: Values, of_rows: Callable[[Block, FloatArray], Sums]
) -> Sums:
    """Sum over all rows of ``of_rows(rows, values)`` (see ``Rows.sum``)."""
    return rows.sum(OfBlock(rows.k, values, of_rows), at_once=at_once(rows.k))


def slope_by(
    terms: Callable[[float, TemperedRows], Sequence[FloatArray]], rows: Rows
) -> Slope:
    """First two derivatives of a mean loss in log beta, from those in beta that ``terms`` gives for every row."""

    def at(log_beta: float) -> tuple[float, float]:
        beta = float(np.exp(log_beta))
        mass, first, second = over_rows(rows, partial(terms, beta), weighted).tolist()
        g, h = first / mass, second / mass
        return beta * g, beta * g + beta**2 * h

    return at


def nll_slope(rows: Rows) -> Slope:
    """d mean NLL / d log beta = beta mean(E_p[z] - z_y), and its derivative.

    (Guo et al. 2017, equation 9, in beta = 1/T, where the NLL is convex.)
    """
    return slope_by(_nll_terms, rows)


def _nll_terms(beta: float, r: TemperedRows) -> Sequence[FloatArray]:
    norm = r.tilt(beta)
    mean = r.mean(norm)  # leaves e d in e
    return mean - r.d_y, r.dot(r.e, r.d) / norm - mean**2


def top_mass_slope(rows: Rows, top: int, target: float) -> Slope:
    """Mean probability of the ``top`` largest classes minus ``target``, and its derivative.

    (Clarte et al. 2023, equation 5.) Both in log beta; the value never decreases.
    """

    def at(log_beta: float) -> tuple[float, float]:
        beta = float(np.exp(log_beta))
        mass, value, slope = over_rows(
            rows, partial(_top_mass_terms, beta, top, rows.k), weighted
        ).tolist()
        return value / mass - target, beta * slope / mass

    return at


def _top_mass_terms(
    beta: float, top: int, k: int, r: TemperedRows
) -> Sequence[FloatArray]:
    """Probability of the ``top`` largest of k classes, and its derivative in beta."""
    norm = r.tilt(beta)
    mean = r.mean(norm)
    if top == 1:
        return 1.0 / norm, -mean / norm  # the largest logit has gap 0
    d = np.moveaxis(np.partition(r.d, k - top, axis=r.axis), r.axis, 0)[k - top :]
    p = np.exp(beta * d) / norm
    return p.sum(axis=0), (p * (d - mean)).sum(axis=0)


def octaves(low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """Two ascending chains of log beta: whole octaves from low, and the same half an octave on."""
    half = np.log(2.0) / 2
    grid = low + half * np.arange(int((high - low) / half) + 1)
    return grid[::2], grid[1::2]


def brier_slope(
    rows: Rows, low: float, high: float
) -> tuple[tuple[float, float, float], Slope]:
    """Bracket (low, best, high) in log beta of the least mean squared error, and the error's slope.

    The squared error is not convex in beta. One pass scores a grid; the root of the slope between the neighbours of its
    best point is left to the caller. A row's error changes over log beta at the pace of a sigmoid, so points half an
    octave apart miss no valley that counts. An octave further, exp(beta d) is squared: no exponential is needed, and
    the sum of the squares that the error is made of is the next point's norm.
    """
    chains = octaves(low, high)
    errors = over_rows(rows, partial(_brier_errors, chains), weighted)[1:]
    grid = np.concatenate(chains)
    order = np.argsort(grid)
    x, best = [low, *grid[order].tolist(), high], 1 + int(np.argmin(errors[order]))
    return (x[best - 1], x[best], x[best + 1]), slope_by(_brier_terms, rows)


def _brier_errors(
    chains: tuple[FloatArray, FloatArray], r: TemperedRows
) -> Sequence[FloatArray]:
    """Squared error, less 1, at every point of chains of octaves."""
    found = []
    for chain in chains:
        for j, log_beta in enumerate(chain.tolist()):
            if j == 0:
                norm = r.tilt(float(np.exp(log_beta)))
            else:
                r.e *= r.e
            squares = r.dot(r.e, r.e)
            found.append(squares / norm**2 - 2 * r.at(r.e, r.y) / norm)
            norm = squares
    return found


def _brier_terms(beta: float, r: TemperedRows) -> Sequence[FloatArray]:
    norm = r.tilt(beta)
    p_y, pp = r.at(r.e, r.y) / norm, r.dot(r.e, r.e) / norm**2
    pp_d = np.einsum(f"ij,ij,ij->{'ji'[r.axis]}", r.e, r.e, r.d) / norm**2
    mean = r.mean(norm)  # d p / d beta = p u with u = d - mean
    variance, pp_dd = r.dot(r.e, r.d) / norm - mean**2, r.dot(r.e, r.e) / norm**2
    pp_u, u_y = pp_d - mean * pp, r.d_y - mean
    pp_uu = pp_dd - mean * (pp_d + pp_u)
    return 2 * (pp_u - p_y * u_y), 2 * (
        2 * pp_uu - pp * variance - p_y * (u_y**2 - variance)
    )


# ---- probabilities at one temperature, in the type in which they will be written


def softmax_at(
    scores: AnyArray, beta: float, label: IntArray | None, dtype: np.dtype[Any]
) -> tuple[AnyArray, FloatArray, IntArray]:
    """softmax(beta z) of logits or log-probabilities, and the probability of one class of every row.

    scores : (b, k). label : (b,) that class, None for the largest. Computed in float64, row by row the
    same whatever the rows beside. Returns (b, k) ``dtype``, (b,) float64, (b,) classes.
    """
    n, k = scores.shape
    out, confidence, top = (
        np.empty((n, k), dtype),
        np.empty(n),
        np.empty(n, dtype=np.int64),
    )
    step = tile_rows(k)
    room = np.empty((min(step, n), k))
    for at in range(0, n, step):
        some = slice(at, min(at + step, n))
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
    return (
        out,
        np.minimum(confidence, 1.0, out=confidence),
        top if label is None else label,
    )
