"""Logs of answers that hold no score for every candidate, told apart so that the refusal says what to do."""

from contextlib import ExitStack
from typing import Any

from calcli.errors import DataError
from calcli.importers.archive import Archive
from calcli.importers.ask import Ask
from calcli.importers.formats import reader
from calcli.importers.source_file import SourceFile

__all__ = ["read_answer_log"]

ADVICE = (
    ' save a line per question: {"logits": [log-probability of every candidate], "label": 2}, or'
    ' {"confidence": 0.8, "correct": true} for --confidence confidence --correct correct'
)


def _writer(file: SourceFile) -> str | None:
    """Who wrote the log: "helm", "inspect", "openai", or None for other files."""
    if file.members is not None:
        return "inspect" if "header.json" in file.members or "_journal/start.json" in file.members else None
    first: Any = next(iter(file.records), None)
    if not isinstance(first, dict):
        return None
    if "request_states" in first or {"instance_id", "stats"} <= first.keys():
        return "helm"
    if isinstance(first.get("samples"), list) and "eval" in first:
        return "inspect"
    response = first.get("response") if isinstance(first.get("response"), dict) else {}
    body = response.get("body", first) if isinstance(response, dict) else first
    choices: Any = body.get("choices") if isinstance(body, dict) else None
    answered = isinstance(choices, list) and bool(choices) and isinstance(choices[0], dict)
    return "openai" if answered and {"message", "text", "logprobs"} & choices[0].keys() else None


@reader(
    "answer-log",
    "logs of HELM, inspect_ai and OpenAI-compatible servers: recognised, and refused with what to save",
    suffixes=[".eval", ".json", ".jsonl"],
    sniff=lambda file: _writer(file) is not None,
    order=4,
    examples=[("answers.jsonl", "--confidence confidence --correct correct")],
)
def read_answer_log(file: SourceFile, stack: ExitStack, ask: Ask) -> Archive:
    """Refuse a log of answers in a sentence: it has no score for every candidate, or not the right answer.

    Raises DataError always.
    """
    told = {
        "helm": "is a log of HELM, which keeps the log-probability of the answer only (0 for every one where the"
        " temperature was 0), none of the other candidates;",
        "inspect": "is a log of inspect_ai, which holds answers and marks, but no score for every candidate;",
        "openai": "holds responses of an OpenAI-compatible server: the best tokens of each position, without the right"
        " answer and without the candidates that are not among the best;",
    }
    raise DataError(f"{file.path}: {told[str(_writer(file))]}{ADVICE}")
