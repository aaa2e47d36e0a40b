"""Questions of multiple choice, as the reader of a log finds them, and what it checks.

A reader makes a ``Question`` of each line; ``question_tables`` makes the table of them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan, nan
from typing import Any

from calcli.errors import DataError, UsageError, one_line
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record
from calcli.io.cells import is_number

Floats = Sequence[float]


@dataclass(frozen=True)
class Normalization:
    """What ``--normalize`` makes of the scores of choices.

    measure : that harnesses log for it. words : after those for the scores.
    """

    measure: str
    words: str = ""


NORMALIZATIONS = {
    "none": Normalization("acc"),
    "sum": Normalization("acc"),
    "chars": Normalization("acc_norm", " per char"),
    "bytes": Normalization("acc_bytes", " per byte"),
    "mutual": Normalization("acc_mutual_info", " minus the unconditional ones"),
}
"""By the value of ``--normalize``."""


@dataclass(frozen=True)
class Choices:
    """The choices of a question, each with its score, a natural logarithm.

    texts : of the choices; none if they are not logged. unconditional : scores without
    the question; None if they are not logged.
    """

    likelihoods: Floats
    texts: Sequence[str] = ()
    unconditional: Floats | None = None


@dataclass(frozen=True)
class Question:
    """One question.

    where : for messages.
    golds : the right choice by every rule by which the log may be read, the usual rule
        first (see ``gold_choices``). target : what the log calls right, for messages.
    logged : by measure, 1 if the best choice by it was marked right, else 0, None if it
        was not logged; empty for logs that have no such measure.
    of : id of the question that it repeats, as a further trial or in other words; None
        for its own id.
    """

    where: str
    id: Any
    choices: Choices
    golds: Mapping[str, int]
    target: Any = None
    logged: Mapping[str, float | None] = field(default_factory=dict)
    of: Any = None


# ---- parts of a line


def question_id(value: Any, where: str) -> Any:
    """Check the id of a question, a number or a word. Raises DataError."""
    is_finite_number = _is_number(value) and isfinite(value)
    if not isinstance(value, str) and not is_finite_number:
        raise DataError(f"{where} is {shown(value)}, expected a number or a word")
    return value


def log_likelihoods(values: Sequence[Any], where: str) -> list[float]:
    """Check the log-likelihood of every choice, a number or its text.

    Raises DataError.
    """
    likelihoods = []
    for choice, value in enumerate(values):
        is_text = isinstance(value, str) and is_number(value)
        likelihood = float(value) if is_text or _is_number(value) else nan
        if isnan(likelihood):
            raise DataError(
                f"{where}: log-likelihood of choice {choice} is {shown(value)},"
                " expected a number; evaluate it anew"
            )
        likelihoods.append(likelihood)
    return likelihoods


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def choices_of_requests(
    likelihoods: Floats, requests: Sequence[tuple[Any, Any]]
) -> Choices:
    """The choices that a harness asked for, each in a request of its own.

    requests : context and choice, which begins with a space; none where they are not
    logged. To compute acc_mutual_info every choice is asked for again without a
    context: these scores are the unconditional ones.
    """
    contexts = [str(context) for context, _ in requests]
    texts = [str(choice).removeprefix(" ") for _, choice in requests]
    half = len(requests) // 2
    is_again = half > 1 and texts[:half] == texts[half:] and not any(contexts[half:])
    if is_again:
        return Choices(likelihoods[:half], texts[:half], likelihoods[half:])
    return Choices(likelihoods, texts)


def logged_measure(value: Any) -> float | None:
    """A measure of a log, a number or its text; None if it was not logged."""
    return None if value is None else float(value)


def measures_of(record: Record) -> dict[str, float | None]:
    """The measures of a record; None for one that is no number."""
    measures: dict[str, float | None] = {}
    for normalization in NORMALIZATIONS.values():
        measure = normalization.measure
        value = record.get(measure)
        measures[measure] = float(value) if isinstance(value, int | float) else None
    return measures


def shown(value: Any) -> str:
    """The JSON of a value, not too long."""
    return one_line(ValueError(json.dumps(value, default=str, ensure_ascii=False)), 40)


# ---- lines of one filter


def records_of_filter(file: SourceFile) -> dict[int, Record]:
    """Records of the file by row: all, or those of one filter where it has several.

    Raises UsageError where ``--filter`` takes none of them.
    """
    rows_by_filter: dict[str, dict[int, Record]] = {}
    for row, record in enumerate(file.records):
        name = str(record.get("filter", "none"))
        rows_by_filter.setdefault(name, {})[row] = record
    wanted = file.request.filter
    if wanted is None and len(rows_by_filter) == 1:
        wanted = next(iter(rows_by_filter))
    if wanted not in rows_by_filter:
        raise UsageError(
            f"{file.path}: has every question once per filter; take one: --filter"
            f" {' or '.join(rows_by_filter)}"
        )
    return rows_by_filter[wanted]
