"""Lists of numbers as text: as Python, NumPy and torch print them, or with spaces alone."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from calcli.errors import DataError, one_line
from calcli.numerics import AnyArray

PRINTED = re.compile(r"\s*(?:[A-Za-z_.]*(?:array|tensor)\()?\s*[\[(](?P<inside>.*)[\])].*", re.DOTALL)
"""A list, a tuple, ``array([…])`` or ``tensor([…], dtype=…)``."""

SCALAR = re.compile(r"[A-Za-z_.]*float\d*\(([^()]*)\)")
"""A number as NumPy 2 prints it inside a list: ``np.float32(0.1)``."""

GAP = re.compile(r"(?<=[\d.])\s+(?=[-+\d.])")
"""What stands between the numbers of a printed NumPy array."""

SAMPLE = 100
"""How many cells are looked at to tell what all of them are."""


def is_number(cell: str) -> bool:
    """Whether a text is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def are_lists(cells: Sequence[str]) -> bool:
    """Whether these texts are lists, each of them."""
    seen = [cell.strip() for cell in cells[:SAMPLE]]
    if not seen:
        return False
    if all(cell.startswith("[") for cell in seen):
        return True
    if all(PRINTED.fullmatch(cell) for cell in seen):
        return all(is_number(piece) for piece in re.split(r"[,\s]+", _inside(seen[0])) if piece)
    return "." in seen[0] and all(len(numbers := cell.split()) > 1 and all(map(is_number, numbers)) for cell in cells)


def _inside(cell: str) -> str:
    printed = PRINTED.fullmatch(SCALAR.sub(r"\1", cell))
    return (printed["inside"] if printed else cell).strip().strip("[]")


def read_lists(path: Path, name: str, cells: Sequence[str]) -> AnyArray:
    """Rows of ``[0.1, 0.9]``, or as NumPy prints them, ``[0.1 0.9]``, over several lines or not. Raises DataError."""
    if all("'" in cell for cell in cells):
        return np.array([re.findall(r"'([^']*)'", cell) for cell in cells])
    rows: list[list[float]] = []
    for number, cell in enumerate(cells):
        pieces = GAP.sub(",", _inside(cell)).split(",")
        try:
            rows.append([float(piece) for piece in pieces])
        except ValueError:
            short = "; NumPy has left out the middle: np.set_printoptions(threshold=sys.maxsize) before writing"
            raise DataError(
                f"{path}: column {name!r} has {one_line(ValueError(cell), 40)!r} in row {number}, expected numbers"
                f"{short if '...' in cell else ''}"
            ) from None
        if len(rows[-1]) != len(rows[0]):
            raise DataError(
                f"{path}: the lists in column {name!r} have different lengths ({len(rows[0])} in row 0,"
                f" {len(rows[-1])} in row {number}), expected one number per class"
            )
    return np.array(rows)


def not_a_number(path: Path, name: str, values: Sequence[str]) -> DataError:
    """The complaint about the first of these cells that is no number."""
    row = next((i for i, cell in enumerate(values) if not is_number(cell)), 0)
    cell = str(values[row])
    hint = ""
    if cell.strip().endswith("%"):
        hint = ": write 0.141 for 14.1%"
    elif re.fullmatch(r"\s*[-+]?\d{1,3}(,\d{3})+(\.\d*)?\s*", cell):
        hint = " without separators of thousands"
    elif re.fullmatch(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*", cell):
        hint = " with a point before its decimals"
    elif cell.strip().startswith("{"):
        hint = '; JSON Lines take an object in a row: {"probs": {"A": 0.1, "B": 0.9}, "label": "B"}'
    return DataError(
        f"{path}: column {name!r} has {one_line(ValueError(cell), 60)!r} in row {row}, expected a number{hint}"
    )
