"""Platt scaling by group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calcli.block import Block, Codes
from calcli.calibrator import Prediction, check_numbers, param
from calcli.methods._binary.log_odds import Sample, single_sample
from calcli.methods._binary.maps import TOP_LABEL
from calcli.methods._groups import ByGroup, places
from calcli.methods._partial_pooling import GroupSums, Pooled
from calcli.methods.platt import PlattScaling
from calcli.numerics import BoolArray, FloatArray, entries, row_weights, sigmoid
from calcli.rows import Rows

DIGITS = 10
"""Digits of the common map around which the groups' maps are found."""


def rounded(values: FloatArray, digits: int) -> FloatArray:
    """Values (n,) with so many digits."""
    return np.array([float(f"{value:.{digits - 1}e}") for value in values])


@dataclass(frozen=True)
class PlattByGroup(ByGroup):
    """Give every group a Platt map, pulled towards the common one (partial pooling).

    q = sigmoid((slope + a_g) s + intercept + b_g) with s the log-odds of Platt scaling:
    of class 1 of two classes, of the prediction otherwise. Around the common map u =
    slope s + intercept a group has the map u + e_g u + f_g with e_g ~ N(0, tau_1^2),
    f_g ~ N(0, tau_2^2), which are found and estimated as in ``ts-by``; a_g = e_g slope
    and b_g = e_g intercept + f_g. ``groups`` holds (a_g, b_g); a group that the fit has
    not seen has the common map, and so has every group where held-out rows do not speak
    for the groups (``guard``).

    Reference: Platt (1999); Gelman, Hill (2006), chapter 13 (varying slopes).
    """

    by: str = param()
    slope: float = param()
    intercept: float = param()
    tau: FloatArray = param(2, within="positive")
    groups: Mapping[str, tuple[float, float]] = param()
    mode: str = param()
    sure: float | None = param(optional=True, default=None)

    list_order = 35
    aliases = ("platt-by-group",)
    use = "two classes or confidences, of sites or tasks that differ: fit --by NAME"
    title = "Platt scaling by group"
    laws = TOP_LABEL
    COMMON = "platt"
    OF_COMMON = PlattScaling
    # of a slope, in units of the common one, and of an intercept
    FARTHEST = np.array([10.0, 10.0])

    @classmethod
    def without_last_digits(cls, common: PlattScaling) -> PlattScaling:
        slope = rounded(common.slope, DIGITS)
        return replace(common, slope=slope, intercept=rounded(common.intercept, DIGITS))

    @classmethod
    def around(
        cls, common: PlattScaling, by: str, names: Sequence[str], pooled: Pooled
    ) -> Self:
        slope = float(common.slope[0])
        intercept = float(common.intercept[0])
        e, f = pooled.centre
        differences = pooled.theta @ np.array([[slope, intercept], [0.0, 1.0]])
        groups = {}
        for name, (a, b) in zip(names, differences.tolist(), strict=True):
            groups[name] = (a, b)
        return cls(
            by=by,
            slope=float((1.0 + e) * slope),
            intercept=float((1.0 + e) * intercept + f),
            tau=np.sqrt(pooled.variance),
            groups=groups,
            mode=str(common.mode),
            sure=common.sure,
        )

    @classmethod
    def walk_of(
        cls, rows: Rows, common: PlattScaling, codes: Codes
    ) -> Callable[[FloatArray], GroupSums]:
        sample = _sample(rows, common)
        weight = row_weights(rows.weights(), rows.n)
        # Sums of rows in one order have the same last digits, however the rows came:
        # the search for the variance would follow other paths.
        order = np.lexsort((weight, sample.hit, sample.s, codes.code))
        sample = sample.part(order)
        weight = weight[order]
        code = codes.code[order]
        u = float(common.slope[0]) * sample.s + float(common.intercept[0])
        design = np.stack([u, np.ones(rows.n)])

        def walk(theta: FloatArray) -> GroupSums:
            p = sigmoid(u + np.einsum("ij,ij->j", design, theta.T[:, code]))
            information = p * (1.0 - p) * design[:, None] * design
            gradient = (p - sample.hit) * design
            return GroupSums.of(code, len(codes.names), weight, gradient, information)

        return walk

    @classmethod
    def endless(cls, rows: Rows, common: PlattScaling, codes: Codes) -> BoolArray:
        sample = _sample(rows, common)
        g = len(codes.names)
        highest = np.full((2, g), -np.inf)
        lowest = np.full((2, g), np.inf)
        for outcome in (0, 1):
            some = sample.hit == outcome
            np.maximum.at(highest[outcome], codes.code[some], sample.s[some])
            np.minimum.at(lowest[outcome], codes.code[some], sample.s[some])
        rises = highest[0] <= lowest[1]
        falls = highest[1] <= lowest[0]
        return rises | falls  # a threshold splits them, or all are alike

    def apply(self, block: Block) -> Prediction:
        common = np.array([(self.slope, self.intercept)])
        maps = common + np.array([*self.groups.values(), (0.0, 0.0)])
        group = places(self.by, tuple(self.groups), block)
        # Platt scaling with a slope and an intercept of every row
        slope: Any = (entries(group, maps[:, 0]),)
        intercept: Any = (entries(group, maps[:, 1]),)
        rowwise = PlattScaling(slope, intercept, mode=self.mode, sure=self.sure)
        return rowwise.apply(block)

    def check_own(self, k: int) -> None:
        slope = np.array([self.slope])
        intercept = np.array([self.intercept])
        PlattScaling(slope, intercept, mode=self.mode).check(k)
        check_numbers("groups", np.array([(0.0, 0.0), *self.groups.values()]))


def _sample(rows: Rows, common: PlattScaling) -> Sample:
    """Log-odds and outcomes of the rows, as the common map takes them."""
    sample = single_sample(rows, str(common.mode), rows.weights())
    return sample.within(common.sure)
