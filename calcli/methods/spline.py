"""Calibration by splines."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from calcli.methods._binary.log_odds import MapFit, Sample
from calcli.methods._binary.maps import TOP_LABEL, ModeOptions
from calcli.methods._binary.tables import PiecewiseLinear
from calcli.numerics import FloatArray, tie_groups


class SplineOptions(ModeOptions, frozen=True):
    knots: Annotated[
        int,
        Meta(
            ge=3,
            le=1000,
            description="knots of the spline, evenly spaced over the ranks",
        ),
    ] = 6
    points: Annotated[
        int,
        Meta(
            ge=2,
            le=1_000_000,
            description="most points of the map to keep (evenly spaced over the ranks)",
        ),
    ] = 10_000


@dataclass(frozen=True)
class SplineCalibration(PiecewiseLinear):
    """Add to each confidence the slope of a spline through the cumulative errors.

    With confidences sorted, s_1 <= ... <= s_n, and h_i = sum_{j<=i} (right_j - s_j) / n
    at t_i = (i - 1) / (n - 1), the natural cubic spline with ``knots`` even knots on
    [0, 1] nearest to the h_i in least squares has the slope h'(t), the local gap
    between accuracy and confidence: q(s_i) = s_i + h'(t_i). In between, straight lines;
    beyond the ends, their values; always cut to [0, 1]. Equal confidences enter with
    the mean of their outcomes and get the mean of their values (the authors leave them
    in sorting order); a map of more than ``points`` points is thinned to that many
    ranks. The map need not be monotone.

    Reference: Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu, Hartley (2021), arXiv
    2006.12800.
    """

    list_order = 35
    aliases = ("splines",)
    use = "the confidence alone, smooth"
    title = "spline calibration"
    laws = replace(TOP_LABEL, weights=False)
    Options = SplineOptions

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        n = len(sample.p)
        if n < options.knots + 1:
            note = (
                f"{n} rows cannot fix a spline of {options.knots} knots, so nothing"
                " changes; ts would serve better"
            )
            return MapFit(
                (np.array([0.0, 1.0]), np.array([0.0, 1.0])), "degenerate", note
            )
        x, which = tie_groups(sample.x, float(sample.in_log_odds))
        order = np.argsort(which, kind="stable")
        count = np.bincount(which)
        which = which[order]
        # Equal scores enter with the mean of their outcomes.
        s = sample.p[order]
        outcome = np.bincount(which, weights=sample.hit[order]) / count
        h = np.cumsum(outcome[which] - s) / n
        values = np.clip(s + spline_slope(h, options.knots), 0.0, 1.0)
        # They get the mean of their values.
        y = np.bincount(which, weights=values) / count
        if len(x) > options.points:
            even = np.linspace(0, len(x) - 1, options.points)
            rank = np.unique(np.rint(even).astype(np.int64))
            x = x[rank]
            y = y[rank]
        record = {"ks": float(np.abs(h).max())}
        return MapFit.table(sample, x, np.clip(y, 0.0, 1.0), record)


def spline_slope(h: FloatArray, knots: int) -> FloatArray:
    """Slope of the natural cubic spline nearest to h, at the points where h is given.

    h : (n,) values at t = 0, 1/(n-1), ..., 1. Returns (n,). The unknowns are the
    spline's values v at the knots.
    """
    n = len(h)
    t = np.linspace(0.0, 1.0, n)
    width = 1.0 / (knots - 1)
    piece = np.minimum((t / width).astype(np.int64), knots - 2)
    u = t / width - piece
    bend = second_derivatives(knots, width)
    unit = np.eye(knots)
    # On a piece with ends v0, v1 and second derivatives m0, m1, u running from 0 to 1.
    v0 = unit[piece]
    v1 = unit[piece + 1]
    m0 = bend[piece]
    m1 = bend[piece + 1]
    u = u[:, None]
    w = 1.0 - u
    value = w * v0 + u * v1 + width**2 / 6 * ((w**3 - w) * m0 + (u**3 - u) * m1)
    slope = (v1 - v0) / width + width / 6 * ((3 * u**2 - 1) * m1 - (3 * w**2 - 1) * m0)
    v = np.linalg.lstsq(value, h, rcond=None)[0]
    return slope @ v


def second_derivatives(knots: int, width: float) -> FloatArray:
    """Make the matrix from a spline's values to its second derivatives.

    Both at even knots of a natural spline. They are 0 at both ends, and m_{i-1} + 4 m_i
    + m_{i+1} = 6 (v_{i-1} - 2 v_i + v_{i+1}) / width^2.
    """
    inner = knots - 2
    left = 4.0 * np.eye(inner) + np.eye(inner, k=1) + np.eye(inner, k=-1)
    right = (
        np.eye(inner, knots)
        - 2.0 * np.eye(inner, knots, k=1)
        + np.eye(inner, knots, k=2)
    )
    bend = np.zeros((knots, knots))
    bend[1:-1] = np.linalg.solve(left, 6.0 / width**2 * right)
    return bend
