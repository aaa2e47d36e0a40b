"""What methods lose on rows that they were not fitted on."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.calibrator import Calibrator, Context, Fit, Options, Progress
from calcli.errors import FitError
from calcli.evaluation.results import LossPart, LossSplit
from calcli.folds import random_folds
from calcli.metrics.collect import collect, collect_all, predicted, summarise
from calcli.metrics.intervals import mean_of
from calcli.metrics.rowtable import RowTable
from calcli.numerics import FloatArray, IntArray
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows, Rows, ScoreKind
from calcli.statistics.units import Units

Fold = tuple[Rows, Rows, IntArray]  # rows to fit to, rows held out, and where those stand among all that count


def folds_of(rows: Rows, context: Context, folds: int = 5) -> list[Fold]:
    """Random parts of the rows that count, each held out once; empty where there are fewer than two."""
    rows = rows.counted()
    units = rows.units()
    folds = min(folds, rows.n if units is None else units.n)
    parts = _parts(random_folds(rows.n, folds, context.rng(), units), folds)
    return [(rows.take(learn), rows.take(held), held) for learn, held in parts] if rows.n > 1 else []


def _parts(fold: IntArray, folds: int) -> list[tuple[IntArray, IntArray]]:
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(folds)]


def fold_fits(name: str, options: Options, folds: Sequence[Fold], context: Context) -> list[Fit[Any] | None]:
    """The fits, without their closures, that ``calcli fit`` would make of each fold's rows; None of ``identity``."""
    return [None if name == "identity" else _fitted(name, options, learn, context) for learn, _, _ in folds]


def held_out_table(
    fits: Sequence[Fit[Any] | None],
    folds: Sequence[Fold],
    others: Sequence[tuple[Rows, Fit[Any] | None]] = (),
    units: Units | None = None,
) -> RowTable:
    """The row table of every held-out row under the fit that has not seen it, in the order of the rows. fits : of every
    fold, None for the uncalibrated scores. others : by fold the same rows, perhaps as another model has them, and the
    fit they are compared with (``RowTable.expected``). units : of all rows. Needs a fold or more."""
    parts = []
    for at, ((_, held, _), fit) in enumerate(zip(folds, fits, strict=True)):
        own = None if fit is None else fit.calibrator
        if not others:
            parts.append(collect(held, own))
            continue
        rows, its = others[at]
        other = None if its is None else its.calibrator
        if rows is held:
            parts.append(collect_all(held, [own, other], against=1)[0])
        else:
            parts.append(collect(held, own, against=predicted(rows, other)))
    whole, order = sum(parts[1:], start=parts[0]), np.argsort(np.concatenate([at for _, _, at in folds]))
    return replace(whole.take(order), expected=whole.expected, units=units)


def _fitted(name: str, options: Options, rows: Rows, context: Context) -> Fit[Any]:
    cls = method(name)
    fit = cls.fit(rows.counted(), cls.resolve_options(options, rows.k), Context(context.seed, context.device))
    better = fit.verify and fit.verify(summarise(rows, fit.calibrator, context.progress))
    return Fit((better or fit).calibrator, (better or fit).status)


def cross_validated_nll(name: str, folds: Sequence[Fold], context: Context) -> float:
    """Mean NLL of every row under the fit to the other folds, in nats; NaN without folds. Of confidences alone it is
    that of being right. Raises what the fits raise."""
    if not folds:
        return float("nan")
    table = held_out_table(fold_fits(name, parse_options(name, {}), folds, context), folds)
    return float(np.average(table.nll, weights=table.weight))


# ---- how much of a loss a recalibration could reduce: refinement plus calibration, cross-fitted


FOLDS = 5
CHEAP_SCORES = 2_000_000  # rows times classes up to which the split belongs to the default report
RECALIBRATION = "svs"


def split_is_cheap(n: int, k: int) -> bool:
    """Is the split fast enough for the default report, and are there rows to split?"""
    return n * k <= CHEAP_SCORES and n >= 20 * FOLDS


def cross_fitted_split(
    rows: Rows, calibrator: Calibrator | None, table: RowTable, seed: int, progress: Progress | None = None
) -> LossSplit | None:
    """Split mean NLL and Brier score into refinement and calibration.

    For a loss l: Cal = l(p) - l(g(p)), Ref = l(g(p)), where g is fitted on four fifths of these rows and applied to the
    rest, five times. Any g gives, in expectation, at most the true calibration loss; a value near or below 0 means that
    g finds no calibration loss. g is structured vector scaling. None when the recalibration cannot be fitted, or all
    the weight lies in one fold.

    Reference: Berta, Bach, Jordan (2025), arXiv 2501.19195; Ferrer, Ramos (2025).
    """
    scores = rows.logits() if calibrator is None else predicted(rows, calibrator).log_probs
    kind: ScoreKind = "logits" if calibrator is None else "log_probs"
    whole = ArrayRows(scores, table.y, kind, weight=table.weight, units=table.units)
    fold = random_folds(rows.n, FOLDS, np.random.default_rng(seed), table.units)
    if table.weight is not None and (np.bincount(fold, weights=table.weight) > 0).sum() < 2:
        return None
    folds = [(_some(whole, learn), _some(whole, held), held) for learn, held in _parts(fold, FOLDS)]
    try:
        best, alone = (_held_out(name, folds, seed, progress) for name in (RECALIBRATION, "ts"))
    except FitError:
        return None
    pairs = (table.nll, best.nll), (table.brier, best.brier), (table.nll, alone.nll)
    return LossSplit(RECALIBRATION, FOLDS, *(_part(before, after, table) for before, after in pairs))


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
