"""Labels of a log of decisions in a file of their own, by the ids of its records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

from calcli.decisions.log_plan import ID_WORDS
from calcli.decisions.records import Record, begins_like_json, opened, records
from calcli.errors import DataError, one_line
from calcli.importers.formats import to_utf_8
from calcli.items import are_all, duplicates, without


@dataclass(frozen=True)
class GoldLabels:
    """Labels of another file: by the id of the record, or by position.

    ids : None where rows correspond by position.
    """

    path: Path
    ids: "IdFields | None"
    by_id: Mapping[str, Mapping[str, Any]]
    rows: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, path: Path, of_log: Sequence[Record]) -> "GoldLabels":
        """Read JSON Lines or CSV. of_log : first records. Raises DataError."""
        rows = list(_rows_of(path))
        if not rows:
            raise DataError(f"{path}: holds no labels")
        ids = _id_fields(rows, of_log)
        if ids is not None and _may_be_places(ids, rows, of_log):
            raise DataError(
                f"{path}: {ids.of_labels!r} counts the rows, or holds ids of the log,"
                f" whose order is another; call it {ids.of_log!r} if these are ids,"
                " else leave it out"
            )
        by_id: dict[str, dict[str, Any]] = {}
        if ids is not None:
            for row in rows:
                merged = by_id.setdefault(str(row[ids.of_labels]), {})
                merged.update(_labels_in(row, ids.of_labels))
        return cls(path, ids, by_id, rows)

    def of(self, place: int, record: Record) -> Mapping[str, Any]:
        """Labels of a record; none where the file has none for it."""
        if self.ids is not None:
            name = record.get(self.ids.of_log)
            return self.by_id.get(str(name), {})
        if place >= len(self.rows):
            raise DataError(
                f"{self.path}: has {len(self.rows)} rows of labels, the log has more"
                " records; give both an id"
            )
        return _as_labels(self.rows[place])


def _rows_of(path: Path) -> Iterator[Mapping[str, Any]]:
    """Rows of a file of labels: objects, or a table with a header."""
    if begins_like_json(path):
        for _, record in records(path):
            yield record
        return
    import csv  # few logs have their labels in a table

    with opened(path) as file:
        text = TextIOWrapper(file, encoding="utf-8-sig", newline="")
        try:
            rows = list(csv.DictReader(text))
        except UnicodeDecodeError:
            raise to_utf_8(path) from None
        except csv.Error as problem:
            raise DataError(f"{path}: is no table: {one_line(problem)}") from None
    for number, row in enumerate(rows):
        if None in row:
            raise DataError(
                f"{path}: row {number} has more cells, expected {len(row) - 1} as in"
                " the header"
            )
        yield {name: cell for name, cell in row.items() if cell not in (None, "")}


class IdFields(NamedTuple):
    """Fields with the ids of the same records: of a log, of a file of labels."""

    of_log: str
    of_labels: str


def _id_fields(
    rows: Sequence[Mapping[str, Any]], of_log: Sequence[Record]
) -> IdFields | None:
    """Fields with the ids of both; None where there are none.

    The usual name of ids that all rows and some records have; else fields with the same
    values: texts of any names, whole numbers of one name.
    """
    in_every_row = set(rows[0]).intersection(*rows)
    in_any_record = set().union(*of_log)
    of_every_row = [name for name in rows[0] if name in in_every_row]
    in_log = [name for name in ID_WORDS if name in in_any_record]
    for name in in_log:
        if name in of_every_row:
            return IdFields(name, name)
    values_of_rows = {}
    for other in of_every_row:
        values_of_rows[other] = {str(row[other]) for row in rows}
    of_any_name = [*in_log, *_fields_that_differ(str, of_log)]
    for name in (*of_any_name, *_fields_that_differ(int, of_log)):
        ids = {str(record[name]) for record in of_log if name in record}
        for other, values in values_of_rows.items():
            may_be_ids = len(ids) > 1 and (other == name or name in of_any_name)
            if may_be_ids and len(ids & values) > len(ids) / 2:
                return IdFields(name, other)
    return None


def _fields_that_differ(kind: type, records: Sequence[Record]) -> list[str]:
    """Fields of a type whose values differ in all records, ids of whatever name."""
    names = []
    for name in records[0]:
        values = [record.get(name) for record in records]
        if are_all(kind, values) and not duplicates(values):
            names.append(name)
    return names


def _may_be_places(
    ids: IdFields, rows: Sequence[Mapping[str, Any]], of_log: Sequence[Record]
) -> bool:
    """True for numbers of rows under a name of their own, which other records have."""
    if ids.of_log == ids.of_labels:
        return False
    values = [str(row[ids.of_labels]) for row in rows]
    counts = [str(place + int(values[0] == "1")) for place in range(len(rows))]
    of_records = [str(record.get(ids.of_log)) for record in of_log[: len(values)]]
    return values == counts and of_records != values[: len(of_records)]


def _labels_in(row: Mapping[str, Any], id_field: str) -> dict[str, Any]:
    """Labels of a row by question: of a line per question, or of a whole record."""
    labels = without(row, [id_field])
    question = labels.pop("question", None)
    if isinstance(question, str) and len(labels) == 1:
        label = next(iter(labels.values()))
        return {"label": {question: label}}
    return _as_labels(labels)


def _as_labels(row: Mapping[str, Any]) -> dict[str, Any]:
    """Labels of a row under a word for labels, where it has none of its own."""
    if len(row) == 1 and isinstance(next(iter(row.values())), Mapping):
        return dict(row)
    return {"label": dict(row), **row}
