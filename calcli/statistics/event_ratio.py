"""Observed over expected number of events, and its score interval."""

import math
from dataclasses import dataclass

from calcli.records import Sums
from calcli.statistics.ties import TieBlocks


@dataclass(frozen=True)
class EventSums(Sums):
    """Sums over rows: of outcomes y, of probabilities p, of p^2 and of y p. Adds."""

    observed: float
    expected: float
    squares: float
    products: float

    @classmethod
    def of_block(cls, block: TieBlocks) -> "EventSums":
        """Sum rows, those with the event as right at each p."""
        rows = block.right + block.wrong
        return cls(
            observed=float(block.right.sum()),
            expected=float(rows @ block.score),
            squares=float(rows @ block.score**2),
            products=float(block.right @ block.score),
        )

    @property
    def ratio(self) -> float:
        """Observed over expected."""
        return self.observed / self.expected

    @property
    def variance(self) -> float:
        """Variance of the observed number under calibration, sum p (1 - p)."""
        return self.expected - self.squares

    def score_interval(self, z: float) -> tuple[float, float] | None:
        """All R with (observed - R expected)^2 <= z^2 V(R); None without an upper end.

        V(R) is the variance of the sum of y - R p over independent rows, in which y has
        the mean R p: R expected - R^2 overlap. As R grows so does the covariance of y
        and p, which is 0 without an event. Of equal p this is Wilson's interval (1927)
        of the frequency, over p.
        """
        overlap = self.squares
        if self.observed > 0.0:
            overlap = 2.0 * self.products / self.ratio - self.squares
        leading = self.expected**2 + z**2 * overlap
        middle = self.observed * self.expected + z**2 * self.expected / 2.0
        square = middle**2 - leading * self.observed**2
        if not (leading > 0.0 and square >= 0.0):
            return None
        low = (middle - math.sqrt(square)) / leading
        high = (middle + math.sqrt(square)) / leading
        # where an end is the ratio itself, rounding may part them
        return min(low, self.ratio), max(high, self.ratio)
