"""A file object for h5py that hides write errors (a full disk) from HDF5 and keeps them for ``raise_problem``.

HDF5 writes small datasets and its own tables only as they are closed. When that fails, h5py
cannot raise, and HDF5 crashes as the process ends. So HDF5 is told that all went well: what
the disk did not take is kept in memory, nothing more is written, and who uses the file asks
``raise_problem`` for what really happened.
"""

import io
import os
from typing import Any


class DescriptorFile:
    """A file for h5py's driver of Python files, over an open descriptor.

    After the first problem, an interruption included, writes go to memory and reads see
    them: HDF5 can close the file in peace. That is a few mebibytes, as writing ends soon.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._at = self._end = 0
        self._problem: BaseException | None = None
        self._lost: list[tuple[int, bytes]] = []

    def raise_problem(self) -> None:
        """Raise what has gone wrong so far, an OSError or an interruption."""
        if self._problem is not None:
            raise self._problem

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._end}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        try:
            done = 0
            while self._problem is None and done < len(view):
                done += os.pwrite(self._descriptor, view[done:], self._at + done)
        except BaseException as problem:  # an interruption between two system calls too
            self._problem = problem
        if self._problem is not None:
            self._lost.append((self._at, bytes(view)))
        self._at += len(view)
        self._end = max(self._end, self._at)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        try:
            done = 0
            while done < len(view) and (got := os.preadv(self._descriptor, [view[done:]], self._at + done)):
                done += got
        except BaseException as problem:
            self._problem = self._problem or problem
        for start, data in self._lost:
            first, last = max(start, self._at), min(start + len(data), self._at + len(view))
            if first < last:
                view[first - self._at : last - self._at] = data[first - start : last - start]
        self._at += len(view)
        return len(view)

    read = readinto
    """What h5py knows a file by; it reads by ``readinto``."""

    def truncate(self, size: int | None = None) -> int:
        self._end = self._at if size is None else size
        try:
            if self._problem is None:
                os.ftruncate(self._descriptor, self._end)
        except BaseException as problem:
            self._problem = problem
        return self._end

    def flush(self) -> None:
        """Nothing waits here: what is written is with the system at once."""
