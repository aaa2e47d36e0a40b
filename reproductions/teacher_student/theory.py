"""The limit of large d: where the student ends, and what its calibration is there.

m = w*.w/d, q = |w|^2/d and v, the limit of the rescaled variance, are a fixed point; with
nu = w*.x and xi = w.x jointly Gaussian, everything else is an integral over xi ~ N(0, q).
The equations are those of the paper's appendix B (17-19) with f = (prox - xi)/v in place of the
prox and the label inside the loss; the expected calibration error of proposition 1 integrates over
one class only and is half of the usual one.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq, minimize_scalar, root
from scipy.special import expit, log_expit, logit, ndtr

TEACHERS = ("logit", "affine", "constant")
GRID = np.linspace(-10.0, 10.0, 2001)
"""Nodes of the trapezoid rule over xi / sqrt(q): 801 and 8001 nodes agree to 12 digits."""
GRID_WEIGHT = np.exp(-0.5 * GRID**2) / np.sqrt(2 * np.pi) * (GRID[1] - GRID[0])
HERMITE, HERMITE_WEIGHT = (lambda g, w: (g, w / w.sum()))(
    *np.polynomial.hermite_e.hermegauss(64)
)
PIECES, ORDER = 40, 40
BRACKET = (1e-7, 1e4)
"""Of 1/T; the temperature reaches 114 where the classes can nearly be separated."""
STEP_LIMIT = 5000


class NotConverged(RuntimeError):
    """The fixed point was not found; the last iterate is never passed off as one."""


def phi(x):
    """Density of the standard normal."""
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


def half_line(q):
    """Nodes over xi > 0 and weights that hold the density of xi ~ N(0, q): Gauss-Legendre in 40 pieces."""
    node, weight = np.polynomial.legendre.leggauss(ORDER)
    low, half = np.linspace(0, 10, PIECES + 1)[:-1], 10 / PIECES / 2
    t = (low[:, None] + half * (node + 1)).ravel()
    return np.sqrt(q) * t, np.tile(half * weight, PIECES) * phi(t)


def teacher(name, t):
    """s*(t) = P(y = 1) of a teacher."""
    if name == "logit":
        return expit(t)
    if name == "affine":
        return np.clip((t + 1) / 2, 0.0, 1.0)
    return np.where(t < -1, 0.0, np.where(t > 1, 1.0, 0.5))


def smoothed(name, w, variance):
    """Z = E s*(N(w, variance)) and dZ/dw. w : any shape."""
    s = np.sqrt(variance)
    if name == "logit":
        p = expit(w[..., None] + s * HERMITE)
        return p @ HERMITE_WEIGHT, (p * (1 - p)) @ HERMITE_WEIGHT
    a, b = (-1 - w) / s, (1 - w) / s
    if name == "affine":
        inside = ndtr(b) - ndtr(a)
        return (w + 1) / 2 * inside + s / 2 * (phi(a) - phi(b)) + ndtr(-b), inside / 2
    return (ndtr((w + 1) / s) + ndtr((w - 1) / s)) / 2, (
        phi((w + 1) / s) + phi((w - 1) / s)
    ) / (2 * s)


def prox(xi, v):
    """z with z = xi + v sigmoid(-z).

    Newton from 0: xi + v sigmoid(-z) - z is convex below 0 and concave above, so the steps are
    monotone for every xi and v; started at xi they stall for large v.
    """
    z = np.zeros_like(xi)
    for _ in range(100):
        s = expit(-z)
        step = (z - xi - v * s) / (1 + v * s * (1 - s))
        z = z - step
        if np.abs(step).max() <= 1e-14 * (1 + np.abs(z).max()):
            return z
    raise NotConverged(f"the prox did not settle for v = {v:g}")


def updated(name, alpha, ridge, m, q, v):
    """One step of the state evolution: the next m, q and v."""
    xi = np.sqrt(q) * GRID
    z = prox(xi, v)
    f, u = expit(-z), expit(z) * expit(-z)
    chance, slope = smoothed(name, m * xi / q, 1 - m * m / q)
    m_hat = 2 * alpha * (GRID_WEIGHT @ (slope * f))
    q_hat = 2 * alpha * (GRID_WEIGHT @ (chance * f * f))
    v_hat = 2 * alpha * (GRID_WEIGHT @ (chance * u / (1 + v * u)))
    return (
        m_hat / (ridge + v_hat),
        (q_hat + m_hat**2) / (ridge + v_hat) ** 2,
        1 / (ridge + v_hat),
    )


def damped(name, alpha, ridge, start=(0.1, 0.2, 1.0), tolerance=1e-10):
    """The fixed point by steps of half the way; for alpha >= 5 or ridge >= .05. Raises NotConverged."""
    now = np.array(start)
    for _ in range(STEP_LIMIT):
        following = 0.5 * now + 0.5 * np.array(updated(name, alpha, ridge, *now))
        if np.abs(following / now - 1).max() < tolerance:
            return following
        now = following
    raise NotConverged(
        f"teacher {name}, alpha {alpha:g}, ridge {ridge:g}: no fixed point after {STEP_LIMIT} steps"
    )


def continued(name, alpha, ridge):
    """The fixed point by halving the ridge from 1 down, each time a root from the last solution.

    Unknowns are atanh(m / sqrt q), ln q and ln v, which no step can take out of their range.
    Raises NotConverged.
    """

    def residual(unknown, strength):
        m, q, v = plain(unknown)
        with np.errstate(all="ignore"):
            try:
                after = updated(name, alpha, strength, m, q, v)
            except NotConverged:
                return np.full(3, 1e3)
        return np.array([after[0] / m, after[1] / q, after[2] / v]) - 1

    def plain(unknown):
        q = np.exp(unknown[1])
        return np.tanh(unknown[0]) * np.sqrt(q), q, np.exp(unknown[2])

    strength = max(1.0, ridge)
    m, q, v = damped(name, alpha, strength)
    unknown = np.array([np.arctanh(m / np.sqrt(q)), np.log(q), np.log(v)])
    while True:
        found = root(residual, unknown, (strength,), tol=1e-13)
        if not np.abs(found.fun).max() < 1e-8:
            raise NotConverged(
                f"teacher {name}, alpha {alpha:g}, ridge {strength:g}: residual {found.fun}"
            )
        unknown = found.x
        if strength <= ridge:
            return np.array(plain(unknown))
        strength = max(strength / 2, ridge)


@dataclass(frozen=True)
class Student:
    """A student in the limit, and its calibration.

    teacher : name. alpha : rows per dimension. ridge : of the loss summed over rows. m, q, v : order parameters.
    """

    teacher: str
    alpha: float
    ridge: float
    m: float
    q: float
    v: float

    @classmethod
    def trained(cls, name, alpha, ridge, near=None):
        """The student that minimises the ridge-regularised logistic loss; ``near`` is one to start from.

        Raises NotConverged.
        """
        if alpha >= 5 or ridge >= 0.05:
            start = (0.1, 0.2, 1.0) if near is None else (near.m, near.q, near.v)
            return cls(
                name, alpha, ridge, *map(float, damped(name, alpha, ridge, start))
            )
        return cls(name, alpha, ridge, *map(float, continued(name, alpha, ridge)))

    @cached_property
    def quadrature(self):
        """xi > 0, weights that hold the density of xi, and Z(m xi/q) there."""
        xi, weight = half_line(self.q)
        return xi, weight, self.chance(xi)

    def chance(self, xi):
        """P(y = 1 | w.x = xi)."""
        return smoothed(
            self.teacher, np.asarray(self.m * xi / self.q), 1 - self.m**2 / self.q
        )[0]

    @property
    def accuracy(self):
        """Share of rows whose label has the sign of w.x."""
        _, weight, chance = self.quadrature
        return float(2 * weight @ chance)

    def confidence(self, temperature=1.0):
        """Mean probability of the predicted label."""
        xi, weight, _ = self.quadrature
        return float(2 * weight @ expit(xi / temperature))

    def nll(self, temperature=1.0):
        """Mean negative log-likelihood."""
        xi, weight, chance = self.quadrature
        return float(
            -2
            * weight
            @ (
                chance * log_expit(xi / temperature)
                + (1 - chance) * log_expit(-xi / temperature)
            )
        )

    def brier(self, temperature=1.0):
        """Brier score summed over the two classes, as the paper has it."""
        xi, weight, chance = self.quadrature
        p = expit(xi / temperature)
        return float(4 * weight @ (p * p - 2 * p * chance + chance))

    def half_ece(self, temperature=1.0):
        """Expected calibration error over one class (proposition 1), half of the usual one.

        Pieces are cut where p - Z changes its sign.
        """
        scan = np.linspace(1e-9, 10, 4001)

        def gap(t):
            xi = np.sqrt(self.q) * t
            return expit(xi / temperature) - self.chance(xi)

        values = gap(scan)
        turns = [
            brentq(gap, scan[i], scan[i + 1])
            for i in np.flatnonzero(values[:-1] * values[1:] < 0)
        ]
        cuts = np.unique(np.concatenate([np.linspace(0, 10, PIECES + 1), turns]))
        node, weight = np.polynomial.legendre.leggauss(ORDER)
        low, half = cuts[:-1, None], np.diff(cuts)[:, None] / 2
        t = low + half * (node + 1)
        return float((np.abs(gap(t)) * phi(t) * half * weight).sum())

    @cached_property
    def temperature_ts(self):
        """Temperature of the least NLL: the root of E xi (sigmoid(xi/T) - Z)."""
        xi, weight, chance = self.quadrature
        return 1 / brentq(
            lambda beta: weight @ (xi * (expit(beta * xi) - chance)),
            *BRACKET,
            xtol=1e-14,
            rtol=1e-13,
        )

    @cached_property
    def temperature_ec(self):
        """Temperature at which mean confidence equals accuracy."""
        accuracy = self.accuracy
        return 1 / brentq(
            lambda beta: self.confidence(1 / beta) - accuracy,
            *BRACKET,
            xtol=1e-14,
            rtol=1e-13,
        )

    def identities(self):
        """The two normal equations of the student, (left, right) each: what a true fixed point fulfils."""
        xi = np.sqrt(self.q) * GRID
        z, spread = prox(xi, self.v), 1 - self.m**2 / self.q
        f = expit(-z)
        chance, slope = smoothed(self.teacher, self.m * xi / self.q, spread)
        norm = 2 * self.alpha * (GRID_WEIGHT @ (chance * f * z))
        overlap = (
            2
            * self.alpha
            * (GRID_WEIGHT @ (f * (chance * self.m * xi / self.q + spread * slope)))
        )
        return (self.ridge * self.q, norm), (self.ridge * self.m, overlap)

    def expected_teacher(self, level, temperature=1.0):
        """E[s*(nu) | student says ``level``]: the dashed line of Figure 6."""
        return self.chance(temperature * logit(np.asarray(level, dtype=float)))

    def density(self, a, b, temperature=1.0):
        """Joint density of the teacher's probability a and the student's b, both in (0, 1).

        For the affine teacher its part between 0 and 1 only: atoms of mass P(|nu| > 1)/2 lie at
        both ends (``atom``). A constant teacher has atoms only and no density.
        """
        if self.teacher == "constant":
            raise ValueError("a constant teacher has no density, only atoms")
        nu, stretch = (
            (logit(a), 1 / (a * (1 - a)))
            if self.teacher == "logit"
            else (2 * a - 1, 2.0)
        )
        xi = temperature * logit(b)
        spread = 1 - self.m**2 / self.q
        given = np.exp(-0.5 * (nu - self.m * xi / self.q) ** 2 / spread) / np.sqrt(
            2 * np.pi * spread
        )
        return given * stretch * self.student_density(b, temperature)

    def student_density(self, b, temperature=1.0):
        """Density of the student's probability b in (0, 1)."""
        xi = temperature * logit(b)
        return phi(xi / np.sqrt(self.q)) / np.sqrt(self.q) * temperature / (b * (1 - b))

    def atom(self, a, b, temperature=1.0):
        """Density in b of the teacher's atom at a (0, 1/2 or 1); 0 where there is none."""
        xi, s = temperature * logit(b), np.sqrt(1 - self.m**2 / self.q)
        above, below = (
            ndtr((self.m * xi / self.q - 1) / s),
            ndtr((-1 - self.m * xi / self.q) / s),
        )
        inside = 1 - above - below if self.teacher == "constant" else np.zeros_like(xi)
        share = (
            {0.0: below, 0.5: inside, 1.0: above}[a]
            if self.teacher != "logit"
            else np.zeros_like(xi)
        )
        return share * self.student_density(b, temperature)

    def too_modest(self):
        """Levels above 1/2 where the student says less than is true (Delta < 0): the least, their rows, the worst.

        None where it is overconfident at every level, as the paper has it.
        """
        t = np.linspace(1e-6, 10, 200_001)
        level = expit(np.sqrt(self.q) * t)
        gap = level - self.chance(np.sqrt(self.q) * t)
        below = (gap < -1e-9) & (level < 1 - 1e-9)
        if not below.any():
            return None
        share = float(2 * (phi(t) * below).sum() * (t[1] - t[0]))
        return {
            "from": float(level[below].min()),
            "share": share,
            "worst": float(gap[below].min()),
        }

    def row(self):
        """What the paper's figures show of this student."""
        ts, ec = self.temperature_ts, self.temperature_ec
        return {
            "teacher": self.teacher,
            "alpha": self.alpha,
            "ridge": self.ridge,
            "m": self.m,
            "q": self.q,
            "v": self.v,
            "error": 1 - self.accuracy,
            "nll": self.nll(),
            "temperature_ts": ts,
            "temperature_ec": ec,
            "relative_gap": (ec - ts) / ts,
            "half_ece": [self.half_ece(t) for t in (1.0, ts, ec)],
            "brier": [self.brier(t) for t in (1.0, ts, ec)],
            "too_modest": self.too_modest(),
        }


def best_ridge(name, alpha, criterion):
    """The ridge of the least test ``error`` or test ``loss`` (NLL at T = 1), and its student.

    The error depends on m / sqrt q alone and falls with it. The optimum is flat.
    """

    near = None

    def cost(log_ridge):
        nonlocal near
        near = Student.trained(name, alpha, float(np.exp(log_ridge)), near)
        return -near.m / np.sqrt(near.q) if criterion == "error" else near.nll()

    scan = np.log(10) * np.linspace(-2.5, 1.5, 17)
    values = [cost(x) for x in scan[::-1]][::-1]  # the large ridges are the easy ones
    least = int(np.clip(np.argmin(values), 1, len(scan) - 2))
    found = minimize_scalar(
        cost,
        bracket=tuple(scan[least - 1 : least + 2]),
        method="brent",
        options={"xtol": 1e-6},
    )
    return Student.trained(name, alpha, float(np.exp(found.x)))


# ---- the Bayes-optimal student of section 5.1


@dataclass(frozen=True)
class Statistician:
    """Who knows the model: prior N(0, I), likelihood E sigmoid(N(xi, v)/T), a logit teacher with T* = 1."""

    temperature: float
    m: float
    q: float
    v: float

    @classmethod
    def trained(cls, alpha, temperature=1.0):
        """The posterior mean's order parameters. Raises NotConverged."""
        now = np.array([0.1, 0.2, 1.0])
        for _ in range(STEP_LIMIT):
            m, q, v = now
            xi = np.sqrt(q) * GRID
            p, first, second = cls._likelihood(xi, v, temperature)
            chance, rise = smoothed("logit", m * xi / q, 1 - m * m / q)
            f = first / p
            bend = second / p - f * f
            m_hat = 2 * alpha * (GRID_WEIGHT @ (rise * f))
            q_hat = 2 * alpha * (GRID_WEIGHT @ (chance * f * f))
            v_hat = -2 * alpha * (GRID_WEIGHT @ (chance * bend))
            after = np.array(
                [
                    m_hat / (1 + v_hat),
                    (q_hat + m_hat**2) / (1 + v_hat) ** 2,
                    1 / (1 + v_hat),
                ]
            )
            following = 0.5 * now + 0.5 * after
            if np.abs(following / now - 1).max() < 1e-12:
                return cls(temperature, *map(float, following))
            now = following
        raise NotConverged(f"statistician at alpha {alpha:g}, T {temperature:g}")

    @staticmethod
    def _likelihood(xi, v, temperature):
        """E sigmoid(N(xi, v)/T) and its first two derivatives in xi."""
        s = expit((xi[..., None] + np.sqrt(v) * HERMITE) / temperature)
        first = s * (1 - s) / temperature
        second = first * (1 - 2 * s) / temperature
        return tuple(part @ HERMITE_WEIGHT for part in (s, first, second))

    def measures(self):
        """Accuracy, mean confidence and NLL of the predictor E sigmoid(N(xi, v)/T)."""
        xi, weight = half_line(self.q)
        p = self._likelihood(xi, self.v, self.temperature)[0]
        chance = smoothed("logit", self.m * xi / self.q, 1 - self.m**2 / self.q)[0]
        return {
            "accuracy": float(2 * weight @ chance),
            "confidence": float(2 * weight @ p),
            "nll": float(
                -2 * weight @ (chance * np.log(p) + (1 - chance) * np.log1p(-p))
            ),
        }
