"""Isotonic regression."""

from collections.abc import Iterator
from typing import Any

from calcli.calibrator import Curves, param
from calcli.isotonic import fit_isotonic
from calcli.methods._binary.curves import EMPTY, check_line, line
from calcli.methods._binary.log_odds import Sample
from calcli.methods._binary.maps import TOP_LABEL, BinaryCalibrator, MapFit, ModeOptions, few_rows_per_class
from calcli.numerics import FloatArray
from calcli.plain import dataclass
from calcli.rows import Rows


class IsotonicOptions(ModeOptions, frozen=True):
    """Options of isotonic regression."""


@dataclass(frozen=True)
class IsotonicRegression(BinaryCalibrator):
    """Fit the non-decreasing map with the least squared error.

    Equal scores are merged first, then neighbours that fall are pooled until none does.
    New scores get a straight line between the pooled blocks and the end values beyond them
    (scikit-learn's default gives NaN there). The same map also minimises the NLL among all
    non-decreasing ones on the calibration rows, but blocks without a single error say 0 or
    1 and cost -log of almost nothing when a new row is wrong there.

    Reference: Zadrozny, Elkan (2002), KDD; Guo et al. (2017), section 4.1.
    """

    scores: Curves = param()
    values: Curves = param()

    place = 32
    aliases = ("isotonic",)
    use = "two classes or the confidence alone, with 1000 rows or more"
    title = "isotonic regression"
    laws = TOP_LABEL
    Options = IsotonicOptions
    identity = (EMPTY, EMPTY)

    @classmethod
    def fit_map(cls, sample: Sample, options: Any) -> MapFit:
        scores, values = fit_isotonic(sample.p, sample.hit, sample.weight).knots
        return MapFit((scores, values), record={"knots": float(len(scores))})

    @staticmethod
    def curve(x: FloatArray, *params: Any) -> FloatArray:
        return line(x, *params)

    @classmethod
    def advice(cls, rows: Rows, options: Any) -> Iterator[str]:
        yield from few_rows_per_class(rows, options.mode)

    def check(self, k: int) -> None:
        super().check(k)
        for scores, values in self.maps:
            check_line(scores, values)


METHOD = IsotonicRegression
