"""Numbers for people. Nothing rounds to 0 % or 100 %; minus is a minus sign."""

import math
from collections.abc import Mapping
from typing import Any

THIN_SPACE = "\u202f"


def count(value: int) -> str:
    """12 345, with a thin space that does not break."""
    return f"{value:,}".replace(",", THIN_SPACE)


def samples(n: int) -> str:
    """``1 sample``, ``12 345 samples``."""
    return f"{count(n)} sample{'s'[: n != 1]}"


def per_cent(share: float) -> str:
    """A share in whole percent; ``under 0.1%`` and ``over 99.9%`` at the ends."""
    if not math.isfinite(share):
        return "–"
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    if share < 0.001:
        return "under 0.1%"
    if share > 0.999:
        return "over 99.9%"
    return f"{share:.1%}" if share < 0.01 or share > 0.99 else f"{share:.0%}"


def share(value: float) -> str:
    """A share in percent, one decimal; ``over 99.9%`` and ``under 0.1%`` where it would round to a bound."""
    shown = f"{100 * value:.1f}%"
    return (
        per_cent(value)
        if shown in ("0.0%", "100.0%") or not math.isfinite(value)
        else shown
    )


def points(gap: float) -> str:
    """A difference of shares in percentage points, without its sign, one decimal."""
    return f"{abs(gap) * 100:.1f}" if math.isfinite(gap) else "–"


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign: +13.1, −0.4, 0.0."""
    if not math.isfinite(value):
        return "–"
    shown = f"{abs(value):.{digits}f}"
    return shown if float(shown) == 0 else f"{'+' if value > 0 else '−'}{shown}"


def fixed(value: float | None, digits: int = 3) -> str:
    """A plain number, a dash where there is none; very small ones in powers of ten."""
    if value is None or not math.isfinite(value):
        return "–"
    if value != 0 and abs(value) < 0.5 * 10**-digits:
        return f"{value:.1e}".replace("-", "−")
    return f"{value:.{digits}f}".replace("-", "−")


def span(low: float, high: float, scale: float = 100.0, digits: int = 1) -> str:
    """``12.1 to 14.2``; never the half width, which would hide an interval's skew. Words where there is none (NaN)."""
    if math.isnan(low):
        return "no interval"
    return f"{signed(low * scale, digits)} to {signed(high * scale, digits)}".replace(
        "+", ""
    )


def in_words(value: Any) -> str:
    """Format a JSON value, such as a file's record of its origin, as words; empty values are left out."""
    if isinstance(value, Mapping):
        kept = [
            (key, each)
            for key, each in value.items()
            if each is None or isinstance(each, bool | int) or each
        ]
        nested = (
            (f"({in_words(e)})" if isinstance(e, Mapping) else in_words(e))
            for _, e in kept
        )
        return ", ".join(
            f"{str(key).replace('_', ' ')} {words}"
            for (key, _), words in zip(kept, nested, strict=True)
        )
    if isinstance(value, list | tuple):
        return " ".join(in_words(each) for each in value)
    return (
        {True: "yes", False: "no", None: "none"}[value]
        if value is None or isinstance(value, bool)
        else str(value)
    )
