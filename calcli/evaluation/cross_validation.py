"""What methods lose on rows that they were not fitted on."""

from collections.abc import Sequence

import numpy as np

from calcli.calibrator import Context
from calcli.folds import random_folds
from calcli.methods.auto import held_out_losses
from calcli.numerics import IntArray
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

    Raises what the fits raise.
    """
    losses = np.full(rows.n, np.nan)
    for learn, held_out, index in folds:
        fitted = method(name).fit(learn, parse_options(name, {}), Context(context.seed, context.device))
        losses[index] = held_out_losses(fitted.calibrator, held_out, "nll")
    return float(np.average(losses, weights=rows.weights()))
