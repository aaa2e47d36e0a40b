"""What methods lose on rows that they were not fitted on."""

from collections.abc import Sequence

import numpy as np

from calcli.calibrator import Context
from calcli.folds import random_folds
from calcli.methods._candidates import held_out
from calcli.metrics.rowtable import collect
from calcli.numerics import NLL_FLOOR, IntArray
from calcli.registry import method, parse_options
from calcli.rows import Rows

__all__ = ["Fold", "cross_validated_nll", "folds_of"]

Fold = tuple[Rows, Rows, IntArray]
"""Rows to fit to, rows held out, and where those stand among all."""


def folds_of(rows: Rows, context: Context, folds: int = 5) -> list[Fold]:
    """Random parts of the rows, each held out once; empty where there are fewer than two rows."""
    fold = random_folds(rows.n, min(folds, rows.n), context.rng())
    parts = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(min(folds, rows.n))]
    return [(rows.take(learn), rows.take(held), held) for learn, held in parts] if rows.n > 1 else []


def cross_validated_nll(name: str, rows: Rows, folds: Sequence[Fold], context: Context) -> float:
    """Mean NLL of every row under the fit to the other folds, in nats; NaN without folds.

    Of confidences alone it is that of being right.
    Raises what the fits raise.
    """
    losses = np.full(rows.n, np.nan)
    for learn, left_out, index in folds:
        fitted = method(name).fit(learn, parse_options(name, {}), Context(context.seed, context.device))
        if rows.kind == "confidence":
            losses[index] = collect(left_out, fitted.calibrator).nll
            continue
        losses[index] = -np.maximum(held_out(fitted.calibrator, left_out)[0], np.log(NLL_FLOOR))
    return float(np.average(losses, weights=rows.weights()))
