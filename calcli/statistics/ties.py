"""Rows ranked by score, equal scores together: the input of metrics of order."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from calcli.numerics import FloatArray, ends_of_runs, row_weights, starts_of_ties


@dataclass(frozen=True)
class TieBlocks:
    """Distinct scores, ascending, with the weight of the right and of the wrong
    outcomes at each; (b,) each. Scores that are equal but for rounding
    (``numerics.TIE``) are one, the largest of them.
    """

    score: FloatArray
    right: FloatArray
    wrong: FloatArray


@dataclass(frozen=True)
class Ranked:
    """Tie blocks of all rows, some at a time, ascending; can be walked over again and
    again. right, wrong : total weights of the outcomes. walk : begins a walk. weighted
    : whether rows count by weights.
    """

    right: float
    wrong: float
    walk: Callable[[], Iterator[TieBlocks]]
    weighted: bool = False

    @classmethod
    def of(
        cls,
        scores: FloatArray,
        outcomes: FloatArray,
        weight: FloatArray | None = None,
        least: float = 0.0,
    ) -> "Ranked":
        """Rank scores with outcomes (n,).

        least : as ``numerics.starts_of_ties`` takes it.
        """
        order = np.argsort(scores, kind="stable")
        ordered = scores[order]
        w = row_weights(weight, len(scores))[order]
        right = w * outcomes[order]
        first = starts_of_ties(ordered, least)
        last = ends_of_runs(first, len(ordered))
        blocks = TieBlocks(
            ordered[last],
            np.add.reduceat(right, first),
            np.add.reduceat(w - right, first),
        )
        return cls(
            float(blocks.right.sum()),
            float(blocks.wrong.sum()),
            lambda: iter([blocks]),
            weight is not None,
        )

    def __iter__(self) -> Iterator[TieBlocks]:
        return self.walk()


def running(
    ranked: Iterable[TieBlocks],
) -> Iterator[tuple[TieBlocks, FloatArray, FloatArray]]:
    """Blocks with the weight of right and of wrong outcomes below each of them."""
    right = wrong = 0.0
    for blocks in ranked:
        upto = right + np.cumsum(blocks.right)
        wrong_upto = wrong + np.cumsum(blocks.wrong)
        yield blocks, upto - blocks.right, wrong_upto - blocks.wrong
        right = float(upto[-1])
        wrong = float(wrong_upto[-1])
