"""Classifications of a data set that FiftyOne has exported: samples.json, labels.json."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from calcli.importers.arranging.predicted_names import required_names
from calcli.importers.classifications import (
    Classification,
    outcome,
    predictions_and_truths,
)
from calcli.importers.formats import reader
from calcli.importers.json_arrays import numbers_of
from calcli.importers.json_columns import table_of_rows, with_class_names
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.items import are_all

CLASSIFICATION = "Classification"
EXPORT = "export these two: dataset.select_fields([PREDICTIONS, TRUTH]).export(…)"
METADATA = "metadata.json"
"""File beside samples.json with the names of the classes."""


def _samples(file: SourceFile) -> list[dict[str, Any]]:
    """Samples of an exported data set; none for other files."""
    if not file.is_json or b'"samples"' not in file.head:
        return []
    if not isinstance(file.json, dict):
        return []
    samples = file.json.get("samples")
    if not isinstance(samples, list) or not are_all(dict, samples):
        return []
    cells = chain.from_iterable(sample.values() for sample in samples)
    return samples if any(map(_is_classification, cells)) else []


def _is_classification(cell: Any) -> bool:
    return isinstance(cell, dict) and cell.get("_cls") == CLASSIFICATION


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

    A field with confidences holds predictions, one without them the right labels. Where
    there are none, they may come from another file.
    """
    path = file.path
    samples = _samples(file)
    predictions, truths = predictions_and_truths(_fields(samples), path, EXPORT)
    have_logits = all(answer.get("logits") is not None for answer in predictions)
    rows = []
    for sample, prediction, truth in zip(samples, predictions, truths, strict=True):
        row: dict[str, Any] = {"ids": str(sample.get("filepath", sample.get("_id")))}
        if have_logits:
            row["logits"] = numbers_of(prediction["logits"], f"{path}: logits")
        else:
            row["confidence"] = float(prediction["confidence"])
        rows.append(row | outcome(prediction, truth, is_confidence=not have_logits))
    table = table_of_rows(path, "fiftyone", rows)
    if not have_logits:
        return table
    logits = [row["logits"] for row in rows]
    answers = [str(answer["label"]) for answer in predictions]
    listings = _lists_of_classes(path.with_name(METADATA))
    advice = f"put {METADATA} of the export beside it, which lists them"
    names = required_names(logits, answers, listings, path, advice)
    return with_class_names(table, names)


def _fields(samples: Sequence[Mapping[str, Any]]) -> dict[str, list[Classification]]:
    """Classifications by field, of the fields that have a label in every sample."""
    fields: dict[str, list[Any]] = {}
    for name in dict.fromkeys(chain.from_iterable(samples)):
        cells = [sample.get(name) for sample in samples]
        if all(map(_has_label, cells)):
            fields[name] = cells
    return fields


def _has_label(cell: Any) -> bool:
    return _is_classification(cell) and cell.get("label") is not None


def _lists_of_classes(path: Path) -> list[list[str]]:
    """Lists of classes in the metadata of a data set."""
    metadata = SourceFile(path).json if path.exists() else None
    if not isinstance(metadata, dict):
        return []
    candidates = [metadata.get("default_classes"), metadata.get("classes")]
    for cell in (metadata.get("classes"), metadata.get("info")):
        if isinstance(cell, dict):
            candidates += cell.values()
    return [list(map(str, names)) for names in candidates if isinstance(names, list)]
