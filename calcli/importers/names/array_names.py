"""The parts of the names of arrays: folder, split, model, and the word for a role.

A split (``val``, ``test``, …) stands before or after the name (``logits_val``) or is the
last folder (``val/logits``); the name of a model stands beside the word for scores or
labels (``resnet_logits``). What the words mean stands in ``names``.

Arrays that calcli makes of several columns of a table have names of their own, which
stand here too (``LEFT_OVER``, ``OF_LABEL``, ``BY_SUM``).
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from calcli.errors import UsageError, unknown_name
from calcli.importers.names.roles import (
    ROLES,
    SCORE_KIND_OF,
    SCORE_PREFIX,
    alternatives,
    is_no_truth,
    role_of,
)

SPLIT_WORDS = (
    *("train", "training", "cal", "calib", "calibration", "val", "valid"),
    *("validation", "dev", "test", "eval", "holdout"),
)

LEFT_OVER = "columns"
"""Name of the array of all numeric columns whose names have no known meaning."""

OF_LABEL = "columns by "
"""Beginning of the name of an array of columns named by the words of a label."""

BY_CALIBRATOR = "the classes of the calibrator"
"""What stands for a label where a calibrator tells the names of the classes."""

OF_CALIBRATOR = f"{OF_LABEL}{BY_CALIBRATOR}"
"""Name of the array of columns named by the classes of a calibrator."""

BY_SUM = "columns that sum to 1"
"""Name of the array of columns side by side that sum to 1 in every row."""

_SPLIT = alternatives(SPLIT_WORDS)
_WITH_SPLIT = re.compile(
    rf"(?i)(?:(?P<before>{_SPLIT})[_.-])?(?P<core>.+?)(?:[_.-](?P<after>{_SPLIT}))?"
)
_ENDS_IN_SPLIT = re.compile(rf"(?i)(?P<model>.+)[_.-](?P<split>{_SPLIT})")
_OF_MODEL = re.compile(r"(?i)(?P<role>labels?|targets?|class_names)[_.-](?P<model>.+)")
_ENDING_WORDS = {*SCORE_KIND_OF, *ROLES["labels"].words, "class_names", "ids"}
_WITH_ENDING = re.compile(
    rf"(?i)(?P<model>.+?)[_.-](?P<word>{alternatives(_ENDING_WORDS - {'y', 'gt'})})"
)
_OUTCOME = re.compile(r"(?i)(?P<score>.+?)[_. -](outcome|outcomes|observed|actual)")


@dataclass(frozen=True)
class Name:
    """Parts of the path of an array.

    folder : the folders, without one that is a split. core : the base name without its
    split. role : "scores", one of ``ARRAY_ROLES``, or "". kind : of scores. model :
    what stands beside the word for scores or labels.
    """

    path: str
    folder: tuple[str, ...]
    core: str
    role: str
    kind: str = ""
    model: str = ""
    split: str = ""

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Folder and split: arrays of one place are beside each other."""
        return self.folder, self.split


@lru_cache(maxsize=1 << 16)  # every array of a file is compared with every other
def parse_name(path: str) -> Name:
    """Parse the path of an array into its parts."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    *folders, base = parts or [path]
    if base.startswith(OF_LABEL):
        return Name(path, tuple(folders), base, "")
    transforms_role = _role_in_transforms(folders, base)
    if transforms_role:
        folders.pop()
    split = ""
    if folders and folders[-1].lower() in SPLIT_WORDS:
        split = folders.pop()
    plain = Name(path, tuple(folders), base, transforms_role, split=split)
    if transforms_role:
        return plain
    plain = _without_split(plain)
    for parse in (_as_role, _as_scores, _as_names_of_model, _with_ending, _as_model):
        name = parse(plain)
        if name is not None:
            return name
    return plain


def parse_names(paths: Iterable[str]) -> list[Name]:
    """Parts of the paths of several arrays."""
    return list(map(parse_name, paths))


def names_of_arrays(paths: Iterable[str]) -> list[Name]:
    """Parts of the paths of the arrays of a source.

    The outcome of one column of scores is a label that is named by that column.
    """
    names = {path: parse_name(path) for path in paths}
    for score, outcome in outcomes_by_score(names).items():
        names[outcome] = replace(names[outcome], role="labels", model=score, kind="")
    return list(names.values())


def outcomes_by_score(paths: Collection[str]) -> dict[str, str]:
    """Columns ``NAME_outcome`` by ``NAME``: the labels of one column of scores."""
    outcomes = {}
    for path in paths:
        match = _OUTCOME.fullmatch(path)
        if match is not None and match["score"] in paths:
            outcomes[match["score"]] = path
    return outcomes


def of_role(names: Iterable[Name], role: str) -> list[Name]:
    """The names that have a role."""
    return [name for name in names if name.role == role]


def paths_of_role(paths: Iterable[str], role: str) -> list[str]:
    """The paths whose names have a role."""
    return [path for path in paths if parse_name(path).role == role]


def _role_in_transforms(folders: Sequence[str], base: str) -> str:
    """Role of ``transforms/logits`` and ``transforms/specs``; else ""."""
    if not folders or folders[-1].lower() != "transforms":
        return ""
    return {"logits": "transformed", "specs": "specs"}.get(base.lower(), "")


def _without_split(name: Name) -> Name:
    """Take the split off a name, unless it has a meaning as a whole (y_true, test)."""
    base = name.core
    if role_of(base) or base.lower() in SCORE_KIND_OF:
        return name
    match = _WITH_SPLIT.fullmatch(base)
    if match is None:
        return name
    split = match["before"] or match["after"] or name.split
    return replace(name, core=match["core"], split=split)


def _as_role(name: Name) -> Name | None:
    """labels, y_true, ids, …"""
    role = role_of(name.core)
    return replace(name, role=role) if role else None


def _as_scores(name: Name) -> Name | None:
    """logits, logits_resnet, …"""
    match = SCORE_PREFIX.match(name.core)
    if match is None:
        return None
    kind = SCORE_KIND_OF[match.group().lower()]
    model = name.core[match.end() :].strip("_-. ")
    return replace(name, role="scores", kind=kind, model=model)


def _as_names_of_model(name: Name) -> Name | None:
    """class_names_resnet, …"""
    match = _OF_MODEL.fullmatch(name.core)
    if match is None or match["role"].lower() != "class_names":
        return None
    return replace(name, role="class_names", model=match["model"])


def _with_ending(name: Name) -> Name | None:
    """resnet_logits, resnet_val_labels, …"""
    match = _WITH_ENDING.fullmatch(name.core)
    if match is None:
        return None
    model, split = match["model"], name.split
    inner = _ENDS_IN_SPLIT.fullmatch(model)
    if inner is not None:
        model, split = inner["model"], inner["split"]
    kind = SCORE_KIND_OF.get(match["word"].lower())
    if kind is not None:
        return replace(name, role="scores", kind=kind, model=model, split=split)
    if is_no_truth(model):
        return None
    return replace(name, role=role_of(match["word"]), model=model, split=split)


def _as_model(name: Name) -> Name | None:
    """labels_resnet, …"""
    match = _OF_MODEL.fullmatch(name.core)
    if match is None:
        return None
    return replace(name, role=role_of(match["role"]), model=match["model"])


# ---- names of the arrays of a source


def matching(names: Sequence[Name], wanted: str, what: str, where: str) -> list[Name]:
    """The array with this path, else all with this name in any folder or split.

    what : such an array, and where it is looked for, in messages. Raises UsageError if
    there is none.
    """
    exact = [name for name in names if name.path == wanted]
    if exact:
        return exact
    inner = []
    for name in names:
        is_in_split = name.core == wanted and name.split
        if name.path.endswith("/" + wanted) or is_in_split:
            inner.append(name)
    if not inner:
        problem = unknown_name(what, wanted, real_names(names))
        raise UsageError(f"{where}: {problem.message}")
    return inner


def real_names(names: Sequence[Name]) -> list[str]:
    """Paths of the source's own arrays.

    Arrays of left-over columns, and class names made of column names, are left out.
    """
    made_of_headers = {headers_path(name.path) for name in names}
    paths = []
    for name in names:
        if name.path not in made_of_headers and not is_generated(name):
            paths.append(name.path)
    return paths


def is_generated(name: Name) -> bool:
    """True for an array of left-over columns, of columns by a label, or by their sum."""
    return name.core in (LEFT_OVER, BY_SUM) or name.core.startswith(OF_LABEL)


def headers_path(path: str) -> str:
    """Path of the class names that are made of the names of an array's columns."""
    folder, slash, base = path.rpartition("/")
    return f"{folder}{slash}class_names_{base}"
