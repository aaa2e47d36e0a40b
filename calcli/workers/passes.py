"""Passes over a data set by an executor: parts become tasks, and their results come back
in the order of the rows.
"""

import pickle
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calcli.block import Block
from calcli.io.bundle import BundleRows
from calcli.io.dataset import DataSet, regular
from calcli.io.pooled_rows import PooledRows, within
from calcli.numerics import AnyArray
from calcli.rows import Walk
from calcli.workers.executor import Executor
from calcli.workers.journal import Journal, key_of
from calcli.workers.shared_bundles import SharedBundles, file_stamp
from calcli.zeros import Zeros

AS_STORED = b""
"""Digest of a part whose scores and result are as an earlier run has stored them."""


class PartResult(NamedTuple):
    """Result for one part, and digest of its scores if requested, else None."""

    result: Any
    digest: bytes | None


@dataclass(frozen=True)
class PassTask:
    """Task of a pass over parts ``first`` to ``last`` - 1.

    walk : pickled without its arrays ``along``, of which only these parts' rows are
    sent. part_rows, block_rows : rows of a part, and of a block in it. total : rows of
    the data set. hashed : whether to return digests of the parts' scores. zeros : see
    ``Rows.zeros``, of the whole data set. known : digests of parts whose results an
    earlier run has stored.
    """

    source: SharedBundles
    walk: bytes
    along: tuple[AnyArray, ...]
    first: int
    last: int
    part_rows: int
    block_rows: int
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
        shards = []
        for shard, *_ in within(self.source.counts, start, stop):
            shards.append(Path(self.source.names[shard]).name)
        where = shards[0]
        if len(shards) > 1:
            where = f"{shards[0]} to {shards[-1]}"
        return f"rows {start}..{stop - 1} ({where})"

    def __call__(self) -> list[PartResult]:
        walk: Walk = replace(pickle.loads(self.walk), along=self.along)
        return [self._part(walk, part) for part in range(self.first, self.last)]

    def _part(self, walk: Walk, part: int) -> PartResult:
        """Result of one part, by its number."""
        start = part * self.part_rows
        stop = min(start + self.part_rows, self.total)
        step = walk.at_once * self.block_rows
        digest = sha256()

        def blocks() -> Iterator[Block]:
            for block in regular(
                self.source.pieces(start, stop, walk.transforms, step), step
            ):
                if self.hashed:
                    digest.update(np.ascontiguousarray(block.scores).data)
                yield replace(block, zeros=self.zeros)

        if self.known:
            deque(blocks(), maxlen=0)  # reads all of them, for the digest
            if digest.digest() == self.known[part - self.first]:
                return PartResult(None, AS_STORED)
            digest = sha256()
        result = walk.over(blocks(), self.rows[0])
        return PartResult(result, digest.digest() if self.hashed else None)


# Tasks of a pass: few enough to cost little, many enough to balance the load.
TASKS_PER_WORKER = 4
MOST_PARTS = 8  # most parts of a task, as a worker holds all their results


@dataclass(frozen=True)
class Spread:
    """Passes over a data set by an executor.

    journal : store for results of parts while the job runs.
    """

    executor: Executor
    source: SharedBundles
    journal: Journal | None

    def __call__(self, rows: DataSet, walk: Walk) -> Iterator[Any]:
        """Yield the result of every part, in the order of the rows."""
        hashed = rows.hashed and rows.data_sha256 is None and not walk.transforms
        tasks = self._tasks(rows, walk, hashed)
        stored = self._stored(tasks, rows)
        answers = self.executor.run(_to_do(tasks, stored, hashed))
        digests: list[bytes] = []
        for task in tasks:
            stored_parts = stored.get(task.first)
            if stored_parts is None:
                parts = next(answers)
                is_new = True
            elif hashed:  # it was run again, as far as digests differ
                answer = next(answers)
                is_new = any(part.digest != AS_STORED for part in answer)
                parts = _with_stored(answer, stored_parts)
            else:
                parts = stored_parts
                is_new = False
            if self.journal is not None and is_new:
                self.journal[_key(task, rows)] = parts
            for part in parts:
                if part.digest is not None:
                    digests.append(part.digest)
                yield part.result
            if rows.progress is not None:
                rows.progress("rows read", task.rows[1], rows.n)
        for _ in answers:  # run the generator to its end
            pass
        if hashed:
            rows.seal(digests)

    def _tasks(self, rows: DataSet, walk: Walk, hashed: bool) -> list[PassTask]:
        """The tasks of a pass, each of some parts."""
        size = rows.part_rows(walk.transforms)
        n_parts = -(-rows.n // size)
        pickled = pickle.dumps(replace(walk, along=()), protocol=5)
        # Results as large as the rows come back part by part; sums are small, except those of tables.
        parts_of_task = 1
        if walk.add_up:
            balanced = -(-n_parts // (TASKS_PER_WORKER * self.executor.count))
            parts_of_task = min(MOST_PARTS, max(1, balanced))
        tasks = []
        for first in range(0, n_parts, parts_of_task):
            last = min(first + parts_of_task, n_parts)
            along = tuple(array[first * size : last * size] for array in walk.along)
            task = PassTask(
                source=self.source,
                walk=pickled,
                along=along,
                first=first,
                last=last,
                part_rows=size,
                block_rows=rows.block_rows(walk.transforms),
                total=rows.n,
                hashed=hashed,
                zeros=rows.zeros,
            )
            tasks.append(task)
        return tasks

    def _stored(
        self, tasks: Sequence[PassTask], rows: DataSet
    ) -> dict[int, list[PartResult]]:
        """Read the results that an earlier run has stored, by the first part of their
        task.
        """
        stored: dict[int, list[PartResult]] = {}
        if self.journal is None:
            return stored
        for task in tasks:
            with suppress(KeyError, TypeError):  # missing, or not pairs
                pairs: Any = self.journal[_key(task, rows)]
                parts = [PartResult(*pair) for pair in pairs]
                if len(parts) == task.last - task.first:
                    stored[task.first] = parts
        return stored


def _to_do(
    tasks: Sequence[PassTask], stored: Mapping[int, list[PartResult]], hashed: bool
) -> list[PassTask]:
    """The tasks to run: all that nothing is stored of.

    In a pass that hashes the rows all of them: what is stored holds only where digests
    match, as the file may have changed with the same stamp.
    """
    if not hashed:
        return [task for task in tasks if task.first not in stored]
    to_do = []
    for task in tasks:
        digests = tuple(part.digest for part in stored.get(task.first, ()))
        to_do.append(replace(task, known=digests))
    return to_do


def _with_stored(
    answer: Sequence[PartResult], stored: Sequence[PartResult]
) -> list[PartResult]:
    """The answer to a task, with what is stored of parts that are as they were."""
    parts = []
    for part, before in zip(answer, stored, strict=True):
        parts.append(before if part.digest == AS_STORED else part)
    return parts


def _key(task: PassTask, rows: DataSet) -> bytes:
    """Key of a task's results in the journal.

    In a pass that hashes the scores, their digests are compared too.
    """
    along = b"".join(np.ascontiguousarray(a).tobytes() for a in task.along)
    facts = (
        task.source,
        task.first,
        task.last,
        task.part_rows,
        task.block_rows,
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
    """Let an executor run the passes over rows, opened by these names and arguments
    (see ``open_rows``).
    """
    parts = rows.parts if isinstance(rows, PooledRows) else [rows]
    small = all(part.small for part in parts if isinstance(part, BundleRows))
    counts = tuple(part.n for part in parts)
    stamps = tuple(map(file_stamp, names))
    source = SharedBundles(
        tuple(names), opening or {}, counts, stamps, rows.dtype, small
    )
    rows.spread = Spread(executor, source, journal)
