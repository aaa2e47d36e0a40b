"""gaps: how overconfident every class or group is, sorted or in order of time, with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

import numpy as np

from calcli.diagrams.caption_text import printable, squeeze, table
from calcli.diagrams.curve import Quantity
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.panels import NAMES, RowSubset, parts_of, quantities
from calcli.diagrams.style import Figure, Request
from calcli.diagrams.terminal import MARK, POINT, Canvas, Look
from calcli.metrics.context import MetricContext
from calcli.metrics.losses import gap_interval, group_gaps
from calcli.metrics.settings import MetricSettings
from calcli.records import as_json

NAN, LEVEL = float("nan"), 0.05
LINES = 100
"""Largest number of classes or groups drawn by default: about a page."""


@dataclass(frozen=True)
class Gap:
    """Mean confidence minus accuracy of one class (the rows predicted as it) or group.

    For P(class 1), confidence is its mean and accuracy the frequency of class 1. low, high : interval
    of the gap. beyond : whether the gap is significant among all the parts (Benjamini and Hochberg,
    5 %). NaN where there are no rows, or no interval.
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

    @property
    def reach(self) -> float:
        """Largest distance from 0 of the gap and its interval."""
        return max(
            (abs(x) for x in (self.low, self.gap, self.high) if x == x), default=0.0
        )


@dataclass(frozen=True)
class Series:
    """Gaps of one bundle and calibrator, in the order of the lines."""

    label: str
    gaps: tuple[Gap, ...]

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
        """Measure lines sorted by the first set's gap, batches by time; of very many parts those of least p-value."""
        by = request.by or "class"
        request = replace(request, by=by)
        parts, level, one = parts_of(request), request.settings.level, NAMES[by]
        found = [gap_series(request, parts, at) for at in range(len(request.sets))]
        series = [both[0] for both in found]
        limit, notes = request.panels or LINES, list(request.notes)
        notes += _notes_of_the_confidence([both[1:] for both in found])
        chosen = np.arange(len(parts))
        if len(parts) > limit:
            chosen = np.argsort([g.p_value for g in series[0].gaps], kind="stable")[
                :limit
            ]
            notes.insert(0, f"{limit} of {len(parts)} {one[1]}: the most significant")
        gap_of = [np.nan_to_num(g.gap, nan=-9.0) for g in series[0].gaps]
        order = sorted(
            chosen.tolist(), key=None if request.ordered else lambda j: -gap_of[j]
        )
        named = zip(request.labels, series, strict=True)
        kept = tuple(
            Series(label, tuple(s.gaps[j] for j in order)) for label, s in named
        )
        title = (
            f"{request.what}, by {one[0]}" if request.title is None else request.title
        )
        return Gaps(
            title, one[1], level, len(parts), kept, tuple(notes), quantities(request)[0]
        )

    def draw(self, paper: Paper) -> Any:
        """Draw dots with intervals around the line of no gap."""
        from matplotlib.figure import Figure

        theme, lines, count = paper.theme, len(self.series[0].gaps), len(self.series)
        wide = paper.width or 5.2
        said = [
            line
            for note in self.notes
            for line in wrap(printable(note), int(wide * 17))
        ]
        notes, tall = len(said), lines * (0.155 if lines <= 40 else 0.125) + 0.2
        abreast = min(
            4, max(1, int(12 * wide / (max(len(s.label) for s in self.series) + 6)))
        )
        keys = -(-count // abreast) if count > 1 else 0
        foot = 0.69 + 0.17 * notes + 0.2 * keys
        height = 0.55 + tall + 0.76 + 0.17 * notes + 0.2 * keys
        names = [
            squeeze(f"{g.part} ({g.n})", int(wide * 6.4)) for g in self.series[0].gaps
        ]
        left = min(0.15 + 0.058 * max(map(len, names)), 0.45 * wide)
        plot = Figure(figsize=(wide, height))
        axes = plot.add_axes(
            (left / wide, foot / height, 1 - (left + 0.2) / wide, tall / height)
        )
        for at, s in enumerate(self.series):
            colour, _, marker = (
                (theme.main, "-", "o") if count == 1 else paper.series(at)
            )
            y = np.arange(lines)[::-1] + (0.5 * (count - 1) - at) * 0.8 / max(count, 2)
            gap, low, high = np.array([(g.gap, g.low, g.high) for g in s.gaps]).T
            axes.hlines(y, low, high, color=colour, lw=0.8, zorder=3)
            face = [colour if g.beyond else theme.page for g in s.gaps]
            look: dict[str, Any] = {
                "edgecolors": colour,
                "linewidths": 0.8,
                "marker": marker,
                "label": s.label,
            }
            axes.scatter(gap, y, s=14 if count == 1 else 9, c=face, zorder=4, **look)
        axes.axvline(0, color=theme.muted, lw=0.8, zorder=2)
        words, negative, positive = self.words
        label = (
            f"{words}, {100 * self.level:g} % interval\nfilled: significant (adjusted)"
        )
        axes.set(ylim=(-0.8, lines - 0.2), xlabel=label)
        axes.set_yticks(np.arange(lines)[::-1], names, fontsize=6.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        small: dict[str, Any] = {"fontsize": 7, "color": theme.muted}
        for x, told, side in (
            (0, f"◀ {negative}", "left"),
            (1, f"{positive} ▶", "right"),
        ):
            axes.annotate(
                told, (x, 1), (0, 3), "axes fraction", "offset points", ha=side, **small
            )
        plot.text(
            0.5,
            1 - 0.1 / height,
            squeeze(self.title, int(wide * 12)),
            ha="center",
            va="top",
            fontsize=9.5,
        )
        if count > 1:
            anchor = (0.5, (0.04 + 0.17 * notes) / height)
            plot.legend(
                loc="lower center", ncols=abreast, bbox_to_anchor=anchor, borderpad=0
            )
        for line, note in enumerate(reversed(said)):
            plot.text(
                0.5,
                (0.06 + 0.17 * line) / height,
                note,
                ha="center",
                va="bottom",
                **small,
            )
        return plot

    def text(self, width: int, look: Look) -> list[str]:
        """A table per set with a bar for the gap."""
        lines = [look.paint(squeeze(self.title, width), "strong")]
        reach = max(g.reach for s in self.series for g in s.gaps) or 0.1
        for s in self.series:
            title = squeeze(f"{s.about} significant (*)", width)
            lines += ["", look.paint(title, "strong")]
            rows = [["", "n", "gap", "", ""]]
            for g in s.gaps:
                line = Canvas(
                    max(min(width - 44, 60), 5), 1, (-reach, reach), (0.0, 1.0), look
                )
                if g.low == g.low:
                    for at in range(line.column(g.low), line.column(g.high) + 1):
                        line.put(0, at, "─", "")
                if g.gap == g.gap:
                    line.put(0, line.column(0.0), MARK, "")
                    line.put(0, line.column(g.gap), POINT, "")
                text = "-" if g.gap != g.gap else f"{g.gap:+.3f}"
                rows.append(
                    [
                        squeeze(g.part, 20),
                        str(g.n),
                        text,
                        "*" if g.beyond else "",
                        *line.lines(),
                    ]
                )
            lines += [line[:width] for line in table(rows)]
        what = self.words[0].replace("−", "-")
        lines += [
            "",
            f"gap: {what}, {100 * self.level:g} % interval, axis to +-{reach:.2f}"[
                :width
            ],
        ]
        return lines + [
            line for note in self.notes for line in wrap(printable(note), width)
        ]

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        rows = [(s.label, *as_json(g).values()) for s in self.series for g in s.gaps]
        return ("curve", *as_json(self.series[0].gaps[0])), rows

    def describe(self) -> str:
        found = []
        for s in self.series:
            worst = max(s.gaps, key=lambda g: abs(np.nan_to_num(g.gap)))
            off = f"{s.about} {self.what} significantly miscalibrated"
            found.append(f"{off}, largest {worst.part} with {worst.gap:+.4f}.")
        return f"{self.words[0].capitalize()} with intervals. {' '.join(found)}"


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
    request: Request, parts: Sequence[RowSubset], at: int, gate: float = 0.0
) -> list[Series]:
    """Measure the gap of every part in set number ``at``, a series per quantity, equal to those of tables by group.

    The tests of all quantities are adjusted together. gate : lower bound of the adjusted p-values.
    """
    what, about, settings = request.sets[at], quantities(request), request.settings
    measured = MetricSettings(level=settings.level, seed=settings.seed)
    tables = {j: what.table.take(part.rows[at]) for j, part in enumerate(parts)}
    held = {
        j: MetricContext(t, measured)
        for j, t in tables.items()
        if t.n and t.weights.sum() > 0
    }
    both = (
        group_gaps([*held.values()], None if len(about) > 1 else about[0], gate)
        if held
        else {}
    )
    series = []
    for quantity in about:
        gaps = [
            Gap(part.name, 0, NAN, NAN, NAN, NAN, NAN, 1.0, False) for part in parts
        ]
        for (j, each), found in zip(held.items(), both.get(quantity, []), strict=True):
            own, ends = each.labelled(quantity), gap_interval(each.labelled(quantity))
            mean, right = (
                float(np.average(x, weights=own.table.weight))
                for x in (own.scores, own.outcomes)
            )
            rest = (
                found.gap,
                ends.low,
                ends.high,
                found.p_value,
                found.p_adjusted <= LEVEL,
            )
            gaps[j] = Gap(parts[j].name, own.n, mean, right, *rest)
        series.append(Series(what.label, tuple(gaps)))
    return series
