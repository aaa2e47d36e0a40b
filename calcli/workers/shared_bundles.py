"""Bundles of a data set as every worker opens them, and keeps them open."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from threading import local
from typing import Any

import numpy as np

from calcli.block import Block
from calcli.errors import DataError
from calcli.importers.open_any_file import open_rows
from calcli.io.bundle import BundleRows
from calcli.io.inputs import FileStamp, allow_open_files, stamp
from calcli.io.locate import split_where
from calcli.io.pooled_rows import within

OPEN_BUNDLES = 256  # most bundles that a worker keeps open


@dataclass(frozen=True)
class SharedBundles:
    """Bundles of a data set: how to open them, and their state when the work began.

    opening : arguments of ``open_rows`` besides the name. counts : rows of each that
    are kept. stamps : of the files on this machine. small : whether scores stay
    in memory.
    """

    names: tuple[str, ...]
    opening: Mapping[str, Any]
    counts: tuple[int, ...]
    stamps: tuple[FileStamp, ...]
    dtype: np.dtype[Any]
    small: bool

    def pieces(
        self, start: int, stop: int, transforms: Sequence[int], step: int
    ) -> Iterator[Block]:
        """Read rows start..stop-1 in pieces, multiples of ``step`` rows where possible."""
        for bundle, begin, low, high in within(self.counts, start, stop):
            rows = self._opened(bundle)
            slab = rows.slab_rows(transforms, step)
            for piece in rows.pieces(transforms, slab, low, high):
                scores = piece.scores.astype(self.dtype, copy=False)
                yield replace(piece, start=begin + piece.start, scores=scores)

    def _opened(self, bundle: int) -> BundleRows:
        """Return a bundle by its number, opened unless it is open in this thread."""
        if not hasattr(_thread, "bundles"):
            _thread.bundles = OrderedDict()
            allow_open_files(OPEN_BUNDLES)
        bundles: OrderedDict[Any, tuple[ExitStack, BundleRows]] = _thread.bundles
        name = self.names[bundle]
        key = (name, self.stamps[bundle], repr(self.opening))
        if key not in bundles:
            seen = file_stamp(name).on_any_machine
            if seen != self.stamps[bundle].on_any_machine:
                raise DataError(
                    f"{name}: has changed since the work on it began; repeat the"
                    " command"
                )
            while len(bundles) >= OPEN_BUNDLES:
                bundles.popitem(last=False)[1][0].close()
            stack = ExitStack()
            rows = stack.enter_context(open_rows(name, **self.opening))
            rows.small = self.small
            bundles[key] = stack, rows
        bundles.move_to_end(key)
        return bundles[key][1]


_thread = local()  # ``bundles``: open bundles of this thread


def file_stamp(name: str) -> FileStamp:
    """Return the stamp of a bundle's file. Raises DataError if it is missing."""
    path = split_where(name)[0]
    try:
        return stamp(path)
    except OSError as problem:
        advice = (
            "every worker must see the files under the same names, as on a shared disk"
        )
        raise DataError(f"{path}: {problem.strerror}; {advice}") from None
