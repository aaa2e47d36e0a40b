"""Several files as one data set: the same bytes and numbers as from one file, and what cannot be one is named."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from synthetic import truth

import calcli as api
from calcli.calibrator import Context
from calcli.errors import DataError
from calcli.fitting.fit import fit_artifact
from calcli.importers.open_any_file import expand, open_data
from calcli.io.artifact import dumps
from calcli.io.dataset import DataSet
from calcli.io.locate import listed, natural
from calcli.registry import parse_options

SHARDS = 50


def write(path, z, y, kind="logits", **more):
    with h5py.File(path, "a") as file:
        for name, value in {kind: z, "labels": y, **more}.items():
            file[name] = value
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """2000 rows of 4 classes in one file, in 50 shards of uneven sizes, and in groups of one file."""
    folder = tmp_path_factory.mktemp("pooled")
    z, y = truth(2000, 4, temperature=1.7, seed=3)
    z, w = z.astype("f4"), np.random.default_rng(0).exponential(size=2000)
    names = [f"class {c}" for c in "abcd"]
    cuts = np.sort(
        np.random.default_rng(1).choice(np.arange(1, 2000), SHARDS - 1, replace=False)
    )
    write(folder / "one.h5", z, y, weights=w, class_names=names)
    for i, rows in enumerate(np.split(np.arange(2000), cuts)):
        write(
            folder / f"part-{i}.h5",
            z[rows],
            y[rows],
            weights=w[rows],
            class_names=names,
        )
        with h5py.File(folder / "groups.h5", "a") as file:
            group = file.create_group(f"rank{i}")
            group["logits"], group["labels"], group["weights"] = (
                z[rows],
                y[rows],
                w[rows],
            )
            group["class_names"] = names
    return folder


def fitted(names, method):
    with open_data(names) as rows:
        return fit_artifact(method, parse_options(method, {}), rows, Context())


@pytest.mark.parametrize("method", ["ts", "ec", "svs", "hb", "hoki"])
def test_a_fit_does_not_depend_on_the_cut(folder, method):
    one = fitted([str(folder / "one.h5")], method)
    many = fitted(expand(str(folder / "part-*.h5")), method)
    for a, b in ((one, many), (one, fitted(expand(f"{folder}/groups.h5:*"), method))):
        assert json.loads(dumps(a))["params"] == json.loads(dumps(b))["params"]
        assert (a.fit.before, a.fit.after, a.fit.data_sha256) == (
            b.fit.before,
            b.fit.after,
            b.fit.data_sha256,
        )


def test_natural_order():
    assert sorted(["p10", "p2", "p1b", "a"], key=natural) == ["a", "p1b", "p2", "p10"]


def test_evaluate_pools(run, folder, tmp_path):
    artifact = tmp_path / "one.json"
    assert run("fit", "-m", "ts", folder / "one.h5", "-o", artifact).code == 0
    words = "-c", artifact, "--json"
    one = json.loads(run("evaluate", folder / "one.h5", *words).out)["results"]
    many = json.loads(run("evaluate", f"{folder}/part-*.h5", "--pool", *words).out)[
        "results"
    ]
    assert [len(one), len(many)] == [2, 2]
    for a, b in zip(one, many, strict=True):
        for result in (a, b):
            del result["report"]["next"]  # names the files
        assert (a["n"], a["metrics"], a["report"]) == (
            b["n"],
            b["metrics"],
            b["report"],
        )
    assert "fitted on these very rows" in str(many[1]["warnings"])
    results = json.loads(
        run("evaluate", f"{folder}/part-*.h5", "--metric", "ece", "--json").out
    )["results"]
    assert len(results) == SHARDS


def test_fit_reads_names_from_a_list(run, folder, tmp_path):
    (tmp_path / "list").write_text(
        "".join(f"{folder}/part-{i}.h5\n\n" for i in range(SHARDS))
    )
    done = run(
        "fit",
        "-m",
        "ts",
        "--files-from",
        tmp_path / "list",
        "-o",
        tmp_path / "a.json",
        "-q",
    )
    assert (done.code, done.err) == (0, "")
    run("fit", "-m", "ts", folder / "one.h5", "-o", tmp_path / "b.json")
    a, b = (json.loads((tmp_path / f"{name}.json").read_text()) for name in "ab")
    assert a["fit"].pop("source") != b["fit"].pop("source")
    assert a == b


def test_default_names_and_other_commands(run, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pattern = f"{folder}/part-*.h5"
    assert run("fit", "-m", "ts", pattern).out.strip() == "part-0.ts.json"
    one = json.loads(run("diagram", folder / "one.h5", "--json").out)
    many = json.loads(run("diagram", pattern, "--pool", "--json").out)
    assert str(one["panels"]).replace("one.h5", "") == str(many["panels"]).replace(
        "part-0.h5 and 49 more", ""
    )
    assert run("report", pattern, "--pool", "-o", "r.html").code == 0
    assert "--pool" in (tmp_path / "r.html").read_text()
    calibrator = api.fit([folder / f"part-{i}.h5" for i in range(SHARDS)], method="ts")
    assert (
        calibrator.params
        == json.loads((tmp_path / "part-0.ts.json").read_text())["params"]
    )


def test_precisions_widen_and_ignored_rows_go(tmp_path):
    z, y = truth(60, 3)
    a = write(tmp_path / "a.h5", z[:25].astype("f2"), y[:25])
    b = write(
        tmp_path / "b.h5",
        z[25:].astype("f4"),
        np.where(np.arange(35) % 5 == 0, -1, y[25:]),
    )
    with open_data([a, b], ignore_labels=[-1]) as rows:
        blocks = list(rows.blocks())
        assert isinstance(rows, DataSet)
        assert (rows.n, rows.total, rows.ignored, rows.dtype) == (53, 60, 7, np.float32)
    keep = np.r_[np.full(25, True), np.arange(35) % 5 != 0]
    expected = np.r_[z[:25].astype("f2").astype("f4"), z[25:].astype("f4")][keep]
    np.testing.assert_array_equal(
        np.concatenate([block.scores for block in blocks]), expected
    )
    np.testing.assert_array_equal(
        np.concatenate([block.y for block in blocks]), y[keep]
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"k": 5}, "odd.h5: has 5 classes, a.h5 has 4"),
        ({"kind": "log_probs"}, "odd.h5: holds log_probs, a.h5 holds logits"),
        ({"class_names": ["w", "x", "y", "Z"]}, "odd.h5: calls class 3 'Z', a.h5 calls class 3 'z'"),
        ({"class_names": None}, "odd.h5: has no class_names, a.h5 has class_names"),
        ({"weights": np.ones(30)}, "odd.h5: has weights, a.h5 has no weights"),
        ({"calibrated_by": '[{"sha256": "ab12ab12", "method": "ts"}]'}, "odd.h5: is calibrated by ts"),
    ],
)  # fmt: skip
def test_what_is_no_one_data_set_is_named(run, tmp_path, changed, said):
    for name in ("a.h5", "b.h5", "odd.h5"):
        how = {"k": 4, "kind": "logits", "class_names": list("wxyz")} | (
            changed if name == "odd.h5" else {}
        )
        upstream, (z, y) = how.pop("calibrated_by", None), truth(30, how.pop("k"))
        z = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        if z.shape[1] != 4 or how["class_names"] is None:
            how.pop("class_names")
        write(tmp_path / name, z, y, **how)
        if upstream is not None:
            with h5py.File(tmp_path / name, "a") as file:
                file.attrs["calibrated_by"] = upstream
    done = run(
        "fit",
        "-m",
        "ts",
        *(tmp_path / name for name in ("a.h5", "b.h5", "odd.h5")),
        "-o",
        tmp_path / "x.json",
    )
    assert done.code == 3
    assert said in done.err
    assert not (tmp_path / "x.json").exists()


def test_a_broken_shard_and_a_pattern_without_files(run, folder, tmp_path):
    broken = tmp_path / "broken.h5"
    broken.write_bytes((folder / "one.h5").read_bytes()[:3000])
    done = run("fit", "-m", "ts", folder / "one.h5", broken, "-o", tmp_path / "x.json")
    assert (done.code, "broken.h5" in done.err) == (3, True)
    done = run("fit", "-m", "ts", f"{tmp_path}/none-*.h5")
    assert (done.code, "no file matches" in done.err) == (3, True)
    done = run("fit", "-m", "ts")
    assert (done.code, "--files-from" in done.err) == (2, True)
    with pytest.raises(DataError, match="names no bundle"):
        (tmp_path / "empty").write_text("\n")
        listed(str(tmp_path / "empty"))


def test_compare_pools_and_its_folds_do_not_depend_on_the_cut(folder, run, monkeypatch):
    monkeypatch.chdir(folder)
    command = ("--methods", "ts,svs", "--folds", 2, "--json", "-q")
    one, cut = (
        run("compare", "one.h5", *command),
        run("compare", "part-*.h5", "--pool", *command),
    )
    assert (one.code, cut.code) == (0, 0), cut.err
    a, b = (json.loads(result.out)["results"] for result in (one, cut))
    assert {entry["bundle"] for entry in b} == {"part-0.h5 and 49 more"}
    for x, y in zip(a, b, strict=True):
        assert (x["method"], x["n"], x["data_sha256"]) == (
            y["method"],
            y["n"],
            y["data_sha256"],
        )
        assert x["metrics"] == y["metrics"]


def test_compare_pools_a_test_group_too(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    z, y = truth(400, 3)
    for i in range(2):
        for j, name in enumerate(("cal", "test")):
            with h5py.File(f"s{i}.h5", "a") as file:
                group = file.create_group(name)
                group["logits"], group["labels"] = z[2 * i + j :: 4], y[2 * i + j :: 4]
    done = run(
        "compare",
        "s?.h5",
        "--pool",
        "--test",
        "test",
        "--methods",
        "ts",
        "--json",
        "-q",
    )
    assert done.code == 0, done.err
    assert {entry["n"] for entry in json.loads(done.out)["results"]} == {200}
    assert (
        run("compare", "s?.h5:cal", "--pool", "--test", "cal", "--methods", "ts").code
        == 3
    )


def test_more_files_than_the_system_lets_be_open_are_told(monkeypatch):
    from calcli.errors import CalcliError
    from calcli.io import inputs

    monkeypatch.setattr(inputs, "allow_open_files", lambda count: 256)
    inputs.check_open_files(200)
    with pytest.raises(
        CalcliError, match=r"1000 bundles .* allows 256 open files.*ulimit -n.*--join"
    ) as problem:
        inputs.check_open_files(1000)
    assert problem.value.exit_code == 2


@pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="needs /proc to count open files"
)
def test_a_hundred_files_are_closed_with_their_rows(tmp_path):
    z, y = truth(100, 3)
    paths = [
        write(tmp_path / f"s{i}.h5", z[i : i + 1], y[i : i + 1]) for i in range(100)
    ]
    before = len(list(Path("/proc/self/fd").iterdir()))
    with open_data(paths) as rows:
        assert rows.n == 100
    del rows
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_shard_may_have_weights_of_zero_only(run, tmp_path):
    """Rows of weight 0 were taken in one file, a shard of them was refused in its pool."""
    z, y = truth(300, 3, seed=4)
    weights = np.random.default_rng(2).exponential(size=300)
    weights[200:] = 0.0
    write(tmp_path / "one.h5", z, y, weights=weights)
    write(tmp_path / "a.h5", z[:200], y[:200], weights=weights[:200])
    write(tmp_path / "b.h5", z[200:], y[200:], weights=weights[200:])
    results = {}
    for name, files in {"one": ["one.h5"], "parts": ["a.h5", "b.h5"]}.items():
        done = run("evaluate", *files, "--pool", "--json")
        assert done.code == 0, done.err
        results[name] = json.loads(done.out)["results"][0]
        assert run("fit", "-m", "svs", *files, "-o", f"{name}.json").code == 0
    assert results["parts"]["metrics"] == results["one"]["metrics"]
    fits = [json.loads(Path(f"{name}.json").read_text()) for name in results]
    assert fits[0]["params"] == fits[1]["params"]
    # By itself such a shard can be looked at and calibrated, and says nothing.
    assert "all weights are 0" in run("inspect", "b.h5").out
    assert run("apply", "one.json", "b.h5", "-o", "c.h5").code == 0
    for command in (["evaluate"], ["fit"], ["diagram"], ["compare"]):
        done = run(*command, "b.h5")
        assert done.code == 3 and "all weights are zero" in done.err
    with pytest.raises(DataError, match="all weights are zero"):
        api.evaluate(z, y, kind="logits", weights=np.zeros(300))
