"""Files as people have them: columns that nothing is made of, two sets in one file, what inspect says of each."""

import csv
import io
import json
import shlex
import sys
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest
from synthetic import truth

import calcli

Y = np.arange(60) % 2
P = 0.3 + 0.4 * Y


@pytest.fixture
def table(tmp_path):
    """A table of two classes with columns that say nothing of them, as CSV, JSON Lines, Parquet, npz or HDF5."""

    def write(name, more=()):
        z, y = truth(120, 2, seed=1)
        columns = {
            "customer": [f"c{i}" for i in range(120)],
            "region": ["north", "south"] * 60,
        }
        columns |= {name: list(range(120)) for name in ("age", *more)}
        columns |= {
            "prob": (1 / (1 + np.exp(z[:, 0] - z[:, 1]))).round(6).tolist(),
            "label": y.tolist(),
        }
        if name.endswith(".npz"):
            np.savez(tmp_path / name, **columns)
        elif name.endswith(".parquet"):
            pq = pytest.importorskip("pyarrow.parquet")
            pq.write_table(
                pytest.importorskip("pyarrow").table(columns), tmp_path / name
            )
        elif name.endswith(".jsonl"):
            rows = (
                dict(zip(columns, row, strict=True))
                for row in zip(*columns.values(), strict=True)
            )
            (tmp_path / name).write_text(
                "".join(json.dumps(row) + "\n" for row in rows)
            )
        elif name.endswith(".h5"):
            with h5py.File(tmp_path / name, "w") as file:
                for key, values in columns.items():
                    file[{"prob": "probs", "label": "labels"}.get(key, key)] = values
        else:
            with (tmp_path / name).open("w", newline="") as file:
                csv.writer(file).writerows(
                    [columns, *zip(*columns.values(), strict=True)]
                )
        return name

    return write


def unused(err, what="not used"):
    lines = [line for line in err.splitlines() if line.startswith(f"columns {what}: ")]
    assert len(lines) <= 1, err
    return lines[0] if lines else ""


HINT = " (see --ids, --group-by, --unit)"


@pytest.mark.parametrize("name", ["a.csv", "a.npz", "a.parquet"])
def test_columns_that_nothing_is_made_of_are_named_once(run, table, name):
    """They were dropped without a word."""
    table(name)
    assert (
        unused(run("evaluate", name).err)
        == f"columns not used: customer, region, age{HINT}"
    )
    made = run("extract", name, "-o", "a.h5").err
    assert unused(made) == f"columns not used: age{HINT}"
    kept = "columns kept for apply to write again: customer, region"  # it said that they are not used
    assert unused(made, "kept for apply to write again") == kept
    calcli.fit(np.c_[P, 1 - P], Y, kind="probs").save("c.json")
    done = run("apply", "c.json", name, "-o", "c.csv")
    assert unused(
        done.err, "kept for apply to write again"
    ) == kept and "age" in unused(done.err)
    assert {"customer", "region"} <= {
        *Path("c.csv").read_text().splitlines()[0].split(",")
    }
    assert unused(run("evaluate", name, "-q").err) == ""
    named = ("--ids", "customer", "--group-by", "region", "--unit", "age")
    for number_of_options, left in ((2, "region, age"), (4, "age"), (6, "")):
        unused_columns = unused(run("evaluate", name, *named[:number_of_options]).err)
        assert unused_columns == (f"columns not used: {left}{HINT}" if left else "")
    assert unused(
        run("run", table(f"b{name}"), name).err.partition("\nFitted")[0]
    ).startswith("columns not used")


def test_of_many_columns_eight_are_named(run, table):
    unused_columns = unused(
        run("evaluate", table("a.csv", [f"x{c}" for c in "abcdefgh"])).err
    )
    assert (
        unused_columns
        == f"columns not used: customer, region, age, xa, xb, xc, xd, xe, … (11 in all){HINT}"
    )


def test_run_says_of_one_file_once_what_was_read(run, table, tmp_path):
    sets = {
        f"{part}_{what}": array
        for part, seed in (("val", 1), ("test", 2))
        for what, array in both(seed).items()
    }
    np.savez("both.npz", **sets, notes=np.arange(3))
    done = run("run", "both.npz")
    assert done.code == 0 and done.err.count("columns not used: notes") == 1
    for part in ("val", "test"):
        arrays = f"('{part}_logits', '{part}_labels')"
        line = f"Read both.npz:{part}: 400 samples, 3 classes {arrays}.\n"
        assert done.err.count(f"Read both.npz:{part}") == done.err.count(line) == 1


def both(seed):
    z, y = truth(400, 3, temperature=2.5, seed=seed)
    return {"logits": z.astype(np.float32), "labels": y}


WRITERS = (
    "npz",
    "h5",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("pt", "safetensors")),
)


@pytest.fixture(params=WRITERS)
def two_sets(request, run):
    """val_logits, val_labels, test_logits, test_labels in one file, in several formats."""
    arrays = {
        f"{part}_{what}": a
        for part, seed in (("val", 1), ("test", 2))
        for what, a in both(seed).items()
    }
    name = f"both.{request.param}"
    if request.param == "npz":
        np.savez(name, **arrays)
    elif request.param == "h5":
        with h5py.File(name, "w") as file:
            for array_name, array in arrays.items():
                file[array_name] = array
    else:
        torch = pytest.importorskip("torch")
        tensors = {
            array_name: torch.tensor(array) for array_name, array in arrays.items()
        }
        save = torch.save
        if request.param == "safetensors":
            save = pytest.importorskip("safetensors.torch").save_file
        save(tensors, name)
    return name


def test_two_sets_of_one_file_are_read_as_groups_are(run, two_sets):
    """HDF5 without groups was refused; what each command takes and prints is what it does of groups of HDF5."""
    for part, seed in (("val", 1), ("test", 2)):
        with h5py.File("groups.h5", "a") as file:
            for what, array in both(seed).items():
                file[f"{part}/{what}"] = array
    for words in (
        ("evaluate", "FILE"),
        ("evaluate", "FILE:val"),
        ("evaluate", "FILE:*"),
        ("compare", "FILE", "-m", "ts"),
    ):
        named, known = (
            run(*(w.replace("FILE", name) for w in words), "--json", "-q")
            for name in (two_sets, "groups.h5")
        )
        assert named.code == 0, named.err
        named, known = (json.loads(done.out)["results"] for done in (named, known))
        assert [r["bundle"].rpartition(":")[2] for r in named] == [
            r["bundle"].rpartition(":")[2] for r in known
        ]
        assert [r["metrics"]["nll"] for r in named] == [
            r["metrics"]["nll"] for r in known
        ]
    assert "bundles in it: " in run("evaluate", f"{two_sets}:tset").line
    done = run("run", two_sets, "-o", "out")
    lines = done.out.splitlines()
    advised = next(line for line in lines if line.startswith("next: calcli apply "))
    words = advised.removeprefix("next: calcli ").split()
    made = words[-1]
    new = next(word for word in words if word.startswith("NEW."))
    words[words.index(new)] = f"{two_sets}:test"
    assert run(*words).code == 0
    with np.load(made) if made.endswith(".npz") else h5py.File(made) as file:
        np.testing.assert_array_equal(file["labels"][()], both(2)["labels"])


def test_inspect_describes_what_evaluate_reads(run, two_sets, table):
    """It took HDF5 alone."""
    done = run("inspect", two_sets, "--json")
    facts_of = {facts["bundle"]: facts for facts in json.loads(done.out)["bundles"]}
    assert set(facts_of) == {f"{two_sets}:val", f"{two_sets}:test"}
    assert all(
        (facts["n"], facts["n_classes"], facts["labels"]) == (400, 3, True)
        for facts in facts_of.values()
    )
    shown = run("inspect", f"{two_sets}:test").out
    assert (
        f"Read {two_sets}:test: 400 samples, 3 classes ('test_logits', 'test_labels')."
        in shown
    )
    assert f"bundle            {two_sets}:test\n" in shown and ":val\n" not in shown
    shown = run("inspect", table("a.csv"), "--group-by", "region").out
    assert "('prob', 'label', 'region' as groups)" in shown
    assert "columns not used: age" in shown
    assert "groups            name region, n 2, largest 60" in shown


def test_inspect_tells_calibrators_from_rows_of_json(run, monkeypatch, table):
    Path("rows.jsonl").write_text(
        "".join(
            json.dumps({"confidence": c / 9, "correct": c > 3}) + "\n"
            for c in range(10)
        )
    )
    output = json.loads(run("inspect", "rows.jsonl", "--json").out)
    assert [facts["kind"] for facts in output["bundles"]] == ["confidence"] and output[
        "bundles"
    ][0]["n"] == 10
    assert run("fit", "-m", "ts", table("a.csv"), "-o", "ts.json", "-q").code == 0
    for name, key in (
        ("ts.json", "artifact"),
        ("rows.jsonl", "bundles"),
        ("a.csv", "bundles"),
    ):
        assert key in json.loads(run("inspect", name, "--json").out)
        piped = io.TextIOWrapper(io.BytesIO(Path(name).read_bytes()))
        monkeypatch.setattr(sys, "stdin", piped)
        assert key in json.loads(run("inspect", "-", "--json").out)
    Path("cut.json").write_bytes(Path("ts.json").read_bytes()[:100])
    assert "expected a calibrator" in run("inspect", "cut.json").line


@pytest.mark.parametrize("name", ["new.jsonl", "new.csv", "new.npz"])
def test_confidences_that_nobody_has_judged_are_calibrated(run, name):
    """apply needs no labels, and asked confidences for them; those of bundles it took."""
    rng = np.random.default_rng(0)
    c = rng.uniform(0.5, 1.0, 300).round(6)
    np.savez("cal.npz", confidence=c, correct=rng.random(300) < c**2)
    assert run("fit", "cal.npz", "-m", "platt", "-o", "platt.json", "-q").code == 0
    with h5py.File("new.h5", "w") as file:
        file["confidence"] = c[:50]
    if name.endswith(".npz"):
        np.savez(name, confidence=c[:50])
    elif name.endswith(".csv"):
        Path(name).write_text(
            "answer,confidence\n" + "".join(f"a,{x}\n" for x in c[:50].tolist())
        )
    else:
        Path(name).write_text(
            "".join(
                json.dumps({"answer": "a", "confidence": x}) + "\n"
                for x in c[:50].tolist()
            )
        )
    assert run("apply", "platt.json", "new.h5", "-o", "known.npz", "-q").code == 0
    done = run("apply", "platt.json", name, "-o", "made.npz")
    assert (
        done.code == 0
        and f"Read {name}: 50 samples, confidences ('confidence', no labels)."
        in done.err
    )
    made, known = np.load("made.npz"), np.load("known.npz")
    np.testing.assert_array_equal(made["confidence"], known["confidence"])
    assert "correct" not in made and "correct" not in known
    assert run("evaluate", name).code == 3
    assert (
        run(
            "extract",
            name,
            "--labels",
            "none",
            "--confidence",
            "confidence",
            "-o",
            "e.h5",
            "-q",
        ).code
        == 0
    )


def columns_of(name):
    """The columns of an output, texts decoded."""
    ending = Path(name).suffix
    if ending == ".parquet":
        return pytest.importorskip("pyarrow.parquet").read_table(name).to_pydict()
    if ending in (".csv", ".jsonl"):
        lines = Path(name).read_text("utf-8").splitlines()
        if ending == ".csv":
            rows = list(csv.DictReader(lines))
        else:
            rows = [json.loads(line) for line in lines]
        return {key: [row[key] for row in rows] for key in rows[0]}
    columns = {}
    with np.load(name) if ending == ".npz" else h5py.File(name) as file:
        for key in file:
            values = file[key][()].tolist()
            if isinstance(values, list):
                columns[key] = [decoded(value) for value in values]
    return columns


def decoded(value):
    return value.decode() if isinstance(value, bytes) else value


CARRIED = {"customer": [f"c{i}" for i in range(120)], "region": ["north", "south"] * 60}


@pytest.mark.parametrize("ending", ["csv", "npz", "parquet", "jsonl", "h5"])
@pytest.mark.parametrize("name", ["a.csv", "a.npz", "a.parquet", "a.jsonl", "a.h5"])
def test_apply_gives_back_columns_of_words(run, table, name, ending):
    """Whoever joins calibrated rows to their own had to name each: what was not named was dropped."""
    out = f"out.{ending}"
    assert run("fit", "-m", "ts", table(name), "-q").code == 0
    assert run("apply", "a.ts.json", name, "-o", out, "-q").code == 0
    made = columns_of(out)
    assert {key: made[key] for key in CARRIED} == CARRIED
    assert "age" not in made  # a number is neither an id nor a group
    again = run("apply", "a.ts.json", out, "--again", "-o", "again.csv", "-q")
    assert again.code == 0, again.err
    assert {key: columns_of("again.csv")[key] for key in CARRIED} == CARRIED


@pytest.mark.parametrize("name", ["a.csv", "a.npz", "a.parquet", "a.jsonl", "a.h5"])
def test_columns_that_are_named_come_back_once_and_those_they_replace_too(
    run, table, name
):
    """With --ids NAME the column that is called as ids are was lost."""
    assert run("fit", "-m", "ts", table(name, ("row_id",)), "-q").code == 0
    named = ("--ids", "customer", "--group-by", "region")
    assert run("apply", "a.ts.json", name, *named, "-o", "named.csv", "-q").code == 0
    head = Path("named.csv").read_text("utf-8").partition("\n")[0].split(",")
    assert [
        head.count(word) for word in ("customer", "region", "row_id", "ids", "group")
    ] == [1, 1, 1, 0, 0]
    table("b.csv", ("image_id",))
    for ids in ("none", "customer"):
        assert (
            run(
                "apply",
                "a.ts.json",
                "b.csv",
                "--ids",
                ids,
                "-o",
                "b.out.csv",
                "--force",
                "-q",
            ).code
            == 0
        )
        assert columns_of("b.out.csv")["image_id"] == [str(i) for i in range(120)]


def test_columns_go_through_extract_and_its_splits_and_labels(run, table):
    """A bundle that extract makes has them, so that what is applied to it later gives them back."""
    assert run("fit", "-m", "ts", table("a.csv"), "-q").code == 0
    split = ("--split", "cal=0.5", "--split", "test=0.5")
    assert (
        run("extract", "a.csv", "-o", "a.h5", "-q").code
        == run("extract", "a.csv", *split, "-o", "s.h5", "-q").code
        == 0
    )
    assert run("apply", "a.ts.json", "a.h5", "-o", "out.csv", "-q").code == 0
    assert {key: columns_of("out.csv")[key] for key in CARRIED} == CARRIED
    assert run("apply", "a.ts.json", "s.h5:test", "-o", "part.csv", "-q").code == 0
    part = columns_of("part.csv")
    assert len(part["customer"]) == 60
    assert all(
        CARRIED["region"][int(c[1:])] == r
        for c, r in zip(part["customer"], part["region"], strict=True)
    )
    head = "doc,probs_a,probs_b,label_a,label_b\n"
    Path("m.csv").write_text(
        head
        + "".join(
            f"d{i},0.{i % 9 + 1},0.{8 - i % 8},{i % 2},{i % 3 % 2}\n" for i in range(60)
        )
    )
    assert (
        run(
            "extract",
            "m.csv",
            "--per-label",
            "--labels",
            "label_a:label_b",
            "-o",
            "m.h5",
            "-q",
        ).code
        == 0
    )
    assert run("apply", "a.ts.json", "m.h5", "-o", "m.out.csv", "-q").code == 0
    assert columns_of("m.out.csv")["doc"] == [
        f"d{i}" for i in range(60) for _ in range(2)
    ]


def test_arrays_of_other_sets_stay_with_these(run):
    z, y = truth(60, 3, seed=1)
    sets = {
        f"{part}_{what}": v
        for part in ("val", "test")
        for what, v in (("logits", z), ("labels", y))
    }
    np.savez("both.npz", **sets, val_site=["a"] * 60, test_site=["b"] * 60)
    assert run("fit", "-m", "ts", "both.npz:val", "-o", "ts.json", "-q").code == 0
    for part, site in (("val", "a"), ("test", "b")):
        assert (
            run("apply", "ts.json", f"both.npz:{part}", "-o", f"{part}.csv", "-q").code
            == 0
        )
        made = columns_of(f"{part}.csv")
        assert (
            made["site"] == [site] * 60 and not {"val_site", "test_site"} & made.keys()
        )


def test_columns_called_as_those_of_the_output_give_way(run, table):
    """Such names mean something in an output; source is a record of npz, which a column outdoes."""
    name = table("a.csv", ("extra",))
    rows = [*csv.reader(Path(name).read_text("utf-8").splitlines())]
    place = rows[0].index("extra")
    assert run("fit", "-m", "ts", name, "-q").code == 0
    endings = ("csv", "npz", "h5", "jsonl")
    for i, word in enumerate(
        ("prediction", "accepted", "p0", "calibrator", "source", ".")
    ):
        for row in rows:
            row[place] = word if row is rows[0] else "word"
        with Path("b.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        for ending in (
            endings if word == "source" else (endings[i % 4], endings[(i + 1) % 4])
        ):
            done = run(
                "apply",
                "a.ts.json",
                "b.csv",
                "-o",
                f"o.{ending}",
                "--threshold",
                "0.5",
                "--force",
                "-q",
            )
            assert done.code == 0, done.err
            made = columns_of(f"o.{ending}")
            assert {key: made[key] for key in CARRIED} == CARRIED
            assert (made.get(word) == ["word"] * 120) == (word == "source"), word
    with np.load("o.npz") as file:
        assert file["calibrated_by"].shape == ()


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.jsonl", "a.h5"])
def test_texts_and_lists_stay_behind(run, name):
    """One text of a megabyte made an array of all of them as wide: 480 MB for 120 rows."""
    z, y = truth(120, 2, seed=1)
    columns = {
        "note": ["x" * 10**6, *["short"] * 119],
        "probs": (1 / (1 + np.exp(z[:, 0] - z[:, 1]))).tolist(),
    }
    columns |= {"labels": y.tolist(), "site": ["a", ""] * 60}
    if name.endswith(".h5"):
        with h5py.File(name, "w") as file:
            for key, values in columns.items():
                file[key] = values
    elif name.endswith(".parquet"):
        columns["embedding"] = z.tolist()
        pytest.importorskip("pyarrow.parquet").write_table(
            pytest.importorskip("pyarrow").table(columns), name
        )
    elif name.endswith(".jsonl"):
        columns["embedding"] = z.tolist()
        rows = (
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        )
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with Path(name).open("w", newline="") as file:
            csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    assert run("fit", "-m", "ts", name, "-o", "ts.json", "-q").code == 0
    tracemalloc.start()
    assert run("apply", "ts.json", name, "-o", "out.jsonl", "-q").code == 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
    made = columns_of("out.jsonl")
    # blank ones come back too
    assert not {"note", "embedding"} & made.keys() and made["site"] == ["a", ""] * 60


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_a_column_whose_values_repeat_is_proposed_as_units(run, ending):
    """It was listed as not used, as any other. A fold or a group is no unit, one value for all rows no column."""
    columns = {
        "patient": np.arange(60) // 3,
        "fold": np.arange(60) % 5,
        "site": np.tile(["a", "b"], 30),
    }
    columns |= {"probs": P, "labels": Y}
    if ending == "npz":
        np.savez("a.npz", **columns, epoch=3, step=[7])
    else:
        lines = [columns, *zip(*columns.values(), strict=True)]
        Path("a.csv").write_text(
            "".join(",".join(map(str, line)) + "\n" for line in lines)
        )
    errors = run("evaluate", f"a.{ending}").err
    assert unused(errors) == f"columns not used: patient, fold, site{HINT}"
    assert (
        "'patient' repeats: if rows of one value depend on each other, pass --unit patient\n"
        in errors
    )
    assert "'fold' repeats" not in errors and "'site' repeats" not in errors
    for words in (["--unit", "patient"], ["--unit", "none"]):
        assert "repeats" not in run("evaluate", f"a.{ending}", *words).err


@pytest.mark.parametrize("role", ["ids", "unit"])
@pytest.mark.parametrize("ending", ["npz", "h5"])
def test_ids_and_units_of_a_float_type_are_whole_or_refused(run, role, ending):
    """Any number was taken, and 2.0 written as such. Every command refuses them, those that read none too."""

    def write(values):
        columns = {"probs": P, "labels": Y, role: values}
        if ending == "npz":
            np.savez("a.npz", **columns)
        else:
            with h5py.File("a.h5", "w") as file:
                for name, column in columns.items():
                    file[name] = column

    write(
        np.arange(60) // 2 * (1 + (role == "ids"))
        + np.arange(60) % 2 * (role == "ids")
        + 0.0
    )
    assert run("fit", f"a.{ending}", "-m", "platt", "-o", "a.json", "-q").code == 0
    assert run("apply", "a.json", f"a.{ending}", "-o", "b.csv", "-q").code == 0
    head, _, row = Path("b.csv").read_text().splitlines()[:3]
    assert (
        dict(zip(head.split(","), row.split(","), strict=True))[role]
        == {"ids": "1", "unit": "0"}[role]
    )
    write(np.arange(60) + 0.5)
    commands = (
        ["fit", "-m", "ts", "-o", "c.json"],
        ["apply", "a.json", "-o", "c.h5"],
        ["evaluate"],
        ["inspect"],
    )
    for command, *more in commands:
        refused = run(command, *more, f"a.{ending}")
        what = {"ids": "id", "unit": "unit"}[role]
        assert refused.code == 3, command
        assert (
            f"row 0 is 0.5, expected the {what} of the row, a whole number or a word"
            in refused.line
        )


@pytest.mark.parametrize("role", ["ids", "group", "unit"])
def test_a_column_of_another_length_is_refused_by_every_command(run, role):
    """fit took such a file, and apply of its calibrator refused it."""
    with h5py.File("a.h5", "w") as file:
        file["probs"], file["labels"], file[role] = P, Y, np.arange(59)
    for command in (
        ["fit", "-m", "ts"],
        ["evaluate"],
        ["inspect"],
        ["threshold", "--accuracy", ".6"],
        ["diagram"],
    ):
        refused = run(*command, "a.h5")
        assert (
            refused.code == 3
            and f"{role}: has shape (59,), expected (60,)" in refused.line
        )


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "h5"])
@pytest.mark.parametrize("words", [False, True])
def test_labels_come_back_by_the_name_that_the_user_gave_them(run, ending, words):
    """``readmitted`` came back as ``labels``, and was read again as such only."""
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    names = ["no", "yes"] if words else [0, 1]
    lines = [
        "site,readmitted,p",
        *(f"{'ab'[i % 3 > 0]},{names[Y[i]]},{P[i]}" for i in range(60)),
    ]
    Path("a.csv").write_text("\n".join(lines) + "\n")
    asked = ("--scores", "p", "--labels", "readmitted", "--kind", "probs")
    assert run("fit", "a.csv", *asked, "-m", "platt", "-o", "a.json", "-q").code == 0
    done = run(
        "apply",
        "a.json",
        "a.csv",
        *asked,
        "--threshold",
        ".6",
        "-o",
        f"b.{ending}",
        "-q",
    )
    assert done.code == 0
    if ending == "csv":
        assert (
            Path("b.csv")
            .read_text()
            .startswith("readmitted,prediction,confidence,accepted,site,probs_")
        )
    again = run("evaluate", f"b.{ending}", "--json")
    first = json.loads(
        run("evaluate", "a.csv", *asked, "-c", "a.json", "--json", "-q").out
    )["results"][1]
    result = json.loads(again.out)["results"][0]
    assert (
        result["n"] == 60
        and result["metrics"]["accuracy"] == first["metrics"]["accuracy"]
    )
    if ending != "h5":  # which has place for it
        # accepted went without a word
        assert "columns not used: accepted, site" in again.err
    assert (
        run("apply", "a.json", f"b.{ending}", "--again", "-o", "c.csv", "-q").code == 0
    )
    rows = [line.split(",") for line in Path("c.csv").read_text().splitlines()]
    assert rows[0][:2] == ["readmitted", "prediction"] and "accepted" not in rows[0]
    assert [row[0] for row in rows[1:]] == [str(names[y]) for y in Y]


def test_a_column_before_predictions_of_somebody_else_is_no_label(run):
    lines = [
        "fold,prediction,confidence,probs_0,probs_1",
        *("1,0,.7,.7,.3" for _ in range(60)),
    ]
    Path("a.csv").write_text("\n".join(lines) + "\n")
    refused = run("evaluate", "a.csv")
    assert refused.code == 3 and "found no labels for 'probs'" in refused.line


@pytest.mark.parametrize("stem", ["", "z", "class "])
def test_columns_from_a_number_to_another_are_in_the_order_of_the_numbers(run, stem):
    """Columns sorted as text, 0 1 10 2 …, were taken in that order: another class for every label above 1."""
    z, y = truth(80, 11, seed=3)
    order = sorted(range(11), key=str)
    lines = [",".join([*(f"{stem}{c}" for c in order), "label"])]
    lines += [
        ",".join([*(repr(float(z[i, c])) for c in order), str(y[i])]) for i in range(80)
    ]
    Path("a.csv").write_text("\n".join(lines) + "\n")
    asked = ("--scores", f"{stem}0:{stem}10", "--kind", "logits")
    assert run("extract", "a.csv", *asked, "-o", "a.h5").code == 0
    with h5py.File("a.h5") as file:
        assert np.array_equal(file["logits"], z) and np.array_equal(file["labels"], y)
    # between them another: as they stand
    Path("b.csv").write_text("z0,other,z1,label\n" + "1.5,2,3,1\n" * 40)
    run("extract", "b.csv", "--scores", "z0:z1", "--kind", "logits", "-o", "b.h5")
    with h5py.File("b.h5") as file:
        assert file["logits"][0].tolist() == [1.5, 2, 3]


@pytest.mark.parametrize("field", ["logprob", "prob"])
def test_the_confidence_of_an_answer_is_no_score_for_any_command(run, field):
    """inspect and apply read it as unlabelled scores of class 1, evaluate refused it for want of labels."""
    rows = [
        {"output": {"text": "a", field: -0.1 - i % 7 if field == "logprob" else 0.5}}
        for i in range(60)
    ]
    text = "".join(
        json.dumps({**row, "correct": i % 3 > 0}) + "\n" for i, row in enumerate(rows)
    )
    Path("a.jsonl").write_text(text)
    calcli.fit(np.c_[1 - P, P], Y, "platt", kind="probs").save("c.json")
    for command in (
        ["inspect"],
        ["evaluate"],
        ["apply", "c.json", "-o", "b.h5"],
        ["fit", "-o", "d.json"],
    ):
        refused = run(*command, "a.jsonl")
        assert (
            refused.code == 3
            and f"'output.{field}' is one number a row beside 'correct'" in refused.err
        )


def test_one_array_without_labels_gets_a_command(run):
    """It was told what to pass, and not given the command."""
    np.save("a.npy", truth(40, 3)[0])
    refused = run("extract", "a.npy", "--kind", "logits", "-o", "a.h5")
    command = refused.line.partition("to try: ")[2]
    assert command == "calcli extract a.npy --labels none -o a.h5 --kind logits"
    assert run(*command.split()[1:]).code == 0
    # which needs labels
    assert "to try" not in run("evaluate", "a.npy", "--kind", "logits").line


@pytest.mark.parametrize("name", ["two.npz", "two.h5"])
def test_columns_of_a_part_that_was_not_asked_for_are_not_named(run, tmp_path, name):
    """``cal/ids`` was said to be kept where only ``test`` was read."""
    arrays = {}
    for part in ("cal", "test"):
        arrays |= {
            f"{part}/logits": np.log(np.c_[P, 1 - P]),
            f"{part}/labels": Y,
            f"{part}/ids": np.arange(len(P)),
            f"{part}/region": np.array(["N", "S"] * (len(P) // 2), dtype="S1"),
        }
    path = tmp_path / name
    if name.endswith("npz"):
        np.savez(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for array, values in arrays.items():
                file[array] = values
    made = run("extract", str(path), "--part", "test", "-o", "one.h5")
    assert made.code == 0, made.err
    assert "cal/" not in made.err
    kept = unused(made.err, "kept for apply to write again")
    assert "test/region" in kept and "cal" not in kept
    with h5py.File("one.h5") as file:
        assert sorted(file["test"]) == ["ids", "labels", "logits", "region"]


@pytest.mark.parametrize("name", ["scores", "start"])
def test_a_column_may_be_called_as_an_argument_that_writes_it(run, name):
    """``scores`` ended in an internal error."""
    rows = "".join(f"0.{3 + i % 4},0.{7 - i % 4},{i % 2},low\n" for i in range(40))
    Path("a.csv").write_text(f"p_no,p_yes,label,{name}\n{rows}")
    done = run("extract", "a.csv", "-o", "a.h5")
    assert done.code == 0, done.err
    assert f"columns kept for apply to write again: {name}" in done.err


@pytest.mark.parametrize("label_first", [False, True])
@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_one_score_and_one_label_without_names_end_with_the_command(
    kind, label_first, run
):
    rng = np.random.default_rng(4)
    p = rng.uniform(0.02, 0.98, 200).round(4)
    y = (rng.random(200) < p).astype(int)
    score = p if kind == "probs" else np.log(p / (1 - p)).round(4)
    columns = [y, score] if label_first else [score, y]
    rows = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    Path("pair.csv").write_text("\n".join(rows) + "\n")
    refused = run("evaluate", "pair.csv")
    assert refused.code == 3
    advised = shlex.split(refused.err.partition("to try: ")[2])
    assert run(*advised[1:]).code == 0
    done = run("evaluate", "pair.h5", "--metric", "nll", "--format", "value")
    of_one = p if kind == "probs" else 1 / (1 + np.exp(-score))
    expected = -np.log(np.where(y == 1, of_one, 1 - of_one)).mean()
    assert float(done.out) == pytest.approx(expected, abs=1e-9)
