"""Open any file that ``extract`` reads as a bundle, for commands on bundles."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypedDict, Unpack

from calcli.errors import CalcliError, DataError, InvalidRows, NoHDF5
from calcli.io.bundle import BundleRows, open_bundle
from calcli.io.bundle_group import QUESTION
from calcli.io.dataset import DataSet
from calcli.io.hdf5 import HDF5, open_file
from calcli.io.hdf5_crash_test import probe_together
from calcli.io.inputs import check_open_files, is_database
from calcli.io.locate import (
    WILD,
    ByName,
    Layout,
    NoBundles,
    SeveralBundles,
    find_bundles,
    matching_files,
    natural,
    split_where,
)
from calcli.io.pooled_rows import PooledRows
from calcli.io.read_line import read_line
from calcli.settings import command_words, common_fields

if TYPE_CHECKING:
    from calcli.importers.building.writing import ImportReport
    from calcli.importers.import_request import ImportRequest

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+(?![a-z-…])")
"""An option in a message, not one that is cut off."""

OPTIONS_OF_COMMANDS = (
    *("--scores", "--labels", "--kind", "--ignore-label", "--group-by"),
    *("--sample-weight", "--ids", "--unit", "--calibrator"),
)
"""Options of the commands that read files of scores."""

HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf")
HEAD_BYTES = 4096

LONGEST_NAME = 8192
"""Characters of a name with its group; systems allow 4096 at most for a path."""


class Opening(TypedDict, total=False):
    """Keyword arguments of ``open_bundle``."""

    prefer: Sequence[str]
    layout: Layout
    ignore_labels: Sequence[float]
    need_labels: bool


@dataclass(frozen=True)
class Import:
    """A temporary file of bundles, and the remarks that are not yet printed.

    report : of the import. described : names of the bundles of which was said what was
    read.
    """

    file: Path
    notes: list[str]
    report: "ImportReport"
    described: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Imports:
    """Imports that are kept until ``stack`` closes, by what was asked for."""

    stack: ExitStack
    known: dict[str, Import]


_imports: ContextVar[_Imports | None] = ContextVar("imports", default=None)


@contextmanager
def importing_once() -> Iterator[None]:
    """Context in which a file is imported, and its remarks printed, at most once."""
    if _imports.get() is not None:
        yield
        return
    with ExitStack() as stack:
        token = _imports.set(_Imports(stack, {}))
        try:
            yield
        finally:
            _imports.reset(token)


def _files_of(names: Sequence[str]) -> list[Path]:
    """The files of names of bundles, each once."""
    return list(dict.fromkeys(split_where(name)[0] for name in names))


@contextmanager
def logs_once(names: Sequence[str], layout: Layout = Layout()) -> Iterator[None]:
    """Context in which logs of decisions among these files are imported once."""
    has_log = any(is_log(file, layout) for file in _files_of(names))
    with importing_once() if has_log else nullcontext():
        yield


@contextmanager
def open_rows(
    where: str,
    *,
    tell: Callable[[str], None] | None = None,
    known_classes: Sequence[str] = (),
    **how: Unpack[Opening],
) -> Iterator[BundleRows]:
    """Open a bundle as rows (see ``open_bundle``).

    Files of other formats or layouts are first imported, as by ``calcli extract`` with
    the names and the kind in ``layout``, into a temporary file that is deleted when the
    rows are closed. tell : receives the remarks of the import. known_classes : of a
    calibrator, after which columns of a table may be named. Raises as ``open_bundle``
    and ``import_scores``.
    """
    source, group = _source_and_group(where)
    layout = how.get("layout", Layout())
    ignored = how.get("ignore_labels", ())
    ignore_options = [("--ignore-label", str(label)) for label in ignored]
    options = tuple(chain(*command_words(layout), *ignore_options))
    with ExitStack() as stack:
        if not _is_foreign(source):
            try:
                rows = stack.enter_context(_open(where, source, group, how))
            except NoBundles:
                pass
            else:
                rows.options = options
                yield rows
                return
        need_labels = how.get("need_labels", True)
        made = stack.enter_context(
            _imported(source, layout, ignored, need_labels, known_classes)
        )
        inside = f"{made.file}:{group}" if group is not None else str(made.file)
        try:
            with open_bundle(
                inside,
                prefer=how.get("prefer", ()),
                layout=Layout(unit=layout.unit),
                need_labels=need_labels,
            ) as rows:
                rows.path = Path("stdin") if str(source) == "-" else source
                rows.options = options
                rows.name = rows.path.name
                if rows.group:
                    rows.name = f"{rows.path.name}:{rows.group}"
                rows.likely_unit = made.report.likely_unit
                rows.arrays = made.report.arrays.get(rows.group or "", "")
                if tell is not None:
                    _tell(made, rows, tell)
                yield rows
        except CalcliError as problem:

            def with_own_name(text: str) -> str:
                text = text.replace(str(made.file), str(source))
                return text.replace(made.file.name, source.name)

            if isinstance(problem, SeveralBundles):
                problem = _with_join_of_parts(problem, source)
            raise problem.translated(with_own_name) from None


def _with_join_of_parts(problem: SeveralBundles, source: Path) -> SeveralBundles:
    """The error, with the command that joins the files of a folder, if it has parts."""
    from calcli.importers.sources import holds_parts  # imported with the first import

    if not holds_parts(source):
        return problem
    output = f"{source.name}.h5"
    return problem.advising(("calcli", "extract", str(source), "--join", "-o", output))


@contextmanager
def _open(
    where: str, source: Path, group: str | None, how: Opening
) -> Iterator[BundleRows]:
    """Open a bundle; a refusal of its rows ends with a command, or the reason why not."""
    with ExitStack() as stack:
        try:
            rows = stack.enter_context(open_bundle(where, **how))
        except NoBundles:
            raise
        except DataError as problem:
            raise _with_advice(problem, source, group, how) from None
        try:
            yield rows
        except InvalidRows as problem:
            if not problem.message.startswith(f"{source.name}:"):
                raise  # of another bundle, which is read beside this one
            raise _with_advice(problem, source, group, how) from None


def _with_advice(
    problem: DataError, source: Path, group: str | None, how: Opening
) -> CalcliError:
    """The error of a bundle, with the command that reads it, or why there is none."""
    from calcli.importers.advising.advised_commands import with_reason
    from calcli.importers.evidence.source_arrays import Arrays
    from calcli.importers.import_scores import with_advice

    may_be_imported = isinstance(problem, InvalidRows | NoHDF5)
    if group is not None or problem.commands or not may_be_imported:
        return with_reason(problem)
    need_labels = how.get("need_labels", True)
    request = _request(source, how.get("layout", Layout()), need_labels)
    is_no_hdf5 = isinstance(problem, NoHDF5)
    if is_no_hdf5:
        problem = DataError(problem.message)
    if is_no_hdf5 or "let calcli extract convert" in problem.message:
        problem = problem.advising(request.command(str(source), ()))
    ignored = how.get("ignore_labels", ())
    return with_advice(problem, [source], request, ignored, Arrays({}))


def _tell(made: Import, rows: BundleRows, tell: Callable[[str], None]) -> None:
    """Say, once, what was read, and the remarks of the import."""
    name = rows.group or ""
    if name not in made.described:
        made.described.add(name)
        if rows.text_attribute(QUESTION) is None:  # else the log says it
            tell(read_line(rows.name, rows.n, rows.k, rows.arrays))
    while made.notes:
        tell(made.notes.pop(0))


def _source_and_group(where: str) -> tuple[Path, str | None]:
    """File and group of a name; the table of a database is part of its file's name."""
    path, group = split_where(where)
    if group is not None and is_database(path):
        return Path(where), None
    return path, group


@contextmanager
def _imported(
    source: Path,
    layout: Layout,
    ignored: Sequence[float],
    need_labels: bool,
    known_classes: Sequence[str] = (),
) -> Iterator[Import]:
    """Import a file to a temporary file of bundles. Raises DataError, UsageError."""
    from calcli.importers.import_scores import import_scores

    request = _request(source, layout, need_labels)
    request = replace(request, known_classes=tuple(known_classes))
    with ExitStack() as own_stack:
        imports = _imports.get() or _Imports(own_stack, {})
        key = repr((source, request, ignored))
        if key not in imports.known:
            folder = TemporaryDirectory(prefix="calcli-")
            file = Path(imports.stack.enter_context(folder)) / "bundle.h5"
            try:
                report = import_scores([source], file, request, ignore_labels=ignored)
            except CalcliError as problem:
                raise _with_owner_of_options(problem) from None
            # what was read is said by bundle
            notes = [note for note in report.notes if note not in report.lines]
            imports.known[key] = Import(file, notes, report)
        yield imports.known[key]


def _request(source: Path, layout: Layout, need_labels: bool) -> "ImportRequest":
    """What is asked of a file that is imported."""
    from calcli.importers.import_request import ImportRequest

    return ImportRequest(
        scores=() if layout.scores is None else (layout.scores,),
        labels=() if layout.labels is None else (layout.labels,),
        kind=layout.kind,
        carry=not need_labels,
        no_labels=not need_labels,
        typed=((str(source),), *command_words(layout)),
        **common_fields(ByName, layout),
    )


def _with_owner_of_options(problem: CalcliError) -> CalcliError:
    """The error, which says of options that only ``calcli extract`` has whose they are."""
    message = str(problem)
    if "calcli extract" in message:
        return problem
    options = []
    for option in dict.fromkeys(OPTION.findall(message)):
        if option not in OPTIONS_OF_COMMANDS:
            options.append(option)
    if not options:
        return problem
    are = "is an option" if len(options) == 1 else "are options"
    owner = (
        f"; {', '.join(options)} {are} of calcli extract, which makes a bundle of it"
    )
    if not problem.advice:
        return problem.advising(more=owner)
    return type(problem)(problem.message, advice=problem.advice + owner)


def _is_foreign(path: Path) -> bool:
    """True for standard input, a folder, or an existing file that is not HDF5.

    The signature of HDF5 may stand at offsets of 512, 1024, … bytes.
    """
    if str(path) == "-" or os.path.isdir(path):
        return True
    if not os.path.isfile(path):
        return is_database(split_where(str(path))[0])
    return HDF5 not in _head(path) and path.suffix.lower() not in HDF5_SUFFIXES


def _head(path: Path) -> bytes:
    """First bytes of a file; the signature of HDF5 for one that cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return HDF5  # the reader of bundles raises the error


def probe_all(names: Sequence[str]) -> None:
    """Probe the HDF5 files of many bundles in one child process.

    It takes a tenth of the time of one process each.
    """
    hdf5_files = []
    for path in _files_of(names):
        if os.path.isfile(path) and not _is_foreign(path):
            hdf5_files.append(path)
    probe_together(hdf5_files)


@contextmanager
def open_data(
    names: Sequence[str],
    *,
    tell: Callable[[str], None] | None = None,
    known_classes: Sequence[str] = (),
    **how: Unpack[Opening],
) -> Iterator[DataSet]:
    """Open one bundle, or several as one data set with concatenated rows.

    See ``open_rows``. Raises DataError that names the bundle that cannot be read or
    does not belong to this data set.
    """
    check_open_files(len(names))
    probe_all(names)
    with ExitStack() as stack:
        parts = [
            stack.enter_context(
                open_rows(name, tell=tell, known_classes=known_classes, **how)
            )
            for name in names
        ]
        rows = parts[0] if len(parts) == 1 else PooledRows(parts)
        if how.get("need_labels", True):  # others are not weighed
            rows.check_weights()
        yield rows


# ---- expansion of names


def expand(
    name: str, layout: Layout = Layout(), ignore: Sequence[float] = ()
) -> list[str]:
    """Expand ``FILES:GROUP`` to names of bundles in natural order.

    Both may be shell patterns (``shards/*.h5``, ``scores.npz:*``). layout, ignore : see
    ``open_rows``. Raises DataError where nothing matches.
    """
    if len(name) > LONGEST_NAME:  # matching takes quadratic time in the length
        raise DataError(
            f"{name[:60]}…: has {len(name)} characters, longer than any file's name"
        )
    path, group = split_where(name)
    files = matching_files(str(path))
    if group is None:
        names = []
        for file in files:
            names += expand_log(Path(file), layout, ignore) or [file]
        return names
    names = []
    for file in files:
        names += _matching(Path(file), group, layout, ignore)
    return names


def expand_log(
    path: Path, layout: Layout = Layout(), ignore: Sequence[float] = ()
) -> list[str]:
    """Bundles of the labelled questions of a log of decisions; none for other files."""
    if not is_log(path, layout):
        return []
    names = _bundles_made_of(path, layout, ignore, need_labels=True)
    return [f"{path}:{name}" for name in names]


def _bundles_made_of(
    path: Path, layout: Layout, ignore: Sequence[float], *, need_labels: bool
) -> list[str]:
    """Names of the bundles, or of those with labels, that a file is imported to."""
    with (
        _imported(path, layout, ignore, need_labels) as made,
        open_file(made.file) as file,
    ):
        names = find_bundles(file)
        if need_labels:
            names = [name for name in names if "labels" in file[name]]
        return names


def is_log(path: Path, layout: Layout = Layout()) -> bool:
    """True for the log of a decision model, read without names of arrays."""
    if str(path) == "-" or not _is_foreign(path) or path.is_dir():
        return False
    from calcli.importers.decision_logs.logs import is_decision_log
    from calcli.importers.import_request import ImportRequest

    scores = () if layout.scores is None else (layout.scores,)
    return is_decision_log([path], ImportRequest(scores=scores, kind=layout.kind))


def _matching(
    path: Path, group: str, layout: Layout, ignore: Sequence[float]
) -> list[str]:
    """Names of a file's bundles that match a pattern; the root bundle is "FILE:"."""
    if set(WILD).isdisjoint(group):
        return [f"{path}:{group}"]
    names: list[str] = []
    if not _is_foreign(path):
        with open_file(path) as file:
            names = find_bundles(file)
    if not names:
        names = _bundles_made_of(path, layout, ignore, need_labels=False)
    names.sort(key=natural)
    matching = [f"{path}:{name}" for name in names if fnmatchcase(name, group)]
    if not matching:
        listing = ", ".join(f"{path.name}:{name}" for name in names)
        raise DataError(
            f"{path}: no bundle matches {group!r}; bundles in it: {listing}"
        )
    return matching
