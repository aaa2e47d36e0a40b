"""Hoki's noise: how often predictions survive it, and the choice of its scale."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from calcli.calibrator import Context
from calcli.errors import UsageError
from calcli.folds import content_folds, stratified_folds
from calcli.kernels.device import kernels
from calcli.methods._hoki.options import FAMILIES, HokiOptions
from calcli.methods._hoki.rounds import Evidence, design, fit_lines, replay
from calcli.numerics import FloatArray, IntArray
from calcli.rows import Rows

# least probability of an outcome as scales are compared, so that one row does not
# decide
SURE_MISS = 1e-12


PRINTED = {"gaussian": 20, "uniform": 40, "gumbel": 20}
"""Largest scale of the paper's grids of whole numbers (it has no Gumbel noise)."""


def retention(
    rows: Rows, noise: str, scales: list[float], context: Context, draws: Any = None
) -> FloatArray:
    """Retention probability of every row at every scale, (n, scales)."""

    def report(done: int) -> None:
        context.progress("retention probabilities", done, rows.n)

    rates = kernels(context).retention_rates(rows, noise, scales, draws, report)
    return rates


def listed_scales(text: str) -> list[float]:
    """Scales written with commas, ascending. Raises UsageError for anything else."""
    try:
        scales = sorted({float(part) for part in text.split(",") if part.strip()})
    except ValueError:
        scales = [np.nan]
    if not all(1e-9 <= scale <= 1e9 for scale in scales):
        raise UsageError(
            f"option scales={text!r}: expected numbers from 1e-9 to 1e+09 with commas,"
            " e.g. scales=1,2,4"
        )
    return scales


def searched_families(options: HokiOptions) -> tuple[str, ...]:
    """List the families to search, in the order of FAMILIES.

    Raises UsageError for an unknown name.
    """
    if options.noise != "auto":
        return (options.noise,)
    names = set(map(str.strip, options.families.split(",")))
    if not names <= set(FAMILIES):
        raise UsageError(
            f"option families={options.families!r}: expected some of"
            f" {','.join(FAMILIES)}, with commas"
        )
    return tuple(family for family in FAMILIES if family in names)


def grid(options: HokiOptions, gaps: FloatArray, family: str) -> list[float]:
    """List the scales to search in a family, ascending.

    gaps : (n,) between the two largest logits.
    """
    if options.scale is not None:
        return [options.scale]
    if options.scales:
        return listed_scales(options.scales)
    if options.grid == "printed":
        return list(map(float, range(1, PRINTED[family] + 1)))
    unit = float(np.median(gaps)) or float(gaps.mean()) or 1.0
    return [unit * 2.0 ** (i / 2) for i in range(-6, 7)]


class NoiseChoice(NamedTuple):
    """A family of noise and its scale.

    gamma : (n,) retention probabilities under it. details : of the search. warnings :
    if the scale is an end of the search.
    """

    noise: str
    scale: float
    gamma: FloatArray
    details: dict[str, Any]
    warnings: list[str]


def choose_noise(
    rows: Rows,
    options: HokiOptions,
    context: Context,
    counted: IntArray,
    gaps: FloatArray,
    base: Evidence,
) -> NoiseChoice:
    """Choose the family and scale with the best criterion.

    Ties go to the first family, then to the least scale.
    """
    families = searched_families(options)
    if len(families) == 1 and options.scale is not None:
        gamma = base.gamma
        if options.gamma == "exact":
            gamma = retention(rows, families[0], [options.scale], context)[counted, 0]
        return NoiseChoice(families[0], options.scale, gamma, {}, [])
    criterion = one_bin_sd
    best_of = max
    if options.select == "cv-nll":
        fold = two_folds(rows.take(counted), base.hit, context.seed)
        criterion = partial(cross_validated_nll, fold, options)
        best_of = min
    choices = dict[str, NoiseChoice]()
    best_values = dict[str, float]()
    for family in families:
        scales = grid(options, gaps, family)
        gammas = retention(rows, family, scales, context)[counted]
        values = [criterion(base._replace(gamma=gamma)) for gamma in gammas.T]
        best_values[family] = best_of(values)
        best = values.index(best_values[family])
        details: dict[str, Any] = {
            "scales": scales,
            "select": options.select,
            "criterion": values,
        }
        warnings = []
        is_at_end = best in (0, len(scales) - 1)
        if len(scales) > 1 and np.ptp(values) > 0 and is_at_end:
            end = "largest" if best else "smallest"
            warnings.append(
                f"the best scale {scales[best]:.4g} is the {end} of those searched;"
                " set scale= or scales= to look beyond"
            )
        gamma = gammas[:, best]
        choices[family] = NoiseChoice(family, scales[best], gamma, details, warnings)
    best_family = best_of(best_values, key=best_values.__getitem__)
    choice = choices[best_family]
    if len(choices) > 1:
        choice.details["families"] = best_values
    return choice


def one_bin_sd(evidence: Evidence) -> float:
    """Standard deviation of the confidence when there is one bin, \\|alpha - beta\\|
    sd(gamma).
    """
    alpha, beta = fit_lines(evidence, np.zeros(len(evidence.gamma), dtype=np.int64), 1)
    return abs(float(alpha[0]) - float(beta[0])) * evidence.spread


def two_folds(rows: Rows, hit: FloatArray, seed: int) -> IntArray:
    """Draw a random half (0 or 1) for every row, or for whole units.

    Rows are stratified by right and wrong.
    """
    if rows.units() is not None:
        return content_folds(rows, 2, seed)
    return stratified_folds(rows, hit.astype(np.int64), 2, seed)


def cross_validated_nll(
    fold: IntArray, options: HokiOptions, evidence: Evidence
) -> float:
    """Mean NLL of right/wrong, of each half under the design fitted to the other.

    The rest of a row's vector keeps its proportions, so the NLL of the label differs
    from this by a number that does not depend on the scale.
    """
    total = 0.0
    halves = (0, 1) if np.ptp(fold) else ()
    for half in halves:
        test = evidence.part(fold == half)
        train = evidence.part(fold != half)
        if options.init == "accuracy":
            accuracy = train.accuracy
            test = test._replace(start=np.full(len(test.hit), accuracy))
            train = train._replace(start=np.full(len(train.hit), accuracy))
        fitted = design(train, options.bins, options.rounds)
        q = replay(test.start, test.gamma, fitted.alpha, fitted.beta)
        p_outcome = np.where(test.hit > 0, q, 1.0 - q)
        total -= float(test.weight @ np.log(np.maximum(p_outcome, SURE_MISS)))
    return total / float(evidence.weight.sum())
