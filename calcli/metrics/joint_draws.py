"""Statistics of the joint test under calibration, drawn together: a mean gap, a gap of sharpness, the smooth error."""

import math

import numpy as np

from calcli.fast_dataclass import dataclass
from calcli.metrics.context import MetricContext, made_once
from calcli.metrics.significance import MeanGap, entropy_columns, entropy_draws
from calcli.metrics.smooth import null_draws
from calcli.numerics import FloatArray


@dataclass(frozen=True)
class JointDraws:
    """Smooth errors, and sums of the gap and the entropy gap, (draws,) each; sd_gap, sd_entropy : of the sums.

    observed : the smooth error of the outcomes themselves, found as those of the draws are.
    """

    smooth: FloatArray
    observed: float
    gap: FloatArray
    entropy: FloatArray
    sd_gap: float
    sd_entropy: float


FARTHEST = -math.log(1e-12)
"""Log-odds beyond which those of a stored probability have no digits."""


def log_odds(p: FloatArray) -> FloatArray:
    """Log-odds of probabilities (n,), within +-27.6."""
    with np.errstate(divide="ignore"):
        return np.clip(np.log(p) - np.log1p(-p), -FARTHEST, FARTHEST)


def residual_slope(v: float, vl: float, vll: float) -> tuple[float, float]:
    """Mean m of log-odds l with weights v, and the root of sum v (l - m)^2: 0 where they hardly differ.

    v, vl, vll : sums of v, v l and v l^2.
    """
    if v <= 0.0:
        return 0.0, 0.0
    spread = vll - vl * vl / v
    return vl / v, math.sqrt(spread) if spread > 1e-12 * vll else 0.0


@made_once
def drawn_from_confidences(context: MetricContext) -> JointDraws:
    """The three statistics of outcomes drawn from the confidences."""
    t = context.table
    w = t.weights
    (smooth, observed), sums = null_draws(context, entropy_columns(t))
    wider = _widening(context)
    return JointDraws(
        smooth,
        observed,
        float(w @ t.confidence) - sums[:, 0],
        entropy_draws(context, sums),
        float(np.sqrt(w**2 @ (t.confidence * (1.0 - t.confidence)))) * wider,
        float(np.sqrt(w**2 @ t.varentropy)) * wider,
    )


def _widening(context: MetricContext) -> float:
    """By what standard deviations of sums grow as rows belong together."""
    return 1.0 if context.luck is None else math.sqrt(context.luck.effect)


@made_once
def drawn_from_positive(context: MetricContext) -> tuple[MeanGap, JointDraws]:
    """The residual slope of P(class 1), and the three statistics of outcomes drawn from it."""
    t, p = context.table, context.scores
    w = t.weights
    odds, v = log_odds(p), w**2 * p * (1.0 - p)
    mean, sd = residual_slope(float(v.sum()), float(v @ odds), float(v @ odds**2))
    lift = w * (odds - mean) if sd > 0.0 else np.zeros(t.n)
    (smooth, observed), sums = null_draws(context, np.stack([w, lift], axis=1))
    gap, slope = float(w @ p) - sums[:, 0], float(lift @ p) - sums[:, 1]
    sd = sd if context.luck is None else float(slope.std())
    drawn = JointDraws(smooth, observed, gap, slope, math.sqrt(float(v.sum())) * _widening(context), sd)
    return MeanGap.of(float(lift @ (p - context.outcomes)) / float(w.sum()), sd / float(w.sum())), drawn
