"""What a fit says of its rows, before and after: sums that add, so that no row is kept."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from operator import or_
from typing import Annotated

import numpy as np

from calcli.binning import BinStats, width_edges
from calcli.fast_dataclass import Sums, dataclass
from calcli.numerics import NLL_OF_ZERO, FloatArray, IntArray

EDGES = width_edges(15)


@dataclass(frozen=True)
class Summary(Sums):
    """Sums over rows, weighted where the rows are. Adds, in the order of the rows.

    n : rows. correct, nll, brier : of the usual row losses. zeros : rows whose label has a probability of 0, which
    costs a finite NLL all the same. entropy_gap : of -ln p_y minus the entropy, which is 0 at the temperature of the
    least NLL. Of confidences alone (one class) all three are about being right. bins : confidence and correctness over
    15 equal-width bins. label_counts : (k,) rows. lowest, highest : confidence. weighted : whether the rows carry
    weights. counts : what the calibrator reported.
    """

    n: int
    correct: float
    nll: float
    brier: float
    entropy_gap: float
    bins: BinStats
    label_counts: IntArray
    lowest: Annotated[float, min]
    highest: Annotated[float, max]
    zeros: int = 0
    weighted: Annotated[bool, or_] = False
    counts: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        confidence: FloatArray,
        correct: FloatArray,
        losses: Sequence[FloatArray],
        labels: IntArray,
        k: int,
        weight: FloatArray | None = None,
        counts: Mapping[str, int] | None = None,
    ) -> "Summary":
        """The summary of some rows. losses : NLL, Brier score and entropy gap, (n,) each."""

        def total(values: FloatArray) -> float:
            return float(values.sum() if weight is None else weight @ values)

        bins, per_class = BinStats.of(confidence, correct, EDGES, weight), np.bincount(labels, minlength=k)
        nll, brier, entropy_gap = (total(values) for values in losses)
        ends, zeros = (float(confidence.min()), float(confidence.max())), int((losses[0] == NLL_OF_ZERO).sum())
        sums = total(correct), nll, brier, entropy_gap
        return cls(len(labels), *sums, bins, per_class, *ends, zeros, weight is not None, dict(counts or {}))

    @property
    def weight(self) -> float:
        """Total weight, the number of rows where none are given."""
        return float(self.bins.weight.sum())

    @property
    def spread(self) -> float:
        return self.highest - self.lowest

    @property
    def confidence_gap(self) -> float:
        """Mean confidence minus accuracy."""
        return (float(self.bins.score.sum()) - self.correct) / self.weight

    def values(self) -> dict[str, float]:
        """Accuracy, NLL, Brier score and ECE over 15 equal-width bins, as an artifact records them. Of confidences
        alone (one class) NLL and Brier score are those of being right, and called so."""
        top = "_top" if len(self.label_counts) == 1 else ""
        sums = {"accuracy": self.correct, f"nll{top}": self.nll, f"brier{top}": self.brier}
        means = {name: total / self.weight for name, total in sums.items()}
        return means | {"ece": float(np.abs(self.bins.gaps) @ self.bins.share)}
