"""JSON and JSON Lines: rows as objects, or columns as lists."""

from pathlib import Path
from typing import Any

from calcli.errors import DataError
from calcli.importers.arranging.distributions import distribution_of_pairs
from calcli.importers.formats import reader
from calcli.importers.json_columns import column_of_cells, columns_of_cells, fields_of
from calcli.importers.json_layouts import (
    lists_of_columns,
    records_by_id,
    records_inside,
    refuse_artifact,
)
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.items import are_all

JSON_LINES = (".jsonl", ".ndjson")
"""Endings of files with an object on every line, which may be one."""


@reader(
    "json",
    "JSON and JSON Lines: an object per row, or lists as columns",
    sniff=lambda file: file.is_json,
    suffixes=[".json", ".jsonl", ".ndjson"],
    order=8,
    general=True,
    examples=[
        ("rows.jsonl", ""),
        ("pipeline_scores.json", "--gold truth.csv"),
        ("tokens.jsonl", "--confidence token_logprobs --correct correct --reduce sum"),
        ("predictions.jsonl", "--scores output.logits --labels gold --kind logits"),
    ],
)
def read_json(file: SourceFile) -> Table:
    """Read rows as objects, columns as lists, or a list of lists of numbers.

    An object of objects is a row each, its keys the ids; where these name scores or
    labels, a column each.
    """
    table = None
    if isinstance(file.json, dict):
        table = _table_of_object(file.path, file.json, file.suffix in JSON_LINES)
    elif isinstance(file.json, list) and file.json:
        table = _table_of_list(file)
    if table is None:
        raise DataError(
            f'{file.path}: holds no rows, expected objects such as {{"logits": [1.5,'
            ' -0.2], "label": 0}, or lists'
        )
    return table


def _table_of_list(file: SourceFile) -> Table | None:
    """Objects, lists of pairs as pipelines of transformers return them, or numbers."""
    path, values = file.path, file.json
    if file.records:
        return Table(path, "json", {}, records=file.records)
    if isinstance(values[0], list) and distribution_of_pairs(values[0]):
        return Table(path, "json", {}, records=[{"scores": row} for row in values])
    if are_all(list | int | float, values):
        column = column_of_cells(path, path.stem, values)
        return Table(path, "json", {path.stem: column}, is_single=True)
    return None


def _table_of_object(path: Path, value: dict[str, Any], is_line: bool) -> Table | None:
    """Rows, columns or arrays of an object. is_line : it may be a single row."""
    refuse_artifact(path, value)
    records = records_inside(value) or records_by_id(path, value)
    if records:
        return Table(path, "json", {}, records=records)
    lists = lists_of_columns(value)
    if lists is not None:
        columns = columns_of_cells(path, lists)
        return Table(path, "json", columns, len(next(iter(lists.values()))))
    if is_line:
        return Table(path, "json", {}, records=[value])
    lists = {}
    for name, cell in fields_of(value, "/").items():
        if isinstance(cell, list) and cell:
            lists[name] = cell
    columns = columns_of_cells(path, lists)
    return Table(path, "json", columns) if columns else None
