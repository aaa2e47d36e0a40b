"""Tables without column names: their columns are called 0, 1, 2, …"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calcli.errors import DataError
from calcli.importers.families import with_families
from calcli.importers.family import matrix_of
from calcli.importers.import_request import ImportRequest
from calcli.importers.remarks import remark
from calcli.importers.table import Table
from calcli.importers.text_cells import not_a_number
from calcli.io.cells import is_number
from calcli.numerics import AnyArray


def headerless(table: Table, request: ImportRequest) -> Table:
    """Arrays of a table whose columns are called 0, 1, 2, …

    They are named by ``--scores 0:9 --labels 10``. Without options the first or last
    column is the labels if it alone holds classes; a table without labels is a single
    array with the name of the file. Raises DataError for anything else.
    """
    names = list(table.columns)
    if len(names) > 1 and _are_named(names, request):
        return with_families(table, request)
    arrays = _loaded(table)
    real, others, lists = [], [], []
    for name, values in arrays.items():
        if values.ndim == 2:
            lists.append(name)
        if _is_real(values):
            real.append(name)
        elif _may_be_labels(values, table.n_rows or 0):
            others.append(name)
    if _is_labelled(arrays, lists or real, others):
        remark(
            f"{table.file.name}: has no column names; column {others[0]} was read as"
            f" the labels, {real[0]} to {real[-1]} as the scores"
        )
        scores = matrix_of(table, table.columns, real, "scores")
        labels = table.columns[others[0]].called("labels")
        return replace(table, columns={"scores": scores, "labels": labels})
    if len(names) > 1 and (lists or (real and others)):
        columns = real or names
        raise DataError(
            f"{table.file}: has no column names; name its {len(names)} columns by"
            f" their numbers: --scores {columns[0]}:{columns[-1]} --labels {names[-1]}"
            " --kind logits|log_probs|probs"
        )
    matrix = matrix_of(table, table.columns, names)
    return replace(table, columns={matrix.name: matrix}, is_single=True)


def _are_named(names: Sequence[str], request: ImportRequest) -> bool:
    """True if options name columns that exist: ``0:9``, ``0,1,2``."""
    options = (*request.scores, *request.labels)
    pieces = re.split("[,:]", ",".join(options)) if options else []
    return bool(pieces) and all(piece.strip() in names for piece in pieces)


def _loaded(table: Table) -> dict[str, AnyArray]:
    """All columns in memory. Raises DataError for words below a number."""
    arrays = {}
    for name, column in table.columns.items():
        arrays[name] = column.load()
    for name, values in arrays.items():
        if values.dtype.kind == "U" and is_number(str(values[0])):
            raise not_a_number(table.file, name, values.tolist())
    return arrays


def _is_real(values: AnyArray) -> bool:
    return values.dtype.kind == "f" and bool((values != np.floor(values)).any())


def _may_be_labels(values: AnyArray, n_rows: int) -> bool:
    """True for words, and for whole numbers that are not all 0."""
    if values.dtype.kind in "US":
        return True
    return n_rows > 2 and bool(values.any())


def _is_labelled(
    arrays: Mapping[str, AnyArray], scores: Sequence[str], others: Sequence[str]
) -> bool:
    """True if one column, at an end, holds the classes and all others scores."""
    names = list(arrays)
    if len(others) != 1 or others[0] not in (names[0], names[-1]):
        return False
    if not scores or len(scores) != len(names) - 1:
        return False
    k = len(scores)
    if arrays[scores[0]].ndim == 2:
        k = arrays[scores[0]].shape[1]
    if k < 2:
        return False
    labels = arrays[others[0]]
    if labels.dtype.kind in "US":
        return True
    return bool(labels.min() >= 0 and labels.max() < k)
