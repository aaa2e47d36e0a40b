"""Sentences and numbers that were once false, each on the rows that showed it."""

import html
import json
import re

import h5py
import numpy as np
import pytest
from metric_cases import draw_labels, softmax

from calcli.numerics import log_softmax


def written(name, z, y):
    """The name of a file of logits and labels."""
    with h5py.File(name, "w") as file:
        file["logits"], file["labels"] = z, y
    return name


def test_the_nll_that_fit_and_evaluate_print_is_exact_beyond_the_floor_of_stored_zeros(run):
    """30 of 3000 labels have 1e-13 to 1e-20: a floor of 1e-12 took .15 off the NLL, as if a temperature gained less."""
    rng = np.random.RandomState(11)
    z = rng.normal(size=(3000, 5)) * 2.0
    y = draw_labels(softmax(z), rng)
    z = 3.0 * z
    far = np.argsort(z[np.arange(3000), y] - z.max(axis=1))[:30]
    z[far, y[far]] -= 30.0
    exact = float(-log_softmax(z)[np.arange(3000), y].mean())
    floored = float(-np.log(np.maximum(softmax(z)[np.arange(3000), y], 1e-12)).mean())
    assert exact - floored > 0.1
    written("m.h5", z, y)
    told = run("fit", "m.h5", "-m", "ts").err
    before, after = (float(re.search(rf"{word} +[\d.]+ +([\d.]+)", told)[1]) for word in ("before", "after"))
    assert before == pytest.approx(exact, abs=5e-5) and after < before
    assert float(run("evaluate", "m.h5", "--metric", "nll", "--value-only").out) == pytest.approx(exact, rel=1e-12)


def test_no_share_of_a_loss_is_told_that_recalibration_only_raises(run):
    """Rows so sure that svs adds 1e-4 of NLL to 3e-8: "-460269.8 % would be removed" was printed."""
    rng = np.random.RandomState(0)
    y = rng.randint(3, size=2000)
    z = 18.0 * np.eye(3)[y] + 0.3 * rng.normal(size=(2000, 3))
    text = run("evaluate", written("m.h5", z, y), "--split", "--full").out
    evidence = text.partition("evidence: ")[2]
    assert "NLL" in evidence and "no calibration loss detected" in evidence
    assert not re.search(r"\d%(?! interval)", evidence) and "could reduce" not in text
    split = json.loads(run("evaluate", "m.h5", "--split", "--json", "-q").out)["results"][0]["report"]["split"]
    assert [split[loss]["calibration_share"] for loss in ("nll", "brier")] == [0.0, 0.0]


def test_the_p_value_printed_for_a_class_is_the_one_that_decides_its_star(run):
    """In the last set one adjusted p-value is below .05 and the verdict finds nothing: .031 stood without a star."""
    stars = 0
    for seed, scale in ((0, 1.0), (1, 1.5), (21, 1.0)):
        rng = np.random.default_rng([38, seed])
        z = rng.normal(size=(1000, 10)) * 3
        y = np.minimum((softmax(z).cumsum(1) < rng.random((1000, 1))).sum(1), 9)
        bias = 0.8 * (scale > 1) * (np.arange(10) == 0)
        text = run("evaluate", written("m.h5", z * scale + bias, y), "--per-class", "--no-split").out
        lines = re.findall(r"^ +\d +\d+ +\d+ +[\d.]+ +[\d.]+ +[+-][\d.]+(\*?) +(<? ?[\d.]+)", text, re.MULTILINE)
        assert len(lines) == 10
        for star, p in lines:
            assert (p.startswith("<") or float(p) <= 0.05) == bool(star)
        stars += sum(star == "*" for star, _ in lines)
        page = "report", "m.h5", "-o", f"{seed}.html", "-q"
        assert run(*page).code == 0
        with open(f"{seed}.html", encoding="utf-8") as file:
            words = html.unescape(file.read())
        assert "predicted classes" in words and not re.search(r"of 10 classes (is|are) off", words)
    assert stars


def test_no_interval_on_the_page_is_rounded_to_a_bound(run):
    """Confidence .998, right in .9985: "99.9 %, 100 to 100" stood in the table of bins."""
    rng = np.random.default_rng(8)
    right, rest = rng.random(5000) < 0.9985, np.log(0.998 / (0.002 / 3))
    z = np.zeros((5000, 4))
    z[:, 0] = rest
    assert run("report", written("m.h5", z, np.where(right, 0, 1)), "-o", "p.html", "-q").code == 0
    with open("p.html", encoding="utf-8") as file:
        words = " ".join(
            html.unescape(re.sub(r"<script.*?</script>|<[^>]+>", " ", file.read(), flags=re.DOTALL)).split()
        )
    accuracy = float(right.mean())
    assert 0.997 < accuracy < 1.0 and "99.8%" in words
    assert not re.search(r"\d[1-9.]\d*%? to 100(\.0)?%?\b|100(\.0)?%? to 100", words)
