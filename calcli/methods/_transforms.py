"""The transforms of the input that a bundle holds: choice among them, agreement."""

from collections.abc import Sequence

import numpy as np

from calcli.block import Block
from calcli.errors import FitError, UsageError
from calcli.numerics import FloatArray


def choose_pool(transforms: Sequence[str], pool: str, method: str) -> list[int]:
    """Indices of the transforms to draw from, in the order of the source.

    method : name of the method, for messages. pool : ``all``, or names and full specs
    with commas between. Raises FitError if the rows have no transforms, UsageError for
    a name that none of them has.
    """
    if not transforms:
        raise FitError(
            f"{method} needs the scores of the same rows under transforms (dataset"
            " transforms/logits), these rows have none; calcli extract --model …"
            " --transform zoom:0.5:0.9:10 makes them"
        )
    if pool == "all":
        return list(range(len(transforms)))
    wanted = list(filter(None, map(str.strip, pool.split(","))))
    for name in wanted:
        if not any(name in (spec, spec.partition(":")[0]) for spec in transforms):
            raise UsageError(
                f"option pool={pool!r}: no transform is {name!r}; there are:"
                f" {', '.join(transforms)}"
            )
    chosen = []
    for m, spec in enumerate(transforms):
        family = spec.partition(":")[0]
        if spec in wanted or family in wanted:
            chosen.append(m)
    return chosen


def agreement(block: Block, transforms: int) -> FloatArray:
    """Compute the share of transforms that keep each row's prediction, (b,).

    The largest logit stays the largest.
    """
    top = block.z.argmax(axis=1)
    kept = np.zeros(len(block))
    for m in range(transforms):
        kept += block.transformed_z(m).argmax(axis=1) == top
    return kept / transforms
