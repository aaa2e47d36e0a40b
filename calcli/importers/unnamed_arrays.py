"""Arrays without telling names that can be read in one way only."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.errors import DataError, UsageError
from calcli.importers.archive import Entry
from calcli.importers.array_names import Name, parse_name, says_correct
from calcli.importers.columns import LEFT_OVER
from calcli.importers.import_request import ImportRequest
from calcli.importers.positions import Parts
from calcli.importers.remarks import remark
from calcli.io.validate import MOST_BY_CHANCE, SUM_TOLERANCE

SCORE_WORDS = {
    "predictions", "prediction", "outputs", "output", "scores", "score", "y_score", "y_scores", "preds", "pred_score",
    "pred_scores", "class_scores", "y_hat", "y_pred", "decision_function", "decision_scores",
}  # fmt: skip
"""Names under which scores are saved, whatever their kind."""

ROWS_SEEN = 100
"""How many rows are looked at to say what the numbers cannot be."""


def take_obvious(entries: Mapping[str, Entry], ask: ImportRequest, where: str) -> ImportRequest:
    """Fill in the names of scores and labels where only one reading is possible.

    Without an array named as scores: the one float array with an axis of classes (or the
    one with a name such as ``scores``), and, where none is named so, the one array of as
    many whole numbers or words as labels. ``predictions`` beside ``label_ids`` are logits,
    as the Trainer of Hugging Face gives them. Raises UsageError when the kind is missing.
    """
    names = {path: parse_name(path) for path in entries}
    if ask.scores or any(name.role == "scores" for name in names.values()):
        return ask
    if ask.kind and LEFT_OVER in entries:
        none = not (ask.labels or ask.no_labels or any(name.role == "labels" for name in names.values()))
        return replace(ask, labels=_among_columns(entries)) if none else ask
    arrays = {path: array for path, entry in entries.items() if (array := _look(entry)) is not None}
    floats = {
        p: a for p, a in arrays.items() if a.dtype.kind == "f" and not names[p].role and not _is_feature(p, where)
    }
    if ask.kind is None and not ask.labels and (found := _two_words(names, arrays, floats)) is not None:
        said = f"--scores {shlex.quote(found[0])} --labels {shlex.quote(found[1])} --kind probs"
        remark(f"{where}: {found[0]!r} lies in [0, 1] and {found[1]!r} has two words: read as with {said}")
        return replace(ask, scores=found[:1], labels=found[1:], kind="probs")
    cores = {names[path].core for path, array in floats.items() if array.ndim > 1 and array.shape[-1] > 0}
    cores = {core for core in cores if core.lower() in SCORE_WORDS} or cores
    cores = cores or {names[p].core for p, a in floats.items() if a.ndim == 1 and names[p].core.lower() in SCORE_WORDS}
    if not ask.labels and (pairs := _pairs(names, floats)):
        if ask.kind is None:
            raise UsageError(
                f"{where}: say what {', '.join(list(pairs)[:3])} hold with --kind logits, log_probs or probs"
                f"{_evidence(floats[next(iter(pairs))])}"
            )
        return replace(ask, scores=tuple(pairs), labels=tuple(pairs.values()))
    if len(cores) != 1:
        return ask
    (core,) = cores
    path = next(path for path in floats if names[path].core == core)
    array, labels = floats[path], ask.labels
    if not (labels or any(name.role == "labels" for name in names.values())):
        fitting = {
            names[p].core: a
            for p, a in arrays.items()
            if a.dtype.kind in "iuU" and not names[p].role
            if (a.ndim == 1 and len(a) in array.shape[:2]) or (a.ndim > 1 and a.ndim == array.ndim - 1)
            if not says_correct(names[p].core)
        }
        if len(fitting) > 1:  # row numbers and paths beside the labels
            k = max(array.shape[1:], default=2)
            fitting = {core: a for core, a in fitting.items() if _few(a, k)}
        labels = tuple(fitting) if len(fitting) == 1 else ()
    kind = ask.kind
    if kind is None and core == "predictions" and any(name.core == "label_ids" for name in names.values()):
        kind = "logits"
    if kind is None:
        what = "the columns hold" if path == LEFT_OVER else f"{path!r} holds"
        raise UsageError(f"{where}: say what {what} with --kind logits, log_probs or probs{_evidence(array)}")
    return replace(ask, scores=(core,), labels=labels, kind=kind)


def _two_words(
    names: Mapping[str, Name], arrays: Mapping[str, Any], floats: Mapping[str, Any]
) -> tuple[str, str] | None:
    """The one column of numbers in [0, 1], some below 1/2, and the one column of two words; None where unclear.

    A column of 0 and 1 beside them may be the labels as well, and the confidence of a prediction is never below 1/2.
    """
    flat = {
        path: np.asarray(array[()])
        for path, array in arrays.items()
        if array.ndim == 1 and len(array) >= MOST_BY_CHANCE
    }
    few = {p: np.unique(v[v != ""] if v.dtype.kind == "U" else v) for p, v in flat.items()}
    truths = [p for p in few if names[p].role == "labels"] or [p for p in few if not names[p].role and len(few[p]) == 2]
    sure = [p for p in floats if p in flat and len(few[p]) > 2 and flat[p].min() >= 0 and flat[p].max() <= 1]
    words = [path for path in truths if len(few[path]) == 2 and few[path].dtype.kind == "U"]
    if len(truths) == len(words) == len(sure) == 1 and flat[sure[0]].min() < 0.5 and not says_correct(words[0]):
        return sure[0], words[0]
    return None


def _few(array: Any, k: int) -> bool:
    """Whether there are no more than k different values, whole numbers from 0 to k - 1 or words."""
    values = np.unique(np.asarray(array[()]))
    return len(values) <= k and (values.dtype.kind == "U" or bool(values[0] >= 0 and values[-1] < k))


def _pairs(names: Mapping[str, Name], floats: Mapping[str, Any]) -> dict[str, str]:
    """Scores and labels of several sets, ``a_scores a_targets b_scores b_targets``, by path; none for anything else."""
    labels = {(name.folder, name.split, name.model): path for path, name in names.items() if name.role == "labels"}
    pairs, words = {}, set()
    for path in floats:
        model, _, word = names[path].core.rpartition("_")
        own = labels.get((names[path].folder, names[path].split, model))
        if own is None or word.lower() not in SCORE_WORDS:
            return {}
        pairs[path] = own
        words.add(word)
    return pairs if len(pairs) > 1 and len(words) == 1 and len(set(pairs.values())) == len(labels) else {}


def _among_columns(entries: Mapping[str, Entry]) -> tuple[str, ...]:
    """The one column of words all of which are names of the score columns: the labels; none when there are several."""
    if f"class_names_{LEFT_OVER}" not in entries:
        return ()
    classes = set(entries[f"class_names_{LEFT_OVER}"].load().tolist())
    arrays = {path: array for path, entry in entries.items() if (array := _look(entry)) is not None}
    words = {path: set(a.tolist()) for path, a in arrays.items() if a.dtype.kind == "U" and a.ndim == 1}
    found = [path for path, inside in words.items() if inside <= classes and path != f"class_names_{LEFT_OVER}"]
    return tuple(found) if len(found) == 1 else ()


def _look(entry: Entry) -> Any:
    try:
        array = entry.load()
    except DataError:
        return None
    if isinstance(array, Parts) and array.ndim == 2 and array.dtype.kind == "f":
        return None  # lists of any length, which may be of anything
    return array if hasattr(array, "dtype") and array.ndim and len(array) else None


def _is_feature(path: str, where: str) -> bool:
    """Whether a name, unless it is that of a file with one array, is one for inputs, features or weights of a model."""
    if path == Path(where).stem:
        return False
    core = parse_name(path).core.lower()
    inputs = core in ("x", "inputs", "input", "images") or core.startswith(("feat", "embed", "hidden"))
    return inputs or core.endswith((".weight", ".bias"))


def kind_of(values: NDArray[Any]) -> str:
    """What the numbers of some rows can be: logits, which leave [0, 1], probabilities, or "" for what may be either."""
    if ((values < 0) | (values > 1)).any():
        return "logits"
    return "probabilities" if (np.abs(values.sum(axis=1, dtype=float) - 1) <= SUM_TOLERANCE).all() else ""


EVIDENCE = {
    "logits": "; values lie outside [0, 1], so they cannot be probabilities",
    "probabilities": "; its rows sum to 1, as probabilities do",
    "": "",
}


def _evidence(array: Any) -> str:
    """What the numbers themselves say about their kind, as the end of a sentence."""
    rows = np.asarray(array[:ROWS_SEEN], dtype=np.float64)
    return EVIDENCE[kind_of(rows.reshape(-1, array.shape[-1] if array.ndim > 1 else 1))]
