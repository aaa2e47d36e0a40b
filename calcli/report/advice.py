"""What to do about a version that is wrong: apply a calibrator that was given, or make one."""

import math
import shlex

from calcli.fast_dataclass import dataclass
from calcli.metrics.intervals import normal_quantile
from calcli.report.findings import LEVEL, REACH, elsewhere, state_of, window_sentence
from calcli.report.gather import CalibratorFacts, ModelResults, Version
from calcli.report.number_format import count, fixed, points, span


@dataclass(frozen=True)
class Answer:
    """lead : the answer in a few words. rest : why."""

    lead: str
    rest: str = ""


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


def advice_on(model: ModelResults, v: Version) -> tuple[Answer, str]:
    """What to do about a version that is wrong, and the command for it."""
    if v is not model.versions[0]:
        return Answer("See the comparison.", "Whether another version does better stands in the table below."), ""
    best = best_version(model)
    if best is not None and best.facts is not None:
        return _apply(model, best, best.facts)
    fit, command = _fit(model, v)
    if len(model.versions) == 1:
        return fit, command
    worse = [o.name for o in model.versions[1:] if o.nll_gaps[0][0] > REACH * o.nll_gaps[0][1]]
    out = f" With {' and '.join(worse)} it gets worse." if worse else ""
    again = f"{fit.rest[0].upper()}{fit.rest[1:]}"
    return Answer("None of these helps.", f"{out} {again}".strip()), command


def _apply(model: ModelResults, best: Version, facts: CalibratorFacts) -> tuple[Answer, str]:
    """Take a calibrator that was given, and what is left wrong with it."""
    if facts.same_rows:
        why = "It was made from these very cases, on which it cannot fail: what it does on others is not known."
        command = shlex.join(["calcli", "report", "OTHERS.h5", "--calibrator", facts.path, "-o", "others.html"])
        return Answer(f"Try {best.name} on other cases.", why), command
    s = state_of(best)
    way = "too much" if s.gap >= 0 else "too little"
    kept = "none" if not best.changed else count(best.changed)
    rest = f"Then it claims {points(s.gap)} points {way} on average ({span(s.low, s.high)})."
    still = " ".join(filter(None, (window_sentence(best, largest=True), elsewhere(best))))
    if still:
        rest += f" Still: {still[0].lower()}{still[1:]}"
    command = shlex.join(["calcli", "apply", facts.path, model.typed, "-o", "calibrated.h5"])
    rest += f"{_apart(best)} It changes {kept} of its answers."
    return Answer(f"Apply the calibrator {best.name}.", rest), command


def _apart(v: Version) -> str:
    """What groups that differ ask for."""
    report = v.result.report
    return "" if report is None or "groups" not in report.findings else " Groups need calibrators of their own."


def _fit(model: ModelResults, v: Version) -> tuple[Answer, str]:
    """Make a calibrator: by which method, and what it may be worth, where the split of the loss tells."""
    report = v.result.report
    split = None if report is None else report.split
    if split is None or split.nll.z <= normal_quantile(1 - LEVEL):
        method = "ts" if model.k > 1 else "platt"
        rest = f"fit a calibrator on other labelled cases of this model, and compare.{_apart(v)}"
        return Answer("Correct it:", rest), f"calcli fit --method {method} OTHERS.h5"
    by_temperature = split.temperature_nll.calibration >= 0.9 * split.nll.calibration
    gain = split.temperature_nll.calibration if by_temperature else split.nll.calibration
    # A scale and a bias of each of two log-probabilities are beta calibration's two slopes and its bias.
    method = "ts" if by_temperature else "beta" if model.k == 2 else split.method
    worth = f"which should lower the loss by about {fixed(gain, 3)} per case"
    rest = f"fit a calibrator ({method}) on other labelled cases of this model, {worth}.{_apart(v)}"
    return Answer("Correct it:", rest), shlex.join(["calcli", "fit", "--method", method, "OTHERS.h5"])
