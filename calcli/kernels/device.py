"""The only place that chooses where the heavy loops run."""

from collections.abc import Callable, Sequence
from os.path import exists
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from calcli.calibrator import Context
from calcli.errors import UsageError
from calcli.fit_summary import Summary
from calcli.kernels import numpy as numpy_kernels
from calcli.kernels.numpy import Expansion, Slope
from calcli.kernels.numpy.recal import RowSharpness
from calcli.numerics import FloatArray
from calcli.rows import Rows

DEVICES = ("auto", "cpu", "cuda")

WORTH_A_GPU = 1 << 24
"""Scores (rows x classes) from which importing torch and copying to a GPU pays off."""


def resolve(device: str, work: int) -> str:
    """Turn auto|cpu|cuda into cpu or cuda, for ``work`` = rows x classes scores.

    ``auto`` stays on NumPy without importing torch when the work is small or the machine
    has no NVIDIA driver. Raises UsageError when cuda is asked for and not there.
    """
    if device not in DEVICES:
        raise UsageError(f"--device is {device!r}, expected one of {', '.join(DEVICES)}")
    if device == "cpu" or (device == "auto" and (work < WORTH_A_GPU or not _driver_present())):
        return "cpu"
    try:
        import torch
    except ImportError:
        if device == "auto":
            return "cpu"
        raise UsageError("--device cuda needs torch: pip install 'calcli[torch]'") from None
    if torch.cuda.is_available():
        return "cuda"
    if device == "auto":
        return "cpu"
    raise UsageError("--device cuda: torch finds no CUDA device here; use --device auto or cpu")


def _driver_present() -> bool:
    return exists("/proc/driver/nvidia/version") or exists("/dev/nvidiactl")


class Kernels(Protocol):
    """The heavy loops. NumPy has them all; a torch twin may be missing, and NumPy's takes its place."""

    @staticmethod
    def nll_slope(rows: Rows) -> Slope: ...
    @staticmethod
    def top_mass_slope(rows: Rows, top: int, target: float) -> Slope: ...
    @staticmethod
    def brier_slope(rows: Rows, low: float, high: float) -> tuple[tuple[float, float, float], Slope]: ...
    @staticmethod
    def expand(rows: Rows, beta: float, *, summarise: bool) -> Expansion: ...
    @staticmethod
    def summary_at(rows: Rows, beta: float) -> Summary: ...
    @staticmethod
    def retention_rates(
        rows: Rows,
        noise: str,
        scales: Sequence[float],
        draws: NDArray[np.float32] | None = None,
        report: Callable[[int], None] = ...,
    ) -> FloatArray: ...
    @staticmethod
    def runner_up_gaps(rows: Rows) -> FloatArray: ...
    @staticmethod
    def row_sharpness(rows: Rows) -> RowSharpness: ...


class _OnCuda:
    """The torch twins, and for what they lack NumPy's loops with a notice."""

    def __init__(self, notices: list[str]) -> None:
        from calcli.kernels import torch

        self._twins, self._notices = torch, notices

    def __getattr__(self, name: str) -> Any:
        if hasattr(self._twins, name):
            return getattr(self._twins, name)
        notice = f"{name.replace('_', ' ')}: this loop has no CUDA twin and ran on the CPU"
        if notice not in self._notices:
            self._notices.append(notice)
        return getattr(numpy_kernels, name)


def kernels(context: Context) -> Kernels:
    """The heavy loops for a context's device: NumPy, or the torch twins. Loops that fall back add a notice."""
    return cast(Kernels, _OnCuda(context.notices) if context.device == "cuda" else numpy_kernels)
