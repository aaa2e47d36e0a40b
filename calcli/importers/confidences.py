"""Pairs (confidence, correct) of predictions, for models without scores of classes."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.archive import Entries, Entry, remark
from calcli.importers.array_names import (
    COLUMNS,
    BundleArrays,
    extra_of,
    matching,
    parse_name,
)
from calcli.importers.columns import listed_columns
from calcli.importers.import_request import ImportRequest
from calcli.importers.join import BLANK, GOLD, texts_in
from calcli.importers.labelled_scores import Imported, carried_columns
from calcli.importers.labels import to_labels
from calcli.importers.unnamed_arrays import advised
from calcli.io.locate import natural
from calcli.io.validate import check_confidences, check_labels, fractions
from calcli.numerics import AnyArray, IntArray


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
    """Load and check the confidences of ``--confidence NAME --correct NAME``. Rows in which either has an ignored label
    stay in place; the caller drops them. Raises UsageError for unknown names, DataError for confidences outside [0, 1]
    and for arrays that are not of correctness."""
    if not ask.confidence or not (ask.correct or ask.no_labels):
        alone = "; without grades --no-labels takes the place of --correct" * bool(
            ask.confidence
        )
        raise UsageError(
            f"--confidence NAME and --correct NAME belong together: how sure, and whether right{alone}"
        )
    if ask.scores or ask.labels or ask.kind:
        raise UsageError(
            "--confidence and --correct stand instead of --scores, --labels and --kind; name one of them"
        )
    names = [parse_name(path) for path in entries]
    found = matching(names, ask.confidence, "array of confidences")
    if len(found) > 1:
        raise UsageError(
            f"{where}: {ask.confidence!r} is in several places: {', '.join(n.path for n in found)}"
        )
    entry = entries[found[0].path]
    confidence = entry.column()
    if confidence.ndim == 2 and confidence.dtype.kind in "fiu":
        kept = tuple(
            group
            for group in ask.typed
            if group[0] not in ("--confidence", "--correct")
        )
        plain = replace(
            ask, confidence=None, correct=None, scores=(found[0].path,), typed=kept
        )
        told = f"has scores of {confidence.shape[1]} classes, expected one confidence a row, which is made of them"
        raise advised(DataError(f"{entry.where}: {told}"), entries, plain, where)
    confidence = _column(entry)
    if confidence.dtype.kind not in "fiu":
        raise DataError(
            f"{entry.where}: confidences have type {confidence.dtype}, expected numbers in [0, 1]"
        )
    confidence = fractions(confidence, entry.where) if ask.percent else confidence
    check_confidences(confidence, entry.where)
    n, place, correct, told = len(confidence), None, None, "nothing as correct"
    if ask.correct:
        place, correct, told = _correctness(entries, ask.correct, n, ignore)
    extras = {
        role: path
        for role in (*COLUMNS, "calibrated_by")
        if (path := extra_of(found[0], names, role))
    }
    remark(f"{ask.confidence!r} was read as the confidence, {told}")
    candidate = BundleArrays(
        "", found[0].split, "confidence", found[0].path, place, extras
    )
    columns = carried_columns(candidate, entries, n)
    dtype = np.dtype(
        confidence.dtype if confidence.dtype.kind == "f" else np.float64
    ).newbyteorder("=")
    return Imported(
        candidate,
        entry.where,
        "confidence",
        n,
        0,
        dtype,
        correct,
        columns,
        None,
        (),
        None,
        confidence,
        decimals=entry.decimals,
        zeros=entry.zeros,
    )


def _correctness(
    entries: Entries, asked: str, n: int, ignore: Sequence[int]
) -> tuple[str, IntArray, str]:
    """(path of the array, correctness (n,) of 0, 1 or an ignored label, remark). Raises as ``load_confidences``."""
    names = [parse_name(path) for path in entries]
    left, equals, right = asked.partition("=")
    place = matching(names, left.strip(), "array that says what is correct")[0].path
    first = entries[place]
    raw, told, dropped = _column(first), f"{asked!r}", np.zeros(n, dtype=bool)
    if equals:
        other = _column(
            entries[
                matching(names, right.strip(" ="), "array that says what is correct")[
                    0
                ].path
            ]
        )
        if other.shape != raw.shape:
            raise DataError(
                f"{first.where}: has {len(raw)} values, {right!r} has {len(other)}; expected as many"
            )
        dropped = np.isin(other, ignore) | np.isin(raw, ignore)
        correct, told = (
            (raw == other).astype(np.int64),
            f"{left!r} where it equals {right!r}",
        )
    else:
        correct, _ = to_labels(raw, n, 2, None, first.where)
    correct = check_labels(correct, n, 2, first.where, ())
    told = f"{told} as correct ({int(correct.sum())} of {n})"
    return (
        place,
        np.where(dropped, min(ignore, default=-1), correct)
        if dropped.any()
        else correct,
        told,
    )


def _column(entry: Entry) -> AnyArray:
    values = entry.column()
    if values.ndim != 1 or len(values) == 0:
        raise DataError(f"{entry.where}: has shape {values.shape}, expected (rows,)")
    return values


# ---- several sampled answers per question: confidence of the most frequent one


def count_votes(
    entries: Entries, ask: ImportRequest, where: str
) -> tuple[dict[str, Entry], ImportRequest]:
    """One row per question: confidence from the frequency of its most common answer, and 1 if that equals the gold.
    ``--votes`` names a column with one answer a row (rows with the same ``--unit``, or id, are one question), a column
    of lists, or several columns. The confidence is (votes + 1/2) / (k + 1) of k answers, blank ones included; ties go
    to the first answer. Raises UsageError for unknown names, DataError for several golds of a question."""
    assert ask.votes is not None
    if ask.confidence or ask.correct or ask.percent:
        told = "--votes makes the confidence, and --gold COLUMN names the right answer to each question:"
        raise UsageError(f"{told} leave --confidence, --correct and --percent out")
    names, columns = (
        [parse_name(path) for path in entries],
        _columns(entries, ask.votes),
    )
    answers = [texts_in(column) for column in columns]
    label = next((name.path for name in names if name.role == "labels"), GOLD)
    if ask.gold is None and label not in entries:
        raise UsageError(
            "--votes needs the right answer to each question, in a column or a file: --gold COLUMN|FILE"
        )
    gold = entries[
        matching(names, ask.gold or label, "column of right answers")[0].path
    ]
    truth, home = texts_in(gold), columns[0]
    answers = [np.stack(answers, axis=1)] if len(answers) > 1 else answers
    wide, lists = answers[0].ndim == 2, answers[0].tolist()
    known = {
        role: path
        for path in entries
        if (role := parse_name(path).role) in ("unit", "ids", "group")
    }
    first = np.arange(len(truth))
    if not wide:
        question = known.get("unit") or known.get("ids")
        if question is None:
            raise UsageError(
                f"--votes: {where} has an answer a row; which rows are one question? --unit COLUMN"
            )
        asked = texts_in(entries[question])
        if not len(asked) == len(truth) == len(answers[0]):
            raise DataError(
                f"{home.where}: has {len(lists)} answers, {len(asked)} questions and {len(truth)} golds"
            )
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(asked.tolist()):
            rows.setdefault(name, []).append(row)
        if several := [
            name for name, own in rows.items() if len({truth[row] for row in own}) > 1
        ]:
            raise DataError(
                f"{gold.where}: question {several[0]!r} has several right answers, expected one"
            )
        lists = [[lists[row] for row in own] for own in rows.values()]
        first = np.array([own[0] for own in rows.values()])
    if len(lists) != len(first):
        raise DataError(
            f"{home.where}: has {len(lists)} rows of answers for {len(first)} golds"
        )
    votes = [
        Counter(answer for answer in each if answer.lower() not in BLANK)
        for each in lists
    ]
    best = [next(iter(found.most_common(1)), ("", 0)) for found in votes]
    sizes = sorted({len(each) for each in lists})
    k = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    advice = f"the confidence is (votes + 1/2)/(k + 1) of the most frequent answer, correct where that is {gold.name!r}"
    remark(f"{where}: {len(lists)} questions of {k} answers each; {advice}")
    confidence = np.array(
        [
            (votes + 0.5) / (len(each) + 1)
            for (_, votes), each in zip(best, lists, strict=True)
        ]
    )
    correct = np.array(
        [answer == truth[row] for (answer, _), row in zip(best, first, strict=True)],
        dtype=np.int64,
    )
    made = {"confidence": home.having(confidence), "correct": gold.having(correct)}
    if not wide and "unit" in known:
        known["ids"] = known.pop("unit")
    made |= {
        role: entries[path].having(entries[path].column()[first])
        for role, path in known.items()
    }
    return made, replace(ask, confidence="confidence", correct="correct", labels=())


def _columns(entries: Entries, asked: str) -> list[Entry]:
    """Columns of answers given by a name, a list or range of names, or the common beginning of numbered names."""
    found = [asked] if asked in entries else listed_columns(list(entries), asked)
    stem = re.compile(re.escape(asked) + r"[_. -]*\d+")
    found = found or sorted(filter(stem.fullmatch, entries), key=natural)
    found = found or [
        each.path
        for each in matching(
            [parse_name(n) for n in entries], asked, "column of answers"
        )
    ]
    return [entries[name] for name in found]
