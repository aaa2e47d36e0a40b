"""Cross-validated losses of methods, on held-out rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.calibrator import Calibrator, Context, Fit, Options, Progress
from calcli.errors import FitError
from calcli.evaluation.facts import LossPart, LossSplit
from calcli.folds import content_folds
from calcli.metrics.collect import collect, collect_all, predicted
from calcli.metrics.rowtable import RowTable
from calcli.numerics import FloatArray, IntArray
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows, Rows, ScoreKind
from calcli.statistics.intervals import mean_of
from calcli.statistics.units import Units

Fold = tuple[
    Rows, Rows, IntArray
]  # training rows, held-out rows, and the indices of the latter among the rows


def folds_of(
    rows: Rows, context: Context, folds: int = 5, same_rows: Rows | None = None
) -> list[Fold]:
    """Random folds of the rows of positive weight, each held out once.

    Their contents decide (see ``content_folds``), or those of another model's scores of the
    same rows. Empty for fewer than two rows.
    """
    rows = rows.counted()
    if rows.n < 2:
        return []
    decisive = rows
    if same_rows is not None and same_rows.counted().n == rows.n:
        decisive = same_rows.counted()
    parts = _parts(content_folds(decisive, folds, context.seed))
    return [(rows.take(learn), rows.take(held), held) for learn, held in parts]


def _parts(fold: IntArray) -> list[tuple[IntArray, IntArray]]:
    """Training rows and held-out rows, as indices, of every fold."""
    numbers = range(int(fold.max()) + 1)
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in numbers]


def fold_fits(
    name: str,
    options: Options,
    folds: Sequence[Fold],
    context: Context,
    progress: Progress | None = None,
) -> list[Fit[Any] | None]:
    """Fit a method as ``calcli fit`` does to each fold's training rows, without closures; None for ``identity``."""
    if name == "identity":
        return [None for _ in folds]
    of_fits: Iterable[Progress | None] = [None for _ in folds]
    if progress is not None:
        of_fits = progress_of_folds(progress, "fitting", len(folds))
    return [
        fitted_part(name, options, learn, context, of_fit)
        for (learn, _, _), of_fit in zip(folds, of_fits, strict=True)
    ]


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
    """Row table of all held-out rows, each under the fit of its fold, in the order of the rows. fits : per fold, None
    for the uncalibrated scores. others : per fold the same rows, perhaps scored by another model, and the fit to
    compare with (``RowTable.expected``). units : of all rows. Needs at least one fold."""
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
    whole, order = (
        sum(parts[1:], start=parts[0]),
        np.argsort(np.concatenate([at for _, _, at in folds])),
    )
    return replace(whole.take(order), expected=whole.expected, units=units)


def fitted_part(
    name: str,
    options: Options,
    rows: Rows,
    context: Context,
    progress: Progress | None = None,
) -> Fit[Any]:
    """Fit a method to training rows as ``calcli fit`` does, without closures.

    progress : of the fit; none by default, as whoever fits parts reports on their number.
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
    """Cross-validated mean NLL of a method, in nats; NaN without folds. For confidences alone it is of being right.
    Raises what the fits raise."""
    if not folds:
        return float("nan")
    table = held_out_table(
        fold_fits(name, parse_options(name, {}), folds, context), folds
    )
    return float(np.average(table.nll, weights=table.weight))


# ---- cross-fitted decomposition of a loss: refinement plus calibration


FOLDS = 5
CHEAP_SCORES = (
    2_000_000  # rows times classes up to which the split belongs to the default report
)
RECALIBRATION = "svs"


def split_is_cheap(n: int, k: int) -> bool:
    """True if the split is fast enough for the default report, and there are enough rows."""
    return n * k <= CHEAP_SCORES and n >= 20 * FOLDS


def cross_fitted_split(
    rows: Rows,
    calibrator: Calibrator | None,
    table: RowTable,
    seed: int,
    progress: Progress | None = None,
) -> LossSplit | None:
    """Split mean NLL and Brier score into refinement and calibration.

    For a loss l: Cal = l(p) - l(g(p)), Ref = l(g(p)), where g is fitted on four fifths of these rows and applied to the
    rest, five times. Any g gives, in expectation, at most the true calibration loss; a value near or below 0 means that
    g finds no calibration loss. g is structured vector scaling. None when the recalibration cannot be fitted, all the
    weight lies in one fold, or there is one row, or unit, only.

    Reference: Berta, Bach, Jordan (2025), arXiv 2501.19195; Ferrer, Ramos (2025).
    """
    count = min(FOLDS, rows.n if table.units is None else table.units.n)
    if count < 2:
        return None
    scores = (
        rows.logits() if calibrator is None else predicted(rows, calibrator).log_probs
    )
    kind: ScoreKind = "logits" if calibrator is None else "log_probs"
    whole = ArrayRows(scores, table.y, kind, weight=table.weight, units=table.units)
    fold = content_folds(whole, FOLDS, seed)
    if (
        table.weight is not None
        and (np.bincount(fold, weights=table.weight) > 0).sum() < 2
    ):
        return None
    folds = [
        (_some(whole, learn), _some(whole, held), held) for learn, held in _parts(fold)
    ]
    try:
        best, alone = (
            _held_out(name, folds, seed, progress) for name in (RECALIBRATION, "ts")
        )
    except FitError:
        return None
    pairs = (table.nll, best.nll), (table.brier, best.brier), (table.nll, alone.nll)
    return LossSplit(
        RECALIBRATION, count, *(_part(before, after, table) for before, after in pairs)
    )


def _some(rows: ArrayRows, index: IntArray) -> ArrayRows:
    """Copy a subset of the rows, which fits read many times."""
    weight, units = rows.weight, rows.units()
    weight, units = (
        None if weight is None else weight[index],
        None if units is None else units.take(index),
    )
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
    loss, refinement = (mean_of(each, table.weight).value for each in (before, after))
    return LossPart(
        loss,
        refinement,
        gain.value,
        gain.reach,
        gain.freedom + 1.0 if gain.by_unit else None,
    )
