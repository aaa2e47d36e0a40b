"""Datasets whose values lie elsewhere: in other files, or in other datasets.

HDF5 reads zeros where such a source is missing or short, waits for ever on a pipe, and
takes bytes from any file that it may read. All of it is looked at before anything is read.
"""

import os
from math import prod
from pathlib import Path
from typing import Any

import h5py

from calcli.errors import DataError
from calcli.io.inputs import note

PIECES = 100_000
"""So many pieces a virtual dataset may be put together from."""


def find_file(name: str, holder: str, variable: str, where: str) -> Path | None:
    """The file that HDF5 would open by a name that another file holds, None when there is none.

    holder : the file in which the name stands. variable : of the environment, with more
    folders to look in. Raises DataError for a pipe, a device or a folder.
    """
    folder = os.path.dirname(os.path.abspath(holder))
    tail = os.path.basename(name) if os.path.isabs(name) else name
    prefixes = [p.replace("${ORIGIN}", folder) for p in os.environ.get(variable, "").split(":") if p]
    folders = [*prefixes, folder, "", os.path.dirname(os.path.realpath(holder))]
    for place in ([name] if os.path.isabs(name) else []) + [os.path.join(f, tail) for f in folders]:
        if os.path.isfile(place):
            return Path(place)
        if os.path.exists(place):
            raise DataError(f"{where}: leads to {place}, which is no ordinary file; save it with its values inside")
    return None


def _check_place(path: Path, holder: str, where: str, allowed: bool) -> None:
    if not allowed and os.path.dirname(os.path.realpath(path)) != os.path.dirname(os.path.realpath(holder)):
        raise DataError(
            f"{where}: takes its values from {path}, which does not lie beside the file;"
            " pass --allow-external if you trust it"
        )


def check_external(dataset: h5py.Dataset, where: str, allowed: bool) -> None:
    """Check that external storage is whole and, unless ``allowed``, beside the file. Raises DataError."""
    holder = dataset.file.filename
    folder = os.path.dirname(os.path.abspath(holder))
    prefix = os.environ.get("HDF5_EXTFILE_PREFIX", "").replace("${ORIGIN}", folder)
    needed = prod(dataset.shape) * dataset.dtype.itemsize
    missing = needed
    for name, offset, size in dataset.external:
        path = Path(prefix, os.fsdecode(name))
        if not path.is_file():
            told = "is no ordinary file" if path.exists() else "is not there"
            raise DataError(f"{where}: takes its values from {path}, which {told}; bring it along")
        _check_place(path, holder, where, allowed)
        note(path)
        if path.stat().st_size - offset < min(size, missing):
            break
        missing -= min(size, missing)
    if missing:
        raise DataError(
            f"{where}: needs {needed} bytes of other files and they hold less, the rest would read as zeros;"
            " bring all of them along"
        )


def check_mapping(dataset: h5py.Dataset, where: str) -> None:
    """Check that the pieces of a virtual dataset cover all of it. Raises DataError."""
    covered = h5py.h5s.create_simple(dataset.shape)
    covered.select_none()
    pieces = 0
    for source in dataset.virtual_sources():
        for start, stride, count, block in _boxes(source.vspace, dataset.shape, where):
            pieces += prod(count)
            if pieces > PIECES:
                raise DataError(
                    f"{where}: is put together from more than {PIECES} pieces; copy it into a plain dataset"
                )
            covered.select_hyperslab(start, count, stride, block, op=h5py.h5s.SELECT_OR)
    mapped, total = covered.get_select_npoints(), prod(dataset.shape)
    if mapped < total:
        raise DataError(
            f"{where}: only {mapped} of its {total} values have a source, the rest would read as zeros;"
            " map all of them, or copy them into a plain dataset"
        )


def _boxes(space: Any, shape: tuple[int, ...], where: str) -> list[tuple[Any, Any, Any, Any]]:
    """A selection as hyperslabs: (start, stride, count, block)."""
    kind, ones = space.get_select_type(), (1,) * len(shape)
    if kind == h5py.h5s.SEL_NONE:
        return []
    if kind == h5py.h5s.SEL_ALL:
        return [((0,) * len(shape), ones, ones, shape)]
    if kind == h5py.h5s.SEL_HYPERSLABS and space.is_regular_hyperslab():
        start, stride, count, block = space.get_regular_hyperslab()
        if h5py.h5s.UNLIMITED in (*count, *block):
            raise DataError(f"{where}: grows with its sources; copy it into a plain dataset")
        if count == ones:
            stride = ones
        return [(start, stride, count, block)]
    if kind == h5py.h5s.SEL_HYPERSLABS and space.get_select_hyper_nblocks() <= PIECES:
        corners = space.get_select_hyper_blocklist()
        return [(low, ones, ones, tuple(high - low + 1)) for low, high in corners]
    raise DataError(f"{where}: is put together point by point; copy it into a plain dataset")


def check_source(source: Any, dataset: h5py.Dataset | None, where: str) -> None:
    """Check that what a virtual dataset takes from a source is there. Raises DataError."""
    told = f"{where}: takes its values from {source.dset_name} of {source.file_name}"
    if dataset is None:
        raise DataError(f"{told}, where it is not; bring it along")
    space = source.src_space
    if space.get_select_type() == h5py.h5s.SEL_ALL:
        fits = prod(dataset.shape) == source.vspace.get_select_npoints()
    else:
        _, last = space.get_select_bounds()
        fits = len(last) == len(dataset.shape) and all(h < n for h, n in zip(last, dataset.shape, strict=True))
    if not fits:
        raise DataError(f"{told}, which has shape {dataset.shape} and lacks some; bring the right one along")


def source_file(source: Any, dataset: h5py.Dataset, where: str, allowed: bool) -> Path:
    """The file of a source. Raises DataError for one that is missing, elsewhere, or named by a pattern."""
    for name in (source.file_name, source.dset_name):
        if "%" in name.replace("%%", ""):
            raise DataError(f"{where}: names its sources by a pattern, {name}; copy it into a plain dataset")
    holder = dataset.file.filename
    if source.file_name == ".":
        return Path(holder)
    name = source.file_name.replace("%%", "%")
    path = find_file(name, holder, "HDF5_VDS_PREFIX", where)
    if path is None:
        raise DataError(f"{where}: takes its values from {name}, which is not there; bring it along")
    _check_place(path, holder, where, allowed)
    return path
