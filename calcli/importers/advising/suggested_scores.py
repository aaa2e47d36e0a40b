"""Guesses at the scores of a source, where neither names nor values prove them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from calcli.importers.advising.column_looks import UnclearSource
from calcli.importers.advising.suggested_labels import labels_beside
from calcli.importers.evidence.kinds import kind_of_scores
from calcli.importers.evidence.looks import KIND_OF_LOOK, without_empty
from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.names.array_names import (
    BY_CALIBRATOR,
    BY_SUM,
    LEFT_OVER,
    outcomes_by_score,
)
from calcli.importers.names.column_options import option_for
from calcli.importers.names.opposites import OPPOSITES, opposite_words
from calcli.importers.names.roles import may_be_scores, says_correct, sounds_sure
from calcli.importers.proposing.named_scores import scores_by_name
from calcli.importers.proposing.sums_of_scores import rivals_of


@dataclass(frozen=True)
class SuggestedScores:
    """Likely scores, their kind, and the labels by which they were found, if any.

    paths : of arrays, or columns as an option lists them; several where it is unclear.
    """

    paths: Sequence[str]
    kind: str | None = None
    labels: Sequence[str] = ()
    are_percentages: bool = False


def suggest_scores(source: UnclearSource) -> SuggestedScores:
    """The likeliest scores of a source; no paths where nothing looks like any.

    A column with an outcome of its own (``risk``, ``risk_outcome``); else columns that
    are named by the words of a label; else columns that sum to 1, or the one beside
    them that is named as a score; else the arrays of the likeliest look, or instead
    of several the columns that are scores together.
    """
    pairs = outcomes_by_score(source.looks.paths)
    if pairs and not source.request.labels:
        scores, labels = next(iter(pairs.items()))
        return SuggestedScores([scores], labels=[labels])
    by_label = _columns_named_by_labels(source)
    if by_label is not None:
        return by_label
    if BY_SUM in source.arrays.columns:
        return _beside_columns_by_sum(source)
    likeliest = _of_likeliest_look(source)
    option = _option_of_opposites(likeliest.paths, source.arrays)
    if option is not None:
        return replace(likeliest, paths=[option])
    if len(likeliest.paths) == 1:
        return likeliest
    return _columns_together(likeliest.paths, source.arrays) or likeliest


# ---- columns that are named by the words of a label


def _columns_named_by_labels(source: UnclearSource) -> SuggestedScores | None:
    """Columns that are named by the words of a label, with it; None without any."""
    looks = source.looks
    for score in source.arrays.named_by_labels():
        if "/" in score.path:  # of one of several models, with a name of its own
            continue
        column = source.arrays.columns[score.path]
        label = source.arrays.naming_label(score.path) or ""
        if label == BY_CALIBRATOR:
            looks.take_for("scores", list(column.parts))
            return _together(list(column.parts), source.arrays)
        labels = list(source.request.labels) or labels_beside(score.path, source)
        if source.arrays.is_always_largest(score.path, label):
            looks.take_for("predictions", [label])
        elif not labels and looks.at(label) in ("groups", "labels"):
            labels = [label]
        if labels:
            members = list(column.parts)
            suggested = replace(_together(members, source.arrays), labels=labels)
            looks_of_members = set(map(looks.at, members))
            if suggested.kind is None and looks_of_members == {"probabilities"}:
                suggested = replace(suggested, kind="probs")  # of separate answers
            looks.take_for("scores", members)
            looks.take_for("labels", labels)
            return suggested
    return None


# ---- columns that sum to 1


def _beside_columns_by_sum(source: UnclearSource) -> SuggestedScores:
    """The one column beside them that is named as a score; else these columns."""
    named = []
    for path in rivals_of(BY_SUM, source.arrays):
        if may_be_scores(source.arrays.name_of(path).core):
            named.append(path)
    if len(named) == 1:
        return SuggestedScores(named, KIND_OF_LOOK.get(source.looks.at(named[0])))
    return _together(list(source.arrays.columns[BY_SUM].parts), source.arrays)


# ---- arrays that look like scores


def _of_likeliest_look(source: UnclearSource) -> SuggestedScores:
    """All arrays of the likeliest look of scores, or those named as confidences.

    Where names prove some arrays of scores, these alone are candidates.
    """
    proven = _proven_arrays(source)
    for look, kind in KIND_OF_LOOK.items():
        paths = source.looks.of_look(look)
        if proven:
            paths = [path for path in paths if path in proven]
        paths = _of_one_shape(paths, source)
        if paths:
            named_sure = list(filter(sounds_sure, paths))
            return SuggestedScores(named_sure or paths, kind)
    return SuggestedScores([])


def _proven_arrays(source: UnclearSource) -> list[str]:
    """Arrays of several columns that names prove and that look like scores."""
    proven = []
    for name in scores_by_name(source.arrays, source.request, source.where):
        has_look = source.looks.at(name.path) in KIND_OF_LOOK
        if has_look and source.arrays.is_wide(name.path):
            proven.append(name.path)
    return proven


def _of_one_shape(paths: Sequence[str], source: UnclearSource) -> list[str]:
    """Arrays with several numbers a row, else those with one.

    The other way round where a column says which answers are right.
    """
    wide = list(filter(source.arrays.is_wide, paths))
    single = [path for path in paths if path not in wide]
    if any(map(says_correct, source.looks.paths)):
        return single or wide
    return wide or single


# ---- columns that are scores together


def _option_of_opposites(paths: Sequence[str], arrays: Arrays) -> str | None:
    """Two columns that differ in opposite words, ``score_no, score_yes``, in order.

    As an option lists them; None for any others.
    """
    if len(paths) != 2 or any(map(arrays.is_wide, paths)):
        return None
    words = opposite_words(paths)
    if words is None:
        return None
    members = paths if words in OPPOSITES else paths[::-1]
    return _option(members, arrays)


def _columns_together(likely: Sequence[str], arrays: Arrays) -> SuggestedScores | None:
    """Several columns whose rows sum to 1, or all of one prefix; None without any."""
    if LEFT_OVER not in arrays.columns:
        return None
    if len(likely) > 1:
        suggested = _together(likely, arrays)
        if suggested.kind == "probs":
            return suggested
    left_over = list(arrays.columns[LEFT_OVER].parts)
    if len(left_over) > 1:
        suggested = _together(left_over, arrays)
        has_one_prefix = len({name.partition("_")[0] for name in left_over}) == 1
        if suggested.kind == "probs" or (suggested.kind and has_one_prefix):
            return suggested
    return None


def _together(members: Sequence[str], arrays: Arrays) -> SuggestedScores:
    """Columns as scores, of the kind that all together prove, if any."""
    option = _option(members, arrays)
    stacked = arrays.stacked(members)
    scores = None if stacked is None else without_empty(stacked)
    if scores is None or not len(scores):
        return SuggestedScores([option])
    proof = kind_of_scores(scores)
    if proof.are_percentages:
        return SuggestedScores([option], "probs", are_percentages=True)
    return SuggestedScores([option], proof.kind)


def _option(members: Sequence[str], arrays: Arrays) -> str:
    """Columns as an option lists them, as a range where they are one."""
    if set(members) <= arrays.columns.keys():
        return option_for(list(arrays.columns), members)
    return ",".join(members)
