"""ReCal's heavy loops on CUDA: the twin of ``calcli.kernels.recal``.

The scores of the originals stay on the device, and those of each transform from the round
that first draws it while there is room; a round moves some numbers per row, no scores.
Sums are in float64, as in the twin.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from calcli.kernels.recal import Response, Tilt
from calcli.numerics import FloatArray
from calcli.rows import Block, Rows

__all__ = ["TorchRowSharpness", "row_sharpness"]

CHUNK = 1 << 23
"""Scores worked on at once: 64 MiB in float64."""

ROOM = 0.15
"""Share of the device's memory that is left free."""


class TorchRowSharpness:
    """See ``calcli.kernels.recal.RowSharpness``; the same names mean the same things."""

    def __init__(self, rows: Rows, device: str = "cuda") -> None:
        self.rows, self.device = rows, device
        self.step = max(1, CHUNK // rows.k)
        self._z = torch.cat([self._tensor(block) for block in rows.blocks()])
        self._moved: dict[int, torch.Tensor] = {}
        top, predicted = self._top(self._z)
        y = torch.from_numpy(np.ascontiguousarray(rows.labels())).to(device)
        z_y = self._z.gather(1, y[:, None])[:, 0].double()
        self._predicted = predicted
        self.predicted = predicted.cpu().numpy()
        self.label_gap: FloatArray = (z_y - top).cpu().numpy()

    def _tensor(self, block: Block, transform: bool = False) -> torch.Tensor:
        """Scores of a block on the device: logits in the precision they are stored in."""
        if transform:
            assert block.transformed is not None
            scores = block.transformed[0]
        else:
            scores = block.scores if block.kind != "probs" else block.z
        return torch.from_numpy(np.array(scores)).to(self.device)

    def _top(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Largest logit of each row, and the lowest index that holds it."""
        top = z.max(dim=1).values
        first = torch.empty(len(z), dtype=torch.int64, device=self.device)
        index = torch.arange(z.shape[1], device=self.device)
        for at in range(0, len(z), self.step):
            part = slice(at, at + self.step)
            # torch's argmax does not promise the first of equal ones.
            first[part] = torch.where(z[part] == top[part, None], index, z.shape[1]).min(dim=1).values
        return top.double(), first

    def tilt(self, scale: FloatArray, wanted: NDArray[np.bool_] | None = None) -> Tilt:
        """Rows at ``scale`` (n,); those not ``wanted`` hold zeros."""
        n = self.rows.n
        out = torch.zeros((5, n), dtype=torch.float64, device=self.device)
        s = torch.from_numpy(np.ascontiguousarray(scale)).to(self.device)
        here = None if wanted is None else torch.from_numpy(np.flatnonzero(wanted)).to(self.device)
        for at in range(0, n if here is None else len(here), self.step):
            rows = slice(at, min(at + self.step, n)) if here is None else here[at : at + self.step]
            out[:, rows] = self._tilt(self._z[rows].double(), s[rows])
        result = out.cpu().numpy()
        return Tilt(result[0], result[1:])

    @staticmethod
    def _tilt(z: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        x = (z - z.max(dim=1, keepdim=True).values) * scale[:, None]
        p = torch.exp(x)
        norm = p.sum(dim=1)
        m1 = (p * x).sum(dim=1) / norm
        square = x * x
        p *= square
        m2 = p.sum(dim=1) / norm
        m3 = (p * x).sum(dim=1) / norm
        m4 = (p * square).sum(dim=1) / norm
        k2 = m2 - m1 * m1
        k3 = m3 - 3 * m2 * m1 + 2 * m1**3
        k4 = m4 - 4 * m3 * m1 - 3 * m2 * m2 + 12 * m2 * m1 * m1 - 6 * m1**4
        return torch.stack([-torch.log(norm), m1, k2, k3, k4])

    def response(self, transform: int, scale: FloatArray, own: bool) -> Response:
        """Answer to the transform with this index; own : at its own predicted class."""
        moved = self._moved.get(transform)
        if moved is None:
            moved = torch.cat([self._tensor(block, True) for block in self.rows.blocks([transform])])
            if self._room():
                self._moved[transform] = moved
        s = torch.from_numpy(np.ascontiguousarray(scale)).to(self.device)
        share = torch.empty(self.rows.n, dtype=torch.float64, device=self.device)
        top, first = self._top(moved)
        for at in range(0, self.rows.n, self.step):
            part = slice(at, at + self.step)
            gaps = moved[part].double() - top[part, None]
            share[part] = -torch.log(torch.exp(gaps * s[part, None]).sum(dim=1))
            if not own:
                share[part] += s[part] * gaps.gather(1, self._predicted[part, None])[:, 0]
        return Response(share.cpu().numpy(), (first == self._predicted).cpu().numpy())

    def _room(self) -> bool:
        if self.device == "cpu":
            return True
        free, total = torch.cuda.mem_get_info()
        return free > ROOM * total


def row_sharpness(rows: Rows) -> TorchRowSharpness:
    """The scores of ``rows`` behind ReCal's rounds, on the CUDA device."""
    return TorchRowSharpness(rows)
