"""What an evaluation found, as objects. Text, JSON, JUnit and tables are made from these.

``to_dict`` gives the JSON output, whose keys other programs read; a test pins them.
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

# ---- the judgement: what was evaluated, how it is off, and what would correct it

VerdictKind = Literal["calibrated", "overconfident", "underconfident", "mixed", "too_few", "check_labels"]

SIZES = ((0.01, "very slightly"), (0.03, "a little"), (0.08, "clearly"), (math.inf, "much"))
"""Words for the size of a gap, each with where the next begins."""

ONE_SIDED = normal_quantile(0.95)
OFF = 0.03  # gap of a significant bin from which a small mean gap is no comfort


@dataclass(frozen=True)
class LossPart(Record):
    """loss = refinement + calibration; se of the calibration part from paired differences, where rows
    belong together of so many units."""

    loss: float
    refinement: float
    calibration: float
    se: float
    units: float | None = None

    @property
    def z(self) -> float:
        """Standard score of the calibration part; 0 where it has no spread."""
        z = self.calibration / self.se if self.se > 0 else 0.0
        return z if self.units is None else t_to_normal(z, self.units - 1.0)

    @property
    def detected(self) -> bool:
        """Is it significantly above 0, one-sided at 5 %?"""
        return self.z > ONE_SIDED

    JSON = {"loss": "value", "se": "calibration_se", "units": None}

    def to_dict(self) -> dict[str, Any]:
        share = self.calibration / self.loss if self.detected and self.loss > 0 else 0.0
        return super().to_dict() | {"calibration_share": share}


@dataclass(frozen=True)
class LossSplit(Record):
    """The split by one recalibration method, and by how much a temperature alone could reduce the NLL."""

    method: str
    folds: int
    nll: LossPart
    brier: LossPart
    temperature_nll: LossPart

    JSON = {"temperature_nll": None}

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"temperature": {"nll": self.temperature_nll.to_dict()}}


@dataclass(frozen=True)
class DataSummary(Record):
    """What was evaluated: rows, classes, class balance, distinct confidences. Of confidences alone there are no
    classes: None, and neither are their shares. class_1 : name of class 1 of two, where the classes have names. names :
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
    """Mean confidence minus accuracy and NLL minus entropy, each with its z; in words what of it is significant."""

    gap: float
    gap_z: float
    entropy_gap: float
    entropy_z: float
    words: str


@dataclass(frozen=True)
class Classwise:
    """Calibration class by class: debiased L2 error, and the classes whose total probability is off. p_value : that no
    class is off, all classes considered."""

    value: float | None
    signed_square: float
    p_value: float
    n_significant: int
    significant_classes: tuple[int, ...]


@dataclass(frozen=True)
class Groupwise:
    """Calibration group by group: how many are off on average, and the worst, by significance. p_value : that no group
    is off, all groups considered. of_positive : is the worst gap that of P(class 1)?"""

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
        """A word for how large it is."""
        return next(word for limit, word in SIZES if not abs(self.value) >= limit)


def sentence(words: str) -> str:
    """Words as a sentence begins: the first letter large, all others as they are."""
    return words[:1].upper() + words[1:]


@dataclass(frozen=True)
class Advice(Record):
    """What to do: in a few words, why, and the command for it, or nothing. calibrator : the one to apply, of those that
    were evaluated beside. clause : what the verdict says of it."""

    lead: str
    rest: str = ""
    command: str = ""
    calibrator: str | None = None
    clause: str = ""

    JSON = {"clause": None}


SHOWN = (
    *("data", "direction", "classwise", "split", "groups", "positive", "overconfidence", "bins", "findings"),
    *("verdict", "verdict_kind", "verdict_size", "advice", "rows_needed", "tested", "p_value", "p_overall"),
)
"""What JSON has of a report."""


@dataclass(frozen=True)
class Judgement:
    """The one judgement, which everything printed quotes. found : what is so, in clauses.

    verdict_kind : in a word. overconfidence : mean confidence minus accuracy. tested : what the joint test is of,
    ``confidence`` or ``P(class 1)``; p_value : of that test, from ``draws`` draws. p_overall : of the whole verdict,
    its clauses included; both are significant from 0.05 down. positive : of two classes, mean P(class 1) minus the
    frequency of class 1; positive_gap : the same with its interval. findings : what the verdict found off:
    ``confidence`` (what is ``tested``), ``classes``, ``groups``, ``bins``, ``split``. bins : by stated confidence.
    gates : p-values that classes, groups and bins must pass together before one of them is called significant.
    rows_needed : that tell the overconfidence to one point. doubt : why the labels may not belong to the scores.
    units : how many there are, None where each row is alone. errors : significant calibration errors, with their
    adjusted p-values. worst : the bin of P(class 1) with the most clear gap, where that is found off.
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
        """One sentence: what is so, what to do about it, and the command."""
        a = self.advice
        return "; ".join([*self.found, *([": ".join(filter(None, (a.clause, a.command)))] if a.clause else [])])

    @property
    def size(self) -> str:
        """A word for the size of the gap of an over- or underconfidence, else nothing."""
        return self.overconfidence.size if self.verdict_kind in ("overconfident", "underconfident") else ""

    @property
    def p_text(self) -> str:
        return p_text(self.p_value, self.draws)

    @property
    def sign(self) -> str:
        """✓ calibrated, or so nearly that it hardly matters; ▲ over-, ▼ underconfident, ▲▼ mixed; – too few; ? else."""
        slight = self.size == SIZES[0][1] and not any(b.significant and abs(b.gap) >= OFF for b in self.bins)
        if self.verdict_kind == "calibrated" or slight:
            return "✓"
        return {"overconfident": "▲", "underconfident": "▼", "mixed": "▲▼", "too_few": "–"}.get(self.verdict_kind, "?")

    @property
    def word(self) -> str:
        """The state for tables, in two or three words."""
        if self.size:
            return f"{self.size} {self.verdict_kind}"
        if self.verdict_kind == "mixed":
            parts = [part for part in ("classes", "groups", "bins") if part in self.findings]
            whole = "confidence" in self.findings or not parts
            return "miscalibrated in places" if whole else f"miscalibrated for some {parts[0]}"
        if self.verdict_kind == "too_few":
            return self.found[0].partition(" (")[0].partition(":")[0]
        return "Check the labels first" if self.verdict_kind == "check_labels" else self.verdict_kind

    def to_dict(self) -> dict[str, Any]:
        p, interval = self.positive, self.positive_gap and self.positive_gap.interval
        positive = p and interval and {"gap": p.gap, "z": p.z, "p_value": p.p_value, **interval.to_dict()}
        bins = [each for each in self.bins if each.accuracy == each.accuracy]  # those that hold rows
        more = {"positive": positive, "bins": bins, "verdict": self.verdict, "verdict_size": self.size}
        return {name: as_json((vars(self) | more)[name]) for name in SHOWN}


# ---- the results

ENDS = {"lo": "ci", "hi": "ci", "p": "p_value", "null": "null_mean", "se": "se"}
"""Keys of what belongs to a value, by the word that names it after a dot: ``nll.lo``, ``ece.p``."""


def end_of(facts: Mapping[str, Any], end: str) -> float | None:
    """What belongs to a value, or for any other word the value itself. facts : a score or difference as JSON."""
    found = facts.get(ENDS.get(end, "value"))
    return found[end == "hi"] if found is not None and end in ("lo", "hi") else found


@dataclass(frozen=True)
class Score(Record):
    """One metric of one result: its value, or the reason why it has none, and how far to trust it. null : the value
    expected under calibration. p_value : under calibration. more : further facts of one metric, under the names of the
    JSON output."""

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
    """Mean paired difference of a loss, this minus the baseline; p_value two-sided. reason : why no interval. answers :
    of the accuracy of unweighted rows, how many become right, and wrong."""

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
    p_adjusted : the p-value that decides, all classes and the verdict considered; significant : is it at most 5 %?"""

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
    """One group of rows: how far it is off on average with its p-value, and the metrics. gap : in every line mean
    confidence minus accuracy, or, where ``of_positive``, which only two classes have, mean P(class 1) minus the
    frequency of class 1. interval : of the gap. frequency, mean : of class 1, and of P(class 1). p_adjusted,
    significant : as of ``ClassLine``. other : the gap of the other quantity, where it is significant."""

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
    """One bundle with one calibrator (None: its scores as given). n_classes : None of confidences alone. units :
    what is known of rows that belong together. given : what people call the scores as given."""

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
        """How many units there are, and what their rows are worth; empty where each row is alone."""
        u = self.units
        if u is None or "n" not in u:
            return "" if u is None else f"rows are taken as independent (--unit {u['name']})"
        worth = f"worth {u['effective_rows']:,.0f} independent rows (design effect {u['design_effect']:.2f})"
        return f"{u['n']:,} units ({u['name']}) of up to {u['largest']:,} rows: for the overconfidence {worth}"

    JSON = {"scores": "metrics", "given": None}
    OPTIONAL = ("paired", "counts", "report", "per_class", "per_group", "units")

    def p_legend(self, names: Iterable[str]) -> str:
        """Of the p-values of these metrics and the verdict the test, and the least that its draws can give."""
        drawn: dict[int, list[str]] = {}
        for name in names:
            if self.scores[name].p_value is not None:
                drawn.setdefault(self.scores[name].draws, []).append(name)
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
    def loss(self) -> Difference | None:
        """The change of the NLL; of confidences alone of the squared error."""
        return self.change("nll") or self.change("brier_top")

    @property
    def title(self) -> str:
        return self.calibrator or self.given

    @property
    def shown(self) -> list[str]:
        """The metrics for people: of a report those in its table, else what was asked for."""
        return [name for name in self.scores if self.report is None or metric(name).in_table]


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
        """A pandas DataFrame of a line per bundle, version and metric: value, interval, p-value, expected value. Raises
        UsageError without pandas, which nothing else needs."""
        with needed("to_frame needs pandas: pip install pandas"):
            from pandas import DataFrame

        names = "bundle", "version", "metric", "value", "low", "high", "p_value", "expected"
        lines = []
        for result in self.results:
            for name, s in result.scores.items():
                ends = (None, None) if s.interval is None else (s.interval.low, s.interval.high)
                expected = None if s.null is None else s.null.mean
                line = result.bundle, result.title, name, s.value, *ends, s.p_value, expected
                lines.append(dict(zip(names, line, strict=True)))
        return DataFrame(lines)

    def __repr__(self) -> str:
        found = [f"{r.title}: {', '.join(f'{n} {_shown(s)}' for n, s in r.scores.items())}" for r in self.results]
        return f"<calcli evaluation of {len(self.results)} versions>\n" + (self.verdict or "\n".join(found))

    def to_dict(self) -> dict[str, Any]:
        """The JSON output."""
        more = {name: value for name, value in (("ranks", self.ranks), ("limits", self.limits)) if value}
        return {"calcli_evaluation": 1, "results": as_json(self.results), **as_json(more)}

    def _repr_html_(self) -> str:
        """Tables for notebooks: per bundle the metrics of each calibrator, and the verdicts."""
        found = ""
        for results in self.bundles:
            title = f"{results[0].bundle}: {results[0].n} rows, {classes(results[0].n_classes)}"
            lines = {name: [_shown(r.scores.get(name)) for r in results] for r in results for name in r.scores}
            verdicts = [f"{result.title}: {result.report.verdict}" for result in results if result.report]
            found += html_table(title, [result.title for result in results], lines, verdicts)
        return found


def _least(draws: float) -> str:
    """The bound on p-values that are ranks among so many draws."""
    return f" (no p-value below {p_text(0.0, draws).removeprefix('p < ')})"


def html_table(title: str, head: Sequence[str], lines: Mapping[str, Sequence[str]], notes: Sequence[str]) -> str:
    """A table for notebooks. lines : the cells under ``head``, by what stands before them. notes : above it."""

    def cells(kind: str, words: Iterable[str]) -> str:
        return "".join(f"<{kind}>{escape(word)}</{kind}>" for word in words)

    rows = "".join(f"<tr>{cells('th', [name])}{cells('td', line)}</tr>" for name, line in lines.items())
    table = f"<table><tr>{cells('th', ['', *head])}</tr>{rows}</table>"
    return f"<div>{cells('b', [title])}<ul>{cells('li', notes)}</ul>{table}</div>"


def _shown(score: Score | None) -> str:
    if score is None or score.value is None:
        return "-"
    spread = f" ± {score.se:.4f}" if score.se else ""
    if score.se == 0.0 and score.interval is not None:
        spread = f" [{score.interval.low:.4f}, {score.interval.high:.4f}]"
    return f"{score.value:.4f}{spread}"
