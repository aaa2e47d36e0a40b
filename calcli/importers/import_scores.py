"""The whole import: sources in, one file of bundles out.

The arrays of all files are read (``read_source``), their reading is proposed
(``proposing``) and built, split into groups and written (``building``). A refusal ends
with a command that was tried (``advising``).
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from calcli import __version__
from calcli.errors import CalcliError, UsageError, one_line
from calcli.importers.advising.advice import with_command, with_option
from calcli.importers.advising.advised_commands import (
    advised_import,
    longer,
    with_reason,
    without_commands,
)
from calcli.importers.building.bundles import attributes_of, build
from calcli.importers.building.carried_columns import (
    remark_unused,
    unused,
    with_carried,
)
from calcli.importers.building.confidences import build_confidences, confidences_by_name
from calcli.importers.building.dealing import (
    Dealt,
    Splitting,
    deal,
    refuse_second_split,
)
from calcli.importers.building.imported import Imported
from calcli.importers.building.per_label import labels_as_rows
from calcli.importers.building.row_labels import with_mark_of_fractions
from calcli.importers.building.writing import ImportReport, write_groups
from calcli.importers.decision_logs.logs import is_decision_log, read_decision_log
from calcli.importers.decision_logs.question_bundles import write_log
from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.import_request import ImportRequest
from calcli.importers.joining.gold import align_labels
from calcli.importers.joining.missing import without_missing
from calcli.importers.names.array_names import parse_name
from calcli.importers.names.roles import COLUMNS
from calcli.importers.proposing.proposal import propose
from calcli.importers.read_source import Source, read_source
from calcli.importers.reading import Reading
from calcli.importers.remarks import remark, remarks
from calcli.importers.sources import settle_sources
from calcli.io.atomic import check_output
from calcli.io.locate import matching_files
from calcli.io.read_line import read_line
from calcli.io.writer import BundleWriter, check_ending, new_bundles

LONGEST_REASON = 100
"""Most characters of the reason why no command is proposed."""


def import_scores(
    sources: Sequence[Path],
    output: Path,
    request: ImportRequest = ImportRequest(),
    splitting: Splitting = Splitting(),
    *,
    ignore_labels: Sequence[float] = (),
    force: bool = False,
) -> ImportReport:
    """Import saved scores into a new HDF5 file of bundles.

    Raises UsageError for contradictory requests, DataError for sources that cannot be
    read or break the rules of bundles; then nothing is written.
    """
    files: list[Path] = []
    for pattern in sources:
        files += map(Path, matching_files(str(pattern)))
    ignored = with_mark_of_fractions(ignore_labels)
    check_output(output, force=force, inputs=files)
    check_ending(output)
    report = ImportReport()
    with ExitStack() as stack:
        notes = stack.enter_context(remarks())
        settled = settle_sources(files, stack)
        source: Source | None = None
        try:
            if is_decision_log(settled.files, request):
                gold = None if request.gold is None else Path(request.gold)
                log = read_decision_log(settled.files[0], gold, request.labels)
                with new_bundles(output, force=force, inputs=files) as out:
                    write_log(log, out, report, splitting, request, ignored)
            else:
                source = read_source(files, settled, stack, request)
                with new_bundles(output, force=force, inputs=files) as out:
                    _write(source, out, report, splitting, ignored)
        except CalcliError as problem:
            arrays = Arrays({}) if source is None else source.arrays
            advised = with_advice(problem, files, request, ignored, arrays)
            raise advised.translated(settled.translated) from None
        report.lines = list(map(settled.translated, report.lines))
        report.notes = report.lines + list(map(settled.translated, notes))
    return report


def with_advice(
    problem: CalcliError,
    files: Sequence[Path],
    request: ImportRequest,
    ignored: Sequence[float],
    arrays: Arrays,
) -> CalcliError:
    """The error, with a command that reads the files, or why there is none.

    arrays : of the files, as far as they are known.
    """
    where = ", ".join(map(str, files))
    has_gaps = any(column.empty_row is not None for column in arrays.columns.values())
    if has_gaps and not problem.option and not request.drop_missing:
        # what an empty cell hides may need no other option
        command = request.command(where, [("--drop-missing",)])
        tried = _tried(command, files, request, ignored)
        if not isinstance(tried, CalcliError):
            return problem.advising(tried)
    advised = with_option(problem, request, arrays, where)
    if advised.commands:
        advised = _with_working_commands(advised, files, request, ignored)
    return with_reason(advised)


def _with_working_commands(
    problem: CalcliError,
    files: Sequence[Path],
    request: ImportRequest,
    ignored: Sequence[float],
) -> CalcliError:
    """The error, with its commands only if all of them read the sources."""
    working = []
    for command in problem.commands:
        tried = _tried(command, files, request, ignored)
        if isinstance(tried, CalcliError):
            reason = one_line(ValueError(tried.message), LONGEST_REASON)
            return without_commands(problem, reason)
        working.append(tried)
    return problem.advising(*working)


def _tried(
    command: Sequence[str],
    files: Sequence[Path],
    request: ImportRequest,
    ignored: Sequence[float],
) -> Sequence[str] | CalcliError:
    """The command if it reads the sources, else why not.

    Where it is refused with the advice of an option, it is tried with that.
    """
    advised = advised_import(command, request)
    if advised is None:
        return command
    try:
        with ExitStack() as stack, remarks():
            settled = settle_sources(files, stack)
            source = read_source(files, settled, stack, advised.request)
            also_ignored = with_mark_of_fractions((*ignored, *advised.ignored))
            for imported in _bundles(source, also_ignored, False):
                for _ in imported.slabs():
                    pass
    except CalcliError as refusal:
        if not refusal.option or refusal.option[0] in command:
            return refusal
        return _tried(longer(command, refusal.option), files, request, ignored)
    return command


# ---- bundles out


def _write(
    source: Source,
    out: BundleWriter,
    report: ImportReport,
    splitting: Splitting,
    ignore: Sequence[float],
) -> None:
    """Write a bundle per reading of the source, with remarks on what was read."""
    request = source.request
    origin: dict[str, Any] = {
        "calcli_version": __version__,
        "files": source.files,
        "kind_given": request.kind is not None,
    }
    if request.sample is not None:
        origin["sampled"] = {"of_each_unit": request.sample, "seed": splitting.seed}
    used = [*request.pieces, request.votes or ""]
    kept: set[str] = set()
    scores: list[str] = []
    for imported in _bundles(source, ignore, bool(splitting.parts)):
        reading = imported.reading
        dealt = deal(imported, splitting, ignore, request)
        used += reading.paths.values()
        scores.append(reading.scores)
        _note_reading(source, imported, dealt, report)
        names = {}
        for role, path in reading.paths.items():
            column = reading.columns[path]
            names[role] = f"{column.file.name}:{column.name}"
        every_column = {**source.replaced, **reading.columns}
        imported = with_carried(imported, every_column, used, request)
        kept |= imported.columns.keys()
        report.bundles += write_groups(
            out,
            imported,
            dealt,
            {**origin, "arrays": names},
            splitting,
            attributes_of(reading),
        )
    left = unused(source.columns, used)
    if "unit" not in kept and "unit" not in request.named:
        report.likely_unit = source.arrays.likely_unit(left)
    chose_parts = bool(request.groups)
    remark_unused(left, kept, report.likely_unit, scores, chose_parts=chose_parts)


def _note_reading(
    source: Source, imported: Imported, dealt: Dealt, report: ImportReport
) -> None:
    """Add the line that says what was read as what."""
    reading = imported.reading
    words = reading.in_words()
    report.arrays |= dict.fromkeys(dealt, words)
    n = 0
    for rows in dealt.values():
        n += imported.n if rows is None else len(rows)
    name = f"{source.name}:{reading.name}" if reading.name else source.name
    report.lines.append(read_line(name, n, imported.k, words))
    _remark_weight(source, reading)


def _remark_weight(source: Source, reading: Reading) -> None:
    """Remark on sample weights that may be a body weight: a name tells no more."""
    if "weights" not in reading.extras or "weights" in source.request.named:
        return
    name = reading.extra("weights").name
    if name.lower() == "weight":
        remark(
            f"{source.where}: column {name!r} was read as sample weights;"
            " --sample-weight none does not use it"
        )


def _bundles(
    source: Source, ignore: Sequence[float], is_split: bool
) -> Iterator[Imported]:
    """Build the bundles of a source.

    One of confidences, or one per array of scores with its labels.
    """
    columns, where = source.columns, source.where
    request = confidences_by_name(columns, source.request)
    if request.confidence or request.correct:
        if request.drop_missing:
            paths = [path for path in columns if path in request.pieces]
            used = [path for path in columns if parse_name(path).role in COLUMNS]
            columns = without_missing(columns, paths, where, used)
        yield build_confidences(columns, request, ignore, where)
        return
    readings = _readings(source.arrays, request, where)
    if is_split:
        refuse_second_split(readings, where)
    for reading in readings:
        reading = align_labels(reading)
        if request.drop_missing:
            reading = _without_missing(reading, where)
        if request.per_label:
            rows = labels_as_rows(reading, request)
            yield build(rows.reading, rows.request, ignore=ignore)
        else:
            yield build(reading, request, ignore=ignore)


def _without_missing(reading: Reading, where: str) -> Reading:
    """The reading without rows that lack a score, a label or a value in use."""
    paths = [reading.scores]
    if reading.labels is not None:
        paths.append(reading.labels)
    used = [reading.extras[role] for role in reading.kept]
    probabilities = reading.scores if reading.kind == "probs" else None
    columns = without_missing(reading.columns, paths, where, used, probabilities)
    return replace(reading, columns=columns)


def _readings(arrays: Arrays, request: ImportRequest, where: str) -> list[Reading]:
    """The proposed readings; refusals end with a command where one can be told."""
    declared = request
    if request.percent and request.kind is None:
        declared = replace(request, kind="probs")
    try:
        readings = propose(arrays, declared, where)
    except CalcliError as problem:
        if "valid names" in str(problem):
            raise
        raise with_command(problem, arrays, request, where) from None
    finally:
        arrays.let_go()
    for reading in readings:
        if request.percent and reading.kind != "probs":
            raise UsageError(
                f"--percent is about probabilities, got --kind {reading.kind}",
                option=["--percent"],
            )
    return readings
