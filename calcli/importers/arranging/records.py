"""Columns of rows that are JSON objects, as those of logs and of web services.

Their distributions over classes come in one form (``distributions``) and one order
(``class_order``); those over tokens become such (``token_distributions``).
"""

from dataclasses import replace

from calcli.importers.arranging.class_order import in_one_order
from calcli.importers.arranging.distributions import flat_row
from calcli.importers.arranging.token_confidences import token_rows
from calcli.importers.arranging.token_distributions import classes_of_tokens
from calcli.importers.import_request import ImportRequest
from calcli.importers.json_columns import columns_of_records
from calcli.importers.table import Table


def with_columns(table: Table, request: ImportRequest) -> Table:
    """Make the columns of a table of records.

    Raises UsageError and DataError where it is unclear which classes there are.
    """
    where = str(table.file)
    rows = [flat_row(row) for row in table.records]
    classes_of_tokens(rows, request, where)
    rows = token_rows(rows, request, where)
    in_one_order(rows, request, where)
    columns = columns_of_records(table.file, rows)
    return replace(table, columns=columns, n_rows=len(rows), records=())
