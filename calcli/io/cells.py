"""Words in tables that a spreadsheet may open."""

__all__ = ["harmless_cell"]

BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def harmless_cell(text: str) -> str:
    """A foreign name for a cell of CSV: one that a spreadsheet would take for a formula begins with an apostrophe."""
    return f"'{text}" if text.startswith(BEGINS_FORMULA) else text
