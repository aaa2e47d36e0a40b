"""JSON and JSON Lines: rows as objects, or columns as lists."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from calcli.errors import DataError
from calcli.importers.archive import Archive, SourceFile, remark
from calcli.importers.array_names import parse_name
from calcli.importers.columns import refuse_doubles, table_archive
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.multiple_choice import by_choices
from calcli.importers.nested import (
    class_order,
    flatten,
    in_one_order,
    record_columns,
    value_column,
)
from calcli.importers.positions import token_rows
from calcli.importers.topk import listed_logprobs, named_scores


@reader(
    "json-table",
    "tables as W&B logs them and as pandas splits them: columns and rows of data",
    sniff=lambda file: (
        file.is_json
        and isinstance(file.json, dict)
        and all(isinstance(file.json.get(key), list) for key in ("columns", "data"))
    ),
    suffixes=[".json"],
    order=6,
    general=True,
    examples=[("media/table/preds.table.json", "")],
)
def read_json_table(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Archive:
    """Read ``{"columns": […], "data": [[…], …]}``; cells that are media are ignored."""
    path, names = file.path, [str(name) for name in file.json["columns"]]
    rows = file.json["data"]
    refuse_doubles(path, names)
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(names):
            raise DataError(
                f"{path}: row {number} is no list of {len(names)} cells, one per column"
            )
    if "index" not in file.json and len(rows) == 10_000:
        remark(
            f"{path.name}: 10000 rows, where W&B cuts the table of a run; are there more?"
        )
    columns = {
        name: value_column(path, name, [row[i] for row in rows])
        for i, name in enumerate(names)
    }
    return table_archive(path, "json-table", columns, len(rows), ask)


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
def read_json(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Archive:
    """Read rows as objects (``{"logits": […], "label": 2}``), columns as lists, or a list of lists of numbers. An
    object of objects is a row each, its keys the ids; where these name scores or labels, a column each."""
    path, value = file.path, file.json
    records = file.records
    if isinstance(value, dict):
        if "calcli_artifact" in value:
            name = "-, beside the scores" if path.name == "stdin" else path.name
            raise DataError(
                f"{path}: is a calibrator, no scores; name it with --calibrator {name}"
            )
        labels = [
            cell for name, cell in value.items() if parse_name(name).role == "labels"
        ]
        if all(
            isinstance(cell, (list, dict)) for cell in labels
        ):  # else one object is a row
            records = _rows_inside(value)
    if isinstance(value, list) and value and isinstance(value[0], list):
        wrapped = [{"scores": row} for row in value]
        if (
            "class_name" in named_scores(wrapped[:1])[0]
        ):  # as a pipeline of transformers returns them
            records = wrapped
    if records:
        rows = in_one_order(listed_logprobs(records, ask, str(path)), ask, str(path))
        rows = named_scores(token_rows(rows, ask, str(path)))
        ask = _all_named(rows, ask, str(path))
        return by_choices(path, "json", rows, ask)
    if (
        isinstance(value, list)
        and value
        and all(isinstance(row, (list, int, float)) for row in value)
    ):
        column = value_column(path, path.stem, value)
        return Archive.of(path, "json", {path.stem: column.load}, loose=True)
    if isinstance(value, dict):
        rows = []
        if all(isinstance(row, dict) and row for row in value.values()):
            rows = _rows_of_objects(path, value, ask)
        elif len(value) > 1 and all(
            isinstance(cell, (str, int)) for cell in value.values()
        ):  # answers by id
            rows = [{"ids": key, "labels": cell} for key, cell in value.items()]
        if rows:
            return table_archive(
                path, "json", record_columns(path, rows), len(rows), ask
            )
        if _is_columns(value):
            columns = {
                name: value_column(path, name, cells) for name, cells in value.items()
            }
            return table_archive(
                path, "json", columns, len(next(iter(value.values()))), ask
            )
        lists = flatten(
            value,
            lambda inner: isinstance(inner, list) and len(inner) > 0,
            path,
            into=(Mapping,),
        )
        loaders = {
            name: value_column(path, name, cells).load for name, cells in lists.items()
        }
        if loaders:
            return Archive.of(path, "json", loaders)
    raise DataError(
        f'{path}: holds no rows, expected objects such as {{"logits": [1.5, -0.2], "label": 0}}, or lists'
    )


def _all_named(
    rows: Sequence[Mapping[str, Any]], ask: ImportRequest, where: str
) -> ImportRequest:
    """Request classes by name if every row names the same ones, each in its own order: all classes are present."""
    named = [names for row in rows if isinstance(names := row.get("class_name"), list)]
    if not named or len(named) < len(rows) or ask.classes is not None:
        return ask
    known = {name for names in named for name in names}
    if ask.class_names or any(len(names) != len(known) for names in named):
        return replace(ask, classes=len(ask.class_names)) if ask.class_names else ask
    return replace(
        ask,
        classes=len(known),
        class_names=tuple(class_order(known, rows, ask, f"{where}: 'probs'")),
    )


def _rows_inside(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows from the one list of objects among settings: ``{"model": …, "results": [{…}, …]}``; pandas' table is one."""
    lists = {
        name: inner
        for name, inner in value.items()
        if isinstance(inner, list) and inner
    }
    rows = [
        i
        for n, i in lists.items()
        if not parse_name(n).role and all(isinstance(row, dict) for row in i)
    ]
    others = any(
        isinstance(cell, (int, float, list))
        for inner in lists.values()
        for cell in inner
    )
    others = others or any(parse_name(name).role == "scores" for name in value)
    return rows[0] if len(rows) == 1 and not others else []


def _rows_of_objects(
    path: Path, value: Mapping[str, Any], ask: ImportRequest
) -> list[dict[str, Any]]:
    """Rows of an object of objects: one per key, which is its id, or from the columns of pandas' ``to_json``."""
    if any(parse_name(name).role for name in value):  # {column: {index: cell}}
        first, index = next(iter(value.items()))
        if odd := next(
            (name for name, column in value.items() if column.keys() != index.keys()),
            None,
        ):
            raise DataError(
                f"{path}: column {odd!r} has other rows than {first!r}, expected the same index in each"
            )
        return [{name: column[key] for name, column in value.items()} for key in index]
    cells = [cell for row in value.values() for cell in row.values()]
    if not cells or any(
        isinstance(cell, list) and cell and isinstance(cell[0], list) for cell in cells
    ):
        return []  # sets of rows: {"val": {"logits": [[…], …], "labels": […]}, "test": …}
    return in_one_order(
        [{"ids": key, **row} for key, row in value.items()], ask, str(path)
    )


def _is_columns(value: Mapping[str, Any]) -> bool:
    """True for the columns of a table: flat lists of one length, one of which is named as labels or scores."""
    if not any(parse_name(name).role in ("labels", "scores") for name in value):
        return False  # more likely rows by id
    lists = list(value.values())
    flat = all(
        isinstance(cells, list)
        and not any(isinstance(cell, (list, dict)) for cell in cells)
        for cells in lists
    )
    return flat and len(lists) > 2 and len({len(cells) for cells in lists}) == 1
