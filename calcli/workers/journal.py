"""Job file: results of finished parts on disk, so that a repeated command can resume."""

import errno
import io
import os
import pickle
import zlib
from contextlib import suppress
from dataclasses import is_dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from calcli import __version__
from calcli.errors import ResourceError, UsageError
from calcli.io.atomic import lock, open_job_file, remove

HEAD = b"calcli job 1\n"
ARRAY_MAKERS = {("numpy", "ndarray"), ("numpy", "dtype"), ("collections", "Counter")}
for package in ("numpy.core", "numpy._core"):  # the second from NumPy 2 on
    ARRAY_MAKERS |= {
        (f"{package}.multiarray", "_reconstruct"),
        (f"{package}.multiarray", "scalar"),
    }
    ARRAY_MAKERS |= {(f"{package}.numeric", "_frombuffer")}


class Journal:
    """Results by key, appended to a private file of the user as they arrive.

    A missing file is created; a truncated last entry is ignored, and so is all of a
    file that other users could have written. Only numbers and calcli's own records are
    read back. Raises UsageError if the file is not a job file of the user or is in use
    by another process, ResourceError if it cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keep = False
        self._places: dict[bytes, tuple[int, int]] = {}
        self._file = os.fdopen(open_job_file(path, 0o600), "r+b", buffering=0)
        try:
            lock(self._file.fileno(), path)
            self._claim()
        except BaseException:
            self._file.close()
            raise
        # complete entries: key (32 bytes), size, checksum, pickle
        end = self._file.seek(0, os.SEEK_END)
        start = len(HEAD)
        while start + 44 <= end:
            self._file.seek(start)
            head = self._file.read(44)
            size = int.from_bytes(head[32:40], "little")
            if start + 44 + size > end:
                break
            self._places[head[:32]] = (start, size)
            start += 44 + size
        self._file.truncate(start)

    def _claim(self) -> None:
        """Start a new job file or resume an existing one.

        Raises UsageError for any other file.
        """
        facts = os.fstat(self._file.fileno())
        owned = hasattr(os, "getuid")
        if facts.st_size:
            if self._file.read(len(HEAD)) != HEAD or (
                owned and facts.st_uid != os.getuid()
            ):
                raise UsageError(
                    f"{self.path}: is in the way (no job of yours); move it or choose"
                    " another -o"
                )
            if not (owned and facts.st_mode & 0o022):
                return
            self._file.truncate(0)  # other users could have written it
            os.fchmod(self._file.fileno(), 0o600)
            self._file.seek(0)
        try:
            reason = (
                None
                if self._file.write(HEAD) == len(HEAD)
                else os.strerror(errno.ENOSPC)
            )
        except OSError as problem:
            reason = problem.strerror
        if reason is not None:
            remove(self._file, self.path)
            raise ResourceError(
                f"{self.path}: cannot be written: {reason}; no part of it was kept"
            )

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, key: bytes) -> Any:
        """Read a result. Raises KeyError if it is missing or damaged."""
        start, size = self._places[key]
        self._file.seek(start + 40)
        crc = int.from_bytes(self._file.read(4), "little")
        text = self._file.read(size)
        if zlib.crc32(text) != crc:
            raise KeyError(key)
        try:
            return _Numbers(io.BytesIO(text)).load()
        except Exception as problem:  # any exception: a forged pickle is not a result
            raise KeyError(key) from problem

    def __setitem__(self, key: bytes, result: Any) -> None:
        with suppress(OSError):  # a full disk costs the entry, not the work
            self.add(key, result)

    def add(self, key: bytes, result: Any) -> None:
        """Append a result. Raises OSError, as for a full disk."""
        text = pickle.dumps(result, protocol=5)
        entry = (
            key
            + len(text).to_bytes(8, "little")
            + zlib.crc32(text).to_bytes(4, "little")
            + text
        )
        start = self._file.seek(0, os.SEEK_END)
        left = memoryview(entry)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            self._file.truncate(start)
            raise
        self._places[key] = (start, len(text))

    def close(self, *, done: bool) -> None:
        """Close the file; remove it if it is empty, or if the job is done and the file
        is not to be kept.
        """
        if (done and not self.keep) or not self._places:
            remove(self._file, self.path)
        else:
            self._file.close()


class _Numbers(pickle.Unpickler):
    """Unpickler of arrays and of calcli's records that are not callable, as a pickle
    may call objects it builds.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in ARRAY_MAKERS:
            return super().find_class(module, name)
        kind = None
        if module.startswith("calcli."):
            kind = super().find_class(module, name)
        is_record = isinstance(kind, type) and (
            is_dataclass(kind) or issubclass(kind, tuple)
        )
        if not is_record or "__call__" in dir(kind):
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a job file")
        return kind


def key_of(*facts: bytes) -> bytes:
    """Hash the facts that determine a result, with the version of calcli, into its key."""
    digest = sha256(__version__.encode())
    for fact in facts:
        digest.update(len(fact).to_bytes(8, "little") + fact)
    return digest.digest()
