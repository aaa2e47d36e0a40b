"""Probabilities stored as 0: forests, trees, rounded files."""

import json
from pathlib import Path

import numpy as np
import pytest
from synthetic import fit, predict

from calcli.rows import ArrayRows


def votes(n=800, trees=7, k=4, seed=0):
    """Shares of trees that vote for a class, which are often 0, and labels drawn from what the trees draw from. Shares
    of seven trees have no decimals that would say how large a 0 may be."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 0.4), n)
    y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(0, k - 1)
    return np.stack([rng.multinomial(trees, row) for row in p]) / trees, y


def test_zeros_become_half_of_the_smallest_by_hand():
    """Smallest positive number .1: the floor is .05, and rows are divided by their new sums, 1.1, 1.05 and 1."""
    p = np.array([[0.9, 0.1, 0, 0], [0.5, 0.3, 0.2, 0], [0.4, 0.2, 0.2, 0.2]])
    fitted = fit("floor", ArrayRows(p, np.array([0, 1, 2]), "probs"))
    assert fitted.calibrator.floor == pytest.approx(0.05, rel=1e-12)
    expected = np.array(
        [[0.9, 0.1, 0.05, 0.05], [0.5, 0.3, 0.2, 0.05], [0.4, 0.2, 0.2, 0.2]]
    )
    expected /= np.array([[1.1], [1.05], [1.0]])
    again = np.exp(predict(fitted.calibrator, ArrayRows(p, None, "probs"))[0])
    assert again == pytest.approx(expected, rel=1e-12)


def test_the_floor_is_below_every_largest_probability():
    """A row's largest probability is at least 1/k: with one vote a row the floor is 1/(2k), not half a vote."""
    p = np.eye(5)[[0, 1, 2, 3, 4, 0]]
    assert fit(
        "floor", ArrayRows(p, np.arange(6) % 5, "probs")
    ).calibrator.floor == pytest.approx(0.1)


@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
def test_nothing_changes_where_nothing_is_0(kind):
    p, y = votes()
    p = (p + 0.01) / (p + 0.01).sum(axis=1, keepdims=True)
    scores = p if kind == "probs" else np.log(p) + 3.0 * (kind == "logits")
    rows = ArrayRows(scores, y, kind)
    one, other = (fit(name, rows).calibrator for name in ("floor+ts", "ts"))
    assert predict(one, rows)[0] == pytest.approx(predict(other, rows)[0], abs=1e-12)


def test_a_temperature_after_the_floor_does_not_run_away():
    """Fitted to the logarithm that stands for 0, the temperature hits its bound and the loss rises."""
    p, y = votes()
    rows, new = ArrayRows(p, y, "probs"), votes(seed=1)
    loss = {}
    for name in ("ts", "floor+ts", "auto"):
        calibrator = fit(name, rows).calibrator
        log_p = predict(calibrator, ArrayRows(new[0], None, "probs"))[0]
        loss[name] = -log_p[np.arange(len(new[1])), new[1]].mean()
    assert loss["ts"] > 1.1 > 1.0 > loss["floor+ts"] > loss["auto"] - 0.01


def test_auto_puts_the_floor_first_where_probabilities_are_0():
    p, y = votes()
    assert all(
        m.method.startswith("floor+")
        for m in fit("auto", ArrayRows(p, y, "probs")).calibrator.members
    )
    p = (p + 0.01) / (p + 0.01).sum(axis=1, keepdims=True)
    assert not any(
        m.method.startswith("floor+")
        for m in fit("auto", ArrayRows(p, y, "probs")).calibrator.members
    )


def test_the_advice_on_probabilities_of_0_is_a_method_that_takes_them(run):
    """Of seven trees the advice was ts, which raised the NLL and doubled the calibration error."""
    p, y = votes()
    np.savez("forest.npz", probs=p, labels=y)
    said = run("evaluate", "forest.npz").out
    assert "62 of 800 samples give their label a probability of exactly 0" in said
    assert said.endswith("next: calcli run forest.npz\n")
    assert run("run", "forest.npz", "-q").code == 0
    fitted = json.loads(Path("forest.auto.json").read_text())
    assert fitted["fit"]["after"]["brier"] < fitted["fit"]["before"]["brier"]
    assert "put floor+ before the method" in run("fit", "-m", "ts", "forest.npz").err
    assert "status ok" in run("fit", "-m", "floor+ts", "forest.npz").err


@pytest.mark.parametrize(
    ("method", "advice"),
    [("ts", True), ("platt", True), ("ir", False), ("venn-abers", False)],
)
def test_the_floor_is_advised_before_methods_that_take_logarithms(run, method, advice):
    p, y = votes()
    np.savez(
        "forest.npz",
        probs=np.stack([1 - p[:, 0], p[:, 0]], axis=1),
        labels=(y == 0).astype(int),
    )
    np.savez("answers.npz", confidence=p.max(axis=1), correct=p.argmax(axis=1) == y)
    assert (
        "put floor+ before the method"
        in run("fit", "-m", method, "forest.npz", "--force").err
    ) == advice
    if method != "ts":
        assert (
            "put floor+" not in run("fit", "-m", method, "answers.npz", "--force").err
        )
