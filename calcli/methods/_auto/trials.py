"""Trial of candidates on held-out rows of the calibration data."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from calcli.calibrator import Calibrator, Context
from calcli.composition import Composition, FittedPrefixes
from calcli.errors import CalcliError
from calcli.folds import content_order, sampled_folds
from calcli.items import picked
from calcli.mapped_rows import mapped
from calcli.methods._auto.candidates import (
    Candidate,
    chained,
    fit_candidate,
    is_per_class,
)
from calcli.methods._auto.held_out import (
    CHEAP_SCORES,
    Part,
    Plan,
    in_memory,
    rows_of_some_classes,
)
from calcli.methods._auto.likelihood_weights import LEAST_WEIGHT, likelihood_weights
from calcli.methods._auto.progress import Work, cost_of
from calcli.numerics import FloatArray, IntArray, in_column, shares_of
from calcli.parallel import in_order
from calcli.registry import stages_of
from calcli.rows import Rows
from calcli.statistics.units import Units

BEHIND = 4.0
"""Standard errors of the paired difference to the best from which a candidate is left
out.
"""
FEWEST_TO_JUDGE = 500  # held-out rows below which no candidate is left out early
FEWEST_SAMPLED = 1000  # rows of the sample on which all candidates are tried first
# What the last Newton step of a fit may promise, in nats. A step leaves a small part of
# what it promises.
TRIAL = 3e-4  # of candidates that are compared
FINAL = 1e-7  # of members of the average
FINAL_MANY = 1e-4  # of members beyond ``CHEAP_SCORES``

# a part, what gives its training rows and held-out rows, and candidates
Task = tuple[Part, Callable[[], tuple[Rows, Rows]], list[str]]


@dataclass(frozen=True)
class Trial:
    """Result of trying one candidate.

    log_p, brier : log-probabilities of the labels and Brier scores of the held-out
    rows, (draws, m). fits : the calibrator fitted without each part. failed : why it
    has no result, or empty. seconds : time spent on it, by this machine's clock.
    """

    name: str
    candidate: Candidate
    log_p: FloatArray = field(default_factory=lambda: np.empty(0))
    brier: FloatArray = field(default_factory=lambda: np.empty(0))
    fits: Mapping[Part, Calibrator] = field(default_factory=dict)
    failed: str = ""
    seconds: float = field(default=0.0, compare=False)

    @property
    def calibrator(self) -> Calibrator:
        """The first of the fits."""
        return next(iter(self.fits.values()))

    def on(self, places: IntArray) -> "Trial":
        """The same on some of the held-out rows alone."""
        if self.failed:
            return self
        return replace(self, log_p=self.log_p[:, places], brier=self.brier[:, places])


# ---- one candidate on one part


@dataclass(frozen=True)
class Outcome:
    """Fit of a candidate to some rows, and its losses on others, (rows,) each."""

    calibrator: Calibrator | None = None
    log_p: FloatArray = field(default_factory=lambda: np.empty(0))
    brier: FloatArray = field(default_factory=lambda: np.empty(0))
    failed: str = ""
    seconds: float = 0.0


def tried(
    candidate: Candidate,
    learn: Rows,
    scored: "ScoredRows",
    known: FittedPrefixes,
    context: Context,
) -> Outcome:
    """Fit a candidate and score it on held-out rows; records errors in ``failed``."""
    began = time.monotonic()
    try:
        fit = fit_candidate(candidate, learn, known, context)
        log_p, brier = scored.losses(candidate, fit.calibrator)
    except (CalcliError, np.linalg.LinAlgError, FloatingPointError) as error:
        return Outcome(failed=str(error), seconds=time.monotonic() - began)
    return Outcome(fit.calibrator, log_p, brier, "", time.monotonic() - began)


class ScoredRows:
    """Held-out rows, and what the first stages of compositions made of them."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.after: dict[tuple[Candidate, ...], Rows] = {}

    def losses(
        self, candidate: Candidate, calibrator: Calibrator
    ) -> tuple[FloatArray, FloatArray]:
        """Score every row under a candidate's fit.

        Returns log-probabilities of the labels and Brier scores, (n,) each.
        """
        rows = self.rows
        if isinstance(calibrator, Composition):
            stages = stages_of(*candidate)
            for i, stage in enumerate(calibrator.stages[:-1]):
                prefix = tuple(stages[: i + 1])
                if prefix not in self.after:
                    self.after[prefix] = mapped(rows, stage.calibrator)
                rows = self.after[prefix]
            calibrator = calibrator.stages[-1].calibrator
        return losses_of(calibrator, rows)


def losses_of(calibrator: Calibrator, rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Log-probability of the label and Brier score (summed over classes) of every row.

    Of confidences, of the outcome right or wrong.
    """
    log_p_y = np.empty(rows.n)
    brier = np.empty(rows.n)
    for block in rows.blocks(rows.places_of(calibrator.required_transforms)):
        part = block.span
        prediction = calibrator.apply(block)
        if rows.kind == "confidence":
            wrong = block.labels == 0
            p = np.where(wrong, 1.0 - prediction.confidence, prediction.confidence)
            with np.errstate(divide="ignore"):
                log_p_y[part] = np.log(p)
            brier[part] = (1.0 - p) ** 2
            continue
        log_p = prediction.log_probs
        log_p_y[part] = in_column(log_p, block.labels)
        brier[part] = brier_scores(log_p, block.labels)
    return log_p_y, brier


def brier_scores(log_p: FloatArray, y: IntArray) -> FloatArray:
    """Brier score of every row, (n,), summed over classes."""
    p = np.exp(log_p)
    p_y = in_column(p, y)
    return np.einsum("ij,ij->i", p, p) - 2.0 * p_y + 1.0


# ---- all candidates on all parts


class Trying:
    """Trial of candidates, part by part.

    The candidates are fitted without the first part; those that are clearly behind on
    it are left out; the others are fitted without each further part, from their first
    fit on. Candidates with the same first stage are one task. Tasks run in parallel
    where there are processors; results do not depend on that.
    """

    def __init__(
        self,
        candidates: Mapping[str, Candidate],
        rows: Rows,
        plan: Plan,
        context: Context,
        budget: float | None,
    ) -> None:
        self.candidates = candidates
        self.rows = rows
        self.plan = plan
        self.context = context
        self.budget = budget
        self.began = time.monotonic()
        self.starts: dict[str, Calibrator] = {}
        self.left_out: dict[str, str] = {}
        self.outcomes: dict[str, dict[Part, Outcome]] = {
            name: {} for name in candidates
        }
        self.first_name = next(iter(candidates))
        self.work = Work(context.progress, sum(self.costs(1 + len(plan.parts))))

    def costs(self, fits: float) -> list[float]:
        """Expected costs of fitting each candidate that is still in so many times."""
        return [fits * cost_of(self.candidates[name]) for name in self.remaining]

    @property
    def remaining(self) -> list[str]:
        """Candidates that are neither left out nor have failed, in their order."""
        names = []
        for name, outcomes in self.outcomes.items():
            has_failed = any(outcome.failed for outcome in outcomes.values())
            if name not in self.left_out and not has_failed:
                names.append(name)
        return names

    def results(self) -> list[Trial]:
        """Try all candidates; returns their trials in the order of the list."""
        self.sample_first()
        first, *others = self.plan.parts
        self.fit_first(first)
        self.leave_out_after(first)
        self.work.expect(self.costs(len(others) + 1))
        if others:
            self.fit_others(first, others)
        return [self.trial(name) for name in self.candidates]

    def trial(self, name: str) -> Trial:
        """Collect the outcomes of a candidate."""
        outcomes = self.outcomes[name]
        seconds = sum(outcome.seconds for outcome in outcomes.values())
        failed = self.left_out.get(name, "")
        for outcome in outcomes.values():
            failed = failed or outcome.failed
        if failed:
            return Trial(name, self.candidates[name], failed=failed, seconds=seconds)
        shape = (len(self.plan.fold), len(self.plan.index))
        log_p = np.empty(shape)
        brier = np.empty(shape)
        fits = {}
        for part, outcome in outcomes.items():
            places = self.plan.places(part)
            log_p[part[0], places] = outcome.log_p
            brier[part[0], places] = outcome.brier
            if outcome.calibrator is not None:
                fits[part] = outcome.calibrator
        return Trial(name, self.candidates[name], log_p, brier, fits, seconds=seconds)

    # ---- the first part

    def fit_first(self, part: Part) -> None:
        """Fit the candidates without the first part, and score them on it."""
        learn, held_rows = self.plan.split(self.rows, part)
        scored = ScoredRows(held_rows)
        remaining = picked(self.candidates, self.remaining)
        chains = chained(remaining) if self.budget is None else [list(remaining)]

        def fit(chain: list[str]) -> dict[str, Outcome]:
            known = FittedPrefixes()
            outcomes = dict[str, Outcome]()
            for name in chain:
                if outcomes and self.is_too_long():
                    why = f"left out: the budget of {self.budget:g} s was spent"
                    outcomes[name] = Outcome(failed=why)
                    continue
                outcomes[name] = self.outcome(name, learn, scored, known, self.starts)
            return outcomes

        for outcomes in in_order(fit, chains):
            for name, outcome in outcomes.items():
                self.outcomes[name][part] = outcome

    def outcome(
        self,
        name: str,
        learn: Rows,
        scored: ScoredRows,
        known: FittedPrefixes,
        starts: Mapping[str, Calibrator],
    ) -> Outcome:
        """Try one candidate; from an earlier fit on, loosely, where there is one."""
        piece = self.work.begin(cost_of(self.candidates[name]))
        start = starts.get(name)
        context = Context(
            self.context.seed,
            self.context.device,
            piece.walked,
            start=start,
            loose=TRIAL,
            held=self.context.held,
        )
        outcome = tried(self.candidates[name], learn, scored, known, context)
        piece.end()
        return outcome

    def is_too_long(self) -> bool:
        """Test whether all parts and the last fit would exceed the budget.

        They take as long as the fits so far.
        """
        if self.budget is None:
            return False
        spent = time.monotonic() - self.began
        return spent * (len(self.plan.parts) + 1) > self.budget

    def leave_out_after(self, part: Part) -> None:
        """Leave out candidates that are clearly behind on a part."""
        outcomes = {name: self.outcomes[name][part] for name in self.remaining}
        held_rows = self.rows.take(self.plan.held(part))
        self.leave_out_behind(outcomes, held_rows, self.remaining)

    # ---- the other parts

    def fit_others(self, first: Part, others: Sequence[Part]) -> None:
        """Fit the remaining candidates without each other part.

        They begin at their first fits.
        """
        starts = {}
        for name in self.remaining:
            calibrator = self.outcomes[name][first].calibrator
            if calibrator is not None:
                starts[name] = calibrator
        remaining = picked(self.candidates, self.remaining)
        chains = chained(remaining)

        def tasks() -> Iterator[Task]:
            for part in others:
                # The chains of a part share its rows, which the first of them takes.
                halves = cache(lambda part=part: self.plan.split(self.rows, part))
                for chain in chains:
                    yield part, halves, chain

        def fit(task: Task) -> tuple[Part, dict[str, Outcome]]:
            part, halves, chain = task
            learn, held_rows = halves()
            scored = ScoredRows(held_rows)
            known = FittedPrefixes()
            outcomes = {}
            for name in chain:
                outcomes[name] = self.outcome(name, learn, scored, known, starts)
            return part, outcomes

        for part, outcomes in in_order(fit, tasks()):
            for name, outcome in outcomes.items():
                self.outcomes[name][part] = outcome

    # ---- a sample of many rows, before all

    def sample_first(self) -> None:
        """With many rows, try all candidates on a sample of them.

        Those that are clearly behind are left out, and the others begin at their fits.
        What has parameters of every class is judged on rows of fewer classes, as many
        of each as there are.
        """
        n = self.rows.n
        k = self.rows.k
        count = min(CHEAP_SCORES // k, n // 10)
        is_small = n * k <= CHEAP_SCORES or count < FEWEST_SAMPLED
        if is_small or self.budget is not None:
            return
        draw, number = self.plan.parts[0]
        order = content_order(self.rows, self.context.seed)
        learned = order[self.plan.fold[draw][order] != number]
        learn = in_memory(self.rows.take(learned[:count]))
        judge = in_memory(self.rows.take(learned[count : 2 * count]))
        shared = [
            name for name in self.candidates if not is_per_class(self.candidates[name])
        ]
        outcomes = self.tried_on(shared, learn, judge)
        for name, outcome in outcomes.items():
            if outcome.calibrator is not None:
                self.starts[name] = outcome.calibrator
        self.leave_out_behind(outcomes, judge, shared)
        self.judge_per_class()

    def judge_per_class(self) -> None:
        """Leave out candidates that are clearly behind on rows of fewer classes."""
        per_class = [
            name for name in self.remaining if is_per_class(self.candidates[name])
        ]
        sample = rows_of_some_classes(self.rows, self.context.seed)
        if sample is None or not per_class:
            return
        fold = sampled_folds(sample, 5, self.context.seed)
        learn = sample.take(np.flatnonzero(fold != 0))
        judge = sample.take(np.flatnonzero(fold == 0))
        outcomes = self.tried_on(self.remaining, learn, judge)
        self.leave_out_behind(outcomes, judge, per_class)

    def tried_on(
        self, names: Sequence[str], learn: Rows, judge: Rows
    ) -> dict[str, Outcome]:
        """Outcomes of candidates on a sample, those of failed ones left out."""
        share = learn.n * learn.k / (self.rows.n * self.rows.k)
        chains = chained(picked(self.candidates, names))

        def fit(chain: list[str]) -> dict[str, Outcome]:
            scored = ScoredRows(judge)
            known = FittedPrefixes()
            outcomes = {}
            for name in chain:
                piece = self.work.begin(share * cost_of(self.candidates[name]))
                context = Context(
                    self.context.seed,
                    self.context.device,
                    piece.walked,
                    loose=TRIAL,
                )
                outcome = tried(self.candidates[name], learn, scored, known, context)
                piece.end()
                if not outcome.failed:
                    outcomes[name] = outcome
            return outcomes

        whole: dict[str, Outcome] = {}
        for outcomes in in_order(fit, chains):
            whole |= outcomes
        return whole

    def leave_out_behind(
        self, outcomes: Mapping[str, Outcome], judge: Rows, only: Sequence[str]
    ) -> None:
        """Leave out those of some candidates that are clearly behind the best."""
        log_p = {name: outcome.log_p for name, outcome in outcomes.items()}
        behind = clearly_behind(log_p, judge.weights(), judge.units())
        helpful = set()
        if behind and self.rows.n * self.rows.k <= CHEAP_SCORES:
            helpful = helpful_in_average(log_p, shares_of(judge.weights(), judge.n))
        for name, reason in behind.items():
            if name in only and name != self.first_name and name not in helpful:
                self.left_out[name] = reason


def clearly_behind(
    log_p: Mapping[str, FloatArray], weight: FloatArray | None, units: Units | None
) -> dict[str, str]:
    """Candidates that are clearly behind the best, with the reason.

    log_p : log-probabilities of the labels of the same held-out rows, (n,) by
    candidate.
    """
    if not log_p:
        return {}
    nll = {name: -values for name, values in log_p.items()}
    n = len(next(iter(nll.values())))
    if n < FEWEST_TO_JUDGE:
        return {}
    share = shares_of(weight, n)
    best = min(nll.values(), key=lambda losses: float(share @ losses))
    reasons = {}
    for name, losses in nll.items():
        z = standardised_mean(losses - best, share, units)
        if z > BEHIND:
            gap = float(share @ (losses - best))
            reasons[name] = (
                f"left out: NLL {gap:.4f} above the best on {n} held-out rows,"
                f" {z:.1f} standard errors"
            )
    return reasons


def helpful_in_average(log_p: Mapping[str, FloatArray], share: FloatArray) -> set[str]:
    """Candidates with weight in the average, whether or not they are good alone.

    log_p : as for ``clearly_behind``. share : (n,) weights of the rows, of sum 1.
    """
    weights = likelihood_weights(np.stack(list(log_p.values()), axis=1)[None], share)
    helpful = set()
    for name, weight in zip(log_p, weights.tolist(), strict=True):
        if weight >= LEAST_WEIGHT:
            helpful.add(name)
    return helpful


def standardised_mean(
    values: FloatArray, share: FloatArray, units: Units | None
) -> float:
    """Divide the weighted mean of values (n,) by its standard error, by unit.

    It is 0 where all are equal. share : (n,) weights that sum to 1.
    """
    mean = float(share @ values)
    residual = share * (values - mean)
    sums = residual if units is None else units.sums(residual)
    error = float(np.sqrt(sums @ sums))
    if error <= 1e-12 * abs(mean):
        return 0.0
    return mean / error
