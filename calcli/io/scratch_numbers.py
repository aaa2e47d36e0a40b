"""Numbers in a temporary file without a name, where they are larger than memory."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from calcli.errors import ResourceError
from calcli.numerics import AnyArray


class ScratchNumbers:
    """Unlinked temporary file of numbers of one type.

    why : its purpose and how to do without, for messages.
    """

    def __init__(self, dtype: "np.dtype[Any]", why: str) -> None:
        self.dtype = dtype
        self.count = 0
        self._why = why
        with self._naming_purpose():
            # Closed by its owner.
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115

    def add(self, values: AnyArray) -> None:
        """Append numbers. Raises ResourceError."""
        data = (
            np.ascontiguousarray(values, dtype=self.dtype)
            .reshape(-1)
            .view(np.uint8)
            .data
        )
        with self._naming_purpose():
            self._file.seek(self.count * self.dtype.itemsize)
            while len(data):
                data = data[self._file.write(data) :]
        self.count += values.size

    def read(self, start: int, stop: int) -> AnyArray:
        """Read numbers start..stop-1."""
        with self._naming_purpose():
            self._file.seek(self.dtype.itemsize * start)
            values: AnyArray = np.fromfile(self._file, self.dtype, stop - start)
            if len(values) < stop - start:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return values

    def close(self) -> None:
        """Close the file, which deletes it."""
        self._file.close()

    @contextmanager
    def _naming_purpose(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            raise ResourceError(
                f"{folder()}: {problem.strerror}, and {self._why}"
            ) from None


def folder() -> str:
    """The folder for temporary files, or TMPDIR (for messages) if there is none."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return "TMPDIR"


def check_room(needed: int, why: str) -> None:
    """Raise ResourceError unless the temporary folder has room for ``needed`` bytes."""
    try:
        free = shutil.disk_usage(folder()).free
    except OSError:
        return
    if needed > free:
        raise ResourceError(
            f"{folder()}: {free / 2**20:.0f} MiB are free for temporary"
            f" files, {needed / 2**20:.0f} MiB are needed, and {why}"
        )
