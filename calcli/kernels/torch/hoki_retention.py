"""Twin of ``calcli.kernels.numpy.hoki_retention``: Hoki's retention probabilities on a device."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.kernels.numpy.hoki_draws import BEYOND
from calcli.kernels.numpy.hoki_retention import CELLS_PER_FOLD, DEGREE, GapTable, gap_table
from calcli.kernels.numpy.hoki_retention import retention_rates as rates_numpy
from calcli.kernels.torch.upload import DeviceRows
from calcli.numerics import FloatArray
from calcli.rows import Rows

RACES = 1 << 27
"""Single comparisons (rows x classes x draws) held at a time: 512 MiB."""


def retention_rates(
    rows: Rows,
    noise: str,
    scales: Sequence[float],
    draws: NDArray[np.float32] | None = None,
    report: Callable[[int], None] = lambda done: None,
    *,
    device: Any = "cuda",
) -> FloatArray:
    """Retention probability of every row at every scale, (n, len(scales)) float64.

    The same bytes every time: sums that meet in one place are of integers. Counts of draws
    equal those of NumPy exactly. The exact value for uniform noise is computed by NumPy:
    its walk from kink to kink has too little to do at a time for a GPU.
    """
    import torch

    if noise == "uniform" and draws is None:
        return rates_numpy(rows, noise, scales, None, report)
    data = DeviceRows(rows, device)
    out = data.zeros(rows.n, len(scales))
    table = tables = by_class = None
    if draws is not None:
        by_class = torch.from_numpy(np.ascontiguousarray(draws.T)).to(data.device)
    elif noise == "gaussian":
        table = gap_table(tuple(scales), rows.k)
        tables = [torch.from_numpy(t).to(data.device) for t in (*table.per_scale, table.log_weight)]
    for chunk in data:
        d, top = gaps_to_top(data.gaps(chunk.scores))
        here = out[chunk.start : chunk.start + len(chunk)]
        if table is not None and tables is not None:
            moments, (*per_scale, log_weight) = power_sums(d, table), tables
            for j, coefficients in enumerate(per_scale):
                log_products = moments[:, : len(coefficients)] @ coefficients
                log_products += log_weight
                here[:, j] = log_products.exp_().sum(dim=1)
        else:
            for j, scale in enumerate(scales):
                if by_class is None:
                    here[:, j] = 1.0 / (1.0 + (d / -scale).exp().sum(dim=1))
                else:
                    here[:, j] = sampled(d, top, scale, by_class)
        report(chunk.start + len(chunk))
    probabilities: FloatArray = out.clamp_max(1.0).cpu().numpy()
    return probabilities


def gaps_to_top(gaps: Any) -> tuple[Any, Any]:
    """Gaps to the largest logit, (b, k) >= 0, infinite for its own class, and that class (b,)."""
    import torch

    top = gaps.argmax(dim=1)  # the first of several largest
    d = -gaps
    d.scatter_(1, top[:, None], torch.inf)
    return d, top


def power_sums(d: Any, table: GapTable) -> Any:
    """Power sums of the gaps' positions in their cells, (b, cells * (DEGREE + 1)).

    Atomic additions come in any order, and floating-point sums depend on it. Powers are
    therefore added as 64-bit fixed-point numbers, with as many digits as k of them leave.
    """
    import torch

    b, k = d.shape
    width = table.cells + 1
    x = (d.clamp_max(table.far) / table.knee).log1p_() * CELLS_PER_FOLD
    cell = x.to(torch.int64)
    cell.masked_fill_(d >= table.far, table.cells)
    t = (x - cell).mul_(2.0).sub_(1.0).ravel()
    at = (cell.clamp_max_(table.cells) + torch.arange(b, device=d.device)[:, None] * width).ravel()
    one = 2.0 ** (62 - int(np.ceil(np.log2(k))))
    sums = torch.empty((b, width, DEGREE + 1), dtype=d.dtype, device=d.device)
    power = torch.ones_like(t, dtype=torch.float64)
    for p in range(DEGREE + 1):
        whole = torch.zeros(b * width, dtype=torch.int64, device=d.device)
        whole.scatter_add_(0, at, (power * one).to(torch.int64))
        sums[:, :, p] = (whole.double() / one).view(b, width)
        power *= t
    return sums[:, : table.cells].reshape(b, table.cells * (DEGREE + 1))


def sampled(d: Any, top: Any, scale: float, by_class: Any) -> Any:
    """Share of the draws (k, m) under which the top class stays on top, (b,) float64.

    All classes race: a GPU compares faster than it sorts out who cannot win.
    """
    import torch

    k, m = by_class.shape
    behind = (d / scale).clamp_max(BEYOND).float()
    step = max(1, RACES // (k * m))
    shares = []
    for at in range(0, len(d), step):
        fastest = (by_class - behind[at : at + step, :, None]).amax(dim=1)
        shares.append((fastest <= by_class[top[at : at + step]]).double().mean(dim=1))
    return torch.cat(shares)
