"""Scores that are refused: by their own values, or by their labels and names."""

import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.building.word_labels import ClassLabels
from calcli.importers.evidence.lookalikes import (
    FEWEST_RANKED,
    are_probabilities,
    is_never_below_half,
    is_one_hot,
)
from calcli.importers.evidence.signs import ranks_reversed
from calcli.importers.names.array_names import parse_name
from calcli.importers.names.opposites import OPPOSITES, opposite_words
from calcli.importers.names.roles import is_prediction
from calcli.importers.reading import Reading
from calcli.numerics import AnyArray, IntArray
from calcli.rows import ScoreKind

MOST_RANKED = 1 << 13
"""Rows whose scores are held against two words in the order of the alphabet."""

# ---- by their own values


def refuse_predictions(scores: Any, kind: ScoreKind, where: str) -> None:
    """Raise DataError for predictions (every row one-hot) instead of scores."""
    if kind == "log_probs" or not is_one_hot(scores):
        return
    raise DataError(
        f"{where}: every row is a bare prediction (zeros and a one), without a"
        " confidence to calibrate; save the model's outputs before argmax"
    )


def refuse_probabilities(scores: Any, kind: ScoreKind, where: str) -> None:
    """Raise DataError for probabilities under the name of logits."""
    if kind != "logits" or not are_probabilities(scores):
        return
    message = "these logits look like probabilities: every row lies in [0, 1]"
    if len(scores.shape) > 1 and scores.shape[1] > 1:
        message += " and sums to 1"
    raise DataError(
        f"{where}: {message}; pass --kind probs if they are, --kind logits if they are"
        " not",
        option=["--kind", "probs"],
    )


def refuse_confidences(
    scores: Any, labels: IntArray, kind: ScoreKind, where: str
) -> None:
    """Raise DataError for one column of probabilities that is never below 1/2.

    Both classes occur, so these are not probabilities of class 1.
    """
    is_wide = len(scores.shape) == 2 and scores.shape[1] > 1
    if kind != "probs" or is_wide or scores.shape[0] < 2 * FEWEST_RANKED:
        return
    if len(np.unique(labels)) < 2 or not is_never_below_half(scores):
        return
    raise DataError(
        f"{where}: no value is below .5 though both classes occur: is it the"
        " confidence of the prediction? --confidence NAME --correct NAME; else"
        " --scores NAME --labels NAME"
    )


# ---- by their labels and names


def refuse_other_column(
    raw: AnyArray, n: int, word: str | None, where: str, labels_where: str
) -> None:
    """Raise DataError for one column of scores that is not that of class 1.

    Its labels or its name tell. word : the class that the column is named after, or
    None.
    """
    if raw.shape == (n,) and raw.dtype.kind in "iu" and raw.max() > 1:
        row = int(np.argmax(raw > 1))
        raise DataError(
            f"{labels_where}: row {row} has label {raw.max()}, but there is one score"
            " a row: is it the confidence of a prediction? --confidence NAME"
            " --correct GUESS=LABEL; of labels 1 and 2 subtract 1"
        )
    if word is None:
        return
    is_known = raw.ndim == 1 and word in np.unique(raw).tolist()
    if is_known or not _is_of_class_0(word):
        return
    raise DataError(
        f"{where}: the one column of scores is that of {word!r}: of class 0? One score"
        " a row is that of class 1: save the other column, or 1 - p, of a logit -z;"
        " --scores NAME takes it as it is"
    )


def refuse_reversed_alphabet(
    scores: Any,
    class_labels: ClassLabels,
    where: str,
    option_for: Callable[[str, str], str],
) -> None:
    """Raise DataError where the alphabet alone orders two words, and the scores rank
    them the other way.

    option_for : returns the option that gives the names of class 0 and class 1.
    """
    if not class_labels.is_by_alphabet or class_labels.class_names is None:
        return
    rows = np.asarray(scores[:MOST_RANKED])
    labels = class_labels.labels[: len(rows)]
    margins = rows[:, 1] - rows[:, 0] if rows.shape[1:] == (2,) else rows.reshape(-1)
    is_class = (labels == 0) | (labels == 1)
    if not ranks_reversed(margins[is_class], labels[is_class]):
        return
    first, second = class_labels.class_names
    raise DataError(
        f"{where}: nothing says which of {first!r} and {second!r} is class 1, and the"
        f" scores are higher where the label is {first!r}; {option_for(second, first)}"
        f" takes {first!r} for class 1, {option_for(first, second)} takes {second!r}",
        option=["--class-names", f"{second},{first}"],
    )


def refuse_top_confidence(raw: AnyArray, reading: Reading, where: str) -> None:
    """Raise DataError for one score a row beside three or more words and a prediction:
    it is the confidence of that prediction.

    raw, where : of the labels.
    """
    words = _distinct_words(raw)
    if len(words) < 3:
        return
    for path, column in reading.columns.items():
        is_other = path not in (reading.scores, reading.labels)
        if not is_other or not is_prediction(parse_name(path).core):
            continue
        predicted: set[str] = set()
        with suppress(DataError):  # it is not used
            predicted = _distinct_words(column.values())
        if words & predicted:
            outcome = f"{path}={reading.labels}"
            options = ["--confidence", reading.scores, "--correct", outcome]
            raise DataError(
                f"{where}: one score a row, and labels of {len(words)} words: is it the"
                f" confidence of {path!r}? {shlex.join(options)}",
                option=options,
            )


def _distinct_words(values: AnyArray) -> set[str]:
    """The words of a column; none of a column of numbers or lists."""
    if values.ndim != 1 or values.dtype.kind != "U":
        return set()
    return set(np.unique(values).tolist())


def _is_of_class_0(word: str) -> bool:
    """True for a name whose last word means class 0; single letters only alone."""
    last = re.split(r"[\W_]+", word.lower())[-1]
    for opposite, _ in OPPOSITES:
        is_clear = len(opposite) > 1 or opposite == "0" or opposite == word.lower()
        if is_clear and last == opposite:
            return True
    return False


def is_reversed_pair(names: Sequence[str], raw: AnyArray) -> bool:
    """True for two classes in the order yes, no beside labels 0 and 1."""
    words = opposite_words(names)
    if words is None or words in OPPOSITES:
        return False
    is_truth = raw.dtype.kind == "b" and words != ("true", "false")
    return raw.dtype.kind in "iuf" or is_truth


def refuse_other_order(
    raw: AnyArray, names: Sequence[str], columns: Sequence[str], where: str
) -> None:
    """Raise DataError for two columns in the order yes, no beside labels 0 and 1.

    names : of the classes. columns : that hold their scores.
    """
    if not is_reversed_pair(names, raw):
        return
    in_order = ",".join(reversed(columns))
    raise DataError(
        f"{where}: has the columns of {names[0]!r} and {names[1]!r} in this order, so"
        f" that label 1 would be {names[1]!r}; name the columns of 0 and 1 in their"
        f" order: --scores {shlex.quote(in_order)}; --class-names {','.join(names)}"
        " takes them as they are",
        option=["--scores", in_order],
    )
