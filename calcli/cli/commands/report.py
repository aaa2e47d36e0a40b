"""Write an HTML report.

The page begins with a verdict in one sentence for every model and calibrator; then come
reliability diagrams, uncertainties, thresholds, classes and groups, and where everything
comes from. It is one HTML file that needs no network, opens from disk and reads without
its script. Limits are shown, and a crossed one gives exit code 5.

\b
calcli report logits.h5 --calibrator logits.ts.json -o report.html
calcli report 'models.h5:*' -o report.html --max ece=0.05
calcli report --state watch.json -o watched.html
"""

from dataclasses import replace
from pathlib import Path

from calcli.cli import options as o
from calcli.cli.commands.evaluate import Job
from calcli.cli.context import CommandContext, check_weights
from calcli.errors import LimitCrossed, UsageError
from calcli.evaluation.evaluate_bundle import Plan, Subject
from calcli.evaluation.metric_limits import check, limits
from calcli.evaluation.results import Result
from calcli.evaluation.watch import read as read_state
from calcli.fast_dataclass import dataclass
from calcli.io.atomic import check_output, write_bytes
from calcli.metrics.context import MetricSettings
from calcli.options import REQUIRED, flag, same, taken, typed
from calcli.reporting.gather import ModelResults, gather, metrics_of_page
from calcli.reporting.page import page

ORDER = 55
UNSAID = (
    "-o",
    "-q",
    "--json",
    "--force",
    "--workers",
    "--cluster",
)  # they change no number; -o is added at the end


@dataclass(frozen=True)
class ReportArgs(o.Pooling, o.WorkerOptions, o.OutputOptions):
    output: Path = flag(REQUIRED, "The page to write.", "FILE.html", "-o")
    bundles: list[str] | None = o.bundles(
        "FILE.h5, FILE.h5:GROUP or FILE.h5:*; group test when none is named."
    )
    calibrator: list[str] | None = flag(
        None,
        "Artifact to show too (repeatable); {stem} and {group} in its path stand for the bundle's.",
        "ART.json",
        "-c",
    )
    state: str | None = flag(
        None, "State of calcli watch to draw, beside bundles or alone.", "STATE.json"
    )
    title: str | None = flag(None, "Name of the page.", "TEXT")
    max_: list[str] | None = flag(None, "Limit, as for evaluate.", "NAME=VALUE")
    min_: list[str] | None = flag(None, "Limit, as for evaluate.", "NAME=VALUE")
    bins: int = same(MetricSettings, "bins")
    level: float = flag(0.95, "Level of intervals.", "P", min=0.5, max=0.999)
    split: bool | None = o.split()
    ordered: bool = o.ordered()
    again: bool = o.again()
    seed: int = o.seed()
    force: bool = o.force()

    def __post_init__(self) -> None:
        if self.output.suffix.lower() not in (".html", ".htm"):
            raise UsageError(
                f"-o {self.output}: expected a name that ends in .html; diagram writes pictures"
            )
        check_output(self.output, force=self.force)

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
        asked = [group for group in typed(self) if group[0] not in UNSAID]
        numbers = [
            word
            for group in asked
            if group[0] not in ("--state", "--title")
            for word in group
        ]
        told = (
            [["calcli", "watch", "--state", self.state]]
            if self.state is not None
            else []
        )
        told += [["calcli", "evaluate", *numbers, "--json"]] if self.given else []
        return [
            [
                "calcli",
                "report",
                *(word for group in asked for word in group),
                "-o",
                str(self.output),
            ],
            *told,
        ]


def run(args: ReportArgs) -> int:
    """Evaluate every bundle, write the page, and check the limits."""
    command = CommandContext(args)
    asked = limits(args.max_, args.min_)
    settings, needed = (
        MetricSettings(**taken(MetricSettings, args)),
        metrics_of_page([each.metric for each in asked]),
    )
    job = Job(
        command,
        Plan(
            needed,
            settings,
            split=args.split,
            per_group=args.ordered,
            ordered=args.ordered,
        ),
    )
    state = None if args.state is None else (args.state, read_state(args.state))
    models: list[ModelResults] = []
    evaluated: list[list[Result]] = []
    with command:
        for bundles in args.sets if args.given else ():
            artifacts = [
                job.artifact(template, bundles[0]) for template in job.calibrators
            ]
            with command.rows(bundles) as rows:
                check_weights(rows)
                subject = Subject.of(rows, rows.column("group"))
                model, done = gather(
                    subject, job.candidates(artifacts, rows), job.plan, command.progress
                )
                results = job.warned(rows, artifacts, done.tables[0], done.results)
                about = {"data_sha256": rows.data_sha256, "source": rows.source}
            each = zip(model.versions, results, [None, *artifacts], strict=True)
            versions = tuple(
                replace(v, result=result, file=file) for v, result, file in each
            )
            typed = bundles[0] if len(bundles) == 1 else "BUNDLE"
            models.append(replace(model, versions=versions, typed=typed, **about))
            evaluated.append(results)
    outcomes = [
        o
        for each in evaluated
        for result in each[1:] or each
        for o in check(asked, result, each[0])
    ]
    evaluation = job.evaluation(evaluated, outcomes).to_dict()
    told = [(outcome.crossed, outcome.sentence) for outcome in outcomes]
    text = page(
        models,
        evaluation,
        title=args.title or "",
        limits=told,
        commands=args.commands,
        watch=state,
    )
    write_bytes(args.output, text, force=args.force)
    command.tell_warnings()
    command.written(args.output, evaluation)
    for outcome in outcomes:
        if outcome.crossed:
            command.fail(f"limit crossed: {outcome.sentence}", LimitCrossed.exit_code)
    return command.code
