"""All arrays of the sources of an import, joined as the request says.

Files are resolved (``sources``) and read as tables of arrays (``formats``), a folder of
units at once (``unit_files``); labels of a file of their own are added (``joining.gold``),
and sampled answers counted (``joining.votes``).
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from calcli.errors import UsageError
from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.formats import open_table
from calcli.importers.import_request import ImportRequest
from calcli.importers.joining.gold import Joined, add_gold, column_of_answers
from calcli.importers.joining.join import join_tables, remark_shards
from calcli.importers.joining.named_columns import with_named_columns
from calcli.importers.joining.votes import count_votes
from calcli.importers.sources import Sources, settle_sources
from calcli.importers.table import Column, Columns, Table, unite
from calcli.importers.unit_files import files_of_units
from calcli.io.inputs import file_sha256
from calcli.items import without

OF_CHOICES = ("lm-eval", "lighteval", "lm-eval-write-out")

FORMATS_OF_OPTIONS = {
    "--normalize": OF_CHOICES,
    "--choices": (*OF_CHOICES, "helm", "inspect", "json", "parquet", "arrow"),
    "--filter": ("lm-eval",),
    "--classes": ("csv", "json", "json-table", "parquet", "arrow"),
}
"""Options that some formats use."""

OF_CLASSES = ("--per-label", "--class-names")
"""Options that do not apply to confidences."""


@dataclass(frozen=True)
class Source:
    """All arrays of the sources, and what is asked of them.

    replaced : columns that a named one stands in for, which are still kept. files :
    what is recorded of each file in the output.
    """

    where: str
    arrays: Arrays
    request: ImportRequest
    replaced: Columns
    files: Sequence[Mapping[str, str]]

    @property
    def columns(self) -> Columns:
        return self.arrays.columns

    @property
    def name(self) -> str:
        """Name for people: of the file, or the first of several."""
        first, *others = self.where.split(", ")
        name = "stdin" if first == "-" else Path(first).name
        return f"{name} and {len(others)} more" if others else name


def read_source(
    paths: Sequence[Path],
    settled: Sources,
    stack: ExitStack,
    request: ImportRequest,
) -> Source:
    """Read the arrays of all sources, joined as the request says."""
    where = ", ".join(map(str, paths))
    score_files = list(settled.files)
    folders = list(filter(Path.is_dir, paths))
    units = files_of_units(score_files, folders, request)
    gold = None
    if request.gold is not None and request.votes is None:
        gold = _gold_table(stack, settled, request)
        request = _with_gold_answers(request, gold)
    if units is None:
        tables = [open_table(path, stack, request) for path in score_files]
        hashes = [file_sha256(table.file) for table in tables]
        together = _together(tables, settled.folders, request)
    else:
        tables = [units]
        hashes = [_hash_of_all(score_files)]
        together = _together(tables, [], request)
    if gold is None and request.gold is not None and not _is_column(together):
        gold = _gold_table(stack, settled, together.request)
    if gold is not None:
        tables.append(gold)
        hashes.append(file_sha256(gold.file))
        together = add_gold(together.columns, gold, together.request)
    request = together.request
    columns = with_named_columns(together.columns, request.named)
    replaced: dict[str, Column] = {}
    if request.votes is None:
        replaced = without(together.columns, columns)
    else:
        counted = count_votes(columns, request, where)
        columns, request = counted.columns, counted.request
    files = []
    for table, digest in zip(tables, hashes, strict=True):
        files.append(
            {"name": table.file.name, "format": table.format, "sha256": digest}
        )
    return Source(where, Arrays(columns), request, replaced, files)


def _together(
    tables: Sequence[Table], folders: Sequence[str], request: ImportRequest
) -> Joined:
    """The arrays of all tables, those of the same name as one with ``--join``.

    folders : folder of each file below the source, if there are any.
    """
    _refuse_unread(request, tables)
    if request.join:
        return join_tables(tables, request)
    columns = unite(tables, folders)
    remark_shards(tables)
    return Joined(columns, request)


def _gold_table(stack: ExitStack, settled: Sources, request: ImportRequest) -> Table:
    """Open the file of ``--gold``."""
    settle_sources([Path(str(request.gold))], stack, settled)
    return open_table(settled.files[-1], stack, ImportRequest(labels=request.labels))


def _with_gold_answers(request: ImportRequest, gold: Table) -> ImportRequest:
    """The request with the labels of the gold file, by which classes may be named."""
    with suppress(UsageError):  # raised where the gold is added
        answers = gold.columns[column_of_answers(gold, request)]
        return replace(request, gold_answers=answers)
    return request


def _is_column(together: Joined) -> bool:
    """True if ``--gold`` names the column of right answers for ``--votes``."""
    request = together.request
    gold = request.gold or ""
    is_named = any(path.endswith(gold) for path in together.columns)
    return bool(request.votes) and is_named


def _hash_of_all(files: Sequence[Path]) -> str:
    """One hash for all files of a folder of units."""
    digests = "".join(map(file_sha256, files))
    return sha256(digests.encode()).hexdigest()


def _refuse_unread(request: ImportRequest, tables: Sequence[Table]) -> None:
    """Raise UsageError for an option that does not apply to any source."""
    formats = {table.format for table in tables}
    plain = ImportRequest()
    for option in (*FORMATS_OF_OPTIONS, *OF_CLASSES):
        field = option.removeprefix("--").replace("-", "_")
        if getattr(request, field) == getattr(plain, field):
            continue
        known = FORMATS_OF_OPTIONS.get(option)
        if option == "--normalize" and request.normalize == "sum":
            continue
        if known is not None and formats.isdisjoint(known):
            listing = ", ".join(sorted(formats))
            raise UsageError(f"{option} is for {', '.join(known)}; read was {listing}")
        has_confidences = request.confidence or request.correct
        if option in OF_CLASSES and has_confidences:
            raise UsageError(
                f"{option} is about scores of classes; --confidence and --correct have"
                " none"
            )
