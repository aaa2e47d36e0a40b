"""Fixtures: small synthetic score files with known properties, and the real ones when present."""

import os
from contextlib import suppress
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = (
    "1"  # as the command does; read when NumPy is imported
)

os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and sentences would wrap

import h5py
import numpy as np
import pytest
from run_calcli import RUNS, runner

from calcli.io import probe

# 10 ms of every output, and no test pulls the plug; commands in processes of their own sync as ever
os.fsync = lambda descriptor: None

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED_DATA = Path(
    os.environ.get("CALCLI_TEST_DATA", REPOSITORY.parent / "shared" / "data")
)


WHOLE = set()
"""Versions of files that h5py closed in this process after writing them."""


def version(path):
    """A file as it is now, wherever it is moved."""
    about = os.stat(path)
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def close(file, plain=h5py.File.close):
    """Close, and date back what was written, so that whatever changes the file within a tick of the clock shows."""
    written = file.filename if file.id.valid and file.mode != "r" else None
    plain(file)
    with suppress(OSError):
        if written is not None:
            os.utime(
                written,
                ns=(os.stat(written).st_atime_ns, os.stat(written).st_mtime_ns - 10**9),
            )
            WHOLE.add(version(written))


def forked(paths, *more, plain=probe._forked):
    """No child for files that are as h5py wrote them: a fork of a process with torch takes 30 ms, a run has thousands.

    Damaged files, those of the tests of such files and all commands in processes of their own have their child.
    """
    whole = "/fuzz/" not in os.environ.get("PYTEST_CURRENT_TEST", "") and all(
        version(path) in WHOLE for path in paths
    )
    return probe.FINE if whole else plain(paths, *more)


h5py.File.close = close
probe._forked = forked


def pytest_terminal_summary(terminalreporter):
    """The long form of the fuzz tests says how many commands each family ran."""
    if "CALCLI_FUZZ_SECONDS" in os.environ:
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
