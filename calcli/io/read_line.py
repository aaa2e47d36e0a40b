"""The line that says what was read."""

from calcli.number_words import samples
from calcli.rows import classes


def read_line(name: str, n: int, k: int, arrays: str = "") -> str:
    """``Read val.npz: 5,000 samples, 100 classes ('logits', 'labels').``

    name : of the rows. n : their number. k : number of classes, at most 1 for
    confidences. arrays : which array is what, of files that were imported.
    """
    of_what = f" ({arrays})" if arrays else ""
    return f"Read {name}: {samples(n)}, {classes(k)}{of_what}."
