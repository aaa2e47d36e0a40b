"""Responses of servers with an OpenAI interface, with the log-probabilities of their tokens."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from calcli.errors import DataError
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.names import role_of
from calcli.importers.questions import question_id
from calcli.importers.remarks import remark
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table
from calcli.importers.token_answers import Answer, positions_of, table_of_answers
from calcli.io.cells import text_of

COMMANDS = "--class-names A,B,C,D --gold FILE for answers that are classes, or --confidence confidence --correct"
COMMANDS += " answer=gold --gold FILE for free ones (a FILE of ids and right answers)"


def _id_of(record: Mapping[str, Any], where: str) -> str | None:
    """Id of a line: its ``custom_id``, else its ``id``; None if it has neither."""
    for name in ("custom_id", "id"):
        value = record.get(name)
        if value is not None and value != "":
            return text_of(question_id(value, f"{where}: {name}"))
    return None


def _body(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Completion in a line of a batch, in the user's own wrapper, or by itself; None for other records."""
    response = record.get("response")
    for body in (
        response.get("body") if isinstance(response, dict) else None,
        response,
        record,
    ):
        choices = body.get("choices") if isinstance(body, dict) else None
        if isinstance(choices, list) and all(
            isinstance(choice, dict) for choice in choices
        ):
            known = {"message", "text", "logprobs"} & (
                choices[0].keys() if choices else set()
            )
            if known:
                return body
    return None


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
def read_openai(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Table:
    """Read the log-probabilities of the answer's tokens (see ``table_of_answers``). Ids of rows are ``custom_id``, or
    the id beside the response. A label beside it is the gold. Lines that failed are left out and counted."""
    path, answers, failed = file.path, [], 0
    for row, record in enumerate(file.records):
        body = _body(record)
        if body is None:
            failed += 1
            continue
        where = f"{path}: row {row}"
        if len(body["choices"]) != 1:
            raise DataError(
                f"{where}: has {len(body['choices'])} choices, expected one answer per row (n=1)"
            )
        (choice,) = body["choices"]
        if choice.get("prompt_logprobs") and not choice.get("logprobs"):
            told = "has prompt_logprobs, which do not say which token the prompt had"
            raise DataError(
                f"{where}: {told}; generate one with logprobs=true, top_logprobs=20"
            )
        positions = positions_of(choice.get("logprobs"), where)
        if positions and all(
            position.token.startswith("token_id:") for position in positions
        ):
            raise DataError(
                f"{where}: tokens are numbers; run the server without return_tokens_as_token_ids"
            )
        text = choice.get("text") or (choice.get("message") or {}).get("content") or ""
        own = {} if body is record else record
        id = _id_of(own, where)
        gold = {
            k: v
            for k, v in own.items()
            if role_of(k) == "labels" and isinstance(v, (str, int))
        }
        answers.append(Answer(where, id, str(text), positions, gold))
    if not (ask.class_names or ask.confidence):
        raise DataError(
            f"{path}: holds responses of a server with an OpenAI interface; say what they are: {COMMANDS}"
        )
    if failed:
        remark(
            f"{path.name}: {failed} of {len(file.records)} lines have no answer: left out"
        )
    return table_of_answers(path, "openai", answers, ask)
