"""Logs of inspect_ai, with the log-probabilities of tokens where they were asked for."""

import json
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    samples = [_sample(content, path) for content in _contents(file)]
    if not any(sample.answer.positions for sample in samples):
        message = "is a log of inspect_ai with answers and marks, but no"
        advice = "evaluate again with inspect eval … --logprobs --top-logprobs 20"
        raise DataError(f"{path}: {message} log-probabilities; {advice}")
    sizes = sorted({sample.n_choices for sample in samples})
    n_choices = request.choices
    if n_choices is not None:
        samples = [sample for sample in samples if sample.n_choices == n_choices]
    elif len(sizes) > 1:
        message = f"has samples with {sizes} choices"
        raise UsageError(f"{path}: {message}; take one number: --choices N")
    else:
        n_choices = sizes[0]
    answers = [sample.answer for sample in samples]
    if n_choices and not request.class_names and not request.confidence:
        letters = tuple(ascii_uppercase[:n_choices])
        request = replace(request, class_names=letters)
    if not n_choices and any(answer.more["correct"] is None for answer in answers):
        message = "has samples without choices or a mark C or I"
        raise DataError(f"{path}: {message}; nothing says which answers are right")
    return table_of_answers(path, "inspect", answers, request)


@dataclass(frozen=True)
class Sample:
    """One sample: how many choices it has, and its answer."""

    n_choices: int
    answer: Answer


def _sample(content: Record, path: Path) -> Sample:
    """A sample of the log, whose mark agrees with answer and target."""
    where = f"{path}: sample {content.get('id')!r}"
    choice = ((content.get("output") or {}).get("choices") or [{}])[0]
    positions = positions_of(choice.get("logprobs"), where)
    mark = _mark(content)
    target = _target(content, where)
    choices = content.get("choices") or []
    if choices and mark.answer:
        _check_mark(mark, target, where)
        if positions:
            positions = _positions_of_answer(positions, mark.answer, where)
    sample_id = content.get("id")
    if sample_id is not None:
        sample_id = text_of(question_id(sample_id, f"{where}: id"))
    text = _text((choice.get("message") or {}).get("content"))
    more = {"labels": target} if choices else {"correct": mark.is_right}
    return Sample(len(choices), Answer(where, sample_id, text, positions, more))


def _target(content: Record, where: str) -> str:
    """The right answer of a sample. Raises DataError for several."""
    targets = content.get("target")
    if not isinstance(targets, list):
        return _text(targets)
    if len(targets) != 1:
        raise DataError(f"{where}: has {len(targets)} targets, expected one")
    return _text(targets[0])


def _check_mark(mark: "Mark", target: str, where: str) -> None:
    """Raise DataError for a mark that contradicts answer and target."""
    if mark.is_right is None or mark.is_right == (
        mark.answer.strip() == target.strip()
    ):
        return
    verdict = "right" if mark.is_right else "wrong"
    message = f"is marked {verdict}, its answer is {mark.answer!r}"
    raise DataError(f"{where}: {message} and its target {target!r}")


def _positions_of_answer(
    positions: Sequence[Position], answer: str, where: str
) -> list[Position]:
    """The positions whose token is the answer. Raises DataError if there is none."""
    naming = []
    for position in positions:
        if position.token.strip(" ().:") == answer.strip():
            naming.append(position)
    if not naming:
        message = f"no token is its answer {answer!r}"
        raise DataError(f"{where}: {message}; were the choices shuffled?")
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
        message = "holds no samples; was the evaluation interrupted?"
        raise DataError(f"{file.path}: {message}")
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
            message = f"is packed by method {member.compress_type}"
            raise DataError(f"{path}: {message}; {advice}") from None
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


@dataclass(frozen=True)
class Mark:
    """What the first scorer says: whether the answer is right, and the answer.

    is_right : None if unknown.
    """

    is_right: bool | None
    answer: str


def _mark(sample: Record) -> Mark:
    for score in (sample.get("scores") or {}).values():
        value = score.get("value")
        if value in MARKS:
            return Mark(MARKS[value], _text(score.get("answer")))
    return Mark(None, "")


def _text(value: Any) -> str:
    """Text of a target or an answer, "" for none; 0 is one."""
    return "" if value is None else str(value)
