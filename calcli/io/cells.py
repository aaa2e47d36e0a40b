"""Words of others in tables: what a spreadsheet would run, what nobody sees and still changes what is seen."""

__all__ = ["HIDDEN", "harmless_cell"]

HIDDEN = {0x61C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), 0x2060, *range(0x2066, 0x206A), 0xFEFF}
"""Characters that turn the direction of text around, break lines, or have no width."""

BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def harmless_cell(text: str) -> str:
    """A foreign name for a cell of CSV: one that a spreadsheet would take for a formula begins with an apostrophe."""
    return f"'{text}" if text.startswith(BEGINS_FORMULA) else text
