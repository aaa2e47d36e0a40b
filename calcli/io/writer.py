"""Writing bundles into new HDF5 files, which appear only when all went well."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from calcli.errors import CalcliError, UsageError
from calcli.io.atomic import atomic_path, is_stream
from calcli.io.hdf5 import one_line
from calcli.rows import ScoreKind

__all__ = ["BundleWriter", "GroupWriter"]


class BundleWriter:
    """Write bundles into a new HDF5 file that appears only when all went well.

    Use as a context manager. Raises UsageError for an output that may not be written.
    """

    def __init__(self, path: Path | str, *, force: bool = False, inputs: Sequence[Path] = ()) -> None:
        self._path, self._force, self._inputs = Path(path), force, inputs

    def __enter__(self) -> Self:
        if is_stream(self._path):
            raise UsageError(f"{self._path}: is a pipe or a device; HDF5 needs an ordinary file, name one")
        with ExitStack() as stack:
            temporary = stack.enter_context(atomic_path(self._path, force=self._force, inputs=self._inputs))
            with _writing(self._path):
                self._file = h5py.File(temporary, "w", locking=False)  # nobody else knows its name
            stack.push(self._close)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _close(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with _writing(self._path):
                self._file.close()
        except CalcliError:
            if error is None:  # else closing fails for the reason already known
                raise

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
        with _writing(self._path):
            node = self._file.require_group(group) if group else self._file
            return GroupWriter(
                self._path, node, n, k, kind, np.dtype(dtype), labels, transforms, class_names, columns or {}, source
            )


class GroupWriter:
    """Fills one bundle, block by block."""

    def __init__(
        self,
        path: Path,
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
        self._path, self.node, self.n, self.k, self.kind = path, node, n, k, kind
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
        with _writing(self._path):
            self._write(start, start + len(scores), scores, per_row)

    def _write(self, start: int, stop: int, scores: NDArray[Any], per_row: dict[str, NDArray[Any]]) -> None:
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
        with _writing(self._path):
            self.node.attrs[name] = text


def write_strings(node: h5py.Group, name: str, values: Sequence[str]) -> None:
    """Write UTF-8 strings of variable length."""
    node.create_dataset(name, data=np.asarray(values, dtype=object), dtype=h5py.string_dtype("utf-8"))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn what h5py raises when a disk is full into a sentence. Raises CalcliError."""
    try:
        yield
    except (OSError, RuntimeError) as problem:
        number = re.search(r"errno = (\d+)", str(problem))
        reason = os.strerror(int(number[1])) if number else one_line(problem)
        raise CalcliError(f"{path}: cannot be written: {reason}; no part of it was kept") from None
