"""What extract is asked to split, what it reports having written, and what it says of every import."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, field
from math import sqrt
from typing import Any

import numpy as np

from calcli.errors import UsageError
from calcli.fast_dataclass import dataclass
from calcli.importers.archive import Entry, remark
from calcli.importers.array_names import BundleArrays, parse_name, real_names
from calcli.importers.labelled_scores import Imported, Slab
from calcli.io.split import Part, deal_rows
from calcli.io.writer import NewBundle
from calcli.numerics import IntArray
from calcli.statistics.units import Units

ROLE_WORDS = {
    "class_names": "the class names", "ids": "ids", "weights": "weights", "group": "groups", "unit": "units",
    "split": "the splits", "transformed": "transformed scores", "specs": "their transforms",
    "calibrated_by": "what calibrated them",
}  # fmt: skip

FEW = 30
"""Fewer rows than this say nothing about chance."""

LOOKED_AT = 1 << 20
"""Labels that are looked at at once."""


@dataclass(frozen=True)
class Splitting:
    """How to split the rows of a source into groups."""

    parts: tuple[Part, ...] = ()
    seed: int = 0
    stratify: bool = True
    ordered: bool = False
    texts: tuple[str, ...] = ()

    def method(self, labelled: bool, units: bool = False) -> str:
        """How rows are split, in a word. units : do some belong together?"""
        if any(part.rows is not None for part in self.parts):
            return "position"
        if self.ordered:
            return "ordered"
        if units:
            return "by unit"
        return "stratified" if self.stratify and labelled else "shuffled"

    def deal(self, n: int, labels: IntArray | None, where: str, units: Units | None = None) -> dict[str, IntArray]:
        """Which of n rows go to which group. Raises UsageError where there are no labels to stratify by."""
        method = self.method(labels is not None, units is not None)
        if labels is None and self.stratify and method == "shuffled":
            raise UsageError(f"{where}: has no labels to stratify the split by; pass --no-stratify or --ordered")
        by = labels if method == "stratified" else None
        return deal_rows(self.parts, n, labels=by, seed=self.seed, ordered=self.ordered, units=units)

    def record(self, group: str, labelled: bool, units: bool = False) -> dict[str, Any]:
        """What the bundle of a group records of the split."""
        method = self.method(labelled, units)
        seed = {"seed": self.seed} if method in ("stratified", "shuffled", "by unit") else {}
        name = group.rpartition("/")[2]
        return {"groups": list(self.texts), "method": method, "name": name, **seed}


@dataclass(frozen=True)
class Written:
    """One bundle of the output; k is 0 for confidences, which have no classes."""

    name: str
    kind: str
    n: int
    k: int
    dtype: str
    labelled: bool
    transforms: int
    absent_classes: int

    @classmethod
    def of(cls, name: str, new: NewBundle, labels: IntArray | None) -> "Written":
        """What a group of the output became. labels : of classes, or whether answers are right; None where unknown."""
        absent, labelled = absent_classes(labels, new.k), labels is not None
        return cls(name, new.kind, new.n, new.k, str(new.dtype), labelled, len(new.transforms), absent)


def absent_classes(labels: IntArray | None, k: int) -> int:
    """How many of k classes no label names."""
    if labels is None or not k:
        return 0
    seen = {
        label for start in range(0, len(labels), LOOKED_AT) for label in np.unique(labels[start : start + LOOKED_AT])
    }
    return k - len(seen & {*range(k)})


@dataclass
class ImportReport:
    """What was written, and sentences for the user."""

    bundles: list[Written] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self, output: str) -> dict[str, Any]:
        """What ``calcli extract --json`` prints."""
        bundles = [asdict(bundle) for bundle in self.bundles]
        return {"calcli_extract": 1, "output": output, "bundles": bundles, "notes": self.notes}


def remark_taken(candidate: BundleArrays, entries: Mapping[str, Entry]) -> None:
    """Say in one line which arrays are the scores, of what kind, which the labels, ids and so on."""
    shown = {path: repr(entry.shown) for path, entry in entries.items()}
    said = [f"{shown[candidate.scores]} was read as the scores ({candidate.kind})"]
    said.append(f"{shown[candidate.labels]} as the labels" if candidate.labels else "no labels")
    named = f"class_names_{candidate.scores}"
    shown[named] = "the column names"  # as tables call these
    if len(entries[candidate.scores].made_of) == 1:  # of two classes, which the labels name
        del shown[named]
    said += [f"{shown[path]} as {ROLE_WORDS[role]}" for role, path in candidate.extras.items() if path in shown]
    remark((f"{candidate.name}: " if candidate.name else "") + ", ".join(said))


WITH_SCORES = frozenset({"scores", "labels", "class_names", "transformed", "specs", "calibrated_by"})
"""Roles of arrays that no option for columns is about."""

WRITTEN_BESIDE = frozenset({"prediction", "confidence", "accepted"})
"""What ``apply`` writes beside scores, which say it again."""

MOST_NAMED = 8


def unused(entries: Mapping[str, Entry], used: Iterable[str]) -> dict[str, Entry]:
    """Columns and arrays of which nothing is made. used : paths, or names of columns that are part of one."""
    taken = [entry for path in used if (entry := entries.get(path))]
    names = {(one.path, one.name) for entry in taken for one in (entry, *entry.made_of.values())}
    names |= {(entry.path, one) for entry in taken for one in entry.name.split(", ")}
    left = {}
    for path in real_names([parse_name(path) for path in entries]):
        entry, name = entries[path], parse_name(path)
        known = name.role in WITH_SCORES or name.core in WRITTEN_BESIDE
        if not (known or entry.made_of or (entry.path, entry.name) in names):
            left[path] = entry
    return left


def remark_unused(entries: Mapping[str, Entry], used: Iterable[str]) -> None:
    """Say in one line which columns and arrays are left out (see ``unused``)."""
    if left := [entry.name for entry in unused(entries, used).values()]:
        more = f", … ({len(left)} in all)" if len(left) > MOST_NAMED else ""
        remark(f"columns not used: {', '.join(left[:MOST_NAMED])}{more} (see --ids, --group-by, --unit)")


class Chance:
    """How often the largest score is the label, which tells labels of other rows and predictions posing as labels."""

    def __init__(self, imported: Imported) -> None:
        self.imported, self.n, self.hits = imported, 0, 0

    def see(self, slab: Slab) -> None:
        """Count the rows of a slab whose largest score is that of the label; ties count."""
        if self.imported.labels is None or not self.imported.k:
            return
        labels = self.imported.labels[slab.start : slab.start + len(slab.scores)]
        rows = np.flatnonzero((labels >= 0) & (labels < self.imported.k))
        self.n += len(rows)
        self.hits += int((slab.scores[rows, labels[rows]] == slab.scores.max(axis=1)[rows]).sum())

    def remark_doubts(self) -> None:
        """Warn of an accuracy no better than chance, or perfect."""
        if self.n < FEW:
            return
        chance, share = 1 / self.imported.k, self.hits / self.n
        if share == 1:
            remark(
                f"warning: {self.imported.where}: every label is the class of the largest score; are the labels the"
                " model's predictions?"
            )
        elif share <= chance + 2 * sqrt(chance * (1 - chance) / self.n):
            remark(
                f"warning: {self.imported.where}: the largest score is the label in {share:.1%} of the rows, no better"
                f" than chance ({chance:.1%}): do the labels belong to these rows, are the classes in this order?"
            )
