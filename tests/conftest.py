"""Fixtures: real score files where they are present, and the command line in this process.

Tests run faster here than commands do elsewhere: nothing is synced to the disk, and files
that h5py wrote in this process are opened without a child that probes them first.
"""

import os
from contextlib import suppress
from pathlib import Path

# As the command does; it is read when NumPy is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
# pytest-xdist sets it, and sentences would wrap.
os.environ.pop("COLUMNS", None)

import h5py
import numpy as np
import pytest
from run_calcli import RUNS, runner

from calcli.io import hdf5_crash_test as probe

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED_DATA = Path(
    os.environ.get("CALCLI_TEST_DATA", REPOSITORY.parent / "shared" / "data")
)
SECOND = 10**9  # in nanoseconds

FILES_AS_WRITTEN = set()
"""Versions of files that h5py closed in this process after writing them."""

close_file = h5py.File.close
probe_in_child = probe._forked


def version(path):
    """A file as it is now, wherever it is moved."""
    facts = os.stat(path)
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def close_and_remember(file):
    """Close a file of h5py, and remember it as whole if it was written.

    It is dated back, so that whatever changes it within a tick of the clock shows.
    """
    was_written = file.id.valid and file.mode != "r"
    path = file.filename if was_written else None
    close_file(file)
    if path is None:
        return
    with suppress(OSError):
        facts = os.stat(path)
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns - SECOND))
        FILES_AS_WRITTEN.add(version(path))


def probe_unless_as_written(paths, *more):
    """Probe files in a child, unless they are as h5py wrote them here.

    A fork of a process with torch takes 30 ms, and a run has thousands. Damaged files, the
    tests of such files, and commands in processes of their own have their child.
    """
    is_fuzz_test = "/fuzz/" in os.environ.get("PYTEST_CURRENT_TEST", "")
    if not is_fuzz_test and all(version(path) in FILES_AS_WRITTEN for path in paths):
        return probe.FINE
    return probe_in_child(paths, *more)


def sync_nothing(descriptor):
    """Stands for ``os.fsync``: 10 ms of every output, and no test pulls the plug."""


os.fsync = sync_nothing
h5py.File.close = close_and_remember
probe._forked = probe_unless_as_written


def pytest_terminal_summary(terminalreporter):
    """The long form of the fuzz tests says how many commands each family ran."""
    if "CALCLI_FUZZ_SECONDS" not in os.environ:
        return
    for (file, test), times in sorted(RUNS.items()):
        terminalreporter.write_line(f"{times:8} {file} {test}")
    terminalreporter.write_line(f"{RUNS.total():8} runs in all")


@pytest.fixture(scope="session")
def real():
    """Load ``name.npz`` of the real logits, or skip when they are not on this machine."""

    def load(name):
        path = SHARED_DATA / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"real logits are not here: {path.name}")
        return np.load(path)

    return load


@pytest.fixture(scope="session")
def resnet20(real):
    """CIFAR-100 ResNet-20: (cal logits, cal labels, test logits, test labels), 5000 rows each."""
    data = real("cifar100_resnet20")
    z, y = data["logits"], data["labels"]
    return z[:5000], y[:5000], z[5000:], y[5000:]


@pytest.fixture(scope="session")
def sample():
    """Path of a file (or folder) as its writer writes it, or skip when it is not on this machine."""

    def find(name):
        path = SHARED_DATA / "formats" / name
        if not path.exists():
            pytest.skip(f"sample file is not here: {name}")
        return path

    return find


@pytest.fixture
def out(tmp_path):
    """Where an import goes."""
    return tmp_path / "out.h5"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the command line in this process, in an empty folder: ``run("fit", "x.h5").code``."""
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys)
