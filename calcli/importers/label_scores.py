"""Lines of text with the scores of labels: ``cat:0.9 dog:0.1`` and other spellings."""

from collections.abc import Mapping, Sequence

from calcli.importers.arranging.distributions import Ranks
from calcli.io.cells import is_number
from calcli.rounding import SUM_TOLERANCE


def scores_by_label(labels: Sequence[str], scores: Sequence[str]) -> Ranks | None:
    """The scores of distinct labels.

    None where they are no pairs, where a label stands twice, or a score is no number.
    """
    if len(labels) != len(scores) or len(set(labels)) < len(labels):
        return None
    if not all(map(is_number, scores)):
        return None
    return Ranks(zip(labels, map(float, scores), strict=True))


def scores_with_colons(text: str) -> Ranks | None:
    """The scores of ``cat:0.9 dog:0.1``; a label may have colons itself."""
    labels = []
    scores = []
    for pair in text.split():
        label, _, score = pair.rpartition(":")
        labels.append(label)
        scores.append(score)
    return scores_by_label(labels, scores)


def is_distribution(scores: Mapping[str, float]) -> bool:
    """True for numbers from 0 on that sum to 1."""
    numbers = scores.values()
    return min(numbers) >= 0.0 and abs(sum(numbers) - 1.0) <= SUM_TOLERANCE
