"""P-values up to the error of a calibrator's fit.

A calibrator that was fitted to n rows matches their means, not those of m new rows:
once matched, the gap of the new rows has variance 1 + m / n in units of that of
calibrated scores. A test up to the error of the fit takes its statistic as that much
more variable.
"""

from calcli.statistics.intervals import normal_p_value, normal_quantile, normal_tail
from calcli.statistics.nulls import Null


def widened_p_value(p: float, factor: float) -> float:
    """P-value of a statistic whose standard deviation is larger by ``factor``.

    The statistic is treated as normal: p is that of z, the result that of z / factor.
    """
    if factor == 1.0 or p >= 1.0:
        return p
    if p <= 0.0:
        return 0.0
    z = -normal_quantile(p / 2.0)
    return normal_p_value(z / factor)


def widened_null_p_value(value: float, null: Null, factor: float) -> float:
    """P-value of a calibration error whose noise is larger by ``factor``.

    A calibration error grows in proportion to the noise, so the value is divided by
    the factor; its law under calibration is treated as normal with the null's mean and
    95th percentile.
    """
    sd = (null.q95 - null.mean) / normal_quantile(0.95)
    if factor == 1.0 or not sd > 0.0:
        return null.p_value
    return normal_tail((value / factor - null.mean) / sd)
