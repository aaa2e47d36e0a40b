"""Class frequencies that changed."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from calcli.block import Block
from calcli.calibrator import Calibrator, Context, Fit, Laws, Prediction, param
from calcli.numerics import FloatArray, log_softmax, row_weights
from calcli.rows import Rows

LEAST = 1e-12  # least share of a class


@dataclass(frozen=True)
class PriorShift(Calibrator):
    """Move probabilities from the class frequencies of one population to another.

    p' = p target / source, divided by its sum: right where the classes have other
    frequencies than among the rows of the fit, and rows of a class are as they were
    (label shift). ``calcli adapt`` makes it behind a calibrator with class biases, from
    unlabelled rows or from known shares. Fitted by itself, source is the mean
    probability of every class and target its share among the labels, with half a row
    more for every class.

    Reference: Saerens, Latinne, Decaestecker (2002), equation 2.4.
    """

    source: FloatArray = param("k", within="shares")
    target: FloatArray = param("k", within="shares")

    list_order = 97
    aliases = ("label-shift", "prior-shift")
    use = "the classes have other frequencies than before: calcli adapt"
    title = "correction of class frequencies"
    laws = Laws(shift_invariant=True, equivariant=True, weights=True, memory="stream")

    @classmethod
    def fit(cls, rows: Rows, options: Any, context: Context) -> Fit[Self]:
        source, labels = rows.sum(partial(_sums, rows.k))
        labels += 0.5
        return Fit(cls(np.maximum(source / source.sum(), LEAST), labels / labels.sum()))

    def apply(self, block: Block) -> Prediction:
        shifted = Prediction.by_argmax(
            log_softmax(block.z + (np.log(self.target) - np.log(self.source)))
        )
        changed = int((shifted.label != block.prediction).sum())
        return replace(shifted, counts={"predictions_changed": changed})


def _sums(k: int, block: Block) -> FloatArray:
    """Weighted sums over a block's rows, (2, k): of probabilities, and of labels."""
    w = row_weights(block.weight, len(block))
    return np.stack(
        [
            w @ np.exp(log_softmax(block.z)),
            np.bincount(block.labels, weights=w, minlength=k),
        ]
    )
