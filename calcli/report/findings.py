"""What was found of one version, and where: its gap, the ranges, groups and classes that stand out."""

import math
from collections.abc import Sequence

from calcli.diagrams.caption_text import squeeze
from calcli.diagrams.styles.gaps import Gap
from calcli.fast_dataclass import dataclass
from calcli.metrics.intervals import normal_quantile
from calcli.report.gather import WINDOW_ROWS, Version, Window
from calcli.report.number_format import count, per_cent, points

LEVEL = 0.05
REACH = normal_quantile(1 - LEVEL / 2)
"""Standard errors beyond which a gap is no chance."""

SIZES = ((0.01, "Very slightly"), (0.03, "A little"), (0.08, "Clearly"), (math.inf, "Much"))

NOWHERE = "The tests over all confidences together find it; no single range stands out."


@dataclass(frozen=True)
class State:
    """gap with its interval, size, and whether it, or anything else, is beyond chance. half : of the interval."""

    gap: float
    low: float
    high: float
    beyond: bool
    wrong: bool
    size: str

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


def state_of(version: Version) -> State:
    """What the evaluation found of one version."""
    result = version.result
    report, score = result.report, result.scores["gap"]
    assert report is not None
    gap = report.direction.gap
    low = score.interval.low if score.interval else gap
    high = score.interval.high if score.interval else gap
    beyond = abs(report.direction.gap_z) > REACH
    size = next(word for limit, word in SIZES if abs(gap) < limit)
    return State(gap, low, high, beyond, report.p_value <= LEVEL, size)


def way_words(gap: float) -> str:
    """A gap in words."""
    return f"{points(gap)} points too {'sure' if gap > 0 else 'modest'}"


def window_sentence(version: Version, way: int = 0, largest: bool = False) -> str:
    """The stated confidences that go wrong most, in cases times points, or in points; nothing where none does.

    way : 1 too sure, -1 not sure enough, 0 either.
    """

    def weight(w: Window) -> float:
        return abs(w.gap) * (1 if largest else w.n)

    found = [w for w in version.windows if w.beyond and w.n >= WINDOW_ROWS and (way == 0 or w.gap * way > 0)]
    if not found:
        return ""
    w = max(found, key=weight)
    return (
        f"When it says {100 * w.low:.0f} to {100 * w.high:.0f}% ({count(w.n)} of {count(version.result.n)} cases)"
        f" it is right in {per_cent(w.right)} ({per_cent(w.right_low)} to {per_cent(w.right_high)})."
    )


def where_wrong(v: Version, way: int) -> str:
    """Where a wrong version goes wrong: range of confidences, class 1 of two, groups, classes."""
    window = window_sentence(v, way) or "On average: no single range of confidences stands out."
    return f"{window} {elsewhere(v)}".strip()


def elsewhere(v: Version) -> str:
    """What the whole does not tell: class 1 of two, groups, or a few of the classes; nothing where nothing is."""
    report, found = v.result.report, []
    assert report is not None
    if report.positive is not None and "classes" in report.findings:
        gap = report.positive.gap
        called = squeeze(report.data.class_1 or "class 1", 40)
        found.append(f"The probability of {called} is {points(gap)} points too {'high' if gap > 0 else 'low'}.")
    if "groups" in report.findings:
        found.append(f"It differs by group: {worst_parts(v.groups) or 'see below'}.")
    off = [g for g in v.classes if g.beyond]
    if report.positive is None and "classes" in report.findings and 0 < len(off) <= len(v.classes) / 2:
        found.append(f"Single classes are off: {worst_parts(off)}.")
    return " ".join(found)


def worst_parts(gaps: Sequence[Gap]) -> str:
    """The three parts that are furthest off, of those beyond chance."""
    worst = sorted((g for g in gaps if g.beyond), key=lambda g: -abs(g.gap))[:3]
    return ", ".join(f"{squeeze(g.part, 40)} ({way_words(g.gap)})" for g in worst)
