"""Tables of the k best classes of each row: their probabilities, put in class order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError, UsageError
from calcli.importers.evidence.classes import class_of_each_row
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.roles import NUMBERED
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns, Table, constant, most_decimals
from calcli.io.validate import tolerance_of
from calcli.numerics import AnyArray, FloatArray
from calcli.rounding import SUM_TOLERANCE, digits_of_values, float_type
from calcli.zeros import Zeros

SCORE_STEMS = ("prob", "probs", "probability", "score", "scores", "p")
CLASS_STEMS = (
    *("index", "idx", "indices", "class_index", "class_idx", "class", "label"),
    *("pred", "class_name", "classes"),
)
"""Names of columns with probability and class of every rank, the surest first."""


@dataclass(frozen=True)
class RankColumns:
    """Values of all ranks, (n, ranks), and the columns that they are made of."""

    load: Callable[[], AnyArray]
    names: frozenset[str]


def take_ranks(
    table: Table, columns: dict[str, Column], request: ImportRequest
) -> dict[str, Column]:
    """Make the array ``probs`` (n, classes) of columns ``prob_0, index_0, …``.

    The columns used are taken out. Raises UsageError for tables without ranks,
    DataError for invalid ranks (see ``spread``).
    """
    n_classes = request.classes or 0
    scores = _ranks_of(columns, SCORE_STEMS)
    classes = _ranks_of(columns, CLASS_STEMS)
    if scores is None or classes is None:
        raise UsageError(
            f"--classes {n_classes}: {table.file} has no columns of ranks such as"
            " prob_0, index_0, prob_1, …; have probabilities written, logits do not say"
            " how much the others have"
        )
    p = scores.load()
    index = _class_index(table, classes.load(), request.class_names)
    if p.shape != index.shape:
        raise DataError(
            f"{table.file}: has probabilities of shape {p.shape}, classes of shape"
            f" {index.shape}; expected equal"
        )
    probs = spread(p, index, n_classes, str(table.file))
    _remark_spread(table, p, n_classes)
    decimals = most_decimals(columns[name] for name in scores.names)
    kind = float_type(p.dtype)
    zeros = Zeros.of(digits_of_values(p, kind), kind, decimals=decimals)
    arrays = {"probs": Column(table.file, "probs", constant(probs), zeros=zeros)}
    used = scores.names | classes.names | _repetitions(columns)
    for name in used - request.pieces:
        del columns[name]
    if request.class_names:
        names = np.array(request.class_names)
        arrays["class_names"] = Column(table.file, "class_names", constant(names))
    return arrays


def _remark_spread(table: Table, p: AnyArray, n_classes: int) -> None:
    message = "ranks were put in the order of the classes"
    if p.shape[1] < n_classes:
        rest = max(float((1 - p.sum(axis=1)).mean()), 0.0)
        message = (
            f"{p.shape[1]} of {n_classes} classes are listed; what they leave"
            f" ({rest:.2%} on average) was spread evenly over the others"
        )
    remark(f"{table.file.name}: {message}")


def _ranks_of(columns: Columns, stems: Sequence[str]) -> RankColumns | None:
    """Ranks by the first of these names that is a column of lists, or one per rank."""
    for stem in stems:
        if stem in columns and columns[stem].cells == "lists":
            return RankColumns(columns[stem].load, frozenset({stem}))
        names = _numbered(columns, stem)
        if len(names) > 1:
            load = partial(_stacked, [columns[name] for name in names])
            return RankColumns(load, frozenset(names))
    return None


def _numbered(columns: Columns, stem: str) -> list[str]:
    """Columns ``stem_0, stem_1, …`` in the order of their numbers."""
    by_number: dict[int, str] = {}
    for name in columns:
        match = NUMBERED.fullmatch(name)
        if match is not None and match["stem"].lower().rstrip("_-. ") == stem:
            by_number[int(match["number"])] = name
    return [by_number[number] for number in sorted(by_number)]


def _stacked(columns: Sequence[Column]) -> AnyArray:
    return np.stack([column.load() for column in columns], axis=1)


def _repetitions(columns: Columns) -> set[str]:
    """Further columns that name the classes of the ranks."""
    names: set[str] = set()
    for stem in CLASS_STEMS:
        ranks = _ranks_of(columns, (stem,))
        if ranks is not None:
            names |= ranks.names
    for name, column in columns.items():
        if column.cells == "lists" and name.lower() in CLASS_STEMS:
            names.add(name)
    return names


def _class_index(
    table: Table, classes: AnyArray, names: Sequence[str]
) -> NDArray[np.int64]:
    """Indices of the classes of all ranks. Raises UsageError for unknown words."""
    if classes.dtype.kind in "iuf" and (classes == np.floor(classes)).all():
        return classes.astype(np.int64)
    words = list(map(str, classes.ravel().tolist()))
    index = class_of_each_row(words, names)
    is_unknown = index < 0
    if is_unknown.any():
        word = words[int(np.argmax(is_unknown))]
        raise UsageError(
            f"{table.file}: ranks are named in words ({word!r}, …); name all classes:"
            " --class-names"
        )
    return index.reshape(classes.shape)


def spread(p: AnyArray, index: AnyArray, k: int, where: str) -> FloatArray:
    """Probabilities (n, k) from those of ranks, p (n, r) of classes index (n, r).

    The rest is spread evenly over the other classes. Raises DataError for classes out
    of range or listed twice, for invalid probabilities, and where an unlisted class
    would exceed the least listed one: then k is not the number of classes.
    """
    _check_classes(index, k, where)
    tolerance = tolerance_of(p)
    listed = p.astype(np.float64)
    rest = 1.0 - listed.sum(axis=1)
    n_others = k - p.shape[1]
    _check_sums(listed, rest, n_others, tolerance, where)
    share = np.maximum(rest, 0.0) / max(n_others, 1)
    if n_others:
        _check_shares(listed, share, k, tolerance, where)
    probs = np.repeat(share[:, None], k, axis=1)
    np.put_along_axis(probs, index, listed, axis=1)
    return probs / probs.sum(axis=1, keepdims=True)


def _check_classes(index: AnyArray, k: int, where: str) -> None:
    """Raise DataError for classes that are out of range or listed twice."""
    n_ranks = index.shape[1]
    if n_ranks > k or index.min() < 0 or index.max() >= k:
        raise DataError(
            f"{where}: lists class {int(index.max())} among {n_ranks} of a row,"
            f" expected classes 0 to {k - 1}"
        )
    in_order = np.sort(index, axis=1)
    is_twice = (in_order[:, 1:] == in_order[:, :-1]).any(axis=1)
    if is_twice.any():
        raise DataError(f"{where}: row {int(np.argmax(is_twice))} lists a class twice")


def _check_sums(
    listed: FloatArray, rest: FloatArray, n_others: int, tolerance: float, where: str
) -> None:
    """Raise DataError for rows that are no probabilities. rest : 1 less their sum."""
    is_bad = (listed < 0).any(axis=1) | ~(rest >= -tolerance)
    if not n_others:
        is_bad |= np.abs(rest) > tolerance
    if is_bad.any():
        row = int(np.argmax(is_bad))
        raise DataError(
            f"{where}: the probabilities of row {row} sum to {1 - rest[row]:g},"
            " expected probabilities"
        )


def _check_shares(
    listed: FloatArray, share: FloatArray, k: int, tolerance: float, where: str
) -> None:
    """Raise DataError where an unlisted class would exceed the least listed one."""
    n_ranks = listed.shape[1]
    n_others = k - n_ranks
    least = listed.min(axis=1)
    # of the sum, spread over the others, and half a digit of the least itself
    of_rounding = tolerance / n_others + tolerance / (n_ranks + 2)
    is_above = share > least + max(SUM_TOLERANCE, of_rounding)
    if not is_above.any():
        return
    row = int(np.argmax(is_above))
    rest = 1.0 - listed[row].sum()
    raise DataError(
        f"{where}: row {row} leaves {rest:.3g} to {n_others} classes, more than so many"
        f" below its least, {least[row]:.3g}, can have: are there more than {k}"
        " classes?"
    )
