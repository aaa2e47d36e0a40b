"""Candidates of ``auto``: which methods a problem of a given size can carry, fitted and scored fold by fold."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, fields
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from calcli.calibrator import Calibrator, Context, Curves, Fit, Options
from calcli.composition import Composition, Known
from calcli.errors import CalcliError
from calcli.fast_dataclass import dataclass
from calcli.numerics import FloatArray, IntArray
from calcli.parallel import in_order
from calcli.registry import method, parse_options, spelled, split_list, split_method
from calcli.rows import ArrayRows, Rows, ScoreKind

TWO = "ts, platt, beta, quadratic, logit-spline, mono, ft, iop, svs(lambda=0.1)"
FEW = (
    "ts, mono, iop, iop+mono(iop.knots=6), svs, svs(lambda=0.1), sms, sms(lambda=0.1), iop+ft+svs, iop+ft+sms,"
    " mono+ft+svs, mono+ft+sms(sms.lambda=0.2), iop+mono+sms(iop.knots=6;sms.lambda=0.2), ms-odir(lambda=1;final=refit)"
)
LONG = "ts, mono, iop, svs(lambda=0.1), sms(lambda=0.1), iop+ft+svs, iop+ft+sms, ms-odir(lambda=1;final=refit)"
"""From ``LONG_SCORES`` on: the strength of a ridge no longer shows in many rows, and time does."""

MANY = "ts, ft, mono, iop, iop+mono(iop.knots=4), iop+mono(iop.knots=6), ft+svs, iop+ft+svs, ft+svs+beta"
"""``mono`` bends log-probabilities, ``iop`` logits: few rows do not tell which is right, so a stiff curve of the
logits with one of the log-probabilities after it stands beside them, for few classes too."""

MATRIX = "ft+sms(sms.lambda=1)"
"""With a matrix of weights for many classes: where there are 20 rows per class and at most 50 classes,
beyond which it costs more than all others together."""

FEW_CLASSES, LONG_SCORES = 12, 40_000

KEPT_BYTES = 1 << 27
"""Logits in float64 up to this size are held in memory: they are walked over hundreds of times."""


@dataclass
class Trial:
    """One candidate: log-probabilities of the labels and Brier scores of held-out rows, (draws, n) each.

    parameters : stored numbers. failed : why it could not be fitted. seconds : spent on it, of this machine's clock.
    """

    name: str
    log_p: FloatArray
    brier: FloatArray
    parameters: int = 0
    failed: str = ""
    seconds: float = field(default=0.0, compare=False)


def listed(candidates: str) -> list[str]:
    """Methods in a comma-separated list, in order, each once."""
    return list(dict.fromkeys(map(spelled, split_list(candidates))))


def default_candidates(n: int, k: int) -> list[str]:
    """What ``auto`` weighs for n rows of k classes when nothing is said; the cheapest and safest first."""
    if k == 2:
        return listed(TWO)
    if k <= FEW_CLASSES:
        return listed(FEW if n * k < LONG_SCORES else LONG)
    return listed(f"{MANY}, {MATRIX}" if n >= 20 * k and k <= 50 else MANY)


@lru_cache(maxsize=256)
def parse_candidate(text: str) -> tuple[str, Options]:
    """Method and options of ``svs`` or ``svs(lambda=0.1;...)``; ``mixture`` is on where a method has it.

    Raises UsageError for unknown names and options.
    """
    name, given = split_method(text)
    struct = method(name).Options
    for option in msgspec.structs.fields(struct):
        if option.encode_name.split(".")[-1] == "mixture" and not any("mixture" in key for key in given):
            given[option.encode_name] = "true"
    return name, parse_options(name, given)


def fit_candidate(text: str, rows: Rows, known: Known, context: Context, start: Calibrator | None = None) -> Fit[Any]:
    """Fit a candidate; ``known`` holds what these rows have seen already, ``start`` is where a search may begin."""
    name, options = parse_candidate(text)
    cls = method(name)
    quiet = Context(context.seed, context.device, start=start)
    if issubclass(cls, Composition):
        return cls.fit_reusing(rows, options, quiet, known)
    options = cls.resolve_options(options, rows.k)
    key = ((name, options),)
    if key not in known.fits:
        known.fits[key] = cls.fit(rows, options, quiet)
    alone: Fit[Any] = known.fits[key]
    return alone


def in_memory(rows: Rows, index: IntArray | None = None) -> Rows:
    """The rows (those at ``index``) as float64 logits in memory, where they are small and have no transforms."""
    rows = rows if index is None else rows.take(index)
    if rows.transforms or 8 * rows.n * rows.k > KEPT_BYTES:
        return rows
    kind: ScoreKind = "logits" if rows.kind == "logits" else "log_probs"
    return ArrayRows(rows.logits(), rows.labels(), kind, weight=rows.weights())


def cross_validate(
    names: Sequence[str], rows: Rows, draws: IntArray, context: Context, budget: float | None
) -> tuple[list[Trial], dict[str, Fit[Any]]]:
    """Fit every candidate to all rows, then to all folds but one, and score the rows left out.

    draws : (draws, n) the fold of every row, in each draw of folds.

    The fits to all rows come first, so that each fit to a part begins near its end; they are
    returned by name. Folds are worked on side by side where there are processors; the numbers do not depend on that.

    budget : seconds for everything; candidates that would exceed it, in the order of the
    list, are left out (the first never is).
    """
    trials = [Trial(name, np.empty(draws.shape), np.empty(draws.shape)) for name in names]
    parts_of = [(draw, i) for draw, fold in enumerate(draws) for i in range(int(fold.max()) + 1)]
    fits: dict[str, Fit[Any]] = {}
    started, known = time.monotonic(), Known()
    for done, trial in enumerate(trials):
        context.progress(f"fitting {trial.name}", done, len(trials))
        if budget is not None and done and (time.monotonic() - started) * (len(parts_of) + 1) > budget:
            trial.failed = f"left out: the budget of {budget:g} s was spent"
            continue
        with tried(trial):
            fits[trial.name] = fit_candidate(trial.name, rows, known, context)
            trial.parameters = stored_numbers(fits[trial.name].calibrator)

    def score(part_of: tuple[int, int]) -> list[Trial]:
        """The candidates on one fold, with values at its rows only."""
        draw, i = part_of
        held, known = draws[draw] == i, Known()
        learn, test = in_memory(rows, np.flatnonzero(~held)), in_memory(rows, np.flatnonzero(held))
        parts = [Trial(trial.name, np.empty(test.n), np.empty(test.n)) for trial in trials]
        for part in parts:
            if part.name in fits:
                with tried(part):
                    near = fits[part.name].calibrator
                    calibrator = fit_candidate(part.name, learn, known, context, near).calibrator
                    part.log_p[:], part.brier[:] = held_out(calibrator, test)
        return parts

    for done, ((draw, i), parts) in enumerate(zip(parts_of, in_order(score, parts_of), strict=True)):
        context.progress("cross-validating", done + 1, len(parts_of))
        held = draws[draw] == i
        for trial, part in zip(trials, parts, strict=True):
            trial.log_p[draw, held], trial.brier[draw, held] = part.log_p, part.brier
            trial.failed = trial.failed or part.failed
            trial.seconds += part.seconds
    return trials, fits


@contextmanager
def tried(trial: Trial) -> Iterator[None]:
    """Count the seconds, and take an error of the candidate for a result."""
    began = time.monotonic()
    try:
        yield
    except (CalcliError, np.linalg.LinAlgError, FloatingPointError) as error:
        trial.failed = str(error)
    trial.seconds += time.monotonic() - began


def held_out(calibrator: Calibrator, rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Log-probability of the label and Brier score (summed over classes) of every row."""
    log_p_y, brier = np.empty(rows.n), np.empty(rows.n)
    for block in rows.blocks([rows.transforms.index(spec) for spec in calibrator.required_transforms]):
        to = slice(block.start, block.start + len(block))
        log_p = calibrator.apply(block).log_probs
        log_p_y[to] = log_p[np.arange(len(block)), block.labels]
        brier[to] = np.exp(2 * log_p).sum(axis=1) - 2 * np.exp(log_p_y[to]) + 1
    return log_p_y, brier


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

    values = [(getattr(calibrator, parameter.name), parameter.default) for parameter in fields(calibrator)]
    return sum(count(value) for value, default in values if not (isinstance(value, float) and value == default))
