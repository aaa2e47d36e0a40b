"""Temperature scaling by group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from calcli.block import Block, Codes
from calcli.calibrator import ORDER_PRESERVING, Prediction, check_numbers, param
from calcli.kernels.numpy.temperature import OfBlock, TemperedRows, at_once
from calcli.methods._groups import ByGroup, ByOptions, places, rows_by_group
from calcli.methods._partial_pooling import (
    EXACT,
    LARGEST_STEP,
    MOST_STEPS,
    GroupSums,
    Pooled,
)
from calcli.methods._temperature import BRACKET
from calcli.methods.ts import TemperatureScaling
from calcli.numerics import (
    BoolArray,
    FloatArray,
    IntArray,
    entries,
    in_column,
    log_softmax,
    row_weights,
)
from calcli.rows import Rows


@dataclass(frozen=True)
class TemperatureByGroup(ByGroup):
    """Give every group a temperature, pulled towards the common one (partial pooling).

    p = softmax(beta exp(d_g) z) with d_g ~ N(0, tau^2): the d of the least NLL + sum_g
    d_g^2 / (2 tau^2). tau is estimated by EM on Laplace's approximation, tau^2 =
    mean(d_g^2 + 1 / (J_g + 1 / tau^2)) with J_g the sum of Var_p of the scaled logits;
    then beta takes on the mean of d, weighted by the rows, three times. A group of few
    rows hardly leaves the common temperature, one of many has its own. A group that the
    fit has not seen has d = 0.

    By cross-validation inside the calibration rows (units stay together) it is tried
    against the common temperature, which is what the fit gives where that does as well
    (``guard``). ``by=prediction`` needs no column: the groups are the predicted
    classes.

    Reference: Gelman, Hill (2006), chapter 12 (partial pooling); Dempster, Laird, Rubin
    (1977), the EM algorithm.
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
    COMMON = "ts"
    OF_COMMON = TemperatureScaling
    FARTHEST = np.log([10.0])  # of a log temperature

    @classmethod
    def around(
        cls, common: TemperatureScaling, by: str, names: Sequence[str], pooled: Pooled
    ) -> Self:
        first = -float(np.log(common.temperature))
        d = np.clip(pooled.theta[:, 0], *np.subtract(BRACKET, first))
        beta = float(np.exp(first + pooled.centre[0]))
        tau = float(np.sqrt(pooled.variance[0]))
        return cls(by, beta, tau, dict(zip(names, d.tolist(), strict=True)))

    @classmethod
    def walk_of(
        cls, rows: Rows, common: TemperatureScaling, codes: Codes
    ) -> Callable[[FloatArray], GroupSums]:
        of_block = OfBlock(rows.k, _terms, _values)
        first = -float(np.log(common.temperature))

        def walk(shift: FloatArray) -> GroupSums:
            log_beta = np.clip(first + shift[:, 0], *BRACKET)
            work = partial(_sums, of_block, np.exp(log_beta))
            return rows.sum(work, codes.code, at_once=at_once(rows.k))

        return walk

    @classmethod
    def endless(cls, rows: Rows, common: TemperatureScaling, codes: Codes) -> BoolArray:
        walk = cls.walk_of(rows, common, codes)
        g = len(codes.names)
        cold, hot = (walk(np.full((g, 1), end)) for end in (np.inf, -np.inf))
        always_sharper = cold.gradient[:, 0] <= 0.0
        always_flatter = hot.gradient[:, 0] >= 0.0
        return always_sharper | always_flatter

    @classmethod
    def around_one(cls, rows: Rows, by: ByOptions) -> Self:
        """Fit temperatures of the groups, pulled towards 1 with the given ``tau``.

        There is none in common. Each group's is found by Newton steps of its own.
        """
        groups = rows_by_group(rows, by.by)
        walk = cls.walk_of(rows, TemperatureScaling(1.0), groups)
        d = np.zeros(len(groups.names))
        for _ in range(MOST_STEPS):
            sums = walk(d[:, None])
            slope = sums.gradient[:, 0] + d / by.tau**2
            # the second derivative by log T, without the part that may be negative
            curvature = sums.information[:, 0, 0] + np.maximum(sums.gradient[:, 0], 0.0)
            bend = curvature + 1.0 / by.tau**2
            step = np.clip(slope / bend, -LARGEST_STEP, LARGEST_STEP)
            d = d - step
            if np.abs(step).max() <= EXACT:
                break
        known = dict(zip(groups.names, d.tolist(), strict=True))
        return cls(by.by, 1.0, by.tau, known)

    @classmethod
    def held_out_gain(cls, rows: Rows, by: ByOptions, fold: IntArray) -> FloatArray:
        """Gain in the log-probability of each row's label, (n,), of ``around_one``.

        Each row's group has the temperature of the other folds' rows, by one Newton
        step from 1. fold : (n,) fold of every row.
        """
        groups = rows_by_group(rows, by.by)
        of_block = OfBlock(rows.k, _terms, _values)
        ones = np.ones(rows.n)
        terms = list(rows.each(partial(_row_terms, of_block), ones))
        slope, bend = np.concatenate(terms, axis=1)
        weight = row_weights(rows.weights(), rows.n)
        g = len(groups.names)
        folds = int(fold.max()) + 1
        cell = groups.code * folds + fold

        def sums_of_others(terms: FloatArray) -> FloatArray:
            """Sum of the terms over a group's rows in the other folds, (g, folds)."""
            sums = np.bincount(cell, weights=weight * terms, minlength=g * folds)
            sums = sums.reshape(g, folds)
            return sums.sum(axis=1, keepdims=True) - sums

        others_slope = sums_of_others(slope)
        others_bend = sums_of_others(bend)
        d = -others_slope / (others_bend + 1.0 / by.tau**2)
        d = np.clip(d, -LARGEST_STEP, LARGEST_STEP)
        scale = np.exp(d[groups.code, fold])
        after = np.concatenate(list(rows.each(_log_p_of_labels, scale)))
        before = np.concatenate(list(rows.each(_log_p_of_labels, ones)))
        return after - before

    def apply(self, block: Block) -> Prediction:
        scale = self.beta * np.exp([*self.groups.values(), 0.0])
        row_scale = entries(places(self.by, tuple(self.groups), block), scale)
        return Prediction(log_softmax(block.z * row_scale[:, None]), block.prediction)

    def check_own(self, k: int) -> None:
        d = np.array([0.0, *self.groups.values()])
        check_numbers("groups", d)
        scale = abs(self.beta) * np.exp(np.minimum(d, 800.0))
        check_numbers("groups", scale, "positive")


def _row_terms(
    of_block: OfBlock[FloatArray], block: Block, scale: FloatArray
) -> FloatArray:
    """Gradient and information of every row of a block, (2, b)."""
    return np.concatenate(of_block.parts(block, scale), axis=1)


def _log_p_of_labels(block: Block, scale: FloatArray) -> FloatArray:
    """Log-probability of the label of every row of a block, at its scale (b,)."""
    log_p = log_softmax(block.z * scale[:, None])
    return in_column(log_p, block.labels)


def _sums(
    of_block: OfBlock[FloatArray], scale: FloatArray, block: Block, code: IntArray
) -> GroupSums:
    """Sum by group over a block, at the groups' own scales (g,).

    Derivatives are by the logarithm of the scale.
    """
    slope, bend = np.concatenate(of_block.parts(block, scale[code]), axis=1)
    weight = row_weights(block.weight, len(block))
    return GroupSums.of(code, len(scale), weight, slope[None], bend[None, None])


def _terms(r: TemperedRows, scale: FloatArray) -> Sequence[FloatArray]:
    """Gradient and information of every row, by the logarithm of its scale (b,)."""
    r.d *= scale[:, None] if r.axis else scale
    norm = r.tilt(1.0)
    mean, square = (total / norm for total in r.power_sums(2))
    return mean - r.d_y * scale, square - mean**2


def _values(_: Block, values: FloatArray) -> FloatArray:
    return values
