"""Labels of images that FiftyOne exports alone: labels.json, of people or of a model."""

from collections.abc import Mapping
from typing import Any

from calcli.errors import DataError
from calcli.importers.classifications import are_predictions
from calcli.importers.formats import reader
from calcli.importers.json_columns import table_of_rows
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table


def _labels(file: SourceFile) -> Mapping[str, Any]:
    """What a file says of every image, by the image's name; empty for other files."""
    has_keys = b'"labels"' in file.head or b'"classes"' in file.head
    if not file.is_json or not has_keys:
        return {}
    whole = file.json
    if not isinstance(whole, dict) or whole.keys() != {"classes", "labels"}:
        return {}
    labels = whole["labels"]
    if not isinstance(labels, dict) or not all(map(_is_label, labels.values())):
        return {}
    return labels


def _is_label(cell: Any) -> bool:
    """True for a name, a class's place, or either with its confidence; also for null."""
    if isinstance(cell, dict):
        cell = cell.get("label")
    return cell is None or isinstance(cell, str | int)


@reader(
    "fiftyone-labels",
    "labels of images that FiftyOne exports: labels.json",
    suffixes=[".json"],
    sniff=lambda file: bool(_labels(file)),
    order=-1,
    examples=[
        (
            "labels.json",
            "--gold truth/labels.json --confidence confidence"
            " --correct predicted_label=gold",
        )
    ],
)
def read_fiftyone_labels(file: SourceFile) -> Table:
    """Read predictions where every label has a confidence, else right labels.

    A label that is a number is the place of a class.
    """
    rows: list[dict[str, Any]] = []
    for image, cell in _labels(file).items():
        fields = cell if isinstance(cell, dict) else {"label": cell}
        where = f"{file.path}: {image}"
        if fields.get("label") is None:
            raise DataError(f"{where} has no label; export labelled images")
        name = _name(fields["label"], file.json["classes"], where)
        row = {"ids": image, "name": name, "confidence": fields.get("confidence")}
        rows.append(row)
    have_confidences = are_predictions(rows)
    for row in rows:
        name = row.pop("name")
        if have_confidences:
            row["predicted_label"] = name
        else:
            del row["confidence"]
            row["labels"] = name
    return table_of_rows(file.path, "fiftyone-labels", rows)


def _name(label: str | int, classes: Any, where: str) -> str:
    """Name of a class, which may be given by its place."""
    if isinstance(label, str):
        return label
    if not isinstance(classes, list) or not 0 <= label < len(classes):
        raise DataError(f"{where}: label {label} is no place in its list of classes")
    return str(classes[label])
