"""Vector, matrix, Dirichlet and structured scaling: definitions, golden values, options, hard data."""

import numpy as np
import pytest

from calcli.binning import BinStats, mass_edges, width_edges
from calcli.calibrator import Context
from calcli.errors import DataError, FitError
from calcli.methods._affine.fitting import (
    identity_map,
    solve,
    time_of_matrix_fits,
    uniform_ridge,
)
from calcli.methods._affine.objective import Walked, logits_as
from calcli.methods._affine.vector import DOUBLE_CLASSES, VectorObjective, solver_of
from calcli.numerics import log_softmax
from calcli.registry import method, parse_options
from calcli.rows import ArrayRows

ALL = ["vs", "ms", "dir", "ms-odir", "dir-odir", "svs", "sms"]


def fit(name, z, y, weight=None, seed=0, **options):
    rows = ArrayRows(z, y, weight=weight)
    return method(name).fit(
        rows,
        parse_options(name, {k.rstrip("_"): v for k, v in options.items()}),
        Context(seed),
    )


def predict(fitted, z):
    return fitted.calibrator.apply(next(ArrayRows(z, block_rows=len(z)).blocks()))


def nll(fitted, z, y):
    return -predict(fitted, z).log_probs[np.arange(len(y)), y].mean()


@pytest.fixture(scope="module")
def sample():
    """1200 rows of 5 classes, labels drawn from softmax(s * z + b): overconfident, biased."""
    rng = np.random.default_rng(11)
    z = 3.0 * rng.standard_normal((1200, 5))
    p = np.exp(
        log_softmax(
            z * np.array([0.3, 0.5, 0.4, 0.6, 0.5])
            + np.array([0.5, -0.5, 0.0, 0.2, -0.2])
        )
    )
    y = (p.cumsum(axis=1) < rng.random((1200, 1))).sum(axis=1)
    return z, y


# --- golden values -------------------------------------------------------------------------


def test_vector_scaling_on_resnet20(resnet20):
    """Rows 0..4999 to calibrate, the rest to test, no ridge.

    Values to the printed digits from an independent program (L-BFGS on the same objective).
    """
    z, y, z_test, y_test = resnet20
    fitted = fit("vs", z, y, ridge=0)
    prediction = predict(fitted, z_test)
    p = np.exp(prediction.log_probs)
    correct = (prediction.label == y_test).astype(float)
    one_hot = np.eye(100)[y_test]
    assert nll(fitted, z, y) == pytest.approx(1.093957, abs=5e-7)
    assert nll(fitted, z_test, y_test) == pytest.approx(1.13515, abs=5e-6)
    assert 1 - correct.mean() == pytest.approx(0.3202, abs=1e-9)
    assert ((p - one_hot) ** 2).sum(axis=1).mean() == pytest.approx(0.43236, abs=5e-6)
    width = BinStats.of(prediction.confidence, correct, width_edges(15))
    mass = BinStats.of(
        prediction.confidence, correct, mass_edges(prediction.confidence, 15)
    )
    assert np.abs(width.gaps) @ width.share == pytest.approx(0.02675, abs=5e-6)
    assert np.abs(width.gaps).max() == pytest.approx(0.06227, abs=5e-6)
    assert np.abs(mass.gaps) @ mass.share == pytest.approx(0.02505, abs=5e-6)


def stratified_halves(y, rng):
    first = []
    for c in np.unique(y):
        rows_of_class = rng.permutation(np.flatnonzero(y == c))
        first.append(rows_of_class[: len(rows_of_class) // 2])
    first = np.concatenate(first)
    return first, np.setdiff1d(np.arange(len(y)), first)


@pytest.mark.parametrize(
    ("name", "splits", "svs", "sms", "within"),
    [
        # NLL minus that of temperature scaling, from an independent float32 prototype, mean over
        # four stratified halves that are not ours. Over our halves (benchmarks/affine.py, 20 of
        # them) the differences have standard deviations of .0008, .0015, .0004 and .0007; the
        # tolerance is twice that of a difference of two means over the splits.
        ("cifar10_resnet20", 4, 0.2288 - 0.2307, 0.2266 - 0.2307, (1.2e-3, 2.2e-3)),
        ("cifar100_resnet20", 2, 1.1263 - 1.1286, 1.1253 - 1.1286, (8e-4, 1.3e-3)),
    ],
)
def test_structured_scaling_improves_on_temperature_as_measured(
    real, name, splits, svs, sms, within
):
    data = real(name)
    z, y = data["logits"], data["labels"]
    gains = []
    for seed in range(splits):
        a, b = stratified_halves(y, np.random.default_rng(seed))
        base = nll(fit("ts", z[a], y[a]), z[b], y[b])
        gains.append(
            [nll(fit(m, z[a], y[a]), z[b], y[b]) - base for m in ("svs", "sms")]
        )
    mine = np.mean(gains, axis=0)
    assert mine[0] == pytest.approx(svs, abs=within[0])
    assert mine[1] == pytest.approx(sms, abs=within[1])


# --- definitions ---------------------------------------------------------------------------


def test_structured_vector_scaling_solves_its_definition(sample):
    """The objective of the paper, written out, minimised by scipy's BFGS."""
    from scipy.optimize import minimize

    z, y = sample
    fitted = fit("svs", z, y).calibrator
    n, k = z.shape
    p = np.exp(log_softmax(z / fitted.temperature))
    assert fitted.smoothing == 1 / (n + 1)
    u = np.log((1 - fitted.smoothing) * p + fitted.smoothing / k)

    def objective(x):
        v, b = x[:k], x[k:]
        return -log_softmax((1 + v) * u + b)[np.arange(n), y].mean() + k / n * (
            v @ v + b @ b
        )

    best = minimize(objective, np.zeros(2 * k), method="BFGS", options={"gtol": 1e-7})
    ours = objective(np.concatenate([fitted.scale - 1, fitted.bias]))
    assert ours <= best.fun * (1 + 1e-8)
    assert fitted.scale == pytest.approx(1 + best.x[:k], abs=1e-4)


def test_structured_matrix_scaling_solves_its_definition(sample):
    from scipy.optimize import minimize

    z, y = sample
    fitted = fit("sms", z, y, lambda_=3).calibrator
    n, k = z.shape
    u = fitted.features(next(ArrayRows(z, block_rows=n).blocks()))
    off = 1 - np.eye(k)

    def objective(x):
        w, b = x[: k * k].reshape(k, k), x[k * k :]
        loss = -log_softmax(u + u @ w.T + b)[np.arange(n), y].mean()
        diagonal = np.diag(w) @ np.diag(w)
        return (
            loss
            + 3 * k / n * (diagonal + b @ b)
            + 3 * k * (k - 1) / n * (off * w**2).sum()
        )

    best = minimize(
        objective, np.zeros(k * k + k), method="BFGS", options={"gtol": 1e-7}
    )
    ours = objective(np.concatenate([(fitted.weight - np.eye(k)).ravel(), fitted.bias]))
    assert ours <= best.fun * (1 + 1e-8)


@pytest.mark.parametrize("name", ["svs", "sms"])
def test_absent_classes_get_what_the_ridge_gives_them(name, sample):
    """The objective of the paper with two classes that no row holds, minimised by scipy's L-BFGS."""
    from scipy.optimize import minimize

    z, y = sample
    z, y = z[:300], np.where(y[:300] >= 3, 0, y[:300])
    fitted = fit(name, z, y, lambda_=1.0).calibrator
    n, k = z.shape
    u = fitted.features(next(ArrayRows(z, block_rows=n).blocks()))
    all_rows = np.arange(n)
    weight = np.full((k, k), k * (k - 1) / n)
    np.fill_diagonal(weight, k / n)
    free = np.eye(k, dtype=bool) if name == "svs" else np.ones((k, k), dtype=bool)

    def objective(x):
        w, b = np.zeros((k, k)), x[-k:]
        w[free] = x[:-k]
        return (
            -log_softmax(u + u @ w.T + b)[all_rows, y].mean()
            + (weight * w**2).sum()
            + k / n * b @ b
        )

    best = minimize(
        objective,
        np.zeros(free.sum() + k),
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-14},
    )
    ours = np.diag(fitted.scale) if name == "svs" else fitted.weight
    assert (
        objective(np.concatenate([(ours - np.eye(k))[free], fitted.bias]))
        <= best.fun + 1e-9
    )
    assert fitted.bias == pytest.approx(best.x[-k:], abs=2e-3)
    assert fitted.bias[3:].max() < -0.3


def test_dirichlet_features_have_the_floor_of_the_authors():
    """softmax of (0, 100): p = 3.7e-44 is below 2.2e-16 = 2.2 * 10^-16: ln 2.2 - 16 ln 10."""
    from calcli.methods._affine.maps import log_probabilities

    x = log_probabilities(next(ArrayRows(np.array([[0.0, 100.0]])).blocks()))
    assert x[0] == pytest.approx(
        [0.78845736 - 16 * 2.30258509, 0.0], rel=1e-6, abs=1e-6
    )


def test_known_truth_is_recovered():
    """60000 rows drawn from softmax(a z + b). Standard errors of a are about .01."""
    rng = np.random.default_rng(5)
    a, b = np.array([0.5, 0.8, 1.2]), np.array([0.3, 0.0, -0.3])
    z = 2.0 * rng.standard_normal((60000, 3))
    p = np.exp(log_softmax(a * z + b))
    y = (p.cumsum(axis=1) < rng.random((60000, 1))).sum(axis=1)
    fitted = fit("vs", z, y).calibrator
    assert fitted.scale == pytest.approx(a, abs=0.04)
    assert fitted.bias == pytest.approx(b, abs=0.04)
    full = fit("ms", z, y).calibrator
    # The softmax does not see a row vector added to all rows of W: compare what it sees.
    assert full.weight - full.weight.mean(axis=0) == pytest.approx(
        np.diag(a) - np.diag(a).mean(axis=0), abs=0.04
    )


# --- options -------------------------------------------------------------------------------


def test_mean_and_sum_penalties_are_one_family(sample):
    """Kull et al.: lambda / (k (k - 1)) and mu / k against plain sums; k = 5."""
    z, y = sample
    mean = fit("dir-odir", z, y, lambda_=20.0, mu=5.0, final="refit").calibrator
    plain = fit(
        "dir-odir", z, y, lambda_=1.0, mu=1.0, penalty="sum", final="refit"
    ).calibrator
    assert mean.weight == pytest.approx(plain.weight, abs=1e-9)
    assert mean.bias == pytest.approx(plain.bias, abs=1e-9)


def test_odir_shrinks_what_it_names(sample):
    z, y = sample
    off = ~np.eye(5, dtype=bool)
    strong = fit("ms-odir", z, y, lambda_=1e6, mu=0.0, final="refit").calibrator
    assert np.abs(strong.weight[off]).max() < 1e-4
    assert np.abs(strong.bias).max() > 0.1
    strong = fit("ms-odir", z, y, lambda_=0.0, mu=1e6, final="refit").calibrator
    assert np.abs(strong.weight[off]).max() > 0.01
    assert np.abs(strong.bias).max() < 1e-4


def test_ensemble_is_the_mean_of_the_fold_models(sample):
    z, y = sample
    fitted = fit("dir-odir", z, y, folds=3).calibrator
    np.testing.assert_array_equal(fitted.weight, fitted.fold_weight.mean(axis=0))
    np.testing.assert_array_equal(fitted.bias, fitted.fold_bias.mean(axis=0))
    assert fitted.fold_weight.shape == (3, 5, 5)
    x = np.maximum(log_softmax(z), np.log(2.2e-16))
    folds = [
        np.exp(log_softmax(x @ w.T + b))
        for w, b in zip(fitted.fold_weight, fitted.fold_bias, strict=True)
    ]
    p = np.exp(fitted.apply(next(ArrayRows(z, block_rows=len(z)).blocks())).log_probs)
    assert p == pytest.approx(np.mean(folds, axis=0), abs=1e-14)


def test_cross_validation_takes_the_least_held_out_nll(sample):
    z, y = sample
    fitted = fit("ms-odir", z, y, final="refit")
    details = fitted.details
    assert (
        details["lambda"]
        == details["mu"]
        == details["grid"][int(np.argmin(details["cv_nll"]))]
    )
    assert fitted.calibrator.weight.shape == (5, 5)
    assert fitted.calibrator.fold_weight is None


def test_structured_lambda_by_cross_validation(sample):
    z, y = sample
    for name in ("svs", "sms"):
        details = fit(name, z, y, lambda_="cv").details
        assert details["lambda"] == details["grid"][int(np.argmin(details["cv_nll"]))]
    assert "cv_nll" not in fit("sms", z, y).details
    few = fit("sms", z[:90], y[:90])
    assert "cv_nll" in few.details
    assert any("svs serves better" in w for w in few.warnings)


def test_weights_count_as_repeated_rows(sample):
    z, y = sample
    z, y = z[:300], y[:300]
    times = np.random.default_rng(0).integers(0, 3, 300)
    for name, options in [
        ("vs", {}),
        ("ms", {}),
        ("dir", {}),
        ("dir-odir", {"lambda_": 1.0, "final": "refit"}),
    ]:
        weighted = fit(name, z, y, weight=times.astype(float), **options)
        repeated = fit(
            name, np.repeat(z, times, axis=0), np.repeat(y, times), **options
        )
        assert predict(weighted, z).log_probs == pytest.approx(
            predict(repeated, z).log_probs, rel=1e-6, abs=1e-6
        )


def test_weights_of_any_scale_mean_the_same(sample):
    z, y = sample
    w = np.random.default_rng(1).random(len(y))
    for name in ALL:
        a, b = fit(name, z, y, weight=w), fit(name, z, y, weight=1e3 * w)
        assert predict(a, z).log_probs == pytest.approx(
            predict(b, z).log_probs, rel=1e-6, abs=1e-6
        )


# --- hard data -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vs", "ms", "dir", "ms-odir", "dir-odir"])
def test_absent_classes_keep_temperature_scaling_and_bias_zero(name, sample):
    z, y = sample
    y = np.where(y == 2, 3, y)
    options = {"final": "refit"} if "odir" in name else {}
    fitted = fit(name, z, y, **options)
    temperature = fit("ts", z, y).calibrator.temperature
    bias = fitted.calibrator.bias
    assert bias[2] == 0.0
    assert bias.sum() == pytest.approx(0.0, abs=1e-9)
    if name == "vs":
        assert fitted.calibrator.scale[2] == pytest.approx(1 / temperature, rel=1e-9)
    else:
        assert fitted.calibrator.weight[2] == pytest.approx(
            np.eye(5)[2] / temperature, rel=1e-9
        )
    assert any(
        "classes without calibration rows (1 of 5)" in w for w in fitted.warnings
    )
    # A likelihood alone would send it to 0 everywhere.
    assert np.exp(predict(fitted, z).log_probs[:, 2]).mean() > 0.02


@pytest.mark.parametrize("name", ALL)
def test_one_class_only_leaves_the_scores_alone(name, sample):
    z, _ = sample
    fitted = fit(name, z, np.full(len(z), 3))
    assert fitted.status == "degenerate"
    if name not in ("svs", "sms"):
        expected = (
            np.maximum(log_softmax(z), np.log(2.2e-16))
            if "dir" in name and name != "ms-odir"
            else z
        )
        assert predict(fitted, z).log_probs == pytest.approx(
            log_softmax(expected), abs=1e-12
        )


@pytest.mark.parametrize("name", ["vs", "ms", "dir"])
def test_separable_rows_without_ridge_never_pass_for_an_optimum(name):
    rng = np.random.default_rng(2)
    y = rng.integers(0, 4, 60)
    z = 3 * np.eye(4)[y] + rng.random((60, 4))
    fitted = fit(name, z, y, ridge=0)
    value = nll(fitted, z, y)
    assert np.isfinite(predict(fitted, z).log_probs).all()
    # Either it says so, or it went so far that the remaining NLL is below rounding.
    assert fitted.status == "not_converged" or value < 1e-12
    assert fit(name, z, y).status == "ok"


def test_hinge_like_losses_are_still_solved():
    """Two rows, both badly wrong, under a ridge of 1e-6: plain Newton steps zigzag here."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(2, 6))
    z[0, 4] += 12
    z[1, 0] += 12
    fitted = fit("vs", z, np.array([0, 1]))
    assert fitted.status == "ok"
    assert fitted.details["optimality_gap"] < 1e-10


def test_more_parameters_than_rows_is_said():
    rng = np.random.default_rng(3)
    z, y = rng.standard_normal((90, 10)), rng.integers(0, 10, 90)
    for name, parameters in [("ms", 110), ("dir", 110), ("ms-odir", 110)]:
        warnings = fit(name, z, y).warnings
        assert any(
            w.startswith(f"{parameters} parameters on 90 rows") and "serves better" in w
            for w in warnings
        )
    assert not fit("vs", z, y).warnings


def test_hours_of_cross_validation_are_refused_with_the_reason():
    class Large:
        n, k = 25_000, 1000

    with pytest.raises(
        FitError, match=r"56 matrix fits of 25000 x 1000 scores .* hours .* use svs"
    ):
        time_of_matrix_fits(Large(), 56, "use svs")
    assert time_of_matrix_fits(Large(), 1, "") == " (about 22 min)"


@pytest.mark.parametrize("name", ["vs", "ms", "ms-odir"])
@pytest.mark.parametrize(
    "change", [lambda z: z + 1e15, lambda z: z * 1e308], ids=["level", "size"]
)
def test_logits_without_digits_for_their_differences_are_refused(name, change, sample):
    """Added to 1e15, logits keep three bits after the point; squares of 1e308 overflow."""
    z, y = sample
    with np.errstate(over="ignore"):
        z = np.clip(change(z), -1.7e308, 1.7e308)
    with pytest.raises(FitError, match="use svs, dir or dir-odir"):
        fit(name, z, y)


def test_a_search_over_more_classes_than_rows_is_cheap():
    """Three rows of 1000 classes: no Hessian of 2000 x 2000 is formed."""
    rng = np.random.default_rng(0)
    rows = ArrayRows(3 * rng.standard_normal((3, 1000)), np.array([5, 7, 900]))
    objective = VectorObjective(
        Walked(rows, logits_as).chunks(), uniform_ridge(1e-6, 1000, 2)
    )
    solution = solve(objective, identity_map(1000, 2), Context())
    assert solution.converged
    assert objective.solver is None


def test_the_search_stays_in_the_plane_of_the_optimum(sample):
    """A vector added to every row of W moves no probability: at the optimum the ridge's distances sum to 0."""
    z, y = sample
    fitted = fit("ms", z, y, ridge=0.01).calibrator
    assert (fitted.weight - np.eye(5)).sum(axis=0) == pytest.approx(
        np.zeros(5), abs=1e-9
    )
    assert fitted.bias.sum() == pytest.approx(0, abs=1e-9)


def test_impossible_parameters_are_refused():
    cls = method("dir-odir")
    with pytest.raises(DataError, match="either"):
        cls(np.eye(2), np.zeros(2), np.ones((1, 2, 2)), None).check(2)
    with pytest.raises(
        DataError, match=r"params.bias\[1\] is nan, expected a finite number"
    ):
        method("vs")(np.ones(2), np.array([0.0, np.nan])).check(2)
    with pytest.raises(DataError, match="temperature"):
        method("svs")(-1.0, 0.0, np.ones(2), np.zeros(2)).check(2)


# --- folds ---------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [DOUBLE_CLASSES, DOUBLE_CLASSES + 1])
def test_a_factored_hessian_solves_as_a_plain_one_does(k):
    """Small and large, and one that rounding has left with a direction of negative curvature."""
    rng = np.random.default_rng(0)
    root, g = rng.normal(size=(2 * k, 2 * k)), rng.normal(size=2 * k)
    curved = root @ root.T / k + np.eye(2 * k)
    for hessian in (curved, curved - 3 * np.outer(root[0], root[0]) / k):
        np.testing.assert_allclose(hessian @ solver_of(hessian)(g), g, atol=1e-8)
