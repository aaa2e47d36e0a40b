"""One temperature of large data: as exact as a root finder on all rows, and its walks counted."""

import h5py
import numpy as np
import pytest
from synthetic import truth

from calcli.calibrator import Context
from calcli.fitting.fit import fit_artifact
from calcli.io.bundle import open_bundle
from calcli.io.bundle_scores import BundleScores
from calcli.kernels import device as device_module
from calcli.kernels.numpy.temperature import (
    TopMass,
    nll_curve,
    summaries_at,
    summary_at,
)
from calcli.methods._temperature import start_rows
from calcli.metrics.collect import summarise
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows
from calcli.solvers import find_root, halley

LOG_ENDS = float(np.log(1e-2)), float(np.log(1e2))
N = 8000


def exact(rows, name):
    """The temperature by a search on all rows, from T = 1, to a step of 1e-13."""
    curve = nll_curve(rows) if name == "ts" else TopMass(rows, 1)
    root = find_root(halley(curve), *LOG_ENDS, 0.0, flat=1e-16, step=1e-13)
    return float(np.exp(-root.x))


def fitted(rows, name):
    return method(name).fit(rows, parse_options(name, {}), Context())


@pytest.mark.parametrize("name", ["ts", "ec"])
@pytest.mark.parametrize("k", [2, 5, 100])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_a_start_from_some_rows_has_the_root_of_all(name, k, temperature):
    z, y = truth(N, k, temperature=temperature, seed=k)
    rows = ArrayRows(z, y)
    fit = fitted(rows, name)
    assert fit.calibrator.temperature == pytest.approx(exact(rows, name), rel=1e-12)


@pytest.mark.parametrize("name", ["ts", "ec"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_real_files_in_every_precision(real, name, dtype):
    data = real("cifar100_resnet56")
    rows = ArrayRows(data["logits"].astype(dtype), data["labels"])
    fit = fitted(rows, name)
    assert fit.calibrator.temperature == pytest.approx(exact(rows, name), rel=1e-9)


@pytest.mark.parametrize("name", ["ts", "ec"])
def test_sorted_labels_and_weights(name):
    """A sample in slabs of sorted rows is a poor start; the result is not."""
    z, y = truth(N, 4, temperature=2.0)
    order = np.argsort(y, kind="stable")
    weight = np.random.default_rng(1).exponential(size=N)
    rows = ArrayRows(z[order], y[order], weight=weight)
    fit = fitted(rows, name)
    assert fit.calibrator.temperature == pytest.approx(exact(rows, name), rel=1e-12)


@pytest.mark.parametrize("temperature", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_temperature_with_a_mixture_is_as_exact(temperature, seed):
    """No summary checks it afterwards."""
    z, y = truth(N, 10, temperature=temperature, seed=seed)
    rows = ArrayRows(z, y)
    fitted = method("ts").fit(rows, parse_options("ts", {"mixture": "true"}), Context())
    assert fitted.calibrator.temperature == pytest.approx(exact(rows, "ts"), rel=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["ts", "ec", "ft", "vs", "hoki"])
def test_a_sample_without_weight_is_no_start(name):
    z, y = truth(N, 3, temperature=2.0)
    weight = np.zeros(N)
    weight[100:110] = 1.0  # between two slabs of the sample
    assert (
        not ArrayRows(z, y, weight=weight)
        .sample(start_rows(ArrayRows(z, y)))
        .weight.any()
    )
    fit, alone = (
        fitted(rows, name)
        for rows in (ArrayRows(z, y, weight=weight), ArrayRows(z[100:110], y[100:110]))
    )
    assert fit.status == alone.status
    if name in ("ts", "ec"):
        assert fit.calibrator.temperature == pytest.approx(
            alone.calibrator.temperature, rel=1e-9
        )


def test_where_the_sample_has_no_root_all_rows_are_asked():
    y = truth(N, 3)[1]
    rows = ArrayRows(5 * np.eye(3)[y], y)
    fit = fitted(rows, "ts")
    assert (fit.status, fit.calibrator.temperature) == ("at_bound", 0.01)
    # the slope fades out, and Newton's steps with it
    assert fit.details["evaluations"] < 20
    assert fitted(rows, "ec").status == "no_root"


@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
@pytest.mark.parametrize("weighted", [False, True])
def test_summaries_agree_whatever_made_them(kind, weighted):
    z, y = truth(700, 5)
    log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    scores = {"logits": z, "log_probs": log_p, "probs": np.exp(log_p)}[kind]
    weight = np.random.default_rng(0).exponential(size=700) if weighted else None
    rows = ArrayRows(scores, y, kind, weight=weight, block_rows=64)
    slow, fast = summarise(rows, None, Context().progress), summary_at(rows, 1.0)
    for name, value in slow.values().items():
        assert fast.values()[name] == pytest.approx(value, rel=1e-12), name
    assert fast.entropy_gap == pytest.approx(slow.entropy_gap, rel=1e-9)
    assert (
        fast.label_counts.tolist()
        == slow.label_counts.tolist()
        == np.bincount(y).tolist()
    )
    assert (fast.n, fast.weighted) == (slow.n, slow.weighted) == (700, weighted)
    assert fast.spread == pytest.approx(slow.spread, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "walks"),
    [
        ("ts", 3),
        ("ec", 3),
        ("ets", 5),
        ("ft", 7),
        ("mono", 4),
        ("iop", 5),
        ("vs", 6),
        ("svs", 5),
        ("sms", 5),
        ("hoki", 7),
    ],
)
def test_reads_of_a_large_file(tmp_path, monkeypatch, name, walks):
    """Rows read in all: so many times the file, and a tenth of it for each start.

    Of ``ts`` two walks search the temperature and one summarises; ``ft`` starts twice.
    """
    assert rows_read(tmp_path, monkeypatch, name) <= walks + 0.25


def rows_read(tmp_path, monkeypatch, name, temperature=1.6):
    """Rows that a fit reads of a file too large to be kept, in files."""
    z, y = truth(2 * N, 6, temperature=temperature, seed=1)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["logits"], file["labels"] = z.astype("f4"), y
    read = []
    plain = BundleScores._checked
    with monkeypatch.context() as small:
        small.setattr("calcli.io.bundle_labels.CACHE_BYTES", 0)
        small.setattr("calcli.io.bundle_scores.CACHE_BYTES", 0)
        small.setattr("calcli.io.dataset.SLAB_BYTES", 20_000)
        small.setattr("calcli.rows.BLOCK_BYTES", 20_000)
        small.setattr(
            BundleScores,
            "_checked",
            lambda self, a, b: read.append(b - a) or plain(self, a, b),
        )
        with open_bundle(str(tmp_path / "a.h5")) as rows:
            artifact = fit_artifact(name, parse_options(name, {}), rows, Context())
    assert artifact.fit.status == "ok"
    # Once more over the first rows, to see whether they look like probabilities.
    return sum(read) / len(y)


@pytest.mark.parametrize("name", ["mono", "iop"])
def test_a_start_from_some_rows_saves_walks(tmp_path, monkeypatch, name):
    """Where places among the edges are not kept, and every step of the search is a walk."""
    monkeypatch.setattr("calcli.methods._monotone.KEPT_BYTES", 0)
    started = rows_read(tmp_path, monkeypatch, name, temperature=4.0)
    monkeypatch.setattr("calcli.methods._monotone.start_rows", lambda rows: 0)
    assert started <= rows_read(tmp_path, monkeypatch, name, temperature=4.0) - 1.5


@pytest.mark.parametrize("k", [3, 80])
def test_both_summaries_of_one_walk_are_those_of_two(k):
    z, y = truth(700, k)
    rows = ArrayRows(z, y, block_rows=64)
    both = summaries_at(rows, 0.7)
    assert both.before.values() == summary_at(rows, 1.0).values()
    assert both.after.values() == summary_at(rows, 0.7).values()


@pytest.mark.parametrize(
    ("method", "scores", "device"),
    [
        ("ts", 10**12, False),  # both walks stay on the CPU: there is nothing to save
        ("ec", 10**12, False),
        ("hoki", 1 << 24, False),  # 0.8 s on the CPU, and importing torch takes 1.8
        ("hoki", 10**9, True),
        ("ts+hoki", 10**9, True),
        ("recal", 10**8, False),
        ("recal", 10**10, True),
        ("all", 10**9, True),
    ],
)
def test_auto_takes_a_gpu_only_where_its_loops_are_dear(
    method, scores, device, monkeypatch
):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(device_module, "_driver_present", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(device_module, "_first_kernel", lambda: None)
    assert device_module.gpu_pays(method, scores) is device
    assert device_module.resolve("auto", method, scores) == (
        "cuda" if device else "cpu"
    )
    assert device_module.resolve("cuda", method, 1) == "cuda"
    assert device_module.resolve("cpu", method, scores) == "cpu"


def test_a_gpu_that_does_nothing_is_said():
    assert device_module.idle("ts", Context(device="cuda")) == [
        "ts has no loops for a GPU and was fitted on the CPU"
    ]
    assert not device_module.idle(
        "ts+hoki", Context(device="cuda")
    ) and not device_module.idle("ts", Context())


def test_the_sample_of_many_rows_stays_small(monkeypatch):
    z, y = truth(40_000, 4)
    rows = ArrayRows(z, y)
    whole = fitted(rows, "ts")
    assert start_rows(rows) == 40_000 // 16
    monkeypatch.setattr("calcli.methods._temperature.SAMPLE_SCORES", 1000)
    assert start_rows(rows) == 1500
    small = fitted(rows, "ts")
    assert small.calibrator.temperature == pytest.approx(
        whole.calibrator.temperature, rel=1e-12
    )
