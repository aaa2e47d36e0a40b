"""HDF5 files made to leak, to hang, to crash, or to pass for whole. Nothing in them is random."""

import itertools
import os
import threading
import time
import zlib

import h5py
import numpy as np
import pytest
from synthetic import truth

from calcli.errors import DataError
from calcli.importers.open_any_file import open_data
from calcli.io import hdf5, hdf5_crash_test
from calcli.io.hdf5 import open_file

pytestmark = pytest.mark.slow

N, K = 300, 4
Z, Y = truth(N, K)


@pytest.fixture
def run(run):
    with h5py.File("good.h5", "w") as file:
        file["logits"], file["labels"] = Z, Y
    return run


def virtual(file, source, name, rows=slice(None), shape=(N, K), **more):
    layout = h5py.VirtualLayout(shape=shape, dtype="f8", **more)
    layout[rows] = h5py.VirtualSource(source, name, shape=(N, K), **more)[rows]
    file.create_virtual_dataset("logits", layout)


def zeros(file, name, shape, chunk):
    """Compressed zeros, written without ever being there."""
    dataset = file.create_dataset(name, shape, "f4", chunks=chunk, compression="gzip")
    packed = zlib.compress(bytes(4 * int(np.prod(chunk))))
    for corner in itertools.product(
        *(range(0, n, step) for n, step in zip(shape, chunk, strict=True))
    ):
        dataset.id.write_direct_chunk(corner, packed)


def make(what):
    whole = h5py.h5f.UNLIMITED
    with h5py.File("x.h5", "w") as file:
        match what:
            case "partly mapped":
                virtual(file, "good.h5", "logits", slice(0, 50))
            case "no such source dataset":
                virtual(file, "good.h5", "gone")
            case "shorter source":
                with h5py.File("half.h5", "w") as half:
                    half["logits"] = Z[:100]
                virtual(file, "half.h5", "logits")
            case "percent":
                virtual(file, "ab%%sent.h5", "logits")
            case "growing":
                layout, most = (
                    h5py.VirtualLayout((N, K), "f8", maxshape=(None, K)),
                    h5py.h5s.UNLIMITED,
                )
                layout[:most] = h5py.VirtualSource(
                    "good.h5", "logits", (N, K), maxshape=(None, K)
                )[:most]
                file.create_virtual_dataset("logits", layout)
            case "itself":
                virtual(file, ".", "logits")
            case "each other":
                virtual(file, "y.h5", "logits")
                with h5py.File("y.h5", "w") as other:
                    virtual(other, "x.h5", "logits")
            case "2^40 rows, virtual":
                virtual(file, "good.h5", "logits", slice(0, N), (2**40, K))
            case "2^40 rows, chunks":
                file.create_dataset("logits", (2**40, K), "f4", chunks=(1024, K))[
                    :N
                ] = Z
            case "a huge chunk":
                zeros(file, "logits", (2**13, 2**12), (2**13, 2**12))
            case "many zeros":
                zeros(file, "logits", (10**6, 20), (10**5, 20))
            case "virtual pipe":
                virtual(file, "pipe", "logits")
            case "linked pipe":
                file["logits"] = h5py.ExternalLink("pipe", "/logits")
            case "soft link to a linked pipe":
                file["there"] = h5py.ExternalLink(os.path.abspath("pipe"), "/")
                file["logits"] = h5py.SoftLink("/there/logits")
            case "external pipe":
                file.create_dataset(
                    "logits", (N, K), "f8", external=[("pipe", 0, whole)]
                )
            case "short external":
                np.zeros(10).tofile("short.bin")
                file.create_dataset(
                    "logits", (N, K), "f8", external=[("short.bin", 0, whole)]
                )
            case "external in pieces":
                np.zeros(N).tofile("short.bin")
                file.create_dataset(
                    "logits",
                    (N, K),
                    "f8",
                    external=[("short.bin", 0, 2400), ("short.bin", 0, 7200)],
                )
            case "external elsewhere":
                os.mkdir("else")
                Z.tofile("else/z.bin")
                file.create_dataset(
                    "logits", (N, K), "f8", external=[("else/z.bin", 0, whole)]
                )
            case "virtual elsewhere":
                os.mkdir("else")
                os.rename("good.h5", "else/good.h5")
                virtual(file, "else/good.h5", "logits")
            case "linked circle":
                file["logits"] = h5py.ExternalLink("x.h5", "/logits")
        file["labels"] = Y


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("partly mapped", "only 200 of its 1200 values have a source"),
        (
            "no such source dataset",
            "takes its values from gone of good.h5, where it is not",
        ),
        ("shorter source", "has shape (100, 4) and lacks some"),
        ("percent", "takes its values from ab%sent.h5, which is not there"),
        ("growing", "grows with its sources"),
        ("itself", "takes its values from itself"),
        ("each other", "takes its values from itself"),
        ("2^40 rows, virtual", "only 1200 of its 4398046511104 values have a source"),
        ("2^40 rows, chunks", "only 1 of its 1073741824 chunks were ever written"),
        ("a huge chunk", "far more than scores shrink by"),
        ("many zeros", "far more than scores shrink by"),
        ("virtual pipe", "leads to "),
        ("linked pipe", "is no ordinary file"),
        ("soft link to a linked pipe", "is no ordinary file"),
        ("external pipe", "which is no ordinary file"),
        ("short external", "needs 9600 bytes of other files and they hold less"),
        ("external in pieces", "needs 9600 bytes of other files and they hold less"),
        ("external elsewhere", "pass --allow-external if you trust it"),
        ("virtual elsewhere", "pass --allow-external if you trust it"),
        ("linked circle", "which cannot be opened"),
    ],
)
def test_what_is_not_there_is_never_read_as_zeros(run, what, says):
    os.mkfifo("pipe")
    run("fit", "-m", "ts", "good.h5", "-o", "ts.json", "-q")
    make(what)
    for words in (
        ["fit", "-m", "ts", "x.h5"],
        ["inspect", "x.h5"],
        ["apply", "ts.json", "x.h5", "-o", "o.h5"],
    ):
        done = run(*words)
        assert (done.code, says in done.line) == (3, True), done.err
    if what.endswith("elsewhere"):
        assert (
            run("fit", "-m", "ts", "x.h5", "--allow-external", "-o", "a.json").code == 0
        )
        assert run("evaluate", "x.h5", "--allow-external").code == 0
        assert run("report", "x.h5", "--allow-external", "-o", "r.html", "-q").code == 0


def test_whole_sources_beside_the_file_are_read(run, tmp_path):
    Y.astype("i8").tofile("y.bin")
    with h5py.File("x.h5", "w") as file:
        layout = h5py.VirtualLayout(shape=(N, K), dtype="f8")
        source = h5py.VirtualSource("good.h5", "logits", shape=(N, K))
        layout[:150:2], layout[1:150:2], layout[150:] = (
            source[:150:2],
            source[1:150:2],
            source[150:],
        )
        file.create_virtual_dataset("logits", layout)
        file.create_dataset(
            "labels",
            (N,),
            "i8",
            external=[("y.bin", 0, 400), ("y.bin", 400, h5py.h5f.UNLIMITED)],
        )
        file["other"] = h5py.ExternalLink("good.h5", "/")
    wanted = run("evaluate", "good.h5", "-m", "nll", "--format", "value", "-q").out
    assert (
        run("evaluate", "x.h5:", "-m", "nll", "--format", "value", "-q").out == wanted
    )
    assert (
        run("evaluate", "x.h5:other", "-m", "nll", "--format", "value", "-q").out
        == wanted
    )


def test_chunks_that_do_not_fit_are_refused(run, monkeypatch):
    monkeypatch.setattr(hdf5, "LARGEST_CHUNK", 1 << 20)
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("logits", data=np.ones((2**16, K)), chunks=(2**16, 1))
        file["labels"] = np.zeros(2**16, int)
    assert (
        "has chunks of 65536 rows, 2 MiB to read at once"
        in run("fit", "-m", "ts", "x.h5").line
    )


def test_a_link_to_a_pipe_that_nobody_asked_for_is_no_matter(run):
    os.mkfifo("pipe")
    with h5py.File("good.h5", "a") as file:
        file["cal"], file["s"] = h5py.ExternalLink("pipe", "/"), h5py.SoftLink("/cal/x")
    assert run("inspect", "good.h5").code == 0
    assert run("evaluate", "good.h5", "-m", "ece", "-q").code == 0
    # it would take cal
    assert "no ordinary file" in run("fit", "-m", "ts", "good.h5").line


def test_bytes_of_other_files_are_not_carried_away(run, tmp_path):
    run("fit", "-m", "ts", "good.h5", "-o", "ts.json", "-q")
    with h5py.File("good.h5", "a") as file:
        file.create_dataset(
            "ids", (N,), "u1", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)]
        )
    for words in (
        ["apply", "ts.json", "good.h5", "-o", "o.h5"],
        ["extract", "good.h5", "-o", "o.h5"],
    ):
        assert "--allow-external" in run(*words).line
    with h5py.File("p.h5", "w") as file:
        file["logits"] = Z
        file.create_dataset(
            "labels", (N,), "u1", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)]
        )
    assert "--allow-external" in run("evaluate", "p.h5").line


def test_groups_with_colons_can_be_named(run):
    with h5py.File("names.h5", "w") as file:
        for group in ("x:y", "x"):
            file[f"{group}/logits"], file[f"{group}/labels"] = Z, Y
    assert run("inspect", "names.h5:x:y").out.splitlines()[0].endswith("names.h5:x:y")
    done = run("evaluate", "names.h5:*", "-m", "ece", "--format", "value", "-q")
    assert (done.code, len(done.out.splitlines())) == (0, 2)


# ---- the child that looks first


def endless(path):
    """A heap of strings whose objects have length 0: HDF5 walks on the spot."""
    with h5py.File(path, "w") as file:
        file["logits"], file["labels"] = Z, Y
        file["class_names"] = np.array(["a", "b", "c", "d"], dtype=object)
    data = bytearray(path.read_bytes())
    heap = data.index(b"GCOL") + 16
    data[heap + 8 : heap + 16] = (2**64 - 16).to_bytes(8, "little")
    path.write_bytes(bytes(data))


def test_a_heap_without_end_ends(run, tmp_path):
    endless(tmp_path / "x.h5")
    assert run("fit", "-m", "ts", "x.h5").code in (0, 3)


@pytest.mark.parametrize(
    ("fate", "says"),
    [
        (lambda: os.kill(os.getpid(), 9), "HDF5 crashes on it"),
        (lambda: time.sleep(60), "reading it never ends"),
        (lambda: bytearray(8 << 30), "takes more than 1024 MiB of memory"),
        (lambda: next(x for x in itertools.count() if x < 0), "reading it never ends"),
    ],
)
def test_what_kills_the_child_is_a_sentence(run, tmp_path, monkeypatch, fate, says):
    monkeypatch.setattr(hdf5_crash_test, "_walk", lambda file: fate())
    monkeypatch.setattr(hdf5_crash_test, "SECONDS", 1)
    monkeypatch.setattr(hdf5_crash_test, "_survived", set())
    # Beside threads, as under pytest-xdist, a slow child is followed by a new interpreter, which knows no such fate.
    monkeypatch.setattr(hdf5_crash_test.threading, "active_count", lambda: 1)
    with pytest.raises(DataError, match=says), open_file(tmp_path / "good.h5"):
        pass


@pytest.fixture
def forks(monkeypatch):
    """Grows by one at every fork. Beside threads, which tests before may have left, every file is looked at alone."""
    forks, fork = [], os.fork
    monkeypatch.setattr(os, "fork", lambda: forks.append(1) or fork())
    monkeypatch.setattr(hdf5_crash_test, "_survived", set())
    monkeypatch.setattr(hdf5_crash_test.threading, "active_count", lambda: 1)
    return forks


def test_an_ordinary_file_is_looked_at_once(run, tmp_path, forks):
    for _ in range(2):
        hdf5_crash_test.probe(tmp_path / "good.h5")
    assert len(forks) == 1


def test_a_child_that_waits_for_a_processor_is_waited_for(
    run, tmp_path, monkeypatch, forks
):
    """On a busy machine a file is no more damaged than on an idle one: its work may take longer than the patience."""

    def work(file):
        end = time.process_time() + 0.5
        while time.process_time() < end:
            pass

    monkeypatch.setattr(hdf5_crash_test, "_walk", work)
    assert (
        hdf5_crash_test._forked([tmp_path / "good.h5"], 5, 0.05) == hdf5_crash_test.FINE
    )


def test_many_files_are_looked_at_by_one_child_and_the_one_that_kills_it_is_named(
    run, tmp_path, monkeypatch, forks
):
    shards = [tmp_path / f"shard{i}.h5" for i in range(20)]
    for shard in shards:
        shard.write_bytes((tmp_path / "good.h5").read_bytes())
    with open_data([str(shard) for shard in shards]) as rows:
        assert rows.n == 20 * N
    assert len(forks) == 1
    monkeypatch.setattr(hdf5_crash_test, "_survived", set())
    walk = hdf5_crash_test._walk
    monkeypatch.setattr(
        hdf5_crash_test,
        "_walk",
        lambda file: (
            os.kill(os.getpid(), 11) if "shard7" in file.filename else walk(file)
        ),
    )
    with (
        pytest.raises(DataError, match=r"shard7\.h5: is damaged: HDF5 crashes on it"),
        open_data([str(shard) for shard in shards]),
    ):
        pass


@pytest.fixture
def crowd():
    """Another Python thread, which works, and one that holds a lock."""
    over, lock, is_held = threading.Event(), threading.Lock(), threading.Event()

    def hold():
        with lock:
            is_held.set()
            over.wait()

    def work():
        while not over.wait(0.001):
            sum(range(1000))

    threads = [threading.Thread(target=task) for task in (hold, work)]
    for thread in threads:
        thread.start()
    is_held.wait()
    yield lock
    over.set()
    for thread in threads:
        thread.join()


def test_threads_beside_it_are_no_reason_to_open_a_file_unseen(
    run, tmp_path, monkeypatch, crowd
):
    monkeypatch.setattr(hdf5_crash_test, "_survived", set())
    hdf5_crash_test.probe(tmp_path / "good.h5")
    assert hdf5_crash_test._survived
    monkeypatch.setattr(hdf5_crash_test, "_walk", lambda file: os.kill(os.getpid(), 11))
    monkeypatch.setattr(hdf5_crash_test, "_survived", set())
    with pytest.raises(DataError, match="HDF5 crashes on it"):
        hdf5_crash_test.probe(tmp_path / "good.h5")


def test_a_child_that_waits_for_a_lock_is_replaced_by_a_new_interpreter(
    run, tmp_path, monkeypatch, crowd
):
    monkeypatch.setattr(hdf5_crash_test, "PATIENCE", 0.2)
    monkeypatch.setattr(hdf5_crash_test, "_walk", lambda file: crowd.acquire())
    monkeypatch.setattr(hdf5_crash_test, "_survived", set())
    hdf5_crash_test.probe(tmp_path / "good.h5")
    assert hdf5_crash_test._survived
    endless(tmp_path / "x.h5")
    start = hdf5_crash_test.start
    monkeypatch.setattr(
        hdf5_crash_test,
        "start",
        lambda code, *more, **how: start("import os; os.kill(os.getpid(), 11)"),
    )
    with pytest.raises(DataError, match="HDF5 crashes on it"):
        hdf5_crash_test.probe(tmp_path / "x.h5")


# ---- columns and attributes of other kinds than they should be


@pytest.mark.parametrize("name", ["ids", "group"])
@pytest.mark.parametrize("dtype", [[("a", "f4")], "V8", "c8"], ids=str)
def test_columns_that_are_neither_numbers_nor_texts_are_refused(run, name, dtype):
    run("fit", "-m", "ts", "good.h5", "-o", "ts.json", "-q")
    with h5py.File("good.h5", "a") as file:
        file[name] = np.zeros(N, dtype)
    for words in (
        ["apply", "ts.json", "good.h5", "-o", "o.parquet"],
        ["report", "good.h5", "-o", "o.html"],
    ):
        done = run(*words)
        if (name, words[0]) != ("ids", "report"):  # which shows no ids
            assert (done.code, "expected numbers or UTF-8 strings" in done.line) == (
                3,
                True,
            ), done.line


def test_datasets_without_a_shape_are_no_scores(run):
    with h5py.File("x.h5", "w") as file:
        file["logits"], file["labels"] = h5py.Empty("f4"), Y
    assert run("extract", "x.h5", "-o", "o.h5").code == 3
    assert run("extract", "x.h5", "--scores", "*", "-o", "o.h5").code in (2, 3)


def test_a_long_source_makes_no_long_page(run):
    with h5py.File("x.h5", "w", libver="latest") as file:
        file["logits"], file["labels"] = Z, Y
        file.attrs["source"] = '"' + "\x1b" * (1 << 20) + '"'
    assert run("report", "x.h5", "--no-decomposition", "-o", "o.html", "-q").code == 0
    assert os.path.getsize("o.html") < 400_000


def test_texts_that_were_never_written_are_not_walked_through(run, tmp_path):
    """2^40 strings, of which none is stored: the child would read zeros for hours."""
    with h5py.File("good.h5", "a") as file:
        file.create_dataset(
            "class_names", (2**40,), h5py.string_dtype(), chunks=(2**10,)
        )
    assert (
        "of its 1073741824 chunks were ever written" in run("inspect", "good.h5").line
    )


def test_a_checksum_that_is_wrong_asks_for_no_filter(run, tmp_path):
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("logits", data=Z, chunks=(64, K), fletcher32=True)
        file["labels"] = Y
    data = bytearray((tmp_path / "x.h5").read_bytes())
    data[data.index(Z[:1].tobytes())] ^= 255
    (tmp_path / "x.h5").write_bytes(data)
    assert (
        "its bytes are damaged; fetch the file anew"
        in run("fit", "-m", "ts", "x.h5").line
    )
