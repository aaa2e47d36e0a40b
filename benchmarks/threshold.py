"""Does the promise of ``calcli threshold`` hold? Simulated rows with a known accuracy at every threshold.

``python benchmarks/threshold.py [SETS]`` draws SETS (1000) sets of rows per case and
prints the share in which the chosen threshold keeps its promise (or none was chosen), the share with a
threshold, and its mean coverage beside the largest that the target allows.
"""

import sys
from collections.abc import Callable

import numpy as np

from calcli.evaluation.selective_threshold import ThresholdSearch

Curve = Callable[[np.ndarray], np.ndarray]

CURVES: dict[str, Curve] = {
    "calibrated": lambda c: c,
    "overconfident": lambda c: 0.98 * c**1.3,
    "dips near the top": lambda c: np.where(
        (c > 0.97) & (c < 0.99), 0.6, 0.35 + 0.65 * c
    ),
    "wrong at the very top": lambda c: np.where(c > 0.999, 0.85, c**0.5),
    "no better anywhere": lambda c: np.full_like(c, 0.8999),
    "in steps of 0.1": lambda c: np.round(c, 1),
}
GRID = 200_000


def quantiles(name: str) -> np.ndarray:
    """The confidences of the population, evenly spread in probability, (GRID,) falling."""
    u = (np.arange(GRID) + 0.5) / GRID
    c = 1.0 - 0.6 * u**2  # many sure rows, fewer unsure ones
    return np.round(c, 1) if name == "in steps of 0.1" else c


def simulate(
    name: str, n: int, target: float, sets: int, seed: int = 0
) -> tuple[float, float, float, float]:
    """Shares of sets in which the promise holds and in which there is a threshold; mean and largest coverage."""
    population = quantiles(name)
    right = CURVES[name](population)
    accuracy = np.cumsum(right) / np.arange(1, GRID + 1)
    last = np.append(
        np.flatnonzero(np.diff(population)), GRID - 1
    )  # ties are accepted together
    possible = last[accuracy[last] >= target]
    rng = np.random.default_rng(seed)
    held, found, coverage = 0, 0, 0.0
    for _ in range(sets):
        index = rng.integers(0, GRID, n)
        correct = (rng.random(n) < right[index]).astype(np.float64)
        best = ThresholdSearch.of(population[index], correct).choose(target).best
        if best is None:
            held += 1
            continue
        found += 1
        accepted = int(np.searchsorted(-population, -best.threshold, side="right"))
        held += accuracy[accepted - 1] >= target - 1e-12
        coverage += best.coverage
    largest = (possible[-1] + 1) / GRID if len(possible) else 0.0
    return held / sets, found / sets, coverage / max(found, 1), largest


def main() -> None:
    sets = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(
        f"{'accuracy by confidence':24s} {'n':>6s} {'target':>7s} {'holds':>7s} {'found':>7s} coverage of largest"
    )
    for name in CURVES:
        for n, target in ((100, 0.9), (1000, 0.9), (1000, 0.95), (5000, 0.95)):
            holds, found, coverage, largest = simulate(name, n, target, sets)
            print(
                f"{name:24s} {n:6d} {target:7.2f} {holds:7.3f} {found:7.3f} {coverage:8.3f} of {largest:.3f}"
            )


if __name__ == "__main__":
    main()
