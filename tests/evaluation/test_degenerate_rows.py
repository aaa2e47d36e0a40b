"""Rows of which little can be told: nothing printed is infinite, NaN or of absurd size."""

import json
import re

import numpy as np
import pytest
from synthetic import truth

N = 40
UNPRINTED = re.compile(
    r"(?<![A-Za-z_\"])[+-]?(?:inf|infinity|nan)(?![A-Za-z_])", re.IGNORECASE
)
FORMATS = {
    "table": (),
    "full": ("--full",),
    "markdown": ("--format", "markdown"),
    "latex": ("--format", "latex"),
    "csv": ("--format", "csv"),
    "json": ("--json",),
}
LARGEST = 1e3
"""Above any end of an interval of a bounded metric, or of an NLL of logits below 100."""


def sets_of_rows():
    """Name and arrays of every kind of rows."""
    rng = np.random.default_rng(0)
    z, y = truth(N, 3, seed=1)
    top = z.argmax(axis=1)
    one_hot = np.eye(3)[top]
    one_hot[0] = (0.5, 0.3, 0.2)  # else they are bare predictions, which are refused
    far = rng.uniform(-30, 30, N)
    few_weights = np.zeros(N)
    few_weights[:2] = 1.0
    yield "one class", {"logits": z, "labels": np.zeros(N, dtype=int)}
    yield "all right", {"logits": z, "labels": top}
    yield "all wrong", {"logits": z, "labels": (top + 1) % 3}
    yield "certain", {"probs": one_hot, "labels": y}
    yield "certain and right", {"probs": one_hot, "labels": top}
    yield "certain and wrong", {"probs": one_hot, "labels": (top + 1) % 3}
    yield "uniform", {"probs": np.full((N, 3), 1 / 3), "labels": y}
    for n in (1, 2, 3):
        yield f"{n} rows", {"logits": z[:n], "labels": y[:n]}
    yield "huge logits", {"logits": z * 1e5, "labels": y}
    yield "two weights", {"logits": z, "labels": y, "weights": few_weights}
    yield "equal weights", {"logits": z, "labels": y, "weights": np.full(N, 2.0)}
    yield "far weights", {"logits": z, "labels": y, "weights": 10.0**far}
    wild = np.array([1e-300, 1.0, 1e300, 1e-12, 1e12])
    yield "wild weights", {"logits": z[:5], "labels": y[:5], "weights": wild}
    yield "two units", {"logits": z, "labels": y, "unit": np.arange(N) % 2}
    yield (
        "one row a group",
        {"logits": z, "labels": y, "group": np.array([f"g{i}" for i in range(N)])},
    )
    yield "sure and right", {"confidence": np.ones(N), "correct": np.ones(N, dtype=int)}
    yield "never sure", {"confidence": np.zeros(N), "correct": np.ones(N, dtype=int)}


SETS = dict(sets_of_rows())


def written(name, with_groups=True):
    """Write a set of rows; the words with which commands read it."""
    arrays = SETS[name]
    np.savez("rows.npz", **arrays)
    words = ["rows.npz"]
    if "probs" in arrays:
        words += ["--kind", "probs"]
    if "group" in arrays and with_groups:
        words += ["--group-by", "group"]
    return words


def numbers_in(content):
    """Every number of a JSON document."""
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        for item in content:
            yield from numbers_in(item)
    elif isinstance(content, float):
        yield content


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", SETS)
def test_nothing_infinite_is_printed(run, name, form):
    words = written(name, with_groups=form in ("table", "full", "json"))
    done = run("evaluate", *words, *FORMATS[form])
    assert done.code == 0, done.err
    assert not UNPRINTED.search(done.out + done.err)
    assert not re.search(r"(?<![\d.])\d{20}", done.out + done.err)
    if form == "json" and name != "huge logits":
        metrics = [result["metrics"] for result in json.loads(done.out)["results"]]
        assert max(map(abs, numbers_in(metrics)), default=0.0) < LARGEST


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(
    "command",
    [
        ("compare", "--methods", "ts,svs"),
        ("threshold", "--accuracy", "0.6"),
        ("diagram",),
        ("diagram", "-o", "d.json"),
        ("report", "-o", "r.html"),
        ("inspect",),
    ],
    ids=" ".join,
)
def test_other_commands_say_so_or_refuse(run, tmp_path, name, command):
    words = written(name) if command[0] != "inspect" else ["rows.npz"]
    if command[0] == "inspect" and "probs" in SETS[name]:
        words += ["--kind", "probs"]
    done = run(command[0], *words, *command[1:])
    assert done.code in (0, 3, 4), done.err
    texts = [done.out, done.err]
    for made in tmp_path.glob("[dr].*"):
        text = made.read_text()
        texts.append(re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL))
    assert not UNPRINTED.search("\n".join(texts))


@pytest.mark.parametrize("k", [2, 3])
def test_very_unequal_weights_have_no_interval(run, k):
    """Five rows, of which one has nearly all weight: Student's t of 1e-12 degrees of freedom gave ends of +-1e42."""
    z, y = truth(5, k, seed=2)
    np.savez("w.npz", logits=z, labels=y, weights=10.0 ** np.arange(0, 50, 10))
    z, y = truth(300, k, seed=3)
    np.savez("c.npz", logits=z, labels=y)
    assert run("fit", "-m", "ts", "c.npz", "-o", "a.json").code == 0
    done = run("evaluate", "w.npz", "-c", "a.json", "--json")
    assert done.code == 0, done.err
    results = json.loads(done.out)["results"]
    mean = results[0]["metrics"]["mean_confidence"]
    assert mean.get("ci") is None and "effective rows" in mean["ci_reason"]
    changes = results[1]["paired"]["differences"]
    for loss in ("nll", "brier"):
        assert changes[loss].get("ci") is None
        assert "effective rows" in changes[loss]["ci_reason"]


@pytest.mark.parametrize("n", [5, 50, 500])
def test_rows_alike_but_for_one_have_no_bootstrap_interval(run, n):
    """Resamples without the one row have no spread: the ends of the mean confidence were thousands away."""
    p = 0.9 + 1e-9 * np.random.default_rng(0).normal(size=n)
    p[0] = 0.6
    y = (np.random.default_rng(1).random(n) < p).astype(int)
    np.savez("p.npz", probs=np.stack([1 - p, p], axis=1), labels=y)
    done = run("evaluate", "p.npz", "--kind", "probs", "--json")
    assert done.code == 0, done.err
    mean = json.loads(done.out)["results"][0]["metrics"]["mean_confidence"]
    assert mean.get("ci") is None and "few rows" in mean["ci_reason"]
