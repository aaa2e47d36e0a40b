"""Answers drawn several times to each question: how sure the most frequent one is."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.archive import Entry, constant
from calcli.importers.array_names import matching, parse_name
from calcli.importers.columns import listed_columns
from calcli.importers.gold_labels import GOLD, texts_in
from calcli.importers.import_request import ImportRequest
from calcli.importers.join import BLANK
from calcli.importers.remarks import remark
from calcli.io.locate import natural

CONFIDENCE, CORRECT = "confidence", "correct"


def count_votes(entries: Mapping[str, Entry], ask: ImportRequest, where: str) -> tuple[dict[str, Entry], ImportRequest]:
    """One row per question: the share of its most frequent answer as confidence, and whether that is the gold.

    ``--votes`` names a column with one answer a row, of which the rows of a ``--unit`` (or of an id) are a question;
    or one of lists, or several (``A:B``, ``A,B``, or what their names begin with), of which every row is one. The
    confidence is (votes + 1/2) / (k + 1) of k answers, which is never 0 or 1; of answers that are as frequent the
    first counts. Blank answers get no votes, and count among the k. Raises UsageError for names that are
    not there, DataError where a question has several golds.
    """
    assert ask.votes is not None
    names, columns = [parse_name(path) for path in entries], _columns(entries, ask.votes)
    answers = [texts_in(column) for column in columns]
    label = next((name.path for name in names if name.role == "labels"), GOLD)
    gold = entries[matching(names, ask.gold or label, "column of right answers")[0].path]
    truth, home = texts_in(gold), columns[0]
    wide = len(answers) > 1 or answers[0].ndim == 2
    lists = (np.stack(answers, axis=1) if len(answers) > 1 else answers[0]).tolist() if wide else []
    known = {role: path for path in entries if (role := parse_name(path).role) in ("unit", "ids", "group")}
    first = np.arange(len(truth))
    if not wide:
        question = known.get("unit") or known.get("ids")
        if question is None:
            raise UsageError(
                f"--votes {ask.votes}: {where} has an answer a row; which rows are one question? --unit COLUMN"
            )
        asked = texts_in(entries[question])
        if not len(asked) == len(truth) == len(answers[0]):
            raise DataError(
                f"{home.where}: has {len(answers[0])} answers, {len(asked)} questions and {len(truth)} golds"
            )
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(asked.tolist()):
            rows.setdefault(name, []).append(row)
        several = next((name for name, own in rows.items() if len({truth[row] for row in own}) > 1), None)
        if several is not None:
            raise DataError(f"{gold.where}: question {several!r} has several right answers, expected one")
        lists = [[answers[0][row] for row in own] for own in rows.values()]
        first = np.array([own[0] for own in rows.values()])
    if len(lists) != len(first):
        raise DataError(f"{home.where}: has {len(lists)} rows of answers for {len(first)} golds")
    best = [_most_frequent(each) for each in lists]
    sizes = sorted({len(each) for each in lists})
    k = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    remark(
        f"{where}: {len(lists)} questions of {k} answers each; the confidence is (votes + 1/2)/(k + 1) of the most"
        f" frequent answer, correct where that is {gold.name!r}"
    )
    confidence = np.array([(votes + 0.5) / (len(each) + 1) for (_, votes), each in zip(best, lists, strict=True)])
    correct = np.array([answer == truth[row] for (answer, _), row in zip(best, first, strict=True)], dtype=np.int64)
    made = {CONFIDENCE: replace(home, load=constant(confidence)), CORRECT: replace(gold, load=constant(correct))}
    ids = known.get("unit") if not wide else None
    for role in ("ids", "group", *(("unit",) if wide else ())):
        path = ids if role == "ids" and ids else known.get(role)
        if path is not None:
            made[role] = replace(entries[path], load=constant(entries[path].column()[first]))
    return made, replace(ask, confidence=CONFIDENCE, correct=CORRECT, labels=())


def _columns(entries: Mapping[str, Entry], asked: str) -> list[Entry]:
    """The columns of answers that a name, a list or a range of names stands for, or what all their names begin with."""
    found = [asked] if asked in entries else listed_columns(list(entries), asked)
    stem = re.compile(re.escape(asked) + r"[_. -]*\d+")
    found = found or sorted(filter(stem.fullmatch, entries), key=natural)
    found = found or [each.path for each in matching([parse_name(n) for n in entries], asked, "column of answers")]
    return [entries[name] for name in found]


def _most_frequent(answers: Sequence[Any]) -> tuple[str, int]:
    """An answer and its votes, the first of those that are as frequent; blank ones do not count."""
    votes = Counter(answer for answer in answers if answer.lower() not in BLANK)
    return max(votes.items(), key=lambda pair: pair[1], default=("", 0))
