"""Tables with a row for every sample and class: ``id, class, prob, label``.

So ``melt`` of pandas, ``unpivot`` of polars and ``pivot_longer`` and ``reshape`` of R
write scores. They become a table with a row for every sample, where the values prove
it: every sample has every class once, its probabilities sum to 1, and no other numbers
differ within it, which could be the scores of rows that are samples.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from calcli.errors import DataError
from calcli.importers.arranging.choices import taken
from calcli.importers.arranging.column_values import ROWS_SEEN, marks_in, numbers_in
from calcli.importers.evidence.kinds import kind_of_scores
from calcli.importers.evidence.label_evidence import ENOUGH_ROWS
from calcli.importers.evidence.lookalikes import is_one_hot
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import parse_name
from calcli.importers.names.column_options import columns_of_options
from calcli.importers.names.opposites import OPPOSITES, opposite_words
from calcli.importers.names.roles import are_ours, role_of
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, Table, constant
from calcli.importers.text_cells import words
from calcli.items import counts_up
from calcli.numerics import AnyArray, IntArray, whole_number

FEWEST_SAMPLES = 10
"""Fewer samples may have numbers that sum to 1 by chance."""

MOST_COLUMNS = 50
MOST_CLASSES = 10_000
"""Most columns of a table in which a row is a class; most classes."""

MOST_LISTED = 9
"""Fewer classes are listed in a message."""

RANKS = re.compile(r"(?i)(^|[_.\W])(rank|top|place|position|order|k)($|[_.\W])")
"""Name of a column of ranks."""


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
    layouts = _proven_layouts(table.columns, table.n_rows)
    chosen = _one_of(table.columns, layouts)
    if chosen is None:
        return table
    layout, scores = chosen
    layout = _in_order(table, layout, request)
    columns = _columns_of(table, layout, scores)
    labels = columns_of_options(list(table.columns), request.labels)
    if not labels <= columns.keys():
        return table
    _refuse_numbers_of_words(table, columns, layout, request)
    remark(
        f"{table.file.name}: the {table.n_rows} rows of {', '.join(scores)} are"
        f" {len(layout.rows)} samples of {len(layout.classes)} classes, by"
        f" {' and '.join(map(repr, layout.by))}"
    )
    return replace(table, columns=columns, n_rows=len(layout.rows))


# ---- samples and classes


def _proven_layouts(columns: Columns, n_rows: int) -> list[tuple[_Layout, list[str]]]:
    """Layouts in which a row is a class, each with its columns of scores."""
    layouts = []
    for layout in _layouts(columns, n_rows):
        has_ids = len(layout.by) > 1
        if not has_ids and not _has_label(columns, layout):
            continue
        scores = _scores_of(columns, layout)
        if scores and not _differ_otherwise(columns, layout, scores):
            layouts.append((layout, scores))
    return layouts


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
    if column.cells == "number":
        if numbers_in(column, "iuU", first=ROWS_SEEN) is None:
            return None
        return numbers_in(column, "iuU")
    if column.cells != "text":
        return None
    with suppress(DataError):
        values = column.values()
        if values.ndim == 1 and values.dtype.kind == "U":  # no long texts
            return values
    return None


def _one_of(
    columns: Columns, layouts: Sequence[tuple[_Layout, list[str]]]
) -> tuple[_Layout, list[str]] | None:
    """The layout whose classes a label names, or the only one; None where it is unclear.

    Ranks are no classes: the surest of every sample comes first. Words are rather than
    numbers, which may mark one of two.
    """
    unranked = [pair for pair in layouts if not _are_ranks(columns, *pair)]
    candidates = unranked or list(layouts)
    in_words = [pair for pair in candidates if not _are_numbers(pair[0].classes)]
    candidates = in_words or candidates
    if len(candidates) > 1:
        candidates = [pair for pair in candidates if _has_label(columns, pair[0])]
    if len(candidates) != 1:
        return None
    return candidates[0]


def _are_numbers(classes: Sequence[str]) -> bool:
    return all(whole_number(name) is not None for name in classes)


def _are_ranks(columns: Columns, layout: _Layout, scores: Sequence[str]) -> bool:
    """True where the classes count up and every sample has its largest score first.

    Of two classes that may be so where one is rare, unless they are called ranks.
    """
    if not (counts_up(layout.classes) or counts_up(layout.classes, first=1)):
        return False
    values = columns[scores[0]].values()[layout.rows]
    are_sorted = bool((values[:, 1:] <= values[:, :-1]).all())
    is_named = RANKS.search(layout.by[-1]) is not None
    return are_sorted and (is_named or len(layout.classes) > 2)


def _in_order(table: Table, layout: _Layout, request: ImportRequest) -> _Layout:
    """The layout, in the order of ``--class-names`` where these are its classes."""
    if sorted(request.class_names) != sorted(layout.classes):
        return layout
    order = [layout.classes.index(name) for name in request.class_names]
    return replace(
        layout, rows=layout.rows[:, order], classes=list(request.class_names)
    )


def _refuse_numbers_of_words(
    table: Table, columns: Columns, layout: _Layout, request: ImportRequest
) -> None:
    """Raise DataError for labels that count classes in words, which have no order."""
    words = opposite_words(layout.classes)
    are_numbered = all(name[-1:].isdigit() for name in layout.classes)
    if request.class_names or are_numbered or words in OPPOSITES:
        return
    named = columns_of_options(list(columns), request.labels)
    for name, column in columns.items():
        if name not in named and (request.labels or role_of(name) != "labels"):
            continue
        values = _names_in(column)
        if values is not None and values.dtype.kind in "iu":
            listing = "A,B,…"
            if len(layout.classes) < MOST_LISTED:
                listing = ",".join(layout.classes)
            raise DataError(
                f"{table.file}: {name!r} has numbers, and the classes in"
                f" {layout.by[-1]!r} are words in no order; name them in that of the"
                f" numbers: --class-names {listing}",
                no_command="nothing tells the order of the classes",
            )


# ---- scores and labels


def _scores_of(columns: Columns, layout: _Layout) -> list[str]:
    """The columns whose values are probabilities of the classes of every sample.

    Percentages and logarithms are; logits are by name, where a label names the classes.
    """
    scores = []
    for name, column in columns.items():
        values = None if name in layout.by else numbers_in(column, "f")
        if values is None or is_one_hot(values[layout.rows]):
            continue
        if role_of(name) == "weights":
            continue
        proof = kind_of_scores(values[layout.rows])
        are_logits = proof.kind == "logits" and parse_name(name).kind == "logits"
        if are_logits and not _has_label(columns, layout):
            continue
        are_probabilities = proof.kind in ("probs", "log_probs")
        if are_probabilities or are_logits or proof.are_percentages:
            scores.append(name)
    return scores


def _differ_otherwise(columns: Columns, layout: _Layout, scores: Sequence[str]) -> bool:
    """True if labels or other numbers differ within a sample, as those of visits do.

    Numbers may that are largest at the same class, as logits beside probabilities, or
    that are the same for every sample, and labels that mark one class.
    """
    values = columns[scores[0]].values()[layout.rows]
    at_largest = values.argmax(axis=1)[:, None]
    for name, column in columns.items():
        if name in scores or name in layout.by or _is_constant(column, layout.rows):
            continue
        if _marks(column, layout.rows) is not None:
            continue
        others = numbers_in(column, "f")
        if others is None:
            if role_of(name) == "labels":
                return True
            continue
        of_samples = others[layout.rows]
        largest = np.take_along_axis(of_samples, at_largest, axis=1)[:, 0]
        is_same = bool((of_samples == of_samples[0]).all())
        if not is_same and (largest < of_samples.max(axis=1)).any():
            return True
    return False


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


def _marks(column: Column, rows: IntArray) -> IntArray | None:
    """Zeros and a one for the classes of every sample; None for anything else."""
    marks = marks_in(column)
    if marks is None or not is_one_hot(marks[rows]):
        return None
    return marks[rows]
