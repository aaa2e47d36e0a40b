"""Several sampled answers per question: confidence of the most frequent one."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.importers.column_options import listed_columns
from calcli.importers.gold import GOLD, Joined, texts_in
from calcli.importers.import_request import ImportRequest
from calcli.importers.missing import BLANK_WORDS
from calcli.importers.names import matching, parse_name
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns
from calcli.io.locate import natural
from calcli.numerics import AnyArray, IntArray

KNOWN_ROLES = ("unit", "ids", "group")


def count_votes(columns: Columns, request: ImportRequest, where: str) -> Joined:
    """One row per question.

    Its confidence is made of the frequency of the most common answer; it is correct if
    that equals the gold. ``--votes`` names a column with one answer a row (rows with
    the same ``--unit``, or id, are one question), a column of lists, or several
    columns. The confidence is (votes + 1/2) / (k + 1) of k answers, blank ones
    included; ties go to the first answer. Raises UsageError for unknown names,
    DataError for several golds of a question.
    """
    if request.confidence or request.correct or request.percent:
        message = (
            "makes the confidence, and --gold COLUMN names the right answer to each"
        )
        advice = "leave --confidence, --correct and --percent out"
        raise UsageError(f"--votes {message} question: {advice}")
    answer_columns = _columns_of(columns, request.votes or "")
    gold = _gold_column(columns, request)
    truth = texts_in(gold)
    answers = [texts_in(column) for column in answer_columns]
    table = answers[0] if len(answers) == 1 else np.stack(answers, axis=1)
    roles = {}
    for path in columns:
        role = parse_name(path).role
        if role in KNOWN_ROLES:
            roles[role] = path
    home = answer_columns[0]
    if table.ndim == 2:
        questions = _Questions(table.tolist(), np.arange(len(truth)))
    else:
        questions = _by_question(columns, roles, table, truth, home, gold, where)
        if "unit" in roles:
            roles["ids"] = roles.pop("unit")
    if len(questions.answers) != len(questions.rows):
        message = f"has {len(questions.answers)} rows of answers"
        raise DataError(f"{home.where}: {message} for {len(questions.rows)} golds")
    votes = [_most_common(answers_of_one) for answers_of_one in questions.answers]
    _remark_votes(questions.answers, gold, where)
    made = {
        "confidence": home.having(_confidences(votes, questions.answers)),
        "correct": gold.having(_correct(votes, truth[questions.rows])),
    }
    for role, path in roles.items():
        values = columns[path].values()[questions.rows]
        made[role] = columns[path].having(values)
    asked = replace(request, confidence="confidence", correct="correct", labels=())
    return Joined(made, asked)


@dataclass(frozen=True)
class _Questions:
    """The answers to every question, and the row of the source that it stands for."""

    answers: Sequence[Sequence[str]]
    rows: IntArray


@dataclass(frozen=True)
class _Vote:
    """The most frequent answer, and how often it was given."""

    answer: str
    count: int


def _gold_column(columns: Columns, request: ImportRequest) -> Column:
    """The column of right answers. Raises UsageError."""
    named = [path for path in columns if parse_name(path).role == "labels"]
    label = named[0] if named else GOLD
    if request.gold is None and label not in columns:
        message = "needs the right answer to each question, in a column or a file"
        raise UsageError(f"--votes {message}: --gold COLUMN|FILE")
    names = [parse_name(path) for path in columns]
    matches = matching(names, request.gold or label, "column of right answers")
    return columns[matches[0].path]


def _by_question(
    columns: Columns,
    roles: dict[str, str],
    answers: AnyArray,
    truth: AnyArray,
    home: Column,
    gold: Column,
    where: str,
) -> _Questions:
    """Group rows with one answer each by their unit, or id."""
    question = roles.get("unit") or roles.get("ids")
    if question is None:
        message = "has an answer a row; which rows are one question? --unit COLUMN"
        raise UsageError(f"--votes: {where} {message}")
    asked = texts_in(columns[question])
    if not len(asked) == len(truth) == len(answers):
        message = f"has {len(answers)} answers, {len(asked)} questions"
        raise DataError(f"{home.where}: {message} and {len(truth)} golds")
    rows_of: dict[str, list[int]] = {}
    for row, name in enumerate(asked.tolist()):
        rows_of.setdefault(name, []).append(row)
    for name, rows in rows_of.items():
        if len({truth[row] for row in rows}) > 1:
            message = f"question {name!r} has several right answers, expected one"
            raise DataError(f"{gold.where}: {message}")
    texts = answers.tolist()
    lists = [[texts[row] for row in rows] for rows in rows_of.values()]
    first_rows = np.array([rows[0] for rows in rows_of.values()])
    return _Questions(lists, first_rows)


def _most_common(answers: Sequence[str]) -> _Vote:
    present = [answer for answer in answers if answer.lower() not in BLANK_WORDS]
    most_common = Counter(present).most_common(1)
    return _Vote(*most_common[0]) if most_common else _Vote("", 0)


def _confidences(votes: Sequence[_Vote], answers: Sequence[Sequence[str]]) -> AnyArray:
    confidences = []
    for vote, answers_of_one in zip(votes, answers, strict=True):
        confidences.append((vote.count + 0.5) / (len(answers_of_one) + 1))
    return np.array(confidences)


def _correct(votes: Sequence[_Vote], truth: AnyArray) -> IntArray:
    right = [vote.answer == answer for vote, answer in zip(votes, truth, strict=True)]
    return np.array(right, dtype=np.int64)


def _remark_votes(answers: Sequence[Sequence[str]], gold: Column, where: str) -> None:
    sizes = sorted({len(answers_of_one) for answers_of_one in answers})
    k = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    remark(
        f"{where}: {len(answers)} questions of {k} answers each; the confidence is"
        " (votes + 1/2)/(k + 1) of the most frequent answer, correct where that is"
        f" {gold.name!r}"
    )


def _columns_of(columns: Columns, option: str) -> list[Column]:
    """Columns of answers: by name, list or range, or the beginning of numbered ones."""
    if option in columns:
        return [columns[option]]
    names = listed_columns(list(columns), option)
    if not names:
        numbered = re.compile(re.escape(option) + r"[_. -]*\d+")
        names = sorted(filter(numbered.fullmatch, columns), key=natural)
    if not names:
        parsed = [parse_name(path) for path in columns]
        names = [name.path for name in matching(parsed, option, "column of answers")]
    return [columns[name] for name in names]
