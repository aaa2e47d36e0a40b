"""Selective prediction: confidence thresholds with an accuracy guarantee.

Rows whose confidence is at least the threshold are accepted. Coverage is their proportion, accuracy is theirs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from calcli.errors import DataError, UsageError
from calcli.evaluation.json_structs import Output
from calcli.fitting.apply import calibrated_blocks
from calcli.io.artifact import Artifact
from calcli.io.dataset import DataSet
from calcli.io.provenance import link_to
from calcli.methods.compared.identity import Identity
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.statistics.acceptance import AcceptanceCurve, Accepted
from calcli.statistics.accepted_units import AcceptedUnits
from calcli.statistics.intervals import exact_interval
from calcli.statistics.units import Units

TESTS = 50
FEWEST_TESTS = 5
"""Most and fewest thresholds tested, one per 20 rows between: more are finer, with a smaller level for each."""

TELLING = 30  # fewest accepted samples to estimate the accuracy at a coverage


@dataclass(frozen=True)
class Choice:
    """Result of a search: the lowest threshold with the guarantee. best : None if there is none. lower : lower bound of
    its accuracy, at the level of its test. least : fewest accepted rows (or units), all of them right, with which any
    threshold can pass. tests : their number. design_effect : at the chosen threshold, None for independent rows."""

    best: Accepted | None
    lower: float | None
    least: int
    tests: int
    design_effect: float | None = None


@dataclass(frozen=True)
class ThresholdSearch:
    """Labelled rows sorted by descending confidence, for searches at any accuracy. by_unit : None for independent rows;
    else the index of the first row of every unit (units,), ascending, and a function from m to the units of the first
    m rows."""

    curve: AcceptanceCurve
    by_unit: tuple[IntArray, Callable[[int], AcceptedUnits]] | None

    @classmethod
    def of(
        cls, confidence: FloatArray, correct: FloatArray, units: Units | None = None
    ) -> "ThresholdSearch":
        """Build a search from confidence and correct, (n,), of held-out rows. units : None for independent rows."""
        curve = AcceptanceCurve.of(confidence, correct)
        if units is None or units.single:
            return cls(curve, None)
        order = np.argsort(-confidence, kind="stable")
        code = units.code[order]
        return cls(
            curve,
            (
                np.sort(np.unique(code, return_index=True)[1]),
                AcceptedUnits.among(code, correct[order]),
            ),
        )

    def choose(self, accuracy: float, level: float = 0.95) -> Choice:
        """Find the lowest confidence above which accuracy is at least ``accuracy``, with probability ``level``.

        Up to 50 thresholds, which accept fixed numbers of rows (ties together), are tested from the highest downwards:
        is the binomial probability of so many right answers at an accuracy of ``accuracy`` at most alpha_j? Each has an
        equal part of 1 - level, plus the level of the one before it if that passed (the fallback procedure): the
        probability that any threshold below the target passes is then at most 1 - level, wherever the search
        ends. Fixed numbers of rows make the binomial exact when the accuracy of the accepted crosses the target once as
        the threshold falls, as it does where more confident rows are more often right.

        With units, these are drawn independently, a threshold is tested per 5 of them, and the binomial has the
        effective number of rows, its design effect centred at ``accuracy``. This is approximate: in simulations the
        guarantee fails in at most .03 of the sets (``benchmarks/levels.json``).

        Raises UsageError for an accuracy or a level that is no proportion.

        Reference: Clopper, Pearson (1934); Bauer (1991) and Wiens (2003) for the order of tests;
        Angelopoulos, Bates, Candes, Jordan, Lei (2021), "Learn then test"; Korn, Graubard (1998) for units.
        """
        for name, share in (("accuracy", accuracy), ("confidence level", level)):
            if not 0 < share < 1:
                raise UsageError(
                    f"{name} is {share:g}, expected a number between 0 and 1, both excluded"
                )
        curve, delta = self.curve, 1.0 - level

        def least_of(alpha: float) -> int:
            """Fewest accepted, all right, that pass a test at ``alpha``."""
            return math.ceil(math.log(alpha) / math.log(accuracy))

        if self.by_unit is None:
            at: Callable[[int], Accepted | AcceptedUnits] = curve.at
            n = int(curve.accepted[-1])
            tests = min(max(n // 20, FEWEST_TESTS), TESTS)
            least, first = least_of(delta), min(n, least_of(delta / tests))
        else:
            news, among = self.by_unit
            at = lambda j: among(int(curve.accepted[j]))  # noqa: E731
            tests = min(max(len(news) // 5, FEWEST_TESTS), TESTS)
            least = least_of(delta / tests)
            if least > len(
                news
            ):  # one test of all rows at the whole level would fail in .07 of sets
                return Choice(None, None, least, 0)
            first = int(news[least - 1]) + 1
        # Numbers of rows from ``first`` on, fixed by n, as indices of the distinct thresholds.
        counts = np.unique(
            np.rint(np.linspace(first, int(curve.accepted[-1]), tests)).astype(np.int64)
        )
        places = np.unique(
            np.searchsorted(curve.accepted, counts, side="left")
        ).tolist()
        found, lower, inherited = None, None, 0.0
        for j in places:
            here, alpha = at(j), inherited + delta / len(places)
            inherited = alpha if here.tail(accuracy, alpha) <= alpha else 0.0
            if inherited:
                found, lower = j, here.lower(alpha)
        if found is None:
            return Choice(None, None, least, len(places))
        last = at(found)
        effect = (
            last.design_effect(accuracy) if isinstance(last, AcceptedUnits) else None
        )
        return Choice(curve.at(found), lower, least, len(places), effect)

    def highest(self, level: float) -> tuple[float, Accepted | None]:
        """Highest accuracy, to 1e-4, for which bisection finds a threshold, and the accepted rows there."""
        low, high, best = 0, 10_000, None
        while high - low > 1:
            middle = (low + high) // 2
            found = self.choose(middle / 1e4, level).best
            low, high, best = (
                (middle, high, found) if found is not None else (low, middle, best)
            )
        return low / 1e4, best

    def offered(self, level: float) -> list[tuple[float, Accepted]]:
        """At most four accuracies that can be guaranteed, highest first, at coverages as evenly spaced as possible."""
        high, best = self.highest(level)
        low = min(self.curve.at(-1).lower(1.0 - level), high)
        asked = [
            high,
            *(
                math.floor((high - share * (high - low) / 20) * 1000) / 1000
                for share in range(1, 21)
            ),
        ]
        found = [
            (each, self.choose(each, level).best)
            for each in asked
            if best is not None and each > 0
        ]
        first = {
            there.accepted: (each, there)
            for each, there in reversed(found)
            if there is not None
        }
        even = np.linspace(min(first), max(first), 4) if first else ()
        return [
            first[n]
            for n in dict.fromkeys(
                min(first, key=lambda n: abs(n - each)) for each in even
            )
        ]

    def why_not(self, found: Choice, where: str, accuracy: float, level: float) -> str:
        """Explain why there is no threshold on these rows, and what would help. where : their name."""
        none = f"{where}: no threshold guarantees accuracy >= {accuracy:g} with probability {level:g}"
        n, few = int(self.curve.accepted[-1]), ""
        if self.by_unit is not None and len(self.by_unit[0]) < found.least:
            few = f" on {len(self.by_unit[0])} units; {found.least} units must be accepted, all right, before any can"
        elif n < found.least:
            few = f" on {n} samples; even without an error it takes {found.least}"
        asked, best = self.highest(level)
        if best is None:
            return f"{none}{few}, nor any other accuracy: give more samples"
        most = f"guaranteed is at most {asked:g}, at coverage {best.coverage:.1%}"
        take, rate = (
            f"{most}: take --accuracy {asked:g}",
            self.curve.right / self.curve.accepted,
        )
        enough = np.flatnonzero(self.curve.accepted >= TELLING)
        if not len(enough):
            return f"{none}{few}; {take}, or give more samples"
        if len(reached := enough[rate[enough] >= accuracy]):
            there = self.curve.at(int(reached[-1]))
            seen = f"{there.accuracy:.1%} of the samples from {there.threshold:.4g} on are right"
            return f"{none}{few}; {seen} (coverage {there.coverage:.1%}); {take}, or give more samples"
        j = int(enough[rate[enough].argmax()])
        there = self.curve.at(j)
        effect = (
            1.0
            if self.by_unit is None
            else self.by_unit[1](int(there.accepted)).design_effect(there.accuracy)
        )
        most_likely = exact_interval(
            there.right / effect, there.accepted / effect, level
        )[1]
        seen = f"as at no coverage (from {TELLING} samples) more than {there.accuracy:.1%} are right"
        if most_likely < accuracy:
            return f"{none}{few}; {take}; more samples alone would not help, {seen}"
        return f"{none}{few}; {take}; more samples may not help, {seen} (interval up to {most_likely:.1%})"


# ---- search on a data set under a calibrator, with the content of ``calcli threshold --json``


COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.5)  # coverages of the table


class ThresholdUnits(Output):
    """Units of the rows; the name alone where rows are declared independent."""

    name: str
    n: int | UnsetType = UNSET
    largest: int | UnsetType = UNSET
    design_effect: float | UnsetType = UNSET
    effective_rows: float | UnsetType = UNSET


class ThresholdOutput(Output):
    """The JSON of ``calcli threshold``.

    From threshold to right the numbers are null where there is no threshold.
    """

    calcli_threshold: int
    bundle: str
    calibrator: str | None
    calibrator_sha256: str | None
    target: float
    level: float
    n: int
    threshold: float | None
    coverage: float | None
    coverage_ci: list[float] | None
    accuracy: float | None
    accuracy_lower: float | None
    accepted: float | None
    right: float | None
    tests: int
    guarantee: str
    accuracy_at_coverage: list[dict[str, Any]]
    groups: list[dict[str, Any]] | UnsetType = UNSET
    units: ThresholdUnits | UnsetType = UNSET


@dataclass(frozen=True)
class SearchedThreshold:
    """Search on the rows of a data set. content : of ``calcli threshold --json``, None where there is no threshold;
    why_not : the reason then. offered : accuracies that can be guaranteed instead."""

    choice: Choice
    content: dict[str, Any]
    why_not: str
    offered: Sequence[tuple[float, Accepted]] = ()


def check_unweighted(rows: DataSet) -> None:
    """Refuse weighted rows. Raises DataError."""
    if rows.weights() is not None:
        raise DataError(
            f"{rows.name}: has sample weights; the bound is exact for counts only; pass"
            " --sample-weight none to count each row once"
        )


def search_threshold(
    rows: DataSet,
    artifact: Artifact | None,
    accuracy: float,
    level: float,
    calibrator: str | None,
) -> SearchedThreshold:
    """Search a threshold on labelled rows, uncalibrated or under a calibrator that fits them. calibrator : its name in
    the JSON. Raises DataError for weighted rows, UsageError for an accuracy or a level that is no proportion."""
    check_unweighted(rows)
    confidence, correct = _confidences(artifact, rows)
    search = ThresholdSearch.of(confidence, correct, rows.given_units)
    found = search.choose(accuracy, level)
    best = found.best
    independent = rows.given_units is None or rows.given_units.single
    coverage_ci = None
    groups: list[dict[str, Any]] | UnsetType = UNSET
    if best is not None:
        if independent:
            coverage_ci = list(exact_interval(best.accepted, best.n, level))
        group = rows.column("group")
        if group is not None:
            groups = _by_group(group, correct, confidence >= best.threshold)
    level_of_points = level if independent else None
    output = ThresholdOutput(
        calcli_threshold=1,
        bundle=rows.name,
        calibrator=calibrator,
        calibrator_sha256=None if artifact is None else link_to(artifact).sha256,
        target=accuracy,
        level=level,
        n=len(confidence),
        threshold=None if best is None else best.threshold,
        coverage=None if best is None else best.coverage,
        coverage_ci=coverage_ci,
        accuracy=None if best is None else best.accuracy,
        accuracy_lower=found.lower,
        accepted=None if best is None else best.accepted,
        right=None if best is None else best.right,
        tests=found.tests,
        guarantee=_guarantee(accuracy, level, independent),
        accuracy_at_coverage=[
            _described(search.curve.at_coverage(coverage), level_of_points)
            for coverage in COVERAGES
        ],
        groups=groups,
        units=_units_output(rows, found),
    )
    content: dict[str, Any] = msgspec.to_builtins(output)
    if best is None:
        why_not = search.why_not(found, rows.name, accuracy, level)
        return SearchedThreshold(found, content, why_not, search.offered(level))
    return SearchedThreshold(found, content, "")


def _units_output(rows: DataSet, found: Choice) -> ThresholdUnits | UnsetType:
    units = rows.given_units
    if units is None:
        return UNSET if rows.unit is None else ThresholdUnits(name=rows.unit)
    design_effect: float | UnsetType = UNSET
    effective: float | UnsetType = UNSET
    if found.best is not None and found.design_effect is not None:
        design_effect = found.design_effect
        effective = found.best.accepted / found.design_effect
    return ThresholdUnits(
        name=rows.own_name("unit"),
        n=units.n,
        largest=int(units.count.max()),
        design_effect=design_effect,
        effective_rows=effective,
    )


def _confidences(
    artifact: Artifact | None, rows: DataSet
) -> tuple[FloatArray, FloatArray]:
    """Confidence of every row, and 1.0 where its prediction is the label, as ``calcli apply`` computes them."""
    calibrator = Identity() if artifact is None else artifact.calibrator
    transforms = rows.places_of(calibrator.required_transforms, rows.name)
    known = rows.kind == "confidence"  # labels are then whether the answer is right
    parts = []
    for _, scores, columns, _ in calibrated_blocks(
        calibrator, rows, "confidence" if known else "probs", transforms
    ):
        right = (
            columns["correct"] if known else columns["prediction"] == columns["labels"]
        )
        parts.append(
            (scores if known else columns["confidence"], right.astype(np.float64))
        )
    return np.concatenate([c for c, _ in parts]), np.concatenate(
        [right for _, right in parts]
    )


def _guarantee(accuracy: float, level: float, independent: bool) -> str:
    """The guarantee in a sentence. independent : are rows independent, or else units?"""
    right = f"right at least {accuracy:g} of the time"
    if not independent:
        how = "if units are drawn independently (approximate: binomial at the effective number of rows)"
        return (
            f"With probability {level:g} {how}, new rows that are accepted are {right}."
        )
    new, how = (
        "new rows of the same kind that are accepted",
        "exact binomial tests, corrected for the search",
    )
    return f"With probability {level:g} over the draw of these rows, {new} are {right} ({how})."


def _by_group(
    group: AnyArray, correct: FloatArray, accepted: AnyArray
) -> list[dict[str, Any]]:
    """Counts by group, the least accurate first: rows, accepted, and right among the accepted."""
    names, code = np.unique(group, return_inverse=True)
    counts = (
        np.bincount(code, weights=w, minlength=len(names))
        for w in (None, accepted, accepted * correct)
    )
    lines = [
        {
            "group": name,
            "n": int(n),
            "accepted": int(m),
            "right": int(x),
            "accuracy": x / m if m else None,
        }
        for name, n, m, x in zip(
            names.tolist(), *(c.tolist() for c in counts), strict=True
        )
    ]
    return sorted(
        lines, key=lambda line: 2.0 if line["accuracy"] is None else line["accuracy"]
    )


def _described(here: Accepted, level: float | None) -> dict[str, Any]:
    """JSON of one point of the curve; the interval is for this point alone, None without a level."""
    ends = (
        None
        if level is None
        else list(exact_interval(here.right, here.accepted, level))
    )
    return {
        "coverage": here.coverage,
        "threshold": here.threshold,
        "accuracy": here.accuracy,
        "accuracy_ci": ends,
    }
