"""What few rows may do to a fit: priors on how far a map sharpens, lines under a prior, Venn-Abers intervals."""

import json

import numpy as np
import pytest
from run_calcli import runner
from synthetic import predict, truth

import calcli
from calcli.calibrator import Context
from calcli.errors import UsageError
from calcli.isotonic import fit_isotonic
from calcli.methods._binary.log_odds import Sample, confidence_log_odds, log_sigmoid
from calcli.methods.mline import LineOptions, LineWithPrior
from calcli.methods.venn_abers import VennAbers, both_probabilities
from calcli.registry import default_method, method, parse_options
from calcli.rows import ArrayRows

FAMILIES = ["ts", "ft", "svs", "sms", "mono", "iop", "ms-odir", "dir-odir"]


def fit(name, z, y, weight=None, **options):
    return method(name).fit(
        ArrayRows(z, y, weight=weight), parse_options(name, options), Context()
    )


def nll(calibrator, z, y):
    return -float(predict(calibrator, ArrayRows(z, y))[0][np.arange(len(y)), y].mean())


# ---- the one-sided prior

FIVE = np.array([[2, 0, 0], [0, 3, 0], [0, 0, 1.5], [4, 0, 0], [0, 2.5, 0]])


def test_the_temperature_under_the_prior_by_hand():
    """The root of the penalised loss's derivative in log T, by mpmath 1.3 (findroot, 30 digits): 0.910330398163856."""
    fitted = fit("ts", FIVE, np.array([0, 1, 2, 0, 1]), prior=0.25)
    assert fitted.status == "ok"
    assert fitted.calibrator.temperature == pytest.approx(0.910330398163856, rel=1e-10)


@pytest.mark.parametrize("rows", [400, 30_000])
def test_above_one_the_prior_leaves_the_temperature_as_it_was_to_the_last_bit(rows):
    z, y = truth(rows, 4)
    plain, fitted = fit("ts", z, y), fit("ts", z, y, prior=0.25)
    assert plain.calibrator == fitted.calibrator
    assert plain.details == fitted.details
    assert plain.calibrator.temperature > 1


def test_below_one_many_rows_outweigh_the_prior():
    """At n rows the prior moves log T by -log T / (prior^2 n times the curvature of the mean NLL), here some 1e-3."""
    z, y = truth(30_000, 4, temperature=0.8)
    plain, with_prior = (
        fit("ts", z, y, prior=prior).calibrator.temperature for prior in (0.0, 0.25)
    )
    assert plain < with_prior < plain * 1.003


def test_a_start_from_some_rows_has_the_temperature_of_a_search_without(monkeypatch):
    z, y = truth(9000, 4, temperature=0.8)
    started = fit("ts", z, y, prior=0.25)
    assert started.details["evaluations"] <= 3
    monkeypatch.setattr("calcli.methods._temperature.start_rows", lambda rows: 0)
    alone = fit("ts", z, y, prior=0.25)
    assert started.calibrator.temperature == pytest.approx(
        alone.calibrator.temperature, rel=1e-12
    )


def test_a_fit_at_its_bound_offers_the_prior_and_keeps_its_status():
    fitted = fit("ts", FIVE, np.array([0, 1, 2, 0, 1]))
    assert fitted.status == "at_bound"
    assert "--set prior=0.25" in fitted.warnings[0]


def test_the_prior_goes_with_the_likelihood_only():
    with pytest.raises(UsageError, match="loss=nll"):
        parse_options("ts", {"prior": 0.25, "loss": "brier"})


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_that_are_all_right_do_not_sharpen_without_end(name):
    """Of a model wrong on .2 % of rows, whose scores are exact, 250 rows without an error: on new rows the fit is no
    worse than the scores by .002 nats (ts .0001), without the prior it is worse."""
    rng = np.random.default_rng(3)
    z = 1.6 * rng.normal(size=(20_000, 3)) + 9.6 * np.eye(3)[rng.integers(0, 3, 20_000)]
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    starts = [
        start
        for start in range(0, 10_000, 250)
        if (z[start : start + 250].argmax(axis=1) == y[start : start + 250]).all()
    ]
    few, new = slice(starts[0], starts[0] + 250), slice(10_000, 20_000)
    options = {"lambda": 1.0, "final": "refit"} if name.endswith("odir") else {}
    options |= {"mixture": False} if name == "ft" else {}
    with_prior, free = (
        fit(name, z[few], y[few], prior=prior, **options) for prior in (0.25, 0.0)
    )
    assert with_prior.status == "ok"
    after = nll(with_prior.calibrator, z[new], y[new])
    assert after < nll(method("identity")(), z[new], y[new]) + 0.002
    assert after < nll(free.calibrator, z[new], y[new])


@pytest.mark.parametrize("k", [2, 3])
def test_auto_leaves_near_perfect_scores_as_they_are(k):
    """250 rows without an error of exact scores that err in .2 %: on new rows no worse than these by .002 nats."""
    rng = np.random.default_rng(3)
    z = 1.6 * rng.normal(size=(20_000, k)) + 9.6 * np.eye(k)[rng.integers(0, k, 20_000)]
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    starts = [
        start
        for start in range(0, 10_000, 250)
        if (z[start : start + 250].argmax(axis=1) == y[start : start + 250]).all()
    ]
    few, new = slice(starts[0], starts[0] + 250), slice(10_000, 20_000)
    fitted = fit("auto", z[few], y[few]).calibrator
    assert (
        nll(fitted, z[new], y[new]) < nll(method("identity")(), z[new], y[new]) + 0.002
    )


def test_an_option_that_came_later_is_recorded_where_it_is_used():
    z, y = truth(200, 3)
    assert set(calcli.fit(z, y, "ts").options) == {"loss", "mixture"}
    assert calcli.fit(z, y, "ts", prior=0.25).options["prior"] == 0.25
    assert "prior" not in str(calcli.fit(z, y, "ts+mono").to_dict()["params"])
    # which it had not in earlier versions
    assert calcli.fit(z, y, "svs").options["prior"] == 0.25


# ---- lines under a prior


@pytest.mark.parametrize(
    ("shape", "theta", "least"),
    [  # t, v, b and the penalised sum: the prototype's optimum by SciPy 1.17 (minimize, BFGS), to the digits it printed
        ("line", (-0.57712665, 0.0, -0.18463184), 268.33758840),
        ("beta", (-0.57404951, 0.05832869, -0.13922305), 268.30351837),
        ("bend", (-0.81970645, 0.28136606, -0.18190616), 267.68472873),
    ],
)
def test_lines_of_1000_reviews_end_where_the_prototype_did(shape, theta, least, real):
    data = real("imdb_cleanlab")
    some = np.random.default_rng(0).permutation(25_000)[:1000]
    z, hit = (
        data["logits"][some].astype(float),
        (data["labels"][some] == 1).astype(float),
    )
    s = z[:, 1] - z[:, 0]
    params = LineWithPrior.fit_map(Sample(s, hit), LineOptions(shape=shape)).params
    slope, turn, tail, b = params
    t, v = {
        "line": (np.log(slope), 0.0),
        "beta": (0.5 * np.log(slope * (slope + tail)), np.log((slope + tail) / slope)),
        "bend": (np.log(slope), np.log1p(turn)),
    }[shape]
    assert (t, v, b) == pytest.approx(theta, abs=2e-8)
    u = LineWithPrior.logit(s, *params)
    total = (
        -np.where(hit > 0, log_sigmoid(u), log_sigmoid(-u)).sum()
        + t**2 / 2
        + 2 * v**2
        + b**2 / 50
    )
    assert total == pytest.approx(least, abs=1e-8)


@pytest.mark.parametrize("shape", ["line", "beta", "bend"])
def test_separable_outcomes_have_an_optimum_under_the_prior(shape):
    """By hand: with one row at s = 0 of outcome 1, t and v stay 0 and b solves sigmoid(-b) = b / 25."""
    one = LineWithPrior.fit_map(
        Sample(np.zeros(1), np.ones(1)), LineOptions(shape=shape)
    )
    b = one.params[3]
    assert one.status == "ok"
    assert 1 / (1 + np.exp(b)) == pytest.approx(b / 25, abs=1e-9) or shape == "beta"
    s = np.linspace(-4, 4, 40)
    apart = LineWithPrior.fit_map(
        Sample(s, (s > 0).astype(float)), LineOptions(shape=shape)
    )
    assert apart.status == "ok"
    assert np.isfinite(apart.params).all()
    assert 1 < apart.params[0] < 20


def test_weights_of_one_size_are_no_weights():
    z, y = truth(200, 2)
    for name in ("mline", "venn-abers"):
        plain, weighed = (
            fit(name, z, y, weight).calibrator for weight in (None, np.full(200, 7.0))
        )
        np.testing.assert_allclose(
            *(predict(c, ArrayRows(z, y))[0] for c in (plain, weighed)), rtol=1e-9
        )


# ---- Venn-Abers

P = [0.64, 0.27, 0.04, 0.02, 0.81, 0.91, 0.61, 0.73, 0.54, 0.94, 0.82, 0.0005]
Y = [0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0]
NEW = [0.62, 0.38, 0.98, 0.39, 0.001, 0.64, 0.27, 0.04]
P0 = [4 / 7, 1 / 2, 3 / 4, 1 / 2, 0, 4 / 7, 1 / 2, 0]
P1 = [5 / 7, 5 / 7, 1, 5 / 7, 1 / 3, 5 / 7, 5 / 7, 1 / 2]


def test_venn_abers_of_twelve_rows_is_that_of_the_package():
    """venn-abers 1.5.4, calc_p0p1 and calc_probs on these rows: p0, p1 and p1 / (1 - p0 + p1)."""
    params = VennAbers.fit_map(
        Sample(confidence_log_odds(np.array(P)), np.array(Y, float)), None
    ).params
    new = confidence_log_odds(np.array(NEW))
    np.testing.assert_allclose(both_probabilities(new, *params), (P0, P1), atol=1e-15)
    np.testing.assert_allclose(
        VennAbers.curve(new, *params),
        [0.625, 10 / 17, 0.8, 10 / 17, 0.25, 0.625, 10 / 17, 1 / 3],
    )


@pytest.mark.parametrize("weighed", [False, True])
def test_it_is_isotonic_regression_with_the_row_put_in(weighed):
    """The definition, one regression for every score and outcome; ties and weights included."""
    rng = np.random.default_rng(4)
    s = np.round(rng.normal(size=80), 1)
    hit = (rng.logistic(size=80) < s).astype(float)
    weight = rng.exponential(size=80) if weighed else np.ones(80)
    params = VennAbers.fit_map(Sample(s, hit, weight if weighed else None), None).params
    prior_weight = float(weight @ weight / weight.sum())
    for x in np.concatenate([np.unique(s), rng.normal(size=20), [-9.0, 9.0]]):
        for label, p_of_label in enumerate(both_probabilities(np.array([x]), *params)):
            xs, ys, ws = (
                np.append(s, x),
                np.append(hit, float(label)),
                np.append(weight, prior_weight),
            )
            knots, values = fit_isotonic(xs, ys, ws).knots
            assert p_of_label[0] == pytest.approx(
                np.interp(x, knots, values), abs=1e-12
            )


def test_apply_writes_the_interval_of_every_row(tmp_path, monkeypatch, capsys):
    run = runner(monkeypatch, capsys)
    z, y = truth(300, 2)
    calibrator = calcli.fit(z, y, "venn-abers")
    calibrator.save(tmp_path / "va.json")
    np.savez(tmp_path / "new.npz", logits=z[:50], labels=y[:50])
    assert run("extract", tmp_path / "new.npz", "-o", tmp_path / "new.h5").code == 0
    for name in ("out.npz", "out.h5", "out.csv"):
        assert (
            run(
                "apply",
                tmp_path / "va.json",
                tmp_path / "new.h5",
                "-o",
                tmp_path / name,
            ).code
            == 0
        )
    written = np.load(tmp_path / "out.npz")
    p0, p1 = written["p0"], written["p1"]
    assert ((p0 >= 0) & (p0 < p1) & (p1 <= 1)).all()
    np.testing.assert_allclose(p1 / (1 - p0 + p1), written["probs"][:, 1], atol=1e-6)
    assert (tmp_path / "out.csv").read_text().splitlines()[0].count("p0") == 1


@pytest.mark.parametrize(
    "name", ["platt", "beta", "mline", "quadratic", "logit-spline", "sb"]
)
def test_a_few_confidences_of_exactly_0_and_1_do_not_rule_the_fit(name):
    """Eight of 4000 were held at log-odds of 708: the squared error of .203 became .232, more than the raw .219."""
    rng = np.random.default_rng(0)
    c = rng.beta(5, 1.5, 4000)
    y = (
        rng.random(4000) < 1 / (1 + np.exp(-(0.7 * np.log(c / (1 - c)) - 0.3)))
    ).astype(int)
    sure = c.copy()
    sure[[0, 1, 2, 3000]], sure[[3, 4, 3001, 3002]], y[[0, 3]] = 1.0, 0.0, [0, 1]
    errors = []
    for said in (c, sure):
        fitted = calcli.fit(said[:2000], y[:2000], method=name, kind="confidence")
        evaluation = calcli.evaluate(
            said[2000:], y[2000:], fitted, kind="confidence", metrics=["brier_top"]
        )
        errors.append(evaluation.results[1].scores["brier_top"].value)
    assert errors[1] < errors[0] + 0.003


def test_the_default_serves_confidences_that_are_certain(run):
    """Of overconfident ones, all that say 1 right: the log-odds are infinite all the same."""
    rng = np.random.default_rng(1)
    c = np.r_[np.ones(5), 0.6 + 0.4 * rng.random(1995)]
    y = np.r_[np.ones(5), rng.random(1995) < c[5:] - 0.15].astype(int)
    for start in (0, 5):  # with and without them
        np.savez("answers.npz", confidence=c[start:], correct=y[start:])
        rows = ArrayRows(c[start:, None], y[start:], "confidence")
        assert default_method(rows) == "auto"
        said = run("evaluate", "answers.npz").out
        # The first run leaves files that a second one would have to replace.
        folder = " -o answers_calibration" if start else ""
        assert said.endswith(f"next: calcli run answers.npz{folder}\n")
        done = run("run", "answers.npz", "--force", "--json", "-q")
        before, after = json.loads(done.out)["evaluation"]["results"]
        assert before["report"]["verdict_kind"] == "overconfident"
        assert after["report"]["verdict_kind"] in ("calibrated", "too_few")


@pytest.mark.parametrize("method", ["auto", "svs", "sms", "ms-odir"])
@pytest.mark.parametrize("n", [10, 60])
def test_two_units_are_enough_for_every_fit_to_a_part(method, n):
    """A part without one of the two has a single unit, and nothing to hold out."""
    z, labels = truth(n, 3, temperature=2.0, seed=1)
    units = np.arange(n) % 2
    fitted = calcli.fit(z, labels, method, kind="logits", units=units)
    assert np.isfinite(fitted.predict_proba(z)).all()
    compared = calcli.compare(z, labels, method, kind="logits", units=units)
    assert all(entry.get("status") != "failed" for entry in compared["results"])
