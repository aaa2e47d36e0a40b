"""Scores with one axis more: the tokens of a sequence, or several scores (prompts, crops, passes) of every row."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError
from calcli.importers.import_request import ImportRequest
from calcli.importers.remarks import remark
from calcli.numerics import AnyArray
from calcli.rows import ScoreKind


def one_a_row(
    scores: Any, labels: AnyArray | None, how: str | None, kind: ScoreKind, where: str
) -> tuple[Any, ScoreKind]:
    """Scores (rows, m, classes) or (m, rows, classes) with one in the place of the m of a row, and their kind.

    how : ``--reduce``; what is added up or compared are logits afterwards, as it sums to no 1. labels : (rows,) tell
    which axis is that of the rows, else the first is. Raises DataError for such scores without a how, UsageError
    for one that does not fit.
    """
    shape, n = tuple(scores.shape), None if labels is None else len(labels)
    axes = [axis for axis in (1, 0) if len(shape) == 3 and n in (None, shape[1 - axis])]
    if how is None:
        if len(shape) != 3:
            return scores, kind
        raise DataError(
            f"{where}: has shape {shape}, expected (rows, classes); of several scores a row (tokens, prompts, crops)"
            " --reduce mean makes one, which needs labels, one per row, to tell the rows"
        )
    if not axes:
        raise UsageError(f"--reduce {how}: {where} has shape {shape}, expected (rows, positions, classes)")
    if how == "none":
        raise UsageError(f"--reduce none: {where} needs a label per position, {shape[:2]}")
    if labels is not None and labels.ndim > 1 and labels.shape[1] > 1:
        raise UsageError(f"--reduce {how}: labels have shape {labels.shape}, expected one per row; --reduce none")
    if how in ("sum", "min") and kind == "probs":
        raise UsageError(f"--reduce {how}: {where} holds probs, whose {how} is none; save log_probs, or --reduce mean")
    changed: ScoreKind = "logits" if kind == "log_probs" and how != "first" else kind
    remark(f"{where}: {how} of {shape[axes[0]]} positions ({changed})")
    return reduced(np.asarray(scores[()], dtype=np.float64), how, axis=axes[0]).astype(scores.dtype), changed


def reduced(values: AnyArray, how: str, axis: int = 0) -> Any:
    """The sum, mean, least or first of values along an axis; NaN is padding."""
    if how == "first":
        return np.take(values, 0, axis=axis)
    if how == "sum":
        return np.nansum(values, axis=axis)
    return np.nanmean(values, axis=axis) if how == "mean" else np.nanmin(values, axis=axis)


def token_rows(rows: Sequence[Mapping[str, Any]], ask: ImportRequest, where: str) -> list[dict[str, Any]]:
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
