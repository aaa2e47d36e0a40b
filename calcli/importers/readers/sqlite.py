"""Tables of SQLite databases, by the standard library: ``FILE.db:TABLE``."""

from contextlib import closing
from typing import Any

from calcli.errors import UsageError
from calcli.importers.formats import reader
from calcli.importers.json_columns import column_of_cells
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.importers.text_cells import text_column
from calcli.items import are_all


@reader(
    "sqlite",
    "tables of SQLite databases",
    suffixes=[".db", ".sqlite", ".sqlite3"],
    sniff=lambda file: file.head.startswith(b"SQLite format 3\0"),
    order=-1,
    examples=[("results.db:predictions", "")],
)
def read_sqlite(file: SourceFile) -> Table:
    """Read one table or view; a database with several needs its name."""
    import sqlite3  # few files are databases

    uri = file.path.resolve().as_uri() + "?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as database:
        names = _tables(database)
        name = file.inner
        if name is None and len(names) == 1:
            name = names[0]
        if name not in names:
            raise _unclear(file, names)
        quoted = '"' + str(name).replace('"', '""') + '"'
        cursor = database.execute(f"SELECT * FROM {quoted}")
        headers = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
    columns = {}
    for place, header in enumerate(headers):
        cells = [row[place] for row in rows]
        columns[header] = column_of_cells(file.path, header, cells)
        if are_all(str, cells):
            columns[header] = text_column(file.path, header, cells)
    return Table(file.path, "sqlite", columns, len(rows))


def _tables(database: Any) -> list[str]:
    """Names of the tables and views that are not SQLite's own."""
    rows = database.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        " AND name NOT LIKE 'sqlite_%' ORDER BY name"
    )
    return [name for (name,) in rows]


def _unclear(file: SourceFile, names: list[str]) -> UsageError:
    if not names:
        return UsageError(f"{file.path}: is a database without tables")
    message = f"has the tables {', '.join(names)}; name one"
    if file.inner is not None:
        message = f"has no table {file.inner!r}, but {', '.join(names)}; name one"
    return UsageError(
        f"{file.path}: {message}: FILE.db:TABLE", no_command="each may be meant"
    )
