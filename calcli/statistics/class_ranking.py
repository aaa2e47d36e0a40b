"""How scores rank two classes, which tells labels of other rows from wrong
probabilities.

The accuracy at 1/2 is near chance where samples were drawn by class, or where a task is
hard. The area under the ROC curve does not depend on the shares of the classes.
"""

import math
from dataclasses import dataclass

import numpy as np

from calcli.numerics import FloatArray, IntArray
from calcli.statistics.areas import area_under_roc, delong, delong_of_units
from calcli.statistics.ties import Ranked
from calcli.statistics.units import Units

FEWEST_OF_A_CLASS = 5
"""Samples of either class below which their ranks tell nothing."""

SURELY_REVERSED = 3.0
"""Standard errors below 1/2 from which an area shows exchanged classes."""

HARDLY_ABOVE = 2.0
"""Standard errors above 1/2 up to which an area is hardly better than chance."""


@dataclass(frozen=True)
class ClassRanking:
    """Area under the ROC curve of P(class 1) with its standard error."""

    area: float
    se: float

    @classmethod
    def of(
        cls, odds: FloatArray, label: IntArray, units: Units | None
    ) -> "ClassRanking | None":
        """Rank rows with log-odds and labels (n,); None with few rows of a class."""
        outcome = (label == 1).astype(np.float64)
        n_positive = float(outcome.sum())
        if min(n_positive, len(label) - n_positive) < FEWEST_OF_A_CLASS:
            return None
        ranked = Ranked.of(odds, outcome, least=1.0)
        area = area_under_roc(ranked)
        if area is None:
            return None
        if units is None:
            return cls(area, delong(ranked, area).se)
        return cls(area, delong_of_units(odds, outcome, area, units).se)

    @property
    def is_reversed(self) -> bool:
        """True if class 1 has significantly lower scores than class 0."""
        return math.isfinite(self.se) and self.area + SURELY_REVERSED * self.se < 0.5

    @property
    def is_chance(self) -> bool:
        """True if the scores do not rank the classes significantly."""
        return math.isfinite(self.se) and self.area - HARDLY_ABOVE * self.se <= 0.5
