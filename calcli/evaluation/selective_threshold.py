"""Answer only where the confidence suffices: thresholds with a guarantee.

Rows whose confidence is at least the threshold are accepted. Coverage is their share,
accuracy that of the accepted.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.fit_and_apply import calibrated_blocks, checked_transforms
from calcli.io.artifact import Artifact
from calcli.io.dataset import DataSet
from calcli.io.provenance import link_to
from calcli.methods.compared.identity import Identity
from calcli.metrics.coverage import (
    AcceptanceCurve,
    Accepted,
    accuracy_at_coverage,
    exact_interval,
)
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.statistics.units import AcceptedUnits, Units

TESTS = 100
"""Thresholds that are looked at, apart from the starts: one per 1 % of the rows."""
FEWEST_ROWS, FEWEST_UNITS = 50, 20
"""What the first start accepts at least, of rows or of units."""
FEWEST_SHARES = 5
"""Parts of the level that units are given at least: one test at all of it breaks its promise in .07 of sets."""

PValue = Callable[[int, float, float], float]
"""Of a place of the curve: the chance of so many right answers at an accuracy, for a test at a level."""


@dataclass(frozen=True)
class Choice:
    """The lowest threshold that is guaranteed. best : None where there is none.

    lower : the accuracy that is guaranteed: what was asked, or, where all rows are accepted, the most that could have
    been asked. highest, coverage : where there is no threshold, the highest accuracy for which there is one (or 0), and
    its coverage. least : rows that must be accepted, all of them right, before any threshold can hold; units, where
    rows belong together. tests : how many were made. design_effect : at the threshold, None for independent rows.
    """

    best: Accepted | None
    lower: float | None
    least: int
    tests: int
    highest: float | None = None
    coverage: float | None = None
    design_effect: float | None = None


def choose_threshold(
    confidence: FloatArray, correct: FloatArray, accuracy: float, level: float = 0.95, units: Units | None = None
) -> Choice:
    """The lowest confidence above which accuracy is at least ``accuracy``, with probability ``level``.

    confidence, correct : (n,), rows drawn independently, not those of the calibrator's fit.
    Thresholds that accept fixed numbers of rows (ties together), whatever is asked, are tested from the highest
    downwards: is the chance of so many right answers at an accuracy of just ``accuracy``, binomial, at most alpha_j?
    Those at n, n/2, n/4, … down to 50 rows, the starts, have equal parts of 1 - level, and each of the others has what
    the one before it had if that was passed (the fallback procedure; fixed sequences from several starts): the chance
    that any threshold below the target passes is then at most 1 - level, wherever the search ends. What passes at an
    accuracy passes at every lower one, and at every lower level, so that less is never got for less. Fixed numbers
    of rows make the binomial exact when the accuracy of the accepted crosses the target once
    as the threshold falls, as it does where more confident rows are more often right.

    units : rows that belong together; it is then units that are drawn independently, the first start accepts at least
    20 of them, and the binomial has the effective number of rows, its design effect centred at ``accuracy``. That is
    approximate: see the simulated cells of ``benchmarks/levels.json``.

    Raises UsageError for an accuracy or a level that is no share.

    Reference: Clopper, Pearson (1934); Bauer (1991) and Wiens (2003) for the order of tests;
    Angelopoulos, Bates, Candes, Jordan, Lei (2021), "Learn then test"; Korn, Graubard (1998) for units.
    """
    for name, share in (("accuracy", accuracy), ("confidence level", level)):
        if not 0 < share < 1:
            raise UsageError(f"{name} is {share:g}, expected a number between 0 and 1, both excluded")
    delta, curve = 1.0 - level, AcceptanceCurve.of(confidence, correct)
    by_unit = None if units is None or units.single else _ByUnit(curve, confidence, correct, units)
    if by_unit is None:
        search = _search(curve, delta, curve.accepted, (FEWEST_ROWS, 1), lambda j, a, _: tail(curve.at(j), a))
    else:
        search = _search(curve, delta, by_unit.met, (FEWEST_UNITS, FEWEST_SHARES), by_unit.p_value)
    best = search.last(accuracy)
    least, tests = math.ceil(math.log(max(search.shares)) / math.log(accuracy)), len(search.places)
    if best is None:
        highest = search.highest()
        top = search.last(highest)
        return Choice(None, None, least, tests, highest, None if top is None else curve.at(top).coverage)
    everything = len(curve.accepted) - 1
    lower = max(accuracy, search.highest(everything)) if best == everything else accuracy
    effect = None if by_unit is None else by_unit.accepted(best).design_effect(accuracy)
    return Choice(curve.at(best), lower, least, tests, design_effect=effect)


class _ByUnit:
    """Rows accepted at the places of a curve, by unit. met : (g,) units with an accepted row."""

    def __init__(self, curve: AcceptanceCurve, confidence: FloatArray, correct: FloatArray, units: Units) -> None:
        order = np.argsort(-confidence, kind="stable")
        self.curve, self.code, self.right = curve, units.code[order], correct[order]
        first = np.sort(np.unique(self.code, return_index=True)[1])
        self.met = np.searchsorted(first, curve.accepted)
        self.known: dict[int, AcceptedUnits] = {}

    def accepted(self, j: int) -> AcceptedUnits:
        if j not in self.known:
            m = int(self.curve.accepted[j])
            self.known[j] = AcceptedUnits.of(self.code[:m], self.right[:m])
        return self.known[j]

    def p_value(self, j: int, accuracy: float, alpha: float) -> float:
        return self.accepted(j).tail(accuracy, alpha)


@dataclass(frozen=True)
class Search:
    """Places of a curve in the order of their tests, and the part of the level that each has of its own."""

    places: list[int]
    shares: list[float]
    p_value: PValue

    def last(self, accuracy: float) -> int | None:
        """The last place that passes: each passes its level on if it is passed."""
        best, alpha = None, 0.0
        for j, share in zip(self.places, self.shares, strict=True):
            alpha += share
            if alpha > 0.0 and self.p_value(j, accuracy, alpha) <= alpha:
                best = j
            else:
                alpha = 0.0
        return best

    def highest(self, place: int = 0) -> float:
        """The highest accuracy at which this place or a later one passes, 0 where there is none."""
        low, high = 0.0, 1.0
        for _ in range(53):  # bits of a float
            middle = 0.5 * (low + high)
            found = self.last(middle)
            low, high = (middle, high) if found is not None and found >= place else (low, middle)
        return low


def _search(curve: AcceptanceCurve, delta: float, size: IntArray, fewest: tuple[int, int], p_value: PValue) -> Search:
    """What is tested, of the confidences alone. size : (g,) rows or units accepted; fewest : of a start, and shares."""

    def place(count: int) -> int:
        return int(np.searchsorted(curve.accepted, count))

    n = int(curve.accepted[-1])
    starts, count = {place(n)}, n // 2
    while count and size[place(count)] >= fewest[0]:
        starts.add(place(count))
        count //= 2
    steps = {place(round(n * k / TESTS)) for k in range(1, TESTS)}
    places = sorted(starts | {j for j in steps if j > min(starts)})
    share = delta / max(len(starts), fewest[1])
    return Search(places, [share * (j in starts) for j in places], p_value)


def rounded_down(accuracy: float) -> float:
    """An accuracy in four decimals that promise no more than it does."""
    return math.floor(accuracy * 1e4 + 1e-6) / 1e4


def tail(here: Accepted, accuracy: float) -> float:
    """Chance of at least so many right answers when each has the chance ``accuracy``."""
    from scipy.special import bdtrc

    return float(bdtrc(here.right - 1, here.accepted, accuracy)) if here.right else 1.0


# ---- of labelled rows through a calibrator: the search, and all that ``calcli threshold --json`` says of it


COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.5)
"""Coverages of the table."""


@dataclass(frozen=True)
class SearchedThreshold:
    """A search on the rows of a data set. content : what ``calcli threshold --json`` prints; numbers are None
    where there is no threshold."""

    choice: Choice
    content: dict[str, Any]
    confidence: FloatArray
    correct: FloatArray
    units: Units | None

    @property
    def why_not(self) -> str:
        """Why there is no threshold, and what would help."""
        found, where, accuracy, level = self.choice, *(self.content[key] for key in ("bundle", "target", "level"))
        none = f"{where}: no threshold guarantees accuracy >= {accuracy:g} with probability {level:g}"
        by_unit = self.units is not None and not self.units.single
        of, has = ("units", self.units.n) if by_unit and self.units else ("samples", len(self.confidence))
        few = f" on {has} {of} (even without an error it takes {found.least})" if has < found.least else ""
        asked = rounded_down(found.highest or 0.0)
        if not asked:
            return f"{none}{few}, nor any other accuracy: give more samples"
        least = f"the highest accuracy that can be guaranteed here is {asked:g}, at coverage {found.coverage:.1%}"
        return f"{none}{few}; {least}: take --accuracy {asked:g}, or give more samples"


def search_threshold(
    rows: DataSet, artifact: Artifact | None, accuracy: float, level: float, calibrator: str | None
) -> SearchedThreshold:
    """Search a threshold on labelled rows, as they are or through a calibrator that fits them.

    calibrator : what the JSON calls it. Raises DataError for weighted rows, UsageError for an accuracy or a level
    that is no proportion.
    """
    if rows.weights() is not None:
        raise DataError(f"{rows.name}: has sample weights; the bound is exact for counts only, drop the weights")
    confidence, correct = _confidences(artifact, rows)
    units = rows.given_units
    found = choose_threshold(confidence, correct, accuracy, level, units)
    best, alone = found.best, units is None or units.single
    content: dict[str, Any] = {
        "calcli_threshold": 1,
        "bundle": rows.name,
        "calibrator": calibrator,
        "calibrator_sha256": None if artifact is None else link_to(artifact).sha256,
        "target": accuracy,
        "level": level,
        "n": len(confidence),
        "threshold": None if best is None else best.threshold,
        "coverage": None if best is None else best.coverage,
        "coverage_ci": None if best is None or not alone else list(exact_interval(best.accepted, best.n, level)),
        "accuracy": None if best is None else best.accuracy,
        "accuracy_lower": found.lower,
        "highest_target": found.highest,
        "accepted": None if best is None else best.accepted,
        "right": None if best is None else best.right,
        "tests": found.tests,
        "guarantee": _guarantee(accuracy, level, alone),
        "accuracy_at_coverage": [
            _described(accuracy_at_coverage(confidence, correct, c), level if alone else None) for c in COVERAGES
        ],
    }
    if (group := rows.column("group")) is not None and best is not None:
        content["groups"] = _by_group(group, correct, confidence >= best.threshold)
    if units is not None:
        content["units"] = {"name": rows.own_name("unit"), "n": units.n, "largest": int(units.count.max())}
    elif rows.unit is not None:
        content["units"] = {"name": rows.unit}
    if found.design_effect is not None and best is not None:
        effect = {"design_effect": found.design_effect, "effective_rows": best.accepted / found.design_effect}
        content["units"] = {**content["units"], **effect}
    return SearchedThreshold(found, content, confidence, correct, units)


def _confidences(artifact: Artifact | None, rows: DataSet) -> tuple[FloatArray, FloatArray]:
    """Confidence of every row and 1.0 where its prediction is the label, as ``apply`` gives them."""
    calibrator = Identity() if artifact is None else artifact.calibrator
    transforms = checked_transforms(calibrator, rows, rows.name)
    known = rows.kind == "confidence"  # the rows say themselves whether they are right
    parts = []
    for _, scores, columns, _ in calibrated_blocks(calibrator, rows, "confidence" if known else "probs", transforms):
        right = columns["correct"] if known else columns["prediction"] == columns["labels"]
        parts.append((scores if known else columns["confidence"], right.astype(np.float64)))
    return np.concatenate([c for c, _ in parts]), np.concatenate([right for _, right in parts])


def _guarantee(accuracy: float, level: float, independent: bool) -> str:
    """What is guaranteed, in a sentence. independent : rows, else units."""
    if not independent:
        return (
            f"With probability {level:g} if units are drawn independently (approximate: binomial at the"
            f" effective number of rows), new rows that are accepted are right at least {accuracy:g} of the time."
        )
    return (
        f"With probability {level:g} over the draw of these rows, new rows of the same kind that are"
        f" accepted are right at least {accuracy:g} of the time (exact binomial tests, corrected for the search)."
    )


def _by_group(group: AnyArray, correct: FloatArray, accepted: AnyArray) -> list[dict[str, Any]]:
    """Rows of every group, how many are accepted and how many of these right, the least accurate first."""
    names, code = np.unique(group, return_inverse=True)
    counts = (np.bincount(code, weights=w, minlength=len(names)) for w in (None, accepted, accepted * correct))
    lines = [
        {"group": name, "n": int(n), "accepted": int(m), "right": int(x), "accuracy": x / m if m else None}
        for name, n, m, x in zip(names.tolist(), *(c.tolist() for c in counts), strict=True)
    ]
    return sorted(lines, key=lambda line: 2.0 if line["accuracy"] is None else line["accuracy"])


def _described(here: Accepted, level: float | None) -> dict[str, Any]:
    """One point of the curve; the interval is for this point alone, and left out without a level."""
    return {
        "coverage": here.coverage,
        "threshold": here.threshold,
        "accuracy": here.accuracy,
        "accuracy_ci": None if level is None else list(exact_interval(here.right, here.accepted, level)),
    }
