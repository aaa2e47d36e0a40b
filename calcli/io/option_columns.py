"""Bundles whose columns are options of the row, not classes.

Where the options differ from row to row (tools, folders, choices of a question), row i
has ``n_options[i]`` scores, in its own order, and is padded: log-probabilities and
logits with -inf, probabilities with 0. In memory padding is a score so low that its
probability is 0 at every temperature, as -inf would make differences that are no
number.
"""

from typing import Any

import numpy as np

from calcli.block import PADDING
from calcli.errors import DataError
from calcli.io.validate import check_scores
from calcli.numerics import AnyArray, BoolArray, FloatArray, IntArray
from calcli.rounding import FLOAT64, digits_of_values
from calcli.rows import ScoreKind
from calcli.zeros import Zeros

COLUMNS = "columns"
OPTIONS = "options"
"""Attribute of a bundle whose columns are options, and its value."""

N_OPTIONS = "n_options"


def is_padding(n_options: IntArray, k: int) -> BoolArray:
    """Mask (b, k) of the columns that are no options of their row."""
    return np.arange(k)[None, :] >= n_options[:, None]


def dtype_with_padding(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Type of scores in memory that holds ``PADDING``: float32 in place of float16."""
    return np.promote_types(dtype, np.float32)


def check_n_options(values: AnyArray, n: int, k: int, where: str) -> IntArray:
    """Check the numbers of options of n rows of k columns. Raises DataError."""
    if values.shape != (n,) or values.dtype.kind not in "iu":
        raise DataError(
            f"{where}: has type {values.dtype} and shape {values.shape}, expected"
            f" integers ({n},), one per row"
        )
    bad = (values < 1) | (values > k)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"{where}: row {row} is {values[row]}, expected 1 to {k}, the columns;"
            " store the options of each row"
        )
    return values.astype(np.int64)


def has_padding_of_files(
    scores: AnyArray, n_options: IntArray, kind: ScoreKind
) -> bool:
    """True if rows (b, k) of a file have its padding after their options."""
    padding = is_padding(n_options, scores.shape[1])
    return bool((scores[padding] == _padding_in_files(kind)).all())


def padded_in_memory(
    scores: AnyArray, n_options: IntArray, kind: ScoreKind, where: str, first_row: int
) -> AnyArray:
    """Scores (b, k) of a file, padded with ``PADDING``, or probabilities with 0.

    They keep their kind. Raises DataError for another padding than that of files.
    """
    padding = is_padding(n_options, scores.shape[1])
    expected = _padding_in_files(kind)
    wrong = padding & (scores != expected)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        message = f"row {first_row + row}, column {column} is {scores[row, column]:g}"
        number = int(n_options[row])
        raise DataError(
            f"{where}: {message}, expected {expected:g} after its {number} options"
        )
    fill = 0.0 if kind == "probs" else PADDING
    return np.where(padding, fill, scores)


def scores_in_memory(
    scores: AnyArray,
    n_options: IntArray,
    kind: ScoreKind,
    where: str,
    first_row: int = 0,
) -> AnyArray:
    """Scores (b, k) of a file as calcli works on them, padded with ``PADDING``.

    As ``padded_in_memory``, but probabilities become logarithms: their padding is no
    zero that was rounded. Raises DataError for other padding, and for rows of
    probabilities that do not sum to 1.
    """
    filled = padded_in_memory(scores, n_options, kind, where, first_row)
    if kind != "probs":
        return filled
    check_scores(filled, kind, where, first_row)
    logs = log_probabilities(filled.astype(np.float64), n_options)
    return padded_in_memory(logs, n_options, "log_probs", where, first_row)


def padded_for_files(
    scores: AnyArray, n_options: IntArray, kind: ScoreKind
) -> AnyArray:
    """Scores (b, k) padded as files are: with -inf, or probabilities with 0."""
    padding = is_padding(n_options, scores.shape[1])
    return np.where(padding, _padding_in_files(kind), scores).astype(scores.dtype)


def _padding_in_files(kind: ScoreKind) -> float:
    return 0.0 if kind == "probs" else -np.inf


def zeros_of_options(probabilities: FloatArray, n_options: IntArray) -> Zeros:
    """What a zero counts as among padded probabilities (n, k)."""
    padding = is_padding(n_options, probabilities.shape[1])
    values = probabilities[~padding][:, None]
    return Zeros.of(digits_of_values(values, FLOAT64), FLOAT64)


def log_probabilities(probabilities: FloatArray, n_options: IntArray) -> FloatArray:
    """Logarithms of padded probabilities (n, k), -inf where a row has no option.

    Zeros count by their last digit, as in all of calcli; rows are normalised.
    """
    padding = is_padding(n_options, probabilities.shape[1])
    zeros = zeros_of_options(probabilities, n_options)
    n_zeros = ((probabilities <= zeros.clip) & ~padding).sum(axis=1)
    logs = np.empty(probabilities.shape)
    for column in range(probabilities.shape[1]):
        part = zeros.log_of_columns(probabilities, n_zeros, slice(column, column + 1))
        logs[:, column] = part[:, 0]
    logs[padding] = -np.inf
    largest = logs.max(axis=1, keepdims=True)
    norm = np.log(np.exp(logs - largest).sum(axis=1, keepdims=True)) + largest
    return logs - norm
