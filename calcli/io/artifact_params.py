"""Parameters of calibrators as JSON values, and back.

Arrays of many entries are written as base64. The calibrator's class defines names,
types and shapes; anything else is refused with a message.
"""

import base64
import dataclasses
import json
from collections.abc import Sequence
from types import GenericAlias
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
import numpy as np

from calcli.calibrator import Calibrator, Curves
from calcli.composition import Composition, Stage
from calcli.errors import DataError, one_line
from calcli.mixture import Member, Mixture
from calcli.numerics import AnyArray
from calcli.registry import method

LONGEST_EMPTY = 1_000_000
"""Longest axis of an array without entries: zero bytes can declare any such shape, and
its lists take memory.
"""

INLINE_ENTRIES = 4096  # arrays with more entries are written as base64

Count = Annotated[int, msgspec.Meta(ge=0)]


def reason_of(problem: msgspec.ValidationError) -> str:
    """What is wrong with a value, without msgspec's signs."""
    text = " ".join(str(problem).replace("`$.", "").replace("`", "").split())
    return text[:1].lower() + text[1:]


def encode_params(calibrator: Calibrator) -> dict[str, Any]:
    """Convert a calibrator's parameters to JSON values.

    Those of a composition nest, stage by stage.
    """
    if isinstance(calibrator, Composition):
        return {"stages": [_encode_part(stage) for stage in calibrator.stages]}
    if isinstance(calibrator, Mixture):
        members = []
        for member in calibrator.members:
            members.append({**_encode_part(member), "weight": member.weight})
        params = {"members": members, "uniform": calibrator.uniform}
        if calibrator.then:
            params["then"] = [_encode_part(stage) for stage in calibrator.then]
        return params
    params = {}
    for field in dataclasses.fields(calibrator):
        value = getattr(calibrator, field.name)
        # parameters at their default are omitted; arrays never are
        if isinstance(value, np.ndarray | tuple) or value != field.default:
            params[field.name] = _encode(value)
    return params


def _encode_part(part: Stage | Member) -> dict[str, Any]:
    return {
        "method": part.method,
        "options": part.options.recorded(),
        "params": encode_params(part.calibrator),
    }


def _encode(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "OUS":
            return list(map(str, value.tolist()))
        if value.size > INLINE_ENTRIES:
            plain = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
            text = base64.b64encode(plain.tobytes()).decode("ascii")
            return {
                "dtype": str(value.dtype),
                "shape": list(value.shape),
                "base64": text,
            }
        return _encode(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value


def decode_params(cls: type[Calibrator], params: dict[str, Any], k: int) -> Calibrator:
    """Build a calibrator of a class from JSON values.

    Raises DataError that names a missing or unknown one.
    """
    calibrator: Calibrator
    if issubclass(cls, Composition):
        calibrator = cls(_decode_composition(params, k))
    elif issubclass(cls, Mixture):
        calibrator = _decode_mixture(cls, params, k)
    else:
        calibrator = cls(**_decode_fields(cls, params, k))
    calibrator.check(k)
    return calibrator


def _decode_composition(params: dict[str, Any], k: int) -> tuple[Stage, ...]:
    if set(params) != {"stages"}:
        listing = ", ".join(params) or "nothing"
        raise DataError(f"params of a composition hold {listing}, expected stages")
    return _decode_stages(params["stages"], k)


def _decode_mixture(cls: type[Mixture], params: dict[str, Any], k: int) -> Mixture:
    if set(params) - {"then"} != {"members", "uniform"}:
        listing = ", ".join(params) or "nothing"
        raise DataError(
            f"params of an average hold {listing}, expected members and uniform"
        )
    members = []
    for member in msgspec.convert(params["members"], list[_Member]):
        if issubclass(method(member.method), Mixture):
            raise DataError(f"member {member.method!r} is itself an average")
        options, calibrator = _decode_part(member, k)
        members.append(Member(member.method, options, calibrator, member.weight))
    uniform = msgspec.convert(params["uniform"], float)
    then = _decode_stages(params.get("then", []), k)
    return cls(tuple(members), uniform, then)


def _decode_fields(
    cls: type[Calibrator], params: dict[str, Any], k: int
) -> dict[str, Any]:
    """Values of the fields of a method that is no combination of others."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    missing = []
    for name, field in fields.items():
        if name not in params and field.default is dataclasses.MISSING:
            missing.append(name)
    if missing:
        raise DataError(f"params lack {', '.join(missing)}")
    unknown = [name for name in params if name not in fields]
    if unknown:
        raise DataError(
            "params hold"
            f" unknown {', '.join(unknown)}, expected {', '.join(fields) or 'none'}"
        )
    hints = get_type_hints(cls)
    sizes = {"k": k}
    values = {}
    for name, field in fields.items():
        if name in params:
            hint = hints[name]
            values[name] = _decode(name, params[name], hint, field.metadata, sizes)
    return values


def _decode_stages(stages: Any, k: int) -> tuple[Stage, ...]:
    """Decode stages that follow each other.

    Raises DataError for one that has stages of its own.
    """
    decoded = []
    for i, stage in enumerate(msgspec.convert(stages, list[_Stage])):
        if "+" in stage.method:
            raise DataError(f"stage {i + 1} is itself a composition, {stage.method!r}")
        decoded.append(Stage(stage.method, *_decode_part(stage, k)))
    return tuple(decoded)


class _Stage(msgspec.Struct, forbid_unknown_fields=True):
    """Schema of a stage of a composition on disk."""

    method: str
    options: dict[str, Any]
    params: dict[str, Any]


class _Member(_Stage, forbid_unknown_fields=True):
    """Schema of a member of an average on disk."""

    weight: float


def _decode_part(part: _Stage, k: int) -> tuple[Any, Calibrator]:
    """Decode options and calibrator of a stage or a member."""
    cls = method(part.method)
    options = msgspec.convert(part.options, cls.Options, strict=True)
    return options, decode_params(cls, part.params, k)


def _decode(
    name: str, value: Any, hint: Any, metadata: Any, sizes: dict[str, int]
) -> Any:
    if value is None and metadata["optional"]:
        return None
    if set(get_args(Curves)) <= set(get_args(hint)):
        return _decode_curves(name, value)
    if metadata["shape"]:
        return _array(name, value, metadata["dtype"], metadata["shape"], sizes)
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as problem:
        message = f"params.{name} is {shown(value)}, {reason_of(problem)}"
        raise DataError(message) from None


def _decode_curves(name: str, value: Any) -> Any:
    """One curve, or a tuple of one for each class."""
    if not (isinstance(value, list) and value and isinstance(value[0], list | dict)):
        return _array(name, value, "float64", (None,), {})
    curves = []
    for place, curve in enumerate(value):
        curves.append(_array(f"{name}[{place}]", curve, "float64", (None,), {}))
    return tuple(curves)


def shown(value: Any) -> str:
    """Quote a value of a file in an error, at most 40 characters."""
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "…"


class _Packed(msgspec.Struct, forbid_unknown_fields=True):
    """Schema of a large array on disk: its numbers, little-endian, in base64."""

    dtype: Literal["float64", "float32", "int64"]
    shape: list[Count]
    base64: bytes

    def unpacked(self, dtype: str) -> AnyArray:
        if (self.dtype == "int64") != (dtype == "int64"):
            raise ValueError(f"holds {self.dtype}")
        if 0 in self.shape and max(self.shape) > LONGEST_EMPTY:
            raise ValueError(f"has shape {self.shape} and no entries")
        little_endian = np.dtype(self.dtype).newbyteorder("<")
        numbers = np.frombuffer(self.base64, little_endian)
        return numbers.reshape(self.shape).astype(self.dtype)


ENTRIES: dict[str, Any] = {"str": str, "int64": int, "float64": float | None}
"""JSON type of list entries by dtype of the array; null is NaN."""


def _array(
    name: str, value: Any, dtype: str, shape: tuple[Any, ...], sizes: dict[str, int]
) -> AnyArray:
    """Array of a parameter. sizes : lengths of named axes, which are added to."""
    try:
        array = _entries(value, dtype, len(shape))
    except (ValueError, OverflowError) as problem:
        message = f"params.{name} is no array of {dtype}: {one_line(problem)}"
        raise DataError(message) from None
    expected = [sizes.get(length, length) for length in shape]
    if not _has_shape(array, expected):
        listing = ", ".join(map(str, expected))
        message = f"params.{name} has shape {array.shape}, expected ({listing})"
        raise DataError(message)
    for axis, length in enumerate(shape):
        if isinstance(length, str):
            sizes[length] = array.shape[axis]
    if array.dtype.kind == "f" and np.isinf(array).any():
        raise DataError(f"params.{name} holds an infinite number")
    return array


def _entries(value: Any, dtype: str, n_axes: int) -> AnyArray:
    """Array of nested lists, or of base64. Raises ValueError."""
    if isinstance(value, dict) and dtype != "str":
        return msgspec.convert(value, _Packed).unpacked(dtype)
    lists = ENTRIES[dtype]
    for _ in range(n_axes):
        lists = GenericAlias(list, lists)
    if dtype == "str":
        return np.asarray(msgspec.convert(value, lists), object)
    return np.asarray(msgspec.convert(value, lists), dtype)


def _has_shape(array: AnyArray, expected: Sequence[Any]) -> bool:
    """True for arrays of this shape; lengths that are no numbers are free."""
    if array.ndim != len(expected) or not expected:
        return False
    pairs = zip(expected, array.shape, strict=True)
    return all(not isinstance(wanted, int) or wanted == n for wanted, n in pairs)
