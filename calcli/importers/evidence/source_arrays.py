"""The arrays of a source: their names, and what is known of their values.

Everything that is said of how a file is read rests on this: values are loaded, and
evidence is computed, once for each array. Arrays that cannot be read are None. Columns
that an option lists (``A,B,C``) are asked about as arrays are.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.evidence.classes import (
    class_indices,
    counts_from_1,
    possible_classes,
)
from calcli.importers.evidence.kinds import KindEvidence, kind_of_scores
from calcli.importers.evidence.label_evidence import (
    Agreement,
    LabelEvidence,
    agreement,
    label_evidence,
)
from calcli.importers.evidence.looks import (
    Look,
    is_single_value,
    looks_like,
    without_empty,
)
from calcli.importers.evidence.signs import ranks_apart
from calcli.importers.names.array_names import (
    Name,
    headers_path,
    is_generated,
    names_of_arrays,
    of_role,
)
from calcli.importers.names.column_options import listed_columns
from calcli.importers.ragged import Parts
from calcli.importers.table import Column, Columns
from calcli.numerics import AnyArray, IntArray


class Arrays:
    """The arrays of a source, by path. What is computed once, for each path:

    - load : the array, or of a list of columns (n, k) numbers; None for one without
      rows, of a single value, or not readable, and for columns of no numbers.
    - values : all of it, (n, 1) as (n,), empty cells as NaN or no text; or None.
    - words : its distinct values, without the empty one.
    - look : what the name and the first values suggest.
    - kind : the kind of scores that all values prove.
    - agreement : how often a column names the class of the largest of the scores, by
      the paths of both; None where it is unclear.
    - label_evidence : how far a column follows the scores, by the paths of both.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.names = names_of_arrays(columns)
        self._parts: dict[str, Column] = {}
        for column in columns.values():
            self._parts |= column.parts
        self.load = cache(self._load)
        self.values = cache(self._values)
        self.words = cache(self._words)
        self.look = cache(self._look)
        self.kind = cache(self._kind)
        self.agreement = cache(self._agreement)
        self.label_evidence = cache(self._label_evidence)

    def name_of(self, path: str) -> Name:
        """Parts of one path."""
        return next(name for name in self.names if name.path == path)

    def paths_of(self, role: str) -> list[str]:
        """Paths of the arrays whose names give them a role."""
        return [name.path for name in of_role(self.names, role)]

    def naming_label(self, path: str) -> str | None:
        """The label whose words name the columns of an array; None without one."""
        family = self.columns[path].family
        return None if family is None else family.by_label

    def named_by_labels(self, *, are_complete: bool = False) -> list[Name]:
        """Arrays of columns that words of a label name, those left over among them.

        are_complete : only such of all columns that these words name.
        """
        names = []
        for name in self.names:
            family = self.columns[name.path].family
            if family is None or not is_generated(name):
                continue
            if family.is_complete or (family.by_label and not are_complete):
                names.append(name)
        return names

    # ---- values

    def _load(self, path: str) -> Any:
        if path not in self.columns:
            return self.stacked(self.listed(path))
        try:
            array = self.columns[path].load()
        except DataError:
            return None
        if not hasattr(array, "dtype") or not array.ndim or not len(array):
            return None
        if isinstance(array, Parts) and array.ndim == 2 and array.dtype.kind == "f":
            return None  # lists of different lengths, of unknown meaning
        return array

    def _values(self, path: str) -> AnyArray | None:
        try:
            values = self.columns[path].rows(slice(None))
        except DataError:
            return None
        is_column = values.ndim == 2 and values.shape[1] == 1
        return values[:, 0] if is_column else values

    def listed(self, option: str) -> list[str]:
        """Columns that an option lists, parts of arrays among them."""
        return listed_columns(
            list(dict.fromkeys((*self.columns, *self._parts))), option
        )

    def stacked(self, paths: Sequence[str]) -> AnyArray | None:
        """Columns of numbers as an array (n, k), NaN where empty; None for others."""
        columns = []
        for path in paths:
            if path in self.columns:
                values = self.values(path)
            else:  # a class whose name means something else as that of a column
                values = self._parts[path].rows(slice(None))
            if values is None or values.ndim != 1 or values.dtype.kind not in "biuf":
                return None
            columns.append(values)
        if len(set(map(len, columns))) != 1:
            return None
        return np.stack(columns, axis=1).astype(np.float64)

    def present(self, path: str) -> AnyArray | None:
        """The values that are not empty; None where they cannot be read."""
        values = self.values(path)
        return None if values is None else without_empty(values)

    def _words(self, path: str) -> list[Any]:
        values = self.present(path)
        return [] if values is None else np.unique(values).tolist()

    def is_float(self, path: str) -> bool:
        """True for an array of real numbers."""
        array = self.load(path)
        return array is not None and array.dtype.kind == "f"

    def is_wide(self, path: str) -> bool:
        """True for an array with several columns."""
        array = self.load(path)
        return array is not None and array.ndim > 1 and array.shape[-1] > 1

    def is_single(self, path: str) -> bool:
        """True for an array with one value a row; its columns may be one."""
        values = self.values(path) if path in self.columns else None
        return values is not None and values.ndim == 1

    def let_go(self) -> None:
        """Forget the values, which may be large; what is known of them stays."""
        self.load.cache_clear()
        self.values.cache_clear()

    # ---- evidence

    def _look(self, path: str) -> Look:
        return looks_like(path, self.columns[path])

    def likely_unit(self, paths: Iterable[str]) -> str | None:
        """Name of the first of these columns that looks like units: its values repeat."""
        for path in paths:
            column = self.columns[path]
            if not is_single_value(column) and self.look(path) == "units":
                return column.name
        return None

    def _kind(self, path: str) -> KindEvidence:
        return kind_of_scores(self.load(path))

    def classes(self, path: str) -> list[str] | None:
        """Names of the classes of an array of scores: those of its columns, or the only
        ones of the source.
        """
        paths = [headers_path(path)]
        if paths[0] not in self.columns:
            paths = self.paths_of("class_names")
        if len(paths) != 1:
            return None
        names = self.values(paths[0])
        if names is None or names.ndim != 1 or names.dtype.kind not in "OU":
            return None
        return names.tolist()

    def class_indices(self, scores: str, labels: str) -> IntArray | None:
        """Class (n,) that the column ``labels`` gives each row of ``scores`` (n, k).

        None where values are no classes, or there is another number of them.
        """
        array = self.load(scores)
        values = self.load(labels)
        if array is None or values is None or array.ndim != 2:
            return None
        k = array.shape[1]
        values = _whole_values(values)
        if self.columns[scores].counts_from_1 and counts_from_1(values, k):
            values = values - 1
        indices = class_indices(values, k, self.classes(scores))
        return indices if indices is not None and len(indices) == len(array) else None

    def _agreement(self, scores: str, labels: str) -> Agreement | None:
        indices = self.class_indices(scores, labels)
        return None if indices is None else agreement(self.load(scores), indices)

    def _label_evidence(self, scores: str, labels: str) -> LabelEvidence | None:
        indices = self.class_indices(scores, labels)
        if indices is None:
            return None
        return label_evidence(self.load(scores), indices, self.kind(scores).kind)

    def is_always_largest(self, scores: str, labels: str) -> bool:
        """True for a column that names the class of the largest score in every row."""
        matches_largest = self.agreement(scores, labels)
        return matches_largest is not None and matches_largest.share == 1

    def is_proven_prediction(self, scores: str, labels: str) -> bool:
        """True for classes that are the largest score in each of enough rows."""
        matches_largest = self.agreement(scores, labels)
        return matches_largest is not None and matches_largest.is_of_predictions

    def is_proven_label(self, scores: str, labels: str) -> bool:
        """True for classes that follow the scores as only labels do."""
        follows = self.label_evidence(scores, labels)
        return follows is not None and follows.is_proven

    def may_follow(self, scores: str, labels: str) -> bool:
        """True unless many rows show that a column has nothing to do with the scores.

        scores : an array, or columns as an option lists them.
        """
        numbers = self.load(scores)
        values = self.values(labels)
        if numbers is None or values is None or len(numbers) != len(values):
            return True
        if numbers.dtype.kind not in "iuf" or numbers.ndim > 2:
            return True
        if numbers.ndim == 1 or numbers.shape[1] == 1:
            return _may_rank(np.asarray(numbers[()]).reshape(-1), values)
        names = self.classes(scores)
        classes = possible_classes(values, numbers.shape[1], names)
        if classes is None:
            return True
        follows = label_evidence(numbers, classes, self.kind(scores).kind)
        return follows is None or follows.is_likely


def _may_rank(scores: AnyArray, labels: AnyArray) -> bool:
    """True unless one score a row has nothing to do with two classes."""
    classes = possible_classes(labels, 2, None)
    if classes is None or np.isnan(scores).any():
        return True
    return ranks_apart(scores, classes)


def _whole_values(values: Any) -> AnyArray:
    """Whole numbers as such, (n, 1) as (n,)."""
    values = np.asarray(values[()])
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.dtype.kind == "f" and bool((values == np.floor(values)).all()):
        return values.astype(np.int64)
    return values
