"""safetensors files, read from their published layout: a length, a JSON header, raw bytes."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.archive import Archive, Mapped, SourceFile
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.io.inputs import refuse_more
from calcli.numerics import bfloat16_to_float32

HEADER_LIMIT = 100_000_000  # longest header that the format allows, in bytes
TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2",
}  # fmt: skip


def _header_length(file: SourceFile) -> int:
    return int.from_bytes(file.head[:8], "little")


@reader(
    "safetensors",
    "tensors of the safetensors package",
    suffixes=[".safetensors"],
    sniff=lambda file: (
        file.head[8:9] == b"{"
        and (file.suffix == ".safetensors" or _header_length(file) < file.size)
    ),
    order=2,
    examples=[("scores.safetensors", "")],
)
def read_safetensors(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Archive:
    """Map the tensors of a safetensors file into memory; bfloat16 becomes float32, exactly. Reference: the format
    description of the safetensors project."""
    path, size = file.path, file.size
    if (length := _header_length(file)) > min(HEADER_LIMIT, size - 8):
        raise DataError(
            f"{path}: the header should have {length} bytes, the file {size}; is the file complete?"
        )
    with path.open("rb") as opened:
        opened.seek(8)
        header = json.loads(opened.read(length))
        header.pop("__metadata__", None)
        ends = [int(about["data_offsets"][1]) for about in header.values()]
        opened.seek(8 + length + max(ends, default=0))
        more = opened.read(9)
        refuse_more(path, more if more[8:] == b"{" else b"")
    loaders = {
        name: _loader(path, name, about, 8 + length, size)
        for name, about in header.items()
    }
    return Archive.of(path, "safetensors", loaders)


def _loader(
    path: Path, name: str, about: dict[str, Any], base: int, size: int
) -> Callable[[], Any]:
    kind, shape = str(about["dtype"])[:20], tuple(int(d) for d in about["shape"])
    first, last = (int(x) for x in about["data_offsets"])

    def load() -> Any:
        if kind not in TYPES:
            raise DataError(
                f"{path}: tensor {name!r} has type {kind}, expected one of {', '.join(TYPES)}"
            )
        dtype = np.dtype(TYPES[kind])
        if (
            min(shape, default=1) < 0
            or last - first != prod(shape) * dtype.itemsize
            or first < 0
            or base + last > size
        ):
            raise DataError(
                f"{path}: tensor {name!r} does not fit its place in the file; is the file complete?"
            )
        if first == last:
            return np.empty(shape, dtype)
        raw = Mapped(
            lambda: np.memmap(path, dtype, "r", offset=base + first, shape=shape),
            path,
            name,
        )
        return bfloat16_to_float32(raw[...]) if kind == "BF16" else raw

    return load
