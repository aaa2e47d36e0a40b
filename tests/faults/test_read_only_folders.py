"""Commands in a folder that may not be written: one line, and nothing is left behind.

Root may write everywhere, so that a command gives up the capability to do so first.
"""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calcli.api.calibrators import fit

DROP_FROM_BOUNDING_SET = 24
"""``PR_CAPBSET_DROP`` of ``linux/prctl.h``."""

PASSES_OVER_PERMISSIONS = (1, 2)
"""``CAP_DAC_OVERRIDE`` and ``CAP_DAC_READ_SEARCH`` of ``linux/capability.h``."""

USAGE = 2


def obey_permissions():
    """Make this process obey the permissions of files, also if it is root's."""
    if os.geteuid() != 0:
        return
    system = ctypes.CDLL(None)
    for capability in PASSES_OVER_PERMISSIONS:
        system.prctl(DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)


def obeying(words, folder, home):
    """Run a command that obeys the permissions of files, in a folder."""
    environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    environment.pop("MPLCONFIGDIR", None)
    return subprocess.run(
        words,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=obey_permissions,
    )


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path):
    """A folder of scores and a calibrator that may be read only."""
    folder = tmp_path / "read only"
    folder.mkdir()
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    z = 2.0 * np.eye(3)[y] + rng.normal(size=(400, 3))
    np.savez(folder / "val.npz", logits=z[:200], labels=y[:200])
    np.savez(folder / "new.npz", logits=z[200:], labels=y[200:])
    fit(z[:200], y[:200], "ts", kind="logits").save(folder / "ts.json")
    folder.chmod(0o555)
    try:
        probe = obeying(["touch", "probe"], folder, tmp_path)
    except OSError as problem:
        pytest.skip(f"no process that obeys permissions can be started: {problem}")
    if probe.returncode == 0:
        (folder / "probe").unlink()
        pytest.skip("this system lets root write in spite of permissions")
    yield folder
    folder.chmod(0o755)


REFUSED = {
    "fit": ("fit", "val.npz", "-m", "ts"),
    "fit -o": ("fit", "val.npz", "-m", "ts", "-o", "made.json"),
    "apply": ("apply", "ts.json", "new.npz", "-o", "calibrated.h5"),
    "apply to a table": ("apply", "ts.json", "new.npz", "-o", "calibrated.csv"),
    "run": ("run", "val.npz", "-m", "ts"),
    "run to a folder": ("run", "val.npz", "-m", "ts", "-o", "made"),
    "watch": ("watch", "new.npz", "-c", "ts.json", "--state", "watch.json"),
    "diagram": ("diagram", "new.npz", "-o", "diagram.png"),
    "report": ("report", "new.npz", "-o", "report.html"),
    "extract": ("extract", "new.npz", "-o", "bundle.h5"),
}


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_written_is_refused_in_one_line(words, folder, tmp_path):
    before = contents(folder)
    done = obeying([sys.executable, "-m", "calcli", *words], folder, tmp_path)
    assert done.returncode == USAGE, done.stderr
    errors = [line for line in done.stderr.splitlines() if not line.startswith("Read ")]
    assert len(errors) == 1, done.stderr
    assert errors[0].startswith("calcli: ")
    assert "not writable" in errors[0]
    assert done.stdout == ""
    assert contents(folder) == before


def test_a_state_that_cannot_be_replaced_stays_as_it_was(folder, tmp_path):
    watch = [sys.executable, "-m", "calcli", "watch"]
    words = (*watch, "new.npz", "-c", "ts.json", "--state", "watch.json")
    folder.chmod(0o755)
    assert obeying(words, folder, tmp_path).returncode == 0
    folder.chmod(0o555)
    before = contents(folder)
    np.savez(
        tmp_path / "later.npz",
        logits=np.random.default_rng(5).normal(size=(50, 3)),
        labels=np.zeros(50, dtype=int),
    )
    later = (*watch, str(Path(tmp_path, "later.npz")), *words[5:])
    done = obeying(later, folder, tmp_path)
    assert done.returncode == USAGE, done.stderr
    assert "not writable" in done.stderr
    assert contents(folder) == before


def test_a_picture_needs_no_cache_at_home(folder, tmp_path):
    """Matplotlib has its cache at home, and warns where it cannot be written."""
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    picture = tmp_path / "diagram.png"
    words = ("diagram", "new.npz", "-o", str(picture))
    done = obeying([sys.executable, "-m", "calcli", *words], folder, home)
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert picture.stat().st_size > 0
    assert not list(home.iterdir())
