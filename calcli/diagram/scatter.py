"""Confidence variance against calibration error: sharp and honest, or merely flat?"""

from dataclasses import dataclass

import numpy as np

from calcli.diagram.data import Curve

__all__ = ["Point", "Scatter", "make_point"]


@dataclass(frozen=True)
class Point:
    """One set of rows with one set of confidences.

    bundle, method : what they are. variance : population variance of the confidence.
    ece, ece_null_mean : as in ``Curve``.
    """

    bundle: str
    method: str
    n: int
    variance: float
    ece: float
    ece_null_mean: float


@dataclass(frozen=True)
class Scatter:
    """Points of several bundles and calibrators.

    A constant confidence equal to the accuracy has no calibration error and no use: good
    calibrators lie to the left and high up.
    Reference: Jang, Ivanov, Lee, Weimer (2021), figure 3.
    """

    title: str
    points: tuple[Point, ...]


def make_point(bundle: str, curve: Curve, confidence: np.ndarray, weight: np.ndarray | None) -> Point:
    """A point from a measured curve and its confidences, (n,)."""
    mean = np.average(confidence, weights=weight)
    variance = float(np.average((confidence - mean) ** 2, weights=weight))
    return Point(bundle, curve.label, curve.n, variance, curve.ece, curve.ece_null_mean)
