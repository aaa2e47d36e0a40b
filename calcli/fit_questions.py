"""Fit one calibrator to a log of decisions: a map for every question."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import UNSET

from calcli.calibrator import Calibrator, Context, Status
from calcli.decisions.partial_pooling import (
    N_FOLDS,
    LineQuestion,
    Question,
    TemperatureQuestion,
    TypeFit,
    fit_type,
)
from calcli.errors import DataError, FitError
from calcli.folds import RowHashes, clusters_of_units, dealt, keyed
from calcli.importers.open_any_file import logs_once, open_rows
from calcli.io.artifact import Artifact, FitRecord, Link
from calcli.io.bundle import BundleRows
from calcli.io.bundle_group import CONFIDENCE_FORMULA, QUESTION, QUESTION_TYPE
from calcli.io.locate import Layout
from calcli.io.question_artifact import (
    METHOD,
    QuestionMap,
    QuestionsArtifact,
    map_of_artifact,
)
from calcli.io.row_facts import facts_of
from calcli.io.rows_seen import sketch
from calcli.items import index_of_each, picked
from calcli.methods.platt import PlattScaling
from calcli.methods.ts import TemperatureScaling
from calcli.metrics.collect import summarise
from calcli.numerics import FloatArray, IntArray, joined_fields
from calcli.output import Count, Number, Output
from calcli.registry import method, parse_options
from calcli.statistics.units import Units
from calcli.zeros import Zeros

AnswerType = Literal["yes/no", "choice", "score"]
TYPES: tuple[AnswerType, ...] = ("choice", "score", "yes/no")

NOTHING_GAINED = (
    "nothing is gained: out-of-fold predictions are no better than the answers as they"
    " are, which stay"
)
OUTER_FOLDS = 5
"""Folds of the records by which a whole fit is judged. Each is two of the ``N_FOLDS``
folds of the fit itself, which the fit to the others has left.
"""
assert N_FOLDS % OUTER_FOLDS == 0


@dataclass(frozen=True)
class QuestionData:
    """Labelled rows of one question, read.

    rows : the opened bundle. data : its logarithms and labels, for the fit. folds :
    (n,) fold of every row.
    """

    name: str
    type: AnswerType
    rows: BundleRows
    data: Question
    folds: IntArray


@dataclass(frozen=True)
class QuestionFit:
    """What the fit did to one question, for people.

    nll_before, nll_after : out of fold, as the rows are and by maps that have not seen
    them.
    """

    name: str
    type: AnswerType
    n: int
    nll_before: float
    nll_after: float
    change: str


class QuestionFitOutput(Output, kw_only=True):
    """The fit of one question. nll_before, nll_after : out of fold."""

    type: AnswerType
    method: str
    n: Count
    nll_before: Number
    nll_after: Number


class LogFitOutput(Output, kw_only=True):
    """The JSON of ``calcli fit`` of a log of decisions."""

    calcli_fit: Literal[1]
    artifact: str
    method: str
    status: Status
    warnings: list[str]
    n: Count
    questions: dict[str, QuestionFitOutput]


@dataclass(frozen=True)
class FittedLog:
    """The calibrator of a log, and what it did."""

    artifact: QuestionsArtifact
    questions: Sequence[QuestionFit]

    def output(self, target: str) -> LogFitOutput:
        """The JSON of ``calcli fit``. target : file of the calibrator."""
        record = self.artifact.fit
        questions = {}
        for question in self.questions:
            entry = self.artifact.questions[question.name]
            questions[question.name] = QuestionFitOutput.of(
                question, method=entry.method
            )
        return LogFitOutput(
            calcli_fit=1,
            artifact=target,
            method=METHOD,
            status=record.status,
            warnings=record.warnings,
            n=record.n,
            questions=questions,
        )


@dataclass(frozen=True)
class CrossFit:
    """Calibrators of a question, each of which has not seen one fold of the records.

    fold : (n,) of every row: the place of the calibrator that has not seen it.
    """

    calibrators: Sequence[Calibrator]
    fold: IntArray


@contextmanager
def opened_questions(
    names: Sequence[str],
    context: Context,
    *,
    layout: Layout = Layout(),
    tell: Callable[[str], None] | None = None,
    again: bool = False,
) -> Iterator[list[QuestionData]]:
    """Open and read the questions of a log. names : its bundles.

    again : also answers of several models. Raises DataError.
    """
    with ExitStack() as stack:
        stack.enter_context(logs_once(names))
        opened = []
        for number, name in enumerate(names, start=1):
            rows = stack.enter_context(open_rows(name, layout=layout, tell=tell))
            assert isinstance(rows, BundleRows)
            rows.check_weights()
            if not again:
                _refuse_several_models(rows)
            opened.append(rows)
            context.progress("questions read", number, len(names))
        units = units_with_folds(opened, context.seed)
        yield list(map(_question_data, opened, units))


def cross_fits(
    questions: Sequence[QuestionData], context: Context
) -> dict[str, CrossFit]:
    """For every question the calibrators of fits without a fold of the records.

    The whole of a fit is done anew without the fold: the pooling, and the choice.
    """
    calibrators: dict[str, list[Calibrator]] = {}
    for fold in range(OUTER_FOLDS):
        for of_type in _by_type(questions):
            fit = _fit_without(fold, of_type)
            for place, question in enumerate(of_type):
                _, calibrator = _named_calibrator(question, fit.theta[place])
                counted = calibrator.counting(_zeros(question.rows))
                calibrators.setdefault(question.name, []).append(counted)
        context.progress("cross-fitting", fold + 1, OUTER_FOLDS)
    fits = {}
    for question in questions:
        outer_folds = question.folds % OUTER_FOLDS
        fits[question.name] = CrossFit(calibrators[question.name], outer_folds)
    return fits


def _by_type(questions: Sequence[QuestionData]) -> list[list[QuestionData]]:
    """The questions of every type that there is."""
    groups = []
    for answer_type in TYPES:
        of_type = [question for question in questions if question.type == answer_type]
        if of_type:
            groups.append(of_type)
    return groups


def _fit_without(fold: int, questions: Sequence[QuestionData]) -> TypeFit:
    """Fit the maps of the questions of a type without a fold of the records."""
    data = []
    folds = []
    for question in questions:
        rows = np.flatnonzero(question.folds % OUTER_FOLDS != fold)
        data.append(question.data.part(rows))
        folds.append(question.folds[rows])
    return fit_type(data, folds)


def fit_questions(questions: Sequence[QuestionData], context: Context) -> FittedLog:
    """Fit the maps type by type."""
    if not questions:
        raise FitError("no question has labels, which a fit needs")
    maps: dict[str, QuestionMap] = {}
    done: dict[str, QuestionFit] = {}
    for of_type in _by_type(questions):
        data = [question.data for question in of_type]
        fit = fit_type(data, [question.folds for question in of_type])
        for place, question in enumerate(of_type):
            calibrator = _named_calibrator(question, fit.theta[place])
            artifact = _artifact(question, fit, place, calibrator, context)
            maps[question.name] = map_of_artifact(
                artifact,
                question.type,
                question.rows.text_attribute(CONFIDENCE_FORMULA),
                is_of_options=question.rows.n_options is not None,
            )
            nll_before = artifact.fit.before["nll"]
            assert nll_before is not None  # zeros count as more than nothing
            done[question.name] = _question_fit(question, fit, place, nll_before)
    order = [question.name for question in questions]
    record = _record_of_log(questions, [maps[name] for name in order])
    artifact_of_log = QuestionsArtifact.of(picked(maps, order), record)
    return FittedLog(artifact_of_log, [done[name] for name in order])


def _refuse_several_models(rows: BundleRows) -> None:
    """Raise DataError for answers of several models: each has errors of its own."""
    for column in rows.beside:
        if column.rpartition(".")[2] != "model":
            continue
        models, counts = np.unique(
            rows.beside_at(column, 0, rows.n).astype("U"), return_counts=True
        )
        if len(models) > 1:
            parts = []
            for model, count in zip(models, counts, strict=True):
                parts.append(f"{model} ({count})")
            listing = ", ".join(parts)
            raise DataError(
                f"{rows.name}: answers of {len(models)} models, {listing}; a calibrator"
                " is for one: fit the records of one, or all with --again"
            )


# ---- rows as the fit needs them


@dataclass(frozen=True)
class RowUnits:
    """Units and folds of the rows of one question, (n,) each.

    number : of the unit among those of all questions.
    """

    number: IntArray
    fold: IntArray


def units_with_folds(questions: Sequence[BundleRows], seed: int) -> list[RowUnits]:
    """Units and folds of the rows of every question.

    What is said of one record is one unit, in all questions. Folds follow from what the
    units hold, so that neither their names nor the order of the records matter.
    """
    names = list(map(_unit_names, questions))
    distinct = dict.fromkeys(chain(*names))
    number_of = index_of_each(distinct)
    numbers = []
    counted_numbers = []
    hashes = []
    for rows, names_of_rows in zip(questions, names, strict=True):
        number = np.array([number_of[name] for name in names_of_rows], dtype=np.int64)
        counted = rows.counted_index()
        of_rows = RowHashes.of(rows.take(counted))
        of_question = np.uint64(_hash_of_text(_name_of(rows)))
        numbers.append(number)
        counted_numbers.append(number[counted])
        hashes.append(replace(of_rows, whole=of_rows.whole ^ of_question))
    units = Units.of(np.concatenate(counted_numbers))
    together = joined_fields(hashes)
    cluster, key = clusters_of_units(units, together, N_FOLDS, (together.level,))
    fold_of_cluster = dealt(keyed(key, seed), np.bincount(cluster), N_FOLDS)
    fold_of_number = np.zeros(len(distinct), dtype=np.int64)
    fold_of_number[np.concatenate(counted_numbers)] = fold_of_cluster[cluster]
    return [RowUnits(number, fold_of_number[number]) for number in numbers]


def _unit_names(rows: BundleRows) -> list[str]:
    """Name of the unit of every row: its unit, its id, or its number."""
    for role in ("unit", "ids"):
        column = rows.column(role)
        if column is not None:
            return list(map(str, column))
    return list(map(str, range(rows.n)))


def _name_of(rows: BundleRows) -> str:
    """Name of a question."""
    return rows.text_attribute(QUESTION) or rows.group or rows.path.stem


def _hash_of_text(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def _question_data(rows: BundleRows, units: RowUnits) -> QuestionData:
    """Read the rows of a question."""
    log_p = rows.z()
    labels = rows.labels_at(0, rows.n)
    question_type = rows.text_attribute(QUESTION_TYPE)
    name = _name_of(rows)
    data: Question
    if question_type == "yes/no":
        data = LineQuestion(log_p[:, 1] - log_p[:, 0], labels, units.number)
        return QuestionData(name, "yes/no", rows, data, units.fold)
    data = TemperatureQuestion(log_p, labels, units.number)
    if question_type == "score":
        return QuestionData(name, "score", rows, data, units.fold)
    return QuestionData(name, "choice", rows, data, units.fold)


# ---- calibrators and their records


def _named_calibrator(
    question: QuestionData, theta: FloatArray
) -> tuple[str, Calibrator]:
    """Method and calibrator of a question; identity where nothing changes.

    theta : log of 1 / T, or log of the slope and the intercept (``partial_pooling``).
    """
    if not theta.any():
        return "identity", method("identity")()
    if question.type == "yes/no":
        slope = np.array([np.exp(theta[0])])
        intercept = np.array([theta[1]])
        return "platt", PlattScaling(slope=slope, intercept=intercept, mode="binary")
    return "ts", TemperatureScaling(temperature=float(np.exp(-theta[0])))


def _zeros(rows: BundleRows) -> Zeros | None:
    """What a zero counts as in the rows of a question."""
    return rows.zeros if rows.n_options is None else rows.zeros_of_options


def _artifact(
    question: QuestionData,
    fit: TypeFit,
    place: int,
    named: tuple[str, Calibrator],
    context: Context,
) -> Artifact:
    """The calibrator of a question with the record of its fit."""
    name, calibrator = named
    rows = question.rows
    is_of_options = rows.n_options is not None
    counted = rows.counted()
    before = summarise(counted, None, context.progress)
    after = summarise(counted, calibrator, context.progress)
    zeros = _zeros(rows)
    options = method(name).resolve_options(parse_options(name, {}), rows.k)
    details = {
        "questions_of_type": len(fit.theta),
        "gain": float(fit.judged.gains[place].mean()),
        "evidence": fit.judged.evidence,
        "share": fit.judged.share,
        "units": len(np.unique(question.data.units)),
    }
    record = FitRecord(
        n=before.n,
        status="ok",
        warnings=[NOTHING_GAINED] if name == "identity" else [],
        source=rows.name,
        data_sha256=rows.data_sha256,
        row_sketch=sketch(facts_of(rows)),
        label_counts=[] if is_of_options else before.label_counts.tolist(),
        ignored=rows.ignored,
        seed=context.seed,
        resolution=UNSET if zeros is None else zeros.resolution,
        clip=UNSET if zeros is None or not zeros.clip else zeros.clip,
        before=dict(before.values()),
        after=dict(after.values()),
        details=details,
        upstream=list(rows.upstream) or None,
    )
    return Artifact(
        method=name,
        options=options.recorded(),
        calibrator=calibrator.counting(zeros),
        n_classes=rows.k,
        input_kind=rows.kind,
        class_names=rows.class_names,
        fit=record,
    )


def _question_fit(
    question: QuestionData, fit: TypeFit, place: int, nll_before: float
) -> QuestionFit:
    """What is said of a question after the fit.

    nll_before : of the rows as they are, whose zeros count without renormalising the
    others. A map sees and gives rows that sum to 1.
    """
    nll_after = nll_before
    if fit.judged.is_used:
        unchanged = question.data.losses(np.zeros(question.data.n_parameters))
        nll_after = float(unchanged.mean() - fit.judged.gains[place].mean())
    return QuestionFit(
        name=question.name,
        type=question.type,
        n=question.rows.n,
        nll_before=nll_before,
        nll_after=nll_after,
        change=_change(question, fit.theta[place]),
    )


def _change(question: QuestionData, theta: FloatArray) -> str:
    if not theta.any():
        return "as it is"
    if question.type == "yes/no":
        return f"slope {np.exp(theta[0]):.2f}, intercept {theta[1]:+.2f}"
    return f"T {np.exp(-theta[0]):.2f}"


def _record_of_log(
    questions: Sequence[QuestionData], maps: Sequence[QuestionMap]
) -> FitRecord:
    """Record of the fit as a whole."""
    upstream: tuple[Link, ...] = questions[0].rows.upstream
    unchanged = []
    for question, entry in zip(questions, maps, strict=True):
        if entry.method == "identity":
            unchanged.append(question.name)
    warnings = []
    if unchanged:
        listing = ", ".join(unchanged[:6])
        warnings.append(f"{listing}: {NOTHING_GAINED}")
    return FitRecord(
        n=sum(entry.fit.n for entry in maps),
        status="ok",
        warnings=warnings,
        source=Path(questions[0].rows.path).name,
        details={"questions": len(questions)},
        upstream=list(upstream) or None,
    )
