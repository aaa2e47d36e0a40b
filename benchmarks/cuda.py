"""Times of the heavy loops on a GPU beside the CPU's and beside the bandwidth limit.

    python benchmarks/cuda.py [--sizes 25000 100000] [--classes 1000]

The limit is the time to read the scores once from the GPU's memory, measured by copying.
``--device cpu`` times the torch twins on the CPU instead, which only shows that they run.
"""

import argparse
import sys
import time

import numpy as np

from calcli.errors import UsageError
from calcli.kernels import numpy as kernels
from calcli.kernels.numpy.hoki_draws import standard_noise
from calcli.optional_packages import optional_import
from calcli.rows import ArrayRows

SIGMA = 2.0
SEARCH = [3.0 * 2 ** (i / 2) for i in range(-6, 7)]


def logits(n, k):
    """Logits like a trained network's, float32."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n, k), dtype=np.float32) * np.float32(2.0)
    y = rng.integers(0, k, n)
    z[np.arange(n), y] += rng.gamma(4.0, 2.2, n).astype(np.float32)
    return ArrayRows(z, y)


def seconds(work, wait, repeats=3):
    """Shortest of some runs, after one that warms up."""
    best, result = np.inf, None
    for _ in range(repeats + 1):
        wait()
        begun = time.perf_counter()
        result = work()
        wait()
        best = min(best, time.perf_counter() - begun) if result is not None else best
    return best, result


def loops(module, rows, draws, **device):
    """The loops by name, each a function without arguments."""
    return {
        "Hoki exact, one scale": lambda: module.retention_rates(
            rows, "gaussian", [SIGMA], **device
        ),
        "Hoki exact, 13 scales": lambda: module.retention_rates(
            rows, "gaussian", SEARCH, **device
        ),
        "Hoki 1000 draws": lambda: module.retention_rates(
            rows, "gaussian", [SIGMA], draws, **device
        ),
    }


def bandwidth(torch, device):
    """Bytes per second of reading (half of a copy's traffic counts as reading)."""
    a = torch.empty(1 << 28, dtype=torch.float32, device=device)
    b = torch.empty_like(a)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    best, _ = seconds(lambda: b.copy_(a), wait)
    return 2 * a.numel() * 4 / best


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[25000, 100000])
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    args = parser.parse_args()
    try:
        with optional_import("torch", "this benchmark"):
            import torch
    except UsageError as problem:
        sys.exit(str(problem))
    if args.device == "cuda" and not torch.cuda.is_available():
        print("torch finds no CUDA device on this machine: no GPU times were measured")
        return
    from calcli.kernels import torch as kernels_torch

    wait = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    name = torch.cuda.get_device_name() if args.device == "cuda" else "torch on the CPU"
    rate = bandwidth(torch, args.device)
    print(f"{name}, torch {torch.__version__}; copying moves {rate / 1e9:.0f} GB/s")
    for n in args.sizes:
        rows = logits(n, args.classes)
        draws = standard_noise("gaussian", 1000, args.classes, 0)
        limit = rows.scores.nbytes / rate
        print(
            f"{n} x {args.classes} float32: one read of the scores takes at least {limit * 1e3:.2f} ms"
        )
        print(
            f"  {'':<28}{'NumPy, ms':>12}{'torch, ms':>14}{'x limit':>9}{'difference':>12}"
        )
        cpu = loops(kernels, rows, draws)
        double = loops(kernels_torch, rows, draws, device=args.device)
        for what, work in cpu.items():
            begun = time.perf_counter()
            reference = work()
            plain = time.perf_counter() - begun
            fast, result = seconds(double[what], wait)
            apart = np.max(np.abs(np.asarray(result) - np.asarray(reference)))
            row = f"{plain * 1e3:>12.1f}{fast * 1e3:>14.2f}{fast / limit:>9.1f}{apart:>12.1e}"
            print(f"  {what:<28}{row}", flush=True)


if __name__ == "__main__":
    main()
