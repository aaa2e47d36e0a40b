"""Null distributions of estimators under perfect calibration, by consistency
resampling.

Outcomes are drawn from the scores themselves, y_i ~ Bernoulli(c_i), and the same
estimator is applied. For binned estimators only the number of successes per bin
matters. Its law (Poisson-binomial) is computed and drawn from directly: a thousand
resamples cost less than one more reading of the file.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from calcli.binning import bin_index
from calcli.numerics import FloatArray, ratio

EXACT_ROWS = 1 << 14  # rows of a bin up to which the law of its successes is exact

GROUPS = 64
"""Larger bins are cut into this many groups of like scores, each drawn as a binomial.

The mean is exact; the variance is too large by at most sum (c - group mean)^2, below
1e-4 of itself for a bin of width 1/15 that is evenly filled."""

LEAF = 32  # trials of a group, which are convolved one at a time
DRAW_ITEMS = 1 << 20  # outcomes drawn at once


@dataclass(frozen=True)
class Null:
    """Null distribution of a statistic under calibration.

    mean, q95 : its mean and 95th percentile. p_value : chance of a value at least as
    large as the observed one. method : of the draws for rows in units, else None.
    above : chance of a value larger than a number.
    """

    mean: float
    q95: float
    p_value: float
    resamples: int
    method: str | None = None
    above: Callable[[float], float] | None = field(
        default=None, compare=False, repr=False
    )


SAME = 1e-6
"""Relative difference up to which two statistics are equal.

Also the relative spread up to which there is none. What is left is rounding, of a sum
of squares that cancel or of a root that is found by iteration.
"""

ROUNDING = 1e-12
"""Absolute difference up to which two statistics of probabilities are equal.

With certain scores all is rounding.
"""


def reaching(draws: FloatArray, observed: float) -> int:
    """Count the draws (r,) at least as large as the observed value.

    Those equal to it up to rounding count.
    """
    rounding = max(SAME * abs(observed), ROUNDING)
    return int(np.count_nonzero(draws >= observed - rounding))


def share_above(draws: FloatArray, limit: float) -> float:
    """Compute the share of draws (r,) above a limit by more than rounding."""
    return float(np.count_nonzero(draws > limit + SAME * abs(limit))) / len(draws)


def standardised(values: FloatArray, draws: FloatArray) -> FloatArray:
    """Express values in standard deviations of the draws above their mean.

    Where the draws do not spread the result is 0 or infinite.
    """
    centre = float(draws.mean())
    spread = float(draws.std())
    gap = values - centre
    if spread > SAME * abs(centre):
        return gap / spread
    return np.where(np.abs(gap) <= SAME * abs(centre), 0.0, np.copysign(np.inf, gap))


def null_of(observed: float, draws: FloatArray, mean: float | None = None) -> Null:
    """Summarise draws (r,) under calibration.

    ``mean`` replaces their mean where it is known. The p-value counts the observation
    among the draws, so it is never 0 and its level is exact. A draw that equals the
    observation up to rounding counts as reaching it.
    """
    if mean is None:
        mean = float(draws.mean())
    return Null(
        mean=mean,
        q95=float(np.quantile(draws, 0.95)),
        p_value=(1 + reaching(draws, observed)) / (1 + len(draws)),
        resamples=len(draws),
        above=partial(share_above, draws),
    )


def poisson_binomial(p: FloatArray) -> FloatArray:
    """Compute the law of the number of successes X of independent trials.

    p : (…, n) chances. Returns P(X = 0..n), (…, n + 1) float64. Rounding is about 1e-16
    in absolute terms.
    """
    *shape, n = p.shape
    # Deal the trials to groups; trials that are made up have a chance of 0.
    groups = 1 << max(0, int(np.ceil(np.log2(max(n, 1) / LEAF))))
    n_trials = groups * LEAF if groups > 1 else n
    trials = np.zeros((*shape, n_trials))
    trials[..., :n] = p
    trials = trials.reshape(*shape, n_trials // groups, groups)
    trials = np.moveaxis(trials, -2, 0)
    # Convolve each group one trial at a time.
    group_law = np.zeros((len(trials) + 1, *trials.shape[1:]))
    group_law[0] = 1.0
    for j, chances in enumerate(trials):
        success = group_law[: j + 1] * chances
        group_law[: j + 1] -= success
        group_law[1 : j + 2] += success
    law = np.ascontiguousarray(np.moveaxis(group_law, 0, -1))
    # Convolve the groups pairwise by FFT.
    while law.shape[-2] > 1:
        size = 2 * law.shape[-1] - 1
        length = 1 << int(np.ceil(np.log2(size)))
        spectrum = np.fft.rfft(law, length)
        product = spectrum[..., ::2, :] * spectrum[..., 1::2, :]
        law = np.fft.irfft(product, length)[..., :size]
    whole = np.maximum(law[..., 0, : n + 1], 0.0)  # without the rounding of FFT
    return whole / whole.sum(axis=-1, keepdims=True)


def expected_of_bin(c: FloatArray, law: FloatArray) -> FloatArray:
    """Compute E|X - sum c| of the successes X of trials by their exact law.

    c : (…, n) chances.
    """
    error = np.abs(np.arange(law.shape[-1]) - c.sum(axis=-1, keepdims=True))
    return (law[..., None, :] @ error[..., None])[..., 0, 0]


Laws = Sequence[tuple[FloatArray, FloatArray | None, float]]
"""For every bin: its scores, the law of its successes X, and E|X - sum c|.

The law is P(X <= 0..n); None where the bin has no rows or more than are convolved.
There E|X - sum c| is by the normal law.
"""


def bin_laws(parts: Sequence[tuple[FloatArray, FloatArray]]) -> list[Laws]:
    """Compute the laws of the successes per bin under calibration, without weights.

    parts : scores (n,) and edges of each part. Bins with equally many rows are computed
    together, whatever their part.
    """
    # Number the bins of all parts in one sequence, and sort the scores by bin.
    ends = [0]
    indices = []
    for scores, edges in parts:
        indices.append(bin_index(scores, edges) + ends[-1])
        ends.append(ends[-1] + len(edges) - 1)
    index = np.concatenate(indices)
    order = np.argsort(index, kind="stable")
    ordered = np.concatenate([scores for scores, _ in parts])[order]
    stops = np.cumsum(np.bincount(index, minlength=ends[-1])).tolist()
    bin_scores = [ordered[start:stop] for start, stop in pairwise([0, *stops])]
    # Begin with the normal law for all, and replace it where the exact one is computed.
    laws: list[tuple[FloatArray, FloatArray | None, float]] = []
    for c in bin_scores:
        laws.append((c, None, float(np.sqrt(2.0 * (c @ (1.0 - c)) / np.pi))))
    size = np.array(list(map(len, bin_scores)))
    for n in np.unique(size[(size > 0) & (size <= EXACT_ROWS)]).tolist():
        bins = np.flatnonzero(size == n).tolist()
        stacked = np.stack([bin_scores[b] for b in bins])
        law = poisson_binomial(stacked)
        at_most = np.cumsum(law, axis=1)
        expected = expected_of_bin(stacked, law).tolist()
        for row, b in enumerate(bins):
            laws[b] = (bin_scores[b], at_most[row], expected[row])
    return [laws[start:stop] for start, stop in pairwise(ends)]


def _successes_of_one_bin(
    c: FloatArray, at_most: FloatArray | None, resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Draw the number of successes of trials with chances c (n,), (resamples,).

    at_most : P(X <= 0..n), or None where groups of like scores are drawn instead.
    """
    if at_most is not None:
        uniform = rng.random(resamples) * at_most[-1]
        return np.searchsorted(at_most, uniform, side="right").astype(np.float64)
    parts = np.array_split(np.sort(c), GROUPS)
    size = np.array(list(map(len, parts)))
    mean = np.clip([part.mean() for part in parts], 0.0, 1.0)
    successes = rng.binomial(size, mean, size=(resamples, GROUPS))
    return successes.sum(axis=1).astype(np.float64)


def bin_outcomes(
    scores: FloatArray,
    edges: FloatArray,
    resamples: int,
    rng: np.random.Generator,
    weight: FloatArray | None = None,
    laws: Laws | None = None,
) -> FloatArray:
    """Draw sums of outcomes per bin under calibration, (resamples, bins) float64.

    They are weighted where weights are given. laws : of the bins (see ``bin_laws``),
    where they are known.
    """
    sums = np.zeros((resamples, len(edges) - 1))
    if weight is None:
        laws = laws or bin_laws([(scores, edges)])[0]
        for b, (c, at_most, _) in enumerate(laws):
            if len(c):
                sums[:, b] = _successes_of_one_bin(c, at_most, resamples, rng)
        return sums
    index = bin_index(scores, edges)
    order = np.lexsort((weight, scores, index))  # whatever their order in the file
    stops = np.cumsum(np.bincount(index, minlength=len(edges) - 1))
    starts = np.concatenate([[0], stops[:-1]])
    occupied = np.flatnonzero(stops > starts)
    w = weight[order]
    for rows, drawn in outcome_draws(scores[order], resamples, rng):
        by_bin = np.add.reduceat(drawn * w, starts[occupied], axis=1)
        sums[rows, occupied] = by_bin
    return sums


def outcome_draws(
    scores: FloatArray, resamples: int, rng: np.random.Generator
) -> Iterator[tuple[slice, "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"]]:
    """Draw outcomes y ~ Bernoulli(score), some resamples at a time.

    Yields the slice of the resamples and their outcomes (m, n) bool.
    """
    c = scores.astype(np.float32)
    step = max(1, DRAW_ITEMS // max(len(c), 1))
    for start in range(0, resamples, step):
        m = min(step, resamples - start)
        # float32 uniforms are multiples of 2^-24: a bias below 6e-8 per outcome.
        uniform = rng.random((m, len(c)), dtype=np.float32)
        yield slice(start, start + m), uniform < c


def expected_error(
    scores: FloatArray,
    edges: FloatArray,
    weight: FloatArray | None = None,
    laws: Laws | None = None,
) -> float:
    """Compute the expected ECE (norm 1) under calibration, in closed form.

    (1/N) sum_b E|X_b - sum c|, X_b the successes of bin b: summed over the exact law
    where the bin holds at most 16384 rows, else sqrt(2 V_b / pi), V_b = sum c (1 - c).
    With weights always the latter, V_b = sum w^2 c (1 - c). laws : of the bins (see
    ``bin_laws``), where they are known.
    """
    if weight is not None:
        index = bin_index(scores, edges)
        spread = weight**2 * scores * (1 - scores)
        v = np.bincount(index, weights=spread, minlength=len(edges) - 1)
        return float(np.sqrt(2.0 * v / np.pi).sum() / weight.sum())
    laws = laws or bin_laws([(scores, edges)])[0]
    total = 0.0
    for _, _, error in laws:
        total += error
    return total / len(scores)


def class_bin_outcomes(
    score: FloatArray,
    variance: FloatArray,
    resamples: int,
    rng: np.random.Generator,
    weighted: bool = False,
) -> Iterator[FloatArray]:
    """Draw sums of outcomes per (class, bin) under calibration, resample by resample.

    score, variance : (k, bins) sums of w p and of w^2 p (1 - p). Each cell is drawn as
    the binomial with that mean and (up to rounding its size) that variance, or where
    rows have weights as the normal. Cells are drawn independently, though a row's
    classes exclude each other. Yields (k, bins) float64.
    """
    if weighted:
        for _ in range(resamples):
            yield score + np.sqrt(variance) * rng.standard_normal(score.shape)
        return
    chance = np.clip(1.0 - ratio(variance, score, otherwise=1.0), 1e-12, 1.0)
    # Sums of rows in another order differ by roundings, which would change draws.
    size = np.maximum(np.rint(np.round(score / chance, 9)), 1.0)
    chance = np.asarray(np.round(np.clip(score / size, 0.0, 1.0), 12))
    for _ in range(resamples):
        yield rng.binomial(size.astype(np.int64), chance).astype(np.float64)


def label_losses(
    c: FloatArray, entropy: FloatArray, varentropy: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute the NLL of a correct row, and mean and variance of that of a wrong one.

    All are (n,), for Y ~ p. The moments over all labels are the entropy H and V + H^2;
    subtracting the predicted class from both leaves those of the others.
    """
    right = -np.log(np.maximum(c, 1e-300))
    rest = np.maximum(1.0 - c, 0.0)
    may_be_wrong = rest > 1e-12
    share = np.where(may_be_wrong, rest, 1.0)
    mean = np.maximum(entropy - c * right, 0.0) / share
    mean = np.where(may_be_wrong, mean, 0.0)
    square = np.maximum(varentropy + entropy**2 - c * right**2, 0.0) / share
    square = np.where(may_be_wrong, square, 0.0)
    return right, mean, np.maximum(square - mean**2, 0.0)
