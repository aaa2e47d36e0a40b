"""Statistics of single rows in any order: rows never written, copied, or cut off."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from calcli.errors import DataError
from calcli.folds import hashes_of_block
from calcli.io.row_signatures import (
    KEPT,
    MODULUS,
    Signatures,
    mixed,
    share_repeated,
    signatures,
    total_of,
)
from calcli.rounding import SUM_TOLERANCE

if TYPE_CHECKING:
    from calcli.block import Block
    from calcli.rows import Rows


FEW = 5  # rows with all logits equal that may occur by chance
CHANCE = 1e-6  # probability below which a run of such rows at the end is not chance

COPIED = 0.25
"""Minimum proportion of duplicated rows for a warning."""

EVEN = 3.0
"""Maximum index of dispersion (variance by mean) of the counts of duplicated rows.

Copies repeat all rows equally often, rounded scores and trees mostly the confident
ones.
"""

HUGE = 1e38
"""Maximum gap between logits, to which larger ones are cut: float64 can square and sum
it, and a class so far below has probability 0 at every temperature.
"""


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
    huge: int
    total: int
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
    signatures_of_rows = np.empty(0, np.uint64)
    if block.y is not None:
        signatures_of_rows = signatures(block)
    huge = 0
    may_be_huge = block.kind == "logits" and s.dtype.itemsize == 8
    if may_be_huge and max(s.max(), -s.min()) >= HUGE:
        huge = int((np.abs(s).max(axis=1) >= HUGE).sum())
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
    what = "all scores equal"
    if rows.k == 1:
        what = "score 0"
    elif rows.k == 2 and rows.kind == "probs":
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
    tests treat as independent. Copies inside units, which count once, are named too.

    With two classes many rows repeat by chance; so do the scores of trees, and rounded
    ones.
    """
    try:
        units = rows.units()
    except DataError:  # invalid ones are refused where they are used
        return []
    if units is not None:
        return _copies_in_units(rows)
    if _has_distinct_ids(rows):
        return []
    facts = facts_of(rows)
    share = 0.0
    if len(facts.signatures):
        share = share_repeated(facts.signatures)
    if rows.k < 3 or facts.n < FEW or share < COPIED:
        return []
    # Signatures are rounded: rows of coarse logits may share one. Now all digits count.
    hashes = _exact_hashes(rows, facts)
    times = np.unique(hashes, return_counts=True)[1]
    share = float(times[times > 1].sum() / len(hashes))
    if share < COPIED or times.var() > EVEN * times.mean():
        return []
    message = (
        f"about {share:.0%} of the {facts.n} rows have the same scores and label as"
        " another row: are they copies?"
    )
    advice = "keep one of each, or name what repeats with --unit NAME"
    return [f"{message} Intervals and p-values take every row for a new one; {advice}"]


def _copies_in_units(rows: "Rows") -> list[str]:
    if next(iter(rows.blocks())).y is None:
        return []
    first = rows.first_copies
    if first is None:
        return []
    n_copies = int((first != np.arange(rows.n)).sum())
    return [
        f"{n_copies} of the {rows.n} rows are copies of another row of their unit: each"
        " counts once, with the weight of its copies"
    ]


def _exact_hashes(rows: "Rows", facts: RowFacts) -> Signatures:
    """Hash all digits of the rows with a kept signature.

    About ``KEPT`` rows; more where many rows share a signature, all rows at most.
    """
    parts = rows.each(partial(_exact_hashes_up_to, facts.signatures[-1]))
    return np.concatenate(list(parts))


def _exact_hashes_up_to(limit: np.uint64, block: "Block") -> Signatures:
    """Hash all digits of the rows of a block with a signature of at most ``limit``."""
    row_signatures = signatures(block)
    kept = np.flatnonzero(row_signatures <= limit)
    whole = hashes_of_block(block.take(kept, block.start)).whole
    return mixed(row_signatures[kept], whole[None])
