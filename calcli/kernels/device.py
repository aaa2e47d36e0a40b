"""Choice of the device on which the heavy loops run; made nowhere else."""

from os.path import exists
from typing import Any

from calcli.calibrator import Context
from calcli.errors import UsageError
from calcli.optional_packages import optional_import

DEVICES = ("auto", "cpu", "cuda")
CPU_SECONDS = {"hoki": 5e-8, "recal": 1e-8}
"""CPU time per score, at the least, of the loops that a GPU takes over in a fit: Hoki's retention probabilities at 13
scales, one round of ReCal. Measured with NumPy on float32 scores of 100 to 1000 classes (2e6 to 4e6 of them). Other
loops have no twin: a fit of ``ts`` or ``ec`` walks over the rows twice, in less time than the import of torch takes."""
GPU_SECONDS = 9.0
"""CPU time that a GPU must save. Importing torch alone takes 1.8 s; no GPU has been measured: five times as much."""


def seconds_on_cpu(method: str) -> float:
    """CPU time per score of the loops that a GPU takes over in a fit of a method (``ts+hoki``; ``all``)."""
    return sum(
        CPU_SECONDS.get(name, 0.0)
        for name in (CPU_SECONDS if method == "all" else method.split("+"))
    )


def idle(method: str, context: Context) -> list[str]:
    """Warning where a GPU was requested and a fit of this method does not use it."""
    asked = context.device == "cuda" and not seconds_on_cpu(method)
    return (
        [f"{method} has no loops for a GPU and was fitted on the CPU"] if asked else []
    )


def resolve(device: str, method: str, scores: int) -> str:
    """Turn auto|cpu|cuda into cpu or cuda for the fit of a method to ``scores`` = rows x classes.

    ``auto`` stays on NumPy without importing torch where a GPU does not pay for its start or the machine
    has no NVIDIA driver. Raises UsageError when cuda is asked for and not there.
    """
    if device not in DEVICES:
        raise UsageError(
            f"--device is {device!r}, expected one of {', '.join(DEVICES)}"
        )
    pays = scores * seconds_on_cpu(method) > GPU_SECONDS
    if device == "cpu" or (device == "auto" and not (pays and _driver_present())):
        return "cpu"
    try:
        with optional_import("torch", "--device cuda"):
            import torch
    except UsageError:
        if device == "auto":
            return "cpu"
        raise
    if torch.cuda.is_available():
        return "cuda"
    if device == "auto":
        return "cpu"
    advice = "use --device auto or cpu"
    raise UsageError(f"--device cuda: torch finds no CUDA device here; {advice}")


def _driver_present() -> bool:
    return exists("/proc/driver/nvidia/version") or exists("/dev/nvidiactl")


def kernels(context: Context) -> Any:
    """The package with the loops that run on a context's device: ``retention_rates`` and ``RowSharpness``."""
    if context.device == "cuda":
        from calcli.kernels import torch as loops
    else:
        from calcli.kernels import numpy as loops  # type: ignore[no-redef]
    return loops
