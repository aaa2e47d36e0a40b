"""What a fit did to its own rows: its status, and the warnings about it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from calcli.calibrator import Calibrator, Context, Fit, Laws, Options, Status
from calcli.fit_summary import Summary
from calcli.fitting.claims import sharpened_claim
from calcli.io.dataset import DataSet
from calcli.io.row_facts import unwritten
from calcli.kernels.device import idle
from calcli.methods.compared.identity import Identity
from calcli.metrics.collect import CALIBRATED, reduced, summarise
from calcli.metrics.rowtable import RowTable
from calcli.metrics.warnings import data_warnings, zero_warnings
from calcli.numerics import FloatArray, IntArray, row_weights
from calcli.registry import is_by_group, method, without_group
from calcli.rows import Rows
from calcli.statistics.class_ranking import ClassRanking
from calcli.statistics.intervals import mean_of, t_p_value
from calcli.statistics.p_values import p_text
from calcli.statistics.paired import PairedSums, fair_signs
from calcli.statistics.units import Units
from calcli.statistics.weights import effective_number

BELOW_CHANCE = 4.0
"""Standard errors from which an accuracy below 1/k is significant."""

LEAP = 0.1
"""Gain in accuracy that no miscalibration explains, where it at least doubles."""

LEVEL = 0.05
"""Significance level of a lower accuracy."""

WORSE = 1e-9
"""Increase of the NLL above which it is worse; a smaller one is rounding."""

LEAST_SHOWN = 1e-3
"""Loss below which it is shown with digits, not decimals."""

HURT = 1.01
"""Factor above which the Brier score is worse."""

OWN_NOISE = 1.0
"""Rise of a total loss that priors and mixed-in uniform probabilities may cost.

In nats, or Brier points.
"""

CLEARLY = 1.645
"""Standard errors from which the rise of a mean is significant (one-sided, .05)."""


@dataclass(frozen=True)
class FittedRows:
    """A fit, and what it did to the rows that it was made on.

    name, options : of the method, as a search among several has chosen it. rows :
    without those of weight 0. before, after : summaries without and with the calibrator.
    """

    name: str
    options: Options
    result: Fit[Any]
    rows: Rows
    before: Summary
    after: Summary

    @property
    def calibrator(self) -> Calibrator:
        return self.result.calibrator

    @property
    def laws(self) -> Laws:
        return method(self.name).laws

    @property
    def is_of_auto(self) -> bool:
        """True for a fit of ``auto``, for which other methods are no advice."""
        return "auto" in self.result.details


def judged_fit(
    fitted: FittedRows, source: DataSet, context: Context
) -> tuple[Status, list[str]]:
    """Status of a fit, and all warnings about it. source : the rows as they were read."""
    if fitted.rows.kind == "probs" and fitted.after.nll > fitted.before.nll:
        # What zeros count as is more than rows sum to; calibrated rows sum to 1.
        floored = summarise(fitted.rows, Identity(), context.progress)
        fitted = replace(fitted, before=replace(fitted.before, nll=floored.nll))
    worse = worsening(fitted)
    status = fitted.result.status
    claim = None
    if status == "ok":
        claim = sharpened_claim(
            fitted.before, fitted.after, fitted.rows, fitted.calibrator
        )
        claims_too_much = claim is not None and claim.is_too_large
        if worse or claims_too_much or unwritten(source):
            status = "degenerate"
    warnings = [
        *calibration_data_warnings(source, fitted.before, fitted.calibrator.laws),
        *_accuracy_of_chance(fitted),
        *fitted.result.warnings,
        *idle(fitted.name, context),
        *context.notes,
        *fallen_accuracy(fitted),
    ]
    if worse:
        warnings.append(worse)
    if claim is not None and claim.warning is not None:
        warnings.append(claim.warning)
    warnings += _zero_warnings(fitted)
    warnings += _leap_of_accuracy(fitted)
    warnings += risen_losses(
        fitted.before,
        fitted.after,
        nll_is_reported=bool(worse),
        advises=not fitted.is_of_auto,
    )
    warnings += _counted_events(fitted)
    return status, warnings


# ---- the calibration data


def calibration_data_warnings(rows: DataSet, before: Summary, laws: Laws) -> list[str]:
    """Warnings about the calibration data, and about the method on them."""
    classes = int((before.label_counts > 0).sum()) if rows.k > 1 else None
    warnings = [*rows.caveats, *data_warnings(before.n, classes, before.spread)]
    absent = np.flatnonzero(before.label_counts == 0)
    if len(absent):
        have = "has" if len(absent) == 1 else "have"
        warnings.append(
            f"{len(absent)} of {rows.k} classes {have} no row in the calibration data:"
            f" {rows.called(absent)}"
        )
    if before.weighted and not laws.weights:
        warnings.append("the bundle has sample weights, which this method does not use")
    return warnings


# ---- labels that may be of other rows or classes


def _accuracy_of_chance(fitted: FittedRows) -> list[str]:
    """Warning where the accuracy is below that of guesses."""
    before = fitted.before
    k = fitted.rows.k
    if k < 2:
        return []
    accuracy = before.correct / before.weight
    chance = 1.0 / k
    standard_error = np.sqrt(chance * (1.0 - chance) / before.n)
    if accuracy + BELOW_CHANCE * standard_error >= chance or _ranks_well(fitted.rows):
        return []
    return [
        f"accuracy {accuracy:.4f} is below chance ({chance:.4f}): do labels and"
        " scores belong to the same rows and the same order of classes?"
    ]


def _leap_of_accuracy(fitted: FittedRows) -> list[str]:
    """Warning where the accuracy rose by more than miscalibration explains."""
    before = fitted.before.values()["accuracy"]
    after = fitted.after.values()["accuracy"]
    if after <= max(2.0 * before, before + LEAP) or _ranks_well(fitted.rows):
        return []
    return [
        f"accuracy {_rose(before, after)}, more than miscalibration explains: are the"
        " classes of scores and labels in the same order?"
    ]


def _ranks_well(rows: Rows) -> bool:
    """True for two classes that the scores rank better than chance does.

    Their labels belong to the scores: where samples were drawn by class, the accuracy at
    1/2 may be anything.
    """
    if rows.k != 2:
        return False
    parts = list(reduced(rows, [None], _odds_and_labels))
    odds = np.concatenate([part[0] for part in parts])
    labels = np.concatenate([part[1] for part in parts])
    ranking = ClassRanking.of(odds, labels, rows.units())
    return ranking is not None and not ranking.is_chance


def _odds_and_labels(tables: Sequence[RowTable]) -> tuple[FloatArray, IntArray]:
    """Log-odds of class 1 and labels of some rows of two classes."""
    (table,) = tables
    assert table.log_odds is not None
    return table.log_odds, table.y


# ---- a lower accuracy


def fallen_accuracy(fitted: FittedRows) -> list[str]:
    """Warning where the accuracy fell significantly.

    By McNemar's test on the same rows. Where these have units it must be significant by
    Student's test over units, too.
    """
    before = fitted.before.values()["accuracy"]
    after = fitted.after.values()["accuracy"]
    if not after < before - WORSE:
        return []
    both = [None, fitted.calibrator]
    rows = fitted.rows
    units = rows.units()
    if units is None:
        sums = reduced(rows, both, _change_of_right, top_only=True, add_up=True)
        p_value = fair_signs(reduce(add, sums))
    else:
        changes = reduced(rows, both, _changes_of_right, top_only=True)
        all_changes = np.concatenate(list(changes))
        p_value = _fall_by_unit(all_changes, rows.weights(), units)
    if p_value > LEVEL:
        return []
    fell = f"accuracy on the calibration data fell from {before:.4f} to {after:.4f}"
    advice = "ts --by is accuracy-preserving"
    if not is_by_group(fitted.name):
        advice = (
            "--keep-predictions keeps it; ts, ec, ets and ft are accuracy-preserving"
        )
    return [f"{fell} ({p_text(p_value)}, McNemar's test); {advice}"]


def _changes_of_right(tables: Sequence[RowTable]) -> FloatArray:
    """1.0 where a row becomes right, -1.0 where it becomes wrong, else 0."""
    before, after = tables
    return after.correct - before.correct


def _change_of_right(tables: Sequence[RowTable]) -> PairedSums:
    return PairedSums.of(_changes_of_right(tables), tables[1].weight)


def _fall_by_unit(
    changes: FloatArray, weight: FloatArray | None, units: Units
) -> float:
    """P-value of changes (n,).

    The larger of McNemar's of rows and Student's over units.
    """
    of_rows = fair_signs(PairedSums.of(changes, weight))
    mean = mean_of(changes, weight, units)
    if not mean.reach > 0.0:
        return of_rows
    return max(of_rows, t_p_value(mean.value / mean.reach, mean.freedom))


# ---- a fit that is worse than none, by its own loss


def worsening(fitted: FittedRows) -> str | None:
    """Warning where a fit made its own rows worse; None where it did not.

    The status of such a fit is never ``ok``. A label that gets the probability 0 is no
    noise: no other row makes up for it. A method that guarantees it raises the NLL by
    rounding only. Others have noise of their own (``_is_beyond_noise``).
    """
    before = fitted.before
    after = fitted.after
    loss = _own_loss(fitted)
    low = getattr(before, loss) / before.weight
    high = getattr(after, loss) / after.weight
    if not high > low + WORSE * max(1.0, low):
        return None
    rules_out_labels = loss == "nll" and after.zeros > before.zeros
    is_guaranteed = loss == "nll" and fitted.laws.improves_nll
    if not (rules_out_labels or is_guaranteed or _is_beyond_noise(fitted, loss)):
        return None
    what = "the NLL" if loss == "nll" else "the Brier score"
    why = ""
    if _has_unknown_zeros(fitted):
        why = _labels(before.zeros, "has", "have", "a stored 0 of unknown size")
    elif rules_out_labels:
        why = _labels(after.zeros, "gets", "get", "the probability 0")
    others = "" if fitted.is_of_auto else ", or fit with --method auto"
    return (
        f"the fit made its own rows worse: {what} rose from {low:.4f} to"
        f" {high:.4f}{why}; leave them uncalibrated{others}"
    )


def _own_loss(fitted: FittedRows) -> str:
    """The loss that a fit must not raise: ``nll`` or ``brier``.

    The NLL, also where a method fits something else: a map of bins (hb, sb, ir) or of
    the mean confidence (ec) that makes the log loss of its own rows significantly
    larger takes more than it gives. The Brier score where the method minimises that
    (``loss=brier``), and where labels have a stored zero of unknown size, as the NLL
    then depends on that more than on all else.
    """
    minimises_brier = getattr(fitted.options, "loss", "nll") == "brier"
    if minimises_brier or _has_unknown_zeros(fitted):
        return "brier"
    return "nll"


def _is_beyond_noise(fitted: FittedRows, loss: str) -> bool:
    """True if a loss rose by more than a fit without that guarantee may raise it.

    Priors, smoothed targets and mixed-in uniform probabilities cost about what one row
    weighs, a nat in total (``OWN_NOISE``). Where scores are right already, a map of
    another kind ends a little above as often as below: the rise must be ``CLEARLY``
    standard errors on average (paired rows, by unit), except where labels have a stored
    zero of unknown size.
    """
    total, standard_errors = _rise(fitted.rows, fitted.calibrator, loss)
    if total <= OWN_NOISE:
        return False
    return _has_unknown_zeros(fitted) or standard_errors > CLEARLY


def _has_unknown_zeros(fitted: FittedRows) -> bool:
    """True if labels have stored zeros of unknown size."""
    zeros = fitted.rows.zeros
    return fitted.before.zeros > 0 and zeros is not None and not zeros.is_rounded


def _labels(count: int, singular: str, plural: str, what: str) -> str:
    """A number of labels and what they have, in brackets."""
    if count == 1:
        return f" (1 label {singular} {what})"
    return f" ({count} labels {plural} {what})"


def _rise(rows: Rows, calibrator: Calibrator, loss: str) -> tuple[float, float]:
    """Rise of the total loss of some rows, and of its mean in standard errors.

    The total counts effective rows.
    """
    start = None if rows.kind == "confidence" else Identity()
    parts = reduced(rows, [start, calibrator], partial(_changes, loss))
    change = np.concatenate(list(parts))
    weight = row_weights(rows.weights(), rows.n)
    mean = float(np.average(change, weights=weight))
    effective = effective_number(weight)
    deviations = weight * (change - mean)
    count = float(rows.n)
    units = rows.units()
    if units is not None:
        deviations = units.sums(deviations)
        count = float(units.n)
    if count < 2.0 or not deviations.any():
        return mean * effective, np.inf
    total_variance = deviations @ deviations * count / (count - 1.0)
    standard_error = np.sqrt(total_variance) / weight.sum()
    return mean * effective, float(mean / standard_error)


def _changes(loss: str, tables: Sequence[RowTable]) -> FloatArray:
    """Rise of a loss of some rows, (b,)."""
    before, after = tables
    return getattr(after, loss) - getattr(before, loss)


# ---- other harm, and what the calibrator counted


def _zero_warnings(fitted: FittedRows) -> list[str]:
    """Warnings about labels that the uncalibrated scores give the probability 0."""
    zeros = fitted.rows.zeros
    if zeros is None:
        zeros = CALIBRATED
    before = fitted.before
    kind = fitted.rows.kind
    warnings = zero_warnings(before.zeros, before.n, kind, zeros.counts_as)
    is_unknown = bool(warnings) and not zeros.is_rounded and kind != "confidence"
    if is_unknown and method(fitted.name).takes_logarithms():
        warnings.append(_advice_on_zeros(fitted.name))
    return warnings


def _advice_on_zeros(name: str) -> str:
    """What to do where a method takes logarithms and the data have zeros."""
    how = "floor+ts"
    if is_by_group(name):
        how = f"floor+{without_group(name)}, for all groups alike"
    return (
        "a probability of 0 has no logarithm: fit with --method auto, or put floor+"
        f" before the method ({how})"
    )


def risen_losses(
    before: Summary, after: Summary, *, nll_is_reported: bool, advises: bool = True
) -> list[str]:
    """Warnings where the NLL or the Brier score of the calibration data rose.

    nll_is_reported : the rise of the fitted loss is already reported. advises : name
    other methods.
    """
    values_before = before.values()
    values_after = after.values()
    warnings = []
    nll = values_after.get("nll")
    if nll is not None and not nll_is_reported and nll > values_before["nll"] + WORSE:
        hint = ""
        if advises and not before.zeros:
            hint = "; ts, iop and mono never worsen it"
        warnings.append(f"NLL {_rose(values_before['nll'], nll)}{hint}")
    brier = values_after.get("brier")
    if brier is not None and brier > HURT * values_before["brier"]:
        rose = _rose(values_before["brier"], brier)
        hint = ""
        if advises:
            hint = "; --method auto compares methods by cross-validation"
        warnings.append(
            f"the Brier score {rose}: by it these samples are better left"
            f" uncalibrated{hint}"
        )
    return warnings


def _rose(before: float, after: float) -> str:
    decimals = "4f" if before >= LEAST_SHOWN else "3g"
    return (
        f"on the calibration data rose from {before:.{decimals}} to {after:.{decimals}}"
    )


def _counted_events(fitted: FittedRows) -> list[str]:
    """What the calibrator counted, such as predictions that it changed."""
    accuracy_before = fitted.before.values()["accuracy"]
    accuracy_after = fitted.after.values()["accuracy"]
    warnings = []
    for event, count in fitted.after.counts.items():
        if not count:
            continue
        gain = ""
        if event == "predictions_changed":
            points = 100 * (accuracy_after - accuracy_before)
            gain = f" (accuracy {points:+.1f} points)"
        words = event.replace("_", " ")
        warnings.append(f"{count} of {fitted.after.n} calibration rows: {words}{gain}")
    return warnings
