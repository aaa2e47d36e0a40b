"""A folder with one or more files per image or sentence: each file is a unit."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.formats import open_table
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import SPLIT_WORDS, parse_name
from calcli.importers.ragged import Parts
from calcli.importers.remarks import remark
from calcli.importers.table import Column, Table, constant
from calcli.io.locate import natural
from calcli.number_words import noun
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


@dataclass(frozen=True)
class StoredArray:
    """An array of one unit: its file, and its name in it."""

    file: Path
    name: str

    def ask(self, question: Callable[[Any], Any], first: Path) -> Any:
        """What a function tells of the array. Raises DataError where it is missing.

        first : the file of the first unit, which has such an array.
        """
        with ExitStack() as stack:
            columns = open_table(self.file, stack).columns
            if self.name not in columns:
                raise DataError(
                    f"{self.file}: has no array {self.name!r}, which {first.name} has"
                )
            return question(columns[self.name].load())


ArraysOfUnits = Mapping[str, Sequence[StoredArray]]
"""By name the arrays of all units, in natural order of these."""


def files_of_units(
    files: Sequence[Path], folders: Sequence[Path], request: ImportRequest
) -> Table | None:
    """Arrays of folders with files of units, each stacked over units; else None.

    Without ``--unit file`` there must be as many units as a verdict needs, with short
    arrays of positions of different length, or of pixels, and not all with the same
    labels. Raises UsageError for ``--unit file`` of other files.
    """
    is_asked = request.unit == FILE
    arrays_of_units = _arrays_of_units(files, folders, request)
    of_units = next(iter(arrays_of_units.values()), ())
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
    for name, stored in arrays_of_units.items():
        arrays[name] = _stacked(stored, f"{folder}: {name}")
    if not is_asked and not _look_like_units(arrays, request):
        return None
    counted = f"{len(of_units)} {noun(len(of_units), 'file')}"
    remark(f"{folder}: {counted}, each a unit (or --unit none)")
    columns = {}
    for name, array in arrays.items():
        first = arrays_of_units[name][0]
        columns[name] = Column(first.file, name, constant(array))
    numbers = np.arange(len(of_units), dtype=np.int32)
    columns[FILE if is_asked else "unit"] = Column(folder, FILE, constant(numbers))
    format = files[0].suffix[1:].replace("pth", "pt")
    return Table(folder, format, columns)


def _arrays_of_units(
    files: Sequence[Path], folders: Sequence[Path], request: ImportRequest
) -> ArraysOfUnits:
    """The arrays of every unit; none for files that cannot be units."""
    if len(files) < 2 or request.join:
        return {}
    if request.unit != FILE and len(files) < FEWEST_UNITS:
        return {}
    suffix = files[0].suffix
    if suffix not in SUFFIXES or any(path.suffix != suffix for path in files):
        return {}
    for path in files:
        if not any(folder in path.parents for folder in folders):
            return {}
    if suffix == ".npy":
        return _arrays_of_npy_files(files)
    with ExitStack() as stack:
        names = list(open_table(files[0], stack, request).columns)
    arrays = {}
    for name in names:
        arrays[name] = [StoredArray(path, name) for path in files]
    return arrays


def _arrays_of_npy_files(files: Sequence[Path]) -> ArraysOfUnits:
    """Files of one array by array and unit; none if a unit lacks an array."""
    file_of: dict[tuple[str, str], Path] = {}
    names = set()
    units = set()
    for path in files:
        word = parse_name(path.stem)
        if word.role in ("scores", "labels") and word.model:  # image7_logits.npy
            name, unit = word.kind or word.role, f"{path.parent}/{word.model}"
        elif word.role:  # image7/logits.npy
            name, unit = path.stem, str(path.parent)
        else:  # logits/image7.npy
            name, unit = path.parent.name, path.stem
        file_of[name, unit] = path
        names.add(name)
        units.add(unit)
    if len(file_of) < max(len(files), len(names) * len(units)):
        return {}
    arrays: dict[str, list[StoredArray]] = {}
    for name in sorted(names):
        arrays[name] = []
        for unit in sorted(units, key=natural):
            path = file_of[name, unit]
            arrays[name].append(StoredArray(path, path.stem))
    return arrays


def _are_parts_of_rows(of_units: Sequence[StoredArray]) -> bool:
    """True where a name is that of a shard, a fold or a split."""
    for stored in of_units:
        path = stored.file
        is_in_folder = path.suffix == ".npy" and bool(parse_name(path.stem).role)
        if PARTS_OF_ROWS.match(path.parent.name if is_in_folder else path.stem):
            return True
    return False


def _stacked(of_units: Sequence[StoredArray], where: str) -> AnyArray | Parts:
    """Array of every unit, read lazily; arrays of one axis or one shape in memory.

    Raises DataError.
    """
    first = of_units[0].file
    shapes = []
    types = set()
    for stored in of_units:
        shape, dtype = stored.ask(_shape_and_type, first)
        shapes.append(shape)
        types.add(dtype)

    def of(unit: int) -> AnyArray:
        return np.asarray(of_units[unit].ask(_values, first))

    parts = Parts(shapes, np.result_type(*types), of, where)
    is_large = parts.ndim > 2 or len(set(shapes)) > 1
    return parts if is_large else parts[:]


def _shape_and_type(array: Any) -> tuple[tuple[int, ...], Any]:
    return tuple(array.shape), array.dtype


def _values(array: Any) -> Any:
    return array[()]


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
    first, second, third = labels[:1], labels[1:2], labels[2:3]
    return np.array_equal(first, second) and np.array_equal(first, third)
