"""Guesses at the labels of likely scores, where neither names nor values prove them."""

from collections.abc import Sequence
from dataclasses import dataclass

from calcli.importers.advising.column_looks import UnclearSource
from calcli.importers.names.array_names import headers_path, parse_name
from calcli.importers.names.roles import is_answer, is_bare_answer, is_prediction
from calcli.importers.proposing.label_search import LabelSearch


@dataclass(frozen=True)
class SuggestedLabels:
    """Paths of likely labels; several where it is unclear.

    has_unrelated : some column could be the labels but for its values, which do not
    follow the scores.
    """

    paths: Sequence[str]
    has_unrelated: bool = False


def suggest_labels(scores: Sequence[str], source: UnclearSource) -> SuggestedLabels:
    """The likeliest labels of scores: arrays, or columns as an option lists them.

    Those that are named so, else right answers; else columns that look like labels, or
    whose values fit the classes, unless their values have nothing to do with the scores.
    """
    named = _named_labels(scores, source) or _named_answers(scores, source)
    if named:
        return SuggestedLabels(named)
    of_look = source.looks.of_look("labels")
    related = _that_may_follow(of_look, scores, source)
    if related:
        return SuggestedLabels(related, len(related) < len(of_look))
    fitting = _that_fit_classes(scores, source)
    related = _that_may_follow(fitting, scores, source)
    has_unrelated = bool(of_look) or len(related) < len(fitting)
    return SuggestedLabels(related, has_unrelated)


def labels_beside(path: str, source: UnclearSource) -> list[str]:
    """Labels of one array of scores, that names or else values prove."""
    score = source.arrays.name_of(path)
    search = LabelSearch(source.arrays, score, [score], source.request, source.where)
    named = []
    for name in search.by_name():
        if name.path in source.looks.paths:
            named.append(name.path)
    if named or source.arrays.is_single(path):
        return named
    label = search.proven()
    return [] if label is None else [label.path]


def tell_labels_from_predictions(scores: Sequence[str], source: UnclearSource) -> None:
    """Tell them apart among words that are the classes of one array of scores."""
    arrays = source.arrays
    if len(scores) != 1 or headers_path(scores[0]) not in arrays.columns:
        return
    for path in source.looks.of_look("groups"):
        if arrays.agreement(scores[0], path) is None:
            continue
        if is_prediction(path) or arrays.is_always_largest(scores[0], path):
            source.looks.take_for("predictions", [path])
        else:
            source.looks.take_for("labels", [path])
    for path in (*source.looks.of_look("labels"), *source.looks.of_look("classes")):
        if _is_named_label(path):
            continue
        if arrays.is_proven_prediction(scores[0], path):
            source.looks.take_for("predictions", [path])


def _named_labels(scores: Sequence[str], source: UnclearSource) -> list[str]:
    """Columns that are named as labels; of one array also those of proven values."""
    if len(scores) == 1 and scores[0] in source.arrays.columns:
        return labels_beside(scores[0], source)
    return [path for path in source.looks.paths if _is_named_label(path)]


def _is_named_label(path: str) -> bool:
    return parse_name(path).role == "labels"


def _named_answers(scores: Sequence[str], source: UnclearSource) -> list[str]:
    """Columns of right answers, by their names, beside one score a row."""
    if not source.is_single(scores):
        return []
    named = [path for path in source.looks.paths if is_answer(parse_name(path).core)]
    # beside a key of the right answers, a column "answer" holds those of the model
    keys = [path for path in named if not is_bare_answer(path)]
    return keys or named


def _that_may_follow(
    paths: Sequence[str], scores: Sequence[str], source: UnclearSource
) -> list[str]:
    """The columns but those whose values have nothing to do with the scores."""
    kept = []
    for path in paths:
        is_unclear = _is_named_label(path) or len(scores) != 1
        if is_unclear or source.arrays.may_follow(scores[0], path):
            kept.append(path)
        else:
            source.looks.take_for("", [path])
    return kept


def _that_fit_classes(scores: Sequence[str], source: UnclearSource) -> list[str]:
    """Columns whose values fit the k classes of the scores.

    The only column of at most k words, unless exactly one has whole numbers below k;
    else all of these numbers.
    """
    k = _n_classes(scores, source)
    numbered = []
    for path in source.looks.of_look("classes"):
        values = source.arrays.present(path)
        if values is not None and values.max() < k:
            numbered.append(path)
    of_words = []
    for path in source.looks.of_look("groups"):
        if len(source.arrays.words(path)) <= k:
            of_words.append(path)
    return of_words if len(of_words) == 1 != len(numbered) else numbered


def _n_classes(scores: Sequence[str], source: UnclearSource) -> int:
    if not scores or source.is_single(scores):
        return 2
    if scores[0] in source.arrays.columns:
        values = source.arrays.values(scores[0])
        return 2 if values is None else values.shape[-1]
    return len(source.arrays.listed(scores[0]))
