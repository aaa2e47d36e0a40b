"""Rows of scores written as they come, so that an interrupted job can go on.

One file beside the output: a line of JSON that says which job it belongs to, then the
rows, each as long as the next. How far the job came is the length of the file, which
holds whatever ended the process: a row that was not written in full does not count.
"""

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from calcli.errors import UsageError

__all__ = ["PartialScores"]

MAGIC = "calcli partial scores 1"


class PartialScores:
    """Append-only scores of a job: rows of (layers, k) numbers.

    job : what makes the job this one and no other, JSON types. done : rows that are in
    the file. k : classes, None before the first row. Use as a context manager; the file
    stays until ``remove``. Raises UsageError when the file is that of another job (unless
    ``force``, which starts anew) or is being written by another process.
    """

    def __init__(self, path: Path, job: dict[str, Any], layers: int, dtype: str, *, force: bool = False) -> None:
        self.path, self.layers, self.dtype = path, layers, np.dtype(dtype)
        self.job = json.loads(json.dumps(job))
        self.k: int | None = None
        self.done = 0
        self._begin = 0
        self._file: BinaryIO = path.open("r+b" if path.exists() else "x+b")
        try:
            _lock(self._file, path)
            self._resume(force)
        except BaseException:
            self._file.close()
            raise

    def _resume(self, force: bool) -> None:
        line = self._file.readline()
        if not line.endswith(b"\n"):  # nothing yet, or interrupted within the first line
            self._restart()
            return
        try:
            head = json.loads(line)
        except ValueError:
            head = {}
        if not isinstance(head, dict) or head.get("format") != MAGIC:
            raise UsageError(
                f"{self.path}: is in the way, and no partial result of calcli; move it or choose another -o"
            )
        if head["job"] != self.job or head["dtype"] != self.dtype.str:
            if force:
                self._restart()
                return
            different = [key for key in {*head["job"], *self.job} if head["job"].get(key) != self.job.get(key)]
            raise UsageError(
                f"{self.path}: holds part of another job (other {', '.join(sorted(different)) or 'dtype'});"
                " repeat that command to finish it, or delete the file or pass --force to start anew"
            )
        self.k, self._begin = head["k"], len(line)
        self.done = (os.fstat(self._file.fileno()).st_size - self._begin) // self._row_bytes
        self._file.truncate(self._begin + self.done * self._row_bytes)
        self._file.seek(0, os.SEEK_END)

    def _restart(self) -> None:
        self._file.seek(0)
        self._file.truncate()

    @property
    def _row_bytes(self) -> int:
        assert self.k is not None
        return self.layers * self.k * self.dtype.itemsize

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows (b, layers, k) behind those that are there."""
        if self.k is None:
            self.k = rows.shape[2]
            head = {"format": MAGIC, "job": self.job, "k": self.k, "dtype": self.dtype.str}
            line = json.dumps(head, sort_keys=True).encode() + b"\n"
            self._file.write(line)
            self._begin = len(line)
        self._file.write(rows.astype(self.dtype, copy=False).tobytes())
        self._file.flush()
        self.done += len(rows)

    def rows(self) -> NDArray[Any]:
        """All rows so far, (done, layers, k), mapped into memory."""
        assert self.k is not None
        shape = (self.done, self.layers, self.k)
        return np.memmap(self.path, dtype=self.dtype, mode="r", offset=self._begin, shape=shape)

    def remove(self) -> None:
        """The job is done: delete the file."""
        self._file.close()
        self.path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if self.k is None and self.path.exists():
            self.path.unlink()  # not one row: nothing to go on from


def _lock(file: BinaryIO, path: Path) -> None:
    """Keep a second process off the file, where the system can."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"{path}: another calcli is writing it; wait for it or choose another -o") from None
    except OSError:  # a file system without locks
        return
