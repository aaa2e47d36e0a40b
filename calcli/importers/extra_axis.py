"""Scores with one axis more: several views (prompts, crops, passes) of every row, or the tokens of a sequence."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError, UsageError
from calcli.fast_dataclass import dataclass
from calcli.importers.import_request import ImportRequest
from calcli.importers.remarks import remark
from calcli.numerics import whole_number
from calcli.rows import ScoreKind


@dataclass(frozen=True)
class Viewed:
    """Scores with two axes.

    labels : as they belong to them. moved : transformed scores and their specs. kind : of the
    scores, where it has changed.
    """

    scores: Any
    labels: NDArray[Any] | None
    moved: tuple[Any, tuple[str, ...]] | None = None
    kind: ScoreKind | None = None


def settle_views(
    scores: Any, labels: NDArray[Any] | None, wish: str | None, kind: ScoreKind, where: str, reduce: str | None = None
) -> Viewed:
    """Give scores (views, n, k), (n, views, k) or (n, positions, k) their two axes.

    labels (n,) tell which axis the views are. wish : ``take=I`` one view, ``mean`` the mean of what is saved (logits or
    probabilities), ``transforms`` view 0 with the others as transforms for ReCal. reduce : how
    the positions of a sequence, the second axis, become one where labels are (n,): what is
    added up or compared are logits afterwards, as it sums to no 1. Raises DataError for a third
    axis without a wish, UsageError for a wish that does not fit.
    """
    if reduce is not None:
        return _reduced(scores, labels, reduce, kind, where)
    if len(scores.shape) != 3:
        if wish is not None:
            raise UsageError(f"--views {wish}: {where} has shape {tuple(scores.shape)}, no axis of views")
        return Viewed(scores, labels)
    shape = tuple(scores.shape)
    axes = [axis for axis in (0, 1) if labels is not None and shape[1 - axis] == labels.shape[0]]
    if len(axes) != 1:
        raise DataError(
            f"{where}: has shape {shape}, expected (rows, classes); labels, one per row, would tell which of the first"
            " two axes are views of the same rows"
        )
    axis = axes[0]
    views = np.moveaxis(np.asarray(scores[()]), axis, 0)
    if wish is None:
        raise DataError(
            f"{where}: has shape {shape}: {len(views)} views of {views.shape[1]} rows; say what to do with them:"
            " --views take=0, --views mean, or --views transforms"
        )
    if wish == "mean":
        remark(f"{where}: the mean of {len(views)} views ({kind} as saved)")
        return Viewed(views.mean(axis=0, dtype=np.float64).astype(views.dtype), labels)
    if wish == "transforms":
        if kind != "logits":
            raise UsageError(f"--views transforms: ReCal needs logits, {where} holds {kind}")
        specs = tuple(f"view:{i}" for i in range(1, len(views)))
        remark(f"{where}: view 0, the others as transforms")
        return Viewed(views[0], labels, (views[1:], specs))
    number = whole_number(wish.removeprefix("take="))
    if not wish.startswith("take=") or number is None or number >= len(views):
        raise UsageError(f"--views {wish}: expected take=0 to take={len(views) - 1}, mean or transforms")
    remark(f"{where}: view {number} of {len(views)}")
    return Viewed(views[number], labels)


def _reduced(scores: Any, labels: NDArray[Any] | None, how: str, kind: ScoreKind, where: str) -> Viewed:
    """Scores (n, positions, k), with one position in the place of all."""
    if len(scores.shape) != 3 or (labels is not None and len(labels) != scores.shape[0]):
        shape = tuple(scores.shape)
        raise UsageError(f"--reduce {how}: {where} has shape {shape}, expected (rows, positions, classes)")
    if how == "none":
        raise UsageError(f"--reduce none: {where} needs a label per position, {tuple(scores.shape[:2])}")
    if labels is not None and labels.ndim > 1 and labels.shape[1] > 1:
        raise UsageError(f"--reduce {how}: labels have shape {labels.shape}, expected one per row; --reduce none")
    values = np.asarray(scores[()], dtype=np.float64)
    if how in ("sum", "min") and kind == "probs":
        raise UsageError(f"--reduce {how}: {where} holds probs, whose {how} is none; save log_probs, or --reduce mean")
    changed: ScoreKind | None = "logits" if kind == "log_probs" and how != "first" else None
    remark(f"{where}: {how} of {scores.shape[1]} positions ({changed or kind})")
    return Viewed(reduced(values, how, axis=1).astype(scores.dtype), labels, kind=changed)


def reduced(values: NDArray[Any], how: str, axis: int = 0) -> Any:
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
