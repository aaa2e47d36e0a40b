"""What dataclasses share: as JSON, sums that add, a cached property without a lock."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

__all__ = ["JsonObject", "Sums", "as_json", "cached_property"]

JsonObject = dict[str, Any]
"""An object of JSON: values by name."""

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:
        """``functools.cached_property`` without its lock.

        Before Python 3.12 the standard one holds a lock per property, over all
        instances, while it computes a value: a fork meanwhile leaves it locked in the
        child for ever. Here two threads may compute the same value twice.
        """

        def __init__(self, method: Callable[[Any], Any]) -> None:
            self.method = method
            self.__doc__ = method.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = self.method(instance)
            instance.__dict__[self.name] = value
            return value


def as_json(value: Any) -> Any:
    """Convert a value for JSON: dataclasses and mappings become objects, sequences and
    arrays lists.
    """
    if value is None or type(value) in (float, str, int, bool):
        return value
    if dataclasses.is_dataclass(value):
        record = {}
        for field in dataclasses.fields(value):
            record[field.name] = as_json(getattr(value, field.name))
        return record
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(as_json, value))
    return value.tolist() if hasattr(value, "tolist") else value


def _fields(record: Any) -> tuple[dataclasses.Field[Any], ...]:
    """Fields of a dataclass that derives from the base below, which is none itself."""
    return dataclasses.fields(record)


class Sums:
    """Base of dataclasses that add: numbers and arrays by ``+``, mappings key by key;
    None plus anything is None. Fields that combine otherwise declare it in their type:
    ``lowest: Annotated[float, min]``.
    """

    def __add__(self, other: Self) -> Self:
        values = []
        for field in _fields(self):
            declared = getattr(field.type, "__metadata__", (_plus,))
            add: Callable[[Any, Any], Any] = declared[0]
            a = getattr(self, field.name)
            b = getattr(other, field.name)
            values.append(None if a is None or b is None else add(a, b))
        return type(self)(*values)


def _plus(a: Any, b: Any) -> Any:
    if not isinstance(a, Mapping):
        return a + b
    total = dict(a)
    for key, value in b.items():
        total[key] = a[key] + value if key in a else value
    return total
