"""The theory of expectation consistency's synthetic study, against independent solutions and simulation.

Oracle values: computed once by a damped iteration and once by continuation with Newton's method in
float64 (both agree to six digits), and by 40 trained models of d = 200 (means and standard errors).
"""

import sys

import numpy as np
import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "reproductions"))

from teacher_student import theory
from teacher_student.simulation import models
from teacher_student.theory import Statistician, Student, best_ridge

pytestmark = pytest.mark.slow

RIDGE = 1e-4
# ruff: noqa: E501 (a table)
# teacher, alpha: m, q, error, NLL, T_TS, T_EC, one-class ECE in 1e-4 (none, TS, EC), Brier (none, TS, EC)
ROWS = {
    ("affine", 1): (4.97707, 79.1157, 0.34137, 1.92232, 9.92309, 10.04319, 1400.88, 14.76, 11.48, 0.60168, 0.42645, 0.42645),
    ("affine", 20): (3.16277, 10.5616, 0.19506, 0.40139, 1.24199, 1.35429, 217.88, 119.91, 100.81, 0.26510, 0.26046, 0.25995),
    ("constant", 20): (1.36371, 2.18004, 0.34181, 0.58887, 1.31450, 1.67279, 417.69, 320.82, 300.56, 0.41233, 0.40377, 0.40396),
    ("logit", 2): (12.7611, 1227.16, 0.43953, 11.35728, 113.71545, 113.80535, 2118.82, 0.44, 0.34, 0.85649, 0.48867, 0.48867),
    ("logit", 5): (1.31070, 3.85305, 0.38726, 0.78571, 3.28511, 3.29138, 812.11, 1.83, 1.44, 0.52557, 0.46181, 0.46181),
}  # fmt: skip


@pytest.fixture(scope="module")
def affine20():
    return Student.trained("affine", 20, RIDGE)


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_every_column_of_a_row(case):
    student = Student.trained(*case, RIDGE)
    row = student.row()
    m, q, error, nll, ts, ec, *rest = ROWS[case]
    figures_of_row = (
        row["m"],
        row["q"],
        row["error"],
        row["nll"],
        row["temperature_ts"],
        row["temperature_ec"],
    )
    # printed to five places
    np.testing.assert_allclose(figures_of_row, (m, q, error, nll, ts, ec), rtol=3e-5)
    # unsplit integrals: to .01
    np.testing.assert_allclose(1e4 * np.array(row["half_ece"]), rest[:3], atol=0.015)
    np.testing.assert_allclose(row["brier"], rest[3:], atol=6e-6)
    for left, right in student.identities():
        # small differences of large terms
        assert left == pytest.approx(right, rel=1e-5)


@pytest.mark.parametrize("name", theory.TEACHERS)
def test_the_temperatures_fulfil_their_conditions(name):
    """Stein's identity: 2 q beta E p (1 - p) = m E s*'(nu) at the temperature of least NLL."""
    student = Student.trained(name, 10, RIDGE)
    xi, weight, _ = student.quadrature
    p = theory.expit(xi / student.temperature_ts)
    slope = {"affine": 0.3413447, "constant": 0.2419707, "logit": 0.2066210}[name]
    left = 2 * student.q / student.temperature_ts * (weight @ (p * (1 - p)))
    assert left == pytest.approx(student.m * slope, rel=1e-6)
    assert student.confidence(student.temperature_ec) == pytest.approx(
        student.accuracy, abs=1e-12
    )


def test_damped_and_continued_solutions_agree():
    np.testing.assert_allclose(
        theory.damped("affine", 5, RIDGE),
        theory.continued("affine", 5, RIDGE),
        rtol=1e-6,
    )


def test_the_best_ridges():
    for_error, for_loss = (
        best_ridge("affine", 20, "error"),
        best_ridge("constant", 20, "loss"),
    )
    assert for_error.ridge == pytest.approx(0.170060, rel=1e-3)
    assert for_error.temperature_ts == pytest.approx(0.96185, abs=2e-4)
    assert for_loss.ridge == pytest.approx(0.665074, rel=1e-3)
    assert for_loss.temperature_ec == pytest.approx(1.27347, abs=2e-4)


def test_the_joint_density(affine20):
    points = ((0.5, 0.5), (0.75, 0.8), (0.9, 0.95))
    oracle = {
        1.0: (1.703691, 2.270526, 5.584113),
        affine20.temperature_ec: (2.307283, 2.941425, 1.316995),
    }
    for temperature, values in oracle.items():
        np.testing.assert_allclose(
            [
                affine20.density(*point_of_density, temperature)
                for point_of_density in points
            ],
            values,
            rtol=5e-6,
        )
    np.testing.assert_allclose(
        affine20.expected_teacher([0.6, 0.8, 0.95]),
        (0.560708, 0.707367, 0.918628),
        atol=1e-6,
    )
    # Density and atoms together are the student's own density.
    middle = (np.arange(2000) + 0.5) / 2000
    for b in (0.3, 0.8):
        inside = affine20.density(middle, b).mean()
        atoms = affine20.atom(0.0, np.array(b)) + affine20.atom(1.0, np.array(b))
        assert inside + atoms == pytest.approx(affine20.student_density(b), rel=1e-6)


def test_who_knows_the_model_needs_no_temperature():
    measures_at = {t: Statistician.trained(5, t).measures() for t in (0.8, 1.0, 1.25)}
    assert measures_at[1.0]["accuracy"] == pytest.approx(0.61747612, abs=1e-8)
    assert measures_at[1.0]["confidence"] == pytest.approx(
        measures_at[1.0]["accuracy"], abs=1e-10
    )
    assert measures_at[1.0]["nll"] == pytest.approx(0.65018688, abs=1e-8)
    assert (
        measures_at[0.8]["confidence"],
        measures_at[1.25]["confidence"],
    ) == pytest.approx((0.64087417, 0.59450266), abs=1e-8)
    assert measures_at[1.0]["nll"] < min(
        measures_at[0.8]["nll"], measures_at[1.25]["nll"]
    )


def test_trained_models_lie_on_the_theorys_curves(affine20):
    """Within three standard errors plus the 4/d by which d = 200 is not infinite."""
    figures, row = models("affine", 20, RIDGE, 200, 20), affine20.row()
    for key in ("m", "q", "error", "temperature_ts", "temperature_ec"):
        allowed = 3 * figures[key]["se"] + 4 / 200 * row[key]
        assert abs(figures[key]["mean"] - row[key]) <= allowed, key
    assert (
        abs(figures["half_ece"]["mean"][0] - row["half_ece"][0])
        <= 3 * figures["half_ece"]["se"][0] + 0.02 * 0.0218
    )


def test_a_search_that_fails_says_so(monkeypatch):
    monkeypatch.setattr(theory, "STEP_LIMIT", 3)
    with pytest.raises(theory.NotConverged, match="affine, alpha 20"):
        Student.trained("affine", 20, RIDGE)
