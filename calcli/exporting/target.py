"""What a target of an export gives: the bytes of a file, and how it is run."""

from collections.abc import Callable
from typing import NamedTuple

from calcli.numerics import AnyArray, IntArray

Run = Callable[..., tuple[AnyArray, IntArray]]
"""Function of scores (n, k) of any float type, and groups (n,) for a calibrator by
group, to probabilities (n, k) and predictions (n,). It converts the scores to the type
that the export takes.
"""


class Written(NamedTuple):
    """An export as written: the bytes of its file, and the calibrator loaded from them."""

    data: bytes
    run: Run
