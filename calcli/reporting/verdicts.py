"""Answers for readers: can the confidence be trusted, and in which direction is it wrong; the judgement has the advice.

The evaluation has judged (``Judgement``); this module only writes the sentences.
"""

from collections.abc import Sequence
from typing import NamedTuple

from calcli.diagrams.caption_text import squeeze
from calcli.diagrams.curve import Quantity
from calcli.evaluation.results import Advice, Judgement, sentence
from calcli.evaluation.verdict_rules import errors_words, worst_bin, worst_words
from calcli.reporting.gather import ModelResults, Version
from calcli.reporting.number_format import (
    count,
    per_cent,
    points,
    samples,
    signed,
    span,
)

FEWEST = 50  # bins with fewer rows support no sentence

NOWHERE = "The tests over all confidences together find it; no single range stands out."


def way_words(gap: float, about: Quantity = "top") -> str:
    """Gap in words: 2.1 points overconfident, or of P(class 1) too high."""
    ways = (
        ("overconfident", "underconfident")
        if about == "top"
        else ("too high", "too low")
    )
    return f"{points(gap)} points {ways[gap <= 0]}"


def bin_sentence(version: Version, way: int = 0) -> str:
    """Sentence on the worst bin, by samples times points; empty if none is off.

    way : 1 overconfident, -1 underconfident, 0 either; not of P(class 1), where the verdict is on that.
    """
    report, own = version.report, version.report.worst
    found = (
        worst_bin(report, way, FEWEST)
        if own is None
        else [own]
        if own.significant and own.n >= FEWEST
        else []
    )
    for b in found:
        within = f"{100 * b.low:g} to {100 * b.high:g}% ({count(b.n)} of {count(version.result.n)} samples)"
        right = f"{per_cent(b.accuracy)} ({per_cent(b.chosen_low)} to {per_cent(b.chosen_high)})"
        so = f"When it says {within} it is right in {right}"
        so = (
            so
            if own is None
            else f"Where P(class 1) is {within}, {right} are of class 1"
        )
        return f"{so}, where {per_cent(b.confidence)} are expected."
    return ""


def elsewhere(v: Version) -> str:
    """Sentences on errors that the average hides: of P(class 1), groups, or a few of the classes; empty if none."""
    report, found = v.report, []
    if (
        report.tested != "confidence"
        and report.positive is not None
        and abs(report.positive.z) > 1.96
    ):
        gap = report.positive.gap
        called = squeeze(report.data.class_1 or "class 1", 40)
        found.append(
            f"On average P({called}) is {points(gap)} points too {'high' if gap > 0 else 'low'}."
        )
    if "groups" in report.findings:
        found.append(f"Groups are miscalibrated: {worst_parts(*off_groups(v))}.")
    off = [g for g in v.classes if g.beyond]
    if "classes" in report.findings and 0 < len(off) <= len(v.classes) / 2:
        found.append(
            f"Single classes are miscalibrated: {worst_parts([(g.part, g.gap) for g in off])}."
        )
    return " ".join(found)


def off_groups(v: Version) -> tuple[list[tuple[str, float]], Quantity]:
    """Miscalibrated groups with their gaps, and the quantity of these: as drawn, or else as the evaluation found."""
    off, found = [(g.part, g.gap) for g in v.groups if g.beyond], v.report.groups
    if off or found is None:
        return off, v.groups_about
    return [(found.worst, found.worst_gap)], "positive" if found.of_positive else "top"


def worst_parts(off: Sequence[tuple[str, float]], about: Quantity = "top") -> str:
    """List the three parts that are furthest off, in words."""
    return ", ".join(f"{part} ({way_words(gap, about)})" for part, gap in furthest(off))


def furthest(off: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    return [
        (squeeze(part, 40), gap)
        for part, gap in sorted(off, key=lambda each: -abs(each[1]))[:3]
    ]


# ---- the card: three answers about the uncalibrated scores


class Verdict(NamedTuple):
    """One sentence, and two of the three answers; the third is the judgement's advice."""

    headline: str
    trusted: Advice
    direction: Advice


def tone(report: Judgement) -> str:
    """CSS class for the tint of a judgement: fair, unknown or warning."""
    return {"✓": "fair", "?": "unknown", "–": "unknown"}.get(report.sign, "warning")


def verdict_of(model: ModelResults) -> Verdict:
    """The verdict on the uncalibrated scores of a model."""
    report = model.versions[0].report
    return Verdict(*_WORDS[report.verdict_kind](model.versions[0], report))


def _too_few(v: Version, r: Judgement) -> tuple[str, Advice, Advice]:
    i = r.overconfidence.interval
    reach = (
        f"from {way_words(i.low)} to {way_words(i.high)}"
        if i.known
        else f"({i.method})"
    )
    anywhere = f"With {samples(v.result.n)} it may be anywhere {reach}."
    unseen = "The samples do not show whether it is over- or underconfident."
    return (
        f"{sentence(r.word)}.",
        Advice("Unknown.", anywhere),
        Advice("Cannot be seen.", unseen),
    )


def _check_labels(v: Version, r: Judgement) -> tuple[str, Advice, Advice]:
    hardly = (
        "The labels hardly belong to these scores, and every number here rests on them."
    )
    return (
        "Check the labels first.",
        Advice("Unknown.", hardly),
        Advice("Cannot be seen.", sentence(r.doubt)),
    )


def _calibrated(v: Version, r: Judgement) -> tuple[str, Advice, Advice]:
    ends = r.overconfidence.interval
    reach = span(ends.low, ends.high)
    off = f"off by {signed(100 * r.overconfidence.value)} points ({reach}), not significantly."
    weak = "".join(f"{sentence(words)}." for words in errors_words(r))
    yes = Advice(f"Yes, as far as {count(v.result.n)} samples can show:", off)
    neither = Advice(
        "Neither way.", weak or "No test finds it over- or underconfident."
    )
    return "Its confidence can be taken at face value.", yes, neither


def _one_way(v: Version, r: Judgement) -> tuple[str, Advice, Advice]:
    over = r.verdict_kind == "overconfident"
    gap = r.overconfidence if over else r.overconfidence.turned
    careful = ": do not take its confidence at face value" * (gap.value >= 0.03)
    much, ends = "much" if over else "little", span(gap.interval.low, gap.interval.high)
    lead = (
        "For most uses yes."
        if r.sign == "✓"
        else "Not without a calibrator."
        if over
        else "As a lower limit."
    )
    where = (
        bin_sentence(v, 1 if over else -1)
        or f"On average: no single bin of {r.tested} stands out."
    )
    level, edges = ("high", "close to") if over else ("low", "far from")
    headline = f"{r.size.capitalize()} {r.verdict_kind}{careful if over else ': it is right more often than it says'}."
    trusted = Advice(lead, f"It claims {points(gap.value)} points too {much} ({ends}).")
    way = f"Too {level if r.tested == 'confidence' else f'{edges} 0 and 1'}."
    return headline, trusted, Advice(way, f"{where} {elsewhere(v)}".strip())


def _mixed(v: Version, r: Judgement) -> tuple[str, Advice, Advice]:
    if "confidence" in r.findings:
        return _wrong_in_places(v, r)
    parts = next(
        (part for part in ("groups", "classes", "bins") if part in r.findings), None
    )
    if parts is None and r.errors and "split" not in r.findings:
        weak = "".join(f"{sentence(words)}." for words in errors_words(r))
        headline = "Right on average, miscalibrated among nearly equal confidences."
        return (
            headline,
            Advice("Only the average is right.", weak),
            Advice("Both ways.", NOWHERE),
        )
    about: Quantity = "top"
    if parts is None:
        trusted = Advice("For the answer yes,", "for second and third choices no.")
        others = "Classes that were not the answer get too much or too little."
        headline = "The stated confidence is right; the other probabilities are not."
        return headline, trusted, Advice("Of the answer neither way.", others)
    if parts == "groups" and r.groups is not None:
        number, total = r.groups.n_significant, r.groups.n_groups
        off, about = off_groups(v)
    elif parts == "classes" and r.classwise is not None:
        number, total = r.classwise.n_significant, len(v.classes)
        off = [(p.part, p.gap) for p in v.classes if p.beyond]
    else:
        wrong = [b for b in r.bins if b.significant]
        number, total = len(wrong), len(r.bins)
        off = [(f"{100 * b.low:g} to {100 * b.high:g}%", b.gap) for b in wrong]
    names = ", ".join(part for part, _ in furthest(off)) or f"single {parts}"
    each = "; ".join(f"{part}: {way_words(gap, about)}" for part, gap in furthest(off))
    headline = f"Calibrated overall, miscalibrated for {number} of {total} {parts}."
    differs = (
        f"{each}."
        if each
        else "Some classes get too much probability, others too little."
    )
    return (
        headline,
        Advice("Overall yes,", f"not for {names}."),
        Advice("It differs.", differs),
    )


def _wrong_in_places(v: Version, r: Judgement) -> tuple[str, Advice, Advice]:
    worst = [f"{sentence(words)}." for words in worst_words(r)] or [
        bin_sentence(v, 1),
        bin_sentence(v, -1),
    ]
    both = " ".join(dict.fromkeys(filter(None, (*worst, elsewhere(v))))) or NOWHERE
    if r.tested == "confidence":
        trusted = Advice(
            "Only the average is right.", "Single confidences are significantly off."
        )
        return (
            "Calibrated on average, miscalibrated in places.",
            trusted,
            Advice("Both ways.", both),
        )
    trusted = Advice(
        "Not without a calibrator.", "P(class 1) is significantly miscalibrated."
    )
    return f"{sentence(r.direction.words)}.", trusted, Advice("", both)


_WORDS = {
    "calibrated": _calibrated,
    "overconfident": _one_way,
    "underconfident": _one_way,
    "mixed": _mixed,
    "too_few": _too_few,
    "check_labels": _check_labels,
}


def overall(models: Sequence[ModelResults]) -> str:
    """Sentence with the number of models of each verdict."""
    kinds: list[str] = [m.versions[0].report.verdict_kind for m in models]
    words = {
        "check_labels": (
            "needs its labels checked first",
            "need their labels checked first",
        ),
        "overconfident": ("is overconfident", "are overconfident"),
        "underconfident": ("is underconfident", "are underconfident"),
        "mixed": ("is miscalibrated in places", "are miscalibrated in places"),
        "calibrated": ("is calibrated", "are calibrated"),
        "too_few": (
            "shows no evidence of miscalibration",
            "show no evidence of miscalibration",
        ),
    }
    parts = [
        f"{n} {each[n > 1]}" for kind, each in words.items() if (n := kinds.count(kind))
    ]
    return f"Of {len(models)} models {', '.join(parts)}."
