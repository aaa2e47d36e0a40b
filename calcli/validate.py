"""What scores, labels and weights must be. The one validation path of readers and writers.

Every problem is a DataError that names file, dataset, first bad row, what was found,
what was expected and what to do.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError
from calcli.numerics import FloatArray, IntArray, log_normalizer
from calcli.rows import SCORE_KINDS, ScoreKind

__all__ = [
    "SUM_TOLERANCE",
    "check_labels",
    "check_scores",
    "check_shape",
    "check_weights",
    "look_like_probabilities",
    "score_kind",
]

SUM_TOLERANCE = 1e-3
"""How far the probabilities of a row may sum from 1."""


def score_kind(text: str) -> ScoreKind:
    """Check the name of a score kind. Raises DataError for anything but the three."""
    if text not in SCORE_KINDS:
        raise DataError(f"score kind {text!r} is not known, expected one of {', '.join(SCORE_KINDS)}")
    return text  # type: ignore[return-value]


def check_shape(shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> tuple[int, int]:
    """Rows and classes of a score array of this shape: (n, k), or (n,) / (n, 1) for binary scores."""
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise DataError(
            f"{where}: scores have type {dtype}, expected float16, float32 or float64;"
            " store the model's raw outputs, not class indices"
        )
    if len(shape) not in (1, 2):
        raise DataError(f"{where}: scores have shape {shape}, expected (rows, classes) or (rows,) for a binary model")
    n = shape[0]
    if n == 0:
        raise DataError(f"{where}: there are no rows, expected at least one")
    columns = shape[1] if len(shape) == 2 else 1
    if columns == 0:
        raise DataError(f"{where}: scores have shape {shape}, expected at least one column")
    return n, max(columns, 2)


def check_scores(scores: NDArray[Any], kind: ScoreKind, where: str, first_row: int = 0) -> NDArray[Any]:
    """Check a block of scores and give binary scores their two columns.

    scores : (b, k), or (b,) / (b, 1) for a binary model's score of class 1: a logit z
    becomes (0, z), a probability p becomes (1 - p, p). Returns (b, k) in the precision of
    the input (binary probabilities in float64, so that 1 - p keeps its digits).
    """
    if not np.isfinite(scores.sum(dtype=np.float64 if scores.dtype.itemsize < 4 else None)):
        finite = np.isfinite(scores.reshape(len(scores), -1))
        if not finite.all():
            row = int(np.argmin(finite.all(axis=1)))
            column = int(np.argmin(finite[row]))
            value = scores.reshape(len(scores), -1)[row, column]
            raise DataError(
                f"{where}: row {first_row + row}, class {column} is {value}, expected a finite number;"
                " drop the row or fix the model's output (apply no mask before saving)"
            )
    if scores.ndim == 1 or scores.shape[1] == 1:
        return _binary(scores.reshape(-1), kind, where, first_row)
    if kind == "probs":
        _check_probabilities(scores, where, first_row)
    elif kind == "log_probs":
        _check_sums(np.exp(np.minimum(log_normalizer(scores.astype(np.float64)), 700.0)), where, first_row)
    return scores


def _binary(score: NDArray[Any], kind: ScoreKind, where: str, first_row: int) -> NDArray[Any]:
    if kind == "logits":
        return np.stack([np.zeros_like(score), score], axis=1)
    s = score.astype(np.float64)
    p = np.exp(s) if kind == "log_probs" else s
    bad = (p < 0) | (p > 1 + SUM_TOLERANCE)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"{where}: row {first_row + row} gives class 1 the probability {p[row]:.6g}, expected a number"
            " in [0, 1]; if these are logits, name the dataset logits or pass --kind logits"
        )
    p = np.minimum(p, 1.0)
    both = np.stack([1.0 - p, p], axis=1)
    if kind == "probs":
        return both
    with np.errstate(divide="ignore"):
        return np.maximum(np.stack([np.log1p(-p), s], axis=1), np.log(np.finfo(np.float64).tiny))


def _check_probabilities(p: NDArray[Any], where: str, first_row: int) -> None:
    if p.min() < 0:
        row = int(np.argmax((p < 0).any(axis=1)))
        column = int(np.argmax(p[row] < 0))
        raise DataError(
            f"{where}: row {first_row + row}, class {column} is {p[row, column]:.6g}, expected a probability >= 0;"
            " if these are logits, name the dataset logits or pass --kind logits"
        )
    _check_sums(p.sum(axis=1, dtype=np.float64), where, first_row)


def _check_sums(sums: FloatArray, where: str, first_row: int) -> None:
    off = np.abs(sums - 1.0) > SUM_TOLERANCE
    if off.any():
        row = int(np.argmax(off))
        raise DataError(
            f"{where}: the probabilities of row {first_row + row} sum to {sums[row]:.6g}, expected 1 within"
            f" {SUM_TOLERANCE:g}; if these are logits, name the dataset logits or pass --kind logits"
        )


def look_like_probabilities(scores: NDArray[Any]) -> bool:
    """Whether every row of these "logits" lies in [0, 1] and sums to 1: most likely probabilities."""
    if scores.min() < 0 or scores.max() > 1 + SUM_TOLERANCE:
        return False
    return bool((np.abs(scores.sum(axis=1, dtype=np.float64) - 1.0) <= SUM_TOLERANCE).all())


def check_labels(labels: NDArray[Any], n: int, k: int, where: str, ignore: tuple[int, ...] = ()) -> IntArray:
    """Check the labels of all rows: (n,) integers in 0..k-1, or one of the labels to ignore.

    Returns (n,) int64 with the ignored labels still in place.
    """
    if labels.dtype.kind not in "iu":
        raise DataError(f"{where}: labels have type {labels.dtype}, expected integers 0..{k - 1}")
    if labels.ndim != 1:
        raise DataError(f"{where}: labels have shape {labels.shape}, expected ({n},): one class index per row")
    if len(labels) != n:
        raise DataError(f"{where}: there are {len(labels)} labels for {n} rows of scores; they must belong together")
    y = labels.astype(np.int64)
    bad = (y < 0) | (y >= k)
    if bad.any() and ignore:
        bad &= ~np.isin(y, ignore)
    if bad.any():
        row = int(np.argmax(bad))
        ones = "; labels look 1-based: subtract 1" if y[row] == k and y.min() == 1 else ""
        masks = "; pass --ignore-label if it marks rows to leave out" if y[row] < 0 or y[row] > k else ""
        raise DataError(f"{where}: row {row} has label {y[row]}, expected 0..{k - 1}{ones}{masks}")
    return y


def check_weights(weights: NDArray[Any], n: int, where: str) -> FloatArray:
    """Check sample weights: (n,) finite numbers >= 0, not all zero. Returns float64."""
    if weights.dtype.kind not in "fiu" or weights.shape != (n,):
        raise DataError(f"{where}: weights have type {weights.dtype} and shape {weights.shape}, expected floats ({n},)")
    w = weights.astype(np.float64)
    bad = ~np.isfinite(w) | (w < 0)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"{where}: row {row} has weight {w[row]}, expected a finite number >= 0")
    if not w.any():
        raise DataError(f"{where}: all weights are zero, expected at least one positive weight")
    return w
