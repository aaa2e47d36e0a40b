"""What the joint test of calibration draws: its three statistics under calibration."""

import numpy as np

from calcli.numerics import FloatArray
from calcli.plain import dataclass


@dataclass(frozen=True)
class JointDraws:
    """Smooth errors, and sums of the gap and the entropy gap, (draws,) each; sd_gap, sd_entropy : of the sums."""

    smooth: FloatArray
    gap: FloatArray
    entropy: FloatArray
    sd_gap: float
    sd_entropy: float


def label_losses(
    c: FloatArray, entropy: FloatArray, varentropy: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """-ln p_Y of a right row, and its mean and variance over the labels of a wrong one, when Y ~ p; (n,) each.

    The moments over all labels are the entropy H and V + H^2; taking the predicted class
    away from both leaves those of the others.
    """
    right = -np.log(np.maximum(c, 1e-300))
    rest = np.maximum(1.0 - c, 0.0)
    known = rest > 1e-12
    share = np.where(known, rest, 1.0)
    mean = np.where(known, np.maximum(entropy - c * right, 0.0) / share, 0.0)
    square = np.where(known, np.maximum(varentropy + entropy**2 - c * right**2, 0.0) / share, 0.0)
    return right, mean, np.maximum(square - mean**2, 0.0)
