"""Pairs (confidence, correct) of predictions, for models without scores of classes."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import isinf

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.importers.archive import Entries, Entry, remark
from calcli.importers.array_names import (
    COLUMNS,
    BundleArrays,
    Name,
    extra_of,
    matching,
    parse_name,
)
from calcli.importers.columns import listed_columns, refusal_of_empty
from calcli.importers.import_request import ImportRequest
from calcli.importers.join import GOLD
from calcli.importers.labelled_scores import Imported, carried_columns
from calcli.importers.labels import to_labels
from calcli.importers.unnamed_arrays import advised
from calcli.io.cells import is_number, number, texts_of_names
from calcli.io.locate import natural
from calcli.io.validate import check_confidences, check_labels, fractions
from calcli.numerics import AnyArray, IntArray

FEW = 5  # answers below which none or all of them may be right by chance


def confidences_by_name(entries: Entries, ask: ImportRequest) -> ImportRequest:
    """Request arrays called ``confidence`` and ``correct`` where nothing else could be scores or labels."""
    asked = ask.confidence or ask.correct or ask.scores or ask.labels or ask.kind
    names = [parse_name(path) for path in entries]
    other = any(name.role in ("scores", "labels") for name in names)
    told = "correct" in entries
    if asked or other or "confidence" not in entries or not (told or ask.no_labels):
        return ask
    return replace(ask, confidence="confidence", correct="correct" if told else None)


def load_confidences(
    entries: Entries, ask: ImportRequest, ignore: Sequence[int], where: str
) -> Imported:
    """Load and check the confidences of ``--confidence NAME --correct NAME``.

    Rows in which either has an ignored label stay in place; the caller drops them.
    Raises UsageError for unknown names, DataError for confidences outside [0, 1] and
    for arrays that are not of correctness.
    """
    name = _name_of_confidences(entries, ask, where)
    entry = entries[name.path]
    confidence = _checked_confidences(entry, name, entries, ask, where)
    n = len(confidence)
    place, correct, told = None, None, "nothing as correct"
    if ask.correct:
        place, correct, told = _correctness(entries, ask.correct, n, ignore)
    remark(f"{ask.confidence!r} was read as the confidence, {told}")
    if correct is not None:
        _doubt(correct, where)
    names = [parse_name(path) for path in entries]
    extras = {}
    for role in (*COLUMNS, "calibrated_by"):
        path = extra_of(name, names, role)
        if path:
            extras[role] = path
    candidate = BundleArrays("", name.split, "confidence", name.path, place, extras)
    columns = carried_columns(candidate, entries, n)
    is_float = confidence.dtype.kind == "f"
    dtype = np.dtype(confidence.dtype if is_float else np.float64)
    return Imported(
        candidate,
        entry.where,
        kind="confidence",
        n=n,
        k=0,
        dtype=dtype.newbyteorder("="),
        labels=correct,
        columns=columns,
        class_names=None,
        specs=(),
        parts=None,
        _scores=confidence,
    )


def _name_of_confidences(entries: Entries, ask: ImportRequest, where: str) -> Name:
    """The one array of ``--confidence``. Raises UsageError for other options that
    exclude it, and where there is none or are several."""
    if not ask.confidence or not (ask.correct or ask.no_labels):
        told = "--confidence NAME and --correct NAME belong together"
        told += ": how sure, and whether right"
        if ask.confidence:
            told += "; without grades --no-labels takes the place of --correct"
        raise UsageError(told)
    if ask.scores or ask.labels or ask.kind:
        told = (
            "--confidence and --correct stand instead of --scores, --labels and --kind"
        )
        raise UsageError(f"{told}; name one of them")
    names = [parse_name(path) for path in entries]
    found = matching(names, ask.confidence, "array of confidences")
    if len(found) > 1:
        places = ", ".join(name.path for name in found)
        raise UsageError(f"{where}: {ask.confidence!r} is in several places: {places}")
    return found[0]


def _checked_confidences(
    entry: Entry, name: Name, entries: Entries, ask: ImportRequest, where: str
) -> AnyArray:
    """Confidences, (n,). Raises DataError for anything but numbers in [0, 1]."""
    values = entry.column()
    if values.ndim == 2 and values.dtype.kind in "fiu":
        pair = ("--confidence", "--correct")
        typed = tuple(group for group in ask.typed if group[0] not in pair)
        plain = replace(
            ask, confidence=None, correct=None, scores=(name.path,), typed=typed
        )
        told = f"has scores of {values.shape[1]} classes"
        expected = "expected one confidence a row, which is made of them"
        problem = DataError(f"{entry.where}: {told}, {expected}")
        raise advised(problem, entries, plain, where)
    confidence = _column(entry)
    if confidence.dtype.kind not in "fiu":
        told = f"confidences have type {confidence.dtype}"
        raise DataError(f"{entry.where}: {told}, expected numbers in [0, 1]")
    if ask.percent:
        confidence = fractions(confidence, entry.where)
    check_confidences(confidence, entry.where)
    return confidence


def _correctness(
    entries: Entries, asked: str, n: int, ignore: Sequence[int]
) -> tuple[str, IntArray, str]:
    """(path of the array, correctness (n,) of 0, 1 or an ignored label, remark).
    Raises as ``load_confidences``."""
    names = [parse_name(path) for path in entries]
    what = "array that says what is correct"
    left, equals, right = asked.partition("=")
    place = matching(names, left.strip(), what)[0].path
    first = entries[place]
    if not equals:
        correct, _ = to_labels(_column(first), n, 2, None, first.where)
        correct = check_labels(correct, n, 2, first.where, ())
        return place, correct, _said(repr(asked), correct)
    other = entries[matching(names, right.strip(" ="), what)[0].path]
    answers, truths = first.answers(), other.answers()
    if len(answers) != len(truths):
        told = f"has {len(answers)} values, {right!r} has {len(truths)}"
        raise DataError(f"{first.where}: {told}; expected as many")
    for entry, values in ((first, answers), (other, truths)):
        if None in values:
            row = values.index(None)
            raise DataError(refusal_of_empty(entry.path, entry.name, row))
    equal = [answer == truth for answer, truth in zip(answers, truths, strict=True)]
    correct = check_labels(np.array(equal, dtype=np.int64), n, 2, first.where, ())
    told = _said(f"{left!r} where it equals {right!r}", correct)
    ignored = {str(label) for label in ignore}
    pairs = zip(answers, truths, strict=True)
    dropped = np.array([not ignored.isdisjoint(pair) for pair in pairs], dtype=bool)
    return place, np.where(dropped, min(ignore, default=-1), correct), told


def _said(what: str, correct: IntArray) -> str:
    """Part of a remark: what is correct, and how often."""
    return f"{what} as correct ({int(correct.sum())} of {len(correct)})"


def _doubt(correct: IntArray, where: str) -> None:
    """Warn where no answer is right, or every one."""
    n, right = len(correct), int((correct == 1).sum())
    if n < FEW or 0 < right < n:
        return
    told = f"warning: {where}: {right} of {n} answers are right"
    if right:
        remark(f"{told}: is the right answer another column than the one given?")
    else:
        remark(f"{told}: are the right ones written in the same way, for these rows?")


def _column(entry: Entry) -> AnyArray:
    values = entry.column()
    if values.ndim != 1 or len(values) == 0:
        raise DataError(f"{entry.where}: has shape {values.shape}, expected (rows,)")
    return values


# ---- several sampled answers per question: confidence of the most frequent one

Answers = list[str | None]


def count_votes(
    entries: Entries, ask: ImportRequest, where: str
) -> tuple[dict[str, Entry], ImportRequest]:
    """One row per question: confidence from the frequency of its most common answer,
    and 1 if that equals the gold.

    ``--votes`` names a column with one answer a row (rows with the same ``--unit``, or
    id, are one question), a column of lists, or several columns. The confidence is
    (votes + 1/2) / (k + 1) of k answers, blank ones included. Answers are compared by
    their value (see ``answer_of``); of equally frequent ones the first in the order
    of the alphabet, numbers by size, is taken. Raises UsageError for unknown names,
    DataError for several golds of a question.
    """
    assert ask.votes is not None
    if ask.confidence or ask.correct or ask.percent:
        told = "--votes makes the confidence, and --gold COLUMN names the right answer to each question:"
        raise UsageError(f"{told} leave --confidence, --correct and --percent out")
    columns = _columns(entries, ask.votes)
    gold = _gold_of_votes(entries, ask)
    truths = gold.answers()
    if None in truths:
        row = truths.index(None)
        raise DataError(refusal_of_empty(gold.path, gold.name, row))
    roles = {parse_name(path).role: path for path in entries}
    known: dict[str, str] = {
        role: roles[role] for role in ("unit", "ids", "group") if role in roles
    }
    home = columns[0]
    lists = _lists_of_answers(columns)
    first = np.arange(len(truths))
    if lists is None:
        by = next((role for role in ("unit", "ids") if role in known), "")
        if not by:
            raise UsageError(
                f"--votes: {where} has an answer a row; which rows are one question? --unit COLUMN"
            )
        asked = texts_of_names(entries[known[by]].names(by))
        answers = home.answers()
        if not len(asked) == len(truths) == len(answers):
            told = f"has {len(answers)} answers, {len(asked)} questions"
            raise DataError(f"{home.where}: {told} and {len(truths)} golds")
        rows = _rows_of_questions(asked, truths, gold)
        lists = [[answers[row] for row in own] for own in rows]
        first = np.array([own[0] for own in rows])
        if "unit" in known:
            known["ids"] = known.pop("unit")
    if len(lists) != len(first):
        told = f"has {len(lists)} rows of answers for {len(first)} golds"
        raise DataError(f"{home.where}: {told}")
    counted = [_most_frequent(answers) for answers in lists]
    confidence = np.array([(one.votes + 0.5) / (one.answers + 1) for one in counted])
    correct = np.array(
        [one.answer == truths[row] for one, row in zip(counted, first, strict=True)],
        dtype=np.int64,
    )
    _remark_votes(counted, gold, where)
    made = {"confidence": home.having(confidence), "correct": gold.having(correct)}
    for role, path in known.items():
        made[role] = entries[path].having(entries[path].names(role)[first])
    return made, replace(ask, confidence="confidence", correct="correct", labels=())


def _gold_of_votes(entries: Entries, ask: ImportRequest) -> Entry:
    """Column of the right answers. Raises UsageError where none is named."""
    names = [parse_name(path) for path in entries]
    label = next((name.path for name in names if name.role == "labels"), GOLD)
    if ask.gold is None and label not in entries:
        told = "--votes needs the right answer to each question"
        raise UsageError(f"{told}, in a column or a file: --gold COLUMN|FILE")
    found = matching(names, ask.gold or label, "column of right answers")
    return entries[found[0].path]


def _lists_of_answers(columns: Sequence[Entry]) -> list[Answers] | None:
    """Answers of every row, of several columns or of one column of lists; None for a
    column with an answer a row."""
    found = [column.answers() for column in columns]
    if len(found) > 1:
        return [list(row) for row in zip(*found, strict=True)]
    if not any(isinstance(cell, list) for cell in found[0]):
        return None
    return [cell if isinstance(cell, list) else [cell] for cell in found[0]]


def _rows_of_questions(
    asked: Sequence[str], truths: Sequence[str], gold: Entry
) -> list[list[int]]:
    """Rows of every question, in the order of the file. Raises DataError for several
    golds of a question."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(asked):
        rows.setdefault(name, []).append(row)
    for name, own in rows.items():
        if len({truths[row] for row in own}) > 1:
            told = f"question {name!r} has several right answers, expected one"
            raise DataError(f"{gold.where}: {told}")
    return list(rows.values())


@dataclass(frozen=True)
class MostFrequent:
    """The most frequent of a question's answers, None if all are blank. votes : for
    it. answers : all, blank ones included. tied : another has as many votes."""

    answer: str | None
    votes: int
    answers: int
    tied: bool


def _most_frequent(answers: Answers) -> MostFrequent:
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return MostFrequent(None, 0, len(answers), tied=False)
    most = max(votes.values())
    best = [answer for answer, count in votes.items() if count == most]
    return MostFrequent(min(best, key=_by_size), most, len(answers), len(best) > 1)


def _by_size(answer: str) -> tuple[int, float, str]:
    """Sort key of answers: numbers by size, then words by the alphabet."""
    if is_number(answer) and not isinf(number(answer)):
        return 0, number(answer), answer
    return 1, 0.0, answer


def _remark_votes(counted: Sequence[MostFrequent], gold: Entry, where: str) -> None:
    sizes = sorted({one.answers for one in counted})
    k = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    told = "the confidence is (votes + 1/2)/(k + 1) of the most frequent answer"
    told += f", correct where that is {gold.name!r}"
    tied = sum(one.tied for one in counted)
    if tied:
        told += f"; {tied} with a tie take the answer that is first in the alphabet"
        told += " (numbers by size)"
    remark(f"{where}: {len(counted)} questions of {k} answers each; {told}")


def _columns(entries: Entries, asked: str) -> list[Entry]:
    """Columns of answers given by a name, a list or range of names, or the common
    beginning of numbered names."""
    own = entries.get(asked)
    if own is not None and not own.made_of:
        return [own]
    stem = re.compile(re.escape(asked) + r"[_. -]*\d+")
    numbered = sorted(filter(stem.fullmatch, entries), key=natural)
    if numbered:
        return [entries[path] for path in numbered]
    if own is not None:  # an array of numbers, whose columns have their texts
        return list(own.made_of.values())
    listed = listed_columns(list(entries), asked)
    if listed:
        return [entries[path] for path in listed]
    names = [parse_name(path) for path in entries]
    found = matching(names, asked, "column of answers")
    return [entries[name.path] for name in found]
