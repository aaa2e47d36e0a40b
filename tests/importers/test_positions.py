"""Scores of pixels and tokens: any place of the axis of classes, any format, ignored labels, samples of each unit."""

import json
import pickle
import shutil
import tempfile
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from imports import bring
from run_calcli import runner

from calcli.errors import DataError, UsageError
from calcli.importers import npy_members
from calcli.importers.building import positions
from calcli.importers.building.dealing import Splitting

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
            file.create_dataset(
                "logits", data=logits, chunks=(1, *logits.shape[1:]), compression="gzip"
            )
            file["labels"] = labels
    elif path.suffix == ".safetensors":
        pytest.importorskip("safetensors.numpy").save_file(
            {"logits": logits, "labels": labels}, path
        )
    elif path.suffix == ".pt":
        torch = pytest.importorskip("torch")
        torch.save(
            {"logits": torch.from_numpy(logits), "labels": torch.from_numpy(labels)},
            path,
        )
    else:
        np.save(path / "logits.npy", logits)
        np.save(path / "labels.npy", labels)


@pytest.mark.parametrize("name", ["a.npz", "a.h5", "a.safetensors", "a.pt", "folder"])
@pytest.mark.parametrize("scores", [FIRST, Z], ids=["N,K,H,W", "N,H,W,K"])
def test_pixels_are_rows_and_images_units(tmp_path, out, name, scores):
    if name == "folder":
        (tmp_path / name).mkdir()
    save(tmp_path / name, scores, Y)
    imported = bring(tmp_path / name, out, ignore=[255])
    assert np.array_equal(imported["logits"], Z.reshape(-1, K)[KEPT])
    assert np.array_equal(imported["labels"], Y.reshape(-1)[KEPT])
    assert np.array_equal(imported["unit"], UNIT)
    assert (
        f"7 x 24 positions became 168 rows, {KEPT.sum()} of them taken (ignored labels)"
        in imported["notes"]
    )


@pytest.mark.parametrize("room", [True, False])
def test_a_very_large_packed_array_is_unpacked_to_a_file_where_there_is_room(
    tmp_path, out, monkeypatch, room
):
    copy, copied, folder = shutil.copyfileobj, [], tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(npy_members, "UNPACKED_BYTES", 1)
    monkeypatch.setattr(
        shutil, "copyfileobj", lambda *given: (copied.append(given), copy(*given))
    )
    if not room:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    np.savez_compressed(tmp_path / "a.npz", logits=FIRST, labels=Y)
    imported = bring(tmp_path / "a.npz", out, ignore=[255])
    assert np.array_equal(imported["logits"], Z.reshape(-1, K)[KEPT])
    assert np.array_equal(imported["unit"], UNIT)
    assert bool(copied) == room and not list(folder.iterdir())
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(whole[:1500] + bytes(40) + whole[1540:])
    with pytest.raises(DataError, match=r"a\.npz"):
        bring(tmp_path / "a.npz", out, ignore=[255])
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("axis", "of_labels"), [(None, None), (1, None), (-1, None), (1, 1), (-1, -1)]
)
def test_a_binary_model_has_one_score_a_pixel(tmp_path, out, axis, of_labels):
    """Class 1 against class 0, as a U-Net with a sigmoid saves it; an axis of one at the scores, or at both."""
    z, truth = Z[..., 1] - Z[..., 0], np.where(Y == 255, 255, Y == 1)
    z_saved, saved = (
        values if new_axis is None else np.expand_dims(values, new_axis)
        for values, new_axis in ((z, axis), (truth, of_labels))
    )
    np.savez(tmp_path / "a.npz", logits=z_saved, labels=saved)
    imported = bring(tmp_path / "a.npz", out, ignore=[255])
    assert (
        np.array_equal(imported["logits"][:, 1], z.reshape(-1)[KEPT])
        and not imported["logits"][:, 0].any()
    )
    assert np.array_equal(imported["labels"], (Y.reshape(-1) == 1)[KEPT])
    assert np.array_equal(imported["unit"], UNIT)
    np.savez(
        tmp_path / "p.npz", probs=1 / (1 + np.exp(-z.astype(float))), labels=Y == 1
    )
    assert bring(tmp_path / "p.npz", out)["probs"].shape == (N * H * W, 2)


@pytest.mark.parametrize(
    "form", ["a dict of lists", "dicts in a list", "tuples in a list"]
)
def test_parts_of_different_lengths_are_units(tmp_path, out, form):
    """Sentences of a list, as loops save them; of batches only the last is shorter, and few parts may be folds."""

    def brought(lengths):
        ends = np.cumsum(lengths)
        parts = list(
            zip(
                np.split(Z.reshape(-1, K), ends)[:-1],
                np.split(Y.reshape(-1) % K, ends)[:-1],
                strict=True,
            )
        )
        content = {
            "a dict of lists": dict(
                zip(
                    ("logits", "labels"),
                    map(list, zip(*parts, strict=True)),
                    strict=True,
                )
            ),
            "dicts in a list": [{"logits": z, "labels": y} for z, y in parts],
            "tuples in a list": parts,
        }[form]
        (tmp_path / "a.pkl").write_bytes(pickle.dumps(content))
        return bring(tmp_path / "a.pkl", out, kind="logits")

    lengths = [1 + i % 5 for i in range(40)]
    imported = brought(lengths)
    assert np.array_equal(imported["unit"], np.repeat(np.arange(40), lengths))
    assert np.array_equal(imported["logits"], Z.reshape(-1, K)[: sum(lengths)])
    assert (
        "40 x 1 to 5 positions became 120 rows; what lies together is a unit"
        in imported["notes"]
    )
    for others in ([4] * 40 + [2], [50, 60, 58], [3, 4] * 20):
        assert "unit" not in brought(others)


LENGTHS = [3, 1, 5, 2, 4, 1]
ENDS = np.cumsum(LENGTHS)
SCORES = np.split(Z.reshape(-1, K)[: ENDS[-1]], ENDS[:-1])
TRUTHS = np.split((Y.reshape(-1) % K)[: ENDS[-1]].astype(int), ENDS[:-1])


def listed(parts):
    """An array of objects."""
    made = np.empty(len(parts), dtype=object)
    made[:] = parts
    return made


def save_sentences(path, scores, truths):
    """Arrays of different lengths, as each format holds them."""
    lines = [
        {"logits": z.tolist(), "labels": y.tolist()}
        for z, y in zip(scores, truths, strict=True)
    ]
    if path.suffix == ".npz":
        np.savez(path, logits=listed(scores), labels=listed(truths))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif path.suffix == ".parquet":
        pytest.importorskip("pyarrow.parquet").write_table(
            pytest.importorskip("pyarrow").Table.from_pylist(lines), path
        )
    elif path.suffix == ".npy":
        np.save(path, listed(scores))
        np.save(path.with_name("labels.npy"), listed(truths))


@pytest.mark.parametrize("name", ["a.npz", "logits.npy", "a.jsonl", "a.parquet"])
def test_sentences_of_any_length_are_units_in_every_format(tmp_path, out, name):
    save_sentences(tmp_path / name, SCORES, TRUTHS)
    sources = [tmp_path / name] + (
        [tmp_path / "labels.npy"] if name == "logits.npy" else []
    )
    imported = bring(sources, out)
    assert np.array_equal(imported["unit"], np.repeat(np.arange(6), LENGTHS))
    assert imported["logits"] == pytest.approx(
        np.concatenate(SCORES)
    ) and np.array_equal(imported["labels"], np.concatenate(TRUTHS))
    assert np.bincount(bring(sources, out, sample=2)["unit"]).tolist() == [
        2,
        1,
        2,
        2,
        2,
        1,
    ]
    assert "unit" not in bring(sources, out, unit="none")


@pytest.mark.parametrize("form", ["flat labels", "padded labels", "padded scores"])
def test_lists_go_with_what_is_flat_or_padded(tmp_path, out, form):
    padded = np.full((6, 5), -100)
    wide = np.zeros((6, 5, K), np.float32)
    for unit, (z, y) in enumerate(zip(SCORES, TRUTHS, strict=True)):
        padded[unit, : len(y)], wide[unit, : len(z)] = y, z
    z, y = {
        "flat labels": (listed(SCORES), np.concatenate(TRUTHS)),
        "padded labels": (listed(SCORES), padded),
        "padded scores": (wide, listed(TRUTHS)),
    }[form]
    np.savez(tmp_path / "a.npz", logits=z, labels=y)
    imported = bring(tmp_path / "a.npz", out)
    assert np.array_equal(imported["unit"], np.repeat(np.arange(6), LENGTHS))
    assert np.array_equal(imported["logits"], np.concatenate(SCORES))
    assert np.array_equal(imported["labels"], np.concatenate(TRUTHS))


@pytest.mark.parametrize("ragged", [False, True])
def test_a_label_that_is_no_number_is_none(tmp_path, out, ragged):
    truth = np.where(Y == 255, np.nan, Y)
    z, y = Z, truth
    if ragged:
        z, y = listed([*Z[:6], Z[6][:2]]), listed([*truth[:6], truth[6][:2]])
    np.savez(tmp_path / "a.npz", logits=z, labels=y)
    imported = bring(tmp_path / "a.npz", out)
    kept = KEPT.copy()
    kept[6 * H * W + 2 * W :] &= not ragged
    assert np.array_equal(imported["logits"], Z.reshape(-1, K)[kept])
    assert np.array_equal(imported["labels"], Y.reshape(-1)[kept])
    lines = [
        {"logits": z.tolist(), "labels": [None, *y.tolist()[1:]]}
        for z, y in zip(SCORES, TRUTHS, strict=True)
    ]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    assert np.array_equal(
        bring(tmp_path / "a.jsonl", out)["labels"],
        np.concatenate([truth[1:] for truth in TRUTHS]),
    )


def test_words_ids_and_columns_of_sentences_and_tokens(tmp_path, out):
    names = np.array(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    lines = [
        {
            "id": f"s{unit}",
            "logits": z.tolist(),
            "labels": names[y].tolist(),
            "weight": [0.5 + unit] * len(y),
        }
        for unit, (z, y) in enumerate(zip(SCORES, TRUTHS, strict=True))
    ]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    imported = bring(tmp_path / "a.jsonl", out, class_names=tuple(names))
    assert np.array_equal(imported["labels"], np.concatenate(TRUTHS))
    assert imported["unit"].tolist() == [
        b"s%d" % unit for unit in np.repeat(np.arange(6), LENGTHS)
    ]
    assert np.array_equal(imported["weights"], 0.5 + np.repeat(np.arange(6), LENGTHS))


def test_one_score_a_token_and_one_row_a_sentence(tmp_path, out):
    chances = [1 / (1 + np.exp(-z[:, 0].astype(float))) for z in SCORES]
    lines = [
        {"probs": p.tolist(), "labels": (y > 2).astype(int).tolist()}
        for p, y in zip(chances, TRUTHS, strict=True)
    ]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    imported = bring(tmp_path / "a.jsonl", out)
    assert imported["probs"][:, 1] == pytest.approx(np.concatenate(chances))
    assert np.array_equal(imported["unit"], np.repeat(np.arange(6), LENGTHS))
    np.savez(tmp_path / "a.npz", logits=listed(SCORES), labels=np.arange(6) % K)
    means = [z.mean(axis=0) for z in SCORES]
    assert bring(tmp_path / "a.npz", out, reduce="mean")["logits"] == pytest.approx(
        np.array(means), abs=1e-6
    )


def test_batches_in_an_array_of_objects_are_no_units_and_what_does_not_fit_is_said(
    tmp_path, out
):
    z, y = (
        np.split(Z.reshape(-1, K), [50, 100, 150]),
        np.split(Y.reshape(-1) % K, [50, 100, 150]),
    )
    np.savez(tmp_path / "a.npz", logits=listed(z), labels=listed(y))
    assert "unit" not in bring(tmp_path / "a.npz", out)
    np.savez(
        tmp_path / "a.npz",
        logits=listed(SCORES),
        labels=listed([*TRUTHS[:3], TRUTHS[3][:1], *TRUTHS[4:]]),
    )
    with pytest.raises(
        DataError,
        match=r"part 3 has shape \(2, 5\) and 1 labels, expected 5 classes and a label for",
    ):
        bring(tmp_path / "a.npz", out)
    np.savez(
        tmp_path / "a.npz",
        logits=listed([*SCORES[:5], SCORES[5][:, :3]]),
        labels=listed(TRUTHS),
    )
    with pytest.raises(
        DataError, match=r"part 5 has shape \(1, 3\) and 1 labels, expected 5 classes"
    ):
        bring(tmp_path / "a.npz", out)


def test_images_of_any_size(tmp_path, out):
    sizes = [(2, 3), (4, 2), (3, 3)]
    z = [RNG.normal(size=(K, *size)).astype(np.float32) for size in sizes]
    y = [RNG.integers(0, K, size) for size in sizes]
    flat = np.concatenate([np.moveaxis(one, 0, -1).reshape(-1, K) for one in z])
    for content in (
        {"logits": z, "labels": y},
        [{"logits": a, "labels": b} for a, b in zip(z, y, strict=True)],
    ):
        (tmp_path / "a.pkl").write_bytes(pickle.dumps(content))
        imported = bring(tmp_path / "a.pkl", out)
        assert (
            np.array_equal(imported["logits"], flat)
            and imported["unit"].tolist() == [0] * 6 + [1] * 8 + [2] * 9
        )
        assert np.array_equal(
            imported["labels"], np.concatenate([one.reshape(-1) for one in y])
        )


def test_labels_of_pixels_may_have_an_axis_of_one(tmp_path, out):
    for scores, labels in ((FIRST, Y[:, None]), (Z, Y[..., None])):
        np.savez(tmp_path / "a.npz", logits=scores, labels=labels)
        imported = bring(tmp_path / "a.npz", out, ignore=[255])
        assert np.array_equal(imported["logits"], Z.reshape(-1, K)[KEPT])
        assert np.array_equal(imported["labels"], Y.reshape(-1)[KEPT])


def test_tokens_go_with_what_their_sequence_has(tmp_path, out):
    truth = np.where(np.arange(6) < np.array([[6], [2], [4]]), 1, -100)
    about = {
        "group": np.array(["de", "en", "de"]),
        "weights": np.array([1.0, 2.0, 3.0]),
    }
    np.savez(
        tmp_path / "a.npz",
        logits=Z[:3, :, 0],
        labels=truth,
        ids=np.array(["x", "y", "z"]),
        **about,
    )
    imported = bring(tmp_path / "a.npz", out, ignore=[-100])
    assert (
        imported["unit"].tolist() == [b"x"] * 6 + [b"y"] * 2 + [b"z"] * 4
        and "ids" not in imported
    )
    assert imported["group"].tolist() == [b"de"] * 6 + [b"en"] * 2 + [b"de"] * 4
    assert imported["weights"].tolist() == [1.0] * 6 + [2.0] * 2 + [3.0] * 4
    assert "unit" not in bring(tmp_path / "a.npz", out, ignore=[-100], unit="none")


def test_a_sample_of_each_unit_is_drawn_by_the_seed_and_recorded(tmp_path, out):
    np.savez(tmp_path / "a.npz", logits=FIRST, labels=Y)
    imported = bring(
        tmp_path / "a.npz", out, Splitting(seed=3), ignore=[255], sample=5, seed=3
    )
    assert (
        np.bincount(imported["unit"]).tolist() == [5, 5, 0, 5, 5, 5, 5]
        and (imported["labels"] != 255).all()
    )
    places = [
        np.flatnonzero((Z.reshape(-1, K) == row).all(axis=1))
        for row in imported["logits"]
    ]
    assert np.array_equal([Y.reshape(-1)[p[0]] for p in places], imported["labels"])
    assert np.array_equal([p[0] // (H * W) for p in places], imported["unit"])
    with h5py.File(out) as file:
        assert json.loads(file.attrs["source"])["sampled"] == {
            "of_each_unit": 5,
            "seed": 3,
        }
    again = bring(
        tmp_path / "a.npz", out, Splitting(seed=3), ignore=[255], sample=5, seed=3
    )
    other = bring(
        tmp_path / "a.npz", out, Splitting(seed=4), ignore=[255], sample=5, seed=4
    )
    assert np.array_equal(imported["logits"], again["logits"]) and not np.array_equal(
        imported["logits"], other["logits"]
    )


def test_a_sample_of_rows_of_a_unit(tmp_path, out):
    np.savez(
        tmp_path / "a.npz",
        logits=Z.reshape(-1, K),
        labels=Y.reshape(-1) % K,
        who=np.arange(168) % 50,
    )
    imported = bring(tmp_path / "a.npz", out, unit="who", sample=2)
    assert (
        np.bincount(imported["unit"]).tolist() == [2] * 50
        and "100 of 168 rows" in imported["notes"]
    )
    with pytest.raises(
        UsageError, match="no units to draw rows of; name their column with --unit"
    ):
        bring(tmp_path / "a.npz", out, sample=2)


def test_what_is_open_or_does_not_fit_is_said(tmp_path, out):
    square = RNG.normal(size=(3, 4, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "a.npz", logits=square, labels=np.zeros((3, 4, 4), int))
    with pytest.raises(
        UsageError, match="which axis are the classes. --class-axis 1 or 2 or 3"
    ):
        bring(tmp_path / "a.npz", out)
    last = bring(tmp_path / "a.npz", out, class_axis=-1)
    assert np.array_equal(last["logits"], square.reshape(-1, 4))
    first = bring(tmp_path / "a.npz", out, class_axis=1)
    assert np.array_equal(first["logits"], np.moveaxis(square, 1, -1).reshape(-1, 4))
    np.savez(tmp_path / "b.npz", logits=FIRST)
    with pytest.raises(
        DataError, match="name them with --labels, or say --class-axis 1"
    ):
        bring(tmp_path / "b.npz", out, no_labels=True)
    assert bring(tmp_path / "b.npz", out, no_labels=True, class_axis=1)[
        "logits"
    ].shape == (168, K)
    np.savez(tmp_path / "c.npz", logits=FIRST, labels=Y[:, :2])
    with pytest.raises(DataError, match="expected a label per position"):
        bring(tmp_path / "c.npz", out)
    with pytest.raises(
        DataError, match="has label 255, expected 0..4; pass --ignore-label 255"
    ):
        np.savez(tmp_path / "d.npz", logits=FIRST, labels=Y)
        bring(tmp_path / "d.npz", out)
    with pytest.raises(DataError, match="every position has an ignored label"):
        np.savez(tmp_path / "e.npz", logits=FIRST, labels=np.full_like(Y, 255))
        bring(tmp_path / "e.npz", out, ignore=[255])


def save_folder(folder, layout, z, y):
    """A file or more for each unit."""
    for unit, (scores, truth) in enumerate(zip(z, y, strict=True)):
        pairs = {
            "unit.npz": None,
            "logits/unit.npy": ("logits/{}.npy", "labels/{}.npy"),
            "unit/logits.npy": ("{}/logits.npy", "{}/labels.npy"),
            "unit_logits.npy": ("{}_logits.npy", "{}_labels.npy"),
        }[layout]
        for name, array in zip(pairs or ("{}.npz",), (scores, truth), strict=False):
            path = folder / name.format(f"image{unit}")
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, logits=scores, labels=truth) if pairs is None else np.save(
                path, array
            )


@pytest.mark.parametrize("kind", ["images", "images of one size", "sentences"])
@pytest.mark.parametrize(
    "layout", ["unit.npz", "logits/unit.npy", "unit/logits.npy", "unit_logits.npy"]
)
def test_a_folder_with_files_of_every_unit(tmp_path, out, layout, kind):
    sizes = {
        "images": [(2 + i % 3, 3 + i % 2) for i in range(12)],
        "images of one size": [(3, 4)] * 12,
        "sentences": [(1 + i % 6,) for i in range(12)],
    }[kind]
    rng = np.random.default_rng(1)
    z = [rng.normal(size=(*size, K)).astype(np.float32) for size in sizes]
    y = [rng.integers(0, K, size) for size in sizes]
    saved = z if kind == "sentences" else [np.moveaxis(one, -1, 0) for one in z]
    save_folder(tmp_path / "all", layout, saved, y)
    imported = bring(tmp_path / "all", out)
    assert np.array_equal(
        imported["logits"], np.concatenate([one.reshape(-1, K) for one in z])
    )
    assert np.array_equal(
        imported["labels"], np.concatenate([one.reshape(-1) for one in y])
    )
    assert np.array_equal(
        imported["unit"], np.repeat(np.arange(12), [np.prod(size) for size in sizes])
    )
    assert "12 files, each a unit (or --unit none)" in imported["notes"]
    assert "unit" not in bring(tmp_path / "all", out, unit="none")
    save_folder(tmp_path / "few", layout, saved[:5], y[:5])
    few = bring(tmp_path / "few", out, unit="file")
    assert (
        np.array_equal(few["unit"], imported["unit"][: len(few["unit"])])
        and few["unit"][-1] == 4
    )


def test_a_folder_of_models_folds_shards_or_data_sets_is_none_of_units(tmp_path, out):
    rng = np.random.default_rng(1)
    y = rng.integers(0, K, 30)
    tests = (
        ("a", lambda i: y),
        ("fold", lambda i: rng.integers(0, K, 30 + i)),
        ("t", lambda i: y[:9].repeat(30 + i)),
    )
    # the last: data sets of a model, too long beside their number for sentences
    for (
        name,
        truth,
    ) in tests:
        for i in range(9):
            (tmp_path / name).mkdir(exist_ok=True)
            labels = truth(i)
            np.savez(
                tmp_path / name / f"{name}{i}.npz",
                logits=rng.normal(size=(len(labels), K)),
                labels=labels,
            )
        assert f"{name}8/logits" in bring(tmp_path / name, out)
    with pytest.raises(UsageError, match="has no files of the same arrays"):
        (tmp_path / "b").mkdir()
        np.save(tmp_path / "b" / "logits.npy", rng.normal(size=(30, K)))
        np.save(tmp_path / "b" / "labels.npy", y)
        bring(tmp_path / "b", out, unit="file")


def test_a_folder_of_a_file_for_every_row(tmp_path, out):
    for i in range(9):
        np.savez(tmp_path / f"{i}.npz", logits=Z[0].reshape(-1, K)[i], labels=i % K)
    imported = bring(tmp_path, out, unit="none")
    assert np.array_equal(imported["logits"], Z[0].reshape(-1, K)[:9]) and imported[
        "labels"
    ].tolist() == [
        *range(5),
        *range(4),
    ]


@pytest.mark.parametrize("name", ["a.npz", "a.jsonl", "a.parquet", "all"])
def test_from_a_file_of_sentences_to_a_verdict_by_unit(
    tmp_path, monkeypatch, capsys, name
):
    """Calibrated tokens of sentences that are right or wrong together: by rows they are found miscalibrated."""
    monkeypatch.chdir(tmp_path)
    rng, run = np.random.default_rng(5), runner(monkeypatch, capsys)
    z = [rng.normal(size=(20 + 4 * (i % 7), K)) * 3 for i in range(40)]
    luck = np.sqrt(0.9) * rng.normal(size=40)
    y = []
    for logits_of_sentence, shared in zip(z, luck, strict=True):
        p = np.exp(logits_of_sentence - logits_of_sentence.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        v = NormalDist().cdf
        right = np.array(
            [v(shared + np.sqrt(0.1) * x) for x in rng.normal(size=len(p))]
        ) < p.max(axis=1)
        y.append(np.where(right, p.argmax(axis=1), p.argsort(axis=1)[:, -2]))
    if name == "all":
        save_folder(tmp_path / name, "unit.npz", z, y)
    else:
        save_sentences(tmp_path / name, z, y)
    result = json.loads(run("evaluate", name, "--json").out)["results"][0]
    assert (result["units"]["n"], result["n"], result["units"]["largest"]) == (
        40,
        sum(map(len, z)),
        44,
    )
    assert result["units"]["design_effect"] > 5 and result["report"][
        "verdict_kind"
    ] in (
        "calibrated",
        "too_few",
    )
    alone = json.loads(run("evaluate", name, "--unit", "none", "--json").out)[
        "results"
    ][0]
    assert alone["report"]["verdict_kind"] not in ("calibrated", "too_few")
    run("fit", "-m", "ts", name, "-o", "a.json")
    run("threshold", name, "-c", "a.json", "--accuracy", "0.5")


@pytest.mark.parametrize("ending", ["npz", "jsonl"])
@pytest.mark.parametrize("words", [False, True])
def test_missing_positions_of_sequences_leave_and_the_others_stay_together(
    run, ending, words
):
    """Sequences of several lengths became rows without units: 207 independent ones of 60 sentences."""
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(length, 3)) for length in [2, 4, 3, 5, 1] * 12]
    labels = [rng.integers(0, 3, size=len(of_sentence)) for of_sentence in scores]
    kept = [of_sentence.copy() for of_sentence in scores]
    kept[1], kept[4] = np.delete(kept[1], 2, axis=0), kept[4][:0]
    # a position of sentence 1, the only one of sentence 4
    scores[1][2, 1] = scores[4][0, 0] = np.nan
    label_words = [
        [f"c{y}" for y in of_sentence] if words else of_sentence.tolist()
        for of_sentence in labels
    ]
    if ending == "npz":
        arrays = {
            "logits": np.empty(60, dtype=object),
            "labels": np.empty(60, dtype=object),
        }
        arrays["logits"][:], arrays["labels"][:] = scores, label_words
        np.savez("a.npz", **arrays, ids=np.arange(60) + 100)
    else:
        rows = zip(scores, label_words, range(100, 160), strict=True)
        lines = (
            json.dumps({"logits": s.tolist(), "labels": y, "ids": i})
            for s, y, i in rows
        )
        Path("a.jsonl").write_text("\n".join(lines))
    done = run(
        "extract",
        f"a.{ending}",
        "--drop-missing",
        "-o",
        "a.h5",
        *(("--class-names", "c0,c1,c2") * words),
    )
    assert done.code == 0, done.err
    assert "2 of 180 positions left out" in done.err
    with h5py.File("a.h5") as file:
        np.testing.assert_array_equal(file["logits"][()], np.concatenate(kept))
        units = np.repeat(
            np.arange(100, 160), [len(of_sentence) for of_sentence in kept]
        )
        np.testing.assert_array_equal(file["unit"][()], units)
        expected = np.concatenate(
            [
                np.delete(labels[1], 2) if i == 1 else y[: len(kept[i])]
                for i, y in enumerate(labels)
            ]
        )
        np.testing.assert_array_equal(file["labels"][()], expected)


def test_sequences_without_scores_or_labels_leave_whole_and_pixels_are_refused(run):
    """A line whose scores or labels are null was said to hold what is no number, or other labels than rows."""
    rng = np.random.default_rng(0)
    rows = [
        {"logits": rng.normal(size=(n, 2)).tolist(), "labels": [0, 1] * n}
        for n in [2, 4, 3, 5] * 10
    ]
    for row in rows:
        row["labels"] = row["labels"][: len(row["logits"])]
    rows[1]["logits"] = rows[3]["labels"] = None
    Path("a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = run("extract", "a.jsonl", "--drop-missing", "-o", "a.h5")
    assert done.code == 0, done.err
    with h5py.File("a.h5") as file:
        assert len(file["logits"]) == 140 - 4 - 5 and len(set(file["unit"][()])) == 38
    images, masks = np.empty(30, dtype=object), np.empty(30, dtype=object)
    for i in range(30):
        images[i], masks[i] = (
            rng.normal(size=(2 + i % 3, 4, 3)),
            rng.integers(0, 3, size=(2 + i % 3, 4)),
        )
    np.savez("i.npz", logits=images, labels=masks)
    done = run("extract", "i.npz", "--drop-missing", "-o", "i.h5")
    assert done.code == 3 and "no pixels" in done.line and "--ignore-label" in done.line
