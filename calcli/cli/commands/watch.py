"""Watch a deployed calibrator, batch by batch, with a known rate of false alarms.

The alarm means: the probabilities are no longer right within the tolerance. Exit code 5
while alarmed.

\b
calcli watch week7.h5 -c logits.auto.json --state watch.json
calcli watch --state watch.json

\f
The state file keeps the evidence, so that the command can be run after every batch, by
cron or in a pipeline. The alarm goes off with chance at most --level in an episode in
which the probabilities are right, however often one looks. It stays until --reset, which
opens the next episode. Samples that were already counted are refused; of a log that grows
the new ones count.

Of a log of decisions all questions are watched, in one state file and with one level for
all of them; of yes/no answers P(yes).

\b
calcli watch week8.h5 -c logits.auto.json --state watch.json --json
calcli watch week9.h5 -c refitted.json --state watch.json --reset
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from calcli.cli import options as o
from calcli.cli.context import CommandContext
from calcli.cli.decision_logs.fit import are_logs
from calcli.cli.decision_logs.watch import is_state_of_log, watch_log_command
from calcli.cli.render import print_json, print_sentence
from calcli.errors import LimitCrossed, UsageError
from calcli.evaluation.watch import check_state_path, watch
from calcli.evaluation.watch_state import WatchOutput
from calcli.io.dataset import DataSet
from calcli.io.locate import split_where
from calcli.io.question_artifact import load_for

EPILOG = (
    "Exit code 5 while the alarm is on, 0 otherwise. No alarm is no proof of"
    " calibration."
)


@dataclass(frozen=True, kw_only=True)
class WatchArgs(o.ReadingSeveral, o.WorkerOptions, o.OutputOptions):
    state: Annotated[
        str,
        typer.Option(
            "--state",
            metavar="STATE.json",
            help="File that keeps the evidence; made at the first batch.",
        ),
    ]
    bundles: Annotated[
        list[str] | None,
        o.bundles(
            "One batch of labelled rows, of several bundles together; without a batch,"
            " show the status."
        ),
    ] = None
    calibrator: o.OneCalibrator = None
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            metavar="EPS",
            help="Over- or underconfidence of any row that is tolerated.",
            min=0.0,
            max=0.499,
            show_default="0.02",
        ),
    ] = None
    level: Annotated[
        float | None,
        typer.Option(
            "--level",
            metavar="P",
            help="Chance of a false alarm in an episode.",
            min=1e-9,
            max=0.5,
            show_default="0.05",
            rich_help_panel="Metrics",
        ),
    ] = None
    label: Annotated[
        str | None,
        typer.Option(
            "--label",
            metavar="top|positive",
            help="Watch the confidence, or P(class 1), where all too high or low"
            " shows.",
            show_default="top",
            rich_help_panel="Metrics",
        ),
    ] = None
    reset: Annotated[
        bool,
        typer.Option(
            "--reset", help="Open a new episode, with evidence 1 and its own level."
        ),
    ] = False
    again: o.Again = False


def run(args: WatchArgs) -> int:
    """Take in a batch, and say whether the alarm is on."""
    if args.state == "-":
        raise UsageError(
            "--state -: the evidence is kept in a file, batch after batch; name one,"
            " such as watch.json"
        )
    path = Path(args.state)
    if not args.given and not path.exists():
        raise UsageError(
            f"{path}: there is no state yet; name the first batch of labelled rows"
        )
    inputs = [split_where(name)[0] for name in args.given]
    if args.calibrator is not None:
        inputs.append(Path(args.calibrator))
    check_state_path(path, inputs)
    settings = {"tolerance": args.tolerance, "level": args.level, "label": args.label}
    named = {name: value for name, value in settings.items() if value is not None}
    is_of_log = are_logs(args.given, args.where)
    if is_of_log or (not args.given and is_state_of_log(path)):
        return watch_log_command(args, named)
    return _watch_rows(args, path, named)


def _watch_rows(args: WatchArgs, path: Path, named: dict[str, Any]) -> int:
    """Take in a batch of rows. named : the settings of the watch that were named."""
    command = CommandContext(args)
    artifact = load_for(args.calibrator, next(iter(args.expanded), ""))
    batch: AbstractContextManager[DataSet | None] = nullcontext()
    if args.expanded:
        batch = command.rows(args.expanded)
    with command, batch as rows:
        if rows is not None:
            command.check_fits(artifact, args.calibrator, rows)
        state = watch(
            path, rows, artifact, named, new_episode=args.reset, tell=command.say
        )
        if rows is not None:
            command.caveats(rows)
    if args.json:
        print_json(WatchOutput.of(state.facts, calcli_watch=1).to_dict())
    else:
        print_sentence(state.sentence())
    if state.current.alarm_at is not None:
        return LimitCrossed.exit_code
    return 0
