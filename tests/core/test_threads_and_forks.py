"""Threads and forks of a program that uses calcli: first calls side by side, children of a busy process."""

import os
import subprocess
import sys

import h5py
import pytest
from synthetic import truth

import calcli

pytestmark = pytest.mark.slow

DATA = """
import os, random, signal, sys, threading, time, warnings
import numpy as np
import calcli
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
y = rng.integers(0, 3, 300)
z = 3 * (rng.normal(size=(300, 3)) + 1.5 * np.eye(3)[y])
"""

TOGETHER = (
    DATA
    + """
jobs = [
    lambda: calcli.fit(z, y, method="ts"),
    lambda: calcli.evaluate(z, y),
    lambda: calcli.diagram(z, y, resamples=50).save(f"d{os.getpid()}.svg"),
    lambda: calcli.load("t.json").predict_proba(z),
    lambda: calcli.fit(z, y, method="hoki"),
    lambda: calcli.fit("a.h5", method="hb"),
    lambda: calcli.evaluate("a.h5"),
    lambda: calcli.fit(z[:, :2], (y > 0).astype(int), method="ir"),
]
barrier = threading.Barrier(len(jobs))

def go(job):
    barrier.wait()
    job()

failed = []
threading.excepthook = lambda about: failed.append(repr(about.exc_value))
threads = [threading.Thread(target=go, args=(job,)) for job in jobs]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failed)
"""
)

FORKS = (
    DATA
    + """
def job():
    calcli.fit(z, y, method="hoki")
    calcli.evaluate(z, y)

def busy():
    while True:
        job()

job()  # the limit: a fork while another thread imports may leave the import unfinished
threading.Thread(target=busy, daemon=True).start()
for _ in range(int(sys.argv[1])):
    time.sleep(float(sys.argv[2]) * random.random())
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        job()
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
os._exit(0)
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("threads")
    z, y = truth(300, 3, temperature=1.5, seed=1)
    with h5py.File(folder / "a.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    calcli.fit(z, y).save(str(folder / "t.json"))
    return folder


def python(folder, code, *words):
    here = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env=here,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("attempt", range(4))
def test_first_calls_of_several_threads(folder, attempt):
    """Each in a fresh process: what one thread is importing, another must not take for loaded."""
    assert python(folder, TOGETHER) == "[]\n"


def test_forks_of_a_busy_process(folder):
    assert python(folder, FORKS, "15", "0.05") == "0\n" * 15
