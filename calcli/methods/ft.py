"""Feature temperature."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Self

import numpy as np
from msgspec import Meta

from calcli.calibrator import ORDER_PRESERVING, Calibrator, Context, Fit, Options, Prediction, param
from calcli.errors import DataError
from calcli.methods._checks import check_positive, check_uniform
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.numerics import FloatArray, log_softmax, mixed_with_uniform, row_max
from calcli.plain import dataclass
from calcli.rows import Block, Rows
from calcli.solvers import GRADIENT, LOOSE_GRADIENT, minimise_box

CLIP = 4.0
"""Features count up to this many standard deviations: further out is extrapolation."""


class FeatureTemperatureOptions(Options, frozen=True):
    """Options of feature temperature."""

    ridge: Annotated[
        float,
        Meta(ge=0, description="pull of the weights towards plain temperature scaling, divided by the rows"),
    ] = 1.0
    mixture: Annotated[
        bool,
        Meta(description="mix in 1/(n+1) of the uniform distribution, which keeps every NLL finite"),
    ] = True


@dataclass(frozen=True)
class FeatureTemperature(Calibrator):
    """Give every row its own temperature, from three features of its logits.

    p = (1-a) softmax(z exp(w0 + w . f) / T) + a/C with a = 1/(n+1); T from temperature
    scaling. The features need no label: with u = z / T, f1 = log(H(softmax u) / log C + 1e-6)
    (entropy), f2 = log(u_(1) - u_(2) + 1e-2) (margin), f3 = log of the standard deviation of
    z over the classes; each standardised by its mean and deviation on the calibration rows
    and clipped to +-4. w minimises the mean NLL + ridge/n |w|^2 by Newton's method from 0
    (not convex, but four numbers; 0 is temperature scaling, and the result is no worse).
    A row's logits are scaled, never bent: predictions stay as they were.

    Where T ends at a bound the weights stay 0.

    Reference: log T linear in the log entropy is Balanya, Maronas, Ramos (2022, arXiv 2208.00461);
    margin and spread of the logits stand beside it here.
    """

    temperature: float = param()
    weights: FloatArray = param(4)
    mean: FloatArray = param(3)
    deviation: FloatArray = param(3)
    uniform: float = param()

    place = 20
    use = "when rows differ in how sure the model should be; keeps predictions"
    title = "feature temperature"
    Options = FeatureTemperatureOptions
    # the uniform part can cost 1/n where the scores were perfect
    laws = replace(ORDER_PRESERVING, memory="row")

    @classmethod
    def fit(cls, rows: Rows, options: FeatureTemperatureOptions, context: Context) -> Fit[Self]:
        first = TemperatureScaling.fit(rows, TemperatureOptions(), context)
        temperature = first.calibrator.temperature
        uniform = 1.0 / (rows.n + 1) if options.mixture else 0.0
        raw = np.concatenate(list(rows.each(partial(_features, temperature))))
        weight = rows.weights()
        share = np.full(rows.n, 1.0 / rows.n) if weight is None else weight / weight.sum()
        mean = share @ raw
        deviation = np.sqrt(share @ (raw - mean) ** 2)
        # A feature that does not vary carries nothing; its rounding noise must not be blown up.
        deviation[deviation <= 1e-9 * np.maximum(1.0, np.abs(mean))] = 1e9
        if first.status != "ok":
            plain = cls(temperature, np.zeros(4), mean, deviation, uniform)
            return Fit(plain, first.status, first.warnings, {"temperature": dict(first.details)})
        inputs = design(raw, mean, deviation)
        passes = 0

        def objective(w: FloatArray) -> tuple[float, FloatArray, FloatArray]:
            nonlocal passes
            passes += 1
            context.progress("weighing the features", passes, 0)
            value, slope, bend = nll_in_log_scale(rows, np.exp(inputs @ w) / temperature)
            ridge = options.ridge / rows.n
            gradient = inputs.T @ (share * slope) + 2 * ridge * w
            hessian = (inputs * (share * bend)[:, None]).T @ inputs + 2 * ridge * np.eye(4)
            return float(share @ value) + ridge * float(w @ w), gradient, hessian

        begin = context.start.weights if isinstance(context.start, cls) else np.zeros(4)
        tolerance = LOOSE_GRADIENT if context.early else GRADIENT
        found = minimise_box(objective, begin, longest=1.0, tolerance=tolerance)
        details = {
            "temperature": dict(first.details),
            "evaluations": found.evaluations,
            "gradient": found.gradient,
        }
        fitted = cls(temperature, found.x, mean, deviation, uniform)
        if found.status == "not_converged":
            return Fit(fitted, "not_converged", ("the search for the feature weights did not converge",), details)
        return Fit(fitted, "ok", (), details, before=first.before)

    def apply(self, block: Block) -> Prediction:
        z = block.z
        inputs = design(features(z, self.temperature), self.mean, self.deviation)
        scale = np.exp(inputs @ self.weights) / self.temperature
        log_p = log_softmax((z - row_max(z)[:, None]) * scale[:, None])
        return Prediction(mixed_with_uniform(log_p, self.uniform), block.prediction)

    def check(self, k: int) -> None:
        check_positive(temperature=self.temperature)
        if not np.all(np.abs(self.weights) * [1, CLIP, CLIP, CLIP] < 100):
            raise DataError(f"weights are {self.weights.tolist()}, expected numbers below 100 (25 for a feature)")
        if not (np.all(np.isfinite(self.mean)) and np.all(self.deviation > 0)):
            raise DataError("mean or deviation of the features are not what a fit gives (finite; above 0)")
        check_uniform(self.uniform)


def features(z: FloatArray, temperature: float) -> FloatArray:
    """Entropy, margin and spread of every row, in logarithms.

    z : (n, k) logits, natural log. Returns (n, 3) float64, finite.
    """
    u = (z - row_max(z)[:, None]) / temperature
    log_p = log_softmax(u)
    entropy = -np.einsum("ij,ij->i", np.exp(log_p), log_p)
    margin = -np.partition(u, -2, axis=1)[:, -2]
    spread = u.std(axis=1) * temperature
    return np.stack(
        [
            # Rounding can leave a certain row with an entropy a little below 0.
            np.log(np.maximum(entropy, 0.0) / np.log(z.shape[1]) + 1e-6),
            np.log(margin + 1e-2),
            np.log(np.maximum(spread, 1e-6)),
        ],
        axis=1,
    )


def design(raw: FloatArray, mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """A one and the standardised, clipped features: (n, 4)."""
    return np.column_stack([np.ones(len(raw)), np.clip((raw - mean) / deviation, -CLIP, CLIP)])


def nll_in_log_scale(rows: Rows, scale: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """NLL of softmax(scale z), row by row, with two derivatives in log scale. scale : (n,)."""
    value, slope, bend = np.concatenate(list(rows.each(_nll_in_log_scale, scale)), axis=1)
    return value, slope, bend


def _features(temperature: float, block: Block) -> FloatArray:
    return features(block.z, temperature)


def _nll_in_log_scale(block: Block, scale: FloatArray) -> FloatArray:
    z = block.z
    d = (z - row_max(z)[:, None]) * scale[:, None]
    log_p = log_softmax(d)
    p, here = np.exp(log_p), np.arange(len(z))
    mean = np.einsum("ij,ij->i", p, d)
    slope = mean - d[here, block.labels]
    bend = slope + np.einsum("ij,ij,ij->i", p, d, d) - mean**2
    return np.stack([-log_p[here, block.labels], slope, bend])


METHOD = FeatureTemperature
