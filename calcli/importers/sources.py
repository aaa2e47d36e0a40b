"""Resolve sources to seekable files: folders, pipes, packed files, a table in a zip."""

import atexit
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from weakref import WeakKeyDictionary

from calcli.errors import DataError, blaming
from calcli.importers.formats import suffixes
from calcli.importers.source_file import SourceFile
from calcli.io.atomic import is_stream
from calcli.io.inputs import DESCRIPTORS, note
from calcli.io.locate import natural
from calcli.io.validate import refuse_bomb
from calcli.packed_files import open_packed, packing_of, without_packing

PACKED = frozenset({".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet"})
"""Suffixes of a file that is read from inside a zip archive (``a.csv.zip``)."""

HELM_RUN = "scenario_state.json"
METADATA = ("dataset_info.json", "state.json", "dataset_dict.json")
"""Files that datasets' ``save_to_disk`` writes beside its tables."""

PART = re.compile(r"part[-_.]?\d+\b")
"""Beginning of the name of one of several files that are one table."""

COPIED_BYTES = 1 << 20


@dataclass
class Sources:
    """Resolved sources.

    files : to read. folders : path of each below the folder of the user, "" for single
    files. shown : names of temporary files -> names given by the user.
    """

    files: list[Path] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    shown: dict[str, str] = field(default_factory=dict)

    def translated(self, text: str) -> str:
        """A message with the user's names of files in place of temporary ones."""
        for made, name in self.shown.items():
            text = text.replace(made, name)
        return text


def settle_sources(
    sources: Sequence[Path], stack: ExitStack, settled: Sources | None = None
) -> Sources:
    """Resolve folders to files in natural order, pipes and packed files to
    temporary ones.

    ``stack`` removes these. ``-`` and ``/dev/stdin`` are the standard input. settled :
    the files are appended to it. Raises DataError.
    """
    settled = settled or Sources()
    for source in sources:
        paths = _files_in(source) if source.is_dir() else [source]
        for path in sorted(paths, key=lambda path: natural(str(path))):
            settled.files.append(_as_file(path, settled, stack))
            folder = ""
            if source.is_dir():
                folder = str(path.parent.relative_to(source)).removeprefix(".")
            settled.folders.append(folder)
    return settled


def _files_in(folder: Path) -> list[Path]:
    """The files of scores in a folder; of a run of HELM the one that has all."""
    run = folder / HELM_RUN
    if run.is_file():
        return [run]
    paths = [path for path in folder.rglob("*") if path.is_file() and _is_known(path)]
    paths = [path for path in paths if not _is_metadata(path)]
    if not paths:
        raise DataError(f"{folder}: is a folder without any file of scores")
    return paths


def holds_parts(folder: Path) -> bool:
    """True for a folder of files that are numbered parts of one table.

    So Spark and pyarrow write them: ``part-00000-…``, ``part-0``.
    """
    if not folder.is_dir():
        return False
    paths = [path for path in folder.iterdir() if _is_known(path)]
    return bool(paths) and all(PART.match(path.name) for path in paths)


def _is_known(path: Path) -> bool:
    """True for a visible file with the suffix of a format, packed or not."""
    unpacked = Path(without_packing(path.name))
    names = {path.suffix.lower(), unpacked.suffix.lower()}
    return not path.name.startswith(".") and not names.isdisjoint(suffixes())


def _is_metadata(path: Path) -> bool:
    return path.name in METADATA and any(path.parent.rglob("*.arrow"))


_spooled: "WeakKeyDictionary[IO[bytes], tuple[ExitStack, Path]]" = WeakKeyDictionary()
"""Temporary copy of the standard input, for commands that read it several times."""


def _as_file(path: Path, settled: Sources, stack: ExitStack) -> Path:
    """The file itself, or a temporary one: of a pipe, or of the file packed in it."""
    file = path
    if str(path) == "-":
        file = _stdin_file()
    elif str(path).startswith(DESCRIPTORS) and is_stream(path):
        file = _copied(lambda: path.open("rb"), "stdin", path, stack)
    packed = _packed(file, path, stack)
    if packed is not None:
        note(path)
        name, open_inner = packed
        file = _copied(open_inner, name, path, stack, file.stat().st_size)
    if file != path:
        settled.shown[str(file)] = "stdin" if file.name == "stdin" else str(path)
    return file


def _stdin_file() -> Path:
    """A temporary copy of the standard input, which lasts until the process ends."""
    stdin: IO[bytes] = sys.stdin.buffer
    if stdin not in _spooled:
        lasting = ExitStack()
        copy = _copied(lambda: nullcontext(stdin), "stdin", Path("-"), lasting)
        _spooled[stdin] = (lasting, copy)
        atexit.register(lasting.close)
    return _spooled[stdin][1]


def _packed(
    path: Path, shown: Path, stack: ExitStack
) -> tuple[str, Callable[[], Any]] | None:
    """(name, opener) of the one file packed in another, or one table in a zip archive.

    None for other files.
    """
    try:
        file = SourceFile(path)
    except DataError:
        return None  # the reader raises the error
    packing = packing_of(file.head)
    if packing is not None:
        name = without_packing(shown.name) or shown.name
        return name, lambda: open_packed(path, packing)
    # macOS adds files of its own
    names = [name for name in file.members or [] if not name.startswith("__MACOSX/")]
    if len(names) != 1 or Path(names[0]).suffix.lower() not in PACKED:
        return None

    def open_member() -> Any:
        return stack.enter_context(zipfile.ZipFile(path)).open(names[0])

    return Path(names[0]).name, open_member


def _copied(
    open_stream: Callable[[], Any],
    name: str,
    shown: Path,
    stack: ExitStack,
    stored: int | None = None,
) -> Path:
    """Copy a stream to a temporary file.

    stored : packed size in bytes. Raises DataError.
    """
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="calcli-"))
    copy = Path(folder) / name
    size = 0
    doing = "read" if stored is None else "unpacked"
    with (
        blaming(f"{shown}: cannot be {doing}", advice="; is the file complete?"),
        open_stream() as file,
        copy.open("wb") as out,
    ):
        while piece := file.read(COPIED_BYTES):
            size += len(piece)
            refuse_bomb(shown, size, size if stored is None else stored)
            out.write(piece)
    if not size and stored is None:
        raise DataError("stdin: nothing came; save it to a file and name that")
    return copy
