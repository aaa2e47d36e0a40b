"""A folder with a file or more for every image or sentence: one set of arrays, of which each file is a unit."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.archive import Archive, Entry, constant
from calcli.importers.array_names import SPLIT_WORDS, parse_name
from calcli.importers.formats import open_archive
from calcli.importers.import_request import ImportRequest
from calcli.importers.positions import Parts
from calcli.importers.remarks import remark
from calcli.io.inputs import file_sha256
from calcli.io.locate import natural
from calcli.numerics import AnyArray
from calcli.statistics.units import FEWEST_UNITS

FILE = "file"
"""What ``--unit`` calls the files of a folder."""

ARRAYS = {".npy", ".npz", ".pt", ".pth", ".safetensors"}
PARTS_OF_ROWS = re.compile(
    rf"(?i)(rank|part|shard|chunk|proc|gpu|batch|fold|epoch|seed|model|run|step)([\W_\d]|$)|({'|'.join(SPLIT_WORDS)})$"
)
"""What files of any rows are called: no units, unless ``--unit file`` says so."""

LONG = 10
"""Positions a file for each of the files, beyond which they are rather data sets of their own than sentences."""

Place = tuple[Path, str]
"""A file, and the name of an array in it."""


def files_of_units(files: Sequence[Path], folders: Sequence[Path], ask: ImportRequest) -> Archive | None:
    """The arrays of files that lie in folders, the files of a unit together; None where they are something else.

    ``unit/logits.npy``, ``logits/unit.npy``, ``unit_logits.npy`` with labels likewise, or a file of several arrays.
    Without ``--unit file`` so many files as a verdict needs, of short arrays of positions that differ in length, or of
    pixels, and not all with the same labels. Raises UsageError for ``--unit file`` of other files.
    """
    asked = ask.unit == FILE
    known = bool(files) and len({path.suffix for path in files}) == 1 and files[0].suffix in ARRAYS
    inside = known and all(any(folder in path.parents for folder in folders) for path in files)
    places = _by_unit(files, ask) if inside and (asked or len(files) >= FEWEST_UNITS) and not ask.join else {}
    count = len(next(iter(places.values()), ()))
    named = any(PARTS_OF_ROWS.match(unit) for unit in _units(places))
    if count < 2 or (not asked and (count < FEWEST_UNITS or named)):
        if asked and folders:
            raise UsageError(f"--unit file: {folders[0]} has no files of the same arrays, one or more for each unit")
        return None
    where = folders[0]
    loaders = {name: _parts(found, f"{where}: {name}") for name, found in places.items()}
    if not asked and not _look_like_units(loaders, ask):
        return None
    remark(f"{where}: {count} files, each a unit (or --unit none)")
    entries = {name: Entry(places[name][0][0], name, constant(made)) for name, made in loaders.items()}
    entries[FILE if asked else "unit"] = Entry(where, FILE, constant(np.arange(count, dtype=np.int32)))
    return Archive(where, files[0].suffix[1:].replace("pth", "pt"), entries)


def folder_sha256(files: Sequence[Path]) -> str:
    """One hash of the hashes of files."""
    return sha256("".join(map(file_sha256, files)).encode()).hexdigest()


def _by_unit(files: Sequence[Path], ask: ImportRequest) -> dict[str, list[Place]]:
    """For every array where that of each unit lies, in the order of the units; nothing where some lack one."""
    if files[0].suffix != ".npy":
        with ExitStack() as stack:
            return {name: [(path, name) for path in files] for name in open_archive(files[0], stack, ask).entries}
    at: dict[tuple[str, str], Path] = {}
    for path in files:
        word = parse_name(path.stem)
        if word.role in ("scores", "labels") and word.model:  # image7_logits.npy
            name, unit = word.kind or word.role, f"{path.parent}/{word.model}"
        elif word.role:  # image7/logits.npy
            name, unit = path.stem, str(path.parent)
        else:  # logits/image7.npy
            name, unit = path.parent.name, path.stem
        at[name, unit] = path
    names, units = {name for name, _ in at}, {unit for _, unit in at}
    if len(at) < len(files) or len(at) < len(names) * len(units):
        return {}
    ordered = sorted(units, key=natural)
    return {name: [(at[name, unit], at[name, unit].stem) for unit in ordered] for name in sorted(names)}


def _units(places: Mapping[str, Sequence[Place]]) -> list[str]:
    """What the units are called."""
    found = next(iter(places.values()), ())
    return [
        path.parent.name if parse_name(path.stem).role and path.suffix == ".npy" else path.stem for path, _ in found
    ]


def _parts(places: Sequence[Place], where: str) -> AnyArray | Parts:
    """The array of every unit, read when it is asked for; small ones of one shape in memory. Raises DataError."""

    def use(unit: int, what: Callable[[Any], Any]) -> Any:
        path, name = places[unit]
        with ExitStack() as stack:
            entries = open_archive(path, stack).entries
            if name not in entries:
                raise DataError(f"{path}: has no array {name!r}, which {places[0][0].name} has")
            return what(entries[name].load())

    about = [use(unit, lambda array: (tuple(array.shape), array.dtype)) for unit in range(len(places))]
    shapes = [shape for shape, _ in about]
    made = Parts(
        shapes, np.result_type(*{dtype for _, dtype in about}), lambda u: np.asarray(use(u, lambda a: a[()])), where
    )
    return made if made.ndim > 2 or len(set(shapes)) > 1 else made[:]


def _look_like_units(arrays: Mapping[str, AnyArray | Parts], ask: ImportRequest) -> bool:
    """Are these scores of positions with labels of their own, not models on the same rows, folds or shards?"""
    roles = {name: "labels" if name in ask.labels else parse_name(name).role for name in arrays}
    labels = next((array for name, array in arrays.items() if roles[name] == "labels"), None)
    if labels is not None and all(np.array_equal(labels[:1], labels[unit : unit + 1]) for unit in range(1, 3)):
        return False
    largest = max(arrays.values(), key=lambda array: array.ndim)
    if not isinstance(largest, Parts) or largest.ndim != 3:
        return largest.ndim in (2, 4)
    lengths = [shape[0] for shape in largest.shapes]
    if labels is not None and labels.ndim == 3:
        return True
    return max(lengths[:-1]) - min(lengths[:-1]) > 1 and median(lengths) <= LONG * len(lengths)
