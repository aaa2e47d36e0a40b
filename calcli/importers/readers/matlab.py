"""MATLAB files: version 5 by SciPy; version 7.3 is HDF5 with a header of its own."""

from typing import Any

import numpy as np

from calcli.importers.formats import reader
from calcli.importers.readers.foreign_hdf5 import load_dataset
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Column, Table, constant
from calcli.io.hdf5 import HDF5, open_file
from calcli.items import are_all
from calcli.numerics import AnyArray

COUNTS_FROM_ONE = {"first_index": 1}


@reader(
    "matlab",
    "MATLAB files, version 5 and 7.3",
    suffixes=[".mat"],
    sniff=lambda file: file.head.startswith(b"MATLAB"),
    order=-2,
    examples=[("scores.mat", "")],
)
def read_matlab(file: SourceFile) -> Table:
    """List the variables of a MATLAB file, whose indices count from 1.

    Structures become folders of their fields; cells of words arrays of words.
    """
    arrays = _of_hdf5(file) if HDF5 in file.head else _of_version_5(file)
    columns = {}
    for name, array in arrays.items():
        column = Column(file.path, name, constant(array), attributes=COUNTS_FROM_ONE)
        columns[name] = column
    return Table(file.path, "matlab", columns)


def _of_version_5(file: SourceFile) -> dict[str, AnyArray]:
    from scipy.io import loadmat

    arrays: dict[str, AnyArray] = {}
    content = loadmat(file.path, simplify_cells=True)
    for name, value in content.items():
        if not name.startswith("__"):
            _add(arrays, name, value)
    return arrays


def _add(arrays: dict[str, AnyArray], path: str, value: Any) -> None:
    """Add a variable, or the fields of a structure."""
    if isinstance(value, dict):
        for name, inner in value.items():
            _add(arrays, f"{path}/{name}", inner)
        return
    array = np.atleast_1d(np.asarray(value))
    if array.dtype.kind == "O" and are_all(str, array.flat):
        array = array.astype("U")
    if array.dtype.kind in "biufU":
        arrays[path] = array


def _of_hdf5(file: SourceFile) -> dict[str, AnyArray]:
    """Variables of version 7.3, whose axes are in the order of Fortran."""
    opened = file.keep_open(open_file(file.path))
    arrays: dict[str, AnyArray] = {}

    def visit(name: str, node: Any) -> None:
        is_own = name.startswith("#")  # of MATLAB, not a variable
        if is_own or not hasattr(node, "chunks") or node.dtype.kind not in "biuf":
            return
        array = np.asarray(load_dataset(file.path, name, node)[...]).T
        is_text = node.attrs.get("MATLAB_class") == b"char"
        arrays[name] = _text(array) if is_text else np.squeeze(array)

    opened.visititems(visit)
    return arrays


def _text(codes: AnyArray) -> AnyArray:
    """Words of rows of character codes."""
    rows = np.atleast_2d(codes)
    return np.array(["".join(map(chr, row)).strip() for row in rows.tolist()])
