"""Everything a one-temperature fit needs of all rows from one walk: a summary, and a series in beta = 1/T.

The estimating equations of ``temperature`` are mean values of smooth functions of beta whose
derivatives at one beta are polynomials in the cumulants of the gaps d under p ~ exp(beta d).
With a start from some of the rows, a series of order four has the root to ten digits.
"""

from collections.abc import Sequence
from functools import partial
from typing import Self

import numpy as np

from calcli.kernels.numpy.temperature import Tilt, over_rows, weighted
from calcli.numerics import NLL_FLOOR, FloatArray
from calcli.plain import dataclass
from calcli.rows import Block, Rows
from calcli.summary import Summary

__all__ = ["Expansion", "expand", "summary_at"]


@dataclass(frozen=True)
class Expansion:
    """Weighted sums over rows; adds. As mean values after ``of_mean``.

    weight : total. right : rows whose largest logit is the label's. gap : (5,) value and
    derivatives by beta of E_p[d] - d_y (the slope of the NLL). confidence : (6,) of the
    probability of the largest logit. summary : of the rows at beta = 1, where asked for.
    """

    weight: float
    right: float
    gap: FloatArray
    confidence: FloatArray
    summary: Summary | None = None

    def __add__(self, other: Self) -> "Expansion":
        both = None if self.summary is None or other.summary is None else self.summary + other.summary
        return Expansion(
            self.weight + other.weight,
            self.right + other.right,
            self.gap + other.gap,
            self.confidence + other.confidence,
            both,
        )


def expand(rows: Rows, beta: float, *, summarise: bool) -> Expansion:
    """The series of both estimating equations at one beta, from one walk over the rows.

    summarise : also the summary of the rows as they are, of logits and log-probabilities.
    """
    return over_rows(rows, partial(_expansion_terms, beta, summarise), partial(_expansion, rows.k, summarise))


def _expansion_terms(beta: float, summarise: bool, r: Tilt, block: Block, here: slice) -> Sequence[FloatArray]:
    seen = _seen(1.0, r, block, here) if summarise else ()
    return r.tilt(beta), *r.power_sums(), r.d_y, r.top == r.y, *seen


def _expansion(k: int, summarise: bool, block: Block, found: FloatArray) -> Expansion:
    norm, d_y, right = found[0], found[6], found[7]
    c1, c2, c3, c4, c5 = cumulants(found[1:6] / norm)
    p, square = 1.0 / norm, c1 * c1  # p is of the largest logit, which has gap 0; -log p is the cumulant function
    terms = (
        right,
        *(c1 - d_y, c2, c3, c4, c5),
        *(p, -p * c1, p * (square - c2), p * (c1 * (3 * c2 - square) - c3)),
        p * (square * (square - 6 * c2) + 4 * c1 * c3 + 3 * c2 * c2 - c4),
        p * (c1 * (square * (10 * c2 - square) - 10 * c1 * c3 - 15 * c2 * c2 + 5 * c4) + 10 * c2 * c3 - c5),
    )
    weight, total, *series = weighted(block, np.stack(terms))
    summary = _summary(k, 1.0, block, found[8:]) if summarise else None
    return Expansion(float(weight), float(total), np.array(series[:5]), np.array(series[5:]), summary)


def cumulants(moments: FloatArray) -> tuple[FloatArray, ...]:
    """The first five cumulants of (5, b) moments, (b,) each."""
    m1, m2, m3, m4, m5 = moments
    square = m1 * m1  # products: a power costs as much as an exponential
    k2 = m2 - square
    k3 = m3 - m1 * (3 * m2 - 2 * square)
    k4 = m4 - 4 * m1 * m3 - 3 * m2 * m2 + square * (12 * m2 - 6 * square)
    k5 = m5 - 5 * m1 * m4 - 10 * m2 * m3 + 20 * square * m3 + m1 * (30 * m2 * m2 - square * (60 * m2 - 24 * square))
    return m1, k2, k3, k4, k5


def summary_at(rows: Rows, beta: float) -> Summary:
    """The summary of rows of logits or log-probabilities whose logits are multiplied by beta."""
    return over_rows(rows, partial(_seen, beta), partial(_summary, rows.k, beta))


def _seen(beta: float, r: Tilt, block: Block, here: slice) -> Sequence[FloatArray]:
    """Of e = exp(beta d): its sum, at the prediction, at the label, sums of e^2 and e d; the label's d; correctness."""
    norm = r.tilt(beta)
    label = r.top if block.assigned is None else block.assigned[here]
    return norm, r.at(r.e, label), r.at_label(r.e), r.dot(r.e, r.e), r.dot(r.e, r.d), r.d_y, label == r.y


def _summary(k: int, beta: float, block: Block, seen: FloatArray) -> Summary:
    norm, own, e_y, squares, products, d_y, correct = seen
    brier = squares / norm**2 - 2.0 * e_y / norm + 1.0
    log_norm = np.log(norm)
    gap = beta * (products / norm - d_y)  # the entropy is log_norm - beta E_p[d]
    nll = np.clip(log_norm - beta * d_y, 0.0, -np.log(NLL_FLOOR))
    losses = nll, np.maximum(brier, 0.0), gap
    return Summary.of(np.minimum(own / norm, 1.0), correct, losses, block.labels, k, block.weight)
