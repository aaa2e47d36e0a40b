"""What extract is asked to split, and what it reports having written."""

from dataclasses import field
from typing import Any

from calcli.errors import UsageError
from calcli.io.split import Part, deal_rows
from calcli.numerics import IntArray
from calcli.plain import dataclass

__all__ = ["ImportReport", "Splitting", "Written"]


@dataclass(frozen=True)
class Splitting:
    """How to deal the rows of a source into groups."""

    parts: tuple[Part, ...] = ()
    seed: int = 0
    stratify: bool = True
    ordered: bool = False
    texts: tuple[str, ...] = ()

    def method(self, labelled: bool) -> str:
        """How rows are dealt, in a word."""
        if any(part.rows is not None for part in self.parts):
            return "position"
        if self.ordered:
            return "ordered"
        return "stratified" if self.stratify and labelled else "shuffled"

    def deal(self, n: int, labels: IntArray | None, where: str) -> dict[str, IntArray]:
        """Which of n rows go to which group. Raises UsageError where there are no labels to stratify by."""
        method = self.method(labels is not None)
        if labels is None and self.stratify and method == "shuffled":
            raise UsageError(f"{where}: has no labels to stratify the split by; pass --no-stratify or --ordered")
        by = labels if method == "stratified" else None
        return deal_rows(self.parts, n, labels=by, seed=self.seed, ordered=self.ordered)

    def record(self, group: str, labelled: bool) -> dict[str, Any]:
        """What a bundle records of its part in the split."""
        method = self.method(labelled)
        seed = {"seed": self.seed} if method in ("stratified", "shuffled") else {}
        return {"groups": list(self.texts), "method": method, "name": group, **seed}


@dataclass(frozen=True)
class Written:
    """One bundle of the output; k is 0 for confidences, which have no classes."""

    name: str
    kind: str
    n: int
    k: int
    dtype: str
    labelled: bool
    transforms: int
    absent_classes: int


@dataclass
class ImportReport:
    """What was written, and sentences for the user."""

    bundles: list[Written] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
