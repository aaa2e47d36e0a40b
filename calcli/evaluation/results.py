"""What an evaluation found, as objects. Text, JSON, JUnit and tables are made from these.

``to_dict`` gives the JSON output, whose keys other programs read; a test pins them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from html import escape
from typing import Any

from calcli.errors import needed
from calcli.evaluation.verdict_results import Judgement
from calcli.fast_dataclass import Record, as_json, dataclass
from calcli.metrics.catalog import signature
from calcli.metrics.context import MetricSettings, Value
from calcli.metrics.friedman import Friedman
from calcli.metrics.intervals import Interval
from calcli.metrics.nulls import Null
from calcli.metrics.significance import GroupGap, p_text

ENDS = {"lo": "ci", "hi": "ci", "p": "p_value", "null": "null_mean", "se": "se"}
"""Keys of what belongs to a value, by the word that names it after a dot: ``nll.lo``, ``ece.p``."""


def end_of(facts: Mapping[str, Any], end: str) -> float | None:
    """What belongs to a value, or for any other word the value itself. facts : a score or difference as JSON."""
    found = facts.get(ENDS.get(end, "value"))
    return found[end == "hi"] if found is not None and end in ("lo", "hi") else found


@dataclass(frozen=True)
class Score(Record):
    """One metric of one result: its value, or the reason why it has none, and how far to trust it.

    null : the value expected under calibration. p_value : under calibration.
    more : further facts of one metric, under the names of the JSON output.
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

    JSON = {"name": None, "interval": "", "null": "", "more": ""}
    OPTIONAL = ("reason", "se", "p_value")

    @classmethod
    def of(cls, name: str, value: Value, settings: MetricSettings) -> "Score":
        """A measured value with its signature."""
        p = value.null.p_value if value.p_value is None and value.null is not None else value.p_value
        signed = signature(name, settings, value.signature.items())
        return cls(name, value.value, signed, value.reason, value.se, value.interval, value.null, p, value.more)

    @property
    def draws(self) -> int:
        """Resamples behind the p-value, 0 where a formula gives it."""
        return int(self.more.get("resamples", 0)) if self.null is None else self.null.resamples

    @property
    def end_words(self) -> str:
        """What an interval from 0 means where calibration is rejected; else nothing."""
        i, p = self.interval, self.p_value
        if i is None or p is None or i.low > 0.0 or p > 1.0 - i.level:
            return ""
        return f"more than 0 ({p_text(p, self.draws)}); how much more these samples do not show"


@dataclass(frozen=True)
class Difference:
    """Mean paired difference of a loss, this minus the baseline; p_value two-sided. reason : why no interval.

    answers : of the accuracy of unweighted rows, how many become right, and wrong.
    """

    value: float
    se: float | None
    interval: Interval | None = None
    p_value: float | None = None
    reason: str | None = None
    answers: tuple[int, int] | None = None

    def to_dict(self) -> dict[str, Any]:
        p: dict[str, Any] = {} if self.p_value is None else {"p_value": self.p_value}
        if self.answers is not None:
            p |= dict(zip(("become_right", "become_wrong"), self.answers, strict=True))
        ci = as_json(self.interval) or {} if self.reason is None else {"ci": None, "ci_reason": self.reason}
        return {"value": self.value, "se": self.se, **ci, **p}


@dataclass(frozen=True)
class Paired(Record):
    """Differences to the baseline by metric. baseline : artifact, None for the uncalibrated scores."""

    baseline: str | None
    differences: Mapping[str, Difference]


@dataclass(frozen=True)
class ClassLine(Record):
    """One class: rows, predictions, mean probability beside frequency with the p-value of their gap, errors.

    p_adjusted : the p-value that decides, all classes and the verdict considered; significant : is it at most 5 %?
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

    JSON = {"index": "class"}


@dataclass(frozen=True)
class GroupLine(Record):
    """One group of rows: how far it is off on average with its p-value, and the metrics.

    gap : in every line mean confidence minus accuracy, or, where ``of_positive``, which only two classes have, mean
    P(class 1) minus the frequency of class 1. interval : of the gap. frequency, mean : of class 1, and of P(class 1).
    p_adjusted, significant : as of ``ClassLine``. other : the gap of the other quantity, where it is significant.
    """

    group: Any
    n: int
    gap: float
    of_positive: bool
    p_value: float
    p_adjusted: float
    significant: bool
    frequency: float | None
    mean: float | None
    interval: Interval
    scores: Mapping[str, Score]
    other: GroupGap | None = None

    JSON = {"interval": "", "scores": "metrics"}
    OPTIONAL = ("other",)


@dataclass(frozen=True)
class Result(Record):
    """One bundle with one calibrator (None: uncalibrated). n_classes : None of confidences alone. units :
    what is known of rows that belong together."""

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
    units: Mapping[str, Any] | None = None

    @property
    def units_words(self) -> str:
        """How many units there are, and what their rows are worth; empty where each row is alone."""
        u = self.units
        if u is None or "n" not in u:
            return "" if u is None else f"rows are taken as independent (--unit {u['name']})"
        return (
            f"{u['n']:,} units ({u['name']}) of up to {u['largest']:,} rows: design effect {u['design_effect']:.2f},"
            f" worth {u['effective_rows']:,.0f} independent rows"
        )

    JSON = {"scores": "metrics"}
    OPTIONAL = ("paired", "counts", "report", "per_class", "per_group", "units")

    @property
    def p_legend(self) -> str:
        """Of every p-value its test, and the least that its draws can give."""
        drawn: dict[int, list[str]] = {}
        for name, score in self.scores.items():
            if score.p_value is not None:
                drawn.setdefault(score.draws, []).append(name)
        joint = 0.0 if self.report is None else self.report.draws
        found = ["of the verdict, one test of mean gap, sharpness and smooth error" + _least(joint)] * bool(joint)
        for draws, names in drawn.items():
            how = f"draws under calibration{_least(draws)}" if draws else "by a formula"
            found.append(f"{', '.join(names)}: {how}")
        return f"p-values: {'; '.join(found)}"

    def change(self, name: str) -> Difference | None:
        """How a loss differs from the baseline's, where that is known."""
        return None if self.paired is None else self.paired.differences.get(name)

    @property
    def title(self) -> str:
        """The calibrator as people call it."""
        return self.calibrator or "uncalibrated"


@dataclass(frozen=True)
class Ranks(Record):
    """Average ranks of the calibrators over bundles with Friedman's test, by metric."""

    calibrators: tuple[str, ...]
    n_bundles: int
    tests: Mapping[str, Friedman]

    JSON = {"tests": "metrics"}


@dataclass(frozen=True)
class Evaluation:
    """Everything that one command evaluated. bundles : per bundle its results, uncalibrated first."""

    bundles: Sequence[Sequence[Result]]
    ranks: Ranks | None = None
    limits: Sequence[Mapping[str, Any]] = ()

    @property
    def results(self) -> list[Result]:
        """All results in order."""
        return [result for results in self.bundles for result in results]

    @property
    def verdict(self) -> str:
        """The verdict in a sentence; of several versions a line each, with its name before it."""
        told = [(result, result.report.verdict) for result in self.results if result.report is not None]
        if len(told) == 1:
            return told[0][1]
        return "\n".join(f"{result.bundle}, {result.title}: {words}" for result, words in told)

    def to_frame(self) -> Any:
        """A pandas DataFrame of a line per bundle, version and metric: value, interval, p-value, expected value.

        Raises UsageError without pandas, which nothing else needs.
        """
        with needed("to_frame needs pandas: pip install pandas"):
            from pandas import DataFrame

        return DataFrame(
            {
                "bundle": result.bundle,
                "version": result.title,
                "metric": name,
                "value": score.value,
                "low": None if score.interval is None else score.interval.low,
                "high": None if score.interval is None else score.interval.high,
                "p_value": score.p_value,
                "expected": None if score.null is None else score.null.mean,
            }
            for result in self.results
            for name, score in result.scores.items()
        )

    def __repr__(self) -> str:
        """A few lines: the verdict, or what was measured where there is none."""
        found = [f"{r.title}: {', '.join(f'{n} {_shown(s)}' for n, s in r.scores.items())}" for r in self.results]
        return f"<calcli evaluation of {len(self.results)} versions>\n" + (self.verdict or "\n".join(found))

    def to_dict(self) -> dict[str, Any]:
        """The JSON output."""
        whole: dict[str, Any] = {"calcli_evaluation": 1, "results": [result.to_dict() for result in self.results]}
        if self.ranks is not None:
            whole["ranks"] = self.ranks.to_dict()
        if self.limits:
            whole["limits"] = [dict(limit) for limit in self.limits]
        return whole

    def _repr_html_(self) -> str:
        """Tables for notebooks: per bundle the metrics of each calibrator, and the verdicts."""
        return "".join(_html_table(results) for results in self.bundles)


def _least(draws: float) -> str:
    """The bound on p-values that are ranks among so many draws."""
    return f" (no p-value below {p_text(0.0, draws).removeprefix('p < ')})"


def _html_table(results: Sequence[Result]) -> str:
    names = list(dict.fromkeys(name for result in results for name in result.scores))
    head = "".join(f"<th>{escape(result.title)}</th>" for result in results)
    lines = "".join(
        f"<tr><th>{escape(name)}</th>" + "".join(f"<td>{_shown(r.scores.get(name))}</td>" for r in results) + "</tr>"
        for name in names
    )
    verdicts = "".join(
        f"<li>{escape(result.title)}: {escape(result.report.verdict)}</li>" for result in results if result.report
    )
    title = ""
    if results:
        k = results[0].n_classes
        title = f"{escape(results[0].bundle)}: {results[0].n} rows, {'confidences' if k is None else f'{k} classes'}"
    return f"<div><b>{title}</b><ul>{verdicts}</ul><table><tr><th></th>{head}</tr>{lines}</table></div>"


def _shown(score: Score | None) -> str:
    if score is None or score.value is None:
        return "-"
    spread = f" ± {score.se:.4f}" if score.se else ""
    if score.se == 0.0 and score.interval is not None:
        spread = f" [{score.interval.low:.4f}, {score.interval.high:.4f}]"
    return f"{score.value:.4f}{spread}"
