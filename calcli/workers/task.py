"""Tasks of workers: passes over parts of a data set that each worker opens itself."""

import pickle
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from threading import local
from typing import Any, NamedTuple, Protocol

import numpy as np

from calcli.errors import DataError, WorkersLost
from calcli.importers.open_any_file import open_rows
from calcli.io.bundle import BundleRows
from calcli.io.dataset import DataSet, PooledRows, regular, within
from calcli.io.inputs import allow_open_files, stamp
from calcli.io.locate import split_where
from calcli.numerics import AnyArray
from calcli.rows import Block, Walk
from calcli.workers.journal import Journal, key_of
from calcli.zeros import Zeros

# ---- executors: take tasks and return their results in order


ATTEMPTS = 3  # workers that may die during a task before it is given up


class Named(Protocol):
    """Task: a picklable callable for a worker, with a name for people."""

    @property
    def name(self) -> str: ...
    def __call__(self) -> Any: ...


class Executor(ABC):
    """Pool of workers. count : their number. remote : they may run in another folder, on other machines."""

    count: int
    remote = False

    @abstractmethod
    def run(
        self, tasks: Sequence[Named], lost: Callable[[WorkersLost], Any] | None = None
    ) -> Iterator[Any]:
        """Yield the results of the tasks, in their order.

        A task whose worker dies is repeated by another; an exception of a task is raised here. lost : makes
        the result of a task during which several workers have died; without it WorkersLost is raised.
        Raises WorkersLost also if no worker is left.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the workers."""


def given_up(task: Named, lost: Callable[[WorkersLost], Any] | None) -> Any:
    """Return ``lost``'s result for a task during which workers died. Raises WorkersLost without ``lost``."""
    advice = "is there memory enough? fewer --workers need less"
    problem = WorkersLost(
        f"{ATTEMPTS} workers died one after the other over {task.name}; {advice}"
    )
    if lost is None:
        raise problem
    return lost(problem)


OPEN_BUNDLES = 256  # most bundles that a worker keeps open
SEEN_ALIKE = slice(
    2, 4
)  # part of a stamp that is the same on every machine: size and mtime


@dataclass(frozen=True)
class Source:
    """Bundles of a data set: how to open them, and their state when the work began.

    opening : arguments of ``open_rows`` besides the name. counts : rows of each that are kept. marks : stamps of the
    files on this machine. small : whether scores stay in memory.
    """

    names: tuple[str, ...]
    opening: Mapping[str, Any]
    counts: tuple[int, ...]
    marks: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]
    small: bool

    def pieces(
        self, start: int, stop: int, transforms: Sequence[int], step: int
    ) -> Iterator[Block]:
        """Read rows start..stop-1 in pieces, multiples of ``step`` rows where possible."""
        for at, begin, low, high in within(self.counts, start, stop):
            rows = self._opened(at)
            for piece in rows.pieces(
                transforms, rows.slab_rows(transforms, step), low, high
            ):
                scores = piece.scores.astype(self.dtype, copy=False)
                yield replace(piece, start=begin + piece.start, scores=scores)

    def _opened(self, at: int) -> BundleRows:
        """Return bundle number ``at``, opened unless it is open in this thread."""
        if not hasattr(_here, "bundles"):
            _here.bundles = OrderedDict()
            allow_open_files(OPEN_BUNDLES)
        bundles: OrderedDict[Any, tuple[ExitStack, BundleRows]] = _here.bundles
        name, key = self.names[at], (self.names[at], self.marks[at], repr(self.opening))
        if key not in bundles:
            if mark(name)[SEEN_ALIKE] != self.marks[at][SEEN_ALIKE]:
                raise DataError(
                    f"{name}: has changed since the work on it began; repeat the command"
                )
            while len(bundles) >= OPEN_BUNDLES:
                bundles.popitem(last=False)[1][0].close()
            stack = ExitStack()
            rows = stack.enter_context(open_rows(name, **self.opening))
            rows.small = self.small
            bundles[key] = stack, rows
        bundles.move_to_end(key)
        return bundles[key][1]


_here = local()  # ``bundles``: open bundles of this thread


def mark(name: str) -> tuple[int, ...]:
    """Return the stamp of a bundle's file. Raises DataError if it is missing."""
    path = split_where(name)[0]
    try:
        return stamp(path)
    except OSError as problem:
        advice = (
            "every worker must see the files under the same names, as on a shared disk"
        )
        raise DataError(f"{path}: {problem.strerror}; {advice}") from None


class PartResult(NamedTuple):
    """Result for one part, and digest of its scores if requested; an empty digest means that both are as known."""

    result: Any
    digest: bytes | None


@dataclass(frozen=True)
class PartsTask:
    """Task of a pass over parts ``first`` to ``last`` - 1.

    walk : pickled without its arrays ``along``, of which only these parts' rows are sent. hashed : whether to
    return digests of the parts' scores. zeros : see ``Rows.zeros``, of the whole data set. known : digests of parts
    whose results an earlier run has stored.
    """

    source: Source
    walk: bytes
    along: tuple[AnyArray, ...]
    first: int
    last: int
    part_rows: int
    step: int
    total: int
    hashed: bool
    known: tuple[bytes | None, ...] = ()
    zeros: Zeros | None = None

    @property
    def rows(self) -> tuple[int, int]:
        """First row, and the row after the last."""
        return self.first * self.part_rows, min(self.last * self.part_rows, self.total)

    @property
    def name(self) -> str:
        start, stop = self.rows
        shards = [
            Path(self.source.names[at]).name
            for at, *_ in within(self.source.counts, start, stop)
        ]
        return f"rows {start}..{stop - 1} ({shards[0]}{f' to {shards[-1]}' if len(shards) > 1 else ''})"

    def __call__(self) -> list[PartResult]:
        walk: Walk = replace(pickle.loads(self.walk), along=self.along)
        return [self._part(walk, at) for at in range(self.first, self.last)]

    def _part(self, walk: Walk, at: int) -> PartResult:
        start, stop = at * self.part_rows, min((at + 1) * self.part_rows, self.total)
        step = walk.at_once * self.step
        digest = sha256()

        def blocks() -> Iterator[Block]:
            for block in regular(
                self.source.pieces(start, stop, walk.transforms, step), step
            ):
                if self.hashed:
                    digest.update(np.ascontiguousarray(block.scores).data)
                yield replace(block, zeros=self.zeros)

        if self.known:
            deque(blocks(), maxlen=0)
            if digest.digest() == self.known[at - self.first]:
                return PartResult(None, b"")
            digest = sha256()
        result = walk.over(blocks(), self.rows[0])
        return PartResult(result, digest.digest() if self.hashed else None)


# ---- passes over a data set by an executor: parts become tasks, results come back in the order of the rows


TASKS_PER_WORKER = (
    4  # tasks of a pass: few enough to cost little, many enough to balance the load
)
MOST_PARTS = 8  # most parts of a task, as a worker holds all their results


@dataclass(frozen=True)
class Spread:
    """Passes over a data set by an executor. journal : store for results of parts while the job runs."""

    executor: Executor
    source: Source
    journal: Journal | None

    def __call__(self, rows: DataSet, walk: Walk) -> Iterator[Any]:
        """Yield the result of every part, in the order of the rows."""
        hashed = rows.hashed and rows.data_sha256 is None and not walk.transforms
        tasks = self._tasks(rows, walk, hashed)
        known = self._known(tasks, rows)
        asked = [task for task in tasks if hashed or task.first not in known]
        if hashed:  # stored results hold only if the digests match: the file may have changed with the same stamp
            asked = [
                replace(
                    task, known=tuple(part.digest for part in known.get(task.first, ()))
                )
                for task in tasks
            ]
        answers, digests = self.executor.run(asked), list[bytes]()
        for task in tasks:
            old = known.get(task.first)
            found = next(answers) if old is None or hashed else old
            new = old is None or (hashed and any(part.digest != b"" for part in found))
            if old is not None:
                found = [
                    before if part.digest == b"" else part
                    for part, before in zip(found, old, strict=True)
                ]
            if self.journal is not None and new:
                self.journal[_key(task, rows)] = found
            for part in found:
                if part.digest is not None:
                    digests.append(part.digest)
                yield part.result
            if rows.progress is not None:
                rows.progress("rows read", task.rows[1], rows.n)
        for _ in answers:  # run the generator to its end
            pass
        if hashed:
            rows.seal(digests)

    def _tasks(self, rows: DataSet, walk: Walk, hashed: bool) -> list[PartsTask]:
        size, step = rows.part_rows(walk.transforms), rows.step(walk.transforms)
        count = -(-rows.n // size)
        text, zeros = pickle.dumps(replace(walk, along=()), protocol=5), rows.zeros
        # Results as large as the rows come back part by part; sums are small, except those of tables.
        heap = (
            min(
                MOST_PARTS,
                max(1, -(-count // (TASKS_PER_WORKER * self.executor.count))),
            )
            if walk.add_up
            else 1
        )
        tasks = []
        for first in range(0, count, heap):
            last = min(first + heap, count)
            along = tuple(a[first * size : last * size] for a in walk.along)
            tasks.append(
                PartsTask(
                    self.source,
                    text,
                    along,
                    first,
                    last,
                    size,
                    step,
                    rows.n,
                    hashed,
                    zeros=zeros,
                )
            )
        return tasks

    def _known(
        self, tasks: Sequence[PartsTask], rows: DataSet
    ) -> dict[int, list[PartResult]]:
        """Read the results that an earlier run has stored, by the first part of their task."""
        known = {}
        for task in tasks if self.journal is not None else ():
            with suppress(KeyError, TypeError):  # missing, or not pairs
                parts = [PartResult(*pair) for pair in self.journal[_key(task, rows)]]  # type: ignore[index]
                if len(parts) == task.last - task.first:
                    known[task.first] = parts
        return known


def _key(task: PartsTask, rows: DataSet) -> bytes:
    """Key of a task's results in the journal; in the first pass digests of the scores are compared too."""
    along = b"".join(np.ascontiguousarray(a).tobytes() for a in task.along)
    facts = (
        task.source,
        task.first,
        task.last,
        task.part_rows,
        task.step,
        task.total,
        task.hashed,
        task.zeros,
        rows.data_sha256,
    )
    return key_of(task.walk, along, repr(facts).encode())


def spread_over(
    rows: DataSet,
    names: Sequence[str],
    executor: Executor,
    opening: Any = None,
    journal: Journal | None = None,
) -> None:
    """Let an executor run the passes over rows, opened by these names and arguments (see ``open_rows``)."""
    parts = rows.parts if isinstance(rows, PooledRows) else [rows]
    small = all(part.small for part in parts if isinstance(part, BundleRows))
    counts, marks = tuple(part.n for part in parts), tuple(mark(name) for name in names)
    source = Source(tuple(names), opening or {}, counts, marks, rows.dtype, small)
    rows.spread = Spread(executor, source, journal)
