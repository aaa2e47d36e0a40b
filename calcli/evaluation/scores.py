"""The score of one metric: its value with its uncertainty."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calcli.calibrator import Progress
from calcli.metrics.catalog import measure, signature
from calcli.metrics.context import MetricContext
from calcli.metrics.settings import MetricSettings
from calcli.metrics.values import Value
from calcli.statistics.intervals import Interval
from calcli.statistics.nulls import Null
from calcli.statistics.p_values import p_text


@dataclass(frozen=True)
class Score:
    """Metric of one result: its value, or the reason for none, with its uncertainty.

    null : distribution under calibration. p_value : under calibration. more : further
    facts about the metric, by their names in the JSON output.
    """

    name: str
    value: float | None
    signature: str
    reason: str | None = None
    se: float | None = None
    interval: Interval | None = None
    null: Null | None = None
    p_value: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, value: Value, settings: MetricSettings) -> "Score":
        """Build the score of a measured value, with its signature."""
        p_value = value.p_value
        if p_value is None and value.null is not None:
            p_value = value.null.p_value
        facts = vars(value) | {
            "p_value": p_value,
            "signature": signature(name, settings, value.signature.items()),
        }
        return cls(name, **facts)

    @property
    def draws(self) -> int:
        """Resamples behind the p-value, 0 where a formula gives it."""
        if self.null is None:
            return int(self.more.get("resamples", 0))
        return self.null.resamples

    @property
    def no_interval(self) -> str | None:
        """Reason for no interval, None where there is one or none is expected."""
        reason = self.more.get("ci_reason")
        return None if reason is None else str(reason)

    @property
    def end_words(self) -> str:
        """Words for an interval that starts at 0 although calibration is rejected."""
        interval = self.interval
        p = self.p_value
        if interval is None or p is None:
            return ""
        if interval.low > 0.0 or p > 1.0 - interval.level:
            return ""
        tested = p_text(p, self.draws)
        return f"more than 0 ({tested}); how much more these samples do not show"


def measured(
    context: MetricContext, names: Sequence[str], progress: Progress | None = None
) -> dict[str, Score]:
    """Compute metrics of one set of rows, by name."""
    scores = {}
    for done, name in enumerate(names):
        if progress is not None:
            progress("measuring", done, len(names))
        scores[name] = Score.of(name, measure(name, context), context.settings)
    return scores
