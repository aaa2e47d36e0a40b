"""Values of a column as classes of scores: by their names, or as their places."""

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

import numpy as np

from calcli.importers.names.spellings import class_of_each_word
from calcli.numerics import AnyArray, IntArray


def class_indices(
    values: AnyArray, k: int, names: Sequence[str] | None
) -> IntArray | None:
    """Classes (n,) that the values are, or None.

    Words are looked up in the names of the classes; whole numbers are their places,
    unless the names are numbers. At least two classes must occur.
    """
    if values.ndim != 1 or not len(values):
        return None
    if values.dtype.kind in "OUS":
        return _indices_of_words(values, names)
    if values.dtype.kind not in "iu":
        return None
    if values.min() == values.max():
        return None
    if values.min() < 0 or values.max() >= k:
        return _indices_of_words(values, names)
    return values.astype(np.int64)


def possible_classes(
    values: AnyArray, k: int, names: Sequence[str] | None
) -> IntArray | None:
    """Classes (n,) as which labels might be read; None where that is unclear.

    Beside those of ``class_indices`` any two values of two classes, letters (A is class
    0), and whole numbers from 1 to k.
    """
    if values.ndim != 1 or values.dtype.kind not in "biufU":
        return None
    if names:
        named = class_indices(values, k, names)
        if named is not None:
            return named
    distinct, inverse = np.unique(values, return_inverse=True)
    if k == 2 and len(distinct) == 2:
        return inverse
    if values.dtype.kind == "U":
        letters = list(ascii_lowercase[:k])
        return class_indices(np.char.lower(values), k, letters)
    if values.dtype.kind == "f" and not (values % 1).any():
        values = values.astype(np.int64)
    if counts_from_1(values, k):
        values = values - 1
    return class_indices(values, k, None)


def counts_from_1(values: AnyArray, k: int) -> bool:
    """True for whole numbers from 1 to k, k among them."""
    if values.dtype.kind not in "iu" or not values.size:
        return False
    return bool(values.min() >= 1 and values.max() == k)


def _indices_of_words(values: AnyArray, names: Sequence[str] | None) -> IntArray | None:
    classes = class_of_each_row(values.tolist(), names or ())
    if (classes < 0).any() or len(np.unique(classes)) < 2:
        return None
    return classes


def class_of_each_row(words: Sequence[Any], names: Sequence[str]) -> IntArray:
    """Index of the class that the word of every row names (n,); -1 for none."""
    texts = list(map(str, words))
    distinct = list(dict.fromkeys(texts))
    classes = class_of_each_word(distinct, names).tolist()
    class_of = dict(zip(distinct, classes, strict=True))
    return np.array([class_of[text] for text in texts], dtype=np.int64)
