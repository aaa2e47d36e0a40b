"""Words of labels that are spelled otherwise than the classes: cat for Cat, New.York."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from calcli.io.cells import answer_of
from calcli.items import Key, duplicates, index_of_each
from calcli.numerics import IntArray

Respell = Callable[[str], str]
"""Changes the spelling of a word as a program does."""


def in_small_letters(text: str) -> str:
    """The text without capitals, of the same length."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text


def as_in_r(text: str) -> str:
    """The text as R writes it in the name of a column: ``New.York``."""
    return re.sub(r"[^\w.]", ".", text)


RESPELLINGS: tuple[Respell, ...] = (in_small_letters, as_in_r)
"""What programs do to words, tried in this order; the length stays."""


def class_of_each_word(words: Sequence[Any], names: Sequence[str]) -> IntArray:
    """Index of the class that each of some distinct words names; -1 where there is none,
    or several.

    By its text, else by its value (``true`` is ``True``). Where this leaves words out,
    by its spelling without capitals and outer spaces, or as in R, if each word then
    names a class of its own.
    """
    texts = list(map(str, words))
    classes = _by_text_or_value(texts, names)
    if -1 in classes:
        for respell in RESPELLINGS:
            respelled = _by_respelled_text(texts, names, respell)
            if -1 not in respelled and not duplicates(respelled):
                classes = respelled
                break
    return np.array(classes, dtype=np.int64)


def means_same(text: str, name: str) -> bool:
    """True for equal texts, or equal values: ``true`` and ``True``."""
    is_plain = text == text.strip()
    return text == name or (is_plain and answer_of(text) == answer_of(name))


def _by_text_or_value(texts: Sequence[str], names: Sequence[str]) -> list[int]:
    class_by_name = index_of_each(names)
    classes = [class_by_name.get(text, -1) for text in texts]
    if -1 in classes:
        class_by_value = _only_class_of(map(answer_of, names))
        class_by_value[None] = -1
        for number, text in enumerate(texts):
            if classes[number] < 0:
                classes[number] = class_by_value.get(answer_of(text), -1)
    return classes


def _by_respelled_text(
    texts: Sequence[str], names: Sequence[str], respell: Respell
) -> list[int]:
    """Index of the only class whose name is spelled so; -1 for none."""
    class_by_spelling = _only_class_of(respell(name.strip()) for name in names)
    classes = []
    for text in texts:
        classes.append(class_by_spelling.get(respell(text.strip()), -1))
    return classes


def _only_class_of(keys: Iterable[Key]) -> dict[Key, int]:
    """Index of every key of the classes; -1 for one that several have."""
    classes: dict[Key, int] = {}
    for index, key in enumerate(keys):
        classes[key] = -1 if key in classes else index
    return classes
