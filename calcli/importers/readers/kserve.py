"""Responses of KServe and Triton (protocol V2): tensors as flat lists with a shape."""

from collections.abc import Mapping
from typing import Any

from calcli.errors import DataError
from calcli.importers.arranging.predicted_names import names_in_columns
from calcli.importers.formats import reader
from calcli.importers.json_arrays import array_of_shape
from calcli.importers.json_columns import (
    rows_of_columns,
    table_of_rows,
    with_class_names,
)
from calcli.importers.names.roles import role_of
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record, Table
from calcli.numerics import AnyArray

TENSOR = {"name", "shape", "datatype", "data"}


def _response_of(row: Record) -> Mapping[str, Any] | None:
    """The response that a row is, or has in one of its fields."""
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
    """Read the rows of all responses, one after another.

    What stands beside a response, such as the right label, belongs to all of its rows.
    An output that is called as labels are is a prediction: models do not know labels.
    Where predictions are words they name the classes, by the place of the largest score.
    """
    rows = []
    for number, record in enumerate(file.records):
        rows += _rows_of(record, f"{file.path}: response {number}")
    table = table_of_rows(file.path, "kserve", rows)
    outputs = []
    for name, column in table.columns.items():
        if name.partition(".")[0] not in file.records[0]:
            outputs.append(column)
    return with_class_names(table, names_in_columns(outputs))


def _rows_of(record: Record, where: str) -> list[dict[str, Any]]:
    """The rows of a response, each with what stands beside the response."""
    response = _response_of(record)
    assert response is not None  # the format was recognised by it
    tensors: dict[str, AnyArray] = {}
    for output in response["outputs"]:
        name = str(output["name"])
        if role_of(name) == "labels":
            name = f"predicted_{name}"
        if name in tensors:
            raise DataError(
                f"{where}: two outputs are named {name!r}; every output needs a name of"
                " its own"
            )
        place = f"{where}: output {name!r}"
        tensors[name] = array_of_shape(output["data"], output["shape"], place)
    if len(set(map(len, tensors.values()))) > 1:
        raise DataError(f"{where}: outputs have different numbers of rows")
    rows = rows_of_columns({name: array.tolist() for name, array in tensors.items()})
    if response is record:
        return rows
    beside = {key: cell for key, cell in record.items() if cell is not response}
    return [{**row, **beside} for row in rows]
