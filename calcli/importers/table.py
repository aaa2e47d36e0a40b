"""What a reader makes of a file: a table of arrays, each read when it is needed."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import filterfalse
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calcli.errors import DataError, one_line
from calcli.importers.ragged import Parts
from calcli.importers.remarks import reading
from calcli.io.cells import (
    NameColumn,
    answer_of,
    is_null,
    is_printed_list,
    names_of,
    printed_list,
)
from calcli.items import present
from calcli.numerics import AnyArray, bfloat16_to_float32, is_bfloat16
from calcli.zeros import Zeros, pooled

Cells = Literal["array", "number", "text", "lists", "objects", "truth", "other"]
Record = Mapping[str, Any]

MOST_SHOWN = 4
"""Most columns that stand for an array of them."""


@dataclass(frozen=True)
class FamilyFacts:
    """What is known of the columns of a table that make one array.

    option : how an option lists them, "" where one does. counts_from_1 : their names
    count from 1. is_generated : the name of the array is none of the file's. by_label :
    the label whose words name them, None without one. is_complete : they are all that
    such words name, as text around the words tells.
    """

    option: str
    counts_from_1: bool
    is_generated: bool = False
    by_label: str | None = None
    is_complete: bool = False


@dataclass(frozen=True)
class Column:
    """One array of a file.

    file, name : where it lies, for messages.
    get : returns all values: an array, or an object with shape and dtype that
        returns arrays when it is sliced by rows.
    cells : type of the cells of a table; "array" for an array of any shape.
    get_rows : returns some rows of a table, empty cells included, without reading
        the others.
    empty_row : the first row with an empty cell, for which ``load`` is refused.
    parts : the columns that it combines, by name.
    family : what is known of these, where they make one array; else None.
    attributes : what is known of the array. Of labels: ``first_index``, 1 where they
        count from 1, 0 where they are indices and no names that are numbers;
        ``classes``, names of their values; ``blank_words``, texts such as NA that are
        words. Of scores: ``options``, their columns are options of the row; ``name_in_file``, of options
        that became logarithms; ``ordered``, levels.
    written : returns the cells of a column as the file has them, None for an empty
        one, where the array may have lost their text: it has 7 for 007. None: the
        array says it.
    joined_from : the columns of several files that it joins.
    decimals : most decimals that its zeros are written with, in a text; None for
        numbers that were never text, and for an array of columns (``most_decimals``).
    zeros : what its probabilities of 0 count as, where the file says it.
    """

    file: Path
    name: str
    get: Callable[[], Any]
    cells: Cells = "array"
    get_rows: Callable[[slice], Any] | None = None
    empty_row: int | None = None
    parts: Mapping[str, "Column"] = field(default_factory=dict)
    family: FamilyFacts | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    written: Callable[[], Any] | None = None
    joined_from: Sequence["Column"] = ()
    decimals: int | None = None
    zeros: Zeros | None = None

    @property
    def shown(self) -> str:
        """Name in the file: of an array of columns the names of these, if it has none.

        Of an array of one column it is the name of the column.
        """
        if len(self.parts) == 1:
            return next(iter(self.parts))
        if self.family is None or not self.family.is_generated:
            return self.name
        names = list(self.parts)
        if len(names) > MOST_SHOWN:
            names = [*names[:2], "…", names[-1]]
        return ", ".join(names)

    @property
    def counts_from_1(self) -> bool:
        """True for an array of columns whose names count from 1."""
        return self.family is not None and self.family.counts_from_1

    @property
    def where(self) -> str:
        """Location for messages: ``file: array``."""
        return f"{self.file}: {self.name}"

    @property
    def most_decimals(self) -> int | None:
        """Most decimals of its zeros, or of those of the columns that it combines."""
        if self.decimals is not None:
            return self.decimals
        return most_decimals((*self.parts.values(), *self.joined_from))

    @property
    def recorded_zeros(self) -> Zeros | None:
        """What its zeros count as, where the file, or every file, says it."""
        if self.zeros is not None or not self.joined_from:
            return self.zeros
        of_parts = [column.recorded_zeros for column in self.joined_from]
        known = present(of_parts)
        return pooled(known) if len(known) == len(of_parts) else None

    def load(self) -> Any:
        """Return all values. Raises DataError, also where a cell is empty."""
        if self.empty_row is not None:
            raise self.refusal_of_empty(self.empty_row)
        with reading(self.file, f"array {self.name!r}"):
            return self.get()

    def refusal_of_empty(self, row: int) -> DataError:
        """Error about the empty cell of a row."""
        return DataError(
            f"{self.file}: column {self.name!r} is empty in row {row}, expected a value"
            " (or --drop-missing)",
            option=["--drop-missing"],
        )

    def rows(self, rows: slice) -> AnyArray:
        """Return some rows, empty cells as NaN or an empty word."""
        with reading(self.file, f"array {self.name!r}"):
            if self.get_rows is None:
                return np.asarray(self.get()[rows])
            values = self.get_rows(rows)
            # lists of different lengths are no rows of an array until they are joined
            return values[:] if isinstance(values, Parts) else np.asarray(values)

    def rows_or_parts(self) -> Any:
        """Return all values, empty cells included: an array or ``Parts``."""
        with reading(self.file, f"array {self.name!r}"):
            return self.get()

    def values(self) -> AnyArray:
        """Return all values in memory, (n, 1) as (n,). Raises DataError."""
        values = np.asarray(self.load()[()])
        if values.ndim == 2 and values.shape[1] == 1:
            return values[:, 0]
        return values

    def having(self, values: Any) -> "Column":
        """The column with other values."""
        return replace(
            self,
            get=constant(values),
            cells="array",
            get_rows=None,
            empty_row=None,
            written=None,
        )

    def called(self, name: str) -> "Column":
        """The same column under another name, made of no others."""
        return replace(
            self, name=name, parts={}, get_rows=None, decimals=self.most_decimals
        )

    def ordered(self, pick: Callable[[AnyArray], AnyArray]) -> "Column":
        """The column with other rows.

        pick : takes the array of all values, or of all cells, and returns that of the
        rows.
        """
        written = self.written
        made = replace(
            self,
            get=lambda: pick(np.asarray(self.load()[()])),
            parts={},
            get_rows=None,
            empty_row=None,
            decimals=self.most_decimals,
        )
        if written is None:
            return made
        return replace(made, written=lambda: pick(_as_objects(written())).tolist())

    # ---- what its cells say

    def written_cells(self) -> Any:
        """Cells of a column: an array, or a sequence with None for an empty one.

        Lists of different lengths stay such. Raises DataError.
        """
        if self.written is not None:
            with reading(self.file, f"array {self.name!r}"):
                return self.written()
        loaded = self.load()
        lists = getattr(loaded, "lists", None)  # of ``Parts``
        return np.atleast_1d(self.values()) if lists is None else lists()

    def names(self, role: str) -> AnyArray:
        """Cells as names of rows (see ``names_of``). Raises DataError."""
        return names_of(self.written_cells(), NameColumn(self.where, role))

    def answers(self) -> list[Any]:
        """Cells as canonical answers, None for a blank one.

        Of a column of lists, or of texts that all are printed lists, a list in each
        row. Raises DataError.
        """
        cells = self.written_cells()
        filled = list(filterfalse(is_null, cells))
        if filled and all(map(is_printed_list, filled)):
            cells = list(map(_printed_list_or_none, cells))
        answers = []
        for row, cell in enumerate(cells):
            try:
                answers.append(_answer_in(cell))
            except ValueError as problem:
                raise DataError(
                    f"{self.where}: row {row} holds no answer: {one_line(problem)}"
                ) from None
        return answers


def _printed_list_or_none(cell: Any) -> list[str] | None:
    return None if is_null(cell) else printed_list(cell)


def _answer_in(cell: Any) -> Any:
    """Canonical answer of a cell; of a list that of each item."""
    if isinstance(cell, list | tuple | np.ndarray):
        return list(map(_answer_in, cell))
    return answer_of(cell)


def _as_objects(cells: Any) -> AnyArray:
    """Array of any cells, (n,); lists stay what they are."""
    if isinstance(cells, np.ndarray):
        return cells
    objects = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        objects[row] = cell
    return objects


def most_decimals(columns: Iterable[Column]) -> int | None:
    """Most decimals of the zeros of some columns; None where none of them was text."""
    of_columns = [column.most_decimals for column in columns]
    return max(present(of_columns), default=None)


Columns = Mapping[str, Column]


def files_of(columns: Columns) -> str:
    """The files of these columns, for messages."""
    return ", ".join(dict.fromkeys(str(column.file) for column in columns.values()))


@dataclass(frozen=True)
class Table:
    """Arrays of one file, by path: folders are separated by "/".

    n_rows : of a table, in which every column has a cell for each row; None for
        arrays of any shape.
    records : rows as objects, of which columns are still to be made.
    is_single : the file is one array without a name, which is named after the file.
    has_header : its columns have names; else they are called 0, 1, ….
    is_ours : it was written by ``apply``.
    """

    file: Path
    format: str
    columns: Columns
    n_rows: int | None = None
    records: Sequence[Record] = ()
    is_single: bool = False
    has_header: bool = True
    is_ours: bool = False

    @classmethod
    def of(
        cls,
        file: Path,
        format: str,
        loaders: Mapping[str, Callable[[], Any]],
        is_single: bool = False,
    ) -> "Table":
        """Make a table of functions that return its arrays."""
        columns = {name: Column(file, name, get) for name, get in loaders.items()}
        return cls(file, format, columns, is_single=is_single)

    @classmethod
    def held(
        cls,
        file: Path,
        format: str,
        arrays: Mapping[str, Any],
        is_single: bool = False,
    ) -> "Table":
        """Make a table of arrays in memory."""
        loaders = {name: constant(array) for name, array in arrays.items()}
        return cls.of(file, format, loaders, is_single)


def constant(array: Any) -> Callable[[], Any]:
    """A function that returns this array."""
    return lambda: array


def unite(tables: Sequence[Table], folders: Sequence[str] = ()) -> dict[str, Column]:
    """Arrays of several files by path.

    Those of a file with several arrays go into a folder named after the file, unless
    it is the only such file. folders : folder of each file below the source.
    """
    has_several = sum(not table.is_single for table in tables) > 1
    united: dict[str, Column] = {}
    for number, table in enumerate(tables):
        folder = folders[number] if folders else ""
        inner = table.file.stem if has_several and not table.is_single else ""
        for name, column in table.columns.items():
            path = "/".join(filter(None, (folder, inner, name)))
            if path in united:
                first = united[path].file
                raise DataError(
                    f"{table.file}: array {name!r} has the same name as one of {first};"
                    " import them one by one, or --join parts of one data set"
                )
            united[path] = column
    return united


class Mapped:
    """An array that stays in its file until it is sliced; bfloat16 becomes float32.

    Every slice maps the file anew, copies and unmaps it, since an open mapping keeps
    the pages that it touched in memory. open_map : returns the array to slice. path,
    name : for messages. declared : see ``is_bfloat16``. Errors become DataError.
    """

    def __init__(
        self,
        open_map: Callable[[], Any],
        path: Path,
        name: str,
        declared: object = None,
    ) -> None:
        self._open = open_map
        self._path = path
        self._what = f"array {name!r}"
        first = open_map()
        self.shape, self.ndim = first.shape, first.ndim
        self._is_bfloat16 = is_bfloat16(first.dtype, declared)
        self.dtype = np.dtype(np.float32) if self._is_bfloat16 else first.dtype

    @classmethod
    def at(
        cls,
        path: Path,
        name: str,
        dtype: np.dtype[Any],
        offset: int,
        shape: tuple[int, ...],
    ) -> "Mapped":
        """Make one of the values that begin at a byte of a file."""
        return cls(
            partial(np.memmap, path, dtype, "r", offset=offset, shape=shape), path, name
        )

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> AnyArray:
        with reading(self._path, self._what):
            values = _read_rows(self._open(), key)
            return bfloat16_to_float32(values) if self._is_bfloat16 else values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return np.asarray(self[...], dtype)


def _read_rows(mapped: Any, key: Any) -> AnyArray:
    """Rows of a memory map, by a plain read where they lie in one piece.

    Access to the map of a file that was cut off kills the process.
    """
    rows = slice(None) if key is Ellipsis else key
    is_plain = (
        isinstance(mapped, np.memmap)
        and mapped.ndim > 0
        and mapped.flags.c_contiguous
        and isinstance(rows, slice)
        and rows.step in (None, 1)
    )
    if not is_plain:
        return np.array(mapped[key])
    first, last, _ = rows.indices(len(mapped))
    shape = (max(0, last - first), *mapped.shape[1:])
    with open(mapped.filename, "rb") as file:
        file.seek(mapped.offset + first * mapped.strides[0])
        values = np.fromfile(file, mapped.dtype, math.prod(shape))
    if values.size < math.prod(shape):
        message = "the file is shorter than it says: it was cut short while it was read"
        raise ValueError(message)
    return values.reshape(shape)
