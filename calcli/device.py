"""The only place that chooses where the heavy loops run."""

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
    from pathlib import Path

    return Path("/proc/driver/nvidia/version").exists() or Path("/dev/nvidiactl").exists()


def kernels(device: str) -> ModuleType:
    """The module of heavy loops for a resolved device: NumPy, or its torch twin."""
    if device == "cuda":
        from calcli import kernels_torch

        return kernels_torch
    from calcli import kernels

    return kernels
