"""safetensors files, read from their published layout: length, JSON header, bytes.

The package itself ends the process on a file that is cut off while it is mapped.
"""

import json
from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Mapped, Table
from calcli.io.inputs import refuse_more
from calcli.numerics import bfloat16_to_float32

HEADER_LIMIT = 100_000_000  # longest header that the format allows, in bytes
TYPES = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "BF16": "<u2",
}
"""Names of types in the header -> NumPy's."""


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
def read_safetensors(file: SourceFile) -> Table:
    """Map the tensors of a safetensors file; bfloat16 becomes float32, exactly.

    Reference: the format description of the safetensors project.
    """
    path, length = file.path, _header_length(file)
    if length > min(HEADER_LIMIT, file.size - 8):
        raise DataError(
            f"{path}: the header should have {length} bytes, the file {file.size}; is"
            " the file complete?"
        )
    with path.open("rb") as opened:
        opened.seek(8)
        header = json.loads(opened.read(length))
        header.pop("__metadata__", None)
        ends = [int(about["data_offsets"][1]) for about in header.values()]
        opened.seek(8 + length + max(ends, default=0))
        more = opened.read(9)
        refuse_more(path, more if more[8:] == b"{" else b"")
    loaders = {}
    for name, about in header.items():
        loaders[name] = partial(_load, file, name, about, 8 + length)
    return Table.of(path, "safetensors", loaders)


def _load(file: SourceFile, name: str, about: Mapping[str, Any], base: int) -> Any:
    """Return the array of a tensor, mapped. base : where the tensors begin.

    Raises DataError.
    """
    where = f"{file.path}: tensor {name!r}"
    type_name = str(about["dtype"])[:20]
    if type_name not in TYPES:
        expected = ", ".join(TYPES)
        raise DataError(f"{where} has type {type_name}, expected one of {expected}")
    dtype = np.dtype(TYPES[type_name])
    shape = tuple(map(int, about["shape"]))
    first, last = map(int, about["data_offsets"])
    is_inside = first >= 0 and base + last <= file.size
    fits = min(shape, default=1) >= 0 and last - first == prod(shape) * dtype.itemsize
    if not fits or not is_inside:
        raise DataError(
            f"{where} does not fit its place in the file; is the file complete?"
        )
    if first == last:
        return np.empty(shape, dtype)
    raw = Mapped.at(file.path, name, dtype, base + first, shape)
    return bfloat16_to_float32(raw[...]) if type_name == "BF16" else raw
