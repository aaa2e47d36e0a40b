"""From the results of an evaluation to the structs of its JSON."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from calcli.evaluation.facts import (
    Difference,
    Facts,
    LossDecomposition,
    LossPart,
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
    FriedmanOutput,
    Gap,
    GroupOutput,
    Groups,
    LimitOutput,
    Message,
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
    ClassSummary,
    GroupSummary,
    Judgement,
    Ranks,
    Result,
    UnitFacts,
)
from calcli.evaluation.scores import Score
from calcli.evaluation.verdict import Verdict as JudgedVerdict
from calcli.evaluation.words import finding_line, samples_needed
from calcli.output import plain_number
from calcli.records import JsonObject
from calcli.statistics.intervals import Interval
from calcli.statistics.nulls import Null

T = TypeVar("T")
U = TypeVar("U")


def evaluation_output(
    results: Iterable[Result], ranks: Ranks | None, limits: Iterable[LimitOutput]
) -> EvaluationOutput:
    """The JSON of a whole evaluation. limits : their outcomes."""
    return EvaluationOutput(
        calcli_evaluation=1,
        results=[_result(result) for result in results],
        ranks=where_known(_ranks, ranks),
        limits=list(limits) or UNSET,
    )


def result_json(result: Result) -> JsonObject:
    """The JSON of one result."""
    return _result(result).to_dict()


def score_json(score: Score) -> JsonObject:
    """The JSON of one metric: common keys, then the metric's own."""
    null = {} if score.null is None else _null_keys(score.null)
    ends = {} if score.interval is None else _interval_keys(score.interval)
    return ScoreOutput.of(score, **null, **ends).to_dict() | dict(score.more)


def _interval_keys(interval: Interval) -> JsonObject:
    """Keys of an interval, beside those of the value that it belongs to."""
    if not interval.known:
        return {"ci": None, "ci_reason": interval.method}
    return {
        "ci": [interval.low, interval.high],
        "ci_level": interval.level,
        "ci_method": interval.method,
    }


def _null_keys(null: Null) -> JsonObject:
    """Keys of a null distribution, beside those of the value that it belongs to."""
    method = UNSET if null.method is None else null.method
    return {"null_mean": null.mean, "null_q95": null.q95, "null_method": method}


def scores_json(scores: Mapping[str, Score]) -> dict[str, JsonObject]:
    """The JSON of scores by metric."""
    return {name: score_json(score) for name, score in scores.items()}


def difference_json(difference: Difference) -> JsonObject:
    """The JSON of one paired difference."""
    return difference_output(difference).to_dict()


def where_known(convert: Callable[[T], U], value: T | None) -> U | UnsetType:
    """A converted value; left out of the JSON where it is None."""
    if value is None:
        return UNSET
    return convert(value)


def _result(result: Result) -> ResultOutput:
    return ResultOutput.of(
        result,
        metrics=scores_json(result.scores),
        paired=where_known(_paired, result.paired),
        counts=dict(result.counts) or UNSET,
        report=where_known(_report, result.report),
        per_class=where_known(_classes, result.per_class),
        per_group=where_known(_groups, result.per_group),
        warnings=list(result.warnings),
        units=where_known(units_output, result.units),
        cross_fitted_folds=result.n_folds or UNSET,
    )


def _report(report: Judgement) -> Report:
    facts = report.facts
    verdict = report.verdict
    messages: list[JsonObject] = []
    for finding in report.findings:
        message = Message(kind=finding.kind, text=finding_line(finding))
        messages.append(message.to_dict() | _plain_numbers(finding.numbers))
    return Report.of(
        verdict,
        data=Data.of(facts.data),
        verdict=report.headline,
        verdict_kind=verdict.kind,
        messages=messages,
        next=report.next_step.command,
        recommended=report.next_step.calibrator,
        exact=Verdict.of(verdict.exact),
        overconfidence=Gap.of(
            facts.overconfidence, **_interval_keys(facts.overconfidence.interval)
        ),
        direction=Direction.of(
            facts,
            gap=facts.overconfidence.value,
            entropy_gap=facts.entropy.gap,
            entropy_z=facts.entropy.z,
        ),
        positive=_positive(facts),
        classwise=_classwise(verdict),
        groups=None if verdict.groups is None else Groups.of(verdict.groups),
        split=_decomposition(facts.decomposition),
        bins=[Bin.of(one) for one in verdict.bins if not math.isnan(one.accuracy)],
        findings=list(verdict.significant),
        rows_needed=samples_needed(facts),
        tested="P(class 1)" if facts.is_about_class_one else "confidence",
    )


def _plain_numbers(numbers: Mapping[str, Any]) -> JsonObject:
    """Numbers of a finding, null where one is not finite; its words are its text."""
    plain: JsonObject = {}
    for name, value in numbers.items():
        if name != "words":
            plain[name] = plain_number(value)
    return plain


def _positive(facts: Facts) -> Positive | None:
    one = facts.class_one
    if one is None:
        return None
    slope = None if one.slope is None else one.slope.value
    return Positive.of(
        one, gap=one.gap.value, slope=slope, **_interval_keys(one.gap.interval)
    )


def _classwise(verdict: JudgedVerdict) -> Classwise | None:
    classes = verdict.classes
    if classes is None:
        return None
    return Classwise.of(
        classes,
        n_significant=len(classes.significant),
        significant_classes=list(classes.significant[:20]),
    )


def _decomposition(losses: LossDecomposition | None) -> Split | None:
    if losses is None:
        return None
    return Split.of(
        losses,
        nll=_part(losses.nll),
        brier=_part(losses.brier),
        temperature=Temperature(nll=_part(losses.temperature_nll)),
    )


def _part(part: LossPart) -> Part:
    share = 0.0
    if part.is_detected and part.loss > 0.0:
        share = part.calibration / part.loss
    return Part.of(
        part, value=part.loss, calibration_se=part.se, calibration_share=share
    )


def difference_output(difference: Difference) -> DifferenceOutput:
    """The struct of the JSON of one paired difference."""
    keys: JsonObject = {}
    if difference.reason is not None:
        keys = {"ci": None, "ci_reason": difference.reason}
    elif difference.interval is not None:
        keys = _interval_keys(difference.interval)
    if difference.answers is not None:
        keys["become_right"], keys["become_wrong"] = difference.answers
    return DifferenceOutput.of(difference, **keys)


def difference_of(output: DifferenceOutput) -> Difference:
    """The paired difference that a struct of its JSON was made of."""
    interval = None
    reason = None
    if output.ci_reason is not UNSET:
        reason = output.ci_reason
    elif output.ci and output.ci_level is not UNSET and output.ci_method is not UNSET:
        low, high = output.ci
        interval = Interval(low, high, output.ci_level, output.ci_method)
    answers = None
    if output.become_right is not UNSET and output.become_wrong is not UNSET:
        answers = (output.become_right, output.become_wrong)
    return Difference(
        value=math.nan if output.value is None else output.value,
        se=output.se,
        interval=interval,
        p_value=None if output.p_value is UNSET else output.p_value,
        reason=reason,
        answers=answers,
    )


def _paired(paired: Paired) -> PairedOutput:
    differences = {}
    for name, difference in paired.differences.items():
        differences[name] = difference_output(difference)
    return PairedOutput.of(paired, differences=differences)


def _classes(lines: Sequence[ClassSummary]) -> list[ClassOutput]:
    return [ClassOutput.of(line) for line in lines]


def _groups(lines: Sequence[GroupSummary]) -> list[GroupOutput]:
    return [_group(line) for line in lines]


def _group(line: GroupSummary) -> GroupOutput:
    metrics = scores_json(line.scores)
    return GroupOutput.of(line, metrics=metrics, **_interval_keys(line.interval))


def units_output(units: UnitFacts) -> UnitsOutput:
    """The struct of the JSON of facts about units."""
    if units.n is None:
        return UnitsOutput(name=units.name)
    return UnitsOutput.of(units)


def unit_facts_of(output: UnitsOutput) -> UnitFacts:
    """The facts about units that a struct of their JSON was made of."""
    return UnitFacts(**output.to_dict())


def _ranks(ranks: Ranks) -> RanksOutput:
    return RanksOutput(
        calibrators=list(ranks.calibrators),
        n_bundles=ranks.n_bundles,
        metrics=friedman_outputs(ranks),
    )


def friedman_outputs(ranks: Ranks) -> dict[str, FriedmanOutput]:
    """The JSON of the tests behind ranks, by metric."""
    outputs = {}
    for name, test in ranks.tests.items():
        outputs[name] = FriedmanOutput.of(
            test,
            ranks=test.ranks.tolist(),
            iman_davenport_f=test.f,
            iman_davenport_p_value=test.f_p_value,
        )
    return outputs
