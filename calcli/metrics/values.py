"""The value that a metric returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calcli.statistics.intervals import Interval
from calcli.statistics.nulls import Null


@dataclass(frozen=True)
class Value:
    """One measured metric: its value or the reason why it has none, and what belongs to
    it. signature : what this value adds to its metric's signature. more : further facts
    of one metric.
    """

    value: float | None
    reason: str | None = None
    se: float | None = None
    interval: Interval | None = None
    null: Null | None = None
    p_value: float | None = None
    signature: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


class Undefined(Exception):
    """Raised where a metric has no value; its message is the reason."""
