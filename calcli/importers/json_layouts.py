"""Where the rows are in a JSON object: in a list of it, by ids, or by columns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calcli.errors import DataError
from calcli.importers.names.array_names import parse_name, parse_names
from calcli.importers.table import Record
from calcli.items import are_all, has_any


def refuse_artifact(path: Path, value: Mapping[str, Any]) -> None:
    """Raise DataError for a calibrator."""
    if "calcli_artifact" not in value:
        return
    name = "-, beside the scores" if path.name == "stdin" else str(path)
    raise DataError(
        f"{path}: is a calibrator, no scores; name it with --calibrator {name}",
        no_command="the scores are in another file",
    )


def records_inside(value: dict[str, Any]) -> Sequence[Record]:
    """The one list of objects among settings, or the object itself as one row.

    ``{"model": …, "results": [{…}, …]}``; pandas' table is one. None for anything else.
    """
    lists_of_objects = []
    has_scores = False
    has_numbers = False
    for name, cell in value.items():
        role = parse_name(name).role
        if role == "labels" and not isinstance(cell, list | dict):
            return [value]
        has_scores = has_scores or role == "scores"
        if not isinstance(cell, list) or not cell:
            continue
        has_numbers = has_numbers or has_any(int | float | list, cell)
        if not role and are_all(dict, cell):
            lists_of_objects.append(cell)
    if len(lists_of_objects) != 1 or has_scores or has_numbers:
        return []
    return lists_of_objects[0]


def records_by_id(path: Path, value: Mapping[str, Any]) -> Sequence[Record]:
    """Rows of an object of objects, or answers by id; none for anything else."""
    cells = value.values()
    if are_all(dict, cells) and all(cells):
        return _records_of_objects(path, value)
    if len(value) > 1 and are_all(str | int, cells):
        return [{"ids": key, "labels": cell} for key, cell in value.items()]
    return []


def _records_of_objects(path: Path, value: Mapping[str, Any]) -> Sequence[Record]:
    """A row per key, which is its id, or from the columns of pandas' ``to_json``."""
    if any(name.role for name in parse_names(value)):  # {column: {index: cell}}
        return _records_of_columns(path, value)
    records = []
    for key, row in value.items():
        if any(map(_is_matrix, row.values())):
            return []  # sets of rows: {"val": {"logits": [[…], …], "labels": […]}, …}
        records.append({"ids": key, **row})
    return records


def _records_of_columns(path: Path, value: Mapping[str, Any]) -> Sequence[Record]:
    """Rows of ``{column: {index: cell}}``. Raises DataError where indices differ."""
    first, index = next(iter(value.items()))
    rows: dict[str, dict[str, Any]] = {key: {} for key in index}
    for name, column in value.items():
        if column.keys() != index.keys():
            raise DataError(
                f"{path}: column {name!r} has other rows than {first!r}, expected the"
                " same index in each"
            )
        for key, cell in column.items():
            rows[key][name] = cell
    return list(rows.values())


def _is_matrix(cell: Any) -> bool:
    return isinstance(cell, list) and bool(cell) and isinstance(cell[0], list)


def lists_of_columns(value: Mapping[str, Any]) -> Mapping[str, list[Any]] | None:
    """The columns of a table: flat lists of one length; None for anything else.

    One of them is named as labels or scores: others are more likely rows by id.
    """
    roles = {name.role for name in parse_names(value)}
    if roles.isdisjoint(("labels", "scores")) or len(value) < 3:
        return None
    lengths = set()
    for cells in value.values():
        if not isinstance(cells, list):
            return None
        if has_any(list | dict, cells):
            return None
        lengths.add(len(cells))
    return value if len(lengths) == 1 else None
