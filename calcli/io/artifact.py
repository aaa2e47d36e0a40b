"""Calibrator artifacts: fitted calibrators as JSON, written deterministically, read
strictly.

Loading never executes anything. The calibrator's class defines names, types and shapes
of the parameters; anything else is refused with a message, and a calibrator that was
read is applied to scores of every size as a test.
"""

import base64
import codecs
import dataclasses
import json
import sys
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
import numpy as np

from calcli import __version__
from calcli.calibrator import Calibrator, Curves, Status
from calcli.composition import Composition, Member, Mixture, Stage
from calcli.errors import CalcliError, DataError, FitError, one_line
from calcli.io.atomic import write_bytes
from calcli.io.inputs import at_most, once, open_document
from calcli.io.row_facts import HUGE, RowSketch
from calcli.numerics import AnyArray, log_normalizer
from calcli.registry import method
from calcli.rows import Block, Codes, ScoreKind
from calcli.zeros import Zeros

FORMAT = 1
BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

LARGEST = 1 << 30
"""Maximum bytes of an artifact; one with a matrix for 10 000 classes is smaller."""

Count = Annotated[int, msgspec.Meta(ge=0)]
Step = Annotated[float, msgspec.Meta(gt=0, le=1)]
TWO = msgspec.Meta(min_length=2, max_length=2)
Loss = Annotated[float, msgspec.Meta(ge=-1e-9)]
"""An accuracy, a loss or an error: none is negative, except by rounding."""


class Link(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One calibrator that has been applied to rows (see ``calcli.io.provenance``).

    sha256 : hash of its method and parameters. fitted_on : name of its calibration
    data. in_sample : part of the rows that it was fitted on, ``about half of these
    rows``; unset if none.
    """

    sha256: str
    method: str
    fitted_on: str | None = None
    in_sample: str | msgspec.UnsetType = msgspec.UNSET


class FitRecord(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Data, status and results of a fit.

    n : rows used. ignored : rows left out by label. source : bundle as named by the
    user, without folder. data_sha256 : hash of scores and labels. row_sketch :
    signatures of some rows, to recognise them. label_counts : rows per class.
    label_effect : design effect of these counts where rows have units. effective_rows :
    Kish's effective number of rows where they have weights. before, after : accuracy,
    nll, brier, ece on the calibration data. details : the method's own record.
    resolution : last digit of the probabilities, one or one for each of two classes:
    half of it is what a zero counts as, divided by the zeros of the row + 1. clip :
    value that a writer put for all smaller ones. probability_floor : what every zero
    counts as, in artifacts of calcli 0.2 and before. upstream : calibrators applied to
    the rows before the fit, oldest first.
    """

    n: Annotated[int, msgspec.Meta(ge=1)]
    status: Status
    warnings: list[str] = []
    source: str | None = None
    data_sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]+$")] | None = None
    row_sketch: RowSketch | None = None
    label_counts: list[Count] = []
    label_effect: Annotated[float, msgspec.Meta(ge=1)] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    effective_rows: Annotated[float, msgspec.Meta(gt=0)] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    ignored: Count = 0
    seed: Count = 0
    probability_floor: (
        Annotated[float, msgspec.Meta(gt=0, lt=1)] | msgspec.UnsetType
    ) = msgspec.UNSET
    resolution: Step | Annotated[list[Step], TWO] | msgspec.UnsetType = msgspec.UNSET
    clip: Step | msgspec.UnsetType = msgspec.UNSET
    before: dict[str, Loss | None] = {}
    after: dict[str, Loss | None] = {}
    details: dict[str, Any] = {}
    upstream: list[Link] | None = None


class Artifact(msgspec.Struct, kw_only=True):
    """A fitted calibrator with everything needed to apply it elsewhere.

    n_classes : 1 where input_kind is ``confidence``; null on disk, as there are no
    classes then. seconds : time that the fit spent on its parts, by name; never written
    to the file. of_options : it is for rows whose columns are options, of any number;
    likewise.
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
    of_options: bool = False


class _Envelope(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Schema of the JSON object on disk."""

    calcli_artifact: int
    calcli_version: str
    method: str
    options: dict[str, Any]
    params: dict[str, Any]
    n_classes: int | None
    input_kind: ScoreKind
    class_names: list[str] | None
    fit: FitRecord


def dumps(artifact: Artifact) -> str:
    """Write an artifact as JSON text: one top-level key per line, deterministic."""
    params = encode_params(artifact.calibrator)
    fit = msgspec.to_builtins(artifact.fit)
    overrides = {"calcli_artifact": FORMAT, "params": params, "fit": fit}
    if artifact.input_kind == "confidence":
        overrides["n_classes"] = None
    lines = []
    try:
        for key in _Envelope.__struct_fields__:
            value = overrides[key] if key in overrides else getattr(artifact, key)
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
            lines.append(f'  "{key}": {text}')
    except ValueError:
        raise FitError(
            f"method {artifact.method} was left with infinite parameters; no artifact"
            " was made"
        ) from None
    return "{\n" + ",\n".join(lines) + "\n}\n"


def loads(text: str | bytes, where: str) -> Artifact:
    """Read an artifact from JSON text, called ``where`` in messages.

    Raises DataError if it is invalid.
    """
    data = (text.encode() if isinstance(text, str) else text).removeprefix(
        codecs.BOM_UTF8
    )
    try:
        content = msgspec.json.decode(data)
        json.loads(data, object_pairs_hook=once)
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        contents = _other_than_json(data) or f"not JSON: {problem}"
        raise DataError(
            f"{where}: is {contents}; expected a calibrator written by calcli fit"
        ) from None
    if not isinstance(content, dict) or "calcli_artifact" not in content:
        raise DataError(
            f"{where}: is JSON but no calcli artifact (key calcli_artifact); calcli"
            " fit makes one"
        )
    if content["calcli_artifact"] != FORMAT:
        contents = (
            f"{shown(content['calcli_artifact'])} (calcli"
            f" {content.get('calcli_version')})"
        )
        message = f"is not known to calcli {__version__}, which reads format {FORMAT}"
        raise DataError(
            f"{where}: artifact format {contents} {message}; upgrade calcli"
        )
    if content.get("method") == "by-question":
        message = "holds a calibrator for each question of a log of decisions"
        raise DataError(f"{where}: {message}; name one, FILE:QUESTION")
    try:
        envelope = msgspec.convert(content, _Envelope)
        cls = method(envelope.method)
        k = _classes(envelope, cls)
        msgspec.convert(envelope.options, cls.Options, strict=True)
        calibrator = decode_params(cls, envelope.params, k)
        check_extremes(calibrator, k)
        _check_record(envelope.fit, k)
        calibrator = calibrator.counting(_zeros(envelope.fit, k))
    except msgspec.ValidationError as problem:
        raise DataError(f"{where}: is no valid artifact: {_reason(problem)}") from None
    except CalcliError as problem:
        raise DataError(f"{where}: is no valid artifact: {problem}") from None
    except SystemError:
        # Raised by msgspec before 0.22 for an integer that exceeds every float.
        raise DataError(
            f"{where}: is no valid artifact: it holds a number beyond 1.8e308"
        ) from None
    except MemoryError:
        raise DataError(
            f"{where}: is no valid artifact: its params have shapes that no memory can"
            " hold"
        ) from None
    same = ("method", "options", "input_kind", "class_names", "fit", "calcli_version")
    return Artifact(
        calibrator=calibrator,
        n_classes=k,
        **{name: getattr(envelope, name) for name in same},
    )


def _zeros(fit: FitRecord, k: int) -> Zeros | None:
    """What a probability of 0 counts as, as the record of a fit says.

    None where it does not.
    """
    if fit.resolution is not msgspec.UNSET:
        clip = 0.0 if fit.clip is msgspec.UNSET else fit.clip
        return Zeros.read(fit.resolution, clip, "fit").of_classes(k, "fit")
    if fit.probability_floor is not msgspec.UNSET:
        floor = fit.probability_floor
        return Zeros((floor,), floor=floor)
    return None


def _reason(problem: msgspec.ValidationError) -> str:
    text = " ".join(str(problem).replace("`$.", "").replace("`", "").split())
    return text[:1].lower() + text[1:]


def _classes(envelope: _Envelope, cls: type[Calibrator]) -> int:
    """Return the number of classes, 1 for confidences.

    Raises DataError if n_classes, class_names, kind conflict.
    """
    k = envelope.n_classes
    names = envelope.class_names
    if envelope.input_kind == "confidence":
        if not cls.laws.confidence:
            raise DataError(
                f"input_kind is confidence, but method {envelope.method} needs the"
                " scores of every class"
            )
        if k is not None or names is not None:
            raise DataError(
                "input_kind is confidence, so n_classes and class_names are expected"
                " to be null"
            )
        return 1
    if k is None or not 2 <= k < 2**31:
        raise DataError(
            f"n_classes is {'null' if k is None else k}, expected at least 2, and"
            " fewer than 2^31"
        )
    if names is not None and len(names) != k:
        raise DataError(f"there are {len(names)} class_names, expected {k}")
    if names is not None and len(set(names)) == 1:
        raise DataError(f"all class_names are {shown(names[0])}")
    return k


def _check_record(fit: FitRecord, k: int) -> None:
    """Check the counts and losses of a fit record for consistency. Raises DataError."""
    counts = fit.label_counts
    if counts and (len(counts) != k or sum(counts) != fit.n):
        raise DataError(
            f"fit.label_counts are {len(counts)} and add up to {sum(counts)}, expected"
            f" {k} and {fit.n}"
        )
    shares = [
        record.get(name)
        for record in (fit.before, fit.after)
        for name in ("accuracy", "ece")
    ]
    if any(share is not None and share > 1 + 1e-9 for share in shares):
        raise DataError("fit.before and fit.after: an accuracy or an ECE is above 1")
    if fit.row_sketch is not None:
        _ = fit.row_sketch.signatures


def _other_than_json(data: bytes) -> str | None:
    """Name the type of a file that is often given in place of an artifact.

    None if unknown.
    """
    if not data.strip():
        return "empty (did the command that should write it fail?)"
    if data.startswith(b"\x89HDF"):
        return "an HDF5 file (scores in the place of a calibrator?)"
    if data.startswith(BYTE_ORDER_MARKS):
        return "UTF-16 text (was it redirected by a shell? write it with -o FILE)"
    return None


def is_artifact(path: str) -> bool:
    """True for a file that begins as an artifact does."""
    try:
        with open(path, "rb") as file:
            return b'"calcli_artifact"' in file.read(200)
    except OSError:
        return False


def load(path: str) -> Artifact:
    """Read an artifact file; ``-`` is standard input. Raises DataError."""
    where = "<stdin>" if path == "-" else path
    what = "a calibrator written by calcli fit"
    with open_document(path, what) as file:
        data = file.read(1 << 16)
        # a stream that does not begin like JSON, and may never end, is not read further
        if b"\0" not in data[:16] or data.startswith((b"\x89HDF", *BYTE_ORDER_MARKS)):
            data += at_most(file, LARGEST - len(data))
    if len(data) >= LARGEST:
        raise DataError(f"{where}: is larger than {LARGEST >> 20} MiB; expected {what}")
    return loads(data, where)


def save(artifact: Artifact, path: str, *, force: bool = False) -> None:
    """Write an artifact file; ``-`` is standard output.

    Raises UsageError for a bad output path.
    """
    text = dumps(artifact)
    if path == "-":
        sys.stdout.flush()
        # UTF-8, whatever the terminal's encoding.
        sys.stdout.buffer.write(text.encode())
        return
    write_bytes(Path(path), text, force=force)


# ---- parameters as JSON values, and back


LONGEST_EMPTY = 1_000_000
"""Longest axis of an array without entries: zero bytes can declare any such shape, and
its lists take memory.
"""

INLINE_ENTRIES = 4096  # arrays with more entries are written as base64


def encode_params(calibrator: Calibrator) -> dict[str, Any]:
    """Convert a calibrator's parameters to JSON values.

    Those of a composition nest, stage by stage.
    """
    if isinstance(calibrator, Composition):
        return {"stages": [_encode_part(stage) for stage in calibrator.stages]}
    if isinstance(calibrator, Mixture):
        members = [
            {**_encode_part(member), "weight": member.weight}
            for member in calibrator.members
        ]
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
            return [str(v) for v in value.tolist()]
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
    if issubclass(cls, Composition):
        if set(params) != {"stages"}:
            raise DataError(
                f"params of a composition hold {', '.join(params) or 'nothing'},"
                " expected stages"
            )
        calibrator: Calibrator = cls(_decode_stages(params["stages"], k))
    elif issubclass(cls, Mixture):
        if set(params) - {"then"} != {"members", "uniform"}:
            raise DataError(
                f"params of an average hold {', '.join(params) or 'nothing'}, expected"
                " members and uniform"
            )
        members = []
        for member in msgspec.convert(params["members"], list[_Member]):
            if issubclass(method(member.method), Mixture):
                raise DataError(f"member {member.method!r} is itself an average")
            members.append(
                Member(member.method, *_decode_part(member, k), member.weight)
            )
        uniform = msgspec.convert(params["uniform"], float)
        then = _decode_stages(params.get("then", []), k)
        calibrator = cls(tuple(members), uniform, then)
    else:
        fields = {f.name: f for f in dataclasses.fields(cls)}
        missing = []
        for name, field in fields.items():
            if name not in params and field.default is dataclasses.MISSING:
                missing.append(name)
        if missing:
            raise DataError(f"params lack {', '.join(missing)}")
        unknown = [name for name in params if name not in fields]
        if unknown:
            raise DataError(
                f"params hold unknown {', '.join(unknown)}, expected"
                f" {', '.join(fields) or 'none'}"
            )
        hints = get_type_hints(cls)
        sizes = {"k": k}
        values = {
            n: _decode(n, params[n], hints[n], f.metadata, sizes)
            for n, f in fields.items()
            if n in params
        }
        calibrator = cls(**values)
    calibrator.check(k)
    return calibrator


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
    return msgspec.convert(part.options, cls.Options, strict=True), decode_params(
        cls, part.params, k
    )


def _decode(
    name: str, value: Any, hint: Any, metadata: Any, sizes: dict[str, int]
) -> Any:
    if value is None and metadata["optional"]:
        return None
    if set(get_args(Curves)) <= set(get_args(hint)):
        if isinstance(value, list) and value and isinstance(value[0], list | dict):
            return tuple(
                _array(f"{name}[{i}]", v, "float64", (None,), {})
                for i, v in enumerate(value)
            )
        return _array(name, value, "float64", (None,), {})
    if metadata["shape"]:
        return _array(name, value, metadata["dtype"], metadata["shape"], sizes)
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as problem:
        raise DataError(
            f"params.{name} is {shown(value)}, {_reason(problem)}"
        ) from None


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
        return (
            np.frombuffer(self.base64, np.dtype(self.dtype).newbyteorder("<"))
            .reshape(self.shape)
            .astype(self.dtype)
        )


ENTRIES: dict[str, Any] = {"str": str, "int64": int, "float64": float | None}
"""JSON type of list entries by dtype of the array; null is NaN."""


def _array(
    name: str, value: Any, dtype: str, shape: tuple[Any, ...], sizes: dict[str, int]
) -> AnyArray:
    lists = ENTRIES[dtype]
    for _ in shape:
        lists = GenericAlias(list, lists)
    try:
        if isinstance(value, dict) and dtype != "str":
            array = msgspec.convert(value, _Packed).unpacked(dtype)
        else:
            array = np.asarray(
                msgspec.convert(value, lists), object if dtype == "str" else dtype
            )
    except (ValueError, OverflowError) as problem:
        raise DataError(
            f"params.{name} is no array of {dtype}: {one_line(problem)}"
        ) from None
    expected = [sizes.get(s, s) for s in shape]
    known = array.shape if array.ndim == len(shape) else ()
    if not known or any(
        isinstance(e, int) and e != got for e, got in zip(expected, known, strict=True)
    ):
        raise DataError(
            f"params.{name} has shape {array.shape}, expected"
            f" ({', '.join(map(str, expected))})"
        )
    sizes.update(
        {s: got for s, got in zip(shape, known, strict=True) if isinstance(s, str)}
    )
    if array.dtype.kind == "f" and np.isinf(array).any():
        raise DataError(f"params.{name} holds an infinite number")
    return array


# ---- test of a calibrator that was read


LEVELS = (
    1e-300,
    1.0,
    1e6,
    HUGE,
)
"""Sizes of the scores tried, up to the largest gap between two."""

MOST_CLASSES = 1_000_000
"""Most classes tested: beyond them the rows would fill the memory, and no file can hold
parameters per class.
"""

SUM_ERROR = 1e-6


def check_extremes(calibrator: Calibrator, k: int) -> None:
    """Apply a calibrator to a few rows, from ties to near certainty.

    k : number of classes; 1 is a calibrator of confidences. Raises DataError if the
    output is not probabilities: parameters of valid type and shape that overflow or are
    out of order.
    """
    if k > MOST_CLASSES:
        return

    def block(scores: AnyArray, kind: ScoreKind) -> Block:
        columns = {
            name: Codes(("",), np.zeros(len(scores), np.int64))
            for name in calibrator.required_columns
        }
        moved = np.broadcast_to(
            scores, (len(calibrator.required_transforms), *scores.shape)
        )
        return Block(
            0, scores, kind, transformed=moved if len(moved) else None, columns=columns
        )

    if k == 1:
        stated = np.array(
            [0.0, 1e-300, 1e-9, 0.5, 1.0 - 1e-9, np.nextafter(1.0, 0.0), 1.0]
        )
        with np.errstate(all="ignore"):
            q = calibrator.apply(block(stated[:, None], "confidence")).confidence
        wrong = ~((q >= 0) & (q <= 1))
        if wrong.any():
            raise DataError(
                f"params give {q[wrong][0]:g} for a confidence; were they edited?"
            )
        return
    ramp = np.linspace(-1.0, 1.0, k)
    shapes = np.stack([ramp, -ramp, -np.ones(k), np.ones(k)])
    shapes[2, 0] = 1.0
    shapes[3, -1] = -1.0
    rows = [np.concatenate([level * shapes, np.zeros((1, k))]) for level in LEVELS]
    log_p = [np.maximum(z - log_normalizer(z)[:, None], -700.0) for z in rows]
    tried: list[tuple[AnyArray, ScoreKind]] = [
        *((z, "logits") for z in rows),
        *((z, "log_probs") for z in log_p),
    ]
    for scores, kind in tried:
        try:
            with np.errstate(all="ignore"):
                log_probs = calibrator.apply(block(scores, kind)).log_probs
                wrong = ~(
                    np.abs(np.exp(log_probs).sum(axis=1) - 1.0) <= SUM_ERROR
                ) | ~np.isfinite(log_probs).all(axis=1)
        except (
            ArithmeticError,
            LookupError,
            MemoryError,
            TypeError,
            ValueError,
        ) as problem:
            raise DataError(
                f"params do not work on rows of {k} classes:"
                f" {' '.join(str(problem).split())}"
            ) from None
        if wrong.any():
            row = int(np.argmax(wrong))
            size = np.abs(scores[row]).max()
            raise DataError(
                f"params give no probabilities for {kind} of size {size:.3g}; were"
                " they edited?"
            )
