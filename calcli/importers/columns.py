"""Tables: one row per sample, a column per class and one of labels. Grouping of their columns into arrays."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError, one_line
from calcli.fast_dataclass import dataclass
from calcli.importers.archive import Archive, Entry, constant, remark
from calcli.importers.array_names import PER_ROW, SCORE_PREFIX, role_of, says_correct
from calcli.importers.import_request import ImportRequest
from calcli.importers.mistaken_for_scores import PREDICTIONS
from calcli.io.cells import NameColumn, is_number, names_of, number
from calcli.io.locate import natural
from calcli.numerics import AnyArray, whole_number

PERCENT = re.compile(r"[0-9.]+ *%|")  # a percentage with its sign, or an empty cell
LEFT_OVER = "columns"  # array of all numeric columns whose names have no known meaning
NUMBERED = re.compile(r"(?P<stem>.*?[^\d\W]?)[\W_]*(?P<number>\d+)\W*")
INDEX = re.compile(r"|Unnamed: 0(\.\d+)?|__index_level_\d+__|index_level_\d+")
"""Names of the row index that pandas writes beside the columns."""

LEVELS = re.compile(r"\('(\w+)', '([^']+)'\)")  # a two-level column name of pandas in Parquet
BOOKKEEPING = re.compile(r"(?i:folds?|idx|index|\.?row([_ ]?(index|number))?|epoch|.*[_ ]id)|[A-Za-z]+(Id|ID)")
"""Names of columns of counters and ids: never scores of a class."""

OUTCOMES = frozenset({"confidence", "conf", "loss", "nll", "entropy", "margin", *PREDICTIONS})
"""Names of columns of predictions, confidences or losses: like those of correctness never scores of a class."""

TOPS = frozenset({"max", "top", "top1", "best", "pred", "predicted"})
"""Endings of the name of a column with the largest score of each row (``prob_max``)."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    kind : type of its cells. read : converts cells to an array, (n,) or (n, width)
    for lists, empty ones to NaN or a blank word. cells : all of them. refusal :
    error message if some are empty, else "". written : returns all cells as the file
    has them, None for an empty one, where the array does not say them: 007 is 7 in
    it (see ``Entry.written``).
    """

    kind: Literal["number", "text", "lists", "other"]
    read: Callable[[Any], NDArray[Any]]
    cells: Any
    refusal: str = ""
    written: Callable[[], Sequence[Any]] | None = None

    def load(self) -> NDArray[Any]:
        """Read all cells. Raises DataError where one is empty."""
        if self.refusal:
            raise DataError(self.refusal)
        return self.read(self.cells)

    def part(self, rows: slice) -> NDArray[Any]:
        """Read the cells of some rows only."""
        return self.read(self.cells[rows])


Columns = Mapping[str, Column]
Groups = dict[str, list[str]]
Load = Callable[[], NDArray[Any]]
LONGEST = 200  # most characters of a word; longer ones are texts


def words(cells: Sequence[str]) -> AnyArray:
    """Array of words; of type object where one is a text, since a fixed width would pad all to the longest."""
    return np.array(cells, dtype=object if max(map(len, cells), default=0) > LONGEST else None)


def refusal_of_empty(path: Path, name: str, row: int) -> str:
    """Error message for a column with an empty cell."""
    return f"{path}: column {name!r} is empty in row {row}, expected a value (or --drop-missing)"


def refuse_doubles(path: Path, names: Sequence[str]) -> None:
    """Raise DataError when two columns have the same name."""
    if len(set(names)) != len(names):
        double = next(name for name in names if names.count(name) > 1)
        told = "of its own (of pandas' levels make one: df.columns = df.columns.map('_'.join))"
        raise DataError(f"{path}: two columns are named {double!r}; every column needs a name {told}")


def table_archive(path: Path, format: str, columns: Columns, n: int, ask: ImportRequest, ours: bool = False) -> Archive:
    """Arrays of a table of n rows. Columns ``logits_cat, logits_dog, …`` make the array ``logits`` with the class names
    cat, dog; columns that end in a number, ``p0, p1, …``, the array ``p``; all other numeric ones without a known
    meaning the array ``columns``. ``--scores A,B,C`` and ``A:C`` make an array of these columns, ``--classes C`` one of
    the ranks. The index of pandas is left out, or becomes the ids. ours : written by ``apply`` (else a column
    ``calibrated_by`` tells)."""
    if n == 0:
        raise DataError(f"{path}: there are no rows below the column names, expected at least one")
    columns = {LEVELS.sub(r"\1_\2", name): _cells(path, name, column, ask) for name, column in columns.items()}
    _take_out_index(path, columns, n)
    ours = ours or any(role_of(name) == "calibrated_by" for name in columns)
    for name in [name for name in columns if ours and role_of(name) == "labels"]:
        columns[name] = _class_words(columns[name])
    ranked: dict[str, Callable[[], Any]] = {}
    if ask.classes is not None:
        from calcli.importers.topk import ranked_columns

        probs, used = ranked_columns(path, columns, ask.classes, ask.class_names)
        ranked["probs"] = constant(probs)
        if ask.class_names:
            ranked["class_names"] = constant(np.array(ask.class_names))
        columns = {name: column for name, column in columns.items() if name not in used or name in ask.pieces}
    names = list(columns)
    if names == [str(i) for i in range(len(names))] and len(names) > 1 and not (ask.scores or ask.labels):
        return Archive.of(path, format, {path.stem: _matrix(path, columns, names)}, loose=True)
    asked_lists = [asked for asked in (*ask.scores, *ask.labels) if asked not in columns and set(asked) & {",", ":"}]
    chosen = {asked: listed_columns(names, asked) for asked in asked_lists}
    taken = {*ask.labels, *chain(*chosen.values(), *ask.named.values())}
    free = [name for name in names if role_of(name) not in PER_ROW and name not in taken]
    numeric = [n for n in free if columns[n].kind == "number" or (SCORE_PREFIX.match(n) and columns[n].kind == "text")]
    declared, numbered, rest = _groups(names, numeric)
    for listed in declared.values():
        _take_out_largest(path, columns, listed)
    alone = {*columns} - {*chain(*declared.values())} | {*ask.scores, *ask.pieces}
    loaders: dict[str, Callable[[], Any]] = {name: columns[name].load for name in columns if name in alone} | ranked
    for listed in (*declared.values(), *numbered.values(), rest) if not ours else ():
        _sort_by_number(path, listed)
    groups = declared | numbered | ({LEFT_OVER: rest} if len(rest) > 1 else {}) | chosen
    counted = next((its for its in numbered.values() if 3 - (its[0] == "0") <= len(its) < len(rest)), [])
    told = ""
    if ask.kind and not (declared or ask.scores) and len(rest) > 1:
        told = f"{path.name}: classes 0 to {len(rest) - 1} are the columns {_some(rest)}"
    for group, listed in groups.items():
        if group not in chosen and not ours:
            _refuse_offset(path, columns, listed, ask)
        guessed = group == LEFT_OVER and group not in numbered
        loaders[group] = _matrix(path, columns, listed, counted if guessed else None, told * (group == LEFT_OVER))
        stem = "" if group in chosen or guessed or not listed[0].startswith(group) else group
        classes = _class_names(path, listed, stem, counted=group not in chosen, ours=ours)
        if classes is not None:
            loaders[f"class_names_{group}"] = constant(np.asarray(classes))
    return Archive(path, format, _entries(path, columns, groups, loaders))


def _entries(
    path: Path, columns: Columns, groups: Groups, loaders: Mapping[str, Load]
) -> dict[str, Entry]:
    """Entries of the columns that stand alone, and of the groups of columns."""
    single = {
        name: Entry(path, name, column.load, written=column.written)
        for name, column in columns.items()
    }
    entries = {}
    for name, load in loaders.items():
        if name in columns and name not in groups:
            entries[name] = replace(single[name], get=load, part=columns[name].part)
            continue
        listed = groups.get(name, ())
        made_of = {part: single[part] for part in listed if part != name}
        entries[name] = Entry(path, name, load, made_of)
    return entries


def _class_words(column: Column) -> Column:
    """Labels that ``apply`` wrote, as words: class names, even if they look like
    numbers."""
    if column.written is None:
        return replace(column, kind="text", read=partial(_as_words, column.read))
    texts = ["" if cell is None else str(cell) for cell in column.written()]
    return replace(column, kind="text", read=words, cells=texts)


def _as_words(read: Callable[[Any], NDArray[Any]], cells: Any) -> NDArray[Any]:
    found = read(cells)
    return found if found.dtype.kind in "OUS" else found.astype("U")


def _cells(path: Path, name: str, column: Column, ask: ImportRequest) -> Column:
    """Apply options to a column: cells ``50%`` become .5, or 50 if ``--percent``
    divides later; blanks become NaN."""
    if ask.drop_missing:
        column = replace(column, refusal="")
    if column.kind != "text":
        return column
    try:
        first = [str(word).strip() for word in column.part(slice(SAMPLE)).tolist()]
        if not any(first) or not all(map(PERCENT.fullmatch, first)):
            return column
        every = map(str, column.part(slice(None)).tolist())
        percent = [word.strip().removesuffix("%") or "nan" for word in every]
        values = np.array([number(text) for text in percent])
    except (DataError, ValueError):  # the column may not be needed
        return column
    if not ask.percent:
        remark(f"{path.name}: column {name!r} is in percent and was divided by 100")
        values = values / 100.0
    written = column.written or (lambda: column.cells)
    return Column("number", np.asarray, values, written=written)


def _take_out_index(path: Path, columns: dict[str, Column], n: int) -> None:
    """Remove the row index of pandas; one of unique values other than 0, 1, … becomes
    the ids."""
    for name in [name for name in columns if INDEX.fullmatch(name)]:
        index = columns.pop(name)
        what = f"{path.name}: the first column, without a name,"
        if name:
            what = f"{path.name}: the column {name!r}"
        told = "looks like an index and was left out"
        names = _names_of_index(path, name, index)
        has_ids = any(role_of(column) == "ids" for column in columns)
        if names is not None and names.tolist() == list(range(n)):
            told = "counts the rows and was left out"
        elif names is not None and len(set(names.tolist())) == n and not has_ids:
            columns["ids"] = index
            told = "was read as the ids of the rows"
        remark(f"{what} {told}")


def _names_of_index(path: Path, name: str, index: Column) -> AnyArray | None:
    """Names of the rows; None for lists and other cells that are none."""
    if index.kind not in ("number", "text"):
        return None
    cells = index.load() if index.written is None else index.written()
    with suppress(DataError):
        return names_of(cells, NameColumn(f"{path}: {name}", "ids"))
    return None


def _some(names: Sequence[str]) -> str:
    return ", ".join(names if len(names) <= 6 else [*names[:3], "…", names[-1]])


def listed_columns(names: Sequence[str], asked: str) -> list[str]:
    """Expand ``A,B,C`` or ``A:C`` to columns; [] when one does not exist. Names may contain commas and colons."""
    place = {name: i for i, name in enumerate(names)}
    pieces, widest = asked.split(","), 2 * max((name.count(",") for name in names), default=0) + 1
    found: list[str] = []
    while pieces:
        for size in range(min(widest, len(pieces)), 0, -1):
            piece = ",".join(pieces[:size])
            cuts = [(piece, piece), *((piece[:at], piece[at + 1 :]) for at, c in enumerate(piece) if c == ":")]
            ends = [(first.strip(), last.strip()) for first, last in cuts]
            if span := next(((a, b) for a, b in ends if a in place and b in place), None):
                found += _counted(names, *span) or names[place[span[0]] : place[span[1]] + 1]
                pieces = pieces[size:]
                break
        else:
            return []
    return found


def _counted(names: Sequence[str], first: str, last: str) -> list[str]:
    """Expand a range of numbered names (``p2:p5``); [] unless all columns between differ only in their number."""
    a, b = (re.fullmatch(r"(.*?)([0-9]{1,9})(\D*)", name) for name in (first, last))
    if first == last or a is None or b is None or (a[1], a[3]) != (b[1], b[3]):
        return []
    low, high = sorted((names.index(first), names.index(last)))
    alike = re.compile(f"{re.escape(a[1])}[0-9]+{re.escape(a[3])}")
    listed = [f"{a[1]}{i}{a[3]}" for i in range(int(a[2]), min(int(b[2]), int(a[2]) + len(names)) + 1)]
    return listed if {*listed} <= {*names} and all(map(alike.fullmatch, names[low : high + 1])) else []


def _asked(columns: Sequence[str] | Columns, listed: Sequence[str]) -> str:
    """Option value for these columns: ``FIRST:LAST`` where they are adjacent in this order, else all names."""
    ends = f"{listed[0]}:{listed[-1]}"
    return ends if listed_columns(list(columns), ends) == list(listed) else ",".join(listed)


def _groups(names: Sequence[str], numeric: Sequence[str]) -> tuple[Groups, Groups, list[str]]:
    """Group numeric columns: (by the word for scores they start with; by the stem before their number or, for names 0,
    1, 2, …, by the option value that lists them; all others that may be scores)."""
    declared, numbered = Groups(), Groups()
    for name in numeric:
        kind = SCORE_PREFIX.match(name)
        if kind and kind.end() < len(name):
            declared.setdefault(kind.group(), []).append(name)
        elif (match := NUMBERED.fullmatch(name)) and match["stem"]:
            numbered.setdefault(match["stem"], []).append(name)
    inside = {*chain(*declared.values()), *(name for name in numeric if name.lower() in OUTCOMES)}
    rest = [n for n in numeric if not (n in inside or says_correct(n) or BOOKKEEPING.fullmatch(n))]
    plain = [str(i) for i in range(len(rest)) if str(i) in rest]
    if 1 < len(plain) < len(rest) and plain[-1] == str(len(plain) - 1):
        numbered[_asked(names, plain)] = plain
    return declared, {stem: columns for stem, columns in numbered.items() if len(columns) > 1}, rest


def _refuse_offset(path: Path, columns: Columns, listed: Sequence[str], ask: ImportRequest) -> None:
    """Refuse labels in 1 … k-1 beside columns numbered 1 to k: they may count from 1, or from 0 with class 0 absent."""
    if ask.votes is not None or ask.confidence is not None:
        return  # the columns are answers, not classes
    numbers = [int(found[-1]) for name in listed if (found := re.findall(r"[0-9]{1,18}", name))]
    if numbers != list(range(1, len(listed) + 1)) or len(numbers) < 2:
        return
    for name in [n for n in columns if n in ask.labels or (not ask.labels and role_of(n) == "labels")]:
        labels = np.empty(0)
        with suppress(ValueError):  # labels are words
            labels = columns[name].load().astype(np.float64) if columns[name].kind in ("number", "text") else labels
        if labels.min(initial=np.inf) >= 1 and labels.max(initial=0) < len(listed) and len(labels):
            told = f"is nowhere 0 and nowhere {len(listed)}: do the labels count from 1 as well? Subtract 1 if so;"
            advice = f"--scores {quote(_asked(columns, listed))} takes them as they are, counted from 0"
            raise DataError(f"{path}: columns {_some(listed)} are numbered from 1, and {name!r} {told} {advice}")


def _take_out_largest(path: Path, columns: dict[str, Column], listed: list[str]) -> None:
    """Remove the one column that repeats the largest score of each row: ``prob_max`` beside ``prob_cat``, …"""
    tops = [name for name in listed if re.split(r"[\W_]+", name.lower())[-1] in TOPS]
    if len(tops) != 1 or len(listed) < 3 or any(columns[name].kind != "number" for name in listed):
        return
    others = _matrix(path, columns, [name for name in listed if name not in tops])()
    if np.allclose(others.max(axis=1), _matrix(path, columns, tops)()):
        listed.remove(tops[0])
        del columns[tops[0]]
        remark(f"{path.name}: column {tops[0]!r} is the largest of each row and was left out")


def _sort_by_number(path: Path, listed: list[str]) -> None:
    """Sort columns ``p_2, p_0, p_1`` by their numbers, in place, where these are consecutive."""
    found = [match for name in listed if (match := NUMBERED.fullmatch(name))]
    numbers = [int(match["number"]) for match in found]
    if len({match["stem"] for match in found}) != 1 or len(found) < len(listed) or numbers == sorted(numbers):
        return
    if sorted(numbers) == list(range(min(numbers), min(numbers) + len(numbers))):
        listed.sort(key=natural)
        remark(f"{path.name}: columns {_some(listed)} were put in the order of their numbers")


def _class_names(path: Path, columns: Sequence[str], stem: str, *, counted: bool, ours: bool) -> list[str] | None:
    """Class names: headers without common parts; None if these only number the classes. ours : written by apply."""
    if ours and stem:
        return _class_names_of_apply([name[len(stem) + 1 :] for name in columns])
    names = [name[len(stem) :].strip() for name in columns]
    while all(names) and len({name[0] for name in names}) == 1 and names[0][0] in " _-.[":
        names = [name[1:] for name in names]
    while all(names) and len({name[-1] for name in names}) == 1 and names[0][-1] in " _-.]":
        names = [name[:-1] for name in names]
    numbers = [number for name in names if (number := whole_number(name)) is not None]
    if numbers == [0]:
        return names  # the single column of class 0
    if len(numbers) == len(names) and ours:
        return None if numbers == list(range(len(numbers))) else names
    if len(numbers) == len(names):
        gap = next((i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1] + 1), 0)
        if counted and gap:
            told = f"after column {columns[gap - 1]!r} comes {columns[gap]!r}: classes are missing"
            raise DataError(f"{path}: {told}; name the columns in the order of the classes: --scores A,B,C")
        return None if set(numbers) <= set(range(len(numbers) + 1)) else names
    if all(name.startswith("(") and name.endswith(")") for name in names):  # probability(cat)
        names = [name[1:-1] for name in names]
    fields = {name.rpartition(".")[0] for name in names}
    if len(fields) == 1:  # fields of one object: scores.cat, scores.dog
        names = [name.rpartition(".")[2] for name in names]
    parts = [NUMBERED.fullmatch(name) for name in names]
    found = [(part["stem"], part["number"]) for part in parts if part]
    if not stem and len(found) == len(set(found)) == len(names) and len({text for text, _ in found}) == 1:
        return None
    return names


def _class_names_of_apply(names: list[str]) -> list[str] | None:
    """Class names in a table written by ``apply``; None for numbers of classes."""
    numbers = [str(i) for i in range(len(names))]
    return None if names == numbers and names != ["0"] else names


def _matrix(path: Path, columns: Columns, names: list[str], counted: list[str] | None = None, told: str = "") -> Load:
    """Loader of columns as (n, columns) floats of the widest type, (n,) for one. counted : the numbered ones where all
    are left over; the others are refused unless labels are words. None: no check. told : a remark on loading."""

    def load() -> NDArray[Any]:
        remark(told)
        values = []
        for name in names:
            values.append(columns[name].load())
            if values[-1].dtype.kind in "OUS":
                raise not_a_number(path, name, values[-1].tolist())
        lists = [name for name, column in zip(names, values, strict=True) if column.ndim != 1]
        if lists and len(names) > 1:
            raise DataError(f"{path}: column {lists[0]!r} holds lists, expected one number per row")
        strange = [n for n, v in zip(names, values, strict=True) if len(v) > 2 and _counts(v)]
        why = "holds whole numbers beside columns of real ones"
        if counted and not any(role_of(name) == "labels" and columns[name].kind == "text" for name in columns):
            strange, why = [name for name in names if name not in counted], f"is none of the numbered {_some(counted)}"
        if counted is not None and 0 < len(strange) < len(names):
            listed = ",".join(name for name in names if name not in strange)
            listed = _asked(columns, counted) if counted else listed
            advice = f"is it a class? name the columns of the classes: --scores {quote(listed)}"
            raise DataError(f"{path}: column {strange[0]!r} {why}: {advice}")
        dtype = np.result_type(*(v.dtype if v.dtype.kind == "f" else np.dtype(np.float64) for v in values))
        return values[0].astype(dtype, copy=False) if len(values) == 1 else np.stack(values, axis=1, dtype=dtype)

    return load


def _counts(values: NDArray[Any]) -> bool:
    """True for whole numbers >= 0; of a float type only with more than two distinct values."""
    if values.dtype.kind in "iu":
        return bool(values.min() >= 0)
    whole = values.ndim == 1 and bool((values >= 0).all()) and bool((values == np.floor(values)).all())
    return whole and len(np.unique(values[:1000])) > 2


# ---- tables without column names


def headerless_archive(path: Path, columns: Columns, n: int, ask: ImportRequest) -> Archive:
    """Arrays of a table whose columns are called 0, 1, 2, …, named by ``--scores 0:9 --labels 10``. Without options the
    first or last column is the labels if it alone holds classes; a table without labels is a loose array with the name
    of the file. Raises DataError for anything else."""
    names = list(columns)
    asked = [piece.strip() for text in (*ask.scores, *ask.labels) for piece in re.split("[,:]", text)]
    if asked and len(names) > 1 and all(piece in names for piece in asked):
        return table_archive(path, "csv", columns, n, ask)
    arrays = {name: columns[name].load() for name in names}
    for name, values in arrays.items():
        if values.dtype.kind == "U" and is_number(str(values[0])):
            raise not_a_number(path, name, values.tolist())
    real = [name for name, v in arrays.items() if v.dtype.kind == "f" and bool((v != np.floor(v)).any())]
    odd = [name for name, v in arrays.items() if v.dtype.kind in "US" or (name not in real and n > 2 and v.any())]
    lists = [name for name in names if arrays[name].ndim == 2]
    k = arrays[lists[0]].shape[1] if lists else len(real)
    if len(odd) == 1 < k and odd[0] in (names[0], names[-1]) and len(lists or real) == len(names) - 1:
        labels = arrays[odd[0]]
        if labels.dtype.kind in "US" or 0 <= labels.min() <= labels.max() < k:
            advice = f"column {odd[0]} was read as the labels, {real[0]} to {real[-1]} as the scores"
            remark(f"{path.name}: has no column names; {advice}")
            return Archive.held(path, "csv", {"scores": _matrix(path, columns, real)(), "labels": labels})
    if len(names) > 1 and (lists or (real and odd)):
        told = f"--scores {(real or names)[0]}:{(real or names)[-1]} --labels {names[-1]} --kind logits|log_probs|probs"
        raise DataError(f"{path}: has no column names; name its {len(names)} columns by their numbers: {told}")
    return Archive.held(path, "csv", {path.stem: _matrix(path, columns, names)()}, loose=True)


# ---- lists of numbers as text: as Python, NumPy and torch print them, or with spaces alone


PRINTED = re.compile(r"\s*(?:[A-Za-z_.]*(?:array|tensor)\()?\s*[\[(](?P<inside>.*)[\])].*", re.DOTALL)
"""A list, a tuple, ``array([…])`` or ``tensor([…], dtype=…)``."""

SCALAR = re.compile(r"[A-Za-z_.]*float\d*\(([^()]*)\)")
"""A number as NumPy 2 prints it inside a list: ``np.float32(0.1)``."""

GAP = re.compile(r"(?<=[\d.])\s+(?=[-+\d.])")  # separator of the numbers of a printed NumPy array
SAMPLE = 100  # cells that determine the type of a column


def are_lists(cells: Sequence[str]) -> bool:
    """True if all these texts are printed lists of numbers."""
    seen = [cell.strip() for cell in cells[:SAMPLE]]
    if not seen or all(cell.startswith("[") for cell in seen):
        return bool(seen)
    if all(PRINTED.fullmatch(cell) for cell in seen):
        return all(is_number(piece) for piece in re.split(r"[,\s]+", _inside(seen[0])) if piece)
    return "." in seen[0] and all(len(numbers := cell.split()) > 1 and all(map(is_number, numbers)) for cell in cells)


def _inside(cell: str) -> str:
    printed = PRINTED.fullmatch(SCALAR.sub(r"\1", cell))
    return (printed["inside"] if printed else cell).strip().strip("[]")


def read_lists(path: Path, name: str, cells: Sequence[str]) -> AnyArray:
    """Parse cells ``[0.1, 0.9]``, or ``[0.1 0.9]`` as NumPy prints them (also over several lines). Raises DataError."""
    if all("'" in cell for cell in cells):
        return np.array([re.findall(r"'([^']*)'", cell) for cell in cells])
    rows: list[list[float]] = []
    for row, cell in enumerate(cells):
        pieces = GAP.sub(",", _inside(cell)).split(",")
        try:
            rows.append([number(piece) for piece in pieces])
        except ValueError:
            shown = one_line(ValueError(cell), 40)
            told = f"{path}: column {name!r} has {shown!r} in row {row}"
            short = ""
            if "..." in cell:
                short = "; NumPy has left out the middle:"
                short += " np.set_printoptions(threshold=sys.maxsize)"
            raise DataError(f"{told}, expected numbers{short}") from None
        if len(rows[-1]) != len(rows[0]):
            lengths = f"({len(rows[0])} in row 0, {len(rows[-1])} in row {row})"
            told = f"the lists in column {name!r} have different lengths {lengths}"
            raise DataError(f"{path}: {told}, expected one number per class")
    return np.array(rows)


def not_a_number(path: Path, name: str, values: Sequence[str]) -> DataError:
    """Error about the first of these cells that is not a number."""
    row = next((i for i, cell in enumerate(values) if not is_number(cell)), 0)
    how = " with a point before its decimals and no other sign" * any(sign in str(values[row]) for sign in ",%")
    cell = one_line(ValueError(values[row]), 60)
    return DataError(f"{path}: column {name!r} has {cell!r} in row {row}, expected a number{how}")
