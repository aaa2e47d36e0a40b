"""Ids, units and groups: what goes in comes out, and is the same from every format."""

import csv
import json

import h5py
import numpy as np
import pytest
from imports import bring

from calcli.errors import DataError
from calcli.importers import large_text_table

N = 60
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, N)
Z = 2.0 * np.eye(3)[Y] + RNG.normal(size=(N, 3))

MISSING = ("", "NA", "None", "nan", "null")
HOSTILE = (
    *("1_10", "11_0", "007", "7", "7.0", "7.10", "7.1", "+7", "-7", "-0", "0"),
    *("1e5", "100000", "1234567890123456789", "12345678901234567890123"),
    *("12345678901234567890124", str(2**53 + 1), str(2**53)),
    *("\u0661\u0662", "12", " a", "a", "a ", "a  b", "true", "True", "0x10"),
    *("1,5", 'q"r', "x;y", "x\ty", "x|y", "#c", "'=1", "=1", "[1]", "['a']", "{}"),
    *("line\nbreak", "cr\rx", "inf", "50%", "2024-01-02"),
)
FORMATS = ("csv", "jsonl", "parquet", "h5", "npz")


def write(path, columns):
    """A file of these columns beside scores and labels, as people write it."""
    columns = {**columns, "labels": Y.tolist()}
    scores = {f"logits_{c}": Z[:, c].tolist() for c in range(3)}
    if path.suffix == ".csv":
        write_csv(path, columns | scores)
    elif path.suffix == ".jsonl":
        write_jsonl(path, columns | {"logits": Z.tolist()})
    elif path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table(columns | scores), path)
    elif path.suffix == ".npz":
        np.savez(path, logits=Z, **columns)
    else:
        write_hdf5(path, columns)
    return path


def write_csv(path, columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow(["" if cell is None else cell for cell in row])


def write_jsonl(path, columns):
    with path.open("w") as file:
        for row in zip(*columns.values(), strict=True):
            record = dict(zip(columns, row, strict=True))
            file.write(json.dumps(record) + "\n")


def write_hdf5(path, columns):
    with h5py.File(path, "w") as file:
        file["logits"] = Z
        for name, cells in columns.items():
            values = np.array(cells)
            if values.dtype.kind == "U":
                values = values.astype(object)
            file[name] = values


def texts(values):
    return [v.decode() if isinstance(v, bytes) else str(v) for v in values.tolist()]


def repeated(names):
    """A column of N cells of these names."""
    return [names[i % len(names)] for i in range(N)]


@pytest.fixture(params=FORMATS)
def ending(request):
    return request.param


@pytest.mark.parametrize("role", ["unit", "group", "ids"])
def test_a_column_of_text_is_read_as_it_is(role, tmp_path, out):
    for name in HOSTILE:
        column = repeated([name, "x", "110"])
        imported = bring(write(tmp_path / "a.csv", {role: column}), out)[role]
        assert texts(imported) == column, name


@pytest.mark.parametrize(
    "pair",
    [
        *[("1_10", "110"), ("11_0", "1_10"), ("007", "7"), ("7.10", "7.1")],
        *[("1e5", "100000"), ("+7", "7"), ("-0", "0"), ("\u0661\u0662", "12")],
        *[(" 1", "1"), ("12345678901234567890123", "12345678901234567890124")],
    ],
)
def test_two_names_that_python_reads_alike_are_two_units(pair, run, tmp_path):
    write(tmp_path / "a.csv", {"unit": repeated(pair)})
    done = run("evaluate", "a.csv", "--unit", "unit", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["results"][0]["units"]["n"] == 2


def test_whole_numbers_stay_numbers(ending, tmp_path, out):
    imported = bring(write(tmp_path / f"a.{ending}", {"ids": list(range(N))}), out)
    assert imported["ids"].dtype.kind == "i"
    assert imported["ids"].tolist() == list(range(N))


COLUMNS = {
    "whole": (list(range(N)), [str(i) for i in range(N)]),
    "beyond 2^53": ([2**53 + i for i in range(N)], [str(2**53 + i) for i in range(N)]),
    "negative": ([-i for i in range(N)], [str(-i) for i in range(N)]),
    "words": (repeated(["b", "a", "007"]), repeated(["b", "a", "007"])),
    "texts of numbers": (repeated(["10", "9"]), repeated(["10", "9"])),
    "truths": (repeated([True, False]), repeated(["True", "False"])),
}


@pytest.mark.parametrize("role", ["unit", "group", "ids"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_is_the_same_in_every_format(role, kind, tmp_path, out):
    cells, expected = COLUMNS[kind]
    for form in FORMATS:
        imported = bring(write(tmp_path / f"a.{form}", {role: cells}), out)
        assert texts(imported[role]) == expected, form


@pytest.mark.parametrize("role", ["unit", "group", "ids"])
def test_whole_numbers_of_a_float_type_are_named_by_their_digits(role, tmp_path, out):
    """As pandas has them where some row had none."""
    cells = [float(i) for i in range(N)]
    for form in ("jsonl", "parquet", "h5", "npz"):
        imported = bring(write(tmp_path / f"a.{form}", {role: cells}), out)
        assert texts(imported[role]) == [str(i) for i in range(N)], form


def test_a_gap_is_refused_with_its_row_or_left_out(ending, tmp_path, out):
    cells = [float(i // 2) for i in range(N)]
    cells[5] = None if ending in ("csv", "jsonl", "parquet") else np.nan
    for role, word in (("unit", "unit"), ("group", "group"), ("ids", "id")):
        path = write(tmp_path / f"a.{ending}", {role: cells})
        message = f"row 5 is (empty|NaN), expected the {word} of the row"
        with pytest.raises(DataError, match=message):
            bring(path, out)
        imported = bring(path, out, drop_missing=True, drop_duplicates=role == "ids")
        assert "1 of 60 rows left out" in imported["notes"]
        assert texts(imported[role]) == [str(i // 2) for i in range(N) if i != 5]


COUNTRIES = ["DE", "NA", "None", "FR", "N/A"]


@pytest.mark.parametrize("role", ["unit", "group", "ids"])
def test_na_among_words_is_a_name_in_every_format(role, ending, tmp_path, out):
    """NA is the code of Namibia; in formats of typed cells it always was a name."""
    cells = [f"{COUNTRIES[i % 5]}" for i in range(N)]
    if role == "ids":
        cells = ["NA", *(f"w{i}" for i in range(1, N))]
    imported = bring(write(tmp_path / f"a.{ending}", {role: cells}), out)
    assert texts(imported[role]) == cells
    if ending == "csv":
        listing = "NA in ids is a name" if role == "ids" else "N/A and NA and None in"
        assert listing in imported["notes"]


@pytest.mark.parametrize("role", ["unit", "group", "ids"])
def test_na_among_numbers_is_a_missing_value(role, tmp_path, out):
    cells = ["NA" if i == 5 else str(i) for i in range(N)]
    path = write(tmp_path / "a.csv", {role: cells})
    with pytest.raises(DataError, match="row 5 is empty"):
        bring(path, out)
    assert len(bring(path, out, drop_missing=True)[role]) == N - 1


def test_na_in_a_named_column_of_groups_is_a_group(run, tmp_path):
    cells = [COUNTRIES[i % 2] for i in range(N)]
    write(tmp_path / "a.csv", {"country": cells})
    words = ["evaluate", "a.csv", "--group-by", "country"]
    done = run(*words, "--json")
    assert done.code == 0, done.err
    (result,) = json.loads(done.out)["results"]
    sizes = {group["group"]: group["n"] for group in result["per_group"]}
    assert sizes == {"DE": 30, "NA": 30}


def test_a_gap_in_a_column_that_nobody_uses_is_no_fault(ending, run, tmp_path):
    cells = [None if i == 3 else f"w{i}" for i in range(N)]
    if ending in ("h5", "npz"):
        cells = [np.nan if i == 3 else 0.5 * i for i in range(N)]
    for name in ("note", "age", "site", "patient_id", "pred", "x1"):
        write(tmp_path / f"a.{ending}", {name: cells})
        done = run("evaluate", f"a.{ending}", "-q")
        assert done.code == 0, (name, done.err)


def test_advice_looks_over_a_column_with_a_gap(run, tmp_path):
    """It named the empty cell of a column of notes in place of what was missing."""
    note = ["" if i == 3 else "ab"[i % 2] for i in range(N)]
    with open("a.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["note", "truth", "sure"])
        writer.writerows(zip(note, (Y > 0).astype(int), RNG.random(N), strict=True))
    refused = run("run", "a.csv")
    assert refused.code == 3 and "holds no array named logits" in refused.err
    assert "--scores sure --labels truth --kind probs" in refused.err


@pytest.mark.parametrize("form", ["h5", "npz"])
def test_a_missing_group_is_no_group_called_nan(form, run, tmp_path):
    cells = [np.nan if i == 3 else float(i % 2) for i in range(N)]
    write(tmp_path / f"a.{form}", {"group": cells})
    refused = run("evaluate", f"a.{form}")
    assert refused.code == 3
    assert "row 3 is NaN, expected the group of the row" in refused.err
    done = run("evaluate", f"a.{form}", "--group-by", "none", "--json")  # as is advised
    assert done.code == 0 and "nan" not in done.out.lower()
    assert run("fit", f"a.{form}", "--group-by", "none", "-o", "t.json", "-q").code == 0


# ---- through apply and back


@pytest.mark.parametrize("output", FORMATS)
def test_hostile_names_come_out_of_apply_as_they_went_in(ending, output, run, tmp_path):
    """Import, apply to every format, and import of what apply wrote."""
    names = HOSTILE if ending == "csv" else (*HOSTILE, *MISSING)
    group = repeated(names)
    ids = [f"{name}{'' if i < len(names) else i}" for i, name in enumerate(group)]
    write(tmp_path / f"in.{ending}", {"ids": ids, "group": group})
    assert run("fit", f"in.{ending}", "-m", "ts", "-o", "ts.json", "-q").code == 0
    done = run("apply", "ts.json", f"in.{ending}", "-o", f"out.{output}", "-q")
    assert done.code == 0, done.err
    done = run("extract", f"out.{output}", "-o", "back.h5", "-q")
    assert done.code == 0, done.err
    with h5py.File("back.h5") as file:
        assert texts(file["group"][()]) == group
        assert texts(file["ids"][()]) == ids
    assert run("evaluate", f"out.{output}", "-q").code == 0


@pytest.mark.parametrize("missing", MISSING)
def test_one_name_that_stands_for_nothing_comes_back_from_csv(missing, run, tmp_path):
    group = repeated([missing, "b"])
    write(tmp_path / "in.jsonl", {"group": group})
    assert run("fit", "in.jsonl", "-m", "ts", "-o", "ts.json", "-q").code == 0
    assert run("apply", "ts.json", "in.jsonl", "-o", "out.csv", "-q").code == 0
    assert run("extract", "out.csv", "-o", "back.h5", "-q").code == 0
    with h5py.File("back.h5") as file:
        assert texts(file["group"][()]) == group


def test_class_and_column_names_come_back_from_csv(run, tmp_path):
    names = [" a", "x;y;z;w;v;u", 'b"c\nd']
    with h5py.File("in.h5", "w") as file:
        file["logits"], file["labels"] = Z, Y
        file["class_names"] = np.array(names, dtype=object)
    assert run("fit", "in.h5", "-m", "ts", "-o", "ts.json", "-q").code == 0
    assert run("apply", "ts.json", "in.h5", "-o", "out.csv", "-q").code == 0
    done = run("extract", "out.csv", "-o", "back.h5", "-q")
    assert done.code == 0, done.err
    with h5py.File("back.h5") as file:
        assert texts(file["class_names"][()]) == names
        assert file["labels"][()].tolist() == Y.tolist()


@pytest.mark.parametrize("name", ["a,b", 'q"x', "two\nlines", " x", "a=b", "x;y;z;w;v"])
def test_a_column_of_any_name_comes_back_from_csv(name, run, tmp_path):
    with h5py.File("in.h5", "w") as file:
        file["logits"], file["labels"] = Z, Y
        file[name] = np.array(repeated(["Oslo", "", "NA"]), dtype=object)
    assert run("fit", "in.h5", "-m", "ts", "-o", "ts.json", "-q").code == 0
    named = ("--group-by", name, "-q")
    assert run("apply", "ts.json", "in.h5", "-o", "out.csv", *named).code == 0
    done = run("evaluate", "out.csv", "--json", "-m", "nll", *named)
    assert done.code == 0, done.err
    groups = json.loads(done.out)["results"][0]["per_group"]
    assert sorted(line["group"] for line in groups) == ["", "NA", "Oslo"]


def test_a_column_that_is_carried_keeps_its_text(run, tmp_path):
    patient = repeated(["007", "7", "1_0"][:2])
    write(tmp_path / "in.csv", {"patient_id": patient})
    assert run("fit", "in.csv", "-m", "ts", "-o", "ts.json", "-q").code == 0
    assert run("apply", "ts.json", "in.csv", "-o", "out.jsonl", "-q").code == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").open()]
    assert [row["patient_id"] for row in rows] == patient


def test_a_large_table_names_its_rows_as_a_small_one(monkeypatch, tmp_path, out):
    pytest.importorskip("pyarrow")
    columns = {
        "ids": [f"{i:03}" for i in range(N)],
        "group": repeated(["2024-01-02", "2024-01-03"]),
        "unit": repeated(["true", "false"]),
    }
    path = write(tmp_path / "a.csv", columns)
    monkeypatch.setattr(large_text_table, "LARGE", 0)
    imported = bring(path, out)
    assert {name: texts(imported[name]) for name in columns} == columns
    monkeypatch.setattr(large_text_table, "LARGE", 1 << 40)
    small = bring(path, out)
    assert all(texts(small[name]) == cells for name, cells in columns.items())
    write(tmp_path / "a.csv", {"unit": [i // 2 if i != 5 else None for i in range(N)]})
    monkeypatch.setattr(large_text_table, "LARGE", 0)
    with pytest.raises(DataError, match="row 5 is empty, expected the unit"):
        bring(path, out)


def test_decimal_commas_do_not_touch_names(tmp_path, out):
    rows = []
    for i in range(N):
        scores = ";".join(str(score) for score in Z[i])
        rows.append(f"{i % 5},5;{scores};{Y[i]}")
    body = "\n".join(rows).replace(".", ",")
    (tmp_path / "a.csv").write_text(f"unit;logits_0;logits_1;logits_2;labels\n{body}\n")
    imported = bring(tmp_path / "a.csv", out)
    assert texts(imported["unit"]) == [f"{i % 5},5" for i in range(N)]
    np.testing.assert_allclose(imported["logits"], Z)


# ---- joins


def table(path, **columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def scores_of(path, ids):
    z = {f"logits_{c}": Z[: len(ids), c] for c in range(3)}
    return table(path, id=ids, **z)


def test_the_gold_of_ids_that_python_reads_alike(tmp_path, out):
    ids = ["1_10", "11_0", "007", "7", "7.10", "7.1", " a", "a", "1e5", "100000"]
    labels = [i % 3 for i in range(len(ids))]
    key = table(tmp_path / "key.csv", id=ids[::-1], label=labels[::-1])
    imported = bring(scores_of(tmp_path / "a.csv", ids), out, gold=str(key))
    assert imported["labels"].tolist() == labels
    assert texts(imported["ids"]) == ids


@pytest.mark.parametrize("form", FORMATS)
def test_ids_of_one_value_join_from_every_format(form, tmp_path, out):
    """Numbers, numbers of a float type and texts of numbers are one id."""
    for kind in (int, str, float):
        cells = [kind(i) for i in range(N)]
        scores = write(tmp_path / f"a.{form}", {"ids": cells})
        key = table(tmp_path / "key.csv", id=range(N)[::-1], answer=Y[::-1])
        imported = bring(scores, out, gold=str(key), labels=("answer",))
        assert imported["labels"].tolist() == Y.tolist()


def test_an_id_that_the_gold_lacks_is_shown_with_its_spaces(tmp_path, out):
    key = table(tmp_path / "key.csv", id=["a", "b"], label=[0, 1])
    path = scores_of(tmp_path / "a.csv", [" a", "b"])
    message = r"row 0 has the id ' a', which .*key\.csv does"
    with pytest.raises(DataError, match=message):
        bring(path, out, gold=str(key))


def test_files_with_ids_of_two_types_are_joined(tmp_path, out):
    paths = []
    for part, ids in enumerate((["7", "8", "9"], ["07", "x", "10"])):
        columns = {f"logits_{c}": Z[3 * part : 3 * part + 3, c] for c in range(3)}
        name = tmp_path / f"part{part}.csv"
        paths.append(table(name, id=ids, labels=[0, part, 2], **columns))
    imported = bring(paths, out, join=True)
    assert texts(imported["ids"]) == ["7", "8", "9", "07", "x", "10"]


def test_bundles_with_groups_of_two_types_are_one_data_set(run):
    for name, group in (("a", np.arange(N) % 2), ("b", np.array(["x", "1"] * 30))):
        with h5py.File(f"{name}.h5", "w") as file:
            file["logits"] = Z + (name == "b")
            file["labels"] = Y
            file["group"] = group.astype(object) if group.dtype.kind == "U" else group
    words = ("--pool", "--per-group", "--json", "-m", "nll")
    done = run("evaluate", "a.h5", "b.h5", *words)
    assert done.code == 0, done.err
    groups = json.loads(done.out)["results"][0]["per_group"]
    assert {line["group"]: line["n"] for line in groups} == {"0": 30, "1": 60, "x": 30}


@pytest.mark.parametrize("role", ["unit", "group", "ids"])
def test_drop_missing_says_that_na_is_a_missing_value(role, run, tmp_path):
    cells = ["NA" if i == 5 else f"w{i}" for i in range(N)]
    write(tmp_path / "a.csv", {role: cells})
    done = run("extract", "a.csv", "--drop-missing", "-o", "a.h5")
    assert done.code == 0, done.err
    assert f"1 of {N} rows left out" in done.err
    assert "is a name" not in done.err


def test_na_as_the_id_of_several_rows_is_missing(run, tmp_path):
    cells = ["NA" if i in (5, 6) else f"w{i}" for i in range(N)]
    write(tmp_path / "a.csv", {"ids": cells})
    done = run("extract", "a.csv", "-o", "a.h5")
    assert done.code == 3
    assert "--unit ids" not in done.err
    command = done.err.partition("to try: ")[2].split()
    assert "--drop-missing" in command
    assert run(*command[1:]).code == 0


def test_no_rows_left_out_are_not_counted(run, tmp_path):
    write(tmp_path / "a.csv", {"ids": [f"w{i}" for i in range(N)]})
    done = run("extract", "a.csv", "--drop-missing", "-o", "a.h5")
    assert done.code == 0, done.err
    assert "left out" not in done.err
