"""Rank methods by rows that they were not fitted on.

Every method is fitted to parts of a bundle and scored on the rest (random folds), or
fitted to one group and scored on another (--test).

\b
calcli compare logits.h5
calcli compare logits.h5 --methods 'ts,ft+svs,hb(bins=20)' --test test

\f
Differences to a baseline are taken row by row. Several bundles give average ranks with
the Friedman test and Nemenyi's critical difference. With --baseline-bundle two models are
compared on the same rows.

\b
calcli compare a.h5 b.h5 c.h5 --methods all -o results.json --diagram ranks.png
calcli compare new.h5:test --baseline-bundle old.h5:test
calcli compare new.jsonl --baseline-bundle old.jsonl

Two logs of decisions are paired by id and question: answers fixed and broken, with
McNemar's test, and the NLL, question by question.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import UNSET

from calcli import __version__
from calcli.cli import options as o
from calcli.cli.compare_results import (
    EarlierResults,
    for_job_file,
    from_job_file,
    read_results,
)
from calcli.cli.compare_tables import Leaderboard
from calcli.cli.compare_tasks import (
    CompareTask,
    differing_row,
    disagreement,
    opened,
    outcomes,
)
from calcli.cli.context import CommandContext
from calcli.cli.decision_logs.compare import are_two_logs, compare_log
from calcli.cli.resumable import job_file
from calcli.errors import DataError, UsageError
from calcli.evaluation import leaderboard as board
from calcli.io.atomic import check_output, is_stream, write_bytes, write_json
from calcli.io.provenance import title_of
from calcli.metrics.settings import MetricSettings
from calcli.records import JsonObject

if TYPE_CHECKING:
    from calcli.workers.journal import Journal


EPILOG = (
    "A result file (-o) is continued: what it holds of the same rows, seed and baseline"
    " is not fitted again. It is replaced with --force. Methods with options are"
    " written hb(bins=20;scheme=mass)."
)


@dataclass(frozen=True, kw_only=True)
class CompareArgs(o.Pooling, o.WorkerOptions, o.OutputOptions, o.TableOptions):
    bundles: Annotated[
        list[str] | None,
        o.bundles("FILE.h5, FILE.h5:GROUP or FILE.h5:*; group cal (or val) when none."),
    ] = None
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            "-m",
            metavar="a,b,c|all",
            help="What to compare (with commas, or repeated).",
            show_default="the first of methods",
        ),
    ] = None
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="METHOD",
            help="Reference for differences.",
            show_default="ts",
        ),
    ] = None
    baseline_bundle: Annotated[
        str | None,
        typer.Option(
            "--baseline-bundle",
            metavar="BUNDLE",
            help="Another model's scores of the same rows.",
        ),
    ] = None
    folds: Annotated[
        int,
        typer.Option(
            "--folds",
            metavar="N",
            help="Random parts of a bundle.",
            **o.limits(board.CompareSettings, "folds"),
        ),
    ] = board.CompareSettings.folds
    test: Annotated[
        str | None,
        typer.Option(
            "--test", metavar="GROUP", help="Score this group of the file instead."
        ),
    ] = None
    seed: o.Seed = 0
    level: o.Level = board.CompareSettings.level
    output: Annotated[
        Path | None, o.output("FILE.json", "Keep results, and go on from them.")
    ] = None
    diagram: Annotated[
        Path | None,
        typer.Option(
            "--diagram",
            metavar="FILE.png|svg|pdf",
            help="Draw the ranks with their critical difference.",
        ),
    ] = None
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough", help="all: also methods with more parameters than rows."
        ),
    ] = False
    force: o.Force = False

    def __post_init__(self) -> None:
        o.TableOptions.__post_init__(self)
        if self.output is not None and (
            self.output.suffix != ".json" or is_stream(self.output)
        ):
            raise UsageError(
                f"-o {self.output}: expected a file's name that ends in .json;"
                " --format writes to stdout"
            )
        if self.diagram is not None:
            from calcli.diagrams.critical_difference import check_ending

            check_ending(self.diagram)
            is_same_file = self.output is not None and (
                os.path.realpath(self.output) == os.path.realpath(self.diagram)
            )
            if is_same_file:
                raise UsageError(
                    f"--diagram {self.diagram}: leads to the same file as -o; choose"
                    " another"
                )

    @property
    def asked_methods(self) -> str | None:
        """The methods, with commas; None for the default ones."""
        names = o.names_in(self.methods)
        return None if names is None else ",".join(names)

    @property
    def unused_options(self) -> dict[str, str]:
        return o.unused(
            (
                self.test is not None,
                "folds",
                "--test scores a group, so that no folds are made",
            ),
            (
                "all" not in (self.asked_methods or "").lower().split(","),
                "thorough",
                "it belongs to --methods all",
            ),
            (
                self.baseline_bundle is not None,
                "pool baseline",
                "it and --baseline-bundle exclude each other",
            ),
        )


def run(args: CompareArgs) -> int:
    """Plan the entries, score those that are missing, and write the leaderboard."""
    if are_two_logs(args):
        return compare_log(args)
    command = CommandContext(args)
    for path, force in ((args.diagram, args.force), (args.output, True)):
        if path is not None:
            check_output(path, force=force)
    with job_file(None if args.output is None else str(args.output)) as journal:
        work = _Work(args, command, journal)
        work.prepare()
        work.remember()
        work.do()
        if args.output is not None and work.done:
            write_json(args.output, work.to_dict(), force=True)
    if work.plan:
        _show(work, args, command)
    return command.code


def _show(work: "_Work", args: CompareArgs, command: CommandContext) -> None:
    """Print the leaderboard, draw the ranks, and say what failed."""
    entries = [work.done[key] for key in work.plan]
    how = f"{args.folds} random folds"
    if args.test is not None:
        how = f"scored on group {args.test}, fitted to another"
    leaderboard = Leaderboard(
        entries,
        work.ranks(entries),
        work.baseline,
        how,
        args.level,
        models=args.baseline_bundle is not None,
    )
    if not args.people:
        facts = work.to_dict()
        is_csv = args.form == "csv"
        tables = [leaderboard.whole()] if is_csv else leaderboard.tables()
        args.print("compare", tables, facts["results"], facts)
    elif not args.quiet:
        leaderboard.print()
    if args.diagram is not None:
        _draw_ranks(args.diagram, leaderboard, force=args.force)
        command.say(str(args.diagram))
    for entry in entries:
        if entry.reason is not None:
            command.fail(
                f"{entry.bundle}, {entry.method}: {entry.reason}", entry.exit_code
            )


def _draw_ranks(path: Path, leaderboard: Leaderboard, *, force: bool) -> None:
    """Draw the ranks with their critical difference."""
    from calcli.diagrams.critical_difference import picture

    ranks = leaderboard.ranks
    if ranks is None:
        raise UsageError(
            f"--diagram {path}: no two methods have values on every bundle, there are"
            " no ranks"
        )
    bundles = f"{ranks.n_bundles} bundles"
    title = f"average rank by NLL over {bundles}, {leaderboard.how}"
    by_nll = ranks.tests["nll"].ranks
    critical = ranks.critical_difference
    drawing = picture(path, list(ranks.calibrators), by_nll, critical, title)
    write_bytes(path, drawing, force=force)


Baselines = dict[tuple[str, str] | None, board.HeldOut]
"""(bundle, method) of a baseline -> its held-out scores."""


class _Work:
    """Planned and finished entries of a comparison.

    plan : (bundle, method) -> entry without its numbers. files : bundle -> the names to
    open it by.
    """

    def __init__(
        self, args: CompareArgs, command: CommandContext, journal: "Journal | None"
    ) -> None:
        self.args = args
        self.command = command
        self.journal = journal
        # Tasks are sent without the names of all bundles.
        self.how = replace(args, bundles=None, files_from=None)
        self.plan: dict[tuple[str, str], board.LeaderboardEntry] = {}
        self.files: dict[str, tuple[str, ...]] = {}
        self.done: dict[tuple[str, str], board.LeaderboardEntry] = {}
        self.baseline = board.UNCALIBRATED

    def prepare(self) -> None:
        """Open every bundle and choose its methods.

        One that cannot be used does not stop the others.
        """
        args = self.args
        sets = args.sets
        other = args.baseline_bundle
        asked = args.asked_methods
        if asked is None and other is not None:
            asked = board.UNCALIBRATED
        for bundles in map(tuple, sets):
            with (
                self.command.trying(len(sets) > 1, DataError),
                opened(args, bundles, self.command.say) as scene,
            ):
                for rows in dict.fromkeys((scene.rows, scene.scored)):
                    for _ in rows.blocks():
                        pass  # a complete pass checks every row and computes the hash
                    self.command.caveats(rows)
                names, left_out = board.entrants(
                    asked, scene.rows, args.thorough, args.group_column
                )
                for method, reason in left_out.items():
                    self.command.say(f"{scene.rows.name}: {method}: left out, {reason}")
                if other is None:
                    self.baseline = board.baseline_of(
                        args.baseline, names, args.group_column
                    )
                    self._enter(bundles, scene, [self.baseline, *names])
                else:
                    against = self._other_model(other, scene, names)
                    self._enter(bundles, scene, names, against)
        n_bundles = len({bundle for bundle, _ in self.plan})
        if args.diagram is not None and (other is not None or n_bundles < 2):
            raise UsageError(
                "--diagram draws ranks over several bundles: name two or more"
            )

    def _other_model(
        self, bundle: str, scene: board.OpenedFolds, names: Sequence[str]
    ) -> str:
        """Plan the methods on the other model's scores of the same rows.

        Returns the name of its bundle.
        """
        files = tuple(self.args.expand(bundle))
        with opened(self.args, files, self.command.say) as other:
            pairs = ((scene.rows, other.rows), (scene.scored, other.scored))
            for rows, other_rows in pairs:
                for _ in other_rows.blocks():
                    pass  # a complete pass checks every row
                difference = differing_row(rows, other_rows)
                if difference is not None:
                    raise DataError(
                        "--baseline-bundle needs the same rows in the same order:"
                        f" {difference}"
                    )
                differs = disagreement(rows, other_rows)
                if differs is not None:
                    raise DataError(differs)
            return self._enter(files, other, names)

    def _enter(
        self,
        files: tuple[str, ...],
        scene: board.OpenedFolds,
        names: Sequence[str],
        other: str | None = None,
    ) -> str:
        """Plan the methods on a bundle; returns the bundle's name.

        other : bundle of the model to compare them with.
        """
        held_out = scene.scored
        bundle = held_out.name
        if self.files.get(bundle, files)[0] != files[0]:
            bundle = files[0]  # another folder has a file of this name
        self.files.setdefault(bundle, files)
        digests = (board.digest_of(scene.rows), board.digest_of(held_out))
        sha = "+".join(dict.fromkeys(digests))
        for name in names:
            against = None if other is None else (other, name)
            if self.args.baseline_bundle is None and name != self.baseline:
                against = (bundle, self.baseline)
            entry = board.LeaderboardEntry(
                bundle,
                name,
                held_out.n,
                held_out.k,
                sha,
                0.0,
                {},
                against=against,
                unit=held_out.unit_name,
                given_name=title_of(held_out.upstream),
            )
            self.plan.setdefault((bundle, name), entry)
        return bundle

    # ---- the result file

    @property
    def settings(self) -> board.SharedSettings:
        """Settings that all results share."""
        args = self.args
        return board.SharedSettings(
            folds=None if args.test is not None else args.folds,
            test=args.test,
            seed=args.seed,
            level=args.level,
            unit=UNSET if args.unit is None else args.unit,
            baseline=args.baseline_bundle or self.baseline,
            calcli_version=__version__,
        )

    def remember(self) -> None:
        """Reuse what an earlier run has finished, or left in the job file.

        Raises UsageError for another comparison.
        """
        path = self.args.output
        if path is None or self.journal is None:
            return
        if os.path.exists(path) and not self.args.force:
            self._take_over(path, read_results(path))
        for key, entry in self.plan.items():
            with suppress(KeyError):
                kept = self.journal[self._key(entry)]
                finished = from_job_file(entry, kept)
                if finished is not None:
                    self.done.setdefault(key, finished)
        if self.done:
            self.command.say(
                f"{path}: {len(self.done)} of {len(self.plan)} results are there"
                " already"
            )

    def _key(self, entry: board.LeaderboardEntry) -> bytes:
        """Key of an entry in the job file: a hash of what determines its numbers."""
        from calcli.workers.journal import key_of

        against = None
        if entry.against is not None:
            against = (entry.against, self.plan[entry.against].data_sha256)
        parts = (entry.bundle, entry.method, entry.data_sha256, against)
        settings = self.settings.to_dict()
        return key_of(repr((*parts, settings)).encode())

    def _take_over(self, path: Path, earlier: EarlierResults) -> None:
        """Reuse the results of a file that are still valid.

        Raises UsageError for a file of another comparison.
        """
        differences = {(pair.bundle, pair.method): pair for pair in earlier.differences}
        results = {(result.bundle, result.method): result for result in earlier.results}
        earlier_settings = earlier.settings.to_dict()
        for name, value in self.settings.to_dict().items():
            earlier_value = earlier_settings.get(name)
            if earlier_value != value:
                raise UsageError(
                    f"{path}: holds results with {name} {earlier_value}, not {value};"
                    " name another -o or pass --force"
                )
        lost = [" ".join(key) for key in results if key not in self.plan]
        if lost:
            raise UsageError(
                f"{path}: holds {len(lost)} results that are not asked for now"
                f" ({lost[0]}, …): name another -o, ask for them too, or pass --force"
                " to drop them"
            )
        for key, result in results.items():
            entry = self.plan[key]
            pair = differences.get(key)
            if result.data_sha256 != entry.data_sha256 or result.reason is not UNSET:
                continue
            if entry.against is not None:
                sha = self.plan[entry.against].data_sha256
                if pair is None or sha != earlier.data.get(entry.against[0]):
                    continue
            self.done[key] = entry.finished_before(result, pair)

    def to_dict(self) -> JsonObject:
        """Results that are there, as the JSON holds them."""
        entries = [self.done[key] for key in self.plan if key in self.done]
        ranks = self.ranks(entries)
        return board.comparison(entries, self.settings, ranks).to_dict()

    def ranks(self, entries: Sequence[board.LeaderboardEntry]) -> board.Ranking | None:
        """Ranks over bundles.

        None for two models on the same rows, which are not independent samples.
        """
        if self.args.baseline_bundle is not None:
            return None
        return board.ranking(entries, self.args.level)

    # ---- the work

    def do(self) -> None:
        """Score the missing entries, after the baselines that they need."""
        missing = [key for key in self.plan if key not in self.done]
        needed = {self.plan[key].against for key in missing}
        settings = MetricSettings(level=self.args.level, seed=self.args.seed)
        baselines: Baselines = {}
        first = [key for key in self.plan if key in needed]
        rest = [key for key in missing if key not in needed]
        with self.command:
            for key, outcome in self._outcomes(first, baselines):
                baselines[key] = outcome
                self._finish(key, outcome, baselines, settings)
            for key, outcome in self._outcomes(rest, baselines):
                self._finish(key, outcome, baselines, settings)

    def _outcomes(
        self, keys: Sequence[tuple[str, str]], baselines: Baselines
    ) -> Iterator[tuple[tuple[str, str], board.HeldOut]]:
        """Yield entries with their outcomes, in order."""
        tasks = [self._task(key, baselines) for key in keys]
        command = self.command
        stream = outcomes(tasks, command.executor, command.progress)
        with closing(stream):
            yield from zip(keys, stream, strict=True)

    def _finish(
        self,
        key: tuple[str, str],
        outcome: board.HeldOut,
        baselines: Baselines,
        settings: MetricSettings,
    ) -> None:
        """Keep the result of an entry, unless it was there before."""
        if key not in self.done:
            entry = self.plan[key]
            baseline = baselines.get(entry.against)
            self.done[key] = board.entered(entry, outcome, baseline, settings)
            if outcome.table is not None and self.journal is not None:
                self.journal[self._key(entry)] = for_job_file(self.done[key])
        step = f"comparing, {key[0]} {key[1]} done"
        self.command.progress(step, len(self.done), len(self.plan))

    def _task(self, key: tuple[str, str], baselines: Baselines) -> CompareTask:
        """Task of an entry, with the fits of its baseline if these succeeded."""
        bundle, name = key
        against = self.plan[key].against
        fits = None
        if against is not None and baselines[against].table is not None:
            fits = (self.files[against[0]], baselines[against].fits)
        return CompareTask(self.how, self.files[bundle], name, fits)
