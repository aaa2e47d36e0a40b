"""Logs of decision models as bundles: a group for every question."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calcli import __version__
from calcli.decisions.answers import YES_NO
from calcli.decisions.labels import shown
from calcli.decisions.log import LOOKED_AT, Log, looks_like_log, read_log
from calcli.decisions.log_plan import GOLD, ID_WORDS, plan_log
from calcli.decisions.question_rows import QuestionRows
from calcli.decisions.records import Numbered, Record, begins_like_json, opened, records
from calcli.decisions.wire_confidence import WORDS
from calcli.errors import DataError, UsageError, one_line
from calcli.importers.building.bundles import Imported
from calcli.importers.building.dealing import Splitting, deal
from calcli.importers.building.writing import ImportReport, write_groups
from calcli.importers.formats import to_utf_8
from calcli.importers.import_request import ImportRequest
from calcli.importers.reading import Reading
from calcli.importers.remarks import remark, remarks
from calcli.io.artifact import Link
from calcli.io.bundle_group import CONFIDENCE_FORMULA, QUESTION, QUESTION_TYPE
from calcli.io.inputs import file_sha256
from calcli.io.locate import intersections, unique_groups
from calcli.io.option_columns import (
    COLUMNS,
    OPTIONS,
    log_probabilities,
    zeros_of_options,
)
from calcli.io.provenance import chain_text
from calcli.io.writer import BundleWriter
from calcli.items import are_all, duplicates, picked, without
from calcli.number_words import noun
from calcli.rows import ScoreKind

FORMAT = "decisions"
LOG_SUFFIXES = (".jsonl", ".ndjson", ".jevl", ".json")
MOST_DESCRIBED = 6
"""Questions that are described one by one."""

LONGEST_NAME = 60


def is_decision_log(files: Sequence[Path], request: ImportRequest) -> bool:
    """True for one file of records of decision models, and no arrays named in it."""
    if len(files) != 1 or not files[0].is_file():
        return False
    is_about_arrays = request.scores or request.confidence or request.correct
    if is_about_arrays or request.votes or request.join or request.kind is not None:
        return False
    return begins_like_json(files[0]) and looks_like_log(files[0])


@dataclass(frozen=True)
class DecisionLog:
    """A log that was read, and where it came from."""

    path: Path
    log: Log
    source: Mapping[str, Any]


def read_decision_log(
    path: Path, gold: Path | None = None, labels: Sequence[str] = ()
) -> DecisionLog:
    """Read a log. gold : another file with its labels. Raises DataError."""
    source = _source(path, gold)
    plan = plan_log(source, str(path), labels)
    log = read_log(source, plan)
    files = [{"name": path.name, "format": FORMAT, "sha256": file_sha256(path)}]
    if gold is not None:
        files.append({"name": gold.name, "format": FORMAT, "sha256": file_sha256(gold)})
    about = {"calcli_version": __version__, "files": files, "kind_given": False}
    return DecisionLog(path, log, about)


def _source(path: Path, gold: Path | None) -> Callable[[], Iterable[Numbered]]:
    """Function that iterates over the records, with the labels of another file."""
    if gold is None:
        return lambda: records(path)
    first = [record for _, record in islice(records(path), LOOKED_AT)]
    known = GoldLabels.read(gold, first)

    def joined() -> Iterator[Numbered]:
        for place, (number, record) in enumerate(records(path)):
            yield number, {**record, GOLD: known.of(place, record)}

    return joined


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


# ---- bundles out


def write_log(
    read: DecisionLog,
    out: BundleWriter,
    report: ImportReport,
    splitting: Splitting,
    request: ImportRequest,
    ignore: Sequence[float],
) -> None:
    """Write a bundle for every question, with remarks on what was read."""
    remark_log(read)
    names = group_names(read.log)
    with remarks() as of_questions:
        for rows in read.log.questions:
            if not rows.n:
                continue
            imported = _imported(read, rows, names[rows.name], request)
            dealt = deal(imported, splitting, ignore, request)
            origin = {**read.source, "arrays": {}, "question": rows.name}
            attributes = _attributes(read.log, rows)
            report.bundles += write_groups(
                out, imported, dealt, origin, splitting, attributes
            )
    for note in of_questions[:MOST_DESCRIBED]:
        remark(note)
    if len(of_questions) > MOST_DESCRIBED:
        remark(f"and {len(of_questions) - MOST_DESCRIBED} more remarks on questions")
    if not read.log.plan.labels and not request.no_labels:
        raise _without_labels(read, request)
    if not report.bundles:
        raise DataError(f"{read.path}: no question has a row that can be used")


def _without_labels(read: DecisionLog, request: ImportRequest) -> DataError:
    """Error about a log without labels, with the command that reads a likely field."""
    problem = DataError(
        f"{read.path}: no field holds labels, options of the questions; add them to the"
        " records, or name another file: calcli extract --gold FILE"
    )
    possible = read.log.plan.possible_label
    if possible is None:
        return problem
    command = request.command(str(read.path), [("--labels", shown(possible))])
    return problem.advising(command)


def _attributes(log: Log, rows: QuestionRows) -> dict[str, Any]:
    """Attributes of the bundle of a question."""
    attributes: dict[str, Any] = {QUESTION: rows.name, QUESTION_TYPE: rows.type}
    if rows.proof is not None and rows.proof.formula is not None:
        attributes[CONFIDENCE_FORMULA] = rows.proof.formula
    if rows.type == "score" and rows.classes is not None:
        attributes["ordered"] = "1"
    if rows.classes is None:
        attributes[COLUMNS] = OPTIONS
        zeros = zeros_of_options(rows.probabilities(), rows.n_options)
        attributes |= zeros.attributes
    links = _links(log)
    if links:
        attributes["calibrated_by"] = chain_text(links)
    return attributes


def _links(log: Log) -> list[Link]:
    """The calibrators that the records say were applied."""
    links = []
    for link in log.calibrated_by:
        name = str(link.get("calibrator", "unknown"))
        links.append(Link(str(link.get("sha256", "")), "by-question", name))
    return links


def group_names(log: Log) -> dict[str, str]:
    """Name of the group of every question, each one once."""
    return unique_groups([rows.name for rows in log.questions])


def _imported(
    read: DecisionLog, rows: QuestionRows, name: str, request: ImportRequest
) -> Imported:
    """The rows of a question as an import, unlabelled ones without labels."""
    columns = _columns(read.log, rows, request)
    scores = rows.probabilities()
    k = scores.shape[1]
    kind: ScoreKind = "probs"
    n_options = None
    class_names = None
    if rows.classes is None:
        kind = "log_probs"
        n_options = rows.n_options
        scores = log_probabilities(scores, n_options)
        columns["n_options"] = n_options
    else:
        class_names = list(rows.classes)
        if rows.type == YES_NO:
            scores = scores[:, 1]
    is_labelled = rows.name in read.log.plan.labels
    return Imported(
        reading=Reading(name, "", "probs", name, None, {}),
        where=f"{read.path}: question {short(rows.name)!r}",
        kind=kind,
        n=rows.n,
        k=k,
        dtype=np.dtype(np.float64),
        labels=rows.class_labels() if is_labelled else None,
        columns=columns,
        class_names=class_names,
        scores=scores,
        n_options=n_options,
    )


def _columns(log: Log, rows: QuestionRows, request: ImportRequest) -> dict[str, Any]:
    """Ids, units and groups of the rows of a question."""
    named = request.named
    if named.get("weights"):
        raise UsageError("--sample-weight: a log of decisions has no sample weights")
    if named.get("ids"):
        raise UsageError("--ids: those of a log of decisions are those of its records")
    columns: dict[str, Any] = {}
    if named.get("ids") != []:
        columns["ids"] = log.ids_of(rows)
    units = log.units_of(rows)
    if units is not None and "unit" not in named:
        columns["unit"] = units
    for name in log.groups:
        columns[name] = log.group_of(name, rows)
    for role in ("group", "unit"):
        wanted = named.get(role, [])
        for name in wanted:
            if name not in log.groups:
                known = ", ".join(log.groups) or "none"
                raise UsageError(f"no column is named {name!r}; there are: {known}")
        if wanted:
            columns[role] = intersections(picked(columns, wanted))
    return columns


# ---- what was read, in words


def short(name: str) -> str:
    """A name that is not too long for a line."""
    if len(name) <= LONGEST_NAME:
        return name
    return name[: LONGEST_NAME - 1] + "…"


def remark_log(read: DecisionLog) -> None:
    """Say what a log holds: records, questions, labels, rows left out, models."""
    log, plan = read.log, read.log.plan
    some = [_about_question(rows) for rows in log.questions[:MOST_DESCRIBED]]
    n_more = len(log.questions) - MOST_DESCRIBED
    if n_more > 0:
        some.append(f"and {n_more} more {noun(n_more, 'question')}")
    where = read.path.name
    records = noun(plan.n_records, "record")
    remark(f"{where}: {plan.n_records} {records} of decisions: {'; '.join(some)}")
    fields = set()
    for reading in plan.labels.values():
        how = " (by index)" if reading.by_index else ""
        fields.add(repr(f"{shown(reading.field)}{how}"))
    if fields:
        listing = ", ".join(sorted(fields)[:MOST_DESCRIBED])
        remark(f"{where}: labels are {listing}")
    for rows in log.questions:
        _warn_of_unlisted_options(rows, where)
    _remark_confidence(log, where)
    if len(plan.models) > 1:
        counts = [f"{short(model)} ({number})" for model, number in plan.models.items()]
        remark(
            f"warning: {where}: {len(plan.models)} models: {', '.join(counts)};"
            " --group-by model shows each, fit them one by one"
        )
    offered = [name for name in log.groups if name.rpartition(".")[2] != "model"]
    if offered:
        listing = ", ".join(map(short, offered[:MOST_DESCRIBED]))
        remark(f"{where}: groups? --group-by takes {listing}")


def _about_question(rows: QuestionRows) -> str:
    """A few words on a question: type, options, rows, what was left out."""
    about = str(rows.type)
    if rows.n and rows.classes is None:
        least, most = int(rows.n_options.min()), int(rows.n_options.max())
        sizes = str(least) if least == most else f"{least} to {most}"
        about += f" of {sizes} options that differ"
    elif rows.n and rows.type != YES_NO:
        about += f" of {rows.n_options.max()}"
    parts = [about, f"{rows.n} {noun(rows.n, 'row')}"]
    for reason, number in rows.left_out.items():
        parts.append(f"{number} {reason} left out")
    if rows.unlisted:
        parts.append(f"such as {short(next(iter(rows.unlisted)))!r}")
    return f"{short(rows.name)} ({', '.join(parts)})"


def _warn_of_unlisted_options(rows: QuestionRows, where: str) -> None:
    """Warn of answers that lack the right option, as probabilities of 0 may do."""
    n = rows.n_unlisted_options
    if n:
        remark(
            f"warning: {where}: {short(rows.name)}: rows left out because they do not"
            f" list their label, which is an option of other rows: {n}; does the log"
            " lack options of probability 0? Without these wrong answers the accuracy"
            " is too high; write all options"
        )


def _remark_confidence(log: Log, where: str) -> None:
    """Say what the field ``confidence`` is, by the formula that all rows prove."""
    formulas: dict[str, list[str]] = {}
    for rows in log.questions:
        if rows.proof is not None:
            formula = rows.proof.formula
            words = "in no known way" if formula is None else WORDS[formula]
            formulas.setdefault(words, []).append(rows.name)
    parts = []
    for words, questions in formulas.items():
        listing = ", ".join(map(short, questions[:MOST_DESCRIBED]))
        parts.append(f"{listing}: {words}")
    if parts:
        remark(
            f"{where}: 'confidence' is no probability of being right, but computed"
            f" from the distribution ({'; '.join(parts)})"
        )
