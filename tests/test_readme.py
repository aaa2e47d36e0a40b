"""Every command of the README runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
from conftest import REPOSITORY
from scipy.special import logsumexp, softmax

README = REPOSITORY / "README.md"


def blocks(page):
    """The commands of a page that are marked as run by the tests."""
    found = re.findall(r"<!-- run -->\n```console\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    return [line[2:] for block in found for line in block.splitlines() if line.startswith("$ ")]


def folder_of_scores(path):
    """A folder as a page finds it: scores.npz, here the sample digits, beside sample_data/.

    binary.csv asks whether the digit is odd, answers.csv is what a model says that knows no classes.
    """
    with h5py.File(REPOSITORY / "sample_data" / "digits.h5") as file:
        parts = [(file[g]["logits"][()], file[g]["labels"][()]) for g in ("cal", "test")]
    scores, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    np.savez(path / "scores.npz", logits=scores, labels=labels)
    odd = logsumexp(scores[:, 1::2], axis=1) - logsumexp(scores[:, ::2], axis=1)
    lines = [f"{z:.6f},{'+1' if y % 2 else '-1'}\n" for z, y in zip(odd, labels, strict=True)]
    (path / "binary.csv").write_text("score,label\n" + "".join(lines))
    right = scores.argmax(axis=1) == labels
    lines = [f"{c:.2f},{y}\n" for c, y in zip(softmax(scores, axis=1).max(axis=1), right, strict=True)]
    (path / "answers.csv").write_text("confidence,correct\n" + "".join(lines))
    (path / "sample_data").symlink_to(REPOSITORY / "sample_data")
    return path


def run_all(commands, folder):
    """Run commands one after the other, as a shell with this Python's programs would."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for command in commands:
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": path},
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert "Traceback" not in done.stderr


def test_the_readme_has_commands():
    assert len(blocks(README)) > 10
    text = README.read_text(encoding="utf-8")
    assert text.index("make demo") < text.index("make test") < text.index("## ")


def test_every_command_of_the_readme_runs(tmp_path):
    run_all(blocks(README), folder_of_scores(tmp_path))
