"""Recognise the format of a file by its content, its name as a hint; and read it."""

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from shlex import quote
from types import ModuleType
from typing import Any

from calcli.errors import DataError, SaysHow, one_line
from calcli.importers import readers
from calcli.importers.arranging.arrange import arranged
from calcli.importers.import_request import ImportRequest
from calcli.importers.remarks import reading, remark
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table

Sniff = Callable[[SourceFile], bool]
Read = Callable[[SourceFile], Table]


@dataclass(frozen=True)
class Format:
    """A format that calcli reads.

    name : in messages. about : description in lists. sniff : true for its files. read :
    lists the arrays of a file. suffixes : of file names. extra : extra of calcli that
    reading needs. order : of sniffing, smallest first; large for a sniff that accepts
    nearly anything. general : files of other formats may be written in this one, as
    logs are in JSON. examples : (file, options to add to ``calcli extract FILE -o
    OUT.h5``) for the docs.
    """

    name: str
    about: str
    sniff: Sniff
    read: Read
    suffixes: Sequence[str] = ()
    extra: str = ""
    order: int = 0
    general: bool = False
    examples: Sequence[tuple[str, str]] = ()


_FORMATS: dict[str, Format] = {}

PLUGINS = "calcli.readers"
"""Entry point group of readers in other packages."""


def reader(
    name: str, about: str, *, sniff: Sniff, **more: Any
) -> Callable[[Read], Read]:
    """Register a reader: a function (file) -> Table.

    It stands in a module of ``readers``, or in a plug-in: a module that an installed
    package declares as an entry point of the group ``calcli.readers``. The arguments
    are the fields of ``Format``. What the table keeps open is opened by
    ``file.keep_open``. A file of rows makes them objects: ``table_of_rows``, or the
    records of a table where what belongs together is still to be found. A reader lists
    arrays or columns under the names that the file gives them, and knows nothing of
    scores and labels; only readers of logs, which do, give their arrays the names of
    ``names.ROLES`` (logits, labels, ids, …) and look at ``file.request``. Readers raise
    DataError for broken files, and import heavy packages inside the function.
    """

    def register(read: Read) -> Read:
        _FORMATS[name] = Format(name, about, sniff, read, **more)
        return read

    return register


def _loaded(package: ModuleType) -> tuple[Format, ...]:
    """Import the modules of a package; all registered formats in order of sniffing."""
    for module in iter_modules(package.__path__):
        if not module.ispkg:
            import_module(f"{package.__name__}.{module.name}")
    return tuple(
        sorted(_FORMATS.values(), key=lambda format: (format.order, format.name))
    )


@cache
def own_formats() -> tuple[Format, ...]:
    """The formats of ``readers`` itself, without a search of the installed packages."""
    return _loaded(readers)


@cache
def formats() -> tuple[Format, ...]:
    """All formats, those of plug-ins included, in the order of sniffing.

    calcli's own readers of logs are among them, which most files need not. A plug-in
    that cannot be loaded is left out with a remark.
    """
    from importlib.metadata import entry_points  # takes 0.1 s, which most formats avoid

    from calcli.importers.readers import harnesses

    for point in entry_points(group=PLUGINS):
        try:
            point.load()
        except Exception as problem:  # third-party code may raise anything
            remark(
                f"the reader {point.name!r} ({point.value}) cannot be loaded:"
                f" {one_line(problem)}; left out"
            )
    _loaded(harnesses)
    return _loaded(readers)


def suffixes() -> dict[str, str]:
    """Suffixes of file names and the likeliest format of each.

    A general format is likelier than one that is written in it, whatever their order.
    """
    by_suffix = {}
    least_likely_first = sorted(
        formats(), key=lambda format: (format.general, -format.order)
    )
    for format in least_likely_first:
        for suffix in format.suffixes:
            by_suffix[suffix] = format.name
    return by_suffix


def commands() -> list[tuple[str, str, str]]:
    """(format, file, command that reads it), for the docs."""
    rows = []
    for format in sorted(formats(), key=lambda format: format.name):
        for file, options in format.examples:
            words = f"calcli extract {file} {options} -o OUT.h5".split()
            rows.append((format.name, file, " ".join(words)))
    return rows


KNOWN = "npz, npy, pt, safetensors, csv, jsonl, parquet, pickle, HDF5"
"""The formats that most people have, for messages."""

AS_CSV = "save the table as CSV"
NO_READER = "calcli reads no such file"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""First bytes of texts in UTF-16."""

KNOWN_BEGINNINGS: dict[tuple[bytes, ...], str] = {
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",): (
        f"is an Excel workbook of the old kind; {AS_CSV}"
    ),
    (b"\x28\xb5\x2f\xfd",): "is packed with zstd; unpack it first",
    (b"X\n\0\0\0", b"RDX"): "holds an R object; write it with write.csv",
    (b"<!DOCTYPE", b"<!doctype", b"<html"): (
        "is a web page; was it downloaded in place of the file?"
    ),
}
"""First bytes of known but unsupported files, and advice for them."""

MARKUP = re.compile(
    r"(?i)\s*<(\?xml|!--|(table|div|style|html|head|body|p)\b[^>,;\t]*>(?!\s*[,;|\t]))"
)
"""Beginning of HTML and XML, which no name of a column is (``<s>``, ``<5``, ``<p>,``)."""

DRAWN_LINE = re.compile(r"(?=.*---)[-+|:=\s]+")
"""A line of a table in Markdown, or as psql, MySQL and tabulate draw it."""

MODEL_MEMBERS = ("archive_format", "serialized_exported_program.json")
"""Members of exported programs; TorchScript archives contain code."""


def recognise(file: SourceFile) -> Format:
    """The format of a file, by content. Raises DataError for an unknown file."""
    _refuse_known(file)
    format = _first_match(own_formats(), file)
    if format is None or format.general or file.suffix not in format.suffixes:
        format = _first_match(formats(), file)
    if format is None:
        raise _unknown(file)
    return format


def _first_match(known: Sequence[Format], file: SourceFile) -> Format | None:
    return next((format for format in known if format.sniff(file)), None)


def _refuse_known(file: SourceFile) -> None:
    """Raise DataError for models, workbooks, packed files and the like."""
    path, members = file.path, file.members or []
    is_program = any(
        "/code/" in name or name.endswith(MODEL_MEMBERS) for name in members
    )
    if file.suffix == ".onnx" or is_program:
        raise SaysHow(
            f"{path}: is a model, expected scores that a model has given; to run it:"
            f" calcli extract --model {quote(str(path))} --inputs INPUTS -o OUT.h5"
        )
    if file.head.startswith(UTF_16):
        raise to_utf_8(path, "is text in UTF-16", "UTF-16")
    for beginnings, about in KNOWN_BEGINNINGS.items():
        if file.head.startswith(beginnings):
            raise DataError(f"{path}: {about}", no_command=NO_READER)
    drawn = _drawn(file) if file.is_text else ""
    if drawn:
        raise DataError(f"{path}: is {drawn}; {AS_CSV}", no_command=NO_READER)
    if any(name.startswith("xl/") for name in members):
        raise DataError(f"{path}: is an Excel workbook; {AS_CSV}", no_command=NO_READER)


def _drawn(file: SourceFile) -> str:
    """What a text for people or browsers is; "" for any other text."""
    lines = list(filter(str.strip, file.first_lines))[:2]
    if not lines:
        return ""
    if MARKUP.match(lines[0]):
        return "XML" if "<?xml" in lines[0] else "a table of HTML"
    if "|" in lines[0] and DRAWN_LINE.fullmatch(lines[-1]):
        return "a table of Markdown, or one that was printed"
    if lines[0].startswith("+-") and DRAWN_LINE.fullmatch(lines[0]):
        return "a table that was printed"
    return ""


def to_utf_8(
    path: Path, message: str = "is no text in UTF-8", encoding: str = "CP1252"
) -> SaysHow:
    """Error with the command that converts a text. encoding : by default of Windows."""
    output = path.with_suffix(f".utf8{path.suffix}").name
    command = f"iconv -f {encoding} -t UTF-8 {quote(str(path))} > {quote(output)}"
    return SaysHow(f"{path}: {message}; convert it: {command}")


def _is_utf_16(head: bytes) -> bool:
    """True for plain letters and digits of two bytes, of which the second is 0."""
    return b"\0" not in head[::2] and not head[1::2].strip(b"\0")


def _unknown(file: SourceFile) -> DataError:
    """Error about a file of no known format."""
    known = f"expected {KNOWN} or another format of calcli extract"
    promised = suffixes().get(file.suffix)
    message = f"is of no known format, {known}"
    if file.head[257:262] == b"ustar":
        message = "is a tar archive; unpack it and name the folder"
    elif len(file.members or []) > 1:
        message = "is a zip archive without NumPy arrays; unpack it and name the folder"
    elif file.suffix == ".csv" and _is_utf_16(file.head):
        return to_utf_8(file.path, "is text in UTF-16", "UTF-16LE")
    elif file.suffix == ".csv":
        return to_utf_8(file.path)
    elif promised:
        message = (
            f"is not the {promised} file its name promises (cut off at its start?)"
        )
        message = f"{message}, {known}"
    return DataError(f"{file.path}: {message}", no_command=NO_READER)


def open_table(
    path: Path, stack: ExitStack, request: ImportRequest = ImportRequest()
) -> Table:
    """Open a file of arrays in any known format, until ``stack`` closes.

    Raises DataError.
    """
    file = SourceFile(path, stack, request)
    format = recognise(file)
    with reading(path, f"it as {format.name}"):  # files that do not follow their format
        table = arranged(format.read(file), request)
    if not table.columns:
        raise DataError(f"{table.file}: holds no arrays")
    if file.suffix not in format.suffixes and file.suffix in suffixes():
        remark(
            f"{path.name} is a file of {format.name} in spite of its name; it is read"
            " as such"
        )
    return table
