"""Files as R, Excel, pandas, polars, RapidMiner and others write them: read as what they are, or refused."""

import json
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
from synthetic import truth
from test_importers_variants import NAMES, N, P, Y, Z, rows_of

from calcli.errors import DataError
from calcli.importers import large_text_table
from calcli.importers.building.labels import to_labels
from calcli.importers.building.misplaced_labels import Answers
from calcli.numerics import softmax

WORDS = [NAMES[y] for y in Y]
PLAIN = "".join(
    ",".join([*map(repr, p), str(y)]) + "\n" for p, y in zip(P.tolist(), Y, strict=True)
)
HEAD = ",".join(f"prob_{name}" for name in NAMES) + ",label\n"


def write(name, text, encoding="utf-8"):
    with open(name, "wb") as file:
        file.write(text.encode(encoding))


def check(found, p=P):
    np.testing.assert_allclose(found[0], p, rtol=1e-9)
    assert found[1].tolist() == Y.tolist()
    return found[2]


# ---- tables


def test_row_names_without_a_column_name_as_write_table_of_r_has_them(run):
    names = " ".join(f'"prob.{name}"' for name in NAMES) + ' "truth"\n'
    lines = [
        f'"{i}" {" ".join(map(repr, p))} "{word}"\n'
        for i, (p, word) in enumerate(zip(P.tolist(), WORDS, strict=True), 1)
    ]
    write("t.txt", names + "".join(lines))
    assert "was read as the ids of the rows" in check(rows_of(run, "t.txt"))
    write("t.txt", (names + "".join(lines)).replace(" ", ","))
    check(rows_of(run, "t.txt"))
    write("t.csv", HEAD + PLAIN.replace("\n", ",\n"))  # nothing is in the cell too many
    assert "has 6 cells, expected 5" in run("extract", "t.csv", "-o", "x.h5").line
    write(
        "t.csv",
        HEAD + "".join(f"0.5,{line}" for line in PLAIN.splitlines(keepends=True)),
    )  # numbers are no names
    assert "has 6 cells, expected 5" in run("extract", "t.csv", "-o", "x.h5").line


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("row_names", [None, "count", "words"])
def test_columns_without_names_as_cbind_of_r_has_them(run, separator, row_names):
    """``write.csv(cbind(scores, label))`` of a matrix without column names."""
    lines = ['"",' * len(NAMES) + '"label"', *PLAIN.splitlines()]
    if separator == ";":  # write.csv2
        lines = [line.replace(",", ";").replace(".", ",") for line in lines]
    if row_names:
        names = {"count": "{}", "words": "image {}"}[row_names]
        cells = ['""', *(f'"{names.format(i)}"' for i in range(1, N + 1))]
        lines = [
            f"{cell}{separator}{line}" for cell, line in zip(cells, lines, strict=True)
        ]
    write("t.csv", "\n".join(lines) + "\n")
    assert "were numbered from 0" in check(rows_of(run, "t.csv"))


def test_columns_without_names_at_the_end_are_empty(run):
    lines = (HEAD + PLAIN).splitlines()
    write("t.csv", "".join(f"{line},,\n" for line in lines))
    check(rows_of(run, "t.csv"))


def test_a_large_table_has_columns_without_names(run, monkeypatch):
    monkeypatch.setattr(large_text_table, "LARGE", 0)
    write("t.csv", '"",' * len(NAMES) + '"label"\n' + PLAIN)
    check(rows_of(run, "t.csv"))


def test_the_first_row_of_lists_is_no_header(run):
    """As batch jobs that echo the label write them: ``"[0.2, 0.8]",1``; the first row had become names."""
    write("t.csv", "".join(f'"{p}",{y}\n' for p, y in zip(P.tolist(), Y, strict=True)))
    check(rows_of(run, "t.csv"))
    check(rows_of(run, "t.csv", "--kind", "probs"))


@pytest.mark.parametrize("first", ["0,25;", "0,25\t"])
def test_decimal_commas_between_semicolons_and_tabs(run, first):
    text = (HEAD + PLAIN).replace(",", first[-1]).replace(".", ",")
    write("t.txt", text)
    check(rows_of(run, "t.txt"))
    write("t.csv", "prob_a,prob_b,label\n" + '"0,25","0,75",1\n' * 3)
    assert (
        "expected a number with a point before its decimals"
        in run("extract", "t.csv", "-o", "x.h5").line
    )


@pytest.mark.parametrize(
    "form",
    [
        "P({})",
        "confidence({})",
        "P (Class={})",
        "Prediction {}",
        'Probabilities for Class "{}"',
    ],
)
def test_labels_are_looked_up_in_what_differs_in_the_names_of_columns(run, form):
    head = ",".join('"' + form.format(name).replace('"', '""') + '"' for name in NAMES)
    rows = [
        ",".join([*map(repr, p), word])
        for p, word in zip(P.tolist(), WORDS, strict=True)
    ]
    write("t.csv", "\n".join([f"{head},truth", *rows]) + "\n")
    said = check(rows_of(run, "t.csv", "--kind", "probs"))
    assert "classes 'ant' to 'dog' are what differs in the names of the columns" in said


def test_names_that_share_letters_beyond_the_classes():
    """cat and cow share a c, which belongs to them."""
    labels, names, _ = to_labels(
        np.array(["cow", "cat"]), 2, 2, ["P(cat)", "P(cow)"], "x"
    )
    assert (labels.tolist(), names) == ([1, 0], ["cat", "cow"])
    with pytest.raises(DataError, match="expected one of P\\(cat\\), P\\(cow\\)"):
        to_labels(np.array(["cow", "owl"]), 2, 2, ["P(cat)", "P(cow)"], "x")


def test_names_of_columns_in_other_spellings(run):
    rows = HEAD.replace("label", "True Label") + PLAIN
    write("t.csv", rows)
    check(rows_of(run, "t.csv"))
    write(
        "t.csv",
        ",".join(f"probability({name})" for name in NAMES) + ",trueLabel\n" + PLAIN,
    )
    check(rows_of(run, "t.csv"))


def test_levels_of_pandas_and_categories_of_polars(run):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    names = [*(f"('prob', '{name}')" for name in NAMES), "('meta', 'label')"]
    pq.write_table(pa.table([*P.T, Y], names=names), "t.parquet")
    check(rows_of(run, "t.parquet"))
    words = pa.DictionaryArray.from_arrays(
        pa.array(Y.astype(np.uint8)), pa.array(NAMES, pa.string_view())
    )
    table = pa.table(
        [*P.T, words], names=[*(f"prob_{name}" for name in NAMES), "label"]
    )
    with (
        pa.OSFile("t.arrows", "wb") as file,
        pa.ipc.new_stream(file, table.schema) as writer,
    ):
        writer.write_table(table)
    check(rows_of(run, "t.arrows"))
    write("t.csv", "prob,prob,meta\nant,bee,label\n0.2,0.8,1\n")
    assert "df.columns.map('_'.join)" in run("extract", "t.csv", "-o", "x.h5").line


def test_a_table_in_a_zip_archive(run):
    """pandas: ``to_csv("t.csv.zip")``; the Finder adds a folder of its own."""
    with zipfile.ZipFile("t.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", HEAD + PLAIN)
        archive.writestr("__MACOSX/._t.csv", b"\0\0")
    check(rows_of(run, "t.csv.zip"))
    with zipfile.ZipFile("t.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", b"0" * (100 << 20))
    assert (
        "far more than scores shrink by" in run("extract", "t.zip", "-o", "x.h5").line
    )
    with zipfile.ZipFile("t.zip", "w") as archive:
        archive.writestr("a.csv", HEAD + PLAIN)
        archive.writestr("b.csv", HEAD + PLAIN)
    assert (
        "is a zip archive without NumPy arrays; unpack it"
        in run("extract", "t.zip", "-o", "x.h5").line
    )


# ---- what had been read as something else


@pytest.mark.parametrize("labels", [(1, 2, 3), (2, 3)])
def test_labels_and_columns_that_both_may_count_from_1(run, labels):
    """Labels 1 to 3 of columns 1 to 4 are in range either way: they are counted from 1, or class 0 has no row."""
    y = np.array([labels[i % len(labels)] for i in range(N)])
    rows = "".join(
        ",".join([*map(repr, p), str(c)]) + "\n"
        for p, c in zip(P.tolist(), y, strict=True)
    )
    write("t.csv", "prob_1,prob_2,prob_3,prob_4,label\n" + rows)
    line = run("extract", "t.csv", "-o", "x.h5").line
    assert (
        "do the labels count from 1 as well? Subtract 1 if so; --scores prob_1:prob_4 takes them as they are"
        in line
    )
    p, found, _ = rows_of(run, "t.csv", "--scores", "prob_1:prob_4", "--kind", "probs")
    assert np.array_equal(found, y) and np.allclose(p, P)
    write("t.csv", "prob_1 star,prob_2 stars,prob_3 stars,prob_4 stars,label\n" + rows)
    assert (
        "do the labels count from 1 as well?"
        in run("extract", "t.csv", "-o", "x.h5").line
    )
    write("t.csv", "prob_0,prob_1,prob_2,prob_3,label\n" + rows)
    assert np.array_equal(rows_of(run, "t.csv")[1], y)


@pytest.mark.parametrize(
    "name", ["prob_0", "prob_neg", "prob_no", "proba_false", "prob_class_0", "prob_n"]
)
def test_one_column_of_class_0_is_not_taken_for_class_1(run, name):
    write(
        "t.csv",
        f"{name},label\n"
        + "".join(
            f"{p!r},{int(y > 1)}\n" for p, y in zip(P[:, 0].tolist(), Y, strict=True)
        ),
    )
    assert (
        "that of class 1: save the other column, or 1 - p"
        in run("extract", "t.csv", "-o", "x.h5").line
    )
    done = run("extract", "t.csv", "--scores", name, "--kind", "probs", "-o", "x.h5")
    assert done.code == 0, done.err
    if name == "prob_neg":  # where the labels say it, the column's own word is class 1
        words = ["pos" if y > 1 else "neg" for y in Y]
        write(
            "t.csv",
            f"{name},label\n"
            + "".join(
                f"{p!r},{w}\n" for p, w in zip(P[:, 0].tolist(), words, strict=True)
            ),
        )
        p, y, _ = rows_of(run, "t.csv")
        assert np.allclose(p[:, 1], P[:, 0]) and y.tolist() == [
            int(word == "neg") for word in words
        ]


@pytest.mark.parametrize("columns", [("True", "False"), ("False", "True")])
def test_true_and_false_are_looked_up_in_the_names_of_the_columns(run, columns):
    """True had been class 1 whatever the columns said."""
    right = Y > 1
    head = ",".join(f"prob_{name}" for name in columns) + ",label\n"
    write(
        "t.csv",
        head
        + "".join(
            f"{p!r},{1 - p!r},{y}\n"
            for p, y in zip(P[:, 0].tolist(), right, strict=True)
        ),
    )
    p, y, _ = rows_of(run, "t.csv")
    assert np.allclose(p[:, 0], P[:, 0]) and y.tolist() == [
        columns.index(str(truth)) for truth in right
    ]


def test_columns_of_yes_and_no_beside_numbers(run):
    lines = [
        f"{p!r},{1 - p!r},{int(y > 1)}\n"
        for p, y in zip(P[:, 0].tolist(), Y, strict=True)
    ]
    write("t.csv", "prob_yes,prob_no,label\n" + "".join(lines))
    line = run("extract", "t.csv", "-o", "x.h5").line
    assert (
        "in this order, so that label 1 would be 'no'" in line
        and "--class-names yes,no takes them as" in line
    )
    p, y, _ = rows_of(run, "t.csv", "--scores", "prob_no,prob_yes", "--kind", "probs")
    assert np.allclose(p[:, 1], P[:, 0]) and y.tolist() == [int(c > 1) for c in Y]
    assert np.allclose(
        rows_of(run, "t.csv", "--class-names", "yes,no")[0][:, 0], P[:, 0]
    )
    write("t.csv", "prob_no,prob_yes,label\n" + "".join(lines))
    assert np.allclose(rows_of(run, "t.csv")[0][:, 0], P[:, 0])


# ---- objects and arrays


def test_rows_by_id_in_a_pickle(run):
    rows = {
        f"{i}.jpg": {"logits": z, "label": int(y)}
        for i, (z, y) in enumerate(zip(Z, Y, strict=True))
    }
    with open("t.pkl", "wb") as file:
        pickle.dump(rows, file)
    check(rows_of(run, "t.pkl"))
    splits = {split: {"logits": Z, "labels": Y} for split in ("val", "test")}
    with open("t.pkl", "wb") as file:
        pickle.dump(splits, file)
    done = run("extract", "t.pkl", "-o", "x.h5")
    assert (
        done.code == 0
        and "x.h5:test: 60 x 4" in done.err
        and "x.h5:val: 60 x 4" in done.err
    )


def test_numbers_as_texts_and_pairs_of_label_and_probability(run):
    lines = [
        {"probs": [str(v) for v in p], "label": int(y)}
        for p, y in zip(P.tolist(), Y, strict=True)
    ]
    write("t.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    check(rows_of(run, "t.jsonl"))
    lines = [
        {
            "predicted_label_probs": [
                {"label": NAMES[c], "prob": p[c]} for c in np.argsort(-p)
            ],
            "label": word,
        }
        for p, word in zip(P, WORDS, strict=True)
    ]
    write("t.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    check(rows_of(run, "t.jsonl"))


def test_the_names_of_scikit_learn(run):
    np.savez("t.npz", decision_function=Z, y_test=Y)
    check(rows_of(run, "t.npz"))
    check(rows_of(run, "t.npz", "--kind", "logits"))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "t.csv",
            (HEAD + PLAIN).encode("utf-16"),
            "convert it: iconv -f UTF-16 -t UTF-8 t.csv > t.utf8.csv",
        ),
        (
            "t.csv",
            (HEAD + PLAIN).encode("utf-16-le"),
            "convert it: iconv -f UTF-16LE -t UTF-8 t.csv > t.utf8.csv",
        ),
        (
            "t.csv",
            (HEAD + PLAIN).replace("ant", "K\xe4fer").encode("latin-1"),
            "convert it: iconv -f CP1252 -t UTF-8 t.csv > t.utf8.csv",
        ),
        ("t.csv", b"<!DOCTYPE html><html>", "is a web page"),
        (
            "t.rds",
            b"X\n\0\0\0\3" + bytes(99),
            "holds an R object; write it with write.csv",
        ),
        (
            "t.tar",
            b"t.csv".ljust(257, b"\0") + b"ustar" + bytes(300),
            "is a tar archive; unpack it",
        ),
    ],
)
def test_what_is_not_read_is_named_with_a_way_out(run, name, content, says):
    with open(name, "wb") as file:
        file.write(content)
    assert says in run("extract", name, "-o", "x.h5").line


@pytest.mark.parametrize("keys", [("label", "score"), ("class", "prob")])
@pytest.mark.parametrize("file", ["t.csv", "t.parquet", "t.arrow"])
def test_lists_of_objects_in_a_cell(run, file, keys):
    """Pipelines of Hugging Face in a DataFrame, ML.PREDICT of BigQuery in Parquet: the best class comes first."""
    word, number = keys
    cells = []
    for p in P.tolist():
        order = sorted(range(len(NAMES)), key=lambda k: -p[k])
        cells.append([{word: NAMES[k], number: p[k]} for k in order])
    if file == "t.csv":
        lines = [
            f'"{cell}",{label}\n' for cell, label in zip(cells, WORDS, strict=True)
        ]
        write(file, "output,label\n" + "".join(lines))
    else:
        pa = pytest.importorskip("pyarrow")
        from pyarrow import feather, parquet

        save = parquet.write_table if file == "t.parquet" else feather.write_feather
        save(pa.table({"output": cells, "label": WORDS}), file)
    check(rows_of(run, file))


DRAWN = {
    "to_html": '<table border="1" class="dataframe">\n  <thead>\n    <tr>\n',
    "to_xml": "<?xml version='1.0' encoding='utf-8'?>\n<data>\n  <row>\n",
    "to_markdown": "|    |   cat |   dog | label   |\n|---:|------:|------:|:--------|\n| 0 | 1 | 0 | cat |\n",
    "grid": "+-----+-----+\n| cat | dog |\n+=====+=====+\n| 1   | 0   |\n",
    "psql": " cat | dog | label \n-----+-----+-------\n   1 |   0 | cat\n",
}


@pytest.mark.parametrize("way", DRAWN)
def test_tables_for_people_are_refused_as_such(run, way):
    """A column called ``<table border=\"1\">`` was proposed as the unit, columns were said to be named '' twice."""
    write("t.csv", DRAWN[way])
    line = run("extract", "t.csv", "-o", "x.h5").line
    assert "save the table as CSV" in line
    assert "HTML" in line or "XML" in line or "printed" in line


@pytest.mark.parametrize("file", ["t.csv", "t.parquet"])
def test_lists_of_objects_beside_scores_are_something_else(run, file):
    """Boxes, alternatives, messages: they were read in the place of the scores."""
    cells = [[{"label": "ant", "score": 0.3}] for _ in P]
    if file == "t.csv":
        head, *lines = (HEAD + PLAIN).splitlines()
        lines = [f'"{cell}",{line}\n' for cell, line in zip(cells, lines, strict=True)]
        write(file, f"scores,{head}\n" + "".join(lines))
    else:
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        columns = {f"prob_{name}": P[:, k] for k, name in enumerate(NAMES)}
        parquet.write_table(pa.table({"boxes": cells, **columns, "label": WORDS}), file)
    check(rows_of(run, file))


def test_numbers_tell_no_class_of_lists_in_another_order_in_every_row(run):
    """They were taken as counted in the order of the alphabet, as in no JSON Lines."""
    lines = []
    for p, y in zip(P.tolist(), Y.tolist(), strict=True):
        order = sorted(range(len(NAMES)), key=lambda k: -p[k])
        cell = [{"label": NAMES[k], "score": p[k]} for k in order]
        lines.append(f'"{cell}",{y}\n')
    write("t.csv", "output,label\n" + "".join(lines))
    line = run("extract", "t.csv", "-o", "x.h5").line
    assert "the labels are numbers" in line
    assert "--class-names" in line
    options = ["--class-names", ",".join(NAMES)]
    assert run("extract", "t.csv", *options, "-o", "x.h5").code == 0


def test_names_in_angle_brackets_are_no_markup(run):
    head = HEAD.replace("prob_ant", "<s>").replace("prob_bee", "<pad>")
    write("t.csv", head + PLAIN)
    assert "save the table as CSV" not in run("extract", "t.csv", "-o", "x.h5").err
    write("t.psv", (HEAD + PLAIN).replace(",", "|"))
    check(rows_of(run, "t.psv"))


def test_names_of_tags_as_columns_are_no_markup(run):
    tags = HEAD.replace("prob_ant", "<p>").replace("prob_bee", "<div>")
    write("t.csv", tags + PLAIN)
    assert "save the table as CSV" not in run("extract", "t.csv", "-o", "x.h5").err


def test_the_last_column_may_be_the_one_without_a_name(run):
    """Ages were read as row names, and every score under the name of its neighbour."""
    ages = np.random.default_rng(1).permutation(10 * N)[:N]
    lines = []
    for age, line in zip(ages, PLAIN.splitlines(), strict=True):
        lines.append(f"{age},{line}\n")
    names = HEAD.strip().split(",")
    write("t.csv", ",".join(["age", *names[:-1]]) + "\n" + "".join(lines))
    assert "cells, expected" in run("extract", "t.csv", "-o", "x.h5").line


@pytest.mark.parametrize("separator", [" ", "\t", ","])
def test_row_names_of_drawn_rows_as_write_table_of_r_has_them(run, separator):
    """``te <- d[-i, ]``: row names are those of the rows that were drawn."""
    names = np.random.default_rng(1).permutation(10 * N)[:N]
    head = separator.join([*(f'"{name}"' for name in NAMES), '"truth"']) + "\n"
    lines = []
    for name, p, word in zip(names, P.tolist(), WORDS, strict=True):
        cells = [f'"{name}"', *map(repr, p), f'"{word}"']
        lines.append(separator.join(cells) + "\n")
    write("t.txt", head + "".join(lines))
    assert "was read as the ids of the rows" in check(rows_of(run, "t.txt"))
    head = head.replace(NAMES[0], "id")  # it is the label that has no name
    write("t.txt", head + "".join(lines))
    assert "has 6 cells, expected 5" in run("extract", "t.txt", "-o", "x.h5").line


def counted_from_1(k=4, n=400):
    """Scores, and labels 1 to k - 1: those of the last class were left out."""
    z, y = truth(n, k, seed=3, scale=3.0)
    return z[y < k - 1], y[y < k - 1] + 1


def test_labels_from_1_without_the_last_class_are_asked_about(run):
    """They are in range either way; accuracy .1 was given with a warning."""
    z, y = counted_from_1()
    np.savez("s.npz", logits=z, labels=y)
    line = run("extract", "s.npz", "-o", "o.h5").line
    share = (z.argmax(axis=1) == y - 1).mean()
    assert f"of the label minus 1 in {share:.1%} of the rows" in line
    assert "to try: calcli extract s.npz --class-names 1,2,3,4 -o o.h5" in line
    _, found, _ = rows_of(run, "s.npz", "--class-names", "1,2,3,4")
    assert found.tolist() == (y - 1).tolist()
    _, found, _ = rows_of(run, "s.npz", "--class-names", "0,1,2,3")
    assert found.tolist() == y.tolist()


def test_labels_from_1_are_read_where_the_scores_follow_them(run):
    z, y = counted_from_1()
    np.savez("s.npz", logits=np.roll(z, 1, axis=1), labels=y)
    assert rows_of(run, "s.npz")[1].tolist() == y.tolist()
    np.savez("s.npz", logits=np.random.default_rng(0).permutation(z), labels=y)
    assert rows_of(run, "s.npz")[1].tolist() == y.tolist()  # nothing is shown


def test_a_label_that_is_no_class_name_is_named_as_it_is_in_the_file(run):
    """3 was named for 4, and labels from 2 to 4 were said to count from 1."""
    z, y = counted_from_1()
    np.savez("s.npz", logits=z[:, :3], labels=y + 1)
    row = np.flatnonzero(y == 3)[0]
    line = run("extract", "s.npz", "--class-names", "1,2,3", "-o", "o.h5").line
    assert f"row {row} has label 4" in line
    assert "count from 1" not in line
    assert "1-based" not in line


def test_labels_of_all_rows_tell_whether_none_is_0(run):
    """Of rows sorted by their labels the first 8192 had been taken for all."""
    y = np.repeat([1, 2, 0], [9000, 500, 500])
    z = np.random.default_rng(0).normal(size=(len(y), 3))
    z[:, 0] += 3.0
    np.savez("s.npz", logits=z, labels=y)  # the model says 0 whatever the label
    assert rows_of(run, "s.npz")[1].tolist() == y.tolist()


def test_rows_all_over_the_file_are_held_against_their_labels(run):
    """The model mistakes all fish, with which the file begins, for cats."""
    y = np.repeat([0, 1, 2], [9000, 9000, 9000])
    z = np.eye(3)[y] * 3.0 + np.random.default_rng(0).normal(size=(len(y), 3))
    z[y == 0] += [0.0, 6.0, 0.0]
    lines = ["fish,cat,hen,label"]  # the sorted names: cat is 0, fish 1
    for row, label in zip(softmax(z).tolist(), y.tolist(), strict=True):
        lines.append(f"{row[0]!r},{row[1]!r},{row[2]!r},{label}")
    write("t.csv", "\n".join(lines) + "\n")
    assert rows_of(run, "t.csv")[1].tolist() == y.tolist()


def test_rows_of_equal_scores_say_nothing_of_their_labels(run):
    """The first of equal scores, that of class 0, had been the prediction."""
    y = np.tile([1, 1, 2], 100)
    p = np.full((len(y), 3), 1 / 3)
    p[:9] = np.eye(3)[y[:9]] * 0.7 + 0.1
    np.savez("s.npz", probs=p, labels=y)
    assert rows_of(run, "s.npz")[1].tolist() == y.tolist()


def test_the_scores_of_many_classes_are_held_against_labels_in_little_memory():
    scores = np.zeros((4096, 5000), np.float32)  # 80 MB
    labels = np.arange(4096)
    scores[labels, labels] = 1.0
    tracemalloc.start()
    answers = Answers(scores, labels, ())
    readings = answers.compared(labels - 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert readings == (4096, 0, 4096)
    assert answers.have_places(0, 4096)
    assert not answers.have_places(0, 4095)
    assert peak < 8 << 20


def test_labels_that_number_the_sorted_names_are_asked_about(run):
    """``LabelEncoder`` numbers names in their order, which is not that of the columns."""
    z, y = truth(400, 3, seed=3, scale=3.0)
    names = ["fox", "cat", "dog"]
    by_name = np.array([2, 0, 1])  # fox, cat, dog among cat, dog, fox
    rows = [
        [*map(repr, row), str(by_name[c])] for row, c in zip(z.tolist(), y, strict=True)
    ]
    lines = [
        ",".join(f"logit_{name}" for name in names) + ",label",
        *map(",".join, rows),
    ]
    write("t.csv", "\n".join(lines) + "\n")
    line = run("extract", "t.csv", "-o", "o.h5").line
    share = (z.argmax(axis=1) == y).mean()
    assert f"that of the label so in {share:.1%} of the rows" in line
    option = ("--scores", "logit_cat,logit_dog,logit_fox")
    assert f"to try: calcli extract t.csv {' '.join(option)} -o o.h5" in line
    found, labels, _ = rows_of(run, "t.csv", *option)
    np.testing.assert_allclose(found, softmax(z)[:, [1, 2, 0]], rtol=1e-9)
    assert labels.tolist() == by_name[y].tolist()
    found, labels, _ = rows_of(run, "t.csv", "--class-names", "fox,cat,dog")
    np.testing.assert_allclose(found, softmax(z), rtol=1e-9)


@pytest.mark.parametrize("scores", [P, Z], ids=["probs", "logits"])
@pytest.mark.parametrize("is_first", [True, False])
def test_an_array_with_labels_beside_its_scores(run, scores, is_first):
    """``np.column_stack([scores, labels])``, which was refused as scores without labels."""
    stacked = [Y, scores] if is_first else [scores, Y]
    np.save("s.npy", np.column_stack(stacked))
    p = P if scores is P else softmax(Z)
    said = check(rows_of(run, "s.npy"), p)
    place = 0 if is_first else P.shape[1]
    assert f"column {place} was read as the labels" in said


def test_arrays_of_scores_alone_keep_all_their_columns(run):
    """A last logit that is always 0, of a reference class, or a whole number at times."""
    z = np.round(Z, 3)
    z[:, -1] = 0.0
    np.save("z.npy", z)
    np.save("y.npy", Y)
    np.testing.assert_allclose(rows_of(run, "z.npy", "y.npy")[0], softmax(z), rtol=1e-9)
    z[::2, -1] = 1.0
    z[0, -1] = 0.5
    np.save("z.npy", z)
    np.testing.assert_allclose(rows_of(run, "z.npy", "y.npy")[0], softmax(z), rtol=1e-9)


def beside(*columns):
    np.save("s.npy", np.column_stack(columns))


@pytest.mark.parametrize("what", ["fold", "group", "score"])
def test_columns_that_are_no_labels_are_not_read_as_labels(run, what):
    """Whole numbers that do not follow the scores had become labels, with a warning."""
    z, y = truth(400, 3, seed=3, scale=3.0)
    rows = np.arange(len(y))
    if what == "fold":
        beside(softmax(z), rows % 3)
    if what == "group":
        beside(rows // 200, z)
    if what == "score":
        beside(z[:, :2], z[:, 2] > 0)  # a logit that was rounded
    assert "found no labels" in run("extract", "s.npy", "-o", "o.h5").line


def test_a_probability_that_is_0_or_1_is_no_label(run):
    """As of a class that a rule decides; labels in a file of their own were refused."""
    z, y = truth(400, 3, seed=3, scale=3.0)
    p = np.column_stack([softmax(z), np.zeros(len(y))])
    p[::5] = [0.0, 0.0, 0.0, 1.0]
    np.save("probs.npy", p)
    np.save("labels.npy", y)
    found, labels, _ = rows_of(run, "probs.npy", "labels.npy")
    np.testing.assert_allclose(found, p, atol=1e-12)
    assert labels.tolist() == y.tolist()


def test_an_array_with_labels_and_rows_without_an_answer(run):
    z, y = truth(400, 3, seed=3, scale=3.0)
    z[3] = np.nan
    beside(z, y)
    _, labels, _ = rows_of(run, "s.npy", "--drop-missing")
    assert labels.tolist() == np.delete(y, 3).tolist()
