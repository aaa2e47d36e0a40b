"""From the results of an evaluation to the structs of its JSON."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec import UNSET, UnsetType

from calcli.evaluation.facts import (
    DataSummary,
    Difference,
    Estimate,
    Facts,
    LossPart,
    LossSplit,
    Paired,
)
from calcli.evaluation.json_structs import (
    Bin,
    ClassOutput,
    Classwise,
    Data,
    DifferenceOutput,
    Direction,
    EvaluationOutput,
    Gap,
    GroupOutput,
    Groups,
    PairedOutput,
    Part,
    Positive,
    RanksOutput,
    Report,
    ResultOutput,
    ScoreOutput,
    Split,
    Temperature,
    UnitsOutput,
    Verdict,
)
from calcli.evaluation.results import (
    ClassLine,
    GroupLine,
    Judgement,
    Ranks,
    Result,
    UnitFacts,
)
from calcli.evaluation.scores import Score
from calcli.evaluation.verdict import Verdict as JudgedVerdict
from calcli.evaluation.words import finding_line, samples_needed
from calcli.records import JsonObject
from calcli.statistics.intervals import Interval

T = TypeVar("T")
U = TypeVar("U")


def evaluation_json(
    results: Iterable[Result], ranks: Ranks | None, limits: Iterable[Mapping[str, Any]]
) -> JsonObject:
    """The JSON of a whole evaluation. limits : their outcomes."""
    output = EvaluationOutput(
        calcli_evaluation=1,
        results=[_result(result) for result in results],
        ranks=_where_known(_ranks, ranks),
        limits=[dict(limit) for limit in limits] or UNSET,
    )
    return output.to_dict()


def result_json(result: Result) -> JsonObject:
    """The JSON of one result."""
    return _result(result).to_dict()


def score_json(score: Score) -> JsonObject:
    """The JSON of one metric: common keys, then the metric's own."""
    null = score.null
    interval = score.interval
    ends = NO_INTERVAL if interval is None else _ends(interval)
    output = ScoreOutput(
        value=_number(score.value),
        signature=score.signature,
        reason=_where_known(str, score.reason),
        se=_where_known(float, score.se),
        null_mean=UNSET if null is None else _number(null.mean),
        null_q95=UNSET if null is None else _number(null.q95),
        null_method=UNSET if null is None or null.method is None else null.method,
        p_value=_where_known(_number, score.p_value),
        ci=UNSET if interval is None else ends.ci,
        ci_level=ends.level,
        ci_method=ends.method,
        ci_reason=ends.reason,
    )
    return output.to_dict() | dict(score.more)


def scores_json(scores: Mapping[str, Score]) -> dict[str, JsonObject]:
    """The JSON of scores by metric."""
    return {name: score_json(score) for name, score in scores.items()}


def difference_json(difference: Difference) -> JsonObject:
    """The JSON of one paired difference."""
    return _difference(difference).to_dict()


def units_json(units: UnitFacts | None) -> JsonObject | None:
    """The JSON of facts about units, None without units."""
    return None if units is None else _units(units).to_dict()


def _where_known(convert: Callable[[T], U], value: T | None) -> U | UnsetType:
    """A converted value; left out of the JSON where it is None."""
    if value is None:
        return UNSET
    return convert(value)


def _number(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return float(value)


class Ends(NamedTuple):
    """Keys of an interval; those that are not set are left out."""

    ci: list[float] | None
    level: float | UnsetType = UNSET
    method: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


NO_INTERVAL = Ends(ci=None)


def _ends(interval: Interval) -> Ends:
    """The ends of an interval, or the reason for none."""
    if not interval.known:
        return Ends(ci=None, reason=interval.method)
    ci = [interval.low, interval.high]
    return Ends(ci=ci, level=interval.level, method=interval.method)


def _result(result: Result) -> ResultOutput:
    return ResultOutput(
        bundle=result.bundle,
        calibrator=result.calibrator,
        method=result.method,
        n=result.n,
        n_classes=result.n_classes,
        metrics=scores_json(result.scores),
        paired=_where_known(_paired, result.paired),
        counts=dict(result.counts) or UNSET,
        report=_where_known(_report, result.report),
        per_class=_where_known(_classes, result.per_class),
        per_group=_where_known(_groups, result.per_group),
        warnings=list(result.warnings),
        units=_where_known(_units, result.units),
        cross_fitted_folds=result.n_folds or UNSET,
    )


def _report(report: Judgement) -> Report:
    facts = report.facts
    verdict = report.verdict
    direction = Direction(
        gap=_number(facts.overconfidence.value),
        gap_z=_number(facts.gap_z),
        entropy_gap=_number(facts.entropy.gap),
        entropy_z=_number(facts.entropy.z),
    )
    messages: list[JsonObject] = []
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


def _plain_numbers(numbers: Mapping[str, Any]) -> JsonObject:
    """Numbers of a finding, null where one is not finite; its words are its text."""
    plain: JsonObject = {}
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
    ends = _ends(estimate.interval)
    return Gap(
        value=_number(estimate.value),
        ci=ends.ci,
        ci_level=ends.level,
        ci_method=ends.method,
        ci_reason=ends.reason,
    )


def _positive(facts: Facts) -> Positive | None:
    one = facts.class_one
    if one is None:
        return None
    ends = _ends(one.gap.interval)
    return Positive(
        predicted=_number(one.predicted),
        observed=_number(one.observed),
        gap=_number(one.gap.value),
        z=_number(one.z),
        p_value=_number(one.p_value),
        slope=None if one.slope is None else _number(one.slope.value),
        ci=ends.ci,
        ci_level=ends.level,
        ci_method=ends.method,
        ci_reason=ends.reason,
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
    for one in report.verdict.bins:
        if not one.n or math.isnan(one.accuracy):
            continue
        bins.append(
            Bin(
                low=one.low,
                high=one.high,
                n=one.n,
                confidence=_number(one.confidence),
                accuracy=_number(one.accuracy),
                accuracy_low=_number(one.accuracy_low),
                accuracy_high=_number(one.accuracy_high),
                p_adjusted=_number(one.p_adjusted),
                significant=one.significant,
            )
        )
    return bins


def _difference(difference: Difference) -> DifferenceOutput:
    interval = difference.interval
    ends = NO_INTERVAL if interval is None else _ends(interval)
    if difference.reason is not None:
        ends = Ends(ci=None, reason=difference.reason)
    has_ends = interval is not None or difference.reason is not None
    right, wrong = difference.answers or (UNSET, UNSET)
    return DifferenceOutput(
        value=_number(difference.value),
        se=_number(difference.se),
        p_value=_where_known(_number, difference.p_value),
        become_right=right,
        become_wrong=wrong,
        ci=ends.ci if has_ends else UNSET,
        ci_level=ends.level,
        ci_method=ends.method,
        ci_reason=ends.reason,
    )


def _paired(paired: Paired) -> PairedOutput:
    return PairedOutput(
        baseline=paired.baseline,
        differences={
            name: _difference(difference)
            for name, difference in paired.differences.items()
        },
    )


def _classes(lines: Sequence[ClassLine]) -> list[ClassOutput]:
    return [_class(line) for line in lines]


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


def _groups(lines: Sequence[GroupLine]) -> list[GroupOutput]:
    return [_group(line) for line in lines]


def _group(line: GroupLine) -> GroupOutput:
    ends = _ends(line.interval)
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
        metrics=scores_json(line.scores),
        ci=ends.ci,
        ci_level=ends.level,
        ci_method=ends.method,
        ci_reason=ends.reason,
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
