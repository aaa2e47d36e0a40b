"""Resolve sources to seekable files: folders, pipes, gzip; and folders with a file per unit."""

import atexit
import gzip
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import field
from pathlib import Path
from statistics import median
from typing import IO, Any
from weakref import WeakKeyDictionary

import numpy as np

from calcli.errors import DataError, UsageError, blaming
from calcli.fast_dataclass import dataclass
from calcli.importers.archive import Archive, Entry, SourceFile, constant, remark
from calcli.importers.array_names import SPLIT_WORDS, parse_name
from calcli.importers.formats import open_archive, suffixes
from calcli.importers.import_request import ImportRequest
from calcli.importers.positions import Parts
from calcli.io.atomic import is_stream
from calcli.io.inputs import DESCRIPTORS, note
from calcli.io.locate import natural
from calcli.io.validate import refuse_bomb
from calcli.numerics import AnyArray
from calcli.statistics.units import FEWEST_UNITS

GZIP = b"\x1f\x8b"
PACKED = frozenset({".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet"})
"""Suffixes of a file that is read from inside a zip archive, as from pandas' ``to_csv("a.csv.zip")``."""


@dataclass
class Sources:
    """Resolved sources. files : to read. folders : path of each below the folder of the user, "" for single files.
    shown : names of temporary files -> names given by the user."""

    files: list[Path] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    shown: dict[str, str] = field(default_factory=dict)

    def translated(self, text: str) -> str:
        """A message with the user's names of files in place of temporary ones."""
        for made, named in self.shown.items():
            text = text.replace(made, named)
        return text


def settle_sources(
    sources: Sequence[Path], stack: ExitStack, settled: Sources | None = None
) -> Sources:
    """Resolve folders to files in natural order, and pipes and gzip to temporary files, which ``stack`` removes.
    ``-`` and ``/dev/stdin`` are the standard input. settled : the files are appended to it. Raises DataError."""
    settled = settled or Sources()
    for source in sources:
        found, folder = [source], source.is_dir()
        if (
            state := source / "scenario_state.json"
        ).is_file():  # a run of HELM; its other files are redundant
            found = [state]
        elif folder:
            found = [
                p
                for p in source.rglob("*")
                if p.is_file() and _is_known(p) and not _is_metadata(p)
            ]
            if not found:
                raise DataError(f"{source}: is a folder without any file of scores")
        for path in sorted(found, key=lambda path: natural(str(path))):
            settled.files.append(_as_file(path, settled, stack))
            settled.folders.append(
                str(path.parent.relative_to(source)).removeprefix(".") if folder else ""
            )
    return settled


def _is_known(path: Path) -> bool:
    names = {path.suffix.lower(), Path(path.name.removesuffix(".gz")).suffix.lower()}
    return not path.name.startswith(".") and not names.isdisjoint(suffixes())


def _is_metadata(path: Path) -> bool:
    """True for a metadata file of datasets' ``save_to_disk``."""
    return path.name in (
        "dataset_info.json",
        "state.json",
        "dataset_dict.json",
    ) and any(path.parent.rglob("*.arrow"))


_spooled: "WeakKeyDictionary[IO[bytes], tuple[ExitStack, Path]]" = WeakKeyDictionary()
"""Temporary copy of the standard input, for commands that read it several times."""


def _as_file(path: Path, settled: Sources, stack: ExitStack) -> Path:
    """The file itself, or a temporary file of the content of a pipe or of the file packed in it."""
    made = path
    if str(path) == "-":
        stdin: IO[bytes] = sys.stdin.buffer
        if stdin not in _spooled:
            lasting = ExitStack()  # closed at exit
            _spooled[stdin] = (
                lasting,
                _copied(lambda: nullcontext(stdin), "stdin", path, lasting),
            )
            atexit.register(lasting.close)
        made = _spooled[stdin][1]
    elif str(path).startswith(DESCRIPTORS) and is_stream(path):
        made = _copied(lambda: path.open("rb"), "stdin", path, stack)
    if (packed := _packed(made, path, stack)) is not None:
        note(path)
        name, opened = packed
        made = _copied(opened, name, path, stack, made.stat().st_size)
    if made != path:
        settled.shown[str(made)] = "stdin" if made.name == "stdin" else str(path)
    return made


def _packed(
    path: Path, named: Path, stack: ExitStack
) -> tuple[str, Callable[[], Any]] | None:
    """(name, opener) of the one file inside gzip, or of the one table inside a zip archive; None for other files."""
    try:
        file = SourceFile(path)
    except DataError:
        return None  # the reader raises the error
    if file.head.startswith(GZIP):
        return named.name.removesuffix(".gz") or named.name, lambda: gzip.open(path)
    names = [
        name for name in file.members or [] if not name.startswith("__MACOSX/")
    ]  # added by macOS
    if len(names) != 1 or Path(names[0]).suffix.lower() not in PACKED:
        return None
    return Path(names[0]).name, lambda: stack.enter_context(zipfile.ZipFile(path)).open(
        names[0]
    )


def _copied(
    opened: Callable[[], Any],
    name: str,
    named: Path,
    stack: ExitStack,
    stored: int | None = None,
) -> Path:
    """Copy a stream to a temporary file. stored : packed size in bytes. Raises DataError."""
    made, size = (
        Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calcli-"))) / name,
        0,
    )
    how = f"{named}: cannot be {'read' if stored is None else 'unpacked'}"
    with (
        blaming(how, advice="; is the file complete?"),
        opened() as file,
        made.open("wb") as out,
    ):
        while piece := file.read(1 << 20):
            size += len(piece)
            refuse_bomb(named, size, size if stored is None else stored)
            out.write(piece)
    if not size and stored is None:
        raise DataError("stdin: nothing came; save it to a file and name that")
    return made


# ---- a folder with one or more files per image or sentence: one set of arrays in which each file is a unit


FILE = "file"  # value of ``--unit`` for the files of a folder
ARRAYS = {".npy", ".npz", ".pt", ".pth", ".safetensors"}
PARTS_OF_ROWS = re.compile(
    rf"(?i)(rank|part|shard|chunk|proc|gpu|batch|fold|epoch|seed|model|run|step)([\W_\d]|$)|({'|'.join(SPLIT_WORDS)})$"
)
"""Names of files that are shards, folds or splits: not units, except with ``--unit file``."""

LONG = 10  # median positions per file and per number of files, above which files are data sets, not sentences


def files_of_units(
    files: Sequence[Path], folders: Sequence[Path], ask: ImportRequest
) -> Archive | None:
    """Arrays of folders with one or more files per unit, each stacked over units; None for other files. Without
    ``--unit file`` there must be as many units as a verdict needs, with short arrays of positions of different length,
    or of pixels, and not all with the same labels. Raises UsageError for ``--unit file`` of other files."""
    asked = ask.unit == FILE
    known = (
        bool(files)
        and len({path.suffix for path in files}) == 1
        and files[0].suffix in ARRAYS
    )
    inside = known and all(
        any(folder in path.parents for folder in folders) for path in files
    )
    places = (
        _by_unit(files, ask)
        if inside and (asked or len(files) >= FEWEST_UNITS) and not ask.join
        else {}
    )
    of_units = [path for path, _ in next(iter(places.values()), ())]
    own = [
        path.suffix == ".npy" and bool(parse_name(path.stem).role) for path in of_units
    ]
    called = [
        path.parent.name if folder else path.stem
        for path, folder in zip(of_units, own, strict=True)
    ]
    count = len(of_units)
    if count < 2 or (
        not asked and (count < FEWEST_UNITS or any(map(PARTS_OF_ROWS.match, called)))
    ):
        if asked and folders:
            raise UsageError(
                f"--unit file: {folders[0]} has no files of the same arrays, one or more for each unit"
            )
        return None
    where = folders[0]
    arrays = {name: _parts(found, f"{where}: {name}") for name, found in places.items()}
    if not asked and not _look_like_units(arrays, ask):
        return None
    remark(f"{where}: {count} files, each a unit (or --unit none)")
    entries = {
        name: Entry(places[name][0][0], name, constant(made))
        for name, made in arrays.items()
    }
    entries[FILE if asked else "unit"] = Entry(
        where, FILE, constant(np.arange(count, dtype=np.int32))
    )
    return Archive(where, files[0].suffix[1:].replace("pth", "pt"), entries)


def _by_unit(
    files: Sequence[Path], ask: ImportRequest
) -> dict[str, list[tuple[Path, str]]]:
    """Array -> (file, name in the file) of each unit, in natural order; {} if a unit lacks an array."""
    if files[0].suffix != ".npy":
        with ExitStack() as stack:
            return {
                name: [(path, name) for path in files]
                for name in open_archive(files[0], stack, ask).entries
            }
    at: dict[tuple[str, str], Path] = {}
    for path in files:
        word = parse_name(path.stem)
        if word.role in ("scores", "labels") and word.model:  # image7_logits.npy
            name, unit = word.kind or word.role, f"{path.parent}/{word.model}"
        elif word.role:  # image7/logits.npy
            name, unit = path.stem, str(path.parent)
        else:  # logits/image7.npy
            name, unit = path.parent.name, path.stem
        at[name, unit] = path
    names, units = {name for name, _ in at}, {unit for _, unit in at}
    if len(at) < len(files) or len(at) < len(names) * len(units):
        return {}
    ordered = sorted(units, key=natural)
    return {
        name: [(at[name, unit], at[name, unit].stem) for unit in ordered]
        for name in sorted(names)
    }


def _parts(places: Sequence[tuple[Path, str]], where: str) -> AnyArray | Parts:
    """Array of every unit, read lazily; arrays of up to one axis and one shape in memory. Raises DataError."""

    def use(unit: int, what: Callable[[Any], Any]) -> Any:
        path, name = places[unit]
        with ExitStack() as stack:
            entries = open_archive(path, stack).entries
            if name not in entries:
                raise DataError(
                    f"{path}: has no array {name!r}, which {places[0][0].name} has"
                )
            return what(entries[name].load())

    about = [
        use(unit, lambda array: (tuple(array.shape), array.dtype))
        for unit in range(len(places))
    ]
    shapes, dtype = (
        [shape for shape, _ in about],
        np.result_type(*{dtype for _, dtype in about}),
    )
    made = Parts(
        shapes,
        dtype,
        lambda unit: np.asarray(use(unit, lambda array: array[()])),
        where,
    )
    return made if made.ndim > 2 or len(set(shapes)) > 1 else made[:]


def _look_like_units(
    arrays: Mapping[str, AnyArray | Parts], ask: ImportRequest
) -> bool:
    """True for scores of positions with labels of their own, not models on the same rows, folds or shards."""
    named = (
        array
        for name, array in arrays.items()
        if name in ask.labels or parse_name(name).role == "labels"
    )
    labels = next(named, None)
    if labels is not None and all(
        np.array_equal(labels[:1], labels[unit : unit + 1]) for unit in range(1, 3)
    ):
        return False
    largest = max(arrays.values(), key=lambda array: array.ndim)
    if not isinstance(largest, Parts) or largest.ndim != 3:
        return largest.ndim in (2, 4)
    lengths = [shape[0] for shape in largest.shapes]
    if labels is not None and labels.ndim == 3:
        return True
    return max(lengths[:-1]) - min(lengths[:-1]) > 1 and median(lengths) <= LONG * len(
        lengths
    )
