"""What a fit claims of its own rows: how few of those that are right may be wrong."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calcli.calibrator import Calibrator
from calcli.fit_summary import Summary
from calcli.metrics.collect import reduced
from calcli.metrics.rowtable import RowTable
from calcli.rows import Rows

LEAST_CHANCE = 0.05
"""Chance of an error among the rows that are right below which a claim is too large."""

FEW_WRONG = 10.0
"""Wrong rows from which on the claim is not looked at: they hold the confidences."""

ROUNDED = 1e-9
"""Number of rows below which it is 0."""


@dataclass(frozen=True)
class Claim:
    """Errors that a calibrator expects among the rows of its fit that are right.

    All three numbers are of independent rows of equal weight, or of units.
    """

    expected: float
    right: float
    wrong: float

    @property
    def rate(self) -> float:
        """Rate of errors that the calibrator claims where rows are right."""
        return self.expected / self.right

    @property
    def largest_rate(self) -> float:
        """Upper 95 % limit of the rate of errors that rows without one show."""
        return 1.0 - 0.05 ** (1.0 / self.right)

    @property
    def is_too_large(self) -> bool:
        """True if an error among these rows would hardly have happened.

        Rows that are right are as likely with an error rate of 0 as with a small one:
        a rate that gives them all right with chance 95 % and more is not learned from
        them.
        """
        return 1.0 - math.exp(-self.expected) < LEAST_CHANCE

    @property
    def warning(self) -> str | None:
        """Warning where the rows do not show what is claimed; None where they do.

        Rows without an error show no rate below 1 / n (Laplace's rule of succession).
        """
        limit = percent_text(self.largest_rate)
        rate = percent_text(self.rate)
        if self.wrong <= ROUNDED:
            if self.expected >= 1.0:
                return None
            return (
                f"all predictions are right, which shows an error rate below {limit};"
                f" the calibrator claims {rate}"
            )
        if not self.is_too_large:
            return None
        return (
            f"few predictions are wrong; the others show an error rate below {limit},"
            f" and the calibrator claims {rate} of them"
        )


def percent_text(share: float) -> str:
    return f"{100.0 * share:.2g}%"


def sharpened_claim(
    before: Summary, after: Summary, rows: Rows, calibrator: Calibrator
) -> Claim | None:
    """What a fit claims that raised the mean confidence of its rows.

    None where it did not, where many rows are wrong, and where none is right.
    """
    expected = _unsure_rows(after)
    units = rows.units()
    rows_per_unit = 1.0 if units is None else rows.n / units.n
    wrong = max(after.weight - after.correct, 0.0)
    right = after.correct
    is_sharpened = expected < _unsure_rows(before)
    if not is_sharpened or wrong / rows_per_unit > FEW_WRONG or right <= ROUNDED:
        return None
    if wrong > ROUNDED:
        # The rows that are wrong expect an error each at most.
        if expected - wrong > rows_per_unit:
            return None
        expected = sum(reduced(rows, [calibrator], _unsure_where_right, top_only=True))
    return Claim(
        expected=expected / rows_per_unit,
        right=right / rows_per_unit,
        wrong=wrong / rows_per_unit,
    )


def _unsure_rows(summary: Summary) -> float:
    """Sum of 1 - confidence."""
    return max(summary.weight - float(summary.bins.score.sum()), 0.0)


def _unsure_where_right(tables: Sequence[RowTable]) -> float:
    """Sum of 1 - confidence of the rows that are right."""
    (table,) = tables
    return float((table.weights * table.correct) @ (1.0 - table.confidence))
