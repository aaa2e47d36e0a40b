"""What one slip of the pen in reading foreign files would move: pairs of columns, repeats, scalars, several splits."""

import importlib
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from pickle import UnpicklingError

import h5py
import numpy as np
import pytest
from imports import bring

from calcli.errors import DataError, UsageError
from calcli.importers.arranging.token_classes import by_token
from calcli.importers.arranging.token_confidences import token_rows
from calcli.importers.building.dealing import Splitting
from calcli.importers.formats import open_table
from calcli.importers.import_request import ImportRequest
from calcli.importers.import_scores import import_scores
from calcli.importers.joining.missing import in_order
from calcli.importers.json_columns import column_of_cells
from calcli.importers.names.array_names import LEFT_OVER
from calcli.importers.nested import _join, flatten, merge_batches
from calcli.importers.pickled import _tensor
from calcli.importers.remarks import reading
from calcli.importers.sources import settle_sources
from calcli.importers.table import Column, Mapped
from calcli.importers.torch_tensors import _Anything
from calcli.io.split import deal_rows, parse_split
from calcli.io.validate import check_confidences


def brought(tmp_path, text, name="t.csv", splitting=Splitting(), **ask):
    """Every dataset of what a text is imported to, by its path."""
    (tmp_path / name).write_text(text)
    return bring(tmp_path / name, tmp_path / "out.h5", splitting, **ask)


def entry_of(values):
    return Column(Path("a.npz"), "a", lambda: values)


def test_a_bundle_whose_name_promises_another_format_is_refused(tmp_path):
    """It was HDF5 in a file called .csv, with exit 0."""
    source = tmp_path / "t.csv"
    source.write_text("logit_0,logit_1,label\n-1.0,2.0,1\n3.0,1.5,0\n")
    for name in ("out.csv", "out.NPZ"):
        with pytest.raises(UsageError, match="bundles are HDF5, expected a name"):
            import_scores([source], tmp_path / name)
        assert not (tmp_path / name).exists()
    for name in ("out.h5", "out.hdf5", "out"):
        assert import_scores([source], tmp_path / name).bundles


def test_two_columns_that_count_are_one_array(tmp_path):
    text = "0,1\n0.25,0.75\n0.5,0.5\n1.0,0.0\n"
    (tmp_path / "y.csv").write_text("1\n0\n0\n")
    (tmp_path / "probs.csv").write_text(text)
    report = import_scores(
        [tmp_path / "probs.csv", tmp_path / "y.csv"], tmp_path / "out.h5"
    )
    assert [(b.kind, b.n, b.k) for b in report.bundles] == [("probs", 3, 2)]


def test_rows_go_to_the_split_that_their_column_names(tmp_path):
    found = brought(
        tmp_path, "y,logits_0,logits_1,split\n0,1,2,cal\n1,3,4,test\n1,5,6,cal\n"
    )
    assert found["cal/logits"].tolist() == [[1, 2], [5, 6]]
    assert (found["cal/labels"].tolist(), found["test/labels"].tolist()) == (
        [0, 1],
        [1],
    )


def test_rows_of_ignored_labels_are_left_out_and_the_rest_are_split(tmp_path):
    (tmp_path / "t.csv").write_text(
        "y,logits_0,logits_1\n"
        + "".join(f"{i % 2},{i},1\n" for i in range(8))
        + "255,9,9\n"
    )
    parts = Splitting(
        tuple(parse_split(text) for text in ("a=0:3", "b=rest")),
        texts=("a=0:3", "b=rest"),
    )
    report = import_scores(
        [tmp_path / "t.csv"], tmp_path / "out.h5", splitting=parts, ignore_labels=(255,)
    )
    assert [(b.name, b.n) for b in report.bundles] == [("a", 3), ("b", 5)]
    assert any("1 of 9 rows left out by their labels" in note for note in report.notes)


@pytest.mark.parametrize(("stratify", "labelled", "word"), [
    (True, True, "stratified"), (True, False, "shuffled"), (False, True, "shuffled"), (False, False, "shuffled"),
])  # fmt: skip
def test_how_rows_are_dealt(stratify, labelled, word):
    part = parse_split("a=0.5")
    splitting = Splitting((part,), seed=3, stratify=stratify, texts=("a=0.5",))
    assert splitting.method(labelled) == word
    assert splitting.record("a", labelled) == {
        "groups": ["a=0.5"],
        "method": word,
        "name": "a",
        "seed": 3,
    }
    assert Splitting((part,), ordered=True).record("a", labelled) == {
        "groups": [],
        "method": "ordered",
        "name": "a",
    }
    labels = np.arange(8) % 2 if labelled else None
    if stratify and not labelled:
        with pytest.raises(UsageError, match="no labels to stratify"):
            splitting.deal(8, labels, "here")
    else:
        assert len(splitting.deal(8, labels, "here")["a"]) == 4


def test_positions_overlap_with_the_first_group_too():
    parts = [parse_split(text) for text in ("a=0:4", "b=3:6")]
    with pytest.raises(UsageError, match="groups a and b share rows"):
        deal_rows(parts, 8)
    dealt = deal_rows([parse_split(text) for text in ("a=0:4", "b=6:", "c=rest")], 8)
    assert [dealt[name].tolist() for name in "abc"] == [[0, 1, 2, 3], [6, 7], [4, 5]]


def test_only_what_has_a_value_per_row_is_put_in_order():
    order = np.array([2, 0, 1])
    load = lambda role, values: in_order(role, entry_of(values), order).load().tolist()  # noqa: E731
    assert load("ids", np.array([7, 8, 9])) == [9, 7, 8]
    assert load("ids", np.float64(3.0)) == 3.0
    assert load("weights", np.arange(4)) == [0, 1, 2, 3]
    assert load("class_names", np.array([7, 8, 9])) == [7, 8, 9]
    assert load("transformed_logits", np.arange(6).reshape(2, 3)) == [
        [2, 0, 1],
        [5, 3, 4],
    ]


def test_lists_of_words_and_numbers_are_no_scores(tmp_path):
    with pytest.raises(DataError, match="hold something that is no number"):
        brought(
            tmp_path,
            '{"logits": [1, "a"], "y": 0}\n{"logits": [1, "b"], "y": 1}\n',
            "t.jsonl",
        )


def test_one_array_that_a_list_holds_twice_is_no_batch():
    a, b = np.zeros((2, 3)), np.ones((1, 3))
    assert _join([a, a], False, Path("a.pkl")) is None
    assert _join([a, b], False, Path("a.pkl")).shape == (3, 3)
    assert _join([a, "x"], False, Path("a.pkl")) is None


def test_files_of_a_folder_are_known_by_either_ending(tmp_path):
    folder = tmp_path / "f"
    folder.mkdir()
    for name in ("a.csv", "b.CSV", "c.log", ".d.csv", "e.csv.bak"):
        (folder / name).write_text("label,logits_0,logits_1\n0,1,2\n")
    import gzip

    (folder / "g.csv.gz").write_bytes(
        gzip.compress(b"label,logits_0,logits_1\n0,1,2\n")
    )
    (folder / "h.log.gz").write_bytes(gzip.compress(b"nothing"))
    with ExitStack() as stack:
        settled = settle_sources([folder], stack)
        assert sorted(path.name for path in settled.files) == [
            "a.csv",
            "b.CSV",
            "g.csv",
        ]
        (folder / "g.csv.gz").rename(folder / ".gz")
        (unpacked,) = settle_sources([folder / ".gz"], stack).files
        assert unpacked.read_text() == "label,logits_0,logits_1\n0,1,2\n"


@pytest.mark.parametrize(
    ("slip", "own"),
    [
        (lambda: misspelt, True),  # noqa: F821
        (lambda: ImportRequest().scroes, True),
        (lambda: importlib.import_module("calcli.importers.sequence"), True),
        (lambda: {"samples": 5}["samples"].get("id"), False),
        (
            lambda: _Anything().add,
            False,
        ),  # what a pickle may ask of what stands in its place
        (lambda: np.zeros(3)[9], False),
    ],
)
def test_a_slip_of_our_own_is_no_broken_file(slip, own):
    with (
        pytest.raises((NameError, AttributeError, ImportError) if own else DataError),
        reading(Path("a.pt"), "it"),
    ):
        slip()


def test_a_container_within_itself_is_refused_and_one_in_two_places_is_not():
    loop = []
    loop.append(loop)
    is_array = lambda item: isinstance(item, np.ndarray)  # noqa: E731
    with pytest.raises(DataError, match="nested too deeply"):
        flatten({"a": loop}, is_array, "here")
    shared = {"x": np.zeros(1)}
    assert set(flatten({"a": shared, "b": shared}, is_array, "here")) == {"a/x", "b/x"}


def test_an_option_that_no_source_looks_at_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", logits=np.eye(2), labels=np.arange(2))
    with pytest.raises(
        UsageError,
        match="--normalize is for lm-eval, lighteval, lm-eval-write-out; read was npz",
    ):
        import_scores(
            [tmp_path / "a.npz"], tmp_path / "o.h5", ImportRequest(normalize="chars")
        )


@pytest.mark.parametrize("rows_per_chunk", [4, 2])
def test_lists_of_parquet_are_rows_whatever_their_chunks(tmp_path, rows_per_chunk):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    z = np.arange(12.0).reshape(4, 3)
    table = pyarrow.table({"logits": z.tolist(), "label": [0, 1, 2, 0]})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=rows_per_chunk)
    report = import_scores([tmp_path / "t.parquet"], tmp_path / "o.h5")
    assert [(b.n, b.k) for b in report.bundles] == [(4, 3)]
    with h5py.File(tmp_path / "o.h5") as file:
        assert np.array_equal(file["logits"], z)


@pytest.mark.parametrize(
    ("values", "advised"),
    [
        ((0, 50, 90), True),
        ((-1, 50, 90), False),
        ((0.5, 0.9, 20), False),
        ((0.5, 0.9, 20.5), True),
    ],
)
def test_percentages_are_told_from_other_numbers(values, advised):
    with pytest.raises(DataError, match=r"expected a confidence in \[0, 1\]") as found:
        check_confidences(np.array(values, dtype=float), "t.csv")
    assert ("divide percentages by 100" in str(found.value)) == advised


def test_an_arrow_table_whose_texts_are_no_text_is_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parts = [
        None,
        pyarrow.py_buffer(np.arange(4, dtype=np.int32)),
        pyarrow.py_buffer(b"a\xffb"),
    ]  # 0xff is in no UTF-8
    words = pyarrow.Array.from_buffers(pyarrow.string(), 3, parts)
    table = pyarrow.table(
        {"confidence": [0.5, 0.6, 0.7], "correct": [1, 0, 1]}
    ).append_column("word", words)
    with (
        pyarrow.OSFile(str(tmp_path / "t.arrow"), "wb") as file,
        pyarrow.ipc.new_stream(file, table.schema) as writer,
    ):
        writer.write_table(table)
    with pytest.raises(
        DataError,
        match=r"t\.arrow: cannot read it as arrow: .*; is the file complete\?",
    ):
        import_scores([tmp_path / "t.arrow"], tmp_path / "o.h5")


def test_one_column_that_is_left_over_is_no_array_of_classes(tmp_path):
    (tmp_path / "one.csv").write_text("label,cat\n0,1.5\n1,2.5\n")
    (tmp_path / "two.csv").write_text("label,cat,dog\n0,1.5,0\n1,2.5,1\n")
    with ExitStack() as stack:
        assert LEFT_OVER not in open_table(tmp_path / "one.csv", stack).columns
        assert LEFT_OVER in open_table(tmp_path / "two.csv", stack).columns


def test_other_cases_of_a_class_are_known_where_they_leave_no_doubt():
    found = by_token(["yes", "No", "a", "A"])
    assert {token: found[token] for token in ("yes", "Yes", "YES", "no", "NO", "a", "A")} == {
        "yes": 0, "Yes": 0, "YES": 0, "no": 1, "NO": 1, "a": 2, "A": 3,
    }  # fmt: skip
    assert len(by_token(["ab", "aB"])) == 2


@pytest.mark.parametrize(
    "around",
    [lambda inner: [inner], lambda inner: {"a": inner}],
    ids=["lists", "dicts"],
)
def test_containers_nested_without_end_are_refused(around):
    nested = around(np.zeros(2))
    for _ in range(5000):
        nested = around(nested)
    with pytest.raises(DataError, match="nested too deeply"):
        merge_batches(nested, Path("a.pt"))


def test_tensors_of_pickles_lie_in_one_piece():
    storage = np.arange(30.0)
    assert np.array_equal(
        _tensor(storage, 6, (2, 3, 4), (12, 4, 1)).content,
        storage[6:30].reshape(2, 3, 4),
    )
    assert _tensor(storage, 0, (2, 1, 3), (3, 99, 1)).content.shape == (2, 1, 3), (
        "one long, its stride says nothing"
    )
    for strides in ((1, 2), (3, 2)):
        with pytest.raises(UnpicklingError, match="does not lie in one piece"):
            _tensor(storage, 0, (2, 3), strides)
        with pytest.raises(UnpicklingError, match="does not lie in one piece"):
            _tensor(storage, 0, (3, 2), strides)


def test_lists_among_numbers_are_no_column():
    assert column_of_cells(Path("t.json"), "x", [1, 2]).load().tolist() == [1, 2]
    with pytest.raises(DataError, match="t.json"):
        column_of_cells(Path("t.json"), "x", [[1.0], 2.0]).load()


@pytest.mark.parametrize("at", ["/", "a/b"])
def test_a_bundle_of_a_later_format_is_no_foreign_file(tmp_path, at):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        group = file.require_group(at)
        group["logits"], group["labels"] = np.eye(3), np.arange(3)
        group.attrs["calcli_bundle"] = 9
    with pytest.raises(DataError, match="calcli_bundle is 9, this calcli reads 1"):
        import_scores([tmp_path / "x.h5"], tmp_path / "out.h5")


@pytest.mark.parametrize(
    ("shape", "offsets", "fits"),
    [
        ([2, 3], [0, 24], True), ([], [0, 4], True), ([0, 3], [0, 0], True), ([1, 3], [12, 24], True),
        ([2, 3], [0, 23], False), ([2], [0, 24], False), ([2, 3], [1, 25], False), ([2], [-8, 0], False),
        ([-1, -2], [0, 8], False),
    ],
)  # fmt: skip
def test_a_tensor_lies_within_its_file(tmp_path, shape, offsets, fits):
    """24 bytes of float32 behind the header."""
    header = json.dumps(
        {"logits": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}
    ).encode()
    values = np.arange(6, dtype=np.float32)
    (tmp_path / "a.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + values.tobytes()
    )
    with ExitStack() as stack:
        load = open_table(tmp_path / "a.safetensors", stack).columns["logits"].load
        if fits:
            expected = values[offsets[0] // 4 : offsets[1] // 4].reshape(shape)
            assert np.array_equal(np.asarray(load()[...]), expected)
        else:
            with pytest.raises(DataError, match="does not fit its place"):
                load()


@pytest.mark.parametrize(
    ("ragged", "scores", "divided"),
    [("logits", (), 1), ("x", ("x",), 1), ("logits", ("z",), 0)],
)
def test_lists_of_several_lengths_are_options_only_where_they_are_the_scores(
    tmp_path, ragged, scores, divided
):
    pyarrow, parquet = (
        pytest.importorskip("pyarrow"),
        pytest.importorskip("pyarrow.parquet"),
    )
    z = pyarrow.array([[0.5, 1.0], [1.0, 0.5]], pyarrow.list_(pyarrow.float32()))
    table = pyarrow.table(
        {ragged: [[0.5, 1.0], [1.0, 2.0, 4.0]], "label": [0, 1], "z": z}
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    report = import_scores(
        [tmp_path / "t.parquet"],
        tmp_path / "o.h5",
        ImportRequest(scores=scores, kind="logits"),
    )
    assert [(bundle.name, bundle.k) for bundle in report.bundles] == [
        ("", 3 if divided else 2)
    ]
    # Python's numbers, or as it is stored
    assert report.bundles[0].dtype == ("float64" if divided else "float32")
    flat = pyarrow.table(
        {"logits_a": z.flatten()[:2], "logits_b": z.flatten()[2:], "label": [0, 1]}
    )
    parquet.write_table(flat, tmp_path / "t.parquet")
    report = import_scores(
        [tmp_path / "t.parquet"], tmp_path / "o.h5", ImportRequest(), force=True
    )
    assert report.bundles[0].dtype == "float32"


@pytest.mark.parametrize(
    ("reduce", "cells", "made"),
    [
        (None, [[0.5, 0.25]], [[0.5, 0.25]]),
        ("mean", [0.5, 0.25], [0.5, 0.25]),
        ("first", [[0.5, 0.25], [0.25, 1.0]], [0.5, 0.25]),
        ("first", [[0.5], 0.25], None),
    ],
)
def test_tokens_become_one_where_any_row_lists_them(reduce, cells, made):
    rows, ask = (
        [{"c": cell} for cell in cells],
        ImportRequest(confidence="c", reduce=reduce),
    )
    if made is None:
        with pytest.raises(DataError, match="row 1 has no list of tokens"):
            token_rows(rows, ask, "t.jsonl")
    else:
        assert [row["c"] for row in token_rows(rows, ask, "t.jsonl")] == made


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".pt", ".npy", ".safetensors"])
def test_a_file_cut_short_while_it_is_read_is_an_error_and_no_end_of_the_process(
    suffix, tmp_path
):
    """The system ends a process that reads a mapped page beyond the end of its file (SIGBUS)."""
    torch = pytest.importorskip("torch")
    path, z = (
        tmp_path / f"logits{suffix}",
        np.random.default_rng(0).normal(size=(4000, 100)).astype(np.float32),
    )
    if suffix == ".npy":
        np.save(path, z)
    elif suffix == ".pt":
        torch.save({"logits": torch.from_numpy(z)}, path)
    else:
        pytest.importorskip("safetensors.torch").save_file(
            {"logits": torch.from_numpy(z)}, path
        )
    code = (
        "import os, sys\nfrom contextlib import ExitStack\nfrom pathlib import Path\n"
        "from calcli.errors import DataError\nfrom calcli.importers.formats import open_table\n"
        "with ExitStack() as stack:\n"
        "    array = open_table(Path(sys.argv[1]), stack).columns['logits'].load()\n"
        "    assert array[:10].shape == (10, 100)\n"
        "    os.truncate(sys.argv[1], 8192)\n"
        "    try:\n        array[3000:]\n    except DataError as error:\n        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cannot read array" in done.stdout and "is the file complete?" in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the old code ended the process")
def test_rows_of_a_file_cut_short_while_they_are_read_are_an_error(tmp_path):
    path = tmp_path / "logits.npy"
    np.save(path, np.ones((100_000, 4)))

    def opened():
        found = np.load(path, mmap_mode="r")
        os.truncate(path, 4096)
        return found

    array = Mapped(lambda: np.load(path, mmap_mode="r"), path, "logits")
    array._open = opened
    child = os.fork()
    if not child:
        try:
            array[50_000:60_000]
        except DataError as problem:
            os._exit(3 if "cut short" in str(problem) else 4)
        finally:
            os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


@pytest.mark.parametrize("dtype", ["f4", ">f8", "f2", "i8"])
def test_rows_read_are_rows_mapped(tmp_path, dtype):
    path, values = tmp_path / "a.npy", np.arange(60).reshape(20, 3).astype(dtype)
    for array in (values, np.asfortranarray(values), values[:, 0], values[:0]):
        np.save(path, array)
        found = Mapped(lambda: np.load(path, mmap_mode="r"), path, "a")
        for key in (
            slice(3, 9),
            slice(15, 99),
            slice(None),
            slice(None, None, 2),
            slice(9, 3),
            [2, 5] if len(array) else [],
            ...,
        ):
            np.testing.assert_array_equal(found[key], array[key])
            assert found[key].dtype == array.dtype


SINGLE = np.int64(1)


@pytest.mark.parametrize(
    ("files", "ask", "said"),
    [
        (
            [{"logits": 2 * np.eye(3), "labels": SINGLE}],
            {},
            "there are 1 labels for 3 rows",
        ),
        (
            [{"logits": 2 * np.eye(3), "labels": SINGLE}] * 2,
            {"join": True},
            r"has shape \(\) and type int64",
        ),
        (
            [{"logits": 2 * np.eye(3), "ids": np.arange(3)}],
            {"gold": "gold.npz"},
            "has 1 answers for 3 ids",
        ),
        (
            [{"logits": 2 * np.eye(3), "ids": SINGLE}],
            {"gold": "gold.npz"},
            "has 1 answers for 3 ids",
        ),
        (
            [
                {
                    "a_1": np.array(["x", "y"]),
                    "a_2": np.array(["x", "x"]),
                    "gold": SINGLE,
                }
            ],
            {"votes": "a"},
            "for 1 golds",
        ),
    ],
    ids=["labels", "joined", "gold", "ids", "votes"],
)
def test_a_single_value_is_refused_where_there_should_be_one_a_row(
    tmp_path, files, ask, said
):
    for number, arrays in enumerate(files):
        np.savez(tmp_path / f"part{number}.npz", **arrays)
    np.savez(tmp_path / "gold.npz", answer=SINGLE, ids=np.arange(3))
    ask = ask | ({"gold": str(tmp_path / ask["gold"])} if "gold" in ask else {})
    with pytest.raises(DataError, match=said):
        bring(
            [tmp_path / f"part{number}.npz" for number in range(len(files))],
            tmp_path / "out.h5",
            **ask,
        )


def test_a_word_among_the_numbers_of_columns_without_telling_names_is_no_internal_error(
    tmp_path,
):
    rows = "".join("1,0.5,1.5,2\n" for _ in range(20))
    with pytest.raises(
        DataError,
        match=r"holds no array named logits.*it has label \(labels\?\), cat, dog",
    ):
        brought(tmp_path, f"label,cat,dog,eel\n{rows}0,1,n/a?,2\n")


@pytest.mark.parametrize("names", ["201", "210"])
def test_labels_of_our_own_bundles_are_places_whatever_classes_are_called(
    tmp_path, names, out
):
    """Names 2, 0, 1 made labels ambiguous, which calcli itself had written."""
    y = np.array([0, 1, 2, 1])
    path = tmp_path / "own.h5"
    with h5py.File(path, "w") as file:
        file["logits"] = np.eye(3)[y] * 1.5
        file["labels"] = y
        file["class_names"] = list(names)
    with pytest.raises(DataError, match="or their places"):
        bring(path, out)  # a file of others may mean the names
    with h5py.File(path, "a") as file:
        file.attrs["calcli_bundle"] = 1
    found = bring(path, out)
    assert found["labels"].tolist() == y.tolist()
    assert found["class_names"].tolist() == list(map(str.encode, names))
