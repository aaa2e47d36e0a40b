"""Feature temperature."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Self

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
    param,
)
from calcli.errors import DataError
from calcli.kernels.numpy.row_series import row_series
from calcli.methods._temperature import USUAL_PRIOR, Prior, start_rows
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.numerics import (
    FloatArray,
    log_softmax,
    mixed_with_uniform,
    row_max,
    shares_of,
)
from calcli.rows import Rows, sample_runs
from calcli.solvers import GRADIENT, LOOSE_GRADIENT, BoxMinimum, minimise_box

# features count up to this many standard deviations: further out is extrapolation
CLIP = 4.0
REACH = 0.5  # largest change of a row's log scale for which its series is asked
SERIES = 12  # walks after which the series of rows are asked no more
LONGEST = 1.0  # largest change of a weight from one walk to the next
AT_ONCE = 1 << 16  # rows whose series are added up at once, in the memory of so many
LARGEST = np.array([99.0, 24.0, 24.0, 24.0])
"""Weights at which the search ends: without a ridge, rows that it can tell apart push
them ever further.
"""
# largest change of a log scale that some of the rows are trusted to find
FURTHEST = 3.0


class FeatureTemperatureOptions(Options, frozen=True):
    ridge: Annotated[
        float,
        Meta(
            ge=0,
            description=(
                "pull of the weights towards plain temperature scaling, divided by the"
                " rows"
            ),
        ),
    ] = 1.0
    prior: Prior = USUAL_PRIOR
    mixture: Annotated[
        bool,
        Meta(
            description=(
                "mix in 1/(n+1) of the uniform distribution, which keeps every NLL"
                " finite"
            )
        ),
    ] = True


@dataclass(frozen=True)
class FeatureTemperature(Calibrator):
    """Give every row its own temperature, from three features of its logits.

    p = (1-a) softmax(z exp(w0 + w . f) / T) + a/C with a = 1/(n+1); T from temperature
    scaling. The features need no label: with u = z / T, f1 = log(H(softmax u) / log C +
    1e-6) (entropy), f2 = log(u_(1) - u_(2) + 1e-2) (margin), f3 = log of the standard
    deviation of z over the classes; each standardised by its mean and deviation on the
    calibration rows and clipped to +-4. w minimises the mean NLL + ridge/n |w|^2 and,
    m_i being the log scale of row i, sum_i max(m_i, 0)^2 / (2 prior^2 n^2), by Newton's
    method on series of the rows (not convex, but four numbers), in large files from the
    minimum of some rows, else from 0, which is temperature scaling. A row's logits are
    scaled, never bent: predictions stay as they were.

    Where T ends at a bound the weights stay 0.

    Reference: log T linear in the log entropy is Balanya, Maronas, Ramos (2022, arXiv
    2208.00461); margin and spread of the logits stand beside it here.
    """

    temperature: float = param(within="positive")
    weights: FloatArray = param(4)
    mean: FloatArray = param(3)
    deviation: FloatArray = param(3, within="positive")
    uniform: float = param(within="share")

    list_order = 20
    use = "when rows differ in how sure the model should be; accuracy-preserving"
    title = "feature temperature"
    Options = FeatureTemperatureOptions
    # the uniform part can cost 1/n where the scores were perfect
    laws = replace(ORDER_PRESERVING, memory="row")

    @classmethod
    def fit(
        cls, rows: Rows, options: FeatureTemperatureOptions, context: Context
    ) -> Fit[Self]:
        first = TemperatureScaling.fit(
            rows, TemperatureOptions(prior=options.prior), context
        )
        temperature = first.calibrator.temperature
        uniform = rows.share_of_one_more if options.mixture else 0.0
        raw = np.concatenate(list(rows.each(partial(_features, temperature))))
        share = shares_of(rows.weights(), rows.n)
        mean = share @ raw
        deviation = np.sqrt(share @ (raw - mean) ** 2)
        # A feature that does not vary carries nothing; its rounding noise must not be
        # blown up.
        deviation[deviation <= 1e-9 * np.maximum(1.0, np.abs(mean))] = 1e9
        details: dict[str, Any] = {"temperature": dict(first.details)}
        if first.status != "ok":
            plain = cls(temperature, np.zeros(4), mean, deviation, uniform)
            return Fit(plain, first.status, first.warnings, details)
        begin = context.start.weights if isinstance(context.start, cls) else np.zeros(4)
        inputs = design(raw, mean, deviation)
        del raw  # as large as the scores of three classes
        prior_weight = 0.0
        if options.prior:
            prior_weight = 1.0 / (options.prior**2 * rows.effective_n)
        objective = Weighing(
            inputs=inputs,
            share=share,
            ridge=options.ridge / rows.effective_n,
            temperature=temperature,
            tolerance=LOOSE_GRADIENT if context.loose else GRADIENT,
            prior_weight=prior_weight,
        )
        count = 0 if context.loose else start_rows(rows)
        if count and not begin.any():
            begin = objective.rough_start(rows, count, begin, context)
        minimum, walks = objective.minimise(rows, begin, context)
        details["evaluations"] = walks
        details["gradient"] = minimum.gradient
        fitted = cls(temperature, minimum.x, mean, deviation, uniform)
        if minimum.status == "not_converged":
            warning = "the search for the feature weights did not converge"
            return Fit(fitted, "not_converged", (warning,), details)
        if (np.abs(minimum.x) >= LARGEST).any():
            return Fit(fitted, "at_bound", (UNBOUNDED,), details)
        return Fit(fitted, "ok", (), details)

    def apply(self, block: Block) -> Prediction:
        z = block.z
        inputs = design(features(z, self.temperature), self.mean, self.deviation)
        scale = np.exp(inputs @ self.weights) / self.temperature
        log_p = log_softmax((z - row_max(z)[:, None]) * scale[:, None])
        return Prediction(mixed_with_uniform(log_p, self.uniform), block.prediction)

    def check_own(self, k: int) -> None:
        if not np.all(np.abs(self.weights) * [1, CLIP, CLIP, CLIP] < 100):
            raise DataError(
                f"weights are {self.weights.tolist()}, expected numbers below 100 (25"
                " for a feature)"
            )


def features(z: FloatArray, temperature: float) -> FloatArray:
    """Compute entropy, margin and spread of rows of logits (n, k), in logarithms.

    Returns (n, 3), finite.
    """
    here = np.arange(len(z))
    top = z.argmax(axis=1)
    u = (z - z[here, top][:, None]) / temperature
    e = np.exp(u)
    norm = e.sum(axis=1)
    entropy = np.log(norm) - np.einsum("ij,ij->i", e, u) / norm
    variance = np.einsum("ij,ij->i", u, u) / u.shape[1] - u.mean(axis=1) ** 2
    u[here, top] = -np.inf
    margin = -row_max(u)
    spread = np.sqrt(np.maximum(variance, 0.0)) * temperature
    # Rounding can leave a certain row with an entropy a little below 0.
    share = np.log(np.maximum(entropy, 0.0) / np.log(z.shape[1]) + 1e-6)
    log_margin = np.log(margin + 1e-2)
    log_spread = np.log(np.maximum(spread, 1e-6))
    return np.stack([share, log_margin, log_spread], axis=1)


def design(raw: FloatArray, mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """A one and the standardised, clipped features: (n, 4)."""
    clipped = np.clip((raw - mean) / deviation, -CLIP, CLIP)
    return np.column_stack([np.ones(len(raw)), clipped])


def _features(temperature: float, block: Block) -> FloatArray:
    return features(block.z, temperature)


@dataclass(frozen=True)
class Weighing:
    r"""Search the weights of the least mean NLL of rows with their own scales.

    inputs : (n, 4). share : (n,), sum 1. ridge : weight of \|w\|^2. prior_weight :
    weight of the prior on rows that sharpen.
    """

    inputs: FloatArray
    share: FloatArray
    ridge: float
    temperature: float
    tolerance: float
    prior_weight: float

    def rough_start(
        self, rows: Rows, count: int, begin: FloatArray, context: Context
    ) -> FloatArray:
        """Find the minimum of some rows; ``begin`` where it is not to be trusted."""
        runs = [np.arange(*run) for run in sample_runs(rows.n, count)]
        index = np.concatenate(runs)
        share = self.share[index]
        of_some = replace(
            self,
            inputs=self.inputs[index],
            share=share / max(share.sum(), 1e-300),
            tolerance=LOOSE_GRADIENT,
        )
        minimum, _ = of_some.minimise(rows.sample(count), begin, context)
        if minimum.status != "ok":
            return begin
        if np.abs(self.inputs @ minimum.x).max() > FURTHEST:
            return begin
        return minimum.x

    def minimise(
        self, rows: Rows, begin: FloatArray, context: Context
    ) -> tuple[BoxMinimum, int]:
        """Minimise over the weights.

        Returns the end of the search and the number of walks over the rows. A walk
        gives every row's series around some weights, from which Newton's method finds
        the next, until the series itself has the optimum. Where these do not settle,
        every step has a walk of its own.
        """
        walks = 0

        def around(w: FloatArray) -> partial[tuple[float, FloatArray, FloatArray]]:
            """The objective by the rows' series around w, from one more walk."""
            nonlocal walks
            walks += 1
            context.progress("weighing the features", walks, 0)
            scale = np.exp(self.inputs @ w) / self.temperature
            return partial(self.near, w, *row_series(rows, scale))

        w = begin
        last = begin
        least = np.inf
        while walks < SERIES:
            near = around(w)
            value = near(w)[0]
            if not value <= least + 1e-14 * (1.0 + abs(least)):
                # The last series was asked too far: go half way back.
                w = (w + last) / 2
                continue
            minimum = minimise_box(
                near,
                w,
                low=np.maximum(w - LONGEST, -LARGEST),
                high=np.minimum(w + LONGEST, LARGEST),
                tolerance=self.tolerance,
                limit=20,
            )
            step = minimum.x - w
            is_near = (
                np.abs(step).max() < LONGEST
                and np.abs(self.inputs @ step).max() < REACH
            )
            # What the last term of the series adds to the gradient bounds its error.
            cut = np.abs(near(minimum.x)[1] - near(minimum.x, cut=1)[1]).max()
            last = w
            least = value
            w = minimum.x
            if minimum.status == "ok" and is_near and cut <= self.tolerance:
                return minimum, walks
        minimum = minimise_box(
            lambda w: around(w)(w),
            last,
            low=-LARGEST,
            high=LARGEST,
            longest=LONGEST,
            tolerance=self.tolerance,
        )
        return minimum, walks

    def near(
        self,
        centre: FloatArray,
        value: FloatArray,
        slopes: FloatArray,
        w: FloatArray,
        cut: int = 0,
    ) -> tuple[float, FloatArray, FloatArray]:
        """Evaluate the rows' series around ``centre`` at w.

        Returns value, gradient and Hessian. cut : terms left out at the series' end.
        """
        total = self.ridge * float(w @ w)
        gradient = 2 * self.ridge * w
        hessian = 2 * self.ridge * np.eye(4)
        for start in range(0, len(value), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            inputs = self.inputs[part]
            share = self.share[part]
            # the prior, on rows that sharpen
            sharp = np.maximum(inputs @ w - np.log(self.temperature), 0.0)
            push = self.prior_weight * share * sharp
            curvature = self.prior_weight * share * (sharp > 0)
            total += 0.5 * float(push @ sharp)
            gradient += inputs.T @ push
            hessian += (inputs * curvature[:, None]).T @ inputs
            # the series, by Horner's scheme
            change = np.clip(inputs @ (w - centre), -REACH, REACH)
            x = np.expm1(change)
            inside = np.where(np.abs(change) < REACH, share, 0.0)
            rise = np.zeros(len(x))
            slope = np.zeros(len(x))
            bend = np.zeros(len(x))
            for j in range(len(slopes) - 1 - cut, -1, -1):
                bend = bend * x + slope
                slope = slope * x + slopes[j, part]
                rise = rise * x + slopes[j, part] / (j + 1)
            slope *= 1.0 + x  # in the logarithm of the scale
            bend = bend * (1.0 + x) ** 2 + slope
            total += float(share @ (value[part] + rise * x))
            gradient += inputs.T @ (inside * slope)
            hessian += (inputs * (inside * bend)[:, None]).T @ inputs
        return total, gradient, hessian


UNBOUNDED = (
    "a feature weight ran into its bound: these rows pull it ever further, as few rows"
    " or features that say the same do; a larger ridge holds it"
)
