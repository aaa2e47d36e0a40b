"""The heavy loops, in torch, for a GPU: twins of ``calcli.kernels.numpy``, name by
name.

Scores are uploaded once, in their own precision, when they fit into the device's memory
(else once per pass, chunk by chunk). The arithmetic is in float64. Results equal those
of NumPy to 1e-9 relative; ReCal's cumulants, differences of larger numbers, to 1e-11
absolute. ``device="cpu"`` runs the same code without a GPU, which is how the tests
compare the two.

Memory is bounded, whatever the numbers of rows, classes and transforms or draws: see
``device_rows``. So are the calls that wait for the device, which are all in
``device_rows.Device``. Where the memory is exhausted nevertheless, NumPy does the work.
"""

from calcli.kernels.torch.hoki_retention import retention_rates
from calcli.kernels.torch.recal import RowSharpness

__all__ = ["RowSharpness", "retention_rates"]
