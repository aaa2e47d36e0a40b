"""Write an HTML report.

The page is one file that needs no network. It begins with a verdict for every model and
calibrator; a crossed limit gives exit code 5.

\b
calcli report logits.h5 --calibrator logits.auto.json -o report.html
calcli report 'models.h5:*' -o report.html --max ece=0.05

\f
After the verdict come reliability diagrams, uncertainties, thresholds, classes and groups,
and where everything comes from. The page opens from disk and reads without its script.

\b
calcli report --state watch.json -o watched.html
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from calcli.cli import options as o
from calcli.cli.context import CommandContext
from calcli.cli.evaluation_job import EvaluationJob, NamedArtifact
from calcli.errors import LimitCrossed, UsageError
from calcli.evaluation.metric_limits import Outcome, check, limits
from calcli.evaluation.requests import Candidate, Plan, scores_as_given
from calcli.evaluation.results import Result
from calcli.evaluation.watch_state import read as read_state
from calcli.io.atomic import check_output, write_bytes
from calcli.io.dataset import DataSet
from calcli.metrics.settings import MetricSettings
from calcli.reporting.gather import (
    ModelResults,
    gather,
    metrics_of_page,
    with_results,
)
from calcli.reporting.page import Limit, page
from calcli.settings import command_words, common_fields

MOST_GROUPS = 50
"""Groups up to which they are measured without being asked for."""

UNSAID = ("-o", "-q", "--json", "--force", "--workers", "--cluster")
"""Options that change no number; -o is added at the end."""


@dataclass(frozen=True, kw_only=True)
class ReportArgs(o.Pooling, o.WorkerOptions, o.OutputOptions):
    output: Annotated[Path, o.output("FILE.html", "The page to write.")]
    bundles: Annotated[
        list[str] | None,
        o.bundles(
            "FILE.h5, FILE.h5:GROUP or FILE.h5:*; group test when none is named."
        ),
    ] = None
    calibrator: Annotated[
        list[str] | None,
        o.calibrators(
            "Artifact to show too (repeatable); {stem} and {group} in its path"
            " stand for the bundle's."
        ),
    ] = None
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="STATE.json",
            help="State of calcli watch to draw, beside bundles or alone.",
        ),
    ] = None
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="Name of the page.")
    ] = None
    max_: Annotated[
        list[str] | None, o.metric_limit("--max", "Limit, as for evaluate.")
    ] = None
    min_: Annotated[
        list[str] | None, o.metric_limit("--min", "Limit, as for evaluate.")
    ] = None
    bins: o.Bins = MetricSettings.bins
    level: o.Level = MetricSettings.level
    decomposition: o.Decomposition = None
    ordered: o.Ordered = False
    again: o.Again = False
    seed: o.Seed = 0
    force: o.Force = False

    def __post_init__(self) -> None:
        if self.output.suffix.lower() not in (".html", ".htm"):
            raise UsageError(
                f"-o {self.output}: expected a name that ends in .html; diagram writes"
                " pictures"
            )

    @property
    def unused_options(self) -> dict[str, str]:
        return o.unused(
            (not self.names_groups, "ordered", o.NO_BATCHES),
            (
                not self.given,
                "calibrator max_ min_",
                "it is about bundles: name one beside --state",
            ),
        )

    @property
    def commands(self) -> list[list[str]]:
        """Commands that write the page again and print its numbers."""
        report_words: list[str] = []
        evaluate_words: list[str] = []
        for words in command_words(self):
            if words[0] in UNSAID:
                continue
            report_words += words
            if words[0] not in ("--state", "--title"):
                evaluate_words += words
        commands = [["calcli", "report", *report_words, "-o", str(self.output)]]
        if self.state is not None:
            commands.append(["calcli", "watch", "--state", self.state])
        if self.given:
            commands.append(["calcli", "evaluate", *evaluate_words, "--json"])
        return commands


@dataclass(frozen=True)
class Composed:
    """A page before it is written. evaluation : the JSON of its numbers."""

    command: CommandContext
    text: str
    evaluation: dict[str, Any]
    outcomes: list[Outcome]


def run(args: ReportArgs) -> int:
    """Write the page, and check the limits."""
    check_output(args.output, force=args.force)
    done = compose(args)
    write_bytes(args.output, done.text, force=args.force)
    done.command.tell_warnings()
    done.command.written(args.output, done.evaluation)
    for outcome in done.outcomes:
        if outcome.crossed:
            sentence = f"limit crossed: {outcome.sentence}"
            done.command.fail(sentence, LimitCrossed.exit_code)
    return done.command.code


def compose(args: ReportArgs) -> Composed:
    """Evaluate every bundle and compose the page."""
    command = CommandContext(args)
    asked = limits(args.max_, args.min_)
    settings = MetricSettings(**common_fields(MetricSettings, args))
    needed = metrics_of_page([limit.metric for limit in asked])
    plan = Plan(
        needed,
        settings,
        decomposition=args.decomposition,
        per_group=args.ordered,
        ordered=args.ordered,
    )
    job = EvaluationJob(command, plan, args.calibrator or [])
    state = None if args.state is None else (args.state, read_state(args.state))
    models: list[ModelResults] = []
    evaluated: list[list[Result]] = []
    with command:
        for bundles in args.sets if args.given else ():
            model, results = evaluated_model(job, bundles)
            models.append(model)
            evaluated.append(results)
    outcomes: list[Outcome] = []
    for results in evaluated:
        for result in results[1:] or results:
            outcomes += check(asked, result, results[0])
    evaluation = job.evaluation(evaluated, outcomes).to_dict()
    text = page(
        models,
        evaluation,
        title=args.title or "",
        limits=[Limit(outcome.crossed, outcome.sentence) for outcome in outcomes],
        commands=args.commands,
        watch=state,
    )
    return Composed(command, text, evaluation, outcomes)


def evaluated_model(
    job: EvaluationJob, bundles: Sequence[str], *, by_few_groups: bool = False
) -> tuple[ModelResults, list[Result]]:
    """Evaluate bundles as one data set; what a page shows of them, and the results.

    by_few_groups : measure every group, too, where there are few.
    """
    artifacts = job.artifacts(bundles[0])
    with job.command.rows(bundles) as rows:
        candidates = job.candidates(artifacts, rows)
        if by_few_groups:
            job = _by_few_groups(job, rows)
        model, results = model_of_rows(job, rows, candidates, artifacts)
    typed_name = bundles[0] if len(bundles) == 1 else "BUNDLE"
    return replace(model, typed=typed_name), results


def model_of_rows(
    job: EvaluationJob,
    rows: DataSet,
    candidates: Sequence[Candidate],
    artifacts: Sequence[NamedArtifact],
    in_sample: bool = False,
) -> tuple[ModelResults, list[Result]]:
    """Evaluate candidates on open rows; what a page shows of them, and the results.

    artifacts : of the candidates but the first, in their order. in_sample : they were
    fitted to these rows, and the candidates are not what they hold.
    """
    subject = job.subject(rows)
    model, assessed = gather(subject, candidates, job.plan, job.command.progress)
    warned = [] if in_sample else artifacts
    results = job.with_warnings(rows, warned, assessed)
    files = [(named.name, named.artifact) for named in artifacts]
    return with_results(model, results, files, rows), results


def cross_fitted_model(
    job: EvaluationJob,
    rows: DataSet,
    calibrator: Candidate,
    artifact: NamedArtifact,
) -> tuple[ModelResults, list[Result]]:
    """Evaluate a calibrator on the rows of its fit, each by a fit that did not see it.

    artifact : the calibrator that was fitted to all of them.
    """
    job = _by_few_groups(job, rows)
    candidates = [scores_as_given(rows), calibrator]
    model, results = model_of_rows(job, rows, candidates, [artifact], in_sample=True)
    uncalibrated, cross_fitted = model.versions
    results[1] = replace(results[1], n_folds=calibrator.n_folds)
    cross_fitted = replace(cross_fitted, result=results[1])
    return replace(model, versions=(uncalibrated, cross_fitted)), results


def _by_few_groups(job: EvaluationJob, rows: DataSet) -> EvaluationJob:
    """The job, with every group where there are several, few enough for a table."""
    group = rows.column("group")
    has_few = group is not None and 1 < len(set(group.tolist())) <= MOST_GROUPS
    return replace(job, plan=replace(job.plan, per_group=has_few))
