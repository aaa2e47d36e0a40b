"""Read the records of a log one by one: JSON Lines, or one JSON list of objects.

Files may be packed by gzip, bzip2 or xz.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from calcli.decisions.answers import NAMED_ANSWERS, is_label_word
from calcli.errors import DataError, one_line
from calcli.items import are_all
from calcli.packed_files import HEAD_BYTES, open_packed, packing_of, unpacking_errors

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_UNPACKED = 1 << 30
"""Bytes of a line, or a list of records, above which packed files are refused."""

BEGINNING_BYTES = 64

ANSWERS_OF_A_RECORD = frozenset(NAMED_ANSWERS) - {"results"}
"""Names of a list of answers; ``results`` is one of records as well."""

Record = Mapping[str, Any]
Numbered = tuple[int, Record]


def records(path: Path) -> Iterator[Numbered]:
    """Number of the line, from 1, and record. Raises DataError for a broken line."""
    if not _is_lines(path):
        yield from enumerate(_whole(path), start=1)
        return
    with opened(path) as file:
        for number, line in enumerate(_lines(file, path), start=1):
            record = record_of(line, path, number)
            if record is not None:
                yield number, record


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file, or what is packed in it. Raises DataError for a broken one."""
    with path.open("rb") as file:
        packing = packing_of(file.read(HEAD_BYTES))
        file.seek(0)
        if packing is None:
            yield file
            return
        try:
            with open_packed(file, packing) as unpacked:
                yield unpacked
        except unpacking_errors(packing) as problem:
            raise DataError(
                f"{path}: cannot be unpacked: {one_line(problem)}; is the file"
                " complete?"
            ) from None


def begins_like_json(path: Path) -> bool:
    """True for a file whose first character is a bracket of JSON."""
    try:
        with opened(path) as file:
            head = file.read(BEGINNING_BYTES).removeprefix(BYTE_ORDER_MARK).lstrip()
    except DataError:
        return False
    return head[:1] in (b"{", b"[")


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Lines of a file. Raises DataError for one that no memory may hold."""
    while line := file.readline(LONGEST_UNPACKED):
        if len(line) == LONGEST_UNPACKED:
            raise DataError(f"{path}: has a line of more than 1 GiB; is it a log?")
        yield line


def record_of(line: bytes, path: Path, number: int) -> Record | None:
    """Record of a line; None for an empty one. Raises DataError."""
    text = line.removeprefix(BYTE_ORDER_MARK).strip()
    if not text:
        return None
    try:
        value = decode(text)
    except (ValueError, RecursionError) as problem:
        is_cut = not line.endswith(b"\n")
        if is_cut:
            raise DataError(
                f"{path}: line {number}: the last line is cut off: is the log still"
                f" being written?; head -n {number - 1} keeps the lines before it"
            ) from None
        reason = one_line(problem)
        raise DataError(
            f"{path}: line {number}: cannot be read as JSON: {reason}; correct or"
            " delete the line"
        ) from None
    if not isinstance(value, dict):
        raise DataError(
            f"{path}: line {number} is no object, expected a record such as {{…}}"
        )
    return value


def decode(text: bytes) -> Any:
    """Parse JSON, NaN included, as Python writes it. Raises ValueError."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text)
    except MemoryError:
        raise ValueError("it does not fit into memory") from None


def _is_lines(path: Path) -> bool:
    """True where the first line is an object of its own."""
    with opened(path) as file:
        for line in _lines(file, path):
            text = line.removeprefix(BYTE_ORDER_MARK).strip()
            if not text:
                continue
            if not text.startswith(b"{"):
                return False
            is_only_line = not file.read(1)
            try:
                value = decode(text)
            except (ValueError, RecursionError):
                return is_only_line  # one line that is cut off
            return not (is_only_line and _wraps_labelled_records(value))
    return True


def _wraps_labelled_records(value: Mapping[str, Any]) -> bool:
    """True for an object around a list of records that have a label each.

    The list of answers of one record, which may have labels too, has another name.
    """
    wrapped = _wrapped(value)
    if wrapped is None or wrapped.name in ANSWERS_OF_A_RECORD:
        return False
    return all(any(map(is_label_word, item)) for item in wrapped.items)


class Wrapped(NamedTuple):
    """The one list of an object. items : objects."""

    name: str
    items: list[Record]


def _wrapped(value: Mapping[str, Any]) -> Wrapped | None:
    """The one list in an object, if its items are objects."""
    lists = []
    for name, item in value.items():
        if isinstance(item, list):
            lists.append(Wrapped(name, item))
    if len(lists) == 1 and _are_objects(lists[0].items):
        return lists[0]
    return None


def _whole(path: Path) -> list[Record]:
    """Records of a file that is one JSON value. Raises DataError."""
    with opened(path) as file:
        is_packed = not isinstance(getattr(file, "raw", None), FileIO)
        data = file.read(LONGEST_UNPACKED if is_packed else -1)
    if is_packed and len(data) == LONGEST_UNPACKED:
        raise DataError(f"{path}: unpacks to more than 1 GiB; write a record a line")
    data = data.removeprefix(BYTE_ORDER_MARK)
    try:
        value = decode(data)
    except (ValueError, RecursionError) as problem:
        raise DataError(
            f"{path}: cannot be read as JSON: {one_line(problem)}; is the file"
            " complete?"
        ) from None
    if isinstance(value, dict):
        wrapped = _wrapped(value)
        value = [value] if wrapped is None else wrapped.items
    if not _are_objects(value):
        raise DataError(f"{path}: holds no records, expected objects, one a line")
    return list(value)


def _are_objects(value: Any) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return are_all(dict, value)
