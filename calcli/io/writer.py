"""Writing bundles into new HDF5 files, which appear only when all went well and reads back."""

import io
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from calcli.errors import CalcliError, UsageError, one_line
from calcli.fast_dataclass import dataclass
from calcli.io.atomic import is_stream, new_file, refuse
from calcli.numerics import AnyArray, store

WRITE_BYTES = 4 << 20
"""How much of a dataset is written, and read back, at once."""

SUMS = 509
"""Words of 8 bytes whose place a checksum tells apart: a prime, so that two pages of a file do not look alike."""

TRANSFORMED = "transforms/logits"


@dataclass(frozen=True, kw_only=True)
class NewBundle:
    """What a bundle of n rows and k classes is to hold.

    kind : of the scores, or "confidence" for one number a row (k = 0). columns : whole
    per-row arrays such as ids, weights, group, correct. source : where the scores came from.
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


@contextmanager
def new_bundles(path: Path, *, force: bool = False, inputs: Sequence[Path] = ()) -> Iterator["BundleWriter"]:
    """Write bundles into a new HDF5 file that appears only when all went well.

    At the end the file is synced, opened anew and compared with what was handed in, and only then takes its name.
    Raises UsageError for an output that may not be written, CalcliError when writing fails.
    """
    if is_stream(path):
        raise UsageError(f"{path}: is a pipe or a device; HDF5 needs an ordinary file, name one")
    with new_file(path, force=force, inputs=inputs) as out:
        out.checked = True  # below: HDF5 goes back and forth in its file
        driver = DescriptorFile(out.descriptor)
        with _writing(path, driver):
            file = h5py.File(driver, "w")
        bundles = BundleWriter(path, driver, file)
        try:
            yield bundles
            for group in bundles.groups:
                group.flush()
        except BaseException:
            with suppress(CalcliError), _writing(path, driver):  # closing fails for the reason already known
                file.close()
            raise
        with _writing(path, driver):
            file.close()
        out.sync()
        with _writing(path, None), h5py.File(out.temporary, "r", locking=False) as written:
            for group in bundles.groups:
                group.compare(written[group.name])


class BundleWriter:
    """Makes the bundles of one file (see ``new_bundles``)."""

    def __init__(self, path: Path, driver: "DescriptorFile", file: h5py.File) -> None:
        self._path, self._driver, self._file = path, driver, file
        self.groups: list[GroupWriter] = []

    def create(self, group: str, new: NewBundle) -> "GroupWriter":
        """Make one bundle, to be filled by ``GroupWriter.write``. group : "" is the root."""
        with _writing(self._path, self._driver):
            node = self._file.require_group(group) if group else self._file
            writer = GroupWriter(self._path, self._driver, node, new.n, new.kind)
            writer.attribute("calcli_bundle", 1)
            if new.source is not None:
                writer.attribute("source", json.dumps(new.source, sort_keys=True))
            writer.dataset(new.kind, (new.n, new.k) if new.k else (new.n,), new.dtype)
            if new.labels:
                writer.dataset("labels", (new.n,), "int64")
            if new.class_names is not None:
                writer.fill("class_names", np.asarray(new.class_names, dtype=object))
            for name, values in new.columns.items():
                writer.fill(name, values)
            if new.transforms:
                writer.dataset("transforms/logits", (len(new.transforms), new.n, new.k), new.dtype)
                writer.fill("transforms/specs", np.asarray(new.transforms, dtype=object))
        self.groups.append(writer)
        return writer


class DescriptorFile:
    """A file for h5py's driver of Python files, over an open descriptor, that hides write errors (a full disk).

    HDF5 writes small datasets and its own tables only as they are closed. When that fails, h5py cannot raise, and HDF5
    crashes as the process ends. So HDF5 is told that all went well: after the first problem, an interruption included,
    writes go to memory and reads see them, and who uses the file asks ``raise_problem`` for what really happened. That
    is a few mebibytes, as writing ends soon.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._at = self._end = 0
        self._problem: BaseException | None = None
        self._lost: list[tuple[int, bytes]] = []

    def raise_problem(self) -> None:
        """Raise what has gone wrong so far, an OSError or an interruption."""
        if self._problem is not None:
            raise self._problem

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._end}[whence]
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
            while done < len(view) and (got := os.preadv(self._descriptor, [view[done:]], self._at + done)):
                done += got
        except BaseException as problem:
            self._problem = self._problem or problem
        for start, data in self._lost:
            first, last = max(start, self._at), min(start + len(data), self._at + len(view))
            if first < last:
                view[first - self._at : last - self._at] = data[first - start : last - start]
        self._at += len(view)
        return len(view)

    read = readinto
    """What h5py knows a file by; it reads by ``readinto``."""

    def truncate(self, size: int | None = None) -> int:
        self._end = self._at if size is None else size
        try:
            if self._problem is None:
                os.ftruncate(self._descriptor, self._end)
        except BaseException as problem:
            self._problem = problem
        return self._end

    def flush(self) -> None:
        """Nothing waits here: what is written is with the system at once."""


class _Waiting:
    """Rows of one dataset, in its own type, until there are enough of them to write."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        row = max(1, int(np.prod(shape[1:])) * dtype.itemsize)
        self.room = np.empty((min(shape[0], max(1, WRITE_BYTES // row)), *shape[1:]), dtype)
        self.start = self.count = 0

    def take(self, start: int, values: AnyArray) -> int:
        """Take in what there is room for of rows from ``start`` on; returns how many, 0 where they do not follow."""
        if self.count == 0:
            self.start = start
        if start != self.start + self.count:
            return 0
        number = min(len(values), len(self.room) - self.count)
        store(self.room[self.count : self.count + number], values[:number])
        self.count += number
        return number


class GroupWriter:
    """Fills one bundle, block by block in pieces of some mebibytes, and remembers a checksum of every piece."""

    def __init__(self, path: Path, driver: DescriptorFile, node: h5py.Group, n: int, kind: str) -> None:
        self._path, self._driver, self._node, self.n, self.kind = path, driver, node, n, kind
        self.name: str = node.name
        self._datasets: dict[str, h5py.Dataset] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._pieces: dict[str, list[tuple[int, int, int]]] = {}  # (first row, last + 1, checksum)
        self._attributes: dict[str, Any] = {}

    def dataset(self, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        """Make a dataset to be filled by ``write``."""
        self._datasets[name] = made = self._node.create_dataset(name, shape, dtype)
        self._pieces[name] = []
        if name != TRANSFORMED:
            self._waiting[name] = _Waiting(shape, made.dtype)

    def fill(self, name: str, values: AnyArray) -> None:
        """Write a whole dataset; texts as UTF-8 strings of variable length."""
        if values.dtype.kind in "OUS":
            values = np.asarray([str(v) for v in values], dtype=object)
            self._node.create_dataset(name, data=values, dtype=h5py.string_dtype("utf-8"))
        else:
            self._node.create_dataset(name, data=values)
        self._pieces[name] = [(0, len(values), _checksum(values))]

    def write(self, start: int, scores: AnyArray, **per_row: AnyArray) -> None:
        """Write rows from ``start`` on: scores (b, k), and per row labels, prediction, confidence …

        ``transformed`` (m, b, k) goes to transforms/logits. A per-row dataset that does
        not exist yet is made with the type of its first block.
        """
        with _writing(self._path, self._driver):
            self._write(self.kind, start, scores)
            for name, values in per_row.items():
                if name == "transformed":
                    node = self._datasets[TRANSFORMED]
                    self._put(TRANSFORMED, start, np.ascontiguousarray(values, dtype=node.dtype))
                    continue
                if name not in self._pieces:
                    words = values.dtype.kind in "OU"
                    self.dataset(name, (self.n,), h5py.string_dtype("utf-8") if words else values.dtype)
                self._write(name, start, values)

    def _write(self, name: str, start: int, values: AnyArray) -> None:
        """Put rows among those that wait; small writes would cost HDF5 more than the bytes do."""
        waiting, done = self._waiting[name], 0
        while done < len(values):
            taken = waiting.take(start + done, values[done:])
            done += taken
            if not taken or waiting.count == len(waiting.room):
                self._flush(name)

    def flush(self) -> None:
        """Write what waits."""
        with _writing(self._path, self._driver):
            for name in self._waiting:
                self._flush(name)

    def _flush(self, name: str) -> None:
        waiting = self._waiting[name]
        if waiting.count:
            self._put(name, waiting.start, waiting.room[: waiting.count])
            waiting.count = 0

    def _put(self, name: str, start: int, values: AnyArray) -> None:
        stop = start + values.shape[1 if name == TRANSFORMED else 0]
        self._datasets[name][_rows(name, start, stop)] = values  # by name it would be looked up in the file
        self._pieces[name].append((start, stop, _checksum(values)))

    def attribute(self, name: str, value: Any) -> None:
        """Attach a text or a number. A text beyond HDF5's 64 KiB for attributes goes into dense storage."""
        with _writing(self._path, self._driver):
            self._node.attrs[name] = value
        self._attributes[name] = value

    def compare(self, found: h5py.Group) -> None:
        """Compare what is in the file with what was handed in. Raises CalcliError."""
        if any(found.attrs.get(name) != value for name, value in self._attributes.items()):
            refuse(self._path, f"the attributes of {self.name} read back differ (is the disk failing?)")
        for name, pieces in self._pieces.items():
            node = found[name]
            rows = len(node) if name in ("class_names", "transforms/specs") else self.n
            if sum(stop - start for start, stop, _ in pieces) != rows:
                refuse(self._path, f"{name} was handed {sum(p[1] - p[0] for p in pieces)} of {rows} rows")
            room = None
            for start, stop, checksum in pieces:
                if name in self._waiting:  # into memory that is there: new pages cost as much as the bytes
                    room = np.empty((stop - start, *node.shape[1:]), node.dtype) if room is None else room
                    values = room[: stop - start] if stop - start <= len(room) else np.empty_like(node[start:stop])
                    node.read_direct(values, np.s_[start:stop])
                else:
                    values = node[_rows(name, start, stop)]
                if _checksum(values) != checksum:
                    refuse(self._path, f"{name}, rows {start} to {stop} read back differ (is the disk failing?)")
                if name in (self.kind, TRANSFORMED) and not np.isfinite(values).all():
                    refuse(self._path, f"{name}, rows {start} to {stop}: not all numbers are finite in {node.dtype}")


def _rows(name: str, start: int, stop: int) -> Any:
    return np.s_[:, start:stop] if name == TRANSFORMED else np.s_[start:stop]


def _checksum(values: AnyArray) -> int:
    """CRC-32 of the sums of 8-byte words that lie a multiple of ``SUMS`` apart, as one of all bytes would cost more."""
    if values.dtype.kind == "O":
        texts = values.tolist()
        read_back = len(texts) > 0 and isinstance(texts[0], bytes)
        return zlib.crc32(b"\0".join(texts) if read_back else "\0".join(map(str, texts)).encode())
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    whole = len(data) // (8 * SUMS) * (8 * SUMS)
    sums = np.add.reduce(data[:whole].view(np.uint64).reshape(-1, SUMS), axis=0)
    return zlib.crc32(data[whole:].data, zlib.crc32(sums.data))


@contextmanager
def _writing(path: Path, driver: DescriptorFile | None) -> Iterator[None]:
    """Turn what the disk said, or what h5py makes of it, into a sentence. Raises CalcliError."""
    try:
        try:
            yield
        finally:
            if driver is not None:
                driver.raise_problem()
    except (OSError, RuntimeError) as problem:
        told = re.search(r"errno = (\d+)", str(problem))  # h5py's own words are long
        number = int(told[1]) if told else getattr(problem, "errno", None)
        refuse(path, os.strerror(number) if number else one_line(problem))
