"""Smooth calibration error: no bins, one kernel whose width settles itself."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.metrics.context import MetricContext, Value, made_once
from calcli.metrics.definition import metric
from calcli.numerics import FloatArray

SMALLEST = 1e-5
"""Narrowest kernel that is considered."""

STEPS = 60

SECANTS, START, SLOPE = 12, -3.5, -1.4
"""Steps of the secant, its first point (a width of .03) and the slope it first assumes."""


def grid_cells(n: int) -> int:
    """Grid cells on [0, 1] for n rows: fine against the kernel, which narrows as n grows."""
    return 1024 if n <= 100_000 else 4096


def smooth_residuals(scores: FloatArray, residuals: FloatArray, cells: int, total: float | None = None) -> FloatArray:
    """Cosine coefficients of the residuals over [0, 1] (see ``spectrum``).

    scores : (n,). residuals : (n,) score minus outcome, weighted if so. Each residual is
    shared linearly between the two nearest grid points, the cells' midpoints.
    """
    place = np.clip(scores * cells - 0.5, 0.0, cells - 1.0)
    low = np.minimum(place.astype(np.int64), cells - 2)
    part = place - low
    mass = np.bincount(low, weights=residuals * (1.0 - part), minlength=cells)
    mass += np.bincount(low + 1, weights=residuals * part, minlength=cells)[:cells]
    return spectrum(mass / (len(scores) if total is None else total))


def spectrum(mass: FloatArray) -> FloatArray:
    """Cosine coefficients (…, cells + 1) of masses (…, cells) at the cells' midpoints.

    The even extension is what reflects the kernel at 0 and 1.
    """
    cells = mass.shape[-1]
    waves = np.fft.rfft(np.concatenate([mass, mass[..., ::-1]], axis=-1), axis=-1)
    return np.asarray((waves * np.exp(-0.5j * np.pi / cells * np.arange(cells + 1))).real)


def smooth_errors(spectra: FloatArray, tolerance: float = 1e-9) -> FloatArray:
    """Smooth calibration errors of cosine spectra (…, cells + 1).

    With a Gaussian kernel of width s, reflected at 0 and 1, r_s(t) = (1/N) sum_i
    K_s(t, c_i) (c_i - y_i) and E(s) = integral |r_s|; E falls with s, and the smooth
    calibration error is the s at which E(s) = s, up to a relative ``tolerance``. All
    spectra are solved at once.

    Reference: Blasiok, Nakkiran (2024), definition 3.4, arXiv 2309.12236.
    """
    flat = np.atleast_2d(spectra)
    # f(x) = ln E(e^x) - x falls at least as fast as -x, but for rounding below a cell's width: its root lies
    # between x and x + 1.25 f(x). A secant no flatter stays there, and f is nearly straight; what is left
    # after some steps is halved.
    floor = np.log(SMALLEST)
    low, high = np.full(len(flat), floor), np.zeros(len(flat))
    x, before = np.full(len(flat), START), np.full((2, len(flat)), np.nan)
    left = np.arange(len(flat))
    for step in range(STEPS):
        at = x[left]
        f = _excess(flat[left], at)
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
        out[narrow] = smooth_error_at(flat[narrow], np.full(len(narrow), SMALLEST))
    return np.asarray(out)


def smooth_error_at(spectra: FloatArray, s: FloatArray) -> FloatArray:
    """E(s), the integral of |r_s|, for spectra (r, cells + 1) and kernel widths s (r,)."""
    cells = spectra.shape[-1] - 1
    # Waves of which less than exp(-40) is left are not worth their transform, and what
    # remains is smooth enough for a coarser grid.
    waves = int(min(cells, np.ceil(9.0 / (np.pi * s.min())) + 1))
    points = min(cells, 1 << max(8, int(np.ceil(np.log2(2 * waves)))))
    exponent = 0.5 * (s[:, None] * (np.pi * np.arange(waves + 1))) ** 2
    kept = spectra[:, : waves + 1] * np.exp(-np.minimum(exponent, 80.0))
    midpoints = np.exp(0.5j * np.pi / points * np.arange(waves + 1))
    smoothed = np.fft.irfft(kept * midpoints, 2 * points, axis=-1)[:, :points]
    return np.asarray(np.abs(smoothed).sum(axis=-1))


def _excess(spectra: FloatArray, log_s: FloatArray) -> FloatArray:
    error = smooth_error_at(spectra, np.exp(log_s))
    return np.log(np.maximum(error, 1e-320)) - log_s


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


@metric(
    "smece",
    "Smooth calibration error: a reflected Gaussian kernel of its own width",
    "the s at which integral |mean_i K_s(t, c_i)(c_i - y_i)| dt = s; --compat relplot: the integral itself at the"
    " width that relplot's ten halvings reach, without the slip at 1 of its grid",
    reference="Blasiok, Nakkiran (2024)",
    signature=(("kernel", "reflected-gaussian"), ("label", None)),
    aliases=("smooth_ece",),
    report="default",
    meaning="the same mean gap without bins, smoothed",
    reads="sums",
)
def smece(context: MetricContext) -> Value:
    if context.settings.compat == "relplot":
        return Value(dyadic_smooth_error(_own_spectrum(context)), signature={"compat": "relplot-rule"})
    draws, own = smooth_draws(context)
    return Value(smooth_error(context), null=context.null_of(own, draws))


@made_once
def smooth_error(context: MetricContext) -> float:
    """The smooth calibration error of the rows."""
    return float(smooth_errors(_own_spectrum(context))[0])


@made_once
def smooth_draws(context: MetricContext) -> tuple[FloatArray, float]:
    """Smooth errors under calibration, (draws,), and that of the observed outcomes, found as those are."""
    return null_draws(context)[0]


def _own_spectrum(context: MetricContext) -> FloatArray:
    t, c = context.table, context.scores
    w = t.weights
    return smooth_residuals(c, w * (c - context.outcomes), grid_cells(t.n), float(w.sum()))


def of_draws(residuals: FloatArray) -> tuple[FloatArray, float]:
    """Smooth errors of summed residuals on a grid (draws + 1, cells), the last of which are the observed ones.

    Observed and drawn go the same way, so that equal outcomes have equal errors.
    """
    errors = smooth_errors(spectrum(residuals), 1e-4)
    return errors[:-1], float(errors[-1])


def null_draws(
    context: MetricContext, columns: FloatArray | None = None
) -> tuple[tuple[FloatArray, float], FloatArray]:
    """Smooth calibration errors (draws,) with outcomes y drawn from the scores, and sums of columns over y = 1.

    columns : (n, m) in the order of the rows. Returns (draws,) beside the error of the observed outcomes to
    compare with them, and (draws, m); the draws are the same whatever the columns, so statistics of different
    calls belong together.
    """
    t, c = context.table, context.scores
    w = t.weights
    total, cells = float(w.sum()), grid_cells(t.n)
    order = np.argsort(c, kind="stable")
    c, w = c[order], w[order]
    cell = np.minimum((c * cells).astype(np.int64), cells - 1)
    first = np.flatnonzero(np.concatenate([[True], np.diff(cell) > 0]))
    score = np.bincount(cell, weights=w * c, minlength=cells)
    beside = np.empty((t.n, 0)) if columns is None else columns[order]
    draws = context.heavy_draws
    right, sums = np.zeros((draws + 1, cells)), np.empty((draws, beside.shape[1]))

    def by_cell(outcomes: NDArray[Any]) -> FloatArray:
        weighted = outcomes if t.weight is None else outcomes * w
        return np.add.reduceat(weighted, first, axis=1, dtype=np.float64)

    right[-1:, cell[first]] = by_cell(context.outcomes[None, order] > 0)
    for rows, drawn in context.drawn("smece", draws):
        right[rows, cell[first]] = by_cell(drawn)
        if beside.shape[1]:
            sums[rows] = drawn @ beside
    return context.once((of_draws,), lambda: of_draws((score - right) / total)), sums
