"""Temperature scaling by group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Self

import numpy as np

from calcli.calibrator import ORDER_PRESERVING, Prediction, check_numbers, param
from calcli.fast_dataclass import dataclass
from calcli.kernels.numpy.temperature import OfBlock, TemperedRows, at_once
from calcli.methods._groups import (
    ByGroup,
    ByOptions,
    GroupSums,
    GroupWalk,
    Pooled,
    group_factors,
    places,
    pool,
)
from calcli.methods._temperature import BRACKET
from calcli.methods.ts import TemperatureScaling
from calcli.numerics import BoolArray, FloatArray, IntArray, entries, log_softmax
from calcli.rows import Block, Codes, Rows

FARTHEST = np.log([10.0])  # largest deviation of a log temperature from the common one


@dataclass(frozen=True)
class TemperatureByGroup(ByGroup):
    """Give every group of rows its own temperature, pulled towards the common one (partial pooling).

    p = softmax(beta exp(d_g) z) with d_g ~ N(0, tau^2): the d of the least NLL + sum_g d_g^2 / (2 tau^2). tau is
    estimated by EM on Laplace's approximation, tau^2 = mean(d_g^2 + 1 / (J_g + 1 / tau^2)) with J_g the sum of
    Var_p of the scaled logits; then beta takes on the mean of d, weighted by the rows, three times. A group of few
    rows hardly leaves the common temperature, one of many has its own. A group that the fit has not seen has d = 0.

    By cross-validation inside the calibration rows (units stay together) it is tried against the common temperature,
    which is what the fit gives where that does as well (``guard``). ``by=prediction`` needs no column: the groups are
    the predicted classes.

    Reference: Gelman, Hill (2006), chapter 12 (partial pooling); Dempster, Laird, Rubin (1977), the EM algorithm.
    """

    by: str = param()
    beta: float = param(within="positive")
    tau: float = param(within="positive")
    groups: Mapping[str, float] = param()

    list_order = 15
    aliases = ("temperature-by-group",)
    use = "sites, sensors or tasks that differ: fit --by NAME"
    title = "temperature scaling by group"
    laws = replace(ORDER_PRESERVING, memory="row")
    COMMON, OF_COMMON, PARAMETERS = "ts", TemperatureScaling, 1

    @classmethod
    def pooled(
        cls,
        rows: Rows,
        common: TemperatureScaling,
        of: Codes,
        by: ByOptions,
        start: Pooled | None,
        runaway: BoolArray,
    ) -> tuple[Self, Pooled]:
        sums, factor = cls.walk_of(rows, common, of), group_factors(rows, of)
        walk = GroupWalk(sums, factor, runaway, FARTHEST)
        found = pool(walk, len(of.names), 1, by.tau, start)
        first = -float(np.log(common.temperature))
        d = np.clip(found.theta[:, 0], *np.subtract(BRACKET, first))
        tau = float(np.sqrt(found.variance[0]))
        beta = float(np.exp(first + found.centre[0]))
        groups = dict(zip(of.names, d.tolist(), strict=True))
        return cls(by.by, beta, tau, groups), found

    @classmethod
    def walk_of(
        cls, rows: Rows, common: TemperatureScaling, of: Codes
    ) -> Callable[[FloatArray], GroupSums]:
        of_block = OfBlock(rows.k, _terms, _values)
        first = -float(np.log(common.temperature))

        def walk(shift: FloatArray) -> GroupSums:
            log_beta = np.clip(first + shift[:, 0], *BRACKET)
            work = partial(_sums, of_block, np.exp(log_beta))
            return rows.sum(work, of.code, at_once=at_once(rows.k))

        return walk

    @classmethod
    def endless(cls, rows: Rows, common: TemperatureScaling, of: Codes) -> BoolArray:
        walk, g = cls.walk_of(rows, common, of), len(of.names)
        cold, hot = (walk(np.full((g, 1), end)) for end in (np.inf, -np.inf))
        always_sharper = cold.gradient[:, 0] <= 0.0
        always_flatter = hot.gradient[:, 0] >= 0.0
        return np.asarray(always_sharper | always_flatter)

    def apply(self, block: Block) -> Prediction:
        scale = self.beta * np.exp([*self.groups.values(), 0.0])
        own = entries(places(self.by, tuple(self.groups), block), scale)
        return Prediction(log_softmax(block.z * own[:, None]), block.prediction)

    def check_own(self, k: int) -> None:
        d = np.array([0.0, *self.groups.values()])
        check_numbers("groups", d)
        check_numbers(
            "groups", abs(self.beta) * np.exp(np.minimum(d, 800.0)), "positive"
        )


def _sums(
    of_block: OfBlock[FloatArray], scale: FloatArray, block: Block, code: IntArray
) -> GroupSums:
    """Sums by group over a block, at the groups' own scales (g,): by the logarithm of the scale."""
    slope, bend = np.concatenate(of_block.parts(block, scale[code]), axis=1)
    weight = np.ones(len(block)) if block.weight is None else block.weight
    return GroupSums.of(code, len(scale), weight, slope[None], bend[None, None])


def _terms(r: TemperedRows, scale: FloatArray) -> Sequence[FloatArray]:
    """Gradient and information of every row, by the logarithm of its scale (b,)."""
    r.d *= scale[:, None] if r.axis else scale
    norm = r.tilt(1.0)
    mean = r.mean(norm)  # leaves e d in e
    return mean - r.d_y * scale, r.dot(r.e, r.d) / norm - mean**2


def _values(_: Block, values: FloatArray) -> FloatArray:
    return values
