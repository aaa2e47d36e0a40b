"""Fit a map for every question of a type, with few labels: each leans on the others.

A choice and a score have a temperature, p = softmax(beta z); yes/no has a line through
the log-odds, sigmoid(slope s + intercept). Parameters of a question are drawn around
those of its type, theta_q ~ N(mu, tau^2), and those of the type around no change,
mu ~ N(0, 1/4), for log beta, log slope and the intercept alike.

1. theta_q has the largest posterior given mu and tau (Newton with the expected
   information);
2. mu and tau follow by EM on Laplace's approximation, where tau has the weight of two
   questions with tau = 0.3 before any is seen;
3. out-of-fold predictions decide how much of the maps is used: as much as the
   probability that they are better than no change, by the likelihood of both.

Reference: Gelman, Hill (2006), chapter 12 (partial pooling); Platt (1999); Yao et al.
(2018), Bayesian Analysis 13(3), section 2.2 (weights by out-of-fold likelihood).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from calcli.numerics import FloatArray, IntArray, log_softmax, sigmoid

USUAL_SPREAD = 0.3
"""Standard deviation of parameters among questions of a type before any is seen."""

WEIGHT_OF_USUAL = 2.0
"""Number of questions as which ``USUAL_SPREAD`` counts in the estimate."""

SPREAD_OF_TYPES = 0.5
"""Standard deviation of the parameters of a type around no change."""

SMALLEST_SPREAD = 0.05
MANY_QUESTIONS = 20
"""Questions above which a type's centre and spread hold for every part of the rows."""

MOST_STEPS = 50
MOST_ROUNDS = 60
LONGEST_STEP = 1.0
CLOSE = 1e-7
"""Change of a parameter, in one step, at which a search ends."""

CLOSE_ROUND = 1e-4
"""The same in one round of EM: far below the standard error of any parameter."""

FARTHEST = 4.0
"""Largest change of a parameter: a temperature of 1/55 or 55."""


class Question(Protocol):
    """Labelled rows of a question, with a map of n_parameters numbers."""

    n_parameters: int

    @property
    def units(self) -> IntArray:
        """Number of the unit of every row (n,)."""

    def losses(self, theta: FloatArray) -> FloatArray:
        """NLL (n,) of the rows under the map."""

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradient (p,) and expected information (p, p) of the summed NLL."""

    def part(self, rows: IntArray) -> "Question":
        """Some of the rows."""


@dataclass(frozen=True)
class TemperatureQuestion:
    """Rows of a choice or a score. log_p : (n, k) logarithms. labels : (n,) places.

    units : (n,) number of the unit of every row.
    """

    log_p: FloatArray
    labels: IntArray
    units: IntArray
    n_parameters = 1

    def losses(self, theta: FloatArray) -> FloatArray:
        log_q = log_softmax(self.log_p * np.exp(theta[0]))
        return -np.take_along_axis(log_q, self.labels[:, None], axis=1)[:, 0]

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        beta = np.exp(theta[0])
        q = np.exp(log_softmax(self.log_p * beta))
        mean = (q * self.log_p).sum(axis=1)
        variance = (q * (self.log_p - mean[:, None]) ** 2).sum(axis=1)
        at_label = np.take_along_axis(self.log_p, self.labels[:, None], axis=1)[:, 0]
        gradient = beta * (mean - at_label).sum()
        information = beta**2 * variance.sum()
        return np.array([gradient]), np.array([[information]])

    def part(self, rows: IntArray) -> "TemperatureQuestion":
        return TemperatureQuestion(
            self.log_p[rows], self.labels[rows], self.units[rows]
        )


@dataclass(frozen=True)
class LineQuestion:
    """Rows of a yes/no question. log_odds : (n,) of yes. labels : (n,) 1 for yes."""

    log_odds: FloatArray
    labels: IntArray
    units: IntArray
    n_parameters = 2

    def losses(self, theta: FloatArray) -> FloatArray:
        u = np.exp(theta[0]) * self.log_odds + theta[1]
        sign = np.where(self.labels == 1, 1.0, -1.0)
        return np.logaddexp(0.0, -sign * u)

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        scaled = np.exp(theta[0]) * self.log_odds
        p = sigmoid(scaled + theta[1])
        design = np.stack([scaled, np.ones_like(scaled)], axis=1)
        gradient = design.T @ (p - self.labels)
        information = (design * (p * (1.0 - p))[:, None]).T @ design
        return gradient, information

    def part(self, rows: IntArray) -> "LineQuestion":
        return LineQuestion(self.log_odds[rows], self.labels[rows], self.units[rows])


@dataclass(frozen=True)
class Pooled:
    """Parameters of all questions of a type.

    theta : (q, p) of the questions. centre, spread : (p,) of the type.
    """

    theta: FloatArray
    centre: FloatArray
    spread: FloatArray


def pool(questions: Sequence[Question], start: Pooled | None = None) -> Pooled:
    """Parameters of every question, drawn towards those of the type.

    start : where the search begins, which saves rounds. Of many questions its centre
    and spread are kept: a part of the rows would change them little.
    """
    n_parameters = questions[0].n_parameters
    theta = np.zeros((len(questions), n_parameters))
    centre = np.zeros(n_parameters)
    spread = np.full(n_parameters, USUAL_SPREAD)
    if start is not None:
        theta = start.theta.copy()
        centre = start.centre
        spread = start.spread
    for _ in range(MOST_ROUNDS):
        before = np.concatenate([theta.ravel(), centre, spread])
        variance = np.zeros_like(theta)
        for place, question in enumerate(questions):
            theta[place], variance[place] = _most_likely(
                question, theta[place], centre, spread
            )
        if start is not None and len(questions) > MANY_QUESTIONS:
            break
        precision = len(questions) / spread**2 + 1.0 / SPREAD_OF_TYPES**2
        centre = (theta / spread**2).sum(axis=0) / precision
        squares = ((theta - centre) ** 2 + variance).sum(axis=0)
        usual = WEIGHT_OF_USUAL * USUAL_SPREAD**2
        spread = np.sqrt((squares + usual) / (len(questions) + WEIGHT_OF_USUAL))
        spread = np.maximum(spread, SMALLEST_SPREAD)
        after = np.concatenate([theta.ravel(), centre, spread])
        if np.abs(after - before).max() < CLOSE_ROUND:
            break
    return Pooled(theta, centre, spread)


def _most_likely(
    question: Question, start: FloatArray, centre: FloatArray, spread: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Parameters (p,) of the largest posterior, and their variances (p,).

    Rows of one unit count as one row together.
    """
    weight = len(np.unique(question.units)) / max(1, len(question.units))
    prior = np.diag(1.0 / spread**2)
    theta = start
    objective = _objective(question, theta, centre, spread, weight)
    information = prior
    for _ in range(MOST_STEPS):
        gradient, expected = question.derivatives(theta)
        gradient = weight * gradient + (theta - centre) / spread**2
        information = weight * expected + prior
        step = -np.linalg.solve(information, gradient)
        step *= min(1.0, LONGEST_STEP / max(np.abs(step).max(), 1e-300))
        while True:
            moved = np.clip(theta + step, -FARTHEST, FARTHEST)
            value = _objective(question, moved, centre, spread, weight)
            if value <= objective + 1e-12 or np.abs(step).max() < CLOSE:
                break
            step = step / 2.0
        is_done = np.abs(moved - theta).max() < CLOSE
        theta = moved
        objective = value
        if is_done:
            break
    return theta, np.diag(np.linalg.inv(information))


def _objective(
    question: Question,
    theta: FloatArray,
    centre: FloatArray,
    spread: FloatArray,
    weight: float,
) -> float:
    loss = weight * float(question.losses(theta).sum())
    return loss + 0.5 * float((((theta - centre) / spread) ** 2).sum())


# ---- are the maps worth it


N_FOLDS = 10
FEWEST_UNITS = 20
"""Units of a type below which nothing is fitted."""

UNITS_OF_EVEN_ODDS = 150
"""Units from which on maps and no change are as likely before any label is seen. With
fewer, the odds of the maps go with the square of the units: a needless map costs more,
about one over the units a row, and calibrated answers shall lose at most .002 nats.
"""


@dataclass(frozen=True)
class JudgedMaps:
    """What out-of-fold predictions say of the maps of a type.

    gains : (n,) of NLL a row, of each question: raw minus calibrated. design_effect :
    variance of the summed gain over that of independent rows, at least 1.
    """

    gains: Sequence[FloatArray]
    n_units: int
    design_effect: float

    @property
    def evidence(self) -> float:
        """Log of the likelihood of the maps over that of no change, out of fold."""
        total = sum(float(gain.sum()) for gain in self.gains)
        return total / self.design_effect

    @property
    def share(self) -> float:
        """Probability that the maps are better than no change; 0 without a gain."""
        if self.n_units < FEWEST_UNITS or self.evidence <= 0.0:
            return 0.0
        prior_odds = min(1.0, self.n_units / UNITS_OF_EVEN_ODDS) ** 2
        return 1.0 / (1.0 + math.exp(-self.evidence) / prior_odds)

    @property
    def is_used(self) -> bool:
        return self.share > 0.0


def judge_maps(
    questions: Sequence[Question], folds: Sequence[IntArray], pooled: Pooled
) -> JudgedMaps:
    """Judge the maps of a type by out-of-fold predictions.

    Above ``MANY_QUESTIONS`` centre and spread of the type are those of all rows.

    folds : (n,) fold of every row, of each question. pooled : the maps of all rows.
    """
    gains = [np.zeros(len(question.units)) for question in questions]
    for fold in range(N_FOLDS):
        training = []
        for question, fold_of_rows in zip(questions, folds, strict=True):
            training.append(question.part(np.flatnonzero(fold_of_rows != fold)))
        theta = pool(training, pooled).theta
        for place, question in enumerate(questions):
            rows = np.flatnonzero(folds[place] == fold)
            held_out = question.part(rows)
            raw = held_out.losses(np.zeros(question.n_parameters))
            gains[place][rows] = raw - held_out.losses(theta[place])
    sums = _sums_by_unit(questions, gains)
    of_rows = sum(float((gain**2).sum()) for gain in gains)
    of_units = float((sums**2).sum())
    design_effect = max(1.0, of_units / of_rows) if of_rows > 0.0 else 1.0
    return JudgedMaps(gains, len(sums), design_effect)


def _sums_by_unit(
    questions: Sequence[Question], gains: Sequence[FloatArray]
) -> FloatArray:
    """Gains of all questions, summed by unit."""
    units = np.concatenate([question.units for question in questions])
    _, codes = np.unique(units, return_inverse=True)
    sums = np.bincount(codes, np.concatenate(gains))
    return np.asarray(sums, dtype=np.float64)


@dataclass(frozen=True)
class TypeFit:
    """Maps of the questions of a type.

    theta : (q, p), of which the share of the maps is made; zeros for no change.
    """

    theta: FloatArray
    judged: JudgedMaps


def fit_type(questions: Sequence[Question], folds: Sequence[IntArray]) -> TypeFit:
    """Fit the maps of all questions of a type; no change where nothing is gained."""
    pooled = pool(questions)
    judged = judge_maps(questions, folds, pooled)
    return TypeFit(judged.share * pooled.theta, judged)
