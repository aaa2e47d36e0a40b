"""Rows of scores written as they come, so that an interrupted job can go on.

One file beside the output: a line of JSON that says which job it belongs to, then the
rows, each as long as the next. How far the job came is the length of the file, which
holds whatever ended the process: a row that was not written in full does not count.
"""

import json
import os
import re
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from calcli.errors import CalcliError, UsageError
from calcli.io.job_files import lock, open_job_file, remove

MAGIC = "calcli partial scores 1"
LONGEST_HEAD = 1 << 20
MOST_CLASSES = 1 << 31


class PartialScores:
    """Append-only scores of a job: rows of (layers, k) numbers.

    job : what makes the job this one and no other, JSON types. done : rows that are in
    the file. k : classes, None before the first row. Use as a context manager; the file
    stays until ``remove``, or when it holds no row. Raises UsageError when the file is
    somebody else's (a link, a pipe, other content), that of another job (unless
    ``force``, which starts anew) or is being written by another process.
    """

    def __init__(self, path: Path, job: dict[str, Any], layers: int, dtype: str, *, force: bool = False) -> None:
        self.path, self.layers, self.dtype = path, layers, np.dtype(dtype)
        self.job = json.loads(json.dumps(job))
        self.k: int | None = None
        self.done = 0
        self._begin = 0
        self._file = os.fdopen(open_job_file(path), "r+b", buffering=0)
        try:
            lock(self._file.fileno(), path)
            self._resume(force)
        except BaseException:
            self._file.close()
            raise

    def _head(self) -> bytes:
        """The first line up to the number of classes."""
        return (
            json.dumps({"dtype": self.dtype.str, "format": MAGIC, "job": self.job}, sort_keys=True).encode()[:-1]
            + b', "k": '
        )

    def _resume(self, force: bool) -> None:
        size = os.fstat(self._file.fileno()).st_size
        line = self._file.readline(LONGEST_HEAD)
        if len(line) == size and self._interrupted(line):
            self._restart()
            return
        head = _parsed(line)
        if head is None:
            self._in_the_way("no partial result of calcli")
        if not isinstance(head.get("job"), dict) or not isinstance(head.get("dtype"), str):
            self._in_the_way("its first line is damaged")
        if head["job"] != self.job or head["dtype"] != self.dtype.str:
            if force:
                self._restart()
                return
            different = [key for key in {*head["job"], *self.job} if head["job"].get(key) != self.job.get(key)]
            raise UsageError(
                f"{self.path}: holds part of another job (other {', '.join(sorted(different)) or 'dtype'});"
                " repeat that command to finish it, or delete the file or pass --force to start anew"
            )
        if type(head.get("k")) is not int or not 1 <= head["k"] < MOST_CLASSES:
            self._in_the_way("its first line is damaged")
        self.k, self._begin = head["k"], len(line)
        self.done = (size - self._begin) // self._row_bytes
        self._file.truncate(self._begin + self.done * self._row_bytes)
        self._file.seek(0, os.SEEK_END)

    def _interrupted(self, start: bytes) -> bool:
        """Whether a file is empty or breaks off within this job's own first line."""
        head = self._head()
        return head.startswith(start) or re.fullmatch(re.escape(head) + rb"\d*}?", start) is not None

    def _in_the_way(self, reason: str) -> NoReturn:
        raise UsageError(f"{self.path}: is in the way ({reason}); move it or choose another -o")

    def _restart(self) -> None:
        self._file.seek(0)
        self._file.truncate()

    @property
    def _row_bytes(self) -> int:
        assert self.k is not None
        return self.layers * self.k * self.dtype.itemsize

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows (b, layers, k) behind those that are there. Raises CalcliError when that fails."""
        head = b""
        if self.k is None:
            self.k = rows.shape[2]
            head = self._head() + b"%d}\n" % self.k
            self._begin = len(head)
        data = memoryview(head + rows.astype(self.dtype, copy=False).tobytes())
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as problem:
            self.done = max(0, self._file.tell() - self._begin) // self._row_bytes
            kept = f"{self.done} rows are kept in it, make room and repeat the command" if self.done else "nothing kept"
            raise CalcliError(f"{self.path}: cannot be written: {problem.strerror}; {kept}") from None
        self.done += len(rows)

    def rows(self) -> NDArray[Any]:
        """All rows so far, (done, layers, k), mapped into memory."""
        assert self.k is not None
        shape = (self.done, self.layers, self.k)
        return np.memmap(self._file, dtype=self.dtype, mode="r", offset=self._begin, shape=shape)

    def remove(self) -> None:
        """The job is done: delete the file."""
        remove(self._file, self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._file.closed:
            self._file.close() if self.done else self.remove()  # not one row: nothing to go on from


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The first line of a partial result, or None when it is that of something else."""
    try:
        head = json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return head if isinstance(head, dict) and head.get("format") == MAGIC else None
