"""CSV and Parquet tables: one row per sample, a column per class and one of labels."""

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError
from calcli.importers.archive import Archive, one_line, reading
from calcli.importers.layout import PER_ROW, SCORE_PREFIX, role_of

__all__ = ["LEFT_OVER", "read_csv", "read_parquet"]

LEFT_OVER = "columns"
"""Name of the array of all numeric columns whose names do not say what they are."""

TEXT = ("string", "large_string")

NUMBERED = re.compile(r"(?P<stem>.*?[^\d\W]?)[\W_]*(?P<number>\d+)\W*")


def read_csv(path: Path, stack: ExitStack, labels: Sequence[str] = ()) -> Archive:
    """Read a table of text, separated by commas, semicolons, tabs or bars (see ``read_parquet``).

    A file without a header, numbers only, is one loose array with the name of the file.
    """
    csv = _pyarrow(path, "csv")
    try:
        with path.open(encoding="utf-8-sig") as file:
            first = file.readline().rstrip("\r\n")
        with path.open("rb") as raw:
            raw.seek(-1, 2)
            ended = raw.read(1) in b"\r\n"
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path}: cannot be read as a table: {one_line(problem)}; expected UTF-8 text") from None
    if not first.strip():
        raise DataError(f"{path}: the first line is empty, expected the names of the columns")
    separator = max(",;\t|", key=first.count) if any(first.count(c) for c in ",;\t|") else ","
    bare = all(_is_number(cell) for cell in first.split(separator))
    try:
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(autogenerate_column_names=bare),
            parse_options=csv.ParseOptions(delimiter=separator),
        )
    except Exception as problem:  # pyarrow's own family
        raise DataError(f"{path}: cannot be read as a table: {one_line(problem)}") from None
    notes = () if ended else (f"{path.name}: the last line has no line end; is the file complete?",)
    if not bare:
        with reading(path, "the names of the columns"):
            return _archive(path, "csv", table, labels, notes)
    if any(_values(path, table, name).dtype.kind not in "biuf" for name in table.column_names):
        raise DataError(f"{path}: the first line holds numbers, later ones do not; put the column names there")
    whole = _matrix(path, table, table.column_names)
    return Archive.of(path, "csv", {path.stem: lambda: whole}, loose=True, notes=notes)


def read_parquet(path: Path, stack: ExitStack, labels: Sequence[str] = ()) -> Archive:
    """Read a table of typed columns.

    Columns ``logits_cat, logits_dog, …`` (or log_probs_, probs_ …) make the array
    ``logits`` with the class names cat, dog; columns that end in a number, ``p0, p1, …``,
    the array ``p``; all other numeric columns together, without the ones named in
    ``labels`` and those with a known meaning (ids, weights, group, split), the array
    ``columns`` with their names as class names. A column of lists of equal length is an
    array by itself. The table is held in memory.
    """
    parquet = _pyarrow(path, "parquet")
    try:
        table = parquet.read_table(path, page_checksum_verification=True)
    except Exception as problem:  # pyarrow's own family
        raise DataError(f"{path}: cannot be read as Parquet: {one_line(problem)}; is the file complete?") from None
    with reading(path, "the names of the columns"):
        return _archive(path, "parquet", table, labels)


def _pyarrow(path: Path, module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"pyarrow.{module}")
    except ImportError:
        raise DataError(
            f"{path}: reading CSV and Parquet needs pyarrow; pip install 'calcli[parquet]',"
            " or save the arrays with numpy.savez"
        ) from None


def _archive(path: Path, format: str, table: Any, labels: Sequence[str], notes: tuple[str, ...] = ()) -> Archive:
    names = [str(name) for name in table.column_names]
    if len(set(names)) != len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path}: two columns are named {double!r}; every column needs a name of its own")
    if table.num_rows == 0:
        raise DataError(f"{path}: there are no rows below the column names, expected at least one")
    free = [n for n in names if n not in labels and role_of(n) not in PER_ROW]
    numeric = [n for n in free if SCORE_PREFIX.match(n) or _is_numeric(table, n)]
    declared, numbered = _groups(numeric)
    inside = {name for columns in declared.values() for name in columns}
    loaders: dict[str, Callable[[], Any]] = {n: _column(path, table, n) for n in names if n not in inside}
    rest = [name for name in numeric if name not in inside]
    groups = declared | numbered | ({LEFT_OVER: rest} if len(rest) > 1 else {})
    for group, columns in groups.items():
        loaders[group] = _columns(path, table, columns)
        classes = _class_names(path, columns, "" if group == LEFT_OVER and group not in numbered else group)
        if classes is not None:
            loaders[f"class_names_{group}"] = _constant(np.asarray(classes))
    return Archive.of(path, format, loaders, notes=notes)


def _groups(numeric: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Columns by the word for scores they start with, and the others by what stands before their number."""
    declared: dict[str, list[str]] = {}
    numbered: dict[str, list[str]] = {}
    for name in numeric:
        kind = SCORE_PREFIX.match(name)
        if kind and kind.end() < len(name):
            declared.setdefault(kind.group(), []).append(name)
        elif (match := NUMBERED.fullmatch(name)) and match["stem"]:
            numbered.setdefault(match["stem"], []).append(name)
    return declared, {stem: columns for stem, columns in numbered.items() if len(columns) > 1}


def _class_names(path: Path, columns: Sequence[str], stem: str) -> list[str] | None:
    """The headers without what they have in common; None when they only count the classes."""
    names = [name[len(stem) :].strip(" _-.[]") for name in columns]
    if all(name.isdigit() for name in names):
        numbers = [int(name) for name in names]
        if numbers != sorted(set(numbers)):
            raise DataError(f"{path}: columns {columns[0]!r}, … are not in the order of their numbers; sort them")
        return None
    numbered = [NUMBERED.fullmatch(name) for name in names]
    if not stem and len({match["stem"] if match else name for match, name in zip(numbered, names, strict=True)}) == 1:
        return None
    return names


def _is_number(cell: str) -> bool:
    try:
        float(cell.strip().strip('"'))
    except ValueError:
        return False
    return True


def _is_numeric(table: Any, name: str) -> bool:
    """Whether a column holds numbers, or is meant to: a text among numbers makes it one of texts."""
    kind = str(table.schema.field(name).type)
    if kind in TEXT:
        sample = [str(cell) for cell in table.column(name)[:100].to_pylist()]
        return sum(map(_is_number, sample)) > len(sample) / 2
    return kind.startswith(("int", "uint", "float", "double", "halffloat"))


def _column(path: Path, table: Any, name: str) -> Callable[[], NDArray[Any]]:
    return lambda: _values(path, table, name)


def _columns(path: Path, table: Any, names: Sequence[str]) -> Callable[[], NDArray[Any]]:
    return lambda: _matrix(path, table, names)


def _constant(value: NDArray[Any]) -> Callable[[], NDArray[Any]]:
    return lambda: value


def _matrix(path: Path, table: Any, names: Sequence[str]) -> NDArray[Any]:
    """(n, columns) floats of the widest type among the columns; integers count as float64.

    One column: its values, which may be rows of lists.
    """
    columns = [_numbers(path, table, name) for name in names]
    dtype = np.result_type(*(c.dtype if c.dtype.kind == "f" else np.dtype(np.float64) for c in columns))
    if len(columns) == 1:
        return columns[0].astype(dtype, copy=False)
    lists = [name for name, column in zip(names, columns, strict=True) if column.ndim != 1]
    if lists:
        raise DataError(f"{path}: column {lists[0]!r} holds lists, expected one number per row")
    return np.stack(columns, axis=1, dtype=dtype)


def _numbers(path: Path, table: Any, name: str) -> NDArray[Any]:
    values = _values(path, table, name)
    if values.dtype.kind == "U":
        row = next((i for i, cell in enumerate(values) if not _is_number(cell)), 0)
        raise DataError(f"{path}: column {name!r} has {str(values[row])!r} in row {row}, expected a number")
    return values


def _values(path: Path, table: Any, name: str) -> NDArray[Any]:
    column = table.column(name)
    kind = str(column.type)
    if kind.startswith(("list", "large_list", "fixed_size_list")):
        return _lists(path, column, name)
    if kind.startswith("dictionary"):
        column = column.cast(column.type.value_type)
        kind = str(column.type)
    if column.null_count and not kind.startswith(("float", "double", "halffloat")):
        row = column.is_null().to_pylist().index(True)
        raise DataError(f"{path}: column {name!r} is empty in row {row}, expected a value")
    values: NDArray[Any] = column.to_numpy()
    return values.astype("U") if values.dtype.kind == "O" and kind in TEXT else values


def _lists(path: Path, column: Any, name: str) -> NDArray[Any]:
    lengths = set()
    for chunk in column.chunks:
        lengths |= set(np.unique(np.asarray(chunk.value_lengths().to_numpy(zero_copy_only=False))).tolist())
    if column.null_count or len(lengths) != 1:
        raise DataError(f"{path}: the lists in column {name!r} have different lengths, expected one number per class")
    width = int(lengths.pop())
    parts = [chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, width) for chunk in column.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
