"""Rows of a batch that were in an earlier one: the same file, a copy of it, a log that grows.

A set of rows is recognised by the sum of their hashes, in any order; rows among others by
the smallest hashes (see ``calcli.io.row_facts``). Where confidences have few values other
rows have the same hashes by chance, and are not refused for it.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from calcli.errors import DataError
from calcli.fast_dataclass import dataclass
from calcli.io.dataset import DataSet
from calcli.io.row_facts import (
    ALL,
    MODULUS,
    Overlap,
    RowSketch,
    Signatures,
    SignedRows,
    chance_of_equal,
    matches_by_chance,
    overlap,
    part_in_words,
    signed_rows,
    sketch_of,
    total_of,
)
from calcli.numerics import AnyArray

CHANCE = 1e-6
"""Chance of an equal set of rows above which it counts as new: a state may hold hundreds
of batches, and each is compared with all before."""

MOST_NAMED = 3  # earlier batches that a message names


@dataclass(frozen=True)
class EarlierBatch:
    """A batch of the state. rows, ids : its sketches, None if it has none."""

    name: str
    n: int
    rows: RowSketch | None
    ids: RowSketch | None


@dataclass(frozen=True)
class NewBatch:
    """The rows of a batch by their hashes, in the order of the file. ids : hashes of the
    ids, None if they do not tell rows apart."""

    name: str
    rows: SignedRows
    ids: Signatures | None
    stratified: bool

    @classmethod
    def of(cls, rows: DataSet) -> "NewBatch":
        ids = rows.column("ids")
        return cls(
            name=rows.name,
            rows=signed_rows(rows),
            ids=None if ids is None else id_signatures(ids, rows.total),
            stratified=rows.is_stratified,
        )

    def after(self, first: int) -> "NewBatch":
        """The rows from this one on."""
        ids = None if self.ids is None else self.ids[first:]
        rows = self.rows.take(slice(first, None))
        return NewBatch(self.name, rows, ids, self.stratified)

    @property
    def row_sketch(self) -> RowSketch:
        return _sketch(self.rows.signatures)

    @property
    def id_sketch(self) -> RowSketch | None:
        return None if self.ids is None else _sketch(self.ids)


def _sketch(found: Signatures) -> RowSketch:
    return sketch_of(np.sort(found), total_of(found))


def id_signatures(ids: AnyArray, total: int) -> Signatures | None:
    """Hash every id, (n,); None where ids repeat, or are no more than the numbers of the
    rows of a file, which begin anew in every file. total : rows of the file."""
    texts = [str(value) for value in ids.tolist()]
    if len(set(texts)) < len(texts):
        return None
    if all(_is_row_number(text, total) for text in texts):
        return None
    digests = [
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for text in texts
    ]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def _is_row_number(text: str, total: int) -> bool:
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(total))
    return is_number and int(text) <= total


# ---- a whole set of rows


@dataclass(frozen=True)
class Run:
    """Consecutive batches whose rows, together, are the first rows of a file."""

    names: tuple[str, ...]
    n: int

    @property
    def called(self) -> str:
        """Names of the batches: the only one, or the first and the last."""
        if len(self.names) == 1:
            return self.names[0]
        return f"{self.names[0]} to {self.names[-1]}"


def run_at_start(batch: NewBatch, earlier: Sequence[EarlierBatch]) -> Run | None:
    """Longest run of batches whose rows are the first rows of the file, in any order: all
    rows of a file that is given again, the first ones of a log that grows. None if there
    is none, or chance explains it."""
    found = longest_run(batch, earlier)
    if found is None:
        return None
    start = batch.rows.take(slice(0, found.n))
    chance = chance_of_equal(start, stratified=batch.stratified)
    return None if chance > CHANCE else found


def longest_run(batch: NewBatch, earlier: Sequence[EarlierBatch]) -> Run | None:
    """As ``run_at_start``, also where chance explains it."""
    sums = np.cumsum(batch.rows.signatures)  # modulo 2^64
    id_sums = None if batch.ids is None else np.cumsum(batch.ids)
    longest = None
    for first in range(len(earlier)):
        n, total, id_total = 0, 0, 0
        have_ids = id_sums is not None
        for last in range(first, len(earlier)):
            member = earlier[last]
            n += member.n
            if member.rows is None or member.rows.sum is None or n > len(sums):
                break
            total = (total + member.rows.sum) % MODULUS
            if member.ids is None or member.ids.sum is None:
                have_ids = False  # ids cannot tell
            else:
                id_total = (id_total + member.ids.sum) % MODULUS
            if int(sums[n - 1]) != total or (longest is not None and n <= longest.n):
                continue
            if have_ids and id_sums is not None and int(id_sums[n - 1]) != id_total:
                continue
            names = tuple(each.name for each in earlier[first : last + 1])
            longest = Run(names, n)
    return longest


def differs_by_one(batch: NewBatch, earlier: EarlierBatch) -> bool:
    """True for the rows of an earlier batch with one of them left out, or one added."""
    if earlier.rows is None or earlier.rows.sum is None:
        return False
    both_ids = batch.ids is not None and earlier.ids is not None
    n = len(batch.rows)
    if both_ids or abs(n - earlier.n) != 1:
        return False
    difference = earlier.rows.sum - total_of(batch.rows.signatures)
    if n > earlier.n:
        difference = -difference
    odd_row = np.uint64(difference % MODULUS)
    known = np.concatenate([batch.rows.signatures, earlier.rows.signatures])
    chance = n * chance_of_equal(batch.rows, stratified=batch.stratified)
    return bool((known == odd_row).any()) and chance <= CHANCE


# ---- rows among others


def check_new(batch: NewBatch, earlier: Sequence[EarlierBatch]) -> None:
    """Refuse a batch with rows that were in earlier ones. Raises DataError."""
    names, share = list[str](), 0.0
    for member in earlier:
        if differs_by_one(batch, member):
            names, share = [member.name], 1.0
            break
        both = _overlap_with(batch, member)
        if both is not None:
            names.append(member.name)
            share += both.share
    if names:
        told = f"{part_in_words(share)} of these rows were there before"
        if share >= ALL:
            told = "these rows, or copies of them, were there before"
        advice = "a row counts once: give the new rows alone"
        raise DataError(f"{batch.name}: {told}, as {_listed(names)}; {advice}")


def _overlap_with(batch: NewBatch, earlier: EarlierBatch) -> Overlap | None:
    """Rows that the batch shares with an earlier one: by ids where both have them, else
    by scores and labels."""
    if batch.ids is not None and earlier.ids is not None:
        return overlap(earlier.ids, earlier.n, np.sort(batch.ids), len(batch.ids))
    if earlier.rows is None:
        return None
    rows = batch.rows
    both = overlap(earlier.rows, earlier.n, np.sort(rows.signatures), len(rows))
    if both is None:
        return None
    by_chance = matches_by_chance(rows, earlier.n) * both.cells
    return both if both.is_above(by_chance) else None


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        shown += f" and {len(names) - MOST_NAMED} more"
    return shown
