"""Loss, calibration error and mean confidence as functions of one temperature."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calcli.binning import bin_index, width_edges
from calcli.kernels.numpy import nll_slope, top_mass_slope
from calcli.numerics import NLL_FLOOR, FloatArray
from calcli.rows import Rows
from calcli.solvers import find_root

__all__ = ["MarkedPoint", "Sweep", "sweep_temperature"]

LOW, HIGH = 0.01, 100.0
"""Temperatures between which the marked points are sought, as when a calibrator is fitted."""


@dataclass(frozen=True)
class MarkedPoint:
    """A temperature worth pointing at. name : what it is. The rest: the curves' values there."""

    name: str
    temperature: float
    nll: float
    ece: float
    ece_null_mean: float
    mean_confidence: float


@dataclass(frozen=True)
class Sweep:
    """Curves over temperatures, all (t,): softmax(z / T) for every T.

    nll : nats. ece : L1 over ``bins`` equal-width bins. ece_null_mean : what a calibrated
    model with these confidences would show on average. accuracy : does not depend on T.
    marks : T = 1, the minimum of the NLL (TS), the T at which mean confidence equals
    accuracy (EC), and temperatures of given calibrators.
    """

    title: str
    n: int
    bins: int
    accuracy: float
    temperature: FloatArray
    nll: FloatArray
    ece: FloatArray
    ece_null_mean: FloatArray
    mean_confidence: FloatArray
    marks: tuple[MarkedPoint, ...]


def sweep_temperature(
    rows: Rows,
    title: str,
    *,
    given: Sequence[tuple[str, float]] = (),
    low: float | None = None,
    high: float | None = None,
    points: int = 61,
    bins: int = 15,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Sweep:
    """Evaluate softmax(z / T) over a geometric range of T in one pass after the two fits.

    given : (name, T) of calibrators to mark. low, high : the range; by default a factor of
    two around all marks. The TS and EC points are those of these very rows: what the
    best temperature could reach here, not what a calibrator fitted elsewhere does.
    Weighted rows count with their weight.
    Reference: Clarte, Loureiro, Krzakala, Zdeborova (2023), figure 2.
    """
    accuracy = _accuracy(rows)
    bracket = (float(np.log(1 / HIGH)), float(np.log(1 / LOW)), 0.0)
    named = [("T = 1", 1.0)]
    best = find_root(nll_slope(rows), *bracket)
    if best.status == "ok":
        named.append(("TS: least NLL", float(np.exp(-best.x))))
    equal = find_root(top_mass_slope(rows, 1, accuracy), *bracket, flat=1e-12)
    if equal.status == "ok":
        named.append(("EC: confidence = accuracy", float(np.exp(-equal.x))))
    named += [(name, t) for name, t in given]
    ends = [t for _, t in named]
    grid = np.geomspace(min(ends) / 2 if low is None else low, max(ends) * 2 if high is None else high, points)
    nll, ece, null, confidence = _evaluate(rows, np.concatenate([grid, ends]), bins, progress)
    marks = tuple(
        MarkedPoint(name, t, float(nll[j]), float(ece[j]), float(null[j]), float(confidence[j]))
        for j, (name, t) in enumerate(named, start=points)
    )
    return Sweep(
        title, rows.n, bins, accuracy, grid, nll[:points], ece[:points], null[:points], confidence[:points], marks
    )


def _accuracy(rows: Rows) -> float:
    hits = mass = 0.0
    for block in rows.blocks():
        weight = np.ones(len(block)) if block.weight is None else block.weight
        hits += float(weight @ (block.scores.argmax(axis=1) == block.labels))
        mass += float(weight.sum())
    return hits / mass


def _evaluate(
    rows: Rows, temperatures: FloatArray, bins: int, progress: Callable[[str, int, int], None]
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """NLL, ECE, its mean under calibration, and mean confidence at every temperature."""
    edges, t = width_edges(bins), len(temperatures)
    gap, variance = np.zeros((t, bins)), np.zeros((t, bins))
    nll, confidence, mass = np.zeros(t), np.zeros(t), 0.0
    limit = -np.log(NLL_FLOOR)
    for block in rows.blocks():
        d = block.z - block.z.max(axis=1, keepdims=True)
        weight = np.ones(len(d)) if block.weight is None else block.weight
        d_y = d[np.arange(len(d)), block.labels]
        correct = d.argmax(axis=1) == block.labels
        mass += float(weight.sum())
        for j, temperature in enumerate(temperatures):
            total = np.exp(d / temperature).sum(axis=1)
            c = 1.0 / total  # the largest logit has gap 0
            nll[j] += weight @ np.minimum(np.log(total) - d_y / temperature, limit)
            confidence[j] += weight @ c
            index = bin_index(c, edges)
            gap[j] += np.bincount(index, weights=weight * (c - correct), minlength=bins)
            variance[j] += np.bincount(index, weights=weight**2 * c * (1 - c), minlength=bins)
        progress("sweeping the temperature", block.start + len(block), rows.n)
    # A bin's gap under calibration is a sum of independent terms, nearly normal: E|N(0, V)| = sqrt(2 V / pi).
    null = np.sqrt(2 * variance / np.pi).sum(axis=1) / mass
    return nll / mass, np.abs(gap).sum(axis=1) / mass, null, confidence / mass
