"""How a log of decisions is to be read: the evidence of all its records.

Which questions there are, which fields are labels, ids and groups. It is the first pass
over a log; the second reads the rows (``log``).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calcli.decisions.answers import (
    ONLY,
    Answer,
    AnswerType,
    Unanswered,
    find_answers,
    is_label_word,
    is_measure,
    is_named_by_path,
)
from calcli.decisions.labels import (
    THE_QUESTION,
    Field,
    LabelSearch,
    fields_of,
    is_prediction_word,
    shown,
)
from calcli.decisions.records import Numbered, Record
from calcli.errors import DataError

ID_WORDS = (
    *("id", "ids", "record_id", "example_id", "custom_id", "request_id", "uid"),
    *("item_id", "sample_id", "row_id", "row", "index"),
)
"""Names of the id of a record, the usual ones first."""


MODEL = "model"

GOLD = "gold file"
"""Key under which the labels of another file are added to a record."""

MOST_GROUPS = 20

FEWEST_ROWS_OF_NAME = 3
"""Answers for each name from which a text beside answers is the question's name."""

ENOUGH_RECORDS = 1000
"""Records without a name beside an answer, after which none is looked for."""

NO_GROUPS = frozenset(
    (
        *("id", "ids", "v", "ts", "type", "primitive", "question", "question_id"),
        *("question_name", "name", "call", "repeat", "draw", "state_hash"),
        *("question_hash", "row", "index", "error", "timestamp", "time", "date"),
    )
)
"""Names of fields with few values that are no groups."""


@dataclass(frozen=True)
class LabelReading:
    """Field of the labels of a question, and whether these are indices."""

    field: Field
    by_index: bool


@dataclass(frozen=True)
class LogPlan:
    """How the records of a log are read.

    is_merged : names beside answers are texts of their own, no names of questions.
    types : of the questions, in the order of the log. labels : of the questions that
    have any. possible_label : where none has any, the only field whose values may
    be labels. id_field : None for the number of the record. groups : fields of few
    values. n_records : of the log. models : number of records of each.
    """

    is_merged: bool
    types: Mapping[str, AnswerType]
    labels: Mapping[str, LabelReading]
    possible_label: Field | None
    id_field: Field | None
    groups: Sequence[Field]
    n_records: int
    models: Mapping[str, int]

    def question_of(self, answer: Answer | Unanswered) -> str:
        """Name of the question of an answer."""
        return question_name(answer, self.is_merged)


def question_name(answer: Answer | Unanswered, is_merged: bool) -> str:
    """Name of the question of an answer, ``ONLY`` where there is none."""
    if answer.question is None or (is_merged and not is_named_by_path(answer)):
        return ONLY
    return answer.question


def answers_of(record: Record, is_merged: bool) -> list[Answer | Unanswered]:
    """Answers of a record, one for each question: the first."""
    known: dict[str, Answer | Unanswered] = {}
    for answer in find_answers(record):
        known.setdefault(question_name(answer, is_merged), answer)
    return list(known.values())


def plan_log(
    source: Callable[[], Iterable[Numbered]],
    where: str,
    wanted_labels: Sequence[str],
) -> LogPlan:
    """Collect the evidence of all records. Raises DataError."""
    is_merged = _names_are_texts(source())
    search = LabelSearch(wanted_labels)
    evidence = _FieldEvidence()
    types: dict[str, AnswerType] = {}
    unanswered: Counter[str] = Counter()
    n_records = 0

    def name_of(answer: Answer) -> str:
        return question_name(answer, is_merged)

    for _, record in source():
        n_records += 1
        answers = []
        for answer in answers_of(record, is_merged):
            if isinstance(answer, Unanswered):
                unanswered[answer.reason] += 1
            else:
                answers.append(answer)
        for answer in answers:
            question = name_of(answer)
            types.setdefault(question, answer.type)
            if types[question] != answer.type:
                types[question] = "choice"
        fields = fields_of(record)
        search.add(fields, answers, name_of)
        evidence.add(fields, set(map(name_of, answers)))
    if not types:
        reasons = [f"{number} {reason}" for reason, number in unanswered.items()]
        listing = f" ({', '.join(reasons)})" if reasons else ""
        raise DataError(
            f"{where}: none of its {n_records} records holds answers with"
            f" probabilities{listing}"
        )
    labels = _label_readings(search, types, where)
    return LogPlan(
        is_merged=is_merged,
        types=types,
        labels=labels,
        possible_label=None if labels else search.possible_field(),
        id_field=evidence.id_field(n_records),
        groups=evidence.groups(),
        n_records=n_records,
        models=dict(evidence.models),
    )


def _names_are_texts(source: Iterable[Numbered]) -> bool:
    """True where the names beside answers are texts, such as the question itself.

    They are nearly as many as the answers, where names of questions repeat.
    """
    names: set[str] = set()
    n_answers = 0
    for place, (_, record) in enumerate(source):
        if place == ENOUGH_RECORDS and not names:
            return False  # questions are named by keys
        for answer in find_answers(record):
            if answer.question is not None and not is_named_by_path(answer):
                names.add(answer.question)
                n_answers += 1
    return len(names) > 1 and n_answers < FEWEST_ROWS_OF_NAME * len(names)


def _label_readings(
    search: LabelSearch, types: Mapping[str, AnswerType], where: str
) -> dict[str, LabelReading]:
    """Field of the labels of every question that has any. Raises DataError."""
    readings: dict[str, LabelReading] = {}
    shared: Field | None = None
    for question in types:
        path = search.label_field(question)
        if path is None:
            continue
        fit = search.fits[question][path]
        if fit.is_ambiguous:
            message = f"the labels {shown(path)!r} of question {question!r} are whole"
            message += " numbers that are options, and as well places from 0"
            raise DataError(
                f'{where}: {message}; write them as texts ("4") where they are options'
            )
        if fit.n_fitting == 0:
            message = f"the labels {shown(path)!r} of question {question!r}"
            message += f" are none of its options, the first is {fit.example!r}"
            raise DataError(f"{where}: {message}; name others with --labels FIELD")
        readings[question] = LabelReading(path, fit.by_index)
        if THE_QUESTION in path:
            shared = path
    if search.wanted and not readings:
        raise DataError(
            f"{where}: no field {', '.join(search.wanted)} holds labels of a question"
        )
    if shared is not None:
        for question in types:  # those of large records that were not looked at
            if question not in search.fits:
                readings[question] = LabelReading(shared, False)
    return readings


class _FieldEvidence:
    """Which fields beside the answers may be ids, groups, or the name of a model."""

    def __init__(self) -> None:
        self.models: Counter[str] = Counter()
        self._ids: Counter[Field] = Counter()
        self._values: dict[Field, set[Any] | None] = {}

    def add(self, fields: Mapping[Field, Any], questions: set[str]) -> None:
        """Take the fields of one record into account."""
        for path, value in fields.items():
            name = path[-1].lower()
            if len(path) == 1 and name in ID_WORDS and value not in questions:
                self._ids[path] += isinstance(value, str | int)
            if name == MODEL and isinstance(value, str):
                self.models[value] += 1
            if name in NO_GROUPS or _is_about_answers(path) or is_measure(name):
                continue
            self._add_value(path, value)

    def _add_value(self, path: Field, value: Any) -> None:
        values = self._values.setdefault(path, set())
        if values is None:
            return
        values.add(value)
        if isinstance(value, float) or len(values) > MOST_GROUPS:
            self._values[path] = None

    def id_field(self, n_records: int) -> Field | None:
        """The usual name that all records have; None for none."""
        whole = [path for path, n in self._ids.items() if n == n_records]
        whole.sort(key=lambda path: ID_WORDS.index(path[-1].lower()))
        return whole[0] if whole else None

    def groups(self) -> list[Field]:
        """Fields with 2 to ``MOST_GROUPS`` values."""
        return [path for path, values in self._values.items() if len(values or ()) > 1]


def _is_about_answers(path: Field) -> bool:
    """True for a field in a label, a prediction, or the labels of another file."""
    if path[0] == GOLD:
        return True
    keys = path[:-1] if path[-1] == MODEL else path
    return any(is_label_word(key) or is_prediction_word(key) for key in keys)
