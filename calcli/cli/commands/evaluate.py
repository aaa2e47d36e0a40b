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
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import cache, partial
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from calcli.cli import evaluate_tables as texts
from calcli.cli import options as o
from calcli.cli.context import CommandContext, not_held_out
from calcli.cli.render import print_line, print_made, print_table
from calcli.errors import DataError, LimitCrossed, UsageError, check_choice
from calcli.evaluation.evaluate_bundle import (
    Candidate,
    Plan,
    Subject,
    assess,
    rank_table,
)
from calcli.evaluation.metric_limits import Limit, Outcome, check, limits
from calcli.evaluation.results import Evaluation, Result
from calcli.evaluation.term_meanings import explained
from calcli.evaluation.verdict_rules import label_shift_p_value
from calcli.fast_dataclass import dataclass
from calcli.fit_and_apply import fitted_on
from calcli.io.artifact import Artifact, load
from calcli.io.atomic import check_output, write_bytes
from calcli.io.dataset import DataSet
from calcli.io.locate import split_where
from calcli.io.provenance import check_upstream
from calcli.metrics.catalog import metric, report_metrics, settings_of
from calcli.metrics.collect import collect
from calcli.metrics.context import Label, MetricSettings, norm_of
from calcli.metrics.other_programs import PROGRAMS
from calcli.metrics.out_of_core import LONG, RunningSums
from calcli.metrics.rowtable import RowTable
from calcli.metrics.warnings import (
    data_warnings,
    label_doubts,
    unit_warnings,
    zero_warnings,
)
from calcli.options import flag, same, taken
from calcli.rows import ArrayRows

ORDER = 40
WITH_ALL = (
    "table",
    "json",
    "jsonl",
)  # formats that hold everything that can be asked for


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
    metric: list[str] | None = flag(
        None, "Only these metrics (repeatable).", "NAME", "-m"
    )
    max_: list[str] | None = flag(
        None,
        "Fail with code 5 above this, in every group too with --per-group; the names stand above.",
        "NAME=VALUE",
    )
    min_: list[str] | None = flag(
        None, "Fail with code 5 below this, likewise.", "NAME=VALUE"
    )
    full: bool = flag(
        False,
        "All metrics but the class-by-class L2, and the evidence behind the verdict.",
    )
    baseline: str | None = flag(
        None,
        "What differences are taken to.",
        "ART.json|identity",
        shown="uncalibrated",
    )
    bins: int = same(MetricSettings, "bins")
    norm: str = flag("1", "Norm of binned errors, 1 or more.", "P|max")
    scheme: Literal["width", "mass"] = flag(
        "width", "Bins of ece, mce and vce.", "width|mass"
    )
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
    interval: Literal["auto", "bootstrap", "t"] = flag(
        "auto", "Intervals of row means.", "auto|bootstrap|t"
    )
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
    signature: bool = flag(
        False, "End with a line to quote: metric, bins, norm, rows, floor, version."
    )
    junit: str | None = flag(None, "Write the limits as JUnit XML.", "FILE")
    again: bool = o.again()
    explain: bool = flag(False, "End with what each term means.")
    force: bool = o.force()

    def __post_init__(self) -> None:
        o.TableOptions.__post_init__(self)
        check_choice("--compat", self.compat, PROGRAMS)
        norm_of(self.norm)

    @property
    def unused_options(self) -> dict[str, str]:
        by_group, free = (
            bool(self.per_group or self.names_groups) and not self.ordered,
            set[str](),
        )
        if self.metric and not self.per_class:
            free = {"bins", "norm", "scheme", "label", "compat"}
            free -= settings_of(
                [*self.metric, *(each.metric for each in self.limits())]
            )
            if by_group and self.label in ("top", "positive"):
                free -= {"label"}  # it chooses the quantity of the gaps of two classes
        limited, short = self.max_ or self.min_, self.wanted not in WITH_ALL
        asked = (self.metric or [""])[0]
        return o.unused(
            (
                free,
                " ".join(free),
                f"no metric that is asked for depends on it; see calcli metrics {asked}",
            ),
            (self.metric, "full", "--metric names the metrics; leave one of them out"),
            (
                self.metric or short,
                "split",
                "it is part of the whole report; leave --metric and --format out",
            ),
            (
                short,
                "per_class",
                f"--format {self.form} has no place for a table of classes; json has",
            ),
            (
                short and by_group,
                "per_group group_by",
                f"--format {self.form} has no place for groups; json has",
            ),
            (not (self.per_group or self.names_groups), "ordered", o.NO_BATCHES),
            (
                not self.people,
                "explain",
                "it explains the table for people; calcli metrics NAME explains a metric",
            ),
            (
                self.value_only,
                "per_class ordered explain",
                "--value-only prints one number",
            ),
            (
                self.value_only and not limited,
                "baseline per_group group_by",
                "--value-only prints one number",
            ),
            (
                not self.people,
                "value_only",
                f"--format {self.wanted} prints more; they exclude each other",
            ),
            (
                len(self.metric or ()) != 1,
                "value_only",
                "it prints one metric: name it with --metric NAME",
            ),
            (not limited, "junit", "it reports limits: give some with --max or --min"),
        )

    def limits(self) -> list[Limit]:
        """The limits asked for. Raises UsageError for one that cannot be checked."""
        asked = limits(self.max_, self.min_)
        changing = [each.name for each in asked if each.change]
        if changing and not self.calibrator:
            raise UsageError(
                f"{changing[0]} compares with the uncalibrated scores: add --calibrator ART.json"
            )
        return asked

    def plan(self, limited: Sequence[str]) -> Plan:
        """Metrics to compute, and their settings. limited : metrics that limits need. Raises UsageError."""
        names = [
            *(
                [metric(name).name for name in self.metric or ()]
                or report_metrics(self.full)
            ),
            *limited,
        ]
        own = {"norm": norm_of(self.norm), "label": self.label or "top"}
        settings = MetricSettings(**taken(MetricSettings, self) | own)
        how = {
            **taken(Plan, self),
            "per_group": self.per_group or self.names_groups,
            "limited": limited,
        }
        report = not self.metric and not self.value_only
        return Plan(
            tuple(dict.fromkeys(names)),
            settings,
            report=report,
            about=self.label,
            **how,
        )


# ---- the work on one bundle, for evaluate and report: open, load, assess, warn


@dataclass
class Job:
    """Settings and loaded calibrators for all bundles. baseline : artifact as typed, None for uncalibrated scores."""

    command: CommandContext
    plan: Plan
    baseline: str | None = None
    load: Callable[[str], Artifact] = field(default_factory=lambda: cache(load))
    noted: dict[str, list[str]] = field(default_factory=dict)

    @property
    def calibrators(self) -> Sequence[str]:
        return self.command.args.calibrator or []

    def evaluation(
        self, evaluated: Sequence[list[Result]], outcomes: Sequence[Outcome]
    ) -> Evaluation:
        """Collect all results, the ranks of the calibrators, and the outcomes of the limits."""
        names = ["uncalibrated", *self.calibrators]
        ranks = (
            rank_table(evaluated, names, self.plan.metrics)
            if self.calibrators
            else None
        )
        return Evaluation(evaluated, ranks, [outcome.to_dict() for outcome in outcomes])

    def artifact(self, template: str, bundle: str) -> tuple[str, Artifact]:
        """Artifact that a path with {stem} and {group} stands for at a bundle, and its name; loaded once."""
        path, group = split_where(bundle)
        name = template.replace("{stem}", path.stem).replace("{group}", group or "")
        return ("<stdin>" if name == "-" else name), self.load(name)

    def evaluate(self, bundles: Sequence[str]) -> tuple[list[Result], Result | None]:
        """Evaluate bundles as one data set; returns the results, and the one that changes are measured against."""
        artifacts = [
            self.artifact(template, bundles[0]) for template in self.calibrators
        ]
        with self.command.rows(bundles) as rows:
            rows.progress = self.command.progress
            rows.hashed = bool(
                artifacts
            )  # to recognise rows that a calibrator was fitted on
            candidates, against = self.candidates(artifacts, rows), None
            if self.baseline is not None:
                against = self.candidates(
                    [self.artifact(self.baseline, bundles[0])], rows
                )[1]
            if rows.upstream and any(
                name.endswith("_raw") for name in self.plan.metrics
            ):
                told = "these rows were calibrated and divided by their sums, and the values before that are gone"
                advice = "marginal2_raw and mse_raw are of what is stored; give the scores with --calibrator"
                self.command.warn(f"{rows.name}: {told}: {advice}")
            group = (
                rows.column("group")
                if self.plan.per_group or self.plan.report
                else None
            )
            if self.plan.per_group and group is None:
                raise DataError(
                    f"{rows.name}: has no dataset 'group' to group by; name one with --group-by COLUMN"
                )
            subject = Subject.of(rows, group)
            done = assess(
                subject,
                candidates,
                self.plan,
                baseline=against,
                progress=self.command.progress,
            )
            results = self.warned(rows, artifacts, done.seen, done.results)
        if against is None or done.baseline is None:
            return results, results[0]
        return results, Result(
            rows.name,
            against.name,
            against.method,
            rows.n,
            results[0].n_classes,
            done.baseline,
        )

    def candidates(
        self, artifacts: Sequence[tuple[str, Artifact]], rows: DataSet
    ) -> list[Candidate]:
        """List the uncalibrated scores and the calibrators, and warn. Raises DataError where one does not fit."""
        found = [Candidate(None, "uncalibrated", None)]
        for name, artifact in artifacts:
            self.noted[name] = self.command.check_fits(artifact, name, rows)
            try:
                check_upstream(artifact, name, rows.name, rows.upstream)
            except DataError as error:  # --again allows it; the results report it
                self.noted[name].append(str(error).rpartition("; ")[0])
            rows.places_of(artifact.calibrator.required_transforms, rows.name)
            path = "-" if name == "<stdin>" else name
            places = [
                folder / (artifact.fit.source or "-")
                for folder in (Path(path).parent, rows.path.parent, Path())
            ]
            fit = next(
                (
                    str(place)
                    for place in places
                    if split_where(str(place))[0].is_file()
                ),
                "",
            )
            seen = partial(fitted_on, artifact, rows)
            found.append(
                Candidate(name, artifact.method, artifact.calibrator, path, fit, seen)
            )
        return found

    def warned(
        self,
        rows: DataSet,
        artifacts: list[tuple[str, Artifact]],
        table: RowTable | RunningSums,
        results: list[Result],
    ) -> list[Result]:
        """Add warnings about the data, the data of the fit, and both together to the results, and print them."""
        binned = any(
            "|bins:" in score.signature for score in results[0].scores.values()
        )
        bins = self.plan.settings.bins if binned else None
        classes = int((table.label_counts > 0).sum()) if table.k > 1 else None
        common = [*rows.caveats, *label_doubts(table, rows.class_names)]
        if (
            rows.unit_name is None
        ):  # are rows independent? of very many, the first are tested
            first = None if isinstance(table, RowTable) else rows.run(0, LONG)
            some = (
                table
                if first is None
                else collect(ArrayRows(first.scores, first.labels, rows.kind))
            )
            common += unit_warnings(some)  # type: ignore[arg-type]
        common += data_warnings(table.n, classes, table.spread, bins)
        clipped = [
            each.scores["nll"].more.get("clipped", 0) if "nll" in each.scores else 0
            for each in results
        ]
        zeros = [
            zero_warnings(n, each.n, rows.kind)
            for n, each in zip(clipped, results, strict=True)
        ]
        each = [[*common, *zeros[0]]]
        for text in each[0]:
            self.command.warn(text, about=rows.name)
        seen = table.label_counts.astype(np.float64)
        for (name, artifact), found in zip(artifacts, zeros[1:], strict=True):
            if (told := not_held_out(artifact, rows)) is not None:
                found.append(told)
            counts = np.asarray(
                getattr(artifact.fit, "label_counts", []), dtype=np.float64
            )
            adapted = artifact.method.endswith(
                "+prior"
            )  # to class frequencies that differ from those of its fit
            if (
                len(counts) == table.k
                and not adapted
                and label_shift_p_value(counts, seen) < 1e-3
            ):
                told = "the label frequencies differ significantly from those of the calibrator's fit"
                found.append(f"{told}: expect its class probabilities to be off")
            each.append([*common, *self.noted.get(name, ()), *found])
            for text in found:
                self.command.warn(text, about=f"{rows.name} with {name}")
        return [
            replace(result, warnings=warnings)
            for result, warnings in zip(results, each, strict=True)
        ]


# ---- the command


def run(args: EvaluateArgs) -> int:
    """Evaluate bundle by bundle; of several, one that fails does not stop the others."""
    command, asked = CommandContext(args), args.limits()
    plan = args.plan([each.metric for each in asked])
    job = Job(
        command,
        plan,
        None if args.baseline in ("identity", "uncalibrated") else args.baseline,
    )
    evaluated: list[list[Result]] = []
    outcomes: list[Outcome] = []
    bundles = args.expanded if args.pool else list[str]()
    for name in () if args.pool else args.given:
        with command.trying(len(args.given) > 1):
            bundles += args.expand(name)
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
            if args.wanted == "jsonl":  # as they come
                args.print("evaluation", [], [result.to_dict() for result in results])
    in_groups = {id(outcome.limit) for outcome in outcomes if outcome.group is not None}
    whole = [limit.text for limit in asked if id(limit) not in in_groups]
    if whole and any(result.per_group for results in evaluated for result in results):
        command.warn(
            f"{', '.join(whole)}: held against all rows together only, as single groups have no such value"
        )
    command.tell_warnings()
    evaluation = job.evaluation(evaluated, outcomes)
    _print(command, plan, evaluation)
    if args.junit is not None:
        write_bytes(
            Path(args.junit),
            texts.junit(outcomes, evaluation.results),
            force=args.force,
        )
    for outcome in outcomes:
        if outcome.crossed:
            command.fail(f"limit crossed: {outcome.sentence}", LimitCrossed.exit_code)
        else:
            command.say(f"limit holds: {outcome.sentence}")
    return command.code


def _print(command: CommandContext, plan: Plan, evaluation: Evaluation) -> None:
    """Print the output that was asked for; with --quiet the verdicts alone."""
    args = command.args
    if args.value_only:
        for result in (
            each for results in evaluation.bundles for each in results[1:] or results
        ):
            score = result.scores[plan.metrics[0]]
            print_line("null" if score.value is None else repr(float(score.value)))
            if score.reason:
                command.say(
                    f"{plan.metrics[0]}: undefined for {result.title}: {score.reason}"
                )
    elif args.wanted == "model-index":
        print_made(texts.model_index(evaluation))
    elif not args.people:
        table_of = texts.batch_table if args.ordered else texts.result_table
        args.print(
            "evaluation", [table_of(evaluation, args.wanted)], [], evaluation.to_dict()
        )
    elif args.quiet:
        texts.print_verdicts(evaluation, plan)
    else:
        texts.print_report(evaluation, plan, args.full)
        if args.ordered:
            print_line("\nbatches in order of time")
            print_table(*texts.batch_table(evaluation, args.wanted))
        if args.explain:
            print_line()
            print_table(
                ["term", "meaning"],
                explained(evaluation.results, plan.report, plan.settings),
            )
    if args.signature and evaluation.bundles:
        # On stdout after a table for people; on stderr where a program reads stdout.
        out = sys.stdout if args.people and not args.value_only else sys.stderr
        for line in texts.quotable(
            evaluation, plan.metrics[0] if args.metric else "ece"
        ):
            print_line(line, out)
