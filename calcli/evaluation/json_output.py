"""The JSON of ``calcli evaluate`` as structs, of which its schema is made.

Other programs read these keys: they are added to, and not renamed.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from calcli.evaluation.facts import DataSummary, Estimate, Facts, LossPart, LossSplit
from calcli.evaluation.results import (
    ClassLine,
    Difference,
    Evaluation,
    GroupLine,
    Judgement,
    Paired,
    Ranks,
    Result,
    UnitFacts,
)
from calcli.evaluation.scores import Score
from calcli.evaluation.verdict import Verdict as JudgedVerdict
from calcli.evaluation.words import finding_line, samples_needed
from calcli.statistics.intervals import Interval

Number = float | None
"""A number; null where it is not finite."""


class Output(msgspec.Struct, kw_only=True):
    """Base of all structs: fields that are not set are left out."""


class Verdict(Output):
    """Kind and p-value of a verdict."""

    kind: str
    p_value: Number


class Data(Output):
    """The evaluated rows. n_classes is null for confidences without classes."""

    n: int
    n_classes: int | None
    kind: str
    weighted: bool
    largest_class_share: Number
    smallest_class_share: Number
    absent_classes: int
    distinct_confidences: int
    class_1: str | None


class Direction(Output):
    """Mean confidence minus accuracy, and NLL minus entropy, each with its z."""

    gap: Number
    gap_z: Number
    entropy_gap: Number
    entropy_z: Number


class Classwise(Output):
    """Calibration class by class; significant_classes holds the clearest twenty."""

    value: Number
    signed_square: Number
    p_value: Number
    n_significant: int
    significant_classes: list[int]


class Groups(Output):
    """Calibration group by group, and the group with the clearest gap.

    worst_predicted and worst_observed are mean P(class 1) and frequency of class 1
    where of_positive, else mean confidence and accuracy.
    """

    n_groups: int
    n_significant: int
    worst: str
    worst_n: int
    worst_gap: Number
    worst_predicted: Number
    worst_observed: Number
    p_value: Number
    of_positive: bool


class Gap(Output):
    """A mean gap with its interval; without one, ci is null and ci_reason says why."""

    value: Number
    ci: list[float] | None
    ci_level: float | UnsetType = UNSET
    ci_method: str | UnsetType = UNSET
    ci_reason: str | UnsetType = UNSET


class Positive(Output):
    """Mean P(class 1) minus the frequency of class 1, and the logistic slope."""

    predicted: Number
    observed: Number
    gap: Number
    z: Number
    p_value: Number
    slope: Number
    ci: list[float] | None
    ci_level: float | UnsetType = UNSET
    ci_method: str | UnsetType = UNSET
    ci_reason: str | UnsetType = UNSET


class Part(Output):
    """A loss: value = refinement + calibration."""

    value: Number
    refinement: Number
    calibration: Number
    calibration_se: Number
    calibration_share: Number


class Temperature(Output):
    """Decomposition of the NLL by temperature scaling alone."""

    nll: Part


class Split(Output):
    """Cross-fitted decompositions of the losses."""

    method: str
    folds: int
    nll: Part
    brier: Part
    temperature: Temperature


class Bin(Output):
    """Rows whose confidence lies in (low, high]."""

    low: float
    high: float
    n: int
    confidence: Number
    accuracy: Number
    accuracy_low: Number
    accuracy_high: Number
    p_adjusted: Number
    significant: bool


class Report(Output):
    """Verdict on one set of rows, and its evidence.

    verdict is the headline, messages are the findings as objects with kind, text and
    their numbers, findings the names of the tests that reject, next one command to
    run, recommended the title of the evaluated calibrator to apply. p_value is that of
    the joint test, p_overall that of all tests. exact : the tests that know nothing of
    the error of a fit.
    """

    data: Data
    verdict: str
    verdict_kind: str
    messages: list[dict[str, Any]]
    next: str | None
    recommended: str | None
    exact: Verdict
    overconfidence: Gap
    direction: Direction
    positive: Positive | None
    classwise: Classwise | None
    groups: Groups | None
    split: Split | None
    bins: list[Bin]
    findings: list[str]
    rows_needed: int
    tested: str
    p_value: Number
    p_overall: Number


class ScoreOutput(Output):
    """One metric. Some metrics have further keys of their own, numbers or words."""

    value: Number
    signature: str
    reason: str | UnsetType = UNSET
    se: Number | UnsetType = UNSET
    ci: list[float] | UnsetType | None = UNSET
    ci_level: float | UnsetType = UNSET
    ci_method: str | UnsetType = UNSET
    ci_reason: str | UnsetType = UNSET
    null_mean: Number | UnsetType = UNSET
    null_q95: Number | UnsetType = UNSET
    null_method: str | UnsetType = UNSET
    p_value: Number | UnsetType = UNSET


class DifferenceOutput(Output):
    """Paired difference of a metric, calibrator minus baseline."""

    value: Number
    se: Number
    ci: list[float] | UnsetType | None = UNSET
    ci_level: float | UnsetType = UNSET
    ci_method: str | UnsetType = UNSET
    ci_reason: str | UnsetType = UNSET
    p_value: Number | UnsetType = UNSET
    become_right: int | UnsetType = UNSET
    become_wrong: int | UnsetType = UNSET


class PairedOutput(Output):
    """Paired differences; baseline is null for the uncalibrated scores."""

    baseline: str | None
    differences: dict[str, DifferenceOutput]


class ClassOutput(Output):
    """One class: p_adjusted is adjusted for all classes and the verdict."""

    index: int = msgspec.field(name="class")
    name: str | None
    n: int
    predicted: int
    share: Number
    mean_probability: Number
    gap: Number
    p_value: Number
    p_adjusted: Number
    significant: bool
    precision: Number
    recall: Number
    ece: Number


class GroupOutput(Output):
    """One group of rows: gap = predicted - observed.

    These are mean P(class 1) and frequency of class 1 where of_positive, else mean
    confidence and accuracy. margin : a group of one column where there are several.
    """

    group: str | int | float | bool | None
    n: int
    gap: Number
    of_positive: bool
    p_value: Number
    p_adjusted: Number
    significant: bool
    predicted: Number
    observed: Number
    margin: bool
    metrics: dict[str, dict[str, Any]]
    ci: list[float] | None
    ci_level: float | UnsetType = UNSET
    ci_method: str | UnsetType = UNSET
    ci_reason: str | UnsetType = UNSET


class UnitsOutput(Output):
    """Units of the rows; the name alone where rows are declared independent."""

    name: str
    n: int | UnsetType = UNSET
    largest: int | UnsetType = UNSET
    design_effect: Number | UnsetType = UNSET
    effective_rows: Number | UnsetType = UNSET
    luck: Number | UnsetType = UNSET
    wrong_units: Number | UnsetType = UNSET


class ResultOutput(Output):
    """One bundle with one calibrator; calibrator is null for the scores as given."""

    bundle: str
    calibrator: str | None
    method: str
    n: int
    n_classes: int | None
    metrics: dict[str, dict[str, Any]]
    warnings: list[str]
    paired: PairedOutput | UnsetType = UNSET
    counts: dict[str, int] | UnsetType = UNSET
    report: Report | UnsetType = UNSET
    per_class: list[ClassOutput] | UnsetType = UNSET
    per_group: list[GroupOutput] | UnsetType = UNSET
    units: UnitsOutput | UnsetType = UNSET
    cross_fitted_folds: int | UnsetType = UNSET


class RanksOutput(Output):
    """Average ranks of the calibrators over bundles, by metric; 1 is best."""

    calibrators: list[str]
    n_bundles: int
    metrics: dict[str, dict[str, Any]]


class EvaluationOutput(Output):
    """The whole object."""

    calcli_evaluation: int
    results: list[ResultOutput]
    ranks: RanksOutput | UnsetType = UNSET
    limits: list[dict[str, Any]] | UnsetType = UNSET


# ---- from results to structs


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """The JSON of a whole evaluation."""
    output = EvaluationOutput(
        calcli_evaluation=1,
        results=[_result(result) for result in evaluation.results],
        ranks=UNSET if evaluation.ranks is None else _ranks(evaluation.ranks),
        limits=[dict(limit) for limit in evaluation.limits] or UNSET,
    )
    return _builtins(output)


def result_json(result: Result) -> dict[str, Any]:
    """The JSON of one result."""
    return _builtins(_result(result))


def score_json(score: Score) -> dict[str, Any]:
    """The JSON of one metric: common keys, then the metric's own."""
    null = score.null
    output = ScoreOutput(
        value=_number(score.value),
        signature=score.signature,
        reason=UNSET if score.reason is None else score.reason,
        se=UNSET if score.se is None else score.se,
        null_mean=UNSET if null is None else _number(null.mean),
        null_q95=UNSET if null is None else _number(null.q95),
        null_method=UNSET if null is None or null.method is None else null.method,
        p_value=UNSET if score.p_value is None else _number(score.p_value),
        **_optional_interval(score.interval),
    )
    return _builtins(output) | dict(score.more)


def difference_json(difference: Difference) -> dict[str, Any]:
    """The JSON of one paired difference."""
    return _builtins(_difference(difference))


def units_json(units: UnitFacts | None) -> dict[str, Any] | None:
    """The JSON of facts about units, None without units."""
    return None if units is None else _builtins(_units(units))


def _builtins(output: Output) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(output)
    return built


def _number(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return float(value)


def _optional_interval(interval: Interval | None) -> dict[str, Any]:
    """Keys of an interval; none where there is no interval."""
    return {} if interval is None else _interval(interval)


def _interval(interval: Interval) -> dict[str, Any]:
    """Keys of an interval, or the reason for no ends."""
    if not interval.known:
        return {"ci": None, "ci_reason": interval.method}
    return {
        "ci": [interval.low, interval.high],
        "ci_level": interval.level,
        "ci_method": interval.method,
    }


def _result(result: Result) -> ResultOutput:
    per_class = result.per_class
    per_group = result.per_group
    return ResultOutput(
        bundle=result.bundle,
        calibrator=result.calibrator,
        method=result.method,
        n=result.n,
        n_classes=result.n_classes,
        metrics={name: score_json(score) for name, score in result.scores.items()},
        paired=UNSET if result.paired is None else _paired(result.paired),
        counts=dict(result.counts) or UNSET,
        report=UNSET if result.report is None else _report(result.report),
        per_class=UNSET if per_class is None else [_class(line) for line in per_class],
        per_group=UNSET if per_group is None else [_group(line) for line in per_group],
        warnings=list(result.warnings),
        units=UNSET if result.units is None else _units(result.units),
        cross_fitted_folds=result.n_folds or UNSET,
    )


def _report(report: Judgement) -> Report:
    facts, verdict = report.facts, report.verdict
    direction = Direction(
        gap=_number(facts.overconfidence.value),
        gap_z=_number(facts.gap_z),
        entropy_gap=_number(facts.entropy.gap),
        entropy_z=_number(facts.entropy.z),
    )
    messages: list[dict[str, Any]] = []
    for finding in report.findings:
        message = {"kind": finding.kind, "text": finding_line(finding)}
        messages.append(message | _plain_numbers(finding.numbers))
    return Report(
        data=_data(facts.data),
        verdict=report.headline,
        verdict_kind=verdict.kind,
        messages=messages,
        next=report.next_step.command or None,
        recommended=report.next_step.calibrator,
        exact=Verdict(kind=verdict.exact.kind, p_value=_number(verdict.exact.p_value)),
        overconfidence=_gap(facts.overconfidence),
        direction=direction,
        positive=_positive(facts),
        classwise=_classwise(verdict),
        groups=_group_findings(verdict),
        split=None if facts.split is None else _split(facts.split),
        bins=_bins(report),
        findings=list(verdict.significant),
        rows_needed=samples_needed(facts),
        tested="P(class 1)" if facts.is_about_class_one else "confidence",
        p_value=_number(verdict.p_value),
        p_overall=_number(verdict.p_overall),
    )


def _plain_numbers(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers of a finding, null where one is not finite; its words are its text."""
    plain: dict[str, Any] = {}
    for name, value in numbers.items():
        if name == "words":
            continue
        plain[name] = _number(value) if isinstance(value, float) else value
    return plain


def _data(data: DataSummary) -> Data:
    return Data(
        n=data.n,
        n_classes=data.n_classes,
        kind=data.kind,
        weighted=data.weighted,
        largest_class_share=_number(data.largest_class_share),
        smallest_class_share=_number(data.smallest_class_share),
        absent_classes=data.absent_classes,
        distinct_confidences=data.distinct_confidences,
        class_1=data.class_1,
    )


def _gap(estimate: Estimate) -> Gap:
    return Gap(value=_number(estimate.value), **_interval(estimate.interval))


def _positive(facts: Facts) -> Positive | None:
    one = facts.class_one
    if one is None:
        return None
    return Positive(
        predicted=_number(one.predicted),
        observed=_number(one.observed),
        gap=_number(one.gap.value),
        z=_number(one.z),
        p_value=_number(one.p_value),
        slope=None if one.slope is None else _number(one.slope.value),
        **_interval(one.gap.interval),
    )


def _classwise(verdict: JudgedVerdict) -> Classwise | None:
    classes = verdict.classes
    if classes is None:
        return None
    return Classwise(
        value=_number(classes.value),
        signed_square=_number(classes.signed_square),
        p_value=_number(classes.p_value),
        n_significant=len(classes.significant),
        significant_classes=list(classes.significant[:20]),
    )


def _group_findings(verdict: JudgedVerdict) -> Groups | None:
    groups = verdict.groups
    if groups is None:
        return None
    return Groups(
        n_groups=groups.n_groups,
        n_significant=groups.n_significant,
        worst=groups.worst,
        worst_n=groups.worst_n,
        worst_gap=_number(groups.worst_gap),
        worst_predicted=_number(groups.worst_predicted),
        worst_observed=_number(groups.worst_observed),
        p_value=_number(groups.p_value),
        of_positive=groups.of_positive,
    )


def _split(split: LossSplit) -> Split:
    return Split(
        method=split.method,
        folds=split.folds,
        nll=_part(split.nll),
        brier=_part(split.brier),
        temperature=Temperature(nll=_part(split.temperature_nll)),
    )


def _part(part: LossPart) -> Part:
    share = 0.0
    if part.is_detected and part.loss > 0.0:
        share = part.calibration / part.loss
    return Part(
        value=_number(part.loss),
        refinement=_number(part.refinement),
        calibration=_number(part.calibration),
        calibration_se=_number(part.se),
        calibration_share=_number(share),
    )


def _bins(report: Judgement) -> list[Bin]:
    """The bins that hold rows."""
    bins = []
    for each in report.verdict.bins:
        if not each.n or math.isnan(each.accuracy):
            continue
        bins.append(
            Bin(
                low=each.low,
                high=each.high,
                n=each.n,
                confidence=_number(each.confidence),
                accuracy=_number(each.accuracy),
                accuracy_low=_number(each.accuracy_low),
                accuracy_high=_number(each.accuracy_high),
                p_adjusted=_number(each.p_adjusted),
                significant=each.significant,
            )
        )
    return bins


def _difference(difference: Difference) -> DifferenceOutput:
    interval = _optional_interval(difference.interval)
    if difference.reason is not None:
        interval = {"ci": None, "ci_reason": difference.reason}
    p_value = difference.p_value
    right, wrong = difference.answers or (UNSET, UNSET)
    return DifferenceOutput(
        value=_number(difference.value),
        se=_number(difference.se),
        p_value=UNSET if p_value is None else _number(p_value),
        become_right=right,
        become_wrong=wrong,
        **interval,
    )


def _paired(paired: Paired) -> PairedOutput:
    return PairedOutput(
        baseline=paired.baseline,
        differences={
            name: _difference(difference)
            for name, difference in paired.differences.items()
        },
    )


def _class(line: ClassLine) -> ClassOutput:
    return ClassOutput(
        index=line.index,
        name=line.name,
        n=line.n,
        predicted=line.predicted,
        share=_number(line.share),
        mean_probability=_number(line.mean_probability),
        gap=_number(line.gap),
        p_value=_number(line.p_value),
        p_adjusted=_number(line.p_adjusted),
        significant=line.significant,
        precision=_number(line.precision),
        recall=_number(line.recall),
        ece=_number(line.ece),
    )


def _group(line: GroupLine) -> GroupOutput:
    return GroupOutput(
        group=line.group,
        n=line.n,
        gap=_number(line.gap),
        of_positive=line.of_positive,
        p_value=_number(line.p_value),
        p_adjusted=_number(line.p_adjusted),
        significant=line.significant,
        predicted=_number(line.predicted),
        observed=_number(line.observed),
        margin=line.margin,
        metrics={name: score_json(score) for name, score in line.scores.items()},
        **_interval(line.interval),
    )


def _units(units: UnitFacts) -> UnitsOutput:
    if units.n is None:
        return UnitsOutput(name=units.name)
    return UnitsOutput(
        name=units.name,
        n=units.n,
        largest=units.largest,
        design_effect=_number(units.design_effect),
        effective_rows=_number(units.effective_rows),
        luck=_number(units.luck),
        wrong_units=_number(units.wrong_units),
    )


def _ranks(ranks: Ranks) -> RanksOutput:
    return RanksOutput(
        calibrators=list(ranks.calibrators),
        n_bundles=ranks.n_bundles,
        metrics={name: test.to_dict() for name, test in ranks.tests.items()},
    )
