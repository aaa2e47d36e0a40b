"""What may not stand in tables and JSON as it is: formulas, signs that nobody sees, numbers that are none."""

import math
from typing import Any

HIDDEN = {0x61C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), 0x2060, *range(0x2066, 0x206A), 0xFEFF}
"""Characters that turn the direction of text around, break lines, or have no width."""

BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def harmless_cell(text: str) -> str:
    """A foreign name for a cell of CSV: one that a spreadsheet would take for a formula begins with an apostrophe."""
    return f"'{text}" if text.startswith(BEGINS_FORMULA) else text


def finite(value: Any) -> Any:
    """A value for JSON, with null in the place of every number that is not finite."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
