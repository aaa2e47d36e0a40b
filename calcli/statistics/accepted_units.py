"""Units among the most confident rows, by how many rows are accepted."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calcli.numerics import FloatArray, IntArray
from calcli.solvers import halved


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

        It is its variance by units over the binomial's, both about ``accuracy``.
        Centred there and not at the observed rate, a set without a wrong row counts
        each unit as one draw.
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

        def holds(accuracy: float) -> bool:
            return self.tail(accuracy, alpha) <= alpha

        return halved(holds, 0.0, self.right / self.m, width=1e-9)[0]
