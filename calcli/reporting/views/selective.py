"""Selective prediction: coverage and accuracy above a threshold of confidence."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from calcli.reporting.figures.risk import risk_figure
from calcli.reporting.gather import Threshold
from calcli.reporting.number_format import count, share, share_span
from calcli.reporting.views.room import Chapter

LISTED = (0, 50, 60, 70, 80, 90, 95, 99)
"""Thresholds of the table, in percent."""


@dataclass(frozen=True)
class ThresholdRow:
    """The samples at or above a threshold."""

    threshold: str
    coverage: str
    samples: str
    accuracy: str
    interval: str
    confidence: str


@dataclass(frozen=True)
class ThresholdTable:
    """Thresholds of one version; rows are None where there is no room for them."""

    number: int
    ident: str
    version: str
    is_in_focus: bool
    rows: Sequence[ThresholdRow] | None


@dataclass(frozen=True)
class SelectiveView:
    """Tables of thresholds, and accuracy against coverage."""

    tables: Sequence[ThresholdTable]
    figure: Markup
    figure_ident: str


def selective_view(chapter: Chapter) -> SelectiveView:
    """The view of selective prediction with every version."""
    tables = []
    for number, version in enumerate(chapter.model.versions):
        rows = None
        if chapter.is_shown(number):
            listed = [version.thresholds[percent] for percent in LISTED]
            rows = [_row(threshold) for threshold in listed if threshold.n]
        tables.append(
            ThresholdTable(
                number=number,
                ident=chapter.ident("thresholds", number),
                version=version.name,
                is_in_focus=number == chapter.model.focus,
                rows=rows,
            )
        )
    ident = chapter.ident("risk")
    curves = [version.coverage for version in chapter.model.versions]
    return SelectiveView(tables, risk_figure(curves, ident), ident)


def _row(threshold: Threshold) -> ThresholdRow:
    return ThresholdRow(
        threshold=f"{100 * threshold.threshold:.0f}%",
        coverage=share(threshold.coverage),
        samples=count(threshold.n),
        accuracy=share(threshold.right),
        interval=share_span(threshold.right_low, threshold.right_high),
        confidence=share(threshold.promised),
    )
