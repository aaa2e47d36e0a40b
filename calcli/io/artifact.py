"""Calibrator artifacts: fitted calibrators as JSON, written deterministically, read
strictly.

Loading never executes anything. The calibrator's class defines names, types and shapes
of the parameters; anything else is refused with a message, and a calibrator that was
read is applied to scores of every size as a test.
"""

import codecs
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec

from calcli import __version__
from calcli.calibrator import Calibrator, Status
from calcli.errors import CalcliError, DataError, FitError
from calcli.io.artifact_check import check_extremes
from calcli.io.artifact_params import (
    Count,
    decode_params,
    encode_params,
    reason_of,
    shown,
)
from calcli.io.atomic import write_bytes
from calcli.io.inputs import at_most, once, open_document
from calcli.io.rows_seen import RowSketch
from calcli.registry import method
from calcli.rows import ScoreKind
from calcli.zeros import Zeros

FORMAT = 1
BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

LARGEST = 1 << 30
"""Maximum bytes of an artifact; one with a matrix for 10 000 classes is smaller."""

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

    n : rows used, 0 of a calibrator from known shares. ignored : rows left out by label.
    source : bundle as named by the user, without folder. data_sha256 : hash of scores
    and labels. row_sketch : signatures of some rows, to recognise them. label_counts :
    rows per class.
    label_effect : design effect of these counts where rows have units. effective_rows :
    Kish's effective number of rows where they have weights. before, after : accuracy,
    nll, brier, ece on the calibration data. details : the method's own record.
    resolution : last digit of the probabilities, one or one for each of two classes:
    half of it is what a zero counts as, divided by the zeros of the row + 1. clip :
    value that a writer put for all smaller ones. probability_floor : what every zero
    counts as, in artifacts of calcli 0.2 and before. upstream : calibrators applied to
    the rows before the fit, oldest first.
    """

    n: Annotated[int, msgspec.Meta(ge=0)]
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
            if key in overrides:
                value = overrides[key]
            else:
                value = getattr(artifact, key)
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
    data = text.encode() if isinstance(text, str) else text
    content = _content_of(data.removeprefix(codecs.BOM_UTF8), where)
    invalid = f"{where}: is no valid artifact"
    try:
        return _artifact_of(msgspec.convert(content, _Envelope))
    except msgspec.ValidationError as problem:
        raise DataError(f"{invalid}: {reason_of(problem)}") from None
    except CalcliError as problem:
        raise DataError(f"{invalid}: {problem}") from None
    except SystemError:
        # Raised by msgspec before 0.22 for an integer that exceeds every float.
        raise DataError(f"{invalid}: it holds a number beyond 1.8e308") from None
    except MemoryError:
        raise DataError(
            f"{invalid}: its params have shapes that no memory can hold"
        ) from None


def _content_of(data: bytes, where: str) -> dict[str, Any]:
    """The JSON object of one calibrator, in the format of now. Raises DataError."""
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
            f"{where}: is JSON but no calcli artifact (key calcli_artifact); calcli fit"
            " makes one"
        )
    if content["calcli_artifact"] != FORMAT:
        format = shown(content["calcli_artifact"])
        version = content.get("calcli_version")
        raise DataError(
            f"{where}: artifact format {format} (calcli {version}) is not known to"
            f" calcli {__version__}, which reads format {FORMAT}; upgrade calcli"
        )
    if content.get("method") == "by-question":
        raise DataError(
            f"{where}: holds a calibrator for each question of a log of decisions; name"
            " one, FILE:QUESTION"
        )
    return content


def _artifact_of(envelope: _Envelope) -> Artifact:
    """The artifact of a JSON object whose types are right, checked and tried."""
    cls = method(envelope.method)
    k = _classes(envelope, cls)
    msgspec.convert(envelope.options, cls.Options, strict=True)
    calibrator = decode_params(cls, envelope.params, k)
    check_extremes(calibrator, k)
    _check_record(envelope.fit, k)
    return Artifact(
        method=envelope.method,
        options=envelope.options,
        calibrator=calibrator.counting(_zeros(envelope.fit, k)),
        n_classes=k,
        input_kind=envelope.input_kind,
        class_names=envelope.class_names,
        fit=envelope.fit,
        calcli_version=envelope.calcli_version,
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
        number = json.dumps(k)
        raise DataError(
            f"n_classes is {number}, expected at least 2, and fewer than 2^31"
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
    shares = []
    for record in (fit.before, fit.after):
        for name in ("accuracy", "ece"):
            shares.append(record.get(name))
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
