"""Detect arrays that look like scores of classes but are not, and scores that contradict logged predictions."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from calcli.errors import DataError
from calcli.importers.archive import Entries, Entry, remark
from calcli.importers.array_names import parse_name, says_correct
from calcli.importers.labels import OPPOSITES
from calcli.io.validate import look_like_probabilities
from calcli.numerics import AnyArray, IntArray
from calcli.rows import ScoreKind

BLOCK_BYTES = 4 << 20  # bytes of scores checked at once
PREDICTIONS = {
    "pred", "preds", "prediction", "predictions", "pred_label", "pred_labels", "predicted", "predicted_label",
    "predicted_labels", "predicted_class", "pred_class", "y_pred", "y_hat", "yhat", "argmax",
}  # fmt: skip
"""Names of arrays of predicted classes."""

FEW = 4  # fewer rows may be sorted by accident


def refuse_impostors(scores: Any, kind: ScoreKind, where: str, *, forced: bool) -> None:
    """Raise DataError for predictions (every row one-hot) instead of scores, and, unless ``forced``, for probabilities
    declared as logits. Stops reading at the first row that excludes both."""
    width = 1 if len(scores.shape) == 1 else scores.shape[1]
    one_hot, simplex = True, kind == "logits" and not forced
    for _, raw in _blocks(scores):
        with np.errstate(
            invalid="ignore", over="ignore"
        ):  # NaN and infinities are refused later, with their row
            block = raw.reshape(-1, width).astype(np.float64)
            one_hot = one_hot and bool(((block == 0) | (block == 1)).all())
            one_hot = one_hot and (width == 1 or bool((block.sum(axis=1) == 1).all()))
            simplex = simplex and look_like_probabilities(block)
        if not (one_hot or simplex):
            return
    if one_hot and kind != "log_probs":
        told = "every row is a bare prediction (zeros and a one), without a confidence to calibrate"
        raise DataError(f"{where}: {told}; save the model's outputs before argmax")
    if simplex:
        told = f"{'' if width == 1 else ' and sums to 1'}; pass --kind probs if they are, --kind logits if they are not"
        raise DataError(
            f"{where}: these logits look like probabilities: every row lies in [0, 1]{told}"
        )


def refuse_ranks(scores: Any, where: str) -> None:
    """Raise DataError if every row is sorted: column i is then rank i, not class i."""
    if len(scores.shape) != 2 or scores.shape[1] < 3 or scores.shape[0] < FEW:
        return
    for _, block in _blocks(scores):
        left, right = (
            block[:, :-1],
            block[:, 1:],
        )  # compared, not subtracted, since scores may be infinite
        if (right > left).any() or not (right < left).any(axis=1).all():
            return
    told = "every row is sorted from the largest score to the smallest: these are ranks of the k best, not classes;"
    advice = "--classes C takes a table of them, --confidence prob_0 --correct index_0=TRUTH one, --scores NAME all"
    raise DataError(f"{where}: {told} {advice}")


def refuse_confidences(
    scores: Any, labels: IntArray, kind: ScoreKind, where: str
) -> None:
    """Raise DataError for one column of probabilities that is never below 1/2, though both classes occur."""
    if (
        kind != "probs"
        or (len(scores.shape) == 2 and scores.shape[1] > 1)
        or scores.shape[0] < 2 * FEW
    ):
        return
    if len(np.unique(labels)) == 2 and all(
        ((block >= 0.5) & (block <= 1)).all() for _, block in _blocks(scores)
    ):
        told = "no value is below .5 though both classes occur: is it the confidence of the prediction?"
        raise DataError(
            f"{where}: {told} --confidence NAME --correct NAME; else --scores NAME --labels NAME"
        )


def refuse_other_column(
    raw: AnyArray, n: int, word: str | None, where: str, labels_where: str
) -> None:
    """Raise DataError for one column of scores that is not that of class 1 by its labels or its name. word : the class
    that the column is named after, or None."""
    if raw.shape == (n,) and raw.dtype.kind in "iu" and raw.max() > 1:
        told = f"row {int(np.argmax(raw > 1))} has label {raw.max()}, but there is one score a row: is it the"
        advice = "confidence of a prediction? --confidence NAME --correct GUESS=LABEL; of labels 1 and 2 subtract 1"
        raise DataError(f"{labels_where}: {told} {advice}")
    known = (
        raw.ndim == 1 and word in np.unique(raw).tolist()
    )  # labels that are words determine its class
    last = (
        re.split(r"[\W_]+", word.lower())[-1] if word else ""
    )  # also in class_0, except single letters
    of_class_0 = {
        pair[0]
        for pair in OPPOSITES
        if len(pair[0]) > 1 or pair[0] in ("0", (word or "").lower())
    }
    if last in of_class_0 and not known:
        told = f"{where}: the one column of scores is that of {word!r}: of class 0? One score a row is that of class 1:"
        raise DataError(
            f"{told} save the other column, or 1 - p, of a logit -z; --scores NAME takes it as it is"
        )


def refuse_other_order(raw: AnyArray, names: Sequence[str], where: str) -> None:
    """Raise DataError for two columns in the order yes, no beside labels 0 and 1. names : of the columns, in order."""
    pair = tuple(name.lower() for name in reversed(names))
    if pair in OPPOSITES and (
        raw.dtype.kind in "iuf" or (raw.dtype.kind == "b" and pair != ("false", "true"))
    ):
        told = f"so that label 1 would be {names[1]!r}; name the columns of 0 and 1 in their order: --scores A,B;"
        advice = f"--class-names {','.join(names)} takes them as they are"
        raise DataError(
            f"{where}: has the columns of {names[0]!r} and {names[1]!r} in this order, {told} {advice}"
        )


HINT = ": are the columns in the order of the classes, the rows in the same order? --scores NAME takes them as they are"


def check_logs(
    scores: Any,
    path: str,
    labels: IntArray | None,
    names: Sequence[str] | None,
    entries: Entries,
) -> None:
    """Raise DataError at the first row whose scores contradict a logged prediction or outcome; remark on those that
    agree. scores : (n, k), or (n,) for two classes. Ties count as agreement. For two classes any threshold is accepted,
    but not a reversed order."""
    here, told = parse_name(path), []
    n, k = scores.shape[0], max(scores.shape[1] if len(scores.shape) == 2 else 1, 2)
    calibrated = any(
        parse_name(name).core.lower() == "confidence" for name in entries
    )  # may keep another prediction
    for name, entry in entries.items():
        other, core = parse_name(name), parse_name(name).core.lower()
        truth = labels if says_correct(core) else None
        meant = truth is not None or (core in PREDICTIONS and not calibrated)
        logged = _logged(entry, n, names, truth is not None) if meant else None
        if (other.folder, other.split) != (here.folder, here.split) or logged is None:
            continue
        if truth is not None:
            logged = np.where(logged == 1, truth, -1 if k > 2 else 1 - truth)
        _check_logged(scores, truth, logged, path, entry)
        told.append(f"{other.core!r} agrees in every row")
    if told:
        remark(f"{entries[path].where}: {', '.join(told)}")


def _check_logged(
    scores: Any, labels: IntArray | None, logged: IntArray, path: str, entry: Entry
) -> None:
    """Raise DataError if scores contradict ``logged``: the predicted class, -1 for any but the label (if given)."""
    low, high = (
        np.inf,
        -np.inf,
    )  # two classes: least score predicted 1, largest predicted 0
    for start, block in _blocks(scores):
        part = logged[start : start + len(block)]
        if block.ndim == 1 or block.shape[1] < 3:
            margin = block.reshape(len(block), -1).astype(np.float64)
            margin = (
                margin[:, 0] if margin.shape[1] == 1 else margin[:, 1] - margin[:, 0]
            )
            low = min(low, margin[part == 1].min(initial=np.inf))
            high = max(high, margin[part == 0].max(initial=-np.inf))
            if low < high:
                told = f"some row is called class 1 at a lower score than another that is called class 0{HINT}"
                raise DataError(
                    f"{entry.where}: no threshold on {path!r} gives it: {told}"
                )
            continue
        rows, best = np.arange(len(block)), block.max(axis=1)
        inside, last = (part >= 0) & (part < block.shape[1]), block.shape[1] - 1
        wrong = ~inside | (block[rows, part.clip(0, last)] < best)
        if labels is not None:
            truth = labels[start : start + len(block)]
            alone = (block == best[:, None]).sum(axis=1) == 1
            at_truth = block[rows, truth.clip(0, last)] == best
            wrong = (
                np.where(part < 0, at_truth & alone, wrong)
                & (truth >= 0)
                & (truth <= last)
            )
        if wrong.any():
            row = int(np.argmax(wrong))
            largest = f"the largest of {path!r} is class {int(block[row].argmax())}"
            said = f"has prediction {part[row]}"
            if labels is not None:
                said = f"is logged as {'right' if part[row] >= 0 else 'wrong'}, its label is {labels[start + row]}"
            raise DataError(
                f"{entry.where}: row {start + row} {said}, but {largest}{HINT}"
            )


def _logged(
    entry: Entry, n: int, names: Sequence[str] | None, outcomes: bool
) -> IntArray | None:
    """Logged classes (n,), from numbers or names, or outcomes, from bool or 0/1; None for other arrays."""
    try:
        values = entry.column()
    except DataError:
        return None  # a column with blanks does not log every row
    if values.shape != (n,):
        return None
    if outcomes:
        whole = values.dtype.kind in "biuf" and bool(np.isin(values, (0, 1)).all())
    elif values.dtype.kind in "US" and names is not None:
        index = {name: place for place, name in enumerate(names)}
        values = np.array(
            [index.get(str(value), -1) for value in values.tolist()], dtype=np.int64
        )
        whole = bool((values >= 0).all())
    else:
        whole = values.dtype.kind in "iu" or (
            values.dtype.kind == "f" and bool((values == np.floor(values)).all())
        )
    return values.astype(np.int64) if whole else None


def _blocks(scores: Any) -> Iterator[tuple[int, AnyArray]]:
    width = 1 if len(scores.shape) == 1 else scores.shape[1]
    step = max(1, BLOCK_BYTES // (width * scores.dtype.itemsize))
    for start in range(0, scores.shape[0], step):
        yield start, np.asarray(scores[start : start + step])
