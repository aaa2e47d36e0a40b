"""How often ``evaluate`` names ``fit --by``, and what following it does on new rows.

python benchmarks/group_remedy.py 100 [--record benchmarks/group_remedy.json]
python benchmarks/group_remedy.py --cost

Scores are too extreme for every group; the groups are alike, or have a temperature, or a
slope and an offset, of their own. Their sizes are uneven (log-normal). Rows are independent,
or lie in units of 1 to 20 that share their group and half of their luck. Printed, of all
samples: the share in which the calibrator by group is named, by the cross-fitted comparison
alone, without asking whether any group is significantly off; the share in which it is named
and raises the NLL of 20 000 new rows against one map for all; and the mean change of that
NLL where it is named, in 1e-3 nats.

cost : processor seconds of the comparison, by rows, classes and groups.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from _stored import Lines, mean

import calcli
from calcli.evaluation.group_remedy import best_by_group
from calcli.metrics.settings import MetricSettings
from calcli.rows import ArrayRows
from calcli.statistics.units import Units

NEW = 20_000
SPREADS = {"alike": 0.0, "differ a little": 0.15, "differ": 0.4}
CELLS = [
    (400, 2, 4, False),
    (1000, 2, 4, False),
    (1000, 2, 4, True),
    (1000, 2, 30, False),
    (4000, 2, 30, True),
    (1000, 5, 4, False),
    (4000, 5, 30, False),
]
COSTS = [(2000, 2, 5), (100_000, 2, 5), (1_000_000, 2, 500), (20_000, 100, 50)]


class Source:
    """Rows of groups whose maps are drawn once."""

    def __init__(self, rng, k, n_groups, spread):
        self.rng, self.k = rng, k
        share = rng.lognormal(size=n_groups)
        self.share = share / share.sum()
        self.slope = 0.7 * np.exp(spread * rng.normal(size=n_groups))
        self.offset = spread * rng.normal(size=n_groups)

    def drawn(self, n, in_units=False):
        """Logits, labels, groups and units (None: independent) of n rows."""
        rng = self.rng
        unit = np.arange(n)
        if in_units:
            unit = np.repeat(unit, rng.integers(1, 21, n))[:n]
        group = rng.choice(len(self.share), p=self.share, size=n)[unit]
        z = 1.5 * rng.standard_t(5, size=(n, self.k))
        true = self.slope[group][:, None] * z
        if self.k == 2:
            true[:, 1] += self.offset[group]
        luck = rng.gumbel(size=(n, self.k))
        if in_units:
            luck = np.where(rng.random((n, 1)) < 0.5, luck[unit], luck)
        return z, (true + luck).argmax(axis=1), group, unit if in_units else None


def nll(p, y):
    return -np.log(p[np.arange(len(y)), y]).mean()


def sample(seed, cell, spread):
    """Whether it is named, and the change of the NLL on new rows."""
    n, k, n_groups, in_units = cell
    rng = np.random.default_rng([n, k, n_groups, in_units, round(100 * spread), seed])
    source = Source(rng, k, n_groups, spread)
    z, y, group, unit = source.drawn(n, in_units)
    units = None if unit is None else Units.of(unit)
    rows = ArrayRows(z, y, units=units)
    trial = best_by_group(rows, {"group": group}, MetricSettings())
    if trial is None or not trial.helps:
        return False, 0.0
    method = "platt" if k == 2 else "ts"
    new_z, new_y, new_group, _ = source.drawn(NEW)
    one = calcli.fit(z, y, method, units=unit).predict_proba(new_z)
    by = calcli.fit(z, y, method, groups=group, units=unit)
    groups = new_group if by.method.endswith("-by") else None
    return True, nll(by.predict_proba(new_z, groups=groups), new_y) - nll(one, new_y)


def levels(args):
    lines = Lines(args.record)
    for name, spread in SPREADS.items():
        for cell in CELLS:
            found = [sample(seed, cell, spread) for seed in range(args.samples)]
            changes = [1e3 * change for named, change in found if named]
            harmful = [named and change > 0.0 for named, change in found]
            n, k, n_groups, in_units = cell
            lines.add(
                rows=n,
                classes=k,
                groups=n_groups,
                **{"rows are": "in units" if in_units else "independent"},
                **{"groups are": name},
                named=mean([named for named, _ in found]),
                **{"named and worse": mean(harmful)},
                **{"change where named": mean(changes) if len(changes) > 1 else None},
            )


def costs():
    for n, k, n_groups in COSTS:
        source = Source(np.random.default_rng(0), k, n_groups, 0.3)
        z, y, group, _ = source.drawn(n)
        start = time.process_time()
        best_by_group(ArrayRows(z, y), {"group": group}, MetricSettings())
        seconds = time.process_time() - start
        print(f"{n} rows, {k} classes, {n_groups} groups: {seconds:.1f} s")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("samples", nargs="?", type=int, default=100)
    parser.add_argument("--record", type=Path, help="JSON file for the table")
    parser.add_argument("--cost", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # what fits to few rows have to say
    if args.cost:
        costs()
    else:
        levels(args)


if __name__ == "__main__":
    main()
