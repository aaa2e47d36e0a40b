"""Hoki: calibration by transforming logits."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache, partial
from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from calcli.binning import BinStats, bin_index, mass_edges, width_edges
from calcli.calibrator import (
    Calibrator,
    Context,
    Fit,
    Options,
    Prediction,
    Status,
    param,
)
from calcli.errors import DataError, FitError, UsageError
from calcli.fit_summary import Summary
from calcli.folds import content_folds, stratified_folds
from calcli.kernels.device import kernels
from calcli.kernels.numpy.hoki_draws import QUANTILES, Races, digest, standard_noise
from calcli.kernels.numpy.hoki_retention import block_retention, gaps_to_top
from calcli.methods._binary.log_odds import counted_rows, top_log_odds
from calcli.methods._binary.maps import TOP_LABEL, logs, share_rest
from calcli.methods.ts import TemperatureOptions, TemperatureScaling
from calcli.numerics import (
    LOG_ZERO,
    FloatArray,
    IntArray,
    floored_log,
    log_normalizer,
    sigmoid,
)
from calcli.rows import ArrayRows, Block, Rows

# ---- choice among a bundle's transforms of the input


def choose_pool(transforms: Sequence[str], pool: str, method: str) -> list[int]:
    """Indices of the transforms to draw from, in the order of the source.

    method : name of the method, for messages. pool : ``all``, or names and full specs
    with commas between. Raises FitError if the rows have no transforms, UsageError for
    a name that none of them has.
    """
    if not transforms:
        raise FitError(
            f"{method} needs the scores of the same rows under transforms (dataset"
            " transforms/logits), these rows have none; calcli extract --model …"
            " --transform zoom:0.5:0.9 --transforms 10 makes them"
        )
    if pool == "all":
        return list(range(len(transforms)))
    wanted = [name.strip() for name in pool.split(",") if name.strip()]
    for name in wanted:
        if not any(name in (spec, spec.partition(":")[0]) for spec in transforms):
            raise UsageError(
                f"option pool={pool!r}: no transform is {name!r}; there are:"
                f" {', '.join(transforms)}"
            )
    return [
        m
        for m, spec in enumerate(transforms)
        if spec in wanted or spec.partition(":")[0] in wanted
    ]


# ---- the rounds: lines in the retention probability, one per bin of confidence


SLACK = 1e-12
# least probability of an outcome as scales are compared, so that one row does not
# decide
SURE_MISS = 1e-12
"""Confidences at most this far above an edge lie on it. Bins with equal retention get
their accuracy, a ratio of whole numbers that is often an edge, up to its last bit.
"""
# a bin whose mean retention is this close to 0 or 1 is too uniform for a line
ALL_ALIKE = 1e-9
# standard deviation below which retention probabilities do not distinguish rows
SAME_EVERYWHERE = 1e-6


class Evidence(NamedTuple):
    """Rows that a design is fitted to.

    gamma : (n,) retention probabilities. hit : (n,) 1.0 if the prediction is right,
    else 0.0. weight : (n,) all > 0. start : (n,) confidences that the first round bins.
    """

    gamma: FloatArray
    hit: FloatArray
    weight: FloatArray
    start: FloatArray

    @property
    def accuracy(self) -> float:
        """Proportion of right predictions."""
        return float(self.weight @ self.hit / self.weight.sum())

    @property
    def share(self) -> FloatArray:
        """Weights that sum to 1, (n,)."""
        return self.weight / self.weight.sum()

    @property
    def spread(self) -> float:
        """Standard deviation of the retention probabilities."""
        share = self.share
        return float(np.sqrt(share @ (self.gamma - share @ self.gamma) ** 2))


class Design(NamedTuple):
    """Fitted lines of all rounds.

    alpha, beta : (rounds, bins), NaN where a bin was empty. confidence : (n,) of the
    rows they were fitted to. period : rounds after which the partition came back: 1 if
    it no longer changes; 0 if the rounds ran out. Of a longer cycle the round with the
    least ECE was kept.
    """

    alpha: FloatArray
    beta: FloatArray
    confidence: FloatArray
    period: int


def design(evidence: Evidence, bins: int, limit: int) -> Design:
    """Fit by repeated rounds: bin the confidences, fit a line in every bin, take its
    values as confidences.

    The lines of a round depend on the partition alone, so the rounds have ended as soon
    as a partition comes back. (Algorithm 1; its empty bins, 0/0 there, become NaN.)
    """
    confidence = evidence.start
    seen: dict[bytes, int] = {}
    lines: list[FloatArray] = []
    errors: list[float] = []
    for k in range(limit + 1):
        index = bin_of(confidence, bins)
        first = seen.setdefault(sha256(index.tobytes()).digest(), k)
        if first < k or k == limit:
            break
        line = fit_lines(evidence, index, bins)
        if k == 0 and np.ptp(confidence) == 0:
            # One value for all rows is one bin, whatever the edges: its line serves
            # every bin.
            line = np.repeat(line[:, index[:1]], bins, axis=1)
        lines.append(line)
        confidence = follow(confidence, evidence.gamma, *line)
        errors.append(width_error(confidence, evidence, bins))
    kept = k if first == k else first + 1 + int(np.argmin(errors[first:]))
    alpha, beta = np.stack(lines[:kept], axis=1)
    if kept < k:
        confidence = replay(evidence.start, evidence.gamma, alpha, beta)
    return Design(alpha, beta, confidence, k - first)


def replay(
    start: FloatArray, gamma: FloatArray, alpha: FloatArray, beta: FloatArray
) -> FloatArray:
    """Confidences after all rounds; bins that were empty in the fit leave them
    unchanged. (Algorithm 2)
    """
    confidence = start
    for a, b in zip(alpha, beta, strict=True):
        confidence = follow(confidence, gamma, a, b)
    return confidence


def follow(
    confidence: FloatArray, gamma: FloatArray, alpha: FloatArray, beta: FloatArray
) -> FloatArray:
    """Confidences after one round: beta + (alpha - beta) gamma with the line of each
    row's bin.
    """
    index = bin_of(confidence, len(alpha))
    a = alpha[index]
    b = beta[index]
    return np.where(np.isnan(a), confidence, np.clip(b + (a - b) * gamma, 0.0, 1.0))


def fit_lines(evidence: Evidence, index: IntArray, bins: int) -> FloatArray:
    """Accuracy of retained and of lost copies in every bin, (2, bins); NaN where empty.

    alpha = sum corr gamma / sum gamma, beta = sum corr (1 - gamma) / sum (1 - gamma)
    (equations 1 and 2). A bin of which all copies, or none, are retained gets its
    accuracy for both.
    """

    def total(values: FloatArray) -> FloatArray:
        return np.bincount(
            index, weights=evidence.weight * values, minlength=bins
        ).astype(np.float64, copy=False)

    shares = np.ones_like(evidence.gamma), evidence.gamma, 1.0 - evidence.gamma
    totals = np.array([total(share) for share in shares])
    right = np.array([total(evidence.hit * share) for share in shares])
    rates = np.divide(right, totals, out=np.full(right.shape, np.nan), where=totals > 0)
    accuracy, *lines = np.minimum(rates, 1.0)
    return np.where(totals[1:].min(axis=0) > ALL_ALIKE * totals[0], lines, accuracy)


def bin_of(confidence: FloatArray, bins: int) -> IntArray:
    """Equal-width bin of every confidence."""
    return np.asarray(bin_index(confidence - SLACK, width_edges(bins)))


def width_error(confidence: FloatArray, evidence: Evidence, bins: int) -> float:
    """Expected calibration error over the equal-width bins."""
    surplus = evidence.weight * (confidence - evidence.hit)
    return float(
        np.abs(np.bincount(bin_of(confidence, bins), weights=surplus)).sum()
        / evidence.weight.sum()
    )


# ---- retention: how often predictions survive noise or transforms, and the choice of
# noise and scale


FAMILIES = ("gaussian", "uniform", "gumbel")
PRINTED = {"gaussian": 20, "uniform": 40, "gumbel": 20}
"""Largest scale of the paper's grids of whole numbers (it has no Gumbel noise)."""


def retention(
    rows: Rows, noise: str, scales: list[float], context: Context, draws: Any = None
) -> FloatArray:
    """Retention probability of every row at every scale, (n, scales)."""
    report = lambda done: context.progress("retention probabilities", done, rows.n)  # noqa: E731
    return np.asarray(
        kernels(context).retention_rates(rows, noise, scales, draws, report)
    )


def agreement(block: Block, transforms: int) -> FloatArray:
    """Proportion of the transforms that keep each row's largest logit the largest,
    (b,).
    """
    top = block.z.argmax(axis=1)
    kept = sum(
        (block.transformed_z(m).argmax(axis=1) == top).astype(np.float64)
        for m in range(transforms)
    )
    return np.asarray(kept / transforms)


def listed_scales(text: str) -> list[float]:
    """Scales written with commas, ascending. Raises UsageError for anything else."""
    try:
        found = sorted({float(part) for part in text.split(",") if part.strip()})
    except ValueError:
        found = [np.nan]
    if not all(1e-9 <= scale <= 1e9 for scale in found):
        raise UsageError(
            f"option scales={text!r}: expected numbers from 1e-9 to 1e+09 with commas,"
            " e.g. scales=1,2,4"
        )
    return found


def searched_families(options: Any) -> tuple[str, ...]:
    """Families to search, in the order of FAMILIES. Raises UsageError for an unknown
    name.
    """
    if options.noise != "auto":
        return (options.noise,)
    asked = {part.strip() for part in options.families.split(",")}
    if not asked <= set(FAMILIES):
        raise UsageError(
            f"option families={options.families!r}: expected some of"
            f" {','.join(FAMILIES)}, with commas"
        )
    return tuple(family for family in FAMILIES if family in asked)


def grid(options: Any, gaps: FloatArray, family: str) -> list[float]:
    """Scales to search in a family, ascending. gaps : (n,) between the two largest
    logits.
    """
    if options.scale is not None:
        return [options.scale]
    if options.scales:
        return listed_scales(options.scales)
    if options.grid == "printed":
        return [float(scale) for scale in range(1, PRINTED[family] + 1)]
    unit = float(np.median(gaps)) or float(gaps.mean()) or 1.0
    return [unit * 2.0 ** (i / 2) for i in range(-6, 7)]


def choose_noise(
    rows: Rows,
    options: Any,
    context: Context,
    counted: IntArray,
    gaps: FloatArray,
    base: Evidence,
) -> tuple[str, float, FloatArray, dict[str, Any], list[str]]:
    """Choose the family and scale with the best criterion; ties go to the first family,
    then to the least scale.

    Returns these, the retention probabilities (n,), details, and a warning if the scale
    is an end of the search.
    """
    families = searched_families(options)
    if len(families) == 1 and options.scale is not None:
        exact = options.gamma == "exact"
        gamma = (
            retention(rows, families[0], [options.scale], context)[counted, 0]
            if exact
            else base.gamma
        )
        return families[0], options.scale, gamma, {}, []
    criterion = one_bin_sd
    best_of = max
    if options.select == "cv-nll":
        fold = two_folds(rows.take(counted), base.hit, context.seed)
        criterion = partial(cross_validated_nll, fold, options)
        best_of = min
    found = {}
    reached = dict[str, float]()
    for family in families:
        scales = grid(options, gaps, family)
        gammas = retention(rows, family, scales, context)[counted]
        values = [criterion(base._replace(gamma=gamma)) for gamma in gammas.T]
        reached[family] = best_of(values)
        best = values.index(reached[family])
        details = {"scales": scales, "select": options.select, "criterion": values}
        warnings = []
        if len(scales) > 1 and np.ptp(values) > 0 and best in (0, len(scales) - 1):
            warnings.append(
                f"the best scale {scales[best]:.4g} is the"
                f" {'largest' if best else 'smallest'} of those searched; set scale="
                " or scales= to look beyond"
            )
        found[family] = family, scales[best], gammas[:, best], details, warnings
    choice = found[best_of(reached, key=reached.__getitem__)]
    if len(found) > 1:
        choice[3]["families"] = reached
    return choice


def one_bin_sd(evidence: Evidence) -> float:
    """Standard deviation of the confidence when there is one bin, \\|alpha - beta\\|
    sd(gamma).
    """
    alpha, beta = fit_lines(evidence, np.zeros(len(evidence.gamma), dtype=np.int64), 1)
    return abs(float(alpha[0]) - float(beta[0])) * evidence.spread


def two_folds(rows: Rows, hit: FloatArray, seed: int) -> IntArray:
    """Random half (0 or 1) of every row, stratified by right and wrong, or of whole
    units.
    """
    if rows.units() is not None:
        return content_folds(rows, 2, seed)
    return stratified_folds(rows, hit.astype(np.int64), 2, seed)


def cross_validated_nll(fold: IntArray, options: Any, evidence: Evidence) -> float:
    """Mean NLL of right/wrong, of each half under the design fitted to the other.

    The rest of a row's vector keeps its proportions, so the NLL of the label differs
    from this by a number that does not depend on the scale.
    """
    total = 0.0
    for held in (0, 1) if np.ptp(fold) else ():
        new, past = (
            Evidence(*(column[some] for column in evidence))
            for some in (fold == held, fold != held)
        )
        if options.init == "accuracy":
            accuracy = past.accuracy
            new, past = (
                half._replace(start=np.full(len(half.hit), accuracy))
                for half in (new, past)
            )
        found = design(past, options.bins, options.rounds)
        q = replay(new.start, new.gamma, found.alpha, found.beta)
        p_outcome = np.where(new.hit > 0, q, 1.0 - q)
        total -= float(new.weight @ np.log(np.maximum(p_outcome, SURE_MISS)))
    return total / float(evidence.weight.sum())


# ---- numbers of every row that one walk collects


def _terms(temperature: float, block: Block) -> FloatArray:
    """Numbers of every row for the fit (beside retention) and for the summary of its
    result, (6, b).

    Log-odds of the prediction; 1.0 if it is right, else 0.0; log-odds after temperature
    scaling; gap between the two largest logits; and of the softmax over the classes
    other than the prediction: logarithm at the label (-inf if that is the prediction),
    and sum of squares.
    """
    here = np.arange(len(block))
    z = block.z
    label = block.prediction
    rest = np.array(z)
    rest[here, label] = -np.inf
    own = z[here, label]
    next_one = rest.max(axis=1)
    gap = own - next_one
    if (gap < 0).any():  # a prediction from upstream that is not the largest
        gap = gaps_to_top(z)[0].min(axis=1)
    s_tempered = own / temperature - log_normalizer(rest / temperature)
    rest -= next_one[:, None]
    to_label = rest[here, block.labels]
    np.exp(rest, out=rest)
    norm = rest.sum(axis=1)
    s = own - (np.log(norm) + next_one)
    log_share = to_label - np.log(norm)
    if block.kind == "probs":
        s = top_log_odds(z, label, block.stored_zeros)
    collision = np.einsum("ij,ij->i", rest, rest) / norm**2
    return np.stack([s, label == block.labels, s_tempered, gap, log_share, collision])


def summary_of(rows: Rows, q: FloatArray, *terms: FloatArray) -> Summary:
    """Summary of the rows if the prediction has probability q (n,) and the others share
    the rest.

    terms : second entry and last two entries of ``_terms``. The ``entropy_gap`` is NaN.
    Sums in the order of a walk over the rows, without one.
    """
    nothing = np.broadcast_to(np.float64(0.0), (rows.n, rows.k))
    return ArrayRows(nothing, rows.labels(), weight=rows.weights()).sum(
        _summary, q, *terms
    )


def _summary(
    block: Block,
    q: FloatArray,
    hit: FloatArray,
    log_share: FloatArray,
    collision: FloatArray,
) -> Summary:
    log_p = np.where(hit > 0, floored_log(q), floored_log(1.0 - q) + log_share)
    brier = q**2 + (1.0 - q) ** 2 * collision - 2.0 * np.exp(log_p) + 1.0
    nll = np.maximum(-log_p, 0.0)
    losses = nll, np.maximum(brier, 0.0), np.full(len(q), np.nan)
    return Summary.of(
        q,
        hit,
        losses,
        block.labels,
        block.scores.shape[1],
        block.weight,
        zeros=int(np.count_nonzero(log_p <= LOG_ZERO)),
    )


NOISE = Meta(
    description=(
        "family of the noise, drawn independently for every class; auto searches"
        " several together, transforms asks instead how often the prediction survives"
        " the bundle's transforms of the input"
    )
)
SCALE = Meta(
    description=(
        "standard deviation (gaussian), width (uniform) or scale (gumbel) of the"
        " noise, in units of the logits; searched when absent"
    )
)
GRID = Meta(
    description=(
        "scales to search: thirteen around the median gap of the two largest logits"
        " (relative), or 1, 2, ... 20 (40 for uniform noise), as printed"
    )
)
POOL = Meta(
    description=(
        "transforms of noise=transforms and of mix: all, or names and specs with"
        " commas (zoom,brightness:0.35)"
    )
)
SHARE = (
    "share of the bundle's transforms in the retention probability, the rest is the"
    " noise's"
)
MIX = (
    f"{SHARE} (0.5: the mixture of the paper's outlook); its transforms are then"
    " needed for new rows"
)
SELECT = Meta(
    description=(
        "how a scale is chosen: sd (the paper's largest standard deviation of the"
        " one-bin confidence), cv-nll (least NLL of right/wrong in a two-fold"
        " cross-validation)"
    )
)
GAMMA = Meta(
    description=(
        "retention probability: exact (an integral), mc (shared draws, as in the paper)"
    )
)
START = Meta(
    description=(
        "where the rounds start: one bin at the accuracy, or the uncalibrated"
        " confidence"
    )
)


class HokiOptions(Options, frozen=True):
    noise: Annotated[
        Literal["gaussian", "uniform", "gumbel", "auto", "transforms"], NOISE
    ] = "gaussian"
    families: Annotated[
        str,
        Meta(
            description=(
                "families that noise=auto searches, with commas (the paper has"
                " gaussian,uniform)"
            )
        ),
    ] = ",".join(FAMILIES)
    scale: Annotated[Annotated[float, Meta(ge=1e-9, le=1e9)] | None, SCALE] = None
    scales: Annotated[
        str,
        Meta(
            description=(
                "scales to search, with commas (1,2,4); instead of the grid when given"
            )
        ),
    ] = ""
    grid: Annotated[Literal["relative", "printed"], GRID] = "relative"
    pool: Annotated[str, POOL] = "all"
    mix: Annotated[float, Meta(ge=0.0, le=1.0, description=MIX)] = 0.0
    select: Annotated[Literal["sd", "cv-nll"], SELECT] = "sd"
    gamma: Annotated[Literal["exact", "mc"], GAMMA] = "exact"
    samples: Annotated[
        int,
        Meta(
            ge=1, le=1_000_000, description="draws of gamma=mc, the same for all rows"
        ),
    ] = 1000
    bins: Annotated[
        int, Meta(ge=1, le=10_000, description="equal-width bins of the confidence")
    ] = 15
    rounds: Annotated[
        int,
        Meta(ge=1, le=10_000, description="most rounds until the bins have to stay"),
    ] = 50
    init: Annotated[Literal["accuracy", "confidence"], START] = "accuracy"
    mean: Annotated[
        float | None,
        Meta(
            description=(
                "mean of the noise: accepted, without effect (argmax ignores it)"
            )
        ),
    ] = None


@dataclass(frozen=True)
class Hoki(Calibrator):
    """Calibrate the confidence by how often the prediction survives noise on the
    logits.

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
        of_blocks = list(rows.each(partial(_terms, ts.calibrator.temperature)))
        s, right, s_tempered, gap, *shares = np.concatenate(of_blocks, axis=1)
        p = sigmoid(s[counted])
        hit = right[counted]
        mass = np.ones(len(counted)) if weight is None else weight[counted]
        accuracy = float(mass @ hit / mass.sum())
        start = p if options.init == "confidence" else np.full(len(counted), accuracy)
        base = Evidence(np.empty(len(counted)), hit, mass, start)

        alone = options.noise == "transforms"
        transforms = list[int]()
        if alone or options.mix:
            how = "noise=transforms" if alone else f"mix={options.mix:g}"
            transforms = choose_pool(rows.transforms, options.pool, f"hoki with {how}")
            work = partial(agreement, transforms=len(transforms))
            kept = np.concatenate(list(rows.each(work, transforms=transforms)))[counted]
        if alone:
            noise = "transforms"
            scale = 1.0
            gamma = kept
            details = dict[str, Any]()
            at_end = list[str]()
        else:
            noise, scale, gamma, details, at_end = choose_noise(
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
        evidence = base._replace(gamma=gamma)
        found, status, told = rounds(evidence, options)
        details |= report(found, evidence, p, options.bins)
        details["ts_brier_top"] = float(
            np.average((sigmoid(s_tempered[counted]) - hit) ** 2, weights=mass)
        )
        warnings += [*at_end, *told, *judge(details)]
        pool = (
            np.asarray([rows.transforms[m] for m in transforms]) if transforms else None
        )
        fitted = cls(
            noise,
            scale,
            options.init,
            accuracy,
            *found[:2],
            samples,
            context.seed,
            draws_sha256,
        )
        fitted = replace(fitted, transforms=pool, mix=mix)
        status = "at_bound" if status == "ok" and at_end else status
        after = (
            partial(summary_of, rows, found.confidence, right, *shares)
            if len(counted) == rows.n
            else None
        )
        return Fit(fitted, status, tuple(warnings), details, after=after)

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
        start = (
            np.full(len(z), self.accuracy)
            if self.init == "accuracy"
            else sigmoid(top_log_odds(z, label, block.stored_zeros))
        )
        return Prediction(
            share_rest(z, label, *logs(replay(start, gamma, self.alpha, self.beta))),
            label,
            floored=True,
        )

    @property
    def required_transforms(self) -> Sequence[str]:
        return () if self.transforms is None else tuple(map(str, self.transforms))

    def check_own(self, k: int) -> None:
        uses = (self.noise == "transforms") + (self.mix > 0)
        if uses != (self.transforms is not None) or (
            self.transforms is not None and not len(self.transforms)
        ):
            found = "null" if self.transforms is None else len(self.transforms)
            needed = (
                "some beside noise 'transforms' or a mix above 0, which exclude each"
                " other"
            )
            raise DataError(
                f"noise is {self.noise!r}, mix {self.mix:g} and transforms are"
                f" {found}, expected {needed}"
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
    """Draws of an artifact, made again. Raises DataError if their SHA-256 is not the
    recorded one.
    """
    races, found = drawn(noise, samples, k, seed)
    if found != expected:
        raise DataError(
            f"the {samples} x {k} draws of {noise} noise with seed {seed} do not have"
            " the recorded SHA-256: the artifact was edited, or belongs to another"
            " number of classes; fit it again"
        )
    return races


# ---- status, warnings and details of the rounds


NO_SPREAD = (
    "noise of this scale tells no row from another (their retention probabilities"
    " agree): every row gets the accuracy as its confidence; another scale, or ts,"
    " would serve better"
)


def rounds(
    evidence: Evidence, options: HokiOptions
) -> tuple[Design, Status, list[str]]:
    """Fit the design; returns it with a status and warnings."""
    accuracy = evidence.accuracy
    n = len(evidence.hit)
    if evidence.spread < SAME_EVERYWHERE:
        lines = np.full((1, options.bins), accuracy)
        return Design(lines, lines, np.full(n, accuracy), 1), "degenerate", [NO_SPREAD]
    found = design(evidence, options.bins, options.rounds)
    told = []
    status: Status = "ok" if found.period == 1 else "not_converged"
    if accuracy in (0.0, 1.0):
        status = "degenerate" if found.period == 1 else status
        told.append(
            f"every prediction on these rows is {'right' if accuracy else 'wrong'}: no"
            f" line can be learnt, and every confidence becomes {accuracy:g}"
        )
    if not found.period:
        told.append(
            f"the bins still changed after {options.rounds} rounds; more rounds may"
            " settle them"
        )
    elif found.period > 1:
        told.append(
            f"the bins come back every {found.period} rounds and never settle;"
            " the round with the least calibration error was kept"
        )
    if n < 50 * options.bins:
        told.append(
            f"{n} rows for {options.bins} bins are few per bin; fewer bins or ts would"
            " serve better"
        )
    return found, status, told


def report(
    found: Design, evidence: Evidence, uncalibrated: FloatArray, bins: int
) -> dict[str, Any]:
    """Details of the design, with metrics other than the one it was tuned to."""
    share = evidence.share

    def scores(q: FloatArray) -> dict[str, float]:
        stats = BinStats.of(
            q, evidence.hit, mass_edges(q, 15, evidence.weight), evidence.weight
        )
        ece = float(stats.share @ np.abs(stats.gaps))
        return {"ece_mass": ece, "brier_top": float(share @ (q - evidence.hit) ** 2)}

    rounds = {
        "rounds": len(found.alpha),
        "ended": ("limit", "fixed", "cycle")[min(found.period, 2)],
    }
    used = int((~np.isnan(found.alpha[-1])).sum()) if len(found.alpha) > 1 else 1
    mean = np.average(evidence.gamma, weights=evidence.weight)
    error = width_error(found.confidence, evidence, bins)
    retention = {
        "retention_mean": float(mean),
        "retention_sd": evidence.spread,
        "ece_width": error,
    }
    judged = {
        "calibrated": scores(found.confidence),
        "uncalibrated": scores(uncalibrated),
    }
    return {
        **rounds,
        "period": found.period if found.period > 1 else 0,
        "bins_used": used,
        **retention,
        **judged,
    }


def judge(details: dict[str, Any]) -> Iterator[str]:
    """Warnings: ts is better (if it is), and the width-bin ECE on the calibration data
    is no evidence.
    """
    after = details["calibrated"]
    before = details["uncalibrated"]
    theirs = details["ts_brier_top"]
    if after["brier_top"] > theirs:
        yield (
            f"top-label Brier {after['brier_top']:.4f} on these rows, temperature"
            f" scaling {theirs:.4f}: the criterion looks for spread, not for skill; ts"
            " would serve better"
        )
    yield (
        f"equal-width ECE on these very rows is {details['ece_width']:.1g} because the"
        " rounds drive it to 0 by construction, which proves nothing; mass-bin ECE"
        f" {before['ece_mass']:.4f} -> {after['ece_mass']:.4f}, top-label Brier"
        f" {before['brier_top']:.4f} -> {after['brier_top']:.4f}: judge on other rows,"
        " beside ts"
    )
