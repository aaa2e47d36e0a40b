"""One map per class against the rest: all classes are looked up together, where ``apply`` goes class by class."""

from typing import Any

import numpy as np

from calcli.calibrator import Prediction
from calcli.export.calibrator_graph import lower
from calcli.export.functions import Pieces, piecewise
from calcli.export.graph import Operand
from calcli.methods._binary.log_odds import log_sigmoid
from calcli.methods._binary.maps import BinaryCalibrator, BrokenLine, LogisticCalibrator
from calcli.methods._binary.vectors import normalize
from calcli.methods.compared.bbq import BayesianBinning
from calcli.methods.compared.irova import TIE_BREAK, IsotonicOneVsAll
from calcli.methods.hb import HistogramBinning
from calcli.methods.logit_spline import LogitSpline
from calcli.methods.sb import ScalingBinning
from calcli.numerics import sigmoid
from calcli.rows import Block

Maps = list[tuple[Any, ...]]


@lower.register
def one_vs_rest(calibrator: BinaryCalibrator, block: Block) -> Prediction:
    """``BinaryCalibrator.apply``."""
    if len(calibrator.maps) == 1:
        return calibrator.apply(block)
    inputs = calibrator.inputs(calibrator.seen(block))
    return normalize(curve(calibrator, inputs, calibrator.maps), block.z, block.prediction)


def curve(calibrator: BinaryCalibrator, x: Operand, maps: Maps) -> Operand:
    """The maps at x (rows, classes); class by class where nothing is known of how to take them together."""
    if isinstance(calibrator, LogitSpline):
        return sigmoid(spline(x, maps))
    if isinstance(calibrator, LogisticCalibrator):
        return sigmoid(calibrator.logit(x, *columns_of(maps)))
    if isinstance(calibrator, ScalingBinning):
        return scaled_and_binned(x, maps)
    if isinstance(calibrator, HistogramBinning | BayesianBinning):
        return steps(x, maps)
    if isinstance(calibrator, BrokenLine):
        x.graph.jumps = True
        q = np.clip(piecewise(x, [Pieces.line(*one) for one in maps], closed=True), 0.0, 1.0)
        return q + x * TIE_BREAK if isinstance(calibrator, IsotonicOneVsAll) else q
    return np.stack([calibrator.curve(x[:, c], *one) for c, one in enumerate(maps)], axis=1)


def steps(x: Operand, maps: Maps) -> Operand:
    """``curves.step`` of each map."""
    x.graph.jumps = True
    return piecewise(x, [Pieces.steps(*one) for one in maps])


def columns_of(maps: Maps) -> list[Any]:
    """Each parameter of the maps, (maps,)."""
    return [np.array(values, dtype=np.float64) for values in zip(*maps, strict=True)]


def spline(s: Operand, maps: Maps) -> Operand:
    """``LogitSpline.logit``: parabolas between knots, straight lines beyond; maps of fewer knots have empty pieces."""
    count = max(len(knots) for _, knots, _ in maps)
    knots, slopes = (np.array([np.pad(one[i], (0, count - len(one[i])), "edge") for one in maps]).T for i in (1, 2))
    total = np.minimum(s - knots[0], 0.0) * slopes[0] + np.maximum(s - knots[-1], 0.0) * slopes[-1]
    total = total + columns_of([one[:1] for one in maps])[0]
    for j, width in enumerate(np.diff(knots, axis=0)):
        t = np.clip(s - knots[j], 0.0, width)
        total = total + t * (t * (0.5 * (slopes[j + 1] - slopes[j]) / np.where(width > 0, width, 1.0)) + slopes[j])
    return total


def scaled_and_binned(s: Operand, maps: Maps) -> Operand:
    """``ScalingBinning.curve``: a smooth map, then its steps."""
    slope, intercept, rest = columns_of([(one[0], one[1], one[4] if len(one) > 4 else one[0]) for one in maps])
    smooth = s * slope + intercept
    if (slope != rest).any():
        bent = log_sigmoid(s) * slope + intercept - log_sigmoid(-s) * rest
        smooth = np.where(slope == rest, smooth, bent)
    return steps(sigmoid(smooth), [one[2:4] for one in maps])
