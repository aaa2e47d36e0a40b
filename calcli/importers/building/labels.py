"""Labels as class indices: of whole numbers, one-hot rows, signs, and ``word_labels``."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.building.word_labels import (
    LONGEST_LISTING,
    ClassLabels,
    Names,
    empty_label,
    of_words,
)
from calcli.importers.names.opposites import opposite_words
from calcli.importers.names.spellings import class_of_each_word
from calcli.importers.remarks import remark
from calcli.io.memory import as_array
from calcli.numerics import AnyArray, whole_number

_WITHOUT_POINT = re.compile(r"(-?\d{1,18})\.0")
"""A whole number that is written as a real one."""


def to_labels(
    raw: AnyArray,
    n: int,
    k: int,
    class_names: Names,
    where: str,
    positive: str | None = None,
) -> ClassLabels:
    """Convert labels to class indices.

    raw : (n,) or (n, 1) integers, booleans, integer-valued floats, class names or
    letters (A is class 0); for two classes also -1 and +1, and any two words (by their
    meaning, else the later in the alphabet is class 1, with a remark); or (n, k)
    one-hot rows. positive : the word for class 1, if it names the one column of scores.
    Raises DataError for anything else. The range is not checked.
    """
    if raw.shape == (n, k) and raw.ndim == 2 and raw.dtype.kind in "biuf":
        return _of_one_hot(raw, where)
    if raw.ndim == 2 and raw.shape[1] == 1:
        raw = raw[:, 0]
    if raw.dtype.kind in "OUS":
        return of_words(raw, k, class_names, where, positive)
    if raw.dtype.kind == "f":
        raw = _whole(raw, where)
    if raw.dtype.kind == "b":
        return _of_truths(raw, k, class_names, where)
    if k == 2 and _are_signs(raw):
        remark(f"{where}: +1 was read as class 1, -1 as class 0")
        return ClassLabels((raw > 0).astype(np.int64), None)
    return ClassLabels(_of_numbered_classes(raw, k, class_names, where), None)


def _are_signs(raw: AnyArray) -> bool:
    """True for the labels -1 and +1."""
    if raw.ndim != 1 or raw.dtype.kind != "i":
        return False
    return set(np.unique(raw).tolist()) == {-1, 1}


def _of_one_hot(raw: AnyArray, where: str) -> ClassLabels:
    n_ones = np.count_nonzero(raw == 1, axis=1)
    is_one_hot = (n_ones == 1) & (np.count_nonzero(raw, axis=1) == 1)
    if not is_one_hot.all():
        row = int(np.argmin(is_one_hot))
        message = f"row {row} is not one-hot, expected one class index or a single 1"
        if np.isin(raw, (0, 1)).all():
            raise DataError(
                f"{where}: {message} per row; where several classes may hold at once"
                " --per-label reads each",
                option=["--per-label"],
            )
        raise DataError(
            f"{where}: {message} per row",
            no_command="labels that are fractions name no class: save their argmax",
        )
    remark(f"{where}: one-hot labels became class indices")
    return ClassLabels(raw.argmax(axis=1).astype(np.int64), None)


def _whole(raw: AnyArray, where: str) -> AnyArray:
    """Real numbers as integers. Raises DataError for others."""
    is_whole = np.isfinite(raw) & (raw == np.floor(raw))
    if not is_whole.all():
        row = int(np.argmin(is_whole.reshape(len(raw), -1).all(axis=1)))
        if raw.ndim == 1 and np.isnan(raw[row]):
            raise empty_label(row, where)
        message = f"row {row} has label {raw[row]}, expected a whole number"
        fractions = np.unique(raw[~is_whole])
        if raw.ndim == 1 and len(fractions) == 1 and np.isfinite(fractions[0]):
            option = ["--ignore-label", f"{fractions[0]:g}"]
            raise DataError(
                f"{where}: {message}; pass {' '.join(option)} if it marks rows to"
                " leave out, as draws",
                option=option,
            )
        raise DataError(
            f"{where}: {message}", no_command="labels are classes counted from 0"
        )
    return raw.astype(np.int64)


def _of_truths(raw: AnyArray, k: int, class_names: Names, where: str) -> ClassLabels:
    if k > 2:
        raise DataError(
            f"{where}: is true or false, expected one of {k} classes; name the labels:"
            " --labels NAME"
        )
    words = opposite_words(class_names or ())
    if words is not None and set(words) == {"false", "true"}:
        labels = np.where(raw, words.index("true"), words.index("false"))
        return ClassLabels(labels, None)
    remark(f"{where}: true was read as class 1, false as class 0")
    return ClassLabels(raw.astype(np.int64), None)


def _of_numbered_classes(
    raw: AnyArray, k: int, class_names: Names, where: str
) -> AnyArray:
    """Convert labels if class names are numbers, 10, 20, 30: names, or indices.

    Raises DataError if ambiguous.
    """
    names = [_WITHOUT_POINT.sub(r"\1", name) for name in class_names or ()]
    are_numbers = all(whole_number(name.lstrip("-")) is not None for name in names)
    if raw.ndim != 1 or len(names) != k or not are_numbers:
        return raw
    values, inverse = np.unique(raw, return_inverse=True)
    classes = class_of_each_word(values.tolist(), names)
    is_name = classes >= 0
    is_place = (values >= 0) & (values < k)
    are_names = is_name.any() and not (is_place & ~is_name).any()
    if not are_names or names == list(map(str, range(k))):
        return raw
    listing = ", ".join(class_names or ())[:LONGEST_LISTING]
    if (is_place | ~is_name).all():
        raise DataError(
            f"{where}: are its labels the names of classes, {listing}, or their"
            " places, counted from 0? Write names as text, or give the classes names"
            " that are no numbers: --class-names A,B,…"
        )
    remark(f"{where}: the labels were looked up in the names of the classes, {listing}")
    return np.where(is_name, classes, values)[inverse.reshape(-1)]


def labels_in_memory(
    labels: Any,
    shape: tuple[int, ...],
    class_names: Names,
    positive: str | None = None,
) -> ClassLabels:
    """``to_labels`` for labels passed to the Python API. shape : of the scores."""
    raw = as_array(labels, "labels")
    names = None if class_names is None else [str(name) for name in class_names]
    k = max(shape[1], 2) if len(shape) == 2 else 2
    is_column = raw.ndim == 1
    are_places = is_column and raw.dtype.kind in "iu" and raw.min(initial=0) >= 0
    if names is not None and are_places:
        are_places = raw.max(initial=0) < k
    if are_places and _are_also_names(raw, names or ()):
        remark(
            "labels: were read as the places of the classes, counted from 0, though"
            " they are among their names, too; pass names as words"
        )
    if raw.ndim == 0 or not shape or are_places:
        return ClassLabels(raw, None)  # refused where all labels are checked
    word = positive if shape[1:] in ((), (1,)) else None
    return to_labels(raw, len(raw), k, names, "labels", word)


def _are_also_names(places: AnyArray, names: Sequence[str]) -> bool:
    """True for places all of which are the names of other classes, as 1 and 2 of 1, 2, 3."""
    is_other = False
    for place in np.unique(places).tolist():
        if str(place) not in names:
            return False
        is_other = is_other or names[place] != str(place)
    return is_other
