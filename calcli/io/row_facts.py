"""Detection of rows never written, duplicated, or used in a fit, from single rows in
any order.
"""

import base64
import binascii
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError
from calcli.folds import hashes_of_block, is_repeated
from calcli.numerics import FloatArray, IntArray, floored_log
from calcli.records import cached_property
from calcli.zeros import SUM_TOLERANCE

if TYPE_CHECKING:
    from calcli.rows import Block, Rows

KEPT = 1 << 16
"""Most signatures kept per data set."""

STORED = 96
"""Most signatures stored in an artifact."""
FEW = 5  # rows with all logits equal that may occur by chance
CHANCE = 1e-6  # probability below which a run of such rows at the end is not chance
FEWEST_SHARED = 3
"""Shared signatures needed."""

DEVIATIONS = 5.0
"""Standard deviations above chance that shared signatures must be."""

ALL = 0.9  # proportion of recognised rows that counts as all: rounding hides some

PARTS = ("a few", "about a quarter", "about half", "about three quarters", "most")
"""Proportions of rows in words: estimates from the 96 rows that a sketch holds are too
coarse for percentages.
"""

COPIED = 0.25
"""Minimum proportion of duplicated rows for a warning."""

EVEN = 3.0
"""Maximum index of dispersion (variance by mean) of the counts of duplicated rows.

Copies repeat all rows equally often, rounded scores and trees mostly the confident ones.
"""

HUGE = 1e38
"""Maximum gap between logits, to which larger ones are cut: float64 can square and sum
it, and a class so far below has probability 0 at every temperature.
"""

# Gaps between logits beyond this count as equal: in float32 such probabilities are 0.
LARGEST_GAP = 80.0

SCORE_CELLS = 50_000  # cells of a probability, far wider than the last of six digits

MODULUS = 1 << 64

Signatures = NDArray[np.uint64]


@dataclass(frozen=True)
class RowFacts:
    """Statistics of rows; summed with ``+``, in the order of the rows.

    n : rows. blank : rows that look never written: all scores are equal, or the one
    score is 0. tail : blank rows at the end. signatures : the ``KEPT`` smallest,
    sorted. huge : rows with logits that were cut (see ``check_scores``). total : sum of
    all signatures modulo 2^64, the hash of the rows in any order. zeros : rows with a
    probability of 0. least_sum, most_sum : of the probabilities of a row.
    """

    n: int
    blank: int
    tail: int
    signatures: Signatures
    huge: int = 0
    total: int = 0
    zeros: int = 0
    least_sum: float = 1.0
    most_sum: float = 1.0

    def __add__(self, other: "RowFacts") -> "RowFacts":
        tail = other.tail + (self.tail if other.tail == other.n else 0)
        both = np.sort(np.concatenate([self.signatures, other.signatures]))
        return RowFacts(
            n=self.n + other.n,
            blank=self.blank + other.blank,
            tail=tail,
            signatures=both[:KEPT],
            huge=self.huge + other.huge,
            total=(self.total + other.total) % MODULUS,
            zeros=self.zeros + other.zeros,
            least_sum=min(self.least_sum, other.least_sum),
            most_sum=max(self.most_sum, other.most_sum),
        )


def row_facts(block: "Block") -> RowFacts:
    """Compute the facts of a block; no signatures without labels."""
    s = block.scores
    k = block.scores.shape[1]
    if k == 1 or (k == 2 and block.kind == "probs"):
        blank = np.asarray(s[:, -1] == 0)
    else:
        blank = np.asarray(s[:, 0] == s[:, -1])
        blank[blank] = (s[blank] == s[blank, :1]).all(axis=1)
    tail = len(blank) if blank.all() else int(np.argmin(blank[::-1]))
    signatures_of_rows = (
        np.empty(0, np.uint64) if block.y is None else signatures(block)
    )
    cut = (
        block.kind == "logits"
        and s.dtype.itemsize == 8
        and max(s.max(), -s.min()) >= HUGE
    )
    huge = int((np.abs(s).max(axis=1) >= HUGE).sum()) if cut else 0
    facts = RowFacts(
        n=len(blank),
        blank=int(blank.sum()),
        tail=tail,
        signatures=np.sort(signatures_of_rows)[:KEPT],
        huge=huge,
        total=total_of(signatures_of_rows),
    )
    if block.kind not in ("probs", "confidence"):
        return facts
    zeros = 0
    if s.min() <= 0:
        zeros = int(np.count_nonzero((s <= 0).any(axis=1)))
    elif k == 1:  # of a confidence of 1, being wrong is a zero
        zeros = int(np.count_nonzero(s == 1))
    if k == 1:
        return replace(facts, zeros=zeros)
    sums = s.sum(axis=1, dtype=np.float64)
    return replace(
        facts,
        zeros=zeros,
        least_sum=float(sums.min()),
        most_sum=float(sums.max()),
    )


def total_of(row_signatures: Signatures) -> int:
    """Sum of signatures modulo 2^64: equal for the same rows in any order."""
    return int(row_signatures.sum(dtype=np.uint64))


def signatures(block: "Block") -> Signatures:
    """Hash every row, (b,), by its label and the gaps of three classes to the largest
    logit.

    Float32 copies have equal hashes, logits and probabilities of them unless a gap
    rounds differently.
    """
    return _scrambled(block.labels.astype(np.uint64), _gaps(block))


def _gaps(block: "Block") -> NDArray[np.uint64]:
    """Gaps of the label and the two classes after it to the largest logit, rounded:
    fewer of less than three classes, the confidence where there are none. (3, b)
    """
    s = block.scores
    y = block.labels
    k = s.shape[1]
    row = np.arange(len(s))
    classes = [s[row, (y + i) % k] for i in range(min(k, 3))]
    picked = np.stack([s.max(axis=1), *classes])
    # As a float32 copy holds them.
    picked = picked.astype(np.float32).astype(np.float64)
    if block.kind == "probs":
        picked = floored_log(picked)
    gaps = picked
    if block.kind != "confidence":
        gaps = np.minimum(picked[:1] - picked[1:], LARGEST_GAP)
    steps = 2.0 ** (13 if k > 2 else 15)
    return np.rint(np.arcsinh(gaps) * steps).astype(np.int64).view(np.uint64)


def _scrambled(hashes: Signatures, cells: NDArray[np.uint64]) -> Signatures:
    """Mix the cells, (m, b), into the numbers found, (b,): splitmix64 (Steele, Lea and
    Flood, 2014).
    """
    for column in cells:
        x = (hashes ^ column) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes = x ^ (x >> np.uint64(31))
    return hashes


def facts_of(rows: "Rows") -> RowFacts:
    """Compute the facts of all rows; for a data set, those of its first pass."""
    known: RowFacts | None = getattr(rows, "facts", None)
    if known is None:
        known = rows.sum(row_facts)
        if hasattr(rows, "facts"):
            rows.facts = known
    return known


def cut_off(rows: "Rows") -> list[str]:
    """Warning if logits were so large that they were cut, else none."""
    facts = facts_of(rows)
    message = (
        f"{facts.huge} of {facts.n} rows have logits beyond {HUGE:g}: did the model"
        " overflow, or a mask stay in?"
    )
    if facts.huge <= 0:
        return []
    return [f"{message} They count as {HUGE:g} below the largest"]


def rounding(rows: "Rows") -> list[str]:
    """Remark on the digit to which probabilities were rounded, where it matters: where
    some are 0, or rows miss a sum of 1 by it.
    """
    zeros = rows.zeros
    if zeros is None or not zeros.is_rounded or len(zeros.steps) > 1:
        return []
    facts = facts_of(rows)
    lowest = facts.least_sum
    highest = facts.most_sum
    off = max(1.0 - lowest, highest - 1.0) > SUM_TOLERANCE
    if not (facts.zeros or zeros.clip or off):
        return []
    text = zeros.words
    if off:
        text += (
            f"; rows sum to {lowest:.4g} to {highest:.4g} by rounding, and were divided"
            " by their sums"
        )
    return [text]


def unwritten(rows: "Rows") -> list[str]:
    """Warning if rows look never written: a run at the end, or many with all logits
    equal.

    A run counts if it is improbable given the rows before it, and if its label, when
    there is only one, occurs before it too: in rows sorted by class the last may all be
    certain.
    """
    facts = facts_of(rows)
    before = facts.n - facts.tail
    run = facts.tail
    what = "score 0" if rows.k == 1 else "all scores equal"
    if rows.k == 2 and rows.kind == "probs":
        what = "probability 0 of class 1"
    share = (facts.blank - run + 1) / (before + 1)
    if run and share**run < CHANCE:
        labels = None if next(iter(rows.blocks())).y is None else rows.labels()
        if (
            labels is None
            or len(set(labels[before:].tolist()) - set(labels[:before].tolist())) == 0
        ):
            if labels is not None and not labels[before:].any():
                what += " and label 0"
            message = (
                f"the last {run} of {facts.n} rows have {what}: was the file written"
                " to its end?"
            )
            return [f"{message} Write it again, or leave these rows out"]
    if rows.kind == "logits" and rows.k > 2 and facts.blank > FEW:
        return [
            f"{facts.blank} of {facts.n} rows have all scores equal: were they ever"
            " written? Leave them out"
        ]
    return []


def _has_distinct_ids(rows: "Rows") -> bool:
    """True if the rows have ids, and each its own: equal scores are then no copies."""
    column = getattr(rows, "column", None)
    if column is None:
        return False
    ids = column("ids")
    return ids is not None and len(np.unique(ids)) == len(ids)


def copies(rows: "Rows") -> list[str]:
    """Warning if many rows duplicate scores and label of another, which intervals and
    tests treat as independent.

    With two classes many rows repeat by chance; so do the scores of trees, and rounded
    ones.
    """
    if _has_distinct_ids(rows):
        return []
    facts = facts_of(rows)
    share = _repeated(facts.signatures) if len(facts.signatures) else 0.0
    if rows.k < 3 or facts.n < FEW or share < COPIED or rows.units() is not None:
        return []
    # Signatures are rounded: rows of coarse logits may share one. Now all digits count.
    hashes = _exact_hashes(rows, facts)
    if len(hashes):
        share = float(is_repeated(hashes).mean())
        times = np.unique(hashes, return_counts=True)[1]
        if share < COPIED or times.var() > EVEN * times.mean():
            return []
    message = (
        f"about {share:.0%} of the {facts.n} rows have the same scores and label as"
        " another row: are they copies?"
    )
    advice = "keep one of each, or name what repeats with --unit NAME"
    return [f"{message} Intervals and p-values take every row for a new one; {advice}"]


def _exact_hashes(rows: "Rows", facts: RowFacts) -> Signatures:
    """Hash all digits of the rows whose signatures are kept, (at most ``KEPT``,).

    Of more rows than that, those with the largest kept signature are left out, as not
    all of them are among the kept. Nothing is left where all rows share one signature.
    """
    limit = facts.signatures[-1]
    if facts.n > len(facts.signatures):
        limit -= np.uint64(1)
    parts = rows.each(partial(_exact_hashes_up_to, limit))
    return np.concatenate(list(parts))


def _exact_hashes_up_to(limit: np.uint64, block: "Block") -> Signatures:
    """Hash all digits of the rows of a block with a signature of at most ``limit``."""
    row_signatures = signatures(block)
    is_kept = row_signatures <= limit
    whole = hashes_of_block(block).whole
    return _scrambled(row_signatures[is_kept], whole[is_kept][None])


# ---- rows that were seen before: in the fit of a calibrator, in an earlier batch


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
        repeated=_repeated(row_signatures),
        total=f"{total:016x}",
    )


def _repeated(row_signatures: Signatures) -> float:
    """Proportion of signatures (sorted) that equal a neighbour."""
    same = np.append(row_signatures[1:] == row_signatures[:-1], False)
    same[1:] |= same[:-1].copy()
    return float(same.mean())


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
        return _repeated(self.smallest)


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

    - A row of the smaller set is as often in the larger one as the rows of this repeat
      each other: two classes have few signatures, rounded scores still fewer.
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


def share_seen(stored: RowSketch | None, n: int, facts: RowFacts) -> float:
    """Estimate the proportion of rows that are among the n rows of a sketch.

    0 if chance explains the matches (see ``overlap``).
    """
    both = overlap(stored, n, SignatureSet(facts.signatures, facts.n))
    return 0.0 if both is None else both.share


def part_in_words(share: float) -> str:
    """Words for an estimated proportion of rows: ``about half``."""
    return PARTS[round(4.0 * min(share, 1.0))]


def _limit(smallest: Signatures, most: int) -> int:
    """Largest signature up to which the set is complete."""
    return int(smallest[-1]) if len(smallest) >= most else MODULUS - 1


# ---- what chance explains, once rows look like those of a sketch


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
    parts = list(rows.each(partial(_signed, largest)))
    return SignedRows(
        signatures=np.concatenate([part.signatures for part in parts]),
        scores=np.concatenate([part.scores for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
    )


def _signed(largest: int, block: "Block") -> SignedRows:
    gaps = _gaps(block)
    labels = block.labels
    row_signatures = _scrambled(labels.astype(np.uint64), gaps)
    scores = _scrambled(np.zeros(len(labels), np.uint64), gaps)
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
        signatures=_scrambled(labels.astype(np.uint64), cells[None]),
        scores=_scrambled(np.zeros(len(score), np.uint64), cells[None]),
        labels=labels,
    )


def some_signed_rows(rows: "Rows") -> SignedRows:
    """The rows of which ``facts_of`` keeps the signatures."""
    return signed_rows(rows, _limit(facts_of(rows).signatures, KEPT))


def matches_by_chance(rows: SignedRows, n: int) -> float:
    """Expected proportion of the rows with a signature of their own that n independent
    rows hold too, if these have the same labels and their scores do not depend on
    the label.

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
    is_design = stratified or of_label.max() - of_label.min() <= 1
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
