"""Hoki: calibration by transforming logits."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calcli.block import Block
from calcli.calibrator import Calibrator, Context, Fit, Prediction, param
from calcli.errors import DataError, UsageError
from calcli.kernels.numpy.hoki_draws import QUANTILES, Races, digest, standard_noise
from calcli.kernels.numpy.hoki_retention import block_retention
from calcli.methods._binary.log_odds import counted_rows, top_log_odds
from calcli.methods._binary.maps import TOP_LABEL
from calcli.methods._binary.marginals import logs, share_rest
from calcli.methods._hoki.judgement import judge, report, rounds
from calcli.methods._hoki.noise import (
    choose_noise,
    listed_scales,
    retention,
    searched_families,
)
from calcli.methods._hoki.options import FAMILIES, HokiOptions
from calcli.methods._hoki.rounds import Evidence, replay
from calcli.methods._hoki.rows import summary_of, terms_of_rows
from calcli.methods._transforms import agreement, choose_pool
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.numerics import FloatArray, row_weights, sigmoid
from calcli.rows import Rows


def transforms_of(rows: Rows, options: HokiOptions) -> list[int]:
    """Places of the bundle's transforms that the options ask for; none without.

    Raises as ``choose_pool``.
    """
    if options.noise == "transforms":
        how = "noise=transforms"
    elif options.mix:
        how = f"mix={options.mix:g}"
    else:
        return []
    return choose_pool(rows.transforms, options.pool, f"hoki with {how}")


@dataclass(frozen=True)
class Hoki(Calibrator):
    """Calibrate the confidence by how often the prediction survives noise on logits.

    gamma = P(argmax(z + t) = argmax(z)), t independent noise per class. From q =
    accuracy, repeat: bin q into J equal-width bins, and in each put q = beta + (alpha -
    beta) gamma, where alpha is the accuracy among retained, beta among lost noisy
    copies; stop when the bins stay as they are. Predictions are kept.

    We use the exact gamma (the limit of infinitely many draws): a one-dimensional
    integral for Gaussian and uniform noise, max softmax(z / scale) for Gumbel noise.
    ``gamma=mc`` draws as the paper does; its draws are made again from the recorded
    seed by arithmetic that is the same on every machine, and checked by their SHA-256.
    The scale is chosen as in the paper, by the largest standard deviation of q with one
    bin, among thirteen from 1/8 to 8 times the median gap between the two largest
    logits, on the exact gamma. ``noise=auto`` lets the families compete by the same
    criterion. ``noise=transforms`` takes for gamma the share of the bundle's transforms
    of the input under which the prediction stays (theorem 1 holds for any of them); the
    same transforms are then needed for new rows. ``mix=0.5`` weighs such a share and
    the retention under noise equally, the noise chosen as if alone: a disturbance drawn
    from either, which the paper names as future work. The paper also searches the mean
    of the noise; argmax does not change when a constant is added to all logits, so a
    mean has no effect. A partition that comes back after several rounds is a cycle,
    which the paper does not mention: the member with the least ECE is kept. Bins empty
    in the fit (0/0 in the paper) leave a row as it is.

    Within every bin the mean of q equals the accuracy, so when the rounds end the
    equal-width ECE on the calibration data is 0 by construction: judge by other
    measures.

    Reference: Jang, Ivanov, Lee, Weimer (2021), Algorithms 1 and 2, equations 1 and 2.
    """

    noise: str = param(within="|".join((*QUANTILES, "transforms")))
    scale: float = param(within="positive")
    init: str = param(within="accuracy|confidence")
    accuracy: float = param(within="0 to 1")
    alpha: FloatArray = param("rounds", "bins", within="gaps")
    beta: FloatArray = param("rounds", "bins", within="gaps")
    samples: int = param(within="from 0")
    seed: int = param(within="from 0")
    draws_sha256: str = param()
    _: KW_ONLY
    transforms: NDArray[np.str_] | None = param(
        "m", dtype="str", optional=True, default=None
    )
    mix: float = param(default=0.0, within="0 to 1")

    list_order = 50
    use = "when the model's own noise should set the confidence"
    title = "Hoki (logit transformations)"
    laws = replace(TOP_LABEL, confidence=False, keeps_argmax=True, class_shares=False)
    Options = HokiOptions

    @classmethod
    def check_options(cls, options: HokiOptions) -> None:
        listed_scales(options.scales)
        searched_families(options)
        if options.noise != "auto" and options.families != ",".join(FAMILIES):
            raise UsageError(
                f"families= is what noise=auto searches; noise={options.noise}"
                " searches no families"
            )
        if options.scales and options.scale is not None:
            raise UsageError(
                "scale= and scales= are given together; one scale, or those to search"
            )
        if options.noise == "transforms" and options.gamma == "mc":
            raise UsageError(
                "gamma=mc draws noise, and noise=transforms has none to draw"
            )
        if options.noise == "transforms" and options.mix not in (0.0, 1.0):
            raise UsageError(
                f"mix={options.mix:g} needs a noise to mix with the transforms;"
                " noise=transforms has none"
            )

    @classmethod
    def fit(cls, rows: Rows, options: HokiOptions, context: Context) -> Fit[Self]:
        warnings: list[str] = []
        if options.mean is not None:
            warnings.append(
                f"option mean={options.mean:g} has no effect: the same constant on"
                " every logit of a row leaves its argmax, so only the scale of the"
                " noise matters"
            )
        weight = rows.weights()
        counted = counted_rows(rows.n, weight)
        ts = TemperatureScaling.fit(rows, TemperatureOptions(), context)
        parts = list(rows.each(partial(terms_of_rows, ts.calibrator.temperature)))
        s, right, s_tempered, gap, *shares = np.concatenate(parts, axis=1)
        p = sigmoid(s[counted])
        hit = right[counted]
        mass = row_weights(weight, rows.n)[counted]
        accuracy = float(mass @ hit / mass.sum())
        start = p if options.init == "confidence" else np.full(len(counted), accuracy)
        base = Evidence(np.empty(len(counted)), hit, mass, start)

        # How often predictions survive the bundle's transforms, where that is asked.
        alone = options.noise == "transforms"
        transforms = transforms_of(rows, options)
        if transforms:
            work = partial(agreement, transforms=len(transforms))
            agreements = list(rows.each(work, transforms=transforms))
            kept = np.concatenate(agreements)[counted]

        # How often they survive noise, and the noise itself.
        if alone:
            noise = "transforms"
            scale = 1.0
            gamma = kept
            details = dict[str, Any]()
            end_warnings = list[str]()
        else:
            noise, scale, gamma, details, end_warnings = choose_noise(
                rows, options, context, counted, gap[counted], base
            )
        samples = 0
        draws_sha256 = ""
        if options.gamma == "mc":
            samples = options.samples
            races, draws_sha256 = drawn(noise, samples, rows.k, context.seed)
            gamma = retention(rows, noise, [scale], context, races.by_race)[counted, 0]
        mix = 0.0 if alone else options.mix
        if mix:
            gamma = (1.0 - mix) * gamma + mix * kept

        # The rounds, and what there is to say of them.
        evidence = base._replace(gamma=gamma)
        fitted, status, round_warnings = rounds(evidence, options)
        details |= report(fitted, evidence, p, options.bins)
        brier = (sigmoid(s_tempered[counted]) - hit) ** 2
        details["ts_brier_top"] = float(np.average(brier, weights=mass))
        warnings += [*end_warnings, *round_warnings, *judge(details)]
        if status == "ok" and end_warnings:
            status = "at_bound"
        pool = None
        if transforms:
            pool = np.asarray([rows.transforms[m] for m in transforms])
        calibrator = cls(
            noise=noise,
            scale=scale,
            init=options.init,
            accuracy=accuracy,
            alpha=fitted.alpha,
            beta=fitted.beta,
            samples=samples,
            seed=context.seed,
            draws_sha256=draws_sha256,
            transforms=pool,
            mix=mix,
        )
        after = None
        if len(counted) == rows.n:
            after = partial(summary_of, rows, fitted.confidence, right, *shares)
        return Fit(calibrator, status, tuple(warnings), details, after=after)

    def apply(self, block: Block) -> Prediction:
        z = block.z
        label = block.prediction
        gamma = np.zeros(len(z))
        if self.noise != "transforms":
            races = None
            if self.samples:
                races = recorded(
                    self.noise, self.samples, z.shape[1], self.seed, self.draws_sha256
                )
            gamma = block_retention(z, self.noise, [self.scale], races)[:, 0]
        if self.transforms is not None:
            mix = 1.0 if self.noise == "transforms" else self.mix
            gamma = (1.0 - mix) * gamma + mix * agreement(block, len(self.transforms))
        if self.init == "accuracy":
            start = np.full(len(z), self.accuracy)
        else:
            start = sigmoid(top_log_odds(z, label, block.stored_zeros))
        log_q, log_rest = logs(replay(start, gamma, self.alpha, self.beta))
        return Prediction(share_rest(z, label, log_q, log_rest), label, floored=True)

    @property
    def required_transforms(self) -> Sequence[str]:
        return () if self.transforms is None else tuple(map(str, self.transforms))

    def check_own(self, k: int) -> None:
        n_transforms = 0 if self.transforms is None else len(self.transforms)
        has_list = self.transforms is not None
        uses = (self.noise == "transforms") + (self.mix > 0)
        if uses != has_list or (has_list and n_transforms == 0):
            count = n_transforms if has_list else "null"
            raise DataError(
                f"noise is {self.noise!r}, mix {self.mix:g} and transforms are {count},"
                " expected some beside noise 'transforms' or a mix above 0, which"
                " exclude each other"
            )
        if not self.alpha.size:
            raise DataError(
                f"alpha has shape {self.alpha.shape}, expected at least one round and"
                " one bin"
            )
        if (np.isnan(self.beta) != np.isnan(self.alpha)).any():
            raise DataError("alpha and beta are not null in the same places")


@lru_cache(maxsize=2)
def drawn(noise: str, samples: int, k: int, seed: int) -> tuple[Races, str]:
    """Draws of a fit, reproducible from the seed, and their SHA-256."""
    draws = standard_noise(noise, samples, k, seed)
    return Races(draws), digest(draws)


def recorded(noise: str, samples: int, k: int, seed: int, expected: str) -> Races:
    """Make the draws of an artifact again.

    Raises DataError if their SHA-256 is not the recorded one.
    """
    races, draws_sha256 = drawn(noise, samples, k, seed)
    if draws_sha256 != expected:
        raise DataError(
            f"the {samples} x {k} draws of {noise} noise with seed {seed} do not have"
            " the recorded SHA-256: the artifact was edited, or belongs to another"
            " number of classes; fit it again"
        )
    return races
