"""Does ``calcli watch`` keep its promise, and how soon does it find a change? Beside monitors that people use.

``python benchmarks/watch.py [RUNS] [DATA.npz …] [--record FILE.json]`` takes RUNS (100) streams of 60 batches of 100
rows from each file of logits (else simulated ones), with a change after batch 20, and prints by monitor the share of
streams with an alarm before the change (or ever, where there is none), then the share found after it and the median
delay in batches.

exactly calibrated: the labels are drawn from the confidences. ts of 1000 rows, true model: from those of the
temperature of all rows, to 1000 of which ts is then fitted. ts of 1000 rows, no change: the labels of the file, which
a temperature fits more or less well: how far off it is, is what the file shows.
each batch: a z test of every batch at 5 %. all so far: a z test of all rows so far at 5 %, after every batch.
running mean: the mean overconfidence so far beyond .02 (as glide monitors it, two-sided here).
"""

import argparse
import math
import warnings
from pathlib import Path

import numpy as np
from _stored import Lines

import calcli
from calcli.numerics import softmax
from calcli.statistics.betting import Evidence, batch_log_factors
from calcli.statistics.units import Units

BATCHES, ROWS, CHANGE = 60, 100, 20
Stream = tuple[np.ndarray, np.ndarray]


def first(flags: np.ndarray) -> int | None:
    """The first batch with an alarm."""
    return int(flags.argmax()) if flags.any() else None


def monitors(
    c: np.ndarray, y: np.ndarray, units: Units | None = None
) -> dict[str, int | None]:
    """First alarm of each monitor; c, y : (batches, rows)."""
    gap, variance = (c - y).sum(axis=1), (c * (1 - c)).sum(axis=1)
    found = {
        "each batch": first(np.abs(gap) > 1.96 * np.sqrt(variance)),
        "all so far": first(np.abs(gap.cumsum()) > 1.96 * np.sqrt(variance.cumsum())),
        "running mean": first(
            np.abs(gap.cumsum()) > 0.02 * c.shape[1] * np.arange(1, len(c) + 1)
        ),
    }
    for tolerance in (0.0, 0.02):
        evidence, at = Evidence.none(), None
        for batch in range(len(c)):
            evidence = evidence.after(
                batch_log_factors(c[batch], y[batch], tolerance, units)
            )
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


def drawn(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels by probabilities (n, k)."""
    return np.minimum(
        (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1), p.shape[1] - 1
    )


def streams(
    z: np.ndarray, y: np.ndarray, runs: int
) -> dict[str, list[dict[str, int | None]]]:
    """First alarms of every run, by case."""
    rng = np.random.default_rng(1)
    cases: dict[str, list[dict[str, int | None]]] = {}

    def watched(
        case: str, c: np.ndarray, right: np.ndarray, units: Units | None = None
    ) -> None:
        cases.setdefault(case, []).append(monitors(c, right.astype(float), units))

    true = softmax(z / calcli.fit(z, y).params["temperature"])
    for _ in range(runs):
        order = rng.permutation(len(y))
        pool, rows = order[1000:], rng.integers(0, len(y) - 1000, (BATCHES, ROWS))
        labels = drawn(true, rng)
        for case, own in (
            ("ts of 1000 rows, true model", labels),
            ("ts of 1000 rows, no change", y),
        ):
            scaled = (
                z[pool]
                / calcli.fit(z[order[:1000]], own[order[:1000]]).params["temperature"]
            )
            confidence, right = (
                softmax(scaled).max(axis=1),
                scaled.argmax(axis=1) == own[pool],
            )
            watched(case, confidence[rows], right[rows])
        watched(
            "exactly calibrated",
            confidence[rows],
            rng.random(rows.shape) < confidence[rows],
        )
        for factor in (1.15, 1.3):
            sharper = softmax(scaled * factor).max(axis=1)
            c = np.where(
                np.arange(BATCHES)[:, None] < CHANGE, confidence[rows], sharper[rows]
            )
            watched(f"ts, then logits x {factor:g}", c, right[rows])
        luck = np.repeat(rng.random((BATCHES, ROWS // 10)), 10, axis=1)
        together = (
            np.where(rng.random(rows.shape) < 0.95, luck, rng.random(rows.shape))
            < confidence[rows]
        )
        watched("calibrated units of 10, taken as rows", confidence[rows], together)
        units = Units.of(np.repeat(np.arange(ROWS // 10), 10))
        watched("calibrated units of 10, with units", confidence[rows], together, units)
    return cases


def cell(at: list[int | None], change: int) -> str:
    """Share of streams with a false alarm; share found after the change, and the median delay."""
    false = sum(a is not None and a < change for a in at) / len(at)
    delays = [a - change + 1 for a in at if a is not None and a >= change]
    return f"{false:.3g}" + (
        f"; {len(delays) / len(at):.3g} in {np.median(delays):.0f}" if delays else ""
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="?", type=int, default=100)
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--record", type=Path, help="JSON file for the table")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # a class may have no row
    sources, lines = {} if args.data else {"simulated": simulated()}, Lines(args.record)
    for path in args.data:
        with np.load(path) as file:
            sources[path.stem] = file["logits"].astype(float), file["labels"]
    for name, (z, y) in sources.items():
        for case, alarms in streams(z, y, args.runs).items():
            change = CHANGE if "then" in case else BATCHES
            cells = {
                monitor: cell([alarm[monitor] for alarm in alarms], change)
                for monitor in alarms[0]
            }
            lines.add(file=name, case=case, streams=args.runs, **cells)


if __name__ == "__main__":
    main()
