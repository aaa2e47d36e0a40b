"""Arrays whose names have no known role: the only possible reading of them, or a command to advise."""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.errors import CalcliError, DataError, UsageError
from calcli.importers.archive import Entries, Entry, remark
from calcli.importers.array_names import Name, parse_name, real_names, says_correct
from calcli.importers.columns import BOOKKEEPING, LEFT_OVER, LONGEST
from calcli.importers.import_request import ImportRequest
from calcli.importers.labels import GRADES, OPPOSITES
from calcli.importers.mistaken_for_scores import PREDICTIONS
from calcli.importers.positions import Parts
from calcli.io.provenance import carried
from calcli.io.validate import MOST_BY_CHANCE, SUM_TOLERANCE
from calcli.numerics import AnyArray

SCORE_WORDS = {
    "predictions", "prediction", "outputs", "output", "scores", "score", "y_score", "y_scores", "preds", "pred_score",
    "pred_scores", "class_scores", "y_hat", "y_pred", "decision_function", "decision_scores",
}  # fmt: skip
"""Names of arrays of scores of any kind."""

ROWS_SEEN = 100  # rows that are inspected for the kind of scores


def take_obvious(entries: Entries, ask: ImportRequest, where: str) -> ImportRequest:
    """Fill in the names of scores and labels where only one reading is possible: the one float array with an axis of
    classes (or with a name such as ``scores``), and the one array of whole numbers or words of the same length. Raises
    UsageError when the kind is missing."""
    names = {path: parse_name(path) for path in entries}
    _refuse_confidence(entries, names, ask, where)
    if ask.scores or any(name.role == "scores" for name in names.values()):
        return ask if ask.labels or ask.scores else replace(ask, labels=_labels_of_apply(entries, names))
    if ask.kind and LEFT_OVER in entries:
        none = not (ask.labels or ask.no_labels or any(name.role == "labels" for name in names.values()))
        return replace(ask, labels=_among_columns(entries)) if none else ask
    arrays = {path: array for path, entry in entries.items() if (array := _look(entry)) is not None}
    made = {path: entry.made_of.values() for path, entry in entries.items() if entry.made_of}
    counted = {path for path, columns in made.items() if all(c.load().dtype.kind in "iu" for c in columns)}
    others = {path for path in arrays if names[path].role or path in counted or _is_feature(path, where)}
    floats = {path: a for path, a in arrays.items() if a.dtype.kind == "f" and path not in others}
    if ask.kind is None and not ask.labels and (found := _two_words(names, arrays, floats)):
        said = f"--scores {shlex.quote(found[0])} --labels {shlex.quote(found[1])} --kind probs"
        remark(f"{where}: {found[0]!r} lies in [0, 1] and {found[1]!r} has two words: read as with {said}")
        return replace(ask, scores=found[:1], labels=found[1:], kind="probs")
    cores = {names[path].core for path, array in floats.items() if array.ndim > 1 and array.shape[-1] > 0}
    cores = {core for core in cores if core.lower() in SCORE_WORDS} or cores
    cores = cores or {names[p].core for p, a in floats.items() if a.ndim == 1 and names[p].core.lower() in SCORE_WORDS}
    if not ask.labels and (pairs := _pairs(names, floats)):
        if ask.kind is None:
            what, told = ", ".join(list(pairs)[:3]), _evidence(floats[next(iter(pairs))])
            raise UsageError(f"{where}: say what {what} hold with --kind logits, log_probs or probs{told}")
        return replace(ask, scores=tuple(pairs), labels=tuple(pairs.values()))
    if len(cores) != 1:
        return ask
    (core,) = cores
    path = next(path for path in floats if names[path].core == core)
    array, labels = floats[path], ask.labels
    if not (labels or any(name.role == "labels" for name in names.values())):
        free = [p for p in arrays if not (names[p].role or says_correct(names[p].core))]
        whole = {p: arrays[p] for p in free if arrays[p].dtype.kind in "iuU"}
        ends, inner = array.shape[:2], array.ndim - 1
        beside = [p for p, a in whole.items() if (len(a) in ends if a.ndim == 1 else a.ndim == inner)]
        fitting = {names[p].core: whole[p] for p in beside}
        if len(fitting) > 1:  # also row numbers or paths
            k = max(array.shape[1:], default=2)
            fitting = {core: a for core, a in fitting.items() if _are_classes(a, k)}
        labels = tuple(fitting) if len(fitting) == 1 else ()
    kind = ask.kind
    if kind is None and core == "predictions" and any(name.core == "label_ids" for name in names.values()):
        kind = "logits"
    if kind is None:
        what = "the columns hold" if path == LEFT_OVER else f"{path!r} holds"
        raise UsageError(f"{where}: say what {what} with --kind logits, log_probs or probs{_evidence(array)}")
    return replace(ask, scores=(core,), labels=labels, kind=kind)


def _refuse_confidence(entries: Entries, names: Mapping[str, Name], ask: ImportRequest, where: str) -> None:
    """Raise DataError for a single column of scores beside correctness: it may be a confidence, not P(class 1)."""
    scores = [path for path, name in names.items() if name.role == "scores"]
    told = [path for path, name in names.items() if says_correct(name.core)]
    asked = ask.scores or ask.labels or ask.kind or any(name.role == "labels" for name in names.values())
    if asked or len(scores) != 1 or not told or entries[scores[0]].column().ndim > 1:
        return
    advice = "how sure an answer is, and no scores of classes; --confidence NAME --correct NAME reads a probability"
    raise DataError(f"{where}: {scores[0]!r} is one number a row beside {told[0]!r}: {advice}")


def _labels_of_apply(entries: Entries, names: Mapping[str, Name]) -> tuple[str, ...]:
    """Name of the labels in a table written by ``apply``: the column of classes before the predictions; () if none."""
    order, roles = list(entries), {name.role for name in names.values()}
    at = order.index("prediction") if "prediction" in order else 0
    if not at or order[at + 1 : at + 2] != ["confidence"] or "labels" in roles or names[order[at - 1]].role:
        return ()
    scores = next(path for path, name in names.items() if name.role == "scores")
    if "calibrated_by" not in roles and not carried(entries[scores].path, scores):
        return ()
    return (order[at - 1],) if _are_classes(entries[order[at - 1]].column(), entries[scores].load().shape[-1]) else ()


def _two_words(names: Mapping[str, Name], arrays: Mapping[str, Any], floats: Mapping[str, Any]) -> tuple[str, ...]:
    """The one column of numbers in [0, 1], some below 1/2, and the one column of two words; empty where unclear."""
    flat = {p: np.asarray(a[()]) for p, a in arrays.items() if a.ndim == 1 and len(a) >= MOST_BY_CHANCE}
    few = {p: np.unique(v[v != ""] if v.dtype.kind == "U" else v) for p, v in flat.items()}
    truths = [p for p in few if names[p].role == "labels"] or [p for p in few if not names[p].role and len(few[p]) == 2]
    sure = [p for p in floats if p in flat and len(few[p]) > 2 and few[p][0] >= 0 and few[p][-1] <= 1]
    words = [p for p in truths if len(few[p]) == 2 and few[p].dtype.kind == "U" and not says_correct(p)]
    alone = len(truths) == len(words) == len(sure) == 1 and few[sure[0]][0] < 0.5
    return (sure[0], words[0]) if alone else ()


def _are_classes(array: Any, k: int) -> bool:
    """True for at most k distinct values that are words, or whole numbers from 0 to k - 1."""
    values = np.unique(np.asarray(array[()]))
    return len(values) <= k and (values.dtype.kind == "U" or bool(values[0] >= 0 and values[-1] < k))


def _pairs(names: Mapping[str, Name], floats: Mapping[str, Any]) -> dict[str, str]:
    """Paths {scores: labels} of several sets, ``a_scores a_targets b_scores b_targets``; {} for anything else."""
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


def _among_columns(entries: Entries) -> tuple[str, ...]:
    """Name of the labels: the one column whose words are all names of score columns; () for none or several."""
    if f"class_names_{LEFT_OVER}" not in entries:
        return ()
    classes = set(entries[f"class_names_{LEFT_OVER}"].load().tolist())
    arrays = {path: _look(entry) for path, entry in entries.items() if path != f"class_names_{LEFT_OVER}"}
    words = [path for path, a in arrays.items() if a is not None and a.dtype.kind == "U" and a.ndim == 1]
    found = [path for path in words if {*arrays[path].tolist()} <= classes]
    return tuple(found) if len(found) == 1 else ()


def _look(entry: Entry) -> Any:
    try:
        array = entry.load()
    except DataError:
        return None
    if isinstance(array, Parts) and array.ndim == 2 and array.dtype.kind == "f":
        return None  # lists of different lengths, of unknown meaning
    return array if hasattr(array, "dtype") and array.ndim and len(array) else None


def _is_feature(path: str, where: str) -> bool:
    """True for a name of inputs, features, boxes or weights, except the name of the file (its only array)."""
    core = parse_name(path).core.lower()
    inputs = core in ("x", "inputs", "input", "images") or core.startswith(("feat", "embed", "hidden", "bbox", "boxes"))
    return path != Path(where).stem and (inputs or core.endswith((".weight", ".bias")))


def kind_of(values: NDArray[Any]) -> str:
    """Kind of scores by their values: "logits" outside [0, 1], "probabilities" if rows sum to 1, "" if unknown."""
    if values.dtype.kind in "biuf" and ((values < 0) | (values > 1)).any():  # not words
        return "logits"
    whole = values.dtype.kind in "biuf" and (np.abs(values.sum(axis=1, dtype=float) - 1) <= SUM_TOLERANCE).all()
    return "probabilities" if whole else ""


def _evidence(array: Any) -> str:
    """End of a message: evidence for the kind of scores in their values."""
    rows = np.asarray(array[:ROWS_SEEN], dtype=np.float64)
    kind = kind_of(rows.reshape(-1, array.shape[-1] if array.ndim > 1 else 1))
    if kind == "logits" and (rows > 0).any():  # a logarithm of a probability is never positive
        return "; some values above 0 and some outside [0, 1]: take --kind logits if they are the scores"
    told = {"logits": "; values lie outside [0, 1], so they cannot be probabilities"}
    return told.get(kind, "; its rows sum to 1, as probabilities do" * bool(kind))


# ---- a complete command to advise, where names have no known role


VALUES_SEEN, MOST_COLUMNS, MOST_GROUPS, FEW = 10_000, 40, 50, 30
"""Limits of guesses: rows and columns inspected, most distinct values of groups, number of classes (below it)."""

AGAIN = re.compile(
    r"--percent|--drop-missing|--drop-duplicates|--kind (?:logits|log_probs|probs)(?= if)|--ignore-label -?\d+"
    r"|(?<=of the classes: )--scores .+"
)
"""Options that an error message may advise to add to the command."""

SURE, PERCENT = re.compile(r"(?i)conf|certain|sure"), re.compile(r"(?i)conf|certain|sure|percent|pct|%")
"""Words in names of confidences, and of columns that may be in percent."""

UNIT = re.compile(
    r"(?i)(.*[_ ])?(patient|subject|participant|person|user|customer|client|question|prompt|image|video|document"
    r"|article|sequence|session|visit|slide)s?([_ ]?(id|no|nr|num|number))?"
)
"""Names of columns of units: patients, questions, images, …"""

Texts = Sequence[str]
NO_UNIT = re.compile(r"(?i)folds?|epoch")
DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}([T ].*)?")
KIND_OF_LOOK = {"probabilities": "probs", "percentages": "probs"}
KIND_OF_LOOK |= {"logits": "logits", "log_probs": "log_probs", "log-odds": "logits"}
NAMING = ("--scores", "--labels", "--kind")
OPTION_OF_LOOK = {"ids": "--ids", "units": "--unit", "groups": "--group-by", "weights": "--sample-weight"}


def advised(problem: CalcliError, entries: Entries, ask: ImportRequest, where: str) -> CalcliError:
    """The error, with a guess for each array and, if these are unambiguous, the command that reads them so."""
    paths = [path for path in real_names([parse_name(path) for path in entries]) if "/" not in path][:MOST_COLUMNS]
    looks = {path: look for path in paths if (look := looks_like(path, entries[path]))}
    wide = list(ask.scores) or [path for path in looks if f"class_names_{path}" in entries]
    looks |= _called_as_classes(entries, wide[0], looks) if len(wide) == 1 else {}
    pieces = {other for path in paths for other in paths if re.fullmatch(re.escape(path) + r"[_.]?\d+", other)}
    pieces |= {name for path in paths for name in entries[path].made_of}
    whole = {path: look for path, look in looks.items() if path not in pieces}
    found = {what: [path for path, look in whole.items() if look == what] for what in set(whole.values())}
    scores, kind = list(ask.scores), ask.kind
    for what in KIND_OF_LOOK:
        if not scores and found.get(what):
            scores, kind = [*filter(SURE.search, found[what])] or found[what], kind or KIND_OF_LOOK[what]
    truths = list(ask.labels) or [p for p in paths if parse_name(p).role == "labels"] or found.get("labels", [])
    few = dict.fromkeys([*found.get("groups", []), *found.get("labels", []), *truths])
    words = _distinct(entries, [*few])
    for path, classes in words.items():  # columns named like the classes
        own = [name for name in paths if name in classes]
        if len(own) == len(classes) > 1 and not ask.scores:
            scores, truths, looks = [",".join(own)], [path], looks | dict.fromkeys(own, "scores") | {path: "labels"}
            kind = kind or KIND_OF_LOOK.get(kind_of(np.stack([entries[name].column() for name in own], axis=1)))
    every = [*entries[LEFT_OVER].made_of] if LEFT_OVER in entries else []
    for own in (scores, every) if every and len(scores) != 1 and not ask.scores else ():  # p_a, p_b, p_c
        what = kind_of(np.stack([entries[name].column() for name in own], axis=1)) if len(own) > 1 else ""
        if what == "probabilities" or (own is every and what and len({name.partition("_")[0] for name in own}) == 1):
            scores, kind = [",".join(own)], kind or KIND_OF_LOOK[what]
            break
    if scores:
        kind = kind or KIND_OF_LOOK.get(looks.get(scores[0], ""))
    single = len(scores) == 1 and scores[0] in entries and entries[scores[0]].column().ndim == 1
    look = looks.get(scores[0], "") if single else ""
    outcome, doubted = _outcome(entries[scores[0]], look, paths, truths, words) if single else ([], False)
    k = 2 if single or not scores else scores[0].count(",") + 1
    k = entries[scores[0]].column().shape[-1] if not single and scores and scores[0] in entries else k
    numbered = [path for path in found.get("classes", []) if _below(entries[path], k)]
    fitting = [path for path, classes in words.items() if len(classes) <= k]
    truths = truths or (fitting if len(fitting) == 1 and len(numbered) != 1 else numbered)
    if (doubted and not outcome) or (look == "log-odds" and not truths):
        scores = []
    called = {path: entries[path].shown for path in paths}
    listed = ", ".join(f"{called[path]} ({looks[path]}?)" if path in looks else called[path] for path in paths)
    unclear = "," in where and not (ask.join and ask.typed)
    confident = bool(outcome) and KIND_OF_LOOK.get(look) == "probs"
    if unclear or len(scores) != 1 or len(truths) > 1 or not (confident or (truths and kind)):
        return problem.advising(more=f"; it has {listed}") if looks else problem
    kept = [*dict.fromkeys((*(ask.typed or ((where,),)), *[("--percent",)] * (look == "percentages")))]
    told, options = truths[0] if truths else "", [("--scores", scores[0]), *(("--labels", t) for t in truths)]
    options.append(("--kind", kind or ""))
    if confident:
        kept = [group for group in kept if group[0] not in NAMING]
        told, options = outcome[0], [("--confidence", scores[0]), ("--correct", outcome[0])]
    ask = replace(ask, typed=tuple(kept))
    used = {piece for group in (*options, *ask.typed) for word in group for piece in (word, *word.split("="))}
    n = len(entries[first].column()) if (first := told.partition("=")[0]) in entries else None
    for what, option in OPTION_OF_LOOK.items():
        own = [path for path in found.get(what, []) if path not in used]
        own = [path for path in own if n in (None, len(entries[path].cells()))]
        if option not in used and (len(own) == 1 or (what == "groups" and own)):
            options += [(option, path) for path in own]
    return problem.advising(ask.command(where, options), more=f"; it has {listed}")


def _distinct(entries: Entries, paths: Texts) -> dict[str, Any]:
    """Distinct values of the columns that have no empty cell."""
    words = {}
    for path in filter(entries.__contains__, paths):
        with suppress(DataError):
            words[path] = np.unique(entries[path].column()).tolist()
    return words


def _below(entry: Entry, k: int) -> bool:
    """True for a column of numbers, none empty, below k."""
    with suppress(DataError):
        return bool(entry.column().max() < k)
    return False


def _outcome(score: Entry, look: str, paths: Texts, truths: Texts, words: Mapping[str, Any]) -> tuple[list[str], bool]:
    """Values for ``--correct`` beside one score a row: columns or ``PREDICTION=LABEL``; and True if the score can only
    be the confidence of a prediction: it is never below 1/2, or there are more than two classes."""
    named = [path for path in truths if says_correct(path)] or [path for path in paths if says_correct(path)]
    pairs = {p: {str(word).lower() for word in words.get(p, ())} for p in truths}
    told = {p for p in truths if len(pairs[p]) == 2 and any(map(says_correct, re.split(r"[\W_]+", p)))}
    graded = [p for p in truths if p in told or pairs[p] in ({*pair} for pair in GRADES)]
    several = any(len(words.get(path, ())) > 2 for path in truths)
    high = KIND_OF_LOOK.get(look) == "probs" and bool((score.column() >= (50 if look == "percentages" else 0.5)).all())
    if named or graded or len(truths) != 1 or not (several or high or SURE.search(score.name)):
        return named or graded, several or high
    known = {*words.get(truths[0], ())}
    alike = [path for path, own in words.items() if {*own} <= known and isinstance(own[0], str)]
    said = [path for path in paths if path != truths[0] and (path.lower() in PREDICTIONS or path in alike)]
    return [f"{path}={truths[0]}" for path in said], several or high


def _called_as_classes(entries: Entries, scores: str, looks: Mapping[str, str]) -> dict[str, str]:
    """Guesses for columns of class names: "predictions" if they all have the largest score, else "labels"."""
    if f"class_names_{scores}" not in entries or (array := entries[scores].load()[:VALUES_SEEN]).ndim != 2:
        return {}
    names = entries[f"class_names_{scores}"].column()
    best, found = array == array.max(axis=1, keepdims=True), {}
    for path in (path for path, look in looks.items() if look == "groups"):
        at = entries[path].column()[:VALUES_SEEN, None] == names
        if at.any(axis=1).all() and at.shape == best.shape:
            predicted = path.lower() in PREDICTIONS or bool((at & best).any(axis=1).all())
            found[path] = "predictions" if predicted else "labels"
    return found


def retried(problem: CalcliError, ask: ImportRequest, where: str) -> CalcliError:
    """The error, with the complete command if it advises to add an option or to leave out a given one."""
    if problem.commands or (found := AGAIN.search(str(problem))) is None:
        return problem
    option = tuple(shlex.split(found[0]))
    kept = replace(ask, typed=tuple(group for group in ask.typed if group != option))
    return problem.advising(kept.command(where, [] if option in ask.typed else [option]))


ROWS_CARRIED = 1000  # rows per block of a kept column; the first block decides whether it is kept


def goes_along(name: str, values: AnyArray) -> bool:
    """True for an unused column that is kept and written again by ``apply``: short words, or ids of rows."""
    if values.ndim != 1 or values.dtype.kind in "iu":
        return values.ndim == 1 and bool(BOOKKEEPING.fullmatch(name) or parse_name(name).role in ("ids", "unit"))
    return values.dtype.kind in "OUSmM" and max(map(len, map(str, values.tolist())), default=0) <= LONGEST


def looks_like(path: str, entry: Entry) -> str:
    """Role of an array guessed by name and values: a key of ``OPTION_OF_LOOK``, a kind of scores, labels, … or ""."""
    try:
        values = entry.rows(slice(VALUES_SEEN))
    except (DataError, MemoryError):
        return ""
    if not len(values) or values.ndim > 2 or values.dtype.kind not in "biufUM":
        return ""
    named = parse_name(path)
    if named.role in ("labels", "class_names"):
        return named.role.replace("_", " ")
    if values.ndim == 2 and values.shape[1] > 1:
        said = named.kind.replace("probs", "probabilities").replace("log_probabilities", "log_probs")
        if values.dtype.kind in "biuf" and np.isin(values, (0, 1)).all():  # one-hot
            return "labels"
        return (said or kind_of(values)) if values.dtype.kind == "f" else ""
    values = values.reshape(-1)
    if values.dtype.kind == "f" and not (values % 1).any():  # NaN counts as not whole
        values = values.astype(np.int64)
    distinct = np.unique(values)
    if named.role in ("ids", "unit") or BOOKKEEPING.fullmatch(path) or UNIT.fullmatch(path):
        known = "ids" if len(distinct) == len(values) and named.role != "unit" else "units"
        return "" if known == "units" and (NO_UNIT.fullmatch(path) or len(distinct) < 2) else known
    if named.role == "weights" or re.fullmatch(r"(?i)w|.*weights?", path):
        return "weights"
    if named.role == "split":
        return "splits"
    if path.lower() in PREDICTIONS and values.dtype.kind != "f":
        return "predictions"
    if values.dtype.kind in "UM":
        if all(map(DATE.fullmatch, map(str, distinct.tolist()))):
            return "dates"
        if len(distinct) == len(values):
            return "ids"
        if any({word.lower() for word in distinct.tolist()} == {*pair} for pair in OPPOSITES):
            return "labels"
        return "units" if len(distinct) > MOST_GROUPS else "groups" if len(distinct) > 1 else ""
    if PERCENT.search(path) and distinct[0] >= 0 and 1 < distinct[-1] <= 100:
        return "percentages"
    if values.dtype.kind != "f":
        pair, few = len(distinct) < 3 and distinct[-1] <= 1, distinct[0] == 0 and distinct[-1] < len(distinct) < FEW
        return "" if says_correct(path) else "labels" if pair else "classes" if few else ""
    if len(distinct) < 3:
        return ""
    return "probabilities" if distinct[0] >= 0 and distinct[-1] <= 1 else "log-odds" if distinct[0] < 0 else ""
