"""Reliability diagrams in characters."""

import numpy as np

from calcli.diagrams.caption_text import direction, p_value, printable, short, squeeze
from calcli.diagrams.curve import Curve
from calcli.diagrams.panels import Diagram, Panel
from calcli.diagrams.reliability import ReliabilityStyle
from calcli.diagrams.terminal import AXIS, Canvas, Look, base_line, beside, eighths, flow, scale, with_axis

NARROW = 38
"""Panels get no narrower than this before they go below one another."""


def reliability_text(diagram: Diagram, style: ReliabilityStyle, width: int, look: Look) -> list[str]:
    """Every curve gets its own axes here: characters cannot overlap legibly."""
    panels = [
        Panel(panel.title if len(panel.curves) == 1 else f"{panel.title}: {curve.label}", (curve,))
        for panel in diagram.panels
        for curve in panel.curves
    ]
    columns = max(1, min(len(panels), (width + 2) // (NARROW + 2), 3))
    each = min((width - 2 * (columns - 1)) // columns, 66)
    lines = [look.paint(squeeze(diagram.title, width), "strong"), ""] if diagram.title else []
    for at in range(0, len(panels), columns):
        row = panels[at : at + columns]
        blocks = [_panel(p.title, p.curves[0], style, each, look) for p in row]
        lines += [*beside(blocks, [each] * len(row)), ""]
    level = f"{100 * diagram.panels[0].curves[0].settings.level:g} %"
    thin = any(p.curves[0].bins.thin.any() for p in panels)
    lines += flow(_legend(style, level, thin, panels, look), width)
    for note in diagram.notes:
        lines += flow([(word, "faint") for word in printable(note).split()], width, look, " ")
    return lines


def _panel(title: str, curve: Curve, style: ReliabilityStyle, width: int, look: Look) -> list[str]:
    inner = width - AXIS - 1
    height = min(max(round(inner / 2.5), 8), 20)  # a character is about twice as tall as wide
    canvas = Canvas(inner, height, (0.0, 1.0), (0.0, 1.0), look)
    style.cells(canvas, curve)
    lines = [look.paint(squeeze(title, width), "strong")]
    lines += with_axis(canvas, {0: "1.0", height // 2: "0.5", height - 1: "0.0"})
    lines.append(base_line(inner, look))
    lines.append(_marks(curve, canvas, look))
    lines += _bars_of_rows(curve, canvas, look)
    lines.append(base_line(inner, look))
    lines.append(" " * (AXIS + 1) + scale(inner, ["0", "0.2", "0.4", "0.6", "0.8", "1"], (0, 0.2, 0.4, 0.6, 0.8, 1)))
    return lines + [line[:width] for line in _numbers(curve, width)]


def _marks(curve: Curve, canvas: Canvas, look: Look) -> str:
    """Where accuracy and mean confidence lie on the axis of confidences."""
    accuracy, confidence, both = ("▲", "△", "◆") if look.unicode else ("A", "C", "X")
    text = [" "] * canvas.width
    a, c = canvas.column(curve.accuracy), canvas.column(curve.mean_confidence)
    text[a], text[c] = accuracy, confidence
    if a == c:
        text[a] = both
    return " " * (AXIS + 1) + "".join(text)


def _bars_of_rows(curve: Curve, canvas: Canvas, look: Look) -> list[str]:
    """The histogram, logarithmic: half a decade below a single row is the base line."""
    edges, count = curve.histogram.edges, curve.histogram.count
    at = np.clip(np.searchsorted(edges, canvas.centres()) - 1, 0, len(count) - 1)
    top = np.log10(max(int(count.max()), 3) / 0.5)
    heights = np.where(count > 0, np.log10(np.maximum(count, 1) / 0.5) / top, 0.0)[at]
    tick, plain = ("┤", "│") if look.unicode else ("+", "|")
    lines = eighths(heights, 3, look)
    axis = [f"{short(int(count.max())):>{AXIS}}{tick}", f"{'rows':>{AXIS}}{plain}", f"{'(log)':>{AXIS}}{plain}"]
    return [left + look.paint(line, "band") for left, line in zip(axis, lines, strict=True)]


def _numbers(curve: Curve, width: int) -> list[str]:
    b = curve.brier
    parts = [
        f"n = {curve.n}",
        f"{curve.words[1]} {curve.accuracy:.4f}",
        f"mean {curve.words[0]} {curve.mean_confidence:.4f}",
        f"({direction(curve)})",
        f"ECE {curve.ece:.4f}",
        f"(if calibrated {curve.ece_null_mean:.4f}, {p_value(curve)})",
        f"Brier {b.score:.4f} =",
        f"MCB {b.miscalibration:.4f}",
        f"− DSC {b.discrimination:.4f}",
        f"+ UNC {b.uncertainty:.4f}",
        f"(MCB if calibrated {curve.mcb_null_mean:.4f})",
    ]
    lines = [""]
    starts = {"n = ", "ECE ", "Brie", "accu"} if width < 50 else {"n = ", "ECE ", "Brie"}
    for part in parts:
        comma = "," if part[:4] in ("accu", "mean") else ""
        joined = f"{lines[-1]}{comma} {part}" if lines[-1] else part
        if lines[-1] and (part[:4] in starts or len(joined) > width):
            lines.append(part if part[:4] in starts else f"  {part}")
        else:
            lines[-1] = joined
    return lines


def _legend(style: ReliabilityStyle, level: str, thin: bool, panels: list[Panel], look: Look) -> list[tuple[str, str]]:
    sign = {name: look.sign(name) for name in ("point", "whisker", "thin", "band")}
    sign["line"] = "⠤⠒" if look.unicode else "**"
    items = [*style.signs(level, thin, sign), (f"{2 * sign['band']} {level} band if calibrated", "band")]
    if look.colour:
        items.append((f"{sign[style.outside_sign]} outside it", "outside"))
    up, hollow = ("▲", "△") if look.unicode else ("A", "C")
    words = dict.fromkeys(panel.curves[0].words for panel in panels)
    x, y = next(iter(words)) if len(words) == 1 else ("forecast", "outcome")
    items += [(f"{up} {y}", ""), (f"{hollow} mean {x}", "")]
    return [(look.paint(text, role) if role else text, text) for text, role in items]
