"""Coverage of the intervals of calibration slope, intercept, O:E and net benefit.

python benchmarks/risk.py 1000 [--rows 200,1000,5000] [--record benchmarks/risk.json]

Log-odds are skewed (Gumbel), outcomes are drawn from a truth: calibrated; too extreme
(slope .7, intercept .3); or of another link (complementary log-log), of which the true
slope is that of the best logistic curve. Rows are independent, or lie in units of 1 to
20 whose log-odds and outcomes depend on each other (an autoregressive latent normal),
or have exponential weights. Printed: the share of 95 % intervals that hold the truth,
with its standard error, of the samples that have one; the share in which the joint test
of (intercept, slope) = (0, 1) rejects at 5 %; and the share without an interval of the
slope. Neither the design of the intervals nor its choices saw these generators.

``--bootstrap``: how often a 95 % percentile bootstrap interval of the ICI holds the ICI
of a calibrated model in the limit, which is 0, and the mean of its lower ends.
"""

from contextlib import suppress
from pathlib import Path

import numpy as np
from _measure import parser_of
from _stored import Lines, mean_and_error

from calcli.metrics.catalog import metric
from calcli.metrics.collect import collect
from calcli.metrics.context import MetricContext
from calcli.metrics.settings import MetricSettings
from calcli.metrics.values import Undefined
from calcli.numerics import sigmoid
from calcli.rows import ArrayRows
from calcli.statistics.decisions import row_benefit
from calcli.statistics.recalibration import (
    ClassRanges,
    OutcomeCounts,
    fit_intercept,
    fit_recalibration,
)
from calcli.statistics.units import Units

FREQUENCIES = (0.02, 0.2, 0.5)
SHARED = 0.5  # share of the variance of log-odds that units share
CORRELATION = 0.8  # of the luck of rows that follow each other in a unit
LEAST_SAMPLES = 50  # of which a share is stated
LARGE = 400_000  # rows of which the true values are

TRUTHS = {
    "calibrated": sigmoid,
    "too extreme": lambda log_odds: sigmoid(0.3 + 0.7 * log_odds),
    "another link": lambda log_odds: 1.0 - np.exp(-np.exp(log_odds)),
}
NAMES = ("slope", "intercept", "oe_ratio", "net_benefit")


def drawn_log_odds(rng, n, unit=None):
    """Skewed log-odds about 0; half of their variance is shared within units."""
    of_row = rng.gumbel(size=n) - np.euler_gamma
    if unit is None:
        return of_row
    of_unit = rng.gumbel(size=unit.max() + 1) - np.euler_gamma
    return np.sqrt(SHARED) * of_unit[unit] + np.sqrt(1.0 - SHARED) * of_row


def units_of(rng, n):
    """Units of 1 to 20 rows, (n,)."""
    sizes = rng.integers(1, 21, n)
    return np.repeat(np.arange(n), sizes)[:n]


def dependent_uniforms(rng, unit):
    """Uniform numbers of rows that follow each other within units, (n,)."""
    from scipy.special import ndtr

    noise = rng.normal(size=len(unit))
    latent = noise.copy()
    fresh = np.sqrt(1.0 - CORRELATION**2)
    for row in range(1, len(unit)):
        if unit[row] == unit[row - 1]:
            latent[row] = CORRELATION * latent[row - 1] + fresh * noise[row]
    return ndtr(latent)


def many_log_odds(seed, kind):
    """So many log-odds that their means are those of the distribution."""
    unit = np.arange(LARGE) if kind == "in units" else None
    return drawn_log_odds(np.random.default_rng(seed), LARGE, unit)


def centre_of(truth, frequency, kind):
    """Shift of the log-odds at which class 1 has this frequency."""
    sample = many_log_odds(0, kind)
    low, high = -15.0, 15.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        if truth(sample + middle).mean() < frequency:
            low = middle
        else:
            high = middle
    return low


def true_values(truth, centre, frequency, kind):
    """What each metric is in the limit, by its name."""
    log_odds = many_log_odds(1, kind) + centre
    chance, risk = truth(log_odds), sigmoid(log_odds)
    sample = [OutcomeCounts(log_odds, chance, 1.0 - chance)]
    ranges = ClassRanges.of(sample)
    return {
        "slope": fit_recalibration(sample, ranges).slope,
        "intercept": fit_intercept(sample, ranges).intercept,
        "oe_ratio": chance.sum() / risk.sum(),
        "net_benefit": row_benefit(risk, chance, frequency).mean(),
    }


def drawn_context(rng, n, kind, truth, centre):
    """A sample of rows, as ``evaluate`` sees it."""
    unit, units, weight = None, None, None
    if kind == "in units":
        unit = units_of(rng, n)
        units = Units.of(unit)
    log_odds = drawn_log_odds(rng, n, unit) + centre
    uniform = rng.random(n) if unit is None else dependent_uniforms(rng, unit)
    if kind == "weighted":
        weight = rng.exponential(size=n)
    outcome = (uniform < truth(log_odds)).astype(np.int64)
    return context_of(log_odds, outcome, MetricSettings(), weight=weight, units=units)


def context_of(log_odds, outcome, settings, **columns):
    scores = np.stack([np.zeros(len(log_odds)), log_odds], axis=1)
    rows = ArrayRows(scores, outcome, **columns)
    return MetricContext(collect(rows, top_only=True), settings)


def measured(context, frequency):
    """Value of every metric; net benefit at the frequency as threshold."""
    values = {}
    for name in NAMES:
        word = f"net_benefit({frequency})" if name == "net_benefit" else name
        with suppress(Undefined):  # no slope or intercept is finite
            values[name] = metric(word).measure(context)
    return values


class Coverage:
    """Counts over samples.

    holds : by metric, whether each interval holds the truth. rejected : whether each
    joint test rejects. n_without : samples without an interval of the slope.
    """

    def __init__(self):
        self.holds = {name: [] for name in NAMES}
        self.rejected = []
        self.n_without = 0

    def add(self, values, expected):
        """Count a sample. values : by metric. expected : the true values."""
        for name, value in values.items():
            if value.interval is not None:
                holds = value.interval.holds(expected[name])
                self.holds[name].append(float(holds))
        slope = values.get("slope")
        if slope is None or slope.interval is None:
            self.n_without += 1
        else:
            self.rejected.append(float(slope.more["joint_p_value"] < 0.05))


def coverage(n, frequency, kind, name, replicates):
    """A line of the table."""
    truth = TRUTHS[name]
    centre = centre_of(truth, frequency, kind)
    expected = true_values(truth, centre, frequency, kind)
    counts = Coverage()
    for replicate in range(replicates):
        rng = np.random.default_rng([n, round(1000 * frequency), replicate])
        context = drawn_context(rng, n, kind, truth, centre)
        counts.add(measured(context, frequency), expected)
    line = {"rows": n, "frequency": frequency, "rows are": kind, "truth": name}
    for metric_name in NAMES:
        line[metric_name] = summary(counts.holds[metric_name])
    line["joint test"] = summary(counts.rejected)
    line["no interval"] = counts.n_without / replicates
    return line


def summary(values):
    """Mean and standard error, None of too few."""
    return mean_and_error(values) if len(values) >= LEAST_SAMPLES else None


def cells(rows):
    """Cells of the table: rows, frequency, kind of rows, truth."""
    for n in rows:
        for kind in ("independent", "in units"):
            for frequency in FREQUENCIES:
                yield n, frequency, kind, "calibrated"
    if 1000 in rows:
        for kind in ("independent", "in units"):
            for name in ("too extreme", "another link"):
                yield 1000, 0.2, kind, name
        for frequency in (0.02, 0.2):
            yield 1000, frequency, "weighted", "calibrated"


def print_bootstrap(replicates, n=500, resamples=200):
    """Print how a percentile bootstrap of the ICI of calibrated rows does."""
    settings = MetricSettings(resamples=2)
    ici = metric("ici").measure
    low_ends = []
    for replicate in range(replicates):
        rng = np.random.default_rng([7, replicate])
        log_odds = drawn_log_odds(rng, n) - 1.0
        outcome = (rng.random(n) < sigmoid(log_odds)).astype(np.int64)
        values = []
        for _ in range(resamples):
            drawn = rng.integers(0, n, n)
            context = context_of(log_odds[drawn], outcome[drawn], settings)
            values.append(ici(context).value)
        low_ends.append(float(np.quantile(values, 0.025)))
    share = np.mean(np.array(low_ends) <= 0.0)
    print(f"ICI of {n} calibrated rows: bootstrap intervals hold 0 in {share:.3f}")
    print(f"mean of the lower ends {np.mean(low_ends):.4f}")


def main():
    parser = parser_of(__doc__)
    parser.add_argument("replicates", nargs="?", type=int, default=20)
    parser.add_argument("--rows", default="200,1000,5000")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--bootstrap", action="store_true")
    args = parser.parse_args()
    if args.bootstrap:
        print_bootstrap(args.replicates)
        return
    lines = Lines(args.record)
    rows = [int(n) for n in args.rows.split(",")]
    for cell in cells(rows):
        lines.add(**coverage(*cell, args.replicates))


if __name__ == "__main__":
    main()
