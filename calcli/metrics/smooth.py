"""Smooth calibration error: no bins, a kernel whose width is the error itself."""

from collections.abc import Sequence

import numpy as np

from calcli.binning import cell_of
from calcli.metrics.context import MetricContext, made_once
from calcli.metrics.registry import metric
from calcli.metrics.values import Value
from calcli.numerics import AnyArray, FloatArray, starts_of_runs
from calcli.statistics.smooth_error import (
    Residuals,
    dyadic_smooth_error,
    grid_cells,
    of_draws,
    smooth_errors,
    smooth_residuals,
)


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
            dyadic_smooth_error(_observed_spectrum(context)),
            signature={"compat": "relplot-rule"},
        )
    draws, observed = smooth_draws(context)
    return Value(smooth_error(context), null=context.null_of(observed, draws))


@made_once
def smooth_error(context: MetricContext) -> float:
    """Compute the smooth calibration error of the rows."""
    return float(smooth_errors(_observed_spectrum(context))[0])


@made_once
def smooth_draws(context: MetricContext) -> tuple[FloatArray, float]:
    """Compute the smooth errors under calibration, (draws,), and the observed one.

    That of the observed outcomes is computed as those of the draws.
    """
    residuals, _ = drawn_residuals(context)
    return of_draws([residuals], grid_cells(context.n))[0]


AT_ONCE = 4  # contexts whose draws are solved together


def solve_together(contexts: Sequence[MetricContext]) -> None:
    """Compute and cache the smooth errors of many contexts, and of their draws.

    Contexts of few rows are solved some at once; those of many rows are left out.
    """
    cells = grid_cells(0)
    small = []
    for context in contexts:
        if grid_cells(context.n) == cells and context.table.weights.sum() > 0.0:
            small.append(context)
    for start in range(0, len(small), AT_ONCE):
        batch = small[start : start + AT_ONCE]
        spectra = np.stack([_observed_spectrum(context) for context in batch])
        errors = smooth_errors(spectra).tolist()
        residuals = [drawn_residuals(context)[0] for context in batch]
        draws = of_draws(residuals, cells)
        for context, error, errors_of_draws in zip(batch, errors, draws, strict=True):
            context.keep((smooth_error,), error)
            context.keep((smooth_draws,), errors_of_draws)


def _observed_spectrum(context: MetricContext) -> FloatArray:
    """Compute the spectrum of the observed residuals."""
    scores = context.scores
    weights = context.table.weights
    residuals = weights * (scores - context.outcomes)
    cells = grid_cells(context.table.n)
    return smooth_residuals(scores, residuals, cells, float(weights.sum()))


def null_draws(
    context: MetricContext, columns: FloatArray
) -> tuple[tuple[FloatArray, float], FloatArray]:
    """Compute smooth errors with outcomes y drawn from the scores, and sums of columns.

    columns : (n, m) in the order of the rows. Returns the errors (draws,) with the
    observed one to compare with them, and the sums of the columns over y = 1, (draws,
    m). The draws are the same whatever the columns, so statistics of different calls
    belong together.
    """
    if context.shared is not None:
        return smooth_draws(context), context.shared.sums(columns, context.heavy_draws)
    residuals, sums = drawn_residuals(context, columns)
    errors = context.once(
        (smooth_draws,), lambda: of_draws([residuals], grid_cells(context.n))[0]
    )
    return errors, sums


def drawn_residuals(
    context: MetricContext, columns: FloatArray | None = None
) -> tuple[Residuals, FloatArray]:
    """Compute means of residuals by cell for outcomes drawn from the scores.

    Those of the observed outcomes come last. The second result are the sums of
    ``null_draws``.
    """
    t = context.table
    total = float(t.weights.sum())
    cells = grid_cells(t.n)
    # Sort the rows by score, and find where each cell that holds any begins.
    order = context.rows_by_score
    c = context.scores[order]
    w = t.weights[order]
    cell = cell_of(c, cells)
    first = starts_of_runs(cell)
    occupied = cell[first]
    score = np.bincount(cell, weights=w * c, minlength=cells)[occupied]

    def by_cell(outcomes: AnyArray) -> FloatArray:
        weighted = outcomes if t.weight is None else outcomes * w
        return np.add.reduceat(weighted, first, axis=1, dtype=np.float64)

    # Sum the outcomes of every draw by cell, and the columns over outcomes of 1.
    ordered_columns = np.empty((t.n, 0)) if columns is None else columns[order]
    n_columns = ordered_columns.shape[1]
    draws = context.heavy_draws
    right = np.empty((draws + 1, len(occupied)))
    sums = np.empty((draws, n_columns))
    right[-1:] = by_cell(context.outcomes[None, order] > 0)
    for rows, drawn in context.drawn("smece", draws):
        right[rows] = by_cell(drawn)
        if n_columns:
            sums[rows] = drawn @ ordered_columns
    return ((score - right) / total, occupied), sums
