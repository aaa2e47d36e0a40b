"""Shards joined to one bundle, (confidence, correct) pairs, sources that are folders, pipes or gzipped."""

import bz2
import gzip
import json
import lzma
import re
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from imports import bring, plan
from run_calcli import process, runner

from calcli.errors import CalcliError, DataError, UsageError
from calcli.importers.building.dealing import Splitting
from calcli.importers.building.labels import to_labels
from calcli.importers.import_request import ImportRequest
from calcli.importers.import_scores import import_scores
from calcli.importers.nested import flatten, merge_batches
from calcli.importers.remarks import remark, remarks
from calcli.importers.source_file import SourceFile
from calcli.importers.table import Table, unite
from calcli.io.split import parse_split

N, K = 10, 3
Z = np.random.default_rng(0).normal(0, 2, (N, K)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, K, N)


def ranks(folder, world=4, *, ids=True):
    """As DistributedSampler deals rows without shuffling: r, r + W, …, padded with the first ones."""
    padded = np.concatenate([np.arange(N), np.arange(-N % world)])
    files = []
    for rank in range(world):
        rows = padded[rank::world]
        files.append(folder / f"preds_rank{rank}.npz")
        np.savez(
            files[-1], logits=Z[rows], labels=Y[rows], **({"ids": rows} if ids else {})
        )
    return files


def test_ranks_are_joined_by_id_and_padding_is_dropped_when_asked(tmp_path, out):
    files = ranks(tmp_path)
    with pytest.raises(
        DataError,
        match=r"has the id '0' of an earlier row, .*as 2 rows in all; .*--drop-duplicates",
    ):
        bring(files, out, join=True)
    imported = bring(files[::-1], out, join=True, drop_duplicates=True)
    assert np.array_equal(imported["logits"], Z) and np.array_equal(
        imported["labels"], Y
    )
    assert (
        "dropped 2 rows with the id, scores and label of an earlier one"
        in imported["notes"]
    )


def test_a_quoted_pattern_is_expanded_and_what_it_matches_is_an_input(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    run = runner(monkeypatch, capsys)
    for i in (2, 10, 1):
        np.savez(f"part-{i}.npz", logits=Z + i, labels=np.roll(Y, i))
    assert run("extract", "part-*.npz", "--join", "-o", "all.h5", "-q").code == 0
    with h5py.File("all.h5") as file:
        assert np.array_equal(file["logits"], np.concatenate([Z + 1, Z + 2, Z + 10]))
    assert "no file matches" in run("extract", "none-*.npz", "-o", "none.h5").line
    assert "is an input" in run("extract", "all*.h5", "-o", "all.h5", "--force").line


def test_padding_is_told_by_its_scores_where_there_are_no_ids(tmp_path, out):
    files = ranks(tmp_path, ids=False)
    with pytest.raises(
        DataError,
        match="last rows of the last 2 files repeat the first .*--drop-duplicates",
    ):
        bring(files, out, join=True)
    imported = bring(files, out, join=True, drop_duplicates=True)
    dealt = [*range(0, N, 4), *range(1, N, 4), *range(2, N, 4), *range(3, N, 4)]
    assert np.array_equal(imported["logits"], Z[dealt]) and np.array_equal(
        imported["labels"], Y[dealt]
    )
    assert (
        "last rows of the last 2 files repeat first ones: left out" in imported["notes"]
    )
    report = import_scores(files, out, ImportRequest(), force=True)
    assert any(
        "look like shards of one data set; --join" in note for note in report.notes
    )


def test_members_of_an_ensemble_are_no_shards(tmp_path, out):
    for seed in range(2):
        np.savez(tmp_path / f"seed{seed}.npz", logits=Z + seed, labels=Y)
    files = sorted(tmp_path.glob("seed*.npz"))
    with pytest.raises(
        DataError,
        match=r"seed1.npz: has the labels of .*seed0.npz row by row.*leave out --join",
    ):
        bring(files, out, join=True)
    assert len(import_scores(files, out, ImportRequest(), force=True).bundles) == 2


def test_without_ids_files_come_in_natural_order(tmp_path, out):
    for part in range(N):
        np.save(tmp_path / f"logits_part{part + 1}_of_{N}.npy", Z[part : part + 1])
        np.save(tmp_path / f"labels_part{part + 1}_of_{N}.npy", Y[part : part + 1])
    imported = bring(sorted(tmp_path.glob("*.npy")), out, join=True)
    assert np.array_equal(imported["logits"], Z) and np.array_equal(
        imported["labels"], Y
    )
    assert "no ids to check it by" in imported["notes"]
    with pytest.raises(UsageError, match="no ids to tell rows by"):
        bring(sorted(tmp_path.glob("*.npy")), out, join=True, drop_duplicates=True)


def test_files_that_do_not_fit_together_are_named(tmp_path, out):
    np.savez(tmp_path / "a.npz", logits=Z, labels=Y)
    np.savez(tmp_path / "b.npz", logits=Z[:, :2], labels=Y % 2)
    with pytest.raises(DataError, match=r"b\.npz: logits: has shape \(10, 2\)"):
        bring([tmp_path / "a.npz", tmp_path / "b.npz"], out, join=True)
    np.savez(tmp_path / "b.npz", logits=Z)
    with pytest.raises(DataError, match=r"b\.npz: has no array 'labels'"):
        bring([tmp_path / "a.npz", tmp_path / "b.npz"], out, join=True)


def test_repeated_rows_are_refused_without_a_join_too(tmp_path, out):
    z, y, ids = Z.copy(), Y.copy(), np.r_[np.arange(N - 1), 3]
    z[9], y[9] = z[3] * (1 + 1e-6), y[3]  # as computed in another batch
    np.savez(tmp_path / "a.npz", logits=z, labels=y, ids=ids)
    with pytest.raises(
        DataError,
        match="row 9 has the id '3' of an earlier row, and its scores and label",
    ):
        bring(tmp_path / "a.npz", out)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("kind", ["logits", "confidence"])
def test_rows_of_one_id_with_other_scores_belong_together(tmp_path, out, kind, drop):
    """Detections of an image: 40 rows of 8 images, two of which are alike by chance."""
    rng = np.random.default_rng(0)
    z, y, image = (
        rng.normal(size=(40, K)).astype(np.float32),
        rng.integers(0, K, 40),
        np.arange(40) // 5,
    )
    z[1], y[1] = z[0], y[0]
    arrays = (
        {"logits": z, "labels": y}
        if kind == "logits"
        else {"confidence": rng.random(40), "correct": y % 2}
    )
    np.savez(tmp_path / "a.npz", ids=image, **arrays)
    imported = bring(tmp_path / "a.npz", out, drop_duplicates=drop)
    assert "rows of one id belong together" in imported["notes"]
    alike = drop and kind == "logits"
    assert ("dropped 1 row with the id" in imported["notes"]) == alike
    assert len(imported["labels" if kind == "logits" else "correct"]) == 40 - alike


def test_the_writer_of_lightning(sample, out):
    pytest.importorskip("torch")
    folder = sample("made/lightning")
    imported = bring([folder], out, join=True, no_labels=True, kind="logits")
    assert imported["ids"].tolist() == list(range(10))
    first = bring(folder / "predictions_0.pt", out, no_labels=True, kind="logits")[
        "logits"
    ]
    assert np.array_equal(imported["logits"][::2], first), "rank 0 has the even rows"


# ---- folders, pipes, gzip


def test_labels_of_another_split_are_not_taken():
    with pytest.raises(
        DataError, match="found no labels for 'val/logits'; name them with --labels"
    ):
        plan(["val/logits", "test/labels"], ImportRequest(), "x")
    paths = ["val_outputs", "val_targets", "test_outputs"]
    with pytest.raises(
        DataError,
        match="found no labels for 'test_outputs'; name them with --labels NAME ",
    ):
        # it proposed the other scores
        plan(paths, ImportRequest(kind="logits", scores=(paths[0], paths[2])), "x")
    (reading,) = plan(["val/logits", "labels"], ImportRequest(), "x")
    assert reading.labels == "labels"


def test_only_several_files_of_several_arrays_become_folders():
    def made(name, *arrays, loose=False):
        return Table.of(Path(name), "npz", dict.fromkeys(arrays, list), is_single=loose)

    assert list(
        unite([made("a.npz", "logits", "ids"), made("y.npy", "y", loose=True)])
    ) == ["logits", "ids", "y"]
    assert list(unite([made("x.npy", "x", loose=True), made("y.npy", "y", loose=True), made("a.npz", "ids")])) == [
        "x", "y", "ids",
    ]  # fmt: skip
    assert list(unite([made("a.npz", "logits"), made("b.npz", "logits")])) == [
        "a/logits",
        "b/logits",
    ]


def test_containers_nested_too_deeply_are_refused():
    deep = np.zeros(1)
    for _ in range(70):
        deep = [deep]
    with pytest.raises(DataError, match="nested too deeply"):
        flatten(deep, lambda item: isinstance(item, np.ndarray), "x")
    deep = np.zeros(1)
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(DataError, match="nested too deeply"):
        merge_batches(deep, Path("x"))
    assert list(
        flatten([[np.zeros(1)]], lambda item: isinstance(item, np.ndarray), "x")
    ) == ["0/0"]


def test_classes_that_only_a_part_lacks_are_told(tmp_path, out):
    """Of three classes the source has 0 and 1, its last half only 1."""
    np.savez(tmp_path / "a.npz", logits=Z, labels=np.repeat([0, 1], N // 2))
    parts = Splitting((parse_split(f"a=:{N // 2 + 1}"), parse_split("b=rest")))
    notes = import_scores([tmp_path / "a.npz"], out, ImportRequest(), parts).notes
    assert [note for note in notes if "have no row here" in note] == [
        "b: 2 of 3 classes have no row here (1 have none in the source)"
    ]


def test_labels_to_leave_out_need_labels(tmp_path, out):
    np.savez(tmp_path / "a.npz", logits=Z)
    asked = ImportRequest(no_labels=True)
    (bundle,) = import_scores(
        [tmp_path / "a.npz"], out, asked, ignore_labels=[-1]
    ).bundles
    assert (bundle.n, bundle.labelled) == (N, False)


def test_what_is_said_of_the_gold_file_is_heard_too(tmp_path, out):
    """One log: how every file was read, whichever function read it, in the order of reading."""
    np.savez(tmp_path / "a.npz", logits=Z, ids=np.arange(N))
    lines = "\n".join(f"{i},{i},{Y[i]}" for i in range(N))
    (tmp_path / "gold.csv").write_text(f",id,answer\n{lines}\n")
    notes = import_scores(
        [tmp_path / "a.npz"], out, ImportRequest(gold=str(tmp_path / "gold.csv"))
    ).notes
    assert notes[0] == "Read a.npz: 10 samples, 3 classes ('logits', 'answer', 'ids')."
    assert (
        "the first column, without a name, counts the rows and was left out" in notes[1]
    )
    assert sum("read as the gold" in note for note in notes) == 1
    with remarks() as outer:
        with remarks() as inner:
            remark("a")
        remark("b")
    assert (inner, outer) == (["a"], ["b"])


def test_the_word_of_the_column_is_class_1_whatever_the_alphabet_says():
    with remarks() as told:
        read = to_labels(np.array(["ill", "well", "ill"]), 3, 2, None, "x", "ill")
    assert read.labels.tolist() == [1, 0, 1] and read.class_names == ["well", "ill"]
    assert not read.is_by_alphabet
    assert told == ["x: 'ill' was read as class 1, 'well' as class 0"]


def test_members_of_a_zip_are_told_and_nothing_else_has_any(tmp_path):
    np.savez(tmp_path / "a.npz", logits=Z)
    np.save(tmp_path / "a.npy", Z)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:100])
    found = [
        SourceFile(tmp_path / name).members for name in ("a.npz", "a.npy", "cut.npz")
    ]
    assert found == [["logits.npy"], None, None]


@pytest.mark.parametrize(
    ("names", "nearest"),
    [
        (("labels", "runs/labels", "runs/a/labels"), "runs/a/labels"),
        (("labels", "runs/labels", "other/labels"), "runs/labels"),
        (("labels", "other/labels", "runs/b/labels"), "labels"),
    ],
)
def test_labels_of_the_nearest_folder_belong_to_the_scores(names, nearest):
    for order in (names, names[::-1]):
        (reading,) = plan(["runs/a/logits", *order], ImportRequest(), "x")
        assert reading.labels == nearest


def test_a_folder_is_the_files_in_it(tmp_path, out):
    for split, rows in (("val", slice(0, 6)), ("test", slice(6, N))):
        (tmp_path / "run" / split).mkdir(parents=True)
        np.save(tmp_path / "run" / split / "predictions.npy", Z[rows])
        np.save(tmp_path / "run" / split / "targets.npy", Y[rows])
    report = import_scores([tmp_path / "run"], out, ImportRequest(kind="logits"))
    assert [(b.name, b.n) for b in report.bundles] == [("test", 4), ("val", 6)]
    with pytest.raises(DataError, match="is a folder without any file of scores"):
        (tmp_path / "none").mkdir()
        import_scores([tmp_path / "none"], out, force=True)


def test_parts_of_one_table_have_the_command_that_joins_them(
    tmp_path, monkeypatch, capsys
):
    """Spark writes a table so; ``calcli inspect`` was proposed."""
    monkeypatch.chdir(tmp_path)
    run = runner(monkeypatch, capsys)
    (tmp_path / "made").mkdir()
    for part in range(3):
        rows = "".join(f"{i % 2},{i},{part}\n" for i in range(4))
        path = tmp_path / "made" / f"part-{part:05}-c000.csv"
        path.write_text(f"label,logits_a,logits_b\n{rows}")
    (tmp_path / "made" / "_SUCCESS").touch()
    command = "calcli extract made --join -o made.h5"
    assert run("evaluate", "made").line.endswith(f"; to try: {command}")
    assert run(*command.split()[1:]).code == 0
    with h5py.File("made.h5") as file:
        assert file["logits"][:, 1].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    (tmp_path / "made" / "other.csv").write_text("label,logits_a,logits_b\n0,1,2\n")
    assert run("evaluate", "made").line.endswith("; to try: calcli inspect made")


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("ending", PACKERS)
def test_packed_tables_and_broken_ones(tmp_path, out, ending):
    pack = PACKERS[ending]
    packed = tmp_path / f"t.csv.{ending}"
    text = "label,logits_a,logits_b\n" + "".join(
        f"{i % 2},{i},{i / 2}\n" for i in range(50)
    )
    packed.write_bytes(pack(text.encode()))
    assert bring(packed, out)["logits"].shape == (50, 2)
    packed.write_bytes(pack(text.encode())[:-20])
    with pytest.raises(DataError, match=rf"t\.csv\.{ending}: cannot be unpacked"):
        bring(packed, out)
    packed.write_bytes(pack(b"0" * 65 * 2**20))  # refused as 65 MiB of nothing
    with pytest.raises(DataError, match=r"far more than scores shrink by"):
        bring(packed, out)


@pytest.mark.parametrize("ending", PACKERS)
def test_files_packed_in_several_streams(tmp_path, out, ending):
    """As pbzip2 and ``cat`` write them. A broken second stream had been left out."""
    pack = PACKERS[ending]
    packed = tmp_path / f"t.csv.{ending}"
    head = "label,logits_a,logits_b\n"
    lines = [f"{i % 2},{i},{i / 2}\n" for i in range(20000)]
    streams = [
        pack((head + "".join(lines[:15000])).encode()),
        pack("".join(lines[15000:]).encode()),
    ]
    packed.write_bytes(b"".join(streams))
    assert bring(packed, out)["logits"][:, 0].tolist() == list(range(20000))
    packed.write_bytes(streams[0] + bytes(8) + streams[1] + bytes(4))  # with padding
    assert bring(packed, out)["logits"].shape == (20000, 2)
    for second in (b"\1" + streams[1][1:], streams[1][:-3], streams[1][:5], b"more"):
        packed.write_bytes(streams[0] + second)
        with pytest.raises(DataError, match=rf"t\.csv\.{ending}: cannot be unpacked"):
            bring(packed, out)


def test_xz_files_ask_for_no_more_memory_than_xz_itself_makes_use_of(tmp_path, out):
    """The header of a file of a few bytes may ask for 4 GiB (byte 40 of its code).

    The block header of the .xz file format, section 3.1: size, flags, filter 0x21, one
    byte of properties, which is the size of the dictionary, padding, and its CRC32.
    """
    import lzma

    text = "label,logits_a,logits_b\n" + "".join(f"{i % 2},{i},0\n" for i in range(9))
    content = bytearray(lzma.compress(text.encode()))
    assert content[14:16] == b"\x21\x01"
    content[16] = 40
    content[20:24] = zlib.crc32(bytes(content[12:20])).to_bytes(4, "little")
    packed = tmp_path / "t.csv.xz"
    packed.write_bytes(content)
    with pytest.raises(DataError, match=r"t\.csv\.xz: cannot be unpacked.*[Mm]emory"):
        bring(packed, out)


@pytest.mark.parametrize("ending", PACKERS)
def test_packed_json_lines_in_a_folder(tmp_path, out, ending):
    lines = "".join(
        json.dumps({"logits": [i, i / 2], "label": i % 2}) + "\n" for i in range(50)
    )
    (tmp_path / "made").mkdir()
    packed = tmp_path / "made" / f"t.jsonl.{ending}"
    packed.write_bytes(PACKERS[ending](lines.encode()))
    assert bring(tmp_path / "made", out)["logits"].shape == (50, 2)


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input_is_a_source(tmp_path, name):
    text = "label,logits_a,logits_b\n1,0.5,2\n0,1,-1\n"
    done = process("extract", name, "-o", "out.h5", cwd=tmp_path, stdin=text)
    assert (done.code, done.out) == (0, "out.h5\n"), done.err
    bad = process("extract", name, "-o", "bad.h5", cwd=tmp_path, stdin="label,a\n1\n")
    assert bad.code == 3 and bad.line.startswith(
        "calcli: stdin: cannot be read as a table"
    )


def test_a_zip_of_npy_pairs(tmp_path, out):
    import io
    import zipfile

    with zipfile.ZipFile(tmp_path / "pairs.zip", "w") as archive:
        for name, array in (("net/val_logits.npy", Z), ("net/val_labels.npy", Y)):
            buffer = io.BytesIO()
            np.save(buffer, array)
            archive.writestr(name, buffer.getvalue())
    report = import_scores([tmp_path / "pairs.zip"], out)
    assert [(b.name, b.n, b.labelled) for b in report.bundles] == [("val", N, True)]


# ---- (confidence, correct)


def test_confidences_and_whether_they_are_right(tmp_path, out):
    (tmp_path / "t.csv").write_text(
        "id,prob,is_correct\na,0.75,True\nb,0.5,False\nc,1,True\n"
    )
    with pytest.raises(DataError, match="--confidence prob --correct is_correct"):
        bring(tmp_path / "t.csv", out)
    imported = bring(tmp_path / "t.csv", out, confidence="prob", correct="is_correct")
    assert imported["confidence"].tolist() == [0.75, 0.5, 1]
    assert imported["correct"].tolist() == [True, False, True]
    assert imported["correct"].dtype == bool
    assert set(imported) == {"confidence", "correct", "ids", "notes"}
    assert "(2 of 3)" in imported["notes"]


@pytest.mark.parametrize(
    "words", [("wrong", "right"), ("I", "C"), ("0", "1"), ("False", "True")]
)
def test_right_and_wrong_may_be_words(tmp_path, out, words):
    (tmp_path / "t.csv").write_text(
        "conf,correct\n" + "".join(f"0.5,{words[i % 2]}\n" for i in range(4))
    )
    imported = bring(tmp_path / "t.csv", out, confidence="conf", correct="correct")
    assert imported["correct"].tolist() == [False, True, False, True]


def test_where_prediction_and_label_agree(tmp_path, out):
    np.savez(
        tmp_path / "cifar10.npz",
        pred=[0, 1, 2, 2],
        conf=[0.5, 0.6, 0.7, 0.8],
        label=[0, 2, 2, -1],
    )
    with pytest.raises(DataError, match="--confidence conf --correct pred=label"):
        bring(tmp_path / "cifar10.npz", out)
    imported = bring(
        tmp_path / "cifar10.npz", out, confidence="conf", correct="pred=label"
    )
    assert imported["correct"].tolist() == [True, False, True, False]
    report = import_scores(
        [tmp_path / "cifar10.npz"],
        out,
        ImportRequest(confidence="conf", correct="pred=label"),
        ignore_labels=[-1],
        force=True,
    )
    assert report.bundles[0].n == 3


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        (
            [0.5, 85],
            [1, 0],
            r"row 1 is 85, expected a confidence in \[0, 1\]; divide percentages by 100",
        ),
        ([0.5, np.nan], [1, 0], "row 1 is nan"),
        ([0.5, 0.5], [1, 2], r"row 1 has label 2"),
        ([0.5, 0.5], [1, 0.5], "row 1 has label 0.5"),
        ([0.5, 0.5], [1, 0, 1], "3 labels for 2 rows"),
    ],
)
def test_what_is_no_confidence_is_refused(tmp_path, out, confidence, correct, message):
    np.savez(
        tmp_path / "a.npz",
        confidence=np.array(confidence, float),
        correct=np.array(correct),
    )
    with pytest.raises(DataError, match=message):
        bring(tmp_path / "a.npz", out, confidence="confidence", correct="correct")


def test_confidences_are_split_stratified_by_whether_they_are_right(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", confidence=np.linspace(0, 1, 100), correct=np.arange(100) < 30)
    run = runner(monkeypatch, capsys)
    words = (
        "--confidence",
        "confidence",
        "--correct",
        "correct",
        "--split",
        "cal=0.5",
        "--split",
        "test=0.5",
    )
    done = run("extract", "a.npz", *words, "-o", "a.h5")
    assert done.code == 0, done.err
    assert "a.h5:cal: 50 rows of (confidence, correct), float64" in done.err
    with h5py.File("a.h5") as file:
        assert file["cal/correct"][()].sum() == file["test/correct"][()].sum() == 15


def test_shards_of_one_score_a_row_may_have_either_shape(tmp_path):
    """(n,) and (n, 1) were not alike."""
    z = Z[:, 0]
    np.savez(tmp_path / "a.npz", logits=z[:5], labels=Y[:5, None] % 2)
    np.savez(tmp_path / "b.npz", logits=z[5:, None], labels=Y[5:] % 2)
    import_scores(
        [tmp_path / "a.npz", tmp_path / "b.npz"],
        tmp_path / "o.h5",
        ImportRequest(join=True),
    )
    with h5py.File(tmp_path / "o.h5") as file:
        np.testing.assert_array_equal(
            file["logits"][()].reshape(-1)[-N:]
            if file["logits"].ndim == 1
            else file["logits"][:, 1],
            z,
        )
        np.testing.assert_array_equal(file["labels"][()], Y % 2)


def test_classes_by_rows_are_seen_whatever_the_shape_of_the_labels(tmp_path):
    """As MATLAB writes them, (k, n) and (1, n): the labels were to be (k,)."""
    np.savez(tmp_path / "a.npz", logits=Z.T, labels=Y[None])
    with pytest.raises(DataError, match="classes on the first axis"):
        import_scores([tmp_path / "a.npz"], tmp_path / "o.h5", ImportRequest())


@pytest.mark.parametrize("name", ["logits", "scores"])
def test_classes_on_the_first_axis_are_read_by_the_command_of_the_refusal(
    tmp_path, name
):
    """The kind of numbers without a name is proven after they are turned."""
    p = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    source = tmp_path / "a.npz"
    np.savez(source, **{name: Z.T if name == "logits" else p.T}, labels=Y)
    with pytest.raises(CalcliError) as refused:
        import_scores([source], tmp_path / "o.h5", ImportRequest())
    (command,) = refused.value.commands
    assert command[3:5] == ("--class-axis", "0")
    import_scores([source], tmp_path / "o.h5", ImportRequest(class_axis=0))
    expected, kind = (Z, "logits") if name == "logits" else (p, "probs")
    with h5py.File(tmp_path / "o.h5") as file:
        np.testing.assert_allclose(file[kind][()], expected, atol=1e-7)
        np.testing.assert_array_equal(file["labels"][()], Y)


def test_the_first_axis_is_no_axis_of_classes_in_a_table(tmp_path):
    """Columns of a table are classes already."""
    header = ",".join(f"logit_{k}" for k in range(Z.shape[1]))
    table = np.column_stack([Z, Y])
    text = [f"{header},label", *(",".join(map(str, row)) for row in table.tolist())]
    (tmp_path / "a.csv").write_text("\n".join(text).replace(".0\n", "\n"))
    with pytest.raises(UsageError, match="--class-axis 0: .*expected one from 1"):
        import_scores(
            [tmp_path / "a.csv"], tmp_path / "o.h5", ImportRequest(class_axis=0)
        )


# ---- calibrators that have been applied to the files


def calibrated(run, ending):
    """Three files of calibrated rows, a.ENDING by ts, b.ENDING by vs, c.ENDING by ts."""
    for seed, name in enumerate("fabc"):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 3, 60)
        np.savez(
            f"{name}.npz",
            logits=2.0 * np.eye(3)[y] + rng.normal(size=(60, 3)),
            labels=y,
        )
    for method in ("ts", "vs"):
        assert run("fit", "f.npz", "-m", method, "-o", f"{method}.json", "-q").code == 0
    for name, method in (("a", "ts"), ("b", "vs"), ("c", "ts")):
        words = ("apply", f"{method}.json", f"{name}.npz", "-o", f"{name}_p.{ending}")
        assert run(*words, "-q").code == 0
    return [f"{name}_p.{ending}" for name in "abc"]


@pytest.mark.parametrize("ending", ["h5", "npz", "parquet", "csv", "jsonl"])
def test_files_with_different_pasts_are_not_joined(ending, run):
    by_ts, by_vs, again = calibrated(run, ending)
    refused = run("extract", by_ts, by_vs, "--join", "-o", "j.h5")
    assert refused.code == 3
    assert f"{by_vs}: is calibrated by vs (" in refused.err
    assert f"{by_ts} is calibrated by ts (" in refused.err
    assert run("extract", by_ts, again, "--join", "-o", "j.h5", "-q").code == 0
    done = run("inspect", "j.h5", "--json")
    links = json.loads(done.out)["bundles"][0]["calibrated_by"]
    assert [link["method"] for link in links] == ["ts"]
    assert run("fit", "j.h5", "-o", "x.json", "-q").code == 0
    assert run("apply", "ts.json", "j.h5", "-o", "o.h5").code == 3  # twice


@pytest.mark.parametrize("ending", ["h5", "npz", "parquet", "csv", "jsonl"])
def test_an_uncalibrated_file_does_not_hide_a_calibrated_one(ending, run):
    by_ts, *_ = calibrated(run, ending)
    raw = f"_raw.{ending}"  # the same columns without the record of the calibrator
    if ending in ("csv", "jsonl"):
        text = Path(by_ts).read_text()
        mark = re.search(r"ts:[0-9a-f]{16}", text)[0]
        text = text.replace(f",{mark}", "").replace(",calibrated_by", "")
        Path(raw).write_text(text.replace(f',"calibrated_by":"{mark}"', ""))
    elif ending == "npz":
        with np.load(by_ts) as arrays:
            kept = {name: arrays[name] for name in arrays if "calibra" not in name}
        np.savez(raw, **kept)
    elif ending == "parquet":
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pq.read_table(by_ts).replace_schema_metadata({}), raw)
    else:
        with h5py.File(by_ts) as one, h5py.File(raw, "w") as other:
            for name in one:
                other[name] = one[name][()]
    refused = run("extract", raw, by_ts, "--join", "-o", "j.h5")
    assert refused.code == 3
    assert f"{by_ts}: is calibrated by ts (" in refused.err
    assert (
        f"{raw} is uncalibrated; files that are joined must agree in it" in refused.err
    )


def test_a_part_that_was_fitted_on_is_said_of_the_joined_rows(run):
    """As of bundles that are pooled: the record of one file stood for all rows."""
    calibrated(run, "h5")
    assert run("apply", "ts.json", "f.npz", "-o", "d_p.h5", "-q").code == 0
    assert run("extract", "a_p.h5", "d_p.h5", "--join", "-o", "j.h5", "-q").code == 0
    done = run("evaluate", "j.h5")
    assert "ts was fitted on some of these rows" in done.out


@pytest.mark.parametrize(
    ("head", "as_words"),
    [
        ("id,cat,dog,fox,label", True),
        ("id,cat,dog,fox,species", True),
        ("id,a,b,c,target", False),
    ],
)
def test_tables_that_are_read_alone_are_read_joined(run, head, as_words):
    """Columns named after classes, or left over, were asked for once there were two."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(3), 120)
    y = np.array([rng.choice(3, p=row) for row in p])
    labels = np.array(["cat", "dog", "fox"])[y] if as_words else y
    for name, rows in (("a.csv", range(60)), ("b.csv", range(60, 120))):
        lines = [head]
        for row in rows:
            scores = ",".join(map(repr, p[row].tolist()))
            lines.append(f"q{row},{scores},{labels[row]}")
        Path(name).write_text("\n".join(lines) + "\n", "utf-8")
    alone = run("extract", "a.csv", "-o", "alone.h5")
    assert alone.code == 0, alone.err
    joined = run("extract", "a.csv", "b.csv", "--join", "-o", "joined.h5")
    assert joined.code == 0, joined.err
    with h5py.File("joined.h5") as file:
        np.testing.assert_array_equal(file["probs"], p)
        np.testing.assert_array_equal(file["labels"], y)
