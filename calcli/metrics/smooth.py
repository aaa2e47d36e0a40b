"""Smooth calibration error: no bins, a kernel whose width is the error itself."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from calcli.metrics.context import MetricContext, Value, made_once, metric
from calcli.numerics import AnyArray, FloatArray, IntArray

Residuals = tuple[FloatArray, IntArray]
"""Sums of residuals (r, m) by cell of the grid, and the cells (m,) that hold any."""

SMALLEST = 1e-5  # narrowest kernel that is considered

STEPS = 60  # most iterations of the search for the width

SECANTS, START, SLOPE = 12, -3.5, -1.4
"""Steps of the secant, its first point (a width of .03) and the slope it first assumes."""


def grid_cells(n: int) -> int:
    """Grid cells on [0, 1] for n rows: fine against the kernel, which narrows as n grows."""
    return 1024 if n <= 100_000 else 4096


def smooth_residuals(
    scores: FloatArray, residuals: FloatArray, cells: int, total: float | None = None
) -> FloatArray:
    """Cosine coefficients of the residuals over [0, 1] (see ``spectrum``). scores : (n,). residuals : (n,) score minus
    outcome, weighted if so. Each residual is shared linearly between the two nearest grid points, the cells'
    midpoints."""
    place = np.clip(scores * cells - 0.5, 0.0, cells - 1.0)
    low = np.minimum(place.astype(np.int64), cells - 2)
    part = place - low
    mass = np.bincount(low, weights=residuals * (1.0 - part), minlength=cells)
    mass += np.bincount(low + 1, weights=residuals * part, minlength=cells)[:cells]
    return spectrum(mass / (len(scores) if total is None else total))


def spectrum(mass: FloatArray) -> FloatArray:
    """Cosine coefficients (…, cells + 1) of masses (…, cells) at the cells' midpoints. The even extension is what
    reflects the kernel at 0 and 1."""
    cells = mass.shape[-1]
    waves = np.fft.rfft(np.concatenate([mass, mass[..., ::-1]], axis=-1), axis=-1)
    return np.asarray(
        (waves * np.exp(-0.5j * np.pi / cells * np.arange(cells + 1))).real
    )


FINE, COARSE = (9.0, 2, 256), (5.3, 4, 64)
"""For 1e-9 and for 1e-4: standard deviations of a kernel's spectrum that are kept, points a wave, fewest points."""

FEW_CELLS = 256  # non-empty cells up to which the waves are summed cell by cell


def cosines(waves: int, cell: IntArray, cells: int) -> FloatArray:
    """cos(pi w (j + 1/2) / cells) for waves w = 0..waves at the midpoints of cells j (m,), (waves + 1, m)."""
    turn = np.cos(np.pi / (2 * cells) * np.arange(4 * cells))
    return np.asarray(
        turn[np.arange(waves + 1)[:, None] * (2 * cell + 1) % (4 * cells)]
    )


@lru_cache(maxsize=4)
def _inverse(points: int) -> FloatArray:
    """Matrix from cosine coefficients to the values at the midpoints of a grid, (points + 1, points)."""
    back = cosines(points, np.arange(points), points) / points
    back[0] /= 2.0
    return back


@lru_cache(maxsize=4)
def _doubled(waves: int, cells: int) -> FloatArray:
    """Twice the cosines at every cell, (cells, waves + 1)."""
    return np.ascontiguousarray(2.0 * cosines(waves, np.arange(cells), cells).T)


class Spectra:
    """Cosine coefficients of masses at the midpoints of a grid's cells: where few hold any, of the waves asked for.
    parts : (masses, cells) some at a time, whose spectra stand one after the other."""

    def __init__(self, parts: Sequence[Residuals], cells: int) -> None:
        self.parts, self.known = (
            parts,
            np.empty((sum(len(mass) for mass, _ in parts), 0)),
        )
        self.shape = len(self.known), cells + 1

    def first(self, waves: int) -> FloatArray:
        """Coefficients of the mean and at least so many waves, (r, …)."""
        if self.known.shape[1] <= waves:
            few = max(len(cell) for _, cell in self.parts) <= FEW_CELLS
            count = (
                min(self.shape[1] - 1, 1 << waves.bit_length())
                if few
                else self.shape[1] - 1
            )
            self.known = np.concatenate(
                [self._of_part(*part, count) for part in self.parts]
            )
        return self.known

    def _of_part(self, mass: FloatArray, cell: IntArray, waves: int) -> FloatArray:
        cells = self.shape[1] - 1
        if len(cell) <= FEW_CELLS:
            several = len(self.parts) > 1  # each of which looks up a few of its own
            return mass @ (
                _doubled(waves, cells)[cell]
                if several
                else 2.0 * cosines(waves, cell, cells).T
            )
        whole = np.zeros((len(mass), cells))
        whole[:, cell] = mass
        return spectrum(whole)


def smooth_errors(
    spectra: FloatArray | Spectra,
    tolerance: float = 1e-9,
    start: float | FloatArray = START,
) -> FloatArray:
    """Smooth calibration errors of cosine spectra (…, cells + 1).

    With a Gaussian kernel of width s, reflected at 0 and 1, r_s(t) = (1/N) sum_i K_s(t, c_i) (c_i - y_i) and E(s) =
    integral |r_s|; E falls with s, and the smooth calibration error is the s at which E(s) = s, up to a relative
    ``tolerance``. All spectra are solved at once. start : ln s to begin with, one for all or (…,).

    Reference: Blasiok, Nakkiran (2024), definition 3.4, arXiv 2309.12236.
    """
    flat = spectra if isinstance(spectra, Spectra) else np.atleast_2d(spectra)
    n, exact = flat.shape[0], FINE if tolerance < 1e-4 else COARSE
    # f(x) = ln E(e^x) - x falls at least as fast as -x, but for rounding below a cell's width: its root lies
    # between x and x + 1.25 f(x). A secant no flatter stays there, and f is nearly straight; what is left
    # after some steps is halved.
    floor = np.log(SMALLEST)
    low, high = np.full(n, floor), np.zeros(n)
    x, before = np.clip(np.full(n, start), floor, 0.0), np.full((2, n), np.nan)
    left = np.arange(n)
    for step in range(STEPS):
        at = x[left]
        f = (
            np.log(np.maximum(smooth_error_at(flat, np.exp(at), left, exact), 1e-320))
            - at
        )
        low[left] = np.maximum(low[left], np.where(f > 0.0, at, at + 1.25 * f))
        high[left] = np.minimum(high[left], np.where(f > 0.0, at + 1.25 * f, at))
        # Where even the narrowest kernel smooths everything away, the error is that kernel's.
        going = (np.abs(f) > tolerance) & ~((at <= floor) & (f <= 0.0))
        left, at, f, last = left[going], at[going], f[going], before[:, going]
        if not len(left):
            break
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = np.where(np.isnan(last[0]), SLOPE, (f - last[1]) / (at - last[0]))
        there = at - f / np.minimum(np.nan_to_num(slope, nan=SLOPE, neginf=-1e9), -0.8)
        if step >= SECANTS:
            there = 0.5 * (low[left] + high[left])
        x[left] = np.clip(there, low[left], high[left])
        before = np.stack([at, f])
    out = np.exp(x)
    narrow = np.flatnonzero(x <= floor)
    if len(narrow):
        out[narrow] = smooth_error_at(
            flat, np.full(len(narrow), SMALLEST), narrow, exact
        )
    return np.asarray(out)


def smooth_error_at(
    spectra: FloatArray | Spectra,
    s: FloatArray,
    rows: IntArray | None = None,
    exact: tuple[float, int, int] = FINE,
) -> FloatArray:
    """E(s), the integral of |r_s|, for spectra (r, cells + 1) and kernel widths s (r,). rows : spectra that the widths
    belong to, by default all. Rows on grids of as many points are computed together."""
    rows = np.arange(len(s)) if rows is None else rows
    (reach, dense, least), cells = exact, spectra.shape[1] - 1
    # Waves of which next to nothing is left are not worth their transform, and what
    # remains is smooth enough for a coarser grid.
    waves = np.minimum(cells, np.ceil(reach / (np.pi * s)) + 1.0)
    points = np.clip(2.0 ** np.ceil(np.log2(dense * waves)), min(least, cells), cells)
    out = np.empty(len(rows))
    for many in set(points.tolist()):
        here = np.flatnonzero(points == many)
        out[here] = _on_grid(
            spectra, rows[here], s[here], int(waves[here].max()), int(many)
        )
    return out


def _on_grid(
    spectra: FloatArray | Spectra,
    rows: IntArray,
    s: FloatArray,
    waves: int,
    points: int,
) -> FloatArray:
    """E(s) from ``waves`` waves at the midpoints of ``points`` grid points."""
    held = spectra.first(waves) if isinstance(spectra, Spectra) else spectra
    exponent = 0.5 * (s[:, None] * (np.pi * np.arange(waves + 1))) ** 2
    kept = held[rows, : waves + 1] * np.exp(-np.minimum(exponent, 80.0))
    if points <= FEW_CELLS:
        return np.asarray(np.abs(kept @ _inverse(points)[: waves + 1]).sum(axis=-1))
    midpoints = np.exp(0.5j * np.pi / points * np.arange(waves + 1))
    smoothed = np.fft.irfft(kept * midpoints, 2 * points, axis=-1)[:, :points]
    return np.asarray(np.abs(smoothed).sum(axis=-1))


def dyadic_smooth_error(one: FloatArray) -> float:
    """relplot's rule on our exact integral, for a spectrum (cells + 1,): E at a width found by ten halvings.

    relplot 1.0.3 sums on a grid whose last node is counted once where the reflection at 1
    needs it twice, so its own number is larger where confidences sit at 1; that is not imitated.

    The width stays on the side where E(s) >= s or s < 0.001 has not been met; the error at
    that width, not the width, is the result.
    """

    def error(s: float) -> float:
        return float(smooth_error_at(one[None], np.array([s]))[0])

    start, end = 1.0, 0.0  # no error is above 1
    for _ in range(10):
        middle = 0.5 * (start + end)
        if middle < 0.001 or middle < error(middle):
            end = middle
        else:
            start = middle
    return error(start)


@metric("kernel:reflected-gaussian label", report="default", reads="sums")
def smece(context: MetricContext) -> Value:
    """Smooth calibration error: a reflected Gaussian kernel of its own width.

    the s at which integral |mean_i K_s(t, c_i)(c_i - y_i)| dt = s; --compat relplot: the integral itself at the width
    that relplot's ten halvings reach, without the slip at 1 of its grid
    Reference: Blasiok, Nakkiran (2024)
    Also called: smooth_ece
    In tables: as ece without bins, smoothed
    """
    if context.settings.compat == "relplot":
        return Value(
            dyadic_smooth_error(_own_spectrum(context)),
            signature={"compat": "relplot-rule"},
        )
    draws, own = smooth_draws(context)
    return Value(smooth_error(context), null=context.null_of(own, draws))


@made_once
def smooth_error(context: MetricContext) -> float:
    """Smooth calibration error of the rows."""
    return float(smooth_errors(_own_spectrum(context))[0])


@made_once
def smooth_draws(context: MetricContext) -> tuple[FloatArray, float]:
    """Smooth errors under calibration, (draws,), and that of the observed outcomes, computed alike."""
    return of_draws([drawn_residuals(context)[0]], grid_cells(context.n))[0]


AT_ONCE = 4  # contexts whose draws are solved together


def solve_together(contexts: Sequence[MetricContext]) -> None:
    """Compute and cache the smooth errors of many contexts of few rows, and of their draws, some contexts at once."""
    contexts = [
        each
        for each in contexts
        if grid_cells(each.n) == grid_cells(0) and each.table.weights.sum() > 0.0
    ]
    for at in range(0, len(contexts), AT_ONCE):
        some = contexts[at : at + AT_ONCE]
        own = smooth_errors(
            np.stack([_own_spectrum(context) for context in some])
        ).tolist()
        drawn = of_draws(
            [drawn_residuals(context)[0] for context in some], grid_cells(0)
        )
        for context, *found in zip(some, own, drawn, strict=True):
            for way, one in zip((smooth_error, smooth_draws), found, strict=True):
                context.keep((way,), one)


def _own_spectrum(context: MetricContext) -> FloatArray:
    t, c = context.table, context.scores
    w = t.weights
    return smooth_residuals(
        c, w * (c - context.outcomes), grid_cells(t.n), float(w.sum())
    )


def of_draws(parts: Sequence[Residuals], cells: int) -> list[tuple[FloatArray, float]]:
    """Smooth errors of sums of residuals on a grid: for each part (draws + 1, m) those of the draws, and that of the
    last row, the observed one. It is computed as those of the draws, so that equal outcomes have equal errors."""
    # Residuals without order, even over [0, 1], have E(s)^2 = sum of squares / (pi^1.5 s).
    square = np.concatenate([(mass**2).sum(axis=1) for mass, _ in parts])
    start = np.log(np.maximum(square, SMALLEST**3) / np.pi**1.5) / 3.0
    errors = smooth_errors(Spectra(parts, cells), 1e-4, start)
    each = np.split(errors, np.cumsum([len(mass) for mass, _ in parts])[:-1])
    return [(one[:-1], float(one[-1])) for one in each]


def null_draws(
    context: MetricContext, columns: FloatArray
) -> tuple[tuple[FloatArray, float], FloatArray]:
    """Smooth calibration errors (draws,) with outcomes y drawn from the scores, and sums of columns over y = 1.

    columns : (n, m) in the order of the rows. Returns (draws,) beside the error of the observed outcomes to
    compare with them, and (draws, m); the draws are the same whatever the columns, so statistics of different
    calls belong together.
    """
    if context.shared is not None:
        return smooth_draws(context), context.shared.sums(columns, context.heavy_draws)
    residuals, sums = drawn_residuals(context, columns)
    return context.once(
        (smooth_draws,), lambda: of_draws([residuals], grid_cells(context.n))[0]
    ), sums


def drawn_residuals(
    context: MetricContext, columns: FloatArray | None = None
) -> tuple[Residuals, FloatArray]:
    """Means of residuals by cell for outcomes drawn from the scores, the observed ones last; sums as ``null_draws``."""
    t, c = context.table, context.scores
    w = t.weights
    total, cells = float(w.sum()), grid_cells(t.n)
    order = (
        np.argsort(c, kind="stable") if context.shared is None else context.shared.order
    )
    c, w = c[order], w[order]
    cell = np.minimum((c * cells).astype(np.int64), cells - 1)
    first = np.flatnonzero(np.concatenate([[True], np.diff(cell) > 0]))
    held = cell[first]
    score = np.bincount(cell, weights=w * c, minlength=cells)[held]
    beside = np.empty((t.n, 0)) if columns is None else columns[order]
    draws = context.heavy_draws
    right, sums = np.empty((draws + 1, len(held))), np.empty((draws, beside.shape[1]))

    def by_cell(outcomes: AnyArray) -> FloatArray:
        weighted = outcomes if t.weight is None else outcomes * w
        return np.add.reduceat(weighted, first, axis=1, dtype=np.float64)

    right[-1:] = by_cell(context.outcomes[None, order] > 0)
    for rows, drawn in context.drawn("smece", draws):
        right[rows] = by_cell(drawn)
        if beside.shape[1]:
            sums[rows] = drawn @ beside
    return ((score - right) / total, held), sums
