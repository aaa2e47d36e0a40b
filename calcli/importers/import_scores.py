"""Importing from beginning to end: sources in, one file of bundles out."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli import __version__
from calcli.errors import CalcliError, DataError, UsageError
from calcli.importers.archive import Archive, Entries, Entry, remark, remarks, unite
from calcli.importers.array_names import COLUMNS, BundleArrays, columns_by_name, group_name, parse_name, plan, role_of
from calcli.importers.confidences import confidences_by_name, count_votes, load_confidences
from calcli.importers.formats import open_archive
from calcli.importers.import_report import ImportReport, Splitting, remark_taken, remark_unused, unused, write_groups
from calcli.importers.import_request import ImportRequest
from calcli.importers.join import add_gold, aligned_labels, join_archives, remark_shards, without_missing
from calcli.importers.labelled_scores import Imported, labels_as_rows, load
from calcli.importers.labels import texts_of
from calcli.importers.positions import Positions
from calcli.importers.sources import files_of_units, settle_sources
from calcli.importers.unnamed_arrays import ROWS_CARRIED, advised, goes_along, retried, take_obvious
from calcli.io.atomic import check_output
from calcli.io.bundle import OWN_NAMES
from calcli.io.inputs import file_sha256
from calcli.io.locate import matching_files
from calcli.io.provenance import carried, unmarked
from calcli.io.score_files import OWN
from calcli.io.writer import new_bundles
from calcli.numerics import IntArray
from calcli.statistics.units import Units


def import_scores(
    sources: Sequence[Path],
    output: Path,
    ask: ImportRequest = ImportRequest(),
    splitting: Splitting = Splitting(),
    *,
    ignore_labels: Sequence[int] = (),
    force: bool = False,
) -> ImportReport:
    """Import saved scores into a new HDF5 file of bundles. Raises UsageError for requests that make no sense, DataError
    for sources that cannot be read or break the rules of bundles; then nothing is written."""
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
            if units:  # one hash of those of its files
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
Dealt = dict[str, IntArray | None]
OF_CHOICES = ("lm-eval", "lighteval", "lm-eval-write-out")
LOGS = {
    "--normalize": OF_CHOICES,
    "--choices": (*OF_CHOICES, "helm", "inspect", "json", "parquet", "arrow"),
    "--filter": ("lm-eval",),
    "--classes": ("csv", "json", "json-table", "parquet", "arrow"),
}  # options that only some formats look at

OF_CLASSES = ("--per-label", "--class-names", "--all-scores")  # options that have no meaning for confidences


def _refuse_unread(ask: ImportRequest, archives: Sequence[Archive]) -> None:
    """Raises UsageError for an option that no source looks at."""
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
    """Each bundle that the arrays make, and the arrays: one of confidences, or scores with labels by their names."""
    ask = confidences_by_name(entries, ask)
    if ask.confidence or ask.correct:
        if ask.drop_missing:
            entries = without_missing(entries, [path for path in entries if path in ask.pieces], where)
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
            entries = without_missing(entries, paths, where)
        arrays, asked = entries, ask
        if ask.per_label:
            candidate, arrays, asked = labels_as_rows(candidate, entries, ask)
        yield load(candidate, arrays, asked, ignore=ignore), arrays


def _refuse_second_split(candidates: Sequence[BundleArrays], where: str) -> None:
    for model in {candidate.model for candidate in candidates}:
        names = [candidate.split for candidate in candidates if candidate.model == model]
        if len(names) > 1:
            advice = f"leave out --split to keep these groups, or split one of them: --group {names[0]}"
            raise UsageError(f"{where}: is already split into {', '.join(names)}; {advice}")
    if any("split" in candidate.extras for candidate in candidates):
        raise UsageError(f"{where}: has a column that splits it already; leave out --split")


def _deal(imported: Imported, splitting: Splitting, ignore: Sequence[int], ask: ImportRequest) -> Dealt:
    """Which rows of the source go to which group of the output; None: all of them."""
    name, labels = imported.candidate.name, imported.labels
    if imported.dense and imported.parts is None and not splitting.parts:
        return {name: None}  # of 1e8 positions their numbers alone would fill the memory
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
            told = f"its splits {', '.join(found)} differ only in signs that names cannot have"
            raise DataError(f"{imported.where}: {told}")
        return {group: rows[texts == part] for group, part in zip(names, found, strict=True)}
    if not splitting.parts:
        return {name: rows}
    unit = imported.columns.get("unit")
    units = None if unit is None else Units.of(np.asarray(unit[:])[rows].astype("U"))
    units = None if units is None or units.single else units
    dealt = splitting.deal(len(rows), None if labels is None else labels[rows], imported.where, units, name)
    return {f"{imported.candidate.model}/{group}".lstrip("/"): rows[index] for group, index in dealt.items()}


def _sampled(imported: Imported, rows: IntArray, most: int, seed: int) -> IntArray:
    """At most so many rows of every unit, drawn without replacement. Raises UsageError where no units are known."""
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
    """The rows that repeat no earlier one. Raises DataError where all that have an earlier id are such and may not be
    dropped: padding. Rows of one id with other scores or labels belong together, which is said, and stay."""
    ids, group = imported.columns.get("ids"), imported.columns.get("group")
    if ids is None:
        if ask.drop_duplicates:
            raise UsageError(f"--drop-duplicates: {imported.where} has no ids to tell rows by")
        return rows
    unit = imported.columns.get("unit")
    if unit is not None and not ask.drop_duplicates and np.array_equal(ids.astype("U"), unit[:].astype("U")):
        return rows  # asked several times, as their source says
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


def _with_carried(imported: Imported, entries: Entries, used: Sequence[str], ask: ImportRequest) -> Imported:
    """With the columns that nothing is made of and that go along, by their own names; those of words piece by piece."""
    scores, found = parse_name(imported.candidate.scores), dict[str, Any]()
    times = len(np.unique(imported.columns["group"].astype("U"))) if ask.per_label else 1
    starts = np.append(np.arange(0, imported.n, ROWS_CARRIED * times), imported.n)
    for path, entry in unused(entries, used).items() if ask.carry else ():
        name = parse_name(path)
        own = name.core if name.split == scores.split else path.rpartition("/")[2]
        other = scores.split and name.split not in ("", scores.split)
        if other or own in {*OWN, "."} or name.folder != scores.folder:
            continue
        with suppress(DataError):
            entry = entry if entry.part else entry.having(entry.load())
            first, last = entry.rows(slice(ROWS_CARRIED)), imported.n // times
            if not goes_along(own, first) or len(entry.rows(slice(last - 1, last + 1))) != 1:
                continue
            if first.dtype.kind in "iu" and entry.rows(slice(None)).dtype.kind == "f":  # in a row further below
                continue

            def part(piece: int, entry: Entry = entry) -> NDArray[Any]:
                values = entry.rows(slice(starts[piece] // times, starts[piece + 1] // times))
                words = values.dtype.kind not in "iu"
                return np.repeat(np.array(texts_of(values, entry.where), dtype=object) if words else values, times)

            found[own] = Positions(starts, part)
    return replace(imported, columns={**found, **imported.columns})


def _attributes(candidate: BundleArrays, entries: Entries) -> dict[str, str]:
    """What the source says of calibrators, beside its arrays or in a column, and its own names of renamed columns."""
    scores = entries[candidate.scores]
    found = carried(scores.path, scores.name)
    marked = entries.get(candidate.extras.get("calibrated_by", ""))
    if not found and marked is not None and (column := marked.column()).ndim == 1:
        chain = unmarked([str(text) for text in column], marked.where)
        found = {} if chain is None else {"calibrated_by": chain}
    named = {role: entries[path] for role, path in candidate.extras.items() if role in COLUMNS}
    own = {role: [*entry.made_of] or [parse_name(entry.name).core] for role, entry in named.items()}
    if candidate.labels is not None and role_of(label := parse_name(entries[candidate.labels].name).core) != "labels":
        own["labels"] = [label]
    own = {role: names for role, names in own.items() if names != [role]}
    return found | ({OWN_NAMES: json.dumps(own, sort_keys=True)} if own else {})
