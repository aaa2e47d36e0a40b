"""A file to import before it is read: its first bytes, its zip members, its JSON."""

import json
import zipfile
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import unpack
from typing import IO, Any, TypeVar

from calcli.errors import DataError, MissingFile, SaysHow, blaming, one_line
from calcli.importers.import_request import ImportRequest
from calcli.importers.remarks import reading
from calcli.io.atomic import is_stream
from calcli.io.inputs import DoubledKey, is_database, note, once, refuse_more
from calcli.io.missing import no_such_file
from calcli.items import are_all
from calcli.records import cached_property

HEAD_BYTES = 4096
"""First bytes of a file, by which formats are recognised."""

MOST_LINES_CHECKED = 1000
MOST_BYTES_CHECKED = 1 << 26
"""Lines of JSON Lines, and bytes of JSON, that are searched for doubled keys."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
ZIP_MAGIC = b"PK\x03\x04"

T = TypeVar("T")


class SourceFile:
    """A file to import, with its properties before reading.

    suffix : the last one, lower case. head : its first bytes, never empty. inner : what
    is named in it (``FILE.db:TABLE``), or None. request : what the options ask of the
    import, which only readers of logs need. Raises DataError for a missing, empty or
    unreadable file.
    """

    def __init__(
        self,
        path: Path,
        stack: ExitStack | None = None,
        request: ImportRequest = ImportRequest(),
    ) -> None:
        self._stack = ExitStack() if stack is None else stack
        self.request = request
        self.inner: str | None = None
        if not path.exists():
            path, self.inner = _without_table(path)
        self.path = path
        self.suffix = path.suffix.lower()
        if path.is_dir():
            raise DataError(f"{path}: is a folder, expected a file of scores")
        if not path.exists():
            raise MissingFile(f"{no_such_file(path)}{_group_hint(path)}")
        if is_stream(path):
            raise SaysHow(
                f"{path}: is a pipe or a device, expected a file of scores; save it to"
                " a file first, or pipe it into calcli with - as the name"
            )
        with blaming(f"{path}: cannot be read", OSError), path.open("rb") as file:
            self.head = file.read(HEAD_BYTES)
            note(path)
        if not self.head:
            raise DataError(f"{path}: the file is empty")

    def keep_open(self, resource: AbstractContextManager[T]) -> T:
        """Open what the arrays of the file are read from, until the import ends."""
        return self._stack.enter_context(resource)

    @cached_property
    def size(self) -> int:
        return self.path.stat().st_size

    @cached_property
    def members(self) -> list[str] | None:
        """Names in a zip archive; None for other files and truncated archives."""
        if not self.is_zip:
            return None
        try:
            with zipfile.ZipFile(self.path) as archive:
                if all(member.header_offset for member in archive.filelist):
                    # the last of several concatenated archives
                    refuse_more(self.path, self.head)
                return archive.namelist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return None

    def refuse_more(self, end: int) -> None:
        """Raise DataError if the file goes on after the end of its content."""
        with self.path.open("rb") as file:
            file.seek(end)
            refuse_more(self.path, file.read(HEAD_BYTES))

    def refuse_again(self, first_bytes: bytes) -> None:
        """Raise DataError if the first bytes of the format occur again."""
        with (
            self.path.open("rb") as file,
            mmap(file.fileno(), 0, access=ACCESS_READ) as content,
        ):
            is_doubled = content.find(first_bytes, 1) > 0
            refuse_more(self.path, first_bytes if is_doubled else b"")

    @property
    def is_zip(self) -> bool:
        return self.head.startswith(ZIP_MAGIC)

    @cached_property
    def is_text(self) -> bool:
        decoder = getincrementaldecoder("utf-8-sig")()
        try:
            return "\0" not in decoder.decode(self.head)  # may end in a character
        except UnicodeDecodeError:
            return False

    @cached_property
    def first_lines(self) -> list[str]:
        """First lines of a text, without one that its first bytes have cut."""
        lines = self.head.decode("utf-8-sig", errors="ignore").splitlines()
        is_cut = len(self.head) < self.size and len(lines) > 1
        return lines[:-1] if is_cut else lines

    @property
    def first_line(self) -> str:
        """First line of a text that is not empty, among its first bytes."""
        return next(filter(str.strip, self.first_lines), "")

    def lines(self, n_above: int = 0) -> Iterator[tuple[str, str]]:
        """Lines of a text that are not empty, each after its place for messages.

        n_above : lines at the beginning that are left out.
        """
        with self.path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if number > n_above and line.strip():
                    yield f"{self.path}: line {number}", line.rstrip("\r\n")

    @property
    def is_json(self) -> bool:
        first = self.head.removeprefix(BYTE_ORDER_MARK).lstrip()[:1]
        return self.is_text and first in (b"{", b"[")

    @cached_property
    def json(self) -> Any:
        """JSON value of the file; of JSON Lines the list of all values."""
        with reading(self.path, "the JSON"):
            data = self.path.read_bytes().removeprefix(BYTE_ORDER_MARK)
            if not _is_json_lines(data):
                is_checked = len(data) <= MOST_BYTES_CHECKED
                return _decode(data, str(self.path), is_checked)
            values = []
            for number, line in enumerate(data.splitlines(), start=1):
                if line.strip():
                    where = f"{self.path}: line {number}"
                    values.append(_decode(line, where, number <= MOST_LINES_CHECKED))
            return values

    @property
    def records(self) -> list[dict[str, Any]]:
        """Objects of a JSON or JSON Lines file, one a row; none for other content."""
        if not self.is_json:
            return []
        rows = self.json if isinstance(self.json, list) else [self.json]
        if not are_all(dict, rows):
            return []
        return rows


def _without_table(path: Path) -> tuple[Path, str | None]:
    """File and table of the name of a table in a database; any other path as it is."""
    file, colon, table = str(path).rpartition(":")
    if colon and is_database(Path(file)):
        return Path(file), table
    return path, None


def _group_hint(path: Path) -> str:
    """End of the message about a missing file that is a file with a group."""
    file, colon, group = str(path).rpartition(":")
    if colon and Path(file).is_file():
        return f"; a part of {file} is taken by --part {group}"
    return ""


def _is_json_lines(data: bytes) -> bool:
    """Check whether the first line is a value of its own, and more follows."""
    first, _, more = data.lstrip().partition(b"\n")
    if not more.strip():
        return False
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return False
    return True


def _decode(data: bytes, where: str, check_keys: bool) -> Any:
    """Parse JSON. check_keys : refuse objects with doubled keys. Raises DataError."""
    from calcli.decisions.records import decode  # msgspec takes time to import

    try:
        if check_keys:
            json.loads(data, object_pairs_hook=once)
        return decode(data)
    except DoubledKey as problem:
        raise DataError(f"{where}: {problem}; keep one of the two") from None
    except (ValueError, RecursionError) as problem:
        raise DataError(
            f"{where}: cannot be read as JSON: {one_line(problem)}; is the file"
            " complete?"
        ) from None


def seek_member(file: IO[bytes], header: int) -> None:
    """Seek an open zip archive to the data of a member.

    header : offset of the local header before it.
    """
    file.seek(header + 26)  # lengths of the name and the extra field, 2 bytes each
    name_length, extra_length = unpack("<HH", file.read(4))
    file.seek(name_length + extra_length, 1)
