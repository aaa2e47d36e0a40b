"""Which array was read as what, in words, for the line that says what was read."""

from calcli.importers.array_names import headers_path
from calcli.importers.proposal import Reading
from calcli.importers.table import Column, Columns

ROLE_WORDS = {
    "class_names": "class names",
    "ids": "ids",
    "weights": "weights",
    "group": "groups",
    "unit": "units",
    "split": "splits",
    "transformed": "transformed scores",
    "specs": "their transforms",
    "calibrated_by": "what calibrated them",
}


LONGEST_LIST = 40
"""Most characters of the names of columns that are one array."""


def arrays_in_words(reading: Reading, columns: Columns) -> str:
    """``'logits', 'labels'``; where no name says what an array is ``'a, b' as probs``.

    The names of the columns of scores, which name the classes, are not told.
    """
    scores = columns[reading.scores]
    folder = f"{reading.name}/"
    is_inferred = bool(reading.reasons.get("scores"))
    is_named = reading.kind in scores.shown and not is_inferred
    parts = [_named(scores, "" if is_named else reading.kind, folder)]
    if reading.labels is None:
        parts.append("no labels")
    elif "outcome" in reading.reasons:  # of confidences
        parts.append(reading.reasons["outcome"])
    else:
        is_inferred = bool(reading.reasons.get("labels"))
        role = "labels" if is_inferred else ""
        parts.append(_named(columns[reading.labels], role, folder))
    for role, path in reading.extras.items():
        if path != headers_path(reading.scores):
            parts.append(_named(columns[path], ROLE_WORDS[role], folder))
    return ", ".join(parts)


def _named(column: Column, role: str, folder: str) -> str:
    """The name of an array in its folder, and what it is where no name says so."""
    shown = column.shown.removeprefix(folder)
    names = list(column.parts)
    if len(shown) > LONGEST_LIST and len(names) > 2:
        shown = f"{names[0]}, …, {names[-1]}"
    plain = shown.lower().replace("_", " ")
    if not role or plain.rstrip("s") == role.rstrip("s"):
        return f"{shown!r}"
    return f"{shown!r} as {role}"
