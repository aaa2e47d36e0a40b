"""HDF5 files of any layout."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from calcli.importers.archive import Archive, Entry, Mapped, SourceFile
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.io.hdf5 import HDF5, check_bundle_format, check_stored, open_file
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
def read_hdf5(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Archive:
    """List all datasets of an HDF5 file; numbers stay in the file until they are sliced. Soft and external links are
    not followed."""
    path = file.path
    opened = stack.enter_context(open_file(path))
    entries: dict[str, Entry] = {}
    check_bundle_format(opened, str(path))

    def visit(name: str | bytes, node: Any) -> None:
        if hasattr(node, "visititems"):
            check_bundle_format(node, f"{path}:{name!s}")
        # A dataset with a shape, not a group or a named type; names that are no UTF-8 come as bytes.
        if isinstance(name, str) and hasattr(node, "chunks") and node.shape is not None:
            zeros = Zeros.recorded(node.parent.attrs, f"{path}:{node.parent.name}")
            entries[name] = Entry(
                path, name, partial(_load, path, name, node), zeros=zeros
            )

    opened.visititems(visit)
    return Archive(path, "hdf5", entries)


def _load(path: Path, name: str, dataset: Any) -> Any:
    check_stored(dataset, f"{path}: {name}")
    if dataset.dtype.kind in "OS":
        return dataset.asstr()[()]
    return Mapped(lambda: dataset, path, name, dataset.attrs.get("dtype"))
