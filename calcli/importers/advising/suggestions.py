"""Guesses at the scores, kind and labels of a source, where neither names nor values
prove them.

Nothing of it is read unasked: ``advice`` spells it as a command that can be typed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from calcli.importers.advising.column_looks import ColumnLooks, UnclearSource
from calcli.importers.advising.suggested_labels import (
    SuggestedLabels,
    suggest_labels,
    tell_labels_from_predictions,
)
from calcli.importers.advising.suggested_scores import SuggestedScores, suggest_scores
from calcli.importers.evidence.looks import KIND_OF_LOOK, Look
from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.import_request import ImportRequest
from calcli.importers.table import Columns


@dataclass(frozen=True)
class Suggestions:
    """The likeliest scores, kind and labels of a source.

    scores, labels : paths, or columns as an option lists them; several where it is
    unclear. has_unrelated : some column could be the labels but for its values, which
    do not follow the scores.
    """

    source: UnclearSource
    scores: Sequence[str]
    labels: Sequence[str]
    kind: str | None
    has_percent_columns: bool
    has_unrelated: bool

    @property
    def arrays(self) -> Arrays:
        return self.source.arrays

    @property
    def columns(self) -> Columns:
        return self.source.arrays.columns

    @property
    def request(self) -> ImportRequest:
        return self.source.request

    @property
    def looks(self) -> ColumnLooks:
        return self.source.looks

    @property
    def are_percentages(self) -> bool:
        return self.has_percent_columns or self.look_of_scores == "percentages"

    @property
    def look_of_scores(self) -> Look:
        """Look of the one column of scores; "" for several."""
        return self.looks.at(self.scores[0]) if self.is_single else ""

    @property
    def is_single(self) -> bool:
        """True for one score a row."""
        return self.source.is_single(self.scores)

    def words(self, path: str) -> list[object]:
        """Distinct values of a column; none of what is no column."""
        return self.arrays.words(path) if path in self.columns else []

    def n_rows(self, path: str) -> int | None:
        """Rows of a column, None if unknown."""
        values = self.arrays.values(path) if path in self.columns else None
        return None if values is None else len(values)


def suggest(arrays: Arrays, request: ImportRequest, where: str) -> Suggestions:
    """The likeliest reading of a source, as far as the request does not tell it.

    where : the source, for messages.
    """
    source = UnclearSource(arrays, ColumnLooks(arrays), request, where)
    suggested = SuggestedScores(request.scores)
    if not request.scores:
        suggested = suggest_scores(source)
    kind = request.kind or suggested.kind
    if suggested.paths and kind is None:
        kind = KIND_OF_LOOK.get(source.looks.at(suggested.paths[0]))
    tell_labels_from_predictions(suggested.paths, source)
    labels = SuggestedLabels(request.labels or suggested.labels)
    if not labels.paths:
        labels = suggest_labels(suggested.paths, source)
    if len(labels.paths) == 1 and labels.paths[0] in source.looks.paths:
        source.looks.take_for("labels", labels.paths)
    return Suggestions(
        source=source,
        scores=suggested.paths,
        labels=labels.paths,
        kind=kind,
        has_percent_columns=suggested.are_percentages,
        has_unrelated=labels.has_unrelated,
    )
