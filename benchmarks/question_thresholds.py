"""How often do thresholds of a log of decisions break their promise?

python benchmarks/question_thresholds.py [SETS] [--record FILE.json]

Draws SETS (1000) labelled sets of 100, 300 and 1000 records with three questions, searches
every threshold of ``calcli threshold LOG`` for an accuracy of .9 (whole records: .72) at
level .95, and holds it against 100 000 fresh records whose true chances are known. Printed
is how often fewer are right among the accepted ones than was asked for, which should be at
most .05, and the mean coverage.

The generator shares nothing with the fit: chances are Dirichlet and beta draws that a
record's own ease sharpens, so that the questions of a record depend on each other; what
is said are these chances bent by a power, and rounded to two decimals. *flat* is the
hardest case: every accepted answer is right with chance .895, whatever it says.

threshold, confidence : of the largest probability, and of the log's own field. cuts :
yes and no, broken where either is. precision : of yes alone. record : of whole records.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _measure import parser_of
from _stored import Lines, mean_and_error

from calcli.evaluation.question_thresholds import (
    Answers,
    CutOutput,
    Demand,
    Records,
    thresholds,
)

ACCURACY, LEVEL = 0.9, 0.95
FLAT = 0.895
OF_RECORDS = 0.72
"""Accuracy that is asked of whole records: just above the .717 of the flat ones."""

SIZES = (100, 300, 1000)
FRESH = 100_000


class Question(NamedTuple):
    """Type, formula of the confidence, and the power that bends the chances.

    parameters : of the distribution of the chances: beta for two options, else Dirichlet.
    """

    type: str
    formula: str
    parameters: tuple[float, ...]
    power: float

    @property
    def n_options(self) -> int:
        return len(self.parameters)


QUESTIONS: Mapping[str, Question] = {
    "team": Question("choice", "certainty", (0.1, 0.3, 0.2, 0.15, 0.1), 1.7),
    "urgency": Question("score", "closeness_to_mode", (0.05, 0.2, 0.1, 0.1), 1.3),
    "refund": Question("yes/no", "largest", (0.25, 0.35), 0.6),
}


class Outcome(NamedTuple):
    """Whether too few of the accepted are right, and the share of the accepted."""

    is_broken: bool
    coverage: float


# ---- records whose truth is known


def chances(
    question: Question, ease: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """True probabilities (n, k) of the options."""
    if question.n_options == 2:
        p = rng.beta(*question.parameters, size=len(ease))
        drawn = np.stack([1.0 - p, p], axis=1)
    else:
        drawn = rng.dirichlet(question.parameters, size=len(ease))
    sharpened = np.maximum(drawn, 1e-6) ** ease[:, None]
    return sharpened / sharpened.sum(axis=1, keepdims=True)


def stated(truth: np.ndarray, power: float) -> np.ndarray:
    """What the model says: chances to a power, with two decimals that sum to 1."""
    bent = truth**power
    shares = np.round(bent / bent.sum(axis=1, keepdims=True), 2)
    rows = np.arange(len(shares))
    shares[rows, shares.argmax(axis=1)] += 1.0 - shares.sum(axis=1)
    return np.round(shares, 2)


def answers_of(
    n: int, flat: bool, rng: np.random.Generator
) -> tuple[dict[str, Answers], dict[str, np.ndarray]]:
    """Answers of n records by question, and the true chance of every option."""
    ease = rng.gamma(4.0, 0.35, size=n) + 0.3
    rows = np.arange(n)
    answers, truths = {}, {}
    for name, question in QUESTIONS.items():
        k = question.n_options
        truth = chances(question, ease, rng)
        shares = stated(truth, question.power)
        prediction = shares.argmax(axis=1)
        if flat:
            truth = np.full((n, k), (1.0 - FLAT) / (k - 1))
            truth[rows, prediction] = FLAT
        below = truth.cumsum(axis=1) < rng.random(n)[:, None]
        is_yes_no = question.type == "yes/no"
        answers[name] = Answers(
            question=name,
            type=question.type,
            classes=("no", "yes") if is_yes_no else tuple(map(str, range(k))),
            probabilities=shares,
            n_options=np.full(n, k),
            prediction=prediction,
            confidence=shares.max(axis=1),
            label=np.minimum(below.sum(axis=1), k - 1),
            formula=question.formula,
            records=[(str(row), 0) for row in range(n)],
            unit_names=None,
        )
        truths[name] = truth
    return answers, truths


class Fresh:
    """Fresh records, with what every threshold is compared to.

    log_confidence : by question what its own formula gives. chance_right : by question
    the chance that the prediction is right. product, all_right : the same of records.
    """

    def __init__(self, flat: bool, rng: np.random.Generator) -> None:
        self.answers, self.truths = answers_of(FRESH, flat, rng)
        rows = np.arange(FRESH)
        self.log_confidence = {}
        self.chance_right = {}
        for name, answers in self.answers.items():
            self.log_confidence[name] = answers.wire_confidence()
            self.chance_right[name] = self.truths[name][rows, answers.prediction]
        confidences = [answers.confidence for answers in self.answers.values()]
        self.product = np.prod(confidences, axis=0)
        self.all_right = np.prod(list(self.chance_right.values()), axis=0)


# ---- what becomes of the promises


def outcome(
    accepted: np.ndarray, chance: np.ndarray, demanded: float = ACCURACY
) -> Outcome:
    """accepted, chance : of fresh rows, whether they are, and to be right."""
    if not accepted.any():
        return Outcome(False, 0.0)
    accuracy = float(chance[accepted].mean())
    return Outcome(accuracy < demanded, float(accepted.mean()))


def bound_of(threshold: float | None) -> float:
    """A threshold that accepts nothing where there is none."""
    return 2.0 if threshold is None else threshold


def outcomes(answers: Mapping[str, Answers], fresh: Fresh) -> dict[str, Outcome]:
    """What becomes of every threshold of one labelled set."""
    demand = Demand(ACCURACY, {}, LEVEL)
    by_threshold: dict[str, Outcome] = {}
    records = Records()
    for name, of_question in answers.items():
        records.add(of_question)
        facts = thresholds(of_question, demand)
        chance = fresh.chance_right[name]
        bound = bound_of(facts.threshold)
        accepted = fresh.answers[name].confidence >= bound
        by_threshold[f"{name}: threshold"] = outcome(accepted, chance)
        bound = bound_of(facts.confidence_threshold)
        accepted = fresh.log_confidence[name] >= bound
        by_threshold[f"{name}: confidence"] = outcome(accepted, chance)
    by_threshold["refund: cuts"] = outcome_of_cuts(answers["refund"], demand, fresh)
    precision = Demand(None, {"yes": ACCURACY}, LEVEL)
    cut = thresholds(answers["refund"], precision).cuts["yes"]
    by_threshold["refund: precision"] = outcome_of_cut(
        cut, 1, fresh, is_predicted=False
    )
    bound = bound_of(records.threshold(OF_RECORDS, LEVEL).threshold)
    by_threshold["record"] = outcome(
        fresh.product >= bound, fresh.all_right, OF_RECORDS
    )
    return by_threshold


def outcome_of_cuts(answers: Answers, demand: Demand, fresh: Fresh) -> Outcome:
    """Broken where the cut of no or that of yes is; their coverages add."""
    cuts = thresholds(answers, demand).cuts
    no = outcome_of_cut(cuts["no"], 0, fresh, is_predicted=True)
    yes = outcome_of_cut(cuts["yes"], 1, fresh, is_predicted=True)
    return Outcome(no.is_broken or yes.is_broken, no.coverage + yes.coverage)


def outcome_of_cut(
    cut: CutOutput, option: int, fresh: Fresh, *, is_predicted: bool
) -> Outcome:
    """is_predicted : the cut accepts only rows that predict this option."""
    refund = fresh.answers["refund"]
    accepted = refund.probabilities[:, option] >= bound_of(cut.threshold)
    if is_predicted:
        accepted &= refund.prediction == option
    return outcome(accepted, fresh.truths["refund"][:, option])


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("sets", type=int, nargs="?", default=1000)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    lines = Lines(args.record)
    for flat in (False, True):
        fresh = Fresh(flat, np.random.default_rng([7, flat]))
        for n in SIZES:
            by_threshold: dict[str, list[Outcome]] = {}
            for number in range(args.sets):
                rng = np.random.default_rng([int(flat), n, number])
                answers, _ = answers_of(n, flat, rng)
                for name, one in outcomes(answers, fresh).items():
                    by_threshold.setdefault(name, []).append(one)
            for name, several in by_threshold.items():
                lines.add(
                    answers="flat" if flat else "varied",
                    records=n,
                    threshold=name,
                    broken=mean_and_error([float(one.is_broken) for one in several]),
                    coverage=mean_and_error([one.coverage for one in several]),
                )


if __name__ == "__main__":
    main()
