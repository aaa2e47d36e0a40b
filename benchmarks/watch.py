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
certain rows: this share of the rows has confidence 1, as a softmax that rounds; they are right as often as they say
until batch 20, and then so often. The other rows are exactly calibrated throughout.
at the edge: exactly calibrated but for the tolerance: every row is right less often by .02.
watch of calcli 0.2: the 41 bends alone, tolerance .02.
"""

import argparse
import math
import warnings
from pathlib import Path

import numpy as np
from _stored import Lines

import calcli
from calcli.numerics import softmax
from calcli.statistics.betting import BENDS, Evidence, batch_log_factors
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
        evidence = evidence_of(c, y, units, tolerance)
        found[f"watch, tolerance {tolerance:g}"] = first(evidence >= math.log(20))
        if tolerance:
            former = evidence_of(c, y, units, tolerance, bends_alone=True)
            found["watch of calcli 0.2"] = first(former >= math.log(20))
    return found


def evidence_of(
    c: np.ndarray,
    y: np.ndarray,
    units: Units | None,
    tolerance: float,
    bends_alone: bool = False,
) -> np.ndarray:
    """Log evidence after each batch, until the first alarm of both kinds of watch; then
    infinite. bends_alone : with the alternatives of calcli 0.2."""
    evidence, logs = Evidence.none(), np.full(len(c), np.inf)
    for batch in range(len(c)):
        factors = batch_log_factors(c[batch], y[batch], tolerance, units)
        evidence = evidence.after(factors)
        logs[batch] = evidence.log_e
        if bends_alone:
            mean = np.exp(np.minimum(evidence.log_sums[: len(BENDS)], 700.0)).mean()
            logs[batch] = math.log(mean + 1.0 / (batch + 2.0))
        if logs[batch] >= math.log(20):
            break
    return logs


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

    true = softmax(z / calcli.fit(z, y, method="ts").params["temperature"])
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
                / calcli.fit(z[order[:1000]], own[order[:1000]], method="ts").params[
                    "temperature"
                ]
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
        edge = np.clip(confidence[rows] - 0.02, 0.0, 1.0)
        watched("at the edge", confidence[rows], rng.random(rows.shape) < edge)
        for share, truth in ((0.12, 0.8), (0.12, 0.9), (0.5, 0.95)):
            certain = rng.random(rows.shape) < share
            c = np.where(certain, 1.0, confidence[rows])
            changed = certain & (np.arange(BATCHES)[:, None] >= CHANGE)
            case = f"{share:.0%} certain rows, then {truth:.0%} right"
            watched(case, c, rng.random(rows.shape) < np.where(changed, truth, c))
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
