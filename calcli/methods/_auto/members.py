"""Members of the average of ``auto``: which, with what weights, and their final fits."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calcli.calibrator import Context, Fit
from calcli.composition import Composition, FittedPrefixes
from calcli.items import picked
from calcli.methods._auto.candidates import (
    Candidate,
    candidates_for,
    chained,
    fit_candidate,
)
from calcli.methods._auto.held_out import CHEAP_SCORES
from calcli.methods._auto.likelihood_weights import LEAST_WEIGHT
from calcli.methods._auto.progress import Work, cost_of
from calcli.methods._auto.trials import (
    FINAL,
    FINAL_MANY,
    Trial,
    standardised_mean,
)
from calcli.methods._auto.weights import (
    PRIOR_ROWS,
    PRIOR_ROWS_PER_CLASS,
    floored,
    share_of_safe,
    share_of_sigmoid,
    sparse_weights,
)
from calcli.methods._temperature import BRACKET
from calcli.numerics import FloatArray, shares_of
from calcli.parallel import in_order
from calcli.rows import Rows

PLAIN = "prior=0"  # option of temperature scaling
SIGMOID = "platt(smooth=true)"  # the safe candidate of two classes
FEW_ROWS = 2000
"""Rows up to which a safe candidate takes over weight where the average's gain over it is
unsure.
"""


def safe_candidates(first: str, rows: Rows) -> dict[str, Candidate]:
    """Choose the candidate that may take over weight where few rows are wrong.

    Temperature scaling without a prior, as a second candidate: the prior is too strong
    for underconfident scores.
    """
    if rows.k < 3 or rows.n > FEW_ROWS:
        return {}
    return candidates_for([f"{first}({PLAIN})"], rows, alone=False)


def weighed(
    trials: Sequence[Trial], rows: Rows, held_rows: Rows
) -> tuple[list[Trial], FloatArray]:
    """Members of the average and their weights. held_rows : those of the trials."""
    share = shares_of(held_rows.weights(), held_rows.n)
    able = [trial for trial in trials if not trial.failed]
    plain = [trial for trial in able if trial.name.endswith(f"({PLAIN})")]
    weighable = [trial for trial in able if trial not in plain] or able
    log_p = np.stack([trial.log_p for trial in weighable], axis=-1)
    log_p = floored(log_p, rows.effective_n, rows.k)
    prior = PRIOR_ROWS + PRIOR_ROWS_PER_CLASS * rows.k / rows.effective_n
    kept, weights = sparse_weights(log_p, share, prior)
    members = [weighable[j] for j in kept]
    if rows.k < 2 or rows.n > FEW_ROWS:
        return members, weights
    # A safe member takes over weight where the average's gain over it is unsure.
    if rows.k == 2:
        safe = smoothed_sigmoid(weighable)
    else:
        safe = safest(weighable[0], plain, share)
    if safe is None:
        return members, weights
    mixture = np.logaddexp.reduce(log_p[..., kept] + np.log(weights), axis=2)
    safe_log_p = floored(safe.log_p, rows.effective_n, rows.k)
    gain = (mixture - safe_log_p).mean(axis=0)
    z = standardised_mean(gain, share, held_rows.units())
    moved = share_of_sigmoid(z) if rows.k == 2 else share_of_safe(z, wrong(held_rows))
    if moved < LEAST_WEIGHT:
        return members, weights
    return leaning_on(safe, moved, members, weights)


def leaning_on(
    safe: Trial, moved: float, members: list[Trial], weights: FloatArray
) -> tuple[list[Trial], FloatArray]:
    """The average with a share of all weight moved to one trial.

    Members whose weight has become too small are left out.
    """
    if safe not in members:
        members = [safe, *members]
        weights = np.append(0.0, weights)
    is_safe = np.array([member is safe for member in members])
    weights = (1.0 - moved) * weights + moved * is_safe
    heavy = np.flatnonzero(weights >= LEAST_WEIGHT)
    return [members[j] for j in heavy], weights[heavy] / weights[heavy].sum()


def wrong(rows: Rows) -> int:
    """Number of rows that the scores predict wrongly."""
    n_wrong = 0
    for block in rows.blocks():
        n_wrong += int((block.original_prediction != block.labels).sum())
    return n_wrong


def smoothed_sigmoid(trials: Sequence[Trial]) -> Trial | None:
    """The trial of the smoothed sigmoid; None where it is no candidate."""
    for trial in trials:
        if trial.name.endswith(SIGMOID):
            return trial
    return None


def safest(first: Trial, plain: Sequence[Trial], share: FloatArray) -> Trial:
    """Choose the first candidate or a plain one that is better on the held-out rows."""
    safe = first
    for trial in plain:
        gain = float(share @ (trial.log_p - safe.log_p).mean(axis=0))
        if gain > 0.0 and not ran_into_bound(trial):
            safe = trial
    return safe


def ran_into_bound(trial: Trial) -> bool:
    """True for a trial of temperature scaling whose temperature ended at its least."""
    least = math.exp(BRACKET[0])
    temperatures = []
    for calibrator in trial.fits.values():
        if isinstance(calibrator, Composition):
            calibrator = calibrator.stages[-1].calibrator
        temperatures.append(getattr(calibrator, "temperature", least))
    return min(temperatures) <= least * (1.0 + 1e-6)


def refitted(
    members: Sequence[Trial], rows: Rows, work: Work, context: Context
) -> dict[str, Fit[Any]]:
    """Fits of the members to all rows, from their first fits on."""
    by_name = {member.name: member for member in members}
    chains = chained({name: member.candidate for name, member in by_name.items()})

    def fit(chain: list[str]) -> dict[str, Fit[Any]]:
        known = FittedPrefixes()
        fits = {}
        for name in chain:
            member = by_name[name]
            piece = work.begin(cost_of(member.candidate))
            nearby = Context(
                context.seed,
                context.device,
                piece.walked,
                start=member.calibrator,
                loose=FINAL if rows.n * rows.k <= CHEAP_SCORES else FINAL_MANY,
                held=context.held,
            )
            fits[name] = fit_candidate(member.candidate, rows, known, nearby)
            piece.end()
        return fits

    whole: dict[str, Fit[Any]] = {}
    for fits in in_order(fit, chains):
        whole |= fits
    return picked(whole, by_name)


def joint_warnings(fits: Mapping[str, Fit[Any]]) -> tuple[str, ...]:
    """List the warnings of the members, each once.

    Under the member's name, or alone if several have it.
    """
    members: dict[str, list[str]] = {}
    for name, fit in fits.items():
        for warning in fit.warnings:
            members.setdefault(warning, []).append(name)
    warnings = []
    for warning, names in members.items():
        if len(names) == 1:
            warning = f"{names[0]}: {warning}"
        warnings.append(warning)
    return tuple(warnings)
