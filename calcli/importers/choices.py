"""Multiple choice: a score per candidate, as evaluation harnesses of language models log them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.archive import Archive
from calcli.importers.ask import Ask
from calcli.plain import dataclass

__all__ = ["Question", "check_logged", "choice_archive"]


@dataclass(frozen=True)
class Question:
    """One question: its id, a score per candidate (higher is better, natural log), the right candidate.

    right : whether the writer logged the candidate with the largest score as right; None
    when it did not say.
    """

    id: Any
    scores: Sequence[float]
    gold: int
    right: float | None = None


def check_logged(where: str, question: Question, measure: str) -> None:
    """Refuse a gold candidate that contradicts what the writer logged. Ties may go either way."""
    scores = np.asarray(question.scores)
    if question.right is None:
        return
    if question.right not in (0, 1):
        raise DataError(f"{where}: {measure} is {question.right}, expected 0 or 1: several answers count as right here")
    best = scores == scores.max()
    if question.right != float(best[question.gold]) and not (best[question.gold] and best.sum() > 1):
        raise DataError(
            f"{where}: {measure} is {question.right:g}, but the largest score is candidate {int(scores.argmax())} and"
            f" the right one {question.gold}; the field taken for the answer is not it, or the candidates were shuffled"
        )


def choice_archive(
    path: Path, format: str, questions: Sequence[Question], task: str, ask: Ask, notes: Sequence[str]
) -> Archive:
    """logits, labels, ids and group (the task) of questions; a folder per number of candidates.

    ``--choices N`` takes the questions with N candidates only. Raises DataError for ids
    that occur twice.
    """
    seen: set[Any] = set()
    for question in questions:
        if question.id in seen and not ask.drop_duplicates:
            raise DataError(f"{path}: id {question.id!r} occurs twice; was a second run appended to the file?")
        seen.add(question.id)
    if all(isinstance(question.id, int) for question in questions):
        questions = sorted(questions, key=lambda question: question.id)
    sizes = sorted({len(question.scores) for question in questions})
    told = list(notes)
    if ask.choices is not None:
        kept = [question for question in questions if len(question.scores) == ask.choices]
        if not kept:
            raise UsageError(
                f"--choices {ask.choices}: {path} has questions with {', '.join(map(str, sizes))} candidates"
            )
        if len(kept) < len(questions):
            left = len(questions) - len(kept)
            told.append(f"{path.name}: {left} of {len(questions)} questions left out (--choices)")
        questions, sizes = kept, [ask.choices]
    if len(sizes) > 1:
        counts = ", ".join(f"{sum(len(q.scores) == k for q in questions)} with {k}" for k in sizes)
        told.append(f"{path.name}: questions have different numbers of candidates ({counts}): a group for each number")
    held: dict[str, Any] = {}
    for k in sizes:
        rows = [question for question in questions if len(question.scores) == k]
        folder = f"choices_{k}/" if len(sizes) > 1 else ""
        arrays = {
            "logits": np.array([row.scores for row in rows], dtype=np.float64),
            "labels": np.array([row.gold for row in rows]),
            "ids": np.array([row.id for row in rows]),
            "group": np.array([task] * len(rows)),
        }
        held |= {f"{folder}{name}": array for name, array in arrays.items()}
    return Archive.held(path, format, held, told)
