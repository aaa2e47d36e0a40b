"""What to do about a version that is wrong: apply a calibrator that was given, or make one."""

import math
import shlex

from calcli.evaluation.verdict_results import Advice
from calcli.metrics.intervals import normal_quantile
from calcli.report.findings import bin_sentence, elsewhere
from calcli.report.gather import CalibratorFacts, ModelResults, Version
from calcli.report.number_format import count, points, signed, span

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
        why = "It was made from these very cases, on which it cannot fail: what it does on others is not known."
        command = shlex.join(["calcli", "report", "OTHERS.h5", "--calibrator", facts.path, "-o", "others.html"])
        return Advice(f"Try {best.name} on other cases.", why, command)
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
