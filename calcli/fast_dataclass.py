"""``dataclass`` decorator whose classes are many times as fast to define.

The standard library generates and compiles the source of six methods for every class, half a millisecond: a quarter of
the run time of a small command would be spent on classes that it never instantiates. Here all classes share one
implementation of each method, which reads the fields when it is called. Fields, ``field``, ``replace``, ``asdict``,
``__post_init__``, inheritance in both directions and pickles are those of the standard library.

Data decoded from bytes or text (artifacts, options of methods, state files) are ``msgspec.Struct``, which checks types
as it reads. Everything else is a dataclass: a Struct has no metadata of fields, which parameters and flags are
declared by, no cached properties without a ``__dict__``, and no abstract bases.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

__all__ = ["Record", "Sums", "as_json", "cached_property", "dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
    from functools import cached_property
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        eq: bool = True,
        kw_only: bool = False,
    ) -> type | Callable[[type], type]:
        """Make a class a dataclass (see ``dataclasses.dataclass``)."""

        def made(cls: type) -> type:
            above = any(
                getattr(base, PARAMS).frozen
                for base in cls.__mro__[1:]
                if hasattr(base, PARAMS)
            )
            own = set(vars(cls))
            dataclasses.dataclass(
                cls, init=False, repr=False, eq=False, frozen=above, kw_only=kw_only
            )
            getattr(cls, PARAMS).frozen = frozen
            methods = {
                "__init__": _init,
                "__repr__": _repr,
                "__signature__": _Signature(),
            }
            methods |= (
                {"__eq__": _eq, "__hash__": _hash if frozen else None} if eq else {}
            )
            methods |= (
                {"__setattr__": _refuse, "__delattr__": _refuse}
                if frozen and not above
                else {}
            )
            for name, method in methods.items():
                if name not in own:
                    setattr(cls, name, method)
            return cls

        return made if cls is None else made(cls)

    class cached_property:
        """``functools.cached_property`` without its lock.

        Before Python 3.12 the standard one holds a lock per property, over all instances, while it computes a value: a
        fork meanwhile leaves it locked in the child for ever. Here two threads may compute the same value twice.
        """

        def __init__(self, method: Any) -> None:
            self.method, self.__doc__ = method, method.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.method(instance)
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


class Record:
    """Base of dataclasses that convert to JSON by field. JSON : key by field, where they differ; "" merges the field's
    own keys into the object, None omits it. OPTIONAL : fields omitted where they are None or empty."""

    JSON: ClassVar[Mapping[str, str | None]] = {}
    OPTIONAL: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Content of the JSON output, whose keys other programs read."""
        found: dict[str, Any] = {}
        for each in _fields(type(self)):
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
        for each in _fields(type(self)):
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


PARAMS = "__dataclass_params__"
_fields: Callable[[Any], tuple[Any, ...]] = cache(
    dataclasses.fields
)  # it builds the tuple anew at every call


@cache
def _taken(cls: Any) -> tuple[list[str], list[Any]]:
    """Names of the positional fields, and all fields of ``__init__``, positional ones first."""
    taken = sorted(
        (each for each in _fields(cls) if each.init), key=lambda each: each.kw_only
    )
    return [each.name for each in taken if not each.kw_only], taken


def _init(self: Any, *given: Any, **named: Any) -> None:
    values, (places, taken) = (
        self.__dict__,
        _taken(self.__class__),
    )  # past __setattr__, which a frozen class refuses
    values.update(zip(places, given, strict=False))
    for each in taken[len(given) :]:
        name = each.name
        if name in named:
            values[name] = named.pop(name)
        elif each.default is not dataclasses.MISSING:
            values[name] = each.default
        elif each.default_factory is not dataclasses.MISSING:
            values[name] = each.default_factory()
        else:
            raise TypeError(
                f"{type(self).__name__}() missing required argument {name!r}"
            )
    if len(given) > len(places) or named:
        raise TypeError(
            f"{type(self).__name__}() got unexpected arguments: {[*given[len(places) :], *named]}"
        )
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _repr(self: Any) -> str:
    shown = ", ".join(
        f"{f.name}={getattr(self, f.name)!r}" for f in _fields(type(self)) if f.repr
    )
    return f"{type(self).__qualname__}({shown})"


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, f.name) for f in _fields(type(self)) if f.compare)


def _eq(self: Any, other: object) -> Any:
    return (
        _compared(self) == _compared(other)
        if other.__class__ is self.__class__
        else NotImplemented
    )


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _refuse(self: Any, name: str, *value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


class _Signature:
    """Descriptor for ``inspect.signature`` of a class: its fields, as for a dataclass of the standard library."""

    def __get__(self, instance: object, owner: type) -> Any:
        from inspect import signature

        fields = [(each.name, each.type, each) for each in dataclasses.fields(owner)]
        return signature(dataclasses.make_dataclass(owner.__name__, fields))
