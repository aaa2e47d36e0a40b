"""Retention probabilities: how often a prediction survives noise added to the logits.

Independent noise of one family and scale is added to every logit; the retention
probability of a row is the chance that its largest logit stays the largest. It depends
only on the gaps d_c = z_top - z_c >= 0 to the other classes:

- Gaussian, standard deviation s: integral of phi(u) prod_c Phi(u + d_c / s) du;
- uniform, width w: integral over u in (0, 1) of prod_c min(u + d_c / w, 1) du;
- Gumbel, scale s: the largest softmax(z / s);
- any of them by drawing (``hoki_draws``).

Reference: Jang, Ivanov, Lee, Weimer (2021), Algorithm 1, whose counts these are the
exact limits of.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import erfc

import numpy as np

from calcli.block import Block
from calcli.kernels.numpy.hoki_draws import (
    Draws,
    Races,
    gaussian_quantile,
    sampled_retention,
)
from calcli.numerics import TINY, AnyArray, FloatArray, IntArray, tile_rows
from calcli.rows import AtOnce, Rows

# ---- exact retention probability under uniform noise


NEGLIGIBLE = 24.0
"""The integral stops where the product of the factors is below exp(-24): its logarithm
is concave, so its slope there is at least 24, and less than exp(-24) / 24 = 2e-12 is
left out.
"""
NODES = ((0.1, 3), (0.5, 4), (2.0, 6), (8.0, 10), (np.inf, 18))
"""(log variation of the integrand over a piece, Gauss-Legendre nodes).

For exp(-v t) on [0, 1] these leave a relative error below 3e-12; pieces that vary by
more than exp(-NEGLIGIBLE) are shortened first.
"""


def uniform_retention(d: FloatArray, widths: Sequence[float]) -> FloatArray:
    """Exact retention under uniform noise, (b, widths), of gaps (b, k), infinite for
    the top class itself.
    """
    near = max(1, int((d < max(widths)).sum(axis=1).max(initial=0)))
    nearest = np.partition(d, near - 1, axis=1)[:, :near] if near < d.shape[1] else d
    # Classes lie along the first axis: products over them run down contiguous rows of samples.
    ascending = np.ascontiguousarray(np.sort(nearest, axis=1).T)
    return np.stack([_one_width(ascending, width) for width in widths], axis=1)


def _one_width(ascending: FloatArray, width: float) -> FloatArray:
    """Retention of rows whose gaps (near, b) ascend along the first axis, (b,).

    gamma = integral over u in (0, 1) of prod_c min(u + d_c / width, 1). Between
    neighbouring kinks 1 - d_c / width the integrand is a polynomial: the j classes that
    are nearest have factors below 1. We go from u = 1 downwards, kink by kink, all rows
    together, and stop where what is left cannot matter. j factors need (j + 1) / 2
    Gauss-Legendre nodes to be exact; fewer do where the integrand varies little.
    """
    near = int((ascending < width).sum(axis=0).max(initial=0))
    delta = np.minimum(ascending[: max(1, near)] / width, 1.0)
    out = np.array(delta[0])
    rows = np.arange(len(out))
    log_high = np.zeros(len(out))
    for j in range(1, near + 1):
        high = 1.0 - delta[j - 1]
        low = 1.0 - delta[j] if j < near else np.zeros(len(rows))
        # The next class enters with a factor of 1: the product is continuous at the kink.
        log_low = np.log(np.maximum(np.multiply.reduce(delta[:j] + low, axis=0), TINY))
        still = (log_high > -NEGLIGIBLE) & (high > 0.0)
        out[rows] += _piece(
            delta[:j], low, high, np.where(still, log_high - log_low, np.nan)
        )
        log_high = log_low
        if 4 * np.count_nonzero(still) < 3 * len(rows):
            rows = rows[still]
            log_high = log_high[still]
            delta = np.ascontiguousarray(delta[:, still])
            if not len(rows):
                break
    return np.minimum(out, 1.0, out=out)


def _piece(
    delta: FloatArray, low: FloatArray, high: FloatArray, variation: FloatArray
) -> FloatArray:
    """Integral over (low, high) of the product of the factors u + delta, (j, rows); all
    (rows,).

    variation : of its logarithm, NaN where the integral is not wanted. It alone decides
    how many nodes a row gets: never what the other rows need.
    """
    exact = (len(delta) + 2) // 2
    total = np.zeros(len(high))
    least = -np.inf
    for most, nodes in NODES:
        rows = np.flatnonzero((variation > least) & (variation <= most))
        least = most
        if not len(rows):
            continue
        some = delta if len(rows) == len(high) else delta.take(rows, axis=1)
        start = low[rows]
        end = high[rows]
        if most == np.inf:
            # log prod is concave: its slope below ``high`` is at least the slope there.
            start = np.maximum(
                start, end - NEGLIGIBLE / (1.0 / (some + end)).sum(axis=0)
            )
        middle = 0.5 * (end + start)
        half = 0.5 * (end - start)
        part = np.zeros(len(rows))
        for x, w in _legendre(min(nodes, exact)):
            part += w * np.multiply.reduce(some + (middle + half * x), axis=0)
        total[rows] = part * half
    return total


@lru_cache
def _legendre(nodes: int) -> tuple[tuple[float, float], ...]:
    points, weights = np.polynomial.legendre.leggauss(nodes)
    return tuple(zip(points.tolist(), weights.tolist(), strict=True))


TOGETHER = 8
"""Rows per matrix product.

Always this many, the last padded: the sum that a row gets then does not depend on which
rows stand beside it. So few, that a BLAS library starts no threads for one: at this
size they gain nothing, and while the other cores are busy they wait for each other.
"""
DEGREE = 9
CELLS_PER_FOLD = 7
KNEE = 3.0
"""The grid of gaps: cells of equal length in log(1 + d / (KNEE s)), s the least scale,
that many of them per factor e, and in each a polynomial of this degree. Fine near 0 for
the least scale, and as coarse further out as the larger scales can bear. log Phi is
analytic within 2.8 of the real axis, so the interpolation error is below 1e-12 per
class. A higher degree means fewer columns in the matrix product and more sums to form
them.
"""
# classes whose chances of overtaking the top class add up to less than this are left
# out
DROPPED = 1e-11
# the noise of the top class is integrated over +-REACH standard deviations (tails:
# 3e-12)
REACH = 7.0

Report = Callable[[int], None]


def retention_rates(
    rows: Rows,
    noise: str,
    scales: Sequence[float],
    draws: Draws | None = None,
    report: Report = lambda done: None,
) -> FloatArray:
    """Retention probability of every row at every scale, in one pass over the rows.

    noise : gaussian, uniform or gumbel. scales : standard deviations, widths or Gumbel
    scales. draws : (m, k) standard noise to draw from instead of the exact value.
    report receives the number of rows done. Returns (n, len(scales)) float64 in [0, 1].
    """
    races = None if draws is None else Races(draws)
    out = np.empty((rows.n, len(scales)))
    done = 0
    # Uniform noise walks from kink to kink: every step is a few calls, however many rows take it. Of Gaussian noise
    # the arrays of a tile serve the next one.
    at_once: AtOnce = 1 if races is not None else 4
    for part in rows.each(
        partial(_of_block, noise, tuple(scales), races), at_once=at_once
    ):
        out[done : done + len(part)] = part
        done += len(part)
        report(done)
    return out


def _of_block(
    noise: str, scales: tuple[float, ...], races: Races | None, block: Block
) -> FloatArray:
    return block_retention(
        block.z if block.kind == "probs" else block.scores, noise, scales, races
    )


def block_retention(
    z: AnyArray, noise: str, scales: Sequence[float], races: Races | None = None
) -> FloatArray:
    """Retention of (b, k) logits of any float type, (b, len(scales))."""
    if noise == "gaussian" and races is None:
        out = np.empty((len(z), len(scales)))
        room = GapArrays(z.shape[1])
        step = tile_rows(z.shape[1])
        for start in range(0, len(z), step):
            out[start : start + step] = _gaussian_tile(
                z[start : start + step], scales, room
            )
        return out
    d, top = gaps_to_top(np.asarray(z, dtype=np.float64))
    d, scales = _with_reciprocals(d, scales)
    if noise == "uniform" and races is None:
        return uniform_retention(d, scales)
    if races is not None:
        return np.stack(
            [sampled_retention(d, top, scale, races) for scale in scales], axis=1
        )
    return np.stack([gumbel_retention(d, scale) for scale in scales], axis=1)


def _gaussian_tile(
    z: AnyArray, scales: Sequence[float], room: "GapArrays"
) -> FloatArray:
    k = z.shape[1]
    in_order = z.shape[1] >= IN_ORDER_FROM and min(scales) >= SMALLEST
    if in_order:
        d = gaps_in_order(z, room.gaps[: len(z)])
    else:
        d, scales = _with_reciprocals(
            gaps_to_top(np.asarray(z, dtype=np.float64))[0], scales
        )
    return gaussian_retention(d, gap_table(tuple(scales), k), room, in_order=in_order)


SMALLEST = 2.0**-900
LARGER = 2.0**800
"""Scales below the first have no reciprocal that float64 can hold; times the second
they have.
"""


def _with_reciprocals(
    d: FloatArray, scales: Sequence[float]
) -> tuple[FloatArray, Sequence[float]]:
    """Gaps and scales, both times a power of two (no rounding) where a scale has no
    reciprocal.
    """
    if min(scales) >= SMALLEST:
        return d, scales
    with np.errstate(over="ignore"):
        return d * LARGER, [scale * LARGER for scale in scales]


# classes from which it pays to sort a row: what falls into one cell is then added up as
# it lies
IN_ORDER_FROM = 128


def gaps_in_order(z: AnyArray, out: FloatArray | None = None) -> FloatArray:
    """Gaps to the largest logit in falling order, (b, k); that of the largest itself,
    at the end, is infinite.
    """
    # float16 is slow to sort
    ordered = z.astype(np.float32) if z.dtype == np.float16 else z.copy()
    ordered.sort(axis=1)
    d = np.empty(z.shape) if out is None else out
    d[...] = ordered
    np.subtract(d[:, -1:].copy(), d, out=d)
    d[:, -1] = np.inf
    return d


def gaps_to_top(z: FloatArray) -> tuple[FloatArray, IntArray]:
    """Gaps to the largest logit, (b, k), and its class (ties to the lowest index).

    The top class itself gets an infinite gap: it cannot overtake itself.
    """
    rows = np.arange(len(z))
    top = z.argmax(axis=1)
    d = z[rows, top][:, None] - z
    d[rows, top] = np.inf
    return d, top


def gumbel_retention(d: FloatArray, scale: float) -> FloatArray:
    """Exact retention under Gumbel noise: 1 / (1 + sum exp(-d / s)), the softmax
    confidence.
    """
    closeness = d / -scale
    np.exp(closeness, out=closeness)
    return 1.0 / (1.0 + closeness.sum(axis=1))


@dataclass(frozen=True)
class GapTable:
    """Coefficients that multiply the power sums of a row's gaps.

    knee : KNEE times the least scale. far : gap from which a class is dropped at the
    largest scale. cells : cells of the grid. per_scale : for each scale the (cells'
    used, nodes) table of polynomial coefficients of log Phi(u + d / s), rows ordered by
    cell, then by degree. log_weight : (nodes,) log of h phi(u).
    """

    knee: float
    far: float
    cells: int
    per_scale: tuple[FloatArray, ...]
    log_weight: FloatArray


@lru_cache(maxsize=8)
def gap_table(scales: tuple[float, ...], k: int) -> GapTable:
    """The table for these scales and k classes (a few MiB at most)."""
    # Step of the trapezoidal rule: the more classes, the steeper the integrand's left side. Even the worst case, all
    # k - 1 gaps equal, is off by less than 2e-9 (and by less than 2e-12 for the 1/4 up to 64 classes).
    step = 1 / 8
    if k <= 64:
        step = 1 / 4
    elif k <= 5000:
        step = 1 / 6
    u = step * np.arange(-round(REACH / step), round(REACH / step) + 1)
    # P(overtaking) = Phi(-d / (s sqrt 2))
    far = -np.sqrt(2.0) * float(gaussian_quantile(np.array(DROPPED / k)))
    knee = KNEE * min(scales)

    def cells_up_to(gap: float) -> int:
        return int(np.ceil(CELLS_PER_FOLD * np.log1p(gap / knee)))

    cells = cells_up_to(far * max(scales))
    t = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))  # Chebyshev points
    to_coefficients = np.linalg.inv(np.vander(t, increasing=True))
    d = knee * np.expm1((np.arange(cells)[:, None] + 0.5 + 0.5 * t) / CELLS_PER_FOLD)
    tables = []
    for scale in scales:
        used = cells_up_to(far * scale)
        values = log_phi(u + d[:used, :, None] / scale)
        tables.append((to_coefficients @ values).reshape(used * (DEGREE + 1), len(u)))
    return GapTable(
        knee,
        far * max(scales),
        cells,
        tuple(tables),
        np.log(step / np.sqrt(2 * np.pi)) - u**2 / 2,
    )


def log_phi(x: FloatArray) -> FloatArray:
    """Logarithm of the standard normal distribution function, to 3e-16 absolute or
    1e-13 relative. x : above -37.

    SciPy's is quicker for many scales, but to import it takes a tenth of a second,
    longer than the tables of a search.
    """
    out = np.zeros(x.shape)
    near = x < CERTAIN
    out[near] = np.log([0.5 * erfc(v) for v in (x[near] / -np.sqrt(2.0)).tolist()])
    return out


CERTAIN = 8.3  # from here on the normal distribution function is 1 in float64


class GapArrays:
    """Arrays (rows, k) for the gaps of some rows and what is made of them, filled again
    and again.

    Made anew, their pages would cost as much as the work in them.
    """

    def __init__(self, k: int) -> None:
        self.gaps, self.position, self.power = np.empty((3, tile_rows(k), k))
        self.cell = np.empty((tile_rows(k), k), dtype=np.intp)


def gaussian_retention(
    d: FloatArray,
    table: GapTable,
    room: GapArrays | None = None,
    *,
    in_order: bool = False,
) -> FloatArray:
    """Exact retention under Gaussian noise at every scale of the table.

    d : (b, k) gaps of a tile; in_order : as ``gaps_in_order`` gives them. Returns (b,
    scales). The integrand is exp of a sum over classes of one smooth function of the
    gap, so a row is summed up by how its gaps are distributed: by the power sums of
    their positions within the cells of a grid. The sum at every node of the quadrature,
    for every scale, is then one matrix product of these power sums. Absolute error
    below 1e-8 (measured: 1e-9) against adaptive quadrature.
    """
    moments = power_sums(d, table, room or GapArrays(d.shape[1]), in_order)
    out = np.empty((len(d), len(table.per_scale)))
    for j, coefficients in enumerate(table.per_scale):
        log_products = products(moments[:, : len(coefficients)], coefficients)
        log_products += table.log_weight
        out[:, j] = np.exp(log_products, out=log_products).sum(axis=1)[: len(d)]
    return np.minimum(out, 1.0, out=out)


def products(a: FloatArray, b: FloatArray) -> FloatArray:
    """a @ b for a (TOGETHER m, q) and b (q, r), so many rows at a time."""
    return np.matmul(a.reshape(-1, TOGETHER, a.shape[1]), b).reshape(len(a), b.shape[1])


def power_sums(
    d: FloatArray, table: GapTable, room: GapArrays, in_order: bool
) -> FloatArray:
    """Sums of powers 0..DEGREE of the gaps' positions in their cells.

    d : (b, k); in_order : as ``gaps_in_order`` gives them. Returns (b rounded up to a
    multiple of TOGETHER, cells * (DEGREE + 1)); rows beyond b are zero.
    """
    width = table.cells + 1  # one more cell takes what is dropped
    x = room.position[: len(d)]
    cell = room.power[: len(d)]
    cell_of = room.cell[: len(d)]
    np.minimum(d, table.far, out=x)
    x *= 1.0 / table.knee
    x += 1.0
    np.log(x, out=x)
    x *= CELLS_PER_FOLD
    np.floor(x, out=cell)
    x -= cell
    x *= 2.0
    x -= 1.0
    np.copyto(cell, table.cells, where=d >= table.far)
    cell += (np.arange(len(d), dtype=np.float64) * width)[:, None]
    np.copyto(cell_of, cell, casting="unsafe")
    padded = -(-len(d) // TOGETHER) * TOGETHER
    sums = np.zeros((padded, width, DEGREE + 1))
    power = cell  # whose numbers are in ``cell_of`` now
    power.fill(1.0)
    # Only the cell of what is dropped, which nobody reads, can have two runs in a row: far away, and the class itself.
    where = cell_of.ravel()
    starts = (
        np.append(0, 1 + np.flatnonzero(where[1:] != where[:-1])) if in_order else None
    )
    for p in range(DEGREE + 1):
        if starts is None:
            counted = np.bincount(
                where, weights=power.ravel(), minlength=len(d) * width
            )
            sums[: len(d), :, p] = counted.reshape(len(d), width)
        else:
            sums.reshape(-1, DEGREE + 1)[where[starts], p] = np.add.reduceat(
                power.ravel(), starts
            )
        power *= x
    return sums.reshape(padded, width * (DEGREE + 1))[:, : table.cells * (DEGREE + 1)]
