"""Estimating equations of the one-temperature methods.

Functions here return a function of log beta (beta = 1/T) that gives the value and the
derivative of a fit's estimating equation, for a root finder.
"""

from collections.abc import Callable

import numpy as np

from calcli.numerics import FloatArray
from calcli.rows import Block, Rows

__all__ = ["Slope", "brier_slope", "nll_slope", "top_mass_slope"]

Slope = Callable[[float], tuple[float, float]]


def gaps_and_tilt(z: FloatArray, beta: float) -> tuple[FloatArray, FloatArray]:
    """Gaps to the row's largest logit, and the softmax of beta z.

    z : (n, k). Returns d = z - max z <= 0 and p, both (n, k) float64. Every moment of z
    under p is taken of d, which does not cancel when logits are large.
    """
    d = z - z.max(axis=1, keepdims=True)
    p = np.exp(beta * d)
    p /= p.sum(axis=1, keepdims=True)
    return d, p


def _weighted(block: Block, values: FloatArray) -> float:
    return float(values.sum() if block.weight is None else block.weight @ values)


def _mass(block: Block) -> float:
    return float(len(block) if block.weight is None else block.weight.sum())


def nll_slope(rows: Rows) -> Slope:
    """d mean NLL / d log beta = beta mean(E_p[z] - z_y), and its derivative.

    (Guo et al. 2017, equation 9, in beta = 1/T, where the NLL is convex.)
    """

    def at(log_beta: float) -> tuple[float, float]:
        beta = np.exp(log_beta)
        mass = first = second = 0.0
        for block in rows.blocks():
            d, p = gaps_and_tilt(block.z, beta)
            mean = np.einsum("ij,ij->i", p, d)
            d_y = d[np.arange(len(d)), block.labels]
            variance = np.einsum("ij,ij,ij->i", p, d, d) - mean**2
            mass += _mass(block)
            first += _weighted(block, mean - d_y)
            second += _weighted(block, variance)
        g, h = first / mass, second / mass
        return beta * g, beta * g + beta**2 * h

    return at


def top_mass_slope(rows: Rows, top: int, target: float) -> Slope:
    """Mean probability of the ``top`` largest classes minus ``target``, and its derivative.

    (Clarte et al. 2023, equation 5.) Both in log beta; the value never decreases.
    """

    def at(log_beta: float) -> tuple[float, float]:
        beta = np.exp(log_beta)
        mass = value = slope = 0.0
        for block in rows.blocks():
            d, p = gaps_and_tilt(block.z, beta)
            mean = np.einsum("ij,ij->i", p, d)
            if top == 1:
                share = p.max(axis=1)
                rate = -share * mean  # the largest logit has gap 0
            else:
                largest = np.argpartition(d, -top, axis=1)[:, -top:]
                p_top = np.take_along_axis(p, largest, axis=1)
                d_top = np.take_along_axis(d, largest, axis=1)
                share = p_top.sum(axis=1)
                rate = (p_top * (d_top - mean[:, None])).sum(axis=1)
            mass += _mass(block)
            value += _weighted(block, share)
            slope += _weighted(block, rate)
        return value / mass - target, beta * slope / mass

    return at


def brier_slope(rows: Rows, low: float, high: float) -> tuple[float, Slope]:
    """The best of a grid of log beta for the mean squared error, and its slope function.

    The squared error is not convex in beta: one pass scores a grid, the slope's root next
    to the best point polishes it.
    """
    grid = np.linspace(low, high, 65)
    total = np.zeros(len(grid))
    for block in rows.blocks():
        rows_here = np.arange(len(block))
        for j, log_beta in enumerate(grid):
            _, p = gaps_and_tilt(block.z, np.exp(log_beta))
            total[j] += _weighted(block, np.einsum("ij,ij->i", p, p) - 2 * p[rows_here, block.labels])
    best = float(grid[np.argmin(total)])

    def at(log_beta: float) -> tuple[float, float]:
        beta = np.exp(log_beta)
        mass = first = second = 0.0
        for block in rows.blocks():
            d, p = gaps_and_tilt(block.z, beta)
            u = d - np.einsum("ij,ij->i", p, d)[:, None]  # d p / d beta = p u
            variance = np.einsum("ij,ij,ij->i", p, u, u)
            rows_here = np.arange(len(d))
            p_y, u_y = p[rows_here, block.labels], u[rows_here, block.labels]
            pp_u = np.einsum("ij,ij,ij->i", p, p, u)
            pp_uu = np.einsum("ij,ij,ij,ij->i", p, p, u, u)
            pp = np.einsum("ij,ij->i", p, p)
            mass += _mass(block)
            first += _weighted(block, 2 * (pp_u - p_y * u_y))
            second += _weighted(block, 2 * (2 * pp_uu - pp * variance - p_y * (u_y**2 - variance)))
        g, h = first / mass, second / mass
        return beta * g, beta * g + beta**2 * h

    return best, at
