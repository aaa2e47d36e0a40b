"""Tasks of ``compare``: open bundles, split them into folds, fit a method, score it."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calcli.calibrator import Context, Fit, Progress
from calcli.cli import options as o
from calcli.errors import DataError, WorkersLost
from calcli.evaluation import leaderboard as board
from calcli.evaluation.cross_validation import folds_of
from calcli.fitting.compatibility import moved_class
from calcli.importers.open_any_file import open_data
from calcli.io.bundle import BundleRows
from calcli.io.cells import texts_of_names, words
from calcli.io.dataset import DataSet
from calcli.io.locate import split_where
from calcli.io.pooled_rows import PooledRows, must_agree
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.rows import Rows

if TYPE_CHECKING:
    from calcli.cli.commands.compare import CompareArgs
    from calcli.workers.executor import Executor


SAME_WEIGHT = 1e-6
"""Relative difference of weights that are the same, some stored in float32."""


@dataclass(frozen=True)
class CompareTask:
    """Task of scoring a method on bundles, as one data set.

    against : bundles of the baseline, and its fit per fold.
    """

    args: "CompareArgs"
    bundles: tuple[str, ...]
    entrant: str
    against: tuple[tuple[str, ...], Sequence[Fit[Any] | None]] | None

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
        _carry_columns(args, rows, tell)
        if args.test is None:
            with same_rows(args) as other:
                folds = folds_of(rows, Context(args.seed), args.folds, other)
            if not folds:
                raise DataError(
                    f"{rows.name}: folds need two or more rows of positive weight; name"
                    " rows with --test GROUP"
                )
            board.check_folds(folds, args.folds, rows)
            yield board.OpenedFolds(rows, rows, folds)
            return
        names = [f"{split_where(bundle)[0]}:{args.test}" for bundle in bundles]
        names = list(dict.fromkeys(names))
        with open_data(names, **args.opening) as held_out:
            _carry_columns(args, held_out, tell)
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


def _carry_columns(
    args: "CompareArgs", rows: DataSet, tell: Callable[[str], None] | None
) -> None:
    """Attach the columns that methods by group need.

    A method whose own column is missing fails alone, and ``tell`` receives the reason.
    Raises DataError without the column of ``--group-by``.
    """
    for column in board.columns_of_methods(
        args.asked_methods, args.baseline, args.group_column
    ):
        try:
            rows.carry(column)
        except DataError as problem:
            if column == args.group_column:
                raise
            if tell is not None:
                tell(str(problem))


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


def disagreement(one: DataSet, other: DataSet) -> str | None:
    """Describe how two bundles of the same rows differ in the order of classes, the
    weights, or the units; None if they agree.
    """
    names = one.class_names
    names_of_other = other.class_names
    if names and names_of_other:
        moved = moved_class(names, names_of_other)
        if moved is not None:
            c, _ = moved
            has = f"calls class {c} {names_of_other[c]!r}"
            return must_agree(other.name, has, one.name, repr(names[c]))
    weights = _weights_or_ones(one)
    weights_of_other = _weights_or_ones(other)
    a = weights * weights_of_other.sum()
    b = weights_of_other * weights.sum()
    differ = np.flatnonzero(~np.isclose(a, b, rtol=SAME_WEIGHT, atol=0.0))
    if len(differ):
        row = int(differ[0])
        ratio = weights[row] / weights.mean()
        ratio_of_other = weights_of_other[row] / weights_of_other.mean()
        has = f"gives row {row} {ratio_of_other:.4g} times its mean weight"
        expected = f"{ratio:.4g} times"
        return must_agree(other.name, has, one.name, expected)
    units = _first_rows_of_units(one)
    units_of_other = _first_rows_of_units(other)
    differ = np.flatnonzero(units != units_of_other)
    if len(differ):
        row = int(differ[0])
        has = _unit_in_words(row, int(units_of_other[row]))
        expected = _unit_in_words(row, int(units[row]))
        return must_agree(other.name, has, one.name, expected)
    return None


def _weights_or_ones(rows: DataSet) -> FloatArray:
    weights = rows.weights()
    return np.ones(rows.n) if weights is None else weights


def _first_rows_of_units(rows: DataSet) -> IntArray:
    """First row of the unit of every row, (n,); itself where rows are independent."""
    units = rows.units()
    if units is None:
        return np.arange(rows.n)
    return units.order[units.starts][units.code]


def _unit_in_words(row: int, first: int) -> str:
    if first == row:
        return f"has no earlier row of the unit of row {row}"
    return f"has rows {first} and {row} in one unit"


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
