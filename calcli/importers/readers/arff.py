"""ARFF tables: files of Weka, and the predictions of OpenML's runs."""

import re
from collections.abc import Sequence

import numpy as np

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Column, Table
from calcli.importers.text_cells import held_column, words

QUOTED = r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|"""
"""Text in quotes, where a backslash escapes."""

CELL = re.compile(rf"\s*(?:{QUOTED}([^,]*?))\s*(,|$)")
"""A cell, and the comma after it."""

ATTRIBUTE = re.compile(rf"(?i)@attribute\s+(?:{QUOTED}(\S+?))\s*({{.*|\s\S.*)")
ESCAPED = re.compile(r"\\(.)")
NUMERIC = ("numeric", "real", "integer")
MISSING = "?"


@reader(
    "arff",
    "ARFF tables of Weka and OpenML",
    suffixes=[".arff"],
    sniff=lambda file: (
        file.is_text
        and (file.suffix == ".arff" or b"@relation" in file.head.lower())
        and b"@attribute" in file.head.lower()
    ),
    order=-1,
    examples=[("predictions.arff", "")],
)
def read_arff(file: SourceFile) -> Table:
    """Read the columns of an ARFF table; a missing value is an empty cell."""
    types: dict[str, str] = {}
    rows: list[list[str]] = []
    is_data = False
    text = file.path.read_text("utf-8-sig")
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("%"):
            continue
        if is_data:
            rows.append(_cells(line, len(types), f"{file.path}: line {number}"))
        elif line.lower().startswith("@data"):
            is_data = True
        elif line.lower().startswith("@attribute"):
            match = ATTRIBUTE.fullmatch(line)
            if match is None:
                expected = "expected @attribute NAME TYPE"
                raise DataError(f"{file.path}: line {number}: {expected}")
            types[_unquoted(match[1], match[2], match[3])] = match[4].strip().lower()
    columns = {}
    for name, cells in zip(types, zip(*rows, strict=True), strict=False):
        columns[name] = _column(file, name, types[name], cells)
    return Table(file.path, "arff", columns, len(rows))


def _cells(line: str, n: int, where: str) -> list[str]:
    """Cells of a row, without quotes."""
    if line.startswith("{"):
        raise DataError(f"{where} is a sparse row, expected {n} cells")
    cells = []
    if "'" in line or '"' in line:
        match = CELL.match(line)
        while match is not None:
            cells.append(_unquoted(match[1], match[2], match[3]))
            match = CELL.match(line, match.end()) if match[4] else None
    else:
        cells = list(map(str.strip, line.split(",")))
    if len(cells) != n:
        raise DataError(f"{where} has {len(cells)} cells, expected {n}")
    return cells


def _unquoted(single: str | None, double: str | None, plain: str | None) -> str:
    """Text of a cell, by how it is quoted."""
    quoted = single if single is not None else double
    if quoted is not None:
        return ESCAPED.sub(r"\1", quoted)
    return plain or ""


def _column(file: SourceFile, name: str, kind: str, cells: Sequence[str]) -> Column:
    """Column of numbers, or of words."""
    empty_row = cells.index(MISSING) if MISSING in cells else None
    is_numeric = kind.split()[0] in NUMERIC
    empty = "nan" if is_numeric else ""
    texts = [empty if cell == MISSING else cell for cell in cells]
    if not is_numeric:
        return held_column(file.path, name, words(texts), "text", empty_row)
    try:
        numbers = list(map(float, texts))
    except ValueError as problem:
        raise DataError(f"{file.path}: column {name!r}: {problem}") from None
    return held_column(file.path, name, np.array(numbers), "number", empty_row)
