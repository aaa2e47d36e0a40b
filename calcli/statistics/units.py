"""Statistics of rows that belong together: the rows of one unit (a patient, an image, a question) depend on each other.

The effective information is neither the number of rows nor of units but ``wrong_units``: the expected number of
units with a wrong row. Where it is small, tests that only flip the signs of the units' sums reject calibrated
rows nearly always; the null by shared luck (``Luck``) does not.
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
ONES = np.array(
    [byte.bit_count() for byte in range(256)], dtype=np.uint8
)  # bits of every byte that are set
FEW_WRONG = (
    12.0  # expected units with a wrong row below which their spread cannot be estimated
)
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
        """True if every unit has one row: rows are independent, and nothing here is needed."""
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
        """Sum of values (n,) over the rows of each unit, (g,)."""
        return np.asarray(
            np.bincount(self.code, weights=values, minlength=self.n), dtype=np.float64
        )

    def take(self, index: NDArray[Any]) -> "Units | None":
        """Units of the rows at ``index``, in that order; None if each then has one row."""
        units = Units.of(self.code[index])
        return None if units.single else units


def numbered(names: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    """Unique names, ascending, and the index of each row's, (n,). Close integers are counted rather than sorted."""
    low, high = (
        (int(names.min()), int(names.max()))
        if names.dtype.kind in "iu" and len(names)
        else (0, -1)
    )
    if not 0 <= high - low < 4 * len(names):
        held, place = np.unique(names, return_inverse=True)
        return held, place.reshape(-1).astype(np.int64)
    offset = names.astype(np.int64) - names.min().astype(np.int64)
    found = np.bincount(offset) > 0
    return np.flatnonzero(found).astype(names.dtype) + names.min(), (
        np.cumsum(found) - 1
    )[offset]


def by_first_row(code: IntArray) -> IntArray:
    """Units numbered in the order of their first rows, whatever their names."""
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[place]


def wrong_units(score: FloatArray, units: Units, both: bool = False) -> float:
    """Expected number of units with a row whose outcome is 0, sum_g (1 - prod c), if rows were independent.

    score : (n,) probabilities c of outcome 1. both : take the smaller of this for c and for 1 - c, as for P(class 1).
    """
    ordered = score[units.order]
    sides = (ordered, 1.0 - ordered) if both else (ordered,)
    return min(
        float((1.0 - np.multiply.reduceat(side, units.starts)).sum()) for side in sides
    )


@dataclass(frozen=True)
class Luck:
    """Shared luck: dependence of outcomes within units, and the variance of their sum under calibration.

    Outcomes are y_i = 1[V_i < c_i], where V_i is the unit's uniform number with probability a, else the row's own.
    Then P(y_i = 1) = c_i exactly and cov(y_i, y_j) = a^2 (min(c_i, c_j) - c_i c_j), so a^2 is estimated by the sum of
    products of residuals of pairs within units over its expectation if all luck were shared.
    """

    estimate: float  # a^2, 0..1
    wrong: float  # W, expected number of units with a row of the rarer outcome
    seen: int  # observed number of such units
    share: float  # a^2 as used: estimate times ``fewer_than_expected``, or 1 where too few units are wrong
    units: int
    rows: float  # variance of the sum of outcomes, weights squared, of independent rows
    variance: float  # the same with shared luck

    @classmethod
    def of(
        cls,
        score: FloatArray,
        outcome: FloatArray,
        units: Units,
        weight: FloatArray | None = None,
        both: bool = False,
    ) -> "Luck":
        """Estimate from probabilities and outcomes (n,). both : treat both outcomes alike, as for P(class 1)."""
        residual, spread = outcome - score, score * (1.0 - score)
        if weight is not None:
            residual, spread = weight * residual, weight**2 * score * (1.0 - score)
        together = float((units.sums(residual) ** 2).sum() - residual @ residual)
        wrong = wrong_units(score, units, both)
        sides = (outcome < 0.5, outcome > 0.5) if both else (outcome < 0.5,)
        seen = min(
            int(np.count_nonzero(np.bincount(units.code[side], minlength=units.n)))
            for side in sides
        )
        few = any(
            n < least and n < units.n / 2
            for n, least in ((wrong, FEW_WRONG), (seen, FEWEST_UNITS))
        )
        pairs = (
            float(pair_covariance(score, units, weight).sum())
            if few or together > 0.0
            else 0.0
        )
        estimate = min(1.0, max(0.0, together / pairs)) if pairs > 0.0 else 0.0
        rarer = fewer_than_expected(
            score, outcome, np.ones(len(score)) if weight is None else weight
        )
        share, alone = 1.0 if few else min(1.0, estimate * rarer), float(spread.sum())
        return cls(estimate, wrong, seen, share, units.n, alone, alone + share * pairs)

    @property
    def effect(self) -> float:
        """Design effect: variance of the sum over that of independent rows."""
        return self.variance / self.rows if self.rows > 0.0 else 1.0


def effects_of_bins(
    score: FloatArray,
    outcome: FloatArray,
    index: IntArray,
    bins: int,
    units: Units | None,
    weight: FloatArray | None,
) -> FloatArray:
    """Design effect of the number of outcomes 1 in every bin, (bins,), at least 1."""
    effect = np.ones(bins)
    if units is None:
        return effect
    for b in np.unique(index).tolist():
        here = index == b
        if (own := units.take(here)) is not None:
            effect[b] = Luck.of(
                score[here],
                outcome[here],
                own,
                None if weight is None else weight[here],
            ).effect
    return effect


def pair_covariance(
    score: FloatArray, units: Units, weight: FloatArray | None = None
) -> FloatArray:
    """Sum over the ordered pairs of rows of each unit of w_i w_j (min(c_i, c_j) - c_i c_j), (g,)."""
    if weight is None:
        # sort scores within units, by one sort of numbers whose integer part is the unit
        c = np.sort(units.code + score) - np.repeat(np.arange(units.n), units.count)
        v, mass = np.ones(len(c)), score
    else:
        order = np.lexsort((score, units.code))
        c, v, mass = score[order], weight[order], weight * score
    # total weight of the later rows in the unit: they have the larger score of the pair
    upto = np.cumsum(v)
    later = np.repeat(upto[units.starts + units.count - 1], units.count) - upto
    smaller = np.add.reduceat(c * v * later, units.starts)
    return np.asarray(2.0 * smaller - (units.sums(mass) ** 2 - units.sums(mass**2)))


def fewer_than_expected(
    score: FloatArray, outcome: FloatArray, weight: FloatArray
) -> float:
    """Variance of an outcome at the mean score over that at the observed rate, at least 1.

    Shared luck shows in units with many wrong rows. A sample that lacks them by chance has both few wrong rows and
    little visible luck: with wrong rows in clusters, S^2 grows with their number. Without this correction, too few
    wrong rows were read as underconfidence in up to .27 of samples.
    """
    total, expected, found = (
        float(weight @ values) for values in (np.ones(len(score)), score, outcome)
    )
    return max(
        1.0,
        expected
        * (total - expected)
        / max(found * (total - found), 1e-9 * total**2, 1e-300),
    )


def opposed_luck(
    score: FloatArray,
    outcome: FloatArray,
    units: Units,
    weight: FloatArray | None = None,
) -> list[float]:
    """Two kinds of luck of P(class 1) that rows of a unit share: of being class 1, and of being as predicted.

    The second moves rows above and below one half apart, so that it hardly affects their sum, but does affect a
    slope or a smooth error. With r the residuals, pairs on the same side have sum r r' = (a^2 + b^2) sum cov, those on
    opposite sides a^2 sum cov - b^2 sum cov', where cov is as of ``Luck`` and cov' that of being as predicted.
    Returns a^2 and b^2, which are such that a + b <= 1.
    """
    side = score >= 0.5
    turned = np.where(side, score, 1.0 - score)
    own = Units.of(2 * units.code + side)
    w = np.ones(len(score)) if weight is None else weight
    residual = w * (outcome - score)
    same = float((own.sums(residual) ** 2).sum() - residual @ residual)
    apart = float((units.sums(residual) ** 2).sum()) - float(
        (own.sums(residual) ** 2).sum()
    )
    alike = float(pair_covariance(score, own, weight).sum())
    across = float(pair_covariance(score, units, weight).sum()) - alike
    against = float(pair_covariance(turned, units, weight).sum()) - alike
    if not alike > 0.0 or not across + against > 0.0:
        return [min(1.0, max(0.0, same / alike)) if alike > 0.0 else 0.0, 0.0]
    both = same / alike
    first = (apart + both * against) / (across + against)
    right = np.where(side, outcome, 1.0 - outcome)
    of_class = max(0.0, min(first, both)) * fewer_than_expected(score, outcome, w)
    found = [
        of_class,
        max(0.0, both - max(first, 0.0)) * fewer_than_expected(turned, right, w),
    ]
    most = sum(map(math.sqrt, found))
    return [each / max(1.0, most) ** 2 for each in found]


@dataclass(frozen=True)
class SharedOutcomes:
    """Simulated outcomes, drawn from the scores with shared luck."""

    order: IntArray  # (n,) row numbers by ascending score, the order of the outcomes in a draw
    bits: NDArray[np.uint8]  # (draws, n / 8), eight outcomes per byte

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
        """Draw outcomes from probabilities (n,). share : a^2 of ``Luck``; a row takes its unit's number with chance a.

        opposed : b^2 of ``opposed_luck``; with chance b it takes a second number of its unit, mirrored (1 - V) for
        probabilities below one half.
        """
        order = np.argsort(score, kind="stable")
        n, code = len(order), by_first_row(units.code[order])
        c, chance = score[order].astype(np.float32), np.float32(math.sqrt(share))
        apart = chance + np.float32(math.sqrt(opposed))
        own, below = apart + (np.float32(1.0) - apart) * c, c < 0.5
        bits = np.empty((draws, -(-n // 8)), dtype=np.uint8)
        step = min(draws, max(1, DRAW_ITEMS // n))
        width = max(8, DRAW_ITEMS // step // 8 * 8)
        numbers = np.empty((step, n), dtype=np.float32)
        for at in range(0, draws, step):
            m = min(step, draws - at)
            # one number per row decides whether its luck is its own, and is then that luck
            rng.random((m, n), dtype=np.float32, out=numbers[:m])
            lucks = [
                rng.random((m, units.n), dtype=np.float32)
                for _ in range(1 + (opposed > 0.0))
            ]
            for first in range(0, n, width):
                here = slice(first, first + width)
                number, said = numbers[:m, here], c[here]
                shared = [np.take(luck, code[here], axis=1) for luck in lucks]
                found = (number < own[here]) & ((number >= chance) | (shared[0] < said))
                if opposed > 0.0:
                    turned = np.where(
                        below[here],
                        shared[1] >= np.float32(1.0) - said,
                        shared[1] < said,
                    )
                    found = np.where(
                        (number >= chance) & (number < apart), turned, found
                    )
                bits[at : at + m, first // 8 : (first + width) // 8] = np.packbits(
                    found, axis=1
                )
        return cls(order, bits)

    def __len__(self) -> int:
        return len(self.bits)

    def some(
        self, draws: int | None = None
    ) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
        """Iterate over outcomes of the first draws in chunks: (slice of draws, (m, n) 0 or 1 by ascending score)."""
        n, most = (
            len(self.order),
            len(self.bits) if draws is None else min(draws, len(self.bits)),
        )
        step = max(1, DRAW_ITEMS // n)
        for at in range(0, most, step):
            here = slice(at, min(at + step, most))
            yield here, np.unpackbits(self.bits[here], axis=1, count=n)

    def sums(self, columns: FloatArray, draws: int | None = None) -> FloatArray:
        """Sums of columns (n, k), rows in their original order, over the rows with outcome 1, (draws, k)."""
        beside, n = columns[self.order], len(columns)
        held = np.empty(
            (max(1, DRAW_ITEMS // n), n)
        )  # one buffer for all: allocating large arrays is slow
        each = (
            np.multiply(drawn, 1.0, out=held[: len(drawn)])
            for _, drawn in self.some(draws)
        )
        return np.concatenate([drawn @ beside for drawn in each])

    def by_bin(
        self, index: IntArray, bins: int, weight: FloatArray | None = None
    ) -> FloatArray:
        """Sums of outcomes, weighted, per bin of the scores, (draws, bins). index : (n,) bins of the rows."""
        ordered = index[self.order]
        first = np.flatnonzero(np.concatenate([[True], np.diff(ordered) > 0]))
        out = np.zeros((len(self.bits), bins))
        if weight is None:
            out[:, ordered[first]] = np.diff(
                self.right_before(np.append(first, len(ordered)))
            )
            return out
        w = weight[self.order]
        for here, drawn in self.some():
            out[here, ordered[first]] = np.add.reduceat(drawn * w, first, axis=1)
        return out

    def right_before(self, places: IntArray) -> IntArray:
        """Number of outcomes 1 among the first ``places`` (m,) rows by score, (draws, m)."""
        whole, rest = np.divmod(places, 8)
        mask, last = (
            (0xFF00 >> rest).astype(np.uint8),
            np.minimum(whole, self.bits.shape[1] - 1),
        )
        found, step = (
            np.empty((len(self.bits), len(places)), dtype=np.int64),
            max(1, DRAW_ITEMS // len(self.order)),
        )
        for at in range(0, len(self.bits), step):
            some = self.bits[at : at + step]
            ones = np.cumsum(ONES[some], axis=1, dtype=np.int64)
            found[at : at + step] = (
                np.where(whole > 0, ones[:, whole - 1], 0) + ONES[some[:, last] & mask]
            )
        return found


def unit_mean(
    values: FloatArray, units: Units, weight: FloatArray | None = None
) -> tuple[float, float]:
    """Mean of values (n,) and its standard error clustered by unit.

    SE^2 = G/(G-1) sum_g (sum_{i in g} w_i (x_i - mean))^2 / (sum w)^2; NaN for one unit.
    """
    w = np.ones(len(values)) if weight is None else weight
    total = float(w.sum())
    mean = float(w @ values) / total
    square = float((units.sums(w * (values - mean)) ** 2).sum()) / total**2
    return mean, math.sqrt(
        square * units.n / (units.n - 1)
    ) if units.n > 1 else math.nan


def label_effect(labels: IntArray, k: int, units: Units) -> float:
    """Design effect of the frequencies of k classes where rows belong together, at least 1.

    Mean over the classes of the variance of a class's count by units over that of
    independent rows, sum_g (n_gc - n_g p_c)^2 / (n p_c (1 - p_c)). Counts divided by it can
    be compared as if rows were independent.

    Reference: Rao, Scott (1981), Journal of the American Statistical Association 76, 221-230.
    """
    n, effects = len(labels), list[float]()
    for label, count in enumerate(np.bincount(labels, minlength=k).tolist()):
        share = count / n
        if 0 < count < n:
            by_unit = units.sums((labels == label) - share)
            effects.append(float(by_unit @ by_unit) / (n * share * (1.0 - share)))
    return max(1.0, sum(effects) / len(effects)) if effects else 1.0


def uneven_error(
    influence: FloatArray, units: Units, weight: FloatArray | None = None
) -> tuple[float, float]:
    """Jackknife standard error of a sum of influences (n,), and its degrees of freedom.

    A unit that holds a share h of the rows draws the mean towards itself: its sum S is
    taken as S / (1 - h), as without it. SE^2 = (G-1)/G sum_g (S_g / (1 - h_g))^2, with one
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
    """Design effect: variance of the mean of values (n,) by units over that by rows, at least 1."""
    w = np.ones(len(values)) if weight is None else weight
    r = w * (values - np.average(values, weights=w))
    rows = float(r @ r)
    return max(1.0, float((units.sums(r) ** 2).sum()) / rows) if rows > 0.0 else 1.0


@dataclass(frozen=True)
class AcceptedUnits:
    """Counts of the rows accepted at a threshold, by unit. m : rows accepted, right : of these right."""

    m: int
    right: int
    units: int  # number with an accepted row
    square: int  # sum over units of m_g^2, and of m_g right_g and right_g^2
    cross: int
    right_square: int

    @classmethod
    def among(
        cls, code: IntArray, correct: FloatArray
    ) -> Callable[[int], "AcceptedUnits"]:
        """Build the function from m to the counts of the first m rows. code : (n,) units. correct : (n,) 0 or 1."""
        right = correct.astype(np.int64)
        order = np.argsort(code, kind="stable")
        start = np.flatnonzero(np.diff(code[order], prepend=-1))
        size = np.diff(start, append=len(code))
        met, hits = np.empty_like(order), np.cumsum(right[order]) - right[order]
        met[order] = np.arange(len(code)) - np.repeat(
            start, size
        )  # earlier rows of the unit
        had = np.empty_like(order)
        had[order] = hits - np.repeat(
            hits[start], size
        )  # and how many of them are right
        steps = (
            right,
            met == 0,
            2 * met + 1,
            (met + 1) * right + had,
            right * (2 * had + 1),
        )
        sums = [np.cumsum(step) for step in steps]
        return lambda m: cls(m, *(int(s[m - 1]) for s in sums))

    def design_effect(self, accuracy: float) -> float:
        """Design effect: variance of the number right by units over the binomial's about ``accuracy``; at least 1.

        Centred there and not at the observed rate, a set without a wrong row counts each unit as one draw.
        """
        by_unit = (
            self.right_square - 2.0 * accuracy * self.cross + accuracy**2 * self.square
        )
        by_row = (
            self.right * (1.0 - accuracy) ** 2 + (self.m - self.right) * accuracy**2
        )
        return max(1.0, by_unit / by_row)

    def effective(self, accuracy: float, alpha: float) -> float:
        """Effective number of accepted rows for a test at level ``alpha``; 0 for fewer than two units."""
        from scipy.special import ndtri, stdtrit

        if self.units < 2:
            return 0.0
        a = 1 - min(
            alpha, 0.25
        )  # both quantiles are 0 at one half, and their ratio grows towards it
        return (
            self.m
            / self.design_effect(accuracy)
            * float(ndtri(a) / stdtrit(self.units - 1, a)) ** 2
        )

    def tail(self, accuracy: float, alpha: float) -> float:
        """P-value of the number right at this accuracy: upper binomial tail at the effective number of rows.

        Reference: Korn, Graubard (1998), Survey Methodology 24, 193-201.
        """
        from scipy.special import betainc

        n = self.effective(accuracy, alpha)
        right = n * self.right / self.m
        return float(betainc(right, n - right + 1.0, accuracy)) if right > 0.0 else 1.0

    def lower(self, alpha: float) -> float:
        """Lower confidence bound of the accuracy: the least that the test at ``alpha`` does not reject, to 1e-9."""
        low, high = 0.0, self.right / self.m
        while high - low > 1e-9:
            middle = 0.5 * (low + high)
            low, high = (
                (middle, high) if self.tail(middle, alpha) <= alpha else (low, middle)
            )
        return low
