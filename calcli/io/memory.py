"""In-memory bundles of arrays and tensors, checked like files."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from numbers import Number
from pathlib import Path
from typing import Any
from uuid import uuid4

import h5py
import numpy as np

from calcli.errors import DataError, one_line
from calcli.io.bundle import BundleRows
from calcli.io.cells import NameColumn, names_of
from calcli.io.locate import Layout
from calcli.items import are_all
from calcli.numerics import AnyArray
from calcli.rows import ScoreKind


def as_array(values: Any, what: str) -> AnyArray:
    """Convert an array, list, tensor, column or table to a NumPy array of any type.

    Numbers stored as objects (Decimal, nullable columns of pandas) become float64.
    Raises DataError for ragged lists and other non-arrays, and for tensors without
    values (device meta).
    """
    # Same test as ``numpy.ma.is_masked``, whose module is large and may be loading in
    # another thread.
    if np.any(getattr(values, "_mask", False)):
        raise DataError(f"{what}: some entries are masked; leave their rows out first")
    try:
        if hasattr(values, "detach"):  # a tensor, without importing torch
            values = values.detach().cpu().resolve_conj().resolve_neg()
            if str(values.dtype) == "torch.bfloat16":
                values = values.float()  # exact; NumPy has no bfloat16
        array = np.asarray(values)
    except MemoryError:
        raise
    except Exception as problem:
        # NumPy, torch, pandas and pyarrow raise errors of any type.
        message = "are no array of numbers"
        if "inhomogeneous" in str(problem):
            message = "are rows of different lengths"
        raise DataError(f"{what}: {message}: {one_line(problem)[:200]}") from None
    if array.dtype == object and array.size and are_all(Number, array.flat):
        with suppress(TypeError, OverflowError):  # complex numbers are left as they are
            return array.astype(np.float64)
    return array


def as_names(values: Any, what: str, role: str) -> AnyArray:
    """Names of rows, (n,), from an array, list, Series, tensor or generator (see
    ``names_of``).

    Raises DataError for a missing value and for what is no column.
    """
    column = NameColumn(what, role, in_file=False)
    if isinstance(values, np.ndarray) or hasattr(values, "detach"):
        array = as_array(values, what)
        if array.ndim == 1:
            return names_of(array if array.dtype != object else values, column)
        raise DataError(f"{what}: have shape {array.shape}, expected one name per row")
    if len(getattr(values, "shape", (0,))) != 1 or isinstance(values, str | bytes):
        contents = f"shape {values.shape}" if hasattr(values, "shape") else repr(values)
        raise DataError(f"{what}: have {contents[:40]}, expected one name per row")
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind != "O":  # a Series
        return names_of(np.asarray(values), column)
    try:
        to_list = getattr(values, "to_pylist", None)  # of Arrow
        cells = list(values) if to_list is None else to_list()
    except TypeError:
        raise DataError(
            f"{what}: are of type {type(values).__name__}, expected one name per row"
        ) from None
    return names_of(cells, column)


def plain_array(values: Any, what: str) -> AnyArray:
    """Convert to a NumPy array of numbers (see ``as_array``).

    Integer and bfloat16 scores become floats. Raises DataError for anything but
    numbers, and for boolean scores.
    """
    for conversion in ("toarray", "collect"):  # a sparse matrix, a LazyFrame
        if hasattr(values, conversion):
            raise DataError(
                f"{what}: are of type {type(values).__name__}, expected an array; pass"
                f" {what}.{conversion}()"
            )
    array = as_array(values, what)
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    if array.dtype == object and array.ndim:
        missing = np.array([not isinstance(value, Number) for value in array.flat])
        place = np.unravel_index(int(missing.argmax()), array.shape)
        raise DataError(
            f"{what}: row {place[0]} has {array[place]!r}, expected numbers; leave rows"
            " without them out"
        )
    if array.dtype.kind not in "fiub":
        raise DataError(f"{what}: have type {array.dtype}, expected numbers")
    if what == "scores" and array.dtype.kind == "b":
        raise DataError(
            "scores: are true or false, expected numbers; pass what the model said"
            " before it decided"
        )
    if what == "scores" and array.dtype.kind in "iu":
        return array.astype(np.float64)
    return array


@contextmanager
def bundle_in_memory(
    scores: Any,
    labels: Any,
    kind: ScoreKind,
    *,
    weights: Any = None,
    units: Any = None,
    class_names: Any = None,
) -> Iterator[BundleRows]:
    """Open arrays like a bundle named ``scores``.

    scores : (n, k) or (n,); labels : (n,) integers. Of kind ``confidence``, scores are
    (n,) in [0, 1] and labels whether each answer was right. units : (n,) numbers or
    strings. Raises DataError as for a file.
    """
    are_confidences = kind == "confidence"
    labels_name = "labels"
    expected = "one integer per row"
    if are_confidences:
        labels_name = "correct"
        expected = "whether each answer was right"
    if labels is None:
        raise DataError(
            f"scores: come without labels, and labels are needed here: pass {expected}"
        )
    with h5py.File(uuid4().hex, "w", driver="core", backing_store=False) as file:
        file[kind] = plain_array(scores, "scores")
        file[labels_name] = plain_array(labels, "labels")
        if weights is not None:
            file["weights"] = plain_array(weights, "weights")
        if units is not None:
            names = as_names(units, "units", "unit")
            # Without a first word HDF5 would not know that these are words.
            dtype = h5py.string_dtype() if names.dtype == object else names.dtype
            file.create_dataset("unit", data=names, dtype=dtype)
        if class_names is not None and are_confidences:
            raise DataError(
                "scores: are confidences, of which no class is known; leave"
                " class_names out"
            )
        if class_names is not None:
            file["class_names"] = np.asarray(list(map(str, class_names)), dtype=object)
        yield BundleRows(file, Path("scores"), "", Layout(), (), True)
