"""Writer of bundles into new HDF5 files, which appear only after all is written and
verified.
"""

import io
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from calcli.errors import CalcliError, DataError, UsageError, one_line
from calcli.io.atomic import is_stream, new_file, refuse
from calcli.io.option_columns import COLUMNS, OPTIONS
from calcli.numerics import AnyArray, store

WRITE_BYTES = 4 << 20  # bytes of a dataset written, and read back, at once

SUMS = 509
"""Period, in 8-byte words, of the positions a checksum distinguishes: prime, so that
swapped pages are detected.
"""

TRANSFORMED = "transforms/logits"


@dataclass(frozen=True, kw_only=True)
class NewBundle:
    """Contents of a new bundle of n rows and k classes.

    kind : of the scores, or "confidence" for one number a row (k = 0). columns : whole
    per-row arrays such as ids, weights, group, correct. source : where the scores came
    from.
    """

    n: int
    k: int
    kind: str = "logits"
    dtype: str | np.dtype[Any] = "float32"
    labels: bool = True
    transforms: Sequence[str] = ()
    class_names: Sequence[str] | None = None
    columns: Mapping[str, AnyArray] = field(default_factory=dict)
    source: Mapping[str, Any] | None = None


OTHER_FORMATS = frozenset(
    {
        *(".csv", ".json", ".jsonl", ".npy", ".npz", ".parquet"),
        *(".pkl", ".pt", ".pth", ".safetensors", ".tsv", ".txt"),
    }
)
"""Endings that promise another format than HDF5."""


def check_ending(path: Path) -> None:
    """Raise UsageError for a bundle whose name promises another format."""
    if path.suffix.lower() in OTHER_FORMATS:
        raise UsageError(
            f"-o {path}: bundles are HDF5, expected a name that ends in .h5 or .hdf5"
        )


@contextmanager
def new_bundles(
    path: Path, *, force: bool = False, inputs: Sequence[Path] = ()
) -> Iterator["BundleWriter"]:
    """Write bundles into a new HDF5 file that appears only on success.

    At the end the file is synced, opened anew and compared with the data written, and
    only then renamed. Raises UsageError for an output that may not be written,
    CalcliError if writing fails.
    """
    if is_stream(path):
        raise UsageError(
            f"{path}: is a pipe or a device; HDF5 needs an ordinary file, name one"
        )
    with new_file(path, force=force, inputs=inputs) as out:
        out.checked = True  # compared below: HDF5 does not write sequentially
        driver = DescriptorFile(out.descriptor)
        with _writing(path, driver):
            file = h5py.File(driver, "w")
        bundles = BundleWriter(path, driver, file)
        try:
            yield bundles
            for group in bundles.groups:
                group.flush()
        except BaseException:
            # Closing fails for the error being raised.
            with (
                suppress(CalcliError),
                _writing(path, driver),
            ):
                file.close()
            raise
        with _writing(path, driver):
            file.close()
        out.sync()
        with (
            _writing(path, None),
            h5py.File(out.temporary, "r", locking=False) as written,
        ):
            for group in bundles.groups:
                group.compare(written[group.name])


class BundleWriter:
    """Writer of the bundles of one file (see ``new_bundles``)."""

    def __init__(self, path: Path, driver: "DescriptorFile", file: h5py.File) -> None:
        self._path = path
        self._driver = driver
        self._file = file
        self.groups: list[GroupWriter] = []

    def create(self, group: str, new: NewBundle) -> "GroupWriter":
        """Create a bundle, to be filled by ``GroupWriter.write``.

        group : "" for the root.
        """
        with _writing(self._path, self._driver):
            node = self._file.require_group(group or "/")
            self.groups.append(GroupWriter(self._path, self._driver, node, new))
        return self.groups[-1]


class DescriptorFile:
    """File object for h5py's fileobj driver, over an open descriptor, that defers write
    errors (a full disk).

    HDF5 writes small datasets and its own tables only as they are closed. When that
    fails, h5py cannot raise, and HDF5 crashes as the process ends. So HDF5 is told that
    all went well: after the first problem, an interruption included, writes go to
    memory and reads see them, and who uses the file asks ``raise_problem`` for what
    really happened. That is a few mebibytes, as writing ends soon.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._at = self._end = 0
        self._problem: BaseException | None = None
        self._lost: list[tuple[int, bytes]] = []

    def raise_problem(self) -> None:
        """Raise the first problem so far, an OSError or an interruption."""
        if self._problem is not None:
            raise self._problem

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = (
            offset
            + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._end}[whence]
        )
        return self._at

    def tell(self) -> int:
        return self._at

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        try:
            done = 0
            while self._problem is None and done < len(view):
                done += os.pwrite(self._descriptor, view[done:], self._at + done)
        except BaseException as problem:  # an interruption between two system calls too
            self._problem = problem
        if self._problem is not None:
            self._lost.append((self._at, bytes(view)))
        self._at += len(view)
        self._end = max(self._end, self._at)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        try:
            done = 0
            while done < len(view) and (
                got := os.preadv(self._descriptor, [view[done:]], self._at + done)
            ):
                done += got
        except BaseException as problem:
            self._problem = self._problem or problem
        for start, data in self._lost:
            first = max(start, self._at)
            last = min(start + len(data), self._at + len(view))
            if first < last:
                view[first - self._at : last - self._at] = data[
                    first - start : last - start
                ]
        self._at += len(view)
        return len(view)

    read = readinto
    """Attribute by which h5py recognizes a file object; reading uses ``readinto``."""

    def truncate(self, size: int | None = None) -> int:
        if size is None:
            size = self._at
        self._end = size
        try:
            if self._problem is None:
                os.ftruncate(self._descriptor, self._end)
        except BaseException as problem:
            self._problem = problem
        return self._end

    def flush(self) -> None:
        """Do nothing: writes are unbuffered."""


class _Dataset:
    """Dataset being written: rows are buffered, in its type, until a piece of some
    mebibytes is full.

    axis : of the rows. pieces : first row, last + 1 and checksum of each.
    """

    def __init__(self, node: h5py.Dataset, axis: int) -> None:
        self.node = node
        self.axis = axis
        row = list(node.shape)
        self.n = row.pop(axis)
        self.pieces: list[tuple[int, int, int]] = []
        fitting = max(1, WRITE_BYTES // (prod(row) * node.dtype.itemsize))
        self._room = np.empty((min(self.n, fitting), *row), node.dtype)
        self._start = self._count = 0

    def add(self, start: int, values: AnyArray) -> None:
        """Buffer rows from ``start`` on, as many small writes would be slow in HDF5."""
        values = values.swapaxes(0, self.axis)
        if start != self._start + self._count:
            self.flush()
        while len(values):
            if not self._count:
                self._start = start
            n_rows = min(len(values), len(self._room) - self._count)
            store(self._room[self._count : self._count + n_rows], values[:n_rows])
            self._count += n_rows
            start = start + n_rows
            values = values[n_rows:]
            if self._count == len(self._room):
                self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self._count:
            stop = self._start + self._count
            values = self._room[: self._count]
            if values.dtype.kind == "O":
                _check_texts(self.node.name, values, self._start)
            # By name it would be looked up in the file.
            if self.axis:
                self.node[:, self._start : stop] = values.swapaxes(0, self.axis)
            else:
                self.node[self._start : stop] = values
            self.pieces.append((self._start, stop, _checksum(values)))
            self._count = 0

    def read_back(self, dataset: h5py.Dataset, start: int, stop: int) -> AnyArray:
        """Read a piece from the file into an existing buffer, as allocating pages costs
        as much as reading.
        """
        if self.axis:
            return dataset[:, start:stop].swapaxes(0, 1)
        dataset.read_direct(self._room[: stop - start], np.s_[start:stop])
        return self._room[: stop - start]


class GroupWriter:
    """Writer of one bundle, block by block, that records what the file must contain."""

    def __init__(
        self, path: Path, driver: DescriptorFile, node: h5py.Group, new: NewBundle
    ) -> None:
        self._path = path
        self._driver = driver
        self._node = node
        self._n = new.n
        self._kind = new.kind
        self.name: str = node.name
        self._datasets: dict[str, _Dataset] = {}
        self._attributes: dict[str, Any] = {}
        self.attribute("calcli_bundle", 1)
        if new.source is not None:
            self.attribute("source", json.dumps(new.source, sort_keys=True))
        shape = (new.n, new.k) if new.k else (new.n,)
        self._make(new.kind, shape, new.dtype)
        if new.labels:
            self._make("labels", (new.n,), "int64")
        if new.transforms:
            self._make(TRANSFORMED, (len(new.transforms), new.n, new.k), new.dtype)
        names = {"class_names": new.class_names, "transforms/specs": new.transforms}
        words = {}
        for name, texts in names.items():
            if texts:
                words[name] = np.array(texts, dtype=object)
        for name, values in {**words, **new.columns}.items():
            if values.dtype.kind in "OUS":
                values = np.array(list(map(str, values)), dtype=object)
            self._make(name, values.shape, values.dtype)
            self._datasets[name].add(0, values)
            self._datasets[name].flush()

    def _make(self, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        """Create a dataset; texts are UTF-8 strings of variable length."""
        dtype = np.dtype(dtype)
        if dtype.kind in "OU":
            dtype = h5py.string_dtype("utf-8")
        node = self._node.create_dataset(name, shape, dtype)
        self._datasets[name] = _Dataset(node, int(name == TRANSFORMED))

    def write(self, start: int, scores: AnyArray, /, **per_row: AnyArray) -> None:
        """Write rows from ``start`` on: scores (b, k), and per row labels, prediction,
        confidence … ``transformed`` (m, b, k) goes to transforms/logits.

        A new per-row dataset is created with the type of its first block.
        """
        with _writing(self._path, self._driver):
            for name, values in {self._kind: scores, **per_row}.items():
                if name == "transformed":
                    name = TRANSFORMED
                if name not in self._datasets:
                    self._make(name, (self._n,), values.dtype)
                self._datasets[name].add(start, values)

    def flush(self) -> None:
        """Write what waits."""
        with _writing(self._path, self._driver):
            for dataset in self._datasets.values():
                dataset.flush()

    def attribute(self, name: str, value: Any) -> None:
        """Set an attribute, a text or a number.

        A text beyond HDF5's 64 KiB for attributes goes into dense storage.
        """
        with _writing(self._path, self._driver):
            self._node.attrs[name] = value
        self._attributes[name] = value

    def _may_hold(self, values: AnyArray) -> bool:
        """True for finite scores, and -inf where a row has no option."""
        finite = np.isfinite(values)
        if self._attributes.get(COLUMNS) == OPTIONS:
            finite |= np.isneginf(values)
        return bool(finite.all())

    def compare(self, group: h5py.Group) -> None:
        """Compare the file with the data written. Raises CalcliError."""
        if not all(
            np.array_equal(group.attrs.get(name), value)
            for name, value in self._attributes.items()
        ):
            refuse(
                self._path,
                f"the attributes of {self.name} read back differ (is the disk"
                " failing?)",
            )
        for name, dataset in self._datasets.items():
            handed = sum(stop - start for start, stop, _ in dataset.pieces)
            if handed != dataset.n:
                refuse(self._path, f"{name} was handed {handed} of {dataset.n} rows")
            for start, stop, checksum in dataset.pieces:
                values = dataset.read_back(group[name], start, stop)
                if _checksum(values) != checksum:
                    refuse(
                        self._path,
                        f"{name}, rows {start} to {stop} read back differ (is the disk"
                        " failing?)",
                    )
                if name in (self._kind, TRANSFORMED) and not self._may_hold(values):
                    refuse(
                        self._path,
                        f"{name}, rows {start} to {stop}: not all numbers are finite"
                        f" in {values.dtype}",
                    )


def _checksum(values: AnyArray) -> int:
    """CRC-32 of the sums of 8-byte words a multiple of ``SUMS`` apart, which is faster
    than one of all bytes.
    """
    if values.dtype.kind == "O":
        texts = values.tolist()
        if texts and isinstance(texts[0], bytes):  # as they are read back
            return zlib.crc32(b"\0".join(texts))
        return zlib.crc32("\0".join(map(str, texts)).encode())
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    whole = len(data) // (8 * SUMS) * (8 * SUMS)
    sums = np.add.reduce(data[:whole].view(np.uint64).reshape(-1, SUMS), axis=0)
    return zlib.crc32(data[whole:].data, zlib.crc32(sums.data))


def _check_texts(name: str, values: AnyArray, first_row: int) -> None:
    """Refuse a text that HDF5 cannot hold. Raises DataError."""
    for row, value in enumerate(values.tolist(), first_row):
        if isinstance(value, str) and "\0" in value:
            raise DataError(
                f"{name.lstrip('/')}: row {row} is {value[:40]!r}, expected words"
                " without NUL characters"
            )


@contextmanager
def _writing(path: Path, driver: DescriptorFile | None) -> Iterator[None]:
    """Turn an error of the disk or of h5py into a CalcliError that names the output."""
    try:
        try:
            yield
        finally:
            if driver is not None:
                driver.raise_problem()
    except (OSError, RuntimeError) as problem:
        # h5py's own message is long.
        match = re.search(r"errno = (\d+)", str(problem))
        number = getattr(problem, "errno", None)
        if match is not None:
            number = int(match[1])
        reason = os.strerror(number) if number else one_line(problem)
        refuse(path, reason)
