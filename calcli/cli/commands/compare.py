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

import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
import typer

from calcli import __version__
from calcli.calibrator import Context, Fit, Progress
from calcli.cli import options as o
from calcli.cli.compare_log import are_two_logs, compare_log
from calcli.cli.compare_tables import Leaderboard
from calcli.cli.context import CommandContext, job_file
from calcli.errors import DataError, UsageError, WorkersLost
from calcli.evaluation import leaderboard as board
from calcli.evaluation.cross_validation import folds_of
from calcli.importers.open_any_file import open_data
from calcli.io.atomic import check_output, is_stream, write_bytes
from calcli.io.bundle import BundleRows
from calcli.io.cells import texts_of_names, words
from calcli.io.dataset import DataSet, PooledRows
from calcli.io.harmless import finite
from calcli.io.inputs import read_document
from calcli.io.locate import split_where
from calcli.io.provenance import title_of
from calcli.metrics.settings import MetricSettings
from calcli.numerics import AnyArray
from calcli.rows import Rows

if TYPE_CHECKING:
    from calcli.workers.journal import Journal
    from calcli.workers.task import Executor


EPILOG = (
    "A result file (-o) is continued: what it holds of the same rows, seed and"
    " baseline is not fitted again."
    " It is replaced with --force. Methods with options are written"
    " hb(bins=20;scheme=mass)."
)


# ---- the work on one bundle and method: open, split into folds, fit, score


@dataclass(frozen=True)
class CompareTask:
    """Task of scoring a method on bundles, as one data set.

    against : bundles of the baseline, and its fit per fold.
    """

    args: "CompareArgs"
    bundles: tuple[str, ...]
    entrant: str
    against: tuple[tuple[str, ...], Sequence[Fit[Any] | None]] | None = None

    @property
    def name(self) -> str:
        return f"{self.bundles[0]} {self.entrant}"

    def __call__(self) -> board.HeldOut:
        with opened(self.args, self.bundles) as scene:
            return self.scored(scene)

    def scored(
        self, scene: board.OpenedFolds, progress: Progress | None = None
    ) -> board.HeldOut:
        """Fit and score the method on the opened bundles."""
        others = self._others(scene)
        return board.held_out(self.entrant, scene, self.args.seed, others, progress)

    @contextmanager
    def _others(
        self, scene: board.OpenedFolds
    ) -> Iterator[list[tuple[Rows, Fit[Any] | None]]]:
        """Per fold, the held-out rows of the baseline, which may be another model's,
        and its fit.
        """
        if self.against is None:
            yield []
            return
        bundles, fits = self.against
        baseline_scene: AbstractContextManager[board.OpenedFolds] = nullcontext(scene)
        if bundles != self.bundles:
            baseline_scene = opened(self.args, bundles)
        with baseline_scene as other:
            pairs = []
            for (_, held_out, _), fit in zip(other.folds, fits, strict=True):
                pairs.append((held_out, fit))
            yield pairs


@contextmanager
def opened(
    args: "CompareArgs",
    bundles: tuple[str, ...],
    tell: Callable[[str], None] | None = None,
) -> Iterator[board.OpenedFolds]:
    """Open bundles as one data set, and split it into rows to fit to and held-out rows.

    tell : receives notes on how arrays were read. Raises DataError for rows that cannot
    be used.
    """
    with open_data(bundles, prefer=o.CALIBRATION, tell=tell, **args.opening) as rows:
        if rows.kind == "confidence":
            raise DataError(
                f"{rows.name}: holds confidences, which have no NLL of the label; use"
                " fit --method all"
            )
        if args.test is None:
            with same_rows(args) as other:
                folds = folds_of(rows, Context(args.seed), args.folds, other)
            if not folds:
                raise DataError(
                    f"{rows.name}: has {rows.n} row, folds need two or more; name rows"
                    " with --test GROUP"
                )
            yield board.OpenedFolds(rows, rows, folds)
            return
        names = [f"{split_where(bundle)[0]}:{args.test}" for bundle in bundles]
        names = list(dict.fromkeys(names))
        with open_data(names, **args.opening) as held_out:
            if _places(held_out) & _places(rows):
                raise DataError(
                    f"{rows.name}: would be fitted to and scored; name other rows with"
                    " FILE.h5:GROUP"
                )
            if held_out.k != rows.k:
                raise DataError(
                    f"{held_out.name}: classes {held_out.k}, expected {rows.k} as in"
                    f" {rows.name}"
                )
            if held_out.kind != rows.kind:
                raise DataError(
                    f"{held_out.name}: kind {held_out.kind}, expected {rows.kind} as in"
                    f" {rows.name}"
                )
            fold = (rows, held_out, np.arange(held_out.n))
            yield board.OpenedFolds(rows, held_out, [fold])


@contextmanager
def same_rows(args: "CompareArgs") -> Iterator[DataSet | None]:
    """Open the other model's scores, whose contents decide the folds of both.

    None without.
    """
    if args.baseline_bundle is None:
        yield None
        return
    files = tuple(args.expand(args.baseline_bundle))
    with open_data(files, prefer=o.CALIBRATION, **args.opening) as rows:
        yield rows


def _places(rows: DataSet) -> set[tuple[Path, str]]:
    """(file, group) pairs that rows come from."""
    parts = rows.parts if isinstance(rows, PooledRows) else [rows]
    return {(part.path, part.group) for part in parts if isinstance(part, BundleRows)}


def differing_row(one: DataSet, other: DataSet) -> str | None:
    """Describe how two bundles differ in shape, labels, ids, or rows of weight 0.

    None if they are the same rows.
    """
    if (one.n, one.k) != (other.n, other.k):
        return (
            f"{one.name} has {one.n} rows x {one.k} classes, {other.name} {other.n} x"
            f" {other.k}"
        )
    columns: list[tuple[str, Any, Any]] = [
        ("label", one.labels(), other.labels()),
        ("weight above 0:", _has_weight(one), _has_weight(other)),
        ("id", _texts_of_ids(one), _texts_of_ids(other)),
    ]
    for what, a, b in columns:
        if a is None or b is None:
            continue
        differ = np.flatnonzero(np.asarray(a != b))
        if len(differ):
            row = int(differ[0])
            return (
                f"row {row} has {what} {a[row]} in {one.name} and {b[row]} in"
                f" {other.name}"
            )
    return None


def _has_weight(rows: DataSet) -> AnyArray:
    """Whether a row has a weight above 0, (n,)."""
    weights = rows.weights()
    if weights is None:
        return np.ones(rows.n, bool)
    return weights > 0


def _texts_of_ids(rows: DataSet) -> Any:
    ids = rows.column("ids")
    return None if ids is None else words(texts_of_names(ids))


def outcomes(
    tasks: Sequence[CompareTask],
    executor: "Executor | None",
    progress: Progress | None = None,
) -> Generator[board.HeldOut, None, None]:
    """Yield the outcome of every task in order, from this process or workers.

    One that kills workers holds a reason. progress : of fits in this process.
    """
    if executor is not None:
        yield from executor.run(tasks, _lost_outcome)
        return
    for bundles, group in groupby(tasks, key=lambda task: task.bundles):
        with opened(tasks[0].args, bundles) as scene:
            for task in group:
                yield task.scored(scene, _progress_of(task, progress))


def _progress_of(task: CompareTask, progress: Progress | None) -> Progress | None:
    """Progress of the fits of a task, under its name."""
    if progress is None:
        return None

    def report(what: str, done: int, total: int) -> None:
        progress(f"comparing, {task.name} {what}", done, total)

    return report


def _lost_outcome(lost: WorkersLost) -> board.HeldOut:
    """Outcome of a task that killed workers."""
    return board.HeldOut(0.0, reason=str(lost), exit_code=lost.exit_code)


# ---- the result file of an earlier run
#
# Its types are checked before anything in it is used.


LARGEST = 1 << 30  # bytes of a result file


class Shown(msgspec.Struct):
    """Schema of one metric, or difference, in a result file."""

    value: float | None
    se: float | None = None
    p_value: float | None = None
    null_mean: float | None = None
    null_q95: float | None = None
    ci: tuple[float | None, float | None] | None = None


class KeptDifference(msgspec.Struct):
    """Schema of a method's differences to the baseline on a bundle, by metric."""

    bundle: str
    method: str
    metrics: dict[str, Any]


class Kept(msgspec.Struct):
    """Schema of a result file of calcli compare; other keys are ignored."""

    settings: dict[str, Any]
    data: dict[str, str]
    results: list[board.LeaderboardEntry]
    differences: list[KeptDifference]


def kept(path: Path) -> Kept:
    """Read the result file of an earlier run. Raises UsageError for any other file."""
    try:
        text = read_document(str(path), LARGEST, "a result of compare", own=True)
        results = msgspec.json.decode(text, type=Kept)
        for result in results.results:
            if result.reason is None:
                _check_shown(result.metrics, board.LEADERBOARD_METRICS)
        for difference in results.differences:
            _check_shown(difference.metrics, board.COMPARED)
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UsageError(
            f"{path}: exists and is no result of compare; name another -o or pass"
            " --force"
        ) from None
    return results


def _check_shown(metrics: Mapping[str, Any], required: Sequence[str]) -> None:
    """Check the metrics of a result. Raises KeyError, msgspec.DecodeError."""
    for name in (*required, *metrics):
        msgspec.convert(metrics[name], Shown)


@dataclass(frozen=True, kw_only=True)
class CompareArgs(o.Pooling, o.WorkerOptions, o.OutputOptions, o.TableOptions):
    bundles: Annotated[
        list[str] | None,
        o.bundles("FILE.h5, FILE.h5:GROUP or FILE.h5:*; group cal (or val) when none."),
    ] = None
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            "-m",
            metavar="a,b,c|all",
            help="What to compare.",
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
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.json",
            help="Keep results, and go on from them.",
        ),
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
    def unused_options(self) -> dict[str, str]:
        return o.unused(
            (
                self.test is not None,
                "folds",
                "--test scores a group, so that no folds are made",
            ),
            (
                "all" not in (self.methods or "").lower().split(","),
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
            text = json.dumps(finite(work.to_dict()), indent=1, allow_nan=False) + "\n"
            write_bytes(args.output, text, force=True)
    if not work.plan:
        return command.code
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
    return command.code


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
    critical = ranks.nemenyi["critical_difference"]
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
        asked = args.methods
        if asked is None and other is not None:
            asked = board.UNCALIBRATED
        for bundles in map(tuple, sets):
            with (
                self.command.trying(len(sets) > 1, DataError),
                opened(args, bundles, self.command.say) as scene,
            ):
                for rows in dict.fromkeys((scene.rows, scene.held)):
                    for _ in rows.blocks():
                        pass  # a complete pass checks every row and computes the hash
                    self.command.caveats(rows)
                names, left_out = board.entrants(asked, scene.rows, args.thorough)
                for method, reason in left_out.items():
                    self.command.say(f"{scene.rows.name}: {method}: left out, {reason}")
                if other is None:
                    self.baseline = board.baseline_of(args.baseline, names)
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
            pairs = ((scene.rows, other.rows), (scene.held, other.held))
            for rows, other_rows in pairs:
                for _ in other_rows.blocks():
                    pass  # a complete pass checks every row
                difference = differing_row(rows, other_rows)
                if difference is not None:
                    raise DataError(
                        "--baseline-bundle needs the same rows in the same order:"
                        f" {difference}"
                    )
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
        held_out = scene.held
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
                given=title_of(held_out.upstream),
            )
            self.plan.setdefault((bundle, name), entry)
        return bundle

    # ---- the result file

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that all results share."""
        args = self.args
        settings: dict[str, Any] = {
            "folds": None if args.test is not None else args.folds,
            "test": args.test,
            "seed": args.seed,
            "level": args.level,
        }
        if args.unit is not None:
            settings["unit"] = args.unit
        settings["baseline"] = args.baseline_bundle or self.baseline
        settings["calcli_version"] = __version__
        return settings

    def remember(self) -> None:
        """Reuse what an earlier run has finished, or left in the job file.

        Raises UsageError for another comparison.
        """
        path = self.args.output
        if path is None or self.journal is None:
            return
        if os.path.exists(path) and not self.args.force:
            self._take_over(path, kept(path))
        for key, entry in self.plan.items():
            with suppress(KeyError):
                finished = self.journal[self._key(entry)]
                if isinstance(finished, board.LeaderboardEntry):
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
        parts = (entry.bundle, entry.method, entry.data_sha256, against, self.settings)
        return key_of(repr(parts).encode())

    def _take_over(self, path: Path, earlier: Kept) -> None:
        """Reuse the results of a file that are still valid.

        Raises UsageError for a file of another comparison.
        """
        differences = {(pair.bundle, pair.method): pair for pair in earlier.differences}
        results = {(result.bundle, result.method): result for result in earlier.results}
        for name, value in self.settings.items():
            earlier_value = earlier.settings.get(name)
            if earlier_value != value:
                raise UsageError(
                    f"{path}: holds results with {name} {earlier_value}, not {value};"
                    " name another -o or pass --force"
                )
        lost = [" ".join(key) for key in results if key not in self.plan]
        if lost:
            advice = "name another -o, ask for them too, or pass --force to drop them"
            raise UsageError(
                f"{path}: holds {len(lost)} results that are not asked for now"
                f" ({lost[0]}, …): {advice}"
            )
        for key, result in results.items():
            entry = self.plan[key]
            pair = differences.get(key)
            if result.data_sha256 != entry.data_sha256 or result.reason is not None:
                continue
            if entry.against is not None:
                sha = self.plan[entry.against].data_sha256
                if pair is None or sha != earlier.data.get(entry.against[0]):
                    continue
            self.done[key] = replace(
                result,
                differences=None if pair is None else pair.metrics,
                against=entry.against,
                unit=entry.unit,
                given=entry.given,
            )

    def to_dict(self) -> dict[str, Any]:
        """Results that are there, as the JSON holds them."""
        entries = [self.done[key] for key in self.plan if key in self.done]
        return board.comparison(entries, self.settings, self.ranks(entries))

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
                self.journal[self._key(entry)] = self.done[key]
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
