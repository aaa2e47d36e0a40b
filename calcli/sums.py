"""Records of sums over rows, which add field by field in the order of the rows."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import add
from typing import Any, Self


class Sums:
    """Base of dataclasses that add: numbers and arrays by ``+``, mappings key by key, None with anything is None. A
    field that is combined otherwise says so in its type: ``lowest: Annotated[float, min]``."""

    def __add__(self, other: Self) -> Self:
        values = []
        for each in fields(self):  # type: ignore[arg-type]
            how: Callable[[Any, Any], Any] = getattr(each.type, "__metadata__", (_plus,))[0]
            a, b = getattr(self, each.name), getattr(other, each.name)
            values.append(None if a is None or b is None else how(a, b))
        return type(self)(*values)


def _plus(a: Any, b: Any) -> Any:
    if not isinstance(a, Mapping):
        return add(a, b)
    return {key: a[key] + b[key] if key in a and key in b else (a if key in a else b)[key] for key in {**a, **b}}
