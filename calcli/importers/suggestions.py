"""Guesses at the scores, kind and labels of a source, where neither names nor values
prove them.

Nothing of it is read unasked: ``advice`` spells it as a command that can be typed.
"""

from collections.abc import Sequence
from itertools import chain

from calcli.importers.array_names import (
    LEFT_OVER,
    headers_path,
    outcomes_by_score,
    parse_name,
    real_names,
)
from calcli.importers.column_options import option_for
from calcli.importers.common_text import texts_around
from calcli.importers.evidence import (
    PERCENTAGES,
    kind_of_scores,
)
from calcli.importers.import_request import ImportRequest
from calcli.importers.label_search import LabelSearch
from calcli.importers.labels import OPPOSITES
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
from calcli.items import present

MOST_COLUMNS = 40
"""Columns that are looked at."""

MOST_LISTED = 8
"""Columns that a message lists; ``calcli inspect`` lists all."""


class Suggestions:
    """The likeliest scores, kind and labels.

    looks : by path, of the arrays that look like anything. scores, labels : paths, or
    columns as an option lists them; several where it is unclear. has_unrelated : some
    column could be the labels but for its values, which do not follow the scores.
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
        self.scores = list(request.scores)
        self.labels = list(request.labels)
        self.kind = request.kind
        self.has_unrelated = False
        self._has_percent_columns = False
        if not self.scores:
            self._find_scores()
        if self.scores and not self.kind:
            self.kind = KIND_OF_LOOK.get(self.looks.get(self.scores[0], ""))
        self._tell_labels_from_predictions()
        if not self.labels:
            self._find_labels()
        if len(self.labels) == 1 and self.labels[0] in self.paths:
            self.looks[self.labels[0]] = "labels"

    def _columns_to_look_at(self) -> list[str]:
        """The arrays of the source but those that --group-by has made of several."""
        paths = []
        for path in real_names(self.arrays.names):
            column = self.columns[path]
            are_intersections = column.parts and not column.attributes
            if "/" not in path and not are_intersections:
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
        paths = []
        for path, other in self.looks.items():
            if other == look and path not in parts:
                paths.append(path)
        return paths

    def words(self, path: str) -> list[object]:
        """Distinct values of a column; none of what is no column."""
        return self.arrays.words(path) if path in self.columns else []

    def n_rows(self, path: str) -> int | None:
        """Rows of a column, None if unknown."""
        values = self.arrays.values(path) if path in self.columns else None
        return None if values is None else len(values)

    # ---- the scores

    def _find_scores(self) -> None:
        if not self.labels:
            self._take_first_pair()
        if not self.scores:
            self._take_columns_named_by_labels()
        if not self.scores:
            self._take_likeliest_look()
            if len(self.scores) == 2:
                self._take_opposites()
            if len(self.scores) != 1:
                self._take_columns_together()

    def _take_first_pair(self) -> None:
        """The first column of scores that has an outcome of its own."""
        pairs = outcomes_by_score(self.paths)
        if pairs:
            scores, labels = next(iter(pairs.items()))
            self.scores, self.labels = [scores], [labels]

    def _take_columns_named_by_labels(self) -> None:
        """Columns that are named by the words of a label are its classes."""
        for score in self.arrays.of_columns("by_label"):
            if "/" in score.path:  # of one of several models, with a name of its own
                continue
            column = self.columns[score.path]
            label = column.attributes["by_label"]
            labels = self.labels or self._labels_beside(score.path)
            if self.arrays.is_prediction(score.path, label):
                self.looks[label] = "predictions"
            elif not labels and self.looks.get(label) in ("groups", "labels"):
                labels = [label]
            if labels:
                members = list(column.parts)
                looks = set(map(self.looks.get, members))
                self.labels = labels
                self._take_together(members, self._kind_of_columns(members))
                if not self.kind and looks == {"probabilities"}:  # of separate answers
                    self.kind = "probs"
                self.looks |= dict.fromkeys(members, "scores")
                self.looks |= dict.fromkeys(labels, "labels")
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

    def _take_opposites(self) -> None:
        """Two columns that differ in opposite words, ``score_no, score_yes``, in order."""
        if any(map(self.arrays.is_wide, self.scores)):
            return
        by_lower = {name.lower(): name for name in self.scores}
        for first, second in OPPOSITES:
            for text in texts_around(first, by_lower):
                members = [by_lower.get(text.around(word)) for word in (first, second)]
                if set(members) == set(self.scores):
                    self._take_together(present(members), self.kind)
                    return

    def _take_columns_together(self) -> None:
        """Several columns whose rows sum to 1, or all of one prefix."""
        if LEFT_OVER not in self.columns:
            return
        left_over = list(self.columns[LEFT_OVER].parts)
        has_one_prefix = len({name.partition("_")[0] for name in left_over}) == 1
        for members in (self.scores, left_over):
            kind = self._kind_of_columns(members) if len(members) > 1 else None
            if kind == "probs" or (kind and members is left_over and has_one_prefix):
                self.kind = None
                self._take_together(members, kind)
                return

    def _take_together(self, members: Sequence[str], kind: str | None) -> None:
        self.scores = [",".join(members)]
        if set(members) <= self.columns.keys():
            self.scores = [option_for(list(self.columns), members)]
        self.kind = self.request.kind or self.kind or kind

    def _kind_of_columns(self, members: Sequence[str]) -> str | None:
        """Kind that all columns together prove; None if these are no numbers."""
        stacked = self.arrays.stacked(members)
        if stacked is None:
            return None
        scores = without_empty(stacked)
        if not len(scores):
            return None
        proof = kind_of_scores(scores)
        if proof.reason == PERCENTAGES:
            self._has_percent_columns = True
            return "probs"
        return proof.kind

    # ---- the labels

    def _tell_labels_from_predictions(self) -> None:
        """Tell them apart among words that are the classes of one array of scores."""
        wide = self.scores
        if len(wide) != 1 or headers_path(wide[0]) not in self.columns:
            return
        for path in self.of_look("groups"):
            matches_largest = self.arrays.agreement(wide[0], path)
            if matches_largest is not None:
                is_predicted = is_prediction(path) or matches_largest.share == 1
                self.looks[path] = "predictions" if is_predicted else "labels"

    def _find_labels(self) -> None:
        if len(self.scores) == 1 and self.scores[0] in self.columns:
            self.labels = self._labels_beside(self.scores[0])
        else:
            names = map(parse_name, self.paths)
            self.labels = [name.path for name in names if name.role == "labels"]
        self.labels = (
            self.labels
            or self._named_answers()
            or self._that_may_follow(self.of_look("labels"))
            or self._that_may_follow(self._labels_by_values())
        )

    def _labels_beside(self, path: str) -> list[str]:
        """Labels of one array of scores, that names or else values prove."""
        score = self.arrays.name_of(path)
        search = LabelSearch(self.arrays, score, [score], self.request, self.where)
        named = [name.path for name in search.by_name() if name.path in self.paths]
        label = None if named or self.is_single else search.proven()
        return named if label is None else [label.path]

    def _named_answers(self) -> list[str]:
        """Columns of right answers, by their names, beside one score a row."""
        if not self.is_single:
            return []
        named = [path for path in self.paths if is_answer(parse_name(path).core)]
        # beside a key of the right answers, a column "answer" holds those of the model
        keys = [path for path in named if not is_bare_answer(path)]
        return keys or named

    def _that_may_follow(self, paths: Sequence[str]) -> list[str]:
        """The columns but those whose values have nothing to do with the scores."""
        kept = []
        for path in paths:
            is_named = parse_name(path).role == "labels"
            if is_named or self._may_follow(path):
                kept.append(path)
            else:
                self.looks[path] = ""
                self.has_unrelated = True
        return kept

    def _may_follow(self, path: str) -> bool:
        return len(self.scores) != 1 or self.arrays.may_follow(self.scores[0], path)

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
        of_words = [
            path for path in self.of_look("groups") if len(self.words(path)) <= k
        ]
        return of_words if len(of_words) == 1 != len(numbered) else numbered

    def _n_classes(self) -> int:
        if self.is_single or not self.scores:
            return 2
        if self.scores[0] in self.columns:
            values = self.arrays.values(self.scores[0])
            return 2 if values is None else values.shape[-1]
        return len(self.arrays.listed(self.scores[0]))
