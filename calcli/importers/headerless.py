"""Tables without column names, whose columns go by their numbers."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from calcli.errors import DataError
from calcli.importers.archive import Archive
from calcli.importers.columns import Column, table_archive
from calcli.importers.import_request import ImportRequest
from calcli.importers.printed import is_number, not_a_number
from calcli.importers.remarks import remark
from calcli.numerics import AnyArray


def headerless_archive(path: Path, columns: Mapping[str, Column], n: int, ask: ImportRequest) -> Archive:
    """The arrays of a table whose columns are called 0, 1, 2, …

    ``--scores 0:9 --labels 10`` names them. Without that there is one obvious reading: a
    column that counts the rows aside, all columns are real numbers but the first or the last,
    which holds whole numbers below the count of the others, or words: the labels. Numbers only
    are one loose array with the name of the file. Raises DataError for anything else.
    """
    names = list(columns)
    asked = [piece.strip() for text in (*ask.scores, *ask.labels) for piece in re.split("[,:]", text)]
    if asked and len(names) > 1 and all(piece in names for piece in asked):
        return table_archive(path, "csv", columns, n, ask)
    arrays = {name: columns[name].load() for name in names}
    for name, values in arrays.items():
        if values.dtype.kind == "U" and is_number(str(values[0])):
            raise not_a_number(path, name, values.tolist())
    left = [name for name in names if len(names) < 3 or not _counts_rows(arrays[name])]
    if len(left) < len(names):
        remark(f"{path.name}: column {(set(names) - set(left)).pop()} counts the rows and was left out")
    lists = [name for name in left if arrays[name].ndim == 2]
    k = arrays[lists[0]].shape[1] if lists else len(left) - 1
    ends = [name for name in dict.fromkeys((left[0], left[-1])) if _could_be_labels(arrays[name], k)]
    scores = [name for name in left if name not in ends]
    if len(ends) == 1 and (len(scores) > 1 or scores == lists != []) and all(_is_real(arrays[name]) for name in scores):
        remark(
            f"{path.name}: has no column names; column {ends[0]} was read as the labels, {scores[0]} to {scores[-1]}"
            " as the scores"
        )
        parts, labels = [arrays[name] for name in scores], arrays[ends[0]]
        matrix = parts[0] if scores == lists else np.stack(parts, axis=1, dtype=np.float64)
        return Archive.held(path, "csv", {"scores": matrix, "labels": labels})
    bare = [n for n in left if columns[n].kind in ("number", "lists") and arrays[n].dtype.kind not in "US"]
    if len(bare) < len(left) or (lists and len(left) > 1):
        raise DataError(
            f"{path}: has no column names; name its {len(names)} columns by their numbers: --scores 0:{len(names) - 2}"
            f" --labels {len(names) - 1} --kind logits|log_probs|probs"
        )
    whole = np.stack([arrays[name] for name in left], axis=1)
    value = whole if whole.shape[1] > 1 else whole[:, 0]
    return Archive.held(path, "csv", {path.stem: value}, loose=True)


def _counts_rows(values: AnyArray) -> bool:
    return values.dtype.kind in "iu" and len(values) > 2 and bool((np.diff(values) == 1).all()) and values[0] in (0, 1)


def _could_be_labels(values: AnyArray, k: int) -> bool:
    if values.dtype.kind in "US":
        return True
    whole = values.dtype.kind in "iu" or (values.dtype.kind == "f" and not _is_real(values))
    return values.ndim == 1 and whole and bool(values.min() >= 0) and bool(values.max() < max(k, 2))


def _is_real(values: AnyArray) -> bool:
    return values.dtype.kind == "f" and bool((values != np.floor(values)).any())
