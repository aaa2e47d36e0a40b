"""Read a log of decisions: rows of probabilities and labels for each question.

There are two passes. The first collects the evidence of all records (``log_plan``). The
second reads the rows into flat arrays, so that memory grows with the numbers read and
not with the text of the records.
"""

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calcli.decisions.answers import (
    YES_KEYS,
    Answer,
    Unanswered,
    find_answers,
    text_of_option,
)
from calcli.decisions.labels import (
    THE_QUESTION,
    option_of,
    shown,
    value_at,
)
from calcli.decisions.log_plan import LogPlan, answers_of
from calcli.decisions.question_rows import QuestionRows
from calcli.decisions.records import Numbered, Record, records
from calcli.errors import DataError
from calcli.numerics import AnyArray, IntArray

STATE_FIELDS = (
    ("state_hash",),
    ("request", "state"),
    ("state",),
    ("request", "input"),
    ("input",),
    ("prompt",),
)
"""Where the state stands that a question is asked about."""


LOOKED_AT = 50
"""Records by which a log of decisions is recognised."""


def looks_like_log(path: Path) -> bool:
    """True for a file whose first records hold answers of decision models."""
    some: list[Record] = []
    try:
        for _, record in records(path):
            some.append(record)
            if len(some) == LOOKED_AT:
                break
    except (DataError, OSError, UnicodeDecodeError):
        pass
    return _is_log(some)


def _is_log(some: Sequence[Record]) -> bool:
    """True for records of a known wire format, or with options that differ."""
    if some and all(record.get("answers") in ({}, []) for record in some):
        return True
    option_sets = set()
    for record in some:
        for answer in find_answers(record):
            if isinstance(answer, Unanswered) or _is_of_decisions(answer):
                return True
            option_sets.add(frozenset(answer.options))
    return len(option_sets) > 1


def _is_of_decisions(answer: Answer) -> bool:
    """True for an answer by name, of a known type, or beside the wire's fields."""
    if "answers" in answer.path or "per_question" in answer.path:
        return True
    if answer.key in YES_KEYS or answer.key.lower() in ("yes", "true"):
        return True
    if answer.confidence is not None and answer.stated is not None:
        return True
    return answer.question is not None


# ---- second pass: the rows


@dataclass(frozen=True)
class Log:
    """Content of a log.

    ids : of the records, texts or numbers. states : a number for each state, -1 for
    none. groups : values of the records by name.
    """

    plan: LogPlan
    questions: Sequence[QuestionRows]
    ids: Sequence[Any]
    states: IntArray
    groups: Mapping[str, Sequence[Any]]
    calibrated_by: Sequence[Mapping[str, Any]]

    def ids_of(self, rows: QuestionRows) -> AnyArray:
        """Ids (n,) of the rows of a question."""
        return _column([self.ids[record] for record in rows.records])

    def units_of(self, rows: QuestionRows) -> AnyArray | None:
        """Unit (n,) of the rows: the state or the id where it repeats, else None."""
        ids = self.ids_of(rows)
        if len(np.unique(ids)) < len(ids):
            return ids
        states = self.states[np.frombuffer(rows.records, dtype=np.int64)]
        has_states = bool((states >= 0).all())
        if has_states and len(np.unique(states)) < len(states):
            return states
        return None

    def group_of(self, name: str, rows: QuestionRows) -> AnyArray:
        """Values (n,) of a group column of the rows of a question, as text."""
        values = self.groups[name]
        return _column([_text(values[record]) for record in rows.records])


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _column(values: Sequence[Any]) -> AnyArray:
    if all(type(value) is int and abs(value) < 1 << 62 for value in values):
        return np.array(values, dtype=np.int64)
    return np.array(list(map(str, values)), dtype=object)


def read_log(source: Callable[[], Iterable[Numbered]], plan: LogPlan) -> Log:
    """Read the rows of all questions."""
    questions = {
        name: QuestionRows(name, answer_type)
        for name, answer_type in plan.types.items()
    }
    ids: list[Any] = []
    numbers_of_states: dict[bytes, int] = {}
    states = array("q")
    groups: dict[str, list[Any]] = {shown(path): [] for path in plan.groups}
    links: dict[str, Mapping[str, Any]] = {}
    for number, record in source():
        place = len(ids)
        ids.append(number)
        if plan.id_field is not None:
            ids[-1] = value_at(record, plan.id_field, "")
        state = _state_of(record)
        state_number = -1
        if state is not None:
            state_number = numbers_of_states.setdefault(state, len(numbers_of_states))
        states.append(state_number)
        for path in plan.groups:
            groups[shown(path)].append(value_at(record, path, ""))
        link = record.get("calibrated_by")
        if isinstance(link, Mapping):
            links.setdefault(str(link.get("sha256")), link)
        _add_answers(record, place, questions, plan)
    return Log(
        plan=plan,
        questions=list(questions.values()),
        ids=ids,
        states=np.array(states, dtype=np.int64),
        groups=groups,
        calibrated_by=list(links.values()),
    )


def _add_answers(
    record: Record, place: int, questions: Mapping[str, QuestionRows], plan: LogPlan
) -> None:
    """Add the answers of a record to the rows of their questions."""
    answered = set()
    for answer in answers_of(record, plan.is_merged):
        name = plan.question_of(answer)
        answered.add(name)
        rows = questions.get(name)
        if rows is None:
            continue
        if isinstance(answer, Unanswered):
            rows.left_out[answer.reason] += 1
            continue
        reading = plan.labels.get(name)
        if reading is None:
            rows.add(answer, place, None)
            continue
        value = value_at(record, reading.field, name)
        if value is None:
            rows.left_out["without a label"] += 1
            continue
        label = option_of(value, answer, by_index=reading.by_index)
        if label is None:
            rows.left_out["with a label that is no option"] += 1
            rows.unlisted[text_of_option(value)] += 1
            continue
        rows.add(answer, place, label)
    if len(answered) < len(questions):
        _count_missing(record, answered, questions, plan)


def _count_missing(
    record: Record,
    answered: set[str],
    questions: Mapping[str, QuestionRows],
    plan: LogPlan,
) -> None:
    """Count the questions of a record that have a label or were asked, and no answer.

    The only question of a log was asked in every record.
    """
    has_error = bool(record.get("error"))
    asked = questions if len(questions) == 1 else _asked(record)
    for name, rows in questions.items():
        if name in answered:
            continue
        reading = plan.labels.get(name)
        is_labelled = (
            reading is not None
            and THE_QUESTION in reading.field
            and value_at(record, reading.field, name) is not None
        )
        if is_labelled or name in asked:
            rows.left_out["with an error" if has_error else "not answered"] += 1


def _asked(record: Record) -> Iterable[str]:
    """Names of the questions that a record asks; a line per question has one."""
    request = record.get("request")
    questions = request.get("questions") if isinstance(request, Mapping) else None
    if isinstance(questions, Mapping):
        return questions
    if isinstance(record.get("question"), str):
        return (record["question"],)
    is_line = isinstance(record.get("question"), Mapping)
    return (record["id"],) if is_line and isinstance(record.get("id"), str) else ()


def _state_of(record: Record) -> bytes | None:
    """Hash of the state of a record; None for none."""
    for path in STATE_FIELDS:
        value: Any = record
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is None:
            continue
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).digest()
    return None
