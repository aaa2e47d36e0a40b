"""Areas under curves of ranked rows, and how far they may be off."""

import math
from dataclasses import dataclass

import numpy as np

from calcli.numerics import FloatArray, ratio
from calcli.statistics.ties import Ranked, TieBlocks, running
from calcli.statistics.units import Units, uneven_error


def area_under_roc(ranked: Ranked) -> float | None:
    """Compute the probability that an outcome of 1 has a higher score than one of 0.

    Ties count half. None when all outcomes are the same.

    Reference: Hanley, McNeil (1982).
    """
    pairs = ranked.right * ranked.wrong
    if pairs <= 0.0:
        return None
    won = []
    for block, _, wrong_below in running(ranked):
        won.append(float(block.right @ (wrong_below + 0.5 * block.wrong)))
    return math.fsum(won) / pairs


LEAST = 5.0  # fewest rows that must carry an area for it to have an interval

LEAST_UNITS = 8.0  # fewest units, likewise


@dataclass(frozen=True)
class AreaSpread:
    """How far an area under a curve may be off.

    se : its standard error. carrying : rows that carry the area, (sum l)^2 / sum l^2 of
    their shares l.
    """

    se: float
    carrying: float


def delong(ranked: Ranked, area: float) -> AreaSpread:
    """Compute the spread of the area under the ROC curve.

    Each row has a share of pairs won, with mid-ranks for ties, and the variances of the
    means of the two outcomes add. The rows that carry the area are those of the outcome
    of which fewer do. NaN with fewer than two rows of an outcome.

    Reference: DeLong, DeLong, Clarke-Pearson (1988); Sun, Xu (2014) for the ranks.
    """
    right = ranked.right
    wrong = ranked.wrong
    if min(right, wrong) < 2:
        return AreaSpread(math.nan, 0.0)
    # Sum the squares of the shares of pairs lost, by outcome.
    right_square = 0.0
    wrong_square = 0.0
    for block, right_below, wrong_below in running(ranked):
        by_right = 1.0 - (wrong_below + 0.5 * block.wrong) / wrong
        by_wrong = (right_below + 0.5 * block.right) / right
        right_square += float(block.right @ by_right**2)
        wrong_square += float(block.wrong @ by_wrong**2)
    lost = 1.0 - area
    right_spread = max(right_square - right * lost**2, 0.0)
    wrong_spread = max(wrong_square - wrong * lost**2, 0.0)
    se = math.sqrt(
        right_spread / (right - 1) / right + wrong_spread / (wrong - 1) / wrong
    )
    carrying = min(
        _carrying(right * lost, right_square), _carrying(wrong * lost, wrong_square)
    )
    return AreaSpread(se, carrying)


def _carrying(total: float, square: float) -> float:
    """Compute the number of rows that carry a sum; 0 where nothing does."""
    if square > 0.0:
        return total**2 / square
    return 0.0


def average_precision(ranked: Ranked) -> float | None:
    """Compute the mean precision over the thresholds at which recall rises.

    It is weighted by the rise; ties are one threshold. None without an outcome of 1.
    """
    right = ranked.right
    wrong = ranked.wrong
    if right <= 0.0:
        return None
    parts = []
    for block, right_below, wrong_below in running(ranked):
        hits = right - right_below
        predicted = hits + (wrong - wrong_below)
        parts.append(float(block.right @ ratio(hits, predicted)))
    return math.fsum(parts) / right


def risk_coverage(ranked: Ranked) -> float:
    """Compute the area under the risk-coverage curve.

    It is the mean over k of the error rate of the k highest scores. Equal scores enter
    in random order: the area is the expectation over it, not a draw. With weights
    coverage is a share of the weight and the area an integral.

    Reference: El-Yaniv, Wiener (2010); Geifman, Uziel, El-Yaniv (2019).
    """
    right = ranked.right
    wrong = ranked.wrong
    parts = []
    for block, right_below, wrong_below in running(ranked):
        size = block.right + block.wrong
        stop = np.maximum(right + wrong - right_below - wrong_below, size)
        errors = wrong - wrong_below
        parts.append(_risks(block.wrong, size, stop, errors, ranked.weighted))
    return math.fsum(parts) / (right + wrong)


def best_risk_coverage(right: float, wrong: float, weighted: bool = False) -> float:
    """Compute the least area under the risk-coverage curve: every error comes last.

    right, wrong : number of such rows.
    """
    size = np.array([right, wrong])
    stop = np.array([right, right + wrong])
    errors = np.array([0.0, wrong])
    return _risks(errors, size, stop, errors, weighted) / (right + wrong)


def _risks(
    wrong: FloatArray,
    size: FloatArray,
    stop: FloatArray,
    errors: FloatArray,
    continuous: bool,
) -> float:
    """Sum the error rates of the first m rows, over the m inside blocks (b,).

    The order inside a block is random. stop, errors : rows, and errors, down to the
    block's end. In a block with error rate r that begins after m rows with e errors the
    rate at m + j is (e + j r) / (m + j), whose sum over j is
    r size + (e - r m) (sum of 1 / (m + j)).
    """
    occupied = size > 0
    wrong = wrong[occupied]
    size = size[occupied]
    stop = stop[occupied]
    errors = errors[occupied]
    before = stop - size
    rate = wrong / size
    if continuous:
        before = np.where(before < 1e-12 * stop, 0.0, before)
        inverse = np.log(ratio(stop, before, otherwise=1.0))
    else:
        inverse = _inverses(np.rint(before), np.rint(stop))
    return float((rate * size + (errors - wrong - rate * before) * inverse).sum())


HARMONIC = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1.0, 65.0))])


def _inverses(low: FloatArray, high: FloatArray) -> FloatArray:
    """Sum 1/m over low < m <= high, whole numbers (b,).

    From 64 on it is Euler and Maclaurin's series.
    """
    out = 1.0 / high
    several = np.flatnonzero(high - low > 1.0)
    a = low[several]
    b = high[several]
    up_to_b = HARMONIC[np.minimum(b, 64).astype(np.int64)]
    up_to_a = HARMONIC[np.minimum(a, 64).astype(np.int64)]
    a = np.maximum(a, 64.0)
    b = np.maximum(b, 64.0)

    def rest(m: FloatArray) -> FloatArray:
        return 1.0 / (2 * m) - 1.0 / (12 * m**2) + 1.0 / (120 * m**4)

    out[several] = up_to_b - up_to_a + np.log1p((b - a) / a) + rest(b) - rest(a)
    return out


@dataclass
class _Moments:
    """Running sum and sum of squares of the influences of n rows."""

    n: float
    total: float = 0.0
    square: float = 0.0

    def add(self, block: TieBlocks, of_error: FloatArray, of_right: FloatArray) -> None:
        """Add the rows of a block. of_error, of_right : influence of such a row."""
        self.total += float(block.wrong @ of_error + block.right @ of_right)
        squares = block.wrong @ of_error**2 + block.right @ of_right**2
        self.square += float(squares)

    @property
    def se(self) -> float:
        """Standard error of the mean."""
        variance = max(self.square / self.n - (self.total / self.n) ** 2, 0.0)
        return math.sqrt(variance / max(self.n - 1.0, 1.0))


def risk_spread(ranked: Ranked) -> tuple[AreaSpread, AreaSpread]:
    """Compute the spread of the area under the risk-coverage curve, and of its excess.

    The excess is that over the best area. Rows have no weights. The area is E[-e ln S]
    with the error e of a row and the share S of rows at least as confident, so a row
    (c, e) moves it by -e ln S(c) - E[e' / S'; c' <= c] + E[e'] - area. This is the
    influence function, from which the jackknife differs by rounding. Inside a block of
    ties both are means over its random order. The least area at an error rate r is
    r + (1 - r) ln(1 - r), its slope -ln(1 - r).
    """
    n = ranked.right + ranked.wrong
    rate = ranked.wrong / n
    slope = -math.log1p(-rate) if rate < 1.0 else 0.0

    def area_to(rows: FloatArray) -> FloatArray:
        return rows * np.log(np.where(rows > 0.0, rows, n) / n)

    area = _Moments(n)
    excess = _Moments(n)
    lifted_total = 0.0
    lifted_square = 0.0
    risk_below = 0.0  # sum of e' / S' over the less confident rows
    for block, right_below, wrong_below in running(ranked):
        errors = block.wrong
        size = block.right + errors
        before = np.rint(n - right_below - wrong_below - size)
        stop = before + size
        inverse = np.log(stop / np.where(before > 0.0, before, stop))
        # Of an error: -ln S(c), its mean over the block.
        lifted = 1.0 - (area_to(stop) - area_to(before)) / size
        # Of every row: - E[e' / S'; c' <= c] + E[e'].
        block_risk = errors / size * inverse
        risk_to_end = risk_below + np.cumsum(block_risk)
        risk_below = float(risk_to_end[-1])
        within = errors / size * (1.0 - before / size * inverse)
        moved = rate - (risk_to_end - block_risk) - within
        area.add(block, lifted + moved, moved)
        excess.add(block, lifted + moved - slope, moved)
        lifted_total += float(errors @ lifted)
        lifted_square += float(errors @ lifted**2)
    carrying = _carrying(lifted_total, lifted_square)
    return AreaSpread(area.se, carrying), AreaSpread(excess.se, carrying)


def delong_of_units(
    score: FloatArray, outcome: FloatArray, area: float, units: Units
) -> AreaSpread:
    """Compute the spread of the area under the ROC curve where rows belong together.

    Pairs won, and lost, are summed by unit. score, outcome : (n,).

    Reference: Obuchowski (1997), Biometrics 53, 567-578.
    """
    up = outcome > 0
    right = np.sort(score[up])
    wrong = np.sort(score[~up])

    def share_below(ordered: FloatArray) -> FloatArray:
        below = np.searchsorted(ordered, score, side="left")
        up_to = np.searchsorted(ordered, score, side="right")
        return (below + up_to) / (2.0 * len(ordered))

    lost = np.where(up, 1.0 - share_below(wrong), share_below(right))
    influence = (1.0 - area - lost) / np.where(up, len(right), len(wrong))
    carrying = min(
        _carrying(sums.sum(), float(sums @ sums))
        for sums in (units.sums(lost * up), units.sums(lost * ~up))
    )
    return AreaSpread(uneven_error(influence, units)[0], carrying)
