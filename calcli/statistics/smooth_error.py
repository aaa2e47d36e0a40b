"""The smooth calibration error of residuals on a grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from calcli.numerics import FloatArray, IntArray
from calcli.solvers import halved

Residuals = tuple[FloatArray, IntArray]
"""Sums of residuals (r, m) by cell of the grid, and the cells (m,) that hold any."""

SMALLEST = 1e-5  # narrowest kernel that is considered

STEPS = 60  # most iterations of the search for the width

SECANTS = 12  # steps of the secant; later ones halve

START = -3.5  # ln of its first width, .03

SLOPE = -1.4  # slope that its first step assumes


def grid_cells(n: int) -> int:
    """Return the number of grid cells on [0, 1] for n rows.

    They are fine against the kernel, which narrows as n grows.
    """
    return 1024 if n <= 100_000 else 4096


def smooth_residuals(
    scores: FloatArray, residuals: FloatArray, cells: int, total: float | None = None
) -> FloatArray:
    """Compute the cosine coefficients of the residuals over [0, 1] (``spectrum``).

    scores : (n,). residuals : (n,) score minus outcome, weighted if so. total : what
    their sums are divided by; the number of rows by default.
    """
    # Share each residual linearly between the two nearest midpoints of cells.
    place = np.clip(scores * cells - 0.5, 0.0, cells - 1.0)
    low = np.minimum(place.astype(np.int64), cells - 2)
    part = place - low
    mass = np.bincount(low, weights=residuals * (1.0 - part), minlength=cells)
    mass += np.bincount(low + 1, weights=residuals * part, minlength=cells)[:cells]
    if total is None:
        return spectrum(mass / len(scores))
    return spectrum(mass / total)


def spectrum(mass: FloatArray) -> FloatArray:
    """Compute the cosine coefficients (…, cells + 1) of masses (…, cells).

    The masses lie at the cells' midpoints.
    """
    cells = mass.shape[-1]
    # The even extension is what reflects the kernel at 0 and 1.
    even = np.concatenate([mass, mass[..., ::-1]], axis=-1)
    waves = np.fft.rfft(even, axis=-1)
    half_cell = np.exp(-0.5j * np.pi / cells * np.arange(cells + 1))
    return (waves * half_cell).real


@dataclass(frozen=True)
class Accuracy:
    """How finely E(s) is computed.

    reach : standard deviations of a kernel's spectrum that are kept. points_per_wave :
    grid points for each wave. fewest_points : least points of a grid.
    """

    reach: float
    points_per_wave: int
    fewest_points: int


FINE = Accuracy(reach=9.0, points_per_wave=2, fewest_points=256)  # to 1e-9

COARSE = Accuracy(reach=5.3, points_per_wave=4, fewest_points=64)  # to 1e-4

FEW_CELLS = 256  # non-empty cells up to which the waves are summed cell by cell


def cosines(waves: int, cell: IntArray, cells: int) -> FloatArray:
    """Compute cos(pi w (j + 1/2) / cells), (waves + 1, m).

    The waves w are 0 to ``waves``. cell : (m,) the cells j.
    """
    turn = np.cos(np.pi / (2 * cells) * np.arange(4 * cells))
    quarter_turns = np.arange(waves + 1)[:, None] * (2 * cell + 1) % (4 * cells)
    return turn[quarter_turns]


@lru_cache(maxsize=4)
def _inverse(points: int) -> FloatArray:
    """Make the matrix from cosine coefficients to values, (points + 1, points).

    The values are those at the midpoints of a grid.
    """
    back = cosines(points, np.arange(points), points) / points
    back[0] /= 2.0
    return back


@lru_cache(maxsize=4)
def _doubled(waves: int, cells: int) -> FloatArray:
    """Compute twice the cosines at every cell, (cells, waves + 1)."""
    return np.ascontiguousarray(2.0 * cosines(waves, np.arange(cells), cells).T)


class Spectra:
    """Cosine coefficients of masses at the midpoints of a grid's cells.

    Where few cells hold any mass, only the waves that are asked for are computed.
    parts : (masses, cells) some at a time, whose spectra stand one after the other.
    """

    def __init__(self, parts: Sequence[Residuals], cells: int) -> None:
        n_spectra = sum(len(mass) for mass, _ in parts)
        self.parts = parts
        self.computed = np.empty((n_spectra, 0))
        self.shape = (n_spectra, cells + 1)

    def first(self, waves: int) -> FloatArray:
        """Return coefficients of the mean and at least so many waves, (r, …)."""
        if self.computed.shape[1] > waves:
            return self.computed
        count = self.shape[1] - 1
        if max(len(cell) for _, cell in self.parts) <= FEW_CELLS:
            count = min(count, 1 << waves.bit_length())
        self.computed = np.concatenate(
            [self._of_part(mass, cell, count) for mass, cell in self.parts]
        )
        return self.computed

    def _of_part(self, mass: FloatArray, cell: IntArray, waves: int) -> FloatArray:
        cells = self.shape[1] - 1
        if len(cell) <= FEW_CELLS:
            if len(self.parts) > 1:
                # Several parts look up a few columns each of one table.
                return mass @ _doubled(waves, cells)[cell]
            return mass @ (2.0 * cosines(waves, cell, cells).T)
        whole = np.zeros((len(mass), cells))
        whole[:, cell] = mass
        return spectrum(whole)


def smooth_errors(
    spectra: FloatArray | Spectra,
    tolerance: float = 1e-9,
    start: float | FloatArray = START,
) -> FloatArray:
    """Compute the smooth calibration errors of cosine spectra (…, cells + 1).

    With a Gaussian kernel of width s, reflected at 0 and 1,
    r_s(t) = (1/N) sum_i K_s(t, c_i) (c_i - y_i) and E(s) = integral |r_s|. E falls with
    s. The smooth calibration error is the s at which E(s) = s, up to a relative
    ``tolerance``. All spectra are solved at once. start : ln s to begin with, one for
    all or (…,).

    Reference: Blasiok, Nakkiran (2024), definition 3.4, arXiv 2309.12236.
    """
    flat = spectra if isinstance(spectra, Spectra) else np.atleast_2d(spectra)
    n = flat.shape[0]
    accuracy = FINE if tolerance < 1e-4 else COARSE
    # f(x) = ln E(e^x) - x falls at least as fast as -x, but for rounding below a cell's
    # width: its root lies between x and x + 1.25 f(x).
    floor = np.log(SMALLEST)
    low = np.full(n, floor)
    high = np.zeros(n)
    x = np.clip(np.full(n, start), floor, 0.0)
    open_rows = np.arange(n)
    last_point = np.full(n, np.nan)
    last_f = np.full(n, np.nan)
    for step in range(STEPS):
        point = x[open_rows]
        error = smooth_error_at(flat, np.exp(point), open_rows, accuracy)
        f = np.log(np.maximum(error, 1e-320)) - point
        bound = point + 1.25 * f
        low[open_rows] = np.maximum(low[open_rows], np.where(f > 0.0, point, bound))
        high[open_rows] = np.minimum(high[open_rows], np.where(f > 0.0, bound, point))
        # Where even the narrowest kernel smooths everything away, the error is that
        # kernel's.
        going = (np.abs(f) > tolerance) & ~((point <= floor) & (f <= 0.0))
        open_rows = open_rows[going]
        if not len(open_rows):
            break
        point = point[going]
        f = f[going]
        last_point = last_point[going]
        last_f = last_f[going]
        if step < SECANTS:
            # f is nearly straight, and a secant no flatter than -0.8 stays within.
            with np.errstate(invalid="ignore", divide="ignore"):
                secant = (f - last_f) / (point - last_point)
            slope = np.where(np.isnan(last_point), SLOPE, secant)
            slope = np.nan_to_num(slope, nan=SLOPE, neginf=-1e9)
            next_point = point - f / np.minimum(slope, -0.8)
        else:
            next_point = 0.5 * (low[open_rows] + high[open_rows])
        x[open_rows] = np.clip(next_point, low[open_rows], high[open_rows])
        last_point = point
        last_f = f
    errors = np.exp(x)
    narrow = np.flatnonzero(x <= floor)
    if len(narrow):
        narrowest = np.full(len(narrow), SMALLEST)
        errors[narrow] = smooth_error_at(flat, narrowest, narrow, accuracy)
    return errors


def smooth_error_at(
    spectra: FloatArray | Spectra,
    s: FloatArray,
    rows: IntArray | None = None,
    accuracy: Accuracy = FINE,
) -> FloatArray:
    """Compute E(s), the integral of |r_s|, for spectra (r, cells + 1).

    s : (r,) widths of the kernel. rows : spectra that the widths belong to, by default
    all.
    """
    if rows is None:
        rows = np.arange(len(s))
    cells = spectra.shape[1] - 1
    # Waves of which next to nothing is left are not worth their transform, and what
    # remains is smooth enough for a coarser grid.
    waves = np.minimum(cells, np.ceil(accuracy.reach / (np.pi * s)) + 1.0)
    points = 2.0 ** np.ceil(np.log2(accuracy.points_per_wave * waves))
    points = np.clip(points, min(accuracy.fewest_points, cells), cells)
    # Rows on grids of as many points are computed together.
    errors = np.empty(len(rows))
    for n_points in set(points.tolist()):
        here = np.flatnonzero(points == n_points)
        most_waves = int(waves[here].max())
        errors[here] = _on_grid(spectra, rows[here], s[here], most_waves, int(n_points))
    return errors


def _on_grid(
    spectra: FloatArray | Spectra,
    rows: IntArray,
    s: FloatArray,
    waves: int,
    points: int,
) -> FloatArray:
    """Compute E(s) from ``waves`` waves at the midpoints of ``points`` grid points."""
    coefficients = spectra.first(waves) if isinstance(spectra, Spectra) else spectra
    exponent = 0.5 * (s[:, None] * (np.pi * np.arange(waves + 1))) ** 2
    kernel = np.exp(-np.minimum(exponent, 80.0))
    product = coefficients[rows, : waves + 1] * kernel
    if points <= FEW_CELLS:
        smoothed = product @ _inverse(points)[: waves + 1]
    else:
        midpoints = np.exp(0.5j * np.pi / points * np.arange(waves + 1))
        even = np.fft.irfft(product * midpoints, 2 * points, axis=-1)
        smoothed = even[:, :points]
    return np.abs(smoothed).sum(axis=-1)


def dyadic_smooth_error(coefficients: FloatArray) -> float:
    """Compute E of a spectrum (cells + 1,) at the width that relplot's rule finds.

    The rule makes ten halvings, here on our exact integral. relplot 1.0.3 sums on a
    grid whose last node is counted once where the reflection at 1 needs it twice, so
    its own number is larger where confidences sit at 1; that is not imitated.

    The width stays on the side where E(s) >= s or s < 0.001 has not been met. The error
    at that width, not the width, is the result.
    """

    def error(s: float) -> float:
        return float(smooth_error_at(coefficients[None], np.array([s]))[0])

    def is_too_narrow(s: float) -> bool:
        return s < 0.001 or s < error(s)

    # no error is above 1
    return error(halved(is_too_narrow, 0.0, 1.0, halvings=10)[1])


def of_draws(parts: Sequence[Residuals], cells: int) -> list[tuple[FloatArray, float]]:
    """Compute the smooth errors of sums of residuals on a grid.

    For each part (draws + 1, m) these are the errors of the draws, and that of the last
    row, the observed one. It is computed as those of the draws, so that equal outcomes
    have equal errors.
    """
    # Residuals without order, even over [0, 1], have
    # E(s)^2 = sum of squares / (pi^1.5 s).
    square = np.concatenate([(mass**2).sum(axis=1) for mass, _ in parts])
    start = np.log(np.maximum(square, SMALLEST**3) / np.pi**1.5) / 3.0
    errors = smooth_errors(Spectra(parts, cells), 1e-4, start)
    ends = np.cumsum([len(mass) for mass, _ in parts])
    of_parts = []
    for of_part in np.split(errors, ends[:-1]):
        of_parts.append((of_part[:-1], float(of_part[-1])))
    return of_parts
