"""Joint test of calibration at one level, from three tests: mean gap, gap of sharpness
and smooth error.

The three look at different departures (all scores too high; overconfident or
underconfident, as a temperature changes it; any shape) and depend on each other, so
their joint law under calibration is drawn. Of two classes the scores are P(class 1), of
more the confidence with the whole vector behind its sharpness: outcomes are drawn from
the confidences, and the label's probability given these from its first two moments.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from calcli.metrics.context import MetricContext, made_once
from calcli.metrics.significance import (
    direction_of,
    entropy_columns,
    entropy_draws,
    shared_entropies,
)
from calcli.metrics.smooth import null_draws, smooth_draws
from calcli.numerics import FloatArray
from calcli.statistics.intervals import normal_p_value, normal_tail
from calcli.statistics.nulls import SAME, standardised
from calcli.statistics.p_values import MeanGap


@dataclass(frozen=True)
class JointDraws:
    """Draws under calibration: smooth errors, and sums of the gap and entropy gap,
    (draws,) each. sd_gap, sd_entropy : standard deviations of the sums. observed :
    smooth error of the outcomes, computed as those of the draws.
    """

    smooth: FloatArray
    observed: float
    gap: FloatArray
    entropy: FloatArray
    sd_gap: float
    sd_entropy: float


# largest log-odds: beyond it those of a stored probability have no digits
FARTHEST = -math.log(1e-12)


def log_odds(p: FloatArray) -> FloatArray:
    """Log-odds of probabilities (n,), within +-27.6."""
    with np.errstate(divide="ignore"):
        return np.clip(np.log(p) - np.log1p(-p), -FARTHEST, FARTHEST)


def residual_slope(v: float, vl: float, vll: float) -> tuple[float, float]:
    """Mean m of log-odds l with weights v, and the root of sum v (l - m)^2: 0 where
    they hardly differ.

    v, vl, vll : sums of v, v l and v l^2.
    """
    if v <= 0.0:
        return 0.0, 0.0
    spread = vll - vl * vl / v
    return vl / v, math.sqrt(spread) if spread > 1e-12 * vll else 0.0


@made_once
def drawn_from_confidences(context: MetricContext) -> JointDraws:
    """Draws of the three statistics, with outcomes drawn from the confidences."""
    t = context.table
    w = t.weights
    if context.shared is None:
        (smooth, observed), sums = null_draws(context, entropy_columns(t))
        entropies = entropy_draws(context, sums)
    else:
        (smooth, observed), (sums, entropies) = (
            smooth_draws(context),
            shared_entropies(context),
        )
    wider = _widening(context)
    gap = float(w @ t.confidence) - sums[:, 0]
    sd_gap = float(np.sqrt(w**2 @ (t.confidence * (1.0 - t.confidence)))) * wider
    return JointDraws(
        smooth,
        observed,
        gap,
        entropies,
        sd_gap,
        float(np.sqrt(w**2 @ t.varentropy)) * wider,
    )


def _widening(context: MetricContext) -> float:
    """Factor by which units widen the standard deviations of sums; 1 without units."""
    return 1.0 if context.luck is None else math.sqrt(context.luck.effect)


@made_once
def drawn_from_positive(context: MetricContext) -> tuple[MeanGap, JointDraws]:
    """Residual slope of P(class 1), and draws of the three statistics, with outcomes
    drawn from it.

    z_gap = sum r / sqrt(sum w) and z_slope = sum r (l - m) / sqrt(sum w (l - m)^2),
    with r = p - y, w = p (1 - p), l the log-odds and m their mean with weights w: the
    two are uncorrelated under calibration.
    """
    t = context.table
    p = context.scores
    w = t.weights
    odds = log_odds(p)
    v = w**2 * p * (1.0 - p)
    mean, sd = residual_slope(float(v.sum()), float(v @ odds), float(v @ odds**2))
    lift = w * (odds - mean) if sd > 0.0 else np.zeros(t.n)
    (smooth, observed), sums = null_draws(context, np.stack([w, lift], axis=1))
    gap = float(w @ p) - sums[:, 0]
    slope = float(lift @ p) - sums[:, 1]
    sd = sd if context.luck is None else float(slope.std())
    drawn = JointDraws(
        smooth, observed, gap, slope, math.sqrt(float(v.sum())) * _widening(context), sd
    )
    return MeanGap.of(
        float(lift @ (p - context.outcomes)) / float(w.sum()), sd / float(w.sum())
    ), drawn


TOP_SHARES = (0.3, 0.45, 0.25)
POSITIVE_SHARES = (0.4, 0.35, 0.25)
"""Shares of the level that gap, sharpness and smooth error have.

The commonest miscalibration of a confidence is a temperature, whose score test is the
entropy gap, so that has the largest share; that of P(class 1) is a bias.
"""

FINER = (((0.01, 0.15), 400), ((0.03, 0.08), 1000))
"""Ranges of p-values so near the level that the draws so far could decide the verdict
wrongly, and the number of draws there: the second range is looked at with the draws of
the first.
"""


@dataclass(frozen=True)
class JointTest:
    """Result of the joint test.

    gap, sharpness : mean gaps with their z. p_value : of all three tests together, from
    ``draws`` draws. positive : true of P(class 1): the sharpness is then the residual
    slope, the part of the log-odds' slope that a bias does not explain, else the
    entropy gap.
    """

    gap: MeanGap
    sharpness: MeanGap
    p_value: float
    draws: int
    positive: bool


def joint_test(
    context: MetricContext, positive: bool = False, factor: float = 1.0
) -> JointTest:
    """Test mean gap, sharpness and smooth error of the scores together.

    Each statistic is turned into a p-value (normal; the smooth error by mean and
    standard deviation of its draws), the least of them over their shares is the joint
    statistic, and its p-value its rank among the draws: the level is exact, for a
    confidence up to the normal noise that stands for the labels of wrong rows.
    Reference: Westfall, Young (1993), section 2 (min-p).

    factor : by which the error of a calibrator's fit widens all three statistics; 1
    tests exact calibration.
    """
    labelled = context.labelled("positive" if positive else "top")
    test = _tested(labelled, positive, factor)
    for (low, high), draws in FINER:
        if low < test.p_value < high:
            test = _tested(labelled.drawn_finer(draws), positive, factor)
    return test


def _tested(context: MetricContext, positive: bool, factor: float) -> JointTest:
    """Joint test with the draws of this context."""
    gap = direction_of(context, "positive" if positive else "confidence")
    if positive:
        shares = POSITIVE_SHARES
        (sharpness, drawn) = drawn_from_positive(context)
    else:
        shares = TOP_SHARES
        sharpness = direction_of(context, "entropy")
        drawn = drawn_from_confidences(context)
    gap = replace(gap, z=gap.z / factor)
    sharpness = replace(sharpness, z=sharpness.z / factor)
    observed_smooth = np.array([drawn.observed / factor])
    observed = min_p(
        np.array([gap.z]),
        np.array([sharpness.z]),
        standardised(observed_smooth, drawn.smooth),
        shares,
    )
    draws = min_p(
        _scaled(drawn.gap, drawn.sd_gap),
        _scaled(drawn.entropy, drawn.sd_entropy),
        standardised(drawn.smooth, drawn.smooth),
        shares,
    )
    reached = int((draws <= observed * (1.0 + SAME)).sum())
    return JointTest(
        gap, sharpness, (1 + reached) / (1 + len(draws)), len(draws), positive
    )


def min_p(
    gap_z: FloatArray,
    sharpness_z: FloatArray,
    smooth_z: FloatArray,
    shares: tuple[float, float, float],
) -> FloatArray:
    """Joint statistic (m,): the least of three p-values, each over its share, from
    standard scores (m,) each.
    """
    p_values = [
        [normal_p_value(z) for z in gap_z],
        [normal_p_value(z) for z in sharpness_z],
        [normal_tail(z) for z in smooth_z],
    ]
    by_share = np.array(p_values) / np.array(shares)[:, None]
    return by_share.min(axis=0)


def _scaled(values: FloatArray, sd: float) -> FloatArray:
    return values / sd if sd > 0.0 else np.zeros_like(values)
