"""Tensors of PyTorch files: checked before torch reads them, mapped as arrays."""

import io
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, one_line
from calcli.importers.pickled import Unhashing
from calcli.importers.ragged import Parts
from calcli.importers.table import Mapped
from calcli.io.validate import refuse_bomb

LARGEST_PICKLE = 64 << 20
N_PICKLES_OF_LEGACY = 4
"""Pickles of a file that is no zip archive: number, version, system, content."""


class _Anything:
    """Stand-in for any object that a pickle builds."""

    def __new__(cls, *args: Any, **options: Any) -> "_Anything":
        return object.__new__(cls)

    def __call__(self, *args: Any) -> "_Anything":
        return self

    append = extend = __setitem__ = __setstate__ = __call__


class _Walk(Unhashing):
    """Parses a pickle without building anything."""

    def find_class(self, module: str, name: str) -> Any:
        return _Anything

    def persistent_load(self, pid: Any) -> Any:
        return _Anything()


def check_structure(path: Path) -> None:
    """Refuse a pickle with keys that are slow to hash, or too large for its tensors.

    This is done before torch reads it. Raises DataError.
    """
    try:
        if zipfile.is_zipfile(path):
            _check_zip(path)
            return
        with path.open("rb") as file:
            for _ in range(N_PICKLES_OF_LEGACY):
                _Walk(file, encoding="latin1").load()
    except pickle.UnpicklingError as problem:
        raise DataError(f"{path}: {refusal(problem)}") from None


def _check_zip(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            where = f"{path}: {member.filename}"
            refuse_bomb(where, member.file_size, member.compress_size)
            if not member.filename.endswith("data.pkl"):
                continue
            if member.file_size > LARGEST_PICKLE:
                raise DataError(
                    f"{path}: lists more than tensors; save a dict of tensors with"
                    " torch.save"
                )
            _Walk(io.BytesIO(archive.read(member)), encoding="latin1").load()


def loader_of(value: Any, path: Path) -> Callable[[], Any]:
    """Function that returns a tensor as an array that stays in its file."""
    if isinstance(value, np.ndarray | Parts):
        return lambda: value
    size = path.stat().st_size

    def check_size() -> None:
        """Check the file's size: access beyond its end ends the process."""
        now = path.stat().st_size
        if now < size:
            raise ValueError(f"the file was cut short, from {size} bytes to {now}")

    def load() -> Any:
        import torch

        check_size()
        tensor = value.detach()
        if tensor.is_sparse:
            tensor = tensor.to_dense()
        n_bytes = tensor.numel() * tensor.element_size()
        stored = tensor.untyped_storage().nbytes()
        refuse_bomb(path, n_bytes, stored, "save tensor.contiguous()")
        if tensor.dtype == torch.bfloat16:  # which NumPy does not have
            tensor = tensor.float()
        array = tensor.numpy()

        def open_map() -> Any:
            check_size()
            return array

        return Mapped(open_map, path, path.stem)

    return load


def refusal(problem: Exception) -> str:
    """Short message for an error of torch."""
    pattern = (
        r"(?:Unsupported (?:global: GLOBAL|class)|Trying to load unsupported GLOBAL)"
        r"\s+(\S+)"
    )
    match = re.search(pattern, str(problem))
    if match is None:
        message = f"cannot be read as plain tensors: {one_line(problem)}"
        return f"{message}; is the file complete?"
    if match[1].startswith("numpy."):
        advice = "save them with torch.from_numpy(…), or with numpy.savez"
        return f"holds NumPy arrays, expected tensors; {advice}"
    reason = "which is no tensor and would have to be run to be read"
    advice = "save plain tensors: torch.save({'logits': …}, path)"
    return f"holds {match[1].rstrip('.,')}, {reason}; {advice}"
