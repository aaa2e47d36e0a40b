"""Isotonic regression."""

from dataclasses import dataclass
from typing import Any

from calcli.isotonic import fit_isotonic
from calcli.methods._binary.log_odds import MapFit, Sample
from calcli.methods._binary.maps import TOP_LABEL, ModeOptions
from calcli.methods._binary.tables import PiecewiseLinear


@dataclass(frozen=True)
class IsotonicRegression(PiecewiseLinear):
    """Fit the non-decreasing map with the least squared error.

    Equal scores are merged first, then neighbours that fall are pooled until none does.
    New scores get a straight line between the pooled blocks and the end values beyond
    them (scikit-learn's default gives NaN there). The same map also minimises the NLL
    among all non-decreasing ones on the calibration rows, but blocks without a single
    error say 0 or 1 and cost -log of almost nothing when a new row is wrong there.

    Reference: Zadrozny, Elkan (2002), KDD; Guo et al. (2017), section 4.1.
    """

    list_order = 32
    aliases = ("isotonic",)
    use = "two classes or the confidence alone, with 1000 rows or more"
    title = "isotonic regression"
    laws = TOP_LABEL
    Options = ModeOptions

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        scores, values = fit_isotonic(
            sample.x, sample.hit, sample.weight, float(sample.in_log_odds)
        ).knots
        return MapFit.table(sample, scores, values, {"knots": float(len(scores))})
