"""Safe reading of HDF5 files that may be truncated, half written or full of links.

Every problem is a DataError.

HDF5 reads zeros where data was never written, and h5py treats objects that it cannot
open as missing; both are detected here.
"""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from traceback import walk_tb
from typing import Any
from weakref import WeakValueDictionary

import h5py
import numpy as np

from calcli.errors import (
    CalcliError,
    DataError,
    MissingFile,
    NoHDF5,
    SaysHow,
    one_line,
)
from calcli.io.atomic import is_stream
from calcli.io.hdf5_crash_test import probe
from calcli.io.inputs import note, refuse_more
from calcli.io.missing import no_such_file
from calcli.io.validate import refuse_bomb

HDF5 = b"\x89HDF\r\n\x1a\n"  # signature at the start of a file
END_OFFSETS = {
    0: 40,
    1: 44,
    2: 28,
    3: 28,
}
"""Offset of the end-of-file address, by superblock version."""

# ---- datasets stored elsewhere: external files and virtual datasets
# HDF5 reads zeros where such a source is missing or short, waits forever on a pipe, and
# reads bytes of any file that the user may read. All sources are checked before
# reading.


MOST_PIECES = 100_000  # most pieces of a virtual dataset


def find_file(name: str, holder: str, variable: str, where: str) -> Path | None:
    """Find the file that HDF5 would open for a name stored in another file.

    None if missing. holder : the file that stores the name. variable : environment
    variable with more folders to search. Raises DataError for a pipe, a device or a
    folder.
    """
    folder = os.path.dirname(os.path.abspath(holder))
    tail = os.path.basename(name) if os.path.isabs(name) else name
    prefixes = []
    for p in os.environ.get(variable, "").split(":"):
        if p:
            prefixes.append(p.replace("${ORIGIN}", folder))
    folders = [*prefixes, folder, "", os.path.dirname(os.path.realpath(holder))]
    for place in ([name] if os.path.isabs(name) else []) + [
        os.path.join(f, tail) for f in folders
    ]:
        if os.path.isfile(place):
            return Path(place)
        if os.path.exists(place):
            raise DataError(
                f"{where}: leads to {place}, which is no ordinary file; save it with"
                " its values inside"
            )
    return None


def _check_place(path: Path, holder: str, where: str, allowed: bool) -> None:
    if not allowed and os.path.dirname(os.path.realpath(path)) != os.path.dirname(
        os.path.realpath(holder)
    ):
        raise DataError(
            f"{where}: takes its values from {path}, which does not lie beside the"
            " file; pass --allow-external if you trust it"
        )


def check_external(dataset: h5py.Dataset, where: str, allowed: bool) -> None:
    """Check that external storage is complete and, unless ``allowed``, in the folder of
    the file. Raises DataError.
    """
    holder = dataset.file.filename
    folder = os.path.dirname(os.path.abspath(holder))
    prefix = os.environ.get("HDF5_EXTFILE_PREFIX", "").replace("${ORIGIN}", folder)
    needed = prod(dataset.shape) * dataset.dtype.itemsize
    missing = needed
    for name, offset, size in dataset.external:
        path = Path(prefix, os.fsdecode(name))
        if not path.is_file():
            message = "is no ordinary file" if path.exists() else "is not there"
            raise DataError(
                f"{where}: takes its values from {path}, which {message}; bring it"
                " along"
            )
        _check_place(path, holder, where, allowed)
        note(path)
        if path.stat().st_size - offset < min(size, missing):
            break
        missing -= min(size, missing)
    if missing:
        raise DataError(
            f"{where}: needs {needed} bytes of other files and they hold less, the rest"
            " would read as zeros; bring all of them along"
        )


def check_mapping(dataset: h5py.Dataset, where: str) -> None:
    """Check that the pieces of a virtual dataset cover all of it. Raises DataError."""
    covered = h5py.h5s.create_simple(dataset.shape)
    covered.select_none()
    pieces = 0
    for source in dataset.virtual_sources():
        for start, stride, count, block in _boxes(source.vspace, dataset.shape, where):
            pieces += prod(count)
            if pieces > MOST_PIECES:
                raise DataError(
                    f"{where}: is put together from more than {MOST_PIECES} pieces;"
                    " copy it into a plain dataset"
                )
            covered.select_hyperslab(start, count, stride, block, op=h5py.h5s.SELECT_OR)
    mapped = covered.get_select_npoints()
    total = prod(dataset.shape)
    if mapped < total:
        raise DataError(
            f"{where}: only {mapped} of its {total} values have a source, the rest"
            " would read as zeros; map all of them, or copy them into a plain dataset"
        )


def _boxes(
    space: Any, shape: tuple[int, ...], where: str
) -> list[tuple[Any, Any, Any, Any]]:
    """Split a selection into hyperslabs: (start, stride, count, block)."""
    kind = space.get_select_type()
    ones = (1,) * len(shape)
    if kind == h5py.h5s.SEL_NONE:
        return []
    if kind == h5py.h5s.SEL_ALL:
        return [((0,) * len(shape), ones, ones, shape)]
    if kind == h5py.h5s.SEL_HYPERSLABS and space.is_regular_hyperslab():
        start, stride, count, block = space.get_regular_hyperslab()
        if h5py.h5s.UNLIMITED in (*count, *block):
            raise DataError(
                f"{where}: grows with its sources; copy it into a plain dataset"
            )
        return [(start, ones if count == ones else stride, count, block)]
    if (
        kind == h5py.h5s.SEL_HYPERSLABS
        and space.get_select_hyper_nblocks() <= MOST_PIECES
    ):
        corners = space.get_select_hyper_blocklist()
        return [(low, ones, ones, tuple(high - low + 1)) for low, high in corners]
    raise DataError(
        f"{where}: is put together point by point; copy it into a plain dataset"
    )


def check_source(source: Any, dataset: Any, where: str) -> None:
    """Check that a source has all the elements that a virtual dataset reads from it.

    Raises DataError.
    """
    message = f"{where}: takes its values from {source.dset_name} of {source.file_name}"
    if not isinstance(dataset, h5py.Dataset):
        raise DataError(f"{message}, where it is not; bring it along")
    space = source.src_space
    if space.get_select_type() == h5py.h5s.SEL_ALL:
        fits = prod(dataset.shape) == source.vspace.get_select_npoints()
    else:
        _, last = space.get_select_bounds()
        fits = len(last) == len(dataset.shape) and all(
            h < n for h, n in zip(last, dataset.shape, strict=True)
        )
    if not fits:
        raise DataError(
            f"{message}, which has shape {dataset.shape} and lacks some;"
            " bring the right one along"
        )


MOST_CLOSED = 64  # open files up to which each is closed explicitly

_opened: "WeakValueDictionary[int, h5py.File]" = WeakValueDictionary()


@contextmanager
def open_file(path: Path) -> Iterator[h5py.File]:
    """Open an HDF5 file for reading.

    Raises DataError for a file that is missing, no HDF5 or damaged.
    """
    _check_file(path)
    note(path)
    probe(path)
    with _as_data_error(path):
        try:
            file = h5py.File(path, "r")
        except OSError as problem:
            if "errno = 11" in str(problem):
                raise DataError(
                    f"{path}: another program has it open for writing; close it there"
                    " first"
                ) from None
            if "unable to lock" not in str(problem):
                raise
            # Some network file systems have no locks.
            file = h5py.File(path, "r", locking=False)
    _opened[id(file)] = file
    try:
        with _as_data_error(path, by_h5py=True):
            yield file
    finally:
        # To close a file h5py visits every object of every open file: with a thousand
        # files, 20 ms each. Where there
        # are many, dropping the last reference closes it.
        if len(_opened) <= MOST_CLOSED:
            file.close()


def _check_file(path: Path) -> None:
    if str(path) == "-":
        raise DataError(
            "-: a bundle is HDF5, which cannot be read from a pipe; name a file"
        )
    if os.path.isdir(path):
        raise DataError(f"{path}: is a folder, expected an HDF5 file")
    if not os.path.exists(path):
        raise MissingFile(no_such_file(path))
    if is_stream(path):
        raise SaysHow(
            f"{path}: is a pipe or a device, expected a file; save it to a file first,"
            " or pipe it into calcli with - as the name"
        )
    try:
        with path.open("rb") as file:
            start = file.read(64)
            # Ignore another file appended to it.
            if start.startswith(HDF5) and (offset := END_OFFSETS.get(start[8])):
                file.seek(
                    min(int.from_bytes(start[offset : offset + 8], "little"), 1 << 62)
                )
                refuse_more(path, start[:8] if file.read(8) == HDF5 else b"")
    except OSError as problem:
        raise DataError(f"{path}: cannot be read: {problem.strerror}") from None
    if not start:
        raise DataError(
            f"{path}: the file is empty (did the command that should write it fail?)"
        )
    if start.lstrip().startswith(b"{"):
        raise DataError(
            f"{path}: is JSON, expected an HDF5 bundle; a calibrator goes before the"
            " bundles of apply and to --calibrator elsewhere"
        )
    if not h5py.is_hdf5(path):
        advice = (
            f"calcli extract {shlex.quote(str(path))} -o NEW.h5 imports other formats"
        )
        raise NoHDF5(
            f"{path}: is not an HDF5 file (or is cut off at its start)", advice=advice
        )


def names_in(group: h5py.Group) -> str:
    """List the names in a group, for messages."""
    names = []
    for key in group:
        names.append(key if isinstance(key, str) else repr(key))
    return ", ".join(names) or "nothing"


def texts(values: Any, where: str) -> list[str]:
    """Decode strings read from HDF5.

    Raises DataError that names the first invalid one.
    """
    strings = []
    for row, value in enumerate(np.ravel(values)):
        try:
            strings.append(value.decode() if isinstance(value, bytes) else str(value))
        except UnicodeDecodeError:
            raise DataError(
                f"{where}: entry {row} is {value[:40]!r}, expected UTF-8; write the"
                " strings anew"
            ) from None
    return strings


@contextmanager
def _as_data_error(where: object, *, by_h5py: bool = False) -> Iterator[None]:
    """Turn exceptions of h5py into a DataError that names ``where``.

    by_h5py : only those raised inside h5py.
    """
    try:
        yield
    except (CalcliError, MemoryError):
        raise
    except Exception as problem:
        files = (
            Path(frame.f_code.co_filename)
            for frame, _ in walk_tb(problem.__traceback__)
        )
        if by_h5py and all("h5py" not in file.parts for file in files):
            raise
        text = str(problem)
        if "filter returned failure" in text:  # for example a wrong checksum
            advice = "its bytes are damaged; fetch the file anew"
        elif "filter" in text:
            advice = "install the HDF5 filter it was compressed with"
        else:
            advice = "is the file complete?"
        raise DataError(
            f"{where}: cannot be read: {one_line(problem)}; {advice}"
        ) from None


MOST_LINKS = 16  # longest chain of links, as in HDF5


def lookup(group: h5py.Group, path: str, links: int = 0) -> Any:
    """Find a dataset or group at a path of a group; None if nothing is there.

    Links are followed here, step by step, as HDF5 would wait forever on one to a pipe.
    links : number followed so far. Raises DataError for a dangling link and for an
    object that cannot be opened.
    """
    node: Any = group.file if path.startswith("/") else group
    for step in path.split("/"):
        if step in ("", "."):
            continue
        link = _link(node, step)
        if link is None:
            return None
        where = f"{group.file.filename}: {path}"
        if isinstance(link, h5py.SoftLink):
            node = lookup(node, link.path, links + 1) if links < MOST_LINKS else None
            if node is None:
                raise DataError(
                    f"{where} is a link to {link.path}, where nothing can be found;"
                    " correct it"
                )
            continue
        if isinstance(link, h5py.ExternalLink):
            file = find_file(
                link.filename, node.file.filename, "HDF5_EXT_PREFIX", where
            )
            message = f"{where} is a link to {link.path} of {link.filename}, "
            if file is None or links >= MOST_LINKS:
                raise DataError(f"{message}which cannot be opened; is that file here?")
            with open_file(file) as other:
                if lookup(other, link.path, links + 1) is None:
                    raise DataError(f"{message}where nothing can be found; correct it")
        with _as_data_error(where):
            node = node[step]
    return node


def _link(node: Any, name: str) -> Any:
    if not isinstance(node, h5py.Group):
        return None
    try:
        return node.get(name, getlink=True)
    except ValueError:  # a name that no link can have
        return None


def find_groups(file: h5py.File) -> Iterator[tuple[str, h5py.Group]]:
    """Yield all groups with their paths, "" for the root, each once, as links may form
    cycles.
    """
    visited = set()
    todo: list[tuple[str, h5py.Group]] = [("", file)]
    while todo:
        name, group = todo.pop()
        about = h5py.h5o.get_info(group.id)
        if (about.fileno, about.addr) in visited:
            continue
        visited.add((about.fileno, about.addr))
        yield name, group
        children = []
        # Bytes: a name that is not UTF-8.
        for key in (key for key in group if isinstance(key, str)):
            try:
                child = lookup(group, key)
            except DataError:  # a dangling link matters only if it is asked for by name
                if isinstance(_link(group, key), h5py.HardLink):
                    raise
                continue
            if isinstance(child, h5py.Group):
                children.append((f"{name}/{key}".strip("/"), child))
        todo += reversed(children)


LARGEST_CHUNK = 1 << 30
"""Bytes of a chunk, or of all the rows that it spans, held in memory at once."""


def check_stored(
    dataset: h5py.Dataset,
    where: str,
    *,
    external: bool = False,
    checked: frozenset[tuple[str, str]] = frozenset(),
) -> None:
    """Refuse a dataset that is incomplete, or that would fill the memory from few
    stored bytes.

    external : allow values in files outside the folder of this one. checked : virtual
    datasets that lead here through their sources. Raises DataError.
    """
    if not dataset.shape or 0 in dataset.shape:
        return
    if dataset.is_virtual:
        return _check_virtual(dataset, where, external, checked)
    if dataset.external is not None:
        return check_external(dataset, where, external)
    stored = dataset.id.get_storage_size()
    if dataset.chunks is None and stored == 0:
        raise DataError(
            f"{where}: was created but never written; write it, or run again what made"
            " it"
        )
    if dataset.chunks is not None:
        expected = prod(
            -(-n // step) for n, step in zip(dataset.shape, dataset.chunks, strict=True)
        )
        written = dataset.id.get_num_chunks()
        if written < expected:
            raise DataError(
                f"{where}: only {written} of its {expected} chunks were ever written,"
                " the rest would read as zeros; was what made it interrupted, or is it"
                " larger than what it holds?"
            )
    row = prod(dataset.shape[1:]) * dataset.dtype.itemsize
    # A file in memory, or a system without st_blocks.
    with suppress(OSError, AttributeError):
        stored = min(stored, 512 * os.stat(dataset.file.filename).st_blocks)
    refuse_bomb(where, dataset.shape[0] * row, stored)
    if dataset.chunks is not None and dataset.chunks[0] * row > LARGEST_CHUNK:
        raise DataError(
            f"{where}: has chunks of {dataset.chunks[0]}"
            f" rows, {dataset.chunks[0] * row >> 20} MiB to read at once; write it in"
            " smaller chunks (h5repack -l CHUNK=…)"
        )


def _check_virtual(
    dataset: h5py.Dataset,
    where: str,
    external: bool,
    checked: frozenset[tuple[str, str]],
) -> None:
    """Check that a virtual dataset is fully mapped and each source is present and
    complete. Raises DataError.
    """
    check_mapping(dataset, where)
    holder = dataset.file.filename
    here = (os.path.realpath(holder), dataset.name)
    if here in checked or len(checked) > MOST_LINKS:
        raise DataError(
            f"{where}: takes its values from itself; write them into a plain dataset"
        )
    visited = set()
    for source in dataset.virtual_sources():
        for pattern in (source.file_name, source.dset_name):
            if "%" in pattern.replace("%%", ""):
                raise DataError(
                    f"{where}: names its sources by a pattern, {pattern}; copy it into"
                    " a plain dataset"
                )
        file = source.file_name.replace("%%", "%")
        name = source.dset_name.replace("%%", "%")
        path: Path | None = Path(holder)
        if file != ".":
            path = find_file(file, holder, "HDF5_VDS_PREFIX", where)
        if path is None:
            raise DataError(
                f"{where}: takes its values from {file}, which is not there; bring it"
                " along"
            )
        _check_place(path, holder, where, external)
        with open_file(path) as other:
            source_node = lookup(other, name)
            check_source(source, source_node, where)
            if (path, name) not in visited:
                check_stored(
                    source_node,
                    f"{path}: {name}",
                    external=external,
                    checked=checked | {here},
                )
        visited.add((path, name))


def read(dataset: h5py.Dataset, rows: Any, where: str) -> Any:
    """Read values of a dataset; ``rows`` is the index, as in ``dataset[rows]``.

    Raises DataError.
    """
    with _as_data_error(where):
        values = dataset[rows]
    return values


def check_bundle_format(node: h5py.Group, where: str) -> None:
    """Refuse a group marked as a bundle of a later format.

    An unmarked group has the current format.
    """
    version = node.attrs.get("calcli_bundle", 1)
    if (
        np.ndim(version)
        or not isinstance(version, int | float | np.number)
        or version != 1
    ):
        value = version.item() if isinstance(version, np.generic) else version
        raise DataError(
            f"{where}: attribute calcli_bundle is {value!r}, this calcli reads 1;"
            " upgrade calcli"
        )
