"""Measure calibration with its uncertainty, and check limits.

Calibrators stand beside the uncalibrated scores. Every calibration error comes with what a
perfectly calibrated model would show on the same confidences, and a p-value. Limits apply
to the calibrators, or to the uncalibrated scores when there is none: NAME is a metric, METRIC.lo or METRIC.hi (ends
of its interval), METRIC.p, METRIC.abs (without its sign: gap.abs), or METRIC_increase / METRIC_drop against the
baseline. With --per-group or --group-by they apply to every group too, but for class-by-class metrics (cwece)
and the ends of differences. There is no limit on the verdict itself: --min ece.p=0.05 fails where the calibration
error is significant, and report.verdict_kind of --json is the verdict in a word.

\b
calcli evaluate logits.h5 --calibrator logits.ts.json
calcli evaluate logits.h5 -c logits.ts.json --metric ece --value-only
calcli evaluate logits.h5 -c logits.ts.json --max nll_increase=0 --max ece=0.03
calcli evaluate models.h5:* --metric ece --json
calcli evaluate 'shards/*.h5:test' --pool -c logits.ts.json
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from calcli.cli import options as o
from calcli.cli.context import CommandContext
from calcli.cli.evaluate_job import Job
from calcli.cli.evaluate_text import (
    batch_table,
    junit,
    model_index,
    print_report,
    print_verdicts,
    quotable,
    result_table,
)
from calcli.cli.render import print_json
from calcli.cli.tables import plain, print_table
from calcli.errors import LimitCrossed, UsageError, check_choice
from calcli.evaluation.evaluate_bundle import Plan
from calcli.evaluation.metric_limits import Limit, Outcome, check, limits
from calcli.evaluation.results import Evaluation, Result
from calcli.evaluation.term_meanings import explained
from calcli.fast_dataclass import dataclass
from calcli.importers.open_any_file import expand
from calcli.io.atomic import check_output, write_bytes
from calcli.io.locate import note_bundles
from calcli.metrics.catalog import metric, report_metrics, settings_of
from calcli.metrics.context import Label, MetricSettings, norm_of
from calcli.metrics.other_programs import PROGRAMS
from calcli.options import flag, same, taken

ORDER = 40
WITH_ALL = ("table", "json", "jsonl")  # formats that hold everything that can be asked for


@dataclass(frozen=True)
class EvaluateArgs(o.Pooling, o.WorkerOptions, o.OutputOptions, o.TableOptions):
    FORMATS: ClassVar[tuple[str, ...]] = (*o.TableOptions.FORMATS, "model-index")

    bundles: list[str] | None = o.bundles(
        "FILE.h5 or FILE.h5:GROUP; FILE.h5:* is every bundle in it; group test when none is named."
    )
    calibrator: list[str] | None = flag(
        None,
        "Artifact to evaluate beside the uncalibrated scores (repeatable), - for stdin;"
        " {stem} and {group} in its path stand for the bundle's.",
        "ART.json",
        "-c",
    )
    metric: list[str] | None = flag(None, "Only these metrics (repeatable).", "NAME", "-m")
    max_: list[str] | None = flag(
        None, "Fail with code 5 above this, in every group too with --per-group; the names stand above.", "NAME=VALUE"
    )
    min_: list[str] | None = flag(None, "Fail with code 5 below this, likewise.", "NAME=VALUE")
    full: bool = flag(False, "All metrics but the class-by-class L2, and the evidence behind the verdict.")
    baseline: str | None = flag(None, "What differences are taken to.", "ART.json|identity", shown="uncalibrated")
    bins: int = same(MetricSettings, "bins")
    norm: str = flag("1", "Norm of binned errors, 1 or more.", "P|max")
    scheme: Literal["width", "mass"] = flag("width", "Bins of ece, mce and vce.", "width|mass")
    label: Label | None = flag(
        None,
        "What errors are about: the prediction, P(class 1), each class, or all pooled. The verdict on two classes is"
        " about P(class 1), with top about the prediction.",
        "top|positive|class|all",
        shown="top",
    )
    threshold: float = same(MetricSettings, "threshold")
    compat: str | None = flag(
        None,
        "Bin as another program does: guo, kull, mapie, netcal, netcal-mass, torchmetrics, verified;"
        " relplot: find smece as it does.",
        "PROGRAM",
    )
    level: float = same(MetricSettings, "level")
    resamples: int = same(MetricSettings, "resamples")
    interval: Literal["auto", "bootstrap", "t"] = flag("auto", "Intervals of row means.", "auto|bootstrap|t")
    seed: int = o.seed()
    split: bool | None = o.split()
    per_class: bool = flag(False, "One line per class.")
    per_group: bool = flag(False, "The metrics in every group.")
    ordered: bool = o.ordered()
    value_only: bool = flag(False, "Print the number alone.")
    form: str = flag(
        "table",
        "How the metrics are written; model-index is the block of a model card.",
        "table|markdown|latex|csv|json|jsonl|model-index",
        "--format",
        kw_only=True,
    )
    signature: bool = flag(False, "End with a line to quote: metric, bins, norm, rows, floor, version.")
    junit: str | None = flag(None, "Write the limits as JUnit XML.", "FILE")
    again: bool = o.again()
    explain: bool = flag(False, "End with what each term means.")
    force: bool = o.force()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value_only and not self.people:
            raise UsageError(f"--value-only and --format {self.wanted} exclude each other")
        if self.value_only and len(self.metric or []) != 1:
            raise UsageError("--value-only prints one metric: name it with --metric NAME")
        if self.junit is not None and not (self.max_ or self.min_):
            raise UsageError("--junit reports limits: give some with --max or --min")
        by_group = bool(self.per_group or self.group_by)
        if self.ordered and not by_group:
            raise UsageError("--ordered puts batches in order of time: name their column, e.g. --group-by month")
        if self.wanted not in WITH_ALL and (self.per_class or (by_group and not self.ordered)):
            option = "--per-class" if self.per_class else "--per-group"
            raise UsageError(f"{option} is a table of its own, which --format {self.form} has no place for; json has")
        check_choice("--compat", self.compat, PROGRAMS)
        norm_of(self.norm)

    @property
    def unused_options(self) -> dict[str, str]:
        unused_options = {}
        if self.metric and not self.per_class:
            pinned = settings_of([*self.metric, *(each.metric for each in self.limits())])
            if (self.per_group or self.group_by) and not self.ordered and self.label in ("top", "positive"):
                pinned |= {"label"}  # the gaps of two classes are of what it says
            for name in {"bins", "norm", "scheme", "label", "compat"} - pinned:
                unused_options[name] = f"no metric that is asked for depends on it; see calcli metrics {self.metric[0]}"
        if self.metric:
            unused_options["full"] = "--metric names the metrics; leave one of them out"
        if self.metric or self.wanted not in WITH_ALL:
            unused_options["split"] = "it is part of the whole report; leave --metric and --format out"
        if self.value_only:
            unused_options |= dict.fromkeys(("per_class", "ordered", "explain"), "--value-only prints one number")
            if not (self.max_ or self.min_):
                limited = ("baseline", "per_group", "group_by")
                unused_options |= dict.fromkeys(limited, "--value-only prints one number, and no limit asks for more")
        elif self.wanted != "table":
            unused_options["explain"] = "it explains the table for people; calcli metrics NAME explains a metric"
        return unused_options

    def limits(self) -> list[Limit]:
        """The limits asked for. Raises UsageError for one that cannot be checked."""
        asked = limits(self.max_, self.min_)
        changing = [each.name for each in asked if each.change]
        if changing and not self.calibrator:
            raise UsageError(f"{changing[0]} compares with the uncalibrated scores: add --calibrator ART.json")
        return asked

    def plan(self, limited: Sequence[str]) -> Plan:
        """What is measured, and how; limited : metrics that limits need. Raises UsageError."""
        names = [*([metric(name).name for name in self.metric or ()] or report_metrics(self.full)), *limited]
        own = {"norm": norm_of(self.norm), "label": self.label or "top"}
        settings = MetricSettings(**taken(MetricSettings, self) | own)
        how = {**taken(Plan, self), "per_group": self.per_group or bool(self.group_by), "limited": limited}
        report = not self.metric and not self.value_only
        return Plan(tuple(dict.fromkeys(names)), settings, report=report, about=self.label, **how)


def run(args: EvaluateArgs) -> int:
    """Evaluate bundle by bundle; of several, one that fails does not stop the others."""
    command, asked = CommandContext(args), args.limits()
    plan = args.plan([each.metric for each in asked])
    job = Job(command, plan, args.baseline)
    evaluated: list[list[Result]] = []
    outcomes: list[Outcome] = []
    bundles = args.expanded if args.pool else list[str]()
    for name in () if args.pool else args.given:
        with command.trying(len(args.given) > 1):
            bundles += expand(name, args.where, args.ignored)
    note_bundles(bundles)
    if args.junit is not None:
        check_output(Path(args.junit), force=args.force)
    several = not (args.pool or len(args.given) == len(bundles) == 1)
    with command:
        for together in [bundles] if args.pool else [[name] for name in bundles]:
            results: list[Result] = []
            with command.trying(several):
                results, against = job.evaluate(together)
                evaluated.append(results)
            for result in results[1:] or results:
                outcomes += check(asked, result, against)
            if args.wanted == "jsonl":
                for result in results:
                    print_json({"calcli_evaluation": 1, **result.to_dict()})
    in_groups = {id(outcome.limit) for outcome in outcomes if outcome.group is not None}
    whole = [limit.text for limit in asked if id(limit) not in in_groups]
    if whole and any(result.per_group for results in evaluated for result in results):
        command.warn(f"{', '.join(whole)}: held against all rows together only, as single groups have no such value")
    command.tell_warnings()
    evaluation = job.evaluation(evaluated, outcomes)
    _print(command, plan, evaluation)
    if args.junit is not None:
        write_bytes(Path(args.junit), junit(outcomes, evaluation.results), force=args.force)
    for outcome in outcomes:
        if outcome.crossed:
            command.fail(f"limit crossed: {outcome.sentence}", LimitCrossed.exit_code)
        else:
            command.say(f"limit holds: {outcome.sentence}")
    return command.code


def _print(command: CommandContext, plan: Plan, evaluation: Evaluation) -> None:
    """Write to stdout what was asked for; with --quiet the verdicts alone."""
    args = command.args
    if args.value_only:
        for result in (each for results in evaluation.bundles for each in results[1:] or results):
            score = result.scores[plan.metrics[0]]
            print("null" if score.value is None else repr(float(score.value)))
            if score.reason:
                command.say(f"{plan.metrics[0]}: undefined for {result.title}: {score.reason}")
    elif args.wanted == "model-index":
        print(model_index(evaluation), end="")
    elif args.wanted == "json":
        print_json(evaluation.to_dict())
    elif args.wanted in ("markdown", "latex", "csv"):
        table = batch_table(evaluation, args.wanted) if args.ordered else result_table(evaluation, args.wanted)
        args.print("evaluation", [table], [])
    elif args.people and args.quiet:
        print_verdicts(evaluation, plan)
    elif args.people:
        print_report(evaluation, plan, args.full)
        if args.ordered:
            print("\nbatches in order of time")
            table = batch_table(evaluation, args.wanted)
            print_table(table.columns, table.rows)
        if args.explain:
            print()
            print_table(["term", "meaning"], explained(evaluation.results, plan.report, plan.settings))
    if args.signature and evaluation.bundles:
        # Behind a table for people; beside what a program reads.
        out = sys.stdout if args.people and not args.value_only else sys.stderr
        for line in quotable(evaluation, plan.metrics[0] if args.metric else "ece"):
            print(plain(line), file=out)
