"""Files to import: their type and first bytes, their arrays by name, and the remarks of an import."""

import json
import math
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import field, replace
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import unpack
from typing import IO, Any

import numpy as np

from calcli.errors import CalcliError, DataError, blaming, one_line
from calcli.fast_dataclass import cached_property, dataclass
from calcli.io.atomic import is_stream
from calcli.io.cells import (
    NameColumn,
    answer_of,
    is_null,
    is_printed_list,
    names_of,
    printed_list,
)
from calcli.io.inputs import DoubledKey, note, once, refuse_more
from calcli.numerics import AnyArray, bfloat16_to_float32, is_bfloat16

_log: ContextVar[list[str] | None] = ContextVar("remarks", default=None)


@contextmanager
def remarks() -> Iterator[list[str]]:
    """Collect the remarks made within the context, in order."""
    kept: list[str] = []
    token = _log.set(kept)
    try:
        yield kept
    finally:
        _log.reset(token)


def remark(sentence: str) -> None:
    """Add a remark for the user on the source, without repetition; ignored outside of ``remarks()``."""
    if (kept := _log.get()) is not None and sentence and sentence not in kept:
        kept.append(sentence)


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Convert any error of a reader on a broken file to a DataError of one line; bugs in calcli itself propagate."""
    try:
        yield
    except CalcliError:
        raise
    except MemoryError:
        raise DataError(f"{path}: {what} does not fit into memory; .npy and HDF5 are streamed") from None
    except (NameError, ImportError):  # never caused by a file
        raise
    except Exception as problem:  # NumPy, h5py, pyarrow and torch raise many types
        home = type(problem.obj).__module__ if isinstance(problem, AttributeError) else ""
        # A missing attribute of calcli's objects is a bug, except in readers: these stand in for pickled ones.
        if home.startswith("calcli.") and not home.startswith("calcli.importers.readers."):
            raise
        raise DataError(f"{path}: cannot read {what}: {one_line(problem)}; is the file complete?") from problem


class Mapped:
    """An array that stays in its file until it is sliced; bfloat16 becomes float32. Every slice maps the file anew,
    copies and unmaps it, since an open mapping keeps touched pages in memory. open_map : returns the array to slice.
    path, name : for messages. declared : see ``is_bfloat16``. Errors become DataError."""

    def __init__(self, open_map: Callable[[], Any], path: Path, name: str, declared: object = None) -> None:
        self._open, self._path, self._what = open_map, path, f"array {name!r}"
        first = open_map()
        self.shape, self.dtype, self.ndim = first.shape, first.dtype, first.ndim
        self._wide = is_bfloat16(first.dtype, declared)
        if self._wide:
            self.dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> AnyArray:
        with reading(self._path, self._what):
            found = _rows_read(self._open(), key)
            return bfloat16_to_float32(found) if self._wide else found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return np.asarray(self[...], dtype)


def _rows_read(mapped: Any, key: Any) -> AnyArray:
    """Rows of a memory map, by a plain read if contiguous: access to a map of a truncated file kills the process."""
    rows = slice(None) if key is Ellipsis else key
    plain = isinstance(mapped, np.memmap) and mapped.ndim and mapped.flags.c_contiguous
    if not plain or not isinstance(rows, slice) or rows.step not in (None, 1):
        return np.array(mapped[key])
    first, last, _ = rows.indices(len(mapped))
    shape = (max(0, last - first), *mapped.shape[1:])
    with open(mapped.filename, "rb") as file:
        file.seek(mapped.offset + first * mapped.strides[0])
        found = np.fromfile(file, mapped.dtype, math.prod(shape))
    if found.size < math.prod(shape):
        raise ValueError("the file is shorter than it says: it was cut short while it was read")
    return found.reshape(shape)


def member_start(file: IO[bytes], header: int) -> None:
    """Seek an open zip archive to the data of a member. header : offset of the local header before it."""
    file.seek(header + 26)  # lengths of the name and the extra field, 2 bytes each
    file.seek(sum(unpack("<HH", file.read(4))), 1)


@dataclass(frozen=True)
class Entry:
    """One array: its file and its name there.

    get : returns an array, or an object with shape and dtype that returns arrays when
    sliced by rows. made_of : the columns that it combines, by name. part : returns
    some rows of a column of a table, blanks included, without conversion of the
    others. written : returns the cells of a column as the file has them, None for an
    empty one, where the array may have lost their text; None: the array says it.
    joined_from : the entries of several files that it joins.
    """

    path: Path
    name: str
    get: Callable[[], Any]
    made_of: Mapping[str, "Entry"] = field(default_factory=dict)
    part: Callable[[slice], Any] | None = None
    written: Callable[[], Any] | None = None
    joined_from: Sequence["Entry"] = ()

    @property
    def shown(self) -> str:
        """Name in the file: for an array made of one column the name of the column."""
        return next(iter(self.made_of)) if len(self.made_of) == 1 else self.name

    @property
    def where(self) -> str:
        """Location for messages: ``file: array``."""
        return f"{self.path}: {self.name}"

    def load(self) -> Any:
        """Call ``get``. Raises DataError."""
        with reading(self.path, f"array {self.name!r}"):
            return self.get()

    def having(self, values: Any) -> "Entry":
        return replace(self, get=constant(values), part=None, written=None)

    def called(self, name: str) -> "Entry":
        """The same column under another name, made of no others."""
        return replace(self, name=name, made_of={}, part=None)

    def ordered(self, pick: Callable[[AnyArray], AnyArray]) -> "Entry":
        """The entry with other rows. pick : takes the array of all, or of all cells,
        and returns that of the rows."""
        written = self.written
        made = replace(
            self,
            get=lambda: pick(np.asarray(self.load()[()])),
            made_of={},
            part=None,
        )
        if written is None:
            return made
        return replace(made, written=lambda: pick(_as_objects(written())).tolist())

    def rows(self, which: slice) -> AnyArray:
        with reading(self.path, f"array {self.name!r}"):
            return np.asarray(self.get()[which] if self.part is None else self.part(which))

    def column(self) -> AnyArray:
        """Values in memory, (n, 1) as (n,). Raises DataError."""
        values = np.asarray(self.load()[()])
        return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values

    def cells(self) -> Any:
        """Cells of a column: an array, or a sequence with None for an empty one; lists
        of different lengths as such. Raises DataError."""
        if self.written is not None:
            with reading(self.path, f"array {self.name!r}"):
                return self.written()
        loaded = self.load()
        lists = getattr(loaded, "lists", None)  # of ``Parts``
        return np.atleast_1d(self.column()) if lists is None else lists()

    def names(self, role: str) -> AnyArray:
        """Cells as names of rows (see ``names_of``). Raises DataError."""
        return names_of(self.cells(), NameColumn(self.where, role))

    def answers(self) -> list[Any]:
        """Cells as canonical answers, None for a blank one; of a column of lists, or
        of texts that all are printed lists, a list in each row. Raises DataError."""
        cells = self.cells()
        present = [cell for cell in cells if not is_null(cell)]
        if present and all(map(is_printed_list, present)):
            cells = [None if is_null(cell) else printed_list(cell) for cell in cells]
        found = []
        for row, cell in enumerate(cells):
            try:
                found.append(_answer_in(cell))
            except ValueError as problem:
                told = f"row {row} holds no answer: {one_line(problem)}"
                raise DataError(f"{self.where}: {told}") from None
        return found


def _answer_in(cell: Any) -> Any:
    """Canonical answer of a cell; of a list that of each item."""
    if isinstance(cell, list | tuple | np.ndarray):
        return [_answer_in(item) for item in cell]
    return answer_of(cell)


def _as_objects(cells: Any) -> AnyArray:
    """Array of any cells, (n,); lists stay what they are."""
    if isinstance(cells, np.ndarray):
        return cells
    made = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        made[row] = cell
    return made


Entries = Mapping[str, Entry]


@dataclass(frozen=True)
class Archive:
    """Arrays of one file. entries : by path, folders separated by "/". loose : the file is one array without a name
    (.npy, a bare tensor), which is named after the file."""

    path: Path
    format: str
    entries: Entries
    loose: bool = False

    @classmethod
    def of(cls, path: Path, format: str, loaders: Mapping[str, Callable[[], Any]], loose: bool = False) -> "Archive":
        return cls(path, format, {name: Entry(path, name, load) for name, load in loaders.items()}, loose)

    @classmethod
    def held(cls, path: Path, format: str, arrays: Mapping[str, Any], loose: bool = False) -> "Archive":
        return cls.of(path, format, {name: constant(array) for name, array in arrays.items()}, loose)


def constant(array: Any) -> Callable[[], Any]:
    return lambda: array


def unite(archives: Sequence[Archive], folders: Sequence[str] = ()) -> dict[str, Entry]:
    """Arrays of several files. Those of a file with several arrays go into a folder named after the file, unless it
    is the only such file. folders : folder of each file below the source."""
    several = sum(not archive.loose for archive in archives) > 1
    united: dict[str, Entry] = {}
    for archive, folder in zip(archives, folders or [""] * len(archives), strict=True):
        for name, entry in archive.entries.items():
            inner = (archive.path.stem,) if several and not archive.loose else ()
            path = "/".join(filter(None, (folder, *inner, name)))
            if path in united:
                told = f"{archive.path}: array {name!r} has the same name as one of {united[path].path}"
                raise DataError(f"{told}; import them one by one, or --join parts of one data set")
            united[path] = entry
    return united


# ---- the file before it is read


HEAD = 4096  # first bytes by which formats are recognised
LOOKED_AT, LOOKED_THROUGH = 1000, 1 << 26
"""Most lines of JSON Lines, and bytes of JSON, that are searched for objects with duplicate keys."""


class SourceFile:
    """A file to import, with its properties before reading. suffix : the last one, lower case. head : its first bytes,
    never empty. Raises DataError for a missing, empty or unreadable file."""

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
        with blaming(f"{path}: cannot be read", OSError), path.open("rb") as file:
            self.head = file.read(HEAD)
            note(path)
        if not self.head:
            raise DataError(f"{path}: the file is empty")

    @cached_property
    def size(self) -> int:
        return self.path.stat().st_size

    @cached_property
    def members(self) -> list[str] | None:
        """Names in a zip archive; None for other files and truncated archives."""
        import zipfile

        if not self.is_zip:
            return None
        try:
            with zipfile.ZipFile(self.path) as archive:
                if all(member.header_offset for member in archive.filelist):
                    refuse_more(self.path, self.head)  # the last of several concatenated archives
                return archive.namelist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return None

    def refuse_more(self, end: int) -> None:
        """Raise DataError if the file continues after the offset at which its content ends."""
        with self.path.open("rb") as file:
            file.seek(end)
            refuse_more(self.path, file.read(HEAD))

    def refuse_again(self, begins: bytes) -> None:
        """Raise DataError if these first bytes of a file of its format occur again later: files were concatenated."""
        with self.path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            refuse_more(self.path, begins if content.find(begins, 1) > 0 else b"")

    @property
    def is_zip(self) -> bool:
        return self.head.startswith(b"PK\x03\x04")

    @cached_property
    def is_text(self) -> bool:
        with suppress(UnicodeDecodeError):
            return "\0" not in getincrementaldecoder("utf-8-sig")().decode(self.head)  # may end within a character
        return False

    @property
    def is_json(self) -> bool:
        return self.is_text and self.head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")

    @cached_property
    def json(self) -> Any:
        """JSON value of the file; for JSON Lines the list of all values. Raises DataError."""
        with reading(self.path, "the JSON"):
            data = self.path.read_bytes().removeprefix(b"\xef\xbb\xbf")
            first, _, more = data.lstrip().partition(b"\n")
            lines: list[bytes] = []
            with suppress(ValueError, RecursionError):
                if more.strip():
                    json.loads(first)  # the first line is a value: JSON Lines
                    lines = data.splitlines()
            found = [_decode(v, f"{self.path}: line {i}", i <= LOOKED_AT) for i, v in enumerate(lines, 1) if v.strip()]
            return found or _decode(data, str(self.path), len(data) <= LOOKED_THROUGH)

    @property
    def records(self) -> list[dict[str, Any]]:
        """Objects of a JSON or JSON Lines file, one a row; [] for any other content."""
        if not self.is_json:
            return []
        rows = self.json if isinstance(self.json, list) else [self.json]
        return rows if all(isinstance(row, dict) for row in rows) else []


def _decode(data: bytes, where: str, look: bool) -> Any:
    """Parse JSON. look : refuse objects with duplicate keys. Raises DataError."""
    import msgspec

    try:
        if look:
            json.loads(data, object_pairs_hook=once)
        with suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(data)
        return json.loads(data)  # accepts NaN, which is not JSON but written by Python
    except DoubledKey as problem:
        raise DataError(f"{where}: {problem}; keep one of the two") from None
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{where}: cannot be read as JSON: {one_line(problem)}; is the file complete?") from None
