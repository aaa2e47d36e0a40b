"""Build bundles: the arrays of a reading become checked scores, labels and columns."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calcli.block import PADDING
from calcli.errors import DataError, UsageError
from calcli.importers.arranging.classes_first import CLASSES_FIRST
from calcli.importers.building import contradictions
from calcli.importers.building.class_axis import class_axis_of
from calcli.importers.building.imported import Imported
from calcli.importers.building.logged_predictions import check_logs, logged_predictions
from calcli.importers.building.positions import Dense, RowScores, reduced_to_rows
from calcli.importers.building.row_labels import class_names_of, labels_of_rows
from calcli.importers.building.word_labels import texts_of
from calcli.importers.import_request import ImportRequest
from calcli.importers.joining.provenance import past_of
from calcli.importers.names.array_names import parse_name
from calcli.importers.names.roles import COLUMNS, role_of
from calcli.importers.proposing.ranked_scores import refuse_ranks
from calcli.importers.ragged import Parts, cut_alike
from calcli.importers.reading import Reading
from calcli.importers.remarks import remark
from calcli.importers.table import Column
from calcli.importers.text_cells import DECIMALS_OF_PERCENT
from calcli.io import validate
from calcli.io.bundle_group import OWN_NAMES
from calcli.io.option_columns import COLUMNS as COLUMNS_ATTRIBUTE
from calcli.io.option_columns import N_OPTIONS, OPTIONS, padded_for_files
from calcli.numerics import AnyArray
from calcli.rows import ScoreKind

# ---- scores and labels


def build(
    reading: Reading, request: ImportRequest, *, ignore: Sequence[float]
) -> Imported:
    """Load one bundle, except its scores.

    A kind given by the user is not questioned, nor the class order of scores named by
    the user. ignore : labels of rows to leave out. Raises DataError, UsageError.
    """
    where = reading.where
    kind = validate.score_kind(reading.kind)
    labels = None if reading.label_column is None else reading.label_column.load()
    scores = reading.score_column.load()
    scores, labels = cut_alike(scores, labels), cut_alike(labels, scores)
    if request.percent:
        scores = _as_fractions(scores, where)
    elif request.kind == "probs" and _are_whole_numbers(scores):
        scores = np.asarray(scores[()]).astype(np.float64)
    if request.reduce not in (None, "none"):
        if isinstance(scores, Parts):
            scores = scores.padded(np.nan)
    else:
        requested = request.class_axis
        if CLASSES_FIRST in reading.score_column.attributes and len(scores.shape) == 2:
            requested = None  # they are last now
        axis = class_axis_of(scores, labels, requested, where)
        if axis is not None:
            dense = Dense(scores, labels, axis, where, ignore, request)
            return _build_dense(dense, reading, request, kind)
    raw = None if labels is None else np.atleast_1d(np.asarray(labels[()]))
    row_scores = reduced_to_rows(RowScores(scores, kind), raw, request.reduce, where)
    if request.normalize == "sum":
        row_scores = _with_sum_1(row_scores, where)
    return _build_rows(row_scores, raw, reading, request, ignore)


def _are_whole_numbers(scores: Any) -> bool:
    """True for probabilities of 0 and 1, written without a point; not for parts."""
    return not isinstance(scores, Parts) and np.dtype(scores.dtype).kind in "biu"


def _as_fractions(scores: Any, where: str) -> Any:
    """Percentages divided by 100."""
    if isinstance(scores, Parts):
        return scores.as_fractions()
    return validate.fractions(np.asarray(scores[()]), where)


def _with_sum_1(row_scores: RowScores, where: str) -> RowScores:
    """Probabilities divided by the sum of their row, with a remark on these sums."""
    scores = np.asarray(row_scores.scores[()])
    if row_scores.kind != "probs" or scores.ndim != 2 or scores.shape[1] < 2:
        raise UsageError(
            f"--normalize sum: {where} holds {row_scores.kind} of shape"
            f" {scores.shape}, expected probs (rows, classes)"
        )
    sums = scores.sum(axis=1, dtype=np.float64)
    has_negative = (scores < 0).any(axis=1)
    if has_negative.any() or not (sums > 0).all():
        lowest = np.where(has_negative, -1, sums)
        raise DataError(
            f"{where}: row {int(np.argmin(lowest))} has a negative value, or no sum"
            " above 0: nothing to divide by"
        )
    remark(
        f"{where}: rows were divided by their sums, {sums.min():.3g} to"
        f" {sums.max():.3g}"
    )
    return replace(row_scores, scores=scores / sums[:, None])


def _build_rows(
    row_scores: RowScores,
    raw_labels: AnyArray | None,
    reading: Reading,
    request: ImportRequest,
    ignore: Sequence[float],
) -> Imported:
    """A bundle of one row of scores per label.

    raw_labels : as the file has them, numbers or names of classes.
    """
    scores = row_scores.scores
    kind = row_scores.kind
    where = reading.where
    imported = _unlabelled(scores, kind, reading, request)
    n = imported.n
    k = imported.k
    if not request.scores:
        refuse_ranks(scores, reading)
    classes = class_names_of(reading, k, imported.is_one_column, request)
    labels = None
    names = classes.names
    if raw_labels is not None:
        labelled = labels_of_rows(scores, raw_labels, reading, request, ignore, classes)
        labels = labelled.labels
        names = labelled.class_names or classes.names
        if not (request.scores and request.labels):
            contradictions.refuse_confidences(scores, labels, kind, where)
    if not request.scores:
        check_logs(scores, reading, labels, names)
    kept = {**kept_columns(reading, n), **_assigned(reading, n, k, names)}
    n_options = None
    if reading.score_column.attributes.get(OPTIONS):
        scores = np.asarray(scores[()])
        n_options = (scores > PADDING).sum(axis=1)
        scores = padded_for_files(scores, n_options, kind)
        kept[N_OPTIONS] = n_options
        if labels is not None:
            validate.check_places(np.asarray(labels), n_options, where, tuple(ignore))
    parts = None
    if "split" in reading.extras:
        parts = per_row(reading.extra("split"), "split", n)
    transforms = _transforms(reading, (n, k), imported.is_one_column)
    return replace(
        imported,
        labels=labels,
        columns=kept,
        class_names=names,
        specs=transforms.specs,
        parts=parts,
        scores=scores,
        n_options=n_options,
        transformed=transforms.scores,
    )


def _unlabelled(
    scores: Any, kind: ScoreKind, reading: Reading, request: ImportRequest
) -> Imported:
    """A bundle of checked scores, whose labels and columns are still to be added."""
    where = reading.where
    n, k = validate.check_shape(scores.shape, scores.dtype, where)
    contradictions.refuse_predictions(scores, kind, where)
    if request.kind is None:
        contradictions.refuse_probabilities(scores, kind, where)
    decimals = reading.score_column.most_decimals
    if decimals is not None and request.percent:
        decimals += DECIMALS_OF_PERCENT  # as fractions
    imported = Imported(
        reading=reading,
        where=where,
        kind=kind,
        n=n,
        k=k,
        dtype=np.dtype(scores.dtype).newbyteorder("="),
        labels=None,
        columns={},
        scores=scores,
        decimals=decimals,
        zeros=reading.score_column.recorded_zeros,
    )
    if imported.is_one_column and kind != "logits":  # so that 1 - p keeps its digits
        imported = replace(imported, dtype=np.dtype(np.float64))
    return imported


def _assigned(
    reading: Reading, n: int, k: int, names: Sequence[str] | None
) -> dict[str, Any]:
    """The predictions that ``apply`` wrote, which another class may exceed."""
    column = reading.columns.get("prediction")
    if column is None or "calibrated_by" not in attributes_of(reading):
        return {}
    predictions = logged_predictions(column, n, names, numbers_are_places=True)
    if predictions is None or not ((predictions >= 0) & (predictions < k)).all():
        return {}
    return {"prediction": predictions}


def _build_dense(
    dense: Dense, reading: Reading, request: ImportRequest, kind: ScoreKind
) -> Imported:
    """A bundle of positions as rows.

    Their unit is the image or sequence: its id if there is any, or its number.
    """
    scores = dense.scores()
    imported = _unlabelled(scores, kind, reading, request)
    names = class_names_of(reading, imported.k, False, request).names
    labels = None
    if reading.label_column is not None:
        labels = dense.labels(reading.label_column.where, names)
    extras = dict(reading.extras)
    kept: dict[str, Any] = {}
    has_ids = "ids" in extras
    if has_ids and len(reading.extra("ids").written_cells()) == dense.units:
        extras = {"unit": extras.pop("ids"), **extras}
    if request.named.get("unit") == []:
        extras.pop("unit", None)
    elif "unit" not in extras:
        kept["unit"] = dense.column(np.arange(dense.units, dtype=np.int32))
    reading = replace(reading, extras=extras)
    for role in (*COLUMNS, "split"):
        if role not in extras:
            continue
        column = reading.extra(role)
        values = column.values() if role == "weights" else column.names(role)
        if not dense.is_of_positions(values):
            values = per_row(column, role, dense.units)
        kept[role] = dense.column(values)
    split = kept.pop("split", None)
    return replace(
        imported,
        reading=reading,
        labels=labels,
        columns=kept,
        class_names=names,
        parts=None if split is None else np.asarray(split[:]),
    )


# ---- names of classes, columns, transforms


def kept_columns(reading: Reading, n: int) -> dict[str, AnyArray]:
    """Ids, weights, groups and units of the rows, and the parts of a combined group."""
    kept = {}
    for role, column in reading.kept.items():
        kept[role] = per_row(column, role, n)
        for name, part in column.parts.items():
            if not parse_name(name).role:
                kept[name] = per_row(part, name, n)
    return kept


def per_row(column: Column, role: str, n: int) -> AnyArray:
    """Check and read a column of ids, weights or the like, (n,). Raises DataError."""
    if role == "weights":
        return validate.check_weights(column.values(), n, column.where)
    names = column.names(role)
    if names.shape != (n,):
        raise DataError(
            f"{column.where}: {role} has shape {names.shape}, expected ({n},): one"
            " value per row"
        )
    return names


@dataclass(frozen=True)
class Transforms:
    """Scores (m, n, k) under transforms, and the names of these."""

    scores: Any
    specs: tuple[str, ...]


def _transforms(reading: Reading, size: tuple[int, int], is_binary: bool) -> Transforms:
    if "transformed" not in reading.extras:
        return Transforms(None, ())
    column = reading.extra("transformed")
    if "specs" not in reading.extras:
        raise DataError(
            f"{column.where}: has no list of its transforms; save their names as an"
            " array 'transforms'"
        )
    specs_column = reading.extra("specs")
    specs = np.atleast_1d(np.asarray(specs_column.load()[()]))
    scores = column.load()
    n, _ = size
    shapes: list[tuple[int, ...]] = [(len(specs), *size)]
    if is_binary:
        shapes += [(len(specs), n), (len(specs), n, 1)]
    are_words = specs.ndim == 1 and specs.dtype.kind in "OUS"
    if not are_words or scores.shape not in shapes or scores.dtype.kind != "f":
        raise DataError(
            f"{column.where}: has type {scores.dtype} and shape {scores.shape},"
            f" expected floats {shapes[0]}, a slice per transform in"
            f" {specs_column.name!r}"
        )
    return Transforms(scores, tuple(texts_of(specs, specs_column.where)))


# ---- what a bundle says of itself


def attributes_of(reading: Reading) -> dict[str, str]:
    """Calibrators already applied, by the source, and names of renamed columns."""
    marks = {}
    if "calibrated_by" in reading.extras:
        marks["calibrated_by"] = reading.extra("calibrated_by")
    attributes = past_of(reading.score_column, marks)
    scores = reading.score_column
    if scores.attributes.get(OPTIONS):
        attributes[COLUMNS_ATTRIBUTE] = OPTIONS
    is_ordered = scores.attributes.get(validate.ORDERED)
    if validate.check_ordered(is_ordered, scores.where):
        attributes[validate.ORDERED] = "1"
    names = {}
    for role, column in reading.kept.items():
        names[role] = [*column.parts] or [parse_name(column.name).core]
    if reading.label_column is not None:
        label = parse_name(reading.label_column.name).core
        if role_of(label) != "labels":
            names["labels"] = [label]
    renamed = {}
    for role, names_in_source in names.items():
        if names_in_source != [role]:
            renamed[role] = names_in_source
    if renamed:
        attributes[OWN_NAMES] = json.dumps(renamed, sort_keys=True)
    return attributes
