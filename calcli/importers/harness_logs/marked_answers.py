"""Answers that a scorer has marked: to choices with letters, or to open questions."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_uppercase

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.arranging.choices import rows_with_number
from calcli.importers.harness_logs.token_answers import (
    Answer,
    Position,
    table_of_answers,
)
from calcli.importers.import_request import ImportRequest
from calcli.importers.table import Table


def marked(answer: Answer, target: str, is_right: bool | None, said: str) -> Answer:
    """The answer with its label, or with whether it is correct if it has no choices.

    is_right, said : what a scorer says of the answer, and which it is; None and "" if
    it does not say it. Raises DataError for an answer to choices that contradicts its
    mark, or that none of its tokens is.
    """
    if not answer.n_choices:
        return replace(answer, more={"correct": is_right})
    positions = answer.positions
    if said:
        if is_right not in (None, said.strip() == target.strip()):
            verdict = "right" if is_right else "wrong"
            raise DataError(
                f"{answer.where}: is marked {verdict}, its answer is {said!r} and its"
                f" target {target!r}"
            )
        positions = _positions_naming(answer, said)
    return replace(answer, positions=positions, more={"labels": target})


def _positions_naming(answer: Answer, said: str) -> list[Position]:
    """The positions whose token is the answer. Raises DataError if there is none."""
    naming = []
    for position in answer.positions:
        if position.token.strip(" ().:") == said.strip():
            naming.append(position)
    if answer.positions and not naming:
        raise DataError(
            f"{answer.where}: no token is its answer {said!r}; were the choices"
            " shuffled?"
        )
    return naming


def names_of_choices(n_choices: int) -> tuple[str, ...]:
    """Names of choices as inspect_ai prints them: A to Z, then 1, 2, 3, …"""
    letters = ascii_uppercase[:n_choices]
    numbers = range(1, n_choices - len(letters) + 1)
    return (*letters, *map(str, numbers))


def table_of_marked(
    path: Path, format: str, answers: Sequence[Answer], request: ImportRequest
) -> Table:
    """Arrays of marked answers, whose classes are the names of their choices, if any.

    With ``--choices`` only answers to questions with so many are taken. Raises
    UsageError where there are none, or their numbers differ.
    """
    counts = np.array([answer.n_choices for answer in answers])
    sizes = sorted(set(counts.tolist()))
    n_choices = request.choices
    if n_choices is not None:
        rows = rows_with_number(path, counts, n_choices, "choices")
        answers = [answers[row] for row in rows]
    elif len(sizes) > 1:
        listing = " or ".join(map(str, sizes))
        commonest = int(np.bincount(counts).argmax())
        raise UsageError(
            f"{path}: has samples with {listing} choices; take those with one number",
            option=["--choices", str(commonest)],
        )
    else:
        n_choices = sizes[0]
    if n_choices and not request.class_names and not request.confidence:
        request = replace(request, class_names=names_of_choices(n_choices))
    if not n_choices and any(answer.more["correct"] is None for answer in answers):
        raise DataError(
            f"{path}: has samples without choices or a mark C or I; nothing says which"
            " answers are right"
        )
    return table_of_answers(path, format, answers, request)
