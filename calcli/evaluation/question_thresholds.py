"""Thresholds of the answers to a question, and of whole records.

A question has the lowest confidence from which its answers are right often enough, and
the same for the field ``confidence`` of its log. Yes/no has two cuts of P(yes): yes is
accepted above one, no below the other. An option has a cut where its precision is asked
for. A record is right where all of its answers are.

Each is searched as ``threshold_search`` does. Each holds with its level on its own,
the cuts of a question together.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from calcli.decisions.answers import NO, YES, YES_NO
from calcli.decisions.calibrate import DECIMALS
from calcli.decisions.wire_confidence import FORMULAS
from calcli.errors import DataError, UsageError
from calcli.evaluation.selective_threshold import calibrated_columns, check_unweighted
from calcli.evaluation.threshold_search import Choice, ThresholdSearch
from calcli.io.artifact import Artifact
from calcli.io.bundle import BundleRows
from calcli.io.bundle_group import CONFIDENCE_FORMULA, QUESTION, QUESTION_TYPE
from calcli.numerics import BoolArray, FloatArray, IntArray
from calcli.output import Count, Output
from calcli.statistics.units import Units

FEWEST_TIES = 10
SHARE_OF_TIES = 0.05
"""Answers that share the highest confidence, from which they are spoken of."""


@dataclass(frozen=True)
class Answers:
    """Labelled answers to one question, calibrated.

    type : of the question, None where the bundle does not say it. classes : names of the
    options, None where they differ from row to row. probabilities : (n, k), padded with
    0. n_options : (n,). prediction, label : (n,) places of options. confidence : (n,) of
    the prediction. formula : of the field of that name, None where none is proven.
    records : (n,) id and number of its occurrence. unit_names : (n,) names of the units,
    None for independent rows.
    """

    question: str
    type: str | None
    classes: Sequence[str] | None
    probabilities: FloatArray
    n_options: IntArray
    prediction: IntArray
    confidence: FloatArray
    label: IntArray
    formula: str | None
    records: Sequence[tuple[str, int]]
    unit_names: Sequence[Any] | None

    @classmethod
    def of(cls, rows: BundleRows, artifact: Artifact | None) -> "Answers":
        """Read a bundle through its calibrator. Raises DataError for weighted rows."""
        check_unweighted(rows)
        if rows.kind == "confidence":
            raise DataError(
                f"{rows.name}: holds confidences; cuts of options need probabilities"
            )
        names = ("scores", "prediction", "confidence", "labels")
        probabilities, prediction, confidence, label = calibrated_columns(
            artifact, rows, names
        )
        n_options = np.full(rows.n, rows.k, dtype=np.int64)
        if rows.n_options_kept is not None:
            n_options = rows.n_options_kept
        return cls(
            question=_question_of(rows),
            type=rows.text_attribute(QUESTION_TYPE),
            classes=classes_of(rows),
            probabilities=probabilities,
            n_options=n_options,
            prediction=prediction,
            confidence=confidence,
            label=label,
            formula=rows.text_attribute(CONFIDENCE_FORMULA),
            records=records_of(rows),
            unit_names=unit_names_of(rows),
        )

    @classmethod
    def joined(cls, parts: Sequence["Answers"]) -> "Answers":
        """The answers of several logs to one question, one log after the other.

        Records of two logs are two records, whatever their ids. Units of one name are
        one unit. Raises DataError for other options than those of the first log.
        """
        first = parts[0]
        if len(parts) == 1:
            return first
        widest = max(part.probabilities.shape[1] for part in parts)
        probabilities = []
        records = []
        unit_names = []
        for number, part in enumerate(parts):
            if part.classes != first.classes or part.formula != first.formula:
                raise DataError(
                    f"{first.question}: the logs have other options or another formula"
                    " of confidence; find thresholds for each of them"
                )
            missing = widest - part.probabilities.shape[1]
            probabilities.append(np.pad(part.probabilities, ((0, 0), (0, missing))))
            records += [(f"{number}:{name}", times) for name, times in part.records]
            names = part.unit_names
            if names is None:
                names = [f"{number}:{row}" for row in range(part.n)]
            unit_names += list(names)
        has_units = any(part.unit_names is not None for part in parts)
        joined: dict[str, Any] = {}
        for column in ("n_options", "prediction", "confidence", "label"):
            joined[column] = np.concatenate([getattr(part, column) for part in parts])
        return replace(
            first,
            probabilities=np.concatenate(probabilities),
            records=records,
            unit_names=unit_names if has_units else None,
            **joined,
        )

    @property
    def n(self) -> int:
        return len(self.label)

    @property
    def right(self) -> BoolArray:
        return self.prediction == self.label

    @property
    def units(self) -> Units | None:
        """Units of the rows; None for independent rows."""
        return units_of(self.unit_names)

    def wire_confidence(self) -> FloatArray | None:
        """The log's own field (n,), of these probabilities, as ``apply`` writes it.

        None where no formula is proven.
        """
        if self.formula is None:
            return None
        formula = FORMULAS[self.formula]
        values = np.empty(self.n)
        for row, k in enumerate(self.n_options.tolist()):
            values[row] = formula(self.probabilities[row, :k].tolist())
        return np.round(values, DECIMALS)


COPIED = 0.9
"""Share of a log's answers that another one has, too, from which they are copies."""

BY_CHANCE = 0.5
"""Share of all pairs of answers that are equal, from which equal answers tell nothing."""


def are_copies(part: Answers, other: Answers) -> bool:
    """True where nearly all records of one log are in the other with the same answer.

    The same: id, or number of the row, probabilities of the options and label.
    """
    contents = _contents(part)
    other_contents = _contents(other)
    n_shared = 0
    for record, content in contents.items():
        if other_contents.get(record) == content:
            n_shared += 1
    if n_shared < COPIED * min(part.n, other.n):
        return False
    counts = Counter(contents.values())
    other_counts = Counter(other_contents.values())
    n_equal = sum(count * other_counts[content] for content, count in counts.items())
    return n_equal < BY_CHANCE * part.n * other.n


def _contents(answers: Answers) -> dict[tuple[str, int], tuple[bytes, int]]:
    """Probabilities of the options and label, by record."""
    contents = {}
    for row, record in enumerate(answers.records):
        probabilities = answers.probabilities[row, : answers.n_options[row]]
        contents[record] = (probabilities.tobytes(), int(answers.label[row]))
    return contents


def _question_of(rows: BundleRows) -> str:
    """Name of the question of a bundle. Raises UsageError for one that has none."""
    question = rows.text_attribute(QUESTION)
    if question is None:
        raise UsageError(
            f"{rows.name}: is no log of decisions, which --record and --precision need"
        )
    return question


def classes_of(rows: BundleRows) -> tuple[str, ...] | None:
    """Names of the options; None where they differ from row to row."""
    if rows.n_options is not None or rows.class_names is None:
        return None
    return tuple(map(str, rows.class_names))


def unit_names_of(rows: BundleRows) -> list[Any] | None:
    """Name of the unit of every row; None for independent rows."""
    if rows.given_units is None:
        return None
    units = rows.column("unit")
    assert units is not None
    return list(units.tolist())


def records_of(rows: BundleRows) -> list[tuple[str, int]]:
    """Id of every row and how often it stood before; the number where there are none."""
    ids = rows.column("ids")
    names: Iterable[Any] = range(rows.n)
    if ids is not None:
        names = ids.tolist()
    occurrences: Counter[str] = Counter()
    records = []
    for name in map(str, names):
        records.append((name, occurrences[name]))
        occurrences[name] += 1
    return records


def units_of(names: Sequence[Any] | None) -> Units | None:
    """Units by name; None where every row is one of its own."""
    if names is None:
        return None
    units = Units.of(np.array(list(map(str, names))))
    return None if units.single else units


# ---- the JSON


class CutOutput(Output, kw_only=True):
    """A cut of an option; null where there is none."""

    target: float
    threshold: float | None
    coverage: float | None
    accuracy: float | None
    accuracy_lower: float | None
    level: float


class TiesOutput(Output, kw_only=True):
    """Answers that share the highest confidence."""

    confidence: float
    n: Count
    accuracy: float


class QuestionOutput(Output, kw_only=True):
    """Thresholds of a question; null where there is none.

    threshold and what belongs to it are there with --accuracy, cuts for yes/no and with
    --precision.
    """

    threshold: float | UnsetType | None = UNSET
    coverage: float | UnsetType | None = UNSET
    accuracy: float | UnsetType | None = UNSET
    accuracy_lower: float | UnsetType | None = UNSET
    highest_accuracy: (
        Annotated[
            float | None,
            Meta(
                description="Where there is no threshold: the highest accuracy that"
                " has one."
            ),
        ]
        | UnsetType
    ) = UNSET
    confidence_threshold: (
        Annotated[
            float | None,
            Meta(
                description="The same for the log's own field confidence; null where"
                " no formula of it is proven."
            ),
        ]
        | UnsetType
    ) = UNSET
    confidence_coverage: float | UnsetType | None = UNSET
    cuts: (
        Annotated[
            dict[str, CutOutput],
            Meta(
                description="By option: it is accepted where its probability is at"
                " least the threshold."
            ),
        ]
        | UnsetType
    ) = UNSET
    level: float
    n: Count
    ties: Annotated[
        TiesOutput | None,
        Meta(
            description="Answers that share the highest confidence; null where they"
            " are few."
        ),
    ]
    calibrator_sha256: Annotated[
        str | None,
        Meta(
            description="Of the calibrator that the answers went through; null without"
            " one."
        ),
    ]


class RecordOutput(Output, kw_only=True):
    """Threshold of the product of a record's confidences; null where there is none."""

    threshold: float | None
    coverage: float | None
    accuracy: float | None
    accuracy_lower: float | None
    highest_accuracy: float | None
    level: float
    n: Count
    left_out: Count
    questions: list[str]


class LogThresholdOutput(Output, kw_only=True):
    """The JSON of ``calcli threshold`` of a log of decisions."""

    calcli_threshold: Literal[1]
    questions: Annotated[
        dict[str, QuestionOutput],
        Meta(
            description="By name. threshold and what belongs to it are there with"
            " --accuracy, cuts for yes/no and with --precision."
        ),
    ]
    record: (
        Annotated[
            RecordOutput,
            Meta(
                description="With --record: all answers of a record right at once, by"
                " the product of their confidences."
            ),
        ]
        | UnsetType
    ) = UNSET


# ---- one question


@dataclass(frozen=True)
class Demand:
    """What is asked for.

    accuracy : of accepted answers, None where only precisions are asked for. precisions
    : by option. level : with which each holds.
    """

    accuracy: float | None
    precisions: Mapping[str, float]
    level: float


def thresholds(
    answers: Answers, demand: Demand, calibrator_sha256: str | None = None
) -> QuestionOutput:
    """Thresholds of a question; None where none holds the bound.

    Raises UsageError for an accuracy or a level that is no proportion.
    """
    targets = _targets(answers, demand)
    if demand.accuracy is None:
        return QuestionOutput(
            cuts=_cuts(answers, targets, demand.level),
            level=demand.level,
            n=answers.n,
            ties=_ties(answers),
            calibrator_sha256=calibrator_sha256,
        )
    right = answers.right.astype(np.float64)
    search = ThresholdSearch.of(answers.confidence, right, answers.units)
    choice = search.choose(demand.accuracy, demand.level)
    own_choice = _of_own_confidence(answers, demand.accuracy, demand.level)
    return QuestionOutput(
        threshold=choice.threshold,
        coverage=choice.coverage,
        accuracy=choice.accuracy,
        accuracy_lower=choice.lower,
        highest_accuracy=_highest_accuracy(search, choice, demand.level),
        confidence_threshold=own_choice.threshold,
        confidence_coverage=own_choice.coverage,
        cuts=_cuts(answers, targets, demand.level),
        level=demand.level,
        n=answers.n,
        ties=_ties(answers),
        calibrator_sha256=calibrator_sha256,
    )


NOTHING = Choice(best=None, lower=None, least=0, tests=0)
"""Result of a search without rows."""


def _of_own_confidence(answers: Answers, accuracy: float, level: float) -> Choice:
    """Search on the log's own confidence."""
    wire = answers.wire_confidence()
    if wire is None:
        return NOTHING
    right = answers.right.astype(np.float64)
    return ThresholdSearch.of(wire, right, answers.units).choose(accuracy, level)


def _highest_accuracy(
    search: ThresholdSearch, choice: Choice, level: float
) -> float | None:
    """Highest accuracy that has a threshold, where the one asked for has none."""
    if choice.best is not None:
        return None
    return search.highest(level)[0]


def _targets(answers: Answers, demand: Demand) -> dict[str, float]:
    """Precision of every option that gets a cut."""
    targets = {}
    for option in answers.classes or ():
        if option in demand.precisions:
            targets[option] = demand.precisions[option]
    if answers.type == YES_NO and demand.accuracy is not None:
        for option in (YES, NO):
            targets.setdefault(option, demand.accuracy)
    return targets


def _cuts(
    answers: Answers, targets: Mapping[str, float], level: float
) -> dict[str, CutOutput] | UnsetType:
    """A cut for every option, all of them together with the level.

    The cut of one option alone is looked for among all rows, those of several among the
    rows that predict it: no row is then accepted as two.
    """
    if not targets:
        return UNSET
    assert answers.classes is not None
    level_of_each = 1.0 - (1.0 - level) / len(targets)
    cuts = {}
    for option, precision in targets.items():
        place = answers.classes.index(option)
        rows = np.arange(answers.n)
        if len(targets) > 1:
            rows = np.flatnonzero(answers.prediction == place)
        cuts[option] = _cut(answers, place, rows, precision, level_of_each)
    return cuts


def _cut(
    answers: Answers, place: int, rows: IntArray, precision: float, level: float
) -> CutOutput:
    """Lowest probability of an option from which it is right often enough.

    rows : among which it is looked for. coverage is of all rows of the question.
    """
    choice = NOTHING
    if len(rows):
        score = answers.probabilities[rows, place]
        right = (answers.label[rows] == place).astype(np.float64)
        units = None
        if answers.unit_names is not None:
            units = units_of([answers.unit_names[row] for row in rows])
        choice = ThresholdSearch.of(score, right, units).choose(precision, level)
    coverage = None
    if choice.best is not None:
        coverage = choice.best.accepted / answers.n
    return CutOutput(
        target=precision,
        threshold=choice.threshold,
        coverage=coverage,
        accuracy=choice.accuracy,
        accuracy_lower=choice.lower,
        level=level,
    )


def _ties(answers: Answers) -> TiesOutput | None:
    """The answers that share the highest confidence; None where they are few.

    Rounding makes them: no threshold tells them apart.
    """
    confidence = answers.confidence
    tied = confidence == confidence.max()
    n = int(tied.sum())
    if n < max(FEWEST_TIES, SHARE_OF_TIES * answers.n):
        return None
    return TiesOutput(
        confidence=float(confidence.max()),
        n=n,
        accuracy=float(answers.right[tied].mean()),
    )


# ---- whole records


@dataclass
class WholeRecord:
    """Answers of a record to the questions so far.

    product : of their confidences, in the order of the questions. all_right : whether
    every one is right. n : their number. unit : name of the record's unit.
    """

    unit: Any
    product: float = 1.0
    all_right: bool = True
    n: int = 0


class Records:
    """Records to which questions are added one by one.

    has_units : any lies in a unit.
    """

    def __init__(self) -> None:
        self.questions: list[str] = []
        self.whole: dict[tuple[str, int], WholeRecord] = {}
        self.has_units = False

    def add(self, answers: Answers) -> None:
        """Add the answers to a question."""
        self.questions.append(answers.question)
        units = answers.unit_names
        self.has_units = self.has_units or units is not None
        confidence = answers.confidence.tolist()
        right = answers.right.tolist()
        for row, name in enumerate(answers.records):
            record = self.whole.setdefault(name, WholeRecord(unit=name))
            record.product *= confidence[row]
            record.all_right = record.all_right and right[row]
            record.n += 1
            if units is not None:
                record.unit = units[row]

    def threshold(self, accuracy: float, level: float) -> RecordOutput:
        """Threshold of the product of a record's confidences.

        Records without an answer and a label to every question are left out. Raises
        UsageError where none is left.
        """
        n_questions = len(self.questions)
        whole = [record for record in self.whole.values() if record.n == n_questions]
        if not whole:
            raise UsageError(
                f"--record: no record has answers with labels to all {n_questions}"
                " questions; name some of them, as in LOG:QUESTION LOG:QUESTION"
            )
        confidence = np.array([record.product for record in whole])
        right = np.array([record.all_right for record in whole], dtype=float)
        units = None
        if self.has_units:
            units = units_of([record.unit for record in whole])
        search = ThresholdSearch.of(confidence, right, units)
        choice = search.choose(accuracy, level)
        return RecordOutput(
            threshold=choice.threshold,
            coverage=choice.coverage,
            accuracy=choice.accuracy,
            accuracy_lower=choice.lower,
            highest_accuracy=_highest_accuracy(search, choice, level),
            level=level,
            n=len(whole),
            left_out=len(self.whole) - len(whole),
            questions=self.questions,
        )
