"""What about a set of labelled rows limits what can be learnt from them or said about them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # a fit says what its rows are and needs neither
    from calcli.metrics.rowtable import RowTable
    from calcli.metrics.tally import RunningSums

ROWS_PER_BIN = 50

FEWEST_NEIGHBOURS, ALIKE = 100, 4.0
"""Rows from which neighbours are compared, and standard deviations beyond which they are alike."""


def data_warnings(n: int, classes: int | None, spread: float, bins: int | None = None) -> list[str]:
    """Plain words on rows that are evaluated or fitted to.

    n : rows. classes : how many occur, None where there are none. spread : largest minus
    smallest confidence. bins : None where none are asked for.
    """
    found = []
    if bins is not None and n < ROWS_PER_BIN * bins:
        found.append(
            f"{n} row{'s'[: n != 1]} in {bins} bins: even a calibrated model's ECE is well above 0 here; read it beside"
            " its expected value, or use fewer --bins"
        )
    if classes == 1:
        found.append("all labels are the same class: this says nothing about the others")
    if n > 1 and spread == 0.0:
        found.append("all confidences are equal: calibration errors see one point only")
    return found


def unit_warnings(table: "RowTable") -> list[str]:
    """Plain words where rows that are taken as independent seem to belong together: neighbours are alike.

    table : in the order of the file. r_i is the outcome minus the mean outcome of its bin, of fifteen that hold equally
    many rows, and z = sum r_i r_(i+1) / sqrt(sum (r_i r_(i+1))^2). Files in the order of their labels are left out.
    """
    n, c = table.n, table.confidence
    if table.units is not None or table.weight is not None or n < FEWEST_NEIGHBOURS:
        return []
    found, advice = [], "if they belong together (a patient, an image, a question), say so with --unit NAME"
    index = np.empty(n, dtype=np.int64)
    index[np.argsort(c, kind="stable")] = np.arange(n) * 15 // n
    r = table.correct - (np.bincount(index, weights=table.correct) / np.bincount(index))[index]
    pairs = r[1:] * r[:-1]
    spread = float(np.sqrt(pairs @ pairs))
    if spread > 0.0 and float(pairs.sum()) > ALIKE * spread and (np.diff(table.y) < 0).any():
        z = float(pairs.sum()) / spread
        found.append(f"neighbouring rows are alike (z = {z:.1f}): intervals and p-values say too much; {advice}")
    return found


def zero_warnings(zeros: int, n: int) -> list[str]:
    """Plain words on an NLL of n rows of which some give their label a probability of 0, whose logarithm is unknown."""
    if not zeros:
        return []
    return [f"{zeros} of {n} samples give their label a probability of exactly 0, which counts as 1e-12 in the NLL"]


def label_doubts(table: "RowTable | RunningSums", names: Sequence[str] | None) -> list[str]:
    """Plain words where the labels hardly belong to the scores. names : of the classes."""
    met = table.agreement
    return [] if met is None else met.doubts(table.mean_confidence, names)
