"""NumPy's own files: .npz archives and .npy arrays; objects are never unpickled."""

from functools import partial
from math import prod

import numpy as np

from calcli.importers.formats import reader
from calcli.importers.labelled_arrays import has_labels, table_of_columns
from calcli.importers.npy_members import NpzArrays, read_header
from calcli.importers.pickled import load_arrays, table_of_content
from calcli.importers.ragged import Parts, array_of_objects
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Cells, Mapped, Table
from calcli.importers.text_cells import held_column

CELLS_OF_TYPE: dict[str, Cells] = {"U": "text", "S": "text", "b": "truth"}


@reader(
    "npy",
    "one array of numpy.save",
    suffixes=[".npy"],
    sniff=lambda file: file.head.startswith(b"\x93NUMPY"),
    examples=[("logits.npy labels.npy", ""), ("preds.npy targets.npy", "--kind probs")],
)
def read_npy(file: SourceFile) -> Table:
    """Map a .npy file into memory; the array is named after the file.

    A dict saved by ``numpy.save`` is read as a pickle, without running anything.
    """
    path = file.path
    with path.open("rb") as opened:
        header = read_header(opened)
        if header is not None and header.dtype.hasobject:
            return _table_of_objects(file, opened.read())
        if header is not None:
            file.refuse_more(opened.tell() + prod(header.shape) * header.dtype.itemsize)
    if header is not None and header.dtype.names is not None:
        return _table_of_records(file)
    open_map = partial(np.load, path, mmap_mode="r", allow_pickle=False)
    is_named = bool(file.request.scores or file.request.labels)
    if header is not None and not is_named and has_labels(open_map()):
        return table_of_columns(path, "npy", open_map())
    load = partial(Mapped, open_map, path, path.stem)
    return Table.of(path, "npy", {path.stem: load}, is_single=True)


def _table_of_objects(file: SourceFile, pickled: bytes) -> Table:
    """Arrays of pickled content; arrays of different lengths are units of one."""
    path = file.path
    content = load_arrays(pickled, str(path))
    if isinstance(content, tuple):
        parts = array_of_objects(content, f"{path}: {path.stem}")
        if isinstance(parts, Parts):
            return Table.held(path, "npy", {path.stem: parts}, is_single=True)
    return table_of_content(path, "npy", content)


def _table_of_records(file: SourceFile) -> Table:
    """Columns of a record array, as of ``DataFrame.to_records``."""
    rows = np.load(file.path, allow_pickle=False).reshape(-1)
    columns = {}
    for name in rows.dtype.names:
        values = np.ascontiguousarray(rows[name])
        cells: Cells = CELLS_OF_TYPE.get(values.dtype.kind, "number")
        if values.ndim > 1:
            cells = "lists"
        columns[str(name)] = held_column(file.path, str(name), values, cells)
    return Table(file.path, "npy", columns, len(rows))


def _is_npz(file: SourceFile) -> bool:
    if file.members is None:  # cut off: the reader raises the error
        return file.is_zip and file.suffix == ".npz"
    return any(name.endswith(".npy") for name in file.members)


@reader(
    "npz",
    "arrays of numpy.savez, or a zip of .npy files",
    suffixes=[".npz", ".zip"],
    sniff=_is_npz,
    order=1,
    examples=[("scores.npz", ""), ("pairs.zip", "")],
)
def read_npz(file: SourceFile) -> Table:
    """Open a .npz file; each array is read lazily."""
    arrays = NpzArrays(file)
    return Table.of(file.path, "npz", arrays.loaders())
