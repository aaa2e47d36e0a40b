"""Every command of the README runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import REPOSITORY

README = REPOSITORY / "README.md"


def blocks(page):
    """The commands of a page that are marked as run by the tests."""
    found = re.findall(r"<!-- run -->\n```console\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    return [line[2:] for block in found for line in block.splitlines() if line.startswith("$ ")]


def folder_of_scores(path):
    """A folder as a page finds it: the files of sample_data/scores.py beside sample_data/."""
    subprocess.run([sys.executable, REPOSITORY / "sample_data" / "scores.py", path], check=True)
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
