"""Scores kept batch by batch as they come, in the job file beside the output, so that an interrupted job can go on."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from calcli.errors import CalcliError, UsageError
from calcli.numerics import AnyArray
from calcli.workers.journal import Journal, key_of


class KeptScores(AbstractContextManager["KeptScores"]):
    """The scores of a job: batches of rows, (rows, layers, k). done : rows that are there. k : classes, once known.

    job : what makes the job this one and no other, JSON types. Use as a context manager: the file stays when the work
    is cut short. Raises UsageError for the file of another job (unless ``force``, which starts anew), and as
    ``Journal`` does.
    """

    def __init__(self, path: Path, job: dict[str, Any], *, force: bool = False) -> None:
        self.path, self.job = path, json.loads(json.dumps(job))
        self.k: int | None = None
        self._ends = [0]
        self._journal = Journal(path)
        try:
            self._go_on(force)
        except BaseException:
            self._journal.close(done=False)
            raise

    @property
    def done(self) -> int:
        return self._ends[-1]

    def _go_on(self, force: bool) -> None:
        with suppress(KeyError):
            while True:
                job, rows = self._journal[_key(self.done)]
                if job != self.job:
                    break
                self._took(rows)
            if not self.done and not force:
                different = sorted(key for key in {*job, *self.job} if job.get(key) != self.job.get(key))
                raise UsageError(
                    f"{self.path}: holds part of another job (other {', '.join(different)}); repeat that command to"
                    " finish it, or delete the file or pass --force to start anew"
                )

    def _took(self, rows: AnyArray) -> None:
        self.k = rows.shape[2]
        self._ends.append(self.done + len(rows))

    def append(self, rows: AnyArray) -> None:
        """Keep rows behind those that are there. Raises CalcliError when that fails."""
        try:
            self._journal.add(_key(self.done), (self.job, rows))
        except OSError as problem:
            kept = f"{self.done} rows are kept in it, make room and repeat the command" if self.done else "nothing kept"
            raise CalcliError(f"{self.path}: cannot be written: {problem.strerror}; {kept}") from None
        self._took(rows)

    def batches(self) -> Iterator[tuple[int, AnyArray]]:
        """The first row of every batch, and its rows."""
        for start in self._ends[:-1]:
            yield start, self._journal[_key(start)][1]

    def __exit__(self, kind: type[BaseException] | None, *how: object) -> None:
        self._journal.close(done=kind is None)


def _key(start: int) -> bytes:
    return key_of(b"scores", str(start).encode())
