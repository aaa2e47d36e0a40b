"""What to say of a file that is not there."""

import os
import re
from difflib import get_close_matches
from pathlib import Path

ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
"""Start of a web address."""

MOST_NAMES = 2000
"""Entries of a folder among which a similar name is looked for."""


def is_address(name: str) -> bool:
    """True for a web address."""
    return ADDRESS.match(name) is not None


def no_such_file(path: Path) -> str:
    """The sentence for a missing file, with a similar name where there is one.

    Of a link it says where it leads.
    """
    if path.is_symlink():
        return f"{path}: is a link to {os.readlink(path)}, and leads to no file"
    near = _similar_names(path)
    if near:
        return f"{path}: no such file; did you mean {' or '.join(near)}?"
    return f"{path}: no such file"


def _similar_names(path: Path) -> list[str]:
    """Up to two files of similar names in the folder of a missing one."""
    try:
        names = os.listdir(path.parent)
    except OSError:
        return []
    matches = get_close_matches(path.name, names[:MOST_NAMES], n=2, cutoff=0.75)
    return [str(path.parent / match) for match in matches]
