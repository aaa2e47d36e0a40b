"""Logs of inspect_ai, with the log-probabilities of the answer's tokens where they were asked for."""

import json
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from shlex import quote
from string import ascii_uppercase
from typing import Any

from calcli.errors import DataError, UsageError
from calcli.importers.formats import reader
from calcli.importers.import_request import ImportRequest
from calcli.importers.questions import question_id
from calcli.importers.source_file import SourceFile, seek_member
from calcli.importers.table import Table
from calcli.importers.token_answers import Answer, positions_of, table_of_answers
from calcli.io.cells import text_of
from calcli.io.validate import refuse_bomb
from calcli.optional_packages import optional_import

MARKS: dict[Any, bool] = {"C": True, "I": False, 1: True, 0: False}
ZSTD = 93  # method number of zstd in zip archives


def _is_inspect(file: SourceFile) -> bool:
    if file.members is not None:
        return "header.json" in file.members or "_journal/start.json" in file.members
    return any(
        isinstance(first.get("samples"), list) and "eval" in first
        for first in file.records[:1]
    )


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
def read_inspect(file: SourceFile, stack: ExitStack, ask: ImportRequest) -> Table:
    """Read samples with choices as logits of their letters, target as label; others as (confidence, correct). The mark
    of every sample, C or I, is compared with its answer and target. Raises DataError for logs without log-probabilities
    and for shuffled choices."""
    path, samples = file.path, _samples(file)
    answers, sizes = [], set()
    for sample in samples:
        where = f"{path}: sample {sample.get('id')!r}"
        choice: Mapping[str, Any] = (
            (sample.get("output") or {}).get("choices") or [{}]
        )[0]
        content = (choice.get("message") or {}).get("content")
        positions = positions_of(choice.get("logprobs"), where)
        mark, answer = _mark(sample)
        targets = sample.get("target")
        targets = targets if isinstance(targets, list) else [targets]
        if len(targets) != 1:
            raise DataError(f"{where}: has {len(targets)} targets, expected one")
        target = _text(targets[0])
        listed = sample.get("choices") or []
        if (
            listed
            and mark is not None
            and answer
            and (answer.strip() == target.strip()) != mark
        ):
            told = f"is marked {'right' if mark else 'wrong'}, its answer is {answer!r} and its target {target!r}"
            raise DataError(f"{where}: {told}")
        if listed and answer and positions:
            positions = [
                position
                for position in positions
                if position.token.strip(" ().:") == answer.strip()
            ]
            if not positions:
                raise DataError(
                    f"{where}: no token is its answer {answer!r}; were the choices shuffled?"
                )
        more = {"labels": target} if listed else {"correct": mark}
        sizes.add(len(listed))
        own = sample.get("id")
        asked = None if own is None else text_of(question_id(own, f"{where}: id"))
        text = _text(content)
        answers.append((len(listed), Answer(where, asked, text, positions, more)))
    if not any(answer.positions for _, answer in answers):
        advice = "evaluate again with inspect eval … --logprobs --top-logprobs 20"
        raise DataError(
            f"{path}: is a log of inspect_ai with answers and marks, but no log-probabilities; {advice}"
        )
    if len(sizes) > 1 and ask.choices is None:
        raise UsageError(
            f"{path}: has samples with {sorted(sizes)} choices; take one number: --choices N"
        )
    kept = [answer for size, answer in answers if ask.choices in (None, size)]
    k = ask.choices if ask.choices is not None else max(sizes)
    if k and not ask.class_names and not ask.confidence:
        ask = replace(ask, class_names=tuple(ascii_uppercase[:k]))
    if not k and any(answer.more["correct"] is None for answer in kept):
        raise DataError(
            f"{path}: has samples without choices or a mark C or I; nothing says which answers are right"
        )
    return table_of_answers(path, "inspect", kept, ask)


def _samples(file: SourceFile) -> list[Mapping[str, Any]]:
    if file.members is None:
        return [dict(sample) for sample in file.records[0]["samples"]]
    found = []
    with zipfile.ZipFile(file.path) as archive:
        for member in archive.infolist():
            if not (
                member.filename.startswith("samples/")
                and member.filename.endswith(".json")
            ):
                continue
            refuse_bomb(
                f"{file.path}: {member.filename}",
                member.file_size,
                member.compress_size,
            )
            found.append(json.loads(_unpacked(file.path, archive, member)))
    if not found or not all(isinstance(sample, dict) for sample in found):
        raise DataError(
            f"{file.path}: holds no samples; was the evaluation interrupted?"
        )
    return found


def _unpacked(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Read a member of a log, by zstandard if it is packed with zstd and Python is < 3.14. Raises DataError."""
    try:
        return archive.read(member)
    except NotImplementedError:
        advice = f"inspect log convert {quote(str(path))} --to json --output-dir json rewrites it"
        if member.compress_type != ZSTD:
            raise DataError(
                f"{path}: is packed by method {member.compress_type}; {advice}"
            ) from None
        use = f"{path}: reading members packed by method {ZSTD}"
        with optional_import("zstandard", use, f"or {advice}"):
            import zstandard
    with path.open("rb") as opened:
        seek_member(opened, member.header_offset)
        packed = opened.read(member.compress_size)
    data: bytes = (
        zstandard.ZstdDecompressor()
        .stream_reader(packed, read_across_frames=True)
        .read(member.file_size + 1)
    )
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise DataError(f"{path}: {member.filename} is damaged; copy the log again")
    return data


def _mark(sample: Mapping[str, Any]) -> tuple[bool | None, str]:
    """(correctness by the first scorer, None if unknown; the answer that it read)."""
    for score in (sample.get("scores") or {}).values():
        if (value := score.get("value")) in MARKS:
            return MARKS[value], _text(score.get("answer"))
    return None, ""


def _text(value: Any) -> str:
    """Text of a target or an answer, "" for none; 0 is one."""
    return "" if value is None else str(value)
