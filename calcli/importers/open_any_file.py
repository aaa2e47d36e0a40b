"""Open any file that ``extract`` reads as a bundle, for the commands that work on bundles."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypedDict, Unpack

from calcli.errors import CalcliError, DataError
from calcli.fast_dataclass import dataclass
from calcli.io.bundle import BundleRows, open_bundle
from calcli.io.dataset import DataSet, PooledRows
from calcli.io.hdf5 import HDF5, open_file
from calcli.io.inputs import check_open_files
from calcli.io.locate import (
    WILD,
    ByName,
    Layout,
    NoBundles,
    find_bundles,
    matching_files,
    natural,
    split_where,
)
from calcli.io.probe import probe_together
from calcli.options import taken, typed

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
NAMES = (
    "scores",
    "labels",
    "kind",
    "ignore-label",
    "group-by",
    "sample-weight",
    "ids",
    "unit",
    "calibrator",
)
OWN = [f"--{name}" for name in NAMES]  # options of the commands that read score files


class Opening(TypedDict, total=False):
    """Keyword arguments of ``open_bundle``."""

    prefer: Sequence[str]
    layout: Layout
    ignore_labels: Sequence[int]
    need_labels: bool


@dataclass
class Import:
    """A file imported to a temporary file of bundles. notes : remarks not yet printed.
    likely_unit : its unused column that looks like units."""

    path: Path
    notes: list[str]
    likely_unit: str | None


_imports: ContextVar[tuple[ExitStack, dict[str, Import]] | None] = ContextVar(
    "imports", default=None
)


@contextmanager
def importing_once() -> Iterator[None]:
    """Context in which a file is imported, and its remarks printed, at most once however often it is opened."""
    with ExitStack() as stack:
        token = _imports.set((stack, {}))
        try:
            yield
        finally:
            _imports.reset(token)


@contextmanager
def open_rows(
    where: str, *, tell: Callable[[str], None] | None = None, **how: Unpack[Opening]
) -> Iterator[BundleRows]:
    """Open a bundle as rows (see ``open_bundle``). Files of other formats or layouts are first imported, as by
    ``calcli extract`` with the names and the kind in ``layout``, into a temporary file that is deleted when the rows
    are closed. tell : receives the remarks of the import. Raises as ``open_bundle`` and ``import_scores``."""
    path, group = split_where(where)
    layout, ignore = how.get("layout", Layout()), how.get("ignore_labels", ())
    ignored = (word for label in ignore for word in ("--ignore-label", str(label)))
    options = (*chain.from_iterable(typed(layout)), *ignored)
    with ExitStack() as stack:
        if not _is_foreign(path):
            try:
                rows = stack.enter_context(open_bundle(where, **how))
            except NoBundles:
                pass
            else:
                rows.options = options
                yield rows
                return
        need_labels = how.get("need_labels", True)
        done = stack.enter_context(_imported(path, layout, ignore, need_labels))
        made = done.path
        inside = f"{made}:{group}" if group is not None else str(made)
        layout = Layout(unit=layout.unit)
        try:
            with open_bundle(
                inside,
                prefer=how.get("prefer", ()),
                layout=layout,
                need_labels=need_labels,
            ) as rows:
                rows.path, rows.options = (
                    Path("stdin") if str(path) == "-" else path,
                    options,
                )
                rows.name = (
                    f"{rows.path.name}:{rows.group}" if rows.group else rows.path.name
                )
                rows.likely_unit = done.likely_unit
                while tell is not None and done.notes:
                    tell(done.notes.pop(0))
                yield rows
        except CalcliError as problem:
            raise problem.translated(
                lambda t: t.replace(str(made), str(path)).replace(made.name, path.name)
            ) from None


@contextmanager
def _imported(
    path: Path, layout: Layout, ignore: Sequence[int], need_labels: bool
) -> Iterator[Import]:
    """Import a file to a temporary file of bundles. Raises DataError."""
    from calcli.importers.import_request import ImportRequest
    from calcli.importers.import_scores import import_scores

    scores, labels = (
        (name,) if name is not None else () for name in (layout.scores, layout.labels)
    )
    named = (str(path),), *typed(layout)
    more = {
        "carry": not need_labels,
        "no_labels": not need_labels,
        **taken(ByName, layout),
    }
    ask = ImportRequest(
        scores=scores, labels=labels, kind=layout.kind, typed=named, **more
    )
    with ExitStack() as own:
        stack, known = _imports.get() or (own, {})
        key = repr((path, ask, ignore))
        if key not in known:
            made = (
                Path(stack.enter_context(TemporaryDirectory(prefix="calcli-")))
                / "bundle.h5"
            )
            try:
                report = import_scores([path], made, ask, ignore_labels=ignore)
            except CalcliError as problem:
                foreign = [
                    option
                    for option in dict.fromkeys(OPTION.findall(str(problem)))
                    if option not in OWN
                ]
                foreign = [] if "calcli extract" in str(problem) else foreign
                hint = (
                    f"; {', '.join(foreign)}: of calcli extract, which makes a bundle of it"
                    if foreign
                    else ""
                )
                raise problem.advising(more=hint) from None
            known[key] = Import(made, report.notes, report.likely_unit)
        yield known[key]


def _is_foreign(path: Path) -> bool:
    """True for standard input, a folder, or an existing file that is not HDF5 (also at offsets 512, 1024, … bytes)."""
    if str(path) == "-" or os.path.isdir(path):
        return True
    if not os.path.isfile(path):
        return False
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return HDF5 not in head and path.suffix.lower() not in (".h5", ".hdf5", ".hdf")


def probe_all(names: Sequence[str]) -> None:
    """Probe the HDF5 files of many bundles in one child process, in a tenth of the time of one process each."""
    files = dict.fromkeys(split_where(name)[0] for name in names)
    probe_together(
        [path for path in files if os.path.isfile(path) and not _is_foreign(path)]
    )


@contextmanager
def open_data(
    names: Sequence[str],
    *,
    tell: Callable[[str], None] | None = None,
    **how: Unpack[Opening],
) -> Iterator[DataSet]:
    """Open one bundle, or several as one data set with concatenated rows (see ``open_rows``). Raises DataError that
    names the bundle that cannot be read or does not belong to this data set."""
    check_open_files(len(names))
    probe_all(names)
    with ExitStack() as stack:
        parts = [
            stack.enter_context(open_rows(name, tell=tell, **how)) for name in names
        ]
        yield parts[0] if len(parts) == 1 else PooledRows(parts)


# ---- expansion of names

LONGEST_NAME = (
    8192  # characters of a name with its group; systems allow 4096 at most for a path
)


def expand(
    name: str, layout: Layout = Layout(), ignore: Sequence[int] = ()
) -> list[str]:
    """Expand ``FILES:GROUP``, both of which may be shell patterns (``shards/*.h5``, ``scores.npz:*``), to names of
    bundles in natural order. layout, ignore : see ``open_rows``. Raises DataError where nothing matches."""
    if (
        len(name) > LONGEST_NAME
    ):  # matching takes quadratic time in the length of the pattern
        raise DataError(
            f"{name[:60]}…: has {len(name)} characters, longer than any file's name"
        )
    path, group = split_where(name)
    files = matching_files(str(path))
    if group is None:
        return files
    return [
        bundle
        for file in files
        for bundle in _matching(Path(file), group, layout, ignore)
    ]


def _matching(
    path: Path, group: str, layout: Layout, ignore: Sequence[int]
) -> list[str]:
    """Names of a file's bundles that match a pattern; the root bundle is "FILE:"."""
    if not any(c in group for c in WILD):
        return [f"{path}:{group}"]
    names: list[str] = []
    if not _is_foreign(path):
        with open_file(path) as file:
            names = find_bundles(file)
    if not names:
        with (
            _imported(path, layout, ignore, False) as done,
            open_file(done.path) as file,
        ):
            names = find_bundles(file)
    names.sort(key=natural)
    if not (
        matching := [f"{path}:{name}" for name in names if fnmatchcase(name, group)]
    ):
        listing = ", ".join(f"{path.name}:{name}" for name in names)
        raise DataError(
            f"{path}: no bundle matches {group!r}; bundles in it: {listing}"
        )
    return matching
