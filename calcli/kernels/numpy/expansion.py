"""Everything a one-temperature fit needs of all rows from one walk: a summary, and a series in beta = 1/T.

The estimating equations of ``temperature`` are mean values of smooth functions of beta whose
derivatives at one beta are polynomials in the cumulants of the gaps d under p ~ exp(beta d).
With a start from some of the rows, a series of order four has the root to ten digits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np

from calcli.kernels.numpy.temperature import Tilt, over_rows, weighted
from calcli.numerics import NLL_FLOOR, FloatArray, IntArray
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
    top = block.scores[here].argmax(axis=1)
    seen = _seen(r, block, here, top, 1.0) if summarise else ()
    norm = r.tilt(beta)
    c1, c2, c3, c4, c5 = cumulants(r, norm)
    p = 1.0 / norm  # the largest logit has gap 0; its logarithm is minus the cumulant function
    return (
        top == r.y,
        *(c1 - r.d_y, c2, c3, c4, c5),
        *(p, -p * c1, p * (c1**2 - c2), p * (3 * c1 * c2 - c1**3 - c3)),
        p * (c1**4 - 6 * c1**2 * c2 + 4 * c1 * c3 + 3 * c2**2 - c4),
        p * (10 * c1 * (c1 * (c1 * c2 - c3) - 1.5 * c2**2) - c1**5 + 5 * c1 * c4 + 10 * c2 * c3 - c5),
        *seen,
    )


def _expansion(k: int, summarise: bool, block: Block, found: FloatArray) -> Expansion:
    weight, right, *series = weighted(block, found[:12])
    summary = _summary(k, block, found[12:]) if summarise else None
    return Expansion(float(weight), float(right), np.array(series[:5]), np.array(series[5:]), summary)


def cumulants(r: Tilt, norm: FloatArray) -> tuple[FloatArray, ...]:
    """The first five cumulants of d under p = e / norm, (b,) each. Leaves p's products in e."""
    m1 = r.mean(norm)
    m2 = r.dot(r.e, r.d) / norm
    r.e *= r.d
    m3 = r.dot(r.e, r.d) / norm
    r.e *= r.d
    m4 = r.dot(r.e, r.d) / norm
    r.e *= r.d
    m5 = r.dot(r.e, r.d) / norm
    k2 = m2 - m1**2
    k3 = m3 - 3 * m1 * m2 + 2 * m1**3
    k4 = m4 - 4 * m1 * m3 - 3 * m2**2 + 12 * m1**2 * m2 - 6 * m1**4
    k5 = m5 - 5 * m1 * m4 - 10 * m2 * m3 + 20 * m1**2 * m3 + 30 * m1 * m2**2 - 60 * m1**3 * m2 + 24 * m1**5
    return m1, k2, k3, k4, k5


def summary_at(rows: Rows, beta: float) -> Summary:
    """The summary of rows of logits or log-probabilities whose logits are multiplied by beta."""
    return over_rows(rows, partial(_summary_terms, beta), partial(_summary, rows.k))


def _summary_terms(beta: float, r: Tilt, block: Block, here: slice) -> Sequence[FloatArray]:
    return _seen(r, block, here, block.scores[here].argmax(axis=1), beta)


def _seen(r: Tilt, block: Block, here: slice, top: IntArray, beta: float) -> Sequence[FloatArray]:
    """Confidence, correctness, NLL, Brier score and entropy gap of some rows."""
    norm = r.tilt(beta)
    label = top if block.assigned is None else block.assigned[here]
    at = np.arange(len(label))
    own = r.e[label, at] if r.axis == 0 else r.e[at, label]
    p_y = r.at_label(r.e) / norm
    brier = r.dot(r.e, r.e) / norm**2 - 2.0 * p_y + 1.0
    log_norm = np.log(norm)
    gap = beta * (r.mean(norm) - r.d_y)  # the entropy is log_norm - beta E_p[d]
    nll = np.clip(log_norm - beta * r.d_y, 0.0, -np.log(NLL_FLOOR))
    return np.minimum(own / norm, 1.0), label == r.y, nll, np.maximum(brier, 0.0), gap


def _summary(k: int, block: Block, seen: FloatArray) -> Summary:
    confidence, correct, *losses = seen
    return Summary.of(confidence, correct, tuple(losses), block.labels, k, block.weight)
