"""HDF5 files of any layout."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from calcli.bundle import open_file
from calcli.importers.archive import Archive

__all__ = ["read_hdf5"]


def read_hdf5(path: Path, stack: ExitStack) -> Archive:
    """List all datasets of an HDF5 file; numbers stay in the file until they are sliced.

    Soft and external links are not followed.
    """
    file = stack.enter_context(open_file(path))
    datasets: dict[str, Any] = {}

    def visit(name: str, node: Any) -> None:
        if hasattr(node, "dtype") and hasattr(node, "chunks"):  # a dataset, not a group or a named type
            datasets[name] = node

    file.visititems(visit)
    return Archive.of(path, "hdf5", {name: _loader(node) for name, node in datasets.items()})


def _loader(dataset: Any) -> Any:
    def load() -> Any:
        return dataset.asstr()[()] if dataset.dtype.kind in "OS" else dataset

    return load
