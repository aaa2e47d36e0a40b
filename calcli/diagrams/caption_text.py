"""Texts of figures and terminal drawings: numbers in words, shortened names, aligned
tables, round ticks.
"""

from collections.abc import Sequence
from os.path import commonprefix

import numpy as np

from calcli.diagrams.curve import Curve
from calcli.statistics.p_values import p_text


def p_value(curve: Curve) -> str:
    """P-value of the ECE (null: perfect calibration) as text: ``p = 0.31``."""
    return p_text(curve.ece_p, curve.ece_draws)


def direction(curve: Curve) -> str:
    """Size and direction of mean confidence minus accuracy as text: ``0.1033 too
    high``, or ``equal``.
    """
    gap = curve.mean_confidence - curve.accuracy
    if abs(gap) < 5e-5:
        return "equal"
    side = "high" if gap > 0 else "low"
    return f"{abs(gap):.4f} too {side}"


def recalibration_parts(curve: Curve) -> list[str]:
    """Calibration slope and intercept with their intervals, as parts of a line."""
    parts = []
    if curve.slope is not None:
        parts.append(f"slope {curve.slope}")
    if curve.intercept is not None:
        parts.append(f"intercept {curve.intercept}")
    return parts


def fall_words(curve: Curve, show: str = "the dots show bins") -> str:
    """Note on a significant fall of the outcome, which isotonic regression shows as
    level; empty if there is none.
    """
    if curve.fall is None:
        return ""
    x, y = curve.words
    bins = curve.bins
    ends = []
    for i in curve.fall:
        reach = f"{bins.low[i]:.2g} to {bins.high[i]:.2g}"
        ends.append(f"{bins.accuracy[i]:.2f} for {x} {reach}")
    return (
        f"{y} is significantly not monotone: {' but '.join(ends)};"
        f" the isotonic curve is level there, {show}"
    )


def short(count: float) -> str:
    """A count in at most five letters: 950, 12345, 250k, 2.5M."""
    if count < 1e5 and count % 1000:
        return f"{count:.0f}"
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0f}"


def squeeze(text: str, width: int) -> str:
    """Shorten a text in its middle to at most ``width`` characters; unprintable
    characters are escaped.
    """
    text = printable(text)
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def distinct(names: Sequence[str]) -> list[str]:
    """Strip the folders and the extension and group that all names share; unchanged if
    a name would become empty.
    """
    head = commonprefix(list(names))  # noqa: RUF071 (by letters)
    tail = commonprefix([name[::-1] for name in names])[::-1]  # noqa: RUF071
    begin = 1 + max(map(head.rfind, "/\\:"))
    ends = [tail.find(character) for character in ".:" if character in tail]
    end = len(tail) - min(ends) if ends else 0
    cut = [name[begin : len(name) - end] for name in names]
    return cut if all(cut) else list(names)


def table(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """Format rows of texts as lines, the first column aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        lines.append(gap.join(cells))
    return lines


def round_ticks(low: float, high: float) -> list[float]:
    """Round tick values between two positive limits of a logarithmic axis."""
    ratio = high / low
    steps: tuple[float, ...] = (1, 1.5, 2, 3, 5, 7)
    if ratio > 1000:
        steps = (1,)
    elif ratio > 20:
        steps = (1, 2, 5)
    ticks = []
    for decade in range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1):
        for step in steps:
            tick = float(f"{step}e{decade}")  # parsed, so that no product is rounded
            if low * 0.999 <= tick <= high * 1.001:
                ticks.append(tick)
    return ticks


def printable(text: str) -> str:
    """Escape characters that XML cannot hold or nobody can see, such as control
    characters and lone surrogates.
    """
    characters = []
    for character in text:
        if character.isprintable() or character == " ":
            characters.append(character)
        else:
            characters.append(f"\\x{ord(character):02x}")
    return "".join(characters)
