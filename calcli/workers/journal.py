"""The job file: results of finished parts on disk, so that the same command does not repeat them."""

import io
import os
import pickle
import zlib
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

__all__ = ["Journal"]

HEAD = b"calcli job 1\n"
ARRAY_MAKERS = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy.core.numeric", "_frombuffer"),
    ("collections", "Counter"),
}


class Journal:
    """Results under keys, appended to a file of the user's own as they come in.

    A file that is not there is made; a last entry that was cut short, and a file that
    others could have written, count for nothing. Only numbers and calcli's own records are
    read back.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keep = False
        self._places: dict[bytes, tuple[int, int]] = {}
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+b", buffering=0)
        if not self._trusted():
            self._file.truncate(0)
        if self._file.seek(0, os.SEEK_END) == 0:
            self._file.write(HEAD)
        self._index()

    def _trusted(self) -> bool:
        facts = os.fstat(self._file.fileno())
        own = not hasattr(os, "getuid") or (facts.st_uid == os.getuid() and not facts.st_mode & 0o022)
        self._file.seek(0)
        return own and self._file.read(len(HEAD)) == HEAD

    def _index(self) -> None:
        """Find the whole entries: key (32 bytes), size, checksum, pickle."""
        end, at = self._file.seek(0, os.SEEK_END), len(HEAD)
        while at + 44 <= end:
            self._file.seek(at)
            head = self._file.read(44)
            size = int.from_bytes(head[32:40], "little")
            if at + 44 + size > end:
                break
            self._places[head[:32]] = at, size
            at += 44 + size
        self._file.truncate(at)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, key: bytes) -> Any:
        """A result. Raises KeyError for one that is not there, or no longer whole."""
        at, size = self._places[key]
        self._file.seek(at + 40)
        crc, text = int.from_bytes(self._file.read(4), "little"), self._file.read(size)
        if zlib.crc32(text) != crc:
            raise KeyError(key)
        try:
            return _Numbers(io.BytesIO(text)).load()
        except (pickle.UnpicklingError, AttributeError, ImportError) as problem:
            raise KeyError(key) from problem

    def __setitem__(self, key: bytes, result: Any) -> None:
        text = pickle.dumps(result, protocol=5)
        entry = key + len(text).to_bytes(8, "little") + zlib.crc32(text).to_bytes(4, "little") + text
        at = self._file.seek(0, os.SEEK_END)
        with suppress(OSError):  # a full disk costs the entry, not the work
            if self._file.write(entry) == len(entry):
                self._places[key] = at, len(text)

    def close(self, *, done: bool) -> None:
        """Close the file; remove it when the job is done, unless it is to be kept."""
        self._file.close()
        if done and not self.keep:
            self.path.unlink(missing_ok=True)


class _Numbers(pickle.Unpickler):
    """Reads arrays and records of calcli; a pickle that asks for anything else is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in ARRAY_MAKERS:
            return super().find_class(module, name)
        found = super().find_class(module, name) if module.startswith("calcli.") else None
        if not isinstance(found, type):
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a job file")
        return found


def key_of(*facts: bytes) -> bytes:
    """A key for a result that these facts determine."""
    digest = sha256()
    for fact in facts:
        digest.update(len(fact).to_bytes(8, "little") + fact)
    return digest.digest()
