"""Details files of lighteval: a Parquet table with the log-probability of every choice."""

from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.harness_logs.question_tables import table_of_questions
from calcli.importers.harness_logs.questions import (
    Choices,
    Question,
    log_likelihoods,
    logged_measure,
    question_id,
)
from calcli.importers.readers.parquet import read_parquet, read_table
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record, Table


@reader(
    "lighteval",
    "details_*.parquet of lighteval: log-probabilities of the choices",
    suffixes=[".parquet"],
    sniff=lambda file: (
        file.head.startswith(b"PAR1") and file.path.name.startswith("details_")
    ),
    extra="parquet",
    order=-1,
    examples=[("details_mmlu_2025-11-05.parquet", "")],
)
def read_lighteval(file: SourceFile) -> Table:
    """Read the summed log-probabilities of the choices as logits, gold_index as labels.

    ``--normalize`` divides by the characters or bytes of a choice as saved (with its
    leading space), or subtracts the unconditioned ones (mutual). Raises DataError for
    generative tasks, several right choices, and rows that contradict their acc.
    """
    rows = read_table(file).to_pylist()
    if not rows or not ("model_response" in rows[0] or "pred_logits" in rows[0]):
        return read_parquet(file)
    questions = []
    for number, row in enumerate(rows):
        questions.append(_question(row, number, f"{file.path}: row {number}"))
    doc = rows[0].get("doc") or rows[0]
    task = str(doc.get("task_name") or file.path.stem.removeprefix("details_"))
    scores = "log-probabilities"
    normalize = file.request.normalize
    return table_of_questions(file, "lighteval", questions, task, scores, normalize)


def _question(row: Record, number: int, where: str) -> Question:
    """The question of a row. Older files have no structs: the row is all of them."""
    doc = row.get("doc") or row
    response = row.get("model_response") or {}
    logged = _flat(response.get("logprobs") if response else row.get("pred_logits"))
    texts = doc.get("choices") or []
    if len(logged) != len(texts) or len(logged) < 2:
        raise DataError(
            f"{where}: has {len(logged)} log-probabilities, {len(texts)} choices; is"
            " the task generative?"
        )
    unconditioned = _flat(response.get("unconditioned_logprobs"))
    choices = Choices(log_likelihoods(logged, where), texts, unconditioned)
    gold = _flat(doc.get("gold_index"))
    if len(gold) != 1 or not 0 <= gold[0] < len(logged):
        raise DataError(
            f"{where}: gold_index is {doc.get('gold_index')}, expected one choice of"
            f" {len(logged)}"
        )
    golds = {"gold_index": int(gold[0])}
    measures = row.get("metric") or row.get("metrics") or {}
    acc = logged_measure(measures.get("acc"))
    doc_id = number if doc.get("id") in (None, "") else doc["id"]
    question = question_id(doc_id, f"{where}: id")
    return Question(where, question, choices, golds, logged={"acc": acc})


def _flat(value: Any) -> list[Any]:
    """Flatten a list, a list in a list, or one number."""
    if value is None:
        return []
    if not isinstance(value, list):
        return [value]
    flat = []
    for item in value:
        flat += _flat(item)
    return flat
