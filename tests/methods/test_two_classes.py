"""Two classes: P(class 1) from the exact log-odds, by the commands and against independent programs."""

import json

import h5py
import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from synthetic import fit

from calcli.io.artifact import load
from calcli.methods._binary.log_odds import one_vs_rest_log_odds, top_log_odds
from calcli.rows import ArrayRows

FAMILY = (
    "platt",
    "beta",
    "quadratic",
    "logit-spline",
    "ir",
    "hb",
    "bbq",
    "sb",
    "spline",
)


def biased(n=2000, seed=0, bias=1.5, sharp=2.0):
    """A two-class model that is twice too sure and whose logits carry a bias."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=n) * 2
    y = (rng.random(n) < 1 / (1 + np.exp(-s))).astype(np.int64)
    shift = rng.normal(size=(n, 1))
    return np.stack([np.zeros(n), sharp * s + bias], axis=1) + shift, y


def probabilities(calibrator, z):
    parts = [calibrator.apply(block) for block in ArrayRows(z).blocks()]
    return np.exp(np.concatenate([p.log_probs for p in parts])), np.concatenate(
        [p.label for p in parts]
    )


def save(z, y, name="b.npz", **more):
    np.savez(name, logits=z, labels=y, **more)


def test_platt_by_the_commands_is_logistic_regression_on_the_log_odds(run):
    z, y = biased()
    save(z, y)
    assert run("extract", "b.npz", "-o", "b.h5").code == 0
    fitted = run("fit", "--method", "platt", "b.h5", "-o", "p.json")
    assert fitted.code == 0
    assert "predictions changed" in fitted.err
    s = (z[:, 1] - z[:, 0])[:, None]
    exact = LogisticRegression(
        C=np.inf, solver="newton-cholesky", tol=1e-13, max_iter=1000
    ).fit(s, y)
    artifact = load("p.json")
    assert artifact.options["mode"] == "binary"
    assert artifact.calibrator.slope[0] == pytest.approx(exact.coef_[0, 0], rel=1e-8)
    assert artifact.calibrator.intercept[0] == pytest.approx(
        exact.intercept_[0], abs=1e-8
    )
    done = run(
        "evaluate",
        "b.h5",
        "--calibrator",
        "p.json",
        "--metric",
        "nll",
        "--metric",
        "accuracy",
        "--json",
    )
    metrics = json.loads(done.out)["results"][1]["metrics"]
    nll = -exact.predict_log_proba(s)[np.arange(len(y)), y].mean()
    assert metrics["nll"]["value"] == pytest.approx(nll, abs=1e-8)
    assert metrics["accuracy"]["value"] == exact.score(s, y)


def test_sure_rows_count_by_how_sure_they_are(run):
    # Log-odds of +-100: a clip at 27.6 would bend the line (60 % of the rows lie beyond).
    z, y = biased(300, seed=1, bias=0.0, sharp=25.0)
    s = (z[:, 1] - z[:, 0])[:, None]
    assert (np.abs(s) > 27.6).mean() > 0.5
    exact = LogisticRegression(
        C=np.inf, solver="newton-cholesky", tol=1e-14, max_iter=1000
    ).fit(s, y)
    calibrator = fit("platt", ArrayRows(z, y)).calibrator
    assert calibrator.slope[0] == pytest.approx(exact.coef_[0, 0], rel=1e-8)


@pytest.mark.parametrize("name", ["platt", "quadratic"])
@pytest.mark.parametrize("factor", [4.0, 10.0, 1e3])
def test_the_unit_of_the_logits_does_not_matter(name, factor):
    z, y = biased(seed=2)
    plain, scaled = (
        probabilities(fit(name, ArrayRows(c * z, y)).calibrator, c * z)[0]
        for c in (1.0, factor)
    )
    np.testing.assert_allclose(scaled, plain, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("name", FAMILY)
def test_the_prediction_is_the_likelier_class_and_top_keeps_it(name):
    z, y = biased()
    fitted = fit(name, ArrayRows(z, y)).calibrator
    p, label = probabilities(fitted, z)
    np.testing.assert_array_equal(label, p.argmax(axis=1))
    changed = sum(
        fitted.apply(block).counts["predictions_changed"]
        for block in ArrayRows(z).blocks()
    )
    assert changed == (label != z.argmax(axis=1)).sum() > 0
    assert (label == y).mean() > (z.argmax(axis=1) == y).mean() + 0.015
    kept = probabilities(fit(name, ArrayRows(z, y), mode="top").calibrator, z)[1]
    np.testing.assert_array_equal(kept, z.argmax(axis=1))


def test_isotonic_is_that_of_class_1():
    z, y = biased(seed=3)
    p1 = 1 / (1 + np.exp(z[:, 0] - z[:, 1]))
    oracle = IsotonicRegression(out_of_bounds="clip").fit(p1, y)
    np.testing.assert_allclose(
        probabilities(fit("ir", ArrayRows(z, y)).calibrator, z)[0][:, 1],
        oracle.predict(p1),
        atol=1e-12,
    )


def test_mode_follows_the_number_of_classes_and_is_refused_where_it_cannot_be(run):
    z, y = biased(300)
    rng = np.random.default_rng(0)
    save(z, y, "two.npz")
    save(rng.normal(size=(300, 3)), rng.integers(0, 3, 300), "three.npz")
    for name in ("two", "three"):
        assert run("extract", f"{name}.npz", "-o", f"{name}.h5").code == 0
        for method_name in ("hb", "platt+hb") if name == "two" else ("hb",):
            more = ["--set", "platt.mode=binary"] if "+" in method_name else []
            assert (
                run(
                    "fit",
                    "-m",
                    method_name,
                    *more,
                    f"{name}.h5",
                    "-o",
                    f"{name}.{method_name}.json",
                ).code
                == 0
            )
    assert load("two.hb.json").options["mode"] == "binary"
    assert load("two.platt+hb.json").options["hb.mode"] == "binary"
    assert load("three.hb.json").options["mode"] == "top"
    refused = run("fit", "-m", "ir", "--set", "mode=binary", "three.h5")
    assert refused.code == 4
    assert "class 1 of two, these rows have 3 classes" in refused.line


# ---- log-odds


def test_log_odds_are_exact_where_probabilities_have_no_digits_left():
    z = np.array([[60.0, 0.0, -700.0], [0.0, 1e-9, 0.0], [800.0, -800.0, 799.0]])
    # By hand: log(1 + e^-700) is 0, and the two rivals of row 1 weigh 2.
    expected = [
        [60.0, -60.0, -760.0],
        [-np.log(2), 1e-9 - np.log(2), -np.log(2)],
        [1.0, -1600 - np.log1p(1 / np.e), -1],
    ]
    s = one_vs_rest_log_odds(z)
    np.testing.assert_allclose(s, expected, rtol=1e-9)
    label = z.argmax(axis=1)
    np.testing.assert_array_equal(top_log_odds(z, label), s[np.arange(3), label])


# ---- real scores: CIFAR-10 ResNet-20, cat against dog with a bias, first 1000 rows to fit


@pytest.fixture(scope="module")
def cats_and_dogs(real):
    data = real("cifar10_resnet20")
    keep = np.isin(data["labels"], [3, 5])
    z = data["logits"][keep][:, [3, 5]].astype(np.float64)
    z[:, 1] += 1.5
    return z, (data["labels"][keep] == 5).astype(np.int64)


# An independent program from the methods' formulas (NLL by Nelder-Mead, PAV by max-min, spline by
# BFGS), its printed digits: accuracy, decisions that moved, NLL, Brier score summed over classes.
@pytest.mark.parametrize(
    ("name", "options", "accuracy", "moved", "nll", "brier"),
    [
        ("platt", {}, 0.9220, 45, 0.202236, 0.119695),
        ("platt", {"smooth": "true"}, 0.9210, 46, 0.202169, 0.119760),
        ("platt", {"loss": "brier"}, 0.9190, 50, 0.202371, 0.119981),
        ("beta", {}, 0.9200, 47, 0.202502, 0.119739),
        ("ir", {}, 0.9250, 36, 0.299942, 0.123496),
        ("hb", {}, 0.9250, 36, 0.236006, 0.127482),
        ("hb", {"scheme": "mass"}, 0.9120, 79, 0.277563, 0.125974),
        ("bbq", {}, 0.9250, 36, 0.223785, 0.123935),
        ("sb", {}, 0.9120, 79, 0.207570, 0.123811),
        ("spline", {}, 0.9210, 28, 0.275727, 0.125251),
        ("platt", {"mode": "top"}, 0.9110, 0, 0.219774, 0.129402),
    ],
)
def test_cats_and_dogs(cats_and_dogs, name, options, accuracy, moved, nll, brier):
    z, y = cats_and_dogs
    p, label = probabilities(
        fit(name, ArrayRows(z[:1000], y[:1000]), **options).calibrator, z[1000:]
    )
    truth = y[1000:]
    assert (label == truth).mean() == pytest.approx(accuracy, abs=1e-12)
    assert (label != z[1000:].argmax(axis=1)).sum() == moved
    assert -np.log(
        np.maximum(p[np.arange(1000), truth], 1e-12)
    ).mean() == pytest.approx(nll, abs=5.1e-7)
    assert 2 * ((p[:, 1] - truth) ** 2).mean() == pytest.approx(brier, abs=5.1e-7)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("platt", {}),
        ("platt", {"smooth": "true"}),
        ("platt", {"loss": "brier"}),
        ("platt", {"mode": "top"}),
        ("beta", {}),
    ],
)
def test_parameters_are_the_optimum_of_made_rows(name, options):
    """That of scikit-learn; of the Brier score, which it does not fit, and of smooth targets that of scipy's BFGS."""
    from scipy.optimize import minimize

    z, y = biased(1500, seed=3)
    s, t = z[:, 1] - z[:, 0], y.astype(float)
    calibrator = fit(name, ArrayRows(z, y), **options).calibrator
    if options.get("mode") == "top":
        s, t = np.abs(s), (y == z.argmax(axis=1)).astype(float)
    if name == "beta":
        x = np.stack([-np.logaddexp(0, -s), np.logaddexp(0, s)], axis=1)
        ours = calibrator.a[0], calibrator.b[0], calibrator.c[0]
    else:
        x, ours = s[:, None], (calibrator.slope[0], calibrator.intercept[0])
    if "smooth" in options:  # Platt (1999), section 2.2
        t = np.where(t == 1, (t.sum() + 1) / (t.sum() + 2), 1 / ((1 - t).sum() + 2))
    if {"smooth", "loss"} & options.keys():

        def loss(w):
            score = x @ w[:-1] + w[-1]
            brier = ((1 / (1 + np.exp(-score)) - t) ** 2).mean()
            return (
                brier
                if "loss" in options
                else (np.logaddexp(0, score) - t * score).mean()
            )

        np.testing.assert_allclose(
            ours, minimize(loss, [0.5, 0.0], options={"gtol": 1e-10}).x, rtol=1e-5
        )
        return
    exact = LogisticRegression(
        C=np.inf, solver="newton-cholesky", tol=1e-13, max_iter=1000
    ).fit(x, t)
    np.testing.assert_allclose(ours, [*exact.coef_[0], *exact.intercept_], rtol=1e-7)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("platt", {}, {"slope": 0.41876952, "intercept": -0.82419952}),
        ("platt", {"smooth": "true"}, {"slope": 0.40494107, "intercept": -0.80236560}),
        ("platt", {"loss": "brier"}, {"slope": 0.40123275, "intercept": -0.83280058}),
        ("beta", {}, {"a": 0.4037180, "b": 0.4273402, "c": -0.8669018}),
        ("platt", {"mode": "top"}, {"slope": 0.43613602, "intercept": -0.21164637}),
    ],
)
def test_parameters_of_cats_and_dogs(cats_and_dogs, name, options, expected):
    z, y = cats_and_dogs
    calibrator = fit(name, ArrayRows(z[:1000], y[:1000]), **options).calibrator
    for parameter, value in expected.items():
        assert getattr(calibrator, parameter)[0] == pytest.approx(value, abs=6e-8)


def test_many_classes_take_exact_log_odds_too(real):
    # Same independent program, top label of an overconfident net: 306 rows beyond 1 - 1e-12. With
    # the clip of calcli 0.1 it gives .4178911 and -.4141348.
    data = real("cifar10_resnet20_transformed")
    calibrator = fit(
        "platt",
        ArrayRows(data["logits"][:5000].astype(np.float64), data["labels"][:5000]),
    ).calibrator
    assert calibrator.slope[0] == pytest.approx(0.4178782, abs=6e-8)
    assert calibrator.intercept[0] == pytest.approx(-0.4140933, abs=6e-8)


# ---- quadratic


def test_quadratic_is_the_constrained_optimum_and_never_falls():
    from scipy.optimize import LinearConstraint, minimize

    rng = np.random.default_rng(4)
    for truth in (
        lambda s: s + 0.3 * s**2,
        lambda s: 1.5 * s - 0.2 * s**2,
        lambda s: 0.5 * s,
    ):
        s = rng.normal(size=400) * 2
        y = (rng.random(400) < 1 / (1 + np.exp(-truth(s)))).astype(np.int64)
        calibrator = fit(
            "quadratic", ArrayRows(np.stack([0 * s, s], axis=1), y)
        ).calibrator
        ours = [calibrator.a[0], calibrator.b[0], calibrator.c[0]]

        def loss(v, s=s, y=y):
            u = v[0] + v[1] * s + v[2] * s**2
            return np.mean(np.logaddexp(0, u) - y * u)

        rising = LinearConstraint([[0, 1, 2 * s.min()], [0, 1, 2 * s.max()]], lb=0)
        best = minimize(
            loss,
            [0, 1, 0],
            method="SLSQP",
            constraints=[rising],
            options={"ftol": 1e-14},
        )
        assert loss(ours) <= best.fun + 1e-9
        points = np.linspace(3 * s.min(), 3 * s.max(), 500)
        assert (np.diff(calibrator.logit(points, *calibrator.maps[0])) >= -1e-12).all()


@pytest.mark.parametrize("name", ["platt", "beta", "quadratic", "logit-spline"])
def test_separable_classes_keep_their_predictions_and_order(name):
    """AUC 1: no slope is best, and a constant would forget which class is which (Platt's targets are finite)."""
    s = np.linspace(-3, 3, 101) + 0.01
    rows = ArrayRows(np.stack([np.zeros(101), s], axis=1), (s > 0).astype(int))
    fitted = fit(name, rows)
    assert fitted.status == "degenerate"
    assert any("smoothed targets" in warning for warning in fitted.warnings)
    p, label = probabilities(fitted.calibrator, rows.scores)
    assert (np.diff(p[:, 1]) > 0).all()
    np.testing.assert_array_equal(label, s > 0)
    n1, n0 = (s > 0).sum(), (s <= 0).sum()
    assert p[-1, 1] == pytest.approx((n1 + 1) / (n1 + 2), abs=0.02)
    assert p[0, 1] == pytest.approx(1 / (n0 + 2), abs=0.02)


def test_steps_of_weighted_rows_are_probabilities_that_an_artifact_may_hold():
    """Sums of weights round: of the shares of right outcomes some came out a last bit above 1 (seed 3)."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        s = rng.normal(size=200) * 3
        y = (rng.random(200) < 1 / (1 + np.exp(-s))).astype(int)
        weight = rng.exponential(size=200)
        fit(
            "venn-abers", ArrayRows(np.stack([0 * s, s], axis=1), y, weight=weight)
        ).calibrator.check(2)


# ---- logit-spline


def two_scores(truth, n=3000, seed=4):
    rng = np.random.default_rng(seed)
    s = rng.normal(size=n) * 2
    y = (rng.random(n) < 1 / (1 + np.exp(-truth(s)))).astype(np.int64)
    return s, y, fit("logit-spline", ArrayRows(np.stack([0 * s, s], axis=1), y))


def test_logit_spline_is_a_straight_line_where_that_is_the_truth():
    s, y, fitted = two_scores(lambda s: 0.7 * s - 1.0)
    line = fit("platt", ArrayRows(np.stack([0 * s, s], axis=1), y)).calibrator
    inside = np.linspace(-4, 4, 50)
    bent = fitted.calibrator.logit(inside, *fitted.calibrator.maps[0])
    assert np.abs(bent - line.logit(inside, *line.maps[0])).max() < 0.05
    assert fitted.details["lambda"] >= 100


def test_logit_spline_follows_a_curve_bent_twice_and_never_falls():
    truth = lambda s: 3 * np.tanh(s) + 0.1 * s  # noqa: E731
    s, y, fitted = two_scores(truth)
    points = np.linspace(-3, 3, 400)
    bent = fitted.calibrator.logit(points, *fitted.calibrator.maps[0])
    straight = fit("quadratic", ArrayRows(np.stack([0 * s, s], axis=1), y)).calibrator
    off = np.abs(bent - truth(points))
    assert off.mean() < 0.2
    assert (
        off.mean()
        < 0.3 * np.abs(straight.logit(points, *straight.maps[0]) - truth(points)).mean()
    )
    far = np.linspace(-50, 50, 1001)
    assert (
        np.diff(fitted.calibrator.logit(far, *fitted.calibrator.maps[0])) >= 0
    ).all()


def test_logit_spline_is_the_penalised_optimum():
    """Against SLSQP on the objective of the docstring, at the lambda that was chosen."""
    from scipy.optimize import minimize

    s, y, fitted = two_scores(lambda s: s + 0.2 * s**2 * np.sign(s), n=500)
    intercept, knots, slopes = fitted.calibrator.maps[0]
    unit, lam = s.std(ddof=1), fitted.details["lambda"]

    def loss(v):
        u = fitted.calibrator.logit(s, v[0], knots, v[1:])
        bend = unit * np.diff(v[1:]) / np.sqrt(np.diff(knots) / unit)
        return (np.logaddexp(0, u) - y * u).sum() + 0.5 * lam * (bend**2).sum()

    bounds = [(None, None)] + [(0, None)] * len(knots)
    best = minimize(
        loss,
        [0.0, *np.ones(len(knots))],
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 5000},
    )
    assert loss(np.array([intercept, *slopes])) <= best.fun + 1e-6


def test_groups_of_two_classes_are_about_the_probability_of_class_1(run):
    """Two groups whose P(class 1) is .1 too high and .1 too low, while each group's confidence is nearly right."""
    rng = np.random.default_rng(4)
    p, group = rng.uniform(0.2, 0.8, 4000), np.arange(4000) % 2
    stated = p + np.where(group == 0, 0.1, -0.1)
    y = (rng.random(4000) < p).astype(int)
    with h5py.File("g.h5", "w") as file:
        file["probs"], file["labels"] = np.stack([1 - stated, stated], axis=1), y
        file["group"] = np.array(["east", "west"], dtype=object)[group]
    lines = json.loads(
        run(
            "evaluate", "g.h5", "--label", "positive", "--per-group", "--json", "-q"
        ).out
    )
    line_of_group = {line["group"]: line for line in lines["results"][0]["per_group"]}
    drawn = json.loads(
        run("diagram", "g.h5", "--style", "gaps", "--per-group", "--json").out
    )
    assert drawn["quantity"] == "positive"
    for part in drawn["series"][0]["gaps"]:
        group_line, rows = (
            line_of_group[part["part"]],
            group == (part["part"] == "west"),
        )
        assert group_line["of_positive"] and group_line["observed"] == pytest.approx(
            y[rows].mean()
        )
        assert group_line["predicted"] == pytest.approx(stated[rows].mean())
        assert (
            group_line["gap"]
            == pytest.approx(part["gap"])
            == pytest.approx(stated[rows].mean() - y[rows].mean())
        )
        assert group_line["ci"][0] < group_line["gap"] < group_line["ci"][1] and abs(
            group_line["gap"]
        ) == pytest.approx(0.1, abs=0.04)
        assert group_line["metrics"]["ece"]["signature"].startswith(
            "ece|norm:1|bins:15|scheme:width|closed:right|label:positive"
        )
    text = run("evaluate", "g.h5", "--label", "positive", "--per-group").out
    head = next(line for line in text.splitlines() if line.startswith("group "))
    assert head.split()[:4] == ["group", "samples", "observed", "predicted"]
    top = json.loads(
        run("evaluate", "g.h5", "--label", "top", "--per-group", "--json", "-q").out
    )
    assert not any(line["of_positive"] for line in top["results"][0]["per_group"])


def two_groups(sharp, shift):
    """A file of two groups: log-odds of the second times ``sharp``, of both ``shift`` higher and lower."""
    rng = np.random.default_rng(7)
    odds, east = rng.normal(size=4000) * 2, np.arange(4000) % 2 == 0
    with h5py.File("g.h5", "w") as file:
        file["labels"] = (rng.random(4000) < 1 / (1 + np.exp(-odds))).astype(int)
        stated = np.where(east, odds + shift, sharp * odds - shift)
        file["logits"] = np.stack([np.zeros(4000), stated], axis=1)
        file["group"] = np.where(east, b"east", b"west")


@pytest.mark.parametrize(("sharp", "shift"), [(1.0, 0.35), (2.0, 0.0)])
@pytest.mark.parametrize(
    ("label", "positive"),
    [
        (None, True),
        pytest.param("positive", True, marks=pytest.mark.slow),
        ("top", False),
    ],
)
def test_a_table_a_picture_and_the_verdict_show_one_quantity_of_groups(
    run, sharp, shift, label, positive
):
    """P(class 1) is off in both groups and the confidence hardly; or the confidence of the west alone."""
    two_groups(sharp, shift)
    asked = [] if label is None else ["--label", label]
    text = run("evaluate", "g.h5", "--per-group", "--full", *asked).out
    result = json.loads(
        run("evaluate", "g.h5", "--per-group", "--json", "-q", *asked).out
    )["results"][0]
    lines, report = (
        {line["group"]: line for line in result["per_group"]},
        result["report"],
    )
    assert {line["of_positive"] for line in lines.values()} == {positive}
    off = {name for name, line in lines.items() if line["significant"]}
    everything = {("east", True), ("west", True)} if shift else {("west", False)}
    assert off == {name for name, is_positive in everything if is_positive == positive}
    n_significant = 0 if report["groups"] is None else report["groups"]["n_significant"]
    assert n_significant == len(off)

    # One p-value of a group, in the table and in the evidence.
    if n_significant:
        worst = lines[report["groups"]["worst"]]
        assert worst["gap"] == report["groups"]["worst_gap"]
        assert worst["p_adjusted"] == report["groups"]["p_value"]
    head = next(line for line in text.splitlines() if line.startswith("group "))
    means = ["observed", "predicted"] if positive else ["right", "sure"]
    assert head.split()[2:4] == means

    # The picture has the table's gaps, intervals and stars, and the same quantity.
    drawn = json.loads(
        run("diagram", "g.h5", "--style", "gaps", "--per-group", "--json", *asked).out
    )
    assert drawn["quantity"] == ("positive" if positive else "top")
    for part in drawn["series"][0]["gaps"]:
        line = lines[part["part"]]
        assert [part["gap"], part["low"], part["high"]] == pytest.approx(
            [line["gap"], *line["ci"]], abs=1e-12
        )
        assert part["beyond"] == line["significant"]
    panels = json.loads(run("diagram", "g.h5", "--per-group", "--json", *asked).out)[
        "panels"
    ]
    assert {curve["quantity"] for panel in panels for curve in panel["curves"]} == {
        drawn["quantity"]
    }


def test_the_note_on_significant_groups_names_the_version(run):
    """It listed one group twice with two gaps, before and after calibration, and did not say which was which."""
    two_groups(2.0, 0.0)
    # of another slope: the west stays overconfident
    with h5py.File("other.h5", "w") as file:
        odds = np.random.default_rng(1).normal(size=2000) * 2
        file["labels"] = (
            np.random.default_rng(2).random(2000) < 1 / (1 + np.exp(-odds))
        ).astype(int)
        file["logits"] = np.stack([np.zeros(2000), odds], axis=1)
    assert run("fit", "other.h5", "-m", "platt", "-o", "p.json", "-q").code == 0
    words = ["diagram", "g.h5", "--style", "gaps", "--per-group", "--json"]
    (alone,) = json.loads(run(*words).out)["notes"]
    assert alone.count("west ") == 1 and "uncalibrated" not in alone
    both = json.loads(run(*words, "-c", "p.json").out)
    (note,) = both["notes"]
    first, second = (series["label"] for series in both["series"])
    listed = note.partition("(--label top): ")[2]
    assert [text.partition(": ")[0] for text in listed.split("; ")] == [first, second]
    assert [text.count("west ") for text in listed.split("; ")] == [1, 1]


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("top", "Expected calibration error of the confidence over equal-width bins"),
        ("positive", "; here of P(class 1) and the frequency of class 1"),
        ("class", "; here of each class's probability and its frequency"),
    ],
)
def test_rows_of_the_table_explain_themselves_by_what_was_asked(
    run, monkeypatch, label, words
):
    monkeypatch.setenv("COLUMNS", "120")
    two_groups(1.0, 0.8)
    output = run("evaluate", "g.h5", "--label", label, "--explain").out
    row = next(line for line in output.splitlines() if line.startswith("ece "))
    assert row.endswith(words)
    # the row above may be about another quantity
    assert "the same" not in output.partition("±:")[0]
    assert (
        "over equal-width bins; here of P(class 1) and the frequency of class 1"
        in output
    ) == (label == "positive")


@pytest.mark.parametrize("name", ["ece_positive", "nll", "ece"])
def test_label_says_what_the_gaps_of_groups_are_of_whatever_metric_is_asked(run, name):
    two_groups(2.0, 0.8)
    shown = {
        label: run(
            "evaluate", "g.h5", "--metric", name, "--per-group", "--label", label
        ).out
        for label in ("top", "positive")
    }
    assert "observed  predicted" in shown["positive"]
    assert "right   sure" in shown["top"]
    if name != "ece":
        assert (
            run("evaluate", "g.h5", "--metric", name, "--label", "positive").code == 2
        )
    assert (
        run(
            "evaluate", "g.h5", "--metric", "nll", "--label", "class", "--per-group"
        ).code
        == 2
    )
