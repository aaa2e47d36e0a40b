"""Convert padded scores of options in files to the padding that calcli has in memory.

In HDF5 an attribute says that columns are options. In other formats, which have none,
the array ``n_options`` says it, where all scores are padded as it says.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import parse_name
from calcli.importers.table import Column, Columns, Table
from calcli.io.option_columns import (
    COLUMNS,
    N_OPTIONS,
    OPTIONS,
    check_n_options,
    dtype_with_padding,
    has_padding_of_files,
    scores_in_memory,
)
from calcli.io.validate import check_shape, score_kind
from calcli.numerics import AnyArray
from calcli.rows import SCORE_KINDS


def with_padding_in_memory(
    file: Any, columns: Mapping[str, Column]
) -> dict[str, Column]:
    """The columns, where rows of fewer options are padded with ``PADDING``.

    Probabilities become ``log_probs``, and ``n_options`` is no column any more. file :
    the open HDF5 file.
    """
    arrays: dict[str, Column] = {}
    for name, column in columns.items():
        folder, _, own_name = name.rpartition("/")
        group = file[folder or "/"]
        if group.attrs.get(COLUMNS) != OPTIONS or N_OPTIONS not in group:
            arrays[name] = column
        elif own_name in SCORE_KINDS:
            of_options = _scores_of_options(column, group[N_OPTIONS])
            arrays[of_options.name] = of_options
        elif own_name != N_OPTIONS:
            arrays[name] = column
    return arrays


def with_proven_options(table: Table) -> Table:
    """The table, with scores that are padded as its ``n_options`` says in memory.

    That is how ``apply`` writes options in formats without attributes. A column of this
    name that is not the number of scores of every row is left as it is.
    """
    columns = dict(table.columns)
    for path, column in table.columns.items():
        if PurePosixPath(path).name != N_OPTIONS:
            continue
        padded = _padded_beside(path, column, table.columns)
        for name in padded:
            of_options = _scores_of_options(table.columns[name], column.values())
            del columns[name]
            columns[of_options.name] = of_options
        if padded:
            del columns[path]
    return replace(table, columns=columns)


def _padded_beside(
    path: str, n_options: Column, columns: Mapping[str, Column]
) -> list[str]:
    """Paths of the scores in the same folder that are padded as ``n_options`` says."""
    padded = []
    for name, column in columns.items():
        is_beside = PurePosixPath(name).parent == PurePosixPath(path).parent
        kind = parse_name(name).kind
        if not is_beside or kind not in SCORE_KINDS:
            continue
        try:
            counts = n_options.values()
            scores = np.asarray(column.load()[()])
            n, k = check_shape(scores.shape, scores.dtype, column.where)
            in_row = check_n_options(counts, n, k, n_options.where)
        except DataError:
            continue  # refused where they are read, if they are
        has_fewer = (in_row < k).any()
        if has_fewer and has_padding_of_files(scores, in_row, score_kind(kind)):
            padded.append(name)
    return padded


def _scores_of_options(column: Column, n_options: Any) -> Column:
    """Padded scores as logits or logarithms, padded with ``PADDING``."""
    folder, slash, own_name = column.name.rpartition("/")
    kind = score_kind(parse_name(own_name).kind)
    name = column.name
    if kind == "probs":
        name = f"{folder}{slash}{_name_of_logarithms(own_name)}"

    def load() -> AnyArray:
        scores = np.asarray(column.load()[()])
        n, k = check_shape(scores.shape, scores.dtype, column.where)
        in_row = check_n_options(n_options[()], n, k, column.where)
        scores = scores.astype(dtype_with_padding(scores.dtype), copy=False)
        return scores_in_memory(scores, in_row, kind, column.where)

    return replace(
        column, name=name, get=load, attributes=attributes_of_options(column)
    )


def _name_of_logarithms(own_name: str) -> str:
    """``log_probs`` with the model and the split of the name of probabilities."""
    if ":" in own_name:  # the columns as an option lists them
        return "log_probs"
    parts = parse_name(own_name)
    return "_".join(filter(None, [parts.model, "log_probs", parts.split]))


def attributes_of_options(column: Column) -> dict[str, Any]:
    """Attributes of scores that become padded options, perhaps under another name."""
    return {**column.attributes, OPTIONS: True, "name_in_file": column.name}


def under_names_in_memory(request: ImportRequest, columns: Columns) -> ImportRequest:
    """What is asked, with probabilities of options named as the logarithms they became."""
    names = {}
    for name, column in columns.items():
        in_file = column.attributes.get("name_in_file", name)
        if in_file != name and in_file not in columns:
            names[in_file] = name
    if names.keys().isdisjoint(request.scores):
        return request
    scores = tuple(names.get(name, name) for name in request.scores)
    kind = "log_probs" if request.kind == "probs" else request.kind
    return replace(request, scores=scores, kind=kind)
