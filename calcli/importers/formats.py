"""Recognise the format of a file by its content, with its name as a hint, and open it with the reader of it."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from shlex import quote
from types import ModuleType
from typing import Any

from calcli.errors import DataError, one_line
from calcli.fast_dataclass import dataclass
from calcli.importers import readers
from calcli.importers.archive import Archive, SourceFile, reading, remark
from calcli.importers.import_request import ImportRequest

Sniff = Callable[[SourceFile], bool]
Read = Callable[[SourceFile, ExitStack, ImportRequest], Archive]


@dataclass(frozen=True)
class Format:
    """A format that calcli reads. name : in messages. about : description in lists. sniff : true for its files. read :
    lists the arrays of a file. suffixes : of file names. extra : extra of calcli that reading needs. order : of
    sniffing, smallest first; large for a sniff that accepts nearly anything. general : true if files of other
    formats may be written in this one, as logs are in JSON. examples : (file, options to add to ``calcli extract FILE
    -o OUT.h5``) for the docs."""

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
PLUGINS = "calcli.readers"  # entry point group of readers in other packages


def reader(
    name: str, about: str, *, sniff: Sniff, **more: Any
) -> Callable[[Read], Read]:
    """Register a reader: a function (file, stack, ask) -> Archive in a module of ``readers``, or in a plug-in: a module
    that an installed package declares as an entry point of the group ``calcli.readers``. The arguments are the fields
    of ``Format``; ``stack`` closes files that the archive keeps open, ``ask`` is the user's request. Readers raise
    DataError for files that are broken or hold no scores, import heavy packages inside the function, and give arrays
    the names that ``array_names`` knows (logits, labels, ids, …)."""

    def register(read: Read) -> Read:
        _FORMATS[name] = Format(name, about, sniff, read, **more)
        return read

    return register


def _loaded(package: ModuleType) -> tuple[Format, ...]:
    """Import the modules of a package; return all registered formats in the order of sniffing."""
    for module in iter_modules(package.__path__):
        if not module.ispkg:
            import_module(f"{package.__name__}.{module.name}")
    return tuple(
        sorted(_FORMATS.values(), key=lambda format: (format.order, format.name))
    )


@cache
def own_formats() -> tuple[Format, ...]:
    """The formats of ``readers`` itself, found without a search of the installed packages."""
    return _loaded(readers)


@cache
def formats() -> tuple[Format, ...]:
    """All formats, those of plug-ins included, in the order of sniffing. calcli's own harness readers are plug-ins; in
    a plain checkout, without installed metadata, they are found by their folder. A plug-in that cannot be loaded is
    left out with a remark."""
    from importlib.metadata import entry_points  # takes 0.1 s, which most formats avoid

    from calcli.importers.readers import harnesses

    plugged = entry_points(group=PLUGINS)
    for point in plugged:
        try:
            point.load()
        except Exception as problem:  # third-party code may raise anything
            remark(
                f"the reader {point.name!r} ({point.value}) cannot be loaded: {one_line(problem)}; left out"
            )
    if not any(point.value.startswith(harnesses.__name__) for point in plugged):
        _loaded(harnesses)
    return _loaded(readers)


def suffixes() -> dict[str, str]:
    """Suffixes of file names and the likeliest format of each."""
    return {
        suffix: format.name
        for format in reversed(formats())
        for suffix in format.suffixes
    }


def commands() -> list[tuple[str, str, str]]:
    """(format, file, command that reads it), for the docs."""
    return [
        (
            format.name,
            file,
            " ".join(f"calcli extract {file} {options} -o OUT.h5".split()),
        )
        for format in sorted(formats(), key=lambda format: format.name)
        for file, options in format.examples
    ]


AS_CSV = "save the table as CSV"
IN_UTF8 = "convert it: iconv -t UTF-8"
ELSEWHERE = (
    (
        b"MATLAB",
        "is a MATLAB file; load it with scipy.io.loadmat (v7.3: h5py) and save its arrays with numpy.savez",
    ),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        f"is an Excel workbook of the old kind; {AS_CSV}",
    ),
    (b"SQLite format 3", f"is a database; {AS_CSV}"),
    (b"BZh", "is packed with bzip2; unpack it first"),
    (b"\xfd7zXZ", "is packed with xz; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is packed with zstd; unpack it first"),
    ((b"\xff\xfe", b"\xfe\xff"), f"is text in UTF-16; {IN_UTF8}"),
    ((b"X\n\0\0\0", b"RDX"), "holds an R object; write it with write.csv"),
    (
        (b"<!DOCTYPE", b"<!doctype", b"<html"),
        "is a web page; was it downloaded in place of the file?",
    ),
)
"""First bytes of known but unsupported files, and advice for them."""


def recognise(file: SourceFile) -> Format:
    """The format of a file, by content. Raises DataError for an unknown file."""
    path, members = file.path, file.members or []
    # TorchScript archives contain code, exported programs a file with their type.
    told = ("archive_format", "serialized_exported_program.json")
    if file.suffix == ".onnx" or any(
        "/code/" in name or name.endswith(told) for name in members
    ):
        advice = f"to run it: calcli extract --model {quote(str(path))} --inputs INPUTS -o OUT.h5"
        raise DataError(
            f"{path}: is a model, expected scores that a model has given; {advice}"
        )
    if about := next(
        (about for begins, about in ELSEWHERE if file.head.startswith(begins)), None
    ):
        raise DataError(f"{path}: {about}")
    if any(name.startswith("xl/") for name in members):
        raise DataError(f"{path}: is an Excel workbook; {AS_CSV}")
    found = next((format for format in own_formats() if format.sniff(file)), None)
    if found is None or found.general or file.suffix not in found.suffixes:
        found = next((format for format in formats() if format.sniff(file)), None)
    if found is None:
        promised = suffixes().get(file.suffix)
        known = f"expected one of {', '.join(format.name for format in formats())}"
        about = f"is of no known format, {known}"
        if file.head[257:262] == b"ustar":
            about = "is a tar archive; unpack it and name the folder"
        elif len(members) > 1:
            about = (
                "is a zip archive without NumPy arrays; unpack it and name the folder"
            )
        elif file.suffix == ".csv":
            about = f"is no text in UTF-8; {IN_UTF8}"
        elif promised:
            about = f"is not the {promised} file its name promises (cut off at its start?), {known}"
        raise DataError(f"{path}: {about}")
    return found


def open_archive(
    path: Path, stack: ExitStack, ask: ImportRequest = ImportRequest()
) -> Archive:
    """Open a file of arrays in any known format, until ``stack`` closes. Raises DataError."""
    file = SourceFile(path)
    format = recognise(file)
    with reading(path, f"it as {format.name}"):  # files that do not follow their format
        archive = format.read(file, stack, ask)
    if not archive.entries:
        raise DataError(f"{archive.path}: holds no arrays")
    if file.suffix not in format.suffixes and file.suffix in suffixes():
        remark(
            f"{path.name} is a {format.name} file in spite of its name; it is read as such"
        )
    return archive
