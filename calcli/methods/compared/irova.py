"""Isotonic regression one-vs-all, ties broken."""

from dataclasses import dataclass, replace
from typing import Any

from calcli.errors import DataError
from calcli.isotonic import fit_isotonic
from calcli.methods._binary.log_odds import MapFit, Sample
from calcli.methods._binary.maps import TOP_LABEL
from calcli.methods._binary.tables import PiecewiseLinear
from calcli.numerics import FloatArray

# share of the uncalibrated probability that is added, so that flat stretches keep its
# order
TIE_BREAK = 1e-9


@dataclass(frozen=True)
class IsotonicOneVsAll(PiecewiseLinear):
    """Fit one isotonic map per class against the rest, and break ties by the old order.

    q_c = g_c(p_c) + 1e-9 p_c, then divided by the row's sum; g_c as in ``ir``. The
    authors' code divides only inside its ECE and leaves its NLL and squared error
    unnormalised; we always divide (``row_sum_mean`` records by how much). Predictions
    can change.

    Reference: Zadrozny, Elkan (2002), KDD; Zhang, Kailkhura, Han (2020), Mix-n-Match,
    arXiv 2003.07329 (IROvA), and their code for the tie-break.
    """

    list_order = 61
    aliases = ("isotonic-ova",)
    use = "to compare with: loses accuracy with many classes"
    title = "isotonic regression one-vs-all"
    laws = replace(
        TOP_LABEL,
        confidence=False,
        top_label_only=False,
        class_shares=False,
        memory="array",
    )

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        scores, values = fit_isotonic(sample.p, sample.hit, sample.weight).knots
        return MapFit((scores, values), record={"knots": float(len(scores))})

    @staticmethod
    def curve(x: FloatArray, *params: Any) -> FloatArray:
        return PiecewiseLinear.curve(x, *params) + TIE_BREAK * x

    def check_own(self, k: int) -> None:
        super().check_own(k)
        if len(self.maps) != k:
            raise DataError(
                f"there are {len(self.maps)} maps, expected one for each of {k} classes"
            )
