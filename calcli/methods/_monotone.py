"""One increasing piecewise linear map for every logit.

The map, its likelihood, its fit. Edges e_1 < ... < e_m cut the line into m + 1 segments
with slopes s_0 .. s_m, the outer two without end. g(x) = sum_j s_j L_j(x), where L_j is
the length of segment j between e_1 and x (negative in the first). g is linear in s, so
the NLL of softmax(g(x)) is convex in s.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain, count
from operator import add
from typing import Any

import numpy as np

from calcli.binning import edges_below
from calcli.block import Block
from calcli.calibrator import C, Context, Fit
from calcli.errors import DataError
from calcli.methods._temperature import start_rows
from calcli.numerics import (
    FloatArray,
    IntArray,
    overridable,
    row_max,
    row_weights,
    tile_rows,
)
from calcli.records import Sums
from calcli.rows import Rows
from calcli.solvers import (
    GRADIENT,
    LOOSE_GRADIENT,
    BoxMinimum,
    Quadratic,
    minimise_box,
)

ALL_AT_BOUND = (
    "every slope ran into its bound (0.01 or 100): these rows are all right, or their"
    " scores say nothing about"
    " the labels; calibrate on rows that the model gets wrong now and then"
)

# scores in float64 up to this size keep their segments and offsets, in twice the memory
KEPT_BYTES = 1 << 24
Entry = Callable[[FloatArray], FloatArray]
Loss = Callable[[Quadratic, float, FloatArray], tuple[float, FloatArray, FloatArray]]
"""From the NLL as a function of the slopes, the effective number of rows and
parameters: value, gradient and Hessian."""


def check_map(edges: FloatArray, slopes: FloatArray) -> None:
    """Raise DataError unless there is one slope more than edges."""
    if len(slopes) != len(edges) + 1:
        raise DataError(
            f"{len(slopes)} slopes for {len(edges)} edges, expected one more than edges"
        )


def locate(x: FloatArray, edges: FloatArray) -> tuple[IntArray, FloatArray]:
    """Find the segment of every x, and its offset from the segment's finite end.

    The offset is negative in the first.
    """
    segment = edges_below(x, edges)
    return segment, x - np.concatenate([edges[:1], edges]).take(segment)


@overridable
def evaluate(x: FloatArray, edges: FloatArray, slopes: FloatArray) -> FloatArray:
    """g(x), with g(e_1) = 0."""
    segment, offset = locate(x, edges)
    offset *= slopes.take(segment)
    offset += values_at_ends(edges, slopes).take(segment)
    return offset


def values_at_ends(edges: FloatArray, slopes: FloatArray) -> FloatArray:
    """g at the finite end of every segment, (m + 1,)."""
    return np.concatenate([[0.0, 0.0], np.cumsum(slopes[1:-1] * np.diff(edges))])


def nll_in_slopes(rows: Rows, edges: FloatArray, entry: Entry) -> Quadratic:
    """Mean NLL of softmax(g(x)) as a function of the slopes, with gradient and Hessian.

    One pass over the rows; for small data the segment of each score is found once and
    kept. The lengths L_j are never formed: a row's moments of them under p follow from
    three sums per segment (of p, p t, p t^2; t the offset), because L_k > 0 means that
    all segments between e_1 and k are full.
    """
    kept: list[list[Place]] | None = None
    if 8 * rows.n * rows.k <= KEPT_BYTES:
        kept = list(rows.each(partial(_placed, edges, entry)))

    def nll(slopes: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        if kept is None:
            sums = rows.sum(partial(_moments_of_block, edges, slopes, entry))
        else:
            places = chain.from_iterable(kept)
            sums = reduce(add, (_moments(edges, slopes, *place) for place in places))
        return (
            sums.value / sums.mass,
            sums.gradient / sums.mass,
            sums.hessian / sums.mass,
        )

    return nll


def minimise_map(
    rows: Rows,
    edges: FloatArray,
    entry: Entry,
    loss: Loss,
    begin: FloatArray,
    context: Context,
    box: dict[str, Any],
) -> BoxMinimum:
    """Minimise a loss within a box.

    Without a known start, begin at the minimum on a sample of the rows. box : low, high
    and further arguments of ``minimise_box``.
    """
    passes = count(1)

    def search(some: Rows, begin: FloatArray, tolerance: float) -> BoxMinimum:
        nll = nll_in_slopes(some, edges, entry)

        def watched(x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
            context.progress("bending the map", next(passes), 0)
            return loss(nll, some.effective_n, x)

        close = context.loose
        return minimise_box(watched, begin, tolerance=tolerance, close=close, **box)

    is_begun = context.start is not None or context.loose > 0.0
    size = 0 if is_begun else start_rows(rows)
    if size:
        rough = search(rows.sample(size), begin, LOOSE_GRADIENT)
        if rough.status == "ok":
            begin = rough.x
    return search(rows, begin, LOOSE_GRADIENT if context.loose else GRADIENT)


def ended(fitted: C, minimum: BoxMinimum, box: dict[str, Any]) -> Fit[C]:
    """Make the fit of a map whose slopes were searched between two bounds.

    With its status and warnings.
    """
    details = {"evaluations": minimum.evaluations, "gradient": minimum.gradient}
    if minimum.status == "not_converged":
        warning = "the search for the slopes did not converge"
        return Fit(fitted, "not_converged", (warning,), details)
    if np.all(minimum.x <= box["low"]) or np.all(minimum.x >= box["high"]):
        return Fit(fitted, "at_bound", (ALL_AT_BOUND,), details)
    return Fit(fitted, "ok", (), details)


@dataclass(frozen=True)
class _Sums(Sums):
    """Weight, NLL, gradient and Hessian of some rows. Adds."""

    mass: float
    value: float
    gradient: FloatArray
    hessian: FloatArray


# some rows, with segment and offset of every score
Place = tuple[Block, IntArray, FloatArray]


def _placed(edges: FloatArray, entry: Entry, block: Block) -> list[Place]:
    """Segments and offsets of a block's scores, some rows at a time."""
    step = tile_rows(block.scores.shape[1])
    parts = [block.cut(start, start + step) for start in range(0, len(block), step)]
    return [(part, *locate(entry(part.z), edges)) for part in parts]


def _moments_of_block(
    edges: FloatArray, slopes: FloatArray, entry: Entry, block: Block
) -> _Sums:
    places = _placed(edges, entry, block)
    return reduce(add, (_moments(edges, slopes, *place) for place in places))


def _moments(
    edges: FloatArray,
    slopes: FloatArray,
    block: Block,
    segment: IntArray,
    offset: FloatArray,
) -> _Sums:
    m = len(edges) + 1
    full = np.concatenate([[0.0], np.diff(edges), [0.0]])
    n = len(block)
    y = block.labels
    here = np.arange(n)
    # Probabilities p under the map.
    base = np.concatenate([[0.0, 0.0], np.cumsum(slopes[1:-1] * full[1:-1])])
    p = slopes.take(segment)
    p *= offset
    p += base.take(segment)
    p -= row_max(p)[:, None]
    log_p_y = p[here, y]
    np.exp(p, out=p)
    total = np.einsum("ij->i", p)
    log_p_y -= np.log(total)
    p /= total[:, None]
    # Sums of p and of p t per row and segment, then the mean lengths.
    where = (segment + here[:, None] * m).ravel()
    share = np.bincount(where, weights=p.ravel(), minlength=n * m).reshape(n, m)
    p *= offset
    first = np.bincount(where, weights=p.ravel(), minlength=n * m).reshape(n, m)
    p *= offset
    beyond = share[:, ::-1].cumsum(axis=1)[:, ::-1] - share
    beyond[:, 0] = 0.0
    mean = first + full * beyond
    label = np.where(np.arange(m) < segment[here, y][:, None], full, 0.0)
    label[here, segment[here, y]] = offset[here, y]
    weight = row_weights(block.weight, n)
    # E[L_j L_k] = full_j E[L_k] for 1 <= j < k, and 0 for j = 0 < k; E[L_j^2] needs no
    # sums by row.
    p *= weight[:, None]
    square_sums = np.bincount(segment.ravel(), weights=p.ravel(), minlength=m)
    square = square_sums + full**2 * (weight @ beyond)
    cross = np.triu(np.outer(full, weight @ mean), 1)
    hessian = cross + cross.T + np.diag(square) - (mean * weight[:, None]).T @ mean
    return _Sums(
        mass=float(weight.sum()),
        value=-float(weight @ log_p_y),
        gradient=weight @ (mean - label),
        hessian=hessian,
    )


def pull_together(
    x: FloatArray, strength: float
) -> tuple[float, FloatArray, FloatArray]:
    """strength * sum_j (x_{j+1} - x_j)^2, its gradient and Hessian."""
    difference = np.diff(np.eye(len(x)), axis=0)
    hessian = 2 * strength * difference.T @ difference
    gradient = hessian @ x
    return 0.5 * float(x @ gradient), gradient, hessian
