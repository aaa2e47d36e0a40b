"""From checked rows to bundles: how they are split, written and reported, and what is said of every import."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, field, replace
from math import sqrt
from shlex import quote
from types import MappingProxyType
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.importers.archive import Entries, Entry, remark
from calcli.importers.array_names import BundleArrays, parse_name, real_names
from calcli.importers.labelled_scores import Imported
from calcli.importers.positions import Positions
from calcli.importers.unnamed_arrays import looks_like
from calcli.io.split import Part, deal_rows
from calcli.io.writer import BundleWriter, GroupWriter, NewBundle
from calcli.numerics import IntArray
from calcli.statistics.units import Units

ROLE_WORDS = {
    "class_names": "the class names", "ids": "ids", "weights": "weights", "group": "groups", "unit": "units",
    "split": "the splits", "transformed": "transformed scores", "specs": "their transforms",
    "calibrated_by": "what calibrated them",
}  # fmt: skip

FEW = 30  # fewer rows than this say nothing about chance
LOOKED_AT = 1 << 20  # labels that are looked at at once
DRAWN = {"by unit": "by unit", "stratified": "stratified by label", "shuffled": "shuffled, not stratified"}
HOW_SPLIT = {"ordered": "in the order of the source", "position": "by position"} | DRAWN


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

    def deal(self, n: int, labels: Any, where: str, units: Units | None = None, name: str = "") -> dict[str, IntArray]:
        """Which of n rows go to which group, which is said; name : of them. Raises UsageError where there are no
        labels to stratify by."""
        method = self.method(labels is not None, units is not None)
        if labels is None and self.stratify and method == "shuffled":
            raise UsageError(f"{where}: has no labels to stratify the split by; pass --no-stratify or --ordered")
        by = labels if method == "stratified" else None
        dealt = deal_rows(self.parts, n, labels=by, seed=self.seed, ordered=self.ordered, units=units)
        sizes = ", ".join(f"{group} {len(index)}" for group, index in dealt.items())
        left = n - sum(map(len, dealt.values()))
        how = HOW_SPLIT[method] + (f", seed {self.seed}" if method in DRAWN else "")
        remark(f"{name and f'{name}: '}{n} rows split {how}: {sizes}{f', {left} left out' if left else ''}")
        return dealt

    def record(self, group: str, labelled: bool, units: bool = False) -> dict[str, Any]:
        """What the bundle of a group records of the split."""
        method = self.method(labelled, units)
        seed = {"seed": self.seed} if method in DRAWN else {}
        return {"groups": list(self.texts), "method": method, "name": group.rpartition("/")[2], **seed}


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


def absent_classes(labels: IntArray | None, k: int) -> int:
    """How many of k classes no label names."""
    if labels is None or not k:
        return 0
    starts = range(0, len(labels), LOOKED_AT)
    seen = {label for start in starts for label in np.unique(labels[start : start + LOOKED_AT])}
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


def remark_taken(candidate: BundleArrays, entries: Entries) -> None:
    """Say in one line what was read as what."""
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

WRITTEN_BESIDE = frozenset({"prediction", "confidence"})  # what ``apply`` writes beside scores, which say it again
MOST_NAMED = 8
Writers = list[tuple[GroupWriter, IntArray | None]]


def unused(entries: Entries, used: Iterable[str]) -> dict[str, Entry]:
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


def remark_unused(entries: Entries, used: Iterable[str], kept: Collection[str], *, any_unit: bool = False) -> None:
    """Say in a line each which columns and arrays go along (kept : by their own names), and which are left out. A
    single value is no column. any_unit : units are known or declined, so that none is proposed."""
    stay, left, repeated = list[str](), list[str](), list[str]()
    for path, entry in unused(entries, used).items():
        with suppress(DataError):
            if entry.part is None and np.shape(entry.load()) in ((), (1,)):
                continue
        (left if {path.rpartition("/")[2], parse_name(path).core}.isdisjoint(kept) else stay).append(entry.name)
        if not any_unit and looks_like(path, entry) == "units":
            repeated.append(entry.name)
    for what, own, more in (
        ("columns kept for apply to write again", stay, ""),
        ("columns not used", left, " (see --ids, --group-by, --unit)"),
    ):
        all_of = f", … ({len(own)} in all)" if len(own) > MOST_NAMED else ""
        remark(f"{what}: {', '.join(own[:MOST_NAMED])}{all_of}{more}" if own else "")
    if repeated:
        remark(f"{repeated[0]!r} repeats: if rows of one value depend on each other, pass --unit {quote(repeated[0])}")


# ---- writing


def write_groups(
    out: BundleWriter,
    imported: Imported,
    groups: Mapping[str, IntArray | None],
    origin: Mapping[str, Any],
    splitting: Splitting,
    attributes: Mapping[str, str] = MappingProxyType({}),
) -> list[Written]:
    """Make the groups of one source bundle, fill them in one pass over its rows, and tell what they became. groups :
    which rows go to which, ascending; None: all. origin : where the scores came from. attributes : texts for each."""
    writers: Writers = []
    made = list[Written]()
    lazy = {name: column for name, column in imported.columns.items() if isinstance(column, Positions)}
    everywhere = absent_classes(imported.labels, imported.k)
    k, kind, dtype, specs = imported.k, imported.kind, imported.dtype, imported.specs
    whole = NewBundle(n=imported.n, k=k, kind=kind, dtype=dtype, transforms=specs, class_names=imported.class_names)
    for group, index in groups.items():
        split = splitting.record(group, imported.labels is not None, "unit" in imported.columns)
        labels = imported.labels if imported.labels is None or index is None else imported.labels[index]
        rows = imported.n if index is None else len(index)
        source = {**origin, "rows": rows, "rows_of_source": imported.n, **({"split": split} if splitting.parts else {})}
        held = {name: values for name, values in imported.columns.items() if name not in lazy}
        columns = {name: values if index is None else values[index] for name, values in held.items()}
        labelled = labels is not None
        writer = out.create(group, replace(whole, n=rows, labels=labelled and k > 0, columns=columns, source=source))
        for name, text in attributes.items():
            writer.attribute(name, text)
        writers.append((writer, index))
        absent = absent_classes(labels, k)
        made.append(Written(group, kind, rows, k, str(dtype), labelled, len(specs), absent))
        if absent > everywhere:
            told = f"have no row here{f' ({everywhere} have none in the source)' if everywhere else ''}"
            remark(f"{group or 'bundle'}: {absent} of {k} classes {told}")
    _fill(imported, writers, lazy)
    return made


def _fill(imported: Imported, writers: Writers, lazy: Mapping[str, Positions]) -> None:
    """Write the rows of every group; warn where the largest score is the label always, or as often as at random."""
    n = hits = 0
    for slab in imported.slabs():
        here = slice(slab.start, slab.start + len(slab.scores))
        labels = None if imported.labels is None else imported.labels[here]
        if labels is not None and imported.k:
            rows = np.flatnonzero((labels >= 0) & (labels < imported.k))
            n += len(rows)
            hits += int((slab.scores[rows, labels[rows]] == slab.scores.max(axis=1)[rows]).sum())
        columns = {name: column[here] for name, column in lazy.items()}
        for writer, index in writers:
            first, local = slab.start, np.arange(len(slab.scores))
            if index is not None:
                first, last = np.searchsorted(index, [here.start, here.stop])
                local = index[first:last] - slab.start
            if not len(local):
                continue
            whole = len(local) == len(slab.scores)
            per_row: dict[str, Any] = {name: column[local] for name, column in columns.items()}
            if labels is not None:
                per_row |= {"labels": labels[local]} if imported.k else {"correct": labels[local].astype(bool)}
            if slab.transformed is not None:
                per_row["transformed"] = slab.transformed if whole else slab.transformed[:, local]
            writer.write(int(first), slab.scores if whole else slab.scores[local], **per_row)
    if n < FEW:
        return
    chance, share = 1 / imported.k, hits / n
    if share == 1:
        advice = "are the labels the model's predictions?"
        remark(f"warning: {imported.where}: every label is the class of the largest score; {advice}")
    elif share <= chance + 2 * sqrt(chance * (1 - chance) / n):
        told = f"better than chance ({chance:.1%}): do the labels belong to these rows, are the classes in this order?"
        remark(f"warning: {imported.where}: the largest score is the label in {share:.1%} of the rows, no {told}")
