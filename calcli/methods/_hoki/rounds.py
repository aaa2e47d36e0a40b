"""Hoki's fixed-point rounds: lines in the retention probability, one per bin of confidence."""

from hashlib import sha256
from typing import Literal

import numpy as np

from calcli.binning import bin_index, width_edges
from calcli.fast_dataclass import dataclass
from calcli.numerics import FloatArray, IntArray

SLACK = 1e-12
"""A confidence this little above an edge lies on it. Bins with equal retention get their
accuracy, a ratio of whole numbers that is often an edge, up to its last bit."""

ALL_ALIKE = 1e-9
"""A bin whose mean retention is this close to 0 or 1 cannot support a line."""


@dataclass(frozen=True)
class Evidence:
    """What a design is fitted to.

    gamma : (n,) retention probabilities. hit : (n,) 0.0 or 1.0, is the prediction right?
    weight : (n,) all > 0. start : (n,) confidences that the first round bins.
    """

    gamma: FloatArray
    hit: FloatArray
    weight: FloatArray
    start: FloatArray

    def part(self, index: IntArray) -> "Evidence":
        """Some of the rows."""
        return Evidence(self.gamma[index], self.hit[index], self.weight[index], self.start[index])

    @property
    def accuracy(self) -> float:
        """Share of right predictions."""
        return float(self.weight @ self.hit / self.weight.sum())


@dataclass(frozen=True)
class Design:
    """Fitted lines and how the rounds ended.

    alpha, beta : (rounds, bins), NaN where a bin was empty. confidence : (n,) of the rows
    they were fitted to. ended : fixed (the partition no longer changes), cycle (it came
    back after ``period`` rounds; the round with the least ECE was kept), or limit.
    """

    alpha: FloatArray
    beta: FloatArray
    confidence: FloatArray
    ended: Literal["fixed", "cycle", "limit"]
    period: int = 0


def design(evidence: Evidence, bins: int, limit: int) -> Design:
    """Repeat: bin the confidences, fit a line in every bin, take its values for confidences.

    The lines of a round depend on the partition alone, so the rounds have ended as soon as
    a partition comes back. (Algorithm 1; its empty bins, 0/0 there, become NaN.)
    """
    confidence = evidence.start
    seen: dict[bytes, int] = {}
    lines: list[tuple[FloatArray, FloatArray]] = []
    errors: list[float] = []
    ended: Literal["fixed", "cycle", "limit"] = "limit"
    period, kept = 0, limit
    for k in range(limit + 1):
        index = bin_of(confidence, bins)
        period = k - seen.setdefault(sha256(index.tobytes()).digest(), k)
        if period:
            ended = "fixed" if period == 1 else "cycle"
            kept = k - period + 1 + int(np.argmin(errors[k - period :]))
            break
        if k == limit:
            break
        lines.append(fit_lines(evidence, index, bins))
        if k == 0 and np.ptp(evidence.start) == 0:
            # One value for all rows is one bin, whatever the edges: its line serves every bin.
            lines[0] = tuple(np.full(bins, v[index[0]]) for v in lines[0])  # type: ignore[assignment]
        confidence = follow(confidence, evidence.gamma, *lines[-1])
        errors.append(width_error(confidence, evidence, bins))
    if kept < len(lines):
        confidence = replay(evidence.start, evidence.gamma, *(np.stack(v) for v in zip(*lines[:kept], strict=True)))
    alpha, beta = (np.stack(v) for v in zip(*lines[:kept], strict=True))
    return Design(alpha, beta, confidence, ended, period if ended == "cycle" else 0)


def replay(start: FloatArray, gamma: FloatArray, alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """Confidences after all rounds; a bin that was empty leaves a row's as it is. (Algorithm 2)"""
    confidence = start
    for a, b in zip(alpha, beta, strict=True):
        confidence = follow(confidence, gamma, a, b)
    return confidence


def follow(confidence: FloatArray, gamma: FloatArray, alpha: FloatArray, beta: FloatArray) -> FloatArray:
    """One round: beta + (alpha - beta) gamma with the line of each row's bin."""
    index = bin_of(confidence, len(alpha))
    a, b = alpha[index], beta[index]
    return np.where(np.isnan(a), confidence, np.clip(b + (a - b) * gamma, 0.0, 1.0))


def fit_lines(evidence: Evidence, index: IntArray, bins: int) -> tuple[FloatArray, FloatArray]:
    """Accuracy of retained and of lost copies in every bin, (bins,) each; NaN where empty.

    alpha = sum corr gamma / sum gamma, beta = sum corr (1 - gamma) / sum (1 - gamma)
    (equations 1 and 2). A bin of which all copies, or none, are retained gets its accuracy
    for both.
    """

    def total(values: FloatArray) -> FloatArray:
        return np.bincount(index, weights=evidence.weight * values, minlength=bins).astype(np.float64, copy=False)

    kept, lost = evidence.gamma, 1.0 - evidence.gamma
    mass, mass_kept, mass_lost = total(np.ones(len(kept))), total(kept), total(lost)
    accuracy = ratio(total(evidence.hit), mass)
    line = (mass_kept > ALL_ALIKE * mass) & (mass_lost > ALL_ALIKE * mass)
    alpha = np.where(line, ratio(total(evidence.hit * kept), mass_kept), accuracy)
    beta = np.where(line, ratio(total(evidence.hit * lost), mass_lost), accuracy)
    return alpha, beta


def line_of_one_bin(evidence: Evidence) -> tuple[float, float]:
    """alpha and beta of a single bin."""
    alpha, beta = fit_lines(evidence, np.zeros(len(evidence.gamma), dtype=np.int64), 1)
    return float(alpha[0]), float(beta[0])


def ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Part of a whole in [0, 1]; NaN where the whole is 0."""
    out = np.full(len(part), np.nan)
    np.divide(part, whole, out=out, where=whole > 0)
    return np.minimum(out, 1.0, out=out)


def bin_of(confidence: FloatArray, bins: int) -> IntArray:
    """Equal-width bin of every confidence."""
    index: IntArray = bin_index(confidence - SLACK, width_edges(bins))
    return index


def width_error(confidence: FloatArray, evidence: Evidence, bins: int) -> float:
    """Expected calibration error over the equal-width bins."""
    surplus = evidence.weight * (confidence - evidence.hit)
    return float(np.abs(np.bincount(bin_of(confidence, bins), weights=surplus)).sum() / evidence.weight.sum())
