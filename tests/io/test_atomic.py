"""Files in the making: who wins a race for a name, what an interruption and a lying disk leave behind."""

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

import calcli.io.atomic as atomic
from calcli.errors import CalcliError, ResourceError, UsageError
from calcli.io.atomic import (
    check_output,
    discard_unfinished,
    is_stream,
    make_folder,
    new_file,
    new_folder,
    write_bytes,
    write_together,
)


def test_a_file_that_appears_in_the_meantime_is_not_replaced(tmp_path):
    path = tmp_path / "out.h5"
    with (
        pytest.raises(
            UsageError, match="appeared while it was being made; pass --force"
        ),
        new_file(path) as file,
    ):
        file.write(b"ours")
        path.write_bytes(b"theirs")
    assert path.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_force_replaces_what_appears_in_the_meantime(tmp_path):
    path = tmp_path / "out.h5"
    with new_file(path, force=True) as file:
        file.write(b"ours")
        path.write_bytes(b"theirs")
    assert path.read_bytes() == b"ours"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_has_the_name_before_all_of_it_is_there(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(KeyboardInterrupt), new_file(path) as file:
        assert file.write(b"half") == 4
        assert not path.exists()
        assert [p.name[:3] + p.name[-4:] for p in tmp_path.iterdir()] == [".a..tmp"]
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_an_output_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    named = []
    monkeypatch.setattr(
        atomic.os,
        "fsync",
        lambda descriptor: named.append((tmp_path / "a.txt").exists()),
    )
    write_bytes(tmp_path / "a.txt", b"all of it")
    assert named == [False, True]  # the file, then its folder


def test_a_disk_that_gives_other_bytes_back_is_found_out(tmp_path):
    path = tmp_path / "a"
    with (
        pytest.raises(CalcliError, match="4 bytes read back differ from the 4 written"),
        new_file(path) as file,
    ):
        file.write(b"ab")
        file.write(b"cd")
        os.pwrite(file.descriptor, b"X", 2)
    assert list(tmp_path.iterdir()) == []


def test_a_write_in_pieces_is_whole(tmp_path, monkeypatch):
    """The system may take fewer bytes than it is given."""
    write = os.write
    monkeypatch.setattr(
        atomic.os, "write", lambda descriptor, data: write(descriptor, data[:3])
    )
    write_bytes(tmp_path / "a", "abcdefgh")
    assert (tmp_path / "a").read_bytes() == b"abcdefgh"


def test_without_hard_links_the_file_is_renamed(tmp_path, monkeypatch):
    def no_links(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(atomic.os, "link", no_links)
    write_bytes(tmp_path / "a", b"x")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a", b"x")]


def test_what_stands_in_the_way_is_refused_before_any_work(tmp_path):
    (tmp_path / "there").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for name, message in (
        ("there", "exists already"),
        ("link", "exists already"),
        ("no/file", "does not exist"),
    ):
        with pytest.raises(UsageError, match=message):
            check_output(tmp_path / name, force=False)
    for name, advice in (("out", "such as .*/out/NAME$"), ("r.html", "another name$")):
        (tmp_path / name).mkdir()
        with pytest.raises(
            UsageError, match=f"is a folder, expected a file; .*{advice}"
        ):
            check_output(tmp_path / name, force=True)
    with pytest.raises(UsageError, match="inputs are never overwritten"):
        check_output(
            tmp_path / "there",
            force=True,
            inputs=[tmp_path / "absent", tmp_path / "there"],
        )
    check_output(tmp_path / "there", force=True, inputs=[tmp_path / "absent"])
    with pytest.raises(UsageError, match="folder cannot be made"):
        make_folder(tmp_path / "there" / "below")
    make_folder(tmp_path / "x" / "y")
    assert (tmp_path / "x" / "y").is_dir()


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_bytes(tmp_path / "link", b"new", force=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_an_end_without_unwinding_leaves_nothing(tmp_path):
    with pytest.raises(CalcliError), new_file(tmp_path / "a") as file:
        file.write(b"x")
        discard_unfinished()
        assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_a_new_file_has_the_permissions_of_any_other(tmp_path):
    (tmp_path / "other").touch()
    write_bytes(tmp_path / "a", b"x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_links_in_a_circle_are_not_replaced(tmp_path):
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    with pytest.raises(
        UsageError, match="cannot be written: Too many levels of symbolic links"
    ):
        write_bytes(loop, b"ours", force=True)
    assert loop.is_symlink()
    dangling = tmp_path / "link.json"
    dangling.symlink_to("there.json")
    write_bytes(dangling, b"ours", force=True)
    assert (dangling.is_symlink(), (tmp_path / "there.json").read_bytes()) == (
        True,
        b"ours",
    )


def test_an_output_in_a_folder_that_is_closed_is_no_input(monkeypatch, tmp_path):
    """apply said of its output that it cannot be read, and asked whether it is the right name."""
    closed, plain = tmp_path / "closed" / "o.h5", os.stat

    def stat(path, *more, **how):
        if os.fspath(path) == str(closed):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return plain(path, *more, **how)

    monkeypatch.setattr(os, "stat", stat)
    assert not is_stream(closed)


@pytest.mark.parametrize("force", [False, True])
def test_files_written_together_are_of_one_writer(tmp_path, force):
    """With --force one run's page stood beside the other run's calibrator (85 of 300)."""
    for turn in range(30):
        folder = tmp_path / f"new{turn}"
        start = Barrier(3)

        def write(text, folder=folder, start=start):
            start.wait()
            texts = {folder / "c.json": text, folder / "page.html": text}
            try:
                with new_folder(folder):
                    write_together(texts, force=force)
            except UsageError as problem:
                return str(problem)
            return ""

        with ThreadPoolExecutor(3) as pool:
            problems = [text for text in pool.map(write, "abc") if text]
        contents = {path.name: path.read_text() for path in folder.iterdir()}
        assert contents.keys() == {"c.json", "page.html"}
        assert contents["c.json"] == contents["page.html"]
        assert len(problems) == (0 if force else 2)
        assert all("exists already; choose another name" in text for text in problems)


WRITES_TOGETHER = """
import os, signal, sys
from pathlib import Path
from calcli.io import atomic

calls = 0

def killing(function):
    def call(*args, **kwargs):
        global calls
        calls += 1
        if calls == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return call

for name in ("link", "replace", "unlink", "open", "write", "fsync", "close"):
    setattr(os, name, killing(getattr(os, name)))
atomic.write_together({Path("c.json"): "new", Path("page.html"): "new"}, force=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_kill_at_any_call_leaves_no_old_file_beside_a_new_one(tmp_path):
    """A run with --force that was killed between two renames left a pair of two runs."""
    outcomes = set()
    for call in range(1, 100):
        for name in ("c.json", "page.html"):
            (tmp_path / name).write_text("old")
        words = [sys.executable, "-c", WRITES_TOGETHER, str(call)]
        done = subprocess.run(words, cwd=tmp_path)
        names = [path.name for path in tmp_path.iterdir() if path.suffix != ".tmp"]
        contents = {name: (tmp_path / name).read_text() for name in names}
        assert len(set(contents.values())) == 1, (call, contents)
        assert "c.json" in contents, (call, contents)
        outcomes.add((len(contents), contents["c.json"]))
        if done.returncode == 0:
            break
        assert done.returncode == -9
    assert contents == {"c.json": "new", "page.html": "new"}
    assert [path for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []
    assert outcomes == {(2, "old"), (1, "old"), (1, "new"), (2, "new")}


def test_a_rename_that_fails_brings_all_old_files_back(tmp_path, monkeypatch):
    paths = [tmp_path / "c.json", tmp_path / "page.html"]
    for path in paths:
        path.write_text("old")
    replace = os.replace

    def failing(source, target):
        if Path(target) == paths[1] and Path(source).read_text() == "new":
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(ResourceError):
        write_together(dict.fromkeys(paths, "new"), force=True)
    assert [path.read_text() for path in paths] == ["old", "old"]
    assert sorted(tmp_path.iterdir()) == paths
