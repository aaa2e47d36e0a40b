"""Cross-validated losses of methods, on held-out rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.calibrator import Calibrator, Context, Fit, Options, Progress
from calcli.errors import FitError
from calcli.evaluation.facts import LossDecomposition, LossPart
from calcli.folds import content_folds
from calcli.metrics.collect import collect, collect_all, predicted
from calcli.metrics.rowtable import RowTable
from calcli.numerics import FloatArray, IntArray
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows, Rows, ScoreKind
from calcli.statistics.intervals import mean_of
from calcli.statistics.units import Units

# training rows, held-out rows, and the indices of the latter among the rows
Fold = tuple[Rows, Rows, IntArray]


def folds_of(
    rows: Rows, context: Context, folds: int = 5, same_rows: Rows | None = None
) -> list[Fold]:
    """Random folds of the rows of positive weight, each held out once.

    Their contents decide (see ``content_folds``), or those of another model's scores of
    the same rows. Empty for fewer than two rows.
    """
    rows = rows.counted()
    if rows.n < 2:
        return []
    decisive = rows
    if same_rows is not None and same_rows.counted().n == rows.n:
        decisive = same_rows.counted()
    fold = content_folds(decisive, folds, context.seed)
    parts = []
    for learn, held_out in _parts(fold):
        parts.append((rows.take(learn), rows.take(held_out), held_out))
    return parts


def _parts(fold: IntArray) -> list[tuple[IntArray, IntArray]]:
    """Training rows and held-out rows, as indices, of every fold."""
    parts = []
    for number in range(int(fold.max()) + 1):
        is_held_out = fold == number
        parts.append((np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)))
    return parts


def fold_fits(
    name: str,
    options: Options,
    folds: Sequence[Fold],
    context: Context,
    progress: Progress | None = None,
) -> list[Fit[Any] | None]:
    """Fit a method as ``calcli fit`` does to each fold's training rows, without
    closures; None for ``identity``.
    """
    if name == "identity":
        return [None] * len(folds)
    of_fits: Iterable[Progress | None] = [None] * len(folds)
    if progress is not None:
        of_fits = progress_of_folds(progress, "fitting", len(folds))
    fits: list[Fit[Any] | None] = []
    for (learn, _, _), of_fit in zip(folds, of_fits, strict=True):
        fits.append(fitted_part(name, options, learn, context, of_fit))
    return fits


def progress_of_folds(progress: Progress, what: str, folds: int) -> Iterator[Progress]:
    """Progress of the fit to each fold, as part of that of all of them.

    A fit that does not know how far it has come counts when it is done.
    """
    for number in range(folds):

        def report(_: str, done: int, total: int, number: int = number) -> None:
            if total:
                progress(what, number * total + done, folds * total)
            else:
                progress(what, number, folds)

        yield report


def held_out_table(
    fits: Sequence[Fit[Any] | None],
    folds: Sequence[Fold],
    others: Sequence[tuple[Rows, Fit[Any] | None]] = (),
    units: Units | None = None,
) -> RowTable:
    """Row table of all held-out rows, each under the fit of its fold, in the order of
    the rows. fits : per fold, None for the uncalibrated scores. others : per fold the
    same rows, perhaps scored by another model, and the fit to compare with
    (``RowTable.expected``). units : of all rows. Needs at least one fold.
    """
    parts = []
    for number, (_, held_out, _) in enumerate(folds):
        calibrator = _calibrator_of(fits[number])
        if not others:
            parts.append(collect(held_out, calibrator))
            continue
        other_rows, other_fit = others[number]
        other = _calibrator_of(other_fit)
        if other_rows is held_out:
            parts.append(collect_all(held_out, [calibrator, other], against=1)[0])
        else:
            against = predicted(other_rows, other)
            parts.append(collect(held_out, calibrator, against=against))
    whole = sum(parts[1:], start=parts[0])
    order = np.argsort(np.concatenate([index for _, _, index in folds]))
    return replace(whole.take(order), expected=whole.expected, units=units)


def _calibrator_of(fit: Fit[Any] | None) -> Calibrator | None:
    """The calibrator of a fit; None for the uncalibrated scores."""
    if fit is None:
        return None
    calibrator: Calibrator = fit.calibrator
    return calibrator


def fitted_part(
    name: str,
    options: Options,
    rows: Rows,
    context: Context,
    progress: Progress | None = None,
) -> Fit[Any]:
    """Fit a method to training rows as ``calcli fit`` does, without closures.

    progress : of the fit; none by default, as whoever fits parts reports on their
    number.
    """
    cls = method(name)
    within = Context(context.seed, context.device, notes=context.notes)
    if progress is not None:
        within = replace(within, progress=progress)
    fit = cls.fit(
        rows.counted(),
        cls.resolve_options(options, rows.k),
        within,
    )
    return Fit(fit.calibrator, fit.status)


def cross_validated_nll(name: str, folds: Sequence[Fold], context: Context) -> float:
    """Cross-validated mean NLL of a method, in nats; NaN without folds.

    For confidences alone it is of being right. Raises what the fits raise.
    """
    if not folds:
        return float("nan")
    table = held_out_table(
        fold_fits(name, parse_options(name, {}), folds, context), folds
    )
    return float(np.average(table.nll, weights=table.weight))


# ---- cross-fitted decomposition of a loss: refinement plus calibration


FOLDS = 5
# rows times classes up to which the decomposition belongs to the default report
CHEAP_SCORES = 2_000_000
RECALIBRATION = "svs"


def decomposition_is_cheap(n: int, k: int) -> bool:
    """True if the decomposition is fast enough for the default report, and there are
    enough rows.
    """
    return n * k <= CHEAP_SCORES and n >= 20 * FOLDS


def decomposed_loss(
    rows: Rows,
    calibrator: Calibrator | None,
    table: RowTable,
    seed: int,
    progress: Progress | None = None,
) -> LossDecomposition | None:
    """Split mean NLL and Brier score into refinement and calibration.

    For a loss l: Cal = l(p) - l(g(p)), Ref = l(g(p)), where g is fitted on four fifths
    of these rows and applied to the rest, five times. Any g gives, in expectation, at
    most the true calibration loss; a value near or below 0 means that g finds no
    calibration loss. g is structured vector scaling. None when the recalibration cannot
    be fitted, all the weight lies in one fold, or there is one row, or unit, only.

    Reference: Berta, Bach, Jordan (2025), arXiv 2501.19195; Ferrer, Ramos (2025).
    """
    count = min(FOLDS, rows.n if table.units is None else table.units.n)
    if count < 2:
        return None
    kind: ScoreKind = "logits"
    if calibrator is None:
        scores = rows.logits()
    else:
        scores = predicted(rows, calibrator).log_probs
        kind = "log_probs"
    whole = ArrayRows(scores, table.y, kind, weight=table.weight, units=table.units)
    fold = content_folds(whole, FOLDS, seed)
    if table.weight is not None:
        weight_of_fold = np.bincount(fold, weights=table.weight)
        if (weight_of_fold > 0).sum() < 2:
            return None
    folds: list[Fold] = []
    for learn, held_out in _parts(fold):
        folds.append((_some(whole, learn), _some(whole, held_out), held_out))
    try:
        best = _held_out(RECALIBRATION, folds, seed, progress)
        temperature = _held_out("ts", folds, seed, progress)
    except FitError:
        return None
    return LossDecomposition(
        RECALIBRATION,
        count,
        _part(table.nll, best.nll, table),
        _part(table.brier, best.brier, table),
        _part(table.nll, temperature.nll, table),
    )


def _some(rows: ArrayRows, index: IntArray) -> ArrayRows:
    """Copy a subset of the rows, which fits read many times."""
    weight = rows.weight
    units = rows.units()
    if weight is not None:
        weight = weight[index]
    if units is not None:
        units = units.take(index)
    return ArrayRows(
        rows.scores[index], rows.labels()[index], rows.kind, weight=weight, units=units
    )


def _held_out(
    name: str, folds: Sequence[Fold], seed: int, progress: Progress | None
) -> RowTable:
    """Row table under a cross-fitted recalibration."""
    fits = []
    for f, (learn, _, _) in enumerate(folds):
        if progress is not None:
            progress("cross-fitting", f, len(folds))
        fits.append(method(name).fit(learn, parse_options(name, {}), Context(seed)))
    return held_out_table(fits, folds)


def _part(before: FloatArray, after: FloatArray, table: RowTable) -> LossPart:
    gain = mean_of(before - after, table.weight, table.units)
    loss = mean_of(before, table.weight).value
    refinement = mean_of(after, table.weight).value
    n_units = gain.freedom + 1.0 if gain.by_unit else None
    return LossPart(loss, refinement, gain.value, gain.reach, n_units)
