"""Does the promise of ``calcli threshold`` hold? Rows with a known accuracy at every threshold.

python benchmarks/threshold.py [SETS]

Draws SETS (1000) sets of rows per case and prints the share in which the chosen threshold
keeps its promise (or none was chosen), the share with a threshold, and its mean coverage
beside the largest that the target allows.
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from calcli.evaluation.threshold_search import ThresholdSearch

STEPS = "in steps of 0.1"
GRID = 200_000  # rows of the population
SIZES = ((100, 0.9), (1000, 0.9), (1000, 0.95), (5000, 0.95))
"""Rows of a set, and the accuracy that is asked for."""


def dips_near_the_top(c: np.ndarray) -> np.ndarray:
    return np.where((c > 0.97) & (c < 0.99), 0.6, 0.35 + 0.65 * c)


ACCURACIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "calibrated": lambda c: c,
    "overconfident": lambda c: 0.98 * c**1.3,
    "dips near the top": dips_near_the_top,
    "wrong at the very top": lambda c: np.where(c > 0.999, 0.85, c**0.5),
    "no better anywhere": lambda c: np.full_like(c, 0.8999),
    STEPS: lambda c: np.round(c, 1),
}
"""Chance of being right as a function of the confidence, by name."""


class Population:
    """All rows that sets are drawn from, the surest first."""

    def __init__(self, name: str) -> None:
        quantile = (np.arange(GRID) + 0.5) / GRID
        confidence = 1.0 - 0.6 * quantile**2  # many sure rows, fewer unsure ones
        if name == STEPS:
            confidence = np.round(confidence, 1)
        self.confidence = confidence
        self.chance = ACCURACIES[name](confidence)
        self.accuracy_of_first = np.cumsum(self.chance) / np.arange(1, GRID + 1)

    def accuracy_above(self, threshold: float) -> float:
        """Accuracy of the rows that a threshold accepts."""
        n_accepted = int(np.searchsorted(-self.confidence, -threshold, side="right"))
        return float(self.accuracy_of_first[n_accepted - 1])

    def largest_coverage(self, target: float) -> float:
        """The largest share of rows with this accuracy; 0 where there is none."""
        # Rows of one confidence are accepted together.
        last_of_ties = np.append(np.flatnonzero(np.diff(self.confidence)), GRID - 1)
        is_possible = self.accuracy_of_first[last_of_ties] >= target
        if not is_possible.any():
            return 0.0
        return float((last_of_ties[is_possible][-1] + 1) / GRID)


class Shares(NamedTuple):
    """Shares of sets whose promise holds, and with a threshold; its mean coverage."""

    holds: float
    chosen: float
    coverage: float


def simulate(population: Population, n: int, target: float, sets: int) -> Shares:
    """What becomes of so many sets of n rows."""
    rng = np.random.default_rng(0)
    n_held, chosen, coverage = 0, 0, 0.0
    for _ in range(sets):
        rows = rng.integers(0, GRID, n)
        right = (rng.random(n) < population.chance[rows]).astype(np.float64)
        search = ThresholdSearch.of(population.confidence[rows], right)
        best = search.choose(target).best
        if best is None:
            n_held += 1
            continue
        chosen += 1
        coverage += best.coverage
        if population.accuracy_above(best.threshold) >= target - 1e-12:
            n_held += 1
    return Shares(n_held / sets, chosen / sets, coverage / max(chosen, 1))


def main() -> None:
    sets = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    head = f"{'n':>6s} {'target':>7s} {'holds':>7s} {'found':>7s} coverage of largest"
    print(f"{'accuracy by confidence':24s} {head}")
    for name in ACCURACIES:
        population = Population(name)
        for n, target in SIZES:
            shares = simulate(population, n, target, sets)
            largest = population.largest_coverage(target)
            print(
                f"{name:24s} {n:6d} {target:7.2f} {shares.holds:7.3f}"
                f" {shares.chosen:7.3f} {shares.coverage:8.3f} of {largest:.3f}"
            )


if __name__ == "__main__":
    main()
