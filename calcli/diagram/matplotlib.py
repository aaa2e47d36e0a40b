"""Draw diagrams as PNG, SVG or PDF: the same bytes for the same numbers, light on paper.

Colours are those of Okabe and Ito (2008), distinguishable with colour-blind eyes; every
difference that a colour makes is also made by a line style, a hatch or a shade of grey.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from calcli.diagram.data import Diagram
from calcli.diagram.scatter import Scatter
from calcli.diagram.temperature_sweep import Sweep
from calcli.errors import UsageError

__all__ = ["FORMATS", "draw", "house_style", "save", "series"]

FORMATS = ("png", "svg", "pdf")

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
INK, GREY, PALE = "#202020", "#707070", "#d9d9d9"
SERIES: tuple[tuple[str, Any, str], ...] = (
    (VERMILION, "-", "o"),
    (BLUE, (0, (5, 1.5)), "s"),
    (GREEN, (0, (1, 1)), "^"),
    (PURPLE, (0, (5, 1, 1, 1)), "D"),
    (ORANGE, (0, (3, 1, 1, 1, 1, 1)), "v"),
    (INK, (0, (8, 2)), "P"),
    (SKY, (0, (2, 2)), "X"),
)
"""Colour, line style and marker of the curves in one pair of axes, in this order."""


def series(at: int) -> tuple[str, Any, str]:
    """Colour, line style and marker of curve number ``at``; no two alike up to 49."""
    count = len(SERIES)
    return SERIES[at % count][0], SERIES[(at + at // count) % count][1], SERIES[(at + at // count) % count][2]


STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.7,
    "axes.edgecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "legend.handlelength": 2.4,
    "pdf.fonttype": 42,
    "path.simplify": False,  # the lines of an SVG are the numbers themselves
    "svg.fonttype": "path",
    "svg.hashsalt": "calcli",  # else element ids are drawn at random
    "savefig.dpi": 200,
    "figure.facecolor": "white",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib's own defaults and our changes, whatever the user's matplotlibrc says."""
    try:
        import matplotlib
    except ImportError:
        raise UsageError(
            "drawing png, svg or pdf needs matplotlib: pip install 'calcli[plot]';"
            " the terminal drawing, .json and .csv work without it"
        ) from None
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def save(figure: Any, path: Path, form: str) -> None:
    """Write a figure without clock, host or program version in it. form : one of FORMATS."""
    metadata: dict[str, dict[str, str | None]] = {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": "calcli"},
        "pdf": {"CreationDate": None, "ModDate": None, "Creator": "calcli", "Producer": None},
    }
    figure.savefig(path, format=form, metadata=metadata[form])


def draw(figure: Diagram | Sweep | Scatter) -> Any:
    """A matplotlib figure; call it inside ``house_style``."""
    from calcli.diagram import matplotlib_other, matplotlib_reliability

    if isinstance(figure, Sweep):
        return matplotlib_other.draw_sweep(figure)
    if isinstance(figure, Scatter):
        return matplotlib_other.draw_scatter(figure)
    return matplotlib_reliability.draw_reliability(figure)
