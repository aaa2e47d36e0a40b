"""Score rows on a torch device."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from calcli.fast_dataclass import dataclass
from calcli.numerics import TINY
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
