"""``run`` of a log of decisions: fit by question, judge question by question."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from calcli.block import Codes
from calcli.calibrator import Context
from calcli.cli.commands.report import (
    cross_fitted_model,
    evaluated_model,
)
from calcli.cli.context import CommandContext
from calcli.cli.decision_logs.fit import MOST_LINES, bundles_of
from calcli.cli.evaluation_headlines import named_headline
from calcli.cli.evaluation_job import EvaluationJob, NamedArtifact
from calcli.cli.print_evaluation import next_command
from calcli.cli.render import Cell, print_line, print_table
from calcli.errors import UsageError
from calcli.evaluation.cross_fitting import FOLD_COLUMN, CrossFitted, fold_names
from calcli.evaluation.evaluation import Evaluation
from calcli.evaluation.requests import Plan, cross_fitted_candidate
from calcli.evaluation.results import Result
from calcli.fit_questions import (
    CrossFit,
    FittedLog,
    QuestionData,
    cross_fits,
    fit_questions,
    opened_questions,
)
from calcli.io.question_artifact import METHOD
from calcli.metrics.settings import MetricSettings
from calcli.number_words import noun
from calcli.reporting.gather import ModelResults, metrics_of_page


@dataclass(frozen=True)
class JudgedLog:
    """A calibrator by question, and its results question by question."""

    fitted: FittedLog
    job: EvaluationJob
    models: Sequence[ModelResults]
    results: Sequence[list[Result]]


def fit_and_judge_log(
    args: Any, calibrator: str, test: str | None, command: CommandContext
) -> JudgedLog:
    """Fit a log and judge it on another, or by cross-fitting on itself.

    args : those of ``run``. calibrator : path that will hold the calibrator. Raises
    DataError, FitError, UsageError.
    """
    if args.method not in ("", METHOD) or args.set_:
        raise UsageError(
            f"a log is fitted by the method {METHOD}, without options; name a question,"
            f" {args.calibration}:QUESTION, for another method"
        )
    context = Context(args.seed, progress=command.progress)
    tested = [] if test is None else bundles_of(test, args.where)
    models = []
    results = []
    with opened_questions(
        bundles_of(args.calibration, args.where),
        context,
        layout=args.where,
        tell=command.say,
    ) as questions:
        fitted = fit_questions(questions, context)
        command.clear()
        for warning in fitted.artifact.fit.warnings:
            command.warn(warning)
        plan = Plan(metrics=metrics_of_page(), settings=MetricSettings(seed=args.seed))
        job = EvaluationJob(
            command,
            plan,
            templates=[calibrator],
            prints_warnings=False,
            made=fitted.artifact,
        )
        if test is None:
            crossed = cross_fits(questions, context)
            for question in questions:
                model, result = _judged(job, question, crossed[question.name])
                models.append(model)
                results.append(result)
    for bundle in tested:
        model, result = evaluated_model(job, [bundle], by_few_groups=True)
        models.append(model)
        results.append(result)
    return JudgedLog(fitted, job, models, results)


def _judged(
    job: EvaluationJob, question: QuestionData, crossed: CrossFit
) -> tuple[ModelResults, list[Result]]:
    """Results of a question, every row by a calibrator that did not see its record."""
    rows = question.rows
    path = job.templates[0]
    folds = len(crossed.calibrators)
    codes = Codes(fold_names(folds), crossed.fold)
    rows.columns = {**rows.columns, FOLD_COLUMN: codes}
    question_path = f"{rows.path}:{rows.group}"
    fitted = job.artifact(path, question_path).artifact
    calibrator = cross_fitted_candidate(
        path,
        fitted.method,
        CrossFitted(tuple(crossed.calibrators)),
        folds,
        rows,
    )
    calibrator = replace(calibrator, takes_whole_logs=True)
    named = NamedArtifact(path, fitted)  # by the path as typed, one for all questions
    model, results = cross_fitted_model(job, rows, calibrator, named)
    return replace(model, typed=question_path), results


def print_judged(judged: JudgedLog, evaluation: Evaluation) -> None:
    """Print a headline for each question, one table of all, and what to do next."""
    for results in judged.results[:MOST_LINES]:
        print_line(named_headline(results[1], results))
    n_more = len(judged.results) - MOST_LINES
    if n_more > 0:
        print_line(f"and {n_more} more {noun(n_more, 'question')}: --full")
    print_line()
    changes = {fit.name: fit.change for fit in judged.fitted.questions}
    table: list[list[Cell]] = []
    for results in judged.results[:MOST_LINES]:
        before, after = results
        name = before.bundle.rpartition(":")[2]
        row: list[Cell] = [name, before.n]
        ece = "ece_positive" if "ece_positive" in before.scores else "ece"
        for metric in ("accuracy", ece, "nll"):
            row += [before.scores[metric].value, after.scores[metric].value]
        table.append([*row, changes.get(name, "")])
    head = ["question", "labels", "accuracy", "now", "ECE", "now", "NLL", "now", "map"]
    print_table(head, table)
    folds = judged.results[0][1].n_folds
    if folds:
        print_line(f"now: cross-fitted, {folds} folds of records.")
    step = next_command(evaluation)
    if step is not None:
        print_line()
        print_line(f"next: {step}")
