"""Columns beside the scores, by the names that a file has for them: --group-by, --sample-weight, --ids, --unit."""

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import h5py
import numpy as np
import pytest

from calcli.cli.options import Reading, names_of

N = 240
P = np.random.default_rng(0).beta(1, 1, N).round(4)
Y = (np.random.default_rng(1).random(N) < P).astype(int)
COLUMNS = {
    "app_id": [f"A{i:03d}" for i in range(N)],
    "score": P.tolist(),
    "denied": [("no", "yes")[y] for y in Y],
    "race": [("Black", "White", "Asian")[i % 3] for i in range(N)],
    "sex": ["FM"[i % 2] for i in range(N)],
    "w": [1 + i % 4 for i in range(N)],
    "patient": [i // 4 for i in range(N)],
}
SCORES = ("--scores", "score", "--labels", "denied", "--kind", "probs")
NAMED = (
    "--ids",
    "app_id",
    "--group-by",
    "race",
    "--group-by",
    "sex",
    "--sample-weight",
    "w",
    "--unit",
    "patient",
)


@pytest.fixture(params=["a.csv", "a.npz", "a.jsonl", "a.parquet"])
def file(run, request):
    """The same table in a format that people keep such tables in."""
    name = request.param
    if name.endswith("npz"):
        np.savez(name, **COLUMNS)
    elif name.endswith("jsonl"):
        rows = [
            dict(zip(COLUMNS, row, strict=True))
            for row in zip(*COLUMNS.values(), strict=True)
        ]
        with open(name, "w") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
    elif name.endswith("csv"):
        with open(name, "w", newline="") as out:
            csv.writer(out).writerows(
                [list(COLUMNS), *zip(*COLUMNS.values(), strict=True)]
            )
    else:
        pa = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pa.table(COLUMNS), name)
    return name


def groups_of(done):
    assert done.code == 0, done.err
    return {
        line["group"]: line["n"]
        for line in json.loads(done.out)["results"][0]["per_group"]
    }


def test_every_command_takes_them_from_a_table_as_from_the_bundle(run, file):
    assert run("extract", file, *SCORES, *NAMED, "-o", "a.h5").code == 0
    with h5py.File("a.h5") as made:
        assert made["ids"].asstr()[:2].tolist() == ["A000", "A001"]
        assert made["group"].asstr()[1] == "race=White, sex=M"
        assert made["unit"][:5].tolist() == [0, 0, 0, 0, 1]
        assert made["weights"][:5].tolist() == [1, 2, 3, 4, 1]
    asked = ("-m", "brier", "--resamples", "50", "--json")
    direct, bundle = (
        run("evaluate", *words, *asked)
        for words in ((file, *SCORES, *NAMED), ("a.h5", "--per-group"))
    )
    races = ("Black", "White", "Asian")
    groups = {f"race={race}": 80 for race in races}
    groups |= {f"sex={sex}": 120 for sex in "FM"}
    groups |= {f"race={race}, sex={sex}": 40 for race in races for sex in "FM"}
    assert groups_of(direct) == groups_of(bundle) == groups
    value, same = (
        json.loads(done.out)["results"][0]["metrics"]["brier"]["value"]
        for done in (direct, bundle)
    )
    weight = np.array(COLUMNS["w"], dtype=float)
    assert (
        value == same == pytest.approx(2 * (weight * (P - Y) ** 2).sum() / weight.sum())
    )
    assert groups_of(run("evaluate", "a.h5", "--group-by", "sex", *asked)) == {
        "F": 120,
        "M": 120,
    }
    assert groups_of(
        run("evaluate", file, *SCORES, "--group", "race", *asked)
    ) == dict.fromkeys(("Black", "White", "Asian"), 80)


def test_apply_gives_columns_back_under_their_own_names_and_classes_by_theirs(
    run, file
):
    assert run("fit", file, *SCORES, "-o", "a.json").code == 0
    assert run("apply", "a.json", file, *SCORES, *NAMED, "-o", "served.csv").code == 0
    with open("served.csv", newline="") as made:
        rows = list(csv.DictReader(made))
    assert {"app_id", "race", "sex", "patient", "w"} <= rows[
        0
    ].keys() and "group" not in rows[0]
    for name in ("app_id", "race", "sex"):
        assert [row[name] for row in rows] == COLUMNS[name]
    assert [row["denied"] for row in rows] == COLUMNS["denied"]
    assert {(row["prediction"], float(row["probs_yes"]) > 0.5) for row in rows} == {
        ("yes", True),
        ("no", False),
    }
    assert run("extract", file, *SCORES, *NAMED, "-o", "a.h5").code == 0
    assert run("apply", "a.json", "a.h5", "-o", "again.csv").code == 0
    assert Path("again.csv").read_text() == Path("served.csv").read_text()
    assert run("apply", "a.json", "a.h5", "-o", "back.h5").code == 0
    assert run("apply", "a.json", "back.h5", "--again", "-o", "twice.csv").code == 0
    with open("twice.csv", newline="") as made:
        assert [row["race"] for row in csv.DictReader(made)] == COLUMNS["race"]


def test_in_hdf5_they_name_datasets_beside_the_scores(run):
    with h5py.File("a.h5", "w") as made:
        made["logits"], made["labels"] = (
            np.stack([np.log1p(-P), np.log(np.maximum(P, 1e-9))], axis=1),
            Y,
        )
        made["site"], made["sex"], made["unit"] = (
            np.arange(N) % 3,
            np.arange(N) % 2,
            np.arange(N) // 2,
        )
    asked = ("-m", "nll", "--resamples", "50", "--json")
    assert groups_of(
        run("evaluate", "a.h5", "--group-by", "site", *asked)
    ) == dict.fromkeys(range(3), 80)
    both = groups_of(
        run("evaluate", "a.h5", "--group-by", "site", "--group-by", "sex", *asked)
    )
    groups = {f"site={s}": 80 for s in range(3)} | {f"sex={x}": 120 for x in range(2)}
    groups |= {f"sex={x}, site={s}": 40 for s in range(3) for x in range(2)}
    assert both == groups
    refused = run("evaluate", "a.h5", "--group-by", "ward")
    assert (
        refused.code == 3
        and "no dataset 'ward'; one value per row have: labels, sex, site, unit"
        in refused.line
    )
    plain = json.loads(run("threshold", "a.h5", "--accuracy", ".6", "--json").out)
    assert plain["units"]["n"] == N // 2
    none = json.loads(
        run("threshold", "a.h5", "--accuracy", ".6", "--unit", "none", "--json").out
    )
    assert none["units"] == {"name": "none"}
    few = run("threshold", "a.h5", "--accuracy", ".6", "--unit", "site")
    assert few.code == 4 and "3 units" in few.line


def test_what_is_asked_for_takes_the_place_of_what_a_name_says(run):
    np.savez(
        "a.npz",
        probs=P,
        labels=Y,
        image_id=np.arange(N) // 2,
        group=np.zeros(N, int),
        ward=np.arange(N) % 2,
    )
    assert (
        run(
            "extract", "a.npz", "--unit", "image_id", "--group-by", "ward", "-o", "a.h5"
        ).code
        == 0
    )
    with h5py.File("a.h5") as made:
        assert (
            "ids" not in made
            and made["unit"][3] == 1
            and made["group"][:2].tolist() == [0, 1]
        )
    assert (
        run("extract", "a.npz", "--ids", "none", "--unit", "none", "-o", "b.h5").code
        == 0
    )
    with h5py.File("b.h5") as made:
        assert {"ids", "unit"}.isdisjoint(made)
    refused = run("extract", "a.npz", "--unit", "patient", "-o", "c.h5")
    assert (
        refused.code == 2
        and "no column is named 'patient'; valid names: group, image_id" in refused.line
    )


def test_a_unit_that_is_unknown_is_refused(run):
    np.savez(
        "a.npz", probs=P, labels=Y, patient=np.where(np.arange(N) == 7, np.nan, 1.0)
    )
    refused = run("extract", "a.npz", "--unit", "patient", "-o", "a.h5")
    assert (
        refused.code == 3
        and "patient: row 7 is NaN, expected the unit of the row" in refused.line
    )
    with h5py.File("b.h5", "w") as made:
        made["probs"], made["labels"], made["unit"] = (
            P,
            Y,
            np.where(np.arange(N) == 7, np.nan, 1.0),
        )
    refused = run("threshold", "b.h5", "--accuracy", ".6")
    assert refused.code == 3 and "unit: row 7 is NaN" in refused.line
    with h5py.File("b.h5", "a") as made:
        del made["unit"]
        made["unit"] = [b"" if i == 7 else b"ann" for i in range(N)]
    refused = run("threshold", "b.h5", "--accuracy", ".6")
    assert refused.code == 3 and "unit: row 7 is empty" in refused.line
    assert run("evaluate", "b.h5", "--unit", "none").code == 0
    np.savez("c.npz", probs=P, labels=Y, patient=np.arange(5))
    refused = run("extract", "c.npz", "--unit", "patient", "-o", "c.h5")
    assert refused.code == 3 and "unit has shape (5,), expected (240,)" in refused.line


def test_ignored_labels_are_left_out_where_a_name_stands_for_several_bundles(
    run, tmp_path
):
    """``inspect`` and ``FILE:*`` read the file without the option, and advised it."""
    z = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(np.arange(60) % 6 == 0, -100, z.argmax(axis=1))
    np.savez("s.npz", val_logits=z, val_labels=y, test_logits=z, test_labels=y)
    leaving = "--ignore-label", "-100"
    for file, n in (("s.npz", 2), ("s.npz:*", 2), ("s.npz:t*", 1)):
        output = json.loads(run("inspect", file, *leaving, "--json").out)["bundles"]
        assert [each["n"] for each in output] == [50] * n
        assert len(
            json.loads(run("evaluate", file, *leaving, "--json", "-q").out)["results"]
        ) == (n if "*" in file else 1)
    assert run("evaluate", "s.npz:*", "--pool", *leaving, "-q").code == 0
    assert run("fit", "s.npz:v*", *leaving, "-o", "c.json").code == 0


def forecasts():
    """Two forecasts of an event each, and whether it came true, as files of forecasts name them."""
    rng = np.random.default_rng(0)
    columns = {}
    for name in ("prob1", "prob2"):
        columns[name] = np.round(rng.random(60), 3)
        columns[f"{name}_outcome"] = (rng.random(60) < columns[name]).astype(int)
    return columns


def written_forecasts(ending):
    columns = forecasts()
    rows = [
        dict(zip(columns, row, strict=True))
        for row in zip(*(values.tolist() for values in columns.values()), strict=True)
    ]
    path = f"f.{ending}"
    if ending == "csv":
        lines = [",".join(columns)]
        lines += [",".join(map(str, row.values())) for row in rows]
        Path(path).write_text("\n".join(lines))
    elif ending == "jsonl":
        Path(path).write_text("\n".join(map(json.dumps, rows)))
    elif ending == "json":
        Path(path).write_text(json.dumps(rows))
    elif ending == "npz":
        np.savez(path, **columns)
    elif ending == "h5":
        with h5py.File(path, "w") as file:
            for name, values in columns.items():
                file[name] = values
    elif ending == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        arrow = pytest.importorskip("pyarrow")
        parquet.write_table(arrow.table(columns), path)
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"create table t ({', '.join(columns)})")
            values = [tuple(row.values()) for row in rows]
            connection.executemany("insert into t values (?, ?, ?, ?)", values)
            connection.commit()
    return path


@pytest.mark.parametrize(
    "ending", ["csv", "jsonl", "json", "npz", "h5", "parquet", "sqlite"]
)
def test_a_forecast_and_its_outcome_belong_together_in_every_format(run, ending):
    """In HDF5 `--scores prob1` asked for a kind, and then found no labels."""
    path = written_forecasts(ending)
    refused = run("evaluate", path)
    assert refused.code == 2
    assert "--scores prob1 --labels prob1_outcome" in refused.err
    for more in ((), ("--kind", "probs"), ("--labels", "prob1_outcome")):
        done = run("evaluate", path, "--scores", "prob1", *more, "--json")
        assert done.code == 0, done.err
        observed = json.loads(done.out)["results"][0]["report"]["positive"]["observed"]
        assert observed == pytest.approx(forecasts()["prob1_outcome"].mean(), abs=1e-4)


OTHER_READING = {
    "scores": "other",
    "labels": "others",
    "kind": "log_probs",
    "ignore_label": "2",
    "group_by": "site",
    "unit": "patient",
    "ids": "number",
    "sample_weight": "w",
    "allow_external": None,  # in tests/fuzz/test_hostile_hdf5.py
}
"""Value of every option that says how a file is read, by which these are read differently."""


@pytest.mark.parametrize("field", names_of(Reading))
@pytest.mark.parametrize("name", ["a.h5", "a.npz"])
def test_every_option_of_reading_has_an_effect(run, name, field):
    """On a bundle and on a file of another format; else it would be taken and forgotten."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 60)
    arrays = {"logits": np.log(p), "other": np.log(p[:, ::-1])}
    arrays |= {"labels": rng.integers(0, 3, 60), "others": rng.integers(0, 3, 60)}
    arrays |= {"site": np.arange(60) % 2, "patient": np.arange(60) // 4}
    arrays |= {"number": 1000 + np.arange(60), "w": 1.0 + np.arange(60) % 3}
    if name.endswith("npz"):
        np.savez(name, **arrays)
    else:
        with h5py.File(name, "w") as file:
            for path, array in arrays.items():
                file[path] = array
    assert field in OTHER_READING, "give it a value in OTHER_READING"
    value = OTHER_READING[field]
    if value is None:
        return
    assert run("fit", "-m", "identity", name, "-o", "identity.json", "-q").code == 0
    read = []
    for words in ((), (f"--{field.replace('_', '-')}", value)):
        shown = run("inspect", name, "--json", *words)
        applied = run(
            "apply", "identity.json", name, "-o", "out.csv", "--force", *words
        )
        assert shown.code == 0, shown.err
        bundles = json.loads(shown.out)["bundles"]
        read.append((bundles, applied.code, Path("out.csv").read_text()))
    assert read[0] != read[1], f"--{field} is read and forgotten"
