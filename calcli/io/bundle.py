"""Bundles: scores with labels in an HDF5 group.

``open_bundle`` gives a ``BundleRows``, a ``Rows`` that streams from the file;
``calcli.io.writer`` writes new files.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from calcli.errors import DataError, UsageError
from calcli.io import validate
from calcli.io.artifact import Link
from calcli.io.cells import NameColumn, names_of, sortable
from calcli.io.dataset import CACHE_BYTES, DataSet
from calcli.io.hdf5 import (
    check_bundle_format,
    check_stored,
    lookup,
    names_in,
    open_file,
    read,
    texts,
)
from calcli.io.locate import (
    CALIBRATION,
    HELD_OUT,
    Layout,
    Location,
    choose_group,
    find_bundles,
    intersections,
    kinds_in,
    split_where,
)
from calcli.io.option_columns import (
    COLUMNS,
    N_OPTIONS,
    OPTIONS,
    check_n_options,
    log_probabilities,
    without_padding,
)
from calcli.io.provenance import chain_of
from calcli.io.spool import Unpacked, is_tall
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
from calcli.rows import SCORE_KINDS, Block, ScoreKind
from calcli.zeros import Zeros

DEEPEST = (
    50  # maximum nesting of the JSON in attribute source; each calibrator adds a level
)

UNPACKED_BYTES = 160 << 20
"""Maximum size of chunked scores kept in memory, as every pass looks up and unpacks
chunks again; contiguous scores (limit: ``CACHE_BYTES``) are read as fast as memory
is allocated.
"""

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

AT_ONCE = 1 << 20  # rows of labels read and checked at once


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
        self._layout = layout
        self.unit = layout.unit
        # A file name may not be valid UTF-8.
        shown = os.fsencode(path.name).decode("utf-8", "backslashreplace")
        self.name = f"{shown}:{group}" if group else shown
        self._node = lookup(file, group)
        check_bundle_format(self._node, self.name)
        self.ordered = validate.check_ordered(
            self._node.attrs.get("ordered"), self.name
        )
        self._scores, self.kind = self._find_scores(layout)
        self.scores_where = self._where(self._scores)
        self._wide = is_bfloat16(self._scores.dtype, self._scores.attrs.get("dtype"))
        dtype = np.dtype(np.float32) if self._wide else self._scores.dtype
        self.total, self.k = validate.check_shape(
            self._scores.shape, dtype, self.scores_where
        )
        if self.kind == "confidence":
            self.k = 1
            if self._scores.shape not in ((self.total,), (self.total, 1)):
                raise DataError(
                    f"{self.scores_where}: has shape {self._scores.shape}, expected"
                    " (rows,): one a row"
                )
        self.dtype = dtype.newbyteorder("=")
        self.n_options = self._find_n_options()
        self._stored_kind = self.kind
        if self.n_options is not None and self.kind == "probs":
            self.kind = "log_probs"
            self.dtype = np.dtype(np.float64)
        self.one_column = self._scores.shape in ((self.total,), (self.total, 1))
        self._zeros = self.recorded_zeros
        self._keep: BoolArray | None = None
        self._labels = self._find_labels(layout, ignore, need_labels)
        self.n = self.total if self._keep is None else int(self._keep.sum())
        self._given_weights: FloatArray | None = None
        weights = list(self._datasets("weights").values())
        if weights:
            w = validate.check_weights(
                self._read_column(weights[0]), self.total, self._where(weights[0])
            )
            self._given_weights = w if self._keep is None else w[self._keep]
        self._assigned: AnyArray | h5py.Dataset | None = None
        if (
            self.kind != "confidence"
            and (dataset := self._find("prediction")) is not None
        ):
            self._check_length(dataset)
            self._assigned = self._classes(
                dataset, f"{self.name}: prediction", what="prediction"
            )
        # Checked even if the command does not use them.
        for role in (
            "ids",
            "group",
            "unit",
        ):
            for column in (
                self._datasets(role).values()
                if isinstance(lookup(self._node, role), h5py.Dataset)
                else ()
            ):
                self._check_length(column)
                if column.dtype.kind == "f" and role != "group":
                    self.column(role)
        self.has_labels = self._labels is not None
        self.assigned = self._assigned is not None
        self.transforms = self._find_transforms()
        self._cache: AnyArray | None = None
        self._unpacked: Unpacked | None = None
        free = available_memory()
        most = UNPACKED_BYTES if free is None else min(UNPACKED_BYTES, free // 4)
        self.small = self.nbytes <= (
            max(CACHE_BYTES, most) if self._scores.chunks else CACHE_BYTES
        )

    @property
    def bundles_of_file(self) -> list[str]:
        """Groups of all bundles in the file of these rows; "" is the root."""
        return find_bundles(self._node.file)

    @property
    def location(self) -> Location:
        """These rows, with the other labelled splits of their file if the groups have
        usual names.

        A calibrator is fitted on the calibration split, even if it is these rows, when
        there is another to evaluate it on.
        """
        here = super().location
        folder, slash, last_name = self.group.rpartition("/")
        if (
            last_name not in (*CALIBRATION, *HELD_OUT)
            or not here.name
            or self._layout.scores is not None
        ):
            return here
        whole = here.name.removesuffix(last_name)
        alike = [
            f"{whole}{part}"
            for part in (*CALIBRATION, *HELD_OUT)
            if self._is_alike(f"{folder}{slash}{part}")
        ]
        others = [name for name in alike if name != here.name]
        held_out = [name for name in others if name.removeprefix(whole) in HELD_OUT]
        if last_name in CALIBRATION and held_out:
            return replace(here, to_fit=here.name, to_evaluate=held_out[0])
        return replace(
            here,
            to_fit=next(iter(others), ""),
            to_evaluate=next(iter([*held_out, *others]), ""),
        )

    def _is_alike(self, group: str) -> bool:
        """Return True if a group of the file holds labelled scores of the same kind and
        number of classes.
        """
        node = lookup(self._node.file, group)
        labels = "correct" if self.kind == "confidence" else "labels"
        if (
            not isinstance(node, h5py.Group)
            or kinds_in(node) != [self.kind]
            or lookup(node, labels) is None
        ):
            return False
        return bool(lookup(node, self.kind).shape[1:] == self._scores.shape[1:])

    # ---- what the group holds

    def _find(self, path: str) -> h5py.Dataset | None:
        """Find a dataset and check that its data is complete.

        None if nothing has this name.
        """
        node = lookup(self._node, path)
        if node is None:
            return None
        if not isinstance(node, h5py.Dataset):
            raise DataError(
                f"{self.name}: {path} is a group, expected a dataset; rename it"
            )
        check_stored(node, self._where(node), external=self._layout.allow_external)
        return node

    def _where(self, dataset: h5py.Dataset) -> str:
        return f"{self.path}: {dataset.name.lstrip('/')}"

    def _find_scores(self, layout: Layout) -> tuple[h5py.Dataset, ScoreKind]:
        present = kinds_in(self._node) if layout.scores is None else [layout.scores]
        if len(present) != 1:
            kinds = " and ".join(present) or "none"
            message = f"expected exactly one of {', '.join(SCORE_KINDS)}, found {kinds}"
            raise DataError(
                f"{self.name}: {message}; choose with --scores PATH --kind KIND"
            )
        path = present[0]
        name = present[0].rsplit("/", 1)[-1]
        if (
            layout.scores is not None
            and layout.kind is None
            and name not in SCORE_KINDS
        ):
            raise UsageError(
                f"--scores {path}: say what they are with --kind"
                f" {'|'.join(SCORE_KINDS)}"
            )
        if layout.scores is None and layout.kind is not None and name == "confidence":
            raise UsageError(
                f"--kind {layout.kind}: {self.name} holds confidences, no scores of"
                " classes"
            )
        dataset = self._find(path)
        if dataset is None:
            message = f"has no dataset {path!r}, it holds: {names_in(self._node)}"
            raise DataError(f"{self.name}: {message}; name another with --scores PATH")
        return dataset, validate.score_kind(layout.kind or name, confidence=True)

    def _find_n_options(self) -> IntArray | None:
        """Number of options of every row of the file; None where columns are classes.

        Raises DataError.
        """
        value = self._node.attrs.get(COLUMNS)
        if value is None:
            return None
        if value != OPTIONS:
            message = (
                f"attribute {COLUMNS} is {str(value)[:40]!r}, expected {OPTIONS!r}"
            )
            raise DataError(f"{self.name}: {message}; correct or delete it")
        dataset = self._find(N_OPTIONS)
        if dataset is None:
            message = f"its columns are options, and it has no dataset {N_OPTIONS}"
            raise DataError(f"{self.name}: {message}, the number of each row")
        where = self._where(dataset)
        return check_n_options(self._read_column(dataset), self.total, self.k, where)

    def _find_labels(
        self, layout: Layout, ignore: tuple[float, ...], needed: bool
    ) -> "AnyArray | h5py.Dataset | None":
        """Read labels of the rows kept; sets which rows are kept."""
        path = layout.labels or ("correct" if self.kind == "confidence" else "labels")
        dataset = self._find(path)
        if dataset is None:
            if needed or layout.labels is not None or ignore:
                what = (
                    "whether answers are right is"
                    if self.kind == "confidence"
                    else "labels are"
                )
                message = (
                    f"has no dataset {path!r}, and {what} needed here; it holds:"
                    f" {names_in(self._node)}"
                )
                raise DataError(f"{self.name}: {message}; name them with --labels PATH")
            return None
        where = self._where(dataset)
        if self.kind == "confidence":
            if ignore:
                raise UsageError(
                    f"--ignore-label: {self.name} holds confidences; calcli extract"
                    " can leave rows out"
                )
            return validate.check_correct(
                self._read_column(dataset), self.total, where
            ).astype(np.uint8)
        validate.check_label_shape(
            dataset.shape, dataset.dtype, self.total, self.k, where
        )
        return self._classes(dataset, where, ignore)

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
        small = np.min_scalar_type(self.k - 1)
        # Each read would unpack all of it.
        tall = dataset.chunks is not None and dataset.chunks[0] > AT_ONCE
        held = (
            tall
            or ignore
            or self._keep is not None
            or self.total * small.itemsize <= CACHE_BYTES
        )
        step = self.total if tall else AT_ONCE
        found = []
        stay = []
        for start in range(0, self.total, step):
            values = read(dataset, np.s_[start : start + step], where)
            values = (
                values
                if self._keep is None
                else values[self._keep[start : start + step]]
            )
            values = validate.check_labels(
                values, len(values), self.k, where, ignore, what, start
            )
            if ignore:
                stay.append(~validate.to_ignore(values, ignore))
                values = values[stay[-1]]
            if held:
                found.append(values.astype(small))
        if ignore and not all(map(np.all, stay)):
            self._keep = np.concatenate(stay)
            if not self._keep.any():
                raise DataError(
                    f"{self.scores_where}: every row has an ignored label, nothing is"
                    " left"
                )
        return np.concatenate(found) if held else dataset

    def _classes_at(
        self, source: "AnyArray | h5py.Dataset | None", start: int, stop: int
    ) -> IntArray | None:
        if source is None:
            return None
        return np.asarray(read(source, np.s_[start:stop], self.name)).astype(
            np.int64, copy=False
        )

    def _read_column(self, dataset: h5py.Dataset, rows: slice = slice(None)) -> Any:
        self._check_length(dataset)
        return read(dataset, rows, self._where(dataset))

    def _check_length(self, dataset: h5py.Dataset) -> None:
        if dataset.shape != (self.total,):
            shape = f"has shape {dataset.shape}, expected ({self.total},): one per row"
            raise DataError(f"{self._where(dataset)}: {shape}")

    def _find_transforms(self) -> tuple[str, ...]:
        data = self._find("transforms/logits")
        if data is None:
            return ()
        specs = self._strings("transforms/specs") or []
        expected = (len(specs), self.total, self.k)
        if data.shape != expected:
            message = (
                f"expected {expected}: {len(specs)} specs, and the same rows and"
                " classes as the scores"
            )
            raise DataError(
                f"{self.name}: transforms/logits has shape {data.shape}, {message}"
            )
        validate.check_type(data.dtype, self._where(data))
        self._moved = data
        return tuple(specs)

    def _strings(self, path: str) -> list[str] | None:
        dataset = self._find(path)
        if dataset is None:
            return None
        where = self._where(dataset)
        return [] if dataset.shape is None else texts(read(dataset, (), where), where)

    @property
    def class_names(self) -> list[str] | None:
        names = None if self.kind == "confidence" else self._strings("class_names")
        if names is not None and len(names) != self.k:
            raise DataError(
                f"{self.name}: class_names has {len(names)} entries, expected"
                f" {self.k}, one per class"
            )
        if names is not None and len(set(names)) == 1:
            raise DataError(
                f"{self.name}: all class_names are {names[0]!r}; name each class, or"
                " delete them"
            )
        return names

    def column(self, name: str) -> AnyArray | None:
        values = self.stored_column(name)
        return None if values is None else sortable(values)

    def stored_column(self, name: str) -> AnyArray | None:
        """A column as ``column`` gives it, but texts of whole numbers stay texts."""
        columns = {
            dataset_name: self._names_in(dataset, dataset_name, name)
            for dataset_name, dataset in self._datasets(name).items()
        }
        return intersections(columns) if columns else None

    def _names_in(
        self, dataset: h5py.Dataset, dataset_name: str, role: str
    ) -> AnyArray:
        """Values of a column: weights as numbers, all else as names."""
        values = self._column(dataset)
        if role == "weights":
            return values
        return names_of(values, NameColumn(f"{self.name}: {dataset_name}", role))

    def _names(self, role: str) -> list[str]:
        """Names of the columns of a role in the source.

        Several in an order of their own, as that of ``intersections``.
        """
        named = self._layout.named.get(role) or self.own_names.get(role, [role])
        return sorted(named) if len(named) > 1 else named

    def own_name(self, role: str) -> str:
        return ", ".join(self._names(role))

    def own_columns(self, role: str) -> dict[str, AnyArray]:
        """Values of a column by its original name, or the columns that it is combined
        from by theirs; texts of whole numbers stay texts.
        """
        names = self._names(role)
        columns = {}
        for name in names:
            dataset = self._find(name)
            if dataset is not None:
                columns[name] = self._names_in(dataset, name, role)
        if len(names) > 1 and len(columns) == len(set(names)):
            return columns
        values = self.stored_column(role)
        return {} if values is None else {", ".join(names): values}

    @cached_property
    def beside(self) -> dict[str, h5py.Dataset]:
        """Datasets of strings or integers with one value per row, by name."""
        datasets = {}
        for name in map(str, self._node):
            with suppress(DataError):
                dataset = self._find(name)
                words = (
                    dataset is not None
                    and h5py.check_string_dtype(dataset.dtype) is not None
                )
                if (
                    dataset is not None
                    and dataset.shape == (self.total,)
                    and (words or dataset.dtype.kind in "iu")
                ):
                    datasets[name] = dataset
        return datasets

    def beside_at(self, name: str, start: int, stop: int) -> AnyArray:
        """Read one dataset of ``beside`` for some rows. Raises DataError."""
        return self._column(self.beside[name], slice(*self._in_file(start, stop)))

    @property
    def own_names(self) -> dict[str, list[str]]:
        """Original names of ids, groups, units and weights in the source of the bundle,
        if recorded.
        """
        try:
            recorded = json.loads(self._node.attrs.get(OWN_NAMES, "{}"))
            return {
                str(role): [str(name) for name in names]
                for role, names in recorded.items()
            }
        except (TypeError, ValueError, AttributeError, RecursionError):
            return {}

    def _datasets(self, role: str) -> dict[str, h5py.Dataset]:
        """Find the datasets of a column, by original name: those named by the user,
        else the default one.
        """
        asked = self._layout.named.get(role)
        if asked is None:
            dataset = self._find(role)
            return {} if dataset is None else {role: dataset}
        recorded = {
            names[0]: dataset_name
            for dataset_name, names in self.own_names.items()
            if len(names) == 1
        }
        datasets = {}
        for name in asked:
            dataset = self._find(name) or self._find(recorded.get(name, name))
            if dataset is None:
                nodes = {str(key): lookup(self._node, key) for key in self._node}
                per_row = [
                    key
                    for key, node in nodes.items()
                    if getattr(node, "shape", None) == (self.total,)
                ]
                known = dict.fromkeys(
                    dataset_name
                    for key in per_row
                    for dataset_name in (key, *self.own_names.get(key, ()))
                )
                have = ", ".join(known) or "none"
                raise DataError(
                    f"{self.name}: has no dataset {name!r}; one value per row have:"
                    f" {have}"
                )
            datasets[name] = dataset
        return datasets

    def _column(self, dataset: h5py.Dataset, rows: slice = slice(None)) -> AnyArray:
        """Read numbers or strings of a column for those of the file's rows that are
        kept.
        """
        where = self._where(dataset)
        words = h5py.check_string_dtype(dataset.dtype) is not None
        if not words and dataset.dtype.kind not in "biuf":
            raise DataError(
                f"{where}: has type {dataset.dtype}, expected numbers or UTF-8"
                " strings; rename it"
            )
        values: AnyArray = self._read_column(dataset, rows)
        if words:
            values = np.array(texts(values, where), dtype=object)
        return values if self._keep is None else values[self._keep[rows]]

    @property
    def source(self) -> dict[str, Any] | None:
        text = self._node.attrs.get("source")
        try:
            description = json.loads(text) if text is not None else None
            return (
                description if _depth(description) <= DEEPEST else {"text": str(text)}
            )
        except (TypeError, ValueError, RecursionError):
            return {"text": str(text)}

    @cached_property
    def upstream(self) -> tuple[Link, ...]:
        return chain_of(self._node.attrs)

    @property
    def corrupted_labels(self) -> str | None:
        """Description of deliberately corrupted labels, as recorded in the bundle.

        None if there are none.
        """
        text = self._node.attrs.get("corrupted_labels")
        return text if isinstance(text, str) else None

    @property
    def recorded(self) -> list[str]:
        made = [] if self.corrupted_labels is None else [self.corrupted_labels[:200]]
        return [
            f"labels corrupted on purpose ({how}): numbers about them say nothing"
            " about the model"
            for how in made
        ]

    def text_attribute(self, name: str) -> str | None:
        """Text of an attribute of the group; None where it has none."""
        value = self._node.attrs.get(name)
        return value if isinstance(value, str) else None

    # ---- rows

    def labels_at(self, start: int, stop: int) -> IntArray:
        labels = self._classes_at(self._labels, start, stop)
        assert labels is not None, "opened without need of labels"
        return labels

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
        if self._keep is None:
            return start, stop
        if (start, stop) == (0, self.n):
            return 0, self.total
        low, high = np.flatnonzero(self._keep)[[start, stop - 1]] + (0, 1)
        return int(low), int(high)

    def _piece(
        self, first_row: int, start: int, stop: int, transforms: Sequence[int]
    ) -> Block:
        """Read rows of the file as a block; the first one kept is row ``at``."""
        slab = (
            self._checked(start, stop)
            if self._cache is None
            else self._cache[start:stop]
        )
        under = []
        for index in transforms:
            where = (
                f"{self.path}: transforms/logits[{index}] ({self.transforms[index]})"
            )
            raw = read(self._moved, np.s_[index, start:stop], where)
            under.append(validate.check_scores(raw, "logits", where, start))
        if self._keep is not None:
            keep = self._keep[start:stop]
            slab = slab[keep]
            under = [scores[keep] for scores in under]
        end = first_row + len(slab)
        labels, assigned = (
            self._classes_at(source, first_row, end)
            for source in (self._labels, self._assigned)
        )
        moved = np.stack(under) if under else None
        return Block(
            first_row,
            slab,
            self.kind,
            labels,
            transformed=moved,
            assigned=assigned,
            of_options=self.n_options is not None,
        )

    def _checked(self, start: int, stop: int) -> AnyArray:
        if self._cache is None and not self.small and is_tall(self._scores):
            self._unpacked = self._unpacked or Unpacked(self._scores, self.scores_where)
            raw = self._unpacked.rows(start, stop)
        else:
            raw = read(self._scores, np.s_[start:stop], self.scores_where)
        raw = (
            bfloat16_to_float32(raw)
            if self._wide
            else raw.astype(self.dtype, copy=False)
        )
        if self.kind == "confidence":
            return validate.check_confidences(raw, self.scores_where, start)
        if self.n_options is not None:
            n_options = self.n_options[start:stop]
            raw = self._options(raw, n_options, start)
        return validate.check_scores(
            raw, self.kind, self.scores_where, start, self.recorded_zeros
        )

    @property
    def zeros_of_options(self) -> Zeros | None:
        """Resolution of the probabilities of options, whose logarithms are stored."""
        return Zeros.recorded(self._node.attrs, self.name)

    def _options(self, raw: AnyArray, n_options: IntArray, start: int) -> AnyArray:
        """Scores of options, ``PADDING`` where a row has none.

        Probabilities become logarithms: their padding is no zero that was rounded.
        """
        kind = self._stored_kind
        filled = without_padding(raw, n_options, kind, self.scores_where, start)
        if kind != "probs":
            return filled
        validate.check_scores(filled, kind, self.scores_where, start)
        logs = log_probabilities(filled.astype(np.float64), n_options)
        return without_padding(logs, n_options, "log_probs", self.scores_where, start)

    @cached_property
    def recorded_zeros(self) -> Zeros | None:
        """Resolution of the probabilities, as the bundle's attributes record it.

        None where they do not. Raises DataError.
        """
        if self.kind not in ("probs", "confidence"):
            return None
        zeros = Zeros.recorded(self._node.attrs, self.name)
        return None if zeros is None else zeros.of_classes(self.k, self.name)
