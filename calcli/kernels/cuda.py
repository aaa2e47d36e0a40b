"""The heavy loops on a GPU. Importing this imports torch."""

from calcli.fit_summary import Summary
from calcli.kernels import torch as twins
from calcli.kernels.device import Kernels
from calcli.kernels.numpy import Expansion
from calcli.rows import Rows


class Cuda(Kernels):
    """The torch twins. notices : is told of the walks that have none and stay on the CPU."""

    nll_slope = staticmethod(twins.nll_slope)
    top_mass_slope = staticmethod(twins.top_mass_slope)
    brier_slope = staticmethod(twins.brier_slope)
    retention_rates = staticmethod(twins.retention_rates)
    runner_up_gaps = staticmethod(twins.runner_up_gaps)
    row_sharpness = staticmethod(twins.row_sharpness)

    def __init__(self, notices: list[str]) -> None:
        self.notices = notices

    def expand(self, rows: Rows, beta: float, *, summarise: bool) -> Expansion:
        self._stays("expand")
        return super().expand(rows, beta, summarise=summarise)

    def summary_at(self, rows: Rows, beta: float) -> Summary:
        self._stays("summary at")
        return super().summary_at(rows, beta)

    def _stays(self, loop: str) -> None:
        notice = f"{loop}: this loop has no CUDA twin and ran on the CPU"
        if notice not in self.notices:
            self.notices.append(notice)
