"""Calibrator artifacts: fitted calibrators as JSON, written deterministically, read strictly.

Loading never executes anything (``calcli.io.params`` checks the parameters).
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
from calcli.io.atomic import write_bytes
from calcli.io.inputs import at_most, once, open_document
from calcli.io.params import check_extremes, decode_params, encode_params, shown
from calcli.io.row_facts import RowSketch
from calcli.numerics import TINY
from calcli.registry import method
from calcli.rows import ScoreKind

FORMAT = 1
BYTE_ORDER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

LARGEST = 1 << 30
"""Bytes of an artifact: the matrix of 10 000 classes has fewer."""


Count = Annotated[int, msgspec.Meta(ge=0)]
Loss = Annotated[float, msgspec.Meta(ge=-1e-9)]
"""An accuracy, a loss or an error, which none is negative but for rounding."""


class Link(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One calibrator that rows have been through (see ``calcli.io.provenance``).

    sha256 : of its method and parameters. fitted_on : name of its calibration rows. in_sample : which of the rows it
    was fitted on, ``about 40% of these rows``; left out where on none.
    """

    sha256: str
    method: str
    fitted_on: str | None = None
    in_sample: str | msgspec.UnsetType = msgspec.UNSET


class FitRecord(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How a fit went.

    n : rows used. ignored : rows left out by label. source : bundle as named by the user (no folder). data_sha256 :
    hash of scores and labels. row_sketch : signatures of some rows, by which they are known again. label_counts :
    rows per class. before, after : accuracy, nll, brier, ece on the calibration data. details : what the method
    records of its fit. probability_floor : floor under probabilities before their logarithm is taken. upstream :
    the calibrators that the rows had been through before, oldest first.
    """

    n: Annotated[int, msgspec.Meta(ge=1)]
    status: Status
    warnings: list[str] = []
    source: str | None = None
    data_sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]+$")] | None = None
    row_sketch: RowSketch | None = None
    label_counts: list[Count] = []
    ignored: Count = 0
    seed: Count = 0
    probability_floor: Annotated[float, msgspec.Meta(gt=0, lt=1)] = TINY
    before: dict[str, Loss | None] = {}
    after: dict[str, Loss | None] = {}
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
    input_kind: ScoreKind
    class_names: list[str] | None
    fit: FitRecord


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
        texts = {key: json.dumps(each, ensure_ascii=False, allow_nan=False) for key, each in content.items()}
    except ValueError:
        raise FitError(f"method {artifact.method} was left with infinite parameters; no artifact was made") from None
    return "{\n" + ",\n".join(f'  "{key}": {text}' for key, text in texts.items()) + "\n}\n"


def loads(text: str | bytes, where: str) -> Artifact:
    """Read an artifact from JSON text; ``where`` is its name in messages.

    Raises DataError for anything that is not a complete, consistent artifact of a format
    and method that this calcli knows.
    """
    data = (text.encode() if isinstance(text, str) else text).removeprefix(codecs.BOM_UTF8)
    try:
        content = msgspec.json.decode(data)
        json.loads(data, object_pairs_hook=once)
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        found = _other_than_json(data) or f"not JSON: {problem}"
        raise DataError(f"{where}: is {found}; expected a calibrator written by calcli fit") from None
    if not isinstance(content, dict) or "calcli_artifact" not in content:
        raise DataError(f"{where}: is JSON but no calcli artifact (key calcli_artifact); calcli fit makes one")
    if content["calcli_artifact"] != FORMAT:
        raise DataError(
            f"{where}: artifact format {shown(content['calcli_artifact'])} (calcli {content.get('calcli_version')})"
            f" is not known to calcli {__version__}, which reads format {FORMAT}; upgrade calcli"
        )
    try:
        envelope = msgspec.convert(content, _Envelope)
        cls = method(envelope.method)
        k = _classes(envelope, cls)
        msgspec.convert(envelope.options, cls.Options, strict=True)
        calibrator = decode_params(cls, envelope.params, k)
        check_extremes(calibrator, k)
        _check_record(envelope.fit, k)
    except msgspec.ValidationError as problem:
        reason = " ".join(str(problem).replace("`$.", "").replace("`", "").split())
        raise DataError(f"{where}: is no valid artifact: {reason[:1].lower()}{reason[1:]}") from None
    except CalcliError as problem:
        raise DataError(f"{where}: is no valid artifact: {problem}") from None
    except SystemError:  # what msgspec before 0.22 makes of a whole number that no float can hold
        raise DataError(f"{where}: is no valid artifact: it holds a number beyond 1.8e308") from None
    except MemoryError:
        raise DataError(f"{where}: is no valid artifact: its params have shapes that no memory can hold") from None
    same = ("method", "options", "input_kind", "class_names", "fit", "calcli_version")
    return Artifact(calibrator=calibrator, n_classes=k, **{name: getattr(envelope, name) for name in same})


def _classes(envelope: _Envelope, cls: type[Calibrator]) -> int:
    """The number of classes, 1 of a confidence alone. Raises DataError for what does not go together."""
    k, names = envelope.n_classes, envelope.class_names
    if envelope.input_kind == "confidence":
        if not cls.laws.confidence:
            raise DataError(f"input_kind is confidence, but method {envelope.method} needs the scores of every class")
        if k is not None or names is not None:
            raise DataError("input_kind is confidence, so n_classes and class_names are expected to be null")
        return 1
    if k is None or not 2 <= k < 2**31:
        raise DataError(f"n_classes is {'null' if k is None else k}, expected at least 2, and fewer than 2^31")
    if names is not None and len(names) != k:
        raise DataError(f"there are {len(names)} class_names, expected {k}")
    if names is not None and len(set(names)) == 1:
        raise DataError(f"all class_names are {shown(names[0])}")
    return k


def _check_record(fit: FitRecord, k: int) -> None:
    """Hold counts of a fit against each other. Raises DataError."""
    counts = fit.label_counts
    if counts and (len(counts) != k or sum(counts) != fit.n):
        raise DataError(f"fit.label_counts are {len(counts)} and add up to {sum(counts)}, expected {k} and {fit.n}")
    shares = [record.get(name) for record in (fit.before, fit.after) for name in ("accuracy", "ece")]
    if any(share is not None and share > 1 + 1e-9 for share in shares):
        raise DataError("fit.before and fit.after: an accuracy or an ECE is above 1")
    if fit.row_sketch is not None:
        _ = fit.row_sketch.signatures


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
    where, what = "<stdin>" if path == "-" else path, "a calibrator written by calcli fit"
    with open_document(path, what) as file:
        data = file.read(1 << 16)
        # a stream that does not begin as JSON does, or never ends, is left alone
        if b"\0" not in data[:16] or data.startswith((b"\x89HDF", *BYTE_ORDER_MARKS)):
            data += at_most(file, LARGEST - len(data))
    if len(data) >= LARGEST:
        raise DataError(f"{where}: is larger than {LARGEST >> 20} MiB; expected {what}")
    return loads(data, where)


def save(artifact: Artifact, path: str, *, force: bool = False) -> None:
    """Write an artifact file; ``-`` is standard output. Raises UsageError for a bad output path."""
    text = dumps(artifact)
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())  # UTF-8 whatever the terminal speaks
        return
    write_bytes(Path(path), text, force=force)
