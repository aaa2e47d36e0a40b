"""Bases of dataclasses that become JSON or add, and a cached property without a lock."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

__all__ = ["Record", "Sums", "as_json", "cached_property"]

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:
        """``functools.cached_property`` without its lock.

        Before Python 3.12 the standard one holds a lock per property, over all instances,
        while it computes a value: a fork meanwhile leaves it locked in the child for ever.
        Here two threads may compute the same value twice.
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
    """Convert a value for JSON: records and mappings become objects, sequences and arrays lists."""
    if value is None or type(value) in (float, str, int, bool):
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if dataclasses.is_dataclass(value):
        return {
            each.name: as_json(getattr(value, each.name))
            for each in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {name: as_json(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(held) for held in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _fields(record: Any) -> tuple[dataclasses.Field[Any], ...]:
    """Fields of a dataclass that derives from a base below, which is none itself."""
    return dataclasses.fields(record)


class Record:
    """Base of dataclasses that convert to JSON by field. JSON : key by field, where they differ; "" merges the field's
    own keys into the object, None omits it. OPTIONAL : fields omitted where they are None or empty."""

    JSON: ClassVar[Mapping[str, str | None]] = {}
    OPTIONAL: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Content of the JSON output, whose keys other programs read."""
        found: dict[str, Any] = {}
        for each in _fields(self):
            key, held = self.JSON.get(each.name, each.name), getattr(self, each.name)
            if key is None or (
                each.name in self.OPTIONAL and (held is None or held == {})
            ):
                continue
            found |= {key: as_json(held)} if key else as_json(held) or {}
        return found


class Sums:
    """Base of dataclasses that add: numbers and arrays by ``+``, mappings key by key; None plus anything is None.
    Fields that combine otherwise declare it in their type: ``lowest: Annotated[float, min]``."""

    def __add__(self, other: Self) -> Self:
        values = []
        for each in _fields(self):
            how: Callable[[Any, Any], Any] = getattr(
                each.type, "__metadata__", (_plus,)
            )[0]
            a, b = getattr(self, each.name), getattr(other, each.name)
            values.append(None if a is None or b is None else how(a, b))
        return type(self)(*values)


def _plus(a: Any, b: Any) -> Any:
    if not isinstance(a, Mapping):
        return a + b
    return {
        key: a[key] + b[key] if key in a and key in b else (a if key in a else b)[key]
        for key in {**a, **b}
    }
