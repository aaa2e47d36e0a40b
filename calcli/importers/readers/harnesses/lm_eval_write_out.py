"""Write-out of EleutherAI's lm-evaluation-harness, 0.3 and earlier."""

import re

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.harness_logs.gold_choices import settled_by_log
from calcli.importers.harness_logs.question_tables import table_of_questions
from calcli.importers.harness_logs.questions import (
    Choices,
    Question,
    logged_measure,
    question_id,
    shown,
)
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record, Table

LOGIT = re.compile(r"logit_\d+")
PROMPT = re.compile(r"prompt_\d+")


@reader(
    "lm-eval-write-out",
    "*_write_out_info.json of lm-evaluation-harness 0.3 and earlier: log-likelihoods of"
    " the choices",
    suffixes=[".json", ".jsonl"],
    sniff=lambda file: (
        bool(file.records) and {"logit_0", "truth"} <= file.records[0].keys()
    ),
    order=5,
    examples=[("hellaswag_write_out_info.json", "")],
)
def read_write_out(file: SourceFile) -> Table:
    """Read logit_0, logit_1, …, the log-likelihoods of the choices, as logits.

    The gold is truth, the choice's index or its text, with which its prompt ends;
    whichever agrees with the logged acc. Raises DataError for tasks without choices and
    rows that contradict acc.
    """
    if file.request.normalize not in ("none", "sum"):
        raise DataError(
            f"{file.path}: does not keep choices apart from prompts, which --normalize"
            f" {file.request.normalize} needs"
        )
    questions = []
    for row, record in enumerate(file.records):
        questions.append(_question(record, row, f"{file.path}: row {row}"))
    task = file.path.stem.removesuffix("_write_out_info")
    format = "lm-eval-write-out"
    return table_of_questions(file, format, questions, task, "log-likelihoods")


def _question(record: Record, row: int, where: str) -> Question:
    """The question of a line. Raises DataError for tasks without choices."""
    logits = _numbered_logits(record)
    n_logits = len(list(filter(LOGIT.fullmatch, record)))
    n_prompts = len(list(filter(PROMPT.fullmatch, record)))
    if len(logits) < 2:
        raise DataError(
            f"{where}: has {len(logits)} log-likelihoods, expected one per choice"
        )
    if len(logits) != n_logits or n_prompts not in (0, n_logits):
        raise DataError(
            f"{where}: has {len(logits)} numbers of {n_logits} logits, {n_prompts}"
            " prompts; is the line complete?"
        )
    acc = logged_measure(record.get("acc"))
    named = f"{where}: truth {shown(record['truth'])}"
    gold = settled_by_log(named, _choices_of_truth(record, n_logits), logits, acc)
    doc_id = question_id(record.get("doc_id", row), f"{where}: doc_id")
    golds = {"from truth": gold}
    return Question(where, doc_id, Choices(logits), golds, logged={"acc": acc})


def _numbered_logits(record: Record) -> list[float]:
    """Values of logit_0, logit_1, …; none where one is no number.

    Each is a number, a pair with is_greedy, or either as text.
    """
    logits: list[float] = []
    while record.get(f"logit_{len(logits)}") is not None:
        text = str(record[f"logit_{len(logits)}"]).strip("()[] ")
        try:
            logits.append(float(text.partition(",")[0].strip("'")))
        except ValueError:
            return []
    return logits


def _choices_of_truth(record: Record, k: int) -> list[int]:
    """Choices that truth may denote: by index, or by the text that ends a prompt."""
    truth = record["truth"]
    if isinstance(truth, int) and 0 <= truth < k:
        return [truth]
    text = str(truth).rstrip()
    choices = []
    for choice in range(k):
        prompt = str(record.get(f"prompt_{choice}", "")).rstrip()
        if text.strip() and prompt.endswith(text):
            choices.append(choice)
    if text.strip().isdigit() and int(text) < k and int(text) not in choices:
        choices.append(int(text))
    return choices
