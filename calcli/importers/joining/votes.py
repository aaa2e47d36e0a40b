"""Several sampled answers per question: confidence of the most frequent one."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isinf

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.import_request import ImportRequest
from calcli.importers.joining.gold import GOLD, Joined
from calcli.importers.names.array_names import (
    matching,
    parse_name,
    parse_names,
    paths_of_role,
)
from calcli.importers.names.column_options import listed_columns
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, files_of
from calcli.io.cells import is_number, number, texts_of_names
from calcli.io.locate import natural
from calcli.items import has_any, present
from calcli.number_words import noun

KNOWN_ROLES = ("unit", "ids", "group")

Answers = Sequence[str | None]


def count_votes(columns: Columns, request: ImportRequest, where: str) -> Joined:
    """One row per question.

    Its confidence is made of the frequency of the most common answer; it is correct if
    that equals the gold. ``--votes`` names a column with one answer a row (rows with
    the same ``--unit``, or id, are one question), a column of lists, or several
    columns. The confidence is (votes + 1/2) / (k + 1) of k answers, blank ones
    included. Answers are compared by their value (see ``answer_of``); of equally
    frequent ones the first in the order of the alphabet, numbers by size, is taken.
    Raises UsageError for unknown names, DataError for several golds of a question.
    """
    if request.confidence or request.correct or request.percent:
        raise UsageError(
            "--votes makes the confidence, and --gold COLUMN names the right answer to"
            " each question: leave --confidence, --correct and --percent out"
        )
    answer_columns = _columns_of(columns, request.votes or "")
    gold = _gold_column(columns, request)
    truths = gold.answers()
    if None in truths:
        raise gold.refusal_of_empty(truths.index(None))
    roles = {}
    for path in columns:
        role = parse_name(path).role
        if role in KNOWN_ROLES:
            roles[role] = path
    first_column = answer_columns[0]
    lists = _lists_of_answers(answer_columns)
    if lists is not None:
        rows = list(range(len(truths)))
    else:
        lists, rows = _by_question(columns, roles, truths, first_column, gold, where)
        if "unit" in roles:
            roles["ids"] = roles.pop("unit")
    if len(lists) != len(rows):
        raise DataError(
            f"{first_column.where}: has {len(lists)} rows of answers for {len(rows)}"
            " golds"
        )
    votes = list(map(_most_frequent, lists))
    confidences = []
    is_correct = []
    for vote, row in zip(votes, rows, strict=True):
        confidences.append(vote.confidence)
        is_correct.append(vote.answer == truths[row])
    _remark_votes(votes, gold, where)
    made_columns = {
        "confidence": first_column.having(np.array(confidences)).called("confidence"),
        "correct": gold.having(np.array(is_correct, dtype=np.int64)),
    }
    for role, path in roles.items():
        made_columns[role] = columns[path].having(columns[path].names(role)[rows])
    # from here on it is as if the user had named these two
    as_named = replace(request, confidence="confidence", correct="correct", labels=())
    return Joined(made_columns, as_named)


@dataclass(frozen=True)
class Vote:
    """The most frequent of a question's answers, None if all are blank.

    n_answers : all, blank ones included. is_tied : another has as many votes.
    """

    answer: str | None
    n_votes: int
    n_answers: int
    is_tied: bool

    @property
    def confidence(self) -> float:
        return (self.n_votes + 0.5) / (self.n_answers + 1)


def _gold_column(columns: Columns, request: ImportRequest) -> Column:
    """The column of right answers. Raises UsageError."""
    named = paths_of_role(columns, "labels")
    label = named[0] if named else GOLD
    if request.gold is None and label not in columns:
        raise UsageError(
            "--votes needs the right answer to each question, in a column or a file:"
            " --gold COLUMN|FILE"
        )
    names = parse_names(columns)
    wanted = request.gold or label
    matches = matching(names, wanted, "column of right answers", files_of(columns))
    return columns[matches[0].path]


def _lists_of_answers(columns: Sequence[Column]) -> list[Answers] | None:
    """Answers of every row, of several columns or of one column of lists.

    None for a column with an answer a row.
    """
    answers = [column.answers() for column in columns]
    if len(answers) > 1:
        return list(map(list, zip(*answers, strict=True)))
    cells = answers[0]
    if not has_any(list, cells):
        return None
    lists: list[Answers] = []
    for cell in cells:
        lists.append(cell if isinstance(cell, list) else [cell])
    return lists


def _by_question(
    columns: Columns,
    roles: dict[str, str],
    truths: Answers,
    home: Column,
    gold: Column,
    where: str,
) -> tuple[list[Answers], list[int]]:
    """Answers of rows with the same unit, or id, and the first row of each question."""
    role = "unit" if "unit" in roles else "ids"
    if role not in roles:
        raise UsageError(
            f"--votes: {where} has an answer a row; which rows are one question? --unit"
            " COLUMN"
        )
    asked = texts_of_names(columns[roles[role]].names(role))
    answers = home.answers()
    if not len(asked) == len(truths) == len(answers):
        raise DataError(
            f"{home.where}: has {len(answers)} answers, {len(asked)} questions and"
            f" {len(truths)} golds"
        )
    rows_of: dict[str, list[int]] = {}
    for row, question in enumerate(asked):
        rows_of.setdefault(question, []).append(row)
    lists: list[Answers] = []
    first_rows = []
    for question, rows in rows_of.items():
        if any(truths[row] != truths[rows[0]] for row in rows):
            raise DataError(
                f"{gold.where}: question {question!r} has several right answers,"
                " expected one"
            )
        lists.append([answers[row] for row in rows])
        first_rows.append(rows[0])
    return lists, first_rows


def _most_frequent(answers: Answers) -> Vote:
    counts = Counter(present(answers))
    if not counts:
        return Vote(None, 0, len(answers), is_tied=False)
    most = max(counts.values())
    best = [answer for answer, count in counts.items() if count == most]
    first = min(best, key=_by_size)
    return Vote(first, most, len(answers), is_tied=len(best) > 1)


def _by_size(answer: str) -> tuple[int, float, str]:
    """Sort key of answers: numbers by size, then words by the alphabet."""
    if is_number(answer) and not isinf(number(answer)):
        return 0, number(answer), answer
    return 1, 0.0, answer


def _remark_votes(votes: Sequence[Vote], gold: Column, where: str) -> None:
    sizes = sorted({vote.n_answers for vote in votes})
    k = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    message = (
        f"{where}: {len(votes)} {noun(len(votes), 'question')} of {k}"
        f" {noun(sizes[-1], 'answer')} each; the confidence is (votes + 1/2)/(k + 1) of"
        f" the most frequent answer, correct where that is {gold.name!r}"
    )
    n_tied = sum(vote.is_tied for vote in votes)
    if n_tied:
        message += (
            f"; {n_tied} with a tie take the answer that is first in the alphabet"
            " (numbers by size)"
        )
    remark(message)


def _columns_of(columns: Columns, option: str) -> list[Column]:
    """Columns of answers: by name, list or range, or the beginning of numbered ones."""
    whole = columns.get(option)
    if whole is not None and not whole.parts:
        return [whole]
    numbered = re.compile(re.escape(option) + r"[_. -]*\d+")
    names = sorted(filter(numbered.fullmatch, columns), key=natural)
    if names:
        return [columns[name] for name in names]
    if whole is not None:  # an array of numbers, whose columns have their texts
        return list(whole.parts.values())
    names = listed_columns(list(columns), option)
    if not names:
        parsed = parse_names(columns)
        found = matching(parsed, option, "column of answers", files_of(columns))
        names = [name.path for name in found]
    return [columns[name] for name in names]
