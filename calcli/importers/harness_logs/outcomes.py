"""Answers of a log that has their confidence and mark, but no scores of the choices."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from calcli.importers.harness_logs.question_tables import without_units_of_one_row
from calcli.importers.json_columns import table_of_rows
from calcli.importers.remarks import remark
from calcli.importers.table import Table


@dataclass(frozen=True)
class Outcome:
    """One answer. of : id of the question that it answers, perhaps again."""

    id: str
    of: str
    confidence: float
    is_right: bool


def table_of_outcomes(path: Path, format: str, outcomes: Sequence[Outcome]) -> Table:
    """Rows with confidence, correct and ids. Answers to one question are a unit."""
    rows = []
    for outcome in outcomes:
        row = {
            "confidence": outcome.confidence,
            "correct": int(outcome.is_right),
            "ids": outcome.id,
            "unit": outcome.of,
        }
        rows.append(row)
    remark(
        f"{path.name}: confidence is the probability of the answer that was given,"
        " correct its mark"
    )
    return table_of_rows(path, format, without_units_of_one_row(rows))
