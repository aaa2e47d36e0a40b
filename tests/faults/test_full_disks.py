"""A disk of every size: an output is there whole, or the folder is as it was."""

import math
import re
import shutil

import pytest

from faults.conftest import SECONDS, one_line, state

pytestmark = pytest.mark.slow

COMMANDS = {
    "apply": ["apply", "{desk}/ts.json", "{desk}/good.h5", "-q", "-o", "{disk}/out.h5"],
    "apply npz": ["apply", "{desk}/ts.json", "{desk}/good.h5", "-q", "-o", "{disk}/out.npz"],
    "apply csv": ["apply", "{desk}/ts.json", "{desk}/good.h5", "-q", "-o", "{disk}/out.csv"],
    "apply jsonl": ["apply", "{desk}/ts.json", "{desk}/good.h5", "-q", "-o", "{disk}/out.jsonl"],
    "apply parquet": ["apply", "{desk}/ts.json", "{desk}/good.h5", "-q", "-o", "{disk}/out.parquet"],
    "extract": ["extract", "{desk}/good.npz", "-q", "--split", "cal=0.5", "--split", "test=0.5", "-o", "{disk}/out.h5"],
    "fit": ["fit", "-m", "bbq", "{desk}/good.h5", "-q", "-o", "{disk}/out.json"],
    "diagram json": ["diagram", "{desk}/good.h5", "-q", "-o", "{disk}/out.json"],
    "diagram png": ["diagram", "{desk}/good.h5", "-q", "-o", "{disk}/out.png"],
    "report": ["report", "{desk}/good.h5", "-q", "--no-decomposition", "-o", "{disk}/out.html"],
    "export": ["export", "{desk}/ts.json", "--to", "python", "-q", "-o", "{disk}/out.py"],
    "threshold": ["threshold", "{desk}/good.h5", "--accuracy", "0.1", "-q", "-o", "{disk}/out.json"],
    "compare": ["compare", "{desk}/good.h5", "-m", "identity,ts", "--folds", "2", "-q", "-o", "{disk}/out.json"],
    "compare ranks": ["compare", "{desk}/good.h5", "{desk}/again.h5", "-m", "identity,ts", "--folds", "2", "-q",
                      "--diagram", "{disk}/out.svg"],
    "junit": ["evaluate", "{desk}/good.h5", "-q", "-m", "ece", "--max", "ece=0.9", "--junit", "{disk}/out.xml"],
}  # fmt: skip
LONG_ONLY = ("diagram png", "apply csv", "apply jsonl", "report", "compare ranks")
"""Written as others are."""

SOME = 6
"""Sizes in the short form: from far too small, and those about the size that is needed."""


def sizes(whole, used):
    """Sizes of the disk in KiB, in steps of 4 up to a little more than is needed."""
    steps = list(range(used + 4, used + whole + 16, 4))
    if SECONDS or len(steps) <= SOME:
        return steps
    return sorted({steps[0], steps[1], steps[len(steps) // 2], *steps[-SOME + 2 : -1]})


def untimed(files):
    """Files without the seconds that a comparison took."""
    return {
        name: re.sub(rb'"seconds": [^,]*', b"", content)
        for name, content in files.items()
    }


@pytest.mark.parametrize("existing", [False, True], ids=["new", "force"])
@pytest.mark.parametrize("name", COMMANDS)
def test_an_output_is_whole_or_not_there(calcli, desk, disk, name, existing):
    if name in LONG_ONLY and not SECONDS:
        pytest.skip("written as others are; make fuzz has it")
    words = [word.format(desk=desk, disk=disk.path) for word in COMMANDS[name]]
    disk.empty()
    done = calcli(*words, cwd=desk)
    assert done.code == 0, done.err
    ((output, expected),) = state(disk.path).items()
    whole = math.ceil(len(expected) / 1024)
    worked, failed = 0, 0
    before = {output: b"old " * 500} if existing else {}
    disk.empty()
    for old, content in before.items():
        (disk.path / old).write_bytes(content)
    for size in sizes(whole, disk.used):
        disk.resize(size)
        done = calcli(*words, *(["--force"] if existing else []), cwd=desk)
        assert done.code in (0, 2), (size, done)
        assert "Traceback" not in done.err
        if done.code == 0:
            worked += 1
            assert untimed(state(disk.path)) == untimed({output: expected})
            disk.empty()
            for old, content in before.items():
                (disk.path / old).write_bytes(content)
        else:
            failed += 1
            assert one_line(done).endswith(
                f"{output}: cannot be written: No space left on device; no part of it was kept"
            )
            assert done.out == ""
            assert state(disk.path) == before
    print(f"{name}: {failed} sizes too small, {worked} large enough")
    assert worked
    assert failed or whole <= 4


@pytest.mark.parametrize("room", [0, 4])
def test_a_job_file_without_room_is_a_sentence(calcli, desk, disk, room):
    """The file that --workers keeps beside an output is an output too."""
    for words in (
        [
            "fit",
            "-m",
            "ts",
            f"{desk}/good.h5",
            f"{desk}/again.h5",
            "-o",
            f"{disk.path}/o.json",
        ],
        [
            "apply",
            f"{desk}/ts.json",
            f"{desk}/good.h5",
            f"{desk}/again.h5",
            "-o",
            f"{disk.path}/out",
        ],
    ):
        disk.empty()
        disk.resize(8)
        (disk.path / "fill").write_bytes(b"x" * (8 - room) * 1024)
        done = calcli(*words, "-q", "--workers", "1", cwd=desk)
        assert done.code == 2
        assert all(
            line.startswith(f"calcli: {disk.path}/o") for line in done.err.splitlines()
        ), done.err
        assert done.err.count("No space left on device") == len(done.err.splitlines())
        assert set(state(disk.path)) == {"fill"}


def test_run_leaves_both_files_or_none(calcli, desk, disk):
    """Calibrator and page together; the folder that was made for them goes with them."""
    folder = disk.path / "new"
    words = ["run", f"{desk}/good.h5", f"{desk}/again.h5", "-q", "-o", folder]
    disk.empty()
    folder.mkdir()
    done = calcli(*words, cwd=desk)
    assert done.code == 0, done.err
    expected = state(folder)
    assert len(expected) == 2
    used = disk.used - sum(
        math.ceil(len(data) / 4096) * 4 for data in expected.values()
    )
    whole = math.ceil(sum(map(len, expected.values())) / 1024)
    shutil.rmtree(folder)
    worked, failed = 0, 0
    for size in sizes(whole, used):
        disk.resize(size)
        done = calcli(*words, cwd=desk)
        if done.code == 0:
            worked += 1
            assert state(folder) == expected
            shutil.rmtree(folder)
        else:
            failed += 1
            assert done.code == 2 and "Traceback" not in done.err
        assert not any(disk.path.iterdir())
    assert worked and failed


@pytest.mark.parametrize("existing", [False, True], ids=["first", "next"])
def test_a_state_is_whole_or_as_it_was(calcli, desk, disk, existing):
    """The first state was an empty file on a full disk, and an empty file a fresh start."""
    path = disk.path / "watch.json"
    disk.empty()
    if existing:
        assert calcli("watch", f"{desk}/first.h5", "--state", path, cwd=desk).code in (
            0,
            5,
        )
    before = state(disk.path)
    used = disk.used
    assert calcli("watch", f"{desk}/good.h5", "--state", path, cwd=desk).code in (0, 5)
    after = state(disk.path)
    worked, failed = 0, 0
    for size in range(used + 4, used + 40, 4):
        disk.empty()
        for name, content in before.items():
            (disk.path / name).write_bytes(content)
        disk.resize(size)
        done = calcli("watch", f"{desk}/good.h5", "--state", path, "-q", cwd=desk)
        if done.code in (0, 5):
            worked += 1
            assert state(disk.path) == after
        else:
            failed += 1
            assert (
                done.code == 2
                and "cannot be written: No space left on device" in one_line(done)
            )
            assert state(disk.path) == before
    assert worked and failed


def test_the_status_is_shown_on_a_disk_that_cannot_be_written(calcli, desk, disk):
    """Showing a state made a lock that needed a writable disk."""
    path = disk.path / "watch.json"
    disk.empty()
    first = calcli("watch", f"{desk}/good.h5", "--state", path, cwd=desk)
    disk.set_read_only(True)
    try:
        shown = calcli("watch", "--state", path, cwd=desk)
        assert (shown.code, shown.out, shown.err) == (first.code, first.out, "")
        done = calcli("watch", f"{desk}/first.h5", "--state", path, "-q", cwd=desk)
        said = one_line(done)
        assert done.code == 2
        assert "watch.json: cannot be written: Read-only file system" in said
    finally:
        disk.set_read_only(False)
