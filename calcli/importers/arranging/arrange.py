"""From what a reader found to arrays: the transformations of a table, in order.

1. rows that are objects become columns (``records``), and so do cells that are objects
   in print (``printed_objects``);
2. rows with different numbers of scores become a table for each number (``choices``);
3. a table with a row for every class gets one for every sample (``long_tables``);
4. one-hot columns named after the classes become a column of labels (``one_hot``);
5. columns that belong together become one array (``families``);
6. in columns of names NA is a name (``with_names_like_blanks``);
7. scores that are padded where a row has fewer options say so (``padded_options``).

A new layout of files that no reader should know is a step here.
"""

from dataclasses import replace
from itertools import chain

from calcli.importers.arranging.choices import by_number_of_choices
from calcli.importers.arranging.class_words import with_words_of_classes
from calcli.importers.arranging.classes_first import with_classes_last
from calcli.importers.arranging.families import with_families
from calcli.importers.arranging.headerless import headerless
from calcli.importers.arranging.long_tables import with_a_row_per_sample
from calcli.importers.arranging.one_hot import with_labels_of_one_hot
from calcli.importers.arranging.padded_options import with_proven_options
from calcli.importers.arranging.printed_objects import with_printed_objects
from calcli.importers.arranging.records import with_columns
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import parse_name
from calcli.importers.names.roles import ROLES_OF_NAMES, role_of
from calcli.importers.table import Column, Table, constant
from calcli.importers.text_cells import with_names_like_blanks


def arranged(table: Table, request: ImportRequest) -> Table:
    """Make the arrays of a table. Raises DataError, UsageError."""
    table = _with_arrays(table, request)
    table = _with_names_of_rows(table, request)
    table = _with_typed_classes(table, request)
    # In HDF5 an attribute says that columns are options.
    return table if table.format == "hdf5" else with_proven_options(table)


def _with_typed_classes(table: Table, request: ImportRequest) -> Table:
    """The table, with the names of ``--class-names`` as words: NA, or 007."""
    if table.n_rows is None or not request.class_names:
        return table
    of_classes = with_words_of_classes(
        table.columns, request.class_names, "one of --class-names"
    )
    return replace(table, columns={**table.columns, **of_classes})


def _with_arrays(table: Table, request: ImportRequest) -> Table:
    """The table, with columns that belong together as arrays."""
    if table.records:
        table = with_columns(table, request)
    if table.n_rows is None:
        if request.class_axis == 0:
            table = with_classes_last(table)
        return _with_gaps(table) if request.drop_missing else table
    if not table.has_header:
        return headerless(table, request)
    table = with_printed_objects(table, request)
    table = by_number_of_choices(table, request)
    table = with_a_row_per_sample(table, request)
    table = with_labels_of_one_hot(table, request)
    table = with_families(table, request)
    return _with_declared_names(table, request)


def _with_gaps(table: Table) -> Table:
    """The table, with empty cells as NaN or an empty word."""
    columns = {}
    for name, column in table.columns.items():
        columns[name] = replace(column, empty_row=None)
    return replace(table, columns=columns)


def _with_names_of_rows(table: Table, request: ImportRequest) -> Table:
    """The table, with ids, groups and units as names.

    ``--drop-missing`` says that NA is a missing value.
    """
    if request.drop_missing:
        return table
    columns = dict(table.columns)
    by_name = set(ROLES_OF_NAMES) - request.named.keys()
    named = set(chain.from_iterable(request.named.values()))
    for path, column in table.columns.items():
        name = parse_name(path)
        is_named = not named.isdisjoint({path, name.core})
        if name.role not in by_name and not is_named:
            continue
        is_named_as_ids = not {path, name.core}.isdisjoint(request.named.get("ids", ()))
        are_ids = is_named_as_ids or (not is_named and name.role == "ids")
        columns[path] = with_names_like_blanks(column, may_repeat=not are_ids)
    return replace(table, columns=columns)


def _with_declared_names(table: Table, request: ImportRequest) -> Table:
    """Add the class names that a file declares for its one column of labels."""
    declared = []
    for name, column in table.columns.items():
        if "classes" in column.attributes and _is_label(name, request):
            declared.append(column.attributes["classes"])
    has_names = any(name.startswith("class_names") for name in table.columns)
    if len(declared) != 1 or has_names:
        return table
    names = Column(table.file, "class_names", constant(declared[0]))
    return replace(table, columns={**table.columns, "class_names": names})


def _is_label(name: str, request: ImportRequest) -> bool:
    return name in request.labels or role_of(name) == "labels"
