"""Base of the structs that ``--json`` prints, of which its schemas are made.

Other programs read these keys: they are added to, and not renamed.
"""

import math
from functools import cache
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta

from calcli.records import JsonObject

Number = float | None
"""A number; null where it is not finite."""

Count = Annotated[int, Meta(ge=0)]
Proportion = Annotated[float, Meta(ge=0, le=1)]
Ends = Annotated[list[float], Meta(min_length=2, max_length=2)]
"""Ends of an interval."""

OpenEnds = Annotated[list[Number], Meta(min_length=2, max_length=2)]
"""Ends of an interval; null for one that is infinite."""


class Output(msgspec.Struct, kw_only=True):
    """Base of all structs: fields that are not set are left out.

    Fields of a subclass that is not ``kw_only`` come first.
    """

    @classmethod
    def of(cls, facts: Any, **others: Any) -> Self:
        """Take the fields of ``others``, and the rest from the attributes of ``facts``.

        A fact that is None is left out where its field may be.
        """
        for field in _fields(cls):
            name = field.name
            if name in others:
                continue
            if field.required or getattr(facts, name, None) is not None:
                others[name] = getattr(facts, name)
        return cls(**{name: plain_number(value) for name, value in others.items()})

    def to_dict(self) -> JsonObject:
        """The JSON as values of Python."""
        return dict(msgspec.to_builtins(self))


@cache
def _fields(struct: type[Output]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(struct)


def plain_number(value: Any) -> Any:
    """Make a number that is not finite null."""
    if not isinstance(value, float):
        return value
    return float(value) if math.isfinite(value) else None


def with_more(struct: type[Output]) -> Meta:
    """Say in a schema that an object has the keys of a struct, and others of its own.

    ``docs/write_schemas.py`` adds what the reference leads to.
    """
    return Meta(extra_json_schema={"$ref": f"#/$defs/{struct.__name__}"})


def one_of(*structs: type[Output]) -> Meta:
    """Say in a schema that a value is one of these structs, which have no common key.

    msgspec knows no union of structs without a tag. ``docs/write_schemas.py`` adds
    what the references lead to.
    """
    references = [{"$ref": f"#/$defs/{struct.__name__}"} for struct in structs]
    return Meta(extra_json_schema={"oneOf": references})
