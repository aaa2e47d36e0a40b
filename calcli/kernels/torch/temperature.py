"""Twin of ``calcli.kernels.numpy.temperature``, whose docstrings explain the sums."""

from typing import Any

import numpy as np

from calcli.kernels.numpy.temperature import Slope, around_least, octaves
from calcli.kernels.torch.upload import DeviceRows
from calcli.rows import Rows


def nll_slope(rows: Rows, *, device: Any = "cuda", dtype: Any = None) -> Slope:
    """d mean NLL / d log beta and its derivative; three sums come back per round."""
    data = DeviceRows(rows, device, dtype)

    def at(log_beta: float) -> tuple[float, float]:
        beta = float(np.exp(log_beta))
        sums = data.zeros(3)
        for chunk in data:
            d = data.gaps(chunk.scores)
            p = (d * beta).softmax(dim=1)
            p *= d
            mean = p.sum(dim=1)
            p *= d
            variance = p.sum(dim=1) - mean**2
            d_y = d.gather(1, chunk.y[:, None])[:, 0]
            sums += _weighted(chunk.weight, mean - d_y, variance)
        mass, first, second = sums.tolist()
        g, h = first / mass, second / mass
        return beta * g, beta * g + beta**2 * h

    return at


def top_mass_slope(rows: Rows, top: int, target: float, *, device: Any = "cuda", dtype: Any = None) -> Slope:
    """Mean probability of the ``top`` largest classes minus ``target``, and its derivative."""
    data = DeviceRows(rows, device, dtype)

    def at(log_beta: float) -> tuple[float, float]:
        beta = float(np.exp(log_beta))
        sums = data.zeros(3)
        for chunk in data:
            d = data.gaps(chunk.scores)
            p = (d * beta).softmax(dim=1)
            mean = (p * d).sum(dim=1)
            if top == 1:
                share = p.amax(dim=1)
                rate = -share * mean
            else:
                d_top, largest = d.topk(top, dim=1)
                p_top = p.gather(1, largest)
                share = p_top.sum(dim=1)
                rate = (p_top * (d_top - mean[:, None])).sum(dim=1)
            sums += _weighted(chunk.weight, share, rate)
        mass, value, slope = sums.tolist()
        return value / mass - target, beta * slope / mass

    return at


def brier_slope(
    rows: Rows, low: float, high: float, *, device: Any = "cuda", dtype: Any = None
) -> tuple[tuple[float, float, float], Slope]:
    """Where the mean squared error is least, as (low, best, high) in log beta, and its slope."""
    data = DeviceRows(rows, device, dtype)
    grid = np.concatenate(octaves(low, high))
    total = data.zeros(len(grid))
    for chunk in data:
        d = data.gaps(chunk.scores)
        for j, log_beta in enumerate(grid.tolist()):
            p = (d * float(np.exp(log_beta))).softmax(dim=1)
            p_y = p.gather(1, chunk.y[:, None])[:, 0]
            total[j] += _weighted(chunk.weight, (p * p).sum(dim=1) - 2 * p_y)[1]

    def at(log_beta: float) -> tuple[float, float]:
        beta = float(np.exp(log_beta))
        sums = data.zeros(3)
        for chunk in data:
            d = data.gaps(chunk.scores)
            p = (d * beta).softmax(dim=1)
            u = d - (p * d).sum(dim=1, keepdim=True)
            p_y = p.gather(1, chunk.y[:, None])[:, 0]
            u_y = u.gather(1, chunk.y[:, None])[:, 0]
            pu = p * u
            variance = (pu * u).sum(dim=1)
            pp = (p * p).sum(dim=1)
            first = 2 * ((p * pu).sum(dim=1) - p_y * u_y)
            second = 2 * (2 * (pu * pu).sum(dim=1) - pp * variance - p_y * (u_y**2 - variance))
            sums += _weighted(chunk.weight, first, second)
        mass, first_sum, second_sum = sums.tolist()
        g, h = first_sum / mass, second_sum / mass
        return beta * g, beta * g + beta**2 * h

    return around_least(grid, total.tolist(), low, high), at


def _weighted(weight: Any, *values: Any) -> Any:
    """Total weight, then the weighted sums of per-row values, in float64 on the device."""
    import torch

    return torch.stack([weight.sum(), *((weight * v.double()).sum() for v in values)])
