"""Responses of KServe and Triton (protocol V2): tensors as flat lists with a shape."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.json_columns import column_of_cells
from calcli.importers.names import role_of
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Column, Table, constant

TENSOR = {"name", "shape", "datatype", "data"}


def _response_of(row: Any) -> Mapping[str, Any] | None:
    """The response that a row is, or has in one of its fields."""
    if not isinstance(row, dict):
        return None
    for value in (row, *row.values()):
        if isinstance(value, dict) and _are_tensors(value.get("outputs")):
            return value
    return None


def _are_tensors(outputs: Any) -> bool:
    if not isinstance(outputs, list) or not outputs:
        return False
    return all(isinstance(item, dict) and item.keys() >= TENSOR for item in outputs)


@reader(
    "kserve",
    "responses of KServe and Triton (protocol V2), one, or one on each line",
    suffixes=[".json", ".jsonl"],
    sniff=lambda file: (
        file.is_json
        and b'"outputs"' in file.head
        and bool(file.records)
        and all(_response_of(row) is not None for row in file.records)
    ),
    order=-1,
    examples=[("response.json", "--gold truth.csv")],
)
def read_kserve(file: SourceFile) -> Table:
    """Join the outputs of all responses.

    What stands beside a response, such as the right label, belongs to all of its rows.
    An output that is called as labels are is a prediction: models do not know labels.
    Where predictions are words they name the classes, by the place of the largest score.
    """
    arrays = _joined_outputs(file)
    class_names = _class_names(arrays)
    if class_names is not None:
        arrays.setdefault("class_names", class_names)
    columns = {}
    for name, array in arrays.items():
        columns[name] = Column(file.path, name, constant(array))
    for name, cells in _cells_beside(file).items():
        columns[name] = column_of_cells(file.path, name, cells)
    return Table(file.path, "kserve", columns)


def _joined_outputs(file: SourceFile) -> dict[str, Any]:
    """Arrays by the name of their output, the rows of all responses one after another."""
    parts: dict[str, list[Any]] = {}
    for number, row in enumerate(file.records):
        where = f"{file.path}: response {number}"
        tensors = _tensors(row, where)
        if number and tensors.keys() != parts.keys():
            message = f"has outputs {', '.join(tensors)}, the first {', '.join(parts)}"
            raise DataError(f"{where} {message}; expected the same")
        for name, tensor in tensors.items():
            parts.setdefault(name, []).append(tensor)
    arrays = {}
    for name, tensors_of in parts.items():
        arrays[name] = _joined(tensors_of, f"{file.path}: output {name!r}")
    return arrays


def _cells_beside(file: SourceFile) -> dict[str, list[Any]]:
    """Cells of the fields beside the responses, one for each row of a response."""
    cells_beside: dict[str, list[Any]] = {}
    for number, row in enumerate(file.records):
        response = _response_of(row)
        if response is row:
            continue
        tensors = _tensors(row, f"{file.path}: response {number}")
        n_rows = len(next(iter(tensors.values())))
        for name, cell in row.items():
            if cell is not response:
                cells_beside.setdefault(name, []).extend([cell] * n_rows)
    return cells_beside


def _tensors(row: Any, where: str) -> dict[str, Any]:
    """Arrays of a response by name, a row first."""
    response = _response_of(row)
    assert response is not None  # the format was recognised by it
    tensors = {}
    for output in response["outputs"]:
        name = str(output["name"])
        if role_of(name) == "labels":
            name = f"predicted_{name}"
        try:
            shape = [int(size) for size in output["shape"]]
            flat = np.array(output["data"])
        except (TypeError, ValueError):
            raise DataError(f"{where}: output {name!r} is no tensor") from None
        if not shape or flat.size != math.prod(shape):
            message = f"output {name!r} has {flat.size} values for shape {shape}"
            raise DataError(f"{where}: {message}")
        if name in tensors:
            raise DataError(
                f"{where}: two outputs are named {name!r}; every output needs a name of"
                " its own"
            )
        tensors[name] = flat.reshape(shape)
    n_rows = {len(tensor) for tensor in tensors.values()}
    if len(n_rows) > 1:
        raise DataError(f"{where}: outputs have different numbers of rows")
    return tensors


def _joined(tensors: list[Any], where: str) -> Any:
    """Rows of several responses as one array."""
    if len({tensor.shape[1:] for tensor in tensors}) > 1:
        raise DataError(f"{where}: has rows of different shapes")
    return np.concatenate(tensors)


def _class_names(arrays: Mapping[str, Any]) -> Any:
    """Names of the classes (k,), of an output of words and one of scores.

    None unless every place of the largest score goes with one word, and every class is
    predicted.
    """
    words = [array for array in arrays.values() if array.dtype.kind == "U"]
    scores = []
    for array in arrays.values():
        if array.dtype.kind == "f" and array.ndim == 2 and array.shape[1] > 1:
            scores.append(array)
    if len(words) != 1 or len(scores) != 1 or words[0].size != len(scores[0]):
        return None
    places = scores[0].argmax(axis=1).tolist()
    by_place: dict[int, str] = {}
    for place, word in zip(places, words[0].ravel().tolist(), strict=True):
        if by_place.setdefault(place, word) != word:
            return None
    k = scores[0].shape[1]
    if len(set(by_place.values())) < k:
        return None
    return np.array([by_place[place] for place in range(k)])
