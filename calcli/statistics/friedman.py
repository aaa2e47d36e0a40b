"""Comparing calibrators over several data sets by ranks."""

from dataclasses import dataclass
from math import factorial

import numpy as np

from calcli.numerics import FloatArray
from calcli.solvers import halved


@dataclass(frozen=True)
class Friedman:
    """Average ranks (1 is best) and the Friedman test that all calibrators are alike.

    ranks : (k,) averages over data sets. chi2, p_value : Friedman's statistic,
    corrected for ties, k - 1 degrees of freedom. f, f_p_value : Iman and Davenport's,
    which is less conservative, with k - 1 and (k - 1)(n - 1); where all data sets agree
    it is infinite, and its p-value the chance of that, (1/k!)^(n-1).
    """

    ranks: FloatArray
    chi2: float
    p_value: float
    f: float
    f_p_value: float


def average_ranks(row: FloatArray) -> FloatArray:
    """Ranks 1..k of values, smallest first, ties averaged."""
    _, index, count = np.unique(row, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - 0.5 * (count - 1))[index]


def friedman(values: FloatArray) -> Friedman | None:
    """Friedman test of values (n data sets, k calibrators), smaller is better.

    chi2 = 12 n / (k (k+1)) (sum R_j^2 - k (k+1)^2 / 4) / (1 - sum (t^3 - t) / (n (k^3 -
    k))), R_j average ranks, t sizes of tied groups; F = (n-1) chi2 / (n (k-1) - chi2).
    None when there are fewer than two data sets or calibrators, or every row is all
    ties.

    Reference: Friedman (1937); Iman, Davenport (1980); Demsar (2006), section 3.2.2.
    """
    n, k = values.shape
    if n < 2 or k < 2:
        return None
    ranks = np.array([average_ranks(row) for row in values])
    mean = ranks.mean(axis=0)
    ties = 0.0
    for row in values:
        sizes = np.unique(row, return_counts=True)[1]
        ties += float((sizes**3 - sizes).sum())
    correction = 1.0 - ties / (n * (k**3 - k))
    if correction <= 0.0:
        return None
    chi2 = (
        12.0
        * n
        / (k * (k + 1))
        * (float(mean @ mean) - k * (k + 1) ** 2 / 4.0)
        / correction
    )
    from scipy.special import betainc, gammaincc

    rest = n * (k - 1) - chi2
    f = (n - 1) * chi2 / rest if rest > 1e-12 * n * k else np.inf
    d1 = k - 1
    d2 = (k - 1) * (n - 1)
    agree = float(factorial(k)) ** -(n - 1)
    f_p = (
        float(betainc(d2 / 2, d1 / 2, d2 / (d2 + d1 * f))) if np.isfinite(f) else agree
    )
    return Friedman(mean, chi2, float(gammaincc(d1 / 2, chi2 / 2)), float(f), f_p)


def nemenyi_distance(k: int, n: int, level: float) -> float:
    """Critical difference of average ranks of k calibrators over n data sets, all pairs
    considered.

    CD = q sqrt(k (k+1) / (6 n)), where q sqrt(2) is the quantile of the range of k
    standard normals, P(range <= r) = k int phi(z) (Phi(z) - Phi(z - r))^(k-1) dz.

    Reference: Nemenyi (1963); Demsar (2006), section 3.2.2.
    """
    from scipy.special import ndtr

    z = np.linspace(-9.0, 9.0, 3601)
    density = k * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) * (z[1] - z[0])

    def is_within_level(r: float) -> bool:
        return float(density @ (ndtr(z) - ndtr(z - r)) ** (k - 1)) < level

    low, _ = halved(is_within_level, 0.0, 20.0, halvings=60)
    return float(low / np.sqrt(2.0) * np.sqrt(k * (k + 1) / (6.0 * n)))


def not_told_apart(ranks: FloatArray, distance: float) -> list[list[int]]:
    """Largest sets of two or more calibrators whose average ranks all lie within the
    distance, best first.
    """
    order = np.argsort(ranks, kind="stable")
    line = ranks[order]
    groups = []
    reach = 0
    for first in range(len(line)):
        last = int(np.searchsorted(line, line[first] + distance, side="left"))
        if last - first > 1 and last > reach:
            groups.append(order[first:last].tolist())
            reach = last
    return groups
