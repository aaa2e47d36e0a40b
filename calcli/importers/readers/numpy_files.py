"""NumPy's own files: .npz archives and single .npy arrays. Objects in them are never unpickled."""

import io
import re
import shutil
import tempfile
import zipfile
from contextlib import ExitStack
from functools import partial
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.archive import Archive, Mapped, SourceFile, member_start
from calcli.importers.columns import Column, table_archive
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.positions import Parts, objects
from calcli.importers.readers.pickles import content_archive, load_arrays
from calcli.io.validate import refuse_bomb
from calcli.numerics import bfloat16_to_float32, is_bfloat16

MAPPED = 16 << 20  # bytes from which an array stays in its file
UNPACKED = (
    256 << 20
)  # bytes from which a packed array is unpacked to a temporary file, where there is room


@reader(
    "npy",
    "one array of numpy.save",
    suffixes=[".npy"],
    sniff=lambda file: file.head.startswith(b"\x93NUMPY"),
    examples=[("logits.npy labels.npy", ""), ("preds.npy targets.npy", "--kind probs")],
)
def read_npy(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Archive:
    """Map a .npy file into memory; the array is named after the file. A dict saved by ``numpy.save`` is read as
    a pickle, without running anything."""
    path = file.path
    with path.open("rb") as opened:
        about = _header(opened)
        pickled = opened.read() if about is not None and about[0].hasobject else None
        if about is not None and pickled is None:
            file.refuse_more(opened.tell() + prod(about[1]) * about[0].itemsize)
    if pickled is not None:
        content = load_arrays(pickled, str(path))
        parts = (
            objects(content, f"{path}: {path.stem}")
            if isinstance(content, tuple)
            else None
        )
        if isinstance(parts, Parts):
            return Archive.held(path, "npy", {path.stem: parts}, loose=True)
        return content_archive(path, "npy", content)
    if (
        about is not None and about[0].names is not None
    ):  # as ``DataFrame.to_records`` and record arrays are
        rows = np.load(path, allow_pickle=False).reshape(-1)
        kinds = {"U": "text", "S": "text", "b": "other"}
        columns = {}
        for name in rows.dtype.names:
            kind: Any = (
                "lists"
                if rows[name].ndim > 1
                else kinds.get(rows[name].dtype.kind, "number")
            )
            columns[str(name)] = Column(kind, np.ascontiguousarray, rows[name])
        return table_archive(path, "npy", columns, len(rows), ask)
    mapped = partial(np.load, path, mmap_mode="r", allow_pickle=False)
    return Archive.of(
        path, "npy", {path.stem: partial(Mapped, mapped, path, path.stem)}, loose=True
    )


def _header(file: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...], bool] | None:
    """(dtype, shape, Fortran order) of a .npy file, left positioned at its data; None for a broken header."""
    from numpy.lib import format as npy

    try:
        read_header = {
            (1, 0): npy.read_array_header_1_0,
            (2, 0): npy.read_array_header_2_0,
        }
        shape, columns_first, dtype = read_header[npy.read_magic(file)](file)
    except Exception:  # the header is a Python expression that may be broken in any way
        return None
    return dtype, shape, columns_first


def _is_npz(file: SourceFile) -> bool:
    if file.members is None:
        return (
            file.is_zip and file.suffix == ".npz"
        )  # truncated: the reader raises the error
    return any(name.endswith(".npy") for name in file.members)


@reader(
    "npz",
    "arrays of numpy.savez, or a zip of .npy files",
    suffixes=[".npz", ".zip"],
    sniff=_is_npz,
    order=1,
    examples=[("scores.npz", ""), ("pairs.zip", "")],
)
def read_npz(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Archive:
    """Open a .npz file; each array is read lazily."""
    path = file.path
    opened = stack.enter_context(
        path.open("rb")
    )  # NumPy would leave it open when it fails
    archive = stack.enter_context(np.load(opened, allow_pickle=False))

    def loader(name: str) -> Any:
        def load() -> Any:
            about = archive.zip.getinfo(f"{name}.npy")
            refuse_bomb(
                f"{path}: array {name!r}",
                about.file_size,
                about.compress_size,
                "save it with numpy.savez",
            )
            if (stored := _in_one_piece(path, archive.zip, about, stack)) is not None:
                return Mapped(stored, path, name)
            try:
                found = archive[
                    f"{name}.npy"
                ]  # by its full name: a member may be called like the array
            except ValueError as problem:
                if "allow_pickle" not in str(problem):
                    raise
                return _plain_objects(path, name, archive.zip.read(about))
            if not isinstance(
                found, np.ndarray
            ):  # NumPy returns bytes for other members
                raise DataError(f"{path}: {name!r} is no array; was the file damaged?")
            return bfloat16_to_float32(found) if is_bfloat16(found.dtype) else found

        return load

    # np.savez names positional arrays arr_0, arr_1, …
    # file managers add hidden files to a zip: .DS_Store, __MACOSX/._logits.npy
    hidden = re.compile(r"(.*/)?(\.|__MACOSX/).*")
    names = [
        name.removesuffix(".npy")
        for name in file.members or []
        if name.endswith(".npy")
    ]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"{path}: holds two arrays named {twice!r}; keep the right one")
    return Archive.of(
        path,
        "npz",
        {name: loader(name) for name in names if not hidden.fullmatch(name)},
    )


def _in_one_piece(
    path: Path, archive: zipfile.ZipFile, about: zipfile.ZipInfo, stack: ExitStack
) -> Any:
    """Loader that maps a large stored array, or a very large compressed one from a temporary file; None for others."""
    packed = about.compress_type != zipfile.ZIP_STORED
    if about.file_size < (UNPACKED if packed else MAPPED):
        return None
    with archive.open(about) if packed else path.open("rb") as file:
        if not packed:
            member_start(file, about.header_offset)
        header, start = _header(file), file.tell()
    small = packed and shutil.disk_usage(tempfile.gettempdir()).free < about.file_size
    if header is None or header[0].hasobject or header[2] or small:
        return None
    dtype, shape, _ = header
    lies = path
    if packed:
        lies = (
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calcli-")))
            / "array.npy"
        )
        with archive.open(about) as member, lies.open("wb") as whole:
            shutil.copyfileobj(member, whole, 1 << 20)
    return lambda: np.memmap(lies, dtype, "r", offset=start, shape=shape)


def _plain_objects(path: Path, name: str, data: bytes) -> Any:
    """Numbers, words or rows of an array of Python objects. Raises DataError."""
    file = io.BytesIO(data)
    about = _header(file)
    content = (
        None if about is None else load_arrays(file.read(), f"{path}: array {name!r}")
    )
    values = objects(content, f"{path}: {name}")
    if isinstance(values, Parts):
        return values
    if about is not None and values.ndim == 1 and values.size == np.prod(about[1]):
        values = values.reshape(about[1])
    if values.dtype.kind not in "biufUS" or not len(values):
        raise DataError(
            f"{path}: array {name!r} holds Python objects of several kinds, expected numbers or words"
        )
    return values
