"""Choice of the device on which the heavy loops run; made nowhere else."""

from os.path import exists
from typing import Any

from calcli.calibrator import Context
from calcli.errors import UsageError, one_line
from calcli.numerics import FloatArray
from calcli.optional_packages import optional_import
from calcli.rows import Rows

DEVICES = ("auto", "cpu", "cuda")

CPU_SECONDS = {"hoki": 5e-8, "recal": 1e-8}
"""CPU time per score, at the least, of the loops that a GPU takes over in a fit.

Hoki: retention probabilities at 13 scales. ReCal: one round. Measured with NumPy on
float32 scores of 100 to 1000 classes (2e6 to 4e6 of them). Other loops have no twin: a
fit of ``ts`` or ``ec`` walks over the rows three times, in less time than the import of
torch takes.
"""

GPU_SECONDS = 9.0
"""CPU time that a GPU must save.

Importing torch alone takes 1.8 s; no GPU has been measured: five times as much.
"""

EXHAUSTED = (
    "the GPU's memory was exhausted, and the fit went on with NumPy;"
    " free memory on the GPU, or use --device cpu"
)


def seconds_on_cpu(method: str) -> float:
    """CPU time per score of the loops that a GPU takes over in a fit.

    method : also a composition (``ts+hoki``), or ``all``.
    """
    names = list(CPU_SECONDS) if method == "all" else method.split("+")
    return sum(CPU_SECONDS.get(name, 0.0) for name in names)


def gpu_pays(method: str, scores: int) -> bool:
    """Whether a GPU saves more than its start in a fit.

    scores : rows x classes.
    """
    return scores * seconds_on_cpu(method) > GPU_SECONDS


def idle(method: str, context: Context) -> list[str]:
    """Warning where a GPU was requested and a fit of this method does not use it."""
    if context.device != "cuda" or seconds_on_cpu(method):
        return []
    return [f"{method} has no loops for a GPU and was fitted on the CPU"]


def resolve(device: str, method: str, scores: int) -> str:
    """Turn auto|cpu|cuda into cpu or cuda for the fit of a method.

    scores : rows x classes. ``auto`` stays on NumPy without importing torch where a GPU
    does not pay for its start or the machine has no NVIDIA driver, and where the GPU
    cannot be used. Raises UsageError when cuda is asked for and cannot be used.
    """
    if device not in DEVICES:
        choices = ", ".join(DEVICES)
        raise UsageError(f"--device is {device!r}, expected one of {choices}")
    if device == "cpu":
        return "cpu"
    if device == "auto":
        return _chosen(method, scores)
    _check_cuda()
    return "cuda"


def _chosen(method: str, scores: int) -> str:
    """The device that ``auto`` takes."""
    if not gpu_pays(method, scores):
        return "cpu"
    if not _driver_present():
        return "cpu"
    try:
        _check_cuda()
    except UsageError:
        return "cpu"
    return "cuda"


def _driver_present() -> bool:
    return exists("/proc/driver/nvidia/version") or exists("/dev/nvidiactl")


def _check_cuda() -> None:
    """Raise UsageError where torch has no GPU, or one that computes nothing."""
    advice = "use --device auto or cpu"
    with optional_import("torch", "--device cuda"):
        import torch
    if not torch.cuda.is_available():
        raise UsageError(f"--device cuda: torch finds no CUDA device here; {advice}")
    try:
        _first_kernel()
    except RuntimeError as problem:
        # No memory at all, or a card that this build of torch has no code for.
        reason = one_line(problem)
        raise UsageError(
            f"--device cuda: the GPU cannot be used ({reason}); {advice}"
        ) from None


def _first_kernel() -> None:
    """Compute one number on the GPU."""
    import torch

    torch.ones(1, device="cuda").sum().item()


class CudaLoops:
    """The loops on a GPU. notes : where an exhausted memory is recorded, once."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def retention_rates(self, *inputs: Any) -> FloatArray:
        """``calcli.kernels.torch.retention_rates``."""
        from calcli.kernels.torch import retention_rates

        return retention_rates(*inputs, exhausted=self._note)

    def RowSharpness(self, rows: Rows) -> Any:
        """``calcli.kernels.torch.RowSharpness``."""
        from calcli.kernels.torch import RowSharpness

        return RowSharpness(rows, exhausted=self._note)

    def _note(self) -> None:
        if EXHAUSTED not in self.notes:
            self.notes.append(EXHAUSTED)


def kernels(context: Context) -> Any:
    """The loops on a context's device: ``retention_rates`` and ``RowSharpness``."""
    if context.device == "cuda":
        return CudaLoops(context.notes)
    from calcli.kernels import numpy as loops

    return loops
