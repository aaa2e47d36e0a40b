"""Figures that several tests draw."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from synthetic import truth

from calcli.diagrams.curve import CurveSettings, measure_curve
from calcli.diagrams.matplotlib_theme import Paper
from calcli.diagrams.outputs import FORMATS
from calcli.diagrams.panels import Measured, Panel
from calcli.diagrams.style import Request, style
from calcli.diagrams.styles.corp import Corp
from calcli.diagrams.styles.temperature import sweep_temperature
from calcli.metrics.collect import collect
from calcli.metrics.rowtable import RowTable
from calcli.rows import ArrayRows

FAST = CurveSettings(resamples=100)
PLAIN = Paper()


def figure_of(sets, name="corp", **more):
    """What a style measures of row tables."""
    return style(name).measure(Request(FAST, sets, **more))


def rows_of(confidence, correct, weight=None):
    """Rows of which the confidence is known, and whether they are right."""
    correct = np.asarray(correct, dtype=float)
    label = correct.astype(np.int64)
    return RowTable(1, confidence, correct, label, label, weight=weight)


def rows_like(n=1500, seed=0, power=1.6):
    """Confidences, and whether rows are right: overconfident for a power above 1."""
    rng = np.random.default_rng(seed)
    confidence = 0.2 + 0.8 * rng.random(n) ** 0.5
    is_right = rng.random(n) < confidence**power
    return confidence, is_right.astype(float)


def one(**more):
    """A figure with one panel."""
    curve = measure_curve("uncalibrated", rows_of(*rows_like()), FAST)
    return Corp((Panel("a title", (curve,)),), **more)


def tables(k=4):
    """Row tables of scores at two temperatures; predictions of class 2 are mostly wrong."""
    rng = np.random.default_rng(3)
    z, y = truth(2000, k, temperature=1.0)
    top = z.argmax(axis=1)
    is_wrong = (top == 2) & (rng.random(2000) < 0.8)
    y = np.where(is_wrong, (top + 1) % k, y)
    return [
        Measured("a.h5", "uncalibrated", collect(ArrayRows(z, y))),
        Measured("a.h5", "hot", collect(ArrayRows(z / 1.5, y))),
    ]


def matplotlib_bytes(figure, form, paper=PLAIN):
    pytest.importorskip("matplotlib")
    return FORMATS[form](figure, paper)


def laid_out(figure, paper=PLAIN):
    """Draw everything but the pixels, which take most of the time."""
    pytest.importorskip("matplotlib")
    with paper.matplotlib():
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        drawn = style(figure.style).draw(figure, paper)
        FigureCanvasAgg(drawn)
        drawn.draw_without_rendering()
    return drawn


@cache
def every_figure():
    """A figure of every style and layout, by name."""
    sets = tables()
    many = [Measured(f"{i}.h5", f"m{i}", sets[0].table) for i in range(9)]
    binary = [Measured("two.h5", "uncalibrated", collect(ArrayRows(*truth(400, 2))))]
    epochs = []
    for epoch in (1, 2, 10):
        epochs += [replace(one_set, bundle=f"e.h5:{epoch}") for one_set in sets]
    few_rows = ArrayRows(*truth(300, 4))
    return {
        "bins": figure_of(sets, "bins"),
        "bins-overlay": figure_of(sets, "bins", layout="overlay"),
        "corp-five": figure_of(many[:5], notes=["a long note " * 20]),
        "corp-nine-overlay": figure_of(many, layout="overlay"),
        "corp-classes": figure_of(sets, by="class"),
        "corp-binary": figure_of(binary),
        "bins-classes": figure_of(sets, "bins", by="class"),
        "variance": figure_of([*sets, *many], "variance"),
        "risk": figure_of(sets, "risk"),
        "decision": figure_of(binary, "decision"),
        "gaps": figure_of(sets, "gaps"),
        "epochs": figure_of(epochs, "epochs"),
        "temperature": sweep_temperature(few_rows, "a", points=9),
    }
