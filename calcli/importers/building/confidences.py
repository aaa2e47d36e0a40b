"""Pairs (confidence, correct) of predictions, for models without scores of classes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, Literal

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.advising.advice import with_command
from calcli.importers.building.bundles import kept_columns
from calcli.importers.building.imported import Imported
from calcli.importers.building.labels import to_labels
from calcli.importers.building.word_labels import texts_of
from calcli.importers.evidence.signs import ranks_as_labelled
from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import matching, parse_name, parse_names
from calcli.importers.names.opposites import OUTCOMES, in_order_of_pair, opposite_words
from calcli.importers.names.roles import COLUMNS
from calcli.importers.proposing.label_search import extra_of
from calcli.importers.reading import Reading
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, files_of
from calcli.io.cells import answer_of
from calcli.io.validate import check_confidences, check_labels, fractions
from calcli.numerics import AnyArray, IntArray

CONFIDENCE: Literal["confidence"] = "confidence"
CORRECT = "correct"
FEW = 5
"""Answers below which none or all of them may be right by chance."""


def confidences_by_name(columns: Columns, request: ImportRequest) -> ImportRequest:
    """Request arrays called ``confidence`` and ``correct``.

    Only where nothing else could be scores or labels.
    """
    is_asked = request.confidence or request.correct or request.kind
    if is_asked or request.scores or request.labels or CONFIDENCE not in columns:
        return request
    if columns[CONFIDENCE].parts:  # of classes: confidence.1, confidence.2
        return request
    roles = {parse_name(path).role for path in columns}
    if not roles.isdisjoint(("scores", "labels")):
        return request
    if CORRECT in columns:
        return replace(request, confidence=CONFIDENCE, correct=CORRECT)
    if request.no_labels:
        return replace(request, confidence=CONFIDENCE)
    return request


def build_confidences(
    columns: Columns, request: ImportRequest, ignore: Sequence[float], where: str
) -> Imported:
    """Load and check the confidences of ``--confidence NAME --correct NAME``.

    Rows in which either has an ignored label stay in place; the caller drops them.
    Raises UsageError for unknown names, DataError for confidences outside [0, 1] and
    for arrays that are not of correctness.
    """
    _check_request(request)
    names = parse_names(columns)
    matches = matching(names, request.confidence or "", "array of confidences", where)
    if len(matches) > 1:
        listing = ", ".join(name.path for name in matches)
        raise UsageError(
            f"{where}: {request.confidence!r} is in several places: {listing}"
        )
    column = columns[matches[0].path]
    _refuse_scores(column, matches[0].path, columns, request, where)
    confidence = _one_per_row(column)
    if confidence.dtype.kind not in "fiu":
        raise DataError(
            f"{column.where}: confidences have type {confidence.dtype}, expected"
            " numbers in [0, 1]"
        )
    if request.percent:
        confidence = fractions(confidence, column.where)
    check_confidences(confidence, column.where)
    n = len(confidence)
    outcome = None
    if request.correct:
        outcome = _correctness(columns, request, confidence, ignore)
    if outcome is not None:
        _warn_if_all_alike(outcome.correct, where)
    extras = {}
    for role in (*COLUMNS, "calibrated_by"):
        path = extra_of(matches[0], names, role)
        if path:
            extras[role] = path
    reading = Reading(
        model="",
        split=matches[0].split,
        kind=CONFIDENCE,
        scores=matches[0].path,
        labels=None if outcome is None else outcome.path,
        extras=extras,
        reasons={} if outcome is None else {"outcome": outcome.description},
        columns=columns,
    )
    dtype = confidence.dtype if confidence.dtype.kind == "f" else np.dtype(np.float64)
    return Imported(
        reading=reading,
        where=column.where,
        kind=CONFIDENCE,
        n=n,
        k=0,
        dtype=dtype.newbyteorder("="),
        labels=None if outcome is None else outcome.correct,
        columns=kept_columns(reading, n),
        scores=confidence,
        decimals=column.most_decimals,
        zeros=column.recorded_zeros,
    )


def _check_request(request: ImportRequest) -> None:
    if not request.confidence or not (request.correct or request.no_labels):
        message = "belong together: how sure, and whether right"
        if request.confidence:
            message += "; without grades --labels none takes the place of --correct"
        raise UsageError(f"--confidence NAME and --correct NAME {message}")
    are_named = request.scores or request.labels or request.kind
    if are_named or request.all_scores:
        raise UsageError(
            "--confidence and --correct stand instead of --scores, --labels and --kind;"
            " name one of them"
        )


def _refuse_scores(
    column: Column, path: str, columns: Columns, request: ImportRequest, where: str
) -> None:
    """Raise DataError for scores of classes, with the command that reads them."""
    values = column.values()
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        return
    plain = replace(request, confidence=None, correct=None, scores=(path,))
    plain = plain.without(("--confidence", "--correct"))
    message = f"has scores of {values.shape[1]} classes"
    expected = "expected one confidence a row, which is made of them"
    problem = DataError(f"{column.where}: {message}, {expected}")
    raise with_command(problem, Arrays(columns), plain, where)


@dataclass(frozen=True)
class Outcome:
    """Which answers are right.

    correct : (n,) of 0, 1 or an ignored label.
    """

    path: str
    correct: IntArray
    description: str


def _correctness(
    columns: Columns,
    request: ImportRequest,
    confidence: AnyArray,
    ignore: Sequence[float],
) -> Outcome:
    """Correctness of ``NAME``, of ``NAME=WORD``: where the word stands, or of ``A=B``:
    where two columns agree. confidence : (n,).
    """
    n = len(confidence)
    option = request.correct or ""
    left, equals, right = option.partition("=")
    path = _path_of(columns, left.strip())
    column = columns[path]
    if not equals:
        correct = _graded(_one_per_row(column), column.where, request, confidence)
        correct = check_labels(correct, n, 2, column.where, ())
        return Outcome(path, correct, _described(repr(option), correct))
    word = right.strip(" =")
    try:
        truth = columns[_path_of(columns, word)]
    except UsageError:  # no such column
        is_word = np.array([answer == word for answer in column.answers()])
        if not is_word.any():
            raise
        correct = check_labels(is_word.astype(np.int64), n, 2, column.where, ())
        return Outcome(path, correct, _described(repr(option), correct))
    pairs = _pairs_of_answers(column, truth, right)
    is_equal = np.array([answer == known for answer, known in pairs], dtype=np.int64)
    correct = check_labels(is_equal, n, 2, column.where, ())
    described = _described(f"{left!r} where it equals {right!r}", correct)
    return Outcome(path, _with_ignored(correct, pairs, ignore), described)


def _graded(
    values: AnyArray, where: str, request: ImportRequest, confidence: AnyArray
) -> IntArray:
    """Grades as 0 and 1: numbers, truth values, or two words of known meaning.

    Raises DataError for other words.
    """
    n = len(confidence)
    if values.dtype.kind not in "OUS":
        return to_labels(values, n, 2, None, where).labels
    words = sorted(set(texts_of(values, where)))
    if len(words) != 2 or opposite_words(words) is not None:
        return to_labels(values, n, 2, None, where).labels
    names = in_order_of_pair(words, OUTCOMES)
    if names is None:
        raise _unknown_grades(words, values, where, request, confidence)
    remark(f"{where}: {names[1]!r} was read as right, {names[0]!r} as wrong")
    return to_labels(values, n, 2, names, where).labels


def _unknown_grades(
    words: Sequence[str],
    values: AnyArray,
    where: str,
    request: ImportRequest,
    confidence: AnyArray,
) -> DataError:
    """Error about two words, with the command where the confidences rank them."""
    first, second = words
    name = request.correct
    message = (
        f"{where}: which of {first!r} and {second!r} means right? --correct"
        f" {quote(f'{name}={first}')}, or {quote(f'{name}={second}')}"
    )
    is_second = np.array([text == second for text in texts_of(values, where)])
    margins = confidence.astype(np.float64)
    for word, is_right in ((second, is_second), (first, ~is_second)):
        if ranks_as_labelled(margins, is_right.astype(np.int64)):
            confidences = ["--confidence", request.confidence or ""]
            option = [*confidences, "--correct", f"{name}={word}"]
            return DataError(message, option=option)
    return DataError(
        message, no_command="the confidences are no higher for one of them"
    )


def _pairs_of_answers(
    column: Column, truth: Column, name: str
) -> list[tuple[Any, Any]]:
    """Answers and right answers of all rows. name : of the latter, in the option.

    Raises DataError for empty ones, and for another number of them.
    """
    answers, truths = column.answers(), truth.answers()
    if len(answers) != len(truths):
        raise DataError(
            f"{column.where}: has {len(answers)} values, {name!r} has {len(truths)};"
            " expected as many"
        )
    for answered, values in ((column, answers), (truth, truths)):
        if None in values:
            raise answered.refusal_of_empty(values.index(None))
    return list(zip(answers, truths, strict=True))


def _with_ignored(
    correct: IntArray, pairs: Sequence[tuple[Any, Any]], ignore: Sequence[float]
) -> IntArray:
    """Correctness, an ignored label where either answer is to be ignored."""
    ignored_answers = [answer_of(label) for label in ignore]
    is_ignored = []
    for answer, known in pairs:  # an answer may be a list
        is_ignored.append(answer in ignored_answers or known in ignored_answers)
    whole_labels = [int(label) for label in ignore if float(label).is_integer()]
    ignored = min(whole_labels, default=-1)
    return np.where(np.array(is_ignored, np.bool_), ignored, correct)


def _described(what: str, correct: IntArray) -> str:
    """What is correct, and how often."""
    return f"{what} as correct ({int(correct.sum())} of {len(correct)})"


def _warn_if_all_alike(correct: IntArray, where: str) -> None:
    """Warn where no answer is right, or every one."""
    n = len(correct)
    n_right = int((correct == 1).sum())
    if n < FEW or 0 < n_right < n:
        return
    question = "are the right ones written in the same way, for these rows?"
    if n_right:
        question = "is the right answer another column than the one given?"
    remark(f"warning: {where}: {n_right} of {n} answers are right: {question}")


def _path_of(columns: Columns, name: str) -> str:
    names = parse_names(columns)
    what = "array that says what is correct"
    return matching(names, name, what, files_of(columns))[0].path


def _one_per_row(column: Column) -> AnyArray:
    values = column.values()
    if values.ndim != 1 or len(values) == 0:
        raise DataError(f"{column.where}: has shape {values.shape}, expected (rows,)")
    return values
