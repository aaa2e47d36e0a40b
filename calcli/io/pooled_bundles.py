"""Several bundles as one data set: their rows one after the other."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calcli.errors import CalcliError, DataError
from calcli.fast_dataclass import cached_property
from calcli.io.bundle import CACHE_BYTES, BundleRows
from calcli.io.dataset import DataSet, within
from calcli.io.provenance import of_several, words
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.rows import Block
from calcli.statistics.units import Units

if TYPE_CHECKING:
    from calcli.io.artifact import Link

SPARE_FILES = 64  # files that a process opens besides its data
FEWEST_BESIDE = 16  # the same, at the very least


class PooledRows(DataSet):
    """The rows of several open bundles, as one file with these rows would give them.

    Raises DataError that names the first bundle which has other classes, another kind, other
    class names, transforms or calibrators upstream than the first, or lacks what it has.
    """

    def __init__(self, parts: Sequence[BundleRows]) -> None:
        first, alike = parts[0], list(_alike(parts[0]))
        for part in parts[1:]:
            for has, expected in zip(_alike(part), alike, strict=False):
                if has != expected:
                    told = f"{part.name}: {has}, {first.name} {expected}"
                    raise DataError(f"{told}; bundles that are taken together must agree in it")
        self.parts = parts
        self._counts = [part.n for part in parts]
        self.n, self.k, self.kind = sum(self._counts), first.k, first.kind
        self.total = sum(part.total for part in parts)
        self.dtype = np.result_type(*(part.dtype for part in parts))
        self.transforms, self.path = first.transforms, first.path
        self.name = f"{first.name} and {len(parts) - 1} more"
        self.has_labels, self.unit = first.has_labels, first.unit
        small = sum(part.nbytes for part in parts) <= CACHE_BYTES
        for part in parts:
            part.small = small

    @property
    def class_names(self) -> list[str] | None:
        return self.parts[0].class_names

    @property
    def upstream(self) -> "tuple[Link, ...]":
        return tuple(map(of_several, *(part.upstream for part in self.parts)))

    @property
    def source(self) -> Any:
        return [{"bundle": part.name, "source": part.source} for part in self.parts]

    @property
    def recorded(self) -> list[str]:
        return list(dict.fromkeys(text for part in self.parts for text in part.recorded))

    def column(self, name: str) -> AnyArray | None:
        columns = [part.column(name) for part in self.parts]
        lacking = [part.name for part, values in zip(self.parts, columns, strict=True) if values is None]
        if len(lacking) == len(columns):
            return None
        if lacking:
            told = f"has no dataset {name!r}, others of these bundles do"
            raise DataError(f"{lacking[0]}: {told}; add it or drop it there")
        return np.concatenate([values for values in columns if values is not None])

    @cached_property
    def given_units(self) -> Units | None:
        units = super().given_units
        part = np.repeat(np.arange(len(self.parts)), self._counts)
        if units is not None:
            first, last = part[units.order[units.starts]], part[units.order[units.starts + units.count - 1]]
            if (first != last).any():
                cut = int(np.flatnonzero(first != last)[0])
                name = self.column("unit")[units.order[units.starts[cut]]]  # type: ignore[index]
                told = f"{self.parts[first[cut]].name} and {self.parts[last[cut]].name} hold rows of it"
                advice = "keep the rows of a unit in one file, give others names of their own, or pass --unit none"
                raise DataError(f"{self.own_name('unit')} {name} is cut: {told}; {advice}")
        return units

    def own_name(self, role: str) -> str:
        return self.parts[0].own_name(role)

    def labels_at(self, start: int, stop: int) -> IntArray:
        parts = within(self._counts, start, stop)
        return np.concatenate([self.parts[at].labels_at(low, high) for at, _, low, high in parts])

    def weights(self) -> FloatArray | None:
        given = [w for part in self.parts if (w := part.weights()) is not None]
        return np.concatenate(given) if given else None

    def pieces(self, transforms: Sequence[int], rows: int, start: int, stop: int) -> Iterator[Block]:
        for at, begin, low, high in within(self._counts, start, stop):
            for piece in self.parts[at].pieces(transforms, rows, low, high):
                yield replace(piece, start=begin + piece.start, scores=piece.scores.astype(self.dtype, copy=False))


def _alike(rows: BundleRows) -> Iterator[str]:
    """In words what bundles that are one data set have in common."""
    names = rows.class_names
    yield f"holds {rows.kind}"
    yield f"has {rows.k} classes"
    yield "has no class_names" if names is None else "has class_names"
    yield from (f"calls class {c} {name!r}" for c, name in enumerate(names or ()))
    yield f"is calibrated by {words(rows.upstream)}" if rows.upstream else "is uncalibrated"
    yield f"has the transforms {', '.join(rows.transforms) or 'none'}"
    yield "has labels" if rows.has_labels else "has no labels"
    yield "has no weights" if rows.weights() is None else "has weights"
    yield "has predictions" if rows.assigned else "has no predictions"


def allow_open_files(count: int) -> int | None:
    """Ask the system for enough open files at a time, as far as it lets us; returns how many it allows, if it says."""
    with suppress(ImportError, OSError, ValueError):  # no such module, or not allowed: opening says which file failed
        from resource import RLIMIT_NOFILE, getrlimit, setrlimit

        soft, hard = getrlimit(RLIMIT_NOFILE)
        if 0 <= soft < count + SPARE_FILES:
            soft = count + SPARE_FILES if hard < 0 else min(hard, count + SPARE_FILES)
            setrlimit(RLIMIT_NOFILE, (soft, hard))
        return soft if soft >= 0 else None
    return None


def check_open_files(count: int) -> None:
    """Raise CalcliError where the system does not allow so many files to be open together."""
    allowed = allow_open_files(count)
    if allowed is not None and allowed < count + FEWEST_BESIDE:
        told = f"{count} bundles are open together as one data set, and this system allows {allowed} open files"
        advice = "raise the limit (ulimit -n), or make one bundle of them first: calcli extract --join"
        raise CalcliError(f"{told}; {advice}")
