"""Three answers for every version: can its confidence be trusted, which way is it wrong, what to do.

The first rule that fits speaks. Significance comes first and size second; neither replaces
the other. The tests are those of the evaluation; here they only become sentences.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from calcli.evaluation.verdict_results import Report
from calcli.fast_dataclass import dataclass
from calcli.report.advice import Answer, advice_on
from calcli.report.findings import NOWHERE, State, elsewhere, state_of, way_words, where_wrong, window_sentence
from calcli.report.gather import ModelResults, Version
from calcli.report.number_format import cases, count, fixed, points, signed, span

FEW = 30
WIDE = 0.02
"""Half width of the gap's interval above which "no difference found" says nothing."""

ONE = {"classes": "class", "groups": "group"}

TOO_SURE, NOT_SURE, BOTH, FINE, UNKNOWN = "▲", "▼", "▲▼", "✓", "?"


@dataclass(frozen=True)
class Verdict:
    """sign and word : the state for tables. headline : one sentence. command : what to run, or nothing."""

    sign: str
    word: str
    headline: str
    trusted: Answer
    direction: Answer
    advice: Answer
    command: str = ""

    @property
    def tone(self) -> str:
        """fair or warning: the tint of the card."""
        return "fair" if self.sign == FINE else "warning"


def verdict_of(model: ModelResults, version: Version | None = None) -> Verdict:
    """The verdict of one version, by default of the scores as they are with advice on all calibrators."""
    v = version or model.versions[0]
    s = state_of(v)
    found = _rules(model, v, s)
    if v.facts is not None and v.facts.same_rows:
        told = f"Not a fair test: these are the cases that {v.name} was made from. {found.headline}"
        return replace(found, headline=told)
    return found


def _too_few(n: int, s: State) -> Verdict:
    """Not enough to tell, and how many would be."""
    half, low, high = s.half, s.low, s.high
    if n < FEW:  # so few cases do not know their own spread: that of a coin
        half, middle = max(half, 0.98 / math.sqrt(n)), (s.low + s.high) / 2
        low, high = max(middle - half, -1.0), min(middle + half, 1.0)
    wanted = count(max(math.ceil(n * (half / 0.01) ** 2 / 100 - 1e-9) * 100, 100))
    return Verdict(
        UNKNOWN,
        "cannot be told",
        "Too few cases to tell.",
        Answer("Unknown.", f"With {cases(n)} it may be anywhere from {way_words(low)} to {way_words(high)}."),
        Answer("Cannot be seen.", "The cases do not show whether it is too sure or not sure enough."),
        Answer(f"Label about {wanted} cases,", "which tell it to ±1 point. Until then do not rely on it."),
    )


def _rules(model: ModelResults, v: Version, s: State) -> Verdict:
    n = v.result.n
    reach = span(s.low, s.high)
    if n < FEW or (not s.wrong and s.half > WIDE):
        return _too_few(n, s)
    if not s.wrong:
        return _sound(model, v, s, reach)
    advice, command = advice_on(model, v)
    if not s.beyond:
        both = [window_sentence(v, 1), window_sentence(v, -1)]
        advice = Answer(advice.lead, f"{advice.rest} A temperature alone cannot mend it.".strip())
        return Verdict(
            BOTH,
            "wrong in places",
            "Right on average, wrong in places.",
            Answer("Only the average is right.", "Single confidences are off by more than chance explains."),
            Answer("Both ways.", " ".join(filter(None, (*both, elsewhere(v)))) or NOWHERE),
            advice,
            command,
        )
    if abs(s.gap) < 0.01:
        way = "sure" if s.gap > 0 else "modest"
        return Verdict(
            FINE,
            f"very slightly too {way}",
            f"Very slightly too {way}: under one point.",
            Answer("For most uses yes.", f"{count(n)} cases are enough to see even {points(s.gap)} points."),
            Answer("Too high." if s.gap > 0 else "Too low.", f"By {points(s.gap)} points ({reach}). {elsewhere(v)}"),
            advice,
            command,
        )
    if s.gap > 0:
        rest = ": do not take its confidence at face value." if s.gap >= 0.03 else "."
        return Verdict(
            TOO_SURE,
            f"{s.size.lower()} too sure",
            f"{s.size} too sure of itself{rest}",
            Answer("Not as it is.", f"It claims {points(s.gap)} points too much ({reach}), more than chance explains."),
            Answer("Too high.", where_wrong(v, 1)),
            advice,
            command,
        )
    low = span(-s.high, -s.low)
    return Verdict(
        NOT_SURE,
        f"{s.size.lower()} too modest",
        f"{s.size} less sure than it could be: it is right more often than it says.",
        Answer("As a lower limit.", f"It claims {points(s.gap)} points too little ({low}), more than chance explains."),
        Answer("Too low.", where_wrong(v, -1)),
        advice,
        command,
    )


def _sound(model: ModelResults, v: Version, s: State, reach: str) -> Verdict:
    """No test finds the confidence wrong."""
    report = v.result.report
    assert report is not None
    n = v.result.n
    seen = f"off by {signed(100 * s.gap)} points ({reach}), within chance."
    off = f"Yes, as far as {count(n)} cases can show:", seen
    if "groups" in report.findings and report.groups is not None:
        g = report.groups
        worst = [(p.part, p.gap) for p in v.groups if p.beyond] or [(g.worst, g.worst_gap)]
        return _partly("groups", g.n_significant, g.n_groups, worst)
    if report.positive is not None and {"classes", "split"} & set(report.findings):
        return _of_class_1(report, off)
    if "classes" in report.findings and report.classwise is not None:
        c = report.classwise
        worst = [(p.part, p.gap) for p in v.classes if p.beyond]
        return _partly("classes", c.n_significant, len(v.classes), worst)
    if report.split is not None and "split" in report.findings:
        gain = f"{report.split.method} lowers the loss by {fixed(report.split.nll.calibration, 4)} per case."
        return Verdict(
            FINE,
            "right for the answer",
            "The stated confidence is right; the other probabilities are not.",
            Answer("For the answer yes,", "for second and third choices no."),
            Answer("Of the answer neither way.", "Classes that were not the answer get too much or too little."),
            Answer("If you use them:", gain),
        )
    return Verdict(
        FINE,
        "as stated",
        "Its confidence can be taken at face value.",
        Answer(*off),
        Answer("Neither way.", "No test finds it too sure or not sure enough."),
        Answer("Nothing.", "Measure again when the data change."),
    )


def _partly(kind: str, number: int, total: int, off: Sequence[tuple[str, float]]) -> Verdict:
    """Right overall, but not for some groups or classes. off : those that stand out, with their gaps."""
    worst = sorted(off, key=lambda each: -abs(each[1]))[:3]
    names = ", ".join(part for part, _ in worst) or f"single {kind}"
    each = "; ".join(f"{part}: {way_words(gap)}" for part, gap in worst)
    remedy = "or fit a calibrator to each group's own cases, or collect more of them."
    if kind == "classes":
        remedy = "or calibrate with a per-class method (svs, vs), or collect more such cases."
    return Verdict(
        FINE,
        f"right overall, not for {number} {kind if number > 1 else ONE[kind]}",
        f"Right overall, wrong for {number} of {total} {kind}.",
        Answer("Overall yes,", f"not for {names}."),
        Answer("It differs.", f"{each}." if each else "Some classes get too much probability, others too little."),
        Answer("Do not use it there,", remedy),
    )


def _of_class_1(report: Report, off: tuple[str, str]) -> Verdict:
    """Two classes: the confidence is right, what is said of class 1 is not."""
    assert report.positive is not None
    gap = report.positive.gap
    way = f"{points(gap)} points too {'high' if gap > 0 else 'low'} on average"
    found = f"is {way}" if "classes" in report.findings else "can be improved"
    return Verdict(
        FINE,
        "right for the answer",
        f"The stated confidence is right; the probability of class 1 {found}.",
        Answer(*off),
        Answer("Of class 1:", f"its probability is {way}."),
        Answer("If you use it:", "calibrate it, with platt or beta."),
    )


def overall(models: Sequence[ModelResults]) -> str:
    """Of several models, how many are what."""
    signs = [verdict_of(m).sign for m in models]
    words = (
        (TOO_SURE, "too sure"),
        (NOT_SURE, "not sure enough"),
        (BOTH, "wrong in places"),
        (FINE, "honest overall"),
        (UNKNOWN, "not to be told from so few cases"),
    )
    parts = [f"{n} {'is' if n == 1 else 'are'} {word}" for sign, word in words if (n := signs.count(sign))]
    return f"Of {len(models)} models {', '.join(parts)}."
