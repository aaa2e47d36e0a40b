"""Isotonic regression on all classes at once."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calcli.block import Block
from calcli.calibrator import (
    ORDER_PRESERVING,
    Calibrator,
    Context,
    Fit,
    Prediction,
    param,
)
from calcli.errors import DataError
from calcli.isotonic import PooledOutcomes
from calcli.mapped_rows import argmax_at_prediction
from calcli.methods._binary.log_odds import counted_rows, probabilities
from calcli.methods._binary.marginals import normalize
from calcli.methods._binary.tables import line
from calcli.methods.compared.irova import TIE_BREAK
from calcli.numerics import FloatArray, in_column
from calcli.rows import Rows


@dataclass(frozen=True)
class IsotonicMulticlass(Calibrator):
    """Fit one isotonic map to all n x k probabilities, the same for every class.

    q_c = g(p_c) + 1e-9 p_c, then divided by the row's sum; g is the isotonic regression
    of the outcomes 1[y = c] on the p_c of all rows and classes. As g does not fall and
    the second term rises, the order of the classes stays. (The authors' code divides by
    the sum only inside its ECE.)

    A pooled block can begin only at the probability of a label, so two passes over the
    rows and memory for n numbers find the exact fit: no sort of n x k pairs.

    Reference: Zhang, Kailkhura, Han (2020), Mix-n-Match, arXiv 2003.07329 (IRM).
    """

    scores: FloatArray = param("knots", within="rising")
    values: FloatArray = param("knots", within="0 to 1")

    list_order = 43
    aliases = ("isotonic-multiclass",)
    use = "all classes at once without a formula; accuracy-preserving"
    title = "isotonic regression, multi-class"
    # On a plateau classes differ by less than float32 shows.
    laws = replace(ORDER_PRESERVING, memory="row", monotone=False)

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        weight = rows.weights()
        counted = counted_rows(rows.n, weight)
        of_label = np.concatenate(list(rows.each(_label_probability)))
        pooled = PooledOutcomes(
            of_label[counted], None if weight is None else weight[counted]
        )
        done = 0
        for n, others, weights in rows.each(_other_probabilities):
            context.progress("pooling all classes", done, rows.n)
            done += n
            pooled.add_negative(others, weights)
        scores, values = pooled.fit().knots
        return Fit(cls(scores, values), details={"knots": len(scores)})

    def apply(self, block: Block) -> Prediction:
        p = probabilities(block.z, block.stored_zeros)
        label = block.prediction
        q = line(p.ravel(), self.scores, self.values).reshape(p.shape) + TIE_BREAK * p
        # Probabilities closer than 1e-7 can become equal once 1e-9 of their difference
        # is added to a number near 1.
        mapped = Prediction(normalize(q, block.z, label).log_probs, p.argmax(axis=1))
        return Prediction(argmax_at_prediction(mapped), label, floored=True)

    def check_own(self, k: int) -> None:
        if not len(self.scores):
            raise DataError("params.scores is empty, expected at least one knot")


def _label_probability(block: Block) -> FloatArray:
    p = probabilities(block.z, block.stored_zeros)
    return in_column(p, block.labels)


def _other_probabilities(block: Block) -> tuple[int, FloatArray, FloatArray | None]:
    """List the probabilities of all classes but the labels, and their weights.

    Of rows that count alone; the first number returned is that of all rows.
    """
    counted = np.arange(len(block))
    if block.weight is not None:
        counted = np.flatnonzero(block.weight > 0)
    zero = block.stored_zeros
    if zero is not None:
        zero = zero[counted]
    p = probabilities(block.z[counted], zero)
    others = np.ones(p.shape, dtype=np.bool_)
    others[np.arange(len(p)), block.labels[counted]] = False
    weights = None
    if block.weight is not None:
        weights = np.repeat(block.weight[counted], p.shape[1] - 1)
    return len(block), p[others], weights
