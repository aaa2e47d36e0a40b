"""Results of an evaluation, from which text, JSON, JUnit and tables are made.

``to_dict`` returns the JSON output, whose keys other programs read; a test pins them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from html import escape
from typing import Any, Literal

from calcli.errors import needed
from calcli.fast_dataclass import Record, as_json, dataclass
from calcli.metrics.catalog import metric, signature
from calcli.metrics.confidence_bins import ConfidenceBin
from calcli.metrics.context import MetricSettings, Value
from calcli.metrics.friedman import Friedman
from calcli.metrics.intervals import Interval, normal_quantile, t_to_normal
from calcli.metrics.losses import GroupGap
from calcli.metrics.nulls import Null
from calcli.metrics.significance import MeanGap, p_text
from calcli.rows import classes

# ---- the judgement: data, miscalibration, and advice

VerdictKind = Literal[
    "calibrated", "overconfident", "underconfident", "mixed", "too_few", "check_labels"
]

SIZES = (
    (0.01, "very slightly"),
    (0.03, "a little"),
    (0.08, "clearly"),
    (math.inf, "much"),
)
"""Words for the size of a gap, each with its upper limit."""

ONE_SIDED = normal_quantile(0.95)
OFF = 0.03  # gap of a significant bin from which a small mean gap gets no ✓


@dataclass(frozen=True)
class LossPart(Record):
    """Decomposition loss = refinement + calibration. se : of the calibration loss, from paired differences. units :
    effective number of units, None for independent rows."""

    loss: float
    refinement: float
    calibration: float
    se: float
    units: float | None = None

    @property
    def z(self) -> float:
        """Z-score of the calibration loss; 0 where its standard error is 0."""
        z = self.calibration / self.se if self.se > 0 else 0.0
        return z if self.units is None else t_to_normal(z, self.units - 1.0)

    @property
    def detected(self) -> bool:
        """True if the calibration loss is significantly above 0, one-sided at 5 %."""
        return self.z > ONE_SIDED

    JSON = {"loss": "value", "se": "calibration_se", "units": None}

    def to_dict(self) -> dict[str, Any]:
        share = self.calibration / self.loss if self.detected and self.loss > 0 else 0.0
        return super().to_dict() | {"calibration_share": share}


@dataclass(frozen=True)
class LossSplit(Record):
    """Loss decompositions by one recalibration method. temperature_nll : of the NLL by temperature scaling alone."""

    method: str
    folds: int
    nll: LossPart
    brier: LossPart
    temperature_nll: LossPart

    JSON = {"temperature_nll": None}

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {
            "temperature": {"nll": self.temperature_nll.to_dict()}
        }


@dataclass(frozen=True)
class DataSummary(Record):
    """Facts about the evaluated rows: number, classes, class balance, distinct confidences. For confidences alone the
    number of classes and their frequencies are None. class_1 : name of class 1 of two, if classes have names. names :
    of all classes."""

    JSON = {"names": None}

    n: int
    n_classes: int | None
    kind: str
    weighted: bool
    largest_class_share: float | None
    smallest_class_share: float | None
    absent_classes: int
    distinct_confidences: int
    class_1: str | None = None
    names: Sequence[str] | None = None


@dataclass(frozen=True)
class Direction:
    """Mean confidence minus accuracy and NLL minus entropy, each with its z. words : the significant ones."""

    gap: float
    gap_z: float
    entropy_gap: float
    entropy_z: float
    words: str


@dataclass(frozen=True)
class Classwise:
    """Calibration class by class: debiased L2 error, and the classes with a significant mean gap. p_value : of the null
    that no class is miscalibrated, adjusted for all classes."""

    value: float | None
    signed_square: float
    p_value: float
    n_significant: int
    significant_classes: tuple[int, ...]


@dataclass(frozen=True)
class Groupwise:
    """Calibration group by group: number with a significant mean gap, and the most significant. p_value : of the null
    that no group is miscalibrated, adjusted for all groups. of_positive : is the worst gap that of P(class 1)?"""

    n_groups: int
    n_significant: int
    worst: str
    worst_n: int
    worst_gap: float
    p_value: float
    of_positive: bool = False


@dataclass(frozen=True)
class Estimate(Record):
    """A value with its confidence interval."""

    value: float
    interval: Interval

    JSON = {"interval": ""}

    def __str__(self) -> str:
        return f"{self.value:z.4f} {self.interval}"

    @property
    def turned(self) -> "Estimate":
        i = self.interval
        return Estimate(-self.value, Interval(-i.high, -i.low, i.level, i.method))

    @property
    def size(self) -> str:
        """Word for the magnitude of the value."""
        return next(word for limit, word in SIZES if not abs(self.value) >= limit)


def sentence(words: str) -> str:
    """Capitalise the first letter only."""
    return words[:1].upper() + words[1:]


@dataclass(frozen=True)
class Advice(Record):
    """Advice. lead : what to do, in a few words. rest : why. command : for it, empty if none. calibrator : the
    evaluated one to apply. clause : the advice in the verdict."""

    lead: str
    rest: str = ""
    command: str = ""
    calibrator: str | None = None
    clause: str = ""

    JSON = {"clause": None}


SHOWN = (
    *(
        "data",
        "direction",
        "classwise",
        "split",
        "groups",
        "positive",
        "overconfidence",
        "bins",
        "findings",
    ),
    *(
        "verdict",
        "verdict_kind",
        "verdict_size",
        "advice",
        "rows_needed",
        "tested",
        "p_value",
        "p_overall",
    ),
)
"""Fields of a report in the JSON output."""


@dataclass(frozen=True)
class Judgement:
    """Verdict on one set of rows with its evidence, which all output quotes. found : the findings, in clauses.

    verdict_kind : in a word. overconfidence : mean confidence minus accuracy. tested : quantity of the joint test,
    ``confidence`` or ``P(class 1)``; p_value : of that test, from ``draws`` draws. p_overall : of the whole verdict,
    its clauses included; both are significant up to 0.05. positive : for two classes, mean P(class 1) minus the
    frequency of class 1; positive_gap : the same with its interval. findings : significantly miscalibrated parts:
    ``confidence`` (what is ``tested``), ``classes``, ``groups``, ``bins``, ``split``. bins : by stated confidence.
    gates : p-values that classes, groups and bins must pass together before one of them is called significant.
    rows_needed : to estimate the overconfidence to one point. doubt : why the labels may not belong to the scores.
    units : their number, None for independent rows. errors : significant calibration errors, with their adjusted
    p-values. worst : the bin of P(class 1) with the clearest gap, where P(class 1) is miscalibrated.
    """

    data: DataSummary
    direction: Direction
    verdict_kind: VerdictKind
    overconfidence: Estimate
    classwise: Classwise | None = None
    split: LossSplit | None = None
    found: tuple[str, ...] = ()
    advice: Advice = Advice("")
    tested: str = "confidence"
    p_value: float = 1.0
    p_overall: float = 1.0
    draws: float = 0
    groups: Groupwise | None = None
    positive: MeanGap | None = None
    positive_gap: Estimate | None = None
    findings: tuple[str, ...] = ()
    bins: tuple[ConfidenceBin, ...] = ()
    rows_needed: int = 0
    gates: Mapping[str, float] = field(default_factory=dict)
    doubt: str = ""
    units: int | None = None
    errors: Mapping[str, float] = field(default_factory=dict)
    worst: ConfidenceBin | None = None

    @property
    def verdict(self) -> str:
        """The verdict in one sentence: findings, advice, and its command."""
        a = self.advice
        return "; ".join(
            [
                *self.found,
                *([": ".join(filter(None, (a.clause, a.command)))] if a.clause else []),
            ]
        )

    @property
    def size(self) -> str:
        """Word for the size of an over- or underconfidence; empty for other verdicts."""
        return (
            self.overconfidence.size
            if self.verdict_kind in ("overconfident", "underconfident")
            else ""
        )

    @property
    def p_text(self) -> str:
        return p_text(self.p_value, self.draws)

    @property
    def sign(self) -> str:
        """Symbol: ✓ calibrated or negligibly off; ▲ over-, ▼ underconfident, ▲▼ mixed; – too few samples; ? else."""
        slight = self.size == SIZES[0][1] and not any(
            b.significant and abs(b.gap) >= OFF for b in self.bins
        )
        if self.verdict_kind == "calibrated" or slight:
            return "✓"
        return {
            "overconfident": "▲",
            "underconfident": "▼",
            "mixed": "▲▼",
            "too_few": "–",
        }.get(self.verdict_kind, "?")

    @property
    def word(self) -> str:
        """The verdict in two or three words, for tables."""
        if self.size:
            return f"{self.size} {self.verdict_kind}"
        if self.verdict_kind == "mixed":
            parts = [
                part for part in ("classes", "groups", "bins") if part in self.findings
            ]
            whole = "confidence" in self.findings or not parts
            return (
                "miscalibrated in places"
                if whole
                else f"miscalibrated for some {parts[0]}"
            )
        if self.verdict_kind == "too_few":
            return self.found[0].partition(" (")[0].partition(":")[0]
        return (
            "Check the labels first"
            if self.verdict_kind == "check_labels"
            else self.verdict_kind
        )

    def to_dict(self) -> dict[str, Any]:
        p, interval = self.positive, self.positive_gap and self.positive_gap.interval
        positive = (
            p
            and interval
            and {"gap": p.gap, "z": p.z, "p_value": p.p_value, **interval.to_dict()}
        )
        bins = [
            each for each in self.bins if each.accuracy == each.accuracy
        ]  # those that hold rows
        more = {
            "positive": positive,
            "bins": bins,
            "verdict": self.verdict,
            "verdict_size": self.size,
        }
        return {name: as_json((vars(self) | more)[name]) for name in SHOWN}


# ---- the results

ENDS = {"lo": "ci", "hi": "ci", "p": "p_value", "null": "null_mean", "se": "se"}
"""JSON keys of the facts about a value, by their suffix in a limit: ``nll.lo``, ``ece.p``."""


def end_of(facts: Mapping[str, Any], end: str) -> float | None:
    """Look up the fact that a key of ``ENDS`` names, else the value. facts : a score or difference as JSON."""
    found = facts.get(ENDS.get(end, "value"))
    return found[end == "hi"] if found is not None and end in ("lo", "hi") else found


@dataclass(frozen=True)
class Score(Record):
    """Metric of one result: its value, or the reason for none, with its uncertainty. null : distribution under
    calibration. p_value : under calibration. more : further facts about the metric, by their names in the JSON
    output."""

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
        """Build the score of a measured value, with its signature."""
        p = (
            value.null.p_value
            if value.p_value is None and value.null is not None
            else value.p_value
        )
        signed = signature(name, settings, value.signature.items())
        return cls(
            name,
            value.value,
            signed,
            value.reason,
            value.se,
            value.interval,
            value.null,
            p,
            value.more,
        )

    @property
    def draws(self) -> int:
        """Resamples behind the p-value, 0 where a formula gives it."""
        return (
            int(self.more.get("resamples", 0))
            if self.null is None
            else self.null.resamples
        )

    @property
    def end_words(self) -> str:
        """Words for an interval that starts at 0 although calibration is rejected; else empty."""
        i, p = self.interval, self.p_value
        if i is None or p is None or i.low > 0.0 or p > 1.0 - i.level:
            return ""
        return f"more than 0 ({p_text(p, self.draws)}); how much more these samples do not show"


@dataclass(frozen=True)
class Difference:
    """Mean paired difference of a loss, calibrator minus baseline; p_value two-sided. reason : for no interval.
    answers : for the accuracy of unweighted rows, numbers that become right, and wrong."""

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
        ci = (
            as_json(self.interval) or {}
            if self.reason is None
            else {"ci": None, "ci_reason": self.reason}
        )
        return {"value": self.value, "se": self.se, **ci, **p}


@dataclass(frozen=True)
class Paired(Record):
    """Paired differences to the baseline, by metric. baseline : its artifact, None for the uncalibrated scores."""

    baseline: str | None
    differences: Mapping[str, Difference]


@dataclass(frozen=True)
class ClassLine(Record):
    """Line of one class: rows, predictions, frequency, mean probability and the p-value of their gap, errors.
    p_adjusted : adjusted for all classes and the verdict; significant : is it at most 5 %?"""

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
    """Line of one group of rows: mean gap with its p-value, and the metrics. gap : mean confidence minus accuracy, or,
    where ``of_positive`` (two classes only; the same in every line), mean P(class 1) minus the frequency of class 1.
    interval : of the gap. frequency, mean : of class 1, and of P(class 1). p_adjusted, significant : as in
    ``ClassLine``. other : the gap of the other quantity, where it is significant."""

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
    """Result of one bundle with one calibrator (None: the scores as given). n_classes : None for confidences alone.
    units : facts about the units of the rows. given : name for people of the scores as given."""

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
    given: str = "uncalibrated"

    @property
    def units_words(self) -> str:
        """Sentence on the number of units and the effective number of rows; empty for independent rows."""
        u = self.units
        if u is None or "n" not in u:
            return (
                ""
                if u is None
                else f"rows are taken as independent (--unit {u['name']})"
            )
        worth = f"worth {u['effective_rows']:,.0f} independent rows (design effect {u['design_effect']:.2f})"
        return f"{u['n']:,} units ({u['name']}) of up to {u['largest']:,} rows: for the overconfidence {worth}"

    JSON = {"scores": "metrics", "given": None}
    OPTIONAL = ("paired", "counts", "report", "per_class", "per_group", "units")

    def p_legend(self, names: Iterable[str]) -> str:
        """Legend of the p-values of metrics and verdict: the test of each, and the least p-value of its draws."""
        drawn: dict[int, list[str]] = {}
        for name in names:
            if self.scores[name].p_value is not None:
                drawn.setdefault(self.scores[name].draws, []).append(name)
        joint = 0.0 if self.report is None else self.report.draws
        found = [
            "of the verdict, one test of mean gap, sharpness and smooth error"
            + _least(joint)
        ] * bool(joint)
        for draws, names in drawn.items():
            how = f"draws under calibration{_least(draws)}" if draws else "by a formula"
            found.append(f"{', '.join(names)}: {how}")
        return f"p-values: {'; '.join(found)}"

    def change(self, name: str) -> Difference | None:
        """Paired difference of a metric to the baseline's, None if unknown."""
        return None if self.paired is None else self.paired.differences.get(name)

    @property
    def loss(self) -> Difference | None:
        """Change of the NLL; for confidences alone, of the Brier score of being right."""
        return self.change("nll") or self.change("brier_top")

    @property
    def title(self) -> str:
        return self.calibrator or self.given

    @property
    def shown(self) -> list[str]:
        """Names of the metrics to show: in a report those of its table, else all that were asked for."""
        return [
            name for name in self.scores if self.report is None or metric(name).in_table
        ]


@dataclass(frozen=True)
class Ranks(Record):
    """Average ranks of the calibrators over bundles with Friedman's test, by metric."""

    calibrators: tuple[str, ...]
    n_bundles: int
    tests: Mapping[str, Friedman]

    JSON = {"tests": "metrics"}


@dataclass(frozen=True)
class Evaluation:
    """All results of one evaluation. bundles : per bundle its results, uncalibrated first."""

    bundles: Sequence[Sequence[Result]]
    ranks: Ranks | None = None
    limits: Sequence[Mapping[str, Any]] = ()

    @property
    def results(self) -> list[Result]:
        """All results in order."""
        return [result for results in self.bundles for result in results]

    @property
    def verdict(self) -> str:
        """The verdict in a sentence; for several results one line each, headed by its name."""
        told = [
            (result, result.report.verdict)
            for result in self.results
            if result.report is not None
        ]
        if len(told) == 1:
            return told[0][1]
        return "\n".join(
            f"{result.bundle}, {result.title}: {words}" for result, words in told
        )

    def to_frame(self) -> Any:
        """Pandas DataFrame with a row per bundle, version and metric: value, interval, p-value, expected value. Raises
        UsageError without pandas, which nothing else needs."""
        with needed("to_frame needs pandas: pip install pandas"):
            from pandas import DataFrame

        names = (
            "bundle",
            "version",
            "metric",
            "value",
            "low",
            "high",
            "p_value",
            "expected",
        )
        lines = []
        for result in self.results:
            for name, s in result.scores.items():
                ends = (
                    (None, None)
                    if s.interval is None
                    else (s.interval.low, s.interval.high)
                )
                expected = None if s.null is None else s.null.mean
                line = (
                    result.bundle,
                    result.title,
                    name,
                    s.value,
                    *ends,
                    s.p_value,
                    expected,
                )
                lines.append(dict(zip(names, line, strict=True)))
        return DataFrame(lines)

    def __repr__(self) -> str:
        found = [
            f"{r.title}: {', '.join(f'{n} {_shown(s)}' for n, s in r.scores.items())}"
            for r in self.results
        ]
        return f"<calcli evaluation of {len(self.results)} versions>\n" + (
            self.verdict or "\n".join(found)
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON output."""
        more = {
            name: value
            for name, value in (("ranks", self.ranks), ("limits", self.limits))
            if value
        }
        return {
            "calcli_evaluation": 1,
            "results": as_json(self.results),
            **as_json(more),
        }

    def _repr_html_(self) -> str:
        """HTML tables for notebooks: per bundle the metrics of each calibrator, and the verdicts."""
        found = ""
        for results in self.bundles:
            title = f"{results[0].bundle}: {results[0].n} rows, {classes(results[0].n_classes)}"
            lines = {
                name: [_shown(r.scores.get(name)) for r in results]
                for r in results
                for name in r.scores
            }
            verdicts = [
                f"{result.title}: {result.report.verdict}"
                for result in results
                if result.report
            ]
            found += html_table(
                title, [result.title for result in results], lines, verdicts
            )
        return found


def _least(draws: float) -> str:
    """Words for the lower bound of p-values that are ranks among so many draws."""
    return f" (no p-value below {p_text(0.0, draws).removeprefix('p < ')})"


def html_table(
    title: str,
    head: Sequence[str],
    lines: Mapping[str, Sequence[str]],
    notes: Sequence[str],
) -> str:
    """HTML table for notebooks. lines : cells under ``head``, by row header. notes : list above the table."""

    def cells(kind: str, words: Iterable[str]) -> str:
        return "".join(f"<{kind}>{escape(word)}</{kind}>" for word in words)

    rows = "".join(
        f"<tr>{cells('th', [name])}{cells('td', line)}</tr>"
        for name, line in lines.items()
    )
    table = f"<table><tr>{cells('th', ['', *head])}</tr>{rows}</table>"
    return f"<div>{cells('b', [title])}<ul>{cells('li', notes)}</ul>{table}</div>"


def _shown(score: Score | None) -> str:
    if score is None or score.value is None:
        return "-"
    spread = f" ± {score.se:.4f}" if score.se else ""
    if score.se == 0.0 and score.interval is not None:
        spread = f" [{score.interval.low:.4f}, {score.interval.high:.4f}]"
    return f"{score.value:.4f}{spread}"
