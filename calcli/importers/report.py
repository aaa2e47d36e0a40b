"""What extract is asked to split, and what it reports having written."""

from dataclasses import dataclass, field

from calcli.io.split import Part

__all__ = ["Report", "Splitting", "Written"]


@dataclass(frozen=True)
class Splitting:
    """How to deal the rows of a source into groups."""

    parts: tuple[Part, ...] = ()
    seed: int = 0
    stratify: bool = True
    ordered: bool = False
    texts: tuple[str, ...] = ()

    def method(self, labelled: bool) -> str:
        if any(part.rows is not None for part in self.parts):
            return "position"
        if self.ordered:
            return "ordered"
        return "stratified" if self.stratify and labelled else "shuffled"


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
class Report:
    """What was written, and sentences for the user."""

    bundles: list[Written] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
