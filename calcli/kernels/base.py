"""The heavy loops of a device; NumPy's, where no other has its own."""

from calcli.fit_summary import Summary
from calcli.kernels import numpy as loops
from calcli.rows import Rows


class Kernels:
    """The heavy loops: NumPy's, of which a device's class overrides what the device has (``cuda.py``)."""

    nll_slope = staticmethod(loops.nll_slope)
    top_mass_slope = staticmethod(loops.top_mass_slope)
    brier_slope = staticmethod(loops.brier_slope)
    retention_rates = staticmethod(loops.retention_rates)
    runner_up_gaps = staticmethod(loops.runner_up_gaps)
    row_sharpness = staticmethod(loops.row_sharpness)

    def expand(self, rows: Rows, beta: float, *, summarise: bool) -> loops.Expansion:
        return loops.expand(rows, beta, summarise=summarise)

    def summary_at(self, rows: Rows, beta: float) -> Summary:
        return loops.summary_at(rows, beta)
