"""The plotted numbers as JSON or CSV: what a diagram shows, for other programs to draw."""

import csv
import io
import json
import math
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from calcli.diagram.data import Curve, Diagram
from calcli.diagram.scatter import Scatter
from calcli.diagram.temperature_sweep import Sweep

__all__ = ["to_csv", "to_json", "to_object"]

FORMAT = 1

COLUMNS = ("panel", "curve", "element", "x", "x_low", "x_high", "y", "y_low", "y_high", "count")
"""Columns of the CSV of a reliability diagram; empty where an element has no such number."""

SUMMARY = (
    "accuracy",
    "mean_confidence",
    "ece",
    "ece_null_mean",
    "ece_null_q95",
    "ece_p",
    "outside",
    "mcb_null_mean",
)


def to_object(figure: Diagram | Sweep | Scatter) -> dict[str, Any]:
    """All numbers of a figure as JSON values; a number that does not exist is null."""
    style = {Sweep: "temperature", Scatter: "variance"}.get(type(figure), "")
    return {"calcli_diagram": FORMAT, **({"style": style} if style else {}), **_plain(figure)}


def to_json(figure: Diagram | Sweep | Scatter) -> str:
    """``to_object`` as one line of text. Numbers read back exactly."""
    return json.dumps(to_object(figure), ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_csv(figure: Diagram | Sweep | Scatter) -> str:
    """The plotted points, one per line, with a header.

    A reliability diagram has the columns ``COLUMNS``: element ``summary`` (its name in
    ``x``, its value in ``y``), ``curve`` (points of the polyline), ``band`` (x, y_low,
    y_high), ``bin`` (edges, mean confidence and accuracy with its interval), ``bin_band``
    and ``histogram`` (edges and count).
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if isinstance(figure, Sweep):
        names = ("temperature", "nll", "ece", "ece_null_mean", "mean_confidence")
        writer.writerow(("name", *names))
        for row in zip(*(getattr(figure, name) for name in names), strict=True):
            writer.writerow(("", *map(_text, row)))
        for mark in figure.marks:
            writer.writerow((mark.name, *(_text(getattr(mark, name)) for name in names)))
    elif isinstance(figure, Scatter):
        columns = ("bundle", "method", "n", "variance", "ece", "ece_null_mean")
        writer.writerow(columns)
        for point in figure.points:
            writer.writerow([_text(getattr(point, name)) for name in columns])
    else:
        writer.writerow(COLUMNS)
        for panel in figure.panels:
            for curve in panel.curves:
                for values in _curve_rows(curve):
                    writer.writerow((panel.title, curve.label, *map(_text, values)))
    return out.getvalue()


def _curve_rows(curve: Curve) -> Iterable[tuple[Any, ...]]:
    """(element, x, x_low, x_high, y, y_low, y_high, count) of everything drawn of a curve."""
    none = None
    for name in SUMMARY:
        yield "summary", name, none, none, getattr(curve, name), none, none, curve.n
    for split in (curve.brier, curve.log):
        for name in ("score", "miscalibration", "discrimination", "uncertainty"):
            yield "summary", f"{split.kind}_{name}", none, none, getattr(split, name), none, none, curve.n
    for x, y in zip(*curve.isotonic.knots, strict=True):
        yield "curve", x, none, none, y, none, none, none
    for x, low, high in zip(curve.band.x, curve.band.low, curve.band.high, strict=True):
        yield "band", x, none, none, none, low, high, none
    b = curve.bins
    for at in range(len(b.count)):
        edges = b.low[at], b.high[at]
        yield "bin", b.confidence[at], *edges, b.accuracy[at], b.accuracy_low[at], b.accuracy_high[at], b.count[at]
        yield "bin_band", b.confidence[at], *edges, none, b.null_low[at], b.null_high[at], b.count[at]
    h = curve.histogram
    for low, high, count in zip(h.edges[:-1], h.edges[1:], h.count, strict=True):
        yield "histogram", none, low, high, none, none, none, count


def _text(value: Any) -> str:
    """A number so that it reads back exactly; nothing where there is none."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)
