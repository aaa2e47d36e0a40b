"""Does ``calcli watch`` keep its promise, and how soon does it find a change? Beside other monitors.

python benchmarks/watch.py [RUNS] [DATA.npz ...] [--record FILE.json]

Takes RUNS (100) streams of 60 batches of 100 rows from each file of logits (else simulated
ones), with a change after batch 20, and prints by monitor the share of streams with an
alarm before the change (or ever, where there is none), then the share found after it and
the median delay in batches.

Cases
exactly calibrated: the labels are drawn from the confidences.
ts of 1000 rows, true model: from those of the temperature of all rows, to 1000 of which ts
is then fitted.
ts of 1000 rows, no change: the labels of the file, which a temperature fits more or less
well: how far off it is, is what the file shows.
certain rows: this share of the rows has confidence 1, as a softmax that rounds; they are
right as often as they say until batch 20, and then so often. The other rows are exactly
calibrated throughout.
at the edge: exactly calibrated but for the tolerance: every row is right less often by .02.

Monitors
each batch: a z test of every batch at 5 %. all so far: a z test of all rows so far at 5 %,
after every batch. running mean: the mean overconfidence so far beyond .02 (as glide
monitors it, two-sided here). watch of calcli 0.2: the 41 bends alone, tolerance .02.
"""

import math
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _draws import draw_labels, draw_labels_of_logits
from _measure import parser_of
from _stored import Lines

import calcli
from calcli.numerics import softmax
from calcli.statistics.betting import BENDS, Evidence, batch_log_factors
from calcli.statistics.units import Units

BATCHES, ROWS, CHANGE = 60, 100, 20
LABELLED = 1000  # rows that ts is fitted to
UNIT_ROWS = 10
SHAPE = (BATCHES, ROWS)
TOLERANCE = 0.02
ALARM = math.log(20)  # log evidence
Z_TEST = 1.96

Alarms = dict[str, int | None]
"""The first batch with an alarm, by monitor."""


class Stream(NamedTuple):
    """Confidences, and whether predictions are right, both (batches, rows); the units of a batch."""

    case: str
    confidence: np.ndarray
    is_right: np.ndarray
    units: Units | None = None


# ---- monitors


def first_alarm(flags: np.ndarray) -> int | None:
    return int(flags.argmax()) if flags.any() else None


def alarms_of(stream: Stream) -> Alarms:
    """First alarm of each monitor."""
    c, y = stream.confidence, stream.is_right.astype(float)
    gap = (c - y).sum(axis=1)
    variance = (c * (1 - c)).sum(axis=1)
    gap_so_far = np.abs(gap.cumsum())
    rows_so_far = c.shape[1] * np.arange(1, len(c) + 1)
    alarms = {
        "each batch": first_alarm(np.abs(gap) > Z_TEST * np.sqrt(variance)),
        "all so far": first_alarm(gap_so_far > Z_TEST * np.sqrt(variance.cumsum())),
        "running mean": first_alarm(gap_so_far > TOLERANCE * rows_so_far),
    }
    for tolerance in (0.0, TOLERANCE):
        evidence = evidence_of(c, y, stream.units, tolerance)
        alarms[f"watch, tolerance {tolerance:g}"] = first_alarm(evidence >= ALARM)
    former = evidence_of(c, y, stream.units, TOLERANCE, bends_alone=True)
    alarms["watch of calcli 0.2"] = first_alarm(former >= ALARM)
    return alarms


def evidence_of(
    c: np.ndarray,
    y: np.ndarray,
    units: Units | None,
    tolerance: float,
    bends_alone: bool = False,
) -> np.ndarray:
    """Log evidence after each batch until the first alarm; after that, infinity.

    bends_alone : with the alternatives of calcli 0.2.
    """
    evidence = Evidence.none()
    logs = np.full(len(c), np.inf)
    for batch in range(len(c)):
        factors = batch_log_factors(c[batch], y[batch], tolerance, units)
        evidence = evidence.after(factors)
        logs[batch] = evidence.log_e
        if bends_alone:
            log_sums = evidence.log_sums[: len(BENDS)]
            mean = np.exp(np.minimum(log_sums, 700.0)).mean()
            logs[batch] = math.log(mean + 1.0 / (batch + 2.0))
        if logs[batch] >= ALARM:
            break
    return logs


# ---- streams


def simulated(k: int = 100, n: int = 8000) -> tuple[np.ndarray, np.ndarray]:
    """Logits that ts can calibrate, and labels."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, k)) * 2.5
    return z * 1.5, draw_labels_of_logits(z, rng)


def temperature_of(z: np.ndarray, labels: np.ndarray) -> float:
    return calcli.fit(z, labels, method="ts").params["temperature"]


def streams_of_one_run(
    z: np.ndarray, labels: np.ndarray, true: np.ndarray, rng: np.random.Generator
) -> list[Stream]:
    """A stream of every case. true : probabilities (n, k) of the true model."""
    order = rng.permutation(len(labels))
    cal, pool = order[:LABELLED], order[LABELLED:]
    rows = rng.integers(0, len(pool), SHAPE)
    drawn = draw_labels(true, rng)
    streams = []
    for case, of_case in (
        ("ts of 1000 rows, true model", drawn),
        ("ts of 1000 rows, no change", labels),
    ):
        scaled = z[pool] / temperature_of(z[cal], of_case[cal])
        c = softmax(scaled).max(axis=1)[rows]
        is_right = (scaled.argmax(axis=1) == of_case[pool])[rows]
        streams.append(Stream(case, c, is_right))

    # From here on scaled, c and is_right are those of the file's labels.
    def calibrated(chance: np.ndarray) -> np.ndarray:
        return rng.random(SHAPE) < chance

    streams.append(Stream("exactly calibrated", c, calibrated(c)))
    is_before = np.arange(BATCHES)[:, None] < CHANGE
    for factor in (1.15, 1.3):
        sharper = softmax(scaled * factor).max(axis=1)[rows]
        case = f"ts, then logits x {factor:g}"
        streams.append(Stream(case, np.where(is_before, c, sharper), is_right))
    streams += streams_in_units(c, rng)
    edge = np.clip(c - TOLERANCE, 0.0, 1.0)
    streams.append(Stream("at the edge", c, calibrated(edge)))
    for share, truth in ((0.12, 0.8), (0.12, 0.9), (0.5, 0.95)):
        is_certain = rng.random(SHAPE) < share
        stated = np.where(is_certain, 1.0, c)
        chance = np.where(is_certain & ~is_before, truth, stated)
        case = f"{share:.0%} certain rows, then {truth:.0%} right"
        streams.append(Stream(case, stated, calibrated(chance)))
    return streams


def streams_in_units(c: np.ndarray, rng: np.random.Generator) -> list[Stream]:
    """Calibrated rows of which most share the luck of their unit."""
    n_units = ROWS // UNIT_ROWS
    luck = np.repeat(rng.random((BATCHES, n_units)), UNIT_ROWS, axis=1)
    is_shared = rng.random(SHAPE) < 0.95
    is_right = np.where(is_shared, luck, rng.random(SHAPE)) < c
    units = Units.of(np.repeat(np.arange(n_units), UNIT_ROWS))
    case = f"calibrated units of {UNIT_ROWS}"
    return [
        Stream(f"{case}, taken as rows", c, is_right),
        Stream(f"{case}, with units", c, is_right, units),
    ]


def alarms_by_case(
    z: np.ndarray, labels: np.ndarray, runs: int
) -> dict[str, list[Alarms]]:
    """First alarms of every run."""
    rng = np.random.default_rng(1)
    true = softmax(z / temperature_of(z, labels))
    cases: dict[str, list[Alarms]] = {}
    for _ in range(runs):
        for stream in streams_of_one_run(z, labels, true, rng):
            cases.setdefault(stream.case, []).append(alarms_of(stream))
    return cases


# ---- the table


def cell(alarms: list[int | None], change: int) -> str:
    """Share of streams with a false alarm; share found after the change, and the median delay."""
    known = [batch for batch in alarms if batch is not None]
    n_false = sum(batch < change for batch in known)
    delays = [batch - change + 1 for batch in known if batch >= change]
    text = f"{n_false / len(alarms):.3g}"
    if delays:
        text += f"; {len(delays) / len(alarms):.3g} in {np.median(delays):.0f}"
    return text


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("runs", nargs="?", type=int, default=100)
    parser.add_argument("data", nargs="*", type=Path)
    parser.add_argument("--record", type=Path, help="JSON file for the table")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # a class may have no row
    sources = {}
    for path in args.data:
        with np.load(path) as file:
            sources[path.stem] = file["logits"].astype(float), file["labels"]
    if not sources:
        sources["simulated"] = simulated()
    lines = Lines(args.record)
    for name, (z, labels) in sources.items():
        for case, runs in alarms_by_case(z, labels, args.runs).items():
            change = CHANGE if "then" in case else BATCHES
            cells = {}
            for monitor in runs[0]:
                cells[monitor] = cell([run[monitor] for run in runs], change)
            lines.add(file=name, case=case, streams=args.runs, **cells)


if __name__ == "__main__":
    main()
