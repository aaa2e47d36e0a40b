"""Limits on the verdict (``--fail-on``), for gates in a pipeline."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from calcli.errors import UsageError, unknown_name
from calcli.evaluation.json_structs import LimitOutput
from calcli.evaluation.results import Result
from calcli.evaluation.verdict import VerdictKind

FAILING = tuple(kind for kind in get_args(VerdictKind) if kind != "calibrated")
"""Kinds of verdict that a pipeline may fail on."""


@dataclass(frozen=True)
class FailOn:
    """Kinds of verdict that cross the limit; empty for no limit."""

    kinds: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str | None) -> "FailOn":
        """Parse ``overconfident,mixed``. Raises UsageError."""
        if text is None:
            return cls()
        kinds = tuple(kind.strip().replace("-", "_") for kind in text.split(","))
        for kind in kinds:
            if kind not in FAILING:
                raise unknown_name("verdict", kind, FAILING)
        if not kinds:
            raise UsageError(f"--fail-on: expected one of {', '.join(FAILING)}")
        return cls(kinds)

    @property
    def text(self) -> str:
        return f"--fail-on {','.join(self.kinds)}"

    def check(self, result: Result) -> "Sequence[VerdictOutcome]":
        """Outcome on one result; none without a limit or a verdict."""
        if not self.kinds or result.report is None:
            return []
        return [VerdictOutcome(self, result)]


@dataclass(frozen=True)
class VerdictOutcome:
    """Outcome of ``--fail-on`` on one result."""

    limit: FailOn
    result: Result
    group: None = None

    @property
    def bundle(self) -> str:
        return self.result.bundle

    @property
    def title(self) -> str:
        return self.result.title

    @property
    def where(self) -> str:
        return ""

    @property
    def kind(self) -> str:
        assert self.result.report is not None
        return self.result.report.kind

    @property
    def crossed(self) -> bool:
        return self.kind in self.limit.kinds

    @property
    def sentence(self) -> str:
        """One line for people and logs."""
        assert self.result.report is not None
        headline = self.result.report.headline
        return f"{self.bundle}, {self.title}: {headline} ({self.limit.text})"

    def output(self) -> LimitOutput:
        """The struct of its JSON."""
        return LimitOutput(
            limit=self.limit.text,
            bundle=self.bundle,
            calibrator=self.result.calibrator,
            value=self.kind,
            crossed=self.crossed,
        )
