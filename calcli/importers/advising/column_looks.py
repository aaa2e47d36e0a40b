"""What the arrays of a source look like: guesses, for advice."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from calcli.importers.evidence.looks import Look
from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.import_request import ImportRequest
from calcli.importers.names.array_names import real_names

MOST_COLUMNS = 40
"""Columns that are looked at."""

MOST_LISTED = 8
"""Columns that a message lists; ``calcli inspect`` lists all."""


class ColumnLooks:
    """What each array looks like by itself, and later beside the others.

    paths : of the arrays that are looked at.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._columns = arrays.columns
        self.paths = _paths_to_look_at(arrays)
        self._looks: dict[str, Look] = {}
        for path in self.paths:
            look = arrays.look(path)
            if look:
                self._looks[path] = look

    @property
    def has_any(self) -> bool:
        """True if some array looks like anything."""
        return bool(self._looks)

    def at(self, path: str) -> Look:
        """Look of an array; "" for none."""
        return self._looks.get(path, "")

    def take_for(self, look: Look, paths: Iterable[str]) -> None:
        """Change the look of some arrays, which others beside them tell."""
        self._looks |= dict.fromkeys(paths, look)

    def of_look(self, look: Look) -> list[str]:
        """Columns of this look that are no parts of an array."""
        parts = set(chain(*(self._columns[path].parts for path in self.paths)))
        paths = []
        for path, other in self._looks.items():
            if other == look and path not in parts:
                paths.append(path)
        return paths

    def listing(self) -> str:
        """The first arrays, what each looks like, and how many more there are."""
        shown = []
        for path in self.paths:
            name = self._columns[path].shown
            look = self.at(path)
            shown.append(f"{name} ({look}?)" if look else name)
        left = len(shown) - MOST_LISTED
        if left > 0:
            shown = [*shown[:MOST_LISTED], f"{left} more"]
        return ", ".join(shown) or "nothing"


def _paths_to_look_at(arrays: Arrays) -> list[str]:
    """The arrays of the source but those that --group-by has made of several."""
    paths = []
    for path in real_names(arrays.names):
        column = arrays.columns[path]
        are_intersections = column.parts and column.family is None
        if "/" not in path and not are_intersections:
            paths.append(path)
    return paths[:MOST_COLUMNS]


@dataclass(frozen=True)
class UnclearSource:
    """A source of which neither names nor values prove how it is read.

    where : the source, for messages.
    """

    arrays: Arrays
    looks: ColumnLooks
    request: ImportRequest
    where: str

    def is_single(self, scores: Sequence[str]) -> bool:
        """True for scores that are one array with one number a row."""
        return len(scores) == 1 and self.arrays.is_single(scores[0])
