"""The heavy loops, in NumPy: the reference that the torch twins must equal.

``calcli.kernels.device.kernels`` picks this package or its twin. Each family is one module.
"""

from calcli.kernels.numpy.expansion import Expansion, expand, row_series, summary_at
from calcli.kernels.numpy.hoki_retention import retention_rates, runner_up_gaps
from calcli.kernels.numpy.recal import row_sharpness
from calcli.kernels.numpy.temperature import Slope, brier_slope, nll_slope, top_mass_slope

__all__ = [
    "Expansion",
    "Slope",
    "brier_slope",
    "expand",
    "nll_slope",
    "retention_rates",
    "row_series",
    "row_sharpness",
    "runner_up_gaps",
    "summary_at",
    "top_mass_slope",
]
