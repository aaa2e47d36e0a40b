"""Samples of EleutherAI's lm-evaluation-harness, 0.4.0 and later."""

import re
from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.harness_logs.gold_choices import choices_of_doc, choices_of_target
from calcli.importers.harness_logs.question_tables import table_of_questions
from calcli.importers.harness_logs.questions import (
    Question,
    choices_of_requests,
    log_likelihoods,
    measures_of,
    question_id,
    records_of_filter,
)
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record, Table

NAME = re.compile(r"\Asamples_(?P<task>.+?)_\d{4}-\d\d-\d\dT.*\Z")


@reader(
    "lm-eval",
    "samples_*.jsonl of lm-evaluation-harness: log-likelihoods of the choices",
    suffixes=[".jsonl", ".json"],
    sniff=lambda file: (
        bool(file.records) and {"doc_id", "filtered_resps"} <= file.records[0].keys()
    ),
    order=5,
    examples=[
        ("samples_mmlu_2025-01-01.jsonl", ""),
        ("samples_hellaswag_2025-01-01.jsonl", "--normalize chars"),
        ("samples_*.jsonl", "--join --choices 4"),
    ],
)
def read_lm_eval(file: SourceFile) -> Table:
    """Read the log-likelihood of every choice as logits, and the gold choice.

    The ids are doc_id, the group is the task. The gold is the target, as an index or a
    choice's text (winogrande: the answer in the doc, counted from 1), whichever agrees
    with the logged acc in every row. Raises DataError for tasks without choices and
    rows that contradict their acc.
    """
    questions = []
    for row, record in records_of_filter(file).items():
        questions.append(_question(record, f"{file.path}: row {row}"))
    task = NAME.sub(r"\g<task>", file.path.stem)
    scores = "log-likelihoods"
    normalize = file.request.normalize
    return table_of_questions(file, "lm-eval", questions, task, scores, normalize)


def _question(record: Record, row: str) -> Question:
    """The question of a line. Raises DataError for tasks without choices."""
    for name in ("doc_id", "filtered_resps"):
        if name not in record:
            raise DataError(f"{row}: has no {name}, which other lines have")
    doc_id = question_id(record["doc_id"], f"{row}: doc_id")
    where = f"{row} (doc_id {doc_id})"
    likelihoods = _likelihoods(record["filtered_resps"], where)
    requests = _requests(record.get("arguments") or [])
    if requests and len(requests) != len(likelihoods):
        raise DataError(
            f"{where}: has {len(likelihoods)} filtered_resps for {len(requests)}"
            " arguments, expected one each; is the line complete?"
        )
    choices = choices_of_requests(likelihoods, requests)
    target = record.get("target")
    golds = choices_of_target(target, choices.texts) | choices_of_doc(record.get("doc"))
    return Question(where, doc_id, choices, golds, target, measures_of(record))


def _likelihoods(responses: Any, where: str) -> list[float]:
    """Log-likelihoods of responses, a pair [log-likelihood, is_greedy] per choice."""
    if not isinstance(responses, list) or not all(map(_is_pair, responses)):
        raise DataError(
            f"{where}: holds generated text or one number, expected a log-likelihood"
            " per choice"
        )
    if len(responses) < 2:
        raise DataError(
            f"{where}: has no filtered_resps or one candidate only, expected several to"
            " choose from"
        )
    return log_likelihoods([value for value, _ in responses], where)


def _is_pair(response: Any) -> bool:
    return isinstance(response, list) and len(response) == 2


def _requests(arguments: Any) -> list[tuple[Any, Any]]:
    """Context and choice of every request, in either layout."""
    requests = []
    items = arguments.values() if isinstance(arguments, dict) else arguments
    for item in items:
        if isinstance(item, dict):
            requests.append((item.get("arg_0"), item.get("arg_1")))
        else:
            context, choice = tuple(item)[:2]
            requests.append((context, choice))
    return requests
