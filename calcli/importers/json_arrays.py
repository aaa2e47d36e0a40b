"""Arrays that JSON holds in other ways than as nested lists: flat, or as packed bytes."""

import base64
import io
import json
import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from calcli.errors import DataError, one_line
from calcli.numerics import AnyArray

BINARY = "$binary"
"""Key of bytes in MongoDB's JSON."""

MOST_BYTES = 1 << 24
"""Bytes of a packed array, so that a small file takes little memory."""

UNREADABLE = (ValueError, TypeError, KeyError, EOFError, zlib.error)


def array_of_shape(values: Any, shape: Any, where: str) -> AnyArray:
    """Array of a flat list of its values. Raises DataError."""
    try:
        sizes = list(map(int, shape))
        flat = np.array(values)
    except (TypeError, ValueError):
        raise DataError(f"{where} is no tensor") from None
    if not sizes or flat.size != math.prod(sizes):
        raise DataError(f"{where} has {flat.size} values for shape {sizes}")
    return flat.reshape(sizes)


def numbers_of(cell: Any, where: str) -> list[float]:
    """Numbers of a list, or of an array of NumPy that was saved, packed and encoded.

    Raises DataError.
    """
    is_packed = isinstance(cell, dict) and BINARY in cell
    if not cell or not (is_packed or isinstance(cell, list)):
        raise DataError(
            f"{where} are {json.dumps(cell)[:40]}, expected a list of numbers, or"
            f" {BINARY}"
        )
    try:
        return list(map(float, _unpacked(cell[BINARY]) if is_packed else cell))
    except UNREADABLE as problem:
        raise DataError(f"{where} cannot be read: {one_line(problem)}") from None


def _unpacked(encoded: Any) -> Sequence[float]:
    """The numbers of a packed array; raises one of ``UNREADABLE``."""
    if isinstance(encoded, dict):
        encoded = encoded["base64"]
    packed = base64.b64decode(encoded)
    saved = zlib.decompressobj().decompress(packed, MOST_BYTES)
    array = np.load(io.BytesIO(saved), allow_pickle=False)
    numbers: list[float] = np.asarray(array, dtype=float).reshape(-1).tolist()
    return numbers
