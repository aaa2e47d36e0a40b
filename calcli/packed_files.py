"""Files packed by gzip, bzip2 or xz, which the standard library unpacks.

Its modules are imported when a file needs one: Python may have been built without.
"""

import re
from collections.abc import Callable
from functools import partial
from io import BufferedReader, RawIOBase
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

PIECE_BYTES = 1 << 16
"""Packed bytes that are read at once."""

MOST_MEMORY = 256 << 20
"""Bytes that unpacking xz may take, as the file asks for; ``xz -9`` makes 65 MiB of it."""


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
        from bz2 import BZ2Decompressor

        return BufferedReader(Streams(file, BZ2Decompressor))
    if packing == ".xz":
        from lzma import LZMADecompressor

        begin = partial(LZMADecompressor, memlimit=MOST_MEMORY)
        return BufferedReader(Streams(file, begin))
    import gzip

    return gzip.open(file)


class Streams(RawIOBase):
    """What bzip2 or xz has packed in a file, in one stream or several.

    A broken stream behind a sound one is an error: ``bz2.open`` and ``lzma.open`` leave
    it out. Zeros between streams are padding.
    """

    def __init__(self, file: Path | BinaryIO, begin: Callable[[], Any]) -> None:
        """begin : makes what unpacks one stream."""
        super().__init__()
        self._is_own = isinstance(file, Path)
        self._file = file.open("rb") if isinstance(file, Path) else file
        self._begin = begin
        self._stream = begin()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes; 0 at the end of the last stream."""
        while True:
            piece = b""
            if self._stream.eof:
                piece = self._next_stream()
                if not piece:
                    return 0
                self._stream = self._begin()
            elif self._stream.needs_input:
                piece = self._file.read(PIECE_BYTES)
                if not piece:
                    raise EOFError("the file ends in the middle of a stream")
            data = self._stream.decompress(piece, len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)

    def _next_stream(self) -> bytes:
        """The first bytes of the next stream; none at the end of the file."""
        piece = self._stream.unused_data or self._file.read(PIECE_BYTES)
        while piece:
            beginning = piece.lstrip(b"\0")
            if beginning:
                return bytes(beginning)
            piece = self._file.read(PIECE_BYTES)
        return b""

    def close(self) -> None:
        if self._is_own:
            self._file.close()
        super().close()


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
