"""Test whether the labels of a calibrator's fit and of other rows are as frequent."""

import math

import numpy as np

from calcli.numerics import FloatArray

FEWEST_EXPECTED = 5.0
"""Expected rows of a class below which it is pooled with other rare classes."""


def label_shift_p_value(fitted: FloatArray, observed: FloatArray) -> float:
    """Chi-square p-value of equal class frequencies in two sets of counts (k,).

    Classes of which fewer than ``FEWEST_EXPECTED`` rows are expected in the smaller set
    are pooled. The tail is approximated by Wilson, Hilferty (1931), the cube root.
    """
    counts = np.stack([fitted, observed])
    size = counts.sum(axis=1)
    if not size.all():
        return 1.0
    expected_rows = counts.sum(axis=0) * size.min() / size.sum()
    enough = expected_rows >= FEWEST_EXPECTED
    counts = np.column_stack([counts[:, enough], counts[:, ~enough].sum(axis=1)])
    counts = counts[:, counts.any(axis=0)]
    degrees = counts.shape[1] - 1
    if degrees < 1:
        return 1.0
    expected = np.outer(size, counts.sum(axis=0)) / size.sum()
    chi2 = float(((counts - expected) ** 2 / expected).sum())
    variance = 2.0 / (9.0 * degrees)
    root = (chi2 / degrees) ** (1.0 / 3.0)
    return 0.5 * math.erfc((root - (1.0 - variance)) / math.sqrt(2.0 * variance))
