"""What follows the average of ``auto``.

Predictions may be kept, and a last step is fitted to held-out rows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calcli.calibrator import Context
from calcli.composition import Stage
from calcli.folds import content_folds
from calcli.mapped_rows import mapped
from calcli.methods._auto.held_out import Plan
from calcli.methods._auto.trials import Trial, brier_scores, standardised_mean
from calcli.methods._groups import ByOptions
from calcli.methods.keep import Keep
from calcli.methods.mono import SharedMonotone, SharedMonotoneOptions
from calcli.methods.ts_by import TemperatureByGroup
from calcli.mixture import Member, Mixture
from calcli.numerics import FloatArray, shares_of
from calcli.rows import ArrayRows, Rows
from calcli.statistics.units import Units

# Predictions of three and more classes may change where the held-out Brier score is
# lower by so many standard errors than with them kept,
BRIER_ERRORS = 3.5
# or where they are right more often at this level of an exact one-sided test.
LEVEL = 0.001

LEAST_ROWS = 2000  # held-out rows below which nothing is fitted to them
FOLDS = 5
BY_PREDICTION = ByOptions(by="prediction", tau=200.0**-0.5, guard=False)
"""Temperatures by predicted class: log T has a normal prior that weighs as much as 200
rows of information one.
"""
GENTLE = SharedMonotoneOptions(smooth=30.0, prior=0.25)


def out_of_fold(
    kind: type[Mixture],
    trials: Sequence[Trial],
    weights: FloatArray,
    uniform: float,
    rows: Rows,
    plan: Plan,
    draw: int,
) -> ArrayRows:
    """Held-out rows of a draw under the average, each by fits that did not see it."""
    parts = [part for part in plan.parts if part[0] == draw]
    index = np.concatenate([plan.held(part) for part in parts])
    log_p = []
    for part in parts:
        members = []
        for trial, weight in zip(trials, weights, strict=True):
            members.append(Member(*trial.candidate, trial.fits[part], float(weight)))
        average = kind(tuple(members), uniform)
        held_rows = rows.take(plan.held(part))
        transforms = held_rows.places_of(average.required_transforms)
        blocks = held_rows.blocks(transforms)
        log_p += [average.mean(block).log_probs for block in blocks]
    order = np.argsort(index)
    tested = rows.take(index)
    predictions = [block.original_prediction for block in tested.blocks()]
    made = ArrayRows(
        np.concatenate(log_p)[order],
        tested.labels(),
        "log_probs",
        weight=tested.weights(),
        units=tested.units(),
    )
    made.original = np.concatenate(predictions)
    return made


# ---- kept predictions


@dataclass(frozen=True)
class Predictions:
    """Whether predictions are kept, and what held-out rows say of changing them.

    rows : held-out rows. changed : those whose prediction the average would change.
    accuracy_difference : accuracy with changed predictions minus accuracy with kept
    ones. brier_z : by how many standard errors changing lowers the Brier score. p_value
    : of the exact test that changed predictions are not right more often.
    """

    kept: bool
    rows: int
    changed: int
    accuracy_difference: float
    brier_z: float
    p_value: float

    @property
    def helps(self) -> bool:
        """True if changing predictions is shown to help."""
        return self.brier_z > BRIER_ERRORS or self.p_value < LEVEL

    def record(self) -> dict[str, Any]:
        """Numbers to record in an artifact."""
        return {
            "kept": self.kept,
            "rows": self.rows,
            "changed": self.changed,
            "accuracy_difference": self.accuracy_difference,
            "brier_z": self.brier_z,
            "p_value": self.p_value,
        }


def judged_predictions(draws: Sequence[ArrayRows], keep: bool | None) -> Predictions:
    """Decide whether predictions are kept.

    draws : the same held-out rows under the average, in every draw of folds;
    differences are those in the mean over draws. keep : the decision where the user has
    made it.
    """
    first = draws[0]
    y = first.labels()
    original = first.original
    assert original is not None
    share = shares_of(first.weights(), first.n)
    gain = np.zeros(first.n)
    right = np.zeros(first.n)
    changed = np.zeros(first.n)
    for rows in draws:
        kept = mapped(rows, Keep())
        gain += brier_scores(kept.array(), y) - brier_scores(rows.scores, y)
        prediction = rows.scores.argmax(axis=1)
        right += (prediction == y).astype(float) - (original == y)
        changed += prediction != original
    gain /= len(draws)
    right /= len(draws)
    judgement = Predictions(
        kept=False,
        rows=first.n,
        changed=round(float(changed.sum()) / len(draws)),
        accuracy_difference=float(share @ right),
        brier_z=standardised_mean(gain, share, first.units()),
        p_value=better_p_value(right, first.units()),
    )
    if keep is None:
        keep = first.k > 2 and not judgement.helps
    return replace(judgement, kept=keep)


def better_p_value(difference: FloatArray, units: Units | None) -> float:
    """Test "no more often better than worse", one-sided and exact, by unit.

    This is McNemar's test. difference : (n,) above 0 for better rows, below for worse
    ones.
    """
    sums = difference if units is None else units.sums(difference)
    n_better = int((sums > 0).sum())
    n = n_better + int((sums < 0).sum())
    counts = np.arange(1, n + 1)
    # logarithms of the binomial coefficients of n over 0, 1, ..., n
    steps = np.log((n - counts + 1) / counts)
    log_ways = np.concatenate([[0.0], np.cumsum(steps)])
    return float(np.exp(log_ways[n_better:] - n * math.log(2.0)).sum())


# ---- the last step


@dataclass(frozen=True)
class LastStep:
    """Stages that follow the average.

    rows : the held-out rows behind all stages. unfitted_rows : those behind the
    projection alone, as the other stages were fitted to them.
    """

    stages: tuple[Stage, ...]
    rows: Rows
    unfitted_rows: Rows
    record: Mapping[str, Any]


def by_prediction_gain(rows: Rows, seed: int) -> float:
    """Gain in mean log-probability by temperatures by predicted class, cross-fitted."""
    fold = content_folds(rows, FOLDS, seed)
    gains = TemperatureByGroup.held_out_gain(rows, BY_PREDICTION, fold)
    return float(np.average(gains, weights=rows.weights()))


def last_step(rows: ArrayRows, *, keep: bool, context: Context) -> LastStep:
    """Fit the stages that follow the average to held-out rows.

    The projection comes first where predictions are kept. Then, from 2000 rows on,
    temperatures by predicted class where cross-fitting shows a gain, and a gentle
    monotone map. Neither changes predictions. There are no temperatures by predicted
    class where classes are held: all rows that such a class is predicted for are wrong.
    """
    stages: list[Stage] = []
    record: dict[str, Any] = {}
    if keep:
        stages.append(Stage("keep", Keep.Options(), Keep()))
    unfitted: Rows = mapped(rows, Keep()) if keep else rows
    current = unfitted
    if current.n < LEAST_ROWS:
        return LastStep(tuple(stages), current, unfitted, record)
    if not context.held:
        gain = by_prediction_gain(current, context.seed)
        record["by_prediction_gain"] = gain
        if gain > 0.0:
            by_class = TemperatureByGroup.around_one(current, BY_PREDICTION)
            stages.append(Stage("ts-by", BY_PREDICTION, by_class))
            current = mapped(current, by_class)
    quiet = Context(context.seed, context.device)
    bent = SharedMonotone.fit(current, GENTLE, quiet)
    if bent.status == "ok":
        stages.append(Stage("mono", GENTLE, bent.calibrator))
        current = mapped(current, bent.calibrator)
    record["stages"] = [stage.method for stage in stages]
    return LastStep(tuple(stages), current, unfitted, record)
