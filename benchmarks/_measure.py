"""Measure whole processes side by side: seconds, processor seconds and peak memory."""

import argparse
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

BENCHMARKS = Path(__file__).parent
REPOSITORY = BENCHMARKS.parent
BLOCK = 4096  # rows that are made at once


@dataclass
class Cost:
    """One process: wall seconds, processor seconds, peak resident MiB."""

    wall: float
    cpu: float
    peak: float


class TooLong(RuntimeError):
    """A command was stopped at its limit."""


def cost(command, cwd=None, limit=None):
    """Run a command without showing its output; returns its ``Cost``.

    The cost is that of all the processes that the command waited for. limit : seconds
    by the clock. Raises RuntimeError where the command fails, TooLong at the limit.
    """
    start = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=errors
        )
        timer = None
        if limit:
            timer = threading.Timer(limit, process.kill)
            timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        if timer is not None:
            timer.cancel()
        if status:
            if limit and wall >= limit:
                raise TooLong(f"more than {limit:g} s")
            errors.seek(0)
            raise RuntimeError(f"{command}: {errors.read().decode()}")
    cpu = usage.ru_utime + usage.ru_stime
    return Cost(wall, cpu, usage.ru_maxrss / 1024)


def median_cost(costs):
    """Median of every figure of some costs."""
    return Cost(
        wall=float(np.median([one.wall for one in costs])),
        cpu=float(np.median([one.cpu for one in costs])),
        peak=float(np.median([one.peak for one in costs])),
    )


def median_costs(commands, repeats, cwd=None):
    """Medians over repeats of every command, the commands taking turns."""
    costs = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            costs[name].append(cost(command, cwd))
    return {name: median_cost(several) for name, several in costs.items()}


def print_cost_head(width, *more):
    """Print the head of a table of costs. more : names of further columns."""
    print(f"{'':{width}} {'wall s':>8} {'cpu s':>8} {'peak MiB':>9}", *more)


def print_cost(name, width, measured, *more):
    """Print a line of a table of costs. more : further cells."""
    figures = f"{measured.wall:8.2f} {measured.cpu:8.2f} {measured.peak:9.0f}"
    print(f"{name:{width}} {figures}", *more)


def make_bundle(path, n, k, dtype="float32", seed=0):
    """Write logits like a trained network's: one strong class, right most of the time."""
    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        scores = file.create_dataset("logits", (n, k), dtype)
        labels = rng.integers(0, k, n)
        for start in range(0, n, BLOCK):
            z = rng.standard_normal((min(BLOCK, n - start), k)) * 2.0
            stop = start + len(z)
            strong_class = labels[start:stop]
            z[np.arange(len(z)), strong_class] += rng.gamma(4.0, 2.2, len(z))
            scores[start:stop] = z.astype(dtype)
        file["labels"] = labels
    return path


def make_bundle_apart(path, n, k):
    """Write the bundle of ``make_bundle`` in a process of its own.

    The peak memory of a process starts from that of the process that starts it.
    """
    program = f"import _measure; _measure.make_bundle({str(path)!r}, {n}, {k})"
    subprocess.run([sys.executable, "-c", program], cwd=BENCHMARKS, check=True)


def calcli(*words):
    """The command line of this checkout's environment."""
    return [sys.executable, "-m", "calcli", *map(str, words)]


def peer(name, *words, python=sys.executable):
    """The command line of one of the scripts in ``peers/``."""
    return [python, str(BENCHMARKS / "peers" / f"{name}.py"), *words]


def own_peak():
    """Peak resident MiB of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def workspace():
    """A temporary folder that goes away. calcli is compiled before, as if installed."""
    compileall.compile_dir(REPOSITORY / "calcli", quiet=2)
    return tempfile.TemporaryDirectory(prefix="calcli-bench-")


def parser_of(description):
    """A parser of command lines. description : the docstring of the benchmark."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
