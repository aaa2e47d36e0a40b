"""The only place that chooses where the heavy loops run."""

from os.path import exists

from calcli.calibrator import Context
from calcli.errors import UsageError
from calcli.fit_summary import Summary
from calcli.kernels import numpy as loops
from calcli.rows import Rows

# ---- the heavy loops of a device; NumPy's, where no other has its own


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


DEVICES = ("auto", "cpu", "cuda")

CPU_SECONDS = {"hoki": 5e-8, "recal": 1e-8}
"""CPU time per score, at the least, of the loops that a GPU takes over in a fit: Hoki's retention probabilities at 13
scales, one round of ReCal. Measured with NumPy on float32 scores of 100 to 1000 classes (2e6 to 4e6 of them). Other
methods are not here: ``ts`` and ``ec`` walk over the rows twice, both times on the CPU."""

GPU_SECONDS = 9.0
"""CPU time that a GPU must save. Importing torch alone takes 1.8 s; no GPU has been measured: five times as much."""


def pays(method: str, scores: int) -> bool:
    """Whether a GPU is worth its start for a method (``ts+hoki``; ``all``) and so many scores (rows x classes)."""
    loops = CPU_SECONDS if method == "all" else method.split("+")
    return scores * sum(CPU_SECONDS.get(name, 0.0) for name in loops) > GPU_SECONDS


def resolve(device: str, method: str, scores: int) -> str:
    """Turn auto|cpu|cuda into cpu or cuda for the fit of a method to ``scores`` = rows x classes.

    ``auto`` stays on NumPy without importing torch where a GPU does not pay (``pays``) or the machine
    has no NVIDIA driver. Raises UsageError when cuda is asked for and not there.
    """
    if device not in DEVICES:
        raise UsageError(f"--device is {device!r}, expected one of {', '.join(DEVICES)}")
    if device == "cpu" or (device == "auto" and not (pays(method, scores) and _driver_present())):
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


def kernels(context: Context) -> Kernels:
    """The heavy loops for a context's device. Loops that it lacks run on the CPU and add a notice."""
    if context.device != "cuda":
        return Kernels()
    from calcli.kernels.cuda import Cuda

    return Cuda(context.notices)
