"""Summary of the calibration rows before and after a fit: sums over rows, so that no
row is kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import or_
from typing import Annotated

import numpy as np

from calcli.binning import BinStats, width_edges
from calcli.numerics import FloatArray, IntArray
from calcli.records import Sums

EDGES = width_edges(15)


@dataclass(frozen=True)
class Summary(Sums):
    """Sums over rows, weighted by sample weights if there are any.

    Adds, in the order of the rows.

    n : number of rows. correct, nll, brier : sums of the losses per row. zeros : rows
    whose label has probability 0, which counts as a finite NLL. entropy_gap : sum of
    -ln p_y minus the entropy, 0 at the temperature of least NLL. With confidences alone
    (one class) all three are of being right. bins : confidence and correctness over 15
    equal-width bins. label_counts : (k,) rows. lowest, highest : confidence. weighted :
    whether the rows carry weights. counts : what the calibrator reported.
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
        zeros: int = 0,
    ) -> "Summary":
        """Build the summary of some rows.

        losses : NLL, Brier score and entropy gap, (n,) each. zeros : rows whose label
        has probability 0.
        """

        def total(values: FloatArray) -> float:
            return float(values.sum() if weight is None else weight @ values)

        nll, brier, entropy_gap = losses
        return cls(
            n=len(labels),
            correct=total(correct),
            nll=total(nll),
            brier=total(brier),
            entropy_gap=total(entropy_gap),
            bins=BinStats.of(confidence, correct, EDGES, weight),
            label_counts=np.bincount(labels, minlength=k),
            lowest=float(confidence.min()),
            highest=float(confidence.max()),
            zeros=zeros,
            weighted=weight is not None,
            counts=dict(counts or {}),
        )

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
        """Accuracy, NLL, Brier score and ECE over 15 equal-width bins, as an artifact
        records them. With confidences alone (one class) NLL and Brier score are of
        being right: ``nll_top``, ``brier_top``.
        """
        top = "_top" if len(self.label_counts) == 1 else ""
        sums = {
            "accuracy": self.correct,
            f"nll{top}": self.nll,
            f"brier{top}": self.brier,
        }
        means = {name: total / self.weight for name, total in sums.items()}
        return means | {"ece": float(np.abs(self.bins.gaps) @ self.bins.share)}
