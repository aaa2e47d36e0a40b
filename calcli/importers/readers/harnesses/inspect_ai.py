"""Logs of inspect_ai, with the log-probabilities of tokens."""

import re
from shlex import quote
from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.harness_logs.gold_choices import only_one
from calcli.importers.harness_logs.marked_answers import marked, table_of_marked
from calcli.importers.harness_logs.token_answers import (
    Answer,
    answer_id,
    positions_of,
    text_of_message,
)
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record, Table
from calcli.importers.zip_members import json_members
from calcli.items import are_all

MARKS: dict[Any, bool] = {"C": True, "I": False, 1: True, 0: False}
SAMPLE = re.compile(r"samples/.*\.json", re.DOTALL)


def _is_inspect(file: SourceFile) -> bool:
    if file.members is not None:
        return "header.json" in file.members or "_journal/start.json" in file.members
    first = next(iter(file.records), {})
    return isinstance(first.get("samples"), list) and "eval" in first


@reader(
    "inspect",
    "logs of inspect_ai, .eval or .json, evaluated with --logprobs --top-logprobs 20",
    suffixes=[".eval", ".json"],
    sniff=_is_inspect,
    order=4,
    examples=[
        ("2025-02-11T15-17-00_mmlu.eval", ""),
        ("2025-02-11T15-17-00_mmlu.json", "--choices 4 --drop-duplicates"),
    ],
)
def read_inspect(file: SourceFile) -> Table:
    """Read samples with choices as logits of their letters, target as label.

    Others are read as (confidence, correct). The mark of every sample, C or I, is
    compared with its answer and target. Raises DataError for logs without
    log-probabilities and for shuffled choices.
    """
    path = file.path
    answers = []
    for sample in _samples(file):
        answers.append(_answer(sample, f"{path}: sample {sample.get('id')!r}"))
    if not any(answer.positions for answer in answers):
        raise DataError(
            f"{path}: is a log of inspect_ai with answers and marks, but no"
            " log-probabilities; evaluate again with inspect eval … --logprobs"
            " --top-logprobs 20"
        )
    return table_of_marked(path, "inspect", answers, file.request)


def _samples(file: SourceFile) -> list[Record]:
    """The samples of a log. Raises DataError."""
    if file.members is None:
        return list(map(dict, file.records[0]["samples"]))
    convert = f"inspect log convert {quote(str(file.path))} --to json --output-dir json"
    samples = json_members(file.path, SAMPLE, f"{convert} rewrites it")
    if not samples or not are_all(dict, samples):
        raise DataError(
            f"{file.path}: holds no samples; was the evaluation interrupted?"
        )
    return samples


def _answer(sample: Record, where: str) -> Answer:
    """The first answer to a sample, with the target and its mark."""
    choice = ((sample.get("output") or {}).get("choices") or [{}])[0]
    positions = positions_of(choice.get("logprobs"), where)
    target = sample.get("target")
    if isinstance(target, list):
        target = only_one(target, where, "targets")
    text = text_of_message(choice.get("message"))
    sample_id = answer_id(sample.get("id"), f"{where}: id")
    n_choices = len(sample.get("choices") or [])
    answer = Answer(where, sample_id, text, positions, n_choices=n_choices)
    is_right, said = _mark(sample)
    return marked(answer, _text(target), is_right, said)


def _mark(sample: Record) -> tuple[bool | None, str]:
    """Whether the first scorer that says it finds the answer right, and the answer."""
    for score in (sample.get("scores") or {}).values():
        if score.get("value") in MARKS:
            return MARKS[score["value"]], _text(score.get("answer"))
    return None, ""


def _text(value: Any) -> str:
    """Text of a target or an answer, "" for none; 0 is one."""
    return "" if value is None else str(value)
