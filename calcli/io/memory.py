"""Bundles that lie in memory: arrays and tensors, checked like any file."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import h5py
import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError
from calcli.io.bundle import BundleRows
from calcli.io.locate import Layout
from calcli.rows import ScoreKind


def refuse_masked(values: Any, what: str) -> None:
    """Refuse masked entries: their values would be taken."""
    masked = sys.modules.get("numpy.ma")  # who has masked arrays has loaded it; it is large
    if masked is not None and masked.is_masked(values):
        raise DataError(f"{what}: some entries are masked; leave their rows out first")


def plain_array(values: Any, what: str) -> NDArray[Any]:
    """Turn an array, a list or a torch tensor into a NumPy array; integers and bfloat16 scores become floats.

    Raises DataError for what is no array of numbers.
    """
    if hasattr(values, "detach"):  # a tensor, without importing torch
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":
            values = values.float()  # exact; NumPy has no bfloat16
    refuse_masked(values, what)
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as problem:
        raise DataError(f"{what}: are no array of numbers: {problem}") from None
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    if array.dtype.kind not in "fiub":
        raise DataError(f"{what}: have type {array.dtype}, expected numbers")
    return array.astype(np.float64) if what == "scores" and array.dtype.kind in "iub" else array


@contextmanager
def bundle_in_memory(
    scores: Any,
    labels: Any,
    kind: ScoreKind,
    *,
    weights: Any = None,
    class_names: Sequence[str] | None = None,
) -> Iterator[BundleRows]:
    """Rows of arrays, as if they had been read from a bundle called ``scores``.

    scores : (n, k) or (n,); labels : (n,) integers. Of kind ``confidence``, scores are (n,) in [0, 1]
    and labels whether each answer was right. Raises DataError as a file would.
    """
    alone = kind == "confidence"
    if labels is None:
        each = "whether each answer was right" if alone else "one integer per row"
        raise DataError(f"scores: come without labels, and labels are needed here: pass {each}")
    with h5py.File(uuid4().hex, "w", driver="core", backing_store=False) as file:
        file[kind] = plain_array(scores, "scores")
        file["correct" if alone else "labels"] = plain_array(labels, "labels")
        if weights is not None:
            file["weights"] = plain_array(weights, "weights")
        if class_names is not None and alone:
            raise DataError("scores: are confidences, of which no class is known; leave class_names out")
        if class_names is not None:
            file["class_names"] = np.asarray([str(text) for text in class_names], dtype=object)
        yield BundleRows(file, Path("scores"), "", Layout(), (), True)
