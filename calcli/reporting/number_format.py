"""The notation of numbers on a page, the same everywhere.

Percent with one decimal, a minus sign (U+2212), thin spaces between thousands,
intervals as ``12.1 to 14.2``. Nothing rounds to 0 % or 100 %.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from calcli.number_words import noun

THIN_SPACE = "\u202f"
MINUS = "\u2212"

NONE = "–"
"""An empty cell. A column of nothing else is left out of its table."""

HYPHEN_AS_MINUS = re.compile(r"(?<![\w.)\]])-(?=\d)")
COMMA_IN_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def count(value: int) -> str:
    """A number of things, ``12 345``, with a thin space that does not break."""
    return f"{value:,}".replace(",", THIN_SPACE)


def samples(n: int) -> str:
    """``1 sample``, ``12 345 samples``."""
    return f"{count(n)} {noun(n, 'sample')}"


def share(value: float) -> str:
    """A share in percent with one decimal, ``under 0.1%`` or ``over 99.9%`` near an
    end.
    """
    if not math.isfinite(value):
        return NONE
    if value in (0.0, 1.0):
        return f"{value:.0%}"
    if value < 0.0005:
        return "under 0.1%"
    if value >= 0.9995:
        return "over 99.9%"
    return f"{100 * value:.1f}%"


def share_span(low: float, high: float) -> str:
    """An interval of a share, ``77.0% to 93.9%``."""
    if not math.isfinite(low):
        return "no interval"
    return f"{share(low)} to {share(high)}"


def points(gap: float) -> str:
    """A difference of shares in percentage points, without its sign."""
    return f"{abs(gap) * 100:.1f}" if math.isfinite(gap) else NONE


def plain(value: float, digits: int = 1) -> str:
    """A number with a minus sign where it is below 0: 13.1, −0.4, 0.0."""
    return f"{value:z.{digits}f}".replace("-", MINUS)


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign: +13.1, −0.4, 0.0."""
    if not math.isfinite(value):
        return NONE
    shown = plain(value, digits)
    is_positive = value > 0.0 and shown.strip("0.") != ""
    return f"+{shown}" if is_positive else shown


def signed_points(gap: float) -> str:
    """A difference of shares in percentage points with its sign."""
    return signed(100 * gap)


def fixed(value: float | None, digits: int = 3) -> str:
    """A plain number, a dash where there is none; a very small one with an exponent."""
    if value is None or not math.isfinite(value):
        return NONE
    if value != 0.0 and abs(value) < 0.5 * 10**-digits:
        return f"{value:.1e}".replace("-", MINUS)
    return plain(value, digits)


def span(low: float, high: float, scale: float = 100.0, digits: int = 1) -> str:
    """An interval, ``12.1 to 14.2``; words where there is none (NaN).

    Never a half width, which would hide that an interval is skew.
    """
    if math.isnan(low):
        return "no interval"
    return f"{plain(low * scale, digits)} to {plain(high * scale, digits)}"


def typeset(text: str) -> str:
    """A sentence of the evaluation, with its numbers in the notation of the page."""
    text = HYPHEN_AS_MINUS.sub(MINUS, text)
    return COMMA_IN_THOUSANDS.sub(THIN_SPACE, text)


def sentence(text: str) -> str:
    """A text with a capital letter in front and a full stop behind it."""
    text = text.rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


def in_words(value: Any) -> str:
    """A JSON value as words, such as a file's record of its origin.

    Empty values are left out.
    """
    if isinstance(value, Mapping):
        parts = []
        for key, member in value.items():
            if _is_empty(member):
                continue
            words = in_words(member)
            if isinstance(member, Mapping):
                words = f"({words})"
            parts.append(f"{str(key).replace('_', ' ')} {words}")
        return ", ".join(parts)
    if isinstance(value, list | tuple):
        return " ".join(map(in_words, value))
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _is_empty(value: Any) -> bool:
    if value is None or isinstance(value, bool | int):
        return False
    return not value
