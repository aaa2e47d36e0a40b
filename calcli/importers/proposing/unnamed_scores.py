"""Scores and labels that no name tells, where only one reading is possible."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import (
    BY_CALIBRATOR,
    BY_SUM,
    LEFT_OVER,
    Name,
    is_generated,
    of_role,
    parse_name,
)
from calcli.importers.names.roles import is_input, may_be_scores, says_correct
from calcli.importers.proposing.sums_of_scores import are_surely_scores
from calcli.importers.remarks import remark
from calcli.importers.table import Column
from calcli.io.provenance import carried
from calcli.io.validate import MOST_BY_CHANCE


def with_unnamed_scores(
    arrays: Arrays, request: ImportRequest, where: str
) -> ImportRequest:
    """Fill in the names of scores and labels where only one reading is possible."""
    if request.scores:
        return request
    if arrays.paths_of("scores"):
        return _with_labels_of_scores(arrays, request, where)
    free = []
    for name in arrays.names:
        if _could_hold_scores(name, arrays):
            free.append(name)
    if not request.labels:
        pairs = _pairs(free, arrays)
        if pairs is not None:
            return replace(request, scores=tuple(pairs), labels=tuple(pairs.values()))
        if request.kind is None:
            pair = _risk_and_outcome(arrays)
            if pair is not None:
                return _with_risk(request, pair, where)
    core = _only_candidate(free, arrays, request)
    if core is None:
        return request
    return replace(request, scores=(core,))


def _with_labels_of_scores(
    arrays: Arrays, request: ImportRequest, where: str
) -> ImportRequest:
    """The same where names tell the scores."""
    if not request.labels:
        request = replace(request, labels=_labels_of_apply(arrays))
    has_labels = bool(request.labels or arrays.paths_of("labels"))
    has_classes = any(map(arrays.is_wide, arrays.paths_of("scores")))
    if request.kind is None and not has_labels and not has_classes:
        pair = _risk_and_outcome(arrays)
        if pair is not None:
            return _with_risk(request, pair, where)
    return request


# ---- a table that ``apply`` wrote, and several models with labels of their own


def _labels_of_apply(arrays: Arrays) -> tuple[str, ...]:
    """Name of the labels in a table written by ``apply``, if any.

    It is the column of classes before the predictions.
    """
    columns = arrays.columns
    order = list(columns)
    if "prediction" not in order:
        return ()
    place = order.index("prediction")
    if place == 0 or order[place + 1 : place + 2] != ["confidence"]:
        return ()
    before = order[place - 1]
    if arrays.paths_of("labels") or parse_name(before).role:
        return ()
    scores = arrays.paths_of("scores")[0]
    is_marked = arrays.paths_of("calibrated_by")
    if not is_marked and not carried(columns[scores].file, scores):
        return ()
    n_classes = columns[scores].load().shape[-1]
    if len(arrays.words(before)) > n_classes:
        return ()
    return (before,)


def _pairs(free: Sequence[Name], arrays: Arrays) -> dict[str, str] | None:
    """Paths {scores: labels} of several models: ``a_scores a_targets b_scores …``.

    None for anything else. free : all that could be scores.
    """
    labels = {}
    for name in of_role(arrays.names, "labels"):
        labels[name.folder, name.split, name.model] = name.path
    pairs: dict[str, str] = {}
    for name in free:
        model, _, word = name.core.rpartition("_")
        label = labels.get((name.folder, name.split, model))
        if label is None or not may_be_scores(word):
            return None
        pairs[name.path] = label
    are_all_paired = set(pairs.values()) == set(labels.values())
    if len(labels) < 2 or len(pairs) != len(labels) or not are_all_paired:
        return None
    return pairs


# ---- one column of probabilities beside one of two words


def _with_risk(
    request: ImportRequest, pair: tuple[str, str], where: str
) -> ImportRequest:
    """The request for a column of probabilities and one of outcomes, with a remark."""
    scores, labels = pair
    remark(
        f"{where}: {scores!r} lies in [0, 1] and {labels!r} has two words: read as with"
        f" --scores {shlex.quote(scores)} --labels {shlex.quote(labels)} --kind probs"
    )
    return replace(request, scores=(scores,), labels=(labels,), kind="probs")


def _risk_and_outcome(arrays: Arrays) -> tuple[str, str] | None:
    """The one column of numbers in [0, 1], some below 1/2, and that of two words.

    None where it is unclear.
    """
    columns = []
    risks = []
    for name in arrays.names:
        if _is_column(arrays.load(name.path)):
            columns.append(name)
            if _may_be_risk(name, arrays):
                risks.append(name.path)
    outcomes = _outcomes(columns, arrays)
    if len(risks) != 1 or len(outcomes) != 1:
        return None
    risk, outcome = risks[0], outcomes[0]
    is_confidence = arrays.words(risk)[0] >= 0.5
    if is_confidence or not _are_two_words(outcome, arrays):
        return None
    if _name_columns(outcome, arrays):
        return None
    is_named = arrays.name_of(outcome).role == "labels"
    if not is_named and not arrays.may_follow(risk, outcome):
        return None
    return risk, outcome


def _are_two_words(path: str, arrays: Arrays) -> bool:
    """True for a column of two words, unless it says which answers are right."""
    words = arrays.words(path)
    return len(words) == 2 and isinstance(words[0], str) and not says_correct(path)


def _name_columns(label: str, arrays: Arrays) -> bool:
    """True for words that name other columns: the scores of these classes."""
    return any(arrays.naming_label(path) == label for path in arrays.columns)


def _outcomes(columns: Sequence[Name], arrays: Arrays) -> list[str]:
    """Paths of the columns that are named as labels, else of those of two values."""
    labels = []
    of_two_values = []
    for name in columns:
        if name.role == "labels":
            labels.append(name.path)
        elif not name.role and len(arrays.words(name.path)) == 2:
            of_two_values.append(name.path)
    return labels or of_two_values


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
        free = _named_as_scores(free)
    wide = []
    for name in free:
        if _has_classes(arrays.load(name.path)):
            wide.append(name)
    return _only_core(_named_as_scores(wide or free) or wide)


def _named_as_scores(names: Sequence[Name]) -> list[Name]:
    """The arrays that are named as scores of any kind."""
    return [name for name in names if may_be_scores(name.core)]


def _only_core(names: Sequence[Name]) -> str | None:
    """Name, without folder and split, that all of these share; None for several."""
    cores = {name.core for name in names}
    return cores.pop() if len(cores) == 1 else None


def _has_classes(array: Any) -> bool:
    return array.ndim > 1 and array.shape[-1] > 0


def _could_hold_scores(name: Name, arrays: Arrays) -> bool:
    """True for real numbers without another meaning, columns of counts left out."""
    if name.role or not arrays.is_float(name.path):
        return False
    column = arrays.columns[name.path]
    if column.parts and _are_counts(column.parts.values()):
        return False
    return name.path == column.file.stem or not is_input(name.core)


def _are_counts(columns: Iterable[Column]) -> bool:
    """True for columns of whole numbers only."""
    return all(column.load().dtype.kind in "iu" for column in columns)


def _family_of_scores(
    free: Sequence[Name], arrays: Arrays, request: ImportRequest
) -> str | None:
    """The columns of a table that are its scores; None where it is unclear.

    The first that stand alone of: columns with a name for scores; those around the
    words of a label; those named by the classes of a calibrator whose rows are
    probabilities; others of such rows; those named by a label, where no other column
    can be a class; all that are left.
    """
    families = []
    for name in free:
        if arrays.columns[name.path].parts and _has_classes(arrays.load(name.path)):
            families.append(name)
    by_calibrator = _named_by_calibrator(arrays)
    if len(by_calibrator) > 1:  # which were those of the fit?
        return None
    candidates = [
        _named_as_scores(families),
        arrays.named_by_labels(are_complete=True),
        _proven_families(by_calibrator, arrays, request),
        _proven_families(families, arrays, request),
        *_unproven_families(families, by_calibrator, arrays, request),
    ]
    for names in candidates:
        core = _only_core(names)
        if core is not None:
            return core
    return None


def _unproven_families(
    families: Sequence[Name],
    by_calibrator: Sequence[Name],
    arrays: Arrays,
    request: ImportRequest,
) -> list[list[Name]]:
    """Columns named by a label, and all that are left, where these may be scores."""
    if LEFT_OVER not in arrays.columns:
        return []
    left_over = arrays.name_of(LEFT_OVER)
    named_by_label = arrays.named_by_labels()
    has_others = not set(families) <= {left_over, *by_calibrator}
    if by_calibrator and has_others:  # which are the scores, where none is proven?
        named_by_label = []
    candidates = []
    if arrays.load(LEFT_OVER) is None:
        candidates.append([name for name in named_by_label if name.core != LEFT_OVER])
    if request.kind or _only_core(named_by_label) == LEFT_OVER:
        candidates.append([left_over])
    return candidates


def _named_by_calibrator(arrays: Arrays) -> list[Name]:
    """Arrays of the columns that are named by the classes of a calibrator."""
    names = []
    for name in arrays.names:
        if arrays.naming_label(name.path) == BY_CALIBRATOR:
            names.append(name)
    return names


def _proven_families(
    names: Sequence[Name], arrays: Arrays, request: ImportRequest
) -> list[Name]:
    """Arrays of columns whose rows are probabilities; one for the same columns.

    Of these the one whose classes a label names, if any. Columns that only their sum
    brings together may be shares of something else.
    """
    by_members: dict[frozenset[str], Name] = {}
    for name in names:
        is_by_sum = name.path == BY_SUM
        if is_by_sum and not are_surely_scores(name.path, arrays, request):
            continue
        if arrays.kind(name.path).kind not in ("probs", "log_probs"):
            continue
        members = frozenset(arrays.columns[name.path].parts)
        if members not in by_members or arrays.naming_label(name.path):
            by_members[members] = name
    return list(by_members.values())
