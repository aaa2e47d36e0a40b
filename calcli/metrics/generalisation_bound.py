"""Generalisation bound of the Hoki paper, as printed and as its proof supports it."""

import math

from calcli.binning import binned_error
from calcli.metrics.context import MetricContext
from calcli.metrics.registry import metric
from calcli.metrics.row_means import mean_named
from calcli.metrics.values import Value


def generalisation_bound(
    ece: float, n: float, bins: int, delta: float = 0.05
) -> dict[str, float]:
    """Bounds of the population ECE from an ECE on n rows that the calibrator has not seen.

    Each holds with probability 1 - delta if its proof does. Printed: ECE + J sqrt(2 ln(4 / delta) / N),
    J bins. The printed proof omits a union bound over the bins and takes the range of
    (correct - confidence) as 1 where it is 1 + 1/J inside a bin; repaired:
    ECE + (J + 1) sqrt(2 ln(4 J / delta) / N). Both exceed any ECE worth having at usual sizes.

    Reference: Jang, Ivanov, Lee, Weimer (2021), arXiv 2102.12680, theorem 2.

    >>> {name: round(bound, 3) for name, bound in generalisation_bound(0.0, 10000, 15).items()}
    {'printed': 0.444, 'repaired': 0.603}
    """
    return {
        "printed": ece + bins * math.sqrt(2.0 * math.log(4.0 / delta) / n),
        "repaired": ece
        + (bins + 1) * math.sqrt(2.0 * math.log(4.0 * bins / delta) / n),
    }


def _bound(context: MetricContext, which: str) -> Value:
    s = context.settings
    value = float(binned_error(context.bins("width")))
    n = context.n if context.table.weight is None else mean_named(context, "accuracy").n
    bounds = generalisation_bound(value, n, s.bins, 1.0 - s.level)
    return Value(bounds[which], signature={"delta": f"{1.0 - s.level:g}"})


@metric("norm:1 bins scheme:width label", report="full", reads="sums")
def bound_printed(context: MetricContext) -> Value:
    """Generalisation bound of the ECE as printed.

    ECE + J sqrt(2 ln(4/delta)/N), delta = 1 - level
    Reference: Jang et al. (2021), theorem 2
    """
    return _bound(context, "printed")


@metric("norm:1 bins scheme:width label", report="full", reads="sums")
def bound_repaired(context: MetricContext) -> Value:
    """Generalisation bound of the ECE as its proof supports it.

    ECE + (J + 1) sqrt(2 ln(4J/delta)/N), delta = 1 - level
    Reference: after Jang et al. (2021), theorem 2
    """
    return _bound(context, "repaired")
