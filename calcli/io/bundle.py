"""Bundles: scores with labels in an HDF5 group.

``open_bundle`` gives a ``BundleRows``, a ``Rows`` that streams from the file;
``calcli.io.writer`` writes new files.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from calcli.block import Block
from calcli.errors import InvalidRows
from calcli.io import validate
from calcli.io.artifact import Artifact, Link
from calcli.io.bundle_group import BundleColumns, BundleGroup
from calcli.io.bundle_labels import BundleLabels, StoredClasses
from calcli.io.bundle_scores import BundleScores, TransformedScores, most_in_memory
from calcli.io.cells import sortable
from calcli.io.dataset import DataSet
from calcli.io.hdf5 import (
    check_bundle_format,
    lookup,
    open_file,
    read,
)
from calcli.io.locate import (
    Layout,
    Location,
    choose_group,
    find_bundles,
    split_where,
)
from calcli.io.option_columns import (
    COLUMNS,
    N_OPTIONS,
    OPTIONS,
    check_n_options,
)
from calcli.io.provenance import chain_of, last_calibrator
from calcli.io.splits_beside import with_splits_beside
from calcli.numerics import (
    AnyArray,
    FloatArray,
    IntArray,
)
from calcli.records import cached_property
from calcli.zeros import Zeros


@contextmanager
def open_bundle(
    where: str,
    *,
    prefer: Sequence[str] = (),
    layout: Layout = Layout(),
    ignore_labels: Sequence[float] = (),
    need_labels: bool = True,
) -> Iterator["BundleRows"]:
    """Open ``FILE.h5`` or ``FILE.h5:GROUP`` as rows.

    prefer : groups to choose, in order, if several bundles exist and none is named.
    ignore_labels : rows with these labels are left out and counted. Raises DataError
    for anything that is not a valid bundle.
    """
    path, group = split_where(where)
    with open_file(path) as file:
        name = choose_group(file, path, group, prefer, layout)
        yield BundleRows(file, path, name, layout, tuple(ignore_labels), need_labels)


class BundleRows(DataSet):
    """Rows of one bundle, read in slabs.

    Small bundles stay in memory after the first pass. assigned : whether the bundle
    holds predictions.
    """

    def __init__(
        self,
        file: h5py.File,
        path: Path,
        group: str,
        layout: Layout,
        ignore: tuple[float, ...],
        need_labels: bool,
    ) -> None:
        self.path = path
        self.group = group
        self.unit = layout.unit
        # A file name may not be valid UTF-8.
        shown = os.fsencode(path.name).decode("utf-8", "backslashreplace")
        self.name = f"{shown}:{group}" if group else shown
        self._group = BundleGroup(lookup(file, group), self.name, path, layout)
        check_bundle_format(self._group.node, self.name)
        is_ordered = self._group.node.attrs.get(validate.ORDERED)
        self.ordered = validate.check_ordered(is_ordered, self.name)
        self._scores = BundleScores(self._group, group)
        self.total = self._scores.total
        self.k = self._scores.k
        self.one_column = self._scores.one_column
        self._columns = BundleColumns(self._group, self.total)
        self.n_options = self._find_n_options()
        if self.n_options is not None:
            self._scores.take_options(self.n_options)
        self.kind = self._scores.kind
        self.dtype = self._scores.dtype
        self._zeros = self.recorded_zeros
        classes = BundleLabels(self._group, self._scores, self._columns)
        self._labels = classes.labels(ignore, need_labels)
        self.has_labels = self._labels is not None
        keep = self._columns.keep
        self.n = self.total if keep is None else int(keep.sum())
        self._given_weights = self._find_weights()
        self._assigned = classes.predictions()
        self.assigned = self._assigned is not None
        self._check_columns()
        self._transformed = TransformedScores(self._group, self.total, self.k)
        self.transforms = self._transformed.specs
        self.small = self.nbytes <= most_in_memory(self._scores.dataset)

    @property
    def small(self) -> bool:
        """True if the scores stay in memory after the first pass."""
        return self._scores.small

    @small.setter
    def small(self, is_small: bool) -> None:
        self._scores.small = is_small

    @property
    def bundles_of_file(self) -> list[str]:
        """Groups of all bundles in the file of these rows; "" is the root."""
        return find_bundles(self._group.node.file)

    @property
    def location(self) -> Location:
        """These rows, with the other labelled splits of their file."""
        here = super().location
        if not here.name or self._group.layout.scores is not None:
            return here
        file = self._group.node.file
        shape = self._scores.dataset.shape
        return with_splits_beside(here, file, self.group, self.kind, shape)

    # ---- what the group holds

    def _find_n_options(self) -> IntArray | None:
        """Number of options of every row of the file; None where columns are classes.

        Raises DataError.
        """
        value = self._group.node.attrs.get(COLUMNS)
        if value is None:
            return None
        if value != OPTIONS:
            raise InvalidRows(
                f"{self.name}: attribute {COLUMNS}"
                f" is {str(value)[:40]!r}, expected {OPTIONS!r}; correct or delete it"
            )
        dataset = self._group.find(N_OPTIONS)
        if dataset is None:
            raise InvalidRows(
                f"{self.name}: its columns are options, and it has no"
                f" dataset {N_OPTIONS}, the number of each row"
            )
        n_options = self._columns.of_all_rows(dataset)
        where = self._group.where(dataset)
        return check_n_options(n_options, self.total, self.k, where)

    @property
    def n_options_kept(self) -> IntArray | None:
        """Number of options of every row kept, (n,); None where columns are classes."""
        keep = self._columns.keep
        if self.n_options is None or keep is None:
            return self.n_options
        return self.n_options[keep]

    def _find_weights(self) -> FloatArray | None:
        datasets = list(self._columns.datasets("weights").values())
        if not datasets:
            return None
        values = self._columns.of_all_rows(datasets[0])
        where = self._group.where(datasets[0])
        weights = validate.check_weights(values, self.total, where)
        keep = self._columns.keep
        return weights if keep is None else weights[keep]

    def _check_columns(self) -> None:
        """Check the columns of ids, groups and units, even if they are not used."""
        for role in ("ids", "group", "unit"):
            if not isinstance(lookup(self._group.node, role), h5py.Dataset):
                continue
            for dataset in self._columns.datasets(role).values():
                self._columns.check_length(dataset)
                if dataset.dtype.kind == "f" and role != "group":
                    self.column(role)

    @property
    def class_names(self) -> list[str] | None:
        return None if self.kind == "confidence" else self._group.class_names(self.k)

    def column(self, name: str) -> AnyArray | None:
        values = self.stored_column(name)
        return None if values is None else sortable(values)

    def stored_column(self, name: str) -> AnyArray | None:
        """A column as ``column`` gives it, but texts of whole numbers stay texts."""
        return self._columns.stored(name)

    def own_name(self, role: str) -> str:
        return ", ".join(self._columns.names(role))

    def own_columns(self, role: str) -> dict[str, AnyArray]:
        """Values of a column by its original name (see ``BundleColumns``)."""
        return self._columns.by_own_name(role)

    @property
    def own_names(self) -> dict[str, list[str]]:
        """Original names of columns in the source of the bundle, if recorded."""
        return self._group.own_names

    @property
    def beside(self) -> dict[str, h5py.Dataset]:
        """Datasets of strings or integers with one value per row, by name."""
        return self._columns.beside

    def beside_at(self, name: str, start: int, stop: int) -> AnyArray:
        """Read one dataset of ``beside`` for some rows. Raises DataError."""
        rows = slice(*self._in_file(start, stop))
        return self._columns.values(self.beside[name], rows)

    @property
    def source(self) -> dict[str, Any] | None:
        return self._group.source

    @cached_property
    def upstream(self) -> tuple[Link, ...]:
        return chain_of(self._group.node.attrs)

    @cached_property
    def last_calibrator(self) -> Artifact | None:
        return last_calibrator(self._group.node.attrs)

    @property
    def corrupted_labels(self) -> str | None:
        """Description of deliberately corrupted labels, as recorded in the bundle.

        None if there are none.
        """
        return self.text_attribute("corrupted_labels")

    @property
    def recorded(self) -> list[str]:
        how = self.corrupted_labels
        if how is None:
            return []
        message = f"labels corrupted on purpose ({how[:200]})"
        return [f"{message}: numbers about them say nothing about the model"]

    def text_attribute(self, name: str) -> str | None:
        """Text of an attribute of the group; None where it has none."""
        return self._group.text_attribute(name)

    @property
    def zeros_of_options(self) -> Zeros | None:
        """Resolution of the probabilities of options, whose logarithms are stored."""
        return self._group.zeros

    @property
    def recorded_zeros(self) -> Zeros | None:
        """Resolution of the probabilities, as the bundle's attributes record it."""
        return self._scores.recorded_zeros

    # ---- rows

    def labels_at(self, start: int, stop: int) -> IntArray:
        labels = self._classes_at(self._labels, start, stop)
        assert labels is not None, "opened without need of labels"
        return labels

    def _classes_at(
        self, source: StoredClasses | None, start: int, stop: int
    ) -> IntArray | None:
        """Labels or predictions of some rows; None where there are none."""
        if source is None:
            return None
        values = np.asarray(read(source, np.s_[start:stop], self.name))
        return values.astype(np.int64, copy=False)

    @property
    def given_weights(self) -> FloatArray | None:
        return self._given_weights

    def pieces(
        self, transforms: Sequence[int], rows: int, start: int, stop: int
    ) -> Iterator[Block]:
        self._scores.hold()
        height = self._scores.chunk_rows
        if height is not None:
            # Whole chunks, so that each is decompressed once per pass.
            rows = max(1, rows // height) * height
        first, last = self._in_file(start, stop)
        for low in range(first // rows * rows, last, rows):
            piece = self._piece(
                start, max(low, first), min(low + rows, last), transforms
            )
            yield piece
            start += len(piece)

    def _in_file(self, start: int, stop: int) -> tuple[int, int]:
        """Map a range of kept rows to a range in the file.

        For all rows, include ignored ones at both ends.
        """
        keep = self._columns.keep
        if keep is None:
            return start, stop
        if (start, stop) == (0, self.n):
            return 0, self.total
        low, high = np.flatnonzero(keep)[[start, stop - 1]] + (0, 1)
        return int(low), int(high)

    def _piece(
        self, first_row: int, start: int, stop: int, transforms: Sequence[int]
    ) -> Block:
        """Read rows of the file as a block; the first one kept is row ``first_row``."""
        scores = self._scores.rows(start, stop)
        transformed = self._transformed.rows(start, stop, transforms)
        if self._columns.keep is not None:
            keep = self._columns.keep[start:stop]
            scores = scores[keep]
            if transformed is not None:
                transformed = transformed[:, keep]
        end = first_row + len(scores)
        return Block(
            first_row,
            scores,
            self.kind,
            self._classes_at(self._labels, first_row, end),
            transformed=transformed,
            assigned=self._classes_at(self._assigned, first_row, end),
            of_options=self.n_options is not None,
        )
