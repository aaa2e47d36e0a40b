"""(confidence, correct): how sure, and whether right, where there are no scores of classes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.archive import Entry
from calcli.importers.array_names import COLUMNS, BundleArrays, extra_of, matching, parse_name
from calcli.importers.import_request import ImportRequest
from calcli.importers.labelled_scores import Imported, carried_columns
from calcli.importers.labels import to_labels
from calcli.importers.remarks import remark
from calcli.io.validate import check_confidences, check_labels
from calcli.numerics import AnyArray


def confidences_by_name(entries: Mapping[str, Entry], ask: ImportRequest) -> ImportRequest:
    """Asks for arrays called ``confidence`` and ``correct`` where nothing else could be scores or labels."""
    asked = ask.confidence or ask.correct or ask.scores or ask.labels or ask.kind
    names = [parse_name(path) for path in entries]
    other = any(name.role in ("scores", "labels") for name in names)
    if asked or other or not {"confidence", "correct"} <= entries.keys():
        return ask
    return replace(ask, confidence="confidence", correct="correct")


def load_confidences(entries: Mapping[str, Entry], ask: ImportRequest, ignore: Sequence[int], where: str) -> Imported:
    """The confidences that ``--confidence NAME --correct NAME`` name, checked.

    Confidences lie in [0, 1]; correct is bool, 0/1 or two words such as right and wrong;
    ``--correct A=B`` is where two arrays agree, such as prediction and label. Rows in
    which either has an ignored label keep their place; the caller drops them. Raises
    UsageError for names that are missing, DataError for values that are neither.
    """
    if not (ask.confidence and ask.correct):
        raise UsageError("--confidence NAME and --correct NAME belong together: how sure, and whether right")
    if ask.scores or ask.labels or ask.kind:
        raise UsageError(
            "--confidence and --correct stand instead of --scores, --labels and --kind; name one or the other"
        )
    names = [parse_name(path) for path in entries]
    found = matching(names, ask.confidence, "array of confidences")
    if len(found) > 1:
        raise UsageError(f"{where}: {ask.confidence!r} is in several places: {', '.join(n.path for n in found)}")
    entry = entries[found[0].path]
    confidence = _column(entry)
    if confidence.dtype.kind not in "fiu":
        raise DataError(f"{entry.where}: confidences have type {confidence.dtype}, expected numbers in [0, 1]")
    confidence = confidence / 100.0 if ask.percent else confidence
    check_confidences(confidence, entry.where)
    left, equals, right = ask.correct.partition("=")
    place = matching(names, left.strip(), "array that says what is correct")[0].path
    first = entries[place]
    raw, told, dropped = _column(first), f"{ask.correct!r}", np.zeros(len(confidence), dtype=bool)
    if equals:
        other = _column(entries[matching(names, right.strip(" ="), "array that says what is correct")[0].path])
        if other.shape != raw.shape:
            raise DataError(f"{first.where}: has {len(raw)} values, {right!r} has {len(other)}; expected as many")
        dropped = np.isin(other, ignore) | np.isin(raw, ignore) if ignore else dropped
        correct, told = (raw == other).astype(np.int64), f"{left!r} where it equals {right!r}"
    else:
        correct, _ = to_labels(raw, len(confidence), 2, None, first.where)
    correct = check_labels(correct, len(confidence), 2, first.where, ())
    roles = (*COLUMNS, "calibrated_by")
    extras = {role: path for role in roles if (path := extra_of(found[0], names, role))}
    n = len(confidence)
    remark(f"{ask.confidence!r} was read as the confidence, {told} as correct ({int(correct.sum())} of {n})")
    candidate = BundleArrays("", found[0].split, "confidence", found[0].path, place, extras)
    columns = carried_columns(candidate, entries, n)
    labels = np.where(dropped, min(ignore, default=-1), correct) if dropped.any() else correct
    dtype = np.dtype(confidence.dtype if confidence.dtype.kind == "f" else np.float64).newbyteorder("=")
    return Imported(
        candidate, entry.where, "confidence", n, 0, dtype, labels, columns, None, (), None,
        confidence, None,
    )  # fmt: skip


def _column(entry: Entry) -> AnyArray:
    values = entry.column()
    if values.ndim != 1 or len(values) == 0:
        raise DataError(f"{entry.where}: has shape {values.shape}, expected (rows,)")
    return values
