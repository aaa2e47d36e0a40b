"""Importing saved scores: every format gives the same bundle, and arrays are found by name."""

import json

import h5py
import numpy as np
import pytest
from imports import plan

from calcli.errors import DataError, UsageError
from calcli.importers.building.dealing import Splitting
from calcli.importers.import_request import ImportRequest
from calcli.importers.import_scores import import_scores
from calcli.importers.names.array_names import parse_name
from calcli.io.bundle import open_bundle
from calcli.io.split import parse_split

N, K = 60, 4


@pytest.fixture(scope="module")
def scores():
    return np.random.default_rng(0).normal(0, 3, (N, K)).astype(np.float32)


@pytest.fixture(scope="module")
def labels():
    return np.random.default_rng(1).integers(0, K, N)


def softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def bring(
    sources, out, *, split=(), seed=0, stratify=True, ordered=False, ignore=(), **ask
):
    """Import and give back {group: h5 contents}."""
    sources = [sources] if not isinstance(sources, list) else sources
    asked = ImportRequest(
        **{
            key: tuple(value) if isinstance(value, list) else value
            for key, value in ask.items()
        }
    )
    splitting = Splitting(
        tuple(map(parse_split, split)), seed, stratify, ordered, tuple(split)
    )
    report = import_scores(
        sources, out, asked, splitting, ignore_labels=ignore, force=True
    )
    content = {}
    with h5py.File(out) as file:
        for bundle in report.bundles:
            node = file[bundle.name] if bundle.name else file
            found = {"source": json.loads(node.attrs["source"])}
            node.visititems(
                lambda name, item, f=found: (
                    f.update({name: item[()]}) if hasattr(item, "shape") else None
                )
            )
            content[bundle.name] = found
    for bundle in report.bundles:  # what is written must be readable
        where = f"{out}:{bundle.name}" if bundle.name else str(out)
        with open_bundle(where, need_labels=bundle.labelled) as rows:
            assert (rows.n, rows.k, rows.kind) == (bundle.n, bundle.k, bundle.kind)
            list(rows.blocks(range(len(rows.transforms))))
    content["notes"] = report.notes
    return content


# ---- one bundle in every format


def save_npz(path, z, y):
    np.savez(path, logits=z, labels=y)


def save_npz_compressed(path, z, y):
    np.savez_compressed(path, logits=z, labels=y)


def save_pt(path, z, y):
    torch = pytest.importorskip("torch")
    torch.save({"logits": torch.tensor(z), "labels": torch.tensor(y)}, path)


def save_pt_legacy(path, z, y):
    torch = pytest.importorskip("torch")
    content = {"logits": torch.tensor(z, requires_grad=True), "labels": torch.tensor(y)}
    torch.save(content, path, _use_new_zipfile_serialization=False)


def save_safetensors(path, z, y):
    numpy = pytest.importorskip("safetensors.numpy")
    numpy.save_file({"logits": z, "labels": y}, path, metadata={"model": "small"})


def save_csv(path, z, y):
    pytest.importorskip("pyarrow")
    lines = ["label," + ",".join(f"logits_{c}" for c in "abcd")]
    lines += [
        f"{label}," + ",".join(repr(float(v)) for v in row)
        for label, row in zip(y, z, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


def save_parquet(path, z, y):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(
        pyarrow.table({"y": y, **{f"logits_{i}": z[:, i] for i in range(K)}}), path
    )


def save_parquet_lists(path, z, y):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"logits": list(z), "labels": y})
    parquet.write_table(table, path, row_group_size=25)


def save_hdf5(path, z, y):
    with h5py.File(path, "w") as file:
        file.create_dataset("logits", data=z.astype(">f4"))
        file["labels"] = y.astype(np.uint8)


def save_pickle(path, z, y):
    import pickle

    path.write_bytes(pickle.dumps((z, y.reshape(-1, 1)), protocol=2))


FORMATS = {
    "npz": (save_npz, ".npz"),
    "npz deflated": (save_npz_compressed, ".npz"),
    "pt": (save_pt, ".pt"),
    "pt legacy": (save_pt_legacy, ".pth"),
    "safetensors": (save_safetensors, ".safetensors"),
    "csv": (save_csv, ".csv"),
    "parquet": (save_parquet, ".parquet"),
    "parquet lists": (save_parquet_lists, ".parquet"),
    "hdf5": (save_hdf5, ".h5"),
    "pickle": (save_pickle, ".p"),
}


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_gives_the_same_bundle(tmp_path, scores, labels, format):
    save, extension = FORMATS[format]
    source = tmp_path / f"saved{extension}"
    save(source, scores, labels)
    before = source.read_bytes()
    found = bring(source, tmp_path / "out.h5")[""]
    assert np.array_equal(found["logits"], scores)
    assert found["labels"].dtype == np.int64
    assert np.array_equal(found["labels"], labels)
    origin = found["source"]
    assert origin["files"][0]["name"] == source.name
    assert str(tmp_path) not in json.dumps(origin), (
        "no folder of this machine is recorded"
    )
    assert source.read_bytes() == before


@pytest.mark.parametrize("format", FORMATS)
def test_the_content_decides_when_the_extension_is_wrong(
    tmp_path, scores, labels, format
):
    save, extension = FORMATS[format]
    right = tmp_path / f"right{extension}"
    save(right, scores, labels)
    wrong = tmp_path / f"wrong{'.npz' if extension != '.npz' else '.h5'}"
    wrong.write_bytes(right.read_bytes())
    found = bring(wrong, tmp_path / "out.h5", kind="logits")
    assert np.array_equal(found[""]["logits"], scores)
    assert "in spite of its name" in found["notes"][1]


@pytest.mark.parametrize("format", FORMATS)
def test_a_truncated_file_is_refused_and_leaves_nothing(
    tmp_path, scores, labels, format
):
    save, extension = FORMATS[format]
    whole = tmp_path / f"whole{extension}"
    save(whole, scores, labels)
    data = whole.read_bytes()
    cut = tmp_path / f"cut{extension}"
    out = tmp_path / "out.h5"
    for part in (
        0,
        3,
        9,
        40,
        len(data) // 4,
        len(data) // 2,
        len(data) - 300,
        len(data) - 9,
    ):
        if format == "csv" and part > 40:
            # a cut within the last number of a row cannot be seen
            part = data.rfind(b",", 0, part)
        cut.write_bytes(data[:part])
        with pytest.raises((DataError, UsageError)) as caught:
            import_scores([cut], out)
        assert "cut" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
            [cut.name, whole.name]
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("format", FORMATS)
def test_a_scrambled_file_never_escapes(tmp_path, scores, labels, format):
    # Formats without checksums may let a changed number through; nothing else may happen.
    save, extension = FORMATS[format]
    source = tmp_path / f"a{extension}"
    save(source, scores, labels)
    data = source.read_bytes()
    rng = np.random.default_rng(len(format))
    refused = 0
    for turn in range(60):
        changed = bytearray(data)
        for place in rng.integers(
            len(data) if turn % 2 else min(len(data), 400), size=3
        ):
            changed[place] = rng.integers(256)
        source.unlink()  # a new file: the old one may still be mapped
        source.write_bytes(changed)
        try:
            import_scores([source], tmp_path / "out.h5", force=True)
        except (DataError, UsageError):
            refused += 1
    assert refused > 10


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", ">f4", "longdouble", "int32"]
)
def test_scores_keep_their_precision_in_native_order(tmp_path, labels, dtype):
    z = np.random.default_rng(2).normal(size=(N, K)).astype(dtype)
    np.savez(tmp_path / "a.npz", logits=z, labels=labels)
    if dtype in ("longdouble", "int32"):
        with pytest.raises(DataError, match="scores have type"):
            bring(tmp_path / "a.npz", tmp_path / "out.h5")
        return
    found = bring(tmp_path / "a.npz", tmp_path / "out.h5")[""]["logits"]
    assert found.dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(found, z)


def test_bfloat16_becomes_float32_exactly(tmp_path, scores, labels):
    torch = pytest.importorskip("torch")
    torch_format = pytest.importorskip("safetensors.torch")
    content = {
        "logits": torch.tensor(scores).bfloat16(),
        "labels": torch.tensor(labels),
    }
    torch.save(content, tmp_path / "a.pt")
    torch_format.save_file(content, tmp_path / "a.safetensors")
    expected = content["logits"].float().numpy()
    for name in ("a.pt", "a.safetensors"):
        found = bring(tmp_path / name, tmp_path / "out.h5")[""]["logits"]
        assert found.dtype == np.float32
        assert np.array_equal(found, expected)


# ---- several files


def test_npy_files_belong_together_by_their_names(tmp_path, scores, labels):
    np.save(tmp_path / "logits.npy", scores)
    np.save(tmp_path / "labels.npy", labels)
    found = bring(
        [tmp_path / "logits.npy", tmp_path / "labels.npy"], tmp_path / "out.h5"
    )[""]
    assert np.array_equal(found["logits"], scores)
    assert [file["name"] for file in found["source"]["files"]] == [
        "logits.npy",
        "labels.npy",
    ]


def test_npy_files_with_other_names_have_one_obvious_reading(tmp_path, scores, labels):
    np.save(tmp_path / "z.npy", scores)
    np.save(tmp_path / "truth.npy", labels)
    sources = [tmp_path / "z.npy", tmp_path / "truth.npy"]
    with pytest.raises(
        UsageError, match=r"say what 'z' holds with --kind.*rows are no probabilities"
    ):  # numbers of which the largest is the label no more often than by chance
        bring(sources, tmp_path / "out.h5")
    for asked in ({}, {"scores": ["z"], "labels": ["truth"]}):
        found = bring(sources, tmp_path / "out.h5", kind="logits", **asked)
        assert np.array_equal(found[""]["labels"], labels)
    assert (
        found["notes"][0]
        == "Read z.npy and 1 more: 60 samples, 4 classes ('z' as logits, 'truth')."
    )
    np.save(tmp_path / "w.npy", -scores)
    with pytest.raises(DataError, match=r"--scores NAME --labels NAME --kind"):
        bring([*sources, tmp_path / "w.npy"], tmp_path / "out.h5", kind="logits")


def test_npy_files_of_splits_become_groups(tmp_path, scores, labels):
    names = ("cal_logits", "cal_labels", "logits_test", "labels_test")
    for name, array in zip(
        names, (scores[:40], labels[:40], scores[40:], labels[40:]), strict=True
    ):
        np.save(tmp_path / f"{name}.npy", array)
    found = bring([tmp_path / f"{name}.npy" for name in names], tmp_path / "out.h5")
    assert np.array_equal(found["cal"]["logits"], scores[:40])
    assert np.array_equal(found["test"]["labels"], labels[40:])


def test_files_of_several_arrays_become_a_group_each(tmp_path, scores, labels):
    save_npz(tmp_path / "one.npz", scores, labels)
    save_npz(tmp_path / "two.npz", -scores, labels)
    found = bring(
        [tmp_path / "one.npz", tmp_path / "two.npz"],
        tmp_path / "out.h5",
        split=["cal=0.5", "test=0.5"],
    )
    assert set(found) - {"notes"} == {"one/cal", "one/test", "two/cal", "two/test"}
    assert np.array_equal(found["one/cal"]["logits"], -found["two/cal"]["logits"]), (
        "the same rows of both"
    )


def test_two_files_with_one_name_are_refused(tmp_path, scores, labels):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        save_npz(tmp_path / folder / "x.npz", scores, labels)
    with pytest.raises(DataError, match="same name"):
        bring([tmp_path / "a" / "x.npz", tmp_path / "b" / "x.npz"], tmp_path / "out.h5")


# ---- what the names say


@pytest.mark.parametrize(
    ("path", "role", "kind", "split", "model"),
    [
        ("logits", "scores", "logits", "", ""),
        ("Logits", "scores", "logits", "", ""),
        ("logits_val", "scores", "logits", "val", ""),
        ("test/logits", "scores", "logits", "test", ""),
        ("a/b/probas_cal", "scores", "probs", "cal", ""),
        ("val_log_probs", "scores", "log_probs", "val", ""),
        ("softmax", "scores", "probs", "", ""),
        ("logprobs_gpt_test", "scores", "log_probs", "test", "gpt"),
        ("logits_LLaVA-v1.5", "scores", "logits", "", "LLaVA-v1.5"),
        ("y_val", "labels", "", "val", ""),
        ("y_true", "labels", "", "", ""),
        ("labels_resnet", "labels", "", "", "resnet"),
        ("transforms/logits", "transformed", "", "", ""),
        ("cal/transforms/specs", "specs", "", "cal", ""),
        ("transformed_logits", "transformed", "", "", ""),
        ("problem", "", "", "", ""),
        ("y_pred", "", "", "", ""),
        ("prediction", "", "", "", ""),
        ("test", "", "", "", ""),
    ],
)
def test_names_are_taken_apart_as_documented(path, role, kind, split, model):
    name = parse_name(path)
    assert (name.role, name.kind, name.split, name.model) == (role, kind, split, model)


def groups(paths, **ask):
    asked = ImportRequest(
        **{
            key: tuple(value) if isinstance(value, list) else value
            for key, value in ask.items()
        }
    )
    return {c.name: (c.scores, c.labels) for c in plan(paths, asked, "file")}


BENCHMARK = [
    f"{data}/{model}/{array}_{split}"
    for data in ("c10", "c100")
    for model in ("vgg", "vit")
    for array in ("probas", "labels")
    for split in ("cal", "test")
]


def test_data_sets_and_models_become_groups():
    found = groups(BENCHMARK)
    assert len(found) == 8
    assert found["c10/vgg/cal"] == ("c10/vgg/probas_cal", "c10/vgg/labels_cal")
    assert set(groups(BENCHMARK[:4])) == {"cal", "test"}


def test_a_group_is_chosen_by_any_part_of_its_path():
    assert set(groups(BENCHMARK, groups=["c10"])) == {
        "vgg/cal",
        "vgg/test",
        "vit/cal",
        "vit/test",
    }
    assert set(groups(BENCHMARK, groups=["c100/vit"])) == {"cal", "test"}
    assert groups(BENCHMARK, groups=["c100/vit/cal"]) == {
        "cal": ("c100/vit/probas_cal", "c100/vit/labels_cal")
    }
    with pytest.raises(UsageError, match="c10/vgg"):
        groups(BENCHMARK, groups=["c10/vg"])


def test_labels_may_lie_above_and_splits_never_mix():
    assert groups(["a/logits", "b/logits", "labels"]) == {
        "a": ("a/logits", "labels"),
        "b": ("b/logits", "labels"),
    }
    with pytest.raises(DataError, match="no labels for 'logits_test'"):
        groups(["logits_test", "labels_val"])


def test_scores_side_by_side_are_a_choice_of_the_user():
    paths = ["logits_a", "logits_b", "labels", "labels_b"]
    with pytest.raises(UsageError, match=r"--scores '\*'"):
        groups(paths)
    assert groups(paths, all_scores=True) == {
        "logits_a": ("logits_a", "labels"),
        "logits_b": ("logits_b", "labels_b"),
    }
    assert groups(paths, scores=["logits_a"]) == {"": ("logits_a", "labels")}
    assert set(groups(["logits", "probs", "labels"], all_scores=True)) == {
        "logits",
        "probs",
    }
    with pytest.raises(UsageError, match="did you mean logits_a"):
        groups(paths, scores=["logit_a"])


def test_two_arrays_that_could_be_labels_are_a_choice_of_the_user():
    with pytest.raises(UsageError, match="labels, y could all be labels of 'logits'"):
        groups(["logits", "labels", "y"])
    assert groups(["logits", "labels", "y"], labels=["y"]) == {"": ("logits", "y")}


def test_names_become_safe_names_of_groups():
    assert set(groups(["a:b/./logits", "c./logits", "labels"])) == {"a_b", "c"}


def test_scores_and_labels_can_be_named_in_pairs():
    paths = ["f/x1", "f/x2", "f/t1", "f/t2"]
    found = groups(
        paths, scores=["f/x1", "f/x2"], labels=["f/t1", "f/t2"], kind="probs"
    )
    assert found == {"x1": ("f/x1", "f/t1"), "x2": ("f/x2", "f/t2")}


def test_a_name_stands_for_all_its_splits():
    paths = ["val/out", "val/truth", "test/out", "test/truth"]
    found = groups(paths, scores=["out"], labels=["truth"], kind="logits")
    assert found == {
        "val": ("val/out", "val/truth"),
        "test": ("test/out", "test/truth"),
    }


def test_a_bundle_with_transforms_is_one_bundle(tmp_path, scores, labels):
    moved = np.stack([scores * 0.5, scores * 0.2])
    names = np.array(["zoom:0.5", "brightness:0.2"])
    np.savez(
        tmp_path / "a.npz",
        logits=scores,
        labels=labels,
        transformed_logits=moved,
        transforms=names,
    )
    first = bring(
        tmp_path / "a.npz", tmp_path / "one.h5", split=["cal=0.5", "test=0.5"]
    )
    second = bring(tmp_path / "one.h5", tmp_path / "two.h5")
    for found in (first, second):
        assert set(found) == {"cal", "test", "notes"}
        assert [
            spec.decode() for spec in found["cal"]["transforms/specs"]
        ] == names.tolist()
        assert np.array_equal(
            found["test"]["transforms/logits"],
            found["test"]["logits"] * np.float32([[[0.5]], [[0.2]]]),
        )


# ---- what comes along


def test_ids_weights_group_and_class_names_come_along(tmp_path, scores, labels):
    extras = {
        "ids": np.array([f"img{i}.png" for i in range(N)]),
        "weights": np.linspace(0, 2, N),
        "group": np.repeat(["night", "día"], N // 2),
        "class_names": np.array(["cat", "dog", "eel", "fox"]),
        "prediction": scores.argmax(axis=1),
    }
    np.savez(tmp_path / "a.npz", logits=scores, labels=labels, **extras)
    out = tmp_path / "out.h5"
    bring(tmp_path / "a.npz", out, split=["cal=0.5", "test=rest"], seed=4)
    with open_bundle(f"{out}:cal") as rows:
        index = [int(name[3:-4]) for name in rows.column("ids")]
        assert np.array_equal(rows.labels(), labels[index])
        assert np.array_equal(rows.array(), scores[index])
        weights = extras["weights"][index]  # a bundle gives them on a scale of its own
        shares = rows.weights() / rows.weights().sum()
        assert np.allclose(shares, weights / weights.sum())
        assert rows.column("group").tolist() == extras["group"][index].tolist()
        assert rows.class_names == ["cat", "dog", "eel", "fox"]
    with h5py.File(out) as file:
        assert "prediction" not in file["cal"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ids", np.arange(N - 1)),
        ("weights", -np.ones(N)),
        ("weights", np.full(N, np.nan)),
        ("class_names", np.array(["a", "b"])),
        ("transforms", np.array(["zoom:0.5", "zoom:0.6"])),
    ],
)
def test_companions_of_another_size_are_refused_by_name(
    tmp_path, scores, labels, name, value
):
    np.savez(
        tmp_path / "a.npz",
        logits=scores,
        labels=labels,
        transformed_logits=scores[None],
        **{name: value},
    )
    with pytest.raises(DataError, match=name.replace("transforms", "transform")):
        bring(tmp_path / "a.npz", tmp_path / "out.h5")


def test_a_transform_with_nan_is_named(tmp_path, scores, labels):
    moved = np.stack([scores, scores])
    moved[1, 7, 2] = np.nan
    np.savez(
        tmp_path / "a.npz",
        logits=scores,
        labels=labels,
        transformed_logits=moved,
        transforms=["zoom:1", "zoom:.5"],
    )
    with pytest.raises(DataError, match=r"under zoom:\.5: row 7, class 2 is nan"):
        bring(tmp_path / "a.npz", tmp_path / "out.h5")


# ---- labels


def test_labels_as_people_write_them(tmp_path, scores, labels):
    names = np.array(["cat", "dog", "eel", "fox"])
    forms = {
        "column": labels.reshape(-1, 1),
        "floats": labels.astype(np.float64),
        "one-hot": np.eye(K)[labels],
        "booleans": np.eye(K, dtype=bool)[labels],
        "words": names[labels],
        "bytes": names.astype("S")[labels],
        "small": labels.astype(np.uint8),
    }
    for form, value in forms.items():
        np.savez(tmp_path / "a.npz", logits=scores, labels=value, class_names=names)
        found = bring(tmp_path / "a.npz", tmp_path / "out.h5")
        assert np.array_equal(found[""]["labels"], labels), form
        assert any("one-hot" in note for note in found["notes"]) == (
            form in ("one-hot", "booleans")
        )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.r_[0.5, np.ones(N - 1)], "row 0 has label 0.5, expected a whole number"),
        (np.r_[np.ones(N - 1), np.nan], f"is empty in row {N - 1}"),
        (np.full(N, 4), r"row 0 has label 4, expected 0\.\.3"),
        (np.r_[np.ones(N - 1, int), -100], "row 59 has label -100"),
        (np.arange(1, N + 1) % K + 1, "1-based"),
        (np.ones(N - 1, int), f"{N - 1} labels for {N} rows"),
        (np.ones((N, K)), "row 0 is not one-hot"),
        (np.ones((N, K + 1), int), r"labels have shape \(60, 5\)"),
        (np.array(["owl"] * N), "class_names"),
    ],
)
def test_labels_that_cannot_be_class_indices_are_refused(
    tmp_path, scores, value, message
):
    np.savez(tmp_path / "a.npz", logits=scores, labels=value)
    with pytest.raises(DataError, match=message) as caught:
        bring(tmp_path / "a.npz", tmp_path / "out.h5")
    assert "a.npz: labels" in str(caught.value)


def test_labels_that_count_from_1_are_read_by_the_command_that_is_proposed(
    run, tmp_path, scores, labels
):
    np.savez("a.npz", logits=scores, labels=labels + 1)
    refused = run("extract", "a.npz", "-o", "a.h5")
    assert "--class-names 1,2,3,4" in refused.line
    proposed = refused.line.partition("to try: ")[2].split()
    assert run(*proposed[1:]).code == 0
    with h5py.File("a.h5") as file:
        assert file["labels"][:].tolist() == labels.tolist()


def test_words_that_are_no_class_are_refused_with_their_row(tmp_path, scores):
    words = np.array(["cat", "dog"] * (N // 2))
    words[5] = "owl"
    np.savez(
        tmp_path / "a.npz",
        logits=scores,
        labels=words,
        class_names=["cat", "dog", "eel", "fox"],
    )
    with pytest.raises(
        DataError, match="row 5 has label 'owl', expected one of cat, dog"
    ):
        bring(tmp_path / "a.npz", tmp_path / "out.h5")


def test_ignored_labels_leave_rows_out_before_the_split(tmp_path, scores, labels):
    y = labels.copy()
    y[::6] = -100
    np.savez(tmp_path / "a.npz", logits=scores, labels=y, ids=np.arange(N))
    found = bring(
        tmp_path / "a.npz",
        tmp_path / "out.h5",
        ignore=(-100,),
        split=["cal=0.5", "test=0.5"],
    )
    assert "10 of 60 rows left out" in found["notes"][1]
    kept = np.sort(np.concatenate([found["cal"]["ids"], found["test"]["ids"]]))
    assert np.array_equal(kept, np.flatnonzero(np.arange(N) % 6))
    np.savez(tmp_path / "a.npz", logits=scores, labels=np.full(N, -100))
    with pytest.raises(DataError, match="nothing is left"):
        bring(tmp_path / "a.npz", tmp_path / "out.h5", ignore=(-100,))


def test_scores_without_labels_are_never_a_silent_outcome(tmp_path, scores, labels):
    np.savez(tmp_path / "a.npz", logits=scores, said=labels)
    # labels that were drawn without regard to the scores
    said = "no labels for 'logits'; it has .*said; no column follows the scores"
    with pytest.raises(DataError, match=said):
        bring(tmp_path / "a.npz", tmp_path / "out.h5")
    assert (
        "labels"
        not in bring(tmp_path / "a.npz", tmp_path / "out.h5", no_labels=True)[""]
    )
    with pytest.raises(UsageError, match="no labels to stratify"):
        bring(
            tmp_path / "a.npz", tmp_path / "out.h5", no_labels=True, split=["cal=0.5"]
        )
    found = bring(
        tmp_path / "a.npz",
        tmp_path / "out.h5",
        no_labels=True,
        split=["cal=10", "test=rest"],
        ordered=True,
    )
    assert np.array_equal(found["cal"]["logits"], scores[:10])


@pytest.mark.parametrize("words", [["A", "B", "C"], ["left", "right"]])
def test_words_are_labels_of_scores_of_unknown_name_if_they_follow_them(
    tmp_path, words
):
    rng = np.random.default_rng(3)
    probs = softmax(rng.normal(size=(300, len(words))))
    np.savez(tmp_path / "a.npz", out=probs, side=rng.choice(words, 300))
    with pytest.raises(DataError, match="no column follows the scores as labels do"):
        bring(tmp_path / "a.npz", tmp_path / "out.h5")
    drawn = [rng.choice(words, p=row) for row in probs]
    np.savez(tmp_path / "a.npz", out=probs, side=drawn)
    found = bring(tmp_path / "a.npz", tmp_path / "out.h5")
    assert [words[label] for label in found[""]["labels"]] == drawn


# ---- scores that break the rules


def bad(z, row, column, value):
    z = z.copy()
    z[row, column] = value
    return z


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_is_named_by_row_and_class(
    tmp_path, scores, labels, value
):
    np.savez(tmp_path / "a.npz", logits=bad(scores, 41, 3, value), labels=labels)
    with pytest.raises(DataError, match=rf"a\.npz: logits: row 41, class 3 is {value}"):
        bring(tmp_path / "a.npz", tmp_path / "out.h5", split=["cal=0.5", "test=0.5"])
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: bad(p, 9, 0, -0.01), "row 9, class 0 is -0.01"),
        (lambda p: p * np.float32(1.002), "row 0 sum to 1.002"),
        (lambda p: p[:0], "no rows"),
        (lambda p: p[:, :, None, None], "shape"),
        (lambda p: p[:, :0], "at least one column"),
        (lambda p: np.eye(K, dtype=np.float32)[p.argmax(axis=1)], "bare prediction"),
        (lambda p: p.argmax(axis=1).astype(np.float32) % 2, "bare prediction"),
        (lambda p: p.argmax(axis=1), "scores have type int64"),
    ],
)
def test_probabilities_that_are_none_are_refused(
    tmp_path, scores, labels, make, message
):
    np.savez(tmp_path / "a.npz", probs=make(softmax(scores)), labels=labels)
    with pytest.raises(DataError, match=message):
        bring(tmp_path / "a.npz", tmp_path / "out.h5")


def test_probabilities_posing_as_logits_are_refused_unless_forced(
    tmp_path, scores, labels
):
    p = softmax(scores)
    np.savez(tmp_path / "a.npz", logits=p, labels=labels)
    with pytest.raises(DataError, match="look like probabilities"):
        bring(tmp_path / "a.npz", tmp_path / "out.h5")
    assert np.array_equal(
        bring(tmp_path / "a.npz", tmp_path / "out.h5", kind="probs")[""]["probs"], p
    )
    assert np.array_equal(
        bring(tmp_path / "a.npz", tmp_path / "out.h5", kind="logits")[""]["logits"], p
    )
    np.savez(tmp_path / "a.npz", logits=bad(p, N - 1, 0, 1.5), labels=labels)
    assert "logits" in bring(tmp_path / "a.npz", tmp_path / "out.h5")[""], (
        "one row that is none clears the others"
    )


@pytest.mark.parametrize("shape", [(N,), (N, 1)])
def test_binary_scores_get_two_columns(tmp_path, shape):
    z = np.random.default_rng(5).normal(size=N).astype(np.float32)
    y = (z > 0).astype(int)
    np.savez(tmp_path / "a.npz", logits=z.reshape(shape), labels=y)
    assert np.array_equal(
        bring(tmp_path / "a.npz", tmp_path / "out.h5")[""]["logits"],
        np.stack([0 * z, z], axis=1),
    )
    p = 1 / (1 + np.exp(-z))
    np.savez(
        tmp_path / "a.npz", probs=p.reshape(shape), labels=y, class_names=["no", "yes"]
    )
    found = bring(tmp_path / "a.npz", tmp_path / "out.h5")[""]["probs"]
    assert np.array_equal(
        found, np.stack([1 - p.astype(float), p.astype(float)], axis=1)
    )
    np.savez(tmp_path / "a.npz", logits=p.reshape(shape), labels=y)
    with pytest.raises(DataError, match="look like probabilities"):
        bring(tmp_path / "a.npz", tmp_path / "out.h5")


# ---- splits of the source


def test_a_source_that_is_split_keeps_its_groups_and_refuses_another_split(
    tmp_path, scores, labels
):
    np.savez(
        tmp_path / "a.npz",
        logits_val=scores,
        y_val=labels,
        logits_test=-scores,
        y_test=labels,
    )
    found = bring(tmp_path / "a.npz", tmp_path / "out.h5")
    assert set(found) == {"val", "test", "notes"}
    with pytest.raises(UsageError, match=r"already split into val, test; .*--part val"):
        bring(tmp_path / "a.npz", tmp_path / "out.h5", split=["cal=0.5"])
    found = bring(
        tmp_path / "a.npz",
        tmp_path / "out.h5",
        groups=["val"],
        split=["cal=0.5", "held=0.5"],
    )
    assert set(found) == {"cal", "held", "notes"}


def test_a_column_can_say_the_split(tmp_path, scores, labels):
    which = np.where(np.arange(N) % 3, "cal", "test")
    np.savez(tmp_path / "a.npz", logits=scores, labels=labels, split=which)
    found = bring(tmp_path / "a.npz", tmp_path / "out.h5")
    assert np.array_equal(found["cal"]["logits"], scores[which == "cal"])
    assert np.array_equal(found["test"]["labels"], labels[which == "test"])
    with pytest.raises(UsageError, match="column that splits"):
        bring(tmp_path / "a.npz", tmp_path / "out.h5", split=["cal=0.5"])
    np.savez(
        tmp_path / "a.npz",
        logits=scores,
        labels=labels,
        split=np.where(np.arange(N) % 3, "a:b", "a_b"),
    )
    with pytest.raises(DataError, match="differ only in signs"):
        bring(tmp_path / "a.npz", tmp_path / "out.h5")


def test_the_split_is_told_and_recorded(tmp_path, scores, labels):
    save_npz(tmp_path / "a.npz", scores, labels)
    found = bring(
        tmp_path / "a.npz", tmp_path / "out.h5", split=["cal=0.5", "test=0.25"], seed=9
    )
    assert (
        "60 rows split stratified by label, seed 9: cal 30, test 15, 15 left out"
        in found["notes"][1]
    )
    expected = {
        "groups": ["cal=0.5", "test=0.25"],
        "method": "stratified",
        "name": "test",
        "seed": 9,
    }
    assert found["test"]["source"]["split"] == expected
    assert found["test"]["source"]["rows"] == 15
    found = bring(tmp_path / "a.npz", tmp_path / "out.h5", split=["cal=0:10"])
    assert found["cal"]["source"]["split"] == {
        "groups": ["cal=0:10"],
        "method": "position",
        "name": "cal",
    }


def test_classes_that_a_group_misses_are_told(tmp_path, scores):
    y = np.zeros(N, int)
    y[:2] = [1, 2]
    save_npz(tmp_path / "a.npz", scores, y)
    notes = bring(
        tmp_path / "a.npz", tmp_path / "out.h5", split=["cal=0:30", "test=rest"]
    )["notes"]
    assert any(
        note.startswith(
            "test: 3 of 4 classes have no row here (1 have none in the source)"
        )
        for note in notes
    )


def test_the_same_request_gives_the_same_data(tmp_path, scores, labels):
    save_npz(tmp_path / "a.npz", scores, labels)
    first, second = (
        bring(tmp_path / "a.npz", tmp_path / name, split=["cal=0.5", "test=0.5"])
        for name in ("1.h5", "2.h5")
    )
    assert (tmp_path / "1.h5").read_bytes() == (tmp_path / "2.h5").read_bytes()
    assert first["cal"]["source"] == second["cal"]["source"]


def test_slabs_smaller_than_the_source_change_nothing(
    tmp_path, scores, labels, monkeypatch
):
    np.savez(
        tmp_path / "a.npz",
        logits=scores,
        labels=labels,
        transformed_logits=scores[None],
        transforms=["zoom:1"],
    )
    whole = bring(
        tmp_path / "a.npz", tmp_path / "out.h5", split=["cal=0.3", "test=rest"]
    )
    monkeypatch.setattr("calcli.importers.building.imported.SLAB_BYTES", 7 * 2 * K * 4)
    slabs = bring(
        tmp_path / "a.npz", tmp_path / "out.h5", split=["cal=0.3", "test=rest"]
    )
    for group in ("cal", "test"):
        for name in ("logits", "labels", "transforms/logits"):
            assert np.array_equal(whole[group][name], slabs[group][name])
