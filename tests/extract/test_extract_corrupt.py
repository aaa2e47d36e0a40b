"""``extract --corrupt-labels`` and ``--draw``: what the experiments of the papers need, recorded."""

import json

import h5py
import numpy as np


def test_corrupted_labels_are_recorded_and_said_for_ever(run, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 20, 2000)
    z = rng.normal(size=(2000, 20)).astype("f4")
    np.savez(tmp_path / "s.npz", logits=z, labels=y)
    done = run("extract", "s.npz", "-o", "s.h5", "--corrupt-labels", "0.1", "--seed", "3")
    assert done.code == 0, done.err
    with h5py.File(tmp_path / "s.h5") as file:
        got, recorded = file["labels"][()], json.loads(file.attrs["corrupted_labels"])
    low = y < 2
    # papers: the generator's draws in file order, over all classes
    np.testing.assert_array_equal(got[low], np.random.default_rng(3).integers(0, 20, low.sum()))
    np.testing.assert_array_equal(got[~low], y[~low])
    changed = int((got != y).sum())
    assert recorded == {
        "share": 0.1, "classes": 2, "drawn": int(low.sum()), "changed": changed, "seed": 3,
    }  # fmt: skip
    for words in (("fit", "-m", "ts", "s.h5"), ("evaluate", "s.h5"), ("diagram", "s.h5", "--resamples", "100")):
        assert "labels corrupted on purpose" in run(*words).err, words
    assert run("apply", "s.ts.json", "s.h5", "-o", "c.h5").code == 0
    assert "labels corrupted on purpose" in run("evaluate", "c.h5").err
    assert json.loads(run("inspect", "s.h5", "--json").out)["bundles"][0]["corrupted_labels"] is not None
    # What is made of the bundle says so too.
    assert run("extract", "s.h5", "-o", "again.h5").code == 0
    assert "labels corrupted on purpose" in run("evaluate", "again.h5").err


def test_rows_drawn_with_replacement(run, tmp_path):
    n = 500
    z = np.arange(2 * n, dtype="f4").reshape(n, 2)
    np.savez(tmp_path / "s.npz", logits=z, labels=np.arange(n) % 2)
    done = run("extract", "s.npz", "-o", "s.h5", "--draw", "700", "--seed", "5")
    index = np.sort(np.random.default_rng(5).integers(0, n, 700))
    assert f"{len(np.unique(index))} distinct" in done.err
    with h5py.File(tmp_path / "s.h5") as file:
        np.testing.assert_array_equal(file["logits"][()], z[index])
        np.testing.assert_array_equal(file["labels"][()], index % 2)
    assert run("extract", "s.npz", "-o", "t.h5", "--draw", "5", "--split", "a=0.5", "--split", "b=0.5").code == 2
    assert run("extract", "s.npz", "-o", "t.h5", "--corrupt-labels", "nan").code == 2
