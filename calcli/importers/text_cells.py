"""Cells of text: numbers, words, missing values, percentages and printed lists."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress, filterfalse
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, one_line
from calcli.importers.remarks import remark
from calcli.importers.table import Cells, Column
from calcli.io.cells import (
    BLANKS,
    cells_of_text,
    is_blank,
    is_number,
    number,
    printed_list,
    real_numbers,
    whole_numbers,
)
from calcli.numerics import AnyArray
from calcli.rounding import written_decimals

LONGEST_WORD = 200
"""Most characters of a word; longer ones are texts."""

CELLS_SEEN = 100
"""Cells that determine the type of a column."""

FEWEST_DECIMALS = 0
"""Decimals of the zeros of a text that are not looked at."""

DECIMALS_OF_PERCENT = 2
"""Decimals that a percentage has more as a fraction."""

PERCENTAGE = re.compile(r"[0-9.]+ *%|")
"""A percentage with its sign, or an empty cell."""

ONE_TENSOR = re.compile(r"\s*tensor\(([^\[(),]+)(?:, [^)]*)?\)\s*")
"""A single number as torch prints it: ``tensor(2)``."""

DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")

LIST_OF_OBJECTS = re.compile(r"\[\s*\{")
PRINTED_LIST = re.compile(
    r"\s*(?:[A-Za-z_.]*(?:array|tensor)\()?\s*[\[(](?P<inside>.*)[\])].*", re.DOTALL
)
"""A list, a tuple, ``array([…])`` or ``tensor([…], dtype=…)``."""

NUMPY_SCALAR = re.compile(r"[A-Za-z_.]*float\d*\(([^()]*)\)")
"""A number as NumPy 2 prints it inside a list: ``np.float32(0.1)``."""

GAP = re.compile(r"(?<=[\d.])\s+(?=[-+\d.])")
"""Separator of the numbers of a printed NumPy array."""


def mostly_numbers(cells: Sequence[str]) -> bool:
    """True if more than half of the first cells are numbers."""
    first = cells[:CELLS_SEEN]
    return sum(map(is_number, first)) > len(first) / 2


def words(cells: Sequence[str]) -> AnyArray:
    """Array of words; of type object where one is a text.

    A fixed width would pad all words to the longest.
    """
    longest = max(map(len, cells), default=0)
    return np.array(cells, dtype=object if longest > LONGEST_WORD else None)


def text_column(
    file: Path,
    name: str,
    texts: Sequence[str],
    *,
    has_commas: bool = False,
    is_ours: bool = False,
) -> Column:
    """Column of these cells, of the narrowest type that holds them all.

    has_commas : 0,5 is a number, as in tables with ; or tabs. is_ours : written by
    calcli, where every text of a word is meant.
    """
    if texts and ONE_TENSOR.fullmatch(texts[0]):
        texts = [ONE_TENSOR.sub(r"\1", text) for text in texts]
    column = _column_of_texts(file, name, texts, has_commas, is_ours)
    if column.cells == "number" and _say_their_texts(column.get(), texts):
        return column
    return replace(column, written=partial(cells_of_text, texts, words_of(is_ours)))


def words_of(is_ours: bool) -> frozenset[str]:
    """Texts such as NA that are words: all in a table that calcli has written."""
    return BLANKS if is_ours else frozenset()


NAMES_LIKE_BLANKS = frozenset({"NA", "N/A", "n/a", "None"})
"""Texts of missing values that are names too: Namibia, not applicable, no treatment."""


def with_names_like_blanks(column: Column, *, may_repeat: bool) -> Column:
    """A column of names in which NA and the like are names, as the others are words.

    Any other column unchanged: among numbers NA is a missing value. may_repeat : false
    for ids, of which those that several rows have are missing.
    """
    if column.cells != "text" or column.written is None:
        return column
    texts = map(str.strip, map(str, column.get().tolist()))
    n_of_name: Counter[str] = Counter()
    for text, cell in zip(texts, column.written(), strict=True):
        if cell is None and text in NAMES_LIKE_BLANKS:
            n_of_name[text] += 1
    blank_names = set()
    for text, n_rows in n_of_name.items():
        if may_repeat or n_rows == 1:
            blank_names.add(text)
    if not blank_names:
        return column
    listing = " and ".join(sorted(blank_names))
    is_one = len(blank_names) == 1
    are_names = "is a name" if is_one else "are names"
    missing = "no missing value" if is_one else "no missing values"
    remark(
        f"{column.file.name}: {listing} in {column.name} {are_names}, as other cells"
        f" are words, and {missing}"
    )
    return with_blank_words(column, blank_names)


def with_blank_words(column: Column, blank_words: Collection[str]) -> Column:
    """A column of texts in which these, NA, None and the like, are words."""
    texts = column.get().tolist()
    empty_row = None
    if column.empty_row is not None:
        empty = (row for row, text in enumerate(texts) if is_blank(text, blank_words))
        empty_row = next(empty, None)
    return replace(
        column,
        empty_row=empty_row,
        attributes={**column.attributes, "blank_words": blank_words},
        written=partial(cells_of_text, texts, blank_words),
    )


def _say_their_texts(values: AnyArray, texts: Sequence[str]) -> bool:
    """True for integers whose texts are those of the cells: not 7 for 007."""
    if values.dtype.kind not in "iu":
        return False
    return all(map(str.__eq__, map(str, values.tolist()), texts))


def _column_of_texts(
    file: Path, name: str, texts: Sequence[str], has_commas: bool, is_ours: bool
) -> Column:
    cells = texts
    if has_commas:
        cells = list(map(_with_point, texts))
    present = list(filterfalse(is_blank, cells))
    empty_row = None
    if len(present) < len(cells):
        empty_row = next(row for row, cell in enumerate(cells) if is_blank(cell))
    if not present:
        nothing = np.full(len(cells), np.nan)
        return held_column(file, name, nothing, "other", empty_row)
    if all(map(_is_truth, cells)):
        truths = np.array([cell.strip().lower() == "true" for cell in cells])
        return held_column(file, name, truths, "truth")
    integers = whole_numbers(present)
    if integers is not None and empty_row is None:
        return held_column(file, name, integers, "number")
    numbers = real_numbers(cells)
    if numbers is not None:
        if integers is None:
            empty_row = None  # a missing score is NaN
        column = held_column(file, name, numbers, "number", empty_row)
        zeros = compress(cells, numbers == 0.0)
        column = replace(column, decimals=written_decimals(list(zeros)))
        return _unless_thousands(column, texts) if has_commas else column
    if are_lists(present):
        parse = partial(read_lists, file, name)
        lists = held_column(file, name, cells, "lists", parse=parse)
        return replace(lists, decimals=FEWEST_DECIMALS)
    if mostly_numbers(present):
        return held_column(file, name, cells, "number", empty_row, words)
    row = None if is_ours else empty_row
    return held_column(file, name, texts, "text", row, words)


def _is_truth(text: str) -> bool:
    return text.strip().lower() in ("true", "false")


def _with_point(text: str) -> str:
    """A cell with a point in place of a decimal comma."""
    return text.replace(",", ".") if DECIMAL_COMMA.fullmatch(text) else text


def _unless_thousands(column: Column, texts: Sequence[str]) -> Column:
    """The column; it cannot be loaded where its commas may part thousands."""
    with_comma = list(filter(DECIMAL_COMMA.fullmatch, texts))
    whole = next((text for text in texts if text.strip().lstrip("+-").isdigit()), None)
    if not with_comma or whole is None or not all(map(THOUSANDS.fullmatch, with_comma)):
        return column
    message = f"column {column.name!r} has {with_comma[0]!r} beside {whole!r}"
    question = "does the comma part thousands or decimals?"
    advice = "Write numbers with a point and without separators of thousands"

    def refuse() -> AnyArray:
        raise DataError(f"{column.file}: {message}: {question} {advice}")

    return replace(column, get=refuse)


def held_column(
    file: Path,
    name: str,
    cells: Any,
    kind: Cells,
    empty_row: int | None = None,
    parse: Callable[[Any], Any] = lambda values: values,
) -> Column:
    """Column of a table whose cells lie in memory. parse : converts them when read."""

    def get() -> Any:
        return parse(cells)

    def get_rows(rows: slice) -> Any:
        return parse(cells[rows])

    return Column(file, name, get, kind, get_rows, empty_row)


# ---- percentages


def without_percent_signs(column: Column, *, as_fractions: bool) -> Column:
    """Column of numbers for cells such as ``50%``; any other column unchanged.

    as_fractions : divide by 100, with a remark; else ``--percent`` does so later.
    """
    if column.cells != "text":
        return column
    try:
        if not _are_percentages(_words_of(column, slice(CELLS_SEEN))):
            return column
        cells = _words_of(column, slice(None))
        numbers = np.array([number(cell.removesuffix("%") or "nan") for cell in cells])
    except (DataError, ValueError):  # the column may not be needed
        return column
    decimals = written_decimals(list(compress(cells, numbers == 0.0)))
    if as_fractions:
        numbers = numbers / 100.0
        decimals += DECIMALS_OF_PERCENT
        remark(
            f"{column.file.name}: column {column.name!r} is in percent and was divided"
            " by 100"
        )
    plain = held_column(column.file, column.name, numbers, "number", column.empty_row)
    return replace(plain, written=column.written_cells, decimals=decimals)


def _words_of(column: Column, rows: slice) -> list[str]:
    return [str(word).strip() for word in column.rows(rows).tolist()]


def _are_percentages(cells: Sequence[str]) -> bool:
    return any(cells) and all(map(PERCENTAGE.fullmatch, cells))


# ---- lists of numbers as text: as Python, NumPy and torch print them, or spaced


def are_lists(cells: Sequence[str]) -> bool:
    """True if all these texts are printed lists of numbers."""
    first = list(map(str.strip, cells[:CELLS_SEEN]))
    if not first or all(cell.startswith("[") for cell in first):
        return bool(first) and not LIST_OF_OBJECTS.match(first[0])
    if all(map(PRINTED_LIST.fullmatch, first)):
        pieces = re.split(r"[,\s]+", _inside(first[0]))
        return all(map(is_number, filter(None, pieces)))
    if "." not in first[0]:
        return False
    return all(map(_is_row_of_numbers, cells))


def _is_row_of_numbers(cell: str) -> bool:
    pieces = cell.split()
    return len(pieces) > 1 and all(map(is_number, pieces))


def _inside(cell: str) -> str:
    """The numbers of a printed list, without its brackets."""
    plain = NUMPY_SCALAR.sub(r"\1", cell)
    printed = PRINTED_LIST.fullmatch(plain)
    return (printed["inside"] if printed else cell).strip().strip("[]")


def read_lists(file: Path, name: str, cells: Sequence[str]) -> AnyArray:
    """Parse cells ``[0.1, 0.9]``, or ``[0.1 0.9]`` as NumPy prints them.

    A printed list may go over several lines. Raises DataError.
    """
    if all("'" in cell for cell in cells):
        return np.array(list(map(printed_list, cells)))
    rows: list[list[float]] = []
    for row, cell in enumerate(cells):
        pieces = GAP.sub(",", _inside(cell)).split(",")
        try:
            rows.append([number(piece) for piece in pieces])
        except ValueError:
            text = one_line(ValueError(cell), 40)
            message = f"column {name!r} has {text!r} in row {row}, expected numbers"
            if "..." in cell:
                message += "; NumPy has left out the middle:"
                message += " np.set_printoptions(threshold=sys.maxsize)"
            raise DataError(f"{file}: {message}") from None
        if len(rows[-1]) != len(rows[0]):
            raise DataError(
                f"{file}: the lists in column {name!r} have different lengths"
                f" ({len(rows[0])} in row 0, {len(rows[-1])} in row {row}), expected"
                " one number per class"
            )
    return np.array(rows)


def not_a_number(file: Path, name: str, cells: Sequence[str]) -> DataError:
    """Error about the first of these cells that is not a number."""
    row = next((i for i, cell in enumerate(cells) if not is_number(cell)), 0)
    text = str(cells[row])
    expected = "expected a number"
    if "," in text or "%" in text:
        expected += " with a point before its decimals and no other sign"
    shown = one_line(ValueError(text), 60) if text.strip() else text
    return DataError(f"{file}: column {name!r} has {shown!r} in row {row}, {expected}")
