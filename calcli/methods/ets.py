"""Ensemble temperature scaling."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Annotated, Literal, Self

import numpy as np
from msgspec import Meta

from calcli.block import Block
from calcli.calibrator import (
    ORDER_PRESERVING,
    Calibrator,
    Context,
    Fit,
    Options,
    Prediction,
    Status,
    param,
)
from calcli.methods._temperature import Mixing
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.numerics import FloatArray, log_softmax, row_weights, shares_of, softmax
from calcli.rows import Rows

LEAST_ORDER = 1e-6  # least weight of the two parts that know the order of the classes


class EnsembleTemperatureOptions(Options, frozen=True):
    loss: Annotated[
        Literal["nll", "brier"],
        Meta(
            description=(
                "what the temperature, and then the weights, minimise on the"
                " calibration data"
            )
        ),
    ] = "nll"
    mixture: Mixing = False


@dataclass(frozen=True)
class EnsembleTemperatureScaling(Calibrator):
    """Mix the tempered softmax, the plain softmax and the uniform distribution.

    p = w1 softmax(z / T) + w2 softmax(z) + w3 / C, with w on the simplex. T comes
    first, from temperature scaling with the same loss; then w, with T fixed.

    ``loss=nll``: the likelihood of mixture weights is concave; we take Newton steps,
    each the exact minimum of the quadratic model on the simplex, and keep the label's
    three probabilities per row. ``loss=brier``, as published: the squared error is a
    convex quadratic in w whose 3 x 3 moments take one pass; its minimum on the simplex
    is found exactly by trying the seven faces. (The authors' program runs SLSQP from
    (1, 0, 0); it ends within 1e-6 of this point. Its ``loss`` argument has no effect on
    the weights, they are always fitted by squared error.) ``kkt_gap`` in the details
    bounds how far the loss of w is above the optimum: the Frank-Wolfe gap, respectively
    max_k mean(p_k / p) - 1.

    ``mixture`` adds a row's worth of the uniform part: w becomes (n w + (0, 0, 1)) / (n
    + 1). Should all weight fall on the uniform part, 1e-6 stays on the first, so that
    the order of the classes is not lost.

    Reference: Zhang, Kailkhura, Han (2020), "Mix-n-Match" (ICML), ensemble temperature
    scaling.
    """

    temperature: float = param(within="positive")
    weights: FloatArray = param(3, within="weights")

    list_order = 23
    aliases = ("ensemble-temperature",)
    use = "when one temperature leaves the tails wrong; accuracy-preserving"
    title = "ensemble temperature scaling"
    Options = EnsembleTemperatureOptions
    laws = replace(ORDER_PRESERVING, improves_nll=True, memory="row")

    @classmethod
    def fit(
        cls, rows: Rows, options: EnsembleTemperatureOptions, context: Context
    ) -> Fit[Self]:
        first = TemperatureScaling.fit(
            rows, TemperatureOptions(loss=options.loss), context
        )
        temperature = first.calibrator.temperature
        if options.loss == "brier":
            gram, hits = brier_moments(rows, temperature)
            w = simplex_minimum(gram, hits)
            slope = 2 * (gram @ w - hits)
            gap = float(w @ slope - slope.min())
            evaluations = 1
        else:
            w, gap, evaluations = likeliest_weights(*label_shares(rows, temperature))
        status: Status = first.status
        warnings = list(first.warnings)
        if w[0] + w[1] < LEAST_ORDER:
            w = np.array([LEAST_ORDER, 0.0, 1.0 - LEAST_ORDER])
            status = "degenerate"
            warnings.append(
                "the best mixture is the uniform distribution: on these rows the scores"
                " are worse than no scores; check that labels and scores belong to the"
                " same rows and class order"
            )
        elif gap > 1e-9:
            status = "not_converged"
            warnings.append(
                f"the mixture weights are not at their optimum (gap {gap:.1e})"
            )
        if options.mixture:
            n = rows.effective_n
            w = (n * w + [0.0, 0.0, 1.0]) / (n + 1)
        details = {
            "temperature": dict(first.details),
            "weight_evaluations": evaluations,
            "kkt_gap": gap,
        }
        return Fit(cls(temperature, w), status, tuple(warnings), details)

    def apply(self, block: Block) -> Prediction:
        z = block.z
        w1, w2, w3 = map(float, self.weights)
        # In logarithms, so that the far classes keep their order below the smallest
        # float.
        log_p = None
        if w3 > 0:
            log_p = np.full_like(z, np.log(w3 / z.shape[1]))
        for w, scale in ((w1, 1.0 / self.temperature), (w2, 1.0)):
            if w > 0:
                part = log_softmax(z * scale)
                part += np.log(w)
                log_p = part if log_p is None else np.logaddexp(log_p, part, out=log_p)
        assert log_p is not None
        return Prediction(log_p, block.prediction)


def brier_moments(rows: Rows, temperature: float) -> tuple[FloatArray, FloatArray]:
    """Moments of the squared error of a mixture: it is w' gram w - 2 hits' w + 1.

    gram : (3, 3) mean inner products of the three parts; hits : (3,) their mean
    probability of the label.
    """
    mass, *sums = rows.sum(partial(_moments, temperature))
    pp, pq, qq, p_y, q_y = np.array(sums) / mass
    u = 1.0 / rows.k
    return np.array([[pp, pq, u], [pq, qq, u], [u, u, u]]), np.array([p_y, q_y, u])


def _moments(temperature: float, block: Block) -> FloatArray:
    """Sum over a block what ``brier_moments`` needs.

    The weight, the inner products of the tempered and the plain softmax p and q, and
    their probabilities of the label.
    """
    p = softmax(block.z / temperature)
    q = softmax(block.z)
    weight = row_weights(block.weight, len(block))
    here = np.arange(len(block))
    pairs = ((p, p), (p, q), (q, q))
    inner = [weight @ np.einsum("ij,ij->i", a, b) for a, b in pairs]
    p_y = weight @ p[here, block.labels]
    q_y = weight @ q[here, block.labels]
    return np.array([weight.sum(), *inner, p_y, q_y])


def label_shares(rows: Rows, temperature: float) -> tuple[FloatArray, FloatArray]:
    """Compute the label's probability under each of the three parts, (n, 3).

    Also row weights (n,), sum 1.
    """
    shares = np.concatenate(list(rows.each(partial(_label_shares, temperature))))
    return shares, shares_of(rows.weights(), rows.n)


def _label_shares(temperature: float, block: Block) -> FloatArray:
    here = np.arange(len(block))
    y = block.labels
    logs = [log_softmax(block.z / temperature)[here, y], log_softmax(block.z)[here, y]]
    uniform = np.full(len(y), 1.0 / block.z.shape[1])
    return np.stack([*np.exp(logs), uniform], axis=1)


def simplex_minimum(gram: FloatArray, hits: FloatArray) -> FloatArray:
    """The w on the simplex with the least w' gram w - 2 hits' w, exactly.

    gram : (m, m) positive semi-definite, hits : (m,); m small. The minimum over every
    face is a linear system; the best feasible one wins, the smallest face among equals.
    A singular face can be skipped: its minimum is also attained on its boundary.
    """
    m = len(hits)
    best = np.eye(m)[0]
    least = np.inf
    for size in range(1, m + 1):
        for face in combinations(range(m), size):
            on = list(face)
            system = np.ones((size + 1, size + 1))
            system[:size, :size] = gram[np.ix_(on, on)]
            system[size, size] = 0.0
            try:
                solution = np.linalg.solve(system, np.append(hits[on], 1.0))[:size]
            except np.linalg.LinAlgError:
                continue
            if not np.all(solution >= 0):
                continue
            w = np.zeros(m)
            w[on] = solution / solution.sum()
            value = float(w @ gram @ w - 2 * hits @ w)
            if value < least:
                best = w
                least = value
    return best


def likeliest_weights(
    shares: FloatArray, weight: FloatArray, limit: int = 100
) -> tuple[FloatArray, float, int]:
    """Mixture weights of the greatest likelihood, the optimality gap, and evaluations.

    shares : (n, m) likelihood of every row under every part, some part positive in each
    row; weight : (n,) row weights, sum 1. With r = shares / (shares w), mean r is minus
    the gradient and mean r r' the Hessian of the NLL; at the optimum max_k mean r_k =
    1, and elsewhere max_k mean r_k - 1 bounds the excess of the NLL (concavity of the
    logarithm).
    """
    m = shares.shape[1]
    w = np.full(m, 1.0 / m)
    value = -float(weight @ np.log(shares @ w))
    evaluations = 1
    gain = np.inf
    for steps in range(limit + 1):
        # The floor keeps the squares below finite where a part without weight owned a
        # row.
        r = shares / np.maximum(shares @ w, 1e-100)[:, None]
        slope = weight @ r
        gap = float(slope.max() - 1.0)
        if gap <= 1e-13 or gain <= 1e-16 or steps == limit:
            break
        direction = simplex_minimum(0.5 * (r * weight[:, None]).T @ r, slope) - w
        gain = slope @ direction
        # near the optimum the NLL cannot tell steps apart
        rounding = 4e-16 * (1.0 + abs(value))
        for halvings in range(40):
            trial = w + 0.5**halvings * direction
            trial_value = -float(weight @ np.log(np.maximum(shares @ trial, 1e-300)))
            evaluations += 1
            if trial_value <= value - 1e-4 * 0.5**halvings * gain + rounding:
                w = trial
                value = trial_value
                break
        else:
            break
    return w, max(0.0, gap), evaluations
