"""Tables of text and of typed columns: which columns are scores, labels and class names."""

import h5py
import numpy as np
import pytest
from imports import bring

from calcli.errors import DataError, UsageError
from calcli.importers.import_request import ImportRequest
from calcli.importers.import_scores import import_scores
from calcli.io.bundle import open_bundle


@pytest.fixture(params=["standard library", "pyarrow"], autouse=True)
def parser(request, monkeypatch):
    """Every table is read both ways."""
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow")
        monkeypatch.setattr("calcli.importers.large_text_table.LARGE", 0)


def table(tmp_path, text, name="t.csv", **ask):
    source = tmp_path / name
    source.write_text(text, encoding="utf-8")
    asked = ImportRequest(
        **{
            key: tuple(value) if isinstance(value, list) else value
            for key, value in ask.items()
        }
    )
    report = import_scores([source], tmp_path / "out.h5", asked, force=True)
    groups = {}
    for bundle in report.bundles:
        where = (
            f"{tmp_path / 'out.h5'}:{bundle.name}"
            if bundle.name
            else str(tmp_path / "out.h5")
        )
        with open_bundle(where, need_labels=bundle.labelled) as rows:
            labels = rows.labels().tolist() if bundle.labelled else None
            groups[bundle.name] = (
                rows.array().tolist(),
                labels,
                rows.class_names,
                rows.column("ids"),
                report.notes,
            )
    return groups


PLAIN = "label,cat,dog,eel\n1,0.5,-2,3\n0,1.5,0,-1\n"


def test_columns_named_after_classes_need_their_kind(tmp_path):
    scores, labels, names, _, _ = table(tmp_path, PLAIN, kind="logits")[""]
    assert (scores, labels, names) == (
        [[0.5, -2, 3], [1.5, 0, -1]],
        [1, 0],
        ["cat", "dog", "eel"],
    )
    with pytest.raises(UsageError, match="what they hold with --kind"):
        table(tmp_path, PLAIN)


@pytest.mark.parametrize(
    "remarks", [("3", "see below", "sure"), ("see below", "4", "5 or 6", "7")]
)
def test_a_number_among_words_makes_no_class_of_their_column(tmp_path, remarks):
    rows = "".join(f"{i % 2},{i}.5,-2,{remark}\n" for i, remark in enumerate(remarks))
    scores, _, names, _, _ = table(
        tmp_path, "label,cat,dog,remark\n" + rows, kind="logits"
    )[""]
    assert names == ["cat", "dog"]
    assert scores == [[i + 0.5, -2] for i in range(len(remarks))]


def test_words_as_labels_are_looked_up_in_the_header(tmp_path):
    text = PLAIN.replace("\n1,", "\neel,").replace("\n0,", "\ncat,")
    assert table(tmp_path, text, kind="logits")[""][1] == [2, 0]
    with pytest.raises(
        DataError, match="row 1 has label 'owl', expected one of cat, dog, eel"
    ):
        table(tmp_path, text.replace("\ncat,", "\nowl,"), kind="logits")


def test_labels_under_another_name_are_no_score(tmp_path):
    text = PLAIN.replace("label", "truth")
    assert table(tmp_path, text, kind="logits", labels=["truth"])[""][2] == [
        "cat",
        "dog",
        "eel",
    ]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_separators_quotes_byte_order_marks_and_line_ends(tmp_path, separator):
    text = 'label,"logits_a b",logits_c\r\n1,1.5,2\r\n0,3,-1e3\r\n'.replace(
        ",", separator
    )
    scores, labels, names, _, notes = table(tmp_path, "\ufeff" + text)[""]
    assert (scores, labels, names, notes) == (
        [[1.5, 2], [3, -1000]],
        [1, 0],
        ["a b", "c"],
        ["Read t.csv: 2 samples, 2 classes ('logits', 'label')."],
    )


def test_a_quoted_separator_is_part_of_the_name(tmp_path):
    assert table(tmp_path, 'y,"logits_a,b",logits_c\n1,1.5,2\n0,3,1\n')[""][2] == [
        "a,b",
        "c",
    ]


def test_ids_and_split_columns_have_their_meaning(tmp_path):
    text = "id,split,probs_0,probs_1,y,file\nx,cal,0.25,0.75,1,f\ny,test,0.5,0.5,0,g\nz,cal,1,0,0,h\n"
    parts = table(tmp_path, text)
    assert set(parts) == {"cal", "test"}
    assert parts["cal"][:3] == ([[0.25, 0.75], [1, 0]], [1, 0], None)
    assert parts["cal"][3].tolist() == ["x", "z"]


def test_numbered_columns_are_an_array(tmp_path):
    text = "age,p[0],p[1],p[2],y\n30,0.2,0.3,0.5,2\n31,0.1,0.1,0.8,0\n"
    assert table(tmp_path, text, scores=["p"], kind="probs")[""][:3] == (
        [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]],
        [2, 0],
        None,
    )
    with pytest.raises(UsageError, match="did you mean p"):
        table(tmp_path, text, scores=["pp"], kind="probs")
    only = "p0,p1,y\n0.25,0.75,1\n0.5,0.5,0\n"
    assert table(tmp_path, only, kind="probs")[""][2] is None


def test_numbered_columns_out_of_order_are_sorted_where_none_is_missing(tmp_path):
    scores, labels, _ = table(tmp_path, "y,logits_1,logits_0\n0,1,2\n1,3,4\n")[""][:3]
    np.testing.assert_array_equal(scores, [[2, 1], [4, 3]])
    assert labels == [0, 1]
    with pytest.raises(DataError, match="after column 'logits_3' comes 'logits_0'"):
        table(tmp_path, "y,logits_3,logits_0,logits_1\n0,1,2,3\n1,3,4,5\n")


def test_two_kinds_side_by_side_are_a_choice(tmp_path):
    text = "y,logits_a,logits_b,probs_a,probs_b\n0,1,2,0.25,0.75\n1,3,4,0.5,0.5\n"
    with pytest.raises(
        UsageError, match="2 arrays of scores side by side: logits, probs"
    ):
        table(tmp_path, text)
    assert table(tmp_path, text, scores=["probs"])[""][2] == ["a", "b"]


def test_one_column_is_a_binary_score(tmp_path):
    assert table(tmp_path, "y,prob\n1,0.75\n0,0.25\n")[""][:2] == (
        [[0.25, 0.75], [0.75, 0.25]],
        [1, 0],
    )
    assert table(tmp_path, "y,logits_pos\n1,3\n0,-1\n")[""][:2] == (
        [[0, 3], [0, -1]],
        [1, 0],
    )
    assert table(tmp_path, "y,score\n1,3.5\n0,-1\n", scores=["score"], kind="logits")[
        ""
    ][0] == [[0, 3.5], [0, -1]]


def test_numbers_without_a_header_are_a_loose_array(tmp_path):
    (tmp_path / "logits.csv").write_text("1.5,2\n-3e-1,4\n")
    (tmp_path / "labels.csv").write_text("1\n0\n")
    import_scores(
        [tmp_path / "logits.csv", tmp_path / "labels.csv"], tmp_path / "out.h5"
    )
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["logits"][()].tolist() == [[1.5, 2], [-0.3, 4]]
        assert file["labels"][()].tolist() == [1, 0]
    (tmp_path / "logits.csv").write_text("1.5,2\nx,4\n")
    with pytest.raises(
        DataError, match="column '0' has 'x' in row 1, expected a number"
    ):
        import_scores(
            [tmp_path / "logits.csv", tmp_path / "labels.csv"],
            tmp_path / "out.h5",
            force=True,
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label,logits_a,logits_b\n1,0.5\n", "cannot be read as a table"),
        ("label,logits_a,logits_b\n1,0.5,\n0,1,2.5\n", r"row 0, class 1 is nan"),
        (
            "label,logits_a,logits_b\n1,0.5,\n0,1,2\n",
            "column 'logits_b' is empty in row 0",
        ),
        (
            "label,logits_a,logits_b\n,0.5,1\n0,1,2\n",
            "column 'label' is empty in row 0",
        ),
        ("label,logits_a,logits_b\n", "no rows"),
        ("label,logits_a,logits_a\n1,0.5,1\n", "two columns are named 'logits_a'"),
        ("\nlabel,logits_a\n", "first line is empty"),
        (
            "label,logits_a,logits_b\n1,0.5,x\n0,1,2\n",
            "column 'logits_b' has 'x' in row 0, expected a number",
        ),
    ],
)
def test_tables_with_faults_are_refused_in_one_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as caught:
        table(tmp_path, text)
    assert "t.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_word_among_numbers_does_not_make_the_column_disappear(tmp_path):
    text = "label,cat,dog,eel\n" + "1,0.5,1.5,2\n" * 20 + "0,1,n/a?,2\n"
    with pytest.raises(
        DataError, match=r"column 'dog' has 'n/a\?' in row 20, expected a number"
    ):
        table(tmp_path, text, kind="logits")


def test_a_missing_line_end_is_told(tmp_path):
    assert "no line end" in table(tmp_path, PLAIN.rstrip("\n"), kind="logits")[""][4][1]


def test_parquet_types_are_kept(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    names = pyarrow.array(["dog", "cat", "dog"]).dictionary_encode()
    columns = {f"logits_{c}": np.arange(3, dtype=np.float32) for c in ("cat", "dog")}
    parquet.write_table(
        pyarrow.table({**columns, "label": names}), tmp_path / "t.parquet"
    )
    import_scores([tmp_path / "t.parquet"], tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["logits"].dtype == np.float32
        assert file["labels"][()].tolist() == [1, 0, 1]
    uneven = pyarrow.table({"logits": [[1.0, 2.0], [1.0]], "label": [0, 1]})
    parquet.write_table(uneven, tmp_path / "u.parquet")
    with pytest.raises(DataError, match="different lengths"):
        import_scores([tmp_path / "u.parquet"], tmp_path / "out.h5", force=True)


# ---- as pandas writes it


def test_the_index_of_pandas_is_no_class(tmp_path):
    text = ",0,1,2,label\n0,2.0,0.1,0.3,0\n1,0.2,1.5,0.3,1\n2,0.1,0.2,3.0,2\n"
    scores, labels, _, ids, notes = table(tmp_path, text, kind="logits")[""]
    assert (scores, labels, ids) == (
        [[2, 0.1, 0.3], [0.2, 1.5, 0.3], [0.1, 0.2, 3]],
        [0, 1, 2],
        None,
    )
    assert any("counts the rows and was left out" in note for note in notes)
    shuffled = text.replace("\n0,2.0", "\n17,2.0")
    assert table(tmp_path, shuffled, kind="logits")[""][3].tolist() == [17, 1, 2]
    words = (
        text.replace("\n0,2.0", "\na,2.0")
        .replace("\n1,0.2", "\nb,0.2")
        .replace("\n2,0.1", "\nc,0.1")
    )
    assert table(tmp_path, words, kind="logits")[""][3].tolist() == ["a", "b", "c"]


def test_a_first_line_that_counts_the_columns_is_their_names(tmp_path):
    (tmp_path / "logits.csv").write_text(
        "0,1,2\n2.0,0.1,0.3\n0.2,1.5,0.3\n0.1,0.2,3.0\n"
    )
    (tmp_path / "y.csv").write_text("0\n1\n2\n")
    report = import_scores(
        [tmp_path / "logits.csv", tmp_path / "y.csv"], tmp_path / "out.h5"
    )
    assert (report.bundles[0].n, report.bundles[0].k) == (3, 3)
    assert any("read as their names" in note for note in report.notes)


def test_a_column_that_counts_folds_is_no_class(tmp_path):
    text = "no,yes,fold,y\n0.8,0.2,0,0\n0.3,0.7,1,1\n0.2,0.8,2,0\n"
    scores, _, names, _, notes = table(tmp_path, text, kind="probs")[""]
    assert (scores[0], names) == ([0.8, 0.2], ["no", "yes"])
    assert any(note.endswith("are the columns no, yes") for note in notes)
    assert any(note.startswith("columns not used: fold (see ") for note in notes)
    odd = text.replace("fold", "visits")
    with pytest.raises(
        DataError,
        match="'visits' holds whole numbers beside columns of real ones.*--scores no,yes",
    ):
        table(tmp_path, odd, kind="logits")
    assert table(tmp_path, odd, kind="probs", scores=["no,yes"])[""][0] == scores


def test_columns_are_named_by_list_and_by_range(tmp_path):
    text = "id,A,B,C,extra,answer\n1,0.5,0.25,0.25,9.5,C\n2,0.1,0.8,0.1,9.25,B\n"
    for scores in ("A,B,C", "A:C"):
        columns = table(
            tmp_path, text, kind="probs", scores=[scores], labels=["answer"]
        )[""]
        assert columns[:3] == (
            [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]],
            [2, 1],
            ["A", "B", "C"],
        )
    bare = "0.5,0.25,0.25,2\n0.1,0.8,0.1,1\n"
    assert (
        table(tmp_path, bare, kind="probs", scores=["0:2"], labels=["3"])[""][:2]
        == columns[:2]
    )


def test_missing_classes_among_numbered_columns_are_refused(tmp_path):
    text = "y,probs_0,probs_1,probs_10\n1,0.2,0.3,0.5\n0,0.1,0.1,0.8\n"
    with pytest.raises(DataError, match="after column 'probs_1' comes 'probs_10'"):
        table(tmp_path, text)


@pytest.mark.parametrize(
    "cell", ['"[0.5, -2, 3e0]"', "[0.5 -2. 3.]", '"[ 0.5\n -2.   3. ]"']
)
def test_lists_in_cells_are_scores(tmp_path, cell):
    columns = table(tmp_path, f"id,logits,label\na,{cell},2\nb,{cell},0\n")[""]
    assert columns[:2] == ([[0.5, -2, 3]] * 2, [2, 0])


def test_wide_tables_are_read_without_pyarrow(tmp_path, monkeypatch):
    """20 rows of 100 000 columns took pyarrow 2.1 GiB and 20 s."""
    monkeypatch.setattr(
        "calcli.importers.large_text_table._by_pyarrow",
        lambda *_: pytest.fail("pyarrow was asked"),
    )
    values = np.arange(2 * 5000).reshape(2, 5000) / 8
    text = "\n".join(",".join(map(str, row)) for row in values.tolist()) + "\n"
    assert (
        table(tmp_path, text, kind="logits", no_labels=True)[""][0] == values.tolist()
    )


# ---- tables as people first hand them over


def loan_rows(n=60):
    """P(class 1) in steps, words for the class, and other columns."""
    p = np.round(np.linspace(0.02, 0.98, n), 4)
    y = np.where(np.random.default_rng(0).random(n) < p, "yes", "no")
    return (
        p,
        y,
        np.arange(5000, 5000 + n),
        np.array(["a", "b", "c"])[np.arange(n) % 3],
        np.linspace(0.5, 2.0, n),
    )


def table_of(path, **columns):
    rows = zip(*columns.values(), strict=True)
    path.write_text(
        "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)])
        + "\n",
        "utf-8",
    )
    return path


def test_two_words_beside_one_column_of_probabilities_are_understood(tmp_path, out):
    p, y, ids, race, w = loan_rows()
    path = table_of(tmp_path / "a.csv", app_id=ids, score=p, denied=y, race=race, w=w)
    imported = bring(path, out)
    assert (
        "read as with --scores score --labels denied --kind probs" in imported["notes"]
    )
    np.testing.assert_allclose(imported["probs"][:, 1], p)
    assert np.array_equal(imported["labels"], (y == "yes").astype(int))
    # the confidence of a prediction is no P(class 1)
    for other in (
        {"prob": np.maximum(p, 1 - p)},
        {"score": p, "second": p[::-1]},
        {
            "score": p,
            "outcome": (y == "yes").astype(int),
        },  # which may be the labels as well
        {"score": p, "sex": np.where(np.arange(len(p)) % 2, "m", "f")},
    ):
        path = table_of(tmp_path / "b.csv", **other, denied=y)
        with pytest.raises((DataError, UsageError)):
            bring(path, out)


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_what_says_correct_is_no_class(suffix, tmp_path, out):
    p, y, *_ = loan_rows()
    arrays = {"sure": p, "is_correct": (y == "yes").astype(int)}
    path = tmp_path / f"a{suffix}"
    if suffix == ".npz":
        np.savez(path, **arrays)
    else:
        table_of(path, **arrays)
    for kind in ("probs", None):
        with pytest.raises(
            UsageError, match="did you mean --confidence sure --correct is_correct"
        ):
            bring(path, out, scores=("sure",), labels=("is_correct",), kind=kind)
    assert (
        len(bring(path, out, confidence="sure", correct="is_correct")["confidence"])
        == 60
    )


def test_percentages(tmp_path, out):
    p, y, *_ = loan_rows()
    correct = (y == "yes").astype(int)
    signs = table_of(
        tmp_path / "a.csv", confidence=[f"{100 * v:.2f}%" for v in p], correct=correct
    )
    imported = bring(signs, out)
    np.testing.assert_allclose(imported["confidence"], p, atol=1e-9)
    assert "'confidence' is in percent and was divided by 100" in imported["notes"]
    np.testing.assert_allclose(
        bring(signs, out, percent=True)["confidence"], p, atol=1e-9
    )  # once, not twice
    scores = table_of(
        tmp_path / "s.csv", p=[f"{100 * v:.2f} %" for v in p], label=correct
    )
    np.testing.assert_allclose(
        bring(scores, out, percent=True, scores=("p",))["probs"][:, 1], p, atol=1e-9
    )
    plain = table_of(tmp_path / "b.csv", confidence=100 * p, correct=correct)
    with pytest.raises(DataError, match=r"--percent"):
        bring(plain, out)
    np.testing.assert_allclose(
        bring(plain, out, percent=True)["confidence"], p, atol=1e-9
    )
    one = table_of(tmp_path / "e.csv", p=100 * p, label=correct)
    with pytest.raises(
        DataError,
        match=r"the probability .*; divide percentages by 100 \(calcli extract --percent\)",
    ):
        bring(one, out, scores=("p",), kind="probs")  # it said "if these are logits"
    both = table_of(tmp_path / "c.csv", p0=100 - 100 * p, p1=100 * p, label=correct)
    with pytest.raises(DataError, match=r"sum to 100.*--percent"):
        bring(both, out, kind="probs")
    np.testing.assert_allclose(
        bring(both, out, percent=True)["probs"][:, 1], p, atol=1e-9
    )
    for fractions, names in (
        ({"p": p, "label": correct}, {"scores": ("p",)}),
        ({"c": p, "correct": correct}, {"confidence": "c", "correct": "correct"}),
    ):
        with pytest.raises(
            DataError, match="no value is above 1, so these seem to be no percentages"
        ):
            bring(table_of(tmp_path / "d.csv", **fractions), out, percent=True, **names)
    with pytest.raises(UsageError, match="--percent is about probabilities"):
        bring(both, out, percent=True, kind="logits")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("blank", ["score", "number", "word"])
def test_blanks_are_left_out_when_asked(suffix, blank, tmp_path, out):
    p, y, *_ = loan_rows()
    p0, p1, label = (
        list(values)
        for values in (1 - p, p, y if blank == "word" else (y == "yes").astype(int))
    )
    for row in (3, 59):
        (p1 if blank == "score" else label)[row] = None
    path = tmp_path / f"a{suffix}"
    if suffix == ".parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        label = [None if v is None else v if blank == "word" else int(v) for v in label]
        note = [None] * 60
        pq.write_table(
            pa.table(
                {
                    "p0": p0,
                    "p1": p1,
                    "label": label,
                    "note": pa.array(note, pa.string()),
                }
            ),
            path,
        )
    else:
        empty = [["" if v is None else v for v in values] for values in (p0, p1, label)]
        table_of(path, p0=empty[0], p1=empty[1], label=empty[2], note=[""] * 60)
    with pytest.raises(DataError, match="--drop-missing"):
        bring(path, out, kind="probs", scores=("p0,p1",))
    imported = bring(path, out, kind="probs", scores=("p0,p1",), drop_missing=True)
    kept = [i for i in range(60) if i not in (3, 59)]
    assert "2 of 60 rows left out" in imported["notes"]
    np.testing.assert_allclose(imported["probs"][:, 1], p[kept], rtol=1e-12)
    assert np.array_equal(imported["labels"], (y[kept] == "yes").astype(int))


def test_no_inner_name_is_shown(tmp_path, out):
    p, y, *_ = loan_rows()
    path = table_of(
        tmp_path / "a.csv", cat=p, dog=1 - p, label=(y == "yes").astype(int)
    )
    with pytest.raises(UsageError, match=r"valid names: cat, dog, label$"):
        bring(path, out, scores=("bird",))
    np.savez(tmp_path / "v.npz", val_logits=np.stack([p, p], axis=1))
    with pytest.raises(
        DataError, match="found no labels for 'val_logits'; it has val_logits"
    ):
        bring(tmp_path / "v.npz", out)
    path = table_of(tmp_path / "b.csv", p0=1 - p, p1=p, label=(y == "yes").astype(int))
    assert (
        "Read b.csv: 60 samples, 2 classes ('p' as probs, 'label')."
        in (bring(path, out)["notes"])
    )


@pytest.mark.parametrize("first", ["a3f9", "img"])
@pytest.mark.parametrize("scores", ["0.42,0.45,0.13", "1.0,0.0,0.0"])
def test_the_first_row_of_a_table_without_a_header_is_no_header(
    tmp_path, first, scores
):
    """An id in words above numbers: 1204 is in hexadecimal digits, too."""
    rows = f"{first},{scores},0\n1204,0.66,0.2,0.14,2\n957b,0.2,0.05,0.75,2\n"
    asked = {"scores": ("1:3",), "labels": ("4",), "kind": "probs"}
    _, labels, *_ = table(tmp_path, rows, **asked)[""]
    assert labels == [0, 2, 2]


def test_typed_columns_that_count_are_an_array_named_after_the_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    z = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0], [2.0, 0.0, 1.0]])
    columns = {str(k): z[:, k] for k in range(3)}
    parquet.write_table(pa.table(columns), tmp_path / "logits.parquet")
    np.save(tmp_path / "labels.npy", np.array([0, 1, 2]))
    sources = [tmp_path / "logits.parquet", tmp_path / "labels.npy"]
    report = import_scores(sources, tmp_path / "out.h5")
    assert "('logits', 'labels')" in report.lines[0]
    with open_bundle(str(tmp_path / "out.h5")) as rows:
        assert rows.kind == "logits"
        np.testing.assert_array_equal(rows.array(), z)
