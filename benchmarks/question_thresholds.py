"""How often do thresholds of a log of decisions break their promise?

``python benchmarks/question_thresholds.py [SETS] [--record FILE.json]`` draws SETS
(1000) labelled sets of 100, 300 and 1000 records with three questions, searches every
threshold of ``calcli threshold LOG`` for an accuracy of .9 (whole records: .72) at level
.95, and holds it against 100 000 fresh records whose true chances are known. Printed is how often fewer
are right among the accepted ones than was asked for, which should be at most .05, and
the mean coverage.

The generator shares nothing with the fit: chances are Dirichlet and beta draws that a
record's own ease sharpens, so that the questions of a record depend on each other; what
is said are these chances bent by a power, and rounded to two decimals. *flat* is the
hardest case: every accepted answer is right with chance .895, whatever it says.

threshold, confidence : of the largest probability, and of the log's own field. cuts :
yes and no, broken where either is. precision : of yes alone. record : of whole records.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from _stored import Lines, mean

from calcli.evaluation.question_thresholds import Answers, Demand, Records, thresholds

ACCURACY, LEVEL = 0.9, 0.95
FLAT = 0.895
OF_RECORDS = 0.72
"""Accuracy that is asked of whole records: just above the .717 of the flat ones."""

SIZES = (100, 300, 1000)
FRESH = 100_000

QUESTIONS: Mapping[str, tuple[str, str, int, float]] = {
    "team": ("choice", "certainty", 5, 1.7),
    "urgency": ("score", "closeness_to_mode", 4, 1.3),
    "refund": ("yes/no", "largest", 2, 0.6),
}
"""Type, formula of the confidence, options, and the power that bends the chances."""

BASE = {5: [0.1, 0.3, 0.2, 0.15, 0.1], 4: [0.05, 0.2, 0.1, 0.1]}


def chances(name: str, ease: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """True probabilities (n, k) of the options."""
    k = QUESTIONS[name][2]
    if k == 2:
        p = rng.beta(0.25, 0.35, size=len(ease))
        drawn = np.stack([1.0 - p, p], axis=1)
    else:
        drawn = rng.dirichlet(BASE[k], size=len(ease))
    drawn = np.maximum(drawn, 1e-6) ** ease[:, None]
    return drawn / drawn.sum(axis=1, keepdims=True)


def said(truth: np.ndarray, power: float) -> np.ndarray:
    """What the model says: chances to a power, with two decimals that sum to 1."""
    bent = truth**power
    shares = np.round(bent / bent.sum(axis=1, keepdims=True), 2)
    rows = np.arange(len(shares))
    shares[rows, shares.argmax(axis=1)] += 1.0 - shares.sum(axis=1)
    return np.round(shares, 2)


def answers(
    n: int, flat: bool, rng: np.random.Generator
) -> tuple[dict[str, Answers], dict[str, np.ndarray]]:
    """Answers of n records by question, and the true chance of every option."""
    ease = rng.gamma(4.0, 0.35, size=n) + 0.3
    made, truths = {}, {}
    for name, (kind, formula, k, power) in QUESTIONS.items():
        truth = chances(name, ease, rng)
        shares = said(truth, power)
        best = shares.argmax(axis=1)
        if flat:
            truth = np.full((n, k), (1.0 - FLAT) / (k - 1))
            truth[np.arange(n), best] = FLAT
        below = truth.cumsum(axis=1) < rng.random(n)[:, None]
        made[name] = Answers(
            question=name,
            type=kind,
            classes=("no", "yes") if k == 2 else tuple(map(str, range(k))),
            probabilities=shares,
            n_options=np.full(n, k),
            prediction=best,
            confidence=shares.max(axis=1),
            label=np.minimum(below.sum(axis=1), k - 1),
            formula=formula,
            records=[(str(row), 0) for row in range(n)],
            unit_names=None,
        )
        truths[name] = truth
    return made, truths


def outcome(
    accepted: np.ndarray, chance: np.ndarray, asked: float = ACCURACY
) -> tuple[bool, float]:
    """Whether too few of the accepted are right, and the coverage."""
    if not accepted.any():
        return False, 0.0
    return float(chance[accepted].mean()) < asked, float(accepted.mean())


class Fresh:
    """Fresh records, with what every threshold is compared to."""

    def __init__(self, flat: bool, rng: np.random.Generator) -> None:
        self.answers, truths = answers(FRESH, flat, rng)
        rows = np.arange(FRESH)
        self.truths = truths
        self.wire = {
            name: made.wire_confidence() for name, made in self.answers.items()
        }
        self.right = {
            name: truths[name][rows, made.prediction]
            for name, made in self.answers.items()
        }
        self.product = np.prod([each.confidence for each in self.answers.values()], 0)
        self.all_right = np.prod(list(self.right.values()), axis=0)


def broken(made: Mapping[str, Answers], fresh: Fresh) -> dict[str, tuple[bool, float]]:
    """Outcome of every threshold of one labelled set."""
    demand = Demand(ACCURACY, {}, LEVEL)
    found: dict[str, tuple[bool, float]] = {}
    records = Records()
    for name, each in made.items():
        facts = thresholds(each, demand)
        records.add(each)
        confidence, right = fresh.answers[name].confidence, fresh.right[name]
        found[f"{name}: threshold"] = outcome(
            confidence >= above(facts["threshold"]), right
        )
        found[f"{name}: confidence"] = outcome(
            fresh.wire[name] >= above(facts["confidence_threshold"]), right
        )
    cuts = thresholds(made["refund"], demand)["cuts"]
    sides = [side(cuts["no"], 0, fresh, True), side(cuts["yes"], 1, fresh, True)]
    found["refund: cuts"] = (any(s[0] for s in sides), sum(s[1] for s in sides))
    alone = thresholds(made["refund"], Demand(None, {"yes": ACCURACY}, LEVEL))
    found["refund: precision"] = side(alone["cuts"]["yes"], 1, fresh, False)
    record = records.threshold(OF_RECORDS, LEVEL)
    least = above(record["threshold"])
    found["record"] = outcome(fresh.product >= least, fresh.all_right, OF_RECORDS)
    return found


def above(threshold: float | None) -> float:
    """A threshold that accepts nothing where there is none."""
    return 2.0 if threshold is None else threshold


def side(
    cut: Mapping[str, Any], option: int, fresh: Fresh, is_predicted: bool
) -> tuple[bool, float]:
    """Outcome of the cut of one option."""
    refund = fresh.answers["refund"]
    accepted = refund.probabilities[:, option] >= above(cut["threshold"])
    if is_predicted:
        accepted &= refund.prediction == option
    return outcome(accepted, fresh.truths["refund"][:, option])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", type=int, nargs="?", default=1000)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    lines = Lines(args.record)
    for flat in (False, True):
        fresh = Fresh(flat, np.random.default_rng([7, flat]))
        for n in SIZES:
            found: dict[str, list[tuple[bool, float]]] = {}
            for each in range(args.sets):
                rng = np.random.default_rng([int(flat), n, each])
                made, _ = answers(n, flat, rng)
                for name, result in broken(made, fresh).items():
                    found.setdefault(name, []).append(result)
            for name, results in found.items():
                lines.add(
                    answers="flat" if flat else "varied",
                    records=n,
                    threshold=name,
                    broken=mean([float(result[0]) for result in results]),
                    coverage=mean([result[1] for result in results]),
                )


if __name__ == "__main__":
    main()
