"""A file about to be read: its first bytes, and what they say about the rest."""

import json
from pathlib import Path
from typing import Any

from calcli.cached import cached_property
from calcli.errors import DataError, one_line
from calcli.importers.archive import reading
from calcli.io.atomic import is_stream
from calcli.io.inputs import DoubledKey, note, once

HEAD = 4096
"""How many bytes are looked at to tell formats apart."""

LOOKED_AT, LOOKED_THROUGH = 1000, 1 << 26
"""Lines of JSON Lines, and bytes of JSON, up to which objects are searched for names that stand twice."""


class SourceFile:
    """A file and what can be told about it before it is read.

    path : the file. suffix : its last one, in small letters. head : its first bytes, never
    empty. Raises DataError for a missing, empty or unreadable file.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.suffix = path, path.suffix.lower()
        if path.is_dir():
            raise DataError(f"{path}: is a folder, expected a file of scores")
        if not path.exists():
            whole, found, group = str(path).rpartition(":")
            hint = f"; a group of {whole} is taken by --group {group}" if found and Path(whole).is_file() else ""
            raise DataError(f"{path}: no such file{hint}")
        if is_stream(path):
            raise DataError(f"{path}: is a pipe or a device, expected a file of scores; save it to a file first")
        try:
            with path.open("rb") as file:
                self.head = file.read(HEAD)
            note(path)
        except OSError as problem:
            raise DataError(f"{path}: cannot be read: {one_line(problem)}") from None
        if not self.head:
            raise DataError(f"{path}: the file is empty")

    @cached_property
    def size(self) -> int:
        """Length in bytes."""
        return self.path.stat().st_size

    @cached_property
    def members(self) -> list[str] | None:
        """Names in a zip archive; None when it is no archive, or one without its end."""
        import zipfile

        if not self.is_zip:
            return None
        try:
            with zipfile.ZipFile(self.path) as archive:
                return archive.namelist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return None

    @property
    def is_zip(self) -> bool:
        """Whether the file begins as zip archives do."""
        return self.head.startswith(b"PK\x03\x04")

    @cached_property
    def is_text(self) -> bool:
        """Whether the first bytes are UTF-8 text."""
        try:
            text = self.head.decode("utf-8-sig")
        except UnicodeDecodeError as problem:
            if problem.start < len(self.head) - 3:  # else a character is cut in two
                return False
            text = self.head[: problem.start].decode("utf-8-sig")
        return "\0" not in text

    @property
    def is_json(self) -> bool:
        """Whether the text begins as an object or a list: then it is no table of commas."""
        return self.is_text and self.head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")

    @cached_property
    def json(self) -> Any:
        """The JSON value of the file; of JSON Lines the list of all values. Raises DataError.

        Read once, whoever asks. NaN and Infinity are taken as Python writes them.
        """
        with reading(self.path, "the JSON"):
            return self._values()

    def _values(self) -> Any:
        data = self.path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        if b"\n" not in data.strip() or not _ends_value(data):
            if len(data) <= LOOKED_THROUGH:
                _refuse_doubled(data, str(self.path))
            return _decode(data, str(self.path))
        lines = data.splitlines()
        for i, line in enumerate(lines[:LOOKED_AT], 1):
            _refuse_doubled(line, f"{self.path}: line {i}")
        return [_decode(line, f"{self.path}: line {i}") for i, line in enumerate(lines, 1) if line.strip()]

    @property
    def records(self) -> list[dict[str, Any]]:
        """The objects of a JSON file or JSON Lines, one a row; none when it holds something else."""
        if not self.is_json:
            return []
        rows = self.json if isinstance(self.json, list) else [self.json]
        return rows if all(isinstance(row, dict) for row in rows) else []


def _ends_value(data: bytes) -> bool:
    """Whether the first line is a JSON value by itself, so that the next line begins another."""
    try:
        json.loads(data.lstrip().partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_doubled(data: bytes, where: str) -> None:
    """Refuse objects with two values of one name; what is no JSON at all is refused by those who decode it."""
    try:
        json.loads(data, object_pairs_hook=once)
    except DoubledKey as problem:
        raise DataError(f"{where}: {problem}; keep one of the two") from None
    except (ValueError, RecursionError):
        return


def _decode(data: bytes, where: str) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # NaN is no JSON, yet Python writes it
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{where}: cannot be read as JSON: {one_line(problem)}; is the file complete?") from None
