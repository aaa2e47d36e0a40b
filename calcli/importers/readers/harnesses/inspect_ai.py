"""Logs of inspect_ai, with the log-probabilities of tokens where they were asked for."""

import json
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from string import ascii_uppercase
from typing import Any

from calcli.errors import DataError, UsageError
from calcli.importers.formats import reader
from calcli.importers.questions import question_id
from calcli.importers.source_file import SourceFile, seek_member
from calcli.importers.table import Record, Table
from calcli.importers.token_answers import (
    Answer,
    Position,
    positions_of,
    table_of_answers,
)
from calcli.io.cells import text_of
from calcli.io.validate import refuse_bomb
from calcli.optional_packages import optional_import

MARKS: dict[Any, bool] = {"C": True, "I": False, 1: True, 0: False}
ZSTD = 93  # method number of zstd in zip archives
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
    request = file.request
    samples = _contents(file)
    n_choices = request.choices
    sizes = sorted(set(map(_n_choices, samples)))
    answers = [_answer(sample, path) for sample in samples]
    if not any(answer.positions for answer in answers):
        raise DataError(
            f"{path}: is a log of inspect_ai with answers and marks, but no"
            " log-probabilities; evaluate again with inspect eval … --logprobs"
            " --top-logprobs 20"
        )
    if n_choices is not None:
        pairs = zip(samples, answers, strict=True)
        answers = [
            answer for sample, answer in pairs if _n_choices(sample) == n_choices
        ]
    elif len(sizes) > 1:
        raise UsageError(
            f"{path}: has samples with {sizes} choices; take one number: --choices N"
        )
    else:
        n_choices = sizes[0]
    if n_choices and not request.class_names and not request.confidence:
        letters = tuple(ascii_uppercase[:n_choices])
        request = replace(request, class_names=letters)
    if not n_choices and any(answer.more["correct"] is None for answer in answers):
        raise DataError(
            f"{path}: has samples without choices or a mark C or I; nothing says which"
            " answers are right"
        )
    return table_of_answers(path, "inspect", answers, request)


def _n_choices(sample: Record) -> int:
    return len(sample.get("choices") or [])


def _answer(sample: Record, path: Path) -> Answer:
    """The answer of a sample, whose mark agrees with it and with the target."""
    where = f"{path}: sample {sample.get('id')!r}"
    choice = ((sample.get("output") or {}).get("choices") or [{}])[0]
    positions = positions_of(choice.get("logprobs"), where)
    target = _target(sample, where)
    is_right, answer = _mark(sample)
    has_choices = bool(sample.get("choices"))
    if has_choices and answer:
        if is_right is not None and is_right != (answer.strip() == target.strip()):
            verdict = "right" if is_right else "wrong"
            raise DataError(
                f"{where}: is marked {verdict}, its answer is {answer!r} and its target"
                f" {target!r}"
            )
        if positions:
            positions = _positions_of_answer(positions, answer, where)
    sample_id = sample.get("id")
    if sample_id is not None:
        sample_id = text_of(question_id(sample_id, f"{where}: id"))
    text = _text((choice.get("message") or {}).get("content"))
    more = {"labels": target} if has_choices else {"correct": is_right}
    return Answer(where, sample_id, text, positions, more)


def _target(sample: Record, where: str) -> str:
    """The right answer of a sample. Raises DataError for several."""
    targets = sample.get("target")
    if not isinstance(targets, list):
        return _text(targets)
    if len(targets) != 1:
        raise DataError(f"{where}: has {len(targets)} targets, expected one")
    return _text(targets[0])


def _mark(sample: Record) -> tuple[bool | None, str]:
    """What the first scorer says: whether the answer is right, and the answer.

    None where no scorer says it.
    """
    for score in (sample.get("scores") or {}).values():
        value = score.get("value")
        if value in MARKS:
            return MARKS[value], _text(score.get("answer"))
    return None, ""


def _text(value: Any) -> str:
    """Text of a target or an answer, "" for none; 0 is one."""
    return "" if value is None else str(value)


def _positions_of_answer(
    positions: Sequence[Position], answer: str, where: str
) -> list[Position]:
    """The positions whose token is the answer. Raises DataError if there is none."""
    naming = []
    for position in positions:
        if position.token.strip(" ().:") == answer.strip():
            naming.append(position)
    if not naming:
        raise DataError(
            f"{where}: no token is its answer {answer!r}; were the choices shuffled?"
        )
    return naming


def _contents(file: SourceFile) -> list[Record]:
    """The samples of a log, as JSON objects. Raises DataError."""
    if file.members is None:
        return [dict(sample) for sample in file.records[0]["samples"]]
    contents = []
    with zipfile.ZipFile(file.path) as archive:
        for member in archive.infolist():
            if not SAMPLE.fullmatch(member.filename):
                continue
            where = f"{file.path}: {member.filename}"
            refuse_bomb(where, member.file_size, member.compress_size)
            contents.append(json.loads(_unpacked(file.path, archive, member)))
    if not contents or not all(isinstance(sample, dict) for sample in contents):
        raise DataError(
            f"{file.path}: holds no samples; was the evaluation interrupted?"
        )
    return contents


def _unpacked(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Read a member of a log.

    One that is packed with zstd is read by zstandard, before Python 3.14. Raises
    DataError.
    """
    try:
        return archive.read(member)
    except NotImplementedError:
        convert = f"inspect log convert {quote(str(path))} --to json --output-dir json"
        advice = f"{convert} rewrites it"
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
    unpacking = zstandard.ZstdDecompressor()
    stream = unpacking.stream_reader(packed, read_across_frames=True)
    data: bytes = stream.read(member.file_size + 1)
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise DataError(f"{path}: {member.filename} is damaged; copy the log again")
    return data
