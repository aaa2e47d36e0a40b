"""How one bundle is read: which array is read as what, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from calcli.importers.names.array_names import (
    BY_CALIBRATOR,
    OF_CALIBRATOR,
    headers_path,
)
from calcli.importers.names.roles import COLUMNS, ROLES
from calcli.importers.table import Column, Columns

LONGEST_LIST = 40
"""Most characters of the names of columns that are one array."""


@dataclass(frozen=True)
class Reading:
    """Paths of the arrays of one bundle, and the arrays of its source.

    model : name of the bundle without its split. extras : path by role. reasons : by
    role, of what no name says.
    """

    model: str
    split: str
    kind: str
    scores: str
    labels: str | None
    extras: Mapping[str, str]
    reasons: Mapping[str, str] = field(default_factory=dict)
    columns: Columns = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the group in the output; "" is the root."""
        return "/".join(filter(None, (self.model, self.split)))

    @property
    def score_column(self) -> Column:
        """The array of scores."""
        return self.columns[self.scores]

    @property
    def label_column(self) -> Column | None:
        """The array of labels, if there is any."""
        return None if self.labels is None else self.columns[self.labels]

    @property
    def where(self) -> str:
        """Where the scores lie, for messages."""
        return self.score_column.where

    @property
    def paths(self) -> dict[str, str]:
        """Paths of all arrays, by role."""
        paths = {"scores": self.scores, **self.extras}
        if self.labels is not None:
            paths["labels"] = self.labels
        return paths

    @property
    def kept(self) -> dict[str, Column]:
        """Columns that a bundle keeps, by role."""
        return {role: self.extra(role) for role in self.extras if role in COLUMNS}

    def extra(self, role: str) -> Column:
        """The array of a role beside scores and labels."""
        return self.columns[self.extras[role]]

    def in_words(self) -> str:
        """``'logits', 'labels'``; where no name says what an array is ``'a' as probs``.

        The names of the columns of scores, which name the classes, are not told.
        """
        is_inferred = bool(self.reasons.get("scores"))
        is_named = self.kind in self.score_column.shown and not is_inferred
        parts = [self._named(self.scores, "" if is_named else self.kind)]
        if self.scores == OF_CALIBRATOR:
            parts[0] += f", named by {BY_CALIBRATOR}"
        if self.labels is None:
            parts.append("no labels")
        elif "outcome" in self.reasons:  # of confidences
            parts.append(self.reasons["outcome"])
        else:
            is_inferred = bool(self.reasons.get("labels"))
            parts.append(self._named(self.labels, "labels" if is_inferred else ""))
        for role, path in self.extras.items():
            if path != headers_path(self.scores):
                parts.append(self._named(path, ROLES[role].in_words))
        return ", ".join(parts)

    def _named(self, path: str, role: str) -> str:
        """The name of an array in its folder, and what it is where no name says so."""
        shown = self.columns[path].shown.removeprefix(f"{self.name}/")
        names = list(self.columns[path].parts)
        if len(shown) > LONGEST_LIST and len(names) > 2:
            shown = f"{names[0]}, …, {names[-1]}"
        plain = shown.lower().replace("_", " ")
        if not role or plain.rstrip("s") == role.rstrip("s"):
            return f"{shown!r}"
        return f"{shown!r} as {role}"
