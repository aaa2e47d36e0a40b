"""Resolve names of bundles, ``FILE.h5:GROUP`` and lists, and find the groups of a file
that hold bundles.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from calcli.errors import DataError, UsageError, check_choice
from calcli.io.cells import sortable, words
from calcli.io.hdf5 import find_groups, lookup
from calcli.io.inputs import note, read_document
from calcli.numerics import AnyArray, whole_number
from calcli.rows import SCORE_KINDS


@dataclass(frozen=True, kw_only=True)
class ByName:
    """Names of the per-row columns in a file; None for the standard names."""

    group_by: list[str] | None = None
    sample_weight: str | None = None
    ids: str | None = None
    unit: str | None = None

    @property
    def named(self) -> dict[str, list[str]]:
        """Names given by the user, by standard name; an empty list for ``none``."""
        columns = {
            "group": self.group_by,
            "weights": self.sample_weight,
            "ids": self.ids,
            "unit": self.unit,
        }
        named: dict[str, list[str]] = {}
        for role, names in columns.items():
            if not names:
                continue
            listed_names = [names] if isinstance(names, str) else list(names)
            named[role] = [] if listed_names == ["none"] else listed_names
        return named

    @property
    def names_groups(self) -> bool:
        """True where the user has named a column of groups."""
        return bool(self.named.get("group"))


def columns_joined(names: Iterable[str]) -> str:
    """One name for the intersections of columns: theirs in alphabetical order."""
    return ", ".join(sorted(set(names)))


def columns_in(name: str) -> list[str]:
    """Names of the columns that ``columns_joined`` joined."""
    return name.split(", ")


def intersections(columns: Mapping[str, AnyArray]) -> AnyArray:
    """Names of a single column, or the intersections of several as text, ``race=Black,
    sex=F``: the columns by their names, in whatever order they come.
    """
    if len(columns) == 1:
        return next(iter(columns.values()))
    parts = []
    for column, names in sorted(columns.items()):
        parts.append([f"{column}={name}" for name in sortable(names).tolist()])
    return words([", ".join(row) for row in zip(*parts, strict=True)])


def columns_of(groups: AnyArray, names: Sequence[str]) -> dict[str, AnyArray]:
    """Columns that ``intersections`` combined, by name; empty for a single column.

    groups : of every row, (n,). names : of the columns.
    """
    if len(names) < 2:
        return {}
    sorted_names = sorted(names)
    parts = [f"{re.escape(name)}=(.*)" for name in sorted_names]
    pattern = re.compile(", ".join(parts), re.DOTALL)
    values, place = np.unique(groups, return_inverse=True)
    matches = [pattern.fullmatch(str(value)) for value in values.tolist()]
    columns = {}
    for place_of_name, name in enumerate(sorted_names, start=1):
        texts = []
        for match in matches:
            if match is None:
                return {}
            texts.append(match[place_of_name])
        columns[name] = np.array(texts, dtype=object)[place]
    return columns


@dataclass(frozen=True, kw_only=True)
class Layout(ByName):
    """Paths and types in a file that does not have the layout of a bundle.

    scores, labels : paths of datasets, relative to the group named or the root. kind :
    type of the scores; required if the dataset's name does not imply it. external :
    allow external storage elsewhere. Raises UsageError.
    """

    scores: str | None = None
    labels: str | None = None
    kind: str | None = None
    allow_external: bool = False

    def __post_init__(self) -> None:
        check_choice("--kind", self.kind, SCORE_KINDS)
        for field in ("scores", "labels"):
            name = _only_one(f"--{field}", getattr(self, field))
            object.__setattr__(self, field, name)
        for option, path in (("--scores", self.scores), ("--labels", self.labels)):
            if path is not None and not path.strip("/"):
                raise UsageError(
                    f"{option} {path!r}: expected the path of a dataset, e.g. {option}"
                    f" out/{option[2:]}"
                )


def _only_one(option: str, names: Any) -> str | None:
    """The name that an option gives. Raises UsageError for several."""
    if names is None or isinstance(names, str):
        return names
    if len(names) > 1:
        listing = " and ".join(names)
        raise UsageError(
            f"{option}: names {listing}, expected one array; columns of one array are"
            f" listed: {option} {','.join(names)}"
        )
    return names[0] if names else None


CALIBRATION = ("cal", "val", "validation", "valid", "calibration", "calib", "dev")
"""Groups that a fit uses if none is named: the first that exists."""

HELD_OUT = ("test", "eval", "holdout")  # groups to evaluate on


@dataclass(frozen=True)
class Location:
    """Names of rows for use in commands: ``name``, empty without a file, and labelled
    samples of the same model.

    to_fit : samples to fit another calibrator on. to_evaluate : samples to evaluate one
    on that was fitted on these; each empty if unknown. options : command-line options
    to read any of them as these were read.
    """

    name: str = ""
    to_fit: str = ""
    to_evaluate: str = ""
    options: tuple[str, ...] = ()


def split_where(where: str) -> tuple[Path, str | None]:
    """Split ``FILE.h5:GROUP`` into file and group, None if no group is named."""
    if ":" not in where or os.path.exists(where):
        return Path(where), None
    ends = [place for place, c in enumerate(where) if c == ":"]
    # Names of groups may contain colons: take the longest prefix that is a file, else
    # all but the last part.
    end = next(
        (place for place in reversed(ends) if os.path.isfile(where[:place])), ends[-1]
    )
    path = where[:end]
    group = where[end + 1 :]
    # A Windows drive letter is not a file with a group.
    if len(path) == 1 and path.isalpha():
        return Path(where), None
    if not path:
        raise UsageError(
            f"{where!r}: expected FILE:GROUP; is a variable of the script empty?"
        )
    return Path(path), group.strip("/")


def absolute(name: str) -> str:
    """Make the name of a bundle absolute, for a process in another folder."""
    path, group = split_where(name)
    absolute_path = os.path.abspath(path)
    return absolute_path if group is None else f"{absolute_path}:{group}"


def note_bundles(names: Iterable[str]) -> None:
    """Record the files of these bundles as read (see ``calcli.io.inputs``)."""
    for name in names:
        note(split_where(name)[0])


def find_bundles(file: h5py.File) -> list[str]:
    """List the paths of all groups that hold scores under standard names.

    "" is the root.
    """
    names = []
    for name, group in find_groups(file):
        if "transforms" not in name.split("/") and kinds_in(group):
            names.append(name)
    return names


def kinds_in(group: h5py.Group) -> list[str]:
    """List the kinds of scores in a group.

    Confidences only if there are no scores of classes.
    """

    def holds(name: str) -> bool:
        return isinstance(lookup(group, name), h5py.Dataset)

    return list(filter(holds, SCORE_KINDS)) or list(filter(holds, ("confidence",)))


class NoBundles(DataError):
    """Error: an HDF5 file holds no scores under standard names."""


class SeveralBundles(DataError):
    """Error: a file holds several bundles, and none was named."""


def choose_group(
    file: h5py.File,
    path: Path,
    group: str | None,
    prefer: Sequence[str],
    layout: Layout,
) -> str:
    """Choose the group to read.

    Raises DataError if none fits; ``NoBundles`` if the file has no bundles.
    """
    if group is not None:
        node = lookup(file, group)
        if isinstance(node, h5py.Dataset):
            raise DataError(
                f"{path}: {group!r} is a dataset, expected a group; for a dataset pass"
                f" --scores {group}"
            )
        if isinstance(node, h5py.Group):
            return group
        message = f"{path}: has no group {group!r}; bundles in it:"
        bundles = find_bundles(file)
        if not bundles:
            raise NoBundles(f"{message} none")
        shown = []
        for name in bundles:
            shown.append(f"{path.name}:{name}" if name else f"{path.name} itself")
        raise DataError(f"{message} {', '.join(shown)}")
    if layout.scores is not None:
        return ""
    for name in prefer:
        node = lookup(file, name)
        if isinstance(node, h5py.Group) and kinds_in(node):
            return name
    bundles = find_bundles(file)
    if len(bundles) == 1:
        return bundles[0]
    if bundles:
        # "FILE:" is the root.
        listing = ", ".join(f"{path.name}:{name}" for name in bundles)
        problem = SeveralBundles(
            f"{path}: holds {len(bundles)} bundles, name one of: {listing}"
        )
        raise problem.advising(("calcli", "inspect", str(path)))
    raise NoBundles(
        f"{path}: holds no dataset named {', '.join(SCORE_KINDS)} or confidence; name"
        " yours with --scores PATH --labels PATH --kind KIND"
    )


WILD = "*?["
LONGEST_LIST = 1 << 28  # maximum bytes of a list of names


def natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key that puts rank10 after rank2."""
    keys = []
    for part in filter(None, re.split(r"([0-9]+)", text)):
        number = whole_number(part)
        keys.append((0, 0, part) if number is None else (1, number, ""))
    return keys


def matching_files(pattern: str) -> list[str]:
    """Expand a shell pattern into files, in natural order.

    An existing file, or a name without wildcards, is returned unchanged. Raises
    DataError if none matches.
    """
    if os.path.exists(pattern) or not any(c in pattern for c in WILD):
        return [pattern]
    files = sorted(
        (name for name in glob(pattern, recursive=True) if os.path.isfile(name)),
        key=natural,
    )
    if not files:
        raise DataError(
            f"{pattern}: no file matches; patterns are those of the shell, ** for"
            " folders in folders"
        )
    return files


def listed(where: str) -> list[str]:
    """Read names from a file, one per line, ``-`` for stdin; empty lines are skipped.

    Raises DataError.
    """
    what = "names of bundles, one a line"
    try:
        text = read_document(where, LONGEST_LIST, what).decode()
    except DataError as problem:
        raise DataError(f"--files-from {problem}") from None
    except UnicodeDecodeError as problem:
        raise DataError(
            f"--files-from {where}: is no text: {problem}; expected {what}"
        ) from None
    if "\0" in text:
        raise DataError(f"--files-from {where}: holds NUL characters, expected {what}")
    names = list(filter(None, map(str.strip, text.splitlines())))
    if not names:
        raise DataError(f"--files-from {where}: names no bundle; expected one a line")
    return names


def bundle_names(names: Sequence[str], files_from: str | None) -> list[str]:
    """Combine typed and listed names, patterns not yet expanded.

    Raises UsageError if there are none.
    """
    bundles = list(names)
    if files_from is not None:
        bundles += listed(files_from)
    if not bundles:
        raise UsageError(
            "no bundle is named: give FILE.h5 or FILE.h5:GROUP, or a list of them with"
            " --files-from"
        )
    return bundles


def group_name(part: str) -> str:
    """A valid part of a group's name, with _ for colons (FILE.h5:GROUP) and slashes.

    Characters that HDF5 cannot store in a name are escaped.
    """
    part = part.encode("utf-8", "backslashreplace").decode().replace("\0", "_")
    part = part.strip().replace(":", "_").replace("/", "_")
    return part.strip(".") or "unnamed"


def unique_groups(names: Iterable[str]) -> dict[str, str]:
    """Names that groups can have, by name: a number makes equal ones differ."""
    groups: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        group = plain = group_name(name)
        number = 2
        while group in used:
            group = f"{plain}_{number}"
            number += 1
        used.add(group)
        groups[name] = group
    return groups
