"""The heavy loops, in torch, for a GPU: twins of ``calcli.kernels.numpy``, name by name.

Scores are uploaded once, in their own precision, when they fit into the device's memory
(else once per pass, chunk by chunk). The arithmetic is in float64, and results equal those of NumPy
to 1e-9 relative; ReCal's cumulants, differences of larger numbers, to 1e-11 absolute.
``device="cpu"`` runs the same code without a GPU, which is how the tests compare the two.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.fast_dataclass import dataclass
from calcli.kernels.numpy import recal
from calcli.kernels.numpy.hoki_draws import BEYOND
from calcli.kernels.numpy.hoki_retention import CELLS_PER_FOLD, DEGREE, GapTable, gap_table
from calcli.kernels.numpy.hoki_retention import retention_rates as rates_numpy
from calcli.numerics import TINY, AnyArray, BoolArray, FloatArray
from calcli.rows import Block, Rows

CHUNK = 1 << 24
"""Scores that are worked on at a time: 128 MiB in float64."""

CHUNK_ROWS = 1 << 16
"""Rows that are worked on at a time, when classes are few."""

KEPT_SHARE = 0.5
"""Share of the device's free memory that uploaded scores may take; the rest is for the work."""


@dataclass(frozen=True)
class DeviceChunk:
    """Consecutive rows on the device.

    start : index of the first row. scores : (b, k) in the precision of the source. transformed : (m, b, k) or None.
    """

    start: int
    scores: Any
    transformed: Any

    def __len__(self) -> int:
        return len(self.scores)


class DeviceRows:
    """Rows, and some of their transforms, that were uploaded once, or are again for every pass when too large."""

    def __init__(self, rows: Rows, device: Any = "cuda", transforms: Sequence[int] = ()) -> None:
        import torch

        self.rows, self.device = rows, torch.device(device)
        self.transforms = tuple(transforms)
        self.chunk_rows = max(1, min(CHUNK_ROWS, CHUNK // rows.k))
        self.kept = list(self._upload()) if self._fits() else None

    def __iter__(self) -> Iterator[DeviceChunk]:
        return iter(self._upload() if self.kept is None else self.kept)

    def gaps(self, scores: Any) -> Any:
        """Logits minus the largest of their row, (b, k) float64 <= 0."""
        z = scores.double()
        z = z.clamp_min(TINY).log() if self.rows.kind == "probs" else z
        return z - z.amax(dim=1, keepdim=True)

    def zeros(self, *shape: int) -> Any:
        """Float64 zeros on the device."""
        import torch

        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    def _fits(self) -> bool:
        import torch

        if self.device.type != "cuda":
            return True
        first = next(iter(self.rows.blocks()))
        needed = self.rows.n * self.rows.k * first.scores.itemsize * (1 + len(self.transforms))
        return needed <= KEPT_SHARE * float(torch.cuda.mem_get_info(self.device)[0])

    def _upload(self) -> Iterator[DeviceChunk]:
        gathered: list[Block] = []
        for block in self.rows.blocks(self.transforms):
            gathered.append(block)
            if sum(map(len, gathered)) >= self.chunk_rows:
                yield self._send(gathered)
                gathered = []
        if gathered:
            yield self._send(gathered)

    def _send(self, blocks: list[Block]) -> DeviceChunk:
        import torch

        def send(parts: list[Any], axis: int = 0) -> Any:
            # Joining copies, so that a read-only source is never handed to torch.
            return torch.from_numpy(np.concatenate(parts, axis=axis)).to(self.device)

        first = blocks[0]
        return DeviceChunk(
            first.start,
            send([b.scores for b in blocks]),
            send([b.transformed for b in blocks], axis=1) if first.transformed is not None else None,
        )


# ---- Hoki's retention probabilities


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


# ---- ReCal's rounds, with scores that stay on the device


class RowSharpness(recal.RowSharpness):
    """The scores behind the rounds, uploaded once: a round sends one number per row and brings back a few."""

    def __init__(self, rows: Rows, *, device: Any = "cuda") -> None:
        super().__init__(rows)
        self.data = DeviceRows(rows, device, range(len(rows.transforms)))

    def _send(self, values: AnyArray) -> Any:
        import torch

        return torch.from_numpy(np.ascontiguousarray(values)).to(self.data.device)

    def tilt(self, scale: FloatArray, wanted: BoolArray | None = None) -> recal.TiltedRows:
        sent = self._send(scale)
        out = self.data.zeros(5, self.rows.n)
        for chunk in self.data:
            here = slice(chunk.start, chunk.start + len(chunk))
            gaps = self.data.gaps(chunk.scores)
            x = gaps * sent[here, None]
            p = x.exp()
            norm = p.sum(dim=1)
            m1, m2, m3, m4 = (p.mul_(x).sum(dim=1) / norm for _ in range(4))  # E[x], E[x^2] and so on
            out[0, here] = -norm.log()
            out[1, here] = m1
            out[2, here] = m2 - m1 * m1
            out[3, here] = m3 - 3 * m2 * m1 + 2 * m1**3
            out[4, here] = m4 - 4 * m3 * m1 - 3 * m2 * m2 + 12 * m2 * m1 * m1 - 6 * m1**4
        if wanted is not None:
            out *= self._send(wanted)
        found = out.cpu().numpy()
        return recal.TiltedRows(found[0], found[1:])

    def response(self, transform: int, scale: FloatArray, own: bool) -> tuple[FloatArray, BoolArray]:
        sent, predicted = self._send(scale), self._send(self.predicted)
        share, agree = self.data.zeros(self.rows.n), self.data.zeros(self.rows.n)
        for chunk in self.data:
            here = slice(chunk.start, chunk.start + len(chunk))
            z = chunk.transformed[transform].double()  # transforms are logits, whatever the scores are
            gaps = z - z.amax(dim=1, keepdim=True)
            x = gaps * sent[here, None]
            log_norm = x.exp().sum(dim=1).log()
            at_predicted = predicted[here][:, None]
            share[here] = -log_norm if own else x.gather(1, at_predicted)[:, 0] - log_norm
            agree[here] = (gaps.argmax(dim=1) == predicted[here]).double()
        return share.cpu().numpy(), agree.cpu().numpy() > 0
