"""Maps pooled over questions: what they find, and that few labels do no harm.

The generators are not those of the design: probabilities are Dirichlet draws (choices)
and beta draws (yes/no), labels follow the calibrated ones.
"""

import numpy as np
import pytest

from calcli.decisions import partial_pooling as pooling
from calcli.numerics import log_softmax

FRESH = 2000


def choice(rng, n, temperature):
    """Stated logarithms, temperature times too sure, and labels."""
    p = rng.dirichlet([0.5, 0.8, 1.2, 0.3], size=n)
    p = np.maximum(p, 1e-9) / np.maximum(p, 1e-9).sum(axis=1, keepdims=True)
    labels = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(max=3)
    return log_softmax(temperature * np.log(p)), labels


def yes_no(rng, n, slope, intercept):
    """Stated log-odds that the true line brings back, and labels."""
    p = rng.beta(0.8, 1.4, size=n).clip(1e-9, 1 - 1e-9)
    labels = (rng.random(n) < p).astype(np.int64)
    return (np.log(p / (1 - p)) - intercept) / slope, labels


def question(kind, rng, n, map):
    made = choice if kind is pooling.TemperatureQuestion else yes_no
    scores, labels = made(rng, n, *map)
    return kind(scores, labels, np.arange(n))


def gains(kind, rng, n, maps):
    """Mean gain of NLL on fresh rows by the fit to n labels a question."""
    fitted = [question(kind, rng, n, map) for map in maps]
    folds = [np.arange(n) % pooling.N_FOLDS for _ in maps]
    fit = pooling.fit_type(fitted, folds)
    losses = []
    for theta, map in zip(fit.theta, maps, strict=True):
        fresh = question(kind, rng, FRESH, map)
        raw = fresh.losses(np.zeros(fresh.n_parameters))
        losses.append(float((raw - fresh.losses(theta)).mean()))
    return np.mean(losses)


CALIBRATED = [
    (pooling.TemperatureQuestion, [(1.0,)]),
    (pooling.TemperatureQuestion, [(1.0,)] * 3),
    (pooling.LineQuestion, [(1.0, 0.0)]),
    (pooling.LineQuestion, [(1.0, 0.0)] * 3),
]


@pytest.mark.parametrize("n", [50, 100, 200, 300])
@pytest.mark.parametrize("case", range(len(CALIBRATED)))
def test_few_labels_of_calibrated_answers_cost_less_than_002(case, n):
    kind, maps = CALIBRATED[case]
    rng = np.random.default_rng([case, n])
    repeats = 100 if n == 50 else 40
    assert np.mean([gains(kind, rng, n, maps) for _ in range(repeats)]) > -0.002


@pytest.mark.parametrize("n", [50, 100, 200, 300])
def test_wrong_answers_are_corrected(n):
    rng = np.random.default_rng(n)
    over = [gains(pooling.TemperatureQuestion, rng, n, [(1.6,)] * 3) for _ in range(20)]
    under = [gains(pooling.LineQuestion, rng, n, [(2.2, 0.5)] * 2) for _ in range(20)]
    least = 0.012 if n == 50 else 0.02  # of the .06 and .04 that there are to gain
    assert np.mean(over) > least
    assert np.mean(under) > least


def test_records_that_answer_several_questions_are_no_more_evidence():
    """Copies of a row, under one unit, in one question or in several."""
    rng = np.random.default_rng(8)
    made = question(pooling.TemperatureQuestion, rng, 80, (1.5,))
    folds = np.arange(80) % pooling.N_FOLDS
    alone = pooling.judge_maps([made], [folds], pooling.pool([made]))
    several = pooling.judge_maps([made] * 4, [folds] * 4, pooling.pool([made] * 4))
    assert several.n_units == alone.n_units
    assert several.design_effect == pytest.approx(4.0)
    gain = sum(float(gains.sum()) for gains in several.gains)
    assert several.evidence == pytest.approx(gain / 4.0)


def test_the_share_is_the_probability_that_the_maps_are_better():
    """By hand: evidence of 1 nat, and odds of 1 or 1/9 before any label is seen."""
    gains = [np.full(150, 1.0 / 150.0)]
    assert pooling.JudgedMaps(gains, 150, 1.0).share == pytest.approx(
        np.e / (np.e + 1.0)
    )
    few = pooling.JudgedMaps([np.full(50, 1.0 / 50.0)], 50, 1.0)
    assert few.share == pytest.approx(np.e / (np.e + 9.0))
    assert pooling.JudgedMaps([-gains[0]], 150, 1.0).share == 0.0
    assert pooling.JudgedMaps(gains, pooling.FEWEST_UNITS - 1, 1.0).share == 0.0


def test_many_labels_find_the_map():
    rng = np.random.default_rng(0)
    maps = [(1.3,), (2.0,)]
    made = [question(pooling.TemperatureQuestion, rng, 20_000, map) for map in maps]
    folds = [np.arange(20_000) % pooling.N_FOLDS] * 2
    fit = pooling.fit_type(made, folds)
    assert np.exp(-fit.theta[:, 0]) == pytest.approx([1.3, 2.0], rel=0.03)
    line = question(pooling.LineQuestion, rng, 20_000, (2.2, 0.5))
    fit = pooling.fit_type([line], folds[:1])
    assert np.exp(fit.theta[0, 0]) == pytest.approx(2.2, rel=0.05)
    assert fit.theta[0, 1] == pytest.approx(0.5, abs=0.08)


def test_maps_by_question_beat_one_for_all_where_questions_differ():
    rng = np.random.default_rng(5)
    maps = [(0.7,), (1.0,), (1.6,), (2.2,)]
    kind = pooling.TemperatureQuestion
    alone, shared = [], []
    for _ in range(10):
        made = [question(kind, rng, 200, map) for map in maps]
        folds = [np.arange(200) % pooling.N_FOLDS for _ in maps]
        fit = pooling.fit_type(made, folds)
        together = kind(
            np.concatenate([q.log_p for q in made]),
            np.concatenate([q.labels for q in made]),
            np.arange(800),
        )
        one = pooling.pool([together]).theta[0]
        for theta, map in zip(fit.theta, maps, strict=True):
            fresh = question(kind, rng, FRESH, map)
            alone.append(fresh.losses(theta).mean())
            shared.append(fresh.losses(one).mean())
    assert np.mean(alone) < np.mean(shared) - 0.005


def test_gradients_are_those_of_the_losses():
    """Central differences of the summed losses."""
    rng = np.random.default_rng(2)
    for kind, map, theta in (
        (pooling.TemperatureQuestion, (1.4,), np.array([0.3])),
        (pooling.LineQuestion, (0.8, 0.2), np.array([0.2, -0.4])),
    ):
        made = question(kind, rng, 60, map)
        gradient, _ = made.derivatives(theta)
        for place in range(len(theta)):
            step = np.zeros(len(theta))
            step[place] = 1e-5
            change = made.losses(theta + step).sum() - made.losses(theta - step).sum()
            assert gradient[place] == pytest.approx(change / 2e-5, rel=1e-5)


def test_rows_of_a_unit_count_once():
    """Ten copies of every row, as one unit, give the map of the rows themselves."""
    rng = np.random.default_rng(3)
    made = question(pooling.TemperatureQuestion, rng, 80, (1.5,))
    copies = pooling.TemperatureQuestion(
        np.repeat(made.log_p, 10, axis=0),
        np.repeat(made.labels, 10),
        np.repeat(made.units, 10),
    )
    first, second = pooling.pool([made]), pooling.pool([copies])
    assert first.theta == pytest.approx(second.theta, abs=1e-6)
