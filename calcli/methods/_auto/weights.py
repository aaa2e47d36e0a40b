"""Weights of the average, and the choice of one candidate.

Both from held-out log-probabilities.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calcli.methods._auto.candidates import stored_numbers
from calcli.methods._auto.likelihood_weights import LEAST_WEIGHT, likelihood_weights
from calcli.methods._auto.trials import Trial
from calcli.numerics import FloatArray

MEMBERS = 6
# Prior weight of the first candidate (temperature scaling) in rows, 1 + 10 k / n for n
# rows of k classes. It falls from one standard error above the best held-out NLL on, to
# 0 at ``FADED`` standard errors.
PRIOR_ROWS = 1.0
PRIOR_ROWS_PER_CLASS = 10.0
FADED = 1.5
FLOOR_ROWS = 0.1
"""Weight of the uniform distribution, in rows of n + 1, in the held-out probabilities
that determine the weights, so that none of them can cost 20 nats.
"""
# A safe candidate takes over the share (SAFE_ROWS / (SAFE_ROWS + wrong rows))^2 of all
# weight where the average's gain over it is at most UNSURE standard errors, none from
# SURE on: held-out rows that are nearly all right cannot tell sharp members from safe
# ones.
SAFE_ROWS = 5.0
UNSURE = 1.0
SURE = 3.0
# For two classes the smoothed sigmoid takes over this share, and none at the end of the
# ramp. The prior weight of temperature scaling is far from safe there: it has no bias.
SIGMOID_SHARE = 0.4
SIGMOID_RAMP = (0.5, 2.0)


def sparse_weights(
    log_p: FloatArray, share: FloatArray, prior: float
) -> tuple[list[int], FloatArray]:
    """Indices and weights of the candidates to keep: at most six, none below 1 %.

    log_p : (draws, n, m). prior : prior weight of the first candidate in rows (see
    ``FADED``).
    """
    mean_log_p = log_p.mean(axis=0)
    best = int(np.argmax(share @ mean_log_p))
    behind = mean_log_p[:, best] - mean_log_p[:, 0]
    mean = float(share @ behind)
    error = max(float(np.sqrt(share**2 @ (behind - mean) ** 2)), 1e-300)
    prior_rows = prior * float(np.interp(mean, [error, FADED * error], [1.0, 0.0]))
    w = likelihood_weights(log_p, share, prior_rows)
    heaviest = sorted(np.argsort(-w, kind="stable")[:MEMBERS].tolist())
    kept = [j for j in heaviest if w[j] >= LEAST_WEIGHT]
    if kept[0] != 0:
        prior_rows = 0.0
    w = likelihood_weights(log_p[..., kept], share, prior_rows)
    kept = [j for j, weight in zip(kept, w, strict=True) if weight >= LEAST_WEIGHT]
    w = w[w >= LEAST_WEIGHT]
    return kept, w / w.sum()


def floored(log_p: FloatArray, n: float, k: int) -> FloatArray:
    """Mix a little of the uniform distribution in, for n fitted rows."""
    floor = FLOOR_ROWS / (n + 1)
    return np.logaddexp(log_p + np.log1p(-floor), np.log(floor / max(k, 2)))


def share_of_safe(z: float, n_wrong: int) -> float:
    """Share of all weight that a safe candidate takes over (see ``SAFE_ROWS``).

    z : held-out gain of the average over it in standard errors. n_wrong : number of
    held-out rows that the scores predict wrongly.
    """
    ramp = float(np.interp(z, [UNSURE, SURE], [1.0, 0.0]))
    return ramp * (SAFE_ROWS / (SAFE_ROWS + n_wrong)) ** 2


def share_of_sigmoid(z: float) -> float:
    """Share of all weight that the smoothed sigmoid takes over, for two classes.

    z : held-out gain of the average over it in standard errors.
    """
    return float(np.interp(z, SIGMOID_RAMP, [SIGMOID_SHARE, 0.0]))


# ---- the choice of one candidate


def table_of(
    trials: Sequence[Trial], share: FloatArray, criterion: str
) -> dict[str, dict[str, Any]]:
    """Make the table's rows, by name.

    A row holds the mean held-out loss, the paired difference to the best, and standard
    errors.
    """
    losses = {}
    for trial in trials:
        if trial.failed:
            continue
        if criterion == "brier":
            losses[trial.name] = trial.brier.mean(axis=0)
        else:
            losses[trial.name] = -trial.log_p.mean(axis=0)
    best = min(losses.values(), key=lambda loss: float(share @ loss))
    table: dict[str, dict[str, Any]] = {}
    for trial in trials:
        if trial.failed:
            table[trial.name] = {"method": trial.name, "failed": trial.failed}
            continue
        loss = losses[trial.name]
        mean = float(share @ loss)
        difference = loss - best
        table[trial.name] = {
            "method": trial.name,
            "parameters": stored_numbers(trial.calibrator),
            criterion: mean,
            "error": float(np.sqrt(share**2 @ (loss - mean) ** 2)),
            "difference": float(share @ difference),
            "standard_error": guarded_error(difference, share),
        }
    return table


def guarded_error(difference: FloatArray, share: FloatArray) -> float:
    """Standard error of a weighted mean of independent rows.

    A row that makes more than half of its square is left out.
    """
    squares = share**2 * (difference - share @ difference) ** 2
    total = float(squares.sum())
    largest = float(squares.max())
    if largest > 0.5 * total:
        total -= largest
    return float(np.sqrt(total))


def pick(table: Mapping[str, dict[str, Any]], rule: str, criterion: str) -> str:
    """Choose a candidate by ``best`` or ``one-se``; the first among equals."""
    good = [row for row in table.values() if "failed" not in row]
    by = criterion
    if rule == "one-se":
        good = [row for row in good if row["difference"] <= row["standard_error"]]
        by = "parameters"
    return str(min(good, key=lambda row: row[by])["method"])
