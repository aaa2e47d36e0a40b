"""Search of a confidence threshold with an accuracy guarantee.

Rows whose confidence is at least the threshold are accepted. Coverage is their
proportion, accuracy is theirs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from calcli.errors import UsageError
from calcli.number_words import noun, samples
from calcli.numerics import FloatArray, IntArray
from calcli.statistics.acceptance import AcceptanceCurve, Accepted
from calcli.statistics.accepted_units import AcceptedUnits
from calcli.statistics.intervals import exact_interval
from calcli.statistics.units import Units

MOST_TESTS = 50
FEWEST_TESTS = 5
"""Most and fewest thresholds tested, one per 20 rows between.

More are finer, with a smaller level for each.
"""

FEWEST_ACCEPTED = 30
"""Accepted samples from which the accuracy at a coverage is estimated."""


@dataclass(frozen=True)
class Choice:
    """Result of a search: the lowest threshold with the guarantee.

    best : what it accepts; None if there is none. lower : lower bound of its accuracy,
    at the level of its test. least : fewest accepted rows (or units), all of them
    right, with which any threshold can pass. tests : number of thresholds tested.
    design_effect : at the chosen threshold, None for independent rows.
    """

    best: Accepted | None
    lower: float | None
    least: int
    tests: int
    design_effect: float | None = None

    @property
    def threshold(self) -> float | None:
        return None if self.best is None else self.best.threshold

    @property
    def coverage(self) -> float | None:
        return None if self.best is None else self.best.coverage

    @property
    def accuracy(self) -> float | None:
        """Accuracy of what the threshold accepts."""
        return None if self.best is None else self.best.accuracy


@dataclass(frozen=True)
class OfUnits:
    """Units of rows that are sorted by descending confidence.

    first_rows : (units,) index of the first row of every unit, ascending. among : from m
    to the units of the first m rows.
    """

    first_rows: IntArray
    among: Callable[[int], AcceptedUnits]

    @property
    def n(self) -> int:
        return len(self.first_rows)


@dataclass(frozen=True)
class SearchPlan:
    """Thresholds that a search tests.

    least : see ``Choice``. first : rows that the highest threshold accepts. tests : their
    number; 0 where units are too few.
    """

    least: int
    first: int
    tests: int


@dataclass(frozen=True)
class ThresholdSearch:
    """Labelled rows sorted by descending confidence, for searches at any accuracy.

    by_unit : None for independent rows.
    """

    curve: AcceptanceCurve
    by_unit: OfUnits | None

    @classmethod
    def of(
        cls, confidence: FloatArray, correct: FloatArray, units: Units | None = None
    ) -> "ThresholdSearch":
        """Build a search from confidence and correct, (n,), of held-out rows.

        units : None for independent rows.
        """
        curve = AcceptanceCurve.of(confidence, correct)
        if units is None or units.single:
            return cls(curve, None)
        order = np.argsort(-confidence, kind="stable")
        code = units.code[order]
        first_rows = np.sort(np.unique(code, return_index=True)[1])
        accepted_units = AcceptedUnits.among(code, correct[order])
        return cls(curve, OfUnits(first_rows, accepted_units))

    def choose(self, accuracy: float, level: float = 0.95) -> Choice:
        """Find the lowest confidence above which accuracy is at least ``accuracy``,
        with probability ``level``.

        Up to 50 thresholds, which accept fixed numbers of rows (ties together), are
        tested from the highest downwards: is the binomial probability of so many right
        answers at an accuracy of ``accuracy`` at most alpha_j? Each has an equal part
        of 1 - level, plus the level of the one before it if that passed (the fallback
        procedure): the probability that any threshold below the target passes is then
        at most 1 - level, wherever the search ends. Fixed numbers of rows make the
        binomial exact when the accuracy of the accepted crosses the target once as the
        threshold falls, as it does where more confident rows are more often right.

        With units, these are drawn independently, a threshold is tested per 5 of them,
        and the binomial has the effective number of rows, its design effect centred at
        ``accuracy``. This is approximate: in simulations the guarantee fails in at most
        .03 of the sets (``benchmarks/levels.json``).

        Raises UsageError for an accuracy or a level that is no proportion.

        Reference: Clopper, Pearson (1934); Bauer (1991) and Wiens (2003) for the order
        of tests; Angelopoulos, Bates, Candes, Jordan, Lei (2021), "Learn then test";
        Korn, Graubard (1998) for units.
        """
        _check_proportion("accuracy", accuracy)
        _check_proportion("confidence level", level)
        delta = 1.0 - level
        plan = self._plan(accuracy, delta)
        if plan.tests == 0:
            return Choice(None, None, plan.least, 0)
        places = self._places_to_test(plan)
        chosen = None
        lower = None
        inherited = 0.0  # level of the test before, if that passed
        for place in places:
            accepted = self._accepted(place)
            alpha = inherited + delta / len(places)
            inherited = 0.0
            if accepted.tail(accuracy, alpha) <= alpha:
                inherited = alpha
                chosen = place
                lower = accepted.lower(alpha)
        if chosen is None:
            return Choice(None, None, plan.least, len(places))
        last = self._accepted(chosen)
        effect = None
        if isinstance(last, AcceptedUnits):
            effect = last.design_effect(accuracy)
        return Choice(
            best=self.curve.at(chosen),
            lower=lower,
            least=plan.least,
            tests=len(places),
            design_effect=effect,
        )

    def _places_to_test(self, plan: SearchPlan) -> list[int]:
        """Indices of the thresholds to test among the distinct ones, highest first.

        They accept evenly spaced numbers of rows, which n alone determines.
        """
        n = int(self.curve.accepted[-1])
        even = np.linspace(plan.first, n, plan.tests)
        counts = np.unique(np.rint(even).astype(np.int64))
        places = np.searchsorted(self.curve.accepted, counts, side="left")
        return np.unique(places).tolist()

    def _plan(self, accuracy: float, delta: float) -> SearchPlan:
        """Plan tests with a probability of at most delta that any of them errs."""

        def least_of(alpha: float) -> int:
            """Fewest accepted, all right, that pass a test at ``alpha``."""
            return math.ceil(math.log(alpha) / math.log(accuracy))

        if self.by_unit is None:
            n = int(self.curve.accepted[-1])
            tests = min(max(n // 20, FEWEST_TESTS), MOST_TESTS)
            return SearchPlan(least_of(delta), min(n, least_of(delta / tests)), tests)
        tests = min(max(self.by_unit.n // 5, FEWEST_TESTS), MOST_TESTS)
        least = least_of(delta / tests)
        if least > self.by_unit.n:
            # One test of all rows at the whole level would fail in .07 of sets.
            return SearchPlan(least, 0, 0)
        first = int(self.by_unit.first_rows[least - 1]) + 1
        return SearchPlan(least, first, tests)

    def _accepted(self, place: int) -> Accepted | AcceptedUnits:
        """What a threshold accepts: rows, or units where there are any."""
        if self.by_unit is None:
            return self.curve.at(place)
        return self.by_unit.among(int(self.curve.accepted[place]))

    def highest(self, level: float) -> tuple[float, Accepted | None]:
        """Highest accuracy, to 1e-4, for which bisection finds a threshold, and the
        accepted rows there.
        """
        low = 0
        high = 10_000
        best = None
        while high - low > 1:
            middle = (low + high) // 2
            accepted = self.choose(middle / 1e4, level).best
            if accepted is None:
                high = middle
            else:
                low = middle
                best = accepted
        return low / 1e4, best

    def offered(self, level: float) -> list[tuple[float, Accepted]]:
        """At most four accuracies that can be guaranteed, highest first, at coverages
        as evenly spaced as possible.
        """
        high, best = self.highest(level)
        if best is None:
            return []
        low = min(self.curve.at(-1).lower(1.0 - level), high)
        accuracies = [high]
        for step in range(1, 21):
            accuracy = high - step * (high - low) / 20
            accuracies.append(math.floor(accuracy * 1000) / 1000)
        # Of accuracies with the same rows the highest counts.
        by_rows: dict[float, tuple[float, Accepted]] = {}
        for accuracy in reversed(accuracies):
            if accuracy > 0:
                accepted = self.choose(accuracy, level).best
                if accepted is not None:
                    by_rows[accepted.accepted] = (accuracy, accepted)
        if not by_rows:
            return []
        offered = {}
        for count in np.linspace(min(by_rows), max(by_rows), 4).tolist():
            nearest = min(by_rows, key=partial(_distance, count))
            offered[nearest] = by_rows[nearest]
        return list(offered.values())

    def why_not(self, choice: Choice, where: str, accuracy: float, level: float) -> str:
        """Explain why there is no threshold on these rows, and what would help.

        where : their name.
        """
        sentence = (
            f"{where}: no threshold guarantees accuracy >= {accuracy:g} with"
            f" probability {level:g}"
        )
        n = int(self.curve.accepted[-1])
        if self.by_unit is not None and self.by_unit.n < choice.least:
            sentence += (
                f" on {self.by_unit.n} {noun(self.by_unit.n, 'unit')}; {choice.least}"
                " units must be accepted, all right, before any can"
            )
        elif n < choice.least:
            sentence += (
                f" on {samples(n)}; even without an error it takes {choice.least}"
            )
        highest, best = self.highest(level)
        if best is None:
            return f"{sentence}, nor any other accuracy: give more samples"
        offer = (
            f"guaranteed is at most {highest:g}, at coverage {best.coverage:.1%}: take"
            f" --accuracy {highest:g}"
        )
        enough = np.flatnonzero(self.curve.accepted >= FEWEST_ACCEPTED)
        if not len(enough):
            return f"{sentence}; {offer}, or give more samples"
        rate = self.curve.right[enough] / self.curve.accepted[enough]
        reached = enough[rate >= accuracy]
        if len(reached):
            last = self.curve.at(int(reached[-1]))
            return (
                f"{sentence}; {last.accuracy:.1%} of the samples from"
                f" {last.threshold:.4g} on are right (coverage {last.coverage:.1%});"
                f" {offer}, or give more samples"
            )
        top = self.curve.at(int(enough[rate.argmax()]))
        reason = (
            f"as at no coverage (from {FEWEST_ACCEPTED} samples) more than"
            f" {top.accuracy:.1%} are right"
        )
        upper = self._upper_accuracy(top, level)
        if upper < accuracy:
            return f"{sentence}; {offer}; more samples alone would not help, {reason}"
        return (
            f"{sentence}; {offer}; more samples may not help, {reason} (interval up to"
            f" {upper:.1%})"
        )

    def _upper_accuracy(self, accepted: Accepted, level: float) -> float:
        """Upper end of the interval of the accuracy of what a threshold accepts."""
        effect = 1.0
        if self.by_unit is not None:
            units = self.by_unit.among(int(accepted.accepted))
            effect = units.design_effect(accepted.accuracy)
        right = accepted.right / effect
        n = accepted.accepted / effect
        return exact_interval(right, n, level)[1]


def _check_proportion(name: str, value: float) -> None:
    """Raise UsageError for a number that is not between 0 and 1."""
    if not 0 < value < 1:
        raise UsageError(
            f"{name} is {value:g}, expected a number between 0 and 1, both excluded"
        )


def _distance(a: float, b: float) -> float:
    return abs(a - b)
