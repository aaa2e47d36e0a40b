"""The files that a command reads: noted as they are opened, so that none of them is ever written over.

What is named on the command line is known beforehand. What a template, a pattern, a folder,
a link or an external dataset leads to is known here.
"""

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Any

from calcli.errors import CalcliError, DataError

DESCRIPTORS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")  # pipes that a shell has opened; others may wait for ever

LOCATION = re.compile(rb"\n\x08location\x12(?:([\x00-\x7f])|([\x80-\xff])(.))", re.DOTALL)
"""What stands before the name of a file of weights in an ONNX model: an entry of protobuf with this key, and the
length of the name, seven bits in each byte."""

PIECE = 1 << 20  # bytes read at once

_read: dict[int, dict[tuple[int, int], Path]] = {}
"""For every command that runs the files that were read meanwhile, by device and number. Where none runs nothing is
noted: a program may write over what it has read."""


@contextmanager
def noting() -> Iterator[None]:
    """Note what a command, or a task of a worker, reads; what tasks beside it read too."""
    files: dict[tuple[int, int], Path] = {}
    _read[id(files)] = files
    try:
        yield
    finally:
        del _read[id(files)]


def note(path: Path | str) -> None:
    """Remember that a file is read."""
    if _read:
        with suppress(OSError, ValueError):
            about = os.stat(path)
            for files in list(_read.values()):
                files[about.st_dev, about.st_ino] = Path(path).absolute()


def stamp(path: Path) -> tuple[int, ...]:
    """What tells a file from others, and from itself after a change: device, number, size, times of change. Of these no
    program can set the last one. Raises OSError."""
    about = path.stat()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def file_sha256(path: Path) -> str:
    """Hash of a file, which is remembered as read."""
    import hashlib  # takes OpenSSL along, which help does without

    note(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def note_onnx(path: Path) -> None:
    """Remember an ONNX model and the files that its weights lie in."""
    note(path)
    # an empty file cannot be mapped
    with suppress(OSError, ValueError), path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as model:
        for found in LOCATION.finditer(model):
            short, low, high = found.groups()
            length = ord(short) if short else ord(low) % 128 + 128 * ord(high)
            note(path.parent / os.fsdecode(model[found.end() : found.end() + length]))


def is_read(path: Path) -> bool:
    """Whether a file, or what a link leads to, is one that this command has read."""
    with suppress(OSError):
        about = os.stat(path)
        known = [files.get((about.st_dev, about.st_ino)) for files in list(_read.values())]
        return any(each is not None and os.path.samefile(each, path) for each in known)  # numbers are used again
    return False


@contextmanager
def open_document(path: str, what: str, *, own: bool = False) -> Iterator[IO[bytes]]:
    """A file that is read from beginning to end; ``-`` is standard input. own : it is this command's own output, to go
    on from. Raises DataError for one that cannot be opened, and for a pipe or device that no shell has opened."""
    if path == "-":
        yield sys.stdin.buffer
        return
    opened = path.startswith(DESCRIPTORS)
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path) and not opened:
        raise DataError(f"{path}: is a pipe or a device, expected {what}; - reads standard input")
    try:
        with open(path, "rb") as file:
            if not own:
                note(path)
            yield file
    except OSError as problem:
        reason = (problem.strerror or "unknown reason").lower()
        if os.path.isfile(path.rpartition(":")[0]):
            reason = "it names a part of a file of scores"
        raise DataError(f"{path}: cannot be read: {reason}; expected {what}") from None


def at_most(file: IO[bytes], most: int) -> bytes:
    """So many bytes of a file or fewer, without memory for more than there are."""
    data = io.BytesIO()
    while (left := most - data.tell()) and (piece := file.read(min(left, PIECE))):
        data.write(piece)
    return data.getvalue()


def read_document(path: str, most: int, what: str, *, own: bool = False) -> bytes:
    """All bytes of a file or of standard input, at most so many (see ``open_document``). Raises DataError."""
    with open_document(path, what, own=own) as file:
        data = at_most(file, most + 1)
    if len(data) > most:
        raise DataError(f"{path}: is larger than {most >> 20} MiB, expected {what}")
    return data


class DoubledKey(ValueError):
    """An object of JSON has two values of one name; of such, programs take either."""


def once(pairs: list[tuple[str, Any]]) -> None:
    """What ``json.loads`` calls with every object: refuses one with two values of one name. Raises DoubledKey."""
    seen = set()
    for name, _ in pairs:
        if name in seen:
            raise DoubledKey(f"key {name[:40]!r} stands twice in an object")
        seen.add(name)


def refuse_more(where: object, rest: bytes) -> None:
    """Raise DataError where more than padding stands behind the end of what was read. rest : its first bytes."""
    if rest.strip(b"\0 \t\r\n"):
        told = "goes on behind its end: several were written one after another, of which one would be read"
        advice = "keep each in a file of its own: calcli extract A B --join -o OUT.h5 takes them as one"
        raise DataError(f"{where}: {told}; {advice}")


# ---- how many may be open


SPARE_FILES = 64  # files that a process opens besides its data
FEWEST_BESIDE = 16  # the same, at the very least


def allow_open_files(count: int) -> int | None:
    """Ask the system for enough open files at a time, as far as it lets us; returns how many it allows, if it says."""
    with suppress(ImportError, OSError, ValueError):  # no such module, or not allowed: opening says which file failed
        from resource import RLIMIT_NOFILE, getrlimit, setrlimit

        soft, hard = getrlimit(RLIMIT_NOFILE)
        if 0 <= soft < count + SPARE_FILES:
            soft = count + SPARE_FILES if hard < 0 else min(hard, count + SPARE_FILES)
            setrlimit(RLIMIT_NOFILE, (soft, hard))
        return soft if soft >= 0 else None
    return None


def check_open_files(count: int) -> None:
    """Raise CalcliError where the system does not allow so many files to be open together."""
    allowed = allow_open_files(count)
    if allowed is not None and allowed < count + FEWEST_BESIDE:
        told = f"{count} bundles are open together as one data set, and this system allows {allowed} open files"
        advice = "raise the limit (ulimit -n), or make one bundle of them first: calcli extract --join"
        raise CalcliError(f"{told}; {advice}")
