"""safetensors files, read from their published layout: length, JSON header, bytes.

The package itself ends the process on a file that is cut off while it is mapped.
"""

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path
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
        message = f"the header should have {length} bytes, the file {file.size}"
        raise DataError(f"{path}: {message}; is the file complete?")
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
        loaders[name] = _tensor(path, name, about, 8 + length, file.size).load
    return Table.of(path, "safetensors", loaders)


@dataclass(frozen=True)
class Tensor:
    """One tensor: its place in the file, in bytes."""

    path: Path
    name: str
    type_name: str
    shape: tuple[int, ...]
    start: int
    size: int
    is_inside: bool

    def load(self) -> Any:
        """Return the array, mapped. Raises DataError."""
        where = f"{self.path}: tensor {self.name!r}"
        if self.type_name not in TYPES:
            expected = f"expected one of {', '.join(TYPES)}"
            raise DataError(f"{where} has type {self.type_name}, {expected}")
        dtype = np.dtype(TYPES[self.type_name])
        fits = min(self.shape, default=1) >= 0
        fits = fits and self.size == prod(self.shape) * dtype.itemsize
        if not fits or not self.is_inside:
            message = "does not fit its place in the file; is the file complete?"
            raise DataError(f"{where} {message}")
        if self.size == 0:
            return np.empty(self.shape, dtype)
        raw = Mapped(lambda: self._map(dtype), self.path, self.name)
        return bfloat16_to_float32(raw[...]) if self.type_name == "BF16" else raw

    def _map(self, dtype: np.dtype[Any]) -> Any:
        return np.memmap(self.path, dtype, "r", offset=self.start, shape=self.shape)


def _tensor(
    path: Path, name: str, about: dict[str, Any], base: int, file_size: int
) -> Tensor:
    first, last = (int(offset) for offset in about["data_offsets"])
    return Tensor(
        path=path,
        name=name,
        type_name=str(about["dtype"])[:20],
        shape=tuple(int(length) for length in about["shape"]),
        start=base + first,
        size=last - first,
        is_inside=first >= 0 and base + last <= file_size,
    )
