"""Questions of evaluation harnesses: a score per candidate, the right one, checks."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, one_line
from calcli.importers.import_request import ImportRequest
from calcli.importers.table import Record, Table
from calcli.io.cells import is_number, text_of

Floats = Sequence[float]
LARGEST_ID = 1 << 63


@dataclass(frozen=True)
class Question:
    """One question: its id, a score per candidate, the right candidate.

    Higher scores are better; they are natural logarithms. of : id of the question that
    it repeats, as a further trial or in other words; None for its own id.
    """

    id: Any
    scores: Floats
    gold: int
    of: Any = None


def question_id(value: Any, where: str) -> Any:
    """Check the id of a question, a number or a word. Raises DataError."""
    is_finite_number = _is_number(value) and isfinite(value)
    if not isinstance(value, str) and not is_finite_number:
        raise DataError(f"{where} is {shown(value)}, expected a number or a word")
    return value


def log_likelihoods(values: Sequence[Any], where: str) -> list[float]:
    """Check the log-likelihood of every choice, a number or its text.

    Raises DataError.
    """
    likelihoods = []
    for choice, value in enumerate(values):
        is_text = isinstance(value, str) and is_number(value)
        likelihood = float(value) if is_text or _is_number(value) else nan
        if isnan(likelihood):
            raise DataError(
                f"{where}: log-likelihood of choice {choice} is {shown(value)}, expected"
                " a number; evaluate it anew"
            )
        likelihoods.append(likelihood)
    return likelihoods


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """The JSON of a value, not too long."""
    return one_line(ValueError(json.dumps(value, default=str, ensure_ascii=False)), 40)


def logged_measure(value: Any) -> float | None:
    """A measure of a log, a number or its text; None if it was not logged."""
    return None if value is None else float(value)


def agrees(scores: Floats, gold: int, right: float | None) -> bool:
    """True if the gold candidate agrees with the logged correctness.

    Also true if none was logged.
    """
    if right is None:
        return True
    return (right == 1) == (scores[gold] == max(scores))


def check_logged(
    where: str, scores: Floats, gold: int, right: float | None, measure: str
) -> None:
    """Raise DataError for a gold candidate that contradicts the log.

    Ties count as agreement. right : logged correctness of the candidate with the
    largest score; None if not logged.
    """
    if right not in (None, 0, 1):
        raise DataError(
            f"{where}: {measure} is {right}, expected 0 or 1: several answers count as"
            " right here"
        )
    if agrees(scores, gold, right):
        return
    is_tied = list(scores).count(max(scores)) > 1
    if right or not is_tied:
        best = int(np.argmax(scores))
        raise DataError(
            f"{where}: {measure} is {right:g}, but the largest score is candidate"
            f" {best} and the right one {gold}; were they shuffled?"
        )


def normalised(
    where: str, how: str, scores: Floats, texts: Sequence[str], base: Floats | None
) -> Floats:
    """Log-likelihoods per character or byte, or minus the unconditional ones (mutual).

    base : the unconditional ones, None if not logged. Raises DataError for values that
    were not logged.
    """
    if how in ("none", "sum"):
        return scores
    if how == "mutual":
        if base is None or len(base) != len(scores):
            raise DataError(
                f"{where}: has no unconditional log-likelihoods, which acc_mutual_info"
                " logs"
            )
        return [score - other for score, other in zip(scores, base, strict=True)]
    sizes = list(map(len, texts))
    if how == "bytes":
        sizes = [len(text.encode()) for text in texts]
    if len(sizes) != len(scores) or not all(sizes):
        raise DataError(
            f"{where}: lacks the texts of the choices that --normalize {how} needs"
        )
    return [score / size for score, size in zip(scores, sizes, strict=True)]


def table_of_questions(
    path: Path,
    format: str,
    questions: Sequence[Question],
    task: str,
    request: ImportRequest,
) -> Table:
    """Rows with logits, labels, ids and group (the task) of questions.

    Repeats of a question are a unit. Raises DataError for ids that occur twice with the
    same scores.
    """
    if not request.drop_duplicates:
        _refuse_copies(path, questions)
    if all(isinstance(question.id, int) for question in questions):
        questions = sorted(questions, key=lambda question: question.id)
    are_numbers = all(_is_plain_number(question.id) for question in questions)
    rows: list[dict[str, Any]] = []
    for question in questions:
        row_id = question.id if are_numbers else text_of(question.id)
        row: dict[str, Any] = {"logits": list(question.scores), "labels": question.gold}
        row |= {"ids": row_id, "group": task}
        row["unit"] = text_of(row_id if question.of is None else question.of)
        rows.append(row)
    return Table(path, format, {}, records=without_lone_units(rows))


def without_lone_units(rows: Sequence[Record]) -> Sequence[Record]:
    """The rows; where no two have the same unit, they have none."""
    if len({row["unit"] for row in rows}) < len(rows):
        return rows
    fewer = []
    for row in rows:
        fewer.append({name: cell for name, cell in row.items() if name != "unit"})
    return fewer


def _is_plain_number(value: Any) -> bool:
    """True for a number that an array of ids can hold; some ids are hashes."""
    return isinstance(value, int | float) and abs(value) < LARGEST_ID


def _refuse_copies(path: Path, questions: Sequence[Question]) -> None:
    scores_by_id: dict[Any, list[float]] = {}
    for question in questions:
        scores = list(question.scores)
        if scores_by_id.get(question.id) == scores:
            raise DataError(
                f"{path}: id {question.id!r} occurs twice with the same scores; was a"
                " second run appended?"
            )
        scores_by_id[question.id] = scores
