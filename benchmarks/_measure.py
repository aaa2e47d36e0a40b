"""Measure whole processes: seconds, processor seconds and peak memory, side by side in one run."""

import compileall
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

REPOSITORY = Path(__file__).parent.parent


@dataclass
class Cost:
    """One process: wall seconds, processor seconds, peak resident MiB."""

    wall: float
    cpu: float
    peak: float


class TooLong(RuntimeError):
    """A command was stopped at its limit."""


def cost(command, cwd=None, limit=None):
    """Run a command (its output is dropped) and say what it cost, with all the processes that it waited for.

    limit : seconds by the clock. A failure is an error, and so is reaching the limit (TooLong).
    """
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=said
        )
        watch = threading.Timer(limit, process.kill) if limit else None
        if watch is not None:
            watch.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        if watch is not None:
            watch.cancel()
        if status:
            if limit and wall >= limit:
                raise TooLong(f"more than {limit:g} s")
            said.seek(0)
            raise RuntimeError(f"{command}: {said.read().decode()}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def median_costs(commands, repeats, cwd=None):
    """Medians over repeats of every command, the commands taking turns."""
    seen = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            seen[name].append(cost(command, cwd))
    return {
        name: Cost(
            *(
                float(np.median([getattr(c, f) for c in costs]))
                for f in ("wall", "cpu", "peak")
            )
        )
        for name, costs in seen.items()
    }


def make_bundle(path, n, k, dtype="float32", seed=0, group=None):
    """Write logits like a trained network's: one strong class, right most of the time."""
    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        node = file.require_group(group) if group else file
        scores = node.create_dataset("logits", (n, k), dtype)
        labels = rng.integers(0, k, n)
        for at in range(0, n, 4096):
            z = rng.standard_normal((min(4096, n - at), k)) * 2.0
            y = labels[at : at + len(z)]
            z[np.arange(len(z)), y] += rng.gamma(4.0, 2.2, len(z))
            scores[at : at + len(z)] = z.astype(dtype)
        node["labels"] = labels
    return path


def calcli(*words):
    """The command line of this checkout's environment."""
    return [sys.executable, "-m", "calcli", *map(str, words)]


def own_peak():
    """Peak resident MiB of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def workspace():
    """A temporary folder that goes away. calcli is compiled before, as an installed package is."""
    compileall.compile_dir(REPOSITORY / "calcli", quiet=2)
    return tempfile.TemporaryDirectory(prefix="calcli-bench-")


__all__ = [
    "Cost",
    "Path",
    "TooLong",
    "calcli",
    "cost",
    "make_bundle",
    "median_costs",
    "own_peak",
    "workspace",
]
