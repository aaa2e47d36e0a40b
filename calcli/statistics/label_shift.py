"""Class frequencies of unlabelled rows, from calibrated probabilities.

They are estimated by maximum likelihood with a prior, by EM. Label shift: the class
frequencies change, the distribution of rows within a class does not. Then p'(y | x) is
proportional to p(y | x) q_y / s_y, where s are the shares before and q those now.

Reference: Saerens, Latinne, Decaestecker (2002), Neural Computation 14(1); Alexandari,
Kundaje, Shrikumar (2020), ICML, for calibration with class biases and s as the mean
probability.
"""

from dataclasses import dataclass, replace

import numpy as np

from calcli.numerics import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    in_column,
    ratio,
    row_weights,
)
from calcli.statistics.units import Units, by_first_row, unit_mean
from calcli.statistics.weights import effective_number

STEPS = 500
SETTLED = 1e-9  # largest change of a share at which EM has converged
BAG = 4000
"""Most distinct rows per resample: larger sets use a bag of little bootstraps."""

AT_ONCE = 1 << 19  # most rows times resamples in one run of EM
FIFTHS = 5  # bins of confidence by which the check compares source and target


def class_shares(
    p: FloatArray,
    source: FloatArray,
    prior_rows: float,
    count: FloatArray | None = None,
    fixed: BoolArray | None = None,
) -> FloatArray:
    """Estimate the class frequencies q among rows by maximum penalised likelihood.

    Maximises sum_i count_i log sum_k p_ik q_k / s_k + m sum_k s_k log q_k by EM, two
    steps of which are extrapolated (SQUAREM).

    p : (n, k) calibrated probabilities, 0..1. source : (k,) or (k, r) shares s among
    the rows of the fit. prior_rows : m, weight of the prior in rows of frequencies s.
    count : (n,) or (n, r) multiplicity of each row, for r resamples at once. fixed :
    bool as source, classes that keep their share (absent from the source). Returns (k,)
    or (k, r).

    Reference: Saerens et al. (2002); Varadhan, Roland (2008) for SQUAREM.
    """
    counts = np.ones((len(p), 1)) if count is None else count.reshape(len(p), -1)
    total = counts.sum(axis=0)
    shape = (p.shape[1], counts.shape[1])
    before = np.broadcast_to(source.reshape(len(source), -1), shape)
    is_fixed = np.zeros(shape, dtype=bool)
    if fixed is not None:
        is_fixed = np.broadcast_to(fixed.reshape(len(source), -1), shape)
    free_share = 1.0 - np.where(is_fixed, before, 0.0).sum(axis=0)

    def step(q: FloatArray) -> FloatArray:
        ratio = q / before
        expected = ratio * (p.T @ (counts / (p @ ratio)))
        new = (expected + prior_rows * before) / (total + prior_rows)
        new *= free_share / np.where(is_fixed, 0.0, new).sum(axis=0)
        return np.where(is_fixed, before, new)

    q = before
    for _ in range(STEPS):
        once = step(q)
        twice = step(once)
        if float(np.abs(twice - once).max()) <= SETTLED:
            q = twice
            break
        # Extrapolate the two steps where the result stays positive.
        first = once - q
        second = (twice - once) - first
        curve = (second**2).sum(axis=0)
        square = (first**2).sum(axis=0)
        length = np.maximum(np.sqrt(ratio(square, curve, otherwise=1.0)), 1.0)
        far = q + 2.0 * length * first + length**2 * second
        is_positive = (far > 0).all(axis=0)
        q = step(np.where(is_positive, far, twice))
    if count is None or count.ndim == 1:
        return q[:, 0]
    return q


def likelihood_ratio(
    p: FloatArray, source: FloatArray, shares: FloatArray, count: FloatArray
) -> FloatArray:
    """Compute the likelihood ratio statistic 2 [l(q) - l(s)], (r,).

    source, shares : (k, r). count : (n, r).
    """
    return 2.0 * (count * np.log(p @ (shares / source))).sum(axis=0)


@dataclass(frozen=True)
class Sampling:
    """How rows were sampled: in units, with weights.

    unit : (n,) 0..g-1, rows themselves where they are independent. weight : (n,), which
    sum to the effective number of rows.
    """

    unit: IntArray
    weight: FloatArray

    @classmethod
    def of(
        cls, n: int, units: Units | None = None, weight: FloatArray | None = None
    ) -> "Sampling":
        """Sampling of n rows, independent and of weight 1 unless given."""
        return cls(
            np.arange(n) if units is None else units.code,
            row_weights(weight, n),
        )

    @property
    def n_units(self) -> int:
        return int(self.unit.max()) + 1

    @property
    def effective_units(self) -> int:
        """Number of units of equal weight that tell as much as these, at least 1.

        It is Kish's, of the mean weight of the rows of each unit.
        """
        size = np.bincount(self.unit)
        mean = np.bincount(self.unit, weights=self.weight) / size
        return max(round(effective_number(mean)), 1)

    def take(self, order: IntArray) -> "Sampling":
        """These rows in another order, with units numbered by their first rows."""
        return Sampling(by_first_row(self.unit[order]), self.weight[order])

    def counting_units(self, p: FloatArray, raw: FloatArray) -> "Sampling":
        """The same rows, with weights that sum to the number of independent rows.

        p, raw : (n, k) calibrated and uncalibrated probabilities. That number is the
        variance of p over the squared error, by unit, of its mean, both summed over the
        classes. A copy of a row inside its unit is no further row.
        """
        n = len(self.unit)
        if self.n_units in (1, n):
            return self
        variance = squared_error = 0.0
        units = Units.of(self.unit)
        for column in p.T:
            mean, error = unit_mean(column, units, self.weight)
            variance += float(np.average((column - mean) ** 2, weights=self.weight))
            squared_error += error**2
        total = float(self.weight.sum())
        effective = total * _distinct_rows(self.unit, raw) / n
        if squared_error > 0.0:
            effective = min(effective, variance / squared_error)
        return replace(self, weight=self.weight * (effective / total))

    def resampling(self, ratio: FloatArray) -> "Resampling":
        """Draws of units in which rows occur in proportion to a ratio (n,)."""
        size = np.bincount(self.unit)
        mean = np.bincount(self.unit, weights=ratio) / size
        times = np.divide(
            ratio, mean[self.unit], out=np.zeros(len(ratio)), where=ratio > 0.0
        )
        chance = mean / mean.sum()
        expected = float(chance @ np.bincount(self.unit, weights=times))
        return Resampling(self.unit, chance, times, expected)


def _by_content(raw: FloatArray, y: IntArray | None = None) -> IntArray:
    """Order of rows by what they hold, whatever the numbers of the classes, (n,).

    Classes only part rows that are equal but for them.
    """
    keys = [raw.argmax(axis=1), (raw**2).sum(axis=1), raw.max(axis=1)]
    if y is not None:
        keys.insert(0, y)
        keys.insert(2, in_column(raw, y))
    return np.lexsort(keys)


def _distinct_rows(unit: IntArray, values: FloatArray) -> int:
    """Number of rows that no other row of their unit equals."""
    rows = np.column_stack([unit.astype(np.float64), values])
    as_bytes = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
    return len(np.unique(as_bytes))


@dataclass(frozen=True)
class Resampling:
    """Draws of units.

    chance : (g,) of each unit. times : (n,) of a row in its unit. expected : rows in a
    unit that is drawn.
    """

    unit: IntArray
    chance: FloatArray
    times: FloatArray
    expected: float

    def draw(self, rng: np.random.Generator, units: int, total: float) -> FloatArray:
        """Multiplicity of every row, (n,), in a draw of units with ``total`` rows
        expected.
        """
        drawn = rng.multinomial(units, self.chance)
        scale = total / (units * self.expected)
        return drawn[self.unit] * self.times * scale


@dataclass(frozen=True)
class Source:
    """Labelled rows of the model before the shift.

    p : (n, k) held-out calibrated probabilities. y : (n,) labels. raw : (n, k)
    uncalibrated probabilities. The check bins rows by them: the calibrated scores of
    the rows of its fit differ in distribution from new ones. sampling : of independent
    rows where it is None.
    """

    p: FloatArray
    y: IntArray
    raw: FloatArray
    sampling: Sampling | None = None

    def by_content(self) -> "Source":
        """The same rows in an order that only depends on what they hold."""
        order = _by_content(self.raw, self.y)
        sampling = self.sampling or Sampling.of(len(self.y))
        return Source(
            self.p[order], self.y[order], self.raw[order], sampling.take(order)
        )

    @property
    def shares(self) -> FloatArray:
        """Mean probability of every class, (k,)."""
        weight = None if self.sampling is None else self.sampling.weight
        return np.average(self.p, axis=0, weights=weight)


@dataclass(frozen=True)
class Shift:
    """Estimated class frequencies of unlabelled rows, with two tests.

    shares : (k,). low, high : (k,) ends of 95 % bootstrap intervals. ratio, ratio_p :
    likelihood ratio against no shift, and its p-value. distance : chi-square distance
    of the rows from the source reweighted to these shares. distance_p : its p-value,
    small where the assumption of label shift does not hold.
    """

    shares: FloatArray
    low: FloatArray
    high: FloatArray
    ratio: float
    ratio_p: float
    distance: float
    distance_p: float


def estimate_shift(
    p: FloatArray,
    raw: FloatArray,
    source: Source,
    resamples: int,
    rng: np.random.Generator,
    sampling: Sampling | None = None,
) -> Shift:
    """Estimate class frequencies with intervals, and test two hypotheses.

    They are that of no shift, and the assumption of label shift. p, raw : (n, k)
    calibrated and uncalibrated probabilities of the unlabelled rows. sampling : of
    these rows. All draws are of units, as rows of a unit depend on each other. Neither
    the order of the rows nor the names of the units change the draws.
    """
    k = p.shape[1]
    source = source.by_content()
    order = _by_content(raw)
    p = p[order]
    raw = raw[order]
    of_source = source.sampling or Sampling.of(len(source.y))
    of_target = (sampling or Sampling.of(len(p))).take(order).counting_units(p, raw)
    weight = of_target.weight
    source_counts = np.bincount(source.y, weights=of_source.weight, minlength=k)
    absent = source_counts == 0
    before = source.shares
    shares = class_shares(p, before, k, weight, fixed=absent)
    ratio = float(
        likelihood_ratio(p, before[:, None], shares[:, None], weight[:, None])[0]
    )
    cells, edges = cells_of(source.raw)
    target_counts = np.bincount(
        cells_of(raw, edges)[0], weights=weight, minlength=k * FIFTHS
    )
    distance = _distance(source.y, cells, shares, target_counts, of_source.weight)
    bag = _bag_of(p, of_target, shares, before, absent, rng)
    class_ratio = shares / np.where(absent, 1.0, source_counts)
    simulation = _Simulation(
        source=source,
        sampling=of_source,
        cells=cells,
        same=of_source.resampling(of_source.weight),
        shifted=of_source.resampling(of_source.weight * class_ratio[source.y]),
        bag=bag,
        from_bag=bag.sampling.resampling(bag.sampling.weight),
        n_units=of_target.effective_units,
        n_rows=float(weight.sum()),
    )
    ratios, distances, drawn_shares = simulation.run(resamples, rng)
    errors = np.quantile(drawn_shares - bag.centre, [0.025, 0.975], axis=0)
    low, high = np.clip(shares + errors, 0.0, 1.0)
    return Shift(
        shares=shares,
        low=low,
        high=high,
        ratio=ratio,
        ratio_p=_p_value(ratio, ratios),
        distance=distance,
        distance_p=_p_value(distance, distances),
    )


@dataclass(frozen=True)
class _Bag:
    """Rows that stand for all unlabelled rows in resamples.

    p : (b, k) probabilities. sampling : of these rows. scale : their effective number
    over that of all rows. centre : (k,) estimate from them alone.
    """

    p: FloatArray
    sampling: Sampling
    scale: float
    centre: FloatArray


def _bag_of(
    p: FloatArray,
    sampling: Sampling,
    shares: FloatArray,
    before: FloatArray,
    absent: BoolArray,
    rng: np.random.Generator,
) -> _Bag:
    """Take some of the units of many rows, else all rows, of which the shares are
    known.
    """
    if len(p) <= BAG:
        return _Bag(p, sampling, 1.0, shares)
    n_units = max(2, sampling.n_units * BAG // len(p))
    is_chosen = np.zeros(sampling.n_units, dtype=bool)
    is_chosen[rng.choice(sampling.n_units, n_units, replace=False)] = True
    kept = np.flatnonzero(is_chosen[sampling.unit])
    units = np.unique(sampling.unit[kept], return_inverse=True)[1]
    of_bag = Sampling(units, sampling.weight[kept])
    scale = float(of_bag.weight.sum()) / float(sampling.weight.sum())
    prior_rows = p.shape[1] * scale
    centre = class_shares(p[kept], before, prior_rows, of_bag.weight, fixed=absent)
    return _Bag(p[kept], of_bag, scale, centre)


@dataclass(frozen=True)
class _Simulation:
    """What both statistics and the estimate are where a hypothesis holds.

    The source is resampled, and a target of the same size is drawn from it: unchanged,
    or reweighted to the estimate (for the check). Class frequencies are estimated anew
    each time. cells : (n,) of the source rows. same, shifted, from_bag : draws of a
    target. n_units, n_rows : effective size of the target.
    """

    source: Source
    sampling: Sampling
    cells: IntArray
    same: Resampling
    shifted: Resampling
    bag: _Bag
    from_bag: Resampling
    n_units: int
    n_rows: float

    def run(
        self, resamples: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Likelihood ratios (r,) without a shift, distances (r,), estimates (r, k)."""
        step = max(AT_ONCE // max(len(self.source.y), len(self.bag.p)), 1)
        parts = []
        for start in range(0, resamples, step):
            parts.append(self._some(min(step, resamples - start), rng))
        ratios, distances, shares = zip(*parts, strict=True)
        return np.concatenate(ratios), np.concatenate(distances), np.vstack(shares)

    def _some(
        self, m: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """m resamples at once."""
        source = self.source
        n, k = source.p.shape
        same = np.empty((n, m))
        shifted = np.empty((n, m))
        times = np.empty((n, m))
        missing = np.empty((k, m), dtype=bool)
        in_bag = np.empty((len(self.bag.p), m))
        of_source = self.sampling
        for r in range(m):
            sample = rng.integers(0, of_source.n_units, of_source.n_units)
            drawn = np.bincount(sample, minlength=of_source.n_units)
            same[:, r] = self.same.draw(rng, self.n_units, self.n_rows)
            shifted[:, r] = self.shifted.draw(rng, self.n_units, self.n_rows)
            from_bag = self.from_bag.draw(rng, self.n_units, self.n_rows)
            in_bag[:, r] = from_bag * self.bag.scale
            times[:, r] = drawn[of_source.unit] * of_source.weight
            counts = np.bincount(source.y, weights=times[:, r], minlength=k)
            missing[:, r] = counts == 0
        before = source.p.T @ times / times.sum(axis=0)
        estimates = class_shares(
            source.p,
            np.tile(before, 2),
            k,
            np.hstack([same, shifted]),
            np.tile(missing, 2),
        )
        shifted_shares = estimates[:, m:]
        ratios = likelihood_ratio(source.p, before, estimates[:, :m], same)
        prior_rows = k * self.bag.scale
        bag_shares = class_shares(self.bag.p, before, prior_rows, in_bag, missing)
        distances = np.empty(m)
        for r in range(m):
            in_cells = np.bincount(
                self.cells, weights=shifted[:, r], minlength=k * FIFTHS
            )
            distances[r] = _distance(
                source.y, self.cells, shifted_shares[:, r], in_cells, times[:, r]
            )
        return ratios, distances, bag_shares.T


def cells_of(
    p: FloatArray, edges: FloatArray | None = None
) -> tuple[IntArray, FloatArray]:
    """Find the cell of every row, (n,), and the edges of the fifths of confidence.

    A cell is a prediction and a fifth of the confidence.
    """
    confidence = p.max(axis=1)
    if edges is None:
        edges = np.quantile(confidence, np.arange(1, FIFTHS) / FIFTHS)
    return p.argmax(axis=1) * FIFTHS + np.searchsorted(edges, confidence), edges


def _distance(
    y: IntArray,
    cells: IntArray,
    shares: FloatArray,
    counts: AnyArray,
    times: FloatArray,
) -> float:
    """Compute the chi-square distance of observed counts per cell from source rows.

    The source rows, with labels y and multiplicities (n,), are reweighted to the
    shares.
    """
    of_label = np.bincount(y, weights=times, minlength=len(shares))
    weight = times * (shares / np.where(of_label > 0.0, of_label, 1.0))[y]
    source_counts = np.bincount(cells, weights=weight, minlength=len(counts))
    expected = source_counts * (counts.sum() / weight.sum())
    return float(((counts - expected) ** 2 / (expected + 0.5)).sum())


def _p_value(observed: float, draws: FloatArray) -> float:
    """Compute the share of draws that reach the observed value, itself among them."""
    reached = (draws >= observed * (1.0 - 1e-6)).sum()
    return float((1 + reached) / (1 + len(draws)))
