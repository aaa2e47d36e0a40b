"""Multiple choice: a score per candidate, as evaluation harnesses of language models log them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.archive import Archive
from calcli.importers.ask import Ask
from calcli.plain import dataclass

__all__ = ["Question", "agrees", "check_logged", "choice_archive", "normalised"]


@dataclass(frozen=True)
class Question:
    """One question: its id, a score per candidate (higher is better, natural log), the right candidate."""

    id: Any
    scores: Sequence[float]
    gold: int


def agrees(lls: Sequence[float], gold: int, right: float | None) -> bool:
    """Whether a gold candidate fits what was logged of the one with the largest score; it does where nothing was."""
    return right is None or (right == 1) == (lls[gold] == max(lls))


def check_logged(where: str, lls: Sequence[float], gold: int, right: float | None, measure: str) -> None:
    """Refuse a gold candidate that contradicts what the writer logged. Ties may go either way.

    right : whether the candidate with the largest score was logged as right; None where it was not said.
    """
    if right is None:
        return
    if right not in (0, 1):
        raise DataError(f"{where}: {measure} is {right}, expected 0 or 1: several answers count as right here")
    scores = np.asarray(lls)
    best = scores == scores.max()
    if right != float(best[gold]) and not (best[gold] and best.sum() > 1):
        raise DataError(
            f"{where}: {measure} is {right:g}, but the largest score is candidate {int(scores.argmax())} and"
            f" the right one {gold}; the field taken for the answer is not it, or the candidates were shuffled"
        )


def normalised(
    where: str, how: str, lls: Sequence[float], texts: Sequence[str], base: Sequence[float] | None
) -> Sequence[float]:
    """Log-likelihoods per character or byte of the choices, or less those without the question (mutual).

    base : these, None where they were not asked for. Raises DataError for what the writer did not log.
    """
    if how == "none":
        return lls
    if how == "mutual":
        if base is None or len(base) != len(lls):
            raise DataError(
                f"{where}: has no unconditional log-likelihoods for --normalize mutual; run it with acc_mutual_info"
            )
        return [ll - other for ll, other in zip(lls, base, strict=True)]
    sizes = [len(text if how == "chars" else text.encode()) for text in texts]
    if len(sizes) != len(lls) or not all(sizes):
        raise DataError(f"{where}: lacks the texts of the choices that --normalize {how} needs")
    return [ll / size for ll, size in zip(lls, sizes, strict=True)]


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
