"""Binning conventions of other programs, to reproduce their numbers.

Each entry states the bins of one program as found in its source; sums stay ours (int64
counts, float64 sums), so float32 accumulation errors of others are not imitated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calcli.binning import BinStats
from calcli.numerics import FloatArray


def _float32_width(scores: FloatArray, bins: int) -> FloatArray:
    return np.linspace(0.0, 1.0, bins + 1, dtype=np.float32).astype(np.float64)


def _width(scores: FloatArray, bins: int) -> FloatArray:
    return np.linspace(0.0, 1.0, bins + 1)


def _one_fewer(scores: FloatArray, bins: int) -> FloatArray:
    return np.linspace(0.0, 1.0, max(bins, 2))


def _ratio_width(scores: FloatArray, bins: int) -> FloatArray:
    return np.arange(bins + 1) * 1.0 / bins


def _quantile(scores: FloatArray, bins: int) -> FloatArray:
    edges = np.quantile(scores, np.linspace(0.0, 1.0, bins + 1))
    edges[0] = 0.0
    edges[-1] = 1.0
    return np.unique(edges)


@dataclass(frozen=True)
class Convention:
    """One program's binning.

    edges : its edges for scores and a number of bins. closed : which end of a bin
    belongs to it. below : what happens to scores at or below the lowest edge, ``first``
    bin or ``dropped`` (they stay in the divisor). top : where a score of 1 goes, the
    ``last`` bin or one of its ``own``.
    """

    edges: Callable[[FloatArray, int], FloatArray]
    closed: Literal["left", "right"]
    below: Literal["first", "dropped"]
    top: Literal["last", "own"]

    def binned(
        self,
        scores: FloatArray,
        outcomes: FloatArray,
        bins: int,
        weight: FloatArray | None = None,
    ) -> BinStats:
        """Bin sums under this convention; dropped rows are a last bin without a gap."""
        edges = self.edges(scores, bins)
        count = len(edges) - 1
        index = (
            np.searchsorted(
                edges, scores, side="left" if self.closed == "right" else "right"
            )
            - 1
        )
        index = np.minimum(index, count if self.top == "own" else count - 1)
        index = np.where(index < 0, 0 if self.below == "first" else count + 1, index)
        stats = BinStats.at(index, count + 2, scores, outcomes, weight)
        stats.score[count + 1] = stats.outcome[count + 1] = 0.0
        return stats


CONVENTIONS: dict[str, Convention] = {
    # gpleiss/temperature_scaling and the spline, IOP and ReCal repositories: (lo, hi], a score of 0 dropped
    "guo": Convention(_float32_width, "right", "dropped", "last"),
    # torchmetrics MulticlassCalibrationError: float32 edges, [lo, hi), a score of 1 in a bin of its own
    "torchmetrics": Convention(_float32_width, "left", "first", "own"),
    # netcal ECE: [lo, hi), the last bin closed; its own default is 10 bins
    "netcal": Convention(_width, "left", "first", "last"),
    # netcal ECE, equal_intervals=False: edges at quantiles, [lo, hi), the last bin closed
    "netcal-mass": Convention(_quantile, "left", "first", "last"),
    # verified_calibration get_ece (width bins with edges i/bins, (lo, hi]); its L2 errors use equal mass
    "verified": Convention(_ratio_width, "right", "first", "last"),
    # MAPIE expected_calibration_error, split_strategy='uniform': N bins (by default 50) are N - 1 intervals (lo, hi]
    "mapie": Convention(_one_fewer, "right", "first", "last"),
    # Kull et al. 2019 classwise-ECE: N bins are N - 1 intervals [lo, hi), a score of 1 in a bin of its own
    "kull": Convention(_one_fewer, "left", "first", "own"),
}

PROGRAMS = [*CONVENTIONS, "relplot"]
"""Programs whose numbers can be reproduced: those with bins of their own, and relplot
with its smooth error.
"""
