"""ReCal's rounds, with scores that stay on the device: twin of the NumPy module."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from calcli.kernels.numpy import recal
from calcli.kernels.torch.device_rows import (
    Column,
    Device,
    DeviceRows,
    Results,
    ignore,
    unless_exhausted,
)
from calcli.numerics import BoolArray, FloatArray
from calcli.rows import Rows

TILTED_NUMBERS = 5
"""Numbers per row that a pass brings back: the normaliser and four cumulants."""

KEPT_NUMBERS = 8
"""Numbers per row on the device: what a pass brings back and sends, the predictions."""


class Upload(NamedTuple):
    """Rows on a device with their transforms. predicted : class of every row."""

    rows: DeviceRows
    predicted: Column


class RowSharpness(recal.RowSharpness):
    """The scores behind the rounds, uploaded once.

    A round sends one number per row and brings back a few. upload : None once
    the device's memory was exhausted: NumPy does the rest of the fit.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        device: Any = "cuda",
        exhausted: Callable[[], None] = ignore,
    ) -> None:
        super().__init__(rows)
        self.upload: Upload | None = None
        self.exhausted = exhausted
        begin = partial(self._begin, Device(device))
        unless_exhausted(begin, ignore, self._leave_device)

    def tilt(
        self, scale: FloatArray, wanted: BoolArray | None = None
    ) -> recal.TiltedRows:
        in_numpy = partial(super().tilt, scale, wanted)
        if self.upload is None:
            return in_numpy()
        on_device = partial(self._tilt_on_device, self.upload.rows, scale, wanted)
        return unless_exhausted(on_device, in_numpy, self._leave_device)

    def response(
        self, transform: int, scale: FloatArray, of_own_class: bool
    ) -> tuple[FloatArray, BoolArray]:
        in_numpy = partial(super().response, transform, scale, of_own_class)
        if self.upload is None:
            return in_numpy()
        on_device = partial(
            self._response_on_device, self.upload, transform, scale, of_own_class
        )
        return unless_exhausted(on_device, in_numpy, self._leave_device)

    def _begin(self, device: Device) -> None:
        transforms = range(len(self.rows.transforms))
        rows = DeviceRows(self.rows, device, transforms, kept_numbers=KEPT_NUMBERS)
        self.upload = Upload(rows, Column(rows, self.predicted))

    def _leave_device(self) -> None:
        self.upload = None
        self.exhausted()

    def _tilt_on_device(
        self, data: DeviceRows, scale: FloatArray, wanted: BoolArray | None
    ) -> recal.TiltedRows:
        column = Column(data, scale)
        results = Results(data, TILTED_NUMBERS)
        for chunk in data.chunks():
            x = data.gaps(chunk.scores) * column.of(chunk)[:, None]
            results.put(chunk, tilted(data.device.torch, x))
        sums = results.fetch()
        if wanted is not None:
            sums *= wanted
        return recal.TiltedRows(sums[0], sums[1:])

    def _response_on_device(
        self, upload: Upload, transform: int, scale: FloatArray, of_own_class: bool
    ) -> tuple[FloatArray, BoolArray]:
        data = upload.rows
        torch = data.device.torch
        column = Column(data, scale)
        results = Results(data, 2)
        for chunk in data.chunks([transform]):
            predicted = upload.predicted.of(chunk)
            # Transforms are logits, whatever the scores are.
            z = chunk.transformed[transform].double()
            gaps = z - z.amax(dim=1, keepdim=True)
            x = gaps * column.of(chunk)[:, None]
            log_share = -x.exp().sum(dim=1).log()
            if not of_own_class:
                log_share += x.gather(1, predicted[:, None])[:, 0]
            agree = (gaps.argmax(dim=1) == predicted).double()
            results.put(chunk, torch.stack([log_share, agree]))
        share, agreement = results.fetch()
        return share, agreement > 0


def tilted(torch: Any, x: Any) -> Any:
    """Log of the largest probability of softmax(x), and x's four cumulants, (5, b).

    x : (b, k), whose largest is 0.
    """
    p = x.exp()
    norm = p.sum(dim=1)
    moments = []  # E[x], E[x^2] and so on
    for _ in range(4):
        moments.append(p.mul_(x).sum(dim=1) / norm)
    return torch.stack([-norm.log(), *recal.cumulants_of(*moments)])
