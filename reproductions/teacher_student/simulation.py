"""Students of a finite d, trained and judged like the theory's, to lie on its curves."""

import numpy as np
from scipy.special import expit

import calcli
from teacher_student.theory import teacher

FRESH_ROWS = 40_000
BINS = 100


def trained(x, sign, ridge):
    """Weights of the least sum of -ln sigmoid(sign w.x) + (ridge/2) |w|^2, by damped Newton steps.

    Raises RuntimeError where the gradient does not fall to 1e-9.
    """

    def loss(w):
        return np.logaddexp(0.0, -sign * (x @ w)).sum() + 0.5 * ridge * w @ w

    w = np.zeros(x.shape[1])
    for _ in range(200):
        s = expit(-sign * (x @ w))
        gradient = ridge * w - x.T @ (sign * s)
        if np.abs(gradient).max() < 1e-9:
            return w
        hessian = (x.T * (s * (1 - s))) @ x + ridge * np.eye(len(w))
        step, size, now = np.linalg.solve(hessian, gradient), 1.0, loss(w)
        while size > 1e-6 and loss(w - size * step) > now:
            size /= 2
        w = w - size * step
    raise RuntimeError("the logistic regression did not converge")


def one_model(name, alpha, ridge, d, seed):
    """What the theory's ``row`` holds, measured on fresh rows of one model.

    The teacher is rescaled to |w*|^2 = d, or its length would scatter q; calcli fits both
    temperatures to the fresh rows; the calibration error is taken from the teacher's own
    probabilities in 100 bins of |xi| that hold equally many rows (its floor at d = 200 is .002).
    """
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(d)
    truth *= np.sqrt(d) / np.linalg.norm(truth)
    x = rng.standard_normal((int(alpha * d), d)) / np.sqrt(d)
    sign = np.where(rng.random(len(x)) < teacher(name, x @ truth), 1.0, -1.0)
    w = trained(x, sign, ridge)
    # Fresh inputs enter only by w.x and truth.x, which are jointly Gaussian.
    both = np.array([[w @ w, w @ truth], [w @ truth, truth @ truth]]) / d
    xi, nu = np.linalg.cholesky(both) @ rng.standard_normal((2, FRESH_ROWS))
    chance = teacher(name, nu)
    y = (rng.random(FRESH_ROWS) < chance).astype(int)
    ts, ec = (calcli.fit(xi, y, method) for method in ("ts", "ec"))
    if (ts.status, ec.status) != ("ok", "ok"):
        raise RuntimeError(
            f"a temperature was not found: ts {ts.status}, ec {ec.status}"
        )
    t_ts, t_ec = ts.params["temperature"], ec.params["temperature"]
    size = np.abs(xi)
    order = np.argsort(size)
    toward = np.where(xi > 0, chance, 1 - chance)
    return {
        "m": float(w @ truth) / d,
        "q": float(w @ w) / d,
        "error": 1 - ts.before["accuracy"],
        "temperature_ts": t_ts,
        "temperature_ec": t_ec,
        "half_ece": [
            _half_ece(size[order] / t, toward[order]) for t in (1.0, t_ts, t_ec)
        ],
    }


def _half_ece(sure, toward):
    gaps = [
        len(part) * abs(expit(part).mean() - truth.mean())
        for part, truth in zip(
            np.array_split(sure, BINS), np.array_split(toward, BINS), strict=True
        )
    ]
    return float(sum(gaps) / len(sure) / 2)


def models(name, alpha, ridge, d, runs, seed=0):
    """Mean and standard error over several models of every number of ``one_model``."""
    found = [one_model(name, alpha, ridge, d, seed + run) for run in range(runs)]
    out = {}
    for key in found[0]:
        values = np.array([model[key] for model in found])
        error = (
            values.std(axis=0, ddof=1) / np.sqrt(runs)
            if runs > 1
            else np.full_like(values[0], np.nan)
        )
        out[key] = {"mean": values.mean(axis=0).tolist(), "se": error.tolist()}
    return {
        "teacher": name,
        "alpha": alpha,
        "ridge": ridge,
        "d": d,
        "runs": runs,
        **out,
    }
