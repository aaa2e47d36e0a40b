"""The field ``confidence`` of an answer: which function of its probabilities it is.

It is no probability of being right. Models compute it from the distribution, each in
another way, and people gate on it. The formula that all rows prove is known by name, so
that it can be computed of calibrated probabilities too.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from calcli.decisions.answers import AnswerType

Probabilities = Sequence[float]

LARGEST_DIFFERENCE = 0.03
"""Difference up to which a formula is proven: both sides have two decimals."""

FEWEST_ROWS = 5


def above_chance(p: Probabilities) -> float:
    """(max - 1/k) / (1 - 1/k)"""
    chance = 1.0 / len(p)
    return (max(p) - chance) / (1.0 - chance)


def closeness_to_mode(p: Probabilities) -> float:
    """1 - E|level - mode| / d, d the same of equal shares around the middle."""
    levels = range(len(p))
    mode = max(levels, key=lambda level: p[level])
    middle = (len(p) - 1) / 2.0
    spread = sum(abs(level - middle) for level in levels) / len(p)
    distance = sum(p[level] * abs(level - mode) for level in levels)
    return 1.0 - distance / spread


def certainty(p: Probabilities) -> float:
    """1 - H / ln k, H the entropy."""
    entropy = -sum(share * math.log(share) for share in p if share > 0.0)
    return 1.0 - entropy / math.log(len(p))


def concentration(p: Probabilities) -> float:
    """(sum p^2 - 1/k) / (1 - 1/k)"""
    chance = 1.0 / len(p)
    return (sum(share * share for share in p) - chance) / (1.0 - chance)


def largest(p: Probabilities) -> float:
    """max p"""
    return max(p)


FORMULAS: Mapping[str, Callable[[Probabilities], float]] = {
    "above_chance": above_chance,
    "closeness_to_mode": closeness_to_mode,
    "certainty": certainty,
    "concentration": concentration,
    "largest": largest,
}

WORDS: Mapping[str, str] = {
    "above_chance": "(max - 1/k) / (1 - 1/k)",
    "closeness_to_mode": "1 - mean distance from the mode / that of equal shares",
    "certainty": "1 - entropy / ln k",
    "concentration": "(sum of squares - 1/k) / (1 - 1/k)",
    "largest": "the largest probability",
}
"""Formulas in words."""


class ConfidenceProof:
    """Largest difference of each formula from the field, over the rows added."""

    def __init__(self, type: AnswerType) -> None:
        self.n = 0
        self.differences = dict.fromkeys(_names(type), 0.0)

    def add(self, probabilities: Probabilities, confidence: float) -> None:
        """Compare the formulas with one row. Levels are in their order."""
        self.n += 1
        for name, difference in self.differences.items():
            computed = FORMULAS[name](probabilities)
            self.differences[name] = max(difference, abs(computed - confidence))

    @property
    def formula(self) -> str | None:
        """Name of the formula that all rows prove; None for none."""
        if self.n < FEWEST_ROWS:
            return None
        best = min(self.differences, key=lambda name: self.differences[name])
        return best if self.differences[best] <= LARGEST_DIFFERENCE else None


def _names(type: AnswerType) -> Iterable[str]:
    for name in FORMULAS:
        if name != "closeness_to_mode" or type == "score":
            yield name
