"""What the names of classes have in common, and the names without it."""

from collections.abc import Iterable, Sequence
from string import digits
from typing import Any, NamedTuple


class Around(NamedTuple):
    """The text around the name of a class: ``P(`` and ``)`` of ``P(cat)``."""

    before: str
    after: str

    def around(self, word: str) -> str:
        """The text with a word in it."""
        return f"{self.before}{word}{self.after}"

    def is_around(self, name: str) -> bool:
        """True for a name that begins and ends with the text, and has some within."""
        is_longer = len(name) > len(self.before) + len(self.after)
        return is_longer and name.startswith(self.before) and name.endswith(self.after)

    def inside(self, name: str) -> str:
        """A name without the text."""
        return name.removeprefix(self.before).removesuffix(self.after)


def texts_around(word: str, names: Iterable[str]) -> list[Around]:
    """The text around a word wherever a name holds it."""
    texts = []
    for name in names:
        place = name.find(word)
        while place >= 0:
            texts.append(Around(name[:place], name[place + len(word) :]))
            place = name.find(word, place + 1)
    return texts


def n_common_parts(paths: Sequence[Sequence[Any]]) -> int:
    """Number of parts with which all of these sequences begin."""
    n_common = 0
    for parts in zip(*paths, strict=False):  # as far as the shortest goes
        if len(set(parts)) > 1:
            break
        n_common += 1
    return n_common


def differing_parts(names: Sequence[str]) -> list[str]:
    """What differs in the names: ``cat``, ``dog`` of ``p_cat``, ``p_dog``.

    Numbers stay whole: ``10``, ``12`` of ``p10``, ``p12``.
    """
    if not names:
        return []
    before = names[0][: n_common_parts(names)].rstrip(digits)
    rests = [name.removeprefix(before) for name in names]
    backwards = [rest[::-1] for rest in rests]
    after = backwards[0][: n_common_parts(backwards)][::-1].lstrip(digits)
    return [rest.removesuffix(after) for rest in rests]
