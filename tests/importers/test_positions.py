"""Scores of pixels and tokens: any place of the axis of classes, any format, ignored labels, samples of each unit."""

import json
import pickle
import shutil
import tempfile
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from imports import bring

from calcli.errors import DataError, UsageError
from calcli.importers import positions
from calcli.importers.import_report import Splitting
from calcli.importers.readers import numpy_files

N, K, H, W = 7, 5, 6, 4
RNG = np.random.default_rng(0)
Z = RNG.normal(0, 2, (N, H, W, K)).astype(np.float32)
Y = (Z + RNG.gumbel(0, 1, Z.shape)).argmax(axis=-1).astype(np.uint8)
Y[:, 0], Y[2] = 255, 255  # a border of every image and all of one are no class
KEPT = Y.reshape(-1) != 255
UNIT = np.repeat(np.arange(N), H * W)[KEPT]
FIRST = np.ascontiguousarray(np.moveaxis(Z, -1, 1))


@pytest.fixture(autouse=True, params=[1, 16 << 20], ids=["image by image", "at once"])
def pieces(request, monkeypatch):
    monkeypatch.setattr(positions, "PIECE_BYTES", request.param)


def save(path, logits, labels):
    if path.suffix == ".npz":
        np.savez(path, logits=logits, labels=labels)
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("logits", data=logits, chunks=(1, *logits.shape[1:]), compression="gzip")
            file["labels"] = labels
    elif path.suffix == ".safetensors":
        pytest.importorskip("safetensors.numpy").save_file({"logits": logits, "labels": labels}, path)
    elif path.suffix == ".pt":
        torch = pytest.importorskip("torch")
        torch.save({"logits": torch.from_numpy(logits), "labels": torch.from_numpy(labels)}, path)
    else:
        np.save(path / "logits.npy", logits)
        np.save(path / "labels.npy", labels)


@pytest.mark.parametrize("name", ["a.npz", "a.h5", "a.safetensors", "a.pt", "folder"])
@pytest.mark.parametrize("scores", [FIRST, Z], ids=["N,K,H,W", "N,H,W,K"])
def test_pixels_are_rows_and_images_units(tmp_path, out, name, scores):
    if name == "folder":
        (tmp_path / name).mkdir()
    save(tmp_path / name, scores, Y)
    found = bring(tmp_path / name, out, ignore=[255])
    assert np.array_equal(found["logits"], Z.reshape(-1, K)[KEPT])
    assert np.array_equal(found["labels"], Y.reshape(-1)[KEPT])
    assert np.array_equal(found["unit"], UNIT)
    assert f"7 x 24 positions became 168 rows, {KEPT.sum()} of them taken (ignored labels)" in found["notes"]


@pytest.mark.parametrize("room", [True, False])
def test_a_very_large_packed_array_is_unpacked_to_a_file_where_there_is_room(tmp_path, out, monkeypatch, room):
    copy, copied, folder = shutil.copyfileobj, [], tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(numpy_files, "UNPACKED", 1)
    monkeypatch.setattr(shutil, "copyfileobj", lambda *given: (copied.append(given), copy(*given)))
    if not room:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    np.savez_compressed(tmp_path / "a.npz", logits=FIRST, labels=Y)
    found = bring(tmp_path / "a.npz", out, ignore=[255])
    assert np.array_equal(found["logits"], Z.reshape(-1, K)[KEPT])
    assert np.array_equal(found["unit"], UNIT)
    assert bool(copied) == room and not list(folder.iterdir())
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(whole[:1500] + bytes(40) + whole[1540:])
    with pytest.raises(DataError, match=r"a\.npz"):
        bring(tmp_path / "a.npz", out, ignore=[255])
    assert not list(folder.iterdir())


@pytest.mark.parametrize(("axis", "of_labels"), [(None, None), (1, None), (-1, None), (1, 1), (-1, -1)])
def test_a_binary_model_has_one_score_a_pixel(tmp_path, out, axis, of_labels):
    """Class 1 against class 0, as a U-Net with a sigmoid saves it; an axis of one at the scores, or at both."""
    z, truth = Z[..., 1] - Z[..., 0], np.where(Y == 255, 255, Y == 1)
    z_saved, saved = (
        values if at is None else np.expand_dims(values, at) for values, at in ((z, axis), (truth, of_labels))
    )
    np.savez(tmp_path / "a.npz", logits=z_saved, labels=saved)
    found = bring(tmp_path / "a.npz", out, ignore=[255])
    assert np.array_equal(found["logits"][:, 1], z.reshape(-1)[KEPT]) and not found["logits"][:, 0].any()
    assert np.array_equal(found["labels"], (Y.reshape(-1) == 1)[KEPT])
    assert np.array_equal(found["unit"], UNIT)
    np.savez(tmp_path / "p.npz", probs=1 / (1 + np.exp(-z.astype(float))), labels=Y == 1)
    assert bring(tmp_path / "p.npz", out)["probs"].shape == (N * H * W, 2)


@pytest.mark.parametrize("form", ["a dict of lists", "dicts in a list", "tuples in a list"])
def test_parts_of_different_lengths_are_units(tmp_path, out, form):
    """Sentences of a list, as loops save them; of batches only the last is shorter, and few parts may be folds."""

    def brought(lengths):
        ends = np.cumsum(lengths)
        parts = list(zip(np.split(Z.reshape(-1, K), ends)[:-1], np.split(Y.reshape(-1) % K, ends)[:-1], strict=True))
        content = {
            "a dict of lists": dict(zip(("logits", "labels"), map(list, zip(*parts, strict=True)), strict=True)),
            "dicts in a list": [{"logits": z, "labels": y} for z, y in parts],
            "tuples in a list": parts,
        }[form]
        (tmp_path / "a.pkl").write_bytes(pickle.dumps(content))
        return bring(tmp_path / "a.pkl", out, kind="logits")

    lengths = [1 + i % 5 for i in range(40)]
    found = brought(lengths)
    assert np.array_equal(found["unit"], np.repeat(np.arange(40), lengths))
    assert np.array_equal(found["logits"], Z.reshape(-1, K)[: sum(lengths)])
    assert "each of the 40 parts, of 1 to 5 rows, is a unit" in found["notes"]
    for others in ([4] * 40 + [2], [50, 60, 58], [3, 4] * 20):
        assert "unit" not in brought(others)


def test_labels_of_pixels_may_have_an_axis_of_one(tmp_path, out):
    for scores, labels in ((FIRST, Y[:, None]), (Z, Y[..., None])):
        np.savez(tmp_path / "a.npz", logits=scores, labels=labels)
        found = bring(tmp_path / "a.npz", out, ignore=[255])
        assert np.array_equal(found["logits"], Z.reshape(-1, K)[KEPT])
        assert np.array_equal(found["labels"], Y.reshape(-1)[KEPT])


def test_tokens_go_with_what_their_sequence_has(tmp_path, out):
    truth = np.where(np.arange(6) < np.array([[6], [2], [4]]), 1, -100)
    about = {"group": np.array(["de", "en", "de"]), "weights": np.array([1.0, 2.0, 3.0])}
    np.savez(tmp_path / "a.npz", logits=Z[:3, :, 0], labels=truth, ids=np.array(["x", "y", "z"]), **about)
    found = bring(tmp_path / "a.npz", out, ignore=[-100])
    assert found["unit"].tolist() == [b"x"] * 6 + [b"y"] * 2 + [b"z"] * 4 and "ids" not in found
    assert found["group"].tolist() == [b"de"] * 6 + [b"en"] * 2 + [b"de"] * 4
    assert found["weights"].tolist() == [1.0] * 6 + [2.0] * 2 + [3.0] * 4
    assert "unit" not in bring(tmp_path / "a.npz", out, ignore=[-100], unit="none")


def test_a_sample_of_each_unit_is_drawn_by_the_seed_and_recorded(tmp_path, out):
    np.savez(tmp_path / "a.npz", logits=FIRST, labels=Y)
    found = bring(tmp_path / "a.npz", out, Splitting(seed=3), ignore=[255], sample=5, seed=3)
    assert np.bincount(found["unit"]).tolist() == [5, 5, 0, 5, 5, 5, 5] and (found["labels"] != 255).all()
    places = [np.flatnonzero((Z.reshape(-1, K) == row).all(axis=1)) for row in found["logits"]]
    assert np.array_equal([Y.reshape(-1)[p[0]] for p in places], found["labels"])
    assert np.array_equal([p[0] // (H * W) for p in places], found["unit"])
    with h5py.File(out) as file:
        assert json.loads(file.attrs["source"])["sampled"] == {"of_each_unit": 5, "seed": 3}
    again = bring(tmp_path / "a.npz", out, Splitting(seed=3), ignore=[255], sample=5, seed=3)
    other = bring(tmp_path / "a.npz", out, Splitting(seed=4), ignore=[255], sample=5, seed=4)
    assert np.array_equal(found["logits"], again["logits"]) and not np.array_equal(found["logits"], other["logits"])


def test_a_sample_of_rows_of_a_unit(tmp_path, out):
    np.savez(tmp_path / "a.npz", logits=Z.reshape(-1, K), labels=Y.reshape(-1) % K, who=np.arange(168) % 50)
    found = bring(tmp_path / "a.npz", out, unit="who", sample=2)
    assert np.bincount(found["unit"]).tolist() == [2] * 50 and "100 of 168 rows" in found["notes"]
    with pytest.raises(UsageError, match="no units to draw rows of; name their column with --unit"):
        bring(tmp_path / "a.npz", out, sample=2)


def test_what_is_open_or_does_not_fit_is_said(tmp_path, out):
    square = RNG.normal(size=(3, 4, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "a.npz", logits=square, labels=np.zeros((3, 4, 4), int))
    with pytest.raises(UsageError, match="which axis are the classes. --class-axis 1 or 2 or 3"):
        bring(tmp_path / "a.npz", out)
    last = bring(tmp_path / "a.npz", out, class_axis=-1)
    assert np.array_equal(last["logits"], square.reshape(-1, 4))
    first = bring(tmp_path / "a.npz", out, class_axis=1)
    assert np.array_equal(first["logits"], np.moveaxis(square, 1, -1).reshape(-1, 4))
    np.savez(tmp_path / "b.npz", logits=FIRST)
    with pytest.raises(DataError, match="name them with --labels, or say --class-axis 1"):
        bring(tmp_path / "b.npz", out, no_labels=True)
    assert bring(tmp_path / "b.npz", out, no_labels=True, class_axis=1)["logits"].shape == (168, K)
    np.savez(tmp_path / "c.npz", logits=FIRST, labels=Y[:, :2])
    with pytest.raises(DataError, match="expected a label per position"):
        bring(tmp_path / "c.npz", out)
    with pytest.raises(DataError, match="has label 255, expected 0..4; pass --ignore-label 255"):
        np.savez(tmp_path / "d.npz", logits=FIRST, labels=Y)
        bring(tmp_path / "d.npz", out)
    with pytest.raises(DataError, match="every position has an ignored label"):
        np.savez(tmp_path / "e.npz", logits=FIRST, labels=np.full_like(Y, 255))
        bring(tmp_path / "e.npz", out, ignore=[255])
