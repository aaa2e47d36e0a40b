"""Columns of tables of pyarrow, which Parquet, Feather and large CSV files become."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.arranging.distributions import (
    SPARSE_KEYS,
    VECTOR_KEYS,
    dense_vector,
)
from calcli.importers.ragged import Parts, array_of_objects
from calcli.importers.table import Cells, Column, Table
from calcli.importers.text_cells import (
    CELLS_SEEN,
    are_lists,
    held_column,
    mostly_numbers,
    read_lists,
    words,
)
from calcli.importers.text_table import refuse_doubles
from calcli.items import are_all
from calcli.numerics import AnyArray, BoolArray

TEXT = ("string", "large_string", "string_view")
LISTS = ("list", "large_list", "fixed_size_list")
FLOATS = ("float", "double", "halffloat")

_OF_OBJECTS = re.compile(r"\w+<[^<>]*: struct<")
"""Beginning of the type of lists of objects: ``list<element: struct<…>>``."""


def table_of_arrow(path: Path, format: str, table: Any) -> Table:
    """Columns of a pyarrow table, a column for each field of its structs.

    Fields of structs get dotted names: ``probs.cat``.
    """
    table = _with_maps_as_structs(_with_dense_vectors(table))
    while any(str(field.type).startswith("struct") for field in table.schema):
        table = table.flatten()
    refuse_doubles(path, table.column_names)
    metadata = table.schema.metadata or {}
    columns = columns_of_arrow(path, table, _declared_classes(metadata))
    is_ours = b"calibrated_by" in metadata
    return Table(path, format, columns, table.num_rows, is_ours=is_ours)


def _with_dense_vectors(table: Any) -> Any:
    """Vectors of Spark ML as lists of numbers."""
    import pyarrow as pa

    vector_fields = VECTOR_KEYS | SPARSE_KEYS
    for place, field in enumerate(table.schema):
        if not pa.types.is_struct(field.type):
            continue
        if {inner.name for inner in field.type} != vector_fields:
            continue
        vectors = []
        for cell in table.column(place).to_pylist():
            vectors.append(None if cell is None else dense_vector(cell))
        lists = pa.array(vectors, pa.list_(pa.float64()))
        table = table.set_column(place, field.name, lists)
    return table


def _with_maps_as_structs(table: Any) -> Any:
    """Maps with the same keys in every row as objects of these fields."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if not pa.types.is_map(field.type) or table.column(place).null_count:
            continue
        objects = []
        for cell in table.column(place).to_pylist():
            objects.append({str(key): value for key, value in cell})
        keys = {tuple(sorted(cell)) for cell in objects}
        if len(keys) == 1:
            table = table.set_column(place, field.name, pa.array(objects))
    return table


def _declared_classes(metadata: Mapping[bytes, bytes]) -> dict[str, AnyArray]:
    """Class names by column, which datasets stores with a ClassLabel."""
    try:
        about = json.loads(metadata.get(b"huggingface", b"{}"))
        features = about["info"]["features"].items()
        declared = {}
        for name, feature in features:
            if feature.get("_type") == "ClassLabel":
                declared[name] = feature["names"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    classes_by_column = {}
    for name, classes in declared.items():
        if are_all(str, classes):
            classes_by_column[name] = np.array(classes)
    return classes_by_column


def columns_of_arrow(
    path: Path, table: Any, classes: Mapping[str, AnyArray] | None = None
) -> dict[str, Column]:
    """Columns of a pyarrow table. classes : declared names of values, by column."""
    columns = {}
    for name, cells in zip(table.column_names, table.columns, strict=True):
        empty_row = None
        may_be_nan = str(cells.type).startswith((*FLOATS, *LISTS))
        if cells.null_count and not may_be_nan:
            empty_row = cells.is_null().index(True).as_py()
        parse = partial(_values, path, name)
        column = held_column(path, name, cells, _cells_of(cells), empty_row, parse)
        columns[name] = replace(column, written=partial(_written_cells, cells))
        if classes and name in classes:
            attributes = {"classes": classes[name]}
            columns[name] = replace(columns[name], attributes=attributes)
    return columns


def _written_cells(column: Any) -> Any:
    """Cells as the file has them, None for a missing value."""
    kind = str(column.type)
    if kind.startswith(("int", "uint")) and not column.null_count:
        return column.to_numpy()
    if kind.startswith("timestamp") and "tz=" not in kind:
        return column.to_numpy()  # nanoseconds, which Python's own type lacks
    return column.to_pylist()


def _cells_of(column: Any) -> Cells:
    kind = str(column.type)
    if kind in TEXT:  # one text makes a column of numbers a column of texts
        first = list(map(str, column[:CELLS_SEEN].to_pylist()))
        if are_lists(first):
            return "lists"
        return "number" if mostly_numbers(first) else "text"
    if kind.startswith(LISTS):
        return "objects" if _OF_OBJECTS.match(kind) else "lists"
    if kind.startswith(("int", "uint", *FLOATS, "decimal")):
        return "number"
    if kind == "bool" and not column.null_count:
        return "truth"
    return "text" if kind.startswith("dictionary") else "other"


def _values(path: Path, name: str, column: Any) -> Any:
    kind = str(column.type)
    if kind.startswith(LISTS):
        return _lists(path, name, column)
    if kind.startswith("dictionary"):
        column = _without_dictionary(column)
        kind = str(column.type)
    if column.null_count and not kind.startswith(FLOATS):
        column = column.fill_null("") if kind in TEXT else column.cast("float64")
    if kind.startswith("decimal"):
        column = column.cast("float64")
    if kind in TEXT:
        texts = column.to_pylist()
        is_printed = are_lists(list(map(str, texts[:CELLS_SEEN])))
        return read_lists(path, name, texts) if is_printed else words(texts)
    return column.to_numpy()


def _lists(path: Path, name: str, column: Any) -> AnyArray | Parts:
    """Lists of one length as an array (n, length); of several lengths as ``Parts``.

    A missing list is a row of NaN.
    """
    import pyarrow as pa

    lengths = _lengths(column)
    if not pa.types.is_nested(column.type.value_type) and len(lengths) == 1:
        width = lengths.pop()
        parts = []
        for chunk in column.chunks:
            numbers = chunk.flatten().to_numpy(zero_copy_only=False)
            parts.append(numbers.reshape(-1, width))
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if not column.null_count:
            return rows
        if rows.dtype.kind in "iuf":
            return _with_gaps(rows, column.is_null().to_numpy())
    if column.null_count:
        row = int(column.is_null().to_numpy().argmax())
        raise DataError(
            f"{path}: column {name!r} is empty in row {row}, expected a list in every"
            " row"
        )
    values = array_of_objects(column.to_pylist(), f"{path}: {name}")
    if values.dtype.kind == "O":
        raise DataError(
            f"{path}: the lists in column {name!r} have different lengths, expected one"
            " per class"
        )
    return values


def _with_gaps(rows: AnyArray, is_missing: BoolArray) -> AnyArray:
    """Rows of numbers, with one of NaN for each that is missing."""
    dtype = rows.dtype if rows.dtype.kind == "f" else np.float64
    with_gaps = np.full((len(is_missing), rows.shape[1]), np.nan, dtype)
    with_gaps[~is_missing] = rows
    return with_gaps


def _lengths(column: Any) -> set[int]:
    """Distinct lengths of the lists in a column, missing ones aside."""
    lengths: set[int] = set()
    for chunk in column.chunks:
        values = chunk.drop_null().value_lengths().to_numpy(zero_copy_only=False)
        lengths.update(np.unique(values).tolist())
    return lengths


def _without_dictionary(column: Any) -> Any:
    """A column of words in place of one of codes."""
    import pyarrow as pa

    values = column.type.value_type
    if "view" in str(values):  # of polars, which pyarrow does not cast
        return pa.chunked_array([pa.array(column.to_pylist(), "string")])
    return column.cast(values)
