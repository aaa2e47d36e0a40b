"""Convert padded scores of options in HDF5 to the padding that calcli has in memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.importers.table import Column
from calcli.io.option_columns import (
    COLUMNS,
    N_OPTIONS,
    OPTIONS,
    check_n_options,
    holding_padding,
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


def _scores_of_options(column: Column, n_options: Any) -> Column:
    """Padded scores as logits or logarithms, padded with ``PADDING``."""
    folder, slash, own_name = column.name.rpartition("/")
    kind = score_kind(own_name)
    name = column.name
    if kind == "probs":
        name = f"{folder}{slash}log_probs"

    def load() -> AnyArray:
        scores = np.asarray(column.load()[()])
        n, k = check_shape(scores.shape, scores.dtype, column.where)
        in_row = check_n_options(n_options[()], n, k, column.where)
        scores = scores.astype(holding_padding(scores.dtype), copy=False)
        return scores_in_memory(scores, in_row, kind, column.where)

    attributes = {**column.attributes, OPTIONS: True}
    return replace(column, name=name, get=load, attributes=attributes)
