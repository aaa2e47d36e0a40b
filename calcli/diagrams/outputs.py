"""File formats of diagrams: one function each, listed in ``FORMATS``, where help and
checks find it.
"""

import csv
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from calcli.diagrams.caption_text import printable
from calcli.diagrams.matplotlib_theme import METADATA, Paper, import_matplotlib
from calcli.diagrams.style import Figure
from calcli.errors import UsageError
from calcli.io.harmless import finite, harmless_cell
from calcli.records import JsonObject, as_json

Writer = Callable[[Figure, Paper], bytes]


def format_of(path: Path) -> Writer:
    """Writer of a file, by its extension.

    Raises UsageError for an unknown one, and where matplotlib is missing.
    """
    ending = path.suffix.lower().lstrip(".")
    if ending not in FORMATS:
        expected = f"expected a name that ends in .{', .'.join(FORMATS)}"
        raise UsageError(f"-o {path}: {expected}; --json writes the numbers to stdout")
    if ending in METADATA:
        import_matplotlib()
    return FORMATS[ending]


def _png(figure: Figure, paper: Paper) -> bytes:
    return paper.picture(figure.draw, "png", Description=figure.describe())


def _svg(figure: Figure, paper: Paper) -> bytes:
    from xml.sax.saxutils import escape

    drawn = paper.picture(figure.draw, "svg").decode()
    title = escape(printable(figure.title) or "Reliability diagram")
    words = escape(printable(figure.describe()))
    head = drawn.index("<svg ")
    end = drawn.index(">", head)
    alt = f'\n <title id="title">{title}</title>\n <desc id="desc">{words}</desc>'
    names = 'role="img" aria-labelledby="title desc"'
    return f"{drawn[:end]} {names}>{alt}{drawn[end + 1 :]}".encode()


def _pdf(figure: Figure, paper: Paper) -> bytes:
    return paper.picture(
        figure.draw, "pdf", Title=figure.title or None, Subject=figure.describe()
    )


def to_object(figure: Figure) -> JsonObject:
    """Numbers of a figure as JSON values; those that are not finite are null."""
    return {"calcli_diagram": 1, "style": figure.style, **finite(as_json(figure))}


def to_json(figure: Figure, paper: Paper | None = None) -> bytes:
    """Write ``to_object`` as one line of JSON; numbers read back exactly."""
    text = json.dumps(to_object(figure), ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", "surrogateescape")


def to_csv(figure: Figure, paper: Paper | None = None) -> bytes:
    """Write the plotted points as CSV, one per line, under the names of the columns
    (see ``Figure.table``).
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns, rows = figure.table()
    writer.writerow(columns)
    writer.writerows(map(_cell, row) for row in rows)
    return out.getvalue().encode("utf-8", "surrogateescape")


def _cell(value: Any) -> str:
    """Text of a CSV cell: numbers read back exactly; empty where there is none."""
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else ""
    if isinstance(value, str):
        return harmless_cell(value)
    return "" if value is None else str(value)


FORMATS: dict[str, Writer] = {
    "png": _png,
    "svg": _svg,
    "pdf": _pdf,
    "json": to_json,
    "csv": to_csv,
}
"""Writers by file extension, without the dot."""
