"""Twin of ``calcli.kernels.numpy.recal``: ReCal's rounds, with scores that stay on the device."""

from typing import Any

import numpy as np

from calcli.kernels.numpy import recal
from calcli.kernels.torch.upload import DeviceRows
from calcli.numerics import AnyArray, BoolArray, FloatArray
from calcli.rows import Rows


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
