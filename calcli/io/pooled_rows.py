"""Several open bundles as one data set."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from calcli.block import Block
from calcli.errors import DataError
from calcli.io.artifact import Artifact, Link
from calcli.io.cells import together
from calcli.io.dataset import CACHE_BYTES, DataSet
from calcli.io.provenance import of_several, words
from calcli.items import present
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.records import cached_property
from calcli.rounding import by_bits, float_type
from calcli.statistics.units import Units
from calcli.zeros import Zeros, pooled

if TYPE_CHECKING:
    from calcli.io.bundle import BundleRows


class PooledRows(DataSet):
    """Concatenated rows of several open bundles, with the same results as one file of
    them.

    Raises DataError that names the first bundle whose classes, kind, class names,
    transforms, upstream calibrators, labels, weights or predictions differ from those
    of the first. ``column`` refuses columns that some have.
    """

    def __init__(self, parts: "Sequence[BundleRows]") -> None:
        first = parts[0]
        alike = list(_shared_properties(parts[0]))
        for part in parts[1:]:
            for has, expected in zip(_shared_properties(part), alike, strict=False):
                if has != expected:
                    raise DataError(must_agree(part.name, has, first.name, expected))
        self.parts = parts
        self._counts = [part.n for part in parts]
        self.n = sum(self._counts)
        self.k = first.k
        self.kind = first.kind
        self.total = sum(part.total for part in parts)
        self.dtype = np.result_type(*(part.dtype for part in parts))
        self.transforms = first.transforms
        self.path = first.path
        self.name = f"{first.name} and {len(parts) - 1} more"
        self.has_labels = first.has_labels
        self.unit = first.unit
        self.ordered = first.ordered
        if first.n_options is not None:
            numbers = present(part.n_options for part in parts)
            self.n_options = np.concatenate(numbers)
        self.one_column = all(part.one_column for part in parts)
        small = sum(part.nbytes for part in parts) <= CACHE_BYTES
        for part in parts:
            part.small = small

    def _found_zeros(self) -> Zeros:
        recorded = [part.recorded_zeros for part in self.parts]
        known = present(recorded)
        if len(known) == len(recorded):
            return pooled(known)
        # Numbers keep the digits of the type in which they were stored.
        kind = min((float_type(part.dtype) for part in self.parts), key=by_bits)
        return Zeros.of(self.digits(kind), kind, self.one_column)

    @property
    def class_names(self) -> list[str] | None:
        return self.parts[0].class_names

    @property
    def upstream(self) -> tuple[Link, ...]:
        return tuple(map(of_several, *(part.upstream for part in self.parts)))

    @property
    def last_calibrator(self) -> Artifact | None:
        # the parts have the same upstream calibrators
        return self.parts[0].last_calibrator

    @property
    def source(self) -> Any:
        return [{"bundle": part.name, "source": part.source} for part in self.parts]

    @property
    def recorded(self) -> list[str]:
        every_text = chain.from_iterable(part.recorded for part in self.parts)
        return list(dict.fromkeys(every_text))

    def column(self, name: str) -> AnyArray | None:
        columns = [part.column(name) for part in self.parts]
        lacking = []
        for part, values in zip(self.parts, columns, strict=True):
            if values is None:
                lacking.append(part.name)
        if len(lacking) == len(columns):
            return None
        if lacking:
            raise DataError(
                f"{lacking[0]}: has no dataset {name!r}, others of these bundles do;"
                " add it or drop it there"
            )
        return together(present(columns))

    @cached_property
    def given_units(self) -> Units | None:
        units = super().given_units
        part = np.repeat(np.arange(len(self.parts)), self._counts)
        if units is not None:
            first = part[units.order[units.starts]]
            last = part[units.order[units.starts + units.count - 1]]
            if (first != last).any():
                cut = int(np.flatnonzero(first != last)[0])
                first_row = units.order[units.starts[cut]]
                name = self.column("unit")[first_row]  # type: ignore[index]
                raise DataError(
                    f"{self.own_name('unit')} {name} is cut:"
                    f" {self.parts[first[cut]].name} and {self.parts[last[cut]].name}"
                    " hold rows of it; keep the rows of a unit in one file, give others"
                    " names of their own, or pass --unit none"
                )
        return units

    def own_name(self, role: str) -> str:
        return self.parts[0].own_name(role)

    def labels_at(self, start: int, stop: int) -> IntArray:
        parts = within(self._counts, start, stop)
        return np.concatenate(
            [self.parts[part].labels_at(low, high) for part, _, low, high in parts]
        )

    @property
    def given_weights(self) -> FloatArray | None:
        weights = [part.given_weights for part in self.parts]
        known = present(weights)
        return np.concatenate(known) if known else None

    def pieces(
        self, transforms: Sequence[int], rows: int, start: int, stop: int
    ) -> Iterator[Block]:
        for part, begin, low, high in within(self._counts, start, stop):
            for piece in self.parts[part].pieces(transforms, rows, low, high):
                yield replace(
                    piece,
                    start=begin + piece.start,
                    scores=piece.scores.astype(self.dtype, copy=False),
                )


def _shared_properties(rows: "BundleRows") -> Iterator[str]:
    """Describe the properties that pooled bundles must share, one string each."""
    names = rows.class_names
    yield f"holds {rows.kind}"
    yield f"has {rows.k} classes"
    yield _has_or_not(rows.n_options is not None, "n_options")
    yield _has_or_not(names is not None, "class_names")
    for number, name in enumerate(names or ()):
        yield f"calls class {number} {name!r}"
    if rows.upstream:
        yield f"is calibrated by {words(rows.upstream)}"
    else:
        yield "is uncalibrated"
    yield f"has the transforms {', '.join(rows.transforms) or 'none'}"
    if rows.ordered:
        yield "has ordered classes"
    else:
        yield "has classes without an order"
    yield _has_or_not(rows.has_labels, "labels")
    yield _has_or_not(rows.given_weights is not None, "weights")
    yield _has_or_not(rows.assigned, "predictions")


def must_agree(name: str, has: str, first: str, expected: str) -> str:
    """Say in what a bundle differs from the first of those it is taken together with."""
    return (
        f"{name}: {has}, {first} {expected}; bundles that are taken together must agree"
        " in it"
    )


def _has_or_not(has_it: bool, what: str) -> str:
    return f"has {what}" if has_it else f"has no {what}"


def within(
    counts: Iterable[int], start: int, stop: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the parts that overlap rows start..stop-1: index, first row of the part,
    start and stop within it.
    """
    begin = 0
    for part, count in enumerate(counts):
        low = max(start, begin)
        high = min(stop, begin + count)
        if low < high:
            yield part, begin, low - begin, high - begin
        begin += count
