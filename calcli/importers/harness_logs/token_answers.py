"""Answers of servers with an OpenAI interface: log-probabilities of their tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.arranging.token_classes import (
    ABOVE_ZERO,
    UNLIKELY,
    bare,
    by_token,
    of_classes,
)
from calcli.importers.arranging.token_confidences import reduced
from calcli.importers.harness_logs.questions import question_id
from calcli.importers.import_request import ImportRequest
from calcli.importers.json_columns import columns_of_records
from calcli.importers.remarks import remark, remark_left_out
from calcli.importers.table import Table
from calcli.io.cells import text_of, words
from calcli.numerics import AnyArray


def no_log_probabilities(where: object, more: str = "") -> DataError:
    """Error about answers without scores. more : further options of the server."""
    return DataError(
        f"{where}: has no token log-probabilities; ask the server for them with"
        f" logprobs=true{more}",
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
    n_choices : choices of the question, which letters name; 0 where it has none.
    """

    where: str
    id: str | None
    text: str
    positions: Sequence[Position]
    more: Mapping[str, Any] = field(default_factory=dict)
    n_choices: int = 0


def positions_of(logprobs: Any, where: str) -> list[Position]:
    """Parse ``choices[i].logprobs``: of chats (``content``) or legacy (columns).

    Raises DataError for others, and where all tokens are numbers.
    """
    if not isinstance(logprobs, Mapping):
        return []
    try:
        if logprobs.get("content"):
            positions = _positions_of_chat(logprobs["content"])
        else:
            positions = _positions_of_completion(logprobs)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise DataError(
            f"{where}: logprobs are not as servers write them: {problem!r}"
        ) from None
    are_numbers = [position.token.startswith("token_id:") for position in positions]
    if positions and all(are_numbers):
        raise DataError(
            f"{where}: tokens are numbers; run the server without"
            " return_tokens_as_token_ids"
        )
    return positions


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


def text_of_message(message: Mapping[str, Any] | None) -> str:
    """Text of a chat message; of one in several parts that of its parts of text."""
    content = (message or {}).get("content")
    if not isinstance(content, list):
        return "" if content is None else str(content)
    return "".join(part["text"] for part in content if part.get("type") == "text")


def answer_id(value: Any, where: str) -> str | None:
    """Text of the id of an answer; None where it has none. Raises DataError."""
    return None if value is None else text_of(question_id(value, where))


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
        raise UsageError(
            "--reduce none: a row per token needs a truth per token, which responses do"
            " not have"
        )
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
        remark(
            f"{path.name}: 'confidence' is the exponential of the answer's token"
            f" log-probabilities ({how})"
        )
    ids = [answer.id for answer in answers if answer.id is not None]
    if len(ids) == len(answers):
        arrays["ids"] = words(ids)
        if len(set(ids)) < len(ids):  # repeated questions, as in epochs
            arrays["unit"] = arrays["ids"]
    columns = dict(Table.held(path, format, arrays).columns)
    beside = columns_of_records(path, [answer.more for answer in answers])
    for name, column in beside.items():
        if request.drop_missing:
            column = replace(column, empty_row=None)
        columns[name] = column
    return Table(path, format, columns)


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
        position = _position_of_class(answer, index)
        if position is not None:
            classes = of_classes(position.top, index, len(names))
            n_lacking += classes.n_unlisted > 0
            rows.append(classes.log_probs)
            kept.append(answer)
    n_without = len(answers) - len(kept)
    if len(kept) * 2 < len(answers) or not kept:
        raise _without_classes(path, answers, names, n_without)
    remark(
        f"{path.name}: logits are the log-probabilities of {', '.join(names)} where the"
        " answer names one"
    )
    if n_lacking:
        remark(
            f"{path.name}: {n_lacking} of {len(kept)} rows lack a class among the"
            " tokens listed, which got its upper bound"
        )
    remark_left_out(path.name, n_without, len(answers), "answers list no class")
    return ClassRows(kept, np.array(rows))


def _without_classes(
    path: Path, answers: Sequence[Answer], names: Sequence[str], n_without: int
) -> DataError:
    first_tokens = []
    for answer in answers[:50]:
        if answer.positions:
            first_tokens.append(repr(answer.positions[0].token))
    beginnings = list(dict.fromkeys(first_tokens))[:6]
    return DataError(
        f"{path}: {n_without} of {len(answers)} answers list none of the classes"
        f" {', '.join(names)}; they begin with {', '.join(beginnings)}: name them with"
        " --class-names, or take --confidence confidence --correct answer=gold --gold"
        " FILE"
    )


def _position_of_class(answer: Answer, index: Mapping[str, int]) -> Position | None:
    """Position that names a class, else the first that lists one; None if none does.

    Raises DataError.
    """
    if not answer.positions:
        raise no_log_probabilities(answer.where, " and top_logprobs=20")
    naming = [place for place in answer.positions if bare(place.token) in index]
    named = {index[bare(place.token)] for place in naming}
    if len(named) > 1 and naming[0] is not answer.positions[0]:
        tokens = ", ".join(repr(place.token) for place in naming[:4])
        raise DataError(
            f"{answer.where}: names several classes ({tokens}) after other words; have"
            " it answer one alone"
        )
    if naming:
        return naming[0]
    for position in answer.positions:
        if not index.keys().isdisjoint(map(bare, position.top)):
            return position
    return None
