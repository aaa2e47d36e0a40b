"""Errors for sources whose numbers are no scores of classes: confidences, detections,
the k best of each row.
"""

import shlex
from collections.abc import Sequence
from typing import Any

from calcli.errors import CalcliError, DataError, NotToRead, UsageError
from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import BY_SUM, LEFT_OVER, Name
from calcli.importers.names.column_options import some_of
from calcli.importers.names.roles import have_box, says_correct
from calcli.importers.proposing.ranked_scores import (
    options_of_ranked,
    ranks_are_no_classes,
)
from calcli.importers.proposing.sums_of_scores import rivals_of


def refuse_lone_confidence(arrays: Arrays, request: ImportRequest, where: str) -> None:
    """Raise DataError for one column of scores beside correctness.

    It may be a confidence, not P(class 1).
    """
    is_named = request.scores or request.labels or request.kind
    if is_named or arrays.paths_of("labels"):
        return
    scores = arrays.paths_of("scores")
    outcomes = [name.path for name in arrays.names if says_correct(name.core)]
    if len(scores) != 1 or not outcomes:
        return
    if arrays.columns[scores[0]].values().ndim > 1:
        return
    raise DataError(
        f"{where}: {scores[0]!r} is one number a row beside {outcomes[0]!r}: how sure"
        " an answer is, and no scores of classes; --confidence NAME --correct NAME"
        " reads a probability"
    )


def refuse_detections(arrays: Arrays, request: ImportRequest, where: str) -> None:
    """Raise DataError for the result file of a detector: nothing in it is a truth."""
    if request.labels or any(says_correct(name.core) for name in arrays.names):
        return
    cores = {name.core.lower() for name in arrays.names}
    is_coco = {"image_id", "category_id", "score"} <= cores
    has_boxes = have_box(cores)
    has_score = not cores.isdisjoint(("score", "confidence", "conf"))
    if is_coco or (has_boxes and has_score):
        raise NotToRead(
            f"{where}: holds detections, whose category is predicted; match them with"
            " the ground truth, and add a column that says which are right"
        )


def refuse_outcomes_as_labels(request: ImportRequest, where: str) -> None:
    """Raise UsageError for one array of scores with labels named as correctness."""
    if not len(request.scores) == len(request.labels) == 1:
        return
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
        paths_by_place.setdefault(name.place, []).append(name.path)
    for together in paths_by_place.values():
        if len(together) > 1:
            listing = some_of(together)
            raise UsageError(
                f"{where}: holds {len(together)} arrays of scores side by side:"
                f" {listing}; choose one with --scores NAME;"
                " calcli extract takes several, or all with --scores '*'"
            )


def without_scores(arrays: Arrays, where: str) -> CalcliError:
    """Error about a source in which neither names nor values prove any scores."""
    if BY_SUM in arrays.columns and rivals_of(BY_SUM, arrays):
        return UsageError(
            f"{where}: {arrays.columns[BY_SUM].shown} sum to 1 in every row, but"
            f" {some_of(rivals_of(BY_SUM, arrays))} may be the score instead",
            advice="name the right ones with --scores, and what they hold with --kind"
            " logits|log_probs|probs",
        )
    if LEFT_OVER not in arrays.columns or arrays.load(LEFT_OVER) is None:
        return DataError(
            f"{where}: holds no array named logits, log_probs or probs",
            advice="name yours with --scores NAME --labels NAME --kind"
            " logits|log_probs|probs",
        )
    ranked = options_of_ranked(arrays)
    if ranked is not None:
        return ranks_are_no_classes(where, ranked)
    reason = arrays.kind(LEFT_OVER).reason
    return UsageError(
        f"{where}: which columns are the scores? of all numbers together, {reason}",
        advice="name them with --scores, and what they hold with --kind"
        " logits|log_probs|probs",
    )
