"""Small drawings inside lines of tables, and samples of lines."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from calcli.reporting.figures.svg import element, line_class
from calcli.reporting.gather import Part

HALF = 76.0
"""Width of either side of the axis of a gap, in pixels of its drawing."""

MIDDLE = 80.0

HEAD = '<svg class="gap" viewBox="0 0 160 14" aria-hidden="true">'


def line_sample(number: int) -> Markup:
    """A sample of the line of one version, for switches and tables."""
    line = element("path", d="M0 6H34", class_=f"curve {line_class(number)}")
    return element(
        "svg", line, viewBox="0 0 34 12", class_="sample", aria_hidden="true"
    )


@dataclass(frozen=True)
class GapAxis:
    """An axis centred at a gap of 0, as wide as the largest gap of a table.

    scale : pixels of a gap of 1.
    """

    scale: float

    @classmethod
    def of(cls, parts: Iterable[Part]) -> "GapAxis":
        """The axis that holds all gaps and their intervals."""
        largest = 0.0
        for part in parts:
            for value in (part.low, part.gap, part.high):
                if math.isfinite(value):
                    largest = max(largest, abs(value))
        return cls(HALF / (largest or 1.0))

    def marks(self, part: Part, before: Part | None = None) -> Markup:
        """A gap with its interval, and an upright mark for the gap before.

        The numbers stand beside it in the table. The dot is filled where the gap is
        significant. Kept short: a page may have thousands.
        """
        scale = self.scale
        dot = "dot" if part.is_significant else "ring"
        gap = (
            f'<circle class="{dot}" cx="{MIDDLE + scale * part.gap:.0f}" cy="7" r="4"/>'
        )
        was = interval = ""
        if before is not None:
            was = f'<path class="was" d="M{MIDDLE + scale * before.gap:.0f} 1v12"/>'
        if math.isfinite(part.low):
            low = MIDDLE + scale * part.low
            high = MIDDLE + scale * part.high
            interval = f'<path d="M{low:.0f} 7H{high:.0f}"/>'
        return Markup(f"{HEAD}{was}{interval}{gap}</svg>")
