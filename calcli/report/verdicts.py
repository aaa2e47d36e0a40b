"""Three answers for every version: can its confidence be trusted, which way is it wrong, what to do.

What is so was judged by the evaluation (``Report``); here it only becomes sentences.
"""

from collections.abc import Sequence

from calcli.diagrams.caption_text import squeeze
from calcli.evaluation.verdict_results import Advice, Report
from calcli.fast_dataclass import dataclass
from calcli.report.advice import advice_on
from calcli.report.findings import NOWHERE, bin_sentence, elsewhere, way_words, where_wrong
from calcli.report.gather import ModelResults, Version
from calcli.report.number_format import cases, count, points, signed, span


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
        headline = f"Not a fair test: these are the cases that {v.name} was made from. {headline}"
    return Verdict(r.sign, r.word, headline, r.verdict, trusted, direction, advice_on(model, v))


def _reach(r: Report) -> str:
    return span(r.overconfidence.interval.low, r.overconfidence.interval.high)


def _too_few(v: Version, r: Report) -> tuple[str, Advice, Advice]:
    low, high = r.overconfidence.interval.low, r.overconfidence.interval.high
    return (
        "Too few cases to tell.",
        Advice("Unknown.", f"With {cases(v.result.n)} it may be anywhere from {way_words(low)} to {way_words(high)}."),
        Advice("Cannot be seen.", "The cases do not show whether it is over- or underconfident."),
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
        Advice(f"Yes, as far as {count(v.result.n)} cases can show:", off),
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
    each = "; ".join(f"{squeeze(part, 40)}: {way_words(gap)}" for part, gap in worst)
    return (
        f"Right overall, wrong for {number} of {total} {'ranges of confidence' if parts == 'bins' else parts}.",
        Advice("Overall yes,", f"not for {names}."),
        Advice("It differs.", f"{each}." if each else "Some classes get too much probability, others too little."),
    )


def _wrong_in_places(v: Version, r: Report) -> tuple[str, Advice, Advice]:
    both = " ".join(filter(None, (bin_sentence(v, 1), bin_sentence(v, -1), elsewhere(v)))) or NOWHERE
    trusted = Advice("Only the average is right.", "Single confidences are significantly off.")
    if r.tested == "confidence":
        return "Right on average, wrong in places.", trusted, Advice("Both ways.", both)
    words = r.direction.words
    headline = f"{words[0].upper()}{words[1:]}."
    return headline, Advice("Not as it is.", "The probability of class 1 is significantly off."), Advice("", both)


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
        "mixed": ("is wrong in places", "are wrong in places"),
        "calibrated": ("is calibrated", "are calibrated"),
        "too_few": ("has too few cases to tell", "have too few cases to tell"),
    }
    counts = {kind: sum(each == kind for each in kinds) for kind in words}
    parts = [f"{n} {words[kind][n > 1]}" for kind, n in counts.items() if n]
    return f"Of {len(models)} models {', '.join(parts)}."
