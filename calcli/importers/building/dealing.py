"""Which rows of a bundle go to which group of the output: repeats, samples, splits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.building.imported import Imported
from calcli.importers.import_request import ImportRequest
from calcli.importers.reading import Reading
from calcli.importers.remarks import remark
from calcli.io.locate import group_name
from calcli.io.split import Part, deal_rows
from calcli.number_words import noun
from calcli.numerics import IntArray
from calcli.statistics.units import Units

DRAWN = {
    "by unit": "by unit",
    "stratified": "stratified by label",
    "shuffled": "shuffled, not stratified",
}
"""Methods that draw rows, in words."""

METHODS = {
    "ordered": "in the order of the source",
    "position": "by position",
    **DRAWN,
}

Dealt = Mapping[str, IntArray | None]
"""Row indices by group of the output; None for all rows."""


@dataclass(frozen=True)
class Splitting:
    """Options of the split of a source's rows into groups."""

    parts: tuple[Part, ...] = ()
    seed: int = 0
    stratify: bool = True
    ordered: bool = False
    texts: tuple[str, ...] = ()

    def method(self, labelled: bool, units: bool = False) -> str:
        """Method of the split: a key of ``METHODS``.

        units : the rows have units, which stay whole.
        """
        if any(part.rows is not None for part in self.parts):
            return "position"
        if self.ordered:
            return "ordered"
        if units:
            return "by unit"
        return "stratified" if self.stratify and labelled else "shuffled"

    def deal(
        self,
        n: int,
        labels: Any,
        where: str,
        units: Units | None = None,
        name: str = "",
    ) -> dict[str, IntArray]:
        """Row indices by group, of n rows, with a remark on their sizes.

        name : of the bundle, for the remark. Raises UsageError where there are no
        labels to stratify by.
        """
        method = self.method(labels is not None, units is not None)
        if labels is None and self.stratify and method == "shuffled":
            raise UsageError(
                f"{where}: has no labels to stratify the split by; pass --no-stratify"
                " or --no-shuffle"
            )
        dealt = deal_rows(
            self.parts,
            n,
            labels=labels if method == "stratified" else None,
            seed=self.seed,
            ordered=self.ordered,
            units=units,
        )
        sizes = ", ".join(f"{group} {len(rows)}" for group, rows in dealt.items())
        n_left = n - sum(map(len, dealt.values()))
        how = METHODS[method]
        if method in DRAWN:
            how += f", seed {self.seed}"
        sentence = f"{n} {noun(n, 'row')} split {how}: {sizes}"
        if n_left:
            sentence += f", {n_left} left out"
        remark(f"{name}: {sentence}" if name else sentence)
        return dealt

    def record(self, group: str, labelled: bool, units: bool = False) -> dict[str, Any]:
        """Record of the split in the bundle of a group."""
        method = self.method(labelled, units)
        record = {
            "groups": list(self.texts),
            "method": method,
            "name": group.rpartition("/")[2],
        }
        return {**record, "seed": self.seed} if method in DRAWN else record


def refuse_second_split(readings: Sequence[Reading], where: str) -> None:
    """Raise UsageError for a source that is split already."""
    for model in dict.fromkeys(reading.model for reading in readings):
        splits = [reading.split for reading in readings if reading.model == model]
        if len(splits) > 1:
            listing = ", ".join(splits)
            raise UsageError(
                f"{where}: is already split into {listing}; split one by --part"
                f" {splits[0]}"
            )
    if any("split" in reading.extras for reading in readings):
        raise UsageError(
            f"{where}: has a column that splits it already; leave out --split"
        )


def deal(
    imported: Imported,
    splitting: Splitting,
    ignore: Sequence[float],
    request: ImportRequest,
) -> Dealt:
    """Row indices of the source by group of the output."""
    reading = imported.reading
    if imported.is_dense and imported.parts is None and not splitting.parts:
        return {reading.name: None}  # indices of 1e8 positions would fill the memory
    rows = _without_ignored(imported, ignore)
    rows = _without_repeats(imported, rows, request)
    if request.sample is not None and not imported.is_dense:
        rows = _sampled(imported, rows, request.sample, splitting.seed)
    if imported.parts is not None:
        return _by_source(imported, rows)
    if not splitting.parts:
        return {reading.name: rows}
    labels = None if imported.labels is None else imported.labels[rows]
    units = _units(imported, rows)
    dealt = splitting.deal(len(rows), labels, imported.where, units, reading.name)
    rows_by_group = {}
    for group, index in dealt.items():
        rows_by_group[f"{reading.model}/{group}".lstrip("/")] = rows[index]
    return rows_by_group


def _units(imported: Imported, rows: IntArray) -> Units | None:
    """Units of the rows; None without any, or where each has one row."""
    unit = imported.columns.get("unit")
    if unit is None:
        return None
    units = Units.of(np.asarray(unit[:])[rows].astype("U"))
    return None if units.single else units


def _without_ignored(imported: Imported, ignore: Sequence[float]) -> IntArray:
    """All rows but those of ignored labels."""
    if not ignore or imported.labels is None or imported.is_dense:
        return np.arange(imported.n)
    is_kept = ~np.isin(imported.labels, np.asarray(ignore))
    rows = np.flatnonzero(is_kept)
    if not len(rows):
        raise DataError(
            f"{imported.where}: every row has an ignored label, nothing is left"
        )
    n_left = imported.n - len(rows)
    if n_left:
        remark(
            f"{imported.where}: {n_left} of {imported.n} rows left out by their labels"
        )
    return rows


def _by_source(imported: Imported, rows: IntArray) -> Dealt:
    """Rows by the split that the source gives them."""
    assert imported.parts is not None
    texts = imported.parts.astype("U")[rows]
    splits = np.unique(texts)
    names = []
    for split in splits:
        names.append(f"{imported.reading.name}/{group_name(str(split))}".lstrip("/"))
    if len(set(names)) < len(names):
        listing = ", ".join(splits)
        raise DataError(
            f"{imported.where}: its splits {listing} differ only in signs no name can"
            " have"
        )
    rows_by_group = {}
    for group, split in zip(names, splits, strict=True):
        rows_by_group[group] = rows[texts == split]
    return rows_by_group


def _sampled(imported: Imported, rows: IntArray, most: int, seed: int) -> IntArray:
    """At most ``most`` rows of every unit, drawn without replacement.

    Raises UsageError where no units are known.
    """
    unit = imported.columns.get("unit")
    if unit is None:
        raise UsageError(
            f"--sample: {imported.where} has no units to draw rows of; name their"
            " column with --unit"
        )
    shuffled = np.random.default_rng(seed).permutation(rows)
    words = np.asarray(unit[shuffled]).astype("U")
    order = np.argsort(words, kind="stable")
    place_in_unit = np.arange(len(order)) - np.searchsorted(words[order], words[order])
    kept = np.sort(shuffled[order[place_in_unit < most]])
    remark(
        f"{imported.where}: {len(kept)} of {len(rows)} rows,"
        f" at most {most} of each unit (seed {seed})"
    )
    return kept


def _without_repeats(
    imported: Imported, rows: IntArray, request: ImportRequest
) -> IntArray:
    """Drop rows that repeat the id, scores and label of an earlier row.

    Without ``--drop-duplicates`` raises DataError if all repeated ids are such
    (padding). Rows of one id with different scores or labels stay, with a remark.
    """
    ids = imported.columns.get("ids")
    if ids is None:
        if request.drop_duplicates:
            raise UsageError(
                f"--drop-duplicates: {imported.where} has no ids to tell rows by",
                option=["--drop-duplicates"],
            )
        return rows
    if not request.drop_duplicates and _are_units(imported, ids):
        return rows
    first = _first_rows(imported, ids, rows)
    later = np.flatnonzero(first != np.arange(len(rows)))
    if not len(later):
        return rows
    is_copy = imported.are_alike(rows[later], rows[first[later]])
    copies = later[is_copy]
    row = int(rows[later[0]])
    n_others = len(later) - len(copies)
    if n_others:
        column = imported.reading.extras["ids"].rpartition("/")[2]
        remark(
            f"{imported.where}: {n_others} {noun(n_others, 'row')} with the id of an"
            " earlier row and other"
            f" scores or another label (row {row}: {str(ids[row])!r}); rows of one id"
            f" belong together (an image, a patient, a question): --unit {column};"
            " if every file counts its rows anew: --ids none"
        )
    elif not request.drop_duplicates:
        raise DataError(
            f"{imported.where}: row {row} has the id {str(ids[row])!r} of an earlier"
            f" row, and its scores and label, as {len(copies)}"
            f" {noun(len(copies), 'row')} in all; --drop-duplicates keeps the first of"
            " each",
            option=["--drop-duplicates"],
        )
    if not request.drop_duplicates:
        return rows
    remark(
        f"{imported.where}: dropped {len(copies)} {noun(len(copies), 'row')} with the"
        " id, scores and label of an earlier one"
    )
    return np.delete(rows, copies)


def _are_units(imported: Imported, ids: Any) -> bool:
    """True for ids that are the units: repeated trials, declared by the source."""
    unit = imported.columns.get("unit")
    if unit is None:
        return False
    return np.array_equal(ids.astype("U"), unit[:].astype("U"))


def _first_rows(imported: Imported, ids: Any, rows: IntArray) -> IntArray:
    """Index of the first row with the same id and group as each row."""
    keys = ids[rows].astype("U")
    group = imported.columns.get("group")
    if group is not None:
        groups = np.char.add(group[rows].astype("U"), "\n")
        keys = np.char.add(groups, keys)
    _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return firsts[inverse.reshape(-1)]
