"""The torch twins of the heavy loops equal NumPy's: on the CPU always, on a GPU where there is one."""

import numpy as np
import pytest
from synthetic import rows_of, truth

from calcli.kernels import numpy as kernels
from calcli.kernels.numpy.hoki_draws import standard_noise
from calcli.numerics import softmax
from calcli.rows import ArrayRows

torch = pytest.importorskip("torch")
twins = pytest.importorskip("calcli.kernels.torch")


def _cuda():
    return pytest.param(
        "cuda",
        marks=[
            pytest.mark.cuda,
            pytest.mark.skipif(
                not torch.cuda.is_available(), reason="no CUDA device here"
            ),
        ],
    )


devices = pytest.mark.parametrize("device", ["cpu", _cuda()])


def _sources():
    z, y = truth(700, 12, seed=3)
    weight = np.random.default_rng(4).exponential(size=700)
    yield "logits", ArrayRows(z, y)
    yield "float32", ArrayRows(z.astype(np.float32), y)
    yield "float16, small blocks", ArrayRows(z.astype(np.float16), y, block_rows=13)
    p = np.exp(z / 3)
    p[:5, 1:] = 0.0
    yield (
        "probabilities with zeros",
        ArrayRows(p / p.sum(axis=1, keepdims=True), y, "probs"),
    )
    yield "one column of probabilities", _one_column()
    yield "weights", ArrayRows(z, y, weight=weight)
    yield "shifted far", ArrayRows(z + 1e6, y)
    yield "ties", ArrayRows(np.round(z / 3), y)
    yield "two classes", ArrayRows(*truth(300, 2, seed=5))


def _one_column():
    """P(class 1) in float32, some 0 and 1: zeros of the two classes differ in size."""
    p = np.random.default_rng(7).random(300).astype(np.float32)
    p[:3] = 0.0
    p[3:6] = 1.0
    rows = ArrayRows(np.stack([1 - p, p], axis=1), (p > 0.5).astype(int), "probs")
    rows.one_column = True
    assert len(rows.zeros.steps) == 2
    return rows


SOURCES = dict(_sources())
sources = pytest.mark.parametrize("rows", SOURCES.values(), ids=SOURCES)


@devices
@sources
def test_exact_retention(rows, device):
    scales = [0.4, 1.0, 2.5]
    for noise in ("gaussian", "uniform", "gumbel"):
        ours = kernels.retention_rates(rows, noise, scales)
        np.testing.assert_allclose(
            twins.retention_rates(rows, noise, scales, device=device), ours, rtol=1e-9
        )


@devices
@sources
def test_sampled_retention_counts_the_same(rows, device):
    draws = standard_noise("gaussian", 150, rows.k, seed=1)
    ours = kernels.retention_rates(rows, "gaussian", [0.5, 2.0], draws)
    np.testing.assert_array_equal(
        twins.retention_rates(rows, "gaussian", [0.5, 2.0], draws, device=device), ours
    )


@devices
def test_many_classes_and_far_ones(device):
    rng = np.random.default_rng(6)
    z = np.concatenate(
        [rng.normal(size=(40, 1000)) * s for s in (0.01, 2.0, 30.0, 1e4)]
    )
    ours = kernels.retention_rates(ArrayRows(z), "gaussian", [0.5, 2.0, 8.0])
    theirs = twins.retention_rates(
        ArrayRows(z), "gaussian", [0.5, 2.0, 8.0], device=device
    )
    np.testing.assert_allclose(theirs, ours, rtol=1e-9)


@devices
def test_chunks_do_not_matter_much_and_repeats_not_at_all(monkeypatch, device):
    rows = ArrayRows(*truth(500, 7, seed=8), block_rows=20)
    whole = twins.retention_rates(rows, "gaussian", [1.5], device=device)
    np.testing.assert_array_equal(
        twins.retention_rates(rows, "gaussian", [1.5], device=device), whole
    )
    monkeypatch.setattr("calcli.kernels.torch.device_rows.WORKING_NUMBERS", 16 * 64)
    np.testing.assert_allclose(
        twins.retention_rates(rows, "gaussian", [1.5], device=device), whole, rtol=1e-12
    )


@devices
def test_rows_that_do_not_fit_are_uploaded_for_every_pass(monkeypatch, device):
    from calcli.kernels.torch.device_rows import Device, DeviceRows

    rows = ArrayRows(*truth(300, 5, seed=9), block_rows=50)
    monkeypatch.setattr(DeviceRows, "_fits", lambda self, *sizes: False)
    assert DeviceRows(rows, Device(device)).kept is None
    ours, theirs = (
        kernels.retention_rates(rows, "gumbel", [1.5]),
        twins.retention_rates(rows, "gumbel", [1.5], device=device),
    )
    np.testing.assert_allclose(theirs, ours, rtol=1e-9)


@devices
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_recal_sums(device, kind):
    z, y = truth(250, 6, seed=10)
    rows = rows_of(z if kind == "logits" else softmax(z), y, block_rows=60, kind=kind)
    ours, theirs = kernels.RowSharpness(rows), twins.RowSharpness(rows, device=device)
    scale = np.random.default_rng(11).uniform(0.2, 3.0, size=250)
    wanted = scale > 1.0
    for chosen in (None, wanted):
        a, b = ours.tilt(scale, chosen), theirs.tilt(scale, chosen)
        # The fourth cumulant is a difference of large moments.
        np.testing.assert_allclose(b.log_top, a.log_top, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(b.cumulants, a.cumulants, rtol=1e-9, atol=1e-11)
    for with_own in (True, False):
        a, b = ours.response(1, scale, with_own), theirs.response(1, scale, with_own)
        np.testing.assert_allclose(b[0], a[0], rtol=1e-9, atol=1e-13)
        np.testing.assert_array_equal(b[1], a[1])


@devices
def test_recal_of_rounded_probabilities(device):
    """Rows whose zeros count as more than nothing: their logarithms need float64."""
    z, y = truth(250, 6, seed=10)
    p = softmax(3.0 * z).astype(np.float16)
    assert ((p == 0).sum(axis=1) > 1).any()
    rows = ArrayRows(p, y, "probs")
    scale = np.random.default_rng(11).uniform(0.2, 3.0, size=250)
    ours = kernels.RowSharpness(rows).tilt(scale)
    theirs = twins.RowSharpness(rows, device=device).tilt(scale)
    np.testing.assert_allclose(theirs.log_top, ours.log_top, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(theirs.cumulants, ours.cumulants, rtol=1e-9, atol=1e-11)


def test_twins_have_the_same_names():
    assert all(hasattr(twins, name) for name in kernels.__all__)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("name", ["hoki", "recal"])
def test_fits_agree_with_the_cpu(name):
    from calcli.calibrator import Context
    from calcli.registry import method, parse_options

    z, y = truth(2000, 10, seed=12)
    options = parse_options(name, {"rounds": "4"} if name == "recal" else {})
    fits = [
        method(name).fit(rows_of(z, y), options, Context(device=device)).calibrator
        for device in ("cpu", "cuda")
    ]
    probs = [
        np.concatenate(
            [np.exp(f.apply(b).log_probs) for b in rows_of(z, y).blocks(_needed(f))]
        )
        for f in fits
    ]
    np.testing.assert_allclose(probs[1], probs[0], atol=1e-7)


def _needed(calibrator):
    from synthetic import TRANSFORMS

    return [TRANSFORMS.index(spec) for spec in calibrator.required_transforms]
