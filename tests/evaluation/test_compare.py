"""compare: methods on rows that they were not fitted on, beside a baseline, over bundles, resumed, drawn."""

import csv
import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from run_calcli import process
from synthetic import truth

import calcli
from calcli.calibrator import Context
from calcli.errors import UsageError
from calcli.evaluation.cross_validation import fold_fits, folds_of, held_out_table
from calcli.evaluation.differences import differences
from calcli.evaluation.leaderboard import (
    COMPARED,
    LEADERBOARD_METRICS,
    LeaderboardEntry,
)
from calcli.metrics.context import MetricContext
from calcli.metrics.losses import paired_sums
from calcli.metrics.settings import MetricSettings
from calcli.registry import parse_method
from calcli.rows import ArrayRows
from calcli.statistics.friedman import nemenyi_distance, not_told_apart
from calcli.statistics.p_values import holm
from calcli.statistics.paired import PairedSums
from calcli.workers.journal import Journal


def write(name, z, y, **more):
    with h5py.File(name, "w") as file:
        file["logits"], file["labels"] = z, y
        for key, value in more.items():
            file[key] = value


@pytest.fixture
def three(run):
    """Files of three models that are too sure by different factors."""
    for i, scale in enumerate((1.0, 1.5, 2.0)):
        z, y = truth(300, 4, seed=i)
        write(f"m{i}.h5", scale * z, y)
    return ["m0.h5", "m1.h5", "m2.h5"]


def compared(run, *words):
    done = run("compare", *words, "--json", "-q")
    assert done.code == 0, done.err
    return json.loads(done.out)


# ---- scores


def test_every_row_is_scored_by_a_fit_that_has_not_seen_it():
    """Labels at random: what has learnt them by heart loses on rows left out, and gains on its own."""
    rng = np.random.default_rng(0)
    rows = ArrayRows(rng.normal(size=(300, 3)), rng.integers(0, 3, 300))
    folds = folds_of(rows, Context(), 5)
    table = held_out_table(fold_fits(*parse_method("ms"), folds, Context()), folds)
    assert table.n == 300 and (table.y == rows.labels()).all()
    whole = [(rows, rows, np.arange(300))]
    whole = held_out_table(fold_fits(*parse_method("ms"), whole, Context()), whole)
    assert table.nll.mean() > np.log(3) > whole.nll.mean()


def test_json_has_the_promised_shape(run, three):
    comparison = compared(run, "m0.h5", "--methods", "temperature,svs,hb(bins=5)")
    assert [r["method"] for r in comparison["results"]] == [
        "ts",
        "uncalibrated",
        "svs",
        "hb(bins=5)",
    ]
    z, y = truth(300, 4, seed=0)
    rows = ArrayRows(z, y)
    folds = folds_of(rows, Context(), 5)
    fits = {
        name: fold_fits(*parse_method(name), folds, Context())
        for name in ("ts", "svs", "uncalibrated")
    }
    others = [
        (held_out, fit) for (_, held_out, _), fit in zip(folds, fits["ts"], strict=True)
    ]
    tables = {name: held_out_table(fits[name], folds, others) for name in fits}
    for result in comparison["results"][:3]:
        assert (
            result["bundle"] == "m0.h5" and result["n"] == 300 and result["seconds"] > 0
        )
        assert result["metrics"]["nll"]["value"] == pytest.approx(
            tables[result["method"]].nll.mean(), rel=1e-12
        )
        assert {"value", "signature", "null_mean", "p_value"} <= set(
            result["metrics"]["ece"]
        )
    settings = MetricSettings()
    contexts = [MetricContext(tables[name], settings) for name in ("svs", "ts")]
    expected = differences(paired_sums(*contexts), 0.95)["nll"]
    difference = next(d for d in comparison["differences"] if d["method"] == "svs")
    assert difference["baseline"] == "ts"
    nll = difference["metrics"]["nll"]
    assert nll["value"] == pytest.approx(expected.value)
    # fits to overlapping folds depend on each other, which widens the interval
    assert nll["ci_method"] == f"{expected.interval.method}, folds"
    assert nll["ci"][0] < expected.interval.low < expected.interval.high < nll["ci"][1]
    assert comparison["ranks"] is None
    again = compared(run, "m0.h5", "--methods", "temperature,svs,hb(bins=5)")
    assert again["differences"] == comparison["differences"]


def test_differences_of_fits_to_folds_count_the_errors_of_the_fits():
    """Two classes with slope and no bias: rows of ``platt`` hardly differ from those of
    ``ts``, but its bias errs by 1 / n nats or more (Wilks 1938), as does every fit."""
    n = 400
    s = np.random.default_rng(8).logistic(size=n)
    y = (np.random.default_rng(9).random(n) < 1 / (1 + np.exp(-s))).astype(int)
    z = np.stack([np.zeros(n), 2 * s], axis=1)
    comparison = calcli.compare(z, y, ["ts", "platt"])
    (difference,) = (d for d in comparison["differences"] if d["method"] == "platt")
    for loss in ("nll", "brier"):
        assert difference["metrics"][loss]["se"] >= 1.0 / n
        low, high = difference["metrics"][loss]["ci"]
        assert high - low >= 2 * 1.9 / n


def test_no_star_stands_beside_an_interval_that_holds_0(run):
    """``hb`` gives two labels a probability of 0, hundreds of nats that two rows carry."""
    z = np.random.default_rng(44).normal(size=(400, 4)) * 2
    y = (z + np.random.default_rng(45).gumbel(size=z.shape)).argmax(axis=1)
    np.savez("zeros.npz", logits=1.15 * z, labels=y)
    comparison = calcli.compare(1.15 * z, y, ["ts", "hb"])
    (difference,) = (d for d in comparison["differences"] if d["method"] == "hb")
    nll = difference["metrics"]["nll"]
    assert nll["value"] > 1.0 and nll["ci"][0] < 0.0
    assert nll["p_value"] > 0.05
    (line,) = (
        text
        for text in run("compare", "zeros.npz", "--methods", "ts,hb").out.splitlines()
        if text.startswith("hb")
    )
    assert "*" not in line


def test_differences_of_a_cross_fitted_run_allow_for_the_folds(run):
    z, y = truth(300, 3)
    np.savez("one.npz", logits=2 * z, labels=y)
    done = run("run", "one.npz", "-m", "ts", "-o", "out", "--json")
    crossed = json.loads(done.out)["evaluation"]["results"][1]
    comparison = calcli.compare(2 * z, y, ["ts"], baseline="identity", seed=0)
    (difference,) = (d for d in comparison["differences"] if d["method"] == "ts")
    nll = crossed["paired"]["differences"]["nll"]
    assert nll["ci_method"].endswith(", folds")
    expected = difference["metrics"]["nll"]
    assert [nll["value"], *nll["ci"]] == pytest.approx(
        [expected["value"], *expected["ci"]], rel=1e-9
    )


def test_one_group_can_be_fitted_to_and_another_scored(run):
    z, y = truth(400, 3)
    with h5py.File("m.h5", "w") as file:
        for name, part in (("cal", slice(0, 250)), ("test", slice(250, 400))):
            file[f"{name}/logits"], file[f"{name}/labels"] = 2 * z[part], y[part]
    comparison = compared(run, "m.h5", "--test", "test", "--methods", "ts")
    assert run("fit", "-m", "ts", "m.h5", "-q").code == 0
    evaluated = json.loads(run("evaluate", "m.h5", "-c", "m.ts.json", "--json").out)[
        "results"
    ]
    for mine, other in zip(
        sorted(comparison["results"], key=lambda r: r["method"]),
        evaluated[::-1],
        strict=True,
    ):
        assert (mine["bundle"], mine["n"]) == ("m.h5:test", 150)
        assert mine["metrics"]["nll"]["value"] == pytest.approx(
            other["metrics"]["nll"]["value"], rel=1e-12
        )
    assert "fitted to and scored" in run("compare", "m.h5:test", "--test", "test").line
    assert run("compare", "m.h5", "--test", "nothing").code == 3


@pytest.mark.slow
def test_default_methods_are_the_first_and_all_leaves_out_what_cannot_apply(run, three):
    assert [r["method"] for r in compared(run, "m0.h5")["results"]][:4] == [
        "ts",
        "uncalibrated",
        "ec",
        "ft",
    ]
    z, y = truth(30, 6)
    write("few.h5", z, y)
    done = run("compare", "few.h5", "--methods", "all", "--folds", "2", "--json")
    names = {r["method"] for r in json.loads(done.out)["results"]}
    assert "ms" not in names and "recal" not in names and {"hb", "beta", "irm"} <= names
    assert "few.h5: ms: left out, its 42 parameters outnumber the 30 rows" in done.err


def test_a_method_that_fails_is_a_row_with_its_reason(run, three):
    done = run("compare", "m0.h5", "--methods", "ts,recal", "--format", "csv", "-q")
    assert done.code == 4
    lines = {line["method"]: line for line in csv.DictReader(done.out.splitlines())}
    assert lines["recal"]["nll"] == "" and "transform" in lines["recal"]["reason"]
    assert float(lines["ts"]["nll"]) > 0 and "recal" in done.err


def test_the_spreadsheet_holds_every_number_in_its_column(run, three, monkeypatch):
    # nobody asks for other processes
    monkeypatch.setattr("calcli.workers.processes.Processes", None)
    words = ("compare", "m0.h5", "--methods", "ts,ec")
    head, *rows = csv.reader(run(*words, "--format", "csv").out.splitlines())
    facts = [
        "nll",
        "nll.lo",
        "nll.hi",
        "nll.p",
        "nll.null",
        "brier",
        "brier.lo",
        "brier.hi",
        "ece",
        "ece.lo",
        "ece.hi",
    ]
    facts += ["ece.p", "ece.null", "accuracy", "accuracy.lo", "accuracy.hi"]
    minus = [
        f"{m}_minus_baseline{end}"
        for m in ("nll", "brier", "accuracy")
        for end in ("", ".lo", ".hi", ".p")
    ]
    assert head == [
        "bundle",
        "method",
        "n",
        "n_classes",
        "seconds",
        *facts,
        "baseline",
        *minus,
        "reason",
    ]
    whole = json.loads(run(*words, "--json").out)
    for row, result in zip(rows, whole["results"], strict=True):
        cells = dict(zip(head, row, strict=True))
        assert (cells["bundle"], cells["method"], cells["n"], cells["n_classes"]) == (
            "m0.h5",
            result["method"],
            "300",
            "4",
        )
        ece, nll = result["metrics"]["ece"], result["metrics"]["nll"]
        assert [float(cells[name]) for name in ("ece", "ece.null", "ece.p")] == [
            ece[key] for key in ("value", "null_mean", "p_value")
        ]
        assert [float(cells["nll.lo"]), float(cells["nll.hi"])] == nll["ci"]
        brier_of = [
            d["metrics"]["brier"]
            for d in whole["differences"]
            if d["method"] == result["method"]
        ]
        assert cells["brier_minus_baseline.hi"] == (
            str(brier_of[0]["ci"][1]) if brier_of else ""
        )
        assert (
            cells["baseline"] == ("m0.h5:ts" if brier_of else "")
            and cells["reason"] == ""
        )


# ---- tables


def test_rows_that_a_calibrator_made_are_not_called_uncalibrated(run, three):
    assert run("fit", three[0], "-m", "ts", "-o", "t.json", "-q").code == 0
    assert run("apply", "t.json", three[1], "-o", "made.h5", "-q").code == 0
    text = run(
        "compare", "made.h5", "--methods", "vs", "--baseline", "uncalibrated"
    ).out
    assert (
        "calibrated by ts (baseline) " in text
        and " minus calibrated by ts " in text
        and "uncalibrated" not in text
    )


def test_text_is_best_first_with_the_baseline_marked(run, three):
    done = run("compare", "m2.h5", "--methods", "ec,ts", "--baseline", "ec")
    lines = done.out.splitlines()
    assert lines[0] == "m2.h5: 300 samples, 4 classes, 5 random folds"
    assert "minus ec" in lines[1]
    nll = [float(line.replace(" (baseline)", "").split()[1]) for line in lines[2:5]]
    assert nll == sorted(nll) and any(
        line.startswith("ec (baseline)") for line in lines
    )
    # twice too sure: significant
    assert lines[4].startswith("uncalibrated") and "*" in lines[4]


@pytest.mark.parametrize(
    "written", ["hb(bins=5; scheme=mass)", "Histogram( bins=5 ;scheme=mass )"]
)
def test_a_method_written_with_spaces_is_no_second_one(run, three, written):
    asked = f"ts,hb(bins=5;scheme=mass),{written}"
    comparison = compared(run, "m0.h5", "--methods", asked, "--baseline", written)
    assert {r["method"] for r in comparison["results"]} == {
        "uncalibrated",
        "ts",
        "hb(bins=5;scheme=mass)",
    }
    against = {d["method"]: d["baseline"] for d in comparison["differences"]}
    assert against == dict.fromkeys(["uncalibrated", "ts"], "hb(bins=5;scheme=mass)")


@pytest.mark.slow
def test_several_bundles_are_ranked_in_every_format(run, three, monkeypatch):
    comparison = compared(run, *three, "--methods", "ts,ec")
    ranks = comparison["ranks"]
    values = {
        (r["bundle"], r["method"]): r["metrics"]["nll"]["value"]
        for r in comparison["results"]
    }
    for place, name in enumerate(ranks["methods"]):
        ranks_of_name = [
            sum(values[b, other] <= values[b, name] for other in ranks["methods"])
            for b in three
        ]
        assert ranks["metrics"]["nll"]["ranks"][place] == pytest.approx(
            np.mean(ranks_of_name)
        )
    assert ranks["nemenyi"]["critical_difference"] == pytest.approx(
        2.343 * np.sqrt(3 * 4 / 18), abs=2e-3
    )
    text = run("compare", *three, "--methods", "ts,ec").out
    assert (
        "average ranks over 3 bundles" in text
        and "Iman-Davenport" in text
        and "Nemenyi" in text
    )
    assert text.count("300 samples, 4 classes") == 3
    monkeypatch.setattr("calcli.cli.compare_tables.MOST_TABLES", 2)
    short = run("compare", *three, "--methods", "ts,ec").out
    assert "rows x" not in short and short.lstrip().startswith(
        "average ranks over 3 bundles"
    )
    assert (
        len(
            run(
                "compare", *three, "--methods", "ts,ec", "--format", "markdown"
            ).out.splitlines()
        )
        == 5
    )
    assert (
        r"\toprule"
        in run("compare", *three, "--methods", "ts,ec", "--format", "latex").out
    )
    assert (
        len(
            run(
                "compare", *three, "--methods", "ts,ec", "--format", "jsonl"
            ).out.splitlines()
        )
        == 9
    )


# ---- two models


def test_two_models_on_the_same_rows(run):
    z, y = truth(200, 3)
    write("new.h5", z, y, ids=np.arange(200))
    write("old.h5", 3 * z, y, ids=np.arange(200))
    comparison = compared(
        run, "new.h5", "--baseline-bundle", "old.h5", "--methods", "ts"
    )
    pairs = {d["method"]: d for d in comparison["differences"]}
    assert (
        set(pairs) == {"ts", "uncalibrated"}
        and pairs["ts"]["baseline_bundle"] == "old.h5"
    )
    assert pairs["uncalibrated"]["metrics"]["nll"]["value"] < 0
    # one temperature takes the factor away
    assert abs(pairs["ts"]["metrics"]["nll"]["value"]) < 1e-6
    y[17] = (y[17] + 1) % 3
    write("other.h5", z, y)
    done = run("compare", "new.h5", "--baseline-bundle", "other.h5")
    assert done.code == 3 and "row 17 has label" in done.line
    write("shuffled.h5", z, truth(200, 3)[1], ids=np.r_[0, 2, 1, 3:200])
    assert (
        "row 1 has id 1 in new.h5 and 2 in shuffled.h5"
        in run("compare", "new.h5", "--baseline-bundle", "shuffled.h5").line
    )


def test_two_models_must_agree_in_weights_units_and_the_order_of_classes(run):
    z, y = truth(200, 3)
    even = 1.0 + np.arange(200) % 2
    pairs = np.arange(200) // 2

    def line(new, old):
        write("new.h5", z, y, **new)
        write("old.h5", 3 * z, y, **old)
        done = run(
            "compare", "new.h5", "-m", "uncalibrated", "--baseline-bundle", "old.h5"
        )
        assert done.code in (0, 3), done.err
        return done.line if done.code == 3 else None

    together = "bundles that are taken together must agree in it"
    for old in ({}, {"weights": 1.0 + np.arange(200) % 3}):
        said = line({"weights": even}, old)
        assert "old.h5: gives row" in said
        assert together in said
    assert line({"weights": even}, {"weights": (0.1 * even).astype("f4")}) is None
    assert line({}, {"weights": np.full(200, 7.0)}) is None
    for new, old in (({"unit": pairs}, {}), ({}, {"unit": pairs})):
        said = line(new, old)
        assert "rows 0 and 1 in one unit" in said
        assert together in said
    assert "in one unit" in line({"unit": pairs}, {"unit": np.arange(200) // 4})
    assert line({"unit": pairs}, {"unit": 1000 - pairs}) is None
    assert line({}, {"unit": np.arange(200)}) is None
    said = line({"class_names": list("abc")}, {"class_names": list("cba")})
    assert said.endswith(f"old.h5: calls class 0 'c', new.h5 'a'; {together}")
    assert line({"class_names": list("abc")}, {"class_names": list("ABC")}) is None
    assert line({"class_names": list("abc")}, {}) is None


# ---- results kept


@pytest.mark.slow
def test_units_are_said_as_evaluate_says_them(run):
    """Signatures of a whole file and the ``units`` of the uncalibrated scores are those of ``evaluate``."""
    z, y = truth(300, 3, seed=1)
    write("m.h5", 2 * z, y, patient=np.arange(300) // 5)
    words = ("m.h5", "--unit", "patient")
    want = json.loads(run("evaluate", *words, "--json", "-q").out)["results"][0]
    for _ in "written", "taken from the file":
        results = compared(run, *words, "-m", "identity,ts", "-o", "units.json")[
            "results"
        ]
        for result in results:
            for name, score in result["metrics"].items():
                assert (
                    score["signature"] == want["metrics"][name]["signature"]
                    and "|unit:patient|" in score["signature"]
                )
        alone = next(result for result in results if result["method"] == "uncalibrated")
        assert alone["units"] == want["units"] and alone["units"]["name"] == "patient"
    assert (
        "holds results with unit patient, not none"
        in run("compare", "m.h5", "-o", "units.json", "--unit", "none").err
    )
    alone = compared(run, "m.h5", "-m", "identity", "--unit", "none")["results"][0]
    assert (
        alone["units"] == {"name": "none"}
        and "|unit:none|" in alone["metrics"]["nll"]["signature"]
    )
    assert "units" not in compared(run, "m.h5", "-m", "identity")["results"][0]
    results = calcli.compare(2 * z, y, ["identity"], units=np.arange(300) // 5)[
        "results"
    ][0]
    assert (
        "|unit:unit|" in results["metrics"]["nll"]["signature"]
        and results["units"]["n"] == 60
    )


def test_json_is_short_for_a_format(run, three):
    lines = run(
        "compare", three[0], "-m", "ts", "--format", "jsonl", "-q"
    ).out.splitlines()
    assert [json.loads(line)["method"] for line in lines] == ["ts", "uncalibrated"]
    for words in (["methods"], ["metrics"], ["metrics", "ece"]):
        assert (
            run(*words, "--json", "--format", "json").out == run(*words, "--json").out
        )


def test_a_job_file_is_gone_on_from(run, three, monkeypatch):
    words = (*three, "--methods", "ts,ec", "-o", "r.json")
    close = Journal.close
    with monkeypatch.context() as stopped:
        stopped.setattr(
            Journal, "close", lambda journal, *, done: close(journal, done=False)
        )
        first = compared(run, *words)
    Path("r.json").unlink()
    again = run("compare", *words, "--json")
    assert "9 of 9 results are there already" in again.err
    assert json.loads(again.out) == first  # seconds too: nothing was fitted again
    assert not Path("r.json.job").exists()


def test_a_job_file_of_another_version_is_not_gone_on_from(run, three, monkeypatch):
    """0.2.0 kept the entries themselves, their differences as the JSON has them."""
    words = (*three, "--methods", "ts", "-o", "r.json")
    fresh = compared(run, *words)
    difference = {"value": 0.1, "se": 0.1, "p_value": 0.3}
    former = LeaderboardEntry(
        "m0.h5",
        "ts",
        300,
        4,
        "",
        1.0,
        {name: {"value": 0.5} for name in LEADERBOARD_METRICS},
        differences=dict.fromkeys(COMPARED, difference),
        against=("m0.h5", "uncalibrated"),
    )
    monkeypatch.setattr(Journal, "__getitem__", lambda journal, key: former)
    Path("r.json").unlink()
    again = compared(run, *words)
    assert without_seconds(again) == without_seconds(fresh)


def without_seconds(content):
    results = [{**result, "seconds": None} for result in content["results"]]
    return {**content, "results": results}


def test_a_result_file_is_gone_on_from(run, three):
    words = ("-o", "r.json", "--baseline", "ts")
    first = compared(run, *three[:2], "--methods", "ec", *words)
    kept = json.loads(Path("r.json").read_text())
    assert kept["results"] == first["results"]
    whole = compared(run, *three, "--methods", "ec,ft", *words)
    fresh = compared(run, *three, "--methods", "ec,ft", "--baseline", "ts")
    seconds = {(r["bundle"], r["method"]): r["seconds"] for r in whole["results"]}
    assert all(
        seconds[r["bundle"], r["method"]] == r["seconds"] for r in first["results"]
    )
    for one, other in zip(whole["results"], fresh["results"], strict=True):
        assert one["metrics"] == other["metrics"]
    assert (
        whole["differences"] == fresh["differences"]
        and whole["ranks"] == fresh["ranks"]
    )
    z, y = truth(300, 4, seed=9)
    write("m0.h5", z, y)  # other rows under the old name
    assert (
        "8 of 12 results are there already"
        in run("compare", *three, "--methods", "ec,ft", *words).err
    )
    assert (
        json.loads(Path("r.json").read_text())["data"]["m0.h5"] != kept["data"]["m0.h5"]
    )
    assert (
        "seed 0, not 1"
        in run("compare", *three, "--methods", "ec,ft", "--seed", "1", *words).line
    )
    assert "not asked for" in run("compare", "m1.h5", "--methods", "ec,ft", *words).line
    cut = json.loads(Path("r.json").read_text())
    del cut["results"][0]["metrics"]["nll"]
    Path("cut.json").write_text(json.dumps(cut))
    assert (
        run(
            "compare",
            *three,
            "--methods",
            "ec,ft",
            "--baseline",
            "ts",
            "-o",
            "cut.json",
        ).code
        == 2
    )
    Path("no.json").write_text("{}")
    assert run("compare", "m0.h5", "-o", "no.json").code == 2


@pytest.mark.slow
def test_processes_change_no_number(tmp_path, run, three):
    alone = compared(run, *three[:2], "--methods", "ts,ec")
    done = process(
        "compare",
        *three[:2],
        "--methods",
        "ts,ec",
        "--workers",
        "2",
        "--json",
        "-q",
        cwd=tmp_path,
    )
    together = json.loads(done.out)
    for one in (alone, together):
        for result in one["results"]:
            del result["seconds"]
    assert together == alone


# ---- ranks


def test_differences_of_rounding_are_not_significant():
    """By hand: all rows differ by about one unit in the last place, in one direction."""
    rng = np.random.default_rng(0)
    d = -(2.0**-53) * rng.integers(1, 3, size=500)
    expected = np.zeros((2, 2, 5))
    for sums in (PairedSums.of(d), PairedSums.of(d, None, expected)):
        by_metric = differences({"brier": sums}, 0.95)
        assert by_metric["brier"].p_value == 1.0
    far = PairedSums.of(d * 2.0**20)
    assert differences({"brier": far}, 0.95)["brier"].p_value < 1e-10


def test_critical_differences_of_demsar():
    """Demsar (2006), Table 5(a): q for 2..10 classifiers at 0.05 and 0.10, printed to three decimals."""
    printed = {
        0.95: (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
        0.90: (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
    }
    for level, row in printed.items():
        for k, q in enumerate(row, 2):
            assert nemenyi_distance(k, 7, level) == pytest.approx(
                q * np.sqrt(k * (k + 1) / 42), rel=6e-4
            )


def test_sets_that_are_not_told_apart():
    assert not_told_apart(np.array([1.0, 2.5, 2.0, 5.0]), 1.2) == [[0, 2], [2, 1]]
    assert not_told_apart(np.array([1.0, 3.0]), 1.5) == []
    assert not_told_apart(np.array([2.0, 1.0, 3.0]), 5.0) == [[1, 0, 2]]


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_the_picture(run, three):
    done = run("compare", *three, "--methods", "ts,ec,svs", "--diagram", "cd.svg", "-q")
    assert done.code == 0
    drawn = Path("cd.svg").read_text()
    assert all(
        word in drawn
        for word in (
            ">ts  ",
            "uncalibrated",
            "critical difference",
            "average rank by NLL",
        )
    )
    assert run("compare", "m0.h5", "--diagram", "one.png").code == 2
    assert run("compare", *three, "--diagram", "cd.gif").code == 2


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--methods", "tss"], "did you mean ts"),
        (["--methods", "hb(bins)"], "NAME=VALUE"),
        (["--methods", "hb(bins=20"], "expected a method"),
        (["--baseline", "ts", "--baseline-bundle", "m1.h5"], "exclude"),
        (["-o", "r.csv"], ".json"),
        (["--format", "html"], "table, markdown, latex"),
        (["--workers", "0"], "1<=x<=4096"),
        (["--workers", "4097"], "1<=x<=4096"),
    ],
)
def test_usage_errors(run, three, words, part):
    done = run("compare", "m0.h5", *words)
    assert done.code == 2 and part in done.line


def test_every_fit_of_a_fold_is_progress(run, three, monkeypatch):
    """The line of progress stood still until a method was done with all folds."""
    reports = []

    def progress(console, what, done, total):
        reports.append((what, done, total))

    monkeypatch.setattr("calcli.cli.render.Console.progress", progress)
    compared(run, three[0], "--methods", "ts,iop")
    for name in ("ts", "iop"):
        folds = [
            (done, total)
            for what, done, total in reports
            if what == f"comparing, {three[0]} {name} fitting"
        ]
        assert {total for _, total in folds} == {5}
        assert [done for done, _ in folds] == sorted(done for done, _ in folds)
        assert {done for done, _ in folds} == {0, 1, 2, 3, 4}


def test_more_folds_than_rows_are_refused(run):
    z, y = truth(40, 3)
    np.savez("small.npz", logits=z, labels=y)
    done = run("compare", "small.npz", "--methods", "ts", "--folds", "1000")
    assert done.code == 2
    assert "--folds 1000: the 40 rows of small.npz make 40 folds at most" in done.err
    with pytest.raises(UsageError, match="make 40 folds at most"):
        calcli.compare(z, y, ["ts"], kind="logits", folds=100)
    assert run("compare", "small.npz", "--methods", "ts", "--folds", "40").code == 0
