"""Walks over a data set by an executor: parts are dealt out, their results come back in the order of the rows."""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.io.dataset import DataSet
from calcli.rows import Walk
from calcli.workers.executor import Executor
from calcli.workers.journal import Journal, key_of
from calcli.workers.task import PartResult, PartsTask, Source

TASKS_PER_WORKER = 4
"""Tasks that a walk is cut into, per worker: few enough to cost little, many enough to end together."""

MOST_PARTS = 8
"""Parts of a task, whose results a worker holds at once."""


class Spread:
    """A data set's walks, by an executor. journal : where results of parts are kept while the job runs."""

    def __init__(self, executor: Executor, source: Source, journal: Journal | None) -> None:
        self.executor, self.journal = executor, journal
        self.source = source.absolute() if executor.remote else source

    def __call__(self, rows: DataSet, walk: Walk) -> Iterator[Any]:
        """The result of every part, in the order of the rows."""
        hashed = rows.hashed and rows.data_sha256 is None and not walk.transforms
        tasks, known = self._tasks(rows, walk, hashed)
        if hashed:  # what is known holds for these scores alone: a file may be another under all the same facts
            asked = [replace(task, known=tuple(part.digest for part in known.get(task.first, ()))) for task in tasks]
        else:
            asked = [task for task in tasks if task.first not in known]
        answers = self.executor.run(asked)
        digests: list[bytes] = []
        for task in tasks:
            old = known.get(task.first)
            found = old if old is not None and not hashed else next(answers)
            new = old is None or (hashed and any(part.digest != b"" for part in found))
            if hashed and old is not None:
                found = [before if part.digest == b"" else part for part, before in zip(found, old, strict=True)]
            if self.journal is not None and new:
                self.journal[_key(task, rows)] = [(part.result, part.digest) for part in found]
            for part in found:
                if part.digest is not None:
                    digests.append(part.digest)
                yield part.result
            if rows.progress is not None:
                rows.progress("rows read", task.rows[1], rows.n)
        for _ in answers:  # lets it end
            pass
        if hashed:
            rows.seal(digests)

    def _tasks(self, rows: DataSet, walk: Walk, hashed: bool) -> tuple[list[PartsTask], dict[int, list[PartResult]]]:
        """The walk cut into tasks, and those of which the results are known, by their first part."""
        size, step = rows.part_rows(walk.transforms), rows.step(walk.transforms)
        count = -(-rows.n // size)
        text = pickle.dumps(replace(walk, along=()), protocol=5)
        # What is as large as the rows comes back part by part; sums are small, but for those of tables.
        heap = min(MOST_PARTS, max(1, -(-count // (TASKS_PER_WORKER * self.executor.count)))) if walk.add_up else 1
        tasks: list[PartsTask] = []
        for first in range(0, count, heap):
            last = min(first + heap, count)
            along = tuple(a[first * size : last * size] for a in walk.along)
            tasks.append(PartsTask(self.source, text, along, first, last, size, step, rows.n, hashed))
        if self.journal is None:
            return tasks, {}
        known = {}
        for task in tasks:
            with suppress(KeyError, TypeError):  # not there; no pairs
                parts = [PartResult(*pair) for pair in self.journal[_key(task, rows)]]
                if len(parts) == task.last - task.first:
                    known[task.first] = parts
        return tasks, known


def _key(task: PartsTask, rows: DataSet) -> bytes:
    """What determines the results of a task: of the first walk, the scores are held against their digests too."""
    along = b"".join(np.ascontiguousarray(a).tobytes() for a in task.along)
    facts = (task.source, task.first, task.last, task.part_rows, task.step, task.total, task.hashed, rows.data_sha256)
    return key_of(task.walk, along, repr(facts).encode())


def spread_over(
    rows: DataSet,
    names: Sequence[str],
    executor: Executor,
    opening: Mapping[str, Any] | None = None,
    journal: Journal | None = None,
) -> None:
    """Let an executor walk over rows, which were opened by these names and arguments (see ``open_rows``)."""
    rows.spread = Spread(executor, Source.of(rows, names, opening or {}), journal)
