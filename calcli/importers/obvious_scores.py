"""Scores and labels that no name tells, where only one reading is possible."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.importers.array_names import (
    LEFT_OVER,
    Name,
    is_generated,
    of_role,
    parse_name,
)
from calcli.importers.evidence import ranks_apart
from calcli.importers.import_request import ImportRequest
from calcli.importers.names import is_input, may_be_scores, says_correct
from calcli.importers.remarks import remark
from calcli.importers.source_arrays import Arrays
from calcli.io.provenance import carried
from calcli.io.validate import MOST_BY_CHANCE


def with_obvious_names(
    arrays: Arrays, request: ImportRequest, where: str
) -> ImportRequest:
    """Fill in the names of scores and labels where only one reading is possible."""
    if request.scores:
        return request
    score_paths = arrays.paths_of("scores")
    has_scores = bool(score_paths)
    if has_scores and not request.labels:
        request = replace(request, labels=_labels_of_apply(arrays))
    has_labels = bool(request.labels or (has_scores and arrays.paths_of("labels")))
    free = [name for name in arrays.names if _could_hold_scores(name, arrays)]
    if not has_scores and not has_labels:
        pairs = _pairs(free, arrays)
        if pairs:
            return replace(request, scores=tuple(pairs), labels=tuple(pairs.values()))
    has_classes = any(map(arrays.is_wide, score_paths))
    if request.kind is None and not has_labels and not has_classes:
        pair = _risk_and_outcome(arrays)
        if pair is not None:
            _remark_two_words(*pair, where)
            scores, labels = pair
            return replace(request, scores=(scores,), labels=(labels,), kind="probs")
    core = None if has_scores else _only_candidate(free, arrays, request)
    return request if core is None else replace(request, scores=(core,))


# ---- a table that ``apply`` wrote, and several models with labels of their own


def _labels_of_apply(arrays: Arrays) -> tuple[str, ...]:
    """Name of the labels in a table written by ``apply``, if any.

    It is the column of classes before the predictions.
    """
    columns = arrays.columns
    order = list(columns)
    place = order.index("prediction") if "prediction" in order else 0
    if not place or order[place + 1 : place + 2] != ["confidence"]:
        return ()
    before = order[place - 1]
    if arrays.paths_of("labels") or parse_name(before).role:
        return ()
    scores = arrays.paths_of("scores")[0]
    is_marked = arrays.paths_of("calibrated_by")
    if not is_marked and not carried(columns[scores].file, scores):
        return ()
    n_classes = columns[scores].load().shape[-1]
    return (before,) if len(arrays.words(before)) <= n_classes else ()


def _pairs(free: Sequence[Name], arrays: Arrays) -> dict[str, str]:
    """Paths {scores: labels} of several models: ``a_scores a_targets b_scores …``.

    Empty for anything else. free : all that could be scores.
    """
    labels = {}
    for name in of_role(arrays.names, "labels"):
        labels[name.folder, name.split, name.model] = name.path
    pairs: dict[str, str] = {}
    for name in free:
        model, _, word = name.core.rpartition("_")
        label = labels.get((name.folder, name.split, model))
        if label is None or not may_be_scores(word):
            return {}
        pairs[name.path] = label
    is_complete = set(pairs.values()) == set(labels.values())
    return pairs if len(pairs) == len(labels) > 1 and is_complete else {}


# ---- one column of probabilities beside one of two words


def _remark_two_words(scores: str, labels: str, where: str) -> None:
    remark(
        f"{where}: {scores!r} lies in [0, 1] and {labels!r} has two words: read as with"
        f" --scores {shlex.quote(scores)} --labels {shlex.quote(labels)} --kind probs"
    )


def _risk_and_outcome(arrays: Arrays) -> tuple[str, str] | None:
    """The one column of numbers in [0, 1], some below 1/2, and that of two words.

    None where it is unclear.
    """
    columns = [name for name in arrays.names if _is_column(arrays.load(name.path))]
    risks = [name.path for name in columns if _may_be_risk(name, arrays)]
    labels = [name.path for name in columns if name.role == "labels"]
    if not labels:
        free = [name.path for name in columns if not name.role]
        labels = [path for path in free if len(arrays.words(path)) == 2]
    if len(risks) != 1 or len(labels) != 1 or says_correct(labels[0]):
        return None
    words = arrays.words(labels[0])
    if len(words) != 2 or not isinstance(words[0], str):
        return None
    is_named = arrays.name_of(labels[0]).role == "labels"
    if not (is_named or _may_follow(labels[0], risks[0], arrays)):
        return None
    return (risks[0], labels[0]) if arrays.words(risks[0])[0] < 0.5 else None


def _may_follow(label: str, risk: str, arrays: Arrays) -> bool:
    """True unless many rows show that two words have nothing to do with the numbers."""
    words, numbers = arrays.values(label), arrays.values(risk)
    if words is None or numbers is None or len(words) != len(numbers):
        return False
    classes = (words == arrays.words(label)[-1]).astype(np.int64)
    return ranks_apart(numbers, classes)


def _is_column(array: Any) -> bool:
    """True for a column of enough rows, none of objects."""
    if array is None or array.ndim != 1 or array.dtype.kind == "O":
        return False
    return len(array) >= MOST_BY_CHANCE


def _may_be_risk(name: Name, arrays: Arrays) -> bool:
    """True for more than two numbers from 0 to 1, without another meaning."""
    is_free = not name.role or (name.role == "scores" and name.kind == "probs")
    if not is_free or is_input(name.core) or not arrays.is_float(name.path):
        return False
    values = arrays.words(name.path)
    return len(values) > 2 and values[0] >= 0 and values[-1] <= 1


# ---- the only array that can be scores


def _only_candidate(
    free: Sequence[Name], arrays: Arrays, request: ImportRequest
) -> str | None:
    """Name of the only array, in every split, that can be scores of unknown name.

    None where there is none or several. free : all that could be scores.
    """
    if any(map(is_generated, arrays.names)):
        family = _family_of_scores(free, arrays, request)
        if family is not None:
            return family
        # columns of a table: only a name tells scores from measurements
        free = [name for name in free if may_be_scores(name.core)]
    wide = {name.core for name in free if _has_classes(arrays.load(name.path))}
    cores = wide or {name.core for name in free}
    cores = set(filter(may_be_scores, cores)) or wide
    return cores.pop() if len(cores) == 1 else None


def _has_classes(array: Any) -> bool:
    return array.ndim > 1 and array.shape[-1] > 0


def _could_hold_scores(name: Name, arrays: Arrays) -> bool:
    """True for real numbers without another meaning, columns of counts left out."""
    if name.role or not arrays.is_float(name.path):
        return False
    column = arrays.columns[name.path]
    parts = column.parts.values()
    if parts and all(part.load().dtype.kind in "iu" for part in parts):
        return False
    return name.path == column.file.stem or not is_input(name.core)


def _family_of_scores(
    free: Sequence[Name], arrays: Arrays, request: ImportRequest
) -> str | None:
    """The columns of a table that are its scores; None where it is unclear."""
    families = []
    for name in free:
        if arrays.columns[name.path].parts and _has_classes(arrays.load(name.path)):
            families.append(name)
    by_label = _with_attribute("by_label", arrays)
    some_columns = by_label - {LEFT_OVER}
    has_left_over = LEFT_OVER in arrays.columns
    ways = [
        # a name for scores
        {name.core for name in families if may_be_scores(name.core)},
        # names within the same text, some of which are words of a label
        _with_attribute("is_complete", arrays),
        # rows that sum to 1
        _proven_families(families, arrays),
    ]
    if has_left_over and arrays.load(LEFT_OVER) is None:
        # names that are the words of a label, as no other column may be a class
        ways.append(some_columns)
    if has_left_over and (request.kind or by_label == {LEFT_OVER}):
        ways.append({LEFT_OVER})  # all that is left
    return next((cores.pop() for cores in ways if len(cores) == 1), None)


def _with_attribute(attribute: str, arrays: Arrays) -> set[str]:
    """Names of the arrays of left-over columns that have an attribute."""
    cores = set()
    for name in arrays.names:
        if is_generated(name) and arrays.has(name.path, attribute):
            cores.add(name.core)
    return cores


def _proven_families(names: Sequence[Name], arrays: Arrays) -> set[str]:
    """Names of columns whose rows are probabilities; one for the same columns.

    Of these the one whose classes a label names, if any.
    """
    by_members: dict[frozenset[str], str] = {}
    for name in names:
        if arrays.kind(name.path).kind in ("probs", "log_probs"):
            members = frozenset(arrays.columns[name.path].parts)
            if members not in by_members or arrays.has(name.path, "by_label"):
                by_members[members] = name.core
    return set(by_members.values())
