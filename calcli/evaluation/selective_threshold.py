"""Answer only where the confidence suffices: thresholds with a guarantee.

Rows whose confidence is at least the threshold are accepted. Coverage is their share,
accuracy that of the accepted.
"""

import math
from collections.abc import Callable

import numpy as np

from calcli.errors import UsageError
from calcli.fast_dataclass import dataclass
from calcli.metrics.coverage import AcceptanceCurve, Accepted
from calcli.numerics import FloatArray
from calcli.statistics.units import AcceptedUnits, Units

TESTS = 50
FEWEST_TESTS = 5
"""Thresholds that are looked at, one per 20 rows within these: the more, the finer, and the less level for each."""


@dataclass(frozen=True)
class Choice:
    """The lowest threshold whose accuracy bound holds. best : None where there is none.

    lower : bound of its accuracy, at the level at which it was tested. least : rows that
    must be accepted, all of them right, before any threshold can hold; units, where rows belong together.
    tests : how many were made. design_effect : at the chosen threshold, None for independent rows.
    """

    best: Accepted | None
    lower: float | None
    least: int
    tests: int
    design_effect: float | None = None


def choose_threshold(
    confidence: FloatArray, correct: FloatArray, accuracy: float, level: float = 0.95, units: Units | None = None
) -> Choice:
    """The lowest confidence above which accuracy is at least ``accuracy``, with probability ``level``.

    confidence, correct : (n,), rows drawn independently, not those of the calibrator's fit.
    Up to 50 thresholds, which accept fixed numbers of rows (ties together), are tested
    from the highest downwards: is the chance of so many right answers at an accuracy of just
    ``accuracy``, binomial, at most alpha_j? Each has an equal part of 1 - level, and what the one
    before it had if that was passed (the fallback procedure): the chance that any threshold
    below the target passes is then at most 1 - level, wherever the search ends. Fixed numbers
    of rows make the binomial exact when the accuracy of the accepted crosses the target once
    as the threshold falls, as it does where more confident rows are more often right.

    units : rows that belong together; it is then units that are drawn independently, a threshold is looked at per 5
    of them, and the binomial has the effective number of rows, its design effect centred at ``accuracy``. That is
    approximate: in simulations the promise is broken in at most .045 of the sets.

    Raises UsageError for an accuracy or a level that is no share.

    Reference: Clopper, Pearson (1934); Bauer (1991) and Wiens (2003) for the order of tests;
    Angelopoulos, Bates, Candes, Jordan, Lei (2021), "Learn then test"; Korn, Graubard (1998) for units.
    """
    for name, share in (("accuracy", accuracy), ("confidence level", level)):
        if not 0 < share < 1:
            raise UsageError(f"{name} is {share:g}, expected a number between 0 and 1, both excluded")
    delta = 1.0 - level
    curve = AcceptanceCurve.of(confidence, correct)
    if units is not None and not units.single:
        return _chosen_by_unit(curve, confidence, correct, accuracy, delta, units)
    least = math.ceil(math.log(delta) / math.log(accuracy))
    n = int(curve.accepted[-1])
    tests = min(max(n // 20, FEWEST_TESTS), TESTS)
    first = min(n, math.ceil(math.log(delta / tests) / math.log(accuracy)))
    best, lower, made = _fallback(
        tested_places(curve, first, tests),
        delta,
        lambda j, alpha: tail(curve.at(j), accuracy),
        lambda j, alpha: clopper_pearson_lower(curve.at(j), alpha),
    )
    return Choice(None if best is None else curve.at(best), lower, least, made)


def _chosen_by_unit(
    curve: AcceptanceCurve,
    confidence: FloatArray,
    correct: FloatArray,
    accuracy: float,
    delta: float,
    units: Units,
) -> Choice:
    """The same where units are drawn, and not rows."""
    order = np.argsort(-confidence, kind="stable")
    code, right = units.code[order], correct[order]
    tests = min(max(units.n // 5, FEWEST_TESTS), TESTS)
    least = math.ceil(math.log(delta / tests) / math.log(accuracy))
    news = np.sort(np.unique(code, return_index=True)[1])  # where the units are met first
    first = int(news[least - 1]) + 1 if least <= len(news) else len(code)

    def accepted(j: int) -> AcceptedUnits:
        m = int(curve.accepted[j])
        return AcceptedUnits.of(code[:m], right[:m])

    best, lower, made = _fallback(
        tested_places(curve, first, tests),
        delta,
        lambda j, alpha: accepted(j).tail(accuracy, alpha),
        lambda j, alpha: accepted(j).lower(alpha),
    )
    if best is None:
        return Choice(None, lower, least, made)
    return Choice(curve.at(best), lower, least, made, accepted(best).design_effect(accuracy))


def _fallback(
    places: list[int],
    delta: float,
    p_value: Callable[[int, float], float],
    bound: Callable[[int, float], float],
) -> tuple[int | None, float | None, int]:
    """The last threshold that passes, its bound, and how many were tested: each passes its level on if it is passed."""
    best, lower, inherited = None, None, 0.0
    for j in places:
        alpha = inherited + delta / len(places)
        passed = p_value(j, alpha) <= alpha
        inherited = alpha if passed else 0.0
        if passed:
            best, lower = j, bound(j, alpha)
    return best, lower, len(places)


def tested_places(curve: AcceptanceCurve, first: int, tests: int) -> list[int]:
    """Which of the distinct thresholds are tested, the highest first: numbers of rows from ``first`` on, fixed by n."""
    counts = np.unique(np.rint(np.linspace(first, int(curve.accepted[-1]), tests)).astype(np.int64))
    return [int(j) for j in np.unique(np.searchsorted(curve.accepted, counts, side="left"))]


def tail(here: Accepted, accuracy: float) -> float:
    """Chance of at least so many right answers when each has the chance ``accuracy``."""
    from scipy.special import bdtrc

    return float(bdtrc(here.right - 1, here.accepted, accuracy)) if here.right else 1.0


def clopper_pearson_lower(here: Accepted, alpha: float) -> float:
    """The least accuracy that a one-sided exact test at alpha does not refuse."""
    from scipy.special import betaincinv

    return float(betaincinv(here.right, here.accepted - here.right + 1, alpha)) if here.right else 0.0
