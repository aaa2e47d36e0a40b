"""Cells that are names of classes, though they read as something else: NA, or 007."""

from collections.abc import Sequence, Set
from dataclasses import replace

from calcli.importers.arranging.label_families import CODE, words_of_label
from calcli.importers.names.spellings import class_of_each_word
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Columns
from calcli.importers.text_cells import with_blank_words, words
from calcli.io.cells import is_blank, is_null
from calcli.numerics import AnyArray


def with_words_of_classes(
    columns: Columns, classes: Sequence[str], named_by: str = "a column of scores"
) -> dict[str, Column]:
    """The columns of classes of which a cell reads as something else: NA, or 007.

    named_by : what names the classes, for a remark.
    """
    changed: dict[str, Column] = {}
    blank_words = frozenset(filter(is_blank, classes))
    has_codes = any(map(CODE.match, classes))
    if not (blank_words or has_codes):
        return changed
    for name, column in columns.items():
        words = words_of_label(column, has_codes)
        if not words or (class_of_each_word(words, classes) < 0).any():
            continue
        if column.cells == "number":
            changed[name] = as_words(column)
        elif blank_words:
            changed[name] = with_blank_words(column, blank_words)
    _remark_blank_words(blank_words, [columns[name] for name in changed], named_by)
    return changed


def _remark_blank_words(
    blank_words: Set[str], columns: Sequence[Column], named_by: str
) -> None:
    with_blanks = [column for column in columns if column.empty_row is not None]
    if with_blanks:
        names = ", ".join(column.name for column in with_blanks)
        remark(
            f"{with_blanks[0].file.name}: {', '.join(sorted(blank_words))} in {names}"
            f" is a class, as {named_by} is named so, and no missing value"
        )


def as_words(column: Column) -> Column:
    def get() -> AnyArray:
        texts = []
        for cell in column.written_cells():
            texts.append("" if is_null(cell) else str(cell))
        return words(texts)

    def get_rows(rows: slice) -> AnyArray:
        return get()[rows]

    return replace(column, get=get, get_rows=get_rows, cells="text")
