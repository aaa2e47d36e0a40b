"""Maps of one probability: of the top label, of class 1 of two, or of each class against the rest."""

from dataclasses import replace
from typing import Any

import numpy as np

from calcli.errors import UsageError
from calcli.export.calibrator_graph import Traced, lower, settled
from calcli.export.functions import (
    Pieces,
    at,
    log,
    log_sigmoid,
    log_softmax,
    logs,
    maximum,
    minimum,
    normalize,
    one_vs_rest_log_odds,
    piecewise,
    probabilities,
    row_argmax,
    share_rest,
    sigmoid,
    top_log_odds,
    where,
)
from calcli.export.graph import GraphValue
from calcli.methods._binary.maps import BinaryCalibrator, LogisticCalibrator
from calcli.methods.beta import BetaCalibration
from calcli.methods.compared.bbq import BayesianBinning
from calcli.methods.compared.irova import TIE_BREAK, IsotonicOneVsAll
from calcli.methods.hb import HistogramBinning
from calcli.methods.logit_spline import LogitSpline
from calcli.methods.platt import PlattScaling
from calcli.methods.quadratic import QuadraticScaling
from calcli.methods.sb import ScalingBinning


@lower.register
def one_probability(calibrator: BinaryCalibrator, x: Traced) -> Traced:
    """``BinaryCalibrator.apply``."""
    if isinstance(calibrator, ScalingBinning) and calibrator.scale is not None:
        x = replace(x, z=log_softmax(x.z))
    before = x
    if calibrator.upstream is not None:
        x = settled(lower(calibrator.upstream, x))
    inputs = seen_by_maps(calibrator, x)
    maps = calibrator.maps
    if len(maps) > 1:
        log_p, label = normalize(curve(calibrator, inputs, maps), before.z, before.label)
        return replace(x, z=log_p, label=label)
    log_q, log_rest = log_curve(calibrator, inputs, maps)
    if calibrator.mode == "binary":
        log_p = where(x.z.graph.op("equal", np.arange(2)[None, :], np.array([[1]])), log_q, log_rest)
        return replace(x, z=log_p, label=row_argmax(log_p))
    return replace(x, z=share_rest(x.z, x.label, log_q, log_rest, x.k))


def seen_by_maps(calibrator: BinaryCalibrator, x: Traced) -> GraphValue:
    """``BinaryCalibrator.inputs``."""
    many = len(calibrator.maps) > 1
    if calibrator.mode is None:
        p = probabilities(x.z)
        p = p if many else at(p, x.label)
        if not calibrator.takes_log_odds:
            return p
        p = minimum(maximum(p, calibrator.clip), 1.0 - calibrator.clip)
        return log(p) - p.graph.op("log1p", -p)
    if many:
        s = one_vs_rest_log_odds(x.z, x.k)
    elif calibrator.mode == "binary":
        columns = [x.z.graph.op("columns", x.z, np.array([c])) for c in (0, 1)]
        s = columns[1] - columns[0]
    else:
        s = top_log_odds(x.z, x.label, x.k)
    return s if calibrator.takes_log_odds else sigmoid(s)


Maps = list[tuple[Any, ...]]


def log_curve(calibrator: BinaryCalibrator, s: GraphValue, maps: Maps) -> tuple[GraphValue, GraphValue]:
    """``log_curve`` of the one map."""
    if isinstance(calibrator, LogisticCalibrator) and calibrator.mode is not None:
        u = log_odds(calibrator, s, maps)
        return log_sigmoid(u), log_sigmoid(-u)
    return logs(curve(calibrator, s, maps))


def curve(calibrator: BinaryCalibrator, x: GraphValue, maps: Maps) -> GraphValue:
    """The maps at x (rows, 1), or at x (rows, classes) with one map per class."""
    if isinstance(calibrator, LogisticCalibrator):
        return sigmoid(log_odds(calibrator, x, maps))
    x.graph.jumps = True
    if isinstance(calibrator, ScalingBinning):
        return scaled_and_binned(x, maps)
    if isinstance(calibrator, HistogramBinning | BayesianBinning):
        return piecewise(x, [Pieces.steps(*one) for one in maps])
    if set(vars(calibrator)) >= {"scores", "values"}:  # ir, irova, irova-ts, spline
        q = minimum(maximum(piecewise(x, [Pieces.line(*one) for one in maps], closed=True), 0.0), 1.0)
        return q + x * TIE_BREAK if isinstance(calibrator, IsotonicOneVsAll) else q
    raise UsageError(f"{type(calibrator).__name__} cannot be exported: nobody has said how its map is computed")


def columns_of(maps: Maps) -> list[Any]:
    """Each parameter of the maps as a row, (1, maps)."""
    return [np.array(values, dtype=np.float64)[None, :] for values in zip(*maps, strict=True)]


def log_odds(calibrator: BinaryCalibrator, s: GraphValue, maps: Maps) -> GraphValue:
    """``logit`` of the logistic family."""
    match calibrator:
        case PlattScaling():
            slope, intercept = columns_of(maps)
            return s * slope + intercept
        case BetaCalibration():
            return between_tails(s, *columns_of(maps))
        case QuadraticScaling():
            a, b, c, low, high = columns_of(maps)
            inside = minimum(maximum(s, low), high)
            slope = maximum(inside * (2.0 * c) + b, 0.0)
            return inside * (inside * c + b) + a + slope * (s - inside)
        case LogitSpline():
            return spline(s, maps)
    raise UsageError(f"{type(calibrator).__name__} cannot be exported: nobody has said how its map is computed")


def spline(s: GraphValue, maps: Maps) -> GraphValue:
    """``LogitSpline.logit``: parabolas between knots, straight lines beyond; maps of fewer knots have empty pieces."""
    count = max(len(knots) for _, knots, _ in maps)
    knots, slopes = (np.array([np.pad(one[i], (0, count - len(one[i])), "edge") for one in maps]).T for i in (1, 2))
    intercept = np.array([float(one[0]) for one in maps])[None, :]
    total = minimum(s - knots[:1], 0.0) * slopes[:1] + maximum(s - knots[-1:], 0.0) * slopes[-1:] + intercept
    for j, width in enumerate(np.diff(knots, axis=0)):
        t = minimum(maximum(s - knots[j][None, :], 0.0), width[None, :])
        bend = 0.5 * (slopes[j + 1] - slopes[j]) / np.where(width > 0, width, 1.0)
        total = total + t * (t * bend[None, :] + slopes[j][None, :])
    return total


def between_tails(s: GraphValue, a: Any, b: Any, c: Any) -> GraphValue:
    """c + a log p - b log(1 - p) at log-odds s."""
    return log_sigmoid(s) * a + c - log_sigmoid(-s) * b


def scaled_and_binned(s: GraphValue, maps: Maps) -> GraphValue:
    """``ScalingBinning.curve``: a smooth map, then its steps."""
    slope, intercept = (np.array([float(one[i]) for one in maps])[None, :] for i in (0, 1))
    rest = np.array([float(one[4]) if len(one) > 4 else float(one[0]) for one in maps])[None, :]
    smooth = s * slope + intercept
    if (slope != rest).any():
        bent = between_tails(s, slope, rest, intercept)
        smooth = where(s.graph.op("equal", slope, rest), smooth, bent)
    steps = [Pieces.steps(one[2], one[3]) for one in maps]
    return piecewise(sigmoid(smooth), steps)
