"""Work spread over processes and a Dask cluster: the same bytes, whoever does it and whoever dies on the way."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from run_calcli import process
from synthetic import TRANSFORMS, transformed, truth

from calcli.calibrator import Context
from calcli.cli.options import CALIBRATION
from calcli.errors import DataError, UsageError, WorkersLost
from calcli.fitting.fit import fit_artifact
from calcli.importers.open_any_file import open_data
from calcli.io.artifact import dumps
from calcli.io.inputs import FileStamp
from calcli.io.locate import Layout
from calcli.registry import method, method_names, parse_options
from calcli.workers.journal import HEAD, Journal
from calcli.workers.passes import spread_over
from calcli.workers.processes import Processes

pytestmark = pytest.mark.slow

SHARDS = 50
ROWS = 3000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts of some hundred rows, so that a few thousand rows are many; workers are told."""
    monkeypatch.setattr("calcli.rows.PART_BLOCKS", 4)
    monkeypatch.setattr("calcli.rows.BLOCK_BYTES", 8 * 5 * 150)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows of 5 classes in one file, and in shards of uneven sizes."""
    folder = tmp_path_factory.mktemp("workers")
    (folder / "shards").mkdir()
    (folder / "few").mkdir()
    z, y = truth(ROWS, 5, temperature=1.7, seed=3)
    moved, w = (
        transformed(z).astype("f4"),
        np.random.default_rng(0).exponential(size=ROWS),
    )
    cuts = np.sort(
        np.random.default_rng(1).choice(np.arange(1, ROWS), SHARDS - 1, replace=False)
    )
    every = [("one.h5", np.arange(ROWS))]
    for where, some in (("shards", cuts), ("few", cuts[:: SHARDS // 3])):
        every += [
            (f"{where}/s{i:02d}.h5", rows)
            for i, rows in enumerate(np.split(np.arange(ROWS), some))
        ]
    for name, rows in every:
        with h5py.File(folder / name, "w") as file:
            file["logits"], file["labels"], file["weights"] = (
                z[rows].astype("f4"),
                y[rows],
                w[rows],
            )
            file["transforms/logits"] = moved[:, rows]
            file["transforms/specs"] = list(TRANSFORMS)
    return folder


def check_same_columns(one, other):
    """Compare attributes and columns of two HDF5 files.

    Their bytes may differ: where HDF5 puts a dataset depends on the size of blocks, which
    workers have of their own here.
    """
    with h5py.File(one) as a, h5py.File(other) as b:
        assert dict(a.attrs) == dict(b.attrs)
        assert list(a) == list(b)
        for column in a:
            assert a[column][()].tobytes() == b[column][()].tobytes()


def shards(folder, where="few"):
    return sorted(map(str, (folder / where).glob("*.h5")))


def fitted(names, name, executor=None, progress=None):
    with open_data(names) as rows:
        if executor is not None:
            spread_over(rows, names, executor)
        rows.progress = progress
        rows.name = "rows"
        return dumps(fit_artifact(name, parse_options(name, {}), rows, Context()))


@contextmanager
def processes(count, say=lambda text: None):
    executor = Processes(count, say)
    try:
        yield executor
    finally:
        executor.close()


# ---- the same bytes

SPREAD = [name for name in method_names() if method(name).laws.memory != "array"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_artifacts_do_not_depend_on_cut_and_workers(folder, count):
    with processes(count) as executor:
        assert fitted(shards(folder, "shards"), "ts", executor) == fitted(
            [str(folder / "one.h5")], "ts"
        )
        assert 0 < len(executor._workers) <= count


class Unsendable:
    """A task whose error holds what cannot be pickled."""

    name = "unsendable"

    def __call__(self):
        raise ValueError("no good", lambda: None)


def test_an_error_that_cannot_be_sent_is_told_in_words():
    with (
        processes(1) as executor,
        pytest.raises(RuntimeError, match=r"ValueError: \('no good', .*pickle"),
    ):
        list(executor.run([Unsendable()]))


def test_all_methods_that_stream_are_the_same_by_workers(folder):
    with processes(2) as executor:
        for name in SPREAD:
            assert fitted(shards(folder), name, executor) == fitted(
                [str(folder / "one.h5")], name
            ), name


def test_a_composition_and_one_file_are_spread_too(folder):
    with processes(2) as executor:
        one = [str(folder / "one.h5")]
        assert fitted(one, "ft+hb", executor) == fitted(one, "ft+hb")


def test_a_composition_in_an_average_is_applied_by_workers(folder, run, monkeypatch):
    """Its options, whose class cannot be imported by name, reach the workers."""
    monkeypatch.chdir(folder)
    fit = ("fit", "--method", "auto", "--set", "candidates=ts+mono", "one.h5")
    assert run(*fit, "-o", "c.json").code == 0
    members = json.loads((folder / "c.json").read_text())["params"]["members"]
    assert [member["method"] for member in members] == ["ts+mono"]
    for where, more in (("alone", ()), ("spread", ("--workers", 2))):
        command = ("apply", "c.json", "few/*.h5", "-o", where, *more)
        assert run(*command).code == 0
    written = sorted(path.name for path in (folder / "alone").iterdir())
    assert len(written) > 1
    for name in written:
        check_same_columns(folder / "alone" / name, folder / "spread" / name)


def test_evaluate_and_apply_by_workers(folder, run, monkeypatch):
    monkeypatch.chdir(folder)
    assert run("fit", "--method", "ts", "one.h5", "-o", "e.json").code == 0
    command = ("evaluate", "few/*.h5", "--pool", "-c", "e.json", "--json", "-q")
    alone, spread = run(*command), run(*command, "--workers", 2)
    assert (alone.code, spread.code) == (0, 0), spread.err
    assert json.loads(spread.out) == json.loads(alone.out)
    one = json.loads(run("evaluate", "one.h5", "-c", "e.json", "--json", "-q").out)[
        "results"
    ]
    for a, b in zip(one, json.loads(spread.out)["results"], strict=True):
        for name in b["metrics"]:
            assert b["metrics"][name]["value"] == pytest.approx(
                a["metrics"][name]["value"], rel=1e-12
            ), name
    for kind, where in (("whole", "one.h5"), ("parts", "few/*.h5")):
        for words in ([], ["--workers", "2"]):
            assert (
                run(
                    "apply",
                    "e.json",
                    where,
                    "-o",
                    f"{kind}{len(words)}",
                    "--format",
                    "h5",
                    *words,
                ).code
                == 0
            )
    assert (folder / "whole0").read_bytes() == (folder / "whole2").read_bytes()
    names = sorted(path.name for path in (folder / "parts0").iterdir())
    assert len(names) == len(shards(folder))
    assert names == sorted(path.name for path in (folder / "parts2").iterdir())
    for name in names:
        check_same_columns(folder / "parts0" / name, folder / "parts2" / name)
    assert not list(folder.glob("*.job"))


def test_rows_without_a_table_and_other_commands_by_workers(tmp_path, run, monkeypatch):
    """A report of sums, a diagram, a threshold and a page of three shards: the same of one file and of workers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("calcli.evaluation.evaluate_bundle.LONG", 500)
    z, y = truth(1500, 5, temperature=1.7, seed=4)
    for name, rows in (
        ("one", np.arange(1500)),
        *((f"s{i}", np.arange(i * 500, (i + 1) * 500)) for i in range(3)),
    ):
        with h5py.File(f"{name}.h5", "w") as file:
            file["logits"], file["labels"] = z[rows].astype("f4"), y[rows]
    assert run("fit", "-m", "ts", "one.h5", "-o", "t.json").code == 0
    for words in (
        ("evaluate", "--pool", "-c", "t.json", "--no-decomposition"),
        ("diagram", "--pool", "-c", "t.json"),
        ("threshold", "-c", "t.json", "--accuracy", "0.6"),
        (
            "report",
            "--pool",
            "-c",
            "t.json",
            "-o",
            "p.html",
            "--force",
            "--no-decomposition",
        ),
    ):
        alone, single = (
            run(*words, name, "--json", "-q") for name in ("s*.h5", "one.h5")
        )
        assert alone.code == 0, alone.err
        assert run(*words, "s*.h5", "--workers", 2, "--json", "-q").out == alone.out
        # The next command names the files that there are.
        one, many = (
            re.sub(
                r'"next": ("[^"]*"|null)', "", json.dumps(json.loads(done.out))
            ).replace("s0.h5 and 2 more", "one.h5")
            for done in (single, alone)
        )
        assert many == one, words[0]


def test_fit_by_workers_writes_the_same_and_no_more(folder, run, monkeypatch):
    monkeypatch.chdir(folder)
    for words in ([], ["--workers", "2"]):
        assert (
            run(
                "fit", "--method", "ec", "few/*.h5", "-o", f"f{len(words)}.json", *words
            ).code
            == 0
        )
    assert (folder / "f0.json").read_bytes() == (folder / "f2.json").read_bytes()
    assert not list(folder.glob("*.job"))


# ---- what goes wrong


def test_a_killed_worker_costs_its_part(folder):
    said = []
    with processes(2, said.append) as executor:
        killed = []

        def kill_one(what, done, total):
            if not killed:
                killed.append(executor._workers[1].process.pid)
                os.kill(killed[0], signal.SIGKILL)

        with_a_kill = fitted(shards(folder), "hoki", executor, progress=kill_one)
        assert killed and killed[0] not in [
            worker.process.pid for worker in executor._workers
        ]
    assert with_a_kill == fitted([str(folder / "one.h5")], "hoki")
    assert any("signal 9" in text for text in said)


class Deadly:
    """A task that no worker survives."""

    name = "rows 0..9 (a.h5)"

    def __call__(self):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_task_that_workers_die_over_is_given_up():
    with (
        processes(1) as executor,
        pytest.raises(WorkersLost, match=r"3 workers died .* rows 0\.\.9 \(a\.h5\)"),
    ):
        list(executor.run([Deadly()]))


def spoil(path):
    with h5py.File(path, "a") as file:
        file["logits"][2, 1] = np.nan


def test_a_broken_shard_is_named_and_the_others_are_whole(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    z, y = truth(900, 5, seed=1)
    for i in range(6):
        with h5py.File(f"s{i}.h5", "w") as file:
            file["logits"], file["labels"] = z[i::6].astype("f4"), y[i::6]
    assert run("fit", "--method", "ts", "s?.h5", "-o", "t.json").code == 0
    whole = (tmp_path / "s3.h5").read_bytes()
    spoil("s3.h5")
    broken = run("fit", "--method", "ts", "s?.h5", "-o", "u.json", "--workers", 2)
    assert broken.code == 3 and "s3.h5" in broken.line and "row 2" in broken.line
    assert not (tmp_path / "u.json").exists()
    command = ("apply", "t.json", "s?.h5", "-o", "out", "--workers", 2)
    broken = run(*command)
    assert broken.code == 3 and "s3.h5" in broken.err
    made = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    assert sorted(made) == [f"s{i}.h5" for i in (0, 1, 2, 4, 5)]
    (tmp_path / "s3.h5").write_bytes(whole)
    again = run(*command)
    assert again.code == 0 and "kept 5 of 6" in again.err, again.err
    assert len(again.out.splitlines()) == 6
    now = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    assert made.items() < now.items() and "s3.h5" in now
    assert not (tmp_path / "out.job").exists()
    # a finished job's outputs are in the way like any other's
    assert run(*command).code == 2


def test_the_same_command_goes_on(folder, run, monkeypatch):
    monkeypatch.chdir(folder)
    counts = []

    class Counting(Processes):
        def run(self, tasks, lost=None):
            for answer in super().run(tasks, lost):
                # else what was known is so still
                counts.extend([1] * any(part.digest != b"" for part in answer))
                yield answer
                if len(counts) == self.most:
                    raise WorkersLost("the scheduler is gone")

    monkeypatch.setattr("calcli.workers.processes.Processes", Counting)
    command = ("fit", "--method", "mono", "few/*.h5", "-o", "g.json", "--workers", 2)
    Counting.most = 7
    lost = run(*command)
    assert lost.code == 1
    assert (
        lost.line == "calcli: the scheduler is gone; what is done is kept in g.json.job"
    )
    assert not (folder / "g.json").exists()
    assert (folder / "g.json.job").stat().st_mode & 0o777 == 0o600
    counts.clear()
    Counting.most = -1
    assert run(*command).code == 0
    went_on = len(counts)
    counts.clear()
    assert run(*command[:5], "h.json", *command[6:]).code == 0
    assert (folder / "g.json").read_bytes() == (folder / "h.json").read_bytes()
    assert len(counts) == went_on + 7
    assert not (folder / "g.json.job").exists()


def test_a_job_file_is_read_with_care(tmp_path):
    path = tmp_path / "a.job"
    journal = Journal(path)
    journal[b"a" * 32] = [np.arange(3), 1.5]
    journal[b"b" * 32] = [os.system]  # no number: written by whom?
    journal.close(done=False)
    path.write_bytes(path.read_bytes() + b"c" * 50)  # cut short
    journal = Journal(path)
    assert len(journal) == 2
    assert journal[b"a" * 32][0].tolist() == [0, 1, 2]
    for key in (b"b" * 32, b"c" * 32):
        with pytest.raises(KeyError):
            journal[key]
    journal.close(done=False)
    path.chmod(0o666)  # anybody may have written it
    journal = Journal(path)
    assert len(journal) == 0
    assert path.read_bytes() == HEAD and path.stat().st_mode & 0o777 == 0o600
    journal.close(done=True)
    assert not path.exists()


@pytest.mark.parametrize(
    "kind", ["a file of somebody's", "a link", "a pipe", "a folder"]
)
def test_a_file_in_the_way_of_the_job_file_is_left_alone(tmp_path, kind):
    path, other = tmp_path / "a.job", tmp_path / "other"
    other.write_text("precious")
    if kind == "a file of somebody's":
        path.write_text("#!/bin/sh\n")
    elif kind == "a link":
        path.symlink_to(other)
    elif kind == "a pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    before = path.lstat()
    with pytest.raises(UsageError, match=r"a\.job: is in the way"):
        Journal(path)
    assert (other.read_text(), path.lstat()[:7]) == ("precious", before[:7])


def test_a_job_file_has_one_user(tmp_path):
    journal = Journal(tmp_path / "a.job")
    with pytest.raises(UsageError, match="another calcli is writing it"):
        Journal(tmp_path / "a.job")
    journal.close(done=False)  # and nothing in it is nothing to keep
    assert not list(tmp_path.iterdir())


def test_a_file_that_changes_meanwhile_is_named(tmp_path):
    z, y = truth(2000, 5)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    names = [str(tmp_path / "a.h5")]
    with processes(1) as executor, open_data(names) as rows:
        spread_over(rows, names, executor)
        os.utime(names[0], (1, 1))
        with pytest.raises(DataError, match=r"a\.h5: has changed"):
            list(rows.each(len))


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (("fit", "--method", "ts", "-o", "x.json"), {"prefer": CALIBRATION}),
        (("evaluate", "-m", "ece"), {}),
        (("report", "-o", "x.html"), {}),
        (("diagram", "--json"), {}),
        (("diagram", "--json", "--style", "temperature"), {}),
        (("threshold", "--accuracy", "0.1"), {}),
        (("apply", "t.json", "-o", "x.csv"), {"need_labels": False}),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "",
)
def test_rows_are_spread_as_they_were_opened(run, monkeypatch, tmp_path, words, more):
    """Every command that reads rows hands them to its workers, with the names and arguments that opened them."""
    monkeypatch.chdir(tmp_path)
    z, y = truth(300, 3)
    with h5py.File("a.h5", "w") as file:
        file["logits"], file["labels"] = z, y
    assert run("fit", "--method", "ts", "a.h5", "-o", "t.json").code == 0
    opened, closed = [], []
    executor = SimpleNamespace(remote=False, close=lambda: closed.append(True))
    monkeypatch.setattr(
        "calcli.workers.processes.Processes", lambda count, say: executor
    )
    monkeypatch.setattr(
        "calcli.workers.passes.spread_over", lambda *arguments: opened.append(arguments)
    )
    assert (
        run(*words, "a.h5", "--kind", "logits", "--ignore-label", "7").code == 0
        and not opened
    )
    assert (
        run(
            *words,
            "a.h5",
            "--kind",
            "logits",
            "--ignore-label",
            "7",
            "--workers",
            2,
            "--force",
        ).code
        == 0
    )
    ((rows, names, by, opening, journal),) = opened
    assert (rows.n, list(names), by is executor, closed) == (
        300,
        ["a.h5"],
        True,
        [True],
    )
    how = {
        "prefer": ("test",),
        "layout": Layout(kind="logits"),
        "ignore_labels": (7,),
        "need_labels": True,
    } | more
    assert opening == how
    assert (journal is not None) == (words[0] == "fit")


@pytest.mark.parametrize("count", [0, 4097])
def test_a_number_of_workers_that_no_machine_has(run, count):
    assert "1<=x<=4096" in run("evaluate", "a.h5", "--workers", count).line


def test_workers_and_cluster_exclude_each_other(run):
    assert (
        run(
            "fit",
            "--method",
            "ts",
            "a.h5",
            "-o",
            "x.json",
            "--workers",
            2,
            "--cluster",
            "tcp://x:1",
        ).code
        == 2
    )


# ---- Dask


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def dask_cluster(workers):
    """Scheduler and workers as processes of their own: (address, scheduler, workers)."""
    address = f"tcp://127.0.0.1:{free_port()}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    start = lambda *words: subprocess.Popen([sys.executable, "-m", *words], **quiet)  # noqa: E731
    port = address.rsplit(":", 1)[1]
    every = [
        start(
            "distributed.cli.dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            port,
            "--no-dashboard",
        )
    ]
    one = ("--nthreads", "1", "--no-nanny", "--no-dashboard")
    every += [
        start("distributed.cli.dask_worker", address, *one) for _ in range(workers)
    ]
    try:
        yield address, every[0], every[1:]
    finally:
        for worker in every:
            worker.kill()
            worker.wait()


def test_a_dask_cluster(folder, run, monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed")
    from calcli.workers.dask_cluster import DaskCluster

    # where tests share a busy machine
    monkeypatch.setattr("calcli.workers.dask_cluster.PATIENCE", 120.0)
    monkeypatch.chdir(folder)
    with dask_cluster(2) as (address, scheduler, workers):
        assert (
            run(
                "fit",
                "--method",
                "hoki",
                "few/*.h5",
                "-o",
                "d.json",
                "--cluster",
                address,
            ).code
            == 0
        )
        assert run("fit", "--method", "hoki", "few/*.h5", "-o", "n.json").code == 0
        assert (folder / "d.json").read_bytes() == (folder / "n.json").read_bytes()
        executor = DaskCluster(address)
        try:
            spread_then_kill(executor, folder, workers[0])
        finally:
            executor.close()
        done = run(
            "apply", "n.json", "few/*.h5", "-o", "dask", "--cluster", address, "-q"
        )
        assert done.code == 0 and len(list((folder / "dask").iterdir())) == len(
            shards(folder)
        )
        alone, there = (
            json.loads(
                run("compare", "one.h5", "-m", "platt", "--json", "-q", *words).out
            )
            for words in ((), ("--cluster", address))
        )
        # blocks have other sizes there
        for mine, other in zip(alone["results"], there["results"], strict=True):
            assert other["metrics"]["nll"]["value"] == pytest.approx(
                mine["metrics"]["nll"]["value"], rel=1e-12
            )

        killed = []

        def kill(self, what, done, total):
            if not killed:
                killed.append(scheduler.kill())

        monkeypatch.setattr("calcli.cli.render.Console.progress", kill)
        lost = run(
            "fit", "--method", "mono", "few/*.h5", "-o", "l.json", "--cluster", address
        )
        assert lost.code == 1
        assert (
            f"the Dask scheduler at {address} is gone" in lost.line
            and "l.json.job" in lost.line
        )
        assert not (folder / "l.json").exists()


def spread_then_kill(executor, folder, worker):
    """A worker that dies in the middle of a fit costs nothing but time."""
    killed = []

    def kill(what, done, total):
        if not killed:
            killed.append(worker.kill())

    assert fitted(shards(folder), "ft", executor, progress=kill) == fitted(
        [str(folder / "one.h5")], "ft"
    )
    assert killed


def test_a_cluster_without_workers_is_told_and_given_up(monkeypatch):
    """All workers dead, then a scheduler that is stopped: said once a minute, and ended in time."""
    pytest.importorskip("distributed", reason="Dask is not installed")
    from calcli.workers import dask_cluster as module

    for name, seconds in (
        ("PATIENCE", 120.0),
        ("MINUTE", 0.5),
        ("LONELY", 5.0),
        ("BEAT", 0.1),
    ):
        monkeypatch.setattr(module, name, seconds)
    with dask_cluster(1) as (address, scheduler, workers):
        said = []
        executor = module.DaskCluster(address, said.append)
        monkeypatch.setattr(module, "PATIENCE", 2.0)
        try:
            answers = executor.run([partial(time.sleep, 60)])
            threading.Timer(1.0, workers[0].kill).start()
            with pytest.raises(
                WorkersLost,
                match=r"has no worker left, for 0 minutes; start workers and repeat",
            ):
                list(answers)
            assert (
                3 <= sum("has no worker left; waiting" in text for text in said) <= 12
            )
            scheduler.send_signal(signal.SIGSTOP)
            with pytest.raises(WorkersLost, match="does not answer"):
                list(executor.run([partial(time.sleep, 60)]))
        finally:
            scheduler.send_signal(signal.SIGCONT)
            executor.close()


def test_a_worker_that_hangs_before_the_work_begins(monkeypatch):
    """The scheduler takes it for alive; it is asked for its version, and Dask has no end to that."""
    pytest.importorskip("distributed", reason="Dask is not installed")
    from calcli.workers import dask_cluster as module

    monkeypatch.setattr(module, "PATIENCE", 120.0)  # where tests share a busy machine
    with dask_cluster(1) as (address, _, workers):
        module.DaskCluster(address).close()
        workers[0].send_signal(signal.SIGSTOP)
        meet = module.DaskCluster._meet

        def hasty(self):  # once it is connected
            monkeypatch.setattr(module, "PATIENCE", 5.0)
            meet(self)

        monkeypatch.setattr(module.DaskCluster, "_meet", hasty)
        with pytest.raises(
            UsageError, match="does not answer within 5 s; end those that hang"
        ):
            module.DaskCluster(address)


def test_a_server_that_takes_the_call_and_says_nothing(monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed")
    from calcli.workers import dask_cluster as module

    monkeypatch.setattr(module, "PATIENCE", 1.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(UsageError, match="no Dask scheduler answers there"):
            module.DaskCluster(f"tcp://127.0.0.1:{silent.getsockname()[1]}")


def test_no_scheduler_there(monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed")

    from calcli.workers.dask_cluster import DaskCluster

    monkeypatch.setattr("calcli.workers.dask_cluster.PATIENCE", 1.0)
    with pytest.raises(UsageError, match="no Dask scheduler answers there"):
        DaskCluster(f"tcp://127.0.0.1:{free_port()}")


@pytest.mark.parametrize(
    ("where", "code", "says"),
    [
        ("gone.json", 3, "cannot be read: no such file"),
        ("other.json", 3, "holds no address"),
        ("list.json", 3, "holds no address"),
        ("nowhere", 2, "missing port number"),
        ("no://x:1", 2, "unknown address scheme"),
    ],
)
def test_what_is_no_address_of_a_scheduler(folder, where, code, says):
    """As a process: Dask has waited for a file for ever, and at the end a minute for who never answered."""
    pytest.importorskip("distributed", reason="Dask is not installed")
    (folder / "other.json").write_text('{"type": "Scheduler"}')
    (folder / "list.json").write_text('["tcp://x:1"]')
    done = process(
        "evaluate", "one.h5", "-m", "nll", "--cluster", where, cwd=folder, timeout=50
    )
    assert (done.code, says in done.line) == (code, True), done.err


# ---- models over shards of inputs

NETS = """
import torch
def net():
    torch.manual_seed(0)
    return torch.nn.Linear(6, 3)
"""


def test_a_model_runs_over_shards_of_inputs(tmp_path, run, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    )
    (tmp_path / "shard_nets.py").write_text(NETS)
    rng = np.random.default_rng(0)
    for i in (1, 2, 10):
        np.savez(
            f"in-{i}.npz",
            inputs=rng.normal(size=(20, 6)).astype("f4"),
            labels=rng.integers(0, 3, 20),
        )
    (tmp_path / "in-3.npz").write_bytes(b"not an archive")
    command = (
        "extract",
        "--model",
        "shard_nets:net",
        "--inputs",
        "in-*.npz",
        "--layout",
        "rows",
        "-o",
    )
    alone, spread = run(*command, "a"), run(*command, "b", "--workers", 1)
    assert (alone.code, spread.code) == (3, 3), spread.err
    assert "in-3.npz" in alone.err and "in-3.npz" in spread.err
    assert spread.out.split() == [f"b/in-{i}.h5" for i in (1, 2, 10)]
    for i in (1, 2, 10):
        assert (tmp_path / "a" / f"in-{i}.h5").read_bytes() == (
            tmp_path / "b" / f"in-{i}.h5"
        ).read_bytes()
    np.savez(
        "in-3.npz", inputs=np.zeros((5, 6), dtype="f4"), labels=np.zeros(5, dtype=int)
    )
    again = run(*command, "b", "--workers", 1)
    assert again.code == 0 and "kept 3 of 4" in again.err
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == sorted(
        f"in-{i}.h5" for i in (1, 2, 3, 10)
    )


# ---- progress


def test_progress_is_a_line_a_minute_with_rows_per_second(monkeypatch, capsys):
    from calcli.cli import render

    clock = [0.0]
    monkeypatch.setattr(render.time, "monotonic", lambda: clock[0])
    talk = render.Console()
    for walk in range(3):  # walks shorter than a minute, other words between
        for done in (1000, 2000, 3000, 4000):
            clock[0] += 10.0
            talk.progress("rows read", done, 4000)
        talk.progress("searching", walk, 0)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["rows read: 3000/4000 (75%), 100/s, 0:10 left"]


def test_the_steps_of_a_long_run_are_in_the_line_of_the_minute(monkeypatch, capsys):
    from calcli.cli import render

    clock = [1.0]
    monkeypatch.setattr(render.time, "monotonic", lambda: clock[0])
    talk = render.Console()
    for step in range(1, 6):  # of 25 seconds each
        talk.step(f"{step}/5 ts …")
        for done in (0, 500):
            clock[0] += 12.5
            talk.progress("rows read", 1000 * done, 1_000_000)
        talk.clear()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "3/5 ts … rows read: 0/1000000 (0%)",
        "5/5 ts … rows read: 500000/1000000 (50%), 40000/s, 0:12 left",
    ]


# ---- rows that changed


@pytest.mark.parametrize("blind", [False, True], ids=["a clock", "no clock"])
@pytest.mark.parametrize("name", ["hoki", "ts", "ec"])
def test_other_rows_of_the_same_size_and_time_are_noticed(
    tmp_path, run, monkeypatch, name, blind
):
    """``rsync -t`` and ``cp -p`` keep both. blind : nor does the file system tell of a change by anything else."""
    monkeypatch.chdir(tmp_path)
    if blind:
        monkeypatch.setattr(
            "calcli.workers.shared_bundles.stamp",
            lambda path: FileStamp(1, 2, path.stat().st_size, 10**18, 10**18),
        )

    def write(seed):
        z, y = truth(2000, 5, temperature=1.7, seed=seed)
        with h5py.File("new.h5", "w") as file:
            file["logits"], file["labels"] = z.astype("f4"), y
        os.utime("new.h5", ns=(10**18, 10**18))

    write(1)
    os.rename("new.h5", "a.h5")

    class Stopped(Processes):
        left = 6

        def run(self, tasks, lost=None):
            for answer in super().run(tasks, lost):
                Stopped.left -= 1
                yield answer
                if not Stopped.left:
                    raise WorkersLost("killed")

    with monkeypatch.context() as patch:
        patch.setattr("calcli.workers.processes.Processes", Stopped)
        assert run("fit", "-m", name, "a.h5", "-o", "a.json", "--workers", 2).code == 1
    about = os.stat("a.h5")
    write(2)
    other = (tmp_path / "new.h5").read_bytes()
    (tmp_path / "a.h5").write_bytes(other)  # the inode too
    os.utime("a.h5", ns=(10**18, 10**18))
    now = os.stat("a.h5")
    assert (now.st_size, now.st_mtime_ns, now.st_ino) == (
        about.st_size,
        about.st_mtime_ns,
        about.st_ino,
    )
    assert run("fit", "-m", name, "a.h5", "-o", "a.json", "--workers", 2).code == 0
    assert run("fit", "-m", name, "a.h5", "-o", "fresh.json").code == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "fresh.json").read_bytes()
