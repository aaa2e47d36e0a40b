"""What every method promises, tested once for all of them on data with a known truth."""

import dataclasses
import warnings

import numpy as np
import pytest
from synthetic import DEGENERATE, predict, rows_of, truth

from calcli.calibrator import Context
from calcli.fitting.fit_warnings import risen_losses
from calcli.io.artifact import Artifact, FitRecord, dumps, loads
from calcli.metrics.collect import summarise
from calcli.registry import method, method_names, parse_options
from calcli.rows import ArrayRows, Rows

METHODS = (
    *(name for name in method_names() if method(name).composable),
    "ts+hb",
    "ft+svs+beta",
)
N, K = 600, 4

QUICK = {
    "recal": {"rounds": "6"},
    "cts": {"passes": "1"},
    "ms-odir": {"folds": "2"},
    "dir-odir": {"folds": "2"},
}


def settings(name):
    return QUICK.get(name, {})


def fit(name, rows, seed=0):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="raise", under="ignore"):
            return method(name).fit(
                rows, parse_options(name, settings(name)), Context(seed=seed)
            )


def as_json(name, fitted, k):
    return dumps(
        Artifact(
            method=name,
            options={} if name == "identity" else _options(name),
            calibrator=fitted.calibrator,
            n_classes=k,
            input_kind="logits",
            class_names=None,
            fit=FitRecord(
                n=1,
                status=fitted.status,
                warnings=list(fitted.warnings),
                details=dict(fitted.details),
            ),
        )
    )


def _options(name):
    import msgspec

    return msgspec.to_builtins(parse_options(name, settings(name)))


@pytest.fixture(scope="module")
def data():
    z, y = truth(N, K)
    return z, y, truth(200, K, seed=5)[0]


@pytest.fixture(scope="module")
def fitted(data):
    z, y, _ = data
    return {name: fit(name, rows_of(z, y)) for name in METHODS}


@pytest.mark.parametrize("name", METHODS)
def test_outputs_are_finite_probabilities(name, fitted, data):
    log_probs, label = predict(fitted[name].calibrator, rows_of(data[2], None))
    assert np.isfinite(log_probs).all()
    assert np.allclose(np.exp(log_probs).sum(axis=1), 1.0, atol=1e-12)
    assert ((label >= 0) & (label < K)).all()


@pytest.mark.parametrize("name", METHODS)
def test_same_seed_same_bytes(name, fitted, data):
    z, y, _ = data
    assert as_json(name, fit(name, rows_of(z, y)), K) == as_json(name, fitted[name], K)


@pytest.mark.parametrize("name", METHODS)
def test_artifact_round_trip_applies_identically(name, fitted, data):
    text = as_json(name, fitted[name], K)
    loaded = loads(text, "test")
    assert dumps(loaded) == text
    unseen = rows_of(data[2], None)
    for a, b in zip(
        predict(fitted[name].calibrator, unseen),
        predict(loaded.calibrator, unseen),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", METHODS)
def test_apply_does_not_see_blocks(name, fitted, data):
    z = data[2]
    whole = predict(fitted[name].calibrator, rows_of(z, None))
    parts = predict(fitted[name].calibrator, rows_of(z, None, block_rows=7))
    # BLAS and pairwise sums may order additions by shape: equality to a few ulps of log p.
    np.testing.assert_allclose(parts[0], whole[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(parts[1], whole[1])


@pytest.mark.parametrize("name", METHODS)
def test_fit_does_not_see_blocks(name, fitted, data):
    z, y, unseen = data
    parts = fit(name, rows_of(z, y, block_rows=83))
    a = np.exp(predict(fitted[name].calibrator, rows_of(unseen, None))[0])
    b = np.exp(predict(parts.calibrator, rows_of(unseen, None))[0])
    # Iterative fits stop at a gradient tolerance, whose effect on p is far below 1e-6.
    np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_row_order_is_irrelevant(name, fitted, data):
    z, y, unseen = data
    order = np.random.default_rng(3).permutation(N)
    rows = rows_of(z, y)
    shuffled = type(rows)(
        z[order],
        y[order],
        transformed=rows.transformed[:, order],
        transforms=rows.transforms,
    )
    a = np.exp(predict(fitted[name].calibrator, rows_of(unseen, None))[0])
    b = np.exp(predict(fit(name, shuffled).calibrator, rows_of(unseen, None))[0])
    np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("name", [m for m in METHODS if method(m).laws.keeps_argmax])
def test_predictions_are_kept_where_promised(name, fitted, data):
    log_probs, label = predict(fitted[name].calibrator, rows_of(data[2], None))
    np.testing.assert_array_equal(label, data[2].argmax(axis=1))
    if method(name).laws.monotone:
        np.testing.assert_array_equal(log_probs.argmax(axis=1), label)


@pytest.mark.parametrize(
    "name", [m for m in METHODS if method(m).laws.keeps_argmax and "+" not in m]
)
def test_predictions_assigned_upstream_are_kept_where_promised(name, fitted, data):
    calibrator = fitted[name].calibrator
    rows = rows_of(data[2], None)
    assigned = np.random.default_rng(6).integers(0, K, rows.n)
    wanted = [rows.transforms.index(spec) for spec in calibrator.required_transforms]
    for block in rows.blocks(wanted):
        here = assigned[block.start : block.start + len(block)]
        result = calibrator.apply(dataclasses.replace(block, assigned=here))
        np.testing.assert_array_equal(result.label, here)
        assert np.isfinite(result.log_probs).all()


@pytest.mark.parametrize("name", [m for m in METHODS if method(m).laws.shift_invariant])
def test_a_constant_per_row_is_irrelevant_where_promised(name, fitted, data):
    z, y, unseen = data
    shift = np.random.default_rng(4).normal(size=(N, 1)) * 5
    moved = rows_of(z, y)
    moved = type(moved)(
        z + shift, y, transformed=moved.transformed, transforms=moved.transforms
    )
    a = np.exp(predict(fitted[name].calibrator, rows_of(unseen, None))[0])
    base = rows_of(unseen, None)
    late = type(base)(
        unseen + 3.0, None, transformed=base.transformed, transforms=base.transforms
    )
    b = np.exp(predict(fit(name, moved).calibrator, late)[0])
    np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("name", [m for m in METHODS if method(m).laws.equivariant])
def test_relabelling_the_classes_commutes_where_promised(name, fitted, data):
    z, y, unseen = data
    order = np.array([2, 0, 3, 1])
    rows, late = rows_of(z, y), rows_of(unseen, None)
    moved = type(rows)(
        z[:, order],
        np.argsort(order)[y],
        transformed=rows.transformed[:, :, order],
        transforms=rows.transforms,
    )
    late_moved = type(late)(
        unseen[:, order],
        None,
        transformed=late.transformed[:, :, order],
        transforms=late.transforms,
    )
    a = np.exp(predict(fitted[name].calibrator, late)[0])[:, order]
    b = np.exp(predict(fit(name, moved).calibrator, late_moved)[0])
    np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("name", [m for m in METHODS if method(m).laws.improves_nll])
def test_training_nll_never_worse_where_promised(name, fitted, data):
    z, y, _ = data
    before = predict(method("identity")(), rows_of(z, y))[0]
    after = predict(fitted[name].calibrator, rows_of(z, y))[0]
    here = np.arange(N)
    assert -after[here, y].mean() <= -before[here, y].mean() + 1e-9


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", METHODS)
def test_narrow_floats_give_the_same_fit(name, dtype, data):
    z, y, unseen = data
    narrow = z.astype(dtype)
    same = narrow.astype(np.float64)
    a, b = fit(name, rows_of(narrow, y)), fit(name, rows_of(same, y))
    pa = np.exp(predict(a.calibrator, rows_of(unseen, None))[0])
    pb = np.exp(predict(b.calibrator, rows_of(unseen, None))[0])
    np.testing.assert_allclose(pa, pb, atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_inputs_are_not_written_to(name, data):
    z, y, _ = data
    rows = rows_of(z.copy(), y.copy())
    for array in (rows.scores, rows.y, rows.transformed):
        array.flags.writeable = False
    before = [array.copy() for array in (rows.scores, rows.y, rows.transformed)]
    predict(fit(name, rows).calibrator, rows)
    for array, was in zip((rows.scores, rows.y, rows.transformed), before, strict=True):
        np.testing.assert_array_equal(array, was)


@pytest.mark.parametrize("case", DEGENERATE, ids=[c[0] for c in DEGENERATE])
@pytest.mark.parametrize("name", METHODS)
def test_degenerate_data_do_no_harm(name, case):
    what, z, y = case
    rows = rows_of(z, y)
    fitted = fit(name, rows)
    assert fitted.status in ("ok", "at_bound", "no_root", "degenerate", "not_converged")
    if fitted.status != "ok":
        assert fitted.warnings, (
            f"{name} on {what}: status {fitted.status} without a word"
        )
    text = as_json(name, fitted, z.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log_probs, label = predict(loads(text, "test").calibrator, rows)
    assert np.isfinite(log_probs).all()
    assert np.allclose(np.exp(log_probs).sum(axis=1), 1.0, atol=1e-9)
    if method(name).laws.keeps_argmax:
        np.testing.assert_array_equal(label, z.argmax(axis=1))


@pytest.mark.parametrize("name", METHODS)
def test_probabilities_may_be_exactly_zero_and_one(name):
    rng = np.random.default_rng(2)
    p = rng.dirichlet([0.3] * 3, size=200)
    p[:30] = np.eye(3)[rng.integers(0, 3, 30)]
    y = rng.integers(0, 3, 200)
    log_probs, _ = predict(
        fit(name, rows_of(p, y, kind="probs")).calibrator, rows_of(p, y, kind="probs")
    )
    assert np.isfinite(log_probs).all()


@pytest.mark.parametrize("name", method_names())
def test_every_method_is_documented(name):
    cls = method(name)
    doc = cls.__doc__ or ""
    assert "Reference:" in doc, f"{name}: no reference in the docstring"
    assert doc.split("\n", 1)[0].strip().endswith(".")
    assert dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen


def test_rows_are_a_protocol_of_blocks(data):
    z, y, _ = data
    rows = rows_of(z, y)
    assert isinstance(rows, Rows)
    part = rows.take(np.arange(0, N, 3))
    np.testing.assert_array_equal(
        np.concatenate([b.scores for b in part.blocks()]), z[::3]
    )
    np.testing.assert_array_equal(part.labels(), y[::3])


def test_methods_recommended_against_a_worse_nll_promise_not_to_worsen_it():
    rows = ArrayRows(np.eye(2), np.arange(2))
    summary = summarise(rows, None, Context().progress)
    worse = dataclasses.replace(summary, nll=summary.nll + 1.0)
    (sentence,) = risen_losses(summary, worse, nll_is_reported=False)
    named = (
        sentence.split("; ")[1]
        .replace(" and ", ", ")
        .removesuffix(" never worsen it")
        .split(", ")
    )
    assert all(method(name).laws.improves_nll for name in named)


@pytest.mark.parametrize("name", [m for m in METHODS if method(m).laws.class_shares])
def test_mean_probabilities_are_the_class_shares_where_promised(name):
    """Within a standard error of the shares, (.25 / n)^.5, on rows whose scores favour a class too little."""
    k = 2 if method(name).laws.top_label_only else 4
    z, y = truth(1500, k, seed=3)
    y = np.where(np.random.default_rng(4).random(1500) < 0.2, 1, y)
    rows = rows_of(z, y)
    calibrator = method(name).fit(rows, method(name).Options(), Context()).calibrator
    log_p, _ = predict(calibrator, rows)
    shares = np.bincount(y, minlength=k) / 1500
    assert np.abs(np.exp(log_p).mean(axis=0) - shares).max() < (0.25 / 1500) ** 0.5
