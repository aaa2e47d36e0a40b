"""A folder with one or more files per image or sentence: each file is a unit."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.array_names import SPLIT_WORDS, parse_name
from calcli.importers.formats import open_table
from calcli.importers.import_request import ImportRequest
from calcli.importers.ragged import Parts
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Table, constant
from calcli.io.locate import natural
from calcli.numerics import AnyArray
from calcli.statistics.shared_luck import FEWEST_UNITS

FILE = "file"
"""Value of ``--unit`` for the files of a folder."""

SUFFIXES = {".npy", ".npz", ".pt", ".pth", ".safetensors"}

PARTS_OF_ROWS = re.compile(
    r"(?i)(rank|part|shard|chunk|proc|gpu|batch|fold|epoch|seed|model|run|step)"
    rf"([\W_\d]|$)|({'|'.join(SPLIT_WORDS)})$"
)
"""Names of shards, folds or splits: not units, except with ``--unit file``."""

LONG = 10
"""Median positions per file and number of files above which files are data sets."""

Places = Mapping[str, Sequence[tuple[Path, str]]]
"""Array -> (file, name in the file) of each unit, in natural order."""


def files_of_units(
    files: Sequence[Path], folders: Sequence[Path], request: ImportRequest
) -> Table | None:
    """Arrays of folders with files of units, each stacked over units; else None.

    Without ``--unit file`` there must be as many units as a verdict needs, with short
    arrays of positions of different length, or of pixels, and not all with the same
    labels. Raises UsageError for ``--unit file`` of other files.
    """
    is_asked = request.unit == FILE
    places = _places(files, folders, request)
    of_units = next(iter(places.values()), ())
    fewest = 2 if is_asked else FEWEST_UNITS
    if len(of_units) < fewest or (not is_asked and _are_parts_of_rows(of_units)):
        if is_asked and folders:
            raise UsageError(
                f"--unit file: {folders[0]} has no files of the same arrays, one or"
                " more for each unit"
            )
        return None
    folder = folders[0]
    arrays = {}
    for name, of_name in places.items():
        arrays[name] = _stacked(of_name, f"{folder}: {name}")
    if not is_asked and not _look_like_units(arrays, request):
        return None
    remark(f"{folder}: {len(of_units)} files, each a unit (or --unit none)")
    columns = {}
    for name, array in arrays.items():
        columns[name] = Column(places[name][0][0], name, constant(array))
    numbers = np.arange(len(of_units), dtype=np.int32)
    columns[FILE if is_asked else "unit"] = Column(folder, FILE, constant(numbers))
    format = files[0].suffix[1:].replace("pth", "pt")
    return Table(folder, format, columns)


def _places(
    files: Sequence[Path], folders: Sequence[Path], request: ImportRequest
) -> Places:
    """Where the arrays of every unit are; none for files that cannot be units."""
    if len(files) < 2 or request.join:
        return {}
    if request.unit != FILE and len(files) < FEWEST_UNITS:
        return {}
    if {path.suffix for path in files} != {files[0].suffix}:
        return {}
    if files[0].suffix not in SUFFIXES:
        return {}
    for path in files:
        if not any(folder in path.parents for folder in folders):
            return {}
    if files[0].suffix == ".npy":
        return _places_of_npy(files)
    with ExitStack() as stack:
        names = list(open_table(files[0], stack, request).columns)
    return {name: [(path, name) for path in files] for name in names}


def _places_of_npy(files: Sequence[Path]) -> Places:
    """Files of one array by array and unit; none if a unit lacks an array."""
    file_of: dict[tuple[str, str], Path] = {}
    for path in files:
        word = parse_name(path.stem)
        if word.role in ("scores", "labels") and word.model:  # image7_logits.npy
            name, unit = word.kind or word.role, f"{path.parent}/{word.model}"
        elif word.role:  # image7/logits.npy
            name, unit = path.stem, str(path.parent)
        else:  # logits/image7.npy
            name, unit = path.parent.name, path.stem
        file_of[name, unit] = path
    names = sorted({name for name, _ in file_of})
    units = sorted({unit for _, unit in file_of}, key=natural)
    if len(file_of) < max(len(files), len(names) * len(units)):
        return {}
    places = {}
    for name in names:
        of_name = [file_of[name, unit] for unit in units]
        places[name] = [(path, path.stem) for path in of_name]
    return places


def _are_parts_of_rows(of_units: Sequence[tuple[Path, str]]) -> bool:
    """True where a name is that of a shard, a fold or a split."""
    for path, _ in of_units:
        is_in_folder = path.suffix == ".npy" and bool(parse_name(path.stem).role)
        if PARTS_OF_ROWS.match(path.parent.name if is_in_folder else path.stem):
            return True
    return False


def _stacked(places: Sequence[tuple[Path, str]], where: str) -> AnyArray | Parts:
    """Array of every unit, read lazily; arrays of one axis or one shape in memory.

    Raises DataError.
    """

    def of(unit: int, what: Callable[[Any], Any] = lambda array: array[()]) -> Any:
        path, name = places[unit]
        with ExitStack() as stack:
            columns = open_table(path, stack).columns
            if name not in columns:
                first = places[0][0].name
                raise DataError(f"{path}: has no array {name!r}, which {first} has")
            return what(columns[name].load())

    shapes = []
    types = set()
    for unit in range(len(places)):
        shape, dtype = of(unit, lambda array: (array.shape, array.dtype))
        shapes.append(tuple(shape))
        types.add(dtype)
    parts = Parts(shapes, np.result_type(*types), of, where)
    is_large = parts.ndim > 2 or len(set(shapes)) > 1
    return parts if is_large else parts[:]


def _look_like_units(
    arrays: Mapping[str, AnyArray | Parts], request: ImportRequest
) -> bool:
    """True for scores of positions with labels of their own.

    Not for models on the same rows, folds or shards.
    """
    labels = None
    for name, array in arrays.items():
        if name in request.labels or parse_name(name).role == "labels":
            labels = array
            break
    if labels is not None and _are_equal(labels):
        return False
    largest = max(arrays.values(), key=lambda array: array.ndim)
    if not isinstance(largest, Parts) or largest.ndim != 3:
        return largest.ndim in (2, 4)
    if labels is not None and labels.ndim == 3:
        return True
    lengths = [shape[0] for shape in largest.shapes]
    varies = max(lengths[:-1]) - min(lengths[:-1]) > 1
    return varies and median(lengths) <= LONG * len(lengths)


def _are_equal(labels: AnyArray | Parts) -> bool:
    """True if the first three units have the same labels."""
    first = labels[:1]
    return all(np.array_equal(first, labels[unit : unit + 1]) for unit in range(1, 3))
