"""The text of a cell: names of rows, and answers that are compared.

Ids, units and groups are names. A name is the text of its cell, to the last
character: ``007``, ``1_10`` and ``7.10`` are words. Whole numbers are named by their
digits, whatever type holds them: 7, 7.0 in a column of floats with a gap,
``Decimal("7")``. So a column has the same names in CSV, JSON, Parquet, HDF5, npz and
pandas.

Answers are compared by their value: true, "True", 1, 1.0 and "1.0" are equal.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import Any

import numpy as np

from calcli.errors import DataError, one_line
from calcli.names import WHOLE_FLOAT, whole_text
from calcli.numerics import AnyArray

# ---- cells of tables of text

BLANKS = frozenset(
    {
        *("", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>"),
        *("null", "NULL", "None", "nan", "NaN", "-nan", "-NaN"),
    }
)
"""Texts that stand for a missing value, as pandas, R and pyarrow write them."""

WHOLE = re.compile(r"0|-?[1-9][0-9]*")
"""The text of a whole number as Python writes it: ``str(int(text)) == text``."""

NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
"""The text of a number among answers. Leading zeros and signs are of codes."""


def is_blank(text: str, words: Collection[str] = ()) -> bool:
    """True for the text of a missing value. words : such texts that are words here."""
    plain = text.strip()
    return plain in BLANKS and plain not in words


def number(text: str) -> float:
    """Read a number.

    Raises ValueError, also for underscores and for digits beyond ASCII, which ``float``
    reads.
    """
    if "_" in text or not text.isascii():
        raise ValueError(f"no number: {text!r}")
    return float(text)


def is_number(text: str) -> bool:
    """True for the text of a number."""
    try:
        number(text)
    except ValueError:
        return False
    return True


def whole_numbers(texts: Sequence[str]) -> AnyArray | None:
    """Read whole numbers, (n,) int64; None if one is no such number or too large."""
    try:
        values = np.array(list(map(int, texts)), dtype=np.int64)
    except (ValueError, OverflowError):
        return None
    return values if _are_plain(texts) else None


def real_numbers(texts: Sequence[str]) -> AnyArray | None:
    """Read numbers, (n,) float64, NaN for a missing value; None if one is no number."""
    values = []
    try:
        for text in texts:
            values.append(math.nan if is_blank(text) else float(text))
    except ValueError:
        return None
    return np.array(values) if _are_plain(texts) else None


def _are_plain(texts: Sequence[str]) -> bool:
    """True for texts without the signs that only Python reads in numbers."""
    whole = "".join(texts)
    return whole.isascii() and "_" not in whole


def cells_of_text(texts: Sequence[str], words: Collection[str] = ()) -> list[Any]:
    """Cells of a column of a table of text, None for a missing value.

    They are integers where every text is that of a whole number, or where all are
    such as 7.0 and there is a gap, which is how pandas writes whole numbers then.
    words : texts such as NA that are words here, as in a table that calcli has written.
    """
    present = [text for text in texts if not is_blank(text, words)]
    has_gap = len(present) < len(texts)
    whole = None
    if all(map(WHOLE.fullmatch, present)):
        whole = whole_numbers(present)
    elif has_gap and all(map(WHOLE_FLOAT.fullmatch, present)):
        whole = whole_numbers(list(map(whole_text, present)))
    values: list[Any] = present
    if whole is not None:
        values = whole.tolist()
    if not has_gap:
        return values
    with_gaps: list[Any] = []
    next_value = iter(values)
    for text in texts:
        with_gaps.append(None if is_blank(text, words) else next(next_value))
    return with_gaps


LIST_ITEM = re.compile(
    r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s,'"\[\]()]+)""", re.DOTALL
)
"""One item of a printed list: in quotes of either sort, or bare."""


def is_printed_list(cell: Any) -> bool:
    """True for the text of a list: ``['a', 'b']``."""
    if not isinstance(cell, str):
        return False
    text = cell.strip()
    return text.startswith("[") and text.endswith("]")


def printed_list(text: str) -> list[str]:
    """Items of a list as Python, NumPy or JSON print it: ``['a', "b", 1]``."""
    items = []
    for single, double, bare in LIST_ITEM.findall(text):
        quoted = re.sub(r"\\(.)", r"\1", single or double)
        items.append(quoted or bare)
    return items


# ---- the text of one cell

NUMBERS = (int, float, Decimal, np.number)


def is_null(cell: Any) -> bool:
    """True for a missing value: None, NaN, and those of pandas and NumPy."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return bool(np.isnat(cell))
    if isinstance(cell, Decimal):
        return cell.is_nan()
    return isinstance(cell, float | np.floating) and math.isnan(cell)


def text_of(cell: Any) -> str:
    """Text of a cell that is not missing. Raises ValueError for a container."""
    if isinstance(cell, str):
        return str(cell)
    if isinstance(cell, bytes):
        return cell.decode()
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell))
    if isinstance(cell, np.timedelta64):  # to NumPy an integer
        return str(cell)
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    if isinstance(cell, float | np.floating):
        return str(int(cell)) if float(cell).is_integer() else str(cell)
    if isinstance(cell, Decimal):
        is_whole = cell.is_finite() and cell == cell.to_integral_value()
        return str(int(cell)) if is_whole else str(cell)
    if isinstance(cell, Collection):
        raise ValueError("a container is no name")
    return str(cell)


# ---- names of rows

EXACT = 1 << 53  # floats below it have all digits of the whole number

WORD_FOR = {"ids": "id"}
OPTION_OF = {"ids": "--ids", "unit": "--unit", "group": "--group-by"}
"""What a name is called in messages where that is not the role, and its option."""


@dataclass(frozen=True)
class NameColumn:
    """A column of names, for messages.

    role : ``ids``, ``unit``, ``group`` or another. in_file : False for an argument of a
    Python function.
    """

    where: str
    role: str
    in_file: bool = True

    def refused(self, row: int, description: str) -> DataError:
        """Error about a cell that names no row."""
        expected = f"expected the {WORD_FOR.get(self.role, self.role)} of the row"
        advice = "leave such rows out"
        option = []
        if self.in_file and self.role in OPTION_OF:
            option = ["--drop-missing"]
            advice += " (calcli extract --drop-missing)"
            advice += f", or pass {OPTION_OF[self.role]} none"
        message = f"row {row} is {description}, {expected}, a whole number or a word"
        return DataError(f"{self.where}: {message}; {advice}", option=option)


def names_of(values: Any, column: NameColumn) -> AnyArray:
    """Names of rows: whole numbers as integers, all else as words.

    values : an array of any shape, or a sequence of cells of any types. Texts stay
    words, even those of whole numbers (see ``sortable``).

    Raises DataError that names the first row with a missing value or a container,
    with a number that has lost digits, or for ids and units with a fraction.
    """
    if not isinstance(values, np.ndarray):
        return _names_of_cells(list(values), column)
    kind = values.dtype.kind
    if kind in "iu":
        return values.astype(values.dtype.newbyteorder("="), copy=False)
    if kind == "f" and (whole := _whole_floats(values)) is not None:
        return whole
    if kind not in "bfmMOSUT":
        raise DataError(
            f"{column.where}: {column.role} has type {values.dtype}, expected numbers"
            " or words"
        )
    # NumPy's own scalars, as a float32 of Python would show more digits
    cells = list(values.ravel())
    if kind not in "fmM":
        cells = values.ravel().tolist()
    return _names_of_cells(cells, column).reshape(values.shape)


def _whole_floats(values: AnyArray) -> AnyArray | None:
    """Floats as int64; None unless all are whole numbers with all digits."""
    wide = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        whole = (np.abs(wide) < EXACT) & (wide == np.floor(wide))
    return wide.astype(np.int64) if whole.all() else None


def _names_of_cells(cells: Sequence[Any], column: NameColumn) -> AnyArray:
    """Names of cells, (n,): int64 where all are whole numbers, else words."""
    if _are_plain_words(cells) and not (column.role == "unit" and "" in cells):
        return words(cells)
    cells = _times_as_text(cells)
    texts = [_checked_text(cell, row, column) for row, cell in enumerate(cells)]
    if all(map(_is_number, cells)) and all(map(WHOLE.fullmatch, texts)):
        values = whole_numbers(texts)
        if values is not None:
            return values
    return words(texts)


def _are_plain_words(cells: Sequence[Any]) -> bool:
    """True for texts that every format can store."""
    if not all(type(cell) is str for cell in cells):
        return False
    whole = "".join(cells)
    try:
        whole.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in whole


def _is_number(cell: Any) -> bool:
    """True for a number of any type; not for a boolean."""
    return isinstance(cell, NUMBERS) and not isinstance(cell, bool)


def _checked_text(cell: Any, row: int, column: NameColumn) -> str:
    """Text of the cell of a row. Raises DataError (see ``names_of``)."""
    if is_null(cell):
        is_nan = isinstance(cell, float | np.floating)
        raise column.refused(row, "NaN" if is_nan else "empty")
    if isinstance(cell, float | np.floating):
        value = float(cell)
        if math.isinf(value):
            raise column.refused(row, f"{value:g}")
        if abs(value) >= EXACT:
            message = (
                f"{value:g}, a number whose last digits are lost (save it as text)"
            )
            raise column.refused(row, message)
        if column.role in ("ids", "unit") and not value.is_integer():
            raise column.refused(row, f"{value:g}")
    try:
        text = text_of(cell)
        text.encode()
    except (
        UnicodeError,
        SystemError,
    ) as problem:
        # SystemError: beyond all code points.
        raise DataError(
            f"{column.where}: holds what is no text: row {row}: {one_line(problem)};"
            " save the words as UTF-8"
        ) from None
    except ValueError as problem:
        shown = one_line(ValueError(repr(cell)), 40)
        raise column.refused(row, f"{shown} ({one_line(problem)})") from None
    if "\0" in text:
        raise DataError(
            f"{column.where}: row {row} is {text[:40]!r}, expected words without NUL"
            " characters"
        )
    if column.role == "unit" and not text:
        raise column.refused(row, "empty")
    return text


def _times_as_text(cells: Sequence[Any]) -> Sequence[Any]:
    """Dates and times as pandas writes them, where all cells are such: without the
    hours where all are at midnight.

    Other cells as they are.
    """
    stamps = []
    for cell in cells:
        if is_null(cell):
            stamps.append(np.datetime64("NaT"))
        elif _is_plain_time(cell):
            stamps.append(cell)
        else:
            return cells
    if all(map(is_null, cells)):
        return cells
    try:
        times = np.array(stamps)
        if times.dtype.kind != "M":
            times = np.array(stamps, dtype="M8[us]")
    except (ValueError, OverflowError):  # years that NumPy's type lacks
        return cells
    present = times[~np.isnat(times)]
    unit: Any = np.datetime_data(times.dtype)[0]
    for coarse in ("s", "D"):
        if (present == present.astype(f"M8[{coarse}]")).all():
            unit = coarse
    texts = np.char.replace(np.datetime_as_string(times, unit=unit), "T", " ")
    names = texts.astype(object)
    names[np.isnat(times)] = None
    return names.tolist()


def _is_plain_time(cell: Any) -> bool:
    """True for a date or time without a time zone, of at most microseconds."""
    if isinstance(cell, np.datetime64):
        return True
    if not isinstance(cell, date) or getattr(cell, "tzinfo", None) is not None:
        return False
    return not getattr(cell, "nanosecond", 0)  # of pandas


def words(texts: Sequence[str]) -> AnyArray:
    """Array of words, (n,) of type object."""
    made = np.empty(len(texts), dtype=object)
    made[:] = texts
    return made


def texts_of_names(names: AnyArray) -> list[str]:
    """Names of rows as texts."""
    return list(map(str, names.ravel().tolist()))


def sortable(names: AnyArray) -> AnyArray:
    """Names as integers where all are texts of whole numbers, or all of such as floats
    (7.0), so that 10 follows 9 whichever type the file gave them.
    """
    if names.dtype.kind not in "OU" or not names.size:
        return names
    texts = texts_of_names(names)
    if not any(all(map(text.fullmatch, texts)) for text in (WHOLE, WHOLE_FLOAT)):
        return names
    values = whole_numbers([whole_text(text) for text in texts])
    return names if values is None else values.reshape(names.shape)


def together(columns: Sequence[AnyArray]) -> AnyArray:
    """Concatenate columns of names; as words where one has words."""
    if all(column.dtype.kind in "iu" for column in columns):
        whole = np.concatenate(columns)
        if whole.dtype.kind in "iu":  # int64 beside uint64 would become floats
            return whole
    return words(list(chain.from_iterable(map(texts_of_names, columns))))


# ---- answers


def answer_of(cell: Any) -> str | None:
    """Canonical text of an answer, None for a blank one: true, "True", 1, 1.0 and "1.0"
    are "1"; 0.50 is "0.5"; words are stripped.

    Raises ValueError.
    """
    if is_null(cell):
        return None
    text = text_of(cell).strip()
    if is_blank(text):
        return None
    if text.lower() in ("true", "false"):
        return "1" if text.lower() == "true" else "0"
    if NUMBER.fullmatch(text):
        return _shortest_number(text)
    return text


def _shortest_number(text: str) -> str:
    """The one text of all that are the same number, without an exponent."""
    try:
        digits = format(Decimal(text), "f")
    except InvalidOperation:  # more of them than a Decimal can have
        return text
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return "0" if digits == "-0" else digits
