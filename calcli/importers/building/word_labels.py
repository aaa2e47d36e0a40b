"""Labels that are words as class indices: by the names of the classes, letters, or meaning."""

import re
from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

import numpy as np

from calcli.errors import DataError, one_line
from calcli.importers.names.common_text import texts_around
from calcli.importers.names.opposites import NEGATIONS, in_order_of_pair, opposite_words
from calcli.importers.names.spellings import class_of_each_word, means_same
from calcli.importers.remarks import remark
from calcli.io.cells import text_of
from calcli.numerics import AnyArray, IntArray, whole_number

MOST_NAMED = 10
"""Most classes that a message lists."""

LONGEST_LISTING = 60


Names = Sequence[str] | None


class ClassLabels(NamedTuple):
    """Class indices, and the names of all classes if the labels told them.

    is_by_alphabet : whether only the alphabet says which of two words is class 1.
    """

    labels: IntArray
    class_names: list[str] | None
    is_by_alphabet: bool = False


def empty_label(row: int, where: str) -> DataError:
    return DataError(
        f"{where}: is empty in row {row}, expected a label (calcli extract"
        " --drop-missing)",
        option=["--drop-missing"],
    )


def of_words(
    raw: AnyArray, k: int, class_names: Names, where: str, positive: str | None
) -> ClassLabels:
    texts_of_rows = np.array(texts_of(raw, where), dtype="U")
    distinct, inverse = np.unique(texts_of_rows, return_inverse=True)
    words: list[str] = distinct.tolist()
    rows = inverse.reshape(-1)
    if "" in words:
        raise empty_label(int(np.argmax(rows == words.index(""))), where)
    is_by_alphabet = False
    tells_names = True
    if class_names is None:
        by_column = _names_of_two(words, positive, where)
        names = by_column or _understood(words, k, where)
        is_pair = by_column is None and len(words) == k == 2
        is_by_alphabet = is_pair and opposite_words(words) is None
    elif set(words) <= set(class_names):
        names = list(class_names)
        tells_names = False
    else:
        names = list(_names_that_fit(words, class_names, k, where))
        tells_names = names != list(class_names)
    if names is None:
        raise _without_names(words, k, where)
    _refuse_twice_named(words, names, where)
    classes = class_of_each_word(words, names)
    labels: IntArray = classes[inverse.reshape(raw.shape)]
    if (labels < 0).any():
        row = int(np.argmax(labels < 0))
        raise _unknown_word(row, int(rows[row]), words, names, where)
    _remark_spelling(words, [names[index] for index in classes], where)
    are_words = any(whole_number(name.lstrip("-")) is None for name in names)
    told = names if tells_names and are_words else None
    return ClassLabels(labels, told, is_by_alphabet and told is not None)


def _refuse_twice_named(words: Sequence[str], names: Sequence[str], where: str) -> None:
    """Raise DataError for a label that is the name of two classes."""
    for word in words:
        if names.count(word) > 1:
            raise DataError(
                f"{where}: the label {word!r} is the name of two classes;"
                " --class-names tells them apart"
            )


def _unknown_word(
    row: int, word: int, words: Sequence[str], names: Sequence[str], where: str
) -> DataError:
    """Error about a row whose label is no name of a class. word : its place in words."""
    known = ", ".join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        known += ", …"
    return DataError(
        f"{where}: row {row} has label {words[word]!r}, expected one of {known}",
        no_command=_why_unknown(words, names),
    )


def _remark_spelling(words: Sequence[str], names: Sequence[str], where: str) -> None:
    """Remark on labels that are spelled otherwise than the names of their classes."""
    for word, name in zip(words, names, strict=True):
        if not means_same(word, name):
            remark(
                f"{where}: labels differ from the names of the classes in capitals,"
                f" spaces or signs: {word!r} was read as {name!r}"
            )
            return


def _why_unknown(words: Sequence[str], names: Sequence[str]) -> str:
    """Why no command settles labels that are no names of classes, and what does.

    words : all labels.
    """
    if set(words) & set(names):
        return "the file has to be corrected"
    if len(words) > len(names):
        return f"{len(words)} labels are more than {len(names)} classes"
    return _order_unknown(words)


def _order_unknown(words: Sequence[str]) -> str:
    """Why no command is proposed for labels that are words, and the option to use."""
    listing = ", ".join(words[:MOST_NAMED])[:LONGEST_LISTING]
    return (
        f"nothing tells the column of each label ({listing}); calcli extract"
        " --class-names takes their names in the columns' order"
    )


def _names_that_fit(
    words: Sequence[str], names: Sequence[str], k: int, where: str
) -> Sequence[str]:
    """Class names, some of which are not among the words of the labels, as these are.

    The labels may be indices in print, or what differs in the names.
    """
    if all(is_index(word, k) for word in words):
        return list(map(str, range(k)))
    inner = names_inside(words, names)
    if inner is None:
        return names
    remark(
        f"{where}: classes {inner[0]!r} to {inner[-1]!r} are what differs in the names"
        " of the columns"
    )
    return inner


def is_index(word: str, k: int) -> bool:
    """True for a class index written as text."""
    number = whole_number(word)
    return number is not None and number < k


def _without_names(words: Sequence[str], k: int, where: str) -> DataError:
    message = f"labels are words ({words[0]!r}, …) and the source has no class_names"
    if k == 2 and len(words) > 2:
        return DataError(
            f"{where}: {message}; of the predicted class beside its confidence: --gold"
            " FILE --confidence NAME --correct NAME=gold"
        )
    return DataError(f"{where}: {message}", no_command=_order_unknown(words))


def _names_of_two(
    words: Sequence[str], positive: str | None, where: str
) -> list[str] | None:
    """Names of two classes, after one of which the column of scores is named: ``cat``,
    or ``p_cat``.
    """
    if positive is None or len(words) != 2:
        return None
    named = [word for word in words if word == positive]
    if not named:
        parts = _parts_of(positive)
        named = [word for word in words if word in parts]
    if len(named) != 1 or not NEGATIONS.isdisjoint(_parts_of(positive)):
        return None
    names = [word for word in words if word not in named] + named
    _remark_classes_0_and_1(names, where)
    return names


def _remark_classes_0_and_1(names: Sequence[str], where: str) -> None:
    remark(f"{where}: {names[1]!r} was read as class 1, {names[0]!r} as class 0")


def _parts_of(name: str) -> set[str]:
    """The words in a name of a column: p and cat of ``p_cat``."""
    return set(re.split(r"[\W_]+", name))


def names_inside(words: Sequence[str], names: Sequence[str]) -> list[str] | None:
    """Class names inside ``P(cat), P(dog), …``, without the common text around.

    None unless they match all labels.
    """
    candidates = set()
    for text in texts_around(words[0], names):
        inner = tuple(map(text.inside, names))
        are_all = list(map(text.around, inner)) == list(names)
        if are_all and set(words) <= set(inner):
            candidates.add(inner)
    return list(candidates.pop()) if len(candidates) == 1 else None


def _understood(words: Sequence[str], k: int, where: str) -> list[str] | None:
    """Class names inferred from the words of the labels; None if that is impossible."""
    are_signs = k == 2 and set(words) == {"-1", "1"}
    if all(word.lstrip("-").isdigit() for word in words) and not are_signs:
        return [str(index) for index in range(k)]
    if k == 2 and len(words) == 2:
        return _ordered_pair(words, where)
    for alphabet in (ascii_uppercase, ascii_lowercase):
        letters = list(alphabet[:k])
        if set(words) <= set(letters):
            remark(
                f"{where}: the letters {letters[0]} to {letters[-1]} were read as"
                f" classes 0 to {k - 1}"
            )
            return letters
    return None


def _ordered_pair(words: Sequence[str], where: str) -> list[str]:
    """Two words in the order of class 0 and class 1."""
    by_meaning = in_order_of_pair(words)
    if by_meaning is not None:
        _remark_classes_0_and_1(by_meaning, where)
        return by_meaning
    names = sorted(words)
    remark(
        f"{where}: {names[1]!r} was read as class 1, {names[0]!r} as class 0,"
        " the later in the alphabet; --class-names says otherwise"
    )
    return names


def texts_of(values: AnyArray, where: str) -> list[str]:
    """Words as strings, bytes decoded as UTF-8.

    Raises DataError for non-text and strings that HDF5 cannot store.
    """
    try:
        texts = [text_of(value) for value in values.reshape(-1).tolist()]
        "".join(texts).encode()
    except (ValueError, SystemError) as problem:  # not UTF-8; code points out of range
        raise DataError(
            f"{where}: holds what is no text: {one_line(problem)}; save the words as"
            " UTF-8"
        ) from None
    for row, text in enumerate(texts):
        if "\0" in text:
            raise DataError(
                f"{where}: entry {row} is {text[:40]!r}, expected words without NUL"
                " characters"
            )
    return texts
