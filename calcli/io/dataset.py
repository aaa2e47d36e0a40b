"""Rows with a name and an origin.

Blocks hold the same rows wherever slabs and files end, so that results have
the same bytes however the rows are divided into files.
"""

import hashlib
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from calcli.block import Block, Codes, joined
from calcli.errors import DataError, InvalidRows
from calcli.io.artifact import Artifact, Link
from calcli.io.locate import Location, columns_in, intersections
from calcli.io.provenance import NOT_HELD_OUT, in_sample
from calcli.io.row_facts import RowFacts, rounding, row_facts
from calcli.io.validate import doubts
from calcli.numerics import AnyArray, FloatArray, IntArray
from calcli.records import cached_property
from calcli.rows import (
    ArrayRows,
    AtOnce,
    Rows,
    Walk,
    part_blocks,
    rows_per_block,
    sample_runs,
)
from calcli.statistics.units import Units
from calcli.statistics.weights import effective_weights

SLAB_BYTES = 4 << 20  # bytes of a file read at once
CACHE_BYTES = 32 << 20  # scores up to this size are read once and kept in memory
NO_UNIT = "none"  # value of ``--unit`` for independent rows, even if the file has units
HASHED_LABELS = 1 << 20  # labels hashed at once


class DataSet(Rows):
    """Labelled rows with a name and an origin.

    name : as the user writes it, ``logits.h5:test``. path : the (first) file. total :
    all rows, with those left out by label (``ignored``). dtype : of the scores.
    has_labels : whether there are labels. data_sha256 : hash of scores and labels in
    row order, known after the first complete pass, unless ``hashed`` is false: of the
    scores if they are one part, else of the hashes of the parts, which other processes
    can compute. facts : statistics of single rows, known then too (see ``facts_of``).
    spread : runs passes in other processes, or None. progress : callback for the rows
    that a pass has read. unit : dataset of the units as requested, ``none`` for
    independent rows. likely_unit : unused column of an imported file that looks like
    units, for commands to propose. arrays : of an imported file which array was read as
    what, in words. n_options : (total,) where columns are options of the row.
    """

    name: str
    path: Path
    total: int
    dtype: np.dtype[Any]
    has_labels: bool
    data_sha256: str | None = None
    hashed: bool = True
    facts: RowFacts | None = None
    spread: Callable[["DataSet", Walk], Iterator[Any]] | None = None
    progress: Callable[[str, int, int], None] | None = None
    unit: str | None = None
    likely_unit: str | None = None
    arrays: str = ""
    n_options: IntArray | None = None
    options: tuple[str, ...] = ()

    @property
    def ignored(self) -> int:
        """Number of rows left out by label."""
        return self.total - self.n

    @property
    def location(self) -> Location:
        """Names of these rows and of others of their model, for suggested commands.

        Empty unless from one file.
        """
        file = self.path.name
        is_of_file = self.name == file or self.name.startswith(f"{file}:")
        here = ""
        if is_of_file and self.path.is_file():
            here = str(self.path.parent / self.name)
        return Location(here, options=self.options)

    @property
    def nbytes(self) -> int:
        """Size of all scores in memory."""
        return self.total * self.k * self.dtype.itemsize

    @property
    @abstractmethod
    def source(self) -> Any:
        """Origin of the scores, as recorded in the file."""

    @property
    def is_stratified(self) -> bool:
        """True if the rows are recorded as part of a split by label, whose parts have
        the same proportions of labels.
        """
        source = self.source
        split = source.get("split") if isinstance(source, dict) else None
        return isinstance(split, dict) and split.get("method") == "stratified"

    @property
    @abstractmethod
    def upstream(self) -> tuple[Link, ...]:
        """Calibrators that have been applied to the scores, oldest first."""

    @property
    @abstractmethod
    def last_calibrator(self) -> Artifact | None:
        """The calibrator that was applied last, None where its record is not stored."""

    @property
    @abstractmethod
    def recorded(self) -> list[str]:
        """Warnings for every report of these rows, from the file's record of its
        origin.
        """

    @property
    def caveats(self) -> list[str]:
        """Warnings for every report of these rows, and notes on them."""
        return [*self.doubts, *rounding(self)]

    @property
    def doubts(self) -> list[str]:
        """Warnings: calibrators applied, recorded warnings, doubtful scores."""
        warnings = [*self.recorded, *doubts(self)]
        reason = in_sample(self.upstream)
        if reason:
            warnings.insert(0, f"{reason}: {NOT_HELD_OUT}")
        return warnings

    @property
    def notes(self) -> list[str]:
        """What is to be known of these rows and is no reason to doubt them."""
        return rounding(self)

    @abstractmethod
    def column(self, name: str) -> AnyArray | None:
        """One value per kept row (``ids``, ``group``, ``unit``, ``prediction``), or
        None if missing.

        Columns named by the user replace those with the standard names. Raises
        DataError if a named column does not exist.
        """

    def own_name(self, role: str) -> str:
        """Original name of a column in the source of the rows: ``patient`` for
        ``unit``.
        """
        return role

    def units(self) -> Units | None:
        units = self.given_units
        return None if units is None or units.single else units

    @property
    def unit_name(self) -> str | None:
        """Dataset of the units, ``none`` if the user opted out, None if there are no
        units.
        """
        if self.unit == NO_UNIT:
            return NO_UNIT
        return None if self.units() is None else self.own_name("unit")

    @cached_property
    def given_units(self) -> Units | None:
        """Units as given, even if each has one row only.

        Raises DataError if invalid: NaN, or all rows in one unit.
        """
        if self.unit == NO_UNIT:
            return None
        values = self.column("unit")
        name = self.own_name("unit")
        if values is None:
            return None
        units = Units.of(values)
        if units.n < 2:
            raise DataError(
                f"{self.name}: all {self.n} rows are of one {name} ({values[0]}), and"
                " nothing can be told from one; name another with --unit NAME, or pass"
                " --unit none"
            )
        return units

    def carry(self, name: str) -> Codes:
        """Attach a column to every block, and return the whole column.

        Raises DataError if it does not exist.
        """
        if name not in self.columns:
            is_group = _same_columns(self.own_name("group"), name)
            values = self.column("group" if is_group else name)
            # Multi-label: the groups are the labels' names.
            if values is None and name == "label":
                values = self.column("group")
            if values is None:
                values = self._combined(name)
            if values is None:
                message = (
                    f"has no dataset {name!r} with one value per row, which is needed"
                    " here"
                )
                options = " ".join(f"--group-by {part}" for part in columns_in(name))
                raise DataError(
                    f"{self.name}: {message}; of a table name it with {options}"
                )
            self.columns = {**self.columns, name: Codes.of(values)}
        return self.columns[name]

    def group_codes(self) -> list[IntArray]:
        codes = super().group_codes()
        if self._codes_of_groups is not None:
            codes.append(self._codes_of_groups)
        return codes

    @cached_property
    def _codes_of_groups(self) -> IntArray | None:
        groups = self.column("group")
        return None if groups is None else Codes.of(groups).code

    def _combined(self, name: str) -> AnyArray | None:
        """Intersections of the columns that a name joins; None where one is missing."""
        parts = columns_in(name)
        if len(parts) < 2:
            return None
        columns = {}
        for part in parts:
            values = self.column(part)
            if values is None:
                return None
            columns[part] = values
        return intersections(columns)

    @abstractmethod
    def pieces(
        self, transforms: Sequence[int], rows: int, start: int, stop: int
    ) -> Iterator[Block]:
        """Read rows start..stop-1 in pieces of about ``rows`` rows, multiples of it
        where possible, without their weights, whose scale only all rows together
        give.
        """

    @property
    @abstractmethod
    def given_weights(self) -> FloatArray | None:
        """Sample weights as the files hold them, (n,), or None if there are none."""

    @cached_property
    def _effective_weights(self) -> FloatArray | None:
        weights = self.given_weights
        return None if weights is None else effective_weights(weights)

    def weights(self) -> FloatArray | None:
        return self._effective_weights

    @property
    def has_zero_weights_only(self) -> bool:
        weights = self.given_weights
        return weights is not None and not weights.any()

    def check_weights(self) -> None:
        """Refuse rows none of which counts. Raises InvalidRows."""
        if not self.has_zero_weights_only:
            return
        left = " of the rows that are left" if self.ignored else ""
        raise InvalidRows(
            f"{self.name}: weights: all weights{left} are zero, expected at least one"
            " positive weight; delete them if unused"
        )

    def run(self, start: int, stop: int) -> Block:
        """Read rows start..stop-1 as one block."""
        block = joined([*self.pieces((), stop - start, start, stop)])
        weight = self.weights()
        return block if weight is None else replace(block, weight=weight[start:stop])

    @abstractmethod
    def labels_at(self, start: int, stop: int) -> IntArray:
        """Labels of rows start..stop-1, int64."""

    def labels(self) -> IntArray:
        return self.labels_at(0, self.n)

    def blocks(
        self, transforms: Sequence[int] = (), at_once: AtOnce = 1
    ) -> Iterator[Block]:
        zeros = self.zeros
        step = at_once * self.block_rows(transforms)
        pieces = self.pieces(transforms, self.slab_rows(transforms, step), 0, self.n)
        weight = self.weights()
        for block in regular(self._followed(pieces), step):
            here = block.span
            if weight is not None:
                block = replace(block, weight=weight[here])
            columns = {name: column.take(here) for name, column in self.columns.items()}
            yield replace(block, columns=columns, zeros=zeros)

    def _followed(self, pieces: Iterator[Block]) -> Iterator[Block]:
        """Yield the pieces.

        The first complete pass also sets the hash and the facts of the rows.
        """
        hashed = self.data_sha256 is not None or not self.hashed
        known = self.facts is not None
        facts = None
        cell = self.part_rows()
        position = 0
        digests: defaultdict[int, hashlib._Hash] = defaultdict(hashlib.sha256)
        for piece in pieces:
            cells = range(0)
            if not hashed:
                first_cell = position - position % cell
                cells = range(first_cell, position + len(piece), cell)
            for low in cells:
                digests[low].update(
                    np.ascontiguousarray(
                        piece.scores[max(low - position, 0) : low + cell - position]
                    ).data
                )
            position += len(piece)
            if not known:
                piece_facts = row_facts(piece)
                facts = piece_facts if facts is None else facts + piece_facts
            if self.progress is not None:
                self.progress("rows read", position, self.n)
            yield piece
        if not hashed:
            if len(digests) > 1:
                self.seal([digest.digest() for digest in digests.values()])
            else:
                self.seal(digests[0])
        self.facts = self.facts or facts

    def block_rows(self, transforms: Sequence[int] = ()) -> int:
        """Number of rows of a block."""
        n_rows = rows_per_block(self.k)
        if len(transforms):
            n_rows = min(n_rows, self.slab_rows(transforms, 1))
        return n_rows

    def slab_rows(self, transforms: Sequence[int], step: int) -> int:
        """Number of rows read at once: a multiple of ``step``."""
        slab = max(
            1, SLAB_BYTES // ((1 + len(transforms)) * self.k * self.dtype.itemsize)
        )
        return max(1, slab // step) * step

    def part_rows(self, transforms: Sequence[int] = ()) -> int:
        """Number of rows of a part (see ``Rows.walked``)."""
        return part_blocks(self.k) * self.block_rows(transforms)

    # ---- work spread over processes

    def walked(self, walk: Walk) -> Iterator[Any]:
        if self.spread is None or self.n <= self.part_rows(walk.transforms):
            return super().walked(walk)
        weight = self.weights()
        if weight is not None:
            work = partial(_weighted, walk.work)
            walk = replace(walk, work=work, along=(weight, *walk.along))
        if self.columns:
            names = {name: column.names for name, column in self.columns.items()}
            along = (*(column.code for column in self.columns.values()), *walk.along)
            walk = replace(walk, work=partial(_carrying, walk.work, names), along=along)
        results = self.spread(self, walk)
        if walk.add_up:
            return results
        return chain.from_iterable(results)

    def seal(self, scores: "list[bytes] | hashlib._Hash") -> None:
        """Set the hash, from the digests of the parts' scores, or the hash object of a
        single part's scores.
        """
        digest = scores
        if isinstance(digest, list):
            digest = hashlib.sha256(b"".join(digest))
        if self.has_labels:
            for start in range(0, self.n, HASHED_LABELS):
                digest.update(
                    self.labels_at(start, min(start + HASHED_LABELS, self.n)).data
                )
        digest.update(f"{self.kind} {self.dtype.str} {self.n} {self.k}".encode())
        self.data_sha256 = digest.hexdigest()

    def sample(self, count: int) -> ArrayRows:
        drawn = joined(
            [self.run(start, stop) for start, stop in sample_runs(self.n, count)]
        )
        rows = ArrayRows(drawn.scores, drawn.labels, self.kind, weight=drawn.weight)
        return rows.counting(self.zeros)


def _weighted(
    work: Callable[..., Any], block: Block, weight: FloatArray, *along: Any
) -> Any:
    """Attach weights to a block in another process, and call ``work``."""
    return work(replace(block, weight=weight), *along)


def _same_columns(one: str, other: str) -> bool:
    """True for the names of the same columns, joined by commas, in any order."""
    return sorted(columns_in(one)) == sorted(columns_in(other))


def _carrying(
    work: Callable[..., Any],
    names: Mapping[str, tuple[str, ...]],
    block: Block,
    *along: Any,
) -> Any:
    """Attach columns to a block in another process (names given, codes first in
    ``along``), and call ``work``.
    """
    columns = {}
    for name, code in zip(names, along, strict=False):
        columns[name] = Codes(names[name], code)
    return work(replace(block, columns=columns), *along[len(names) :])


def regular(pieces: Iterable[Block], step: int) -> Iterator[Block]:
    """Regroup pieces into blocks of ``step`` rows.

    Only blocks that span several pieces are copied.
    """
    rest: list[Block] = []
    waiting = 0
    for piece in pieces:
        begin = 0
        while waiting + len(piece) - begin >= step:
            end = begin + step - waiting
            yield joined([*rest, piece.cut(begin, end)])
            rest = []
            waiting = 0
            begin = end
        if begin < len(piece):
            rest.append(piece.cut(begin, len(piece)))
            waiting += len(piece) - begin
    if rest:
        yield joined(rest)
