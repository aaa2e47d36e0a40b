"""Names of classes from predictions in words: the place of the largest score is named."""

from collections.abc import Sequence

from calcli.numerics import AnyArray


def names_by_place(scores: AnyArray, words: Sequence[str]) -> dict[int, str] | None:
    """Name of every place that is the largest in some row of scores (n, k).

    None where predictions of different words have their largest score at one place.
    """
    names: dict[int, str] = {}
    for place, word in zip(scores.argmax(axis=1).tolist(), words, strict=True):
        if names.setdefault(place, word) != word:
            return None
    return names
