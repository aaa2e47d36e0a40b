"""How much of a loss a recalibration could reduce: refinement plus calibration, cross-fitted."""

from collections.abc import Sequence

import numpy as np

from calcli.calibrator import Calibrator, Context, Progress
from calcli.errors import FitError
from calcli.evaluation.cross_validation import Fold, held_out_table
from calcli.evaluation.verdict_results import LossPart, LossSplit
from calcli.folds import random_folds
from calcli.metrics.collect import predicted
from calcli.metrics.intervals import mean_of
from calcli.metrics.rowtable import RowTable
from calcli.numerics import FloatArray, IntArray
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows, Rows, ScoreKind

FOLDS = 5
CHEAP_SCORES = 2_000_000
"""Rows times classes up to which the split belongs to the default report."""

RECALIBRATION = "svs"


def split_is_cheap(n: int, k: int) -> bool:
    """Is the split fast enough for the default report, and are there rows to split?"""
    return n * k <= CHEAP_SCORES and n >= 20 * FOLDS


def cross_fitted_split(
    rows: Rows, calibrator: Calibrator | None, table: RowTable, seed: int, progress: Progress | None = None
) -> LossSplit | None:
    """Split mean NLL and Brier score into refinement and calibration.

    For a loss l: Cal = l(p) - l(g(p)), Ref = l(g(p)), where g is fitted on four fifths of
    these rows and applied to the rest, five times. Any g gives, in expectation, at most
    the true calibration loss; a value near or below 0 means that g finds no calibration loss.
    g is structured vector scaling.
    None when the recalibration cannot be fitted, or all the weight lies in one fold.

    Reference: Berta, Bach, Jordan (2025), arXiv 2501.19195; Ferrer, Ramos (2025).
    """
    scores = rows.logits() if calibrator is None else predicted(rows, calibrator).log_probs
    kind: ScoreKind = "logits" if calibrator is None else "log_probs"
    whole = ArrayRows(scores, table.y, kind, weight=table.weight, units=table.units)
    fold = random_folds(rows.n, FOLDS, np.random.default_rng(seed), table.units)
    if table.weight is not None and (np.bincount(fold, weights=table.weight) > 0).sum() < 2:
        return None
    parts = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(FOLDS)]
    folds = [(_some(whole, learn), _some(whole, held), held) for learn, held in parts]
    try:
        best, alone = (_held_out(name, folds, seed, progress) for name in (RECALIBRATION, "ts"))
    except FitError:
        return None
    return LossSplit(
        RECALIBRATION,
        FOLDS,
        _part(table.nll, best.nll, table),
        _part(table.brier, best.brier, table),
        _part(table.nll, alone.nll, table),
    )


def _some(rows: ArrayRows, index: IntArray) -> ArrayRows:
    """Some of the rows, copied: the fits walk over them again and again."""
    weight, units = rows.weight, rows.units()
    weight, units = None if weight is None else weight[index], None if units is None else units.take(index)
    return ArrayRows(rows.scores[index], rows.labels()[index], rows.kind, weight=weight, units=units)


def _held_out(name: str, folds: Sequence[Fold], seed: int, progress: Progress | None) -> RowTable:
    """The rows through a recalibration, each by the fit that has not seen it."""
    fits = []
    for f, (learn, _, _) in enumerate(folds):
        if progress is not None:
            progress("cross-fitting", f, FOLDS)
        fits.append(method(name).fit(learn, parse_options(name, {}), Context(seed)))
    return held_out_table(fits, folds)


def _part(before: FloatArray, after: FloatArray, table: RowTable) -> LossPart:
    gain = mean_of(before - after, table.weight, table.units)
    loss, refinement = (mean_of(each, table.weight).value for each in (before, after))
    return LossPart(loss, refinement, gain.value, gain.se, gain.n if gain.by_unit else None)
