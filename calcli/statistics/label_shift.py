"""Class frequencies of unlabelled rows, from calibrated probabilities: maximum likelihood by EM, with a prior.

Label shift: the class frequencies change, the distribution of rows within a class does not. Then
p'(y | x) is proportional to p(y | x) q_y / s_y, where s are the shares before and q those now.

Reference: Saerens, Latinne, Decaestecker (2002), Neural Computation 14(1); Alexandari, Kundaje, Shrikumar (2020),
ICML, for calibration with class biases and s as the mean probability.
"""

from dataclasses import dataclass

import numpy as np

from calcli.numerics import AnyArray, BoolArray, FloatArray, IntArray

STEPS = 500
SETTLED = 1e-9  # largest change of a share at which EM has converged
BAG = (
    4000  # most distinct rows per resample: larger sets use a bag of little bootstraps
)
AT_ONCE = 1 << 19  # most rows times resamples in one run of EM
FIFTHS = 5  # bins of confidence by which the check compares source and target


def class_shares(
    p: FloatArray,
    source: FloatArray,
    prior_rows: float,
    count: FloatArray | None = None,
    fixed: BoolArray | None = None,
) -> FloatArray:
    """Maximum penalised likelihood estimate of the class frequencies q among rows.

    Maximises sum_i count_i log sum_k p_ik q_k / s_k + m sum_k s_k log q_k by EM, two steps of which are
    extrapolated (SQUAREM).

    p : (n, k) calibrated probabilities, 0..1. source : (k,) or (k, r) shares s among the rows of the fit. prior_rows :
    m, weight of the prior in rows of frequencies s. count : (n,) or (n, r) multiplicity of each row, for r resamples
    at once. fixed : bool as source, classes that keep their share (absent from the source). Returns (k,) or (k, r).

    Reference: Saerens et al. (2002); Varadhan, Roland (2008) for SQUAREM.
    """
    counts = np.ones((len(p), 1)) if count is None else count.reshape(len(p), -1)
    total, like = counts.sum(axis=0), (p.shape[1], counts.shape[1])
    before = np.broadcast_to(source.reshape(len(source), -1), like)
    held = np.broadcast_to(
        np.zeros(like, dtype=bool) if fixed is None else fixed.reshape(len(source), -1),
        like,
    )
    room = 1.0 - np.where(held, before, 0.0).sum(axis=0)

    def step(q: FloatArray) -> FloatArray:
        ratio = q / before
        new = (ratio * (p.T @ (counts / (p @ ratio))) + prior_rows * before) / (
            total + prior_rows
        )
        new *= room / np.where(held, 0.0, new).sum(axis=0)
        return np.where(held, before, new)

    q = before
    for _ in range(STEPS):
        once = step(q)
        twice = step(once)
        first, second = once - q, (twice - once) - (once - q)
        curve = (second**2).sum(axis=0)
        length = np.sqrt(
            np.divide(
                (first**2).sum(axis=0), curve, out=np.ones_like(curve), where=curve > 0
            )
        )
        length = np.maximum(length, 1.0)
        far = q + 2.0 * length * first + length**2 * second
        good = (far > 0).all(axis=0)
        if float(np.abs(twice - once).max()) <= SETTLED:
            q = twice
            break
        q = step(np.where(good, far, twice))
    return q[:, 0] if count is None or count.ndim == 1 else q


def likelihood_ratio(
    p: FloatArray, source: FloatArray, shares: FloatArray, count: FloatArray
) -> FloatArray:
    """Likelihood ratio statistic 2 [l(q) - l(s)], (r,). source, shares : (k, r); count : (n, r)."""
    return np.asarray(2.0 * (count * np.log(p @ (shares / source))).sum(axis=0))


@dataclass(frozen=True)
class Source:
    """Labelled rows of the model before the shift.

    The check bins rows by ``raw``: the calibrated scores of the rows of its fit differ in distribution from new ones.
    """

    p: FloatArray  # (n, k) held-out calibrated probabilities
    y: IntArray
    raw: FloatArray  # (n, k) uncalibrated probabilities

    @property
    def shares(self) -> FloatArray:
        """Mean probability of every class, (k,)."""
        return np.asarray(self.p.mean(axis=0))


@dataclass(frozen=True)
class Shift:
    """Estimated class frequencies of unlabelled rows, with the tests of no shift and of the assumption."""

    shares: FloatArray  # (k,)
    low: FloatArray  # (k,) ends of 95 % bootstrap intervals
    high: FloatArray
    ratio: float  # likelihood ratio against no shift
    ratio_p: float
    distance: float  # chi-square distance of the rows from the source reweighted to these shares
    distance_p: float  # small where the assumption of label shift does not hold


def estimate_shift(
    p: FloatArray,
    raw: FloatArray,
    source: Source,
    resamples: int,
    rng: np.random.Generator,
) -> Shift:
    """Estimate class frequencies with intervals, test for no shift, and check the assumption of label shift.

    p, raw : (n, k) calibrated and uncalibrated probabilities of the unlabelled rows.
    Both null distributions are simulated: the source is resampled, a target of the same size is drawn from it (for
    the check: from the source reweighted to the estimate), and the class frequencies are estimated anew each time.
    """
    n, k = p.shape
    absent = np.bincount(source.y, minlength=k) == 0
    before = source.shares
    shares = class_shares(p, before, k, fixed=absent)
    ratio = float(
        likelihood_ratio(p, before[:, None], shares[:, None], np.ones((n, 1)))[0]
    )
    cells, edges = cells_of(source.raw)
    distance = _distance(
        source.y,
        cells,
        shares,
        np.bincount(cells_of(raw, edges)[0], minlength=k * FIFTHS),
    )
    weight = (shares / np.maximum(np.bincount(source.y, minlength=k), 1))[source.y]
    bag = p if n <= BAG else p[rng.choice(n, BAG, replace=False)]
    scale = len(bag) / n
    centre = shares if bag is p else class_shares(bag, before, k * scale, fixed=absent)
    ratios, distances, drawn = (
        np.empty(resamples),
        np.empty(resamples),
        np.empty((resamples, k)),
    )
    held = len(source.y)
    size = min(max(AT_ONCE // max(held, len(bag)), 1), resamples)
    for start in range(0, resamples, size):
        here = range(start, min(start + size, resamples))
        taken, (same, shifted, count) = (
            [],
            (np.empty((each, len(here))) for each in (held, held, len(bag))),
        )
        for r in range(len(here)):
            taken.append(rng.integers(0, held, held))
            same[:, r] = rng.multinomial(n, np.full(held, 1.0 / held))
            shifted[:, r] = rng.multinomial(n, weight / weight.sum())
            count[:, r] = rng.multinomial(n, np.full(len(bag), 1.0 / len(bag))) * scale
        gone = np.stack(
            [np.bincount(source.y[each], minlength=k) == 0 for each in taken], axis=1
        )
        times = np.stack([np.bincount(each, minlength=held) for each in taken], axis=1)
        own = source.p.T @ times.astype(float) / held
        both = class_shares(
            source.p, np.tile(own, 2), k, np.hstack([same, shifted]), np.tile(gone, 2)
        )
        ratios[here] = likelihood_ratio(source.p, own, both[:, : len(here)], same)
        drawn[here] = class_shares(bag, own, k * scale, count, gone).T
        for r, each in enumerate(taken):
            seen = np.bincount(cells, weights=shifted[:, r], minlength=k * FIFTHS)
            distances[here[r]] = _distance(
                source.y[each], cells[each], both[:, len(here) + r], seen
            )
    low, high = np.clip(
        shares + np.quantile(drawn - centre, [0.025, 0.975], axis=0), 0.0, 1.0
    )
    return Shift(
        shares,
        low,
        high,
        ratio,
        _p_value(ratio, ratios),
        distance,
        _p_value(distance, distances),
    )


def cells_of(
    p: FloatArray, edges: FloatArray | None = None
) -> tuple[IntArray, FloatArray]:
    """Cell of every row by prediction and fifth of the confidence, (n,), and the edges of the fifths."""
    confidence = p.max(axis=1)
    edges = (
        np.quantile(confidence, np.arange(1, FIFTHS) / FIFTHS)
        if edges is None
        else edges
    )
    return p.argmax(axis=1) * FIFTHS + np.searchsorted(edges, confidence), edges


def _distance(
    y: IntArray, cells: IntArray, shares: FloatArray, seen: AnyArray
) -> float:
    """Chi-square distance of observed counts per cell from source rows, labels y, reweighted to the shares."""
    weight = (shares / np.maximum(np.bincount(y, minlength=len(shares)), 1))[y]
    expected = np.bincount(cells, weights=weight, minlength=len(seen)) * (
        seen.sum() / weight.sum()
    )
    return float(((seen - expected) ** 2 / (expected + 0.5)).sum())


def _p_value(observed: float, draws: FloatArray) -> float:
    return float((1 + (draws >= observed * (1.0 - 1e-6)).sum()) / (1 + len(draws)))
