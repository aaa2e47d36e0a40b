"""Bundles of the questions of a log of decisions, a group for each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calcli.decisions.answers import YES_NO
from calcli.decisions.labels import shown
from calcli.decisions.log import Log
from calcli.decisions.question_rows import QuestionRows
from calcli.errors import DataError, UsageError
from calcli.importers.building.dealing import Splitting, deal
from calcli.importers.building.imported import Imported
from calcli.importers.building.writing import ImportReport, write_groups
from calcli.importers.decision_logs.log_remarks import MOST_DESCRIBED, remark_log, short
from calcli.importers.decision_logs.logs import DecisionLog
from calcli.importers.import_request import ImportRequest
from calcli.importers.reading import Reading
from calcli.importers.remarks import remark, remarks
from calcli.io.artifact import Link
from calcli.io.bundle_group import CONFIDENCE_FORMULA, QUESTION, QUESTION_TYPE
from calcli.io.locate import intersections, unique_groups
from calcli.io.option_columns import (
    COLUMNS,
    OPTIONS,
    log_probabilities,
    zeros_of_options,
)
from calcli.io.provenance import chain_text
from calcli.io.writer import BundleWriter
from calcli.items import picked
from calcli.rows import ScoreKind


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
