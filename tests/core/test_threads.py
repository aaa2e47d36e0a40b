"""Artifacts have the same bytes for any number of threads: of our own, and asked of BLAS in the environment."""

import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
from run_calcli import runner
from synthetic import truth

FIT_ALL = """
import hashlib, os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as main does, before NumPy is loaded
import calcli.parallel as parallel
from calcli.cli.main import run
from calcli.registry import method_names

parallel.WORKERS = int(sys.argv[1])
ways = [[name] for name in sorted(method_names()) if name not in ("recal", "auto", "iop")]
ways += [["auto", "--set", "candidates=ts,svs"], ["iop"]]
ways += [["iop", "--set", f"variant={variant}", "--set", "epochs=3"] for variant in ("oi", "op")]
for way in ways:
    assert run(["fit", "x.h5", "-o", "a.json", "--force", "-q", "-m", *way]) == 0, way
    print(*way, hashlib.sha256(open("a.json", "rb").read()).hexdigest(), file=sys.stderr)
for out in ("a.npz", "a.csv"):
    assert run(["apply", "a.json", "x.h5", "-o", out, "--force"]) == 0
    print(out, hashlib.sha256(open(out, "rb").read()).hexdigest(), file=sys.stderr)
"""


@pytest.mark.slow
def test_every_method_fits_to_the_same_bytes(tmp_path):
    """2000 x 20 rows: products of more than 2**19 multiplications, which OpenBLAS would cut among its threads."""
    z, y = truth(2000, 20)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    outputs = []
    for threads in ("1", "2", "4"):
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
        }
        done = subprocess.run(
            [sys.executable, "-c", FIT_ALL, threads],
            cwd=tmp_path,
            env=environment | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-1000:]
        outputs.append(
            [
                line
                for line in done.stderr.splitlines()
                if len(line.rpartition(" ")[2]) == 64
            ]
        )
    assert len(outputs[0]) > 25
    assert outputs[0] == outputs[1] == outputs[2]


@pytest.mark.parametrize(
    ("n", "k", "share"), [(80, 16, 0.5), (60, 3, 0.5), (200, 4, 0.1)]
)
def test_logits_of_the_largest_size_are_fitted_or_refused(
    monkeypatch, capsys, tmp_path, n, k, share
):
    """What says that it never worsens the NLL does so for +-1.7e308, or ends with 4 and a sentence."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    with h5py.File("x.h5", "w") as file:
        file["logits"] = np.where(rng.random((n, k)) < share, -1.7e308, 1.7e308)
        file["labels"] = rng.integers(0, k, n)
    run = runner(monkeypatch, capsys)
    for method in ("vs", "svs", "sms", "ts", "ft", "mono", "ms"):
        done = run("fit", "-m", method, "x.h5", "-o", f"{method}.json", "--strict")
        if done.code == 0:
            assert "NLL on the calibration data rose" not in done.err
        else:
            assert (done.code, "calcli: " in done.err or "status is" in done.err) == (
                4,
                True,
            ), done.err
