"""Methods that calibrate one probability at a time: maps, modes, and data that leave nothing to fit."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression as SklearnIsotonic
from sklearn.isotonic import isotonic_regression
from sklearn.linear_model import LogisticRegression
from synthetic import fit

from calcli.binning import mass_edges
from calcli.errors import DataError, FitError
from calcli.io.artifact_params import decode_params, encode_params
from calcli.isotonic import PooledOutcomes, fit_isotonic
from calcli.methods._binary.log_odds import Sample, clipped_log_odds, fit_logistic
from calcli.methods._binary.marginals import logs, share_rest
from calcli.methods.beta import fit_beta
from calcli.methods.compared.bbq import all_binnings, elbow, fit_bbq
from calcli.methods.hb import fit_edges
from calcli.methods.platt import fit_platt
from calcli.methods.spline import spline_slope
from calcli.registry import method
from calcli.rows import ArrayRows

pytestmark = pytest.mark.filterwarnings("error")

MODAL = (
    "platt",
    "beta",
    "quadratic",
    "logit-spline",
    "hb",
    "ir",
    "bbq",
    "sb",
    "spline",
)
CASES = [
    *((name, {"mode": mode}) for name in MODAL for mode in ("top", "ova", "marginal")),
    ("hb", {"mode": "top", "scheme": "mass"}),
    ("hb", {"mode": "ova", "scheme": "mass", "smooth": "true"}),
    ("platt", {"mode": "ova", "smooth": "true"}),
    ("beta", {"mode": "ova", "variant": "am"}),
    ("beta", {"mode": "ova", "variant": "ab"}),
    ("bbq", {"mode": "ova", "prior": "bdeu"}),
    ("bbq", {"mode": "ova", "theta": "official", "prune": "elbow"}),
    ("platt", {"mode": "ova", "loss": "brier"}),
    *(("sb", {"base": base}) for base in ("ts", "beta")),
    ("sb", {"mode": "ova", "split": "thirds"}),
    ("irm", {}),
    ("irova", {}),
    ("irova-ts", {}),
]


def apply(calibrator, rows):
    parts = [calibrator.apply(block) for block in rows.blocks()]
    log_probs = np.concatenate([part.log_probs for part in parts])
    return log_probs, np.concatenate([part.label for part in parts])


def synthetic(n=400, k=5, seed=0):
    """Over-confident logits: labels drawn from softmax(z / 2)."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 4.0
    p = np.exp(z / 2)
    p /= p.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return z, np.minimum(y, k - 1)


def binary(n=500, seed=0, ties=False):
    """Scores in (0, 1) and outcomes that follow them, a little."""
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    if ties:
        p = np.round(p, 1)
    return p, (rng.random(n) < 0.2 + 0.6 * p**2).astype(float)


def log_odds(p):
    return clipped_log_odds(np.asarray(p, dtype=float), 1e-12)


def sample(p, hit):
    return Sample(log_odds(p), hit)


def hostile():
    """Data that leave little or nothing to fit, by name."""
    z, y = synthetic(60, 4)
    rng = np.random.default_rng(1)
    right = z.argmax(axis=1)
    yield "absent class", z, np.where(y == 2, 1, y)
    yield "one class", z, np.full(60, 3)
    yield "all right", z, right
    yield "all wrong", z, (right + 1) % 4
    yield "all logits equal", np.zeros((60, 4)), y
    yield "few distinct logits", np.round(z / 8), y
    yield "huge logits", np.round(z) * 1e4, y
    yield "confidence exactly 1", np.where(np.arange(4) == right[:, None], 1e5, 0.0), y
    yield "one row", z[:1], y[:1]
    yield "two rows", z[:2], np.array([0, 1])
    yield "fewer rows than classes", rng.normal(size=(20, 50)), rng.integers(0, 50, 20)
    yield "two classes", z[:, :2], y % 2
    yield "a thousand classes", rng.normal(size=(30, 1000)), rng.integers(0, 1000, 30)
    yield "confidence separates right from wrong", *separated()
    yield "separated the wrong way round", *separated(backwards=True)


def separated(backwards=False):
    """Rows whose confidence is above a threshold exactly when they are right (or wrong)."""
    z = np.zeros((40, 3))
    z[:, 0] = np.linspace(0.5, 6.0, 40)
    above = np.arange(40) >= 20
    return z, np.where(above != backwards, 0, 1)


HOSTILE = {what: (z, y) for what, z, y in hostile()}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_data_that_leave_nothing_to_fit_do_no_harm(what, name, options):
    z, y = HOSTILE[what]
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        fitted = fit(name, ArrayRows(z, y), **options)
        log_probs, label = apply(fitted.calibrator, ArrayRows(z))
        other, _ = apply(fitted.calibrator, ArrayRows(-z))
    for out in (log_probs, other):
        assert np.isfinite(out).all()
        np.testing.assert_allclose(np.exp(out).sum(axis=1), 1.0, atol=1e-12)
    if options.get("mode") == "top" or fitted.calibrator.laws.keeps_argmax:
        np.testing.assert_array_equal(label, z.argmax(axis=1))
    again = decode_params(method(name), encode_params(fitted.calibrator), z.shape[1])
    np.testing.assert_array_equal(apply(again, ArrayRows(z))[0], log_probs)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_how_rows_are_cut_into_blocks_changes_no_bit(name, options):
    z, y = synthetic()
    whole = fit(name, ArrayRows(z, y), **options).calibrator
    pieces = fit(name, ArrayRows(z, y, block_rows=7), **options).calibrator
    # a sum over blocks, good to 1e-10
    if encode_params(whole).get("temperature") is None:
        assert encode_params(whole) == encode_params(pieces)
    np.testing.assert_array_equal(
        apply(whole, ArrayRows(z))[0], apply(whole, ArrayRows(z, block_rows=1))[0]
    )


@pytest.mark.parametrize(("name", "options"), CASES)
def test_input_is_not_written_to(name, options):
    z, y = synthetic(50, 3)
    for scores in (z, np.asfortranarray(z), z[:1]):
        before = scores.copy()
        scores.flags.writeable = False
        calibrator = fit(
            name, ArrayRows(scores, y[: len(scores)]), **options
        ).calibrator
        apply(calibrator, ArrayRows(scores))
        np.testing.assert_array_equal(scores, before)


@pytest.mark.parametrize(
    "name", ["platt", "beta", "hb", "ir", "sb", "irm", "irova", "irova-ts"]
)
@pytest.mark.parametrize("options", [{}, {"mode": "ova"}, {"scheme": "mass"}])
def test_a_weight_of_two_is_a_row_twice_and_of_zero_no_row(name, options):
    names = set(method(name).Options.__struct_encode_fields__)
    if not set(options) <= names:
        options = {}
    z, y = synthetic(300, 4, seed=3)
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    repeat = np.repeat(np.arange(len(y)), weight.astype(int))
    weighted = fit(name, ArrayRows(z, y, weight=weight), **options).calibrator
    repeated = fit(name, ArrayRows(z[repeat], y[repeat]), **options).calibrator
    np.testing.assert_allclose(
        apply(weighted, ArrayRows(z))[0],
        apply(repeated, ArrayRows(z))[0],
        rtol=1e-7,
        atol=1e-9,
    )


def test_weights_of_zero_only_are_refused():
    z, y = synthetic(20, 3)
    for name in ("platt", "irm"):
        with pytest.raises(FitError, match="all sample weights are 0"):
            fit(name, ArrayRows(z, y, weight=np.zeros(20)))


# ---- vectors


def test_top_modes_keep_the_label_and_the_odds_of_the_rest():
    z = np.array([[2.0, 1.0, 0.0], [0.0, 900.0, 1.0], [5.0, 5.0, 5.0]])
    label = np.array([0, 1, 0])
    out = share_rest(z, label, *logs(np.array([0.5, 1.0 - 1e-15, 0.0])))
    np.testing.assert_allclose(
        np.exp(out[0]), [0.5, 0.5 / (1 + np.exp(-1)), 0.5 / (1 + np.exp(1))], rtol=1e-14
    )
    # 1 - p has no digits left in the second row; the odds of its rest are exact all the same.
    np.testing.assert_allclose(out[1, 2] - out[1, 0], 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.exp(out[2]), [0.0, 0.5, 0.5], atol=1e-300)


def test_rows_of_zeros_stay_uncalibrated_and_are_counted():
    # Scores of class 2 beyond every right answer's reach: isotonic maps give 0 everywhere.
    z, y = synthetic(200, 3, seed=5)
    calibrator = fit("ir", ArrayRows(z, y), mode="ova").calibrator
    flat = type(calibrator)(
        calibrator.scores, tuple(np.zeros_like(v) for v in calibrator.values)
    )
    block = next(ArrayRows(z[:9]).blocks())
    out = flat.apply(block)
    assert out.counts["zero_rows"] == 9
    p = np.exp(z[:9] - z[:9].max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        np.exp(out.log_probs), p / p.sum(axis=1, keepdims=True), rtol=1e-13
    )
    np.testing.assert_array_equal(out.label, z[:9].argmax(axis=1))


@pytest.mark.parametrize("name", [*MODAL, "irova", "irova-ts"])
def test_an_absent_class_keeps_its_probability_before_normalising_and_is_told(name):
    z, y = synthetic(300, 4)
    y = np.where(y == 2, 3, y)
    fitted = fit(name, ArrayRows(z, y), **({"mode": "ova"} if name in MODAL else {}))
    assert (
        "classes without calibration rows (1 of 4): each is left as it was"
        in fitted.warnings
    )
    block = next(ArrayRows(z[:20]).blocks())
    tempered = fitted.calibrator.seen(block).z
    p = np.exp(tempered - tempered.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    # irova adds 1e-9 p; nothing else may move it.
    np.testing.assert_allclose(
        fitted.calibrator.marginals(block)[:, 2], p[:, 2], rtol=2e-9
    )


def test_marginal_values_are_those_of_ova_before_the_division():
    z, y = synthetic()
    fitted = fit("sb", ArrayRows(z, y), mode="marginal").calibrator
    block = next(ArrayRows(z).blocks())
    q = fitted.marginals(block)
    np.testing.assert_allclose(
        np.exp(fitted.apply(block).log_probs),
        q / q.sum(axis=1, keepdims=True),
        rtol=1e-12,
    )
    assert all(len(np.unique(q[:, c])) <= 15 for c in range(5))


def test_irm_keeps_the_order_of_the_classes():
    z, y = synthetic(500, 6)
    calibrator = fit("irm", ArrayRows(z, y)).calibrator
    near = np.array([[1.0, 1.0 + 1e-12, 0.0], [0.0, 3.0, 3.0 + 1e-9], [0.0, 0.0, 0.0]])
    for scores in (z, near):
        log_probs, label = apply(calibrator, ArrayRows(scores))
        np.testing.assert_array_equal(log_probs.argmax(axis=1), scores.argmax(axis=1))
        np.testing.assert_array_equal(label, scores.argmax(axis=1))


# ---- isotonic


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_isotonic_equals_scikit_learn(ties, weighted):
    p, hit = binary(ties=ties)
    weight = np.random.default_rng(2).integers(1, 5, len(p)) / 4.0 if weighted else None
    x, y = fit_isotonic(p, hit, weight).knots
    oracle = SklearnIsotonic(out_of_bounds="clip").fit(p, hit, sample_weight=weight)
    places = np.concatenate([p, np.linspace(-0.1, 1.1, 101)])
    np.testing.assert_allclose(
        np.interp(places, x, y), oracle.predict(places), atol=1e-13
    )
    assert (np.diff(x) > 0).all()
    assert (np.diff(y) >= 0).all()


def test_isotonic_pools_negatives_between_positives_exactly():
    # The pooled sums of 0/1 outcomes equal a plain pool-adjacent-violators over all rows.
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 60))
        p, hit = rng.permutation(n) / n, (rng.random(n) < rng.random()).astype(float)
        x, y = fit_isotonic(p, hit).knots
        order = np.argsort(p)
        np.testing.assert_allclose(
            np.interp(p[order], x, y), isotonic_regression(hit[order]), atol=1e-14
        )


def test_isotonic_of_negatives_added_in_pieces():
    p, hit = binary(ties=True)
    pooled = PooledOutcomes(p[hit > 0])
    for part in np.array_split(p[hit == 0], 7):
        pooled.add_negative(part)
    for got, expected in zip(
        pooled.fit().knots, fit_isotonic(p, hit).knots, strict=True
    ):
        np.testing.assert_array_equal(got, expected)


def test_irm_is_isotonic_regression_of_all_pairs():
    z, y = synthetic(200, 5)
    calibrator = fit("irm", ArrayRows(z, y, block_rows=13)).calibrator
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    # scikit-learn merges scores closer than 1e-15, we only equal ones; none are so close here.
    oracle = SklearnIsotonic(out_of_bounds="clip").fit(p.ravel(), np.eye(5)[y].ravel())
    np.testing.assert_allclose(
        np.interp(p, calibrator.scores, calibrator.values),
        oracle.predict(p.ravel()).reshape(p.shape),
        atol=1e-12,
    )


# ---- logistic fits


def test_logistic_is_at_the_optimum_in_any_unit():
    p, hit = binary()
    design = np.stack([log_odds(p), np.ones(len(p))])
    oracle = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky").fit(
        design[:1].T, hit
    )
    for unit in (1e-6, 1.0, 1e6):
        fitted = fit_logistic(design * [[unit], [1.0]], hit)
        assert fitted.status == "ok"
        np.testing.assert_allclose(
            fitted.x * [unit, 1.0],
            [oracle.coef_[0, 0], oracle.intercept_[0]],
            rtol=1e-8,
        )


def test_platt_smoothing_equals_a_fit_to_platts_targets():
    p, hit = binary(60)
    n1, n0 = hit.sum(), (1 - hit).sum()
    slope, intercept = fit_platt(sample(p, hit), smooth=True).params
    # Soft targets are a weighted fit of both outcomes for every row.
    high, low = (n1 + 1) / (n1 + 2), 1 / (n0 + 2)
    target = np.where(hit > 0, high, low)
    x = np.concatenate([log_odds(p), log_odds(p)])[:, None]
    oracle = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky").fit(
        x, np.repeat([1, 0], len(p)), sample_weight=np.concatenate([target, 1 - target])
    )
    np.testing.assert_allclose(
        [slope, intercept], [oracle.coef_[0, 0], oracle.intercept_[0]], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("hit", "constant"),
    [
        ([1, 1, 1, 1], 5 / 6),  # (n1 + 1) / (n + 2) with n1 = n = 4
        ([0, 0, 0, 0], 1 / 6),
        ([0, 0, 1, 1], 1 / 2),
        ([1, 1, 1, 0], 2 / 3),
        ([0, 1, 1, 1], 2 / 3),
    ],
)
@pytest.mark.parametrize("fit_one", [fit_platt, fit_beta])
def test_no_optimum_gives_the_constant_of_platt(hit, constant, fit_one):
    one = fit_one(sample([0.2, 0.4, 0.6, 0.8], np.array(hit, dtype=float)))
    assert one.status == "degenerate"
    assert one.note
    assert set(one.params[:-1]) == {0.0}
    assert one.params[-1] == pytest.approx(np.log(constant / (1 - constant)), abs=1e-14)


def test_a_separable_class_among_many_is_not_forgotten():
    # One-vs-all, class 0 is always sure and right: a constant would give it to nobody.
    z, y = synthetic(300, 3)
    y = np.where(y == 0, 1, y)
    z[:30, 0], y[:30], z[30:, 0] = 30.0, 0, -30.0
    for name in ("platt", "beta"):
        fitted = fit(name, ArrayRows(z, y), mode="ova")
        assert any("smoothed targets: class 0" in w for w in fitted.warnings)
        assert (apply(fitted.calibrator, ArrayRows(z))[1][:30] == 0).all()


def test_negative_slope_is_told():
    rng = np.random.default_rng(0)
    p = rng.random(400)
    one = fit_platt(sample(p, (rng.random(400) > p).astype(float)))
    assert one.params[0] < 0
    assert "negative" in one.note


@pytest.mark.parametrize("variant", ["abm", "am", "ab"])
@pytest.mark.parametrize("seed", range(6))
def test_beta_is_the_best_of_its_nonnegative_family(variant, seed):
    # Oracle: scipy's bounded minimiser on the same loss; both are convex, so one optimum.
    from scipy.optimize import minimize

    rng = np.random.default_rng(seed)
    p = rng.random(200)
    truth = [
        p**3,
        1 - (1 - p) ** 3,
        np.full(200, 0.4),
        1 - p,
        0.5 + 0.4 * np.sin(6 * p),
        p,
    ][seed]
    hit = (rng.random(200) < truth).astype(float)
    a, b, c = fit_beta(sample(p, hit), variant).params
    assert a >= 0
    assert b >= 0
    log_p, rest = np.log(p), -np.log1p(-p)

    def loss(v):
        a, b, c = {
            "abm": v,
            "am": (v[0], v[0], v[1]),
            "ab": (v[0], v[1], np.log(2) * (v[0] - v[1])),
        }[variant]
        u = c + a * log_p + b * rest
        return np.mean(np.logaddexp(0, u) - hit * u)

    size = {"abm": 3, "am": 2, "ab": 2}[variant]
    bounds = [(0, None)] * (1 if variant == "am" else 2) + [(None, None)] * (
        0 if variant == "ab" else 1
    )
    best = minimize(
        loss,
        np.full(size, 0.5),
        bounds=bounds,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-9},
    )
    ours = loss({"abm": (a, b, c), "am": (a, c), "ab": (a, b)}[variant])
    assert ours <= best.fun + 1e-12
    assert ours == pytest.approx(best.fun, rel=1e-8)


def test_nonnegative_fit_may_end_with_every_coefficient_at_zero():
    p, hit = binary(200)
    log_p, rest = np.log(1 - p), -np.log(p)  # turned round, so both want to be negative
    fitted = fit_logistic(
        np.stack([log_p, rest, np.ones(200)]), hit, low=np.array([0.0, 0.0, -np.inf])
    )
    np.testing.assert_allclose(
        fitted.x, [0.0, 0.0, np.log(hit.mean() / (1 - hit.mean()))], atol=1e-9
    )


# ---- bins


def test_histogram_of_a_hand_sized_case():
    # Confidences .45 .45 .55 .55 .95 with outcomes 0 1 1 1 1, two bins: shares 1/2 and 1.
    z = np.log(
        np.array(
            [[0.45, 0.30, 0.25]] * 2 + [[0.55, 0.25, 0.20]] * 2 + [[0.95, 0.03, 0.02]]
        )
    )
    calibrator = fit("hb", ArrayRows(z, np.array([1, 0, 0, 0, 0])), bins=2).calibrator
    np.testing.assert_array_equal(calibrator.edges, [0.0, 0.5, 1.0])
    np.testing.assert_allclose(calibrator.values, [0.5, 1.0])
    smooth = fit(
        "hb", ArrayRows(z, np.array([1, 0, 0, 0, 0])), bins=2, smooth="true"
    ).calibrator
    np.testing.assert_allclose(smooth.values, [(1 + 0.25) / 3, (3 + 0.75) / 4])
    empty = fit("hb", ArrayRows(z, np.array([1, 0, 0, 0, 0])), bins=4).calibrator
    # nothing at or below 1/4: its midpoint
    np.testing.assert_allclose(empty.values, [0.125, 0.5, 1.0, 1.0])


def test_an_equal_mass_edge_never_sits_on_a_score():
    p = np.array([0.1, 0.3, 0.3, 0.3, 0.5, 0.9])
    np.testing.assert_allclose(mass_edges(p, 2), [0.0, 0.3, 1.0])
    np.testing.assert_allclose(fit_edges(p, None, 2, "mass"), [0.0, 0.4, 1.0])
    tied = np.full(9, 0.7)
    np.testing.assert_allclose(fit_edges(tied, None, 3, "mass"), [0.0, 0.85, 1.0])


@pytest.mark.parametrize("bins", [1, 2, 3, 7, 50])
def test_equal_mass_edges_with_whole_weights_are_those_of_repeated_rows(bins):
    rng = np.random.default_rng(bins)
    p, weight = np.round(rng.random(30), 2), rng.integers(1, 5, 30).astype(float)
    repeated = np.repeat(p, weight.astype(int))
    np.testing.assert_array_equal(
        mass_edges(p, bins, weight), mass_edges(repeated, bins)
    )


def test_equal_mass_edges_with_fractional_weights_share_them_evenly():
    p = np.linspace(0.005, 0.995, 100)
    weight = np.where(p < 0.5, 0.3, 0.1)
    edges = mass_edges(p, 4, weight)
    share = [weight[(p > lo) & (p <= hi)].sum() for lo, hi in pairwise(edges)]
    np.testing.assert_allclose(share, weight.sum() / 4, atol=0.3)


def test_warnings_name_a_better_method():
    z, y = synthetic(100, 20)
    warnings = fit("hb", ArrayRows(z, y), mode="ova", scheme="mass").warnings
    assert any("per bin" in w and "platt" in w for w in warnings)
    assert any("ruins accuracy" in w and "mode=top" in w for w in warnings)
    assert any(
        "per class" in w and "ts" in w
        for w in fit("ir", ArrayRows(z, y), mode="ova").warnings
    )
    assert fit("hb", ArrayRows(*synthetic(400, 5))).warnings == ()


# ---- Bayesian binning


def naive_bbq(p, hit):
    """Bayesian binning written out bin by bin, with the gamma function of the standard library."""
    from math import ceil, floor, lgamma

    order = np.argsort(p)
    s, h = p[order], hit[order]
    n = len(s)
    models = []
    for bins in range(
        max(1, floor(n ** (1 / 3) / 10)), min(ceil(n / 5), ceil(10 * n ** (1 / 3))) + 1
    ):
        size = n // bins
        cuts = [0, *(b * size for b in range(1, bins)), n]
        cuts = [c for c in cuts if c in (0, n) or s[c - 1] < s[c]]
        evidence, rows = 0.0, []
        for lo, hi in pairwise(cuts):
            left = 0.0 if lo == 0 else (s[lo - 1] + s[lo]) / 2
            right = 1.0 if hi == n else (s[hi - 1] + s[hi]) / 2
            middle = min(max((left + right) / 2, 0.005), 0.995)
            a, b, m, count = 2 * middle, 2 * (1 - middle), h[lo:hi].sum(), hi - lo
            evidence += (
                lgamma(2)
                - lgamma(count + 2)
                + lgamma(m + a)
                - lgamma(a)
                + lgamma(count - m + b)
                - lgamma(b)
            )
            rows.append((right, (m + a) / (count + 2)))
        models.append((evidence, rows))
    top = max(e for e, _ in models)
    weights = np.array([np.exp(e - top) for e, _ in models])
    weights /= weights.sum()
    return lambda x: sum(
        w * next(v for right, v in rows if x <= right)
        for w, (_, rows) in zip(weights, models, strict=True)
    )


@pytest.mark.parametrize("ties", [False, True])
def test_bbq_equals_its_formula_bin_by_bin(ties):
    p, hit = binary(150, ties=ties)
    calibrator_edges, values, _, _ = fit_bbq(
        sample(p, hit), "midpoint", "posterior", "weight"
    )
    oracle = naive_bbq(p, hit)
    for x in np.linspace(0.001, 1.0, 57):
        in_bins = values[np.searchsorted(calibrator_edges[1:-1], x)]
        # dropped models weigh at most 1e-12 each
        assert in_bins == pytest.approx(oracle(x), abs=1e-10)


def test_bbq_binnings_are_those_of_the_paper():
    # n = 5000: n^(1/3) = 17.1, so B = 1 .. 171.
    cut, first = all_binnings(5000)
    np.testing.assert_array_equal(np.diff(first), np.arange(1, 172))
    assert cut[-1] == 170 * (5000 // 171)


def test_the_fewest_bins_of_bbq_grow_with_the_rows():
    # n = 9000: n^(1/3) = 20.8, so B = floor(2.08) .. ceil(208.01); n = 700: B = 1 .. ceil(88.8); n = 20: 1 .. 20 / 5.
    for n, least, most in ((9000, 2, 209), (700, 1, 89), (20, 1, 4)):
        np.testing.assert_array_equal(
            np.diff(all_binnings(n)[1]), np.arange(least, most + 1)
        )


def test_elbow_keeps_models_before_the_fall_flattens():
    # Variance of these is 0.1476; the fall from 0.1 to 0.09999 is less than 0.001 of it.
    kept = elbow(np.array([0.1, 1.0, 0.09999, 0.5, 0.0999]))
    np.testing.assert_array_equal(kept, [False, True, False, True, False])
    assert elbow(np.ones(3)).sum() >= 1
    assert elbow(np.ones(1)).sum() == 1


# ---- splines


def test_spline_slope_of_a_straight_line_and_against_scipy():
    from scipy.interpolate import CubicSpline

    t = np.linspace(0, 1, 200)
    np.testing.assert_allclose(spline_slope(0.3 * t - 0.1, 6), 0.3, atol=1e-12)
    # A natural spline with these knots is its own least-squares fit.
    natural = CubicSpline(
        np.linspace(0, 1, 6), [0.0, 0.02, -0.03, 0.05, 0.01, 0.0], bc_type="natural"
    )
    np.testing.assert_allclose(spline_slope(natural(t), 6), natural(t, 1), atol=1e-11)


def test_spline_thinned_stays_close_and_ties_become_one_point():
    z, y = synthetic(3000, 5)
    full, thin = (
        fit("spline", ArrayRows(z, y), points=points).calibrator
        for points in (10_000, 300)
    )
    grid = np.linspace(full.scores[0], full.scores[-1], 1000)
    assert len(thin.scores) == 300
    assert (
        np.abs(
            np.interp(grid, full.scores, full.values)
            - np.interp(grid, thin.scores, thin.values)
        ).max()
        < 1e-3
    )
    rounded = fit("spline", ArrayRows(np.round(z), y)).calibrator
    assert (np.diff(rounded.scores) > 0).all()


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 2, 0, 3, 1]])
def test_equal_confidences_enter_the_spline_with_their_mean_outcome(order):
    """By hand: outcomes are .1 above either confidence on average, so the h are .02, .04 to .1 at t = 0, 1/4 to 1,
    a straight line of slope .08, whatever the order of the rows."""
    confidence, hit = (
        np.array([0.5, 0.5, 0.5, 0.6, 0.6]),
        np.array([0.3, 0.8, 0.7, 0.5, 0.9]),
    )
    Spline = method("spline")
    sample = Sample(np.log(confidence / (1 - confidence)), hit).part(np.array(order))
    scores, values = Spline.fit_map(sample, Spline.Options(knots=3)).params
    np.testing.assert_allclose(scores, [0.5, 0.6], atol=1e-12)
    np.testing.assert_allclose(values, [0.58, 0.68], atol=1e-12)


# ---- artifacts that no fit could have produced


@pytest.mark.parametrize(
    ("name", "params", "match"),
    [
        ("hb", {"edges": [0, 0.5, 1], "values": [0.1, 1.5]}, "between 0 and 1"),
        ("hb", {"edges": [0, 0.5, 1], "values": [0.1]}, "edges"),
        ("hb", {"edges": [0, 0.7, 0.5, 1], "values": [0.1, 0.2, 0.3]}, "rise"),
        (
            "hb",
            {"edges": [[0, 1], [0, 1]], "values": [[0.5], [0.5]]},
            "expected 1 or one for each of 3",
        ),
        ("hb", {"edges": [[0, 1], [0, 1], [0, 1]], "values": [0.5]}, "1 and 3 maps"),
        ("ir", {"scores": [0.5, 0.5], "values": [0.1, 0.2]}, "do not rise"),
        ("ir", {"scores": [0.4, 0.5], "values": [0.1]}, "2 scores and 1 values"),
        (
            "ir",
            {"scores": [0.4, None], "values": [0.1, 0.2]},
            r"scores\[1\] is nan, expected a finite number",
        ),
        (
            "irm",
            {"scores": [[0.5]], "values": [[0.5]]},
            r"scores is no array of float64: .* at `\$\[0\]`",
        ),
        ("irm", {"scores": [], "values": []}, "at least one"),
        (
            "irova",
            {"scores": [0.5], "values": [0.5]},
            "there are 1 maps, expected one for each of 3",
        ),
        (
            "spline",
            {"mode": "top", "scores": [[0.5]] * 3, "values": [[0.5]] * 3},
            "3 maps, expected 1",
        ),
        (
            "ir",
            {"mode": "binary", "scores": [0.5], "values": [0.5]},
            "'binary' for 3 classes",
        ),
        (
            "ir",
            {"mode": "some", "scores": [0.5], "values": [0.5]},
            "'some', expected binary, top, ova or marginal",
        ),
        (
            "platt",
            {"slope": [1.0], "intercept": [None]},
            r"intercept\[0\] is nan, expected a finite number",
        ),
        ("platt", {"slope": [1.0, 1.0], "intercept": [0.0, 0.0]}, "one for each of 3"),
        (
            "beta",
            {"a": [-1.0], "b": [1.0], "c": [0.0]},
            r"a\[0\] is -1.0, expected a number from 0",
        ),
        (
            "sb",
            {
                "slope": [1.0],
                "intercept": [0.0],
                "edges": [0, 1],
                "values": [0.5],
                "temperature": 0.0,
            },
            "temperature",
        ),
        (
            "irova-ts",
            {"scores": [[0.5]] * 3, "values": [[0.5]] * 3, "temperature": -1.0},
            "temperature",
        ),
    ],
)
def test_parameters_that_cannot_be_are_refused(name, params, match):
    with pytest.raises(DataError, match=match):
        decode_params(method(name), params, 3)
