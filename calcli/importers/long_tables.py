"""Tables with a row for every sample and class: ``id, class, prob, label``.

So ``melt`` of pandas, ``unpivot`` of polars and ``pivot_longer`` and ``reshape`` of R
write scores. They become a table with a row for every sample, where the values prove
it: every sample has every class once, and its probabilities sum to 1.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from calcli.errors import DataError
from calcli.importers.array_names import parse_name
from calcli.importers.choices import taken
from calcli.importers.column_options import columns_of_options
from calcli.importers.evidence import (
    ENOUGH_ROWS,
    PERCENTAGES,
    is_one_hot,
    kind_of_scores,
)
from calcli.importers.import_request import ImportRequest
from calcli.importers.names import are_ours, role_of
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, Table, constant
from calcli.importers.text_cells import words
from calcli.numerics import AnyArray, IntArray

FEWEST_SAMPLES = 10
"""Fewer samples may have numbers that sum to 1 by chance."""

MOST_COLUMNS = 50
MOST_CLASSES = 10_000
"""Most columns of a table in which a row is a class; most classes."""

ROWS_SEEN = 1000
"""Rows that are looked at first, of columns of numbers."""


@dataclass(frozen=True)
class _Layout:
    """Where the classes of every sample stand.

    rows : (samples, classes) rows of the file. by : columns of samples and classes.
    """

    rows: IntArray
    classes: list[str]
    by: list[str]


def with_a_row_per_sample(table: Table, request: ImportRequest) -> Table:
    """The table, with a column for the scores of every class where it has a row each.

    Only where options name no scores of the table as it is.
    """
    named = columns_of_options(list(table.columns), request.scores)
    are_named = named or request.confidence or request.correct
    is_other = len(table.columns) > MOST_COLUMNS or table.is_ours
    is_other = is_other or are_ours(table.columns) or request.choices is not None
    if table.n_rows is None or is_other or are_named:
        return table
    layouts = []
    for layout in _layouts(table.columns, table.n_rows):
        has_ids = len(layout.by) > 1
        if not has_ids and not _has_label(table.columns, layout):
            continue
        scores = _scores_of(table.columns, layout)
        if scores:
            layouts.append((layout, scores))
    if not layouts:
        return table
    layout, scores = layouts[0]
    columns = _columns_of(table, layout, scores)
    labels = columns_of_options(list(table.columns), request.labels)
    if not labels <= columns.keys():
        return table
    remark(
        f"{table.file.name}: the {table.n_rows} rows of {', '.join(scores)} are"
        f" {len(layout.rows)} samples of {len(layout.classes)} classes, by"
        f" {' and '.join(map(repr, layout.by))}"
    )
    return replace(table, columns=columns, n_rows=len(layout.rows))


# ---- samples and classes


def _layouts(columns: Columns, n_rows: int) -> Iterator[_Layout]:
    """The ways in which a column may name classes that every sample has once."""
    for name, column in columns.items():
        values = _names_in(column)
        if values is None:
            continue
        distinct, classes, counts = np.unique(
            values, return_inverse=True, return_counts=True
        )
        k = len(distinct)
        m = n_rows // k
        if not 2 <= k <= MOST_CLASSES or m < FEWEST_SAMPLES or (counts != m).any():
            continue
        samples, by = _samples(columns, name, classes.reshape(-1), k)
        if samples is None:
            continue
        order = np.lexsort((classes.reshape(-1), samples))
        rows = order.reshape(m, k)
        rows = rows[rows.min(axis=1).argsort()]
        yield _Layout(rows, list(map(str, distinct.tolist())), [*by, name])


def _samples(
    columns: Columns, of_classes: str, classes: IntArray, k: int
) -> tuple[IntArray | None, list[str]]:
    """The sample of every row, and the column that tells it; None for none.

    Without such a column all classes of a sample stand in a row, or all samples of a
    class do, beside a label in words.
    """
    n = len(classes)
    m = n // k
    for name, column in columns.items():
        values = None if name == of_classes else _names_in(column)
        if values is None:
            continue
        _, samples, counts = np.unique(values, return_inverse=True, return_counts=True)
        samples = samples.reshape(-1)
        if len(counts) == m and (counts == k).all():
            pairs = samples * k + classes
            if len(np.unique(pairs)) == n:
                return samples, [name]
    if (np.sort(classes.reshape(m, k), axis=1) == np.arange(k)).all():
        return np.arange(n) // k, []
    if (classes.reshape(k, m) == classes[::m, None]).all():
        return np.arange(n) % m, []
    return None, []


def _names_in(column: Column) -> AnyArray | None:
    """Words, or whole numbers, of a column; None for any other."""
    if column.cells not in ("text", "number") or column.empty_row is not None:
        return None
    with suppress(DataError):
        if column.cells == "number":
            first = column.rows(slice(ROWS_SEEN))
            if first.ndim != 1 or first.dtype.kind not in "iuU":
                return None
        values = column.values()
        if values.ndim == 1 and values.dtype.kind in "iuU":  # no long texts
            return values
    return None


# ---- scores and labels


def _scores_of(columns: Columns, layout: _Layout) -> list[str]:
    """The columns whose values are probabilities of the classes of every sample.

    Percentages and logarithms are; logits are by name, where a label names the classes.
    """
    scores = []
    for name, column in columns.items():
        values = None if name in layout.by else _real_numbers(column)
        if values is None or is_one_hot(values[layout.rows]):
            continue
        proof = kind_of_scores(values[layout.rows])
        are_logits = proof.kind == "logits" and parse_name(name).kind == "logits"
        if are_logits and not _has_label(columns, layout):
            continue
        are_probabilities = proof.kind in ("probs", "log_probs")
        if are_probabilities or are_logits or proof.reason == PERCENTAGES:
            scores.append(name)
    return scores


def _has_label(columns: Columns, layout: _Layout) -> bool:
    """True if a column has one of the classes, in words, for every sample."""
    for name, column in columns.items():
        values = None if name in layout.by else _names_in(column)
        if values is None or values.dtype.kind != "U":
            continue
        are_classes = set(np.unique(values).tolist()) <= set(layout.classes)
        if are_classes and _is_constant(column, layout.rows):
            return True
    return False


def _real_numbers(column: Column) -> AnyArray | None:
    if column.cells != "number" or column.empty_row is not None:
        return None
    with suppress(DataError):
        values = column.values()
        if values.ndim == 1 and values.dtype.kind == "f":
            return values
    return None


def _columns_of(
    table: Table, layout: _Layout, scores: Sequence[str]
) -> dict[str, Column]:
    """Columns with a row for every sample: those that are the same for all of its
    classes, the scores of each class, and the class that a column marks.
    """
    made: dict[str, Column] = {}
    others = []
    for name, column in table.columns.items():
        if name in scores or name == layout.by[-1]:
            continue
        if _is_constant(column, layout.rows):
            made[name] = taken(column, layout.rows[:, 0])
        else:
            others.append(name)
    if not any(role_of(name) == "labels" for name in made):
        made |= _marked(table, layout, scores, others)
    for name in scores:
        values = table.columns[name]
        for number, word in enumerate(layout.classes):
            of_class = f"{name}_{word}"
            made[of_class] = replace(
                taken(values, layout.rows[:, number]), name=of_class
            )
    return made


def _is_constant(column: Column, rows: IntArray) -> bool:
    """True for a column with one value for all classes of a sample."""
    with suppress(DataError):
        values = column.rows_or_parts()
        is_plain = isinstance(values, np.ndarray) and values.dtype.kind in "biufU"
        if is_plain and values.ndim == 1:
            _, codes = np.unique(values.astype(str), return_inverse=True)
            of_samples = codes.reshape(-1)[rows]
            return bool((of_samples == of_samples[:, :1]).all())
    return False


def _marked(
    table: Table, layout: _Layout, scores: Sequence[str], others: Sequence[str]
) -> dict[str, Column]:
    """The label that a column marks by a single 1 among the classes of every sample.

    What is the largest score of every sample is a prediction.
    """
    labels = {}
    for name in others:
        marks = _marks(table.columns[name], layout.rows)
        if marks is None:
            continue
        index = marks.argmax(axis=1)
        values = table.columns[scores[0]].values()[layout.rows]
        is_always_largest = bool((values.argmax(axis=1) == index).all())
        if len(index) < ENOUGH_ROWS or not is_always_largest:
            labels[name] = words(layout.classes)[index]
    if len(labels) != 1:
        return {}
    ((name, of_samples),) = labels.items()
    remark(f"{table.file.name}: {name!r} marks the label of every sample")
    return {"label": Column(table.file, "label", constant(of_samples), "text")}


def _marks(column: Column, rows: IntArray) -> AnyArray | None:
    """Zeros and a one for the classes of every sample; None for anything else."""
    if column.cells not in ("number", "truth") or column.empty_row is not None:
        return None
    with suppress(DataError):
        values = column.values()
        if values.ndim == 1 and values.dtype.kind in "biuf":
            marks = values.astype(np.float64)[rows]
            return marks if is_one_hot(marks) else None
    return None
