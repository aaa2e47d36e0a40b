"""Critical difference diagram: average ranks on an axis, and bars joining methods that
do not differ significantly.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calcli.diagrams.caption_text import squeeze
from calcli.diagrams.matplotlib_theme import LIGHT, METADATA, Paper, import_matplotlib
from calcli.errors import UsageError
from calcli.numerics import FloatArray
from calcli.statistics.friedman import not_told_apart

ROW = 0.19
BAR = 0.13
HEAD = 0.78
"""Inches between labels, between bars, and above the axis."""


def check_ending(path: Path) -> None:
    """Raise UsageError for an extension that is no picture format, and where matplotlib
    is missing.
    """
    if path.suffix.lower().lstrip(".") not in METADATA:
        raise UsageError(
            f"--diagram {path}: expected a name that ends in .{', .'.join(METADATA)}"
        )
    import_matplotlib()


def picture(
    path: Path, names: Sequence[str], ranks: FloatArray, distance: float, what: str
) -> bytes:
    """Draw the diagram (see ``draw``) as the bytes of a file with this extension.

    what : its title.
    """
    return Paper().picture(
        lambda _: draw(names, ranks, distance, what), path.suffix.lower().lstrip(".")
    )


def draw(names: Sequence[str], ranks: FloatArray, distance: float, what: str) -> Any:
    """Draw average ranks, the best on the left.

    ranks : (k,). distance : the critical difference.

    Reference: Demsar (2006), figure 1.
    """
    from matplotlib.figure import Figure

    order = ranks.argsort(kind="stable")
    k = len(names)
    half = (k + 1) // 2
    alike = not_told_apart(ranks, distance)
    theme = LIGHT
    width = 6.75
    margin = 1.7
    depth = 0.12 + BAR * len(alike)
    height = HEAD + depth + ROW * half + 0.15
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set(xlim=(0, width), ylim=(-height + HEAD, HEAD))

    def x(rank: float) -> float:
        return margin + (rank - 1) / (k - 1) * (width - 2 * margin)

    axes.plot([x(1), x(k)], [0, 0], color=theme.ink, lw=0.9)
    step = 1 if k <= 15 else 5
    for tick in [1, *range(1 + step if step == 1 else step, k + 1, step)]:
        axes.plot([x(tick)] * 2, [0, 0.06], color=theme.ink, lw=0.9)
        axes.text(x(tick), 0.09, str(tick), ha="center", va="bottom", fontsize=7.5)
    end = min(x(1) + x(1 + distance) - x(1), width - 0.1)
    axes.plot([x(1), end], [0.34, 0.34], color=theme.main, lw=1.4, marker="|", ms=5)
    axes.text(
        end + 0.06,
        0.34,
        f"critical difference {distance:.2f}",
        va="center",
        fontsize=7.5,
        color=theme.main,
    )
    axes.text(
        width / 2,
        0.6,
        squeeze(what, int(width * 13)),
        fontsize=8.5,
        ha="center",
        va="center",
    )
    for line, members in enumerate(alike):
        low = float(ranks[members[0]])
        high = float(ranks[members[-1]])
        y = -0.12 - BAR * line
        axes.plot(
            [x(low) - 0.04, x(high) + 0.04],
            [y, y],
            color=theme.ink,
            lw=3,
            solid_capstyle="butt",
        )
    muted: dict[str, Any] = {"color": theme.muted, "lw": 0.7}
    for place, i in enumerate(order):
        rank = float(ranks[i])
        name = squeeze(names[i], int((margin - 0.3) * 11))
        if place < half:
            y = -depth - ROW * place - 0.1
            edge = margin - 0.12
            beside_edge = -0.05
            side = "right"
            text = f"{name}  {rank:.2f}"
        else:
            y = -depth - ROW * (k - 1 - place) - 0.1
            edge = width - margin + 0.12
            beside_edge = 0.05
            side = "left"
            text = f"{rank:.2f}  {name}"
        axes.plot([x(rank)] * 2 + [edge], [0, y, y], **muted)
        axes.text(edge + beside_edge, y, text, ha=side, va="center", fontsize=7.5)
    return figure
