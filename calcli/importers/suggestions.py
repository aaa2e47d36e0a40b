"""Guesses at the scores, kind and labels of a source, where neither names nor values
prove them.

Nothing of it is read unasked: ``advice`` spells it as a command that can be typed.
"""

import re
from collections.abc import Sequence
from itertools import chain

import numpy as np

from calcli.importers.array_names import (
    LEFT_OVER,
    Name,
    headers_path,
    is_generated,
    parse_name,
    real_names,
)
from calcli.importers.column_options import listed_columns, option_for
from calcli.importers.evidence import PERCENTAGES, kind_of_scores
from calcli.importers.import_request import ImportRequest
from calcli.importers.label_search import LabelSearch
from calcli.importers.looks import KIND_OF_LOOK, Look, without_empty
from calcli.importers.names import (
    is_answer,
    is_bare_answer,
    is_prediction,
    says_correct,
    sounds_sure,
)
from calcli.importers.score_search import proven_scores
from calcli.importers.source_arrays import Arrays
from calcli.importers.table import Columns
from calcli.io.locate import columns_in

MOST_COLUMNS = 40
"""Columns that are looked at."""

MOST_LISTED = 8
"""Columns that a message lists; ``calcli inspect`` lists all."""


def _are_intersections(path: str, columns: Columns) -> bool:
    """True for the array that --group-by has made of several other columns."""
    if columns[path].attributes.get("is_generated"):  # an array of scores
        return False
    parts = columns_in(columns[path].shown)
    return len(parts) > 1 and all(part in columns for part in parts)


class Suggestions:
    """The likeliest scores, kind and labels.

    looks : by path, of the arrays that look like anything. scores, labels : paths, or
    columns as an option lists them; several where it is unclear. words_of : distinct
    values of the columns that may be labels.
    """

    def __init__(self, arrays: Arrays, request: ImportRequest, where: str) -> None:
        self.arrays = arrays
        self.where = where
        self.columns = arrays.columns
        self.request = request
        self.paths = self._columns_to_look_at()
        self.looks: dict[str, Look] = {}
        for path in self.paths:
            look = arrays.look(path)
            if look:
                self.looks[path] = look
        self._mark_classes_of_matrix()
        self.scores = list(request.scores)
        self.labels = list(request.labels)
        self.kind = request.kind
        self._has_percent_columns = False
        self._find_scores()
        self._find_labels()
        self.words_of: dict[str, list[object]] = {}
        self._find_words()
        if not self.labels:
            self.labels = self._labels_by_values()
        if len(self.labels) == 1 and self.labels[0] in self.paths:
            self.looks[self.labels[0]] = "labels"

    def _columns_to_look_at(self) -> list[str]:
        paths = []
        for path in real_names(self.arrays.names):
            if "/" not in path and not _are_intersections(path, self.columns):
                paths.append(path)
        return paths[:MOST_COLUMNS]

    @property
    def are_percentages(self) -> bool:
        return self._has_percent_columns or self.look_of_scores == "percentages"

    @property
    def look_of_scores(self) -> Look:
        """Look of the one column of scores; "" for several."""
        return self.looks.get(self.scores[0], "") if self.is_single else ""

    @property
    def is_single(self) -> bool:
        """True for one score a row."""
        if len(self.scores) != 1 or self.scores[0] not in self.columns:
            return False
        values = self.arrays.values(self.scores[0])
        return values is not None and values.ndim == 1

    def listing(self) -> str:
        """The first arrays, what each looks like, and how many more there are."""
        shown = []
        for path in self.paths:
            name = self.columns[path].shown
            look = self.looks.get(path)
            shown.append(f"{name} ({look}?)" if look else name)
        left = len(shown) - MOST_LISTED
        if left > 0:
            shown = [*shown[:MOST_LISTED], f"{left} more"]
        return ", ".join(shown) or "nothing"

    def of_look(self, look: Look) -> list[str]:
        """Columns of this look that are no parts of an array."""
        parts = set(chain(*(self.columns[path].parts for path in self.paths)))
        for path in self.paths:
            number = re.compile(re.escape(path) + r"[_.]?\d+")
            parts.update(filter(number.fullmatch, self.paths))
        paths = []
        for path, other in self.looks.items():
            if other == look and path not in parts:
                paths.append(path)
        return paths

    def n_rows(self, path: str) -> int | None:
        """Rows of a column, None if unknown."""
        values = self.arrays.values(path) if path in self.columns else None
        return None if values is None else len(values)

    # ---- the scores

    def _mark_classes_of_matrix(self) -> None:
        """Tell labels from predictions among words that are classes."""
        wide = list(self.request.scores)
        if not wide:
            wide = [path for path in self.looks if headers_path(path) in self.columns]
        if len(wide) != 1 or headers_path(wide[0]) not in self.columns:
            return
        for path, look in list(self.looks.items()):
            if look != "groups":
                continue
            matches_largest = self.arrays.agreement(wide[0], path)
            if matches_largest is None:
                continue
            is_predicted = is_prediction(path) or matches_largest.share == 1
            self.looks[path] = "predictions" if is_predicted else "labels"

    def _find_scores(self) -> None:
        if not self.scores and not self.labels:
            self._take_first_pair()
        if self.scores:
            self._take_kind_of_look()
            return
        self._take_columns_named_by_labels()
        if not self.scores:
            self._take_likeliest_look()
        if len(self.scores) != 1:
            self._take_left_over()
        self._take_kind_of_look()

    def _take_kind_of_look(self) -> None:
        if self.scores and not self.kind:
            self.kind = KIND_OF_LOOK.get(self.looks.get(self.scores[0], ""))

    def _take_first_pair(self) -> None:
        """The first column of scores that has an outcome of its own."""
        for path in self.paths:
            scores = self.columns[path].attributes.get("labels_of")
            if scores is not None:
                self.scores, self.labels = [scores], [path]
                return

    def _take_likeliest_look(self) -> None:
        """All arrays of the likeliest look of scores, or those named as confidences.

        Where names prove some arrays of scores, these alone are candidates.
        """
        proven = []
        for name in proven_scores(self.arrays, self.request, self.where):
            has_look = self.looks.get(name.path) in KIND_OF_LOOK
            if has_look and self.arrays.is_wide(name.path):
                proven.append(name.path)
        for look, kind in KIND_OF_LOOK.items():
            candidates = self.of_look(look)
            if proven:
                candidates = [path for path in candidates if path in proven]
            candidates = self._of_one_shape(candidates)
            if candidates:
                named_sure = list(filter(sounds_sure, candidates))
                self.scores = named_sure or candidates
                self.kind = self.kind or kind
                return

    def _of_one_shape(self, candidates: Sequence[str]) -> list[str]:
        """Candidates with several numbers a row, else those with one.

        The other way round where a column says which answers are right.
        """
        wide = list(filter(self.arrays.is_wide, candidates))
        single = [path for path in candidates if path not in wide]
        if any(map(says_correct, self.paths)):
            return single or wide
        return wide or single

    def _take_columns_named_by_labels(self) -> None:
        """Columns that are named by the words of a label are its classes."""
        for score in self.arrays.names:
            column = self.columns[score.path]
            label = column.attributes.get("by_label")
            # one of several models has a name of its own
            if label is None or "/" in score.path or not is_generated(score):
                continue
            matches_largest = self.arrays.agreement(score.path, label)
            if matches_largest is not None and matches_largest.share == 1:
                self.looks[label] = "predictions"
            labels = self.labels or self._labels_beside(score)
            if not labels and self.looks.get(label) in ("groups", "labels"):
                labels = [label]
            if not labels:
                continue
            members = list(column.parts)
            self.scores = [option_for(list(self.columns), members)]
            self.labels = labels
            self.kind = self.kind or self._kind_of_columns(members)
            looks = set(map(self.looks.get, members))
            if not self.kind and looks == {"probabilities"}:  # of separate answers
                self.kind = "probs"
            self.looks |= dict.fromkeys(members, "scores")
            self.looks |= dict.fromkeys(labels, "labels")
            return

    def _take_left_over(self) -> None:
        """Several columns whose rows sum to 1, or all of one prefix."""
        left_over: list[str] = []
        if LEFT_OVER in self.columns:
            left_over = list(self.columns[LEFT_OVER].parts)
        for members in (self.scores, left_over):
            if len(members) < 2 or not left_over:
                continue
            kind = self._kind_of_columns(members)
            prefixes = {name.partition("_")[0] for name in members}
            has_one_prefix = members is left_over and len(prefixes) == 1
            if kind == "probs" or (kind and has_one_prefix):
                self.scores = [option_for(list(self.columns), members)]
                self.kind = self.request.kind or kind
                return

    def _kind_of_columns(self, members: Sequence[str]) -> str | None:
        """Kind that all columns together prove; None if these are no numbers."""
        columns = []
        for path in members:
            values = self.arrays.values(path)
            if values is None or values.ndim != 1 or values.dtype.kind not in "biuf":
                return None
            columns.append(values)
        if len(set(map(len, columns))) != 1:
            return None
        scores = without_empty(np.stack(columns, axis=1).astype(np.float64))
        if not len(scores):
            return None
        proof = kind_of_scores(scores)
        if proof.reason == PERCENTAGES:
            self._has_percent_columns = True
            return "probs"
        return proof.kind

    # ---- the labels

    def _find_labels(self) -> None:
        self.labels = (
            self.labels
            or self._proven_labels()
            or self._named_answers()
            or self.of_look("labels")
        )

    def _find_words(self) -> None:
        for path in dict.fromkeys([*self.of_look("groups"), *self.labels]):
            if path in self.columns:
                self.words_of[path] = self.arrays.words(path)

    def _proven_labels(self) -> list[str]:
        """Columns that are labels by their names, or that values prove to be."""
        is_one_array = len(self.scores) == 1 and self.scores[0] in self.columns
        if is_one_array and not self.is_single:
            return self._labels_beside(self.arrays.name_of(self.scores[0]))
        return [path for path in self.paths if parse_name(path).role == "labels"]

    def _labels_beside(self, score: Name) -> list[str]:
        """Labels of one array of scores, that names or else values prove."""
        search = LabelSearch(self.arrays, score, [score], self.request, self.where)
        named = [name.path for name in search.by_name() if name.path in self.paths]
        if named:
            return named
        label = search.proven()
        return [] if label is None else [label.path]

    def _named_answers(self) -> list[str]:
        """Columns of right answers, by their names, beside one score a row."""
        if not self.is_single:
            return []
        named = [path for path in self.paths if is_answer(parse_name(path).core)]
        # beside a key of the right answers, a column "answer" holds those of the model
        keys = [path for path in named if not is_bare_answer(path)]
        return keys or named

    def _labels_by_values(self) -> list[str]:
        """Columns whose values fit the k classes of the scores.

        The only column of at most k words, unless exactly one has whole numbers below
        k; else all of these numbers.
        """
        k = self._n_classes()
        numbered = []
        for path in self.of_look("classes"):
            values = self.arrays.present(path)
            if values is not None and values.max() < k:
                numbered.append(path)
        of_words = []
        for path, words in self.words_of.items():
            if words and len(words) <= k:
                of_words.append(path)
        if len(of_words) == 1 and len(numbered) != 1:
            return of_words
        return numbered

    def _n_classes(self) -> int:
        if self.is_single or not self.scores:
            return 2
        if self.scores[0] in self.columns:
            values = self.arrays.values(self.scores[0])
            return 2 if values is None else values.shape[-1]
        return len(listed_columns(list(self.columns), self.scores[0]))
