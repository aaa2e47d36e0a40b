"""Values that are safe to write: no spreadsheet formulas, invisible characters or
non-finite numbers.
"""

import math
from typing import Any

HIDDEN = {
    0x61C,
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    0x2060,
    *range(0x2066, 0x206A),
    0xFEFF,
}
"""Code points that change text direction, break lines, or have no width."""

BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def harmless_cell(text: str) -> str:
    """Escape a name from a file for a CSV cell: an apostrophe before what a spreadsheet
    would run as a formula.
    """
    return f"'{text}" if text.startswith(BEGINS_FORMULA) else text


def finite(value: Any) -> Any:
    """Replace non-finite numbers in a JSON value by null."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
