"""Files packed by gzip, bzip2 or xz, which the standard library unpacks.

Its modules are imported when a file needs one: Python may have been built without.
"""

import re
from pathlib import Path
from typing import Any, BinaryIO

BEGINNINGS = {
    ".gz": re.compile(rb"\x1f\x8b"),
    ".bz2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    ".xz": re.compile(rb"\xfd7zXZ\0"),
}
"""First bytes of packed files, by the ending of their names."""

HEAD_BYTES = 10
"""First bytes of a file by which it is known to be packed."""


def packing_of(head: bytes) -> str | None:
    """The ending of names of files that begin so; None for files that are not packed.

    head : the first HEAD_BYTES of a file, or more.
    """
    for ending, beginning in BEGINNINGS.items():
        if beginning.match(head):
            return ending
    return None


def open_packed(file: Path | BinaryIO, packing: str) -> Any:
    """Open what is packed in a file, to read its bytes.

    Reading a broken file raises one of ``unpacking_errors``.
    """
    if packing == ".bz2":
        import bz2

        return bz2.open(file)
    if packing == ".xz":
        import lzma

        return lzma.open(file)
    import gzip

    return gzip.open(file)


def unpacking_errors(packing: str) -> tuple[type[Exception], ...]:
    """What reading a broken file raises."""
    if packing == ".bz2":
        return EOFError, OSError
    if packing == ".xz":
        from lzma import LZMAError

        return EOFError, LZMAError
    from gzip import BadGzipFile
    from zlib import error

    return EOFError, BadGzipFile, error


def without_packing(name: str) -> str:
    """The name of a file without the ending of packed ones (``a.csv.xz``: ``a.csv``)."""
    for ending in BEGINNINGS:
        name = name.removesuffix(ending)
    return name
