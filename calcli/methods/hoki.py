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
    BoolArray,
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
    chosen = []
    for m, spec in enumerate(transforms):
        family = spec.partition(":")[0]
        if spec in wanted or family in wanted:
            chosen.append(m)
    return chosen


# ---- the rounds: lines in the retention probability, one per bin of confidence


# Confidences at most this far above an edge lie on it. Bins with equal retention get
# their accuracy, a ratio of whole numbers that is often an edge, up to its last bit.
SLACK = 1e-12
# least probability of an outcome as scales are compared, so that one row does not
# decide
SURE_MISS = 1e-12
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

    def part(self, some: BoolArray) -> "Evidence":
        """Take some of the rows."""
        return Evidence(
            gamma=self.gamma[some],
            hit=self.hit[some],
            weight=self.weight[some],
            start=self.start[some],
        )

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
    """Fit by repeated rounds.

    Bin the confidences, fit a line in every bin, take its values as confidences. The
    lines of a round depend on the partition alone, so the rounds have ended as soon as
    a partition comes back. (Algorithm 1; its empty bins, 0/0 there, become NaN.)
    """
    confidence = evidence.start
    first_rounds: dict[bytes, int] = {}  # of every partition, by its SHA-256
    lines: list[FloatArray] = []
    errors: list[float] = []
    for k in range(limit + 1):
        index = bin_of(confidence, bins)
        partition = sha256(index.tobytes()).digest()
        first = first_rounds.setdefault(partition, k)
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
    # Keep all rounds; of a cycle, those up to its round with the least error.
    n_rounds = k
    if first < k:
        n_rounds = first + 1 + int(np.argmin(errors[first:]))
    alpha, beta = np.stack(lines[:n_rounds], axis=1)
    if n_rounds < k:
        confidence = replay(evidence.start, evidence.gamma, alpha, beta)
    return Design(alpha, beta, confidence, k - first)


def replay(
    start: FloatArray, gamma: FloatArray, alpha: FloatArray, beta: FloatArray
) -> FloatArray:
    """Compute confidences after all rounds. (Algorithm 2)

    Bins that were empty in the fit leave them unchanged.
    """
    confidence = start
    for a, b in zip(alpha, beta, strict=True):
        confidence = follow(confidence, gamma, a, b)
    return confidence


def follow(
    confidence: FloatArray, gamma: FloatArray, alpha: FloatArray, beta: FloatArray
) -> FloatArray:
    """Compute confidences after one round.

    They are beta + (alpha - beta) gamma with the line of each row's bin.
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
        sums = np.bincount(index, weights=evidence.weight * values, minlength=bins)
        return sums.astype(np.float64, copy=False)

    # of every row the whole, the share that is retained, and the share that is lost
    shares = [np.ones_like(evidence.gamma), evidence.gamma, 1.0 - evidence.gamma]
    totals = np.array([total(share) for share in shares])
    right = np.array([total(evidence.hit * share) for share in shares])
    rates = np.divide(right, totals, out=np.full(right.shape, np.nan), where=totals > 0)
    accuracy, *lines = np.minimum(rates, 1.0)
    has_both = totals[1:].min(axis=0) > ALL_ALIKE * totals[0]
    return np.where(has_both, lines, accuracy)


def bin_of(confidence: FloatArray, bins: int) -> IntArray:
    """Equal-width bin of every confidence."""
    return np.asarray(bin_index(confidence - SLACK, width_edges(bins)))


def width_error(confidence: FloatArray, evidence: Evidence, bins: int) -> float:
    """Expected calibration error over the equal-width bins."""
    surplus = evidence.weight * (confidence - evidence.hit)
    gaps = np.bincount(bin_of(confidence, bins), weights=surplus)
    return float(np.abs(gaps).sum() / evidence.weight.sum())


# ---- retention: how often predictions survive noise or transforms, and the choice of
# noise and scale


FAMILIES = ("gaussian", "uniform", "gumbel")
PRINTED = {"gaussian": 20, "uniform": 40, "gumbel": 20}
"""Largest scale of the paper's grids of whole numbers (it has no Gumbel noise)."""


def retention(
    rows: Rows, noise: str, scales: list[float], context: Context, draws: Any = None
) -> FloatArray:
    """Retention probability of every row at every scale, (n, scales)."""

    def report(done: int) -> None:
        context.progress("retention probabilities", done, rows.n)

    rates = kernels(context).retention_rates(rows, noise, scales, draws, report)
    return np.asarray(rates)


def agreement(block: Block, transforms: int) -> FloatArray:
    """Compute the share of transforms that keep each row's prediction, (b,).

    The largest logit stays the largest.
    """
    top = block.z.argmax(axis=1)
    kept = np.zeros(len(block))
    for m in range(transforms):
        kept += block.transformed_z(m).argmax(axis=1) == top
    return np.asarray(kept / transforms)


def listed_scales(text: str) -> list[float]:
    """Scales written with commas, ascending. Raises UsageError for anything else."""
    try:
        scales = sorted({float(part) for part in text.split(",") if part.strip()})
    except ValueError:
        scales = [np.nan]
    if not all(1e-9 <= scale <= 1e9 for scale in scales):
        raise UsageError(
            f"option scales={text!r}: expected numbers from 1e-9 to 1e+09 with commas,"
            " e.g. scales=1,2,4"
        )
    return scales


def searched_families(options: Any) -> tuple[str, ...]:
    """List the families to search, in the order of FAMILIES.

    Raises UsageError for an unknown name.
    """
    if options.noise != "auto":
        return (options.noise,)
    names = {part.strip() for part in options.families.split(",")}
    if not names <= set(FAMILIES):
        raise UsageError(
            f"option families={options.families!r}: expected some of"
            f" {','.join(FAMILIES)}, with commas"
        )
    return tuple(family for family in FAMILIES if family in names)


def grid(options: Any, gaps: FloatArray, family: str) -> list[float]:
    """List the scales to search in a family, ascending.

    gaps : (n,) between the two largest logits.
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
    """Choose the family and scale with the best criterion.

    Ties go to the first family, then to the least scale. Returns these, the retention
    probabilities (n,), details, and a warning if the scale is an end of the search.
    """
    families = searched_families(options)
    if len(families) == 1 and options.scale is not None:
        gamma = base.gamma
        if options.gamma == "exact":
            gamma = retention(rows, families[0], [options.scale], context)[counted, 0]
        return families[0], options.scale, gamma, {}, []
    criterion = one_bin_sd
    best_of = max
    if options.select == "cv-nll":
        fold = two_folds(rows.take(counted), base.hit, context.seed)
        criterion = partial(cross_validated_nll, fold, options)
        best_of = min
    choices = {}
    best_values = dict[str, float]()
    for family in families:
        scales = grid(options, gaps, family)
        gammas = retention(rows, family, scales, context)[counted]
        values = [criterion(base._replace(gamma=gamma)) for gamma in gammas.T]
        best_values[family] = best_of(values)
        best = values.index(best_values[family])
        details = {"scales": scales, "select": options.select, "criterion": values}
        warnings = []
        is_at_end = best in (0, len(scales) - 1)
        if len(scales) > 1 and np.ptp(values) > 0 and is_at_end:
            end = "largest" if best else "smallest"
            warnings.append(
                f"the best scale {scales[best]:.4g} is the {end} of those searched;"
                " set scale= or scales= to look beyond"
            )
        choices[family] = (family, scales[best], gammas[:, best], details, warnings)
    best_family = best_of(best_values, key=best_values.__getitem__)
    choice = choices[best_family]
    if len(choices) > 1:
        choice[3]["families"] = best_values
    return choice


def one_bin_sd(evidence: Evidence) -> float:
    """Standard deviation of the confidence when there is one bin, \\|alpha - beta\\|
    sd(gamma).
    """
    alpha, beta = fit_lines(evidence, np.zeros(len(evidence.gamma), dtype=np.int64), 1)
    return abs(float(alpha[0]) - float(beta[0])) * evidence.spread


def two_folds(rows: Rows, hit: FloatArray, seed: int) -> IntArray:
    """Draw a random half (0 or 1) for every row, or for whole units.

    Rows are stratified by right and wrong.
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
    halves = (0, 1) if np.ptp(fold) else ()
    for half in halves:
        test = evidence.part(fold == half)
        train = evidence.part(fold != half)
        if options.init == "accuracy":
            accuracy = train.accuracy
            test = test._replace(start=np.full(len(test.hit), accuracy))
            train = train._replace(start=np.full(len(train.hit), accuracy))
        fitted = design(train, options.bins, options.rounds)
        q = replay(test.start, test.gamma, fitted.alpha, fitted.beta)
        p_outcome = np.where(test.hit > 0, q, 1.0 - q)
        total -= float(test.weight @ np.log(np.maximum(p_outcome, SURE_MISS)))
    return total / float(evidence.weight.sum())


# ---- numbers of every row that one walk collects


def _terms(temperature: float, block: Block) -> FloatArray:
    """Compute numbers of every row, (6, b).

    They serve the fit (beside retention) and the summary of its result. Log-odds of the
    prediction; 1.0 if it is right, else 0.0; log-odds after temperature scaling; gap
    between the two largest logits; and of the softmax over the classes other than the
    prediction: logarithm at the label (-inf if that is the prediction), and sum of
    squares.
    """
    here = np.arange(len(block))
    z = block.z
    label = block.prediction
    rest = np.array(z)
    rest[here, label] = -np.inf
    predicted = z[here, label]
    next_one = rest.max(axis=1)
    gap = predicted - next_one
    if (gap < 0).any():  # a prediction from upstream that is not the largest
        gap = gaps_to_top(z)[0].min(axis=1)
    s_tempered = predicted / temperature - log_normalizer(rest / temperature)
    rest -= next_one[:, None]
    to_label = rest[here, block.labels]
    np.exp(rest, out=rest)
    norm = rest.sum(axis=1)
    s = predicted - (np.log(norm) + next_one)
    log_share = to_label - np.log(norm)
    if block.kind == "probs":
        s = top_log_odds(z, label, block.stored_zeros)
    collision = np.einsum("ij,ij->i", rest, rest) / norm**2
    return np.stack([s, label == block.labels, s_tempered, gap, log_share, collision])


def summary_of(rows: Rows, q: FloatArray, *terms: FloatArray) -> Summary:
    """Summarise the rows if the prediction has probability q (n,).

    The others share the rest. terms : second entry and last two entries of ``_terms``.
    The ``entropy_gap`` is NaN. Sums in the order of a walk over the rows, without one.
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
        parts = list(rows.each(partial(_terms, ts.calibrator.temperature)))
        s, right, s_tempered, gap, *shares = np.concatenate(parts, axis=1)
        p = sigmoid(s[counted])
        hit = right[counted]
        mass = np.ones(len(counted)) if weight is None else weight[counted]
        accuracy = float(mass @ hit / mass.sum())
        start = p if options.init == "confidence" else np.full(len(counted), accuracy)
        base = Evidence(np.empty(len(counted)), hit, mass, start)

        # How often predictions survive the bundle's transforms, where that is asked.
        alone = options.noise == "transforms"
        transforms = list[int]()
        if alone or options.mix:
            how = "noise=transforms" if alone else f"mix={options.mix:g}"
            transforms = choose_pool(rows.transforms, options.pool, f"hoki with {how}")
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
            needed = (
                "some beside noise 'transforms' or a mix above 0, which exclude each"
                " other"
            )
            raise DataError(
                f"noise is {self.noise!r}, mix {self.mix:g} and transforms are"
                f" {count}, expected {needed}"
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
    fitted = design(evidence, options.bins, options.rounds)
    warnings = []
    status: Status = "ok" if fitted.period == 1 else "not_converged"
    if accuracy in (0.0, 1.0):
        if fitted.period == 1:
            status = "degenerate"
        warnings.append(
            f"every prediction on these rows is {'right' if accuracy else 'wrong'}: no"
            f" line can be learnt, and every confidence becomes {accuracy:g}"
        )
    if not fitted.period:
        warnings.append(
            f"the bins still changed after {options.rounds} rounds; more rounds may"
            " settle them"
        )
    elif fitted.period > 1:
        warnings.append(
            f"the bins come back every {fitted.period} rounds and never settle;"
            " the round with the least calibration error was kept"
        )
    if n < 50 * options.bins:
        warnings.append(
            f"{n} rows for {options.bins} bins are few per bin; fewer bins or ts would"
            " serve better"
        )
    return fitted, status, warnings


def report(
    fitted: Design, evidence: Evidence, uncalibrated: FloatArray, bins: int
) -> dict[str, Any]:
    """Details of the design, with metrics other than the one it was tuned to."""
    share = evidence.share

    def scores(q: FloatArray) -> dict[str, float]:
        edges = mass_edges(q, 15, evidence.weight)
        stats = BinStats.of(q, evidence.hit, edges, evidence.weight)
        ece = float(stats.share @ np.abs(stats.gaps))
        return {"ece_mass": ece, "brier_top": float(share @ (q - evidence.hit) ** 2)}

    bins_used = 1
    if len(fitted.alpha) > 1:
        bins_used = int((~np.isnan(fitted.alpha[-1])).sum())
    retention_mean = float(np.average(evidence.gamma, weights=evidence.weight))
    return {
        "rounds": len(fitted.alpha),
        "ended": ("limit", "fixed", "cycle")[min(fitted.period, 2)],
        "period": fitted.period if fitted.period > 1 else 0,
        "bins_used": bins_used,
        "retention_mean": retention_mean,
        "retention_sd": evidence.spread,
        "ece_width": width_error(fitted.confidence, evidence, bins),
        "calibrated": scores(fitted.confidence),
        "uncalibrated": scores(uncalibrated),
    }


def judge(details: dict[str, Any]) -> Iterator[str]:
    """Yield warnings of what the result is worth.

    ts is better (if it is), and the width-bin ECE on the calibration data is no
    evidence.
    """
    after = details["calibrated"]
    before = details["uncalibrated"]
    ts_brier = details["ts_brier_top"]
    if after["brier_top"] > ts_brier:
        yield (
            f"top-label Brier {after['brier_top']:.4f} on these rows, temperature"
            f" scaling {ts_brier:.4f}: the criterion looks for spread, not for skill; ts"
            " would serve better"
        )
    yield (
        f"equal-width ECE on these very rows is {details['ece_width']:.1g} because the"
        " rounds drive it to 0 by construction, which proves nothing; mass-bin ECE"
        f" {before['ece_mass']:.4f} -> {after['ece_mass']:.4f}, top-label Brier"
        f" {before['brier_top']:.4f} -> {after['brier_top']:.4f}: judge on other rows,"
        " beside ts"
    )
