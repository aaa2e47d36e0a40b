"""PyTorch files: tensors saved with ``torch.save``, loaded with ``weights_only=True``."""

import io
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, one_line
from calcli.importers.archive import Archive, Mapped, SourceFile
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.nested import flatten, merge_batches
from calcli.importers.positions import Parts
from calcli.importers.readers.pickles import Unhashing
from calcli.io.validate import refuse_bomb
from calcli.optional_packages import optional_import

LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""First bytes of files of torch.save that are not zip archives: a pickled number."""


def _is_pt(file: SourceFile) -> bool:
    if file.is_zip and file.members is None:
        return file.suffix in (".pt", ".pth")  # truncated: the reader raises the error
    return file.head.startswith(LEGACY) or any(
        name.endswith("data.pkl") for name in file.members or []
    )


@reader(
    "pt",
    "tensors of torch.save",
    suffixes=[".pt", ".pth"],
    sniff=_is_pt,
    extra="torch",
    examples=[
        ("outputs.pt", ""),
        ("predictions_*.pt batch_indices_*.pt", "--join --no-labels --kind logits"),
    ],
)
def read_pt(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Archive:
    """Load tensors and containers of tensors; anything else in the file is refused, never run."""
    path = file.path
    _check_structure(path)
    if not file.is_zip:
        file.refuse_again(LEGACY)
    instead = "or save the arrays with numpy.savez"
    with optional_import("torch", f"{path}: reading PyTorch files", instead):
        import torch
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # torch warns about TorchScript archives and about its own storages
            # Files of torch < 1.6 are no zip archives and cannot be mapped.
            content = torch.load(
                path, map_location="cpu", weights_only=True, mmap=file.is_zip
            )
    except pickle.UnpicklingError as problem:
        raise DataError(f"{path}: {_refusal(problem)}") from None

    def taken(leaf: Any, listed: bool) -> Any:
        """Convert tensors in lists to arrays, so that batches can be joined; those in dicts stay mapped."""
        return (
            _loader(leaf, path)()[...]
            if listed and isinstance(leaf, torch.Tensor)
            else leaf
        )

    content = merge_batches(content, path, taken)
    found = flatten(
        content,
        lambda value: isinstance(value, (torch.Tensor, np.ndarray, Parts)),
        path,
    )
    if not found:
        raise DataError(
            f"{path}: holds no tensors; save a dict such as {{'logits': …, 'labels': …}} with torch.save"
        )
    loaders = {name or path.stem: _loader(value, path) for name, value in found.items()}
    return Archive.of(path, "pt", loaders, loose=set(found) == {""})


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


LARGEST_PICKLE = 64 << 20


def _check_structure(path: Path) -> None:
    """Refuse, before torch reads it, a pickle with keys that are slow to hash, or too large for a list of tensors."""
    try:
        if not zipfile.is_zipfile(path):
            with path.open("rb") as file:
                for _ in range(4):  # a number, a version, the system, and the content
                    _Walk(file, encoding="latin1").load()
            return
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                refuse_bomb(
                    f"{path}: {member.filename}", member.file_size, member.compress_size
                )
                if member.filename.endswith("data.pkl"):
                    if member.file_size > LARGEST_PICKLE:
                        raise DataError(
                            f"{path}: lists more than tensors; save a dict of tensors with torch.save"
                        )
                    _Walk(io.BytesIO(archive.read(member)), encoding="latin1").load()
    except pickle.UnpicklingError as problem:
        raise DataError(f"{path}: {_refusal(problem)}") from None


def _loader(value: Any, path: Path) -> Callable[[], Any]:
    if isinstance(value, (np.ndarray, Parts)):
        return lambda: value
    size = path.stat().st_size

    def whole(array: Any) -> Any:
        """Check that the mapped file still has all its bytes: reading beyond its end kills the process."""
        if path.stat().st_size < size:
            raise ValueError(
                f"the file was cut short, from {size} bytes to {path.stat().st_size}"
            )
        return array

    def load() -> Any:
        import torch

        tensor = whole(value.detach())
        tensor = tensor.to_dense() if tensor.is_sparse else tensor
        takes = tensor.numel() * tensor.element_size()
        refuse_bomb(
            path, takes, tensor.untyped_storage().nbytes(), "save tensor.contiguous()"
        )
        array = (
            tensor.float() if tensor.dtype == torch.bfloat16 else tensor
        ).numpy()  # NumPy has no bfloat16
        return Mapped(lambda: whole(array), path, path.stem)

    return load


def _refusal(problem: Exception) -> str:
    """Short message for an error of torch."""
    told = r"(?:Unsupported (?:global: GLOBAL|class)|Trying to load unsupported GLOBAL)\s+(\S+)"
    named = re.search(told, str(problem))
    if named is None:
        return f"cannot be read as plain tensors: {one_line(problem)}; is the file complete?"
    if named[1].startswith("numpy."):
        return "holds NumPy arrays, expected tensors; save them with torch.from_numpy(…), or with numpy.savez"
    told = "which is no tensor and would have to be run to be read; save plain tensors: torch.save({'logits': …}, path)"
    return f"holds {named[1].rstrip('.,')}, {told}"
