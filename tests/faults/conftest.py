"""A warm calcli, small file systems, and files to work on. Long runs: CALCLI_FUZZ_SECONDS=3600."""

import contextlib
import ctypes
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest
from run_calcli import count
from synthetic import truth

SECONDS = float(os.environ.get("CALCLI_FUZZ_SECONDS", 0))
"""How long the long form may take in all; 0 is the short form that every test run has."""


MS_RDONLY, MS_REMOUNT, MNT_DETACH = 1, 32, 2
"""Flags of Linux's mount and umount2."""

ROOMY = 65536  # KiB of a disk that is large enough for any test


@dataclass
class Done:
    """What a run left behind. code : negative for a signal."""

    code: int
    out: str
    err: str


class Warm:
    """Runs calcli in forked children of one process (see server.py)."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.server = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "MPLBACKEND": "Agg"},
        )
        assert self.server.stdout.readline() == "ready\n"

    def __call__(self, *words, cwd, limits=None, kill=None, out=None, err=None):
        count()
        out = Path(out or self.scratch / "out")
        err = Path(err or self.scratch / "err")
        job = {
            "argv": list(map(str, words)),
            "cwd": str(cwd),
            "limits": limits or {},
            "kill": kill,
            "out": str(out),
            "err": str(err),
        }
        print(json.dumps(job), file=self.server.stdin, flush=True)
        code = int(self.server.stdout.readline())
        return Done(code, text_of(out), text_of(err))


def text_of(path):
    """Text of a file; nothing of what is none, as a device."""
    return path.read_text(errors="replace") if path.is_file() else ""


@pytest.fixture(scope="session")
def calcli(tmp_path_factory):
    """Run calcli: ``calcli("fit", …, cwd=…)``."""
    warm = Warm(tmp_path_factory.mktemp("streams"))
    with warm.server:  # closes its pipes, then waits
        yield warm


@pytest.fixture(scope="session")
def desk(tmp_path_factory, calcli):
    """A folder with a bundle, its logits as npz and an artifact."""
    folder = tmp_path_factory.mktemp("desk")
    z, y = truth(600, 6)
    ids = np.array([f"row {i}" for i in range(600)], dtype=object)
    with h5py.File(folder / "good.h5", "w") as file:
        file["logits"] = z.astype("f4")
        file["labels"] = y
        file["ids"] = ids
    shutil.copy(folder / "good.h5", folder / "again.h5")
    np.savez(folder / "good.npz", logits=z.astype("f4"), labels=y)
    other_z, other_y = truth(600, 6, seed=7)
    with h5py.File(folder / "first.h5", "w") as file:
        file["logits"] = other_z.astype("f4")
        file["labels"] = other_y
    assert calcli("fit", "-m", "ts", "good.h5", "-o", "ts.json", cwd=folder).code == 0
    return folder


class Disk:
    """A small file system at ``path``. ``used`` counts in KiB."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        self._mount(4096, 0)

    def _mount(self, kib, flags):
        libc = ctypes.CDLL(None, use_errno=True)
        path = os.fsencode(self.path)
        options = f"size={kib}k".encode()
        if libc.mount(b"calcli", path, b"tmpfs", flags, options) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def resize(self, kib):
        """Make room for so many KiB in all; 0 would be no limit."""
        self._mount(max(4, kib), MS_REMOUNT)

    def set_read_only(self, read_only):
        flags = MS_REMOUNT
        if read_only:
            flags |= MS_RDONLY
        self._mount(ROOMY, flags)

    @property
    def used(self):
        facts = os.statvfs(self.path)
        return (facts.f_blocks - facts.f_bfree) * facts.f_frsize // 1024

    def empty(self):
        self.resize(ROOMY)
        for name in os.listdir(self.path):
            (self.path / name).unlink()

    def close(self):
        ctypes.CDLL(None).umount2(os.fsencode(self.path), MNT_DETACH)


@pytest.fixture(scope="session")
def disk(tmp_path_factory):
    """A disk of any size, or a skip where this user may not mount one."""
    if not sys.platform.startswith("linux"):
        pytest.skip("small disks are tmpfs, which is Linux's")
    try:
        small = Disk(tmp_path_factory.mktemp("mounts") / "disk")
    except OSError as problem:
        pytest.skip(f"no tmpfs may be mounted here: {problem.strerror}")
    yield small
    small.close()


def state(folder):
    """Names and contents of a folder."""
    return {
        path.name: path.read_bytes()
        for path in Path(folder).iterdir()
        if path.is_file()
    }


def one_line(done):
    """The one line of an error, which is no traceback."""
    lines = done.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("calcli: "), done.err
    return lines[0]


def rounds(short, seconds):
    """Counts to ``short``, or in the long form for a share of its time."""
    start = time.monotonic()
    for number in itertools.count():
        if number >= short and time.monotonic() - start > seconds:
            return
        yield number


@contextlib.contextmanager
def empty_folder(path):
    """A folder for one run, removed afterwards whatever its state."""
    path.mkdir()
    try:
        yield path
    finally:
        path.chmod(0o700)
        shutil.rmtree(path)
