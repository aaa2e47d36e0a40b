"""Classifications of a data set that FiftyOne has exported: samples.json, labels.json."""

import base64
import io
import json
import zlib
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, one_line
from calcli.importers.formats import reader
from calcli.importers.json_columns import table_of_rows, with_class_names
from calcli.importers.predicted_names import names_by_place
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.numerics import AnyArray

CLASSIFICATION = "Classification"
METADATA = "metadata.json"
"""File beside samples.json with the names of the classes."""

UNREADABLE = (ValueError, TypeError, KeyError, EOFError, zlib.error)

MOST_BYTES = 1 << 24  # of the logits of one sample


def _samples(file: SourceFile) -> list[Any]:
    """Samples of an exported data set; none for other files."""
    if not file.is_json or b'"samples"' not in file.head:
        return []
    if not isinstance(file.json, dict):
        return []
    samples = file.json.get("samples")
    if not isinstance(samples, list):
        return []
    return samples if any(map(_classifications, samples)) else []


def _classifications(sample: Any) -> dict[str, Mapping[str, Any]]:
    """Fields of a sample that are classifications."""
    if not isinstance(sample, dict):
        return {}
    fields: dict[str, Mapping[str, Any]] = {}
    for name, value in sample.items():
        if isinstance(value, dict) and value.get("_cls") == CLASSIFICATION:
            fields[name] = value
    return fields


@reader(
    "fiftyone",
    "classifications that FiftyOne exports: samples.json",
    suffixes=[".json"],
    sniff=lambda file: bool(_samples(file)),
    order=-1,
    examples=[("samples.json", "")],
)
def read_fiftyone(file: SourceFile) -> Table:
    """Read logits and labels; without logits confidences, and whether they are right.

    A field with confidences holds predictions, one without them the right labels.
    """
    samples = _samples(file)
    fields_of_samples = list(map(_classifications, samples))
    predicted, truth = _fields(file.path, fields_of_samples)
    predictions = [fields[predicted] for fields in fields_of_samples]
    have_logits = all(
        prediction.get("logits") is not None for prediction in predictions
    )
    rows = []
    for sample, fields in zip(samples, fields_of_samples, strict=True):
        prediction = fields[predicted]
        label = str(fields[truth]["label"])
        row: dict[str, Any] = {"ids": str(sample.get("filepath", sample.get("_id")))}
        if have_logits:
            row["logits"] = _numbers_of(prediction["logits"], file.path)
            row["labels"] = label
        else:
            row["confidence"] = float(prediction["confidence"])
            row["correct"] = str(prediction["label"]) == label
        rows.append(row)
    classes: Sequence[str] = ()
    if have_logits:
        if len({len(row["logits"]) for row in rows}) > 1:
            raise DataError(f"{file.path}: the logits of samples differ in length")
        logits = np.array([row["logits"] for row in rows])
        answers = [str(prediction["label"]) for prediction in predictions]
        classes = _class_names(file.path, logits, answers)
    return with_class_names(table_of_rows(file.path, "fiftyone", rows), classes)


def _fields(
    path: Path, samples: Sequence[Mapping[str, Mapping[str, Any]]]
) -> tuple[str, str]:
    """Names of the fields of predictions and of right labels. Raises DataError."""
    predicted: list[str] = []
    truth: list[str] = []
    for name in dict.fromkeys(chain.from_iterable(samples)):
        values = [sample.get(name, {}) for sample in samples]
        if any(value.get("label") is None for value in values):
            continue
        n_stated = sum(value.get("confidence") is not None for value in values)
        if n_stated == len(values):
            predicted.append(name)
        elif n_stated == 0:
            truth.append(name)
    if len(predicted) == 1 and len(truth) == 1:
        return predicted[0], truth[0]
    raise DataError(
        f"{path}: has {', '.join(predicted) or 'no field'} with confidences on all"
        f" samples; {', '.join(truth) or 'no field'} without any; expected one field of"
        " predictions, and one of right labels; export these two:"
        " dataset.select_fields([PREDICTIONS, TRUTH]).export(…)"
    )


def _numbers_of(cell: Any, path: Path) -> list[float]:
    """The logits of a sample: numbers, or a packed array of NumPy."""
    is_packed = isinstance(cell, dict) and "$binary" in cell
    if not cell or not (is_packed or isinstance(cell, list)):
        raise DataError(
            f"{path}: logits are {json.dumps(cell)[:40]}, expected a list of numbers,"
            " or $binary"
        )
    try:
        if isinstance(cell, list):
            return list(map(float, cell))
        packed = cell["$binary"]
        if isinstance(packed, dict):
            packed = packed["base64"]
        unpacked = zlib.decompressobj().decompress(base64.b64decode(packed), MOST_BYTES)
        array = np.load(io.BytesIO(unpacked), allow_pickle=False)
        numbers: list[float] = np.asarray(array, dtype=float).reshape(-1).tolist()
        return numbers
    except UNREADABLE as problem:
        reason = one_line(problem)
        raise DataError(f"{path}: logits cannot be read: {reason}") from None


def _class_names(path: Path, logits: AnyArray, answers: Sequence[str]) -> list[str]:
    """Names of the classes, from the file beside it or from the predictions.

    A prediction is the class of the largest logit. Raises DataError where they do not
    tell all names.
    """
    k = logits.shape[1]
    known = names_by_place(logits, answers)
    if known is None:
        raise DataError(
            f"{path}: predictions of several classes have their largest logit at one"
            " place"
        )
    metadata_file = path.with_name(METADATA)
    if metadata_file.exists():
        for names in _lists_of_classes(SourceFile(metadata_file).json):
            if len(names) == k and known.items() <= dict(enumerate(names)).items():
                return names
    if len(known) < k:
        raise DataError(
            f"{path}: the predictions name {len(known)} of {k} classes; put {METADATA}"
            " of the export beside it, which lists them"
        )
    return [known[place] for place in range(k)]


def _lists_of_classes(metadata: Any) -> list[list[str]]:
    """Lists of classes in the metadata of a data set."""
    if not isinstance(metadata, dict):
        return []
    candidates = [metadata.get("default_classes"), metadata.get("classes")]
    for cell in (metadata.get("classes"), metadata.get("info")):
        if isinstance(cell, dict):
            candidates += cell.values()
    return [list(map(str, names)) for names in candidates if isinstance(names, list)]
