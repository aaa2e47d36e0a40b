"""Which array was read as what, in words, for the line that says what was read."""

from calcli.importers.names import headers_path
from calcli.importers.proposal import Reading
from calcli.importers.table import Columns

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


def arrays_in_words(reading: Reading, columns: Columns) -> str:
    """``'logits', 'labels'``: what names say needs no words, what values prove has its
    reason: ``'a, b' as probs: every row sums to 1``."""
    parts = [_scores_in_words(reading, columns)]
    if reading.labels is None:
        parts.append("no labels")
    elif "outcome" in reading.reasons:  # of confidences
        parts.append(reading.reasons["outcome"])
    else:
        label = f"{columns[reading.labels].shown!r}"
        reason = reading.reasons.get("labels", "")
        parts.append(f"{label} as labels: {reason}" if reason else label)
    own_names = headers_path(reading.scores)
    is_one_column = len(columns[reading.scores].parts) == 1  # named by the labels
    for role, path in reading.extras.items():
        if path != own_names:
            parts.append(f"{columns[path].shown!r} as {ROLE_WORDS[role]}")
        elif not is_one_column:
            parts.append("column names as class names")
    has_reasons = any(": " in part for part in parts)
    return ("; " if has_reasons else ", ").join(parts)


def _scores_in_words(reading: Reading, columns: Columns) -> str:
    shown = columns[reading.scores].shown
    reason = reading.reasons.get("scores", "")
    if reason:
        return f"{shown!r} as {reading.kind}: {reason}"
    return f"{shown!r}" if reading.kind in shown else f"{shown!r} as {reading.kind}"
