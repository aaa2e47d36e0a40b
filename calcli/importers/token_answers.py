"""Answers of servers with an OpenAI interface: log-probabilities of their tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.import_request import ImportRequest
from calcli.importers.json_columns import column_of_cells
from calcli.importers.positions import reduced
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Table
from calcli.importers.token_classes import UNLIKELY, bare, by_token, of_classes
from calcli.io.cells import words
from calcli.numerics import AnyArray

ABOVE_ZERO = 1e-6
"""Rounding by which a log-probability may exceed 0."""


def no_log_probabilities(where: object, more: str = "") -> DataError:
    """Error about answers without scores. more : further options of the server."""
    message = "has no token log-probabilities; ask the server for them"
    return DataError(
        f"{where}: {message} with logprobs=true{more}",
        no_command="the log does not hold them",
    )


@dataclass(frozen=True)
class Position:
    """One token of an answer.

    logprob : its log-probability (natural). top : those of the top tokens there.
    """

    token: str
    logprob: float
    top: Mapping[str, float]


@dataclass(frozen=True)
class Answer:
    """One response.

    id : of the row, or None. more : values of further columns by name (labels, group).
    """

    where: str
    id: str | None
    text: str
    positions: Sequence[Position]
    more: Mapping[str, Any] = field(default_factory=dict)


def columns_beside(answers: Sequence[Answer]) -> list[str]:
    """Names of the further columns that any of the responses has."""
    names: dict[str, None] = {}
    for answer in answers:
        names |= dict.fromkeys(answer.more)
    return list(names)


def positions_of(logprobs: Any, where: str) -> list[Position]:
    """Parse ``choices[i].logprobs``: of chats (``content``) or legacy (columns)."""
    if not isinstance(logprobs, Mapping):
        return []
    try:
        if logprobs.get("content"):
            return _positions_of_chat(logprobs["content"])
        return _positions_of_completion(logprobs)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        message = f"logprobs are not as servers write them: {problem!r}"
        raise DataError(f"{where}: {message}") from None


def _positions_of_chat(content: Sequence[Mapping[str, Any]]) -> list[Position]:
    positions = []
    for entry in content:
        top = {}
        for other in entry.get("top_logprobs") or []:
            top[other["token"]] = other["logprob"]
        if entry["logprob"] is not None:
            positions.append(_position(entry["token"], entry["logprob"], top))
    return positions


def _positions_of_completion(logprobs: Mapping[str, Any]) -> list[Position]:
    tokens = logprobs.get("tokens") or []
    values = logprobs.get("token_logprobs") or []
    tops = logprobs.get("top_logprobs") or [None] * len(tokens)
    positions = []
    for token, logprob, top in zip(tokens, values, tops, strict=True):
        if logprob is not None:
            positions.append(_position(token, logprob, dict(top or {})))
    return positions


def _position(token: Any, logprob: Any, top: Mapping[str, Any]) -> Position:
    known = {str(other): float(value) for other, value in top.items()}
    known[str(token)] = float(logprob)
    for value in known.values():
        if value > ABOVE_ZERO or value != value:
            raise ValueError(f"a log-probability above 0 at {token!r}")
    likely = {other: value for other, value in known.items() if value > UNLIKELY}
    return Position(str(token), float(logprob), likely)


def table_of_answers(
    path: Path, format: str, answers: Sequence[Answer], request: ImportRequest
) -> Table:
    """Arrays of the answers.

    With ``--class-names``: logits (n, classes), the log-probability of each class's
    token at the position where the answer names a class. Without: ``answer`` and
    ``confidence``, the exponential of the sum of the token log-probabilities, or by
    ``--reduce`` of their mean, least or first.
    """
    if request.reduce == "none":
        reason = "a row per token needs a truth per token, which responses do not have"
        raise UsageError(f"--reduce none: {reason}")
    arrays: dict[str, Any] = {}
    if request.class_names and not request.confidence:
        class_rows = _class_rows(path, answers, request.class_names)
        answers = class_rows.answers
        arrays["logits"] = class_rows.logits
        arrays["class_names"] = np.array(request.class_names)
    else:
        how = request.reduce or "sum"
        texts = [answer.text.strip() for answer in answers]
        arrays["answer"] = np.array(texts, dtype="U")
        arrays["confidence"] = _confidences(answers, how)
        what = "the exponential of the answer's token log-probabilities"
        remark(f"{path.name}: 'confidence' is {what} ({how})")
    ids = [answer.id for answer in answers if answer.id is not None]
    if len(ids) == len(answers):
        arrays["ids"] = words(ids)
        if len(set(ids)) < len(ids):  # repeated questions, as in epochs
            arrays["unit"] = arrays["ids"]
    table = Table.held(path, format, arrays)
    columns = dict(table.columns)
    for name in columns_beside(answers):
        cells = [answer.more.get(name) for answer in answers]
        column = column_of_cells(path, name, cells)
        if request.drop_missing:
            column = replace(column, empty_row=None)
        columns[name] = Column(
            path,
            name,
            column.load,
            written=column.written,
            decimals=column.decimals,
        )
    return replace(table, columns=columns)


def _confidences(answers: Sequence[Answer], how: str) -> AnyArray:
    """Probabilities of the answers, from those of their tokens."""
    confidences = []
    for answer in answers:
        if not answer.positions:
            raise no_log_probabilities(answer.where)
        logprobs = np.array([position.logprob for position in answer.positions])
        confidences.append(exp(min(reduced(logprobs, how), 0.0)))
    return np.array(confidences)


@dataclass(frozen=True)
class ClassRows:
    """Answers whose tokens list a class, and their log-probabilities (n, classes)."""

    answers: Sequence[Answer]
    logits: AnyArray


def _class_rows(
    path: Path, answers: Sequence[Answer], names: Sequence[str]
) -> ClassRows:
    """Log-probabilities of the classes. Raises DataError if few answers list one."""
    index = by_token(names)
    rows, kept = [], []
    n_lacking = 0
    for answer in answers:
        place = _place_of_class(answer, index)
        if place is None:
            continue
        classes = of_classes(answer.positions[place].top, index, len(names))
        n_lacking += classes.n_unlisted > 0
        rows.append(classes.log_probs)
        kept.append(answer)
    n_without = len(answers) - len(kept)
    if len(kept) * 2 < len(answers) or not kept:
        raise _without_classes(path, answers, names, n_without)
    listing = ", ".join(names)
    what = f"logits are the log-probabilities of {listing} where the answer names one"
    remark(f"{path.name}: {what}")
    if n_lacking:
        message = (
            f"{n_lacking} of {len(kept)} rows lack a class among the tokens listed"
        )
        remark(f"{path.name}: {message}, which got its upper bound")
    if n_without:
        message = f"{n_without} of {len(answers)} answers list no class: left out"
        remark(f"{path.name}: {message}")
    return ClassRows(kept, np.array(rows))


def _without_classes(
    path: Path, answers: Sequence[Answer], names: Sequence[str], n_without: int
) -> DataError:
    first_tokens = []
    for answer in answers[:50]:
        if answer.positions:
            first_tokens.append(repr(answer.positions[0].token))
    beginnings = list(dict.fromkeys(first_tokens))[:6]
    message = f"{n_without} of {len(answers)} answers list none of the classes"
    reason = f"{', '.join(names)}; they begin with {', '.join(beginnings)}"
    advice = (
        "name them with --class-names, or take --confidence confidence"
        " --correct answer=gold --gold FILE"
    )
    return DataError(f"{path}: {message} {reason}: {advice}")


def _place_of_class(answer: Answer, index: Mapping[str, int]) -> int | None:
    """Position that names a class, else the first that lists one; None if none does.

    Raises DataError.
    """
    if not answer.positions:
        raise no_log_probabilities(answer.where, " and top_logprobs=20")
    naming = []
    for place, position in enumerate(answer.positions):
        if bare(position.token) in index:
            naming.append(place)
    named = {index[bare(answer.positions[place].token)] for place in naming}
    if len(named) > 1 and naming[0] > 0:
        tokens = ", ".join(repr(answer.positions[place].token) for place in naming[:4])
        message = f"names several classes ({tokens}) after other words"
        raise DataError(f"{answer.where}: {message}; have it answer one alone")
    if naming:
        return naming[0]
    for place, position in enumerate(answer.positions):
        if any(bare(token) in index for token in position.top):
            return place
    return None
