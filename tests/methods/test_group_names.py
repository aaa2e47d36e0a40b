"""Groups keep their names between fit and apply: orders of columns, types of numbers, calibrators of old versions."""

import csv
import itertools
import json
from pathlib import Path

import h5py
import numpy as np
import pytest

import calcli
from calcli.errors import DataError

N = 900
RNG = np.random.default_rng(1)
Y = RNG.integers(0, 3, N)
SITE = np.array(["Oslo", "Porto"])[RNG.integers(0, 2, N)]
SEX = np.array(["F", "M"])[RNG.integers(0, 2, N)]
AGE = RNG.integers(0, 3, N)
SHARP = np.where(SITE == "Oslo", 6.0, 1.0) * np.where(SEX == "F", 1.0, 0.4)
Z = (2.0 * np.eye(3)[Y] + 1.5 * RNG.normal(size=(N, 3))) * SHARP[:, None]

COLUMNS = {"site": SITE, "sex": SEX, "age": AGE}
pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")


def write_csv(name, columns):
    table = {**columns, "label": Y, **{f"logits_{c}": Z[:, c] for c in range(3)}}
    with open(name, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def write_h5(name, columns):
    with h5py.File(name, "w") as file:
        file["logits"], file["labels"] = Z, Y
        for key, values in columns.items():
            file[key] = values.astype(object) if values.dtype.kind == "U" else values


def by(order):
    return [word for column in order for word in ("--group-by", column)]


def fitted(run, file, order, name="a.json", method="ts"):
    words = (*by(order), "--by", "group", "-m", method, "-q", "--force")
    done = run("fit", file, *words, "-o", name)
    assert done.code == 0, done.err
    return json.loads(Path(name).read_text())


def applied(run, artifact, file, order=()):
    """Calibrated probabilities, (n, 3), and what was said."""
    done = run("apply", artifact, file, *by(order), "-o", "o.npz", "--force")
    assert done.code == 0, done.err
    return np.load("o.npz")["probs"], done.err


@pytest.mark.parametrize("method", ["ts", "platt"])
def test_columns_named_in_another_order_give_the_same_groups(method, run):
    write_csv("a.csv", COLUMNS)
    write_h5("a.h5", COLUMNS)
    orders = list(itertools.permutations(("site", "sex")))
    orders += list(itertools.permutations(COLUMNS))
    for many in (2, 3):
        same = [order for order in orders if len(order) == many]
        artifacts = [
            fitted(run, file, order, method=method)
            for order in same
            for file in ("a.csv", "a.h5")
        ]
        assert "groups" in artifacts[0]["params"]  # the groups differ
        assert all(one["params"] == artifacts[0]["params"] for one in artifacts)
        outputs = []
        for order in same:
            for file in ("a.csv", "a.h5"):
                p, said = applied(run, "a.json", file, order)
                assert "not seen" not in said
                outputs.append(p)
        assert all(np.array_equal(p, outputs[0]) for p in outputs)


def test_a_bundle_that_holds_the_intersections_is_read_in_any_order(run):
    """Such as extract has written it, also before intersections had their own order."""
    write_csv("a.csv", COLUMNS)
    fitted(run, "a.csv", ("sex", "site"))
    plain, _ = applied(run, "a.json", "a.csv", ("sex", "site"))
    assert run("extract", "a.csv", *by(("site", "sex")), "-o", "a.h5", "-q").code == 0
    with h5py.File("a.h5") as file:
        assert file["group"].asstr()[0] == f"sex={SEX[0]}, site={SITE[0]}"
    assert np.array_equal(applied(run, "a.json", "a.h5")[0], plain)
    old = [f"site={site}, sex={sex}" for site, sex in zip(SITE, SEX, strict=True)]
    write_h5("old.h5", {"group": np.array(old)})
    p, said = applied(run, "a.json", "old.h5")
    assert np.array_equal(p, plain) and "not seen" not in said


@pytest.mark.parametrize("column", ["group", "site, sex"])
def test_a_calibrator_of_an_old_version_finds_its_intersections(column, run):
    """Its groups are named in the order of its fit, and by may name both columns."""
    write_csv("a.csv", COLUMNS)
    artifact = fitted(run, "a.csv", ("site", "sex"))
    plain, _ = applied(run, "a.json", "a.csv", ("site", "sex"))
    turned = {}
    for name, value in artifact["params"]["groups"].items():
        sex, site = name.split(", ")
        turned[f"{site}, {sex}"] = value
    artifact["params"] |= {"groups": turned, "by": column}
    artifact["options"]["by"] = column
    Path("old.json").write_text(json.dumps(artifact))
    for order in (("site", "sex"), ("sex", "site")):
        p, said = applied(run, "old.json", "a.csv", order)
        assert np.array_equal(p, plain) and "not seen" not in said


CODES = {
    "floats": np.where(SITE == "Oslo", 7.0, 8.0),
    "integers": np.where(SITE == "Oslo", 7, 8),
    "words": np.where(SITE == "Oslo", "7", "8"),
    "words of floats": np.where(SITE == "Oslo", "7.0", "8.0"),
}


def test_numbers_of_every_type_are_one_group(run):
    for kind, values in CODES.items():
        write_h5(f"{kind}.h5", {"group": values})
        write_csv(f"{kind}.csv", {"group": values})
    outputs = []
    for first in CODES:
        for ending in ("h5", "csv"):
            artifact = fitted(run, f"{first}.{ending}", ())
            assert list(artifact["params"]["groups"]) == ["7", "8"], (first, ending)
            for second in CODES:
                p, said = applied(run, "a.json", f"{second}.h5")
                assert "not seen" not in said
                outputs.append(p)
    assert all(np.array_equal(p, outputs[0]) for p in outputs)


def test_a_calibrator_of_an_old_version_knows_its_floats(run):
    write_csv("a.csv", {"group": CODES["integers"]})
    artifact = fitted(run, "a.csv", ())
    plain, _ = applied(run, "a.json", "a.csv")
    groups = artifact["params"]["groups"]
    artifact["params"]["groups"] = {f"{float(name)}": d for name, d in groups.items()}
    Path("old.json").write_text(json.dumps(artifact))
    p, said = applied(run, "old.json", "a.csv")
    assert np.array_equal(p, plain) and "not seen" not in said


def test_rows_of_no_known_group_are_refused_with_the_groups_it_knows(run):
    write_csv("a.csv", COLUMNS)
    fitted(run, "a.csv", ("site",))
    refused = run("apply", "a.json", "a.csv", "--group-by", "sex", "-o", "o.csv")
    assert refused.code == 3
    sentence = "no row is of a group that the calibrator knows (group here: F, M; known: Oslo, Porto)"
    assert sentence in refused.err
    assert run("evaluate", "a.csv", "-c", "a.json", "--group-by", "sex").code == 3
    calibrator = calcli.load("a.json")
    with pytest.raises(DataError, match=r"group here: F, M; known: Oslo, Porto"):
        calibrator.predict_proba(Z, groups=SEX)
    some = np.where(np.arange(N) < 5, "Oslo", SEX)
    with pytest.warns(UserWarning, match="895 of 900 rows are of groups"):
        calibrator.predict_proba(Z, groups=some)


@pytest.mark.parametrize("ending", ["h5", "npz", "csv", "jsonl", "parquet"])
@pytest.mark.parametrize("column", ["labels", "prediction", "confidence", "probs"])
def test_a_group_column_named_as_one_of_the_output_leaves_it_alone(column, ending, run):
    """The output's own column has the name; the groups of both columns go along."""
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    own = {"labels": Y}.get(column, AGE)
    write_h5("a.h5", {"site": SITE, **({} if column == "labels" else {column: own})})
    assert (
        run("fit", "a.h5", "-m", "ts", "--scores", "logits", "-o", "a.json").code == 0
    )
    words = ["a.h5", "--scores", "logits", "--group-by", "site", "--group-by", column]
    done = run("apply", "a.json", *words, "-o", f"o.{ending}")
    assert done.code == 0, done.err
    plain = run("apply", "a.json", *words[:5], "-o", f"plain.{ending}")
    assert plain.code == 0, plain.err
    shown = []
    for name in (f"o.{ending}", f"plain.{ending}"):
        result = run("evaluate", name, "--metric", "nll", "--json")
        assert result.code == 0, result.err
        shown.append(json.loads(result.out)["results"][0]["metrics"]["nll"]["value"])
    assert shown[0] == shown[1]
    if ending == "h5":
        with h5py.File("o.h5") as file:
            assert file["prediction"].shape == (N,)
            groups = set(file["group"].asstr()[:])
        assert len(groups) == 6
