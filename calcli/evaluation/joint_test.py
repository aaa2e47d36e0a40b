"""One test of calibration from three: the mean gap, the entropy gap and the smooth error, at one level.

The three look at different departures (all confidences too high; the sharpness of the whole
vector, as a temperature changes it; any shape) and depend on each other, so their joint law
under calibration is drawn: outcomes from the confidences, and what the label's probability
then is from its first two moments.
"""

import numpy as np

from calcli.fast_dataclass import dataclass
from calcli.metrics.context import MetricContext
from calcli.metrics.intervals import normal_p_value, normal_tail
from calcli.metrics.nulls import SAME, JointDraws, label_losses, standardised
from calcli.metrics.significance import MeanGap, direction_of
from calcli.metrics.smooth import null_draws
from calcli.numerics import FloatArray

SHARES = np.array([0.3, 0.45, 0.25])
"""How the level is shared by gap, entropy gap and smooth error. A temperature is the commonest
departure and the entropy gap is its score test, so it has the largest share."""


@dataclass(frozen=True)
class JointTest:
    """gap, entropy : directions with their z. p_value : of all three tests together, from ``draws`` draws."""

    gap: MeanGap
    entropy: MeanGap
    p_value: float
    draws: int


def joint_test(context: MetricContext) -> JointTest:
    """Test the confidences, and the sharpness of the probabilities around them, all at once.

    Each statistic is turned into a p-value (normal; the smooth error by mean and standard
    deviation of its draws), the least of them over their shares is the joint statistic, and its
    p-value its rank among the draws: the level is exact up to the normal noise that stands for
    the labels of wrong rows. Reference: Westfall, Young (1993), section 2 (min-p).
    """
    context = context.labelled("top")
    return context.once(("joint",), lambda: _joint_test(context))


def _joint_test(context: MetricContext) -> JointTest:
    gap, entropy = direction_of(context, "confidence"), direction_of(context, "entropy")
    drawn: JointDraws = context.once(("joint draws",), lambda: _drawn(context))

    def statistic(gap_z: FloatArray, entropy_z: FloatArray, error: FloatArray) -> FloatArray:
        tail = standardised(error, drawn.smooth)
        p = [[normal_p_value(x) for x in gap_z], [normal_p_value(x) for x in entropy_z], [normal_tail(x) for x in tail]]
        return np.asarray((np.array(p) / SHARES[:, None]).min(axis=0))

    observed = statistic(np.array([gap.z]), np.array([entropy.z]), np.array([drawn.observed]))[0]
    draws = statistic(_scaled(drawn.gap, drawn.sd_gap), _scaled(drawn.entropy, drawn.sd_entropy), drawn.smooth)
    reached = int((draws <= observed * (1.0 + SAME)).sum())
    return JointTest(gap, entropy, (1 + reached) / (1 + len(draws)), len(draws))


def _drawn(context: MetricContext) -> JointDraws:
    """The three statistics of outcomes drawn from the confidences."""
    t = context.table
    w = np.ones(t.n) if t.weight is None else t.weight
    right, wrong, variance = label_losses(t.confidence, t.entropy, t.varentropy)
    columns = np.stack([w, w * (right - wrong), w**2 * variance], axis=1)
    (smooth, observed), sums = null_draws(context, columns)
    noise = context.rng("joint").standard_normal(len(smooth)) * np.sqrt(
        np.maximum(float(w**2 @ variance) - sums[:, 2], 0.0)
    )
    return JointDraws(
        smooth,
        observed,
        float(w @ t.confidence) - sums[:, 0],
        float(w @ (wrong - t.entropy)) + sums[:, 1] + noise,
        float(np.sqrt(w**2 @ (t.confidence * (1.0 - t.confidence)))),
        float(np.sqrt(w**2 @ t.varentropy)),
    )


def _scaled(values: FloatArray, sd: float) -> FloatArray:
    return values / sd if sd > 0.0 else np.zeros_like(values)
