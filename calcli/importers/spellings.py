"""Words of labels that are spelled otherwise than the classes: cat for Cat, New.York."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calcli.io.cells import answer_of
from calcli.numerics import IntArray

Spelling = Callable[[str], str]


def in_small_letters(text: str) -> str:
    """The text without capitals, of the same length."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text


def as_in_r(text: str) -> str:
    """The text as R writes it in the name of a column: ``New.York``."""
    return re.sub(r"[^\w.]", ".", text)


SPELLINGS: tuple[Spelling, ...] = (in_small_letters, as_in_r)
"""Ways in which a program changes words, tried in this order; the length stays."""


def places_of(words: Sequence[Any], names: Sequence[str]) -> IntArray:
    """Index of the class that each of some distinct words names; -1 where there is none,
    or several.

    By its text, else by its value (``true`` is ``True``). Where this leaves words out,
    by its spelling without capitals and outer spaces, or as in R, if each word then
    names a class of its own.
    """
    texts = list(map(str, words))
    places = _by_text_or_value(texts, names)
    if -1 in places:
        for spelling in SPELLINGS:
            spelled = _by_text(
                [spelling(text.strip()) for text in texts], names, spelling
            )
            if -1 not in spelled and len(set(spelled)) == len(spelled):
                places = spelled
                break
    return np.array(places, dtype=np.int64)


def means_same(text: str, name: str) -> bool:
    """True for equal texts, or equal values: ``true`` and ``True``."""
    is_plain = text == text.strip()
    return text == name or (is_plain and answer_of(text) == answer_of(name))


def _by_text_or_value(texts: Sequence[str], names: Sequence[str]) -> list[int]:
    index = {name: place for place, name in enumerate(names)}
    places = [index.get(text, -1) for text in texts]
    if -1 in places:
        by_value: dict[str | None, int] = {None: -1}
        for place, name in enumerate(names):
            value = answer_of(name)
            by_value[value] = -1 if value in by_value else place
        for number, text in enumerate(texts):
            if places[number] < 0:
                places[number] = by_value.get(answer_of(text), -1)
    return places


def _by_text(
    texts: Sequence[str], names: Sequence[str], spelling: Spelling
) -> list[int]:
    """Index of the only class whose name is spelled so; -1 for none."""
    index: dict[str, int] = {}
    for place, name in enumerate(names):
        key = spelling(name.strip())
        index[key] = -1 if key in index else place
    return [index.get(text, -1) for text in texts]
