"""Candidates of ``auto``, and their fits.

Which methods a problem of a given size can carry.
"""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from calcli.calibrator import Calibrator, Context, Fit, Options
from calcli.composition import Composition, FittedPrefixes
from calcli.errors import FitError
from calcli.methods._temperature import USUAL_PRIOR
from calcli.numerics import softmax
from calcli.registry import (
    method,
    parse_options,
    spelled,
    split_list,
    split_method,
    stages_of,
)
from calcli.rows import Rows

CONFIDENCE = (
    "mline, platt(smooth=true), mline(shape=beta), mline(shape=bend), venn-abers,"
    " logit-spline"
)
TWO = (
    "ts, platt(smooth=true), mline, mline(shape=beta), mline(shape=bend), venn-abers,"
    " logit-spline, mono, ft, iop, svs(lambda=0.1)"
)
FEW = (
    "ts, mono, iop, iop+mono(iop.knots=6), svs, svs(lambda=0.1), sms, sms(lambda=0.1),"
    " iop+ft+svs, iop+ft+sms, mono+ft+svs, mono+ft+sms(sms.lambda=0.2),"
    " iop+mono+sms(iop.knots=6;sms.lambda=0.2), ms-odir(lambda=1;final=refit)"
)
LONG = (
    "ts, mono, iop, svs(lambda=0.1), sms(lambda=0.1), iop+ft+svs, iop+ft+sms,"
    " ms-odir(lambda=1;final=refit)"
)
"""From ``LONG_SCORES`` scores on: with many rows the strength of a ridge hardly
matters.
"""
MATRIX = (
    "ts, mono, iop, iop+mono(iop.knots=4), iop+mono(iop.knots=6), sms(lambda=1),"
    " ft+sms(sms.lambda=1), iop+ft+sms(sms.lambda=1)"
)
"""With matrix scaling in place of vector scaling, up to ``MATRIX_CLASSES``: beyond, it
costs more than all else."""
MANY = (
    "ts, ft, mono, iop, iop+mono(iop.knots=4), iop+mono(iop.knots=6), ft+svs,"
    " iop+ft+svs, ft+svs+beta"
)
"""``mono`` bends log-probabilities, ``iop`` logits. Few rows cannot tell which is
right, so the lists, also for few classes, hold both in sequence too: a stiff curve of
the logits, then one of the log-probabilities.
"""

FEW_CLASSES = 12
MATRIX_CLASSES = 50
LONG_SCORES = 40_000

PER_CLASS = {"svs", "sms", "ms-odir", "dir-odir", "vs", "ms", "dir"}
"""Methods with parameters of every class, which rows of few classes judge."""

HOLDING = {"svs", "sms"}
"""Those of them that can leave the probability of some classes as it is."""

HOLDING_LEVEL = 0.01
"""Classes without rows are held where the chance that calibrated scores lack such
classes is at most this.
"""
HOLDING_SHARE = 0.03
"""They are held too from this share on of all rows that the scores expect of them: what
is lost by learning from few rows that they never come grows with it.
"""

Candidate = tuple[str, Options]  # name and options of a method


def listed(candidates: str) -> list[str]:
    """Methods of a comma-separated list in order, without duplicates."""
    return list(dict.fromkeys(map(spelled, split_list(candidates))))


def default_candidates(n: int, k: int) -> list[str]:
    """Default candidates for n rows of k classes, the cheapest and safest first."""
    if k == 1:
        return listed(CONFIDENCE)
    if k == 2:
        return listed(TWO)
    if k <= FEW_CLASSES:
        return listed(FEW if n * k < LONG_SCORES else LONG)
    return listed(MATRIX if k <= MATRIX_CLASSES else MANY)


@lru_cache(maxsize=256)
def parse_candidate(text: str, alone: bool = False) -> Candidate:
    """Method and options of ``svs`` or ``svs(lambda=0.1;...)``.

    Raises UsageError for unknown names and options. Candidates get the usual prior, so
    that few rows do not sharpen them without end. alone : for the chosen candidate of
    ``rule=best`` or ``one-se``, with its own ``mixture``; an average mixes in the
    uniform distribution once.
    """
    name, typed = split_method(text)
    settings: dict[str, Any] = dict(typed)
    usual = {"mixture": alone, "prior": USUAL_PRIOR}
    for option in msgspec.structs.fields(method(name).Options):
        short = option.encode_name.split(".")[-1]
        is_typed = any(short in key for key in typed)
        if short in usual and not is_typed:
            settings[option.encode_name] = usual[short]
    return name, parse_options(name, settings)


def candidates_for(
    names: Sequence[str], rows: Rows, *, alone: bool
) -> dict[str, Candidate]:
    """Candidates that these rows allow, by name. Raises FitError when none is left."""
    candidates = {}
    for name in names:
        bare, options = parse_candidate(name, alone)
        if method(bare).laws.needs_transforms and not rows.transforms:
            continue
        candidates[name] = bare, method(bare).resolve_options(options, rows.k)
    if not candidates:
        raise FitError(
            "no candidate is left: those listed need scores under transforms, which"
            " this bundle lacks"
        )
    return candidates


def chained(candidates: Mapping[str, Candidate]) -> list[list[str]]:
    """Group candidates by their first stage, so that it is fitted once.

    The longest groups come first. After ``floor``, which takes no time, the second
    stage counts too.
    """
    chains: dict[Any, list[str]] = {}
    for name, candidate in candidates.items():
        stages = stages_of(*candidate)
        length = 2 if stages[0][0] == "floor" else 1
        chains.setdefault(tuple(stages[:length]), []).append(name)
    return sorted(chains.values(), key=len, reverse=True)


def is_per_class(candidate: Candidate) -> bool:
    """True for a candidate with parameters of every class."""
    return uses_any(candidate, PER_CLASS)


def uses_any(candidate: Candidate, methods: Set[str]) -> bool:
    """True for a candidate of which a stage is one of some methods."""
    return any(name in methods for name, _ in stages_of(*candidate))


def that_hold_classes(candidates: Mapping[str, Candidate]) -> dict[str, Candidate]:
    """Candidates that can leave the probability of some classes as it is."""
    holding = {}
    for name, candidate in candidates.items():
        if not uses_any(candidate, PER_CLASS - HOLDING):
            holding[name] = candidate
    return holding


def lacking_classes(rows: Rows) -> list[int]:
    """Classes without a row, of more than two, where the scores expect rows of some.

    Such classes may have been left out where the rows were drawn, and come where the
    calibrator is applied; see ``HOLDING_LEVEL`` and ``HOLDING_SHARE``. Calibrated
    scores lack j given classes with chance at most exp(-m) for m expected rows, one a
    unit (the product of 1 - p is at most that), and any j of k classes with at most as
    many times that chance as there are choices of j.
    """
    if rows.k < 3:
        return []
    absent = np.flatnonzero(np.bincount(rows.labels(), minlength=rows.k) == 0)
    if not len(absent):
        return []
    expected = np.zeros(rows.k)
    for block in rows.blocks():
        expected += softmax(block.z).sum(axis=0)
    units = rows.units()
    rows_per_unit = 1.0 if units is None else rows.n / units.n
    largest_first = np.sort(expected[absent])[::-1] / rows_per_unit
    j = np.arange(1, len(absent) + 1)
    log_choices = np.cumsum(np.log((rows.k - j + 1) / j))
    log_chance = log_choices - np.cumsum(largest_first)
    is_unlikely = log_chance.min() <= math.log(HOLDING_LEVEL)
    is_large = expected[absent].sum() >= HOLDING_SHARE * rows.n
    return absent.tolist() if is_unlikely or is_large else []


def fit_candidate(
    candidate: Candidate, rows: Rows, known: FittedPrefixes, context: Context
) -> Fit[Any]:
    """Fit a candidate.

    known : earlier fits to these rows with the same context.
    """
    name, options = candidate
    cls = method(name)
    if issubclass(cls, Composition):
        return cls.fit_reusing(rows, options, context, known)
    options = cls.resolve_options(options, rows.k)
    key = ((name, options),)
    if key not in known.fits:
        known.fits[key] = cls.fit(rows, options, context)
    return known.fits[key]


def stored_numbers(calibrator: Calibrator) -> int:
    """Count the parameters that a calibrator stores, as a measure of simplicity."""
    if isinstance(calibrator, Composition):
        return sum(stored_numbers(stage.calibrator) for stage in calibrator.stages)
    total = 0
    for parameter in fields(calibrator):
        value = getattr(calibrator, parameter.name)
        if isinstance(value, float) and value == parameter.default:
            continue
        parts = value if isinstance(value, tuple) else (value,)
        numbers = [part for part in parts if isinstance(part, int | float | np.ndarray)]
        total += sum(map(np.size, numbers))
    return total
