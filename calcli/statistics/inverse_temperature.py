"""Slope of more than two classes: the inverse of the temperature that fits these rows.

With z the log-probabilities of a row, the slope b maximises sum log softmax(b z)_y. It
is 1 of a calibrated model, and below 1 of an overconfident one, as the calibration
slope of two classes is.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from calcli.numerics import FloatArray, floored_log
from calcli.solvers import find_root

SMALLEST = 1e-3
LARGEST = 1e3  # slopes between which one is searched
STEP = 1e-12  # of the search for a slope
LEAST_INFORMATION = 1e-6  # about a slope that rows tell
FLAT = 1e-13  # mean score of the rows at which it ends

Columns = Callable[[], Iterator[tuple[int, FloatArray, FloatArray]]]
"""Walk over (class, its probability (n,), is it the label (n,)); may be repeated."""


@dataclass(frozen=True)
class InverseTemperature:
    """Slope with the score of every row there, and its information, (n,) each."""

    slope: float
    score: FloatArray
    information: FloatArray


def largest_logs(columns: Columns, n: int) -> FloatArray:
    """Logarithm of the largest probability of every row, (n,)."""
    largest = np.full(n, -np.inf)
    for _, probability, _ in columns():
        np.maximum(largest, floored_log(probability), out=largest)
    return largest


def row_scores(
    columns: Columns, largest: FloatArray, slope: float
) -> tuple[FloatArray, FloatArray]:
    """Derivative of log softmax(slope * z)_y by the slope, and its information, (n,).

    largest : (n,) logarithm of the largest probability of every row.
    """
    mass = np.zeros_like(largest)
    first_moment = np.zeros_like(largest)
    second_moment = np.zeros_like(largest)
    of_label = np.zeros_like(largest)
    for _, probability, is_label in columns():
        below = floored_log(probability) - largest
        power = np.exp(slope * below)
        mass += power
        first_moment += power * below
        second_moment += power * below**2
        of_label += is_label * below
    mean = first_moment / mass
    information = np.maximum(second_moment / mass - mean**2, 0.0)
    return of_label - mean, information


def fit_inverse_temperature(
    columns: Columns, weight: FloatArray
) -> InverseTemperature | str:
    """Fit the slope; the reason where none is finite or positive. weight : (n,)."""
    largest = largest_logs(columns, len(weight))

    def shortfall(slope: float) -> tuple[float, float]:
        score, information = row_scores(columns, largest, slope)
        return -float(weight @ score), float(weight @ information)

    flat = FLAT * float(weight.sum())
    root = find_root(shortfall, SMALLEST, LARGEST, 1.0, step=STEP, flat=flat)
    if root.status == "at_low":
        return "the scores rank the labels no better than chance: no slope is positive"
    score, information = row_scores(columns, largest, root.x)
    # the score of rows that are all right falls to 0 as the slope grows
    untold = float(weight @ information) <= LEAST_INFORMATION
    if root.status == "at_high" or untold:
        return "the largest probability is always the label's: the slope is not finite"
    return InverseTemperature(root.x, weight * score, weight * information)
