"""Hoki's rounds: lines in the retention probability, one per bin of confidence."""

from hashlib import sha256
from typing import NamedTuple

import numpy as np

from calcli.binning import bin_index, width_edges
from calcli.numerics import BoolArray, FloatArray, IntArray

# Confidences at most this far above an edge lie on it. Bins with equal retention get
# their accuracy, a ratio of whole numbers that is often an edge, up to its last bit.
SLACK = 1e-12

# a bin whose mean retention is this close to 0 or 1 is too uniform for a line
ALL_ALIKE = 1e-9


class Evidence(NamedTuple):
    """Rows that a design is fitted to.

    gamma : (n,) retention probabilities. hit : (n,) 1.0 if the prediction is right,
    else 0.0. weight : (n,) all > 0. start : (n,) confidences that the first round bins.
    """

    gamma: FloatArray
    hit: FloatArray
    weight: FloatArray
    start: FloatArray

    def part(self, some: BoolArray) -> "Evidence":
        """Take some of the rows."""
        return Evidence(
            gamma=self.gamma[some],
            hit=self.hit[some],
            weight=self.weight[some],
            start=self.start[some],
        )

    @property
    def accuracy(self) -> float:
        """Proportion of right predictions."""
        return float(self.weight @ self.hit / self.weight.sum())

    @property
    def share(self) -> FloatArray:
        """Weights that sum to 1, (n,)."""
        return self.weight / self.weight.sum()

    @property
    def spread(self) -> float:
        """Standard deviation of the retention probabilities."""
        share = self.share
        return float(np.sqrt(share @ (self.gamma - share @ self.gamma) ** 2))


class Design(NamedTuple):
    """Fitted lines of all rounds.

    alpha, beta : (rounds, bins), NaN where a bin was empty. confidence : (n,) of the
    rows they were fitted to. period : rounds after which the partition came back: 1 if
    it no longer changes; 0 if the rounds ran out. Of a longer cycle the round with the
    least ECE was kept.
    """

    alpha: FloatArray
    beta: FloatArray
    confidence: FloatArray
    period: int


def design(evidence: Evidence, bins: int, limit: int) -> Design:
    """Fit by repeated rounds.

    Bin the confidences, fit a line in every bin, take its values as confidences. The
    lines of a round depend on the partition alone, so the rounds have ended as soon as
    a partition comes back. (Algorithm 1; its empty bins, 0/0 there, become NaN.)
    """
    confidence = evidence.start
    first_rounds: dict[bytes, int] = {}  # of every partition, by its SHA-256
    lines: list[FloatArray] = []
    errors: list[float] = []
    for k in range(limit + 1):
        index = bin_of(confidence, bins)
        partition = sha256(index.tobytes()).digest()
        first = first_rounds.setdefault(partition, k)
        if first < k or k == limit:
            break
        line = fit_lines(evidence, index, bins)
        if k == 0 and np.ptp(confidence) == 0:
            # One value for all rows is one bin, whatever the edges: its line serves
            # every bin.
            line = np.repeat(line[:, index[:1]], bins, axis=1)
        lines.append(line)
        confidence = follow(confidence, evidence.gamma, *line)
        errors.append(width_error(confidence, evidence, bins))
    # Keep all rounds; of a cycle, those up to its round with the least error.
    n_rounds = k
    if first < k:
        n_rounds = first + 1 + int(np.argmin(errors[first:]))
    alpha, beta = np.stack(lines[:n_rounds], axis=1)
    if n_rounds < k:
        confidence = replay(evidence.start, evidence.gamma, alpha, beta)
    return Design(alpha, beta, confidence, k - first)


def replay(
    start: FloatArray, gamma: FloatArray, alpha: FloatArray, beta: FloatArray
) -> FloatArray:
    """Compute confidences after all rounds. (Algorithm 2)

    Bins that were empty in the fit leave them unchanged.
    """
    confidence = start
    for a, b in zip(alpha, beta, strict=True):
        confidence = follow(confidence, gamma, a, b)
    return confidence


def follow(
    confidence: FloatArray, gamma: FloatArray, alpha: FloatArray, beta: FloatArray
) -> FloatArray:
    """Compute confidences after one round.

    They are beta + (alpha - beta) gamma with the line of each row's bin.
    """
    index = bin_of(confidence, len(alpha))
    a = alpha[index]
    b = beta[index]
    return np.where(np.isnan(a), confidence, np.clip(b + (a - b) * gamma, 0.0, 1.0))


def fit_lines(evidence: Evidence, index: IntArray, bins: int) -> FloatArray:
    """Accuracy of retained and of lost copies in every bin, (2, bins); NaN where empty.

    alpha = sum corr gamma / sum gamma, beta = sum corr (1 - gamma) / sum (1 - gamma)
    (equations 1 and 2). A bin of which all copies, or none, are retained gets its
    accuracy for both.
    """

    def total(values: FloatArray) -> FloatArray:
        sums = np.bincount(index, weights=evidence.weight * values, minlength=bins)
        return sums.astype(np.float64, copy=False)

    # of every row the whole, the share that is retained, and the share that is lost
    shares = [np.ones_like(evidence.gamma), evidence.gamma, 1.0 - evidence.gamma]
    totals = np.array([total(share) for share in shares])
    right = np.array([total(evidence.hit * share) for share in shares])
    rates = np.divide(right, totals, out=np.full(right.shape, np.nan), where=totals > 0)
    accuracy, *lines = np.minimum(rates, 1.0)
    has_both = totals[1:].min(axis=0) > ALL_ALIKE * totals[0]
    return np.where(has_both, lines, accuracy)


def bin_of(confidence: FloatArray, bins: int) -> IntArray:
    """Equal-width bin of every confidence."""
    return bin_index(confidence - SLACK, width_edges(bins))


def width_error(confidence: FloatArray, evidence: Evidence, bins: int) -> float:
    """Expected calibration error over the equal-width bins."""
    surplus = evidence.weight * (confidence - evidence.hit)
    gaps = np.bincount(bin_of(confidence, bins), weights=surplus)
    return float(np.abs(gaps).sum() / evidence.weight.sum())
