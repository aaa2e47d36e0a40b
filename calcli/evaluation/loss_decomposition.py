"""How much of a loss a recalibration would remove: refinement plus calibration, cross-fitted."""

import numpy as np

from calcli.calibrator import Calibrator, Context, Progress
from calcli.errors import FitError
from calcli.evaluation.verdict_results import LossPart, Split
from calcli.folds import random_folds
from calcli.metrics.collect import collect
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
) -> Split | None:
    """Split mean NLL and Brier score into refinement and calibration.

    For a loss l: Cal = l(p) - l(g(p)), Ref = l(g(p)), where g is fitted on four fifths of
    these rows and applied to the rest, five times. Any g gives, in expectation, at most
    the true calibration loss; a value near or below 0 means that g finds nothing to mend.
    g is structured vector scaling.
    None when the recalibration cannot be fitted, or all the weight lies in one fold.

    Reference: Berta, Bach, Jordan (2025), arXiv 2501.19195; Ferrer, Ramos (2025).
    """
    scores = np.empty((rows.n, rows.k))
    needed = [] if calibrator is None else [rows.transforms.index(t) for t in calibrator.required_transforms]
    for block in rows.blocks(needed):
        z = block.z if calibrator is None else calibrator.apply(block).log_probs
        scores[block.start : block.start + len(block)] = z
    kind: ScoreKind = "logits" if calibrator is None else "log_probs"
    whole = ArrayRows(scores, table.y, kind, weight=table.weight, units=table.units)
    fold = random_folds(rows.n, FOLDS, np.random.default_rng(seed), table.units)
    if table.weight is not None and (np.bincount(fold, weights=table.weight) > 0).sum() < 2:
        return None
    try:
        best = _held_out(whole, fold, RECALIBRATION, seed, progress)
        alone = _held_out(whole, fold, "ts", seed, progress)
    except FitError:
        return None
    return Split(
        RECALIBRATION,
        FOLDS,
        _part(table.nll, best["nll"], table),
        _part(table.brier, best["brier"], table),
        _part(table.nll, alone["nll"], table),
    )


def _held_out(
    rows: ArrayRows, fold: IntArray, name: str, seed: int, progress: Progress | None
) -> dict[str, FloatArray]:
    """Per-row losses of the recalibration, each row by the fit that has not seen it."""
    out = {"nll": np.empty(rows.n), "brier": np.empty(rows.n)}
    options = parse_options(name, {})
    for f in range(FOLDS):
        if progress is not None:
            progress("cross-fitting", f, FOLDS)
        kept, held = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        weight, units = rows.weight, rows.units()
        training = ArrayRows(
            rows.scores[kept],
            rows.labels()[kept],
            rows.kind,
            weight=None if weight is None else weight[kept],
            units=None if units is None else units.take(kept),
        )
        fitted = method(name).fit(training, options, Context(seed)).calibrator
        table = collect(ArrayRows(rows.scores[held], rows.labels()[held], rows.kind), fitted)
        out["nll"][held], out["brier"][held] = table.nll, table.brier
    return out


def _part(before: FloatArray, after: FloatArray, table: RowTable) -> LossPart:
    gain = mean_of(before - after, table.weight, table.units)
    loss, refinement = (mean_of(each, table.weight).value for each in (before, after))
    return LossPart(loss, refinement, gain.value, gain.se, gain.n if gain.by_unit else None)
