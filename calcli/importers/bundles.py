"""Build bundles: the arrays of a reading become checked scores, labels and columns."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError, UsageError
from calcli.importers import contradictions
from calcli.importers.evidence import counts_from_1
from calcli.importers.import_request import ImportRequest
from calcli.importers.labels import ClassLabels, texts_of, to_labels
from calcli.importers.names import COLUMNS, headers_path, parse_name, role_of
from calcli.importers.past import past_of
from calcli.importers.positions import (
    Dense,
    RowScores,
    class_axis_of,
    reduced_to_rows,
)
from calcli.importers.proposal import Reading
from calcli.importers.ragged import Parts, Positions, cut_alike
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns
from calcli.importers.text_cells import DECIMALS_OF_PERCENT
from calcli.io import validate
from calcli.io.bundle_group import OWN_NAMES
from calcli.io.option_columns import (
    COLUMNS as COLUMNS_ATTRIBUTE,
)
from calcli.io.option_columns import (
    N_OPTIONS,
    OPTIONS,
    with_padding,
    without_padding,
)
from calcli.numerics import AnyArray, IntArray
from calcli.rows import PADDING, ScoreKind
from calcli.zeros import FloatType, Zeros, float_type

SLAB_BYTES = 4 << 20
"""Bytes of a block of rows, if the format can be read in blocks."""

LEFT_OUT = -(1 << 31)
"""Label of rows whose label is a fraction that is to be ignored."""

SAME = 1e-5
"""Tolerance for the scores of a repeated row."""


@dataclass(frozen=True)
class Slab:
    """Block of checked rows: scores (b, k), transformed (m, b, k) or None."""

    start: int
    scores: NDArray[Any]
    transformed: NDArray[Any] | None


@dataclass(frozen=True)
class Imported:
    """Content of one bundle, with scores not yet read.

    labels : (n,), ignored ones in place; of confidences whether they are right. columns
    : by the name in a bundle. parts : split of each row given by the source, or None.
    transformed : (m, n, k) scores under transforms, or None. decimals, zeros : of the
    scores (see ``Column``). n_options : (n,) where columns are options of the row.
    """

    reading: Reading
    where: str
    kind: ScoreKind | Literal["confidence"]
    n: int
    k: int
    dtype: np.dtype[Any]
    labels: Any
    columns: Mapping[str, Any]
    scores: Any
    class_names: list[str] | None = None
    specs: tuple[str, ...] = ()
    parts: NDArray[Any] | None = None
    transformed: Any = None
    decimals: int | None = None
    zeros: Zeros | None = None
    n_options: IntArray | None = None

    @property
    def is_one_column(self) -> bool:
        """True if the source holds P(class 1), or a confidence, alone."""
        return len(self.scores.shape) == 1 or self.scores.shape[-1] == 1

    @property
    def stored_type(self) -> FloatType:
        """Type of the scores in the source."""
        return float_type(np.dtype(self.scores.dtype))

    @property
    def is_dense(self) -> bool:
        """True if rows are positions.

        Ignored labels are then already dropped, and samples drawn.
        """
        return isinstance(self.scores, Positions)

    def slabs(self) -> Iterator[Slab]:
        """Iterate over the rows in blocks.

        Raises DataError at the first row that breaks the rules of bundles.
        """
        row_bytes = max(self.k, 1) * self.dtype.itemsize * (1 + len(self.specs))
        step = max(1, SLAB_BYTES // row_bytes)
        for start in range(0, self.n, step):
            yield self._slab(slice(start, start + step))

    def _slab(self, rows: slice) -> Slab:
        if self.kind == "confidence":
            return Slab(rows.start, self.scores[rows].astype(self.dtype), None)
        values = _native(self.scores[rows])
        if self.n_options is not None:
            return Slab(rows.start, self._checked_options(values, rows), None)
        scores = validate.check_scores(
            values, self.kind, self.where, rows.start, self.zeros
        )
        if not self.specs:
            return Slab(rows.start, scores, None)
        transformed = []
        for number, spec in enumerate(self.specs):
            values = _native(self.transformed[number, rows])
            where = f"{self.where} under {spec}"
            checked = validate.check_scores(values, "logits", where, rows.start)
            transformed.append(checked)
        return Slab(rows.start, scores, np.stack(transformed))

    def _checked_options(self, values: AnyArray, rows: slice) -> AnyArray:
        """Rows of options that differ, checked, with the padding of files."""
        assert self.n_options is not None
        kind = validate.score_kind(self.kind)
        n_options = self.n_options[rows]
        filled = without_padding(values, n_options, kind, self.where, rows.start)
        checked = validate.check_scores(filled, kind, self.where, rows.start)
        return with_padding(checked, n_options, kind)

    def are_alike(self, rows: IntArray, others: IntArray) -> NDArray[np.bool_]:
        """Mask (m,) of ``rows`` that equal the row in ``others``.

        Their scores are equal up to rounding, and their labels.
        """
        wanted = np.unique(np.concatenate([rows, others]))
        pieces = []
        for slab in self.slabs():
            end = slab.start + len(slab.scores)
            first, last = np.searchsorted(wanted, [slab.start, end])
            inside = wanted[first:last] - slab.start
            pieces.append(slab.scores[inside].reshape(last - first, -1))
        scores = np.concatenate(pieces)
        left = scores[np.searchsorted(wanted, rows)]
        right = scores[np.searchsorted(wanted, others)]
        alike = np.isclose(left, right, rtol=SAME, atol=SAME).all(axis=1)
        if self.labels is not None:
            alike &= self.labels[rows] == self.labels[others]
        return np.asarray(alike)


def _native(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


# ---- scores and labels


def build(
    reading: Reading,
    columns: Columns,
    request: ImportRequest,
    *,
    ignore: Sequence[float],
) -> Imported:
    """Load one bundle, except its scores.

    A kind given by the user is not questioned, nor the class order of scores named by
    the user. ignore : labels of rows to leave out. Raises DataError, UsageError.
    """
    where = columns[reading.scores].where
    kind = validate.score_kind(reading.kind)
    labels = None if reading.labels is None else columns[reading.labels].load()
    scores = columns[reading.scores].load()
    scores, labels = cut_alike(scores, labels), cut_alike(labels, scores)
    if request.percent:
        scores = _as_fractions(scores, where)
    if request.reduce not in (None, "none"):
        if isinstance(scores, Parts):
            scores = scores.padded(np.nan)
    else:
        axis = class_axis_of(scores, labels, request.class_axis, where)
        if axis is not None:
            dense = Dense(scores, labels, axis, where, ignore, request)
            return _build_dense(dense, reading, columns, request, kind)
    raw = None if labels is None else np.atleast_1d(np.asarray(labels[()]))
    row_scores = reduced_to_rows(RowScores(scores, kind), raw, request.reduce, where)
    if request.normalize == "sum":
        row_scores = _with_sum_1(row_scores, where)
    return _build_rows(row_scores, raw, reading, columns, request, ignore)


def _as_fractions(scores: Any, where: str) -> Any:
    """Percentages divided by 100."""
    if isinstance(scores, Parts):
        return scores.as_fractions()
    return validate.fractions(np.asarray(scores[()]), where)


def _with_sum_1(row_scores: RowScores, where: str) -> RowScores:
    """Probabilities divided by the sum of their row, with a remark on these sums."""
    scores = np.asarray(row_scores.scores[()])
    if row_scores.kind != "probs" or scores.ndim != 2 or scores.shape[1] < 2:
        message = f"{where} holds {row_scores.kind} of shape {scores.shape}"
        raise UsageError(f"--normalize sum: {message}, expected probs (rows, classes)")
    sums = scores.sum(axis=1, dtype=np.float64)
    has_negative = (scores < 0).any(axis=1)
    if has_negative.any() or not (sums > 0).all():
        lowest = np.where(has_negative, -1, sums)
        message = f"row {int(np.argmin(lowest))} has a negative value, or no sum above"
        raise DataError(f"{where}: {message} 0: nothing to divide by")
    ends = f"{sums.min():.3g} to {sums.max():.3g}"
    remark(f"{where}: rows were divided by their sums, {ends}")
    return replace(row_scores, scores=scores / sums[:, None])


def _build_rows(
    row_scores: RowScores,
    raw: AnyArray | None,
    reading: Reading,
    columns: Columns,
    request: ImportRequest,
    ignore: Sequence[float],
) -> Imported:
    """A bundle of one row of scores per label. raw : the labels as they are."""
    scores, kind = row_scores.scores, row_scores.kind
    where = columns[reading.scores].where
    n, k = validate.check_shape(scores.shape, scores.dtype, where)
    is_binary = len(scores.shape) == 1 or scores.shape[1] == 1
    contradictions.refuse_predictions(scores, kind, where)
    if request.kind is None:
        contradictions.refuse_probabilities(scores, kind, where)
    if not request.scores:
        first_rank = partial(
            contradictions.options_of_first_rank,
            list(columns[reading.scores].parts),
            list(columns),
            reading.labels or "TRUTH",
        )
        contradictions.refuse_ranks(scores, where, first_rank)
    classes = _class_names(reading, columns, k, is_binary, request)
    labels = None
    names = classes.names
    if reading.labels is not None and raw is not None:
        labelled = _labels_of_rows(
            scores, raw, reading, columns, request, ignore, classes
        )
        labels, names = labelled.labels, labelled.class_names or classes.names
        if not (request.scores and request.labels):
            contradictions.refuse_confidences(scores, labels, kind, where)
    if not request.scores:
        contradictions.check_logs(scores, reading.scores, labels, names, columns)
    kept = {
        **kept_columns(reading, columns, n),
        **_assigned(reading, columns, n, k, names),
    }
    n_options = None
    if columns[reading.scores].attributes.get(OPTIONS):
        scores = np.asarray(scores[()])
        n_options = (scores > PADDING).sum(axis=1)
        scores = with_padding(scores, n_options, kind)
        kept[N_OPTIONS] = n_options
        _check_options(labels, n_options, where)
    split = reading.extras.get("split")
    parts = None if split is None else per_row(columns[split], "split", n)
    transforms = _transforms(reading, columns, (n, k), is_binary)
    return Imported(
        reading=reading,
        where=where,
        kind=kind,
        n=n,
        k=k,
        dtype=_stored_type(scores, kind, is_binary),
        labels=labels,
        columns=kept,
        class_names=names,
        specs=transforms.specs,
        parts=parts,
        scores=scores,
        n_options=n_options,
        transformed=transforms.scores,
        decimals=_decimals(columns[reading.scores], request),
        zeros=columns[reading.scores].recorded_zeros,
    )


def _assigned(
    reading: Reading,
    columns: Columns,
    n: int,
    k: int,
    names: Sequence[str] | None,
) -> dict[str, Any]:
    """The predictions that ``apply`` wrote, which another class may exceed."""
    column = columns.get("prediction")
    if column is None or "calibrated_by" not in attributes_of(reading, columns):
        return {}
    predictions = contradictions.logged_predictions(column, n, names)
    if predictions is None or not ((predictions >= 0) & (predictions < k)).all():
        return {}
    return {"prediction": predictions}


def _decimals(scores: Column, request: ImportRequest) -> int | None:
    """Most decimals of the zeros of a text, as fractions."""
    decimals = scores.most_decimals
    if decimals is None or not request.percent:
        return decimals
    return decimals + DECIMALS_OF_PERCENT


def _check_options(labels: Any, n_options: IntArray, where: str) -> None:
    """Raise DataError for a label that is none of the options of its row."""
    if labels is None:
        return
    wrong = np.asarray(labels) >= n_options
    if wrong.any():
        row = int(np.argmax(wrong))
        message = f"the label of row {row} is {labels[row]}"
        expected = f"expected 0 to {n_options[row] - 1}, one of its options"
        raise DataError(f"{where}: {message}, {expected}")


def _stored_type(scores: Any, kind: ScoreKind, is_binary: bool) -> np.dtype[Any]:
    """Type of checked scores.

    P(class 1) is stored in float64, so that 1 - p keeps its digits.
    """
    if is_binary and kind != "logits":
        return np.dtype(np.float64).newbyteorder("=")
    return np.dtype(scores.dtype).newbyteorder("=")


def _labels_of_rows(
    scores: Any,
    raw: AnyArray,
    reading: Reading,
    columns: Columns,
    request: ImportRequest,
    ignore: Sequence[float],
    classes: "Classes",
) -> ClassLabels:
    """Checked class indices of all rows, ignored labels in place."""
    column = columns[reading.labels or ""]
    where = columns[reading.scores].where
    n, k = scores.shape[0], max((*scores.shape, 1)[1], 2)
    is_binary = len(scores.shape) == 1 or scores.shape[1] == 1
    _refuse_header(raw, n, column)
    _refuse_transposed(scores, raw, where)
    if is_binary and not ignore:
        word = None if request.scores else classes.positive
        contradictions.refuse_other_column(raw, n, word, where, column.where)
    are_headers = reading.extras.get("class_names") == headers_path(reading.scores)
    if classes.names and are_headers and not (request.scores or request.class_names):
        contradictions.refuse_other_order(raw, classes.names, where)
    names = classes.names
    if "calibrated_by" in reading.extras and raw.dtype.kind in "iu":
        names = None  # ``apply`` writes indices
    raw = _from_first_index(raw, column)
    if columns[reading.scores].attributes.get("first_number") and not names:
        raw = _as_columns_count(raw, k, column.where)
    raw = _with_whole_ignored(raw, ignore)
    class_labels = to_labels(raw, n, k, names, column.where, classes.positive)
    labels = validate.check_labels(
        class_labels.labels, n, k, column.where, tuple(ignore)
    )
    return ClassLabels(labels, class_labels.class_names)


def _from_first_index(raw: AnyArray, column: Column) -> AnyArray:
    """Labels counted from 0, where the file counts from 1 (MATLAB)."""
    first = column.attributes.get("first_index", 0)
    if not first or raw.dtype.kind not in "iuf" or not raw.size or raw.min() < first:
        return raw
    remark(f"{column.where}: labels count from {first}, as the format does")
    return raw - raw.dtype.type(first)


def _as_columns_count(raw: AnyArray, k: int, where: str) -> AnyArray:
    """Labels 1 to k, of columns numbered 1 to k, counted from 0."""
    if not counts_from_1(raw, k):
        return raw
    remark(f"{where}: labels count from 1, as the columns do")
    return raw - 1


def _with_whole_ignored(raw: AnyArray, ignore: Sequence[float]) -> AnyArray:
    """Labels of which ignored fractions (a draw: 0.5) are a whole number."""
    fractions = [label for label in ignore if not float(label).is_integer()]
    if not fractions or raw.dtype.kind != "f":
        return raw
    return np.where(np.isin(raw, fractions), LEFT_OUT, raw)


def _refuse_transposed(scores: Any, raw: AnyArray, where: str) -> None:
    """Raise DataError for as many labels as columns of scores, not as rows."""
    shape = tuple(scores.shape)
    if len(shape) < 2:
        return
    k = max(shape[1], 2)
    if k != shape[0] and raw.shape in ((k,), (k, 1), (1, k)):
        message = f"has shape {shape} for {k} labels: classes by rows?"
        advice = "Save the scores transposed, (rows, classes)"
        raise DataError(f"{where}: {message} {advice}")


def _refuse_header(raw: AnyArray, n: int, column: Column) -> None:
    """Raise DataError for a header of pandas that was read as the first label."""
    if raw.shape != (n + 1,) or raw.dtype.kind not in "iuf" or raw[0] != 0:
        return
    message = f"there are {n + 1} labels for {n} rows of scores, and the first is 0"
    advice = "did pandas write a header? Save with header=['label'] or header=False"
    raise DataError(f"{column.where}: {message}; {advice}")


def _build_dense(
    dense: Dense,
    reading: Reading,
    columns: Columns,
    request: ImportRequest,
    kind: ScoreKind,
) -> Imported:
    """A bundle of positions as rows.

    Their unit is the image or sequence: its id if there is any, or its number.
    """
    where = columns[reading.scores].where
    scores = dense.scores()
    n, k = validate.check_shape(scores.shape, scores.dtype, where)
    contradictions.refuse_predictions(scores, kind, where)
    if request.kind is None:
        contradictions.refuse_probabilities(scores, kind, where)
    names = _class_names(reading, columns, k, False, request).names
    labels = None
    if reading.labels is not None:
        labels = dense.labels(columns[reading.labels].where, names)
    extras = dict(reading.extras)
    kept: dict[str, Any] = {}
    if "ids" in extras and len(columns[extras["ids"]].written_cells()) == dense.units:
        extras = {"unit": extras.pop("ids"), **extras}
    if request.named.get("unit") == []:
        extras.pop("unit", None)
    elif "unit" not in extras:
        kept["unit"] = dense.column(np.arange(dense.units, dtype=np.int32))
    for role in (*COLUMNS, "split"):
        if role not in extras:
            continue
        column = columns[extras[role]]
        values = column.values() if role == "weights" else column.names(role)
        if not dense.is_of_positions(values):
            values = per_row(column, role, dense.units)
        kept[role] = dense.column(values)
    split = kept.pop("split", None)
    return Imported(
        reading=replace(reading, extras=extras),
        where=where,
        kind=kind,
        n=n,
        k=k,
        dtype=_stored_type(scores, kind, dense.k == 1),
        labels=labels,
        columns=kept,
        class_names=names,
        parts=None if split is None else np.asarray(split[:]),
        scores=scores,
        decimals=_decimals(columns[reading.scores], request),
        zeros=columns[reading.scores].recorded_zeros,
    )


# ---- names of classes, columns, transforms


@dataclass(frozen=True)
class Classes:
    """Names of all classes or None; that of class 1 where one column is named so."""

    names: list[str] | None
    positive: str | None


def _class_names(
    reading: Reading,
    columns: Columns,
    k: int,
    is_binary: bool,
    request: ImportRequest,
) -> Classes:
    """Names of the classes. A single column of scores is named by class 1."""
    if request.class_names:
        if len(request.class_names) != k:
            n_names = len(request.class_names)
            message = f"{n_names} names, {reading.scores!r} has {k} classes"
            raise UsageError(f"--class-names: {message}")
        return Classes(list(request.class_names), None)
    positive = reading.scores.rsplit("/", 1)[-1] if is_binary else None
    if "class_names" not in reading.extras:
        return Classes(None, positive)
    column = columns[reading.extras["class_names"]]
    raw = np.atleast_1d(column.values())
    names = texts_of(raw, column.where)
    if is_binary and len(names) == 1:
        return Classes(None, names[0])  # one column's name says nothing of class 0
    if raw.ndim != 1 or len(names) != k:
        expected = f"expected ({k},): a name per class"
        raise DataError(f"{column.where}: has shape {raw.shape}, {expected}")
    return Classes(names, positive)


def kept_columns(reading: Reading, columns: Columns, n: int) -> dict[str, AnyArray]:
    """Ids, weights, groups and units of the rows, and the parts of a combined group."""
    kept = {}
    for role, path in reading.columns.items():
        kept[role] = per_row(columns[path], role, n)
        for name, part in columns[path].parts.items():
            if not parse_name(name).role:
                kept[name] = per_row(part, name, n)
    return kept


def per_row(column: Column, role: str, n: int) -> AnyArray:
    """Check and read a column of ids, weights or the like, (n,). Raises DataError."""
    if role == "weights":
        return validate.check_weights(column.values(), n, column.where)
    names = column.names(role)
    if names.shape != (n,):
        expected = f"expected ({n},): one value per row"
        raise DataError(f"{column.where}: {role} has shape {names.shape}, {expected}")
    return names


@dataclass(frozen=True)
class Transforms:
    """Scores (m, n, k) under transforms, and the names of these."""

    scores: Any
    specs: tuple[str, ...]


def _transforms(
    reading: Reading, columns: Columns, size: tuple[int, int], is_binary: bool
) -> Transforms:
    if "transformed" not in reading.extras:
        return Transforms(None, ())
    column = columns[reading.extras["transformed"]]
    if "specs" not in reading.extras:
        message = "has no list of its transforms"
        advice = "save their names as an array 'transforms'"
        raise DataError(f"{column.where}: {message}; {advice}")
    specs_column = columns[reading.extras["specs"]]
    specs = np.atleast_1d(np.asarray(specs_column.load()[()]))
    scores = column.load()
    n, _ = size
    shapes: list[tuple[int, ...]] = [(len(specs), *size)]
    if is_binary:
        shapes += [(len(specs), n), (len(specs), n, 1)]
    are_words = specs.ndim == 1 and specs.dtype.kind in "OUS"
    if not are_words or scores.shape not in shapes or scores.dtype.kind != "f":
        message = f"has type {scores.dtype} and shape {scores.shape}"
        expected = f"expected floats {shapes[0]}, a slice per transform in"
        raise DataError(f"{column.where}: {message}, {expected} {specs_column.name!r}")
    return Transforms(scores, tuple(texts_of(specs, specs_column.where)))


# ---- what a bundle says of itself


def attributes_of(reading: Reading, columns: Columns) -> dict[str, str]:
    """Calibrators already applied, by the source, and names of renamed columns."""
    marks = {
        path: columns[path]
        for role, path in reading.extras.items()
        if role == "calibrated_by"
    }
    attributes = past_of(columns[reading.scores], marks)
    if columns[reading.scores].attributes.get(OPTIONS):
        attributes[COLUMNS_ATTRIBUTE] = OPTIONS
    names = {}
    for role, path in reading.columns.items():
        column = columns[path]
        names[role] = [*column.parts] or [parse_name(column.name).core]
    if reading.labels is not None:
        label = parse_name(columns[reading.labels].name).core
        if role_of(label) != "labels":
            names["labels"] = [label]
    renamed = {
        role: names_in_source
        for role, names_in_source in names.items()
        if names_in_source != [role]
    }
    if renamed:
        attributes[OWN_NAMES] = json.dumps(renamed, sort_keys=True)
    return attributes
