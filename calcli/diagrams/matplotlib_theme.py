"""Appearance of pictures: themes, widths, and matplotlib settings that ignore the
user's configuration.

The first four colours differ in hue for every common kind of colour vision, and in
lightness, so that they survive a grey printer; every difference that a colour makes is
also made by a line style, a marker or a hatch.
"""

import io
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from calcli.errors import UsageError
from calcli.optional_packages import optional_import

DASHES: tuple[Any, ...] = (
    "-",
    *(
        (0, dashes)
        for dashes in (
            (5, 1.5),
            (1, 1),
            (5, 1, 1, 1),
            (3, 1, 1, 1, 1, 1),
            (8, 2),
            (2, 2),
            (9, 1.5, 2, 1.5),
        )
    ),
)
MARKERS = "os^DvPX*"
"""Line styles and markers of the curves in one pair of axes, in this order."""


@dataclass(frozen=True)
class Theme:
    """Colours of a picture, by default those of a light page.

    page : background. ink : text. muted : axes and secondary text. main : a curve that
    is alone. band : consistency band. others : curves beyond the coloured ones. bar :
    filled bars. series : curves in one pair of axes.
    """

    page: str = "#ffffff"
    ink: str = "#202020"
    muted: str = "#666666"
    main: str = "#0B5CA8"
    band: str = "#d9d9d9"
    others: str = "#a9a9a9"
    bar: str = "#cfe4f2"
    grid: str = "#ececec"
    series: Sequence[str] = (
        "#CF5A00",
        "#0B3C7D",
        "#1AA882",
        "#A0388F",
        "#8A6D00",
        "#202020",
        "#5A8FC7",
        "#7A4B2A",
    )


LIGHT = Theme()
DARK = Theme(
    page="#12161b",
    ink="#e8edf2",
    muted="#9aa6b2",
    main="#62b6f2",
    band="#353f4a",
    others="#64707c",
    bar="#23415a",
    grid="#232a32",
    series=(
        "#F5A04D",
        "#2F78D0",
        "#8EEBC8",
        "#E06AA8",
        "#D6C04A",
        "#e8edf2",
        "#8FC4F5",
        "#C79A7A",
    ),
)
THEMES = {"light": LIGHT, "dark": DARK}

WIDTHS = {"column": 3.33, "page": 6.75, "slide": 10.0}
"""Widths in inches: one column and both columns of a two-column paper, and a slide."""
UNITS = {"mm": 1 / 25.4, "cm": 1 / 2.54, "in": 1.0}

METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": "calcli"},
    "pdf": {
        "CreationDate": None,
        "ModDate": None,
        "Producer": None,
        "Creator": "calcli",
    },
}
"""Metadata by file extension, without the time and the versions of programs."""


@dataclass(frozen=True)
class Paper:
    """Format of a picture.

    width : in inches, None for as wide as needed. stats : whether numbers are written
    in it.
    """

    theme: Theme = LIGHT
    width: float | None = None
    stats: bool = True

    def series(self, number: int) -> tuple[str, Any, str]:
        """Colour, line style and marker of a curve by its number; all different up to
        64.
        """
        colours = self.theme.series
        look = (number + number // len(colours)) % len(DASHES)
        return colours[number % len(colours)], DASHES[look], MARKERS[look]

    def picture(
        self, draw: Callable[["Paper"], Any], form: str, **words: str | None
    ) -> bytes:
        """Render the figure that ``draw`` makes as the bytes of a file.

        form : its extension. words : more metadata.
        """
        out = io.BytesIO()
        with self.matplotlib():
            draw(self).savefig(out, format=form, metadata=METADATA[form] | words)
        return out.getvalue()

    @contextmanager
    def matplotlib(self) -> Iterator[None]:
        """Context of matplotlib's defaults and our changes, whatever the user's
        matplotlibrc says.
        """
        t = self.theme
        matplotlib = import_matplotlib()
        rc = matplotlib.rc
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            # comes with matplotlib: the same letters everywhere
            rc("font", family="DejaVu Sans", size=8)
            rc(
                "axes",
                titlesize=9,
                labelsize=8.5,
                linewidth=0.7,
                axisbelow=True,
                facecolor=t.page,
            )
            rc("axes", edgecolor=t.ink, labelcolor=t.ink, titlecolor=t.ink)
            rc("axes.spines", top=False, right=False)
            rc(("xtick", "ytick"), color=t.ink, labelsize=7.5)
            rc(("xtick.major", "ytick.major"), width=0.7, size=3)
            rc("text", color=t.ink, parse_math=False)  # a $ in a name starts no formula
            rc("grid", color=t.grid, linewidth=0.5)
            rc("hatch", linewidth=0.6)
            rc("legend", frameon=False, fontsize=7.5, handlelength=2.4)
            rc("pdf", fonttype=42)
            rc("path", simplify=False)  # the lines of an SVG are the numbers themselves
            # Text stays text: it can be selected, searched, read aloud. Without a salt, element ids would be random.
            rc("svg", fonttype="none", hashsalt="calcli")
            rc("savefig", dpi=200)
            rc("figure", facecolor=t.page)
            yield


def log_ticks(
    axis: Any, ticks: Sequence[float], say: Callable[[float], str] = "{:g}".format
) -> None:
    """Set the ticks of a logarithmic axis, labelled as plain numbers.

    say : the label of a value.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: say(value)))


def import_matplotlib() -> Any:
    """Import matplotlib with what draws. Raises UsageError where that fails.

    An MPLBACKEND that does not exist is no error, as no backend is used.
    """
    backend = (
        None if "matplotlib" in sys.modules else os.environ.pop("MPLBACKEND", None)
    )
    instead = "the terminal drawing, .json and .csv work without it"
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)  # a home that cannot be written is no news
    try:
        with optional_import("matplotlib", "drawing png, svg or pdf", instead):
            import matplotlib
            import matplotlib.figure  # loads most of its compiled parts
    finally:
        logger.setLevel(level)
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    if backend:
        with suppress(ValueError):
            # as its own import would have done, for others in this process
            matplotlib.rcParams["backend"] = backend
    return matplotlib


def width_of(text: str) -> float:
    """Inches of ``column``, ``page``, ``slide`` or a length (``85mm``, ``3.4in``,
    ``3.4``). Raises UsageError.
    """
    if text in WIDTHS:
        return WIDTHS[text]
    number, unit = (text[:-2], text[-2:]) if text[-2:] in UNITS else (text, "in")
    with suppress(ValueError):
        width = float(number) * UNITS[unit]
        if 2.0 <= width <= 40.0:
            return width
    raise UsageError(
        f"--width {text}: expected {', '.join(WIDTHS)}, or 2 to 40 inches, e.g. 3.4in"
        " or 85mm"
    )
