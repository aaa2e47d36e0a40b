"""Results of an evaluation, from which text, JSON, JUnit and tables are made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from calcli.evaluation.facts import Facts
from calcli.evaluation.findings import Finding, with_caveats
from calcli.evaluation.next_step import NextStep
from calcli.evaluation.scores import Score
from calcli.evaluation.verdict import Verdict, VerdictKind
from calcli.evaluation.words import finding_line, headline
from calcli.metrics.catalog import metric
from calcli.optional_packages import optional_import
from calcli.rows import classes
from calcli.statistics.friedman import Friedman
from calcli.statistics.intervals import Interval
from calcli.statistics.p_values import p_text


@dataclass(frozen=True)
class Judgement:
    """Verdict on one set of rows with its evidence, which all output quotes.

    findings : the most important first. next_step : what to do, with its command; of
    a bundle with all its calibrators, it stands with the scores as given.
    """

    facts: Facts
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
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
class Difference:
    """Mean paired difference of a loss, calibrator minus baseline.

    p_value : two-sided. reason : for no interval. answers : for the accuracy of
    unweighted rows, numbers that become right, and wrong.
    """

    value: float
    se: float | None
    interval: Interval | None = None
    p_value: float | None = None
    reason: str | None = None
    answers: tuple[int, int] | None = None

    @property
    def is_significant(self) -> bool:
        """True if the interval is known and does not contain 0."""
        return self.interval is not None and not self.interval.holds(0.0)


@dataclass(frozen=True)
class Paired:
    """Paired differences to the baseline, by metric.

    baseline : its artifact, None for the uncalibrated scores.
    """

    baseline: str | None
    differences: Mapping[str, Difference]


@dataclass(frozen=True)
class ClassLine:
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
class GroupLine:
    """Line of one group of rows: mean gap with its p-value, and the metrics.

    gap : mean confidence minus accuracy, or, where ``of_positive`` (two classes only,
    the same in every line), mean P(class 1) minus the frequency of class 1: predicted
    minus observed. interval : of the gap. p_adjusted, significant : as in
    ``ClassLine``. margin : is the group of one column where there are several?
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
    margin: bool = False


@dataclass(frozen=True)
class UnitFacts:
    """Facts about the units of the rows. n : None where rows are said independent.

    effective_rows : independent rows with the same information on the overconfidence.
    luck, wrong_units : of ``statistics.units.Luck``.
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
            f"{self.n:,} units ({self.name}) of up to {self.largest:,} rows: for the"
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
    per_class: Sequence[ClassLine] | None = None
    per_group: Sequence[GroupLine] | None = None
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
        return "nll" if self.n_classes is not None else "brier_top"

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


@dataclass(frozen=True)
class Evaluation:
    """All results of one evaluation.

    bundles : per bundle its results, uncalibrated first. limits : outcomes of limits,
    as JSON.
    """

    bundles: Sequence[Sequence[Result]]
    ranks: Ranks | None = None
    limits: Sequence[Mapping[str, Any]] = ()

    @property
    def results(self) -> list[Result]:
        """All results in order."""
        return [result for results in self.bundles for result in results]

    @property
    def verdict(self) -> str:
        """The headline; of several results one line each, headed by their names."""
        judged = [result for result in self.results if result.report is not None]
        if len(judged) == 1 and judged[0].report is not None:
            return judged[0].report.headline
        return "\n".join(titled_headline(result) for result in judged)

    def to_frame(self) -> Any:
        """Pandas DataFrame with a row per bundle, version and metric.

        Columns: value, interval, p-value, expected value. Raises UsageError without
        pandas, which nothing else needs.
        """
        with optional_import("pandas", "to_frame"):
            from pandas import DataFrame

        lines = []
        for result in self.results:
            for name, score in result.scores.items():
                interval, null = score.interval, score.null
                line = {
                    "bundle": result.bundle,
                    "version": result.title,
                    "metric": name,
                    "value": score.value,
                    "low": None if interval is None else interval.low,
                    "high": None if interval is None else interval.high,
                    "p_value": score.p_value,
                    "expected": None if null is None else null.mean,
                }
                lines.append(line)
        return DataFrame(lines)

    def __repr__(self) -> str:
        count = len(self.results)
        versions = "1 version" if count == 1 else f"{count} versions"
        lines = [f"<calcli evaluation of {versions}>"]
        for result in self.results:
            if result.report is None:
                values = (f"{n} {value_text(s)}" for n, s in result.scores.items())
                lines.append(f"{result.title}: {', '.join(values)}")
            else:
                lines.append(titled_headline(result))
                lines += [f"  {line}" for line in result.report.lines]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The JSON output, whose keys other programs read."""
        from calcli.evaluation.json_output import evaluation_json

        return evaluation_json(self)

    def _repr_html_(self) -> str:
        """HTML tables for notebooks: per bundle the metrics of each version."""
        parts = []
        for results in self.bundles:
            first = results[0]
            title = f"{first.bundle}: {first.n} rows, {classes(first.n_classes)}"
            names = dict.fromkeys(name for result in results for name in result.scores)
            lines = {
                name: [value_text(result.scores.get(name)) for result in results]
                for name in names
            }
            notes = []
            for result in results:
                if result.report is not None:
                    notes.append(f"{result.title}: {result.report.headline}")
            titles = [result.title for result in results]
            parts.append(html_table(title, titles, lines, notes))
        return "".join(parts)


def titled_headline(result: Result) -> str:
    """The headline of a result, headed by the names of rows and version."""
    assert result.report is not None
    return f"{result.bundle}, {result.title}: {result.report.headline}"


def html_table(
    title: str,
    head: Sequence[str],
    lines: Mapping[str, Sequence[str]],
    notes: Sequence[str],
) -> str:
    """HTML table for notebooks.

    lines : cells under ``head``, by row header. notes : list above the table.
    """
    rows = [f"<tr>{_cells('th', ['', *head])}</tr>"]
    for name, line in lines.items():
        rows.append(f"<tr>{_cells('th', [name])}{_cells('td', line)}</tr>")
    table = f"<table>{''.join(rows)}</table>"
    return f"<div>{_cells('b', [title])}<ul>{_cells('li', notes)}</ul>{table}</div>"


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)


def value_text(score: Score | None) -> str:
    """Value of a score with its standard error or interval, ``-`` for none."""
    if score is None or score.value is None:
        return "-"
    text = f"{score.value:.4f}"
    if score.se:
        return f"{text} ± {score.se:.4f}"
    if score.interval is not None:
        return f"{text} [{score.interval.low:.4f}, {score.interval.high:.4f}]"
    return text
