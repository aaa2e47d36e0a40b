"""Kinds of verdicts as signs, words and tints."""

from dataclasses import dataclass

from calcli.evaluation.results import Judgement

SIGNS = {
    "calibrated": "✓",
    "overconfident": "▲",
    "underconfident": "▼",
    "mixed": "▲▼",
    "too_few": "–",
    "check_labels": "?",
}
"""Sign of every kind of verdict, beside its word: never a colour alone."""

WORDS = {
    "calibrated": "calibrated",
    "overconfident": "overconfident",
    "underconfident": "underconfident",
    "mixed": "miscalibrated in places",
    "too_few": "too few samples",
    "check_labels": "check the labels",
}


def tone_of(report: Judgement) -> str:
    """CSS class of the tint of a verdict; too few samples are grey, not an alarm."""
    if report.kind == "calibrated":
        return "fair"
    return "unknown" if report.kind == "too_few" else "warning"


@dataclass(frozen=True)
class State:
    """A verdict as a sign and a word."""

    sign: str
    word: str


def state_of(report: Judgement) -> State:
    """The verdict in a word or two."""
    return State(SIGNS[report.kind], WORDS[report.kind])
