"""Records of sums over rows, which add field by field in the order of the rows."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import add
from typing import Any, Self


class Sums:
    """Base of dataclasses that add: numbers and arrays by ``+``, mappings key by key, None with anything is None.

    A field that is combined otherwise says so in its type: ``lowest: Annotated[float, min]``.
    """

    def __add__(self, other: Self) -> Self:
        each = ((_how(f.type), getattr(self, f.name), getattr(other, f.name)) for f in fields(self))  # type: ignore[arg-type]
        return type(self)(*(None if a is None or b is None else how(a, b) for how, a, b in each))


def _how(kind: Any) -> Callable[[Any, Any], Any]:
    found: Callable[[Any, Any], Any] = getattr(kind, "__metadata__", (_plus,))[0]
    return found


def _plus(a: Any, b: Any) -> Any:
    if not isinstance(a, Mapping):
        return add(a, b)
    return {key: a[key] + b[key] if key in a and key in b else (a if key in a else b)[key] for key in {**a, **b}}
