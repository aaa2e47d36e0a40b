"""Multi-label scores, where several classes may hold at once: a two-class bundle for every label."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from calcli.errors import DataError
from calcli.importers.archive import Entry, constant
from calcli.importers.array_names import BundleArrays, group_name
from calcli.importers.ask import Ask
from calcli.importers.labelled_scores import Imported, load
from calcli.importers.labels import texts_of

__all__ = ["load_labels"]


def load_labels(
    candidate: BundleArrays, entries: Mapping[str, Entry], ask: Ask, ignore: Sequence[int]
) -> Iterator[Imported]:
    """One bundle per column of (n, c) scores and (n, c) zeros and ones, named after its class.

    Every column is the score of a model for two classes: does the label hold? Raises
    DataError for scores and labels of another form.
    """
    scores_entry = entries[candidate.scores]
    if candidate.labels is None:
        raise DataError(f"{scores_entry.where}: --per-label needs labels, (rows, labels) of 0 and 1")
    labels_entry = entries[candidate.labels]
    scores, truth = np.asarray(scores_entry.load()[()]), np.asarray(labels_entry.load()[()])
    if scores.ndim != 2 or truth.shape != scores.shape or not np.isin(truth, (0, 1)).all():
        raise DataError(
            f"{labels_entry.where}: has shape {truth.shape}, expected zeros and ones of shape {scores.shape}, one per"
            " row and label, for --per-label"
        )
    names = list(ask.class_names)
    if not names and "class_names" in candidate.extras:
        entry = entries[candidate.extras["class_names"]]
        names = texts_of(np.asarray(entry.load()[()]), entry.where)
    names = [group_name(name) for name in names] if names else [f"label{c}" for c in range(scores.shape[1])]
    if len(names) != scores.shape[1] or len(set(names)) < len(names):
        raise DataError(
            f"{scores_entry.where}: {len(set(names))} names for {scores.shape[1]} labels; --class-names A,B,…"
        )
    extras = {role: path for role, path in candidate.extras.items() if role in ("ids", "weights", "group", "split")}
    named = replace(ask, scores=(candidate.scores,), labels=(candidate.labels,), class_names=())
    for c, name in enumerate(names):
        column = {
            candidate.scores: replace(scores_entry, load=constant(scores[:, c])),
            candidate.labels: replace(labels_entry, load=constant(truth[:, c].astype(np.int64))),
        }
        model = "/".join(part for part in (candidate.model, name) if part)
        one = replace(candidate, model=model, extras=extras)
        yield load(one, {**entries, **column}, named, ignore=ignore)
