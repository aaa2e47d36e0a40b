"""What about a set of labelled rows limits what can be learnt from them or said about them."""

import math

import numpy as np

from calcli.metrics.rowtable import RowTable

__all__ = ["data_warnings", "resolution_rows"]

ROWS_PER_BIN = 50


def resolution_rows(bins: int, error: float = 0.01) -> int:
    """Rows from which a calibrated model's ECE over this many bins falls below ``error``."""
    return math.ceil(bins / (2.0 * math.pi * error**2))


def data_warnings(table: RowTable, bins: int | None = None) -> list[str]:
    """Plain words on rows that are evaluated or fitted to; bins : None where none are asked for."""
    found = []
    if bins is not None and table.n < ROWS_PER_BIN * bins:
        found.append(
            f"{table.n} row{'s'[: table.n != 1]} in {bins} bins: even a calibrated model's ECE is well above 0 here;"
            f" about {resolution_rows(bins)} rows resolve an ECE of 0.01, or use fewer --bins"
        )
    if len(np.unique(table.y)) == 1:
        found.append("all labels are the same class: this says nothing about the others")
    if table.n > 1 and table.confidence.max() == table.confidence.min():
        found.append("all confidences are equal: calibration errors see one point only")
    return found
