"""Hoki: calibration by transforming logits."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

import numpy as np
from msgspec import Meta

from calcli.binning import BinStats, mass_edges
from calcli.calibrator import Calibrator, Context, Fit, Options, Prediction, Status, param
from calcli.errors import DataError
from calcli.kernels.device import kernels
from calcli.kernels.numpy.noise import QUANTILES, digest, standard_noise
from calcli.kernels.numpy.retention import Races, block_retention
from calcli.methods._binary.maps import TOP_LABEL
from calcli.methods._binary.questions import counted_rows, sigmoid, single_sample, top_log_odds
from calcli.methods._binary.vectors import logs, share_rest
from calcli.methods._hoki_rounds import Design, Evidence, design, one_line, replay, width_error
from calcli.numerics import NLL_FLOOR, FloatArray, IntArray
from calcli.rows import Block, Rows

SAME_EVERYWHERE = 1e-6
"""Below this standard deviation the retention probabilities tell no row from another."""


class HokiOptions(Options, frozen=True):
    """Options of Hoki."""

    noise: Annotated[
        Literal["gaussian", "uniform", "gumbel"],
        Meta(description="family of the noise, drawn independently for every class"),
    ] = "gaussian"
    scale: Annotated[
        Annotated[float, Meta(ge=1e-9, le=1e9)] | None,
        Meta(
            description="standard deviation (gaussian), width (uniform) or scale (gumbel) of the noise,"
            " in units of the logits; searched when absent",
        ),
    ] = None
    select: Annotated[
        Literal["sd", "cv-nll"],
        Meta(
            description="how a scale is chosen: sd (the paper's largest standard deviation of the one-bin"
            " confidence), cv-nll (least NLL of right/wrong in a two-fold cross-validation)"
        ),
    ] = "sd"
    gamma: Annotated[
        Literal["exact", "mc"],
        Meta(description="retention probability: exact (an integral), mc (shared draws, as in the paper)"),
    ] = "exact"
    samples: Annotated[int, Meta(ge=1, le=1_000_000, description="draws of gamma=mc, the same for all rows")] = 1000
    bins: Annotated[int, Meta(ge=1, le=10_000, description="equal-width bins of the confidence")] = 15
    rounds: Annotated[int, Meta(ge=1, le=10_000, description="most rounds until the bins have to stay")] = 50
    init: Annotated[
        Literal["accuracy", "confidence"],
        Meta(description="where the rounds start: one bin at the accuracy, or the uncalibrated confidence"),
    ] = "accuracy"
    mean: Annotated[
        float | None, Meta(description="mean of the noise: accepted, without effect (argmax ignores it)")
    ] = None


@dataclass(frozen=True)
class Hoki(Calibrator):
    """Calibrate the confidence by how often the prediction survives noise on the logits.

    gamma = P(argmax(z + t) = argmax(z)), t independent noise per class. From q = accuracy,
    repeat: bin q into J equal-width bins, and in each put q = beta + (alpha - beta) gamma,
    where alpha is the accuracy among retained, beta among lost noisy copies; stop when
    the bins stay as they are. Predictions are kept.

    We use the exact gamma (the limit of infinitely many draws): a one-dimensional integral
    for Gaussian and uniform noise, max softmax(z / scale) for Gumbel noise. ``gamma=mc``
    draws as the paper does; its draws are made again from the recorded seed by arithmetic
    that is the same on every machine, and checked by their SHA-256. The scale is chosen
    as in the paper, by the largest standard deviation of q with one bin, among thirteen
    from 1/8 to 8 times the median gap between the two largest logits, on the exact gamma.
    The paper also searches the mean of the noise; argmax does not change when a constant
    is added to all logits, so a mean has no effect. A partition that comes back after
    several rounds is a cycle, which the paper does not mention: the member with the least
    ECE is kept. Bins empty in the fit (0/0 in the paper) leave a row as it is.

    Within every bin the mean of q equals the accuracy, so when the rounds end the
    equal-width ECE on the calibration data is 0 by construction: judge by other measures.

    Reference: Jang, Ivanov, Lee, Weimer (2021), Algorithms 1 and 2, equations 1 and 2.
    """

    noise: str = param()
    scale: float = param()
    init: str = param()
    accuracy: float = param()
    alpha: FloatArray = param("rounds", "bins")
    beta: FloatArray = param("rounds", "bins")
    samples: int = param()
    seed: int = param()
    draws_sha256: str = param()

    place = 50
    use = "when the model's own noise should set the confidence"
    title = "Hoki (logit transformations)"
    laws = replace(TOP_LABEL, keeps_argmax=True)
    Options = HokiOptions

    @classmethod
    def fit(cls, rows: Rows, options: HokiOptions, context: Context) -> Fit[Self]:
        warnings: list[str] = []
        if options.mean is not None:
            warnings.append(
                f"option mean={options.mean:g} has no effect: the same constant on every logit of a row leaves"
                " its argmax, so only the scale of the noise matters"
            )
        weight = rows.weights()
        counted = counted_rows(rows.n, weight)
        sample = single_sample(rows, "top", weight).part(counted)
        mass = np.ones(len(counted)) if sample.weight is None else sample.weight
        accuracy = float(mass @ sample.hit / mass.sum())
        start = sample.p if options.init == "confidence" else np.full(len(counted), accuracy)
        base = Evidence(np.empty(len(counted)), sample.hit, mass, start)

        scale, gamma, choice = choose_scale(rows, options, context, counted, base)
        draws_sha256 = ""
        if options.gamma == "mc":
            races, draws_sha256 = drawn(options.noise, options.samples, rows.k, context.seed)
            gamma = retention(rows, options, [scale], context, races.by_race)[counted, 0]
        evidence = Evidence(gamma, sample.hit, mass, start)
        found, status, told = rounds(evidence, options)
        details = {**choice.details, **report(found, evidence, sample.p, options.bins)}
        warnings += [*choice.warnings, *told, judge(details)]
        fitted = cls(
            noise=options.noise,
            scale=scale,
            init=options.init,
            accuracy=accuracy,
            alpha=found.alpha,
            beta=found.beta,
            samples=options.samples if draws_sha256 else 0,
            seed=context.seed,
            draws_sha256=draws_sha256,
        )
        status = "at_bound" if status == "ok" and choice.at_bound else status
        return Fit(fitted, status, tuple(warnings), details)

    def apply(self, block: Block) -> Prediction:
        z = block.z
        label = block.prediction
        races = None
        if self.samples:
            races = recorded(self.noise, self.samples, z.shape[1], self.seed, self.draws_sha256)
        gamma = block_retention(z, self.noise, [self.scale], races)[:, 0]
        start = np.full(len(z), self.accuracy) if self.init == "accuracy" else sigmoid(top_log_odds(z, label))
        return Prediction(share_rest(z, label, *logs(replay(start, gamma, self.alpha, self.beta))), label)

    def check(self, k: int) -> None:
        if self.noise not in QUANTILES:
            raise DataError(f"noise is {self.noise!r}, expected one of {', '.join(QUANTILES)}")
        if self.init not in ("accuracy", "confidence"):
            raise DataError(f"init is {self.init!r}, expected accuracy or confidence")
        if not 0 < self.scale < np.inf:
            raise DataError(f"scale is {self.scale}, expected a positive number")
        if not 0 <= self.accuracy <= 1:
            raise DataError(f"accuracy is {self.accuracy}, expected a number between 0 and 1")
        if self.samples < 0 or self.seed < 0:
            raise DataError(f"samples is {self.samples} and seed {self.seed}, expected numbers from 0")
        if not self.alpha.size:
            raise DataError(f"alpha has shape {self.alpha.shape}, expected at least one round and one bin")
        empty = np.isnan(self.alpha)
        values = np.concatenate([self.alpha[~empty], self.beta[~empty]])
        if (np.isnan(self.beta) != empty).any() or not ((values >= 0) & (values <= 1)).all():
            raise DataError("alpha and beta are not all between 0 and 1, or null in the same places")


@lru_cache(maxsize=2)
def drawn(noise: str, samples: int, k: int, seed: int) -> tuple[Races, str]:
    """The draws of a fit, the same whenever they are made, and their SHA-256."""
    draws = standard_noise(noise, samples, k, seed)
    return Races(draws), digest(draws)


def recorded(noise: str, samples: int, k: int, seed: int, expected: str) -> Races:
    """The draws of an artifact. Raises DataError when they are not the recorded ones."""
    races, found = drawn(noise, samples, k, seed)
    if found != expected:
        raise DataError(
            f"the {samples} x {k} draws of {noise} noise with seed {seed} do not have the recorded"
            " SHA-256: the artifact was edited, or belongs to another number of classes; fit it again"
        )
    return races


def retention(rows: Rows, options: HokiOptions, scales: list[float], context: Context, draws: Any = None) -> FloatArray:
    """Retention probability of every row at every scale, (n, scales)."""
    return np.asarray(
        kernels(context).retention_rates(
            rows,
            options.noise,
            scales,
            draws,
            lambda done: context.progress("retention probabilities", done, rows.n),
        )
    )


# ---- choosing the scale


@dataclass(frozen=True)
class Choice:
    """What there is to say about a chosen scale."""

    details: dict[str, Any]
    warnings: tuple[str, ...] = ()
    at_bound: bool = False


def choose_scale(
    rows: Rows, options: HokiOptions, context: Context, counted: IntArray, base: Evidence
) -> tuple[float, FloatArray, Choice]:
    """The scale, the exact retention probabilities of the rows that count, and the record."""
    if options.scale is not None:
        gamma = np.empty(len(counted))
        if options.gamma == "exact":
            gamma = retention(rows, options, [options.scale], context)[counted, 0]
        return options.scale, gamma, Choice({})
    gaps = kernels(context).runner_up_gaps(rows)[counted]
    unit = float(np.median(gaps)) or float(gaps.mean()) or 1.0
    scales = [unit * 2.0 ** (i / 2) for i in range(-6, 7)]
    gammas = retention(rows, options, scales, context)[counted]
    evidences = [Evidence(g, base.hit, base.weight, base.start) for g in gammas.T]
    if options.select == "sd":
        values = [one_bin_sd(e) for e in evidences]
        best = int(np.argmax(values))
    else:
        folds = two_folds(base.hit, context.seed)
        values = [cross_validated_nll(e, folds, options) for e in evidences]
        best = int(np.argmin(values))
    details = {"scales": scales, "select": options.select, "criterion": values}
    informative = np.ptp(values) > 0
    if informative and best in (0, len(scales) - 1):
        warning = (
            f"the best scale {scales[best]:.4g} is the {'smallest' if best == 0 else 'largest'} of those searched;"
            " set scale= to look beyond"
        )
        return scales[best], gammas[:, best], Choice(details, (warning,), at_bound=True)
    return scales[best], gammas[:, best], Choice(details)


def one_bin_sd(evidence: Evidence) -> float:
    """Standard deviation of the confidence when there is one bin, \\|alpha - beta\\| sd(gamma)."""
    alpha, beta = one_line(evidence)
    return abs(alpha - beta) * spread(evidence)


def spread(evidence: Evidence) -> float:
    """Standard deviation of the retention probabilities."""
    share = evidence.weight / evidence.weight.sum()
    return float(np.sqrt(share @ (evidence.gamma - share @ evidence.gamma) ** 2))


def two_folds(hit: FloatArray, seed: int) -> tuple[IntArray, IntArray]:
    """Rows split in halves, right and wrong ones alike."""
    rng = np.random.default_rng(seed)
    groups = [rng.permutation(np.flatnonzero(hit == outcome)) for outcome in (0.0, 1.0)]
    return tuple(np.sort(np.concatenate([g[i::2] for g in groups])) for i in (0, 1))  # type: ignore[return-value]


def cross_validated_nll(evidence: Evidence, folds: tuple[IntArray, IntArray], options: HokiOptions) -> float:
    """Mean NLL of right/wrong, each half under the design of the other.

    The rest of a row's vector keeps its proportions, so the NLL of the label differs from
    this by a number that does not depend on the scale.
    """
    total = 0.0
    for here, there in (folds, folds[::-1]):
        if not len(here) or not len(there):
            continue
        past, new = evidence.part(there), evidence.part(here)
        if options.init == "accuracy":
            new = Evidence(new.gamma, new.hit, new.weight, np.full(len(here), past.accuracy))
            past = Evidence(past.gamma, past.hit, past.weight, np.full(len(there), past.accuracy))
        found = design(past, options.bins, options.rounds)
        q = replay(new.start, new.gamma, found.alpha, found.beta)
        p_outcome = np.where(new.hit > 0, q, 1.0 - q)
        total -= float(new.weight @ np.log(np.maximum(p_outcome, NLL_FLOOR)))
    return total / float(evidence.weight.sum())


# ---- the rounds, and what to tell about them


def rounds(evidence: Evidence, options: HokiOptions) -> tuple[Design, Status, list[str]]:
    """The design, a status and what the user should know."""
    accuracy = evidence.accuracy
    if spread(evidence) < SAME_EVERYWHERE:
        lines = np.full((1, options.bins), accuracy)
        found = Design(lines, lines, np.full(len(evidence.hit), accuracy), "fixed")
        return found, "degenerate", [NO_SPREAD]
    found = design(evidence, options.bins, options.rounds)
    told = []
    status: Status = "ok"
    if accuracy in (0.0, 1.0):
        status = "degenerate"
        told.append(f"every prediction on these rows is {'right' if accuracy else 'wrong'}: {ALL_SAME}{accuracy:g}")
    if found.ended == "limit":
        status = "not_converged"
        told.append(f"the bins still changed after {options.rounds} rounds; more rounds may settle them")
    elif found.ended == "cycle":
        status = "not_converged"
        told.append(
            f"the bins come back every {found.period} rounds and never settle;"
            " the round with the least calibration error was kept"
        )
    if len(evidence.hit) < 50 * options.bins:
        told.append(
            f"{len(evidence.hit)} rows for {options.bins} bins are few per bin; fewer bins or ts would serve better"
        )
    return found, status, told


NO_SPREAD = (
    "noise of this scale tells no row from another (their retention probabilities agree): every row gets the"
    " accuracy as its confidence; another scale, or ts, would serve better"
)
ALL_SAME = "no line can be learnt, and every confidence becomes "


def report(found: Design, evidence: Evidence, uncalibrated: FloatArray, bins: int) -> dict[str, Any]:
    """Numbers that judge the design beside the one it was tuned to."""

    def scores(q: FloatArray) -> dict[str, float]:
        share = evidence.weight / evidence.weight.sum()
        stats = BinStats.of(q, evidence.hit, mass_edges(q, 15), evidence.weight)
        return {
            "ece_mass": float(stats.share @ np.abs(stats.gaps)),
            "brier_top": float(share @ (q - evidence.hit) ** 2),
        }

    return {
        "rounds": len(found.alpha),
        "ended": found.ended,
        "period": found.period,
        "bins_used": int((~np.isnan(found.alpha[-1])).sum()) if len(found.alpha) > 1 else 1,
        "retention_mean": float(np.average(evidence.gamma, weights=evidence.weight)),
        "retention_sd": spread(evidence),
        "ece_width": width_error(found.confidence, evidence, bins),
        "calibrated": scores(found.confidence),
        "uncalibrated": scores(uncalibrated),
    }


def judge(details: dict[str, Any]) -> str:
    """Why the width-bin ECE of the calibration data is no evidence, and what is."""
    after, before = details["calibrated"], details["uncalibrated"]
    return (
        f"equal-width ECE on these very rows is {details['ece_width']:.1g} because the rounds drive it to 0 by"
        f" construction, which proves nothing; mass-bin ECE {before['ece_mass']:.4f} -> {after['ece_mass']:.4f},"
        f" top-label Brier {before['brier_top']:.4f} -> {after['brier_top']:.4f}: judge on other rows, beside ts"
    )


METHOD = Hoki
