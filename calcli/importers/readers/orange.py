"""Tables of Orange: names, types and roles of the columns in three lines."""

import re

from calcli.importers.formats import reader
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.importers.text_cells import text_column
from calcli.importers.text_table import Opening, read_grid, refuse_doubles

TYPES = {"c", "continuous", "d", "discrete", "s", "string", "t", "time", "basket"}
ROLE = re.compile(r"(|c|class|m|meta|i|ignore|w|weight)( [-\w]+=.*)?|[-\w]+=.*")
"""Role of a column, and its attributes; both may be missing."""

CLASS = re.compile(r"(c|class)( .*)?")
HEADER_LINES = 3


@reader(
    "orange",
    "tables of Orange with names, types and roles of the columns in three lines",
    suffixes=[".tab"],
    sniff=lambda file: file.is_text and _is_header(file),
    order=-1,
    examples=[("predictions.tab", "")],
)
def read_orange(file: SourceFile) -> Table:
    """Read all columns; the one whose role is the class holds the labels."""
    opening = Opening(file.first_lines[0].split("\t"), "\t", n_skipped=0)
    grid = read_grid(file.path, opening, opening.cells)
    texts_by_name = {}
    names = []
    for name, (_, role, *texts) in zip(grid.names, grid.columns, strict=True):
        names.append("labels" if _is_class(role) else name.strip())
        texts_by_name[names[-1]] = texts
    refuse_doubles(file.path, names)
    columns = {}
    for name, texts in texts_by_name.items():
        columns[name] = text_column(file.path, name, texts)
    n_header_rows = HEADER_LINES - 1
    return Table(file.path, "orange", columns, grid.n_rows - n_header_rows)


def _is_class(role: str) -> bool:
    return CLASS.fullmatch(role.strip()) is not None


def _is_header(file: SourceFile) -> bool:
    """True for names, types and roles of two or more columns, one the class at most.

    The type of a discrete column may be the list of its values. Types and roles are in
    small letters: rows of answers A, B, C and D look alike.
    """
    lines = [line.split("\t") for line in file.first_lines[:HEADER_LINES]]
    if len(lines) < HEADER_LINES:
        return False
    names, types, roles = lines
    if not len(names) == len(types) == len(roles) > 1:
        return False
    has_types = any(cell.strip() in TYPES for cell in types)
    are_types = all(map(str.strip, types))
    are_roles = all(ROLE.fullmatch(cell.strip()) for cell in roles)
    has_roles = any(map(str.strip, roles)) and sum(map(_is_class, roles)) <= 1
    return has_types and are_types and are_roles and has_roles
