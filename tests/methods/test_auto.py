"""Parts of ``auto``: what is tried on which rows, weights, kept predictions, the last step."""

import json
import math
from dataclasses import replace

import h5py
import numpy as np
import pytest
from synthetic import fit, predict, truth

import calcli
from calcli.calibrator import Context
from calcli.errors import UsageError
from calcli.methods._auto.after_averaging import (
    BY_PREDICTION,
    GENTLE,
    better_p_value,
    judged_predictions,
    last_step,
)
from calcli.methods._auto.held_out import (
    FEWER_FOLDS,
    HELD_ROWS,
    Plan,
    rows_of_some_classes,
)
from calcli.methods._auto.members import weighed
from calcli.methods._auto.trials import Trial, clearly_behind, helpful_in_average
from calcli.methods._auto.weights import share_of_safe
from calcli.methods.auto import Auto
from calcli.methods.ts_by import TemperatureByGroup
from calcli.numerics import log_softmax
from calcli.rows import ArrayRows
from calcli.statistics.units import Units


def auto(z, y, kind="logits", context=None, **options):
    from calcli.registry import parse_options

    rows = ArrayRows(z, y, kind)
    return Auto.fit(rows, parse_options("auto", options), context or Context())


def tilted(n, k=4, seed=0):
    """Logits whose classes are favoured unequally, and labels of the model without that."""
    z, y = truth(n, k, seed=seed)
    return z + np.linspace(-1.5, 1.5, k), y


# ---- which rows are held out


@pytest.mark.parametrize(
    ("n", "k", "folds", "held", "draws"),
    [
        (300, 10, 5, 5, 2),  # drawn twice up to 1000 rows
        (2000, 10, 5, 5, 1),
        (5000, 100, 5, 5, 1),
        (12_000, 100, FEWER_FOLDS, FEWER_FOLDS, 1),
        (12_000, 200, 5, 3, 1),  # 2400 rows a fold: three make 5000
        (26_000, 80, 5, 1, 1),
    ],
)
def test_folds_suit_the_number_of_scores(n, k, folds, held, draws):
    rows = ArrayRows(np.zeros((n, k), np.float32), np.arange(n) % k)
    rows.scores[:, 0] = np.random.default_rng(0).normal(size=n)
    plan = Plan.of(rows, None, 0)
    assert plan.fold.shape == (draws, n)
    assert plan.fold.max() + 1 == folds
    assert len(plan.parts) == draws * held
    held_rows = np.concatenate([plan.held(part) for part in plan.parts[:held]])
    assert sorted(held_rows.tolist()) == plan.index.tolist()
    assert len(plan.index) >= min(n, HELD_ROWS)


def test_a_candidate_is_left_out_beyond_four_standard_errors():
    """Differences of +-1 about their mean over 600 rows: standard error 1 / 600^.5."""
    noise = np.resize([1.0, -1.0], 600)
    error = 1.0 / math.sqrt(600)
    log_p = {"best": np.full(600, -3.0)}
    log_p |= {f"{z}": -3.0 - noise - z * error for z in (3.9, 4.1)}
    assert list(clearly_behind(log_p, None, None)) == ["4.1"]
    few = {name: each[:499] for name, each in log_p.items()}
    assert not clearly_behind(few, None, None)
    # rows that come in pairs of equal ones count half
    pairs = Units.of(np.arange(600) // 2 * 2 % 600)
    both = {"best": log_p["best"], "5": -3.0 - np.repeat(noise[:300], 2) - 5 * error}
    assert not clearly_behind(both, None, pairs)
    assert clearly_behind(both, None, None)


def test_a_candidate_that_is_behind_stays_where_an_average_needs_it():
    """One candidate is right on the first 400 rows of 600, another on the rest alone.

    The likelihood of their mixture is largest at the weight 16/21 of the first.
    """
    early = np.arange(600) < 400
    log_p = {
        "most": np.log(np.where(early, 0.9, 0.2)),
        "rest": np.log(np.where(early, 0.2, 0.9)),
        "never": np.log(np.where(early, 0.3, 0.1)),
    }
    assert set(clearly_behind(log_p, None, None)) == {"rest", "never"}
    share = np.full(600, 1.0 / 600.0)
    assert helpful_in_average(log_p, share) == {"most", "rest"}


def test_rows_of_some_classes_are_as_many_a_class():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 400, 8000)
    rows = ArrayRows(rng.normal(size=(8000, 400)).astype(np.float32), y)
    some = rows_of_some_classes(rows, 0)
    assert some.k == int(math.sqrt(500_000 * 400 / 8000))
    assert some.n / some.k == pytest.approx(20.0, rel=0.1)
    assert set(some.labels().tolist()) <= set(range(some.k))
    chosen = np.sort(np.random.default_rng(0).permutation(400)[: some.k])
    held = np.flatnonzero(np.isin(y, chosen))
    np.testing.assert_array_equal(some.scores, rows.scores[np.ix_(held, chosen)])
    np.testing.assert_array_equal(chosen[some.labels()], y[held])
    assert rows_of_some_classes(ArrayRows(rows.scores[:, :30], y % 30), 0) is None


def test_many_rows_give_a_calibrator_as_good_as_five_folds(monkeypatch):
    """One temperature is the truth: with some folds only, and a sample first, .0005 nats at most."""
    rng = np.random.default_rng(1)
    n, k = 6000, 30
    z = 2.0 * rng.normal(size=(2 * n, k))
    z[np.arange(2 * n), rng.integers(0, k, 2 * n)] += 5.0
    y = (0.7 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    loss = []
    for cheap in (10**9, 100_000):
        for module in ("held_out", "members", "trials"):
            monkeypatch.setattr(f"calcli.methods._auto.{module}.CHEAP_SCORES", cheap)
        found = auto(z[:n], y[:n])
        log_p = predict(found.calibrator, ArrayRows(z[n:], None))[0]
        loss.append(-log_p[np.arange(n), y[n:]].mean())
    assert loss[1] == pytest.approx(loss[0], abs=5e-4)


# ---- few rows


@pytest.mark.parametrize(
    ("n_wrong", "z", "expected"),
    [(0, 0.0, 1.0), (5, 0.0, 0.25), (5, 2.0, 0.125), (5, 3.5, 0.0), (95, 0.0, 0.0025)],
)
def test_the_safe_candidate_takes_over_where_hardly_a_row_is_wrong(
    n_wrong, z, expected
):
    """(5 / (5 + wrong))^2, times a ramp from 1 at one standard error to 0 at three."""
    assert share_of_safe(z, n_wrong) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("z", "share"), [(0.0, 0.4), (1.25, 0.2)])
def test_the_smoothed_sigmoid_takes_over_where_the_gain_is_unsure(
    monkeypatch, z, share
):
    """A ramp from .4 at half a standard error to 0 at two; beyond, the weights stay."""
    y = np.resize([0, 1, 1], 300)
    rows = ArrayRows(np.stack([np.zeros(300), 0.5 * y], axis=1), y)
    rng = np.random.default_rng(0)
    trials = []
    for name in ("ts", "mono", "platt(smooth=true)"):
        log_p = np.log(rng.uniform(0.5, 0.7, size=(1, 300)))
        trials.append(Trial(name, (name, None), log_p, log_p))
    found = []
    for deviate in (z, 2.5):
        monkeypatch.setattr(
            "calcli.methods._auto.members.standardised_mean", lambda *_, z=deviate: z
        )
        members, weights = weighed(trials, rows, rows)
        assert [member.name for member in members] == [trial.name for trial in trials]
        found.append(weights)
    moved, stayed = found
    expected = (1.0 - share) * stayed + share * np.array([0.0, 0.0, 1.0])
    np.testing.assert_allclose(moved, expected, rtol=1e-12)


# ---- kept predictions


def test_the_exact_test_of_better_against_worse():
    """Fifteen better, two worse: the sum of C(17, m) / 2^17 over m = 15, 16, 17; by unit one of each."""
    difference = np.concatenate([np.ones(15), -np.ones(2), np.zeros(40)])
    exact = sum(math.comb(17, m) for m in (15, 16, 17)) / 2**17
    assert better_p_value(difference, None) == pytest.approx(exact, rel=1e-12)
    unit = np.concatenate([np.zeros(15), np.ones(2), np.arange(2, 42)])
    assert better_p_value(difference, Units.of(unit)) == pytest.approx(0.75)
    assert better_p_value(np.zeros(5), None) == 1.0


def held_out(n, moved, better, seed=0):
    """Held-out rows of an average that changes some predictions, the given share for the better."""
    rng = np.random.default_rng(seed)
    log_p = log_softmax(rng.normal(size=(n, 4)))
    y = log_p.argmax(axis=1)
    rows = ArrayRows(log_p, y, "log_probs")
    rows.original = y.copy()
    where = np.arange(moved)
    rows.original[where] = (y[where] + 1) % 4
    worse = where[round(better * moved) :]
    rows.y[worse] = rows.original[worse]
    return rows


def test_predictions_are_kept_unless_changing_them_is_shown_to_help():
    helps = judged_predictions([held_out(2000, 60, 0.9)], None)
    assert helps.p_value < 0.001 and not helps.kept
    assert helps.changed == 60 and helps.rows == 2000
    assert helps.accuracy_difference == pytest.approx((54 - 6) / 2000)
    even = judged_predictions([held_out(2000, 60, 0.5)], None)
    assert even.kept and even.p_value > 0.3
    assert judged_predictions([held_out(2000, 60, 0.9)], True).kept
    assert not judged_predictions([held_out(2000, 60, 0.5)], False).kept


def test_predictions_are_kept_where_only_a_temperature_is_wrong():
    z, y = truth(3000, 5, seed=2)
    found = auto(z, y)
    record = found.details["auto"]["predictions"]
    assert record["kept"] and record["rows"] == 3000
    log_p, label = predict(found.calibrator, ArrayRows(z, None))
    np.testing.assert_array_equal(label, z.argmax(axis=1))
    np.testing.assert_array_equal(log_p.argmax(axis=1), label)


def test_two_classes_are_free():
    z, y = tilted(1500, 2)
    found = auto(z, y)
    label = predict(found.calibrator, ArrayRows(z, None))[1]
    assert not found.details["auto"]["predictions"]["kept"]
    assert (label == y).mean() > (z.argmax(axis=1) == y).mean() + 0.03


def test_the_artifact_holds_the_projection_and_the_last_step(tmp_path):
    z, y = truth(3000, 5, seed=2)
    z = z + np.linspace(-0.2, 0.2, 5)
    fitted = calcli.fit(z, y)
    then = [stage["method"] for stage in fitted.params["then"]]
    assert then[0] == "keep" and then[-1] == "mono"
    fitted.save(tmp_path / "a.json")
    again = calcli.load(tmp_path / "a.json")
    np.testing.assert_array_equal(again.predict_proba(z), fitted.predict_proba(z))
    content = json.loads((tmp_path / "a.json").read_text())
    predictions = content["fit"]["details"]["auto"]["predictions"]
    assert set(predictions) == {
        "kept",
        "rows",
        "changed",
        "accuracy_difference",
        "brier_z",
        "p_value",
    }


# ---- the last step


def by_class(n, seed=0, k=6, spread=0.5):
    """Calibrated log-probabilities, but for a temperature of each predicted class."""
    rng = np.random.default_rng(seed)
    u = 2.5 * rng.normal(size=(n, k))
    y = (u + rng.gumbel(size=u.shape)).argmax(axis=1)
    scale = np.exp(spread * np.linspace(-1, 1, k))[u.argmax(axis=1)]
    log_p = log_softmax(u * scale[:, None])
    rows = ArrayRows(log_p, y, "log_probs")
    rows.original = log_p.argmax(axis=1)
    return rows


def test_temperatures_by_predicted_class_where_cross_fitting_shows_them():
    rows, new = by_class(4000), by_class(4000, seed=1)
    found = last_step(rows, keep=False, context=Context())
    assert [stage.method for stage in found.stages] == ["ts-by", "mono"]
    assert found.record["by_prediction_gain"] > 0
    at = np.arange(4000)
    before = new.scores[at, new.labels()].mean()
    block = new
    for stage in found.stages:
        log_p = predict(stage.calibrator, block)[0]
        block = ArrayRows(log_p, new.labels(), "log_probs")
    assert log_p[at, new.labels()].mean() > before + 0.005
    np.testing.assert_array_equal(log_p.argmax(axis=1), new.scores.argmax(axis=1))
    none = last_step(by_class(4000, spread=0.0), keep=False, context=Context())
    assert [stage.method for stage in none.stages] == ["mono"]


def test_nothing_is_fitted_to_fewer_than_2000_rows():
    found = last_step(by_class(1999), keep=True, context=Context())
    assert [stage.method for stage in found.stages] == ["keep"]


def test_temperatures_around_one_are_penalised_optima():
    """At the optimum d = -tau^2 times the slope of the NLL; a class without rows keeps 1."""
    rows = by_class(2000)
    rows.scores[:, 5] = -50.0  # no row is predicted as this class
    fitted = TemperatureByGroup.around_one(rows, BY_PREDICTION)
    assert fitted.beta == 1.0 and "5" not in fitted.groups
    top = rows.scores.argmax(axis=1)
    for name, d in fitted.groups.items():
        here = np.flatnonzero(top == int(name))

        def loss(x, here=here):
            log_p = log_softmax(np.exp(x) * rows.scores[here])
            nll = -log_p[np.arange(len(here)), rows.labels()[here]].sum()
            return nll + x**2 / (2 * BY_PREDICTION.tau**2)

        slope = (loss(d + 1e-5) - loss(d - 1e-5)) / 2e-5
        assert abs(slope) < 1e-4


def test_the_gain_by_prediction_is_that_of_held_out_fits():
    """Against fits to the other folds from scratch; one Newton step leaves less than a tenth of it."""
    rows = by_class(3000)
    fold = np.arange(3000) % 3
    found = TemperatureByGroup.held_out_gain(rows, BY_PREDICTION, fold)
    at = np.arange(3000)
    before = log_softmax(rows.scores)[at, rows.labels()]
    expected = np.empty(3000)
    for number in range(3):
        held = np.flatnonzero(fold == number)
        learned = rows.take(np.flatnonzero(fold != number))
        fitted = TemperatureByGroup.around_one(learned, BY_PREDICTION)
        log_p = predict(fitted, rows.take(held))[0]
        expected[held] = log_p[np.arange(len(held)), rows.labels()[held]] - before[held]
    assert found.mean() == pytest.approx(expected.mean(), rel=0.1)
    assert np.corrcoef(found, expected)[0, 1] > 0.99


def test_the_gentle_map_is_the_one_of_mono():
    assert (GENTLE.smooth, GENTLE.prior) == (30.0, 0.25)


# ---- a stage like any other


@pytest.mark.parametrize("name", ["auto+hb", "auto+sb", "auto+beta"])
def test_a_later_stage_is_fitted_to_out_of_fold_predictions(name):
    """Of pure noise: in-sample predictions would look better than they are, and be sharpened."""
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(400, 3)), rng.integers(0, 3, 400)
    rows = ArrayRows(z, y)
    first = fit("auto", rows)
    assert first.out_of_fold.n == 400
    inside = predict(first.calibrator, rows)[0]
    held = first.out_of_fold
    at = np.arange(400)
    # by what is fitted
    assert inside[at, y].mean() > held.scores[at, held.labels()].mean()
    fitted = fit(name, rows).calibrator
    assert np.isfinite(predict(fitted, rows)[0]).all()


def test_what_a_fit_says_is_held_out_is_no_better_than_uniform_on_noise(tmp_path):
    """No method can do better; in-sample figures do, and so may those of a last step."""
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "noise.npz",
        logits=rng.normal(size=(2500, 3)),
        labels=rng.integers(0, 3, 2500),
    )
    fitted = calcli.fit(str(tmp_path / "noise.npz"), method="auto")
    record = fitted.to_dict()["fit"]
    held_out = record["details"]["held_out"]
    assert set(held_out) == set(record["after"])
    assert held_out["nll"] >= np.log(3.0)
    assert held_out["nll"] > record["after"]["nll"]


def test_rules_that_choose_are_no_stage():
    with pytest.raises(UsageError, match="auto cannot be a stage of a composition"):
        calcli.fit(*truth(60, 3), "auto+hb", rule="best")


# ---- where nothing can be weighed


@pytest.mark.parametrize(
    ("y", "n", "words"),
    [
        ([0] * 80, 80, "all labels are 0; auto takes ts"),
        ([2], 1, "there is one row only; auto takes ts"),
    ],
)
def test_the_first_candidate_is_taken_and_it_is_said(y, n, words):
    z, _ = truth(n, 3)
    found = auto(z, np.array(y))
    assert words in found.warnings[-1]
    assert [member.method for member in found.calibrator.members] == ["ts"]


def test_confidences_that_are_all_right_too():
    said = np.random.default_rng(0).uniform(0.6, 1.0, 100)
    found = auto(said[:, None], np.ones(100, int), "confidence")
    assert "all answers are right; auto takes mline" in found.warnings[-1]


def test_confidences_are_averaged():
    """By hand: the weighted mean of the members' confidences, with one half mixed in."""
    rng = np.random.default_rng(1)
    said = rng.beta(5, 2, 800)
    right = (rng.random(800) < said**2).astype(int)
    rows = ArrayRows(said[:, None], right, "confidence")
    mixture = fit("auto", rows).calibrator
    block = next(iter(rows.blocks()))
    parts = sum(
        m.weight * m.calibrator.apply(block).confidence for m in mixture.members
    )
    expected = (1 - mixture.uniform) * parts + mixture.uniform / 2
    np.testing.assert_allclose(mixture.apply(block).confidence, expected, rtol=1e-12)
    truly = said**2
    brier = [((c - truly) ** 2).mean() for c in (said, expected)]
    assert brier[1] < 0.1 * brier[0]


# ---- progress


def test_progress_never_goes_back_and_ends_at_the_end():
    reports = []
    context = replace(Context(), progress=lambda *report: reports.append(report))
    auto(*truth(1500, 20), context=context)
    what, done, total = zip(*reports, strict=True)
    assert set(what) == {"weighing methods"} and set(total) == {1000}
    assert done[0] < 50 and done[-1] == 1000
    assert len(set(done)) > 50
    # what turns out to be left out shortens the rest, it never sends the count back by much
    assert min(np.diff(done)) > -150


# ---- one command


def test_run_on_shuffled_rows_gives_the_same_numbers(run):
    z, y = truth(1200, 3)
    z = z + np.array([0.0, 0.5, -0.5])
    order = np.random.default_rng(1).permutation(600)
    found = []
    for name, index in (("one", np.arange(600)), ("two", order)):
        with h5py.File(f"{name}.h5", "w") as file:
            for group, first in (("cal", 0), ("test", 600)):
                file[f"{group}/logits"] = z[first + index]
                file[f"{group}/labels"] = y[first + index]
        done = run("run", f"{name}.h5", "-o", name, "--json")
        assert done.code == 0, done.err
        results = json.loads(done.out)["evaluation"]["results"]
        found.append([each["metrics"]["nll"]["value"] for each in results])
    np.testing.assert_allclose(*found, rtol=1e-7)
