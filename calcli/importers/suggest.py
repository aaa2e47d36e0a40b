"""What the columns of a file look like, and the whole command to try, where their names say too little."""

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from calcli.errors import DataError
from calcli.importers.archive import Entry
from calcli.importers.array_names import parse_name, real_names, says_correct
from calcli.importers.columns import BOOKKEEPING, LEFT_OVER
from calcli.importers.import_request import ImportRequest
from calcli.importers.labels import OPPOSITES
from calcli.importers.mistaken_for_scores import PREDICTIONS
from calcli.importers.unnamed_arrays import kind_of
from calcli.numerics import AnyArray

LOOKED_AT, MOST_COLUMNS, MOST_GROUPS, FEW = 10_000, 40, 50, 30
"""Rows and columns that are looked at; more values than this are no groups; more whole numbers in a row no classes."""

AGAIN = re.compile(r"--percent|--drop-missing|--drop-duplicates|--kind (?:logits|log_probs|probs)(?= if)")
"""What a refusal may advise to add to the command."""

KINDS = {"probabilities": "probs", "logits": "logits", "log-odds": "logits"}
SCORES = ("--scores", "--labels", "--kind")
OPTIONS = {"ids": "--ids", "units": "--unit", "groups": "--group-by", "weights": "--sample-weight"}


def suggestion(entries: Mapping[str, Entry], ask: ImportRequest, where: str) -> str:
    """The end of a sentence: what each array looks like, and the command that takes them so; "" where that is open."""
    paths = [path for path in real_names([parse_name(path) for path in entries]) if "/" not in path][:MOST_COLUMNS]
    looks = {path: look for path in paths if (look := _look(path, entries[path]))}
    pieces = {other for path in paths for other in paths if re.fullmatch(re.escape(path) + r"[_.]?\d+", other)}
    whole = {path: look for path, look in looks.items() if path not in pieces}
    found = {what: [path for path, look in whole.items() if look == what] for what in set(whole.values())}
    scores, kind = list(ask.scores), ask.kind
    for what in KINDS:
        if not scores and found.get(what):
            scores, kind = found[what], kind or KINDS[what]
    labels = list(ask.labels) or [path for path in paths if parse_name(path).role == "labels"]
    outcome = [path for path in labels if says_correct(path)] or [path for path in paths if says_correct(path)]
    truths = labels or found.get("labels", [])
    words = {path: np.unique(entries[path].column()).tolist() for path in found.get("groups", [])}
    words |= {path: np.unique(entries[path].column()).tolist() for path in truths if path in entries}
    for path, classes in words.items():  # columns that are called as the labels are
        own = [name for name in paths if name in classes]
        if len(own) == len(classes) > 1 and not ask.scores:
            scores, truths, looks = [",".join(own)], [path], looks | dict.fromkeys(own, "scores") | {path: "labels"}
            kind = kind or KINDS.get(kind_of(np.stack([entries[name].column() for name in own], axis=1)))
    every = [*entries[LEFT_OVER].made_of] if LEFT_OVER in entries else []
    for own in (scores, every) if every and len(scores) != 1 and not ask.scores else ():  # p_a, p_b, p_c
        what = kind_of(np.stack([entries[name].column() for name in own], axis=1)) if len(own) > 1 else ""
        if what == "probabilities" or (own is every and what and len({name.partition("_")[0] for name in own}) == 1):
            scores, kind = [",".join(own)], kind or KINDS[what]
            break
    if scores:
        kind = kind or KINDS.get(looks.get(scores[0], ""))
    single = len(scores) == 1 and scores[0] in entries and entries[scores[0]].column().ndim == 1
    several = single and any(len(words.get(path, ())) > 2 for path in truths)  # one column says nothing of them
    if labels and not outcome and single and (several or re.search(r"(?i)conf|certain|sure", scores[0])):
        known = set(words.get(labels[0], ()))
        said = [path for path in paths if path.lower() in PREDICTIONS or (path in words and {*words[path]} <= known)]
        outcome = [f"{path}={labels[0]}" for path in said if path != labels[0]]
    truths = truths or (list(words) if len(words) == 1 else found.get("classes", []))
    if (several and not outcome) or (single and looks.get(scores[0]) == "log-odds" and not truths):
        scores = []
    listed = ", ".join(f"{path} ({looks[path]}?)" if path in looks else path for path in paths)
    unclear = "," in where and not (ask.join and ask.typed)
    if unclear or len(scores) != 1 or len(truths) > 1 or not (outcome or (truths and kind)) or ask.confidence:
        return f"; it has {listed}" if looks else ""
    if outcome and single and looks.get(scores[0]) == "probabilities":
        ask = replace(ask, typed=tuple(group for group in ask.typed if group[0] not in SCORES))
        options = [("--confidence", scores[0]), ("--correct", outcome[0])]
    elif truths and kind:
        options = [("--scores", scores[0]), ("--labels", truths[0]), ("--kind", kind)]
    else:
        return f"; it has {listed}"
    used = {piece for group in (*options, *ask.typed) for word in group for piece in (word, *word.split("="))}
    for what, option in OPTIONS.items():
        own = [path for path in found.get(what, []) if path not in used]
        if option not in used and (len(own) == 1 or (what == "groups" and own)):
            options += [(option, path) for path in own]
    return f"; it has {listed}; to try: {ask.command(where, options)}"


def retried(text: str, ask: ImportRequest, where: str) -> str:
    """A refusal, with the whole command where it advises an option."""
    found = None if "to try: " in text else AGAIN.search(text)
    return text if found is None else f"{text}; to try: {ask.command(where, [tuple(found[0].split())])}"


def _look(path: str, entry: Entry) -> str:
    """What an array looks like by its name and its values: a key of ``OPTIONS``, a kind of scores, labels, or ""."""
    try:
        array = entry.load()
        values: AnyArray = np.asarray(array[:LOOKED_AT]) if getattr(array, "ndim", 0) else np.empty(0)
    except (DataError, MemoryError):
        return ""
    if not len(values) or values.ndim > 2 or values.dtype.kind not in "biufU":
        return ""
    if values.ndim == 2:
        return kind_of(values) if values.dtype.kind == "f" else ""
    values = values.reshape(-1)
    if values.dtype.kind == "f" and not (values % 1).any():  # NaN is true
        values = values.astype(np.int64)
    distinct = np.unique(values)
    named = parse_name(path)
    if named.role in ("ids", "unit") or BOOKKEEPING.fullmatch(path):
        return "ids" if len(distinct) == len(values) and named.role != "unit" else "units"
    if named.role == "weights" or re.fullmatch(r"(?i)w|.*weights?", path):
        return "weights"
    if named.role == "labels":
        return "labels"
    if values.dtype.kind == "U":
        if len(distinct) == len(values):
            return "ids"
        if any({word.lower() for word in distinct.tolist()} == {*pair} for pair in OPPOSITES):
            return "labels"
        return "groups" if len(distinct) <= MOST_GROUPS else "units"
    if values.dtype.kind != "f":
        pair, few = len(distinct) < 3 and distinct[-1] <= 1, distinct[0] == 0 and distinct[-1] < len(distinct) < FEW
        return "" if says_correct(path) else "labels" if pair else "classes" if few else ""
    if len(distinct) < 3:
        return ""
    return "probabilities" if distinct[0] >= 0 and distinct[-1] <= 1 else "log-odds" if distinct[0] < 0 else ""
