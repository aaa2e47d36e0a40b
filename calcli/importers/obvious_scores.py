"""Scores and labels that no name tells, where only one reading is possible."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calcli.importers.array_names import LEFT_OVER, Name, is_generated, parse_name
from calcli.importers.import_request import ImportRequest
from calcli.importers.names import is_input, may_be_scores, says_correct
from calcli.importers.remarks import remark
from calcli.importers.source_arrays import Arrays
from calcli.io.provenance import carried
from calcli.io.validate import MOST_BY_CHANCE
from calcli.numerics import AnyArray


def with_obvious_names(
    arrays: Arrays, request: ImportRequest, where: str
) -> ImportRequest:
    """Fill in the names of scores and labels where only one reading is possible."""
    if request.scores:
        return request
    has_scores = bool(arrays.paths_of("scores"))
    if has_scores and not request.labels:
        request = replace(request, labels=_labels_of_apply(arrays))
    are_complete = has_scores and bool(arrays.paths_of("labels"))
    if not request.labels and not are_complete:
        pairs = {} if has_scores else _pairs(arrays)
        if pairs:
            return replace(request, scores=tuple(pairs), labels=tuple(pairs.values()))
        if request.kind is None:
            pair = _score_beside_two_words(arrays)
            if pair is not None:
                _remark_two_words(pair, where)
                scores, labels = (pair.scores,), (pair.labels,)
                return replace(request, scores=scores, labels=labels, kind="probs")
    if has_scores:
        return request
    core = _only_candidate(arrays, request)
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
    k = columns[scores].load().shape[-1]
    return (before,) if _are_classes(columns[before].values(), k) else ()


def _are_classes(array: Any, k: int) -> bool:
    """True for at most k distinct values: words, or whole numbers from 0 to k - 1."""
    values = np.unique(np.asarray(array[()]))
    if len(values) > k:
        return False
    if values.dtype.kind in "OU":
        return True
    return bool(values[0] >= 0 and values[-1] < k)


def _pairs(arrays: Arrays) -> dict[str, str]:
    """Paths {scores: labels} of several sets: ``a_scores a_targets b_scores …``.

    Empty for anything else.
    """
    labels = {}
    for name in arrays.names:
        if name.role == "labels":
            labels[name.folder, name.split, name.model] = name.path
    pairs: dict[str, str] = {}
    words = set()
    for name in arrays.names:
        if name.role or not arrays.is_float(name.path):
            continue
        if is_input(name.core):
            continue
        model, _, word = name.core.rpartition("_")
        label = labels.get((name.folder, name.split, model))
        if label is None or not may_be_scores(word):
            return {}
        pairs[name.path] = label
        words.add(word)
    are_complete = len(set(pairs.values())) == len(labels)
    return pairs if len(pairs) > 1 and len(words) == 1 and are_complete else {}


# ---- one column of probabilities beside one of two words


@dataclass(frozen=True)
class ScoreAndLabel:
    """Paths of one column of scores and of its labels."""

    scores: str
    labels: str


def _remark_two_words(pair: ScoreAndLabel, where: str) -> None:
    scores, labels = shlex.quote(pair.scores), shlex.quote(pair.labels)
    remark(
        f"{where}: {pair.scores!r} lies in [0, 1] and {pair.labels!r} has two words:"
        f" read as with --scores {scores} --labels {labels} --kind probs"
    )


def _score_beside_two_words(arrays: Arrays) -> ScoreAndLabel | None:
    """The one column of numbers in [0, 1], some below 1/2, and that of two words.

    None where it is unclear.
    """
    scores = []
    labels = []
    unnamed = []
    for name in arrays.names:
        values = _present_values(arrays.load(name.path))
        if values is None:
            continue
        distinct = np.unique(values)
        if _may_be_risks(name, distinct):
            scores.append((name, distinct))
        if name.role == "labels":
            labels.append((name, distinct))
        elif not name.role and len(distinct) == 2:
            unnamed.append((name, distinct))
    labels = labels or unnamed
    if len(scores) != 1 or len(labels) != 1:
        return None
    score, risks = scores[0]
    label, words = labels[0]
    if risks[0] >= 0.5 or says_correct(label.path):
        return None
    if words.dtype.kind != "U" or len(words) != 2:
        return None
    return ScoreAndLabel(score.path, label.path)


def _present_values(array: Any) -> AnyArray | None:
    """Values of a column of enough rows, without empty words; None for other arrays."""
    if array is None or array.ndim != 1 or len(array) < MOST_BY_CHANCE:
        return None
    values = np.asarray(array[()])
    if values.dtype.kind == "O":  # texts
        return None
    return values[values != ""] if values.dtype.kind == "U" else values


def _may_be_risks(name: Name, distinct: AnyArray) -> bool:
    """True for a column without another meaning whose numbers lie in [0, 1]."""
    is_free = not name.role or (name.role == "scores" and name.kind == "probs")
    if not is_free or is_input(name.core) or distinct.dtype.kind != "f":
        return False
    return bool(len(distinct) > 2 and distinct[0] >= 0 and distinct[-1] <= 1)


# ---- the only array that can be scores


def _only_candidate(arrays: Arrays, request: ImportRequest) -> str | None:
    """Name of the only array, in every split, that can be scores of unknown name.

    None where there is none or several.
    """
    generated = list(filter(is_generated, arrays.names))
    if generated:
        family = _family_of_scores(generated, arrays, request)
        if family is not None:
            return family
    wide = set()
    narrow = set()
    for name in arrays.names:
        if not _could_hold_scores(name, arrays):
            continue
        if generated and not may_be_scores(name.core):
            continue  # columns of a table: only a name tells scores from measurements
        if _has_classes(arrays.load(name.path)):
            wide.add(name.core)
        else:
            narrow.add(name.core)
    cores = set(filter(may_be_scores, wide or narrow)) or wide
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
    generated: Sequence[Name], arrays: Arrays, request: ImportRequest
) -> str | None:
    """The columns of a table that are its scores; None where it is unclear."""
    families = [name for name in arrays.names if _is_family(name, arrays)]
    complete = _cores_with("is_complete", generated, arrays)
    by_label = _cores_with("by_label", generated, arrays)
    some_columns = by_label - {LEFT_OVER}
    # 1. a name for scores
    named = {name.core for name in families if may_be_scores(name.core)}
    if len(named) == 1:
        return named.pop()
    # 2. names within the same text, some of which are words of a label
    if len(complete) == 1:
        return complete.pop()
    # 3. rows that sum to 1
    proven = _proven_families(families, arrays)
    if len(proven) == 1:
        return proven.pop()
    # 4. names that are the words of a label, if no other column may be a class
    left_over = [name for name in generated if name.core == LEFT_OVER]
    if len(some_columns) == 1 and _has_other_columns(left_over, arrays):
        return some_columns.pop()
    # 5. all that is left
    has_kind = bool(request.kind) or bool(by_label and not some_columns)
    return LEFT_OVER if left_over and has_kind else None


def _cores_with(attribute: str, names: Sequence[Name], arrays: Arrays) -> set[str]:
    """Names of the arrays that have an attribute."""
    return {name.core for name in names if arrays.has(name.path, attribute)}


def _is_family(name: Name, arrays: Arrays) -> bool:
    """True for columns that may be scores of classes."""
    if not arrays.columns[name.path].parts:
        return False
    array = arrays.load(name.path)
    return (
        array is not None and _has_classes(array) and _could_hold_scores(name, arrays)
    )


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


def _has_other_columns(left_over: Sequence[Name], arrays: Arrays) -> bool:
    """True if the left-over columns make no array, as some are no scores."""
    return any(arrays.load(name.path) is None for name in left_over)
