"""Scores that are sorted in every row: ranks of the k best, not classes."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.evidence.lookalikes import is_ranked
from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.names.array_names import LEFT_OVER
from calcli.importers.names.column_options import by_stem
from calcli.importers.reading import Reading

FIRST_OF_RANKS = "--confidence prob_0 --correct index_0=TRUTH"
"""Options that read the first of ranks as a confidence, where no names are known."""

UNKNOWN_LABEL = "TRUTH"
"""Stands for the name of the labels where none is known."""


def refuse_ranks(scores: Any, reading: Reading) -> None:
    """Raise DataError if every row is sorted: column i is then rank i, not class i."""
    if is_ranked(scores):
        parts = list(reading.score_column.parts)
        label = reading.labels or UNKNOWN_LABEL
        first = _options_of_first(parts, list(reading.columns), label)
        raise ranks_are_no_classes(reading.where, first or FIRST_OF_RANKS)


def ranks_are_no_classes(where: str, options_of_first: str) -> DataError:
    """Error about sorted rows. options_of_first : that read the first rank."""
    return DataError(
        f"{where}: every row is sorted from the largest score to the smallest: these"
        " are ranks of the k best, not classes; --classes C takes a table of them,"
        f" {options_of_first} one, --scores NAME all"
    )


def _options_of_first(
    parts: Sequence[str], names: Sequence[str], label: str
) -> str | None:
    """Options that read ``p1`` beside ``top1`` as a confidence, by the names at hand.

    parts : names of the ranked scores. names : of all columns. label : of the labels.
    None where no column has the names of the classes by rank.
    """
    endings = [re.sub(r"^.*?([0-9]*)$", r"\1", part) for part in parts]
    if not parts or not all(endings):
        return None
    for name in names:
        if not name.endswith(endings[0]) or name in parts:
            continue
        stem = name.removesuffix(endings[0])
        family = [f"{stem}{ending}" for ending in endings]
        if stem and set(family) <= set(names):
            return f"--confidence {parts[0]} --correct {name}={label}"
    return None


def options_of_ranked(arrays: Arrays) -> str | None:
    """Options that read the first of k ranked columns (``p1`` beside ``top1``).

    None if no columns are ranked. Only the k best scores are stored, so that rows need
    not sum to 1.
    """
    parts = list(arrays.columns[LEFT_OVER].parts)
    numbers = arrays.load(LEFT_OVER)
    label = next(iter(arrays.paths_of("labels")), UNKNOWN_LABEL)
    for ranks in by_stem(parts).values():
        first_rank = _options_of_first(ranks, list(arrays.columns), label)
        places = [parts.index(name) for name in ranks]
        is_sorted = bool((np.diff(numbers[:, places]) <= 0).all())
        if len(ranks) > 1 and first_rank is not None and is_sorted:
            return first_rank
    return None
