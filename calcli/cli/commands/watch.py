"""Watch a deployed calibrator: one batch of labelled rows at a time, with a known rate of false alarms.

The state file keeps the evidence, so that the command can be run after every batch, by cron or in a pipeline. The
alarm means: the probabilities are no longer right within the tolerance. It goes off with chance at most --level in
an episode where they are, however often one looks. It stays until --reset, which opens the next episode.
Samples that were there before are refused; of a log that grows the new ones count.

\b
calcli watch week7.h5 -c logits.ts.json --state watch.json
calcli watch week8.h5 -c logits.ts.json --state watch.json --json
calcli watch --state watch.json
calcli watch week9.h5 -c refitted.json --state watch.json --reset
"""

from contextlib import nullcontext
from pathlib import Path

from calcli.cli import options as o
from calcli.cli.context import CommandContext
from calcli.cli.render import print_json, print_line
from calcli.errors import LimitCrossed, UsageError
from calcli.evaluation.watch import check_state_path, watch
from calcli.fast_dataclass import dataclass
from calcli.io.artifact import load
from calcli.io.locate import split_where
from calcli.options import REQUIRED, flag

ORDER = 44
EPILOG = "Exit code 5 while the alarm is on, 0 otherwise. No alarm is no proof of calibration."


@dataclass(frozen=True)
class WatchArgs(o.ReadingSeveral, o.WorkerOptions, o.OutputOptions):
    state: str = flag(
        REQUIRED, "File that keeps the evidence; made at the first batch.", "STATE.json"
    )
    bundles: list[str] | None = o.bundles(
        "One batch of labelled rows, of several bundles together; without any, say how things stand."
    )
    calibrator: str | None = flag(
        None, "Calibrator; else the uncalibrated scores.", "ART.json", "-c"
    )
    tolerance: float | None = flag(
        None,
        "Over- or underconfidence of any row that is tolerated.",
        "EPS",
        shown="0.02",
        min=0.0,
        max=0.499,
    )
    level: float | None = flag(
        None,
        "Chance of a false alarm in an episode.",
        "P",
        shown="0.05",
        min=1e-9,
        max=0.5,
    )
    label: str | None = flag(
        None,
        "Watch the confidence, or P(class 1), where all too high or low shows.",
        "top|positive",
        shown="top",
    )
    reset: bool = flag(False, "Open a new episode, with evidence 1 and its own level.")
    again: bool = o.again()


def run(args: WatchArgs) -> int:
    if args.state == "-":
        raise UsageError(
            "--state -: the evidence is kept in a file, batch after batch; name one, such as watch.json"
        )
    path = Path(args.state)
    if not args.expanded and not path.exists():
        raise UsageError(
            f"{path}: there is no state yet; name the first batch of labelled rows"
        )
    inputs = [split_where(name)[0] for name in args.expanded]
    if args.calibrator is not None:
        inputs.append(Path(args.calibrator))
    check_state_path(path, inputs)
    command = CommandContext(args)
    artifact = None if args.calibrator is None else load(args.calibrator)
    named = {"tolerance": args.tolerance, "level": args.level, "label": args.label}
    asked = {name: value for name, value in named.items() if value is not None}
    with (
        command,
        command.rows(args.expanded) if args.expanded else nullcontext() as rows,
    ):
        if rows is not None:
            command.check_fits(artifact, args.calibrator, rows)
        state = watch(
            path, rows, artifact, asked, new_episode=args.reset, tell=command.say
        )
        if rows is not None:
            command.caveats(rows)
    if args.json:
        print_json({"calcli_watch": 1, **state.to_dict()})
    else:
        print_line(state.sentence())
    return LimitCrossed.exit_code if state.alarm_at is not None else 0
