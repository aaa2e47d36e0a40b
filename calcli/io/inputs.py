"""Record of the files that a command reads, noted as they are opened, so that none is
overwritten.

Files named on the command line are known beforehand; those reached through a template,
a pattern, a folder, a link or an external dataset are known only here.
"""

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Any, NamedTuple

from calcli.errors import DataError, ResourceError

DESCRIPTORS = (
    "/dev/stdin",
    "/dev/fd/",
    "/proc/self/fd/",
)
"""Pipes that a shell has opened; others may block forever."""

LOCATION = re.compile(
    rb"\n\x08location\x12(?:([\x00-\x7f])|([\x80-\xff])(.))", re.DOTALL
)
"""Bytes before the name of a file of weights in an ONNX model: a protobuf entry with
this key, and the length of the name as a varint.
"""

SQLITE = b"SQLite format 3\0"
"""First bytes of a database."""

PIECE = 1 << 20  # bytes read at once

_read: dict[int, dict[tuple[int, int], Path]] = {}
"""Files read during each running command, by device and inode.

Nothing is noted while none runs: a program that uses the API may overwrite its inputs.
"""


@contextmanager
def noting() -> Iterator[None]:
    """Record the files that a command or a worker's task reads, and those that
    concurrent ones read meanwhile.
    """
    files: dict[tuple[int, int], Path] = {}
    _read[id(files)] = files
    try:
        yield
    finally:
        del _read[id(files)]


def note(path: Path | str) -> None:
    """Record a file as read."""
    if _read:
        with suppress(OSError, ValueError):
            about = os.stat(path)
            for files in list(_read.values()):
                files[about.st_dev, about.st_ino] = Path(path).absolute()


class FileStamp(NamedTuple):
    """Identity and state of a file. No program can set ``ctime_ns``."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @property
    def on_any_machine(self) -> tuple[int, int]:
        """The part that is the same wherever the file is seen from."""
        return self.size, self.mtime_ns


def stamp(path: Path) -> FileStamp:
    """The stamp of a file. Raises OSError."""
    about = path.stat()
    return FileStamp(
        device=about.st_dev,
        inode=about.st_ino,
        size=about.st_size,
        mtime_ns=about.st_mtime_ns,
        ctime_ns=about.st_ctime_ns,
    )


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, and record it as read."""
    import hashlib  # loads OpenSSL, which --help does not need

    note(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def note_onnx(path: Path) -> None:
    """Record an ONNX model and its files of weights as read."""
    note(path)
    # an empty file cannot be mapped
    with (
        suppress(OSError, ValueError),
        path.open("rb") as file,
        mmap(file.fileno(), 0, access=ACCESS_READ) as model,
    ):
        for match in LOCATION.finditer(model):
            short, low, high = match.groups()
            if short:
                length = ord(short)
            else:
                length = ord(low) % 128 + 128 * ord(high)
            note(path.parent / os.fsdecode(model[match.end() : match.end() + length]))


def is_database(path: Path) -> bool:
    """True for a database of SQLite."""
    if not path.is_file():
        return False
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE
    return False


def is_read(path: Path) -> bool:
    """Return True if a file, or the target of a link, has been read by this command."""
    with suppress(OSError):
        about = os.stat(path)
        known = [
            files.get((about.st_dev, about.st_ino)) for files in list(_read.values())
        ]
        # Inodes are reused.
        return any(
            known_path is not None and os.path.samefile(known_path, path)
            for known_path in known
        )
    return False


@contextmanager
def open_document(
    path: str, what: str, *, is_output: bool = False
) -> Iterator[IO[bytes]]:
    """Open a file to read sequentially; ``-`` is standard input.

    is_output : it is this command's own earlier output, to resume from. Raises
    DataError for one that cannot be opened, and for a pipe or device that no shell has
    opened.
    """
    if path == "-":
        yield sys.stdin.buffer
        return
    opened = path.startswith(DESCRIPTORS)
    if (
        os.path.exists(path)
        and not os.path.isfile(path)
        and not os.path.isdir(path)
        and not opened
    ):
        raise DataError(
            f"{path}: is a pipe or a device, expected {what}; - reads standard input"
        )
    try:
        with open(path, "rb") as file:
            if not is_output:
                note(path)
            yield file
    except OSError as problem:
        reason = (problem.strerror or "unknown reason").lower()
        if os.path.isfile(path.rpartition(":")[0]):
            reason = "it names a part of a file of scores"
        raise DataError(f"{path}: cannot be read: {reason}; expected {what}") from None


def at_most(file: IO[bytes], most: int) -> bytes:
    """Read at most ``most`` bytes, without allocating more than the file has."""
    data = io.BytesIO()
    while (left := most - data.tell()) and (piece := file.read(min(left, PIECE))):
        data.write(piece)
    return data.getvalue()


def read_document(path: str, most: int, what: str, *, is_output: bool = False) -> bytes:
    """Read all of a file or standard input, at most ``most`` bytes (see
    ``open_document``). Raises DataError.
    """
    with open_document(path, what, is_output=is_output) as file:
        data = at_most(file, most + 1)
    if len(data) > most:
        raise DataError(f"{path}: is larger than {most >> 20} MiB, expected {what}")
    return data


class DoubledKey(ValueError):
    """A JSON object has the same key twice, which parsers resolve differently."""


def once(pairs: list[tuple[str, Any]]) -> None:
    """Refuse duplicate keys, as ``object_pairs_hook`` of ``json.loads``.

    Raises DoubledKey.
    """
    names = set()
    for name, _ in pairs:
        if name in names:
            raise DoubledKey(f"key {name[:40]!r} stands twice in an object")
        names.add(name)


def refuse_more(where: object, rest: bytes) -> None:
    """Raise DataError if more than padding follows the end of the data read.

    rest : first bytes after the end.
    """
    if rest.strip(b"\0 \t\r\n"):
        raise DataError(
            f"{where}: goes on behind its end: several were written one after another,"
            " of which one would be read; keep each in a file of its own: calcli"
            " extract A B --join -o OUT.h5 takes them as one"
        )


# ---- limit of open files


SPARE_FILES = 64  # descriptors to allow besides the data files
FEWEST_BESIDE = 16  # the minimum of these


def allow_open_files(count: int) -> int | None:
    """Raise the limit of open files to fit ``count``, as far as allowed.

    Returns it, None if unknown.
    """
    # No such module, or refused: open will name the file.
    with suppress(ImportError, OSError, ValueError):
        from resource import RLIMIT_NOFILE, getrlimit, setrlimit

        soft, hard = getrlimit(RLIMIT_NOFILE)
        if 0 <= soft < count + SPARE_FILES:
            soft = count + SPARE_FILES
            if hard >= 0:
                soft = min(soft, hard)
            setrlimit(RLIMIT_NOFILE, (soft, hard))
        return soft if soft >= 0 else None
    return None


def check_open_files(count: int) -> None:
    """Raise ResourceError if the system does not allow ``count`` files to be open at
    once.
    """
    allowed = allow_open_files(count)
    if allowed is not None and allowed < count + FEWEST_BESIDE:
        raise ResourceError(
            f"{count} bundles are open together as one data set, and this system"
            f" allows {allowed} open files; raise the limit (ulimit -n), or make one"
            " bundle of them first: calcli extract --join"
        )
