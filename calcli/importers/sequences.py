"""Scores of every token of a sequence, made one per row."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError
from calcli.importers.ask import Ask

__all__ = ["reduced", "token_rows"]


def reduced(values: NDArray[Any], how: str, axis: int = 0) -> Any:
    """The sum, mean, least or first of values along an axis; NaN is padding."""
    if how == "first":
        return np.take(values, 0, axis=axis)
    if how == "sum":
        return np.nansum(values, axis=axis)
    return np.nanmean(values, axis=axis) if how == "mean" else np.nanmin(values, axis=axis)


def token_rows(rows: Sequence[Mapping[str, Any]], ask: Ask, where: str) -> list[dict[str, Any]]:
    """Rows whose field ``--confidence`` is a list over tokens, with one number in its place.

    Lists of log-probabilities (none above 0) or probabilities; the result is the exponential
    of the reduced log-probabilities. ``--reduce none`` makes every token a row, with its own
    entry of every list of the same length. Rows without such a list stay. Raises DataError.
    """
    name = ask.confidence or ""
    if ask.reduce is None or not any(isinstance(row.get(name), list) for row in rows):
        return [dict(row) for row in rows]
    made: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        tokens = row.get(name)
        if not isinstance(tokens, list) or not tokens:
            raise DataError(f"{where}: row {number} has no list of tokens in {name!r}, expected one number per token")
        try:
            values = np.array([np.nan if token is None else token for token in tokens], dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"{where}: row {number} has something in {name!r} that is no number") from None
        if np.nanmin(values) < 0 < np.nanmax(values) or np.nanmax(values) > 1:
            raise DataError(f"{where}: {name!r} of row {number} holds neither log-probabilities nor probabilities")
        if np.nanmax(values) > 0:
            values = np.log(np.maximum(values, np.finfo(float).tiny))
        if ask.reduce == "none":
            lists = {key: value for key, value in row.items() if isinstance(value, list) and len(value) == len(tokens)}
            made += [
                {**row, **{key: value[i] for key, value in lists.items()}, name: float(np.exp(values[i]))}
                for i in np.flatnonzero(~np.isnan(values))
            ]
        else:
            made.append({**row, name: float(np.exp(reduced(values, ask.reduce)))})
    return made
