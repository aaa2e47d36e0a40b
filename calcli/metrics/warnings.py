"""What about a set of labelled rows limits what can be learnt from them or said about them."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a fit says what its rows are and needs neither
    from calcli.metrics.rowtable import RowTable
    from calcli.metrics.tally import Tally

ROWS_PER_BIN = 50


def resolution_rows(bins: int, error: float = 0.01) -> int:
    """Rows from which a calibrated model's ECE over this many bins falls below ``error``."""
    return math.ceil(bins / (2.0 * math.pi * error**2))


def data_warnings(n: int, classes: int | None, spread: float, bins: int | None = None) -> list[str]:
    """Plain words on rows that are evaluated or fitted to.

    n : rows. classes : how many occur, None where there are none. spread : largest minus
    smallest confidence. bins : None where none are asked for.
    """
    found = []
    if bins is not None and n < ROWS_PER_BIN * bins:
        wanted = f"{float(f'{resolution_rows(bins):.2g}'):.0f}"
        found.append(
            f"{n} row{'s'[: n != 1]} in {bins} bins: even a calibrated model's ECE is well above 0 here;"
            f" about {wanted} rows resolve an ECE of 0.01, or use fewer --bins"
        )
    if classes == 1:
        found.append("all labels are the same class: this says nothing about the others")
    if n > 1 and spread == 0.0:
        found.append("all confidences are equal: calibration errors see one point only")
    return found


def label_doubts(table: "RowTable | Tally", names: list[str] | None) -> list[str]:
    """Plain words where the labels hardly belong to the scores. names : of the classes."""
    met = table.agreement
    return [] if met is None else met.doubts(table.mean_confidence, names)
