"""Writers of calibrated scores in formats that other programs read: one function per
format.

A format is a function that writes a ``Sheet`` and its slabs to a ``Place``, listed in
``FORMATS``. Rows are streamed: no format holds more than some mebibytes of scores.
Columns have the names that they have in a bundle; tables have a column per class,
``probs_0`` or ``probs_cat``. All of it can be read again by ``calcli extract``.
"""

import io
import json
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from calcli.io.provenance import mark
from calcli.io.writer import NewBundle, new_bundles
from calcli.numerics import AnyArray, whole_number
from calcli.optional_packages import optional_import
from calcli.records import cached_property
from calcli.rows import SCORE_KINDS
from calcli.zeros import Zeros

ROW_GROUP = 32 << 20  # bytes of scores in one row group of a Parquet file

COLUMNS = (
    "ids",
    "labels",
    "correct",
    "prediction",
    "confidence",
    "p0",
    "p1",
    "accepted",
    "weights",
    "group",
    "unit",
)

OWN = frozenset(
    {
        *COLUMNS,
        "class_names",
        "calibrated_by",
        "calibrator",
        "own_names",
        "corrupted_labels",
    }
)
"""Reserved names of an output, which no other column can have."""

Slab = tuple[int, AnyArray, Mapping[str, AnyArray]]
"""First row, scores (b, k), and per row labels, prediction, confidence, accepted.

Or confidences (b,), and correct.
"""


@dataclass(frozen=True, kw_only=True)
class Sheet(NewBundle):
    """Description of an output, known before its rows.

    attributes : returns texts about the whole output (calibrator, calibrated_by) for
    formats with metadata; called last where a format allows it, when all rows have been
    read. source_columns : columns by their names in the source, by their name in a
    bundle. label_name : name of the labels in the source, for tables. zeros :
    resolution of the probabilities that were calibrated, where they were rounded.
    """

    dtype: np.dtype[Any]
    attributes: Callable[[], Mapping[str, str]] = dict
    source_columns: Mapping[str, Mapping[str, AnyArray]] = field(default_factory=dict)
    label_name: str = "labels"
    zeros: Zeros | None = None

    @property
    def score_names(self) -> list[str]:
        """Column name for each class, from its name or number."""
        if self.kind == "confidence":
            return ["confidence"]
        return [f"{self.kind}_{name}" for name in self.class_words or range(self.k)]

    @property
    def class_words(self) -> list[str]:
        """The names of the classes.

        None where they are not distinct, or numbers, which would be read as those of
        the classes.
        """
        names = [*(self.class_names or ())]
        if len(set(names)) < len(names) or not all(map(str.strip, names)):
            return []
        are_numbers = None not in map(whole_number, names)
        return [] if are_numbers else names

    @cached_property
    def meant(self) -> frozenset[str]:
        """Names reserved in the output."""
        return OWN.union(self.score_names, SCORE_KINDS)

    @property
    def taken(self) -> frozenset[str]:
        """Names reserved or used: ``meant``, the label's and those of
        ``source_columns``.
        """
        return self.meant.union([self.label_name], *self.source_columns.values())

    def table(self, slab: Slab) -> tuple[AnyArray, dict[str, AnyArray]]:
        """Scores as columns, and the columns of ``rows`` with class names in place of
        indices, where there are any.
        """
        scores, columns = self.rows(slab)
        if scores.ndim == 1:
            scores = scores[:, None]
        if self.class_words:
            words = np.array(self.class_words, dtype=object)
            columns |= {
                name: words[columns[name]]
                for name in ("labels", "prediction")
                if name in columns
            }
        return scores, self.called(columns)

    def called(self, columns: dict[str, AnyArray]) -> dict[str, AnyArray]:
        """Rename the labels to their name in the source, unless it is in use."""
        if "labels" not in columns or self.label_name in self.meant.union(columns):
            return columns
        renamed = {}
        for name, column in columns.items():
            renamed[self.label_name if name == "labels" else name] = column
        return renamed

    def rows(self, slab: Slab) -> tuple[AnyArray, dict[str, AnyArray]]:
        """Scores of a slab in the sheet's precision, and the per-row columns in the
        order of ``COLUMNS``.
        """
        start, scores, per_row = slab
        here = slice(start, start + len(scores))
        arrays = {name: values[here] for name, values in self.columns.items()}
        arrays |= per_row
        columns: dict[str, AnyArray] = {}
        for name in filter(arrays.__contains__, dict.fromkeys((*COLUMNS, *arrays))):
            own_columns = {}
            for one, values in self.source_columns.get(name, {}).items():
                if one not in self.meant:
                    own_columns[one] = values[here]
            columns |= own_columns or {name: arrays[name]}
        return scores.astype(self.dtype, copy=False), columns

    @property
    def mark(self) -> dict[str, str]:
        """Column of a table that records the calibrators, as name and value of every
        row; empty if uncalibrated.
        """
        chain = self.attributes().get("calibrated_by")
        return {} if chain is None else {"calibrated_by": mark(chain)}

    @property
    def texts(self) -> dict[str, str]:
        """Attributes and source, for formats that can store texts."""
        return {**self.attributes(), "source": json.dumps(self.source, sort_keys=True)}


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
        group = out.create("", sheet)
        for start, scores, per_row in slabs:
            group.write(start, scores, **per_row)
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
            zipfile.ZipInfo(f"{sheet.kind}.npy"), "w", force_zip64=True
        ) as member:
            shape = (sheet.n,) if sheet.kind == "confidence" else (sheet.n, sheet.k)
            about = {
                "descr": npy.dtype_to_descr(sheet.dtype),
                "fortran_order": False,
                "shape": shape,
            }
            npy.write_array_header_1_0(member, about)
            for slab in slabs:
                scores, columns = sheet.rows(slab)
                member.write(np.ascontiguousarray(scores).data)
                for name, values in columns.items():
                    per_row.setdefault(name, []).append(values)
        whole = {name: np.concatenate(parts) for name, parts in per_row.items()}
        if sheet.class_names is not None:
            whole["class_names"] = np.asarray(sheet.class_names)
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
                file.write(
                    (
                        ",".join(
                            map(_cell, [*columns, *sheet.score_names, *sheet.mark])
                        )
                        + "\n"
                    ).encode()
                )
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
            names = [*columns, sheet.kind]
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

    about = {**sheet.texts, "calcli_kind": sheet.kind}
    with place.open() as file:
        writer = None
        waiting = []
        size = 0
        for start, scores, per_row in slabs:
            scores, columns = sheet.table((start, scores, per_row))
            size += scores.nbytes
            last = start + len(scores) == sheet.n
            # Not every reader of Parquet supports float16.
            if scores.dtype == np.float16:
                scores = scores.astype(np.float32)
            arrays = [*columns.values(), *np.ascontiguousarray(scores.T)]
            waiting.append(
                pa.table(
                    [pa.array(a) for a in arrays], names=[*columns, *sheet.score_names]
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
