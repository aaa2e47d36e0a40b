"""Statistics of rows that belong together.

The rows of one unit (a patient, an image, a question) depend on each other. The effective
information is neither the number of rows nor of units but ``wrong_units``: the expected
number of units with a wrong row. Where it is small, tests that only flip the signs of the
units' sums reject calibrated rows nearly always; the null by shared luck (``Luck``) does
not.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.numerics import FloatArray, IntArray
from calcli.records import cached_property

DRAW_ITEMS = 1 << 20  # uniform numbers drawn at once
ONES = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)
"""Bits of every byte that are set."""

FEW_WRONG = 12.0
"""Expected units with a wrong row below which their spread cannot be estimated."""

FEWEST_UNITS = 8  # units below which calibration is not judged


@dataclass(frozen=True)
class Units:
    """The unit of every row. code : (n,) 0..g-1. count : (g,) rows of each unit, none empty."""

    code: IntArray
    count: IntArray

    @classmethod
    def of(cls, names: NDArray[Any]) -> "Units":
        """Build units from a column (n,) of names or numbers."""
        code = numbered(names)[1]
        return cls(code, np.bincount(code))

    @property
    def n(self) -> int:
        return len(self.count)

    @property
    def single(self) -> bool:
        """True if every unit has one row: rows are then independent."""
        return self.n == len(self.code)

    @cached_property
    def order(self) -> IntArray:
        """Row numbers, unit by unit, (n,)."""
        # the smallest integer type sorts fastest
        return np.argsort(self.code.astype(np.min_scalar_type(self.n)), kind="stable")

    @cached_property
    def starts(self) -> IntArray:
        """Start of each unit in ``order``, (g,)."""
        return np.concatenate([[0], np.cumsum(self.count)[:-1]])

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum values (n,) over the rows of each unit, (g,)."""
        sums = np.bincount(self.code, weights=values, minlength=self.n)
        return np.asarray(sums, dtype=np.float64)

    def take(self, index: NDArray[Any]) -> "Units | None":
        """Select the units of the rows at ``index``, in that order.

        None if each then has one row.
        """
        units = Units.of(self.code[index])
        return None if units.single else units


def numbered(names: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    """Number unique names, ascending: the names, and the index of each row's, (n,).

    Close integers are counted rather than sorted.
    """
    if not _are_close_integers(names):
        unique, place = np.unique(names, return_inverse=True)
        return unique, place.reshape(-1).astype(np.int64)
    offset = names.astype(np.int64) - names.min().astype(np.int64)
    occurs = np.bincount(offset) > 0
    unique = np.flatnonzero(occurs).astype(names.dtype) + names.min()
    number = np.cumsum(occurs) - 1
    return unique, number[offset]


def _are_close_integers(names: NDArray[Any]) -> bool:
    """Test whether names are integers whose range is below four times their number."""
    if names.dtype.kind not in "iu" or not len(names):
        return False
    return int(names.max()) - int(names.min()) < 4 * len(names)


def by_first_row(code: IntArray) -> IntArray:
    """Units numbered in the order of their first rows, whatever their names."""
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[place]


def wrong_units(score: FloatArray, units: Units, both: bool = False) -> float:
    """Compute the expected number of units with a row whose outcome is 0.

    It is sum_g (1 - prod c), as if rows were independent. score : (n,) probabilities c of
    outcome 1. both : take the smaller of this for c and for 1 - c, as for P(class 1).
    """
    ordered = score[units.order]

    def expected(chance: FloatArray) -> float:
        none_wrong = np.multiply.reduceat(chance, units.starts)
        return float((1.0 - none_wrong).sum())

    if both:
        return min(expected(ordered), expected(1.0 - ordered))
    return expected(ordered)


def _observed_units(outcome: FloatArray, units: Units, both: bool) -> int:
    """Count the units with a row whose outcome is 0; arguments as ``wrong_units``."""

    def observed(rows: NDArray[np.bool_]) -> int:
        in_unit = np.bincount(units.code[rows], minlength=units.n)
        return int(np.count_nonzero(in_unit))

    if both:
        return min(observed(outcome < 0.5), observed(outcome > 0.5))
    return observed(outcome < 0.5)


@dataclass(frozen=True)
class Luck:
    """Shared luck: dependence within units, and the variance of a sum of outcomes.

    Outcomes are y_i = 1[V_i < c_i], where V_i is the unit's uniform number with
    probability a, else the row's own. Then P(y_i = 1) = c_i exactly and
    cov(y_i, y_j) = a^2 (min(c_i, c_j) - c_i c_j). So a^2 is estimated by the sum of
    products of residuals of pairs within units over its expectation if all luck were
    shared.

    estimate : a^2, 0 to 1. wrong : expected number of units with a row of the rarer
    outcome. seen : observed number of such units. share : a^2 as used, the estimate times
    ``fewer_than_expected``, or 1 where too few units are wrong. units : their number.
    rows : variance of the sum of outcomes, weights squared, of independent rows.
    variance : the same with shared luck.
    """

    estimate: float
    wrong: float
    seen: int
    share: float
    units: int
    rows: float
    variance: float

    @classmethod
    def of(
        cls,
        score: FloatArray,
        outcome: FloatArray,
        units: Units,
        weight: FloatArray | None = None,
        both: bool = False,
    ) -> "Luck":
        """Estimate from probabilities and outcomes (n,).

        both : treat both outcomes alike, as for P(class 1).
        """
        if weight is None:
            w = np.ones(len(score))
            residual = outcome - score
            spread = score * (1.0 - score)
        else:
            w = weight
            residual = weight * (outcome - score)
            spread = weight**2 * score * (1.0 - score)
        # Are there enough units with a wrong row to estimate from?
        wrong = wrong_units(score, units, both)
        seen = _observed_units(outcome, units, both)
        few_expected = wrong < FEW_WRONG and wrong < units.n / 2
        few_observed = seen < FEWEST_UNITS and seen < units.n / 2
        few = few_expected or few_observed
        # Hold the products of residuals of pairs against what shared luck makes them.
        together = float((units.sums(residual) ** 2).sum() - residual @ residual)
        pairs = 0.0
        if few or together > 0.0:
            pairs = float(pair_covariance(score, units, weight).sum())
        estimate = 0.0
        if pairs > 0.0:
            estimate = min(1.0, max(0.0, together / pairs))
        share = 1.0
        if not few:
            share = min(1.0, estimate * fewer_than_expected(score, outcome, w))
        rows = float(spread.sum())
        return cls(
            estimate=estimate,
            wrong=wrong,
            seen=seen,
            share=share,
            units=units.n,
            rows=rows,
            variance=rows + share * pairs,
        )

    @property
    def effect(self) -> float:
        """Design effect: variance of the sum over that of independent rows."""
        if self.rows > 0.0:
            return self.variance / self.rows
        return 1.0


def effects_of_bins(
    score: FloatArray,
    outcome: FloatArray,
    index: IntArray,
    bins: int,
    units: Units | None,
    weight: FloatArray | None,
) -> FloatArray:
    """Compute the design effect of the number of outcomes 1 in every bin, (bins,).

    It is at least 1.
    """
    effect = np.ones(bins)
    if units is None:
        return effect
    for b in np.unique(index).tolist():
        rows = index == b
        bin_units = units.take(rows)
        if bin_units is None:
            continue
        bin_weight = None if weight is None else weight[rows]
        effect[b] = Luck.of(score[rows], outcome[rows], bin_units, bin_weight).effect
    return effect


def pair_covariance(
    score: FloatArray, units: Units, weight: FloatArray | None = None
) -> FloatArray:
    """Sum w_i w_j (min(c_i, c_j) - c_i c_j) over the ordered pairs of each unit, (g,)."""
    if weight is None:
        # Sort scores within units, by one sort of numbers whose integer part is the
        # unit.
        c = np.sort(units.code + score) - np.repeat(np.arange(units.n), units.count)
        w = np.ones(len(c))
        mass = score
    else:
        order = np.lexsort((score, units.code))
        c = score[order]
        w = weight[order]
        mass = weight * score
    # Weigh each row by the later rows in the unit: theirs is the larger score of the
    # pair.
    weight_to_row = np.cumsum(w)
    weight_to_end = weight_to_row[units.starts + units.count - 1]
    later = np.repeat(weight_to_end, units.count) - weight_to_row
    smaller = np.add.reduceat(c * w * later, units.starts)
    products = units.sums(mass) ** 2 - units.sums(mass**2)
    return np.asarray(2.0 * smaller - products)


def fewer_than_expected(
    score: FloatArray, outcome: FloatArray, weight: FloatArray
) -> float:
    """Compare the variance of an outcome at the mean score and at the observed rate.

    Returns their ratio, at least 1. Shared luck shows in units with many wrong rows. A
    sample that lacks them by chance has both few wrong rows and little visible luck: with
    wrong rows in clusters, S^2 grows with their number. Without this correction, too few
    wrong rows were read as underconfidence in up to .27 of samples.
    """
    total = float(weight @ np.ones(len(score)))
    expected = float(weight @ score)
    observed = float(weight @ outcome)
    at_rate = max(observed * (total - observed), 1e-9 * total**2, 1e-300)
    return max(1.0, expected * (total - expected) / at_rate)


def opposed_luck(
    score: FloatArray,
    outcome: FloatArray,
    units: Units,
    weight: FloatArray | None = None,
) -> list[float]:
    """Estimate two kinds of luck of P(class 1) that rows of a unit share.

    They are that of being class 1, and that of being as predicted. The second moves rows
    above and below one half apart, so that it hardly affects their sum, but does affect a
    slope or a smooth error. With r the residuals, pairs on the same side have
    sum r r' = (a^2 + b^2) sum cov, those on opposite sides a^2 sum cov - b^2 sum cov',
    where cov is as of ``Luck`` and cov' that of being as predicted. Returns a^2 and b^2,
    which are such that a + b <= 1.
    """
    side = score >= 0.5
    turned = np.where(side, score, 1.0 - score)
    halves = Units.of(2 * units.code + side)  # rows of a unit on the same side
    w = np.ones(len(score)) if weight is None else weight
    # Sum the products of residuals of pairs on the same side, and on opposite sides.
    residual = w * (outcome - score)
    half_squares = (halves.sums(residual) ** 2).sum()
    same = float(half_squares - residual @ residual)
    opposite = float((units.sums(residual) ** 2).sum()) - float(half_squares)
    # Sum the covariances of the same pairs.
    cov_same = float(pair_covariance(score, halves, weight).sum())
    cov_class = float(pair_covariance(score, units, weight).sum()) - cov_same
    cov_turned = float(pair_covariance(turned, units, weight).sum()) - cov_same
    if not cov_same > 0.0:
        return [0.0, 0.0]
    both = same / cov_same
    if not cov_class + cov_turned > 0.0:
        return [min(1.0, max(0.0, both)), 0.0]
    # Solve for the two, and correct each for the wrong rows that a sample lacks.
    of_class = (opposite + both * cov_turned) / (cov_class + cov_turned)
    of_prediction = both - max(of_class, 0.0)
    right = np.where(side, outcome, 1.0 - outcome)
    class_luck = max(0.0, min(of_class, both))
    class_luck *= fewer_than_expected(score, outcome, w)
    prediction_luck = max(0.0, of_prediction)
    prediction_luck *= fewer_than_expected(turned, right, w)
    total = max(1.0, math.sqrt(class_luck) + math.sqrt(prediction_luck))
    return [class_luck / total**2, prediction_luck / total**2]


@dataclass(frozen=True)
class SharedOutcomes:
    """Simulated outcomes, drawn from the scores with shared luck.

    order : (n,) row numbers by ascending score, the order of the outcomes in a draw.
    bits : (draws, n / 8), eight outcomes per byte.
    """

    order: IntArray
    bits: NDArray[np.uint8]

    @classmethod
    def drawn(
        cls,
        score: FloatArray,
        units: Units,
        share: float,
        draws: int,
        rng: np.random.Generator,
        opposed: float = 0.0,
    ) -> "SharedOutcomes":
        """Draw outcomes from probabilities (n,).

        share : a^2 of ``Luck``; a row takes its unit's number with chance a. opposed :
        b^2 of ``opposed_luck``; with chance b a row takes a second number of its unit,
        mirrored (1 - V) for probabilities below one half.
        """
        order = np.argsort(score, kind="stable")
        n = len(order)
        code = by_first_row(units.code[order])
        c = score[order].astype(np.float32)
        # One number per row decides whether its luck is its own, and is then that luck.
        # Below ``unit_end`` it is the unit's, then the unit's second number, and from
        # ``second_end`` the row's own.
        unit_end = np.float32(math.sqrt(share))
        second_end = unit_end + np.float32(math.sqrt(opposed))
        right_end = second_end + (np.float32(1.0) - second_end) * c
        bits = np.empty((draws, -(-n // 8)), dtype=np.uint8)
        step = min(draws, max(1, DRAW_ITEMS // n))
        width = max(8, DRAW_ITEMS // step // 8 * 8)
        numbers = np.empty((step, n), dtype=np.float32)
        for start in range(0, draws, step):
            m = min(step, draws - start)
            rng.random((m, n), dtype=np.float32, out=numbers[:m])
            luck = rng.random((m, units.n), dtype=np.float32)
            if opposed > 0.0:
                second_luck = rng.random((m, units.n), dtype=np.float32)
            for first in range(0, n, width):
                rows = slice(first, first + width)
                number = numbers[:m, rows]
                chance = c[rows]
                by_unit = np.take(luck, code[rows], axis=1) < chance
                outcome = (number < right_end[rows]) & ((number >= unit_end) | by_unit)
                if opposed > 0.0:
                    second = np.take(second_luck, code[rows], axis=1)
                    mirrored = second >= np.float32(1.0) - chance
                    by_second = np.where(chance < 0.5, mirrored, second < chance)
                    takes_second = (number >= unit_end) & (number < second_end)
                    outcome = np.where(takes_second, by_second, outcome)
                packed = np.packbits(outcome, axis=1)
                bits[start : start + m, first // 8 : (first + width) // 8] = packed
        return cls(order, bits)

    def __len__(self) -> int:
        return len(self.bits)

    def some(
        self, draws: int | None = None
    ) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
        """Iterate over outcomes of the first draws, some draws at a time.

        Yields the slice of the draws and their outcomes, (m, n) 0 or 1 by ascending
        score.
        """
        n = len(self.order)
        most = len(self.bits)
        if draws is not None:
            most = min(draws, most)
        step = max(1, DRAW_ITEMS // n)
        for start in range(0, most, step):
            chunk = slice(start, min(start + step, most))
            yield chunk, np.unpackbits(self.bits[chunk], axis=1, count=n)

    def sums(self, columns: FloatArray, draws: int | None = None) -> FloatArray:
        """Sum columns (n, k) over the rows with outcome 1, (draws, k).

        The rows of the columns are in their original order.
        """
        ordered = columns[self.order]
        n = len(columns)
        # One buffer for all: allocating large arrays is slow.
        buffer = np.empty((max(1, DRAW_ITEMS // n), n))
        sums = []
        for _, drawn in self.some(draws):
            outcomes = np.multiply(drawn, 1.0, out=buffer[: len(drawn)])
            sums.append(outcomes @ ordered)
        return np.concatenate(sums)

    def by_bin(
        self, index: IntArray, bins: int, weight: FloatArray | None = None
    ) -> FloatArray:
        """Sum outcomes, weighted, per bin of the scores, (draws, bins).

        index : (n,) bins of the rows.
        """
        ordered = index[self.order]
        first = np.flatnonzero(np.concatenate([[True], np.diff(ordered) > 0]))
        occupied = ordered[first]
        sums = np.zeros((len(self.bits), bins))
        if weight is None:
            right = self.right_before(np.append(first, len(ordered)))
            sums[:, occupied] = np.diff(right)
            return sums
        w = weight[self.order]
        for chunk, drawn in self.some():
            sums[chunk, occupied] = np.add.reduceat(drawn * w, first, axis=1)
        return sums

    def right_before(self, places: IntArray) -> IntArray:
        """Count outcomes 1 among the first ``places`` (m,) rows by score, (draws, m)."""
        whole, rest = np.divmod(places, 8)
        mask = (0xFF00 >> rest).astype(np.uint8)
        last = np.minimum(whole, self.bits.shape[1] - 1)
        counts = np.empty((len(self.bits), len(places)), dtype=np.int64)
        step = max(1, DRAW_ITEMS // len(self.order))
        for start in range(0, len(self.bits), step):
            chunk = self.bits[start : start + step]
            ones = np.cumsum(ONES[chunk], axis=1, dtype=np.int64)
            in_whole_bytes = np.where(whole > 0, ones[:, whole - 1], 0)
            in_last_byte = ONES[chunk[:, last] & mask]
            counts[start : start + step] = in_whole_bytes + in_last_byte
        return counts


def unit_mean(
    values: FloatArray, units: Units, weight: FloatArray | None = None
) -> tuple[float, float]:
    """Compute the mean of values (n,) and its standard error clustered by unit.

    SE^2 = G/(G-1) sum_g (sum_{i in g} w_i (x_i - mean))^2 / (sum w)^2; NaN for one unit.
    """
    w = np.ones(len(values)) if weight is None else weight
    total = float(w.sum())
    mean = float(w @ values) / total
    square = float((units.sums(w * (values - mean)) ** 2).sum()) / total**2
    if units.n < 2:
        return mean, math.nan
    return mean, math.sqrt(square * units.n / (units.n - 1))


def label_effect(labels: IntArray, k: int, units: Units) -> float:
    """Compute the design effect of the frequencies of k classes, at least 1.

    It is the mean over the classes of the variance of a class's count by units over that
    of independent rows, sum_g (n_gc - n_g p_c)^2 / (n p_c (1 - p_c)). Counts divided by it
    can be compared as if rows were independent.

    Reference: Rao, Scott (1981), Journal of the American Statistical Association 76,
    221-230.
    """
    n = len(labels)
    effects: list[float] = []
    for label, count in enumerate(np.bincount(labels, minlength=k).tolist()):
        if 0 < count < n:
            share = count / n
            by_unit = units.sums((labels == label) - share)
            effects.append(float(by_unit @ by_unit) / (n * share * (1.0 - share)))
    if not effects:
        return 1.0
    return max(1.0, sum(effects) / len(effects))


def uneven_error(
    influence: FloatArray, units: Units, weight: FloatArray | None = None
) -> tuple[float, float]:
    """Compute the jackknife error of a sum of influences, and its degrees of freedom.

    influence : (n,). A unit that holds a share h of the rows draws the mean towards
    itself: its sum S is treated as S / (1 - h), as without it. SE^2 = (G-1)/G sum_g (S_g / (1 - h_g))^2, with one
    degree of freedom less than Kish's effective number of units, 1 / sum h^2, at least 1.
    For units of one size these are the SE of ``unit_mean`` and G - 1.

    Reference: MacKinnon, White (1985), Journal of Econometrics 29, 305-325 (HC3, of
    clusters CR3); Kish (1965), section 8.2.
    """
    sizes = units.count if weight is None else units.sums(weight)
    share = sizes / sizes.sum()
    alone = units.sums(influence) / np.maximum(1.0 - share, 1e-12)
    error = math.sqrt((units.n - 1) / units.n * float((alone**2).sum()))
    return error, max(1.0 / float(share @ share) - 1.0, 1.0)


def design_effect(
    values: FloatArray, units: Units, weight: FloatArray | None = None
) -> float:
    """Compute the design effect of a mean of values (n,), at least 1.

    It is its variance by units over that by rows.
    """
    w = np.ones(len(values)) if weight is None else weight
    r = w * (values - np.average(values, weights=w))
    by_row = float(r @ r)
    if not by_row > 0.0:
        return 1.0
    by_unit = float((units.sums(r) ** 2).sum())
    return max(1.0, by_unit / by_row)


@dataclass(frozen=True)
class AcceptedUnits:
    """Counts of the rows accepted at a threshold, by unit.

    m : rows accepted. right : of these right. units : number with an accepted row.
    square, cross, right_square : sums over units of m_g^2, m_g right_g and right_g^2.
    """

    m: int
    right: int
    units: int
    square: int
    cross: int
    right_square: int

    @classmethod
    def among(
        cls, code: IntArray, correct: FloatArray
    ) -> Callable[[int], "AcceptedUnits"]:
        """Build the function from m to the counts of the first m rows.

        code : (n,) units. correct : (n,) 0 or 1.
        """
        right = correct.astype(np.int64)
        # Number the earlier rows of each row's unit, and those of them that are right.
        order = np.argsort(code, kind="stable")
        start = np.flatnonzero(np.diff(code[order], prepend=-1))
        size = np.diff(start, append=len(code))
        earlier = np.empty_like(order)
        earlier[order] = np.arange(len(code)) - np.repeat(start, size)
        right_so_far = np.cumsum(right[order]) - right[order]
        earlier_right = np.empty_like(order)
        earlier_right[order] = right_so_far - np.repeat(right_so_far[start], size)
        # Sum by how much each row raises the counts.
        right_sums = np.cumsum(right)
        unit_sums = np.cumsum(earlier == 0)
        square_sums = np.cumsum(2 * earlier + 1)
        cross_sums = np.cumsum((earlier + 1) * right + earlier_right)
        right_square_sums = np.cumsum(right * (2 * earlier_right + 1))

        def counts(m: int) -> AcceptedUnits:
            return cls(
                m=m,
                right=int(right_sums[m - 1]),
                units=int(unit_sums[m - 1]),
                square=int(square_sums[m - 1]),
                cross=int(cross_sums[m - 1]),
                right_square=int(right_square_sums[m - 1]),
            )

        return counts

    def design_effect(self, accuracy: float) -> float:
        """Compute the design effect of the number right, at least 1.

        It is its variance by units over the binomial's, both about ``accuracy``. Centred
        there and not at the observed rate, a set without a wrong row counts each unit as
        one draw.
        """
        cross = 2.0 * accuracy * self.cross
        by_unit = self.right_square - cross + accuracy**2 * self.square
        wrong = self.m - self.right
        by_row = self.right * (1.0 - accuracy) ** 2 + wrong * accuracy**2
        return max(1.0, by_unit / by_row)

    def effective(self, accuracy: float, alpha: float) -> float:
        """Compute the effective number of accepted rows for a test at level ``alpha``.

        It is 0 for fewer than two units.
        """
        from scipy.special import ndtri, stdtrit

        if self.units < 2:
            return 0.0
        # Both quantiles are 0 at one half, and their ratio grows towards it.
        a = 1 - min(alpha, 0.25)
        quantiles = float(ndtri(a) / stdtrit(self.units - 1, a))
        return self.m / self.design_effect(accuracy) * quantiles**2

    def tail(self, accuracy: float, alpha: float) -> float:
        """Compute the p-value of the number right at this accuracy.

        It is the upper binomial tail at the effective number of rows.

        Reference: Korn, Graubard (1998), Survey Methodology 24, 193-201.
        """
        from scipy.special import betainc

        n = self.effective(accuracy, alpha)
        right = n * self.right / self.m
        if not right > 0.0:
            return 1.0
        return float(betainc(right, n - right + 1.0, accuracy))

    def lower(self, alpha: float) -> float:
        """Compute the lower confidence bound of the accuracy.

        It is the least that the test at ``alpha`` does not reject, to 1e-9.
        """
        low = 0.0
        high = self.right / self.m
        while high - low > 1e-9:
            middle = 0.5 * (low + high)
            if self.tail(middle, alpha) <= alpha:
                low = middle
            else:
                high = middle
        return low
