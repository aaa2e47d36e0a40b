"""Which array of a source is the label of an array of scores."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from calcli.errors import DataError, SaysHow, UsageError
from calcli.importers.evidence.label_evidence import Agreement
from calcli.importers.evidence.source_arrays import Arrays
from calcli.importers.import_request import TO_SUPPLY, ImportRequest
from calcli.importers.names.array_names import Name, is_generated, of_role, real_names
from calcli.importers.names.roles import (
    is_answer,
    is_counter,
    is_no_truth,
    is_prediction,
    is_unit,
    says_correct,
)
from calcli.importers.remarks import remark

NEARLY_ALL = 0.98
"""Proportion of rows in which a prediction, beside labels, has the largest score."""


@dataclass(frozen=True)
class Label:
    """The path of the labels, and the reason where no name says so."""

    path: str
    reason: str = ""


@dataclass(frozen=True)
class LabelSearch:
    """The search for the labels of one array of scores."""

    arrays: Arrays
    score: Name
    scores: Sequence[Name]
    request: ImportRequest
    where: str

    def is_beside(self, name: Name) -> bool:
        """True for an array in the folder and the split of the scores."""
        return name.place == self.score.place

    def named(self, wanted: Sequence[Sequence[Name]], number: int) -> Label | None:
        """The labels that options name, else those that are named so in the source.

        wanted : arrays of every ``--labels``. number : of the scores among all.
        """
        labels = list(chain(*wanted))
        if len(wanted) == len(self.scores) == len(self.request.scores):
            labels = list(wanted[number])
        if not labels:
            labels = self.by_name()
        is_only_pair = len(self.scores) == len(labels) == 1
        if is_only_pair:
            splits = {self.score.split, labels[0].split} - {""}
            is_only_pair = len(splits) < 2
        any_model = bool(self.request.labels) or is_only_pair
        path = companion(self.score, labels, any_model=any_model, refuse_several=True)
        return Label(path) if path else None

    def by_name(self) -> list[Name]:
        """Arrays named as labels without those that have the largest score in every row.

        Where ``label`` is the largest score in every row, and ``gold`` only more often
        than chance, ``label`` is the model's answer and ``gold`` the truth.
        """
        labels = of_role(self.arrays.names, "labels")
        here = list(filter(self.is_beside, labels))
        if len(here) < 2:
            return labels
        in_words = self._in_words(here)
        if in_words is not None:
            return [in_words]
        predicted = []
        others = []
        for name in here:
            if self.arrays.is_proven_prediction(self.score.path, name.path):
                predicted.append(name)
            else:
                others.append(self.arrays.is_proven_label(self.score.path, name.path))
        # Without this a model that is right in every row would lose its labels.
        if not others or not all(others):
            return labels
        for name in predicted:
            remark(
                f"{self.where}: {name.path!r} has the largest score in every row, so"
                " it is read as the prediction"
            )
        return [name for name in labels if name not in predicted]

    def _in_words(self, labels: Sequence[Name]) -> Name | None:
        """The labels that name the classes, where all others are their numbers.

        So ``label_name`` beside ``label_idx``; None where they say different things.
        """
        in_words = []
        classes = set()
        for name in labels:
            indices = self.arrays.class_indices(self.score.path, name.path)
            if indices is None:
                return None
            classes.add(indices.tobytes())
            if self.arrays.load(name.path).dtype.kind not in "iu":
                in_words.append(name)
        if len(in_words) != 1 or len(classes) != 1:
            return None
        return in_words[0]

    def proven(self) -> Label | None:
        """The one column that its values prove to be the labels; else None."""
        scores = self.arrays.load(self.score.path)
        are_named = self.arrays.paths_of("labels") or self.request.labels
        if are_named or scores is None:
            return None
        candidates = [
            name for name in self.arrays.names if self._may_be_label(name, scores)
        ]
        label_names = list(filter(self.is_beside, candidates)) or candidates
        has_own_columns = bool(self.arrays.columns[self.score.path].parts)
        is_named = bool(self.score.kind)
        is_only = len({name.core for name in label_names}) == 1
        if is_named and self.arrays.classes(self.score.path) is None:
            label_names = [name for name in label_names if is_answer(name.core)]
        elif is_only and not has_own_columns and not is_named:
            path = companion(self.score, label_names, any_model=True)
            if path is None or not self.arrays.may_follow(self.score.path, path):
                return None
            return Label(path, "the only array of as many classes")
        return self._by_values(label_names)

    def _may_be_label(self, name: Name, scores: Any) -> bool:
        """True for classes beside the scores: a value per row, or per position."""
        array = self.arrays.load(name.path)
        if name.role or array is None or array.dtype.kind not in "iuUO":
            return False
        if says_correct(name.core) and array.dtype.kind in "iu":
            return False
        if array.ndim == 1:
            return len(array) in scores.shape[:2]
        return array.ndim == scores.ndim - 1

    def _by_values(self, label_names: Sequence[Name]) -> Label | None:
        """The one column of classes that is no prediction; None for none or several.

        A prediction has nearly always the largest score, beside another column; alone
        it has it in each of enough rows.
        """
        agreements: dict[str, Agreement] = {}
        known = set()
        for name in label_names:
            indices = self.arrays.class_indices(self.score.path, name.path)
            matches_largest = self.arrays.agreement(self.score.path, name.path)
            if indices is None or matches_largest is None or is_prediction(name.core):
                continue
            is_number = self.arrays.load(name.path).dtype.kind in "iu"
            is_other = is_counter(name.core) or is_unit(name.core)
            is_proven = self.arrays.is_proven_label(self.score.path, name.path)
            if is_number and (is_other or not is_proven):
                continue
            if indices.tobytes() not in known:  # else the same classes again
                known.add(indices.tobytes())
                agreements[name.path] = matches_largest
        labels = []
        for path, matches_largest in agreements.items():
            is_predicted = matches_largest.is_of_predictions
            if len(agreements) > 1:
                is_predicted = matches_largest.share >= NEARLY_ALL
            if not is_predicted:
                labels.append(path)
        if len(labels) != 1:
            return None
        return Label(labels[0], "its values are the classes")

    def refusal(self) -> DataError:
        """Error about scores without labels, with the command that takes them alone."""
        others = [
            path for path in real_names(self.arrays.names) if path != self.score.path
        ]
        scores = self.arrays.columns[self.score.path]
        shown = scores.shown if is_generated(self.score) else self.score.path
        # of a file that the user has to write
        with_gold = self.request.command(self.where, [("--gold", TO_SUPPLY)])
        problem = SaysHow(
            f"{self.where}: found no labels for {shown!r}",
            advice=f"name them with --labels {self._option()} (none: calibrate only),"
            f" or write them to {TO_SUPPLY}: {shlex.join(with_gold)}",
        )
        # Only ``extract`` carries scores without labels, where nothing may be a label.
        if others or not self.request.carry:
            return problem
        return problem.advising(
            self.request.command(self.where, [("--labels", "none")])
        )

    def _option(self) -> str:
        """Value to advise for ``--labels``."""
        several = []
        free = []
        score_paths = {score.path for score in self.scores}
        for name in self.arrays.names:
            if name.role == "labels" and name.model and name.core == name.path:
                several.append(name.path)
            is_other = says_correct(name.core) or is_no_truth(name.core)
            if not name.role and not is_other and name.path not in score_paths:
                free.append(name.path)
        if len(several) > 1:
            return (
                f"{several[0]}:{several[-1]}, with --per-label where several may hold"
                " at once"
            )
        return shlex.quote(free[0]) if len(free) == 1 else "NAME"


def companion(
    score: Name,
    names: Sequence[Name],
    *,
    any_model: bool = False,
    any_split: bool = False,
    refuse_several: bool = False,
) -> str | None:
    """Path of the array that belongs to these scores, nearest folder first.

    refuse_several : UsageError where several fit.
    """
    splits = (score.split, "") if any_split else (score.split,)
    for depth in range(len(score.folder), -1, -1):
        for split in splits:
            here = []
            for name in names:
                if name.folder == score.folder[:depth] and name.split == split:
                    here.append(name)
            path = _of_model(score, here, refuse_several)
            if path is None and any_model and here:
                path = here[0].path
            if path is not None:
                return path
    return names[0].path if any_model and len(names) == 1 else None


def _of_model(score: Name, names: Sequence[Name], refuse_several: bool) -> str | None:
    """Path of the array of the same model, else that of no model; None for none."""
    for model in dict.fromkeys((score.model, score.core, "")):
        paths = [name.path for name in names if name.model == model]
        if refuse_several and len(paths) > 1:
            raise UsageError(
                f"{', '.join(paths)} could all be labels of {score.path!r}; choose"
                " with --labels"
            )
        if paths:
            return paths[0]
    return None


def extra_of(score: Name, names: Sequence[Name], role: str) -> str | None:
    """Path of the array of this role that belongs to the scores."""
    any_split = role in ("class_names", "specs")
    return companion(score, of_role(names, role), any_split=any_split)
