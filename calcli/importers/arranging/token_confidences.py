"""Confidences of answers, made of those of their tokens."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.import_request import ImportRequest
from calcli.importers.table import Record
from calcli.items import has_any
from calcli.numerics import AnyArray, FloatArray
from calcli.rounding import FLOAT64, digits_of_values
from calcli.zeros import Zeros


def reduced(values: AnyArray, how: str, axis: int = 0) -> Any:
    """The sum, mean, minimum or first of values along an axis; NaN is padding."""
    if how == "first":
        return np.take(values, 0, axis=axis)
    if how == "sum":
        return np.nansum(values, axis=axis)
    if how == "mean":
        return np.nanmean(values, axis=axis)
    return np.nanmin(values, axis=axis)


def token_rows(
    rows: Sequence[Record], request: ImportRequest, where: str
) -> list[dict[str, Any]]:
    """Reduce the field ``--confidence``, a list over tokens, to one number a row.

    The list holds log-probabilities (<= 0) or probabilities; the number is the
    exponential of the reduced log-probabilities. ``--reduce none`` makes every token a
    row, with its own entry of every list of the same length. If no row has such a list,
    rows are unchanged. Raises DataError.
    """
    name = request.confidence or ""
    has_lists = has_any(list, [row.get(name) for row in rows])
    if request.reduce is None or not has_lists:
        return [dict(row) for row in rows]
    tokens = []
    for number, row in enumerate(rows):
        tokens.append(_tokens(row.get(name), name, f"{where}: row {number}"))
    zeros = _zeros_of_tokens(tokens)
    made: list[dict[str, Any]] = []
    for row, values in zip(rows, tokens, strict=True):
        if request.reduce == "none":
            made += _rows_of_tokens(row, name, values)
            continue
        logs = values if _are_logs(values) else zeros.confidence_logs(values)[0]
        confidence = float(np.exp(reduced(logs, request.reduce)))
        made.append({**row, name: confidence})
    return made


def _tokens(tokens: Any, name: str, where: str) -> FloatArray:
    """Numbers of the tokens of a row, NaN where there is none. Raises DataError."""
    if not isinstance(tokens, list) or not tokens:
        raise DataError(
            f"{where} has no list of tokens in {name!r}, expected one number per token"
        )
    try:
        values = np.array(tokens, dtype=np.float64)  # None becomes NaN
    except (TypeError, ValueError):
        raise DataError(
            f"{where} has something in {name!r} that is no number"
        ) from None
    largest = np.nanmax(values)
    if np.nanmin(values) < 0 < largest or largest > 1:
        file, _, row = where.rpartition(": ")
        raise DataError(
            f"{file}: {name!r} of {row} holds neither log-probabilities nor"
            " probabilities"
        )
    return values


def _are_logs(values: FloatArray) -> bool:
    """True for log-probabilities, of which none is above 0."""
    return not np.nanmax(values) > 0


def _zeros_of_tokens(tokens: Sequence[FloatArray]) -> Zeros:
    """What a probability of 0 counts as among those of all tokens."""
    probabilities = []
    for values in tokens:
        if not _are_logs(values):
            probabilities.append(values[~np.isnan(values)])
    if not probabilities:
        return Zeros.of_type(np.dtype(np.float64), one_column=True)
    column = np.concatenate(probabilities)[:, None]
    return Zeros.of(digits_of_values(column), FLOAT64, one_column=True, decimals=0)


def _rows_of_tokens(row: Record, name: str, values: FloatArray) -> list[dict[str, Any]]:
    """A row for every token, with its own entry of every list of the same length."""
    lists = {}
    for key, value in row.items():
        if isinstance(value, list) and len(value) == len(values):
            lists[key] = value
    probabilities = np.exp(values) if _are_logs(values) else values
    made = []
    for token in np.flatnonzero(~np.isnan(values)):
        entries = {key: value[token] for key, value in lists.items()}
        entries[name] = float(probabilities[token])
        made.append({**row, **entries})
    return made
