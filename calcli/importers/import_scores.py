"""The whole import: sources in, one file of bundles out."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, field, replace
from hashlib import sha256
from math import sqrt
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli import __version__
from calcli.errors import CalcliError, DataError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.importers.archive import (
    Archive,
    Entries,
    Entry,
    constant,
    remark,
    remarks,
    unite,
)
from calcli.importers.array_names import (
    COLUMNS,
    BundleArrays,
    columns_by_name,
    group_name,
    parse_name,
    plan,
    real_names,
    role_of,
)
from calcli.importers.confidences import confidences_by_name, count_votes, load_confidences
from calcli.importers.formats import open_archive
from calcli.importers.import_request import ImportRequest
from calcli.importers.join import (
    add_gold,
    aligned_labels,
    join_archives,
    past_of,
    remark_shards,
    without_missing,
)
from calcli.importers.labelled_scores import Imported, labels_as_rows, load
from calcli.importers.labels import texts_of
from calcli.importers.positions import Positions
from calcli.importers.sources import files_of_units, settle_sources
from calcli.importers.unnamed_arrays import ROWS_CARRIED, advised, goes_along, looks_like, retried, take_obvious
from calcli.io.atomic import check_output
from calcli.io.bundle import OWN_NAMES
from calcli.io.cells import words
from calcli.io.inputs import file_sha256
from calcli.io.locate import matching_files
from calcli.io.score_files import OWN
from calcli.io.split import Part, deal_rows
from calcli.io.writer import BundleWriter, GroupWriter, NewBundle, new_bundles
from calcli.numerics import IntArray
from calcli.statistics.units import Units

ROLE_WORDS = {
    "class_names": "the class names", "ids": "ids", "weights": "weights", "group": "groups", "unit": "units",
    "split": "the splits", "transformed": "transformed scores", "specs": "their transforms",
    "calibrated_by": "what calibrated them",
}  # fmt: skip

FEW = 30  # fewest labelled rows for a warning about accuracy
LOOKED_AT = 1 << 20  # labels per block when classes are counted
DRAWN = {"by unit": "by unit", "stratified": "stratified by label", "shuffled": "shuffled, not stratified"}
HOW_SPLIT = {"ordered": "in the order of the source", "position": "by position"} | DRAWN


@dataclass(frozen=True)
class Splitting:
    """Options of the split of a source's rows into groups."""

    parts: tuple[Part, ...] = ()
    seed: int = 0
    stratify: bool = True
    ordered: bool = False
    texts: tuple[str, ...] = ()

    def method(self, labelled: bool, units: bool = False) -> str:
        """Method of the split: a key of ``HOW_SPLIT``. units : the rows have units, which stay whole."""
        if any(part.rows is not None for part in self.parts):
            return "position"
        if self.ordered:
            return "ordered"
        if units:
            return "by unit"
        return "stratified" if self.stratify and labelled else "shuffled"

    def deal(self, n: int, labels: Any, where: str, units: Units | None = None, name: str = "") -> dict[str, IntArray]:
        """Row indices by group, of n rows, with a remark on their sizes. name : of the bundle, for the remark. Raises
        UsageError where there are no labels to stratify by."""
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
        """Record of the split in the bundle of a group."""
        method = self.method(labelled, units)
        seed = {"seed": self.seed} if method in DRAWN else {}
        return {"groups": list(self.texts), "method": method, "name": group.rpartition("/")[2], **seed}


@dataclass(frozen=True)
class Written:
    """Summary of one bundle of the output; k is 0 for confidences, which have no classes."""

    name: str
    kind: str
    n: int
    k: int
    dtype: str
    labelled: bool
    transforms: int
    absent_classes: int


def absent_classes(labels: IntArray | None, k: int) -> int:
    """Number of the k classes without a label."""
    if labels is None or not k:
        return 0
    starts = range(0, len(labels), LOOKED_AT)
    seen = {label for start in starts for label in np.unique(labels[start : start + LOOKED_AT])}
    return k - len(seen & {*range(k)})


@dataclass
class ImportReport:
    """Bundles that an import wrote, and its remarks for the user."""

    bundles: list[Written] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self, output: str) -> dict[str, Any]:
        """The document that ``calcli extract --json`` prints."""
        bundles = [asdict(bundle) for bundle in self.bundles]
        return {"calcli_extract": 1, "output": output, "bundles": bundles, "notes": self.notes}


def import_scores(
    sources: Sequence[Path],
    output: Path,
    ask: ImportRequest = ImportRequest(),
    splitting: Splitting = Splitting(),
    *,
    ignore_labels: Sequence[int] = (),
    force: bool = False,
) -> ImportReport:
    """Import saved scores into a new HDF5 file of bundles. Raises UsageError for contradictory requests, DataError for
    sources that cannot be read or break the rules of bundles; then nothing is written."""
    sources = [Path(name) for given in sources for name in matching_files(str(given))]
    check_output(output, force=force, inputs=sources)
    where, report = ", ".join(str(path) for path in sources), ImportReport()
    with ExitStack() as stack:
        told = stack.enter_context(remarks())
        settled = settle_sources(sources, stack)
        try:
            units = files_of_units(settled.files, [source for source in sources if source.is_dir()], ask)
            archives = [units] if units else [open_archive(path, stack, ask) for path in settled.files]
            _refuse_unread(ask, archives)
            if ask.join:
                entries, ask = join_archives(archives, ask)
            else:
                entries = unite(archives, [] if units else settled.folders)
                remark_shards(archives)
            if ask.gold is not None and not (ask.votes and any(path.endswith(ask.gold) for path in entries)):
                settle_sources([Path(ask.gold)], stack, settled)
                gold = open_archive(settled.files[-1], stack, ImportRequest(labels=ask.labels))
                entries, ask = add_gold(entries, gold, ask)
                archives.append(gold)
            entries, given = columns_by_name(entries, ask.named), entries
            given = {path: entry for path, entry in given.items() if path not in entries and not ask.votes}
            if ask.votes is not None:
                entries, ask = count_votes(entries, ask, where)
            hashes = [file_sha256(one.path) for one in archives if one is not units]
            if units:  # one hash for all files of the folder
                hashes.insert(0, sha256("".join(map(file_sha256, settled.files)).encode()).hexdigest())
            hashed = zip(archives, hashes, strict=True)
            files = [{"name": one.path.name, "format": one.format, "sha256": found} for one, found in hashed]
            origin = {"calcli_version": __version__, "files": files, "kind_given": ask.kind is not None}
            if ask.sample is not None:
                origin["sampled"] = {"of_each_unit": ask.sample, "seed": splitting.seed}
            with new_bundles(output, force=force, inputs=sources) as out:
                used, kept = [*ask.pieces, ask.votes or ""], set[str]()
                for imported, arrays in _bundles(entries, ask, ignore_labels, bool(splitting.parts), where):
                    groups, one = _deal(imported, splitting, ignore_labels, ask), imported.candidate
                    paths = {"scores": one.scores, "labels": one.labels or "", **one.extras}
                    used += (paths := {role: path for role, path in paths.items() if path}).values()
                    origin["arrays"] = {role: f"{arrays[at].path.name}:{arrays[at].name}" for role, at in paths.items()}
                    kept |= (imported := _with_carried(imported, {**given, **arrays}, used, ask)).columns.keys()
                    report.bundles += write_groups(out, imported, groups, origin, splitting, _attributes(one, arrays))
                remark_unused(entries, used, kept, any_unit="unit" in {*kept, *ask.named})
        except CalcliError as problem:
            raise retried(problem, ask, where).translated(settled.translated) from None
        report.notes = [settled.translated(note) for note in told]
    return report


Bundles = Iterator[tuple[Imported, Entries]]
Dealt = Mapping[str, IntArray | None]
OF_CHOICES = ("lm-eval", "lighteval", "lm-eval-write-out")
LOGS = {
    "--normalize": OF_CHOICES,
    "--choices": (*OF_CHOICES, "helm", "inspect", "json", "parquet", "arrow"),
    "--filter": ("lm-eval",),
    "--classes": ("csv", "json", "json-table", "parquet", "arrow"),
}  # options -> the formats that use them

OF_CLASSES = ("--per-label", "--class-names", "--all-scores")  # options that do not apply to confidences


def _refuse_unread(ask: ImportRequest, archives: Sequence[Archive]) -> None:
    """Raise UsageError for an option that does not apply to any source."""
    formats, plain = {archive.format for archive in archives}, ImportRequest()
    for option in (*LOGS, *OF_CLASSES):
        field = option.removeprefix("--").replace("-", "_")
        if getattr(ask, field) == getattr(plain, field):
            continue
        if option in LOGS and not formats & {*LOGS[option]}:
            raise UsageError(f"{option} is for {', '.join(LOGS[option])}; read was {', '.join(sorted(formats))}")
        if option in OF_CLASSES and (ask.confidence or ask.correct):
            raise UsageError(f"{option} is about scores of classes; --confidence and --correct have none")


def _bundles(entries: Entries, ask: ImportRequest, ignore: Sequence[int], split: bool, where: str) -> Bundles:
    """Yield (bundle, arrays): one bundle of confidences, or a bundle per array of scores with its labels, by name."""
    ask = confidences_by_name(entries, ask)
    if ask.confidence or ask.correct:
        if ask.drop_missing:
            pieces = [path for path in entries if path in ask.pieces]
            columns = [path for path in entries if parse_name(path).role in COLUMNS]
            entries = without_missing(entries, pieces, where, columns)
        yield load_confidences(entries, ask, ignore, where), entries
        return
    try:
        filled = take_obvious(entries, replace(ask, kind=ask.kind or ("probs" if ask.percent else None)), where)
        candidates = plan(entries, filled, where)
    except CalcliError as problem:
        raise problem if "valid names" in str(problem) else advised(problem, entries, ask, where) from None
    if ask.percent and filled.kind != "probs":
        raise UsageError(f"--percent is about probabilities, got --kind {filled.kind}")
    if split:
        _refuse_second_split(candidates, where)
    for candidate in candidates:
        remark_taken(candidate, entries)
        entries = aligned_labels(candidate, entries)
        if ask.drop_missing:
            paths = [candidate.scores] if candidate.labels is None else [candidate.scores, candidate.labels]
            columns = list(candidate.columns.values())
            entries = without_missing(entries, paths, where, columns)
        arrays, asked = entries, ask
        if ask.per_label:
            candidate, arrays, asked = labels_as_rows(candidate, entries, ask)
        yield load(candidate, arrays, asked, ignore=ignore), arrays


def _refuse_second_split(candidates: Sequence[BundleArrays], where: str) -> None:
    for model in {candidate.model for candidate in candidates}:
        names = [candidate.split for candidate in candidates if candidate.model == model]
        if len(names) > 1:
            raise UsageError(f"{where}: is already split into {', '.join(names)}; split one by --group {names[0]}")
    if any("split" in candidate.extras for candidate in candidates):
        raise UsageError(f"{where}: has a column that splits it already; leave out --split")


def _deal(imported: Imported, splitting: Splitting, ignore: Sequence[int], ask: ImportRequest) -> Dealt:
    """Row indices of the source by group of the output; None: all rows."""
    name, labels = imported.candidate.name, imported.labels
    if imported.dense and imported.parts is None and not splitting.parts:
        return {name: None}  # indices of 1e8 positions would fill the memory
    rows = np.arange(imported.n)
    if ignore and labels is not None and not imported.dense:
        rows = np.flatnonzero(~np.isin(labels, np.asarray(ignore)))
        if len(rows) < imported.n:
            remark(f"{imported.where}: {imported.n - len(rows)} of {imported.n} rows left out by their labels")
        if len(rows) == 0:
            raise DataError(f"{imported.where}: every row has an ignored label, nothing is left")
    rows = _unrepeated(imported, rows, ask)
    if ask.sample is not None and not imported.dense:
        rows = _sampled(imported, rows, ask.sample, splitting.seed)
    if imported.parts is not None:
        texts = imported.parts.astype("U")[rows]
        found = np.unique(texts)
        names = [f"{name}/{group_name(str(part))}".lstrip("/") for part in found]
        if len(set(names)) < len(names):
            raise DataError(f"{imported.where}: its splits {', '.join(found)} differ only in signs no name can have")
        return {group: rows[texts == part] for group, part in zip(names, found, strict=True)}
    if not splitting.parts:
        return {name: rows}
    unit = imported.columns.get("unit")
    units = None if unit is None else Units.of(np.asarray(unit[:])[rows].astype("U"))
    units = None if units is None or units.single else units
    dealt = splitting.deal(len(rows), None if labels is None else labels[rows], imported.where, units, name)
    return {f"{imported.candidate.model}/{group}".lstrip("/"): rows[index] for group, index in dealt.items()}


def _sampled(imported: Imported, rows: IntArray, most: int, seed: int) -> IntArray:
    """At most ``most`` rows of every unit, drawn without replacement. Raises UsageError where no units are known."""
    unit = imported.columns.get("unit")
    if unit is None:
        raise UsageError(f"--sample: {imported.where} has no units to draw rows of; name their column with --unit")
    drawn = np.random.default_rng(seed).permutation(rows)
    words = np.asarray(unit[drawn]).astype("U")
    order = np.argsort(words, kind="stable")
    place = np.arange(len(order)) - np.searchsorted(words[order], words[order])
    kept = np.sort(drawn[order[place < most]])
    remark(f"{imported.where}: {len(kept)} of {len(rows)} rows, at most {most} of each unit (seed {seed})")
    return kept


def _unrepeated(imported: Imported, rows: IntArray, ask: ImportRequest) -> IntArray:
    """Drop rows that repeat the id, scores and label of an earlier row. Without ``--drop-duplicates`` raises DataError
    if all repeated ids are such (padding). Rows of one id with different scores or labels stay, with a remark."""
    ids, group = imported.columns.get("ids"), imported.columns.get("group")
    if ids is None:
        if ask.drop_duplicates:
            raise UsageError(f"--drop-duplicates: {imported.where} has no ids to tell rows by")
        return rows
    unit = imported.columns.get("unit")
    if unit is not None and not ask.drop_duplicates and np.array_equal(ids.astype("U"), unit[:].astype("U")):
        return rows  # repeated trials, declared by the source
    keys = ids[rows].astype("U")
    if group is not None:
        keys = np.char.add(np.char.add(group[rows].astype("U"), "\n"), keys)
    _, firsts, which = np.unique(keys, return_index=True, return_inverse=True)
    first = firsts[which.reshape(-1)]
    later = np.flatnonzero(first != np.arange(len(rows)))
    if not len(later):
        return rows
    whole = later[imported.are_alike(rows[later], rows[first[later]])]
    row, others, own = int(rows[later[0]]), len(later) - len(whole), imported.candidate.extras["ids"]
    if others:
        told = f"rows have the id of an earlier row and other scores or another label (row {row}: {str(ids[row])!r})"
        advice = f"rows of one id belong together (an image, a patient, a question): --unit {own.rpartition('/')[2]};"
        remark(f"{imported.where}: {others} {told}; {advice} if every file counts its rows anew: --ids none")
    elif not ask.drop_duplicates:
        told = f"and its scores and label, as {len(whole)} rows have; --drop-duplicates keeps the first of each"
        raise DataError(f"{imported.where}: row {row} has the id {str(ids[row])!r} of an earlier row, {told}")
    if ask.drop_duplicates:
        remark(f"{imported.where}: {len(whole)} rows that repeat an earlier one of their id were dropped")
        rows = np.delete(rows, whole)
    return rows


def _with_carried(
    imported: Imported, entries: Entries, used: Sequence[str], ask: ImportRequest
) -> Imported:
    """Add the unused columns that are kept, under their own names; those of words are
    read in pieces."""
    if not ask.carry:
        return imported
    scores = parse_name(imported.candidate.scores)
    times = 1  # rows of the bundle for a row of the source
    if ask.per_label:
        times = len(np.unique(imported.columns["group"].astype("U")))
    carried: dict[str, Any] = {}
    for path, entry in unused(entries, used).items():
        name = parse_name(path)
        is_of_split = name.split == scores.split
        own = name.core if is_of_split else path.rpartition("/")[2]
        if own in {*OWN, "."} or name.folder != scores.folder:
            continue
        if scores.split and name.split not in ("", scores.split):
            continue
        with suppress(DataError):
            column = _carried_column(entry, own, imported.n, times)
            if column is not None:
                carried[own] = column
    return replace(imported, columns={**carried, **imported.columns})


def _carried_column(entry: Entry, own: str, n: int, times: int) -> Positions | None:
    """An unused column as rows of the bundle; None for one that is not kept. n : rows
    of the bundle. times : of these for a row of the source. Raises DataError."""
    if entry.part is None:
        entry = replace(entry, get=constant(entry.load()))
    first, last = entry.rows(slice(ROWS_CARRIED)), n // times
    if not goes_along(own, first) or len(entry.rows(slice(last - 1, last + 1))) != 1:
        return None
    if first.dtype.kind in "iumM" and entry.written is not None:
        entry = entry.having(entry.names("column"))  # 007 is 7 in the array
    elif first.dtype.kind in "iu" and entry.rows(slice(None)).dtype.kind == "f":
        return None  # a missing value further below
    starts = np.append(np.arange(0, n, ROWS_CARRIED * times), n)

    def part(piece: int) -> NDArray[Any]:
        low, high = starts[piece] // times, starts[piece + 1] // times
        values = entry.rows(slice(low, high))
        if values.dtype.kind not in "iu":
            values = words(texts_of(values, entry.where))
        return np.repeat(values, times)

    return Positions(starts, part)


def _attributes(candidate: BundleArrays, entries: Entries) -> dict[str, str]:
    """Attributes of a bundle: calibrators already applied, by the source, and original
    names of renamed columns."""
    marks = {}
    if "calibrated_by" in candidate.extras:
        path = candidate.extras["calibrated_by"]
        marks[path] = entries[path]
    attributes = past_of(entries[candidate.scores], marks)
    own = {}
    for role, path in candidate.columns.items():
        entry = entries[path]
        names = list(entry.made_of) or [parse_name(entry.name).core]
        if names != [role]:
            own[role] = names
    if candidate.labels is not None:
        label = parse_name(entries[candidate.labels].name).core
        if role_of(label) != "labels":
            own["labels"] = [label]
    if own:
        attributes[OWN_NAMES] = json.dumps(own, sort_keys=True)
    return attributes


# ---- remarks and output


def remark_taken(candidate: BundleArrays, entries: Entries) -> None:
    """Remark in one line which array was read in which role."""
    shown = {path: repr(entry.shown) for path, entry in entries.items()}
    said = [f"{shown[candidate.scores]} was read as the scores ({candidate.kind})"]
    said.append(f"{shown[candidate.labels]} as the labels" if candidate.labels else "no labels")
    named = f"class_names_{candidate.scores}"
    shown[named] = "the column names"  # the class names of a table
    if len(entries[candidate.scores].made_of) == 1:  # two classes, named by the labels
        del shown[named]
    said += [f"{shown[path]} as {ROLE_WORDS[role]}" for role, path in candidate.extras.items() if path in shown]
    remark((f"{candidate.name}: " if candidate.name else "") + ", ".join(said))


WITH_SCORES = frozenset({"scores", "labels", "class_names", "transformed", "specs", "calibrated_by"})
"""Roles of arrays that are not set by the options for columns."""

WRITTEN_BESIDE = frozenset({"prediction", "confidence"})  # derived columns that ``apply`` writes beside scores
MOST_NAMED = 8
Writers = list[tuple[GroupWriter, IntArray | None]]


def unused(entries: Entries, used: Iterable[str]) -> dict[str, Entry]:
    """Columns and arrays that are not used. used : paths, or names of columns that are part of an array."""
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
    """Remark which unused columns and arrays are kept for ``apply`` and which are left out, one line each. kept : names
    of the former. Single values are no columns. any_unit : units are known or declined, so none is proposed."""
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


def write_groups(
    out: BundleWriter, imported: Imported, groups: Dealt, origin: Any, splitting: Splitting, attributes: Any = None
) -> list[Written]:
    """Write the groups of one source bundle in one pass over its rows; return their summaries. groups : ascending row
    indices by group, None for all. origin : source of the scores. attributes : texts stored with each group."""
    writers: Writers = []
    made = list[Written]()
    lazy = {name: column for name, column in imported.columns.items() if isinstance(column, Positions)}
    everywhere = absent_classes(imported.labels, imported.k)
    k, kind, dtype, specs = imported.k, imported.kind, imported.dtype, imported.specs
    whole = NewBundle(n=imported.n, k=k, kind=kind, dtype=dtype, transforms=specs, class_names=imported.class_names)
    for group, index in groups.items():
        split = splitting.record(group, imported.labels is not None, "unit" in imported.columns)
        rows, at = (imported.n, slice(None)) if index is None else (len(index), index)
        labels = None if imported.labels is None else imported.labels[at]
        source = {**origin, "rows": rows, "rows_of_source": imported.n, **({"split": split} if splitting.parts else {})}
        columns = {name: values[at] for name, values in imported.columns.items() if name not in lazy}
        labelled = labels is not None
        writer = out.create(group, replace(whole, n=rows, labels=labelled and k > 0, columns=columns, source=source))
        for name, text in (attributes or {}).items():
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
    """Write the rows of every group; warn if accuracy is 1, or not significantly better than 1 / k."""
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
