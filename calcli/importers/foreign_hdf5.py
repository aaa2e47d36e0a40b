"""HDF5 files of any layout."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from calcli.importers.archive import Archive, Mapped, reading
from calcli.io.hdf5 import check_stored, open_file

__all__ = ["read_hdf5"]


def read_hdf5(path: Path, stack: ExitStack) -> Archive:
    """List all datasets of an HDF5 file; numbers stay in the file until they are sliced.

    Soft and external links are not followed.
    """
    file = stack.enter_context(open_file(path))
    datasets: dict[str, Any] = {}

    def visit(name: str | bytes, node: Any) -> None:
        # A dataset, not a group or a named type; names that are no UTF-8 come as bytes.
        if isinstance(name, str) and hasattr(node, "dtype") and hasattr(node, "chunks"):
            datasets[name] = node

    with reading(path, "the list of datasets"):
        file.visititems(visit)
    return Archive.of(path, "hdf5", {name: _loader(path, name, node) for name, node in datasets.items()})


def _loader(path: Path, name: str, dataset: Any) -> Callable[[], Any]:
    def load() -> Any:
        check_stored(dataset, f"{path}: {name}")
        if dataset.dtype.kind in "OS":
            return dataset.asstr()[()]
        return Mapped(lambda: dataset, path, name)

    return load
