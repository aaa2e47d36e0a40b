"""Measure the facts of a verdict on one set of rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calcli.evaluation.facts import (
    ClassFindings,
    ClassOne,
    DataSummary,
    Entropy,
    Estimate,
    Facts,
    FitSize,
    LossDecomposition,
)
from calcli.evaluation.groups import TestedGroup, group_findings
from calcli.evaluation.levels import ERROR_METRICS, LACKING_LEVEL, LEVEL
from calcli.evaluation.p_values import widened_null_p_value, widened_p_value
from calcli.evaluation.scores import Score
from calcli.metrics.confidence_bins import ConfidenceBin, confidence_bins
from calcli.metrics.context import MetricContext
from calcli.metrics.debiased import class_p_values_of, class_squares
from calcli.metrics.joint_test import JointTest, joint_test
from calcli.metrics.losses import gap_interval, outcome_rate
from calcli.metrics.row_means import few_rows_carry, mean_named
from calcli.metrics.settings import Label
from calcli.metrics.significance import direction_of
from calcli.numerics import FloatArray
from calcli.statistics.p_values import adjusted
from calcli.statistics.squared_errors import signed_root

VANISHING_Z = 1e-6
"""Standard scores below which gap and slope can only have been fitted to the rows."""

TOO_SMALL = 0.25
"""Proportion of its expected value below which a calibration error is suspicious."""


def summarise_data(
    kind: str, context: MetricContext, names: Sequence[str] | None = None
) -> DataSummary:
    """Summarise the evaluated rows. names : of the classes, if known."""
    table = context.table
    weighted = table.weight is not None
    summary = DataSummary(
        n=context.n,
        kind=kind,
        weighted=weighted,
        distinct_confidences=context.distinct,
        names=names,
        units=None if table.units is None else table.units.n,
        effective_rows=context.effective_n if weighted else None,
    )
    if table.k == 1:
        return summary
    counts = table.label_counts
    return replace(
        summary,
        n_classes=table.k,
        largest_class_share=float(counts.max() / context.n),
        smallest_class_share=float(counts.min() / context.n),
        absent_classes=int((counts == 0).sum()),
    )


def measure_facts(
    data: DataSummary,
    context: MetricContext,
    scores: Mapping[str, Score],
    *,
    positive: bool,
    decomposition: LossDecomposition | None,
    fit: FitSize | None = None,
    groups: Sequence[TestedGroup] = (),
    doubts: Sequence[str] = (),
) -> Facts:
    """Measure all facts of one set of rows.

    scores : metrics already measured on them. positive : judge P(class 1) of two
    classes, not the confidence. decomposition : of the loss, cross-fitted. fit : size
    of the fit of the calibrator that made the scores, None for uncalibrated scores.
    groups : with their gaps tested. doubts : see ``Facts``.
    """
    factor = 1.0 if fit is None else fit.error_factor(data.independent_rows, data.units)
    exact = joint_test(context, positive)
    judged = exact
    if factor > 1.0:
        judged = joint_test(context, positive, factor)
    confidence_gap = direction_of(context, "confidence")
    entropy_gap = direction_of(context, "entropy")
    overconfidence = _gap_estimate(context, "top")
    accuracy = mean_named(context, "accuracy").value
    exact_p_values: dict[str, float] = {}
    if fit is not None:
        exact_p_values = _exact_p_values(context, scores, groups, positive)
    return Facts(
        data=data,
        confidence=accuracy + overconfidence.value,
        accuracy=accuracy,
        overconfidence=overconfidence,
        gap_z=confidence_gap.z,
        entropy=Entropy(entropy_gap.gap, entropy_gap.z),
        test=_sided_test(exact, context),
        judged=_sided_test(judged, context),
        bins=_bins(context, "top", factor),
        class_one=_class_one(context, scores),
        class_one_bin=_class_one_bin(context, positive, factor),
        classes=_class_findings(context, factor),
        groups=group_findings(groups),
        decomposition=_usable_decomposition(context, decomposition),
        errors=_error_p_values(scores, factor),
        exact_p_values=exact_p_values,
        fit=fit,
        rarer_outcomes=_rarer_outcomes(context, positive),
        doubts=tuple(doubts),
        too_good=data.distinct_confidences > 2 and _is_too_good(exact, scores),
    )


# ---- the mean gaps


def _gap_estimate(context: MetricContext, label: Label) -> Estimate:
    name = "positive" if label == "positive" else "confidence"
    labelled = context.labelled(label)
    return Estimate(direction_of(labelled, name).gap, gap_interval(labelled))


def _rarer_outcomes(context: MetricContext, positive: bool) -> float:
    """Number of rows, or of units, with the rarer outcome of what is judged."""
    labelled = context.labelled("positive" if positive else "top")
    if labelled.luck is not None:
        return float(labelled.luck.observed_wrong)
    rate = outcome_rate(labelled)
    return min(rate, 1.0 - rate) * context.effective_n


def _sided_test(test: JointTest, context: MetricContext) -> JointTest:
    """Set z of the mean gap to 0 where its 95 % interval contains 0.

    Words about the direction of a gap then never contradict the interval beside them.
    """
    label: Label = "positive" if test.positive else "top"
    interval = gap_interval(context.labelled(label), 1.0 - LEVEL)
    if not interval.holds(0.0):
        return test
    return replace(test, gap=replace(test.gap, z=0.0))


def _class_one(context: MetricContext, scores: Mapping[str, Score]) -> ClassOne | None:
    """Mean P(class 1) and frequency of class 1, for two classes."""
    table = context.table
    if table.positive is None:
        return None
    gap = direction_of(context, "positive")
    estimate = _gap_estimate(context, "positive")
    observed = float(table.label_counts[1]) / table.n
    if table.weight is not None:
        total = float(table.weight.sum())
        observed = float(table.weight @ (table.y == 1)) / total
    slope = scores.get("slope")
    slope_estimate = None
    if slope is not None and slope.value is not None and slope.interval is not None:
        slope_estimate = Estimate(slope.value, slope.interval)
    return ClassOne(
        predicted=observed + estimate.value,
        observed=observed,
        gap=estimate,
        z=gap.z,
        p_value=gap.p_value,
        slope=slope_estimate,
    )


# ---- parts of the rows


def _exact_p_values(
    context: MetricContext,
    scores: Mapping[str, Score],
    groups: Sequence[TestedGroup],
    positive: bool,
) -> dict[str, float]:
    """P-values of the parts of a verdict, of tests that know nothing of a fit."""
    p_values = {}
    of_classes = class_p_values_of(context)
    if of_classes is not None and not positive:
        p_values["classes"] = float(adjusted(of_classes).min())
    of_groups = [group.gap.p_value for group in groups]
    if group_findings(groups) is not None:
        p_values["groups"] = float(adjusted(np.array(of_groups)).min())
    of_bins = [one.p_adjusted for one in confidence_bins(context)]
    if of_bins:
        p_values["bins"] = min(of_bins)
    of_errors = _error_p_values(scores, 1.0)
    if of_errors:
        p_values["errors"] = min(of_errors.values())
    return p_values


def _bins(
    context: MetricContext, label: Label, factor: float
) -> tuple[ConfidenceBin, ...]:
    """Bins of the confidence or of P(class 1), judged up to the error of the fit."""
    bins = []
    for one in confidence_bins(context, label):
        p_adjusted = widened_p_value(one.p_adjusted, factor)
        is_significant = p_adjusted <= LEVEL
        bins.append(replace(one, p_adjusted=p_adjusted, significant=is_significant))
    return tuple(bins)


def _class_one_bin(
    context: MetricContext, positive: bool, factor: float
) -> ConfidenceBin | None:
    """The bin of P(class 1) with the clearest gap, weighted by its rows."""
    if not positive:
        return None
    with_rows = [one for one in _bins(context, "positive", factor) if one.n]
    return max(with_rows, key=lambda one: (one.significant, abs(one.gap) * one.n))


def _class_findings(context: MetricContext, factor: float) -> ClassFindings | None:
    """Debiased error by class, and Simes' test that every class's mean is right."""
    p_values = class_p_values_of(context)
    if p_values is None:
        return None
    widened = np.array([widened_p_value(p, factor) for p in p_values.tolist()])
    p_adjusted = adjusted(widened)
    # Of two classes both p-values are one, up to the roundings of sums.
    with np.errstate(divide="ignore"):
        size = np.log(p_values).round(9)
    order = np.argsort(size, kind="stable").tolist()
    significant = tuple(c for c in order if p_adjusted[c] <= LEVEL)
    stats = context.table.classes
    assert stats is not None
    squares = class_squares(context, stats)
    square = None if squares is None else float(squares.mean())
    mean, labels, _ = stats.whole
    total = stats.weight.sum(axis=1)
    clearest = order[0]
    return ClassFindings(
        value=None if square is None else signed_root(square),
        signed_square=square,
        p_value=float(p_adjusted.min()),
        significant=significant,
        predicted=float(mean[clearest] / total[clearest]),
        observed=float(labels[clearest] / total[clearest]),
        lacking=_lacking_classes(context, mean),
    )


def _lacking_classes(
    context: MetricContext, expected: FloatArray
) -> tuple[tuple[int, float], ...]:
    """Classes without a sample whose chance to have none is below ``LACKING_LEVEL``.

    That chance is the product of 1 - p over the rows, at most exp(-expected) for the
    expected number; rows of a unit count as one. The level is for all classes together.
    """
    table = context.table
    rows_per_unit = 1.0 if table.units is None else table.n / table.units.n
    least = rows_per_unit * math.log(table.k / LACKING_LEVEL)
    lacking = []
    for c in np.flatnonzero(table.label_counts == 0).tolist():
        if expected[c] > least:
            lacking.append((c, float(expected[c])))
    return tuple(sorted(lacking, key=lambda entry: -entry[1]))


def _usable_decomposition(
    context: MetricContext, decomposition: LossDecomposition | None
) -> LossDecomposition | None:
    """The decomposition of the loss, None where few rows carry the NLL.

    Its standard error does not tell how uncertain a gain is that a few rows carry.
    """
    if decomposition is None:
        return None
    labelled = context.labelled("top")
    if few_rows_carry(labelled, "nll", mean_named(labelled, "nll")) is not None:
        return None
    return decomposition


# ---- calibration errors


def _error_p_values(scores: Mapping[str, Score], factor: float) -> dict[str, float]:
    """P-values of calibration errors, adjusted for each other.

    Bins of equally many rows detect what the joint test misses: scores that are nearly
    all equal, and outcomes that depend on their small differences.
    """
    p_values = {}
    for name in ERROR_METRICS:
        score = scores.get(name)
        if score is None or score.null is None or score.value is None:
            continue
        if name == "tce2" and factor > 1.0:
            continue  # debiased for the noise of these rows, not for that of a fit
        p_values[name] = widened_null_p_value(score.value, score.null, factor)
    if not p_values:
        return {}
    together = adjusted(np.array(list(p_values.values())))
    return dict(zip(p_values, together.tolist(), strict=True))


def _is_too_good(test: JointTest, scores: Mapping[str, Score]) -> bool:
    """True if the scores fit these rows better than calibrated scores would.

    Either mean gap and sharpness vanish as only a fit to these rows makes them vanish,
    or every calibration error is far below all of its draws under calibration.
    """
    fitted_z = (abs(test.gap.z), abs(test.sharpness.z))
    if min(fitted_z) > 0.0 and max(fitted_z) < VANISHING_Z:
        return True
    errors = []
    for name in ERROR_METRICS:
        score = scores.get(name)
        if score is not None and score.null is not None and score.null.resamples:
            errors.append(score)
    return len(errors) > 1 and all(map(_is_below_all_draws, errors))


def _is_below_all_draws(score: Score) -> bool:
    """True if an error lies below all draws, and far below their mean."""
    null = score.null
    assert null is not None and score.value is not None
    return null.p_value >= 1.0 and score.value < TOO_SMALL * null.mean
