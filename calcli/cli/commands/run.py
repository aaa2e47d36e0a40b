"""Fit a calibrator, judge it on other rows, and write an HTML report.

A single set of labelled rows is enough: then the calibrator is fitted to all of them and
judged by cross-fitting. A failure leaves no file behind.

\b
calcli run val.npz test.npz
calcli run scores.npz -o calibration/

\f
Writes <CAL's stem>.<method>.json and <TEST's stem>.report.html to a folder, and prints the
verdict. Both files are read before anything is fitted. One file may stand alone: with
groups cal and test it is split by them; else every row is scored by a fit that did not see
it.

\b
calcli run logits.h5 --method ts -o calibration/
"""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import typer
from msgspec import Meta

from calcli.calibrator import CrossFitting
from calcli.cli import options as o
from calcli.cli.commands import fit
from calcli.cli.commands.report import (
    cross_fitted_model,
    evaluated_model,
)
from calcli.cli.context import CommandContext
from calcli.cli.decision_logs.fit import default_name, is_whole_log
from calcli.cli.decision_logs.run import fit_and_judge_log, print_judged
from calcli.cli.evaluation_job import EvaluationJob, NamedArtifact
from calcli.cli.print_evaluation import print_headlines, print_report
from calcli.cli.print_fit import warn_of_fit
from calcli.cli.render import print_json, print_line
from calcli.errors import CalcliError, DataError, FitError, UsageError
from calcli.evaluation.cross_fitting import cross_fitted, cross_fitting_folds
from calcli.evaluation.evaluation import Evaluation
from calcli.evaluation.json_structs import EvaluationOutput
from calcli.evaluation.requests import Plan, cross_fitted_candidate
from calcli.evaluation.results import Result
from calcli.evaluation.words import samples
from calcli.fit_words import fitted_sentence
from calcli.fitting.compatibility import check_same_scores
from calcli.fitting.fit import resolved
from calcli.importers.open_any_file import expand, importing_once, open_rows
from calcli.io.artifact import Artifact, dumps, loads
from calcli.io.atomic import check_outputs_in, new_folder, write_together
from calcli.io.bundle import BundleRows
from calcli.io.dataset import DataSet
from calcli.io.locate import split_where
from calcli.io.question_artifact import dumps as dumps_questions
from calcli.io.row_facts import facts_of
from calcli.metrics.settings import MetricSettings
from calcli.output import Output
from calcli.registry import method
from calcli.reporting.gather import ModelResults, metrics_of_page
from calcli.reporting.page import page as report_page
from calcli.settings import command_words

TEST = "test"
"""Group of the rows to evaluate, where a file has one."""

MOST_LINES = 24
"""Lines that are printed without ``--full``, whatever the data."""

MOST_WARNINGS = 3
"""Warnings of the fit that are printed without ``--full``, the first ones."""


class RunOutput(Output, kw_only=True):
    """The JSON of ``calcli run``."""

    calcli_run: Literal[1]
    calibrator: Annotated[str, Meta(description="The calibrator file.")]
    report: Annotated[str, Meta(description="The HTML report.")]
    evaluation: EvaluationOutput


@dataclass(frozen=True, kw_only=True)
class RunArgs(o.MethodOptions, o.Reading, o.OutputOptions):
    FOLDERS: ClassVar[bool] = True

    calibration: Annotated[
        str,
        typer.Argument(
            metavar="CAL", help="Rows to fit to; group cal (or val) when none is named."
        ),
    ]
    test: Annotated[
        str | None,
        typer.Argument(
            metavar="TEST",
            help="Rows to evaluate; those of CAL's file when none are named.",
        ),
    ] = None
    method: Annotated[
        str, o.method("Method, or a composition such as ts+hb.", fit.DEFAULTS)
    ] = ""
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Print all findings, metrics and evidence.",
            rich_help_panel="Output",
        ),
    ] = False
    output: Annotated[
        str,
        o.output(
            "FOLDER", "Folder of the calibrator and the report.", show_default="here"
        ),
    ] = "."
    seed: o.Seed = 0
    again: o.Again = False
    force: o.Force = False


@dataclass(frozen=True)
class Outputs:
    """Files that a run writes, into a folder that it may make."""

    folder: Path
    calibrator: Path
    page: Path

    def check(self, *, force: bool) -> None:
        """Refuse outputs that exist. Raises UsageError."""
        names = (self.calibrator.name, self.page.name)
        check_outputs_in(self.folder, names, force=force)

    def write(self, calibrator: str, page: str, *, force: bool) -> None:
        """Write both files, or neither."""
        with new_folder(self.folder):
            texts = {self.calibrator: calibrator, self.page: page}
            write_together(texts, force=force)


@importing_once()
def run(args: RunArgs) -> int:
    """Fit, evaluate and report.

    The files are written when all of it is done: a failure leaves none behind.
    """
    if is_whole_log([args.calibration], args.where):
        return _run_log(args)
    shared = (*o.names_of(o.Reading), "seed", "force", "quiet")
    common = {name: getattr(args, name) for name in shared}
    fitting = fit.FitArgs(
        method=args.method,
        bundles=[args.calibration],
        set_=args.set_,
        keep_predictions=args.keep_predictions,
        free_predictions=args.free_predictions,
        **common,
    )
    fit.check_held_out(fitting)
    fitting.options()  # refuses unknown ones before rows are read
    with CommandContext(args) as command:
        with _calibration_rows(args, fitting, command) as calibration:
            test = args.test or _test_group(args, calibration)
            fitting = fit.with_default_method(fitting, calibration)
            outputs = _outputs(args, fitting, test)
            outputs.check(force=args.force)
            if test is not None:
                _check_test(args, fitting, calibration, test)
            else:
                _check_two_parts(fitting, calibration)
            command.say_read(calibration)
            fitted = fit.fit_rows(fitting, calibration, command)
            # It is judged as it will be read from its file.
            text = dumps(fitted.artifact)
            artifact = loads(text, str(outputs.calibrator))
            command.say(fitted_sentence(artifact))
            job = _job(args, command, artifact, outputs)
            if test is None:
                model, results = _judge_by_cross_fitting(
                    job, fitting, artifact, calibration, fitted.cross_fits
                )
        if test is not None:
            bundles = expand(test, args.where, args.ignored)
            model, results = evaluated_model(job, bundles, by_few_groups=True)
            command.say_read_name(model.name, model.n, model.k)
        _say_warnings(args, artifact, results, command)
        evaluation = job.evaluation([results], [])
        page = report_page(
            [model],
            evaluation.to_dict(),
            commands=[_command_of(args)],
        )
    outputs.write(text, page, force=args.force)
    _print(args, command, job.plan, evaluation, outputs)
    return command.code


def _say_warnings(
    args: RunArgs,
    artifact: Artifact,
    results: Sequence[Result],
    command: CommandContext,
) -> None:
    """Print warnings of the fit, none where the headline doubts the labels.

    They say the same of the same labels then.
    """
    most: int | None = MOST_WARNINGS
    for result in results:
        if result.report is not None and result.report.kind == "check_labels":
            most = 0
    if args.full:
        most = None
    warn_of_fit(artifact.fit.warnings, command, most)


def _run_log(args: RunArgs) -> int:
    """Fit, evaluate and report a log of decisions, question by question."""
    folder = Path(args.output)
    stem = Path(args.test or args.calibration).stem
    outputs = Outputs(
        folder=folder,
        calibrator=folder / default_name(args.calibration),
        page=folder / f"{stem}.report.html",
    )
    outputs.check(force=args.force)
    with CommandContext(args) as command:
        judged = fit_and_judge_log(args, str(outputs.calibrator), args.test, command)
        evaluation = replace(judged.job.evaluation(judged.results, []), ranks=None)
        page = report_page(
            judged.models,
            evaluation.to_dict(),
            commands=[_command_of(args)],
        )
    text = dumps_questions(judged.fitted.artifact)
    outputs.write(text, page, force=args.force)
    if args.json or args.quiet or args.full:
        _print(args, command, judged.job.plan, evaluation, outputs)
        return command.code
    print_judged(judged, evaluation)
    print_line(f"calibrator: {outputs.calibrator}")
    print_line(f"page: {outputs.page}")
    return command.code


def _command_of(args: RunArgs) -> list[str]:
    """The words of this command, which the page shows."""
    command = ["calcli", "run"]
    for words in command_words(args):
        command += words
    return command


@contextmanager
def _calibration_rows(
    args: RunArgs, fitting: fit.FitArgs, command: CommandContext
) -> Iterator[DataSet]:
    """Open the rows of the fit.

    A command that an error proposes, to make one file of bundles, is followed by this
    command on that file.
    """
    with ExitStack() as stack:
        try:
            rows = stack.enter_context(command.rows(fitting.expanded, o.CALIBRATION))
        except CalcliError as problem:
            if not problem.commands or args.test is not None:
                raise
            extracted = (*command_words(args.where), (args.calibration,))
            kept: list[str] = []
            for words in command_words(args):
                if words not in extracted:
                    kept += words
            commands: list[Sequence[str]] = []
            for proposed in problem.commands:
                commands.append(proposed)
                if proposed[1] == "extract":  # which ends with its output
                    commands.append(("calcli", "run", proposed[-1], *kept))
            raise problem.advising(*commands) from None
        yield rows


def _test_group(args: RunArgs, calibration: DataSet) -> str | None:
    """Group ``test`` of the file of the calibration rows; None where there is none."""
    if not isinstance(calibration, BundleRows) or calibration.group == TEST:
        return None
    if TEST not in calibration.bundles_of_file:
        return None
    return f"{split_where(args.calibration)[0]}:{TEST}"


def _outputs(args: RunArgs, fitting: fit.FitArgs, test: str | None) -> Outputs:
    """Names of the files; a method that was asked for is part of both names."""
    folder = Path(args.output)
    name = args.calibration
    if test is not None:
        name = expand(test, args.where, args.ignored)[0]
    stem = split_where(name)[0].stem
    if str(split_where(name)[0]) == "-":
        stem = "stdin"
    method_part = f".{fitting.method}" if args.method else ""
    return Outputs(
        folder=folder,
        calibrator=folder / fitting.default_name,
        page=folder / f"{stem}{method_part}.report.html",
    )


def _check_test(
    args: RunArgs, fitting: fit.FitArgs, calibration: DataSet, test: str
) -> None:
    """Read all rows of TEST, so that a fault is found before the fit.

    Raises DataError for rows that cannot be read, or that a calibrator fitted to the
    calibration rows could not be applied to.
    """
    names = expand(test, args.where, args.ignored)
    if len(names) > 1:
        raise UsageError(
            f"{test}: stands for {len(names)} sets of rows; calcli fit, then calcli"
            " evaluate, take several"
        )
    with open_rows(names[0], prefer=(TEST,), **args.opening) as rows:
        check_same_scores(calibration, rows, again=args.again)
        rows.check_weights()
        for column in method(fitting.method).columns_to_fit(fitting.options()):
            rows.carry(column)
        facts_of(rows)  # walks over the rows, which are checked on the way


def _check_two_parts(fitting: fit.FitArgs, rows: DataSet) -> None:
    """Refuse rows that have no two parts, one to fit to and one to judge.

    Raises DataError.
    """
    if len(cross_fitting_folds(rows, fitting.seed)) < 2:
        raise DataError(
            f"{rows.name}: cross-fitting needs two different rows, of two units where"
            f" there are any, found {samples(rows.n)}; {_fit_command(fitting)} fits"
            " without a judgement"
        )


def _fit_command(fitting: fit.FitArgs) -> str:
    """Command that only fits."""
    words = ["calcli", "fit"]
    if not fitting.by_default:
        words += ["-m", fitting.method]
    return shlex.join([*words, *fitting.given])


def _job(
    args: RunArgs, command: CommandContext, artifact: Artifact, outputs: Outputs
) -> EvaluationJob:
    """The evaluation of the calibrator, by group where there are groups."""
    plan = Plan(metrics=metrics_of_page(), settings=MetricSettings(seed=args.seed))
    return EvaluationJob(
        command,
        plan,
        templates=[str(outputs.calibrator)],
        prints_warnings=False,
        made=artifact,
    )


def _judge_by_cross_fitting(
    job: EvaluationJob,
    fitting: fit.FitArgs,
    artifact: Artifact,
    rows: DataSet,
    cross_fits: CrossFitting | None,
) -> tuple[ModelResults, list[Result]]:
    """Judge a calibrator on the rows of its fit, each by a fit that did not see it.

    cross_fits : of the fit to all rows, where it has them.
    """
    context = fit.context_of(fitting, rows, job.command)
    name, options = resolved(fitting.method, fitting.options(), rows, fitting.keep)
    try:
        crossed = cross_fitted(name, options, rows, context, cross_fits)
    except FitError as problem:
        raise FitError(
            f"{rows.name}: cross-fitting: {problem}; {_fit_command(fitting)} fits"
            " without a judgement"
        ) from None
    path = job.templates[0]
    n_folds = len(crossed.parts)
    calibrator = cross_fitted_candidate(path, artifact.method, crossed, n_folds, rows)
    named = NamedArtifact(path, artifact)
    model, results = cross_fitted_model(job, rows, calibrator, named)
    return replace(model, typed=fitting.given[0]), results


def _print(
    args: RunArgs,
    command: CommandContext,
    plan: Plan,
    evaluation: Evaluation,
    outputs: Outputs,
) -> None:
    """Print headline, findings, tables and what to do next, or all of it as JSON."""
    if args.json:
        output = RunOutput(
            calcli_run=1,
            calibrator=str(outputs.calibrator),
            report=str(outputs.page),
            evaluation=evaluation.output(),
        )
        print_json(output.to_dict())
    elif args.quiet:
        print_headlines(evaluation)
    else:
        most_lines = None if args.full else MOST_LINES - command.n_lines - 2
        print_report(evaluation, plan, full=args.full, most_lines=most_lines)
        print_line(f"calibrator: {outputs.calibrator}")
        print_line(f"page: {outputs.page}")
