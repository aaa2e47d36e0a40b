"""Probabilities class by class, through a calibrator, for metrics that need every
class's own bins.
"""

from collections.abc import Iterator

import numpy as np

from calcli.calibrator import Calibrator
from calcli.logits import divisors
from calcli.numerics import (
    FloatArray,
    softmax,
)
from calcli.rows import Rows

# columns held at once; more classes than fit mean more walks over the rows
COLUMN_BYTES = 96 << 20


def class_columns(
    rows: Rows, calibrator: Calibrator | None = None, *, raw: bool = False
) -> Iterator[tuple[int, FloatArray]]:
    """Walk over (class, probabilities (n,) float64), classes ascending, in bounded
    memory. raw : each class's own value, before a calibrator with one map per class
    divides by the row's sum.
    """
    width = max(1, min(rows.k, COLUMN_BYTES // (8 * rows.n)))
    wanted = rows.places_of(
        () if calibrator is None else calibrator.required_transforms
    )
    columns = np.empty((width, rows.n))
    for first in range(0, rows.k, width):
        last = min(first + width, rows.k)
        for block in rows.blocks(wanted):
            here = block.span
            if calibrator is not None:
                block = calibrator.reading(block)
            if calibrator is not None and raw:
                p = calibrator.marginals(block)[:, first:last]
            elif calibrator is not None:
                p = np.exp(calibrator.apply(block).log_probs[:, first:last])
            elif block.kind == "probs":
                p = block.scores[:, first:last].astype(np.float64)
                p /= divisors(block.scores)[:, None]
            else:
                p = softmax(block.z)[:, first:last]
            columns[: last - first, here] = p.T
        for c in range(first, last):
            yield c, columns[c - first]
