"""PyTorch files: tensors of ``torch.save``, loaded with ``weights_only=True``."""

import pickle
import warnings
from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.pickled import is_array, table_of_content
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.importers.torch_tensors import check_structure, loader_of, refusal
from calcli.optional_packages import optional_import

LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""First bytes of files of torch.save that are not zip archives: a pickled number."""


def _is_pt(file: SourceFile) -> bool:
    if file.is_zip and file.members is None:  # cut off: the reader raises the error
        return file.suffix in (".pt", ".pth")
    if file.head.startswith(LEGACY):
        return True
    return any(name.endswith("data.pkl") for name in file.members or [])


@reader(
    "pt",
    "tensors of torch.save",
    suffixes=[".pt", ".pth"],
    sniff=_is_pt,
    extra="torch",
    examples=[
        ("outputs.pt", ""),
        ("predictions_*.pt batch_indices_*.pt", "--join --labels none --kind logits"),
    ],
)
def read_pt(file: SourceFile) -> Table:
    """Load tensors and containers of tensors; anything else is refused, never run."""
    path = file.path
    check_structure(path)
    if not file.is_zip:
        file.refuse_again(LEGACY)
    instead = "or save the arrays with numpy.savez"
    with optional_import("torch", f"{path}: reading PyTorch files", instead):
        import torch
    content = _load(file)

    def as_array(leaf: Any, in_list: bool) -> Any:
        """Tensors in lists as arrays, to join batches; those in dicts stay mapped."""
        if in_list and isinstance(leaf, torch.Tensor):
            return loader_of(leaf, path)()[...]
        return leaf

    def is_array_or_tensor(value: Any) -> bool:
        return is_array(value) or isinstance(value, torch.Tensor)

    return table_of_content(
        path,
        "pt",
        content,
        is_array=is_array_or_tensor,
        leaf=as_array,
        loader_of=lambda value: loader_of(value, path),
        names_places=file.request.names_places,
    )


def _load(file: SourceFile) -> Any:
    import torch

    try:
        with warnings.catch_warnings():
            # about TorchScript archives and torch's own storages
            warnings.simplefilter("ignore")
            # files of torch < 1.6 are no zip archives and cannot be mapped
            return torch.load(
                file.path, map_location="cpu", weights_only=True, mmap=file.is_zip
            )
    except pickle.UnpicklingError as problem:
        raise DataError(f"{file.path}: {refusal(problem)}") from None
