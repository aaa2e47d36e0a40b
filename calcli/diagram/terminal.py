"""Draw diagrams with characters, for a terminal, a log file or a mail."""

from collections.abc import Sequence

import numpy as np

from calcli.diagram.data import THIN, Curve, Diagram, Panel
from calcli.diagram.scatter import Scatter
from calcli.diagram.temperature_sweep import Sweep
from calcli.diagram.terminal_canvas import Canvas, Look, beside, eighths
from calcli.diagram.words import column_widths, direction, p_value, round_ticks, short, squeeze
from calcli.numerics import FloatArray

__all__ = ["draw"]

AXIS = 6
"""Characters that the y axis takes: a number and a tick."""

NARROW = 38
"""Panels get no narrower than this before they go below one another."""


def draw(figure: Diagram | Sweep | Scatter, width: int = 80, look: Look = Look()) -> str:  # noqa: B008 (frozen)
    """The figure as lines of text, at most ``width`` characters wide (at least 30)."""
    width = max(width, 30)
    if isinstance(figure, Sweep):
        lines = _sweep(figure, width, look)
    elif isinstance(figure, Scatter):
        lines = _scatter(figure, width, look)
    else:
        lines = _diagram(figure, width, look)
    text = "\n".join(line.rstrip() for line in lines)
    return text if look.unicode else _ascii(text)


def _ascii(text: str) -> str:
    for sign, plain in {"…": "~", "−": "-", "–": "-"}.items():
        text = text.replace(sign, plain)
    return text.encode("ascii", "replace").decode()


# ---- reliability


def _diagram(diagram: Diagram, width: int, look: Look) -> list[str]:
    """Every curve gets its own axes here: characters cannot overlap legibly."""
    panels = [Panel(_heading(panel, curve), (curve,)) for panel in diagram.panels for curve in panel.curves]
    columns = max(1, min(len(panels), (width + 2) // (NARROW + 2), 3))
    each = min((width - 2 * (columns - 1)) // columns, 66)
    lines = [look.paint(squeeze(diagram.title, width), "strong"), ""] if diagram.title else []
    for at in range(0, len(panels), columns):
        row = panels[at : at + columns]
        blocks = [_panel(p.title, p.curves[0], diagram.style, each, look) for p in row]
        lines += [*beside(blocks, [each] * len(row)), ""]
    level = f"{100 * diagram.panels[0].curves[0].settings.level:g} %"
    thin = any(p.curves[0].bins.thin.any() for p in panels)
    lines += _flow(_legend(diagram.style, level, thin, look), width)
    for note in diagram.notes:
        lines += _flow([(word, "faint") for word in note.split()], width, look, " ")
    return lines


def _heading(panel: Panel, curve: Curve) -> str:
    return panel.title if len(panel.curves) == 1 else f"{panel.title}: {curve.label}"


def _panel(title: str, curve: Curve, style: str, width: int, look: Look) -> list[str]:
    inner = width - AXIS - 1
    height = min(max(round(inner / 2.5), 8), 20)  # a character is about twice as tall as wide
    canvas = Canvas(inner, height, (0.0, 1.0), (0.0, 1.0), look)
    (_corp if style == "corp" else _bars)(canvas, curve)
    lines = [look.paint(squeeze(title, width), "strong")]
    lines += _with_axis(canvas, look, {0: "1.0", height // 2: "0.5", height - 1: "0.0"})
    lines.append(_base_line(inner, look))
    lines.append(_marks(curve, canvas, look))
    lines += _bars_of_rows(curve, canvas, look)
    lines.append(_base_line(inner, look))
    lines.append(" " * (AXIS + 1) + _scale(inner, ["0", "0.2", "0.4", "0.6", "0.8", "1"], (0, 0.2, 0.4, 0.6, 0.8, 1)))
    return lines + [line[:width] for line in _numbers(curve, width)]


def _corp(canvas: Canvas, curve: Curve) -> None:
    canvas.area(curve.band.x, curve.band.low, curve.band.high)
    _diagonal(canvas)
    x, y = curve.isotonic.knots
    # Cut into short pieces, so that the part outside the band can be told by its colour.
    fine = np.unique(np.concatenate([x, np.linspace(x[0], x[-1], 4 * canvas.width)]))
    middle = 0.5 * (fine[:-1] + fine[1:]) if len(fine) > 1 else fine
    inside = curve.band.contains(middle, np.interp(middle, x, y))
    canvas.line(fine, np.interp(fine, x, y), ["curve" if ok else "outside" for ok in inside])
    if len(x) == 1:
        canvas.put(
            canvas.row(y[0]), canvas.column(x[0]), canvas.look.sign("point"), "curve" if inside[0] else "outside"
        )
        canvas.dots[:] = False


def _bars(canvas: Canvas, curve: Curve) -> None:
    bins = curve.bins
    used = np.flatnonzero(bins.count > 0)
    for b in used:
        for column in range(canvas.column(bins.low[b]), canvas.column(bins.high[b] - 1e-9) + 1):
            for row in range(canvas.row(bins.null_high[b]), canvas.row(bins.null_low[b]) + 1):
                canvas.put(row, column, canvas.look.sign("band"), "band")
    _diagonal(canvas)
    for b in used:
        outside = not bins.null_low[b] - 1e-12 <= bins.accuracy[b] <= bins.null_high[b] + 1e-12
        role = "outside" if outside else "curve"
        x = float(bins.confidence[b])
        canvas.vertical(x, bins.accuracy_low[b], bins.accuracy_high[b], "whisker", role)
        sign = canvas.look.sign("thin" if bins.thin[b] else "point")
        canvas.put(canvas.row(bins.accuracy[b]), canvas.column(x), sign, role)


def _diagonal(canvas: Canvas) -> None:
    for column, x in enumerate(canvas.centres()):
        canvas.put(canvas.row(float(x)), column, canvas.look.sign("diagonal"), "diagonal")


def _with_axis(canvas: Canvas, look: Look, ticks: dict[int, str]) -> list[str]:
    tick, plain = ("┤", "│") if look.unicode else ("+", "|")
    return [
        (f"{ticks[at]:>{AXIS}}{tick}" if at in ticks else " " * AXIS + plain) + line
        for at, line in enumerate(canvas.lines())
    ]


def _base_line(width: int, look: Look) -> str:
    return " " * AXIS + ("└" + "─" * width if look.unicode else "+" + "-" * width)


def _scale(width: int, labels: Sequence[str], places: Sequence[float]) -> str:
    """Labels under an axis, each centred at its share of the width where that fits."""
    text = [" "] * width
    for label, place in zip(labels, places, strict=True):
        start = min(max(round(place * width - len(label) / 2), 0), width - len(label))
        if all(c == " " for c in text[max(start - 1, 0) : start + len(label) + 1]):
            text[start : start + len(label)] = label
    return "".join(text)


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
        f"accuracy {curve.accuracy:.4f}",
        f"mean confidence {curve.mean_confidence:.4f}",
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


def _legend(style: str, level: str, thin: bool, look: Look) -> list[tuple[str, str]]:
    line = "⠤⠒" if look.unicode else "**"
    point = look.sign("point")
    items = (
        [(f"{line} isotonic accuracy", "curve")]
        if style == "corp"
        else [(f"{point} accuracy of a bin", "curve"), (f"{look.sign('whisker')} its {level} interval", "curve")]
    )
    if style == "bins" and thin:
        items.append((f"{look.sign('thin')} fewer than {THIN} rows", "curve"))
    band = look.sign("band")
    items.append((f"{band}{band} {level} band if calibrated", "band"))
    if look.colour:
        items.append((f"{line if style == 'corp' else point} outside it", "outside"))
    up, hollow = ("▲", "△") if look.unicode else ("A", "C")
    items += [(f"{up} mean accuracy", ""), (f"{hollow} mean confidence", "")]
    return [(look.paint(text, role) if role else text, text) for text, role in items]


def _flow(items: Sequence[tuple[str, str]], width: int, look: Look | None = None, gap: str = "   ") -> list[str]:
    """Fill lines with items (shown, plain), or (plain, role) when a look is given to paint them."""
    lines, length = [""], 0
    for first, second in items:
        plain, shown = (first, look.paint(first, second)) if look else (second, first)
        if length and length + len(gap) + len(plain) > width:
            lines.append("")
            length = 0
        lines[-1] += (gap if length else "") + shown
        length += (len(gap) if length else 0) + len(plain)
    return lines


# ---- temperature sweep and scatter


def _plot(
    title: str, canvas: Canvas, look: Look, y_labels: tuple[str, str], x_labels: Sequence[str], places: Sequence[float]
) -> list[str]:
    axis = {0: y_labels[1], canvas.height - 1: y_labels[0]}
    return [
        look.paint(title, "strong"),
        *_with_axis(canvas, look, axis),
        _base_line(canvas.width, look),
        " " * (AXIS + 1) + _scale(canvas.width, x_labels, places),
    ]


def _sweep(sweep: Sweep, width: int, look: Look) -> list[str]:
    inner = min(width, 76) - AXIS - 1
    x = np.log(sweep.temperature)
    span = (float(x[0]), float(x[-1]))
    ticks = round_ticks(sweep.temperature[0], sweep.temperature[-1])
    places = [(float(np.log(t)) - span[0]) / (span[1] - span[0]) for t in ticks]
    lines = [look.paint(squeeze(f"{sweep.title}, n = {sweep.n}", width), "strong"), ""]
    tiny = 1e-6  # an ECE of exactly 0 has no logarithm
    error, floor = (np.log10(np.maximum(e, tiny)) for e in (sweep.ece, sweep.ece_null_mean))
    bottom = float(min(error.min(), floor.min())) - 0.1
    band, dot = look.sign("band"), look.sign("diagonal")
    plots: list[tuple[str, FloatArray, float, float]] = [
        ("NLL (nats)", sweep.nll, float(sweep.nll.min()), float(sweep.nll.max())),
        (f"ECE, {sweep.bins} bins, logarithmic; {band} mean if calibrated", error, bottom, float(error.max()) + 0.05),
        (f"mean confidence; {dot} accuracy", sweep.mean_confidence, 0.0, 1.0),
    ]
    for title, values, low, high in plots:
        canvas = Canvas(inner, 8, span, (low, high if high > low else low + 1.0), look)
        if values is error:
            canvas.area(x, np.full(len(x), low), floor)
        if values is sweep.mean_confidence:
            for column in range(inner):
                canvas.put(canvas.row(sweep.accuracy), column, dot, "diagonal")
        for mark in sweep.marks:
            canvas.vertical(float(np.log(mark.temperature)), low, high, "mark", "other")
        canvas.line(x, values)
        ends = (10**low, 10**high) if values is error else (low, high)
        lines += _plot(title, canvas, look, (f"{ends[0]:.2g}", f"{ends[1]:.3g}"), [f"{t:g}" for t in ticks], places)
    lines.append(f"temperature T (logarithmic); {look.sign('mark')} marks:")
    return lines + _table(
        [["", "T", "NLL", "ECE", "(if cal.)", "confidence"]]
        + [
            [
                squeeze(m.name, 26),
                f"{m.temperature:.4g}",
                f"{m.nll:.4f}",
                f"{m.ece:.4f}",
                f"({m.ece_null_mean:.4f})",
                f"{m.mean_confidence:.4f}",
            ]
            for m in sweep.marks
        ]
    )


def _table(rows: list[list[str]]) -> list[str]:
    widths = column_widths(rows)
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def _scatter(scatter: Scatter, width: int, look: Look) -> list[str]:
    inner = min(width, 76) - AXIS - 1
    ece = np.log10(np.maximum([p.ece for p in scatter.points], 1e-6))
    null = np.log10(np.maximum([p.ece_null_mean for p in scatter.points], 1e-6))
    variance = np.array([p.variance for p in scatter.points])
    span = (float(min(ece.min(), null.min())) - 0.1, float(max(ece.max(), null.max())) + 0.1)
    top = float(variance.max()) * 1.08 or 1.0
    canvas = Canvas(inner, 16, span, (0.0, top), look)
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    names = [letters[at] if at < len(letters) else "+" for at in range(len(ece))]
    for x, floor, y in zip(ece, null, variance, strict=True):
        canvas.put(canvas.row(y), canvas.column(floor), look.sign("mark"), "band")
        for column in range(
            min(canvas.column(floor), canvas.column(x)) + 1, max(canvas.column(floor), canvas.column(x))
        ):
            canvas.put(canvas.row(y), column, look.sign("diagonal"), "band")
    for name, x, y in zip(names, ece, variance, strict=True):
        canvas.put(canvas.row(y), canvas.column(x), name, "curve")
    ticks = round_ticks(10 ** span[0], 10 ** span[1])
    places = [(float(np.log10(t)) - span[0]) / (span[1] - span[0]) for t in ticks]
    title = squeeze(f"{scatter.title}: variance of the confidence against ECE", width)
    lines = _plot(title, canvas, look, ("0", f"{top:.3g}"), [f"{t:g}" for t in ticks], places)
    lines.append(f"ECE, logarithmic; {look.sign('mark')} mean ECE if calibrated")
    return lines + _table(
        [["", "", "n", "variance", "ECE", "(if cal.)"]]
        + [
            [
                f"{name} {squeeze(p.bundle, 30)}",
                squeeze(p.method, 16),
                str(p.n),
                f"{p.variance:.4f}",
                f"{p.ece:.4f}",
                f"({p.ece_null_mean:.4f})",
            ]
            for name, p in zip(names, scatter.points, strict=True)
        ]
    )
