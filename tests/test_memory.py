"""Memory does not grow with the rows."""

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

MIB = 2**20

PEAK = """
import resource, sys
from calcli.cli.main import run
code = run(sys.argv[1:])
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, file=sys.stderr)
sys.exit(code)
"""


def write(path, n, k=10):
    """Rows of a pattern that repeats, cheap to make."""
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(10_000, k)).astype("f4"), rng.integers(0, k, 10_000)
    z[np.arange(len(z)), y] += 2
    with h5py.File(path, "w") as file:
        scores, labels = file.create_dataset("logits", (n, k), "f4"), file.create_dataset("labels", (n,), "i8")
        for at in range(0, n, len(z)):
            scores[at : at + len(z)], labels[at : at + len(z)] = z, y


def peak(folder, *words):
    """Peak memory in bytes of a command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *words], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[-1])


@pytest.mark.parametrize("method", ["ts", "ec"])
def test_a_fit_takes_the_same_memory_for_ten_times_the_rows(tmp_path, method):
    """2e6 x 10 against 2e5 x 10: slabs, a byte a row for labels, and no table."""
    found = []
    for n in (200_000, 2_000_000):
        write(tmp_path / "a.h5", n)
        found.append(peak(tmp_path, "fit", "-m", method, "a.h5", "-o", "a.json", "--force", "-q"))
    assert found[1] - found[0] < 30 * MIB


@pytest.mark.parametrize("words", [("--metric", "ece", "--metric", "nll"), ("-c", "a.json")], ids=["sums", "report"])
def test_an_evaluation_takes_the_same_memory_for_ten_times_the_rows(tmp_path, words):
    """2e6 x 10 against 2e5 x 10, the default report with a calibrator too: a table would take 72 bytes a row."""
    found = []
    for n in (200_000, 2_000_000):
        write(tmp_path / "a.h5", n)
        if not found:
            assert peak(tmp_path, "fit", "-m", "ts", "a.h5", "-o", "a.json", "-q")
        found.append(peak(tmp_path, "evaluate", "a.h5", *words, "-q"))
    assert found[1] - found[0] < 40 * MIB


def test_apply_takes_the_same_memory_for_ten_times_the_rows(tmp_path):
    """2e6 x 10 against 2e5 x 10; labels are read and written piece by piece."""
    found = []
    for n in (200_000, 2_000_000):
        write(tmp_path / "a.h5", n)
        if not found:
            assert peak(tmp_path, "fit", "-m", "ts", "a.h5", "-o", "a.json", "-q")
        found.append(peak(tmp_path, "apply", "a.json", "a.h5", "-o", "b.h5", "--force", "-q"))
    assert found[1] - found[0] < 30 * MIB
