"""Status, warnings and details of Hoki's rounds."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from calcli.binning import BinStats, mass_edges
from calcli.calibrator import Status
from calcli.methods._hoki.options import HokiOptions
from calcli.methods._hoki.rounds import Design, Evidence, design, width_error
from calcli.numerics import FloatArray

# standard deviation below which retention probabilities do not distinguish rows
SAME_EVERYWHERE = 1e-6

NO_SPREAD = (
    "noise of this scale tells no row from another (their retention probabilities"
    " agree): every row gets the accuracy as its confidence; another scale, or ts,"
    " would serve better"
)


def rounds(
    evidence: Evidence, options: HokiOptions
) -> tuple[Design, Status, list[str]]:
    """Fit the design; returns it with a status and warnings."""
    accuracy = evidence.accuracy
    n = len(evidence.hit)
    if evidence.spread < SAME_EVERYWHERE:
        lines = np.full((1, options.bins), accuracy)
        return Design(lines, lines, np.full(n, accuracy), 1), "degenerate", [NO_SPREAD]
    fitted = design(evidence, options.bins, options.rounds)
    warnings = []
    status: Status = "ok" if fitted.period == 1 else "not_converged"
    if accuracy in (0.0, 1.0):
        if fitted.period == 1:
            status = "degenerate"
        warnings.append(
            f"every prediction on these rows is {'right' if accuracy else 'wrong'}: no"
            f" line can be learnt, and every confidence becomes {accuracy:g}"
        )
    if not fitted.period:
        warnings.append(
            f"the bins still changed after {options.rounds} rounds; more rounds may"
            " settle them"
        )
    elif fitted.period > 1:
        warnings.append(
            f"the bins come back every {fitted.period} rounds and never settle;"
            " the round with the least calibration error was kept"
        )
    if n < 50 * options.bins:
        warnings.append(
            f"{n} rows for {options.bins} bins are few per bin; fewer bins or ts would"
            " serve better"
        )
    return fitted, status, warnings


def report(
    fitted: Design, evidence: Evidence, uncalibrated: FloatArray, bins: int
) -> dict[str, Any]:
    """Details of the design, with metrics other than the one it was tuned to."""
    share = evidence.share

    def scores(q: FloatArray) -> dict[str, float]:
        edges = mass_edges(q, 15, evidence.weight)
        stats = BinStats.of(q, evidence.hit, edges, evidence.weight)
        ece = float(stats.share @ np.abs(stats.gaps))
        return {"ece_mass": ece, "brier_top": float(share @ (q - evidence.hit) ** 2)}

    bins_used = 1
    if len(fitted.alpha) > 1:
        bins_used = int((~np.isnan(fitted.alpha[-1])).sum())
    retention_mean = float(np.average(evidence.gamma, weights=evidence.weight))
    return {
        "rounds": len(fitted.alpha),
        "ended": ("limit", "fixed", "cycle")[min(fitted.period, 2)],
        "period": fitted.period if fitted.period > 1 else 0,
        "bins_used": bins_used,
        "retention_mean": retention_mean,
        "retention_sd": evidence.spread,
        "ece_width": width_error(fitted.confidence, evidence, bins),
        "calibrated": scores(fitted.confidence),
        "uncalibrated": scores(uncalibrated),
    }


def judge(details: dict[str, Any]) -> Iterator[str]:
    """Yield warnings of what the result is worth.

    ts is better (if it is), and the width-bin ECE on the calibration data is no
    evidence.
    """
    after = details["calibrated"]
    before = details["uncalibrated"]
    ts_brier = details["ts_brier_top"]
    if after["brier_top"] > ts_brier:
        yield (
            f"top-label Brier {after['brier_top']:.4f} on these rows, temperature"
            f" scaling {ts_brier:.4f}: the criterion looks for spread, not for skill;"
            " ts would serve better"
        )
    yield (
        f"equal-width ECE on these very rows is {details['ece_width']:.1g} because the"
        " rounds drive it to 0 by construction, which proves nothing; mass-bin ECE"
        f" {before['ece_mass']:.4f} -> {after['ece_mass']:.4f}, top-label Brier"
        f" {before['brier_top']:.4f} -> {after['brier_top']:.4f}: judge on other rows,"
        " beside ts"
    )
