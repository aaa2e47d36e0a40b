"""Tests of calibration whose level is known: direction, cumulative sums, classes, bins of all sizes."""

import math

import numpy as np

from calcli.fast_dataclass import dataclass
from calcli.metrics.context import MetricContext, Value
from calcli.metrics.definition import metric
from calcli.metrics.intervals import normal_p_value
from calcli.metrics.nulls import Null, outcome_draws, poisson_binomial, reaching
from calcli.metrics.rowtable import ClassStats, RowTable
from calcli.metrics.ties import Ranked
from calcli.numerics import FloatArray, IntArray


def vanishes(gap: float) -> bool:
    """Whether a statistic that has no spread under calibration is where calibration has it.

    Certain scores that are all right are calibrated; certain and wrong is impossible (p-value 0).
    """
    return abs(gap) <= 1e-12


@dataclass(frozen=True)
class MeanGap:
    """A mean gap with its standard deviation under calibration, and z = gap / sd."""

    gap: float
    z: float

    @classmethod
    def of(cls, gap: float, sd: float) -> "MeanGap":
        """Of a mean gap and its standard deviation."""
        return cls(gap, gap / sd if sd > 0.0 else 0.0 if vanishes(gap) else math.copysign(math.inf, gap))

    @property
    def p_value(self) -> float:
        """Two-sided."""
        return normal_p_value(self.z)


def _direction(gap: FloatArray, variance: FloatArray, weight: FloatArray | None) -> MeanGap:
    w = np.ones(len(gap)) if weight is None else weight
    total = float(w.sum())
    return MeanGap.of(float(w @ gap) / total, math.sqrt(float(w**2 @ variance)) / total)


def confidence_direction(table: RowTable) -> MeanGap:
    """Mean confidence minus accuracy, with the variance sum c (1 - c) that calibration implies."""
    c = table.confidence
    return _direction(c - table.correct, c * (1.0 - c), table.weight)


def positive_direction(table: RowTable) -> MeanGap:
    """Mean P(class 1) minus the share of class 1, for two classes."""
    assert table.positive is not None
    p = table.positive
    return _direction(p - (table.y == 1), p * (1.0 - p), table.weight)


def entropy_direction(table: RowTable) -> MeanGap:
    """Mean NLL minus mean entropy, with the variance of -ln p_Y under Y ~ p.

    Zero at the optimum of a temperature; positive for probabilities that are too sure.
    """
    return _direction(table.nll - table.entropy, table.varentropy, table.weight)


DIRECTIONS = {"confidence": confidence_direction, "entropy": entropy_direction, "positive": positive_direction}


def direction_of(context: MetricContext, name: str) -> MeanGap:
    """The direction called ``confidence``, ``entropy`` or ``positive``."""
    return context.once(("direction", name), lambda: DIRECTIONS[name](context.table))


def sum_p_value(scores: FloatArray, outcomes: FloatArray, weight: FloatArray | None = None) -> float:
    """Two-sided p-value that outcomes (n,) happen as often as their probabilities ``scores`` (n,) say, all together.

    By the normal law of the sum, or where its variance is below 10 and rows have no weights by its own.
    """
    variance = scores * (1.0 - scores)
    if weight is not None or float(variance.sum()) >= 10.0:
        return _direction(scores - outcomes, variance, weight).p_value
    return exact_p_value(scores, round(float(outcomes.sum())))


def exact_p_value(scores: FloatArray, count: int) -> float:
    """Two-sided p-value of ``count`` successes of trials with the chances ``scores`` (n,), by their own law."""
    law = poisson_binomial(scores)
    return min(1.0, 2.0 * min(float(law[: count + 1].sum()), float(law[count:].sum())))


def p_text(p: float, draws: float = 0) -> str:
    """``p = 0.61``; where it is below a thousandth, or the least that a number of draws can give, ``p < 0.001``."""
    cell = p_cell(p, draws)
    return f"p {cell}" if cell.startswith("<") else f"p = {p:.2f}" if p >= 0.0995 else f"p = {cell}"


def p_cell(p: float, draws: float = 0) -> str:
    """The same without the p, for the column of a table: ``0.613``, ``< 0.001``."""
    least = 1.0 / (1 + draws) if draws else 0.0
    if p < 0.001 or p <= least * (1.0 + 1e-9):
        return f"< {max(math.ceil(1000 * least - 1e-9), 1) / 1000:.3f}"
    return f"{p:.3f}"


def spiegelhalter(scores: FloatArray, outcomes: FloatArray, weight: FloatArray | None = None) -> MeanGap:
    """Spiegelhalter's z: the Brier score of the scores against its expectation under calibration.

    z = sum (y - c)(1 - 2c) / sqrt(sum (1 - 2c)^2 c (1 - c)). Reference: Spiegelhalter (1986).
    """
    slope = 1.0 - 2.0 * scores
    return _direction((outcomes - scores) * slope, slope**2 * scores * (1.0 - scores), weight)


def max_brownian_tail(x: float) -> float:
    """P(max |B(t)|, 0 <= t <= 1, is at least x) for Brownian motion B."""
    if x < 0.2:
        return 1.0
    inside = sum(
        (-1) ** j / (2 * j + 1) * math.exp(-((2 * j + 1) ** 2) * math.pi**2 / (8.0 * x * x)) for j in range(40)
    )
    if x < 3.0:
        return min(1.0, max(0.0, 1.0 - 4.0 / math.pi * inside))
    # Far out the two crossings exclude each other, and the series above would cancel.
    return min(1.0, 2.0 * math.erfc(x / math.sqrt(2.0)))


def range_brownian_tail(x: float) -> float:
    """P(max B - min B over 0 <= t <= 1 is at least x) for Brownian motion B (Feller 1951)."""
    if x < 0.4:
        return 1.0
    terms = ((-1) ** (j - 1) * j * 0.5 * math.erfc(j * x / math.sqrt(2.0)) for j in range(1, 101))
    return min(1.0, max(0.0, 8.0 * math.fsum(terms)))


@dataclass(frozen=True)
class Cumulative:
    """Cumulative gaps of sorted scores. mad: largest |C_k|; kuiper: their range; sigma: null scale."""

    mad: float
    kuiper: float
    sigma: float

    @property
    def p_mad(self) -> float:
        """P-value of ``mad``."""
        return max_brownian_tail(self.mad / self.sigma) if self.sigma > 0 else float(vanishes(self.mad))

    @property
    def p_kuiper(self) -> float:
        """P-value of ``kuiper``."""
        return range_brownian_tail(self.kuiper / self.sigma) if self.sigma > 0 else float(vanishes(self.kuiper))


def cumulative_gaps(ranked: Ranked, variance: float) -> Cumulative:
    """Cumulative differences C_k = (1/N) sum_{i <= k} (y_i - c_i) in the order of the scores.

    Equal scores count at once, so the order of rows does not matter. ``mad`` is also the
    KS calibration error. variance : sum c (1 - c), weights squared; sigma is its root over N.

    Reference: Arrieta-Ibarra, Gujral, Tannen, Tygert, Xu (2022), JMLR 23(351), sections 2-3;
    Gupta et al. (2021) for KS.
    """
    highest = lowest = path = 0.0
    mad, total = 0.0, ranked.right + ranked.wrong
    for each in ranked:
        steps = path + np.cumsum(each.right - (each.right + each.wrong) * each.score)
        highest, lowest = max(highest, float(steps.max())), min(lowest, float(steps.min()))
        mad, path = max(mad, float(np.abs(steps).max())), float(steps[-1])
    return Cumulative(mad / total, (highest - lowest) / total, math.sqrt(variance) / total)


def adaptive_test(
    scores: FloatArray, outcomes: FloatArray, resamples: int, rng: np.random.Generator
) -> tuple[float, float, int]:
    """Adaptive test over bins of all sizes: (statistic, p-value, levels).

    For 2^b width bins, b = 1..floor(2 log2(n / sqrt(ln n))) but no more than 20, the
    pairwise squared error of ``debiased.squared_error`` in units of its null standard
    deviation; the statistic is the largest over b. Its p-value comes from outcomes drawn
    from the scores, so the level is exact; the paper splits the level over the b instead. Certain
    scores alone leave no spread: 0 where all are right, else infinite, with p-value 0.

    Reference: Lee, Huang, Hassani, Dobriban (2023), JMLR 24(335), section 4.
    """
    n = len(scores)
    levels = max(1, min(20, int(2.0 * math.log2(n / math.sqrt(math.log(n)))))) if n > 2 else 1
    order = np.argsort(scores, kind="stable")
    c, y = scores[order], outcomes[order]
    variance = c * (1.0 - c)
    cuts: list[tuple[IntArray, FloatArray, float]] = []
    for b in range(1, levels + 1):
        cell = np.minimum(np.ceil(c * 2.0**b), 2.0**b)
        first = np.flatnonzero(np.concatenate([[True], np.diff(cell) > 0]))
        count = np.diff(np.concatenate([first, [n]])).astype(np.float64)
        per_pair = np.divide(1.0, count - 1.0, out=np.zeros_like(count), where=count > 1)
        v = np.add.reduceat(variance, first)
        sd = math.sqrt(float((2.0 * v**2 * per_pair / count).sum()))
        if sd > 0.0:
            cuts.append((first, per_pair, sd))
    if not cuts:
        right = vanishes(float(np.abs(y - c).max()))
        return (0.0, 1.0, levels) if right else (math.inf, 0.0, levels)

    def largest(u: FloatArray) -> FloatArray:
        square = u * u
        return np.max(
            [
                ((np.add.reduceat(u, first, axis=1) ** 2 - np.add.reduceat(square, first, axis=1)) @ per_pair) / sd
                for first, per_pair, sd in cuts
            ],
            axis=0,
        )

    observed = float(largest((y - c)[None])[0])
    reached = sum(reaching(largest(drawn - c), observed) for _, drawn in outcome_draws(c, resamples, rng))
    return observed, (1 + reached) / (1 + resamples), levels


def class_p_values(stats: ClassStats, weighted: bool = False) -> FloatArray:
    """P-values that a class's summed probability is right for its number of rows, (k,).

    By the normal law, or where the variance sum p (1 - p) < 10 by the Poisson law, which
    is wider; weighted sums are no counts and take the normal law.
    """
    expected, labels, variance = stats.whole
    out = np.ones(len(expected))
    for c in range(len(out)):
        if weighted and variance[c] == 0.0:
            out[c] = float(vanishes(labels[c] - expected[c]))
        elif weighted or variance[c] >= 10.0:
            out[c] = normal_p_value(float((labels[c] - expected[c]) / math.sqrt(variance[c])))
        else:
            out[c] = poisson_p_value(round(float(labels[c])), float(expected[c]))
    return out


def poisson_p_value(count: int, mean: float) -> float:
    """Two-sided p-value of a count under Poisson's law."""
    if mean <= 0.0:
        return 1.0 if count == 0 else 0.0
    terms = [math.exp(j * math.log(mean) - mean - math.lgamma(j + 1)) for j in range(count + 1)]
    at_most = math.fsum(terms)
    at_least = 1.0 - at_most + terms[-1]
    return min(1.0, 2.0 * min(at_most, max(at_least, 0.0)))


def simes(p_values: FloatArray) -> float:
    """P-value that all of several hypotheses hold, m min p_(i) / i (Simes 1986)."""
    return min(1.0, float((len(p_values) * np.sort(p_values) / np.arange(1, len(p_values) + 1)).min()))


def adjusted(p_values: FloatArray) -> FloatArray:
    """P-values when all are considered, min over j >= i of m p_(j) / j: least, Simes' for all together, (m,).

    Those at most a level are what ``benjamini_hochberg`` rejects at it.
    """
    order = np.argsort(p_values, kind="stable")[::-1]
    m = len(p_values)
    out = np.empty(m)
    out[order] = np.minimum(np.minimum.accumulate(m * p_values[order] / np.arange(m, 0, -1)), 1.0)
    return out


def benjamini_hochberg(p_values: FloatArray, level: float = 0.05) -> IntArray:
    """Indices rejected at a false discovery rate of ``level`` (Benjamini, Hochberg 1995), by p-value."""
    order = np.argsort(p_values, kind="stable")
    passed = np.flatnonzero(p_values[order] <= level * np.arange(1, len(order) + 1) / len(order))
    return order[: passed[-1] + 1] if len(passed) else order[:0]


SCORED = (("label", None),)
IMPOSSIBLE = "the confidences are certain, and wrong somewhere"


@metric(
    "ks",
    "Kolmogorov-Smirnov calibration error: largest cumulative gap",
    "max_k |sum_{i<=k} (y_i - c_i)| / n, rows sorted by confidence",
    reference="Gupta et al. (2021)",
    signature=SCORED,
    report="full",
    reads="order",
)
def ks(context: MetricContext) -> Value:
    path = cumulative_gaps(context.ranked(), context.variance)
    # Mean and 95 % point of max |B|: sqrt(pi/2) and 2.2414.
    null = Null(math.sqrt(math.pi / 2.0) * path.sigma, 2.241402728 * path.sigma, path.p_mad, 0)
    return Value(path.mad, null=null)


@metric(
    "kuiper",
    "Range of the cumulative gaps (ECCE-R)",
    "max_k C_k - min_k C_k, C_k = sum_{i<=k} (y_i - c_i)/n, C_0 = 0",
    reference="Arrieta-Ibarra, Gujral, Tannen, Tygert, Xu (2022)",
    signature=SCORED,
    report="full",
    reads="order",
)
def kuiper(context: MetricContext) -> Value:
    path = cumulative_gaps(context.ranked(), context.variance)
    # Mean and 95 % point of the range of B: 2 sqrt(2/pi) and 2.4977.
    null = Null(2.0 * math.sqrt(2.0 / math.pi) * path.sigma, 2.497672161 * path.sigma, path.p_kuiper, 0)
    return Value(path.kuiper, null=null)


@metric(
    "spiegelhalter",
    "Spiegelhalter's z of the confidences",
    "sum (y - c)(1 - 2c) / sqrt(sum (1 - 2c)^2 c (1 - c))",
    reference="Spiegelhalter (1986)",
    better="zero",
    signature=SCORED,
    report="full",
    reads="sums",
)
def spiegelhalter_z(context: MetricContext) -> Value:
    direction: MeanGap = context.once(
        ("spiegelhalter",), lambda: spiegelhalter(context.scores, context.outcomes, context.table.weight)
    )
    if not math.isfinite(direction.z):
        return Value.undefined(IMPOSSIBLE)
    return Value(direction.z, p_value=direction.p_value)


@metric(
    "tcal",
    "Adaptive test of calibration over bins of all sizes: its statistic, with p-value",
    "max over 2^b bins of the pairwise squared error in null standard deviations",
    reference="Lee, Huang, Hassani, Dobriban (2023)",
    signature=(("bins", "2^b"), *SCORED),
    report="full",
)
def tcal(context: MetricContext) -> Value:
    if context.table.weight is not None:
        return Value.undefined("not defined for weighted rows")
    statistic, p_value, levels = adaptive_test(
        context.scores, context.outcomes, context.heavy_resamples, context.rng("tcal")
    )
    if math.isinf(statistic):
        return Value.undefined(IMPOSSIBLE)
    return Value(statistic, p_value=p_value, more={"levels": levels, "resamples": context.heavy_resamples})
