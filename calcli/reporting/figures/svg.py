"""Elements of SVG figures, and the axes that they are drawn in."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from calcli.numerics import FloatArray, IntArray
from calcli.reporting.markup import visible

POINTS = 120
"""Points of a line; more of them would not be seen."""

LINES = 4
"""Colours of lines. Every colour has two dash patterns."""


def element(kind: str, *children: object, **attributes: object) -> Markup:
    """An element. ``class_`` is class, ``data_x`` is data-x; None leaves one out."""
    words = [f"<{kind}"]
    for key, value in attributes.items():
        if value is None:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        words.append(f'{attribute}="{escape(visible(str(value)))}"')
    head = " ".join(words)
    if not children:
        return Markup(f"{head}/>")
    return Markup(f"{head}>{joined(children)}</{kind}>")


def joined(parts: Iterable[object]) -> Markup:
    """Parts one after the other; those that are no markup are escaped."""
    texts = []
    for part in parts:
        if isinstance(part, Markup):
            texts.append(part)
        else:
            texts.append(escape(visible(str(part))))
    return Markup("".join(texts))


def label(x: float, y: float, words: object, anchor: str = "middle") -> Markup:
    """A text at a place."""
    return element("text", words, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def line_class(number: int) -> str:
    """CSS classes of the lines of a version: four colours, each in two dashes."""
    second = number // LINES % 2 == 1
    return f"v{number % LINES} again" if second else f"v{number % LINES}"


def thinned(size: int) -> IntArray:
    """Indices of at most ``POINTS`` of so many points, evenly spread."""
    places = np.linspace(0, size - 1, min(size, POINTS))
    return np.unique(places.round().astype(np.int64))


@dataclass(frozen=True)
class Axes:
    """A rectangle of a figure, and the numbers at its edges."""

    left: float
    top: float
    width: float
    height: float
    x_low: float = 0.0
    x_high: float = 1.0
    y_low: float = 0.0
    y_high: float = 1.0

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def x(self, value: float) -> float:
        """Place of a number on the horizontal axis."""
        return self.left + self.width * (value - self.x_low) / (
            self.x_high - self.x_low
        )

    def y(self, value: float) -> float:
        """Place of a number on the vertical axis; numbers beyond it lie at its edge."""
        inside = min(max(value, self.y_low), self.y_high)
        share = (inside - self.y_low) / (self.y_high - self.y_low)
        return self.top + self.height * (1.0 - share)

    def point(self, x: float, y: float, digits: int = 1) -> str:
        """Two coordinates for a path."""
        return f"{self.x(x):.{digits}f},{self.y(y):.{digits}f}"

    def points(self, x: FloatArray, y: FloatArray, digits: int = 1) -> str:
        """Coordinates for a polyline or a polygon."""
        across = self.left + self.width * (x - self.x_low) / (self.x_high - self.x_low)
        inside = np.clip(y, self.y_low, self.y_high)
        up = (inside - self.y_low) / (self.y_high - self.y_low)
        down = self.top + self.height * (1.0 - up)
        flat = np.stack([across, down], axis=1).ravel().tolist()
        pattern = f"%.{digits}f,%.{digits}f"
        return " ".join([pattern] * len(x)) % tuple(flat)

    def horizontal(self, value: float, class_: str) -> Markup:
        """A line across, at a number of the vertical axis."""
        path = f"M{self.left:.1f} {self.y(value):.1f}H{self.right:.1f}"
        return element("path", d=path, class_=class_)

    def vertical(self, value: float, class_: str) -> Markup:
        """A line down, at a number of the horizontal axis."""
        path = f"M{self.x(value):.1f} {self.top:.1f}V{self.bottom:.1f}"
        return element("path", d=path, class_=class_)

    def polyline(
        self, x: FloatArray, y: FloatArray, class_: str, **more: object
    ) -> Markup:
        """A line through points."""
        return element("polyline", points=self.points(x, y), class_=class_, **more)

    def x_label(self, value: float, words: object) -> Markup:
        """A text beneath a number of the horizontal axis."""
        return label(self.x(value), self.bottom + 20.0, words)

    def y_label(self, value: float, words: object) -> Markup:
        """A text left of a number of the vertical axis."""
        return label(self.left - 8.0, self.y(value) + 5.0, words, "end")


def figure(
    width: float,
    height: float,
    title: str,
    parts: Iterable[object],
    ident: str = "",
    **attributes: object,
) -> Markup:
    """An SVG with its title for screen readers, which read the table beside it.

    ident : name of its file where it can be downloaded.
    """
    return element(
        "svg",
        element("title", title),
        element("g", joined(parts), aria_hidden="true"),
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        class_="figure",
        data_file=ident or None,
        xmlns="http://www.w3.org/2000/svg",
        **attributes,
    )
