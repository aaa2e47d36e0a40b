"""Hoki's retention probabilities: twin of ``calcli.kernels.numpy.hoki_retention``."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.kernels.numpy.hoki_draws import BEYOND
from calcli.kernels.numpy.hoki_retention import (
    CELLS_PER_FOLD,
    DEGREE,
    GapTable,
    gap_table,
)
from calcli.kernels.numpy.hoki_retention import retention_rates as rates_numpy
from calcli.kernels.torch.device_rows import (
    Device,
    DeviceRows,
    Results,
    ignore,
    unless_exhausted,
)
from calcli.numerics import FloatArray
from calcli.rows import Rows

Report = Callable[[int], None]
Draws = NDArray[np.float32]
RatesOf = Callable[[Any, Any], Any]
"""Retention of gaps (b, k), infinite for the top class, and that class (b,): (scales,
b).
"""


def retention_rates(
    rows: Rows,
    noise: str,
    scales: Sequence[float],
    draws: Draws | None = None,
    report: Report = lambda done: None,
    *,
    device: Any = "cuda",
    exhausted: Callable[[], None] = ignore,
) -> FloatArray:
    """Retention probability of every row at every scale, (n, len(scales)) float64.

    The same bytes every time: sums that meet in one place are of integers. Counts of
    draws equal those of NumPy exactly. The exact value for uniform noise is computed by
    NumPy: its walk from kink to kink has too little to do at a time for a GPU.
    exhausted : called where the device's memory is, before NumPy takes over.
    """
    in_numpy = partial(rates_numpy, rows, noise, scales, draws, report)
    if noise == "uniform" and draws is None:
        return in_numpy()
    on_device = partial(
        _rates_on_device, rows, noise, scales, draws, report, Device(device)
    )
    return unless_exhausted(on_device, in_numpy, exhausted)


def _rates_on_device(
    rows: Rows,
    noise: str,
    scales: Sequence[float],
    draws: Draws | None,
    report: Report,
    device: Device,
) -> FloatArray:
    working_numbers = len(scales)
    rates_of: RatesOf
    if draws is not None:
        rates_of = SampledRates(draws, scales, device)
    elif noise == "gaussian":
        gaussian = GaussianRates(gap_table(tuple(scales), rows.k), device)
        working_numbers = max(working_numbers, gaussian.numbers_per_row)
        rates_of = gaussian
    else:
        rates_of = partial(gumbel_rates, scales)
    data = DeviceRows(
        rows, device, working_numbers=working_numbers, kept_numbers=len(scales)
    )
    results = Results(data, len(scales))
    for chunk in data.chunks():
        gaps = data.gaps(chunk.scores)
        top = gaps.argmax(dim=1)  # the first of several largest
        # No class overtakes itself.
        d = gaps.neg_().scatter_(1, top[:, None], np.inf)
        results.put(chunk, rates_of(d, top))
        report(chunk.rows.stop)
    rates = np.minimum(results.fetch(), 1.0)
    return np.ascontiguousarray(rates.T)


def gumbel_rates(scales: Sequence[float], d: Any, top: Any) -> Any:
    """Exact retention under Gumbel noise (see ``RatesOf``)."""
    out = d.new_empty(len(scales), len(d))
    for j, scale in enumerate(scales):
        out[j] = 1.0 / (1.0 + (d / -scale).exp_().sum(dim=1))
    return out


# ---- exact retention under Gaussian noise


class GaussianRates:
    """Exact retention under Gaussian noise (see ``RatesOf``).

    numbers_per_row : that the work on a row makes, beside its gaps.
    """

    def __init__(self, table: GapTable, device: Device) -> None:
        """Send the table's coefficients, in one array."""
        self.table = table
        sizes = list(map(len, table.per_scale))
        weights = table.log_weight[None]
        rows = device.send(np.concatenate([*table.per_scale, weights]))
        *self.per_scale, self.log_weight = rows.split([*sizes, 1])
        numbers = (table.cells + 1) * (DEGREE + 1)
        self.numbers_per_row = max(numbers, len(table.log_weight))

    def __call__(self, d: Any, top: Any) -> Any:
        moments = power_sums(d, self.table)
        out = d.new_empty(len(self.per_scale), len(d))
        for j, coefficients in enumerate(self.per_scale):
            log_products = moments[:, : len(coefficients)] @ coefficients
            log_products += self.log_weight
            out[j] = log_products.exp_().sum(dim=1)
        return out


def power_sums(d: Any, table: GapTable) -> Any:
    """Power sums of the gaps' positions in their cells, (b, cells * (DEGREE + 1)).

    Atomic additions come in any order, and floating-point sums depend on it. Powers are
    therefore added as 64-bit fixed-point numbers, with as many digits as k of them
    leave.
    """
    import torch

    b, k = d.shape
    width = table.cells + 1  # one more cell takes what is dropped
    x = (d.clamp_max(table.far) / table.knee).log1p_().mul_(CELLS_PER_FOLD)
    cell = x.to(torch.int64)
    t = (x - cell).mul_(2.0).sub_(1.0).ravel()
    cell.masked_fill_(d >= table.far, table.cells).clamp_max_(table.cells)
    cell += torch.arange(b, device=d.device)[:, None] * width
    places = cell.ravel()
    one = 2.0 ** (62 - int(np.ceil(np.log2(k))))
    sums = torch.empty((b, width, DEGREE + 1), dtype=d.dtype, device=d.device)
    power = torch.ones_like(t)
    for degree in range(DEGREE + 1):
        whole = torch.zeros(b * width, dtype=torch.int64, device=d.device)
        whole.scatter_add_(0, places, (power * one).to(torch.int64))
        sums[:, :, degree] = (whole.double() / one).view(b, width)
        power *= t
    return sums[:, : table.cells].reshape(b, table.cells * (DEGREE + 1))


# ---- retention by drawing


RACES = 1 << 27
"""Single comparisons (rows x classes x draws) held at a time: 512 MiB."""

DRAWN_NUMBERS = 1 << 26
"""Numbers of the draws (classes x draws) on the device at a time: 256 MiB."""


class SampledRates:
    """Retention by drawing (see ``RatesOf``). draws : (m, k) standard noise."""

    def __init__(self, draws: Draws, scales: Sequence[float], device: Device) -> None:
        self.draws = draws
        self.scales = scales
        self.device = device
        self.per_part = max(1, DRAWN_NUMBERS // draws.shape[1])
        self.whole: Any = None
        if len(draws) <= self.per_part:
            self.whole = self._sent(draws)

    def __call__(self, d: Any, top: Any) -> Any:
        wins = d.new_zeros(len(self.scales), len(d))
        for by_class in self._parts():
            for j, scale in enumerate(self.scales):
                wins[j] += races_won(d, top, scale, by_class)
        return wins / len(self.draws)

    def _parts(self) -> Iterator[Any]:
        """The draws by class, (k, m); where they are too many, some after others."""
        if self.whole is not None:
            yield self.whole
            return
        for start in range(0, len(self.draws), self.per_part):
            yield self._sent(self.draws[start : start + self.per_part])

    def _sent(self, draws: Draws) -> Any:
        return self.device.send(np.ascontiguousarray(draws.T))


def races_won(d: Any, top: Any, scale: float, by_class: Any) -> Any:
    """Number of the draws (k, m) under which the top class stays on top, (b,).

    All classes race: a GPU compares faster than it sorts out who cannot win.
    """
    k, m = by_class.shape
    behind = (d / scale).clamp_max_(BEYOND).float()
    step = max(1, RACES // (k * m))
    wins = d.new_empty(len(d))
    for start in range(0, len(d), step):
        some = slice(start, start + step)
        fastest = (by_class - behind[some, :, None]).amax(dim=1)
        wins[some] = (fastest <= by_class[top[some]]).sum(dim=1).double()
    return wins
