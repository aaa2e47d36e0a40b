"""Results of an evaluation, from which text, JSON, JUnit and tables are made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from calcli.evaluation.facts import Difference, Facts, Paired, deciding_loss
from calcli.evaluation.findings import Finding, with_caveats
from calcli.evaluation.scores import Score
from calcli.evaluation.verdict import Verdict, VerdictKind
from calcli.evaluation.words import finding_line, headline
from calcli.metrics.catalog import metric
from calcli.number_words import noun
from calcli.statistics.friedman import Friedman
from calcli.statistics.intervals import Interval
from calcli.statistics.p_values import p_text


@dataclass(frozen=True)
class NextStep:
    """What to do next.

    command : it as a command line, None if there is nothing to do or no file to do it
    with. calibrator : title of the evaluated calibrator that is recommended, None for
    none. checks : does the command judge this calibrator on other samples first?
    """

    command: str | None = None
    calibrator: str | None = None
    checks: bool = False


@dataclass(frozen=True)
class Judgement:
    """Verdict on one set of rows with its evidence, which all output quotes.

    findings : the most important first. next_step : what to do, with its command; of
    a bundle with all its calibrators, it stands with the scores as given.
    """

    facts: Facts
    verdict: Verdict
    findings: tuple[Finding, ...]
    next_step: NextStep = field(default_factory=NextStep)

    @property
    def kind(self) -> VerdictKind:
        return self.verdict.kind

    @property
    def headline(self) -> str:
        """The verdict in one line, without the name of what it is about."""
        return headline(self.facts, self.verdict)

    @property
    def lines(self) -> list[str]:
        """The findings, a line each."""
        return [finding_line(finding) for finding in self.findings]

    @property
    def p_text(self) -> str:
        """Text of the p-value of the joint test."""
        return p_text(self.verdict.p_value, self.verdict.draws)

    def with_findings(self, findings: Sequence[Finding]) -> "Judgement":
        """Copy with other findings."""
        return replace(self, findings=tuple(findings))

    def with_caveats(self, caveats: Sequence[str]) -> "Judgement":
        """Copy with further doubts about the rows among its findings."""
        return self.with_findings(with_caveats(self.findings, caveats))


@dataclass(frozen=True)
class ClassSummary:
    """Line of one class: rows, predictions, frequency, mean probability, errors.

    p_value : of the gap of mean probability and frequency. p_adjusted : adjusted for
    all classes and the verdict; significant : is it at most 5 %?
    """

    index: int
    name: str | None
    n: int
    predicted: int
    share: float
    mean_probability: float
    gap: float
    p_value: float
    p_adjusted: float
    significant: bool
    precision: float | None
    recall: float | None
    ece: float


@dataclass(frozen=True)
class GroupSummary:
    """Line of one group of rows: mean gap with its p-value, and the metrics.

    gap : mean confidence minus accuracy, or, where ``of_positive`` (two classes only,
    the same in every line), mean P(class 1) minus the frequency of class 1: predicted
    minus observed. interval : of the gap. p_adjusted, significant : as in
    ``ClassSummary``. margin : is the group of one column where there are several?
    """

    group: Any
    n: int
    gap: float
    of_positive: bool
    p_value: float
    p_adjusted: float
    significant: bool
    predicted: float
    observed: float
    interval: Interval
    scores: Mapping[str, Score]
    margin: bool


@dataclass(frozen=True)
class UnitFacts:
    """Facts about the units of the rows. n : None where rows are said independent.

    effective_rows : independent rows with the same information on the overconfidence.
    luck, wrong_units : of ``statistics.shared_luck.SharedLuck``.
    """

    name: str
    n: int | None = None
    largest: int = 0
    design_effect: float = 1.0
    effective_rows: float = 0.0
    luck: float = 0.0
    wrong_units: float = 0.0

    @property
    def sentence(self) -> str:
        """Sentence on the number of units and the effective number of rows."""
        if self.n is None:
            return f"rows are taken as independent (--unit {self.name})"
        return (
            f"{self.n:,} {noun(self.n, 'unit')} ({self.name}) of up to"
            f" {self.largest:,} {noun(self.largest, 'row')}: for the"
            f" overconfidence worth {self.effective_rows:,.0f} independent rows"
            f" (design effect {self.design_effect:.2f})"
        )


@dataclass(frozen=True)
class Result:
    """Result of one bundle with one calibrator (None: the scores as given).

    n_classes : None for confidences alone. units : facts about the units of the rows.
    given_name : name for people of the scores as given. n_folds : folds of
    cross-fitting, 0 where the calibrator was not fitted to these rows.
    """

    bundle: str
    calibrator: str | None
    method: str
    n: int
    n_classes: int | None
    scores: Mapping[str, Score]
    paired: Paired | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    report: Judgement | None = None
    per_class: Sequence[ClassSummary] | None = None
    per_group: Sequence[GroupSummary] | None = None
    warnings: Sequence[str] = ()
    units: UnitFacts | None = None
    given_name: str = "uncalibrated"
    n_folds: int = 0

    def change(self, name: str) -> Difference | None:
        """Paired difference of a metric to the baseline's, None if unknown."""
        if self.paired is None:
            return None
        return self.paired.differences.get(name)

    @property
    def loss_name(self) -> str:
        """Name of the loss that decides which version is better."""
        return deciding_loss(self.n_classes is not None)

    @property
    def loss_change(self) -> Difference | None:
        """Change of the NLL; for confidences alone, of the Brier score of being right."""
        return self.change(self.loss_name)

    @property
    def title(self) -> str:
        """Name for people: the calibrator's file, or how the scores were given."""
        return self.calibrator or self.given_name

    @property
    def shown(self) -> list[str]:
        """Metrics to show: in a report those of its table, else all asked for."""
        if self.report is None:
            return list(self.scores)
        return [name for name in self.scores if metric(name).in_table]

    def p_legend(self, names: Iterable[str]) -> str:
        """Legend of the p-values of metrics and verdict: the test behind each."""
        by_draws: dict[int, list[str]] = {}
        for name in names:
            score = self.scores[name]
            if score.p_value is not None:
                by_draws.setdefault(score.draws, []).append(name)
        parts = []
        if self.report is not None and self.report.verdict.draws:
            least = _least_p(self.report.verdict.draws)
            tests = "one test of mean gap, sharpness and smooth error"
            parts.append(f"of the verdict, {tests}{least}")
        for draws, with_draws in by_draws.items():
            source = "by a formula"
            if draws:
                source = f"draws under calibration{_least_p(draws)}"
            parts.append(f"{', '.join(with_draws)}: {source}")
        return f"p-values: {'; '.join(parts)}"


def recommended(results: Sequence[Result]) -> int | None:
    """Index of the recommended calibrator among the results on the same rows.

    None where none is. results : the uncalibrated scores first.
    """
    report = results[0].report
    if report is None or report.next_step.calibrator is None:
        return None
    for number, result in enumerate(results):
        if result.calibrator == report.next_step.calibrator:
            return number
    return None


def focus(results: Sequence[Result]) -> int:
    """Index of the result to speak of first.

    The recommended calibrator, else the only one, else the uncalibrated scores.
    """
    best = recommended(results)
    if best is not None:
        return best
    return 1 if len(results) == 2 else 0


def _least_p(draws: float) -> str:
    """Words for the least p-value that is a rank among so many draws."""
    least = p_text(0.0, draws).removeprefix("p < ")
    return f" (no p-value below {least})"


@dataclass(frozen=True)
class Ranks:
    """Average ranks of the calibrators over bundles with Friedman's test, by metric."""

    calibrators: tuple[str, ...]
    n_bundles: int
    tests: Mapping[str, Friedman]
