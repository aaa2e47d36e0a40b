"""Limits on metrics (``--max``, ``--min``), for gates in a pipeline."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import UNSET

from calcli.errors import UsageError, unknown_name
from calcli.evaluation.json_output import difference_json, score_json
from calcli.evaluation.json_structs import LimitOutput
from calcli.evaluation.results import GroupSummary, Result
from calcli.evaluation.scores import Score
from calcli.metrics.catalog import metric
from calcli.statistics.intervals import normal_quantile, normal_tail

ENDS = {"lo": "ci", "hi": "ci", "p": "p_value", "null": "null_mean", "se": "se"}
"""JSON keys of the facts about a value, by their suffix in a limit: ``nll.lo``."""

CHANGES = ("increase", "drop")
RARE = 0.01  # false-alarm probability from which an outcome reports it

NAMED = re.compile(r"(?P<base>[^.(@]*(\([^)]*\)|@[\d.]*\d)?)(\.(?P<end>.*))?")
"""A metric, with the part of it that is limited: ``ece.hi``, ``accuracy_at_coverage(0.8).lo``."""


def end_of(facts: Mapping[str, Any], end: str) -> float | None:
    """Fact about a value that a key of ``ENDS`` names, else the value.

    facts : a score or a difference as JSON.
    """
    fact = facts.get(ENDS.get(end, "value"))
    if fact is None or end not in ("lo", "hi"):
        return fact
    low, high = fact
    return float(high if end == "hi" else low)


@dataclass(frozen=True)
class Limit:
    """Limit on a metric: ``--max ece.hi=0.03``, ``--max nll_increase=0.01``. metric : its canonical name. change :
    ``increase`` or ``drop`` for a limit on the difference to the baseline, else empty. end : the part limited, one of
    ``ENDS`` or ``abs``; empty for the value."""

    side: Literal["max", "min"]
    metric: str
    change: str
    end: str
    value: float

    @classmethod
    def of(cls, side: Literal["max", "min"], text: str) -> "Limit":
        """Parse ``ECE=0.03``, ``log_loss_increase.hi=0`` and the like.

        Raises UsageError.
        """
        name, equals, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not equals or math.isnan(value):
            raise UsageError(
                f"--{side} {text}: expected NAME=NUMBER, e.g. --{side} ece=0.03"
            )
        base = name.strip()
        end = ""
        named = NAMED.fullmatch(base)
        if named is not None:
            base = named["base"]
            end = (named["end"] or "").lower()
        if end and end not in (*ENDS, "abs"):
            raise unknown_name("end of a limit", end, [*ENDS, "abs"])
        change = ""
        for known in CHANGES:
            if base.lower().endswith(f"_{known}"):
                change = known
                base = base[: -len(known) - 1]
                break
        return cls(side, metric(base).name, change, end, value)

    @property
    def name(self) -> str:
        """Name of the limited quantity, by the metric's canonical name."""
        name = self.metric
        if self.change:
            name += f"_{self.change}"
        if self.end:
            name += f".{self.end}"
        return name

    @property
    def text(self) -> str:
        return f"--{self.side} {self.name}={self.value:g}"


@dataclass(frozen=True)
class Outcome:
    """Outcome of one limit on one result. group : the group of rows, None for all. false_alarm : probability that a
    calibrated model crosses the limit on as many rows; q95 : 95th percentile of the metric there."""

    limit: Limit
    bundle: str
    calibrator: str | None
    value: float | None
    crossed: bool
    reason: str | None = None
    false_alarm: float = 0.0
    q95: float = 0.0
    group: Any = None
    title: str = "uncalibrated"

    @property
    def where(self) -> str:
        """Suffix of the result's name that names the group."""
        return "" if self.group is None else f", group {self.group}"

    def output(self) -> LimitOutput:
        """The struct of its JSON."""
        reports_alarm = self.false_alarm >= RARE
        return LimitOutput.of(
            self,
            limit=self.limit.text,
            crossed=bool(self.crossed),
            false_alarm=self.false_alarm if reports_alarm else UNSET,
            null_q95=self.q95 if reports_alarm else UNSET,
        )

    @property
    def sentence(self) -> str:
        """One line for people and logs."""
        what = f"{self.bundle}, {self.title}{self.where}: {self.limit.name}"
        if self.value is None:
            return f"{what} has no value ({self.reason}), limit {self.limit.text}"
        text = f"{what} is {self.value:.6g}, limit {self.limit.text}"
        is_far = abs(self.value) > self.limit.value >= 0
        if self.limit.side == "max" and is_far and not self.crossed:
            text += (
                "; its absolute value is above that: take --max"
                f" {self.limit.name}.abs={self.limit.value:g}"
            )
        if self.false_alarm < RARE:
            return text
        often = f"about {self.false_alarm:.0%}"
        if self.false_alarm >= 0.995:
            often = "over 99%"
        text += (
            f"; a calibrated model would cross it in {often} of samples of this size"
        )
        if self.limit.value < self.q95:
            text += (
                f": take --min {self.limit.name}.p=0.05, or a limit above the 95th"
                f" percentile, {self.q95:.4g}"
            )
        return text


def limits(maxima: Sequence[str] | None, minima: Sequence[str] | None) -> list[Limit]:
    """Parse the limits of ``--max`` and ``--min``. Raises UsageError."""
    upper = [Limit.of("max", text) for text in maxima or ()]
    lower = [Limit.of("min", text) for text in minima or ()]
    return [*upper, *lower]


def check(
    asked: Sequence[Limit], result: Result, baseline: Result | None
) -> list[Outcome]:
    """Check one result, and each of its groups, against the limits.

    baseline : the result that ``_increase`` and ``_drop`` compare with. A value that is
    undefined crosses its limit: a gate must not open because something is missing.
    Groups have no class-by-class metrics, and their differences no intervals: such
    limits are for all rows only.
    """
    outcomes = [_outcome(limit, result, result, baseline) for limit in asked]
    baselines = {}
    if baseline is not None:
        for line in baseline.per_group or ():
            baselines[line.group] = line
    for line in result.per_group or ():
        of_group = baselines.get(line.group)
        for limit in asked:
            has_no_interval = bool(limit.change and limit.end)
            if limit.metric in line.scores and not has_no_interval:
                outcomes.append(_outcome(limit, result, line, of_group))
    return outcomes


def _outcome(
    limit: Limit,
    result: Result,
    part: Result | GroupSummary,
    against: Result | GroupSummary | None,
) -> Outcome:
    score = part.scores[limit.metric]
    value, reason = _limited_value(limit, part, against)
    if value is None:
        crossed = True
    elif limit.side == "max":
        crossed = value > limit.value
    else:
        crossed = value < limit.value
    false_alarm, q95 = _false_alarm(limit, score)
    return Outcome(
        limit=limit,
        bundle=result.bundle,
        calibrator=result.calibrator,
        value=value,
        crossed=crossed,
        reason=reason,
        false_alarm=false_alarm,
        q95=q95,
        group=part.group if isinstance(part, GroupSummary) else None,
        title=result.title,
    )


def _limited_value(
    limit: Limit, part: Result | GroupSummary, against: Result | GroupSummary | None
) -> tuple[float | None, str | None]:
    """The number that the limit is on, or None with the reason."""
    if limit.change:
        return _change(limit, part, against)
    score = part.scores[limit.metric]
    if limit.end == "abs" and score.value is not None:
        return abs(score.value), score.reason
    if not limit.end or limit.end == "abs":
        return score.value, score.reason
    value = end_of(score_json(score), limit.end)
    if value is None:
        return None, f"{limit.metric} has no {ENDS[limit.end]}"
    return value, None


def _false_alarm(limit: Limit, score: Score) -> tuple[float, float]:
    """Probability under calibration that an error exceeds its limit, and the 95th
    percentile of the error.
    """
    null = score.null
    z = score.more.get("z")
    if limit.side == "min" or limit.change or limit.end:
        return 0.0, 0.0
    if z and score.value:  # a mean gap: normal around 0
        sd = score.value / z
        return normal_tail(limit.value / sd), normal_quantile(0.95) * sd
    if null is None or null.above is None:
        return 0.0, 0.0
    return null.above(limit.value), null.q95


def _change(
    limit: Limit, result: Result | GroupSummary, baseline: Result | GroupSummary | None
) -> tuple[float | None, str | None]:
    """Increase (``_increase``) or decrease (``_drop``) of the metric from the
    baseline's, or the reason for none.
    """
    if limit.end:
        return _end_of_change(limit, result)
    if baseline is None:
        return None, "there is no baseline to compare with"
    name = limit.metric
    value = result.scores[name].value
    other = baseline.scores[name].value
    if value is None or other is None:
        return None, f"{name} is undefined"
    if limit.change == "drop":
        return other - value, None
    return value - other, None


OTHER_END = {"lo": "hi", "hi": "lo"}


def _end_of_change(
    limit: Limit, result: Result | GroupSummary
) -> tuple[float | None, str | None]:
    """A fact about the increase or decrease, such as an end of its interval.

    The lower end of a drop is the upper end of the increase, with its sign turned.
    """
    is_turned = limit.change == "drop" and limit.end in OTHER_END
    end = OTHER_END[limit.end] if is_turned else limit.end
    value = None
    if isinstance(result, Result):
        paired = result.change(limit.metric)
        if paired is not None:
            value = end_of(difference_json(paired), end)
    if value is None:
        return None, f"the difference of {limit.metric} has no {end}"
    if is_turned:
        value = -value
    return value, None
