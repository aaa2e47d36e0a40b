"""Calibrator artifacts: fitted calibrators as JSON, written deterministically, read strictly.

Loading never executes anything: the method's class says which parameters, of which type
and shape, there must be, and everything else is refused with a sentence.
"""

import base64
import binascii
import codecs
import dataclasses
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from calcli import __version__
from calcli.calibrator import Calibrator, Curves, Status
from calcli.composition import Composition, Stage
from calcli.errors import CalcliError, DataError, FitError
from calcli.io.atomic import write_bytes
from calcli.io.extremes import check_extremes
from calcli.mixture import Member, Mixture
from calcli.numerics import TINY
from calcli.registry import method
from calcli.rows import ScoreKind

__all__ = ["Artifact", "FitRecord", "Link", "dumps", "encode_params", "load", "loads", "save"]

FORMAT = 1
BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

LARGEST = 1 << 30
"""Bytes of an artifact: the matrix of 10 000 classes has fewer."""

LONGEST_EMPTY = 1_000_000
"""No bytes at all make any shape with a 0 in it; written as lists, its other lengths take memory."""

INLINE_ENTRIES = 4096
"""Arrays with more entries are written as base64."""


class Link(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One calibrator that rows have been through (see ``calcli.io.provenance``).

    sha256 : of its method and parameters. fitted_on : name of its calibration rows.
    """

    sha256: str
    method: str
    fitted_on: str | None = None


class FitRecord(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How a fit went.

    n : rows used. ignored : rows left out by label. source : bundle as named by the user
    (no folder). data_sha256 : hash of scores and labels. label_counts : rows per class. before, after : accuracy, nll,
    brier, ece on the calibration data. details : what the method records of its fit.
    probability_floor : floor under probabilities before their logarithm is taken.
    upstream : the calibrators that the rows had been through before, oldest first.
    """

    n: int
    status: Status
    warnings: list[str] = []
    source: str | None = None
    data_sha256: str | None = None
    label_counts: list[int] = []
    ignored: int = 0
    seed: int = 0
    probability_floor: float = TINY
    before: dict[str, float | None] = {}
    after: dict[str, float | None] = {}
    details: dict[str, Any] = {}
    upstream: list[Link] | None = None


class Artifact(msgspec.Struct, kw_only=True):
    """A fitted calibrator with everything needed to apply it elsewhere.

    n_classes : 1 where input_kind is ``confidence``; null on disk, as there are no classes then.
    seconds : time that the fit spent on its parts, by name; told, never written.
    """

    method: str
    options: dict[str, Any]
    calibrator: Calibrator
    n_classes: int
    input_kind: ScoreKind
    class_names: list[str] | None
    fit: FitRecord
    calcli_version: str = __version__
    seconds: dict[str, float] = {}


class _Envelope(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The JSON object as it is on disk."""

    calcli_artifact: int
    calcli_version: str
    method: str
    options: dict[str, Any]
    params: dict[str, Any]
    n_classes: int | None
    input_kind: Literal["logits", "log_probs", "probs", "confidence"]
    class_names: list[str] | None
    fit: FitRecord


# ---- parameters


def encode_params(calibrator: Calibrator) -> dict[str, Any]:
    """Parameters of a calibrator as JSON values; those of a composition nest, stage by stage."""
    if isinstance(calibrator, Composition):
        return {
            "stages": [
                {"method": s.method, "options": msgspec.to_builtins(s.options), "params": encode_params(s.calibrator)}
                for s in calibrator.stages
            ]
        }
    if isinstance(calibrator, Mixture):
        members = [
            {
                "method": m.method,
                "options": msgspec.to_builtins(m.options),
                "params": encode_params(m.calibrator),
                "weight": m.weight,
            }
            for m in calibrator.members
        ]
        return {"members": members, "uniform": calibrator.uniform}
    values = ((f, getattr(calibrator, f.name)) for f in dataclasses.fields(calibrator))
    return {f.name: _encode(value) for f, value in values if not _is_default(value, f.default)}


def _is_default(value: Any, default: Any) -> bool:
    """Whether an artifact can leave a parameter out; an array never is the default."""
    return value is default or (not isinstance(value, np.ndarray | tuple) and bool(value == default))


def _encode(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_encode(curve) for curve in value]
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "OUS":
            return [str(v) for v in value.tolist()]
        if value.size > INLINE_ENTRIES:
            plain = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
            text = base64.b64encode(plain.tobytes()).decode("ascii")
            return {"dtype": str(value.dtype), "shape": list(value.shape), "base64": text}
        return _nan_to_null(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    return _nan_to_null(value)


def _nan_to_null(value: Any) -> Any:
    if isinstance(value, list):
        return [_nan_to_null(v) for v in value]
    return None if isinstance(value, float) and value != value else value


def decode_params(cls: type[Calibrator], params: dict[str, Any], k: int) -> Calibrator:
    """Build a calibrator of a class from JSON values, checking names, types and shapes.

    Raises DataError that names the parameter.
    """
    if issubclass(cls, Composition):
        return _decode_stages(cls, params, k)
    if issubclass(cls, Mixture):
        return _decode_members(cls, params, k)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    if missing := [name for name, f in fields.items() if name not in params and f.default is dataclasses.MISSING]:
        raise DataError(f"params lack {', '.join(missing)}")
    if unknown := [name for name in params if name not in fields]:
        raise DataError(f"params hold unknown {', '.join(unknown)}, expected {', '.join(fields) or 'none'}")
    hints = get_type_hints(cls)
    sizes: dict[str, int] = {"k": k}
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
        own = method(stage.method)
        options = msgspec.convert(stage.options, own.Options, strict=True)
        stages.append(Stage(stage.method, options, decode_params(own, stage.params, k)))
    calibrator = cls(tuple(stages))
    calibrator.check(k)
    return calibrator


class _Member(_Stage, forbid_unknown_fields=True):
    """A member of an average as it is on disk."""

    weight: float


def _decode_members(cls: type[Mixture], params: dict[str, Any], k: int) -> Calibrator:
    if set(params) != {"members", "uniform"}:
        raise DataError(f"params of an average hold {', '.join(params) or 'nothing'}, expected members and uniform")
    members = []
    for member in msgspec.convert(params["members"], list[_Member]):
        own = method(member.method)
        if issubclass(own, Mixture):
            raise DataError(f"member {member.method!r} is itself an average")
        options = msgspec.convert(member.options, own.Options, strict=True)
        members.append(Member(member.method, options, decode_params(own, member.params, k), member.weight))
    calibrator = cls(tuple(members), msgspec.convert(params["uniform"], float))
    calibrator.check(k)
    return calibrator


def _decode(name: str, value: Any, hint: Any, metadata: Any, sizes: dict[str, int]) -> Any:
    if value is None and metadata.get("optional"):
        return None
    if hint == Curves or (metadata.get("optional") and set(get_args(Curves)) <= set(get_args(hint))):
        if isinstance(value, list) and value and isinstance(value[0], list | dict):
            return tuple(_array(f"{name}[{i}]", v, "float64", (None,), {}) for i, v in enumerate(value))
        return _array(name, value, "float64", (None,), {})
    scalar = next(
        (t for t in (bool, int, float, str) if hint is t or (metadata["optional"] and t in get_args(hint))), None
    )
    if scalar is None:
        return _array(name, value, metadata["dtype"], metadata["shape"], sizes)
    if scalar is float and type(value) is int and abs(value) < 2**1023:
        value = float(value)
    if type(value) is not scalar:
        raise DataError(f"params.{name} is {_shown(value)}, expected {scalar.__name__}")
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "…"


def _array(name: str, value: Any, dtype: str, shape: tuple[Any, ...], sizes: dict[str, int]) -> NDArray[Any]:
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


def _from_base64(name: str, value: dict[str, Any], dtype: str) -> NDArray[Any]:
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
    layout = np.dtype(given).newbyteorder("<")
    count = 1
    for s in shape:
        count *= s
    if count == 0 and max(shape) > LONGEST_EMPTY:
        raise DataError(f"params.{name} has shape {shape} and no entries")
    if count * layout.itemsize != len(raw):
        raise DataError(f"params.{name} holds {len(raw)} bytes, expected {count * layout.itemsize} for shape {shape}")
    try:
        array = np.frombuffer(raw, layout).reshape(shape)
    except (ValueError, OverflowError):  # no bytes at all make any shape with a 0 in it
        raise DataError(f"params.{name} has shape {shape}, which no array can have") from None
    return array.astype(dtype if given == "float64" or dtype == "int64" else given)


def _from_list(name: str, value: Any, dtype: str, ndim: int) -> NDArray[Any]:
    kinds: tuple[type, ...] = {"str": (str,), "int64": (int,), "float64": (int, float)}[dtype]

    def check(item: Any, depth: int) -> Any:
        if depth:
            if not isinstance(item, list):
                raise DataError(f"params.{name} is {_shown(item)} where a list was expected ({ndim} dimensions)")
            return [check(v, depth - 1) for v in item]
        if item is None and dtype == "float64":
            return float("nan")
        if type(item) not in kinds:
            raise DataError(f"params.{name} holds {_shown(item)}, expected {dtype} entries")
        return item

    plain = check(value, ndim)
    try:
        if dtype == "str":
            return np.asarray(plain, dtype=object)
        return np.asarray(plain, dtype=dtype)
    except (ValueError, OverflowError):
        raise DataError(f"params.{name} is ragged or too large, expected a {ndim}-dimensional array") from None


# ---- the envelope


def dumps(artifact: Artifact) -> str:
    """An artifact as JSON text: one top-level key per line, the same bytes for the same content."""
    content = {
        "calcli_artifact": FORMAT,
        "calcli_version": artifact.calcli_version,
        "method": artifact.method,
        "options": artifact.options,
        "params": encode_params(artifact.calibrator),
        "n_classes": artifact.n_classes if artifact.input_kind != "confidence" else None,
        "input_kind": artifact.input_kind,
        "class_names": artifact.class_names,
        "fit": msgspec.to_builtins(artifact.fit),
    }
    try:
        lines = [f"  {json.dumps(key)}: {_json(value)}" for key, value in content.items()]
    except ValueError:
        raise FitError(f"method {artifact.method} was left with infinite parameters; no artifact was made") from None
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def loads(text: str | bytes, where: str) -> Artifact:
    """Read an artifact from JSON text; ``where`` is its name in messages.

    Raises DataError for anything that is not a complete, consistent artifact of a format
    and method that this calcli knows.
    """
    data = (text.encode() if isinstance(text, str) else text).removeprefix(codecs.BOM_UTF8)
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        found = _other_than_json(data) or f"not JSON: {problem}"
        raise DataError(f"{where}: is {found}; expected a calibrator written by calcli fit") from None
    if not isinstance(content, dict) or "calcli_artifact" not in content:
        raise DataError(f"{where}: is JSON but no calcli artifact (key calcli_artifact); calcli fit makes one")
    if content["calcli_artifact"] != FORMAT:
        raise DataError(
            f"{where}: artifact format {_shown(content['calcli_artifact'])} (calcli {content.get('calcli_version')})"
            f" is not known to calcli {__version__}, which reads format {FORMAT}; upgrade calcli"
        )
    try:
        envelope = msgspec.convert(content, _Envelope)
        cls = method(envelope.method)
        k = _classes(envelope, cls)
        msgspec.convert(envelope.options, cls.Options, strict=True)
        calibrator = decode_params(cls, envelope.params, k)
        check_extremes(calibrator, k)
    except msgspec.ValidationError as problem:
        reason = " ".join(str(problem).replace("`$.", "").replace("`", "").split())
        raise DataError(f"{where}: is no valid artifact: {reason[:1].lower()}{reason[1:]}") from None
    except CalcliError as problem:
        raise DataError(f"{where}: is no valid artifact: {problem}") from None
    except MemoryError:
        raise DataError(f"{where}: is no valid artifact: its params have shapes that no memory can hold") from None
    return Artifact(
        method=envelope.method,
        options=envelope.options,
        calibrator=calibrator,
        n_classes=k,
        input_kind=envelope.input_kind,
        class_names=envelope.class_names,
        fit=envelope.fit,
        calcli_version=envelope.calcli_version,
    )


def _classes(envelope: _Envelope, cls: type[Calibrator]) -> int:
    """The number of classes, 1 of a confidence alone. Raises DataError for what does not go together."""
    k, names = envelope.n_classes, envelope.class_names
    if envelope.input_kind == "confidence":
        if not cls.laws.confidence:
            raise DataError(f"input_kind is confidence, but method {envelope.method} needs the scores of every class")
        if k is not None or names is not None:
            raise DataError("input_kind is confidence, so n_classes and class_names are expected to be null")
        return 1
    if k is None or k < 2:
        raise DataError(f"n_classes is {'null' if k is None else k}, expected at least 2")
    if names is not None and len(names) != k:
        raise DataError(f"there are {len(names)} class_names, expected {k}")
    return k


def _other_than_json(data: bytes) -> str | None:
    """What a file is that people take for an artifact by mistake."""
    if not data.strip():
        return "empty (did the command that should write it fail?)"
    if data.startswith(b"\x89HDF"):
        return "an HDF5 file (a bundle in an artifact's place?)"
    if data.startswith(BYTE_ORDER_MARKS):
        return "UTF-16 text (was it redirected by a shell? write it with -o FILE)"
    return None


def load(path: str) -> Artifact:
    """Read an artifact file; ``-`` is standard input. Raises DataError."""
    try:
        if path == "-":
            return loads(_bounded(sys.stdin.buffer, "<stdin>"), "<stdin>")
        with Path(path).open("rb") as file:
            data = _bounded(file, path)
    except OSError as problem:
        reason = (problem.strerror or "unknown reason").lower()
        raise DataError(f"{path}: cannot be read: {reason}; expected a calibrator written by calcli fit") from None
    return loads(data, path)


def _bounded(file: BinaryIO, where: str) -> bytes:
    """All that a file holds; a stream that does not begin as JSON does, or never ends, is left alone."""
    data = file.read(1 << 16)
    if b"\0" not in data[:16] or data.startswith((b"\x89HDF", *BYTE_ORDER_MARKS)):
        data += file.read(LARGEST - len(data))
    if len(data) >= LARGEST:
        raise DataError(f"{where}: is larger than {LARGEST >> 20} MiB; expected a calibrator written by calcli fit")
    return data


def save(artifact: Artifact, path: str, *, force: bool = False, inputs: Iterable[Path] = ()) -> None:
    """Write an artifact file; ``-`` is standard output. Raises UsageError for a bad output path."""
    text = dumps(artifact)
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())  # UTF-8 whatever the terminal speaks
        return
    write_bytes(Path(path), text, force=force, inputs=inputs)
