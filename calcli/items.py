"""What all items of a collection have in common, and picks of them."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from types import UnionType
from typing import Any, TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def are_all(kind: type | UnionType, values: Iterable[Any]) -> bool:
    """True if all values are of a type, or of one of several."""
    return all(isinstance(value, kind) for value in values)


def has_any(kind: type | UnionType, values: Iterable[Any]) -> bool:
    """True if a value is of a type, or of one of several."""
    return any(isinstance(value, kind) for value in values)


def present(values: Iterable[Item | None]) -> list[Item]:
    """The values that are not None."""
    return [value for value in values if value is not None]


def picked(values: Mapping[str, Item], names: Iterable[str]) -> dict[str, Item]:
    """The values of these names, in their order."""
    return {name: values[name] for name in names}


def without(values: Mapping[str, Item], names: Collection[str]) -> dict[str, Item]:
    """The values of all other names."""
    return {name: value for name, value in values.items() if name not in names}


def index_of_each(items: Iterable[Key]) -> dict[Key, int]:
    """Index of every item; of one that occurs again its last."""
    return {item: index for index, item in enumerate(items)}


def duplicates(items: Iterable[Key]) -> list[Key]:
    """The items that occur several times, each once."""
    return [item for item, count in Counter(items).items() if count > 1]


def counts_up(words: Iterable[str], first: int = 0) -> bool:
    """True for the words "0", "1", "2", …, or from another number on."""
    return all(word == str(number) for number, word in enumerate(words, first))
