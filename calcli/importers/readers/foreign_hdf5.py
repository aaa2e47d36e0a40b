"""HDF5 files of any layout."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from calcli.block import PADDING
from calcli.importers.formats import reader
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Column, Mapped, Table
from calcli.io.hdf5 import HDF5, check_bundle_format, check_stored, open_file
from calcli.io.option_columns import (
    COLUMNS,
    N_OPTIONS,
    OPTIONS,
    check_n_options,
    log_probabilities,
    without_padding,
)
from calcli.io.validate import ORDERED, check_shape, score_kind
from calcli.numerics import AnyArray
from calcli.rows import SCORE_KINDS
from calcli.zeros import Zeros

SUFFIXES = (".h5", ".hdf5", ".hdf")


@reader(
    "hdf5",
    "HDF5 of any layout",
    suffixes=SUFFIXES,
    sniff=lambda file: (
        file.head.startswith(HDF5) or (file.suffix in SUFFIXES and HDF5 in file.head)
    ),
    examples=[("outputs.h5", "--scores run/out --labels run/truth --kind logits")],
)
def read_hdf5(file: SourceFile) -> Table:
    """List all datasets of an HDF5 file; numbers stay there until they are sliced.

    Soft and external links are not followed.
    """
    path = file.path
    opened = file.keep_open(open_file(path))
    columns: dict[str, Column] = {}
    check_bundle_format(opened, str(path))

    def visit(name: str | bytes, node: Any) -> None:
        if hasattr(node, "visititems"):
            check_bundle_format(node, f"{path}:{name!s}")
        # names that are no UTF-8 come as bytes, named types have no chunks
        is_dataset = isinstance(name, str) and hasattr(node, "chunks")
        if is_dataset and node.shape is not None:
            load = partial(load_dataset, path, str(name), node)
            zeros = Zeros.recorded(node.parent.attrs, f"{path}:{node.parent.name}")
            attributes = {ORDERED: node.parent.attrs.get(ORDERED)}
            columns[str(name)] = Column(
                path, str(name), load, zeros=zeros, attributes=attributes
            )

    opened.visititems(visit)
    return Table(path, "hdf5", _with_options(opened, columns))


def _with_options(opened: Any, columns: Mapping[str, Column]) -> dict[str, Column]:
    """The columns, with scores of options as ``choices`` has them of ragged rows."""
    found: dict[str, Column] = {}
    for name, column in columns.items():
        folder, _, own_name = name.rpartition("/")
        group = opened[folder or "/"]
        if group.attrs.get(COLUMNS) != OPTIONS or N_OPTIONS not in group:
            found[name] = column
        elif own_name in SCORE_KINDS:
            of_options = _scores_of_options(column, group[N_OPTIONS])
            found[of_options.name] = of_options
        elif own_name != N_OPTIONS:
            found[name] = column
    return found


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


def load_dataset(path: Path, name: str, dataset: Any) -> Any:
    """Words in memory, numbers as an array that stays in the file."""
    check_stored(dataset, f"{path}: {name}")
    if dataset.dtype.kind in "OS":
        return dataset.asstr()[()]
    return Mapped(lambda: dataset, path, name, dataset.attrs.get("dtype"))
