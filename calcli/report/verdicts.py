"""Three answers for every version: can its confidence be trusted, which way is it wrong, what to do.

What is so was judged by the evaluation (``Report``); here it only becomes sentences.
"""

import math
import shlex
from collections.abc import Sequence

from calcli.diagrams.caption_text import squeeze
from calcli.diagrams.curve import Quantity
from calcli.diagrams.styles.gaps import Gap
from calcli.evaluation.verdict_results import Advice, Report
from calcli.fast_dataclass import dataclass
from calcli.metrics.intervals import normal_quantile
from calcli.report.gather import CalibratorFacts, ModelResults, Version
from calcli.report.number_format import count, per_cent, points, samples, signed, span

# ---- where a version is wrong, in sentences: the bins, groups and classes that stand out


FEWEST = 50
"""Bins with fewer rows support no sentence."""

NOWHERE = "The tests over all confidences together find it; no single range stands out."


def way_words(gap: float, about: Quantity = "top") -> str:
    """A gap in words."""
    ways = ("overconfident", "underconfident") if about == "top" else ("too high", "too low")
    return f"{points(gap)} points {ways[gap <= 0]}"


def bin_sentence(version: Version, way: int = 0, largest: bool = False) -> str:
    """The stated confidences that go wrong most, in samples times points, or in points; nothing where none does.

    way : 1 overconfident, -1 underconfident, 0 either.
    """
    report = version.result.report
    assert report is not None
    found = [b for b in report.bins if b.significant and b.n >= FEWEST and (way == 0 or b.gap * way > 0)]
    if not found:
        return ""
    b = max(found, key=lambda b: abs(b.gap) * (1 if largest else b.n))
    return (
        f"When it says {100 * b.low:g} to {100 * b.high:g}% ({count(b.n)} of {count(version.result.n)} samples)"
        f" it is right in {per_cent(b.accuracy)} ({per_cent(b.accuracy_low)} to {per_cent(b.accuracy_high)})."
    )


def where_wrong(v: Version, way: int) -> str:
    """Where a wrong version goes wrong: range of confidences, class 1 of two, groups, classes."""
    found = bin_sentence(v, way) or "On average: no single bin of confidence stands out."
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
        found.append(f"It differs by group: {worst_parts(v.groups, v.groups_about) or 'see below'}.")
    off = [g for g in v.classes if g.beyond]
    if "classes" in report.findings and 0 < len(off) <= len(v.classes) / 2:
        found.append(f"Single classes are miscalibrated: {worst_parts(off)}.")
    return " ".join(found)


def worst_parts(gaps: Sequence[Gap], about: Quantity = "top") -> str:
    """The three parts that are furthest off, of those beyond chance."""
    worst = sorted((g for g in gaps if g.beyond), key=lambda g: -abs(g.gap))[:3]
    return ", ".join(f"{squeeze(g.part, 40)} ({way_words(g.gap, about)})" for g in worst)


# ---- what to do about a version that is wrong: apply a calibrator that was given, or make one


REACH = normal_quantile(0.975)
"""Standard errors beyond which a difference of losses is significant."""


def best_version(model: ModelResults) -> Version | None:
    """The calibrator to apply: the first given whose loss cannot be told from the least.

    Only those count that lower the loss beyond chance and whose accuracy does not fall
    beyond it. None where there is none.
    """

    def beyond(version: Version, other: int) -> bool:
        value, se = version.nll_gaps[other]
        return math.isfinite(se) and value > REACH * se

    helpful = [
        (at, v) for at, v in enumerate(model.versions) if at and beyond(model.versions[0], at) and not _loses_answers(v)
    ]
    if not helpful:
        return None
    least, _ = min(helpful, key=lambda each: each[1].nll_gaps[0][0])
    return next(v for _, v in helpful if not beyond(v, least))


def _loses_answers(version: Version) -> bool:
    paired = version.result.paired
    if paired is None or "accuracy" not in paired.differences:
        return False
    interval = paired.differences["accuracy"].interval
    return interval is not None and interval.high < 0


def advice_on(model: ModelResults, v: Version) -> Advice:
    """What to do about a version: what was judged of it alone, or the calibrator that was given and helps."""
    report = v.result.report
    assert report is not None
    if not {"confidence", "split"} & set(report.findings) or report.verdict_kind == "check_labels":
        return report.advice
    if v is not model.versions[0]:
        return Advice("See the comparison.", "Whether another version does better stands in the table below.")
    best = best_version(model)
    if best is not None and best.facts is not None:
        return _apply(model, best, best.facts)
    if len(model.versions) == 1:
        return report.advice
    worse = [o.name for o in model.versions[1:] if o.nll_gaps[0][0] > REACH * o.nll_gaps[0][1]]
    out = f"With {' and '.join(worse)} it gets worse. " if worse else ""
    return Advice("None of these helps.", f"{out}{report.advice.lead} {report.advice.rest}", report.advice.command)


def _apply(model: ModelResults, best: Version, facts: CalibratorFacts) -> Advice:
    """Take a calibrator that was given, what it gains, and what is left wrong with it."""
    if facts.same_rows:
        why = "It was made from these very samples, on which it cannot fail: what it does on others is not known."
        command = shlex.join(["calcli", "report", "OTHERS.h5", "--calibrator", facts.path, "-o", "others.html"])
        return Advice(f"Try {best.name} on other samples.", why, command)
    report = best.result.report
    assert report is not None
    over = report.overconfidence
    way = "too much" if over.value >= 0 else "too little"
    rest = (
        f"Then it claims {points(over.value)} points {way} on average ({span(over.interval.low, over.interval.high)})."
    )
    still = " ".join(filter(None, (bin_sentence(best, largest=True), elsewhere(best))))
    if still:
        rest += f" Still: {still[0].lower()}{still[1:]}"
    apart = " Groups need calibrators of their own." if "groups" in report.findings else ""
    command = shlex.join(["calcli", "apply", facts.path, model.typed, "-o", "calibrated.h5"])
    return Advice(f"Apply the calibrator {best.name}.", f"{rest}{apart} {changes(best)}", command)


def changes(v: Version) -> str:
    """Which answers a calibrator changes, and what that does to the accuracy."""
    if not v.changed:
        return "It changes none of its answers."
    words = f"It changes {count(v.changed)} answers: {count(v.gained)} become right, {count(v.lost)} wrong"
    paired = v.result.paired
    accuracy = None if paired is None else paired.differences.get("accuracy")
    if accuracy is None or accuracy.interval is None:
        return f"{words}."
    low, high = (signed(100 * end) for end in (accuracy.interval.low, accuracy.interval.high))
    return f"{words}; accuracy {signed(100 * accuracy.value)} points [{low}, {high}]."


@dataclass(frozen=True)
class Verdict:
    """sign and word : the state for tables. headline : one sentence. sentence : the same as every output prints it."""

    sign: str
    word: str
    headline: str
    sentence: str
    trusted: Advice
    direction: Advice
    advice: Advice

    @property
    def tone(self) -> str:
        """fair, unknown or warning: the tint of the card."""
        return {"✓": "fair", "?": "unknown"}.get(self.sign, "warning")


def report_of(version: Version) -> Report:
    """The judgement on a version."""
    report = version.result.report
    assert report is not None
    return report


def verdict_of(model: ModelResults, version: Version | None = None) -> Verdict:
    """The verdict of one version, by default of the scores as they are with advice on all calibrators."""
    v = version or model.versions[0]
    r = report_of(v)
    headline, trusted, direction = _WORDS[r.verdict_kind](v, r)
    if v.facts is not None and v.facts.same_rows:
        headline = f"Not a fair test: these are the samples that {v.name} was made from. {headline}"
    return Verdict(r.sign, r.word, headline, r.verdict, trusted, direction, advice_on(model, v))


def _reach(r: Report) -> str:
    return span(r.overconfidence.interval.low, r.overconfidence.interval.high)


def _too_few(v: Version, r: Report) -> tuple[str, Advice, Advice]:
    i = r.overconfidence.interval
    reach = f"from {way_words(i.low)} to {way_words(i.high)}" if i.known else f"({i.method})"
    return (
        "Too few samples to tell.",
        Advice("Unknown.", f"With {samples(v.result.n)} it may be anywhere {reach}."),
        Advice("Cannot be seen.", "The samples do not show whether it is over- or underconfident."),
    )


def _check_labels(v: Version, r: Report) -> tuple[str, Advice, Advice]:
    return (
        "Check the labels first.",
        Advice("Unknown.", "The labels hardly belong to these scores, and every number here rests on them."),
        Advice("Cannot be seen.", r.doubt[0].upper() + r.doubt[1:]),
    )


def _calibrated(v: Version, r: Report) -> tuple[str, Advice, Advice]:
    off = f"off by {signed(100 * r.overconfidence.value)} points ({_reach(r)}), not significantly."
    return (
        "Its confidence can be taken at face value.",
        Advice(f"Yes, as far as {count(v.result.n)} samples can show:", off),
        Advice("Neither way.", "No test finds it over- or underconfident."),
    )


def _overconfident(v: Version, r: Report) -> tuple[str, Advice, Advice]:
    gap, size = r.overconfidence.value, r.size.capitalize()
    rest = ": do not take its confidence at face value." if gap >= 0.03 else "."
    claims = f"It claims {points(gap)} points {'too much' if gap > 0 else 'too little'} ({_reach(r)})."
    lead = "For most uses yes." if r.sign == "✓" else "Not as it is."
    return f"{size} overconfident{rest}", Advice(lead, claims), Advice("Too high.", where_wrong(v, 1))


def _underconfident(v: Version, r: Report) -> tuple[str, Advice, Advice]:
    turned = r.overconfidence.turned
    claims = f"It claims {points(turned.value)} points too little"
    lead = "For most uses yes." if r.sign == "✓" else "As a lower limit."
    return (
        f"{r.size.capitalize()} underconfident: it is right more often than it says.",
        Advice(lead, f"{claims} ({span(turned.interval.low, turned.interval.high)})."),
        Advice("Too low.", where_wrong(v, -1)),
    )


def _mixed(v: Version, r: Report) -> tuple[str, Advice, Advice]:
    if "confidence" in r.findings:
        return _wrong_in_places(v, r)
    parts = next((part for part in ("groups", "classes", "bins") if part in r.findings), None)
    if parts is None:
        return (
            "The stated confidence is right; the other probabilities are not.",
            Advice("For the answer yes,", "for second and third choices no."),
            Advice("Of the answer neither way.", "Classes that were not the answer get too much or too little."),
        )
    if parts == "groups" and r.groups is not None:
        number, total = r.groups.n_significant, r.groups.n_groups
        off = [(p.part, p.gap) for p in v.groups if p.beyond] or [(r.groups.worst, r.groups.worst_gap)]
    elif parts == "classes" and r.classwise is not None:
        number, total = r.classwise.n_significant, len(v.classes)
        off = [(p.part, p.gap) for p in v.classes if p.beyond]
    else:
        wrong = [b for b in r.bins if b.significant]
        number, total = len(wrong), len(r.bins)
        off = [(f"{100 * b.low:g} to {100 * b.high:g}%", b.gap) for b in wrong]
    worst = sorted(off, key=lambda each: -abs(each[1]))[:3]
    names = ", ".join(squeeze(part, 40) for part, _ in worst) or f"single {parts}"
    about = v.groups_about if parts == "groups" else "top"
    each = "; ".join(f"{squeeze(part, 40)}: {way_words(gap, about)}" for part, gap in worst)
    return (
        f"Calibrated overall, miscalibrated for {number} of {total} {parts}.",
        Advice("Overall yes,", f"not for {names}."),
        Advice("It differs.", f"{each}." if each else "Some classes get too much probability, others too little."),
    )


def _wrong_in_places(v: Version, r: Report) -> tuple[str, Advice, Advice]:
    both = " ".join(filter(None, (bin_sentence(v, 1), bin_sentence(v, -1), elsewhere(v)))) or NOWHERE
    trusted = Advice("Only the average is right.", "Single confidences are significantly off.")
    if r.tested == "confidence":
        return "Calibrated on average, miscalibrated in places.", trusted, Advice("Both ways.", both)
    words = r.direction.words
    headline = f"{words[0].upper()}{words[1:]}."
    return (
        headline,
        Advice("Not as it is.", "The probability of class 1 is significantly miscalibrated."),
        Advice("", both),
    )


_WORDS = {
    "calibrated": _calibrated,
    "overconfident": _overconfident,
    "underconfident": _underconfident,
    "mixed": _mixed,
    "too_few": _too_few,
    "check_labels": _check_labels,
}


def overall(models: Sequence[ModelResults]) -> str:
    """Of several models, how many are what."""
    kinds = [report_of(m.versions[0]).verdict_kind for m in models]
    words = {
        "check_labels": ("needs its labels checked first", "need their labels checked first"),
        "overconfident": ("is overconfident", "are overconfident"),
        "underconfident": ("is underconfident", "are underconfident"),
        "mixed": ("is miscalibrated in places", "are miscalibrated in places"),
        "calibrated": ("is calibrated", "are calibrated"),
        "too_few": ("has too few samples to tell", "have too few samples to tell"),
    }
    counts = {kind: sum(each == kind for each in kinds) for kind in words}
    parts = [f"{n} {words[kind][n > 1]}" for kind, n in counts.items() if n]
    return f"Of {len(models)} models {', '.join(parts)}."
