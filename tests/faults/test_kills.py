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
        ["report", f"{desk}/good.h5", "--no-decomposition", "-q", "-o", "out.html"],
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
        contents = state(tmp_path)
        neighbours = [path for path in contents if path.endswith(".tmp")]
        left += len(neighbours)
        # methods that are done, to go on from
        job = {"out.json.job"} if words[0] == "compare" else set()
        assert set(contents) - set(neighbours) <= {name} | job
        content = contents.get(name)
        assert untimed(content) == untimed(expected) or (
            content == (OLD if existing else None) and done.code == -9
        )
        for path in contents:
            (tmp_path / path).unlink()
    print(f"{killed} killed, {finished} finished before, {left} temporary files left")
    assert killed > SHORT // 4


def of_session(session):
    """Processes of a session that live, by what they are."""
    commands = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            about = (path / "stat").read_text().rpartition(")")[2].split()
            if int(about[3]) == session and about[0] != "Z":
                commands[path.name] = (path / "cmdline").read_text().replace("\0", " ")
    return commands


@pytest.mark.skipif(sys.platform != "linux", reason="processes as Linux lists them")
def test_workers_of_compare_do_not_outlive_it(desk, tmp_path):
    words = [
        "compare",
        f"{desk}/good.h5",
        "-m",
        "platt,hb",
        "--folds",
        "500",
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


@pytest.mark.parametrize(
    ("first", "again", "names"),
    [
        (["watch", "{desk}/good.h5", "--state", "w"], ["watch", "{desk}/first.h5", "--state", "w"], ["w"]),
        (["fit", "-m", "ts", "{desk}/good.h5", "-o", "ts.json"], None, ["ts.json"]),
        (["run", "{desk}/good.h5", "{desk}/first.h5"], None, ["good.auto.json", "first.report.html"]),
    ],
    ids=["watch", "fit", "run"],
)  # fmt: skip
def test_what_killed_processes_leave_is_cleaned_up(
    calcli, desk, tmp_path, first, again, names
):
    """Beside states and calibrators: the next process that writes the file removes what no process holds."""
    first = [word.format(desk=desk) for word in first]
    again = (
        [*first, "--force"]
        if again is None
        else [word.format(desk=desk) for word in again]
    )
    abandoned = [tmp_path / f".{name}.0123456789ab.tmp" for name in names]
    other = tmp_path / ".other.json.0123456789ab.tmp"
    for path in (*abandoned, other):
        path.write_bytes(b"half")
    holding = [sys.executable, "-c", HOLDING, *abandoned]
    with subprocess.Popen(holding, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        assert calcli(*first, cwd=tmp_path).code in (0, 5)
        assert all(path.exists() for path in abandoned)  # a living process writes them
        holder.kill()
    assert calcli(*again, cwd=tmp_path).code in (0, 5)
    assert not any(path.exists() for path in abandoned)
    assert other.exists()


HOLDING = """
import fcntl, sys, time
files = [open(name) for name in sys.argv[1:]]
for file in files:
    fcntl.flock(file, fcntl.LOCK_SH)
print("held", flush=True)
time.sleep(60)
"""
