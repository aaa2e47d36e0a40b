"""gaps: how overconfident every class or group is, sorted or in order of time, with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from textwrap import wrap
from typing import Any

import numpy as np

from calcli.diagrams.caption_text import printable, squeeze, table
from calcli.diagrams.curve import Quantity
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.panels import NAMES, RowSubset, parts_of, quantities
from calcli.diagrams.style import Figure, Plotted, Request
from calcli.diagrams.terminal import MARK, POINT, Canvas, Look
from calcli.metrics.context import MetricContext
from calcli.metrics.losses import gap_interval, group_gaps, interval_of_test
from calcli.metrics.settings import MetricSettings
from calcli.numerics import FloatArray
from calcli.records import as_json

NAN = float("nan")
LEVEL = 0.05
"""Level of the adjusted tests."""

BEYOND = "┄"
"""Character of the adjusted interval beyond that of the part alone."""

LINES = 100
"""Largest number of classes or groups drawn by default: about a page."""


@dataclass(frozen=True)
class Gap:
    """Mean confidence minus accuracy of one class (the rows predicted as it) or group.

    For P(class 1), confidence is its mean and accuracy the frequency of class 1. low, high : interval
    of the gap of this part alone. beyond : whether the gap is significant among all the parts
    (Benjamini and Hochberg, 5 %). adjusted_low, adjusted_high : interval adjusted for all parts,
    which holds 0 unless the gap is significant. NaN where there are no rows, or no interval.
    """

    part: str
    n: int
    confidence: float
    accuracy: float
    gap: float
    low: float
    high: float
    p_value: float
    beyond: bool
    adjusted_low: float
    adjusted_high: float

    @property
    def reach(self) -> float:
        """Largest distance from 0 of the gap and its intervals."""
        alone = [self.low, self.gap, self.high]
        ends = np.nan_to_num([*alone, self.adjusted_low, self.adjusted_high])
        return float(np.abs(ends).max())


@dataclass(frozen=True)
class Series:
    """Gaps of one bundle and calibrator, in the order of the lines."""

    label: str
    gaps: tuple[Gap, ...]

    def values(self, name: str) -> FloatArray:
        """A field of all gaps, (gaps,)."""
        return np.array([getattr(gap, name) for gap in self.gaps])

    @property
    def about(self) -> str:
        """Number of parts with a significant gap as text: ``ts: 3 of 10``."""
        return f"{self.label}: {sum(g.beyond for g in self.gaps)} of {len(self.gaps)}"


@dataclass(frozen=True)
class Gaps(Figure):
    """Dot plot of gaps. parts : number of all parts, of which the lines show some."""

    title: str
    what: str
    level: float
    parts: int
    series: tuple[Series, ...]
    notes: tuple[str, ...] = ()
    quantity: Quantity = "top"

    @property
    def words(self) -> tuple[str, str, str]:
        """Name of the difference, and the words for a negative and a positive one."""
        if self.quantity == "positive":
            return "mean P(class 1) − frequency of class 1", "too low", "too high"
        return "mean confidence − accuracy", "underconfident", "overconfident"

    by_part = True
    ignores = ("arrange", "bins", "scheme", "no_stats")

    @classmethod
    def measure(cls, request: Request) -> Figure:
        """Measure lines sorted by the first set's gap, batches by time; of very many
        parts those of least p-value.
        """
        by = request.by or "class"
        request = replace(request, by=by)
        singular, plural = NAMES[by]
        parts = parts_of(request)
        drawn: list[Series] = []
        not_drawn: list[Sequence[Series]] = []
        for place in range(len(request.sets)):
            first, *others = gap_series(request, parts, place)
            drawn.append(first)
            not_drawn.append(others)
        notes = [*request.notes, *_notes_of_the_confidence(not_drawn)]
        shown = list(range(len(parts)))
        limit = request.panels or LINES
        if len(parts) > limit:
            p_values = drawn[0].values("p_value")
            shown = np.argsort(p_values, kind="stable")[:limit].tolist()
            notes.insert(0, f"{limit} of {len(parts)} {plural}: the most significant")
        if request.ordered:
            shown.sort()
        else:
            gaps = np.nan_to_num(drawn[0].values("gap"), nan=-9.0)
            shown.sort(key=lambda part: -gaps[part])
        series = []
        for label, whole in zip(request.labels, drawn, strict=True):
            series.append(Series(label, tuple(whole.gaps[part] for part in shown)))
        title = request.title
        if title is None:
            title = f"{request.what}, by {singular}"
        return Gaps(
            title,
            plural,
            request.settings.level,
            len(parts),
            tuple(series),
            tuple(notes),
            quantities(request)[0],
        )

    def draw(self, paper: Paper) -> Any:
        """Draw dots with intervals around the line of no gap."""
        from matplotlib.figure import Figure

        theme = paper.theme
        n_lines = len(self.series[0].gaps)
        count = len(self.series)
        wide = paper.width or 5.2
        notes = []
        for note in self.notes:
            notes += wrap(printable(note), int(wide * 17))
        longest = max(len(series.label) for series in self.series)
        keys_abreast = min(4, max(1, int(12 * wide / (longest + 6))))
        key_lines = -(-count // keys_abreast) if count > 1 else 0
        beneath = 0.17 * len(notes) + 0.2 * key_lines
        tall = n_lines * (0.155 if n_lines <= 40 else 0.125) + 0.2
        height = 0.55 + tall + 0.76 + beneath
        names = []
        for gap in self.series[0].gaps:
            names.append(squeeze(f"{gap.part} ({gap.n})", int(wide * 6.4)))
        left = min(0.15 + 0.058 * max(map(len, names)), 0.45 * wide)
        plot = Figure(figsize=(wide, height))
        bottom = (0.69 + beneath) / height
        axes = plot.add_axes(
            (left / wide, bottom, 1 - (left + 0.2) / wide, tall / height)
        )
        for place in range(count):
            self._draw_series(axes, place, paper)
        axes.axvline(0, color=theme.muted, lw=0.8, zorder=2)
        words, negative, positive = self.words
        label = (
            f"{words}, {100 * self.level:g} % interval\n"
            "thin: adjusted; filled: significant"
        )
        axes.set(ylim=(-0.8, n_lines - 0.2), xlabel=label)
        axes.set_yticks(np.arange(n_lines)[::-1], names, fontsize=6.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        small: dict[str, Any] = {"fontsize": 7, "color": theme.muted}
        above = ((0, 3), "axes fraction", "offset points")
        axes.annotate(f"◀ {negative}", (0, 1), *above, ha="left", **small)
        axes.annotate(f"{positive} ▶", (1, 1), *above, ha="right", **small)
        title = squeeze(self.title, int(wide * 12))
        plot.text(0.5, 1 - 0.1 / height, title, ha="center", va="top", fontsize=9.5)
        if count > 1:
            anchor = (0.5, (0.04 + 0.17 * len(notes)) / height)
            plot.legend(
                loc="lower center",
                ncols=keys_abreast,
                bbox_to_anchor=anchor,
                borderpad=0,
            )
        for line, note in enumerate(reversed(notes)):
            y = (0.06 + 0.17 * line) / height
            plot.text(0.5, y, note, ha="center", va="bottom", **small)
        return plot

    def _draw_series(self, axes: Any, place: int, paper: Paper) -> None:
        """Draw the dots and intervals of series number ``place``."""
        series = self.series[place]
        count = len(self.series)
        colour, _, marker = paper.series(place)
        size = 9
        if count == 1:
            colour = paper.theme.main
            marker = "o"
            size = 14
        shift = (0.5 * (count - 1) - place) * 0.8 / max(count, 2)
        y = np.arange(len(series.gaps))[::-1] + shift
        low, high = series.values("low"), series.values("high")
        axes.hlines(y, low, high, color=colour, lw=1.6, zorder=3)
        low, high = series.values("adjusted_low"), series.values("adjusted_high")
        axes.hlines(y, low, high, color=colour, lw=0.6, zorder=3)
        faces = []
        for gap in series.gaps:
            faces.append(colour if gap.beyond else paper.theme.page)
        axes.scatter(
            series.values("gap"),
            y,
            s=size,
            c=faces,
            zorder=4,
            edgecolors=colour,
            linewidths=0.8,
            marker=marker,
            label=series.label,
        )

    def text(self, width: int, look: Look) -> list[str]:
        """A table per set with a bar for the gap."""
        lines = [look.paint(squeeze(self.title, width), "strong")]
        reach = 0.0
        for series in self.series:
            reach = max(reach, *series.values("reach").tolist())
        reach = reach or 0.1
        bar = max(min(width - 44, 60), 5)
        for series in self.series:
            title = squeeze(f"{series.about} significant (*)", width)
            lines += ["", look.paint(title, "strong")]
            rows = [["", "n", "gap", "", ""]]
            for gap in series.gaps:
                has_gap = not np.isnan(gap.gap)
                rows.append(
                    [
                        squeeze(gap.part, 20),
                        str(gap.n),
                        f"{gap.gap:+.3f}" if has_gap else "-",
                        "*" if gap.beyond else "",
                        _interval_line(gap, bar, reach, look),
                    ]
                )
            lines += [line[:width] for line in table(rows)]
        what = self.words[0].replace("−", "-")
        legend = f"gap: {what}, {100 * self.level:g} % interval, axis to +-{reach:.2f}"
        lines += ["", legend[:width], f"{BEYOND}: adjusted, off 0 where *"[:width]]
        for note in self.notes:
            lines += wrap(printable(note), width)
        return lines

    def table(self) -> Plotted:
        rows = []
        for series in self.series:
            for gap in series.gaps:
                rows.append((series.label, *as_json(gap).values()))
        return ("curve", *as_json(self.series[0].gaps[0])), rows

    def describe(self) -> str:
        sentences = []
        for series in self.series:
            worst = max(series.gaps, key=lambda gap: abs(np.nan_to_num(gap.gap)))
            sentences.append(
                f"{series.about} {self.what} significantly miscalibrated,"
                f" largest {worst.part} with {worst.gap:+.4f}."
            )
        return f"{self.words[0].capitalize()} with intervals. {' '.join(sentences)}"


def _interval_line(gap: Gap, width: int, reach: float, look: Look) -> str:
    """A gap and its interval in characters, between -reach and reach."""
    canvas = Canvas(width, 1, (-reach, reach), (0.0, 1.0), look)
    if not np.isnan(gap.adjusted_low):
        first = canvas.column(gap.adjusted_low)
        for column in range(first, canvas.column(gap.adjusted_high) + 1):
            canvas.put(0, column, BEYOND, "")
    if not np.isnan(gap.low):
        for column in range(canvas.column(gap.low), canvas.column(gap.high) + 1):
            canvas.put(0, column, "─", "")
    if not np.isnan(gap.gap):
        canvas.put(0, canvas.column(0.0), MARK, "")
        canvas.put(0, canvas.column(gap.gap), POINT, "")
    return canvas.lines()[0]


def _notes_of_the_confidence(not_drawn: Sequence[Sequence[Series]]) -> list[str]:
    """Note of the significant gaps of the confidence where P(class 1) is drawn.

    not_drawn : the series of the confidence of every version, or none. Of several
    versions each is named.
    """
    texts = []
    for version in not_drawn:
        for series in version:
            parts = [gap for gap in series.gaps if gap.beyond]
            if not parts:
                continue
            text = ", ".join(f"{gap.part} {gap.gap:+.3f}" for gap in parts)
            texts.append(f"{series.label}: {text}" if len(not_drawn) > 1 else text)
    if not texts:
        return []
    lead = "also significant, of the confidence (--label top)"
    return [f"{lead}: {'; '.join(texts)}"]


def gap_series(
    request: Request, parts: Sequence[RowSubset], place: int
) -> list[Series]:
    """Measure the gap of every part in set number ``place``, a series per quantity,
    equal to those of tables by group.

    The tests of all quantities are adjusted together.
    """
    measured = request.sets[place]
    drawn = quantities(request)
    settings = MetricSettings(level=request.settings.level, seed=request.settings.seed)
    contexts: dict[int, MetricContext] = {}
    for number, part in enumerate(parts):
        table = measured.table.take(part.rows[place])
        if table.n and table.weights.sum() > 0:
            contexts[number] = MetricContext(table, settings)
    tests = {}
    if contexts:
        only = None if len(drawn) > 1 else drawn[0]
        tests = group_gaps(list(contexts.values()), only)
    together = [test.p_adjusted for test in chain(*tests.values())]
    n_significant = sum(p_adjusted <= LEVEL for p_adjusted in together)
    level = 1.0 - LEVEL * max(n_significant, 1) / max(len(together), 1)
    series = []
    for quantity in drawn:
        gaps = [_without_rows(part.name) for part in parts]
        of_quantity = tests.get(quantity, [])
        for number, test in zip(contexts, of_quantity, strict=True):
            context = contexts[number].labelled(quantity)
            interval = gap_interval(context)
            adjusted = interval_of_test(
                context, level, is_significant=test.p_adjusted <= LEVEL
            )
            weight = context.table.weight
            gaps[number] = Gap(
                part=parts[number].name,
                n=context.n,
                confidence=float(np.average(context.scores, weights=weight)),
                accuracy=float(np.average(context.outcomes, weights=weight)),
                gap=test.gap,
                low=interval.low,
                high=interval.high,
                p_value=test.p_value,
                beyond=test.p_adjusted <= LEVEL,
                adjusted_low=adjusted.low,
                adjusted_high=adjusted.high,
            )
        series.append(Series(measured.label, tuple(gaps)))
    return series


def _without_rows(name: str) -> Gap:
    """The gap of a part that has no rows."""
    return Gap(name, 0, NAN, NAN, NAN, NAN, NAN, 1.0, False, NAN, NAN)
