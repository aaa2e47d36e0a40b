"""Tables without column names: their columns are called 0, 1, 2, …"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calcli.errors import DataError
from calcli.importers.arranging.families import with_families
from calcli.importers.arranging.family import matrix_of
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
        raise _unnamed(table, arrays, real, others)
    matrix = matrix_of(table, table.columns, names)
    return replace(table, columns={matrix.name: matrix}, is_single=True)


def _unnamed(
    table: Table,
    arrays: Mapping[str, AnyArray],
    real: Sequence[str],
    others: Sequence[str],
) -> DataError:
    """Error about columns without names, with the command for one score and one label."""
    names = list(arrays)
    columns = list(real or names)
    listed = ":".join(dict.fromkeys((columns[0], columns[-1])))
    label = others[-1] if others else names[-1]
    message = (
        f"{table.file}: has no column names; name its {len(names)} columns by their"
        f" numbers: --scores {listed} --labels {label} --kind logits|log_probs|probs"
    )
    is_pair = len(names) == 2 and len(real) == len(others) == 1
    if is_pair and len(np.unique(arrays[others[0]])) == 2:
        score = arrays[real[0]]
        is_share = score.min() >= 0.0 and score.max() <= 1.0
        kind = "probs" if is_share else "logits"
        option = ["--scores", real[0], "--labels", others[0], "--kind", kind]
        return DataError(message, option=option)
    return DataError(
        message, no_command="nothing says which of them are scores and labels"
    )


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
