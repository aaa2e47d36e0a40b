"""Arrow tables: Feather, IPC files and streams, folders of datasets' ``save_to_disk``. By pyarrow."""

from contextlib import ExitStack
from typing import Any

from calcli.errors import DataError, needed
from calcli.importers.archive import Archive
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.readers.parquet import arrow_archive
from calcli.importers.source_file import SourceFile

SUFFIXES = (".arrow", ".arrows", ".feather", ".ipc")
FILES = (b"ARROW1", b"FEA1")
STREAM = b"\xff\xff\xff\xff"


@reader(
    "arrow",
    "Arrow tables: Feather, IPC, what datasets' save_to_disk writes",
    suffixes=SUFFIXES,
    sniff=lambda file: file.head.startswith(FILES) or (file.head.startswith(STREAM) and file.suffix in SUFFIXES),
    extra="parquet",
    examples=[("predictions.feather", ""), ("saved_dataset/", "")],
)
def read_arrow(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Archive:
    """Read a table of typed columns, as Parquet is read. It is held in memory."""
    path = file.path
    with needed(f"{path}: reading Arrow needs pyarrow (or save the table as CSV)", "parquet", DataError):
        from pyarrow import feather, ipc
    table: Any = ipc.open_stream(path).read_all() if file.head.startswith(STREAM) else feather.read_table(path)
    table.validate(full=True)
    return arrow_archive(path, "arrow", table, ask)
