"""Tables of scores with labels that are drawn from them, and whether they are read."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

N = 300


def drawn(k, seed=0):
    """Probabilities (N, k) and labels (N,) drawn from them."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(N, k))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return p, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


def table(name, columns, separator=","):
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return name


def assert_read(run, name, p, y):
    done = run("evaluate", name, "--metric", "accuracy", "--metric", "nll", "--json")
    assert done.code == 0, done.err
    (result,) = json.loads(done.out)["results"]
    assert result["n"] == len(y), done.err
    metrics = result["metrics"]
    nll = -np.log(p[np.arange(len(y)), y]).mean()
    assert metrics["accuracy"]["value"] == (p.argmax(axis=1) == y).mean(), done.err
    assert metrics["nll"]["value"] == pytest.approx(nll, rel=1e-9), done.err
    return done.err
