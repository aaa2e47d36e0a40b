"""Rank methods by rows that they were not fitted on.

Every method is fitted to parts of a bundle and scored on the rest (random folds), or fitted
to one group and scored on another (--test). Differences to a baseline are taken row by row.
Several bundles give average ranks with the Friedman test and Nemenyi's critical difference.
With --baseline-bundle two models are compared on the same rows.

\b
calcli compare logits.h5
calcli compare logits.h5 --methods 'ts,ft+svs,hb(bins=20)' --test test
calcli compare a.h5 b.h5 c.h5 --methods all -o results.json --diagram ranks.png
calcli compare new.h5:test --baseline-bundle old.h5:test
"""

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calcli import __version__
from calcli.cli import options as o
from calcli.cli.compare_job import (
    CompareJob,
    CompareTask,
    Kept,
    differing_row,
    kept,
    opened,
    outcomes,
)
from calcli.cli.compare_text import Leaderboard
from calcli.cli.context import CommandContext, job_file
from calcli.errors import CalcliError, DataError, UsageError
from calcli.evaluation.leaderboard import (
    UNCALIBRATED,
    HeldOut,
    LeaderboardEntry,
    baseline_of,
    comparison,
    digest_of,
    entered,
    entrants,
    ranking,
)
from calcli.fast_dataclass import dataclass
from calcli.io.atomic import check_output, is_stream, write_bytes
from calcli.io.cells import finite
from calcli.io.locate import split_where
from calcli.metrics.context import MetricSettings
from calcli.options import flag, same

if TYPE_CHECKING:
    from calcli.workers.journal import Journal

ORDER = 45
EPILOG = (
    "A result file (-o) is gone on from: what it holds of the same rows, seed and baseline is not fitted again."
    " It is replaced with --force. Methods with options are written hb(bins=20;scheme=mass)."
)


@dataclass(frozen=True)
class CompareArgs(o.Pooling, o.WorkerOptions, o.OutputOptions, o.TableOptions):
    bundles: list[str] | None = o.bundles(
        "FILE.h5, FILE.h5:GROUP or FILE.h5:*; group cal (or val) when none. Quoted patterns are expanded."
    )
    methods: str | None = flag(None, "What to compare.", "a,b,c|all", "-m", shown="the first of methods")
    baseline: str | None = flag(None, "What differences are taken to.", "METHOD", shown="ts")
    baseline_bundle: str | None = flag(None, "Another model's scores of the same rows.", "BUNDLE")
    folds: int = flag(5, "Random parts of a bundle.", "N", min=2, max=1000)
    test: str | None = flag(None, "Score this group of the file instead.", "GROUP")
    seed: int = o.seed()
    level: float = same(MetricSettings, "level")
    output: Path | None = flag(None, "Keep results, and go on from them.", "FILE.json", "-o")
    diagram: Path | None = flag(None, "Draw the ranks with their critical difference.", "FILE.png|svg|pdf")
    thorough: bool = flag(False, "all: also methods with more parameters than rows.")
    force: bool = o.force()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pool and self.baseline_bundle is not None:
            raise UsageError("--pool and --baseline-bundle exclude each other: the other model has one bundle")
        if self.baseline is not None and self.baseline_bundle is not None:
            raise UsageError("--baseline and --baseline-bundle exclude each other: each says what to take away")
        if self.output is not None and self.output.suffix != ".json":
            raise UsageError(f"-o {self.output}: expected a name that ends in .json; --format writes to stdout")
        if self.output is not None and is_stream(self.output):
            raise UsageError(f"-o {self.output}: is a pipe or a device; results are gone on from, name a file")
        if self.diagram is not None:
            from calcli.diagrams.critical_difference import check_ending

            check_ending(self.diagram)
            if self.output is not None and os.path.realpath(self.output) == os.path.realpath(self.diagram):
                raise UsageError(f"--diagram {self.diagram}: leads to the same file as -o; choose another")

    @property
    def inputs(self) -> list[Path]:
        """Files that are read."""
        return [split_where(b)[0] for b in (*self.given, self.baseline_bundle) if b is not None]

    @property
    def unused_options(self) -> dict[str, str]:
        unused_options = {}
        if self.test is not None:
            unused_options["folds"] = "--test scores a group, so that no folds are made"
        if "all" not in (self.methods or "").lower().split(","):
            unused_options["thorough"] = "it belongs to --methods all"
        return unused_options

    def check_outputs(self) -> None:
        """Raises UsageError for what may not be written, as far as it is known by now."""
        if self.diagram is not None:
            check_output(self.diagram, force=self.force, inputs=self.inputs)
        if self.output is not None:
            check_output(self.output, force=True, inputs=self.inputs)

    @property
    def how(self) -> str:
        """How rows are held out, in words."""
        return (
            f"scored on group {self.test}, fitted to another" if self.test is not None else f"{self.folds} random folds"
        )

    def setting(self, *bundles: str) -> CompareJob:
        """How the rows of a bundle, or of some as one data set, are cut."""
        return CompareJob(bundles, self.test, self.folds, self.seed, self.where, self.ignored)


def run(args: CompareArgs) -> int:
    """Find out what there is to do, do it, and write the leaderboard."""
    command = CommandContext(args)
    args.check_outputs()
    with job_file(None if args.output is None else str(args.output)) as journal:
        work = _Work(args, command, journal)
        work.prepare()
        args.check_outputs()  # now patterns and links are followed
        work.remember()
        try:
            work.do()
        finally:
            command.clear()
        try:
            work.save()
        except CalcliError:
            if journal is not None:
                journal.forget()  # a disk that is full has no room for it either
            raise
    if not work.plan:
        return command.code
    board = work.board()
    _print(args, board, work.to_dict())
    if args.diagram is not None:
        _draw(args, board, command)
    for entry in board.entries:
        if entry.reason is not None:
            command.fail(f"{entry.bundle}, {entry.method}: {entry.reason}", entry.exit_code)
    return command.code


class _Work:
    """What is to be done, and what is done. plan : per (bundle, method) an entry without its numbers."""

    def __init__(self, args: CompareArgs, command: CommandContext, journal: "Journal | None") -> None:
        self.args, self.command, self.journal = args, command, journal
        self.plan: dict[tuple[str, str], LeaderboardEntry] = {}
        self.tasks: dict[tuple[str, str], CompareTask] = {}
        self.done: dict[tuple[str, str], LeaderboardEntry] = {}
        self.baselines: dict[tuple[str, str], HeldOut] = {}
        self.baseline = UNCALIBRATED
        self.told: set[str] = set()

    def prepare(self) -> None:
        """Open every bundle and choose its methods; one that cannot be used does not stop the others."""
        other, sets = self.args.baseline_bundle, self.args.sets
        for bundles in sets:
            with self.command.trying(len(sets) > 1, DataError):
                self._prepare(bundles)
        if self.args.diagram is not None and (other is not None or len({b for b, _ in self.plan}) < 2):
            raise UsageError("--diagram draws ranks over several bundles: name two or more")

    def _tell(self, note: str) -> None:
        """Say once what was read as what; the processes that fit read the file again and say nothing."""
        if note not in self.told:
            self.told.add(note)
            self.command.say(note)

    def _prepare(self, bundles: Sequence[str]) -> None:
        args, setting = self.args, self.args.setting(*bundles)
        with opened(setting, self._tell) as scene:
            for rows in dict.fromkeys((scene.rows, scene.held)):
                for _ in rows.blocks():
                    pass  # a complete walk checks every row and makes the hash
                self.command.caveats(rows)
            asked = args.methods if args.methods is not None or args.baseline_bundle is None else UNCALIBRATED
            names, left_out = entrants(asked, scene.rows, args.thorough)
            for method, reason in left_out.items():
                self.command.say(f"{scene.rows.name}: {method}: left out, {reason}")
            if args.baseline_bundle is not None:
                against = self._prepare_other(args.setting(args.baseline_bundle), scene, names)
            else:
                self.baseline = baseline_of(args.baseline, names)
                names, against = [self.baseline, *names], None
            self._enter(setting, scene, list(dict.fromkeys(names)), against)

    def _prepare_other(self, setting: CompareJob, scene: Any, names: Sequence[str]) -> str:
        """The other model on the same rows; returns its name."""
        with opened(setting, self._tell) as other:
            for mine, its in ((scene.rows, other.rows), (scene.held, other.held)):
                for _ in its.blocks():
                    pass
                found = differing_row(mine, its)
                if found is not None:
                    raise DataError(f"--baseline-bundle needs the same rows in the same order: {found}")
            return self._enter(setting, other, names, None)

    def _enter(self, setting: CompareJob, scene: Any, names: Sequence[str], other: str | None) -> str:
        bundle = scene.held.name
        known = {task.setting.bundle for (b, _), task in self.tasks.items() if b == bundle}
        if known - {setting.bundle}:
            bundle = setting.bundle  # files of one name in two folders
        sha = "+".join(dict.fromkeys((digest_of(scene.rows), digest_of(scene.held))))
        for name in names:
            against = (other, name) if other is not None else (bundle, self.baseline)
            own = against == (bundle, name) or (other is None and self.args.baseline_bundle is not None)
            entry = LeaderboardEntry(
                bundle, name, scene.held.n, scene.held.k, sha, 0.0, {}, None, None if own else against
            )
            self.plan.setdefault((bundle, name), entry)
            self.tasks.setdefault((bundle, name), CompareTask(setting, name))
        return bundle

    # ---- the result file

    @property
    def settings(self) -> dict[str, Any]:
        """What all results have in common."""
        a = self.args
        common = {"folds": None if a.test is not None else a.folds, "test": a.test, "seed": a.seed, "level": a.level}
        baseline = a.baseline_bundle if a.baseline_bundle is not None else self.baseline
        return {**common, "baseline": baseline, "calcli_version": __version__}

    def remember(self) -> None:
        """Take what an earlier run has finished, or left in the job file. Raises UsageError for another comparison."""
        path = self.args.output
        if path is None or self.journal is None:
            return
        if os.path.exists(path) and not self.args.force:
            self._take_over(kept(path))
        for key, entry in self.plan.items():
            with suppress(KeyError):
                found = self.journal[self._key(entry)]
                if isinstance(found, LeaderboardEntry):
                    self.done.setdefault(key, found)
        if self.done:
            self.command.say(f"{path}: {len(self.done)} of {len(self.plan)} results are there already")

    def _key(self, entry: LeaderboardEntry) -> bytes:
        """What determines the numbers of an entry."""
        from calcli.workers.journal import key_of

        against = None if entry.against is None else (entry.against, self.plan[entry.against].data_sha256)
        return key_of(repr((entry.bundle, entry.method, entry.data_sha256, against, self.settings)).encode())

    def _take_over(self, held: Kept) -> None:
        """Take what holds of a result file. Raises UsageError for one of another comparison."""
        path = self.args.output
        differ = {(d.bundle, d.method): d for d in held.differences}
        old = {(r.bundle, r.method): r for r in held.results}
        changed = next((name for name, value in self.settings.items() if held.settings.get(name) != value), None)
        if changed is not None:
            got, want = held.settings.get(changed), self.settings[changed]
            raise UsageError(f"{path}: holds results with {changed} {got}, not {want}; name another -o or pass --force")
        lost = [f"{bundle} {name}" for bundle, name in old if (bundle, name) not in self.plan]
        if lost:
            raise UsageError(
                f"{path}: holds {len(lost)} results that are not asked for now ({lost[0]}, …):"
                " name another -o, ask for them too, or pass --force to drop them"
            )
        shas = {bundle: entry.data_sha256 for (bundle, _), entry in self.plan.items()}
        for key, result in old.items():
            entry = self.plan[key]
            same = result.data_sha256 == entry.data_sha256 and result.status == "ok"
            pair = differ.get(key)
            if entry.against is not None:
                same = same and pair is not None and shas[entry.against[0]] == held.data.get(entry.against[0])
            if same:
                entry = replace(entry, seconds=result.seconds, metrics=result.metrics, fits=result.fits)
                self.done[key] = replace(entry, differences=None if pair is None else pair.metrics)

    def to_dict(self) -> dict[str, Any]:
        """The JSON output."""
        entries = [self.done[key] for key in self.plan if key in self.done]
        return comparison(entries, self.settings, self.ranks(entries))

    def save(self) -> None:
        """Write the result file, if there is to be one and something to keep."""
        if self.args.output is not None and self.done:
            text = json.dumps(finite(self.to_dict()), indent=1, allow_nan=False) + "\n"
            write_bytes(self.args.output, text, force=True, inputs=self.args.inputs)

    # ---- the work

    def do(self) -> None:
        """Score what is missing, and the baselines that it is compared with."""
        missing = [key for key in self.plan if key not in self.done]
        needed = {against for key in missing if (against := self.plan[key].against) is not None}
        keys = [key for key in self.plan if key in needed or key not in self.done]
        settings = MetricSettings(level=self.args.level, seed=self.args.seed)
        with self.command:
            for some in ([key for key in keys if key in needed], [key for key in keys if key not in needed]):
                with closing(outcomes([self._task(key) for key in some], self.command.executor)) as stream:
                    self._take(some, stream, settings, needed)

    def _take(
        self,
        keys: Sequence[tuple[str, str]],
        stream: Iterable[HeldOut],
        settings: MetricSettings,
        needed: set[tuple[str, str]],
    ) -> None:
        """Score held-out rows as they come; those in ``needed`` are the baselines of others."""
        for key, outcome in zip(keys, stream, strict=True):
            entry = self.plan[key]
            if key in needed:
                self.baselines[key] = outcome
            if key not in self.done:
                base = self.baselines.get(entry.against) if entry.against is not None else None
                entry = entered(entry, outcome, base, settings)
                if outcome.table is not None and self.journal is not None:
                    self.journal[self._key(entry)] = entry
                self.done[key] = entry
            self.command.progress(f"comparing, {key[0]} {key[1]} done", len(self.done), len(self.plan))

    def _task(self, key: tuple[str, str]) -> CompareTask:
        """What is to be done for a result, with the fits of its baseline."""
        against = self.plan[key].against
        if against is None or self.baselines[against].table is None:
            return self.tasks[key]
        return replace(self.tasks[key], against=(self.tasks[against].setting, self.baselines[against].fits))

    def ranks(self, entries: Sequence[LeaderboardEntry]) -> Any:
        """Ranks over bundles; of two models on the same rows none, as those are no two samples."""
        return ranking(entries, self.args.level) if self.args.baseline_bundle is None else None

    def board(self) -> Leaderboard:
        """The leaderboard."""
        entries = [self.done[key] for key in self.plan]
        models = self.args.baseline_bundle is not None
        return Leaderboard(entries, self.ranks(entries), self.baseline, self.args.how, self.args.level, models)


def _print(args: CompareArgs, board: Leaderboard, whole: dict[str, Any]) -> None:
    """Write to stdout what was asked for."""
    if not args.people:
        args.print("compare", [board.whole()] if args.form == "csv" else board.tables(), whole["results"], whole)
    elif not args.quiet:
        board.print()


def _draw(args: CompareArgs, board: Leaderboard, command: CommandContext) -> None:
    from calcli.diagrams.critical_difference import picture

    assert args.diagram is not None
    if board.ranks is None:
        raise CalcliError(f"--diagram {args.diagram}: no two methods have values on every bundle, there are no ranks")
    ranks = board.ranks.tests["nll"].ranks
    what = f"average rank by NLL over {board.ranks.n_bundles} bundles, {board.how}"
    data = picture(args.diagram, list(board.ranks.methods), ranks, board.ranks.distance, what)
    write_bytes(args.diagram, data, force=args.force, inputs=args.inputs)
    command.say(str(args.diagram))
