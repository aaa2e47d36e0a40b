"""What the writer logged beside the scores (predictions, whether they were right), held against them row by row."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError
from calcli.importers.archive import Entry
from calcli.importers.array_names import parse_name
from calcli.numerics import IntArray

__all__ = ["check_logs"]

PREDICTIONS = {
    "pred", "preds", "prediction", "predictions", "pred_label", "pred_labels", "predicted", "predicted_label",
    "predicted_labels", "predicted_class", "pred_class", "y_pred", "y_hat", "yhat", "argmax",
}  # fmt: skip
"""Names under which writers log the class they predict."""

OUTCOMES = frozenset({"acc", "correct", "is_correct", "iscorrect", "exact_match"})
"""Names under which they log whether it was right."""

BLOCK_BYTES = 4 << 20
"""How much of a source is looked at at once."""

HINT = ": are the columns in the order of the classes, the rows in the same order? --scores NAME takes them as they are"


def check_logs(
    scores: Any, path: str, labels: IntArray | None, names: Sequence[str] | None, entries: Mapping[str, Entry]
) -> list[str]:
    """Refuse scores that contradict a logged prediction or outcome at the first such row; say what agreed.

    scores : (n, k), or (n,) for two classes. Ties may go either way. Of two classes the
    prediction may have been made at any threshold, but not the wrong way round.
    """
    here, told = parse_name(path), []
    n, k = scores.shape[0], max(scores.shape[1] if len(scores.shape) == 2 else 1, 2)
    calibrated = any(parse_name(name).core.lower() == "confidence" for name in entries)  # may keep another prediction
    for name, entry in entries.items():
        other = parse_name(name)
        if (other.folder, other.split) != (here.folder, here.split):
            continue
        core = other.core.lower()
        if core in PREDICTIONS and not calibrated:
            logged = _classes(entry, n, names)
        elif core in OUTCOMES and labels is not None:
            right = _truths(entry, n)
            logged = None if right is None else np.where(right, labels, -1 if k > 2 else 1 - labels)
        else:
            continue
        if logged is None:
            continue
        _hold(scores, labels if core in OUTCOMES else None, logged, path, entry)
        told.append(f"{other.core!r} agrees in every row")
    return told


def _hold(scores: Any, labels: IntArray | None, logged: IntArray, path: str, entry: Entry) -> None:
    """logged : the class that is said to be the largest, -1 for one that is not the label (labels given)."""
    low, high = np.inf, -np.inf  # of two classes: least score called 1, largest called 0
    for start, block in _blocks(scores):
        part = logged[start : start + len(block)]
        if block.ndim == 1 or block.shape[1] < 3:
            margin = block.reshape(len(block), -1).astype(np.float64)
            margin = margin[:, 0] if margin.shape[1] == 1 else margin[:, 1] - margin[:, 0]
            low = min(low, margin[part == 1].min(initial=np.inf))
            high = max(high, margin[part == 0].max(initial=-np.inf))
            if low < high:
                raise DataError(
                    f"{entry.where}: no threshold on {path!r} gives it: some row is called class 1 at a lower score"
                    f" than another that is called class 0{HINT}"
                )
            continue
        rows, best = np.arange(len(block)), block.max(axis=1)
        inside = (part >= 0) & (part < block.shape[1])
        wrong = np.where(inside, block[rows, np.where(inside, part, 0)], -np.inf) < best
        if labels is not None:
            truth = labels[start : start + len(block)]
            alone = (block == best[:, None]).sum(axis=1) == 1
            at_truth = block[rows, np.clip(truth, 0, block.shape[1] - 1)] == best
            wrong = np.where(part < 0, at_truth & alone, wrong) & (truth >= 0) & (truth < block.shape[1])
        if wrong.any():
            row = int(np.argmax(wrong))
            largest = f"the largest of {path!r} is class {int(block[row].argmax())}"
            said = f"has prediction {part[row]}"
            if labels is not None:
                said = f"is logged as {'right' if part[row] >= 0 else 'wrong'}, its label is {labels[start + row]}"
            raise DataError(f"{entry.where}: row {start + row} {said}, but {largest}{HINT}")


def _classes(entry: Entry, n: int, names: Sequence[str] | None) -> IntArray | None:
    """Logged classes (n,), by number or by name; None for what is neither."""
    values = _load(entry, n)
    if values is None:
        return None
    if values.dtype.kind in "US" and names is not None:
        index = {name: place for place, name in enumerate(names)}
        places = np.array([index.get(str(value), -1) for value in values.tolist()], dtype=np.int64)
        return None if (places < 0).any() else places
    if values.dtype.kind == "f" and (values == np.floor(values)).all():
        values = values.astype(np.int64)
    return values.astype(np.int64) if values.dtype.kind in "iu" else None


def _truths(entry: Entry, n: int) -> NDArray[np.bool_] | None:
    """Logged outcomes (n,), bool or 0/1; None for shares and words."""
    values = _load(entry, n)
    if values is None or values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        return None
    return values.astype(bool)


def _load(entry: Entry, n: int) -> NDArray[Any] | None:
    try:
        values = np.asarray(entry.load()[()])
    except DataError:
        return None  # a column with holes is no log of every row
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    return values if values.shape == (n,) else None


def _blocks(scores: Any) -> Iterator[tuple[int, NDArray[Any]]]:
    width = 1 if len(scores.shape) == 1 else scores.shape[1]
    step = max(1, BLOCK_BYTES // (width * scores.dtype.itemsize))
    for start in range(0, scores.shape[0], step):
        yield start, np.asarray(scores[start : start + step])
