"""Where the rows are in a JSON object: in a list of it, by ids, or by columns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calcli.errors import DataError
from calcli.importers.names import parse_name
from calcli.importers.table import Record


def refuse_artifact(path: Path, value: Mapping[str, Any]) -> None:
    """Raise DataError for a calibrator."""
    if "calcli_artifact" not in value:
        return
    name = "-, beside the scores" if path.name == "stdin" else str(path)
    message = "is a calibrator, no scores; name it with --calibrator"
    raise DataError(f"{path}: {message} {name}")


def records_inside(value: dict[str, Any]) -> Sequence[Record]:
    """The one list of objects among settings, or the object itself as one row.

    ``{"model": …, "results": [{…}, …]}``; pandas' table is one. None for anything else.
    """
    labels = [cell for name, cell in value.items() if parse_name(name).role == "labels"]
    if any(not isinstance(cell, list | dict) for cell in labels):
        return [value]
    lists = {
        name: cells
        for name, cells in value.items()
        if isinstance(cells, list) and cells
    }
    of_objects = [
        cells
        for name, cells in lists.items()
        if not parse_name(name).role and all(isinstance(row, dict) for row in cells)
    ]
    if len(of_objects) != 1:
        return []
    has_scores = any(parse_name(name).role == "scores" for name in value)
    has_numbers = any(
        isinstance(cell, int | float | list)
        for cells in lists.values()
        for cell in cells
    )
    return [] if has_scores or has_numbers else of_objects[0]


def records_by_id(path: Path, value: Mapping[str, Any]) -> Sequence[Record]:
    """Rows of an object of objects, or answers by id; none for anything else."""
    if all(isinstance(row, dict) and row for row in value.values()):
        return _records_of_objects(path, value)
    if len(value) > 1 and all(isinstance(cell, str | int) for cell in value.values()):
        return [{"ids": key, "labels": cell} for key, cell in value.items()]
    return []


def _records_of_objects(path: Path, value: Mapping[str, Any]) -> Sequence[Record]:
    """A row per key, which is its id, or from the columns of pandas' ``to_json``."""
    if any(parse_name(name).role for name in value):  # {column: {index: cell}}
        first, index = next(iter(value.items()))
        for name, column in value.items():
            if column.keys() != index.keys():
                message = f"column {name!r} has other rows than {first!r}"
                expected = "expected the same index in each"
                raise DataError(f"{path}: {message}, {expected}")
        return [{name: column[key] for name, column in value.items()} for key in index]
    cells = [cell for row in value.values() for cell in row.values()]
    if not cells or any(map(_is_matrix, cells)):
        return []  # sets of rows: {"val": {"logits": [[…], …], "labels": […]}, …}
    return [{"ids": key, **row} for key, row in value.items()]


def _is_matrix(cell: Any) -> bool:
    return isinstance(cell, list) and bool(cell) and isinstance(cell[0], list)


def lists_of_columns(value: Mapping[str, Any]) -> Mapping[str, list[Any]] | None:
    """The columns of a table: flat lists of one length; None for anything else.

    One of them is named as labels or scores: others are more likely rows by id.
    """
    if not any(parse_name(name).role in ("labels", "scores") for name in value):
        return None
    for cells in value.values():
        if not isinstance(cells, list):
            return None
        if any(isinstance(cell, list | dict) for cell in cells):
            return None
    if len(value) < 3 or len({len(cells) for cells in value.values()}) != 1:
        return None
    return value
