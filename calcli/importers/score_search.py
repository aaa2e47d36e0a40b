"""Which arrays of a source are its scores: by names, else by what values prove."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from calcli.errors import DataError, NotToRead, UsageError
from calcli.importers.column_options import some_of
from calcli.importers.contradictions import (
    FIRST_OF_RANKS,
    options_of_first_rank,
    ranks_are_no_classes,
)
from calcli.importers.evidence import blocks, kind_of_scores
from calcli.importers.import_request import ImportRequest
from calcli.importers.names import (
    LEFT_OVER,
    NUMBERED,
    Name,
    have_box,
    headers_path,
    is_generated,
    is_input,
    matching,
    may_be_scores,
    parse_name,
    says_correct,
)
from calcli.importers.ragged import Parts
from calcli.importers.remarks import remark
from calcli.importers.scores_stored_twice import without_repeated
from calcli.importers.table import Column, Columns
from calcli.io.provenance import carried
from calcli.io.validate import MOST_BY_CHANCE
from calcli.numerics import AnyArray


@dataclass(frozen=True)
class ScoreAndLabel:
    """Paths of one column of scores and of its labels."""

    scores: str
    labels: str


class Arrays:
    """The arrays of a source, each loaded once; None for those that cannot be read."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._loaded: dict[str, Any] = {}

    def load(self, path: str) -> Any:
        """The array, or None: without rows, a single value, or not readable."""
        if path not in self._loaded:
            self._loaded[path] = self._look(self.columns[path])
        return self._loaded[path]

    def _look(self, column: Column) -> Any:
        try:
            array = column.load()
        except DataError:
            return None
        if not hasattr(array, "dtype") or not array.ndim or not len(array):
            return None
        if isinstance(array, Parts) and array.ndim == 2 and array.dtype.kind == "f":
            return None  # lists of different lengths, of unknown meaning
        return array

    def classes(self, path: str) -> list[str] | None:
        """Names of the classes of an array of scores, made of the names of columns."""
        names = self.columns.get(headers_path(path))
        return None if names is None else names.values().tolist()


def refuse_lone_confidence(
    names: Sequence[Name], arrays: Arrays, request: ImportRequest, where: str
) -> None:
    """Raise DataError for one column of scores beside correctness.

    It may be a confidence, not P(class 1).
    """
    has_labels = any(name.role == "labels" for name in names)
    if request.scores or request.labels or request.kind or has_labels:
        return
    scores = [name.path for name in names if name.role == "scores"]
    outcomes = [name.path for name in names if says_correct(name.core)]
    if len(scores) != 1 or not outcomes:
        return
    if arrays.columns[scores[0]].values().ndim > 1:
        return
    raise DataError(
        f"{where}: {scores[0]!r} is one number a row beside {outcomes[0]!r}: how sure"
        " an answer is, and no scores of classes; --confidence NAME --correct NAME"
        " reads a probability"
    )


def refuse_detections(
    names: Sequence[Name], request: ImportRequest, where: str
) -> None:
    """Raise DataError for the result file of a detector: nothing in it is a truth."""
    if request.labels or any(says_correct(name.core) for name in names):
        return
    cores = {name.core.lower() for name in names}
    is_coco = {"image_id", "category_id", "score"} <= cores
    has_boxes = have_box(cores)
    has_score = not cores.isdisjoint(("score", "confidence", "conf"))
    if is_coco or (has_boxes and has_score):
        raise NotToRead(
            f"{where}: holds detections, whose category is predicted; match them with"
            " the ground truth, and add a column that says which are right"
        )


def with_obvious_names(
    names: Sequence[Name], arrays: Arrays, request: ImportRequest, where: str
) -> ImportRequest:
    """Fill in the names of scores and labels where only one reading is possible."""
    if request.scores:
        return request
    has_scores = any(name.role == "scores" for name in names)
    if has_scores and not request.labels:
        labels = _labels_of_apply(names, arrays.columns)
        request = replace(request, labels=labels)
    are_complete = has_scores and any(name.role == "labels" for name in names)
    if not request.labels and not are_complete:
        pairs = {} if has_scores else _pairs(names, arrays)
        if pairs:
            return replace(request, scores=tuple(pairs), labels=tuple(pairs.values()))
        if request.kind is None:
            pair = _score_beside_two_words(names, arrays)
            if pair is not None:
                _remark_two_words(pair, where)
                scores, labels = (pair.scores,), (pair.labels,)
                return replace(request, scores=scores, labels=labels, kind="probs")
    if has_scores:
        return request
    core = _only_candidate(names, arrays, request)
    return request if core is None else replace(request, scores=(core,))


def _remark_two_words(pair: ScoreAndLabel, where: str) -> None:
    scores, labels = shlex.quote(pair.scores), shlex.quote(pair.labels)
    remark(
        f"{where}: {pair.scores!r} lies in [0, 1] and {pair.labels!r} has two words:"
        f" read as with --scores {scores} --labels {labels} --kind probs"
    )


def _labels_of_apply(names: Sequence[Name], columns: Columns) -> tuple[str, ...]:
    """Name of the labels in a table written by ``apply``, if any.

    It is the column of classes before the predictions.
    """
    order = list(columns)
    roles = {name.role for name in names}
    place = order.index("prediction") if "prediction" in order else 0
    if not place or order[place + 1 : place + 2] != ["confidence"]:
        return ()
    before = order[place - 1]
    if "labels" in roles or parse_name(before).role:
        return ()
    scores = next(name.path for name in names if name.role == "scores")
    if "calibrated_by" not in roles and not carried(columns[scores].file, scores):
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


def _pairs(names: Sequence[Name], arrays: Arrays) -> dict[str, str]:
    """Paths {scores: labels} of several sets: ``a_scores a_targets b_scores …``.

    Empty for anything else.
    """
    labels = {}
    for name in names:
        if name.role == "labels":
            labels[name.folder, name.split, name.model] = name.path
    pairs: dict[str, str] = {}
    words = set()
    for name in names:
        if name.role or not _is_float(arrays.load(name.path)):
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


def _is_float(array: Any) -> bool:
    return array is not None and array.dtype.kind == "f"


def _score_beside_two_words(
    names: Sequence[Name], arrays: Arrays
) -> ScoreAndLabel | None:
    """The one column of numbers in [0, 1], some below 1/2, and that of two words.

    None where it is unclear.
    """
    columns = []
    for name in names:
        values = _present_values(arrays.load(name.path))
        if values is not None:
            columns.append((name, np.unique(values)))
    scores = []
    labels = []
    unnamed = []
    for name, distinct in columns:
        if _may_be_risks(name, distinct):
            scores.append((name, distinct))
        if name.role == "labels":
            labels.append((name, distinct))
        elif not name.role and len(distinct) == 2:
            unnamed.append((name, distinct))
    labels = labels or unnamed
    if len(scores) != 1 or len(labels) != 1 or scores[0][1][0] >= 0.5:
        return None
    label, words = labels[0]
    if words.dtype.kind != "U" or len(words) != 2 or says_correct(label.path):
        return None
    return ScoreAndLabel(scores[0][0].path, label.path)


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


def _only_candidate(
    names: Sequence[Name], arrays: Arrays, request: ImportRequest
) -> str | None:
    """Name of the only array, in every split, that can be scores of unknown name.

    None where there is none or several.
    """
    generated = [name for name in names if is_generated(name)]
    if generated:
        family = _family_of_scores(names, generated, arrays, request)
        if family is not None:
            return family
    wide = set()
    narrow = set()
    for name in names:
        if not _may_be_scores(name, arrays):
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


def _may_be_scores(name: Name, arrays: Arrays) -> bool:
    """True for real numbers without another meaning, columns of counts left out."""
    array = arrays.load(name.path)
    if name.role or not _is_float(array):
        return False
    parts = arrays.columns[name.path].parts.values()
    if parts and all(part.load().dtype.kind in "iu" for part in parts):
        return False
    is_file_name = name.path == arrays.columns[name.path].file.stem
    return is_file_name or not is_input(name.core)


def _family_of_scores(
    names: Sequence[Name],
    generated: Sequence[Name],
    arrays: Arrays,
    request: ImportRequest,
) -> str | None:
    """The columns of a table that are its scores; None where it is unclear."""
    families = [name for name in names if _is_family(name, arrays)]
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
    return {name.core for name in names if _attribute(arrays, name, attribute)}


def _attribute(arrays: Arrays, name: Name, attribute: str) -> bool:
    return bool(arrays.columns[name.path].attributes.get(attribute))


def _is_family(name: Name, arrays: Arrays) -> bool:
    """True for columns that may be scores of classes."""
    if not arrays.columns[name.path].parts:
        return False
    array = arrays.load(name.path)
    return array is not None and _has_classes(array) and _may_be_scores(name, arrays)


def _proven_families(names: Sequence[Name], arrays: Arrays) -> set[str]:
    """Names of columns whose rows are probabilities; one for the same columns."""
    by_members: dict[frozenset[str], str] = {}
    for name in names:
        kind = kind_of_scores(arrays.load(name.path)).kind
        if kind in ("probs", "log_probs"):
            members = frozenset(arrays.columns[name.path].parts)
            by_members.setdefault(members, name.core)
    return set(by_members.values())


def _has_other_columns(left_over: Sequence[Name], arrays: Arrays) -> bool:
    """True if the left-over columns hold more than scores, which are refused."""
    return any(arrays.load(name.path) is None for name in left_over)


def score_names(
    names: Sequence[Name], arrays: Arrays, request: ImportRequest, where: str
) -> list[Name]:
    """The arrays of scores: those named by the user, or those whose names say so."""
    if len(request.scores) == len(request.labels) == 1:
        _refuse_outcomes_as_labels(request, where)
    if request.scores:
        named = []
        for wanted in request.scores:
            named += matching(names, wanted, "scores array")
        return named
    scores = [name for name in names if name.role == "scores"]
    if scores:
        family = _family_of_columns(scores, names, arrays)
        if family is not None:
            return [family]
        scores = _without_largest(scores, arrays, where)
        scores = without_repeated(scores, arrays.load, where)
        return [_with_named_columns(name, names, arrays) for name in scores]
    if LEFT_OVER in arrays.columns and arrays.load(LEFT_OVER) is not None:
        _refuse_k_best(names, arrays, where)
        raise _unclear_columns(arrays, where)
    raise DataError(
        f"{where}: holds no array named logits, log_probs or probs",
        advice="name yours with --scores NAME --labels NAME --kind"
        " logits|log_probs|probs",
    )


def _without_largest(scores: Sequence[Name], arrays: Arrays, where: str) -> list[Name]:
    """The scores without columns of the largest of every row of another array."""
    kept = []
    for name in scores:
        matrix = _matrix_of_largest(name, scores, arrays)
        if matrix is None:
            kept.append(name)
        else:
            remark(
                f"{where}: {name.path!r} is the largest of each row of {matrix.path!r}"
            )
    return kept


def _matrix_of_largest(
    name: Name, scores: Sequence[Name], arrays: Arrays
) -> Name | None:
    """The array whose largest score of every row is the number of a column."""
    column = arrays.load(name.path)
    if column is None or column.ndim != 1 or column.dtype.kind != "f":
        return None
    for other in scores:
        if (other.folder, other.split) != (name.folder, name.split):
            continue
        matrix = arrays.load(other.path)
        if matrix is None or matrix.ndim != 2 or matrix.dtype.kind != "f":
            continue
        if len(matrix) == len(column) and _are_largest(column, matrix):
            return other
    return None


def _are_largest(column: Any, matrix: Any) -> bool:
    """True if every number is the largest of its row, block by block."""
    start = 0
    for block in blocks(matrix):
        numbers = np.asarray(column[start : start + len(block)])
        if not np.allclose(block.max(axis=1), numbers):
            return False
        start += len(block)
    return True


def _family_of_columns(
    scores: Sequence[Name], names: Sequence[Name], arrays: Arrays
) -> Name | None:
    """The array of these columns, if they are one for each word of a label.

    ``cat_probability, dog_probability``, each of which could be an array of its own.
    """
    paths = {name.path for name in scores}
    kinds = {name.kind for name in scores}
    if len(kinds) > 1:
        return None
    for name in names:
        if not is_generated(name) or not _attribute(arrays, name, "is_complete"):
            continue
        if arrays.columns[name.path].parts.keys() == paths:
            return replace(name, role="scores", kind=kinds.pop())
    return None


def _with_named_columns(score: Name, names: Sequence[Name], arrays: Arrays) -> Name:
    """The columns, named like the classes, that hold the same scores; else these."""
    array = arrays.load(score.path)
    if arrays.columns[score.path].parts or not _is_float(array):
        return score
    for name in names:
        if not is_generated(name) or not _attribute(arrays, name, "is_complete"):
            continue
        other = arrays.load(name.path)
        if other.shape == array.shape and np.allclose(other, array):
            return replace(name, role="scores", kind=score.kind)
    return score


def _refuse_k_best(names: Sequence[Name], arrays: Arrays, where: str) -> None:
    """Raise DataError for scores of the k best alone beside their names: ``top1, p1``.

    Those of the others are missing, so that rows do not sum to 1.
    """
    paths = list(arrays.columns)
    labels = [name.path for name in names if name.role == "labels"]
    families: dict[str, list[str]] = {}
    for path in arrays.columns[LEFT_OVER].parts:
        match = NUMBERED.fullmatch(path)
        if match is not None:
            families.setdefault(match["stem"], []).append(path)
    for ranks in families.values():
        columns = [arrays.load(path) for path in ranks]
        if len(ranks) < 2 or any(column is None for column in columns):
            continue
        first_rank = options_of_first_rank(
            ranks, paths, labels[0] if labels else "TRUTH"
        )
        is_sorted = all(
            bool((left >= right).all()) for left, right in pairwise(columns)
        )
        if is_sorted and first_rank != FIRST_OF_RANKS:
            raise ranks_are_no_classes(where, first_rank)


def _unclear_columns(arrays: Arrays, where: str) -> UsageError:
    """Error about columns that may be scores, or anything else."""
    reason = kind_of_scores(arrays.load(LEFT_OVER)).reason
    return UsageError(
        f"{where}: which columns are the scores? of all numbers together, {reason}",
        advice="name them with --scores, and what they hold with --kind"
        " logits|log_probs|probs",
    )


def _refuse_outcomes_as_labels(request: ImportRequest, where: str) -> None:
    label = request.labels[0]
    if not says_correct(label.rpartition("/")[2]):
        return
    scores, labels = shlex.quote(request.scores[0]), shlex.quote(label)
    raise UsageError(
        f"{where}: {labels} says whether answers are right and is no class: did you"
        f" mean --confidence {scores} --correct {labels}?"
    )


def refuse_side_by_side(scores: Sequence[Name], where: str) -> None:
    """Raise UsageError for several arrays of scores of the same rows."""
    paths_by_place: dict[Any, list[str]] = {}
    for name in scores:
        paths_by_place.setdefault((name.folder, name.split), []).append(name.path)
    for together in paths_by_place.values():
        if len(together) > 1:
            listing = some_of(together)
            raise UsageError(
                f"{where}: holds {len(together)} arrays of scores side by side:"
                f" {listing}; choose one with --scores NAME; calcli extract takes several,"
                " or all with --scores '*'"
            )
