"""Parquet tables, by pyarrow."""

import json
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, needed
from calcli.importers.archive import Archive, Entry, constant
from calcli.importers.array_names import role_of
from calcli.importers.columns import Column, refuse_doubles, table_archive
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.multiple_choice import are_scores, by_choices
from calcli.importers.printed import are_lists, is_number, read_lists
from calcli.importers.source_file import SourceFile
from calcli.io.validate import is_decompression_bomb
from calcli.numerics import AnyArray

TEXT = ("string", "large_string", "string_view")
LISTS = ("list", "large_list", "fixed_size_list")


@reader(
    "parquet",
    "typed tables",
    suffixes=(".parquet", ".pq"),
    sniff=lambda file: file.head.startswith(b"PAR1"),
    general=True,
    extra="parquet",
    examples=[("predictions.parquet", "--labels label --kind logits")],
)
def read_parquet(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Archive:
    """Read a table of typed columns, by the rules of ``columns.table_archive``. It is held in memory."""
    return arrow_archive(file.path, "parquet", read_table(file.path), ask)


def arrow_archive(path: Path, format: str, table: Any, ask: ImportRequest) -> Archive:
    """The arrays of a pyarrow table, with the class names that datasets keeps in its schema."""
    table = _flat(table)
    refuse_doubles(path, [str(name) for name in table.column_names])
    if ask.choices is not None or any(_is_ragged(table, str(name), ask) for name in table.column_names):
        return by_choices(path, format, table.to_pylist(), ask)
    archive = table_archive(path, format, arrow_columns(path, table), table.num_rows, ask)
    names = _declared_names(table, ask)
    if names is None or any(name.startswith("class_names") for name in archive.entries):
        return archive
    return replace(archive, entries={**archive.entries, "class_names": Entry(path, "class_names", constant(names))})


def _is_ragged(table: Any, name: str, ask: ImportRequest) -> bool:
    """Are these scores of different numbers of classes, or of the tokens of sentences?"""
    kind = str(table.schema.field(name).type)
    if not are_scores(name, ask) or not kind.startswith(("list", "large_list")) or table.column(name).null_count:
        return False
    return "list<" in kind[5:] or len(_lengths(table.column(name))) > 1


def _declared_names(table: Any, ask: ImportRequest) -> AnyArray | None:
    """Names of the classes of the one column of labels that is a ClassLabel of datasets; None when there is none."""
    try:
        about = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
        features = about["info"]["features"].items()
        labels = [feature for name, feature in features if name in ask.labels or role_of(name) == "labels"]
        found = [feature["names"] for feature in labels if feature.get("_type") == "ClassLabel"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return np.array(found[0]) if len(found) == 1 and all(isinstance(name, str) for name in found[0]) else None


def read_table(path: Path) -> Any:
    """The table as pyarrow has it. Raises DataError."""
    with needed(f"{path}: reading Parquet needs pyarrow (or save the table as CSV)", "parquet"):
        from pyarrow import parquet
    with parquet.ParquetFile(path) as opened:
        declared = opened.metadata.num_rows * opened.metadata.num_columns * 8
    if is_decompression_bomb(declared, path.stat().st_size):
        raise DataError(f"{path}: declares {declared} bytes, far more than it can hold; was it cut off?")
    return parquet.read_table(path, page_checksum_verification=True)


def _flat(table: Any) -> Any:
    """The table with a column for each field of its objects, by dotted names: ``probs.cat``."""
    while any(str(field.type).startswith("struct") for field in table.schema):
        table = table.flatten()
    return table


def arrow_columns(path: Path, table: Any) -> dict[str, Column]:
    """The columns of a pyarrow table."""
    values = partial(_values, path, table)
    return {
        str(name): Column(_kind(table, name), partial(values, name), partial(values, name, gaps=True))
        for name in table.column_names
    }


def _kind(table: Any, name: str) -> Any:
    kind = str(table.schema.field(name).type)
    if kind in TEXT:  # a text among numbers makes a column one of texts, but it is meant to hold numbers
        sample = [str(cell) for cell in table.column(name)[:100].to_pylist()]
        if are_lists(sample):
            return "lists"
        return "number" if sum(map(is_number, sample)) > len(sample) / 2 else "text"
    if kind.startswith(LISTS):
        return "lists"
    return "number" if kind.startswith(("int", "uint", "float", "double", "halffloat", "decimal")) else "other"


def _values(path: Path, table: Any, name: str, *, gaps: bool = False) -> AnyArray:
    column = table.column(name)
    kind = str(column.type)
    if kind.startswith(LISTS):
        return _lists(path, column, name)
    if kind.startswith("dictionary"):
        column = _plain(column)
        kind = str(column.type)
    if column.null_count and not kind.startswith(("float", "double", "halffloat")):
        if not gaps:
            row = column.is_null().to_pylist().index(True)
            raise DataError(f"{path}: column {name!r} is empty in row {row}, expected a value (or --drop-missing)")
        column = column.fill_null("") if kind in TEXT else column.cast("float64")
    if kind.startswith("decimal"):
        column = column.cast("float64")
    if kind in TEXT and are_lists([str(cell) for cell in column[:100].to_pylist()]):
        return read_lists(path, name, column.to_pylist())
    values: AnyArray = column.to_numpy()
    return values.astype("U") if values.dtype.kind == "O" and kind in TEXT else values


def _plain(column: Any) -> Any:
    """A column of categories as one of their values; those of polars are views, which pyarrow does not cast."""
    if "view" not in str(column.type.value_type):
        return column.cast(column.type.value_type)
    import pyarrow as pa

    return pa.chunked_array([pa.array(column.to_pylist(), "string")])


def _lengths(column: Any) -> set[int]:
    """How many entries the lists of a column have."""
    found = (np.unique(chunk.value_lengths().to_numpy(zero_copy_only=False)) for chunk in column.chunks)
    return {int(length) for lengths in found for length in lengths}


def _lists(path: Path, column: Any, name: str) -> AnyArray:
    if column.null_count or len(lengths := _lengths(column)) != 1:
        raise DataError(f"{path}: the lists in column {name!r} have different lengths, expected one number per class")
    (width,) = lengths
    parts = [chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, width) for chunk in column.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


SUFFIXES = (".arrow", ".arrows", ".feather", ".ipc")
FILES = (b"ARROW1", b"FEA1")
STREAM = b"\xff\xff\xff\xff"


@reader(
    "arrow",
    "Arrow tables: Feather, IPC, what datasets' save_to_disk writes",
    suffixes=SUFFIXES,
    sniff=lambda file: file.head.startswith(FILES) or (file.head.startswith(STREAM) and file.suffix in SUFFIXES),
    extra="parquet",
    examples=[("predictions.feather", ""), ("saved_dataset/", "")],
)
def read_arrow(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Archive:
    """Read a table of typed columns, as Parquet is read. It is held in memory."""
    path = file.path
    with needed(f"{path}: reading Arrow needs pyarrow (or save the table as CSV)", "parquet"):
        from pyarrow import feather, ipc
    table: Any = ipc.open_stream(path).read_all() if file.head.startswith(STREAM) else feather.read_table(path)
    table.validate(full=True)
    return arrow_archive(path, "arrow", table, ask)
