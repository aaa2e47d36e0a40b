"""What an HDF5 group of a bundle holds: its datasets, its columns, its own record."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from calcli.errors import DataError
from calcli.io.cells import NameColumn, names_of
from calcli.io.hdf5 import check_stored, lookup, read, texts
from calcli.io.locate import Layout, intersections
from calcli.numerics import AnyArray, BoolArray
from calcli.records import cached_property
from calcli.zeros import Zeros

DEEPEST = 50
"""Maximum nesting of the JSON in attribute source; each calibrator adds a level."""

OWN_NAMES = "own_names"
"""Attribute with the original column names in the source of a bundle: JSON, a list of
names by dataset.
"""

QUESTION = "question"
"""Attribute of a bundle of answers: the name of the question, as the log has it."""

QUESTION_TYPE = "question_type"
"""Attribute of a bundle of answers: yes/no, choice or score."""

CONFIDENCE_FORMULA = "confidence_formula"
"""Attribute of a bundle of answers: which function of the probabilities the log calls
confidence.
"""


class BundleGroup:
    """Datasets and attributes of the group of a bundle.

    name : of the bundle, for messages.
    """

    def __init__(self, node: Any, name: str, path: Path, layout: Layout) -> None:
        self.node = node
        self.name = name
        self.path = path
        self.layout = layout

    def find(self, path: str) -> h5py.Dataset | None:
        """Find a dataset and check that its data is complete.

        None if nothing has this name.
        """
        node = lookup(self.node, path)
        if node is None:
            return None
        if not isinstance(node, h5py.Dataset):
            raise DataError(
                f"{self.name}: {path} is a group, expected a dataset; rename it"
            )
        check_stored(node, self.where(node), external=self.layout.allow_external)
        return node

    def where(self, dataset: h5py.Dataset) -> str:
        """Location for messages: ``file: dataset``."""
        return f"{self.path}: {dataset.name.lstrip('/')}"

    def strings(self, path: str) -> list[str] | None:
        """Strings of a dataset; None if nothing has this name."""
        dataset = self.find(path)
        if dataset is None:
            return None
        where = self.where(dataset)
        return [] if dataset.shape is None else texts(read(dataset, (), where), where)

    def class_names(self, k: int) -> list[str] | None:
        """Names of k classes, None without any. Raises DataError."""
        names = self.strings("class_names")
        if names is None:
            return None
        if len(names) != k:
            raise DataError(
                f"{self.name}: class_names has {len(names)} entries, expected {k}, one"
                " per class"
            )
        if len(set(names)) == 1:
            raise DataError(
                f"{self.name}: all class_names are {names[0]!r}; name each class, or"
                " delete them"
            )
        return names

    def text_attribute(self, name: str) -> str | None:
        """Text of an attribute of the group; None where it has none."""
        value = self.node.attrs.get(name)
        return value if isinstance(value, str) else None

    @property
    def own_names(self) -> dict[str, list[str]]:
        """Original names of ids, groups, units and weights in the source of the bundle,
        if recorded.
        """
        try:
            recorded = json.loads(self.node.attrs.get(OWN_NAMES, "{}"))
            return {role: list(map(str, names)) for role, names in recorded.items()}
        except (TypeError, ValueError, AttributeError, RecursionError):
            return {}

    @property
    def zeros(self) -> Zeros | None:
        """What a probability of 0 counts as, as recorded; None where it is not."""
        return Zeros.recorded(self.node.attrs, self.name)

    @property
    def source(self) -> Any:
        """Origin of the scores, as recorded; None where it is not."""
        text = self.node.attrs.get("source")
        try:
            description = None if text is None else json.loads(text)
        except (TypeError, ValueError, RecursionError):
            return {"text": str(text)}
        if _depth(description) > DEEPEST:
            return {"text": str(text)}
        return description


def _depth(value: Any) -> int:
    """Nesting depth of a JSON value, without recursion, up to ``DEEPEST`` + 1."""
    level = [value]
    depth = 0
    while level and depth <= DEEPEST:
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        level = inner
        depth += 1
    return depth


class BundleColumns:
    """Columns of a bundle: datasets with one value per row.

    total : rows of the file. keep : mask of those that are kept, None for all.
    """

    def __init__(self, group: BundleGroup, total: int) -> None:
        self.group = group
        self.total = total
        self.keep: BoolArray | None = None

    # ---- by role

    def stored(self, role: str) -> AnyArray | None:
        """The column of a role for the kept rows; None if missing.

        Texts of whole numbers stay texts.
        """
        columns = {}
        for dataset_name, dataset in self.datasets(role).items():
            columns[dataset_name] = self._names_in(dataset, dataset_name, role)
        return intersections(columns) if columns else None

    def names(self, role: str) -> list[str]:
        """Names of the columns of a role in the source.

        Several in an order of their own, as that of ``intersections``.
        """
        named = self.group.layout.named.get(role)
        named = named or self.group.own_names.get(role, [role])
        return sorted(named) if len(named) > 1 else named

    def by_own_name(self, role: str) -> dict[str, AnyArray]:
        """Values of a column by its original name, or the columns that it is combined
        from by theirs; texts of whole numbers stay texts.
        """
        names = self.names(role)
        columns = {}
        for name in names:
            dataset = self.group.find(name)
            if dataset is not None:
                columns[name] = self._names_in(dataset, name, role)
        if len(names) > 1 and len(columns) == len(set(names)):
            return columns
        values = self.stored(role)
        return {} if values is None else {", ".join(names): values}

    def datasets(self, role: str) -> dict[str, h5py.Dataset]:
        """Find the datasets of a column, by original name: those named by the user,
        else the default one.
        """
        named = self.group.layout.named.get(role)
        if named is None:
            dataset = self.group.find(role)
            return {} if dataset is None else {role: dataset}
        recorded = {}
        for dataset_name, names in self.group.own_names.items():
            if len(names) == 1:
                recorded[names[0]] = dataset_name
        datasets = {}
        for name in named:
            dataset = self.group.find(name)
            dataset = dataset or self.group.find(recorded.get(name, name))
            if dataset is None:
                known = ", ".join(self._known_names()) or "none"
                raise DataError(
                    f"{self.group.name}: has no dataset {name!r}; one value per row"
                    f" have: {known}"
                )
            datasets[name] = dataset
        return datasets

    def _known_names(self) -> Sequence[str]:
        """Names of all datasets with one value per row, and their original names."""
        own_names = self.group.own_names
        known: list[str] = []
        for key in self.group.node:
            node = lookup(self.group.node, key)
            if getattr(node, "shape", None) == (self.total,):
                known += [str(key), *own_names.get(str(key), ())]
        return list(dict.fromkeys(known))

    def _names_in(
        self, dataset: h5py.Dataset, dataset_name: str, role: str
    ) -> AnyArray:
        """Values of a column: weights as numbers, all else as names."""
        values = self.values(dataset)
        if role == "weights":
            return values
        where = f"{self.group.name}: {dataset_name}"
        return names_of(values, NameColumn(where, role))

    # ---- by dataset

    @cached_property
    def beside(self) -> dict[str, h5py.Dataset]:
        """Datasets of strings or integers with one value per row, by name."""
        datasets = {}
        for name in map(str, self.group.node):
            with suppress(DataError):
                dataset = self.group.find(name)
                if dataset is None or dataset.shape != (self.total,):
                    continue
                if _has_words(dataset) or dataset.dtype.kind in "iu":
                    datasets[name] = dataset
        return datasets

    def values(self, dataset: h5py.Dataset, rows: slice = slice(None)) -> AnyArray:
        """Read numbers or strings of a column for those of the file's rows that are
        kept.
        """
        where = self.group.where(dataset)
        has_words = _has_words(dataset)
        if not has_words and dataset.dtype.kind not in "biuf":
            raise DataError(
                f"{where}: has type {dataset.dtype}, expected numbers or UTF-8 strings;"
                " rename it"
            )
        values: AnyArray = self.of_all_rows(dataset, rows)
        if has_words:
            values = np.array(texts(values, where), dtype=object)
        return values if self.keep is None else values[self.keep[rows]]

    def of_all_rows(self, dataset: h5py.Dataset, rows: slice = slice(None)) -> Any:
        """Read a dataset, of rows that are not kept, too."""
        self.check_length(dataset)
        return read(dataset, rows, self.group.where(dataset))

    def check_length(self, dataset: h5py.Dataset) -> None:
        """Raise DataError unless the dataset has one value per row."""
        if dataset.shape != (self.total,):
            expected = f"expected ({self.total},): one per row"
            where = self.group.where(dataset)
            raise DataError(f"{where}: has shape {dataset.shape}, {expected}")


def _has_words(dataset: h5py.Dataset) -> bool:
    return h5py.check_string_dtype(dataset.dtype) is not None
