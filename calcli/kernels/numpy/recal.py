"""ReCal's heavy loops, in NumPy: how sharp every row is at an inverse temperature of
its own.

ReCal only ever multiplies the log-probabilities of a row by a number. After any number
of rounds they are therefore log softmax(s z) of the *original* logits with one number s
per row, and all that a round needs of a row is what softmax(s z) does near s: its
normaliser and its first four cumulants. Memory is some numbers per row, whatever k is.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from calcli.block import Block
from calcli.numerics import BoolArray, FloatArray, IntArray, in_column
from calcli.rows import Rows


class TiltedRows(NamedTuple):
    """Rows at their inverse temperatures s, x = s (z - max z) <= 0, p = softmax(x).

    log_top : (n,) log of the largest probability. cumulants : (4, n) of x under p,
    which are the derivatives of log sum exp(beta x) in beta at beta = 1.
    """

    log_top: FloatArray
    cumulants: FloatArray


def log_confidence(gaps: FloatArray, scale: FloatArray) -> FloatArray:
    """Log of the largest probability of softmax(scale gaps): minus its log-normaliser.

    gaps : (b, k) z - max z. scale : (b,) positive. Returns (b,) <= 0.
    """
    x = gaps * scale[:, None]
    np.exp(x, out=x)
    return -np.log(x.sum(axis=1))


def log_share(
    gaps: FloatArray, scale: FloatArray, chosen: IntArray | None
) -> FloatArray:
    """Log-probability of one class per row of softmax(scale gaps), of the largest if
    None.
    """
    top = log_confidence(gaps, scale)
    return top if chosen is None else top + scale * in_column(gaps, chosen)


class RowSharpness:
    """The scores behind ReCal's rounds: every method walks over the rows once.

    label_gap : (n,) z_y - max z <= 0. predicted : (n,) argmax, ties to the lowest
    index.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        gaps, predicted = zip(*rows.each(_label_gap), strict=True)
        self.label_gap: FloatArray = np.concatenate(gaps)
        self.predicted: IntArray = np.concatenate(predicted)

    def tilt(self, scale: FloatArray, wanted: BoolArray | None = None) -> TiltedRows:
        """Rows at ``scale`` (n,); those not ``wanted`` cost nothing and hold zeros."""
        along = (scale,) if wanted is None else (scale, wanted)
        log_top, cumulants = zip(*self.rows.each(_tilted, *along), strict=True)
        return TiltedRows(np.concatenate(log_top), np.concatenate(cumulants, axis=1))

    def response(
        self, transform: int, scale: FloatArray, of_own_class: bool
    ) -> tuple[FloatArray, BoolArray]:
        """Effect of the transform with this index on the rows, (n,) each.

        Log-probability under it of the class predicted for the original row, or with
        ``of_own_class`` of its own; and whether both predict the same.
        """
        work = partial(_response, of_own_class)
        share, agree = zip(
            *self.rows.each(work, self.predicted, scale, transforms=[transform]),
            strict=True,
        )
        return np.concatenate(share), np.concatenate(agree)


def _label_gap(block: Block) -> tuple[FloatArray, IntArray]:
    z = block.z
    return in_column(z, block.labels) - z.max(axis=1), z.argmax(axis=1)


def _tilted(
    block: Block, scale: FloatArray, wanted: BoolArray | None = None
) -> tuple[FloatArray, FloatArray]:
    log_top = np.zeros(len(block))
    cumulants = np.zeros((4, len(block)))
    here = slice(None) if wanted is None else np.flatnonzero(wanted)
    z = block.z[here]
    # Moments about the largest logit do not cancel.
    x = (z - z.max(axis=1, keepdims=True)) * scale[here][:, None]
    p = np.exp(x)
    norm = p.sum(axis=1)
    m1 = np.einsum("ij,ij->i", p, x) / norm
    square = x * x
    p *= square
    m2 = p.sum(axis=1) / norm
    m3 = np.einsum("ij,ij->i", p, x) / norm
    m4 = np.einsum("ij,ij->i", p, square) / norm
    log_top[here] = -np.log(norm)
    cumulants[:, here] = cumulants_of(m1, m2, m3, m4)
    return log_top, cumulants


def cumulants_of(m1: Any, m2: Any, m3: Any, m4: Any) -> list[Any]:
    """The first four cumulants of these moments."""
    k3 = m3 - 3 * m2 * m1 + 2 * m1**3
    k4 = m4 - 4 * m3 * m1 - 3 * m2 * m2 + 12 * m2 * m1 * m1 - 6 * m1**4
    return [m1, m2 - m1 * m1, k3, k4]


def _response(
    of_own_class: bool, block: Block, predicted: IntArray, scale: FloatArray
) -> tuple[FloatArray, BoolArray]:
    z = block.transformed_z(0)
    gaps = z - z.max(axis=1, keepdims=True)
    share = log_share(gaps, scale, None if of_own_class else predicted)
    return share, z.argmax(axis=1) == predicted
