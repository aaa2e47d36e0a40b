"""Summary of all rows and series in beta = 1/T, from one pass: all that a one-temperature fit needs.

The estimating equations of ``temperature`` are mean values of smooth functions of beta whose derivatives at one beta
are polynomials in the moments of the gaps d under p ~ exp(beta d). From a start some per cents off, as some of the rows
give it, eight moments have the root to ten digits.
"""

from collections.abc import Sequence
from functools import partial
from math import factorial

import numpy as np

from calcli.fast_dataclass import Sums, dataclass
from calcli.fit_summary import Summary
from calcli.kernels.numpy.temperature import (
    OfBlock,
    TemperedRows,
    at_once,
    over_rows,
    weighted,
)
from calcli.numerics import FloatArray
from calcli.rows import Block, Rows

ORDER, ROW_ORDER = (
    8,
    6,
)  # moments of the gaps that an expansion is made of, and the series of a row: even numbers


@dataclass(frozen=True)
class Expansion(Sums):
    """Weighted sums over rows; adds.

    weight : total. right : rows whose largest logit is the label's. gap : (ORDER,) Taylor
    coefficients in beta of E_p[d] - d_y (the slope of the NLL). confidence : (ORDER + 1,) of
    the probability of the largest logit. summary : of the rows at beta = 1, where asked for.
    """

    weight: float
    right: float
    gap: FloatArray
    confidence: FloatArray
    summary: Summary | None = None


def expand(rows: Rows, beta: float, *, summarise: bool) -> Expansion:
    """The series of both estimating equations at one beta, from one walk over the rows.

    summarise : also the summary of the rows as they are, of logits and log-probabilities.
    """
    return over_rows(
        rows,
        partial(_expansion_terms, beta, summarise),
        partial(_expansion, rows.k, summarise),
    )


def _expansion_terms(
    beta: float, summarise: bool, r: TemperedRows
) -> Sequence[FloatArray]:
    seen = _seen(1.0, r) if summarise else ()
    return r.tilt(beta), *r.power_sums(ORDER), r.d_y, r.top == r.y, *seen


def _expansion(k: int, summarise: bool, block: Block, found: FloatArray) -> Expansion:
    norm, d_y, right = found[0], found[ORDER + 1], found[ORDER + 2]
    slope = log_series(found[1 : ORDER + 1] / norm)
    p = falling_exponential(
        1.0 / norm, slope
    )  # of the largest logit: its gap is 0, so -log p grows as K does
    weight, total, *series = weighted(
        block, np.stack([right, slope[0] - d_y, *slope[1:], *p])
    )
    summary = _summary(k, 1.0, block, found[ORDER + 3 :]) if summarise else None
    return Expansion(
        float(weight),
        float(total),
        np.array(series[:ORDER]),
        np.array(series[ORDER:]),
        summary,
    )


def log_series(moments: FloatArray) -> list[FloatArray]:
    """Taylor coefficients of K', K the log of E[exp(x d)], of the moments E[d], E[d^2] …, (b,) each.

    With a_n = E[d^n] / n!, n a_n = sum_j c_j a_{n-1-j}.
    """
    a = [moment / factorial(n) for n, moment in enumerate(moments, 1)]
    found: list[FloatArray] = []
    for n in range(len(a)):
        rest = (n + 1) * a[n]
        for j, c in enumerate(found):
            rest -= c * a[n - 1 - j]
        found.append(rest)
    return found


def falling_exponential(p: FloatArray, slope: Sequence[FloatArray]) -> list[FloatArray]:
    """Taylor coefficients of exp(-K), p at 0, of those of K': (n + 1) p_{n+1} = -sum_j c_j p_{n-j}."""
    found = [p]
    for n in range(len(slope)):
        total = slope[0] * found[n]
        for j in range(1, n + 1):
            total += slope[j] * found[n - j]
        found.append(total / -(n + 1))
    return found


def row_series(rows: Rows, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """NLL of softmax(scale z), (n,), and Taylor coefficients of its slope in x, scale times 1 + x, (ROW_ORDER, n)."""
    found, at = np.empty((1 + ROW_ORDER, rows.n)), 0
    of_block = OfBlock(rows.k, _scaled_terms, _row_series)
    for parts in rows.each(of_block.parts, scale, at_once=at_once(rows.k)):
        for some in parts:
            found[:, at : at + some.shape[1]] = some
            at += some.shape[1]
    return found[0], found[1:]


def _scaled_terms(r: TemperedRows, scale: FloatArray) -> Sequence[FloatArray]:
    r.d *= scale[:, None] if r.axis else scale
    return r.tilt(1.0), *r.power_sums(ROW_ORDER), r.d_y * scale


def _row_series(block: Block, found: FloatArray) -> FloatArray:
    norm, d_y = found[0], found[-1]
    slope = log_series(found[1:-1] / norm)
    return np.stack([np.log(norm) - d_y, slope[0] - d_y, *slope[1:]])


def summary_at(rows: Rows, beta: float) -> Summary:
    """The summary of rows of logits or log-probabilities whose logits are multiplied by beta."""
    return over_rows(rows, partial(_seen, beta), partial(_summary, rows.k, beta))


def _seen(beta: float, r: TemperedRows) -> Sequence[FloatArray]:
    """With e = exp(beta d): its sum, at prediction and label, sums of e^2 and e d; the label's d; correctness."""
    norm = r.tilt(beta)
    return (
        norm,
        r.at(r.e, r.label),
        r.at(r.e, r.y),
        r.dot(r.e, r.e),
        r.dot(r.e, r.d),
        r.d_y,
        r.label == r.y,
    )


def _summary(k: int, beta: float, block: Block, seen: FloatArray) -> Summary:
    norm, own, e_y, squares, products, d_y, correct = seen
    brier = squares / norm**2 - 2.0 * e_y / norm + 1.0
    log_norm = np.log(norm)
    gap = beta * (products / norm - d_y)  # the entropy is log_norm - beta E_p[d]
    losses = np.maximum(log_norm - beta * d_y, 0.0), np.maximum(brier, 0.0), gap
    return Summary.of(
        np.minimum(own / norm, 1.0), correct, losses, block.labels, k, block.weight
    )
