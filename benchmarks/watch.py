"""Does ``calcli watch`` keep its promise, and how soon does it find a change? Beside monitors that people use.

``python benchmarks/watch.py [RUNS] [DATA.npz …]`` takes RUNS (100) streams of 60 batches of 100 rows from each file
of logits (else simulated ones), with a change after batch 20, and prints by monitor the share of streams with an
alarm before the change (or ever, where there is none) and the median delay in batches of those found after it.

each batch: a z test of every batch at 5 %. all so far: a z test of all rows so far at 5 %, after every batch.
running mean: the mean overconfidence so far beyond .02 (as glide monitors it, two-sided here).
"""

import math
import sys
from pathlib import Path

import numpy as np

import calcli
from calcli.numerics import softmax
from calcli.statistics.betting import Evidence, batch_log_factors
from calcli.statistics.units import Units

BATCHES, ROWS, CHANGE = 60, 100, 20
Stream = tuple[np.ndarray, np.ndarray]


def first(flags: np.ndarray) -> int | None:
    """The first batch with an alarm."""
    return int(flags.argmax()) if flags.any() else None


def monitors(c: np.ndarray, y: np.ndarray, units: Units | None = None) -> dict[str, int | None]:
    """First alarm of each monitor; c, y : (batches, rows)."""
    gap, variance = (c - y).sum(axis=1), (c * (1 - c)).sum(axis=1)
    found = {
        "each batch": first(np.abs(gap) > 1.96 * np.sqrt(variance)),
        "all so far": first(np.abs(gap.cumsum()) > 1.96 * np.sqrt(variance.cumsum())),
        "running mean": first(np.abs(gap.cumsum()) > 0.02 * c.shape[1] * np.arange(1, len(c) + 1)),
    }
    for tolerance in (0.0, 0.02):
        evidence, at = Evidence.none(), None
        for batch in range(len(c)):
            evidence = evidence.after(batch_log_factors(c[batch], y[batch], tolerance, units))
            if evidence.log_e >= math.log(20):
                at = batch
                break
        found[f"watch, tolerance {tolerance:g}"] = at
    return found


def simulated(k: int = 100, n: int = 8000) -> Stream:
    """Logits that ts can calibrate, and labels."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, k)) * 2.5
    return z * 1.5, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


def streams(z: np.ndarray, y: np.ndarray, runs: int) -> dict[str, list[dict[str, int | None]]]:
    """First alarms of every run, by case."""
    rng = np.random.default_rng(1)
    cases: dict[str, list[dict[str, int | None]]] = {}
    for _ in range(runs):
        order = rng.permutation(len(y))
        fitted = calcli.fit(z[order[:1000]], y[order[:1000]])
        pool = order[1000:]
        scaled = z[pool] / fitted.params["temperature"]
        right = scaled.argmax(axis=1) == y[pool]
        rows = rng.integers(0, len(pool), (BATCHES, ROWS))
        confidence = softmax(scaled).max(axis=1)
        drawn = (rng.random(rows.shape) < confidence[rows]).astype(float)
        cases.setdefault("exactly calibrated", []).append(monitors(confidence[rows], drawn))
        cases.setdefault("ts of 1000 rows, no change", []).append(monitors(confidence[rows], right[rows].astype(float)))
        for factor in (1.15, 1.3):
            sharper = softmax(scaled * factor).max(axis=1)
            c = np.where(np.arange(BATCHES)[:, None] < CHANGE, confidence[rows], sharper[rows])
            cases.setdefault(f"ts, then logits x {factor:g}", []).append(monitors(c, right[rows].astype(float)))
        luck = np.repeat(rng.random((BATCHES, ROWS // 10)), 10, axis=1)
        together = np.where(rng.random(rows.shape) < 0.95, luck, rng.random(rows.shape)) < confidence[rows]
        units = Units.of(np.repeat(np.arange(ROWS // 10), 10))
        cases.setdefault("calibrated units of 10, taken as rows", []).append(
            monitors(confidence[rows], together.astype(float))
        )
        cases.setdefault("calibrated units of 10, with units", []).append(
            monitors(confidence[rows], together.astype(float), units)
        )
    return cases


def main(arguments: list[str]) -> None:
    runs = int(arguments[0]) if arguments else 100
    sources: dict[str, Stream] = {"simulated": simulated()}
    for path in arguments[1:]:
        with np.load(path) as file:
            sources[Path(path).stem] = file["logits"].astype(float), file["labels"]
    for name, (z, y) in sources.items():
        print(f"\n{name}: {runs} streams\n")
        cases = streams(z, y, runs)
        print("| case | " + " | ".join(next(iter(cases.values()))[0]) + " |")
        print("|---|" + "---|" * 5)
        for case, alarms in cases.items():
            change = CHANGE if "then" in case else BATCHES
            cells = []
            for monitor in alarms[0]:
                at = [alarm[monitor] for alarm in alarms]
                false = sum(a is not None and a < change for a in at) / runs
                delays = [a - change + 1 for a in at if a is not None and a >= change]
                later = f", {len(delays) / runs:.2f} in {np.median(delays):.0f}" if delays else ""
                cells.append(f"{false:.2f}{later}")
            print(f"| {case} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
