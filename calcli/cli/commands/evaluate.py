"""Measure calibration with its uncertainty, and check limits.

Every error comes with its value expected under calibration, and a p-value.
Calibrators stand beside the uncalibrated scores.

\b
calcli evaluate logits.h5 --calibrator logits.auto.json
calcli evaluate logits.h5 -c logits.auto.json --max ece=0.03 --fail-on mixed

\f
Limits apply to the calibrators, or to the uncalibrated scores when there is none.
NAME is a metric, METRIC.lo or METRIC.hi (ends of its interval), METRIC.p, METRIC.abs
(without its sign: gap.abs), or METRIC_increase / METRIC_drop against the baseline.
With --per-group or --group-by they apply to every group too, but for class-by-class
metrics (cwece) and the ends of differences. --fail-on is a limit on the verdict.

\b
calcli evaluate logits.h5 -c logits.auto.json --metric ece --format value
calcli evaluate logits.h5 -c logits.auto.json --max nll_increase=0
calcli evaluate models.h5:* --metric ece --json
calcli evaluate 'shards/*.h5:test' --pool -c logits.auto.json
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import typer

from calcli.cli import evaluation_formats as formats
from calcli.cli import options as o
from calcli.cli import print_evaluation as text
from calcli.cli.context import CommandContext
from calcli.cli.evaluation_job import EvaluationJob
from calcli.cli.render import print_line, print_made, print_table
from calcli.errors import LimitCrossed, UsageError, check_choice
from calcli.evaluation.evaluation import Evaluation
from calcli.evaluation.json_output import result_json
from calcli.evaluation.metric_limits import Limit, Outcome, check, limits
from calcli.evaluation.requests import Plan
from calcli.evaluation.results import Result
from calcli.evaluation.term_meanings import explained
from calcli.evaluation.verdict_limits import FailOn, VerdictOutcome
from calcli.importers.open_any_file import logs_once
from calcli.io.atomic import check_output, write_bytes
from calcli.metrics.catalog import metric, metric_names, report_metrics, settings_of
from calcli.metrics.other_programs import PROGRAMS
from calcli.metrics.settings import Label, MetricSettings, norm_of
from calcli.registry import is_by_group
from calcli.settings import common_fields

ONE_NUMBER = "--format value prints one number"

WITH_ALL = ("table", "json", "jsonl")
"""Formats that hold everything that can be asked for."""


@dataclass(frozen=True, kw_only=True)
class EvaluateArgs(o.Pooling, o.WorkerOptions, o.OutputOptions, o.TableOptions):
    FORMATS: ClassVar[tuple[str, ...]] = (
        *o.TableOptions.FORMATS,
        "model-index",
        "value",
    )

    bundles: Annotated[
        list[str] | None,
        o.bundles(
            "FILE.h5 or FILE.h5:GROUP; FILE.h5:* is every bundle in it; group test"
            " when none is named."
        ),
    ] = None
    calibrator: Annotated[
        list[str] | None,
        o.calibrators(
            "Artifact to evaluate beside the uncalibrated scores (repeatable), -"
            " for stdin; {stem} and {group} in its path stand for the bundle's."
        ),
    ] = None
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="NAME[,NAME]",
            help="Only these metrics (with commas, or repeated).",
            autocompletion=o.complete_metrics,
            rich_help_panel="Metrics",
        ),
    ] = None
    max_: Annotated[
        list[str] | None,
        o.metric_limit(
            "--max",
            "Fail with code 5 above this, in every group too with --per-group;"
            " names: --help-all.",
        ),
    ] = None
    min_: Annotated[
        list[str] | None,
        o.metric_limit("--min", "Fail with code 5 below this, likewise."),
    ] = None
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="KIND[,KIND]",
            help="Fail with code 5 on these verdicts (with commas, or repeated):"
            " overconfident, underconfident, mixed, too_few, check_labels.",
            rich_help_panel="Limits",
        ),
    ] = None
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="All metrics but the class-by-class L2, and the evidence behind the"
            " verdict.",
            rich_help_panel="Output",
        ),
    ] = False
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="ART.json|identity",
            help="Reference for differences.",
            show_default="uncalibrated",
        ),
    ] = None
    bins: o.Bins = MetricSettings.bins
    norm: Annotated[
        str,
        typer.Option(
            "--norm",
            metavar="P|max",
            help="Norm of binned errors, 1 or more.",
            rich_help_panel="Metrics",
        ),
    ] = "1"
    scheme: Annotated[
        Literal["width", "mass"],
        typer.Option(
            "--scheme",
            metavar="width|mass",
            help="Bins of ece, mce and vce.",
            rich_help_panel="Metrics",
        ),
    ] = "width"
    label: Annotated[
        Label | None,
        typer.Option(
            "--label",
            metavar="top|positive|class|all",
            help="What errors are about: the prediction, P(class 1), each class, or all"
            " pooled. The verdict on two classes is about P(class 1), with top about"
            " the prediction.",
            show_default="top",
            rich_help_panel="Metrics",
        ),
    ] = None
    threshold: o.ClassThreshold = MetricSettings.threshold
    compat: Annotated[
        str | None,
        typer.Option(
            "--compat",
            metavar="PROGRAM",
            help="Bin as another program does: guo, kull, mapie, netcal, netcal-mass,"
            " torchmetrics, verified; relplot: find smece as it does.",
            rich_help_panel="Metrics",
        ),
    ] = None
    level: o.Level = MetricSettings.level
    resamples: o.Resamples = MetricSettings.resamples
    interval: Annotated[
        Literal["auto", "bootstrap", "t"],
        typer.Option(
            "--interval",
            metavar="auto|bootstrap|t",
            help="Intervals of row means.",
            rich_help_panel="Metrics",
        ),
    ] = "auto"
    seed: o.Seed = 0
    decomposition: o.Decomposition = None
    per_class: Annotated[
        bool, typer.Option("--per-class", help="One line per class.")
    ] = False
    per_group: Annotated[
        bool, typer.Option("--per-group", help="The metrics in every group.")
    ] = False
    ordered: o.Ordered = False
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="table|markdown|latex|csv|json|jsonl|model-index|value",
            help="How the metrics are written: model-index is the block of a model"
            " card, value the number alone of one --metric.",
            rich_help_panel="Output",
        ),
    ] = "table"
    signature: Annotated[
        bool,
        typer.Option(
            "--signature",
            help="End with a line to quote: metric, bins, norm, rows, expected value,"
            " version.",
            rich_help_panel="Output",
        ),
    ] = False
    junit: Annotated[
        str | None,
        typer.Option(
            "--junit",
            metavar="FILE",
            help="Write the limits as JUnit XML.",
            rich_help_panel="Limits",
        ),
    ] = None
    again: o.Again = False
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="End with what each term means.", rich_help_panel="Output"
        ),
    ] = False
    force: o.Force = False

    def __post_init__(self) -> None:
        o.TableOptions.__post_init__(self)
        object.__setattr__(self, "metric", o.names_in(self.metric))
        check_choice("--compat", self.compat, PROGRAMS)
        norm_of(self.norm)
        if self.only_value and len(self.metric or ()) != 1:
            raise UsageError(
                "--format value prints one metric: name it with --metric NAME"
            )

    @property
    def has_groups(self) -> bool:
        """True if the metrics are wanted in every group."""
        return bool(self.per_group or self.names_groups)

    @property
    def asks_for_groups(self) -> bool:
        """True if groups are named for what is printed, not for a calibrator alone."""
        return self.names_groups and not self.names_groups_of_calibrator

    @property
    def names_groups_of_calibrator(self) -> bool:
        """True if no groups are printed, and a calibrator may be one by group."""
        has_no_place = self.wanted not in WITH_ALL
        may_need_groups = self.only_value or bool(self.calibrator)
        prints_groups = self.per_group or self.ordered or self.max_ or self.min_
        named = self.names_groups and may_need_groups
        return named and has_no_place and not prints_groups

    def _unused_settings(self) -> set[str]:
        """Settings on which no metric that is asked for depends."""
        if not self.metric or self.per_class:
            return set()
        settings = settings_of(metric_names())
        limited = [limit.metric for limit in self.limits()]
        settings -= settings_of([*self.metric, *limited])
        has_gaps = self.has_groups and not self.ordered
        if has_gaps and self.label in ("top", "positive"):
            # It chooses the quantity of the gaps of two classes.
            settings.discard("label")
        return settings

    @property
    def unused_options(self) -> dict[str, str]:
        has_limits = bool(self.max_ or self.min_)
        is_short_form = self.wanted not in WITH_ALL
        by_group = self.has_groups and not self.ordered
        settings = self._unused_settings()
        first_metric = self.metric[0] if self.metric else ""
        return o.unused(
            (
                settings,
                " ".join(settings),
                "no metric that is asked for depends on it; see calcli metrics"
                f" {first_metric}",
            ),
            (self.metric, "full", "--metric names the metrics; leave one of them out"),
            (self.metric, "fail_on", "--metric leaves the verdict out"),
            (
                self.metric or is_short_form,
                "decomposition",
                "it is part of the whole report; leave --metric and --format out",
            ),
            (
                is_short_form,
                "per_class",
                f"{self.no_place_for} a table of classes; json has",
            ),
            (
                is_short_form
                and by_group
                and not self.only_value
                and not self.names_groups_of_calibrator,
                "per_group group_by",
                f"{self.no_place_for} groups; json has",
            ),
            (not self.has_groups, "ordered", o.NO_BATCHES),
            (
                not self.people,
                "explain",
                "it explains the table for people; calcli metrics NAME explains a"
                " metric",
            ),
            (
                self.only_value,
                "per_class ordered explain",
                ONE_NUMBER,
            ),
            (
                self.only_value and not has_limits,
                "baseline per_group",
                ONE_NUMBER,
            ),
            (
                self.only_value and not has_limits and not self.calibrator,
                "group_by",
                ONE_NUMBER,
            ),
            (
                not has_limits and not self.fail_on,
                "junit",
                "it reports limits: give some with --max, --min or --fail-on",
            ),
        )

    @property
    def no_place_for(self) -> str:
        """What begins a sentence about what the format leaves out."""
        return f"--format {self.form} has no place for"

    @property
    def only_value(self) -> bool:
        """True if one number is printed and nothing else."""
        return self.wanted == "value"

    def limits(self) -> list[Limit]:
        """The limits asked for. Raises UsageError for one that cannot be checked."""
        asked = limits(self.max_, self.min_)
        changing = [limit.name for limit in asked if limit.change]
        if changing and not self.calibrator:
            raise UsageError(
                f"{changing[0]} compares with the uncalibrated scores: add"
                " --calibrator ART.json"
            )
        return asked

    def plan(self, limited: Sequence[str]) -> Plan:
        """Metrics to compute, and their settings.

        limited : metrics that limits need. Raises UsageError.
        """
        names = [metric(name).name for name in self.metric or ()]
        if not names:
            names = list(report_metrics(self.full, label=self.label))
        settings = common_fields(MetricSettings, self)
        settings["norm"] = norm_of(self.norm)
        settings["label"] = self.label or "top"
        options = common_fields(Plan, self)
        options["per_group"] = self.per_group or self.asks_for_groups
        options["limited"] = limited
        options["decomposition"] = self.decomposition
        return Plan(
            tuple(dict.fromkeys([*names, *limited])),
            MetricSettings(**settings),
            report=not self.metric and not self.only_value,
            about=self.label,
            **options,
        )


# ---- the command


@dataclass(frozen=True)
class Evaluated:
    """Everything that was evaluated, before it is printed."""

    command: CommandContext
    plan: Plan
    evaluation: Evaluation
    outcomes: Sequence[Outcome | VerdictOutcome]


def run(args: EvaluateArgs) -> int:
    """Evaluate and print; returns the exit code."""
    return show(evaluate(args))


def evaluate(args: EvaluateArgs) -> Evaluated:
    """Evaluate bundle by bundle.

    Of several, one that fails does not stop the others.
    """
    command = CommandContext(args)
    asked = args.limits()
    fail_on = FailOn.parse(None if args.fail_on is None else ",".join(args.fail_on))
    plan = args.plan([limit.metric for limit in asked])
    baseline = args.baseline
    if baseline in ("identity", "uncalibrated"):
        baseline = None
    job = EvaluationJob(
        command,
        plan,
        args.calibrator or [],
        baseline,
        prints_warnings=args.full or not args.people,
    )
    if args.junit is not None:
        check_output(Path(args.junit), force=args.force)
    evaluated: list[list[Result]] = []
    outcomes: list[Outcome | VerdictOutcome] = []
    with logs_once(args.given, args.where), command:
        sets = _bundle_sets(args, command)
        several = len(sets) > 1 or (len(args.given) > 1 and not args.pool)
        for bundles in sets:
            results: list[Result] = []
            with command.trying(several):
                results, against = job.evaluate(bundles)
                evaluated.append(results)
            if args.names_groups_of_calibrator:
                _check_by_group(results, args)
            for result in results[1:] or results:
                outcomes += check(asked, result, against)
                outcomes += fail_on.check(result)
            if args.wanted == "jsonl":  # as they come
                lines = [result_json(result) for result in results]
                args.print("evaluation", [], lines)
    _warn_of_limits_on_all_rows(command, asked, outcomes, evaluated)
    command.tell_warnings()
    evaluation = job.evaluation(evaluated, outcomes)
    return Evaluated(command, plan, evaluation, outcomes)


def _check_by_group(results: Sequence[Result], args: EvaluateArgs) -> None:
    """Refuse groups that no calibrator needs. Raises UsageError."""
    methods = [result.method for result in results]
    if methods and not any(map(is_by_group, methods)):
        reason = ONE_NUMBER
        end = ""
        if not args.only_value:
            reason = f"{args.no_place_for} groups"
            end = "; json has"
        raise UsageError(f"--group-by: {reason}, and no calibrator is by group{end}")


def show(done: Evaluated) -> int:
    """Print an evaluation and the outcomes of its limits; returns the exit code."""
    command = done.command
    args = command.args
    _print(command, done.plan, done.evaluation)
    if args.junit is not None:
        document = formats.junit(done.outcomes, done.evaluation.results)
        write_bytes(Path(args.junit), document, force=args.force)
    for outcome in done.outcomes:
        if outcome.crossed:
            command.fail(f"limit crossed: {outcome.sentence}", LimitCrossed.exit_code)
        else:
            command.say(f"limit holds: {outcome.sentence}")
    return command.code


def _bundle_sets(args: EvaluateArgs, command: CommandContext) -> list[list[str]]:
    """Bundles to evaluate, those that are one data set together."""
    if args.pool:
        return [args.expanded]
    sets = []
    for name in args.given:
        with command.trying(len(args.given) > 1):
            sets += [[bundle] for bundle in args.expand(name)]
    return sets


def _warn_of_limits_on_all_rows(
    command: CommandContext,
    asked: Sequence[Limit],
    outcomes: Sequence[Outcome | VerdictOutcome],
    evaluated: Sequence[Sequence[Result]],
) -> None:
    """Warn of limits that single groups cannot be held to."""
    all_results = chain.from_iterable(evaluated)
    if not any(result.per_group for result in all_results):
        return
    in_groups = {id(outcome.limit) for outcome in outcomes if outcome.group is not None}
    whole = [limit.text for limit in asked if id(limit) not in in_groups]
    if whole:
        command.warn(
            f"{', '.join(whole)}: held against all rows together only, as single groups"
            " have no such value"
        )


def _print(command: CommandContext, plan: Plan, evaluation: Evaluation) -> None:
    """Print the output that was asked for; with --quiet the headlines alone."""
    args = command.args
    if args.only_value:
        _print_values(command, plan, evaluation)
    elif args.wanted == "model-index":
        print_made(formats.model_index(evaluation))
    elif not args.people:
        table_of = formats.batch_table if args.ordered else formats.result_table
        table = table_of(evaluation, args.wanted)
        args.print("evaluation", [table], [], evaluation.to_dict())
    elif args.quiet:
        text.print_headlines(evaluation)
    else:
        text.print_report(evaluation, plan, full=args.full)
        if args.ordered:
            print_line("\nbatches in order of time")
            print_table(*formats.batch_table(evaluation, args.wanted))
        if args.explain:
            terms = explained(evaluation.results, plan.report, plan.settings)
            print_line()
            print_table(["term", "meaning"], terms)
    if args.signature and evaluation.bundles:
        # On stdout after a table for people; on stderr where a program reads stdout.
        out = sys.stdout if args.people and not args.only_value else sys.stderr
        name = plan.metrics[0] if args.metric else "ece"
        for line in formats.quotable(evaluation, name):
            print_line(line, out)


def _print_values(command: CommandContext, plan: Plan, evaluation: Evaluation) -> None:
    """Print the value of one metric, a line per calibrator."""
    name = plan.metrics[0]
    for results in evaluation.bundles:
        for result in results[1:] or results:
            score = result.scores[name]
            print_line("null" if score.value is None else repr(float(score.value)))
            if score.reason:
                command.say(f"{name}: undefined for {result.title}: {score.reason}")
