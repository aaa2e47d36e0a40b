"""Three answers for every version: can its confidence be trusted, which way is it wrong, what to do.

The first rule that fits speaks. Significance comes first and size second; neither replaces
the other. The tests are those of the evaluation; here they only become sentences.
"""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from calcli.evaluation.judgement import Report
from calcli.metrics.means import normal_quantile
from calcli.report.gather import WINDOW_ROWS, Model, Version, Window
from calcli.report.phrases import cases, count, fixed, per_cent, points, span

__all__ = ["Answer", "Verdict", "best_version", "state_of", "verdict_of", "window_sentence"]

LEVEL = 0.05
FEW = 30
WIDE = 0.02
"""Half width of the gap's interval above which "no difference found" says nothing."""

SIZES = ((0.01, "Very slightly"), (0.03, "A little"), (0.08, "Clearly"), (math.inf, "Much"))
TOO_SURE, NOT_SURE, BOTH, FINE, UNKNOWN = "▲", "▼", "▲▼", "✓", "?"


@dataclass(frozen=True)
class Answer:
    """lead : the answer in a few words. rest : why."""

    lead: str
    rest: str = ""


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
    beyond = abs(report.direction.gap_z) > normal_quantile(1 - LEVEL / 2)
    size = next(word for limit, word in SIZES if abs(gap) < limit)
    return State(gap, low, high, beyond, report.p_value <= LEVEL, size)


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


def best_version(model: Model) -> Version | None:
    """The calibrator to apply: the first given whose loss cannot be told from the least.

    Only those count that lower the loss beyond chance and whose accuracy does not fall
    beyond it. None where there is none.
    """
    reach = normal_quantile(1 - LEVEL / 2)

    def beyond(version: Version, other: int) -> bool:
        value, se = version.nll_gaps[other]
        return value > reach * se if math.isfinite(se) else False

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


def verdict_of(model: Model, version: Version | None = None) -> Verdict:
    """The verdict of one version, by default of the scores as they are with advice on all calibrators."""
    v = version or model.versions[0]
    s = state_of(v)
    found = _rules(model, v, s)
    if v.facts is not None and v.facts.same_rows:
        found = Verdict(
            found.sign,
            found.word,
            f"Not a fair test: these are the cases that {v.name} was made from. {found.headline}",
            found.trusted,
            found.direction,
            found.advice,
            found.command,
        )
    return found


def _too_few(n: int, s: State) -> Verdict:
    """Not enough to tell, and how many would be."""
    half, reach = s.half, span(s.low, s.high)
    if n < FEW:  # so few cases do not know their own spread: that of a coin
        half, middle = max(half, 0.98 / math.sqrt(n)), (s.low + s.high) / 2
        reach = span(max(middle - half, -1.0), min(middle + half, 1.0))
    wanted = count(max(math.ceil(n * (half / 0.01) ** 2 / 100 - 1e-9) * 100, 100))
    return Verdict(
        UNKNOWN,
        "cannot be told",
        "Too few cases to tell.",
        Answer("Unknown.", f"With {cases(n)} it may be anywhere from {reach} points off."),
        Answer("Cannot be seen.", "The cases do not show whether it is too sure or not sure enough."),
        Answer(f"Label about {wanted} cases", "for ±1 point. Until then do not rely on it."),
    )


def _rules(model: Model, v: Version, s: State) -> Verdict:
    n = v.result.n
    reach = span(s.low, s.high)
    if n < FEW or (not s.wrong and s.half > WIDE):
        return _too_few(n, s)
    if not s.wrong:
        return _sound(model, v, s, reach)
    advice, command = _advice(model, v)
    if not s.beyond:
        both = [window_sentence(v, 1), window_sentence(v, -1)]
        advice = Answer(advice.lead, f"{advice.rest} A temperature alone cannot mend it.".strip())
        return Verdict(
            BOTH,
            "wrong in places",
            "Right on average, wrong in places.",
            Answer("Only the average is right.", "Single confidences are off by more than chance explains."),
            Answer("Both ways.", " ".join(filter(None, both)) or _where(v)),
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
            Answer("Too high." if s.gap > 0 else "Too low.", f"By {points(s.gap)} points ({reach})."),
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
            Answer("Too high.", window_sentence(v, 1)),
            advice,
            command,
        )
    low = span(-s.high, -s.low)
    return Verdict(
        NOT_SURE,
        f"{s.size.lower()} too modest",
        f"{s.size} less sure than it could be: it is right more often than it says.",
        Answer("As a lower limit.", f"It claims {points(s.gap)} points too little ({low}), beyond chance."),
        Answer("Too low.", window_sentence(v, -1)),
        advice,
        command,
    )


def _sound(model: Model, v: Version, s: State, reach: str) -> Verdict:
    """No test finds the confidence wrong."""
    report = v.result.report
    assert report is not None
    n = v.result.n
    off = f"Yes, as far as {count(n)} cases can show:", f"off by {signed_points(s.gap)} points ({reach})."
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
    each = "; ".join(f"{part}: {points(gap)} points {'too sure' if gap > 0 else 'too modest'}" for part, gap in worst)
    return Verdict(
        FINE,
        f"right overall, not for {number} {kind}",
        f"Right overall, wrong for {number} of {total} {kind}.",
        Answer("Overall yes,", f"not for {names}."),
        Answer("It differs.", f"{each}." if each else "Some classes get too much probability, others too little."),
        Answer("Do not use it there,", "calibrate with a per-class method (svs, vs), or collect more such cases."),
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


def signed_points(gap: float) -> str:
    """Points with a sign where there is one to show."""
    shown = points(gap)
    return shown if float(shown) == 0 else f"{'+' if gap > 0 else '−'}{shown}"


def _where(v: Version) -> str:
    return "The tests over all confidences together find it; no single range stands out."


def _advice(model: Model, v: Version) -> tuple[Answer, str]:
    """What to do about a version that is wrong, and the command for it."""
    if v is not model.versions[0]:
        return Answer("See the comparison.", "Whether another version does better stands in the table below."), ""
    best = best_version(model)
    if best is not None and best.facts is not None:
        s = state_of(best)
        way = "too much" if s.gap >= 0 else "too little"
        still = window_sentence(best, largest=True)
        kept = "none" if not best.changed else count(best.changed)
        rest = f"Then it claims {points(s.gap)} points {way} on average ({span(s.low, s.high)})."
        if still:
            rest += f" Still: {still[0].lower()}{still[1:]}"
        rest += f" It changes {kept} of its answers."
        command = shlex.join(["calcli", "apply", best.facts.path, model.name, "-o", "calibrated.h5"])
        return Answer(f"Apply {best.name}.", rest), command
    if len(model.versions) > 1:
        return Answer("None of these helps.", "No calibrator given lowers the loss beyond chance."), ""
    report = v.result.report
    split = None if report is None else report.split
    if split is not None and split.nll.z > normal_quantile(1 - LEVEL):
        by_temperature = split.temperature_nll.calibration >= 0.9 * split.nll.calibration
        method = "ts" if by_temperature else split.method
        gain = split.temperature_nll.calibration if by_temperature else split.nll.calibration
        rest = f"On other cases with labels; expect a loss lower by about {fixed(gain, 3)} per case."
        return Answer(f"Fit a calibrator: {method}.", rest), shlex.join(["calcli", "fit", "--method", method, "BUNDLE"])
    method = "ts" if model.k > 1 else "platt"
    answer = Answer("Fit a calibrator", "on other cases with labels, and compare.")
    return answer, f"calcli fit --method {method} BUNDLE"


def overall(models: Sequence[Model]) -> str:
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
