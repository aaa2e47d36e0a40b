"""Parquet and Arrow tables, by pyarrow."""

from typing import Any

from calcli.importers.arrow_columns import table_of_arrow
from calcli.importers.formats import reader
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.io.validate import refuse_bomb
from calcli.optional_packages import optional_import

NUMBER_BYTES = 8
INSTEAD = "or save the table as CSV"


@reader(
    "parquet",
    "typed tables",
    suffixes=(".parquet", ".pq"),
    sniff=lambda file: file.head.startswith(b"PAR1"),
    general=True,
    extra="parquet",
    examples=[("predictions.parquet", "--labels label --kind logits")],
)
def read_parquet(file: SourceFile) -> Table:
    """Read a table of typed columns. It is held in memory."""
    return table_of_arrow(file.path, "parquet", read_table(file))


def read_table(file: SourceFile) -> Any:
    """Read a Parquet file to a pyarrow table. Raises DataError."""
    path = file.path
    file.refuse_again(b"PAR1PAR1")  # two concatenated files
    with optional_import("pyarrow", f"{path}: reading Parquet", INSTEAD):
        from pyarrow import parquet
    with parquet.ParquetFile(path) as opened:
        n_cells = opened.metadata.num_rows * opened.metadata.num_columns
    refuse_bomb(path, n_cells * NUMBER_BYTES, path.stat().st_size)
    return parquet.read_table(path, page_checksum_verification=True)


SUFFIXES = (".arrow", ".arrows", ".feather", ".ipc")
FILES = (b"ARROW1", b"FEA1")
STREAM = b"\xff\xff\xff\xff"


@reader(
    "arrow",
    "Arrow tables: Feather, IPC, what datasets' save_to_disk writes",
    suffixes=SUFFIXES,
    sniff=lambda file: (
        file.head.startswith(FILES)
        or (file.head.startswith(STREAM) and file.suffix in SUFFIXES)
    ),
    extra="parquet",
    examples=[("predictions.feather", ""), ("saved_dataset/", "")],
)
def read_arrow(file: SourceFile) -> Table:
    """Read a table of typed columns, as Parquet is read. It is held in memory."""
    path = file.path
    with optional_import("pyarrow", f"{path}: reading Arrow", INSTEAD):
        from pyarrow import OSFile, feather, ipc
    table: Any
    if file.head.startswith(STREAM):
        with OSFile(str(path)) as opened:
            table = ipc.open_stream(opened).read_all()
            file.refuse_more(opened.tell())
    else:
        file.refuse_again(b"ARROW1ARROW1")
        table = feather.read_table(path)
    table.validate(full=True)
    return table_of_arrow(path, "arrow", table)
