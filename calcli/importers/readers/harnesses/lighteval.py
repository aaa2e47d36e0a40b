"""Details files of lighteval: a Parquet table with the log-probability of every choice."""

from contextlib import ExitStack
from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.questions import (
    Question,
    check_logged,
    log_likelihood,
    normalised,
    question_id,
    table_of_questions,
)
from calcli.importers.readers.parquet import read_parquet, read_table
from calcli.importers.remarks import remark
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table


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
def read_lighteval(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Table:
    """Read the summed log-probabilities of the choices as logits, gold_index as labels. ``--normalize`` divides by the
    characters or bytes of a choice as saved (with its leading space), or subtracts the unconditioned ones (mutual).
    Raises DataError for generative tasks, several right choices, and rows that contradict their acc."""
    path, rows = file.path, read_table(file).to_pylist()
    if not rows or not ("model_response" in rows[0] or "pred_logits" in rows[0]):
        return read_parquet(file, stack, ask)
    questions = []
    for number, row in enumerate(rows):
        where = f"{path}: row {number}"
        doc, response = row.get("doc") or row, row.get("model_response") or {}
        logged = _flat(response.get("logprobs") if response else row.get("pred_logits"))
        texts = doc.get("choices") or []
        if len(logged) != len(texts) or len(logged) < 2:
            told = f"has {len(logged)} log-probabilities, {len(texts)} choices"
            raise DataError(f"{where}: {told}; is the task generative?")
        lls = [
            log_likelihood(value, f"{where}: log-probability of choice {choice}")
            for choice, value in enumerate(logged)
        ]
        gold = _flat(doc.get("gold_index"))
        if len(gold) != 1 or not 0 <= gold[0] < len(lls):
            raise DataError(
                f"{where}: gold_index is {doc.get('gold_index')}, expected one choice of {len(lls)}"
            )
        scores = normalised(
            where,
            ask.normalize,
            lls,
            texts,
            _flat(response.get("unconditioned_logprobs")),
        )
        measured = (row.get("metric") or row.get("metrics") or {}).get("acc")
        check_logged(
            where,
            lls,
            int(gold[0]),
            None if measured is None else float(measured),
            "acc",
        )
        own = doc.get("id")
        asked = question_id(number if own in (None, "") else own, f"{where}: id")
        questions.append(Question(asked, scores, int(gold[0])))
    first = rows[0].get("doc") or rows[0]
    task = str(first.get("task_name") or path.stem.removeprefix("details_"))
    remark(
        f"{path.name}: logits are the log-probabilities of the choices, labels gold_index; acc agrees where logged"
    )
    return table_of_questions(path, "lighteval", questions, task, ask)


def _flat(value: Any) -> list[Any]:
    """Flatten a list, a list in a list, or one number."""
    if value is None:
        return []
    if not isinstance(value, list):
        return [value]
    return [inner for item in value for inner in _flat(item)]
