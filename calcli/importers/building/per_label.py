"""Labels of which several may hold: each label of a row becomes a row."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.building.bundles import per_row
from calcli.importers.building.word_labels import texts_of
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import headers_path
from calcli.importers.names.common_text import n_common_parts
from calcli.importers.reading import Reading
from calcli.importers.remarks import remark
from calcli.importers.table import Column, constant
from calcli.number_words import noun

KEPT_ROLES = ("unit", "ids", "weights", "split")


@dataclass(frozen=True)
class LabelRows:
    """A reading of rows of two classes, and the request that fits it."""

    reading: Reading
    request: ImportRequest


def labels_as_rows(reading: Reading, request: ImportRequest) -> LabelRows:
    """Convert scores and labels (rows, labels) to rows of two classes.

    The group of such a row is its label, the unit its row in the source. Raises
    DataError for other shapes.
    """
    scores_column = reading.score_column
    where = reading.where
    if reading.labels is None:
        raise DataError(f"{where}: --per-label needs labels, (rows, labels) of 0 and 1")
    labels_column = reading.columns[reading.labels]
    scores = np.asarray(scores_column.load()[()])
    labels = np.asarray(labels_column.load()[()])
    is_binary = np.isin(labels, (0, 1)).all()
    if scores.ndim != 2 or labels.shape != scores.shape or not is_binary:
        raise DataError(
            f"{labels_column.where}: has shape {labels.shape}, expected zeros and ones"
            f" of shape {scores.shape} for --per-label"
        )
    n, k = scores.shape
    names = _label_names(reading, request)
    if not names:
        names = [f"label{number}" for number in range(k)]
    if len(names) != k or len(set(names)) < k:
        raise DataError(
            f"{where}: {len(set(names))} names for {k} labels; --class-names A,B,…"
        )
    made = _repeated_columns(reading, request, n, k)
    made["group"] = _column(scores_column, "label", np.tile(np.array(names, object), n))
    extras = {role: f"{reading.scores} by label/{role}" for role in made}
    by_path = {extras[role]: column for role, column in made.items()}
    by_path[reading.scores] = scores_column.having(scores.reshape(-1))
    flat_labels = labels.astype(np.int64).reshape(-1)
    by_path[reading.labels] = labels_column.having(flat_labels)
    remark(
        f"{where}: {n} {noun(n, 'row')} x {k} labels became {n * k} rows; a row's"
        " labels are a unit, each a group"
    )
    return LabelRows(
        reading=replace(reading, extras=extras, columns={**reading.columns, **by_path}),
        request=replace(
            request,
            scores=(reading.scores,),
            labels=(reading.labels,),
            class_names=(),
        ),
    )


def _repeated_columns(
    reading: Reading, request: ImportRequest, n: int, k: int
) -> dict[str, Column]:
    """Unit, weights and split of the rows, once for every label.

    The unit of rows without one is their id, else their number.
    """
    scores = reading.score_column
    made = {}
    for role in KEPT_ROLES:
        if role in reading.extras:
            column = reading.extra(role)
            made[role] = column.having(np.repeat(per_row(column, role, n), k))
    ids = made.pop("ids", _column(scores, "row", np.repeat(np.arange(n), k)))
    unit = made.pop("unit", None)
    if request.named.get("unit") != []:
        made["unit"] = ids if unit is None else unit
    elif unit is not None:
        made["unit"] = unit
    return made


def _column(scores: Column, name: str, values: Any) -> Column:
    return Column(scores.file, name, constant(values))


def _label_names(reading: Reading, request: ImportRequest) -> Sequence[str]:
    """Names of the labels: given by the user, else what differs in the headers.

    Headers are those of the labels, or of the scores; none if there are no names.
    """
    if request.class_names:
        return list(request.class_names)
    for path in (headers_path(reading.labels or ""), reading.extras.get("class_names")):
        if path in reading.columns:
            column = reading.columns[path or ""]
            return _without_common_parts(texts_of(column.values(), column.where))
    return []


def _without_common_parts(names: Sequence[str]) -> list[str]:
    """Names without their common beginning, which ends in _ or a point."""
    pieces = [re.split(r"(?<=[_.])", name) for name in names]
    fewest = min(map(len, pieces))
    n_common = min(n_common_parts(pieces), fewest - 1)
    return ["".join(piece[n_common:]) for piece in pieces]
