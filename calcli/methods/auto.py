"""``auto``: choose among compositions by cross-validation inside the calibration data."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta

from calcli.calibrator import Calibrator, Chosen, Context, Curves, Fit, Laws, Options
from calcli.composition import Composition, Known
from calcli.errors import CalcliError, FitError, UsageError
from calcli.numerics import NLL_FLOOR, FloatArray, IntArray
from calcli.registry import canonical, method, parse_options
from calcli.rows import Rows

CANDIDATES = (
    *("identity", "ts", "ets", "ft", "mono", "iop", "svs"),
    *("ts+beta", "ft+svs", "ft+svs+beta", "iop+ft", "iop+ft+svs"),
)
LARGE = ("sms", "ft+sms", "ft+sms+beta", "iop+ft+sms")
"""Candidates with a matrix of weights: where there are 20 rows per class and at most 200 classes."""


class AutoOptions(Options, frozen=True):
    """Options of auto."""

    candidates: Annotated[
        str,
        Meta(description="methods and compositions to choose from, separated by commas; empty: a list that fits"),
    ] = ""
    folds: Annotated[int, Meta(ge=2, le=50, description="parts of the cross-validation, stratified by label")] = 5
    criterion: Annotated[Literal["nll", "brier"], Meta(description="mean loss of held-out rows to minimise")] = "nll"
    rule: Annotated[
        Literal["one-se", "best"],
        Meta(description="the simplest within one standard error of the best, or the best"),
    ] = "one-se"


@dataclass(frozen=True)
class Auto(Calibrator):
    """Choose a method or composition by cross-validation inside the calibration data.

    Every candidate, with its default options, is fitted on all folds but one and scored on
    the rows left out; folds are stratified by label. With d_i the difference of a row's loss
    to that of the candidate with the least mean loss, a candidate is as good when mean d is
    at most sd(d) / sqrt(n): the error of a paired difference, many times smaller than that
    of either mean. Of those, the one with the fewest stored numbers is refitted on all rows
    (``rule=best`` takes the least mean loss). The table of the choice is recorded under
    ``auto`` in the details of the fit, and the artifact is that of the chosen method. The
    seed decides the folds. ECE takes no part: it does not reward good probabilities.

    Candidates unless given: identity, ts, ets, ft, mono, iop, svs, ts+beta, ft+svs,
    ft+svs+beta, iop+ft, iop+ft+svs; and sms, ft+sms, ft+sms+beta, iop+ft+sms from 20 rows
    per class on, up to 200 classes.

    Reference: Breiman, Friedman, Olshen, Stone (1984), section 3.4.3 (the one-standard-error rule).
    """

    place: ClassVar[int] = 12
    aliases: ClassVar[tuple[str, ...]] = ("automatic",)
    use: ClassVar[str] = "when you do not want to choose: cross-validation does"
    title: ClassVar[str] = "choice by cross-validation"
    composable: ClassVar[bool] = False
    Options: ClassVar[type[Options]] = AutoOptions
    laws = Laws(weights=True)

    @classmethod
    def fit(cls, rows: Rows, options: AutoOptions, context: Context) -> Fit[Any]:
        """The fit of what was chosen, whose class is that method's."""
        return choose(rows, options, context)

    @classmethod
    def check_options(cls, options: AutoOptions) -> None:
        for name in listed(options.candidates):
            if name == "auto":
                raise UsageError("option candidates of method 'auto': auto cannot choose itself")
            parse_options(name, {})


def listed(candidates: str) -> list[str]:
    """Names in a comma-separated list, in order, each once."""
    return list(dict.fromkeys(canonical(name.strip()) for name in candidates.split(",") if name.strip()))


def default_candidates(n: int, k: int) -> list[str]:
    """What ``auto`` chooses from for n rows of k classes when nothing is said."""
    return [*CANDIDATES, *(LARGE if n >= 20 * k and k <= 200 else ())]


@dataclass
class Trial:
    """One candidate: held-out losses (n,), stored numbers, and the reason why it failed."""

    name: str
    losses: FloatArray
    parameters: int = 0
    failed: str = ""


def choose(rows: Rows, options: AutoOptions, context: Context) -> Fit[Any]:
    """Cross-validate the candidates, pick one, and refit it on all rows."""
    names = listed(options.candidates) or default_candidates(rows.n, rows.k)
    names = [name for name in names if rows.transforms or not method(name).laws.needs_transforms]
    if not names:
        raise FitError("no candidate is left: those listed need scores under transforms, which this bundle lacks")
    folds = stratified_folds(rows.labels(), min(options.folds, rows.n), context.rng())
    if len(folds) < 2:
        # One row cannot be held out; the first candidate is the simplest by convention.
        return refit(names[0], rows, context, [], "there is one row only, too few to choose; took the first candidate")
    trials = [Trial(name, np.empty(rows.n)) for name in names]
    for i, held in enumerate(folds):
        learn, test, known = rows.take(np.setdiff1d(np.arange(rows.n), held)), rows.take(held), Known()
        for j, trial in enumerate(trials):
            context.progress(f"cross-validating {trial.name}", i * len(trials) + j, len(folds) * len(trials))
            if not trial.failed:
                try:
                    calibrator = fit_quietly(trial.name, learn, known, context)
                    trial.losses[held] = held_out_losses(calibrator, test, options.criterion)
                    trial.parameters = max(trial.parameters, stored_numbers(calibrator))
                except CalcliError as error:
                    trial.failed = str(error)
    good = [trial for trial in trials if not trial.failed]
    if not good:
        raise FitError(f"no candidate could be fitted; {trials[0].name}: {trials[0].failed}")
    table, chosen = compare(trials, rows.weights(), options)
    return refit(chosen, rows, context, table, "")


def fit_quietly(name: str, rows: Rows, known: Known, context: Context) -> Calibrator:
    """A candidate fitted with its default options; ``known`` holds what the fold has seen already."""
    cls, options, quiet = method(name), parse_options(name, {}), Context(context.seed, context.device)
    if issubclass(cls, Composition):
        return cls.fit_reusing(rows, options, quiet, known).calibrator
    key = ((name, options),)
    if key not in known.fits:
        known.fits[key] = cls.fit(rows, options, quiet)
    alone: Calibrator = known.fits[key].calibrator
    return alone


def held_out_losses(calibrator: Calibrator, rows: Rows, criterion: str) -> FloatArray:
    """Loss of every row, (n,): NLL with the metric's floor, or the Brier score summed over classes."""
    losses = np.empty(rows.n)
    for block in rows.blocks([rows.transforms.index(spec) for spec in calibrator.required_transforms]):
        log_p = calibrator.apply(block).log_probs
        log_p_y = log_p[np.arange(len(block)), block.labels]
        if criterion == "nll":
            loss = -np.maximum(log_p_y, np.log(NLL_FLOOR))
        else:
            loss = np.exp(2 * log_p).sum(axis=1) - 2 * np.exp(log_p_y) + 1
        losses[block.start : block.start + len(block)] = loss
    return losses


def compare(trials: list[Trial], weight: FloatArray | None, options: AutoOptions) -> tuple[list[dict[str, Any]], str]:
    """The table of the cross-validation, and the name chosen."""
    good = [trial for trial in trials if not trial.failed]
    n = len(good[0].losses)
    share = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()
    best = min(good, key=lambda trial: float(share @ trial.losses))
    rows: dict[str, dict[str, Any]] = {}
    for trial in trials:
        if trial.failed:
            rows[trial.name] = {"method": trial.name, "failed": trial.failed}
            continue
        difference = trial.losses - best.losses
        mean = float(share @ difference)
        # Weights: the variance of a weighted mean of independent rows.
        error = float(np.sqrt((share**2) @ (difference - mean) ** 2))
        rows[trial.name] = {
            "method": trial.name,
            "parameters": trial.parameters,
            options.criterion: float(share @ trial.losses),
            "difference": mean,
            "standard_error": error,
        }
    as_good = [t for t in good if rows[t.name]["difference"] <= rows[t.name]["standard_error"]]
    # Stable: of two with as many numbers the one listed first.
    chosen = best if options.rule == "best" else min(as_good, key=lambda trial: trial.parameters)
    rows[chosen.name]["chosen"] = True
    return list(rows.values()), chosen.name


def refit(name: str, rows: Rows, context: Context, table: list[dict[str, Any]], warning: str) -> Fit[Any]:
    """Fit the chosen candidate on all rows and record how it was chosen."""
    options = parse_options(name, {})
    fit: Fit[Any] = method(name).fit(rows, options, context)
    warnings = (*fit.warnings, warning) if warning else fit.warnings
    details = {**fit.details, "auto": {"chosen": name, "table": table}}
    return Fit(fit.calibrator, fit.status, warnings, details, Chosen(name, options))


def stored_numbers(calibrator: Calibrator) -> int:
    """How many numbers a calibrator holds: the measure of its simplicity."""
    if isinstance(calibrator, Composition):
        return sum(stored_numbers(stage.calibrator) for stage in calibrator.stages)

    def count(value: float | str | Curves | None) -> int:
        if isinstance(value, tuple):
            return sum(curve.size for curve in value)
        if isinstance(value, np.ndarray):
            return value.size
        return int(isinstance(value, int | float))

    return sum(count(getattr(calibrator, parameter.name)) for parameter in fields(calibrator))


def stratified_folds(y: IntArray, folds: int, rng: "np.random.Generator") -> list[IntArray]:
    """Indices of each of ``folds`` parts, sizes differing by at most one, classes spread evenly.

    y : (n,) labels. The rows, shuffled and then sorted by class, are dealt in turn.
    """
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    return [np.sort(order[fold::folds]) for fold in range(folds)]


METHOD = Auto
