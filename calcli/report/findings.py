"""Where a version is wrong, in sentences: the bins, groups and classes that stand out."""

from collections.abc import Sequence

from calcli.diagrams.caption_text import squeeze
from calcli.diagrams.styles.gaps import Gap
from calcli.report.gather import Version
from calcli.report.number_format import count, per_cent, points

FEWEST = 50
"""Bins with fewer rows support no sentence."""

NOWHERE = "The tests over all confidences together find it; no single range stands out."


def way_words(gap: float) -> str:
    """A gap in words."""
    return f"{points(gap)} points {'over' if gap > 0 else 'under'}confident"


def bin_sentence(version: Version, way: int = 0, largest: bool = False) -> str:
    """The stated confidences that go wrong most, in cases times points, or in points; nothing where none does.

    way : 1 overconfident, -1 underconfident, 0 either.
    """
    report = version.result.report
    assert report is not None
    found = [b for b in report.bins if b.significant and b.n >= FEWEST and (way == 0 or b.gap * way > 0)]
    if not found:
        return ""
    b = max(found, key=lambda b: abs(b.gap) * (1 if largest else b.n))
    return (
        f"When it says {100 * b.low:g} to {100 * b.high:g}% ({count(b.n)} of {count(version.result.n)} cases)"
        f" it is right in {per_cent(b.accuracy)} ({per_cent(b.accuracy_low)} to {per_cent(b.accuracy_high)})."
    )


def where_wrong(v: Version, way: int) -> str:
    """Where a wrong version goes wrong: range of confidences, class 1 of two, groups, classes."""
    found = bin_sentence(v, way) or "On average: no single range of confidences stands out."
    return f"{found} {elsewhere(v)}".strip()


def elsewhere(v: Version) -> str:
    """What the whole does not tell: class 1 of two, groups, or a few of the classes; nothing where nothing is."""
    report, found = v.result.report, []
    assert report is not None
    if report.tested != "confidence" and report.positive is not None and abs(report.positive.z) > 1.96:
        gap = report.positive.gap
        called = squeeze(report.data.class_1 or "class 1", 40)
        found.append(f"The probability of {called} is {points(gap)} points too {'high' if gap > 0 else 'low'}.")
    if "groups" in report.findings:
        found.append(f"It differs by group: {worst_parts(v.groups) or 'see below'}.")
    off = [g for g in v.classes if g.beyond]
    if "classes" in report.findings and 0 < len(off) <= len(v.classes) / 2:
        found.append(f"Single classes are off: {worst_parts(off)}.")
    return " ".join(found)


def worst_parts(gaps: Sequence[Gap]) -> str:
    """The three parts that are furthest off, of those beyond chance."""
    worst = sorted((g for g in gaps if g.beyond), key=lambda g: -abs(g.gap))[:3]
    return ", ".join(f"{squeeze(g.part, 40)} ({way_words(g.gap)})" for g in worst)
