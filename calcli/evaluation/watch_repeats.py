"""Rows of a batch that were in an earlier one: the same file, a copy of it, a log that
grows.

A set of rows is recognised by the sum of their hashes, in any order; rows among others
by the smallest hashes (see ``calcli.io.rows_seen``), rounded ones by the numbers of
rows with like scores (``rounded_copies``). Where confidences have few values other rows
are equal by chance, and are not refused for it.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from calcli.errors import DataError
from calcli.evaluation.rounded_copies import (
    CountedScores,
    ScoreCounts,
    named_rows,
    rows_of_earlier,
)
from calcli.io.dataset import DataSet
from calcli.io.row_signatures import MODULUS, Signatures, total_of
from calcli.io.rows_seen import (
    ALL,
    STORED,
    Overlap,
    RowSketch,
    SignatureSet,
    SignedRows,
    chance_of_equal,
    is_by_design,
    matches_by_chance,
    overlap,
    part_in_words,
    signed_rows,
    signed_scores,
    sketch_of,
)
from calcli.numerics import AnyArray, FloatArray
from calcli.records import cached_property

CHANCE = 1e-4
"""Chance that rows equal those of any earlier batch above which they count as new: a
state may hold hundreds of batches, and each is compared with all before."""

MOST_NAMED = 3  # earlier batches that a message names


@dataclass(frozen=True)
class EarlierBatch:
    """A batch of the state. rows, scores, ids : its sketches, None if it has none.
    counts : its rows by their scores, None if unknown."""

    name: str
    n: int
    rows: RowSketch | None
    scores: RowSketch | None
    ids: RowSketch | None
    counts: ScoreCounts | None


@dataclass(frozen=True)
class NewBatch:
    """The rows of a batch by their hashes, in the order of the file.

    rows : by the scores of all classes and the label, as they are in the file. scores :
    by the calibrated score that is bet on and its outcome, which are the same in a file
    that ``apply`` has written, and nearly in one of few digits. ids : hashes of the
    ids, None if they do not tell rows apart. counted : by cells of what is bet on.
    """

    name: str
    rows: SignedRows
    scores: SignedRows
    ids: Signatures | None
    counted: CountedScores
    stratified: bool

    @classmethod
    def of(cls, rows: DataSet, score: FloatArray, outcome: FloatArray) -> "NewBatch":
        """Hash the rows. score, outcome : (n,) what is bet on."""
        ids = rows.column("ids")
        signed = signed_rows(rows)
        is_design = is_by_design(signed.labels, stratified=rows.is_stratified)
        return cls(
            name=rows.name,
            rows=signed,
            scores=signed_scores(score, outcome),
            ids=None if ids is None else id_signatures(ids, rows.total),
            counted=CountedScores.of(score, outcome, signed.labels, is_design),
            stratified=rows.is_stratified,
        )

    @cached_property
    def row_set(self) -> SignatureSet:
        return SignatureSet.of(self.rows.signatures)

    @cached_property
    def score_set(self) -> SignatureSet:
        return SignatureSet.of(self.scores.signatures)

    def after(self, first: int) -> "NewBatch":
        """The rows from this one on."""
        kept = slice(first, None)
        return NewBatch(
            name=self.name,
            rows=self.rows.take(kept),
            scores=self.scores.take(kept),
            ids=None if self.ids is None else self.ids[kept],
            counted=self.counted.take(kept),
            stratified=self.stratified,
        )

    @property
    def row_sketch(self) -> RowSketch:
        return sketch_of(self.row_set.smallest, total_of(self.rows.signatures))

    @property
    def score_sketch(self) -> RowSketch:
        return sketch_of(self.score_set.smallest, total_of(self.scores.signatures))

    @property
    def id_sketch(self) -> RowSketch | None:
        if self.ids is None:
            return None
        return sketch_of(np.sort(self.ids), total_of(self.ids))


def id_signatures(ids: AnyArray, total: int) -> Signatures | None:
    """Hash every id, (n,); None where ids repeat, or are no more than the numbers of
    the rows of a file, which begin anew in every file. total : rows of the file."""
    texts = list(map(str, ids.tolist()))
    if len(set(texts)) < len(texts):
        return None
    if all(_is_row_number(text, total) for text in texts):
        return None
    digests = bytearray()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digests += hashlib.blake2b(data, digest_size=8).digest()
    return np.frombuffer(digests, "<u8").astype(np.uint64)


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


def is_no_chance(batch: NewBatch, n: int, earlier: Sequence[EarlierBatch]) -> bool:
    """True if the first n rows can hardly be equal to those of an earlier batch by
    chance."""
    first = batch.rows.take(slice(0, n))
    chance = chance_of_equal(first, stratified=batch.stratified)
    return chance * len(earlier) <= CHANCE


def longest_run(batch: NewBatch, earlier: Sequence[EarlierBatch]) -> Run | None:
    """Longest run of batches whose rows are the first rows of the file, in any order:
    all rows of a file that is given again, the first ones of a log that grows. None if
    there is none. ``is_no_chance`` tells whether chance explains it."""
    sums = np.cumsum(batch.rows.signatures)  # modulo 2^64
    id_sums = None if batch.ids is None else np.cumsum(batch.ids)
    longest = None
    for first in range(len(earlier)):
        for run in _runs_from(earlier[first:], sums, id_sums):
            if longest is None or run.n > longest.n:
                longest = run
    return longest


def _runs_from(
    batches: Sequence[EarlierBatch], sums: Signatures, id_sums: Signatures | None
) -> Iterator[Run]:
    """Iterate over the runs that begin with the first of some batches.

    sums, id_sums : of the signatures of the file's first rows and ids, (n,), modulo
    2^64.
    """
    n = 0
    total = 0
    id_total = 0
    for count, member in enumerate(batches, start=1):
        n += member.n
        if member.rows is None or member.rows.sum is None or n > len(sums):
            return
        total = (total + member.rows.sum) % MODULUS
        if member.ids is None or member.ids.sum is None:
            id_sums = None  # ids cannot tell
        else:
            id_total = (id_total + member.ids.sum) % MODULUS
        if int(sums[n - 1]) != total:
            continue
        if id_sums is None or int(id_sums[n - 1]) == id_total:
            yield Run(tuple(one.name for one in batches[:count]), n)


def differs_by_one(batch: NewBatch, earlier: EarlierBatch, most: float) -> bool:
    """True for the rows of an earlier batch with one of them left out, or one added.

    The sums of hashes then differ by the hash of that row. It is known where it was
    added, and of a row that was left out where it is among the hashes that are kept.
    most : largest chance of a coincidence that still counts as a repeat.
    """
    n = len(batch.rows)
    if earlier.rows is None or earlier.rows.sum is None or abs(n - earlier.n) != 1:
        return False
    difference = earlier.rows.sum - total_of(batch.rows.signatures)
    if n > earlier.n:
        difference = -difference
    odd_row = np.uint64(difference % MODULUS)
    known = np.concatenate([batch.rows.signatures, earlier.rows.signatures])
    chance = n * chance_of_equal(batch.rows, stratified=batch.stratified)
    return bool((known == odd_row).any()) and chance <= most


# ---- rows among others


def check_new(batch: NewBatch, earlier: Sequence[EarlierBatch]) -> None:
    """Refuse a batch with rows that were in earlier ones. Raises DataError."""
    by_ids = list[str]()
    by_scores = list[str]()
    share = 0.0
    most = CHANCE / max(len(earlier), 1)
    for member in earlier:
        if batch.ids is not None and member.ids is not None:
            overlap_share = _share_of_ids(batch.ids, member.ids)
            names = by_ids
        else:
            overlap_share = _share_of_rows(batch, member, most)
            names = by_scores
        if overlap_share:
            names.append(member.name)
            share += overlap_share
    if not (by_ids or by_scores):
        _check_not_rounded(batch, earlier, most)
        return
    counted = f"{part_in_words(share)} of these rows"
    if share >= ALL:
        counted = "these rows, or copies of them,"
    advice = "a row counts once: give the new rows alone"
    if by_ids:
        advice += ", or pass --ids none if every file counts its ids anew"
    raise DataError(
        f"{batch.name}: {counted} were already counted ({_listed(by_ids + by_scores)});"
        f" {advice}"
    )


def _check_not_rounded(
    batch: NewBatch, earlier: Sequence[EarlierBatch], most: float
) -> None:
    """Refuse a batch that begins with the rows of an earlier one, rounded. Raises
    DataError. most : largest chance of a coincidence that still counts as a repeat."""
    names, numbers = list[str](), list[int]()
    for member in earlier:
        ids_tell = batch.ids is not None and member.ids is not None
        if ids_tell or member.counts is None:
            continue
        n = rows_of_earlier(batch.counted, member.counts, most)
        if n is not None:
            names.append(member.name)
            numbers.append(n)
    if names:
        counted = named_rows(numbers, len(batch.rows))
        raise DataError(
            f"{batch.name}: {counted} were already counted ({_listed(names)}); a row"
            " counts once: give the new rows alone"
        )


def _share_of_ids(ids: Signatures, stored: RowSketch) -> float:
    """Estimated proportion of the ids that a sketch holds too."""
    signatures = stored.signatures
    if len(signatures) >= STORED:
        ids = ids[ids <= signatures[-1]]
    if not len(ids):
        return 0.0
    return float(np.isin(ids, signatures).mean())


def _share_of_rows(batch: NewBatch, earlier: EarlierBatch, most: float) -> float:
    """Estimated proportion of the rows that an earlier batch has too, by scores and
    labels; 0 where chance explains it. most : as for ``differs_by_one``."""
    if differs_by_one(batch, earlier, most):
        return 1.0
    both = overlap(earlier.rows, earlier.n, batch.row_set)
    share = _share_beyond_chance(both, batch.rows, most)
    if share:
        return share
    both = overlap(earlier.scores, earlier.n, batch.score_set)
    return _share_beyond_chance(both, batch.scores, most)


def _share_beyond_chance(both: Overlap | None, rows: SignedRows, most: float) -> float:
    """Share of an overlap, if neither the matches nor the labels and scores behind them
    are explained by chance; else 0."""
    if both is None or both.chance > most:
        return 0.0
    expected = matches_by_chance(rows, both.n_stored) * both.rows
    return both.share if both.is_above(expected) else 0.0


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        shown += f" and {len(names) - MOST_NAMED} more"
    return shown
