"""Scores that are refused or doubted: by their values, labels, names, or by logs."""

import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.building.labels import ClassLabels
from calcli.importers.evidence.blocks import blocks
from calcli.importers.evidence.classes import class_of_each_row, counts_from_1
from calcli.importers.evidence.label_evidence import has_largest
from calcli.importers.evidence.lookalikes import (
    FEWEST_RANKED,
    are_probabilities,
    is_never_below_half,
    is_one_hot,
)
from calcli.importers.evidence.signs import ranks_reversed
from calcli.importers.names.array_names import parse_name
from calcli.importers.names.opposites import OPPOSITES, opposite_words
from calcli.importers.names.roles import is_prediction, says_correct
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns
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


def refuse_top_confidence(
    raw: AnyArray, columns: Columns, score: str, label: str, where: str
) -> None:
    """Raise DataError for one score a row beside three or more words and a prediction:
    it is the confidence of that prediction.

    score, label : paths of the columns.
    """
    words = _distinct_words(raw)
    if len(words) < 3:
        return
    for path, column in columns.items():
        is_other = path not in (score, label)
        if not is_other or not is_prediction(parse_name(path).core):
            continue
        predicted: set[str] = set()
        with suppress(DataError):  # it is not used
            predicted = _distinct_words(column.values())
        if words & predicted:
            options = ["--confidence", score, "--correct", f"{path}={label}"]
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


# ---- by logged predictions and outcomes

ORDER_HINT = (
    ": are the columns in the order of the classes, the rows in the same order?"
)


def check_logs(
    scores: Any,
    path: str,
    labels: IntArray | None,
    names: Sequence[str] | None,
    columns: Columns,
) -> None:
    """Hold scores against logged predictions and outcomes.

    Raises DataError at the first row that contradicts them; remarks on those that
    agree. scores : (n, k), or (n,) for two classes. Ties count as agreement. For two
    classes any threshold is accepted, but not a reversed order.
    """
    place = parse_name(path).place
    n = scores.shape[0]
    k = max(scores.shape[1] if len(scores.shape) == 2 else 1, 2)
    is_binary = k == 2
    # a calibrated file may keep another prediction
    is_calibrated = any(
        parse_name(other).core.lower() == "confidence" for other in columns
    )
    from_1 = names is None and columns[path].counts_from_1
    as_they_are = ("--scores", ",".join(columns[path].parts) or path)
    agreeing = []
    for other, column in columns.items():
        name = parse_name(other)
        if name.place != place:
            continue
        logged: _Logged | None = None
        if says_correct(name.core):
            logged = None if labels is None else _outcomes(column, labels, is_binary)
        elif is_prediction(name.core) and not is_calibrated:
            logged = _predictions(column, n, k, names, from_1=from_1)
        if logged is None:
            continue
        if is_binary:
            contradiction = logged.without_threshold(scores, path)
        else:
            contradiction = logged.contradicted(scores, path)
        if contradiction is not None:
            raise DataError(
                f"{column.where}: {contradiction}{ORDER_HINT}"
                f" {shlex.join(as_they_are)} takes them as they are",
                option=as_they_are,
            )
        agreeing.append(f"{name.core!r} agrees in every row")
    if agreeing:
        remark(f"{columns[path].where}: {', '.join(agreeing)}")


def _outcomes(column: Column, labels: IntArray, is_binary: bool) -> "_Logged | None":
    """Logged correctness, from bool or 0/1; None for other arrays."""
    values = _values(column, len(labels))
    if values is None or values.dtype.kind not in "biuf":
        return None
    if not np.isin(values, (0, 1)).all():
        return None
    if_wrong = 1 - labels if is_binary else np.full(len(labels), -1)
    return _Logged(np.where(values == 1, labels, if_wrong), labels)


def _predictions(
    column: Column, n: int, k: int, names: Sequence[str] | None, *, from_1: bool
) -> "_Logged | None":
    """Logged classes; None for other arrays. from_1 : as their columns may count."""
    predictions = logged_predictions(column, n, names)
    if predictions is None:
        return None
    if from_1 and counts_from_1(predictions, k):
        predictions = predictions - 1
    return _Logged(predictions)


def logged_predictions(
    column: Column,
    n: int,
    names: Sequence[str] | None,
    *,
    numbers_are_places: bool = False,
) -> IntArray | None:
    """Logged classes (n,), from names or whole numbers; None for other arrays.

    Whole numbers are names where all of them are, else indices. numbers_are_places :
    they are indices, whatever the classes are called, as in what ``apply`` writes.
    """
    values = _values(column, n)
    if values is None:
        return None
    if values.dtype.kind == "f" and not (values == np.floor(values)).all():
        return None
    if values.dtype.kind in "iuf":
        values = values.astype(np.int64)
    elif values.dtype.kind not in "OUS":
        return None
    if numbers_are_places and values.dtype.kind == "i":
        return values
    named = class_of_each_row(values.tolist(), names or ())
    if (named >= 0).all():
        return named
    return values if values.dtype.kind == "i" else None


def _values(column: Column, n: int) -> AnyArray | None:
    """A value per row; None for other arrays and for columns with empty cells."""
    try:
        values = column.values()
    except DataError:
        return None
    return values if values.shape == (n,) else None


@dataclass(frozen=True)
class _Logged:
    """Logged predictions, or outcomes together with the labels.

    classes : the predicted class of each row, -1 for any but the label.
    """

    classes: IntArray
    labels: IntArray | None = None

    def without_threshold(self, scores: Any, path: str) -> str | None:
        """What is wrong if a row called 1 has a lower score than one called 0."""
        margins = np.concatenate(list(map(_margins, blocks(scores))))
        lowest_called_1 = margins[self.classes == 1].min(initial=np.inf)
        highest_called_0 = margins[self.classes == 0].max(initial=-np.inf)
        if lowest_called_1 >= highest_called_0:
            return None
        return (
            f"no threshold on {path!r} gives it: some row is called class 1 at a lower"
            " score than another that is called class 0"
        )

    def contradicted(self, scores: Any, path: str) -> str | None:
        """What the first row says that contradicts its scores."""
        start = 0
        for block in blocks(scores):
            wrong = self._contradictions(block, slice(start, start + len(block)))
            if wrong.any():
                row = int(np.argmax(wrong))
                best = int(block[row].argmax())
                logged = self._in_words(start + row)
                return (
                    f"row {start + row} {logged}, but the largest of {path!r} is class"
                    f" {best}"
                )
            start += len(block)
        return None

    def _contradictions(self, block: AnyArray, rows: slice) -> AnyArray:
        """Mask of the rows that contradict the scores."""
        classes = self.classes[rows]
        if self.labels is None:
            return ~has_largest(block, classes)
        labels = self.labels[rows]
        label_is_largest = has_largest(block, labels)
        is_alone = (block == block.max(axis=1)[:, None]).sum(axis=1) == 1
        is_wrong = np.where(classes < 0, label_is_largest & is_alone, ~label_is_largest)
        return is_wrong & (labels >= 0) & (labels < block.shape[1])

    def _in_words(self, row: int) -> str:
        if self.labels is None:
            return f"has prediction {self.classes[row]}"
        outcome = "right" if self.classes[row] >= 0 else "wrong"
        return f"is logged as {outcome}, its label is {self.labels[row]}"


def _margins(block: AnyArray) -> AnyArray:
    """Score of class 1, less that of class 0 where it is told."""
    wide = block.reshape(len(block), -1).astype(np.float64)
    return wide[:, 1] - wide[:, 0] if wide.shape[1] == 2 else wide[:, 0]
