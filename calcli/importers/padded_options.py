"""Scores of options that bundles pad: as arrays, with what pads a row in memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.block import PADDING
from calcli.importers.table import Column
from calcli.io.option_columns import (
    COLUMNS,
    N_OPTIONS,
    OPTIONS,
    check_n_options,
    log_probabilities,
    without_padding,
)
from calcli.io.validate import check_shape, score_kind
from calcli.numerics import AnyArray
from calcli.rows import SCORE_KINDS


def with_options(opened: Any, columns: Mapping[str, Column]) -> dict[str, Column]:
    """The columns, with scores of options as ``choices`` has them of ragged rows."""
    arrays: dict[str, Column] = {}
    for name, column in columns.items():
        folder, _, own_name = name.rpartition("/")
        group = opened[folder or "/"]
        if group.attrs.get(COLUMNS) != OPTIONS or N_OPTIONS not in group:
            arrays[name] = column
        elif own_name in SCORE_KINDS:
            of_options = _scores_of_options(column, group[N_OPTIONS])
            arrays[of_options.name] = of_options
        elif own_name != N_OPTIONS:
            arrays[name] = column
    return arrays


def _scores_of_options(column: Column, numbers: Any) -> Column:
    """Padded scores as logits or logarithms, padded with ``PADDING``."""
    folder, slash, own_name = column.name.rpartition("/")
    kind = score_kind(own_name)
    name = column.name
    if kind == "probs":
        name = f"{folder}{slash}log_probs"

    def load() -> AnyArray:
        scores = np.asarray(column.load()[()])
        n, k = check_shape(scores.shape, scores.dtype, column.where)
        n_options = check_n_options(numbers[()], n, k, column.where)
        filled = without_padding(scores, n_options, kind, column.where, 0)
        if kind != "probs":
            return filled
        logs = log_probabilities(filled.astype(np.float64), n_options)
        return np.where(np.isneginf(logs), PADDING, logs)

    attributes = {**column.attributes, OPTIONS: True}
    return replace(column, name=name, get=load, attributes=attributes)
