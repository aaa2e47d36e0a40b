"""Laws of commands: what must not change a figure, whatever the data."""

import json

import numpy as np
import pytest

import calcli

FORMATS = ("h5", "npz", "csv", "jsonl", "parquet")


def single_precision_with_ties(n=400, k=5, seed=71):
    """float32 probabilities with a few largest values, each in many rows, the others free."""
    rng = np.random.default_rng(seed)
    top = rng.choice(np.float32([0.41, 0.57, 0.73, 0.89]), n)
    rest = rng.dirichlet(np.ones(k - 1), n) * (1.0 - top[:, None])
    rest = np.minimum(rest, 0.4)
    probs = np.concatenate([top[:, None], rest], axis=1).astype(np.float32)
    probs[:, 1] += 1.0 - probs.sum(axis=1)
    probs = np.take_along_axis(
        probs, rng.permuted(np.tile(np.arange(k), (n, 1)), axis=1), 1
    )
    labels = np.where(rng.random(n) < top, probs.argmax(axis=1), rng.integers(0, k, n))
    return probs, labels


def measured(result):
    """Metrics of ``evaluate --json``: name to value."""
    assert result.code == 0, result.err
    (one,) = json.loads(result.out)["results"]
    return {name: metric["value"] for name, metric in one["metrics"].items()}


@pytest.mark.parametrize("form", FORMATS[1:])
def test_a_format_changes_no_figure(run, tmp_path, monkeypatch, form):
    """Texts hold float32 as float64: rows were divided by their sums, and ties were lost."""
    if form == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet")
    monkeypatch.chdir(tmp_path)
    probs, labels = single_precision_with_ties()
    np.savez("scores.npz", probs=probs, labels=labels)
    assert run("fit", "scores.npz", "-m", "identity", "-o", "c.json", "-q").code == 0
    metrics = [
        word
        for name in ("nll", "brier", "auroc", "aurc", "ece_mass", "ks")
        for word in ("-m", name)
    ]
    figures = {}
    for name in ("h5", form):
        done = run("apply", "c.json", "scores.npz", "-o", f"out.{name}", "-q")
        assert done.code == 0, done.err
        figures[name] = measured(
            run("evaluate", f"out.{name}", "--json", "-q", *metrics)
        )
    assert figures[form] == figures["h5"]


def drawn(n, k, seed, units=None):
    """Overconfident logits and labels; with units, rows of one unit share a part."""
    rng = np.random.default_rng(seed)
    logits = 1.3 * rng.standard_t(5, size=(n, k))
    if units is not None:
        logits += 0.8 * rng.normal(size=(units, k))[np.arange(n) % units]
    chances = np.exp(logits / 1.6)
    chances /= chances.sum(axis=1, keepdims=True)
    labels = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return logits, labels.clip(0, k - 1)


def judged(run, name, *more):
    """``evaluate --json`` of one bundle, without its name."""
    done = run("evaluate", name, "--json", "-q", *more)
    assert done.code == 0, done.err
    (one,) = json.loads(done.out)["results"]
    one["report"].pop("next")
    return {key: value for key, value in one.items() if key != "bundle"}


def assert_same(result, expected, where=""):
    """Hold two JSON values equal, numbers to rounding."""
    if isinstance(expected, dict):
        assert result.keys() == expected.keys(), where
        for key in expected:
            assert_same(result[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, list):
        assert len(result) == len(expected), where
        for place, (one, other) in enumerate(zip(result, expected, strict=True)):
            assert_same(one, other, f"{where}[{place}]")
    elif isinstance(expected, float):
        assert result == pytest.approx(expected, rel=1e-9, abs=1e-9), where
    else:
        assert result == expected, where


@pytest.mark.parametrize(("n", "k", "units"), [(240, 2, 60), (300, 4, 41)])
def test_order_of_rows_and_names_of_units_change_nothing(
    run, tmp_path, monkeypatch, n, k, units
):
    monkeypatch.chdir(tmp_path)
    logits, labels = drawn(n, k, 81, units)
    unit = np.array([f"u{i:03d}" for i in np.arange(n) % units])
    np.savez("a.npz", logits=logits, labels=labels, unit=unit)
    expected = judged(run, "a.npz")
    order = np.random.default_rng(82).permutation(n)
    np.savez("b.npz", logits=logits[order], labels=labels[order], unit=unit[order])
    assert_same(judged(run, "b.npz"), expected)
    names = np.random.default_rng(83).permutation([f"z{i}" for i in range(units)])
    np.savez("c.npz", logits=logits, labels=labels, unit=names[np.arange(n) % units])
    assert_same(judged(run, "c.npz"), expected)


@pytest.mark.parametrize("decimals", [1, 12])
@pytest.mark.parametrize("units", [None, 40])
@pytest.mark.parametrize("k", [2, 3])
def test_order_of_weighted_rows_changes_nothing(
    run, tmp_path, monkeypatch, k, units, decimals
):
    """Draws of weighted rows followed the file: ``ece`` had p = .97 or .95."""
    monkeypatch.chdir(tmp_path)
    n = 160
    logits, labels = drawn(n, k, 87, units)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    probs = np.floor(probs * 10**decimals) / 10**decimals
    probs[np.arange(n), probs.argmax(axis=1)] += 1.0 - probs.sum(axis=1)
    columns = {"probs": probs, "labels": labels}
    columns["weights"] = np.random.default_rng(88).integers(1, 4, n).astype(float)
    if units is not None:
        columns["unit"] = np.arange(n) % units
    np.savez("a.npz", **columns)
    order = np.random.default_rng(89).permutation(n)
    np.savez("b.npz", **{name: values[order] for name, values in columns.items()})
    few = ("--resamples", "50")
    assert_same(judged(run, "b.npz", *few), judged(run, "a.npz", *few))


def test_a_copy_of_each_row_inside_its_unit_changes_no_interval(
    run, tmp_path, monkeypatch
):
    """Units are what is counted: their means stay, and so do intervals and verdict."""
    monkeypatch.chdir(tmp_path)
    logits, labels = drawn(300, 3, 84, 60)
    unit = np.arange(300) % 60
    np.savez("once.npz", logits=logits, labels=labels, unit=unit)
    twice = np.tile(np.arange(300), 2)
    np.savez("twice.npz", logits=logits[twice], labels=labels[twice], unit=unit[twice])
    once, doubled = judged(run, "once.npz"), judged(run, "twice.npz")
    for key in ("overconfidence", "verdict_kind"):
        assert_same(doubled["report"][key], once["report"][key])
    assert_same(doubled["metrics"]["nll"]["ci"], once["metrics"]["nll"]["ci"])


def test_columns_of_groups_in_another_order_give_the_same_tests(
    run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    logits, labels = drawn(400, 2, 85)
    rng = np.random.default_rng(86)
    sex = np.array(["F", "M"])[rng.integers(0, 2, 400)]
    town = np.array(["X", "Y", "Z"])[rng.integers(0, 3, 400)]
    risk = 1.0 / (1.0 + np.exp(logits[:, 0] - logits[:, 1]))
    with open("t.csv", "w") as file:
        file.write("p,y,sex,town\n")
        for row in zip(risk, labels, sex, town, strict=True):
            file.write("{:.9g},{},{},{}\n".format(*row))
    how = ["--scores", "p", "--labels", "y", "--kind", "probs"]
    one = judged(run, "t.csv", *how, "--group-by", "sex", "--group-by", "town")
    other = judged(run, "t.csv", *how, "--group-by", "town", "--group-by", "sex")
    assert_same(other, one)


def test_a_batch_in_two_halves_counts_its_rows_once(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logits, labels = drawn(700, 3, 87)
    np.savez("cal.npz", logits=logits[:400], labels=labels[:400])
    parts = {
        "whole": slice(400, 700),
        "first": slice(400, 550),
        "last": slice(550, 700),
    }
    for name, part in parts.items():
        np.savez(f"{name}.npz", logits=logits[part], labels=labels[part])
    assert run("fit", "cal.npz", "-m", "ts", "-q", "-o", "ts.json").code == 0

    def watch(name, state):
        return run("watch", name, "-c", "ts.json", "--state", state, "--json", "-q")

    at_once = json.loads(watch("whole.npz", "one.json").out)
    watch("first.npz", "two.json")
    in_two = json.loads(watch("last.npz", "two.json").out)
    assert (in_two["rows"], in_two["alarm"]) == (at_once["rows"], at_once["alarm"])
    assert watch("whole.npz", "two.json").code == 3


def adapted(run, unit=None, rows=slice(None), source=slice(None)):
    """``adapt --json`` to rows of other class frequencies, without the output's name."""
    rng = np.random.default_rng(88)
    shares = [0.55, 0.25, 0.2]
    y = np.concatenate([rng.integers(0, 3, 200), rng.choice(3, 80, p=shares)])
    of_unit = np.arange(280).repeat(3)
    y = np.where(rng.random(840) < 0.5, y[of_unit], rng.integers(0, 3, 840))
    logits = 2.0 * np.eye(3)[y] + rng.normal(size=(840, 3))
    np.savez("cal.npz", logits=logits[:300], labels=y[:300])
    old = {"logits": logits[300:600], "labels": y[300:600]}
    new = {"logits": logits[600:]}
    if unit is not None:
        old["unit"] = unit[:300]
        new["unit"] = unit[300:]
    np.savez("old.npz", **{name: array[source] for name, array in old.items()})
    np.savez("new.npz", **{name: array[rows] for name, array in new.items()})
    done = run("fit", "cal.npz", "-m", "vs", "-q", "-o", "vs.json", "--force")
    assert done.code == 0, done.err
    done = run(
        *("adapt", "vs.json", "new.npz", "--source", "old.npz", "-q"),
        *("-o", "out.json", "--force", "--json"),
    )
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    del facts["n"]
    return facts


@pytest.mark.parametrize("has_units", [False, True])
def test_adapt_does_not_depend_on_the_order_of_rows_or_names_of_units(
    run, tmp_path, monkeypatch, has_units
):
    """The p-value of no change was .095 in one order and .124 in another."""
    monkeypatch.chdir(tmp_path)
    unit = np.arange(180).repeat(3) if has_units else None
    expected = adapted(run, unit)
    rng = np.random.default_rng(89)
    orders = {"rows": rng.permutation(240), "source": rng.permutation(300)}
    assert_nearly(adapted(run, unit, **orders), expected)
    if has_units:
        renamed = rng.permutation(180).repeat(3)
        assert_nearly(adapted(run, renamed), expected)


@pytest.mark.parametrize("part", ["shuffled", "half"])
def test_adapt_cross_fits_a_source_of_rows_of_the_fit(run, tmp_path, monkeypatch, part):
    """Rows of the fit in another order passed for held-out ones, on which vs is sure."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(91)
    k = 8
    y = rng.integers(0, k, 1000)
    logits = 2.0 * np.eye(k)[y] + 1.5 * rng.normal(size=(1000, k))
    order = rng.permutation(160)
    if part == "half":
        order = np.concatenate([order[:80], np.arange(160, 240)])
    sources = {"fit": np.arange(160), "source": order}
    for name, rows in sources.items():
        np.savez(f"{name}.npz", logits=logits[rows], labels=y[rows])
    np.savez("new.npz", logits=logits[240:])
    assert run("fit", "fit.npz", "-m", "ms", "-q", "-o", "ms.json").code == 0
    shares = {}
    for name in sources:
        done = run(
            *("adapt", "ms.json", "new.npz", "--source", f"{name}.npz", "-q", "--json"),
            *("-o", f"{name}.json", "--again"),
        )
        assert done.code == 0, done.err
        shares[name] = [one["source"] for one in json.loads(done.out)["classes"]]
    # Folds follow what rows hold, so that another order gives the same folds.
    if part == "shuffled":
        assert shares["source"] == pytest.approx(shares["fit"], abs=1e-7)
    else:
        in_sample = calcli.load("ms.json").predict_proba(logits[order]).mean(axis=0)
        assert shares["source"] != pytest.approx(in_sample, abs=1e-4)


def assert_nearly(result, expected):
    """Hold shares and intervals equal: EM ends within 1e-9 a step."""
    for name in ("adapted", "no_shift_p_value", "label_shift_p_value"):
        assert result[name] == expected[name]
    for one, other in zip(result["classes"], expected["classes"], strict=True):
        assert one["source"] == pytest.approx(other["source"], abs=1e-7)
        assert one["target"] == pytest.approx(other["target"], abs=1e-7)
        assert one["ci"] == pytest.approx(other["ci"], abs=1e-7)


def test_a_copy_of_each_row_inside_its_unit_adapts_alike(run, tmp_path, monkeypatch):
    """A pseudo-sample weighed half as much: shares moved by .002 to .006."""
    monkeypatch.chdir(tmp_path)
    unit = np.arange(180).repeat(3)
    expected = adapted(run, unit)
    twice = {"rows": np.tile(np.arange(240), 2), "source": np.tile(np.arange(300), 2)}
    assert_nearly(adapted(run, unit, **twice), expected)


@pytest.mark.parametrize("k", [2, 4])
def test_an_adjusted_interval_of_a_gap_holds_0_unless_it_has_a_star(
    run, tmp_path, monkeypatch, k
):
    """A gap of -.132 had no star beside one of -.104: both intervals were off 0."""
    monkeypatch.chdir(tmp_path)
    n_starred = n_parted = 0
    for seed in range(4):
        rng = np.random.default_rng([90, seed])
        sizes = rng.integers(8, 250, 30)
        logits, labels = drawn(sizes.sum(), k, 91 + seed)
        logits *= rng.uniform(0.4, 1.1, 30).repeat(sizes)[:, None]
        group = np.repeat([f"g{i}" for i in range(30)], sizes)
        np.savez("g.npz", logits=logits, labels=labels, group=group)
        done = run("diagram", "g.npz", *WORDS_OF_GAPS, "-o", "g.json", "--force", "-q")
        assert done.code == 0, done.err
        with open("g.json") as file:
            gaps = json.load(file)["series"][0]["gaps"]
        for gap in gaps:
            assert gap["adjusted_low"] <= gap["gap"] <= gap["adjusted_high"]
            holds_0 = gap["adjusted_low"] <= 0.0 <= gap["adjusted_high"]
            assert holds_0 is not gap["beyond"], gap
            n_starred += gap["beyond"]
            n_parted += holds_0 and not gap["low"] <= 0.0 <= gap["high"]
    assert n_starred > 0
    assert n_parted > 0


WORDS_OF_GAPS = ("--style", "gaps", "--per-group")
