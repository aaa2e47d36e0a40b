"""Labels made wrong on purpose, to see what calibration does with them; the bundle says so for ever."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from calcli.errors import UsageError
from calcli.importers.labelled_scores import Imported


def corrupt_labels(imported: Imported, share: float, seed: int) -> tuple[Imported, dict[str, Any]]:
    """The bundle with the labels of its first classes drawn anew, and what to record of it.

    Of C classes the first ``ceil(share C)`` lose their labels: each of their rows gets one of all C
    classes, the true one included, drawn uniformly in the order of the source. Scores stay.
    Raises UsageError for rows without class labels.

    Reference: Clarte, Loureiro, Krzakala, Zdeborova (2023), appendix C.
    """
    if imported.labels is None or not imported.k:
        raise UsageError(f"--corrupt-labels: {imported.where} has no class labels")
    classes = math.ceil(share * imported.k)
    y = imported.labels.copy()
    rows = np.flatnonzero((y >= 0) & (y < classes))
    y[rows] = np.random.default_rng(seed).integers(0, imported.k, len(rows))
    changed = int((y != imported.labels).sum())
    record = {"share": share, "classes": classes, "drawn": len(rows), "changed": changed, "seed": seed}
    note = (
        f"{imported.where}: the labels of {classes} of {imported.k} classes are now random:"
        f" {len(rows)} drawn, {changed} of {imported.n} changed (seed {seed})"
    )
    return replace(imported, labels=y, notes=(*imported.notes, note)), record
