"""Temporary files that nobody else sees, for what memory does not hold."""

import errno
import os
import shutil
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.errors import CalcliError


class Spool:
    """An unlinked temporary file of numbers of one type. why : what needs it, and what to do without, for messages."""

    def __init__(self, dtype: "np.dtype[Any]", why: str) -> None:
        self.dtype, self.count, self._why = dtype, 0, why
        try:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed by its owner)
        except OSError as problem:
            raise self._trouble(problem) from None

    def add(self, values: NDArray[Any]) -> None:
        """Append numbers. Raises CalcliError."""
        data = np.ascontiguousarray(values, dtype=self.dtype).reshape(-1).view(np.uint8).data
        try:
            self._file.seek(self.count * self.dtype.itemsize)
            while len(data):
                data = data[self._file.write(data) :]
        except OSError as problem:
            raise self._trouble(problem) from None
        self.count += values.size

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Numbers from start to stop."""
        values = np.empty(stop - start, self.dtype)
        data = values.view(np.uint8).data
        try:
            self._file.seek(self.dtype.itemsize * start)
            while len(data):
                got = self._file.readinto(data)
                if not got:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                data = data[got:]
        except OSError as problem:
            raise self._trouble(problem) from None
        return values

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _trouble(self, problem: OSError) -> CalcliError:
        return CalcliError(f"{folder()}: {problem.strerror}, and {self._why}")


def folder() -> str:
    """Where temporary files go."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return "TMPDIR"


def check_room(needed: int, why: str) -> None:
    """Raise CalcliError unless the temporary folder has room for so many bytes."""
    try:
        free = shutil.disk_usage(folder()).free
    except OSError:
        return
    if needed > free:
        raise CalcliError(
            f"{folder()}: {free / 2**20:.0f} MiB are free for temporary files, {needed / 2**20:.0f} MiB are needed, and"
            f" {why}"
        )
