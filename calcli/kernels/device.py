"""The only place that chooses where the heavy loops run."""

from os.path import exists
from types import ModuleType

from calcli.errors import UsageError

__all__ = ["DEVICES", "kernels", "resolve"]

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


def kernels(device: str) -> ModuleType:
    """The module of heavy loops for a resolved device: NumPy, or its torch twin."""
    if device == "cuda":
        from calcli.kernels import torch as torch_kernels

        return torch_kernels
    from calcli.kernels import numpy as numpy_kernels

    return numpy_kernels
