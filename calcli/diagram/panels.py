"""Which panels and curves a figure has: from row tables to diagrams."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calcli.diagram.data import Curve, Diagram, Panel, Settings, measure
from calcli.diagram.scatter import Scatter, make_point
from calcli.metrics.rowtable import RowTable

__all__ = ["Measured", "by_column", "scatter", "whole"]

Style = Literal["corp", "bins"]
Choice = Literal["worst", "frequent"]


@dataclass(frozen=True)
class Measured:
    """The rows of one bundle through one calibrator. label : what the reader calls it."""

    bundle: str
    label: str
    table: RowTable


def _curve(what: Measured, settings: Settings, rows: NDArray[np.bool_] | None = None) -> Curve | None:
    """The curve of some rows, or None where there are none (or their weights are all zero)."""
    t = what.table
    keep = np.ones(t.n, dtype=np.bool_) if rows is None else rows
    weight = None if t.weight is None else t.weight[keep]
    if not keep.any() or (weight is not None and not weight.sum() > 0):
        return None
    return measure(what.label, t.confidence[keep], t.correct[keep], weight, settings)


def whole(
    sets: Sequence[Measured], style: Style, layout: Literal["side", "overlay"], settings: Settings, notes: Sequence[str]
) -> Diagram:
    """All rows: one panel per set, or one per bundle with the sets laid over each other."""
    bundles = list(dict.fromkeys(s.bundle for s in sets))
    curves = [(s, curve) for s in sets if (curve := _curve(s, settings)) is not None]
    if layout == "overlay":
        grouped = [(bundle, tuple(c for s, c in curves if s.bundle == bundle)) for bundle in bundles]
        return Diagram(style, tuple(Panel(name, members) for name, members in grouped if members), "", tuple(notes))
    if len(bundles) == 1 and len(curves) > 1:
        return Diagram(style, tuple(Panel(s.label, (c,)) for s, c in curves), bundles[0], tuple(notes))
    panels = tuple(Panel(f"{s.bundle}, {s.label}" if s.label else s.bundle, (c,)) for s, c in curves)
    return Diagram(style, panels, "", tuple(notes))


def by_column(
    sets: Sequence[Measured],
    columns: Sequence[NDArray[np.generic]],
    style: Style,
    settings: Settings,
    notes: Sequence[str],
    *,
    what: tuple[str, str],
    names: Sequence[str] | None = None,
    limit: int = 12,
    choose: Choice = "worst",
) -> Diagram:
    """Small multiples: one panel per value of a column, the sets laid over each other.

    columns : for every set, the value of every row (predicted class, or group). names :
    of integer values. what : singular and plural of
    the values, for titles. With more values than
    ``limit``, ``worst`` takes those whose mean confidence and accuracy lie the most
    standard errors apart in any set, ``frequent`` those with the most rows.
    """
    values = np.unique(np.concatenate([np.unique(c) for c in columns]))
    masks = {v: [c == v for c in columns] for v in values.tolist()}
    all_notes = list(notes)
    chosen = list(masks)
    if len(chosen) > limit:
        score = _distance if choose == "worst" else _frequency
        # Stable: values that are equal in this respect keep their order.
        chosen = sorted(chosen, key=lambda v: -score(sets, masks[v]))[:limit]
        reason = (
            "those least calibrated in standard errors, which is why they look worse than the rest"
            if choose == "worst"
            else "those with the most rows"
        )
        all_notes.insert(0, f"{limit} of {len(masks)} {what[1]}: {reason}")
    panels = []
    for v in chosen:
        curves = tuple(c for s, rows in zip(sets, masks[v], strict=True) if (c := _curve(s, settings, rows)))
        if curves:
            panels.append(Panel(names[int(v)] if names is not None else str(v), curves))
    return Diagram(style, tuple(panels), f"{sets[0].bundle}, by {what[0]}", tuple(all_notes))


def _distance(sets: Sequence[Measured], masks: Sequence[NDArray[np.bool_]]) -> float:
    """Largest |sum (c - correct)| in units of its standard deviation under calibration."""
    worst = 0.0
    for s, rows in zip(sets, masks, strict=True):
        c = s.table.confidence[rows]
        w = np.ones(len(c)) if s.table.weight is None else s.table.weight[rows]
        gap = float(w @ (c - s.table.correct[rows]))
        # The small term keeps confidences of exactly 0 and 1 finite.
        worst = max(worst, abs(gap) / float(np.sqrt(w**2 @ (c * (1 - c)) + 1e-12)))
    return worst


def _frequency(sets: Sequence[Measured], masks: Sequence[NDArray[np.bool_]]) -> float:
    return float(max(int(rows.sum()) for rows in masks))


def scatter(sets: Sequence[Measured], settings: Settings) -> Scatter:
    """Confidence variance against ECE, a point per set."""
    points = []
    for s in sets:
        if (curve := _curve(s, settings)) is not None:
            points.append(make_point(s.bundle, curve, s.table.confidence, s.table.weight))
    bundles = list(dict.fromkeys(p.bundle for p in points))
    return Scatter(bundles[0] if len(bundles) == 1 else f"{len(bundles)} bundles", tuple(points))
