"""Recognise rows that were seen before: in the fit of a calibrator, in a batch.

A sketch holds the smallest signatures of a set of rows; two sketches tell how many rows
the sets share, and what of that is chance.
"""

import base64
import binascii
import math
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from calcli.errors import DataError
from calcli.io.row_facts import RowFacts, facts_of
from calcli.io.row_signatures import (
    KEPT,
    MODULUS,
    Signatures,
    mixed,
    rounded_gaps,
    share_repeated,
)
from calcli.numerics import FloatArray, IntArray, joined_fields
from calcli.records import cached_property

if TYPE_CHECKING:
    from calcli.block import Block
    from calcli.rows import Rows


STORED = 96
"""Most signatures stored in an artifact."""

FEWEST_SHARED = 3
"""Shared signatures needed."""

DEVIATIONS = 5.0
"""Standard deviations above chance that shared signatures must be."""

ALL = 0.9  # proportion of recognised rows that counts as all: rounding hides some

PARTS = ("a few", "about a quarter", "about half", "about three quarters", "most")
"""Proportions of rows in words: estimates from the 96 rows that a sketch holds are too
coarse for percentages.
"""

SCORE_CELLS = 50_000  # cells of a probability, far wider than the last of six digits

HexDigits = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]


class RowSketch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Sketch of a set of rows, by which they are recognised.

    smallest : their smallest signatures, base64 of sorted little-endian uint64.
    repeated : proportion of rows that share their signature with another. total : sum
    of all signatures modulo 2^64, in hexadecimal digits; calcli 0.2 did not write it.
    """

    smallest: str
    repeated: Annotated[float, msgspec.Meta(ge=0, le=1)]
    total: HexDigits | msgspec.UnsetType = msgspec.UNSET

    @property
    def signatures(self) -> Signatures:
        """Decoded smallest signatures. Raises DataError for an invalid text."""
        with suppress(binascii.Error, ValueError):
            data = base64.b64decode(self.smallest, validate=True)
            row_signatures = np.frombuffer(data, "<u8").astype(np.uint64)
            if (
                0 < len(row_signatures) <= STORED
                and (row_signatures[1:] > row_signatures[:-1]).all()
            ):
                return row_signatures
        raise DataError(
            f"fit.row_sketch.smallest is no base64 of up to {STORED} sorted numbers"
        )

    @property
    def sum(self) -> int | None:
        """Sum of all signatures modulo 2^64; None if unknown."""
        if isinstance(self.total, msgspec.UnsetType):
            return None
        return int(self.total, 16)


def sketch(facts: RowFacts) -> RowSketch | None:
    """Make the sketch to store of rows; None without labels."""
    if not len(facts.signatures):
        return None
    return sketch_of(facts.signatures, facts.total)


def sketch_of(row_signatures: Signatures, total: int) -> RowSketch:
    """Make a sketch of sorted signatures, of which the largest may be left out.

    total : sum of all.
    """
    smallest = np.unique(row_signatures)[:STORED]
    return RowSketch(
        smallest=base64.b64encode(smallest.astype("<u8").tobytes()).decode(),
        repeated=share_repeated(row_signatures),
        total=f"{total:016x}",
    )


@dataclass(frozen=True)
class SignatureSet:
    """Smallest signatures of a set of rows: sorted, at most ``KEPT``. n : all rows."""

    smallest: Signatures
    n: int

    @classmethod
    def of(cls, row_signatures: Signatures) -> "SignatureSet":
        """The smallest of all signatures, in any order."""
        return cls(np.sort(row_signatures)[:KEPT], len(row_signatures))

    @property
    def limit(self) -> int:
        """Largest signature up to which the set is complete."""
        return _limit(self.smallest, KEPT)

    @cached_property
    def cells(self) -> Signatures:
        """Distinct signatures, sorted."""
        return np.unique(self.smallest)

    @cached_property
    def times(self) -> IntArray:
        """How often each of ``cells`` occurs."""
        return np.unique(self.smallest, return_counts=True)[1]

    @cached_property
    def repeated(self) -> float:
        """Proportion of rows that share their signature with another."""
        return share_repeated(self.smallest)


@dataclass(frozen=True)
class Overlap:
    """Rows that a sketch holds too, among those with a signature of their own.

    rows : number of these rows that the sketch can tell of. shared : those of them that
    it holds. pairs : about how many signatures occur twice within either set, among
    those that the sketch can tell of. n, n_stored : all rows of both sets.
    """

    shared: int
    rows: int
    pairs: int
    n: int
    n_stored: int

    @property
    def share(self) -> float:
        """Estimated proportion of the rows that are in the sketched set."""
        return self.shared / self.rows

    @property
    def chance(self) -> float:
        """Chance of so many shared signatures in independent sets of one source: two
        rows with one signature are in different sets with chance 2 n m / (n + m)^2.
        """
        apart = 2.0 * self.n * self.n_stored / (self.n + self.n_stored) ** 2
        return _binomial_tail(self.shared, self.shared + self.pairs, apart)

    def is_above(self, expected: float) -> bool:
        """True if so many shared signatures are no chance where these are expected."""
        return self.shared > expected + DEVIATIONS * math.sqrt(expected)


def overlap(stored: RowSketch | None, n: int, rows: SignatureSet) -> Overlap | None:
    """Rows that are among the n rows of a sketch; None if chance explains the matches.

    Two bounds for what independent sets share, of which the smaller holds:

    - By chance a row of the smaller set is in the larger one about as often as the
      larger set's own rows repeat: two classes have few signatures, rounded scores
      still fewer.
    - Signatures that one row has and the other set too are at most n / rows.n times
      twice as many as those that two rows have (Poisson counts). Certain rows, which
      many have, do not hide the others then.

    Where none repeats, 3 may still be expected (the rule of three). Bottom-k sketches:
    Bar-Yossef et al. (2002).
    """
    if stored is None or not len(rows.smallest):
        return None
    stored_signatures = stored.signatures
    last = min(_limit(stored_signatures, STORED), rows.limit)
    stored_signatures = stored_signatures[stored_signatures <= last]
    # Those up to ``last`` are the first of all.
    count = int(np.searchsorted(rows.cells, np.uint64(last), side="right"))
    cells = rows.cells[:count]
    times = rows.times[:count]
    single = cells[times == 1]
    if not len(single):
        return None
    both = Overlap(
        shared=len(np.intersect1d(single, stored_signatures, assume_unique=True)),
        rows=len(single),
        pairs=int((times == 2).sum())
        + round(0.5 * stored.repeated * len(stored_signatures)),
        n=rows.n,
        n_stored=n,
    )
    smaller = len(single)
    repeated = stored.repeated
    if rows.n > n:
        smaller = len(stored_signatures)
        repeated = rows.repeated
    by_repeats = smaller * (repeated + 3.0 / max(rows.n, n))
    all_pairs = int((rows.times == 2).sum()) + 3.0
    by_pairs = 2.0 * n / rows.n * all_pairs * count / len(rows.cells)
    if both.shared < FEWEST_SHARED or not both.is_above(min(by_repeats, by_pairs)):
        return None
    return both


def _binomial_tail(least: int, trials: int, p: float) -> float:
    """Chance of at least so many successes."""
    if least <= trials * p:
        return 1.0
    log_odds = math.log(p) - math.log1p(-p)
    log_term = math.lgamma(trials + 1.0) - math.lgamma(least + 1.0)
    log_term -= math.lgamma(trials - least + 1.0)
    log_term += trials * math.log1p(-p) + least * log_odds
    total = 0.0
    term = math.exp(log_term)
    for successes in range(least, trials + 1):
        total += term
        term *= (trials - successes) / (successes + 1.0) * math.exp(log_odds)
        if term < 1e-12 * total:
            break
    return min(total, 1.0)


def part_in_words(share: float) -> str:
    """Words for an estimated proportion of rows: ``about half``."""
    return PARTS[round(4.0 * min(share, 1.0))]


def _limit(smallest: Signatures, most: int) -> int:
    """Largest signature up to which the set is complete."""
    return int(smallest[-1]) if len(smallest) >= most else MODULUS - 1


@dataclass(frozen=True)
class SignedRows:
    """Rows by their signatures, (n,) each, in the order of the rows.

    scores : signatures of the scores alone, which do not tell which class is the label.
    """

    signatures: Signatures
    scores: Signatures
    labels: IntArray

    def __len__(self) -> int:
        return len(self.signatures)

    def take(self, rows: slice) -> "SignedRows":
        return SignedRows(self.signatures[rows], self.scores[rows], self.labels[rows])


def signed_rows(rows: "Rows", largest: int = MODULUS - 1) -> SignedRows:
    """Compute the signatures of labelled rows; of those up to ``largest`` alone."""
    return joined_fields(list(rows.each(partial(_signed, largest))))


def _signed(largest: int, block: "Block") -> SignedRows:
    gaps = rounded_gaps(block)
    labels = block.labels
    row_signatures = mixed(labels.astype(np.uint64), gaps)
    scores = mixed(np.zeros(len(labels), np.uint64), gaps)
    kept = row_signatures <= np.uint64(largest)
    return SignedRows(row_signatures[kept], scores[kept], labels[kept])


def signed_scores(score: FloatArray, outcome: FloatArray) -> SignedRows:
    """Signatures of probabilities, (n,), beside whether what they are of came true:
    equal for copies of six digits, whatever the classes are, unless a probability
    rounds differently.
    """
    cells = np.rint(score * SCORE_CELLS).astype(np.int64).view(np.uint64)
    labels = outcome.astype(np.int64)
    return SignedRows(
        signatures=mixed(labels.astype(np.uint64), cells[None]),
        scores=mixed(np.zeros(len(score), np.uint64), cells[None]),
        labels=labels,
    )


def some_signed_rows(rows: "Rows") -> SignedRows:
    """The rows of which ``facts_of`` keeps the signatures."""
    return signed_rows(rows, _limit(facts_of(rows).signatures, KEPT))


def matches_by_chance(rows: SignedRows, n: int) -> float:
    """Expected proportion of rows that n independent rows hold too, by chance.

    Of the rows with a signature of their own. The independent rows have the same
    labels, and scores that do not depend on the label.

    In a set with one row of each class no two rows are equal, even if all are certain.
    """
    _, first, counts = np.unique(rows.signatures, return_index=True, return_counts=True)
    first = first[counts == 1]
    of_label = np.bincount(rows.labels) / len(rows)
    _, which, times = np.unique(rows.scores, return_inverse=True, return_counts=True)
    alike = (times[which.reshape(-1)] - 1.0) / max(len(rows) - 1.0, 1.0)
    expected = n * of_label[rows.labels[first]] * alike[first]
    return float(np.minimum(expected, 1.0).mean())


def chance_of_equal(rows: SignedRows, *, stratified: bool = False) -> float:
    """Bound for the chance that as many independent rows are equal to these, in any
    order.

    No distribution gives counts m of n rows a larger chance than their own proportions
    do, n! / prod m! prod (m / n)^m. Values that occur once show that others are
    possible: their proportion estimates the chance of a row that is not among these
    (Good, 1953), so that few rows of many values are recognised, and certain ones are
    not.

    stratified : the labels are no chance. They never are where all classes have equally
    many rows.
    """
    of_label = np.bincount(rows.labels)
    of_label = of_label[of_label > 0]
    counts = _times(rows.signatures)
    is_design = is_by_design(rows.labels, stratified=stratified)
    strata = of_label if is_design else np.array([len(rows)])
    orders = _log_factorials(strata) - _log_factorials(counts)
    within = _log_powers(counts) - _log_powers(strata)
    chance = _bounded(orders + within, counts)
    if not is_design:
        return chance
    # Where each class has few rows only those of all classes show what is possible.
    of_scores = _times(rows.scores)
    pooled = _log_powers(of_scores) - len(rows) * math.log(len(rows))
    return max(chance, _bounded(orders + pooled, of_scores))


def is_by_design(labels: IntArray, *, stratified: bool) -> bool:
    """True where the numbers of rows per class are no chance: of a split by label, or
    equal. stratified : the rows are of such a split."""
    of_label = np.bincount(labels)
    of_label = of_label[of_label > 0]
    return stratified or bool(of_label.max() - of_label.min() <= 1)


def _times(row_signatures: Signatures) -> IntArray:
    """How often each of them occurs."""
    return np.unique(row_signatures, return_counts=True)[1]


def _bounded(log_chance: float, times: IntArray) -> float:
    """Chance, at most 1, times that of no row with a value that is not among these."""
    n = int(times.sum())
    known = 1.0 - int((times == 1).sum()) / (n + 2.0)
    return math.exp(min(log_chance + n * math.log(known), 0.0))


def _log_powers(counts: IntArray) -> float:
    """Logarithm of the product of count to the power of count."""
    return float((counts * np.log(counts)).sum())


def _log_factorials(counts: IntArray) -> float:
    """Sum of the logarithms of the factorials."""
    distinct, times = np.unique(counts, return_counts=True)
    pairs = zip(distinct.tolist(), times.tolist(), strict=True)
    return sum(many * math.lgamma(count + 1.0) for count, many in pairs)
