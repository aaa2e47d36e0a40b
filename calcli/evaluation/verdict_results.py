"""The judgement beside the metrics, as objects: what was evaluated, how it is off, and what would correct it."""

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from calcli.fast_dataclass import Record, as_json, dataclass
from calcli.metrics.confidence_bins import ConfidenceBin
from calcli.metrics.intervals import Interval, normal_quantile, t_to_normal
from calcli.metrics.significance import MeanGap, p_text

VerdictKind = Literal["calibrated", "overconfident", "underconfident", "mixed", "too_few", "check_labels"]

SIZES = ((0.01, "very slightly"), (0.03, "a little"), (0.08, "clearly"), (math.inf, "much"))
"""Words for the size of a gap, each with where the next begins."""

ONE_SIDED = normal_quantile(0.95)

OFF = 0.03
"""Gap of a significant bin from which a small mean gap is no comfort."""


@dataclass(frozen=True)
class LossPart:
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

    def to_dict(self) -> dict[str, float]:
        return {
            "value": self.loss,
            "refinement": self.refinement,
            "calibration": self.calibration,
            "calibration_se": self.se,
            "calibration_share": self.calibration / self.loss if self.detected and self.loss > 0 else 0.0,
        }


@dataclass(frozen=True)
class LossSplit:
    """The split by one recalibration method, and by how much a temperature alone could reduce the NLL."""

    method: str
    folds: int
    nll: LossPart
    brier: LossPart
    temperature_nll: LossPart

    def to_dict(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "folds": self.folds,
            "nll": self.nll.to_dict(),
            "brier": self.brier.to_dict(),
            "temperature": {"nll": self.temperature_nll.to_dict()},
        }


@dataclass(frozen=True)
class DataSummary:
    """What was evaluated: rows, classes, class balance, distinct confidences.

    Of confidences alone there are no classes: None, and neither are their shares. class_1 : name of
    class 1 of two, where the classes have names.
    """

    n: int
    n_classes: int | None
    kind: str
    weighted: bool
    largest_class_share: float | None
    smallest_class_share: float | None
    absent_classes: int
    distinct_confidences: int
    class_1: str | None = None


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
    """Calibration class by class: debiased L2 error, and the classes whose total probability is off.

    p_value : that no class is off, all classes considered.
    """

    value: float | None
    signed_square: float
    p_value: float
    n_significant: int
    significant_classes: tuple[int, ...]


@dataclass(frozen=True)
class Groupwise:
    """Calibration group by group: how many are off on average, and the worst, by significance.

    p_value : that no group is off, all groups considered. of_positive : is the worst gap that of P(class 1)?
    """

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
        """The same with the other sign."""
        i = self.interval
        return Estimate(-self.value, Interval(-i.high, -i.low, i.level, i.method))

    @property
    def size(self) -> str:
        """A word for how large it is."""
        return next(word for limit, word in SIZES if not abs(self.value) >= limit)


@dataclass(frozen=True)
class Advice(Record):
    """What to do: in a few words, why, and the command for it, or nothing.

    calibrator : the one to apply, of those that were evaluated beside. clause : what the verdict says of it.
    """

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
    adjusted p-values.
    """

    data: DataSummary
    direction: Direction
    classwise: Classwise | None
    split: LossSplit | None
    found: tuple[str, ...]
    verdict_kind: VerdictKind
    overconfidence: Estimate
    advice: Advice
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
        """The p-value in words, whose it is where it is not the confidence's."""
        text = p_text(self.p_value, self.draws)
        return text if self.tested == "confidence" else f"{self.tested}: {text}"

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
        facts = vars(self) | {
            "positive": p and interval and {"gap": p.gap, "z": p.z, "p_value": p.p_value, **interval.to_dict()},
            "bins": [each for each in self.bins if each.accuracy == each.accuracy],  # those that hold rows
            "verdict": self.verdict,
            "verdict_size": self.size,
        }
        return {name: as_json(facts[name]) for name in SHOWN}
