"""Rows on a device: uploaded once where they fit, else chunk by chunk in every pass.

What belongs to the rows (one number per row that goes in, a few that come back) follows
them: it crosses once per pass where the rows stay on the device, else once per chunk.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from calcli.block import Block, joined
from calcli.numerics import AnyArray, FloatArray
from calcli.rows import Rows

WORKING_NUMBERS = 1 << 24
"""Numbers in one array that a loop makes of a chunk of rows: 128 MiB in float64."""

UPLOADED_NUMBERS = 1 << 26
"""Numbers of a chunk that are uploaded, with transforms: 256 MiB in float32."""

LEAST_PER_ROW = 16
"""Numbers that a row takes at least, however few its classes: moments and results."""

KEPT_SHARE = 0.5
"""Share of the free memory that uploaded rows may take; the rest is for the work."""

Result = TypeVar("Result")


class Device:
    """A device of torch. ``send`` and ``fetch`` are the only calls that wait for it."""

    def __init__(self, name: Any) -> None:
        import torch

        self.torch = torch
        self.device = torch.device(name)

    def send(self, array: AnyArray) -> Any:
        """Copy an array to the device."""
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        return self.torch.tensor(native, device=self.device)

    def fetch(self, tensor: Any) -> AnyArray:
        """Copy a tensor from the device."""
        return tensor.cpu().numpy()

    def empty(self, *shape: int) -> Any:
        """Make a float64 tensor on the device."""
        return self.torch.empty(shape, dtype=self.torch.float64, device=self.device)

    def free_bytes(self) -> float:
        """Free memory of a GPU; infinite for other devices, which are for tests."""
        if self.device.type != "cuda":
            return np.inf
        return float(self.torch.cuda.mem_get_info(self.device)[0])


class Chunk(NamedTuple):
    """Consecutive rows on a device, in the precision of the source.

    rows : which of all rows. scores : (b, k). transformed : (b, k) logits under each
    transform that was asked for, by its index.
    """

    rows: slice
    scores: Any
    transformed: Mapping[int, Any]


class DeviceRows:
    """Rows, and some of their transforms, on a device.

    kept : all chunks, where they fit into the memory; else None.
    """

    def __init__(
        self,
        rows: Rows,
        device: Device,
        transforms: Sequence[int] = (),
        *,
        working_numbers: int = 0,
        kept_numbers: int = 0,
    ) -> None:
        """Upload the rows if they fit.

        working_numbers : that a loop makes of one row, if more than its scores.
        kept_numbers : that go with a row as long as the rows are kept, in float64.
        """
        self.rows = rows
        self.device = device
        self.numbers_per_row = max(rows.k, working_numbers, LEAST_PER_ROW)
        self.kept: list[Chunk] | None = None
        if rows.kind == "probs":
            self._prepare_zeros()
        if self._fits(len(transforms), kept_numbers):
            self.kept = list(self._upload(transforms))

    def chunks(self, transforms: Sequence[int] = ()) -> Iterator[Chunk]:
        """Walk over all rows, with these of the transforms."""
        if self.kept is None:
            return self._upload(transforms)
        return iter(self.kept)

    def gaps(self, scores: Any) -> Any:
        """Logits minus the largest of their row, (b, k) float64 <= 0."""
        z = scores.double()
        if self.rows.kind == "probs":
            z = self._log_of(z)
        return z - z.amax(dim=1, keepdim=True)

    def _prepare_zeros(self) -> None:
        zeros = self.rows.zeros
        assert zeros is not None, "these rows hold probabilities"
        self.largest_zero = zeros.clip
        self.log_half: Any = float(zeros.log_half[0])
        if len(zeros.steps) > 1:
            self.log_half = self.device.send(zeros.log_half)

    def _log_of(self, p: Any) -> Any:
        """``Zeros.log_of``."""
        torch = self.device.torch
        zero = p <= self.largest_zero
        # As float64: a sum of integers plus 1.0 would be float32.
        zeros_of_row = zero.sum(dim=1, dtype=torch.float64)
        fill = self.log_half - (zeros_of_row + 1.0).log()[:, None]
        return torch.where(zero, fill, p.masked_fill(zero, 1.0).log())

    def _fits(self, transforms: int, kept_numbers: int) -> bool:
        first = next(iter(self.rows.blocks()))
        per_row = self.rows.k * first.scores.itemsize * (1 + transforms)
        per_row += 8 * kept_numbers
        return self.rows.n * per_row <= KEPT_SHARE * self.device.free_bytes()

    def _upload(self, transforms: Sequence[int]) -> Iterator[Chunk]:
        """Send the rows, in chunks as large as the work on them allows."""
        uploaded_per_row = self.rows.k * (1 + len(transforms))
        limit = min(
            WORKING_NUMBERS // self.numbers_per_row,
            UPLOADED_NUMBERS // uploaded_per_row,
        )
        limit = max(1, limit)
        blocks: list[Block] = []
        size = 0
        for block in self._blocks_up_to(limit, transforms):
            if size + len(block) > limit:
                yield self._sent(blocks, transforms)
                blocks = []
                size = 0
            blocks.append(block)
            size += len(block)
        yield self._sent(blocks, transforms)

    def _blocks_up_to(self, limit: int, transforms: Sequence[int]) -> Iterator[Block]:
        """Walk over the source's blocks, long ones cut into blocks of ``limit`` rows."""
        for block in self.rows.blocks(transforms):
            for start in range(0, len(block), limit):
                yield block.cut(start, start + limit)

    def _sent(self, blocks: list[Block], transforms: Sequence[int]) -> Chunk:
        whole = joined(blocks)
        scores = self.device.send(whole.scores)
        transformed: dict[int, Any] = {}
        if whole.transformed is not None:
            by_place = self.device.send(whole.transformed)
            transformed = dict(zip(transforms, by_place, strict=True))
        rows = slice(whole.start, whole.start + len(whole))
        return Chunk(rows, scores, transformed)


class Column:
    """One number per row that goes in, (n,)."""

    def __init__(self, data: DeviceRows, values: AnyArray) -> None:
        self.data = data
        self.values: Any = values
        if data.kept is not None:
            self.values = data.device.send(values)

    def of(self, chunk: Chunk) -> Any:
        """The numbers of a chunk's rows, (b,) on the device."""
        values = self.values[chunk.rows]
        return values if self.data.kept is not None else self.data.device.send(values)


class Results:
    """Some numbers per row that come back, (width, n) float64."""

    def __init__(self, data: DeviceRows, width: int) -> None:
        self.data = data
        shape = width, data.rows.n
        is_kept = data.kept is not None
        self.values: Any = data.device.empty(*shape) if is_kept else np.empty(shape)

    def put(self, chunk: Chunk, values: Any) -> None:
        """Store the results of a chunk, (width, b) on the device."""
        if self.data.kept is None:
            values = self.data.device.fetch(values)
        self.values[:, chunk.rows] = values

    def fetch(self) -> FloatArray:
        """All results, on the host."""
        if self.data.kept is None:
            return self.values
        return self.data.device.fetch(self.values)


# ---- memory that is exhausted


OUT_OF_MEMORY = ("out of memory", "ALLOC_FAILED")
"""What errors of CUDA and cuBLAS, which have no class of their own, say of memory."""


def ignore() -> None:
    """Do nothing."""


def unless_exhausted(
    on_device: Callable[[], Result],
    in_numpy: Callable[[], Result],
    exhausted: Callable[[], None],
) -> Result:
    """Compute on the device, or in NumPy where the device's memory is exhausted.

    exhausted : called before NumPy begins.
    """
    import torch

    try:
        return on_device()
    except RuntimeError as problem:
        if not is_out_of_memory(problem):
            raise
    # Outside of the handler: the error holds the tensors of the loop.
    exhausted()
    torch.cuda.empty_cache()
    return in_numpy()


def is_out_of_memory(problem: RuntimeError) -> bool:
    """Whether an error of torch says that a GPU has no memory left."""
    import torch

    if isinstance(problem, torch.cuda.OutOfMemoryError):
        return True
    return any(words in str(problem) for words in OUT_OF_MEMORY)
