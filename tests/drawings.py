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
    y = np.asarray(correct, dtype=np.int64)
    return RowTable(
        1, confidence, np.asarray(correct, dtype=float), y, y, weight=weight
    )


def rows_like(n=1500, seed=0, power=1.6):
    rng = np.random.default_rng(seed)
    c = 0.2 + 0.8 * rng.random(n) ** 0.5
    return c, (rng.random(n) < c**power).astype(float)


def one(**more):
    return Corp(
        (
            Panel(
                "a title", (measure_curve("uncalibrated", rows_of(*rows_like()), FAST),)
            ),
        ),
        **more,
    )


def tables(k=4):
    rng = np.random.default_rng(3)
    z, y = truth(2000, k, temperature=1.0)
    top = z.argmax(axis=1)
    y = np.where(
        (top == 2) & (rng.random(2000) < 0.8), (top + 1) % k, y
    )  # class 2 is badly wrong
    z[top == 3] *= 1.0
    return [
        Measured("a.h5", label, collect(ArrayRows(z / t, y)))
        for label, t in (("uncalibrated", 1.0), ("hot", 1.5))
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
    sets = tables()
    many = [Measured(f"{i}.h5", f"m{i}", sets[0].table) for i in range(9)]
    z, y = truth(300, 4)
    binary = [Measured("two.h5", "uncalibrated", collect(ArrayRows(*truth(400, 2))))]
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
        "epochs": figure_of(
            [replace(s, bundle=f"e.h5:{at}") for at in (1, 2, 10) for s in sets],
            "epochs",
        ),
        "temperature": sweep_temperature(ArrayRows(z, y), "a", points=9),
    }
