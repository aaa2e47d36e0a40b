"""Detection of rows never written, duplicated, or used in a fit, from single rows in any order."""

import base64
import binascii
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError
from calcli.fast_dataclass import dataclass
from calcli.numerics import floored_log

if TYPE_CHECKING:
    from calcli.rows import Block, Rows

KEPT, STORED = (
    1 << 16,
    96,
)  # most signatures kept per data set, and stored in an artifact
FEW = 5  # rows with all logits equal that may occur by chance
CHANCE = 1e-6  # probability below which a run of such rows at the end is not chance
FEWEST_SHARED, DEVIATIONS = (
    3,
    5.0,
)  # shared signatures needed, and standard deviations above chance

COPIED, EVEN = 0.25, 3.0
"""Minimum proportion of duplicated rows for a warning, and maximum index of dispersion (variance by mean) of their
counts: copies repeat all rows equally often, rounded scores and trees mostly the confident ones."""

HUGE = 1e38
"""Maximum gap between logits, to which larger ones are cut: float64 can square and sum it,
and a class so far below has probability 0 at every temperature."""

LARGEST_GAP = 80.0  # gaps between logits beyond this count as equal: in float32 such probabilities are 0

Signatures = NDArray[np.uint64]


@dataclass(frozen=True)
class RowFacts:
    """Statistics of rows; summed with ``+``, in the order of the rows.

    n : rows. blank : rows that look never written: all scores are equal, or the one score is 0. tail : blank rows at
    the end. signatures : the ``KEPT`` smallest, sorted. huge : rows with logits that were cut (see
    ``check_scores``).
    """

    n: int
    blank: int
    tail: int
    signatures: Signatures
    huge: int = 0

    def __add__(self, other: "RowFacts") -> "RowFacts":
        tail = other.tail + (self.tail if other.tail == other.n else 0)
        both = np.sort(np.concatenate([self.signatures, other.signatures]))[:KEPT]
        return RowFacts(
            self.n + other.n,
            self.blank + other.blank,
            tail,
            both,
            self.huge + other.huge,
        )


def row_facts(block: "Block") -> RowFacts:
    """Compute the facts of a block; no signatures without labels."""
    s, k = block.scores, block.scores.shape[1]
    if k == 1 or (k == 2 and block.kind == "probs"):
        blank = np.asarray(s[:, -1] == 0)
    else:
        blank = np.asarray(s[:, 0] == s[:, -1])
        blank[blank] = (s[blank] == s[blank, :1]).all(axis=1)
    tail = len(blank) if blank.all() else int(np.argmin(blank[::-1]))
    found = (
        np.empty(0, np.uint64) if block.y is None else np.sort(signatures(block))[:KEPT]
    )
    cut = (
        block.kind == "logits"
        and s.dtype.itemsize == 8
        and max(s.max(), -s.min()) >= HUGE
    )
    huge = int((np.abs(s).max(axis=1) >= HUGE).sum()) if cut else 0
    return RowFacts(len(blank), int(blank.sum()), tail, found, huge)


def signatures(block: "Block") -> Signatures:
    """Hash every row, (b,), by its label and the gaps of three classes to the largest logit. Logits, probabilities of
    them and float32 copies have equal hashes, unless a gap rounds differently."""
    s, y = block.scores, block.labels
    k, row = s.shape[1], np.arange(len(s))
    picked = np.stack(
        [s.max(axis=1), *(s[row, (y + i) % k] for i in range(min(k, 3)))]
    ).astype(np.float64)
    if block.kind == "probs":
        picked = floored_log(picked)
    gaps = (
        picked
        if block.kind == "confidence"
        else np.minimum(picked[:1] - picked[1:], LARGEST_GAP)
    )
    cells = (
        np.rint(np.arcsinh(gaps) * 2.0 ** (13 if k > 2 else 15))
        .astype(np.int64)
        .view(np.uint64)
    )
    found = y.astype(np.uint64)
    for column in cells:  # scrambled bits (splitmix64: Steele, Lea and Flood, 2014)
        x = (found ^ column) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found = x ^ (x >> np.uint64(31))
    return found


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
    told = f"{facts.huge} of {facts.n} rows have logits beyond {HUGE:g}: did the model overflow, or a mask stay in?"
    return [f"{told} They count as {HUGE:g} below the largest"] * (facts.huge > 0)


def unwritten(rows: "Rows") -> list[str]:
    """Warning if rows look never written: a run at the end, or many with all logits equal. A run counts if it is
    improbable given the rows before it, and if its label, when there is only one, occurs before it too: in rows
    sorted by class the last may all be certain."""
    facts = facts_of(rows)
    before, run = facts.n - facts.tail, facts.tail
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
            what += " and label 0" * (labels is not None and not labels[before:].any())
            told = f"the last {run} of {facts.n} rows have {what}: was the file written to its end?"
            return [f"{told} Write it again, or leave these rows out"]
    if rows.kind == "logits" and rows.k > 2 and facts.blank > FEW:
        return [
            f"{facts.blank} of {facts.n} rows have all scores equal: were they ever written? Leave them out"
        ]
    return []


def copies(rows: "Rows") -> list[str]:
    """Warning if many rows duplicate scores and label of another, which intervals and tests treat as independent. With
    two classes many rows repeat by chance; so do the scores of trees, and rounded ones."""
    facts = facts_of(rows)
    share = _repeated(facts.signatures) if len(facts.signatures) else 0.0
    if rows.k < 3 or facts.n < FEW or share < COPIED or rows.units() is not None:
        return []
    times = np.unique(facts.signatures, return_counts=True)[1]
    if times.var() > EVEN * times.mean():
        return []
    told = f"about {share:.0%} of the {facts.n} rows have the same scores and label as another row: are they copies?"
    advice = "keep one of each, or name what repeats with --unit NAME"
    return [f"{told} Intervals and p-values take every row for a new one; {advice}"]


# ---- overlap with the rows of a fit


class RowSketch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Sketch of the rows of a fit, stored in the artifact. smallest : their smallest signatures, base64 of sorted
    little-endian uint64. repeated : proportion of rows that share their signature with another."""

    smallest: str
    repeated: Annotated[float, msgspec.Meta(ge=0, le=1)]

    @property
    def signatures(self) -> Signatures:
        """Decoded smallest signatures. Raises DataError for an invalid text."""
        with suppress(binascii.Error, ValueError):
            found = np.frombuffer(
                base64.b64decode(self.smallest, validate=True), "<u8"
            ).astype(np.uint64)
            if 0 < len(found) <= STORED and (found[1:] > found[:-1]).all():
                return found
        raise DataError(
            f"fit.row_sketch.smallest is no base64 of up to {STORED} sorted numbers"
        )


def sketch(facts: RowFacts) -> RowSketch | None:
    """Make the sketch to store of rows; None without labels."""
    smallest = np.unique(facts.signatures)[:STORED]
    if not len(smallest):
        return None
    return RowSketch(
        base64.b64encode(smallest.astype("<u8").tobytes()).decode(),
        _repeated(facts.signatures),
    )


def _repeated(found: Signatures) -> float:
    """Proportion of signatures (sorted) that equal a neighbour."""
    same = np.append(found[1:] == found[:-1], False)
    same[1:] |= same[:-1].copy()
    return float(same.mean())


def share_seen(stored: RowSketch | None, n: int, facts: RowFacts) -> float:
    """Estimate the proportion of rows that are among the n rows of a sketch; 0 if chance explains the matches. A random
    row matches a set as often as the rows of the set match each other, estimated from the larger of both sets: two
    classes have few signatures, rounded scores still fewer. Bottom-k sketches: Bar-Yossef et al. (2002)."""
    if stored is None or not len(facts.signatures):
        return 0.0
    seen, mine = stored.signatures, facts.signatures
    last = min(_limit(seen, STORED), _limit(mine, KEPT))
    seen, mine = seen[seen <= last], mine[mine <= last]
    hits = np.isin(mine, seen)
    found, expected = int(hits.sum()), len(mine) * (stored.repeated + 1.0 / n)
    if facts.n > n:
        found, expected = (
            int(np.isin(seen, mine).sum()),
            len(seen) * (_repeated(facts.signatures) + 1.0 / facts.n),
        )
    if found < FEWEST_SHARED or found <= 2.0 * expected + DEVIATIONS * expected**0.5:
        return 0.0
    return float(hits.mean())


def _limit(smallest: Signatures, most: int) -> Any:
    """Largest signature up to which the set is complete."""
    return smallest[-1] if len(smallest) >= most else np.iinfo(np.uint64).max
