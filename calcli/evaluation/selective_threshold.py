"""Answer only where the confidence suffices: thresholds with a guarantee.

Rows whose confidence is at least the threshold are accepted. Coverage is their share,
accuracy that of the accepted.
"""

import math

import numpy as np

from calcli.errors import UsageError
from calcli.fast_dataclass import dataclass
from calcli.metrics.coverage import AcceptanceCurve, Accepted
from calcli.numerics import FloatArray

TESTS = 50
FEWEST_TESTS = 5
"""Thresholds that are looked at, one per 20 rows within these: the more, the finer, and the less level for each."""


@dataclass(frozen=True)
class Choice:
    """The lowest threshold whose accuracy bound holds. best : None where there is none.

    lower : bound of its accuracy, at the level at which it was tested. least : rows that
    must be accepted, all of them right, before any threshold can hold. tests : how many were made.
    """

    best: Accepted | None
    lower: float | None
    least: int
    tests: int


def choose_threshold(confidence: FloatArray, correct: FloatArray, accuracy: float, level: float = 0.95) -> Choice:
    """The lowest confidence above which accuracy is at least ``accuracy``, with probability ``level``.

    confidence, correct : (n,), rows drawn independently, not those of the calibrator's fit.
    Up to 50 thresholds, which accept fixed numbers of rows (ties together), are tested
    from the highest downwards: is the chance of so many right answers at an accuracy of just
    ``accuracy``, binomial, at most alpha_j? Each has an equal part of 1 - level, and what the one
    before it had if that was passed (the fallback procedure): the chance that any threshold
    below the target passes is then at most 1 - level, wherever the search ends. Fixed numbers
    of rows make the binomial exact when the accuracy of the accepted crosses the target once
    as the threshold falls, as it does where more confident rows are more often right.

    Raises UsageError for an accuracy or a level that is no share.

    Reference: Clopper, Pearson (1934); Bauer (1991) and Wiens (2003) for the order of tests;
    Angelopoulos, Bates, Candes, Jordan, Lei (2021), "Learn then test".
    """
    for name, share in (("accuracy", accuracy), ("confidence level", level)):
        if not 0 < share < 1:
            raise UsageError(f"{name} is {share:g}, expected a number between 0 and 1, both excluded")
    delta = 1.0 - level
    least = math.ceil(math.log(delta) / math.log(accuracy))
    curve = AcceptanceCurve.of(confidence, correct)
    places = tested_places(curve, accuracy, delta)
    best, lower, inherited = None, None, 0.0
    for j in places:
        here = curve.at(j)
        alpha = inherited + delta / len(places)
        passed = tail(here, accuracy) <= alpha
        inherited = alpha if passed else 0.0
        if passed:
            best, lower = here, clopper_pearson_lower(here, alpha)
    return Choice(best, lower, least, len(places))


def tested_places(curve: AcceptanceCurve, accuracy: float, delta: float) -> list[int]:
    """Which of the distinct thresholds are tested, the highest first: numbers of rows fixed by n alone."""
    n = int(curve.accepted[-1])
    tests = min(max(n // 20, FEWEST_TESTS), TESTS)
    first = min(n, math.ceil(math.log(delta / tests) / math.log(accuracy)))
    counts = np.unique(np.rint(np.linspace(first, n, tests)).astype(np.int64))
    return [int(j) for j in np.unique(np.searchsorted(curve.accepted, counts, side="left"))]


def tail(here: Accepted, accuracy: float) -> float:
    """Chance of at least so many right answers when each has the chance ``accuracy``."""
    from scipy.special import bdtrc

    return float(bdtrc(here.right - 1, here.accepted, accuracy)) if here.right else 1.0


def clopper_pearson_lower(here: Accepted, alpha: float) -> float:
    """The least accuracy that a one-sided exact test at alpha does not refuse."""
    from scipy.special import betaincinv

    return float(betaincinv(here.right, here.accepted - here.right + 1, alpha)) if here.right else 0.0
