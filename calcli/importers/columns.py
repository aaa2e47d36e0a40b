"""Tables: one row per sample, a column per class and one of labels. Which columns are an array together."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError
from calcli.fast_dataclass import dataclass
from calcli.importers.archive import Archive, constant
from calcli.importers.array_names import PER_ROW, SCORE_PREFIX, role_of, says_correct
from calcli.importers.import_request import ImportRequest
from calcli.importers.mistaken_for_scores import PREDICTIONS
from calcli.importers.printed import not_a_number
from calcli.importers.remarks import remark
from calcli.numerics import whole_number

PERCENT = re.compile(r"[0-9.]+ *%")
ROWS_SEEN = 100
"""How a percentage is written, and in how many rows it is looked for first."""

LEFT_OVER = "columns"
"""Name of the array of all numeric columns whose names do not say what they are."""

NUMBERED = re.compile(r"(?P<stem>.*?[^\d\W]?)[\W_]*(?P<number>\d+)\W*")
INDEX = re.compile(r"|Unnamed: 0(\.\d+)?|__index_level_\d+__|index_level_\d+")
"""What pandas calls the row index that it writes beside the columns."""

LEVELS = re.compile(r"\('(\w+)', '([^']+)'\)")
"""A name of two levels, as Parquet keeps those of pandas."""

BOOKKEEPING = re.compile(r"(?i:folds?|idx|index|\.?row([_ ]?(index|number))?|epoch|.*[_ ]id)|[A-Za-z]+(Id|ID)")
"""Columns that count something: left out of the classes, which is said."""

OUTCOMES = frozenset({"confidence", "conf", "loss", "nll", "entropy", "margin", *PREDICTIONS})
"""Names for a prediction, its confidence or its loss; like those for whether it was right never scores of a class."""

TOPS = frozenset({"max", "top", "top1", "best", "pred", "predicted"})
"""What stands behind the word for scores in the name of a column with the largest of a row."""


@dataclass(frozen=True)
class Column:
    """One column of a table. kind : what its cells are. load : gives them, (n,) or (n, width) for lists.
    gaps : gives them where some are empty, as NaN or a blank word; None where ``load`` does."""

    kind: Literal["number", "text", "lists", "other"]
    load: Callable[[], NDArray[Any]]
    gaps: Callable[[], NDArray[Any]] | None = None


def refuse_doubles(path: Path, names: Sequence[str]) -> None:
    """Raises DataError when two columns have one name."""
    if len(set(names)) != len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise DataError(
            f"{path}: two columns are named {double!r}; every column needs a name of its own (of pandas' levels make"
            " one: df.columns = df.columns.map('_'.join))"
        )


def table_archive(path: Path, format: str, columns: Mapping[str, Column], n: int, ask: ImportRequest) -> Archive:
    """The arrays of a table of n rows.

    Columns ``logits_cat, logits_dog, …`` (or log_probs_, probs_ …) make the array
    ``logits`` with the class names cat, dog; columns that end in a number, ``p0, p1, …``,
    the array ``p``; all other numeric columns together, without the labels and those with
    a known meaning (ids, weights, group, split), the array ``columns`` with their names as
    class names. ``--scores A,B,C`` and ``--scores A:C`` (from A to C) make an array of
    these columns. With ``--classes C`` ranks (``prob_0, index_0, …``) make ``probs``. A column
    of lists of equal length is an array by itself. The index that pandas writes is left out
    where it counts the rows, else it gives the ids.
    """
    if n == 0:
        raise DataError(f"{path}: there are no rows below the column names, expected at least one")
    columns = {LEVELS.sub(r"\1_\2", name): column for name, column in columns.items()}
    if ask.drop_missing:
        columns = {name: Column(column.kind, column.gaps or column.load) for name, column in columns.items()}
    columns = {name: _of_percents(path, name, column, ask.percent) for name, column in columns.items()}
    columns = _without_index(path, columns, n)
    ranked: dict[str, Callable[[], Any]] = {}
    if ask.classes is not None:
        from calcli.importers.topk import ranked_columns

        ranked, used = ranked_columns(path, columns, ask.classes, ask.class_names)
        if ask.class_names:
            ranked["class_names"] = constant(np.array(ask.class_names))
        columns = {name: column for name, column in columns.items() if name not in used or name in _pieces(ask)}
    names = list(columns)
    if names == [str(i) for i in range(len(names))] and len(names) > 1 and not (ask.scores or ask.labels):
        whole = _matrix(path, columns, names)
        return Archive.of(path, format, {path.stem: whole}, loose=True)
    asked_lists = [asked for asked in (*ask.scores, *ask.labels) if asked not in columns and set(asked) & {",", ":"}]
    chosen = {asked: listed_columns(names, asked) for asked in asked_lists}
    taken = {name for listed in chosen.values() for name in listed}
    taken |= {*ask.labels, *(name for listed in ask.named.values() for name in listed)}
    free = [name for name in names if role_of(name) not in PER_ROW and name not in taken]
    numeric = [n for n in free if columns[n].kind == "number" or (SCORE_PREFIX.match(n) and columns[n].kind == "text")]
    declared, numbered = _groups(numeric)
    for listed in declared.values():
        columns = _without_largest(path, columns, listed)
    names = list(columns)
    for listed in (*declared.values(), *numbered.values()):
        _sort_by_number(path, listed)
    inside = {name for listed in declared.values() for name in listed}
    loaders: dict[str, Callable[[], Any]] = {
        name: columns[name].load for name in names if name not in inside or name in (*ask.scores, *_pieces(ask))
    }
    loaders |= ranked
    aside = [
        n for n in numeric if n not in inside and (n.lower() in OUTCOMES or says_correct(n) or BOOKKEEPING.fullmatch(n))
    ]
    rest = [name for name in numeric if name not in inside and name not in aside]
    groups = declared | numbered | ({LEFT_OVER: rest} if len(rest) > 1 else {}) | chosen
    told = ""
    if ask.kind and not (declared or ask.scores) and len(rest) > 1:
        told = f"{path.name}: classes 0 to {len(rest) - 1} are the columns {_some(rest)}"
    for group, listed in groups.items():
        if group not in chosen:
            _refuse_offset(path, columns, listed, ask)
        guessed = group == LEFT_OVER and group not in numbered
        loaders[group] = _matrix(path, columns, listed, guessed=guessed, told=told if group == LEFT_OVER else "")
        explicit = group in chosen or guessed
        classes = _class_names(path, listed, "" if explicit else group, counted=group not in chosen)
        if classes is not None:
            loaders[f"class_names_{group}"] = constant(np.asarray(classes))
    made_of = {group: {name: columns[name].load for name in listed} for group, listed in groups.items()}
    return Archive.of(path, format, loaders, made_of=made_of)


def _of_percents(path: Path, name: str, column: Column, asked: bool) -> Column:
    """A column of words such as ``50%`` as numbers: .5, or 50 where ``--percent`` divides later; blank ones are NaN."""
    if column.kind != "text":
        return column
    try:
        values = (column.gaps or column.load)()
    except DataError:  # of a column that may not be asked for
        return column
    words = [str(word).strip() for word in values[:ROWS_SEEN].tolist()]
    if not any(words) or not all(not word or PERCENT.fullmatch(word) for word in words):
        return column
    try:
        numbers = np.array([float(str(word).strip().removesuffix("%") or "nan") for word in values.tolist()])
    except ValueError:
        return column
    if not asked:
        remark(f"{path.name}: column {name!r} is in percent and was divided by 100")
    return Column("number", constant(numbers if asked else numbers / 100.0))


def _pieces(ask: ImportRequest) -> set[str]:
    """Columns that are named as a confidence, or as what says whether it is right."""
    return {piece.strip() for text in (ask.confidence or "", ask.correct or "") for piece in text.split("=")}


def _without_index(path: Path, columns: dict[str, Column], n: int) -> dict[str, Column]:
    """Leave out the row index of pandas; one that does not count the rows becomes the ids."""
    for name in [name for name in columns if INDEX.fullmatch(name)]:
        index = columns.pop(name)
        what = f"{path.name}: the column {name!r}" if name else f"{path.name}: the first column, without a name,"
        values = index.load() if index.kind in ("number", "text") else np.empty(0)
        if index.kind == "number" and np.array_equal(values, np.arange(n)):
            remark(f"{what} counts the rows and was left out")
        elif values.ndim == 1 and len(np.unique(values)) == n and not any(role_of(c) == "ids" for c in columns):
            columns["ids"] = index
            remark(f"{what} was read as the ids of the rows")
        else:
            remark(f"{what} looks like an index and was left out")
    return columns


def _some(names: Sequence[str]) -> str:
    return ", ".join(names if len(names) <= 6 else [*names[:3], "…", names[-1]])


def listed_columns(names: Sequence[str], asked: str) -> list[str]:
    """The columns that ``A,B,C`` or ``A:C`` means; none when one is not there."""
    found: list[str] = []
    for piece in asked.split(","):
        first, colon, last = piece.partition(":")
        ends = [end.strip() for end in (first, last if colon else first)]
        if any(end not in names for end in ends):
            return []
        low, high = (names.index(end) for end in ends)
        found += names[low : high + 1]
    return found


def _groups(numeric: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Columns by the word for scores they start with, and the others by what stands before their number."""
    declared: dict[str, list[str]] = {}
    numbered: dict[str, list[str]] = {}
    for name in numeric:
        kind = SCORE_PREFIX.match(name)
        if kind and kind.end() < len(name):
            declared.setdefault(kind.group(), []).append(name)
        elif (match := NUMBERED.fullmatch(name)) and match["stem"]:
            numbered.setdefault(match["stem"], []).append(name)
    return declared, {stem: columns for stem, columns in numbered.items() if len(columns) > 1}


def _refuse_offset(path: Path, columns: Mapping[str, Column], listed: Sequence[str], ask: ImportRequest) -> None:
    """Raises DataError for labels from 1 to less than k beside columns that are numbered from 1 to k.

    They may be these numbers, or count from 0 and have no row of the first class.
    """
    numbers = [int(found[-1]) for name in listed if (found := re.findall(r"[0-9]{1,18}", name))]
    if numbers != list(range(1, len(listed) + 1)) or len(numbers) < 2:
        return
    for name in [n for n in columns if n in ask.labels or (not ask.labels and role_of(n) == "labels")]:
        if columns[name].kind != "number" or (labels := columns[name].load()).ndim != 1:
            continue
        if labels.min() >= 1 and labels.max() < len(listed):
            raise DataError(
                f"{path}: columns {_some(listed)} are numbered from 1, and {name!r} is nowhere 0 and nowhere"
                f" {len(listed)}: do the labels count from 1 as well? Subtract 1 if so;"
                f" --scores {listed[0]}:{listed[-1]} takes them as they are, counted from 0"
            )


def _without_largest(path: Path, columns: dict[str, Column], listed: list[str]) -> dict[str, Column]:
    """Take out the one column of these that repeats the largest of each row: ``prob_max`` beside ``prob_cat``, …"""
    tops = [name for name in listed if re.split(r"[\W_]+", name.lower())[-1] in TOPS]
    others = [name for name in listed if name not in tops]
    if len(tops) != 1 or len(others) < 2 or any(columns[name].kind != "number" for name in listed):
        return columns
    values = {name: column for name in listed if (column := columns[name].load()).dtype.kind == "f"}
    if len(values) < len(listed) or not np.allclose(np.max([values[n] for n in others], axis=0), values[tops[0]]):
        return columns
    listed.remove(tops[0])
    remark(f"{path.name}: column {tops[0]!r} is the largest of each row and was left out")
    return {name: column for name, column in columns.items() if name != tops[0]}


def _sort_by_number(path: Path, listed: list[str]) -> None:
    """Put columns ``p_2, p_0, p_1`` in the order of their numbers where these are all the numbers from the least on."""
    found = [NUMBERED.fullmatch(name) for name in listed]
    numbers = [int(match["number"]) for match in found if match]
    if (
        len({match["stem"] for match in found if match}) != 1
        or len(numbers) < len(listed)
        or numbers == sorted(numbers)
    ):
        return
    if sorted(numbers) == list(range(min(numbers), min(numbers) + len(numbers))):
        listed[:] = [name for _, name in sorted(zip(numbers, listed, strict=True))]
        remark(f"{path.name}: columns {_some(listed)} were put in the order of their numbers")


def _class_names(path: Path, columns: Sequence[str], stem: str, *, counted: bool) -> list[str] | None:
    """The headers without what they have in common; None when they only count the classes."""
    names = [name[len(stem) :].strip(" _-.[]") for name in columns]
    numbers = [number for name in names if (number := whole_number(name)) is not None]
    if numbers == [0]:
        return names  # said to be of class 0
    if len(numbers) == len(names):
        if counted and numbers != sorted(set(numbers)):
            raise DataError(f"{path}: columns {columns[0]!r}, … are not in the order of their numbers; sort them")
        if counted and numbers[-1] - numbers[0] != len(numbers) - 1:
            gap = next(i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1] + 1)
            raise DataError(
                f"{path}: after column {columns[gap - 1]!r} comes {columns[gap]!r}: classes are missing;"
                " name the columns in the order of the classes: --scores A,B,C"
            )
        return None
    if all(name.startswith("(") and name.endswith(")") for name in names):  # probability(cat)
        names = [name[1:-1] for name in names]
    fields = {name.rpartition(".")[0] for name in names}
    if len(fields) == 1:  # of one object: scores.cat, scores.dog
        names = [name.rpartition(".")[2] for name in names]
    numbered = [NUMBERED.fullmatch(name) for name in names]
    if not stem and len({match["stem"] if match else name for match, name in zip(numbered, names, strict=True)}) == 1:
        return None
    return names


def _matrix(
    path: Path, columns: Mapping[str, Column], names: Sequence[str], *, guessed: bool = False, told: str = ""
) -> Callable[[], NDArray[Any]]:
    """(n, columns) floats of the widest type among the columns; integers count as float64.

    One column: its values, which may be rows of lists. guessed : the columns are what was
    left over, so that one of counts among real numbers is questioned. told : what is said of them where they are used.
    """

    def load() -> NDArray[Any]:
        remark(told)
        values = [_numbers(path, columns[name], name) for name in names]
        lists = [name for name, column in zip(names, values, strict=True) if column.ndim != 1]
        if lists and len(names) > 1:
            raise DataError(f"{path}: column {lists[0]!r} holds lists, expected one number per row")
        counts = [n for n, v in zip(names, values, strict=True) if len(v) > 2 and _counts(v)]
        if guessed and 0 < len(counts) < len(names):
            rest = ",".join(name for name in names if name not in counts)
            raise DataError(
                f"{path}: column {counts[0]!r} holds whole numbers beside columns of real ones: is it a class?"
                f" name the columns of the classes: --scores {rest if len(rest) < 60 else 'FIRST:LAST'}"
            )
        dtype = np.result_type(*(v.dtype if v.dtype.kind == "f" else np.dtype(np.float64) for v in values))
        return values[0].astype(dtype, copy=False) if len(values) == 1 else np.stack(values, axis=1, dtype=dtype)

    return load


def _counts(values: NDArray[Any]) -> bool:
    """Whether these are whole numbers from 0 on; of a float type, several of them."""
    if values.dtype.kind in "iu":
        return bool(values.min() >= 0)
    whole = values.ndim == 1 and bool((values >= 0).all()) and bool((values == np.floor(values)).all())
    return whole and len(np.unique(values[:1000])) > 2


def _numbers(path: Path, column: Column, name: str) -> NDArray[Any]:
    values = column.load()
    if values.dtype.kind in "US":
        raise not_a_number(path, name, values.tolist())
    return values
