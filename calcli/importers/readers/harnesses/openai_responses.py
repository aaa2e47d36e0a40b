"""Responses of servers with an OpenAI interface, with the log-probabilities of their tokens."""

from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.harness_logs.answer_classes import with_classes
from calcli.importers.harness_logs.token_answers import (
    Answer,
    answer_id,
    positions_of,
    table_of_answers,
    text_of_message,
)
from calcli.importers.names.roles import role_of
from calcli.importers.remarks import remark_left_out
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Record, Table
from calcli.items import are_all

KEYS_OF_CHOICE = {"message", "text", "logprobs"}


@reader(
    "openai",
    "responses of servers with an OpenAI interface: chat, completions, batch output",
    suffixes=[".jsonl", ".json"],
    sniff=lambda file: any(_body(record) is not None for record in file.records[:20]),
    order=4,
    examples=[
        ("batch_output.jsonl", "--class-names A,B,C,D --gold answers.csv"),
        (
            "chat.jsonl",
            "--confidence confidence --correct answer=gold --gold answers.csv",
        ),
    ],
)
def read_openai(file: SourceFile) -> Table:
    """Read the log-probabilities of the answer's tokens (see ``table_of_answers``).

    Ids of rows are ``custom_id``, or the id beside the response. A label beside it is
    the gold; both prove the classes where no option names them. Lines that failed are
    left out and counted.
    """
    path = file.path
    request = file.request
    answers = []
    for row, record in enumerate(file.records):
        body = _body(record)
        if body is not None:
            wrapper = {} if body is record else record
            answers.append(_answer(body, wrapper, f"{path}: row {row}"))
    if not (request.class_names or request.confidence):
        request = with_classes(path, answers, request)
    n_rows = len(file.records)
    remark_left_out(path.name, n_rows - len(answers), n_rows, "lines have no answer")
    return table_of_answers(path, "openai", answers, request)


def _body(record: Record) -> Record | None:
    """Completion in a line of a batch, in the user's own wrapper, or by itself.

    None for other records.
    """
    response = record.get("response")
    inner = response.get("body") if isinstance(response, dict) else None
    for body in (inner, response, record):
        if isinstance(body, dict) and _are_choices(body.get("choices")):
            return body
    return None


def _are_choices(choices: Any) -> bool:
    """True for a list of answers, by the keys of the first."""
    if not isinstance(choices, list) or not choices or not are_all(dict, choices):
        return False
    return not KEYS_OF_CHOICE.isdisjoint(choices[0])


def _answer(body: Record, wrapper: Record, where: str) -> Answer:
    """The answer of a completion. wrapper : what lies around it, with id and label."""
    choices = body["choices"]
    if len(choices) != 1:
        raise DataError(
            f"{where}: has {len(choices)} choices, expected one answer per row (n=1)"
        )
    choice = choices[0]
    if choice.get("prompt_logprobs") and not choice.get("logprobs"):
        raise DataError(
            f"{where}: has prompt_logprobs, which do not say which token the prompt"
            " had; generate one with logprobs=true, top_logprobs=20"
        )
    positions = positions_of(choice.get("logprobs"), where)
    text = str(choice.get("text") or text_of_message(choice.get("message")))
    gold = {}
    for name, value in wrapper.items():
        if role_of(name) == "labels" and isinstance(value, str | int):
            gold[name] = value
    return Answer(where, _id_of(wrapper, where), text, positions, gold)


def _id_of(record: Record, where: str) -> str | None:
    """Id of a line: its ``custom_id``, else its ``id``; None if it has neither."""
    for name in ("custom_id", "id"):
        if record.get(name) not in (None, ""):
            return answer_id(record[name], f"{where}: {name}")
    return None
