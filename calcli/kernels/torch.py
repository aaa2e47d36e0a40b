"""The heavy loops, in torch, for a GPU: twins of ``calcli.kernels.numpy``, name by name.

Scores are uploaded once, in their own precision, when they fit into the device's memory
(else once per pass, chunk by chunk). The arithmetic is in float64, and results equal those of NumPy
to 1e-9 relative; ReCal's cumulants, differences of larger numbers, to 1e-11 absolute.
``device="cpu"`` runs the same code without a GPU, which is how the tests compare the two.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.kernels.numpy import recal
from calcli.kernels.numpy.hoki_draws import BEYOND
from calcli.kernels.numpy.hoki_retention import (
    CELLS_PER_FOLD,
    DEGREE,
    GapTable,
    gap_table,
)
from calcli.kernels.numpy.hoki_retention import retention_rates as rates_numpy
from calcli.numerics import BoolArray, FloatArray
from calcli.rows import Block, Rows, joined

CHUNK = 1 << 24  # scores that are worked on at a time: 128 MiB in float64
CHUNK_ROWS = 1 << 16  # rows that are worked on at a time, when classes are few
KEPT_SHARE = 0.5  # share of the device's free memory that uploaded scores may take; the rest is for the work


class DeviceRows:
    """Rows, and some of their transforms, that were uploaded once, or are again for every pass when too large.

    Iterates over chunks: a slice of the rows, their scores (b, k) in the precision of the source, and transformed
    (m, b, k) or None. send : copies an array to the device. zeros : float64 zeros there.
    """

    def __init__(
        self, rows: Rows, device: Any = "cuda", transforms: Sequence[int] = ()
    ) -> None:
        import torch

        self.rows, self.device, self.transforms = (
            rows,
            torch.device(device),
            tuple(transforms),
        )
        self.send = partial(torch.tensor, device=self.device)
        self.zeros = partial(torch.zeros, dtype=torch.float64, device=self.device)
        self.chunk_rows = max(1, min(CHUNK_ROWS, CHUNK // rows.k))
        self.kept = list(self._upload()) if self._fits() else None

    def __iter__(self) -> Iterator[tuple[slice, Any, Any]]:
        return iter(self._upload() if self.kept is None else self.kept)

    def gaps(self, scores: Any) -> Any:
        """Logits minus the largest of their row, (b, k) float64 <= 0."""
        z = scores.double()
        z = self._log_of(z) if self.rows.kind == "probs" else z
        return z - z.amax(dim=1, keepdim=True)

    def _log_of(self, p: Any) -> Any:
        """``Zeros.log_of``."""
        import torch

        zeros = self.rows.zeros
        assert zeros is not None, "these rows hold probabilities"
        zero = p <= zeros.clip
        fill = self.send(zeros.log_half) - (zero.sum(dim=1) + 1.0).log()[:, None]
        return torch.where(zero, fill, torch.where(zero, 1.0, p).log())

    def _fits(self) -> bool:
        import torch

        if self.device.type != "cuda":
            return True
        first = next(iter(self.rows.blocks()))
        needed = (
            self.rows.n
            * self.rows.k
            * first.scores.itemsize
            * (1 + len(self.transforms))
        )
        return needed <= KEPT_SHARE * float(torch.cuda.mem_get_info(self.device)[0])

    def _upload(self) -> Iterator[tuple[slice, Any, Any]]:
        gathered: list[Block] = []
        for block in self.rows.blocks(self.transforms):
            gathered.append(block)
            start, stop = gathered[0].start, block.start + len(block)
            if stop - start >= self.chunk_rows or stop == self.rows.n:
                chunk, gathered = joined(gathered), []
                moved = (
                    None if chunk.transformed is None else self.send(chunk.transformed)
                )
                yield slice(start, stop), self.send(chunk.scores), moved


# ---- Hoki's retention probabilities


RACES = 1 << 27  # single comparisons (rows x classes x draws) held at a time: 512 MiB


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
    if noise == "uniform" and draws is None:
        return rates_numpy(rows, noise, scales, None, report)
    data = DeviceRows(rows, device)
    out = data.zeros(rows.n, len(scales))
    table = by_class = None
    if draws is not None:
        by_class = data.send(np.ascontiguousarray(draws.T))
    elif noise == "gaussian":
        table = gap_table(tuple(scales), rows.k)
        *per_scale, log_weight = map(data.send, (*table.per_scale, table.log_weight))
    for here, scores, _ in data:
        gaps = data.gaps(scores)
        top = gaps.argmax(dim=1)  # the first of several largest
        d = (-gaps).scatter_(1, top[:, None], np.inf)  # no class overtakes itself
        if table is not None:
            moments = power_sums(d, table)
            for j, coefficients in enumerate(per_scale):
                log_products = moments[:, : len(coefficients)] @ coefficients
                log_products += log_weight
                out[here, j] = log_products.exp_().sum(dim=1)
        else:
            for j, scale in enumerate(scales):
                if by_class is None:
                    out[here, j] = 1.0 / (1.0 + (d / -scale).exp().sum(dim=1))
                else:
                    out[here, j] = sampled(d, top, scale, by_class)
        report(here.stop)
    return np.asarray(out.clamp_max(1.0).cpu())


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
    at = (
        cell.clamp_max_(table.cells) + torch.arange(b, device=d.device)[:, None] * width
    ).ravel()
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
    k, m = by_class.shape
    behind = (d / scale).clamp_max(BEYOND).float()
    step = max(1, RACES // (k * m))
    shares = d.new_empty(len(d))
    for at in range(0, len(d), step):
        some = slice(at, at + step)
        fastest = (by_class - behind[some, :, None]).amax(dim=1)
        shares[some] = (fastest <= by_class[top[some]]).double().mean(dim=1)
    return shares


# ---- ReCal's rounds, with scores that stay on the device


class RowSharpness(recal.RowSharpness):
    """The scores behind the rounds, uploaded once: a round sends one number per row and brings back a few."""

    def __init__(self, rows: Rows, *, device: Any = "cuda") -> None:
        super().__init__(rows)
        self.data = DeviceRows(rows, device, range(len(rows.transforms)))

    def tilt(
        self, scale: FloatArray, wanted: BoolArray | None = None
    ) -> recal.TiltedRows:
        sent = self.data.send(scale)
        out = self.data.zeros(5, self.rows.n)
        for here, scores, _ in self.data:
            x = self.data.gaps(scores) * sent[here, None]
            p = x.exp()
            norm = p.sum(dim=1)
            moments = [
                p.mul_(x).sum(dim=1) / norm for _ in range(4)
            ]  # E[x], E[x^2] and so on
            for into, values in zip(
                out, (-norm.log(), *recal.cumulants_of(*moments)), strict=True
            ):
                into[here] = values
        if wanted is not None:
            out *= self.data.send(wanted)
        found = out.cpu().numpy()
        return recal.TiltedRows(found[0], found[1:])

    def response(
        self, transform: int, scale: FloatArray, own: bool
    ) -> tuple[FloatArray, BoolArray]:
        sent, predicted = self.data.send(scale), self.data.send(self.predicted)
        share, agree = self.data.zeros(2, self.rows.n)
        for here, _, transformed in self.data:
            z = transformed[
                transform
            ].double()  # transforms are logits, whatever the scores are
            gaps = z - z.amax(dim=1, keepdim=True)
            x = gaps * sent[here, None]
            log_norm = x.exp().sum(dim=1).log()
            share[here] = (
                -log_norm
                if own
                else x.gather(1, predicted[here][:, None])[:, 0] - log_norm
            )
            agree[here] = (gaps.argmax(dim=1) == predicted[here]).double()
        return share.cpu().numpy(), agree.cpu().numpy() > 0
