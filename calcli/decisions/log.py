"""Read a log of decisions: rows of probabilities and labels for each question.

Two passes. The first collects evidence of all records: which questions there are, which
fields are labels, ids and groups. The second reads the rows into flat arrays, so that
memory grows with the numbers read and not with the text of the records.
"""

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from calcli.decisions.answers import (
    NAMED_ANSWERS,
    NO,
    ONLY,
    YES,
    YES_KEYS,
    YES_NO,
    Answer,
    AnswerType,
    Unanswered,
    find_answers,
    is_label_word,
    is_measure,
    is_yes_no,
    level_key,
    yes_option,
)
from calcli.decisions.labels import (
    THE_QUESTION,
    Field,
    LabelSearch,
    fields_of,
    is_prediction_word,
    option_of,
    shown,
    value_at,
)
from calcli.decisions.records import Numbered, Record, records
from calcli.decisions.wire_confidence import ConfidenceProof
from calcli.errors import DataError
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.records import cached_property

ID_WORDS = (
    *("id", "ids", "record_id", "example_id", "custom_id", "request_id", "uid"),
    *("item_id", "sample_id", "row_id", "row", "index"),
)
"""Names of the id of a record, the usual ones first."""

STATE_FIELDS = (
    ("state_hash",),
    ("request", "state"),
    ("state",),
    ("request", "input"),
    ("input",),
    ("prompt",),
)
"""Where the state stands that a question is asked about."""

MODEL = "model"
GOLD = "gold file"
"""Key under which the labels of another file are added to a record."""

MOST_GROUPS = 20
FEWEST_ROWS_OF_NAME = 3
"""Answers for each name from which a text beside answers is the question's name."""

ENOUGH_RECORDS = 1000
"""Records without a name beside an answer, after which none is looked for."""

LOOKED_AT = 50
"""Records by which a log of decisions is recognised."""

NO_GROUPS = frozenset(
    (
        *("id", "ids", "v", "ts", "type", "primitive", "question", "question_id"),
        *("question_name", "name", "call", "repeat", "draw", "state_hash"),
        *("question_hash", "row", "index", "error", "timestamp", "time", "date"),
    )
)
"""Names of fields with few values that are no groups."""

Gold = Callable[[int, Record], Record]
Progress = Callable[[int], None]


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
    option_sets = set()
    for record in some:
        for answer in find_answers(record):
            if isinstance(answer, Unanswered) or _is_of_decisions(answer, record):
                return True
            option_sets.add(frozenset(answer.options))
    return len(option_sets) > 1


def _is_of_decisions(answer: Answer, record: Record) -> bool:
    """True for an answer by name, of a known type, or beside the wire's fields."""
    if "answers" in answer.path or "per_question" in answer.path:
        return True
    if answer.key in YES_KEYS or answer.key.lower() in ("yes", "true"):
        return True
    if answer.confidence is not None and answer.stated is not None:
        return True
    return answer.question is not None


# ---- rows of one question


@dataclass
class QuestionRows:
    """All answers to one question, as they were read.

    orders : distinct lists of options, as written. order : of every row, its place in
    ``orders``. values : probabilities of all rows, one after the other. labels : place
    of the label among the options of the row, -1 for none. records : place of the
    record of every row among all records. left_out : rows left out, by reason.
    """

    name: str
    type: AnswerType
    orders: dict[tuple[str, ...], int] = field(default_factory=dict)
    order: "array[int]" = field(default_factory=lambda: array("q"))
    values: "array[float]" = field(default_factory=lambda: array("d"))
    labels: "array[int]" = field(default_factory=lambda: array("q"))
    records: "array[int]" = field(default_factory=lambda: array("q"))
    left_out: Counter[str] = field(default_factory=Counter)
    example: Any = None
    proof: ConfidenceProof | None = None

    def add(self, answer: Answer, record: int, label: int | None) -> None:
        """Add one row."""
        self.order.append(self.orders.setdefault(answer.options, len(self.orders)))
        self.values.extend(answer.probabilities)
        self.labels.append(-1 if label is None else label)
        self.records.append(record)
        if answer.confidence is not None:
            if self.proof is None:
                self.proof = ConfidenceProof(self.type)
            self.proof.add(in_order(answer), answer.confidence)

    @property
    def n(self) -> int:
        return len(self.order)

    @cached_property
    def classes(self) -> tuple[str, ...] | None:
        """The options in one order; None where they differ from row to row."""
        orders = list(self.orders)
        if self.type == YES_NO and all(map(is_yes_no, orders)):
            return (NO, YES)
        if len({frozenset(order) for order in orders}) > 1:
            return None
        if self.type == "score":
            return tuple(sorted(orders[0], key=level_key))
        return orders[0]

    def probabilities(self, rows: IntArray | None = None) -> FloatArray:
        """Probabilities (n, k) by class; of differing options in the order of the row.

        The latter are padded with 0.
        """
        n_options = self.n_options
        k = int(n_options.max())
        padded = np.zeros((self.n, k))
        is_option = np.arange(k)[None, :] < n_options[:, None]
        padded[is_option] = np.frombuffer(self.values, dtype=np.float64)
        if self.classes is not None:
            columns = self._columns[np.frombuffer(self.order, dtype=np.int64)]
            padded = np.take_along_axis(padded, columns, axis=1)
        return padded if rows is None else padded[rows]

    @cached_property
    def n_options(self) -> IntArray:
        """Number of options of every row (n,)."""
        counts = np.array([len(order) for order in self.orders], dtype=np.int64)
        return np.asarray(counts[np.frombuffer(self.order, dtype=np.int64)])

    @cached_property
    def _columns(self) -> IntArray:
        """For every list of options: the place of each class in it."""
        columns = [places_of(self.classes or (), order) for order in self.orders]
        return np.array(columns, dtype=np.int64)

    def class_labels(self) -> IntArray:
        """Labels (n,) as classes; -1 for none."""
        labels = np.frombuffer(self.labels, dtype=np.int64)
        if self.classes is None:
            return labels
        order = np.frombuffer(self.order, dtype=np.int64)
        classes = np.argsort(self._columns, axis=1)
        return np.where(labels < 0, -1, classes[order, np.maximum(labels, 0)])


def places_of(classes: Sequence[str], options: Sequence[str]) -> list[int]:
    """Place of every class among options; yes and no in any spelling."""
    if classes == (NO, YES):
        yes = options.index(yes_option(options))
        return [1 - yes, yes]
    places = {option: place for place, option in enumerate(options)}
    return [places[name] for name in classes]


def in_order(answer: Answer) -> tuple[float, ...]:
    """Probabilities of an answer; of a score by level."""
    if answer.type != "score":
        return answer.probabilities
    pairs = zip(answer.options, answer.probabilities, strict=True)
    by_level = sorted(pairs, key=lambda pair: level_key(pair[0]))
    return tuple(probability for _, probability in by_level)


# ---- first pass: how a log is to be read


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
    have any. id_field : None for the number of the record. groups : fields of few
    values. n_records : of the log. models : number of records of each.
    """

    is_merged: bool
    types: Mapping[str, AnswerType]
    labels: Mapping[str, LabelReading]
    id_field: Field | None
    groups: Sequence[Field]
    n_records: int
    models: Mapping[str, int]

    def question_of(self, answer: Answer | Unanswered) -> str:
        """Name of the question of an answer."""
        return question_name(answer, self.is_merged)


def question_name(answer: Answer | Unanswered, is_merged: bool) -> str:
    """Name of the question of an answer, ``ONLY`` where there is none."""
    if answer.question is None:
        return ONLY
    is_by_path = any(key in NAMED_ANSWERS for key in answer.path)
    return ONLY if is_merged and not is_by_path else answer.question


def answers_of(record: Record, is_merged: bool) -> list[Answer | Unanswered]:
    """Answers of a record, one for each question: the first."""
    known: dict[str, Answer | Unanswered] = {}
    for answer in find_answers(record):
        known.setdefault(question_name(answer, is_merged), answer)
    return list(known.values())


def plan_log(
    source: Callable[[], Iterable[Numbered]],
    where: str,
    wanted_labels: Sequence[str] = (),
) -> LogPlan:
    """Collect the evidence of all records. Raises DataError."""
    is_merged = _are_texts(source())
    search, names = LabelSearch(), _Names()
    types: dict[str, AnswerType] = {}
    n_records = 0

    def name_of(answer: Answer) -> str:
        return question_name(answer, is_merged)

    for _, record in source():
        n_records += 1
        answers = [
            answer
            for answer in answers_of(record, is_merged)
            if isinstance(answer, Answer)
        ]
        for answer in answers:
            question = name_of(answer)
            types.setdefault(question, answer.type)
            if types[question] != answer.type:
                types[question] = _common(types[question], answer.type)
        search.add(record, answers, name_of)
        names.add(record, {name_of(answer) for answer in answers})
    if not types:
        raise DataError(f"{where}: holds no answers with probabilities")
    return LogPlan(
        is_merged=is_merged,
        types=types,
        labels=_label_readings(search, types, wanted_labels, where),
        id_field=names.id_field(n_records),
        groups=names.groups(),
        n_records=n_records,
        models=dict(names.models),
    )


def _common(first: AnswerType, second: AnswerType) -> AnswerType:
    """Type of a question whose answers have two types: a choice."""
    return first if first == second else "choice"


def _are_texts(source: Iterable[Numbered]) -> bool:
    """True where the names beside answers are nearly as many as the answers."""
    names: set[str] = set()
    n_answers = 0
    for place, (_, record) in enumerate(source):
        if place == ENOUGH_RECORDS and not names:
            return False  # questions are named by keys
        for answer in find_answers(record):
            is_by_path = any(key in NAMED_ANSWERS for key in answer.path)
            if answer.question is not None and not is_by_path:
                names.add(answer.question)
                n_answers += 1
    return len(names) > 1 and n_answers < FEWEST_ROWS_OF_NAME * len(names)


def _label_readings(
    search: LabelSearch,
    types: Mapping[str, AnswerType],
    wanted: Sequence[str],
    where: str,
) -> dict[str, LabelReading]:
    """Field of the labels of every question that has any. Raises DataError."""
    readings: dict[str, LabelReading] = {}
    shared: Field | None = None
    for question in types:
        path = search.label_field(question, wanted)
        if path is None:
            continue
        fit = search.fits[question][path]
        if fit.is_ambiguous:
            message = f"the labels {shown(path)!r} of question {question!r} are whole"
            message += " numbers that are options, and as well places from 0"
            advice = 'write them as texts ("4") where they are options'
            raise DataError(f"{where}: {message}; {advice}")
        if fit.n_fitting == 0:
            message = f"the labels {shown(path)!r} of question {question!r}"
            message += f" are none of its options, the first is {fit.example!r}"
            raise DataError(f"{where}: {message}; name others with --labels FIELD")
        readings[question] = LabelReading(path, fit.by_index)
        if THE_QUESTION in path:
            shared = path
    if wanted and not readings:
        raise DataError(
            f"{where}: no field {', '.join(wanted)} holds labels of a question"
        )
    if shared is not None:
        for question in types:  # those of large records that were not looked at
            if question not in search.fits:
                readings[question] = LabelReading(shared, False)
    return readings


class _Names:
    """Evidence for ids, groups and models."""

    def __init__(self) -> None:
        self.models: Counter[str] = Counter()
        self._ids: Counter[Field] = Counter()
        self._values: dict[Field, set[Any] | None] = {}

    def add(self, record: Record, questions: set[str]) -> None:
        """Take the fields of one record into account."""
        for path, value in fields_of(record).items():
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
        if isinstance(value, float):
            self._values[path] = None
            return
        values.add(value)
        if len(values) > MOST_GROUPS:
            self._values[path] = None

    def id_field(self, n_records: int) -> Field | None:
        """The usual name that all records have; None for none."""
        whole = [path for path, n in self._ids.items() if n == n_records]
        whole.sort(key=lambda path: ID_WORDS.index(path[-1].lower()))
        return whole[0] if whole else None

    def groups(self) -> list[Field]:
        """Fields with 2 to ``MOST_GROUPS`` values."""
        return [
            path
            for path, values in self._values.items()
            if values is not None and len(values) > 1
        ]


def _is_about_answers(path: Field) -> bool:
    """True for a field in a label, a prediction, or the labels of another file."""
    if path[0] == GOLD:
        return True
    return any(is_label_word(key) or is_prediction_word(key) for key in path[:-1]) or (
        path[-1] != MODEL and (is_label_word(path[-1]) or is_prediction_word(path[-1]))
    )


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
    calibrated_by: Sequence[Mapping[str, Any]] = ()

    def ids_of(self, rows: QuestionRows, kept: IntArray) -> AnyArray:
        """Ids (n,) of some rows of a question."""
        records = np.frombuffer(rows.records, dtype=np.int64)[kept]
        return _column([self.ids[record] for record in records])

    def units_of(self, rows: QuestionRows, kept: IntArray) -> AnyArray | None:
        """Unit (n,) of some rows: the state or the id where it repeats, else None."""
        records = np.frombuffer(rows.records, dtype=np.int64)[kept]
        ids = self.ids_of(rows, kept)
        if len(np.unique(ids)) < len(ids):
            return ids
        states = self.states[records]
        has_states = bool((states >= 0).all())
        if has_states and len(np.unique(states)) < len(states):
            return states
        return None

    def group_of(self, name: str, rows: QuestionRows, kept: IntArray) -> AnyArray:
        """Values (n,) of a group column of some rows of a question, as text."""
        records = np.frombuffer(rows.records, dtype=np.int64)[kept]
        values = self.groups[name]
        return _column([_text(values[record]) for record in records])


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _column(values: Sequence[Any]) -> AnyArray:
    if all(type(value) is int and abs(value) < 1 << 62 for value in values):
        return np.array(values, dtype=np.int64)
    return np.array([str(value) for value in values], dtype=object)


def read_log(source: Callable[[], Iterable[Numbered]], plan: LogPlan) -> Log:
    """Read the rows of all questions."""
    questions = {
        name: QuestionRows(name, answer_type)
        for name, answer_type in plan.types.items()
    }
    ids: list[Any] = []
    states, groups = _Codes(), {shown(path): _Column(path) for path in plan.groups}
    links: dict[str, Mapping[str, Any]] = {}
    for number, record in source():
        place = len(ids)
        ids.append(number if plan.id_field is None else _id(record, plan.id_field))
        states.add(_state_of(record))
        for column in groups.values():
            column.add(record)
        link = record.get("calibrated_by")
        if isinstance(link, Mapping):
            links.setdefault(str(link.get("sha256")), link)
        _add_answers(record, place, questions, plan)
    return Log(
        plan=plan,
        questions=list(questions.values()),
        ids=ids,
        states=states.array,
        groups={name: column.values for name, column in groups.items()},
        calibrated_by=list(links.values()),
    )


def _id(record: Record, path: Field) -> Any:
    return value_at(record, path, "")


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
            rows.example = value if rows.example is None else rows.example
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
    """Count the questions of a record that have a label or were asked, and no answer."""
    has_error = bool(record.get("error"))
    asked = _asked(record)
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


def _state_of(record: Record) -> Any:
    """The state of a record as a text or a hash; None for none."""
    for path in STATE_FIELDS:
        value: Any = record
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is None:
            continue
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).digest()
    return None


class _Codes:
    """Numbers of values, in the order in which they first occur; -1 for None."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}
        self._codes: array[int] = array("q")

    def add(self, value: Any) -> None:
        code = -1
        if value is not None:
            code = self._known.setdefault(value, len(self._known))
        self._codes.append(code)

    @property
    def array(self) -> IntArray:
        return np.array(self._codes, dtype=np.int64)


class _Column:
    """Values of a field of few values."""

    def __init__(self, path: Field) -> None:
        self._path = path
        self.values: list[Any] = []

    def add(self, record: Record) -> None:
        self.values.append(value_at(record, self._path, ""))
