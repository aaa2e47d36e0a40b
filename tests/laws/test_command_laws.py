"""Laws of commands: what must not change a figure, whatever the data."""

import json

import numpy as np
import pytest

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
