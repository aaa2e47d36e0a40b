"""Write the groups of a bundle in one pass; doubt labels that cannot be right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Literal

import numpy as np

from calcli.importers.building.dealing import Dealt, Splitting
from calcli.importers.building.imported import Imported, Slab
from calcli.importers.evidence.label_evidence import Agreement, agreement
from calcli.importers.evidence.signs import (
    SignEvidence,
    ranks_as_labelled,
    ranks_reversed,
    sign_of,
)
from calcli.importers.ragged import Positions
from calcli.importers.remarks import remark
from calcli.io.writer import BundleWriter, GroupWriter, NewBundle
from calcli.metrics.label_agreement import REVERSED, REVERSED_OF_TWO, SAME_ORDER
from calcli.numerics import AnyArray, IntArray
from calcli.output import Count, Output
from calcli.records import JsonObject
from calcli.rounding import Digits, digits_of_values
from calcli.zeros import Zeros

FEWEST_JUDGED = 30
"""Labelled rows from which the accuracy is judged."""

LABELS_AT_ONCE = 1 << 20
MOST_JUDGED = 1 << 13
"""Rows by which the sign of the scores is judged."""

CHANCE_ERRORS = 2.0
"""Standard errors above chance up to which labels are doubted."""


@dataclass(frozen=True)
class Written:
    """Summary of one bundle of the output.

    k is 0 for confidences, which have no classes.
    """

    name: str
    kind: str
    n: Count
    k: Count
    dtype: str
    labelled: bool
    transforms: Count
    absent_classes: int


class ExtractOutput(Output, kw_only=True):
    """The JSON of ``calcli extract``."""

    calcli_extract: Literal[1]
    output: str
    bundles: list[Written]
    notes: list[str]


@dataclass
class ImportReport:
    """Bundles that an import wrote, and its remarks for the user.

    lines : what was read, a line for each reading; they are among the notes. arrays : which array was read as
    what, by the name of a bundle. likely_unit : the unused column that looks like units, for commands to propose.
    """

    bundles: list[Written] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    arrays: dict[str, str] = field(default_factory=dict)
    likely_unit: str | None = None

    def to_dict(self, output: str) -> JsonObject:
        """The JSON of ``calcli extract``. output : path of the file."""
        extracted = ExtractOutput(
            calcli_extract=1, output=output, bundles=self.bundles, notes=self.notes
        )
        return extracted.to_dict()


def absent_classes(labels: IntArray | None, k: int) -> int:
    """Number of the k classes without a label."""
    if labels is None or not k:
        return 0
    present: set[int] = set()
    for start in range(0, len(labels), LABELS_AT_ONCE):
        present |= set(np.unique(labels[start : start + LABELS_AT_ONCE]).tolist())
    return k - len(present & set(range(k)))


@dataclass(frozen=True)
class _Group:
    """One group of the output, and its rows of the source: None for all."""

    writer: GroupWriter
    rows: IntArray | None

    def write(self, slab: Slab, per_row: Mapping[str, AnyArray]) -> None:
        """Write those of the rows of a slab that belong to the group."""
        if self.rows is None:
            self._write(slab.start, slab, slice(None), per_row)
            return
        end = slab.start + len(slab.scores)
        first, last = np.searchsorted(self.rows, [slab.start, end])
        if last > first:
            inside = self.rows[first:last] - slab.start
            is_whole = len(inside) == len(slab.scores)
            self._write(int(first), slab, slice(None) if is_whole else inside, per_row)

    def _write(
        self, first: int, slab: Slab, inside: Any, per_row: Mapping[str, AnyArray]
    ) -> None:
        selected = {name: values[inside] for name, values in per_row.items()}
        if slab.transformed is not None:
            selected["transformed"] = slab.transformed[:, inside]
        self.writer.write(first, slab.scores[inside], **selected)


def write_groups(
    out: BundleWriter,
    imported: Imported,
    rows_by_group: Dealt,
    origin: Mapping[str, Any],
    splitting: Splitting,
    attributes: Mapping[str, str] | None = None,
) -> list[Written]:
    """Write the groups of one source bundle; return their summaries.

    rows_by_group : ascending row indices by group, None for all. origin : source of the
    scores. attributes : texts stored with each group.
    """
    absent_everywhere = absent_classes(imported.labels, imported.k)
    groups, summaries = [], []
    for name, rows in rows_by_group.items():
        labels = imported.labels
        if labels is not None and rows is not None:
            labels = labels[rows]
        n = imported.n if rows is None else len(rows)
        bundle = _new_bundle(imported, name, n, rows, origin, splitting)
        writer = out.create(name, bundle)
        for attribute, text in (attributes or {}).items():
            writer.attribute(attribute, text)
        groups.append(_Group(writer, rows))
        n_absent = absent_classes(labels, imported.k)
        summaries.append(_summary(imported, name, n, n_absent))
        if n_absent > absent_everywhere:
            message = f"{n_absent} of {imported.k} classes have no row here"
            if absent_everywhere:
                message += f" ({absent_everywhere} have none in the source)"
            remark(f"{name or 'bundle'}: {message}")
    doubts = _Doubts(imported)
    digits: Digits | None = None
    for slab in imported.slabs():
        per_row = _per_row(imported, slab)
        doubts.add(slab)
        if imported.kind in ("probs", "confidence"):
            of_slab = _digits_of_slab(imported, slab)
            digits = of_slab if digits is None else digits + of_slab
        for group in groups:
            group.write(slab, per_row)
    if digits is not None:
        _record_resolution(imported, digits, groups)
    doubts.remark()
    return summaries


# ---- the last digit of probabilities


def _digits_of_slab(imported: Imported, slab: Slab) -> Digits:
    """What the probabilities of a slab show of their rounding."""
    values = slab.scores.reshape(len(slab.scores), -1)
    if imported.is_one_column:
        values = values[:, -1:]
    return digits_of_values(values, imported.stored_type)


def _record_resolution(
    imported: Imported, digits: Digits, groups: Sequence[_Group]
) -> None:
    """Record in every group to which digit all probabilities of the source were
    rounded.

    Of numbers that were rounded by their type alone the type says it.
    """
    zeros = imported.zeros
    if zeros is None:
        zeros = Zeros.of(
            digits, imported.stored_type, imported.is_one_column, imported.decimals
        )
    zeros = zeros.of_classes(imported.k, imported.where)
    is_confidence = imported.kind == "confidence"
    if zeros == Zeros.of_type(imported.dtype, one_column=is_confidence):
        return
    for group in groups:
        for name, value in zeros.attributes.items():
            group.writer.attribute(name, value)


def _summary(imported: Imported, name: str, n: int, n_absent: int) -> Written:
    return Written(
        name=name,
        kind=imported.kind,
        n=n,
        k=imported.k,
        dtype=str(imported.dtype),
        labelled=imported.labels is not None,
        transforms=len(imported.specs),
        absent_classes=n_absent,
    )


def _new_bundle(
    imported: Imported,
    name: str,
    n: int,
    rows: IntArray | None,
    origin: Mapping[str, Any],
    splitting: Splitting,
) -> NewBundle:
    """What a group of the output holds. Lazy columns are written with the scores."""
    source = {**origin, "rows": n, "rows_of_source": imported.n}
    is_labelled = imported.labels is not None
    if splitting.parts:
        source["split"] = splitting.record(
            name, is_labelled, "unit" in imported.columns
        )
    inside = slice(None) if rows is None else rows
    columns = {}
    for role, values in imported.columns.items():
        if not isinstance(values, Positions):
            columns[role] = values[inside]
    return NewBundle(
        n=n,
        k=imported.k,
        kind=imported.kind,
        dtype=imported.dtype,
        transforms=imported.specs,
        class_names=imported.class_names,
        labels=is_labelled and imported.k > 0,
        columns=columns,
        source=source,
    )


def _per_row(imported: Imported, slab: Slab) -> dict[str, AnyArray]:
    """Labels and lazy columns of the rows of a slab."""
    rows = slice(slab.start, slab.start + len(slab.scores))
    per_row = {}
    for name, values in imported.columns.items():
        if isinstance(values, Positions):
            per_row[name] = values[rows]
    if imported.labels is not None:
        if imported.k:
            per_row["labels"] = imported.labels[rows]
        else:
            per_row["correct"] = imported.labels[rows].astype(bool)
    return per_row


# ---- doubts about labels that cannot belong to the scores


class _Doubts:
    """How often the label has the largest score; in the first rows, the least.

    reversed_scores : what shows in the first rows of two classes that the scores are
    those of the other. ranks_well : rows of class 1 have higher scores than rows of
    class 0; then the labels may be right where a threshold of 1/2 is wrong.
    are_predictions : is every label the first class of the largest score, which ties do
    not explain?
    """

    def __init__(self, imported: Imported) -> None:
        self.imported = imported
        none = Agreement(0, 0, imported.k)
        self.largest = none
        self.are_predictions = True
        self.ranks_well = False
        self.sign: SignEvidence | None = None
        self.reversed_scores = ""

    def add(self, slab: Slab) -> None:
        """Take the next rows into account."""
        k = self.imported.k
        if self.imported.labels is None or not k:
            return
        labels = self.imported.labels[slab.start : slab.start + len(slab.scores)]
        is_judged = (labels >= 0) & (labels < k)
        labels, scores = labels[is_judged], slab.scores[is_judged]
        n_judged = self.largest.n
        self.largest += agreement(scores, labels)
        if self.largest.share == 1:
            # Of tied scores any may be the label; then labels are no predictions.
            self.are_predictions &= bool((scores.argmax(axis=1) == labels).all())
        if n_judged >= MOST_JUDGED:
            return
        if k > 2:
            sign = sign_of(scores, labels)
            self.sign = sign if self.sign is None else self.sign + sign
            self.reversed_scores = self.sign.text if self.sign.is_reversed else ""
            return
        margins = scores[:, 1] - scores[:, 0]
        self.ranks_well = ranks_as_labelled(margins, labels)
        if ranks_reversed(margins, labels):
            self.reversed_scores = REVERSED_OF_TWO

    def remark(self) -> None:
        """Warn of predictions, of reversed scores, and of labels of other rows."""
        if self.largest.n < FEWEST_JUDGED:
            return
        where, k = self.imported.where, self.imported.k
        share = self.largest.share
        error = sqrt((1 - 1 / k) / k / self.largest.n)
        if share == 1 and self.are_predictions:
            remark(
                f"warning: {where}: every label is the class of the largest score; are"
                " the labels the model's predictions?"
            )
        elif self.reversed_scores:
            question = SAME_ORDER if k == 2 else REVERSED
            remark(f"warning: {where}: {self.reversed_scores}: {question}")
        elif share <= 1 / k + CHANCE_ERRORS * error and not self.ranks_well:
            remark(
                f"warning: {where}: the largest score is the label in {share:.1%} of"
                f" the rows, no better than chance ({1 / k:.1%}): do the labels belong"
                " to these rows, are the classes in this order?"
            )
