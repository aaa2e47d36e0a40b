"""Three short answers on a model: can I trust it, where is it wrong, what to do.

They are made from verdict, findings and next step, which the evaluation has; each has
at most ``MOST_WORDS`` words.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from calcli.evaluation.facts import Estimate, Facts
from calcli.evaluation.findings import DOUBTS, Finding
from calcli.evaluation.levels import WIDE
from calcli.evaluation.results import Judgement
from calcli.evaluation.verdict import TWO_SIDED, spread_sign
from calcli.evaluation.words import (
    finding_line,
    name_words,
    samples_needed,
    small,
)
from calcli.reporting.gather import ModelResults, Version
from calcli.reporting.number_format import (
    count,
    points,
    samples,
    sentence,
    signed_points,
    span,
    typeset,
)

MOST_WORDS = 25
"""Words of an answer."""

TINY_GAP = 0.01
"""Overconfidence below which a significant gap matters for few uses."""

PLACES = {
    "groups": "groups",
    "classes": "single classes",
    "range": "ranges of confidence",
    "errors": "single confidences",
}
"""Kinds of findings that say where scores are wrong, and what their places are called."""


@dataclass(frozen=True)
class Answer:
    """An answer: a few words that are the answer, and the rest of it."""

    lead: str
    rest: str = ""

    @property
    def words(self) -> list[str]:
        """All of its words."""
        return f"{self.lead} {self.rest}".split()


@dataclass(frozen=True)
class Answers:
    """The three answers."""

    trust: Answer
    where: Answer
    action: Answer


def answers_on(model: ModelResults) -> Answers:
    """The answers on the version that the page speaks of, and what to do."""
    version = model.versions[model.focus]
    return Answers(
        trust=shortened(trust(version)),
        where=shortened(where(version.report)),
        action=shortened(action(model)),
    )


def shortened(answer: Answer) -> Answer:
    """The answer with at most ``MOST_WORDS`` words; a name may have any number."""
    if len(answer.words) <= MOST_WORDS:
        return answer
    lead = answer.lead.split()[:MOST_WORDS]
    rest = answer.rest.split()[: MOST_WORDS - len(lead)]
    return Answer(" ".join(lead), f"{' '.join(rest)}…" if rest else "")


# ---- can I trust it?


def trust(version: Version) -> Answer:
    """Whether the probabilities of a version can be trusted."""
    report = version.report
    answer = _TRUST[report.kind](report)
    doubt = _doubt(report)
    if doubt is None or report.kind == "check_labels":
        return answer
    if not report.verdict.has_findings:
        return Answer("With caution:", sentence(doubt))
    longer = Answer(answer.lead, f"{answer.rest} Doubt: {doubt.rstrip('.')}.")
    if len(longer.words) <= MOST_WORDS:
        return longer
    return Answer(answer.lead, f"{answer.rest} There are doubts about the data.")


def _doubt(report: Judgement) -> str | None:
    """The line of the first doubt about the rows or the fit."""
    for finding in report.findings:
        if finding.kind in DOUBTS:
            return typeset(finding_line(finding))
    return None


def _trust_calibrated(report: Judgement) -> Answer:
    limit = _finding(report, "left_by_fit")
    if limit is not None:
        n_fit = count(limit.numbers["n_fit"])
        cost = small(limit.numbers["nll"])
        left = f"Up to the error of a fit to {n_fit} samples, about {cost} nats."
        return Answer("Yes.", left)
    gap = report.facts.main_gap
    size = f"The gap of {signed_points(gap.value)} points ({_ends(gap)})"
    return Answer("Yes.", f"{size} is not significant.")


def _ends(gap: Estimate) -> str:
    return span(gap.interval.low, gap.interval.high)


def _trust_one_way(report: Judgement) -> Answer:
    facts = report.facts
    if facts.is_about_class_one:
        return _trust_risks(facts)
    gap = facts.overconfidence
    if report.verdict.by_nll_only:
        reason = f"NLL shows {report.kind} probabilities ({report.p_text})."
        return Answer("On average.", reason)
    low = gap.interval.low
    high = gap.interval.high
    if gap.value > 0.0:
        lead = "No." if abs(gap.value) >= TINY_GAP else "For most uses."
        much = f"It claims {points(gap.value)} points too much"
        return Answer(lead, f"{much} ({span(low, high)}).")
    much = f"It is right {points(gap.value)} points more often than it says"
    return Answer("As a lower limit.", f"{much} ({span(-high, -low)}).")


def _trust_risks(facts: Facts) -> Answer:
    """Of P(class 1): whether its spread or its mean is off."""
    sign = spread_sign(facts, facts.judged)
    spread = "too extreme" if sign > 0 else "too moderate"
    if abs(facts.judged.gap.z) <= TWO_SIDED:
        if not sign:
            return Answer("On average.", "Single risks are significantly off.")
        return Answer("On average.", f"Single risks are {spread}.")
    gap = facts.main_gap
    level = "high" if gap.value > 0.0 else "low"
    size = f"On average they are {points(gap.value)} points too {level}"
    off = f"{size} ({_ends(gap)})."
    if sign:
        return Answer(f"No: risks are {spread}.", off)
    return Answer("No: risks are off.", off)


def _trust_mixed(report: Judgement) -> Answer:
    facts = report.facts
    if facts.is_about_class_one and "confidence" in report.verdict.significant:
        return _trust_risks(facts)
    significant = report.verdict.significant
    for part in ("groups", "classes"):
        if part in significant:
            return Answer("Overall.", f"Single {part} are significantly off.")
    if significant == ("split",):
        other = "The probabilities of the other classes could be better."
        return Answer("The confidence, yes.", other)
    return Answer("On average.", "Single confidences are significantly off.")


def _trust_too_few(report: Judgement) -> Answer:
    gap = report.facts.main_gap
    if not gap.interval.known:
        return Answer("Unknown.", sentence(gap.interval.method))
    low = gap.interval.low
    high = gap.interval.high
    ends = f"{signed_points(low)} and {signed_points(high)} points"
    return Answer("Unknown.", f"The gap may be anywhere between {ends}.")


def _trust_check_labels(report: Judgement) -> Answer:
    if report.facts.doubts:
        return Answer("No.", "Every number here rests on labels that hardly fit.")
    optimistic = "The scores seem to be fitted to these very rows."
    return Answer("Not these numbers.", optimistic)


_TRUST: Mapping[str, Callable[[Judgement], Answer]] = {
    "calibrated": _trust_calibrated,
    "overconfident": _trust_one_way,
    "underconfident": _trust_one_way,
    "mixed": _trust_mixed,
    "too_few": _trust_too_few,
    "check_labels": _trust_check_labels,
}


# ---- where is it wrong?


def where(report: Judgement) -> Answer:
    """The place that miscalibration shows in most, as the findings name it."""
    if report.kind == "check_labels":
        return Answer("Unknown.", "Look at labels and samples first.")
    places = [finding for finding in report.findings if finding.kind in PLACES]
    if places:
        return _place_answer(places)
    if report.kind == "too_few":
        return Answer("Cannot be seen.", "So few samples show no single place.")
    parts = _parts_words(report.facts)
    if report.verdict.has_findings:
        if report.verdict.significant == ("split",):
            return Answer("Beside the prediction.", f"No {parts} stands out.")
        return Answer("Everywhere a little.", f"No single {parts} stands out.")
    return Answer("No place found.", f"No {parts} is significantly off.")


def _parts_words(facts: Facts) -> str:
    """The parts that were tested, ``bin, class or group``."""
    parts = ["bin"]
    if facts.classes is not None and not facts.is_about_class_one:
        parts.append("class")
    if facts.groups is not None:
        parts.append("group")
    if len(parts) == 1:
        return parts[0]
    return f"{', '.join(parts[:-1])} or {parts[-1]}"


def _place_answer(places: Sequence[Finding]) -> Answer:
    """The line of the first place, and which other kinds of places there are."""
    line = typeset(finding_line(places[0]))
    head, colon, rest = line.partition(": ")
    lead = sentence(line)
    text = ""
    if colon:
        lead = f"{head[:1].upper()}{head[1:]}:"
        text = f"{rest.rstrip('.')}."
    others = [finding.kind for finding in places[1:]]
    if others:
        names = " and ".join(PLACES[kind] for kind in others)
        longer = f"{text} Also {names}.".lstrip()
        if len(f"{lead} {longer}".split()) <= MOST_WORDS:
            text = longer
    return Answer(lead, text)


# ---- what to do?


def action(model: ModelResults) -> Answer:
    """What to do next, as the next step of the evaluation has it."""
    first = model.versions[0]
    report = first.report
    if report.kind == "check_labels":
        return _check_first(report)
    best = first
    if model.recommended is not None:
        best = model.versions[model.recommended]
    remedy = _finding(best.report, "by_group")
    if remedy is not None and remedy.numbers["helps"]:
        return _fit_by_group(remedy)
    if best is not first:
        return _apply_or_check(best, report, model.n)
    harmful = _harmful(model.versions[1:])
    if harmful is not None:
        return Answer(
            f"Leave {name_words(harmful.name)} out.", _effect(harmful, model.n)
        )
    if not report.verdict.has_findings:
        return _nothing_found(report)
    return _try_methods(model, report)


def _check_first(report: Judgement) -> Answer:
    """Look at the data before anything else."""
    if report.facts.doubts:
        compare = "Compare their order and the classes' with the source of the scores."
        return Answer("Check the labels.", compare)
    return Answer("Evaluate other samples.", "Those that no calibrator was fitted to.")


def _fit_by_group(remedy: Finding) -> Answer:
    """Fit a map for every group."""
    numbers = remedy.numbers
    columns = name_words(" and ".join(numbers["by"]))
    gain = f"reduces {numbers['loss']} by {small(-numbers['change'])}"
    return Answer(
        f"Fit by {columns}.", f"It {gain} beyond one map for all (cross-fitted)."
    )


def _apply_or_check(version: Version, report: Judgement, n: int) -> Answer:
    """Apply the recommended calibrator, or see it on other samples first."""
    name = name_words(version.name)
    if report.next_step.checks:
        fitted = "It was fitted on these, so that its results here are optimistic."
        return Answer(f"Check {name} on other samples.", fitted)
    return Answer(f"Apply {name}.", _effect(version, n))


def _effect(version: Version, n: int) -> str:
    """What a calibrator does to the loss and to the predictions."""
    finding = _finding(version.report, "effect")
    moved = predictions_words(version.n_changed, n)
    if finding is None:
        return f"{moved}."
    numbers = finding.numbers
    way = "reduces" if numbers["change"] < 0.0 else "raises"
    change = f"It {way} {numbers['loss']} by {small(abs(numbers['change']))}"
    return f"{change}. {moved}."


def predictions_words(n_changed: int, n: int) -> str:
    """Whether predictions change, and how many."""
    if n_changed == 0:
        return "Predictions do not change"
    verb = "changes" if n_changed == 1 else "change"
    return f"{count(n_changed)} of {count(n)} predictions {verb}"


def _harmful(versions: Sequence[Version]) -> Version | None:
    """The only calibrator, if it makes the loss significantly worse."""
    if len(versions) != 1:
        return None
    change = versions[0].result.loss_change
    if change is None or not change.is_significant or change.value <= 0.0:
        return None
    return versions[0]


def _nothing_found(report: Judgement) -> Answer:
    """There is no miscalibration, or there are too few samples to see it."""
    if report.kind == "too_few":
        needed = samples_needed(report.facts)
        target = f"±{round(100 * WIDE)} points"
        if needed > report.facts.data.n:
            enough = f"{samples(needed)} in all show the gap to within {target}."
            return Answer("Label more samples.", enough)
        return Answer("Label more samples.", "Until then, do not rely on it.")
    return Answer("Nothing.", "Measure again when the data change.")


def _try_methods(model: ModelResults, report: Judgement) -> Answer:
    """Miscalibrated, and no calibrator that was evaluated is shown to help."""
    has_command = report.next_step.command is not None
    if len(model.versions) > 1:
        if has_command:
            return Answer("Try another method.", "None of these is shown to help.")
        label = "None of these is shown to help; more calibration samples may."
        return Answer("Label more samples.", label)
    gain = _finding(report, "gain")
    if gain is not None:
        size = f"It could reduce NLL by about {small(gain.numbers['nll'])}"
        return Answer("Fit a calibrator.", f"{size} (cross-validated).")
    if has_command:
        command = "The command fits one and judges it on held-out samples."
        return Answer("Fit a calibrator.", command)
    return Answer("Fit a calibrator.", "Judge it on samples that it has not seen.")


def _finding(report: Judgement, kind: str) -> Finding | None:
    """The finding of a kind, if the report has it."""
    for finding in report.findings:
        if finding.kind == kind:
            return finding
    return None


# ---- several models


def headline_of_several(models: Sequence[ModelResults]) -> str:
    """How many models have each kind of verdict, uncalibrated."""
    kinds: list[str] = [model.versions[0].report.kind for model in models]
    parts = []
    for kind, (one, several) in _KIND_WORDS.items():
        n = kinds.count(kind)
        if n:
            parts.append(f"{count(n)} {one if n == 1 else several}")
    return f"Of {count(len(models))} models {', '.join(parts)}."


_KIND_WORDS = {
    "check_labels": (
        "needs its labels checked first",
        "need their labels checked first",
    ),
    "overconfident": ("is overconfident", "are overconfident"),
    "underconfident": ("is underconfident", "are underconfident"),
    "mixed": ("is miscalibrated in places", "are miscalibrated in places"),
    "calibrated": ("is calibrated", "are calibrated"),
    "too_few": ("has too few samples", "have too few samples"),
}


def actions_of_several(models: Sequence[ModelResults]) -> list[tuple[str, int]]:
    """What to do about the models, and the number of models that need it."""
    leads = [action(model).lead.rstrip(".:") for model in models]
    return [(lead, leads.count(lead)) for lead in dict.fromkeys(leads)]
