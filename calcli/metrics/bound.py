"""The generalisation bound that comes with Hoki, as printed and as its proof supports it."""

import math

from calcli.binning import binned_error
from calcli.metrics.context import MetricContext, Value
from calcli.metrics.definition import metric
from calcli.metrics.losses import mean_named
from calcli.plain import dataclass

__all__ = ["GeneralisationBound", "generalisation_bound"]


@dataclass(frozen=True)
class GeneralisationBound:
    """Upper bounds of the population ECE, each holding with probability 1 - delta if its proof does."""

    printed: float
    repaired: float
    delta: float
    bins: int


def generalisation_bound(ece: float, n: float, bins: int, delta: float = 0.05) -> GeneralisationBound:
    """Bounds of the population ECE from an ECE on n rows that the calibrator has not seen.

    Printed: ECE + J sqrt(2 ln(4 / delta) / N), J bins. The printed proof omits a union bound
    over the bins and takes the range of (correct - confidence) as 1 where it is 1 + 1/J
    inside a bin; repaired: ECE + (J + 1) sqrt(2 ln(4 J / delta) / N). Both exceed any ECE
    worth having at usual sizes.

    Reference: Jang, Ivanov, Lee, Weimer (2021), arXiv 2102.12680, theorem 2.

    >>> b = generalisation_bound(0.0, 10000, 15)
    >>> round(b.printed, 3), round(b.repaired, 3)
    (0.444, 0.603)
    """
    return GeneralisationBound(
        ece + bins * math.sqrt(2.0 * math.log(4.0 / delta) / n),
        ece + (bins + 1) * math.sqrt(2.0 * math.log(4.0 * bins / delta) / n),
        delta,
        bins,
    )


def _bound(context: MetricContext, which: str) -> Value:
    s = context.settings
    value = float(binned_error(context.bins("width")))
    bound = generalisation_bound(value, mean_named(context, "accuracy").n, s.bins, 1.0 - s.level)
    return Value(getattr(bound, which), signature={"delta": f"{1.0 - s.level:g}"})


SIGNATURE = (("norm", "1"), ("bins", None), ("scheme", "width"), ("label", None))


@metric(
    "bound_printed",
    "Generalisation bound of the ECE as printed",
    "ECE + J sqrt(2 ln(4/delta)/N), delta = 1 - level",
    reference="Jang et al. (2021), theorem 2",
    signature=SIGNATURE,
    report="full",
)
def bound_printed(context: MetricContext) -> Value:
    return _bound(context, "printed")


@metric(
    "bound_repaired",
    "Generalisation bound of the ECE as its proof supports it",
    "ECE + (J + 1) sqrt(2 ln(4J/delta)/N), delta = 1 - level",
    reference="after Jang et al. (2021), theorem 2",
    signature=SIGNATURE,
    report="full",
)
def bound_repaired(context: MetricContext) -> Value:
    return _bound(context, "repaired")
