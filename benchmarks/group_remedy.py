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

import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _draws import mean_nll
from _measure import parser_of
from _stored import Lines, mean_and_error

import calcli
from calcli.evaluation.group_remedy import best_by_group
from calcli.metrics.settings import MetricSettings
from calcli.rows import ArrayRows
from calcli.statistics.units import Units

NEW = 20_000
SPREADS = {"alike": 0.0, "differ a little": 0.15, "differ": 0.4}
"""Spread of the log slopes and offsets of groups, by what is said of them."""


class Cell(NamedTuple):
    """Rows of a sample, its classes and groups, and whether rows lie in units."""

    rows: int
    classes: int
    groups: int
    in_units: bool


CELLS = (
    Cell(400, 2, 4, in_units=False),
    Cell(1000, 2, 4, in_units=False),
    Cell(1000, 2, 4, in_units=True),
    Cell(1000, 2, 30, in_units=False),
    Cell(4000, 2, 30, in_units=True),
    Cell(1000, 5, 4, in_units=False),
    Cell(4000, 5, 30, in_units=False),
)
COSTS = ((2000, 2, 5), (100_000, 2, 5), (1_000_000, 2, 500), (20_000, 100, 50))
"""Rows, classes and groups of which the cost is measured."""


class Drawn(NamedTuple):
    """Logits (n, k), labels, groups and units (None: independent) of rows."""

    logits: np.ndarray
    labels: np.ndarray
    group: np.ndarray
    unit: np.ndarray | None


class Source:
    """Rows of groups whose maps are drawn once."""

    def __init__(self, rng, k, n_groups, spread):
        self.rng = rng
        self.k = k
        share = rng.lognormal(size=n_groups)
        self.share = share / share.sum()
        self.slope = 0.7 * np.exp(spread * rng.normal(size=n_groups))
        self.offset = spread * rng.normal(size=n_groups)

    def drawn(self, n, in_units=False):
        """Draw n rows."""
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
        if not in_units:
            return Drawn(z, (true + luck).argmax(axis=1), group, None)
        is_shared = rng.random((n, 1)) < 0.5
        luck = np.where(is_shared, luck[unit], luck)
        return Drawn(z, (true + luck).argmax(axis=1), group, unit)


def change_where_named(seed, cell, spread):
    """Change of the NLL on new rows by a calibrator by group; None where none is named."""
    n, k, n_groups, in_units = cell
    rng = np.random.default_rng([n, k, n_groups, in_units, round(100 * spread), seed])
    source = Source(rng, k, n_groups, spread)
    drawn = source.drawn(n, in_units)
    units = None if drawn.unit is None else Units.of(drawn.unit)
    rows = ArrayRows(drawn.logits, drawn.labels, units=units)
    trial = best_by_group(rows, {"group": drawn.group}, MetricSettings())
    if trial is None or not trial.helps:
        return None
    method = "platt" if k == 2 else "ts"
    new = source.drawn(NEW)
    z, y, unit = drawn.logits, drawn.labels, drawn.unit
    one = calcli.fit(z, y, method, units=unit)
    by = calcli.fit(z, y, method, groups=drawn.group, units=unit)
    groups = new.group if by.method.endswith("-by") else None
    nll_by_group = mean_nll(by.predict_proba(new.logits, groups=groups), new.labels)
    return nll_by_group - mean_nll(one.predict_proba(new.logits), new.labels)


def print_levels(n_samples, record):
    """Print a line per spread and cell."""
    lines = Lines(record)
    for name, spread in SPREADS.items():
        for cell in CELLS:
            is_named, is_harmful, changes = [], [], []
            for seed in range(n_samples):
                change = change_where_named(seed, cell, spread)
                is_named.append(change is not None)
                is_harmful.append(change is not None and change > 0.0)
                if change is not None:
                    changes.append(1e3 * change)
            cells = {
                "rows": cell.rows,
                "classes": cell.classes,
                "groups": cell.groups,
                "rows are": "in units" if cell.in_units else "independent",
                "groups are": name,
                "named": mean_and_error(is_named),
                "named and worse": mean_and_error(is_harmful),
                "change where named": None,
            }
            if len(changes) > 1:
                cells["change where named"] = mean_and_error(changes)
            lines.add(**cells)


def print_costs():
    """Print processor seconds of the comparison."""
    for n, k, n_groups in COSTS:
        drawn = Source(np.random.default_rng(0), k, n_groups, 0.3).drawn(n)
        rows = ArrayRows(drawn.logits, drawn.labels)
        start = time.process_time()
        best_by_group(rows, {"group": drawn.group}, MetricSettings())
        seconds = time.process_time() - start
        print(f"{n} rows, {k} classes, {n_groups} groups: {seconds:.1f} s")


def main():
    parser = parser_of(__doc__)
    parser.add_argument("samples", nargs="?", type=int, default=100)
    parser.add_argument("--record", type=Path, help="JSON file for the table")
    parser.add_argument("--cost", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # what fits to few rows have to say
    if args.cost:
        print_costs()
    else:
        print_levels(args.samples, args.record)


if __name__ == "__main__":
    main()
