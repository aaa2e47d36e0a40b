"""How much of a model a page shows."""

from dataclasses import dataclass, replace

from calcli.reporting.gather import ModelResults

EVERY_LINE = 10**9


@dataclass(frozen=True)
class Room:
    """Amount of detail about a model.

    A page of one model, and the JSON in every page, are always complete. lines : most
    lines in a table of classes or groups. short : tables only of the uncalibrated
    scores and of the version in focus, and no picture above the sections. tight :
    figures only of these, too, and no temperatures.
    """

    lines: int = EVERY_LINE
    short: bool = False
    tight: bool = False


ROOMS = (
    Room(),
    Room(short=True),
    Room(lines=100, short=True),
    Room(lines=20, short=True, tight=True),
)
"""Amounts of detail, from the most to the least."""


@dataclass(frozen=True)
class Chapter:
    """The part of a page about one model, with its number and its room."""

    model: ModelResults
    number: int
    room: Room

    def ident(self, what: str, version: int | None = None) -> str:
        """Identifier of a table or figure. Names are never part of it."""
        if version is None:
            return f"{what}-{self.number}"
        return f"{what}-{self.number}-{version}"

    def is_shown(self, version: int) -> bool:
        """True if the tables of a version have room."""
        return not self.room.short or version in (0, self.model.focus)


def with_drawn_first(model: ModelResults) -> ModelResults:
    """The model with the uncalibrated scores and the version in focus first."""
    order = dict.fromkeys((0, model.focus, *range(len(model.versions))))
    return replace(model, versions=tuple(model.versions[number] for number in order))


def drawn_only(model: ModelResults) -> ModelResults:
    """The model with only the uncalibrated scores and the version in focus."""
    first = dict.fromkeys((0, model.focus))
    return replace(model, versions=tuple(model.versions[number] for number in first))
