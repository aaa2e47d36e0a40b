"""Memory does not grow with the rows."""

import os
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pytest
from conftest import REPOSITORY

MIB = 2**20

PEAK = """
import re, sys
from pathlib import Path
from calcli.cli.main import run
code = run(sys.argv[1:])
status = Path("/proc/self/status").read_text()
print("peak", 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]), file=sys.stderr)
sys.exit(code)
"""


def write(path, n, k=10):
    """Rows of a pattern that repeats, cheap to make."""
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(10_000, k)).astype("f4"), rng.integers(0, k, 10_000)
    z[np.arange(len(z)), y] += 2
    with h5py.File(path, "w") as file:
        scores, labels = (
            file.create_dataset("logits", (n, k), "f4"),
            file.create_dataset("labels", (n,), "i8"),
        )
        for start in range(0, n, len(z)):
            scores[start : start + len(z)], labels[start : start + len(z)] = z, y


def peak(folder, *words):
    """Peak memory in bytes of a command in a process of its own.

    By VmHWM: ``ru_maxrss`` starts at the memory of the process that started this one.
    """
    paths = [str(REPOSITORY), str(REPOSITORY / "tests")]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[-1])


@pytest.mark.parametrize("method", ["ts", "ec"])
@pytest.mark.slow
def test_a_fit_takes_the_same_memory_for_ten_times_the_rows(tmp_path, method):
    """2e6 x 10 against 2e5 x 10: slabs, a byte a row for labels, and no table."""
    peaks = []
    for n in (200_000, 2_000_000):
        write(tmp_path / "a.h5", n)
        peaks.append(
            peak(tmp_path, "fit", "-m", method, "a.h5", "-o", "a.json", "--force", "-q")
        )
    assert peaks[1] - peaks[0] < 30 * MIB


@pytest.mark.parametrize(
    "words",
    [("--metric", "ece", "--metric", "nll"), ("-c", "a.json")],
    ids=["sums", "report"],
)
@pytest.mark.slow
def test_an_evaluation_takes_the_same_memory_for_four_times_the_rows(tmp_path, words):
    """4e6 x 10 against 1e6 x 10: a table would take 72 bytes a row, 206 MiB more.

    What is kept are confidences in order, 8 bytes a row: of the uncalibrated scores and
    of one calibrator 46 MiB more. The bound is 80: blocks in flight depend on how the
    threads are scheduled, 64 MiB were seen once on a busy machine.
    """
    peaks = []
    for n in (1_000_000, 4_000_000):
        write(tmp_path / "a.h5", n)
        if not peaks:
            assert peak(tmp_path, "fit", "-m", "ts", "a.h5", "-o", "a.json", "-q")
        peaks.append(peak(tmp_path, "evaluate", "a.h5", *words, "-q"))
    assert peaks[1] - peaks[0] < 80 * MIB


@pytest.mark.slow
def test_apply_takes_the_same_memory_for_ten_times_the_rows(tmp_path):
    """2e6 x 10 against 2e5 x 10; labels are read and written piece by piece."""
    peaks = []
    for n in (200_000, 2_000_000):
        write(tmp_path / "a.h5", n)
        if not peaks:
            assert peak(tmp_path, "fit", "-m", "ts", "a.h5", "-o", "a.json", "-q")
        peaks.append(
            peak(tmp_path, "apply", "a.json", "a.h5", "-o", "b.h5", "--force", "-q")
        )
    assert peaks[1] - peaks[0] < 30 * MIB


def write_pixels(path, n):
    """Scores of n x 8 x 256 x 256 pixels and a label each in an npz, one image after the other."""
    rng = np.random.default_rng(0)
    arrays = (
        ("logits", "<f4", (8, 256, 256), rng.normal(size=(8, 256, 256)).astype("f4")),
        ("labels", "|u1", (256, 256), rng.integers(0, 8, (256, 256), "u1")),
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, dtype, shape, image in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                about = {"descr": dtype, "fortran_order": False, "shape": (n, *shape)}
                np.lib.format.write_array_header_1_0(member, about)
                for _ in range(n):
                    member.write(image.tobytes())


@pytest.mark.slow
def test_ten_times_the_images_take_the_same_memory(tmp_path):
    """60 x 65 536 pixels x 8 classes against 6: 126 MB of scores, and a byte a pixel for the labels."""
    peaks = []
    for n in (6, 60):
        write_pixels(tmp_path / "a.npz", n)
        peaks.append(peak(tmp_path, "extract", "a.npz", "-o", "a.h5", "--force", "-q"))
    assert peaks[1] - peaks[0] < 40 * MIB


@pytest.mark.parametrize("layout", ["an array", "a folder"])
@pytest.mark.slow
def test_labels_of_pixels_take_no_memory(tmp_path, layout):
    """2e7 pixels of one score against 2e6: a byte and three quarters a pixel were 31 MB more."""
    rng, peaks = np.random.default_rng(0), []
    z = rng.normal(size=(100, 1000)).astype("f2")
    y = (rng.random(z.shape) < 1 / (1 + np.exp(-z.astype(float)))).astype("u1")
    for n in (20, 200):
        name = tmp_path / str(n)
        name.mkdir()
        if layout == "an array":
            np.save(name / "logits.npy", np.broadcast_to(z, (n, *z.shape)))
            np.save(name / "labels.npy", np.broadcast_to(y, (n, *y.shape)))
        for unit in range(n if layout == "a folder" else 0):
            np.savez(
                name / f"{unit}.npz",
                logits=z[: 99 + unit % 2],
                labels=np.roll(y, unit % 3)[: 99 + unit % 2],
            )
        peaks.append(peak(tmp_path, "extract", str(n), "-o", "a.h5", "--force", "-q"))
    assert peaks[1] - peaks[0] < 15 * MIB
