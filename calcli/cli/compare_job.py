"""What compare does with every bundle and method: open, cut into folds, fit, score."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from calcli.calibrator import Context, Fit
from calcli.cli import options as o
from calcli.errors import DataError, UsageError
from calcli.evaluation.cross_validation import folds_of
from calcli.evaluation.leaderboard import COMPARED, LEADERBOARD_METRICS, HeldOut, OpenedFolds, held_out
from calcli.fast_dataclass import dataclass
from calcli.importers.open_any_file import open_data
from calcli.io.bundle import BundleRows
from calcli.io.dataset import DataSet
from calcli.io.inputs import read_document
from calcli.io.locate import Layout, split_where
from calcli.io.pooled_bundles import PooledRows
from calcli.rows import Rows

if TYPE_CHECKING:
    from calcli.workers.task import Executor


@dataclass(frozen=True)
class CompareJob:
    """How the rows of one bundle, or of some as one data set, become rows to fit to and rows held out.

    test : group that is scored, while the bundle itself is fitted to; None for folds.
    """

    bundles: tuple[str, ...]
    test: str | None
    folds: int
    seed: int
    layout: Layout
    ignored: tuple[int, ...]

    @property
    def bundle(self) -> str:
        """The first bundle."""
        return self.bundles[0]


@dataclass(frozen=True)
class CompareTask:
    """A method to be scored on a bundle. against : where and by which fits the baseline was scored."""

    setting: CompareJob
    entrant: str
    against: tuple[CompareJob, Sequence[Fit[Any] | None]] | None = None

    @property
    def name(self) -> str:
        """What people call the work."""
        return f"{self.setting.bundle} {self.entrant}"

    def __call__(self) -> HeldOut:
        with opened(self.setting) as scene:
            return _outcome(self, scene)

    def absolute(self) -> "CompareTask":
        """The same for a process in another folder."""
        from calcli.workers.task import absolute

        def moved(setting: CompareJob) -> CompareJob:
            return replace(setting, bundles=tuple(absolute(name) for name in setting.bundles))

        against = None if self.against is None else (moved(self.against[0]), self.against[1])
        return replace(self, setting=moved(self.setting), against=against)


@contextmanager
def opened(setting: CompareJob, tell: Callable[[str], None] | None = None) -> Iterator[OpenedFolds]:
    """Open a bundle and cut it. tell : hears what was read as what. Raises DataError for rows that cannot be used."""
    s = setting
    with open_data(s.bundles, prefer=o.CALIBRATION, layout=s.layout, ignore_labels=s.ignored, tell=tell) as rows:
        if rows.kind == "confidence":
            raise DataError(f"{rows.name}: holds confidences, which have no NLL of the label; use fit --method all")
        if s.test is None:
            folds = folds_of(rows, Context(s.seed), s.folds)
            if not folds:
                raise DataError(f"{rows.name}: has {rows.n} row, folds need two or more; name rows with --test GROUP")
            yield OpenedFolds(rows, rows, folds)
            return
        where = list(dict.fromkeys(f"{split_where(bundle)[0]}:{s.test}" for bundle in s.bundles))
        with open_data(where, layout=s.layout, ignore_labels=s.ignored) as held:
            if _places(held) & _places(rows):
                raise DataError(f"{rows.name}: would be fitted to and scored; name other rows with FILE.h5:GROUP")
            for what in ("k", "kind"):
                if getattr(rows, what) != getattr(held, what):
                    name = "classes" if what == "k" else what
                    got, expected = getattr(held, what), getattr(rows, what)
                    raise DataError(f"{held.name}: {name} {got}, expected {expected} as in {rows.name}")
            yield OpenedFolds(rows, held, [(rows, held, np.arange(held.n))])


def _places(rows: DataSet) -> set[tuple[Path, str]]:
    """Files and groups that rows come from."""
    parts = rows.parts if isinstance(rows, PooledRows) else [rows]
    return {(part.path, part.group) for part in parts if isinstance(part, BundleRows)}


def differing_row(one: DataSet, other: DataSet) -> str | None:
    """Where two bundles are not the same rows of a data set, in words; None when labels and ids agree."""
    if (one.n, one.k) != (other.n, other.k):
        return f"{one.name} has {one.n} rows x {one.k} classes, {other.name} {other.n} x {other.k}"
    weights = one.weights(), other.weights()
    mine, its = (np.ones(one.n, dtype=bool) if weight is None else weight > 0 for weight in weights)
    columns: list[tuple[str, Any, Any]] = [("label", one.labels(), other.labels()), ("weight above 0:", mine, its)]
    ids = one.column("ids"), other.column("ids")
    if ids[0] is not None and ids[1] is not None:
        columns.append(("id", *ids))
    for what, a, b in columns:
        differ = np.flatnonzero(np.asarray(a != b))
        if len(differ):
            at = int(differ[0])
            return f"row {at} has {what} {a[at]} in {one.name} and {b[at]} in {other.name}"
    return None


def outcomes(tasks: Sequence[CompareTask], executor: "Executor | None") -> Generator[HeldOut, None, None]:
    """The outcome of every task in order, from this process or from workers; one that they die over has a reason."""
    if executor is not None:
        tasks = [task.absolute() for task in tasks] if executor.remote else tasks
        yield from executor.run(tasks, lambda lost: HeldOut(0.0, reason=str(lost), exit_code=lost.exit_code))
        return
    for setting, group in groupby(tasks, key=lambda task: task.setting):
        with opened(setting) as scene:
            for task in group:
                yield _outcome(task, scene)


def _outcome(task: CompareTask, scene: OpenedFolds) -> HeldOut:
    return held_out(task.entrant, scene, task.setting.seed, _others(task, scene))


@contextmanager
def _others(task: CompareTask, scene: OpenedFolds) -> Iterator[list[tuple[Rows, Fit[Any] | None]]]:
    """By fold the held-out rows of the baseline, which may be another model's, and its fit."""
    if task.against is None:
        yield []
        return
    setting, fits = task.against
    with nullcontext(scene) if setting == task.setting else opened(setting) as other:
        yield [(held, fit) for (_, held, _), fit in zip(other.folds, fits, strict=True)]


# ---- the result file of compare, read again: nothing in it is believed before its types are checked


LARGEST = 1 << 30
"""Bytes of a result file."""

Fact = int | float | str | bool | None | list[float | None]
NUMBERS = ("value", "se", "p_value", "null_mean", "null_q95")


class KeptDifference(msgspec.Struct):
    """A method's differences to the baseline on a bundle, by metric."""

    bundle: str
    method: str
    metrics: dict[str, dict[str, Fact]]


class KeptResult(KeptDifference):
    """A method's metrics on a bundle."""

    status: str
    seconds: float = 0.0
    data_sha256: str | None = None
    fits: dict[str, int] = msgspec.field(default_factory=dict)


class Kept(msgspec.Struct):
    """What an earlier run has left; other keys are not read again."""

    settings: dict[str, Any]
    data: dict[str, str]
    results: list[KeptResult]
    differences: list[KeptDifference]

    @property
    def whole(self) -> bool:
        """Whether all that is shown of a result is there, and is numbers."""
        done = [(result, LEADERBOARD_METRICS) for result in self.results if result.status == "ok"]
        pairs: list[tuple[KeptDifference, tuple[str, ...]]] = [*done, *((pair, COMPARED) for pair in self.differences)]
        return all(name in each.metrics for each, names in pairs for name in names) and all(
            _is_shown(fact) for each, _ in pairs for fact in each.metrics.values()
        )


def _is_shown(fact: dict[str, Fact]) -> bool:
    ends = fact.get("ci") or [None, None]
    return (
        "value" in fact
        and all(type(fact.get(name)) in (int, float, type(None)) for name in NUMBERS)
        and (isinstance(ends, list) and len(ends) == 2)
    )


def kept(path: Path) -> Kept:
    """Read what an earlier run has left. Raises UsageError for anything else."""
    what = "a result of compare"
    try:
        found = msgspec.json.decode(read_document(str(path), LARGEST, what, own=True), type=Kept)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    if found is None or not found.whole:
        raise UsageError(f"{path}: exists and is no result of compare; name another -o or pass --force")
    return found
