"""One test of calibration from three: a mean gap, a gap of sharpness and the smooth error, at one level.

The three look at different departures (all scores too high; overconfident or underconfident, as a
temperature changes it; any shape) and depend on each other, so their joint law under calibration
is drawn. Of two classes the scores are P(class 1), of more the confidence with the whole vector
behind its sharpness: outcomes are drawn from the confidences, and what the label's probability
then is from its first two moments.
"""

import numpy as np

from calcli.fast_dataclass import dataclass
from calcli.metrics.context import MetricContext, made_once
from calcli.metrics.intervals import normal_p_value, normal_tail
from calcli.metrics.joint_draws import JointDraws, drawn_from_confidences, drawn_from_positive
from calcli.metrics.nulls import SAME, standardised
from calcli.metrics.significance import MeanGap, direction_of
from calcli.numerics import FloatArray

TOP_SHARES, POSITIVE_SHARES = (0.3, 0.45, 0.25), (0.4, 0.35, 0.25)
"""How the level is shared by gap, sharpness and smooth error. A temperature is the commonest departure of a
confidence and the entropy gap is its score test, so it has the largest share; of P(class 1) a bias is."""


@dataclass(frozen=True)
class JointTest:
    """gap, sharpness : departures with their z. p_value : of all three tests together, from ``draws`` draws.

    positive : are they of P(class 1)? Then the sharpness is the residual slope, what of the log-odds' slope a bias
    does not explain; else the entropy gap.
    """

    gap: MeanGap
    sharpness: MeanGap
    p_value: float
    draws: int
    positive: bool = False


def joint_test(context: MetricContext, positive: bool = False) -> JointTest:
    """Test the scores, and the sharpness around them, all at once.

    Each statistic is turned into a p-value (normal; the smooth error by mean and standard
    deviation of its draws), the least of them over their shares is the joint statistic, and its
    p-value its rank among the draws: the level is exact, for a confidence up to the normal noise
    that stands for the labels of wrong rows. Reference: Westfall, Young (1993), section 2 (min-p).
    """
    own = context.labelled("positive" if positive else "top")
    return _of_positive(own) if positive else _of_top(own)


@made_once
def _of_top(context: MetricContext) -> JointTest:
    gap, entropy = direction_of(context, "confidence"), direction_of(context, "entropy")
    return _joint(context, gap, entropy, drawn_from_confidences(context))


@made_once
def _of_positive(context: MetricContext) -> JointTest:
    """z_gap = sum r / sqrt(sum w) and z_slope = sum r (l - m) / sqrt(sum w (l - m)^2), with r = p - y, w = p (1 - p),
    l the log-odds and m their mean with weights w: the two are uncorrelated under calibration."""
    slope, drawn = drawn_from_positive(context)
    return _joint(context, direction_of(context, "positive"), slope, drawn, positive=True)


def _joint(
    context: MetricContext, gap: MeanGap, sharpness: MeanGap, drawn: JointDraws, positive: bool = False
) -> JointTest:
    shares = POSITIVE_SHARES if positive else TOP_SHARES
    tails = (standardised(errors, drawn.smooth) for errors in (np.array([drawn.observed]), drawn.smooth))
    observed = min_p(np.array([gap.z]), np.array([sharpness.z]), next(tails), shares)
    z = _scaled(drawn.gap, drawn.sd_gap), _scaled(drawn.entropy, drawn.sd_entropy)
    draws = min_p(*z, next(tails), shares)
    reached = int((draws <= observed * (1.0 + SAME)).sum())
    return JointTest(gap, sharpness, (1 + reached) / (1 + len(draws)), len(draws), positive)


def min_p(
    gap_z: FloatArray, sharpness_z: FloatArray, smooth_z: FloatArray, shares: tuple[float, float, float]
) -> FloatArray:
    """The joint statistic, (m,): the least of three p-values over its share, of standard scores (m,) each."""
    p = [*([normal_p_value(z) for z in each] for each in (gap_z, sharpness_z)), [normal_tail(z) for z in smooth_z]]
    return np.asarray((np.array(p) / np.array(shares)[:, None]).min(axis=0))


def _scaled(values: FloatArray, sd: float) -> FloatArray:
    return values / sd if sd > 0.0 else np.zeros_like(values)
