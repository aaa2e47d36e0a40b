"""What names of bundles stand for: patterns of files and of groups, and lists in files."""

import glob
import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from calcli.errors import DataError, UsageError
from calcli.io.hdf5 import open_file
from calcli.io.inputs import read_document
from calcli.io.locate import find_bundles, split_where
from calcli.numerics import whole_number

LONGEST_NAME = 8192
"""Characters of a name, that of a group included; systems have 4096 at most for a path."""

WILD = "*?["
LONGEST_LIST = 1 << 28
"""Bytes of a list of names."""


def natural(text: str) -> list[tuple[int, int, str]]:
    """A key that sorts rank10 after rank2."""
    parts = [(part, whole_number(part)) for part in re.split(r"([0-9]+)", text) if part]
    return [(0, 0, part) if number is None else (1, number, "") for part, number in parts]


def expand(name: str) -> list[str]:
    """The bundles that a name stands for, in natural order.

    ``FILES:GROUP``, where both may be patterns of the shell: ``shards/*.h5``, ``a.h5:*``. A
    file whose name holds such characters is that file. Raises DataError where nothing matches.
    """
    if len(name) > LONGEST_NAME:  # a pattern takes time with the square of its length
        raise DataError(f"{name[:60]}…: has {len(name)} characters, longer than any file's name")
    path, group = split_where(name)
    files = [str(path)]
    if not os.path.exists(path) and any(c in str(path) for c in WILD):
        files = sorted((f for f in glob.glob(str(path), recursive=True) if os.path.isfile(f)), key=natural)
        if not files:
            raise DataError(f"{name}: no file matches; patterns are those of the shell, ** for folders in folders")
    if group is None:
        return files
    return [bundle for file in files for bundle in _groups(Path(file), group)]


def _groups(path: Path, group: str) -> list[str]:
    if not any(c in group for c in WILD):
        return [f"{path}:{group}"]
    with open_file(path) as file:
        names = sorted(find_bundles(file), key=natural)
    matching = [f"{path}:{name}" for name in names if fnmatchcase(name, group)]  # "FILE:" is the root
    if not matching:
        listing = ", ".join(f"{path.name}:{name}" for name in names) or "none"
        raise DataError(f"{path}: no bundle matches {group!r}; bundles in it: {listing}")
    return matching


def listed(where: str) -> list[str]:
    """Names in a file, one a line, ``-`` for stdin; empty lines do not count. Raises DataError."""
    what = "names of bundles, one a line"
    try:
        text = read_document(where, LONGEST_LIST, what).decode()
    except DataError as problem:
        raise DataError(f"--files-from {problem}") from None
    except UnicodeDecodeError as problem:
        raise DataError(f"--files-from {where}: is no text: {problem}; expected {what}") from None
    if "\0" in text:
        raise DataError(f"--files-from {where}: holds NUL characters, expected {what}")
    names = [line.strip() for line in text.splitlines() if line.strip()]
    if not names:
        raise DataError(f"--files-from {where}: names no bundle; expected one a line")
    return names


def bundle_names(names: Sequence[str], files_from: str | None) -> list[str]:
    """What was typed and what is listed, patterns not yet expanded. Raises UsageError for nothing at all."""
    found = [*names, *(listed(files_from) if files_from is not None else ())]
    if not found:
        raise UsageError("no bundle is named: give FILE.h5 or FILE.h5:GROUP, or a list of them with --files-from")
    return found
