"""What an output of calibrated scores holds: its scores, and the columns beside them.

The columns are one list, from which every format takes its own names: a bundle has those
of the roles (``ids``), a table those of the source (``patient``) where it can.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.io.provenance import mark
from calcli.io.writer import NewBundle
from calcli.numerics import AnyArray, whole_number
from calcli.records import cached_property
from calcli.rows import SCORE_KINDS, ScoreKind
from calcli.zeros import Zeros

COLUMNS = (
    "ids",
    "labels",
    "correct",
    "prediction",
    "confidence",
    "p0",
    "p1",
    "accepted",
    "weights",
    "group",
    "unit",
)
"""Columns by their names in a bundle, in the order in which tables have them."""

OWN = frozenset(
    {
        *COLUMNS,
        "class_names",
        "calibrated_by",
        "calibrator",
        "own_names",
        "corrupted_labels",
    }
)
"""Reserved names of an output, which no other column can have."""

Slab = tuple[int, AnyArray, Mapping[str, AnyArray]]
"""First row, scores (b, k), and the columns computed with them, by their names in a
bundle: labels, prediction, confidence, accepted.

Or confidences (b,), and correct.
"""


@dataclass(frozen=True, kw_only=True)
class SheetScores:
    """Scores of an output: n rows of k classes.

    kind : of the scores, or "confidence" for one number a row (k = 0).
    """

    n: int
    k: int
    kind: ScoreKind
    dtype: np.dtype[Any]
    class_names: Sequence[str] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n,) if self.kind == "confidence" else (self.n, self.k)

    @property
    def names(self) -> list[str]:
        """Column name for each class, from its name or number."""
        if self.kind == "confidence":
            return ["confidence"]
        return [f"{self.kind}_{name}" for name in self.class_words or range(self.k)]

    @property
    def class_words(self) -> list[str]:
        """The names of the classes.

        Empty where they are not distinct, or numbers, which would be read as those of
        the classes.
        """
        names = [*(self.class_names or ())]
        if len(set(names)) < len(names) or not all(map(str.strip, names)):
            return []
        are_numbers = None not in map(whole_number, names)
        return [] if are_numbers else names

    @cached_property
    def reserved(self) -> frozenset[str]:
        """Names that no column of the source can have in the output."""
        return OWN.union(self.names, SCORE_KINDS)


@dataclass(frozen=True, kw_only=True)
class SheetColumn:
    """Column of an output whose values the bundle of its rows holds.

    name : in a bundle. table_name : in all other formats, None where they lack it.
    position : name of the column in whose place tables have it. values : of all rows,
    or a function that reads those from one row to another.
    """

    name: str
    table_name: str | None
    position: str
    values: AnyArray | Callable[[int, int], AnyArray]

    def at(self, start: int, stop: int) -> AnyArray:
        """Values of some rows."""
        if isinstance(self.values, np.ndarray):
            return self.values[start:stop]
        return self.values(start, stop)


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Description of an output, known before its rows.

    columns : all but those computed with the scores. has_labels : whether these are
    computed with the scores, too. label_name : name of the labels in the source, for
    tables. source : where the scores came from. attributes : returns texts about the
    whole output (calibrator, calibrated_by) for formats with metadata; called last
    where a format allows it, when all rows have been read. zeros : resolution of the
    probabilities that were calibrated, where they were rounded.
    """

    scores: SheetScores
    columns: Sequence[SheetColumn]
    has_labels: bool
    label_name: str
    source: Mapping[str, Any]
    attributes: Callable[[], Mapping[str, str]]
    zeros: Zeros | None

    @property
    def bundle(self) -> NewBundle:
        """The output as a bundle, with the columns whose values are all there."""
        whole = {}
        for column in self.columns:
            if isinstance(column.values, np.ndarray):
                whole[column.name] = column.values
        return NewBundle(
            n=self.scores.n,
            k=self.scores.k,
            kind=self.scores.kind,
            dtype=self.scores.dtype,
            labels=self.has_labels,
            class_names=self.scores.class_names,
            columns=whole,
            source=self.source,
        )

    def bundle_rows(self, slab: Slab) -> dict[str, AnyArray]:
        """Columns of a slab that ``bundle`` lacks, by their names in a bundle."""
        start, scores, computed = slab
        columns = dict(computed)
        for column in self.columns:
            if not isinstance(column.values, np.ndarray):
                columns[column.name] = column.at(start, start + len(scores))
        return columns

    def rows(self, slab: Slab) -> tuple[AnyArray, dict[str, AnyArray]]:
        """Scores of a slab in the sheet's precision, and its columns by their names in
        tables, in the order of ``COLUMNS``.
        """
        start, scores, computed = slab
        by_position: dict[str, dict[str, AnyArray]] = {}
        for column in self.columns:
            if column.table_name is not None:
                columns_here = by_position.setdefault(column.position, {})
                columns_here[column.table_name] = column.at(start, start + len(scores))
        for name, values in computed.items():
            by_position[name] = {name: values}
        columns: dict[str, AnyArray] = {}
        for position in dict.fromkeys((*COLUMNS, *by_position)):
            columns |= by_position.get(position, {})
        return scores.astype(self.scores.dtype, copy=False), columns

    def table(self, slab: Slab) -> tuple[AnyArray, dict[str, AnyArray]]:
        """Scores as columns, and the columns of ``rows`` with class names in place of
        indices, where there are any.
        """
        scores, columns = self.rows(slab)
        if scores.ndim == 1:
            scores = scores[:, None]
        if self.scores.class_words:
            words = np.array(self.scores.class_words, dtype=object)
            for name in ("labels", "prediction"):
                if name in columns:
                    columns[name] = words[columns[name]]
        return scores, self.called(columns)

    def called(self, columns: dict[str, AnyArray]) -> dict[str, AnyArray]:
        """Rename the labels to their name in the source, unless it is in use."""
        in_use = self.scores.reserved.union(columns)
        if "labels" not in columns or self.label_name in in_use:
            return columns
        renamed = {}
        for name, column in columns.items():
            renamed[self.label_name if name == "labels" else name] = column
        return renamed

    @property
    def mark(self) -> dict[str, str]:
        """Column of a table that records the calibrators, as name and value of every
        row; empty if uncalibrated.
        """
        chain = self.attributes().get("calibrated_by")
        return {} if chain is None else {"calibrated_by": mark(chain)}

    @property
    def texts(self) -> dict[str, str]:
        """Attributes and source, for formats that can store texts."""
        return {**self.attributes(), "source": json.dumps(self.source, sort_keys=True)}
