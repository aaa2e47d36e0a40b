"""Writers of calibrated scores in formats that other programs read: one function per
format.

A format is a function that writes a ``Sheet`` and its slabs to a ``Place``, listed in
``FORMATS``. Rows are streamed: no format holds more than some mebibytes of scores.
Columns have the names that they have in a bundle; tables have a column per class,
``probs_0`` or ``probs_cat``. All of it can be read again by ``calcli extract``.
"""

import io
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.lib import format as npy

from calcli.errors import UsageError, check_choice
from calcli.io.atomic import is_stream, new_file
from calcli.io.locate import split_where
from calcli.io.score_sheet import Sheet, Slab
from calcli.io.writer import new_bundles
from calcli.numerics import AnyArray
from calcli.optional_packages import optional_import

ROW_GROUP = 32 << 20  # bytes of scores in one row group of a Parquet file


@dataclass(frozen=True)
class Place:
    """Destination of an output. path : None for standard output."""

    path: Path | None
    force: bool

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the destination to append bytes to (see ``new_file``)."""
        if self.path is None:
            sys.stdout.flush()
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        else:
            with new_file(self.path, force=self.force) as file:
                yield file  # type: ignore[misc]  # only ``write`` is used


@dataclass(frozen=True)
class Format:
    """File format of scores.

    endings : of file names. streams : whether a pipe will do. needs : required package.
    """

    write: Callable[[Sheet, Iterable[Slab], Place], None]
    endings: tuple[str, ...]
    streams: bool = False
    needs: str | None = None

    @property
    def name(self) -> str:
        return self.endings[0]


def format_of(path: Path | None, name: str | None = None) -> Format:
    """Choose the format by name or by ending.

    path : None for standard output. Raises UsageError.
    """
    check_choice("--format", name, FORMATS)
    ending = "" if path is None else path.suffix.lower().lstrip(".")
    form = FORMATS[name] if name else _format_by_ending(ending)
    is_pipe = path is None or is_stream(path)
    where = f"-o {path or '-'}"
    streams = ", ".join(other.name for other in FORMATS.values() if other.streams)
    if form is None and is_pipe:
        raise UsageError(
            f"{where}: say how it is written with --format, one of {streams}"
        )
    if form is None:
        endings = ", .".join(chain(*(other.endings for other in FORMATS.values())))
        raise UsageError(
            f"{where}: expected a name that ends in .{endings}, or --format"
        )
    if is_pipe and not form.streams:
        raise UsageError(
            f"{where}: {form.name} cannot be written to a pipe or a device; {streams}"
            " can"
        )
    if form.needs is not None:
        with optional_import(form.needs, f"writing {form.name}"):
            import_module(form.needs)
    return form


def _format_by_ending(ending: str) -> Format | None:
    """The first format of files that end so; None where there is none."""
    for form in FORMATS.values():
        if ending in form.endings:
            return form
    return None


def names_format(path: Path) -> bool:
    """Return True if a path has the ending of one of the formats."""
    return _format_by_ending(path.suffix[1:].lower()) is not None


COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


def names_of_new_scores(scores: str) -> tuple[str, str]:
    """Names for scores like these that the user has, and for them calibrated.

    ``NEW.csv`` and ``calibrated.csv`` for ``reviews.csv:test``; HDF5 where the format
    that they come in cannot be written.
    """
    path = split_where(scores)[0]
    new_ending = path.suffix
    if path.suffix in COMPRESSED:
        new_ending = "".join(path.suffixes[-2:])
    ending = path.suffix if names_format(path) else ".h5"
    return f"NEW{new_ending or '.h5'}", f"calibrated{ending}"


# ---- formats


def write_h5(sheet: Sheet, slabs: Iterable[Slab], place: Place) -> None:
    """Write an HDF5 bundle."""
    assert place.path is not None
    with new_bundles(place.path, force=place.force) as out:
        group = out.create("", sheet.bundle)
        for slab in slabs:
            start, scores, _ = slab
            group.write(start, scores, **sheet.bundle_rows(slab))
        for name, text in sheet.attributes().items():
            group.attribute(name, text)
        if sheet.zeros is not None:
            for name, value in sheet.zeros.attributes.items():
                group.attribute(name, value)


def write_npz(sheet: Sheet, slabs: Iterable[Slab], place: Place) -> None:
    """Write arrays named as in a bundle; attributes are arrays of one string.

    Nothing is pickled.
    """
    per_row: dict[str, list[AnyArray]] = {}
    with place.open() as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open(
            zipfile.ZipInfo(f"{sheet.scores.kind}.npy"), "w", force_zip64=True
        ) as member:
            about = {
                "descr": npy.dtype_to_descr(sheet.scores.dtype),
                "fortran_order": False,
                "shape": sheet.scores.shape,
            }
            npy.write_array_header_1_0(member, about)
            for slab in slabs:
                scores, columns = sheet.rows(slab)
                member.write(np.ascontiguousarray(scores).data)
                for name, values in columns.items():
                    per_row.setdefault(name, []).append(values)
        whole = {name: np.concatenate(parts) for name, parts in per_row.items()}
        if sheet.scores.class_names is not None:
            whole["class_names"] = np.asarray(sheet.scores.class_names)
        texts = {name: np.asarray(text) for name, text in sheet.texts.items()}
        # A column may be called source.
        for name, values in (whole | texts | whole).items():
            with archive.open(
                zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True
            ) as member:
                if values.dtype == object:
                    values = values.astype("U")
                npy.write_array(member, values, allow_pickle=False)


def write_csv(sheet: Sheet, slabs: Iterable[Slab], place: Place) -> None:
    """Write a header and a line per row; the last column names the calibrators.

    Numbers read back exactly.
    """
    with place.open() as file:
        head = False
        end = ",".join(["", *map(_cell, sheet.mark.values())]) + "\n"
        for slab in slabs:
            scores, columns = sheet.table(slab)
            if not head:
                names = [*columns, *sheet.scores.names, *sheet.mark]
                file.write((",".join(map(_cell, names)) + "\n").encode())
                head = True
            cells = [map(_cell, values.tolist()) for values in columns.values()]
            numbers = (
                msgspec.json.encode(row)[1:-1].decode() for row in scores.tolist()
            )
            out = io.BytesIO()
            for texts in zip(*cells, numbers, strict=True):
                # The shortest digits, ten times as fast as repr.
                out.write((",".join(texts) + end).encode())
            file.write(out.getvalue())


def write_jsonl(sheet: Sheet, slabs: Iterable[Slab], place: Place) -> None:
    """Write one JSON object per row, with its scores in a list, and the calibrators
    applied to it.
    """
    marked = sheet.mark
    with place.open() as file:
        for slab in slabs:
            scores, columns = sheet.rows(slab)
            columns = sheet.called(columns)
            names = [*columns, sheet.scores.kind]
            values = zip(
                *(column.tolist() for column in columns.values()),
                scores.tolist(),
                strict=True,
            )
            lines = (
                msgspec.json.encode(dict(zip(names, row, strict=True)) | marked)
                for row in values
            )
            file.write(b"".join(line + b"\n" for line in lines))


def write_parquet(sheet: Sheet, slabs: Iterable[Slab], place: Place) -> None:
    """Write a table of typed columns; the attributes are metadata of its schema."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = {**sheet.texts, "calcli_kind": sheet.scores.kind}
    with place.open() as file:
        writer = None
        waiting = []
        size = 0
        for slab in slabs:
            scores, columns = sheet.table(slab)
            size += scores.nbytes
            last = slab[0] + len(scores) == sheet.scores.n
            # Not every reader of Parquet supports float16.
            if scores.dtype == np.float16:
                scores = scores.astype(np.float32)
            arrays = [*columns.values(), *np.ascontiguousarray(scores.T)]
            waiting.append(
                pa.table(
                    [pa.array(values) for values in arrays],
                    names=[*columns, *sheet.scores.names],
                )
            )
            if size < ROW_GROUP and not last:
                continue
            table = (
                pa.concat_tables(waiting)
                .combine_chunks()
                .replace_schema_metadata(about)
            )
            if writer is None:
                options = {"write_page_checksum": True, "use_dictionary": False}
                writer = pq.ParquetWriter(file, table.schema, **options)
            writer.write_table(table)
            waiting = []
            size = 0
        if writer is not None:
            writer.close()


QUOTED = re.compile(r'[,"\r\n]|^\s|\s$')  # text that needs quotes in a cell of CSV


def _cell(value: Any) -> str:
    """Format a cell of CSV, quoted if necessary."""
    text = value if isinstance(value, str) else repr(value)
    if not QUOTED.search(text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


ALL = (
    Format(write_h5, ("h5", "hdf5")),
    Format(write_npz, ("npz",)),
    Format(write_csv, ("csv",), streams=True),
    Format(write_jsonl, ("jsonl",), streams=True),
    Format(write_parquet, ("parquet",), needs="pyarrow"),
)
FORMATS = {form.name: form for form in ALL}
