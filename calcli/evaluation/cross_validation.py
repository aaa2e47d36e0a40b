"""What methods lose on rows that they were not fitted on."""

from collections.abc import Sequence

import numpy as np

from calcli.calibrator import Calibrator, Context, Options
from calcli.folds import random_folds
from calcli.metrics.collect import collect
from calcli.metrics.rowtable import RowTable
from calcli.metrics.summarise import summarise
from calcli.numerics import IntArray
from calcli.registry import method, parse_options
from calcli.rows import Rows

Fold = tuple[Rows, Rows, IntArray]
"""Rows to fit to, rows held out, and where those stand among all."""


def folds_of(rows: Rows, context: Context, folds: int = 5) -> list[Fold]:
    """Random parts of the rows, each held out once; empty where there are fewer than two rows."""
    fold = random_folds(rows.n, min(folds, rows.n), context.rng())
    parts = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(min(folds, rows.n))]
    return [(rows.take(learn), rows.take(held), held) for learn, held in parts] if rows.n > 1 else []


def held_out_table(name: str, options: Options, folds: Sequence[Fold], context: Context) -> RowTable:
    """The row table of every held-out row under the fit that has not seen it, in the order of the rows.

    ``identity`` stands for the scores as they are. Needs a fold or more; raises what the fits raise.
    """
    parts = [
        collect(held, None if name == "identity" else _fitted(name, options, learn, context))
        for learn, held, _ in folds
    ]
    order = np.argsort(np.concatenate([at for _, _, at in folds]))
    return sum(parts[1:], start=parts[0]).take(order)


def _fitted(name: str, options: Options, rows: Rows, context: Context) -> Calibrator:
    """The calibrator that ``calcli fit`` would make of these rows."""
    cls = method(name)
    fit = cls.fit(rows, cls.resolve_options(options, rows.k), Context(context.seed, context.device))
    better = None if fit.verify is None else fit.verify(summarise(rows, fit.calibrator, context.progress))
    return (better or fit).calibrator


def cross_validated_nll(name: str, rows: Rows, folds: Sequence[Fold], context: Context) -> float:
    """Mean NLL of every row under the fit to the other folds, in nats; NaN without folds.

    Of confidences alone it is that of being right.
    Raises what the fits raise.
    """
    if not folds:
        return float("nan")
    table = held_out_table(name, parse_options(name, {}), folds, context)
    return float(np.average(table.nll, weights=rows.weights()))
