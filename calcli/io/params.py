"""Parameters of calibrators as JSON values, and back, tried on every size of scores.

The calibrator's class says which parameters, of which type and shape, there must be;
everything else is refused with a sentence.
"""

import base64
import binascii
import dataclasses
import json
from collections.abc import Mapping
from math import prod
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from calcli.calibrator import Calibrator, Curves
from calcli.composition import Composition, Member, Mixture, Stage
from calcli.errors import DataError
from calcli.io.validate import HUGE
from calcli.numerics import AnyArray, log_normalizer
from calcli.registry import method
from calcli.rows import Block, Codes

LONGEST_EMPTY = 1_000_000
"""No bytes at all make any shape with a 0 in it; written as lists, its other lengths take memory."""

INLINE_ENTRIES = 4096
"""Arrays with more entries are written as base64."""


def encode_params(calibrator: Calibrator) -> dict[str, Any]:
    """Parameters of a calibrator as JSON values; those of a composition nest, stage by stage."""
    if isinstance(calibrator, Composition):
        return {"stages": [_encode_part(stage) for stage in calibrator.stages]}
    if isinstance(calibrator, Mixture):
        members = [{**_encode_part(member), "weight": member.weight} for member in calibrator.members]
        return {"members": members, "uniform": calibrator.uniform}
    params = {}
    for each in dataclasses.fields(calibrator):
        value = getattr(calibrator, each.name)
        # what is at its default is left out; an array never is the default
        plain = not isinstance(value, np.ndarray | tuple)
        if not (value is each.default or (plain and bool(value == each.default))):
            params[each.name] = _encode(value)
    return params


def _encode_part(part: Stage | Member) -> dict[str, Any]:
    return {"method": part.method, "options": part.options.recorded(), "params": encode_params(part.calibrator)}


def _encode(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_encode(each) for each in value]
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "OUS":
            return [str(v) for v in value.tolist()]
        if value.size > INLINE_ENTRIES:
            plain = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
            text = base64.b64encode(plain.tobytes()).decode("ascii")
            return {"dtype": str(value.dtype), "shape": list(value.shape), "base64": text}
        return _encode(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value


def decode_params(cls: type[Calibrator], params: dict[str, Any], k: int) -> Calibrator:
    """Build a calibrator of a class from JSON values, checking names, types and shapes.

    Raises DataError that names the parameter.
    """
    if issubclass(cls, Composition):
        calibrator: Calibrator = _decode_stages(cls, params, k)
    elif issubclass(cls, Mixture):
        calibrator = _decode_members(cls, params, k)
    else:
        fields = {f.name: f for f in dataclasses.fields(cls)}
        if missing := [name for name, f in fields.items() if name not in params and f.default is dataclasses.MISSING]:
            raise DataError(f"params lack {', '.join(missing)}")
        if unknown := [name for name in params if name not in fields]:
            raise DataError(f"params hold unknown {', '.join(unknown)}, expected {', '.join(fields) or 'none'}")
        hints, sizes = get_type_hints(cls), {"k": k}
        values = {n: _decode(n, params[n], hints[n], f.metadata, sizes) for n, f in fields.items() if n in params}
        calibrator = cls(**values)
    calibrator.check(k)
    return calibrator


class _Stage(msgspec.Struct, forbid_unknown_fields=True):
    """A stage of a composition as it is on disk."""

    method: str
    options: dict[str, Any]
    params: dict[str, Any]


def _decode_stages(cls: type[Composition], params: dict[str, Any], k: int) -> Calibrator:
    if set(params) != {"stages"}:
        raise DataError(f"params of a composition hold {', '.join(params) or 'nothing'}, expected stages")
    stages = []
    for i, stage in enumerate(msgspec.convert(params["stages"], list[_Stage])):
        if "+" in stage.method:
            raise DataError(f"stage {i + 1} is itself a composition, {stage.method!r}")
        stages.append(Stage(stage.method, *_decode_part(stage, k)))
    return cls(tuple(stages))


class _Member(_Stage, forbid_unknown_fields=True):
    """A member of an average as it is on disk."""

    weight: float


def _decode_members(cls: type[Mixture], params: dict[str, Any], k: int) -> Calibrator:
    if set(params) != {"members", "uniform"}:
        raise DataError(f"params of an average hold {', '.join(params) or 'nothing'}, expected members and uniform")
    members = []
    for member in msgspec.convert(params["members"], list[_Member]):
        if issubclass(method(member.method), Mixture):
            raise DataError(f"member {member.method!r} is itself an average")
        members.append(Member(member.method, *_decode_part(member, k), member.weight))
    return cls(tuple(members), msgspec.convert(params["uniform"], float))


def _decode_part(part: _Stage, k: int) -> tuple[Any, Calibrator]:
    """Options and calibrator of a stage or a member."""
    own = method(part.method)
    return msgspec.convert(part.options, own.Options, strict=True), decode_params(own, part.params, k)


def _decode(name: str, value: Any, hint: Any, metadata: Any, sizes: dict[str, int]) -> Any:
    if value is None and metadata.get("optional"):
        return None
    if hint == Curves or (metadata.get("optional") and set(get_args(Curves)) <= set(get_args(hint))):
        if isinstance(value, list) and value and isinstance(value[0], list | dict):
            return tuple(_array(f"{name}[{i}]", v, "float64", (None,), {}) for i, v in enumerate(value))
        return _array(name, value, "float64", (None,), {})
    if get_origin(hint) is Mapping:
        try:
            return msgspec.convert(value, dict[get_args(hint)])  # type: ignore[misc]
        except msgspec.ValidationError as problem:
            raise DataError(f"params.{name}: {problem}") from None
    scalar = next(
        (t for t in (bool, int, float, str) if hint is t or (metadata["optional"] and t in get_args(hint))), None
    )
    if scalar is None:
        return _array(name, value, metadata["dtype"], metadata["shape"], sizes)
    if scalar is float and type(value) is int and abs(value) < 2**1023:
        value = float(value)
    if type(value) is not scalar:
        raise DataError(f"params.{name} is {shown(value)}, expected {scalar.__name__}")
    return value


def shown(value: Any) -> str:
    """A value of a file as an error quotes it."""
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "…"


def _array(name: str, value: Any, dtype: str, shape: tuple[Any, ...], sizes: dict[str, int]) -> AnyArray:
    array = _from_base64(name, value, dtype) if isinstance(value, dict) else _from_list(name, value, dtype, len(shape))
    expected = tuple(sizes.get(s) if isinstance(s, str) else s for s in shape)
    fits = array.ndim == len(shape) and all(e is None or e == got for e, got in zip(expected, array.shape, strict=True))
    if not fits:
        wanted = ", ".join(str(s if e is None else e) for s, e in zip(shape, expected, strict=True))
        raise DataError(f"params.{name} has shape {array.shape}, expected ({wanted})")
    sizes.update({s: got for s, got in zip(shape, array.shape, strict=True) if isinstance(s, str)})
    if array.dtype.kind == "f" and np.isinf(array).any():
        raise DataError(f"params.{name} holds an infinite number")
    return array


def _from_base64(name: str, value: dict[str, Any], dtype: str) -> AnyArray:
    if set(value) != {"dtype", "shape", "base64"}:
        raise DataError(f"params.{name} has keys {', '.join(sorted(value))}, expected dtype, shape, base64")
    given, shape, text = value["dtype"], value["shape"], value["base64"]
    if given not in ("float64", "float32", "int64") or (dtype == "str") or (given == "int64") != (dtype == "int64"):
        raise DataError(f"params.{name} has dtype {given!r}, expected {dtype}")
    if not (isinstance(shape, list) and all(type(s) is int and s >= 0 for s in shape) and isinstance(text, str)):
        raise DataError(f"params.{name} has no valid shape and base64 text")
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error as problem:
        raise DataError(f"params.{name} is not valid base64: {problem}") from None
    layout, count = np.dtype(given).newbyteorder("<"), prod(shape)
    if count == 0 and max(shape) > LONGEST_EMPTY:
        raise DataError(f"params.{name} has shape {shape} and no entries")
    if count * layout.itemsize != len(raw):
        raise DataError(f"params.{name} holds {len(raw)} bytes, expected {count * layout.itemsize} for shape {shape}")
    try:
        array = np.frombuffer(raw, layout).reshape(shape)
    except (ValueError, OverflowError):  # no bytes at all make any shape with a 0 in it
        raise DataError(f"params.{name} has shape {shape}, which no array can have") from None
    return array.astype(dtype if given == "float64" or dtype == "int64" else given)


def _from_list(name: str, value: Any, dtype: str, ndim: int) -> AnyArray:
    kinds: tuple[type, ...] = {"str": (str,), "int64": (int,), "float64": (int, float)}[dtype]

    def check(item: Any, depth: int) -> Any:
        if depth:
            if not isinstance(item, list):
                raise DataError(f"params.{name} is {shown(item)} where a list was expected ({ndim} dimensions)")
            return [check(v, depth - 1) for v in item]
        if item is None and dtype == "float64":
            return float("nan")
        if type(item) not in kinds:
            raise DataError(f"params.{name} holds {shown(item)}, expected {dtype} entries")
        return item

    plain = check(value, ndim)
    try:
        if dtype == "str":
            return np.asarray(plain, dtype=object)
        return np.asarray(plain, dtype=dtype)
    except (ValueError, OverflowError):
        raise DataError(f"params.{name} is ragged or too large, expected a {ndim}-dimensional array") from None


# ---- what was read, tried


LEVELS = (1e-300, 1.0, 1e6, HUGE)
"""Sizes of the scores tried, up to the largest gap between two."""

MOST_CLASSES = 1_000_000
"""With more classes the rows themselves would fill the memory, and no file could hold parameters of each."""

SUM_ERROR = 1e-6


def check_extremes(calibrator: Calibrator, k: int) -> None:
    """Apply a calibrator to a few rows, from ties to near certainty.

    k : number of classes; 1 is a calibrator of confidences. Raises DataError when it gives no
    probabilities: parameters that read well, and overflow or are out of order.
    """
    if k > MOST_CLASSES:
        return
    if k == 1:
        stated = np.array([0.0, 1e-300, 1e-9, 0.5, 1.0 - 1e-9, np.nextafter(1.0, 0.0), 1.0])
        with np.errstate(all="ignore"):
            columns = {name: Codes(("",), np.zeros(7, dtype=np.int64)) for name in calibrator.required_columns}
            q = calibrator.apply(Block(0, stated[:, None], "confidence", columns=columns)).confidence
        if not ((q >= 0) & (q <= 1)).all():
            raise DataError(f"params give {q[~((q >= 0) & (q <= 1))][0]:g} for a confidence; were they edited?")
        return
    ramp = np.linspace(-1.0, 1.0, k)
    shapes = np.stack([ramp, -ramp, -np.ones(k), np.ones(k)])
    shapes[2, 0], shapes[3, -1] = 1.0, -1.0
    rows = [np.concatenate([level * shapes, np.zeros((1, k))]) for level in LEVELS]
    log_p = [np.maximum(z - log_normalizer(z)[:, None], -700.0) for z in rows]
    transforms = calibrator.required_transforms
    columns = {name: Codes(("",), np.zeros(5, dtype=np.int64)) for name in calibrator.required_columns}
    for scores, kind in [*((z, "logits") for z in rows), *((z, "log_probs") for z in log_p)]:
        moved = np.broadcast_to(scores, (len(transforms), *scores.shape)) if transforms else None
        try:
            with np.errstate(all="ignore"):
                block = Block(0, scores, kind, transformed=moved, columns=columns)  # type: ignore[arg-type]
                found = calibrator.apply(block).log_probs
                wrong = ~(np.abs(np.exp(found).sum(axis=1) - 1.0) <= SUM_ERROR) | ~np.isfinite(found).all(axis=1)
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as problem:
            raise DataError(f"params do not work on rows of {k} classes: {' '.join(str(problem).split())}") from None
        if wrong.any():
            row = int(np.argmax(wrong))
            size = np.abs(scores[row]).max()
            raise DataError(f"params give no probabilities for {kind} of size {size:.3g}; were they edited?")
