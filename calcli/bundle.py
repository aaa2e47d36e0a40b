"""Bundles: scores with labels in an HDF5 group. The only module that uses h5py.

``open_bundle`` gives a ``BundleRows``, which is a ``Rows`` like any other and streams;
``BundleWriter`` makes a new file.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError, UsageError
from calcli.files import atomic_path
from calcli.numerics import FloatArray, IntArray
from calcli.rows import BLOCK_BYTES, SCORE_KINDS, Block, Rows, ScoreKind
from calcli.validate import check_labels, check_scores, check_shape, check_weights, score_kind

__all__ = ["BundleRows", "BundleWriter", "GroupWriter", "Layout", "find_bundles", "open_bundle", "split_where"]

SLAB_BYTES = 4 << 20
"""How much of a file is read at once."""

CACHE_BYTES = 32 << 20
"""Scores up to this size are read once and kept."""


@dataclass(frozen=True)
class Layout:
    """Where things lie in a file that is not laid out as a bundle.

    scores, labels : paths of datasets, from the group named or the root. kind : what the
    scores are; needed when the dataset's name does not say it.
    """

    scores: str | None = None
    labels: str | None = None
    kind: str | None = None


def split_where(where: str) -> tuple[Path, str | None]:
    """Split ``FILE.h5:GROUP`` into the file and the group, None when no group is named."""
    if ":" not in where or Path(where).exists():
        return Path(where), None
    path, _, group = where.rpartition(":")
    # A Windows drive letter is not a file with a group.
    if len(path) == 1 and path.isalpha():
        return Path(where), None
    return Path(path), group.strip("/")


@contextmanager
def open_file(path: Path) -> Iterator[h5py.File]:
    """Open an HDF5 file for reading. Raises DataError for a file that is missing or no HDF5."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder, expected an HDF5 file")
    if not path.exists():
        raise DataError(f"{path}: no such file; calcli extract makes bundles from other formats")
    try:
        if not h5py.is_hdf5(path):
            raise DataError(
                f"{path}: is not an HDF5 file (or is cut off at its start);"
                f" calcli extract {path.name} -o {path.stem}.h5 imports other formats"
            )
        try:
            file = h5py.File(path, "r")
        except OSError as problem:
            if "lock" not in str(problem):
                raise
            file = h5py.File(path, "r", locking=False)  # network file systems without locks
    except OSError as problem:
        raise DataError(f"{path}: cannot be read as HDF5: {_one_line(problem)}; is it complete?") from None
    with file:
        try:
            yield file
        except (OSError, RuntimeError, KeyError) as problem:
            # h5py reports a dataset cut off in the middle only when it is read.
            if not _from_hdf5(problem):
                raise
            raise DataError(f"{path}: reading failed: {_one_line(problem)}; is the file complete?") from None


def _from_hdf5(problem: BaseException) -> bool:
    text = str(problem).lower()
    return any(word in text for word in ("synchronously", "hdf5", "truncated", "object header", "b-tree", "address"))


def _one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split())


def find_bundles(file: h5py.File) -> list[str]:
    """Paths of all groups that hold scores by their standard names; "" is the root."""
    found: list[str] = []

    def visit(name: str, group: h5py.Group) -> None:
        if any(isinstance(group.get(kind), h5py.Dataset) for kind in SCORE_KINDS):
            found.append(name)
        for key in group:
            if key != "transforms" and isinstance(group.get(key, getlink=True), h5py.HardLink):
                child = group[key]
                if isinstance(child, h5py.Group):
                    visit(f"{name}/{key}".strip("/"), child)

    visit("", file)
    return found


def _choose_group(file: h5py.File, path: Path, group: str | None, prefer: Sequence[str], layout: Layout) -> str:
    if group is not None:
        if group and not isinstance(file.get(group), h5py.Group):
            have = ", ".join(f"{path.name}:{name}" for name in find_bundles(file)) or "none"
            raise DataError(f"{path}: has no group {group!r}; bundles in it: {have}")
        return group
    if layout.scores is not None:
        return ""
    bundles = find_bundles(file)
    if len(bundles) == 1:
        return bundles[0]
    for name in prefer:
        if name in bundles:
            return name
    if bundles:
        listing = ", ".join(f"{path.name}:{name}" if name else path.name for name in bundles)
        raise DataError(f"{path}: holds {len(bundles)} bundles, name one of: {listing}")
    datasets: list[str] = []
    file.visititems(lambda name, node: datasets.append(name) if isinstance(node, h5py.Dataset) else None)
    raise DataError(
        f"{path}: holds no dataset named {', '.join(SCORE_KINDS)} (it has: {', '.join(datasets[:12]) or 'nothing'});"
        " name yours with --scores PATH --labels PATH --kind KIND"
    )


@contextmanager
def open_bundle(
    where: str,
    *,
    prefer: Sequence[str] = (),
    layout: Layout = Layout(),
    ignore_labels: Sequence[int] = (),
    need_labels: bool = True,
) -> Iterator["BundleRows"]:
    """Open ``FILE.h5`` or ``FILE.h5:GROUP`` as rows.

    prefer : groups to take, in order, when the file holds several bundles and none is
    named. ignore_labels : rows with these labels are left out and counted.
    Raises DataError for anything that is not a valid bundle.
    """
    path, group = split_where(where)
    with open_file(path) as file:
        name = _choose_group(file, path, group, prefer, layout)
        yield BundleRows(file, path, name, layout, tuple(ignore_labels), need_labels)


class BundleRows(Rows):
    """The rows of one bundle, read in slabs; small ones are kept after the first reading.

    name : as the user writes it, ``logits.h5:test``. ignored : rows left out by label.
    data_sha256 : hash of the scores and labels, known after the first complete walk.
    """

    def __init__(
        self, file: h5py.File, path: Path, group: str, layout: Layout, ignore: tuple[int, ...], need_labels: bool
    ) -> None:
        self.path, self.group = path, group
        self.name = f"{path.name}:{group}" if group else path.name
        node = file[group] if group else file
        self._node = node
        self._check_format()
        self._scores, self.kind = self._find_scores(layout)
        self.scores_where = f"{path}: {self._scores.name.lstrip('/')}"
        self.total, self.k = check_shape(self._scores.shape, self._scores.dtype, self.scores_where)
        self.dtype = self._scores.dtype.newbyteorder("=")
        self._labels = self._read_labels(layout, ignore, need_labels)
        self._keep: NDArray[np.bool_] | None = None
        if self._labels is not None and ignore:
            kept = ~np.isin(self._labels, ignore)
            if not kept.any():
                raise DataError(f"{self.scores_where}: every row has an ignored label, nothing is left")
            if not kept.all():
                self._keep, self._labels = kept, self._labels[kept]
        self.n = self.total if self._keep is None else int(self._keep.sum())
        self.ignored = self.total - self.n
        self._weights = self._read_weights()
        self._assigned = self._read_predictions()
        self.transforms = self._find_transforms()
        self.data_sha256: str | None = None
        self._cache: NDArray[Any] | None = None
        self._small = self.total * self.k * self.dtype.itemsize <= CACHE_BYTES

    # ---- what the group holds

    def _check_format(self) -> None:
        version = self._node.attrs.get("calcli_bundle", 1)
        if version != 1:
            raise DataError(f"{self.path}: bundle format {version} is not known to this calcli, expected 1; upgrade it")

    def _dataset(self, path: str, option: str) -> h5py.Dataset:
        node = self._node.get(path)
        if not isinstance(node, h5py.Dataset):
            raise DataError(
                f"{self.name}: has no dataset {path!r} ({option}); it holds: {', '.join(self._node) or '-'}"
            )
        return node

    def _find_scores(self, layout: Layout) -> tuple[h5py.Dataset, ScoreKind]:
        if layout.scores is not None:
            base = layout.scores.rsplit("/", 1)[-1]
            if layout.kind is None and base not in SCORE_KINDS:
                raise UsageError(f"--scores {layout.scores}: say what they are with --kind {'|'.join(SCORE_KINDS)}")
            return self._dataset(layout.scores, "--scores"), score_kind(layout.kind or base)
        present = [kind for kind in SCORE_KINDS if isinstance(self._node.get(kind), h5py.Dataset)]
        if len(present) != 1:
            found = " and ".join(present) or "none"
            raise DataError(
                f"{self.name}: expected exactly one of {', '.join(SCORE_KINDS)}, found {found};"
                " choose with --scores PATH --kind KIND"
            )
        return self._node[present[0]], score_kind(layout.kind or present[0])

    def _read_labels(self, layout: Layout, ignore: tuple[int, ...], needed: bool) -> IntArray | None:
        path = layout.labels or "labels"
        if path not in self._node:
            if needed or layout.labels is not None or ignore:
                raise DataError(
                    f"{self.name}: has no dataset {path!r}, and labels are needed here;"
                    f" it holds: {', '.join(self._node)}; name them with --labels PATH"
                )
            return None
        dataset = self._dataset(path, "--labels")
        where = f"{self.path}: {dataset.name.lstrip('/')}"
        return check_labels(dataset[()], self.total, self.k, where, ignore)

    def _read_weights(self) -> FloatArray | None:
        if "weights" not in self._node:
            return None
        dataset = self._dataset("weights", "weights")
        w = check_weights(dataset[()], self.total, f"{self.path}: {dataset.name.lstrip('/')}")
        return w if self._keep is None else w[self._keep]

    def _read_predictions(self) -> IntArray | None:
        values = self.column("prediction")
        return None if values is None else check_labels(values, self.n, self.k, f"{self.name}: prediction")

    def _find_transforms(self) -> tuple[str, ...]:
        if "transforms/logits" not in self._node:
            return ()
        data = self._dataset("transforms/logits", "transforms")
        specs = self._strings("transforms/specs") or []
        expected = (len(specs), self.total, self.k)
        if data.shape != expected:
            raise DataError(
                f"{self.name}: transforms/logits has shape {data.shape}, expected {expected}:"
                f" {len(specs)} specs, and the same rows and classes as the scores"
            )
        return tuple(specs)

    def _strings(self, path: str) -> list[str] | None:
        if path not in self._node:
            return None
        values = self._node[path][()]
        try:
            return [v.decode() if isinstance(v, bytes) else str(v) for v in np.atleast_1d(values)]
        except UnicodeDecodeError:
            raise DataError(f"{self.name}: {path} is not valid UTF-8") from None

    @property
    def class_names(self) -> list[str] | None:
        names = self._strings("class_names")
        if names is not None and len(names) != self.k:
            raise DataError(f"{self.name}: class_names has {len(names)} entries, expected {self.k}, one per class")
        return names

    def column(self, name: str) -> NDArray[Any] | None:
        """One value per kept row (``ids``, ``group``, ``prediction``), or None when there is none."""
        if name not in self._node:
            return None
        dataset = self._dataset(name, name)
        if dataset.shape[:1] != (self.total,) or dataset.ndim != 1:
            raise DataError(f"{self.name}: {name} has shape {dataset.shape}, expected ({self.total},): one per row")
        values: NDArray[Any] = dataset.asstr()[()] if dataset.dtype.kind in "OS" else dataset[()]
        return values if self._keep is None else values[self._keep]

    @property
    def has_labels(self) -> bool:
        return self._labels is not None

    @property
    def source(self) -> dict[str, Any] | None:
        """Where the scores came from, as the bundle records it."""
        text = self._node.attrs.get("source")
        try:
            return json.loads(text) if text is not None else None
        except (TypeError, ValueError):
            return {"text": str(text)}

    # ---- rows

    def labels(self) -> IntArray:
        assert self._labels is not None, "opened without need of labels"
        return self._labels

    def weights(self) -> FloatArray | None:
        return self._weights

    def blocks(self, transforms: Sequence[int] = ()) -> Iterator[Block]:
        step = max(1, BLOCK_BYTES // (8 * self.k))
        digest = hashlib.sha256() if self.data_sha256 is None else None
        at = 0
        for start, stop, slab in self._slabs(self._slab_rows(1 + len(transforms))):
            moved = self._transformed(transforms, start, stop)
            if self._keep is not None:
                keep = self._keep[start:stop]
                slab, moved = slab[keep], None if moved is None else moved[:, keep]
            if digest is not None:
                digest.update(np.ascontiguousarray(slab).data)
            for low in range(0, len(slab), step):
                rows = slice(low, low + step)
                here = slice(at + low, min(at + low + step, at + len(slab)))
                yield Block(
                    at + low,
                    slab[rows],
                    self.kind,
                    None if self._labels is None else self._labels[here],
                    None if self._weights is None else self._weights[here],
                    None if moved is None else moved[:, rows],
                    None if self._assigned is None else self._assigned[here],
                )
            at += len(slab)
        if digest is not None:
            if self._labels is not None:
                digest.update(self._labels.data)
            digest.update(f"{self.kind} {self.dtype.str} {self.n} {self.k}".encode())
            self.data_sha256 = digest.hexdigest()

    def _slabs(self, step: int) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Checked scores of consecutive rows of the file: (first, last + 1, scores)."""
        if self._small and self._cache is None:
            self._cache = self._checked(0, self.total)
            self._cache.flags.writeable = False
        for start in range(0, self.total, step):
            stop = min(start + step, self.total)
            yield start, stop, self._checked(start, stop) if self._cache is None else self._cache[start:stop]

    def _slab_rows(self, layers: int) -> int:
        """Rows to read at once, when ``layers`` scores of each row are read."""
        step = max(1, SLAB_BYTES // (layers * self.k * self.dtype.itemsize))
        if self._scores.chunks and self._cache is None:  # whole chunks: each is decompressed once per walk
            height = self._scores.chunks[0]
            step = max(1, step // height) * height
        return step

    def _checked(self, start: int, stop: int) -> NDArray[Any]:
        raw = self._scores[start:stop].astype(self.dtype, copy=False)
        return check_scores(raw, self.kind, self.scores_where, start)

    def _transformed(self, transforms: Sequence[int], start: int, stop: int) -> NDArray[Any] | None:
        if not len(transforms):
            return None
        data = self._dataset("transforms/logits", "transforms")
        moved = np.empty((len(transforms), stop - start, self.k), dtype=data.dtype.newbyteorder("="))
        for slot, index in enumerate(transforms):
            data.read_direct(moved, np.s_[index, start:stop], np.s_[slot])
            where = f"{self.path}: transforms/logits[{index}] ({self.transforms[index]})"
            check_scores(moved[slot], "logits", where, start)
        return moved


# ---- writing


class BundleWriter:
    """Write bundles into a new HDF5 file that appears only when all went well.

    Use as a context manager. Raises UsageError for an output that may not be written.
    """

    def __init__(self, path: Path | str, *, force: bool = False, inputs: Sequence[Path] = ()) -> None:
        self._atomic = atomic_path(Path(path), force=force, inputs=inputs)

    def __enter__(self) -> Self:
        self._temporary = self._atomic.__enter__()
        self._file = h5py.File(self._temporary, "w")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._atomic.__exit__(kind, error, trace)

    def create(
        self,
        group: str = "",
        *,
        n: int,
        k: int,
        kind: ScoreKind = "logits",
        dtype: str | np.dtype[Any] = "float32",
        labels: bool = True,
        transforms: Sequence[str] = (),
        class_names: Sequence[str] | None = None,
        columns: dict[str, NDArray[Any]] | None = None,
        source: dict[str, Any] | None = None,
    ) -> "GroupWriter":
        """Make one bundle of n rows and k classes, to be filled by ``GroupWriter.write``.

        group : "" is the root. columns : whole per-row arrays such as ids, weights, group.
        """
        node = self._file.require_group(group) if group else self._file
        return GroupWriter(node, n, k, kind, np.dtype(dtype), labels, transforms, class_names, columns or {}, source)


class GroupWriter:
    """Fills one bundle, block by block."""

    def __init__(
        self,
        node: h5py.Group,
        n: int,
        k: int,
        kind: ScoreKind,
        dtype: np.dtype[Any],
        labels: bool,
        transforms: Sequence[str],
        class_names: Sequence[str] | None,
        columns: dict[str, NDArray[Any]],
        source: dict[str, Any] | None,
    ) -> None:
        self.node, self.n, self.k, self.kind = node, n, k, kind
        node.attrs["calcli_bundle"] = 1
        if source is not None:
            node.attrs["source"] = json.dumps(source, sort_keys=True)
        node.create_dataset(kind, (n, k), dtype)
        if labels:
            node.create_dataset("labels", (n,), "int64")
        if class_names is not None:
            write_strings(node, "class_names", class_names)
        for name, values in columns.items():
            if values.dtype.kind in "OUS":
                write_strings(node, name, [str(v) for v in values])
            else:
                node.create_dataset(name, data=values)
        if transforms:
            node.create_dataset("transforms/logits", (len(transforms), n, k), dtype)
            write_strings(node, "transforms/specs", transforms)

    def write(self, start: int, scores: NDArray[Any], **per_row: NDArray[Any]) -> None:
        """Write rows from ``start`` on: scores (b, k), and per row labels, prediction, confidence …

        ``transformed`` (m, b, k) goes to transforms/logits. A per-row dataset that does
        not exist yet is made with the type of its first block.
        """
        stop = start + len(scores)
        self.node[self.kind][start:stop] = scores
        for name, values in per_row.items():
            if name == "transformed":
                self.node["transforms/logits"][:, start:stop] = values
                continue
            if name not in self.node:
                self.node.create_dataset(name, (self.n,), values.dtype)
            self.node[name][start:stop] = values

    def attribute(self, name: str, text: str) -> None:
        """Attach a text. One beyond HDF5's 64 KiB attribute limit goes into dense storage."""
        self.node.attrs[name] = text


def write_strings(node: h5py.Group, name: str, values: Sequence[str]) -> None:
    """Write UTF-8 strings of variable length."""
    node.create_dataset(name, data=np.asarray(values, dtype=object), dtype=h5py.string_dtype("utf-8"))
