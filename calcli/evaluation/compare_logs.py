"""Compare two logs of decisions: what another model, or version, answers to the same.

Answers are paired by the id of their record and the question. Accuracy is tested by
McNemar's test of the answers that become right and wrong, the NLL by the paired test of
``statistics.paired``; p-values are adjusted for the number of questions (Holm 1979).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.evaluation.differences import compared
from calcli.evaluation.facts import Difference
from calcli.evaluation.json_output import difference_output, scores_json
from calcli.evaluation.json_structs import DifferenceOutput, ScoreObject
from calcli.evaluation.question_thresholds import (
    classes_of,
    records_of,
    unit_names_of,
    units_of,
)
from calcli.evaluation.scores import measured
from calcli.io.bundle import BundleRows
from calcli.items import index_of_each, present
from calcli.metrics.collect import collect, predicted
from calcli.metrics.context import MetricContext
from calcli.metrics.rowtable import RowTable
from calcli.metrics.settings import MetricSettings
from calcli.numerics import FloatArray, IntArray
from calcli.output import Number, Output
from calcli.rows import ArrayRows
from calcli.statistics.p_values import holm

METRICS = ("accuracy", "nll", "brier")


@dataclass(frozen=True)
class ModelAnswers:
    """Labelled answers of one model to one question.

    classes : names of the options, None where they differ from row to row. log_p :
    (n, k). table : what ``evaluate`` measures of the rows. records : (n,) id and number
    of its occurrence. units : (n,) names of the units, None for independent rows.
    """

    name: str
    classes: tuple[str, ...] | None
    log_p: FloatArray
    labels: IntArray
    table: RowTable
    records: Sequence[tuple[str, int]]
    units: Sequence[Any] | None

    @classmethod
    def of(cls, rows: BundleRows) -> "ModelAnswers":
        """Read the rows of a question."""
        assert rows.weights() is None, "logs of decisions have no sample weights"
        return cls(
            name=rows.name,
            classes=classes_of(rows),
            log_p=rows.z(),
            labels=rows.labels_at(0, rows.n),
            table=collect(rows),
            records=records_of(rows),
            units=unit_names_of(rows),
        )

    def in_order_of(self, other: "ModelAnswers") -> "ModelAnswers":
        """The same answers, options in the order of another model's where equal."""
        if self.classes is None or other.classes is None:
            return self
        if set(self.classes) != set(other.classes):
            return self
        order = [self.classes.index(name) for name in other.classes]
        place = np.argsort(order)
        return replace(
            self,
            classes=other.classes,
            log_p=self.log_p[:, order],
            labels=place[self.labels],
        )

    def at(self, rows: IntArray) -> ArrayRows:
        """Some of the rows."""
        units = None
        if self.units is not None:
            units = units_of([self.units[row] for row in rows])
        scores = self.log_p[rows]
        labels = self.labels[rows]
        return ArrayRows(scores, labels, "log_probs", units=units)

    def label_name(self, row: int) -> str:
        """Name of the label of a row."""
        assert self.classes is not None
        return self.classes[self.labels[row]]


@dataclass(frozen=True)
class ComparedQuestion:
    """Paired answers to one question, new minus baseline.

    n : pairs. unpaired : answers of the new log, and of the baseline, without partner.
    metrics : of both, by name, as ``evaluate --json`` has them. accuracy, nll : their
    differences.
    """

    question: str
    n: int
    unpaired: tuple[int, int]
    n_classes: int
    new: dict[str, ScoreObject]
    baseline: dict[str, ScoreObject]
    accuracy: Difference
    nll: Difference

    @property
    def fixed(self) -> int | None:
        """Answers that become right."""
        if self.accuracy.answers is None:
            return None
        return self.accuracy.answers[0]

    @property
    def broken(self) -> int | None:
        """Answers that become wrong."""
        if self.accuracy.answers is None:
            return None
        return self.accuracy.answers[1]


def compare_question(
    question: str, new: ModelAnswers, baseline: ModelAnswers, settings: MetricSettings
) -> ComparedQuestion | None:
    """Compare the paired answers; None where no record is in both.

    Raises DataError where labels differ.
    """
    baseline = baseline.in_order_of(new)
    row_of = index_of_each(baseline.records)
    ours = []
    theirs = []
    for row, record in enumerate(new.records):
        if record in row_of:
            ours.append(row)
            theirs.append(row_of[record])
    if not ours:
        return None
    _check_labels(new, baseline, ours, theirs)
    rows = new.at(np.array(ours))
    rows_of_baseline = baseline.at(np.array(theirs))
    against = None
    if new.classes is not None and new.classes == baseline.classes:
        against = predicted(rows_of_baseline, None)
    # The losses are those of evaluate; the arrays give their expected moments.
    table = replace(
        new.table.take(np.array(ours)),
        expected=collect(rows, against=against).expected,
        units=rows.units(),
    )
    table_of_baseline = replace(
        baseline.table.take(np.array(theirs)), units=rows_of_baseline.units()
    )
    context = MetricContext(table, settings)
    context_of_baseline = MetricContext(table_of_baseline, settings)
    differences = compared(context, context_of_baseline)
    return ComparedQuestion(
        question=question,
        n=len(ours),
        unpaired=(len(new.records) - len(ours), len(baseline.records) - len(ours)),
        n_classes=rows.k,
        new=_metrics(context),
        baseline=_metrics(context_of_baseline),
        accuracy=differences["accuracy"],
        nll=differences["nll"],
    )


def _metrics(context: MetricContext) -> dict[str, ScoreObject]:
    return scores_json(measured(context, METRICS))


def _check_labels(
    new: ModelAnswers, baseline: ModelAnswers, ours: list[int], theirs: list[int]
) -> None:
    """Refuse pairs whose labels differ. Raises DataError."""
    if new.classes is None or baseline.classes is None:
        return
    pairs = []
    for row, partner in zip(ours, theirs, strict=True):
        if new.label_name(row) != baseline.label_name(partner):
            pairs.append((row, partner))
    if pairs:
        row, partner = pairs[0]
        raise DataError(
            f"{new.name}: the label of record {new.records[row][0]} is"
            f" {new.label_name(row)!r}, in {baseline.name}"
            f" {baseline.label_name(partner)!r} ({len(pairs)} of {len(ours)} labels"
            " differ); make them agree"
        )


def _adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm-adjusted p-values; None stays."""
    known = [number for number, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    steps = holm(present(p_values))
    for number, step in zip(known, steps, strict=True):
        adjusted[number] = step
    return adjusted


class AnswersOutput(Output):
    """The JSON of one log's answers to a question."""

    bundle: str
    method: str
    n: int
    n_classes: int
    seconds: None
    metrics: dict[str, ScoreObject]


class AdjustedDifference(DifferenceOutput, kw_only=True):
    """A paired difference with its p-value adjusted for the number of questions."""

    p_adjusted: Number


class QuestionOutput(Output):
    """The JSON of the paired answers to a question, new minus baseline.

    unpaired : answers of the new log, and of the baseline, without partner.
    """

    n: int
    unpaired: tuple[int, int]
    fixed: int | None
    broken: int | None
    accuracy: AdjustedDifference
    nll: AdjustedDifference


class LogSettings(Output, kw_only=True):
    """Settings of a comparison of two logs. baseline : the other log."""

    level: float
    baseline: str
    calcli_version: str


class LogComparisonOutput(Output):
    """The JSON of ``calcli compare`` of two logs."""

    calcli_compare: int
    settings: LogSettings
    results: list[AnswersOutput]
    questions: dict[str, QuestionOutput]
    ranks: None


def comparison_of_logs(
    questions: Sequence[ComparedQuestion],
    new: str,
    baseline: str,
    settings: LogSettings,
) -> LogComparisonOutput:
    """The struct of the JSON of ``calcli compare`` of two logs."""
    by_accuracy = _adjusted([pair.accuracy.p_value for pair in questions])
    by_nll = _adjusted([pair.nll.p_value for pair in questions])
    results = []
    paired = {}
    for number, pair in enumerate(questions):
        results.append(_answers_output(new, pair, pair.new))
        results.append(_answers_output(baseline, pair, pair.baseline))
        paired[pair.question] = QuestionOutput.of(
            pair,
            accuracy=_adjusted_difference(pair.accuracy, by_accuracy[number]),
            nll=_adjusted_difference(pair.nll, by_nll[number]),
        )
    return LogComparisonOutput(
        calcli_compare=1,
        settings=settings,
        results=results,
        questions=paired,
        ranks=None,
    )


def _answers_output(
    log: str, pair: ComparedQuestion, metrics: dict[str, ScoreObject]
) -> AnswersOutput:
    return AnswersOutput.of(
        pair,
        bundle=f"{log}:{pair.question}",
        method="uncalibrated",
        seconds=None,
        metrics=metrics,
    )


def _adjusted_difference(
    difference: Difference, p_adjusted: float | None
) -> AdjustedDifference:
    return AdjustedDifference.of(difference_output(difference), p_adjusted=p_adjusted)
