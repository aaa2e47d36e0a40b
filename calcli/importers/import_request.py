"""The request of an import: the options of ``calcli extract``."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from calcli.errors import check_choice
from calcli.importers.table import Column
from calcli.io.locate import ByName

NORMALIZE = ("none", "sum", "chars", "bytes", "mutual")
TO_SUPPLY = "NEW.csv"
"""File in a proposed command that the user has to write."""

REDUCE = ("none", "mean", "sum", "min", "first")
"""Reductions of several positions to one row."""


@dataclass(frozen=True, kw_only=True)
class ImportOptions(ByName):
    """Options for reading arrays whose names do not determine their meaning."""

    class_names: tuple[str, ...] = ()
    normalize: str = "none"
    choices: int | None = None
    filter: str | None = None
    classes: int | None = None
    class_axis: int | None = None
    sample: int | None = None
    reduce: str | None = None
    gold: str | None = None
    votes: str | None = None
    join: bool = False
    drop_duplicates: bool = False
    drop_missing: bool = False
    percent: bool = False
    per_label: bool = False
    confidence: str | None = None
    correct: str | None = None

    def __post_init__(self) -> None:
        check_choice("--normalize", self.normalize, NORMALIZE)
        check_choice("--reduce", self.reduce, REDUCE)
        names: Any = self.class_names or ()
        if isinstance(names, str):
            names = names.split(",")
        stripped = map(str.strip, names)
        object.__setattr__(self, "class_names", tuple(filter(None, stripped)))


@dataclass(frozen=True, kw_only=True)
class ImportRequest(ImportOptions):
    """Import options and the named arrays.

    kind : of all scores. groups : parts of the source to import. carry : keep unused
    columns of words and ids (see ``looks.goes_along``). no_labels : labels may be
    missing. seed : of random draws. gold_answers : the column of labels in the file of
    ``--gold``, whose words may name columns of scores. known_classes : names of the
    classes of a calibrator, which may name them too. typed : the whole command, as word groups of
    ``calcli.settings.command_words``, for advice in messages.
    """

    scores: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    kind: str | None = None
    groups: tuple[str, ...] = ()
    all_scores: bool = False
    carry: bool = False
    no_labels: bool = False
    seed: int = 0
    gold_answers: Column | None = None
    known_classes: tuple[str, ...] = ()
    typed: tuple[tuple[str, ...], ...] = ()

    @property
    def pieces(self) -> set[str]:
        """Names of the arrays given by ``--confidence`` and ``--correct``."""
        names = set()
        for option in (self.confidence or "", self.correct or ""):
            for piece in option.split("="):
                names.add(piece.strip())
        return names

    @property
    def names_places(self) -> bool:
        """True if arrays are named by their place in the file: 0, 1, 0/1."""
        names = (*self.scores, *self.labels)
        return any(name.replace("/", "").isdigit() for name in names)

    def without(self, options: Collection[str]) -> "ImportRequest":
        """The request as typed without these options."""
        kept = [group for group in self.typed if group[0] not in options]
        return replace(self, typed=tuple(kept))

    def command(self, where: str, options: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """The command as typed, with these options in place of equal ones."""
        named = {option[0] for option in options}
        typed = self.typed or ((where,),)
        sources: list[Sequence[str]] = []
        others: list[Sequence[str]] = []
        for group in typed:
            if _is_source(group):
                sources.append(group)
            elif group[0] not in named:
                others.append(group)
        if not any(group[0] == "-o" for group in others):
            others.append(("-o", _output_name(where)))
        return "calcli", "extract", *chain(*sources, *options, *others)


def _is_source(group: Sequence[str]) -> bool:
    """True for a word that is no option."""
    return len(group) == 1 and not group[0].startswith("-")


def _output_name(where: str) -> str:
    """Name of a file of bundles in the current folder, never the source itself."""
    has_name = bool(Path(where).name.strip("."))
    source = Path(where if has_name else "scores")
    output = Path(source.name).with_suffix(".h5")
    if output.absolute() == source.absolute():
        output = output.with_suffix(".bundles.h5")
    return str(output)
