"""Where in a file a bundle lies: ``FILE.h5:GROUP``, the groups that hold scores, layouts of other people."""

import os
from collections.abc import Sequence
from pathlib import Path

import h5py

from calcli.errors import DataError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.io.hdf5 import find_groups, lookup, or_none
from calcli.rows import SCORE_KINDS


@dataclass(frozen=True)
class Layout:
    """Where things lie in a file that is not laid out as a bundle.

    scores, labels : paths of datasets, from the group named or the root. kind : what the
    scores are; needed when the dataset's name does not say it. external : values may come
    from files elsewhere. Raises UsageError.
    """

    scores: str | None = None
    labels: str | None = None
    kind: str | None = None
    external: bool = False

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in SCORE_KINDS:
            raise UsageError(f"--kind {self.kind}: expected one of {', '.join(SCORE_KINDS)}")
        for option, path in (("--scores", self.scores), ("--labels", self.labels)):
            if path is not None and not path.strip("/"):
                raise UsageError(f"{option} {path!r}: expected the path of a dataset, e.g. {option} out/{option[2:]}")


def split_where(where: str) -> tuple[Path, str | None]:
    """Split ``FILE.h5:GROUP`` into the file and the group, None when no group is named."""
    if ":" not in where or os.path.exists(where):
        return Path(where), None
    ends = [at for at, c in enumerate(where) if c == ":"]
    # The name of a group may hold colons too: the longest beginning that is a file, else all but the last part.
    end = next((at for at in reversed(ends) if os.path.isfile(where[:at])), ends[-1])
    path, group = where[:end], where[end + 1 :]
    # A Windows drive letter is not a file with a group.
    if len(path) == 1 and path.isalpha():
        return Path(where), None
    return Path(path), group.strip("/")


def find_bundles(file: h5py.File) -> list[str]:
    """Paths of all groups that hold scores by their standard names; "" is the root."""
    groups = ((name, group) for name, group in find_groups(file) if "transforms" not in name.split("/"))
    return [name for name, group in groups if kinds_in(group)]


def kinds_in(group: h5py.Group) -> list[str]:
    """The kinds of scores that a group holds; confidences count where there are no scores of classes."""

    def holds(name: str) -> bool:
        return isinstance(lookup(group, name), h5py.Dataset)

    return [kind for kind in SCORE_KINDS if holds(kind)] or [kind for kind in ("confidence",) if holds(kind)]


def choose_group(file: h5py.File, path: Path, group: str | None, prefer: Sequence[str], layout: Layout) -> str:
    if group is not None:
        node = lookup(file, group)
        if isinstance(node, h5py.Dataset):
            raise DataError(f"{path}: {group!r} is a dataset, expected a group; for a dataset pass --scores {group}")
        if not isinstance(node, h5py.Group):
            have = (
                ", ".join(f"{path.name}:{name}" if name else f"{path.name} itself" for name in find_bundles(file))
                or "none"
            )
            raise DataError(f"{path}: has no group {group!r}; bundles in it: {have}")
        return group
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
        listing = ", ".join(f"{path.name}:{name}" for name in bundles)  # "FILE:" is the root
        raise DataError(f"{path}: holds {len(bundles)} bundles, name one of: {listing}")
    datasets = [
        f"{name}/{key}".strip("/")
        for name, node in find_groups(file)
        for key in node
        if isinstance(or_none(node, key), h5py.Dataset)
    ]
    more = ", …" if len(datasets) > 12 else ""
    raise DataError(
        f"{path}: holds no dataset named {', '.join(SCORE_KINDS)} (it has: {', '.join(datasets[:12]) or 'nothing'}"
        f"{more}); name yours with --scores PATH --labels PATH --kind KIND"
    )
