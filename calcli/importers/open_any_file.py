"""Rows of any file that extract reads, for the commands that work on bundles."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypedDict, Unpack

from calcli.errors import CalcliError
from calcli.io.bundle import BundleRows, open_bundle
from calcli.io.dataset import DataSet
from calcli.io.locate import ByName, Layout, split_where
from calcli.io.pooled_bundles import PooledRows, check_open_files
from calcli.io.probe import probe_together
from calcli.options import taken, typed

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
NAMES = ("scores", "labels", "kind", "ignore-label", "group-by", "sample-weight", "ids", "unit", "calibrator")
OWN = [f"--{name}" for name in NAMES]
"""Options of the commands that read score files."""

HDF5 = b"\x89HDF\r\n\x1a\n"


class Opening(TypedDict, total=False):
    """The arguments of ``open_bundle`` beside the name."""

    prefer: Sequence[str]
    layout: Layout
    ignore_labels: Sequence[int]
    need_labels: bool


@contextmanager
def open_rows(where: str, *, tell: Callable[[str], None] | None = None, **how: Unpack[Opening]) -> Iterator[BundleRows]:
    """Open a bundle, or a file of scores in another format, as rows (see ``open_bundle``).

    What is no HDF5 is imported, as ``calcli extract`` would with the names and the kind
    in ``layout``, into a temporary bundle that goes when the rows are closed; the rows
    bear the name of the file. tell : hears what was read as what. Raises as ``open_bundle`` and ``import_scores`` do.
    """
    path, group = split_where(where)
    if not _is_foreign(path):
        with open_bundle(where, **how) as rows:
            yield rows
        return
    layout, need_labels = how.get("layout", Layout()), how.get("need_labels", True)
    from calcli.importers.import_request import ImportRequest
    from calcli.importers.import_scores import import_scores

    scores, labels = ((name,) if name is not None else () for name in (layout.scores, layout.labels))
    named = (str(path),), *typed(layout)
    ask = ImportRequest(
        scores=scores, labels=labels, kind=layout.kind, no_labels=not need_labels, typed=named, **taken(ByName, layout)
    )
    with TemporaryDirectory(prefix="calcli-") as folder:
        made = Path(folder) / "bundle.h5"
        try:
            report = import_scores([path], made, ask, ignore_labels=how.get("ignore_labels", ()))
        except CalcliError as problem:
            foreign = [option for option in dict.fromkeys(OPTION.findall(str(problem))) if option not in OWN]
            foreign = [] if "calcli extract" in str(problem) else foreign
            hint = f"; {', '.join(foreign)}: of calcli extract, which makes a bundle of it" if foreign else ""
            raise type(problem)(f"{problem}{hint}") from None
        inside = f"{made}:{group}" if group is not None else str(made)
        try:
            with open_bundle(
                inside, prefer=how.get("prefer", ()), layout=Layout(unit=layout.unit), need_labels=need_labels
            ) as rows:
                if tell is not None:
                    for note in report.notes:
                        tell(note)
                path = Path("stdin") if str(path) == "-" else path
                rows.path, rows.name = path, f"{path.name}:{rows.group}" if rows.group else path.name
                yield rows
        except CalcliError as problem:
            text = str(problem).replace(str(made), str(path)).replace(made.name, path.name)
            raise type(problem)(text) from None


def _is_foreign(path: Path) -> bool:
    """Is it standard input, or a file that is there and no HDF5, which may begin at 512, 1024, 2048, … bytes?"""
    if str(path) == "-":
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
    """Look at the HDF5 files of many bundles at once, which takes a tenth of the time of one after the other."""
    files = dict.fromkeys(split_where(name)[0] for name in names)
    probe_together([path for path in files if os.path.isfile(path) and not _is_foreign(path)])


@contextmanager
def open_data(
    names: Sequence[str], *, tell: Callable[[str], None] | None = None, **how: Unpack[Opening]
) -> Iterator[DataSet]:
    """Open one bundle, or several as one data set, their rows one after the other (see ``open_rows``).

    Raises DataError that names the bundle which cannot be read, or is none of this data set.
    """
    check_open_files(len(names))
    probe_all(names)
    with ExitStack() as stack:
        parts = [stack.enter_context(open_rows(name, tell=tell, **how)) for name in names]
        yield parts[0] if len(parts) == 1 else PooledRows(parts)
