"""Panels of a reliability diagram, and the curves in them, from row tables."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

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
    """Row table of one bundle under one calibrator. label : name of the calibrator in titles and legends."""

    bundle: str
    label: str
    table: RowTable


@dataclass(frozen=True)
class Panel:
    """One pair of axes: a title and the curves in it."""

    title: str
    curves: tuple[Curve, ...]


Panels = tuple[tuple[Panel, ...], str, tuple[str, ...]]
"""Panels, the title above all of them, and notes for the reader, e.g. how panels were chosen."""


@dataclass(frozen=True)
class RowSubset:
    """Rows of one predicted class or group. rows : their mask in every set."""

    name: str
    rows: tuple[BoolArray, ...]


def quantities(request: Request) -> tuple[Quantity, ...]:
    """Quantities to draw: P(class 1) and the top label for two classes, else the top label alone.

    Groups show the first of them; predicted classes, and batches in order of time, have the top label alone.
    """
    binary = all(s.table.k == 2 for s in request.sets)
    if request.quantity == "positive" and not binary:
        most = max((s.table for s in request.sets), key=lambda table: table.k)
        raise UsageError(
            f"--label positive is for two classes, {most.known}; use --label top"
        )
    if request.quantity is not None:
        return (request.quantity,)
    return (
        ("positive", "top")
        if binary and request.by != "class" and not request.ordered
        else ("top",)
    )


def _curve(
    what: Measured,
    settings: CurveSettings,
    quantity: Quantity,
    rows: BoolArray | None = None,
) -> Curve | None:
    """Measure the curve of some rows; None where there are none (or their weights are all zero)."""
    table = what.table if rows is None else what.table.take(rows)
    return (
        measure_curve(what.label, table, settings, quantity)
        if table.weights.sum() > 0
        else None
    )


def whole(request: Request) -> Panels:
    """Panels of all rows: one per set and quantity, or one per bundle and quantity with its sets overlaid."""
    sets, wanted = request.sets, quantities(request)
    bundles = list(dict.fromkeys(s.bundle for s in sets))
    curves = [
        (s, q, curve)
        for s, q in product(sets, wanted)
        if (curve := _curve(s, request.settings, q)) is not None
    ]

    def named(title: str, quantity: Quantity) -> str:
        about = (
            "top label"
            if quantity == "top"
            else f"P({request.names[1] if request.names else 'class 1'})"
        )
        return title if len(wanted) == 1 else ", ".join(filter(None, (title, about)))

    title, panels = request.title or "", []
    if request.layout == "overlay":
        models = len(bundles) == len(sets) > 1  # one curve each
        for name, q in product(
            [f"{len(bundles)} bundles"] if models else bundles, wanted
        ):
            own = [
                (s, c) for s, r, c in curves if r == q and (models or s.bundle == name)
            ]
            panels.append(
                Panel(
                    named(name, q),
                    tuple(replace(c, label=s.bundle) if models else c for s, c in own),
                )
            )
    else:
        alone = len(bundles) == 1 and len(curves) > 1
        if alone and request.title is None:
            title = bundles[0]
        many = len(bundles) > FEW_BUNDLES
        short = dict(zip(bundles, distinct(bundles) if many else bundles, strict=True))
        versions = len({s.label for s in sets}) > 1 or not many
        # Titles are cut in their middle: with many bundles, the part that differs stands last.
        for s, q, c in curves:
            words = (short[s.bundle], s.label * versions)[:: -1 if many else 1]
            panels.append(
                Panel(
                    named(s.label if alone else ", ".join(filter(None, words)), q), (c,)
                )
            )
    return tuple(p for p in panels if p.curves), title, tuple(request.notes)


def parts_of(request: Request) -> list[RowSubset]:
    """Split rows by predicted class or group, in order of values or of time. Raises DataError without groups."""
    columns: list[NDArray[np.generic]] = []
    for s in request.sets:
        column = s.table.group if request.by == "group" else s.table.prediction
        if column is None:
            raise DataError(
                f"{s.bundle}: has no dataset 'group' with one value per row, which --per-group needs"
            )
        columns.append(column)
    listed = in_order if request.ordered else np.unique
    values = listed(np.concatenate([listed(c) for c in columns])).tolist()
    named = request.names if request.by == "class" else None
    if request.by == "class" and any(s.table.k == 1 for s in request.sets):
        raise UsageError(
            "these rows hold one confidence each and no classes to draw; --per-group draws groups"
        )
    return [
        RowSubset(named[int(v)] if named else str(v), tuple(c == v for c in columns))
        for v in values
    ]


def by_part(request: Request, parts: Sequence[RowSubset], limit: int) -> Panels:
    """Small multiples: one panel per class or group, the sets overlaid.

    Of more parts than ``limit``, those are shown whose mean confidence and accuracy differ by the most standard errors
    in any set.
    """
    assert request.by is not None
    what, sets, quantity = NAMES[request.by], request.sets, quantities(request)[0]
    notes, chosen = list(request.notes), list(parts)
    if len(chosen) > limit:
        # A stable sort: parts of equal distance keep their order.
        chosen = sorted(chosen, key=lambda part: -_distance(sets, part.rows))[:limit]
        reason = "those least calibrated in standard errors, which is why they look worse than the rest"
        notes.insert(0, f"{limit} of {len(parts)} {what[1]}: {reason}")
    panels = []
    for part in chosen:
        pairs = zip(sets, part.rows, strict=True)
        curves = tuple(
            c for s, rows in pairs if (c := _curve(s, request.settings, quantity, rows))
        )
        if curves:
            panels.append(Panel(part.name, curves))
    title = (
        f"{sets[0].bundle}, by {what[0]}" if request.title is None else request.title
    )
    return tuple(panels), title, tuple(notes)


def _distance(sets: Sequence[Measured], masks: Sequence[BoolArray]) -> float:
    """Largest |sum (c - correct)| of any set, in units of its standard deviation under calibration."""
    worst = 0.0
    for s, rows in zip(sets, masks, strict=True):
        c, correct, w = (
            column[rows]
            for column in (s.table.confidence, s.table.correct, s.table.weights)
        )
        # The small term keeps confidences of exactly 0 and 1 finite.
        worst = max(
            worst,
            abs(float(w @ (c - correct)))
            / float(np.sqrt(w**2 @ (c * (1 - c)) + 1e-12)),
        )
    return worst
