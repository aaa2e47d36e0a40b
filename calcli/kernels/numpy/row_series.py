"""Losses of rows as series in the scale of each row's logits.

A walk over the rows gives, for every row, the loss and its Taylor coefficients around
the scale that the row has. A search of the scales then takes several steps for one
walk.
"""

from collections.abc import Sequence
from math import factorial

import numpy as np

from calcli.block import Block
from calcli.kernels.numpy.temperature import OfBlock, TemperedRows, at_once
from calcli.numerics import FloatArray
from calcli.rows import Rows

ROW_ORDER = 6
"""Moments of the gaps that the series of a row is made of."""


def row_series(rows: Rows, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """NLL of softmax(scale z), (n,), and the Taylor coefficients of its slope in x,
    with the scale times 1 + x, (ROW_ORDER, n)."""
    series = np.empty((1 + ROW_ORDER, rows.n))
    first = 0
    of_block = OfBlock(rows.k, _scaled_terms, _row_series)
    for parts in rows.each(of_block.parts, scale, at_once=at_once(rows.k)):
        for part in parts:
            last = first + part.shape[1]
            series[:, first:last] = part
            first = last
    return series[0], series[1:]


def _scaled_terms(r: TemperedRows, scale: FloatArray) -> Sequence[FloatArray]:
    r.d *= scale[:, None] if r.axis else scale
    return r.tilt(1.0), *r.power_sums(ROW_ORDER), r.d_y * scale


def _row_series(_: Block, terms: FloatArray) -> FloatArray:
    norm = terms[0]
    moments = terms[1:-1]
    d_y = terms[-1]
    slope = log_series(moments / norm)
    return np.stack([np.log(norm) - d_y, slope[0] - d_y, *slope[1:]])


def log_series(moments: FloatArray) -> list[FloatArray]:
    """Taylor coefficients of K', K the log of E[exp(x d)], (b,) each.

    moments : E[d], E[d^2] …. With a_n = E[d^n] / n!, n a_n = sum_j c_j a_{n-1-j}.
    """
    a = [moment / factorial(n) for n, moment in enumerate(moments, 1)]
    coefficients: list[FloatArray] = []
    for n in range(len(a)):
        rest = (n + 1) * a[n]
        for j, c in enumerate(coefficients):
            rest -= c * a[n - 1 - j]
        coefficients.append(rest)
    return coefficients
