"""Parquet tables, by pyarrow."""

import json
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, needed
from calcli.importers import columns as tables
from calcli.importers.archive import Archive, Entry, SourceFile, constant
from calcli.importers.array_names import role_of
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.multiple_choice import are_scores, by_choices
from calcli.io.cells import is_number
from calcli.io.validate import refuse_bomb
from calcli.numerics import AnyArray

TEXT = ("string", "large_string", "string_view")
LISTS = ("list", "large_list", "fixed_size_list")
FLOATS = ("float", "double", "halffloat")


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
    return arrow_archive(file.path, "parquet", read_table(file), ask)


def arrow_archive(path: Path, format: str, table: Any, ask: ImportRequest) -> Archive:
    """Arrays of a pyarrow table, with the class names that datasets stores in its schema."""
    while any(str(field.type).startswith("struct") for field in table.schema):
        table = table.flatten()  # a column per field of its structs, with dotted names: ``probs.cat``
    tables.refuse_doubles(path, table.column_names)
    scores = [table.column(name) for name in table.column_names if are_scores(name, ask)]
    if ask.choices is not None or any(map(_is_ragged, scores)):
        return by_choices(path, format, table.to_pylist(), ask)
    ours = b"calibrated_by" in (table.schema.metadata or {})
    archive = tables.table_archive(path, format, arrow_columns(path, table), table.num_rows, ask, ours=ours)
    names = _declared_names(table, ask)
    if names is None or any(name.startswith("class_names") for name in archive.entries):
        return archive
    return replace(archive, entries={**archive.entries, "class_names": Entry(path, "class_names", constant(names))})


def _is_ragged(column: Any) -> bool:
    """True for scores of different numbers of classes, or of the tokens of sentences."""
    lists = str(column.type).startswith(("list", "large_list")) and not column.null_count
    return lists and ("list<" in str(column.type)[5:] or len(_lengths(column)) > 1)


def _declared_names(table: Any, ask: ImportRequest) -> AnyArray | None:
    """Class names of the one column of labels that is a ClassLabel of datasets; None if there is none."""
    try:
        about = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
        features = about["info"]["features"].items()
        labels = [feature for name, feature in features if name in ask.labels or role_of(name) == "labels"]
        found = [feature["names"] for feature in labels if feature.get("_type") == "ClassLabel"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return np.array(found[0]) if len(found) == 1 and all(isinstance(name, str) for name in found[0]) else None


def read_table(file: SourceFile) -> Any:
    """Read a Parquet file to a pyarrow table. Raises DataError."""
    path = file.path
    file.refuse_again(b"PAR1PAR1")  # two concatenated files
    with needed(f"{path}: reading Parquet needs pyarrow (or save the table as CSV)", "parquet"):
        from pyarrow import parquet
    with parquet.ParquetFile(path) as opened:
        declared = opened.metadata.num_rows * opened.metadata.num_columns * 8
    refuse_bomb(path, declared, path.stat().st_size)
    return parquet.read_table(path, page_checksum_verification=True)


def arrow_columns(path: Path, table: Any) -> dict[str, tables.Column]:
    made = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        blank = column.null_count and not str(column.type).startswith((*FLOATS, *LISTS))
        refusal = tables.refusal_of_empty(path, name, column.is_null().index(True).as_py()) if blank else ""
        read = partial(_values, path, name)
        written = partial(_cells, column)
        made[name] = tables.Column(_kind(column), read, column, refusal, written)
    return made


def _cells(column: Any) -> Any:
    """Cells as the file has them, None for a missing value."""
    kind = str(column.type)
    if kind.startswith(("int", "uint")) and not column.null_count:
        return column.to_numpy()
    if kind.startswith("timestamp") and "tz=" not in kind:
        return column.to_numpy()  # nanoseconds, which Python's own type lacks
    return column.to_pylist()


def _kind(column: Any) -> Any:
    kind = str(column.type)
    if kind in TEXT:  # one text makes a column of numbers a column of texts
        sample = [str(cell) for cell in column[:100].to_pylist()]
        if tables.are_lists(sample):
            return "lists"
        mostly = sum(map(is_number, sample)) > len(sample) / 2
        return "number" if mostly else "text"
    if kind.startswith(LISTS):
        return "lists"
    return "number" if kind.startswith(("int", "uint", *FLOATS, "decimal")) else "other"


def _values(path: Path, name: str, column: Any) -> AnyArray:
    kind = str(column.type)
    if kind.startswith(LISTS):
        if column.null_count or len(lengths := _lengths(column)) != 1:
            raise DataError(f"{path}: the lists in column {name!r} have different lengths, expected one per class")
        (width,) = lengths
        parts = [chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, width) for chunk in column.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    if kind.startswith("dictionary"):
        import pyarrow as pa

        values = column.type.value_type
        views = "view" in str(values)  # those of polars, which pyarrow does not cast
        column = pa.chunked_array([pa.array(column.to_pylist(), "string")]) if views else column.cast(values)
        kind = str(column.type)
    if column.null_count and not kind.startswith(FLOATS):
        column = column.fill_null("") if kind in TEXT else column.cast("float64")
    if kind.startswith("decimal"):
        column = column.cast("float64")
    if kind in TEXT and tables.are_lists([str(cell) for cell in column[:100].to_pylist()]):
        return tables.read_lists(path, name, column.to_pylist())
    found: AnyArray = column.to_numpy()
    return tables.words(found.tolist()) if kind in TEXT else found


def _lengths(column: Any) -> set[int]:
    """Distinct lengths of the lists in a column."""
    found = (np.unique(chunk.value_lengths().to_numpy(zero_copy_only=False)) for chunk in column.chunks)
    return {int(length) for lengths in found for length in lengths}


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
        from pyarrow import OSFile, feather, ipc
    if file.head.startswith(STREAM):
        with OSFile(str(path)) as opened:
            table: Any = ipc.open_stream(opened).read_all()
            file.refuse_more(opened.tell())
    else:
        file.refuse_again(b"ARROW1ARROW1")
        table = feather.read_table(path)
    table.validate(full=True)
    return arrow_archive(path, "arrow", table, ask)
