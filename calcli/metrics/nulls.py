"""Null distributions of estimators under perfect calibration, by consistency resampling.

Outcomes are drawn from the scores themselves, y_i ~ Bernoulli(c_i), and the same estimator is applied. For binned
estimators only the number of successes per bin matters, whose law (Poisson-binomial) is computed and drawn from
directly: a thousand resamples cost less than one more reading of the file.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from calcli.binning import bin_index
from calcli.numerics import FloatArray

EXACT_ROWS = (
    1 << 14
)  # rows of a bin up to which the law of its successes is computed exactly

GROUPS = 64
"""Larger bins are cut into this many groups of like scores, each drawn as a binomial.

The mean is exact; the variance is too large by at most sum (c - group mean)^2, below
1e-4 of itself for a bin of width 1/15 that is evenly filled."""

LEAF = 32  # trials of a group, which are convolved one at a time
DRAW_ITEMS = 1 << 20  # outcomes drawn at once


@dataclass(frozen=True)
class Null:
    """Null distribution of a statistic under calibration. mean, q95 : its mean and 95th percentile. p_value : chance of
    a value at least as large as the observed one. method : of the draws for rows in units, else None. above : chance of
    a value larger than a number."""

    mean: float
    q95: float
    p_value: float
    resamples: int
    method: str | None = None
    above: Callable[[float], float] | None = field(
        default=None, compare=False, repr=False
    )

    def to_dict(self) -> dict[str, "float | str"]:
        """Keys of the JSON output, beside those of the value that it belongs to."""
        how = {} if self.method is None else {"null_method": self.method}
        return {"null_mean": self.mean, "null_q95": self.q95, **how}


SAME = 1e-6
"""Relative difference up to which two statistics are equal, and relative spread up to which there is none: what is
left is rounding, of a sum of squares that cancel or of a root found by iteration."""

ROUNDING = 1e-12
"""Absolute difference up to which two statistics of probabilities are equal: with certain scores all is rounding."""


def reaching(draws: FloatArray, observed: float) -> int:
    """Number of draws (r,) at least as large as the observed value; those equal to it up to rounding count."""
    return int(
        np.count_nonzero(draws >= observed - max(SAME * abs(observed), ROUNDING))
    )


def share_above(draws: FloatArray, limit: float) -> float:
    """Proportion of draws (r,) that are larger than a limit by more than rounding."""
    return float(np.count_nonzero(draws > limit + SAME * abs(limit))) / len(draws)


def standardised(values: FloatArray, draws: FloatArray) -> FloatArray:
    """Values in standard deviations of the draws above their mean; where these do not spread, 0 or infinite."""
    centre, spread = float(draws.mean()), float(draws.std())
    gap = values - centre
    if spread > SAME * abs(centre):
        return np.asarray(gap / spread)
    return np.where(np.abs(gap) <= SAME * abs(centre), 0.0, np.copysign(np.inf, gap))


def null_of(observed: float, draws: FloatArray, mean: float | None = None) -> Null:
    """Summarise draws (r,) under calibration; ``mean`` replaces their mean where it is known. The p-value counts the
    observation among the draws, so it is never 0 and its level is exact. A draw that equals the observation up to
    rounding counts as reaching it."""
    reached = reaching(draws, observed)
    q95 = float(np.quantile(draws, 0.95))
    p = (1 + reached) / (1 + len(draws))
    return Null(
        float(draws.mean()) if mean is None else mean,
        q95,
        p,
        len(draws),
        above=partial(share_above, draws),
    )


def poisson_binomial(p: FloatArray) -> FloatArray:
    """Law of the number of successes of independent trials with chances p (…, n), P(X = 0..n), (…, n + 1) float64.
    Groups of trials are convolved one trial at a time, then pairwise by FFT; rounding is about 1e-16 in absolute
    terms."""
    *shape, n = p.shape
    groups = 1 << max(0, int(np.ceil(np.log2(max(n, 1) / LEAF))))
    trials = np.zeros((*shape, groups * LEAF if groups > 1 else n))
    trials[..., :n] = p
    trials = np.moveaxis(
        trials.reshape(*shape, trials.shape[-1] // groups, groups), -2, 0
    )
    few = np.zeros((len(trials) + 1, *trials.shape[1:]))
    few[0] = 1.0
    for j, chances in enumerate(trials):
        hit = few[: j + 1] * chances
        few[: j + 1] -= hit
        few[1 : j + 2] += hit
    law = np.ascontiguousarray(np.moveaxis(few, 0, -1))
    while law.shape[-2] > 1:
        size = law.shape[-1]
        length = 1 << int(np.ceil(np.log2(2 * size - 1)))
        spectrum = np.fft.rfft(law, length)
        law = np.fft.irfft(spectrum[..., ::2, :] * spectrum[..., 1::2, :], length)[
            ..., : 2 * size - 1
        ]
    whole = np.maximum(law[..., 0, : n + 1], 0.0)  # without the rounding of FFT
    return np.asarray(whole / whole.sum(axis=-1, keepdims=True))


def expected_of_bin(c: FloatArray, law: FloatArray) -> FloatArray:
    """E|X - sum c| of the successes X of trials with chances c (…, n), by their exact law."""
    error = np.abs(np.arange(law.shape[-1]) - c.sum(axis=-1, keepdims=True))
    return np.asarray((law[..., None, :] @ error[..., None])[..., 0, 0])


Laws = Sequence[tuple[FloatArray, FloatArray | None, float]]
"""For every bin: its scores; P(X <= 0..n) of its successes X, None where it has no rows or more than are convolved; and
E|X - sum c|, there by the normal law."""


def bin_laws(parts: Sequence[tuple[FloatArray, FloatArray]]) -> list[Laws]:
    """Laws of the successes per bin under calibration, without weights, of each part's scores (n,) over its edges. Bins
    with equally many rows are computed together, whatever their part."""
    ends = np.cumsum([0, *(len(edges) - 1 for _, edges in parts)]).tolist()
    index = np.concatenate(
        [bin_index(*part) + first for part, first in zip(parts, ends[:-1], strict=True)]
    )
    stops = np.cumsum(np.bincount(index, minlength=ends[-1])).tolist()
    ordered = np.concatenate([scores for scores, _ in parts])[
        np.argsort(index, kind="stable")
    ]
    held = [ordered[start:stop] for start, stop in pairwise([0, *stops])]
    found: list[tuple[FloatArray, FloatArray | None, float]] = [
        (c, None, float(np.sqrt(2.0 * (c @ (1.0 - c)) / np.pi))) for c in held
    ]
    size = np.array([len(c) for c in held])
    for n in np.unique(size[(size > 0) & (size <= EXACT_ROWS)]).tolist():
        bins = np.flatnonzero(size == n).tolist()
        scores = np.stack([held[b] for b in bins])
        law = poisson_binomial(scores)
        for b, *known in zip(
            bins,
            np.cumsum(law, axis=1),
            expected_of_bin(scores, law).tolist(),
            strict=True,
        ):
            found[b] = held[b], *known
    return [found[start:stop] for start, stop in pairwise(ends)]


def _successes_of_one_bin(
    c: FloatArray, upto: FloatArray | None, resamples: int, rng: np.random.Generator
) -> FloatArray:
    if upto is not None:
        return np.searchsorted(
            upto, rng.random(resamples) * upto[-1], side="right"
        ).astype(np.float64)
    parts = np.array_split(np.sort(c), GROUPS)
    size = np.array([len(part) for part in parts])
    mean = np.clip([part.mean() for part in parts], 0.0, 1.0)
    return (
        rng.binomial(size, mean, size=(resamples, GROUPS))
        .sum(axis=1)
        .astype(np.float64)
    )


def bin_outcomes(
    scores: FloatArray,
    edges: FloatArray,
    resamples: int,
    rng: np.random.Generator,
    weight: FloatArray | None = None,
    laws: Laws | None = None,
) -> FloatArray:
    """Sums of outcomes per bin under calibration, (resamples, bins) float64, weighted where weights are given. laws :
    of the bins (see ``bin_laws``), where they are known."""
    outcome = np.zeros((resamples, len(edges) - 1))
    if weight is None:
        for b, (c, upto, _) in enumerate(laws or bin_laws([(scores, edges)])[0]):
            if len(c):
                outcome[:, b] = _successes_of_one_bin(c, upto, resamples, rng)
        return outcome
    index = bin_index(scores, edges)
    order = np.argsort(index, kind="stable")
    stops = np.cumsum(np.bincount(index, minlength=len(edges) - 1))
    held = np.flatnonzero(np.diff(np.concatenate([[0], stops])))
    first = np.concatenate([[0], stops[:-1]])[held]
    w = weight[order]
    for rows, drawn in outcome_draws(scores[order], resamples, rng):
        outcome[rows][:, held] = np.add.reduceat(drawn * w, first, axis=1)
    return outcome


def outcome_draws(
    scores: FloatArray, resamples: int, rng: np.random.Generator
) -> Iterator[tuple[slice, "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"]]:
    """Outcomes y ~ Bernoulli(score), some resamples at a time: (which, (m, n) bool)."""
    c = scores.astype(np.float32)
    step = max(1, DRAW_ITEMS // max(len(c), 1))
    for at in range(0, resamples, step):
        m = min(step, resamples - at)
        # float32 uniforms are multiples of 2^-24: a bias below 6e-8 per outcome.
        yield slice(at, at + m), rng.random((m, len(c)), dtype=np.float32) < c


def expected_error(
    scores: FloatArray,
    edges: FloatArray,
    weight: FloatArray | None = None,
    laws: Laws | None = None,
) -> float:
    """Expected ECE (norm 1) under calibration, in closed form.

    (1/N) sum_b E|X_b - sum c|, X_b the successes of bin b: summed over the exact law where the
    bin holds at most 16384 rows, else sqrt(2 V_b / pi), V_b = sum c (1 - c). With weights
    always the latter, V_b = sum w^2 c (1 - c). laws : of the bins (see ``bin_laws``), where they are known.
    """
    if weight is not None:
        index = bin_index(scores, edges)
        v = np.bincount(
            index, weights=weight**2 * scores * (1 - scores), minlength=len(edges) - 1
        )
        return float(np.sqrt(2.0 * v / np.pi).sum() / weight.sum())
    total = 0.0
    for *_, error in laws or bin_laws([(scores, edges)])[0]:
        total += error
    return total / len(scores)


def class_bin_outcomes(
    score: FloatArray,
    variance: FloatArray,
    resamples: int,
    rng: np.random.Generator,
    weighted: bool = False,
) -> Iterator[FloatArray]:
    """Sums of outcomes per (class, bin) under calibration, resample by resample: (k, bins) float64 each.

    score, variance : (k, bins) sums of w p and of w^2 p (1 - p). Each cell is drawn as the binomial with that mean and
    (up to rounding its size) that variance, or where rows have weights as the normal; cells are drawn independently,
    though a row's classes exclude each other.
    """
    if weighted:
        for _ in range(resamples):
            yield score + np.sqrt(variance) * rng.standard_normal(score.shape)
        return
    chance = np.clip(
        1.0 - np.divide(variance, score, out=np.ones_like(score), where=score > 0),
        1e-12,
        1.0,
    )
    size = np.maximum(np.rint(score / chance), 1.0)
    chance = np.clip(score / size, 0.0, 1.0)
    for _ in range(resamples):
        yield rng.binomial(size.astype(np.int64), chance).astype(np.float64)


def label_losses(
    c: FloatArray, entropy: FloatArray, varentropy: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """NLL of a correct row, and mean and variance of the NLL of a wrong one, when Y ~ p; (n,) each. The moments over
    all labels are the entropy H and V + H^2; subtracting the predicted class from both leaves those of the others."""
    right = -np.log(np.maximum(c, 1e-300))
    rest = np.maximum(1.0 - c, 0.0)
    known = rest > 1e-12
    share = np.where(known, rest, 1.0)
    mean = np.where(known, np.maximum(entropy - c * right, 0.0) / share, 0.0)
    square = np.where(
        known, np.maximum(varentropy + entropy**2 - c * right**2, 0.0) / share, 0.0
    )
    return right, mean, np.maximum(square - mean**2, 0.0)
