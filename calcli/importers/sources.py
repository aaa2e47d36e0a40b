"""What is named as a source, as files that can be read at any place: folders, pipes, gzip."""

import atexit
import gzip
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import field
from pathlib import Path
from typing import IO, Any
from weakref import WeakKeyDictionary

from calcli.errors import DataError, one_line
from calcli.fast_dataclass import dataclass
from calcli.importers.formats import suffixes
from calcli.io.atomic import is_stream
from calcli.io.inputs import DESCRIPTORS, note
from calcli.io.locate import natural
from calcli.io.validate import is_decompression_bomb

GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
PACKED = frozenset({".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet"})
"""What the one file in a zip archive may be: pandas writes ``to_csv("a.csv.zip")`` so."""


@dataclass
class Sources:
    """files : what to read. folders : where each lies below the folder that was named, "" for files by themselves.

    shown : names of temporary files, and what the user called them.
    """

    files: list[Path] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    shown: dict[str, str] = field(default_factory=dict)

    def translated(self, text: str) -> str:
        """A message with the names that the user knows."""
        for made, named in self.shown.items():
            text = text.replace(made, named)
        return text


def settle_sources(sources: Sequence[Path], stack: ExitStack, settled: Sources | None = None) -> Sources:
    """Files of folders in natural order; what comes by a pipe or gzipped as a temporary file.

    ``-`` and ``/dev/stdin`` are the standard input. ``stack`` removes what was made. settled :
    gets them at its end.
    Raises DataError.
    """
    settled = settled or Sources()
    for source in sources:
        if (source / "scenario_state.json").is_file():  # a run of HELM, whose other files repeat it
            _add(settled, source / "scenario_state.json", "", stack)
        elif source.is_dir():
            found = sorted(
                (p for p in source.rglob("*") if p.is_file() and _is_known(p) and not _is_about(p)),
                key=lambda path: natural(str(path)),
            )
            if not found:
                raise DataError(f"{source}: is a folder without any file of scores")
            for path in found:
                _add(settled, path, str(path.parent.relative_to(source)).removeprefix("."), stack)
        else:
            _add(settled, source, "", stack)
    return settled


def _is_known(path: Path) -> bool:
    names = [path.suffix, *path.suffixes[-2:-1]] if path.suffix == ".gz" else [path.suffix]
    return not path.name.startswith(".") and any(name.lower() in suffixes() for name in names)


def _is_about(path: Path) -> bool:
    """Whether a file tells of others beside it, as datasets' ``save_to_disk`` writes them."""
    return path.name in ("dataset_info.json", "state.json", "dataset_dict.json") and any(path.parent.rglob("*.arrow"))


def _add(settled: Sources, path: Path, folder: str, stack: ExitStack) -> None:
    made = path
    if str(path) == "-":
        made = _standard_input()
    elif str(path).startswith(DESCRIPTORS) and is_stream(path):
        with path.open("rb") as stream:
            made = _spool(stream, "stdin", stack)
    if (packed := _packed(made, path, stack)) is not None:
        note(path)
        made = _unpacked(made, path, *packed, stack)
    if made != path:
        settled.shown[str(made)] = "stdin" if made.name == "stdin" else str(path)
    settled.files.append(made)
    settled.folders.append(folder)


_spooled: "WeakKeyDictionary[IO[bytes], tuple[ExitStack, Path]]" = WeakKeyDictionary()
"""What came by the standard input: a command may read it again."""


def _standard_input() -> Path:
    """What comes by the standard input, in a file that lasts as long as the process. Raises DataError."""
    stream: IO[bytes] = sys.stdin.buffer
    if stream not in _spooled:
        stack = ExitStack()
        made = _spool(stream, "stdin", stack)
        _spooled[stream] = stack, made
        atexit.register(stack.close)
    return _spooled[stream][1]


def _spool(stream: IO[bytes], name: str, stack: ExitStack) -> Path:
    made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calcli-"))) / name
    with made.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    if not made.stat().st_size:
        raise DataError(f"{name}: nothing came; save it to a file and name that")
    return made


def _packed(path: Path, named: Path, stack: ExitStack) -> tuple[str, Callable[[], Any]] | None:
    """The name of the one file that is packed here, by gzip or as a table in a zip archive, and what opens it.

    What macOS adds to an archive does not count.
    """
    try:
        if is_stream(path) or not path.is_file():
            return None
        with path.open("rb") as file:
            start = file.read(4)
        if start.startswith(GZIP):
            return named.name.removesuffix(".gz") or named.name, lambda: gzip.open(path)
        if start != ZIP:
            return None
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return None  # the reader says what is wrong
    if len(names) != 1 or Path(names[0]).suffix.lower() not in PACKED:
        return None
    return Path(names[0]).name, lambda: stack.enter_context(zipfile.ZipFile(path)).open(names[0])


def _unpacked(path: Path, named: Path, name: str, opened: Callable[[], Any], stack: ExitStack) -> Path:
    made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calcli-"))) / name
    packed, size = path.stat().st_size, 0
    try:
        with opened() as file, made.open("wb") as out:
            while piece := file.read(1 << 20):
                size += len(piece)
                if is_decompression_bomb(size, packed):
                    raise DataError(f"{named}: unpacks to more than {size} bytes, far tighter than scores are packed")
                out.write(piece)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError) as problem:
        raise DataError(f"{named}: cannot be unpacked: {one_line(problem)}; is the file complete?") from None
    return made
