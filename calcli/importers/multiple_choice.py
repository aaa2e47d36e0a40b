"""Multiple choice: a score per candidate, as logged by evaluation harnesses of language models."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import DataError, UsageError, one_line
from calcli.fast_dataclass import dataclass
from calcli.importers.archive import Archive, Entry, remark
from calcli.importers.array_names import parse_name
from calcli.importers.columns import table_archive
from calcli.importers.import_request import ImportRequest
from calcli.importers.nested import record_columns
from calcli.io.cells import is_number, text_of

Floats = Sequence[float]
FOLDER = re.compile(r"^choices_\d+/")  # folder of the arrays with one number of choices


@dataclass(frozen=True)
class Question:
    """One question: its id, a score per candidate (higher is better, natural log), the right candidate. of : id of
    the question that it repeats, as a further trial or in other words; None for its own id."""

    id: Any
    scores: Sequence[float]
    gold: int
    of: Any = None


def question_id(value: Any, where: str) -> Any:
    """Check the id of a question, a number or a word. Raises DataError."""
    is_word = isinstance(value, str)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_word and not (is_number and isfinite(value)):
        shown = one_line(ValueError(json.dumps(value, default=str)), 40)
        raise DataError(f"{where} is {shown}, expected a number or a word")
    return value


def log_likelihood(value: Any, where: str) -> float:
    """Check one log-likelihood of a log, a number or its text. Raises DataError."""
    is_text = isinstance(value, str) and is_number(value)
    if is_text or (isinstance(value, int | float) and not isinstance(value, bool)):
        found = float(value)
        if not isnan(found):
            return found
    shown = one_line(ValueError(json.dumps(value, default=str)), 40)
    raise DataError(f"{where} is {shown}, expected a number; evaluate it anew")


def agrees(lls: Sequence[float], gold: int, right: float | None) -> bool:
    """True if the gold candidate agrees with the logged correctness of the largest score, or none was logged."""
    return right is None or (right == 1) == (lls[gold] == max(lls))


def check_logged(where: str, lls: Sequence[float], gold: int, right: float | None, measure: str) -> None:
    """Raise DataError for a gold candidate that contradicts the log. Ties count as agreement. right : logged
    correctness of the candidate with the largest score; None if not logged."""
    if right not in (None, 0, 1):
        raise DataError(f"{where}: {measure} is {right}, expected 0 or 1: several answers count as right here")
    if not agrees(lls, gold, right) and (right or list(lls).count(max(lls)) == 1):
        best = f"the largest score is candidate {int(np.argmax(lls))}"
        raise DataError(f"{where}: {measure} is {right:g}, but {best} and the right one {gold}; were they shuffled?")


def normalised(where: str, how: str, lls: Floats, texts: Sequence[str], base: Floats | None) -> Floats:
    """Log-likelihoods per character or byte of the choices, or minus the unconditional ones (mutual): ``base``, None
    if not logged. Raises DataError for values that were not logged."""
    if how == "none":
        return lls
    if how == "mutual":
        if base is None or len(base) != len(lls):
            raise DataError(f"{where}: has no unconditional log-likelihoods, which acc_mutual_info logs")
        return [ll - other for ll, other in zip(lls, base, strict=True)]
    sizes = [len(text if how == "chars" else text.encode()) for text in texts]
    if len(sizes) != len(lls) or not all(sizes):
        raise DataError(f"{where}: lacks the texts of the choices that --normalize {how} needs")
    return [ll / size for ll, size in zip(lls, sizes, strict=True)]


def choice_archive(path: Path, format: str, questions: Sequence[Question], task: str, ask: ImportRequest) -> Archive:
    """Arrays logits, labels, ids and group (the task) of questions, split by ``by_choices``. Repeats of a question are
    a unit. Raises DataError for ids that occur twice with the same scores."""
    seen: dict[Any, Sequence[float]] = {}
    for question in questions:
        if list(seen.get(question.id, ())) == list(question.scores) and not ask.drop_duplicates:
            raise DataError(f"{path}: id {question.id!r} occurs twice with the same scores; was a second run appended?")
        seen[question.id] = question.scores
    if all(isinstance(question.id, int) for question in questions):
        questions = sorted(questions, key=lambda question: question.id)
    plain = all(isinstance(q.id, int | float) and abs(q.id) < 1 << 63 for q in questions)  # else texts: some are hashes
    ids = [q.id if plain else text_of(q.id) for q in questions]
    pairs = list(zip(questions, ids, strict=True))
    rows = [{"logits": list(q.scores), "labels": q.gold, "ids": one, "group": task} for q, one in pairs]
    asked = [text_of(one if q.of is None else q.of) for q, one in pairs]
    if len(set(asked)) < len(asked):
        rows = [row | {"unit": unit} for row, unit in zip(rows, asked, strict=True)]
    return by_choices(path, format, rows, ask)


def are_scores(name: str, ask: ImportRequest) -> bool:
    """True for a column that will be read as scores."""
    asked = {FOLDER.sub("", asked) for asked in ask.scores}
    return name in asked if asked else parse_name(name).role == "scores"


def by_choices(path: Path, format: str, rows: Sequence[Mapping[str, Any]], ask: ImportRequest) -> Archive:
    """Arrays of a table of rows; of several numbers of scores one table each, in folders ``choices_N``."""
    named = [name for name in rows[0] if are_scores(name, ask) and not _of_positions(rows[0], name)]
    sizes = sorted({len(row[name]) for name in named[:1] for row in rows if isinstance(row.get(name), list)})
    if ask.choices is None and (len(sizes) < 2 or sizes[0] < 2):  # a single score is not a choice
        return table_archive(path, format, record_columns(path, rows), len(rows), ask)
    entries: dict[str, Entry] = {}
    counts = []
    for k in sizes if ask.choices is None else [ask.choices]:
        own = [row for row in rows if isinstance(row.get(named[0]), list) and len(row[named[0]]) == k] if named else []
        if not own:
            raise UsageError(f"--choices {k}: {path} has rows with {', '.join(map(str, sizes)) or 'no'} scores")
        counts.append(f"{len(own)} with {k}")
        archive = table_archive(path, format, record_columns(path, own), len(own), ask)
        folder = "" if ask.choices is not None else f"choices_{k}/"
        entries |= {folder + name: replace(entry, name=folder + name) for name, entry in archive.entries.items()}
    told = f"rows have different numbers of scores ({', '.join(counts)}): a group for each number"
    if ask.choices is not None:
        told = f"{len(own)} of {len(rows)} rows, those with {k} scores, were taken (--choices)"
    remark(f"{path.name}: {told}")
    return Archive(path, format, entries)


def _of_positions(row: Mapping[str, Any], name: str) -> bool:
    """True if scores of a row are lists per token of a sentence, or numbers beside as many labels."""
    cell, labels = row[name], [other for key, other in row.items() if parse_name(key).role == "labels"]
    if not isinstance(cell, list) or not cell:
        return False
    return isinstance(cell[0], list) or any(isinstance(other, list) and len(other) == len(cell) for other in labels)
