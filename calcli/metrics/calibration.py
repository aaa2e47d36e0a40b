"""Calibration errors of binned scores, as published. Pure functions of bin sums.

The functions take bin sums whose last axis is the bins; leading axes (classes,
resamples) are carried along, which is how a null distribution costs one call.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from calcli.binning import BinStats, mass_edges, width_edges
from calcli.numerics import FloatArray

__all__ = ["Bins", "auroc", "binned", "binned_error", "edges_for", "gap_variance", "monotone_mass_bins"]

Scheme = Literal["width", "mass"]


@dataclass(frozen=True)
class Bins:
    """Sums over bins: mass (…, b) weights, score and hits (…, b) weighted sums, n (…, b) rows."""

    mass: FloatArray
    score: FloatArray
    hits: FloatArray
    n: FloatArray

    @classmethod
    def of(cls, stats: BinStats) -> "Bins":
        """The sums of one binned column."""
        return cls(stats.mass, stats.score, stats.hits, stats.count.astype(np.float64))

    def with_hits(self, hits: FloatArray) -> "Bins":
        """The same bins with other outcomes, (…, b)."""
        return Bins(self.mass, self.score, hits, self.n)

    @property
    def gaps(self) -> FloatArray:
        """Mean score minus mean outcome; 0 in an empty bin."""
        gap = self.score - self.hits
        return np.divide(gap, self.mass, out=np.zeros(gap.shape), where=np.broadcast_to(self.mass > 0, gap.shape))

    @property
    def share(self) -> FloatArray:
        """Share of the weight in each bin, (…, b)."""
        return np.asarray(self.mass / self.mass.sum(axis=-1, keepdims=True))


def edges_for(scores: FloatArray, bins: int, scheme: Scheme) -> FloatArray:
    """Edges of ``bins`` bins of equal width, or holding equally many of the scores."""
    return width_edges(bins) if scheme == "width" else mass_edges(scores, bins)


def binned(scores: FloatArray, outcomes: FloatArray, edges: FloatArray, weight: FloatArray | None = None) -> Bins:
    """Bin sums of scores (n,) with 0/1 outcomes (n,)."""
    return Bins.of(BinStats.of(scores, outcomes, edges, weight))


def binned_error(bins: Bins, norm: float = 1.0) -> FloatArray:
    """Calibration error of binned scores: (sum_b share_b |gap_b|^p)^(1/p); p = inf the largest gap.

    Returns the leading shape of ``bins``. p = 1 is the expected calibration error, p = inf
    the maximum calibration error over bins that hold anything.

    Reference: Naeini, Cooper, Hauskrecht (2015); Guo et al. (2017), equations 3 and 5.
    """
    gap = np.abs(bins.gaps)
    if np.isinf(norm):
        return np.asarray(gap.max(axis=-1))
    return np.asarray((bins.share * gap**norm).sum(axis=-1) ** (1.0 / norm))


def gap_variance(bins: Bins) -> FloatArray:
    """Spread of the bins' gaps around the ECE: sum_b share_b (|gap_b| - ECE)^2 (ReCal's "VCE")."""
    ece = binned_error(bins)[..., None]
    return np.asarray((bins.share * (np.abs(bins.gaps) - ece) ** 2).sum(axis=-1))


def auroc(scores: FloatArray, outcomes: FloatArray, weight: FloatArray | None = None) -> float | None:
    """Probability that a right row has a higher score than a wrong one, ties count half.

    None when all rows are right or all are wrong. Reference: Hanley, McNeil (1982).
    """
    w = np.ones(len(scores)) if weight is None else weight
    order = np.argsort(scores, kind="stable")
    s, right = scores[order], (w * outcomes)[order]
    wrong = w[order] - right
    first = np.flatnonzero(np.concatenate([[True], np.diff(s) > 0]))
    right_here, wrong_here = np.add.reduceat(right, first), np.add.reduceat(wrong, first)
    pairs = float(right_here.sum() * wrong_here.sum())
    if pairs <= 0.0:
        return None
    below = np.cumsum(wrong_here) - 0.5 * wrong_here
    return float(right_here @ below) / pairs


def monotone_mass_bins(scores: FloatArray, outcomes: FloatArray) -> int:
    """Largest number of mass bins up to which the bins' accuracies keep rising (ECE-sweep).

    The number of bins grows from 1 until the accuracies are no longer non-decreasing.
    Reference: Roelofs, Cain, Shlens, Mozer (2022), section 5.
    """
    best = 1
    for bins in range(2, len(scores) + 1):
        stats = BinStats.of(scores, outcomes, mass_edges(scores, bins))
        held = stats.mass > 0
        if (np.diff(stats.hits[held] / stats.mass[held]) < 0).any():
            break
        best = bins
    return best
