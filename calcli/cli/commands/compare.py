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
"""

import json
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
import typer

from calcli import __version__
from calcli.calibrator import Context, Fit
from calcli.cli import options as o
from calcli.cli.compare_tables import Leaderboard
from calcli.cli.context import CommandContext, job_file
from calcli.errors import CalcliError, DataError, UsageError
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
from calcli.metrics.context import MetricSettings
from calcli.rows import Rows

if TYPE_CHECKING:
    from calcli.workers.journal import Journal
    from calcli.workers.task import Executor


EPILOG = (
    "A result file (-o) is gone on from: what it holds of the same rows, seed and baseline is not fitted again."
    " It is replaced with --force. Methods with options are written hb(bins=20;scheme=mass)."
)


# ---- the work on one bundle and method: open, split into folds, fit, score


@dataclass(frozen=True)
class CompareTask:
    """Task of scoring a method on bundles, as one data set. against : bundles of the baseline, and its fit per fold."""

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

    def scored(self, scene: board.OpenedFolds) -> board.HeldOut:
        """Fit and score the method on the opened bundles."""
        return board.held_out(self.entrant, scene, self.args.seed, self._others(scene))

    @contextmanager
    def _others(
        self, scene: board.OpenedFolds
    ) -> Iterator[list[tuple[Rows, Fit[Any] | None]]]:
        """Per fold, the held-out rows of the baseline, which may be another model's, and its fit."""
        if self.against is None:
            yield []
            return
        bundles, fits = self.against
        with (
            nullcontext(scene)
            if bundles == self.bundles
            else opened(self.args, bundles) as other
        ):
            yield [
                (held, fit) for (_, held, _), fit in zip(other.folds, fits, strict=True)
            ]


@contextmanager
def opened(
    args: "CompareArgs",
    bundles: tuple[str, ...],
    tell: Callable[[str], None] | None = None,
) -> Iterator[board.OpenedFolds]:
    """Open bundles as one data set, and split it into rows to fit to and held-out rows. tell : receives notes on how
    arrays were read. Raises DataError for rows that cannot be used."""
    with open_data(bundles, prefer=o.CALIBRATION, tell=tell, **args.opening) as rows:
        if rows.kind == "confidence":
            raise DataError(
                f"{rows.name}: holds confidences, which have no NLL of the label; use fit --method all"
            )
        if args.test is None:
            with same_rows(args) as other:
                folds = folds_of(rows, Context(args.seed), args.folds, other)
            if not folds:
                raise DataError(
                    f"{rows.name}: has {rows.n} row, folds need two or more; name rows with --test GROUP"
                )
            yield board.OpenedFolds(rows, rows, folds)
            return
        names = list(
            dict.fromkeys(f"{split_where(bundle)[0]}:{args.test}" for bundle in bundles)
        )
        with open_data(names, **args.opening) as held:
            if _places(held) & _places(rows):
                raise DataError(
                    f"{rows.name}: would be fitted to and scored; name other rows with FILE.h5:GROUP"
                )
            for name, got, expected in (
                ("classes", held.k, rows.k),
                ("kind", held.kind, rows.kind),
            ):
                if got != expected:
                    raise DataError(
                        f"{held.name}: {name} {got}, expected {expected} as in {rows.name}"
                    )
            yield board.OpenedFolds(rows, held, [(rows, held, np.arange(held.n))])


@contextmanager
def same_rows(args: "CompareArgs") -> Iterator[DataSet | None]:
    """Open the other model's scores, whose contents decide the folds of both; None without."""
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
    """Describe how two bundles differ in shape, labels, ids, or rows of weight 0; None if they are the same rows."""
    if (one.n, one.k) != (other.n, other.k):
        return f"{one.name} has {one.n} rows x {one.k} classes, {other.name} {other.n} x {other.k}"
    mine, its = (
        np.ones(each.n, bool) if (w := each.weights()) is None else w > 0
        for each in (one, other)
    )
    columns: list[tuple[str, Any, Any]] = [
        ("label", one.labels(), other.labels()),
        ("weight above 0:", mine, its),
    ]
    columns.append(("id", _texts_of_ids(one), _texts_of_ids(other)))
    for what, a, b in columns:
        if a is None or b is None:
            continue
        differ = np.flatnonzero(np.asarray(a != b))
        if len(differ):
            at = int(differ[0])
            return (
                f"row {at} has {what} {a[at]} in {one.name} and {b[at]} in {other.name}"
            )
    return None


def _texts_of_ids(rows: DataSet) -> Any:
    ids = rows.column("ids")
    return None if ids is None else words(texts_of_names(ids))


def outcomes(
    tasks: Sequence[CompareTask], executor: "Executor | None"
) -> Generator[board.HeldOut, None, None]:
    """Yield the outcome of every task in order, from this process or workers; one that kills workers holds a reason."""
    if executor is not None:
        yield from executor.run(
            tasks,
            lambda lost: board.HeldOut(0.0, reason=str(lost), exit_code=lost.exit_code),
        )
        return
    for bundles, group in groupby(tasks, key=lambda task: task.bundles):
        with opened(tasks[0].args, bundles) as scene:
            for task in group:
                yield task.scored(scene)


# ---- the result file of an earlier run; its types are checked before anything in it is used


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
        found = msgspec.json.decode(
            read_document(str(path), LARGEST, "a result of compare", own=True),
            type=Kept,
        )
        done = [
            (result.metrics, board.LEADERBOARD_METRICS)
            for result in found.results
            if result.reason is None
        ]
        for metrics, names in (
            *done,
            *((pair.metrics, board.COMPARED) for pair in found.differences),
        ):
            for name in (*names, *metrics):
                msgspec.convert(metrics[name], Shown)
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UsageError(
            f"{path}: exists and is no result of compare; name another -o or pass --force"
        ) from None
    return found


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
                f"-o {self.output}: expected a file's name that ends in .json; --format writes to stdout"
            )
        if self.diagram is not None:
            from calcli.diagrams.critical_difference import check_ending

            check_ending(self.diagram)
            if self.output is not None and os.path.realpath(
                self.output
            ) == os.path.realpath(self.diagram):
                raise UsageError(
                    f"--diagram {self.diagram}: leads to the same file as -o; choose another"
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
    entries, models = (
        [work.done[key] for key in work.plan],
        args.baseline_bundle is not None,
    )
    how = (
        f"{args.folds} random folds"
        if args.test is None
        else f"scored on group {args.test}, fitted to another"
    )
    found = Leaderboard(
        entries, work.ranks(entries), work.baseline, how, args.level, models
    )
    if not args.people:
        whole = work.to_dict()
        args.print(
            "compare",
            [found.whole()] if args.form == "csv" else found.tables(),
            whole["results"],
            whole,
        )
    elif not args.quiet:
        found.print()
    if (path := args.diagram) is not None:
        from calcli.diagrams.critical_difference import picture

        if (ranks := found.ranks) is None:
            raise CalcliError(
                f"--diagram {path}: no two methods have values on every bundle, there are no ranks"
            )
        what = f"average rank by NLL over {ranks.n_bundles} bundles, {how}"
        by_nll, critical = (
            ranks.tests["nll"].ranks,
            ranks.nemenyi["critical_difference"],
        )
        write_bytes(
            path,
            picture(path, list(ranks.calibrators), by_nll, critical, what),
            force=args.force,
        )
        command.say(str(path))
    for entry in entries:
        if entry.reason is not None:
            command.fail(
                f"{entry.bundle}, {entry.method}: {entry.reason}", entry.exit_code
            )
    return command.code


Baselines = dict[
    tuple[str, str] | None, board.HeldOut
]  # (bundle, method) of a baseline -> its held-out scores


class _Work:
    """Planned and finished entries of a comparison. plan : (bundle, method) -> entry without its numbers. files :
    bundle -> the names to open it by."""

    def __init__(
        self, args: CompareArgs, command: CommandContext, journal: "Journal | None"
    ) -> None:
        self.args, self.command, self.journal = args, command, journal
        self.how = replace(
            args, bundles=None, files_from=None
        )  # tasks are sent without the names of all bundles
        self.plan: dict[tuple[str, str], board.LeaderboardEntry] = {}
        self.files: dict[str, tuple[str, ...]] = {}
        self.done: dict[tuple[str, str], board.LeaderboardEntry] = {}
        self.baseline = board.UNCALIBRATED

    def prepare(self) -> None:
        """Open every bundle and choose its methods; one that cannot be used does not stop the others."""
        args, sets, other = self.args, self.args.sets, self.args.baseline_bundle
        asked = (
            args.methods
            if args.methods is not None or other is None
            else board.UNCALIBRATED
        )
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
                    self._enter(
                        bundles, scene, names, self._other_model(other, scene, names)
                    )
        if args.diagram is not None and (
            other is not None or len({b for b, _ in self.plan}) < 2
        ):
            raise UsageError(
                "--diagram draws ranks over several bundles: name two or more"
            )

    def _other_model(
        self, bundle: str, scene: board.OpenedFolds, names: Sequence[str]
    ) -> str:
        """Plan the methods on the other model's scores of the same rows; returns the name of its bundle."""
        files = tuple(self.args.expand(bundle))
        with opened(self.args, files, self.command.say) as other:
            for mine, its in ((scene.rows, other.rows), (scene.held, other.held)):
                for _ in its.blocks():
                    pass
                if found := differing_row(mine, its):
                    raise DataError(
                        f"--baseline-bundle needs the same rows in the same order: {found}"
                    )
            return self._enter(files, other, names)

    def _enter(
        self,
        files: tuple[str, ...],
        scene: board.OpenedFolds,
        names: Sequence[str],
        other: str | None = None,
    ) -> str:
        """Plan the methods on a bundle; returns the bundle's name. other : bundle of the model to compare them with."""
        held = scene.held
        bundle = held.name
        if self.files.get(bundle, files)[0] != files[0]:
            bundle = files[0]  # another folder has a file of this name
        self.files.setdefault(bundle, files)
        sha = "+".join(
            dict.fromkeys((board.digest_of(scene.rows), board.digest_of(held)))
        )
        more: dict[str, Any] = {
            "unit": held.unit_name,
            "given": title_of(held.upstream),
        }
        for name in names:
            against = None if other is None else (other, name)
            if self.args.baseline_bundle is None and name != self.baseline:
                against = bundle, self.baseline
            entry = board.LeaderboardEntry(
                bundle, name, held.n, held.k, sha, 0.0, {}, against=against, **more
            )
            self.plan.setdefault((bundle, name), entry)
        return bundle

    # ---- the result file

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that all results share."""
        a = self.args
        common = {
            "folds": None if a.test is not None else a.folds,
            "test": a.test,
            "seed": a.seed,
            "level": a.level,
        }
        common |= {} if a.unit is None else {"unit": a.unit}
        return {
            **common,
            "baseline": a.baseline_bundle or self.baseline,
            "calcli_version": __version__,
        }

    def remember(self) -> None:
        """Reuse what an earlier run has finished, or left in the job file. Raises UsageError for another comparison."""
        path = self.args.output
        if path is None or self.journal is None:
            return
        if os.path.exists(path) and not self.args.force:
            self._take_over(path, kept(path))
        for key, entry in self.plan.items():
            with suppress(KeyError):
                found = self.journal[self._key(entry)]
                if isinstance(found, board.LeaderboardEntry):
                    self.done.setdefault(key, found)
        if self.done:
            self.command.say(
                f"{path}: {len(self.done)} of {len(self.plan)} results are there already"
            )

    def _key(self, entry: board.LeaderboardEntry) -> bytes:
        """Key of an entry in the job file: a hash of all that determines its numbers."""
        from calcli.workers.journal import key_of

        against = (
            None
            if entry.against is None
            else (entry.against, self.plan[entry.against].data_sha256)
        )
        return key_of(
            repr(
                (entry.bundle, entry.method, entry.data_sha256, against, self.settings)
            ).encode()
        )

    def _take_over(self, path: Path, held: Kept) -> None:
        """Reuse the results of a file that are still valid. Raises UsageError for a file of another comparison."""
        differ = {(d.bundle, d.method): d for d in held.differences}
        old = {(r.bundle, r.method): r for r in held.results}
        for name, want in self.settings.items():
            if (got := held.settings.get(name)) != want:
                told = f"holds results with {name} {got}, not {want}"
                raise UsageError(f"{path}: {told}; name another -o or pass --force")
        lost = [
            f"{bundle} {name}"
            for bundle, name in old
            if (bundle, name) not in self.plan
        ]
        if lost:
            advice = "name another -o, ask for them too, or pass --force to drop them"
            raise UsageError(
                f"{path}: holds {len(lost)} results that are not asked for now ({lost[0]}, …): {advice}"
            )
        for key, result in old.items():
            entry, pair = self.plan[key], differ.get(key)
            same = result.data_sha256 == entry.data_sha256 and result.reason is None
            if entry.against is not None:
                sha = self.plan[entry.against].data_sha256
                same = (
                    same and pair is not None and sha == held.data.get(entry.against[0])
                )
            if same:
                about = {
                    name: getattr(entry, name) for name in ("against", "unit", "given")
                }
                self.done[key] = replace(
                    result, differences=None if pair is None else pair.metrics, **about
                )

    def to_dict(self) -> dict[str, Any]:
        entries = [self.done[key] for key in self.plan if key in self.done]
        return board.comparison(entries, self.settings, self.ranks(entries))

    def ranks(self, entries: Sequence[board.LeaderboardEntry]) -> board.Ranking | None:
        """Ranks over bundles; None for two models on the same rows, which are not independent samples."""
        return (
            board.ranking(entries, self.args.level)
            if self.args.baseline_bundle is None
            else None
        )

    # ---- the work

    def do(self) -> None:
        """Score the missing entries, after the baselines that they are compared with."""
        missing = [key for key in self.plan if key not in self.done]
        needed = {
            against
            for key in missing
            if (against := self.plan[key].against) is not None
        }
        settings = MetricSettings(level=self.args.level, seed=self.args.seed)
        baselines: Baselines = {}
        with self.command:
            for keys in (
                [key for key in self.plan if key in needed],
                [key for key in missing if key not in needed],
            ):
                tasks = [self._task(key, baselines) for key in keys]
                with closing(outcomes(tasks, self.command.executor)) as stream:
                    for key, outcome in zip(keys, stream, strict=True):
                        if key in needed:
                            baselines[key] = outcome
                        if key not in self.done:
                            entry = self.plan[key]
                            self.done[key] = board.entered(
                                entry, outcome, baselines.get(entry.against), settings
                            )
                            if outcome.table is not None and self.journal is not None:
                                self.journal[self._key(entry)] = self.done[key]
                        told = f"comparing, {key[0]} {key[1]} done"
                        self.command.progress(told, len(self.done), len(self.plan))

    def _task(self, key: tuple[str, str], baselines: Baselines) -> CompareTask:
        """Task of an entry, with the fits of its baseline if these succeeded."""
        bundle, name = key
        against = self.plan[key].against
        fits = None
        if against is not None and baselines[against].table is not None:
            fits = self.files[against[0]], baselines[against].fits
        return CompareTask(self.how, self.files[bundle], name, fits)
