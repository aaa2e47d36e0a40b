"""Calibration by group: columns that rows bring along, partial pooling, its guard, its files and its exports."""

import json
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
from synthetic import truth

import calcli
from calcli.block import Codes
from calcli.errors import DataError, UsageError
from calcli.io.bundle import open_bundle
from calcli.methods._partial_pooling import pool


def write(path, z, y, **columns):
    """A bundle with further columns."""
    with h5py.File(path, "w") as file:
        file["logits"], file["labels"] = z, y
        for name, values in columns.items():
            file[name] = values
    return path


def sites_of(block):
    """The sites of a block's rows, and their first scores."""
    names, code = block.columns["site"]
    return [(names[c], float(s)) for c, s in zip(code, block.scores[:, 0], strict=True)]


def test_columns_come_with_every_block_and_every_part_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr("calcli.rows.BLOCK_BYTES", 8 * 4 * 100)
    z, y = truth(3000, 4, seed=1)
    site = np.array(["east", "north", "west"])[
        np.random.default_rng(0).integers(0, 3, 3000)
    ].astype("S")
    path = write(tmp_path / "a.h5", z, y, site=site, year=np.arange(3000) % 4 + 2020)
    expected = [
        (name.decode(), float(s)) for name, s in zip(site, z[:, 0], strict=True)
    ]
    with open_bundle(str(path)) as rows:
        assert next(iter(rows.blocks())).columns == {}  # nobody asked
        assert rows.carry("year").names == ("2020", "2021", "2022", "2023")
        rows.carry("site")
        assert [
            pair for block_pairs in rows.each(sites_of) for pair in block_pairs
        ] == expected
        index = np.flatnonzero(np.random.default_rng(1).random(3000) < 0.3)
        some = [
            pair
            for block_pairs in rows.take(index).each(sites_of)
            for pair in block_pairs
        ]
        assert some == [expected[i] for i in index]
        with pytest.raises(
            DataError, match="has no dataset 'town' with one value per row"
        ):
            rows.carry("town")


def test_numbers_are_named_by_their_digits():
    assert Codes.of(np.array([10, 9, 10])).names == ("9", "10")


# ---- the fits


def drawn(rng, groups, rows, k=10, tau=0.3, size=2.0):
    """Logits, labels and groups, each with a temperature of its own; logits times exp(d) are calibrated."""
    g = np.repeat(np.arange(groups), rows)
    z, d = rng.normal(size=(groups * rows, k)) * size, rng.normal(size=groups) * tau
    p = np.exp(z * np.exp(d[g])[:, None])
    p /= p.sum(axis=1, keepdims=True)
    return z, (p.cumsum(axis=1) > rng.random(len(p))[:, None]).argmax(axis=1), g, d


def two_classes(rng, groups, rows):
    """Log-odds, labels and groups, each with a slope and an offset of its own."""
    g, s = np.repeat(np.arange(groups), rows), rng.normal(size=groups * rows) * 2
    a, b = rng.normal(size=(2, groups)) * 0.3
    return (
        s,
        (rng.random(len(s)) < 1 / (1 + np.exp(-((1 + a[g]) * s + b[g])))).astype(int),
        g,
    )


def test_between_the_common_temperature_and_one_per_group():
    z, y, g, d = drawn(np.random.default_rng(0), 12, 1500)
    one = calcli.fit(z, y, "ts").params["temperature"]
    none = calcli.fit(z, y, groups=g, tau=1e-7, guard=False).params
    # tau -> 0 is ts (derivation)
    assert none["beta"] * one == pytest.approx(1.0, abs=1e-11)
    assert max(map(abs, none["groups"].values())) < 1e-11
    free = calcli.fit(z, y, groups=g, tau=1e3, guard=False).params
    # d / (tau^2 J) is what the penalty leaves: 0.3 / (1e6 x 1500 x Var), below 1e-9.
    for c in range(12):
        of_group = calcli.fit(z[g == c], y[g == c], "ts").params["temperature"]
        assert free["beta"] * np.exp(
            free["groups"][str(c)]
        ) * of_group == pytest.approx(1.0, abs=1e-9)
    calibrator = calcli.fit(z, y, groups=g)
    assert calibrator.method == "ts-by"
    assert calibrator.params["tau"] == pytest.approx(d.std(), rel=0.25)
    assert np.corrcoef(d, list(calibrator.params["groups"].values()))[0, 1] > 0.99


def test_between_the_common_line_and_one_per_group():
    s, y, g = two_classes(np.random.default_rng(1), 8, 1000)
    one = calcli.fit(s, y, "platt").params
    none = calcli.fit(s, y, "platt", groups=g, tau=1e-7, guard=False).params
    assert [none["slope"], none["intercept"]] == pytest.approx(
        [one["slope"][0], one["intercept"][0]], abs=1e-11
    )
    free = calcli.fit(s, y, "platt", groups=g, tau=1e3, guard=False).params
    for c in range(8):
        of_group, (a, b) = (
            calcli.fit(s[g == c], y[g == c], "platt").params,
            free["groups"][str(c)],
        )
        assert [free["slope"] + a, free["intercept"] + b] == pytest.approx(
            [of_group["slope"][0], of_group["intercept"][0]], abs=1e-7
        )
    assert calcli.fit(s, y, "platt", groups=g).method == "platt-by"


@pytest.mark.parametrize(("rows", "seed", "most"), [(50, 1, 400), (100, 5, 120)])
def test_a_variance_between_groups_that_creeps_towards_none_ends_the_search(
    rows, seed, most
):
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(50), rows)
    s, a = (
        rng.normal(size=len(g)) * 2,
        rng.normal(size=50) * 0.3,
    )  # slopes differ, offsets do not
    y = (rng.random(len(s)) < 1 / (1 + np.exp(-(1 + a[g]) * s))).astype(int)
    calibrator = calcli.fit(s, y, "platt", groups=g, guard=False)
    assert calibrator.status == "ok"
    assert calibrator.params["tau"][1] < 0.002
    # 401 walks, and not converged, while theta follows the variance
    assert calibrator.to_dict()["fit"]["details"]["passes"] < most


def test_folds_that_begin_at_the_fit_to_all_rows_judge_as_those_that_begin_at_none(
    monkeypatch,
):
    z, y, g, _ = drawn(np.random.default_rng(2), 30, 60, k=4)
    near = calcli.fit(z, y, groups=g).to_dict()["fit"]["details"]["held_out_nll"][
        "by_group"
    ]
    monkeypatch.setattr(
        "calcli.methods._groups.pool", lambda walk, tau, start: pool(walk, tau)
    )
    far = calcli.fit(z, y, groups=g).to_dict()["fit"]["details"]["held_out_nll"][
        "by_group"
    ]
    assert near != far
    # what a search that ends early promises of the loss
    assert near == pytest.approx(far, abs=1e-7)


def nll(p, y):
    return -np.log(p[np.arange(len(y)), y]).mean()


@pytest.mark.slow
def test_random_groups_cost_nothing():
    changes = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z, y, _, _ = drawn(rng, 50, 10, tau=0.0)
        g = np.repeat(np.arange(50), 10)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            by, one = calcli.fit(z, y, groups=g), calcli.fit(z, y, "ts")
        new, label, _, _ = drawn(rng, 50, 40, tau=0.0)
        sites = np.repeat(np.arange(50), 40)
        p = (
            by.predict_proba(new, groups=sites)
            if by.method == "ts-by"
            else by.predict_proba(new)
        )
        changes.append(nll(p, label) - nll(one.predict_proba(new), label))
    assert np.mean(np.abs(changes)) < 1e-3  # the bar: nats at 10 rows a group


def test_groups_that_are_alike_keep_the_common_map_and_a_sentence():
    z, y, _, _ = drawn(np.random.default_rng(8), 10, 100, tau=0.0)
    with pytest.warns(
        UserWarning,
        match="the groups do not differ, so the common map is kept|which is kept",
    ):
        by = calcli.fit(z, y, groups=np.arange(1000) % 10)
    one = calcli.fit(z, y, "ts")
    assert by.method == "ts"
    assert by.params == one.params
    with pytest.warns(
        UserWarning, match="there is one group, so the common map is kept"
    ):
        assert calcli.fit(z, y, groups=np.zeros(1000, int)).method == "ts"


def test_neither_the_order_of_rows_nor_names_of_classes_nor_weights_of_one_change_it():
    z, y, g, _ = drawn(np.random.default_rng(4), 8, 150, k=4)
    first = calcli.fit(z, y, groups=g).params
    order = np.random.default_rng(0).permutation(len(y))
    turned = np.array([2, 0, 3, 1])
    for calibrator in (
        calcli.fit(z[order], y[order], groups=g[order]),
        calcli.fit(z[:, np.argsort(turned)], turned[y], groups=g),
        calcli.fit(z, y, groups=g, weights=np.ones(len(y))),
    ):
        assert calibrator.params["beta"] == pytest.approx(first["beta"], rel=1e-9)
        assert calibrator.params["groups"] == pytest.approx(first["groups"], abs=1e-8)
    # Equal weights say nothing, whatever their size: they are brought to effective rows.
    doubled = calcli.fit(
        z, y, groups=g, weights=np.full(len(y), 2.0), tau=0.3, guard=False
    ).params
    plain = calcli.fit(z, y, groups=g, tau=0.3, guard=False).params
    assert doubled == plain


def test_units_are_held_out_whole():
    # Ten near-copies of 60 rows: by rows, groups of 6 units explain their own copies; by unit they do not.
    rng = np.random.default_rng(5)
    z, y, _, _ = drawn(rng, 60, 1, tau=0.0, size=3.0)
    unit = np.repeat(np.arange(60), 10)
    copies = z[unit] + rng.normal(size=(600, 10)) * 1e-3
    assert calcli.fit(copies, y[unit], groups=unit // 6).method == "ts-by"
    with pytest.warns(UserWarning, match="which is kept"):
        assert calcli.fit(copies, y[unit], groups=unit // 6, units=unit).method == "ts"


# ---- its files, its commands, its exports


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Bundles with sites, the last of which the fit has not seen; one of two classes, one without sites."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    z, y, g, _ = drawn(rng, 6, 400)
    names = np.array(["north", "south", "east", "west", "sea", "air"])[g].astype("S")
    write("cal.h5", z[g < 5].astype("f4"), y[g < 5], site=names[g < 5], clinic=g[g < 5])
    write("new.h5", z[::3].astype("f4"), y[::3], site=names[::3], clinic=g[::3])
    write(
        "later.h5",
        (z[::3] + np.random.default_rng(8).normal(size=z[::3].shape)).astype("f4"),
        y[::3],
        site=names[::3],
    )
    write("none.h5", z[:50], y[:50])
    s, y, g = two_classes(rng, 5, 300)
    write("two.h5", np.stack([0 * s, s], axis=1), y, site=g)
    return tmp_path


def test_every_command_takes_it(folder, run):
    done = run("fit", "--by", "site", "cal.h5", "-o", "by.json")
    assert done.code == 0, done.err
    params = json.loads((folder / "by.json").read_text())["params"]
    assert list(params) == ["by", "beta", "tau", "groups"]
    assert set(params["groups"]) == {"north", "south", "east", "west", "sea"}
    for words in (
        ("apply", "by.json", "new.h5", "-o", "out.h5"),
        ("evaluate", "new.h5", "-c", "by.json"),
        ("diagram", "new.h5", "-c", "by.json"),
        ("report", "new.h5", "-c", "by.json", "-o", "r.html"),
        ("threshold", "new.h5", "-c", "by.json", "--accuracy", "0.3"),
        ("watch", "later.h5", "-c", "by.json", "--state", "w.json"),
        ("export", "by.json", "--to", "python", "-o", "by.py", "--check", "new.h5"),
    ):
        done = run(*words)
        assert done.code in (0, 5), (words, done.err)
        assert (
            "133 of 800 rows are of groups that the fit has not seen (site: air)"
            in done.err
        ), words
        done = run(
            *("none.h5" if word in ("new.h5", "later.h5") else word for word in words),
            *["--force"][: "-o" in words],
        )
        assert done.code == 3, words
        assert "has no dataset 'site'" in done.err
    assert "ts-by" in run("inspect", "by.json").out
    assert "ts-by" in run("methods").out
    assert run("fit", "--by", "site", "none.h5").code == 3
    assert "has no dataset 'site'" in run("fit", "--by", "site", "none.h5").err
    assert (
        "platt and ts, not 'vs'"
        in run("fit", "--by", "site", "-m", "vs", "cal.h5").line
    )
    mixed = run("fit", "--by", "site", "--by", "prediction", "cal.h5")
    assert mixed.code == 2
    assert "prediction does not combine with columns of groups" in mixed.line


@pytest.mark.parametrize("command", ["fit", "run"])
def test_methods_by_group_take_the_column_of_group_by(folder, run, command):
    words = [command, "cal.h5", "-m", "ts-by", "--group-by", "site"]
    output = ["-o", "by.json"] if command == "fit" else ["-o", "out"]
    done = run(*words, *output)
    assert done.code == 0, done.err
    path = folder / ("by.json" if command == "fit" else "out/cal.ts-by.json")
    artifact = json.loads(path.read_text())
    assert artifact["options"]["by"] == "site"
    assert run("fit", "cal.h5", "--by", "site", "-o", "named.json").code == 0
    named = json.loads((folder / "named.json").read_text())
    assert artifact["params"] == named["params"]


@pytest.mark.parametrize(
    "words", [["ts-by(by=prediction)"], ["ts-by", "--set", "by=prediction"]]
)
def test_a_column_that_is_named_goes_before_that_of_group_by(folder, run, words):
    done = run("fit", "cal.h5", "--group-by", "site", "-o", "by.json", "-m", *words)
    assert done.code == 0, done.err
    options = json.loads((folder / "by.json").read_text())["options"]
    assert options.get("by", "prediction") == "prediction"


def test_comparing_takes_maps_by_a_column(folder, run):
    by_site = "ts-by(by=site)"
    named = run("compare", "cal.h5", "--methods", f"ts,{by_site}", "--json")
    assert named.code == 0, named.err
    methods = [result["method"] for result in json.loads(named.out)["results"]]
    assert by_site in methods
    for words in (
        ["--methods", "ts,ts-by", "--group-by", "site"],
        ["--methods", "ts", "--baseline", "ts-by", "--group-by", "site"],
    ):
        done = run("compare", "cal.h5", *words, "--json")
        assert done.code == 0, done.err
        results = json.loads(done.out)["results"]
        values = {each["method"]: each["metrics"]["nll"]["value"] for each in results}
        assert values[by_site] < values["ts"]
    refused = run("compare", "none.h5", "--methods", by_site)
    assert refused.code == 3
    assert "name it with --group-by site" in refused.err


def test_a_missing_column_of_one_method_leaves_the_others_in_the_table(folder, run):
    """The whole comparison stopped, without a table."""
    words = ["--methods", "ts,ts-by(by=nope)", "--json"]
    done = run("compare", "cal.h5", *words)
    assert done.code == 3 and "name it with --group-by nope" in done.err
    results = json.loads(done.out)["results"]
    statuses = {each["method"]: each["status"] for each in results}
    assert statuses["ts"] == "ok" and statuses["ts-by(by=nope)"] == "failed"
    asked = run("compare", "cal.h5", *words, "--group-by", "nope")
    assert asked.code == 3 and asked.out == ""


def test_results_of_a_comparison_by_another_column_are_not_taken_over(folder, run):
    words = ["compare", "--methods", "ts-by(by=site)", "-o", "r.json"]
    assert run(*words, "cal.h5").code == 0
    with h5py.File("cal.h5", "r+") as file:
        file["site"][...] = file["site"][()][::-1]
    again = run(*words, "cal.h5")
    assert again.code == 0, again.err
    assert "results are there already" not in again.err


def test_a_calibrator_by_the_intersections_of_two_columns(folder, run, tmp_path):
    done = run("fit", "--by", "site", "--by", "clinic", "cal.h5", "-o", "both.json")
    assert done.code == 0, done.err
    by_both = json.loads((tmp_path / "both.json").read_text())
    assert by_both["options"]["by"] == "clinic, site"  # in alphabetical order
    with h5py.File("cal.h5") as file:
        columns = zip(file["clinic"][:], file["site"].asstr()[:], strict=True)
        names = {f"clinic={clinic}, site={site}" for clinic, site in columns}
    assert set(by_both["params"]["groups"]) == names
    swapped = run("fit", "--by", "clinic", "--by", "site", "cal.h5", "-o", "other.json")
    assert swapped.code == 0
    assert (tmp_path / "other.json").read_text() == (tmp_path / "both.json").read_text()
    assert run("apply", "both.json", "new.h5", "-o", "p.h5").code == 0
    alone = run("apply", "both.json", "none.h5", "-o", "q.h5")
    assert alone.code == 3
    assert "--group-by clinic --group-by site" in alone.line


def test_calibrators_by_two_columns_are_evaluated_together(folder, run):
    run("fit", "--by", "site", "cal.h5", "-o", "site.json")
    run("fit", "--by", "clinic", "cal.h5", "-o", "clinic.json")
    done = run(
        "evaluate",
        "new.h5",
        "-c",
        "site.json",
        "-c",
        "clinic.json",
        "--metric",
        "nll",
        "--json",
    )
    _, site, clinic = json.loads(done.out)["results"]
    # the same groups under other names
    assert site["metrics"]["nll"]["value"] == clinic["metrics"]["nll"]["value"]


@pytest.mark.parametrize(("bundle", "method"), [("cal.h5", "ts"), ("two.h5", "platt")])
@pytest.mark.slow
def test_workers_and_cuts_change_no_byte(folder, run, monkeypatch, bundle, method):
    monkeypatch.setattr("calcli.rows.PART_BLOCKS", 4)
    monkeypatch.setattr("calcli.rows.BLOCK_BYTES", 8 * 10 * 50)
    for name, more in (("one", ()), ("many", ("--workers", 2))):
        done = run(
            "fit", "-m", method, "--by", "site", bundle, "-o", f"{name}.json", *more
        )
        assert done.code == 0, done.err
        assert (
            run("apply", f"{name}.json", bundle, "-o", f"{name}.npz", *more).code == 0
        )
    assert (folder / "one.json").read_bytes() == (folder / "many.json").read_bytes()
    a, b = np.load("one.npz"), np.load("many.npz")
    assert (a["probs"] == b["probs"]).all()


@pytest.mark.parametrize("to", ["python", "onnx", "torch"])
@pytest.mark.parametrize(
    ("bundle", "method", "by"),
    [
        ("cal.h5", "ts", "site"),
        pytest.param("two.h5", "platt", "site", marks=pytest.mark.slow),
    ],
)
def test_exports_take_the_group_beside_the_scores(folder, run, bundle, method, by, to):
    if to != "python":
        pytest.importorskip("onnxruntime" if to == "onnx" else "torch")
    done = run("fit", "-m", method, "--by", by, bundle, "-o", "by.json")
    assert done.code == 0, done.err
    done = run(
        "export", "by.json", "--to", to, "-o", "out.x", "--check", bundle, "--json"
    )
    assert done.code == 0, done.err
    evaluation = json.loads(done.out)
    calibrator = calcli.load("by.json")
    assert evaluation["groups"] == {"site": list(calibrator.params["groups"])}
    with h5py.File(bundle) as file:
        z = file["logits"][:60].astype("f4")
    with open_bundle(bundle) as rows:
        names, code = rows.carry(by)
    site = np.array(names, dtype=object)[code[:60]]
    place = np.array([evaluation["groups"]["site"].index(name) for name in site])
    place[::7] = -1
    site[::7] = "elsewhere"
    with pytest.warns(UserWarning, match="9 of 60 rows"):
        expected = calibrator.predict_proba(z, groups=site)
    if to == "python":
        module = {}
        exec((folder / "out.x").read_text(), module)
        p = module["predict_proba"](z, place)
    elif to == "onnx":
        import onnxruntime

        (p,) = onnxruntime.InferenceSession("out.x").run(
            ["probs"], {"scores": z, "group": place}
        )
    else:
        import torch

        p = (
            torch.export.load("out.x")
            .module()(torch.from_numpy(z), torch.from_numpy(place))["probs"]
            .numpy()
        )
    assert np.abs(p - expected).max() < 1e-6


def test_a_python_export_finds_groups_by_name_and_by_place(folder, run):
    rng = np.random.default_rng(4)
    site = np.arange(600) % 3
    z = rng.normal(size=(600, 3))
    y = rng.integers(0, 3, 600)
    z[np.arange(600), y] += 1.5
    z *= np.array([0.5, 1.0, 4.0])[site][:, None]
    # Names that look like places: the group at place 1 is called 2.
    names = (site + 1).astype(str)
    write(folder / "numbers.h5", z, y, site=names.astype("S"))
    assert run("fit", "--by", "site", "numbers.h5", "-o", "by.json").code == 0
    assert run("export", "by.json", "--to", "python", "-o", "out.py").code == 0
    expected = calcli.load("by.json").predict_proba(z, groups=names)
    module = {}
    exec((folder / "out.py").read_text(), module)
    predict = module["predict_proba"]
    assert module["GROUPS"] == {"1": 0, "2": 1, "3": 2}
    known = (list(names), names, names.astype(object), site, site.astype(object))
    for groups in known:
        assert np.abs(predict(z, groups) - expected).max() < 1e-12
    elsewhere = predict(z, ["elsewhere"] * 600)
    assert (elsewhere == predict(z, [-1] * 600)).all()
    assert np.abs(elsewhere - expected).max() > 0.01
    with pytest.raises(TypeError, match="float"):
        predict(z, site + 0.9)


def test_several_labels_a_row_are_fitted_by_label(folder, run):
    rng = np.random.default_rng(2)
    arrays = {name: two_classes(rng, 1, 400)[:2] for name in ("cat", "dog", "eel")}
    p = np.stack(
        [1 / (1 + np.exp(-s * (1 + i))) for i, (s, _) in enumerate(arrays.values())],
        axis=1,
    )
    np.savez(
        "labels.npz",
        probs=p,
        labels=np.stack([y for _, y in arrays.values()], axis=1),
        class_names=list(arrays),
    )
    assert run("extract", "labels.npz", "--per-label", "-o", "labels.h5").code == 0
    done = run("fit", "-m", "platt", "--by", "label", "labels.h5", "-o", "label.json")
    assert done.code == 0, done.err
    assert set(calcli.load("label.json").params["groups"]) == {"cat", "dog", "eel"}
    assert run("apply", "label.json", "labels.h5", "-o", "out.h5").code == 0


def test_python_says_what_is_missing(folder):
    by = calcli.fit("cal.h5", groups="site")
    z = np.zeros((3, 10))
    with pytest.raises(
        DataError, match="by 'site'; pass groups= with one value per row"
    ):
        by.predict_proba(z)
    with pytest.raises(DataError, match=r"groups: have shape \(2,\), expected \(3,\)"):
        by.predict_proba(z, groups=["north", "east"])
    assert (by.predict_proba("new.h5")[:5].shape) == (5, 10)
    with pytest.raises(
        calcli.errors.UsageError,
        match="by group there are the methods platt and ts, not 'vs'",
    ):
        calcli.fit(z, [0, 1, 2], "vs", kind="logits", groups=[0, 1, 0])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"north": ', '"north": "x", "n2": ', "params.groups"),
        ('"tau": ', '"tau": -', "tau"),
        ('"beta": ', '"beta": -', "beta"),
        ('"groups": {', '"groups": {"far": 1e6, ', "groups"),
    ],
)
def test_edited_files_are_refused(folder, run, old, new, says):
    run("fit", "--by", "site", "cal.h5", "-o", "by.json")
    text = new.join((folder / "by.json").read_text().rsplit(old, 1))
    (folder / "bad.json").write_text(text)
    done = run("inspect", "bad.json")
    assert done.code == 3
    assert says in done.line


def test_auto_takes_no_method_that_may_hand_back_another():
    """The guard may keep the common map, which would stand in the average under the name of the other."""
    z, y = np.eye(3)[[0, 1, 2, 0]] * 2, [0, 1, 2, 1]
    with pytest.raises(UsageError, match="ts-by keeps a choice of its own"):
        calcli.fit(z, y, "auto", kind="logits", candidates="ts,ts-by")


def test_what_is_advised_for_a_probability_of_0_can_be_done():
    """platt-by advised floor+ before the method, and floor+platt-by was refused."""
    q, group = np.linspace(0.02, 0.98, 400), np.arange(400) % 2
    p = np.column_stack([1 - q, q])
    y = (
        np.random.default_rng(0).random(400) < np.where(group, q**3, q ** (1 / 3))
    ).astype(int)
    p[0], y[0] = [1.0, 0.0], 1
    with pytest.warns(UserWarning, match=r"\(floor\+platt, for all groups alike\)"):
        fitted = calcli.fit(p, y, "platt-by", kind="probs", groups=group, guard=False)
    assert fitted.method == "platt-by"
    assert calcli.fit(p, y, "floor+platt", kind="probs").method == "floor+platt"


def test_one_number_is_printed_of_a_calibrator_by_a_named_column(run, tmp_path):
    """Of a table the column of the groups has to be named."""
    rng = np.random.default_rng(4)
    site = rng.integers(0, 2, 600)
    log_odds = rng.normal(size=600) * 2.0
    slope = np.array([0.4, 1.6])[site]
    y = (rng.random(600) < 1.0 / (1.0 + np.exp(-slope * log_odds))).astype(int)
    p = 1.0 / (1.0 + np.exp(-log_odds))
    lines = [f"{a:.6f},{b},s{c}" for a, b, c in zip(p, y, site, strict=True)]
    path = tmp_path / "risk.csv"
    path.write_text("\n".join(["risk,died,site", *lines]) + "\n")
    named = (str(path), "--scores", "risk", "--labels", "died", "--kind", "probs")
    by_site = (*named, "--group-by", "site")
    calibrator = str(tmp_path / "by.json")
    done = run("fit", *by_site, "-m", "ts", "--by", "site", "-o", calibrator)
    assert done.code == 0, done.err
    words = ("-c", calibrator, "-m", "nll", "--format", "value")
    value = run("evaluate", *by_site, *words)
    assert value.code == 0, value.err
    shown = run("evaluate", *by_site, "-c", calibrator, "-m", "nll", "--json")
    result = json.loads(shown.out)["results"][1]
    assert float(value.out) == result["metrics"]["nll"]["value"]
    plain = str(tmp_path / "ts.json")
    assert run("fit", *named, "-m", "ts", "-o", plain).code == 0
    words = ("-c", plain, "-m", "nll", "--format", "value")
    refused = run("evaluate", *by_site, *words)
    assert refused.code == 2 and "no calibrator is by group" in refused.err


@pytest.mark.parametrize("method", ["vs", "svs", "sms", "ms-odir", "cts", "irova"])
def test_methods_of_every_class_say_alike_that_one_has_no_rows(method):
    z, y = truth(300, 4, seed=2)
    z, y = z[y != 3], y[y != 3]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calcli.fit(z, y, method, kind="logits")
    said = " ".join(str(one.message) for one in caught)
    assert "1 of 4 classes has no row in the calibration data: 3" in said
    assert "classes without calibration rows (1 of 4): each " in said


def coarse_sites(seed, n, g, spread):
    """Two classes with log-odds in whole numbers, and sites with lines of their own."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, g, n)
    slope = 1.0 + spread * rng.normal(size=g)[site]
    intercept = spread * rng.normal(size=g)[site]
    log_odds = np.round(rng.normal(size=n) * 2.0)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-slope * log_odds - intercept))).astype(
        int
    )
    return np.stack([0.0 * log_odds, log_odds], axis=1), y, site


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("weights", ["none", "whole", "real"])
@pytest.mark.parametrize("seed", range(4))
def test_lines_of_coarse_rows_do_not_depend_on_their_order(seed, weights):
    """The search followed the last digits of sums: probabilities moved by up to 0.018."""
    z, y, site = coarse_sites(seed, 150, 12, 0.6)
    rng = np.random.default_rng(100 + seed)
    weight = None
    if weights == "whole":
        weight = rng.integers(1, 4, len(y)).astype(float)
    elif weights == "real":
        weight = rng.exponential(size=len(y))
    lines = []
    for draw in range(3):
        order = np.random.default_rng(draw).permutation(len(y))
        fitted = calcli.fit(
            z[order],
            y[order],
            "platt",
            kind="logits",
            groups=site[order],
            weights=None if weight is None else weight[order],
            guard=False,
        )
        lines.append(fitted.predict_proba(z, groups=site))
    np.testing.assert_allclose(lines[1], lines[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(lines[2], lines[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", ["csv", "markdown", "latex", "value"])
def test_tables_of_metrics_read_the_groups_of_a_calibrator(run, form):
    """--group-by had "no place" there, and without it the calibrator found no group.

    The NLL is that of the JSON, which prints the groups.
    """
    z, y = truth(600, 2, temperature=2.0)
    z[::2] *= 3.0
    sites = np.resize(["Oslo", "Porto"], 600)
    rows = zip((z[:, 1] - z[:, 0]).tolist(), y, sites, strict=True)
    lines = [f"{gap},{label},{site}" for gap, label, site in rows]
    Path("a.csv").write_text("\n".join(["logit,label,site", *lines]), encoding="utf-8")
    fit = ("fit", "a.csv", "--kind", "logits", "-m", "ts")
    assert run(*fit, "--by", "site", "-o", "by.json").code == 0
    assert run(*fit, "-o", "ts.json").code == 0
    named = ("evaluate", "a.csv", "--kind", "logits", "--group-by", "site", "-m", "nll")
    printed = run(*named, "-c", "by.json", "--json", "-q")
    nll = json.loads(printed.out)["results"][1]["metrics"]["nll"]["value"]
    done = run(*named, "-c", "by.json", "--format", form, "-q")
    assert done.code == 0, done.err
    assert f"{nll:.4f}"[:-1] in done.out
    refused = run(*named, "-c", "ts.json", "--format", form, "-q")
    assert refused.code == 2
    assert "no calibrator is by group" in refused.line
    assert refused.line.endswith("; json has") == (form != "value")
