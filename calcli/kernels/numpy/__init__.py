"""The heavy loops, in NumPy: the reference that ``kernels_torch`` must equal.

``calcli.kernels.device.kernels`` picks this package or its twin. Each family is one module;
both packages export the same names with the same arguments.
"""

from calcli.kernels.numpy.recal import row_sharpness
from calcli.kernels.numpy.retention import retention_rates, runner_up_gaps
from calcli.kernels.numpy.temperature import Slope, brier_slope, nll_slope, top_mass_slope

__all__ = [
    "Slope",
    "brier_slope",
    "nll_slope",
    "retention_rates",
    "row_sharpness",
    "runner_up_gaps",
    "top_mass_slope",
]
