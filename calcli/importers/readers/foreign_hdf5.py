"""HDF5 files of any layout."""

from functools import partial
from pathlib import Path
from typing import Any

from calcli.importers.arranging.padded_options import with_padding_in_memory
from calcli.importers.formats import reader
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Column, Mapped, Table
from calcli.io.hdf5 import HDF5, check_bundle_format, check_stored, open_file
from calcli.io.validate import ORDERED
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
            if "calcli_bundle" in node.parent.attrs:
                attributes["first_index"] = 0  # labels are indices, as calcli writes
            columns[str(name)] = Column(
                path, str(name), load, zeros=zeros, attributes=attributes
            )

    opened.visititems(visit)
    return Table(path, "hdf5", with_padding_in_memory(opened, columns))


def load_dataset(path: Path, name: str, dataset: Any) -> Any:
    """Words in memory, numbers as an array that stays in the file."""
    check_stored(dataset, f"{path}: {name}")
    if dataset.dtype.kind in "OS":
        return dataset.asstr()[()]
    return Mapped(lambda: dataset, path, name, dataset.attrs.get("dtype"))
