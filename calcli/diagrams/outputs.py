"""What a diagram can be written as. A format is one decorated function; help and checks find it."""

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from calcli.diagrams.caption_text import printable
from calcli.diagrams.matplotlib_theme import Paper, need_matplotlib
from calcli.diagrams.style import Figure, style
from calcli.errors import UsageError
from calcli.fast_dataclass import as_json, dataclass
from calcli.io.cells import finite, harmless_cell

FORMAT = 1

Writer = Callable[[Figure, Paper], bytes]


@dataclass(frozen=True)
class PictureFormat:
    """write : a figure as bytes. drawn : by matplotlib, which may be missing."""

    write: Writer
    drawn: bool


FORMATS: dict[str, PictureFormat] = {}
"""By the ending of a file's name, without the dot."""


def output_format(*endings: str, drawn: bool = False) -> Callable[[Writer], Writer]:
    """Enter a function as the writer of files with these endings."""

    def enter(write: Writer) -> Writer:
        FORMATS.update(dict.fromkeys(endings, PictureFormat(write, drawn)))
        return write

    return enter


def format_of(path: Path) -> PictureFormat:
    """The format of a file by its ending. Raises UsageError, also where matplotlib is missing."""
    ending = path.suffix.lower().lstrip(".")
    if ending not in FORMATS:
        raise UsageError(
            f"-o {path}: expected a name that ends in .{', .'.join(FORMATS)}; --json writes the numbers to stdout"
        )
    if FORMATS[ending].drawn:
        need_matplotlib()
    return FORMATS[ending]


@output_format("png", drawn=True)
def _png(figure: Figure, paper: Paper) -> bytes:
    drawn = style(figure.style)
    return paper.picture(partial(drawn.draw, figure), "png", Description=drawn.describe(figure))


@output_format("svg", drawn=True)
def _svg(figure: Figure, paper: Paper) -> bytes:
    from xml.sax.saxutils import escape

    drawn = paper.picture(partial(style(figure.style).draw, figure), "svg").decode()
    title = escape(printable(figure.title) or "Reliability diagram")
    words = escape(printable(style(figure.style).describe(figure)))
    head = drawn.index("<svg ")
    end = drawn.index(">", head)
    alt = f'\n <title id="title">{title}</title>\n <desc id="desc">{words}</desc>'
    return f'{drawn[:end]} role="img" aria-labelledby="title desc">{alt}{drawn[end + 1 :]}'.encode()


@output_format("pdf", drawn=True)
def _pdf(figure: Figure, paper: Paper) -> bytes:
    drawn = style(figure.style)
    return paper.picture(partial(drawn.draw, figure), "pdf", Title=figure.title or None, Subject=drawn.describe(figure))


def to_object(figure: Figure) -> dict[str, Any]:
    """All numbers of a figure as JSON values; a number that does not exist is null."""
    return {"calcli_diagram": FORMAT, "style": figure.style, **finite(as_json(figure))}


@output_format("json")
def to_json(figure: Figure, paper: Paper | None = None) -> bytes:
    """``to_object`` as one line of text. Numbers read back exactly."""
    text = json.dumps(to_object(figure), ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", "surrogateescape")


@output_format("csv")
def to_csv(figure: Figure, paper: Paper | None = None) -> bytes:
    """The plotted points, one per line, under the names of the columns (see the style's ``table``)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns, rows = style(figure.style).table(figure)
    writer.writerow(columns)
    writer.writerows(map(_cells, rows))
    return out.getvalue().encode("utf-8", "surrogateescape")


def _cells(row: Sequence[Any]) -> list[str]:
    """Numbers so that they read back exactly; nothing where there is none."""
    texts = []
    for value in row:
        if isinstance(value, float):
            texts.append(repr(float(value)) if math.isfinite(value) else "")
        else:
            text = "" if value is None else str(value)
            texts.append(harmless_cell(text) if isinstance(value, str) else text)
    return texts
