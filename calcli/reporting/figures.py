"""SVG figures of the page; colours are CSS classes, so that one figure serves light, dark and print."""

import math
from typing import Any

import numpy as np

from calcli.diagrams.caption_text import round_ticks, short
from calcli.diagrams.curve import Curve
from calcli.diagrams.styles.gaps import Gap
from calcli.diagrams.styles.temperature import TemperatureSweep
from calcli.evaluation.watch_state import State
from calcli.numerics import FloatArray
from calcli.reporting.gather import ModelResults
from calcli.reporting.markup import Safe, download, tag, text
from calcli.reporting.number_format import fixed, per_cent, signed

LEFT, TOP, SIDE, WIDTH = (
    78.0,
    46.0,
    560.0,
    668.0,
)  # the script knows LEFT, SIDE and WIDTH too
POINTS = 120
FEW = 30  # samples below which a step of a curve is thin and pale: it looks dramatic and means little


def _at(x: float, y: float) -> str:
    return f"{LEFT + SIDE * x:.1f},{TOP + SIDE * (1 - y):.1f}"


def pen(at: int) -> str:
    """CSS classes of the lines of version number ``at``: four colours, each in two dashes."""
    return f"v{at % 4}" + " again" * (at // 4 % 2)


def _thin(size: int) -> "np.ndarray":
    return np.unique(np.linspace(0, size - 1, min(size, POINTS)).round().astype(int))


def _label(x: float, y: float, words: object, anchor: str = "middle") -> Safe:
    return tag("text", text(words), x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _polyline(x: FloatArray, y: FloatArray, class_: str, **attributes: object) -> Safe:
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return tag("polyline", points=points, class_=class_, **attributes)


def _svg(
    width: float,
    height: float,
    title: str,
    *parts: object,
    class_: str = "figure",
    ident: str = "",
) -> Safe:
    """SVG with role=img and a title; its parts are hidden from screen readers, which read the table beside it."""
    inner = tag("g", *parts, aria_hidden="true")
    drawn = tag(
        "svg", tag("title", title), inner, viewBox=f"0 0 {width:g} {height:g}", role="img", class_=class_,
        data_file=ident or None, xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip
    return tag("figure", drawn, download("SVG", ident)) if ident else drawn


def reliability(model: ModelResults, focus: int, positive: bool, ident: str) -> Safe:
    """Curves of all versions, the band of the one in focus, histograms beneath, and a cursor for the script."""
    curves = [
        c
        for v in model.versions
        if (c := v.positive if positive else v.top) is not None
    ]
    says, happens = curves[0].words
    ticks, foot = np.linspace(0, 1, 6), TOP + SIDE
    frame = [
        *(tag("path", d=f"M{_at(0, t)}H{LEFT + SIDE}", class_="grid") for t in ticks),
        *(
            _label(LEFT - 8, TOP + SIDE * (1 - t) + 5, f"{100 * t:.0f}%", "end")
            for t in ticks
        ),
        *(tag("path", d=f"M{_at(t, 0)}V{TOP}", class_="grid") for t in ticks),
        tag("path", d=f"M{_at(0, 0)}L{_at(1, 1)}", class_="diagonal"),
        _label(8, 20, "accuracy" if not positive else happens, "start"),
    ]
    h, tallest = foot + 16, max(int(c.histogram.count.max()) for c in curves)
    bands, lines, histograms = [], [], []
    for at, c in enumerate(curves):
        keep = _thin(len(c.band.x))
        x, y = (
            np.append(a[keep], b[keep][::-1])
            for a, b in ((c.band.x, c.band.x), (c.band.high, c.band.low))
        )
        # Rounded to one of 560 units, which is not visible.
        outline = " ".join(
            f"{LEFT + SIDE * a:.0f},{TOP + SIDE * (1 - b):.0f}"
            for a, b in zip(x, y, strict=True)
        )
        bands.append(
            tag(
                "polygon",
                points=outline,
                class_="band" + " off" * (at != focus),
                data_band=at,
            )
        )
        lines += _lines(c, at)
        steps = [f"M{LEFT + SIDE * c.histogram.edges[0]:.1f} {h + 64:.0f}"]
        for right, n in zip(
            c.histogram.edges[1:], c.histogram.count, strict=True
        ):  # heights are square roots
            steps.append(
                f"V{h + 64 * (1 - (n / max(tallest, 1)) ** 0.5):.1f}H{LEFT + SIDE * right:.1f}"
            )
        steps.append(f"V{h + 64:.0f}")
        histograms.append(
            tag("path", d="".join(steps), class_=f"histogram {pen(at)}", data_curve=at)
        )
    axis = [
        tag("path", d=f"M{LEFT} {h + 64}H{LEFT + SIDE}", class_="axis"),
        *(_label(LEFT + SIDE * t, h + 84, f"{100 * t:.0f}%") for t in ticks),
        _label(LEFT + SIDE / 2, h + 110, "stated confidence" if not positive else says),
        _label(
            LEFT + SIDE / 2,
            h + 136,
            f"outline: samples (square root), at most {short(tallest)}",
        ),
    ]
    above, below = "above the line: underconfident ▲", "below the line: overconfident ▼"
    if positive:
        above, below = "above: too low ▲", "below: too high ▼"
    # Over the bands, which are wide where samples are few.
    sides = (
        _label(LEFT + 10, TOP + 22, above, "start"),
        _label(LEFT + SIDE - 8, foot - 12, below, "end"),
    )
    cursor = tag("path", d=f"M0 {TOP}V{h + 64}", class_="cursor off", data_cursor=True)
    title = "; ".join(
        f"{c.label}: mean {says} {per_cent(c.mean_confidence)}, {happens} {per_cent(c.accuracy)}"
        for c in curves
    )
    inner = *frame, *bands, *lines, *sides, *histograms, *axis, cursor
    return _svg(WIDTH, h + 146, f"Reliability diagram. {title}", *inner, ident=ident)


def _lines(curve: Curve, at: int) -> list[Safe]:
    """Lines of a curve: all of it thin and pale, and over it, in full, the steps of FEW samples or more."""
    fit = curve.isotonic
    x, y = fit.knots
    if len(x) == 1:  # a short dash, so that it is seen
        x, y = (
            np.array([max(x[0] - 0.008, 0.0), min(x[0] + 0.008, 1.0)]),
            np.repeat(y, 2),
        )
    keep = _thin(len(x)) if len(x) > 3 * POINTS else np.arange(len(x))
    pale = _polyline(
        LEFT + SIDE * x[keep],
        TOP + SIDE * (1 - y[keep]),
        f"curve few {pen(at)}",
        data_curve=at,
    )
    steps, before = [], False
    for low, high, value, n in zip(
        fit.low, fit.high, fit.value, fit.weight, strict=True
    ):
        if n >= FEW:
            steps.append(
                f"{'L' if before else 'M'}{_at(low, value)}H{LEFT + SIDE * high:.1f}"
            )
        before = bool(n >= FEW)
    parts = (
        [pale, tag("path", d="".join(steps), class_=f"curve {pen(at)}", data_curve=at)]
        if steps
        else [pale]
    )
    b = curve.bins
    for j in np.flatnonzero(b.count > 0) if curve.fall is not None else ():
        ends = (
            _at(b.confidence[j], value).split(",")
            for value in (b.accuracy_high[j], b.accuracy_low[j])
        )
        (left, top), (_, foot) = ends
        cross = f"M{left} {top}V{foot}M{_at(b.confidence[j] - 0.007, b.accuracy[j])}h8"
        parts.append(tag("path", d=cross, class_=f"curve few {pen(at)}", data_curve=at))
    return parts


def bars(says: float, right: float) -> Safe:
    """Two bars of a verdict: mean confidence hollow, accuracy filled."""

    def line(words: str, share: float, class_: str) -> Safe:
        bar = tag("rect", x=0, y=0, width=300, height=22, class_="track")
        value = tag(
            "rect", x=1.5, y=1.5, width=f"{297 * share:.1f}", height=19, class_=class_
        )
        drawn = tag(
            "svg",
            bar,
            value,
            viewBox="0 0 300 22",
            preserveAspectRatio="none",
            aria_hidden="true",
        )
        return tag("p", tag("span", words), drawn, tag("strong", per_cent(share)))

    return tag(
        "div",
        line("mean confidence", says, "hollow"),
        line("accuracy", right, "filled"),
        class_="bars",
    )


def dumbbell(says: float, right: float) -> Safe:
    """Two marks on an axis, for a line of a table: accuracy filled, mean confidence hollow."""
    x, y = 8 + 144 * right, 8 + 144 * says
    says_so = f"accuracy {per_cent(right)}, mean confidence {per_cent(says)}"
    line = (
        tag("path", d="M8 8H152", class_="grid"),
        tag("path", d=f"M{x:.1f} 8H{y:.1f}", class_="bar"),
    )
    dot = tag("circle", cx=f"{x:.1f}", cy=8, r=5, class_="dot")
    return _svg(
        160,
        16,
        says_so,
        *line,
        dot,
        tag("circle", cx=f"{y:.1f}", cy=8, r=4.5, class_="ring"),
        class_="line",
    )


def gap_line(gap: Gap, reach: float) -> Safe:
    """Dot with its interval on an axis centred at a gap of 0; the numbers stand beside it in the table."""

    def x(value: float) -> str:
        return f"{100 + 96 * max(-1.0, min(1.0, value / reach)):.0f}"

    line = f'<path d="M{x(gap.low)} 7H{x(gap.high)}"/>' if gap.low == gap.low else ""
    body = Safe(
        f'{line}<circle cx="{x(gap.gap)}" cy="7" r="4" class="{"dot" if gap.beyond else "ring"}"/>'
    )
    return Safe(
        f'<svg viewBox="0 0 200 14" class="gap" aria-hidden="true">{body}</svg>'
    )


def risk(model: ModelResults, ident: str) -> Safe:
    """Accuracy against coverage, all versions; the script moves the cursor."""
    least = min(
        float(np.min(v.coverage.low[v.coverage.coverage > 0.05], initial=1.0))
        for v in model.versions
    )
    step = 0.1 if least >= 0.5 else 0.2
    bottom = min(max(0.0, float(np.floor(least / step + 1e-9) * step)), 1 - 2 * step)
    height = 300.0

    def at(x: float, y: float) -> str:
        return f"{LEFT + SIDE * x:.1f},{TOP + height * (1 - (max(y, bottom) - bottom) / (1 - bottom)):.1f}"

    ticks = np.linspace(bottom, 1, round((1 - bottom) / step) + 1)
    parts: list[Safe] = [
        *(tag("path", d=f"M{at(0, t)}H{LEFT + SIDE}", class_="grid") for t in ticks),
        *(
            _label(
                LEFT - 8, float(at(0, t).split(",")[1]) + 5, f"{100 * t:.0f}%", "end"
            )
            for t in ticks
        ),
        *(
            _label(LEFT + SIDE * t, TOP + height + 22, f"{100 * t:.0f}%")
            for t in np.linspace(0, 1, 6)
        ),
        _label(
            LEFT + SIDE / 2, TOP + height + 46, "coverage: proportion decided alone"
        ),
        _label(8, 20, "accuracy of these", "start"),
    ]
    words = []
    for number, v in enumerate(model.versions):
        c = v.coverage
        keep, half = (
            _thin(len(c.coverage)),
            float(np.interp(0.5, c.coverage, c.accuracy)),
        )
        words.append(
            f"{v.name}: half of the samples decided alone, {per_cent(half)} of them right"
        )
        points = " ".join(
            at(a, b) for a, b in zip(c.coverage[keep], c.accuracy[keep], strict=True)
        )
        parts.append(
            tag(
                "polyline",
                points=points,
                class_=f"curve {pen(number)}",
                data_curve=number,
            )
        )
    parts.append(
        tag("path", d=f"M0 {TOP}V{TOP + height}", class_="cursor off", data_cursor=True)
    )
    return _svg(
        WIDTH,
        height + TOP + 60,
        f"Risk and coverage. {'; '.join(words)}",
        *parts,
        ident=ident,
    )


def sweep_figure(sweep: TemperatureSweep, ident: str) -> Safe:
    """NLL above and ECE beneath, against the temperature."""
    t, parts = np.log(sweep.temperature), list[Safe]()

    def across(log_t: Any) -> Any:
        return LEFT + SIDE * (log_t - t[0]) / (t[-1] - t[0])

    def panel(
        values: FloatArray,
        top: float,
        class_: str,
        bottom: float,
        ceiling: float,
        words: str = "",
    ) -> None:
        scale = 140 / (ceiling - bottom or 1.0)
        parts.append(
            _polyline(across(t), top + 140 - scale * (values - bottom), class_)
        )
        if words:
            parts.append(
                tag("path", d=f"M{LEFT} {top + 140}H{LEFT + SIDE}", class_="axis")
            )
            parts.append(_label(8, top - 10, words, "start"))
            for y, value in ((12, ceiling), (140, bottom)):
                parts.append(_label(LEFT - 8, top + y, fixed(value, 2), "end"))

    panel(
        sweep.nll,
        TOP,
        "curve v1",
        float(sweep.nll.min()),
        float(sweep.nll.max()),
        "NLL",
    )
    most = float(max(sweep.ece.max(), sweep.ece_null_mean.max()))
    panel(sweep.ece_null_mean, 220, "curve chance", 0.0, most)
    panel(
        sweep.ece,
        220,
        "curve v0",
        0.0,
        most,
        "calibration error (ECE); dotted: expected under calibration",
    )
    marks = sorted(mark.temperature for mark in sweep.marks)
    parts.extend(_marks([(f"{t:.2f}", across(math.log(t))) for t in marks]))
    for tick in round_ticks(float(sweep.temperature[0]), float(sweep.temperature[-1])):
        parts.append(_label(across(np.log(tick)), 382, f"{tick:g}"))
    parts.append(_label(LEFT + SIDE / 2, 406, "temperature (logarithmic)"))
    words = "; ".join(
        f"{m.name}: T {m.temperature:.3g}, loss {m.nll:.3f}, ECE {m.ece:.3f}"
        for m in sweep.marks
    )
    return _svg(
        WIDTH,
        416,
        f"Loss and calibration error against temperature. {words}",
        *parts,
        ident=ident,
    )


def _marks(at: list[tuple[str, float]]) -> list[Safe]:
    """A line at each temperature, with its value at the first of those that stand close together."""
    parts, said, left = [], "", -math.inf
    for words, x in at:
        parts.append(tag("path", d=f"M{x:.1f} {TOP}V360", class_="mark"))
        if x > left + 50 and words != said:
            left, said = x, words
            near_end = x > LEFT + SIDE - 50
            parts.append(
                _label(
                    x - 6 if near_end else x + 6,
                    TOP + 14,
                    said,
                    "end" if near_end else "start",
                )
            )
    return parts


def evidence_figure(state: State, ident: str) -> Safe:
    """Evidence of a watched calibrator above and overconfidence beneath, over batches; a line where a reset was."""
    n, least, tolerance = (
        len(state.batches),
        -math.log(state.settings.level),
        state.settings.tolerance,
    )
    logs = np.array([batch.log_e for batch in state.batches])
    gaps = np.array([batch.overconfidence for batch in state.batches])
    ends = (
        float(min(logs.min(), 0.0)),
        float(np.clip(logs.max(), 1.2 * least, 4.0 * least)),
    )
    reach = float(max(1.2 * tolerance, np.abs(gaps).max(), 0.01))
    x = LEFT + SIDE * (np.arange(n) + 0.5) / n

    def at(value: float, top: float, low: float, high: float) -> float:
        return top + 150 * (1 - (min(value, high) - low) / (high - low))

    parts: list[Safe] = []
    for values, top, low, high, class_ in (
        (logs, TOP, *ends, "curve v0"),
        (gaps, 280.0, -reach, reach, "curve v1"),
    ):
        y = np.array([at(value, top, low, high) for value in values.tolist()])
        if class_ == "curve v1":
            edges = [at(edge, top, low, high) for edge in (tolerance, -tolerance)]
            size = f"{SIDE:g}", f"{edges[1] - edges[0]:.1f}"
            parts.append(
                tag(
                    "rect",
                    x=LEFT,
                    y=f"{edges[0]:.1f}",
                    width=size[0],
                    height=size[1],
                    class_="band",
                )
            )
        parts.append(
            tag(
                "path", d=f"M{LEFT} {at(0.0, top, low, high):.1f}h{SIDE}", class_="axis"
            )
        )
        for episode in sorted({batch.episode for batch in state.batches}):
            own = [
                i for i, batch in enumerate(state.batches) if batch.episode == episode
            ]
            parts.append(_polyline(x[own], y[own], class_))
            if own[0]:
                parts.append(
                    tag(
                        "path",
                        d=f"M{(x[own[0]] + x[own[0] - 1]) / 2:.1f} {top}v150",
                        class_="axis",
                    )
                )
        if n <= POINTS:
            parts += [
                tag("circle", cx=f"{a:.1f}", cy=f"{b:.1f}", r=4, class_="ring")
                for a, b in zip(x, y, strict=True)
            ]
    level, first = at(least, TOP, *ends), n - len(state.current)
    parts += [
        tag("path", d=f"M{LEFT} {level:.1f}h{SIDE}", class_="diagonal"),
        _label(8, 20, "evidence (logarithmic); dotted: alarm", "start"),
        _label(LEFT - 8, level + 5, f"{1 / state.settings.level:.3g}", "end"),
        _label(LEFT - 8, at(0.0, TOP, *ends) + 5, "1", "end"),
        *(
            [_label(LEFT - 8, TOP + 5, f"≥{math.exp(ends[1]):.0e}", "end")]
            if logs.max() > ends[1]
            else []
        ),
        _label(
            8,
            254,
            f"overconfidence; grey: tolerated, {100 * tolerance:g} points",
            "start",
        ),
        *(
            _label(LEFT - 8, at(e, 280.0, -reach, reach) + 5, signed(100 * e), "end")
            for e in (reach, 0.0, -reach)
        ),
        _label(x[0], 456, 1),
        *([_label(x[-1], 456, n)] if n > 1 else []),
        _label(LEFT + SIDE / 2, 478, "batch"),
    ]
    if state.alarm_at is not None:
        alarm = x[first + state.alarm_at - 1]
        words, side = (
            ("alarm ", "end") if alarm > LEFT + SIDE / 2 else (" alarm", "start")
        )
        parts += [
            tag("path", d=f"M{alarm:.1f} {TOP}V430", class_="mark"),
            _label(alarm, 228, words, side),
        ]
    return _svg(
        WIDTH,
        488,
        f"Evidence and overconfidence over {n} batches. {state.sentence()}",
        *parts,
        ident=ident,
    )


def sample(at: int) -> Safe:
    """Sample of the line of one version, for switches and tables."""
    line = tag("path", d="M0 6H34", class_=f"curve {pen(at)}")
    return tag("svg", line, viewBox="0 0 34 12", class_="sample", aria_hidden="true")
