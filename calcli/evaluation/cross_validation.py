"""What methods lose on rows that they were not fitted on."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.calibrator import Context, Fit, Options
from calcli.folds import random_folds
from calcli.metrics.collect import collect, collect_all, predicted, summarise
from calcli.metrics.rowtable import RowTable
from calcli.numerics import IntArray
from calcli.registry import method, parse_options
from calcli.rows import Rows
from calcli.statistics.units import Units

Fold = tuple[Rows, Rows, IntArray]
"""Rows to fit to, rows held out, and where those stand among all that count."""


def folds_of(rows: Rows, context: Context, folds: int = 5) -> list[Fold]:
    """Random parts of the rows that count, each held out once; empty where there are fewer than two."""
    rows = rows.counted()
    units = rows.units()
    folds = min(folds, rows.n if units is None else units.n)
    fold = random_folds(rows.n, folds, context.rng(), units)
    parts = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(folds)]
    return [(rows.take(learn), rows.take(held), held) for learn, held in parts] if rows.n > 1 else []


def fold_fits(name: str, options: Options, folds: Sequence[Fold], context: Context) -> list[Fit[Any] | None]:
    """The fits, without their closures, that ``calcli fit`` would make of each fold's rows; None of ``identity``."""
    return [None if name == "identity" else _fitted(name, options, learn, context) for learn, _, _ in folds]


def held_out_table(
    fits: Sequence[Fit[Any] | None],
    folds: Sequence[Fold],
    others: Sequence[tuple[Rows, Fit[Any] | None]] = (),
    units: Units | None = None,
) -> RowTable:
    """The row table of every held-out row under the fit that has not seen it, in the order of the rows.

    fits : of every fold, None for the uncalibrated scores. others : by fold the same rows, perhaps as another model
    has them, and the fit they are compared with (``RowTable.expected``). units : of all rows. Needs a fold or more.
    """
    parts = []
    for at, ((_, held, _), fit) in enumerate(zip(folds, fits, strict=True)):
        calibrators = [None if fit is None else fit.calibrator]
        if not others:
            parts.append(collect(held, *calibrators))
            continue
        rows, its = others[at]
        calibrators.append(None if its is None else its.calibrator)
        if rows is held:
            parts.append(collect_all(held, calibrators, against=1)[0])
        else:
            parts.append(collect(held, calibrators[0], against=predicted(rows, calibrators[1])))
    whole = sum(parts[1:], start=parts[0])
    return replace(
        whole.take(np.argsort(np.concatenate([at for _, _, at in folds]))), expected=whole.expected, units=units
    )


def _fitted(name: str, options: Options, rows: Rows, context: Context) -> Fit[Any]:
    cls = method(name)
    fit = cls.fit(rows.counted(), cls.resolve_options(options, rows.k), Context(context.seed, context.device))
    better = None if fit.verify is None else fit.verify(summarise(rows, fit.calibrator, context.progress))
    return Fit((better or fit).calibrator, (better or fit).status)


def cross_validated_nll(name: str, rows: Rows, folds: Sequence[Fold], context: Context) -> float:
    """Mean NLL of every row under the fit to the other folds, in nats; NaN without folds.

    Of confidences alone it is that of being right.
    Raises what the fits raise.
    """
    if not folds:
        return float("nan")
    table = held_out_table(fold_fits(name, parse_options(name, {}), folds, context), folds)
    return float(np.average(table.nll, weights=table.weight))
