"""Pictures against pictures that were looked at, small and with a tolerance for fonts and versions.

``CALCLI_GOLDEN=write pytest tests/diagrams/test_diagram_golden.py`` draws them anew; look before you keep them.
"""

import io
import os

import numpy as np
import pytest
from conftest import REPOSITORY
from synthetic import truth

from calcli.diagrams.curve import CurveSettings
from calcli.diagrams.matplotlib_theme import DARK, Paper
from calcli.diagrams.panels import Measured
from calcli.diagrams.style import Request, style
from calcli.metrics.collect import collect
from calcli.rows import ArrayRows

pytest.importorskip("matplotlib")
import matplotlib
from matplotlib.image import imread

FOLDER = REPOSITORY / "tests" / "golden" / "diagram"
DPI = 50
TOLERANCE = 0.0015
"""Share of unexplained pixels."""

DRAWN_WITH = "3.11."
"""The matplotlib of constraints.txt, by which the pictures were drawn."""

SETTINGS = CurveSettings(resamples=100)


def sets(k=4, n=1200):
    z, y = truth(n, k, temperature=1.7)
    return [
        Measured("a.h5", name, collect(ArrayRows(z / t, y)))
        for name, t in (("uncalibrated", 1.0), ("ts", 1.7))
    ]


def course():
    """A model that learns and grows too sure."""
    z, y = truth(1200, 4, temperature=1.7)
    temperatures = ((1, 3.0), (5, 1.5), (20, 1.0), (40, 0.7))
    return [
        Measured(f"a.h5:epoch{epoch}", "uncalibrated", collect(ArrayRows(z / t, y)))
        for epoch, t in temperatures
    ]


def sweep():
    z, y = truth(400, 4, temperature=1.7)
    return style("temperature").measure(
        Request(SETTINGS, rows=ArrayRows(z, y), source="a.h5")
    )


CASES = {
    "corp": lambda: style("corp").measure(Request(SETTINGS, sets())),
    "bins": lambda: style("bins").measure(Request(SETTINGS, sets()[:1])),
    "overlay-dark": lambda: style("corp").measure(
        Request(SETTINGS, sets(), layout="overlay")
    ),
    "positive": lambda: style("corp").measure(Request(SETTINGS, sets(2)[:1])),
    "variance": lambda: style("variance").measure(Request(SETTINGS, sets())),
    "risk": lambda: style("risk").measure(Request(SETTINGS, sets())),
    "decision": lambda: style("decision").measure(Request(SETTINGS, sets(2))),
    "gaps": lambda: style("gaps").measure(Request(SETTINGS, sets(20))),
    "epochs": lambda: style("epochs").measure(Request(SETTINGS, course())),
    "temperature": sweep,
}


def drawn(case, shift=0.0):
    """Grey values of a figure, (height, width) in 0..1."""
    figure = CASES[case]()
    paper = Paper(DARK) if case.endswith("dark") else Paper()
    out = io.BytesIO()
    with paper.matplotlib():
        picture = style(figure.style).draw(figure, paper)
        if shift:
            for line in picture.axes[0].lines[1:]:
                line.set_ydata(np.asarray(line.get_ydata()) + shift)
        picture.savefig(out, format="png", dpi=DPI, metadata={"Software": None})
    return out.getvalue()


def grey(source):
    return imread(source, format="png")[..., :3].mean(axis=2)


def unexplained(a, b):
    """Share of the pixels of a that no pixel of b within one step explains: letters may move by one, curves not."""
    height, width = (min(pair) for pair in zip(a.shape, b.shape, strict=True))
    assert max(abs(x - y) for x, y in zip(a.shape, b.shape, strict=True)) <= 2
    a, b = a[:height, :width], np.pad(b[:height, :width], 1, mode="edge")
    near = [b[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    return float(
        ((a < np.min(near, axis=0) - 0.1) | (a > np.max(near, axis=0) + 0.1)).mean()
    )


def distance(a, b):
    """The larger of both directions."""
    return max(unexplained(a, b), unexplained(b, a))


@pytest.mark.skipif(
    not matplotlib.__version__.startswith(DRAWN_WITH),
    reason="another matplotlib sets letters elsewhere, about 1 %",
)
@pytest.mark.parametrize("case", CASES)
def test_the_picture_is_the_one_that_was_looked_at(case):
    path = FOLDER / f"{case}.png"
    now = drawn(case)
    if os.environ.get("CALCLI_GOLDEN") == "write":
        path.write_bytes(now)
    assert distance(grey(io.BytesIO(now)), grey(path)) < TOLERANCE


def test_a_moved_curve_is_noticed():
    assert (
        distance(
            grey(io.BytesIO(drawn("corp", shift=-0.05))), grey(FOLDER / "corp.png")
        )
        > TOLERANCE
    )
