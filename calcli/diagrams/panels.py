"""Panels of a reliability diagram, and the curves in them, from row tables."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calcli.diagrams.caption_text import distinct
from calcli.diagrams.curve import Curve, CurveSettings, Quantity, measure_curve
from calcli.diagrams.style import Request
from calcli.errors import DataError, UsageError
from calcli.metrics.rowtable import RowTable
from calcli.numerics import BoolArray, in_order

FEW_BUNDLES = 4
"""Largest number of bundles for which every panel has room for a whole name."""

NAMES = {
    "class": ("predicted class", "predicted classes"),
    "group": ("group", "groups"),
}


@dataclass(frozen=True)
class Measured:
    """Row table of one bundle under one calibrator.

    label : name of the calibrator in titles and legends.
    """

    bundle: str
    label: str
    table: RowTable


@dataclass(frozen=True)
class Panel:
    """One pair of axes: a title and the curves in it."""

    title: str
    curves: tuple[Curve, ...]


Panels = tuple[tuple[Panel, ...], str, tuple[str, ...]]
"""Panels, the title above all of them, and notes for the reader, e.g. how panels were
chosen.
"""


@dataclass(frozen=True)
class RowSubset:
    """Rows of one predicted class or group. rows : their mask in every set."""

    name: str
    rows: tuple[BoolArray, ...]


def quantities(request: Request) -> tuple[Quantity, ...]:
    """Quantities to draw: P(class 1) and the top label for two classes, else the top
    label alone.

    Groups show the first of them; predicted classes, and batches in order of time, have
    the top label alone.
    """
    binary = all(s.table.k == 2 for s in request.sets)
    if request.quantity == "positive" and not binary:
        most = max((s.table for s in request.sets), key=lambda table: table.k)
        raise UsageError(
            f"--label positive is for two classes, {most.known}; use --label top"
        )
    if request.quantity is not None:
        return (request.quantity,)
    if binary and request.by != "class" and not request.ordered:
        return ("positive", "top")
    return ("top",)


def _curve(
    what: Measured,
    settings: CurveSettings,
    quantity: Quantity,
    rows: BoolArray | None = None,
) -> Curve | None:
    """Measure the curve of some rows; None where there are none (or their weights are
    all zero).
    """
    table = what.table if rows is None else what.table.take(rows)
    if table.weights.sum() > 0:
        return measure_curve(what.label, table, settings, quantity)
    return None


def whole(request: Request) -> Panels:
    """Panels of all rows: one per set and quantity, or one per bundle and quantity with
    its sets overlaid.
    """
    curves = []
    for measured in request.sets:
        for quantity in quantities(request):
            curve = _curve(measured, request.settings, quantity)
            if curve is not None:
                curves.append(DrawnCurve(measured, quantity, curve))
    title = request.title or ""
    if request.layout == "overlay":
        panels = _overlaid(request, curves)
    else:
        are_versions_of_one = len(request.bundles) == 1 and len(curves) > 1
        if are_versions_of_one and request.title is None:
            title = request.sets[0].bundle
        panels = _side_by_side(request, curves, are_versions_of_one)
    return tuple(panels), title, tuple(request.notes)


@dataclass(frozen=True)
class DrawnCurve:
    """A curve with the set and the quantity that it shows."""

    measured: Measured
    quantity: Quantity
    curve: Curve


def _overlaid(request: Request, curves: Sequence[DrawnCurve]) -> list[Panel]:
    """A panel per bundle and quantity; of bundles with one set each, one per quantity."""
    bundles = request.bundles
    are_models = len(bundles) == len(request.sets) > 1
    names = [f"{len(bundles)} bundles"] if are_models else bundles
    panels = []
    for name in names:
        for quantity in quantities(request):
            shown = []
            for drawn in curves:
                if drawn.quantity != quantity:
                    continue
                if are_models:
                    shown.append(replace(drawn.curve, label=drawn.measured.bundle))
                elif drawn.measured.bundle == name:
                    shown.append(drawn.curve)
            if shown:
                title = _with_quantity(name, quantity, request)
                panels.append(Panel(title, tuple(shown)))
    return panels


def _side_by_side(
    request: Request, curves: Sequence[DrawnCurve], are_versions_of_one: bool
) -> list[Panel]:
    """A panel for each curve, named by bundle and calibrator as far as these differ."""
    bundles = request.bundles
    are_many = len(bundles) > FEW_BUNDLES
    short_names = distinct(bundles) if are_many else bundles
    short = dict(zip(bundles, short_names, strict=True))
    labels = request.calibrators
    panels = []
    for drawn in curves:
        label = drawn.measured.label
        parts = [short[drawn.measured.bundle], label]
        if are_versions_of_one:
            parts = [label]
        elif are_many:
            # Titles are cut in their middle: the part that differs stands last.
            parts.reverse()
            if len(labels) == 1:
                parts.remove(label)
        name = _with_quantity(_joined(parts), drawn.quantity, request)
        panels.append(Panel(name, (drawn.curve,)))
    return panels


def _with_quantity(title: str, quantity: Quantity, request: Request) -> str:
    """A panel's title, and what it shows where there are several quantities."""
    if len(quantities(request)) == 1:
        return title
    if quantity == "top":
        return _joined([title, "top label"])
    class_one = request.names[1] if request.names else "class 1"
    return _joined([title, f"P({class_one})"])


def _joined(parts: Sequence[str]) -> str:
    """Parts of a title, without empty ones."""
    return ", ".join(filter(None, parts))


def parts_of(request: Request) -> list[RowSubset]:
    """Split rows by predicted class or group, in order of values or of time.

    Raises DataError without groups, UsageError for classes of confidences.
    """
    columns: list[NDArray[np.generic]] = []
    for s in request.sets:
        column = s.table.group if request.by == "group" else s.table.prediction
        if column is None:
            raise DataError(
                f"{s.bundle}: has no dataset 'group' with one value per row, which"
                " --per-group needs"
            )
        columns.append(column)
    listed = in_order if request.ordered else np.unique
    values = listed(np.concatenate([listed(c) for c in columns])).tolist()
    if request.by == "class" and any(s.table.k == 1 for s in request.sets):
        raise UsageError(
            "these rows hold one confidence each and no classes to draw; --per-group"
            " draws groups"
        )
    parts = []
    for value in values:
        name = str(value)
        if request.by == "class" and request.names:
            name = request.names[int(value)]
        masks = tuple(column == value for column in columns)
        parts.append(RowSubset(name, masks))
    return parts


def by_part(request: Request, parts: Sequence[RowSubset], limit: int) -> Panels:
    """Small multiples: one panel per class or group, the sets overlaid.

    Of more parts than ``limit``, those are shown whose mean confidence and accuracy
    differ by the most standard errors in any set.
    """
    assert request.by is not None
    singular, plural = NAMES[request.by]
    sets = request.sets
    quantity = quantities(request)[0]
    notes = list(request.notes)
    chosen = list(parts)
    if len(chosen) > limit:
        # A stable sort: parts of equal distance keep their order.
        chosen = sorted(chosen, key=lambda part: -_distance(sets, part.rows))[:limit]
        reason = (
            "those least calibrated in standard errors,"
            " which is why they look worse than the rest"
        )
        notes.insert(0, f"{limit} of {len(parts)} {plural}: {reason}")
    panels = []
    for part in chosen:
        curves = []
        for measured, rows in zip(sets, part.rows, strict=True):
            curve = _curve(measured, request.settings, quantity, rows)
            if curve is not None:
                curves.append(curve)
        if curves:
            panels.append(Panel(part.name, tuple(curves)))
    title = request.title
    if title is None:
        title = f"{sets[0].bundle}, by {singular}"
    return tuple(panels), title, tuple(notes)


def _distance(sets: Sequence[Measured], masks: Sequence[BoolArray]) -> float:
    """Largest |sum (c - correct)| of any set, in units of its standard deviation under
    calibration.
    """
    worst = 0.0
    for measured, rows in zip(sets, masks, strict=True):
        confidence = measured.table.confidence[rows]
        weights = measured.table.weights[rows]
        excess = float(weights @ (confidence - measured.table.correct[rows]))
        # The small term keeps confidences of exactly 0 and 1 finite.
        variance = weights**2 @ (confidence * (1 - confidence)) + 1e-12
        worst = max(worst, abs(excess) / float(np.sqrt(variance)))
    return worst
