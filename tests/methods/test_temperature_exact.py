"""The temperatures of ts and ec against an independent search in float64, and what the search stands on."""

import threading
import time
from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_softmax, softmax
from synthetic import truth

from calcli.calibrator import Context
from calcli.kernels.numpy.temperature import (
    TopMass,
    at_once,
    brier_slope,
    nll_curve,
)
from calcli.parallel import in_order, same_threads
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows, part_blocks, rows_per_block
from calcli.solvers import find_root, halley

REAL = (
    *(
        "cifar10_resnet20",
        "cifar10_vgg16_bn",
        "cifar10_vgg16_verified",
        "cifar100_densenet_bc_100_netcal",
    ),
    *(
        "cifar100_resnet20",
        "cifar100_resnet56",
        "cifar100_vgg19_bn",
        "cifar100_repvgg_a2",
    ),
)
precisions = pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])


def fitted(rows, name, **options):
    fit = method(name).fit(rows, parse_options(name, options), Context())
    assert fit.status == "ok"
    return fit.calibrator.temperature


def exact_nll(z, y):
    """Root of d NLL / d beta = mean(E_p[z] - z_y) by Brent's method, every step in float64."""
    d = z - z.max(axis=1, keepdims=True)
    d_y = d[np.arange(len(d)), y]

    def slope(beta):
        return float(np.mean((softmax(beta * d, axis=1) * d).sum(axis=1) - d_y))

    return 1.0 / brentq(slope, 1e-2, 1e2, xtol=1e-15, rtol=1e-14)


def exact_ec(z, y):
    """Temperature of mean confidence = accuracy by Brent's method; ties to the lowest class."""
    accuracy = float(np.mean(z.argmax(axis=1) == y))
    d = z - z.max(axis=1, keepdims=True)

    def surplus(beta):
        return float(np.mean(1.0 / np.exp(beta * d).sum(axis=1))) - accuracy

    return 1.0 / brentq(surplus, 1e-2, 1e2, xtol=1e-15, rtol=1e-14)


def hold(rows, z, y):
    assert fitted(rows, "ts") == pytest.approx(exact_nll(z, y), rel=1e-7)
    assert fitted(rows, "ec") == pytest.approx(exact_ec(z, y), rel=1e-9)


@precisions
@pytest.mark.parametrize("name", REAL)
def test_real_logits(real, name, dtype):
    data = real(name)
    kind = "logits" if "logits" in data else "probs"
    scores, y = data[kind][::2].astype(dtype), data["labels"][::2]
    z = scores.astype(np.float64)
    if kind == "probs":
        # m zeros of a row count as half of the smallest number of their type / (m + 1)
        zeros = (z == 0).sum(axis=1, keepdims=True)
        smallest = float(np.finfo(dtype).smallest_subnormal)
        log_zero = np.log(smallest) - np.log(2.0) - np.log(zeros + 1.0)
        z = np.where(z == 0, log_zero, np.log(np.where(z == 0, 1.0, z)))
    hold(ArrayRows(scores, y, kind), z, y)


@precisions
@pytest.mark.parametrize(
    ("n", "k", "temperature"),
    [
        (3000, 2, 0.4),
        (2000, 10, 1.7),
        (2000, 64, 3.0),
        (2000, 65, 3.0),
        (500, 1000, 0.6),
    ],
)
def test_made_up_logits(n, k, temperature, dtype):
    z, y = truth(n, k, temperature, seed=k)
    scores = z.astype(dtype)
    hold(ArrayRows(scores, y, block_rows=97), scores.astype(np.float64), y)


def test_squared_error_of_real_logits(resnet20):
    z, y = resnet20[0].astype(np.float64), resnet20[1]
    hot = np.eye(100)[y]

    def error(log_beta):
        return float(
            np.mean(np.sum((softmax(np.exp(log_beta) * z, axis=1) - hot) ** 2, axis=1))
        )

    best = minimize_scalar(
        error, bounds=(-1.0, 0.5), method="bounded", options={"xatol": 1e-9}
    )
    # A minimum is known to the square root of the precision of its value.
    assert fitted(ArrayRows(resnet20[0], y), "ts", loss="brier") == pytest.approx(
        np.exp(-best.x), rel=1e-7
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_the_squared_error_has_no_better_valley(seed):
    # Groups of rows that want temperatures far apart make several valleys.
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 12))
    parts = [
        truth(int(rng.integers(3, 80)), k, 1.0, int(s), float(s % 5 + 0.3))
        for s in rng.integers(1e6, size=3)
    ]
    z = np.concatenate([z * 10.0 ** rng.uniform(-2, 2) for z, _ in parts])
    y = np.concatenate([y for _, y in parts])
    wrong = rng.random(len(y)) < rng.uniform(0, 0.5)
    y = np.where(wrong, rng.integers(0, k, len(y)), y)

    def error(log_beta):
        p = np.exp(log_softmax(np.exp(log_beta) * z, axis=1))
        return float(np.mean((p * p).sum(axis=1) - 2 * p[np.arange(len(y)), y]))

    fit = method("ts").fit(
        ArrayRows(z, y), parse_options("ts", {"loss": "brier"}), Context()
    )
    dense = min(error(b) for b in np.linspace(np.log(1e-2), np.log(1e2), 1500))
    assert error(-np.log(fit.calibrator.temperature)) <= dense + 1e-9


@pytest.mark.parametrize("k", [10, 100])
def test_blocks_change_only_rounding(k):
    z, y = truth(1500, k, seed=4)
    weight = np.random.default_rng(5).exponential(size=1500)
    makers = {
        "nll": nll_curve,
        "top": lambda rows: TopMass(rows, 1),
        "top 3": lambda rows: TopMass(rows, 3),
        "brier": lambda rows: brier_slope(rows, -4.0, 4.0)[1],
    }
    for make in makers.values():
        whole = make(ArrayRows(z, y, weight=weight, block_rows=1500))(0.3)
        assert make(ArrayRows(z, y, weight=weight, block_rows=1500))(0.3) == whole
        np.testing.assert_allclose(
            make(ArrayRows(z, y, weight=weight, block_rows=13))(0.3), whole, rtol=1e-12
        )


@pytest.mark.parametrize("k", [5, 80])
def test_slopes_are_derivatives(k):
    z, y = truth(400, k, seed=6)
    rows = ArrayRows(z, y)
    for slope in (
        nll_curve(rows),
        TopMass(rows, 1),
        TopMass(rows, 2),
        brier_slope(rows, -3, 3)[1],
    ):
        for point in (-1.0, 0.2, 1.5):
            h = 1e-5
            up, down, here = slope(point + h), slope(point - h), slope(point)
            for order in range(1, len(here)):
                by_difference = (up[order - 1] - down[order - 1]) / (2 * h)
                # Central differences are good to h^2 and to rounding / h.
                assert here[order] == pytest.approx(by_difference, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("k", [2, 64, 65, 131, 1000, 128_000, 10**6])
def test_blocks_as_one_never_straddle_parts(k):
    assert part_blocks(k) % at_once(k) == 0
    rows = at_once(k) * rows_per_block(k)
    assert rows >= 1000 or at_once(k) == (16 if k <= 128_000 else 2)
    assert 8 * k * rows <= 1 << 24


# ---- work side by side


@pytest.mark.parametrize("count", [0, 1, 2, 50])
@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_the_order_of_the_items(monkeypatch, count, workers):
    monkeypatch.setattr("calcli.parallel.WORKERS", workers)
    drawn = []

    def items():
        for i in range(count):
            drawn.append(i)
            yield i

    results = []
    for result in in_order(lambda i: i * i, items()):
        results.append(result)
        # what is drawn ahead stays in memory
        assert len(drawn) <= len(results) + 2 * workers + 1
    assert results == [i * i for i in range(count)]


@pytest.mark.parametrize("keep", [nullcontext, same_threads])
def test_an_error_in_a_thread_reaches_the_caller(keep):
    with keep(), pytest.raises(ZeroDivisionError):
        list(in_order(lambda i: 1 // (i - 7), range(20)))


@pytest.mark.parametrize("workers", [2, 4])
def test_work_that_is_cut_up_itself_ends_with_the_same_threads(monkeypatch, workers):
    """Items of items wait in the queue of threads that wait for them: who waits does them."""
    monkeypatch.setattr("calcli.parallel.WORKERS", workers)
    used, before = set(), threading.active_count()

    def one(i):
        used.add(threading.get_ident())
        return i

    def outer(i):
        return sum(in_order(lambda j: sum(in_order(one, range(i + j))), range(6)))

    with same_threads():
        for _ in range(5):
            assert list(in_order(outer, range(9))) == [
                sum(sum(range(i + j)) for j in range(6)) for i in range(9)
            ]
        assert len(used) <= workers
    assert threading.active_count() == before


def test_two_items_are_done_by_two_threads(monkeypatch):
    """Each waits until the other has begun."""
    monkeypatch.setattr("calcli.parallel.WORKERS", 2)
    both = threading.Barrier(2, timeout=60)
    with same_threads():
        assert len(list(in_order(lambda i: both.wait(), range(2)))) == 2


def test_nothing_goes_on_once_the_results_are_not_wanted(monkeypatch):
    monkeypatch.setattr("calcli.parallel.WORKERS", 3)
    begun, ended = [], []

    def work(i):
        begun.append(i)
        time.sleep(0.01)
        ended.append(i)

    with same_threads():
        results = in_order(work, range(50))
        next(results)
        results.close()
        assert sorted(begun) == sorted(ended)
        assert len(begun) < 20


# ---- the root finder


def increasing(kind, root, size):
    """An increasing function with a root, and its derivative."""
    match kind:
        case "line":
            return lambda x: (size * (x - root), size)
        case "cubic":
            return lambda x: (size * (x - root) ** 3, 3 * size * (x - root) ** 2)
        case "sigmoid":
            return lambda x: (
                np.tanh(size * (x - root)),
                size / np.cosh(np.clip(size * (x - root), -300, 300)) ** 2,
            )
        case "flat left":
            return lambda x: (
                -1.0 if x < root else size * (x - root),
                0.0 if x < root else size,
            )
        case "flat both":
            return lambda x: (
                float(np.clip(size * (x - root), -1, 1)),
                size if abs(size * (x - root)) < 1 else 0.0,
            )
        case "step":
            return lambda x: (-1.0 if x < root else 1.0, 0.0)
        case "lying slope":
            return lambda x: (size * (x - root), size * 1e-3)
    raise AssertionError(kind)


KINDS = ("line", "cubic", "sigmoid", "flat left", "flat both", "step", "lying slope")


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(KINDS),
    root=st.floats(-4.6, 4.6),
    log_size=st.floats(-6, 9),
    start=st.floats(-4.6, 4.6),
)
@example("sigmoid", 4.6, 9.0, -4.6)
@example("step", 4.6, 0.0, -4.6)
@example("line", -4.6, 9.0, 4.6)
def test_find_root_finds_it(kind, root, log_size, start):
    f = increasing(kind, root, 10.0**log_size)
    evaluations = 0

    def watched(x):
        nonlocal evaluations
        evaluations += 1
        assert -4.6 <= x <= 4.6
        return f(x)

    result = find_root(watched, -4.6, 4.6, start)
    assert result.status != "not_converged"
    assert result.evaluations == evaluations <= 75
    if result.status == "ok":
        # The cubic's Newton steps shrink by a third only: a step of 1e-10 leaves twice that.
        assert result.x == pytest.approx(root, abs=1e-8)
    else:
        assert abs(result.x - root) < 1e-8


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    start=st.floats(-4.6, 4.6), size=st.floats(1e-6, 1e9), sign=st.sampled_from([-1, 1])
)
def test_find_root_says_when_there_is_none(start, size, sign):
    root = find_root(
        lambda x: (sign * size * (10.0 + sign * x), size), -4.6, 4.6, start
    )
    assert root.status == ("at_low" if sign > 0 else "at_high")
    assert root.x == (-4.6 if sign > 0 else 4.6)
    assert root.evaluations <= 3


def test_find_root_needs_few_passes_where_it_matters(resnet20):
    rows = ArrayRows(resnet20[0], resnet20[1])
    for curve in (nll_curve(rows), TopMass(rows, 1)):
        root = find_root(halley(curve), np.log(1e-2), np.log(1e2), 0.0)
        assert root.evaluations <= 5


def test_octaves_are_half_octaves_in_all():
    from calcli.kernels.numpy.temperature import octaves

    grid = np.sort(np.concatenate(octaves(-4.6, 4.6)))
    np.testing.assert_allclose([b - a for a, b in pairwise(grid)], np.log(2) / 2)
    assert grid[0] == -4.6
    assert 4.6 - np.log(2) / 2 < grid[-1] <= 4.6
