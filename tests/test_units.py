"""Rows that belong together: hand-sized cases, brute force, and the laws of the null by shared luck."""

import json
import math

import h5py
import numpy as np
import pytest
from cli import runner

from calcli.statistics.units import AcceptedUnits, Units, design_effect, luck, shared_uniforms, unit_mean, wrong_units

# Twelve rows in six units. By hand: sums of y - c by unit .2 -.8 .6 -1.2 .2 -.45.
C = np.array([0.9, 0.9, 0.8, 0.7, 0.7, 0.6, 0.6, 0.95, 0.85, 0.5, 0.4, 0.55])
Y = np.array([1.0, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0])
UNIT = np.array([0, 0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5])


def test_luck_of_a_case_done_by_hand():
    # products of pairs: .01*2 + .09*2 + .36*2 + .0075*2 + (-.2 - .275 + .22)*2 = .425; pairs of min(c, c') - c c':
    # (.09 + .21 + .24 + .0425 + .2 + .225 + .18) * 2 = 2.375
    assert luck(C, Y - C, Units.of(UNIT)) == pytest.approx(0.425 / 2.375, abs=1e-12)


def test_sums_of_residuals_by_hand():
    units = Units.of(UNIT)
    sums = units.sums(Y - C)
    assert sums == pytest.approx([0.2, -0.8, 0.6, -1.2, 0.2, -0.45])
    assert math.sqrt(float(sums @ sums)) / 12 == pytest.approx(0.1375)
    mean, se = unit_mean(C - Y, units)
    assert mean == pytest.approx(1.45 / 12)
    centred = -sums - units.count * mean
    assert se == pytest.approx(math.sqrt(6 / 5 * float(centred @ centred)) / 12)
    assert design_effect(Y - C, units) == pytest.approx(2.7225 / 2.2975)


@pytest.mark.parametrize("weighted", [False, True])
def test_luck_equals_the_sum_over_pairs(weighted):
    rng = np.random.default_rng(3)
    unit = rng.integers(0, 40, size=150)
    c, shift = np.round(rng.uniform(0.2, 1, size=150), 1), rng.normal(size=40)
    r = 0.15 * shift[unit] + 0.1 * rng.normal(size=150)
    w = rng.uniform(size=150) if weighted else None
    v = np.ones(150) if w is None else w
    pair = (unit[:, None] == unit) & ~np.eye(150, dtype=bool)
    above = (pair * np.outer(v * r, v * r)).sum()
    below = (pair * np.outer(v, v) * (np.minimum(c[:, None], c) - np.outer(c, c))).sum()
    assert 0.1 < above / below < 1
    assert luck(c, r, Units.of(unit), w) == pytest.approx(above / below, rel=1e-12)


def test_units_of_one_row_share_no_luck():
    units = Units.of(np.arange(12))
    assert units.single
    assert luck(C, Y - C, units) == 0.0
    assert wrong_units(C, units) == pytest.approx(float((1 - C).sum()))
    mean, se = unit_mean(C - Y, units)
    assert (mean, se) == pytest.approx(((C - Y).mean(), (C - Y).std(ddof=1) / math.sqrt(12)))
    assert design_effect(Y - C, units) == pytest.approx(1.0)


def test_expected_wrong_units_by_hand():
    one = 1 - np.array([0.81, 0.8, 0.49, 0.36, 0.95 * 0.85, 0.5 * 0.4 * 0.55])
    assert wrong_units(C, Units.of(UNIT)) == pytest.approx(one.sum())


def test_shared_uniforms_keep_the_margin_and_have_the_covariance_of_shared_luck():
    c, unit = np.array([0.9, 0.6, 0.3, 0.8]), np.array([0, 0, 1, 1])
    share, n = 0.4, 200_000
    rng = np.random.default_rng(1)
    y = np.concatenate([v < c for _, v in shared_uniforms(Units.of(unit), share, n, rng)]).astype(float)
    # six standard errors of a mean of 200 000 products, each at most 1/4 in variance
    assert y.mean(axis=0) == pytest.approx(c, abs=6 * 0.5 / math.sqrt(n))
    covariance = np.cov(y.T)
    for i, j in ((0, 1), (2, 3)):
        expected = share * (min(c[i], c[j]) - c[i] * c[j])
        assert covariance[i, j] == pytest.approx(expected, abs=6 * 0.25 / math.sqrt(n))
    assert covariance[0, 2] == pytest.approx(0, abs=6 * 0.25 / math.sqrt(n))


# 40 units of three rows in the order of confidence, these rows wrong. Design effects, effective rows and p-values
# at accuracy .8: derived with SciPy's betainc and stdtrit outside this code.
WRONG = [50, 70, 71, 80, 90, 91, 92, 100, 105, 106, 110, 111, 115, 117, 118, 119]


@pytest.mark.parametrize(
    ("m", "alpha", "effect", "effective", "p"),
    [
        (67, 0.00625, 2.365854, 23.87741, 0.0109036301),
        (75, 0.00625, 2.166667, 29.617547, 0.0153420359),
        (90, 0.00625, 2.0, 39.581185, 0.0059640636),
        (97, 0.0125, 2.247525, 39.200651, 0.0265771520),
        (120, 0.00625, 1.888889, 57.787178, 0.1329708289),
    ],
)
def test_the_binomial_at_the_effective_number_of_rows(m, alpha, effect, effective, p):
    correct = np.ones(120)
    correct[WRONG] = 0
    accepted = AcceptedUnits.of(np.arange(m) // 3, correct[:m])
    assert accepted.design_effect(0.8) == pytest.approx(effect, abs=1e-6)
    assert accepted.effective(0.8, alpha) == pytest.approx(effective, abs=1e-5)
    assert accepted.tail(0.8, alpha) == pytest.approx(p, abs=1e-9)
    lower = accepted.lower(alpha)
    assert accepted.tail(lower, alpha) == pytest.approx(alpha, rel=1e-4)
    assert (lower >= 0.8) == (p <= alpha)


def test_a_set_without_a_wrong_row_counts_units_as_draws():
    accepted = AcceptedUnits.of(np.repeat(np.arange(30), 4), np.ones(120))
    assert accepted.design_effect(0.95) == pytest.approx(4.0)
    # .95^30 = .215: 120 rows that are all right prove no more than 30 would
    assert accepted.tail(0.95, 0.05) >= 0.95**30


def test_each_row_twice_in_its_unit_proves_no_more():
    correct = np.ones(120)
    correct[WRONG] = 0
    once = AcceptedUnits.of(np.arange(90) // 3, correct[:90])
    twice = AcceptedUnits.of(np.repeat(np.arange(90) // 3, 2), np.repeat(correct[:90], 2))
    assert twice.tail(0.8, 0.01) == pytest.approx(once.tail(0.8, 0.01), rel=1e-12)


# ---- where units come from


@pytest.fixture
def bundle(tmp_path, monkeypatch, capsys):
    """A folder with u.h5, 40 questions of five rows each in dataset unit and again in question, and the command."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 3)) * 3
    with h5py.File("u.h5", "w") as file:
        file["logits"], file["labels"] = z, z.argmax(axis=1)
        file["unit"] = np.repeat(np.arange(40), 5)
        file["question"] = np.array([f"q{i // 10}" for i in range(200)], dtype=object)
        file["missing"] = np.where(np.arange(200) == 7, np.nan, 1.0)
        file["alone"] = np.zeros(200, int)
        file["short"] = np.arange(7)
    return runner(monkeypatch, capsys)


def test_the_unit_is_what_the_option_names(bundle):
    def units(*words):
        return json.loads(bundle("threshold", "u.h5", "--accuracy", "0.6", "--json", *words).out).get("units")

    assert units()["name"] == "unit" and units()["n"] == 40
    assert units("--unit", "question")["name"] == "question" and units("--unit", "question")["n"] == 20
    assert units("--unit", "none") == {"name": "none"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent", "has no dataset 'absent'"),
        ("missing", "missing of row 7 is NaN"),
        ("alone", "all 200 rows are of one alone (0)"),
        ("short", "shape (7,), expected (200,)"),
    ],
)
def test_what_is_no_unit_is_refused_in_a_sentence(bundle, name, said):
    done = bundle("threshold", "u.h5", "--accuracy", "0.6", "--unit", name)
    assert done.code == 3 and said in done.line


def test_a_unit_that_is_cut_by_files_is_refused(bundle):
    with h5py.File("u.h5") as whole:
        for name, part in (("a.h5", slice(0, 103)), ("b.h5", slice(103, 200))):
            with h5py.File(name, "w") as file:
                for column in ("logits", "labels", "unit"):
                    file[column] = whole[column][part]
    done = bundle("threshold", "a.h5", "b.h5", "--accuracy", "0.6")
    assert done.code == 3 and "unit 20 is cut: a.h5 and b.h5" in done.line
    assert bundle("threshold", "a.h5", "b.h5", "--accuracy", "0.6", "--unit", "none").code == 0
