"""calcli evaluate: JSON shape, gates, comparisons, warnings, words, bad input."""

import csv
import json
import xml.etree.ElementTree as ET

import h5py
import numpy as np
import pytest
from conftest import SHARED_DATA
from metric_cases import draw_labels, softmax
from run_calcli import process

from calcli.calibrator import Context
from calcli.evaluation.cross_validation import decomposed_loss
from calcli.evaluation.metric_limits import limits
from calcli.folds import stratified_folds
from calcli.metrics.collect import collect
from calcli.rows import ArrayRows

RNG = np.random.RandomState(0)
LOGITS = RNG.normal(size=(1200, 4)) * 1.5
LABELS = draw_labels(softmax(LOGITS), RNG)


@pytest.fixture
def bundle(tmp_path):
    """Twice too sure; groups cal and test; two subgroups; class names."""
    with h5py.File(tmp_path / "m.h5", "w") as file:
        for name, part in (("cal", slice(0, 600)), ("test", slice(600, 1200))):
            group = file.create_group(name)
            group["logits"] = (2 * LOGITS[part]).astype(np.float32)
            group["labels"] = LABELS[part]
            group["group"] = np.array(["a", "b"], dtype=object)[np.arange(600) % 2]
            group["class_names"] = np.array(["w", "x", "y", "z"], dtype=object)
    return "m.h5"


@pytest.fixture
def fitted(run, bundle):
    for method in ("ts", "ec"):
        assert run("fit", "--method", method, bundle, "-q").code == 0
    return bundle


def evaluated(run, *words):
    result = run("evaluate", *words, "--json", "-q")
    assert result.code == 0, result.err
    return json.loads(result.out)


# ---- the JSON object


def test_json_has_the_promised_shape(run, fitted):
    whole = evaluated(
        run, fitted, "--calibrator", "m.ts.json", "--calibrator", "m.ec.json"
    )
    assert whole["calcli_evaluation"] == 1
    assert [(r["bundle"], r["calibrator"], r["method"]) for r in whole["results"]] == [
        ("m.h5:test", None, "uncalibrated"),
        ("m.h5:test", "m.ts.json", "ts"),
        ("m.h5:test", "m.ec.json", "ec"),
    ]
    for r in whole["results"]:
        assert (r["n"], r["n_classes"]) == (600, 4)
        promised = {
            "accuracy",
            "nll",
            "brier",
            "brier_top",
            "mean_confidence",
            "ece",
            "ece_mass",
            "mce",
        }
        assert promised <= set(r["metrics"])
        for name, entry in r["metrics"].items():
            assert isinstance(entry["value"], float)
            assert entry["signature"].startswith(name + "|")
        ece = r["metrics"]["ece"]
        assert ece["signature"].startswith(
            "ece|norm:1|bins:15|scheme:width|closed:right|label:top|calcli:"
        )
        assert {"null_mean", "null_q95", "p_value"} <= set(ece)
        assert ece["ci"][0] <= ece["ci"][1]
        assert ece["ci_level"] == 0.95
        nll = r["metrics"]["nll"]
        assert nll["ci"][0] < nll["value"] < nll["ci"][1]
        assert nll["ci_method"] == "bootstrap-t"
        assert r["metrics"]["tce2"]["ci_method"] == "sun2024"
    before, after = whole["results"][0]["metrics"], whole["results"][1]["metrics"]
    table = collect(ArrayRows((2 * LOGITS[600:]).astype(np.float32), LABELS[600:]))
    assert before["nll"]["value"] == pytest.approx(table.nll.mean(), rel=1e-12)
    assert before["ece"]["p_value"] < 0.01 < after["ece"]["p_value"]


def test_metrics_and_settings_are_chosen(run, fitted):
    whole = evaluated(
        run,
        fitted,
        "-m",
        "ece",
        "-m",
        "tce2_plugin",
        "--bins",
        "7",
        "--norm",
        "2",
        "--level",
        "0.8",
    )
    [result] = whole["results"]
    assert list(result["metrics"]) == ["ece", "tce2_plugin"]
    assert "norm:2|bins:7|" in result["metrics"]["ece"]["signature"]
    assert "report" not in result
    compat = evaluated(run, fitted, "-m", "ece", "--compat", "torchmetrics")["results"][
        0
    ]["metrics"]["ece"]
    assert "compat:torchmetrics" in compat["signature"]
    assert "null_mean" not in compat  # another program's bins have no floor here


def test_same_seed_same_bytes_and_more_metrics_change_none(run, fitted):
    first = run(
        "evaluate", fitted, "-c", "m.ts.json", "--json", "-q", "--seed", "3"
    ).out
    assert (
        run("evaluate", fitted, "-c", "m.ts.json", "--json", "-q", "--seed", "3").out
        == first
    )
    assert (
        run("evaluate", fitted, "-c", "m.ts.json", "--json", "-q", "--seed", "4").out
        != first
    )
    alone = evaluated(run, fitted, "-m", "ece", "--seed", "3")["results"][0]["metrics"][
        "ece"
    ]
    assert json.loads(first)["results"][0]["metrics"]["ece"] == alone


def test_lines_and_values(run, fitted):
    lines = run(
        "evaluate", fitted, "-c", "m.ts.json", "--format", "jsonl", "-q"
    ).out.splitlines()
    assert [json.loads(line)["calibrator"] for line in lines] == [None, "m.ts.json"]
    value = run(
        "evaluate", fitted, "-c", "m.ts.json", "-m", "ece", "--format", "value", "-q"
    ).out
    assert float(value) == json.loads(lines[1])["metrics"]["ece"]["value"]
    alone = run("evaluate", fitted, "-m", "ece", "--format", "value", "-q").out
    assert float(alone) == json.loads(lines[0])["metrics"]["ece"]["value"]


@pytest.mark.parametrize("groups", ["--per-group", "--group-by=group"])
def test_one_number_goes_with_limits_on_groups(run, bundle, groups):
    words = ("evaluate", bundle, "-m", "accuracy", "--format", "value", "-q")
    result = evaluated(run, bundle, "-m", "accuracy", "--per-group")["results"][0]
    whole = result["metrics"]["accuracy"]["value"]
    lowest = min(group["metrics"]["accuracy"]["value"] for group in result["per_group"])
    assert lowest < whole
    done = run(*words, groups, "--min", f"accuracy={(lowest + whole) / 2}")
    assert (done.code, float(done.out)) == (5, whole)
    assert "limit crossed: m.h5:test, uncalibrated, group " in done.line
    assert run(*words, "--min", f"accuracy={(lowest + whole) / 2}").code == 0


def test_results_come_in_every_format(run, fitted):
    words = ("evaluate", fitted, "-c", "m.ts.json")
    whole = json.loads(run(*words, "--format", "json").out)
    assert whole == json.loads(run(*words, "--json").out)
    lines = list(csv.DictReader(run(*words, "--format", "csv", "-q").out.splitlines()))
    for line, result in zip(lines, whole["results"], strict=True):
        assert (line["calibrator"], line["method"]) == (
            result["calibrator"] or "uncalibrated",
            result["method"],
        )
        ece, nll = result["metrics"]["ece"], result["metrics"]["nll"]
        assert [float(line[f]) for f in ("ece", "ece.p", "ece.null")] == [
            ece[f] for f in ("value", "p_value", "null_mean")
        ]
        assert [float(line["nll.lo"]), float(line["nll.hi"])] == nll["ci"]
    markdown = run(*words, "--format", "markdown").out.splitlines()
    assert (
        markdown[0].startswith("| calibrator | accuracy | nll |") and len(markdown) == 4
    )
    assert r"m.ts.json & " in run(*words, "--format", "latex").out
    assert run(*words, "--format", "csv", "--per-class").code == 2
    assert run(*words, "--format", "csv", "--json").code == 2


def test_model_index_is_yaml_whatever_the_names(run, tmp_path):
    """Checked once against PyYAML 6.0.3 and huggingface_hub 2.4.0; here by its lines, whose quotes JSON reads too."""
    name = 'é"b\u2028: #&\x1b[1m.h5'
    with h5py.File(tmp_path / name, "w") as file:
        file["logits"], file["labels"] = LOGITS, LABELS
    lines = run(
        "evaluate", name, "-m", "nll", "-m", "ece", "--format", "model-index"
    ).out.splitlines()
    assert lines[1] == "model-index:"
    quoted = [line.split(": ", 1)[1] for line in lines if line.endswith('"')]
    assert 'é"b\\u2028: #&\\x1b[1m.h5' in [json.loads(text) for text in quoted]
    assert any('é\\"b' in line for line in lines), "letters stay letters"
    assert "é" in run("evaluate", name, "-m", "nll", "--json").out
    values = [
        float(line.split(": ")[1]) for line in lines if line.startswith("      value: ")
    ]
    assert values == [
        score["value"]
        for score in evaluated(run, name, "-m", "nll", "-m", "ece")["results"][0][
            "metrics"
        ].values()
    ]


def test_the_signature_is_one_line_to_quote(run, fitted):
    done = run("evaluate", fitted, "-c", "m.ts.json", "--signature")
    last = done.out.splitlines()[-1]
    ece = evaluated(run, fitted)["results"][0]["metrics"]["ece"]
    assert last.startswith(
        f"signature: m.h5:test (600 rows, 4 classes): ece {ece['value']:.4f} (expected "
    )
    assert "norm:1 bins:15 scheme:width closed:right label:top" in last
    with_signature = run("evaluate", fitted, "--signature", "--json", "-m", "NLL")
    assert (
        with_signature.err.startswith("signature: ")
        and "nll" in with_signature.err
        and json.loads(with_signature.out)
    )


def test_full_has_every_test(run, fitted):
    whole = evaluated(run, fitted, "--full", "--resamples", "99")
    metrics = whole["results"][0]["metrics"]
    for name in (
        "ks",
        "kuiper",
        "tcal",
        "spiegelhalter",
        "ece_sweep",
        "top2_gap",
        "auroc",
        "bound_repaired",
    ):
        assert metrics[name]["value"] is not None, name
    assert metrics["top5_gap"]["value"] is None
    assert "only 4 classes" in metrics["top5_gap"]["reason"]


# ---- report


def test_verdicts_follow_their_rules(run, fitted, tmp_path):
    before, after = evaluated(run, fitted, "-c", "m.ts.json", "--decomposition")[
        "results"
    ]
    report = before["report"]
    gap = report["overconfidence"]["value"]
    assert report["verdict_kind"] == "overconfident"
    assert f" right ({100 * gap:+.1f} points [" in report["verdict"]
    assert report["direction"]["gap"] == gap
    assert report["direction"]["gap_z"] > 3
    split = report["split"]["nll"]
    assert split["refinement"] + split["calibration"] == pytest.approx(split["value"])
    assert split["calibration"] > 5 * split["calibration_se"]
    gain = next(message for message in report["messages"] if message["kind"] == "gain")
    assert gain["nll"] == split["calibration"]
    effect = after["report"]["messages"][-1]
    assert effect["kind"] == "effect"
    assert effect["text"].startswith("reduces NLL by 0.1")
    assert not after["report"]["findings"]
    with h5py.File(tmp_path / "true.h5", "w") as file:
        file["logits"], file["labels"] = LOGITS, LABELS
    report = evaluated(run, "true.h5")["results"][0]["report"]
    assert report["verdict_kind"] == "calibrated"
    assert report["verdict"].startswith("calibrated: ")
    assert report["messages"] == []


def test_a_bias_is_found_in_the_classes(run, tmp_path):
    """Calibrated logits with class 0 favoured: a bias, not a scale."""
    rng = np.random.RandomState(5)
    z = rng.normal(size=(3000, 3)) * 3
    y = draw_labels(softmax(z), rng)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["logits"], file["labels"] = z + np.array([1.0, 0, -1.0]), y
    report = evaluated(run, "b.h5", "--decomposition")["results"][0]["report"]
    split = report["split"]
    assert split["method"] == "svs"
    of_temperature = split["temperature"]["nll"]["calibration"]
    assert of_temperature < 0.5 * split["nll"]["calibration"]
    assert report["classwise"]["n_significant"] >= 2
    assert "classes" in [message["kind"] for message in report["messages"]]
    assert report["next"] == "calcli run b.h5"


def test_headlines_name_the_version_where_there_are_several(run, fitted):
    assert run("evaluate", fitted).out.startswith("m.h5:test: overconfident: ")
    lines = run("evaluate", fitted, "--calibrator", "m.ts.json", "-q").out.splitlines()
    for line, name in zip(lines, ("ts", "uncalibrated"), strict=True):
        assert line.startswith(f"m.h5:test, {name}: ")


def test_the_table_has_a_row_per_version(run, fitted):
    """Headlines of the calibrator and of the scores before it, its findings, the table, the next command."""
    results = evaluated(run, fitted, "-c", "m.ts.json")["results"]
    done = run("evaluate", fitted, "-c", "m.ts.json")
    assert done.code == 0
    headlines, table, step = done.out.split("\n\n")
    assert headlines.startswith("m.h5:test, ts: ")
    assert "\nm.h5:test, uncalibrated: overconfident: " in headlines
    head, *rows = table.splitlines()
    assert head.split()[:5] == ["600", "samples", "accuracy", "confidence", "ECE"]
    names = ["accuracy", "mean_confidence", "ece"]
    for row, name, result in zip(rows, ("uncalibrated", "ts"), results, strict=False):
        expected = [
            f"{result['metrics'][metric_name]['value']:.4f}" for metric_name in names
        ]
        cells = [cell.rstrip("*") for cell in row.split()]
        assert cells[:4] == [name, *expected]
    change = results[1]["paired"]["differences"]["nll"]
    low, high = change["ci"]
    assert f"NLL {change['value']:+.4f} [{low:.4f}, {high:.4f}]" in rows[-1]
    assert step == "next: calcli apply m.ts.json NEW.h5 -o calibrated.h5\n"
    assert run("evaluate", fitted, "-c", "m.ts.json", "-q").err == ""


def test_per_class_and_per_group(run, fitted):
    result = evaluated(run, fitted, "--per-class", "--per-group", "--resamples", "50")[
        "results"
    ][0]
    assert sorted(line["name"] for line in result["per_class"]) == ["w", "x", "y", "z"]
    p_values = [line["p_value"] for line in result["per_class"]]
    # what is most significantly miscalibrated comes first
    assert p_values == sorted(p_values)
    assert sum(line["n"] for line in result["per_class"]) == 600
    for line in result["per_class"]:
        c = line["class"]
        p = softmax((2 * LOGITS[600:]).astype(np.float32).astype(float))[:, c]
        assert line["gap"] == pytest.approx(
            p.mean() - (LABELS[600:] == c).mean(), abs=1e-12
        )
    assert sorted((line["group"], line["n"]) for line in result["per_group"]) == [
        ("a", 300),
        ("b", 300),
    ]
    halves = [line["metrics"]["nll"]["value"] for line in result["per_group"]]
    assert np.mean(halves) == pytest.approx(result["metrics"]["nll"]["value"])
    assert "by group" in run("evaluate", fitted, "--per-group", "--per-class").out
    assert "no dataset 'site'" in run("evaluate", fitted, "--group-by", "site").line


def test_paired_differences_and_baseline(run, fitted):
    results = evaluated(run, fitted, "-c", "m.ts.json", "-c", "m.ec.json")["results"]
    assert "paired" not in results[0]
    d = results[1]["paired"]["differences"]["nll"]
    assert d["value"] == pytest.approx(
        results[1]["metrics"]["nll"]["value"] - results[0]["metrics"]["nll"]["value"]
    )
    assert d["ci"][1] < 0
    assert d["p_value"] < 1e-3
    assert results[1]["paired"]["differences"]["accuracy"] == {
        **results[1]["paired"]["differences"]["accuracy"],
        "value": 0.0,
        "p_value": 1.0,
    }
    other = evaluated(run, fitted, "-c", "m.ec.json", "--baseline", "m.ts.json")[
        "results"
    ]
    assert other[1]["paired"]["baseline"] == "m.ts.json"
    assert other[1]["paired"]["differences"]["nll"]["value"] == pytest.approx(
        results[2]["metrics"]["nll"]["value"] - results[1]["metrics"]["nll"]["value"]
    )
    text = run(
        "evaluate", fitted, "-c", "m.ec.json", "--baseline", "m.ts.json", "-m", "nll"
    ).out
    assert "minus m.ts.json" in text
    assert "accuracy" not in text


def test_several_bundles_are_ranked(run, fitted):
    whole = evaluated(
        run,
        fitted + ":cal",
        fitted + ":test",
        "-c",
        "m.ts.json",
        "-c",
        "m.ec.json",
        "-m",
        "nll",
    )
    assert len(whole["results"]) == 6
    ranks = whole["ranks"]
    assert ranks["n_bundles"] == 2
    nll = ranks["metrics"]["nll"]
    assert nll["ranks"][0] == 3.0
    text = run(
        "evaluate",
        fitted + ":cal",
        fitted + ":test",
        "-c",
        "m.ts.json",
        "-c",
        "m.ec.json",
        "-m",
        "nll",
    ).out
    said, head, line = text.rstrip().splitlines()[-3:]
    assert said == "average ranks over 2 bundles (1 is best), Friedman test"
    assert head.split() == [
        "metric",
        "uncalibrated",
        "m.ts.json",
        "m.ec.json",
        "chi2",
        "p",
        "p",
        "(Iman-Davenport)",
    ]
    p, f_p = (f"{nll[key]:.3f}" for key in ("p_value", "iman_davenport_p_value"))
    assert line.split() == [
        "nll",
        *(f"{rank:.2f}" for rank in nll["ranks"]),
        f"{nll['chi2']:.2f}",
        p,
        f_p,
    ]
    assert (
        "average ranks"
        not in run("evaluate", fitted, "-c", "m.ts.json", "-m", "nll").out
    )
    starred = evaluated(run, "m.h5:*", "-m", "nll")["results"]
    assert [r["bundle"] for r in starred] == ["m.h5:cal", "m.h5:test"]
    template = evaluated(run, "m.h5:*", "-c", "{stem}.ts.json", "-m", "nll")["results"]
    assert [r["calibrator"] for r in template] == [None, "m.ts.json"] * 2


def test_limits_that_hold(run, fitted):
    words = [
        "--max",
        "nll_increase=0",
        "--max",
        "ece=0.2",
        "--min",
        "accuracy=0.3",
        "--max",
        "ece.hi=0.3",
    ]
    done = run(
        "evaluate",
        fitted,
        "-c",
        "m.ts.json",
        "-q",
        *words,
        "--junit",
        "gate.xml",
        "--json",
    )
    assert done.code == 0
    limits = json.loads(done.out)["limits"]
    assert [entry["crossed"] for entry in limits] == [False] * 4
    assert limits[0]["value"] < 0
    suite = ET.parse("gate.xml").getroot()
    assert suite.attrib["failures"] == "0"
    assert len(suite.findall("testcase")) == 4
    # exists
    assert run("evaluate", fitted, "--max", "ece=1", "--junit", "gate.xml").code == 2


def test_crossed_limits_exit_5_and_say_which(run, fitted):
    done = run(
        "evaluate",
        fitted,
        "-q",
        "-m",
        "ece",
        "--max",
        "ece=0.01",
        "--junit",
        "gate.xml",
    )
    assert done.code == 5
    assert "limit crossed: m.h5:test, uncalibrated: ece is 0.1" in done.line
    assert "--max ece=0.01" in done.line
    failure = ET.parse("gate.xml").getroot()[0][0]
    assert "limit --max ece=0.01" in failure.attrib["message"]
    # The calibrators are held to the limits, not the scores they mend.
    assert (
        run(
            "evaluate", fitted, "-c", "m.ts.json", "-q", "--max", "mean_confidence=0.7"
        ).code
        == 0
    )
    done = run(
        "evaluate",
        fitted,
        "-c",
        "m.ts.json",
        "-q",
        "--max",
        "accuracy_drop=-0.5",
        "--max",
        "nll_increase.hi=-9",
    )
    assert done.code == 5
    assert len(done.err.splitlines()) == 2
    # An undefined value does not open a gate.
    assert (
        run("evaluate", fitted, "-q", "-m", "top5_gap", "--max", "top5_gap=1").code == 5
    )


def test_a_limit_applies_to_every_group_too(run):
    """A group that was .3 overconfident was hidden by one as underconfident: --per-group --max gap=0.1 held."""
    rng = np.random.default_rng(2)
    confidence = np.full(800, 0.7)
    np.savez(
        "g.npz",
        confidence=confidence,
        correct=np.concatenate([rng.random(400) < 0.4, np.ones(400)]).astype(int),
        group=np.repeat(["worse", "better"], 400),
    )
    words = ["evaluate", "g.npz", "-m", "gap", "--max", "gap=0.1"]
    assert run(*words, "-q").code == 0
    done = run(*words, "--per-group", "--json", "--junit", "gate.xml", "-q")
    assert done.code == 5 and "uncalibrated, group worse: gap is 0.2825" in done.line
    limits = json.loads(done.out)["limits"]
    assert {limit.get("group"): limit["crossed"] for limit in limits} == {
        None: False,
        "worse": True,
        "better": False,
    }
    cases = ET.parse("gate.xml").getroot()
    failed = {
        case.attrib["classname"].partition(", ")[2]: len(case)
        for case in cases.iter("testcase")
    }
    assert failed == {"": 0, "group worse": 1, "group better": 0}


def test_a_limit_on_the_size_of_a_gap(run):
    """--max gap=0.02 holds of a gap of -.3 and says so; gap.abs is without its sign."""
    np.savez("u.npz", confidence=np.full(400, 0.7), correct=np.ones(400, dtype=int))
    done = run("evaluate", "u.npz", "-m", "gap", "--max", "gap=0.02")
    assert (
        done.code == 0
        and "its absolute value is above that: take --max gap.abs=0.02" in done.err
    )
    done = run("evaluate", "u.npz", "-m", "gap", "--max", "gap.abs=0.02", "-q")
    assert done.code == 5 and "gap.abs is 0.3, limit --max gap.abs=0.02" in done.line
    assert "see below" not in run("evaluate", "--help").out


@pytest.mark.parametrize(
    ("limit", "part"),
    [
        ("ece", "NAME=NUMBER"),
        ("ece=x", "NAME=NUMBER"),
        ("ecee=1", "did you mean ece"),
        ("ece.top=1", "hi, lo"),
        ("nll_increase=0", "add --calibrator"),
    ],
)
def test_bad_limits_are_usage_errors(run, bundle, limit, part):
    done = run("evaluate", bundle, "--max", limit)
    assert done.code == 2
    assert part in done.line


def test_limits_name_their_metric():
    [limit] = limits(["brier_top_increase.hi=0"], [])
    assert limit.metric == "brier_top"
    assert limits([], ["top2_gap.lo=-1"])[0].metric == "top2_gap"
    assert [
        limit.name for limit in limits(["Log-Loss_Increase.HI=0", "ACE=1"], ["Acc=0"])
    ] == [
        "nll_increase.hi",
        "ece_mass",
        "accuracy",
    ]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["-m", "ecc"], "did you mean"),
        (["--compat", "torchmetric"], "torchmetrics"),
        (["--norm", "0.5"], "max"),
        (["--format", "value"], "--metric NAME"),
        (["--json", "--format", "jsonl"], "exclude"),
        (["--json", "--format", "csv"], "exclude"),
        (["-m", "nll", "--format", "value", "--json"], "exclude"),
        (["--junit", "a.xml"], "--max"),
        (["-c", "-", "--baseline", "-"], "read once"),
    ],
)
def test_usage_errors(run, bundle, words, part):
    done = run("evaluate", bundle, *words)
    assert done.code == 2
    assert part in done.line


# ---- warnings and bad input


def test_leak_and_shift_and_thin_bins_are_told(run, fitted, tmp_path):
    in_sample = "m.h5:cal", "-c", "m.ts.json"
    done = run("evaluate", *in_sample, "--json")
    assert "fitted on these very rows" in done.err
    assert "fitted on these very rows" in " ".join(
        json.loads(done.out)["results"][1]["warnings"]
    )
    assert "rows in 15 bins" in done.err
    assert "rows in 15 bins" not in run("evaluate", "m.h5:cal", "-m", "nll").err
    assert "fitted on these very rows" in run("evaluate", *in_sample).out
    held_out = run("evaluate", "m.h5:test", "-c", "m.ts.json", "--full")
    assert "fitted on these very rows" not in held_out.out + held_out.err
    few = np.flatnonzero(LABELS[600:] < 2)
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["logits"], file["labels"] = LOGITS[600:][few], LABELS[600:][few]
    assert "label frequencies" in run("evaluate", "s.h5", "-c", "m.ts.json").out


def test_wrong_calibrator_and_missing_files(run, fitted, tmp_path):
    with h5py.File(tmp_path / "k3.h5", "w") as file:
        file["logits"], file["labels"] = LOGITS[:50, :3], LABELS[:50] % 3
    done = run("evaluate", "k3.h5", "-c", "m.ts.json")
    assert done.code == 3
    assert "4 classes" in done.line
    done = run("evaluate", "m.h5:test", "none.h5", "k3.h5", "-m", "ece", "--json", "-q")
    assert done.code == 3
    # the others are evaluated all the same
    assert len(json.loads(done.out)["results"]) == 2
    assert run("evaluate", "m.h5:[q]*").code == 3


@pytest.mark.parametrize(
    "case",
    ["one row", "one class", "all equal", "two rows", "all wrong", "weight on one row"],
)
def test_degenerate_bundles_are_reported_not_crashed(run, tmp_path, case):
    z, y = LOGITS[:60].copy(), LABELS[:60].copy()
    if case == "one row":
        z, y = z[:1], y[:1]
    elif case == "two rows":
        z, y = z[:2], y[:2]
    elif case == "one class":
        y[:] = 1
    elif case == "all equal":
        z[:] = [1.0, 0, 0, 0]
    elif case == "all wrong":
        y = z.argmin(axis=1)
    z = np.tile(z, (2, 1)) if case == "weight on one row" else z
    y = np.resize(y, len(z))
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["logits"], file["labels"] = z, y
        if case == "weight on one row":  # and rows enough for the cross-fitted split
            file["weights"] = 1.0 * (np.arange(len(z)) == 7)
    with np.errstate(all="raise", under="ignore"):
        done = run(
            "evaluate", "d.h5", "--full", "--json", "--per-class", "--resamples", "50"
        )
        text = run("evaluate", "d.h5", "--resamples", "50")
    assert done.code == 0, done.err
    assert text.code == 0, text.err
    metrics = json.loads(done.out)["results"][0]["metrics"]
    for entry in metrics.values():
        assert entry["value"] is not None or entry["reason"]
    assert (metrics["tce2"]["value"] is None) is (
        case in ("one row", "two rows", "weight on one row")
    )
    assert (metrics["ece_debiased"]["value"] is None) is (
        case in ("one row", "two rows", "weight on one row")
    )


@pytest.mark.parametrize("kind", ["binary logits", "binary probabilities", "weighted"])
def test_binary_and_weighted_bundles(run, tmp_path, kind):
    rng = np.random.RandomState(4)
    z = rng.normal(size=400) * 2
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["labels"] = (rng.random_sample(400) < 1 / (1 + np.exp(-z))).astype(int)
        if kind == "binary probabilities":
            file["probs"] = 1 / (1 + np.exp(-z[:, None]))
        else:
            file["logits"] = z
        if kind == "weighted":
            file["weights"] = rng.random_sample(400)
    done = run("evaluate", "b.h5", "--full", "--per-class", "--resamples", "99")
    assert done.code == 0, done.err
    assert done.out.startswith("b.h5: too few samples: the gap is between ")
    result = evaluated(run, "b.h5")["results"][0]
    assert result["n_classes"] == 2
    weighted = kind == "weighted"
    assert result["report"]["data"]["weighted"] is weighted
    # the interval's law is that of counts
    assert ("ci" in result["metrics"]["tce2"]) is not weighted


# ---- parts


def test_folds_are_stratified():
    y = np.repeat([0, 1, 2], [50, 25, 3])
    rows = ArrayRows(np.random.default_rng(0).normal(size=(78, 3)), y)
    fold = stratified_folds(rows, y, 5, 0)
    for c, most in ((0, 10), (1, 5), (2, 1)):
        assert np.bincount(fold[y == c], minlength=5).max() == most


def test_split_is_never_an_overestimate_for_calibrated_scores():
    """Calibrated logits: the calibration part is 0 or slightly below, within chance (2 standard errors)."""
    rows = ArrayRows(LOGITS, LABELS)
    split = decomposed_loss(rows, None, collect(rows), seed=0)
    assert split.nll.calibration <= 2 * split.nll.se
    assert split.temperature_nll.calibration <= 2 * split.temperature_nll.se
    assert Context().seed == 0


# ---- real files


def test_published_vlm_errors_in_one_command(tmp_path):
    """VLM-Uncertainty-Bench publishes the 15-bin ECE of 26 models on MMBench: equal to 1e-6."""
    source = SHARED_DATA / "vlm_mmbench.npz"
    if not source.exists():
        pytest.skip("real logits are not here: vlm_mmbench.npz")
    made = process(
        "extract", source, "--scores", "*", "-o", "vlm.h5", "-q", cwd=tmp_path
    )
    assert made.code == 0, made.err
    done = process(
        "evaluate", "vlm.h5:*", "--metric", "ece", "--json", "-q", cwd=tmp_path
    )
    assert done.code == 0, done.err
    published = json.loads((SHARED_DATA / "vlm_mmbench_published.json").read_text())[
        "ece"
    ]
    ece_of = {
        r["bundle"].removeprefix("vlm.h5:logits_"): r["metrics"]["ece"]["value"]
        for r in json.loads(done.out)["results"]
    }
    assert ece_of.keys() == published.keys()
    for model, value in published.items():
        assert ece_of[model] == pytest.approx(value, abs=1e-6), model


def test_values_before_rows_are_divided_by_their_sums(run, bundle):
    assert (
        run(
            "fit", "--method", "hb", "--set", "mode=ova", bundle, "-o", "hb.json", "-q"
        ).code
        == 0
    )
    raw, ova = evaluated(
        run,
        bundle,
        "-c",
        "hb.json",
        "-m",
        "brier_mean",
        "-m",
        "marginal2_raw",
        "-m",
        "mse_raw",
    )["results"]
    for name in ("marginal2_raw", "mse_raw"):
        assert raw["metrics"][name]["row_sum_max"] == pytest.approx(1.0, abs=1e-6)
        assert (
            ova["metrics"][name]["row_sum_min"]
            < 0.9
            < 1.1
            < ova["metrics"][name]["row_sum_max"]
        )
    # Scores that sum to one are what they are: the squared difference is the Brier score over the classes.
    assert raw["metrics"]["mse_raw"]["value"] == pytest.approx(
        raw["metrics"]["brier_mean"]["value"], rel=1e-6
    )
    assert ova["metrics"]["mse_raw"]["value"] != pytest.approx(
        ova["metrics"]["brier_mean"]["value"], rel=1e-3
    )
    assert run("apply", "hb.json", bundle, "-o", "out.h5", "-q").code == 0
    stored = run("evaluate", "out.h5", "-m", "mse_raw")
    assert stored.code == 0 and "the values before that are gone" in stored.err


def test_loads_no_heavy_package(tmp_path):
    """Nor SciPy, which only paired comparisons need, as of calibrators and of groups."""
    np.savez(tmp_path / "m.npz", logits=2 * LOGITS, labels=LABELS)
    code = (
        "import sys, calcli.cli.main as m\n"
        "m.run(['evaluate', 'm.npz', '--no-decomposition', '-q'])\n"
        "bad = {'torch', 'scipy', 'pandas', 'matplotlib', 'rich'} & {n.split('.')[0] for n in sys.modules}\n"
        "print(bad, file=sys.stderr); sys.exit(len(bad))"
    )
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("options", [(), ("--full",), ("--full", "--norm", "2")])
def test_a_report_on_all_classes_pooled_leaves_out_what_pools_none(
    run, fitted, options
):
    """No option that nobody typed is complained of."""
    metrics = evaluated(run, fitted, "--label", "all", *options)["results"][0][
        "metrics"
    ]
    assert "ece" in metrics
    assert "ece_mass" not in metrics
    asked = run("evaluate", fitted, "--label", "all", "-m", "ece_mass")
    assert asked.code == 2
    assert "pools bins of equal width, not --scheme mass or ece_mass" in asked.line
