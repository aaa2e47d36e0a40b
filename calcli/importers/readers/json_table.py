"""Tables in JSON with the names of the columns apart from the rows."""

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.json_columns import columns_of_cells
from calcli.importers.remarks import remark
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.importers.text_table import refuse_doubles

MOST_ROWS_OF_WANDB = 10_000


@reader(
    "json-table",
    "tables as W&B logs them and as pandas splits them: columns and rows of data",
    sniff=lambda file: (
        file.is_json
        and isinstance(file.json, dict)
        and all(isinstance(file.json.get(key), list) for key in ("columns", "data"))
    ),
    suffixes=[".json"],
    order=6,
    general=True,
    examples=[("media/table/preds.table.json", "")],
)
def read_json_table(file: SourceFile) -> Table:
    """Read ``{"columns": […], "data": [[…], …]}``; cells that are media are ignored."""
    path, rows = file.path, file.json["data"]
    names = list(map(str, file.json["columns"]))
    refuse_doubles(path, names)
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(names):
            raise DataError(
                f"{path}: row {number} is no list of {len(names)} cells, one per column"
            )
    if "index" not in file.json and len(rows) == MOST_ROWS_OF_WANDB:
        remark(
            f"{path.name}: {len(rows)} rows, where W&B cuts the table of a run; are"
            " there more?"
        )
    cells_by_name = {}
    for place, name in enumerate(names):
        cells_by_name[name] = [row[place] for row in rows]
    columns = columns_of_cells(path, cells_by_name)
    return Table(path, "json-table", columns, len(rows))
