"""Bundles: scores with labels in an HDF5 group.

``open_bundle`` gives a ``BundleRows``, a ``Rows`` that streams from the file;
``calcli.io.writer`` writes new files.
"""

import os
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from calcli.block import Block, rows_of_column
from calcli.errors import DataError, InvalidRows, SaysHow, UsageError
from calcli.io import validate
from calcli.io.artifact import Artifact, Link
from calcli.io.bundle_group import BundleColumns, BundleGroup
from calcli.io.cells import sortable
from calcli.io.dataset import CACHE_BYTES, DataSet
from calcli.io.hdf5 import (
    check_bundle_format,
    lookup,
    names_in,
    open_file,
    read,
)
from calcli.io.locate import (
    Layout,
    Location,
    NoBundles,
    choose_group,
    find_bundles,
    kinds_in,
    split_where,
)
from calcli.io.option_columns import (
    COLUMNS,
    N_OPTIONS,
    OPTIONS,
    check_n_options,
    holding_padding,
    scores_in_memory,
)
from calcli.io.provenance import chain_of, last_calibrator
from calcli.io.splits_beside import with_splits_beside
from calcli.io.tall_chunks import UnpackedScores, is_tall
from calcli.numerics import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    bfloat16_to_float32,
    is_bfloat16,
)
from calcli.parallel import available_memory
from calcli.records import cached_property
from calcli.rows import SCORE_KINDS, ScoreKind
from calcli.zeros import Zeros

UNPACKED_BYTES = 160 << 20
"""Maximum size of chunked scores kept in memory, as every pass looks up and unpacks
chunks again; contiguous scores (limit: ``CACHE_BYTES``) are read as fast as memory
is allocated.
"""

QUESTION = "question"
"""Attribute of a bundle of answers: the name of the question, as the log has it."""

QUESTION_TYPE = "question_type"
"""Attribute of a bundle of answers: yes/no, choice or score."""

CONFIDENCE_FORMULA = "confidence_formula"
"""Attribute of a bundle of answers: which function of the probabilities the log calls
confidence.
"""

AT_ONCE = 1 << 20  # rows of labels read and checked at once


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

    Small bundles stay in memory after the first pass. small : whether the scores stay
    in memory. assigned : whether the bundle holds predictions.
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
        self._take_scores()
        self._columns = BundleColumns(self._group, self.total)
        self.n_options = self._find_n_options()
        self._stored_kind = self.kind
        if self.n_options is not None and self.kind == "probs":
            self.kind = "log_probs"
            self.dtype = np.dtype(np.float64)
        elif self.n_options is not None:
            self.dtype = holding_padding(self.dtype)
        self._zeros = self.recorded_zeros
        self._labels = self._find_labels(ignore, need_labels)
        self.has_labels = self._labels is not None
        keep = self._columns.keep
        self.n = self.total if keep is None else int(keep.sum())
        self._given_weights = self._find_weights()
        self._assigned = self._find_predictions()
        self.assigned = self._assigned is not None
        self._check_columns()
        self.transforms = self._find_transforms()
        self._cache: AnyArray | None = None
        self._unpacked: UnpackedScores | None = None
        self.small = self.nbytes <= _most_in_memory(self._scores)

    def _take_scores(self) -> None:
        """Find the scores, their kind, shape and type. Raises DataError, UsageError."""
        self._scores, self.kind = self._find_scores()
        shape = self._scores.shape
        self.scores_where = self._group.where(self._scores)
        declared = self._scores.attrs.get("dtype")
        self._is_bfloat16 = is_bfloat16(self._scores.dtype, declared)
        dtype = np.dtype(np.float32) if self._is_bfloat16 else self._scores.dtype
        self.total, self.k = validate.check_shape(shape, dtype, self.scores_where)
        self.dtype = dtype.newbyteorder("=")
        self.one_column = shape in ((self.total,), (self.total, 1))
        if self.kind != "confidence":
            return
        self.k = 1
        if not self.one_column:
            raise InvalidRows(
                f"{self.scores_where}: has shape {shape}, expected (rows,): one a row"
            )

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
        shape = self._scores.shape
        return with_splits_beside(here, file, self.group, self.kind, shape)

    # ---- what the group holds

    def _find_scores(self) -> tuple[h5py.Dataset, ScoreKind]:
        """The dataset of the scores, and their kind, as named or as the only one."""
        layout = self._group.layout
        present = kinds_in(self._group.node)
        if layout.scores is not None:
            present = [layout.scores]
        if len(present) != 1:
            expected = f"{self.name}: expected exactly one of {', '.join(SCORE_KINDS)}"
            if not present:
                raise DataError(
                    f"{expected}, found none; choose with --scores PATH --kind KIND"
                )
            raise SaysHow(
                f"{expected}, found {' and '.join(present)}; choose one, as with"
                f" --scores {present[0]}"
            )
        path = present[0]
        name = path.rpartition("/")[2]
        if layout.scores is None:
            if layout.kind is not None and name == "confidence":
                raise UsageError(
                    f"--kind {layout.kind}: {self.name} holds confidences, no scores of"
                    " classes"
                )
        elif layout.kind is None and name not in SCORE_KINDS:
            # An import looks at the values.
            raise NoBundles(
                f"--scores {path}: say what they are with"
                f" --kind {'|'.join(SCORE_KINDS)}"
            )
        dataset = self._group.find(path)
        if dataset is None:
            listing = names_in(self._group.node)
            raise DataError(
                f"{self.name}: has no dataset {path!r}, it holds: {listing}; name"
                " another with --scores PATH"
            )
        return dataset, validate.score_kind(layout.kind or name, confidence=True)

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

    def _find_labels(
        self, ignore: tuple[float, ...], are_needed: bool
    ) -> "AnyArray | h5py.Dataset | None":
        """Labels of the rows kept; sets which rows are kept."""
        named = self._group.layout.labels
        is_confidence = self.kind == "confidence"
        path = named or ("correct" if is_confidence else "labels")
        dataset = self._group.find(path)
        if dataset is None:
            if not (are_needed or named is not None or ignore):
                return None
            what = "whether answers are right is" if is_confidence else "labels are"
            listing = names_in(self._group.node)
            if self._group.layout.scores is not None and named is None:
                # An import finds labels of other names beside these scores.
                raise NoBundles(f"{self.name}: has no dataset {path!r}")
            raise InvalidRows(
                f"{self.name}: has no dataset {path!r}, and {what} needed here; it"
                f" holds: {listing}; name them with --labels PATH",
                no_command="nothing says which array they are",
            )
        where = self._group.where(dataset)
        if not is_confidence:
            shape = dataset.shape
            dtype = dataset.dtype
            validate.check_label_shape(shape, dtype, self.total, self.k, where)
            return self._classes(dataset, where, ignore)
        if ignore:
            raise UsageError(
                f"--ignore-label: {self.name} holds confidences; calcli extract can"
                " leave rows out"
            )
        outcomes = self._columns.of_all_rows(dataset)
        correct = validate.check_correct(outcomes, self.total, where)
        return correct.astype(np.uint8)

    def _find_weights(self) -> FloatArray | None:
        datasets = list(self._columns.datasets("weights").values())
        if not datasets:
            return None
        values = self._columns.of_all_rows(datasets[0])
        where = self._group.where(datasets[0])
        weights = validate.check_weights(values, self.total, where)
        keep = self._columns.keep
        return weights if keep is None else weights[keep]

    def _find_predictions(self) -> "AnyArray | h5py.Dataset | None":
        """Predictions that the bundle holds; None without any."""
        if self.kind == "confidence":
            return None
        dataset = self._group.find("prediction")
        if dataset is None:
            return None
        self._columns.check_length(dataset)
        return self._classes(dataset, f"{self.name}: prediction", what="prediction")

    def _check_columns(self) -> None:
        """Check the columns of ids, groups and units, even if they are not used."""
        for role in ("ids", "group", "unit"):
            if not isinstance(lookup(self._group.node, role), h5py.Dataset):
                continue
            for dataset in self._columns.datasets(role).values():
                self._columns.check_length(dataset)
                if dataset.dtype.kind == "f" and role != "group":
                    self.column(role)

    def _classes(
        self,
        dataset: h5py.Dataset,
        where: str,
        ignore: tuple[float, ...] = (),
        what: str = "label",
    ) -> "AnyArray | h5py.Dataset":
        """Check labels or predictions of the rows kept.

        Returns an array, or the dataset itself if it is too large to hold. Sets which
        rows are kept if labels are to be ignored. Raises DataError.
        """
        smallest_type = np.min_scalar_type(self.k - 1)
        known_keep = self._columns.keep
        # Each read would unpack all of it.
        is_tall = dataset.chunks is not None and dataset.chunks[0] > AT_ONCE
        is_small = self.total * smallest_type.itemsize <= CACHE_BYTES
        stays_in_memory = is_tall or bool(ignore) or known_keep is not None or is_small
        step = self.total if is_tall else AT_ONCE
        checked = []
        masks = []
        for start in range(0, self.total, step):
            rows = slice(start, start + step)
            values = read(dataset, rows, where)
            n_options = rows_of_column(self.n_options, rows)
            if known_keep is not None:
                values = values[known_keep[rows]]
                n_options = rows_of_column(n_options, known_keep[rows])
            values = validate.check_labels(
                values, len(values), self.k, where, ignore, what, start
            )
            if n_options is not None:
                validate.check_places(values, n_options, where, ignore, what, start)
            if ignore:
                mask = ~validate.to_ignore(values, ignore)
                masks.append(mask)
                values = values[mask]
            if stays_in_memory:
                checked.append(values.astype(smallest_type))
        if ignore:
            self._keep(np.concatenate(masks))
        if stays_in_memory:
            return np.concatenate(checked)
        return dataset

    def _keep(self, mask: BoolArray) -> None:
        """Set which rows are kept, unless all are. Raises InvalidRows for none."""
        if mask.all():
            return
        self._columns.keep = mask
        if not mask.any():
            raise InvalidRows(
                f"{self.scores_where}: every row has an ignored label, nothing is left"
            )

    def _find_transforms(self) -> tuple[str, ...]:
        """Names of the transforms under which the bundle has scores, too."""
        transformed = self._group.find("transforms/logits")
        if transformed is None:
            return ()
        specs = self._group.strings("transforms/specs") or []
        expected = (len(specs), self.total, self.k)
        if transformed.shape != expected:
            raise InvalidRows(
                f"{self.name}: transforms/logits has shape {transformed.shape},"
                f" expected {expected}: {len(specs)} specs, and the same rows and"
                " classes as the scores"
            )
        validate.check_type(transformed.dtype, self._group.where(transformed))
        self._transformed = transformed
        return tuple(specs)

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

    @cached_property
    def recorded_zeros(self) -> Zeros | None:
        """Resolution of the probabilities, as the bundle's attributes record it.

        None where they do not. Raises DataError.
        """
        if self.kind not in ("probs", "confidence"):
            return None
        zeros = self._group.zeros
        return None if zeros is None else zeros.of_classes(self.k, self.name)

    # ---- rows

    def labels_at(self, start: int, stop: int) -> IntArray:
        labels = self._classes_at(self._labels, start, stop)
        assert labels is not None, "opened without need of labels"
        return labels

    def _classes_at(
        self, source: "AnyArray | h5py.Dataset | None", start: int, stop: int
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
        if self.small and self._cache is None:
            self._cache = self._checked(0, self.total)
            self._cache.flags.writeable = False
        if self._scores.chunks and self._cache is None and not is_tall(self._scores):
            # Whole chunks, so that each is decompressed once per pass.
            height = self._scores.chunks[0]
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
        if self._cache is None:
            scores = self._checked(start, stop)
        else:
            scores = self._cache[start:stop]
        transformed = self._transformed_at(start, stop, transforms)
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

    def _transformed_at(
        self, start: int, stop: int, transforms: Sequence[int]
    ) -> AnyArray | None:
        """Scores (m, b, k) of some rows of the file under m transforms."""
        if not transforms:
            return None
        checked = []
        for index in transforms:
            spec = self.transforms[index]
            where = f"{self.path}: transforms/logits[{index}] ({spec})"
            scores = read(self._transformed, np.s_[index, start:stop], where)
            checked.append(validate.check_scores(scores, "logits", where, start))
        return np.stack(checked)

    def _checked(self, start: int, stop: int) -> AnyArray:
        """Scores of some rows of the file, checked."""
        scores = self._stored_scores(start, stop)
        if self.kind == "confidence":
            return validate.check_confidences(scores, self.scores_where, start)
        if self.n_options is not None:
            n_options = self.n_options[start:stop]
            where = self.scores_where
            scores = scores_in_memory(
                scores, n_options, self._stored_kind, where, start
            )
        try:
            return validate.check_scores(
                scores, self.kind, self.scores_where, start, self.recorded_zeros
            )
        except validate.MissingScore as problem:
            if posixpath.basename(self._scores.name) != self.kind:
                raise  # names of its own, which the command would need too
            raise problem.advising(self._without_missing_rows()) from None

    def _without_missing_rows(self) -> list[str]:
        """Command that writes this bundle without the rows that lack a score."""
        command = ["calcli", "extract", str(self.path)]
        if self.group:
            command += ["--part", self.group]
        return [*command, "--drop-missing", "-o", f"{self.path.stem}.complete.h5"]

    def _stored_scores(self, start: int, stop: int) -> AnyArray:
        """Scores of some rows as the file holds them; bfloat16 becomes float32."""
        if self._cache is None and not self.small and is_tall(self._scores):
            self._unpacked = self._unpacked or UnpackedScores(
                self._scores, self.scores_where
            )
            scores = self._unpacked.rows(start, stop)
        else:
            scores = read(self._scores, np.s_[start:stop], self.scores_where)
        if self._is_bfloat16:
            return bfloat16_to_float32(scores)
        return scores.astype(self.dtype, copy=False)


def _most_in_memory(scores: h5py.Dataset) -> int:
    """Bytes up to which scores are kept in memory."""
    if not scores.chunks:
        return CACHE_BYTES
    free = available_memory()
    most = UNPACKED_BYTES
    if free is not None:
        most = min(most, free // 4)
    return max(CACHE_BYTES, most)
