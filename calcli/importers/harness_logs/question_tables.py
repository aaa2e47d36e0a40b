"""Make a table of questions of multiple choice."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from calcli.errors import DataError
from calcli.importers.harness_logs.gold_choices import (
    agreement_remark,
    check_logged,
    gold_by_one_rule,
)
from calcli.importers.harness_logs.questions import NORMALIZATIONS, Floats, Question
from calcli.importers.remarks import remark
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record, Table
from calcli.io.cells import text_of
from calcli.items import are_all

ID_LIMIT = 1 << 63
"""Numbers from which an id is kept as a text: arrays of ids hold 64 bits."""


def table_of_questions(
    file: SourceFile,
    format: str,
    questions: Sequence[Question],
    task: str,
    scores: str,
    normalize: str = "none",
) -> Table:
    """Rows with logits, labels, ids, units and group (the task) of questions.

    Repeats of a question are a unit. scores : what they are, for the remark.
    normalize : as ``--normalize``. Raises DataError for questions whose gold is unclear
    or contradicts the log, and for ids that occur twice with the same scores.
    """
    gold = gold_by_one_rule(questions)
    rows: list[dict[str, Any]] = []
    for question, choice in zip(questions, gold.choices, strict=True):
        row = {
            "logits": list(_checked_scores(question, choice, normalize)),
            "labels": choice,
            "ids": question.id,
            "group": task,
            "unit": text_of(question.id if question.of is None else question.of),
        }
        rows.append(row)
    normalization = NORMALIZATIONS[normalize].words
    remark(
        f"{file.path.name}: logits are the {scores}{normalization} of the choices,"
        f" labels {gold.rule}{agreement_remark(questions)}"
    )
    if not file.request.drop_duplicates:
        _refuse_copies(file, rows)
    ids = [row["ids"] for row in rows]
    if are_all(int, ids):
        rows.sort(key=itemgetter("ids"))
    if not all(map(_is_plain_number, ids)):
        for row in rows:
            row["ids"] = text_of(row["ids"])
    return Table(file.path, format, {}, records=without_units_of_one_row(rows))


def without_units_of_one_row(rows: Sequence[Record]) -> Sequence[Record]:
    """The rows; where no two have the same unit, they have none."""
    if len({row["unit"] for row in rows}) < len(rows):
        return rows
    fewer = []
    for row in rows:
        fewer.append({name: cell for name, cell in row.items() if name != "unit"})
    return fewer


def _is_plain_number(value: Any) -> bool:
    """True for a number that an array of ids can hold; some ids are hashes."""
    return isinstance(value, int | float) and abs(value) < ID_LIMIT


def _refuse_copies(file: SourceFile, rows: Sequence[Record]) -> None:
    seen_before: set[tuple[Any, ...]] = set()
    for row in rows:
        question = (row["ids"], *row["logits"])
        if question in seen_before:
            raise DataError(
                f"{file.path}: id {row['ids']!r} occurs twice with the same scores; was"
                " a second run appended?"
            )
        seen_before.add(question)


def _checked_scores(question: Question, gold: int, normalize: str) -> Floats:
    """The scores of a question, whose gold agrees with all measures logged."""
    scores = normalised(question, normalize)
    check_logged(question, question.choices.likelihoods, gold, "acc")
    check_logged(question, scores, gold, NORMALIZATIONS[normalize].measure)
    return scores


def normalised(question: Question, how: str) -> Floats:
    """Log-likelihoods as ``--normalize`` says: as they are, per character or byte, or
    minus the unconditional ones (mutual).

    Raises DataError for values that were not logged.
    """
    scores = question.choices.likelihoods
    if how in ("none", "sum"):
        return scores
    if how == "mutual":
        base = question.choices.unconditional
        if base is None or len(base) != len(scores):
            raise DataError(
                f"{question.where}: has no unconditional log-likelihoods, which"
                " acc_mutual_info logs"
            )
        return [score - other for score, other in zip(scores, base, strict=True)]
    texts = question.choices.texts
    sizes = list(map(len, texts))
    if how == "bytes":
        sizes = list(map(len, map(str.encode, texts)))
    if len(sizes) != len(scores) or not all(sizes):
        raise DataError(
            f"{question.where}: lacks the texts of the choices that --normalize"
            f" {how} needs"
        )
    return [score / size for score, size in zip(scores, sizes, strict=True)]
