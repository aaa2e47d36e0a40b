"""SIGKILL at random moments: what is under a final name is whole, old or new."""

import contextlib
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from calcli.io.score_files import FORMATS
from faults.conftest import SECONDS, rounds, state

pytestmark = pytest.mark.slow

OLD = b"old " * 5000
SHORT = 40
"""Kills in the short form."""


def untimed(content):
    """A file without the seconds that a comparison took."""
    return content and re.sub(rb'"seconds": [^,]*', b"", content)


@pytest.mark.parametrize("existing", [False, True], ids=["new", "force"])
def test_a_killed_process_leaves_no_damaged_file(calcli, desk, tmp_path, existing):
    chance = random.Random(f"kills {existing}")
    commands = [
        ["apply", f"{desk}/ts.json", f"{desk}/good.h5", "-q", "-o", f"out.{name}"]
        for name in FORMATS
    ]
    commands += [
        ["extract", f"{desk}/good.npz", "-q", "-o", "out.h5"],
        ["fit", "-m", "ts", f"{desk}/good.h5", "-q", "-o", "out.json"],
        ["export", f"{desk}/ts.json", "--to", "python", "-q", "-o", "out.py"],
        ["threshold", f"{desk}/good.h5", "--accuracy", "0.1", "-q", "-o", "out.json"],
        [
            "compare",
            f"{desk}/good.h5",
            "-m",
            "identity,ts",
            "--folds",
            "2",
            "-q",
            "-o",
            "out.json",
        ],
        ["report", f"{desk}/good.h5", "--no-split", "-q", "-o", "out.html"],
    ]
    whole, seconds = {}, {}
    for words in commands:
        begun = time.monotonic()
        assert calcli(*words, cwd=tmp_path).code == 0
        seconds[tuple(words)] = time.monotonic() - begun
        whole[tuple(words)] = (tmp_path / words[-1]).read_bytes()
        (tmp_path / words[-1]).unlink()
    killed = finished = left = 0
    for i in rounds(SHORT, SECONDS / 12):
        words = commands[i % len(commands)]
        name, expected = words[-1], whole[tuple(words)]
        if existing:
            (tmp_path / name).write_bytes(OLD)
        wait = chance.random() * seconds[tuple(words)]
        done = calcli(
            *words, *(["--force"] if existing else []), cwd=tmp_path, kill=wait
        )
        assert done.code in (0, -9), done
        killed += done.code == -9
        finished += done.code == 0
        found = state(tmp_path)
        neighbours = [path for path in found if path.endswith(".tmp")]
        left += len(neighbours)
        job = (
            {"out.json.job"} if words[0] == "compare" else set()
        )  # methods that are done, to go on from
        assert set(found) - set(neighbours) <= {name} | job
        content = found.get(name)
        assert untimed(content) == untimed(expected) or (
            content == (OLD if existing else None) and done.code == -9
        )
        for path in found:
            (tmp_path / path).unlink()
    print(f"{killed} killed, {finished} finished before, {left} temporary files left")
    assert killed > SHORT // 4


def of_session(session):
    """Processes of a session that live, by what they are."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            about = (path / "stat").read_text().rpartition(")")[2].split()
            if int(about[3]) == session and about[0] != "Z":
                found[path.name] = (path / "cmdline").read_text().replace("\0", " ")
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="processes as Linux lists them")
def test_workers_of_compare_do_not_outlive_it(desk, tmp_path):
    words = [
        "compare",
        f"{desk}/good.h5",
        "-m",
        "platt,hb",
        "--folds",
        "1000",
        "--workers",
        "2",
        "-q",
    ]
    command = [sys.executable, "-m", "calcli", *words]
    parent = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    end = time.monotonic() + 60
    while (
        sum("workers.processes" in words for words in of_session(parent.pid).values())
        < 2
    ):
        assert time.monotonic() < end
        time.sleep(0.01)
    parent.kill()
    assert parent.wait() == -9
    while left := of_session(parent.pid):
        assert time.monotonic() < end, left
        time.sleep(0.05)
