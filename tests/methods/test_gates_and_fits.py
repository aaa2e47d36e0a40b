"""What gates and fits say, so that noise is no finding, and a figure of the fit's own rows none of others."""

import json
import math
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from metric_cases import draw_labels, softmax

import calcli
from calcli.evaluation.metric_limits import check, limits


@pytest.fixture
def run(run):
    rng = np.random.RandomState(0)
    with h5py.File("m.h5", "w") as file:
        for name, n in (("cal", 400), ("my_test", 800)):
            z = rng.normal(size=(n, 4)) * 2
            file[f"{name}/logits"], file[f"{name}/labels"] = (
                z,
                draw_labels(softmax(z), rng),
            )
    return run


def test_a_limit_that_noise_decides_says_how_often(run):
    """The share of the draws that give the p-value: half beyond their median, a twentieth beyond their q95."""
    score = json.loads(run("evaluate", "m.h5:my_test", "-m", "ece", "--json").out)[
        "results"
    ][0]["metrics"]["ece"]
    limit = round(score["null_mean"], 4)  # these draws are nearly symmetric
    done = run(
        "evaluate", "m.h5:my_test", "-m", "ece", "--json", "--max", f"ece={limit}"
    )
    output = json.loads(done.out)["limits"][0]
    assert (
        output["false_alarm"] == pytest.approx(0.5, abs=0.05)
        and output["null_q95"] == score["null_q95"]
    )
    said = re.search(
        r"about (\d+)% of samples of this size: take --min ece.p=0.05, or a limit above",
        done.err,
    )
    assert int(said[1]) == round(100 * output["false_alarm"])
    at_q95 = run(
        "evaluate",
        "m.h5:my_test",
        "-m",
        "ece",
        "--json",
        "--max",
        f"ece={score['null_q95']}",
    )
    assert json.loads(at_q95.out)["limits"][0]["false_alarm"] == pytest.approx(
        0.05, abs=1e-9
    )
    for more in (["--max", "ece=0.3"], ["--min", "ece.p=0.001"], ["--max", "nll=9"]):
        assert (
            "false_alarm"
            not in json.loads(run("evaluate", "m.h5:my_test", "--json", *more).out)[
                "limits"
            ][0]
        )


@pytest.mark.parametrize("name", ["ks", "kuiper"])
def test_a_limit_on_an_error_with_a_formula_for_its_law_says_so_too(run, name):
    """The share of 4000 sets of outcomes drawn from the confidences whose statistic is beyond the limit."""
    with h5py.File("m.h5") as file:
        p = np.sort(softmax(file["my_test/logits"][()]).max(axis=1))
    rng = np.random.default_rng(0)
    walk = np.cumsum(p - (rng.random((4000, len(p))) < p), axis=1) / len(p)
    low, high = np.minimum(walk.min(axis=1), 0), np.maximum(walk.max(axis=1), 0)
    drawn = np.maximum(-low, high) if name == "ks" else high - low
    limit = round(float(np.quantile(drawn, 0.8)), 4)
    done = run(
        "evaluate", "m.h5:my_test", "-m", name, "--json", "--max", f"{name}={limit}"
    )
    output = json.loads(done.out)["limits"][0]
    # Brownian motion for a walk of 800 steps, whose highest point lies a little lower
    assert output["false_alarm"] == pytest.approx((drawn > limit).mean(), abs=0.05)
    assert (
        "a calibrated model would cross it in about"
        in run("evaluate", "m.h5:my_test", "--max", f"{name}={limit}").err
    )


@pytest.mark.parametrize("q", [pytest.param(0.5, marks=pytest.mark.slow), 0.9])
@pytest.mark.parametrize(
    "name",
    [
        "ece",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ["ece_mass", "mce", "smece", "tce2", "tce2_plugin", "gap"]
        ),
    ],
)
def test_a_limit_tells_the_chance_that_calibrated_rows_cross_it(name, q):
    """Beside 300 sets of labels drawn from the same scores; 4 standard errors of both shares, at most 200 draws."""
    rng = np.random.RandomState(3)
    z = rng.normal(size=(500, 4)) * 2
    values = [
        calcli.evaluate(z, draw_labels(softmax(z), rng), metrics=[name])
        .results[0]
        .scores[name]
        .value
        for _ in range(300)
    ]
    limit = float(np.quantile(values, q))
    scored = calcli.evaluate(z, draw_labels(softmax(z), rng), metrics=[name]).results[0]
    (outcome,) = check(limits([f"{name}={limit}"], []), scored, None)
    share = np.mean(np.array(values) > limit)
    assert outcome.false_alarm == pytest.approx(
        share, abs=4 * math.sqrt(share * (1 - share) * (1 / 300 + 1 / 200))
    )


def test_a_limit_that_noise_crosses_nearly_always_is_not_rounded_to_certainty(run):
    said = run("evaluate", "m.h5:my_test", "-m", "ece", "--max", "ece=1e-4").err
    assert (
        "would cross it in over 99% of samples of this size" in said
        and "100%" not in said
    )


@pytest.mark.parametrize("name", ["my_test", "holdout", "Held-Out", "test2"])
def test_a_pattern_takes_no_held_out_rows_for_a_fit(run, name):
    with h5py.File("m.h5", "a") as file:
        file.move("my_test", name)
    refused = run("fit", "-m", "ts", "m.h5:*")
    assert (
        refused.code == 2
        and f"m.h5:{name}: a pattern takes it for the fit" in refused.line
    )
    assert run("fit", "-m", "ts", "m.h5:cal", f"m.h5:{name}", "-q").code == 0
    assert run("fit", "-m", "ts", "m.h5:c*", "-q", "--force").code == 0


def test_names_that_only_contain_the_letters_are_taken(run):
    with h5py.File("m.h5", "a") as file:
        file.move("my_test", "latest")
    assert run("fit", "-m", "ts", "m.h5:*", "-q").code == 0


@pytest.mark.parametrize("method", ["ir", "hb"])
def test_an_error_that_is_zero_by_construction_is_said_to_be_so(run, method):
    errors = run("fit", "-m", method, "m.h5:cal").err
    assert "-> 0 by construction" in errors and "e-1" not in errors
    assert "by construction" not in run("fit", "-m", "ts", "m.h5:cal").err


def test_an_average_names_its_members_and_says_whether_predictions_change(run):
    """In one line; the candidates behind it are printed with --full."""
    fitted, held_out = run("fit", "-m", "auto", "m.h5:cal").err.splitlines()[:2]
    artifact = json.loads(Path("m.auto.json").read_text())
    largest = max(member["weight"] for member in artifact["params"]["members"])
    assert fitted.startswith(f"Fitted auto: {largest:.2f} ") or "others" in fitted
    assert len(fitted) <= 100 and "predictions" in fitted
    assert held_out.startswith("Held out: NLL ") and ", ECE " in held_out
    assert "standard error" not in fitted + held_out
    full = run("fit", "-m", "auto", "m.h5:cal", "--full", "--force").err
    assert 0 < full.index("held-out nll") < full.rindex("in-sample")
