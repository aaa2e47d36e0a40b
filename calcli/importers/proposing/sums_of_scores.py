"""Whether columns that sum to 1 are scores of classes, or shares of something else.

Shares of ages, or of sand and clay, sum to 1 as probabilities do. What they
are is seen from the label, and from other columns, one of which may be the score.
"""

import numpy as np

from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import LEFT_OVER, Name
from calcli.importers.names.roles import may_be_scores


def are_surely_scores(by_sum: str, arrays: Arrays, request: ImportRequest) -> bool:
    """True for columns that a label of three or more classes follows, and no others.

    by_sum : path of the array of columns that sum to 1. Without other columns that may
    be scores they are the scores, too. One such column may be the score of two classes.
    """
    if not rivals_of(by_sum, arrays):
        return True
    for label in _labels_of(arrays, request):
        is_proven = arrays.is_proven_label(by_sum, label)
        if is_proven and len(arrays.words(label)) > 2:
            return not _has_other_scores(by_sum, label, arrays)
    return False


def rivals_of(by_sum: str, arrays: Arrays) -> list[str]:
    """Paths of the other columns that may be the score, P(class 1) or a margin."""
    members = arrays.columns[by_sum].parts
    rivals = []
    for name in arrays.names:
        if name.path not in members and _may_be_score(name, arrays):
            rivals.append(name.path)
    return rivals


def _may_be_score(name: Name, arrays: Arrays) -> bool:
    """True for real numbers without another meaning, or numbers named as scores."""
    if name.role not in ("", "scores") or not arrays.is_single(name.path):
        return False
    values = arrays.present(name.path)
    if values is None or values.dtype.kind not in "fiu":
        return False
    return may_be_scores(name.core) or bool((values != np.floor(values)).any())


def _labels_of(arrays: Arrays, request: ImportRequest) -> list[str]:
    """Paths of the labels; where none is named, of all that may be labels."""
    named = [label for label in request.labels if label in arrays.columns]
    if named or arrays.paths_of("labels"):
        return named or arrays.paths_of("labels")
    return [name.path for name in arrays.names if not name.role]


def _has_other_scores(by_sum: str, label: str, arrays: Arrays) -> bool:
    """True where the label follows other columns together, too."""
    members = arrays.columns[by_sum].parts.keys()
    for path, column in arrays.columns.items():
        is_other = column.parts and column.parts.keys().isdisjoint(members)
        if is_other and path != LEFT_OVER and arrays.is_proven_label(path, label):
            return True
    return False
