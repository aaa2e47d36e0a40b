"""Conversion of labels to class indices: from whole numbers, words, letters, one-hot rows, -1 and +1."""

import re
from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import numpy as np

from calcli.errors import DataError, one_line
from calcli.importers.archive import remark
from calcli.io.cells import answer_of, text_of
from calcli.io.memory import as_array
from calcli.numerics import AnyArray, IntArray, whole_number

GRADES = ("incorrect", "correct"), ("wrong", "right")
OPPOSITES = (
    ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("neg", "pos"), ("negative", "positive"),
    ("benign", "malignant"), ("ham", "spam"), ("normal", "abnormal"), ("control", "case"), ("0", "1"), ("-1", "1"),
    *GRADES, ("i", "c"),
)  # fmt: skip
"""Unambiguous pairs of words for class 0 and class 1, lower case."""

Names = Sequence[str] | None
Taken = tuple[IntArray, list[str] | None]  # class indices, and class names found in the labels or None


def to_labels(raw: AnyArray, n: int, k: int, class_names: Names, where: str, positive: str | None = None) -> Taken:
    """Convert labels to class indices. raw : (n,) or (n, 1) integers, booleans, integer-valued floats,
    class names or letters (A is class 0); for two classes also -1 and +1, and any two words (by their meaning, else
    the later in the alphabet is class 1, with a remark); or (n, k) one-hot rows. positive : the word for class 1, if it
    names the one column of scores. Raises DataError for anything else. The range is not checked."""
    if raw.ndim == 2 and raw.shape[1] == k and len(raw) == n and raw.dtype.kind in "biuf":
        one_hot = (np.count_nonzero(raw == 1, axis=1) == 1) & (np.count_nonzero(raw, axis=1) == 1)
        if not one_hot.all():
            told = "expected one class index or a single 1 per row; where several may hold at once pass --per-label"
            raise DataError(f"{where}: row {int(np.argmin(one_hot))} is not one-hot, {told}")
        remark(f"{where}: one-hot labels became class indices")
        return raw.argmax(axis=1).astype(np.int64), None
    if raw.ndim == 2 and raw.shape[1] == 1:
        raw = raw[:, 0]
    if raw.dtype.kind in "OUS":
        return _named(raw, k, class_names, where, positive)
    if raw.dtype.kind == "f":
        whole = np.isfinite(raw) & (raw == np.floor(raw))
        if not whole.all():
            row = int(np.argmin(whole.reshape(len(raw), -1).all(axis=1)))
            raise DataError(f"{where}: row {row} has label {raw[row]}, expected a whole number")
        raw = raw.astype(np.int64)
    if raw.dtype.kind == "b":
        if k > 2:
            raise DataError(f"{where}: is true or false, expected one of {k} classes; name the labels: --labels NAME")
        said = [name.lower() for name in class_names or ()]
        if sorted(said) == ["false", "true"]:
            return np.where(raw, said.index("true"), said.index("false")), None
        remark(f"{where}: true was read as class 1, false as class 0")
        return raw.astype(np.int64), None
    if k == 2 and raw.ndim == 1 and raw.dtype.kind == "i" and set(np.unique(raw).tolist()) == {-1, 1}:
        remark(f"{where}: +1 was read as class 1, -1 as class 0")
        return (raw > 0).astype(np.int64), None
    return _of_numbered_classes(raw, k, class_names, where), None


def _of_numbered_classes(raw: AnyArray, k: int, class_names: Names, where: str) -> AnyArray:
    """Convert labels if class names are numbers, 10, 20, 30: names, or indices. Raises DataError if ambiguous."""
    whole = [re.fullmatch(r"(-?\d{1,18})(?:\.0)?", name) for name in class_names or ()]
    places = {int(found[1]): place for place, found in enumerate(whole) if found}
    if raw.ndim != 1 or list(places) == list(range(k)) or not len(whole) == len(places) == k:
        return raw
    present = {label for label in np.unique(raw).tolist() if label in places or 0 <= label < k}
    if not present or not present <= places.keys():  # not all are names
        return raw
    listed = ", ".join(class_names or ())[:60]
    if present <= set(range(k)):
        told = "counted from 0? Write names as text, or give the classes names that are no numbers: --class-names A,B,…"
        raise DataError(f"{where}: are its labels the names of classes, {listed}, or their places, {told}")
    remark(f"{where}: the labels were looked up in the names of the classes, {listed}")
    words, inverse = np.unique(raw, return_inverse=True)
    return np.array([places.get(word, word) for word in words.tolist()])[inverse.reshape(-1)]


def labels_in_memory(labels: Any, shape: tuple[int, ...], class_names: Names) -> Taken:
    """``to_labels`` for labels passed to the Python API. shape : of the scores."""
    raw = as_array(labels, "labels")
    names = None if class_names is None else [str(name) for name in class_names]
    k = max(shape[1], 2) if len(shape) == 2 else 2
    places = raw.dtype.kind in "iu" and raw.min(initial=0) >= 0 and (names is None or raw.max(initial=0) < k)
    if raw.ndim == 0 or not shape or places:
        return raw, None  # errors are raised where all labels are checked
    return to_labels(raw, len(raw), k, names, "labels")


def _named(raw: AnyArray, k: int, class_names: Names, where: str, positive: str | None) -> Taken:
    words, inverse = np.unique(np.array(texts_of(raw, where), dtype="U"), return_inverse=True)
    texts: list[str] = words.tolist()
    if "" in texts:
        row = int(np.argmax(inverse.reshape(-1) == texts.index("")))
        raise DataError(f"{where}: is empty in row {row}, expected a label (calcli extract --drop-missing)")
    own = class_names is None
    if class_names is None and positive in texts and len(texts) == 2:
        class_names = [text for text in texts if text != positive] + [str(positive)]
        remark(f"{where}: {positive!r} was read as class 1, {class_names[0]!r} as class 0")
    elif class_names is None:
        class_names = _understood(texts, k, where)
    elif not set(texts) <= set(class_names):
        if all((n := whole_number(text)) is not None and n < k for text in texts):
            class_names = [str(i) for i in range(k)]  # indices written as text
        elif inner := _inner_names(texts, class_names):
            class_names, own = inner, True
            remark(f"{where}: classes {inner[0]!r} to {inner[-1]!r} are what differs in the names of the columns")
    if twice := [text for text in texts if class_names is not None and list(class_names).count(text) > 1]:
        raise DataError(f"{where}: the label {twice[0]!r} is the name of two classes; --class-names tells them apart")
    if class_names is None:
        told = f"labels are words ({texts[0]!r}, …) and the source has no class_names to look them up in;"
        advice = "name the classes in the order of the scores: --class-names A,B,…"
        if k == 2 and len(texts) > 2:
            advice = "of the predicted class beside its confidence: --gold FILE --confidence NAME --correct NAME=gold"
        raise DataError(f"{where}: {told} {advice}")
    labels = _places_of(texts, class_names)[inverse.reshape(raw.shape)]
    if (labels < 0).any():
        row = int(np.argmax(labels < 0))
        known = ", ".join(list(class_names)[:10]) + (", …" if len(class_names) > 10 else "")
        raise DataError(f"{where}: row {row} has label {texts[int(inverse.flat[row])]!r}, expected one of {known}")
    meant = own and any(whole_number(text.lstrip("-")) is None for text in class_names)
    return labels, list(class_names) if meant else None


def _places_of(texts: Sequence[str], class_names: Sequence[str]) -> IntArray:
    """Index of the class that each label names, by its text, else by its value
    (``true`` is ``True``); -1 where there is none, or several."""
    index = {name: place for place, name in enumerate(class_names)}
    places = [index.get(text, -1) for text in texts]
    if -1 in places:
        by_value: dict[str | None, int] = {None: -1}
        for place, name in enumerate(class_names):
            value = answer_of(name)
            by_value[value] = -1 if value in by_value else place
        for i, text in enumerate(texts):
            if places[i] < 0:
                places[i] = by_value.get(answer_of(text), -1)
    return np.array(places, dtype=np.int64)


def _inner_names(texts: Sequence[str], names: Sequence[str]) -> list[str] | None:
    """Class names inside ``P(cat), P(dog), …``, without the common text around; None unless they match all labels."""
    found = set()
    for name in names:
        before, there, behind = name.partition(texts[0])
        inner = tuple(other.removeprefix(before).removesuffix(behind) for other in names)
        if there and [before + part + behind for part in inner] == list(names) and set(texts) <= set(inner):
            found.add(inner)
    return list(found.pop()) if len(found) == 1 else None


def _understood(texts: Sequence[str], k: int, where: str) -> list[str] | None:
    """Class names inferred from the words of the labels, with a remark; None if that is impossible."""
    if all(text.lstrip("-").isdigit() for text in texts) and not (k == 2 and set(texts) == {"-1", "1"}):
        return [str(i) for i in range(k)]
    if k == 2 and len(texts) == 2:
        lower = {text.lower(): text for text in texts}
        known = next((pair for pair in OPPOSITES if set(pair) == set(lower)), None)
        names = [lower[word] for word in known] if known else sorted(texts)
        how = "" if known else ", the later in the alphabet; --class-names says otherwise"
        remark(f"{where}: {names[1]!r} was read as class 1, {names[0]!r} as class 0{how}")
        return names
    for alphabet in (list(ascii_uppercase[:k]), list(ascii_lowercase[:k])):
        if set(texts) <= set(alphabet):
            remark(f"{where}: the letters {alphabet[0]} to {alphabet[-1]} were read as classes 0 to {k - 1}")
            return alphabet
    return None


def texts_of(values: AnyArray, where: str) -> list[str]:
    """Words as strings, bytes decoded as UTF-8. Raises DataError for non-text and strings that HDF5 cannot store."""
    try:
        found = [text_of(value) for value in values.reshape(-1).tolist()]
        "".join(found).encode()
    except (ValueError, SystemError) as problem:  # not UTF-8; code points out of range
        raise DataError(f"{where}: holds what is no text: {one_line(problem)}; save the words as UTF-8") from None
    if odd := next((text for text in found if "\0" in text), None):
        raise DataError(f"{where}: entry {found.index(odd)} is {odd[:40]!r}, expected words without NUL characters")
    return found
