"""The optimiser of the affine family: derivatives, certificates, agreement with independent solvers."""

import numpy as np
import pytest
from scipy.optimize import minimize

from calcli.calibrator import Context
from calcli.methods._affine import matrix as matrix_module
from calcli.methods._affine import objective as objective_module
from calcli.methods._affine import vector as vector_module
from calcli.methods._affine.fitting import identity_map, solve, uniform_ridge
from calcli.methods._affine.matrix import MatrixObjective
from calcli.methods._affine.objective import Ridge, Table, Walked, logits_as
from calcli.methods._affine.vector import VectorObjective
from calcli.numerics import log_softmax
from calcli.rows import ArrayRows
from calcli.solvers import conjugate_gradients, minimise_convex

quiet = Context()


def data(n=400, k=5, seed=0, weights=False):
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.standard_normal((n, k))
    p = np.exp(log_softmax(0.5 * z + rng.standard_normal(k)))
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return z, y, rng.random(n) if weights else None


def diagonal(z, y, w=None, ridge=1e-3, block_rows=97):
    rows = ArrayRows(z, y, weight=w, block_rows=block_rows)
    return VectorObjective(
        Walked(rows, logits_as).chunks(), uniform_ridge(ridge, z.shape[1], 2)
    )


def matrix(z, y, w=None, ridge=1e-3):
    k = z.shape[1]
    return MatrixObjective(
        Table(z, y, w).chunks(slice(0, 150), slice(150, None)),
        uniform_ridge(ridge, k, k + 1),
    )


def written_out(z, y, w, theta, ridge, centre):
    """The objective in one line each, independent of the code under test."""
    full = (
        theta
        if theta.shape[1] > 2
        else np.column_stack([np.diag(theta[:, 0]), theta[:, 1]])
    )
    losses = -log_softmax(z @ full[:, :-1].T + full[:, -1])[np.arange(len(y)), y]
    return np.average(losses, weights=w) + ridge * ((theta - centre) ** 2).sum()


@pytest.mark.parametrize("make", [diagonal, matrix])
@pytest.mark.parametrize("weights", [False, True])
def test_value_and_gradient(make, weights):
    """Central differences of the objective written out."""
    z, y, w = data(weights=weights)
    objective = make(z, y, w)
    rng = np.random.default_rng(1)
    centre = objective.ridge.centre
    theta = centre + 0.3 * rng.standard_normal(centre.shape)
    value, gradient = objective.value_gradient(theta)
    assert value == pytest.approx(written_out(z, y, w, theta, 1e-3, centre), rel=1e-13)
    v = objective.project(rng.standard_normal(centre.shape))
    up, down = (
        written_out(z, y, w, theta + h * v, 1e-3, centre) for h in (1e-5, -1e-5)
    )
    assert np.vdot(gradient, v) == pytest.approx((up - down) / 2e-5, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("make", [diagonal, matrix])
def test_hessian_products(make):
    """Differences of the gradient; the matrix products are in float32, hence 1e-5."""
    z, y, w = data(weights=True)
    objective = make(z, y, w)
    rng = np.random.default_rng(1)
    theta = objective.ridge.centre + 0.3 * rng.standard_normal(
        objective.ridge.centre.shape
    )
    v = objective.project(rng.standard_normal(theta.shape))
    difference = (
        objective.value_gradient(theta + 1e-5 * v)[1]
        - objective.value_gradient(theta - 1e-5 * v)[1]
    )
    objective.value_gradient(theta)
    assert objective.product(v) == pytest.approx(difference / 2e-5, abs=1e-5)


def test_formed_hessian_equals_its_products():
    z, y, w = data(weights=True)
    objective = diagonal(z, y, w)
    objective.value_gradient(objective.ridge.centre)
    hessian = objective.form_hessian()
    v = objective.project(np.random.default_rng(0).standard_normal((5, 2)))
    assert (hessian @ v.ravel()).reshape(5, 2) == pytest.approx(
        objective.product(v), abs=1e-9
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", [diagonal, matrix])
def test_optimum_agrees_with_scipy_from_any_start(make, seed):
    """scipy.optimize.minimize(method="BFGS") with differences of its own: NLL to 1e-8 relative."""
    from scipy.optimize import minimize

    z, y, _ = data(n=300, k=3, seed=seed)
    objective = make(z, y)
    centre = objective.ridge.centre
    rng = np.random.default_rng(seed + 100)
    ours = solve(objective, centre + 3 * rng.standard_normal(centre.shape), quiet)
    assert ours.converged
    peer = minimize(
        lambda x: written_out(z, y, None, x.reshape(centre.shape), 1e-3, centre),
        centre.ravel() + rng.standard_normal(centre.size),
        method="BFGS",
        options={"gtol": 1e-7},
    )
    assert ours.value == pytest.approx(peer.fun, rel=1e-8)
    assert ours.value <= peer.fun * (1 + 1e-10)
    again = solve(objective, centre, quiet)
    assert again.value == pytest.approx(ours.value, rel=1e-9)


def test_matrix_scaling_agrees_with_scikit_learn():
    """sklearn.linear_model.LogisticRegression(C=1/(2 r n), tol=1e-10), lbfgs: ridge on W about 0, none on b.

    scikit-learn 1.4 and later; its objective is n times ours for a ridge r |W|^2.
    """
    linear_model = pytest.importorskip("sklearn.linear_model")
    z, y, _ = data(n=500, k=4, seed=3)
    r = 0.01
    peer = linear_model.LogisticRegression(
        C=1 / (2 * r * len(y)), tol=1e-10, max_iter=10_000
    ).fit(z, y)
    weight = np.full((4, 5), r)
    weight[:, -1] = 0.0
    objective = MatrixObjective(
        Table(z, y, None).chunks(), Ridge(weight, np.zeros((4, 5)))
    )
    ours = solve(objective, np.random.default_rng(0).standard_normal((4, 5)), quiet)
    theirs = np.column_stack([peer.coef_, peer.intercept_])
    at_theirs = objective.value_gradient(theirs)[0]
    assert ours.converged
    assert ours.value == pytest.approx(at_theirs, rel=1e-8)
    assert ours.value <= at_theirs * (1 + 1e-10)


@pytest.mark.parametrize("make", [diagonal, matrix])
def test_certificate_bounds_the_distance(make):
    """Stopped early, the estimated gap is the true one to a factor of two."""
    z, y, _ = data()
    objective = make(z, y)
    start = identity_map(5, objective.columns)
    best = minimise_convex(objective, start)
    rough = minimise_convex(make(z, y), start, aim=1e-3)
    assert rough.value - best.value == pytest.approx(rough.gap, rel=1.0, abs=1e-12)
    assert best.gap < 1e-10
    assert best.gradient < 1e-5


def test_large_problems_take_the_other_roads(monkeypatch):
    """Conjugate gradients for many classes, float32 Hessians, one factored preconditioner, features not kept."""
    z, y, w = data(k=6, weights=True)
    start = identity_map(6, 2)
    small = minimise_convex(diagonal(z, y, w), start)
    monkeypatch.setattr(vector_module, "DOUBLE_CLASSES", 0)
    single = minimise_convex(diagonal(z, y, w), start)
    monkeypatch.setattr(vector_module, "DENSE_CLASSES", 0)
    monkeypatch.setattr(objective_module, "SMALL", 0)
    streamed = minimise_convex(diagonal(z, y, w, block_rows=31), start)
    assert single.value == pytest.approx(small.value, rel=1e-9)
    assert streamed.value == pytest.approx(small.value, rel=1e-9)
    assert single.converged
    assert streamed.converged


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("hard", [0, 20])
@pytest.mark.parametrize("blocks", [0, 160])
def test_a_full_map_reaches_the_optimum_by_every_preconditioner(
    monkeypatch, weights, hard, blocks
):
    """The optimum of L-BFGS on the objective written out, with the same bytes for any number of threads."""
    monkeypatch.setattr(matrix_module, "HARD", hard)
    monkeypatch.setattr(matrix_module, "BLOCK_CLASSES", blocks)
    monkeypatch.setattr(matrix_module, "FEW_CLASSES", 0)
    monkeypatch.setattr(matrix_module, "PART", 2)
    z, y, w = data(k=6, weights=weights)
    solutions = []
    for workers in (1, 2, 4):
        monkeypatch.setattr("calcli.parallel.WORKERS", workers)
        objective = matrix(z, y, w, ridge=1e-4)
        solutions.append(
            minimise_convex(objective, identity_map(6, 7), aim=objective.aim)
        )
        assert objective.curvature.__name__ == (
            "diagonal" if hard else "by_class" if blocks else "factored"
        )
    assert solutions[0].converged
    assert len({one.theta.tobytes() for one in solutions}) == 1
    centre = identity_map(6, 7)
    ends = minimize(
        lambda t: written_out(z, y, w, t.reshape(6, 7), 1e-4, centre),
        solutions[0].theta.ravel(),
        method="BFGS",
        options={"gtol": 1e-9},
    )
    assert solutions[0].value <= ends.fun * (1 + 1e-12)


@pytest.mark.parametrize("hard", [0, 5])
def test_a_full_map_meets_another_ridge_with_what_it_knows(monkeypatch, hard):
    """A path of ridges ends where a search under the last one does (rel 1e-12, what the searches aim at)."""
    monkeypatch.setattr(matrix_module, "HARD", hard)
    monkeypatch.setattr(matrix_module, "FEW_CLASSES", 0)
    z, y, _ = data(k=6)
    path = matrix(z, y)
    theta = identity_map(6, 7)
    for ridge in (1.0, 1e-2, 1e-4, 1e-6):
        path.exchange(uniform_ridge(ridge, 6, 7))
        theta = minimise_convex(path, path.aligned(theta), aim=path.aim).theta
    straight = matrix(z, y, ridge=1e-6)
    value = minimise_convex(straight, identity_map(6, 7), aim=straight.aim).value
    assert path.value_gradient(theta)[0] == pytest.approx(value, rel=2e-12)


def test_rows_that_are_nearly_separable_end_at_the_optimum():
    """Blocks in float32 of features far from 0 are nearly singular: what steers by them must not end early."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 30, 300)
    z = 2.0 * rng.standard_normal((300, 30)) + 8.0 * np.eye(30)[y]
    x = np.maximum(log_softmax(z), np.log(2.2e-16))
    objective = MatrixObjective(Table(x, y, None).chunks(), uniform_ridge(1e-6, 30, 31))
    solution = solve(objective, identity_map(30, 31), quiet)
    assert solution.converged
    assert solution.gradient < 1e-7


def test_a_preconditioner_that_rounding_has_eaten_is_no_end():
    """It turns the residual around, so that no step falls; the search has not found the optimum there."""
    right = np.ones(3)
    assert not conjugate_gradients(lambda v: v, right, lambda v: -v, 0.1, 9).exact
    assert conjugate_gradients(lambda v: v, 0.0 * right, lambda v: v, 0.1, 9).exact


def many_classes(kind):
    """900 rows of 300 classes: rows at levels of their own, peaked ones, all at one level, or none of these."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 300, 900)
    z = rng.standard_normal((900, 300)) + 0.3 * rng.standard_normal(300)
    z[np.arange(900), y] += {"peaked": 40.0}.get(kind, 5.0)
    if kind == "uneven":
        z += 20.0 * rng.standard_normal((900, 1))
    return z + 2e3 if kind == "level" else z, y


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "uneven", "peaked", "level"])
def test_many_classes_reach_the_optimum_with_and_without_the_hessian(kind, monkeypatch):
    """The same objective at the end as with the Hessian from the first step, in float64, however the rows are cut."""
    z, y = many_classes(kind)
    start = identity_map(300, 2) / 2
    hybrid = diagonal(z, y, ridge=1e-4)
    solution = minimise_convex(hybrid, start)
    assert solution.converged
    assert (hybrid.narrow == np.float64) == (kind == "level")
    assert hybrid.dense == (kind == "level")
    monkeypatch.setattr(objective_module, "SMALL", 0)
    for workers in (1, 2, 4):
        monkeypatch.setattr("calcli.parallel.WORKERS", workers)
        assert (
            minimise_convex(diagonal(z, y, ridge=1e-4), start).theta.tobytes()
            == solution.theta.tobytes()
        )
    monkeypatch.setattr(vector_module, "DOUBLE_CLASSES", 300)
    exact = minimise_convex(diagonal(z, y, ridge=1e-4), start)
    assert solution.value == pytest.approx(exact.value, rel=2e-10)


def test_absent_classes_do_not_move():
    z, y, _ = data()
    y = np.where(y == 1, 0, y)
    for make in (diagonal, matrix):
        objective = make(z, y, ridge=1e-6)
        start = identity_map(5, objective.columns) / 2
        solution = minimise_convex(objective, start)
        assert (solution.theta[1] == start[1]).all()
        assert solution.theta[:, -1].sum() == pytest.approx(0.0, abs=1e-9)
        assert solution.converged


def test_conjugate_gradients_solve_a_known_system():
    """A = [[4, 1], [1, 3]], b = (1, 2): x = (1/11, 7/11)."""
    a = np.array([[4.0, 1.0], [1.0, 3.0]])
    solution = conjugate_gradients(
        lambda v: a @ v, np.array([1.0, 2.0]), lambda v: v, 1e-12, 10
    )
    assert solution.step == pytest.approx([1 / 11, 7 / 11], abs=1e-12)
    assert solution.exact
    assert solution.products == 2
