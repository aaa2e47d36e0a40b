"""Job files (``OUT.job``) that calcli did not write: they run nothing, and count for nothing."""

import os
import pickle
import zlib

import h5py
import numpy as np
import pytest
from run_calcli import runner
from synthetic import truth

from calcli.workers.journal import HEAD, Journal
from calcli.workers.passes import PassTask

pytestmark = pytest.mark.slow

KEY = b"k" * 32


class Gadget:
    def __reduce__(self):
        return os.system, ("touch PWNED",)


def entry(text, key=KEY):
    return (
        key
        + len(text).to_bytes(8, "little")
        + zlib.crc32(text).to_bytes(4, "little")
        + text
    )


def called():
    """A task, which unpickles its walk when it is called, and the code that calls it."""
    task = PassTask(None, pickle.dumps(Gadget()), (), 0, 1, 1, 1, 1, False)
    return pickle.dumps(task, 4)[:-1] + b")R."


FORGED = {
    "a task that is called": called(),
    "a command": pickle.dumps(Gadget()),
    "no pickle": b"abc",
    "nothing": b"",
    "cut off": pickle.dumps(np.zeros(30), 5)[:-20],
    "more than memory": b"cnumpy\nndarray\n((L1099511627776L\ntR.",
    "no shape": b'cnumpy\nndarray\n(S"a"\ntR.',
    "no type": b'cnumpy\ndtype\n(S"zzz"\ntR.',
    "an object": b'cnumpy._core.multiarray\nscalar\n(cnumpy\ndtype\n(S"O"\ntRS"a"\ntR.',
    "too many fields": b"ccalcli.workers.passes\nPartResult\n(I1\nI2\nI3\nI4\nI5\nI6\ntR.",
    "an extension": b"\x82\x01.",
    "a deep one": b"(" * 100_000 + b".",
}


@pytest.mark.parametrize("text", FORGED.values(), ids=FORGED)
def test_a_forged_entry_runs_nothing_and_is_not_there(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.job").write_bytes(HEAD + entry(text))
    (tmp_path / "x.job").chmod(0o600)
    journal = Journal(tmp_path / "x.job")
    with pytest.raises(KeyError):
        journal[KEY]
    journal.close(done=True)
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize(
    "value",
    [7, [7], [(1, 2, 3)], [], [(1, None)] * 3, None, "x", ((), (), ())],
    ids=repr,
)
def test_results_that_are_none_are_made_again(tmp_path, monkeypatch, capsys, value):
    """With the right key and checksum; the artifacts are those of one process."""
    monkeypatch.chdir(tmp_path)
    z, y = truth(300, 3)
    for name in ("a.h5", "b.h5"):
        with h5py.File(name, "w") as file:
            file["logits"], file["labels"] = z, y
    monkeypatch.setattr(Journal, "__getitem__", lambda self, key: value)
    run = runner(monkeypatch, capsys)
    assert run("fit", "-m", "ts", "a.h5", "-o", "one.json", "-q").code == 0
    assert (
        run("fit", "-m", "ts", "a.h5", "-o", "two.json", "-q", "--workers", "1").code
        == 0
    )
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert (
        run(
            "apply", "one.json", "a.h5", "b.h5", "-o", "out", "-q", "--workers", "1"
        ).code
        == 0
    )
    assert len(list((tmp_path / "out").iterdir())) == 2
