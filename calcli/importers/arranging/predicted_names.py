"""Names of classes from predictions in words: the place of the largest score is named."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from calcli.errors import DataError
from calcli.importers.table import Column
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


def names_of_all(
    known: Mapping[int, str], k: int, listings: Iterable[Sequence[str]] = ()
) -> Sequence[str] | None:
    """Names of all k classes, of which some places are known; None if some lack one.

    listings : lists of classes, of which the first that has the known names at their
    places is taken.
    """
    for names in listings:
        if len(names) == k and known.items() <= dict(enumerate(names)).items():
            return names
    if len(set(known.values())) < k:
        return None
    return [known[place] for place in range(k)]


def required_names(
    rows: Sequence[Sequence[float]],
    words: Sequence[str],
    listings: Iterable[Sequence[str]],
    where: object,
    advice: str,
) -> Sequence[str]:
    """Names of all classes of rows of scores.

    Raises DataError where some lack one, and for rows of different lengths.
    """
    if len(set(map(len, rows))) > 1:
        raise DataError(f"{where}: the logits of samples differ in length")
    known = names_by_place(np.array(rows), words)
    if known is None:
        raise DataError(
            f"{where}: predictions of several classes have their largest logit at one"
            " place"
        )
    k = len(rows[0])
    names = names_of_all(known, k, listings)
    if names is None:
        raise DataError(
            f"{where}: the predictions name {len(known)} of {k} classes; {advice}"
        )
    return names


def names_in_columns(columns: Iterable[Column]) -> Sequence[str]:
    """Names of the classes, of one column of predicted words and one of scores.

    None are known unless every place of the largest score goes with one word, and every
    class is predicted.
    """
    words = []
    scores = []
    for column in columns:
        if column.cells == "other" or column.empty_row is not None:
            continue
        values = column.values()
        if values.dtype.kind == "U":
            words.append(values)
        elif values.dtype.kind == "f" and values.ndim == 2:
            scores.append(values)
    if len(words) != 1 or len(scores) != 1 or words[0].size != len(scores[0]):
        return ()
    known = names_by_place(scores[0], words[0].ravel().tolist())
    return names_of_all(known or {}, scores[0].shape[1]) or ()
