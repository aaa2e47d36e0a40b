"""What is said of every import: what was taken for what, and labels that cannot belong to their scores."""

from collections.abc import Mapping
from math import sqrt

import numpy as np

from calcli.importers.archive import Entry
from calcli.importers.array_names import BundleArrays
from calcli.importers.labelled_scores import Imported, Slab

__all__ = ["Chance", "taken_for"]

ROLE_WORDS = {
    "class_names": "the class names", "ids": "ids", "weights": "weights", "group": "groups", "split": "the splits",
    "transformed": "transformed scores", "specs": "their transforms",
    "calibrated_by": "what calibrated them",
}  # fmt: skip

FEW = 30
"""Fewer rows than this say nothing about chance."""


def taken_for(candidate: BundleArrays, entries: Mapping[str, Entry]) -> str:
    """One line: which arrays are the scores, of what kind, which the labels, ids and so on."""

    def shown(path: str) -> str:
        return repr(entries[path].name)

    labels = [f"{shown(candidate.labels)} as the labels"] if candidate.labels else ["no labels"]
    columns = f"class_names_{candidate.scores}"  # as tables call the names of their columns
    extras = [
        f"{'the column names' if path == columns else shown(path)} as {ROLE_WORDS[role]}"
        for role, path in candidate.extras.items()
    ]
    head = f"{candidate.name}: " if candidate.name else ""
    scores = f"{shown(candidate.scores)} was taken as the scores ({candidate.kind})"
    return head + ", ".join([scores, *labels, *extras])


class Chance:
    """How often the largest score is the label, which tells labels of other rows and predictions posing as labels."""

    def __init__(self, imported: Imported) -> None:
        self.imported, self.n, self.hits = imported, 0, 0

    def see(self, slab: Slab) -> None:
        """Count the rows of a slab whose largest score is that of the label; ties count."""
        if self.imported.labels is None or not self.imported.k:
            return
        labels = self.imported.labels[slab.start : slab.start + len(slab.scores)]
        rows = np.flatnonzero((labels >= 0) & (labels < self.imported.k))
        self.n += len(rows)
        self.hits += int((slab.scores[rows, labels[rows]] == slab.scores.max(axis=1)[rows]).sum())

    def doubts(self) -> list[str]:
        """A warning for an accuracy no better than chance, or perfect."""
        if self.n < FEW:
            return []
        chance, share = 1 / self.imported.k, self.hits / self.n
        if share == 1:
            return [
                f"warning: {self.imported.where}: every label is the class of the largest score; are the labels the"
                " model's predictions?"
            ]
        if share <= chance + 2 * sqrt(chance * (1 - chance) / self.n):
            return [
                f"warning: {self.imported.where}: the largest score is the label in {share:.1%} of the rows, no better"
                f" than chance ({chance:.1%}): do the labels belong to these rows, are the classes in this order?"
            ]
        return []
