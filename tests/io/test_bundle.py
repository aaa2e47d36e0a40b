"""Bundles: every layout that the contract allows is read; everything else is named and refused."""

import errno
import shlex
from pathlib import Path

import h5py
import numpy as np
import pytest

from calcli.errors import CalcliError, DataError, UsageError
from calcli.io.bundle import open_bundle
from calcli.io.locate import Layout, find_bundles
from calcli.io.writer import NewBundle, new_bundles

Z = np.array([[2.0, -1.0, 0.5], [0.0, 1.0, -2.0], [3.0, 2.0, 1.0], [0.1, 0.2, 0.3]])
Y = np.array([0, 1, 0, 2])


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.fixture
def make(tmp_path):
    """Write an HDF5 file by hand, as a user without calcli would."""

    def write(name="a.h5", **datasets):
        path = tmp_path / name
        with h5py.File(path, "w") as file:
            for key, value in datasets.items():
                file[key.replace("__", "/")] = value
        return str(path)

    return write


def read(where, **options):
    with open_bundle(where, **options) as rows:
        blocks = list(rows.blocks())
        return (
            rows,
            np.concatenate([b.z for b in blocks]),
            None if not rows.has_labels else rows.labels(),
        )


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
def test_a_hand_made_file_is_a_bundle(make, dtype):
    rows, z, y = read(make(logits=Z.astype(dtype), labels=Y.astype("i4")))
    np.testing.assert_array_equal(z, Z.astype(dtype).astype("f8"))
    np.testing.assert_array_equal(y, Y)
    assert (rows.kind, rows.n, rows.k) == ("logits", 4, 3)


def test_kinds_are_declared_by_the_dataset_name(make):
    p = softmax(Z)
    for name, value in (("probs", p), ("log_probs", np.log(p))):
        rows, z, _ = read(make(**{name: value, "labels": Y}))
        assert rows.kind == name
        np.testing.assert_allclose(softmax(z), p, atol=1e-15)


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_binary_scores_become_two_classes(make, shape):
    z1 = np.array([0.5, -2.0, 800.0, 0.0])
    y = np.array([1, 0, 1, 0])
    rows, z, _ = read(make(logits=z1.reshape(shape), labels=y))
    # contract: logits (0, z)
    np.testing.assert_array_equal(z, np.stack([np.zeros(4), z1], axis=1))
    p1 = np.array([0.25, 1.0, 0.0, 0.5])
    _, z, _ = read(make(probs=p1.reshape(shape), labels=y))
    np.testing.assert_allclose(softmax(z), np.stack([1 - p1, p1], axis=1), atol=1e-15)
    _, z, _ = read(
        make(
            log_probs=np.log(np.array([0.25, 0.5, 1.0, 1e-9])).reshape(shape), labels=y
        )
    )
    np.testing.assert_allclose(softmax(z)[:, 1], [0.25, 0.5, 1.0, 1e-9], rtol=1e-12)
    assert rows.k == 2


def test_groups_are_splits(make):
    where = make(cal__logits=Z, cal__labels=Y, test__logits=Z[:2], test__labels=Y[:2])
    assert read(where + ":test")[0].n == 2
    assert read(where, prefer=("cal", "val"))[0].name == "a.h5:cal"
    assert read(where, prefer=("test",))[0].name == "a.h5:test"
    with pytest.raises(
        DataError, match="holds 2 bundles, name one of: a.h5:cal, a.h5:test"
    ):
        read(where)
    with pytest.raises(DataError, match="has no group 'train'"):
        read(where + ":train")


def test_the_only_bundle_needs_no_name_and_transforms_are_no_bundle(make):
    where = make(deep__er__logits=Z, deep__er__labels=Y, deep__er__transforms__logits=np.stack([Z, Z]),
                 deep__er__transforms__specs=np.array([b"zoom:0.5", b"zoom:0.7"]))  # fmt: skip
    rows, _, _ = read(where)
    assert rows.name == "a.h5:deep/er"
    assert rows.transforms == ("zoom:0.5", "zoom:0.7")
    with h5py.File(where) as file:
        assert find_bundles(file) == ["deep/er"]


def test_other_layouts_are_named(make):
    where = make(out__scores=softmax(Z), truth=Y)
    rows, _, y = read(
        where, layout=Layout(scores="out/scores", labels="truth", kind="probs")
    )
    assert rows.kind == "probs"
    np.testing.assert_array_equal(y, Y)
    with pytest.raises(DataError, match="--kind"):  # which an import may see
        read(where, layout=Layout(scores="out/scores", labels="truth"))
    with pytest.raises(DataError, match="has no dataset 'nope'"):
        read(where, layout=Layout(scores="nope", labels="truth", kind="probs"))
    with pytest.raises(DataError, match="name yours with --scores"):
        read(where)


def test_ignored_labels_drop_rows_and_are_counted(make):
    where = make(
        logits=Z,
        labels=np.array([0, -100, 1, 2]),
        weights=np.arange(1.0, 5.0),
        ids=np.arange(4),
    )
    with pytest.raises(
        DataError, match=r"row 1 has label -100, expected 0\.\.2; pass --ignore-label"
    ):
        read(where)
    with open_bundle(where, ignore_labels=[-100]) as rows:
        (block,) = rows.blocks()
        assert (rows.n, rows.ignored) == (3, 1)
        np.testing.assert_array_equal(block.z, Z[[0, 2, 3]])
        np.testing.assert_array_equal(block.labels, [0, 1, 2])
        # times sum w / sum w^2, so that they sum to Kish's effective number
        np.testing.assert_allclose(rows.weights(), np.array([1, 3, 4]) * 8 / 26)
        np.testing.assert_array_equal(rows.column("ids"), [0, 2, 3])
    with pytest.raises(DataError, match="every row has an ignored label"):
        read(make(logits=Z, labels=np.full(4, 7)), ignore_labels=[7])


def test_labels_are_needed_only_where_they_are_needed(make):
    where = make(logits=Z)
    assert read(where, need_labels=False)[2] is None
    with pytest.raises(DataError, match="labels are needed here"):
        read(where)


def bad(make, match, **datasets):
    with pytest.raises(DataError, match=match) as caught:
        read(make(**datasets))
    assert "\n" not in str(caught.value)
    assert "a.h5" in str(caught.value)


def test_bad_scores_are_named_with_their_row(make):
    for value in (np.nan, np.inf, -np.inf):
        broken = Z.copy()
        broken[2, 1] = value
        bad(
            make,
            rf"logits: row 2, class 1 is {value}, expected a finite number",
            logits=broken,
            labels=Y,
        )
    p = softmax(Z)
    negative = p.copy()
    negative[1, 2] = -0.1
    bad(
        make,
        r"probs: row 1, class 2 is -0\.1, expected a probability",
        probs=negative,
        labels=Y,
    )
    unnormalised = p.copy()
    unnormalised[3] *= 1.5
    bad(
        make,
        r"probabilities of row 3 sum to 1\.5, expected 1 within 0\.001",
        probs=unnormalised,
        labels=Y,
    )
    # up to 1, so that they are no logits: a column too many, or too few
    sure = np.eye(3)[Y] + 0.25
    bad(
        make,
        r"sum to 1\.5, .*does a column belong to no class",
        probs=np.minimum(sure, 1.0),
        labels=Y,
    )
    bad(make, r"probabilities of row 0 sum to", log_probs=np.log(p) + 0.1, labels=Y)
    bad(
        make,
        "probability 1.5, expected a number in",
        probs=np.array([0.2, 1.5]),
        labels=np.array([0, 1]),
    )
    bad(
        make,
        "type int64, expected float16",
        logits=np.ones((4, 3), dtype=int),
        labels=Y,
    )
    bad(make, "expected .rows, classes.", logits=np.zeros((2, 2, 2)), labels=Y)
    bad(
        make,
        "there are no rows",
        logits=np.zeros((0, 3)),
        labels=np.zeros(0, dtype=int),
    )
    bad(
        make,
        "found logits and probs; choose one, as with --scores logits$",
        logits=Z,
        probs=p,
        labels=Y,
    )


def test_one_column_of_probabilities_may_exceed_one_by_rounding_only(make):
    """A thousandth, as for sums of rows; what is let through is cut to 1."""
    y = np.array([0, 1, 1])
    _, log_p, _ = read(make(probs=np.array([0.0, 0.25, 1.0009]), labels=y))
    # 1 - p was rounded as numbers below 1 are, to multiples of 2^-53: half of that / 2
    np.testing.assert_allclose(
        np.exp(log_p), [[1, 0], [0.75, 0.25], [2.0**-55, 1]], atol=1e-300
    )
    for value in (1.0011, 1.05, -1e-9):
        bad(
            make,
            "row 2 gives class 1 the probability",
            probs=np.array([0.0, 0.25, value]),
            labels=y,
        )


@pytest.mark.filterwarnings("error")
def test_sums_that_overflow_are_no_news(make):
    for extreme in (
        np.full((2, 3), 3e38, "f4"),
        np.array([[1e308, -1e308, 0.0]] * 2),
        np.full((2, 3), 1.7e308),
    ):
        read(make(logits=extreme, labels=Y[:2]))
        for kind in ("log_probs", "probs"):
            with pytest.raises(DataError):
                read(make(**{kind: extreme, "labels": Y[:2]}))


def test_bad_labels_are_named_with_their_row(make):
    bad(
        make,
        r"row 3 has label 3, expected 0\.\.2; labels look 1-based",
        logits=Z,
        labels=Y + 1,
    )
    bad(
        make,
        r"row 1 has label -1, expected 0\.\.2",
        logits=Z,
        labels=np.array([0, -1, 0, 2]),
    )
    bad(make, "3 labels for 4 rows", logits=Z, labels=Y[:3])
    bad(make, "type float64, expected integers", logits=Z, labels=Y.astype(float))
    bad(make, r"shape \(4, 1\)", logits=Z, labels=Y[:, None])
    bad(
        make,
        "row 2 has weight -1.0",
        logits=Z,
        labels=Y,
        weights=np.array([1.0, 1, -1, 1]),
    )


def test_sums_within_the_tolerance_are_renormalised(make):
    p = softmax(Z) * 1.0009  # contract: 1e-3, then renormalised
    _, z, _ = read(make(probs=p, labels=Y))
    np.testing.assert_allclose(softmax(z), softmax(Z), atol=1e-15)


def test_bad_transforms_are_refused(make):
    good = np.stack([Z, Z])
    specs = np.array([b"zoom:0.5", b"zoom:0.7"])
    common = {"logits": Z, "labels": Y, "transforms__specs": specs}
    with pytest.raises(DataError, match=r"shape \(2, 3, 3\), expected \(2, 4, 3\)"):
        read(make(**common, transforms__logits=good[:, :3]))
    broken = good.copy()
    broken[1, 2, 0] = np.nan
    with (
        pytest.raises(
            DataError,
            match=r"transforms/logits\[1\] \(zoom:0.7\): row 2, class 0 is nan",
        ),
        open_bundle(make(**common, transforms__logits=broken)) as rows,
    ):
        list(rows.blocks([1]))


def test_files_that_are_no_hdf5(tmp_path):
    with (
        pytest.raises(DataError, match="no such file"),
        open_bundle(str(tmp_path / "none.h5")),
    ):
        pass
    text = tmp_path / "text.h5"
    text.write_text("not hdf5")
    advice = "is not an HDF5 file .*; calcli extract .*text.* -o NEW.h5"  # not the file itself
    with pytest.raises(DataError, match=advice), open_bundle(str(text)):
        pass
    with pytest.raises(DataError, match="is a folder"), open_bundle(str(tmp_path)):
        pass


@pytest.mark.parametrize("keep", [0.02, 0.3, 0.9, 0.999])
def test_truncated_files_are_refused(make, tmp_path, keep):
    rng = np.random.default_rng(0)
    whole = make(logits=rng.normal(size=(500, 40)), labels=rng.integers(0, 40, 500))
    data = Path(whole).read_bytes()
    cut = tmp_path / "cut.h5"
    cut.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(DataError, match=r"cut\.h5"), open_bundle(str(cut)) as rows:
        list(rows.blocks())


@pytest.mark.parametrize(
    "storage", [{}, {"chunks": True, "compression": "gzip"}, {"chunks": (7, 3)}]
)
def test_storage_layout_is_irrelevant_also_beyond_the_cache(
    tmp_path, storage, monkeypatch
):
    rng = np.random.default_rng(1)
    z, y = rng.normal(size=(1000, 3)), rng.integers(0, 3, 1000)
    y[::9] = -1
    path = tmp_path / "big.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("logits", data=z, **storage)
        file["labels"] = y
    with open_bundle(str(path), ignore_labels=[-1]) as rows:
        expected = [np.concatenate([b.scores for b in rows.blocks()]) for _ in range(2)]
        digest = rows.data_sha256
    monkeypatch.setattr("calcli.io.bundle_labels.CACHE_BYTES", 0)
    monkeypatch.setattr("calcli.io.bundle_scores.CACHE_BYTES", 0)
    monkeypatch.setattr("calcli.io.dataset.SLAB_BYTES", 1000)
    # of which a part, the unit of the hash, has so many
    monkeypatch.setattr("calcli.rows.BLOCK_BYTES", 1000)
    with open_bundle(str(path), ignore_labels=[-1]) as rows:
        blocks = list(rows.blocks())
        assert len(blocks) > 1
        assert [b.start for b in blocks] == list(np.cumsum([0, *map(len, blocks)])[:-1])
        np.testing.assert_array_equal(
            np.concatenate([b.scores for b in blocks]), z[y >= 0]
        )
        assert rows.data_sha256 == digest
    for walk in expected:
        np.testing.assert_array_equal(walk, z[y >= 0])


def test_written_bundles_read_back(tmp_path):
    path = tmp_path / "out.h5"
    with new_bundles(path) as out:
        new = NewBundle(n=4, k=3, dtype="f4", class_names=["a", "b", "ü"], source={"file": "x.npz"},
                        columns={"ids": np.array(["r1", "r2", "r3", "r4"])}, transforms=("zoom:0.5",))  # fmt: skip
        group = out.create("test", new)
        group.write(0, Z[:2], labels=Y[:2], transformed=Z[None, :2])
        group.write(2, Z[2:], labels=Y[2:], transformed=Z[None, 2:])
    with open_bundle(f"{path}:test") as rows:
        assert rows.class_names == ["a", "b", "ü"]
        assert list(rows.column("ids")) == ["r1", "r2", "r3", "r4"]
        assert rows.source == {"file": "x.npz"}
        (block,) = rows.blocks([0])
        np.testing.assert_array_equal(block.transformed_z(0), Z.astype("f4"))


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    path = tmp_path / "out.h5"
    with pytest.raises(RuntimeError), new_bundles(path) as out:
        out.create("", NewBundle(n=4, k=3))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists already"), new_bundles(path):
        pass
    assert path.read_text() == "mine"


def test_predictions_of_an_applied_bundle_are_kept(make):
    rows, _, _ = read(
        make(probs=softmax(Z), labels=Y, prediction=np.array([1, 1, 0, 2]))
    )
    (block,) = rows.blocks()
    np.testing.assert_array_equal(block.prediction, [1, 1, 0, 2])


@pytest.mark.parametrize("chunks", [(1000, 1), (1000, 2), (300, 5), (1000, 5)])
@pytest.mark.parametrize("dtype", ["f8", ">f4", "f2"])
def test_tall_chunks_are_unpacked_once(tmp_path, monkeypatch, chunks, dtype):
    """Whole columns and other chunks of many rows, read in pieces, with rows left out; no chunk is read twice."""
    rng = np.random.default_rng(1)
    z, y = rng.normal(size=(1000, 5)).astype(dtype), rng.integers(0, 5, 1000)
    y[::9] = -1
    path = tmp_path / "tall.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("logits", data=z, chunks=chunks, compression="gzip")
        file["labels"] = y
    for name, value in (
        ("bundle_labels.CACHE_BYTES", 0),
        ("bundle_scores.CACHE_BYTES", 0),
        ("bundle_scores.UNPACKED_BYTES", 0),
        ("dataset.SLAB_BYTES", 1000),
    ):
        monkeypatch.setattr(f"calcli.io.{name}", value)
    monkeypatch.setattr("calcli.io.tall_chunks.TALL_BYTES", 1000)
    monkeypatch.setattr("calcli.io.tall_chunks.HELD_BYTES", 20_000)
    blocks = []
    monkeypatch.setattr(
        "calcli.io.tall_chunks.read",
        lambda scores, block, where: (blocks.append(block), scores[block])[1],
    )
    with open_bundle(str(path), ignore_labels=[-1]) as rows:
        for _ in range(2):
            np.testing.assert_array_equal(
                np.concatenate([b.scores for b in rows.blocks()]), z[y >= 0]
            )
        np.testing.assert_array_equal(rows.run(100, 200).scores, z[y >= 0][100:200])
    cells = np.zeros(z.shape, dtype=int)
    for block in blocks:
        cells[block] += 1
    assert (cells == 1).all()


class FullDisk:
    """A temporary file on a disk without any room."""

    def seek(self, place):
        return place

    def write(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self):
        pass


@pytest.mark.parametrize(
    ("target", "substitute", "message"),
    [
        (
            "calcli.io.scratch_numbers.shutil.disk_usage",
            lambda folder: type("Usage", (), {"free": 1})(),
            r"MiB are free.*h5repack",
        ),
        (
            "tempfile.TemporaryFile",
            lambda **how: FullDisk(),
            r"No space left on device.*TMPDIR.*h5repack",
        ),
    ],
    ids=["too little", "filled up"],
)
def test_tall_chunks_without_room_are_told(
    tmp_path, monkeypatch, target, substitute, message
):
    with h5py.File(tmp_path / "tall.h5", "w") as file:
        file.create_dataset(
            "logits",
            data=np.random.default_rng(0).normal(size=(1000, 5)),
            chunks=(1000, 1),
        )
        file["labels"] = np.arange(1000) % 5
    for name in (
        "bundle_labels.CACHE_BYTES",
        "bundle_scores.CACHE_BYTES",
        "bundle_scores.UNPACKED_BYTES",
        "tall_chunks.TALL_BYTES",
    ):
        monkeypatch.setattr(f"calcli.io.{name}", 0)
    monkeypatch.setattr(target, substitute)
    with (
        open_bundle(str(tmp_path / "tall.h5")) as rows,
        pytest.raises(CalcliError, match=message),
    ):
        list(rows.blocks())


def test_names_of_one_column_are_taken_and_labels_of_several_refused(make):
    """Of shape (k, 1): the names of classes were "[b'a']"."""
    with open_bundle(
        make(logits=Z, labels=Y, class_names=np.array([[b"a"], [b"b"], [b"c"]]))
    ) as rows:
        assert rows.class_names == ["a", "b", "c"]
    for shape in ((4, 1), (4, 2), (2, 4)):
        with pytest.raises(DataError, match="labels have shape"):
            read(make(logits=Z, labels=np.zeros(shape, np.int64)))


@pytest.mark.parametrize("scale", [1e300, 1e37])
@pytest.mark.parametrize("one", [False, True], ids=["classes", "one score"])
def test_logits_that_are_cut_are_counted(make, scale, one):
    """Those of 1e300 were taken for 1e38 without a word."""
    z = np.array([1.0, -2.0, 0.5, 3.0]) if one else Z.copy()
    z[1] *= scale
    with open_bundle(make(logits=z, labels=Y % 2)) as rows:
        said = [
            caveat
            for caveat in rows.caveats
            if "1 of 4 rows have logits beyond 1e+38" in caveat
        ]
    assert bool(said) == (scale == 1e300)


@pytest.mark.parametrize("group", ["", "test"])
def test_a_bundle_with_a_missing_score_is_told_the_command_that_helps(
    run, tmp_path, monkeypatch, group
):
    """The refusal named an option and no command; its command writes the other rows."""
    monkeypatch.chdir(tmp_path)
    scores = LOGITS_OF_FOUR_ROWS.copy()
    scores[2, 1] = np.nan
    with h5py.File("holes.h5", "w") as file:
        place = file.require_group(group or "/")
        place["logits"] = scores
        place["labels"] = [0, 1, 2, 0]
    refused = run("evaluate", f"holes.h5:{group}" if group else "holes.h5")
    assert refused.code == 3
    command = refused.line.partition("to try: ")[2]
    done = run(*shlex.split(command)[1:], "-q")
    assert done.code == 0
    assert "is now" not in done.err  # no former name of an option
    with h5py.File("holes.complete.h5") as file:
        kept = file[f"{group}/logits" if group else "logits"][()]
    np.testing.assert_array_equal(kept, scores[[0, 1, 3]])


LOGITS_OF_FOUR_ROWS = np.array(
    [[2.0, 0.0, 0.5], [0.0, 3.0, 1.0], [1.0, 0.0, 2.0], [1.5, 0.5, 0.0]]
)
